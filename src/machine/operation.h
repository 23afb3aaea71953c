/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of extensions on any machine: what an extension's functions are passed.
 *
 * A machine makes a tv_operation for an instruction of an extension, lets the extension state the ranges that it reads
 * and writes (tv_operation_resolve), checks them in its own terms, and has it executed on copies of these ranges
 * (tv_operation_execute). Elementwise instructions have no ranges of their own: the machine resolves them as it does
 * its own, and calls `elements` with binary32 numbers. */
#ifndef TV_MACHINE_OPERATION_H
#define TV_MACHINE_OPERATION_H

#include "base/buf.h"
#include "isa/extend.h"
#include "machine/target.h"

enum { TV_OPERATION_RANGES = 6 };

typedef struct tv_operation_range {
    const char *space;
    uint64_t addr, bytes; /* addr in units of the space */
    bool write;
    void *data; /* while it executes */
} tv_operation_range;

/* Why an operation cannot run. */
typedef struct tv_operation_rejection {
    bool rejected;
    char message[152];
} tv_operation_rejection;

struct tv_operation {
    const tv_insn *insn;
    const tv_isa *isa;
    uint64_t word;
    const tv_config *config;
    /* The number of parameter `parameter` of the entry `entry`; NULL: the instruction is a word. */
    double (*number)(const void *entry, unsigned parameter);
    const void *entry;
    /* The machine whose memories can be read; NULL: none. */
    const tv_target *target;
    void *state;
    tv_values *values; /* inner values; NULL: not asked for */
    tv_operation_rejection *why;
    unsigned range_count;
    tv_operation_range ranges[TV_OPERATION_RANGES];
};

/* Sets the ranges. False: it is rejected, and op->why says why. */
bool tv_operation_resolve(tv_operation *op);

/* What it costs. False: the extension's numbers are out of range, and op->why says so. */
bool tv_operation_cost_of(const tv_operation *op, tv_operation_cost *cost);

/* Its energy, as the action EXTENSION counts it. */
static inline uint64_t tv_operation_femtojoules(const tv_operation_cost *cost)
{
    return (uint64_t)(cost->picojoules * 1000 + 0.5);
}

/* Copies the bytes of range `i` of an operation from the machine to its `data`, or, of one that is written, back. */
typedef void tv_operation_copy(void *user, const tv_operation *op, unsigned i);

/* By the address spaces of op->target. */
tv_operation_copy tv_operation_copy_space;

/* Executes a resolved operation, whose ranges are in their spaces; `scratch` has the copies. Nothing is written if it
 * is rejected meanwhile. False: out of memory, and nothing has changed. */
bool tv_operation_execute(tv_operation *op, tv_operation_copy *copy, void *user, tv_buf *scratch);

#endif
