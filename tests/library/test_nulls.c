/* SPDX-License-Identifier: Apache-2.0 */
/* Every public function with NULL for each parameter that its contract allows to be NULL. tests/contracts.py checks
 * that the NULL_CASE rows are exactly those of the headers. Where a sink is dropped, an error is provoked as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trivet/trivet.h"

/* Names a case. The function must exist. */
#define NULL_CASE(function, parameter) ((void)&(function))

static const char source[] = ".target pccx\n"
                             "start:\n"
                             "    cvo.exp l2[0x40], l2[0], len=64\n"
                             "    cvo.exp l2[0x80], l2[0], len=64\n";
static const char queue[] = "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [{\"opcode\": \"END\"}]}\n";
static const char model_path[] = "shakespeare.gguf";

static char folder[] = "/tmp/trivet-nulls-XXXXXX";
static char path[4096];
static const char *models;

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static tv_program *assemble(void)
{
    tv_program *program;
    assert_int_equal(tv_program_assemble("nulls.s", source, strlen(source), NULL, NULL, &program), TV_OK);
    return program;
}

static tv_config *configure(const char *target)
{
    tv_config *config;
    assert_int_equal(tv_config_new(target, NULL, &config), TV_OK);
    return config;
}

static tv_machine *build(const char *target)
{
    tv_machine *machine;
    tv_config *config = configure(target);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_config_free(config);
    return machine;
}

static void free_functions_accept_null(void **state)
{
    (void)state;
    NULL_CASE(tv_codec_free, codec);
    tv_codec_free(NULL);
    NULL_CASE(tv_config_free, config);
    tv_config_free(NULL);
    NULL_CASE(tv_measurements_free, measurements);
    tv_measurements_free(NULL);
    NULL_CASE(tv_validation_free, validation);
    tv_validation_free(NULL);
    NULL_CASE(tv_program_free, program);
    tv_program_free(NULL);
    NULL_CASE(tv_machine_free, machine);
    tv_machine_free(NULL);
    NULL_CASE(tv_snapshot_free, snapshot);
    tv_snapshot_free(NULL);
    NULL_CASE(tv_debug_free, debug);
    tv_debug_free(NULL);
    NULL_CASE(tv_llm_free, llm);
    tv_llm_free(NULL);
    NULL_CASE(tv_llm_session_free, session);
    tv_llm_session_free(NULL);
    NULL_CASE(tv_network_free, network);
    tv_network_free(NULL);
    NULL_CASE(tv_network_session_free, session);
    tv_network_session_free(NULL);
    NULL_CASE(tv_output_abandon, output);
    tv_output_abandon(NULL);
    NULL_CASE(tv_output_group_abandon, group);
    tv_output_group_abandon(NULL);
    NULL_CASE(tv_report_abandon, report);
    tv_report_abandon(NULL);
    NULL_CASE(tv_json_writer_free, writer);
    tv_json_writer_free(NULL);
    NULL_CASE(tv_trace_abandon, writer);
    tv_trace_abandon(NULL);
    NULL_CASE(tv_trace_summary_free, summary);
    tv_trace_summary_free(NULL);
    NULL_CASE(tv_trace_diff_free, diff);
    tv_trace_diff_free(NULL);
}

static void ignore_keyword(void *user, tv_keyword_kind kind, const char *word, unsigned count)
{
    (void)kind;
    (void)count;
    *(unsigned *)user += word != NULL;
}

static void codecs(void **state)
{
    (void)state;
    tv_codec *codec;
    uint64_t word;
    unsigned keywords = 0;
    NULL_CASE(tv_codec_new, sink);
    assert_int_equal(tv_codec_new("none", NULL, &codec), TV_ERR_INPUT);
    assert_int_equal(tv_codec_new("pccx", NULL, &codec), TV_OK);
    NULL_CASE(tv_codec_decode, fault);
    assert_int_equal(tv_codec_decode(codec, UINT64_MAX, NULL), -1);
    NULL_CASE(tv_codec_encode, fields);
    NULL_CASE(tv_codec_encode, sink);
    assert_int_equal(tv_codec_encode(codec, "CVO_EXP", NULL, 0, NULL, &word), TV_OK);
    assert_true(tv_codec_decode(codec, word, NULL) >= 0);
    assert_int_equal(tv_codec_encode(codec, "NONE", NULL, 0, NULL, &word), TV_ERR_INPUT);
    tv_codec_free(codec);
    NULL_CASE(tv_assembly_keywords, sink);
    tv_keyword_sink sink = {ignore_keyword, &keywords};
    assert_int_equal(tv_assembly_keywords("none", &sink, NULL), TV_ERR_INPUT);
    assert_int_equal(keywords, 0);
    assert_int_equal(tv_assembly_keywords("pccx", &sink, NULL), TV_OK);
    assert_true(keywords > 0);
}

static void configurations(void **state)
{
    (void)state;
    tv_config *config;
    const char *name, *description;
    NULL_CASE(tv_config_new, sink);
    assert_int_equal(tv_config_new("none", NULL, &config), TV_ERR_INPUT);
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    NULL_CASE(tv_config_load, sink);
    assert_int_equal(tv_config_load(config, "kv260", NULL), TV_OK);
    assert_int_equal(tv_config_load(config, "none", NULL), TV_ERR_INPUT);
    NULL_CASE(tv_config_profile_target, sink);
    char own_target[TV_CONFIG_TARGET];
    assert_int_equal(tv_config_profile_target("kv260", NULL, own_target), TV_OK);
    assert_string_equal(own_target, "pccx");
    assert_int_equal(tv_config_profile_target("none", NULL, own_target), TV_ERR_INPUT);
    NULL_CASE(tv_config_set, sink);
    assert_int_equal(tv_config_set(config, "none", "1", NULL), TV_ERR_INPUT);
    NULL_CASE(tv_config_check, sink);
    assert_int_equal(tv_config_check(config, NULL), TV_OK);
    tv_config_free(config);
    NULL_CASE(tv_config_profile_at, target);
    assert_int_equal(tv_config_profile_at(NULL, 0, &name, &description), 1);
    tv_dtype type;
    NULL_CASE(tv_extension_load, sink);
    assert_int_equal(tv_extension_load("/nowhere.so", NULL), TV_ERR_INPUT);
    NULL_CASE(tv_dtype_parse, sink);
    assert_int_equal(tv_dtype_parse("none", NULL, &type), TV_ERR_INPUT);
    assert_int_equal(tv_dtype_parse("bf16", NULL, &type), TV_OK);
}

static void files(void **state)
{
    (void)state;
    tv_input input;
    tv_output *output;
    NULL_CASE(tv_output_open, sink);
    assert_int_equal(tv_output_open("/none/none", NULL, &output), TV_ERR_IO);
    assert_int_equal(tv_output_open(in_folder("plain"), NULL, &output), TV_OK);
    NULL_CASE(tv_output_commit, sink);
    assert_int_equal(tv_output_commit(output, NULL), TV_OK);
    tv_output_group *group;
    NULL_CASE(tv_output_group_new, sink);
    assert_int_equal(tv_output_group_new(NULL, &group), TV_OK);
    assert_int_equal(tv_output_open(path, NULL, &output), TV_OK);
    NULL_CASE(tv_output_commit_to, group);
    NULL_CASE(tv_output_commit_to, sink);
    assert_int_equal(tv_output_commit_to(output, NULL, NULL), TV_OK);
    NULL_CASE(tv_output_group_folder, group);
    NULL_CASE(tv_output_group_folder, sink);
    assert_int_equal(tv_output_group_folder(NULL, ".", NULL), TV_OK);
    NULL_CASE(tv_output_group_commit, sink);
    assert_int_equal(tv_output_group_commit(group, NULL), TV_OK);
    NULL_CASE(tv_output_open_compressed, sink);
    assert_int_equal(tv_output_open_compressed("/none/none.zst", NULL, &output), TV_ERR_IO);
    NULL_CASE(tv_input_open, sink);
    assert_int_equal(tv_input_open("/none/none", NULL, &input), TV_ERR_INPUT);
    assert_int_equal(tv_input_open(in_folder("plain"), NULL, &input), TV_OK);
    tv_input_close(&input);
    tv_input_close(&input);
    tv_diag diag = {.severity = TV_ERROR, .code = "TV-X000", .name = "x", .index = -1, .message = "m"};
    char *json = tv_diag_json(&diag);
    assert_non_null(json);
    free(json);
}

static void json(void **state)
{
    (void)state;
    char text[64] = "";
    FILE *file = tmpfile();
    tv_json_writer *writer = tv_json_writer_new(file, TV_JSON_COMPACT);
    assert_non_null(writer);
    tv_json_begin_array(writer);
    NULL_CASE(tv_json_write_string, text);
    tv_json_write_string(writer, NULL);
    tv_json_write_string(writer, "x");
    tv_json_end_array(writer);
    assert_true(tv_json_writer_finish(writer));
    tv_json_writer_free(writer);
    rewind(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_string_equal(text, "[null,\"x\"]");
    fclose(file);
}

static void programs(void **state)
{
    (void)state;
    tv_program *program;
    NULL_CASE(tv_program_assemble, options);
    NULL_CASE(tv_program_assemble, sink);
    assert_int_equal(tv_program_assemble("bad.s", "none\n", 5, NULL, NULL, &program), TV_ERR_INPUT);
    program = assemble();
    NULL_CASE(tv_program_save, sink);
    assert_int_equal(tv_program_save(program, "/none/none", TV_FORMAT_ELF, NULL), TV_ERR_IO);
    assert_int_equal(tv_program_save(program, in_folder("nulls.elf"), TV_FORMAT_ELF, NULL), TV_OK);
    NULL_CASE(tv_program_save_data, group);
    NULL_CASE(tv_program_save_data, sink);
    assert_int_equal(tv_program_save_data(program, in_folder("nulls.memh"), 4, NULL, NULL), TV_OK);
    assert_int_equal(tv_program_save_data(program, in_folder("nulls.memh"), 3, NULL, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_program_save_to, group);
    NULL_CASE(tv_program_save_to, sink);
    assert_int_equal(tv_program_save_to(program, in_folder("nulls.elf"), TV_FORMAT_ELF, NULL, NULL), TV_OK);
    tv_program_free(program);
    NULL_CASE(tv_program_open, options);
    NULL_CASE(tv_program_open, sink);
    assert_int_equal(tv_program_open("/none/none", NULL, NULL, &program), TV_ERR_INPUT);
    assert_int_equal(tv_program_open(path, NULL, NULL, &program), TV_OK);
    tv_config *config = configure("pccx"), *other = configure("cmdq");
    tv_check_counts counts = {0};
    NULL_CASE(tv_program_check, sink);
    assert_int_equal(tv_program_check(program, config, NULL, &counts), TV_OK);
    assert_int_equal(tv_program_check(program, other, NULL, &counts), TV_ERR_INPUT);
    NULL_CASE(tv_program_hazards, sink);
    assert_int_equal(tv_program_hazards(program, config, TV_WARNING, NULL, &counts), TV_OK);
    assert_int_equal(tv_program_hazards(program, other, TV_WARNING, NULL, &counts), TV_ERR_INPUT);
    uint64_t implied;
    NULL_CASE(tv_program_implied_dependencies, sink);
    assert_int_equal(tv_program_implied_dependencies(program, config, NULL, &implied), TV_OK);
    assert_int_equal(implied, 0);
    assert_int_equal(tv_program_implied_dependencies(program, other, NULL, &implied), TV_ERR_INPUT);
    tv_config_free(config);
    tv_config_free(other);
    tv_program_free(program);
    NULL_CASE(tv_program_parse, bytes);
    NULL_CASE(tv_program_parse, options);
    NULL_CASE(tv_program_parse, sink);
    assert_int_equal(tv_program_parse("empty.json", NULL, 0, NULL, NULL, &program), TV_ERR_INPUT);
    assert_int_equal(tv_program_parse("queue.json", queue, strlen(queue), NULL, NULL, &program), TV_OK);
    tv_program_free(program);
    static const char additions[] = "{\"cmdq\": [{\"opcode\": \"SYNC_GROUP\", \"group\": [], \"name\": \"g\"},"
                                    "{\"opcode\": \"END\", \"wait_group\": \"g\"}]}";
    assert_int_equal(tv_program_parse("q.json", additions, strlen(additions), NULL, NULL, &program), TV_OK);
    NULL_CASE(tv_program_additions, sink);
    assert_int_equal(tv_program_additions(program, NULL), 2);
    tv_program_free(program);
}

static void machines(void **state)
{
    (void)state;
    tv_config *config = configure("pccx");
    tv_machine *machine;
    tv_program *program = assemble();
    tv_space space;
    tv_range range;
    uint64_t addr;
    const char *rest;
    NULL_CASE(tv_machine_new, sink);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    NULL_CASE(tv_machine_load, sink);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    NULL_CASE(tv_machine_hazards, sink);
    assert_int_equal(tv_machine_hazards(machine, TV_WARNING, NULL, &(tv_check_counts){0}), TV_OK);
    NULL_CASE(tv_machine_step, reason);
    assert_int_equal(tv_machine_step(machine, NULL), TV_OK);
    assert_int_equal(tv_machine_next_index(machine), 1);
    tv_snapshot *first, *second;
    NULL_CASE(tv_machine_snapshot, base);
    assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &first), TV_OK);
    assert_int_equal(tv_machine_snapshot(machine, first, UINT64_MAX, &second), TV_OK);
    tv_snapshot_free(first);
    assert_int_equal(tv_machine_restore(machine, second), TV_OK);
    tv_snapshot_free(second);
    NULL_CASE(tv_machine_run, limits);
    NULL_CASE(tv_machine_run, reason);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(tv_machine_next_index(machine), 2);
    NULL_CASE(tv_machine_trace, sink);
    tv_machine_trace(machine, NULL);
    NULL_CASE(tv_machine_map, sink);
    assert_int_equal(tv_machine_map(machine, "l2", machine, 1, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_machine_commits, sink);
    assert_int_equal(tv_machine_commits(machine, TV_COMMIT_ALL, NULL), TV_OK);
    NULL_CASE(tv_machine_execute, out);
    assert_int_equal(tv_machine_execute(machine, 0x3000000000000000, TV_COMMIT_ALL, NULL), TV_OK);
    tv_machine_trace_marker(machine, "nothing listens");
    tv_machine_trace_token(machine, "decode", 0, 1, 0);
    NULL_CASE(tv_machine_read, data);
    NULL_CASE(tv_machine_read, sink);
    assert_int_equal(tv_machine_read(machine, "l2", 0, NULL, 0, NULL), TV_OK);
    assert_int_equal(tv_machine_read(machine, "none", 0, NULL, 0, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_machine_write, data);
    NULL_CASE(tv_machine_write, sink);
    assert_int_equal(tv_machine_write(machine, "l2", 0, NULL, 0, NULL), TV_OK);
    assert_int_equal(tv_machine_write(machine, "none", 0, NULL, 0, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_machine_parse_address, programs);
    NULL_CASE(tv_machine_parse_address, sink);
    assert_int_equal(tv_machine_parse_address(machine, NULL, 0, "l2:8", NULL, &space, &addr, &rest), TV_OK);
    assert_null(rest);
    assert_int_equal(tv_machine_parse_address(machine, NULL, 0, "l2:start", NULL, &space, &addr, &rest), TV_ERR_INPUT);
    NULL_CASE(tv_machine_parse_range, programs);
    NULL_CASE(tv_machine_parse_range, sink);
    assert_int_equal(tv_machine_parse_range(machine, NULL, 0, "l2:8:4:bf16", NULL, &range), TV_OK);
    assert_int_equal(tv_machine_parse_range(machine, NULL, 0, "l2", NULL, &range), TV_ERR_INPUT);
    NULL_CASE(tv_memory_fill, programs);
    NULL_CASE(tv_memory_fill, writer);
    NULL_CASE(tv_memory_fill, sink);
    assert_int_equal(tv_memory_fill(machine, NULL, 0, "l2:0", "/none/none", NULL, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_memory_fill(machine, NULL, 0, "l2:0", "/dev/null", NULL, NULL), TV_OK);
    tv_machine_free(machine);
    tv_program_free(program);
    tv_config_free(config);
}

static void traces_and_reports(void **state)
{
    (void)state;
    tv_machine *machine = build("pccx");
    tv_program *program = assemble();
    tv_trace_writer *writer;
    tv_report_writer *report;
    tv_trace_summary *summary, *other;
    tv_trace_diff *diff;
    char trace[sizeof path];
    NULL_CASE(tv_trace_open, sink);
    assert_int_equal(tv_trace_open("/none/none", TV_TRACE_JSON, machine, NULL, &writer), TV_ERR_IO);
    assert_int_equal(tv_trace_open(in_folder("trace.json"), TV_TRACE_JSON, machine, NULL, &writer), TV_OK);
    strcpy(trace, path);
    tv_trace_sink sink = tv_trace_writer_sink(writer);
    tv_machine_trace(machine, &sink);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    tv_machine_trace(machine, NULL);
    NULL_CASE(tv_trace_finish, sink);
    assert_int_equal(tv_trace_finish(writer, machine, NULL), TV_OK);
    assert_int_equal(tv_trace_open(trace, TV_TRACE_JSON, machine, NULL, &writer), TV_OK);
    NULL_CASE(tv_trace_finish_to, group);
    NULL_CASE(tv_trace_finish_to, sink);
    assert_int_equal(tv_trace_finish_to(writer, machine, NULL, NULL), TV_OK);
    NULL_CASE(tv_report_open, sink);
    assert_int_equal(tv_report_open("/none/none", "title", machine, NULL, &report), TV_ERR_IO);
    assert_int_equal(tv_report_open(in_folder("report.html"), "title", machine, NULL, &report), TV_OK);
    tv_report_set_program(report, program);
    tv_diag_sink findings = tv_report_findings(report);
    findings.emit(findings.user, &(tv_diag){.severity = TV_WARNING, .index = -1, .message = "found"});
    NULL_CASE(tv_report_set_program, program);
    tv_report_set_program(report, NULL);
    NULL_CASE(tv_report_finish, sink);
    assert_int_equal(tv_report_finish(report, machine, NULL), TV_OK);
    assert_int_equal(tv_report_open(in_folder("report.html"), "title", machine, NULL, &report), TV_OK);
    NULL_CASE(tv_report_finish_to, group);
    NULL_CASE(tv_report_finish_to, sink);
    assert_int_equal(tv_report_finish_to(report, machine, NULL, NULL), TV_OK);
    NULL_CASE(tv_trace_summarize, progress);
    NULL_CASE(tv_trace_summarize, sink);
    assert_int_equal(tv_trace_summarize("/none/none", NULL, NULL, &summary), TV_ERR_INPUT);
    assert_int_equal(tv_trace_summarize(trace, NULL, NULL, &summary), TV_OK);
    assert_int_equal(tv_trace_summarize(trace, NULL, NULL, &other), TV_OK);
    NULL_CASE(tv_trace_compare, sink);
    assert_int_equal(tv_trace_compare(summary, other, NULL, &diff), TV_OK);
    assert_true(diff->equal);
    tv_trace_diff_free(diff);
    tv_trace_summary_free(summary);
    tv_trace_summary_free(other);
    NULL_CASE(tv_trace_convert, progress);
    NULL_CASE(tv_trace_convert, sink);
    assert_int_equal(tv_trace_convert(trace, in_folder("trace.csv"), TV_TRACE_CSV, NULL, NULL), TV_OK);
    assert_int_equal(tv_trace_convert("/none/none", path, TV_TRACE_CSV, NULL, NULL), TV_ERR_INPUT);
    tv_machine_free(machine);
    tv_program_free(program);
}

static size_t read_nothing(void *user, void *bytes, size_t size, int wait)
{
    (void)user;
    (void)bytes;
    (void)size;
    (void)wait;
    return TV_DAP_CLOSED;
}

static void write_nothing(void *user, const void *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
}

static void memory_files(void **state)
{
    (void)state;
    const tv_range range = {.space = {.name = "l2"}, .count = 0, .type = TV_HEX8};
    uint8_t bytes[1], known[1];
    NULL_CASE(tv_memory_save, group);
    NULL_CASE(tv_memory_save, sink);
    assert_int_equal(tv_memory_save(in_folder("empty.memh"), &range, bytes, NULL, NULL), TV_OK);
    NULL_CASE(tv_memory_load, sink);
    assert_int_equal(tv_memory_load("/none/none.npy", &range, bytes, known, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_memory_measure, sink);
    assert_int_equal(tv_memory_measure("/none/none.npy", &(tv_range){.rank = 0}, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_memory_parse, data);
    NULL_CASE(tv_memory_parse, sink);
    assert_int_equal(tv_memory_parse("empty.npy", NULL, 0, &range, bytes, known, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_memory_parse("empty.memh", NULL, 0, &range, bytes, known, NULL), TV_OK);
}

static void commit_logs(void **state)
{
    (void)state;
    static const char log[] = "{\"commit_log\":1,\"target\":\"pccx\"}\n{}\n[]\n";
    char saved[4096];
    tv_commit_log_writer *writer;
    tv_commit_log_reader *reader;
    const tv_commit *commit;
    uint64_t records;
    tv_machine *machine = build("pccx");
    tv_config *config = NULL;
    NULL_CASE(tv_commit_log_open, sink);
    assert_int_equal(tv_commit_log_open("/none/none", TV_COMMIT_LOG_JSON, tv_machine_config(machine), NULL, &writer),
                     TV_ERR_IO);
    assert_int_equal(
        tv_commit_log_open(in_folder("commit.log"), TV_COMMIT_LOG_JSON, tv_machine_config(machine), NULL, &writer),
        TV_OK);
    strcpy(saved, path);
    NULL_CASE(tv_commit_log_finish, group);
    NULL_CASE(tv_commit_log_finish, sink);
    assert_int_equal(tv_commit_log_finish(writer, NULL, NULL), TV_OK);
    NULL_CASE(tv_commit_log_read, sink);
    assert_int_equal(tv_commit_log_read("/none/none", NULL, &reader), TV_ERR_INPUT);
    assert_int_equal(tv_commit_log_read(saved, NULL, &reader), TV_OK);
    NULL_CASE(tv_commit_log_replay, sink);
    assert_int_equal(tv_commit_log_replay(reader, machine, NULL, &records), TV_OK);
    assert_int_equal(records, 0);
    tv_commit_log_close(reader);
    NULL_CASE(tv_commit_log_read_bytes, data);
    NULL_CASE(tv_commit_log_read_bytes, sink);
    assert_int_equal(tv_commit_log_read_bytes("x", NULL, 0, NULL, &reader), TV_ERR_INPUT);
    assert_int_equal(tv_commit_log_read_bytes("x", log, sizeof log - 1, NULL, &reader), TV_OK);
    NULL_CASE(tv_commit_log_config, sink);
    assert_int_equal(tv_commit_log_config(reader, NULL, &config), TV_OK);
    NULL_CASE(tv_commit_log_next, sink);
    NULL_CASE(tv_commit_log_next, line);
    assert_int_equal(tv_commit_log_next(reader, NULL, &commit, NULL), TV_OK);
    assert_int_equal(tv_commit_log_next(reader, NULL, &commit, NULL), TV_ERR_INPUT);
    tv_commit_log_close(reader);
    NULL_CASE(tv_commit_log_close, reader);
    tv_commit_log_close(NULL);
    NULL_CASE(tv_commit_log_abandon, writer);
    tv_commit_log_abandon(NULL);
    tv_config_free(config);
    tv_machine_free(machine);
}

static int fail_always(void *user, const char *text)
{
    (void)user;
    return text[0] != '\0';
}

static void reductions(void **state)
{
    (void)state;
    tv_program *program = assemble();
    tv_reduce_options options = {.size = sizeof options, .fails = fail_always};
    tv_reduced reduced;
    tv_codec *codec;
    assert_int_equal(tv_codec_new("pccx", NULL, &codec), TV_OK);
    NULL_CASE(tv_program_reduce, sink);
    assert_int_equal(tv_program_reduce(program, codec, &options, NULL, &reduced), TV_OK);
    assert_int_equal(reduced.instructions_before, 2);
    assert_int_equal(reduced.instructions, 0);
    free(reduced.source);
    tv_codec_free(codec);
    tv_program_free(program);
}

static void validations(void **state)
{
    (void)state;
    static const char table[] = "program,cycles\na,10\nb,20\n";
    static const char *const keys[] = {"acp.setup"};
    tv_program *program = assemble();
    const tv_program *programs[] = {program, program};
    tv_measurements *measurements;
    tv_validation *validation;
    tv_accuracy accuracy;
    tv_config *config;
    tv_fit_options fit = {.size = sizeof fit, .keys = keys, .key_count = 1, .configurations = 2};
    NULL_CASE(tv_measurements_parse, sink);
    NULL_CASE(tv_measurements_parse, bytes);
    assert_int_equal(tv_measurements_parse("m.csv", NULL, 0, NULL, &measurements), TV_ERR_INPUT);
    NULL_CASE(tv_measurements_open, sink);
    assert_int_not_equal(tv_measurements_open("/nonexistent/m.csv", NULL, &measurements), TV_OK);
    assert_int_equal(tv_measurements_parse("m.csv", table, sizeof table - 1, NULL, &measurements), TV_OK);
    NULL_CASE(tv_accuracy_compute, measured);
    NULL_CASE(tv_accuracy_compute, modelled);
    NULL_CASE(tv_accuracy_compute, sink);
    assert_int_equal(tv_accuracy_compute(NULL, NULL, 0, NULL, &accuracy), TV_OK);
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    NULL_CASE(tv_validation_new, sink);
    assert_int_equal(tv_validation_new(measurements, programs, config, NULL, &validation), TV_OK);
    NULL_CASE(tv_validation_fit, sink);
    assert_int_equal(tv_validation_fit(validation, &fit, NULL), TV_OK);
    NULL_CASE(tv_validation_cycles, sink);
    assert_int_equal(tv_validation_cycles(validation, TV_VALIDATION_ALL, NULL, &accuracy), TV_OK);
    NULL_CASE(tv_validation_bytes, sink);
    assert_int_equal(tv_validation_bytes(validation, TV_VALIDATION_ALL, NULL, &accuracy), TV_OK);
    assert_int_equal(accuracy.count, 0);
    FILE *file = tmpfile();
    NULL_CASE(tv_validation_write_profile, sink);
    assert_int_equal(tv_validation_write_profile(validation, file, NULL), TV_OK);
    fclose(file);
    tv_validation_free(validation);
    tv_config_free(config);
    tv_measurements_free(measurements);
    tv_program_free(program);
}

static void sweeps(void **state)
{
    (void)state;
    tv_sweep *sweep;
    char template[] = "/tmp/trivet-sweep-XXXXXX", name[64];
    char *own = mkdtemp(template);
    assert_non_null(own);
    snprintf(name, sizeof name, "%s/a.s", own);
    FILE *program = fopen(name, "w");
    assert_non_null(program);
    fputs(source, program);
    fclose(program);
    snprintf(name, sizeof name, "%s/a.ini", own);
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs("[workload a]\nprogram = a.s\n[target pccx]\ncvo.tail = 5, 6\n", file);
    fclose(file);
    tv_sweep_options options = {.size = sizeof options};
    NULL_CASE(tv_sweep_check_bytes, sink);
    NULL_CASE(tv_sweep_check_bytes, data);
    assert_int_equal(tv_sweep_check_bytes("a.ini", NULL, 0, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_sweep_free, sweep);
    tv_sweep_free(NULL);
    NULL_CASE(tv_sweep_open, sink);
    assert_int_equal(tv_sweep_open("/nonexistent/a.ini", NULL, &sweep), TV_ERR_INPUT);
    assert_int_equal(tv_sweep_open(name, NULL, &sweep), TV_OK);
    NULL_CASE(tv_sweep_run, sink);
    NULL_CASE(tv_sweep_run, stopped);
    assert_int_equal(tv_sweep_run(sweep, &options, NULL, NULL), TV_OK);
    FILE *page = tmpfile();
    NULL_CASE(tv_sweep_write_page, sink);
    assert_int_equal(tv_sweep_write_page(sweep, "a", page, NULL), TV_OK);
    fclose(page);
    NULL_CASE(tv_sweep_check_slices, sink);
    assert_int_equal(tv_sweep_check_slices(sweep, NULL), TV_OK);
    NULL_CASE(tv_sweep_run_slice, sink);
    NULL_CASE(tv_sweep_run_slice, stopped);
    assert_int_equal(tv_sweep_run_slice(sweep, &options, 1, 1, own, 60, NULL, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_sweep_run_slice(sweep, &options, 0, 1, own, 60, NULL, NULL), TV_OK);
    tv_sweep_free(sweep);
    NULL_CASE(tv_sweep_collect, sink);
    NULL_CASE(tv_sweep_collect, added);
    assert_int_equal(tv_sweep_collect("/nonexistent/a.db", NULL, 0, NULL, NULL), TV_ERR_IO);
    remove(name);
    snprintf(name, sizeof name, "%s/a.s", own);
    remove(name);
    snprintf(name, sizeof name, "%s/slice-0-of-1-0.jsonl", own);
    assert_int_equal(remove(name), 0);
    remove(own);
}

static void generators(void **state)
{
    (void)state;
    tv_generate_options options = {.size = sizeof options, .seed = 1, .instructions = 3};
    tv_generated generated;
    tv_config *config;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    NULL_CASE(tv_program_generate, sink);
    assert_int_equal(tv_program_generate(config, &options, NULL, &generated), TV_OK);
    assert_int_equal(generated.instructions, 3);
    free(generated.source);
    free(generated.counts);
    options.size = 0;
    assert_int_equal(tv_program_generate(config, &options, NULL, &generated), TV_ERR_INPUT);
    tv_config_free(config);
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    options = (tv_generate_options){.size = sizeof options, .instructions = 3, .signature = 1};
    assert_int_equal(tv_program_generate(config, &options, NULL, &generated), TV_ERR_INPUT);
    assert_null(generated.source); /* nothing is left to free */
    tv_config_free(config);
}

static tv_status ignore_program(void *user, const char *name, const char *text)
{
    (void)user, (void)name, (void)text;
    return TV_OK;
}

static void coverages(void **state)
{
    (void)state;
    tv_cover_close_options options = {.size = sizeof options, .seed = 1, .instructions = 3, .program = ignore_program};
    tv_cover *cover;
    tv_config *config;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    NULL_CASE(tv_cover_new, sink);
    assert_int_equal(tv_cover_new("none", NULL, &cover), TV_ERR_INPUT);
    assert_int_equal(tv_cover_new("pccx", NULL, &cover), TV_OK);
    tv_machine *machine;
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    NULL_CASE(tv_cover_attach, sink);
    assert_int_equal(tv_cover_attach(cover, machine, NULL), TV_OK);
    assert_int_equal(tv_cover_attach(cover, machine, NULL), TV_ERR_INPUT);
    tv_cover_detach(cover);
    tv_machine_free(machine);
    NULL_CASE(tv_cover_merge, sink);
    assert_int_equal(tv_cover_merge(cover, "/nothing", NULL), TV_ERR_INPUT);
    NULL_CASE(tv_cover_merge_bytes, sink);
    assert_int_equal(tv_cover_merge_bytes(cover, "a", "", 0, NULL), TV_ERR_INPUT);
    char target[16];
    NULL_CASE(tv_cover_target_of, sink);
    assert_int_equal(tv_cover_target_of("/nothing", NULL, target), TV_ERR_INPUT);
    NULL_CASE(tv_cover_count, group);
    assert_true(tv_cover_count(cover, NULL).open > 0);
    NULL_CASE(tv_cover_close, sink);
    assert_int_equal(tv_cover_close(cover, config, &options, NULL), TV_OK);
    options.size = 0;
    assert_int_equal(tv_cover_close(cover, config, &options, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_cover_free, cover);
    tv_cover_free(NULL);
    tv_cover_free(cover);
    tv_config_free(config);
}

static void scoreboards(void **state)
{
    (void)state;
    static const char log[] = "{\"commit_log\":1,\"target\":\"pccx\"}\n{\"insn\":\"A\"}\n";
    tv_commit_log_reader *readers[2];
    tv_machine *machine = build("pccx");
    tv_scoreboard *board;
    tv_scoreboard_counts counts;
    tv_rules *rules;
    NULL_CASE(tv_rules_read, sink);
    assert_int_equal(tv_rules_read("/none/none", NULL, &rules), TV_ERR_INPUT);
    NULL_CASE(tv_rules_parse, sink);
    assert_int_equal(tv_rules_parse("x", "a", 1, NULL, &rules), TV_ERR_INPUT);
    NULL_CASE(tv_rules_parse, text);
    assert_int_equal(tv_rules_parse("x", NULL, 0, NULL, &rules), TV_OK);
    tv_rules_free(rules);
    tv_waiver waiver;
    NULL_CASE(tv_rules_waiver_at, rules);
    assert_int_equal(tv_rules_waiver_at(NULL, 0, &waiver), 0);
    NULL_CASE(tv_rules_free, rules);
    tv_rules_free(NULL);
    NULL_CASE(tv_scoreboard_new, options);
    assert_int_equal(tv_scoreboard_new(machine, NULL, &board), TV_OK);
    NULL_CASE(tv_scoreboard_write, enables);
    assert_int_equal(tv_scoreboard_write(board, 1, "l2", 0, log, 2, NULL), TV_OK);
    tv_scoreboard_free(board);
    NULL_CASE(tv_scoreboard_free, board);
    tv_scoreboard_free(NULL);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(tv_commit_log_read_bytes("x", log, sizeof log - 1, NULL, &readers[i]), TV_OK);
    NULL_CASE(tv_commit_log_compare, options);
    NULL_CASE(tv_commit_log_compare, sink);
    assert_int_equal(tv_commit_log_compare(machine, readers[0], readers[1], NULL, NULL, &counts), TV_OK);
    assert_int_equal(counts.instructions, 1);
    tv_commit_log_close(readers[0]);
    tv_commit_log_close(readers[1]);
    tv_machine_free(machine);
}

static void debuggers(void **state)
{
    (void)state;
    tv_config *config = configure("pccx");
    tv_program *program = assemble();
    const tv_program *list[] = {program};
    tv_debug *debug;
    tv_debug_stop stop;
    tv_debug_answer answer;
    unsigned number;
    NULL_CASE(tv_debug_new, options);
    NULL_CASE(tv_debug_new, sink);
    assert_int_equal(tv_debug_new(config, list, 0, NULL, NULL, &debug), TV_ERR_INPUT);
    assert_int_equal(tv_debug_new(config, list, 1, NULL, NULL, &debug), TV_OK);
    NULL_CASE(tv_debug_write, data);
    NULL_CASE(tv_debug_write, sink);
    assert_int_equal(tv_debug_write(debug, "l2", 0, NULL, 0, NULL), TV_OK);
    assert_int_equal(tv_debug_write(debug, "none", 0, "x", 1, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_debug_load, sink);
    assert_int_equal(tv_debug_load(debug, "l2:0", "/none/none", NULL), TV_ERR_INPUT);
    NULL_CASE(tv_debug_step, sink);
    assert_int_equal(tv_debug_step(debug, 1, NULL, &stop), TV_OK);
    NULL_CASE(tv_debug_step_back, sink);
    assert_int_equal(tv_debug_step_back(debug, 1, NULL, &stop), TV_OK);
    NULL_CASE(tv_debug_continue, sink);
    assert_int_equal(tv_debug_continue(debug, NULL, &stop), TV_OK);
    assert_int_equal(stop.reason, TV_DEBUG_END);
    NULL_CASE(tv_debug_reverse_continue, sink);
    assert_int_equal(tv_debug_reverse_continue(debug, NULL, &stop), TV_OK);
    NULL_CASE(tv_debug_restart, sink);
    assert_int_equal(tv_debug_restart(debug, NULL, &stop), TV_OK);
    tv_break breakpoint = {.kind = TV_BREAK_INDEX, .value = 1};
    NULL_CASE(tv_debug_break_add, sink);
    assert_int_equal(tv_debug_break_add(debug, &breakpoint, NULL, &number), TV_OK);
    breakpoint.value = 100;
    assert_int_equal(tv_debug_break_add(debug, &breakpoint, NULL, &number), TV_ERR_INPUT);
    NULL_CASE(tv_debug_break_enable, sink);
    assert_int_equal(tv_debug_break_enable(debug, number + 1, 1, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_debug_break_skip, sink);
    assert_int_equal(tv_debug_break_skip(debug, number + 1, 1, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_debug_break_delete, sink);
    assert_int_equal(tv_debug_break_delete(debug, number + 1, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_debug_command, sink);
    assert_int_equal(tv_debug_command(debug, "none", NULL, &answer), TV_ERR_INPUT);
    assert_non_null(answer.json);
    tv_debug_answer_free(&answer);
    tv_debug_answer_free(&answer);
    NULL_CASE(tv_debug_finish_trace, group);
    NULL_CASE(tv_debug_finish_trace, sink);
    assert_int_equal(tv_debug_finish_trace(debug, NULL, NULL), TV_OK); /* there is none */
    tv_debug_abandon_trace(debug);
    tv_debug_free(debug);
    NULL_CASE(tv_dap_serve, sink);
    tv_dap_io io = {write_nothing, read_nothing, NULL};
    tv_dap_serve(&io, NULL);
    tv_program_free(program);
    tv_config_free(config);
}

static void language_models(void **state)
{
    (void)state;
    tv_llm *llm;
    tv_llm_session *session;
    tv_llm_options options = {.size = sizeof options, .target = "host", .context = 16, .verify = 1};
    tv_llm_sampling sampling = {.size = sizeof sampling, .top_p = 1};
    tv_llm_similarity *list;
    tv_llm_likelihood likelihood = {.size = sizeof likelihood};
    uint32_t count;
    char model[4096];
    FILE *graph = fopen(in_folder("graph"), "w");
    snprintf(model, sizeof model, "%s/%s", models, model_path);
    NULL_CASE(tv_llm_open, sink);
    NULL_CASE(tv_llm_open_context, sink);
    assert_int_equal(tv_llm_open("/none/none", NULL, &llm), TV_ERR_INPUT);
    assert_int_equal(tv_llm_open_context("/none/none", 16, NULL, &llm), TV_ERR_INPUT);
    assert_int_equal(tv_llm_open(model, NULL, &llm), TV_OK);
    NULL_CASE(tv_llm_print_graph, sink);
    assert_int_equal(tv_llm_print_graph(llm, graph, NULL), TV_OK);
    fclose(graph);
    NULL_CASE(tv_llm_session_new, sink);
    assert_int_equal(tv_llm_session_new(llm, &options, NULL, &session), TV_OK);
    NULL_CASE(tv_llm_verify, sink);
    assert_int_equal(tv_llm_verify(session, "The", 1, &list, &count, NULL), TV_OK);
    free(list);
    NULL_CASE(tv_llm_eval, sink);
    assert_int_equal(tv_llm_eval(session, "The king", 8, 2, &likelihood, NULL), TV_OK);
    tv_llm_session_free(session);
    options.verify = 0;
    assert_int_equal(tv_llm_session_new(llm, &options, NULL, &session), TV_OK);
    NULL_CASE(tv_llm_generate, text);
    NULL_CASE(tv_llm_generate, user);
    NULL_CASE(tv_llm_generate, sink);
    assert_int_equal(tv_llm_generate(session, "The", 1, &sampling, NULL, NULL, NULL), TV_OK);
    const char *name;
    tv_llm_message message = {.size = sizeof message, .text = "Who?", .chat_template = "llama2", .count = 1};
    NULL_CASE(tv_llm_chat_template, requested);
    NULL_CASE(tv_llm_chat_template, sink);
    assert_int_equal(tv_llm_chat_template(llm, NULL, &name, NULL), TV_ERR_INPUT); /* the shipped model has none */
    NULL_CASE(tv_llm_answer, text);
    NULL_CASE(tv_llm_answer, user);
    NULL_CASE(tv_llm_answer, sink);
    assert_int_equal(tv_llm_answer(session, &message, &sampling, NULL, NULL, NULL), TV_ERR_INPUT); /* 16 positions */
    NULL_CASE(tv_llm_skip, sink);
    assert_int_equal(tv_llm_skip(session, 1, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_llm_time, sink);
    assert_int_equal(tv_llm_time(session, 1000, 0, NULL), TV_ERR_INPUT);
    tv_llm_session_free(session);
    options.target = "none";
    assert_int_equal(tv_llm_session_new(llm, &options, NULL, &session), TV_ERR_INPUT);
    tv_llm_free(llm);
}

/* y = Relu(x) of four numbers. */
static const char relu[] =
    "\010\007\022\000:3\012\014\012\001x\022\001y\042\004Relu\022\001gZ\017\012\001x\022\012"
    "\012\010\010\001\022\004\012\002\010\004b\017\012\001y\022\012\012\010\010\001\022\004\012\002"
    "\010\004B\004\012\000\020\015";

static void networks(void **state)
{
    (void)state;
    tv_network *network;
    tv_network_session *session;
    tv_network_tensor t;
    float x[] = {1, -2, 3, -4};
    tv_network_session_options options = {.size = sizeof options, .target = "host", .verify = 1};
    FILE *model = fopen(in_folder("relu.onnx"), "wb");
    fwrite(relu, 1, sizeof relu - 1, model);
    fclose(model);
    NULL_CASE(tv_network_open, options);
    NULL_CASE(tv_network_open, sink);
    assert_int_equal(tv_network_open("/none/none", NULL, NULL, &network), TV_ERR_INPUT);
    assert_int_equal(tv_network_open(in_folder("relu.onnx"), NULL, NULL, &network), TV_OK);
    NULL_CASE(tv_network_set_input, sink);
    assert_int_equal(tv_network_set_input(network, "none", x, sizeof x, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_network_set_input(network, "x", x, sizeof x, NULL), TV_OK);
    NULL_CASE(tv_network_load_input, type);
    NULL_CASE(tv_network_load_input, sink);
    assert_int_equal(tv_network_load_input(network, "x", "/none/none", NULL, NULL), TV_ERR_INPUT);
    NULL_CASE(tv_network_session_new, sink);
    assert_int_equal(tv_network_session_new(network, &options, NULL, &session), TV_OK);
    NULL_CASE(tv_network_session_run, sink);
    assert_int_equal(tv_network_session_run(session, NULL), TV_OK);
    NULL_CASE(tv_network_session_verify, sink);
    assert_int_equal(tv_network_session_verify(session, NULL), TV_OK);
    assert_int_equal(tv_network_session_output_at(session, 0, &t), 1);
    assert_memory_equal(t.data, ((float[]){1, 0, 3, 0}), sizeof x);
    NULL_CASE(tv_network_session_save_output, type);
    NULL_CASE(tv_network_session_save_output, group);
    NULL_CASE(tv_network_session_save_output, sink);
    assert_int_equal(tv_network_session_save_output(session, "none", "/none", NULL, NULL, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_network_session_save_output(session, "y", in_folder("y.npy"), NULL, NULL, NULL), TV_OK);
    assert_int_equal(tv_network_load_input(network, "x", in_folder("y.npy"), NULL, NULL), TV_OK);
    NULL_CASE(tv_network_session_save_manifest, sink);
    assert_int_equal(tv_network_session_save_manifest(session, NULL), TV_ERR_INPUT);
    tv_network_session_free(session);
    tv_network_free(network);
}

static void units(void **state)
{
    (void)state;
    const tv_sfu_op op = {.function = TV_SFU_EXP};
    uint16_t x = 0x3F80, y;
    float scale;
    int8_t q;
    uint8_t packed;
    NULL_CASE(tv_unit_sfu, addend);
    NULL_CASE(tv_unit_sfu, steps);
    assert_int_equal(tv_unit_sfu(&op, &x, 1, NULL, NULL, &y), TV_OK);
    assert_int_equal(y, 0x402E); /* e */
    NULL_CASE(tv_unit_preprocess, steps);
    assert_int_equal(tv_unit_preprocess(&x, 1, 0, NULL, &scale, &q), TV_OK);
    assert_int_equal(q, 64);
    NULL_CASE(tv_unit_dual_dot, words);
    assert_int_equal(tv_unit_dual_dot(&(int8_t){3}, &(int8_t){2}, &q, 1, 24, NULL), INT64_C(192) * 0x1000000 + 128);
    NULL_CASE(tv_unit_normalize, addend);
    NULL_CASE(tv_unit_normalize, steps);
    assert_int_equal(tv_unit_normalize(2, 1.0f, 0x3F80, NULL, NULL), 0x4000);
    NULL_CASE(tv_unit_requantize, quotient);
    assert_int_equal(tv_unit_requantize(&scale, 1, scale, 8, NULL, &packed), TV_OK);
    assert_int_equal(packed, 1);
}

/* The rules for structs that may grow (trivet.h): a larger struct is accepted, one without a size is an error. */
static void sizes(void **state)
{
    (void)state;
    struct {
        tv_stats stats;
        uint64_t newer;
    } grown = {.stats.size = sizeof grown, .newer = 42};
    struct {
        tv_run_limits limits;
        uint64_t newer;
    } limits = {{sizeof limits, 1, UINT64_MAX}, 42};
    tv_stats unset = {.cycles = 42};
    tv_machine *machine = build("pccx");
    tv_program *program = assemble();
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, &(tv_run_limits){0, 1, UINT64_MAX}, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_machine_next_index(machine), 0);
    assert_int_equal(tv_machine_run(machine, &limits.limits, NULL), TV_OK);
    assert_int_equal(tv_machine_next_index(machine), 1);
    assert_int_equal(tv_machine_stats(machine, &unset), TV_ERR_INPUT);
    assert_int_equal(unset.cycles, 42);
    assert_int_equal(tv_machine_stats(machine, &grown.stats), TV_OK);
    assert_int_equal(grown.stats.instructions, 1);
    assert_int_equal(grown.stats.size, sizeof grown);
    assert_int_equal(grown.newer, 42);
    tv_energy_stats energy = {.action_count = 42};
    assert_int_equal(tv_machine_energy(machine, &energy), TV_ERR_INPUT);
    assert_int_equal(energy.action_count, 42);
    energy.size = sizeof energy;
    assert_int_equal(tv_machine_energy(machine, &energy), TV_OK);
    assert_true(energy.total.nominal.attojoules > 0);
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    tv_json_writer *writer = tv_json_writer_new(file, TV_JSON_COMPACT);
    tv_json_begin_object(writer);
    assert_int_equal(tv_stats_write_json(writer, &unset), TV_ERR_INPUT);
    assert_int_equal(tv_stats_write_json(writer, &grown.stats), TV_OK);
    tv_json_end_object(writer);
    assert_true(tv_json_writer_finish(writer));
    fclose(file);
    assert_non_null(strstr(text, ",\"instructions\":1,"));
    assert_int_equal(strncmp(text, "{\"cycles\":", 10), 0);
    assert_null(strstr(text, "\"cycles\":42,"));
    tv_json_writer_free(writer);
    free(text);
    tv_machine_free(machine);
    tv_program_free(program);
    tv_program_options options = {.target = "pccx"};
    assert_int_equal(tv_program_assemble("x.s", source, strlen(source), &options, NULL, &program), TV_ERR_INPUT);
    options.size = sizeof options;
    assert_int_equal(tv_program_assemble("x.s", source, strlen(source), &options, NULL, &program), TV_OK);
    tv_program_free(program);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_functions_accept_null),
        cmocka_unit_test(codecs),
        cmocka_unit_test(configurations),
        cmocka_unit_test(files),
        cmocka_unit_test(json),
        cmocka_unit_test(programs),
        cmocka_unit_test(machines),
        cmocka_unit_test(traces_and_reports),
        cmocka_unit_test(memory_files),
        cmocka_unit_test(commit_logs),
        cmocka_unit_test(scoreboards),
        cmocka_unit_test(reductions),
        cmocka_unit_test(generators),
        cmocka_unit_test(coverages),
        cmocka_unit_test(validations),
        cmocka_unit_test(sweeps),
        cmocka_unit_test(debuggers),
        cmocka_unit_test(language_models),
        cmocka_unit_test(networks),
        cmocka_unit_test(units),
        cmocka_unit_test(sizes),
    };
    if (argc != 2 || !mkdtemp(folder))
        return 2;
    models = argv[1];
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    static const char *const written[] = {"plain",       "nulls.elf",  "trace.json", "trace.csv",
                                          "report.html", "commit.log", "graph"};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        unlink(in_folder(written[i]));
    rmdir(folder);
    return failed;
}
