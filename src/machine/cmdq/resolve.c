/* SPDX-License-Identifier: Apache-2.0 */
/* From an entry to an operation: its engine, its tiles and their ranges, its cycles (CMDQ specification, sections 4 and
 * 5). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/cmdq/machine.h"

void cmdq_params_init(cmdq_params *s, const tv_config *config)
{
    static const char *const names[CMDQ_SYNC] = {"DMA", "TE", "VE"};
    static const unsigned counts[CMDQ_SYNC] = {CMDQ_PARAM_DMA_COUNT, CMDQ_PARAM_TE, CMDQ_PARAM_VE};
    *s = (cmdq_params){
        .banks = (unsigned)tv_config_integer(config, CMDQ_PARAM_SPM_BANKS),
        .bank_bytes = tv_config_integer(config, CMDQ_PARAM_SPM_BANK_BYTES),
        .dram_bytes = tv_config_integer(config, CMDQ_PARAM_DRAM_BYTES),
        .alignment = tv_config_integer(config, CMDQ_PARAM_DMA_ALIGNMENT),
        .bus_width = tv_config_integer(config, CMDQ_PARAM_DMA_BUS_WIDTH),
        .burst = tv_config_integer(config, CMDQ_PARAM_DMA_BURST),
        .peak = tv_config_integer(config, CMDQ_PARAM_DMA_PEAK),
        .conflict = tv_config_integer(config, CMDQ_PARAM_DMA_CONFLICT),
        .te_base = tv_config_integer(config, CMDQ_PARAM_TE_BASE),
        .te_init = tv_config_integer(config, CMDQ_PARAM_TE_INIT),
        .te_finalize = tv_config_integer(config, CMDQ_PARAM_TE_FINALIZE),
        .ve_lanes = tv_config_integer(config, CMDQ_PARAM_VE_LANES),
        .ve_init = tv_config_integer(config, CMDQ_PARAM_VE_INIT),
        .ve_finalize = tv_config_integer(config, CMDQ_PARAM_VE_FINALIZE),
        .ve_reduction = tv_config_integer(config, CMDQ_PARAM_VE_REDUCTION),
        .ve_sfu = tv_config_integer(config, CMDQ_PARAM_VE_SFU),
        .te_weight4 = tv_config_rate(config, CMDQ_PARAM_TE_WEIGHT4),
        .te_weight2 = tv_config_rate(config, CMDQ_PARAM_TE_WEIGHT2),
        .te_activation4 = tv_config_rate(config, CMDQ_PARAM_TE_ACTIVATION4),
        .te_float16 = tv_config_rate(config, CMDQ_PARAM_TE_FLOAT16),
        .te_float32 = tv_config_rate(config, CMDQ_PARAM_TE_FLOAT32),
        .ve_ops = tv_config_rate(config, CMDQ_PARAM_VE_OPS),
        .ve_activation8 = tv_config_rate(config, CMDQ_PARAM_VE_ACTIVATION8),
        .ve_activation4 = tv_config_rate(config, CMDQ_PARAM_VE_ACTIVATION4),
        .weights = {tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_WEIGHT),
                    tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_ACTIVATION),
                    tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_KV),
                    tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_EMBEDDING)},
    };
    for (unsigned c = 0; c < CMDQ_SYNC; c++) {
        s->first[c] = s->engines;
        s->count[c] = (unsigned)tv_config_integer(config, counts[c]);
        for (unsigned i = 0; i < s->count[c]; i++)
            snprintf(s->names[s->engines++], sizeof s->names[0], "%s%u", names[c], i & 31);
    }
}

/* An entry being resolved. */
typedef struct resolver {
    const cmdq_queue *queue;
    const cmdq_params *shape;
    const cmdq_entry *entry;
    cmdq_op *op;
    cmdq_error *wrong;
} resolver;

static bool fail(resolver *r, cmdq_code code, const char *hint, const char *format, ...) TV_PRINTF(4, 5);

static bool fail(resolver *r, cmdq_code code, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->wrong->message, sizeof r->wrong->message, format, args);
    va_end(args);
    snprintf(r->wrong->hint, sizeof r->wrong->hint, "%s", hint ? hint : "");
    r->wrong->code = code;
    return false;
}

static uint64_t get(const resolver *r, cmdq_field field) { return cmdq_integer(r->queue, r->entry, field); }

static bool has(const resolver *r, cmdq_field field) { return cmdq_has(r->queue, r->entry, field); }

/* ---- Tiles ---- */

static const char *field_name(cmdq_field field) { return tv_isa_cmdq.parameters[field].name; }

/* `elements` of `qbits` at the place that two fields give; `access`: 1 reads, 2 writes, 3 both. */
static bool spm_tile(resolver *r, cmdq_operand operand, cmdq_field bank_field, tv_u128 elements, unsigned qbits,
                     unsigned access)
{
    const cmdq_params *s = r->shape;
    uint64_t bank = get(r, bank_field), offset = get(r, (cmdq_field)(bank_field + 1));
    tv_u128 bits = elements * qbits, bytes = bits / 8 + (bits % 8 != 0);
    if (bank >= s->banks)
        return fail(r, CMDQ_CODE_SPM_RANGE, NULL, "'%s' is %" PRIu64 ", but the machine has %u banks",
                    field_name(bank_field), bank, s->banks);
    if (offset > s->bank_bytes || bytes > s->bank_bytes - offset) {
        char hint[100];
        snprintf(hint, sizeof hint, "a bank has %" PRIu64 " bytes: cut the tile", s->bank_bytes);
        if (bytes >> 63)
            return fail(r, CMDQ_CODE_SPM_RANGE, hint, "the tile at '%s' %" PRIu64 " does not fit any bank",
                        field_name(bank_field), bank);
        return fail(r, CMDQ_CODE_SPM_RANGE, hint,
                    "the tile at '%s' %" PRIu64 ", offset 0x%" PRIx64 " has %" PRIu64 " bytes and runs past its bank",
                    field_name(bank_field), bank, offset, (uint64_t)bytes);
    }
    r->op->tiles[r->op->tile_count++] = (cmdq_tile){.start = offset,
                                                    .bytes = (uint64_t)bytes,
                                                    .rows = 1,
                                                    .operand = (uint8_t)operand,
                                                    .bank = (uint8_t)bank,
                                                    .qbits = (uint8_t)qbits,
                                                    .reads = access & 1,
                                                    .writes = (access & 2) != 0};
    return true;
}

/* `rows` stretches of `bytes`, each `stride` after the one before. */
static bool dram_tile(resolver *r, tv_u128 addr, uint64_t bytes, uint64_t rows, uint64_t stride, unsigned qbits,
                      bool writes)
{
    uint64_t size = r->shape->dram_bytes;
    tv_u128 end = addr + (tv_u128)(rows - 1) * stride + bytes;
    if (end > size)
        return fail(r, CMDQ_CODE_DRAM_RANGE, "make dram.bytes larger with -D",
                    "the transfer at DRAM 0x%" PRIx64 " runs past the last byte 0x%" PRIx64, (uint64_t)addr, size - 1);
    if (bytes == stride) { /* rows that follow each other are one */
        bytes *= rows;
        rows = 1;
    }
    r->op->tiles[r->op->tile_count++] = (cmdq_tile){.start = (uint64_t)addr,
                                                    .bytes = bytes,
                                                    .rows = rows,
                                                    .stride = stride,
                                                    .operand = CMDQ_DRAM,
                                                    .bank = CMDQ_NO_BANK,
                                                    .qbits = (uint8_t)qbits,
                                                    .reads = !writes,
                                                    .writes = writes};
    return true;
}

/* ---- Cycles ---- */

/* Cycles past this are no figure that anybody wants, and sums of them would overflow. */
static const uint64_t CYCLES_MAX = UINT64_C(1) << 40;

/* a / b rounded up, or CYCLES_MAX + 1 where it is more. */
static uint64_t ceil_128(tv_u128 a, tv_u128 b)
{
    tv_u128 q = a / b + (a % b != 0);
    return q > CYCLES_MAX ? CYCLES_MAX + 1 : (uint64_t)q;
}

/* Alone: the bursts that its aligned bytes take, or what DRAM gives at most. */
static uint64_t dma_cycles(const cmdq_params *s, const cmdq_tile *t)
{
    uint64_t a = s->alignment, total = 0, period = 1;
    if (t->rows > 1) /* row starts repeat modulo the alignment */
        period = a / tv_gcd_u64(a, t->stride % a);
    uint64_t whole = t->rows / period, rest = t->rows % period;
    for (uint64_t i = 0; i < tv_min_u64(t->rows, period); i++) {
        uint64_t start = t->start + i * t->stride, aligned = tv_ceil_div(start + t->bytes, a) * a - start / a * a;
        total += aligned * (whole + (i < rest));
    }
    return tv_max_u64(ceil_128((tv_u128)tv_ceil_div(total, s->bus_width) * s->burst, 1), tv_ceil_div(total, s->peak));
}

typedef struct quotient {
    tv_u128 num, den;
} quotient;

static void times(quotient *q, tv_rate rate)
{
    q->num *= rate.num;
    q->den *= rate.den;
}

static uint64_t te_cycles(const cmdq_params *s, uint64_t macs, unsigned weight, unsigned activation)
{
    quotient rate = {s->te_base, 1};
    if (weight == 4 || weight == 2)
        times(&rate, weight == 4 ? s->te_weight4 : s->te_weight2);
    if (activation == 4 || activation == 2)
        times(&rate, s->te_activation4);
    for (unsigned i = 0; i < 2; i++) {
        unsigned qbits = i ? activation : weight;
        if (qbits >= 16)
            times(&rate, qbits == 16 ? s->te_float16 : s->te_float32);
    }
    return s->te_init + ceil_128((tv_u128)macs * rate.den, rate.num) + s->te_finalize;
}

static unsigned ceil_log2(uint64_t n)
{
    unsigned bits = 0;
    while (bits < 64 && UINT64_C(1) << bits < n)
        bits++;
    return bits;
}

static uint64_t ve_cycles(const cmdq_params *s, unsigned opcode, uint64_t rows, uint64_t length, unsigned qbits)
{
    quotient ops = {s->ve_lanes, 1};
    times(&ops, s->ve_ops);
    if (qbits <= 8)
        times(&ops, qbits == 8 ? s->ve_activation8 : s->ve_activation4);
    uint64_t e = ceil_128(length * ops.den, ops.num), red = s->ve_reduction + ceil_log2(length), row;
    switch (opcode) {
    case CMDQ_VE_LAYERNORM_TILE:
    case CMDQ_VE_RMSNORM_TILE:
        row = red + e;
        break;
    case CMDQ_VE_SOFTMAX_TILE:
        row = red + e + red + e;
        break;
    case CMDQ_VE_GELU_TILE:
    case CMDQ_VE_SILU_TILE:
        row = e + s->ve_sfu;
        break;
    case CMDQ_VE_ROPE_TILE:
        row = 2 * e + s->ve_sfu;
        break;
    default:
        row = e;
        break;
    }
    return s->ve_init + ceil_128((tv_u128)rows * row, 1) + s->ve_finalize;
}

/* ---- Classes ---- */

static bool take_engine(resolver *r, cmdq_class class_, cmdq_field field, uint64_t *turn)
{
    const cmdq_params *s = r->shape;
    uint64_t id = class_ == CMDQ_DMA && !has(r, field) ? (*turn)++ % s->count[class_] : get(r, field);
    if (id >= s->count[class_])
        return fail(r, CMDQ_CODE_ENGINE, "the configuration says how many there are",
                    "'%s' is %" PRIu64 ", but the machine has %u of them", field_name(field), id, s->count[class_]);
    r->op->engine = (uint8_t)(s->first[class_] + id);
    return true;
}

static bool resolve_transfer(resolver *r)
{
    cmdq_op *op = r->op;
    unsigned qbits = (unsigned)get(r, CMDQ_F_qbits);
    uint64_t elements = get(r, CMDQ_F_num_elements), stride = get(r, CMDQ_F_stride_bytes),
             row = get(r, CMDQ_F_row_elements);
    bool store = op->opcode == CMDQ_DMA_STORE_TILE;
    op->role = (uint8_t)get(r, CMDQ_F_tensor_role);
    op->elements = elements;
    if (!spm_tile(r, CMDQ_IN, CMDQ_F_spm_bank, elements, qbits, store ? 1 : 2))
        return false;
    if (!stride)
        return dram_tile(r, get(r, CMDQ_F_dram_addr), tv_ceil_div(elements * qbits, 8), 1, 0, qbits, store);
    if (elements % row)
        return fail(r, CMDQ_CODE_COMBINATION, NULL,
                    "'num_elements' %" PRIu64 " is no multiple of 'row_elements' %" PRIu64, elements, row);
    if (row * qbits % 8)
        return fail(r, CMDQ_CODE_COMBINATION, NULL, "a row of %" PRIu64 " elements of %u bits is not whole bytes", row,
                    qbits);
    if (stride < row * qbits / 8)
        return fail(r, CMDQ_CODE_COMBINATION, NULL, "'stride_bytes' %" PRIu64 " is less than a row's %" PRIu64 " bytes",
                    stride, row * qbits / 8);
    return dram_tile(r, get(r, CMDQ_F_dram_addr), row * qbits / 8, elements / row, stride, qbits, store);
}

static const cmdq_kv_layout *find_layout(resolver *r)
{
    const cmdq_kv_layout *all = (const cmdq_kv_layout *)(const void *)r->queue->layouts.data;
    size_t count = r->queue->layouts.len / sizeof *all;
    if (!has(r, CMDQ_F_kv_layout_id)) {
        if (count == 1)
            return all;
        fail(r, CMDQ_CODE_COMBINATION, "metadata.kv_layouts lists the layouts",
             count ? "which of the %zu KV layouts? 'kv_layout_id' says" : "the file has no KV layout", count);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (all[i].id == get(r, CMDQ_F_kv_layout_id))
            return &all[i];
    fail(r, CMDQ_CODE_KV_RANGE, "metadata.kv_layouts lists the layouts", "there is no KV layout %" PRIu64,
         get(r, CMDQ_F_kv_layout_id));
    return NULL;
}

static bool resolve_kv(resolver *r)
{
    cmdq_op *op = r->op;
    bool store = op->opcode == CMDQ_KV_STORE_TILE;
    const cmdq_kv_layout *l = find_layout(r);
    if (!l)
        return false;
    unsigned qbits = (unsigned)get(r, CMDQ_F_qbits_kv);
    uint64_t head = get(r, CMDQ_F_head_id), t = get(r, CMDQ_F_t_start), t_len = get(r, CMDQ_F_t_len),
             d = get(r, CMDQ_F_d_start);
    uint64_t d_len = has(r, CMDQ_F_d_len) ? get(r, CMDQ_F_d_len) : tv_max_u64(l->d_head, d) - d;
    uint64_t base = has(r, CMDQ_F_dram_base_addr)           ? get(r, CMDQ_F_dram_base_addr)
                    : get(r, CMDQ_F_kv_kind) == CMDQ_KIND_K ? l->k_base
                                                            : l->v_base;
    if (head >= l->heads || t + t_len > l->t_max || d_len == 0 || d + d_len > l->d_head)
        return fail(r, CMDQ_CODE_KV_RANGE, NULL,
                    "head %" PRIu64 ", tokens %" PRIu64 " to %" PRIu64 ", elements %" PRIu64 " to %" PRIu64
                    " are not in layout %" PRIu64 " of %" PRIu64 " heads, %" PRIu64 " tokens, %" PRIu64 " elements",
                    head, t, t + t_len - 1, d, d + tv_max_u64(d_len, 1) - 1, l->id, l->heads, l->t_max, l->d_head);
    if (d * qbits % 8 || d_len * qbits % 8 || l->d_head * qbits % 8)
        return fail(r, CMDQ_CODE_KV_RANGE, NULL, "elements %" PRIu64 " to %" PRIu64 " of %u bits are not whole bytes",
                    d, d + d_len - 1, qbits);
    op->role = CMDQ_ROLE_KV;
    op->elements = t_len * d_len;
    tv_u128 first = ((tv_u128)head * l->t_max + t) * l->d_head + d;
    return spm_tile(r, CMDQ_IN, CMDQ_F_spm_bank, op->elements, qbits, store ? 1 : 2) &&
           dram_tile(r, base + first * qbits / 8, d_len * qbits / 8, t_len, l->d_head * qbits / 8, qbits, store);
}

/* One side of a convolution's output; 0: the kernel does not fit. */
static uint64_t conv_side(uint64_t in, uint64_t pad, uint64_t dilation, uint64_t kernel, uint64_t stride)
{
    uint64_t padded = in + 2 * pad, span = dilation * (kernel - 1) + 1;
    return padded < span ? 0 : (padded - span) / stride + 1;
}

static bool conv_size(resolver *r)
{
    cmdq_op *op = r->op;
    uint64_t height = conv_side(get(r, CMDQ_F_in_h), get(r, CMDQ_F_pad_h), get(r, CMDQ_F_dil_h),
                                get(r, CMDQ_F_kernel_h), get(r, CMDQ_F_stride_h));
    uint64_t width = conv_side(get(r, CMDQ_F_in_w), get(r, CMDQ_F_pad_w), get(r, CMDQ_F_dil_w), get(r, CMDQ_F_kernel_w),
                               get(r, CMDQ_F_stride_w));
    tv_u128 k = (tv_u128)get(r, CMDQ_F_kernel_h) * get(r, CMDQ_F_kernel_w) * get(r, CMDQ_F_in_c);
    if (!height || !width)
        return fail(r, CMDQ_CODE_COMBINATION, NULL, "the kernel is larger than the padded input");
    op->m = height * width;
    op->n = get(r, CMDQ_F_out_c);
    op->k = (uint64_t)k;
    return !(k >> 40) || fail(r, CMDQ_CODE_SPM_RANGE, NULL, "a kernel of so many elements fits no bank");
}

static bool resolve_tensor(resolver *r)
{
    cmdq_op *op = r->op;
    bool conv = op->opcode == CMDQ_TE_CONV_TILE, sparse = op->opcode == CMDQ_TE_SPARSE_GEMM_TILE;
    unsigned weight = (unsigned)get(r, CMDQ_F_qbits_weight), activation = (unsigned)get(r, CMDQ_F_qbits_activation);
    uint64_t group = has(r, CMDQ_F_wgt_group) ? get(r, CMDQ_F_wgt_group) : 0, sn = get(r, CMDQ_F_sparse_n),
             sm = get(r, CMDQ_F_sparse_m);
    op->m = get(r, CMDQ_F_m);
    op->n = get(r, CMDQ_F_n);
    op->k = get(r, CMDQ_F_k);
    if (conv && !conv_size(r))
        return false;
    if (group && op->k % group)
        return fail(r, CMDQ_CODE_COMBINATION, NULL, "k = %" PRIu64 " is no multiple of 'wgt_group' %" PRIu64, op->k,
                    group);
    if (sparse && (sn > sm || op->k % sm || (group && group % sm)))
        return fail(r, CMDQ_CODE_COMBINATION, NULL,
                    sn > sm ? "'sparse_n' is larger than 'sparse_m'"
                            : "k and 'wgt_group' must be multiples of 'sparse_m'");
    tv_u128 inputs = (tv_u128)op->m * op->k, weights = (tv_u128)op->n * op->k, outputs = (tv_u128)op->m * op->n;
    if (conv)
        inputs = (tv_u128)get(r, CMDQ_F_in_h) * get(r, CMDQ_F_in_w) * get(r, CMDQ_F_in_c);
    if (sparse) { /* values, then from a whole byte on indices: as so many bits of 8 */
        weights = weights / sm * sn;
        tv_u128 bytes = (weights * weight + 7) / 8 + (weights * ceil_log2(sm) + 7) / 8;
        if (!spm_tile(r, CMDQ_WGT, CMDQ_F_wgt_bank, bytes, 8, 1))
            return false;
        op->tiles[op->tile_count - 1].qbits = (uint8_t)weight;
    } else if (!spm_tile(r, CMDQ_WGT, CMDQ_F_wgt_bank, weights, weight, 1)) {
        return false;
    }
    bool add = get(r, CMDQ_F_accumulate) != 0;
    if (!spm_tile(r, CMDQ_IN, CMDQ_F_ifm_bank, inputs, activation, 1) ||
        !spm_tile(r, CMDQ_OUT, CMDQ_F_ofm_bank, outputs, (unsigned)get(r, CMDQ_F_qbits_ofm), add ? 3 : 2) ||
        (has(r, CMDQ_F_bias_bank) && !spm_tile(r, CMDQ_BIAS, CMDQ_F_bias_bank, op->n, 32, 1)) ||
        (has(r, CMDQ_F_wgt_scale_bank) &&
         !spm_tile(r, CMDQ_SCALES, CMDQ_F_wgt_scale_bank, (tv_u128)op->n * (group ? op->k / group : 1), 32, 1)))
        return false;
    tv_u128 macs = (tv_u128)op->m * op->n * (sparse ? op->k / sm * sn : op->k);
    if (macs >> 62)
        return fail(r, CMDQ_CODE_SPM_RANGE, NULL, "2^62 multiplications and more are not one tile");
    op->macs = (uint64_t)macs;
    op->cycles = te_cycles(r->shape, op->macs, weight, activation);
    return true;
}

static bool resolve_vector(resolver *r)
{
    cmdq_op *op = r->op;
    unsigned in = (unsigned)get(r, CMDQ_F_qbits_activation);
    unsigned out = has(r, CMDQ_F_qbits_out) ? (unsigned)get(r, CMDQ_F_qbits_out) : in;
    uint64_t rows = get(r, CMDQ_F_rows), length = get(r, CMDQ_F_length), head = get(r, CMDQ_F_head_dim);
    op->m = rows;
    op->k = length;
    if (op->opcode == CMDQ_VE_ROPE_TILE && (head % 2 || length % head))
        return fail(r, CMDQ_CODE_COMBINATION, NULL,
                    "'head_dim' %" PRIu64 " is odd or does not divide 'length' %" PRIu64, head, length);
    if (has(r, CMDQ_F_valid_length) && get(r, CMDQ_F_valid_length) > length)
        return fail(r, CMDQ_CODE_COMBINATION, NULL, "'valid_length' %" PRIu64 " is more than 'length' %" PRIu64,
                    get(r, CMDQ_F_valid_length), length);
    if (!spm_tile(r, CMDQ_IN, CMDQ_F_in_bank, (tv_u128)rows * length, in, 1) ||
        !spm_tile(r, CMDQ_OUT, CMDQ_F_out_bank, (tv_u128)rows * length, out, 2))
        return false;
    bool second = op->opcode == CMDQ_VE_ADD_TILE || op->opcode == CMDQ_VE_MUL_TILE;
    unsigned in2 = has(r, CMDQ_F_qbits_in2) ? (unsigned)get(r, CMDQ_F_qbits_in2) : in;
    if ((second && !spm_tile(r, CMDQ_IN2, CMDQ_F_in2_bank, (tv_u128)rows * length, in2, 1)) ||
        (has(r, CMDQ_F_gamma_bank) && !spm_tile(r, CMDQ_GAMMA, CMDQ_F_gamma_bank, length, 32, 1)) ||
        (has(r, CMDQ_F_beta_bank) && !spm_tile(r, CMDQ_BETA, CMDQ_F_beta_bank, length, 32, 1)))
        return false;
    op->cycles = ve_cycles(r->shape, op->opcode, rows, length, in);
    return true;
}

static bool resolve(resolver *r, uint64_t *turn);

bool cmdq_resolve(const cmdq_queue *queue, const cmdq_params *shape, uint32_t index, uint64_t *turn, cmdq_op *op,
                  cmdq_error *wrong)
{
    resolver r = {queue, shape, &queue->entries[index], op, wrong};
    memset(op, 0, offsetof(cmdq_op, tiles));
    op->opcode = r.entry->opcode;
    op->class_ = cmdq_classes[r.entry->opcode];
    op->engine = CMDQ_NO_ENGINE;
    if (!resolve(&r, turn))
        return false;
    return op->cycles <= CYCLES_MAX ||
           fail(&r, CMDQ_CODE_TOO_LONG, "cut the tile", "it would take more than 2^40 cycles");
}

static bool resolve(resolver *r, uint64_t *turn)
{
    cmdq_op *op = r->op;
    switch (op->class_) {
    case CMDQ_TE:
        return take_engine(r, CMDQ_TE, CMDQ_F_te_id, turn) && resolve_tensor(r);
    case CMDQ_VE:
        return take_engine(r, CMDQ_VE, CMDQ_F_ve_id, turn) && resolve_vector(r);
    case CMDQ_DMA: {
        bool kv = op->opcode == CMDQ_KV_STORE_TILE || op->opcode == CMDQ_KV_LOAD_TILE;
        if (!take_engine(r, CMDQ_DMA, CMDQ_F_dma_id, turn) || !(kv ? resolve_kv(r) : resolve_transfer(r)))
            return false;
        op->cycles = dma_cycles(r->shape, &op->tiles[1]);
        return true;
    }
    default:
        return true;
    }
}

/* ---- The plan of a queue ---- */

void cmdq_plan_free(cmdq_plan *plan)
{
    free(plan->engine);
    free(plan->role);
    free(plan->cycles);
    free(plan->banks);
    free(plan->macs);
    free(plan->bytes);
    free(plan->order);
    cmdq_graph_free(&plan->graph);
    *plan = (cmdq_plan){0};
}

static void plan_entry(cmdq_plan *plan, uint32_t i, const cmdq_op *op)
{
    plan->engine[i] = op->engine;
    plan->role[i] = op->role;
    plan->cycles[i] = op->cycles;
    plan->macs[i] = op->macs;
    const cmdq_tile *dram = cmdq_find_tile(op, CMDQ_DRAM);
    plan->bytes[i] = dram ? (dram->bytes * dram->rows) << 1 | dram->writes : 0;
    unsigned n = 0;
    for (unsigned t = 0; t < op->tile_count; t++)
        if (op->tiles[t].bank != CMDQ_NO_BANK)
            plan->banks[i][n++] = op->tiles[t].bank;
    while (n < 8)
        plan->banks[i][n++] = CMDQ_NO_BANK;
}

static tv_status check_inits(const tv_program *program, const cmdq_params *shape, const tv_diag_sink *sink,
                             uint64_t *errors)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    const cmdq_init *inits = (const cmdq_init *)(const void *)q->inits.data;
    for (size_t i = 0; i < q->inits.len / sizeof *inits && *errors < 100; i++) {
        uint64_t size = inits[i].spm ? shape->bank_bytes : shape->dram_bytes;
        bool wrong = (inits[i].spm && inits[i].bank >= shape->banks) || inits[i].addr > size ||
                     inits[i].size > size - inits[i].addr;
        if (!wrong)
            continue;
        ++*errors;
        tv_source_loc place = {.file = program->files[0], .index = -1};
        if (inits[i].spm && inits[i].bank >= shape->banks) {
            tv_report(sink, TV_ERROR, &cmdq_codes[CMDQ_CODE_SPM_RANGE], &place, NULL,
                      "metadata: spm_init: there is no bank %" PRIu32 "; the machine has %u", inits[i].bank,
                      shape->banks);
            continue;
        }
        tv_report(sink, TV_ERROR, &cmdq_codes[inits[i].spm ? CMDQ_CODE_SPM_RANGE : CMDQ_CODE_DRAM_RANGE], &place, NULL,
                  "metadata: %s of %" PRIu64 " bytes at 0x%" PRIx64 " runs past the %s",
                  inits[i].spm ? "spm_init" : "dram_init", inits[i].size, inits[i].addr,
                  inits[i].spm ? "bank" : "end of DRAM");
    }
    for (uint64_t i = 0; i < program->output_count && *errors < 100; i++) {
        const tv_output_info *o = &program->outputs[i];
        uint64_t bytes = tv_dtype_bytes(o->type, o->count);
        tv_source_loc place = {.file = program->files[0], .index = -1};
        if (o->addr <= shape->dram_bytes && bytes <= shape->dram_bytes - o->addr)
            continue;
        ++*errors;
        tv_report(sink, TV_ERROR, &cmdq_codes[CMDQ_CODE_DRAM_RANGE], &place, NULL,
                  "metadata: output '%s' runs past the end of DRAM", o->name);
    }
    return TV_OK;
}

/* Looks for circles that engines' queues close, and for the order where it is not that of the ids. */
static tv_status plan_order(const tv_program *program, const tv_diag_sink *sink, uint64_t *errors, cmdq_plan *plan)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    uint32_t stuck = UINT32_MAX;
    plan->order = malloc(((size_t)plan->count + 1) * sizeof *plan->order);
    if (!plan->order)
        return tv_fail_memory(sink);
    if (cmdq_order(q, &plan->graph, plan->count, plan->engine, plan->order, &stuck))
        return TV_OK;
    if (stuck == UINT32_MAX)
        return tv_fail_memory(sink);
    tv_source_loc place = tv_program_source_loc(program, stuck);
    tv_buf circle = {0};
    cmdq_print_cycle(q, &plan->graph, plan->count, plan->engine, stuck, &circle);
    tv_report(sink, TV_ERROR, &cmdq_codes[CMDQ_CODE_CYCLE], &place, "entries of an engine go in the order of their ids",
              "entries wait for each other: %s", tv_buf_cstr(&circle));
    tv_buf_fini(&circle);
    ++*errors;
    return TV_ERR_INPUT;
}

tv_status cmdq_plan_make(const tv_program *program, const cmdq_params *shape, const tv_diag_sink *sink,
                         uint64_t *errors, cmdq_plan *plan)
{
    enum { ERRORS_MAX = 100 };
    const cmdq_queue *q = cmdq_queue_of(program);
    const uint64_t TOTAL_MAX = UINT64_C(1) << 61, CONFLICTS_MAX = CMDQ_ENGINES_MAX * 8;
    uint64_t turn = 0, found = 0, total = 0;
    size_t n = (size_t)q->count + 1;
    *plan = (cmdq_plan){.count = q->count,
                        .engine = malloc(n),
                        .role = malloc(n),
                        .cycles = malloc(n * sizeof *plan->cycles),
                        .banks = malloc(n * sizeof *plan->banks),
                        .macs = malloc(n * sizeof *plan->macs),
                        .bytes = malloc(n * sizeof *plan->bytes)};
    bool arrays = plan->engine && plan->role && plan->cycles && plan->banks && plan->macs && plan->bytes;
    tv_status status = arrays && cmdq_graph_make(q, q->count, &plan->graph) ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK)
        status = check_inits(program, shape, sink, &found);
    for (uint32_t i = 0; i < q->count && status == TV_OK; i++) {
        cmdq_op op;
        cmdq_error wrong;
        if (cmdq_resolve(q, shape, i, &turn, &op, &wrong)) {
            plan_entry(plan, i, &op);
            total += op.cycles + CONFLICTS_MAX * shape->conflict;
            if (total <= TOTAL_MAX)
                continue;
            wrong = (cmdq_error){.code = CMDQ_CODE_TOO_LONG, .message = "the queue would take more than 2^61 cycles"};
            total = 0;
        }
        plan_entry(plan, i, &(cmdq_op){.engine = CMDQ_NO_ENGINE});
        if (found++ >= ERRORS_MAX)
            continue;
        tv_source_loc place = tv_program_source_loc(program, i);
        tv_report(sink, TV_ERROR, &cmdq_codes[wrong.code], &place, wrong.hint[0] ? wrong.hint : NULL, "%s: %s",
                  cmdq_name(&q->entries[i]), wrong.message);
    }
    if (found > ERRORS_MAX)
        tv_report(sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_LIMIT], &(tv_source_loc){.file = program->files[0], .index = -1},
                  NULL, "too many errors; the rest is not told");
    *errors += found;
    if (status == TV_OK && found)
        status = TV_ERR_INPUT;
    if (status == TV_OK && q->forward)
        status = plan_order(program, sink, errors, plan);
    if (status != TV_OK)
        cmdq_plan_free(plan);
    return status;
}
