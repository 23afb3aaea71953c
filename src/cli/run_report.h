/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a run, as text and as JSON. */
#ifndef TV_CLI_RUN_REPORT_H
#define TV_CLI_RUN_REPORT_H

#include "cli/cli.h"

/* Writes the members of the summary into an open object. */
void run_report_write_json(const tv_machine *machine, tv_stop_reason stop, tv_json_writer *writer);

/* Cycles, engines, paths, MACs and the bottleneck. `timed` false: a functional run, without cycles. */
void run_report_print(const tv_machine *machine, bool timed, bool color, FILE *out);

/* The fault, on stderr. `has_address`: its address is meaningful, because programs are instruction words. */
void run_report_print_fault(const tv_fault *fault, bool has_address, bool color);

#endif
