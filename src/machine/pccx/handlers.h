/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine does for each row of the instruction table: the functions that handler_table.c collects, one of each
 * kind per instruction. A row of insns.def without them does not compile. */
#ifndef TV_MACHINE_PCCX_HANDLERS_H
#define TV_MACHINE_PCCX_HANDLERS_H

#include "machine/pccx/internal.h"

/* By row of insns.def. */
extern const pccx_handler pccx_handlers[PCCX_INSNS];

#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source)                                    \
    pccx_resolve_fn pccx_resolve_##id;                                                                                 \
    pccx_execute_fn pccx_execute_##id;                                                                                 \
    pccx_latency_fn pccx_latency_##id;
#include "isa/pccx/insns.def"
#undef TV_INSN

#endif
