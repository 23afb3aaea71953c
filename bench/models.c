/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmarks of products and models, on one thread unless a row says otherwise: each beside what the host can do at best, found
 * in the same run.
 *
 *   models [--json] [WORD]    rows whose name has WORD, or all
 *
 * Figures are for comparing, never for tests. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../tests/unit/random_model.h"
#include "ceilings.h"
#include "harness.h"
#include "others.h"
#include "trivet/llm.h"
#include "trivet/trivet.h"

enum { RUNS = 5, COPIES = 16, M = 128, N = 4096, K = 4096 };

typedef struct report {
    bool json, first;
    const char *wanted;
} report;

static bool wanted(const report *r, const char *name) { return strstr(name, r->wanted) != NULL; }

/* `amount` units of work in each of the times; `ceiling` units a second are the host's best, 0: nothing is known; `goal`: of it, or in
 * units a second where there is none. */
static void print_row(report *r, const char *name, const char *unit, double scale, double amount, bench_times t, const char *of, double ceiling, double goal)
{
    double rate = amount / t.median, reached = ceiling > 0 ? rate / ceiling : rate / scale;
    if (r->json)
        printf("%s\n {\"work\": \"%s\", \"unit\": \"%s\", \"median\": %.6g, \"least\": %.6g, \"most\": %.6g, \"of\": \"%s\", \"reached\": %.4g, \"goal\": %.4g}",
               r->first ? "" : ",", name, unit, rate / scale, amount / t.most / scale, amount / t.least / scale, of, reached, goal);
    else
        printf("%-46s %9.2f %-9s %8.2f to %8.2f   %6.2f of %-14s ", name, rate / scale, unit, amount / t.most / scale, amount / t.least / scale, reached, of);
    if (!r->json && goal > 0)
        printf("goal %.2f\n", goal);
    else if (!r->json)
        printf("beside ours\n");
    r->first = false;
    fflush(stdout);
}

static void must(tv_status status)
{
    if (status == TV_OK)
        return;
    fprintf(stderr, "bench: %s\n", tv_status_text(status));
    exit(3);
}

/* ---- Products ---- */

typedef struct work {
    tv_machine *machine;
    tv_program *program;
} work;

static work work_of(const char *target, const char *name, const char *source, const char *const (*settings)[2], unsigned threads)
{
    work w;
    tv_config *config;
    must(tv_config_new(target, NULL, &config));
    for (; settings && (*settings)[0]; settings++)
        must(tv_config_set(config, (*settings)[0], (*settings)[1], NULL));
    must(tv_program_parse(name, source, strlen(source), NULL, NULL, &w.program));
    must(tv_machine_new(config, TV_MODE_FULL, NULL, &w.machine));
    tv_machine_threads(w.machine, threads);
    tv_config_free(config);
    return w;
}

/* Bytes that are no pattern, over `bytes` bytes of a space. */
static void fill(tv_machine *machine, const char *space, uint64_t at, uint64_t bytes)
{
    enum { CHUNK = 1 << 16 };
    static uint8_t chunk[CHUNK];
    uint64_t state = 1;
    for (uint64_t done = 0; done < bytes; done += CHUNK) {
        for (unsigned i = 0; i < CHUNK; i++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            chunk[i] = (uint8_t)(state >> 56);
        }
        must(tv_machine_write(machine, space, at + done, chunk, bytes - done < CHUNK ? (size_t)(bytes - done) : CHUNK, NULL));
    }
}

static void run_work(void *user)
{
    work *w = user;
    must(tv_machine_load(w->machine, w->program, NULL));
    must(tv_machine_run(w->machine, NULL, NULL));
}

static bench_times measure_work(work *w)
{
    bench_times t = bench_measure(run_work, w, RUNS);
    tv_machine_free(w->machine);
    tv_program_free(w->program);
    return t;
}

/* L2 words of 8 numbers near 1. */
static void fill_l2(tv_machine *machine, uint64_t words)
{
    static const uint8_t one[16] = {0x80, 0x3F, 0x90, 0xBF, 0xA0, 0x3F, 0xB0, 0xBF, 0xC0, 0x3E, 0xD0, 0x3F, 0xE0, 0xBF, 0xF0, 0x3E};
    for (uint64_t i = 0; i < words; i++)
        must(tv_machine_write(machine, "l2", i, one, sizeof one, NULL));
}

static void gemv(report *r, const bench_ceilings *c, unsigned n)
{
    static const char *const settings[][2] = {{"l2.words", "131071"}, {NULL, NULL}};
    char name[64], source[4096];
    snprintf(name, sizeof name, "pccx GEMV W4A8, %u x %u", n, K);
    if (!wanted(r, name))
        return;
    uint64_t bytes = (uint64_t)n * K / 2;
    int at = snprintf(source, sizeof source, "        .target pccx\n        memset fmap_shape[0], 0, 0, 0\n        memset weight_shape[0], 1, %u, %u\n", n, K);
    for (unsigned i = 0; i < COPIES; i++) /* so many that they are in no cache */
        at += snprintf(source + at, sizeof source - (size_t)at, "        wstream gemv, %" PRIu64 ", %" PRIu64 "\n        gemv l2[0x4000], l2[0], size=0, shape=0\n", i * bytes, bytes);
    work w = work_of("pccx", "gemv.s", source, settings, 1);
    fill(w.machine, "host", 0, COPIES * bytes);
    fill_l2(w.machine, K / 8);
    bench_times t = measure_work(&w);
    print_row(r, name, "GMAC/s", 1e9, (double)COPIES * n * K, t, "read bandwidth", c->read * 2, 0.7);
}

static void gemm(report *r, const bench_ceilings *c, unsigned threads)
{
    static const char *const settings[][2] = {{"l2.words", "131071"}, {NULL, NULL}};
    char name[64], source[512];
    snprintf(name, sizeof name, "pccx GEMM W4A8, %d x %d x %d%s", M, N, K / 2, threads == 1 ? "" : ", 2 threads");
    if (!wanted(r, name))
        return;
    snprintf(source, sizeof source, "        .target pccx\n        memset fmap_shape[0], 0, 0, 0\n        memset weight_shape[0], %d, %d, %d\n"
                                    "        wstream gemm, 0, %d\n        gemm l2[0x10000 - 0x20], l2[0], size=0, shape=0\n", M, N, K / 2, N * (K / 4));
    work w = work_of("pccx", "gemm.s", source, settings, threads);
    fill(w.machine, "host", 0, (uint64_t)N * K / 2);
    fill_l2(w.machine, M * K / 2 / 8);
    bench_times t = measure_work(&w);
    print_row(r, name, "GMAC/s", 1e9, (double)M * N * K / 2, t, "u4 x s8 peak", c->u4s8 * threads, 0.55);
}

static void tensor(report *r, const bench_ceilings *c, unsigned bits, unsigned threads)
{
    static const char *const settings[][2] = {{"spm.bank_bytes", "16777216"}, {NULL, NULL}};
    char name[64], source[1024];
    snprintf(name, sizeof name, "CMDQ TE W%uA8, %d x %d x %d%s", bits, M, N, K, threads == 1 ? "" : ", 2 threads");
    if (!wanted(r, name))
        return;
    snprintf(source, sizeof source, "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, "
                                    "\"wgt_bank\": 1, \"wgt_offset\": 0, \"ofm_bank\": 2, \"ofm_offset\": 0, \"m\": %d, \"n\": %d, \"k\": %d, \"qbits_weight\": %u, "
                                    "\"qbits_activation\": 8, \"qbits_ofm\": 32}, {\"opcode\": \"END\"}]}", M, N, K, bits);
    work w = work_of("cmdq", "te.json", source, settings, threads);
    fill(w.machine, "spm", 0, 2 * (uint64_t)16777216);
    bench_times t = measure_work(&w);
    print_row(r, name, "GMAC/s", 1e9, (double)M * N * K, t, bits == 4 ? "u4 x s8 peak" : "s8 x s8 peak", (bits == 4 ? c->u4s8 : c->s8s8) * threads, bits == 4 ? 0.55 : 0.6);
}

/* ---- The same by other libraries ---- */

typedef struct other {
    void *a, *b, *c;
} other;

static void run_openblas(void *user)
{
    other *o = user;
    bench_openblas(M, N, K, o->a, o->b, o->c);
}

static void run_onednn(void *user)
{
    other *o = user;
    bench_onednn(M, N, K, o->a, o->b, o->c);
}

static void others(report *r, const bench_ceilings *c)
{
    static const char blas[] = "OpenBLAS SGEMM, 128 x 4096 x 4096", dnn[] = "oneDNN s8s8s32 GEMM, 128 x 4096 x 4096";
    other o = {calloc(M * (size_t)K, 4), calloc(N * (size_t)K, 4), calloc(M * (size_t)N, 4)};
    if (!o.a || !o.b || !o.c)
        exit(3);
    for (size_t i = 0; i < M * (size_t)K; i++)
        ((float *)o.a)[i] = (float)(i % 255) - 127;
    for (size_t i = 0; i < N * (size_t)K; i++)
        ((float *)o.b)[i] = (float)(i % 253) - 126;
    if (bench_openblas && wanted(r, blas))
        print_row(r, blas, "GMAC/s", 1e9, (double)M * N * K, bench_measure(run_openblas, &o, RUNS), "s8 x s8 peak", c->s8s8, 0);
    if (bench_onednn && wanted(r, dnn))
        print_row(r, dnn, "GMAC/s", 1e9, (double)M * N * K, bench_measure(run_onednn, &o, RUNS), "s8 x s8 peak", c->s8s8, 0);
    free(o.a);
    free(o.b);
    free(o.c);
}

/* ---- A model of 110 million parameters ---- */

static const random_shape llama110m = {768, 2048, 12, 12, 12, 32000, 1024, true};

static tv_llm_session *session_of(tv_llm *llm, const char *target, unsigned bits)
{
    tv_config *config;
    tv_llm_session *session;
    must(tv_config_new(target, NULL, &config));
    must(tv_llm_session_new(llm, &(tv_llm_options){.target = target, .config = config, .threads = 1, .weight_bits = bits, .context = 512, .sample = "a"}, NULL, &session));
    tv_config_free(config);
    return session;
}

static void decode(report *r, tv_llm *llm, const char *target, unsigned bits, double goal)
{
    enum { TOKENS = 24 };
    char name[64], placing[64];
    snprintf(name, sizeof name, "decode of 110M, %s W%u", target, bits);
    snprintf(placing, sizeof placing, "place and quantize 110M, %s W%u", target, bits);
    if (!wanted(r, name) && !wanted(r, placing))
        return;
    double t[RUNS], placed[RUNS];
    for (int i = 0; i < RUNS; i++) {
        double start = bench_now();
        tv_llm_session *session = session_of(llm, target, bits);
        placed[i] = bench_now() - start;
        must(tv_llm_generate(session, "a", TOKENS, &(tv_llm_sampling){0, 1, 1}, NULL, NULL, NULL));
        tv_llm_summary s;
        tv_llm_session_summary(session, &s);
        t[i] = s.wall / s.tokens;
        tv_llm_session_free(session);
    }
    print_row(r, name, "tokens/s", 1, 1, bench_times_of(t, RUNS), "tokens/s", 0, goal);
    bench_times times = bench_times_of(placed, RUNS);
    if (!r->json)
        printf("%-46s %9.2f %-9s %8.2f to %8.2f   goal 1.5 with opening\n", placing, times.median, "s", times.least, times.most);
}

/* A prompt of 256 bytes, each a token. */
static void prefill(report *r, const bench_ceilings *c, tv_llm *llm)
{
    enum { LENGTH = 255 };
    static const char name[] = "prefill of 256 tokens of 110M, cmdq W4";
    char prompt[LENGTH + 1];
    double t[RUNS], macs = 0;
    if (!wanted(r, name))
        return;
    memset(prompt, 'a', LENGTH);
    prompt[LENGTH] = '\0';
    for (int i = 0; i < RUNS; i++) {
        tv_llm_session *session = session_of(llm, "cmdq", 4);
        tv_llm_summary s;
        tv_stats stats;
        must(tv_llm_generate(session, prompt, 1, &(tv_llm_sampling){0, 1, 1}, NULL, NULL, NULL));
        tv_llm_session_summary(session, &s);
        tv_machine_stats(s.machine, &stats);
        macs = (double)stats.macs;
        t[i] = s.prompt_wall;
        tv_llm_session_free(session);
    }
    print_row(r, name, "GMAC/s", 1e9, macs, bench_times_of(t, RUNS), "u4 x s8 peak", c->u4s8, 0.4);
}

static void models(report *r, const bench_ceilings *c)
{
    char path[] = "/tmp/trivet-bench-XXXXXX";
    int fd = mkstemp(path);
    tv_llm *llm;
    if (fd < 0 || close(fd) != 0 || !random_model_write(&llama110m, TV_GGUF_Q8_0, path))
        exit(3);
    must(tv_llm_open(path, NULL, &llm));
    decode(r, llm, "pccx", 4, 150);
    decode(r, llm, "cmdq", 4, 150);
    decode(r, llm, "cmdq", 8, 90);
    prefill(r, c, llm);
    tv_llm_free(llm);
    remove(path);
}

int main(int argc, char **argv)
{
    if (!getenv("OMP_NUM_THREADS")) { /* which libraries look at before main begins */
        setenv("OMP_NUM_THREADS", "1", 1);
        execv("/proc/self/exe", argv);
    }
    report r = {.json = argc > 1 && strcmp(argv[1], "--json") == 0, .first = true};
    r.wanted = argc > 1 + r.json ? argv[1 + r.json] : "";
    bench_ceilings c = bench_find_ceilings();
    if (r.json)
        printf("{\"read_bytes_per_second\": %.4g, \"u4s8_macs_per_second\": %.4g, \"s8s8_macs_per_second\": %.4g, \"rows\": [", c.read, c.u4s8, c.s8s8);
    else
        printf("this host, one thread: reads %.1f GB/s, multiplies u4 x s8 %.0f GMAC/s, s8 x s8 %.0f GMAC/s\n\n", c.read / 1e9, c.u4s8 / 1e9, c.s8s8 / 1e9);
    gemv(&r, &c, 4096);
    gemv(&r, &c, 11008);
    gemm(&r, &c, 1);
    gemm(&r, &c, 2);
    for (unsigned threads = 1; threads <= 2; threads++) {
        tensor(&r, &c, 4, threads);
        tensor(&r, &c, 8, threads);
    }
    others(&r, &c);
    models(&r, &c);
    printf(r.json ? "\n]}\n" : "");
    return 0;
}
