/* SPDX-License-Identifier: Apache-2.0 */
/* The fault that stopped a machine, with its source location. */
#ifndef TV_SIM_FAULT_H
#define TV_SIM_FAULT_H

#include "base/buf.h"
#include "program/program.h"
#include "trivet/machine.h"

typedef struct tv_fault_record {
    bool raised;
    bool out_of_memory;   /* there was no memory for its texts */
    bool without_text;    /* set by the machine: faults have no disassembly, because only their record is read */
    tv_fault fault;       /* valid if `raised`; its strings are the buffers below or the program's */
    tv_buf text, message; /* disassembly; message */
} tv_fault_record;

void tv_fault_record_fini(tv_fault_record *record);

/* Of a run that ends with the fault: TV_FAULT, or TV_ERR_MEMORY. */
tv_status tv_fault_status(const tv_fault_record *record);

/* Records a fault of instruction `index` of `program`, whose assembly is `text`. A text or message of NULL is one for
 * which there was no memory. */
void tv_fault_raise(tv_fault_record *record, const tv_program *program, uint64_t index, const char *text,
                    const tv_code *code, const char *message);

/* Records a fault of the instruction word at `index`: row `row` of `isa`, or -1 for a word that is no instruction.
 * `program` may be NULL, for a word that belongs to no program. */
void tv_fault_raise_word(tv_fault_record *record, const tv_isa *isa, const tv_program *program, uint64_t index,
                         uint64_t word, int row, const tv_code *code, const char *message);

#endif
