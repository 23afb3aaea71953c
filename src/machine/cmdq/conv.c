/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions as products of gathered inputs and weights, group by group. */
#include "machine/cmdq/conv.h"

#include "kernels/depthwise.h"
#include "kernels/elements.h"

/* The sizes of a convolution. */
typedef struct conv_dims {
    uint64_t in_h, in_w, in_row_bytes, kernel_h, kernel_w, dil_h, dil_w, pad_h, pad_w, stride_h, stride_w;
    uint64_t out_w, groups;
    uint64_t pixel_bytes, group_bytes; /* of all channels, and of those of a group */
} conv_dims;

static conv_dims read_conv_dims(const cmdq_exec *x, size_t element_bytes)
{
    conv_dims d = {.in_h = cmdq_exec_integer(x, CMDQ_F_in_h),
                   .in_w = cmdq_exec_integer(x, CMDQ_F_in_w),
                   .kernel_h = cmdq_exec_integer(x, CMDQ_F_kernel_h),
                   .kernel_w = cmdq_exec_integer(x, CMDQ_F_kernel_w),
                   .dil_h = cmdq_exec_integer(x, CMDQ_F_dil_h),
                   .dil_w = cmdq_exec_integer(x, CMDQ_F_dil_w),
                   .pad_h = cmdq_exec_integer(x, CMDQ_F_pad_h),
                   .pad_w = cmdq_exec_integer(x, CMDQ_F_pad_w),
                   .stride_h = cmdq_exec_integer(x, CMDQ_F_stride_h),
                   .stride_w = cmdq_exec_integer(x, CMDQ_F_stride_w),
                   .pixel_bytes = cmdq_exec_integer(x, CMDQ_F_in_c) * element_bytes};
    d.in_row_bytes = d.in_w * d.pixel_bytes;
    d.groups = cmdq_exec_integer(x, CMDQ_F_groups);
    d.group_bytes = d.pixel_bytes / d.groups;
    bool has_right = cmdq_has_field(x->queue, x->entry, CMDQ_F_pad_right);
    uint64_t right = has_right ? cmdq_exec_integer(x, CMDQ_F_pad_right) : d.pad_w;
    d.out_w = (d.in_w + d.pad_w + right - d.dil_w * (d.kernel_w - 1) - 1) / d.stride_w + 1;
    return d;
}

/* The input of output position `i` in the channels from byte `channel` of a pixel on,
 * out[kernel_h][kernel_w][in_c / groups] (im2col); zeros outside the input. */
static void gather_position(const conv_dims *d, const uint8_t *in, uint64_t i, uint64_t channel, uint8_t *out)
{
    uint64_t top = i / d->out_w * d->stride_h, left = i % d->out_w * d->stride_w, bytes = d->group_bytes;
    bool adjacent = d->groups == 1 && d->dil_w == 1 && left >= d->pad_w && left - d->pad_w + d->kernel_w <= d->in_w;
    for (uint64_t y = 0; y < d->kernel_h; y++) {
        uint64_t row = top + y * d->dil_h;
        uint8_t *to = out + y * d->kernel_w * bytes;
        if (row < d->pad_h || row - d->pad_h >= d->in_h) {
            memset(to, 0, d->kernel_w * bytes);
            continue;
        }
        const uint8_t *from = in + (row - d->pad_h) * d->in_row_bytes + channel;
        if (adjacent) {
            memcpy(to, from + (left - d->pad_w) * d->pixel_bytes, d->kernel_w * bytes);
            continue;
        }
        for (uint64_t c = 0; c < d->kernel_w; c++, to += bytes) {
            uint64_t column = left + c * d->dil_w;
            if (column >= d->pad_w && column - d->pad_w < d->in_w)
                memcpy(to, from + (column - d->pad_w) * d->pixel_bytes, bytes);
            else
                memset(to, 0, bytes);
        }
    }
}

/* The product of the `count` output channels from `first` on, with one position. */
static cmdq_matmul channel_product(const cmdq_matmul *p, uint64_t first, uint64_t count, const uint8_t *gathered)
{
    cmdq_matmul one = *p;
    uint64_t scales = p->grouped ? p->k / p->group : 1;
    one.m = 1;
    one.n = count;
    one.a8 = p->a8 ? (const int8_t *)gathered : NULL;
    one.a = (const float *)(const void *)gathered;
    one.b8 = p->b8 ? (const int8_t *)p->b8 + first * p->k : NULL;
    one.b = p->b ? p->b + first * p->k : NULL;
    one.scales = p->scales ? p->scales + first * scales : NULL;
    one.bias = p->bias ? p->bias + first : NULL;
    return one;
}

/* One output position at a time: the gathered inputs of all could be many times the input. */
static bool multiply_positions(cmdq_exec *x, const cmdq_matmul *p, const conv_dims *d)
{
    const void *in = p->a8 ? (const void *)p->a8 : p->a;
    uint64_t channels = p->n / d->groups;
    uint8_t *gathered = cmdq_scratch(x, CMDQ_SCRATCH_ROW, p->k * (p->a8 ? 1 : sizeof(float)));
    for (uint64_t g = 0; gathered && g < d->groups; g++) {
        cmdq_matmul one = channel_product(p, g * channels, channels, gathered);
        for (uint64_t i = 0; i < p->m; i++) {
            uint64_t at = i * p->n + g * channels;
            gather_position(d, in, i, g * d->group_bytes, gathered);
            one.addend = p->addend ? p->addend + at : NULL;
            one.out = p->out + at;
            cmdq_multiply(&one, x->memories->pool);
        }
    }
    return gathered != NULL;
}

/* ---- Blocks of positions, as products of dense integers ---- */

/* The product of a block of positions with all output channels. False: out of memory. */
static bool multiply_block(cmdq_exec *x, cmdq_matmul *block)
{
    int8_t *packed = cmdq_scratch(x, CMDQ_SCRATCH_PACKED, cmdq_packed_bytes(block));
    int32_t *sums = cmdq_scratch(x, CMDQ_SCRATCH_PACKED_SUMS, cmdq_packed_sums_count(block) * sizeof *sums);
    if (cmdq_is_out_of_memory(x))
        return false;
    if (cmdq_packed_sums_count(block))
        cmdq_pack_activations(block, packed, sums);
    block->packed = packed;
    block->packed_sums = sums;
    cmdq_multiply(block, x->memories->pool);
    return true;
}

/* Whether the positions are the pixels of the input, in its order. */
static bool is_pointwise(const cmdq_matmul *p, const conv_dims *d)
{
    return d->kernel_h * d->kernel_w == 1 && d->stride_h * d->stride_w == 1 && !d->pad_h && !d->pad_w &&
           p->m == d->in_h * d->in_w;
}

static bool multiply_blocks(cmdq_exec *x, const cmdq_matmul *p, const conv_dims *d)
{
    enum { BLOCK_BYTES = 1 << 17 };
    bool pointwise = is_pointwise(p, d);
    uint64_t rows = tv_min_u64(p->m, tv_max_u64(BLOCK_BYTES / p->k / TV_PANEL_M_MAX, 1) * TV_PANEL_M_MAX);
    int8_t *gathered = pointwise ? NULL : cmdq_scratch(x, CMDQ_SCRATCH_ROW, rows * p->k);
    cmdq_matmul block = *p;
    x->memories->packed.bytes = 0; /* its scratch memory is used */
    block.dense = true;
    block.stride = p->k;
    for (uint64_t i = 0; i < p->m && !cmdq_is_out_of_memory(x); i += rows) {
        block.m = tv_min_u64(rows, p->m - i);
        block.variant = cmdq_choose_variant(&block, true, true);
        block.a8 = pointwise ? p->a8 + i * p->k : gathered;
        block.addend = p->addend ? p->addend + i * p->n : NULL;
        block.out = p->out + i * p->n;
        block.values_first = i * p->n;
        for (uint64_t r = 0; r < block.m && !pointwise; r++)
            gather_position(d, (const uint8_t *)p->a8, i + r, 0, (uint8_t *)gathered + r * p->k);
        if (!multiply_block(x, &block))
            return false;
    }
    return !cmdq_is_out_of_memory(x);
}

/* ---- Depthwise ---- */

/* A depthwise convolution of integers; tasks are rows of the output. */
typedef struct depthwise {
    const cmdq_matmul *p;
    const conv_dims *d;
    const int8_t *weights; /* [taps][channels] */
} depthwise;

enum { TAPS_MAX = 256, CHANNELS_AT_ONCE = 1024 };

static void finish_pixel(const cmdq_matmul *p, uint64_t i, uint64_t first, uint64_t count, const int32_t *sums)
{
    float *y = p->out + i * p->n + first;
    cmdq_append_sums(p, i * p->n + first, count, sums);
    tv_elements_dequantize(sums, count, p->scale_ifm, p->scales ? p->scales + first : NULL, p->scale_wgt, y);
    if (p->bias || p->addend || p->scale_ofm != 1)
        tv_elements_epilogue(y, count, p->bias ? p->bias + first : NULL,
                             p->addend ? p->addend + i * p->n + first : NULL, p->scale_ofm, y);
}

static void multiply_depthwise_rows(void *task, uint64_t from, uint64_t to)
{
    const depthwise *w = task;
    const conv_dims *d = w->d;
    const cmdq_matmul *p = w->p;
    const int8_t *taps[TAPS_MAX];
    int32_t sums[CHANNELS_AT_ONCE];
    for (uint64_t i = from * d->out_w; i < to * d->out_w; i++) {
        uint64_t top = i / d->out_w * d->stride_h, left = i % d->out_w * d->stride_w;
        for (uint64_t t = 0; t < p->k; t++) {
            uint64_t row = top + t / d->kernel_w * d->dil_h, column = left + t % d->kernel_w * d->dil_w;
            bool inside =
                row >= d->pad_h && row - d->pad_h < d->in_h && column >= d->pad_w && column - d->pad_w < d->in_w;
            taps[t] = inside ? p->a8 + (row - d->pad_h) * d->in_row_bytes + (column - d->pad_w) * p->n : NULL;
        }
        for (uint64_t c = 0; c < p->n; c += CHANNELS_AT_ONCE) {
            uint64_t count = tv_min_u64(CHANNELS_AT_ONCE, p->n - c);
            tv_depthwise_s8(taps, w->weights + c, p->n, p->k, count, sums);
            finish_pixel(p, i, c, count, sums);
            for (uint64_t t = 0; t < p->k && c + CHANNELS_AT_ONCE < p->n; t++)
                taps[t] = taps[t] ? taps[t] + CHANNELS_AT_ONCE : NULL;
        }
    }
}

static bool multiply_depthwise(cmdq_exec *x, const cmdq_matmul *p, const conv_dims *d)
{
    int8_t *weights = cmdq_scratch(x, CMDQ_SCRATCH_ROW, p->n * p->k);
    if (!weights)
        return false;
    for (uint64_t c = 0; c < p->n; c++)
        for (uint64_t t = 0; t < p->k; t++)
            weights[t * p->n + c] = ((const int8_t *)p->b8)[c * p->k + t];
    tv_pool_run(p->values ? NULL : x->memories->pool, p->m / d->out_w, multiply_depthwise_rows,
                &(depthwise){p, d, weights});
    return true;
}

bool cmdq_multiply_conv(cmdq_exec *x, const cmdq_matmul *p)
{
    const conv_dims d = read_conv_dims(x, p->a8 ? 1 : sizeof(float));
    bool exact = p->a8 && p->b8 && p->group <= CMDQ_EXACT_LENGTH_MAX;
    if (exact && d.groups == 1)
        return multiply_blocks(x, p, &d);
    if (exact && !p->grouped && d.groups == p->n && d.group_bytes == 1 && p->k <= TAPS_MAX)
        return multiply_depthwise(x, p, &d);
    return multiply_positions(x, p, &d);
}
