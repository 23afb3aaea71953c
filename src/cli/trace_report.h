/* SPDX-License-Identifier: Apache-2.0 */
/* Trace summaries and comparisons, as tables and as JSON. */
#ifndef TV_CLI_TRACE_REPORT_H
#define TV_CLI_TRACE_REPORT_H

#include "cli/cli.h"

/* Write the members into an open object. */
void trace_summary_write_json(const tv_trace_summary *summary, tv_json_writer *writer);
void trace_diff_write_json(const tv_trace_diff *diff, tv_json_writer *writer);

/* Print at most `rows` rows of each table. */
void trace_summary_print(const tv_trace_summary *summary, unsigned rows, bool color, FILE *out);
void trace_diff_print(const tv_trace_diff *diff, unsigned rows, bool color, FILE *out);

/* Writes the comparison of two runs, called `names`, as an HTML page. */
void trace_diff_print_page(const tv_trace_summary *const runs[2], const char *const names[2], const tv_trace_diff *diff,
                           FILE *out);

#endif
