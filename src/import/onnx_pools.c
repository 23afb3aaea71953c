/* SPDX-License-Identifier: Apache-2.0 */
/* Pools. A global one has a window of the whole plane. */
#include "import/onnx_table.h"
#include "import/onnx_windows.h"

/* The norm of LpPool; up to opset 1 a real number. */
static float norm_power(const tv_onnx_node *n)
{
    float power = n->opset < 2 ? tv_onnx_float(n, "p", 2) : (float)tv_onnx_int(n, "p", 2);
    if (!(power >= 1))
        tv_onnx_reject(n, TV_ONNX_INVALID, "the norm p is less than 1");
    return power;
}

void tv_onnx_import_pool(tv_onnx_node *n)
{
    tv_graph_lists lists;
    uint32_t x = tv_onnx_input(n, 0);
    bool padding = n->row->op == TV_OP_AVERAGE_POOL && tv_onnx_int(n, "count_include_pad", 0) != 0,
         partial = tv_onnx_int(n, "ceil_mode", 0) != 0;
    float power = n->row->op == TV_OP_LP_POOL ? norm_power(n) : 0;
    if (!tv_onnx_window(n, x, TV_NO_VALUE, &lists))
        return;
    tv_graph_attrs attrs = {.lists = &lists, .mode = padding | (unsigned)partial << 1, .alpha = power};
    tv_onnx_output(n, 0, tv_onnx_emit(n, n->row->op, &x, 1, &attrs));
    attrs.mode |= tv_onnx_int(n, "storage_order", 0) ? 4 : 0;
    if (n->row->op == TV_OP_MAX_POOL && tv_onnx_has_output(n, 1))
        tv_onnx_output(n, 1, tv_onnx_emit(n, TV_OP_MAX_POOL_INDICES, &x, 1, &attrs));
}

void tv_onnx_import_global_pool(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    tv_graph_lists lists = {0};
    float power = n->row->op == TV_OP_LP_POOL ? norm_power(n) : 0;
    if (tv_onnx_ok(n) && (dims.rank < 3 || dims.rank > 2 + TV_GRAPH_SPATIAL_MAX))
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the input has not one to three axes after batch and channels");
    for (uint32_t i = 2; i < dims.rank && tv_onnx_ok(n); i++) {
        lists.kernel[i - 2] = dims.dims[i];
        lists.stride[i - 2] = lists.dilation[i - 2] = 1;
    }
    tv_onnx_output(n, 0, tv_onnx_emit(n, n->row->op, &x, 1, &(tv_graph_attrs){.lists = &lists, .alpha = power}));
}
