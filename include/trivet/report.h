/* SPDX-License-Identifier: Apache-2.0 */
/* HTML report of a run: one file that shows where the time went, in any browser, without a network.
 *
 * Open a report for a machine, attach its sink with tv_machine_trace (and tv_machine_trace_accesses for the map of
 * memory use) before programs are loaded, run them, detach the sink and finish the report. A report belongs to one
 * thread at a time.
 *
 * Memory is bounded: a report keeps TV_REPORT_EVENTS_MAX events, as many accesses, and the text of as many
 * instructions. Later ones only count in sums (occupancy and bandwidth over time, totals by class, layer and engine);
 * the page says so, and tv_report_finish warns with TV-F006. */
#ifndef TRIVET_REPORT_H
#define TRIVET_REPORT_H

#include "trivet/file.h"
#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TV_REPORT_EVENTS_MAX = 2000000, TV_REPORT_FINDINGS_MAX = 100 };

typedef struct tv_report_writer tv_report_writer;

/* Starts a report at `path` ("-": standard output) with the heading `title`. `machine` is borrowed until the report is
 * freed. The caller ends it with tv_report_finish or tv_report_abandon. TV_ERR_IO: the file cannot be written;
 * TV_ERR_MEMORY. */
TV_API tv_status tv_report_open(const char *path, const char *title, const tv_machine *machine,
                                const tv_diag_sink *sink, tv_report_writer **out);

/* Sets the program whose instructions are shown as text, for a program loaded before the trace started; later loads are
 * found in the trace. `program` is borrowed until the next load or the end of the report. `program` may be NULL: no
 * more text, for example because the program is about to be freed. */
TV_API void tv_report_set_program(tv_report_writer *report, const tv_program *program);

/* The sink to attach to the machine. Valid until the report is freed. */
TV_API tv_trace_sink tv_report_sink(tv_report_writer *report);

/* A sink for what a check of the programs has found (tv_machine_hazards): the head of the page has the first
 * TV_REPORT_FINDINGS_MAX warnings and errors, and the number of the others. Valid until the report is freed. */
TV_API tv_diag_sink tv_report_findings(tv_report_writer *report);

/* Writes the page with the statistics of `machine`, completes the file and frees `report`, also on failure. Source
 * files that instructions name are included as far as they can be read. Detach the sink first (tv_machine_trace with
 * NULL), so that the trace is complete. TV_ERR_IO: the file could not be written and does not appear; TV_ERR_MEMORY. */
TV_API tv_status tv_report_finish(tv_report_writer *report, const tv_machine *machine, const tv_diag_sink *sink);

/* Finishes `report` with `machine` as tv_report_finish does; the file is put in place with `group`, which may be NULL.
 * TV_ERR_IO, TV_ERR_MEMORY as there. */
TV_API tv_status tv_report_finish_to(tv_report_writer *report, const tv_machine *machine, tv_output_group *group,
                                     const tv_diag_sink *sink);

/* Frees `report`, which may be NULL; no file appears. */
TV_API void tv_report_abandon(tv_report_writer *report);

#ifdef __cplusplus
}
#endif
#endif
