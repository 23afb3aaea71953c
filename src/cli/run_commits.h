/* SPDX-License-Identifier: Apache-2.0 */
/* The commit log of a run (--commit-log). */
#ifndef TV_CLI_RUN_COMMITS_H
#define TV_CLI_RUN_COMMITS_H

#include "cli/cli.h"

/* Rows of a command's table of options. */
#define RUN_COMMITS_OPTIONS                                                                                            \
    {"commit-log", 0, "FILE",                                                                                          \
     "write what each instruction changes; a name ending in .bin is binary, one in .zst compressed", "FILE"},          \
    {                                                                                                                  \
        "commit-contents", 0, "LIST", "contents of the commit log besides writes: before, reads, values or all",       \
            "before reads values all"                                                                                  \
    }

typedef struct run_commits {
    tv_machine *machine;
    tv_commit_log_writer *writer; /* NULL: no log */
    tv_commit_sink other;         /* zeroed: none */
} run_commits;

/* Checks the options, opens the log and attaches it to the machine, which has loaded nothing yet. `other`, which may be
 * NULL, receives the records, too, with writes at least. `log` must not move until it is finished or abandoned. */
tv_status run_commits_open(run_commits *log, cli *c, tv_machine *machine, const tv_commit_sink *other);

/* Completes the log for `group`, or removes it. A zeroed run_commits has none. */
tv_status run_commits_finish(run_commits *log, tv_output_group *group, const tv_diag_sink *sink);
void run_commits_abandon(run_commits *log);

#endif
