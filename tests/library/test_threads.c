/* SPDX-License-Identifier: Apache-2.0 */
/* A machine gives the same bits and cycles with any number of host threads, and with machines in other threads that
 * share its program and configuration; sessions share a model.
 *
 *     test_threads MODEL PROGRAM ...
 *
 * tests/library/race.py runs this under the thread sanitizer. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/unit.h"
#include "trivet/llm.h"
#include "trivet/trivet.h"

static struct {
    const char *model;
    char **programs;
    int count;
} given;

/* Large enough that the work is shared out: a product in integers, one in floating point, rows of softmax, and products
 * of one row or few with groups of weights, of which each thread has a slice. */
static const char queue[] =
    "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [\n"
    "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": "
    "0, \"ofm_bank\": 2, \"ofm_offset\": 0,"
    " \"m\": 61, \"n\": 67, \"k\": 512, \"qbits_weight\": 4, \"qbits_activation\": 8, \"scale_wgt\": 0.01},\n"
    "{\"opcode\": \"VE_SOFTMAX_TILE\", \"ve_id\": 0, \"in_bank\": 2, \"in_offset\": 0, \"out_bank\": 3, "
    "\"out_offset\": 0, \"length\": 67, \"rows\": 61,"
    " \"qbits_activation\": 32, \"deps_before\": [0]},\n"
    "{\"opcode\": \"VE_GELU_TILE\", \"ve_id\": 0, \"in_bank\": 0, \"in_offset\": 0, \"out_bank\": 5, \"out_offset\": "
    "0, \"length\": 256, \"rows\": 100,"
    " \"qbits_activation\": 8, \"qbits_out\": 32, \"scale_in\": 0.03, \"deps_before\": [1]},\n"
    "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 5, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": "
    "0, \"ofm_bank\": 4, \"ofm_offset\": 0,"
    " \"m\": 31, \"n\": 129, \"k\": 300, \"qbits_weight\": 2, \"qbits_activation\": 32, \"deps_before\": [2]},\n"
    "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": "
    "0, \"ofm_bank\": 7, \"ofm_offset\": 0, \"wgt_scale_bank\": 6, \"wgt_scale_offset\": 0, \"wgt_group\": 32,"
    " \"m\": 1, \"n\": 303, \"k\": 768, \"qbits_weight\": 8, \"qbits_activation\": 8, \"deps_before\": [3]},\n"
    "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": "
    "0, \"ofm_bank\": 7, \"ofm_offset\": 4096, \"wgt_scale_bank\": 6, \"wgt_scale_offset\": 0, \"wgt_group\": 32,"
    " \"m\": 3, \"n\": 250, \"k\": 1984, \"qbits_weight\": 4, \"qbits_activation\": 8, \"deps_before\": [4]},\n"
    "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": "
    "0, \"ofm_bank\": 7, \"ofm_offset\": 8192, \"wgt_scale_bank\": 6, \"wgt_scale_offset\": 0, \"wgt_group\": 32,"
    " \"m\": 1, \"n\": 17, \"k\": 8192, \"qbits_weight\": 8, \"qbits_activation\": 8, \"deps_before\": [5]},\n"
    "{\"opcode\": \"END\"}]}\n";

enum { BYTES = 16384, BANK_BYTES = 262144, SCALES = 16000, RESULT_BANKS = 4 };
static const unsigned result_banks[RESULT_BANKS] = {2, 3, 4, 7};

typedef struct result {
    uint8_t banks[RESULT_BANKS][BYTES];
    uint64_t cycles;
} result;

static void run_with(const tv_program *program, unsigned threads, result *out)
{
    tv_config *config;
    tv_machine *machine;
    tv_stats stats = {.size = sizeof stats};
    static uint8_t input[BANK_BYTES];
    static float scales[SCALES];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof input; i++)
        input[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < SCALES; i++)
        scales[i] = (float)(x = x * 1664525 + 1013904223) * 0x1p-32f;
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_machine_set_threads(machine, threads);
    for (unsigned bank = 0; bank < 2; bank++)
        assert_int_equal(tv_machine_write(machine, "spm", (uint64_t)bank * BANK_BYTES, input, sizeof input, NULL),
                         TV_OK);
    assert_int_equal(tv_machine_write(machine, "spm", UINT64_C(6) * BANK_BYTES, scales, sizeof scales, NULL), TV_OK);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    for (unsigned i = 0; i < RESULT_BANKS; i++)
        assert_int_equal(
            tv_machine_read(machine, "spm", (uint64_t)result_banks[i] * BANK_BYTES, out->banks[i], BYTES, NULL), TV_OK);
    tv_machine_stats(machine, &stats);
    out->cycles = stats.cycles;
    tv_machine_free(machine);
    tv_config_free(config);
}

static void any_number_of_threads_gives_the_same_bits_and_cycles(void **state)
{
    (void)state;
    static result one, many;
    char path[] = "/tmp/trivet-threads-XXXXXX";
    int fd = mkstemp(path);
    tv_program *program;
    assert_true(fd >= 0 && write(fd, queue, strlen(queue)) == (ssize_t)strlen(queue) && close(fd) == 0);
    assert_int_equal(tv_program_open(path, NULL, NULL, &program), TV_OK);
    remove(path);
    run_with(program, 1, &one);
    for (unsigned threads = 2; threads <= 9; threads++) {
        run_with(program, threads, &many);
        assert_memory_equal(&one, &many, sizeof one);
    }
    tv_program_free(program);
}

/* ---- Several machines at once ---- */

enum { SHARERS = 4, SPACE_BYTES = 1 << 16, TEXT = 1024 };

/* What a thread works on, which all share, and a digest of what it computes. Checks that a thread makes are counted in
 * `failed`, because cmocka's belong to the main thread. */
typedef struct sharer {
    const char *path;
    const tv_program *program;
    const tv_config *config;
    tv_llm *llm;
    const char *target;
    uint64_t digest;
    unsigned failed;
} sharer;

static void expect_ok(sharer *s, bool ok) { s->failed += !ok; }

static void add_bytes(uint64_t *digest, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++)
        *digest = (*digest ^ p[i]) * UINT64_C(0x100000001B3);
}

static void add_number(sharer *s, uint64_t value) { add_bytes(&s->digest, &value, sizeof value); }

static void add_text(sharer *s, const char *text)
{
    if (text)
        add_bytes(&s->digest, text, strlen(text));
}

static void add_event(void *user, const tv_event *event)
{
    sharer *s = user;
    add_number(s, (uint64_t)event->kind);
    add_number(s, (uint64_t)event->index);
    add_number(s, event->start);
    add_number(s, event->end);
    add_text(s, event->op);
}

static void add_diagnostic(void *user, const tv_diag *diag) { add_text(user, diag->message); }

static void add_memories(sharer *s, tv_machine *machine)
{
    uint8_t *bytes = malloc(SPACE_BYTES);
    tv_space space;
    expect_ok(s, bytes != NULL);
    for (unsigned i = 0; bytes && tv_machine_space_at(machine, i, &space); i++) {
        uint64_t units = SPACE_BYTES / space.unit_bytes;
        size_t size = (size_t)((space.size < units ? space.size : units) * space.unit_bytes);
        expect_ok(s, tv_machine_read(machine, space.name, 0, bytes, size, NULL) == TV_OK);
        add_bytes(&s->digest, bytes, size);
    }
    free(bytes);
}

/* Runs the program in a machine of this thread, a second time from a snapshot. */
static void use_machine(sharer *s)
{
    tv_diag_sink sink = {add_diagnostic, s};
    tv_trace_sink trace = {add_event, s};
    tv_check_counts counts = {0};
    tv_machine *machine;
    tv_snapshot *snapshot = NULL;
    expect_ok(s, tv_program_check(s->program, s->config, &sink, &counts) == TV_OK);
    if (tv_machine_new(s->config, TV_MODE_FULL, &sink, &machine) != TV_OK) {
        s->failed++;
        return;
    }
    tv_machine_set_threads(machine, 2);
    expect_ok(s, tv_machine_load(machine, s->program, &sink) == TV_OK);
    expect_ok(s, tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot) == TV_OK);
    tv_machine_trace(machine, &trace);
    expect_ok(s, tv_machine_run(machine, NULL, NULL) == TV_OK);
    tv_machine_trace(machine, NULL);
    add_memories(s, machine);
    if (snapshot) {
        expect_ok(s, tv_machine_restore(machine, snapshot) == TV_OK);
        expect_ok(s, tv_machine_run(machine, NULL, NULL) == TV_OK);
        add_memories(s, machine);
    }
    add_number(s, tv_machine_clock(machine));
    tv_snapshot_free(snapshot);
    tv_machine_free(machine);
}

/* Reads all that the shared program has. */
static void read_program(sharer *s)
{
    tv_text_buffer line = {0};
    tv_source_line loc;
    tv_symbol symbol;
    for (uint64_t i = 0; i < tv_program_instruction_count(s->program); i++) {
        add_number(s, tv_program_word(s->program, i));
        if (tv_program_print(s->program, i, &line))
            add_text(s, line.text);
        if (tv_program_line(s->program, i, &loc))
            add_number(s, loc.line);
    }
    for (uint64_t i = 0; tv_program_symbol_at(s->program, i, &symbol); i++)
        add_text(s, symbol.name);
    free(line.text);
}

static void *share_program(void *user)
{
    sharer *s = user;
    tv_program *own;
    read_program(s);
    use_machine(s);
    expect_ok(s, tv_program_open(s->path, NULL, NULL, &own) == TV_OK);
    expect_ok(s, tv_program_instruction_count(own) == tv_program_instruction_count(s->program));
    tv_program_free(own);
    return NULL;
}

static int add_generated(void *user, const char *bytes, size_t size)
{
    sharer *s = user;
    add_bytes(&s->digest, bytes, size);
    return 0;
}

/* A session of the shared model on `target`. */
static void *share_model(void *user)
{
    sharer *s = user;
    tv_llm_session *session;
    tv_llm_sampling argmax = {sizeof argmax, 0, 1, 1};
    tv_llm_options options = {
        .size = sizeof options, .target = s->target, .config = s->config, .threads = 2, .context = 16};
    if (tv_llm_session_new(s->llm, &options, NULL, &session) != TV_OK) {
        s->failed++;
        return NULL;
    }
    expect_ok(s, tv_llm_generate(session, "A", 1, &argmax, add_generated, s, NULL) == TV_OK);
    tv_llm_session_free(session);
    return NULL;
}

/* Calls `work` in each of `sharers` at once, and once in this thread; all must compute the same. */
static void expect_same_digests(void *(*work)(void *), const sharer *given_to_all, const char *what)
{
    sharer single = *given_to_all, sharers[SHARERS];
    pthread_t threads[SHARERS];
    work(&single);
    for (unsigned i = 0; i < SHARERS; i++) {
        sharers[i] = *given_to_all;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &sharers[i]), 0);
    }
    for (unsigned i = 0; i < SHARERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(single.failed, 0);
    for (unsigned i = 0; i < SHARERS; i++)
        if (sharers[i].failed || sharers[i].digest != single.digest)
            fail_msg("%s: thread %u computes something else than a single thread", what, i);
}

static void machines_in_several_threads_share_programs_and_configurations(void **state)
{
    (void)state;
    for (int i = 0; i < given.count; i++) {
        sharer s = {.path = given.programs[i]};
        tv_program *program;
        tv_config *config;
        assert_int_equal(tv_program_open(s.path, NULL, NULL, &program), TV_OK);
        assert_int_equal(tv_config_new(tv_program_target(program), NULL, &config), TV_OK);
        if (strstr(s.path, "opennpu"))
            assert_int_equal(tv_config_load(config, "test", NULL), TV_OK);
        s.program = program;
        s.config = config;
        expect_same_digests(share_program, &s, s.path);
        tv_config_free(config);
        tv_program_free(program);
    }
}

static void sessions_in_several_threads_share_a_model(void **state)
{
    (void)state;
    tv_llm *llm;
    const char *target;
    assert_int_equal(tv_llm_open(given.model, NULL, &llm), TV_OK);
    for (unsigned i = 0; (target = tv_llm_target_at(i)); i++) {
        tv_config *config = NULL;
        if (strcmp(target, "host") != 0)
            assert_int_equal(tv_config_new(target, NULL, &config), TV_OK);
        expect_same_digests(share_model, &(sharer){.llm = llm, .target = target, .config = config}, target);
        tv_config_free(config);
    }
    tv_llm_free(llm);
}

/* ---- A program that another thread times ---- */

static void add_state(sharer *s, tv_machine *machine)
{
    tv_state_value value;
    tv_stats stats = {.size = sizeof stats};
    tv_energy_stats energy = {.size = sizeof energy};
    add_number(s, tv_machine_next_index(machine));
    add_number(s, tv_machine_clock(machine));
    for (unsigned i = 0; tv_machine_state_at(machine, i, &value); i++) {
        add_text(s, value.name);
        add_text(s, value.text);
    }
    expect_ok(s, tv_machine_stats(machine, &stats) == TV_OK && tv_machine_energy(machine, &energy) == TV_OK);
    add_number(s, stats.cycles);
    add_number(s, stats.macs);
    for (unsigned i = 0; i < stats.path_count; i++)
        add_number(s, stats.paths[i].bytes);
    for (unsigned i = 0; i < stats.engine_count; i++) {
        add_number(s, stats.engines[i].busy);
        add_bytes(&s->digest, stats.engines[i].stalled, sizeof stats.engines[i].stalled);
    }
    add_bytes(&s->digest, energy.counts, sizeof energy.counts);
}

/* Numbers that are finite and below 2 as BF16, and of every low byte. */
static void fill_memory(tv_machine *machine, const char *space)
{
    static uint8_t data[1 << 20];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof data; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (uint8_t)(i % 2 ? (x >> 24 & 0x83) | 0x3C : x >> 24);
    }
    assert_int_equal(tv_machine_write(machine, space, 0, data, sizeof data, NULL), TV_OK);
}

/* Runs the program four times, up to every `step`-th instruction, and on after each fault, of which memory causes some
 * if `nan` is not 0: the word of L2 that has a NaN, or HOST plus the byte of host memory. The window, with its records
 * of completions, is among the memories. */
enum { HOST = 1 << 20 };

static uint64_t digest_of_runs(const tv_program *program, const tv_config *config, unsigned threads, uint64_t step,
                               uint64_t nan)
{
    sharer s = {0};
    tv_machine *machine;
    const uint16_t word[8] = {0, 0x7FC0};
    const uint32_t clear = TV_WINDOW_CLEAR_ERROR;
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_machine_set_threads(machine, threads);
    fill_memory(machine, "host");
    for (unsigned times = 0; times < 4; times++) {
        if (nan && times > 1) /* once the program is known */
            assert_int_equal(tv_machine_write(machine, nan < HOST ? "l2" : "host", nan % HOST, word, sizeof word, NULL),
                             TV_OK);
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        for (uint64_t until = step; tv_machine_next_index(machine) < tv_program_instruction_count(program);
             until += step) {
            tv_run_limits limits = {sizeof limits, until, UINT64_MAX};
            tv_status status = tv_machine_run(machine, &limits, NULL);
            add_number(&s, (uint64_t)status);
            add_state(&s, machine);
            if (status == TV_FAULT)
                assert_int_equal(tv_machine_write(machine, "mmio", TV_WINDOW_CONTROL, &clear, sizeof clear, NULL),
                                 TV_OK);
        }
        add_memories(&s, machine);
    }
    assert_int_equal(s.failed, 0);
    tv_machine_free(machine);
    return s.digest;
}

/* Instructions of products that several threads share when the program runs again. */
typedef struct products {
    const char *first, *second; /* the instructions of the two matrices */
    unsigned m;                 /* rows of activations */
} products;

/* The first word of the results of matrix 0, of matrix 1, and of those that multiply results: m * 256, 520 and 256
 * elements, after the activations. */
static unsigned results_addr(unsigned m, unsigned matrix)
{
    unsigned activations = 16 * 15 + 16 * m, first = activations > 0x380 ? activations : 0x380;
    return first + (matrix > 0 ? 32 * m : 0) + (matrix > 1 ? 66 * m : 0);
}

/* 16 groups of columns of two matrices, two products of the results of the first, and one whose results overlap those
 * of the second. */
static tv_program *assemble_products(const products *p)
{
    char source[2048];
    const char *first = p->first, *second = p->second;
    unsigned m = p->m, out = results_addr(m, 0);
    snprintf(source, sizeof source,
             "        .target pccx\n"
             "        memset  fmap_shape[0], 8, %u, 1\n"
             "        memset  fmap_shape[1], 0, 0, 0\n"
             "        memset  weight_shape[0], %u, 256, 128\n"
             "        memset  weight_shape[1], %u, 520, 72\n"
             "        memcpy  l2[0], host[0], shape=0\n"
             "        .set    at, 0x10000\n"
             "        .set    i, 0\n"
             "        .rept   16\n"
             "        wstream %s, at, 512 + 256 * 64\n"
             "        %s      l2[%u], l2[16 * i], size=1, shape=0, w_scale, accm\n"
             "        .set    at, at + 512 + 256 * 64\n"
             "        .set    i, i + 1\n"
             "        .endr\n"
             "        .set    i, 0\n"
             "        .rept   16\n"
             "        wstream %s, at, 1040 + 520 * 48\n"
             "        %s      l2[%u], l2[600 + 8 * i], size=1, shape=1, w_scale, accm\n"
             "        .set    at, at + 1040 + 520 * 48\n"
             "        .set    i, i + 1\n"
             "        .endr\n"
             "        .set    i, 0\n" /* a row of activations ends at the results, or in them */
             "        .rept   2\n"
             "        wstream %s, at, 512 + 256 * 64\n"
             "        %s      l2[%u], l2[%u + 8 * i], size=1, shape=0, w_scale, accm\n"
             "        .set    at, at + 512 + 256 * 64\n"
             "        .set    i, i + 1\n"
             "        .endr\n"
             "        wstream %s, at, 256 * 64\n"
             "        %s      l2[%u], l2[0], size=1, shape=0, accm\n",
             out > 1024 ? out : 1024, m, m, first, first, out, second, second, results_addr(m, 1), first, first,
             results_addr(m, 2), out - 16, first, first, results_addr(m, 1) + 8);
    tv_program *program;
    assert_int_equal(tv_program_assemble("products.s", source, strlen(source), NULL, NULL, &program), TV_OK);
    return program;
}

/* A run has GEMVs and GEMMs with the same number of rows, up to 64. */
static void products_are_the_same_with_any_number_of_threads(void **state)
{
    (void)state;
    enum { WORD = 16 };
    unsigned one_of = unit_sample() < 4 ? unit_sample() : 4;
    static const products all[] = {{"gemv", "gemv", 1}, {"gemv", "gemm", 1},  {"gemm", "gemm", 20},
                                   {"gemm", "gemm", 3}, {"gemm", "gemm", 64}, {"gemm", "gemm", 65}};
    tv_config *config;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    for (unsigned p = 0; p < sizeof all / sizeof all[0]; p++) {
        unsigned m = all[p].m;
        /* NaN is an activation of none, of the sixth product, of the fifth of the second matrix, of those of results,
         * in a word that the product before does not read. */
        const uint64_t nans[] = {0, HOST + (80 + 16 * m - 1) * WORD, HOST + (632 + 9 * m - 1) * WORD,
                                 results_addr(m, 0) + 8};
        tv_program *program = assemble_products(&all[p]);
        for (unsigned i = p % one_of; i < 4; i += one_of) {
            uint64_t want = digest_of_runs(program, config, 1, UINT64_MAX / 2, nans[i]);
            for (unsigned threads = 2; threads <= 5; threads += unit_sample() > 1 ? 3 : 1)
                if (digest_of_runs(program, config, threads, UINT64_MAX / 2, nans[i]) != want)
                    fail_msg("%s and %s of %u rows, %u threads, NaN %u: not as with one", all[p].first, all[p].second,
                             m, threads, i);
        }
        tv_program_free(program);
    }
    tv_config_free(config);
}

static tv_program *generate_program(const tv_config *config, uint64_t seed, uint64_t instructions)
{
    tv_generate_options options = {
        .size = sizeof options, .seed = seed, .instructions = instructions, .illegal = seed % 3 == 0 ? 5 : 0};
    tv_generated made;
    tv_program *program;
    assert_int_equal(tv_program_generate(config, &options, NULL, &made), TV_OK);
    assert_int_equal(tv_program_assemble("made.s", made.source, strlen(made.source), NULL, NULL, &program), TV_OK);
    free(made.source);
    free(made.counts);
    return program;
}

/* An odd number: what depends on the seed alternates. */
static unsigned step_of_seeds(void) { return unit_sample() < 5 ? unit_sample() : 5; }

static void a_program_that_another_thread_times_takes_the_same_cycles(void **state)
{
    (void)state;
    tv_config *config;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    for (uint64_t seed = 1; seed <= 12; seed += step_of_seeds()) {
        tv_program *program = generate_program(config, seed, 100 + 100 * seed);
        uint64_t step = seed % 2 ? UINT64_MAX / 2 : 150, nan = seed % 4 < 2 ? 64 * seed : 0;
        uint64_t want = digest_of_runs(program, config, 1, step, nan);
        for (unsigned threads = 2; threads <= 3; threads++)
            if (digest_of_runs(program, config, threads, step, nan) != want)
                fail_msg("seed %u with %u threads is not as with one", (unsigned)seed, threads);
        tv_program_free(program);
    }
    tv_config_free(config);
}

/* Runs on, and again from a snapshot, with another number of threads. */
static tv_status run_again(tv_machine *machine, const tv_run_limits *limits, unsigned threads)
{
    tv_snapshot *snapshot;
    assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot), TV_OK);
    tv_machine_run(machine, limits, NULL);
    assert_int_equal(tv_machine_restore(machine, snapshot), TV_OK);
    tv_snapshot_free(snapshot);
    tv_machine_set_threads(machine, threads == 1 ? 1 : 5 - threads);
    return tv_machine_run(machine, limits, NULL);
}

/* Runs the program twice, up to every `step`-th instruction or to a fault. */
static uint64_t digest_of_vector_runs(const tv_program *program, const tv_config *config, unsigned threads,
                                      uint64_t step)
{
    sharer s = {0};
    tv_machine *machine;
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_machine_set_threads(machine, threads);
    fill_memory(machine, "mem");
    for (unsigned times = 0; times < 2; times++) {
        tv_status status = tv_machine_load(machine, program, NULL);
        for (uint64_t until = step;
             status == TV_OK && tv_machine_next_index(machine) < tv_program_instruction_count(program); until += step) {
            tv_run_limits limits = {sizeof limits, until, UINT64_MAX};
            status = times ? run_again(machine, &limits, threads) : tv_machine_run(machine, &limits, NULL);
            add_number(&s, (uint64_t)status);
            add_state(&s, machine);
        }
        add_memories(&s, machine);
    }
    assert_int_equal(s.failed, 0);
    tv_machine_free(machine);
    return s.digest;
}

static void vector_programs_that_another_thread_times_take_the_same_cycles(void **state)
{
    (void)state;
    tv_config *config;
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    for (uint64_t seed = 1; seed <= 24; seed += step_of_seeds()) {
        assert_int_equal(tv_config_set(config, "vector.k", seed % 4 == 3 ? "16" : "64", NULL), TV_OK);
        tv_program *program = generate_program(config, seed, 400 * seed);
        uint64_t step = seed % 2 ? UINT64_MAX / 2 : 600, want = digest_of_vector_runs(program, config, 1, step);
        for (unsigned threads = 2; threads <= 3; threads++)
            if (digest_of_vector_runs(program, config, threads, step) != want)
                fail_msg("seed %u with %u threads is not as with one", (unsigned)seed, threads);
        tv_program_free(program);
    }
    tv_config_free(config);
}

static void threads_of_a_session_can_change_between_its_steps(void **state)
{
    (void)state;
    static const char text[] = "First Citizen: speak.";
    tv_llm *llm;
    tv_config *config;
    tv_llm_session *session;
    double first = 0;
    assert_int_equal(tv_llm_open(given.model, NULL, &llm), TV_OK);
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    tv_llm_options options = {.size = sizeof options, .target = "pccx", .config = config, .threads = 2};
    assert_int_equal(tv_llm_session_new(llm, &options, NULL, &session), TV_OK);
    for (unsigned threads = 1; threads <= 4; threads++) {
        tv_llm_likelihood found = {.size = sizeof found};
        tv_machine_set_threads(tv_llm_session_machine(session), threads);
        assert_int_equal(tv_llm_eval(session, text, strlen(text), 100, &found, NULL), TV_OK);
        first = threads == 1 ? found.nll : first;
        assert_memory_equal(&found.nll, &first, sizeof first);
    }
    tv_llm_session_free(session);
    tv_config_free(config);
    tv_llm_free(llm);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits_and_cycles),
        cmocka_unit_test(machines_in_several_threads_share_programs_and_configurations),
        cmocka_unit_test(sessions_in_several_threads_share_a_model),
        cmocka_unit_test(a_program_that_another_thread_times_takes_the_same_cycles),
        cmocka_unit_test(vector_programs_that_another_thread_times_take_the_same_cycles),
        cmocka_unit_test(products_are_the_same_with_any_number_of_threads),
        cmocka_unit_test(threads_of_a_session_can_change_between_its_steps),
    };
    if (argc < 3)
        return 2;
    given.model = argv[1];
    given.programs = argv + 2;
    given.count = argc - 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
