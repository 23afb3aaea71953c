/* SPDX-License-Identifier: Apache-2.0 */
/* A progress line on stderr: only on a terminal, and only after one second. */
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

static double monotonic_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Read by signal handlers, which run on the thread that writes it. */
static const cli_progress *volatile current;

void cli_progress_begin(cli *c, cli_progress *progress)
{
    *progress =
        (cli_progress){.start = monotonic_seconds(), .enabled = !c->quiet && isatty(STDERR_FILENO), .quiet = c->quiet};
    current = progress;
}

const cli_progress *cli_progress_current(void) { return current; }

void cli_progress_note(cli_progress *progress, const char *what, uint64_t done, uint64_t total)
{
    progress->what = what;
    progress->done = done;
    progress->total = total;
}

void cli_progress_show(cli_progress *progress, const char *what, uint64_t done, uint64_t total)
{
    cli_progress_note(progress, what, done, total);
    double t = progress->enabled ? monotonic_seconds() : 0;
    if (!progress->enabled || t - progress->start < 1 || t - progress->last < 0.1)
        return;
    progress->last = t;
    progress->shown = true;
    enum { WIDTH = 30 };
    int filled = total ? (int)(WIDTH * (double)done / (double)total) : 0;
    fprintf(stderr, "\r%s [%.*s%*s] %3.0f %%\033[K", what, filled, "##############################", WIDTH - filled, "",
            total ? 100.0 * (double)done / (double)total : 0.0);
    fflush(stderr); /* the line has no end */
}

void cli_progress_hide(cli_progress *progress)
{
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    progress->shown = false;
}

void cli_progress_end(cli_progress *progress)
{
    current = NULL;
    cli_progress_hide(progress);
}
