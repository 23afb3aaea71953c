/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of a static check: each is counted, and reported with its source location. A code is reported at most
 * TV_FINDINGS_MAX times. */
#ifndef TV_SIM_FINDINGS_H
#define TV_SIM_FINDINGS_H

#include "base/buf.h"
#include "base/source_lines.h"
#include "program/program.h"
#include "trivet/machine.h"

enum { TV_FINDINGS_MAX = 100, TV_FINDING_CODES_MAX = 64 };

/* The caller sets the members up to `counts`, and `locate` and `text` where it has them; the others are zero at first.
 */
typedef struct tv_findings {
    const tv_program *program;
    const tv_diag_sink *sink;
    const tv_code *codes; /* of the instruction set */
    tv_check_counts *counts;
    uint64_t found[TV_FINDING_CODES_MAX]; /* by index of the code */
    bool out_of_memory;                   /* a text could not be formatted; no findings are reported any more */

    /* Refines the location of an instruction; may be NULL. `text` is for it: a position in the program's file. */
    void (*locate)(struct tv_findings *findings, unsigned code, tv_source_loc *loc);
    tv_line_cursor text;
} tv_findings;

/* A finding of code `code` at instruction `index`. `hint` may be NULL. Notes are not counted. */
void tv_findings_report(tv_findings *findings, tv_severity severity, unsigned code, uint64_t index, const char *hint,
                        const char *format, ...) TV_PRINTF(6, 7);

/* The text of a buffer, for an argument of tv_findings_report; "" when out of memory, which is noted. */
const char *tv_findings_text(tv_findings *findings, tv_buf *text);

/* Reports, by code, how many findings were omitted. TV_OK, or TV_ERR_MEMORY, which it reports. */
tv_status tv_findings_finish(tv_findings *findings);

#endif
