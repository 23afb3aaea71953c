/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the benchmark programs: the command line, timing of several runs, and rows, printed as a line of text or of
 * JSON. `bench/run` reads the JSON. */
#ifndef TV_BENCH_HARNESS_H
#define TV_BENCH_HARNESS_H

#include <stdbool.h>

enum { BENCH_RUNS_MAX = 99, BENCH_PATH = 4096 };

typedef struct bench_report {
    bool json;
    bool rows_only;     /* no ceilings, baselines and warm-up; for profiling */
    int runs;           /* 1 to BENCH_RUNS_MAX */
    const char *filter; /* print rows whose name contains this */
} bench_report;

typedef struct bench_times {
    double min, median, max;
} bench_times;

typedef struct bench_row {
    const char *name, *unit;
    bench_times value;    /* in the unit */
    const char *of;       /* what the ratio refers to, or NULL: the goal is for the value itself */
    double ceiling;       /* its value, in the same unit; 0: unknown */
    double goal;          /* 0: none */
    bool lower;           /* lower is better */
    const char *baseline; /* name of the simple work on the same data, or NULL */
    double times;         /* time per unit, relative to the baseline */
    double limit;         /* of `times`; 0: none */
} bench_row;

/* [--json] [--rows-only] [--runs N] [WORD]; exits with status 2 on anything else. */
bench_report bench_options(int argc, char **argv);

bool bench_selected(const bench_report *report, const char *name);

double bench_seconds(void); /* seconds */

/* Minimum, median and maximum; sorts `t`. */
bench_times bench_sort_times(double *t, int count);

/* Seconds per call over `runs` calls, after a warm-up call. */
bench_times bench_measure(void (*run)(void *user), void *user, int runs);
bench_times bench_measure_cold(void (*run)(void *user), void *user, int runs); /* no warm-up */

/* The same, with a call of `base` after each; *ratio is the median of the calls' ratios to it. */
bench_times bench_measure_beside(void (*run)(void *user), void (*base)(void *user), void *user, int runs,
                                 double *ratio);

/* Enables or disables a profiler that reads $BENCH_CONTROL, as perf does with --control. */
void bench_profile(bool on);

/* Units per second for `amount` units of work in each of the times. */
bench_times bench_rates(double amount, bench_times seconds);

/* Creates an empty file in $TMPDIR, or /tmp; exits on failure. */
void bench_make_temporary(char path[BENCH_PATH]);

void bench_print_row(const bench_report *report, const bench_row *row);

#endif
