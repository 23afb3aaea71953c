/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on rows that one instruction cannot do. They are composed of CVO functions and of products with selections
 * of the identity, piece by piece, through work buffers in L2: a word for a scalar, then a piece.
 *
 * CVO adds to its destination before it rounds, so functions that would lose all digits in a difference keep them:
 * exp(x) - 1 is one instruction. */
#include "lower/pccx/state.h"

/* ---- Pieces ---- */

bool pccx_lower_next_piece(const pccx_lowering *l, uint32_t columns, bool by_row, pccx_lower_piece *p)
{
    uint32_t rows = l->row_end - l->row_first, words = pccx_lower_l2_size(columns);
    if (columns % PCCX_LOWER_LANES == 0 && !by_row) { /* all rows as one */
        uint32_t at = p->word * PCCX_LOWER_LANES + p->length, end = rows * columns;
        *p = (pccx_lower_piece){l->row_first, at, at / PCCX_LOWER_LANES, end - at < l->piece ? end - at : l->piece};
        return at < end;
    }
    uint32_t at = p->column + p->length, row = p->length ? p->row : l->row_first;
    if (at == columns) {
        row++;
        at = 0;
    }
    *p = (pccx_lower_piece){row, at, (row - l->row_first) * words + at / PCCX_LOWER_LANES,
                            columns - at < l->piece ? columns - at : l->piece};
    return row < l->row_end;
}

uint32_t pccx_lower_work_buffer(pccx_lowering *l)
{
    l->work_next = (l->work_next + 1) % PCCX_LOWER_WORK_BUFFERS;
    return l->plan.work + l->work_next * (1 + pccx_lower_l2_size(l->piece));
}

/* ---- Scaling ---- */

static void scale_piece(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t scalar, uint32_t length, unsigned flags)
{
    uint32_t x = pccx_lower_work_buffer(l);
    pccx_lower_move(l, x, scalar, 1);
    pccx_lower_move(l, x + 1, in, length);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, out, x, length, flags);
}

void pccx_lower_scale(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t scalar, uint32_t length, unsigned flags)
{
    for (uint32_t i = 0; i < length; i += l->piece)
        scale_piece(l, out + pccx_lower_l2_size(i), in + pccx_lower_l2_size(i), scalar,
                    length - i < l->piece ? length - i : l->piece, flags);
}

void pccx_lower_cvo_row(pccx_lowering *l, pccx_insn insn, uint32_t out, uint32_t in, uint32_t length, unsigned flags)
{
    for (uint32_t i = 0; i < length; i += PCCX_LOWER_LENGTH_MAX)
        pccx_lower_cvo(l, insn, out + pccx_lower_l2_size(i), in + pccx_lower_l2_size(i),
                       length - i < PCCX_LOWER_LENGTH_MAX ? length - i : PCCX_LOWER_LENGTH_MAX, flags);
}

void pccx_lower_product_of_rows(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t factors, uint32_t length)
{
    for (uint32_t i = 0; i < length && out != in; i += PCCX_LOWER_LENGTH_MAX)
        pccx_lower_move(l, out + pccx_lower_l2_size(i), in + pccx_lower_l2_size(i),
                        length - i < PCCX_LOWER_LENGTH_MAX ? length - i : PCCX_LOWER_LENGTH_MAX);
    pccx_lower_cvo_row(l, (pccx_insn)PCCX_LOWER_PRODUCT, out, factors, length, 0);
}

/* ---- Functions ---- */

/* tanh(x) = 1 / (1 + 1 / (e / 2)) with e = exp(2 x) - 1, which keeps its digits near 0. */
static void emit_tanh(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t length)
{
    uint32_t e = pccx_lower_work_buffer(l), x = pccx_lower_work_buffer(l);
    scale_piece(l, x, in, pccx_lower_common_scalar(l, PCCX_COMMON_TWO), length, 0);
    pccx_lower_move(l, e, pccx_lower_common_scalar(l, PCCX_COMMON_HALF), 1);
    pccx_lower_move(l, e + 1, l->plan.minus_ones, length);
    pccx_lower_cvo(l, PCCX_CVO_EXP, e + 1, x, length, PCCX_LOWER_ACCM);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, e + 1, e, length, 0);
    pccx_lower_move(l, x, l->plan.ones, length);
    pccx_lower_cvo(l, PCCX_CVO_RECIP, x, e + 1, length, PCCX_LOWER_ACCM);
    pccx_lower_cvo(l, PCCX_CVO_RECIP, out, x, length, 0);
}

/* sigmoid(x) = 1 / (1 + exp(-x)) */
static void emit_sigmoid(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t length)
{
    uint32_t e = pccx_lower_work_buffer(l), x = pccx_lower_work_buffer(l);
    scale_piece(l, x, in, pccx_lower_common_scalar(l, PCCX_COMMON_MINUS_ONE), length, 0);
    pccx_lower_move(l, e, l->plan.ones, length);
    pccx_lower_cvo(l, PCCX_CVO_EXP, e, x, length, PCCX_LOWER_ACCM);
    pccx_lower_cvo(l, PCCX_CVO_RECIP, out, e, length, 0);
}

/* max(x, 0): GELU far from 0 is x or 0. */
static void emit_relu(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t length)
{
    uint32_t x = pccx_lower_work_buffer(l);
    scale_piece(l, x + 1, in, pccx_lower_common_scalar(l, PCCX_COMMON_HUGE), length, 0);
    pccx_lower_cvo(l, PCCX_CVO_GELU, x + 1, x + 1, length, 0);
    pccx_lower_move(l, x, pccx_lower_common_scalar(l, PCCX_COMMON_TINY), 1);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, out, x, length, 0);
}

void pccx_lower_function(pccx_lowering *l, tv_activation function, uint32_t out, uint32_t in, uint32_t length)
{
    static void (*const emitters[TV_ACTIVATIONS])(pccx_lowering * l, uint32_t out, uint32_t in, uint32_t length) = {
        [TV_ACTIVATION_RELU] = emit_relu, [TV_ACTIVATION_SIGMOID] = emit_sigmoid, [TV_ACTIVATION_TANH] = emit_tanh};
    if (!emitters[function]) { /* the two of GELU */
        pccx_lower_cvo_row(l, PCCX_CVO_GELU, out, in, length, 0);
        return;
    }
    for (uint32_t i = 0; i < length; i += l->piece)
        emitters[function](l, out + pccx_lower_l2_size(i), in + pccx_lower_l2_size(i),
                           length - i < l->piece ? length - i : l->piece);
}

/* ---- Selection ---- */

/* One product with rows of the identity: lane `to` + i of `out` is lane `from` + i of `in`, i < count. Lanes before
 * `to` are added to. Activations are rounded to 8 bits: a second product adds what was lost. */
static void select_lanes(pccx_lowering *l, uint32_t out, uint32_t to, uint32_t in, uint32_t from, uint32_t count)
{
    uint32_t rows = to + count, columns = pccx_lower_padded(from + count), x = pccx_lower_work_buffer(l);
    uint64_t scale_bytes = (uint64_t)pccx_lower_l2_size(rows) * PCCX_LOWER_WORD_BYTES;
    pccx_lower_move(l, x, in, columns);
    pccx_lower_multiply(l, x, in, l->map.minus_ones, l->map.identity, columns, false, true);
    for (unsigned i = 0; i < 2; i++) {
        pccx_lower_stream(l, false, l->map.ones, scale_bytes);
        if (to)
            pccx_lower_stream(l, false, l->map.zeros, (uint64_t)to * PCCX_LOWER_BEAT_BYTES);
        pccx_lower_stream(l, false, l->map.identity + (uint64_t)from * PCCX_LOWER_BEAT_BYTES,
                          (uint64_t)count * PCCX_LOWER_BEAT_BYTES);
        pccx_lower_gemv(l, out, i ? x : in, rows, columns, i || to ? PCCX_LOWER_ACCM : 0);
    }
}

/* Whole words are moved; the rest is scaled by 1, because CVO clears the lanes past its length. */
static void copy_aligned(pccx_lowering *l, uint32_t out, uint32_t in, uint32_t length)
{
    uint32_t whole = length / PCCX_LOWER_LANES;
    if (whole)
        pccx_lower_move(l, out, in, whole * PCCX_LOWER_LANES);
    if (length % PCCX_LOWER_LANES)
        scale_piece(l, out + whole, in + whole, pccx_lower_common_scalar(l, PCCX_COMMON_ONE), length % PCCX_LOWER_LANES,
                    0);
}

void pccx_lower_copy_elements(pccx_lowering *l, uint32_t out, uint32_t to, uint32_t in, uint32_t from, uint32_t length)
{
    enum { COUNT_MAX = PCCX_LOWER_BLOCK - PCCX_LOWER_LANES };
    while (length && (to % PCCX_LOWER_LANES || from % PCCX_LOWER_LANES)) {
        uint32_t lane = to % PCCX_LOWER_LANES, room = lane ? PCCX_LOWER_LANES - lane : COUNT_MAX,
                 count = length < room ? length : room;
        select_lanes(l, out + to / PCCX_LOWER_LANES, lane, in + from / PCCX_LOWER_LANES, from % PCCX_LOWER_LANES,
                     count);
        to += count;
        from += count;
        length -= count;
    }
    if (length)
        copy_aligned(l, out + to / PCCX_LOWER_LANES, in + from / PCCX_LOWER_LANES, length);
}
