/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that make constants. */
#include <inttypes.h>
#include <math.h>

#include "import/onnx_table.h"
#include "import/onnx_tensor.h"

/* ---- Constant ---- */

static uint32_t attribute_tensor(tv_onnx_node *n, const Onnx__TensorProto *proto)
{
    tv_tensor t;
    if (!tv_onnx_ok(n))
        return TV_NO_VALUE;
    n->c->status = tv_onnx_read_tensor(proto, n->c->file->folder, n->c->sink, &t);
    if (tv_onnx_ok(n) && !tv_onnx_dims_fit(t.element, t.rank, t.dims))
        tv_onnx_reject(n, TV_ONNX_INVALID, "an extent is above 2^31 - 1");
    return tv_onnx_tensor(n, &t);
}

static uint32_t attribute_list(tv_onnx_node *n, const Onnx__AttributeProto *a, bool integers)
{
    tv_tensor t;
    size_t count = integers ? a->n_ints : a->n_floats;
    tv_graph_shape dims = {1, {(int64_t)count}};
    if (!tv_onnx_tensor_init(n, integers ? TV_ELEMENT_I64 : TV_ELEMENT_F32, &dims, &t))
        return TV_NO_VALUE;
    for (size_t i = 0; i < count; i++)
        if (integers)
            tv_tensor_set_integer(&t, i, a->ints[i]);
        else
            tv_tensor_set_real(&t, i, (double)a->floats[i]);
    return tv_onnx_tensor(n, &t);
}

void tv_onnx_import_constant(tv_onnx_node *n)
{
    const Onnx__AttributeProto *a = n->proto->n_attribute == 1 ? n->proto->attribute[0] : NULL;
    const char *name = a && a->name ? a->name : "";
    uint32_t value = TV_NO_VALUE;
    if (strcmp(name, "value") == 0 && a->t)
        value = attribute_tensor(n, a->t);
    else if (strcmp(name, "value_float") == 0)
        value = tv_onnx_scalar(n, TV_ELEMENT_F32, (double)tv_onnx_float(n, name, 0));
    else if (strcmp(name, "value_int") == 0)
        value = tv_onnx_integer_scalar(n, TV_ELEMENT_I64, tv_onnx_int(n, name, 0));
    else if (strcmp(name, "value_floats") == 0 || strcmp(name, "value_ints") == 0)
        value = attribute_list(n, a, name[6] == 'i');
    else
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the constant is neither a tensor nor numbers");
    tv_onnx_output(n, 0, value);
}

/* ---- Constants of a shape ---- */

void tv_onnx_import_constant_of_shape(tv_onnx_node *n)
{
    int64_t dims[TV_ONNX_INTEGERS_MAX];
    const Onnx__AttributeProto *a = tv_onnx_attribute(n, "value");
    size_t count = tv_onnx_integers(n, 0, dims);
    tv_graph_shape to = {0};
    if (count > TV_GRAPH_RANK_MAX)
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the output has more than 8 axes");
    for (size_t i = 0; i < count && tv_onnx_ok(n); i++) {
        if (dims[i] < 0)
            tv_onnx_reject(n, TV_ONNX_INVALID, "the extent %" PRId64 " is negative", dims[i]);
        to.dims[to.rank++] = dims[i];
    }
    uint32_t value = a && a->t ? attribute_tensor(n, a->t) : tv_onnx_scalar(n, TV_ELEMENT_F32, 0);
    value = tv_onnx_reshape(n, value, &(tv_graph_shape){0});
    tv_onnx_output(n, 0, tv_onnx_expand(n, value, &to));
}

void tv_onnx_import_range(tv_onnx_node *n)
{
    tv_element element = tv_onnx_element(n, tv_onnx_input(n, 0));
    double start = tv_onnx_real(n, 0, 0), limit = tv_onnx_real(n, 1, 0), step = tv_onnx_real(n, 2, 1);
    double count = ceil((limit - start) / step);
    if (!(step != 0) || !(count < 1e9)) {
        tv_onnx_reject(n, TV_ONNX_INVALID, "the step is 0, or the range is too long");
        return;
    }
    tv_onnx_output(n, 0, tv_onnx_iota(n, element, count > 0 ? (uint64_t)count : 0, start, step));
}

void tv_onnx_import_eye_like(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    tv_element element = tv_onnx_element(n, x);
    int64_t k = tv_onnx_int(n, "k", 0), type = tv_onnx_int(n, "dtype", tv_element_infos[element].number);
    tv_tensor t;
    if (dims.rank != 2 || type != (int32_t)type || !tv_element_of_onnx((int32_t)type, &element))
        tv_onnx_reject(n, TV_ONNX_INVALID, "the input is no matrix, or the element type is not supported");
    if (!tv_onnx_tensor_init(n, element, &dims, &t))
        return;
    for (int64_t row = 0; row < dims.dims[0] && k > -INT32_MAX && k < INT32_MAX; row++)
        if (row + k >= 0 && row + k < dims.dims[1])
            tv_tensor_set_integer(&t, (uint64_t)(row * dims.dims[1] + row + k), 1);
    tv_onnx_output(n, 0, tv_onnx_tensor(n, &t));
}
