/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of vectors: CVO (pccx specification, section 4). Inputs are widened to binary32, results are rounded to
 * BF16 once; only `accm` adds in binary32, so that the function is rounded to that first. */
#include "kernels/bf16.h"
#include "kernels/functions.h"
#include "machine/pccx/vectors.h"
#include "num/float.h"

/* An instruction's vectors, each of its length. */
typedef struct cvo_memory {
    float *x, *y;
    uint16_t *narrow;
} cvo_memory;

static bool alloc_vectors(pccx_machine *m, uint32_t length, cvo_memory *mem)
{
    size_t padded = ((size_t)length + 15) / 16 * 16;
    float *p = pccx_scratch(m, padded * (2 * sizeof(float) + sizeof(uint16_t)));
    if (!p)
        return false;
    *mem = (cvo_memory){p, p + padded, (uint16_t *)(void *)(p + 2 * padded)};
    return true;
}

/* mem->x = mem->narrow with subnormals as zeros, minus e_max with `sub_emax`; the difference is rounded to binary32. */
static void widen_inputs(const pccx_machine *m, const pccx_op *op, const cvo_memory *mem)
{
    tv_bf16_widen(mem->narrow, op->length, mem->x);
    if (!pccx_CVO_sub_emax(op->word))
        return;
    float e_max = tv_bf16_to_f32(tv_bf16_flush(m->e_max));
    for (uint32_t i = 0; i < op->length; i++)
        mem->x[i] = mem->x[i] - e_max;
}

/* Inner values: what the function is computed of. */
static void append_arguments(const pccx_machine *m, const pccx_op *op, const cvo_memory *mem)
{
    for (uint32_t i = 0; m->values && i < op->length; i++)
        tv_values_real(m->values, "argument", i, (double)mem->x[i]);
}

/* mem->narrow = results rounded to BF16, after adding the old destination with `accm`. */
static void narrow_outputs(pccx_machine *m, const pccx_op *op, const cvo_memory *mem, float *results, uint64_t count)
{
    if (op->accumulate) {
        pccx_load_lanes(m, op->dst, count, mem->narrow);
        tv_bf16_add(results, count, mem->narrow);
    }
    tv_bf16_narrow(results, count, mem->narrow);
}

static bool store_results(pccx_machine *m, const pccx_op *op, const uint16_t *y, uint64_t count)
{
    if (op->src == PCCX_TAG_FIFO)
        pccx_pop_fifo(m, PCCX_FIFO_TO_SFU, op->length);
    pccx_store_vector(m, op->dst, PCCX_FIFO_TO_GEMV, y, count);
    return true;
}

/* y[i] = func(x[i]). */
static bool execute_elementwise(pccx_machine *m, const pccx_op *op, tv_func func, pccx_rejection *why)
{
    cvo_memory mem;
    if (!alloc_vectors(m, op->length, &mem))
        return pccx_reject_memory(why);
    pccx_load_vector(m, op->src, PCCX_FIFO_TO_SFU, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    append_arguments(m, op, &mem);
    if (op->accumulate) {
        tv_func_f32_row(func, mem.x, op->length, mem.y);
        narrow_outputs(m, op, &mem, mem.y, op->length);
    } else {
        tv_func_bf16_row(func, mem.x, op->length, mem.narrow);
    }
    return store_results(m, op, mem.narrow, op->length);
}

#define PCCX_CVO_ELEMENTWISE(id, function, key, fill)                                                                  \
    bool pccx_execute_##id(pccx_machine *m, const pccx_op *op, pccx_rejection *why)                                    \
    {                                                                                                                  \
        return execute_elementwise(m, op, function, why);                                                              \
    }
#include "machine/pccx/cvo.def"

/* y[0] = x[0] + x[1] + …, in that order. */
bool pccx_execute_CVO_REDUCE_SUM(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    cvo_memory mem;
    if (!alloc_vectors(m, op->length, &mem))
        return pccx_reject_memory(why);
    float sum = 0;
    pccx_load_vector(m, op->src, PCCX_FIFO_TO_SFU, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    for (uint32_t i = 0; i < op->length; i++) {
        sum = sum + mem.x[i];
        if (m->values)
            tv_values_real(m->values, "sum", i, (double)sum);
    }
    narrow_outputs(m, op, &mem, &sum, 1);
    return store_results(m, op, mem.narrow, 1);
}

/* Differences to e_max have more bits than BF16. Their products with it are exact in binary64. A quotient is not, but
 * binary64 carries more than twice its significant bits, so that rounding it again equals one rounding. */
static void scale_differences(const cvo_memory *mem, uint32_t length, double scalar, bool divide)
{
    for (uint32_t i = 0; i < length; i++) {
        double x = (double)mem->x[i], r = !divide ? x * scalar : scalar == 0 ? 0.0 : x / scalar;
        mem->narrow[i] = tv_bf16_flushed_from_f64(r);
    }
}

/* y[i] = x[i] * s, or x[i] / s: s is lane 0 of the L2 word at `src`, x starts at the next L2 word. */
bool pccx_execute_CVO_SCALE(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    cvo_memory mem;
    if (!alloc_vectors(m, op->length, &mem))
        return pccx_reject_memory(why);
    float scalar = tv_bf16_to_f32(tv_bf16_flush(tv_load_le16(pccx_l2_at(m, op->src))));
    bool divide = pccx_CVO_recip_scale(op->word);
    pccx_load_lanes(m, op->src + 1, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    append_arguments(m, op, &mem);
    if (pccx_CVO_sub_emax(op->word) && !op->accumulate) {
        scale_differences(&mem, op->length, (double)scalar, divide);
    } else {
        tv_scale_f32(mem.x, op->length, scalar, divide, mem.y);
        narrow_outputs(m, op, &mem, mem.y, op->length);
    }
    return store_results(m, op, mem.narrow, op->length);
}
