/* SPDX-License-Identifier: Apache-2.0 */
/* Command line, timing and rows of the benchmarks. */
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int parse_number(const char *text, int max)
{
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;
    if (n >= 1 && n <= max && *end == '\0')
        return (int)n;
    fprintf(stderr, "bench: expected a number from 1 to %d\n", max);
    exit(2);
}

bench_report bench_options(int argc, char **argv)
{
    bench_report r = {.runs = 7, .filter = ""};
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--json") == 0)
            r.json = true;
        else if (strcmp(argv[i], "--rows-only") == 0)
            r.rows_only = true;
        else if (strcmp(argv[i], "--runs") == 0)
            r.runs = parse_number(next, BENCH_RUNS_MAX), i++;
        else if (argv[i][0] != '-' && !*r.filter)
            r.filter = argv[i];
        else {
            fprintf(stderr, "bench: unknown argument '%s'; usage: [--json] [--rows-only] [--runs N] [WORD]\n", argv[i]);
            exit(2);
        }
    }
    return r;
}

bool bench_selected(const bench_report *report, const char *name) { return strstr(name, report->filter) != NULL; }

double bench_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

bench_times bench_sort_times(double *t, int count)
{
    qsort(t, (size_t)count, sizeof t[0], compare_times);
    return (bench_times){t[0], (t[count / 2] + t[(count - 1) / 2]) / 2, t[count - 1]};
}

void bench_profile(bool on)
{
    const char *path = getenv("BENCH_CONTROL");
    int fd = path ? open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (write(fd, on ? "enable\n" : "disable\n", on ? 7 : 8) < 0)
        fputs("bench: the profiler does not read its control file\n", stderr);
    close(fd);
}

bench_times bench_measure_cold(void (*run)(void *user), void *user, int runs)
{
    double t[BENCH_RUNS_MAX];
    bench_profile(true);
    for (int i = 0; i < runs; i++) {
        double start = bench_seconds();
        run(user);
        t[i] = bench_seconds() - start;
    }
    bench_profile(false);
    return bench_sort_times(t, runs);
}

bench_times bench_measure(void (*run)(void *user), void *user, int runs)
{
    run(user);
    return bench_measure_cold(run, user, runs);
}

bench_times bench_measure_beside(void (*run)(void *user), void (*base)(void *user), void *user, int runs, double *ratio)
{
    double t[BENCH_RUNS_MAX], ratios[BENCH_RUNS_MAX];
    run(user);
    base(user);
    for (int i = 0; i < runs; i++) {
        t[i] = bench_measure_cold(run, user, 1).median;
        ratios[i] = t[i] / bench_measure_cold(base, user, 1).median;
    }
    *ratio = bench_sort_times(ratios, runs).median;
    return bench_sort_times(t, runs);
}

bench_times bench_rates(double amount, bench_times seconds)
{
    return (bench_times){amount / seconds.max, amount / seconds.median, amount / seconds.min};
}

void bench_make_temporary(char path[BENCH_PATH])
{
    const char *folder = getenv("TMPDIR");
    int n = snprintf(path, BENCH_PATH, "%s/trivet-bench-XXXXXX", folder && *folder ? folder : "/tmp"),
        fd = n < BENCH_PATH ? mkstemp(path) : -1;
    if (fd < 0 || close(fd) != 0) {
        fprintf(stderr, "bench: cannot create a file in %s\n", folder && *folder ? folder : "/tmp");
        exit(3);
    }
}

static void print_json_row(const bench_row *row)
{
    printf("{\"name\": \"%s\", \"unit\": \"%s\", \"median\": %.6g, \"min\": %.6g, \"max\": %.6g, \"better\": \"%s\"",
           row->name, row->unit, row->value.median, row->value.min, row->value.max, row->lower ? "lower" : "higher");
    if (row->of && row->ceiling > 0)
        printf(", \"of\": \"%s\", \"reached\": %.4g", row->of, row->value.median / row->ceiling);
    if (row->goal > 0 && (!row->of || row->ceiling > 0))
        printf(", \"goal\": %.6g", row->goal);
    if (row->baseline)
        printf(", \"baseline\": \"%s\", \"times\": %.4g", row->baseline, row->times);
    if (row->baseline && row->limit > 0)
        printf(", \"limit\": %.4g", row->limit);
    printf("}\n");
}

void bench_print_row(const bench_report *report, const bench_row *row)
{
    if (report->json) {
        print_json_row(row);
    } else {
        printf("%-50s %10.4g %-18s %10.4g to %-10.4g", row->name, row->value.median, row->unit, row->value.min,
               row->value.max);
        if (row->of && row->ceiling > 0)
            printf(" %6.2f of %s", row->value.median / row->ceiling, row->of);
        if (row->goal > 0 && (!row->of || row->ceiling > 0))
            printf("  goal %s%.4g", row->lower ? "under " : "", row->goal);
        if (row->baseline)
            printf("  %.1f times %s", row->times, row->baseline);
        if (row->baseline && row->limit > 0)
            printf(", at most %.4g", row->limit);
        putchar('\n');
    }
    fflush(stdout);
}
