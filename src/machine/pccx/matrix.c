/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV and GEMM (pccx specification, section 4): y[m][n] = (q[m][k] * w[n][k]^T) * row_scale[m] * scale[n] (+ y), with
 * INT8 activations q that are quantized here per row, and INT4 weights w from the weight stream.
 *
 * Sums of products are exact integers; each further operation is rounded once, in the order of the specification, so
 * that the result does not depend on the kernels or on threads. Three strategies give the same bits: panels for many
 * activation rows, blocks of weight rows for few, and for one vector whose weights are contiguous a fused kernel.
 *
 * Everything that can fail happens before the first write to L2 or a FIFO: a fault changes nothing. */
#include <stdio.h>

#include "kernels/bf16.h"
#include "kernels/quantize.h"
#include "machine/pccx/vectors.h"
#include "num/float.h"

/* ---- The weight stream ---- */

enum { BEAT_BYTES = TV_S4_BEAT / 2 };

/* A position in the stream of an operation. */
typedef struct stream_reader {
    const pccx_machine *machine;
    const tv_descriptor *at;
    uint64_t offset;
    uint8_t joined[BEAT_BYTES]; /* a beat whose bytes are in several descriptors */
} stream_reader;

static stream_reader open_stream(const pccx_machine *m, const pccx_op *op)
{
    return (stream_reader){.machine = m, .at = op->weights, .offset = op->weights_offset};
}

static const uint8_t *host_at(const stream_reader *s) { return s->machine->host.bytes + s->at->addr + s->offset; }

/* The next contiguous run of at most `max` beats of 16 bytes; its length in *count. Valid until the next call. */
static const uint8_t *read_beats(stream_reader *s, size_t max, size_t *count)
{
    uint64_t here = (s->at->bytes - s->offset) / BEAT_BYTES;
    if (here > 0) {
        *count = here < max ? (size_t)here : max;
        const uint8_t *p = host_at(s);
        s->offset += *count * BEAT_BYTES;
        return p;
    }
    *count = 1;
    for (unsigned i = 0; i < BEAT_BYTES; i++) {
        while (s->offset == s->at->bytes) {
            s->at++;
            s->offset = 0;
        }
        s->joined[i] = *host_at(s);
        s->offset++;
    }
    return s->joined;
}

/* scales[i] = the next n BF16 numbers of the stream, which end with a beat. */
static void read_scales(stream_reader *s, uint32_t n, float *scales)
{
    size_t left = (n + 7) / 8, count;
    for (uint32_t i = 0; left > 0; left -= count) {
        const uint8_t *p = read_beats(s, left, &count);
        for (size_t lane = 0; lane < count * 8 && i < n; lane++, i++)
            scales[i] = tv_bf16_to_f32(tv_load_le16(p + 2 * lane));
    }
}

/* The next rows of `beats` beats, at most `max` of them, contiguous; their number in *rows. A row that is in several
 * descriptors is assembled in `row`. Valid until the next call. */
static const uint8_t *read_rows(stream_reader *s, size_t beats, size_t max, uint8_t *row, size_t *rows)
{
    size_t count, here = (size_t)((s->at->bytes - s->offset) / BEAT_BYTES / beats);
    *rows = here < max ? here : max;
    if (*rows > 0)
        return read_beats(s, *rows * beats, &count);
    *rows = 1;
    for (size_t done = 0; done < beats; done += count) {
        const uint8_t *p = read_beats(s, beats - done, &count);
        memcpy(row + BEAT_BYTES * done, p, BEAT_BYTES * count);
    }
    return row;
}

/* The next `bytes` of the stream. NULL: they are in several descriptors. */
static const uint8_t *read_contiguous(stream_reader *s, uint64_t bytes)
{
    if (s->offset == s->at->bytes) {
        s->at++;
        s->offset = 0;
    }
    if (s->at->bytes - s->offset < bytes)
        return NULL;
    const uint8_t *p = host_at(s);
    s->offset += bytes;
    return p;
}

/* ---- Scratch memory ---- */

enum {
    WEIGHT_BLOCK = 256,         /* weight rows multiplied at a time without panels */
    PANEL_MIN_ROWS = 4,         /* activation rows from which on panels are faster */
    VECTOR_BLOCK = 64,          /* weight rows per task for one vector */
    PARALLEL_MIN_MACS = 1 << 18 /* below, waking another thread takes longer than the work */
};

typedef struct matrix_memory {
    const tv_gemm_panel_set *panel; /* NULL: few activation rows, or the host has no such kernels */
    size_t beats;                   /* of a row of k elements */
    uint16_t *x;                    /* [k] the activations, if they are in the direct FIFO */
    int8_t *q;                      /* [m][k in whole beats] quantized, for panels */
    int8_t *packed;                 /* all rows as tv_gemm_s4s8_pack or the panel's packing leaves them */
    size_t stride;                  /* bytes between rows of `packed` */
    float *row_scale, *scale;       /* [m], [n] */
    int32_t *sum;                   /* [m] of each row of q; for panels its offsets */
    int32_t *acc;                   /* [WEIGHT_BLOCK][m] exact sums; not for panels */
    uint8_t *row;                   /* one weight row */
    uint16_t *y;                    /* [m][n] results, in rows y_step apart */
    size_t y_step;
    bool direct; /* y is the destination in L2 */
} matrix_memory;

static void *carve(uint8_t **p, size_t bytes)
{
    uint8_t *at = *p;
    *p += (bytes + 63) / 64 * 64;
    return at;
}

static size_t padded_elements(size_t n) { return tv_ceil_div(n, PCCX_LANES) * PCCX_LANES; }

static bool alloc_matrix(pccx_machine *m, const pccx_op *op, matrix_memory *mem)
{
    mem->beats = tv_ceil_div(op->k, TV_S4_BEAT);
    size_t rows = op->m, padded = mem->beats * TV_S4_BEAT;
    mem->panel = rows >= PANEL_MIN_ROWS ? tv_gemm_panel(m->level) : NULL;
    mem->direct = mem->panel && op->dst != PCCX_TAG_FIFO && !m->values;
    size_t outputs = mem->direct ? 0 : rows * op->n;
    mem->stride = tv_gemm_s4s8_packed_bytes(mem->beats);
    size_t q = mem->panel ? rows * padded : 0,
           packed = mem->panel ? tv_gemm_panel_packed_bytes(rows, padded) : rows * mem->stride;
    size_t sums = mem->panel ? tv_gemm_panel_offset_count(rows, padded, padded) : rows,
           acc = mem->panel ? 0 : rows * WEIGHT_BLOCK;
    uint8_t *p = pccx_scratch(m, q + packed + 4 * (sums + acc + rows + op->n) + 2 * (size_t)op->k + padded / 2 +
                                     2 * outputs + 9 * 64);
    if (!p)
        return false;
    mem->x = carve(&p, op->k * 2);
    mem->q = carve(&p, q);
    mem->packed = carve(&p, packed);
    mem->row_scale = carve(&p, rows * sizeof(float));
    mem->sum = carve(&p, sums * sizeof(int32_t));
    mem->acc = carve(&p, acc * sizeof(int32_t));
    mem->scale = carve(&p, op->n * sizeof(float));
    mem->row = carve(&p, padded / 2);
    mem->y = mem->direct ? (uint16_t *)(void *)pccx_l2_at(m, op->dst) : carve(&p, outputs * 2);
    mem->y_step = mem->direct ? padded_elements(op->n) : op->n;
    return true;
}

/* ---- Activations ---- */

/* Activation row r, BF16 in little endian: in L2, or copied from the direct FIFO to `x`. */
static const uint8_t *activation_row(pccx_machine *m, const pccx_op *op, uint32_t r, uint16_t *x)
{
    if (op->src != PCCX_TAG_FIFO)
        return pccx_l2_at(m, op->src + r * tv_ceil_div(op->k, PCCX_LANES));
    uint8_t *bytes = (uint8_t *)(void *)x;
    pccx_load_vector(m, op->src, PCCX_FIFO_TO_GEMV, op->k, x);
    for (uint32_t i = 0; i < op->k; i++)
        tv_store_le(bytes + 2 * i, x[i], 2);
    return bytes;
}

/* Rejects row r, of which an activation is not finite. */
static bool reject_row(const uint8_t *row, uint32_t r, pccx_rejection *why)
{
    uint32_t i = 0;
    while (tv_bf16_is_finite(tv_load_le16(row + 2 * i)))
        i++;
    uint16_t x = tv_load_le16(row + 2 * i);
    why->code = PCCX_CODE_NON_FINITE;
    snprintf(why->message, sizeof why->message, "activation %u of row %u is %s (0x%04x)", i, r,
             tv_bf16_is_nan(x) ? "NaN" : "infinite", x);
    return false;
}

/* q = clamp(RNE(x / s), -127, 127), packed. Binary32 holds the quotient of two BF16 numbers, 8 bits each, closely
 * enough that its rounding to an integer of 7 bits is that of the exact quotient. */
static bool load_activations(pccx_machine *m, const pccx_op *op, matrix_memory *mem, pccx_rejection *why)
{
    size_t padded = mem->beats * TV_S4_BEAT;
    for (uint32_t r = 0; r < op->m; r++) {
        const uint8_t *row = activation_row(m, op, r, mem->x);
        tv_quantized_row q = m->quantize(row, op->k, op->act_scale, !mem->panel,
                                         mem->panel ? mem->q + r * padded : mem->packed + r * mem->stride);
        if (!tv_bf16_is_finite(q.absmax))
            return reject_row(row, r, why);
        mem->row_scale[r] = q.scale;
        if (!mem->panel)
            mem->sum[r] = q.sum;
    }
    if (mem->panel)
        mem->panel->pack(mem->q, op->m, padded, 4, false, mem->packed, mem->sum);
    return true;
}

/* ---- e_max ---- */

/* The larger number; NaN loses against every number, and +0 is above -0. */
static uint16_t max_bf16(uint16_t a, uint16_t b)
{
    if (tv_bf16_is_nan(a))
        return b;
    if (tv_bf16_is_nan(b))
        return a;
    float x = tv_bf16_to_f32(a), y = tv_bf16_to_f32(b);
    return x > y || (x == y && !tv_bf16_is_negative(a)) ? a : b;
}

static uint16_t find_max_rows(const uint16_t *y, size_t m, size_t n, size_t step)
{
    uint16_t e_max = TV_BF16_NAN;
    for (size_t r = 0; r < m; r++)
        for (size_t i = 0; i < n; i++)
            e_max = max_bf16(e_max, y[r * step + i]);
    return e_max;
}

/* The same of BF16 stored in L2. */
static uint16_t find_max_stored(const uint8_t *y, size_t n)
{
    uint16_t e_max = TV_BF16_NAN;
    for (size_t i = 0; i < n; i++)
        e_max = max_bf16(e_max, tv_load_le16(y + 2 * i));
    return e_max;
}

/* ---- Blocks of weight rows ---- */

/* Weight rows `first` to `first` + `rows`. */
typedef struct product {
    const pccx_op *op;
    const matrix_memory *mem;
    tv_values *values; /* inner values; NULL: not asked for */
    tv_gemm_s4s8_fn *multiply;
    const uint8_t *weights;
    size_t rows;
    uint32_t first;
} product;

/* The exact sum of an output and its product with both scales, 8 significant bits each, which binary64 has exactly. */
static void append_inner(tv_values *values, uint64_t element, int32_t sum, double scale)
{
    tv_values_integer(values, "sum", element, sum);
    tv_values_real(values, "scaled", element, sum * scale);
}

/* Section 4 step 5: y[r][first + from + i] from its exact sum acc[i * step], for i < count. */
static void scale_outputs(const product *p, uint32_t r, const int32_t *acc, size_t step, size_t from, size_t count)
{
    const matrix_memory *mem = p->mem;
    uint16_t *y = mem->y + r * mem->y_step + p->first + from;
    for (size_t i = 0; p->values && i < count; i++)
        append_inner(p->values, r * (uint64_t)p->op->n + p->first + from + i, acc[i * step],
                     (double)mem->row_scale[r] * (double)mem->scale[p->first + from + i]);
    tv_bf16_scale(acc, step, mem->row_scale[r], mem->scale + p->first + from, p->op->accumulate ? y : NULL, count, y);
}

/* Task: weight rows `from` to `to` of the block. */
static void multiply_rows(void *user, uint64_t from, uint64_t to)
{
    const product *p = user;
    const matrix_memory *mem = p->mem;
    uint32_t m = p->op->m;
    int32_t *acc = mem->acc + from * m;
    p->multiply(p->weights + from * mem->beats * BEAT_BYTES, mem->beats, to - from, mem->packed, mem->stride, mem->sum,
                m, acc);
    for (uint32_t r = 0; r < m; r++)
        scale_outputs(p, r, acc + r, m, from, to - from);
}

/* Task: pairs of panels `from` to `to` of the block. */
static void multiply_panels(void *user, uint64_t from, uint64_t to)
{
    const product *p = user;
    const matrix_memory *mem = p->mem;
    const tv_gemm_panel_weights w = {p->weights, 4, mem->beats * TV_S4_BEAT, mem->beats * BEAT_BYTES};
    int32_t exact[TV_PANEL_M_MAX * TV_PANEL_PAIR];
    for (uint32_t i = 0; i < p->op->m; i += TV_PANEL_M_MAX)
        for (size_t j = from * TV_PANEL_PAIR; j < tv_min_u64(p->rows, to * TV_PANEL_PAIR); j += TV_PANEL_PAIR) {
            size_t inputs = tv_min_u64(p->op->m - i, TV_PANEL_M_MAX), count = tv_min_u64(p->rows - j, TV_PANEL_PAIR);
            const int8_t *packed = mem->packed + tv_gemm_panel_packed_bytes(i, w.k);
            if (!p->values) {
                mem->panel->multiply_scaled(&w, j, count, packed, mem->sum + i, inputs, mem->row_scale + i,
                                            mem->scale + p->first + j, p->op->accumulate,
                                            mem->y + i * mem->y_step + p->first + j, mem->y_step);
                continue;
            }
            mem->panel->multiply(&w, j, count, packed, mem->sum + i, inputs, exact);
            for (size_t r = 0; r < inputs; r++)
                scale_outputs(p, i + (uint32_t)r, exact + r * TV_PANEL_PAIR, 1, j, count);
        }
}

/* mem->y = all results. */
static void multiply_blocks(pccx_machine *m, const pccx_op *op, const matrix_memory *mem)
{
    stream_reader stream = open_stream(m, op);
    product p = {.op = op, .mem = mem, .values = m->values, .multiply = m->multiply};
    for (uint32_t n = 0; n < op->n; n++)
        mem->scale[n] = 1.0f;
    if (pccx_MATRIX_w_scale(op->word))
        read_scales(&stream, op->n, mem->scale);
    for (uint32_t r = 0; r < op->m && op->accumulate && !mem->direct; r++)
        pccx_load_lanes(m, op->dst + r * tv_ceil_div(op->n, PCCX_LANES), op->n, mem->y + r * mem->y_step);
    for (; p.first < op->n; p.first += (uint32_t)p.rows) {
        size_t left = op->n - p.first, max = mem->panel || left < WEIGHT_BLOCK ? left : WEIGHT_BLOCK;
        p.weights = read_rows(&stream, mem->beats, max, mem->row, &p.rows);
        tv_pool *pool = m->values || p.rows * op->m * (uint64_t)op->k < PARALLEL_MIN_MACS ? NULL : m->pool;
        if (mem->panel)
            tv_pool_run(pool, tv_ceil_div(p.rows, TV_PANEL_PAIR), multiply_panels, &p);
        else
            tv_pool_run(pool, p.rows, multiply_rows, &p);
    }
}

/* Stores mem->y, which nothing can prevent any more; where y is the destination, only zeros after each row. */
static void store_outputs(pccx_machine *m, const pccx_op *op, const matrix_memory *mem)
{
    if (op->src == PCCX_TAG_FIFO)
        pccx_pop_fifo(m, PCCX_FIFO_TO_GEMV, op->k);
    for (uint32_t r = 0; r < op->m; r++) {
        uint64_t dst = op->dst == PCCX_TAG_FIFO ? PCCX_TAG_FIFO : op->dst + r * tv_ceil_div(op->n, PCCX_LANES);
        if (mem->direct)
            pccx_clear_padding(pccx_l2_at(m, dst), op->n);
        else
            pccx_store_vector(m, (uint32_t)dst, PCCX_FIFO_TO_SFU, mem->y + (size_t)r * op->n, op->n);
    }
    if (pccx_MATRIX_findemax(op->word))
        m->e_max = find_max_rows(mem->y, op->m, op->n, mem->y_step);
}

/* ---- One vector, L2 to L2, whose weights are contiguous ---- */

typedef struct vector_product {
    tv_gemv_scaled_fn *multiply;
    const tv_gemv_scaled_args *all;
} vector_product;

/* Task: blocks `from` to `to` of VECTOR_BLOCK weight rows. */
static void multiply_vector_blocks(void *user, uint64_t from, uint64_t to)
{
    const vector_product *p = user;
    tv_gemv_scaled_args rows =
        tv_gemv_scaled_slice(p->all, from * VECTOR_BLOCK, tv_min_u64(to * VECTOR_BLOCK, p->all->rows));
    p->multiply(&rows);
}

bool pccx_find_rows(pccx_machine *m, const pccx_op *op, tv_gemv_scaled_args *rows)
{
    stream_reader stream = open_stream(m, op);
    *rows = (tv_gemv_scaled_args){.beats = tv_ceil_div(op->k, TV_S4_BEAT),
                                  .rows = op->n,
                                  .add = op->accumulate,
                                  .out = pccx_l2_at(m, op->dst),
                                  .ahead = TV_GEMV_AHEAD};
    if (pccx_MATRIX_w_scale(op->word)) {
        rows->scales = read_contiguous(&stream, tv_ceil_div(op->n, PCCX_LANES) * PCCX_WORD_BYTES);
        if (!rows->scales)
            return false;
    }
    rows->weights = read_contiguous(&stream, (uint64_t)op->n * rows->beats * BEAT_BYTES);
    return rows->weights != NULL;
}

bool pccx_pack_activations(pccx_machine *m, const pccx_op *op, int8_t *packed, tv_gemv_scaled_args *rows)
{
    tv_quantized_row q = m->quantize(pccx_l2_at(m, op->src), op->k, op->act_scale, true, packed);
    rows->packed = packed;
    rows->sum = q.sum;
    rows->vector_scale = q.scale;
    return tv_bf16_is_finite(q.absmax);
}

/* Results go directly to L2, because nothing can fail any more. False: the scales or the weights are not contiguous, an
 * activation is not finite, or there is no memory; nothing has changed. */
static bool multiply_vector(pccx_machine *m, const pccx_op *op)
{
    tv_gemv_scaled_args rows;
    int8_t *packed = pccx_find_rows(m, op, &rows) ? pccx_scratch(m, tv_gemm_s4s8_packed_bytes(rows.beats)) : NULL;
    if (!packed || !pccx_pack_activations(m, op, packed, &rows))
        return false;
    vector_product p = {m->multiply_rows, &rows};
    tv_pool *pool = (uint64_t)op->n * op->k < PARALLEL_MIN_MACS ? NULL : m->pool;
    tv_pool_run(pool, tv_ceil_div(op->n, VECTOR_BLOCK), multiply_vector_blocks, &p);
    pccx_clear_padding(rows.out, op->n);
    if (pccx_MATRIX_findemax(op->word))
        m->e_max = find_max_stored(rows.out, op->n);
    return true;
}

/* ---- Instructions ---- */

static bool execute_matrix(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    matrix_memory mem;
    bool uses_fifo = op->src == PCCX_TAG_FIFO || op->dst == PCCX_TAG_FIFO;
    if (op->m == 1 && !uses_fifo && !m->values && multiply_vector(m, op))
        return true;
    if (!alloc_matrix(m, op, &mem))
        return pccx_reject_memory(why);
    if (!load_activations(m, op, &mem, why))
        return false;
    multiply_blocks(m, op, &mem);
    store_outputs(m, op, &mem);
    return true;
}

bool pccx_execute_GEMV(pccx_machine *m, const pccx_op *op, pccx_rejection *why) { return execute_matrix(m, op, why); }

bool pccx_execute_GEMM(pccx_machine *m, const pccx_op *op, pccx_rejection *why) { return execute_matrix(m, op, why); }
