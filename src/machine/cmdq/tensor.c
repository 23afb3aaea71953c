/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor engines (CMDQ specification, section 4): operands become arrays, or stay in place where the variant of the
 * product allows; sparse weights are gathered into dense rows; results are packed. */
#include <inttypes.h>
#include <stdio.h>

#include "kernels/elements.h"
#include "kernels/functions.h"
#include "kernels/weighted_sum.h"
#include "machine/cmdq/conv.h"
#include "machine/cmdq/deferred_products.h"
#include "machine/cmdq/functions.h"
#include "machine/cmdq/ops.h"

/* ---- Operands ---- */

/* A tile as an array of `count` INT8 or binary32; INT8 in place. NULL when out of memory. */
static const void *unpack_operand(cmdq_exec *x, const cmdq_tile *t, bool integers, uint64_t count, cmdq_scratch_use use)
{
    const uint8_t *packed =
        cmdq_tile_packed(x, t, use == CMDQ_SCRATCH_A ? CMDQ_SCRATCH_PACKED_A : CMDQ_SCRATCH_PACKED_B);
    if (!packed || (integers && t->qbits == 8))
        return packed;
    void *out = cmdq_scratch(x, use, count * (integers ? 1 : sizeof(float)));
    if (out && integers)
        cmdq_unpack_s8(packed, t->qbits, count, out);
    else if (out)
        cmdq_unpack_f32(packed, t->qbits, count, out);
    return out;
}

/* out[to] = in[from], elements of `size` bytes. */
static void copy_element(void *out, uint64_t to, const void *in, uint64_t from, size_t size)
{
    memcpy((uint8_t *)out + to * size, (const uint8_t *)in + from * size, size);
}

/* out[n][k] = v[k][n]^T. NULL when out of memory. */
static void *transpose(cmdq_exec *x, const void *v, uint64_t k, uint64_t n, size_t size)
{
    void *out = cmdq_scratch(x, CMDQ_SCRATCH_ROW, k * n * size);
    for (uint64_t j = 0; out && j < n; j++)
        for (uint64_t i = 0; i < k; i++)
            copy_element(out, j * k + i, v, i * n + j, size);
    return out;
}

/* Packs the activations after those of deferred products. */
static bool pack_new_activations(cmdq_exec *x, const cmdq_matmul *p, cmdq_packed_offsets *at)
{
    enum { SCRATCH_MAX = 1 << 20 };
    tv_buf *packed = &x->memories->scratch[CMDQ_SCRATCH_PACKED],
           *sums = &x->memories->scratch[CMDQ_SCRATCH_PACKED_SUMS];
    if (packed->len + cmdq_packed_bytes(p) > SCRATCH_MAX)
        cmdq_flush_products(x->memories);
    if (!cmdq_has_deferred_products(x->memories))
        packed->len = sums->len = 0;
    *at = (cmdq_packed_offsets){packed->len, sums->len};
    void *to = cmdq_extend_scratch(x, CMDQ_SCRATCH_PACKED, cmdq_packed_bytes(p));
    void *sums_to = cmdq_extend_scratch(x, CMDQ_SCRATCH_PACKED_SUMS, cmdq_packed_sums_count(p) * sizeof(int32_t));
    if (cmdq_is_out_of_memory(x))
        return false;
    cmdq_pack_activations(p, to, sums_to);
    return true;
}

/* Packs the activations, or reuses those of an earlier operation: one input is mostly multiplied by several weights in
 * succession. */
static bool pack_activations(cmdq_exec *x, cmdq_matmul *p, const cmdq_tile *in)
{
    cmdq_memories *m = x->memories;
    cmdq_packed_input key = {.spm = in->bank * x->params->bank_bytes + in->start,
                             .bytes = in->bytes,
                             .m = p->m,
                             .k = p->k,
                             .variant = (uint8_t)p->variant,
                             .weight_bits = (uint8_t)p->weight_bits};
    const cmdq_packed_input *had = &m->packed;
    bool same = in->rows == 1 && had->bytes && had->spm == key.spm && had->bytes == key.bytes && had->m == key.m &&
                had->k == key.k && had->variant == key.variant && had->weight_bits == key.weight_bits;
    if (!same) {
        m->packed.bytes = 0;
        if (!pack_new_activations(x, p, &key.at))
            return false;
        m->packed = key;
        if (in->qbits != 8 ||
            in->rows > 1) /* others are unpacked to scratch memory first, which costs more than packing */
            m->packed.bytes = 0;
    }
    cmdq_set_packed(m, &m->packed.at, p);
    return true;
}

/* Sets the scales of weights. Those of groups stay in place as rows of a larger matrix where the variant takes them. */
static void set_scales(cmdq_exec *x, cmdq_matmul *p)
{
    const cmdq_tile *t = cmdq_find_tile(x->op, CMDQ_SCALES);
    uint64_t groups = p->k / p->group, stride;
    p->scale_stride = groups;
    if (t && p->grouped && cmdq_takes_strided_rows(p->variant)) {
        const uint8_t *rows = cmdq_tile_rows(x, t, groups * sizeof(float), &stride);
        if (((uintptr_t)rows | stride) % sizeof(float) == 0) {
            p->scales = (const float *)(const void *)rows;
            p->scale_stride = stride / sizeof(float);
            return;
        }
    }
    p->scales = cmdq_tile_f32(x, t, p->n * groups, 1, CMDQ_SCRATCH_SCALES);
}

/* Whether INT8 values of a weighted sum are better widened for every few rows of activations than once for all: for a
 * few rows, and where that is done in registers. */
static bool widens_bytes_fast(const cmdq_matmul *p)
{
    enum { ROWS_FEW = 4 };
    return p->m <= ROWS_FEW || tv_weighted_sum_s8(p->level) != tv_weighted_sum_s8(TV_CPU_SCALAR);
}

/* Chooses the variant and sets the operands that it wants. Returns false when out of memory. */
static bool set_operands(cmdq_exec *x, cmdq_matmul *p)
{
    const cmdq_op *op = x->op;
    const cmdq_tile *in = cmdq_find_tile(op, CMDQ_IN), *wgt = cmdq_find_tile(op, CMDQ_WGT);
    bool integers = wgt->qbits <= 8, exact = integers && in->qbits <= 8;
    p->variant = cmdq_choose_variant(p, integers, exact);
    bool packed = wgt->qbits == 4 && !p->transposed && cmdq_takes_packed_s4(p, p->variant);
    bool strided = !p->transposed && cmdq_takes_strided_rows(p->variant) && (packed || wgt->qbits == 8);
    integers = integers && (!cmdq_takes_transposed(p->variant) || (wgt->qbits == 8 && widens_bytes_fast(p)));
    bool widened = cmdq_takes_transposed(p->variant) && in->qbits == 16 && p->k <= CMDQ_WIDENED_MAX;
    p->weight_bits = packed ? 4 : 8;
    p->stride = p->k * p->weight_bits / 8;
    const void *a = widened ? cmdq_tile_packed(x, in, CMDQ_SCRATCH_PACKED_A)
                            : unpack_operand(x, in, exact, op->input_count, CMDQ_SCRATCH_A);
    const void *b = strided  ? cmdq_tile_rows(x, wgt, p->stride, &p->stride)
                    : packed ? cmdq_tile_packed(x, wgt, CMDQ_SCRATCH_PACKED_B)
                             : unpack_operand(x, wgt, integers, op->weight_count, CMDQ_SCRATCH_B);
    if (p->transposed && b && !cmdq_takes_transposed(p->variant))
        b = transpose(x, b, op->k, op->n, integers ? 1 : sizeof(float));
    set_scales(x, p);
    p->a8 = exact ? a : NULL;
    p->a16 = widened ? a : NULL;
    p->a = exact || widened ? NULL : a;
    p->b8 = integers ? b : NULL;
    p->b = integers ? NULL : b;
    return !cmdq_is_out_of_memory(x) && (cmdq_packed_sums_count(p) == 0 || pack_activations(x, p, in));
}

/* ---- Products ---- */

static bool multiply_dense(cmdq_exec *x, const cmdq_matmul *p)
{
    cmdq_multiply(p, x->memories->pool);
    return true;
}

/* Index `i` of an array of indices of `bits` bits. */
static unsigned sparse_index(const uint8_t *indices, unsigned bits, uint64_t i)
{
    unsigned value = 0;
    for (unsigned b = 0; b < bits; b++) {
        uint64_t at = i * bits + b;
        value |= (indices[at / 8] >> (at % 8) & 1u) << b;
    }
    return value;
}

/* Faults if one of `rows` rows of `kept` indices is not below `group`. */
static bool check_sparse_indices(cmdq_exec *x, const uint8_t *indices, uint64_t rows, uint64_t kept, uint64_t group)
{
    unsigned bits = x->op->sparse_index_bits;
    for (uint64_t i = 0; i < rows * kept; i++)
        if (sparse_index(indices, bits, i) >= group) {
            snprintf(x->error->message, sizeof x->error->message,
                     "the index of value %" PRIu64 " of weight row %" PRIu64 " is %u, its group has %" PRIu64, i % kept,
                     i / kept, sparse_index(indices, bits, i), group);
            x->error->code = CMDQ_CODE_SPARSE_INDEX;
            x->outcome = CMDQ_FAULT;
            return false;
        }
    return true;
}

/* For each row of weights, the inputs that its values are multiplied by are gathered: both are then rows of
 * k * sparse_n / sparse_m. */
static bool multiply_sparse(cmdq_exec *x, const cmdq_matmul *p)
{
    const cmdq_op *op = x->op;
    uint64_t sparse_n = cmdq_exec_integer(x, CMDQ_F_sparse_n), sparse_m = cmdq_exec_integer(x, CMDQ_F_sparse_m);
    uint64_t kept = op->k / sparse_m * sparse_n, groups = p->grouped ? p->k / p->group : 1;
    unsigned bits = op->sparse_index_bits;
    const cmdq_tile *t = cmdq_find_tile(op, CMDQ_WGT);
    const uint8_t *indices = cmdq_tile_bytes(x, t) + tv_ceil_div(op->weight_count * t->qbits, 8);
    if (!check_sparse_indices(x, indices, op->n, kept, sparse_m))
        return false;
    size_t size = p->a8 ? 1 : sizeof(float);
    uint8_t *gathered = cmdq_scratch(x, CMDQ_SCRATCH_ROW, kept * size);
    if (!gathered)
        return false;
    cmdq_matmul one = *p;
    one.m = one.n = 1;
    one.k = kept;
    one.group = p->grouped ? p->group / sparse_m * sparse_n : kept;
    one.a8 = p->a8 ? (const int8_t *)gathered : NULL;
    one.a = (const float *)(const void *)gathered;
    for (uint64_t i = 0; i < p->m; i++)
        for (uint64_t j = 0; j < p->n; j++) {
            float y;
            for (uint64_t v = 0; v < kept; v++)
                copy_element(gathered, v, p->a8 ? (const void *)p->a8 : p->a,
                             i * op->k + v / sparse_n * sparse_m + sparse_index(indices, bits, j * kept + v), size);
            one.b8 = p->b8 ? (const int8_t *)p->b8 + j * kept : NULL;
            one.b = p->b ? p->b + j * kept : NULL;
            one.scales = p->scales ? p->scales + j * groups : NULL;
            one.bias = p->bias ? p->bias + j : NULL;
            one.addend = p->addend ? p->addend + i * p->n + j : NULL;
            one.out = &y;
            one.values_first = i * p->n + j;
            cmdq_multiply(&one, NULL);
            p->out[i * p->n + j] = y;
        }
    return true;
}

/* ---- Entries ---- */

/* Whether the product can write the output tile, whose elements do not share bytes: it overlaps no operand. */
static bool can_write_output_directly(const cmdq_exec *x, const cmdq_matmul *p, const cmdq_tile *out)
{
    return cmdq_packs_outputs(p->variant) && !p->values && out->qbits >= 8 && out->rows == 1 &&
           (out->qbits < 32 || (out->bank * x->params->bank_bytes + out->start) % sizeof(float) == 0) &&
           cmdq_are_disjoint(out, cmdq_find_tile(x->op, CMDQ_IN)) &&
           cmdq_are_disjoint(out, cmdq_find_tile(x->op, CMDQ_WGT)) &&
           cmdq_are_disjoint(out, cmdq_find_tile(x->op, CMDQ_BIAS)) &&
           cmdq_are_disjoint(out, cmdq_find_tile(x->op, CMDQ_SCALES));
}

/* Residual, soft cap, activation and output scale of all results. */
static void apply_epilogue(cmdq_exec *x, float *out, uint64_t count)
{
    static const tv_func special[] = {[CMDQ_ACTIVATION_SILU] = TV_FUNC_SILU,
                                      [CMDQ_ACTIVATION_GELU] = TV_FUNC_GELU,
                                      [CMDQ_ACTIVATION_GELU_TANH] = TV_FUNC_GELU_TANH,
                                      [CMDQ_ACTIVATION_SIGMOID] = TV_FUNC_SIGMOID,
                                      [CMDQ_ACTIVATION_TANH] = TV_FUNC_TANH};
    const cmdq_tile *residual = cmdq_find_tile(x->op, CMDQ_RESIDUAL);
    const float *addend = cmdq_tile_f32(x, residual, count, cmdq_exec_real(x, CMDQ_F_scale_residual), CMDQ_SCRATCH_ROW);
    if (cmdq_is_out_of_memory(x))
        return;
    if (addend)
        tv_elements_add(out, addend, count, out);
    if (cmdq_has_field(x->queue, x->entry, CMDQ_F_soft_cap)) {
        float cap = cmdq_exec_real(x, CMDQ_F_soft_cap);
        tv_elements_div_scalar(out, count, cap);
        tv_func_f32_row(TV_FUNC_TANH, out, count, out);
        tv_elements_mul_scalar(out, count, cap);
    }
    uint64_t activation = cmdq_exec_integer(x, CMDQ_F_activation);
    if (activation == CMDQ_ACTIVATION_RELU)
        cmdq_relu(out, count, out);
    else if (activation == CMDQ_ACTIVATION_CLIP)
        cmdq_clip(out, count, cmdq_exec_limits(x), out);
    else if (activation != CMDQ_ACTIVATION_NONE)
        tv_func_f32_row(special[activation], out, count, out);
    tv_elements_div_scalar(out, count, cmdq_exec_real(x, CMDQ_F_scale_ofm));
}

static bool has_epilogue(const cmdq_exec *x)
{
    return x->op->special_functions || cmdq_find_tile(x->op, CMDQ_RESIDUAL) ||
           cmdq_exec_integer(x, CMDQ_F_activation) != CMDQ_ACTIVATION_NONE;
}

/* Packs rows of results into the output tile. */
static void pack_rows(cmdq_exec *x, const float *values, const cmdq_tile *out)
{
    uint64_t rows = out->rows, columns = x->op->m * x->op->n / rows;
    uint8_t *to = cmdq_tile_bytes(x, out);
    cmdq_append_results(x, values, 0, rows * columns);
    for (uint64_t i = 0; i < rows; i++)
        tv_elements_pack(values + i * columns, columns, out->qbits, to + i * out->stride);
}

static void exec_tensor(cmdq_exec *x, bool dense, bool transposed, cmdq_multiply_fn *multiply)
{
    const cmdq_op *op = x->op;
    const cmdq_tile *out = cmdq_find_tile(op, CMDQ_OUT);
    cmdq_matmul p = {.m = op->m,
                     .n = op->n,
                     .k = op->k,
                     .group = op->k,
                     .grouped = cmdq_has_field(x->queue, x->entry, CMDQ_F_wgt_group),
                     .dense = dense,
                     .transposed = transposed,
                     .level = x->memories->level,
                     .values = x->memories->values,
                     .scale_ifm = cmdq_exec_real(x, CMDQ_F_scale_ifm),
                     .scale_wgt = cmdq_exec_real(x, CMDQ_F_scale_wgt),
                     .scale_ofm = cmdq_exec_real(x, CMDQ_F_scale_ofm)};
    if (p.grouped)
        p.group = cmdq_exec_integer(x, CMDQ_F_wgt_group);
    const bool epilogue = has_epilogue(x); /* then the product leaves real values, and what it adds are such */
    if (multiply != multiply_dense || epilogue || cmdq_depends_on_products(x))
        cmdq_flush_products(x->memories);
    p.bias = cmdq_tile_f32(x, cmdq_find_tile(op, CMDQ_BIAS), op->n, 1, CMDQ_SCRATCH_BIAS);
    p.addend =
        cmdq_tile_f32(x, out->reads ? out : NULL, op->m * op->n, epilogue ? p.scale_ofm : 1, CMDQ_SCRATCH_ADDEND);
    if (epilogue)
        p.scale_ofm = 1;
    if (cmdq_is_out_of_memory(x) || !set_operands(x, &p))
        return;
    bool direct = !epilogue && can_write_output_directly(x, &p, out);
    p.elements = direct ? cmdq_tile_bytes(x, out) : NULL;
    p.element_bits = out->qbits;
    p.out = direct ? NULL : cmdq_scratch(x, CMDQ_SCRATCH_OUT, op->m * op->n * sizeof *p.out);
    if (cmdq_is_out_of_memory(x) || (direct && cmdq_defer_product(x, &p, out)))
        return;
    cmdq_flush_products(x->memories);
    if (!multiply(x, &p) || direct)
        return;
    if (epilogue)
        apply_epilogue(x, p.out, op->m * op->n);
    if (!cmdq_is_out_of_memory(x))
        pack_rows(x, p.out, out);
}

void cmdq_exec_gemm(cmdq_exec *x) { exec_tensor(x, true, false, multiply_dense); }

void cmdq_exec_av(cmdq_exec *x) { exec_tensor(x, true, true, multiply_dense); }

void cmdq_exec_conv(cmdq_exec *x) { exec_tensor(x, false, false, cmdq_multiply_conv); }

void cmdq_exec_sparse_gemm(cmdq_exec *x) { exec_tensor(x, false, false, multiply_sparse); }
