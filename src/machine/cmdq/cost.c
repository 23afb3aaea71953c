/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles of an operation without contention (CMDQ specification, section 5). Rates are exact quotients in 128 bits;
 * cmdq_validate bounds their numerators and denominators. */
#include "machine/cmdq/ops.h"

/* ceil(a / b), or CMDQ_CYCLES_MAX + 1 if it is more. */
static uint64_t ceil_div_cycles(tv_u128 a, tv_u128 b)
{
    tv_u128 q = a / b + (a % b != 0);
    return q > CMDQ_CYCLES_MAX ? CMDQ_CYCLES_MAX + 1 : (uint64_t)q;
}

typedef struct quotient {
    tv_u128 num, den;
} quotient;

static void multiply_rate(quotient *q, tv_rate rate)
{
    q->num *= rate.num;
    q->den *= rate.den;
}

/* ---- DMA ---- */

/* Bytes of the tile's rows, each widened to the alignment. The offset of row i from the alignment has period
 * alignment / gcd(alignment, stride), so only one period of rows is examined. */
static uint64_t aligned_bytes(const cmdq_tile *t, uint64_t alignment)
{
    uint64_t period = t->rows > 1 ? alignment / tv_gcd_u64(alignment, t->stride % alignment) : 1, total = 0;
    uint64_t periods = t->rows / period, rest = t->rows % period;
    for (uint64_t i = 0; i < tv_min_u64(t->rows, period); i++) {
        uint64_t start = t->start + i * t->stride;
        uint64_t bytes = tv_ceil_div(start + t->bytes, alignment) * alignment - start / alignment * alignment;
        total += bytes * (periods + (i < rest));
    }
    return total;
}

/* Cycles of the bursts, or of DRAM at its peak bandwidth if that takes longer. */
uint64_t cmdq_cycles_transfer(const cmdq_params *params, const cmdq_op *op)
{
    uint64_t total = aligned_bytes(cmdq_find_tile(op, CMDQ_DRAM), params->alignment);
    uint64_t bursts = ceil_div_cycles((tv_u128)tv_ceil_div(total, params->bus_width) * params->burst, 1);
    return tv_max_u64(bursts, tv_ceil_div(total, params->peak));
}

/* ---- Tensor engines ---- */

/* Factor of the rate for an operand of binary16 or binary32. */
static void multiply_float_rate(quotient *rate, const cmdq_params *params, unsigned qbits)
{
    if (qbits >= 16)
        multiply_rate(rate, qbits == 16 ? params->te_float16 : params->te_float32);
}

/* A pass of the lanes over `count` elements of `qbits`. */
static uint64_t lane_cycles(const cmdq_params *params, tv_u128 count, unsigned qbits)
{
    quotient rate = {params->ve_lanes, 1};
    multiply_rate(&rate, params->ve_ops);
    if (qbits <= 8)
        multiply_rate(&rate, qbits == 8 ? params->ve_activation8 : params->ve_activation4);
    return ceil_div_cycles(count * rate.den, rate.num);
}

/* The residual and special functions of the results, which are binary32 then. */
static uint64_t epilogue_cycles(const cmdq_params *params, const cmdq_op *op)
{
    uint64_t pass = lane_cycles(params, (tv_u128)op->m * op->n, 32);
    uint64_t residual = cmdq_find_tile(op, CMDQ_RESIDUAL) ? pass : 0;
    return residual + op->special_functions * (params->ve_sfu + pass);
}

uint64_t cmdq_cycles_tensor(const cmdq_params *params, const cmdq_op *op)
{
    unsigned weight = op->weight_bits, activation = op->activation_bits;
    quotient rate = {params->te_base, 1};
    if (weight < 8)
        multiply_rate(&rate, weight == 4 ? params->te_weight4 : params->te_weight2);
    if (activation < 8)
        multiply_rate(&rate, params->te_activation4);
    multiply_float_rate(&rate, params, weight);
    multiply_float_rate(&rate, params, activation);
    return params->te_init + ceil_div_cycles((tv_u128)op->array_macs * rate.den, rate.num) +
           epilogue_cycles(params, op) + params->te_finalize;
}

/* ---- Vector engines ---- */

static unsigned ceil_log2(uint64_t n)
{
    unsigned bits = 0;
    while (bits < 64 && UINT64_C(1) << bits < n)
        bits++;
    return bits;
}

/* One pass over the elements of a row: `e` in the specification. */
static uint64_t pass_cycles(const cmdq_params *params, const cmdq_op *op)
{
    return lane_cycles(params, op->k, op->activation_bits);
}

/* A reduction of a row, over the lanes and down the tree: `red` in the specification. */
static uint64_t reduction_cycles(const cmdq_params *params, const cmdq_op *op)
{
    return params->ve_reduction + ceil_log2(op->k);
}

/* All rows, each of `row_cycles`. */
static uint64_t vector_cycles(const cmdq_params *params, const cmdq_op *op, uint64_t row_cycles)
{
    return params->ve_init + ceil_div_cycles((tv_u128)op->m * row_cycles, 1) + params->ve_finalize;
}

uint64_t cmdq_cycles_elementwise(const cmdq_params *params, const cmdq_op *op)
{
    return vector_cycles(params, op, pass_cycles(params, op));
}

uint64_t cmdq_cycles_function(const cmdq_params *params, const cmdq_op *op)
{
    return vector_cycles(params, op, pass_cycles(params, op) + params->ve_sfu);
}

uint64_t cmdq_cycles_chosen(const cmdq_params *params, const cmdq_op *op)
{
    return op->uses_sfu ? cmdq_cycles_function(params, op) : cmdq_cycles_elementwise(params, op);
}

uint64_t cmdq_cycles_normalize(const cmdq_params *params, const cmdq_op *op)
{
    return vector_cycles(params, op, reduction_cycles(params, op) + pass_cycles(params, op));
}

uint64_t cmdq_cycles_softmax(const cmdq_params *params, const cmdq_op *op)
{
    return vector_cycles(params, op, 2 * (reduction_cycles(params, op) + pass_cycles(params, op)));
}

uint64_t cmdq_cycles_rope(const cmdq_params *params, const cmdq_op *op)
{
    return vector_cycles(params, op, 2 * pass_cycles(params, op) + params->ve_sfu);
}

uint64_t cmdq_cycles_transpose(const cmdq_params *params, const cmdq_op *op)
{
    return vector_cycles(params, op, 2 * pass_cycles(params, op));
}

/* One pass over all elements that the results are made of. */
uint64_t cmdq_cycles_image(const cmdq_params *params, const cmdq_op *op)
{
    return params->ve_init + lane_cycles(params, (tv_u128)op->m * op->n * op->k, op->activation_bits) +
           params->ve_finalize;
}
