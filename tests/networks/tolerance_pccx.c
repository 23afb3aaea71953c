/* SPDX-License-Identifier: Apache-2.0 */
/* What pccx rounds between the inputs and the output of a node (docs/networks.md describes how nodes are computed).
 *
 * Every instruction rounds its result to BF16, by `unit` of it. A product rounds its activations to multiples of a
 * power of two, so that the largest one of a row is 64 to 127 of them: by `step` of it. What multiplies or moves
 * elements precisely multiplies in a second product what the first one rounds off: by step^2. */
#include <math.h>
#include <stdlib.h>

#include "num/float.h"
#include "tolerance.h"

static const double unit = 0x1p-8, step = 1.0 / 127; /* of 127.5 steps 127 are left */

static double absmax_of(const tolerance *t, uint32_t value)
{
    double max = 0;
    for (uint64_t i = 0; i < tolerance_count(t, value); i++) {
        double x = fabs(tolerance_value(t, value, i)) + tolerance_error(t, value, i);
        max = isfinite(x) ? fmax(max, x) : max;
    }
    return max;
}

static double absmin_of(const tolerance *t, uint32_t value)
{
    double min = INFINITY;
    for (uint64_t i = 0; i < tolerance_count(t, value); i++)
        min = fmin(min, fabs(tolerance_value(t, value, i)));
    return min;
}

/* ---- Products ---- */

double tolerance_pccx_activation_step(const tolerance *t, uint32_t value) { return step * absmax_of(t, value); }

/* Replaces w[count] by what is left after rounding to -8 ... 7 times the scale with the smallest squared error. */
static void take_plane(float *w, uint64_t count)
{
    double absmax = 0, best = INFINITY, chosen = 0;
    for (uint64_t i = 0; i < count; i++)
        absmax = fmax(absmax, fabs((double)w[i]));
    for (int c = 0; c < 40 && absmax > 0; c++) {
        double factor = (1.15 - 0.03 * (c / 2)) * (c % 2 ? 1 : -1), sum = 0,
               scale = (double)tv_bf16_to_f32(tv_bf16_from_f32((float)(absmax / 8 * factor)));
        for (uint64_t i = 0; i < count; i++) {
            double rest = (double)w[i] - scale * fmin(fmax(nearbyint((double)w[i] / scale), -8), 7);
            sum += rest * rest;
        }
        if (sum < best) {
            best = sum;
            chosen = scale;
        }
    }
    for (uint64_t i = 0; i < count && absmax > 0; i++)
        w[i] = (float)((double)w[i] - chosen * fmin(fmax(nearbyint((double)w[i] / chosen), -8), 7));
}

double tolerance_pccx_weight_error(const float *w, uint64_t count)
{
    double max = 0;
    float *rest = tolerance_new_floats(count);
    for (uint64_t i = 0; i < count; i++)
        rest[i] = w[i];
    take_plane(rest, count);
    take_plane(rest, count);
    for (uint64_t i = 0; i < count; i++)
        max = fmax(max, fabs((double)rest[i]));
    free(rest);
    return max;
}

static double taps_of(const tv_graph_node *n)
{
    double taps = 1;
    for (unsigned i = 0; i < TV_GRAPH_SPATIAL_MAX && n->attrs.lists; i++)
        taps *= n->attrs.lists->kernel[i] > 0 ? (double)n->attrs.lists->kernel[i] : 1;
    return taps;
}

/* Each plane of each tap, and of each 4096 inputs, is added to the result and rounded; so is the bias. */
double tolerance_pccx_sum_units(const tolerance *t, const tv_graph_node *n)
{
    bool window = n->op == TV_OP_CONV || n->op == TV_OP_CONV_TRANSPOSE;
    double groups = ceil((double)tv_graph_columns(t->graph, n->inputs[0]) / 4096);
    return 2 * (window ? taps_of(n) : groups) + 2;
}

/* ---- Functions ---- */

/* An interval that the activations of a product cut: x - m, its multiple of 1 / 254 of the interval, plus m. */
static double clip_error(double low, double high, double range)
{
    low = fmax(low, -range);
    high = fmin(high, range);
    return (high - low) / 254 + unit * (2.5 * (high - low) + 2 * fabs(low + high));
}

static bool is_clipped(const tolerance *t, const tv_graph_node *n, double *low, double *high)
{
    bool product = tv_graph_op_infos[n->op].class == TV_CLASS_PRODUCT;
    tv_activation a = product ? n->attrs.activation : TV_ACTIVATION_NONE;
    *low = n->op == TV_OP_RELU || a == TV_ACTIVATION_RELU ? 0 : (double)n->attrs.alpha;
    *high = n->op == TV_OP_RELU || a == TV_ACTIVATION_RELU ? INFINITY : (double)n->attrs.beta;
    (void)t;
    return n->op == TV_OP_RELU || n->op == TV_OP_CLIP || a == TV_ACTIVATION_RELU || a == TV_ACTIVATION_CLIP;
}

double tolerance_pccx_activation(const tolerance *t, const tv_graph_node *n, double x, double y)
{
    (void)x;
    double low, high, range = t->ranges ? (double)t->ranges[n->output] : 0;
    if (is_clipped(t, n, &low, &high))
        return clip_error(low, high, range);
    switch (n->attrs.activation) {
    case TV_ACTIVATION_SIGMOID: /* 1 / (1 + exp(-x)) */
        return unit * fabs(y);
    case TV_ACTIVATION_TANH: /* 1 / (1 + 2 / (exp(2 x) - 1)) */
        return 2 * unit * fabs(y);
    case TV_ACTIVATION_GELU_TANH: /* computed by erf */
        return 5e-4;
    case TV_ACTIVATION_SWISH: /* x times a sigmoid */
        return 4 * unit * fabs(y) + step * step * range;
    default:
        return 0;
    }
}

/* ramps relu(a x + b) - relu(a x + b - 1) */
static double hard_sigmoid_error(double x, double a, double b)
{
    return unit * (6 * fabs(a * x) + 4 * (fabs(b) + 1) + 1);
}

static double function_error(const tolerance *t, const tv_graph_node *n, double x, double y, double absmax)
{
    double low, high, a = (double)n->attrs.alpha;
    if (is_clipped(t, n, &low, &high))
        return clip_error(low, high, (double)t->ranges[n->output]);
    switch (n->op) {
    case TV_OP_SIGMOID:
        return unit * fabs(y);
    case TV_OP_TANH:
        return 2 * unit * fabs(y);
    case TV_OP_GELU:
        return n->attrs.approximate ? 5e-4 : 0;
    case TV_OP_SWISH:
        return 4 * unit * fabs(y) + step * step * absmax;
    case TV_OP_HARD_SIGMOID:
        return hard_sigmoid_error(x, a, (double)n->attrs.beta);
    case TV_OP_HARD_SWISH:
        return fabs(x) * hard_sigmoid_error(x, 1.0 / 6, 0.5) + unit * fabs(y) + step * step * absmax;
    case TV_OP_ABS:
        return unit * 6 * fabs(x);
    case TV_OP_LEAKY_RELU:
        return unit * 3 * (fabs(a) + 1) * fabs(x);
    default:
        return 0;
    }
}

/* ---- Rows ---- */

/* exp(x - max), where the difference is rounded; their sum, of numbers up to 1 in steps of 1/128, to which a second
 * product adds what these round off; the quotient. */
static void add_softmax(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint64_t length = tv_graph_columns(t->graph, n->output),
             rows = tolerance_count(t, n->output) / tv_max_u64(1, length);
    for (uint64_t r = 0; r < rows; r++) {
        double max = -INFINITY, absmax = 0, sum = 0, max_output = 0; /* 1 / max_output: the sum */
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            max = fmax(max, tolerance_value(t, n->inputs[0], i));
            absmax = fmax(absmax, fabs(tolerance_value(t, n->inputs[0], i)));
        }
        for (uint64_t i = r * length; i < (r + 1) * length; i++)
            max_output = fmax(max_output, tolerance_value(t, n->output, i));
        for (uint64_t i = r * length; i < (r + 1) * length; i++)
            sum += tolerance_value(t, n->output, i) *
                   expm1(unit * (max - tolerance_value(t, n->inputs[0], i) + step * absmax));
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            double own = unit * (max - tolerance_value(t, n->inputs[0], i) + step * absmax);
            e[i] += (float)(tolerance_value(t, n->output, i) *
                            (expm1(own) + sum + 4 * unit + (double)length * step / 128 * max_output));
        }
    }
}

/* The mean, the squares, of which one factor is a product's activation, the root, the quotient, and the gains. */
static void add_norm(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint32_t x = n->inputs[0];
    uint64_t columns = tv_graph_columns(t->graph, x), length = columns / (n->op == TV_OP_NORM ? n->attrs.groups : 1),
             rows = tolerance_count(t, x) / tv_max_u64(1, length);
    bool centered = n->op == TV_OP_NORM ? n->attrs.subtract_mean : n->op == TV_OP_LAYER_NORMALIZATION;
    uint64_t gains = n->inputs[1] == TV_NO_VALUE ? 0 : tolerance_count(t, n->inputs[1]);
    for (uint64_t r = 0; r < rows; r++) {
        double mean = 0, sum = 0, absmax = 0, magnitude = 0, normal = 0;
        for (uint64_t i = r * length; i < (r + 1) * length; i++)
            mean += centered ? tolerance_value(t, x, i) / (double)length : 0;
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            double d = fabs(tolerance_value(t, x, i) - mean);
            sum += d * d / (double)length;
            magnitude += d / (double)length;
            absmax = fmax(absmax, d);
        }
        double s = sqrt(sum + (double)n->attrs.epsilon),
               mean_error = 3 * unit * fabs(mean) + step * step * (absmax + fabs(mean));
        /* of s^2: step of the absmax in one factor, the rounding of d in both, that of sums of 32 squares */
        double squares = step * absmax * magnitude + 2 * magnitude * mean_error + mean_error * mean_error +
                         (4 + (double)(length / 32)) * unit * s * s;
        double low = sqrt(fmax(s * s - squares, (double)n->attrs.epsilon)), relative = s / low - 1 + 3 * unit;
        normal = absmax / low;
        for (uint64_t i = r * length; i < (r + 1) * length; i++) {
            double d = fabs(tolerance_value(t, x, i) - mean),
                   gain = gains ? fabs(tolerance_value(t, n->inputs[1], i % gains)) : 1;
            e[i] += (float)(gain * (d / s * relative + (mean_error + unit * d) / low + step * normal * (1 + unit)) +
                            unit * fabs(tolerance_value(t, n->output, i)));
        }
    }
}

/* |a - b| is rounded once more. */
static void add_difference(const tolerance *t, const tv_graph_node *n, float *e)
{
    tv_graph_node difference = *n;
    uint64_t count = tolerance_count(t, n->output);
    float *d = tolerance_new_floats(count);
    difference.op = TV_OP_SUB;
    tolerance_evaluate(t, &difference, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){NULL}, d);
    for (uint64_t i = 0; i < count; i++)
        e[i] += (float)(unit * fabs((double)d[i]));
    free(d);
}

/* Means add the taps, or half of what is left, one after the other; maxima are a + relu(b - a). */
static void add_pool(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint32_t x = n->inputs[0];
    tv_tensor type = tv_graph_tensor_of(t->graph, x), magnitudes;
    uint64_t count = tolerance_count(t, n->output);
    float *m = tolerance_new_floats(count);
    if (tv_tensor_init(&magnitudes, TV_ELEMENT_F32, type.rank, type.dims, NULL) != TV_OK)
        abort();
    for (uint64_t i = 0; i < tolerance_count(t, x); i++)
        ((float *)magnitudes.data)[i] = (float)(fabs(tolerance_value(t, x, i)) + tolerance_error(t, x, i));
    tolerance_evaluate(t, n, (const tv_tensor *[TV_GRAPH_INPUTS_MAX]){&magnitudes}, m);
    double taps = taps_of(n), absmax = absmax_of(t, x), high, low;
    const tv_graph_value *v = tv_graph_value_at(t->graph, x);
    bool clipped =
        v->source == TV_VALUE_COMPUTED && is_clipped(t, tv_graph_node_at(t->graph, v->producer), &low, &high);
    for (uint64_t i = 0; i < count; i++)
        if (n->op == TV_OP_AVERAGE_POOL)
            e[i] += (float)(step * absmax + (2 * taps + 2) * unit * (double)m[i]);
        else
            e[i] += (float)(taps * (3 * unit * (double)m[i] + (clipped ? 2 * absmax / 127 : 0)));
    free(m);
    tv_tensor_fini(&magnitudes);
}

/* ---- Dispatch ---- */

void tolerance_add_pccx(const tolerance *t, const tv_graph_node *n, float *e)
{
    uint32_t x = n->inputs[0];
    uint64_t count = tolerance_count(t, n->output);
    tv_graph_class class = tv_graph_op_infos[n->op].class;
    double absmax = absmax_of(t, x), other = n->inputs[1] == TV_NO_VALUE ? 0 : absmax_of(t, n->inputs[1]);
    if (n->op == TV_OP_GATHER || n->op == TV_OP_SCATTER_ND || n->op == TV_OP_SCATTER_ELEMENTS) /* those are indices */
        other = 0;
    if (!tv_is_real_element(tv_graph_value_at(t->graph, n->output)->element))
        return;
    if (n->op == TV_OP_SOFTMAX)
        add_softmax(t, n, e);
    else if (n->op == TV_OP_NORM || n->op == TV_OP_RMS_NORMALIZATION || n->op == TV_OP_LAYER_NORMALIZATION)
        add_norm(t, n, e);
    else if (n->op == TV_OP_MIN || n->op == TV_OP_MAX)
        add_difference(t, n, e);
    else if (class == TV_CLASS_WINDOW)
        add_pool(t, n, e);
    for (uint64_t i = 0; i < count; i++) {
        double y = tolerance_value(t, n->output, i);
        if (!isfinite(y))
            continue;
        if (class == TV_CLASS_UNARY)
            e[i] += (float)function_error(t, n, tolerance_value(t, x, i), y, absmax);
        else if (class == TV_CLASS_MOVE && n->op != TV_OP_RESHAPE)
            e[i] += (float)(unit * fabs(y) + step * step * fmax(absmax, other));
        else if (n->op == TV_OP_MUL)
            e[i] += (float)(unit * fabs(y) + step * step * absmax * other);
        else if (n->op == TV_OP_DIV)
            e[i] += (float)(2 * unit * fabs(y) + step * step * absmax / absmin_of(t, n->inputs[1]));
        else if (n->op == TV_OP_REDUCE_MEAN)
            e[i] += (float)(2 * unit * fabs(y) + step * step * absmax);
        else if (n->op == TV_OP_REDUCE_SUM)
            e[i] += (float)(unit * fabs(y) + step * step * absmax * tv_graph_columns(t->graph, x));
    }
}
