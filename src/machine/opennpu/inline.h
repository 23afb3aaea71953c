/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of the most frequent instructions of products, loads of whole registers and mma, inline for the loop of
 * instructions that nothing observes. */
#ifndef TV_MACHINE_OPENNPU_INLINE_H
#define TV_MACHINE_OPENNPU_INLINE_H

#include "machine/opennpu/registers.h"

/* K is OPENNPU_K_MAX: the compiler makes multiplications shifts, and copies moves of vectors. */
static inline void opennpu_assume_k_max(const opennpu_machine *m)
{
    if (m->k != OPENNPU_K_MAX)
        __builtin_unreachable();
}

static inline void opennpu_clear_acc(opennpu_machine *m)
{
    m->pending = 0;
    m->cleared = true;
}

/* Adds rs1 * rs2^T to ACC. The operands are collected and multiplied many at a time, before ACC is read. */
static inline void opennpu_accumulate(opennpu_machine *m, const opennpu_op *op)
{
    if (m->pending == TV_OUTER_COUNT_MAX)
        opennpu_flush_accumulators(m);
    const size_t at = (size_t)m->pending++ * m->k;
    memcpy(m->pending_a + at, opennpu_plane(m, op->rows[OPENNPU_RS1].first), m->k);
    memcpy(m->pending_b + at, opennpu_plane(m, op->rows[OPENNPU_RS2].first), m->k);
}

static inline void opennpu_mma(opennpu_machine *m, const opennpu_op *op)
{
    if (!op->sat) /* keep */
        opennpu_clear_acc(m);
    opennpu_accumulate(m, op);
    m->column = 0;
}

/* Address that a load or store accesses first. */
static inline uint32_t opennpu_address(const opennpu_machine *m, const opennpu_op *op)
{
    return (uint32_t)opennpu_vr_lane0(m, op->rows[OPENNPU_RS1].first) + (uint32_t)(int32_t)op->imm;
}

/* A load of all lanes with K = OPENNPU_K_MAX. False: it faults. */
static inline bool opennpu_load_register(opennpu_machine *m, const opennpu_op *op)
{
    opennpu_assume_k_max(m);
    const opennpu_rows rd = op->rows[OPENNPU_RD];
    const uint32_t addr = opennpu_address(m, op);
    if (!tv_memory_contains(&m->memory, addr, op->port_bytes))
        return false;
    const uint8_t *p = m->memory.bytes + addr;
    if (rd.count == 4) {
        memcpy(opennpu_vr_overwrite(m, rd.first), p, (size_t)4 * OPENNPU_K_MAX);
        return true;
    }
    uint8_t *planes = opennpu_plane(m, rd.first);
    if (rd.count == 2)
        m->simd.deinterleave(planes, p, planes, planes, 0);
    else
        memcpy(planes, p, OPENNPU_K_MAX);
    return true;
}

#endif
