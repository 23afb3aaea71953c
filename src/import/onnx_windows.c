/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of convolutions and pools. */
#include "import/onnx_windows.h"

/* Copies a list of one number for each spatial axis. */
static void read_list(const tv_onnx_node *n, const char *name, uint32_t spatial, int64_t missing, int64_t *out)
{
    tv_onnx_list list = tv_onnx_ints(n, name);
    if (list.data && list.count != spatial)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the attribute '%s' has %zu numbers for %u spatial axes", name, list.count,
                       spatial);
    for (uint32_t i = 0; i < spatial && tv_onnx_ok(n); i++) {
        out[i] = list.data ? list.data[i] : missing;
        if (out[i] < 0 || out[i] >= INT32_MAX)
            tv_onnx_reject(n, TV_ONNX_INVALID, "the attribute '%s' is out of range", name);
    }
}

static void read_pads(const tv_onnx_node *n, uint32_t spatial, tv_graph_lists *out)
{
    tv_onnx_list list = tv_onnx_ints(n, "pads");
    if (list.data && list.count != 2 * (size_t)spatial)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the attribute 'pads' has not two numbers for each spatial axis");
    for (uint32_t i = 0; i < spatial && list.data && tv_onnx_ok(n); i++) {
        out->pad_begin[i] = list.data[i];
        out->pad_end[i] = list.data[spatial + i];
        if (list.data[i] < 0 || list.data[i] >= INT32_MAX || list.data[spatial + i] < 0 ||
            list.data[spatial + i] >= INT32_MAX)
            tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the attribute 'pads' is negative or too large");
    }
}

/* ceil(extent / stride) windows; an odd element of padding goes to the end, or with `lower` to the beginning. */
static void pad_same(const tv_graph_shape *dims, uint32_t spatial, bool lower, tv_graph_lists *out)
{
    for (uint32_t i = 0; i < spatial; i++) {
        int64_t extent = dims->dims[2 + i], stride = out->stride[i] ? out->stride[i] : 1;
        int64_t windows = (extent + stride - 1) / stride;
        int64_t pad = (windows - 1) * stride + (out->kernel[i] - 1) * out->dilation[i] + 1 - extent;
        pad = pad < 0 ? 0 : pad;
        out->pad_begin[i] = lower ? pad - pad / 2 : pad / 2;
        out->pad_end[i] = pad - out->pad_begin[i];
    }
}

bool tv_onnx_window(const tv_onnx_node *n, uint32_t x, uint32_t weights, tv_graph_lists *out)
{
    tv_graph_shape dims = tv_onnx_dims(n, x), w = tv_onnx_dims(n, weights);
    uint32_t spatial = dims.rank - 2;
    *out = (tv_graph_lists){0};
    if (dims.rank < 3 || spatial > TV_GRAPH_SPATIAL_MAX)
        return tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the input has not one to three axes after batch and channels") !=
               TV_NO_VALUE;
    if (weights != TV_NO_VALUE && w.rank != dims.rank)
        return tv_onnx_reject(n, TV_ONNX_INVALID, "the weights have not the rank of the input") != TV_NO_VALUE;
    if (!tv_onnx_attribute(n, "kernel_shape") && weights != TV_NO_VALUE)
        memcpy(out->kernel, w.dims + 2, spatial * sizeof *out->kernel);
    else
        read_list(n, "kernel_shape", spatial, 0, out->kernel);
    read_list(n, "strides", spatial, 1, out->stride);
    read_list(n, "dilations", spatial, 1, out->dilation);
    bool upper = tv_onnx_text_is(n, "auto_pad", "NOTSET", "SAME_UPPER"),
         lower = tv_onnx_text_is(n, "auto_pad", "NOTSET", "SAME_LOWER"),
         valid = tv_onnx_text_is(n, "auto_pad", "NOTSET", "VALID");
    for (uint32_t i = 0; i < spatial; i++)
        if (out->kernel[i] < 1 || out->stride[i] < 1 || out->dilation[i] < 1 || dims.dims[2 + i] >= INT32_MAX)
            tv_onnx_reject(n, TV_ONNX_INVALID, "a kernel, stride or dilation is less than 1");
    if (!tv_onnx_ok(n))
        return false;
    if (upper || lower)
        pad_same(&dims, spatial, lower, out);
    else if (!valid)
        read_pads(n, spatial, out);
    return tv_onnx_ok(n);
}
