/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding for CMDQ, which networks trained for quantization have: VE_ROUND_TILE computes the nearest integer, of two
 * the even one. `trivet infer` uses it for the operator Round of ONNX. */
#include <math.h>
#include <trivet/extension.h>

static void round_elements(const tv_operation *op, const float *x, const float *y, float *out, uint64_t count)
{
    (void)op, (void)y;
    for (uint64_t i = 0; i < count; i++)
        out[i] = rintf(x[i]);
}

/* One pass over the lanes, as for VE_CAST_TILE. */
static void cost(const tv_operation *op, tv_operation_cost *cost)
{
    uint64_t lanes = tv_operation_parameter(op, "ve.lanes"), length = tv_operation_field(op, "length");
    cost->latency = tv_operation_parameter(op, "ve.init") +
                    tv_operation_field(op, "rows") * ((length + lanes - 1) / lanes) +
                    tv_operation_parameter(op, "ve.finalize");
    cost->picojoules = 0.1 * (double)(tv_operation_field(op, "rows") * length);
}

static const tv_extension_insn rows[] = {{
    .size = sizeof(tv_extension_insn),
    .target = "cmdq",
    .id = "VE_ROUND_TILE",
    .operands = "as VE_CAST_TILE",
    .unit = "VE",
    .meaning = "nearest integer",
    .operator_name = "Round",
    .elements = round_elements,
    .inputs = 1,
    .cost = cost,
}};
TV_EXTENSION("round", rows);
