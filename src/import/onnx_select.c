/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that select, join and repeat elements. */
#include <inttypes.h>

#include "import/onnx_table.h"

/* ---- Slice and Split ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* Sets one axis of a slice. */
static void cut_axis(tv_graph_attrs *attrs, tv_graph_lists *lists, uint32_t axis, const int64_t range[3])
{
    int64_t extent = attrs->shape.dims[axis], start = range[0], end = range[1], step = range[2];
    start += start < 0 ? extent : 0;
    end += end < 0 ? extent : 0;
    start = clamp(start, 0, step > 0 ? extent : extent - 1);
    end = clamp(end, step > 0 ? 0 : -1, extent);
    int64_t distance = step > 0 ? end - start : start - end, stride = step > 0            ? step
                                                                      : step == INT64_MIN ? INT64_MAX
                                                                                          : -step;
    lists->begin[axis] = start;
    lists->step[axis] = step;
    attrs->shape.dims[axis] = distance <= 0 ? 0 : (distance - 1) / stride + 1;
}

static void slice_begin(const tv_onnx_node *n, uint32_t x, tv_graph_attrs *attrs, tv_graph_lists *lists)
{
    *attrs = (tv_graph_attrs){.shape = tv_onnx_dims(n, x), .lists = lists};
    *lists = (tv_graph_lists){0};
    for (uint32_t i = 0; i < attrs->shape.rank; i++)
        lists->step[i] = 1;
}

/* The elements [start, start + count) of an axis. */
static uint32_t cut(tv_onnx_node *n, uint32_t x, uint32_t axis, int64_t start, int64_t count)
{
    tv_graph_attrs attrs;
    tv_graph_lists lists;
    if (!tv_onnx_ok(n) || tv_onnx_dims(n, x).dims[axis] == count)
        return x;
    slice_begin(n, x, &attrs, &lists);
    lists.begin[axis] = start;
    attrs.shape.dims[axis] = count;
    return tv_onnx_emit(n, TV_OP_SLICE, &x, 1, &attrs);
}

void tv_onnx_import_slice(tv_onnx_node *n)
{
    int64_t buffers[4][TV_ONNX_INTEGERS_MAX];
    static const char *const names[] = {"starts", "ends", "axes", "steps"};
    tv_onnx_list lists[4];
    tv_graph_attrs attrs;
    tv_graph_lists cuts;
    uint32_t x = tv_onnx_input(n, 0), given = 0;
    for (size_t i = 0; i < 4; i++)
        lists[i] = tv_onnx_ints_or_input(n, names[i], n->opset >= 10 ? i + 1 : 0, buffers[i]);
    for (size_t i = 1; i < 4 && tv_onnx_ok(n); i++)
        if (lists[i].count != lists[0].count && (i == 1 || lists[i].data))
            tv_onnx_reject(n, TV_ONNX_INVALID, "starts, ends, axes and steps differ in number");
    slice_begin(n, x, &attrs, &cuts);
    bool whole = true;
    for (size_t i = 0; i < lists[0].count && tv_onnx_ok(n); i++) {
        uint32_t axis = tv_onnx_axis(n, lists[2].data ? lists[2].data[i] : (int64_t)i, attrs.shape.rank);
        const int64_t range[3] = {lists[0].data[i], lists[1].data[i], lists[3].data ? lists[3].data[i] : 1};
        if (tv_onnx_ok(n) && (range[2] == 0 || given >> axis & 1))
            tv_onnx_reject(n, TV_ONNX_INVALID, "a step is 0, or an axis is given twice");
        if (!tv_onnx_ok(n))
            return;
        int64_t extent = attrs.shape.dims[axis];
        cut_axis(&attrs, &cuts, axis, range);
        whole &= attrs.shape.dims[axis] == extent && range[2] > 0;
        given |= UINT32_C(1) << axis;
    }
    tv_onnx_output(n, 0, whole ? x : tv_onnx_emit(n, TV_OP_SLICE, &x, 1, &attrs));
}

void tv_onnx_import_split(tv_onnx_node *n)
{
    int64_t buffer[TV_ONNX_INTEGERS_MAX], at = 0;
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", 0), dims.rank);
    tv_onnx_list list = tv_onnx_ints_or_input(n, "split", n->opset >= 13 ? 1 : 0, buffer);
    int64_t outputs = (int64_t)n->proto->n_output, each = outputs ? (dims.dims[axis] + outputs - 1) / outputs : 0;
    if (!tv_onnx_ok(n))
        return;
    if (list.data ? (int64_t)list.count != outputs : n->opset < 18 && each * outputs != dims.dims[axis]) {
        tv_onnx_reject(n, TV_ONNX_INVALID, "the axis of %" PRId64 " elements cannot be split into %" PRId64 " outputs",
                       dims.dims[axis], outputs);
        return;
    }
    for (int64_t i = 0; i < outputs && tv_onnx_ok(n); i++) {
        int64_t left = dims.dims[axis] - at, count = list.data ? list.data[i] : each < left ? each : left;
        if (count < 0 || count > left)
            tv_onnx_reject(n, TV_ONNX_INVALID, "the outputs have more elements than the input");
        else
            tv_onnx_output(n, (size_t)i, cut(n, x, axis, at, count));
        at += count;
    }
}

/* ---- Concat ---- */

void tv_onnx_import_concat(tv_onnx_node *n)
{
    uint32_t values[TV_GRAPH_INPUTS_MAX] = {tv_onnx_input(n, 0)}, count = 1;
    tv_graph_shape dims = tv_onnx_dims(n, values[0]);
    uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", 1), dims.rank);
    tv_graph_attrs attrs = {.axis_from_end = dims.rank - 1 - axis};
    for (size_t i = 1; i < n->proto->n_input && tv_onnx_ok(n); i++) {
        values[count++] = tv_onnx_input(n, i);
        if (count == TV_GRAPH_INPUTS_MAX) {
            values[0] = tv_onnx_emit(n, TV_OP_CONCAT, values, count, &attrs);
            count = 1;
        }
    }
    tv_onnx_output(n, 0, count > 1 ? tv_onnx_emit(n, TV_OP_CONCAT, values, count, &attrs) : values[0]);
}

/* ---- Gather ---- */

void tv_onnx_import_gather(tv_onnx_node *n)
{
    uint32_t inputs[] = {tv_onnx_input(n, 0), tv_onnx_input(n, 1)};
    uint32_t rank = tv_onnx_dims(n, inputs[0]).rank;
    tv_graph_attrs attrs = {.axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", 0), rank)};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_GATHER, inputs, 2, &attrs));
}

static uint32_t flat(tv_onnx_node *n, uint32_t x)
{
    return tv_onnx_reshape(n, x, &(tv_graph_shape){1, {(int64_t)tv_onnx_count(n, x)}});
}

/* Adds the extent to negative indices of int64. */
static uint32_t positive(tv_onnx_node *n, uint32_t indices, uint32_t extents)
{
    uint32_t negative = tv_onnx_emit2(n, TV_OP_LESS, indices, tv_onnx_integer_scalar(n, TV_ELEMENT_I64, 0));
    uint32_t moved = tv_onnx_emit2(n, TV_OP_ADD, indices, extents);
    return tv_onnx_emit(n, TV_OP_WHERE, (uint32_t[]){negative, moved, indices}, 3, NULL);
}

static int64_t stride_of(const tv_graph_shape *dims, uint32_t axis)
{
    int64_t stride = 1;
    for (uint32_t i = axis + 1; i < dims->rank; i++)
        stride *= dims->dims[i];
    return stride;
}

/* An axis of a result numbers elements of x that are `stride` apart: a constant to add to their indices. */
static uint32_t axis_offsets(tv_onnx_node *n, const tv_graph_shape *result, uint32_t axis, int64_t stride)
{
    tv_graph_shape to = {.rank = result->rank};
    for (uint32_t i = 0; i < to.rank; i++)
        to.dims[i] = i == axis ? result->dims[i] : 1;
    uint32_t offsets = tv_onnx_iota(n, TV_ELEMENT_I64, (uint64_t)result->dims[axis], 0, (double)stride);
    return tv_onnx_reshape(n, offsets, &to);
}

/* Gather from the flat input at index * stride of the axis + the offsets of the other axes. */
void tv_onnx_import_gather_elements(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), indices = tv_onnx_cast(n, tv_onnx_input(n, 1), TV_ELEMENT_I64);
    tv_graph_shape dims = tv_onnx_dims(n, x), out = tv_onnx_dims(n, indices);
    uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", 0), dims.rank);
    if (tv_onnx_ok(n) && out.rank != dims.rank)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the ranks of input and indices differ");
    if (!tv_onnx_ok(n))
        return;
    uint32_t at = positive(n, indices, tv_onnx_integer_scalar(n, TV_ELEMENT_I64, dims.dims[axis]));
    at = tv_onnx_emit2(n, TV_OP_MUL, at, tv_onnx_integer_scalar(n, TV_ELEMENT_I64, stride_of(&dims, axis)));
    for (uint32_t i = 0; i < dims.rank && tv_onnx_ok(n); i++)
        if (i != axis)
            at = tv_onnx_emit2(n, TV_OP_ADD, at, axis_offsets(n, &out, i, stride_of(&dims, i)));
    tv_onnx_output(n, 0, tv_onnx_emit2(n, TV_OP_GATHER, flat(n, x), at));
}

/* Constants of the extents, or of the strides in rows, of the axes [batch, batch + count). */
static uint32_t axis_numbers(tv_onnx_node *n, const tv_graph_shape *dims, uint32_t batch, uint32_t count, bool strides)
{
    tv_tensor t;
    tv_graph_shape lead = {.rank = batch + count};
    memcpy(lead.dims, dims->dims, sizeof lead.dims);
    if (!tv_onnx_tensor_init(n, TV_ELEMENT_I64, &(tv_graph_shape){1, {count}}, &t))
        return TV_NO_VALUE;
    for (uint32_t i = 0; i < count; i++)
        tv_tensor_set_integer(&t, i, strides ? stride_of(&lead, batch + i) : dims->dims[batch + i]);
    return tv_onnx_tensor(n, &t);
}

/* Gather of rows: the tuples along the last axis of the indices are made one index each. */
void tv_onnx_import_gather_nd(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0), indices = tv_onnx_cast(n, tv_onnx_input(n, 1), TV_ELEMENT_I64);
    tv_graph_shape dims = tv_onnx_dims(n, x), at = tv_onnx_dims(n, indices);
    int64_t batch = tv_onnx_int(n, "batch_dims", 0), count = at.rank ? at.dims[at.rank - 1] : 0;
    if (batch < 0 || count < 1 || batch + 1 > at.rank || count > dims.rank || batch > (int64_t)dims.rank - count) {
        tv_onnx_reject(n, TV_ONNX_INVALID, "the indices have more axes than the input");
        return;
    }
    uint32_t first = (uint32_t)batch, size = (uint32_t)count;
    indices = positive(n, indices, axis_numbers(n, &dims, first, size, false));
    indices = tv_onnx_emit2(n, TV_OP_MUL, indices, axis_numbers(n, &dims, first, size, true));
    indices = tv_onnx_reduce(n, indices, UINT32_C(1) << (at.rank - 1), false, TV_OP_REDUCE_SUM);
    tv_graph_shape rows = {.rank = 1, .dims = {1}}, tuples = tv_onnx_dims(n, indices), lead = {.rank = first + size};
    memcpy(lead.dims, dims.dims, sizeof lead.dims);
    for (uint32_t i = 0; i < dims.rank; i++)
        if (i < lead.rank)
            rows.dims[0] *= dims.dims[i];
        else
            rows.dims[rows.rank++] = dims.dims[i];
    for (uint32_t i = 0; i < first && tv_onnx_ok(n); i++)
        indices = tv_onnx_emit2(n, TV_OP_ADD, indices, axis_offsets(n, &tuples, i, stride_of(&lead, i)));
    tv_onnx_output(n, 0, tv_onnx_emit2(n, TV_OP_GATHER, tv_onnx_reshape(n, x, &rows), indices));
}

/* ---- Tile and Pad ---- */

void tv_onnx_import_tile(tv_onnx_node *n)
{
    int64_t repeats[TV_ONNX_INTEGERS_MAX];
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    size_t count = tv_onnx_integers(n, 1, repeats);
    if (tv_onnx_ok(n) && count != dims.rank)
        tv_onnx_reject(n, TV_ONNX_INVALID, "there are not as many repetitions as axes");
    for (uint32_t i = 0; i < dims.rank && tv_onnx_ok(n); i++) {
        int64_t outer = 1, inner = 1;
        for (uint32_t k = 0; k < dims.rank; k++)
            *(k < i ? &outer : &inner) *= dims.dims[k];
        if (repeats[i] < 0 || repeats[i] > INT32_MAX || dims.dims[i] > INT32_MAX)
            tv_onnx_reject(n, TV_ONNX_INVALID, "%" PRId64 " repetitions are not possible", repeats[i]);
        if (repeats[i] == 1 || !tv_onnx_ok(n))
            continue;
        uint32_t y = tv_onnx_reshape(n, x, &(tv_graph_shape){3, {outer, 1, inner}});
        y = tv_onnx_expand(n, y, &(tv_graph_shape){3, {outer, repeats[i], inner}});
        dims.dims[i] *= repeats[i];
        x = tv_onnx_reshape(n, y, &dims);
    }
    tv_onnx_output(n, 0, x);
}

static uint32_t pad_mode(const tv_onnx_node *n)
{
    static const struct {
        const char *name;
        tv_pad_mode mode;
    } modes[] = {
        {"constant", TV_PAD_CONSTANT}, {"edge", TV_PAD_EDGE}, {"reflect", TV_PAD_REFLECT}, {"wrap", TV_PAD_WRAP}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (tv_onnx_text_is(n, "mode", "constant", modes[i].name))
            return modes[i].mode;
    tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the mode is none of constant, edge, reflect and wrap");
    return TV_PAD_CONSTANT;
}

/* The element to add: an input, an attribute, or zero. */
static uint32_t pad_element(tv_onnx_node *n, uint32_t x)
{
    if (n->opset >= 11 && tv_onnx_has(n, 2))
        return tv_onnx_reshape(n, tv_onnx_input(n, 2), &(tv_graph_shape){0});
    float value = n->opset < 11 ? tv_onnx_float(n, "value", 0) : 0;
    return value != 0 ? tv_onnx_scalar(n, tv_onnx_element(n, x), (double)value) : TV_NO_VALUE;
}

void tv_onnx_import_pad(tv_onnx_node *n)
{
    int64_t buffer[TV_ONNX_INTEGERS_MAX], axes_buffer[TV_ONNX_INTEGERS_MAX];
    tv_graph_lists lists = {0};
    tv_graph_attrs attrs = {.lists = &lists, .mode = pad_mode(n)};
    uint32_t x = tv_onnx_input(n, 0), rank = tv_onnx_dims(n, x).rank;
    tv_onnx_list pads = tv_onnx_ints_or_input(n, n->opset < 2 ? "paddings" : "pads", n->opset >= 11 ? 1 : 0, buffer);
    tv_onnx_list axes = n->opset >= 18 && tv_onnx_has(n, 3)
                            ? (tv_onnx_list){axes_buffer, tv_onnx_integers(n, 3, axes_buffer)}
                            : (tv_onnx_list){NULL, rank};
    if (tv_onnx_ok(n) && pads.count != 2 * axes.count)
        tv_onnx_reject(n, TV_ONNX_INVALID, "there are not two numbers for each axis");
    for (size_t i = 0; i < axes.count && tv_onnx_ok(n); i++) {
        uint32_t axis = tv_onnx_axis(n, axes.data ? axes.data[i] : (int64_t)i, rank);
        lists.begin[axis] = pads.data[i];
        lists.end[axis] = pads.data[axes.count + i];
    }
    uint32_t inputs[] = {x, attrs.mode == TV_PAD_CONSTANT ? pad_element(n, x) : TV_NO_VALUE};
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_PAD, inputs, 2, &attrs));
}

/* ---- Triangles and one-hot vectors ---- */

/* column - row >= k for the upper triangle, otherwise <= k */
void tv_onnx_import_trilu(tv_onnx_node *n)
{
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_shape dims = tv_onnx_dims(n, x);
    int64_t k = tv_onnx_integer(n, 1, 0);
    bool upper = tv_onnx_int(n, "upper", 1) != 0;
    if (dims.rank < 2) {
        tv_onnx_reject(n, TV_ONNX_INVALID, "the input is no matrix");
        return;
    }
    int64_t rows = dims.dims[dims.rank - 2], columns = dims.dims[dims.rank - 1];
    uint32_t row = tv_onnx_iota(n, TV_ELEMENT_I64, (uint64_t)rows, (double)k, 1);
    row = tv_onnx_reshape(n, row, &(tv_graph_shape){2, {rows, 1}});
    uint32_t column = tv_onnx_iota(n, TV_ELEMENT_I64, (uint64_t)columns, 0, 1);
    uint32_t kept =
        upper ? tv_onnx_emit2(n, TV_OP_LESS_OR_EQUAL, row, column) : tv_onnx_emit2(n, TV_OP_LESS_OR_EQUAL, column, row);
    uint32_t zero = tv_onnx_integer_scalar(n, tv_onnx_element(n, x), 0);
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_WHERE, (uint32_t[]){kept, x, zero}, 3, NULL));
}

static uint32_t element_at(tv_onnx_node *n, uint32_t values, int64_t index)
{
    uint32_t at = tv_onnx_integer_scalar(n, TV_ELEMENT_I64, index);
    return tv_onnx_emit2(n, TV_OP_GATHER, values, at);
}

void tv_onnx_import_one_hot(tv_onnx_node *n)
{
    uint32_t indices = tv_onnx_cast(n, tv_onnx_input(n, 0), TV_ELEMENT_I64), values = tv_onnx_input(n, 2);
    tv_graph_shape dims = tv_onnx_dims(n, indices), to = {.rank = dims.rank + 1}, line = {0};
    int64_t depth = (int64_t)tv_onnx_real(n, 1, 0);
    if (dims.rank == TV_GRAPH_RANK_MAX || depth < 1 || depth > INT32_MAX || tv_onnx_count(n, values) != 2)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the depth or the two values are not valid");
    uint32_t axis = tv_onnx_axis(n, tv_onnx_int(n, "axis", -1), to.rank), from = 0;
    if (!tv_onnx_ok(n))
        return;
    line.rank = to.rank;
    for (uint32_t i = 0; i < to.rank; i++) {
        to.dims[i] = i == axis ? 1 : dims.dims[from++];
        line.dims[i] = i == axis ? depth : 1;
    }
    indices = positive(n, indices, tv_onnx_integer_scalar(n, TV_ELEMENT_I64, depth));
    uint32_t numbers = tv_onnx_reshape(n, tv_onnx_iota(n, TV_ELEMENT_I64, (uint64_t)depth, 0, 1), &line);
    uint32_t equal = tv_onnx_emit2(n, TV_OP_EQUAL, tv_onnx_reshape(n, indices, &to), numbers);
    uint32_t off = element_at(n, values, 0), on = element_at(n, values, 1);
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_WHERE, (uint32_t[]){equal, on, off}, 3, NULL));
}
