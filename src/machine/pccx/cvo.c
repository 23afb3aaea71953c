/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of vectors: CVO (pccx specification, section 4). */
#include "kernels/bf16.h"
#include "kernels/functions.h"
#include "machine/pccx/exec.h"
#include "num/float.h"

/* An instruction's vectors, each of its length. */
typedef struct cvo_memory {
    float *x, *y;
    uint16_t *narrow;
} cvo_memory;

static bool cvo_scratch(pccx_machine *m, uint32_t length, cvo_memory *mem)
{
    size_t padded = ((size_t)length + 15) / 16 * 16;
    float *p = pccx_scratch(m, padded * (2 * sizeof(float) + sizeof(uint16_t)));
    if (!p)
        return false;
    *mem = (cvo_memory){p, p + padded, (uint16_t *)(void *)(p + 2 * padded)};
    return true;
}

/* The inputs, in mem->narrow, as the function sees them: subnormals are zeros; with sub_emax the rounded difference to
 * e_max. */
static void widen_inputs(const pccx_machine *m, const pccx_op *op, const cvo_memory *mem)
{
    tv_bf16_widen(mem->narrow, op->length, mem->x);
    if (!pccx_CVO_sub_emax(op->word))
        return;
    float e_max = tv_bf16_to_f32(tv_bf16_flush(m->e_max));
    for (uint32_t i = 0; i < op->length; i++)
        mem->x[i] = mem->x[i] - e_max;
}

static bool accumulates(const pccx_op *op) { return pccx_CVO_accm(op->word) && op->dst != PCCX_TAG_FIFO; }

/* What binary32 results are as outputs, in mem->narrow; `accm` adds what stands. */
static void narrow_outputs(pccx_machine *m, const pccx_op *op, const cvo_memory *mem, float *results, uint64_t count)
{
    if (accumulates(op)) {
        pccx_load_lanes(m, op->dst, 0, count, mem->narrow);
        tv_bf16_add(results, count, mem->narrow);
    }
    tv_bf16_narrow(results, count, mem->narrow);
}

static bool finish(pccx_machine *m, const pccx_op *op, const uint16_t *y, uint64_t results)
{
    if (op->src == PCCX_TAG_FIFO)
        pccx_pop_fifo(m, PCCX_FIFO_TO_SFU, op->length);
    pccx_put_vector(m, op->dst, PCCX_FIFO_TO_GEMV, y, results);
    return true;
}

/* `accm` adds in binary32, so that the function is rounded to that first; else it is rounded to BF16 once. */
static bool map(pccx_machine *m, const pccx_op *op, tv_func func, pccx_rejection *why)
{
    cvo_memory mem;
    if (!cvo_scratch(m, op->length, &mem))
        return pccx_fail_memory(why);
    pccx_load_vector(m, op->src, PCCX_FIFO_TO_SFU, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    if (accumulates(op)) {
        tv_func_f32_row(func, mem.x, op->length, mem.y);
        narrow_outputs(m, op, &mem, mem.y, op->length);
    } else {
        tv_func_bf16_row(func, mem.x, op->length, mem.narrow);
    }
    return finish(m, op, mem.narrow, op->length);
}

bool pccx_exec_CVO_EXP(pccx_machine *m, const pccx_op *op, pccx_rejection *why) { return map(m, op, TV_FUNC_EXP, why); }
bool pccx_exec_CVO_SQRT(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    return map(m, op, TV_FUNC_SQRT, why);
}
bool pccx_exec_CVO_GELU(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    return map(m, op, TV_FUNC_GELU, why);
}
bool pccx_exec_CVO_SIN(pccx_machine *m, const pccx_op *op, pccx_rejection *why) { return map(m, op, TV_FUNC_SIN, why); }
bool pccx_exec_CVO_COS(pccx_machine *m, const pccx_op *op, pccx_rejection *why) { return map(m, op, TV_FUNC_COS, why); }
bool pccx_exec_CVO_RECIP(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    return map(m, op, TV_FUNC_RECIP, why);
}

bool pccx_exec_CVO_REDUCE_SUM(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    cvo_memory mem;
    if (!cvo_scratch(m, op->length, &mem))
        return pccx_fail_memory(why);
    float sum = 0;
    pccx_load_vector(m, op->src, PCCX_FIFO_TO_SFU, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    for (uint32_t i = 0; i < op->length; i++)
        sum = sum + mem.x[i];
    narrow_outputs(m, op, &mem, &sum, 1);
    return finish(m, op, mem.narrow, 1);
}

/* Differences to e_max have more bits than BF16. Their products with it are exact in binary64. A quotient is not, but
 * binary64 carries more than twice its significant bits, so that rounding it again equals one rounding. */
static void scale_differences(const cvo_memory *mem, uint32_t length, double scalar, bool divide)
{
    for (uint32_t i = 0; i < length; i++) {
        double x = (double)mem->x[i], r = !divide ? x * scalar : scalar == 0 ? 0.0 : x / scalar;
        mem->narrow[i] = tv_bf16_flush(tv_bf16_from_f64(r));
    }
}

bool pccx_exec_CVO_SCALE(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    cvo_memory mem;
    if (!cvo_scratch(m, op->length, &mem))
        return pccx_fail_memory(why);
    float scalar = tv_bf16_to_f32(tv_bf16_flush(tv_load_le16(pccx_l2_at(m, op->src))));
    bool divide = pccx_CVO_recip_scale(op->word);
    pccx_load_lanes(m, op->src + 1, 0, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    if (pccx_CVO_sub_emax(op->word) && !accumulates(op)) {
        scale_differences(&mem, op->length, (double)scalar, divide);
    } else {
        tv_scale_f32(mem.x, op->length, scalar, divide, mem.y);
        narrow_outputs(m, op, &mem, mem.y, op->length);
    }
    return finish(m, op, mem.narrow, op->length);
}
