/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations on whole tiles: pooling and resizing of images [height][width][channels], transposition. Values are
 * binary32; each operation is rounded. */
#include <math.h>

#include "kernels/dot.h"
#include "kernels/elements.h"
#include "machine/cmdq/functions.h"
#include "machine/cmdq/ops.h"

/* An operation whose results are computed in tasks: pixels, or rows of the output. */
typedef struct tile_task {
    const float *in;
    float *out;
    const cmdq_op *op;
    const void *shape; /* of the operation */
} tile_task;

/* Runs `tasks` tasks and packs the results. */
static void run_tile(cmdq_exec *x, const void *shape, uint64_t inputs, uint64_t tasks,
                     void (*compute)(void *task, uint64_t from, uint64_t to))
{
    const cmdq_op *op = x->op;
    uint64_t results = op->m * op->n;
    const cmdq_tile *out = cmdq_find_tile(op, CMDQ_OUT);
    float scale_in = cmdq_exec_real(x, CMDQ_F_scale_in), scale_out = cmdq_exec_real(x, CMDQ_F_scale_out);
    tile_task t = {.op = op, .shape = shape};
    t.in = cmdq_tile_f32(x, cmdq_find_tile(op, CMDQ_IN), inputs, scale_in, CMDQ_SCRATCH_A);
    t.out = cmdq_scratch(x, CMDQ_SCRATCH_OUT, results * sizeof *t.out);
    if (cmdq_is_out_of_memory(x))
        return;
    tv_pool_run(results < CMDQ_TASK_FEW ? NULL : x->memories->pool, tasks, compute, &t);
    if (scale_out != 1)
        tv_elements_div_scalar(t.out, results, scale_out);
    cmdq_append_results(x, t.out, 0, results);
    tv_elements_pack(t.out, results, out->qbits, cmdq_tile_bytes(x, out));
}

/* ---- Transposition ---- */

/* Tasks are rows of the output. */
static void transpose_rows(void *task, uint64_t from, uint64_t to)
{
    const tile_task *t = task;
    uint64_t rows = t->op->m, length = t->op->k;
    for (uint64_t j = from; j < to; j++)
        for (uint64_t i = 0; i < rows; i++)
            t->out[j * rows + i] = t->in[i * length + j];
}

void cmdq_exec_transpose(cmdq_exec *x) { run_tile(x, NULL, x->op->m * x->op->k, x->op->k, transpose_rows); }

/* ---- Pooling ---- */

/* The kernel along one side of the input. */
typedef struct window {
    uint64_t in, kernel, stride, dilation, pad;
} window;

/* Kernel elements from `first` up to `end` are inside the input, the first at `start`. */
typedef struct window_span {
    uint64_t first, end, start;
} window_span;

typedef struct pool_shape {
    window height, width;
    uint64_t out_w;
    bool average, count_all;
} pool_shape;

static window_span span_of(const window *w, uint64_t position)
{
    uint64_t at = position * w->stride, missing = w->pad > at ? w->pad - at : 0;
    window_span s = {.first = tv_min_u64(tv_ceil_div(missing, w->dilation), w->kernel)};
    uint64_t start = at + s.first * w->dilation - w->pad; /* not used if nothing is inside */
    uint64_t left = s.first < w->kernel && start < w->in ? tv_ceil_div(w->in - start, w->dilation) : 0;
    s.start = start;
    s.end = s.first + tv_min_u64(left, w->kernel - s.first);
    return s;
}

/* One result: channel `in[0]` of an image with `channels` channels. */
static float pool_element(const pool_shape *p, const float *in, uint64_t channels, window_span rows,
                          window_span columns)
{
    tv_sum8 sum = {{0}};
    float max = -INFINITY;
    for (uint64_t r = rows.first; r < rows.end; r++)
        for (uint64_t c = columns.first; c < columns.end; c++) {
            uint64_t row = rows.start + (r - rows.first) * p->height.dilation,
                     column = columns.start + (c - columns.first) * p->width.dilation;
            float value = in[(row * p->width.in + column) * channels];
            if (p->average)
                tv_sum8_add(&sum, r * p->width.kernel + c, value);
            else
                max = cmdq_maximum(max, value);
        }
    uint64_t inside = (rows.end - rows.first) * (columns.end - columns.first);
    uint64_t count = p->count_all ? p->height.kernel * p->width.kernel : inside;
    return p->average ? tv_sum8_total(&sum) / (float)count : max;
}

/* Tasks are pixels of the output. */
static void pool_pixels(void *task, uint64_t from, uint64_t to)
{
    const tile_task *t = task;
    const pool_shape *p = t->shape;
    uint64_t channels = t->op->n;
    for (uint64_t i = from; i < to; i++) {
        window_span rows = span_of(&p->height, i / p->out_w), columns = span_of(&p->width, i % p->out_w);
        for (uint64_t c = 0; c < channels; c++)
            t->out[i * channels + c] = pool_element(p, t->in + c, channels, rows, columns);
    }
}

void cmdq_exec_pool(cmdq_exec *x)
{
    bool has_right = cmdq_has_field(x->queue, x->entry, CMDQ_F_pad_right);
    pool_shape p = {.height = {cmdq_exec_integer(x, CMDQ_F_in_h), cmdq_exec_integer(x, CMDQ_F_kernel_h),
                               cmdq_exec_integer(x, CMDQ_F_stride_h), cmdq_exec_integer(x, CMDQ_F_dil_h),
                               cmdq_exec_integer(x, CMDQ_F_pad_h)},
                    .width = {cmdq_exec_integer(x, CMDQ_F_in_w), cmdq_exec_integer(x, CMDQ_F_kernel_w),
                              cmdq_exec_integer(x, CMDQ_F_stride_w), cmdq_exec_integer(x, CMDQ_F_dil_w),
                              cmdq_exec_integer(x, CMDQ_F_pad_w)},
                    .average = cmdq_exec_integer(x, CMDQ_F_pool_function) == CMDQ_POOL_AVG,
                    .count_all = cmdq_exec_integer(x, CMDQ_F_count_include_pad)};
    uint64_t padded = p.width.in + p.width.pad +
                      (has_right ? cmdq_exec_integer(x, CMDQ_F_pad_right) : cmdq_exec_integer(x, CMDQ_F_pad_w));
    p.out_w = (padded - p.width.dilation * (p.width.kernel - 1) - 1) / p.width.stride + 1;
    run_tile(x, &p, x->op->input_count, x->op->m, pool_pixels);
}

/* ---- Resizing ---- */

/* One side of a resized image. */
typedef struct resize_side {
    uint64_t in, out;
} resize_side;

typedef struct resize_shape {
    resize_side height, width;
    uint64_t coordinates, nearest; /* coordinate_mode, nearest_mode */
    bool linear;
} resize_shape;

/* The coordinate in the input is low + remainder / unit, with the remainder below the unit; at most in - 1. */
typedef struct coordinate {
    uint64_t low, remainder, unit;
} coordinate;

static coordinate coordinate_of(const resize_shape *s, resize_side side, uint64_t i)
{
    uint64_t unit = side.out, scaled = i * side.in, limit = side.in - 1;
    if (s->coordinates == CMDQ_COORDINATE_HALF_PIXEL) { /* (i + 1/2) in / out - 1/2 */
        uint64_t doubled = (2 * i + 1) * side.in;
        unit = 2 * side.out;
        scaled = doubled > side.out ? doubled - side.out : 0;
    } else if (s->coordinates == CMDQ_COORDINATE_ALIGN_CORNERS) {
        unit = side.out > 1 ? side.out - 1 : 1;
        scaled = i * limit;
    }
    uint64_t cut = tv_min_u64(scaled, limit * unit);
    return (coordinate){cut / unit, cut % unit, unit};
}

static uint64_t nearest_index(const resize_shape *s, coordinate c)
{
    bool up = s->nearest == CMDQ_NEAREST_HIGH          ? c.remainder > 0
              : s->nearest == CMDQ_NEAREST_PREFER_HIGH ? 2 * c.remainder >= c.unit
              : s->nearest == CMDQ_NEAREST_PREFER_LOW  ? 2 * c.remainder > c.unit
                                                       : false;
    return c.low + up;
}

/* a (1 - f) + b f; b does not count if f is 0. */
static float interpolate(float a, float b, float f)
{
    float rest = 1 - f, low = a * rest, high = b * f;
    return f == 0 ? a : low + high;
}

static void resize_linear(const resize_shape *s, const tile_task *t, coordinate row, coordinate column, float *out)
{
    uint64_t channels = t->op->n, down = row.remainder ? s->width.in * channels : 0,
             right = column.remainder ? channels : 0;
    float fy = (float)((double)row.remainder / (double)row.unit);
    float fx = (float)((double)column.remainder / (double)column.unit);
    const float *in = t->in + (row.low * s->width.in + column.low) * channels;
    for (uint64_t c = 0; c < channels; c++) {
        float top = interpolate(in[c], in[c + right], fx);
        float bottom = interpolate(in[c + down], in[c + down + right], fx);
        out[c] = interpolate(top, bottom, fy);
    }
}

/* Tasks are pixels of the output. */
static void resize_pixels(void *task, uint64_t from, uint64_t to)
{
    const tile_task *t = task;
    const resize_shape *s = t->shape;
    uint64_t channels = t->op->n;
    for (uint64_t i = from; i < to; i++) {
        coordinate row = coordinate_of(s, s->height, i / s->width.out),
                   column = coordinate_of(s, s->width, i % s->width.out);
        float *out = t->out + i * channels;
        if (s->linear)
            resize_linear(s, t, row, column, out);
        else
            memcpy(out, t->in + (nearest_index(s, row) * s->width.in + nearest_index(s, column)) * channels,
                   channels * sizeof *out);
    }
}

void cmdq_exec_resize(cmdq_exec *x)
{
    const resize_shape s = {.height = {cmdq_exec_integer(x, CMDQ_F_in_h), cmdq_exec_integer(x, CMDQ_F_out_h)},
                            .width = {cmdq_exec_integer(x, CMDQ_F_in_w), cmdq_exec_integer(x, CMDQ_F_out_w)},
                            .coordinates = cmdq_exec_integer(x, CMDQ_F_coordinate_mode),
                            .nearest = cmdq_exec_integer(x, CMDQ_F_nearest_mode),
                            .linear = cmdq_exec_integer(x, CMDQ_F_resize_mode) == CMDQ_RESIZE_LINEAR};
    run_tile(x, &s, x->op->input_count, x->op->m, resize_pixels);
}
