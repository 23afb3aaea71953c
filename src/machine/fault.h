/* SPDX-License-Identifier: Apache-2.0 */
/* What every machine says in the same way: the fault that stopped it, the findings of its static check, the source
 * lines of its events. */
#ifndef TV_MACHINE_FAULT_H
#define TV_MACHINE_FAULT_H

#include "base/buf.h"
#include "program/program.h"
#include "trivet/machine.h"

/* The fault that stopped a machine, with the texts that it points to. */
typedef struct tv_fault_record {
    bool raised;
    tv_fault fault;
    tv_buf text, message;
} tv_fault_record;

void tv_fault_record_fini(tv_fault_record *record);

/* Instruction `index`, whose assembly is `text`, faults. `program` knows its line. */
void tv_fault_raise(tv_fault_record *record, const tv_program *program, uint64_t index, const char *text,
                    const tv_code *code, const char *message);

/* The word at instruction `index`, row `row` of its instruction set or -1 when it is none, faults. `program`, which may
 * be NULL, knows its line. */
void tv_fault_raise_word(tv_fault_record *record, const tv_isa *isa, const tv_program *program, uint64_t index,
                         uint64_t word, int row, const tv_code *code, const char *message);

/* Gives an event of instruction `index` its source line, and, where it has no layer, its label. */
void tv_event_locate(tv_event *event, const tv_program *program, uint64_t index);

/* A static check under way. A code is reported TV_FINDINGS_MAX times, and counted always. */
enum { TV_FINDINGS_MAX = 100, TV_FINDING_CODES_MAX = 64 };

typedef struct tv_findings {
    const tv_program *program;
    const tv_diag_sink *sink;
    const tv_code *codes; /* of the instruction set */
    tv_check_counts *counts;
    uint64_t said[TV_FINDING_CODES_MAX]; /* by index of the code */
} tv_findings;

void tv_findings_report(tv_findings *findings, tv_severity severity, unsigned code, uint64_t index, const char *hint,
                        const char *format, ...) TV_PRINTF(6, 7);

/* Says how many were left out. */
void tv_findings_end(tv_findings *findings);

#endif
