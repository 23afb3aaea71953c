/* SPDX-License-Identifier: Apache-2.0 */
/* Planes and products of a batch: every column of the array is drained, twice. */
#include "lower/opennpu/batch.h"

/* ---- Planes ---- */

/* Address of a channel's plane. Channels K apart are adjacent because they belong to one register of weights. */
uint64_t opennpu_lower_batch_plane_addr(const opennpu_lower_batch *b, uint64_t planes, uint32_t columns,
                                        uint32_t column, uint32_t high)
{
    uint32_t k = b->m->k, chunks = opennpu_lower_chunks(b->m, columns);
    return planes + (((uint64_t)(column % k) * chunks + column / k) * 2 + high) * k;
}

/* Stores VR `from`, in units of the next product's input, to two planes. VR `half` must hold BYTE_HALF. Clobbers VR
 * 3. */
void opennpu_lower_batch_store_planes(opennpu_lower_batch *b, bool is_float, unsigned from, unsigned half, uint64_t at)
{
    opennpu_lower_emitter *e = b->e;
    unsigned low = opennpu_lower_reg(3, OPENNPU_VX);
    if (is_float)
        opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, from, from, 0);
    opennpu_lower_emit_vr(e, OPENNPU_VADD, from, from, half);
    opennpu_lower_emit(e, OPENNPU_VCVT_S16_S32, opennpu_lower_reg(3, OPENNPU_VE), from, 0);
    opennpu_lower_emit_sized(e, OPENNPU_VXOR, OPENNPU_VX, low, low, opennpu_lower_reg(half, OPENNPU_VX));
    opennpu_lower_store(e, OPENNPU_VX, low + 1, OPENNPU_LOWER_VR_X, at + b->m->k);
    opennpu_lower_store(e, OPENNPU_VX, low, OPENNPU_LOWER_VR_X, at);
}

/* ---- Products ---- */

/* Drains the columns. The sums of the low bytes are kept in memory for the second pass. VR 1 is 256, or the shift 8. */
static void drain_columns(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t high)
{
    opennpu_lower_emitter *e = b->e;
    if (high)
        opennpu_lower_set(e, 1, job->integers ? OPENNPU_CONST_SHIFT_8 : OPENNPU_CONST_F_256);
    for (uint32_t c = 0; c < job->count; c++) {
        unsigned reg = high ? 6 : 6 + c % 2;
        opennpu_lower_emit(e, OPENNPU_MMA_LAST, reg, 0, 0);
        if (c < job->skipped)
            continue;
        if (!high) {
            opennpu_lower_store(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_W, b->m->batch_sums + c * b->vector);
            continue;
        }
        opennpu_lower_load(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_W, b->m->batch_sums + c * b->vector);
        if (job->prefetch)
            job->prefetch(b, job, c);
        if (job->integers) {
            opennpu_lower_emit_vr(e, OPENNPU_VSLL, 6, 6, 1);
            opennpu_lower_emit_vr(e, OPENNPU_VADD, 7, 7, 6);
        } else {
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 6, 6, 0);
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 7, 7, 0);
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, 7, 6, 1, 7);
        }
        job->consume(b, job, c);
    }
}

/* Multiplies and drains twice. `list` has the products with the low bytes; the high bytes are K bytes after them. */
void opennpu_lower_batch_multiply(opennpu_lower_batch *b, size_t count, const opennpu_lower_column_job *job)
{
    for (uint32_t high = 0; high < 2; high++) {
        for (size_t i = 0; i < count && high; i++)
            b->list[i].x += b->m->k;
        opennpu_lower_accumulate(b->e, b->list, count);
        drain_columns(b, job, high);
    }
}

/* Epilogues of one token's block of rows. */
void opennpu_lower_batch_load_scales(opennpu_lower_batch *b, const opennpu_lower_column_job *job, uint32_t c)
{
    (void)c;
    opennpu_lower_load(b->e, OPENNPU_VR, 0, 3, job->scale);
}

/* Makes planes of a value, if products read it. */
void opennpu_lower_batch_planes(opennpu_lower_batch *b, uint32_t value)
{
    opennpu_lower_emitter *e = b->e;
    const opennpu_lower_value *v = opennpu_lower_batch_value(b, value);
    uint32_t columns = opennpu_lower_batch_columns(b, value);
    if (!v->packed)
        return;
    opennpu_lower_set(e, 6, OPENNPU_CONST_BYTE_HALF);
    if (v->unit != v->pack_unit)
        opennpu_lower_set(e, 7, tv_f32_bits(v->unit / v->pack_unit));
    for (uint32_t c = 0; c < columns; c++) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, v->batch + c * b->vector);
        if (v->unit != v->pack_unit)
            opennpu_lower_emit(e, OPENNPU_VFMUL, 2, 2, 7);
        opennpu_lower_batch_store_planes(b, true, 2, 6, opennpu_lower_batch_plane_addr(b, v->planes, columns, c, 0));
    }
}
