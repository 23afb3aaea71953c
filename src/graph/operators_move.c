/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that copy elements, of any type. */
#include "graph/operator_table.h"
#include "graph/strides.h"

static size_t element_bytes(const tv_operator_row *r)
{
    return tv_element_infos[tv_graph_value_at(r->graph, r->node->output)->element].bytes;
}

/* Copies w->count elements of operand 0, which are w->step[0] apart, to operand 1. */
static void copy_vector(const tv_walk *w, const uint8_t *from, uint8_t *to, size_t bytes)
{
    from += w->at[0] * (int64_t)bytes;
    to += w->at[1] * (int64_t)bytes;
    if (w->step[0] == 1) {
        memcpy(to, from, (size_t)w->count * bytes);
        return;
    }
    for (int64_t i = 0; i < w->count; i++)
        memcpy(to + (size_t)i * bytes, from + i * w->step[0] * (int64_t)bytes, bytes);
}

static void copy_walk(const tv_operator_row *r, tv_walk *w)
{
    if (tv_output_elements(r) == 0)
        return;
    do
        copy_vector(w, r->inputs[0], r->output, element_bytes(r));
    while (tv_walk_next(w));
}

/* A walk over the output, which is operand 1; operand 0 has the strides of the input by `perm`, times `factors`. */
static tv_walk walk_input(const tv_operator_row *r, const uint32_t *perm, const int64_t *factors)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    int64_t strides[TV_TENSOR_RANK_MAX];
    tv_walk w = tv_walk_over(&y);
    tv_strides_of(&x, strides);
    for (uint32_t i = 0; i < y.rank; i++)
        w.strides[0][i] = strides[perm ? perm[i] : i] * (factors ? factors[i] : 1);
    w.step[0] = y.rank ? w.strides[0][y.rank - 1] : 1;
    tv_walk_repeat(&w, 1, &y);
    return w;
}

bool tv_compute_RESHAPE(const tv_operator_row *r)
{
    if (tv_output_elements(r))
        memcpy(r->output, r->inputs[0], tv_output_elements(r) * element_bytes(r));
    return true;
}

bool tv_compute_TRANSPOSE(const tv_operator_row *r)
{
    const tv_graph_lists *lists = tv_attrs_of(r)->lists;
    uint32_t rank = tv_output_tensor(r).rank, swap[TV_TENSOR_RANK_MAX];
    for (uint32_t i = 0; i < rank; i++)
        swap[i] = i + 2 < rank ? i : 2 * rank - 3 - i;
    tv_walk w = walk_input(r, lists ? lists->perm : swap, NULL);
    copy_walk(r, &w);
    return true;
}

bool tv_compute_SLICE(const tv_operator_row *r)
{
    const tv_graph_attrs *a = tv_attrs_of(r);
    tv_tensor x = tv_input_tensor(r, 0);
    tv_walk w = walk_input(r, NULL, a->lists ? a->lists->step : NULL);
    int64_t strides[TV_TENSOR_RANK_MAX];
    tv_strides_of(&x, strides);
    for (uint32_t i = 0; i < x.rank && a->lists; i++)
        w.at[0] += a->lists->begin[i] * strides[i];
    w.at[0] += a->lists ? 0 : a->start;
    copy_walk(r, &w);
    return true;
}

bool tv_compute_EXPAND(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    tv_walk w = tv_walk_over(&y);
    tv_walk_repeat(&w, 0, &x);
    tv_walk_repeat(&w, 1, &y);
    copy_walk(r, &w);
    return true;
}

/* Elements from axis `first` on. */
static size_t inner_elements(const tv_tensor *t, uint32_t first)
{
    size_t n = 1;
    for (uint32_t i = first; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return n;
}

bool tv_compute_CONCAT(const tv_operator_row *r)
{
    tv_tensor y = tv_output_tensor(r);
    uint32_t axis = y.rank - 1 - tv_attrs_of(r)->axis_from_end;
    size_t to = inner_elements(&y, axis) * element_bytes(r), at = 0;
    size_t rows = to ? tv_tensor_bytes(&y) / to : 0;
    for (unsigned k = 0; k < tv_graph_input_count(r->node); k++) {
        tv_tensor x = tv_input_tensor(r, k);
        size_t from = inner_elements(&x, axis) * element_bytes(r);
        for (size_t i = 0; i < rows && from; i++)
            memcpy((uint8_t *)r->output + i * to + at, (const uint8_t *)r->inputs[k] + i * from, from);
        at += from;
    }
    return true;
}

/* ---- Padding ---- */

/* The index of the input that index `i` of a padded axis shows; -1: none. Elements are removed first: those added
 * repeat what is left. */
static int64_t padded_index(int64_t i, const tv_graph_lists *lists, uint32_t axis, int64_t extent, uint32_t mode)
{
    int64_t begin = lists->begin[axis], end = lists->end[axis], removed = begin < 0 ? -begin : 0,
            left = extent - removed + (end < 0 ? end : 0), at = i - (begin > 0 ? begin : 0);
    if (at >= 0 && at < left)
        return removed + at;
    if (left <= 0 || mode == TV_PAD_CONSTANT)
        return -1;
    if (mode == TV_PAD_EDGE)
        return removed + (at < 0 ? 0 : left - 1);
    int64_t period = mode == TV_PAD_WRAP || left == 1 ? left : 2 * (left - 1);
    at %= period;
    at += at < 0 ? period : 0;
    return removed + (at < left ? at : period - at);
}

bool tv_compute_PAD(const tv_operator_row *r)
{
    const tv_graph_attrs *a = tv_attrs_of(r);
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    int64_t strides[TV_TENSOR_RANK_MAX], index[TV_TENSOR_RANK_MAX] = {0};
    size_t bytes = element_bytes(r);
    tv_strides_of(&x, strides);
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++) {
        int64_t from = 0;
        for (uint32_t k = 0; k < y.rank && from >= 0; k++) {
            int64_t at = padded_index(index[k], a->lists, k, x.dims[k], a->mode);
            from = at < 0 ? -1 : from + at * strides[k];
        }
        uint8_t *to = (uint8_t *)y.data + i * bytes;
        if (from >= 0)
            memcpy(to, (const uint8_t *)x.data + (size_t)from * bytes, bytes);
        else if (r->inputs[1])
            memcpy(to, r->inputs[1], bytes);
        else
            memset(to, 0, bytes);
        for (uint32_t k = y.rank; k-- > 0 && ++index[k] == y.dims[k];)
            index[k] = 0;
    }
    return true;
}

/* ---- Selection ---- */

/* The row of a language model's token or position. */
static bool gather_row(const tv_operator_row *r)
{
    return tv_matrix_row_f32(tv_graph_matrix(r->graph, r->node->inputs[0]), (uint64_t)r->index, r->output) == TV_OK;
}

bool tv_compute_GATHER(const tv_operator_row *r)
{
    tv_value_source source = tv_graph_value_at(r->graph, r->node->inputs[1])->source;
    if (source == TV_VALUE_TOKENS || source == TV_VALUE_POSITIONS)
        return gather_row(r);
    tv_tensor x = tv_input_tensor(r, 0), indices = tv_input_tensor(r, 1);
    uint32_t axis = tv_attrs_of(r)->axis;
    size_t inner = inner_elements(&x, axis + 1) * element_bytes(r), outer = 1;
    uint64_t count = tv_tensor_count(&indices);
    for (uint32_t i = 0; i < axis; i++)
        outer *= (size_t)x.dims[i];
    uint8_t *to = r->output;
    for (size_t o = 0; o < outer && inner; o++)
        for (uint64_t i = 0; i < count; i++, to += inner) {
            int64_t at = tv_tensor_integer(&indices, i);
            at += at < 0 ? x.dims[axis] : 0;
            if (at < 0 || at >= x.dims[axis])
                memset(to, 0, inner); /* ONNX leaves it undefined */
            else
                memcpy(to, (const uint8_t *)x.data + (o * (size_t)x.dims[axis] + (size_t)at) * inner, inner);
        }
    return true;
}

bool tv_compute_WHERE(const tv_operator_row *r)
{
    tv_tensor y = tv_output_tensor(r);
    tv_walk w = tv_walk_over(&y);
    size_t bytes = element_bytes(r);
    uint8_t *to = r->output;
    for (unsigned k = 0; k < 3; k++) {
        tv_tensor x = tv_input_tensor(r, k);
        tv_walk_repeat(&w, k, &x);
    }
    if (tv_output_elements(r) == 0)
        return true;
    do
        for (int64_t i = 0; i < w.count; i++, to += bytes) {
            bool condition = ((const uint8_t *)r->inputs[0])[w.at[0] + i * w.step[0]] != 0;
            unsigned k = condition ? 1 : 2;
            memcpy(to, (const uint8_t *)r->inputs[k] + (w.at[k] + i * w.step[k]) * (int64_t)bytes, bytes);
        }
    while (tv_walk_next(&w));
    return true;
}
