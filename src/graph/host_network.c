/* SPDX-License-Identifier: Apache-2.0 */
/* Executes networks on the host, node by node. The output of a node is freed after its last reader. */
#include <stdlib.h>
#include <unistd.h>

#include "graph/network.h"
#include "graph/operators.h"
#include "graph/passes.h"

typedef struct host_network {
    const tv_graph *graph;
    tv_tensor *values; /* of each value: computed ones are owned */
    uint32_t *last_uses;
    bool keep_values;
    tv_llm_progress progress;
    tv_pool *pool;
    uint64_t *work; /* [nodes + 1]: operations and elements of the nodes before */
} host_network;

static tv_status compute_row(tv_operator_row *row, const tv_tensor *const *inputs, const tv_diag_sink *sink)
{
    const tv_graph_node *node = row->node;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        row->inputs[k] = node->inputs[k] != TV_NO_VALUE && inputs[k] ? inputs[k]->data : NULL;
    return tv_operator_compute(row) ? TV_OK : tv_fail_memory(sink);
}

tv_status tv_node_compute(const tv_graph *graph, const tv_graph_node *node, const tv_tensor *const *inputs,
                          tv_tensor *out, const tv_diag_sink *sink)
{
    return compute_row(&(tv_operator_row){.graph = graph, .node = node, .output = out->data}, inputs, sink);
}

static void free_computed(const host_network *h)
{
    for (size_t i = 0; h->values && i < h->graph->nodes.count; i++)
        tv_tensor_fini(&h->values[h->graph->nodes.data[i].output]);
}

static void destroy(void *state)
{
    host_network *h = state;
    if (!h)
        return;
    free_computed(h);
    free(h->values);
    free(h->last_uses);
    free(h->work);
    tv_pool_free(h->pool);
    free(h);
}

/* Sums the work of nodes, for progress. */
static void sum_work(const host_network *h)
{
    for (uint32_t i = 0; i < h->graph->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(h->graph, i);
        tv_graph_cost cost = tv_graph_node_cost(h->graph, n, 1, 32);
        h->work[i + 1] = h->work[i] + 1 + cost.operations + tv_graph_elements(h->graph, n->output);
    }
}

static tv_status create(const tv_graph *graph, const tv_network_options *options, const tv_diag_sink *sink,
                        void **state)
{
    host_network *h = calloc(1, sizeof *h);
    if (!h)
        return tv_fail_memory(sink);
    h->graph = graph;
    h->keep_values = options->keep_values;
    h->progress = options->progress;
    h->values = calloc(graph->values.count + 1, sizeof *h->values);
    h->last_uses = tv_graph_last_uses(graph, false);
    h->work = calloc(graph->nodes.count + 1, sizeof *h->work);
    if (!h->values || !h->last_uses || !h->work) {
        destroy(h);
        return tv_fail_memory(sink);
    }
    h->pool = tv_pool_new(options->threads);
    sum_work(h);
    *state = h;
    return TV_OK;
}

/* Constants and inputs are views. */
static void bind_values(const host_network *h, const tv_tensor *const *inputs)
{
    const tv_graph *g = h->graph;
    for (uint32_t v = 0; v < g->values.count; v++)
        if (g->values.data[v].tensor)
            h->values[v] = *g->values.data[v].tensor;
    for (size_t i = 0; i < g->inputs.count; i++) {
        h->values[g->inputs.data[i]] = *inputs[i];
        h->values[g->inputs.data[i]].storage = NULL;
    }
}

static void free_dead_inputs(const host_network *h, uint32_t node)
{
    const tv_graph_node *n = tv_graph_node_at(h->graph, node);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && !h->keep_values; k++) {
        uint32_t v = n->inputs[k];
        if (v != TV_NO_VALUE && h->last_uses[v] == node && tv_graph_value_at(h->graph, v)->source == TV_VALUE_COMPUTED)
            tv_tensor_fini(&h->values[v]);
    }
}

/* Progress inside of a node. */
typedef struct node_progress {
    const host_network *h;
    uint32_t node;
    uint64_t done; /* of the network; never decreases */
} node_progress;

static void report_node(void *user, uint64_t done, uint64_t total)
{
    node_progress *p = user;
    const uint64_t *work = p->h->work;
    double fraction = total ? (double)done / (double)total : 1;
    uint64_t now = work[p->node] + (uint64_t)(fraction * (double)(work[p->node + 1] - work[p->node]));
    p->done = now > p->done ? now : p->done;
    tv_progress_report(&p->h->progress, "computing on the host", p->done, work[p->h->graph->nodes.count]);
}

static tv_status execute(const host_network *h, uint32_t node, const tv_diag_sink *sink)
{
    enum { STEP = 1 << 28 }; /* operations, a tenth of a second */
    const tv_graph_node *n = tv_graph_node_at(h->graph, node);
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    tv_tensor type = tv_graph_tensor_of(h->graph, n->output);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        inputs[k] = n->inputs[k] == TV_NO_VALUE ? NULL : &h->values[n->inputs[k]];
    TV_TRY(tv_tensor_init(&h->values[n->output], type.element, type.rank, type.dims, sink));
    node_progress p = {.h = h, .node = node};
    tv_operator_progress progress = {report_node, &p, (unsigned)((h->work[node + 1] - h->work[node]) / STEP) + 1};
    tv_operator_row row = {.graph = h->graph,
                           .node = n,
                           .output = h->values[n->output].data,
                           .pool = h->pool,
                           .progress = h->progress.report ? &progress : NULL};
    report_node(&p, 0, 1);
    return compute_row(&row, inputs, sink);
}

/* False when the values that live at the same time have more bytes than the memory of this computer. */
static bool fits_memory(const host_network *h)
{
    double live = 0, memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < h->graph->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(h->graph, i);
        tv_tensor type = tv_graph_tensor_of(h->graph, n->output);
        live += (double)tv_tensor_bytes(&type);
        if (live > memory)
            return false;
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && !h->keep_values; k++) {
            uint32_t v = n->inputs[k];
            bool first = v != TV_NO_VALUE;
            for (unsigned j = 0; j < k; j++)
                first = first && n->inputs[j] != v;
            if (!first || h->last_uses[v] != i || tv_graph_value_at(h->graph, v)->source != TV_VALUE_COMPUTED)
                continue;
            type = tv_graph_tensor_of(h->graph, v);
            live -= (double)tv_tensor_bytes(&type);
        }
    }
    return true;
}

static tv_status run(void *state, const tv_tensor *const *inputs, const tv_diag_sink *sink)
{
    host_network *h = state;
    uint32_t count = (uint32_t)h->graph->nodes.count;
    tv_status status = TV_OK;
    free_computed(h);
    if (!inputs)
        return TV_OK; /* the host has no timing */
    if (!fits_memory(h))
        return tv_fail_memory(sink);
    bind_values(h, inputs);
    for (uint32_t i = 0; i < count && status == TV_OK; i++) {
        status = execute(h, i, sink);
        free_dead_inputs(h, i);
    }
    if (status == TV_OK)
        tv_progress_report(&h->progress, "computing on the host", h->work[count], h->work[count]);
    return status;
}

static const tv_tensor *tensor(void *state, uint32_t value)
{
    const host_network *h = state;
    const tv_tensor *t = &h->values[value];
    return t->data || tv_tensor_count(t) == 0 ? t : NULL;
}

const tv_network_backend tv_network_host = {
    .name = "host", .create = create, .destroy = destroy, .run = run, .tensor = tensor};
