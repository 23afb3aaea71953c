/* SPDX-License-Identifier: Apache-2.0 */
/* Forms that many operators are composed of. */
#include <stdio.h>

#include "import/onnx_nodes.h"

static bool same_dims(const tv_graph_shape *a, const tv_graph_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

uint32_t tv_onnx_reshape(tv_onnx_node *n, uint32_t x, const tv_graph_shape *to)
{
    tv_graph_shape from = tv_onnx_dims(n, x);
    if (!tv_onnx_ok(n) || same_dims(&from, to))
        return x;
    return tv_onnx_emit(n, TV_OP_RESHAPE, &x, 1, &(tv_graph_attrs){.shape = *to});
}

uint32_t tv_onnx_transpose(tv_onnx_node *n, uint32_t x, const uint32_t *perm)
{
    tv_graph_shape from = tv_onnx_dims(n, x), to = {.rank = from.rank};
    tv_graph_lists lists = {0};
    bool moves = false;
    int64_t last = -1;
    for (uint32_t i = 0; i < from.rank && tv_onnx_ok(n); i++) {
        lists.perm[i] = perm[i];
        to.dims[i] = from.dims[perm[i]];
        if (to.dims[i] != 1) { /* axes of one element do not change the order of others */
            moves |= (int64_t)perm[i] < last;
            last = perm[i];
        }
    }
    if (!moves)
        return tv_onnx_reshape(n, x, &to);
    return tv_onnx_emit(n, TV_OP_TRANSPOSE, &x, 1, &(tv_graph_attrs){.lists = &lists});
}

uint32_t tv_onnx_expand(tv_onnx_node *n, uint32_t x, const tv_graph_shape *to)
{
    tv_graph_shape from = tv_onnx_dims(n, x);
    if (!tv_onnx_ok(n) || same_dims(&from, to))
        return x;
    return tv_onnx_emit(n, TV_OP_EXPAND, &x, 1, &(tv_graph_attrs){.shape = *to});
}

uint32_t tv_onnx_cast(tv_onnx_node *n, uint32_t x, tv_element to)
{
    if (!tv_onnx_ok(n) || tv_onnx_element(n, x) == to)
        return x;
    return tv_onnx_emit(n, TV_OP_CAST, &x, 1, &(tv_graph_attrs){.to = to});
}

/* Notes that y is the transposed constant x. */
static void note_transposed(tv_onnx_context *c, uint32_t x, uint32_t y)
{
    while (c->transposed.count <= x && !c->transposed.failed)
        if (!TV_VEC_PUSH(&c->transposed, TV_NO_VALUE))
            tv_onnx_fail_memory(c);
    if (c->status == TV_OK)
        c->transposed.data[x] = y;
}

uint32_t tv_onnx_matrix_transpose(tv_onnx_node *n, uint32_t x)
{
    tv_onnx_context *c = n->c;
    if (x == TV_NO_VALUE || !tv_onnx_ok(n))
        return TV_NO_VALUE;
    if (x < c->transposed.count && c->transposed.data[x] != TV_NO_VALUE)
        return c->transposed.data[x];
    uint32_t y = tv_onnx_transpose(n, x, (uint32_t[]){1, 0});
    if (tv_onnx_is_constant(n, x) && tv_onnx_is_constant(n, y)) {
        note_transposed(c, x, y);
        note_transposed(c, y, x);
    }
    return tv_onnx_ok(n) ? y : TV_NO_VALUE;
}

/* ---- Constants ---- */

bool tv_onnx_tensor_init(tv_onnx_node *n, tv_element element, const tv_graph_shape *dims, tv_tensor *out)
{
    tv_tensor type = {.element = element, .rank = dims->rank};
    *out = (tv_tensor){0};
    memcpy(type.dims, dims->dims, sizeof type.dims);
    if (!tv_onnx_ok(n))
        return false;
    if (!tv_tensor_fits(element, type.rank, type.dims) || !tv_onnx_take_bytes(n->c, tv_tensor_bytes(&type)))
        return tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the constant that it makes is too large") != TV_NO_VALUE;
    n->c->status = tv_tensor_init(out, element, type.rank, type.dims, n->c->sink);
    return tv_onnx_ok(n);
}

uint32_t tv_onnx_tensor(tv_onnx_node *n, tv_tensor *tensor)
{
    char name[96];
    if (!tv_onnx_ok(n)) {
        tv_tensor_fini(tensor);
        return TV_NO_VALUE;
    }
    snprintf(name, sizeof name, "%.64s/%u", n->proto->n_output ? n->proto->output[0] : "", n->made++);
    return tv_onnx_add_constant(n->c, name, tensor);
}

uint32_t tv_onnx_scalar(tv_onnx_node *n, tv_element element, double value)
{
    tv_tensor t;
    if (!tv_onnx_tensor_init(n, element, &(tv_graph_shape){0}, &t))
        return TV_NO_VALUE;
    tv_tensor_set_real(&t, 0, value);
    return tv_onnx_tensor(n, &t);
}

uint32_t tv_onnx_integer_scalar(tv_onnx_node *n, tv_element element, int64_t value)
{
    tv_tensor t;
    if (!tv_onnx_tensor_init(n, element, &(tv_graph_shape){0}, &t))
        return TV_NO_VALUE;
    tv_tensor_set_integer(&t, 0, value);
    return tv_onnx_tensor(n, &t);
}

uint32_t tv_onnx_iota(tv_onnx_node *n, tv_element element, uint64_t count, double first, double step)
{
    tv_tensor t;
    bool fits = count <= INT64_MAX;
    if (!fits || !tv_onnx_tensor_init(n, element, &(tv_graph_shape){1, {(int64_t)count}}, &t))
        return fits ? TV_NO_VALUE : tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the range is too long");
    for (uint64_t i = 0; i < count; i++)
        tv_tensor_set_real(&t, i, first + (double)i * step);
    return tv_onnx_tensor(n, &t);
}

/* ---- Axes ---- */

uint32_t tv_onnx_axes_last(tv_onnx_node *n, uint32_t x, uint32_t axes, uint32_t perm[TV_GRAPH_RANK_MAX])
{
    tv_graph_shape from = tv_onnx_dims(n, x), to = {0};
    uint32_t count = 0;
    int64_t product = 1;
    for (uint32_t i = 0; i < from.rank; i++)
        if (!(axes >> i & 1)) {
            to.dims[to.rank++] = from.dims[i];
            perm[count++] = i;
        }
    for (uint32_t i = 0; i < from.rank; i++)
        if (axes >> i & 1) {
            product *= from.dims[i];
            perm[count++] = i;
        }
    if (to.rank == TV_GRAPH_RANK_MAX) /* no axes of 8: one more of 1 element has no room */
        return tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "it has too many axes");
    to.dims[to.rank++] = product;
    return tv_onnx_reshape(n, tv_onnx_transpose(n, x, perm), &to);
}

uint32_t tv_onnx_axes_back(tv_onnx_node *n, uint32_t y, const tv_graph_shape *dims,
                           const uint32_t perm[TV_GRAPH_RANK_MAX])
{
    tv_graph_shape moved = {.rank = dims->rank};
    uint32_t inverse[TV_GRAPH_RANK_MAX] = {0};
    for (uint32_t i = 0; i < dims->rank; i++) {
        moved.dims[i] = dims->dims[perm[i]];
        inverse[perm[i]] = i;
    }
    return tv_onnx_transpose(n, tv_onnx_reshape(n, y, &moved), inverse);
}

uint32_t tv_onnx_reduce(tv_onnx_node *n, uint32_t x, uint32_t axes, bool keep, tv_graph_op op)
{
    tv_graph_shape from = tv_onnx_dims(n, x), to = {0};
    uint32_t perm[TV_GRAPH_RANK_MAX] = {0};
    for (uint32_t i = 0; i < from.rank; i++)
        if (!(axes >> i & 1))
            to.dims[to.rank++] = from.dims[i];
        else if (keep)
            to.dims[to.rank++] = 1;
    return tv_onnx_reshape(n, tv_onnx_emit1(n, op, tv_onnx_axes_last(n, x, axes, perm)), &to);
}

uint32_t tv_onnx_channels(tv_onnx_node *n, uint32_t x, uint32_t trailing)
{
    tv_graph_shape to = {.rank = 1 + trailing, .dims = {(int64_t)tv_onnx_count(n, x)}};
    for (uint32_t i = 0; i < trailing && i + 1 < TV_GRAPH_RANK_MAX; i++)
        to.dims[1 + i] = 1;
    return tv_onnx_reshape(n, x, &to);
}
