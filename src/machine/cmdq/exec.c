/* SPDX-License-Identifier: Apache-2.0 */
/* What entries do to SPM and DRAM (CMDQ specification, section 4): transfers, tensor engines. Tiles are unpacked into
 * arrays, worked on, and packed again. */
#include "machine/cmdq/exec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "kernels/clones.h"
#include "kernels/elements.h"
#include "machine/cmdq/matmul.h"
#include "num/float.h"
#include "num/int.h"

/* Scratches of their own: what is in them is asked for again. */
enum { SCRATCH_READY = 5, SCRATCH_SUMS = 6 };

/* ---- Tiles as arrays ---- */

void *cmdq_scratch(cmdq_run *r, unsigned which, uint64_t bytes)
{
    tv_buf *b = &r->memories->scratch[which];
    b->len = 0;
    void *p = tv_buf_extend(b, bytes ? bytes : 1);
    r->no_memory = r->no_memory || !p;
    return p;
}

static void unpack_integers(const uint8_t *p, unsigned qbits, uint64_t count, int8_t *out)
{
    if (qbits == 4) {
        tv_unpack_s4(p, count, out);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = (int8_t)tv_int_get(p, qbits, i);
}

void cmdq_unpack(const uint8_t *p, unsigned qbits, uint64_t count, float *out)
{
    if (qbits == 32)
        memcpy(out, p, count * sizeof *out);
    else if (qbits == 16)
        tv_elements_from_f16(p, count, out);
    else if (qbits == 8)
        tv_elements_from_s8((const int8_t *)p, count, out);
    else
        for (uint64_t i = 0; i < count; i++)
            out[i] = (float)tv_int_get(p, qbits, i);
}

void cmdq_pack(const float *x, unsigned qbits, uint64_t count, uint8_t *p)
{
    if (qbits == 32) {
        tv_elements_to_f32(x, count, p);
    } else if (qbits == 16) {
        tv_elements_to_f16(x, count, p);
    } else if (qbits == 8) {
        tv_elements_to_s8(x, count, (int8_t *)p);
    } else {
        memset(p, 0, tv_ceil_div(count * qbits, 8)); /* the bits past the last element become 0 */
        for (uint64_t i = 0; i < count; i++)
            tv_int_set(p, qbits, i, tv_int_saturate(x[i], qbits));
    }
}

const float *cmdq_numbers(cmdq_run *r, const cmdq_tile *t, uint64_t count, float scale, unsigned which)
{
    if (!t)
        return NULL;
    const uint8_t *bytes = cmdq_bytes(r, t);
    if (t->qbits == 32 && scale == 1 && (uintptr_t)bytes % _Alignof(float) == 0)
        return (const float *)(const void *)bytes;
    float *out = cmdq_scratch(r, which, count * sizeof *out);
    if (out)
        cmdq_unpack(bytes, t->qbits, count, out);
    if (out && scale != 1)
        tv_elements_multiply(out, count, scale);
    return out;
}

/* ---- Transfers ---- */

TV_INLINE void copy_each(uint8_t *to, uint64_t to_step, const uint8_t *from, uint64_t from_step, uint64_t rows,
                         size_t bytes)
{
    for (; rows; rows--, to += to_step, from += from_step)
        memcpy(to, from, bytes);
}

/* Short rows, of parts of matrices, are many: known lengths are copied without a call. */
void cmdq_copy_rows(uint8_t *to, uint64_t to_step, const uint8_t *from, uint64_t from_step, uint64_t rows,
                    uint64_t bytes)
{
    switch (bytes) {
    case 8:
        copy_each(to, to_step, from, from_step, rows, 8);
        break;
    case 16:
        copy_each(to, to_step, from, from_step, rows, 16);
        break;
    case 32:
        copy_each(to, to_step, from, from_step, rows, 32);
        break;
    case 64:
        copy_each(to, to_step, from, from_step, rows, 64);
        break;
    default:
        copy_each(to, to_step, from, from_step, rows, bytes);
        break;
    }
}

static void transfer(cmdq_run *r)
{
    const cmdq_tile *spm = cmdq_find_tile(r->op, CMDQ_IN), *dram = cmdq_find_tile(r->op, CMDQ_DRAM);
    unsigned used = (unsigned)(r->op->elements * spm->qbits % 8);
    if (!used && cmdq_defer_load(r, spm, dram))
        return;
    uint8_t *first = cmdq_bytes(r, dram),
            *packed = cmdq_bytes(r, spm); /* in this order: DRAM that changes is no place to read SPM from */
    if (dram->writes)
        cmdq_copy_rows(first, dram->stride, packed, dram->bytes, dram->rows, dram->bytes);
    else
        cmdq_copy_rows(packed, dram->bytes, first, dram->stride, dram->rows, dram->bytes);
    if (used) { /* the bits past the last element become 0 */
        uint8_t *last = dram->writes ? first + dram->bytes - 1 : packed + spm->bytes - 1;
        *last &= (uint8_t)((1u << used) - 1);
    }
}

/* ---- Tensor engines ---- */

/* An operand as an array of integers or of binary32, whichever the product takes. Bytes are taken where they lie. */
static const void *unpack_operand(cmdq_run *r, const cmdq_tile *t, bool integers, uint64_t count, unsigned which)
{
    if (integers && t->qbits == 8)
        return cmdq_bytes(r, t);
    void *out = cmdq_scratch(r, which, count * (integers ? 1 : sizeof(float)));
    if (out && integers)
        unpack_integers(cmdq_bytes(r, t), t->qbits, count, out);
    else if (out)
        cmdq_unpack(cmdq_bytes(r, t), t->qbits, count, out);
    return out;
}

/* Copies elements of 1 or 4 bytes: out[i] = in[index(i)]. */
static void copy_element(void *out, uint64_t to, const void *in, uint64_t from, size_t size)
{
    memcpy((uint8_t *)out + to * size, (const uint8_t *)in + from * size, size);
}

/* V[k][n] as rows of k. */
static void *transposed(cmdq_run *r, const void *v, uint64_t k, uint64_t n, size_t size, unsigned which)
{
    void *out = cmdq_scratch(r, which, k * n * size);
    for (uint64_t j = 0; out && j < n; j++)
        for (uint64_t i = 0; i < k; i++)
            copy_element(out, j * k + i, v, i * n + j, size);
    return out;
}

/* What the kernel sees at output `i`: kernel row, kernel column, channel; zeros outside the input. */
static void unfold(const cmdq_run *r, const void *in, uint64_t i, size_t size, uint8_t *out)
{
    uint64_t h = cmdq_get(r, CMDQ_F_in_h), w = cmdq_get(r, CMDQ_F_in_w), bytes = cmdq_get(r, CMDQ_F_in_c) * size;
    uint64_t kh = cmdq_get(r, CMDQ_F_kernel_h), kw = cmdq_get(r, CMDQ_F_kernel_w), dil_h = cmdq_get(r, CMDQ_F_dil_h),
             dil_w = cmdq_get(r, CMDQ_F_dil_w);
    uint64_t pad_h = cmdq_get(r, CMDQ_F_pad_h), pad_w = cmdq_get(r, CMDQ_F_pad_w);
    uint64_t columns = (w + 2 * pad_w - dil_w * (kw - 1) - 1) / cmdq_get(r, CMDQ_F_stride_w) + 1;
    uint64_t top = i / columns * cmdq_get(r, CMDQ_F_stride_h), left = i % columns * cmdq_get(r, CMDQ_F_stride_w);
    memset(out, 0, kh * kw * bytes);
    for (uint64_t y = 0; y < kh; y++)
        for (uint64_t x = 0; x < kw; x++) {
            uint64_t row = top + y * dil_h, column = left + x * dil_w;
            if (row >= pad_h && row - pad_h < h && column >= pad_w && column - pad_w < w)
                memcpy(out + (y * kw + x) * bytes, (const uint8_t *)in + ((row - pad_h) * w + column - pad_w) * bytes,
                       bytes);
        }
}

/* One output place at a time: an unfolded image could be many times the input. */
static void run_conv(cmdq_run *r, const cmdq_product *p, const void *in, size_t size)
{
    uint8_t *seen = cmdq_scratch(r, 4, p->k * size);
    cmdq_product one = *p;
    one.m = 1;
    one.a8 = p->a8 ? (const int8_t *)seen : NULL;
    one.a = (const float *)(const void *)seen;
    for (uint64_t i = 0; seen && i < p->m; i++) {
        unfold(r, in, i, size, seen);
        one.old = p->old ? p->old + i * p->n : NULL;
        one.out = p->out + i * p->n;
        cmdq_multiply(&one, r->memories->pool);
    }
}

/* The index that belongs to value `i` of structured sparse weights. */
static unsigned sparse_index(const uint8_t *indices, unsigned bits, uint64_t i)
{
    unsigned value = 0;
    for (unsigned b = 0; b < bits; b++) {
        uint64_t at = i * bits + b;
        value |= (indices[at / 8] >> (at % 8) & 1u) << b;
    }
    return value;
}

/* For each row of weights, the inputs that its values meet: both become rows of k * sparse_n / sparse_m. False: an
 * index is past its group. */
static bool run_sparse(cmdq_run *r, const cmdq_product *p)
{
    const cmdq_op *op = r->op;
    uint64_t sn = cmdq_get(r, CMDQ_F_sparse_n), sm = cmdq_get(r, CMDQ_F_sparse_m), kept = op->k / sm * sn;
    const cmdq_tile *t = cmdq_find_tile(op, CMDQ_WGT);
    const uint8_t *indices = cmdq_bytes(r, t) + tv_ceil_div(op->n * kept * t->qbits, 8);
    unsigned bits = 0;
    while (UINT64_C(1) << bits < sm)
        bits++;
    for (uint64_t i = 0; i < op->n * kept; i++)
        if (sparse_index(indices, bits, i) >= sm) {
            snprintf(r->wrong->message, sizeof r->wrong->message,
                     "the index of value %" PRIu64 " of weight row %" PRIu64 " is %u, its group has %" PRIu64, i % kept,
                     i / kept, sparse_index(indices, bits, i), sm);
            r->wrong->code = CMDQ_CODE_SPARSE_INDEX;
            return false;
        }
    size_t size = p->a8 ? 1 : sizeof(float);
    uint8_t *met = cmdq_scratch(r, 4, kept * size);
    float *out = p->out;
    const float *scales = p->scales, *bias = p->bias, *old = p->old;
    uint64_t n = p->n, groups = p->grouped ? p->k / p->group : 1;
    if (r->no_memory)
        return true;
    cmdq_product one = *p;
    float y;
    one.m = one.n = 1;
    one.k = kept;
    one.group = p->grouped ? p->group / sm * sn : kept;
    one.a8 = p->a8 ? (const int8_t *)met : NULL;
    one.a = (const float *)(const void *)met;
    one.out = &y;
    for (uint64_t i = 0; i < p->m; i++)
        for (uint64_t j = 0; j < n; j++) {
            for (uint64_t v = 0; v < kept; v++)
                copy_element(met, v, p->a8 ? (const void *)p->a8 : p->a,
                             i * op->k + v / sn * sm + sparse_index(indices, bits, j * kept + v), size);
            one.b8 = p->b8 ? (const int8_t *)p->b8 + j * kept : NULL;
            one.b = p->b ? p->b + j * kept : NULL;
            one.scales = scales ? scales + j * groups : NULL;
            one.bias = bias ? bias + j : NULL;
            one.old = old ? old + i * n + j : NULL;
            cmdq_multiply(&one, NULL);
            out[i * n + j] = y;
        }
    return true;
}

/* One input mostly meets several weights in turn: it is made ready once. */
static bool make_ready(cmdq_run *r, cmdq_product *p, const cmdq_tile *in)
{
    cmdq_memories *m = r->memories;
    uint64_t spm = in->bank * r->shape->bank_bytes + in->start;
    bool same = m->ready.bytes && m->ready.spm == spm && m->ready.bytes == in->bytes && m->ready.m == p->m &&
                m->ready.k == p->k && m->ready.way == p->way && m->ready.weight_bits == p->weight_bits;
    if (!same) {
        int8_t *ready = cmdq_scratch(r, SCRATCH_READY, cmdq_packed_bytes(p));
        int32_t *sums = cmdq_scratch(r, SCRATCH_SUMS, cmdq_sums(p) * sizeof *sums);
        m->ready.bytes = 0;
        if (r->no_memory)
            return false;
        cmdq_pack_operands(p, ready, sums);
        m->ready.spm = spm;
        m->ready.bytes = in->qbits == 8 ? in->bytes : 0; /* others are unpacked first, which takes longer */
        m->ready.m = p->m;
        m->ready.k = p->k;
        m->ready.way = (uint8_t)p->way;
        m->ready.weight_bits = (uint8_t)p->weight_bits;
    }
    p->ready = (const int8_t *)m->scratch[SCRATCH_READY].data;
    p->sums = (const int32_t *)(const void *)m->scratch[SCRATCH_SUMS].data;
    return true;
}

/* Scales of weights. Those of groups may stand in rows of a larger matrix, where the way takes them so. */
static void take_scales(cmdq_run *r, cmdq_product *p)
{
    const cmdq_tile *t = cmdq_find_tile(r->op, CMDQ_SCALES);
    uint64_t groups = p->k / p->group, stride;
    p->scale_step = groups;
    if (t && p->way == CMDQ_VARIANT_PANEL_GROUPS) {
        const uint8_t *rows = cmdq_rows(r, t, groups * sizeof(float), &stride);
        if (((uintptr_t)rows | stride) % sizeof(float) == 0) {
            p->scales = (const float *)(const void *)rows;
            p->scale_step = stride / sizeof(float);
            return;
        }
    }
    p->scales = cmdq_numbers(r, t, p->n * groups, 1, 8);
}

/* The matrices of a product: as arrays, or as they lie. */
static bool take_matrices(cmdq_run *r, cmdq_product *p)
{
    const cmdq_op *op = r->op;
    const cmdq_tile *in = cmdq_find_tile(op, CMDQ_IN), *wgt = cmdq_find_tile(op, CMDQ_WGT);
    bool conv = op->opcode == CMDQ_TE_CONV_TILE, sparse = op->opcode == CMDQ_TE_SPARSE_GEMM_TILE,
         av = op->opcode == CMDQ_TE_AV_TILE;
    bool bytes = wgt->qbits <= 8, exact = bytes && in->qbits <= 8;
    uint64_t inputs =
        conv ? cmdq_get(r, CMDQ_F_in_h) * cmdq_get(r, CMDQ_F_in_w) * cmdq_get(r, CMDQ_F_in_c) : op->m * op->k;
    uint64_t weights =
        sparse ? op->n * (op->k / cmdq_get(r, CMDQ_F_sparse_m) * cmdq_get(r, CMDQ_F_sparse_n)) : op->n * op->k;
    p->whole = !conv && !sparse;
    p->transposed = av;
    p->way = cmdq_choose_variant(p, bytes, exact);
    bool packed = wgt->qbits == 4 && !av && cmdq_takes_packed(p, p->way);
    bytes = bytes && p->way != CMDQ_VARIANT_WEIGHTED_SUM;
    bool rows = !av && cmdq_takes_rows(p->way) && (packed || wgt->qbits == 8);
    p->weight_bits = packed ? 4 : 8;
    p->stride = p->k * p->weight_bits / 8;
    const void *a = unpack_operand(r, in, exact, inputs, 0);
    const void *b = rows     ? cmdq_rows(r, wgt, p->stride, &p->stride)
                    : packed ? cmdq_bytes(r, wgt)
                             : unpack_operand(r, wgt, bytes, weights, 1);
    if (av && b && !cmdq_takes_transposed(p->way))
        b = transposed(r, b, op->k, op->n, bytes ? 1 : sizeof(float), 4);
    take_scales(r, p);
    p->a8 = exact ? a : NULL;
    p->a = exact ? NULL : a;
    p->b8 = bytes ? b : NULL;
    p->b = bytes ? NULL : b;
    return !r->no_memory && (cmdq_sums(p) == 0 || make_ready(r, p, in));
}

/* Whether results may stand where they go at once: as they are, and over nothing that is still to be read. */
static bool goes_straight(const cmdq_run *r, const cmdq_product *p, const cmdq_tile *out)
{
    return cmdq_finishes_output(p) && out->qbits == 32 &&
           (out->bank * r->shape->bank_bytes + out->start) % sizeof(float) == 0 &&
           cmdq_are_apart(out, cmdq_find_tile(r->op, CMDQ_IN)) &&
           cmdq_are_apart(out, cmdq_find_tile(r->op, CMDQ_WGT)) &&
           cmdq_are_apart(out, cmdq_find_tile(r->op, CMDQ_SCALES));
}

static bool tensor(cmdq_run *r)
{
    const cmdq_op *op = r->op;
    const cmdq_tile *out = cmdq_find_tile(op, CMDQ_OUT);
    cmdq_product p = {.m = op->m,
                      .n = op->n,
                      .k = op->k,
                      .grouped = cmdq_has(r->queue, r->entry, CMDQ_F_wgt_group),
                      .level = r->memories->level,
                      .scale_ifm = cmdq_get_real(r, CMDQ_F_scale_ifm),
                      .scale_wgt = cmdq_get_real(r, CMDQ_F_scale_wgt),
                      .scale_ofm = cmdq_get_real(r, CMDQ_F_scale_ofm)};
    p.group = p.grouped ? cmdq_get(r, CMDQ_F_wgt_group) : p.k;
    p.bias = cmdq_numbers(r, cmdq_find_tile(op, CMDQ_BIAS), op->n, 1, 7);
    p.old = cmdq_numbers(r, out->reads ? out : NULL, op->m * op->n, 1, 2);
    if (r->no_memory || !take_matrices(r, &p))
        return true;
    bool straight = goes_straight(r, &p, out);
    p.out = straight ? (float *)(void *)cmdq_bytes(r, out) : cmdq_scratch(r, 3, op->m * op->n * sizeof *p.out);
    if (r->no_memory)
        return true;
    if (op->opcode == CMDQ_TE_SPARSE_GEMM_TILE) {
        if (!run_sparse(r, &p))
            return false;
    } else if (op->opcode == CMDQ_TE_CONV_TILE) {
        run_conv(r, &p, p.a8 ? (const void *)p.a8 : p.a, p.a8 ? 1 : sizeof(float));
    } else {
        cmdq_multiply(&p, r->memories->pool);
    }
    if (!r->no_memory && !straight)
        cmdq_pack(p.out, out->qbits, op->m * op->n, cmdq_bytes(r, out));
    return true;
}

cmdq_outcome cmdq_execute(const cmdq_queue *queue, const cmdq_params *shape, cmdq_memories *memories, uint32_t index,
                          const cmdq_op *op, cmdq_error *wrong)
{
    cmdq_run r = {.queue = queue,
                  .shape = shape,
                  .memories = memories,
                  .entry = &queue->entries[index],
                  .op = op,
                  .wrong = wrong};
    bool done = true;
    if (op->class_ == CMDQ_DMA)
        transfer(&r);
    else if (op->class_ == CMDQ_TE)
        done = tensor(&r);
    else if (op->class_ == CMDQ_VE)
        cmdq_vector(&r);
    return r.no_memory ? CMDQ_NO_MEMORY : done ? CMDQ_EXECUTED : CMDQ_FAULT;
}
