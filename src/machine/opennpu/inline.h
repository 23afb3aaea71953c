/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of the most frequent instructions of products, loads of whole registers and mma, inline for the loop of
 * instructions that nothing observes. */
#ifndef TV_MACHINE_OPENNPU_INLINE_H
#define TV_MACHINE_OPENNPU_INLINE_H

#include "machine/opennpu/registers.h"

static inline void opennpu_clear_acc(opennpu_machine *m)
{
    m->pending = 0;
    m->cleared = true;
}

/* Copies VX[row] to the next row of pending operands. */
static inline void opennpu_append_operand(opennpu_machine *m, int8_t *operands, unsigned row, uint32_t k)
{
    if (opennpu_is_lane_form(m, row))
        opennpu_group_to_planes(m, row / OPENNPU_GROUP_ROWS);
    memcpy(operands + (size_t)m->pending * k, m->registers + (size_t)row * k, k);
}

/* Adds rs1 * rs2^T to ACC. The operands are collected and multiplied many at a time, before ACC is read. `k` is that of
 * the machine, a constant where the caller knows it. */
static inline void opennpu_accumulate(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    if (m->pending == TV_OUTER_COUNT_MAX)
        opennpu_flush_accumulators(m);
    opennpu_append_operand(m, m->pending_a, op->rows[OPENNPU_RS1].first, k);
    opennpu_append_operand(m, m->pending_b, op->rows[OPENNPU_RS2].first, k);
    m->pending++;
}

static inline void opennpu_mma(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    if (!op->sat) /* keep */
        opennpu_clear_acc(m);
    opennpu_accumulate(m, op, k);
    m->column = 0;
}

/* Address that a load or store accesses first. */
static inline uint32_t opennpu_address(const opennpu_machine *m, const opennpu_op *op)
{
    return (uint32_t)opennpu_vr_lane0(m, op->rows[OPENNPU_RS1].first) + (uint32_t)(int32_t)op->imm;
}

/* A load of all lanes, with K = OPENNPU_K_MAX. False: it faults. */
static inline bool opennpu_load_register(opennpu_machine *m, const opennpu_op *op)
{
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
