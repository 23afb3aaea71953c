/* SPDX-License-Identifier: Apache-2.0 */
/* What `trivet run` says at its end. */
#ifndef TV_CLI_RUN_REPORT_H
#define TV_CLI_RUN_REPORT_H

#include "cli/cli.h"

/* The summary as JSON; borrows `dumps`. */
json_t *run_report_json(const tv_machine *machine, tv_stop_reason stop, json_t *dumps);

/* The table that a person reads in ten seconds; without cycles when the run was not `timed`. */
void run_report_print(const tv_machine *machine, bool timed, bool color, FILE *out);

/* The fault, on stderr. */
void run_report_fault(const tv_fault *fault, bool words, bool color); /* words: its address says something */

#endif
