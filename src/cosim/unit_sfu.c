/* SPDX-License-Identifier: Apache-2.0 */
/* The SFU of pccx on arrays, in blocks of elements. */
#include "kernels/functions.h"
#include "kernels/sfu.h"
#include "num/float.h"
#include "trivet/unit.h"

enum { BLOCK = 256 };

static const tv_func functions[TV_SFU_COUNT] = {
    [TV_SFU_EXP] = TV_FUNC_EXP,     [TV_SFU_SQRT] = TV_FUNC_SQRT, [TV_SFU_GELU] = TV_FUNC_GELU,
    [TV_SFU_SIN] = TV_FUNC_SIN,     [TV_SFU_COS] = TV_FUNC_COS,   [TV_SFU_RECIP] = TV_FUNC_RECIP,
    [TV_SFU_REDUCE_SUM] = TV_FUNCS, [TV_SFU_SCALE] = TV_FUNCS,
};

typedef struct block {
    float x[BLOCK], y[BLOCK];
    float sum; /* REDUCE_SUM: of all elements so far */
} block;

/* NaNs of hosts differ. */
static void canonicalize_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = tv_f32_of_bits(tv_f32_canonical(x[i]));
}

/* The results in binary32 before the addend; NaN is canonical. */
static void compute_results(const tv_sfu_op *op, size_t n, const block *b, float *out)
{
    if (op->function == TV_SFU_REDUCE_SUM)
        tv_sfu_sums(b->x, n, b->sum, out);
    else if (op->function == TV_SFU_SCALE)
        tv_scale_f32(b->x, n, tv_bf16_to_f32(tv_bf16_flush(op->scalar)), op->recip_scale, out);
    else
        tv_func_f32_row(functions[op->function], b->x, n, out);
    canonicalize_row(out, n);
}

static void compute_block(const tv_sfu_op *op, size_t n, const uint16_t *addend, block *b, uint16_t *out)
{
    const tv_sfu_scaling scaling = {op->scalar, op->recip_scale, op->sub_emax};
    if (op->function == TV_SFU_REDUCE_SUM) {
        tv_sfu_sums(b->x, n, b->sum, b->y);
        b->sum = b->y[n - 1];
    } else if (op->function == TV_SFU_SCALE) {
        tv_sfu_scale(&scaling, b->x, n, addend, b->y, out);
    } else {
        tv_sfu_function(functions[op->function], b->x, n, addend, out);
    }
}

tv_status tv_unit_sfu(const tv_sfu_op *op, const uint16_t *x, size_t count, const uint16_t *addend,
                      const tv_sfu_steps *steps, uint16_t *out)
{
    block b = {.sum = 0};
    if ((unsigned)op->function >= TV_SFU_COUNT || count == 0 || (op->accm && !addend))
        return TV_ERR_INPUT;
    const uint16_t *added = op->accm ? addend : NULL;
    bool reduces = op->function == TV_SFU_REDUCE_SUM;
    for (size_t at = 0, n; at < count; at += n) {
        n = tv_min_u64(count - at, BLOCK);
        tv_sfu_arguments(x + at, n, op->sub_emax ? &op->e_max : NULL, b.x);
        canonicalize_row(b.x, n);
        if (steps && steps->argument)
            memcpy(steps->argument + at, b.x, n * sizeof *b.x);
        if (steps && steps->result)
            compute_results(op, n, &b, steps->result + at);
        compute_block(op, n, added && !reduces ? added + at : NULL, &b, out + (reduces ? 0 : at));
    }
    if (reduces)
        tv_sfu_round(&b.sum, 1, added, out);
    return TV_OK;
}

tv_status tv_unit_sfu_f32(tv_sfu function, const float *x, size_t count, float *out)
{
    if ((unsigned)function >= TV_SFU_COUNT || functions[function] == TV_FUNCS)
        return TV_ERR_INPUT;
    tv_func_f32_row(functions[function], x, count, out);
    return TV_OK;
}
