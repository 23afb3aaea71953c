/* SPDX-License-Identifier: Apache-2.0 */
/* RESIZE. Elements are sampled axis by axis: a table has the elements of the input that a position of the output reads,
 * and their weights. NEAREST copies elements of any type; the others compute in binary64, round once at the end, and
 * saturate integers. */
#include <math.h>
#include <stdlib.h>

#include "graph/operator_table.h"
#include "graph/resize.h"

/* The elements that each position of an output axis reads. */
typedef struct samples {
    int64_t in, out, count; /* count: elements of each position */
    int64_t *index;         /* [out][count], from 0 to in - 1; -1: outside, the position is attrs.beta */
    double *weight;         /* [out][count] */
} samples;

static void free_samples(samples *s)
{
    free(s->index);
    free(s->weight);
    *s = (samples){0};
}

/* ---- Tables ---- */

/* Scales are binary32 in files, and the nearest element below a quotient that should be an integer is it only when the
 * quotient is rounded to binary32, too. */
static double quotient(double x, double scale) { return (double)((float)x / (float)scale); }

/* The length whose last element is aligned with the input's: input times scale, of which `out` is the integer. */
static double aligned_length(double out, double scaled) { return scaled > out * (1 + 1e-6) ? scaled : out; }

static double coordinate_of(const tv_graph_lists *l, tv_resize_coordinates kind, uint32_t axis, const samples *s,
                            int64_t position)
{
    double x = (double)position, in = (double)s->in, out = (double)s->out, scale = l->scale[axis];
    double first = l->crop_begin[axis], last = l->crop_end[axis], half_pixel = quotient(x + 0.5, scale) - 0.5;
    switch (kind) {
    case TV_RESIZE_HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - out / (in * scale)) + half_pixel;
    case TV_RESIZE_PYTORCH_HALF_PIXEL:
        return s->out > 1 ? half_pixel : 0;
    case TV_RESIZE_ALIGN_CORNERS:
        return s->out > 1 ? x * (in - 1) / (aligned_length(out, scale * in) - 1) : 0;
    case TV_RESIZE_ASYMMETRIC:
        return quotient(x, scale);
    case TV_RESIZE_CROP:
        return s->out > 1 ? first * (in - 1) + x * (last - first) * (in - 1) / (out - 1)
                          : (first + last) / 2 * (in - 1);
    case TV_RESIZE_HALF_PIXEL:
    case TV_RESIZE_COORDINATES:
        break;
    }
    return half_pixel;
}

static double nearest_to(tv_resize_rounding rounding, double u)
{
    switch (rounding) {
    case TV_RESIZE_PREFER_CEIL:
        return floor(u + 0.5);
    case TV_RESIZE_FLOOR:
        return floor(u);
    case TV_RESIZE_CEIL:
        return ceil(u);
    case TV_RESIZE_PREFER_FLOOR:
    case TV_RESIZE_ROUNDINGS:
        break;
    }
    return ceil(u - 0.5);
}

/* The weight of an element at a distance. */
static double filter_at(const tv_graph_attrs *a, tv_resize_method method, double distance)
{
    double d = fabs(distance), c = (double)a->alpha;
    if (method == TV_RESIZE_LINEAR)
        return d < 1 ? 1 - d : 0;
    if (d <= 1)
        return ((c + 2) * d - (c + 3)) * d * d + 1;
    return d < 2 ? ((c * d - 5 * c) * d + 8 * c) * d - 4 * c : 0;
}

static int64_t clamp_index(double at, int64_t extent)
{
    if (!(at > 0))
        return 0;
    return at < (double)extent ? (int64_t)at : extent - 1;
}

/* The elements of one position, from coordinate u: `narrow` is the factor of distances. */
static void sample_position(const tv_graph_attrs *a, const samples *s, double u, double narrow, int64_t position)
{
    tv_resize m = tv_resize_unpack(a->mode);
    int64_t *index = s->index + position * s->count;
    double *weight = s->weight + position * s->count, sum = 0;
    double first = m.method == TV_RESIZE_NEAREST ? nearest_to(m.rounding, u) : floor(u) + 1 - (double)s->count / 2;
    for (int64_t k = 0; k < s->count; k++) {
        double at = first + (double)k;
        bool outside = at < 0 || at >= (double)s->in;
        index[k] = clamp_index(at, s->in);
        weight[k] = m.method == TV_RESIZE_NEAREST  ? 1
                    : outside && m.exclude_outside ? 0
                                                   : filter_at(a, m.method, (at - u) * narrow);
        sum += weight[k];
    }
    for (int64_t k = 0; k < s->count && (m.exclude_outside || m.antialias) && sum != 0; k++)
        weight[k] /= sum;
    if (m.coordinates == TV_RESIZE_CROP && (u < 0 || u > (double)(s->in - 1)))
        index[0] = -1;
}

/* False: no memory. The caller frees the table with free_samples. */
static bool sample_axis(const tv_graph_attrs *a, uint32_t axis, int64_t in, int64_t out, samples *s)
{
    tv_resize m = tv_resize_unpack(a->mode);
    double scale = a->lists->scale[axis], narrow = m.antialias && scale < 1 ? scale : 1;
    *s = (samples){.in = in, .out = out, .count = 1};
    if (m.method != TV_RESIZE_NEAREST)
        s->count = 2 * (int64_t)ceil((m.method == TV_RESIZE_LINEAR ? 1 : 2) / narrow);
    s->index = calloc((size_t)(out * s->count) + 1, sizeof *s->index);
    s->weight = calloc((size_t)(out * s->count) + 1, sizeof *s->weight);
    if (!s->index || !s->weight) {
        free_samples(s);
        return false;
    }
    for (int64_t i = 0; i < out; i++)
        sample_position(a, s, coordinate_of(a->lists, m.coordinates, axis, s, i), narrow, i);
    return true;
}

/* ---- Sampling ---- */

/* Copies single elements; the value of what is outside is attrs.beta. */
static void copy_nearest(const tv_operator_row *r, const samples *tables)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    size_t bytes = tv_element_infos[y.element].bytes;
    int64_t index[TV_TENSOR_RANK_MAX] = {0};
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++) {
        int64_t from = 0;
        for (uint32_t k = 0; k < y.rank && from >= 0; k++) {
            int64_t at = tables[k].index[index[k]];
            from = at < 0 ? -1 : from * x.dims[k] + at;
        }
        if (from < 0)
            tv_tensor_set_saturated(&y, i, (double)tv_attrs_of(r)->beta);
        else
            memcpy((uint8_t *)y.data + i * bytes, (const uint8_t *)x.data + (size_t)from * bytes, bytes);
        for (uint32_t k = y.rank; k-- > 0 && ++index[k] == y.dims[k];)
            index[k] = 0;
    }
}

/* to[outer][out][inner] from from[outer][in][inner]; zeroed before. */
static void sample_vectors(const samples *s, const double *from, double *to, int64_t outer, int64_t inner, double beta)
{
    for (int64_t o = 0; o < outer; o++, from += s->in * inner)
        for (int64_t i = 0; i < s->out; i++, to += inner) {
            const int64_t *index = s->index + i * s->count;
            const double *weight = s->weight + i * s->count;
            for (int64_t j = 0; j < inner && index[0] < 0; j++)
                to[j] = beta;
            for (int64_t k = 0; k < s->count && index[0] >= 0; k++)
                for (int64_t j = 0; j < inner; j++)
                    to[j] += weight[k] * from[index[k] * inner + j];
        }
}

/* Resamples one axis of `dims`, which becomes that of the output. Frees *values, and replaces it. False: no memory. */
static bool replace_axis(const tv_operator_row *r, const samples *s, uint32_t axis, tv_tensor *dims, double **values)
{
    int64_t outer = 1, inner = 1;
    for (uint32_t i = 0; i < dims->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : dims->dims[i];
    dims->dims[axis] = s->out;
    double *to = calloc((size_t)tv_tensor_count(dims) + 1, sizeof *to);
    if (to)
        sample_vectors(s, *values, to, outer, inner, (double)tv_attrs_of(r)->beta);
    free(*values);
    *values = to;
    return to != NULL;
}

static bool interpolate(const tv_operator_row *r, const samples *tables)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    uint64_t n = tv_tensor_count(&x);
    bool crop = tv_resize_unpack(tv_attrs_of(r)->mode).coordinates == TV_RESIZE_CROP;
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    for (uint64_t i = 0; i < n && values; i++)
        values[i] = tv_tensor_real(&x, i);
    for (uint32_t k = 0; k < y.rank && values; k++) {
        bool same = !crop && x.dims[k] == y.dims[k] && tv_attrs_of(r)->lists->scale[k] == 1;
        if (!same && !replace_axis(r, &tables[k], k, &x, &values))
            return false;
    }
    for (uint64_t i = 0, count = tv_output_elements(r); i < count && values; i++)
        tv_tensor_set_saturated(&y, i, values[i]);
    bool ok = values != NULL;
    free(values);
    return ok;
}

bool tv_compute_RESIZE(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    samples tables[TV_TENSOR_RANK_MAX] = {{0}};
    bool ok = true;
    if (tv_output_elements(r) == 0)
        return true;
    for (uint32_t k = 0; k < y.rank && ok; k++)
        ok = sample_axis(tv_attrs_of(r), k, x.dims[k], y.dims[k], &tables[k]);
    if (ok && tv_resize_unpack(tv_attrs_of(r)->mode).method == TV_RESIZE_NEAREST)
        copy_nearest(r, tables);
    else
        ok = ok && interpolate(r, tables);
    for (uint32_t k = 0; k < y.rank; k++)
        free_samples(&tables[k]);
    return ok;
}
