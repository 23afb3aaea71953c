/* SPDX-License-Identifier: Apache-2.0 */
/* GEMV and GEMM (pccx specification, section 4): y[m][n] = (q[m][k] * w[n][k]^T) * row_scale[m] * scale[n] (+ y), with
 * INT8 activations q that are quantized here per row, and INT4 weights w from the weight stream.
 *
 * Sums of products are exact integers; each further operation is rounded once, in the order of the specification, so
 * that the result does not depend on the kernels or on threads. Two strategies give the same bits: the fused kernels of
 * products.h, and here blocks of weight rows: for two or three rows of activations (more on hosts without panels),
 * FIFOs, inner values, and weights in several descriptors.
 *
 * Everything that can fail happens before the first write to L2 or a FIFO: a fault changes nothing. */
#include <stdio.h>

#include "kernels/bf16.h"
#include "machine/pccx/products.h"
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

/* ---- Scratch memory ---- */

enum {
    WEIGHT_BLOCK = 256 /* weight rows multiplied at a time */
};

typedef struct matrix_memory {
    size_t beats;             /* of a row of k elements */
    uint16_t *x;              /* [k] the activations, if they are in the direct FIFO */
    int8_t *packed;           /* all rows as tv_gemm_s4s8_pack leaves them */
    size_t stride;            /* bytes between rows of `packed` */
    float *row_scale, *scale; /* [m], [n] */
    int32_t *sum;             /* [m] of each row of q */
    int32_t *acc;             /* [WEIGHT_BLOCK][m] exact sums */
    uint8_t *row;             /* one weight row */
    uint16_t *y;              /* [m][n] results */
} matrix_memory;

static void *carve(uint8_t **p, size_t bytes)
{
    uint8_t *at = *p;
    *p += (bytes + 63) / 64 * 64;
    return at;
}

static bool alloc_matrix(pccx_machine *m, const pccx_op *op, matrix_memory *mem)
{
    mem->beats = tv_ceil_div(op->k, TV_S4_BEAT);
    mem->stride = tv_gemm_s4s8_packed_bytes(mem->beats);
    size_t rows = op->m, acc = rows * WEIGHT_BLOCK, outputs = rows * op->n;
    uint8_t *p = pccx_scratch(m, rows * mem->stride + 4 * (2 * rows + acc + op->n) + 2 * (size_t)op->k +
                                     mem->beats * BEAT_BYTES + 2 * outputs + 8 * 64);
    if (!p)
        return false;
    mem->x = carve(&p, op->k * 2);
    mem->packed = carve(&p, rows * mem->stride);
    mem->row_scale = carve(&p, rows * sizeof(float));
    mem->sum = carve(&p, rows * sizeof(int32_t));
    mem->acc = carve(&p, acc * sizeof(int32_t));
    mem->scale = carve(&p, op->n * sizeof(float));
    mem->row = carve(&p, mem->beats * BEAT_BYTES);
    mem->y = carve(&p, outputs * 2);
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

/* Quantizes the activations, as products.c does. */
static bool load_activations(pccx_machine *m, const pccx_op *op, matrix_memory *mem, pccx_rejection *why)
{
    for (uint32_t r = 0; r < op->m; r++) {
        const uint8_t *row = activation_row(m, op, r, mem->x);
        tv_quantized_row q;
        m->quantize(row, op->k, op->act_scale, true, mem->packed + r * mem->stride, &q);
        if (!tv_bf16_is_finite(q.absmax))
            return reject_row(row, r, why);
        mem->row_scale[r] = q.scale;
        mem->sum[r] = q.sum;
    }
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

/* Section 4 step 5: y[r][first + from + i] from its exact sum acc[i * m], for i < count. */
static void scale_outputs(const product *p, uint32_t r, const int32_t *acc, size_t from, size_t count)
{
    const matrix_memory *mem = p->mem;
    const size_t step = p->op->m;
    uint16_t *y = mem->y + r * (size_t)p->op->n + p->first + from;
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
        scale_outputs(p, r, acc + r, from, to - from);
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
    for (uint32_t r = 0; r < op->m && op->accumulate; r++)
        pccx_load_lanes(m, op->dst + r * tv_ceil_div(op->n, PCCX_LANES), op->n, mem->y + r * (size_t)op->n);
    for (; p.first < op->n; p.first += (uint32_t)p.rows) {
        size_t left = op->n - p.first;
        p.weights = read_rows(&stream, mem->beats, left < WEIGHT_BLOCK ? left : WEIGHT_BLOCK, mem->row, &p.rows);
        tv_pool *pool = m->values || p.rows * op->m * (uint64_t)op->k < PCCX_PARALLEL_MIN_MACS ? NULL : m->pool;
        tv_pool_run(pool, p.rows, multiply_rows, &p);
    }
}

/* Stores mem->y, which nothing can prevent any more. */
static void store_outputs(pccx_machine *m, const pccx_op *op, const matrix_memory *mem)
{
    if (op->src == PCCX_TAG_FIFO)
        pccx_pop_fifo(m, PCCX_FIFO_TO_GEMV, op->k);
    for (uint32_t r = 0; r < op->m; r++) {
        uint64_t dst = op->dst == PCCX_TAG_FIFO ? PCCX_TAG_FIFO : op->dst + r * tv_ceil_div(op->n, PCCX_LANES);
        pccx_store_vector(m, (uint32_t)dst, PCCX_FIFO_TO_SFU, mem->y + (size_t)r * op->n, op->n);
    }
    if (pccx_MATRIX_findemax(op->word))
        m->e_max = find_max_rows(mem->y, op->m, op->n, op->n);
}

/* ---- Instructions ---- */

static bool execute_matrix(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    matrix_memory mem;
    if (pccx_execute_product(m, op)) {
        if (pccx_MATRIX_findemax(op->word))
            m->e_max = find_max_rows((const uint16_t *)(const void *)pccx_l2_at(m, op->dst), op->m, op->n,
                                     tv_ceil_div(op->n, PCCX_LANES) * PCCX_LANES);
        return true;
    }
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
