/* SPDX-License-Identifier: Apache-2.0 */
/* Timing for benchmarks: several runs after a warm-up, their least, median and most. */
#ifndef TV_BENCH_HARNESS_H
#define TV_BENCH_HARNESS_H

#include <stdlib.h>
#include <time.h>

typedef struct bench_times {
    double least, median, most; /* seconds */
} bench_times;

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sorts `t`. */
static inline bench_times bench_times_of(double *t, int count)
{
    qsort(t, (size_t)count, sizeof t[0], bench_by_value);
    return (bench_times){t[0], t[count / 2], t[count - 1]};
}

/* `runs` up to 16. */
static inline bench_times bench_measure(void (*run)(void *user), void *user, int runs)
{
    double t[16];
    run(user);
    for (int i = 0; i < runs; i++) {
        double start = bench_now();
        run(user);
        t[i] = bench_now() - start;
    }
    return bench_times_of(t, runs);
}

#endif
