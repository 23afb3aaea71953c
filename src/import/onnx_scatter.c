/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that write to indices, and that order elements. */
#include <inttypes.h>

#include "import/onnx_table.h"

static tv_scatter_mode scatter_mode(const tv_onnx_node *n)
{
    static const char *const names[TV_SCATTER_MODES] = {
        [TV_SCATTER_REPLACE] = "none", [TV_SCATTER_ADD] = "add", [TV_SCATTER_MUL] = "mul",
        [TV_SCATTER_MAX] = "max",      [TV_SCATTER_MIN] = "min",
    };
    for (unsigned i = 0; i < TV_SCATTER_MODES; i++)
        if (tv_onnx_text_is(n, "reduction", "none", names[i]))
            return (tv_scatter_mode)i;
    tv_onnx_reject(n, TV_ONNX_INVALID, "the attribute 'reduction' is none of none, add, mul, max and min");
    return TV_SCATTER_REPLACE;
}

/* Data, indices and updates. */
static void import_scatter(tv_onnx_node *n, tv_graph_op op, uint32_t axis)
{
    uint32_t inputs[3] = {tv_onnx_input(n, 0), tv_onnx_input(n, 1), tv_onnx_input(n, 2)};
    tv_graph_attrs attrs = {.axis = axis, .mode = scatter_mode(n)};
    tv_onnx_output(n, 0, tv_onnx_emit(n, op, inputs, 3, &attrs));
}

void tv_onnx_import_scatter_nd(tv_onnx_node *n) { import_scatter(n, TV_OP_SCATTER_ND, 0); }

void tv_onnx_import_scatter_elements(tv_onnx_node *n)
{
    uint32_t rank = tv_onnx_dims(n, tv_onnx_input(n, 0)).rank;
    import_scatter(n, TV_OP_SCATTER_ELEMENTS, tv_onnx_axis(n, tv_onnx_int(n, "axis", 0), rank));
}

void tv_onnx_import_reverse_sequence(tv_onnx_node *n)
{
    uint32_t inputs[2] = {tv_onnx_input(n, 0), tv_onnx_input(n, 1)}, rank = tv_onnx_dims(n, inputs[0]).rank;
    tv_graph_attrs attrs = {.axis = tv_onnx_axis(n, tv_onnx_int(n, "time_axis", 0), rank),
                            .mode = tv_onnx_axis(n, tv_onnx_int(n, "batch_axis", 1), rank)};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_REVERSE_SEQUENCE, inputs, 2, &attrs));
}

/* Along the last axis; a node for each output that is used. */
void tv_onnx_import_top_k(tv_onnx_node *n)
{
    static const tv_graph_op outputs[2] = {TV_OP_TOP_K, TV_OP_TOP_K_INDICES};
    uint32_t x = tv_onnx_input(n, 0), perm[TV_GRAPH_RANK_MAX] = {0};
    tv_graph_shape dims = tv_onnx_dims(n, x);
    uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", -1), dims.rank);
    int64_t k = n->opset < 10 ? tv_onnx_int(n, "k", 0) : tv_onnx_integer(n, 1, 0);
    if (tv_onnx_ok(n) && (k < 0 || k > dims.dims[axis]))
        tv_onnx_reject(n, TV_ONNX_INVALID, "%" PRId64 " elements are not in the axis", k);
    uint32_t moved = tv_onnx_axes_last(n, x, UINT32_C(1) << axis, perm);
    if (!tv_onnx_ok(n))
        return;
    tv_graph_attrs attrs = {.end = (uint32_t)k, .mode = tv_onnx_int(n, "largest", 1) == 0};
    dims.dims[axis] = k;
    for (size_t i = 0; i < 2; i++)
        if (tv_onnx_has_output(n, i))
            tv_onnx_output(n, i, tv_onnx_axes_back(n, tv_onnx_emit(n, outputs[i], &moved, 1, &attrs), &dims, perm));
}
