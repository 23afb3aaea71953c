/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and pools of x[n][c][spatial axes], with one to three spatial axes. */
#include <math.h>
#include <stdlib.h>

#include "graph/operator_table.h"
#include "kernels/dot.h"

enum { SPATIAL = TV_GRAPH_SPATIAL_MAX };

/* Extents as three spatial axes: missing ones are 1, with a window of 1. */
typedef struct window {
    int64_t in[SPATIAL], out[SPATIAL], kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL], pad[SPATIAL],
        pad_end[SPATIAL];
    int64_t in_elements, out_elements, kernel_elements;
} window;

static window window_of(const tv_operator_row *r)
{
    const tv_graph_lists *l = tv_attrs_of(r)->lists;
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    window w = {.in_elements = 1, .out_elements = 1, .kernel_elements = 1};
    for (uint32_t i = 0; i < SPATIAL; i++) {
        bool given = i + 2 < x.rank;
        w.in[i] = given ? x.dims[2 + i] : 1;
        w.out[i] = given ? y.dims[2 + i] : 1;
        w.kernel[i] = given ? l->kernel[i] : 1;
        w.stride[i] = given ? l->stride[i] : 1;
        w.dilation[i] = given ? l->dilation[i] : 1;
        w.pad[i] = given ? l->pad_begin[i] : 0;
        w.pad_end[i] = given ? l->pad_end[i] : 0;
        w.in_elements *= w.in[i];
        w.out_elements *= w.out[i];
        w.kernel_elements *= w.kernel[i];
    }
    return w;
}

/* Splits the index of an element into those of three axes. */
static void split_index(int64_t at, const int64_t dims[SPATIAL], int64_t index[SPATIAL])
{
    for (unsigned i = SPATIAL; i-- > 0; at /= dims[i])
        index[i] = at % dims[i];
}

/* The element of the input that element `k` of the window of output `out` covers; -1: padding. */
static int64_t input_at(const window *w, const int64_t out[SPATIAL], int64_t k)
{
    int64_t tap[SPATIAL], at = 0;
    split_index(k, w->kernel, tap);
    for (unsigned i = 0; i < SPATIAL; i++) {
        int64_t x = out[i] * w->stride[i] - w->pad[i] + tap[i] * w->dilation[i];
        if (x < 0 || x >= w->in[i])
            return -1;
        at = at * w->in[i] + x;
    }
    return at;
}

/* ---- Convolution ---- */

/* The patch of a window: [channels][kernel], zeros for padding. */
static void fill_patch(const window *w, const float *x, int64_t channels, const int64_t out[SPATIAL], float *patch)
{
    for (int64_t k = 0; k < w->kernel_elements; k++) {
        int64_t at = input_at(w, out, k);
        for (int64_t c = 0; c < channels; c++)
            patch[c * w->kernel_elements + k] = at < 0 ? 0 : x[c * w->in_elements + at];
    }
}

/* The channels of one group at one output position. */
static void convolve_f32(const tv_operator_row *r, int64_t size, int64_t channels, const float *patch,
                         const float *weights, int64_t first, int64_t at, int64_t stride)
{
    for (int64_t o = 0; o < channels; o++) {
        float sum = tv_dot_f32(patch, weights + o * size, (size_t)size);
        if (r->inputs[2])
            sum += tv_input_f32(r, 2)[first + o];
        if (r->inputs[3])
            sum += tv_input_f32(r, 3)[at + o * stride];
        tv_output_f32(r)[at + o * stride] = tv_activate(tv_attrs_of(r), sum);
    }
}

static bool convolve_real(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    window w = window_of(r);
    int64_t groups = tv_attrs_of(r)->groups, in = x.dims[1] / groups, out = y.dims[1] / groups,
            size = in * w.kernel_elements;
    float *patch = malloc((size_t)size * sizeof *patch + 1);
    for (int64_t image = 0; image < x.dims[0] && patch; image++)
        for (int64_t g = 0; g < groups; g++)
            for (int64_t p = 0; p < w.out_elements; p++) {
                int64_t position[SPATIAL];
                split_index(p, w.out, position);
                fill_patch(&w, tv_input_f32(r, 0) + (image * x.dims[1] + g * in) * w.in_elements, in, position, patch);
                convolve_f32(r, size, out, patch, tv_input_f32(r, 1) + g * out * size, g * out,
                             (image * y.dims[1] + g * out) * w.out_elements + p, w.out_elements);
            }
    free(patch);
    return patch != NULL;
}

/* One output of a convolution of integers. */
static int64_t convolve_integers(const tv_operator_row *r, const window *w, int64_t image, int64_t o, int64_t p)
{
    tv_tensor x = tv_input_tensor(r, 0), weights = tv_input_tensor(r, 1);
    int64_t groups = tv_attrs_of(r)->groups, in = x.dims[1] / groups, sum = 0, position[SPATIAL],
            group = o / (weights.dims[0] / groups);
    split_index(p, w->out, position);
    for (int64_t k = 0; k < w->kernel_elements; k++) {
        int64_t at = input_at(w, position, k);
        for (int64_t c = 0; c < in && at >= 0; c++)
            sum += tv_tensor_integer(&x, (uint64_t)((image * x.dims[1] + group * in + c) * w->in_elements + at)) *
                   tv_tensor_integer(&weights, (uint64_t)((o * in + c) * w->kernel_elements + k));
    }
    return sum;
}

bool tv_compute_CONV(const tv_operator_row *r)
{
    if (tv_output_is_f32(r))
        return convolve_real(r);
    tv_tensor y = tv_output_tensor(r);
    window w = window_of(r);
    for (int64_t i = 0, n = (int64_t)tv_output_elements(r); i < n; i++) {
        int64_t o = i / w.out_elements % y.dims[1];
        int64_t sum = convolve_integers(r, &w, i / w.out_elements / y.dims[1], o, i % w.out_elements);
        if (r->inputs[2]) {
            tv_tensor bias = tv_input_tensor(r, 2);
            sum += tv_tensor_integer(&bias, (uint64_t)o);
        }
        tv_tensor_set_integer(&y, (uint64_t)i, sum);
    }
    return true;
}

/* One output of a transposed convolution: the inputs whose windows cover it. */
static float convolve_transposed(const tv_operator_row *r, const window *w, int64_t image, int64_t o, int64_t p)
{
    tv_tensor x = tv_input_tensor(r, 0), weights = tv_input_tensor(r, 1);
    int64_t groups = tv_attrs_of(r)->groups, in = x.dims[1] / groups, out = weights.dims[1], group = o / out,
            position[SPATIAL], tap[SPATIAL];
    uint64_t term = 0;
    tv_sum8 sum = {{0}};
    split_index(p, w->out, position);
    for (int64_t k = 0; k < w->kernel_elements; k++) {
        int64_t at = 0;
        split_index(k, w->kernel, tap);
        for (unsigned i = 0; i < SPATIAL && at >= 0; i++) {
            int64_t from = position[i] + w->pad[i] - tap[i] * w->dilation[i];
            bool covered = from >= 0 && from % w->stride[i] == 0 && from / w->stride[i] < w->in[i];
            at = covered ? at * w->in[i] + from / w->stride[i] : -1;
        }
        for (int64_t c = group * in; c < (group + 1) * in && at >= 0; c++)
            tv_sum8_add(&sum, term++,
                        tv_input_f32(r, 0)[(image * x.dims[1] + c) * w->in_elements + at] *
                            tv_input_f32(r, 1)[(c * out + o % out) * w->kernel_elements + k]);
    }
    return tv_sum8_total(&sum) + (r->inputs[2] ? tv_input_f32(r, 2)[o] : 0);
}

bool tv_compute_CONV_TRANSPOSE(const tv_operator_row *r)
{
    tv_tensor y = tv_output_tensor(r);
    window w = window_of(r);
    for (int64_t i = 0, n = (int64_t)tv_output_elements(r); i < n; i++)
        tv_output_f32(r)[i] = convolve_transposed(r, &w, i / w.out_elements / y.dims[1], i / w.out_elements % y.dims[1],
                                                  i % w.out_elements);
    return true;
}

/* ---- Pools ---- */

bool tv_compute_MAX_POOL(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    window w = window_of(r);
    for (int64_t i = 0, n = (int64_t)tv_output_elements(r); i < n; i++) {
        int64_t position[SPATIAL], plane = i / w.out_elements * w.in_elements;
        double max = -INFINITY;
        split_index(i % w.out_elements, w.out, position);
        for (int64_t k = 0; k < w.kernel_elements; k++) {
            int64_t at = input_at(&w, position, k);
            double value = at < 0 ? max : tv_tensor_real(&x, (uint64_t)(plane + at));
            max = isnan(value) || value > max ? value : max;
        }
        tv_tensor_set_real(&y, (uint64_t)i, max);
    }
    return true;
}

static double magnitude_power(double x, double p) { return p == 1 ? fabs(x) : p == 2 ? x * x : pow(fabs(x), p); }

bool tv_compute_LP_POOL(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    double p = (double)tv_attrs_of(r)->alpha;
    window w = window_of(r);
    for (int64_t i = 0, n = (int64_t)tv_output_elements(r); i < n; i++) {
        int64_t position[SPATIAL], plane = i / w.out_elements * w.in_elements;
        double sum = 0;
        split_index(i % w.out_elements, w.out, position);
        for (int64_t k = 0; k < w.kernel_elements; k++) {
            int64_t at = input_at(&w, position, k);
            sum += at < 0 ? 0 : magnitude_power(tv_tensor_real(&x, (uint64_t)(plane + at)), p);
        }
        tv_tensor_set_real(&y, (uint64_t)i, p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p));
    }
    return true;
}

/* Elements of a window that are inside of the input and its padding. */
static int64_t padded_elements(const window *w, const int64_t out[SPATIAL])
{
    int64_t count = 1;
    for (unsigned i = 0; i < SPATIAL; i++) {
        int64_t inside = 0, begin = out[i] * w->stride[i] - w->pad[i];
        for (int64_t k = 0; k < w->kernel[i]; k++)
            inside += begin + k * w->dilation[i] < w->in[i] + w->pad_end[i];
        count *= inside;
    }
    return count;
}

bool tv_compute_AVERAGE_POOL(const tv_operator_row *r)
{
    window w = window_of(r);
    bool count_padding = tv_attrs_of(r)->mode & 1;
    for (int64_t i = 0, n = (int64_t)tv_output_elements(r); i < n; i++) {
        int64_t position[SPATIAL], plane = i / w.out_elements * w.in_elements;
        uint64_t inside = 0;
        tv_sum8 sum = {{0}};
        split_index(i % w.out_elements, w.out, position);
        for (int64_t k = 0; k < w.kernel_elements; k++) {
            int64_t at = input_at(&w, position, k);
            if (at >= 0)
                tv_sum8_add(&sum, inside++, tv_input_f32(r, 0)[plane + at]);
        }
        int64_t count = count_padding ? padded_elements(&w, position) : (int64_t)inside;
        tv_output_f32(r)[i] = tv_sum8_total(&sum) / (float)count;
    }
    return true;
}
