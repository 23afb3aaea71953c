/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the instructions that are no lane loops: memory, ACC, look-up tables, partial moves (OpenNPU
 * specification, section 3). One function per handler name of ops.def. */
#include <inttypes.h>
#include <stdio.h>

#include "machine/opennpu/inline.h"
#include "machine/opennpu/ops.h"

static opennpu_rows dest_rows(const opennpu_op *op) { return op->rows[OPENNPU_RD]; }

bool opennpu_exec_nop(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    (void)m, (void)op, (void)fault;
    return true;
}

/* ---- Memory ---- */

TV_CLONES static void deinterleave_lanes(uint8_t *restrict planes, const uint8_t *restrict p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        planes[i] = p[2 * (size_t)i];
        planes[k + i] = p[2 * (size_t)i + 1];
    }
}

void opennpu_deinterleave(uint8_t *planes, const uint8_t *p, uint32_t k) { deinterleave_lanes(planes, p, k); }

TV_CLONES static void deinterleave_words(uint8_t *restrict planes, const uint8_t *restrict p, uint32_t k)
{
    for (uint32_t b = 0; b < 4; b++)
        for (uint32_t i = 0; i < k; i++)
            planes[b * k + i] = p[4 * (size_t)i + b];
}

void opennpu_deinterleave_words(uint8_t *planes, const uint8_t *p, uint32_t k) { deinterleave_words(planes, p, k); }

TV_CLONES static void interleave(const uint8_t *restrict planes, uint8_t *restrict p, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        p[2 * (size_t)i] = planes[i];
        p[2 * (size_t)i + 1] = planes[k + i];
    }
}

static void store_s32(uint8_t *p, const int32_t *lanes, uint32_t count)
{
    if (opennpu_host_is_little_endian())
        memcpy(p, lanes, count * sizeof *lanes);
    else
        for (uint32_t i = 0; i < count; i++)
            tv_store_le(p + 4 * (size_t)i, (uint32_t)lanes[i], 4);
}

opennpu_transfer opennpu_transfer_of(const opennpu_machine *m, const opennpu_op *op)
{
    return (opennpu_transfer){
        .lanes = op->effects & OPENNPU_LANE0_ONLY ? 1u : m->k, .addr = opennpu_address(m, op), .bytes = op->port_bytes};
}

/* The memory that the operation moves, or NULL with *fault set. */
static uint8_t *checked_memory(opennpu_machine *m, const opennpu_transfer *t, opennpu_fault *fault)
{
    if (tv_memory_contains(&m->memory, t->addr, t->bytes))
        return m->memory.bytes + t->addr;
    fault->code = OPENNPU_CODE_MEM_RANGE;
    snprintf(fault->message, sizeof fault->message, "%u bytes at mem[0x%" PRIx32 "] run past the last byte 0x%" PRIx64,
             t->bytes, t->addr, m->memory.size - 1);
    return NULL;
}

static void load_lane0(opennpu_machine *m, opennpu_rows rd, const uint8_t *p)
{
    if (rd.count == 4)
        opennpu_load_s32(opennpu_vr(m, rd.first), p, 1);
    else
        for (unsigned b = 0; b < rd.count; b++)
            opennpu_plane(m, rd.first + b)[0] = p[b];
}

bool opennpu_exec_load(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    const opennpu_transfer t = opennpu_transfer_of(m, op);
    const uint8_t *p = checked_memory(m, &t, fault);
    if (p && t.lanes < m->k)
        load_lane0(m, dest_rows(op), p);
    else if (p)
        opennpu_load_register(m, dest_rows(op), p, m->k);
    return p != NULL;
}

bool opennpu_exec_store(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    const opennpu_rows rd = dest_rows(op);
    const opennpu_transfer t = opennpu_transfer_of(m, op);
    uint8_t *p = checked_memory(m, &t, fault);
    if (!p)
        return false;
    if (rd.count == 4) {
        store_s32(p, opennpu_vr(m, rd.first), t.lanes);
        return true;
    }
    const uint8_t *planes = opennpu_plane(m, rd.first);
    if (rd.count == 2 && t.lanes == m->k && m->simd.interleave)
        m->simd.interleave(p, planes, planes, planes, 0);
    else if (rd.count == 2 && t.lanes == m->k)
        interleave(planes, p, m->k);
    else if (rd.count == 2)
        p[0] = planes[0], p[1] = planes[m->k];
    else
        memcpy(p, planes, t.lanes);
    return true;
}

/* ---- MMA ---- */

void opennpu_add_products(opennpu_machine *m, opennpu_columns *columns)
{
    if (columns->cleared)
        memset(m->acc + (size_t)columns->first * m->k, 0,
               (size_t)(columns->end - columns->first) * m->k * sizeof *m->acc);
    columns->cleared = false;
    if (columns->first == columns->end)
        columns->added = m->pending;
    while (columns->added < m->pending) {
        const size_t from = (size_t)columns->added * m->k;
        const unsigned count = (unsigned)tv_min_u64(m->pending - columns->added, TV_OUTER_COUNT_MAX);
        m->simd.outer(m->acc, m->k, m->pending_b + from, m->pending_a + from, count, columns->first, columns->end);
        columns->added += count;
    }
}

void opennpu_add_drained(opennpu_machine *m)
{
    if (m->others.first == m->others.end)
        opennpu_flush_accumulators(m);
    else
        opennpu_add_products(m, &m->drained);
}

void opennpu_flush_accumulators(opennpu_machine *m)
{
    opennpu_add_products(m, &m->drained);
    opennpu_add_products(m, &m->others);
    m->pending = m->drained.added = m->others.added = 0;
}

/* Programs drain columns from the first on, and as many as one of the last two times. */
void opennpu_clear_accumulators(opennpu_machine *m)
{
    uint32_t end = m->drained.end;
    if (m->drain_ends[0]) {
        end = m->drain_ends[0] > m->drain_ends[1] ? m->drain_ends[0] : m->drain_ends[1];
        end = (end + TV_OUTER_ROWS - 1) / TV_OUTER_ROWS * TV_OUTER_ROWS;
        m->drain_ends[1] = m->drain_ends[0];
        m->drain_ends[0] = 0;
    }
    m->pending = 0;
    m->drained = (opennpu_columns){.end = end, .cleared = true};
    m->others = (opennpu_columns){.first = end, .end = m->k, .cleared = true};
}

/* The next column of ACC, without pending products. */
static const int32_t *drain_column(opennpu_machine *m)
{
    const uint32_t column = m->column;
    if (column < m->drained.end)
        opennpu_add_drained(m);
    else
        opennpu_add_products(m, &m->others);
    if (m->drain_ends[0] <= column)
        m->drain_ends[0] = column + 1;
    m->column = (column + 1) % m->k;
    return m->acc + (size_t)column * m->k;
}

bool opennpu_exec_mma(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    (void)fault;
    opennpu_mma(m, op, m->k);
    return true;
}

bool opennpu_exec_mma_last(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    (void)fault;
    memcpy(opennpu_vr_overwrite(m, dest_rows(op).first), drain_column(m), m->k * sizeof *m->acc);
    return true;
}

bool opennpu_exec_mma_last_keep(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    opennpu_accumulate(m, op, m->k);
    return opennpu_exec_mma_last(m, op, fault);
}

bool opennpu_exec_mma_reset(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    (void)op, (void)fault;
    opennpu_clear_accumulators(m);
    m->column = 0;
    return true;
}

/* ---- Look-up tables ---- */

static uint8_t *lut_bank(opennpu_machine *m, const opennpu_op *op)
{
    return m->lut[op->effects & OPENNPU_BANK_B ? 1 : 0];
}

bool opennpu_exec_lookup(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    const uint8_t *bank = lut_bank(m, op), *indices = opennpu_plane(m, op->rows[OPENNPU_RS1].first);
    uint8_t *dest = opennpu_plane(m, dest_rows(op).first);
    (void)fault;
    if (m->simd.lookup) {
        m->simd.lookup(dest, indices, bank, bank, 0);
        return true;
    }
    uint8_t y[OPENNPU_K_MAX]; /* not `dest`, which the compiler must assume to overlap the bank */
    for (uint32_t i = 0; i < m->k; i++)
        y[i] = bank[indices[i]];
    memcpy(dest, y, m->k);
    return true;
}

bool opennpu_segment_in_bank(const opennpu_op *op, uint32_t k, int64_t *first)
{
    *first = (int64_t)op->imm * 4 * k;
    return *first >= 0 && *first < OPENNPU_LUT_ENTRIES;
}

bool opennpu_exec_set_lut(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    int64_t first;
    if (!opennpu_segment_in_bank(op, m->k, &first)) {
        fault->code = OPENNPU_CODE_LUT_RANGE;
        snprintf(fault->message, sizeof fault->message, OPENNPU_LUT_RANGE_MESSAGE, op->imm, first, OPENNPU_LUT_ENTRIES);
        return false;
    }
    uint8_t *entries = lut_bank(m, op) + first;
    const int32_t *a = opennpu_vr(m, op->rows[OPENNPU_RS1].first);
    for (uint32_t i = 0; i < m->k && first + 4 * i < OPENNPU_LUT_ENTRIES; i++)
        tv_store_le(entries + 4 * (size_t)i, (uint32_t)a[i], 4);
    return true;
}

/* ---- Partial moves ---- */

bool opennpu_exec_movi(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    (void)fault;
    opennpu_plane(m, dest_rows(op).first)[0] = (uint8_t)op->imm;
    return true;
}

/* The high byte of lane 0; the low byte plane is unchanged. */
bool opennpu_exec_movh(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    (void)fault;
    opennpu_plane(m, dest_rows(op).first + 1u)[0] = (uint8_t)op->imm;
    return true;
}
