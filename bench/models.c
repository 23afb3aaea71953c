/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmarks of matrix products and models, on one thread unless a row says otherwise, relative to ceilings of the host
 * that are measured in the same run.
 *
 * - models [--json] [--runs N] [WORD]: rows whose name contains WORD, or all
 * - models --write SHAPE FILE: writes a model of random weights, as language_write
 * - models --serve: sessions that bench/run asks for one by one, as language_serve
 * - models --load TARGET BITS FILE: time and memory of opening and quantizing it, as JSON
 *
 * The figures are for comparison; no test depends on them. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ceilings.h"
#include "harness.h"
#include "kernels/cpu.h"
#include "language.h"
#include "networks.h"
#include "others.h"
#include "trivet/trivet.h"

enum { COPIES = 16, M = 128, N = 4096, K = 4096 };

static void check_status(tv_status status)
{
    if (status == TV_OK)
        return;
    fprintf(stderr, "bench: %s\n", tv_status_text(status));
    exit(3);
}

/* ---- Products ---- */

typedef struct run_task {
    tv_machine *machine;
    tv_program *program;
} run_task;

static run_task create_task(const char *target, const char *name, const char *source, const char *const (*settings)[2],
                            unsigned threads)
{
    run_task w;
    tv_config *config;
    check_status(tv_config_new(target, NULL, &config));
    for (; settings && (*settings)[0]; settings++)
        check_status(tv_config_set(config, (*settings)[0], (*settings)[1], NULL));
    check_status(tv_program_parse(name, source, strlen(source), NULL, NULL, &w.program));
    check_status(tv_machine_new(config, TV_MODE_FULL, NULL, &w.machine));
    tv_machine_set_threads(w.machine, threads);
    tv_config_free(config);
    return w;
}

/* Fills `bytes` bytes of a space with pseudo-random bytes. */
static void fill_random(tv_machine *machine, const char *space, uint64_t at, uint64_t bytes)
{
    enum { CHUNK = 1 << 16 };
    static uint8_t chunk[CHUNK];
    uint64_t state = 1;
    for (uint64_t done = 0; done < bytes; done += CHUNK) {
        for (unsigned i = 0; i < CHUNK; i++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            chunk[i] = (uint8_t)(state >> 56);
        }
        check_status(tv_machine_write(machine, space, at + done, chunk,
                                      bytes - done < CHUNK ? (size_t)(bytes - done) : CHUNK, NULL));
    }
}

static void execute_task(void *user)
{
    run_task *w = user;
    check_status(tv_machine_load(w->machine, w->program, NULL));
    check_status(tv_machine_run(w->machine, NULL, NULL));
}

static bench_times measure_task(const bench_report *r, run_task *w)
{
    bench_times t = (r->rows_only ? bench_measure_cold : bench_measure)(execute_task, w, r->runs);
    tv_machine_free(w->machine);
    tv_program_free(w->program);
    return t;
}

/* Fills L2 words with eight numbers of magnitude near 1. */
static void fill_l2(tv_machine *machine, uint64_t words)
{
    static const uint8_t one[16] = {0x80, 0x3F, 0x90, 0xBF, 0xA0, 0x3F, 0xB0, 0xBF,
                                    0xC0, 0x3E, 0xD0, 0x3F, 0xE0, 0xBF, 0xF0, 0x3E};
    for (uint64_t i = 0; i < words; i++)
        check_status(tv_machine_write(machine, "l2", i, one, sizeof one, NULL));
}

static void print_gemv_row(const bench_report *r, const bench_ceilings *c, unsigned n)
{
    static const char *const settings[][2] = {{"l2.words", "131071"}, {NULL, NULL}};
    char name[64], source[4096];
    snprintf(name, sizeof name, "pccx GEMV W4A8, %u x %u", n, K);
    if (!bench_selected(r, name))
        return;
    uint64_t bytes = (uint64_t)n * K / 2;
    int at = snprintf(
        source, sizeof source,
        "        .target pccx\n        memset fmap_shape[0], 0, 0, 0\n        memset weight_shape[0], 1, %u, %u\n", n,
        K);
    for (unsigned i = 0; i < COPIES; i++) /* more than any cache holds */
        at += snprintf(source + at, sizeof source - (size_t)at,
                       "        wstream gemv, %" PRIu64 ", %" PRIu64
                       "\n        gemv l2[0x4000], l2[0], size=0, shape=0\n",
                       i * bytes, bytes);
    run_task w = create_task("pccx", "gemv.s", source, settings, 1);
    fill_random(w.machine, "host", 0, COPIES * bytes);
    fill_l2(w.machine, K / 8);
    bench_times t = bench_rates((double)COPIES * n * K / 1e9, measure_task(r, &w));
    bench_print_row(r, &(bench_row){.name = name,
                                    .unit = "GMAC/s",
                                    .value = t,
                                    .of = "read bandwidth",
                                    .ceiling = c->read * 2 / 1e9,
                                    .goal = 0.7});
}

typedef struct product {
    char name[56];
    unsigned bits;
    double macs;
    const char *of;
    double ceiling, goal;
    bench_times (*measure)(const bench_report *r, unsigned bits, unsigned threads);
} product;

/* Prints the row of one thread relative to a ceiling, and that of two threads relative to one. */
static void print_product_rows(const bench_report *r, const product *p)
{
    char two[80];
    bench_times t;
    snprintf(two, sizeof two, "%.60s, 2 threads", p->name);
    bool second = bench_selected(r, two) && !(r->rows_only && bench_selected(r, p->name));
    if (!bench_selected(r, p->name) && !second)
        return;
    if (bench_selected(r, p->name) || !r->rows_only)
        t = bench_rates(p->macs / 1e9, p->measure(r, p->bits, 1));
    if (bench_selected(r, p->name))
        bench_print_row(r, &(bench_row){.name = p->name,
                                        .unit = "GMAC/s",
                                        .value = t,
                                        .of = p->of,
                                        .ceiling = p->ceiling / 1e9,
                                        .goal = p->goal});
    if (second)
        bench_print_row(r, &(bench_row){.name = two,
                                        .unit = "GMAC/s",
                                        .value = bench_rates(p->macs / 1e9, p->measure(r, p->bits, 2)),
                                        .of = "one thread",
                                        .ceiling = r->rows_only ? 0 : t.median,
                                        .goal = 1.7});
}

static bench_times measure_gemm(const bench_report *r, unsigned bits, unsigned threads)
{
    static const char *const settings[][2] = {{"l2.words", "131071"}, {NULL, NULL}};
    char source[512];
    snprintf(source, sizeof source,
             "        .target pccx\n        memset fmap_shape[0], 0, 0, 0\n        memset weight_shape[0], %d, %d, %d\n"
             "        wstream gemm, 0, %u\n        gemm l2[0x10000 - 0x20], l2[0], size=0, shape=0\n",
             M, N, K / 2, N * (K / 2) * bits / 8);
    run_task w = create_task("pccx", "gemm.s", source, settings, threads);
    fill_random(w.machine, "host", 0, (uint64_t)N * K / 2 * bits / 8);
    fill_l2(w.machine, M * K / 2 / 8);
    return measure_task(r, &w);
}

static bench_times measure_tensor(const bench_report *r, unsigned bits, unsigned threads)
{
    static const char *const settings[][2] = {{"spm.bank_bytes", "16777216"}, {NULL, NULL}};
    char source[1024];
    snprintf(source, sizeof source,
             "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, "
             "\"ifm_bank\": 0, \"ifm_offset\": 0, "
             "\"wgt_bank\": 1, \"wgt_offset\": 0, \"ofm_bank\": 2, \"ofm_offset\": 0, \"m\": %d, \"n\": %d, \"k\": %d, "
             "\"qbits_weight\": %u, "
             "\"qbits_activation\": 8, \"qbits_ofm\": 32}, {\"opcode\": \"END\"}]}",
             M, N, K, bits);
    run_task w = create_task("cmdq", "te.json", source, settings, threads);
    fill_random(w.machine, "spm", 0, 2 * (uint64_t)16777216);
    return measure_task(r, &w);
}

static void print_products(const bench_report *r, const bench_ceilings *c)
{
    const product list[] = {
        {"pccx GEMM W4A8, 128 x 4096 x 2048", 4, (double)M * N * K / 2, "u4 x s8 peak", c->u4s8, 0.55, measure_gemm},
        {"CMDQ TE W4A8, 128 x 4096 x 4096", 4, (double)M * N * K, "u4 x s8 peak", c->u4s8, 0.55, measure_tensor},
        {"CMDQ TE W8A8, 128 x 4096 x 4096", 8, (double)M * N * K, "s8 x s8 peak", c->s8s8, 0.6, measure_tensor},
    };
    print_gemv_row(r, c, 4096);
    print_gemv_row(r, c, 11008);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        print_product_rows(r, &list[i]);
}

/* ---- Other libraries ---- */

typedef struct library_buffers {
    void *a, *b, *c;
} library_buffers;

static void run_openblas(void *user)
{
    library_buffers *o = user;
    bench_openblas(M, N, K, o->a, o->b, o->c);
}

static void run_onednn(void *user)
{
    library_buffers *o = user;
    bench_onednn(M, N, K, o->a, o->b, o->c);
}

static void print_library_row(const bench_report *r, const bench_ceilings *c, const char *name, bench_times seconds)
{
    bench_print_row(r, &(bench_row){.name = name,
                                    .unit = "GMAC/s",
                                    .value = bench_rates((double)M * N * K / 1e9, seconds),
                                    .of = "s8 x s8 peak",
                                    .ceiling = c->s8s8 / 1e9});
}

static void print_library_rows(const bench_report *r, const bench_ceilings *c)
{
    static const char blas[] = "OpenBLAS SGEMM, 128 x 4096 x 4096", dnn[] = "oneDNN s8s8s32 GEMM, 128 x 4096 x 4096";
    if (!bench_selected(r, blas) && !bench_selected(r, dnn))
        return;
    library_buffers o = {calloc(M * (size_t)K, 4), calloc(N * (size_t)K, 4), calloc(M * (size_t)N, 4)};
    if (!o.a || !o.b || !o.c)
        exit(3);
    for (size_t i = 0; i < M * (size_t)K; i++)
        ((float *)o.a)[i] = (float)(i % 255) - 127;
    for (size_t i = 0; i < N * (size_t)K; i++)
        ((float *)o.b)[i] = (float)(i % 253) - 126;
    if (bench_openblas && bench_selected(r, blas))
        print_library_row(r, c, blas, bench_measure(run_openblas, &o, r->runs));
    if (bench_onednn && bench_selected(r, dnn))
        print_library_row(r, c, dnn, bench_measure(run_onednn, &o, r->runs));
    free(o.a);
    free(o.b);
    free(o.c);
}

/* ---- The program ---- */

#if defined(__clang__)
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void print_host(const bench_report *r, const bench_ceilings *c)
{
    if (r->json)
        printf("{\"read\": %.4g, \"u4s8\": %.4g, \"s8s8\": %.4g, \"two_threads\": %.3g, \"kernels\": \"%s\", "
               "\"compiler\": \"%s\"}\n",
               c->read / 1e9, c->u4s8 / 1e9, c->s8s8 / 1e9, c->two_threads, tv_cpu_names[tv_cpu()], COMPILER);
    else
        printf("this host, one thread: reads %.1f GB/s, multiplies u4 x s8 %.0f GMAC/s, s8 x s8 %.0f GMAC/s; two "
               "threads multiply %.2f times as fast\n\n",
               c->read / 1e9, c->u4s8 / 1e9, c->s8s8 / 1e9, c->two_threads);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (!getenv("OMP_NUM_THREADS")) { /* libraries read it before main is called */
        setenv("OMP_NUM_THREADS", "1", 1);
        execv("/proc/self/exe", argv);
    }
    if (argc == 4 && strcmp(argv[1], "--write") == 0)
        return language_write(argv[2], argv[3]) ? 0 : 3;
    if (argc == 2 && strcmp(argv[1], "--serve") == 0)
        return language_serve() ? 0 : 2;
    if (argc == 5 && strcmp(argv[1], "--load") == 0)
        return language_load(argv[2], (unsigned)strtoul(argv[3], NULL, 10), argv[4]) ? 0 : 3;
    bench_report r = bench_options(argc, argv);
    bench_ceilings c = {0};
    if (!r.rows_only) {
        c = bench_measure_ceilings();
        print_host(&r, &c);
    }
    print_products(&r, &c);
    print_library_rows(&r, &c);
    network_rows(&r);
    return 0;
}
