/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of the graph under construction, and the bounds of what is computed. */
#include "import/onnx_nodes.h"

#define OUTPUT_BYTES_MAX (UINT64_C(256) << 20)

bool tv_onnx_take_bytes(tv_onnx_context *c, uint64_t bytes)
{
    if (bytes > OUTPUT_BYTES_MAX || bytes > c->bytes_left)
        return false;
    c->bytes_left -= bytes;
    return true;
}

bool tv_onnx_dims_fit(tv_element element, uint32_t rank, const int64_t *dims)
{
    int64_t positive[TV_GRAPH_RANK_MAX];
    if (rank > TV_GRAPH_RANK_MAX)
        return false;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0 || dims[i] > INT32_MAX)
            return false;
        positive[i] = dims[i] ? dims[i] : 1;
    }
    return tv_tensor_fits(element, rank, positive);
}

uint32_t tv_onnx_add_constant(tv_onnx_context *c, const char *name, const tv_tensor *tensor)
{
    uint32_t value = c->status == TV_OK ? tv_graph_tensor(&c->builder, name, tensor, true) : TV_NO_VALUE;
    if (value != TV_NO_VALUE &&
        (!tensor->storage || TV_VEC_PUSH(&c->storage, (tv_onnx_storage){value, tensor->storage})))
        return value;
    free(tensor->storage);
    return tv_onnx_fail_memory(c);
}
