/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes of values, and buffers that share memory. */
#include <stdlib.h>

#include "graph/passes.h"

uint32_t *tv_graph_last_uses(const tv_graph *graph, bool keep_layers)
{
    uint32_t *last = calloc(graph->values.count + 1, sizeof *last);
    if (!last)
        return NULL;
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(graph, i);
        last[n->output] = i;
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (n->inputs[k] != TV_NO_VALUE)
                last[n->inputs[k]] = i;
    }
    if (tv_graph_has_tokens(graph))
        last[graph->logits] = UINT32_MAX;
    for (size_t i = 0; i < graph->outputs.count; i++)
        last[graph->outputs.data[i].value] = UINT32_MAX;
    for (uint32_t i = 0; i < graph->layers && keep_layers; i++)
        last[graph->layer_outputs[i]] = UINT32_MAX;
    return last;
}

static int compare_offsets(const void *a, const void *b)
{
    const tv_buffer_life *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

/* The lowest offset at which the buffer does not overlap any of the `count` that are alive with it. */
static uint64_t first_fit(const tv_buffer_life *buffer, tv_buffer_life **alive, size_t count, uint64_t alignment)
{
    uint64_t at = 0;
    qsort(alive, count, sizeof *alive, compare_offsets);
    for (size_t i = 0; i < count && alive[i]->offset < at + buffer->bytes; i++) {
        uint64_t end = (alive[i]->offset + alive[i]->bytes + alignment - 1) / alignment * alignment;
        at = end > at ? end : at;
    }
    return at;
}

/* Removes buffers that end before any later one can begin: the first nodes of later buffers are at most SLACK before
 * that of this one. So the time is linear in the number of buffers for graphs of many layers. */
static size_t drop_ended(const tv_buffer_life *buffer, tv_buffer_life **alive, size_t count)
{
    enum { SLACK = 16 };
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if ((uint64_t)alive[i]->last + SLACK >= buffer->first)
            alive[kept++] = alive[i];
    return kept;
}

uint64_t tv_buffers_allocate(tv_buffer_life *buffers, uint32_t count, uint64_t alignment)
{
    tv_buffer_life **candidates = malloc(2 * ((size_t)count + 1) * sizeof *candidates);
    uint64_t total = 0;
    size_t candidate_count = 0;
    if (!candidates)
        return UINT64_MAX;
    tv_buffer_life **alive = candidates + count + 1;
    for (uint32_t i = 0; i < count; i++) {
        size_t n = 0;
        candidate_count = drop_ended(&buffers[i], candidates, candidate_count);
        for (size_t k = 0; k < candidate_count; k++)
            if (candidates[k]->bytes && candidates[k]->first <= buffers[i].last &&
                buffers[i].first <= candidates[k]->last)
                alive[n++] = candidates[k];
        buffers[i].offset = first_fit(&buffers[i], alive, n, alignment);
        if (buffers[i].offset + buffers[i].bytes > total)
            total = buffers[i].offset + buffers[i].bytes;
        candidates[candidate_count++] = &buffers[i];
    }
    free(candidates);
    return total;
}
