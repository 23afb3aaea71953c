/* SPDX-License-Identifier: Apache-2.0 */
/* What executing instructions shares: vectors in L2 words or a direct FIFO, as BF16 elements, and scratch memory. */
#ifndef TV_MACHINE_PCCX_EXEC_H
#define TV_MACHINE_PCCX_EXEC_H

#include "machine/pccx/machine.h"

static inline uint8_t *pccx_l2_at(pccx_machine *m, uint64_t word) { return m->l2.bytes + word * PCCX_WORD_BYTES; }

/* `count` lanes from lane `first` of a vector at `word` on. */
void pccx_load_lanes(pccx_machine *m, uint64_t word, uint64_t first, uint64_t count, uint16_t *out);

/* The vector at `src` or, for the tag, the front of `fifo`, which stays there. */
void pccx_load_vector(pccx_machine *m, uint32_t src, unsigned fifo, uint64_t count, uint16_t *out);

/* Writes a vector; lanes past its end in the last word become zero. */
void pccx_put_vector(pccx_machine *m, uint32_t dst, unsigned fifo, const uint16_t *values, uint64_t count);

void pccx_pop_fifo(pccx_machine *m, unsigned fifo, uint64_t count);

/* Memory of the instruction's own; NULL: there is none, which is what pccx_fail_memory says. */
void *pccx_scratch(pccx_machine *m, size_t bytes);
bool pccx_fail_memory(pccx_rejection *why);

/* One function an instruction. False: a data-dependent fault; nothing has changed. */
#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source)                                    \
    bool pccx_exec_##id(pccx_machine *m, const pccx_op *op, pccx_rejection *why);
#include "isa/pccx/insns.def"
#undef TV_INSN

#endif
