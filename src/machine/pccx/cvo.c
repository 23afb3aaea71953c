/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of vectors: CVO (pccx specification, section 4). Inputs are widened to binary32, results are rounded to
 * BF16 once; only `accm` adds in binary32, so that the function is rounded to that first. */
#include "kernels/sfu.h"
#include "machine/operation.h"
#include "machine/pccx/vectors.h"

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
    tv_sfu_arguments(mem->narrow, op->length, pccx_CVO_sub_emax(op->word) ? &m->e_max : NULL, mem->x);
}

/* Inner values: what the function is computed of. */
static void append_arguments(const pccx_machine *m, const pccx_op *op, const cvo_memory *mem)
{
    for (uint32_t i = 0; m->values && i < op->length; i++)
        tv_values_real(m->values, "argument", i, (double)mem->x[i]);
}

/* The old destination, which `accm` adds; it replaces the inputs in mem->narrow. NULL: nothing is added. */
static const uint16_t *load_addend(pccx_machine *m, const pccx_op *op, const cvo_memory *mem, uint64_t count)
{
    if (!op->accumulate)
        return NULL;
    pccx_load_lanes(m, op->dst, count, mem->narrow);
    return mem->narrow;
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
    tv_sfu_function(func, mem.x, op->length, load_addend(m, op, &mem, op->length), mem.narrow);
    return store_results(m, op, mem.narrow, op->length);
}

/* In place of the second input. */
bool pccx_execute_elements(pccx_machine *m, const pccx_op *op, const struct tv_operation *operation,
                           pccx_rejection *why)
{
    const tv_extension_insn *e = op->insn->extension;
    cvo_memory mem;
    if (!alloc_vectors(m, op->length, &mem))
        return pccx_reject_memory(why);
    pccx_load_vector(m, op->src, PCCX_FIFO_TO_SFU, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    append_arguments(m, op, &mem);
    if (e->inputs == 2) {
        pccx_load_lanes(m, op->dst, op->length, mem.narrow);
        tv_sfu_arguments(mem.narrow, op->length, NULL, mem.y);
    }
    e->elements(operation, mem.x, mem.y, mem.y, op->length);
    if (operation->why->rejected) /* the caller reports it */
        return true;
    tv_sfu_round(mem.y, op->length, load_addend(m, op, &mem, op->length), mem.narrow);
    return store_results(m, op, mem.narrow, op->length);
}

#define PCCX_CVO_ELEMENTWISE(id, function, key, fill, action)                                                          \
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
    pccx_load_vector(m, op->src, PCCX_FIFO_TO_SFU, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    tv_sfu_sums(mem.x, op->length, 0, mem.y);
    for (uint32_t i = 0; m->values && i < op->length; i++)
        tv_values_real(m->values, "sum", i, (double)mem.y[i]);
    tv_sfu_round(&mem.y[op->length - 1], 1, load_addend(m, op, &mem, 1), mem.narrow);
    return store_results(m, op, mem.narrow, 1);
}

/* y[i] = x[i] * s, or x[i] / s: s is lane 0 of the L2 word at `src`, x starts at the next L2 word. */
bool pccx_execute_CVO_SCALE(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    cvo_memory mem;
    if (!alloc_vectors(m, op->length, &mem))
        return pccx_reject_memory(why);
    tv_sfu_scaling scaling = {.scalar = tv_load_le16(pccx_l2_at(m, op->src)),
                              .divide = pccx_CVO_recip_scale(op->word),
                              .differences = pccx_CVO_sub_emax(op->word)};
    pccx_load_lanes(m, op->src + 1, op->length, mem.narrow);
    widen_inputs(m, op, &mem);
    append_arguments(m, op, &mem);
    tv_sfu_scale(&scaling, mem.x, op->length, load_addend(m, op, &mem, op->length), mem.y, mem.narrow);
    return store_results(m, op, mem.narrow, op->length);
}
