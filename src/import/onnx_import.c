/* SPDX-License-Identifier: Apache-2.0 */
/* Imports a file: inputs and initializers get names, nodes are imported in the order of the file, which computes every
 * name before it is read, and what the outputs need becomes the graph. */
#include "import/onnx_import.h"

#include <inttypes.h>

#include "graph/codes.h"
#include "import/onnx_finish.h"
#include "import/onnx_operators.h"
#include "import/onnx_tensor.h"
#include "import/onnx_weights.h"

enum { NAME_SHOWN = 100 };

#define FOLD_BYTES_MAX (UINT64_C(1) << 30)
#define FOLD_WORK_MAX (UINT64_C(1) << 30)

static tv_status fail_graph(tv_onnx_context *c, const char *kind, const char *name, const char *problem)
{
    if (c->status == TV_OK)
        c->status = tv_fail(c->sink, TV_ERR_INPUT, TV_LLM_CODE(ONNX_GRAPH), NULL, "'%s', %s '%.*s': %s", c->file->path,
                            kind, NAME_SHOWN, name, problem);
    return c->status;
}

/* ---- Operator sets ---- */

static void read_opsets(tv_onnx_context *c)
{
    const Onnx__ModelProto *m = c->file->model;
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = m->opset_import[i]->domain;
        int64_t version = m->opset_import[i]->has_version ? m->opset_import[i]->version : 0;
        if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0)
            c->opset = version;
        else if (strcmp(domain, "com.microsoft") == 0)
            c->opset_microsoft = version;
    }
    c->opset = c->opset ? c->opset : 1; /* files of the first version state none */
}

/* ---- Names ---- */

static size_t count_names(const Onnx__GraphProto *g)
{
    size_t count = g->n_input + g->n_initializer;
    for (size_t i = 0; i < g->n_node; i++)
        count += g->node[i]->n_output;
    return count;
}

static tv_onnx_name *add_name(tv_onnx_context *c, const char *kind, const char *name)
{
    tv_onnx_name *entry = tv_onnx_names_find(&c->names, name ? name : "");
    if (!name || !*name)
        fail_graph(c, kind, "", "it has no name");
    else if (entry->name)
        fail_graph(c, kind, name, "the name is used twice");
    if (c->status != TV_OK)
        return NULL;
    *entry = (tv_onnx_name){.name = name, .value = TV_NO_VALUE};
    return entry;
}

static void add_initializers(tv_onnx_context *c, const Onnx__GraphProto *g)
{
    if (g->n_sparse_initializer)
        fail_graph(c, "sparse tensor", g->name ? g->name : "", "sparse tensors are not supported");
    for (size_t i = 0; i < g->n_initializer && c->status == TV_OK; i++) {
        tv_onnx_name *entry = add_name(c, "tensor", g->initializer[i]->name);
        if (entry)
            entry->initializer = g->initializer[i];
    }
}

/* ---- Inputs ---- */

static const tv_onnx_extents *find_extents(const tv_onnx_context *c, const char *name)
{
    for (size_t i = 0; i < c->options->extent_count; i++)
        if (name && strcmp(c->options->extents[i].name, name) == 0)
            return &c->options->extents[i];
    return NULL;
}

static const tv_tensor *find_constant(const tv_onnx_context *c, const char *name)
{
    for (size_t i = 0; i < c->options->constant_count; i++)
        if (strcmp(c->options->constants[i].name, name) == 0)
            return &c->options->constants[i].tensor;
    return NULL;
}

static tv_status fail_extent(tv_onnx_context *c, const char *input, const char *dimension)
{
    c->status =
        tv_fail(c->sink, TV_ERR_INPUT, TV_LLM_CODE(ONNX_DYNAMIC), "give the dimension a number, as with --dim NAME=N",
                "'%s', input '%.*s': its dimension '%.*s' has no number", c->file->path, NAME_SHOWN, input, NAME_SHOWN,
                dimension);
    return c->status;
}

static int64_t extent_of(tv_onnx_context *c, const char *input, const Onnx__TensorShapeProto__Dimension *d)
{
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
        return d->dim_value;
    const char *name = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM ? d->dim_param : "?";
    const tv_onnx_extents *given = find_extents(c, name);
    if (!given || given->rank != 1)
        fail_extent(c, input, name);
    return given ? given->dims[0] : 0;
}

/* Type and shape of an input, which has a name. */
static tv_status read_type(tv_onnx_context *c, const Onnx__ValueInfoProto *info, tv_tensor *out)
{
    const tv_onnx_extents *given = find_extents(c, info->name);
    const Onnx__TypeProto *type = info->type;
    *out = (tv_tensor){0};
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type)
        return fail_graph(c, "input", info->name, "it is no tensor");
    if (!tv_element_of_onnx(type->tensor_type->elem_type, &out->element))
        return fail_graph(c, "input", info->name, "its element type is not supported");
    const Onnx__TensorShapeProto *dims = type->tensor_type->shape;
    if (!given && !dims)
        return fail_extent(c, info->name, "?");
    if (!given && dims->n_dim > TV_GRAPH_RANK_MAX)
        return fail_graph(c, "input", info->name, "it has more than 8 axes");
    out->rank = given ? given->rank : (uint32_t)dims->n_dim;
    for (uint32_t i = 0; i < out->rank && c->status == TV_OK; i++)
        out->dims[i] = given ? given->dims[i] : extent_of(c, info->name, dims->dim[i]);
    if (c->status == TV_OK && !tv_onnx_dims_fit(out->element, out->rank, out->dims))
        return fail_graph(c, "input", info->name,
                          "an extent is negative, or it has more elements than fit into memory");
    return c->status;
}

static void add_input(tv_onnx_context *c, const Onnx__ValueInfoProto *info, bool weight)
{
    const tv_tensor *bound = info->name ? find_constant(c, info->name) : NULL;
    tv_tensor type;
    if (info->name && *info->name && tv_onnx_names_find(&c->names, info->name)->initializer)
        return; /* the initializer is its value */
    tv_onnx_name *entry = add_name(c, "input", info->name);
    if (!entry || (!bound && read_type(c, info, &type) != TV_OK))
        return;
    tv_graph_shape dims = {0};
    if (!bound) {
        dims.rank = type.rank;
        memcpy(dims.dims, type.dims, sizeof type.dims);
    }
    if (bound)
        entry->value = tv_graph_tensor(&c->builder, info->name, bound, true);
    else if (weight)
        entry->value = tv_graph_tensor(&c->builder, info->name, &type, true);
    else
        entry->value = tv_graph_input(&c->builder, info->name, type.element, &dims);
    if (entry->value == TV_NO_VALUE)
        tv_onnx_fail_memory(c);
}

static void add_inputs(tv_onnx_context *c, const Onnx__GraphProto *g)
{
    bool *weights = c->options->timing ? tv_onnx_find_weights(g) : NULL;
    if (c->options->timing && !weights)
        tv_onnx_fail_memory(c);
    for (size_t i = 0; i < g->n_input && c->status == TV_OK; i++)
        add_input(c, g->input[i], weights && weights[i]);
    free(weights);
}

/* ---- Nodes ---- */

static void declare_outputs(tv_onnx_context *c, const Onnx__NodeProto *proto)
{
    for (size_t i = 0; i < proto->n_output && c->status == TV_OK; i++)
        if (*proto->output[i])
            add_name(c, "output of a node", proto->output[i]);
}

static void check_outputs(const tv_onnx_node *n)
{
    for (size_t i = 0; i < n->proto->n_output && tv_onnx_ok(n); i++)
        if (*n->proto->output[i] && tv_onnx_names_find(&n->c->names, n->proto->output[i])->value == TV_NO_VALUE)
            tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "its output %zu, '%.*s', is not supported", i + 1, NAME_SHOWN,
                           n->proto->output[i]);
}

static void import_node(tv_onnx_context *c, uint32_t index)
{
    tv_onnx_node n = {.c = c, .proto = c->file->model->graph->node[index], .index = index, .opset = c->opset};
    if (n.proto->domain && strcmp(n.proto->domain, "com.microsoft") == 0)
        n.opset = c->opset_microsoft;
    n.first = (uint32_t)c->builder.graph->values.count;
    n.row = tv_onnx_find_operator(&n);
    if (n.row)
        n.row->import(&n);
    check_outputs(&n);
}

static void add_outputs(tv_onnx_context *c, const Onnx__GraphProto *g)
{
    tv_onnx_node n = {.c = c};
    if (!g->n_output && c->status == TV_OK)
        fail_graph(c, "graph", g->name ? g->name : "", "it has no outputs");
    for (size_t i = 0; i < g->n_output && c->status == TV_OK; i++) {
        const char *name = g->output[i]->name ? g->output[i]->name : "";
        tv_onnx_name *entry = *name ? tv_onnx_names_find(&c->names, name) : NULL;
        if (entry && entry->name && entry->initializer)
            tv_onnx_read_initializer(n.c, entry);
        if (!entry || !entry->name || entry->value == TV_NO_VALUE)
            fail_graph(c, "output", name, "nothing computes it");
        else
            tv_graph_add_output(&c->builder, name, entry->value);
    }
    if (c->status == TV_OK && c->builder.status != TV_OK)
        tv_onnx_fail_memory(c);
}

static void import_graph(tv_onnx_context *c)
{
    const Onnx__GraphProto *g = c->file->model->graph;
    read_opsets(c);
    if (!tv_onnx_names_init(&c->names, count_names(g)))
        tv_onnx_fail_memory(c);
    if (c->status == TV_OK)
        add_initializers(c, g);
    if (c->status == TV_OK)
        add_inputs(c, g);
    for (size_t i = 0; i < g->n_node && c->status == TV_OK; i++)
        declare_outputs(c, g->node[i]);
    for (size_t i = 0; i < g->n_node && c->status == TV_OK; i++)
        import_node(c, (uint32_t)i);
    if (c->status == TV_OK)
        add_outputs(c, g);
}

static void context_fini(tv_onnx_context *c)
{
    for (size_t i = 0; i < c->storage.count; i++)
        free(c->storage.data[i].data);
    TV_VEC_FINI(&c->storage);
    TV_VEC_FINI(&c->transposed);
    free(c->names.slots);
    tv_graph_abandon(&c->builder);
}

tv_status tv_onnx_import_file(const tv_onnx *file, const tv_onnx_options *options, const tv_diag_sink *sink,
                              tv_graph **out)
{
    static const tv_onnx_options none;
    tv_onnx_context c = {.file = file,
                         .options = options ? options : &none,
                         .sink = sink,
                         .bytes_left = options && options->fold_bytes ? options->fold_bytes : FOLD_BYTES_MAX};
    c.work_left = c.bytes_left < FOLD_WORK_MAX ? c.bytes_left : FOLD_WORK_MAX;
    for (size_t i = 0; i < file->model->graph->n_initializer; i++)
        c.bytes_left += 2 * tv_onnx_tensor_bytes(file->model->graph->initializer[i]);
    tv_graph_begin(&c.builder, 0, 0, NULL);
    c.builder.block = TV_BLOCK_NONE;
    if (c.builder.status != TV_OK)
        tv_onnx_fail_memory(&c);
    else
        import_graph(&c);
    if (c.status == TV_OK)
        c.status = tv_onnx_finish(&c, out);
    context_fini(&c);
    return c.status;
}

tv_status tv_onnx_import(const char *path, const tv_onnx_options *options, const tv_diag_sink *sink, tv_graph **out)
{
    tv_onnx file;
    TV_TRY(tv_onnx_open(path, sink, &file));
    tv_status status = tv_onnx_import_file(&file, options, sink, out);
    tv_onnx_close(&file);
    return status;
}
