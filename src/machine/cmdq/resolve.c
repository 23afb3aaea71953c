/* SPDX-License-Identifier: Apache-2.0 */
/* From an entry to an operation record (CMDQ specification, section 4): its engine, its tiles, checked against the
 * memories of this machine, its sizes. Here is everything that is checked before an entry runs; an entry that resolves
 * can only fault over its data. The handlers are named in ops.def. */
#include "machine/cmdq/resolver.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "machine/cmdq/ops.h"

bool cmdq_reject(cmdq_resolver *r, cmdq_code code, cmdq_field field, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->error->message, sizeof r->error->message, format, args);
    va_end(args);
    snprintf(r->error->hint, sizeof r->error->hint, "%s", hint ? hint : "");
    r->error->code = code;
    r->error->field = field;
    return false;
}

bool cmdq_check_cycles(cmdq_resolver *r)
{
    return r->op->cycles <= CMDQ_CYCLES_MAX ||
           cmdq_reject(r, CMDQ_CODE_TOO_LONG, CMDQ_FIELDS, "cut the tile", "it would take more than 2^40 cycles");
}

static const char *field_name(cmdq_field id) { return tv_isa_cmdq.parameters[id].name; }

/* ---- Tiles ---- */

bool cmdq_add_spm_tile(cmdq_resolver *r, cmdq_operand operand, cmdq_field bank_field, tv_u128 elements, unsigned qbits,
                       cmdq_access access)
{
    const cmdq_params *params = r->params;
    uint64_t bank = cmdq_op_field(r, bank_field), offset = cmdq_op_field(r, (cmdq_field)(bank_field + 1));
    tv_u128 bits = elements * qbits, bytes = bits / 8 + (bits % 8 != 0);
    if (bank >= params->banks)
        return cmdq_reject(r, CMDQ_CODE_SPM_RANGE, bank_field, NULL,
                           "'%s' is %" PRIu64 ", but the machine has %u banks", field_name(bank_field), bank,
                           params->banks);
    if (offset > params->bank_bytes || bytes > params->bank_bytes - offset) {
        char hint[100];
        snprintf(hint, sizeof hint, "a bank has %" PRIu64 " bytes: cut the tile", params->bank_bytes);
        if (bytes >> 63)
            return cmdq_reject(r, CMDQ_CODE_SPM_RANGE, bank_field, hint,
                               "the tile at '%s' %" PRIu64 " does not fit any bank", field_name(bank_field), bank);
        return cmdq_reject(r, CMDQ_CODE_SPM_RANGE, (cmdq_field)(bank_field + 1), hint,
                           "the tile at '%s' %" PRIu64 ", offset 0x%" PRIx64 " has %" PRIu64
                           " bytes and runs past its bank",
                           field_name(bank_field), bank, offset, (uint64_t)bytes);
    }
    r->op->tiles[r->op->tile_count++] = (cmdq_tile){.start = offset,
                                                    .bytes = (uint64_t)bytes,
                                                    .rows = 1,
                                                    .operand = (uint8_t)operand,
                                                    .bank = (uint8_t)bank,
                                                    .bank_field = (uint8_t)bank_field,
                                                    .qbits = (uint8_t)qbits,
                                                    .reads = (access & CMDQ_READS) != 0,
                                                    .writes = (access & CMDQ_WRITES) != 0};
    return true;
}

/* The field that has the address in DRAM. */
static cmdq_field address_field(const cmdq_resolver *r)
{
    return cmdq_has_field(r->queue, r->entry, CMDQ_F_dram_addr) ? CMDQ_F_dram_addr : CMDQ_F_dram_base_addr;
}

/* Adds the DRAM tile: `rows` rows of `bytes`, `stride` bytes from row to row. */
static bool add_dram_tile(cmdq_resolver *r, tv_u128 addr, uint64_t bytes, uint64_t rows, uint64_t stride,
                          unsigned qbits, cmdq_access access)
{
    uint64_t size = r->params->dram_bytes;
    tv_u128 end = addr + (tv_u128)(rows - 1) * stride + bytes;
    if (end > size)
        return cmdq_reject(r, CMDQ_CODE_DRAM_RANGE, address_field(r), "make dram.bytes larger with -D",
                           "the transfer at DRAM 0x%" PRIx64 " runs past the last byte 0x%" PRIx64, (uint64_t)addr,
                           size - 1);
    r->op->bytes = bytes * rows;
    r->op->writes_dram = access == CMDQ_WRITES;
    if (bytes == stride) { /* contiguous rows are one */
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
                                                    .reads = access == CMDQ_READS,
                                                    .writes = access == CMDQ_WRITES};
    return true;
}

bool cmdq_set_engine(cmdq_resolver *r, cmdq_field id, uint64_t number)
{
    unsigned class = r->op->handlers->engine_class, count = r->params->count[class];
    if (number >= count)
        return cmdq_reject(r, CMDQ_CODE_ENGINE, id, "the configuration says how many there are",
                           "'%s' is %" PRIu64 ", but the machine has %u of them", field_name(id), number, count);
    r->op->engine = (uint8_t)(r->params->first[class] + number);
    return true;
}

bool cmdq_resolve_control(cmdq_resolver *r)
{
    (void)r;
    return true;
}

/* ---- DMA ---- */

/* An entry without dma_id gets the next channel, round robin; of a KV cache its own channel, if there is one. */
static bool set_channel(cmdq_resolver *r)
{
    unsigned channels = r->params->channels;
    if (cmdq_op_has(r, CMDQ_F_dma_id)) {
        uint64_t channel = cmdq_op_field(r, CMDQ_F_dma_id);
        if (channel >= channels)
            return cmdq_reject(r, CMDQ_CODE_ENGINE, CMDQ_F_dma_id, "the configuration says how many there are",
                               "'dma_id' is %" PRIu64 ", but the machine has %u of them", channel, channels);
        return cmdq_set_engine(r, CMDQ_F_dma_id, channel);
    }
    if (channels < r->params->count[CMDQ_DMA] && r->entry->opcode == CMDQ_KV_STORE_TILE)
        return cmdq_set_engine(r, CMDQ_F_dma_id, channels);
    if (channels < r->params->count[CMDQ_DMA] && r->entry->opcode == CMDQ_KV_LOAD_TILE)
        return cmdq_set_engine(r, CMDQ_F_dma_id, channels + 1);
    return cmdq_set_engine(r, CMDQ_F_dma_id, cmdq_next_channel(r->params, r->next_dma));
}

static bool resolve_transfer(cmdq_resolver *r, cmdq_access spm, cmdq_access dram)
{
    unsigned qbits = (unsigned)cmdq_op_field(r, CMDQ_F_qbits);
    uint64_t elements = cmdq_op_field(r, CMDQ_F_num_elements), stride = cmdq_op_field(r, CMDQ_F_stride_bytes),
             row = cmdq_op_field(r, CMDQ_F_row_elements), addr = cmdq_op_field(r, CMDQ_F_dram_addr);
    r->op->role = (uint8_t)cmdq_op_field(r, CMDQ_F_tensor_role);
    r->op->elements = elements;
    if (!set_channel(r) || !cmdq_add_spm_tile(r, CMDQ_IN, CMDQ_F_spm_bank, elements, qbits, spm))
        return false;
    if (!stride)
        return add_dram_tile(r, addr, tv_ceil_div(elements * qbits, 8), 1, 0, qbits, dram);
    if (elements % row)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_num_elements, NULL,
                           "'num_elements' %" PRIu64 " is no multiple of 'row_elements' %" PRIu64, elements, row);
    if (row * qbits % 8)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_row_elements, NULL,
                           "a row of %" PRIu64 " elements of %u bits is not whole bytes", row, qbits);
    if (stride < row * qbits / 8)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_stride_bytes, NULL,
                           "'stride_bytes' %" PRIu64 " is less than a row's %" PRIu64 " bytes", stride,
                           row * qbits / 8);
    return add_dram_tile(r, addr, row * qbits / 8, elements / row, stride, qbits, dram);
}

bool cmdq_resolve_load(cmdq_resolver *r) { return resolve_transfer(r, CMDQ_WRITES, CMDQ_READS); }

bool cmdq_resolve_store(cmdq_resolver *r) { return resolve_transfer(r, CMDQ_READS, CMDQ_WRITES); }

/* The layout of a file without kv_layouts, at the entry's base or, without one, at the only base of its kind. */
static const cmdq_kv_layout *find_derived_layout(cmdq_resolver *r)
{
    const cmdq_queue *q = r->queue;
    bool has_base = cmdq_op_has(r, CMDQ_F_dram_base_addr);
    unsigned kind = (unsigned)cmdq_op_field(r, CMDQ_F_kv_kind);
    uint64_t base = has_base ? cmdq_op_field(r, CMDQ_F_dram_base_addr) : q->derived_base[kind];
    const cmdq_kv_layout *layout = NULL;
    if (!has_base && q->derived_bases[kind] != 1) {
        cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_FIELDS, "give 'dram_base_addr', or metadata.kv_layouts",
                    q->derived_bases[kind] ? "the queue stores %s at several base addresses; which one is meant?"
                                           : "no entry gives the base address of the %s",
                    kind == CMDQ_KIND_K ? "keys" : "values");
        return NULL;
    }
    for (size_t i = 0; i < q->derived_layouts.count; i++)
        if (q->derived_layouts.data[i].k_base == base)
            layout = &q->derived_layouts.data[i];
    if (layout && layout->d_head)
        return layout;
    cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_FIELDS, "give 'd_len', or metadata.kv_layouts",
                layout ? "no entry says how many elements a head of the cache has"
                       : "there are more than 4096 base addresses");
    return NULL;
}

static const cmdq_kv_layout *find_kv_layout(cmdq_resolver *r)
{
    const cmdq_kv_layout *layouts = r->queue->kv_layouts.data;
    size_t count = r->queue->kv_layouts.count;
    if (!cmdq_op_has(r, CMDQ_F_kv_layout_id)) {
        if (count == 1)
            return layouts;
        if (!count)
            return find_derived_layout(r);
        cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_FIELDS, "metadata.kv_layouts lists the layouts",
                    "which of the %zu KV layouts? 'kv_layout_id' says", count);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (layouts[i].id == cmdq_op_field(r, CMDQ_F_kv_layout_id))
            return &layouts[i];
    cmdq_reject(r, CMDQ_CODE_KV_RANGE, CMDQ_F_kv_layout_id, "metadata.kv_layouts lists the layouts",
                "there is no KV layout %" PRIu64, cmdq_op_field(r, CMDQ_F_kv_layout_id));
    return NULL;
}

/* A slice [t][d] of a cache that is stored as [head][t_max][d_head]. */
static bool resolve_kv(cmdq_resolver *r, cmdq_access spm, cmdq_access dram)
{
    const cmdq_kv_layout *l;
    if (!set_channel(r) || !(l = find_kv_layout(r)))
        return false;
    unsigned qbits = (unsigned)cmdq_op_field(r, CMDQ_F_qbits_kv);
    const cmdq_kv_range *named = cmdq_named_range(r->queue, (uint32_t)(r->entry - r->queue->entries.data));
    uint64_t head = cmdq_op_field(r, CMDQ_F_head_id), t = named ? named->t_start : cmdq_op_field(r, CMDQ_F_t_start),
             t_len = named ? named->t_len : cmdq_op_field(r, CMDQ_F_t_len),
             d = named ? named->d_start : cmdq_op_field(r, CMDQ_F_d_start);
    uint64_t rest = tv_max_u64(l->d_head, d) - d;
    uint64_t d_len = !named ? cmdq_op_field_or(r, CMDQ_F_d_len, rest) : named->d_len ? named->d_len : rest;
    uint64_t base = cmdq_op_field_or(r, CMDQ_F_dram_base_addr,
                                     cmdq_op_field(r, CMDQ_F_kv_kind) == CMDQ_KIND_K ? l->k_base : l->v_base);
    cmdq_field outside = head >= l->heads                  ? CMDQ_F_head_id
                         : t + t_len > l->t_max            ? CMDQ_F_t_start
                         : !d_len || d + d_len > l->d_head ? CMDQ_F_d_start
                                                           : CMDQ_FIELDS;
    if (outside != CMDQ_FIELDS)
        return cmdq_reject(
            r, CMDQ_CODE_KV_RANGE, outside, NULL,
            "head %" PRIu64 ", tokens %" PRIu64 " to %" PRIu64 ", elements %" PRIu64 " to %" PRIu64
            " are not in layout %" PRIu64 " of %" PRIu64 " heads, %" PRIu64 " tokens, %" PRIu64 " elements",
            head, t, t + t_len - 1, d, d + tv_max_u64(d_len, 1) - 1, l->id, l->heads, l->t_max, l->d_head);
    if (d * qbits % 8 || d_len * qbits % 8 || l->d_head * qbits % 8)
        return cmdq_reject(r, CMDQ_CODE_KV_RANGE, CMDQ_F_qbits_kv, NULL,
                           "elements %" PRIu64 " to %" PRIu64 " of %u bits are not whole bytes", d, d + d_len - 1,
                           qbits);
    r->op->role = CMDQ_ROLE_KV;
    r->op->elements = t_len * d_len;
    tv_u128 first = ((tv_u128)head * l->t_max + t) * l->d_head + d;
    return cmdq_add_spm_tile(r, CMDQ_IN, CMDQ_F_spm_bank, r->op->elements, qbits, spm) &&
           add_dram_tile(r, base + first * qbits / 8, d_len * qbits / 8, t_len, l->d_head * qbits / 8, qbits, dram);
}

bool cmdq_resolve_kv_load(cmdq_resolver *r) { return resolve_kv(r, CMDQ_WRITES, CMDQ_READS); }

bool cmdq_resolve_kv_store(cmdq_resolver *r) { return resolve_kv(r, CMDQ_READS, CMDQ_WRITES); }

/* ---- Tensor engines ---- */

/* Elements of a weight scale group, or 0 without groups. */
static uint64_t scale_group(const cmdq_resolver *r) { return cmdq_op_field_or(r, CMDQ_F_wgt_group, 0); }

static void set_gemm_sizes(cmdq_resolver *r)
{
    cmdq_op *op = r->op;
    op->m = cmdq_op_field(r, CMDQ_F_m);
    op->n = cmdq_op_field(r, CMDQ_F_n);
    op->k = cmdq_op_field(r, CMDQ_F_k);
}

static bool check_scale_group(cmdq_resolver *r)
{
    uint64_t group = scale_group(r);
    return !group || r->op->k % group == 0 ||
           cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_wgt_group, NULL,
                       "k = %" PRIu64 " is no multiple of 'wgt_group' %" PRIu64, r->op->k, group);
}

/* Functions of each result that take the special function unit. */
static uint8_t count_special_functions(const cmdq_resolver *r)
{
    bool has_special_activation = cmdq_op_field(r, CMDQ_F_activation) >= CMDQ_ACTIVATION_SILU;
    return (uint8_t)(has_special_activation + cmdq_op_has(r, CMDQ_F_soft_cap));
}

/* Makes the tile that was added last `rows` rows of `columns` elements, as far apart as the field says. */
static bool spread_rows(cmdq_resolver *r, cmdq_field id, uint64_t rows, uint64_t columns)
{
    cmdq_tile *t = &r->op->tiles[r->op->tile_count - 1];
    uint64_t stride = cmdq_op_field(r, id), bytes = columns * t->qbits / 8;
    tv_u128 end = t->start + (tv_u128)(rows - 1) * stride + bytes;
    if (!stride || rows == 1)
        return true;
    if (columns * t->qbits % 8)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, id, "leave the stride out: the rows are packed then",
                           "a row of %" PRIu64 " elements of %u bits is not whole bytes", columns, (unsigned)t->qbits);
    if (stride == bytes)
        return true;
    if (stride < bytes)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, id, NULL,
                           "'%s' %" PRIu64 " is less than a row's %" PRIu64 " bytes", field_name(id), stride, bytes);
    if (end > r->params->bank_bytes)
        return cmdq_reject(r, CMDQ_CODE_SPM_RANGE, id, "cut the tile",
                           "%" PRIu64 " rows, %" PRIu64 " bytes apart from offset 0x%" PRIx64 ", run past their bank",
                           rows, stride, t->start);
    t->bytes = bytes;
    t->rows = rows;
    t->stride = stride;
    return true;
}

/* Adds the tiles of parameters that are given: biases, scales of weights, a residual. */
static bool add_parameter_tiles(cmdq_resolver *r)
{
    const cmdq_op *op = r->op;
    uint64_t group = scale_group(r);
    tv_u128 scales = (tv_u128)op->n * (group ? op->k / group : 1), outputs = (tv_u128)op->m * op->n;
    return (!cmdq_op_has(r, CMDQ_F_bias_bank) ||
            cmdq_add_spm_tile(r, CMDQ_BIAS, CMDQ_F_bias_bank, op->n, 32, CMDQ_READS)) &&
           (!cmdq_op_has(r, CMDQ_F_wgt_scale_bank) ||
            cmdq_add_spm_tile(r, CMDQ_SCALES, CMDQ_F_wgt_scale_bank, scales, 32, CMDQ_READS)) &&
           (!cmdq_op_has(r, CMDQ_F_residual_bank) ||
            (cmdq_add_spm_tile(r, CMDQ_RESIDUAL, CMDQ_F_residual_bank, outputs,
                               (unsigned)cmdq_op_field(r, CMDQ_F_qbits_residual), CMDQ_READS) &&
             spread_rows(r, CMDQ_F_residual_stride, op->m, op->n)));
}

/* Sets the products that are made and those that take time, for each output. */
static bool set_macs(cmdq_resolver *r, uint64_t macs, uint64_t array_macs)
{
    tv_u128 outputs = (tv_u128)r->op->m * r->op->n;
    if (outputs * array_macs >> 62)
        return cmdq_reject(r, CMDQ_CODE_SPM_RANGE, CMDQ_FIELDS, NULL, "2^62 multiplications and more are not one tile");
    r->op->macs = (uint64_t)outputs * macs;
    r->op->array_macs = (uint64_t)outputs * array_macs;
    return true;
}

/* Adds the tiles besides the weights. */
static bool add_tensor_tiles(cmdq_resolver *r, tv_u128 inputs)
{
    cmdq_op *op = r->op;
    cmdq_access out = cmdq_op_field(r, CMDQ_F_accumulate) ? CMDQ_READS_AND_WRITES : CMDQ_WRITES;
    op->activation_bits = (uint8_t)cmdq_op_field(r, CMDQ_F_qbits_activation);
    op->special_functions = count_special_functions(r);
    op->input_count = (uint64_t)inputs; /* they fit a bank, or are rejected */
    return cmdq_add_spm_tile(r, CMDQ_IN, CMDQ_F_ifm_bank, inputs, op->activation_bits, CMDQ_READS) &&
           spread_rows(r, CMDQ_F_ifm_stride, op->m, op->k) &&
           cmdq_add_spm_tile(r, CMDQ_OUT, CMDQ_F_ofm_bank, (tv_u128)op->m * op->n,
                             (unsigned)cmdq_op_field(r, CMDQ_F_qbits_ofm), out) &&
           spread_rows(r, CMDQ_F_ofm_stride, op->m, op->n) && add_parameter_tiles(r);
}

/* Adds the tile of dense weights, n * k. */
static bool add_weight_tile(cmdq_resolver *r)
{
    tv_u128 weights = (tv_u128)r->op->n * r->op->k;
    r->op->weight_bits = (uint8_t)cmdq_op_field(r, CMDQ_F_qbits_weight);
    r->op->weight_count = (uint64_t)weights;
    return cmdq_add_spm_tile(r, CMDQ_WGT, CMDQ_F_wgt_bank, weights, r->op->weight_bits, CMDQ_READS) &&
           (r->entry->opcode == CMDQ_TE_AV_TILE ? spread_rows(r, CMDQ_F_wgt_stride, r->op->k, r->op->n)
                                                : spread_rows(r, CMDQ_F_wgt_stride, r->op->n, r->op->k));
}

bool cmdq_resolve_gemm(cmdq_resolver *r)
{
    if (!cmdq_set_engine(r, CMDQ_F_te_id, cmdq_op_field(r, CMDQ_F_te_id)))
        return false;
    set_gemm_sizes(r);
    return check_scale_group(r) && add_weight_tile(r) && add_tensor_tiles(r, (tv_u128)r->op->m * r->op->k) &&
           set_macs(r, r->op->k, r->op->k);
}

/* The positions of a kernel along one padded side; 0 if it does not fit. */
static uint64_t window_side(uint64_t padded, uint64_t dilation, uint64_t kernel, uint64_t stride)
{
    uint64_t span = dilation * (kernel - 1) + 1;
    return padded < span ? 0 : (padded - span) / stride + 1;
}

void cmdq_set_window_sides(const cmdq_resolver *r, uint64_t *height, uint64_t *width)
{
    uint64_t top = cmdq_op_field(r, CMDQ_F_pad_h), left = cmdq_op_field(r, CMDQ_F_pad_w);
    *height = window_side(cmdq_op_field(r, CMDQ_F_in_h) + top + cmdq_op_field_or(r, CMDQ_F_pad_bottom, top),
                          cmdq_op_field(r, CMDQ_F_dil_h), cmdq_op_field(r, CMDQ_F_kernel_h),
                          cmdq_op_field(r, CMDQ_F_stride_h));
    *width = window_side(cmdq_op_field(r, CMDQ_F_in_w) + left + cmdq_op_field_or(r, CMDQ_F_pad_right, left),
                         cmdq_op_field(r, CMDQ_F_dil_w), cmdq_op_field(r, CMDQ_F_kernel_w),
                         cmdq_op_field(r, CMDQ_F_stride_w));
}

/* The convolution as a product: m output positions, n output channels, k elements of the kernel. */
static bool set_conv_sizes(cmdq_resolver *r)
{
    cmdq_op *op = r->op;
    uint64_t height, width, channels = cmdq_op_field(r, CMDQ_F_in_c), groups = cmdq_op_field(r, CMDQ_F_groups);
    cmdq_set_window_sides(r, &height, &width);
    op->n = cmdq_op_field(r, CMDQ_F_out_c);
    if (channels % groups || op->n % groups)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_groups, NULL,
                           "'groups' %" PRIu64 " does not divide '%s' %" PRIu64, groups,
                           channels % groups ? "in_c" : "out_c", channels % groups ? channels : op->n);
    tv_u128 k = (tv_u128)cmdq_op_field(r, CMDQ_F_kernel_h) * cmdq_op_field(r, CMDQ_F_kernel_w) * (channels / groups);
    if (!height || !width)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, CMDQ_F_kernel_h, NULL,
                           "the kernel is larger than the padded input");
    op->m = height * width;
    op->k = (uint64_t)k;
    return !(k >> 40) ||
           cmdq_reject(r, CMDQ_CODE_SPM_RANGE, CMDQ_F_kernel_h, NULL, "a kernel of so many elements fits no bank");
}

/* A group of fewer input channels takes the array as this number of them. */
enum { GROUP_CHANNELS_MIN = 32 };

/* Products that take time, for each output. */
static uint64_t conv_array_macs(const cmdq_resolver *r)
{
    uint64_t groups = cmdq_op_field(r, CMDQ_F_groups), channels = cmdq_op_field(r, CMDQ_F_in_c) / groups;
    return groups == 1 || channels >= GROUP_CHANNELS_MIN ? r->op->k : r->op->k / channels * GROUP_CHANNELS_MIN;
}

bool cmdq_resolve_conv(cmdq_resolver *r)
{
    tv_u128 inputs =
        (tv_u128)cmdq_op_field(r, CMDQ_F_in_h) * cmdq_op_field(r, CMDQ_F_in_w) * cmdq_op_field(r, CMDQ_F_in_c);
    return cmdq_set_engine(r, CMDQ_F_te_id, cmdq_op_field(r, CMDQ_F_te_id)) && set_conv_sizes(r) &&
           check_scale_group(r) && add_weight_tile(r) && add_tensor_tiles(r, inputs) &&
           set_macs(r, r->op->k, conv_array_macs(r));
}

/* Bits of an index into a group of `group` weights. */
static unsigned sparse_index_bits(uint64_t group)
{
    unsigned bits = 0;
    while (UINT64_C(1) << bits < group)
        bits++;
    return bits;
}

/* Structured sparse weights: n * k / sparse_m * sparse_n values, then, from a whole byte on, the index of each value in
 * its group. The tile is both. */
static bool add_sparse_weight_tile(cmdq_resolver *r)
{
    cmdq_op *op = r->op;
    unsigned qbits = (unsigned)cmdq_op_field(r, CMDQ_F_qbits_weight);
    uint64_t group = cmdq_op_field(r, CMDQ_F_sparse_m);
    tv_u128 values = (tv_u128)op->n * op->k / group * cmdq_op_field(r, CMDQ_F_sparse_n);
    tv_u128 bytes = (values * qbits + 7) / 8 + (values * sparse_index_bits(group) + 7) / 8;
    if (!cmdq_add_spm_tile(r, CMDQ_WGT, CMDQ_F_wgt_bank, bytes, 8, CMDQ_READS))
        return false;
    op->tiles[op->tile_count - 1].qbits = op->weight_bits = (uint8_t)qbits;
    op->weight_count = (uint64_t)values;
    op->sparse_index_bits = (uint8_t)sparse_index_bits(group);
    return true;
}

bool cmdq_resolve_sparse_gemm(cmdq_resolver *r)
{
    cmdq_op *op = r->op;
    uint64_t kept = cmdq_op_field(r, CMDQ_F_sparse_n), group = cmdq_op_field(r, CMDQ_F_sparse_m);
    if (!cmdq_set_engine(r, CMDQ_F_te_id, cmdq_op_field(r, CMDQ_F_te_id)))
        return false;
    set_gemm_sizes(r);
    if (!check_scale_group(r))
        return false;
    if (kept > group || op->k % group || scale_group(r) % group)
        return cmdq_reject(r, CMDQ_CODE_COMBINATION, kept > group ? CMDQ_F_sparse_n : CMDQ_F_sparse_m, NULL,
                           kept > group ? "'sparse_n' is larger than 'sparse_m'"
                                        : "k and 'wgt_group' must be multiples of 'sparse_m'");
    return add_sparse_weight_tile(r) && add_tensor_tiles(r, (tv_u128)op->m * op->k) &&
           set_macs(r, op->k / group * kept, op->k / group * kept);
}
