/* SPDX-License-Identifier: Apache-2.0 */
/* trivet cosim compare: the log of a design against the model's. */
#ifndef TV_CLI_COSIM_COMPARE_H
#define TV_CLI_COSIM_COMPARE_H

#include "cli/cli.h"

/* Rows of a command's table of options. */
#define COSIM_COMPARE_OPTIONS                                                                                          \
    {"rules", 0, "FILE", "compare: tolerances and known mismatches (docs/cosim.md)", "FILE"},                          \
        {"cycle-slack", 0, "N", "compare: instructions end at most N cycles from the model's (default: not compared)", \
         NULL},                                                                                                        \
        {"self-test", 0, NULL, "compare: invert a byte in the comparison, which must be reported", NULL},              \
    {                                                                                                                  \
        "rows", 'n', "N", "compare: print at most N mismatches (default 10)", NULL                                     \
    }

bool cosim_has_compare_options(const cli *c);

/* Compares files[1] with files[2]. Returns an exit status. */
int cosim_compare(cli *c);

/* Makes the machine that a log is of. */
tv_status cosim_make_machine(cli *c, const tv_commit_log_reader *reader, tv_machine **out);

#endif
