/* SPDX-License-Identifier: Apache-2.0 */
/* Relu and Clip without the SFU, which takes a cycle for each element and several functions for each of them: a GEMM
 * rounds its activations to integers from -127 to 127 and saturates. So the product with the identity, whose
 * activations have a static scale, clips numbers from -127 to 127 times the scale; a middle that is subtracted before
 * and added after it makes that any interval. Any L2 words are rows of 64 elements of such a product, which takes two
 * cycles for a row.
 *
 * The upper end of a Relu is the largest number of its calibration. The lower end of it, 0, is exact. */
#include <math.h>
#include <stdlib.h>

#include "lower/pccx/network_state.h"
#include "num/float.h"

enum {
    COLUMNS = PCCX_NET_CLIP_COLUMNS,
    ROW_WORDS = COLUMNS / PCCX_LOWER_LANES,
    ROW_BYTES = COLUMNS / 2,
    STEPS = 127,
    ROWS_OF_GEMM = 4
};

/* ---- Planning ---- */

/* The interval of an activation; false: it has none, or it is not known. */
static bool find_interval(const pccx_network *w, uint32_t node, float *low, float *high)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    bool product = n->op == TV_OP_CONV || n->op == TV_OP_LINEAR, timing = w->l.timing && !w->ranges;
    float range = w->ranges ? w->ranges[n->output] : timing ? 1 : INFINITY;
    if (n->op == TV_OP_RELU || (product && n->attrs.activation == TV_ACTIVATION_RELU)) {
        *low = 0;
        *high = INFINITY;
    } else if (n->op == TV_OP_CLIP || (product && n->attrs.activation == TV_ACTIVATION_CLIP)) {
        *low = n->attrs.alpha;
        *high = n->attrs.beta;
    } else {
        return false;
    }
    *low = fmaxf(*low, -range);
    *high = fminf(*high, range);
    return isfinite(*low) && isfinite(*high) && *high - *low > 0x1p-80F && *high - *low < 0x1p80F &&
           fabsf(*low) < 0x1p20F * (*high - *low);
}

void pccx_net_find_clips(pccx_network *w)
{
    float low, high;
    for (uint32_t i = 0; i < w->graph->nodes.count; i++) {
        const tv_graph_node *n = pccx_net_graph_node(w, i);
        pccx_net_value *v = &w->values[n->output];
        const pccx_net_clip *in = &w->values[n->inputs[0]].clip;
        if (w->nodes[i].problem || !v->on_machine)
            continue;
        if (n->op == TV_OP_MAX_POOL && in->scale && in->from_zero)
            v->clip = *in;
        if (!find_interval(w, i, &low, &high))
            continue;
        v->clip.scale = tv_bf16_from_f32((high - low) / (2 * STEPS));
        v->clip.from_zero = low == 0;
        float middle = low == 0 ? STEPS * tv_bf16_to_f32(v->clip.scale) : (low + high) / 2;
        v->clip.middle = tv_bf16_to_f32(tv_bf16_flushed_from_f32(middle));
    }
}

/* ---- Constants ---- */

tv_status pccx_net_upload_clip(pccx_network *w, uint32_t value, const tv_diag_sink *sink)
{
    pccx_net_clip *clip = &w->values[value].clip;
    float row[2][COLUMNS];
    for (uint32_t i = 0; i < COLUMNS; i++) {
        row[0][i] = -clip->middle;
        row[1][i] = clip->middle;
    }
    TV_TRY(pccx_lower_upload_bf16(&w->l, row[0], COLUMNS, &clip->down, sink));
    return pccx_lower_upload_bf16(&w->l, row[1], COLUMNS, &clip->up, sink);
}

tv_status pccx_net_upload_identity(pccx_network *w, const tv_diag_sink *sink)
{
    uint8_t rows[COLUMNS * ROW_BYTES] = {0};
    w->identity = pccx_lower_reserve(&w->l, sizeof rows);
    for (uint32_t i = 0; i < COLUMNS; i++)
        rows[i * ROW_BYTES + i / 2] = (uint8_t)(1 << i % 2 * 4);
    return w->l.timing ? TV_OK : tv_machine_write(w->l.machine, "host", w->identity, rows, sizeof rows, sink);
}

/* ---- Products with the identity ---- */

void pccx_net_multiply_small(pccx_network *w, const pccx_net_small_product *p, uint32_t out, uint32_t in)
{
    uint32_t out_words = pccx_lower_l2_size(p->n), in_words = pccx_lower_l2_size(p->k);
    for (uint32_t i = 0, m; i < p->m; i += m) {
        m = p->m < ROWS_OF_GEMM ? 1 : p->m;
        pccx_lower_stream(&w->l, m > 1, p->scales, 2 * (uint64_t)pccx_lower_padded(p->n));
        pccx_lower_stream(&w->l, m > 1, p->matrix, (uint64_t)p->n * pccx_lower_beats(p->k) * PCCX_LOWER_BEAT_BYTES);
        if (m == 1)
            pccx_lower_gemv(&w->l, out + i * out_words, in + i * in_words, p->n, p->k, p->flags);
        else
            pccx_lower_gemm(&w->l, out, in, m, p->n, p->k, p->flags);
    }
}

static void multiply_rows(pccx_network *w, uint32_t out, uint32_t in, uint32_t rows, uint32_t columns, uint64_t scales,
                          unsigned flags)
{
    pccx_net_small_product p = {.scales = scales,
                                .matrix = columns > PCCX_LOWER_BEAT_WEIGHTS ? w->identity : w->l.map.identity,
                                .m = rows,
                                .n = columns,
                                .k = columns,
                                .flags = flags};
    pccx_net_multiply_small(w, &p, out, in);
}

void pccx_net_multiply_identity(pccx_network *w, uint32_t out, uint32_t in, uint32_t rows, uint32_t columns, bool minus,
                                unsigned flags)
{
    multiply_rows(w, out, in, rows, columns, minus ? w->l.map.minus_ones : w->l.map.ones, flags);
}

void pccx_net_multiply_words(pccx_network *w, uint32_t out, uint32_t in, uint32_t words, uint64_t scales,
                             unsigned flags)
{
    uint32_t rest = words % ROW_WORDS, done = words - rest;
    multiply_rows(w, out, in, words / ROW_WORDS, COLUMNS, scales, flags);
    multiply_rows(w, out + done, in + done, rest, PCCX_LOWER_LANES, scales, flags);
}

void pccx_net_clip_words(pccx_network *w, const pccx_net_clip *clip, uint32_t x, uint32_t words)
{
    pccx_net_multiply_words(w, x, x, words, w->l.map.ones, (unsigned)clip->scale << PCCX_LOWER_SCALE_SHIFT);
}

void pccx_net_shift_words(pccx_network *w, const pccx_net_clip *clip, uint32_t x, uint32_t words, bool down)
{
    uint64_t row = down ? clip->down : clip->up;
    uint32_t rest = words % ROW_WORDS;
    pccx_net_add_row(w, x, row, words / ROW_WORDS, COLUMNS, false, true);
    pccx_net_add_row(w, x + words - rest, row, rest, PCCX_LOWER_LANES, false, true);
}

/* x + relu(y - x), where the Relu has the same interval. */
void pccx_net_clip_max(pccx_network *w, const pccx_net_clip *clip, uint32_t x, uint32_t y, uint32_t words)
{
    const uint32_t piece = PCCX_NET_PIECE / PCCX_LOWER_LANES;
    unsigned scale = (unsigned)clip->scale << PCCX_LOWER_SCALE_SHIFT;
    for (uint32_t i = 0; i < words; i += piece) {
        uint32_t count = words - i < piece ? words - i : piece, t = pccx_net_temporary(w);
        pccx_net_multiply_words(w, t, y + i, count, w->l.map.ones, scale);
        pccx_net_multiply_words(w, t, x + i, count, w->l.map.minus_ones, scale | PCCX_LOWER_ACCM);
        pccx_net_shift_words(w, clip, t, count, true);
        pccx_net_multiply_words(w, x + i, t, count, w->l.map.ones, scale | PCCX_LOWER_ACCM);
        pccx_net_shift_words(w, clip, x + i, count, false);
    }
}
