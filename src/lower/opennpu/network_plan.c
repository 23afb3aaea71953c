/* SPDX-License-Identifier: Apache-2.0 */
/* Plans a network for OpenNPU: what the machine computes, and where data memory has constants, values and scratch. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/passes.h"
#include "lower/opennpu/network_state.h"

enum { FIRST = 4096 }; /* address of the constants */

/* ---- Checks ---- */

static bool is_empty(const opennpu_network *net, const tv_graph_node *n)
{
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        if (n->inputs[k] != TV_NO_VALUE && !tv_graph_elements(net->graph, n->inputs[k]))
            return true;
    return !tv_graph_elements(net->graph, n->output);
}

static bool has_real_operands(const opennpu_network *net, const tv_graph_node *n)
{
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        if (n->inputs[k] != TV_NO_VALUE && !opennpu_net_is_real(net, n->inputs[k]))
            return false;
    return opennpu_net_is_real(net, n->output);
}

static const char *find_problem(const opennpu_network *net, const tv_graph_node *n)
{
    const opennpu_net_operator *o = &opennpu_net_operators[n->op];
    if (!o->emit)
        return "such instructions";
    if (is_empty(net, n))
        return "empty values";
    if (tv_graph_elements(net->graph, n->output) > UINT32_MAX / 4)
        return "so large a memory";
    if (!o->any_type && !has_real_operands(net, n))
        return "arithmetic of integers";
    return o->check ? o->check(net, n) : NULL;
}

static tv_status check_nodes(opennpu_network *net)
{
    for (uint32_t i = 0; i < net->graph->nodes.count; i++) {
        const tv_graph_node *n = opennpu_net_node_at(net, i);
        net->nodes[i].problem = find_problem(net, n);
        if (net->nodes[i].problem && !net->m.allow_host_ops)
            return tv_backend_reject(net->graph, n, "opennpu", net->nodes[i].problem, net->sink);
    }
    return TV_OK;
}

/* ---- Uses ---- */

/* Constants that are packed in another form, or that only the host reads, are not stored as words. */
static bool reads_words(const opennpu_network *net, uint32_t node, unsigned input)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    if (net->nodes[node].problem)
        return false;
    if (n->op == TV_OP_CONV || n->op == TV_OP_LINEAR || n->op == TV_OP_GEMM || n->op == TV_OP_CONV_TRANSPOSE)
        return input == 0 || input == 3;
    return n->op == TV_OP_NORM || n->op == TV_OP_RMS_NORMALIZATION || n->op == TV_OP_LAYER_NORMALIZATION ? input == 0
                                                                                                         : true;
}

static void find_uses(opennpu_network *net)
{
    for (uint32_t v = 0; v < net->graph->values.count; v++) {
        tv_value_source source = tv_graph_value_at(net->graph, v)->source;
        net->values[v].storage = v;
        net->values[v].used = source == TV_VALUE_INPUT || source == TV_VALUE_COMPUTED;
    }
    for (uint32_t i = 0; i < net->graph->nodes.count; i++) {
        const tv_graph_node *n = opennpu_net_node_at(net, i);
        for (unsigned k = 0; k < tv_graph_input_count(n); k++)
            if (n->inputs[k] != TV_NO_VALUE && reads_words(net, i, k))
                net->values[n->inputs[k]].used = true;
        if (n->op == TV_OP_RESHAPE && !net->nodes[i].problem) {
            net->nodes[i].alias = true;
            net->values[n->output].storage = net->values[n->inputs[0]].storage;
        }
        if ((n->op == TV_OP_LINEAR || n->op == TV_OP_GEMM) && !net->nodes[i].problem)
            net->values[n->inputs[0]].by_rows = true;
    }
}

/* ---- Lifetimes ---- */

typedef struct life_list {
    TV_VEC(tv_buffer_life) buffers;
    TV_VEC(uint64_t *) targets; /* where the address of each is stored */
} life_list;

static bool add_life(life_list *l, uint64_t bytes, uint32_t first, uint32_t last, uint64_t *target)
{
    return TV_VEC_PUSH(&l->buffers, ((tv_buffer_life){.bytes = bytes, .first = first, .last = last})) &&
           TV_VEC_PUSH(&l->targets, target);
}

static uint64_t plane_bytes(const opennpu_network *net, uint32_t value)
{
    uint64_t columns = tv_graph_columns(net->graph, value), rows = tv_graph_elements(net->graph, value) / columns;
    return rows == 1 ? columns : opennpu_net_blocks(net, rows) * columns * net->m.k;
}

static uint32_t last_use(const opennpu_network *net, const uint32_t *last_uses, uint32_t value)
{
    return last_uses[value] == UINT32_MAX ? (uint32_t)net->graph->nodes.count : last_uses[value];
}

/* The words of a value, which live as long as those that share them, and its planes. */
static bool add_value(opennpu_network *net, life_list *l, const uint32_t *last_uses, uint32_t v)
{
    const tv_graph_value *g = tv_graph_value_at(net->graph, v);
    uint64_t slack = opennpu_lower_vector_bytes(&net->m);
    uint32_t first = g->source == TV_VALUE_COMPUTED ? g->producer : 0, last = 0;
    bool root = net->values[v].storage == v;
    for (uint32_t u = v; u < net->graph->values.count && root; u++) /* others are later */
        if (net->values[u].storage == v && last_use(net, last_uses, u) > last)
            last = last_use(net, last_uses, u);
    if (root && !add_life(l, tv_graph_elements(net->graph, v) * 4 + slack, first, last, &net->m.values[v].at))
        return false;
    return !net->values[v].by_rows ||
           add_life(l, plane_bytes(net, v) + slack, first, last_use(net, last_uses, v), &net->values[v].planes);
}

/* In the order of their first nodes. */
static bool add_values(opennpu_network *net, life_list *l, const uint32_t *last_uses)
{
    uint64_t slack = opennpu_lower_vector_bytes(&net->m);
    for (uint32_t v = 0; v < net->graph->values.count; v++)
        if (tv_graph_value_at(net->graph, v)->source == TV_VALUE_INPUT && !add_value(net, l, last_uses, v))
            return false;
    for (uint32_t i = 0; i < net->graph->nodes.count; i++) {
        if (!add_value(net, l, last_uses, opennpu_net_node_at(net, i)->output))
            return false;
        if (net->nodes[i].scratch_bytes &&
            !add_life(l, net->nodes[i].scratch_bytes + slack, i, i, &net->nodes[i].scratch))
            return false;
    }
    return true;
}

static tv_status allocate_values(opennpu_network *net)
{
    life_list l = {0};
    uint32_t *last_uses = tv_graph_last_uses(net->graph, false);
    bool ok = last_uses && add_values(net, &l, last_uses);
    uint64_t bytes = ok ? tv_buffers_allocate(l.buffers.data, (uint32_t)l.buffers.count, OPENNPU_NET_ALIGNMENT)
                        : UINT64_MAX,
             base = net->m.end;
    for (size_t i = 0; i < l.targets.count && bytes != UINT64_MAX; i++)
        *l.targets.data[i] = base + l.buffers.data[i].offset;
    for (uint32_t v = 0; v < net->graph->values.count; v++)
        net->m.values[v].at = net->m.values[net->values[v].storage].at;
    TV_VEC_FINI(&l.buffers);
    TV_VEC_FINI(&l.targets);
    free(last_uses);
    if (bytes == UINT64_MAX)
        return tv_fail_memory(net->sink);
    if (net->m.end <= net->m.limit && bytes <= net->m.limit - net->m.end)
        return TV_OK;
    return tv_fail(net->sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make mem.bytes larger with -D",
                   "the network does not fit data memory of %" PRIu64 " bytes: constants take %" PRIu64
                   " bytes, values %" PRIu64,
                   net->m.limit, net->m.end, bytes);
}

static void reserve_constants(opennpu_network *net)
{
    net->m.end = FIRST;
    net->one_hot = opennpu_net_reserve(net, 2 * (uint64_t)net->m.k);
    net->m.lane_mask = opennpu_net_reserve(net, 2 * opennpu_lower_vector_bytes(&net->m));
    for (uint32_t v = 0; v < net->graph->values.count; v++)
        if (opennpu_net_is_constant(net, v) && net->values[v].used && net->values[v].storage == v)
            net->m.values[v].at = opennpu_net_reserve(net, tv_graph_elements(net->graph, v) * 4);
    for (uint32_t i = 0; i < net->graph->nodes.count; i++) {
        const opennpu_net_operator *o = &opennpu_net_operators[opennpu_net_node_at(net, i)->op];
        if (!net->nodes[i].problem && o->plan)
            o->plan(net, i);
    }
    net->m.constants_end = net->m.end;
}

tv_status opennpu_net_plan(opennpu_network *net)
{
    TV_TRY(check_nodes(net));
    find_uses(net);
    for (uint32_t v = 0; v < net->graph->values.count; v++) {
        float range = net->ranges ? net->ranges[v] : 0;
        net->units[v] = range > 0 ? range / 127 : 1;
    }
    reserve_constants(net);
    TV_TRY(allocate_values(net));
    net->tok.list = calloc(net->list_max + 1, sizeof *net->tok.list);
    net->xs = calloc(net->list_max + 1, sizeof *net->xs);
    return net->tok.list && net->xs ? TV_OK : tv_fail_memory(net->sink);
}
