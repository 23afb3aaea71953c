/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of a static check: each is counted, and reported with its source location. A code is reported at most
 * TV_FINDINGS_MAX times. */
#ifndef TV_SIM_FINDINGS_H
#define TV_SIM_FINDINGS_H

#include "program/program.h"
#include "trivet/machine.h"

enum { TV_FINDINGS_MAX = 100, TV_FINDING_CODES_MAX = 64 };

/* Members up to `counts` are set by the caller, `found` is zero at first. */
typedef struct tv_findings {
    const tv_program *program;
    const tv_diag_sink *sink;
    const tv_code *codes; /* of the instruction set */
    tv_check_counts *counts;
    uint64_t found[TV_FINDING_CODES_MAX]; /* by index of the code */
} tv_findings;

/* A finding of code `code` at instruction `index`. `hint` may be NULL. Notes are not counted. */
void tv_findings_report(tv_findings *findings, tv_severity severity, unsigned code, uint64_t index, const char *hint,
                        const char *format, ...) TV_PRINTF(6, 7);

/* Reports, by code, how many findings were omitted. */
void tv_findings_report_omitted(tv_findings *findings);

#endif
