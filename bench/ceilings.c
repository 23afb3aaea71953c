/* SPDX-License-Identifier: Apache-2.0 */
/* The host's ceilings: reading memory, and multiply-adds as the widest vector unit that kernels use has them. */
#include "ceilings.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "harness.h"
#include "kernels/cpu.h"

enum { RUNS = 7, ROUNDS = 4000000, SUMS = 8, CHAINS = 16 }; /* chains of additions: enough to hide their latency */

typedef struct reading {
    const uint64_t *words;
    size_t count;
    volatile uint64_t sum;
} reading;

static void read_all(void *user)
{
    reading *r = user;
    uint64_t sums[SUMS] = {0};
    for (size_t i = 0; i < r->count; i += SUMS)
        for (size_t lane = 0; lane < SUMS; lane++)
            sums[lane] += r->words[i + lane];
    for (size_t lane = 0; lane < SUMS; lane++)
        r->sum += sums[lane];
}

static double read_bandwidth(void)
{
    size_t bytes = (size_t)512 << 20;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(3);
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    reading r = {.words = memory, .count = bytes / sizeof(uint64_t)};
    double rate = (double)bytes / bench_measure(read_all, &r, RUNS).least;
    munmap(memory, bytes);
    return rate;
}

#if defined(__x86_64__)
#include <immintrin.h>

static volatile int32_t sink;

/* Operands are opaque to the compiler, so that nothing is worked out beforehand. */
#define OPAQUE(x) __asm__ volatile("" : "+v"(x))

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) static void multiply_avx512(void *user)
{
    (void)user;
    __m512i sum[CHAINS], a = _mm512_set1_epi8(3), b = _mm512_set1_epi8((char)-5);
    for (unsigned s = 0; s < CHAINS; s++)
        sum[s] = _mm512_setzero_si512();
    for (int i = 0; i < ROUNDS; i++) {
        OPAQUE(a);
        for (unsigned s = 0; s < CHAINS; s++)
            sum[s] = _mm512_dpbusd_epi32(sum[s], a, b);
    }
    for (unsigned s = 0; s < CHAINS; s++)
        sink += _mm512_reduce_add_epi32(sum[s]);
}

/* Pairs in 16 bits, widened before they overflow: of 4 by 8 bits every eight times. */
__attribute__((target("avx2"))) static void multiply_u4s8_avx2(void *user)
{
    (void)user;
    __m256i sum[SUMS], a = _mm256_set1_epi8(3), b = _mm256_set1_epi8((char)-5), ones = _mm256_set1_epi16(1);
    for (unsigned s = 0; s < SUMS; s++)
        sum[s] = _mm256_setzero_si256();
    for (int i = 0; i < ROUNDS; i += SUMS)
        for (unsigned s = 0; s < SUMS; s++) {
            __m256i narrow = _mm256_setzero_si256();
            for (unsigned k = 0; k < SUMS; k++) {
                OPAQUE(a);
                narrow = _mm256_add_epi16(narrow, _mm256_maddubs_epi16(a, b));
            }
            sum[s] = _mm256_add_epi32(sum[s], _mm256_madd_epi16(narrow, ones));
        }
    for (unsigned s = 0; s < SUMS; s++)
        sink += _mm256_extract_epi32(sum[s], 0);
}

__attribute__((target("avx2"))) static void multiply_s8s8_avx2(void *user)
{
    (void)user;
    __m256i sum[SUMS], a = _mm256_set1_epi16(3), b = _mm256_set1_epi16(-5);
    for (unsigned s = 0; s < SUMS; s++)
        sum[s] = _mm256_setzero_si256();
    for (int i = 0; i < ROUNDS; i++) {
        OPAQUE(a);
        for (unsigned s = 0; s < SUMS; s++)
            sum[s] = _mm256_add_epi32(sum[s], _mm256_madd_epi16(a, b));
    }
    for (unsigned s = 0; s < SUMS; s++)
        sink += _mm256_extract_epi32(sum[s], 0);
}

typedef struct piece {
    void (*run)(void *user);
    void *user;
} piece;

static void *run_piece(void *user)
{
    piece *p = user;
    p->run(p->user);
    return NULL;
}

/* The same work in two threads at once. */
static void run_twice(void *user)
{
    pthread_t other;
    if (pthread_create(&other, NULL, run_piece, user) != 0)
        exit(3);
    run_piece(user);
    pthread_join(other, NULL);
}
#endif

bench_ceilings bench_find_ceilings(void)
{
    bench_ceilings c = {.read = read_bandwidth()};
#if defined(__x86_64__)
    double products = (double)ROUNDS * SUMS;
    void (*multiply)(void *user) = NULL;
    if (tv_cpu() == TV_CPU_AVX512) {
        multiply = multiply_avx512;
        c.u4s8 = c.s8s8 = 64 * (double)ROUNDS * CHAINS / bench_measure(multiply_avx512, NULL, RUNS).least;
    }
    if (tv_cpu() == TV_CPU_AVX2) {
        multiply = multiply_u4s8_avx2;
        c.u4s8 = 32 * products / bench_measure(multiply_u4s8_avx2, NULL, RUNS).least;
        c.s8s8 = 16 * products / bench_measure(multiply_s8s8_avx2, NULL, RUNS).least;
    }
    if (multiply)
        c.two_threads = 2 * bench_measure(multiply, NULL, RUNS).least /
                        bench_measure(run_twice, &(piece){multiply, NULL}, RUNS).least;
#endif
    return c;
}
