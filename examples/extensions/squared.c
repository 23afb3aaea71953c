/* SPDX-License-Identifier: Apache-2.0 */
/* A squared rectifier for CMDQ, the activation of some language models: VE_RELU2_TILE computes max(x, 0)^2. */
#include <trivet/extension.h>

static void relu2(const tv_operation *op, const float *x, const float *y, float *out, uint64_t count)
{
    (void)op, (void)y;
    for (uint64_t i = 0; i < count; i++)
        out[i] = x[i] > 0 ? x[i] * x[i] : 0;
}

/* Two passes over the lanes, which take ve.lanes elements a cycle. */
static void cost(const tv_operation *op, tv_operation_cost *cost)
{
    uint64_t lanes = tv_operation_parameter(op, "ve.lanes");
    uint64_t passes = 2 * ((tv_operation_field(op, "length") + lanes - 1) / lanes);
    cost->latency = tv_operation_parameter(op, "ve.init") + tv_operation_field(op, "rows") * passes +
                    tv_operation_parameter(op, "ve.finalize");
}

static const tv_extension_insn rows[] = {{
    .size = sizeof(tv_extension_insn),
    .target = "cmdq",
    .id = "VE_RELU2_TILE",
    .operands = "as VE_SILU_TILE",
    .unit = "VE",
    .meaning = "max(x, 0)^2",
    .elements = relu2,
    .inputs = 1,
    .cost = cost,
}};
TV_EXTENSION("squared", rows);
