/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine does for each row of the instruction table: the functions that handlers.c collects, one of each
 * kind per instruction. A row of insns.def without them does not compile. */
#ifndef TV_MACHINE_PCCX_HANDLERS_H
#define TV_MACHINE_PCCX_HANDLERS_H

#include "machine/pccx/internal.h"

/* Fills in `op`, of which the row and the word are set. False: a program fault, which *why describes; the operation
 * holds what was resolved until then. */
typedef bool pccx_resolve_fn(const pccx_control *control, pccx_op *op, pccx_rejection *why);

/* Changes the data. False: a data-dependent fault, or no host memory; nothing has changed. */
typedef bool pccx_execute_fn(pccx_machine *m, const pccx_op *op, pccx_rejection *why);

/* Cycles from issue to end while no bytes are missing. */
typedef uint64_t pccx_latency_fn(const pccx_timing *timing, const pccx_op *op);

typedef struct pccx_handler {
    pccx_resolve_fn *resolve;
    pccx_execute_fn *execute;
    pccx_latency_fn *latency;
} pccx_handler;

/* By row of tv_isa_pccx. */
extern const pccx_handler pccx_handlers[PCCX_INSNS];

#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source)                                    \
    pccx_resolve_fn pccx_resolve_##id;                                                                                 \
    pccx_execute_fn pccx_execute_##id;                                                                                 \
    pccx_latency_fn pccx_latency_##id;
#include "isa/pccx/insns.def"
#undef TV_INSN

#endif
