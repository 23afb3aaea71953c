/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks share: their command line, timing of several runs, and rows, which are a line of text or of JSON
 * each. `bench/run` reads the JSON; a row is the same in every program. */
#ifndef TV_BENCH_HARNESS_H
#define TV_BENCH_HARNESS_H

#include <stdbool.h>

enum { BENCH_RUNS_MAX = 99, BENCH_PATH = 4096 };

typedef struct bench_report {
    bool json;
    bool alone;         /* nothing but the rows: no ceilings, no warm-up; for profiles */
    int runs;           /* odd or even, from 1 */
    const char *wanted; /* a row's name must have it */
    const char *model;  /* file of the 110M model, or NULL */
    int tokens;         /* of a run of decoding */
} bench_report;

typedef struct bench_times {
    double least, median, most;
} bench_times;

typedef struct bench_row {
    const char *name, *unit;
    bench_times value;    /* in the unit */
    const char *of;       /* what the goal is a part of, or NULL: the value itself is judged */
    double ceiling;       /* that, in the unit; 0: it is not known here */
    double goal;          /* 0: there is none */
    bool lower;           /* less is better */
    const char *baseline; /* simple work on the same data, or NULL */
    double times;         /* how many times longer than that a unit takes */
} bench_row;

/* [--json] [--alone] [--runs N] [--tokens N] [--model FILE] [WORD]; anything else ends the program with status 2. */
bench_report bench_options(int argc, char **argv);

bool bench_wanted(const bench_report *report, const char *name);

double bench_now(void); /* seconds */

/* Sorts `t`. */
bench_times bench_times_of(double *t, int count);

/* Seconds of each of `runs` calls, after one more. */
bench_times bench_measure(void (*run)(void *user), void *user, int runs);
bench_times bench_measure_cold(void (*run)(void *user), void *user, int runs); /* without that one */

/* A profiler that reads $BENCH_CONTROL, as perf does with --control, looks only between "enable" and "disable". */
void bench_profile(bool on);

/* `amount` units of work in each of the times, as units a second. */
bench_times bench_rates(double amount, bench_times seconds);

/* Makes an empty file in $TMPDIR, or /tmp; exits where it cannot. */
void bench_temporary(char path[BENCH_PATH]);

void bench_put(const bench_report *report, const bench_row *row);

#endif
