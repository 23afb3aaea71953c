/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and outputs of nodes. */
#include <inttypes.h>

#include "graph/codes.h"
#include "import/onnx_nodes.h"
#include "import/onnx_tensor.h"

enum { NAME_SHOWN = 100 };

/* ---- Values ---- */

bool tv_onnx_has(const tv_onnx_node *n, size_t input) { return input < n->proto->n_input && *n->proto->input[input]; }

bool tv_onnx_has_output(const tv_onnx_node *n, size_t output)
{
    return output < n->proto->n_output && *n->proto->output[output];
}

void tv_onnx_read_initializer(tv_onnx_context *c, tv_onnx_name *entry)
{
    tv_tensor tensor;
    if (entry->value != TV_NO_VALUE || c->status != TV_OK)
        return;
    bool absent = c->options->timing && tv_onnx_external_type(entry->initializer, &tensor);
    if (!absent && !tv_onnx_view_tensor(entry->initializer, &tensor))
        c->status = tv_onnx_read_tensor(entry->initializer, c->file->folder, c->sink, &tensor);
    if (c->status == TV_OK && !tv_onnx_dims_fit(tensor.element, tensor.rank, tensor.dims)) {
        tv_tensor_fini(&tensor);
        c->status = tv_fail(c->sink, TV_ERR_INPUT, TV_LLM_CODE(ONNX_GRAPH), NULL, "'%s', tensor '%.*s': %s",
                            c->file->path, NAME_SHOWN, entry->name, "an extent is above 2^31 - 1");
    }
    if (c->status == TV_OK)
        entry->value = tv_onnx_add_constant(c, entry->name, &tensor);
}

uint32_t tv_onnx_input(const tv_onnx_node *n, size_t input)
{
    if (!tv_onnx_has(n, input) || !tv_onnx_ok(n))
        return TV_NO_VALUE;
    tv_onnx_name *entry = tv_onnx_names_find(&n->c->names, n->proto->input[input]);
    if (!entry->name)
        return tv_onnx_reject(n, TV_ONNX_INVALID, "nothing computes the input '%.*s'", NAME_SHOWN,
                              n->proto->input[input]);
    if (entry->initializer)
        tv_onnx_read_initializer(n->c, entry);
    if (entry->value == TV_NO_VALUE && tv_onnx_ok(n))
        return tv_onnx_reject(n, TV_ONNX_INVALID,
                              "the input '%.*s' is computed by a later node, or depends on this one", NAME_SHOWN,
                              n->proto->input[input]);
    return entry->value;
}

void tv_onnx_output(tv_onnx_node *n, size_t output, uint32_t value)
{
    if (!tv_onnx_ok(n) || !tv_onnx_has_output(n, output))
        return;
    tv_onnx_name *entry = tv_onnx_names_find(&n->c->names, n->proto->output[output]);
    entry->value = value;
    if (value != TV_NO_VALUE && value >= n->first)
        tv_graph_value_at(n->c->builder.graph, value)->name = entry->name; /* lives as long as the file */
}

tv_graph_shape tv_onnx_dims(const tv_onnx_node *n, uint32_t value)
{
    return value == TV_NO_VALUE ? (tv_graph_shape){0} : tv_graph_value_at(n->c->builder.graph, value)->shape;
}

tv_element tv_onnx_element(const tv_onnx_node *n, uint32_t value)
{
    return value == TV_NO_VALUE ? TV_ELEMENT_F32 : tv_graph_value_at(n->c->builder.graph, value)->element;
}

uint64_t tv_onnx_count(const tv_onnx_node *n, uint32_t value)
{
    return value == TV_NO_VALUE ? 1 : tv_graph_elements(n->c->builder.graph, value);
}

/* ---- Constants ---- */

bool tv_onnx_is_constant(const tv_onnx_node *n, uint32_t value)
{
    return value != TV_NO_VALUE && tv_graph_value_at(n->c->builder.graph, value)->source == TV_VALUE_CONSTANT;
}

const tv_tensor *tv_onnx_data(const tv_onnx_node *n, uint32_t value)
{
    if (!tv_onnx_is_constant(n, value))
        return NULL;
    const tv_tensor *t = tv_graph_value_at(n->c->builder.graph, value)->tensor;
    return t && (t->data || tv_tensor_count(t) == 0) ? t : NULL;
}

/* The data of an input that must be known; NULL after an error. */
static const tv_tensor *known_data(const tv_onnx_node *n, size_t input, bool integers)
{
    const tv_tensor *t = tv_onnx_data(n, tv_onnx_input(n, input));
    if (!tv_onnx_ok(n))
        return NULL;
    if (!tv_onnx_has(n, input))
        tv_onnx_reject(n, TV_ONNX_INVALID, "its input %zu is missing", input + 1);
    else if (!t)
        tv_onnx_reject(n, TV_ONNX_DYNAMIC, "the input '%.*s' must be a constant", NAME_SHOWN, n->proto->input[input]);
    else if (integers && !tv_is_integer_element(t->element) && t->element != TV_ELEMENT_BOOL)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the input '%.*s' has no integers", NAME_SHOWN, n->proto->input[input]);
    return tv_onnx_ok(n) ? t : NULL;
}

size_t tv_onnx_integers(const tv_onnx_node *n, size_t input, int64_t out[TV_ONNX_INTEGERS_MAX])
{
    const tv_tensor *t = known_data(n, input, true);
    uint64_t count = t ? tv_tensor_count(t) : 0;
    if (count > TV_ONNX_INTEGERS_MAX)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the input '%.*s' has more than %d elements", NAME_SHOWN,
                       n->proto->input[input], TV_ONNX_INTEGERS_MAX);
    for (uint64_t i = 0; i < count && tv_onnx_ok(n); i++)
        out[i] = tv_tensor_integer(t, i);
    return tv_onnx_ok(n) ? (size_t)count : 0;
}

/* The only element of an input that must be known; NULL: left out, or an error. */
static const tv_tensor *known_scalar(const tv_onnx_node *n, size_t input, bool integers)
{
    const tv_tensor *t = tv_onnx_has(n, input) ? known_data(n, input, integers) : NULL;
    if (t && tv_tensor_count(t) != 1)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the input '%.*s' has not one element", NAME_SHOWN, n->proto->input[input]);
    return tv_onnx_ok(n) ? t : NULL;
}

int64_t tv_onnx_integer(const tv_onnx_node *n, size_t input, int64_t missing)
{
    const tv_tensor *t = known_scalar(n, input, true);
    return t ? tv_tensor_integer(t, 0) : missing;
}

double tv_onnx_real(const tv_onnx_node *n, size_t input, double missing)
{
    const tv_tensor *t = known_scalar(n, input, false);
    return t ? tv_tensor_real(t, 0) : missing;
}

tv_onnx_list tv_onnx_ints_or_input(const tv_onnx_node *n, const char *name, size_t input,
                                   int64_t buffer[TV_ONNX_INTEGERS_MAX])
{
    if (input && tv_onnx_has(n, input))
        return (tv_onnx_list){buffer, tv_onnx_integers(n, input, buffer)};
    return tv_onnx_ints(n, name);
}

/* ---- Axes ---- */

uint32_t tv_onnx_axis(const tv_onnx_node *n, int64_t axis, uint32_t rank)
{
    int64_t from_start = axis < 0 ? axis + (int64_t)rank : axis;
    if (from_start >= 0 && from_start < (int64_t)rank)
        return (uint32_t)from_start;
    tv_onnx_reject(n, TV_ONNX_INVALID, "the axis %" PRId64 " is not one of %" PRIu32, axis, rank);
    return 0;
}

uint32_t tv_onnx_axes(const tv_onnx_node *n, tv_onnx_list list, uint32_t rank)
{
    uint32_t axes = 0;
    for (size_t i = 0; i < list.count && tv_onnx_ok(n); i++)
        axes |= UINT32_C(1) << tv_onnx_axis(n, list.data[i], rank);
    return axes;
}
