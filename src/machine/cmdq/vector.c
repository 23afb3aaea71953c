/* SPDX-License-Identifier: Apache-2.0 */
/* Vector engines (CMDQ specification, section 4): rows of binary32, functions rounded once, sums in the canonical
 * order. */
#include <math.h>

#include "kernels/dot.h"
#include "kernels/elements.h"
#include "kernels/functions.h"
#include "machine/cmdq/exec.h"
#include "num/func.h"

/* A row: n values at x become n values at y. */
typedef struct row {
    const float *x;
    float *y;
    const float *second, *gamma, *beta; /* or NULL */
    const float *turns;                 /* ROPE: cosines, then sines, of this row */
    uint64_t n;
} row;

static void norm_row(const cmdq_run *r, const row *w, bool centred)
{
    float count = (float)w->n, mean = centred ? tv_sum_f32(w->x, w->n) / count : 0;
    for (uint64_t i = 0; i < w->n; i++)
        w->y[i] = centred ? w->x[i] - mean : w->x[i];
    float square = tv_dot_f32(w->y, w->y, w->n) / count;
    float scale = tv_func_f32(TV_FUNC_RSQRT, square + cmdq_get_real(r, CMDQ_F_eps));
    tv_elements_multiply(w->y, w->n, scale);
    if (w->gamma)
        tv_elements_product(w->y, w->gamma, w->n, w->y);
    if (w->beta)
        tv_elements_add(w->y, w->beta, w->n, w->y);
}

static void softmax_row(const cmdq_run *r, const row *w)
{
    uint64_t valid = cmdq_has(r->queue, r->entry, CMDQ_F_valid_length) ? cmdq_get(r, CMDQ_F_valid_length) : w->n;
    tv_elements_shift(w->x, valid, tv_elements_max(w->x, valid), cmdq_get_real(r, CMDQ_F_temperature),
                      w->y); /* a NaN makes all of it NaN */
    tv_func_f32_row(TV_FUNC_EXP, w->y, valid, w->y);
    tv_elements_divide(w->y, valid, tv_sum_f32(w->y, valid));
    for (uint64_t i = valid; i < w->n; i++)
        w->y[i] = 0;
}

/* Cosines, then sines, of the angles of a position. */
static void find_turns(uint64_t position, uint64_t half, double theta, float *turns)
{
    for (uint64_t i = 0; i < half; i++) {
        double angle = (double)position * pow(theta, -2.0 * (double)i / (double)(2 * half));
        turns[i] = tv_func_f32_of_angle(TV_FUNC_COS, angle);
        turns[half + i] = tv_func_f32_of_angle(TV_FUNC_SIN, angle);
    }
}

/* The same for each row, in scratch; what is asked for often, as layers do, is remembered. NULL: no memory. */
static const float *turns_of_rows(cmdq_run *r, unsigned which)
{
    cmdq_rope_entry *known = r->memories->turns;
    uint64_t head = cmdq_get(r, CMDQ_F_head_dim), first = cmdq_get(r, CMDQ_F_position);
    double theta = (double)cmdq_get_real(r, CMDQ_F_theta);
    float *out = cmdq_scratch(r, which, r->op->m * head * sizeof *out);
    for (uint64_t i = 0; i < r->op->m && out; i++) {
        cmdq_rope_entry *t = &known[(first + i) % CMDQ_ROPE_ENTRIES];
        if (head > CMDQ_ROPE_HEAD_MAX) {
            find_turns(first + i, head / 2, theta, out + i * head);
            continue;
        }
        if (t->head != head || t->position != first + i || t->theta != theta) {
            *t = (cmdq_rope_entry){.head = head, .position = first + i, .theta = theta};
            find_turns(first + i, head / 2, theta, t->of);
        }
        memcpy(out + i * head, t->of, head * sizeof *out);
    }
    return out;
}

static void rope_row(const cmdq_run *r, const row *w)
{
    uint64_t head = cmdq_get(r, CMDQ_F_head_dim), half = head / 2;
    bool apart = cmdq_get(r, CMDQ_F_pairing) == CMDQ_PAIRING_HALF;
    for (uint64_t h = 0; h < w->n; h += head)
        tv_elements_rotate(w->x + h, w->turns, w->turns + half, half, apart, w->y + h);
}

static void function_row(const row *w, tv_func func) { tv_func_f32_row(func, w->x, w->n, w->y); }

static void compute_row(const cmdq_run *r, const row *w)
{
    switch (r->op->opcode) {
    case CMDQ_VE_LAYERNORM_TILE:
        norm_row(r, w, true);
        break;
    case CMDQ_VE_RMSNORM_TILE:
        norm_row(r, w, false);
        break;
    case CMDQ_VE_SOFTMAX_TILE:
        softmax_row(r, w);
        break;
    case CMDQ_VE_GELU_TILE:
        function_row(w, cmdq_get(r, CMDQ_F_approximation) == CMDQ_GELU_TANH ? TV_FUNC_GELU_TANH : TV_FUNC_GELU);
        break;
    case CMDQ_VE_SILU_TILE:
        function_row(w, TV_FUNC_SILU);
        break;
    case CMDQ_VE_ROPE_TILE:
        rope_row(r, w);
        break;
    case CMDQ_VE_ADD_TILE:
        tv_elements_add(w->x, w->second, w->n, w->y);
        break;
    case CMDQ_VE_MUL_TILE:
        tv_elements_product(w->x, w->second, w->n, w->y);
        break;
    default:
        memcpy(w->y, w->x, w->n * sizeof *w->y);
        break; /* CAST */
    }
}

static const float *operand_of(cmdq_run *r, cmdq_operand operand, uint64_t count, float scale, unsigned which)
{
    return cmdq_numbers(r, cmdq_find_tile(r->op, operand), count, scale, which);
}

typedef struct rows_work {
    const cmdq_run *run;
    row first;
    uint64_t head;  /* ROPE */
    uint64_t total; /* elements of all rows */
    float scale_out;
    unsigned qbits;
    uint8_t *out; /* where they are packed; NULL: when all are there */
} rows_work;

static void end_rows(const rows_work *work, float *y, uint64_t count, uint8_t *out)
{
    if (work->scale_out != 1)
        tv_elements_divide(y, count, work->scale_out);
    cmdq_pack(y, work->qbits, count, out);
}

static void compute_rows(void *user, uint64_t from, uint64_t to)
{
    enum { SHORT = 1024 };
    const rows_work *work = user;
    float few[SHORT]; /* results that stay in the first cache until they are packed */
    for (uint64_t i = from; i < to; i++) {
        row w = work->first;
        uint64_t at = i * w.n;
        w.x += at;
        w.y = work->out && w.n <= SHORT ? few : w.y + at;
        if (w.second)
            w.second += at;
        if (w.turns)
            w.turns += i * work->head;
        w.n = tv_min_u64(w.n, work->total - at);
        compute_row(work->run, &w);
        if (work->out)
            end_rows(work, w.y, w.n, work->out + at * work->qbits / 8);
    }
}

/* Whether each element is by itself, so that rows may be cut anywhere. */
static bool is_elementwise(cmdq_opcode opcode)
{
    return opcode == CMDQ_VE_GELU_TILE || opcode == CMDQ_VE_SILU_TILE || opcode == CMDQ_VE_ADD_TILE ||
           opcode == CMDQ_VE_MUL_TILE || opcode == CMDQ_VE_CAST_TILE;
}

/* Whether a row of results may stand before the next one's inputs are read: they are elsewhere, or each in its own
 * place. */
static bool is_apart(const cmdq_tile *out, const cmdq_tile *in)
{
    return cmdq_are_apart(out, in) || (in->start == out->start && in->bytes == out->bytes && in->qbits == out->qbits);
}

static bool packs_by_rows(const cmdq_op *op, const cmdq_tile *out)
{
    return out->qbits >= 8 && is_apart(out, cmdq_find_tile(op, CMDQ_IN)) &&
           is_apart(out, cmdq_find_tile(op, CMDQ_IN2)) && cmdq_are_apart(out, cmdq_find_tile(op, CMDQ_GAMMA)) &&
           cmdq_are_apart(out, cmdq_find_tile(op, CMDQ_BETA));
}

/* Pieces of work that are done before other threads have joined. */
static bool is_small(cmdq_opcode opcode, uint64_t total)
{
    enum { SMALL = 1 << 14, SMALL_FUNCTIONS = 1 << 11 };
    return total < (opcode == CMDQ_VE_GELU_TILE || opcode == CMDQ_VE_SILU_TILE || opcode == CMDQ_VE_SOFTMAX_TILE
                        ? SMALL_FUNCTIONS
                        : SMALL);
}

/* Elements that stand by themselves are worked on in pieces that stay in the first cache. */
static void compute(cmdq_run *r, rows_work *work)
{
    enum { PIECE = 512 };
    cmdq_opcode opcode = r->op->opcode;
    if (is_elementwise(opcode))
        work->first.n = PIECE;
    tv_pool_run(is_small(opcode, work->total) ? NULL : r->memories->pool, tv_ceil_div(work->total, work->first.n),
                compute_rows, work);
}

void cmdq_vector(cmdq_run *r)
{
    uint64_t n = r->op->k, total = r->op->m * n;
    const float *x = operand_of(r, CMDQ_IN, total, cmdq_get_real(r, CMDQ_F_scale_in), 0);
    const float *second = operand_of(r, CMDQ_IN2, total, cmdq_get_real(r, CMDQ_F_scale_in2), 1);
    const float *gamma = operand_of(r, CMDQ_GAMMA, n, 1, 2), *beta = operand_of(r, CMDQ_BETA, n, 1, 4);
    const cmdq_tile *out = cmdq_find_tile(r->op, CMDQ_OUT);
    float *y = cmdq_scratch(r, 3, total * sizeof *y);
    rows_work work = {.run = r,
                      .first = {.x = x, .y = y, .second = second, .gamma = gamma, .beta = beta, .n = n},
                      .total = total,
                      .scale_out = cmdq_get_real(r, CMDQ_F_scale_out),
                      .qbits = out->qbits};
    if (r->op->opcode == CMDQ_VE_ROPE_TILE && !r->no_memory) {
        work.first.turns = turns_of_rows(r, 7);
        work.head = cmdq_get(r, CMDQ_F_head_dim);
    }
    if (r->no_memory)
        return;
    if (packs_by_rows(r->op, out))
        work.out = cmdq_bytes(r, out);
    compute(r, &work);
    if (!work.out)
        end_rows(&work, y, total, cmdq_bytes(r, out));
}
