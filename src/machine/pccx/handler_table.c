/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of each instruction, expanded from the instruction table, and their use. */
#include "machine/pccx/resolver.h"

const pccx_handler pccx_handlers[PCCX_INSNS] = {
#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source)                                    \
    [PCCX_##id] = {pccx_resolve_##id, pccx_execute_##id, pccx_latency_##id},
#include "isa/pccx/insns.def"
#undef TV_INSN
};

bool pccx_resolve(const pccx_control *control, unsigned row, uint64_t word, pccx_op *op, pccx_rejection *why)
{
    assert(row < control->isa->insn_count);
    const pccx_handler *handler = row < PCCX_INSNS ? &control->handlers[row] : &pccx_extension_handler;
    memset(op, 0, offsetof(pccx_op, ranges)); /* ranges and constants are read up to their counts only */
    op->insn = &control->isa->insns[row];
    op->handler = handler;
    op->row = (uint16_t)row;
    op->word = word;
    op->path = PCCX_PATH_NONE;
    op->flow = PCCX_FLOW_NONE;
    return handler->resolve(control, op, why);
}
