/* SPDX-License-Identifier: Apache-2.0 */
/* The library on a host whose memory or files fail at one call: each scenario either does what it does on a sound host,
 * or ends with the status of the failure and an error, frees all it has, and leaves no temporary file.
 *
 *     test_host_failures SOURCE_TREE */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "failures.h"
#include "trivet/trivet.h"

static const char *tree;
static char folder[] = "/tmp/trivet-failures-XXXXXX";

/* One run of a scenario: a digest of all results, and the diagnostics. */
typedef struct scene {
    tv_diag_sink sink;
    uint64_t digest;
    unsigned errors;
    char last[256]; /* error */
} scene;

typedef struct scenario {
    const char *name;
    tv_status (*run)(scene *s);
    tv_status expected;
    bool reads_sources; /* for display: goes on without them */
} scenario;

static void add_bytes(scene *s, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++)
        s->digest = (s->digest ^ p[i]) * UINT64_C(0x100000001B3);
}

static void add_text(scene *s, const char *text)
{
    if (text)
        add_bytes(s, text, strlen(text) + 1);
}

static void add_number(scene *s, uint64_t n) { add_bytes(s, &n, sizeof n); }

static void note_diagnostic(void *user, const tv_diag *diag)
{
    scene *s = user;
    add_text(s, diag->message);
    s->errors += diag->severity == TV_ERROR;
    if (diag->severity == TV_ERROR)
        snprintf(s->last, sizeof s->last, "%s %s", diag->code ? diag->code : "", diag->message);
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        tv_status try_status = (call);                                                                                 \
        if (try_status != TV_OK)                                                                                       \
            return try_status;                                                                                         \
    } while (0)

/* The path of a file of the source tree, or of one in the folder for outputs; four can be in use at once. */
static const char *join(const char *where, const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", where, name);
    return path;
}

static const char *in_tree(const char *name) { return join(tree, name); }

static const char *in_folder(const char *name) { return join(folder, name); }

static void add_file(scene *s, const char *path)
{
    static char bytes[1 << 16];
    failures_pause(true);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = read(fd, bytes, sizeof bytes)) > 0;)
        add_bytes(s, bytes, (size_t)n);
    if (fd >= 0)
        close(fd);
    failures_pause(false);
}

/* ---- Running a scenario with failures ---- */

/* Empties the folder for outputs. Returns whether a temporary file was in it. */
static bool empty_folder(void)
{
    bool temporary = false;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        temporary |= entry->d_name[0] == '.';
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
    return temporary;
}

static tv_status run_once(const scenario *c, scene *s)
{
    *s = (scene){.sink = {note_diagnostic, s}};
    return c->run(s);
}

static const char *find_problem(const scenario *c, failure_kind kind, const scene *sound, tv_status status,
                                const scene *s)
{
    if (status == c->expected && s->digest == sound->digest)
        return NULL;
    if (status == TV_OK && kind != FAILURE_MEMORY && !c->reads_sources)
        return "the results differ";
    if (status == c->expected)
        return NULL;
    if (s->errors == 0)
        return "no error is reported";
    if (kind == FAILURE_MEMORY)
        return status == TV_ERR_MEMORY ? NULL : "the status is not TV_ERR_MEMORY";
    return status == TV_ERR_IO || status == TV_ERR_MEMORY ? NULL : "the status is not TV_ERR_IO";
}

static void check_failures(const scenario *c, failure_kind kind, int error, bool all)
{
    static unsigned points[1 << 14];
    scene sound, s;
    unsigned count;
    empty_folder();
    assert_int_equal(run_once(c, &sound), c->expected);
    empty_folder();
    failures_count(kind);
    run_once(c, &s);
    failures_end();
    if (s.digest != sound.digest)
        fail_msg("%s: two runs differ", c->name);
    const unsigned *paths = failures_paths(&count);
    memcpy(points, paths, count * sizeof *points);
    for (unsigned i = 0; i < count; i++) {
        empty_folder();
        failures_begin(kind, points[i], error, all);
        tv_status status = run_once(c, &s);
        failures_end();
        const char *problem = find_problem(c, kind, &sound, status, &s);
        if (!problem && empty_folder())
            problem = "a temporary file is left";
        if (problem)
            fail_msg("%s: call %u fails with %s%s: %s; status %d, %s", c->name, points[i], strerror(error),
                     all ? ", and all after it" : "", problem, (int)status, s.last);
    }
}

/* ---- Assembling, reading and writing programs ---- */

static tv_status open_program(scene *s, const char *path, tv_program **out)
{
    return tv_program_open(path, &(tv_program_options){.size = sizeof(tv_program_options)}, &s->sink, out);
}

static tv_status read_program(scene *s, const char *path)
{
    tv_program *program;
    tv_text_buffer line = {0};
    tv_output_info output;
    tv_symbol symbol;
    TRY(open_program(s, path, &program));
    for (uint64_t i = 0; i < tv_program_instruction_count(program); i++) {
        add_number(s, tv_program_word(program, i));
        if (tv_program_print(program, i, &line))
            add_text(s, line.text);
    }
    for (uint64_t i = 0; tv_program_symbol_at(program, i, &symbol); i++)
        add_text(s, symbol.name);
    for (uint64_t i = 0; tv_program_output_at(program, i, &output); i++)
        add_text(s, output.name);
    free(line.text);
    tv_program_free(program);
    return TV_OK;
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

/* ---- Running ---- */

typedef struct setup {
    const char *source, *profile;
    tv_program *program;
    tv_config *config;
    tv_machine *machine;
} setup;

static void fini_setup(setup *u)
{
    tv_machine_free(u->machine);
    tv_config_free(u->config);
    tv_program_free(u->program);
}

static const char *memory_size_key(const tv_config *config)
{
    const char *target = tv_config_target(config);
    return strcmp(target, "pccx") == 0 ? "host.bytes" : strcmp(target, "cmdq") == 0 ? "dram.bytes" : "mem.bytes";
}

static tv_status init_setup(scene *s, setup *u)
{
    tv_status status = open_program(s, in_tree(u->source), &u->program);
    if (status == TV_OK)
        status = tv_config_new(tv_program_target(u->program), &s->sink, &u->config);
    if (status == TV_OK)
        status = tv_config_load(u->config, in_tree(u->profile), &s->sink);
    if (status == TV_OK) /* a snapshot looks at every page */
        status = tv_config_set(u->config, memory_size_key(u->config), "4Mi", &s->sink);
    if (status == TV_OK)
        status = tv_machine_new(u->config, TV_MODE_FULL, &s->sink, &u->machine);
    return status;
}

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

/* A memory failure of a call that reports no diagnostics counts as reported. */
static tv_status report_quiet(scene *s, tv_status status)
{
    s->errors += status == TV_ERR_MEMORY;
    return status;
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
    for (unsigned i = 0; tv_machine_state_at(u->machine, i, &value); i++)
        add_text(s, value.text);
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
        status = tv_trace_convert(path, in_folder("c.json.zst"), TV_TRACE_JSON, NULL, &s->sink);
    return status;
}

static tv_status run_pccx(scene *s)
{
    return run_program(s, "examples/pccx/pipeline.s", "configs/pccx-kv260.ini", TV_TRACE_JSON, "t.json");
}

static tv_status run_opennpu(scene *s)
{
    return run_program(s, "examples/opennpu/tanh.s", "configs/opennpu-test.ini", TV_TRACE_PERFETTO, "t.json.zst");
}

static tv_status run_cmdq(scene *s)
{
    return run_program(s, "examples/cmdq/missing_dependency.json", "configs/cmdq-mobile.ini", TV_TRACE_JSON,
                       "t.json.zst");
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

/* ---- The debugger ---- */

static tv_status debug(scene *s, const char *source, const char *profile, const char *const *lines)
{
    setup u = {.source = source, .profile = profile};
    tv_debug *debugger = NULL;
    tv_debug_options options = {.size = sizeof options, .snapshot_interval = 3, .snapshot_memory = 1 << 20};
    tv_status status = init_setup(s, &u);
    const tv_program *programs[] = {u.program};
    if (status == TV_OK)
        status = tv_debug_new(u.config, programs, 1, &options, &s->sink, &debugger);
    for (; status == TV_OK && *lines; lines++) {
        tv_debug_answer answer;
        tv_status of_line = report_quiet(s, tv_debug_command(debugger, *lines, &s->sink, &answer));
        add_text(s, answer.text);
        add_text(s, answer.json);
        tv_debug_answer_free(&answer);
        if (of_line == TV_ERR_MEMORY || of_line == TV_ERR_IO)
            status = of_line;
        char *words = status == TV_OK ? tv_debug_complete(debugger, *lines) : NULL;
        add_text(s, words);
        free(words);
    }
    tv_debug_free(debugger);
    fini_setup(&u);
    return status;
}

static tv_status debug_pccx(scene *s)
{
    static const char *const lines[] = {"help",
                                        "break 5",
                                        "tbreak 3",
                                        "watch l2:0:8 write",
                                        "info break",
                                        "continue",
                                        "where",
                                        "list",
                                        "disassemble 0 3",
                                        "explain",
                                        "why",
                                        "info engines",
                                        "info registers",
                                        "print l2:0:8:bf16",
                                        "x l2:0:8",
                                        "set l2:0 = 1",
                                        "step 2",
                                        "back 2",
                                        "reverse-continue",
                                        "finish",
                                        "nosuch",
                                        "print 1 +",
                                        "delete 1",
                                        "continue",
                                        "restart",
                                        NULL};
    return debug(s, "examples/pccx/softmax.s", "configs/pccx-kv260.ini", lines);
}

static tv_status debug_cmdq(scene *s)
{
    static const char *const lines[] = {"break on hazard", "step 2",   "info queue", "info hazards", "print spm:0:8:s8",
                                        "explain 2",       "continue", "why",        "back",         NULL};
    return debug(s, "examples/cmdq/kv.json", "configs/cmdq-mobile.ini", lines);
}

/* ---- Instruction sets ---- */

static tv_status write_schema(scene *s)
{
    static char text[1 << 17];
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

static const scenario scenarios[] = {
    {"write_elf", write_elf, TV_OK},
    {"write_elf_with_requirements", write_elf_with_requirements, TV_OK},
    {"write_hex", write_hex, TV_OK},
    {"write_bin", write_bin, TV_OK},
    {"write_queue", write_queue, TV_OK},
    {"write_queue_lines", write_queue_lines, TV_OK},
    {"read_source_with_errors", read_source_with_errors, TV_ERR_INPUT},
    {"read_blocks", read_blocks, TV_OK},
    {"read_data", read_data, TV_OK},
    {"read_macro_errors", read_macro_errors, TV_ERR_INPUT},
    {"read_hex_words", read_hex_words, TV_ERR_INPUT},
    {"read_queue_with_errors", read_queue_with_errors, TV_ERR_INPUT},
    {"read_queue_lines", read_queue_lines, TV_OK},
    {"write_outputs_of_a_group", write_outputs_of_a_group, TV_OK},
    {"run_pccx", run_pccx, TV_OK},
    {"run_opennpu", run_opennpu, TV_OK},
    {"run_cmdq", run_cmdq, TV_OK},
    {"report_pccx", report_pccx, TV_OK, true},
    {"report_cmdq", report_cmdq, TV_OK, true},
    {"debug_pccx", debug_pccx, TV_OK, true},
    {"debug_cmdq", debug_cmdq, TV_OK, true},
    {"write_schema", write_schema, TV_OK},
};

static void an_allocation_that_fails_ends_in_its_status(void **state)
{
    const scenario *c = *state;
    check_failures(c, FAILURE_MEMORY, ENOMEM, false);
    check_failures(c, FAILURE_MEMORY, ENOMEM, true);
}

static void a_file_that_fails_ends_in_its_status(void **state)
{
    const scenario *c = *state;
    check_failures(c, FAILURE_FILE, EIO, false);
    check_failures(c, FAILURE_FILE, EOPNOTSUPP, false);
    check_failures(c, FAILURE_FILE, ENOSPC, false);
}

static void an_interrupted_read_is_repeated(void **state) { check_failures(*state, FAILURE_READ, EINTR, false); }

int main(int argc, char **argv)
{
    enum { COUNT = sizeof scenarios / sizeof scenarios[0] };
    static struct CMUnitTest tests[3 * COUNT];
    if (argc < 2 || !mkdtemp(folder))
        return 2;
    tree = argv[1];
    unsigned count = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        if (argc > 2 && !strstr(scenarios[i].name, argv[2]))
            continue;
        void *c = (void *)(uintptr_t)&scenarios[i];
        tests[count++] =
            (struct CMUnitTest){scenarios[i].name, an_allocation_that_fails_ends_in_its_status, NULL, NULL, c};
        tests[count++] = (struct CMUnitTest){scenarios[i].name, a_file_that_fails_ends_in_its_status, NULL, NULL, c};
        tests[count++] = (struct CMUnitTest){scenarios[i].name, an_interrupted_read_is_repeated, NULL, NULL, c};
    }
    int failed = _cmocka_run_group_tests("host failures", tests, count, NULL, NULL);
    empty_folder();
    rmdir(folder);
    return failed;
}
