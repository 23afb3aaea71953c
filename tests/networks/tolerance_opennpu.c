/* SPDX-License-Identifier: Apache-2.0 */
/* What OpenNPU rounds between the inputs and the output of a node: functions are computed in binary32, by polynomials
 * and iterations. 2^x is within 2^-21 of itself, by the polynomial of degree 5, besides what its argument x log2(e)
 * rounds; reciprocals and roots are within 2^-22. Sums of lanes are sums of integers below 2^24. */
#include <math.h>

#include "tolerance.h"

static const double single = 0x1p-24, reciprocal = 0x1p-22;

/* Relative error of exp(x). */
static double exp_error(double x) { return 0x1p-21 + 4 * single * (fabs(x) + 1); }

/* 1 / (1 + exp(-x)) */
static double sigmoid_error(double x, double y) { return y * ((1 - y) * exp_error(x) + reciprocal + 2 * single); }

static double function_error(tv_graph_op op, const tv_graph_attrs *a, double x, double y)
{
    switch (op) {
    case TV_OP_EXP:
        return exp_error(x) * y + 0x1p-126;
    case TV_OP_SIGMOID:
        return sigmoid_error(x, y);
    case TV_OP_TANH: /* 2 sigmoid(2 x) - 1 */
        return 2 * sigmoid_error(2 * x, (1 + y) / 2) + 4 * single;
    case TV_OP_SWISH:
        return fabs(x) * sigmoid_error(x, 1 / (1 + exp(-x))) + 2 * single * fabs(y);
    case TV_OP_GELU: /* the upper tail of the normal distribution is within 1e-7; by tanh a sigmoid of a cubic */
        return fabs(x) * (a->approximate ? 2 * sigmoid_error(4 * x, 0.5) : 1e-7 + exp_error(x * x / 2)) +
               8 * single * fabs(x);
    case TV_OP_ELU: /* exp(x) - 1 and a product or two */
    case TV_OP_SELU:
        return x > 0 ? 0
                     : fabs((double)a->alpha) * (op == TV_OP_SELU ? fabs((double)a->beta) : 1) *
                           (exp_error(op == TV_OP_ELU ? x / (double)a->beta : x) + 2 * single);
    case TV_OP_ERF: /* 1 less twice the tail */
        return 2e-7 + exp_error(x * x) + 4 * single;
    case TV_OP_SIN: /* the remainder of the argument, then a polynomial within 1e-7 */
    case TV_OP_COS:
        return 1e-7 + 2 * single * (fabs(x) + 2);
    case TV_OP_SQRT:
    case TV_OP_RECIPROCAL:
        return reciprocal * fabs(y);
    case TV_OP_HARD_SIGMOID:
        return 4 * single * (fabs((double)a->alpha * x) + fabs((double)a->beta));
    case TV_OP_HARD_SWISH:
        return 4 * single * fabs(x) * (fabs(x) / 6 + 0.5) + 4 * single * fabs(y);
    default:
        return 0;
    }
}

double tolerance_opennpu_activation(const tolerance *t, const tv_graph_node *n, double x, double y)
{
    static const tv_graph_op ops[TV_ACTIVATIONS] = {[TV_ACTIVATION_SWISH] = TV_OP_SWISH,
                                                    [TV_ACTIVATION_GELU] = TV_OP_GELU,
                                                    [TV_ACTIVATION_GELU_TANH] = TV_OP_GELU,
                                                    [TV_ACTIVATION_SIGMOID] = TV_OP_SIGMOID,
                                                    [TV_ACTIVATION_TANH] = TV_OP_TANH};
    tv_graph_attrs attrs = n->attrs;
    (void)t;
    attrs.approximate = n->attrs.activation == TV_ACTIVATION_GELU_TANH;
    return ops[n->attrs.activation] ? function_error(ops[n->attrs.activation], &attrs, x, y) : 0;
}

/* The absmax of a row. */
static double row_absmax(const tolerance *t, uint32_t value, uint64_t first, uint64_t length)
{
    double max = 0;
    for (uint64_t i = first; i < first + length; i++)
        max = fmax(max, fabs(tolerance_value(t, value, i)));
    return max;
}

/* Terms of a sum over a window. */
static double kernel_elements(const tv_graph_node *n)
{
    double elements = 1;
    for (unsigned i = 0; i < TV_GRAPH_SPATIAL_MAX; i++)
        elements *= n->attrs.lists->kernel[i] > 0 ? (double)n->attrs.lists->kernel[i] : 1;
    return elements;
}

void tolerance_add_opennpu(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint32_t x = n->inputs[0];
    uint64_t length = tv_graph_columns(t->graph, x), count = tolerance_count(t, n->output);
    bool unary = tv_graph_op_infos[n->op].class == TV_CLASS_UNARY;
    bool norm = n->op == TV_OP_NORM || n->op == TV_OP_RMS_NORMALIZATION || n->op == TV_OP_LAYER_NORMALIZATION;
    if (!tv_is_real_element(tv_graph_value_at(t->graph, n->output)->element))
        return;
    double max = n->op == TV_OP_AVERAGE_POOL ? row_absmax(t, x, 0, tolerance_count(t, x)) : 0;
    for (uint64_t i = 0; i < count; i++) {
        double y = tolerance_value(t, n->output, i);
        if (!isfinite(y))
            continue;
        if (unary)
            e[i] += (float)function_error(n->op, &n->attrs, tolerance_value(t, x, i), y);
        else if (n->op == TV_OP_DIV)
            e[i] += (float)(2 * reciprocal * fabs(y));
        else if (n->op == TV_OP_SOFTMAX)
            e[i] += (float)(2 * y * (exp_error(2 * row_absmax(t, x, i / length * length, length)) + reciprocal) +
                            (double)length * single * y);
        else if (norm)
            e[i] += (float)((reciprocal + 8 * (double)length * single) *
                            (fabs(y) + row_absmax(t, n->output, i / length * length, length)));
        else if (n->op == TV_OP_AVERAGE_POOL)
            e[i] += (float)(4 * reciprocal * fabs(y) + kernel_elements(n) * single * max);
    }
}
