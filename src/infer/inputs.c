/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of networks: from memory, from files, or random. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "graph/npy.h"
#include "infer/state.h"

bool tv_infer_find_element(const char *name, tv_element *out)
{
    for (unsigned i = 0; i < TV_ELEMENTS; i++)
        if (strcmp(tv_element_infos[i].name, name) == 0) {
            *out = (tv_element)i;
            return true;
        }
    return false;
}

void tv_infer_describe(const tv_tensor *t, const char *name, tv_network_tensor *out)
{
    *out = (tv_network_tensor){.name = name,
                               .type = tv_element_infos[t->element].name,
                               .rank = t->rank,
                               .data = t->data,
                               .bytes = tv_tensor_bytes(t)};
    for (uint32_t d = 0; d < t->rank; d++)
        out->dims[d] = t->dims[d];
}

static tv_status find_input(const tv_network *network, const char *name, const tv_diag_sink *sink, size_t *out)
{
    const tv_graph *g = network->graph;
    char hint[200] = "the network has no inputs";
    for (size_t i = 0, at = 0; i < g->inputs.count; i++) {
        const char *own = tv_graph_value_at(g, g->inputs.data[i])->name;
        if (strcmp(own, name) == 0) {
            *out = i;
            return TV_OK;
        }
        int n = snprintf(hint + at, sizeof hint - at, "%s%.60s", i ? ", " : "the inputs are ", own);
        at = tv_min_u64(at + (size_t)n, sizeof hint - 1);
    }
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(NETWORK_INPUT), hint, "the network has no input '%.100s'", name);
}

/* ---- Files ---- */

static bool same_dims(const tv_tensor *a, const tv_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* Converts `from` to the type of `to`, which has storage and as many elements. */
static void convert(const tv_tensor *from, tv_tensor *to)
{
    uint64_t n = tv_tensor_count(to);
    bool integers = !tv_is_real_element(from->element) && !tv_is_real_element(to->element);
    if (from->element == to->element && n)
        memcpy(to->data, from->data, tv_tensor_bytes(to));
    for (uint64_t i = 0; i < n && from->element != to->element; i++)
        if (integers)
            tv_tensor_set_integer(to, i, tv_tensor_integer(from, i));
        else
            tv_tensor_set_real(to, i, tv_tensor_real(from, i));
}

static tv_status read_file(const char *path, const char *type, const tv_tensor *expected, const tv_diag_sink *sink,
                           tv_tensor *out)
{
    tv_element element;
    if (!type)
        return tv_npy_read(path, sink, out);
    if (!tv_infer_find_element(type, &element))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(NETWORK_INPUT), "for example float32, uint8 or int64",
                       "'%.40s' is not an element type", type);
    return tv_raw_read(path, element, expected->rank, expected->dims, sink, out);
}

tv_status tv_infer_load(const char *path, const char *type, const tv_tensor *expected, const char *what,
                        const tv_diag_sink *sink, tv_tensor *out)
{
    tv_tensor file;
    TV_TRY(read_file(path, type, expected, sink, &file));
    tv_status status = TV_OK;
    if (!same_dims(&file, expected)) {
        char found[TV_TENSOR_TEXT_MAX], needed[TV_TENSOR_TEXT_MAX];
        tv_tensor_print_shape(&file, found);
        tv_tensor_print_shape(expected, needed);
        status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(NETWORK_INPUT), NULL, "'%.200s' has %s; %s needs %s", path,
                         found, what, needed);
    }
    if (status == TV_OK)
        status = tv_tensor_init(out, expected->element, expected->rank, expected->dims, sink);
    if (status == TV_OK) {
        tv_tensor_restore(&file, expected->element);
        convert(&file, out);
    }
    tv_tensor_fini(&file);
    return status;
}

/* Replaces input i; `t` is then owned by the network. */
static void replace_input(tv_network *network, size_t i, const tv_tensor *t)
{
    tv_tensor_fini(&network->inputs[i]);
    network->inputs[i] = *t;
    network->is_random[i] = false;
}

tv_status tv_network_load_input(tv_network *network, const char *name, const char *path, const char *type,
                                const tv_diag_sink *sink)
{
    size_t i;
    tv_tensor t;
    char what[120];
    TV_TRY(find_input(network, name, sink, &i));
    snprintf(what, sizeof what, "the input '%.80s'", name);
    tv_tensor expected = tv_graph_tensor_of(network->graph, network->graph->inputs.data[i]);
    TV_TRY(tv_infer_load(path, type, &expected, what, sink, &t));
    replace_input(network, i, &t);
    return TV_OK;
}

tv_status tv_network_set_input(tv_network *network, const char *name, const void *data, size_t bytes,
                               const tv_diag_sink *sink)
{
    size_t i;
    tv_tensor t;
    TV_TRY(find_input(network, name, sink, &i));
    tv_tensor type = tv_graph_tensor_of(network->graph, network->graph->inputs.data[i]);
    if (bytes != tv_tensor_bytes(&type))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(NETWORK_INPUT), NULL, "the input '%.80s' has %zu bytes, not %zu",
                       name, tv_tensor_bytes(&type), bytes);
    TV_TRY(tv_tensor_init(&t, type.element, type.rank, type.dims, sink));
    if (bytes)
        memcpy(t.data, data, bytes);
    replace_input(network, i, &t);
    return TV_OK;
}

/* ---- Random inputs ---- */

/* Rows that an integer value selects, also after Cast and Reshape; 0: it selects none. */
static int64_t rows_selected(const tv_graph *g, uint32_t value)
{
    int64_t rows = 0;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        int64_t own = 0;
        if (n->op == TV_OP_GATHER && n->inputs[1] == value)
            own = tv_graph_value_at(g, n->inputs[0])->shape.dims[n->attrs.axis];
        else if ((n->op == TV_OP_CAST || n->op == TV_OP_RESHAPE) && n->inputs[0] == value)
            own = rows_selected(g, n->output);
        if (own > 0 && (rows == 0 || own < rows))
            rows = own;
    }
    return rows;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void fill_random(const tv_graph *g, uint32_t value, tv_tensor *t)
{
    uint64_t state = 1;
    int64_t rows = tv_is_integer_element(t->element) ? rows_selected(g, value) : 0;
    for (uint64_t i = 0, n = tv_tensor_count(t); i < n; i++) {
        uint64_t random = next_random(&state);
        if (tv_is_real_element(t->element))
            tv_tensor_set_real(t, i, (double)random / (1U << 30) - 1);
        else
            tv_tensor_set_integer(t, i, rows ? (int64_t)(random % (uint64_t)rows) : 1);
    }
}

tv_status tv_infer_fill_inputs(tv_network *network, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < network->graph->inputs.count; i++) {
        uint32_t value = network->graph->inputs.data[i];
        tv_tensor type = tv_graph_tensor_of(network->graph, value);
        if (network->inputs[i].data)
            continue;
        TV_TRY(tv_tensor_init(&network->inputs[i], type.element, type.rank, type.dims, sink));
        fill_random(network->graph, value, &network->inputs[i]);
        network->is_random[i] = true;
    }
    return TV_OK;
}
