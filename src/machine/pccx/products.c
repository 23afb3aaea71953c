/* SPDX-License-Identifier: Apache-2.0 */
/* Results go directly to L2, because nothing can fail once the activations are packed. */
#include "machine/pccx/products.h"

#include "machine/pccx/vectors.h"
#include "num/float.h"

enum {
    BEAT_BYTES = TV_S4_BEAT / 2,
    LINE = 64,         /* bytes of a cache line */
    VECTOR_BLOCK = 64, /* weight rows per task for one vector */
    PANEL_AHEAD = 8192 /* bytes from short rows to those that are prefetched: the next product's usually follow */
};

/* ---- The weight stream ---- */

typedef struct stream_position {
    const tv_descriptor *at;
    uint64_t offset;
} stream_position;

/* The next `bytes` of the stream. NULL: they are in several descriptors. */
static const uint8_t *read_contiguous(const pccx_machine *m, stream_position *s, uint64_t bytes)
{
    if (s->offset == s->at->bytes)
        *s = (stream_position){s->at + 1, 0};
    if (s->at->bytes - s->offset < bytes)
        return NULL;
    const uint8_t *p = m->host.bytes + s->at->addr + s->offset;
    s->offset += bytes;
    return p;
}

bool pccx_find_product(pccx_machine *m, const pccx_op *op, pccx_product *p)
{
    stream_position stream = {op->weights, op->weights_offset};
    const size_t beats = tv_ceil_div(op->k, TV_S4_BEAT), row_bytes = beats * BEAT_BYTES;
    const tv_gemm_panel_set *panel = op->m >= PCCX_PANEL_ROWS_MIN ? tv_gemm_panel(m->level) : NULL;
    const uint8_t *scales = NULL, *weights;
    if (op->src == PCCX_TAG_FIFO || op->dst == PCCX_TAG_FIFO || m->values || (op->m > 1 && !panel))
        return false;
    if (pccx_MATRIX_w_scale(op->word) &&
        !(scales = read_contiguous(m, &stream, tv_ceil_div(op->n, PCCX_LANES) * PCCX_WORD_BYTES)))
        return false;
    if (!(weights = read_contiguous(m, &stream, op->n * row_bytes)))
        return false;
    const size_t ahead = TV_PANEL_PAIR * row_bytes;
    *p = (pccx_product){.gemv = {.weights = weights,
                                 .beats = beats,
                                 .rows = op->n,
                                 .scales = scales,
                                 .add = op->accumulate,
                                 .out = pccx_l2_at(m, op->dst),
                                 .ahead = !panel                ? TV_GEMV_AHEAD
                                          : ahead < PANEL_AHEAD ? PANEL_AHEAD
                                                                : (ptrdiff_t)ahead},
                        .panel = panel,
                        .m = op->m,
                        .k = beats * TV_S4_BEAT,
                        .step = tv_ceil_div(op->n, PCCX_LANES) * PCCX_LANES};
    return true;
}

/* ---- Activations ---- */

static size_t round_up_to_lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static size_t packed_bytes(const pccx_product *p)
{
    return p->panel ? round_up_to_lines(tv_gemm_panel_packed_bytes(p->m, p->k))
                    : tv_gemm_s4s8_packed_bytes(p->gemv.beats);
}

static size_t offset_bytes(const pccx_product *p)
{
    return p->panel ? round_up_to_lines(tv_gemm_panel_offset_count(p->m, p->k, p->k) * sizeof *p->offsets) : 0;
}

static size_t scale_bytes(const pccx_product *p)
{
    return p->panel ? round_up_to_lines(p->m * sizeof *p->row_scales) : 0;
}

size_t pccx_packed_memory(const pccx_product *p) { return packed_bytes(p) + offset_bytes(p) + scale_bytes(p); }

size_t pccx_quantized_memory(const pccx_product *p) { return p->panel ? round_up_to_lines(p->m * p->k) : 0; }

/* Section 4: q = clamp(RNE(x / s), -127, 127). Binary32 holds the quotient of two BF16 numbers, 8 bits each, closely
 * enough that its rounding to an integer of 7 bits is that of the exact quotient. */
static bool pack_rows(pccx_machine *m, const pccx_op *op, pccx_product *p, int8_t *q, uint8_t *memory)
{
    int8_t *packed = (int8_t *)memory;
    int32_t *offsets = (int32_t *)(void *)(memory + packed_bytes(p));
    float *row_scales = (float *)(void *)((uint8_t *)offsets + offset_bytes(p));
    for (size_t r = 0; r < p->m; r++) {
        const uint8_t *row = pccx_l2_at(m, op->src + r * tv_ceil_div(op->k, PCCX_LANES));
        tv_quantized_row quantized;
        m->quantize(row, op->k, op->act_scale, false, q + r * p->k, &quantized);
        if (!tv_bf16_is_finite(quantized.absmax))
            return false;
        row_scales[r] = quantized.scale;
    }
    p->panel->pack(q, p->m, p->k, 4, TV_PANEL_SCALED, packed, offsets);
    p->packed = packed;
    p->offsets = offsets;
    p->row_scales = row_scales;
    return true;
}

bool pccx_pack_product(pccx_machine *m, const pccx_op *op, pccx_product *p, uint8_t *quantized, uint8_t *packed)
{
    if (p->panel)
        return pack_rows(m, op, p, (int8_t *)quantized, packed);
    tv_quantized_row q;
    m->quantize(pccx_l2_at(m, op->src), op->k, op->act_scale, true, (int8_t *)packed, &q);
    if (!tv_bf16_is_finite(q.absmax))
        return false;
    p->gemv.packed = (int8_t *)packed;
    p->gemv.sum = q.sum;
    p->gemv.vector_scale = q.scale;
    return true;
}

/* ---- Results ---- */

static void multiply_panels(const pccx_product *p, size_t first, size_t end)
{
    tv_gemm_panel_weights w = {p->gemv.weights, 4, p->k, p->gemv.beats * BEAT_BYTES, p->gemv.ahead};
    uint16_t *y = (uint16_t *)(void *)p->gemv.out;
    for (size_t i = 0; i < p->m; i += TV_PANEL_M_MAX, w.ahead = 0) /* prefetched once */
        for (size_t j = first; j < end; j += TV_PANEL_PAIR) {
            float scales[TV_PANEL_PAIR];
            size_t count = tv_min_u64(end - j, TV_PANEL_PAIR);
            for (size_t r = 0; r < count; r++)
                scales[r] = p->gemv.scales ? tv_bf16_to_f32(tv_load_le16(p->gemv.scales + 2 * (j + r))) : 1;
            p->panel->multiply_scaled(&w, j, count, p->packed + tv_gemm_panel_packed_bytes(i, p->k), p->offsets + i,
                                      tv_min_u64(p->m - i, TV_PANEL_M_MAX), p->row_scales + i, scales, p->gemv.add,
                                      y + i * p->step + j, p->step);
        }
}

void pccx_multiply_product(tv_gemv_scaled_fn *multiply_rows, const pccx_product *p, size_t first, size_t end)
{
    if (p->panel) {
        multiply_panels(p, first, end);
        return;
    }
    tv_gemv_scaled_args rows = tv_gemv_scaled_slice(&p->gemv, first, end);
    multiply_rows(&rows);
}

typedef struct product_task {
    tv_gemv_scaled_fn *multiply_rows;
    const pccx_product *product;
} product_task;

static void multiply_blocks(const product_task *t, uint64_t from, uint64_t to, size_t block)
{
    pccx_multiply_product(t->multiply_rows, t->product, from * block, tv_min_u64(to * block, t->product->gemv.rows));
}

/* Two tasks, because the pool measures how long each takes. */
static void multiply_vector_blocks(void *user, uint64_t from, uint64_t to)
{
    multiply_blocks(user, from, to, VECTOR_BLOCK);
}

static void multiply_panel_blocks(void *user, uint64_t from, uint64_t to)
{
    multiply_blocks(user, from, to, TV_PANEL_PAIR);
}

bool pccx_execute_product(pccx_machine *m, const pccx_op *op)
{
    pccx_product p;
    uint8_t *memory =
        pccx_find_product(m, op, &p) ? pccx_scratch(m, pccx_packed_memory(&p) + pccx_quantized_memory(&p)) : NULL;
    if (!memory || !pccx_pack_product(m, op, &p, memory + pccx_packed_memory(&p), memory))
        return false;
    product_task task = {m->multiply_rows, &p};
    tv_pool *pool = op->macs < PCCX_PARALLEL_MIN_MACS ? NULL : m->pool;
    if (p.panel)
        tv_pool_run(pool, tv_ceil_div(op->n, TV_PANEL_PAIR), multiply_panel_blocks, &task);
    else
        tv_pool_run(pool, tv_ceil_div(op->n, VECTOR_BLOCK), multiply_vector_blocks, &task);
    for (size_t r = 0; r < p.m; r++)
        pccx_clear_padding(p.gemv.out + r * p.step * sizeof(uint16_t), op->n);
    return true;
}
