/* SPDX-License-Identifier: Apache-2.0 */
/* What instructions do to data (pccx specification, section 4); cvo.c has the functions. Results are made in scratch
 * memory and written when nothing can fail any more, so that a fault leaves everything as it was. */
#include "machine/pccx/exec.h"

#include <stdio.h>

#include "kernels/bf16.h"
#include "kernels/quantize.h"
#include "num/float.h"

/* ---- Vectors: L2 words or a FIFO, as BF16 elements ---- */

void pccx_load_lanes(pccx_machine *m, uint64_t word, uint64_t first, uint64_t count, uint16_t *out)
{
    const uint8_t *p = pccx_l2_at(m, word) + 2 * first;
    for (uint64_t i = 0; i < count; i++)
        out[i] = tv_load_le16(p + 2 * i);
}

void pccx_load_vector(pccx_machine *m, uint32_t src, unsigned fifo, uint64_t count, uint16_t *out)
{
    const pccx_fifo *f = &m->fifos[fifo];
    if (src != PCCX_TAG_FIFO)
        pccx_load_lanes(m, src, 0, count, out);
    for (uint64_t i = 0; i < count && src == PCCX_TAG_FIFO; i++)
        out[i] = f->ring[(f->head + i) % m->control.fifo_elements];
}

void pccx_put_vector(pccx_machine *m, uint32_t dst, unsigned fifo, const uint16_t *values, uint64_t count)
{
    if (dst == PCCX_TAG_FIFO) {
        pccx_fifo *f = &m->fifos[fifo];
        for (uint64_t i = 0; i < count; i++)
            f->ring[(f->head + f->count + i) % m->control.fifo_elements] = values[i];
        f->count += (uint32_t)count;
        return;
    }
    uint8_t *p = pccx_l2_at(m, dst);
    for (uint64_t i = 0; i < count; i++)
        tv_store_le(p + 2 * i, values[i], 2);
    memset(p + 2 * count, 0, (PCCX_LANES - count % PCCX_LANES) % PCCX_LANES * 2);
}

void pccx_pop_fifo(pccx_machine *m, unsigned fifo, uint64_t count)
{
    pccx_fifo *f = &m->fifos[fifo];
    f->head = (uint32_t)((f->head + count) % m->control.fifo_elements);
    f->count -= (uint32_t)count;
}

void *pccx_scratch(pccx_machine *m, size_t bytes)
{
    m->scratch.len = 0;
    return tv_buf_extend(&m->scratch, bytes + 64);
}

/* ---- W4A8: quantized activations ---- */

bool pccx_fail_memory(pccx_rejection *why)
{
    why->out_of_memory = true;
    return false;
}

/* The scale of one activation row: static, or 2^(E-6) with E the exponent of the row's largest magnitude; subnormals
 * count as zero. */
static float row_scale(uint16_t largest, uint16_t act_scale)
{
    unsigned exponent = tv_bf16_exponent(largest);
    return act_scale ? tv_bf16_to_f32(act_scale) : exponent == 0 ? 1.0f : tv_bf16_power_of_two((int)exponent - 6);
}

/* ---- The weight stream ---- */

enum { BEAT_BYTES = TV_S4_BEAT / 2 };

typedef struct beats {
    const pccx_machine *machine;
    const tv_descriptor *at;
    uint64_t offset;
    uint8_t joined[16]; /* a beat whose bytes lie in several descriptors */
} beats;

/* The next contiguous run of at most `want` beats of 16 bytes; its length in *got. Valid until the next call. */
static const uint8_t *next_beats(beats *b, size_t want, size_t *got)
{
    uint64_t here = (b->at->bytes - b->offset) / BEAT_BYTES;
    if (here > 0) {
        *got = here < want ? (size_t)here : want;
        const uint8_t *p = b->machine->host.bytes + b->at->addr + b->offset;
        b->offset += *got * BEAT_BYTES;
        return p;
    }
    *got = 1;
    for (unsigned i = 0; i < BEAT_BYTES; i++) {
        while (b->offset == b->at->bytes) {
            b->at++;
            b->offset = 0;
        }
        b->joined[i] = b->machine->host.bytes[b->at->addr + b->offset++];
    }
    return b->joined;
}

static void read_scales(beats *b, uint32_t n, float *scales)
{
    size_t left = (n + 7) / 8, got;
    for (uint32_t i = 0; left > 0; left -= got) {
        const uint8_t *p = next_beats(b, left, &got);
        for (size_t lane = 0; lane < got * 8 && i < n; lane++, i++)
            scales[i] = tv_bf16_to_f32(tv_load_le16(p + 2 * lane));
    }
}

/* The next rows of `count` beats, at most `want` of them, in one piece; how many in *rows. A row that lies in pieces is
 * put together in `whole`. Valid until the next call. */
static const uint8_t *next_rows(beats *b, size_t count, size_t want, uint8_t *whole, size_t *rows)
{
    size_t got, here = (size_t)((b->at->bytes - b->offset) / 16 / count);
    *rows = here < want ? here : want;
    if (*rows > 0)
        return next_beats(b, *rows * count, &got);
    *rows = 1;
    for (size_t done = 0; done < count; done += got) {
        const uint8_t *p = next_beats(b, count - done, &got);
        memcpy(whole + 16 * done, p, 16 * got);
    }
    return whole;
}

/* ---- GEMV and GEMM ---- */

enum { WEIGHT_ROWS = 256 /* worked on at a time, but for panels */, PANEL_WORTH = 4 /* rows of activations */ };

typedef struct matrix_memory {
    const tv_panel_set *panel; /* or NULL: few rows, or the host has none */
    size_t beats;              /* of k */
    uint16_t *x;               /* one row of k … */
    float *wide;               /* … and as binary32 */
    int8_t *q;                 /* one row, of k rounded up to beats; for panels all */
    int8_t *ready;             /* all rows, see tv_s4s8_pack, or as panels want them */
    size_t stride;             /* of `ready` */
    float *row_scale, *scale;
    int32_t *sum;   /* of each row of q, or its offset */
    int32_t *acc;   /* WEIGHT_ROWS rows of results; none of panels */
    uint8_t *whole; /* a weight row */
    uint16_t *y;    /* rows of n */
} matrix_memory;

static void *take(uint8_t **p, size_t bytes)
{
    uint8_t *at = *p;
    *p += (bytes + 63) / 64 * 64;
    return at;
}

static bool matrix_scratch(pccx_machine *m, const pccx_op *op, matrix_memory *mem)
{
    size_t rows = op->m, outputs = rows * op->n, whole = (mem->beats = tv_ceil_div(op->k, TV_S4_BEAT)) * TV_S4_BEAT;
    mem->panel = rows >= PANEL_WORTH ? tv_panel(m->level) : NULL;
    mem->stride = tv_s4s8_packed_bytes(mem->beats);
    size_t q = mem->panel ? rows * whole : whole,
           ready = mem->panel ? tv_panel_packed_bytes(rows, whole) : rows * mem->stride;
    size_t sums = mem->panel ? tv_panel_offsets_count(rows, whole, whole) : rows,
           acc = mem->panel ? 0 : rows * WEIGHT_ROWS;
    uint8_t *p = pccx_scratch(m, q + ready + 4 * (sums + acc + rows + op->n) + 6 * (size_t)op->k + whole / 2 +
                                     2 * outputs + 10 * 64);
    if (!p)
        return false;
    mem->x = take(&p, op->k * 2);
    mem->wide = take(&p, op->k * sizeof(float));
    mem->q = take(&p, q);
    mem->ready = take(&p, ready);
    mem->row_scale = take(&p, rows * sizeof(float));
    mem->sum = take(&p, sums * sizeof(int32_t));
    mem->acc = take(&p, acc * sizeof(int32_t));
    mem->scale = take(&p, op->n * sizeof(float));
    mem->whole = take(&p, whole / 2);
    mem->y = take(&p, outputs * 2);
    memset(mem->q, 0, q);
    return true;
}

/* A row of activations, and the bits of its largest magnitude. False: one is not finite. */
static bool load_row(pccx_machine *m, const pccx_op *op, uint32_t r, uint16_t *x, uint16_t *largest,
                     pccx_rejection *why)
{
    if (op->insn == PCCX_GEMV)
        pccx_load_vector(m, op->src, PCCX_FIFO_TO_GEMV, op->k, x);
    else
        pccx_load_lanes(m, op->src + r * tv_ceil_div(op->k, PCCX_LANES), 0, op->k, x);
    *largest = tv_bf16_absmax(x, op->k);
    if (tv_bf16_is_finite(*largest))
        return true;
    uint32_t i = 0;
    while (tv_bf16_is_finite(x[i]))
        i++;
    why->code = PCCX_CODE_NON_FINITE;
    snprintf(why->message, sizeof why->message, "activation %u of row %u is %s (0x%04x)", i, r,
             tv_bf16_is_nan(x[i]) ? "NaN" : "infinite", x[i]);
    return false;
}

/* q = clamp(RNE(x / s), -127, 127). Binary32 holds the quotient of two BF16 numbers, 8 bits each, closely enough that
 * its rounding to an integer of 7 bits is that of the exact quotient. */
static bool load_activations(pccx_machine *m, const pccx_op *op, matrix_memory *mem, pccx_rejection *why)
{
    size_t whole = mem->beats * TV_S4_BEAT;
    for (uint32_t r = 0; r < op->m; r++) {
        uint16_t largest;
        int8_t *q = mem->panel ? mem->q + r * whole : mem->q;
        if (!load_row(m, op, r, mem->x, &largest, why))
            return false;
        mem->row_scale[r] = row_scale(largest, op->act_scale);
        tv_bf16_widen(mem->x, op->k, mem->wide);
        tv_quantize_s8(mem->wide, op->k, mem->row_scale[r], -127, 127, q);
        if (!mem->panel)
            tv_s4s8_pack(q, mem->beats, mem->ready + r * mem->stride, &mem->sum[r]);
    }
    if (mem->panel)
        mem->panel->ready(mem->q, op->m, whole, 4, false, mem->ready, mem->sum);
    return true;
}

/* The larger number; NaN loses against every number, and +0 is above -0. */
static uint16_t larger(uint16_t a, uint16_t b)
{
    if (tv_bf16_is_nan(a))
        return b;
    if (tv_bf16_is_nan(b))
        return a;
    float x = tv_bf16_to_f32(a), y = tv_bf16_to_f32(b);
    return x > y || (x == y && !tv_bf16_is_negative(a)) ? a : b;
}

/* Some weight rows, from row `first` on. */
typedef struct product {
    const pccx_op *op;
    const matrix_memory *mem;
    tv_s4s8_fn *multiply;
    const uint8_t *weights;
    size_t rows;
    uint32_t first;
    bool accm; /* mem->y has what stands */
} product;

/* Section 4 step 5: outputs of activation row r and `count` weight rows from row `from` of these on, from their exact
 * sums. */
static void scale_rows(const product *p, uint32_t r, const int32_t *acc, size_t step, size_t from, size_t count)
{
    const matrix_memory *mem = p->mem;
    uint16_t *y = mem->y + r * (size_t)p->op->n + p->first + from;
    tv_bf16_scale(acc, step, mem->row_scale[r], mem->scale + p->first + from, p->accm ? y : NULL, count, y);
}

static void multiply_rows(void *user, uint64_t from, uint64_t to)
{
    const product *p = user;
    const matrix_memory *mem = p->mem;
    uint32_t m = p->op->m;
    int32_t *acc = mem->acc + from * m;
    p->multiply(p->weights + from * mem->beats * BEAT_BYTES, mem->beats, to - from, mem->ready, mem->stride, mem->sum,
                m, acc);
    for (uint32_t r = 0; r < m; r++)
        scale_rows(p, r, acc + r, m, from, to - from);
}

/* Pairs of panels `from` to `to`. */
static void multiply_panels(void *user, uint64_t from, uint64_t to)
{
    const product *p = user;
    const matrix_memory *mem = p->mem;
    const tv_panel_weights w = {p->weights, 4, mem->beats * TV_S4_BEAT, mem->beats * BEAT_BYTES};
    int32_t exact[TV_PANEL_INPUTS * TV_PANEL_PAIR];
    for (uint32_t i = 0; i < p->op->m; i += TV_PANEL_INPUTS)
        for (size_t j = from * TV_PANEL_PAIR; j < tv_min_u64(p->rows, to * TV_PANEL_PAIR); j += TV_PANEL_PAIR) {
            size_t inputs = tv_min_u64(p->op->m - i, TV_PANEL_INPUTS), count = tv_min_u64(p->rows - j, TV_PANEL_PAIR);
            mem->panel->exact(&w, j, count, mem->ready + tv_panel_packed_bytes(i, w.k), mem->sum + i, inputs, exact);
            for (size_t r = 0; r < inputs; r++)
                scale_rows(p, i + (uint32_t)r, exact + r * TV_PANEL_PAIR, 1, j, count);
        }
}

static uint16_t largest_of(const uint16_t *y, size_t n)
{
    uint16_t e_max = TV_BF16_NAN;
    for (size_t i = 0; i < n; i++)
        e_max = larger(e_max, y[i]);
    return e_max;
}

/* The same of BF16 as they lie in L2. */
static uint16_t largest_in(const uint8_t *y, size_t n)
{
    uint16_t e_max = TV_BF16_NAN;
    for (size_t i = 0; i < n; i++)
        e_max = larger(e_max, tv_load_le16(y + 2 * i));
    return e_max;
}

enum { SMALL = 1 << 18 }; /* products: done before another thread has woken up */

/* ---- One vector, from a stream that lies in two pieces at most ---- */

/* `bytes` of the stream in one piece; NULL: they are not. */
static const uint8_t *whole_piece(beats *b, uint64_t bytes)
{
    if (b->offset == b->at->bytes) {
        b->at++;
        b->offset = 0;
    }
    if (b->at->bytes - b->offset < bytes)
        return NULL;
    const uint8_t *p = b->machine->host.bytes + b->at->addr + b->offset;
    b->offset += bytes;
    return p;
}

typedef struct vector_work {
    tv_scaled_rows_fn *multiply;
    const tv_rows *all;
} vector_work;

enum { ROWS_TOGETHER = 64 };

static void multiply_blocks(void *user, uint64_t from, uint64_t to)
{
    const vector_work *w = user;
    tv_rows part = *w->all;
    uint64_t first = from * ROWS_TOGETHER, end = tv_min_u64(to * ROWS_TOGETHER, part.rows);
    part.weights += first * part.beats * BEAT_BYTES;
    part.scales = part.scales ? part.scales + 2 * first : NULL;
    part.out += 2 * first;
    part.rows = end - first;
    w->multiply(&part);
}

/* Outputs go straight to L2: nothing can fail any more. False: the stream lies in more pieces. */
static bool multiply_vector(pccx_machine *m, const pccx_op *op, const matrix_memory *mem)
{
    beats stream = {.machine = m, .at = op->weights, .offset = op->weights_offset};
    tv_rows r = {.beats = mem->beats,
                 .rows = op->n,
                 .ready = mem->ready,
                 .sum = mem->sum[0],
                 .vector_scale = mem->row_scale[0],
                 .add = pccx_MATRIX_accm(op->word),
                 .out = pccx_l2_at(m, op->dst)};
    if (pccx_MATRIX_w_scale(op->word) &&
        !(r.scales = whole_piece(&stream, tv_ceil_div(op->n, PCCX_LANES) * PCCX_WORD_BYTES)))
        return false;
    r.weights = whole_piece(&stream, (uint64_t)op->n * r.beats * 16);
    if (!r.weights)
        return false;
    vector_work w = {m->multiply_rows, &r};
    tv_pool_run((uint64_t)op->n * op->k < SMALL ? NULL : m->pool, tv_ceil_div(op->n, ROWS_TOGETHER), multiply_blocks,
                &w);
    memset(r.out + 2 * (size_t)op->n, 0, (PCCX_LANES - op->n % PCCX_LANES) % PCCX_LANES * 2);
    if (pccx_MATRIX_findemax(op->word))
        m->e_max = largest_in(r.out, op->n);
    return true;
}

static bool exec_matrix(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    matrix_memory mem;
    if (!matrix_scratch(m, op, &mem))
        return pccx_fail_memory(why);
    if (!load_activations(m, op, &mem, why))
        return false;
    bool to_fifo = op->insn == PCCX_GEMV && op->dst == PCCX_TAG_FIFO,
         from_fifo = op->insn == PCCX_GEMV && op->src == PCCX_TAG_FIFO;
    bool accm = pccx_MATRIX_accm(op->word) && !to_fifo;
    if (op->m == 1 && !to_fifo && !from_fifo && multiply_vector(m, op, &mem))
        return true;
    uint64_t row_words = tv_ceil_div(op->n, PCCX_LANES);
    beats stream = {.machine = m, .at = op->weights, .offset = op->weights_offset};
    for (uint32_t n = 0; n < op->n; n++)
        mem.scale[n] = 1.0f;
    if (pccx_MATRIX_w_scale(op->word))
        read_scales(&stream, op->n, mem.scale);
    for (uint32_t r = 0; r < op->m && accm; r++)
        pccx_load_lanes(m, op->dst + r * row_words, 0, op->n, mem.y + r * (size_t)op->n);
    product p = {.op = op, .mem = &mem, .multiply = m->multiply, .accm = accm};
    for (; p.first < op->n; p.first += (uint32_t)p.rows) {
        size_t left = op->n - p.first;
        p.weights =
            next_rows(&stream, mem.beats, mem.panel || left < WEIGHT_ROWS ? left : WEIGHT_ROWS, mem.whole, &p.rows);
        tv_pool *pool = p.rows * op->m * (uint64_t)op->k < SMALL ? NULL : m->pool;
        if (mem.panel)
            tv_pool_run(pool, tv_ceil_div(p.rows, TV_PANEL_PAIR), multiply_panels, &p);
        else
            tv_pool_run(pool, p.rows, multiply_rows, &p);
    }
    if (from_fifo)
        pccx_pop_fifo(m, PCCX_FIFO_TO_GEMV, op->k);
    for (uint32_t r = 0; r < op->m; r++)
        pccx_put_vector(m, to_fifo ? PCCX_TAG_FIFO : (uint32_t)(op->dst + r * row_words), PCCX_FIFO_TO_SFU,
                        mem.y + (size_t)r * op->n, op->n);
    if (pccx_MATRIX_findemax(op->word))
        m->e_max = largest_of(mem.y, (size_t)op->m * op->n);
    return true;
}

bool pccx_exec_GEMV(pccx_machine *m, const pccx_op *op, pccx_rejection *why) { return exec_matrix(m, op, why); }

bool pccx_exec_GEMM(pccx_machine *m, const pccx_op *op, pccx_rejection *why) { return exec_matrix(m, op, why); }

/* ---- MEMCPY and MEMSET ---- */

bool pccx_exec_MEMCPY_LOAD(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    (void)why;
    memcpy(pccx_l2_at(m, op->dst), m->host.bytes + op->host_addr, op->words * PCCX_WORD_BYTES);
    return true;
}

bool pccx_exec_MEMCPY_STORE(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    (void)why;
    memcpy(m->host.bytes + op->host_addr, pccx_l2_at(m, op->src), op->words * PCCX_WORD_BYTES);
    return true;
}

bool pccx_exec_MEMCPY_MOVE(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    (void)why;
    memmove(pccx_l2_at(m, op->dst), pccx_l2_at(m, op->src), op->words * PCCX_WORD_BYTES);
    return true;
}

/* The Constant Cache belongs to the control state: pccx_control_commit writes it. */
bool pccx_exec_MEMSET(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    (void)m;
    (void)op;
    (void)why;
    return true;
}

bool pccx_execute(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    typedef bool executor(pccx_machine *, const pccx_op *, pccx_rejection *);
    static executor *const executors[PCCX_INSNS] = {
#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source) [PCCX_##id] = pccx_exec_##id,
#include "isa/pccx/insns.def"
#undef TV_INSN
    };
    return executors[op->insn](m, op, why);
}
