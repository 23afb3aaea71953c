/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of passes that replace nodes by several others. */
#include "graph/rewrite.h"

#include <stdio.h>
#include <stdlib.h>

#define COPY(to, from)                                                                                                 \
    copy_items((void **)&(to)->data, &(to)->count, &(to)->cap, (from)->data, (from)->count, sizeof *(from)->data)

static bool copy_items(void **data, size_t *count, size_t *cap, const void *from, size_t items, size_t size)
{
    *data = malloc((items + 1) * size);
    if (!*data)
        return false;
    if (items)
        memcpy(*data, from, items * size);
    *count = items;
    *cap = items + 1;
    return true;
}

tv_status tv_graph_copy(const tv_graph *graph, const tv_diag_sink *sink, tv_graph **out)
{
    tv_graph *copy = calloc(1, sizeof *copy);
    if (!copy)
        return tv_fail_memory(sink);
    copy->context = graph->context;
    copy->logits = TV_NO_VALUE;
    if (!COPY(&copy->values, &graph->values) || !COPY(&copy->nodes, &graph->nodes) ||
        !COPY(&copy->inputs, &graph->inputs) || !COPY(&copy->outputs, &graph->outputs)) {
        tv_graph_free(copy);
        return tv_fail_memory(sink);
    }
    *out = copy;
    return TV_OK;
}

tv_status tv_graph_rewrite(tv_graph *graph, tv_graph_rewriter *rewrite, void *user, const tv_diag_sink *sink)
{
    tv_graph_builder b = {.graph = graph, .sink = sink, .block = TV_BLOCK_NONE};
    tv_graph_node *nodes = graph->nodes.data;
    size_t count = graph->nodes.count;
    graph->nodes.data = NULL;
    graph->nodes.count = graph->nodes.cap = 0;
    for (size_t i = 0; i < count && b.status == TV_OK; i++) {
        tv_graph_node node = nodes[i];
        b.block = node.block;
        rewrite(user, &b, &node);
        tv_graph_value_at(graph, node.output)->producer = (uint32_t)graph->nodes.count;
        if (b.status == TV_OK && !TV_VEC_PUSH(&graph->nodes, node))
            b.status = tv_fail_memory(sink);
    }
    free(nodes);
    return b.status == TV_OK ? tv_graph_verify(graph, sink) : b.status;
}

enum { NAME_MAX = 256 };

static void name_of(const tv_graph *graph, uint32_t value, const char *suffix, char name[NAME_MAX])
{
    snprintf(name, NAME_MAX, "%.200s.%s", tv_graph_value_at(graph, value)->name, suffix);
}

uint32_t tv_rewrite_add(tv_graph_builder *b, uint32_t value, const char *suffix, tv_graph_op op, const uint32_t *inputs,
                        uint32_t count, const tv_graph_attrs *attrs)
{
    char name[NAME_MAX];
    for (uint32_t i = 0; i < count; i++)
        if (inputs[i] == TV_NO_VALUE && i < tv_graph_op_infos[op].inputs) /* an error before */
            return TV_NO_VALUE;
    name_of(b->graph, value, suffix, name);
    return tv_graph_add(b, op, name, inputs, count, attrs);
}

uint32_t tv_rewrite_constant(tv_graph_builder *b, uint32_t value, const char *suffix, const tv_tensor *tensor)
{
    char name[NAME_MAX];
    name_of(b->graph, value, suffix, name);
    return tv_graph_tensor(b, name, tensor, false);
}

uint32_t tv_rewrite_scalar(tv_graph_builder *b, uint32_t value, const char *suffix, float x)
{
    return tv_rewrite_constant(b, value, suffix, &(tv_tensor){.element = TV_ELEMENT_F32, .data = &x});
}

/* The next input axis after `axis` whose extent is not 1. */
static uint32_t next_axis(const tv_graph_shape *s, uint32_t axis)
{
    do
        axis++;
    while (axis < s->rank && s->dims[axis] == 1);
    return axis;
}

tv_permutation tv_permutation_of(const tv_graph_shape *input, const uint32_t *perm)
{
    tv_permutation p = {.rank = 0};
    uint32_t first[TV_GRAPH_RANK_MAX], next = TV_GRAPH_RANK_MAX; /* input axes of groups, in the order of the output */
    for (uint32_t i = 0; i < input->rank; i++) {
        if (input->dims[perm[i]] == 1)
            continue;
        if (p.rank == 0 || perm[i] != next)
            first[p.rank++] = perm[i];
        next = next_axis(input, perm[i]);
    }
    for (uint32_t i = 0; i < p.rank; i++) {
        p.perm[i] = 0;
        for (uint32_t k = 0; k < p.rank; k++)
            p.perm[i] += first[k] < first[i];
    }
    for (uint32_t i = 0; i < p.rank; i++) {
        uint32_t end = input->rank; /* the group ends where the next one of the input begins */
        for (uint32_t k = 0; k < p.rank; k++)
            end = first[k] > first[i] && first[k] < end ? first[k] : end;
        p.dims[p.perm[i]] = 1;
        for (uint32_t a = first[i]; a < end; a++)
            p.dims[p.perm[i]] *= input->dims[a];
    }
    return p;
}
