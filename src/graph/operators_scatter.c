/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that write elements to indices that are data, and that order elements. Indices count from the end where
 * they are negative; what they select outside of an axis is left out, as ONNX does not define it. */
#include <stdlib.h>

#include "graph/operator_table.h"
#include "graph/strides.h"

/* ---- Scatter ---- */

/* Element `to` of y from itself and element `from` of the updates. */
static void update_element(const tv_operator_row *r, tv_tensor *y, uint64_t to, const tv_tensor *updates, uint64_t from)
{
    size_t bytes = tv_element_infos[y->element].bytes;
    tv_scatter_mode mode = (tv_scatter_mode)tv_attrs_of(r)->mode;
    if (mode == TV_SCATTER_REPLACE) {
        memcpy((uint8_t *)y->data + to * bytes, (const uint8_t *)updates->data + from * bytes, bytes);
        return;
    }
    if (tv_is_real_element(y->element)) {
        double a = tv_tensor_real(y, to), b = tv_tensor_real(updates, from);
        tv_tensor_set_real(y, to,
                           mode == TV_SCATTER_ADD   ? a + b
                           : mode == TV_SCATTER_MUL ? a * b
                           : mode == TV_SCATTER_MAX ? (a > b ? a : b)
                                                    : (a < b ? a : b));
        return;
    }
    int64_t a = tv_tensor_integer(y, to), b = tv_tensor_integer(updates, from);
    bool less = y->element == TV_ELEMENT_U64 ? (uint64_t)a < (uint64_t)b : a < b;
    tv_tensor_set_integer(y, to,
                          mode == TV_SCATTER_ADD   ? (int64_t)((uint64_t)a + (uint64_t)b)
                          : mode == TV_SCATTER_MUL ? (int64_t)((uint64_t)a * (uint64_t)b)
                          : mode == TV_SCATTER_MAX ? (less ? b : a)
                                                   : (less ? a : b));
}

/* The index from the first element; -1: outside. */
static int64_t find_index(const tv_tensor *indices, uint64_t i, int64_t extent)
{
    int64_t at = tv_tensor_integer(indices, i);
    at += at < 0 ? extent : 0;
    return at < 0 || at >= extent ? -1 : at;
}

static void copy_input(const tv_operator_row *r, const tv_tensor *y)
{
    if (tv_tensor_bytes(y))
        memcpy(y->data, r->inputs[0], tv_tensor_bytes(y));
}

bool tv_compute_SCATTER_ND(const tv_operator_row *r)
{
    tv_tensor y = tv_output_tensor(r), indices = tv_input_tensor(r, 1), updates = tv_input_tensor(r, 2);
    uint64_t axes = (uint64_t)indices.dims[indices.rank - 1], inner = 1;
    for (uint64_t i = axes; i < y.rank; i++)
        inner *= (uint64_t)y.dims[i];
    copy_input(r, &y);
    for (uint64_t i = 0, tuples = tv_tensor_count(&indices) / axes; i < tuples; i++) {
        int64_t to = 0;
        for (uint64_t k = 0; k < axes && to >= 0; k++) {
            int64_t at = find_index(&indices, i * axes + k, y.dims[k]);
            to = at < 0 ? -1 : to * y.dims[k] + at;
        }
        for (uint64_t k = 0; k < inner && to >= 0; k++)
            update_element(r, &y, (uint64_t)to * inner + k, &updates, i * inner + k);
    }
    return true;
}

bool tv_compute_SCATTER_ELEMENTS(const tv_operator_row *r)
{
    tv_tensor y = tv_output_tensor(r), indices = tv_input_tensor(r, 1), updates = tv_input_tensor(r, 2);
    int64_t strides[TV_TENSOR_RANK_MAX], index[TV_TENSOR_RANK_MAX] = {0};
    uint32_t axis = tv_attrs_of(r)->axis;
    tv_strides_of(&y, strides);
    copy_input(r, &y);
    for (uint64_t i = 0, n = tv_tensor_count(&indices); i < n; i++) {
        int64_t at = find_index(&indices, i, y.dims[axis]), to = at * strides[axis];
        for (uint32_t k = 0; k < y.rank; k++)
            to += k == axis ? 0 : index[k] * strides[k];
        if (at >= 0)
            update_element(r, &y, (uint64_t)to, &updates, i);
        for (uint32_t k = indices.rank; k-- > 0 && ++index[k] == indices.dims[k];)
            index[k] = 0;
    }
    return true;
}

/* ---- Order ---- */

bool tv_compute_REVERSE_SEQUENCE(const tv_operator_row *r)
{
    tv_tensor y = tv_output_tensor(r), lengths = tv_input_tensor(r, 1);
    uint32_t time = tv_attrs_of(r)->axis, batch = tv_attrs_of(r)->mode;
    int64_t strides[TV_TENSOR_RANK_MAX];
    size_t bytes = tv_element_infos[y.element].bytes;
    tv_strides_of(&y, strides);
    for (uint64_t i = 0, n = tv_output_elements(r); i < n; i++) {
        int64_t at = (int64_t)i / strides[time] % y.dims[time];
        int64_t length = tv_tensor_integer(&lengths, i / (uint64_t)strides[batch] % (uint64_t)y.dims[batch]);
        length = length < y.dims[time] ? length : y.dims[time];
        int64_t from = (int64_t)i + (at < length ? length - 1 - 2 * at : 0) * strides[time];
        memcpy((uint8_t *)y.data + i * bytes, (const uint8_t *)r->inputs[0] + (uint64_t)from * bytes, bytes);
    }
    return true;
}

/* The first elements of a vector by value. */
typedef struct selection {
    const tv_tensor *x;
    uint64_t first; /* element of the vector */
    bool smallest;
    uint64_t *heap, count; /* indices; each one comes after both of its children */
} selection;

/* True when element a of the vector comes before b: by value, then by index; NaN is last. */
static bool comes_before(const selection *s, uint64_t a, uint64_t b)
{
    bool less, greater;
    if (tv_is_real_element(s->x->element)) {
        double p = tv_tensor_real(s->x, s->first + a), q = tv_tensor_real(s->x, s->first + b);
        if ((p != p) != (q != q))
            return q != q;
        less = p < q;
        greater = p > q;
    } else {
        int64_t p = tv_tensor_integer(s->x, s->first + a), q = tv_tensor_integer(s->x, s->first + b);
        bool wide = s->x->element == TV_ELEMENT_U64;
        less = wide ? (uint64_t)p < (uint64_t)q : p < q;
        greater = p != q && !less;
    }
    return less || greater ? less == s->smallest : a < b;
}

/* Moves the element at the root of the heap to where it belongs. */
static void sift_down(selection *s)
{
    for (uint64_t at = 0, child; (child = 2 * at + 1) < s->count; at = child) {
        if (child + 1 < s->count && comes_before(s, s->heap[child], s->heap[child + 1]))
            child++;
        if (!comes_before(s, s->heap[at], s->heap[child]))
            return;
        uint64_t other = s->heap[at];
        s->heap[at] = s->heap[child];
        s->heap[child] = other;
    }
}

static void push_index(selection *s, uint64_t index)
{
    uint64_t at = s->count++;
    for (; at > 0 && comes_before(s, s->heap[(at - 1) / 2], index); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = index;
}

/* The indices of the first k elements, in their order, in s->heap. */
static void select_first(selection *s, uint64_t n, uint64_t k)
{
    s->count = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (s->count < k) {
            push_index(s, i);
        } else if (k && comes_before(s, i, s->heap[0])) {
            s->heap[0] = i;
            sift_down(s);
        }
    }
    while (s->count > 1) { /* the last one is at the root */
        uint64_t last = s->heap[0];
        s->heap[0] = s->heap[--s->count];
        sift_down(s);
        s->heap[s->count] = last;
    }
}

static bool compute_first(const tv_operator_row *r, bool indices)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    uint64_t n = (uint64_t)x.dims[x.rank - 1], k = tv_attrs_of(r)->end, count = k ? tv_output_elements(r) / k : 0;
    size_t bytes = tv_element_infos[y.element].bytes;
    selection s = {.x = &x, .smallest = tv_attrs_of(r)->mode & 1, .heap = malloc((size_t)k * sizeof *s.heap + 1)};
    for (uint64_t v = 0; v < count && s.heap; v++) {
        s.first = v * n;
        select_first(&s, n, k);
        for (uint64_t i = 0; i < k; i++)
            if (indices)
                tv_tensor_set_integer(&y, v * k + i, (int64_t)s.heap[i]);
            else
                memcpy((uint8_t *)y.data + (v * k + i) * bytes, (const uint8_t *)x.data + (s.first + s.heap[i]) * bytes,
                       bytes);
    }
    bool ok = s.heap != NULL;
    free(s.heap);
    return ok;
}

bool tv_compute_TOP_K(const tv_operator_row *r) { return compute_first(r, false); }
bool tv_compute_TOP_K_INDICES(const tv_operator_row *r) { return compute_first(r, true); }
