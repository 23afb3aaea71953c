/* SPDX-License-Identifier: Apache-2.0 */
/* trivet cosim: commit logs of the model and of a design. */
#include <inttypes.h>

#include "cli/cli.h"
#include "cli/cosim_compare.h"
#include "cli/memory_dump.h"

static const cli_option options[] = {
    COSIM_COMPARE_OPTIONS,
    {"dump", 0, "RANGE[=FILE]", "replay: print a range of the final state, or write it to a file; may be repeated",
     "RANGE"},
};

/* ---- trivet cosim replay LOG ---- */

typedef struct replay {
    cli *c;
    tv_commit_log_reader *reader;
    tv_machine *machine;
    memory_dump *dumps;
    unsigned dump_count;
    uint64_t records;
} replay;

/* Before the log is replayed. */
static tv_status parse_dumps(replay *r)
{
    const char *text;
    char range[RANGE_TEXT];
    r->dumps = calloc(r->c->argument_count + 1, sizeof *r->dumps);
    if (!r->dumps)
        return TV_ERR_MEMORY;
    for (; (text = cli_value_at(r->c, "dump", r->dump_count)); r->dump_count++) {
        memory_dump *d = &r->dumps[r->dump_count];
        tv_status status = memory_split_option(r->c, "dump", text, range, &d->path);
        if (status == TV_OK)
            status = tv_machine_parse_range(r->machine, NULL, 0, range, &r->c->sink, &d->range);
        if (status == TV_OK && d->path)
            status = memory_dump_check_path(r->c, r->dumps, r->dump_count);
        if (status != TV_OK)
            return status;
    }
    return TV_OK;
}

static tv_status show_state(replay *r)
{
    tv_output_group *group;
    tv_status status = cli_outputs(r->c, &group);
    if (status == TV_OK && !r->c->json)
        printf("%s records\n", CLI_COUNT(r->records));
    for (unsigned i = 0; i < r->dump_count && status == TV_OK; i++)
        status = memory_dump_collect(r->c, r->machine, &r->dumps[i], group);
    if (status != TV_OK || !r->c->json)
        return status;
    tv_json_writer *w = cli_begin_result(r->c);
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "records", r->records);
    memory_dumps_write_json(r->dumps, r->dump_count, w);
    tv_json_end_object(w);
    return TV_OK;
}

static int run_replay(cli *c)
{
    replay r = {.c = c};
    if (c->file_count != 2)
        return cli_error(c, CLI_E_COUNT, "usage: trivet cosim replay LOG", "replay takes one commit log");
    tv_status status = tv_commit_log_read(c->files[1], &c->sink, &r.reader);
    if (status == TV_OK)
        status = cosim_make_machine(c, r.reader, &r.machine);
    if (status == TV_OK)
        status = parse_dumps(&r);
    if (status == TV_OK)
        status = tv_commit_log_replay(r.reader, r.machine, &c->sink, &r.records);
    if (status == TV_OK)
        status = show_state(&r);
    tv_commit_log_close(r.reader);
    tv_machine_free(r.machine);
    memory_dumps_free(r.dumps, r.dump_count);
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
               "  trivet cosim replay softmax.log --dump l2:0x20:64:bf16=final.npy\n"
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
