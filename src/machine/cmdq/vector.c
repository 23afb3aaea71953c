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

/* The first elements of a row that count for softmax. */
static uint64_t valid_length(const cmdq_exec *x, const cmdq_row *row)
{
    if (!cmdq_has_field(x->queue, x->entry, CMDQ_F_valid_length))
        return row->n;
    uint64_t period = cmdq_exec_integer(x, CMDQ_F_valid_rows), step = cmdq_exec_integer(x, CMDQ_F_valid_step);
    uint64_t rows = period ? row->index % period : row->index;
    return tv_min_u64(row->n, cmdq_exec_integer(x, CMDQ_F_valid_length) + rows * step);
}

/* Softmax of y[start] to y[end - 1]; the other elements become 0. One NaN makes all of them NaN. */
void cmdq_compute_softmax(const cmdq_exec *x, const cmdq_row *row)
{
    uint64_t end = valid_length(x, row), window = cmdq_exec_integer(x, CMDQ_F_window);
    uint64_t start = window && window < end ? end - window : 0, valid = end - start;
    const float *in = row->x + start;
    float *out = row->y + start;
    bool exact = cmdq_exec_integer(x, CMDQ_F_softmax_form) == CMDQ_SOFTMAX_EXACT;
    float max = exact ? tv_elements_max(in, valid) : 0;
    tv_elements_sub_div(in, valid, max, cmdq_exec_real(x, CMDQ_F_temperature), out);
    tv_func_f32_row(TV_FUNC_EXP, out, valid, out);
    tv_elements_div_scalar(out, valid, tv_sum_f32(out, valid));
    memset(row->y, 0, start * sizeof *row->y);
    memset(row->y + end, 0, (row->n - end) * sizeof *row->y);
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

/* ---- All rows ---- */

/* The rows of an operation, or the pieces of elements that its tasks compute. */
typedef struct row_tasks {
    const cmdq_exec *exec;
    cmdq_row first;
    uint64_t rotary;  /* ROPE: floats of cos_sin for each row */
    uint64_t total;   /* elements of all rows */
    uint64_t results; /* of each row; 0: as many as its elements */
    bool indices;     /* results are 32-bit integers */
    float scale_out;
    unsigned qbits;
    uint8_t *out; /* the output tile, where each row is packed when it is computed; NULL: packed after all rows */
} row_tasks;

/* Packs `count` results from element `at` on. */
static void pack_output(const row_tasks *t, float *y, uint64_t at, uint64_t count, uint8_t *out)
{
    for (uint64_t i = 0; i < count && t->indices; i++)
        tv_store_le(out + 4 * i, (uint32_t)y[i], 4);
    if (t->indices)
        return;
    if (t->scale_out != 1)
        tv_elements_div_scalar(y, count, t->scale_out);
    cmdq_append_results(t->exec, y, at, count);
    tv_elements_pack(y, count, t->qbits, out);
}

static void compute_rows(void *user, uint64_t first, uint64_t end)
{
    enum { SHORT_ROW = 1024 };
    const row_tasks *t = user;
    float short_row[SHORT_ROW]; /* results stay in the first-level cache until they are packed */
    for (uint64_t i = first; i < end; i++) {
        cmdq_row row = t->first;
        uint64_t at = i * row.n, to = t->results ? i * t->results : at;
        row.index = i;
        row.x += at;
        row.y = t->out && row.n <= SHORT_ROW ? short_row : row.y + to;
        if (row.second)
            row.second += at;
        if (row.cos_sin)
            row.cos_sin += i * t->rotary;
        row.n = tv_min_u64(row.n, t->total - at);
        t->exec->op->handlers->compute(t->exec, &row);
        if (t->out)
            pack_output(t, row.y, to, t->results ? t->results : row.n, t->out + to * t->qbits / 8);
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
    tv_pool *pool = x->memories->values || t->total < handlers->task_elements ? NULL : x->memories->pool;
    tv_pool_run_tasks(pool, tv_ceil_div(t->total, t->first.n), t->total * CMDQ_OPCODES + handlers->opcode, compute_rows,
                      t);
}

static const float *load_operand(cmdq_exec *x, cmdq_operand operand, uint64_t count, float scale, cmdq_scratch_use use)
{
    return cmdq_tile_f32(x, cmdq_find_tile(x->op, operand), count, scale, use);
}

/* The second input, with one element for each of the first. */
static const float *load_second(cmdq_exec *x)
{
    const cmdq_op *op = x->op;
    uint64_t broadcast = cmdq_exec_integer(x, CMDQ_F_broadcast), total = op->m * op->k;
    uint64_t count = broadcast == CMDQ_BROADCAST_ROW      ? op->k
                     : broadcast == CMDQ_BROADCAST_COLUMN ? op->m
                     : broadcast == CMDQ_BROADCAST_SCALAR ? 1
                                                          : total;
    float scale = cmdq_exec_real(x, CMDQ_F_scale_in2);
    if (count == total || !cmdq_find_tile(op, CMDQ_IN2))
        return load_operand(x, CMDQ_IN2, total, scale, CMDQ_SCRATCH_B);
    const float *in = load_operand(x, CMDQ_IN2, count, scale, CMDQ_SCRATCH_SCALES);
    float *out = cmdq_scratch(x, CMDQ_SCRATCH_B, total * sizeof *out);
    if (!in || !out)
        return NULL;
    for (uint64_t r = 0; r < op->m; r++)
        for (uint64_t i = 0; i < op->k; i++)
            out[r * op->k + i] = in[broadcast == CMDQ_BROADCAST_ROW ? i : broadcast == CMDQ_BROADCAST_COLUMN ? r : 0];
    return out;
}

void cmdq_exec_vector(cmdq_exec *x)
{
    const cmdq_op *op = x->op;
    uint64_t n = op->k, total = op->m * n, results = op->m * op->n;
    const cmdq_tile *out = cmdq_find_tile(op, CMDQ_OUT);
    row_tasks t = {.exec = x,
                   .total = total,
                   .results = op->n == n ? 0 : op->n,
                   .indices = op->writes_indices,
                   .scale_out = cmdq_exec_real(x, CMDQ_F_scale_out),
                   .qbits = out->qbits};
    t.first.n = n;
    t.first.x = load_operand(x, CMDQ_IN, total, cmdq_exec_real(x, CMDQ_F_scale_in), CMDQ_SCRATCH_A);
    t.first.second = load_second(x);
    t.first.gamma = load_operand(x, CMDQ_GAMMA, n, 1, CMDQ_SCRATCH_ADDEND);
    t.first.beta = load_operand(x, CMDQ_BETA, n, 1, CMDQ_SCRATCH_ROW);
    float *y = t.first.y = cmdq_scratch(x, CMDQ_SCRATCH_OUT, results * sizeof *y);
    if (cmdq_has_field(x->queue, x->entry, CMDQ_F_position) && !cmdq_is_out_of_memory(x)) {
        t.first.cos_sin = cmdq_load_cos_sin(x);
        t.rotary = cmdq_rotary_dim(x);
    }
    if (cmdq_is_out_of_memory(x))
        return;
    if (can_pack_by_rows(op, out))
        t.out = cmdq_tile_bytes(x, out);
    run_row_tasks(x, &t);
    if (!t.out)
        pack_output(&t, y, 0, results, cmdq_tile_bytes(x, out));
}
