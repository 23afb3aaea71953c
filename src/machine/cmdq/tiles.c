/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles as arrays: packing, unpacking, scratch memory. */
#include "kernels/elements.h"
#include "kernels/gemm.h"
#include "machine/cmdq/exec.h"
#include "num/float.h"
#include "num/int.h"

void *cmdq_extend_scratch(cmdq_exec *x, cmdq_scratch_use use, uint64_t bytes)
{
    void *p = tv_buf_extend(&x->memories->scratch[use], bytes ? bytes : 1);
    if (!p)
        x->outcome = CMDQ_NO_MEMORY;
    return p;
}

void *cmdq_scratch(cmdq_exec *x, cmdq_scratch_use use, uint64_t bytes)
{
    x->memories->scratch[use].len = 0;
    return cmdq_extend_scratch(x, use, bytes);
}

void cmdq_unpack_s8(const uint8_t *packed, unsigned qbits, uint64_t count, int8_t *out)
{
    if (qbits == 4) {
        tv_unpack_s4(packed, count, out);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = (int8_t)tv_int_get(packed, qbits, i);
}

void cmdq_unpack_f32(const uint8_t *packed, unsigned qbits, uint64_t count, float *out)
{
    if (qbits == 32)
        memcpy(out, packed, count * sizeof *out);
    else if (qbits == 16)
        tv_elements_from_f16(packed, count, out);
    else if (qbits == 8)
        tv_elements_from_s8((const int8_t *)packed, count, out);
    else
        for (uint64_t i = 0; i < count; i++)
            out[i] = (float)tv_int_get(packed, qbits, i);
}

const uint8_t *cmdq_tile_packed(cmdq_exec *x, const cmdq_tile *t, cmdq_scratch_use use)
{
    if (t->rows == 1)
        return cmdq_tile_bytes(x, t);
    uint8_t *out = cmdq_scratch(x, use, t->rows * t->bytes);
    if (out)
        cmdq_copy_rows(out, t->bytes, cmdq_tile_bytes(x, t), t->stride, t->rows, t->bytes);
    return out;
}

const float *cmdq_tile_f32(cmdq_exec *x, const cmdq_tile *tile, uint64_t count, float scale, cmdq_scratch_use use)
{
    if (!tile)
        return NULL;
    const uint8_t *bytes = cmdq_tile_packed(x, tile, CMDQ_SCRATCH_PACKED_OUT);
    if (!bytes)
        return NULL;
    if (tile->qbits == 32 && scale == 1 && (uintptr_t)bytes % _Alignof(float) == 0)
        return (const float *)(const void *)bytes;
    float *out = cmdq_scratch(x, use, count * sizeof *out);
    if (out)
        cmdq_unpack_f32(bytes, tile->qbits, count, out);
    if (out && scale != 1)
        tv_elements_mul_scalar(out, count, scale);
    return out;
}
