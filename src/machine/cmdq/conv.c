/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions as products of gathered inputs and weights, group by group. */
#include "machine/cmdq/conv.h"

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
static void gather_conv_input(const conv_dims *d, const uint8_t *in, uint64_t i, uint64_t channel, uint8_t *out)
{
    uint64_t top = i / d->out_w * d->stride_h, left = i % d->out_w * d->stride_w, bytes = d->group_bytes;
    memset(out, 0, d->kernel_h * d->kernel_w * bytes);
    for (uint64_t y = 0; y < d->kernel_h; y++)
        for (uint64_t c = 0; c < d->kernel_w; c++) {
            uint64_t row = top + y * d->dil_h, column = left + c * d->dil_w;
            if (row >= d->pad_h && row - d->pad_h < d->in_h && column >= d->pad_w && column - d->pad_w < d->in_w)
                memcpy(out + (y * d->kernel_w + c) * bytes,
                       in + (row - d->pad_h) * d->in_row_bytes + (column - d->pad_w) * d->pixel_bytes + channel, bytes);
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
bool cmdq_multiply_conv(cmdq_exec *x, const cmdq_matmul *p)
{
    size_t size = p->a8 ? 1 : sizeof(float);
    const void *in = p->a8 ? (const void *)p->a8 : p->a;
    const conv_dims d = read_conv_dims(x, size);
    uint64_t channels = p->n / d.groups;
    uint8_t *gathered = cmdq_scratch(x, CMDQ_SCRATCH_ROW, p->k * size);
    for (uint64_t g = 0; gathered && g < d.groups; g++) {
        cmdq_matmul one = channel_product(p, g * channels, channels, gathered);
        for (uint64_t i = 0; i < p->m; i++) {
            uint64_t at = i * p->n + g * channels;
            gather_conv_input(&d, in, i, g * d.group_bytes, gathered);
            one.addend = p->addend ? p->addend + at : NULL;
            one.out = p->out + at;
            cmdq_multiply(&one, x->memories->pool);
        }
    }
    return gathered != NULL;
}
