/* SPDX-License-Identifier: Apache-2.0 */
/* Vector engines (CMDQ specification, section 4): rows of binary32, functions rounded once, sums in the canonical
 * order of kernels/dot.h.
 *
 * cmdq_compute_NAME computes one row; ops.def names it. Rows are tasks of the thread pool. Rows of an elementwise
 * operation are cut into pieces that stay in the first-level cache; other rows are computed as a whole. So the result
 * does not depend on the split. */
#include <math.h>

#include "kernels/dot.h"
#include "kernels/elements.h"
#include "kernels/functions.h"
#include "machine/cmdq/ops.h"
#include "num/func.h"

/* ---- Rows ---- */

/* y = x * rsqrt(mean(x^2) + eps) * gamma + beta, in place in y. */
static void normalize_row(const cmdq_exec *x, const cmdq_row *row)
{
    float mean_square = tv_dot_f32(row->y, row->y, row->n) / (float)row->n;
    float scale = tv_func_f32(TV_FUNC_RSQRT, mean_square + cmdq_exec_real(x, CMDQ_F_eps));
    tv_elements_mul_scalar(row->y, row->n, scale);
    if (row->gamma)
        tv_elements_mul(row->y, row->gamma, row->n, row->y);
    if (row->beta)
        tv_elements_add(row->y, row->beta, row->n, row->y);
}

void cmdq_compute_layernorm(const cmdq_exec *x, const cmdq_row *row)
{
    float mean = tv_sum_f32(row->x, row->n) / (float)row->n;
    for (uint64_t i = 0; i < row->n; i++)
        row->y[i] = row->x[i] - mean;
    normalize_row(x, row);
}

void cmdq_compute_rmsnorm(const cmdq_exec *x, const cmdq_row *row)
{
    memmove(row->y, row->x, row->n * sizeof *row->y);
    normalize_row(x, row);
}

/* Softmax of the first valid_length elements; the others become 0. One NaN makes all of them NaN. */
void cmdq_compute_softmax(const cmdq_exec *x, const cmdq_row *row)
{
    bool partial = cmdq_has_field(x->queue, x->entry, CMDQ_F_valid_length);
    uint64_t valid = partial ? cmdq_exec_integer(x, CMDQ_F_valid_length) : row->n;
    bool exact = cmdq_exec_integer(x, CMDQ_F_softmax_form) == CMDQ_SOFTMAX_EXACT;
    float max = exact ? tv_elements_max(row->x, valid) : 0;
    tv_elements_sub_div(row->x, valid, max, cmdq_exec_real(x, CMDQ_F_temperature), row->y);
    tv_func_f32_row(TV_FUNC_EXP, row->y, valid, row->y);
    tv_elements_div_scalar(row->y, valid, tv_sum_f32(row->y, valid));
    for (uint64_t i = valid; i < row->n; i++)
        row->y[i] = 0;
}

void cmdq_compute_gelu(const cmdq_exec *x, const cmdq_row *row)
{
    bool tanh_form = cmdq_exec_integer(x, CMDQ_F_approximation) == CMDQ_GELU_TANH;
    tv_func_f32_row(tanh_form ? TV_FUNC_GELU_TANH : TV_FUNC_GELU, row->x, row->n, row->y);
}

void cmdq_compute_silu(const cmdq_exec *x, const cmdq_row *row)
{
    (void)x;
    tv_func_f32_row(TV_FUNC_SILU, row->x, row->n, row->y);
}

void cmdq_compute_rope(const cmdq_exec *x, const cmdq_row *row)
{
    uint64_t head = cmdq_exec_integer(x, CMDQ_F_head_dim), half = head / 2;
    bool halves = cmdq_exec_integer(x, CMDQ_F_pairing) == CMDQ_PAIRING_HALF;
    for (uint64_t h = 0; h < row->n; h += head)
        tv_elements_rotate(row->x + h, row->cos_sin, row->cos_sin + half, half, halves, row->y + h);
}

void cmdq_compute_add(const cmdq_exec *x, const cmdq_row *row)
{
    (void)x;
    tv_elements_add(row->x, row->second, row->n, row->y);
}

void cmdq_compute_mul(const cmdq_exec *x, const cmdq_row *row)
{
    (void)x;
    tv_elements_mul(row->x, row->second, row->n, row->y);
}

void cmdq_compute_cast(const cmdq_exec *x, const cmdq_row *row)
{
    (void)x;
    memcpy(row->y, row->x, row->n * sizeof *row->y);
}

/* ---- Angles of rotary embedding ---- */

/* cos_sin[i] and cos_sin[half + i] of the angle position * theta^(-i / half), for i < half. */
static void compute_cos_sin(uint64_t position, uint64_t half, double theta, float *cos_sin)
{
    for (uint64_t i = 0; i < half; i++) {
        double angle = (double)position * pow(theta, -2.0 * (double)i / (double)(2 * half));
        cos_sin[i] = tv_func_f32_of_angle(TV_FUNC_COS, angle);
        cos_sin[half + i] = tv_func_f32_of_angle(TV_FUNC_SIN, angle);
    }
}

/* out[rows][head_dim]: cosines and sines of each row's position, cached for other layers. NULL when out of memory. */
static const float *load_cos_sin(cmdq_exec *x)
{
    uint64_t head = cmdq_exec_integer(x, CMDQ_F_head_dim), first = cmdq_exec_integer(x, CMDQ_F_position);
    double theta = (double)cmdq_exec_real(x, CMDQ_F_theta);
    float *out = cmdq_scratch(x, CMDQ_SCRATCH_BIAS, x->op->m * head * sizeof *out);
    for (uint64_t i = 0; i < x->op->m && out; i++) {
        uint64_t position = first + i;
        cmdq_rope_entry *cached = &x->memories->rope_cache[position % CMDQ_ROPE_ENTRIES];
        if (head > CMDQ_ROPE_HEAD_MAX) {
            compute_cos_sin(position, head / 2, theta, out + i * head);
            continue;
        }
        if (cached->head != head || cached->position != position || cached->theta != theta) {
            *cached = (cmdq_rope_entry){.head = head, .position = position, .theta = theta};
            compute_cos_sin(position, head / 2, theta, cached->cos_sin);
        }
        memcpy(out + i * head, cached->cos_sin, head * sizeof *out);
    }
    return out;
}

/* ---- All rows ---- */

/* The rows of an operation, or the pieces of elements that its tasks compute. */
typedef struct row_tasks {
    const cmdq_exec *exec;
    cmdq_row first;
    uint64_t head;  /* ROPE */
    uint64_t total; /* elements of all rows */
    float scale_out;
    unsigned qbits;
    uint8_t *out; /* the output tile, where each row is packed when it is computed; NULL: packed after all rows */
} row_tasks;

static void pack_output(const row_tasks *t, float *y, uint64_t count, uint8_t *out)
{
    if (t->scale_out != 1)
        tv_elements_div_scalar(y, count, t->scale_out);
    cmdq_pack(y, t->qbits, count, out);
}

static void compute_rows(void *user, uint64_t from, uint64_t to)
{
    enum { SHORT_ROW = 1024 };
    const row_tasks *t = user;
    float short_row[SHORT_ROW]; /* results stay in the first-level cache until they are packed */
    for (uint64_t i = from; i < to; i++) {
        cmdq_row row = t->first;
        uint64_t at = i * row.n;
        row.x += at;
        row.y = t->out && row.n <= SHORT_ROW ? short_row : row.y + at;
        if (row.second)
            row.second += at;
        if (row.cos_sin)
            row.cos_sin += i * t->head;
        row.n = tv_min_u64(row.n, t->total - at);
        t->exec->op->handlers->compute(t->exec, &row);
        if (t->out)
            pack_output(t, row.y, row.n, t->out + at * t->qbits / 8);
    }
}

/* Whether a row of `out` may be written before later rows of `in`, which may be NULL, are read: they are disjoint, or
 * row by row in the same bytes. */
static bool is_row_independent(const cmdq_tile *out, const cmdq_tile *in)
{
    return cmdq_are_disjoint(out, in) ||
           (in->start == out->start && in->bytes == out->bytes && in->qbits == out->qbits);
}

static bool can_pack_by_rows(const cmdq_op *op, const cmdq_tile *out)
{
    return out->qbits >= 8 && is_row_independent(out, cmdq_find_tile(op, CMDQ_IN)) &&
           is_row_independent(out, cmdq_find_tile(op, CMDQ_IN2)) &&
           cmdq_are_disjoint(out, cmdq_find_tile(op, CMDQ_GAMMA)) &&
           cmdq_are_disjoint(out, cmdq_find_tile(op, CMDQ_BETA));
}

static void run_row_tasks(cmdq_exec *x, row_tasks *t)
{
    enum { PIECE = 512 };
    const cmdq_handlers *handlers = x->op->handlers;
    if (handlers->split == CMDQ_SPLIT_ELEMENTS)
        t->first.n = PIECE;
    tv_pool *pool = t->total < handlers->task_elements ? NULL : x->memories->pool;
    tv_pool_run(pool, tv_ceil_div(t->total, t->first.n), compute_rows, t);
}

static const float *load_operand(cmdq_exec *x, cmdq_operand operand, uint64_t count, float scale, cmdq_scratch_use use)
{
    return cmdq_tile_f32(x, cmdq_find_tile(x->op, operand), count, scale, use);
}

void cmdq_exec_vector(cmdq_exec *x)
{
    const cmdq_op *op = x->op;
    uint64_t n = op->k, total = op->m * n;
    const cmdq_tile *out = cmdq_find_tile(op, CMDQ_OUT);
    row_tasks t = {.exec = x, .total = total, .scale_out = cmdq_exec_real(x, CMDQ_F_scale_out), .qbits = out->qbits};
    t.first.n = n;
    t.first.x = load_operand(x, CMDQ_IN, total, cmdq_exec_real(x, CMDQ_F_scale_in), CMDQ_SCRATCH_A);
    t.first.second = load_operand(x, CMDQ_IN2, total, cmdq_exec_real(x, CMDQ_F_scale_in2), CMDQ_SCRATCH_B);
    t.first.gamma = load_operand(x, CMDQ_GAMMA, n, 1, CMDQ_SCRATCH_ADDEND);
    t.first.beta = load_operand(x, CMDQ_BETA, n, 1, CMDQ_SCRATCH_ROW);
    float *y = t.first.y = cmdq_scratch(x, CMDQ_SCRATCH_OUT, total * sizeof *y);
    if (cmdq_has_field(x->queue, x->entry, CMDQ_F_position) && !cmdq_is_out_of_memory(x)) {
        t.first.cos_sin = load_cos_sin(x);
        t.head = cmdq_exec_integer(x, CMDQ_F_head_dim);
    }
    if (cmdq_is_out_of_memory(x))
        return;
    if (can_pack_by_rows(op, out))
        t.out = cmdq_tile_bytes(x, out);
    run_row_tasks(x, &t);
    if (!t.out)
        pack_output(&t, y, total, cmdq_tile_bytes(x, out));
}
