/* SPDX-License-Identifier: Apache-2.0 */
/* A report of a run: one HTML file that shows where the time went, in any browser, without a network.
 *
 * Open one for a machine, give its sink to the machine (tv_machine_trace, perhaps with tv_machine_trace_accesses for
 * the map of memory use) before programs are loaded, run them, and finish it. A report belongs to one thread at a time.
 *
 * Memory is bounded. The report keeps TV_REPORT_EVENTS_MAX events, as many accesses, and the text of as many
 * instructions. What comes later is added up alone (occupancy and bandwidth over time, totals by class, layer and
 * engine), the page says so, and tv_report_finish warns with TV-F005. */
#ifndef TRIVET_REPORT_H
#define TRIVET_REPORT_H

#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TV_REPORT_EVENTS_MAX = 2000000 };

typedef struct tv_report_writer tv_report_writer;

/* Begins a report at `path` ("-": standard output) with the heading `title`. `machine` is borrowed until the report
 * ends. TV_ERR_INPUT, TV_ERR_IO: the file cannot be written there. */
TV_API tv_status tv_report_open(const char *path, const char *title, const tv_machine *machine,
                                const tv_diag_sink *sink, tv_report_writer **out);

/* Says that `program` is loaded in the machine, if that was done before the trace began; of later loads the trace
 * tells. Its instructions are shown as text. It is borrowed until the next load or the end of the report; `program`
 * NULL: it is about to be freed, and no more text is wanted. */
TV_API void tv_report_set_program(tv_report_writer *report, const tv_program *program);

/* The sink lives as long as the report. */
TV_API tv_trace_sink tv_report_sink(tv_report_writer *report);

/* Writes the page with the statistics of `machine`, reads the source files that its instructions name as far as they
 * can be read, closes the file and frees the report. End the trace before (tv_machine_trace with NULL), so that it is
 * complete. */
TV_API tv_status tv_report_finish(tv_report_writer *report, const tv_machine *machine, const tv_diag_sink *sink);

/* Frees the report; no file appears. NULL does nothing. */
TV_API void tv_report_abandon(tv_report_writer *report);

#ifdef __cplusplus
}
#endif
#endif
