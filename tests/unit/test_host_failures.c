/* SPDX-License-Identifier: Apache-2.0 */
/* Programs, runs, traces and reports on a host whose memory or files fail at one call.
 *
 *     test_host_failures SOURCE_TREE [WORD] */
#include "scenario.h"

#include <unistd.h>

#include "failures.h"
#include "isa/pccx/pccx.h"
#include "program/build.h"

/* ---- Assembling, reading and writing programs ---- */

static tv_status read_program(scene *s, const char *path)
{
    tv_program *program;
    tv_text_buffer line = {0};
    tv_output_info output;
    tv_symbol symbol;
    TRY(open_program(s, path, &program));
    bool is_queue = strcmp(tv_program_target(program), "cmdq") == 0;
    tv_status status = TV_OK;
    for (uint64_t i = 0; i < tv_program_instruction_count(program) && status == TV_OK; i++) {
        add_number(s, tv_program_word(program, i));
        if (tv_program_print(program, i, &line))
            add_text(s, line.text);
        else if (is_queue)
            status = report_quiet(s, TV_ERR_MEMORY);
    }
    for (uint64_t i = 0; tv_program_symbol_at(program, i, &symbol); i++)
        add_text(s, symbol.name);
    for (uint64_t i = 0; tv_program_output_at(program, i, &output); i++)
        add_text(s, output.name);
    free(line.text);
    tv_program_free(program);
    return status;
}

/* Opens `source`, writes it as `name`, which exists already if `twice`, and reads that. */
static tv_status convert(scene *s, const char *source, const char *name, tv_program_format format, bool twice)
{
    tv_program *program;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder(name));
    TRY(open_program(s, in_tree(source), &program));
    tv_status status = tv_program_save(program, path, format, &s->sink);
    if (status == TV_OK && twice)
        status = tv_program_save(program, path, format, &s->sink);
    tv_program_free(program);
    if (status == TV_OK)
        add_file(s, path);
    return status != TV_OK || format == TV_FORMAT_BIN || format == TV_FORMAT_HEX ? status : read_program(s, path);
}

static tv_status write_elf(scene *s) { return convert(s, "examples/pccx/attention.s", "a.elf", TV_FORMAT_ELF, true); }

static tv_status write_elf_with_requirements(scene *s)
{
    return convert(s, "examples/opennpu/softmax.s", "a.elf", TV_FORMAT_ELF, false);
}

static tv_status write_hex(scene *s) { return convert(s, "tests/golden/blocks.s", "a.hex", TV_FORMAT_HEX, false); }

static tv_status write_bin(scene *s) { return convert(s, "tests/golden/macros.s", "a.bin", TV_FORMAT_BIN, false); }

static tv_status write_queue(scene *s)
{
    return convert(s, "examples/cmdq/attention.json", "a.json", TV_FORMAT_JSON, true);
}

static tv_status write_queue_lines(scene *s)
{
    return convert(s, "tests/queue/conv.json", "a.jsonl", TV_FORMAT_JSON_LINES, false);
}

/* A queue with every list of its metadata. */
static const char queue_text[] =
    "{\"metadata\": {\"version\": \"1.3\", \"graph_name\": \"g\", \"generated_by\": \"x\", \"created_at\": \"now\",\n"
    " \"continues\": false, \"spm_init\": [{\"bank\": 0, \"offset\": 0, \"hex\": \"0102\"}],\n"
    " \"dram_init\": [{\"addr\": 0, \"file\": \"w.bin\"}, {\"addr\": 64, \"zero\": true, \"bytes\": 64}],\n"
    " \"kv_layouts\": [{\"id\": 0, \"k_base\": 4096, \"v_base\": 8192, \"t_max\": 4, \"d_head\": 8, \"heads\": 1}],\n"
    " \"kv_ranges\": [{\"name\": \"r\", \"t_start\": 0, \"t_len\": 2, \"d_start\": 0, \"d_len\": 8}],\n"
    " \"outputs\": [{\"name\": \"two\", \"dram_addr\": 0, \"num_elements\": 4, \"qbits\": 2},"
    "  {\"name\": \"four\", \"dram_addr\": 0, \"num_elements\": 4, \"qbits\": 4}, {\"name\": \"y\", \"dram_addr\": 0, "
    "\"num_elements\": 4, \"qbits\": 8}]}, \"other\": {\"a\": "
    "[1]},\n"
    " \"cmdq\": [{\"opcode\": \"NOP\", \"debug\": {\"b\": 2}, \"layer_id\": \"blk.0\"},\n"
    "  {\"opcode\": \"KV_LOAD_TILE\", \"head_id\": 0, \"kv_kind\": \"k\", \"spm_bank\": 0, \"spm_offset\": 0, "
    "\"qbits_kv\": 8,\n"
    "   \"kv_layout_id\": 0, \"kv_range_desc\": \"r\", \"deps_before\": [0]},\n"
    "  {\"opcode\": \"KV_LOAD_TILE\", \"head_id\": 0, \"kv_kind\": \"v\", \"spm_bank\": 1, \"spm_offset\": 0, "
    "\"qbits_kv\": 8,\n"
    "   \"kv_layout_id\": 0, \"kv_range_desc\": {\"t_start\": 0, \"t_len\": 1}, \"deps_before\": [1]},\n"
    "  {\"opcode\": \"SYNC_GROUP\", \"group\": [1, 2], \"name\": \"loads\"},\n"
    "  {\"opcode\": \"BARRIER\", \"wait_for\": [1, 2]}, {\"opcode\": \"END\"}]}\n";

static void write_text(const char *path, const char *text)
{
    failures_pause(true);
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
    failures_pause(false);
}

static tv_status write_complete_queue(scene *s)
{
    tv_program *program;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("complete.json"));
    write_text(in_folder("w.bin"), "0123456789abcdef");
    write_text(path, queue_text);
    TRY(open_program(s, path, &program));
    tv_program_additions(program, &s->sink);
    snprintf(path, sizeof path, "%s", in_folder("again.jsonl"));
    tv_status status = tv_program_save(program, path, TV_FORMAT_JSON_LINES, &s->sink);
    if (status == TV_OK)
        status = tv_program_save(program, in_folder("again.json"), TV_FORMAT_JSON, &s->sink);
    const char *input;
    for (uint64_t i = 0; tv_program_input_at(program, i, &input); i++)
        add_text(s, strrchr(input, '/'));
    tv_program_free(program);
    if (status == TV_OK)
        add_file(s, path);
    return status == TV_OK ? read_program(s, path) : status;
}

/* More names than the table of strings has at first. */
static tv_status write_many_names(scene *s)
{
    static char text[1 << 15];
    tv_program *program;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("names.json"));
    size_t n = (size_t)snprintf(text, sizeof text, "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [");
    for (unsigned i = 0; i < 400; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "{\"opcode\": \"NOP\", \"layer_id\": \"layer %u\"},\n",
                              i % 300);
    snprintf(text + n, sizeof text - n, "{\"opcode\": \"END\"}]}");
    write_text(path, text);
    TRY(open_program(s, path, &program));
    snprintf(path, sizeof path, "%s", in_folder("names.jsonl"));
    tv_status status = tv_program_save(program, path, TV_FORMAT_JSON_LINES, &s->sink);
    tv_program_free(program);
    if (status == TV_OK)
        add_file(s, path);
    return status;
}

static tv_status read_source_with_errors(scene *s) { return read_program(s, in_tree("tests/golden/err_operands.s")); }

static tv_status read_blocks(scene *s) { return read_program(s, in_tree("tests/golden/blocks.s")); }

static tv_status read_data(scene *s) { return read_program(s, in_tree("tests/golden/data_order.s")); }

static tv_status read_macro_errors(scene *s) { return read_program(s, in_tree("tests/golden/err_macro.s")); }

static tv_status read_hex_words(scene *s) { return read_program(s, in_tree("tests/golden/instructions.hex")); }

static tv_status read_queue_with_errors(scene *s) { return read_program(s, in_tree("tests/queue/wrong_fields.json")); }

static tv_status read_queue_lines(scene *s) { return read_program(s, in_tree("tests/queue/order.jsonl")); }

static tv_status write_outputs_of_a_group(scene *s)
{
    tv_program *program;
    tv_output_group *group;
    TRY(open_program(s, in_tree("tests/golden/instructions.s"), &program));
    tv_status status = TV_OK;
    for (unsigned round = 0; round < 2 && status == TV_OK; round++) { /* the second one replaces */
        status = tv_output_group_new(&s->sink, &group);
        if (status != TV_OK)
            break;
        status = tv_program_save_to(program, in_folder("g.elf"), TV_FORMAT_ELF, group, &s->sink);
        if (status == TV_OK)
            status = tv_program_save_to(program, in_folder("g.bin"), TV_FORMAT_BIN, group, &s->sink);
        if (status == TV_OK)
            status = tv_output_group_commit(group, &s->sink);
        else
            tv_output_group_abandon(group);
    }
    tv_program_free(program);
    if (status == TV_OK) {
        add_file(s, in_folder("g.elf"));
        add_file(s, in_folder("g.bin"));
    }
    return status;
}

/* Standard input is a pipe that has `text`. */
static tv_status read_standard_input(scene *s)
{
    static const char text[] = "        .target opennpu\n        mma vx0, vx4\n";
    int ends[2];
    failures_pause(true);
    bool piped = pipe(ends) == 0 && write(ends[1], text, sizeof text - 1) > 0 && dup2(ends[0], 0) == 0;
    if (piped) {
        close(ends[0]);
        close(ends[1]);
    }
    failures_pause(false);
    return piped ? read_program(s, "-") : TV_ERR_IO;
}

static tv_status build_program(scene *s)
{
    const tv_isa *isa = &tv_isa_pccx;
    tv_builder b = {.isa = isa};
    tv_program *program;
    static const uint8_t bytes[64] = {1, 2, 3};
    char name[TV_BUILD_LABEL];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "label%u", i);
        tv_builder_label(&b, name);
        tv_builder_word(&b, i);
        tv_builder_data(&b, 64 * i, bytes, sizeof bytes);
        tv_builder_stream(&b, i % 2, 64 * i, sizeof bytes);
    }
    tv_status status = tv_builder_finish(&b, &s->sink, &program);
    if (status == TV_OK) {
        tv_symbol symbol;
        for (uint64_t i = 0; tv_program_symbol_at(program, i, &symbol); i++)
            add_text(s, symbol.name);
        add_number(s, tv_program_instruction_count(program));
        tv_program_free(program);
    }
    tv_builder_fini(&b);
    return status;
}

/* ---- Running ---- */

static tv_status check_program(scene *s, setup *u)
{
    tv_check_counts counts = {0};
    TRY(tv_program_check(u->program, u->config, &s->sink, &counts));
    add_number(s, counts.warnings);
    counts = (tv_check_counts){0};
    TRY(tv_machine_hazards(u->machine, TV_WARNING, &s->sink, &counts));
    add_number(s, counts.warnings);
    return TV_OK;
}

static tv_status run_traced(scene *s, setup *u, tv_trace_format format, const char *path)
{
    tv_trace_writer *writer;
    tv_snapshot *snapshot = NULL;
    tv_state_value value;
    TRY(report_quiet(s, tv_machine_snapshot(u->machine, NULL, UINT64_MAX, &snapshot)));
    tv_snapshot_free(snapshot);
    TRY(tv_trace_open(path, format, u->machine, &s->sink, &writer));
    tv_trace_sink sink = tv_trace_writer_sink(writer);
    tv_machine_trace_accesses(u->machine, 1);
    tv_machine_trace(u->machine, &sink);
    tv_machine_trace_marker(u->machine, "begin");
    tv_status status = tv_machine_load(u->machine, u->program, &s->sink);
    if (status == TV_OK)
        status = report_quiet(s, tv_machine_run(u->machine, NULL, NULL));
    tv_machine_trace(u->machine, NULL);
    if (status != TV_OK) {
        tv_trace_abandon(writer);
        return status;
    }
    TRY(tv_trace_finish(writer, u->machine, &s->sink));
    unsigned states = 0;
    while (tv_machine_state_at(u->machine, states, &value))
        states++;
    add_number(s, states);
    add_file(s, path);
    return TV_OK;
}

static tv_status run_reported(scene *s, setup *u)
{
    tv_report_writer *report;
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder("r.html"));
    TRY(tv_report_open(path, "title", u->machine, &s->sink, &report));
    tv_trace_sink sink = tv_report_sink(report);
    tv_machine_trace_accesses(u->machine, 1);
    tv_machine_trace(u->machine, &sink);
    tv_status status = tv_machine_load(u->machine, u->program, &s->sink);
    if (status == TV_OK)
        status = report_quiet(s, tv_machine_run(u->machine, NULL, NULL));
    tv_machine_trace(u->machine, NULL);
    if (status != TV_OK) {
        tv_report_abandon(report);
        return status;
    }
    TRY(tv_report_finish(report, u->machine, &s->sink));
    add_file(s, path);
    return TV_OK;
}

static tv_status summarize(scene *s, const char *path)
{
    tv_trace_summary *summary, *again = NULL;
    tv_trace_diff *diff;
    TRY(tv_trace_summarize(path, NULL, &s->sink, &summary));
    tv_status status = tv_trace_summarize(path, NULL, &s->sink, &again);
    if (status == TV_OK)
        status = tv_trace_compare(summary, again, &s->sink, &diff);
    if (status == TV_OK)
        tv_trace_diff_free(diff);
    add_number(s, summary->cycles);
    tv_trace_summary_free(summary);
    tv_trace_summary_free(again);
    return status;
}

/* Checks and runs a program: `format` of its trace, then what is made of the trace. */
static tv_status run_program(scene *s, const char *source, const char *profile, tv_trace_format format,
                             const char *name)
{
    setup u = {.source = source, .profile = profile};
    char path[512];
    snprintf(path, sizeof path, "%s", in_folder(name));
    tv_status status = init_setup(s, &u);
    if (status == TV_OK)
        status = check_program(s, &u);
    if (status == TV_OK)
        status = run_traced(s, &u, format, path);
    fini_setup(&u);
    if (status == TV_OK)
        status = summarize(s, path);
    if (status == TV_OK)
        status = tv_trace_convert(path, in_folder("c.csv"), TV_TRACE_CSV, NULL, &s->sink);
    if (status == TV_OK)
        status = tv_trace_convert(path, in_folder("c.vcd"), TV_TRACE_VCD, NULL, &s->sink);
    if (status == TV_OK)
        status = tv_trace_convert(path, in_folder("c.json.zst"), TV_TRACE_JSON, NULL, &s->sink);
    if (status == TV_OK)
        status = tv_trace_convert(path, in_folder("c.pftrace"), TV_TRACE_PFTRACE, NULL, &s->sink);
    return status;
}

static tv_status run_pccx(scene *s)
{
    return run_program(s, "examples/pccx/pipeline.s", "configs/pccx-kv260.ini", TV_TRACE_JSON, "t.json");
}

static tv_status run_opennpu(scene *s)
{
    return run_program(s, "tests/golden/check_opennpu_clean.s", "configs/opennpu-test.ini", TV_TRACE_PERFETTO,
                       "t.json.zst");
}

static tv_status run_cmdq(scene *s)
{
    return run_program(s, "examples/cmdq/missing_dependency.json", "configs/cmdq-mobile.ini", TV_TRACE_JSON,
                       "t.json.zst");
}

static tv_status run_with_packets(scene *s)
{
    return run_program(s, "examples/cmdq/prefetch.json", "configs/cmdq-mobile.ini", TV_TRACE_JSON, "t.pftrace");
}

/* A program that runs several times: the machine keeps its timing from the first run that it has memory for. */
static tv_status repeat_pccx(scene *s)
{
    setup u = {.source = "tests/cycles/forward_l2.s", .profile = "configs/pccx-kv260.ini"};
    tv_stats stats = {.size = sizeof stats};
    uint64_t results[16];
    tv_status status = init_setup(s, &u);
    for (unsigned run = 0; run < 3 && status == TV_OK; run++) {
        status = tv_machine_load(u.machine, u.program, &s->sink);
        if (status == TV_OK)
            status = report_quiet(s, tv_machine_run(u.machine, NULL, NULL));
    }
    if (status == TV_OK)
        status = tv_machine_stats(u.machine, &stats);
    if (status == TV_OK)
        status = tv_machine_read(u.machine, "l2", 200, results, sizeof results, &s->sink);
    for (unsigned i = 0; status == TV_OK && i < sizeof results / sizeof *results; i++)
        add_number(s, results[i]);
    add_number(s, stats.cycles);
    fini_setup(&u);
    return status;
}

static tv_status report_of(scene *s, const char *source, const char *profile)
{
    setup u = {.source = source, .profile = profile};
    tv_status status = init_setup(s, &u);
    if (status == TV_OK)
        status = run_reported(s, &u);
    fini_setup(&u);
    return status;
}

static tv_status report_pccx(scene *s) { return report_of(s, "examples/pccx/softmax.s", "configs/pccx-kv260.ini"); }

static tv_status report_cmdq(scene *s)
{
    return report_of(s, "examples/cmdq/prefetch.json", "configs/cmdq-mobile.ini");
}

/* ---- Instruction sets ---- */

static tv_status write_schema(scene *s)
{
    static char text[1 << 19];
    tv_codec *codec;
    FILE *out = fmemopen(text, sizeof text, "w");
    tv_json_writer *writer = NULL;
    if (!out)
        return TV_ERR_IO;
    tv_status status = tv_codec_new("cmdq", &s->sink, &codec);
    if (status == TV_OK) {
        writer = tv_json_writer_new(out, TV_JSON_INDENTED);
        status = writer ? tv_codec_write_schema(codec, writer) : TV_ERR_MEMORY;
        if (status == TV_OK && !tv_json_writer_finish(writer))
            status = TV_ERR_MEMORY;
        tv_json_writer_free(writer);
        tv_codec_free(codec);
    }
    fclose(out);
    report_quiet(s, status);
    if (status == TV_OK)
        add_text(s, text);
    return status;
}

/* ---- Validation ---- */

static tv_status fit_table(scene *s, setup *u, const tv_measurements *table)
{
    static const char *const keys[] = {"acp.setup"};
    const tv_program *programs[] = {u->program, u->program, u->program};
    tv_fit_options fit = {.size = sizeof fit, .keys = keys, .key_count = 1, .configurations = 4};
    tv_validation *validation;
    tv_accuracy accuracy;
    tv_fitted_parameter fitted;
    char text[8192] = "";
    TRY(tv_validation_new(table, programs, u->config, &s->sink, &validation));
    tv_status status = tv_validation_fit(validation, &fit, &s->sink);
    if (status == TV_OK)
        status = tv_validation_cycles(validation, TV_VALIDATION_REPORTED, &s->sink, &accuracy);
    FILE *out = status == TV_OK ? fmemopen(text, sizeof text, "w") : NULL;
    if (out) {
        status = tv_validation_write_profile(validation, out, &s->sink);
        fclose(out);
    } else if (status == TV_OK) {
        status = report_quiet(s, TV_ERR_MEMORY);
    }
    if (status == TV_OK && tv_validation_parameter_at(validation, 0, &fitted)) {
        add_text(s, fitted.after);
        add_text(s, text);
        add_number(s, (uint64_t)(1000 * accuracy.mean_absolute));
    }
    tv_validation_free(validation);
    return status;
}

static tv_status validate(scene *s)
{
    static const char text[] = "program,name,cycles\na.s,,300\nb.s,\"b\",310\nc.s,c,320\n";
    setup u = {.source = "examples/pccx/softmax.s", .profile = "configs/pccx-kv260.ini"};
    tv_measurements *table;
    TRY(tv_measurements_parse("m.csv", text, sizeof text - 1, &s->sink, &table));
    tv_status status = init_setup(s, &u);
    if (status == TV_OK)
        status = fit_table(s, &u, table);
    fini_setup(&u);
    tv_measurements_free(table);
    return status;
}

static const scenario scenarios[] = {
    {"write_elf", write_elf, TV_OK},
    {"write_elf_with_requirements", write_elf_with_requirements, TV_OK},
    {"write_hex", write_hex, TV_OK},
    {"write_bin", write_bin, TV_OK},
    {"write_queue", write_queue, TV_OK},
    {"write_queue_lines", write_queue_lines, TV_OK},
    {"write_complete_queue", write_complete_queue, TV_OK},
    {"write_many_names", write_many_names, TV_OK},
    {"read_source_with_errors", read_source_with_errors, TV_ERR_INPUT},
    {"read_blocks", read_blocks, TV_OK},
    {"read_data", read_data, TV_OK},
    {"read_macro_errors", read_macro_errors, TV_ERR_INPUT},
    {"read_hex_words", read_hex_words, TV_ERR_INPUT},
    {"read_queue_with_errors", read_queue_with_errors, TV_ERR_INPUT},
    {"read_queue_lines", read_queue_lines, TV_OK},
    {"read_standard_input", read_standard_input, TV_OK},
    {"build_program", build_program, TV_OK},
    {"write_outputs_of_a_group", write_outputs_of_a_group, TV_OK},
    {"run_pccx", run_pccx, TV_OK},
    {"run_opennpu", run_opennpu, TV_OK},
    {"run_cmdq", run_cmdq, TV_OK},
    {"run_with_packets", run_with_packets, TV_OK},
    {"repeat_pccx", repeat_pccx, TV_OK},
    {"report_pccx", report_pccx, TV_OK, true},
    {"report_cmdq", report_cmdq, TV_OK, true},
    {"write_schema", write_schema, TV_OK},
    {"validate", validate, TV_OK},
};

int main(int argc, char **argv) { return run_scenarios(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
