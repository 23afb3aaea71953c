/* SPDX-License-Identifier: Apache-2.0 */
/* An elementwise product for pccx, which has none: cvo.mul dst, src, len=N multiplies the vector at dst by that at src.
 *
 * cc -shared -fPIC -o multiply.so multiply.c $(pkg-config --cflags trivet) */
#include <trivet/extension.h>

static void multiply(const tv_operation *op, const float *x, const float *y, float *out, uint64_t count)
{
    (void)op;
    for (uint64_t i = 0; i < count; i++)
        out[i] = x[i] * y[i]; /* exact: a product of two BF16 numbers has 16 significant bits */
}

/* As the other functions of the SFU: an element a cycle. A BF16 multiplier is a part of what CVO_SCALE has. */
static void cost(const tv_operation *op, tv_operation_cost *cost)
{
    uint64_t length = tv_operation_field(op, "length");
    cost->latency = tv_operation_parameter(op, "cvo.fill.scale") + length + tv_operation_parameter(op, "cvo.tail");
    cost->macs = length;
    cost->picojoules = 0.34 * (double)length; /* binary16 at 7 nm: N. P. Jouppi et al., ISCA 2021, table 2 */
}

static const tv_extension_insn rows[] = {{
    .size = sizeof(tv_extension_insn),
    .target = "pccx",
    .id = "CVO_MUL",
    .mnemonic = "cvo.mul",
    .format = "CVO",
    .fixed = "opcode=4, cvo_func=8",
    .operands = "as CVO_EXP",
    .unit = "SFU",
    .meaning = "dst times src, elementwise",
    .operator_name = "Mul",
    .elements = multiply,
    .inputs = 2,
    .cost = cost,
}};
TV_EXTENSION("multiply", rows);
