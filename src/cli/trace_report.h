/* SPDX-License-Identifier: Apache-2.0 */
/* What `trivet trace` says, as tables and as JSON. */
#ifndef TV_CLI_TRACE_REPORT_H
#define TV_CLI_TRACE_REPORT_H

#include "cli/cli.h"

json_t *trace_summary_json(const tv_trace_summary *summary);
void trace_summary_print(const tv_trace_summary *summary, unsigned rows, bool color,
                         FILE *out); /* at most `rows` of each table */

json_t *trace_diff_json(const tv_trace_diff *diff);
void trace_diff_print(const tv_trace_diff *diff, unsigned rows, bool color, FILE *out);

#endif
