/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of mma and of loads of whole registers, the most frequent instructions of matrix products, which run_fast
 * inlines. `k` is that of the machine, a constant where the caller knows it. */
#ifndef TV_MACHINE_OPENNPU_INLINE_H
#define TV_MACHINE_OPENNPU_INLINE_H

#include "machine/opennpu/registers.h"

/* Copies VX[row] to the next row of pending operands. */
static inline void opennpu_append_operand(opennpu_machine *m, int8_t *operands, unsigned row, uint32_t k)
{
    if (opennpu_is_lane_form(m, row))
        opennpu_group_to_planes(m, row / OPENNPU_GROUP_ROWS);
    memcpy(operands + (size_t)m->pending * k, m->registers + (size_t)row * k, k);
}

/* Makes room for the operands of `count` more products, at most TV_OUTER_COUNT_MAX. Pending ones may be gone then. */
static inline void opennpu_reserve_products(opennpu_machine *m, unsigned count)
{
    if (m->pending - m->drained.added + count > TV_OUTER_COUNT_MAX)
        opennpu_add_drained(m);
    if (m->pending + count > OPENNPU_PENDING_MAX)
        opennpu_flush_accumulators(m);
}

/* Adds rs1 * rs2^T to ACC. The operands are collected and multiplied many at a time, before ACC is read. */
static inline void opennpu_accumulate(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    opennpu_reserve_products(m, 1);
    opennpu_append_operand(m, m->pending_a, op->rows[OPENNPU_RS1].first, k);
    opennpu_append_operand(m, m->pending_b, op->rows[OPENNPU_RS2].first, k);
    m->pending++;
}

static inline void opennpu_mma(opennpu_machine *m, const opennpu_op *op, uint32_t k)
{
    if (!op->sat) /* keep */
        opennpu_clear_accumulators(m);
    opennpu_accumulate(m, op, k);
    m->column = 0;
}

/* Address that a load or store accesses first. */
static inline uint32_t opennpu_address(const opennpu_machine *m, const opennpu_op *op)
{
    return (uint32_t)opennpu_vr_lane0(m, op->rows[OPENNPU_RS1].first) + (uint32_t)(int32_t)op->imm;
}

/* Two or four byte planes from memory; exec.c. */
void opennpu_deinterleave(uint8_t *planes, const uint8_t *p, uint32_t k);
void opennpu_deinterleave_words(uint8_t *planes, const uint8_t *p, uint32_t k);

/* Loads k lanes of 16 bit to two byte planes. */
static inline void opennpu_load_ve(const opennpu_machine *m, uint8_t *planes, const uint8_t *p, uint32_t k)
{
    if (m->simd.deinterleave)
        m->simd.deinterleave(planes, p, planes, planes, 0);
    else
        opennpu_deinterleave(planes, p, k);
}

/* VR lanes are integers of the host, memory is little endian. */
static inline void opennpu_load_s32(int32_t *lanes, const uint8_t *p, uint32_t count)
{
    if (opennpu_host_is_little_endian())
        memcpy(lanes, p, count * sizeof *lanes);
    else
        for (uint32_t i = 0; i < count; i++)
            lanes[i] = (int32_t)tv_load_le32(p + 4 * (size_t)i);
}

/* Loads all lanes of a register from `p`. */
static inline void opennpu_load_register(opennpu_machine *m, opennpu_rows rd, const uint8_t *p, uint32_t k)
{
    if (__builtin_expect(rd.count == 1, 1)) /* or GCC copies with a string instruction */
        memcpy(opennpu_plane(m, rd.first), p, k);
    else if (rd.count == 2)
        opennpu_load_ve(m, opennpu_plane(m, rd.first), p, k);
    else
        opennpu_load_s32(opennpu_vr_overwrite(m, rd.first), p, k);
}

#endif
