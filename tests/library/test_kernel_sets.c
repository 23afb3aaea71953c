/* SPDX-License-Identifier: Apache-2.0 */
/* With every set of kernels that the host has, and with one thread and two, programs and a language model leave the
 * same memories, say the same, take the same cycles and write the same trace, byte for byte, as with the plain set and
 * one thread.
 *
 *     test_kernel_sets all|few MODEL PROGRAM …
 *
 * `few` is for slow builds: the pairs of a set and a number of threads that tell one from the other, not all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trivet/llm.h"
#include "trivet/trivet.h"

enum { BYTES_MAX = 1 << 19, FILL = 1 << 17, SPACES = 12, TEXT = 1024 };

static struct {
    bool few;
    const char *model;
    char **programs;
    int count;
} given;

/* What a run leaves. Of a large space the first MOST bytes, which have all that these programs work on. */
typedef struct outcome {
    uint8_t *memory[SPACES];
    size_t bytes[SPACES];
    unsigned spaces;
    uint64_t cycles;
    char output[TEXT];
    size_t length;
    char *trace;
    size_t trace_bytes;
} outcome;

static void free_outcome(outcome *o)
{
    for (unsigned i = 0; i < o->spaces; i++)
        free(o->memory[i]);
    free(o->trace);
    *o = (outcome){0};
}

static void keep_memories(tv_machine *machine, outcome *out)
{
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++) {
        assert_true(i < SPACES);
        uint64_t units_max = BYTES_MAX / space.unit_bytes, units = space.size < units_max ? space.size : units_max;
        out->bytes[i] = (size_t)(units * space.unit_bytes);
        out->memory[i] = malloc(out->bytes[i]);
        assert_non_null(out->memory[i]);
        assert_int_equal(tv_machine_read(machine, space.name, 0, out->memory[i], out->bytes[i], NULL), TV_OK);
        out->spaces = i + 1;
    }
}

/* Nothing is the same as nothing, which memcmp must not be asked. */
static bool same_bytes(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return a_bytes == b_bytes && (a_bytes == 0 || memcmp(a, b, a_bytes) == 0);
}

static void check_same(const outcome *want, const outcome *got, const char *what, const char *kernels, unsigned threads)
{
    const char *rejected = got->cycles != want->cycles                                         ? "the cycles differ"
                           : !same_bytes(got->output, got->length, want->output, want->length) ? "the output differs"
                           : !same_bytes(got->trace, got->trace_bytes, want->trace, want->trace_bytes)
                               ? "the trace differs"
                               : NULL;
    for (unsigned i = 0; i < want->spaces && !rejected; i++)
        if (!same_bytes(got->memory[i], got->bytes[i], want->memory[i], want->bytes[i]))
            rejected = "the memories differ";
    if (rejected)
        fail_msg("%s with %s kernels and --threads %u: %s", what, kernels, threads, rejected);
}

/* ---- Traces ---- */

static tv_trace_writer *begin_trace(tv_machine *machine, char path[static 32])
{
    tv_trace_writer *writer;
    strcpy(path, "/tmp/trivet-sets-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    assert_int_equal(tv_trace_open(path, TV_TRACE_JSON, machine, NULL, &writer), TV_OK);
    tv_trace_sink sink = tv_trace_writer_sink(writer);
    tv_machine_trace(machine, &sink);
    return writer;
}

static void end_trace(tv_trace_writer *writer, tv_machine *machine, const char *path, outcome *out)
{
    tv_machine_trace(machine, NULL);
    assert_int_equal(tv_trace_finish(writer, machine, NULL), TV_OK);
    FILE *file = fopen(path, "rb");
    assert_true(file && fseek(file, 0, SEEK_END) == 0);
    out->trace_bytes = (size_t)ftell(file);
    rewind(file);
    assert_true(out->trace_bytes > 0 && (out->trace = malloc(out->trace_bytes)) != NULL);
    assert_true(fread(out->trace, 1, out->trace_bytes, file) == out->trace_bytes);
    fclose(file);
    remove(path);
}

/* ---- Programs ---- */

/* Numbers that are finite and of middling size as BF16 and as binary32, and of every low byte and nibble. */
static void fill_memories(tv_machine *machine)
{
    static uint8_t data[FILL];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof data; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (uint8_t)(i % 2 ? (x >> 24 & 0x83) | 0x3C : x >> 24);
    }
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++) {
        uint64_t units_max = FILL / space.unit_bytes, units = space.size < units_max ? space.size : units_max;
        if (!space.alias_of) /* what a space does not take as it is, it leaves */
            tv_machine_write(machine, space.name, 0, data, (size_t)(units * space.unit_bytes), NULL);
    }
}

static void run_program(const tv_program *program, const tv_config *config, unsigned threads, bool traced, outcome *out)
{
    tv_machine *machine;
    tv_trace_writer *writer = NULL;
    char path[32];
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_machine_set_threads(machine, threads);
    fill_memories(machine);
    if (traced)
        writer = begin_trace(machine, path);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    tv_machine_run(machine, NULL, NULL); /* many of these programs fault */
    const tv_fault *fault = tv_machine_fault(machine);
    if (fault)
        snprintf(out->output, sizeof out->output, "%s at %llu: %s", fault->code, (unsigned long long)fault->index,
                 fault->message);
    out->length = strlen(out->output);
    out->cycles = tv_machine_clock(machine);
    keep_memories(machine, out);
    if (traced)
        end_trace(writer, machine, path, out);
    tv_machine_free(machine);
}

/* Calls `run` for every set and number of threads, the plain set with one thread first. */
static void for_each_set(void (*run)(const char *kernels, unsigned threads, void *user), void *user)
{
    const char *name;
    for (unsigned i = 0; (name = tv_kernels_at(i)); i++)
        for (unsigned threads = 1; threads <= 2; threads++) {
            if (given.few && (i == 0 ? threads == 2 : threads == 1))
                continue;
            setenv("TRIVET_KERNELS", name, 1);
            run(name, threads, user);
        }
    unsetenv("TRIVET_KERNELS");
}

typedef struct program_case {
    const char *path;
    const tv_program *program;
    const tv_config *config;
    outcome want[2]; /* without and with a trace, which are different paths in a machine */
} program_case;

static void compare_program(const char *kernels, unsigned threads, void *user)
{
    program_case *c = user;
    for (unsigned traced = 0; traced < 2; traced++) {
        outcome got = {0};
        run_program(c->program, c->config, threads, traced, &got);
        if (c->want[traced].spaces == 0) {
            c->want[traced] = got;
            continue;
        }
        check_same(&c->want[traced], &got, c->path, kernels, threads);
        free_outcome(&got);
    }
}

static void compare_on(const char *path, const tv_program *program, const char *profile)
{
    program_case c = {.path = path, .program = program};
    tv_config *config;
    assert_int_equal(tv_config_new(tv_program_target(program), NULL, &config), TV_OK);
    if (profile)
        assert_int_equal(tv_config_load(config, profile, NULL), TV_OK);
    c.config = config;
    for_each_set(compare_program, &c);
    free_outcome(&c.want[0]);
    free_outcome(&c.want[1]);
    tv_config_free(config);
}

static void programs_leave_the_same_with_every_set_and_number_of_threads(void **state)
{
    (void)state;
    int read = 0;
    for (int i = 0; i < given.count; i++) {
        tv_program *program; /* some sources are wrong on purpose, or want options */
        if (tv_program_open(given.programs[i], NULL, NULL, &program) != TV_OK)
            continue;
        compare_on(given.programs[i], program, tv_program_profile(program));
        if (strcmp(tv_program_target(program), "opennpu") == 0 && !tv_program_profile(program))
            compare_on(given.programs[i], program, "test"); /* 8 lanes */
        tv_program_free(program);
        read++;
    }
    printf("%d programs of %d files\n", read, given.count);
    assert_true(read >= given.count / 2);
}

/* ---- A language model ---- */

static int collect(void *user, const char *bytes, size_t size)
{
    outcome *out = user;
    assert_true(out->length + size <= sizeof out->output);
    memcpy(out->output + out->length, bytes, size);
    out->length += size;
    return 0;
}

typedef struct model_case {
    tv_llm *llm;
    const char *target;
    outcome want;
} model_case;

/* A text without a trace, then a token with one. */
static void compare_session(const char *kernels, unsigned threads, void *user)
{
    model_case *c = user;
    tv_llm_session *session;
    tv_llm_options options = {.size = sizeof options, .target = c->target, .threads = threads};
    tv_llm_sampling argmax = {sizeof argmax, 0, 1, 1};
    outcome got = {0};
    char path[32];
    assert_int_equal(tv_config_new(c->target, NULL, (tv_config **)(uintptr_t)&options.config), TV_OK);
    assert_int_equal(tv_llm_session_new(c->llm, &options, NULL, &session), TV_OK);
    tv_machine *machine = tv_llm_session_machine(session);
    assert_int_equal(tv_llm_generate(session, "ROMEO: What", given.few ? 1 : 4, &argmax, collect, &got, NULL), TV_OK);
    tv_trace_writer *writer = begin_trace(machine, path);
    assert_int_equal(tv_llm_generate(session, "A", 1, &argmax, collect, &got, NULL), TV_OK);
    end_trace(writer, machine, path, &got);
    got.cycles = tv_machine_clock(machine);
    keep_memories(machine, &got);
    tv_llm_session_free(session);
    tv_config_free((tv_config *)(uintptr_t)options.config);
    if (c->want.spaces == 0) {
        c->want = got;
        return;
    }
    check_same(&c->want, &got, c->target, kernels, threads);
    free_outcome(&got);
}

static void a_model_writes_and_costs_the_same_with_every_set_and_number_of_threads(void **state)
{
    (void)state;
    tv_llm *llm;
    const char *target;
    assert_int_equal(tv_llm_open(given.model, NULL, &llm), TV_OK);
    for (unsigned i = 1; (target = tv_llm_target_at(i)); i++) { /* 0 is the host, which has no machine */
        model_case c = {.llm = llm, .target = target};
        for_each_set(compare_session, &c);
        assert_true(c.want.length > 0);
        free_outcome(&c.want);
    }
    tv_llm_free(llm);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    given.few = strcmp(argv[1], "few") == 0;
    given.model = argv[2];
    given.programs = argv + 3;
    given.count = argc - 3;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_leave_the_same_with_every_set_and_number_of_threads),
        cmocka_unit_test(a_model_writes_and_costs_the_same_with_every_set_and_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
