/* SPDX-License-Identifier: Apache-2.0 */
/* trivet cosim: commit logs of the model and of a design. */
#include <inttypes.h>

#include "cli/cli.h"
#include "cli/cosim_compare.h"
#include "cli/elements.h"

static const cli_option options[] = {
    COSIM_COMPARE_OPTIONS,
    {"dump", 0, "SPACE:ADDR:LEN[:TYPE]", "replay: print LEN elements of the final state; may be repeated", NULL},
};

/* ---- trivet cosim replay LOG ---- */

static void write_dump_json(const tv_range *r, const uint8_t *bytes, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "space", r->space.name);
    tv_json_unsigned_member(w, "addr", r->addr);
    tv_json_string_member(w, "type", tv_dtype_name(r->type));
    tv_json_key(w, "values");
    elements_write_json(r->type, bytes, r->count, w);
    tv_json_end_object(w);
}

static tv_status show_dump(cli *c, tv_machine *machine, const char *text, tv_json_writer *w)
{
    tv_range range;
    tv_status status = tv_machine_parse_range(machine, NULL, 0, text, &c->sink, &range);
    if (status != TV_OK)
        return status;
    size_t bytes = (size_t)tv_dtype_bytes(range.type, range.count);
    uint8_t *data = calloc(bytes + 8, 1);
    if (!data)
        return TV_ERR_MEMORY;
    status = tv_machine_read(machine, range.space.name, range.addr, data, bytes, &c->sink);
    if (status == TV_OK && w) {
        write_dump_json(&range, data, w);
    } else if (status == TV_OK) {
        printf("%s:0x%" PRIx64 " %s\n", range.space.name, range.addr, tv_dtype_name(range.type));
        elements_print(range.type, data, range.count, range.count);
    }
    free(data);
    return status;
}

static tv_status show_state(cli *c, tv_machine *machine, uint64_t records)
{
    const char *text;
    tv_status status = TV_OK;
    tv_json_writer *w = c->json ? cli_begin_result(c) : NULL;
    if (w) {
        tv_json_begin_object(w);
        tv_json_unsigned_member(w, "records", records);
        tv_json_key(w, "dumps");
        tv_json_begin_array(w);
    } else {
        printf("%s records\n", CLI_COUNT(records));
    }
    for (unsigned i = 0; status == TV_OK && (text = cli_value_at(c, "dump", i)); i++)
        status = show_dump(c, machine, text, w);
    if (w) {
        tv_json_end_array(w);
        tv_json_end_object(w);
    }
    return status;
}

/* Checks the syntax before the log is read. */
static tv_status check_dumps(cli *c, const tv_machine *machine)
{
    const char *text;
    tv_range range;
    tv_status status = TV_OK;
    for (unsigned i = 0; status == TV_OK && (text = cli_value_at(c, "dump", i)); i++)
        status = tv_machine_parse_range(machine, NULL, 0, text, &c->sink, &range);
    return status;
}

static int run_replay(cli *c)
{
    tv_commit_log_reader *reader = NULL;
    tv_machine *machine = NULL;
    uint64_t records = 0;
    if (c->file_count != 2)
        return cli_error(c, CLI_E_COUNT, "usage: trivet cosim replay LOG", "replay takes one commit log");
    tv_status status = tv_commit_log_read(c->files[1], &c->sink, &reader);
    if (status == TV_OK)
        status = cosim_make_machine(c, reader, &machine);
    if (status == TV_OK)
        status = check_dumps(c, machine);
    if (status == TV_OK)
        status = tv_commit_log_replay(reader, machine, &c->sink, &records);
    if (status == TV_OK)
        status = show_state(c, machine, records);
    tv_commit_log_close(reader);
    tv_machine_free(machine);
    return cli_exit_status(status);
}

static int run_cosim(cli *c)
{
    bool is_replay = strcmp(c->files[0], "replay") == 0;
    if (!is_replay && strcmp(c->files[0], "compare") != 0)
        return cli_error(c, CLI_E_VALUE, "compare or replay", "cosim has no subcommand '%s'", c->files[0]);
    if (cli_has(c, "dump") && !is_replay)
        return cli_error(c, CLI_E_CONFLICT, "usage: trivet cosim replay LOG --dump RANGE", "--dump belongs to replay");
    if (is_replay && cosim_has_compare_options(c))
        return cli_error(c, CLI_E_CONFLICT, "usage: trivet cosim compare MODEL.log DESIGN.log",
                         "--rules, --cycle-slack, --self-test and --rows belong to compare");
    return is_replay ? run_replay(c) : cosim_compare(c);
}

const cli_command cli_cosim = {
    .name = "cosim",
    .usage = "cosim compare MODEL.log DESIGN.log, cosim replay LOG",
    .summary = "compare the commit log of a design with the model's, replay one",
    .about = "A log is a file written by `trivet run --commit-log`, or by the bench of a design in the same form\n"
             "(docs/cosim.md), compressed or not. replay stores the writes of all its records in a new machine of its\n"
             "configuration.",
    .example = "  trivet run softmax.s --commit-log softmax.log\n"
               "  trivet cosim replay softmax.log --dump l2:0x20:64:bf16   # as after the run\n"
               "  trivet cosim compare softmax.log design.log              # exit status 1 at a mismatch\n"
               "  trivet cosim compare softmax.log design.log --rules known.ini --cycle-slack 20",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "j",
    .files_min = 1,
    .files_max = 3,
    .values = "compare replay FILE",
    .run = run_cosim,
};
