/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of each instruction, expanded from the instruction table. */
#include "machine/pccx/handlers.h"

const pccx_handler pccx_handlers[PCCX_INSNS] = {
#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source)                                    \
    [PCCX_##id] = {pccx_resolve_##id, pccx_execute_##id, pccx_latency_##id},
#include "isa/pccx/insns.def"
#undef TV_INSN
};
