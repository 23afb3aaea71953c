/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of operators. Errors are added to e. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/network.h"
#include "graph/operators.h"
#include "tolerance.h"

/* Half a unit in the last place of binary32, for each operation of a machine that computes in it. */
static const double single = 0x1p-24;

bool tolerance_fail(tolerance *t, const char *problem, const char *name)
{
    snprintf(t->problem, sizeof t->problem, "%s %s", problem, name);
    return false;
}

double tolerance_value(const tolerance *t, uint32_t value, uint64_t i) { return tv_tensor_real(t->values[value], i); }

double tolerance_error(const tolerance *t, uint32_t value, uint64_t i)
{
    return t->errors[value] ? (double)t->errors[value][i] : 0;
}

static bool is_exact(const tolerance *t, uint32_t value) { return value == TV_NO_VALUE || !t->errors[value]; }

/* Exact, or computed with bounds that are 0. */
static bool has_no_error(const tolerance *t, uint32_t value)
{
    for (uint64_t i = 0; !is_exact(t, value) && i < tolerance_count(t, value); i++)
        if (tolerance_error(t, value, i) != 0)
            return false;
    return true;
}

/* ---- Evaluation on the host ---- */

/* A tensor of the type of a value, of binary32 if `f32`. */
static tv_tensor new_tensor(const tolerance *t, uint32_t value, bool f32)
{
    tv_tensor type = tv_graph_tensor_of(t->graph, value), out;
    if (tv_tensor_init(&out, f32 ? TV_ELEMENT_F32 : type.element, type.rank, type.dims, NULL) != TV_OK)
        abort();
    return out;
}

static bool is_real(const tolerance *t, uint32_t value)
{
    return tv_is_real_element(tv_graph_value_at(t->graph, value)->element);
}

/* A real tensor as binary32. */
static tv_tensor convert(const tv_tensor *x)
{
    tv_tensor out;
    if (tv_tensor_init(&out, TV_ELEMENT_F32, x->rank, x->dims, NULL) != TV_OK)
        abort();
    for (uint64_t i = 0, n = tv_tensor_count(x); i < n; i++)
        tv_tensor_set_real(&out, i, tv_tensor_real(x, i));
    return out;
}

float *tolerance_new_floats(uint64_t count)
{
    float *out = calloc((size_t)count + 1, sizeof *out);
    if (!out)
        abort();
    return out;
}

/* Computes a node of other inputs than its own: those that are not NULL in `others`, of binary32. Adds the results, or
 * their magnitudes, to `out`. */
void tolerance_evaluate(const tolerance *t, const tv_graph_node *node, const tv_tensor *const *others, float *out)
{
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    tv_tensor converted[TV_GRAPH_INPUTS_MAX] = {{0}};
    tv_graph graph = *t->graph;
    size_t bytes = t->graph->values.count * sizeof *graph.values.data;
    if (!(graph.values.data = malloc(bytes + 1)))
        abort();
    memcpy(graph.values.data, t->graph->values.data, bytes);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (node->inputs[k] != TV_NO_VALUE) {
            inputs[k] = others[k] ? others[k] : t->values[node->inputs[k]];
            if (tv_is_real_element(inputs[k]->element) && inputs[k]->element != TV_ELEMENT_F32) {
                converted[k] = convert(inputs[k]);
                inputs[k] = &converted[k];
            }
            graph.values.data[node->inputs[k]].element = inputs[k]->element;
        }
    tv_tensor y = new_tensor(t, node->output, is_real(t, node->output));
    graph.values.data[node->output].element = y.element;
    if (tv_node_compute(&graph, node, inputs, &y, NULL) != TV_OK)
        abort();
    for (uint64_t i = 0, n = tv_tensor_count(&y); i < n; i++)
        out[i] += (float)tv_tensor_real(&y, i);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        tv_tensor_fini(&converted[k]);
    tv_tensor_fini(&y);
    free(graph.values.data);
}

/* |x| * a + e * b of a value. */
static tv_tensor combine(const tolerance *t, uint32_t value, double a, double b)
{
    tv_tensor out = new_tensor(t, value, true);
    for (uint64_t i = 0, n = tolerance_count(t, value); i < n; i++)
        ((float *)out.data)[i] = (float)(fabs(tolerance_value(t, value, i)) * a + tolerance_error(t, value, i) * b);
    return out;
}

/* x + e * b, in the element type of the value. */
static tv_tensor shift(const tolerance *t, uint32_t value, double b)
{
    tv_tensor out = new_tensor(t, value, false);
    for (uint64_t i = 0, n = tolerance_count(t, value); i < n; i++)
        tv_tensor_set_real(&out, i, tolerance_value(t, value, i) + tolerance_error(t, value, i) * b);
    return out;
}

/* ---- Rules of the operators: add to e ---- */

/* The errors are those of the elements of the first inputs, as the node moves, adds or selects them. */
static void bound_by_errors(const tolerance *t, const tv_graph_node *n, unsigned inputs, float *e)
{
    tv_tensor errors[TV_GRAPH_INPUTS_MAX];
    const tv_tensor *list[TV_GRAPH_INPUTS_MAX] = {NULL};
    for (unsigned k = 0; k < inputs; k++)
        if (n->inputs[k] != TV_NO_VALUE && is_real(t, n->inputs[k])) {
            errors[k] = combine(t, n->inputs[k], 0, 1);
            list[k] = &errors[k];
        }
    tolerance_evaluate(t, n, list, e);
    for (unsigned k = 0; k < inputs; k++)
        if (list[k])
            tv_tensor_fini(&errors[k]);
}

/* The largest difference of the function at points of the intervals of its first `inputs` inputs. */
static void bound_by_points(const tolerance *t, const tv_graph_node *n, unsigned inputs, float *e)
{
    const int steps = inputs == 1 ? 16 : 1;
    uint64_t count = tolerance_count(t, n->output);
    float *own = tolerance_new_floats(count), *y = tolerance_new_floats(count);
    tolerance_evaluate(t, n, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){NULL}, own);
    for (int a = -steps; a <= steps; a++)
        for (int b = inputs == 1 ? 0 : -steps; b <= (inputs == 1 ? 0 : steps); b++) {
            tv_tensor x = shift(t, n->inputs[0], (double)a / steps), z = {0};
            const tv_tensor *list[TV_GRAPH_INPUTS_MAX] = {&x};
            if (inputs > 1) {
                z = shift(t, n->inputs[1], (double)b / steps);
                list[1] = &z;
            }
            memset(y, 0, (size_t)count * sizeof *y);
            tolerance_evaluate(t, n, list, y);
            for (uint64_t i = 0; i < count; i++) {
                double d = fabs((double)y[i] - (double)own[i]);
                e[i] = isnan(d) && !isnan(own[i]) ? INFINITY : fmaxf(e[i], (float)d);
            }
            tv_tensor_fini(&x);
            tv_tensor_fini(&z);
        }
    free(own);
    free(y);
}

/* The output channel of weight i of a Conv or, `transposed`, a ConvTranspose. */
static uint64_t channel_of(uint64_t i, uint64_t inner, uint64_t channels, uint64_t per_group, bool transposed)
{
    return i / inner % channels + (transposed ? i / inner / channels / per_group * channels : 0);
}

/* The error of the weights of each output channel. */
static tv_tensor weight_errors(const tolerance *t, const tv_graph_node *n)
{
    uint32_t value = n->inputs[1];
    const tv_graph_shape *s = &tv_graph_value_at(t->graph, value)->shape;
    bool transposed = n->op == TV_OP_CONV_TRANSPOSE;
    uint64_t count = tolerance_count(t, value), axis = transposed ? 1 : 0, inner = 1;
    for (uint32_t i = (uint32_t)axis + 1; i < s->rank; i++)
        inner *= (uint64_t)s->dims[i];
    uint64_t channels = (uint64_t)s->dims[axis], per_group = transposed ? (uint64_t)s->dims[0] / n->attrs.groups : 1,
             all = transposed ? channels * n->attrs.groups : channels;
    float *max = tolerance_new_floats(all);
    tv_tensor out = new_tensor(t, value, true);
    float *row = tolerance_new_floats(count);
    uint64_t used = 0;
    for (uint64_t channel = 0; channel < all; channel++, used = 0) {
        double error;
        for (uint64_t i = 0; i < count; i++)
            if (channel_of(i, inner, channels, per_group, transposed) == channel)
                row[used++] = (float)tolerance_value(t, value, i);
        if (t->machine->weight_steps > 0) {
            for (uint64_t i = 0; i < used; i++)
                max[channel] = fmaxf(max[channel], fabsf(row[i]));
            error = (double)max[channel] / t->machine->weight_steps;
        } else {
            error = tolerance_pccx_weight_error(row, used);
        }
        for (uint64_t i = 0; i < count; i++)
            if (channel_of(i, inner, channels, per_group, transposed) == channel)
                ((float *)out.data)[i] = (float)error;
    }
    free(row);
    free(max);
    return out;
}

static double activate(const tv_graph_attrs *attrs, double x) { return (double)tv_activate(attrs, (float)x); }

/* The activation and the residual of a fused product, whose sums are z with the errors e. */
static void bound_fused(const tolerance *t, const tv_graph_node *n, float *z, float *e)
{
    enum { STEPS = 16 };
    bool before = n->op == TV_OP_CONV && n->inputs[3] != TV_NO_VALUE,
         after = n->op != TV_OP_CONV && !is_exact(t, n->inputs[3]);
    for (uint64_t i = 0, count = tolerance_count(t, n->output); i < count; i++) {
        if (before) {
            z[i] += (float)tolerance_value(t, n->inputs[3], i);
            e[i] += (float)tolerance_error(t, n->inputs[3], i);
        }
        double own = activate(&n->attrs, z[i]), max = 0;
        for (int k = -STEPS; k <= STEPS && n->attrs.activation; k++)
            max = fmax(max, fabs(activate(&n->attrs, (double)z[i] + (double)e[i] * k / STEPS) - own));
        if (n->attrs.activation)
            e[i] = (float)(max + 4 * single * fabs(own));
        if (t->machine->activation && n->attrs.activation)
            e[i] += (float)t->machine->activation(t, n, (double)z[i], own);
        if (after)
            e[i] += (float)tolerance_error(t, n->inputs[3], i);
    }
}

/* Number of products in a sum, at most. */
static uint64_t terms_of(const tolerance *t, const tv_graph_node *n)
{
    if (n->op == TV_OP_MATMUL)
        return tv_graph_columns(t->graph, n->inputs[0]);
    uint64_t rows = (uint64_t)tv_graph_value_at(t->graph, n->inputs[1])->shape.dims[0];
    return tolerance_count(t, n->inputs[1]) / (n->op == TV_OP_CONV_TRANSPOSE ? 1 : tv_max_u64(1, rows));
}

/* The errors of the columns of b[...][k][n], which the host packs like weights. */
static void add_column_errors(const tolerance *t, uint32_t value, tv_tensor *errors)
{
    const tv_graph_shape *s = &tv_graph_value_at(t->graph, value)->shape;
    uint64_t n = (uint64_t)s->dims[s->rank - 1], k = (uint64_t)s->dims[s->rank - 2], all = tolerance_count(t, value);
    float *column = tolerance_new_floats(k), *e = errors->data;
    for (uint64_t first = 0; first < all; first += k * n)
        for (uint64_t c = 0; c < n; c++) {
            for (uint64_t i = 0; i < k; i++)
                column[i] = (float)tolerance_value(t, value, first + i * n + c);
            double error = tolerance_pccx_weight_error(column, k);
            for (uint64_t i = 0; i < k; i++)
                e[first + i * n + c] += (float)error;
        }
    free(column);
}

/* Half a step of an operand that a product rounds to INT8. */
static double operand_step(const tolerance *t, uint32_t value)
{
    return t->machine->rounds_operands && t->ranges ? (double)t->ranges[value] / 254 * (1 + 0x1p-20) : 0;
}

static void bound_product(const tolerance *t, const tv_graph_node *n, float *e)
{
    tv_graph_node product = *n;
    uint64_t count = tolerance_count(t, n->output);
    float *z = tolerance_new_floats(count), *magnitudes = tolerance_new_floats(count);
    bool constant = tv_graph_value_at(t->graph, n->inputs[1])->source == TV_VALUE_CONSTANT && n->op != TV_OP_MATMUL;
    bool planes = t->machine->weight_steps == 0;
    double step = planes ? tolerance_pccx_activation_step(t, n->inputs[0]) : operand_step(t, n->inputs[0]);
    product.attrs.activation = TV_ACTIVATION_NONE;
    product.inputs[3] = TV_NO_VALUE;
    if (product.op == TV_OP_LINEAR)
        product.op = TV_OP_GEMM;
    tolerance_evaluate(t, &product, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){NULL}, z);
    product.inputs[2] = TV_NO_VALUE;
    tv_tensor ex = combine(t, n->inputs[0], 0, 1), x = combine(t, n->inputs[0], 1, 1),
              w = combine(t, n->inputs[1], 1, 0), ew = constant ? weight_errors(t, n) : combine(t, n->inputs[1], 0, 1);
    if (planes && n->op == TV_OP_MATMUL)
        add_column_errors(t, n->inputs[1], &ew);
    for (uint64_t i = 0; i < tv_tensor_count(&ew) && !constant; i++)
        ((float *)ew.data)[i] += (float)operand_step(t, n->inputs[1]);
    for (uint64_t i = 0; i < tv_tensor_count(&x) && step > 0; i++) {
        ((float *)ex.data)[i] += (float)step;
        ((float *)x.data)[i] += (float)step;
    }
    tolerance_evaluate(t, &product, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){&ex, &w}, e);
    tolerance_evaluate(t, &product, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){&x, &ew}, e);
    tolerance_evaluate(t, &product, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){&x, &w}, magnitudes);
    /* The machine's sum is exact, times two scales, plus the bias; the host's rounds each product and addition. */
    uint64_t terms = terms_of(t, n);
    for (uint64_t i = 0; i < count; i++)
        e[i] += (float)((double)(terms / 8 + 8) * single * (double)magnitudes[i] + 4 * single * fabs((double)z[i]));
    for (uint64_t i = 0; i < count && planes; i++) { /* the sum begins with the bias and the residual */
        double begin = fabs((double)z[i]) + (double)magnitudes[i];
        if (n->op != TV_OP_MATMUL && n->inputs[3] != TV_NO_VALUE)
            begin += fabs(tolerance_value(t, n->inputs[3], i));
        e[i] += (float)(tolerance_pccx_sum_units(t, n) * t->machine->unit * begin);
    }
    bound_fused(t, n, z, e);
    tv_tensor_fini(&ex);
    tv_tensor_fini(&x);
    tv_tensor_fini(&w);
    tv_tensor_fini(&ew);
    free(z);
    free(magnitudes);
}

static void bound_softmax(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint64_t length = tv_graph_columns(t->graph, n->output),
             rows = tolerance_count(t, n->output) / tv_max_u64(1, length);
    for (uint64_t r = 0; r < rows; r++) {
        double max = 0;
        for (uint64_t i = 0; i < length; i++)
            max = fmax(max, tolerance_error(t, n->inputs[0], r * length + i));
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            double own = tolerance_error(t, n->inputs[0], i) + max + (double)(length / 8 + 8) * single,
                   y = tolerance_value(t, n->output, i);
            e[i] = (float)(n->op == TV_OP_SOFTMAX ? y * expm1(own) : own);
        }
    }
}

/* y = d / s * gain + bias with s the root of the mean of d^2 plus epsilon, which is a norm: its error is at most the
 * root of the mean square of the errors of d. */
static void bound_norm(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint32_t x = n->inputs[0];
    uint64_t columns = tv_graph_columns(t->graph, x), length = columns / (n->op == TV_OP_NORM ? n->attrs.groups : 1),
             rows = tolerance_count(t, x) / tv_max_u64(1, length);
    bool centered = n->op == TV_OP_NORM ? n->attrs.subtract_mean : n->op == TV_OP_LAYER_NORMALIZATION;
    uint64_t gains = n->inputs[1] == TV_NO_VALUE ? 0 : tolerance_count(t, n->inputs[1]);
    double rounding = (double)(length / 8 + 16) * single;
    for (uint64_t r = 0; r < rows; r++) {
        double mean = 0, mean_error = 0, squares = 0, errors = 0, absmax = 0;
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            mean += centered ? tolerance_value(t, x, i) / (double)length : 0;
            mean_error += centered ? tolerance_error(t, x, i) / (double)length : 0;
            absmax = fmax(absmax, fabs(tolerance_value(t, x, i)));
        }
        mean_error += rounding * absmax;
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            double d = tolerance_value(t, x, i) - mean, own = tolerance_error(t, x, i) + mean_error;
            squares += d * d / (double)length;
            errors += own * own / (double)length;
        }
        double s = sqrt(squares + (double)n->attrs.epsilon), low = s * (1 - rounding) - sqrt(errors);
        low = fmax(low, sqrt((double)n->attrs.epsilon));
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            double d = tolerance_value(t, x, i) - mean, own = tolerance_error(t, x, i) + mean_error,
                   gain = gains ? fabs(tolerance_value(t, n->inputs[1], i % gains)) : 1;
            double high = s * (1 + rounding) + sqrt(errors), a = (fabs(d) + own) / low - fabs(d) / s,
                   b = fabs(d) / s - (fabs(d) - own) / (fabs(d) > own ? high : low);
            e[i] = (float)((fmax(a, b) * gain) + rounding * fabs(tolerance_value(t, n->output, i)));
        }
    }
}

/* The product of a row: that of the largest factors minus that of the factors. */
static void bound_row_product(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint64_t length = tv_graph_columns(t->graph, n->inputs[0]);
    for (uint64_t r = 0; r < tolerance_count(t, n->output); r++) {
        double product = 1, max = 1;
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            product *= fabs(tolerance_value(t, n->inputs[0], i));
            max *= fabs(tolerance_value(t, n->inputs[0], i)) + tolerance_error(t, n->inputs[0], i);
        }
        e[r] = (float)(max - product);
    }
}

/* An index is that of another element if the intervals of both meet. `at` is the element that is selected. */
static void bound_index(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint64_t length = tv_graph_columns(t->graph, n->inputs[0]), width = tv_graph_columns(t->graph, n->output);
    for (uint64_t i = 0; i < tolerance_count(t, n->output) && length; i++) {
        uint64_t row = i / width * length, chosen = (uint64_t)tolerance_value(t, n->output, i);
        double x = tolerance_value(t, n->inputs[0], row + chosen), own = tolerance_error(t, n->inputs[0], row + chosen);
        for (uint64_t k = 0; k < length; k++)
            if (fabs(tolerance_value(t, n->inputs[0], row + k) - x) <= own + tolerance_error(t, n->inputs[0], row + k))
                e[i] = fmaxf(e[i], fabsf((float)k - (float)chosen));
    }
}

/* Cubic weights are at most 1.5 in magnitude, together, along each axis. */
static void bound_resize(const tolerance *t, const tv_graph_node *n, float *e)
{
    bound_by_errors(t, n, 1, e);
    double max = 0;
    for (uint64_t i = 0; i < tolerance_count(t, n->inputs[0]); i++)
        max = fmax(max, tolerance_error(t, n->inputs[0], i) + 64 * single * fabs(tolerance_value(t, n->inputs[0], i)));
    for (uint64_t i = 0; i < tolerance_count(t, n->output); i++)
        e[i] = (float)fmax((double)e[i], 2.25 * max);
}

/* Sums of binary32 in any order round each addition. */
static void add_rounding(const tolerance *t, const tv_graph_node *n, float *e)
{
    double max = 0, terms = 1;
    if (n->op == TV_OP_REDUCE_SUM || n->op == TV_OP_REDUCE_MEAN || n->op == TV_OP_CUM_SUM)
        terms = tv_graph_columns(t->graph, n->inputs[0]);
    for (uint64_t i = 0; i < tolerance_count(t, n->inputs[0]); i++)
        max = fmax(max, isfinite(tolerance_value(t, n->inputs[0], i)) ? fabs(tolerance_value(t, n->inputs[0], i)) : 0);
    for (uint64_t i = 0; i < tolerance_count(t, n->output) && terms > 1; i++)
        e[i] += (float)(terms * single * max * (n->op == TV_OP_REDUCE_MEAN ? 1 : terms));
    bool real = tv_is_real_element(tv_graph_value_at(t->graph, n->output)->element);
    for (uint64_t i = 0; i < tolerance_count(t, n->output) && real; i++)
        if (tv_graph_op_infos[n->op].class != TV_CLASS_MOVE && isfinite(tolerance_value(t, n->output, i)))
            e[i] += (float)(8 * single * fabs(tolerance_value(t, n->output, i)));
}

static bool bound_node(tolerance *t, const tv_graph_node *n, float *e)
{
    switch (n->op) {
    case TV_OP_PAD:
    case TV_OP_RESHAPE:
    case TV_OP_SLICE:
    case TV_OP_TRANSPOSE:
    case TV_OP_EXPAND:
    case TV_OP_REVERSE_SEQUENCE:
        bound_by_errors(t, n, n->op == TV_OP_PAD ? 2 : 1, e);
        return true;
    case TV_OP_GATHER:
        bound_by_errors(t, n, 1, e);
        return is_exact(t, n->inputs[1]) || tolerance_fail(t, "no rule for computed indices of", "Gather");
    case TV_OP_SCATTER_ND:
    case TV_OP_SCATTER_ELEMENTS: {
        tv_tensor x = combine(t, n->inputs[0], 0, 1), updates = combine(t, n->inputs[2], 0, 1);
        tolerance_evaluate(t, n, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){&x, NULL, &updates}, e);
        tv_tensor_fini(&x);
        tv_tensor_fini(&updates);
        return n->attrs.mode == TV_SCATTER_REPLACE || n->attrs.mode == TV_SCATTER_ADD ||
               tolerance_fail(t, "no rule for this mode of", tv_graph_op_infos[n->op].name);
    }
    case TV_OP_CONCAT:
        bound_by_errors(t, n, TV_GRAPH_INPUTS_MAX, e);
        return true;
    case TV_OP_REDUCE_MEAN:
    case TV_OP_REDUCE_SUM:
    case TV_OP_CUM_SUM:
    case TV_OP_AVERAGE_POOL:
    case TV_OP_MAX_POOL:
    case TV_OP_LP_POOL:
        bound_by_errors(t, n, 1, e);
        return true;
    case TV_OP_REDUCE_MAX:
    case TV_OP_REDUCE_MIN: {
        tv_graph_node max = *n;
        max.op = TV_OP_REDUCE_MAX;
        bound_by_errors(t, &max, 1, e);
        return true;
    }
    case TV_OP_TOP_K:
        for (uint64_t i = 0, length = tv_graph_columns(t->graph, n->inputs[0]),
                      k = tv_graph_columns(t->graph, n->output);
             i < tolerance_count(t, n->output); i++)
            for (uint64_t j = 0; j < length; j++)
                e[i] = fmaxf(e[i], (float)tolerance_error(t, n->inputs[0], i / k * length + j));
        return true;
    case TV_OP_ARG_MAX:
    case TV_OP_ARG_MIN:
    case TV_OP_TOP_K_INDICES:
        bound_index(t, n, e);
        return true;
    case TV_OP_REDUCE_PROD:
        bound_row_product(t, n, e);
        return true;
    case TV_OP_SOFTMAX:
    case TV_OP_LOG_SOFTMAX:
        bound_softmax(t, n, e);
        return true;
    case TV_OP_NORM:
    case TV_OP_RMS_NORMALIZATION:
    case TV_OP_LAYER_NORMALIZATION:
        bound_norm(t, n, e);
        return true;
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
    case TV_OP_CONV:
    case TV_OP_CONV_TRANSPOSE:
    case TV_OP_MATMUL:
        bound_product(t, n, e);
        return true;
    case TV_OP_RESIZE:
        bound_resize(t, n, e);
        return true;
    case TV_OP_WHERE:
        bound_by_errors(t, n, 0, e);
        memset(e, 0, tolerance_count(t, n->output) * sizeof *e);
        {
            tv_tensor a = combine(t, n->inputs[1], 0, 1), b = combine(t, n->inputs[2], 0, 1);
            tolerance_evaluate(t, n, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){NULL, &a, &b}, e);
            tv_tensor_fini(&a);
            tv_tensor_fini(&b);
        }
        return has_no_error(t, n->inputs[0]) || tolerance_fail(t, "no rule for a computed condition of", "Where");
    default:
        break;
    }
    tv_graph_class class = tv_graph_op_infos[n->op].class;
    if (class != TV_CLASS_UNARY && class != TV_CLASS_BINARY)
        return tolerance_fail(t, "no rule for", tv_graph_op_infos[n->op].name);
    bound_by_points(t, n, class == TV_CLASS_UNARY ? 1 : 2, e);
    return true;
}

bool tolerance_bound_node(tolerance *t, const tv_graph_node *n, float *e)
{
    bool exact = !is_real(t, n->output);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        exact = exact && is_exact(t, n->inputs[k]);
    bool ok = exact || bound_node(t, n, e);
    if (ok && !exact)
        add_rounding(t, n, e);
    if (ok && !exact && t->machine->add)
        t->machine->add(t, n, e);
    for (uint64_t i = 0; n->op == TV_OP_SOFTMAX && i < tolerance_count(t, n->output); i++) /* it is from 0 to 1 */
        e[i] = fminf(e[i], 1);
    return ok;
}
