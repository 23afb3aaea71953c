/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, pools, products and norms of every element type. Expected values come from loops of this file over
 * small integers, whose sums are exact in every type, or are worked by hand. */
#include <math.h>
#include <stdlib.h>

#include "operator_case.h"

enum { SPATIAL = TV_GRAPH_SPATIAL_MAX, ELEMENTS_MAX = 1 << 14 };

static const tv_element types[] = {TV_ELEMENT_F32, TV_ELEMENT_F16, TV_ELEMENT_BF16, TV_ELEMENT_F64,
                                   TV_ELEMENT_I8,  TV_ELEMENT_U8,  TV_ELEMENT_I32};
enum { TYPES = sizeof types / sizeof types[0], REAL_TYPES = 4 };

/* ---- Windows ---- */

/* A window operator of random extents. */
typedef struct window_case {
    uint32_t spatial, groups;
    int64_t images, in, out, extent[SPATIAL], to[SPATIAL];
    tv_graph_lists lists;
    double x[ELEMENTS_MAX], w[ELEMENTS_MAX], bias[64], y[ELEMENTS_MAX], residual[ELEMENTS_MAX];
} window_case;

static int64_t span(unit_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)unit_below(rng, (uint64_t)(high - low + 1));
}

static void fill(unit_rng *rng, double *values, size_t count, bool negative)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (double)span(rng, negative ? -2 : 0, 2);
}

static int64_t reach(const window_case *c, unsigned i) { return (c->lists.kernel[i] - 1) * c->lists.dilation[i] + 1; }

static void draw_window(window_case *c, unit_rng *rng)
{
    memset(c, 0, sizeof *c);
    c->spatial = (uint32_t)span(rng, 1, 3);
    c->groups = (uint32_t)span(rng, 1, 3);
    c->images = span(rng, 0, 2);
    c->in = c->groups * span(rng, 1, 3);
    c->out = c->groups * span(rng, 1, 3);
    for (unsigned i = 0; i < SPATIAL; i++) {
        bool given = i < c->spatial;
        c->lists.kernel[i] = given ? span(rng, 1, 3) : 1;
        c->lists.stride[i] = given ? span(rng, 1, 3) : 1;
        c->lists.dilation[i] = given ? span(rng, 1, 2) : 1;
        c->lists.pad_begin[i] = given ? span(rng, 0, 2) : 0;
        c->lists.pad_end[i] = given ? span(rng, 0, 2) : 0;
        c->extent[i] = given ? span(rng, reach(c, i), reach(c, i) + 4) : 1;
        c->to[i] = (c->extent[i] + c->lists.pad_begin[i] + c->lists.pad_end[i] - reach(c, i)) / c->lists.stride[i] + 1;
    }
}

static int64_t product3(const int64_t *v) { return v[0] * v[1] * v[2]; }

static operand spatial_operand(tv_element type, uint32_t spatial, int64_t first, int64_t second, const int64_t *extent,
                               const double *values)
{
    operand o = {.element = type, .rank = 2 + spatial, .dims = {first, second}, .values = values};
    memcpy(o.dims + 2, extent, spatial * sizeof *extent);
    o.count = (size_t)(first * second * product3(extent));
    return o;
}

/* Calls `visit` for each pair of an output position and a tap of its window: indices of planes of the output, of the
 * kernel, and of the input, which is -1 for padding. */
typedef void visit_tap(window_case *c, void *user, int64_t to, int64_t tap, int64_t from);

static void walk_taps(window_case *c, visit_tap *visit, void *user)
{
    for (int64_t to = 0; to < product3(c->to); to++)
        for (int64_t tap = 0; tap < product3(c->lists.kernel); tap++) {
            int64_t from = 0, outer_to = product3(c->to), outer_tap = product3(c->lists.kernel), rest_to = to,
                    rest_tap = tap;
            for (unsigned i = 0; i < SPATIAL; i++) {
                outer_to /= c->to[i];
                outer_tap /= c->lists.kernel[i];
                int64_t at = rest_to / outer_to * c->lists.stride[i] - c->lists.pad_begin[i] +
                             rest_tap / outer_tap * c->lists.dilation[i];
                rest_to %= outer_to;
                rest_tap %= outer_tap;
                from = from < 0 || at < 0 || at >= c->extent[i] ? -1 : from * c->extent[i] + at;
            }
            visit(c, user, to, tap, from);
        }
}

static void add_products(window_case *c, void *user, int64_t to, int64_t tap, int64_t from)
{
    int64_t in = c->in / c->groups, out = c->out / c->groups;
    (void)user;
    for (int64_t n = 0; n < c->images && from >= 0; n++)
        for (int64_t o = 0; o < c->out; o++)
            for (int64_t i = 0; i < in; i++)
                c->y[(n * c->out + o) * product3(c->to) + to] +=
                    c->x[(n * c->in + o / out * in + i) * product3(c->extent) + from] *
                    c->w[(o * in + i) * product3(c->lists.kernel) + tap];
}

static tv_element result_type(tv_element x) { return tv_is_real_element(x) ? x : TV_ELEMENT_I32; }

static void convolutions_of_all_types_are_exact_for_small_integers(void **state)
{
    static window_case c;
    unit_rng rng = {1};
    (void)state;
    for (unsigned n = 0; n < 300; n++) {
        tv_element type = types[n % TYPES];
        draw_window(&c, &rng);
        int64_t in = c.in / c.groups;
        fill(&rng, c.x, ELEMENTS_MAX, type != TV_ELEMENT_U8);
        fill(&rng, c.w, ELEMENTS_MAX, type != TV_ELEMENT_U8);
        fill(&rng, c.bias, 64, true);
        fill(&rng, c.residual, ELEMENTS_MAX, true);
        bool bias = n & 8, residual = bias && n & 16 && tv_is_real_element(type);
        for (int64_t i = 0; i < c.images * c.out * product3(c.to); i++)
            c.y[i] = (bias ? c.bias[i / product3(c.to) % c.out] : 0) + (residual ? c.residual[i] : 0);
        walk_taps(&c, add_products, NULL);
        operand x = spatial_operand(type, c.spatial, c.images, c.in, c.extent, c.x);
        operand w = spatial_operand(type, c.spatial, c.out, in, c.lists.kernel, c.w);
        operand b = {result_type(type), 1, {c.out}, c.bias, (size_t)c.out, true, !bias};
        operand r = spatial_operand(type, c.spatial, c.images, c.out, c.to, c.residual);
        operand y = spatial_operand(result_type(type), c.spatial, c.images, c.out, c.to, c.y);
        r.left_out = !residual;
        expect(TV_OP_CONV, INPUTS(x, w, b, r), &(tv_graph_attrs){.lists = &c.lists, .groups = c.groups}, y, 0);
    }
}

/* The transposed convolution adds each product where the convolution reads it. */
static void add_transposed(window_case *c, void *user, int64_t to, int64_t tap, int64_t from)
{
    int64_t in = c->in / c->groups, out = c->out / c->groups;
    (void)user;
    for (int64_t n = 0; n < c->images && from >= 0; n++)
        for (int64_t i = 0; i < c->out; i++) /* channels of the input of the transposed one */
            for (int64_t o = 0; o < in; o++)
                c->y[(n * c->in + i / out * in + o) * product3(c->extent) + from] +=
                    c->x[(n * c->out + i) * product3(c->to) + to] *
                    c->w[(i * in + o) * product3(c->lists.kernel) + tap];
}

static void transposed_convolutions_add_where_convolutions_read(void **state)
{
    static window_case c;
    unit_rng rng = {2};
    (void)state;
    for (unsigned n = 0; n < 150; n++) {
        tv_element type = types[n % REAL_TYPES];
        draw_window(&c, &rng);
        fill(&rng, c.x, ELEMENTS_MAX, true);
        fill(&rng, c.w, ELEMENTS_MAX, true);
        fill(&rng, c.bias, 64, true);
        for (int64_t i = 0; i < c.images * c.in * product3(c.extent); i++)
            c.y[i] = n & 8 ? c.bias[i / product3(c.extent) % c.in] : 0;
        walk_taps(&c, add_transposed, NULL);
        for (unsigned i = 0; i < c.spatial; i++) /* what the strides of the convolution leave out */
            c.lists.output_padding[i] = c.extent[i] + c.lists.pad_begin[i] + c.lists.pad_end[i] - reach(&c, i) -
                                        (c.to[i] - 1) * c.lists.stride[i];
        operand x = spatial_operand(type, c.spatial, c.images, c.out, c.to, c.x);
        operand w = spatial_operand(type, c.spatial, c.out, c.in / c.groups, c.lists.kernel, c.w);
        operand b = {type, 1, {c.in}, c.bias, (size_t)c.in, true, !(n & 8)};
        operand y = spatial_operand(type, c.spatial, c.images, c.in, c.extent, c.y);
        expect(TV_OP_CONV_TRANSPOSE, INPUTS(x, w, b), &(tv_graph_attrs){.lists = &c.lists, .groups = c.groups}, y, 0);
    }
}

/* What pools compute of the window of one output. */
typedef struct pool_sums {
    double max[ELEMENTS_MAX], sum[ELEMENTS_MAX], count[ELEMENTS_MAX], squares[ELEMENTS_MAX];
} pool_sums;

static void add_to_pool(window_case *c, void *user, int64_t to, int64_t tap, int64_t from)
{
    pool_sums *s = user;
    (void)tap;
    for (int64_t plane = 0; plane < c->images * c->in && from >= 0; plane++) {
        double value = c->x[plane * product3(c->extent) + from];
        int64_t at = plane * product3(c->to) + to;
        s->max[at] = fmax(s->max[at], value);
        s->sum[at] += value;
        s->squares[at] += value * value;
        s->count[at]++;
    }
}

static void pools_of_all_types_see_what_is_inside(void **state)
{
    static window_case c;
    static pool_sums s;
    unit_rng rng = {3};
    (void)state;
    for (unsigned n = 0; n < 200; n++) {
        tv_element type = types[n % REAL_TYPES], any = types[n % TYPES];
        draw_window(&c, &rng);
        for (unsigned i = 0; i < c.spatial; i++) { /* each window has an element of the input */
            c.lists.dilation[i] = 1;
            c.lists.pad_begin[i] = c.lists.pad_end[i] = c.lists.kernel[i] / 2;
            c.to[i] = (c.extent[i] + 2 * c.lists.pad_begin[i] - c.lists.kernel[i]) / c.lists.stride[i] + 1;
        }
        fill(&rng, c.x, ELEMENTS_MAX, any != TV_ELEMENT_U8);
        memset(&s, 0, sizeof s);
        for (size_t i = 0; i < ELEMENTS_MAX; i++)
            s.max[i] = -1000;
        walk_taps(&c, add_to_pool, &s);
        operand x = spatial_operand(any, c.spatial, c.images, c.in, c.extent, c.x), real = x;
        operand y = spatial_operand(any, c.spatial, c.images, c.in, c.to, s.max);
        expect(TV_OP_MAX_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &c.lists}, y, 0);
        real.element = y.element = type;
        y.values = c.y;
        double tolerance = type == TV_ELEMENT_BF16 ? 0x1p-8 : type == TV_ELEMENT_F16 ? 0x1p-11 : 1e-7;
        for (size_t i = 0; i < ELEMENTS_MAX; i++)
            c.y[i] = s.sum[i] / s.count[i];
        expect(TV_OP_AVERAGE_POOL, INPUTS(real), &(tv_graph_attrs){.lists = &c.lists}, y, tolerance);
        for (size_t i = 0; i < ELEMENTS_MAX; i++)
            c.y[i] = s.sum[i] / (double)product3(c.lists.kernel);
        expect(TV_OP_AVERAGE_POOL, INPUTS(real), &(tv_graph_attrs){.lists = &c.lists, .mode = 1}, y, tolerance);
        for (size_t i = 0; i < ELEMENTS_MAX; i++)
            c.y[i] = sqrt(s.squares[i]);
        expect(TV_OP_LP_POOL, INPUTS(real), &(tv_graph_attrs){.lists = &c.lists, .alpha = 2}, y, tolerance);
    }
}

static void partial_windows_are_pools_of_what_is_left(void **state)
{
    (void)state;
    tv_graph_lists lists = {.kernel = {2}, .stride = {2}, .dilation = {1}};
    const operand x = TENSOR(F32, DIMS(1, 1, 5), 1, -5, 3, 4, 2);
    expect(TV_OP_MAX_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists}, TENSOR(F32, DIMS(1, 1, 2), 1, 4), 0);
    expect(TV_OP_MAX_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists, .mode = 2},
           TENSOR(F32, DIMS(1, 1, 3), 1, 4, 2), 0);
    for (uint32_t mode = 2; mode < 4; mode++)
        expect(TV_OP_AVERAGE_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists, .mode = mode},
               TENSOR(F32, DIMS(1, 1, 3), -2, 3.5, 2), 0);
    expect(TV_OP_LP_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists, .mode = 2, .alpha = 1},
           TENSOR(F32, DIMS(1, 1, 3), 6, 7, 2), 0);
    expect(TV_OP_LP_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists, .mode = 2, .alpha = 3},
           TENSOR(F32, DIMS(1, 1, 3), cbrt(126), cbrt(91), 2), 1e-7);
    expect(TV_OP_MAX_POOL, INPUTS(TENSOR(F32, DIMS(1, 1, 4), 1, NAN, 3, 4)), &(tv_graph_attrs){.lists = &lists},
           TENSOR(F32, DIMS(1, 1, 2), NAN, 4), 0);
}

/* Work depends on what is inside, not on the size of the window. */
static void windows_of_padding_take_no_time(void **state)
{
    (void)state;
    enum { LARGE = 1 << 30 };
    tv_graph_lists lists = {
        .kernel = {2 * (LARGE - 2) + 1, 2 * (LARGE - 2) + 1}, .stride = {1, LARGE}, .dilation = {1, 1}};
    lists.pad_begin[0] = lists.pad_begin[1] = lists.pad_end[0] = lists.pad_end[1] = LARGE - 2;
    const operand x = TENSOR(F32, DIMS(1, 1, 1, 2), 1, 3);
    expect(TV_OP_MAX_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists}, TENSOR(F32, DIMS(1, 1, 1, 1), 3), 0);
    expect(TV_OP_LP_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists, .alpha = 1}, TENSOR(F32, DIMS(1, 1, 1, 1), 4),
           0);
    expect(TV_OP_AVERAGE_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists}, TENSOR(F32, DIMS(1, 1, 1, 1), 2), 0);
    expect(TV_OP_AVERAGE_POOL, INPUTS(x), &(tv_graph_attrs){.lists = &lists, .mode = 1},
           TENSOR(F32, DIMS(1, 1, 1, 1), 4 * 0x1p-62), 1e-9);
    lists = (tv_graph_lists){.kernel = {2}, .stride = {1}, .dilation = {LARGE}, .pad_end = {LARGE}};
    expect(TV_OP_MAX_POOL, INPUTS(TENSOR(F32, DIMS(1, 1, 2), 1, 3)), &(tv_graph_attrs){.lists = &lists},
           TENSOR(F32, DIMS(1, 1, 2), 1, 3), 0);
}

static void fused_activations_follow_bias_and_residual(void **state)
{
    (void)state;
    tv_graph_lists lists = {.kernel = {1}, .stride = {1}, .dilation = {1}};
    tv_graph_attrs attrs = {.lists = &lists, .groups = 1, .activation = TV_ACTIVATION_RELU};
    const operand x = TENSOR(F32, DIMS(1, 1, 3), -3, 1, 5), w = TENSOR(F32, DIMS(1, 1, 1), 2),
                  b = TENSOR(F32, DIMS(1), 1), r = TENSOR(F32, DIMS(1, 1, 3), 4, -4, 1);
    expect(TV_OP_CONV, INPUTS(x, w, b, r), &attrs, TENSOR(F32, DIMS(1, 1, 3), 0, 0, 12), 0);
    attrs.activation = TV_ACTIVATION_CLIP;
    attrs.alpha = -0.5f;
    attrs.beta = 6;
    expect(TV_OP_CONV, INPUTS(x, w, b, r), &attrs, TENSOR(F32, DIMS(1, 1, 3), -0.5, -0.5, 6), 0);
    expect(TV_OP_LINEAR,
           INPUTS(x, CONSTANT(F32, DIMS(1, 3), 1, 1, 1), CONSTANT(F32, DIMS(1), 4), TENSOR(F32, DIMS(1, 1, 1), 10)),
           &attrs, TENSOR(F32, DIMS(1, 1, 1), 16), 0);
}

/* ---- Matrices ---- */

static void products_repeat_leading_axes(void **state)
{
    static double a[512], b[512], y[2048];
    unit_rng rng = {4};
    (void)state;
    for (unsigned n = 0; n < 200; n++) {
        tv_element type = types[n % TYPES];
        int64_t m = span(&rng, 0, 9), k = span(&rng, 0, 9), cols = span(&rng, 0, 9), p = span(&rng, 1, 2),
                q = span(&rng, 1, 2);
        bool swap = n & 16; /* which operand is repeated */
        fill(&rng, a, 512, type != TV_ELEMENT_U8);
        fill(&rng, b, 512, type != TV_ELEMENT_U8);
        for (int64_t i = 0; i < p * q * m * cols; i++) {
            int64_t batch = i / (m * cols), row = i / cols % m, column = i % cols;
            int64_t in_a = swap ? batch % q : batch, in_b = swap ? batch : batch % q;
            y[i] = 0;
            for (int64_t j = 0; j < k; j++)
                y[i] += a[(in_a * m + row) * k + j] * b[(in_b * k + j) * cols + column];
        }
        operand lead_a = {type, 4, {p, q, m, k}, a, (size_t)(p * q * m * k), false, false},
                tail_a = {type, 3, {q, m, k}, a, (size_t)(q * m * k), false, false};
        operand lead_b = {type, 4, {p, q, k, cols}, b, (size_t)(p * q * k * cols), false, false},
                tail_b = {type, 3, {q, k, cols}, b, (size_t)(q * k * cols), false, false};
        operand out = {result_type(type), 4, {p, q, m, cols}, y, (size_t)(p * q * m * cols), false, false};
        expect(TV_OP_MATMUL, INPUTS(swap ? tail_a : lead_a, swap ? lead_b : tail_b), NULL, out, 0);
    }
}

static void products_by_constants_have_rows_of_weights(void **state)
{
    static double x[512], w[512], y[512], bias[16];
    unit_rng rng = {5};
    (void)state;
    for (unsigned n = 0; n < 200; n++) {
        tv_element type = types[n % REAL_TYPES];
        int64_t m = span(&rng, 0, 20), k = span(&rng, 1, 20), rows = span(&rng, 1, 16);
        fill(&rng, x, 512, true);
        fill(&rng, w, 512, true);
        fill(&rng, bias, 16, true);
        for (int64_t i = 0; i < m * rows; i++) {
            y[i] = n & 8 ? bias[i % rows] : 0;
            for (int64_t j = 0; j < k; j++)
                y[i] += x[i / rows * k + j] * w[i % rows * k + j];
        }
        operand a = {type, 3, {1, m, k}, x, (size_t)(m * k), false, false};
        operand b = {TV_ELEMENT_F32, 2, {rows, k}, w, (size_t)(rows * k), true, false};
        operand c = {TV_ELEMENT_F32, 1, {rows}, bias, (size_t)rows, true, !(n & 8)};
        operand out = {type, 3, {1, m, rows}, y, (size_t)(m * rows), false, false};
        expect(TV_OP_GEMM, INPUTS(a, b, c), NULL, out, 0);
    }
}

static void sums_of_nothing_are_zero(void **state)
{
    (void)state;
    tv_graph_lists lists = {.kernel = {1}, .stride = {1}, .dilation = {1}};
    const tv_graph_attrs attrs = {.lists = &lists, .groups = 1};
    expect(TV_OP_MATMUL, INPUTS(ZEROS(F32, DIMS(2, 0)), ZEROS(F32, DIMS(0, 2))), NULL, ZEROS(F32, DIMS(2, 2)), 0);
    expect(TV_OP_CONV, INPUTS(ZEROS(F32, DIMS(1, 0, 2)), ZEROS(F32, DIMS(2, 0, 1)), TENSOR(F32, DIMS(2), 3, 4)), &attrs,
           TENSOR(F32, DIMS(1, 2, 2), 3, 3, 4, 4), 0);
    expect(TV_OP_CONV, INPUTS(ZEROS(F32, DIMS(1, 1, 2)), ZEROS(F32, DIMS(0, 1, 1))), &attrs, ZEROS(F32, DIMS(1, 0, 2)),
           0);
    expect(TV_OP_CONV_TRANSPOSE, INPUTS(ZEROS(F32, DIMS(1, 0, 2)), ZEROS(F32, DIMS(0, 2, 1))), &attrs,
           ZEROS(F32, DIMS(1, 2, 2)), 0);
}

/* ---- Bits ---- */

static float canonical_total(const float p[8])
{
    return ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]));
}

static operand random_operand(unit_rng *rng, uint32_t rank, const int64_t *dims, bool constant)
{
    operand o = {.element = TV_ELEMENT_F32, .rank = rank, .constant = constant, .count = 1};
    for (uint32_t i = 0; i < rank; i++) {
        o.dims[i] = dims[i];
        o.count *= (size_t)dims[i];
    }
    double *values = malloc(o.count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < o.count; i++)
        values[i] = (double)(((float)unit_below(rng, 20000) - 10000) * 1e-4f);
    o.values = values;
    return o;
}

/* Requires the same bits from one thread and from three. */
static tv_tensor compute_on_threads(tv_graph_op op, const operand *inputs, size_t count, const tv_graph_attrs *attrs)
{
    tv_tensor one = compute_operator(op, inputs, count, attrs, 1),
              three = compute_operator(op, inputs, count, attrs, 3);
    assert_memory_equal(one.data, three.data, tv_tensor_bytes(&one));
    tv_tensor_fini(&three);
    return one;
}

/* The canonical sum of products, of element (image, o, i, j) of a convolution with a square kernel. */
static float convolve_at(const operand *x, const operand *w, const tv_graph_lists *l, int64_t groups, const int64_t *to)
{
    float p[8] = {0};
    int64_t in = w->dims[1], kernel = w->dims[2], first = to[1] / (w->dims[0] / groups) * in, term = 0;
    for (int64_t c = 0; c < in; c++)
        for (int64_t k = 0; k < kernel * kernel; k++, term++) {
            int64_t i = to[2] * l->stride[0] + k / kernel - l->pad_begin[0],
                    j = to[3] * l->stride[1] + k % kernel - l->pad_begin[1];
            bool inside = i >= 0 && i < x->dims[2] && j >= 0 && j < x->dims[3];
            int64_t from = ((to[0] * x->dims[1] + first + c) * x->dims[2] + i) * x->dims[3] + j;
            volatile float product =
                (inside ? (float)x->values[from] : 0) * (float)w->values[(to[1] * in + c) * kernel * kernel + k];
            p[term % 8] += product;
        }
    return canonical_total(p);
}

static void convolutions_have_the_canonical_order_on_any_number_of_threads(void **state)
{
    static const int64_t cases[][6] = {/* channels, extent, output channels, kernel, stride, groups */
                                       {5, 23, 70, 3, 1, 1}, {20, 11, 17, 1, 2, 1}, {6, 40, 6, 3, 1, 6},
                                       {6, 41, 12, 5, 2, 6}, {4, 60, 4, 3, 3, 4},   {4, 9, 6, 3, 1, 2}};
    unit_rng rng = {6};
    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        const int64_t *c = cases[n], pad = c[3] / 2;
        tv_graph_lists lists = {.kernel = {c[3], c[3]},
                                .stride = {c[4], c[4]},
                                .dilation = {1, 1},
                                .pad_begin = {pad, pad},
                                .pad_end = {pad, 0}};
        operand x = random_operand(&rng, 4, (int64_t[]){2, c[0], c[1], c[1]}, false);
        operand w = random_operand(&rng, 4, (int64_t[]){c[2], c[0] / c[5], c[3], c[3]}, true);
        tv_tensor y =
            compute_on_threads(TV_OP_CONV, INPUTS(x, w), &(tv_graph_attrs){.lists = &lists, .groups = (uint32_t)c[5]});
        for (int64_t i = 0; i < (int64_t)tv_tensor_count(&y); i++) {
            int64_t to[4] = {i / (y.dims[1] * y.dims[2] * y.dims[3]), i / (y.dims[2] * y.dims[3]) % y.dims[1],
                             i / y.dims[3] % y.dims[2], i % y.dims[3]};
            assert_true(((const float *)y.data)[i] == convolve_at(&x, &w, &lists, c[5], to));
        }
        tv_tensor_fini(&y);
        free((void *)(uintptr_t)x.values);
        free((void *)(uintptr_t)w.values);
    }
}

static void products_have_the_canonical_order_on_any_number_of_threads(void **state)
{
    unit_rng rng = {7};
    (void)state;
    enum { M = 33, K = 29, N = 300 };
    operand a = random_operand(&rng, 2, (int64_t[]){M, K}, false),
            b = random_operand(&rng, 2, (int64_t[]){K, N}, false);
    operand w = random_operand(&rng, 2, (int64_t[]){N, K}, true);
    tv_tensor y = compute_on_threads(TV_OP_MATMUL, INPUTS(a, b), NULL),
              z = compute_on_threads(TV_OP_GEMM, INPUTS(a, w), NULL);
    for (size_t i = 0; i < (size_t)M * N; i++) {
        float p[8] = {0}, q[8] = {0};
        for (size_t k = 0; k < K; k++) {
            volatile float product = (float)a.values[i / N * K + k] * (float)b.values[k * N + i % N];
            p[k % 8] += product;
            product = (float)a.values[i / N * K + k] * (float)w.values[i % N * K + k];
            q[k % 8] += product;
        }
        assert_true(((const float *)y.data)[i] == canonical_total(p));
        assert_true(((const float *)z.data)[i] == canonical_total(q));
    }
    tv_tensor_fini(&y);
    tv_tensor_fini(&z);
    free((void *)(uintptr_t)a.values);
    free((void *)(uintptr_t)b.values);
    free((void *)(uintptr_t)w.values);
}

/* ---- Along the last axis ---- */

static void norms_of_all_real_types(void **state)
{
    (void)state;
    const operand gain = CONSTANT(F32, DIMS(2), 1, 2), bias = CONSTANT(F32, DIMS(2), 1, -1);
    for (unsigned i = 0; i < REAL_TYPES; i++) {
        double tolerance = types[i] == TV_ELEMENT_BF16 ? 0x1p-8 : types[i] == TV_ELEMENT_F16 ? 0x1p-11 : 1e-6;
        operand x = TENSOR(F32, DIMS(2, 2), 1, 3, -2, 2), y = x;
        x.element = y.element = types[i];
        double e = exp(-2), soft[] = {e / (1 + e), 1 / (1 + e), exp(-4) / (1 + exp(-4)), 1 / (1 + exp(-4))},
               log_soft[4];
        for (unsigned k = 0; k < 4; k++)
            log_soft[k] = log(soft[k]);
        y.values = soft;
        expect(TV_OP_SOFTMAX, INPUTS(x), NULL, y, tolerance);
        y.values = log_soft;
        expect(TV_OP_LOG_SOFTMAX, INPUTS(x), NULL, y, 2 * tolerance);
        y.values = (const double[]){0, 1, 0, 1}; /* each vector is -1, 1 times its deviation */
        expect(TV_OP_LAYER_NORMALIZATION, INPUTS(x, gain, bias), NULL, y, tolerance);
        expect(TV_OP_NORM, INPUTS(x, gain, bias), &(tv_graph_attrs){.groups = 1, .subtract_mean = true}, y, tolerance);
        y.values = (const double[]){1 / sqrt(5), 6 / sqrt(5), -1, 2};
        expect(TV_OP_RMS_NORMALIZATION, INPUTS(x, gain), NULL, y, tolerance);
        y.values = (const double[]){1, 1, -1, 1};
        expect(TV_OP_NORM, INPUTS(x), &(tv_graph_attrs){.groups = 2}, y, tolerance);
    }
    expect(TV_OP_SOFTMAX, INPUTS(ZEROS(F32, DIMS(0, 3))), NULL, ZEROS(F32, DIMS(0, 3)), 0);
    expect(TV_OP_SOFTMAX, INPUTS(ZEROS(F32, DIMS(3, 0))), NULL, ZEROS(F32, DIMS(3, 0)), 0);
    expect(TV_OP_LOG_SOFTMAX, INPUTS(ZEROS(F32, DIMS(3, 0))), NULL, ZEROS(F32, DIMS(3, 0)), 0);
    expect(TV_OP_SOFTMAX, INPUTS(TENSOR(F32, SCALAR, 5)), NULL, TENSOR(F32, SCALAR, 1), 0);
}

/* ---- Rejected nodes ---- */

static void windows_that_do_not_fit_are_rejected(void **state)
{
    (void)state;
    static const char window[] = "the window is not valid",
                      channels[] = "the channels are not those of the weights and groups";
    const operand x = ZEROS(F32, DIMS(1, 4, 5)), w = ZEROS(F32, DIMS(2, 4, 3)), flat = ZEROS(F32, DIMS(4, 5));
    const tv_graph_lists good = {.kernel = {3}, .stride = {1}, .dilation = {1}};
    tv_graph_lists lists = good;
    const tv_graph_attrs attrs = {.lists = &lists, .groups = 1}, none = {.lists = &lists},
                         two = {.lists = &lists, .groups = 2};
    expect_rejection(TV_OP_MAX_POOL, INPUTS(x), NULL, window);
    expect_rejection(TV_OP_MAX_POOL, INPUTS(flat), &attrs,
                     "the input has not one to three axes after batch and channels");
    expect_rejection(TV_OP_CONV, INPUTS(x, ZEROS(F32, DIMS(2, 4))), &attrs, "the weights do not fit the input");
    expect_rejection(TV_OP_CONV, INPUTS(x, ZEROS(F32, DIMS(2, 4, 2))), &attrs, "the weights do not fit the input");
    expect_rejection(TV_OP_CONV, INPUTS(x, ZEROS(F16, DIMS(2, 4, 3))), &attrs, "the weights do not fit the input");
    expect_rejection(TV_OP_CONV, INPUTS(x, w), &none, "the weights do not fit the input");
    expect_rejection(TV_OP_CONV, INPUTS(x, w), &two, channels);
    expect_rejection(TV_OP_CONV, INPUTS(x, ZEROS(F32, DIMS(3, 2, 3))), &two, channels);
    expect_rejection(TV_OP_CONV, INPUTS(x, w, ZEROS(F32, DIMS(3))), &attrs,
                     "the bias has not one value for each channel");
    expect_rejection(TV_OP_CONV, INPUTS(x, w, ZEROS(F32, SCALAR)), &attrs,
                     "the bias has not one value for each channel");
    expect_rejection(TV_OP_CONV, INPUTS(x, w, ZEROS(F32, DIMS(2)), x), &attrs, "the residual has another shape");
    expect_rejection(TV_OP_CONV, INPUTS(x, w, ZEROS(I32, DIMS(2))), &attrs, "an input is no real number");
    expect_rejection(TV_OP_CONV, INPUTS(ZEROS(BOOL, DIMS(1, 4, 5)), w), &attrs, "an input is no real number");
    expect_rejection(TV_OP_CONV, INPUTS(ZEROS(I8, DIMS(1, 4, 5)), w), &attrs, "the inputs are not all of integers");
    expect_rejection(TV_OP_CONV_TRANSPOSE, INPUTS(x, w), &attrs, channels);
    expect_rejection(TV_OP_CONV_TRANSPOSE, INPUTS(x, ZEROS(F32, DIMS(4, 1, 3))), &none,
                     "the weights do not fit the input");
    expect_rejection(TV_OP_CONV_TRANSPOSE, INPUTS(flat, w), &attrs,
                     "the input has not one to three axes after batch and channels");
    expect_rejection(TV_OP_AVERAGE_POOL, INPUTS(ZEROS(I8, DIMS(1, 4, 5))), &attrs, "an input is no real number");
    lists.pad_begin[0] = 10;
    expect_rejection(TV_OP_CONV_TRANSPOSE, INPUTS(x, ZEROS(F32, DIMS(4, 1, 3))), &attrs,
                     "the padding removes the whole output");
    lists.pad_begin[0] = 3;
    expect_rejection(TV_OP_MAX_POOL, INPUTS(x), &attrs, "the padding is not smaller than the window");
    lists.pad_begin[0] = 2;
    lists.pad_end[0] = 3;
    expect_rejection(TV_OP_LP_POOL, INPUTS(x), &attrs, "the padding is not smaller than the window");
    lists = good;
    lists.kernel[0] = 6;
    expect_rejection(TV_OP_MAX_POOL, INPUTS(x), &attrs, "the window is larger than the input");
    int64_t *const members[] = {lists.kernel,    lists.stride,  lists.dilation,
                                lists.pad_begin, lists.pad_end, lists.output_padding};
    for (unsigned i = 0; i < 12; i++) {
        lists = good;
        *members[i / 2] = i % 2 ? INT32_MAX : i / 2 < 3 ? 0 : -1;
        expect_rejection(TV_OP_MAX_POOL, INPUTS(x), &attrs, window);
    }
}

static void products_of_integers_that_have_none_are_rejected(void **state)
{
    (void)state;
    const operand x = ZEROS(I8, DIMS(2, 4)), w = CONSTANT(F32, DIMS(1, 4), 1, 2, 3, 4),
                  v = CONSTANT(F32, DIMS(4), 1, 2, 3, 4);
    static const char text[] = "an input is no real number", fit[] = "the shapes of the matrices do not fit each other";
    expect_rejection(TV_OP_GEMM, INPUTS(x, w), NULL, text);
    expect_rejection(TV_OP_LINEAR, INPUTS(ZEROS(F32, DIMS(2, 4)), w, LEFT_OUT, ZEROS(I8, DIMS(2, 1))), NULL, text);
    expect_rejection(TV_OP_SOFTMAX, INPUTS(x), NULL, text);
    expect_rejection(TV_OP_LOG_SOFTMAX, INPUTS(ZEROS(BOOL, DIMS(2))), NULL, text);
    expect_rejection(TV_OP_RMS_NORMALIZATION, INPUTS(x, v), NULL, text);
    expect_rejection(TV_OP_ROTARY_EMBEDDING, INPUTS(ZEROS(F16, DIMS(2, 4))), NULL, "an input is not of binary32");
    expect_rejection(TV_OP_MATMUL, INPUTS(x, ZEROS(U8, DIMS(4, 2))), NULL, fit);
    expect_rejection(TV_OP_MATMUL, INPUTS(x, x), NULL, fit);
    expect_rejection(TV_OP_MATMUL, INPUTS(x, ZEROS(I8, DIMS(4))), NULL, fit);
    expect_rejection(TV_OP_MATMUL, INPUTS(ZEROS(I8, DIMS(2, 2, 4)), ZEROS(I8, DIMS(3, 4, 2))), NULL, fit);
    expect_rejection(TV_OP_GEMM, INPUTS(TENSOR(F32, SCALAR, 1), CONSTANT(F32, DIMS(1, 1), 1)), NULL,
                     "the columns of the matrix are not those of the input");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_of_all_types_are_exact_for_small_integers),
        cmocka_unit_test(transposed_convolutions_add_where_convolutions_read),
        cmocka_unit_test(pools_of_all_types_see_what_is_inside),
        cmocka_unit_test(partial_windows_are_pools_of_what_is_left),
        cmocka_unit_test(windows_of_padding_take_no_time),
        cmocka_unit_test(fused_activations_follow_bias_and_residual),
        cmocka_unit_test(products_repeat_leading_axes),
        cmocka_unit_test(products_by_constants_have_rows_of_weights),
        cmocka_unit_test(sums_of_nothing_are_zero),
        cmocka_unit_test(convolutions_have_the_canonical_order_on_any_number_of_threads),
        cmocka_unit_test(products_have_the_canonical_order_on_any_number_of_threads),
        cmocka_unit_test(norms_of_all_real_types),
        cmocka_unit_test(windows_that_do_not_fit_are_rejected),
        cmocka_unit_test(products_of_integers_that_have_none_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
