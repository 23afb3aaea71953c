/* SPDX-License-Identifier: Apache-2.0 */
/* Ceilings of the host: memory bandwidth, and multiply-adds with the widest vector instructions that the kernels use.
 */
#include "ceilings.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "harness.h"
#include "kernels/cpu.h"

enum { RUNS = 7, ROUNDS = 4000000, SUMS = 8, CHAINS = 16 }; /* independent chains of additions hide their latency */

typedef struct read_task {
    const uint64_t *words;
    size_t count;
    volatile uint64_t sum;
} read_task;

static void sum_memory(void *user)
{
    read_task *r = user;
    uint64_t sums[SUMS] = {0};
    for (size_t i = 0; i < r->count; i += SUMS)
        for (size_t lane = 0; lane < SUMS; lane++)
            sums[lane] += r->words[i + lane];
    for (size_t lane = 0; lane < SUMS; lane++)
        r->sum += sums[lane];
}

double bench_read_bandwidth(void)
{
    size_t bytes = (size_t)512 << 20;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(3);
    madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    read_task r = {.words = memory, .count = bytes / sizeof(uint64_t)};
    double rate = (double)bytes / bench_measure(sum_memory, &r, RUNS).min;
    munmap(memory, bytes);
    return rate;
}

#if defined(__x86_64__)
#include <immintrin.h>

static volatile int32_t sink;

/* Hides operands from the compiler, which could compute the result at compile time. */
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

/* Sums of pairs in 16 bits, widened before they overflow: every eight products for 4 by 8 bits. */
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
    for (int i = 0; i < ROUNDS; i++)
        for (unsigned s = 0; s < SUMS; s++) {
            /* for each product: otherwise the compiler multiplies once and adds the product eight times */
            OPAQUE(a);
            sum[s] = _mm256_add_epi32(sum[s], _mm256_madd_epi16(a, b));
        }
    for (unsigned s = 0; s < SUMS; s++)
        sink += _mm256_extract_epi32(sum[s], 0);
}

typedef struct thread_task {
    void (*run)(void *user);
    void *user;
} thread_task;

static void *run_thread_task(void *user)
{
    thread_task *p = user;
    p->run(p->user);
    return NULL;
}

/* Runs the same work in two threads at once. */
static void run_twice(void *user)
{
    pthread_t other;
    if (pthread_create(&other, NULL, run_thread_task, user) != 0)
        exit(3);
    run_thread_task(user);
    pthread_join(other, NULL);
}
#endif

bench_ceilings bench_measure_ceilings(void)
{
    bench_ceilings c = {.read = bench_read_bandwidth()};
#if defined(__x86_64__)
    double products = (double)ROUNDS * SUMS;
    void (*multiply)(void *user) = NULL;
    if (tv_cpu() == TV_CPU_AVX512) {
        multiply = multiply_avx512;
        c.u4s8 = c.s8s8 = 64 * (double)ROUNDS * CHAINS / bench_measure(multiply_avx512, NULL, RUNS).min;
    }
    if (tv_cpu() == TV_CPU_AVX2) {
        multiply = multiply_u4s8_avx2;
        c.u4s8 = 32 * products / bench_measure(multiply_u4s8_avx2, NULL, RUNS).min;
        c.s8s8 = 16 * products / bench_measure(multiply_s8s8_avx2, NULL, RUNS).min;
    }
    if (multiply)
        c.two_threads = 2 * bench_measure(multiply, NULL, RUNS).min /
                        bench_measure(run_twice, &(thread_task){multiply, NULL}, RUNS).min;
#endif
    return c;
}
