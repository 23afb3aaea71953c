/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a session: what they are, what they cost, and how they differ from the host. */
#include <math.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "infer/state.h"

/* The host and machines without costs list their nodes. */
static bool cost_at(const tv_network_session *s, unsigned i, tv_layer *out)
{
    const tv_layer *list;
    if (s->backend->layers) {
        size_t count = s->backend->layers(s->state, &list);
        if (i < count)
            *out = list[i];
        return i < count;
    }
    if (i >= s->graph->nodes.count)
        return false;
    tv_graph_cost cost = tv_graph_node_cost(s->graph, tv_graph_node_at(s->graph, i), 1, 32);
    bool product = tv_graph_op_infos[tv_graph_node_at(s->graph, i)->op].class == TV_CLASS_PRODUCT;
    *out = (tv_layer){.node = i, .macs = product ? cost.operations / 2 : 0};
    return true;
}

int tv_network_session_layer_at(const tv_network_session *session, unsigned i, tv_network_layer *out)
{
    tv_layer cost;
    if (!cost_at(session, i, &cost))
        return 0;
    if (session->network->manifest) {
        *out = session->network->manifest->layers[i];
    } else {
        const tv_graph *g = session->graph;
        const tv_graph_node *n = tv_graph_node_at(g, cost.node);
        bool fused = n->op == TV_OP_CONV || n->op == TV_OP_LINEAR;
        *out = (tv_network_layer){.name = tv_graph_value_at(g, n->output)->name,
                                  .op = tv_graph_op_infos[n->op].name,
                                  .residual = fused && n->inputs[3] != TV_NO_VALUE,
                                  .tiles = cost.tiles,
                                  .cycles = cost.cycles,
                                  .macs = cost.macs,
                                  .bytes = cost.bytes,
                                  .bound = cost.bound,
                                  .plan = cost.plan,
                                  .energy = cost.energy,
                                  .binary16 = cost.wide};
        if ((fused || n->op == TV_OP_GLU) && n->attrs.activation != TV_ACTIVATION_NONE)
            out->activation = tv_activation_names[n->attrs.activation];
    }
    out->cosine = out->max_error = out->own_noise = NAN;
    if (session->comparisons) {
        const tv_infer_comparison *c = &session->comparisons[cost.node];
        out->cosine = c->cosine;
        out->max_error = c->max_error;
        out->own_noise = c->own_noise;
    }
    return 1;
}

int tv_network_session_host_op_at(const tv_network_session *session, unsigned i, tv_llm_host_op *out)
{
    const tv_host_op *list;
    unsigned count = session->backend->host_ops ? session->backend->host_ops(session->state, &list) : 0;
    if (i >= count)
        return 0;
    *out = (tv_llm_host_op){list[i].name, list[i].count, list[i].elements};
    return 1;
}

/* ---- Comparison with the host ---- */

static double element(const tv_tensor *t, uint64_t i)
{
    return t->element == TV_ELEMENT_F32 ? (double)((const float *)t->data)[i] : tv_tensor_real(t, i);
}

/* Cosine similarity and largest difference; 1 and 0 of two tensors of zeros. */
static void compare(const tv_tensor *expected, const tv_tensor *found, tv_infer_comparison *out)
{
    double dot = 0, aa = 0, bb = 0;
    out->max_error = 0;
    for (uint64_t i = 0, n = tv_tensor_count(expected); i < n; i++) {
        double a = element(expected, i), b = element(found, i);
        dot += a * b;
        aa += a * a;
        bb += b * b;
        out->max_error = fmax(out->max_error, fabs(a - b));
    }
    out->cosine = aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : aa == bb;
}

/* Signal to noise in dB; infinite for equal tensors. */
static double signal_to_noise(const tv_tensor *expected, const tv_tensor *found)
{
    double signal = 0, noise = 0;
    for (uint64_t i = 0, n = tv_tensor_count(expected); i < n; i++) {
        double a = element(expected, i), d = a - element(found, i);
        signal += a * a;
        noise += d * d;
    }
    return noise > 0 ? 10 * log10(signal / noise) : (double)INFINITY;
}

/* A value as the machine has it; NULL: it does not keep it. */
static const tv_tensor *machine_value(const tv_network_session *s, uint32_t value)
{
    const tv_graph *g = s->graph;
    if (tv_graph_value_at(g, value)->source == TV_VALUE_CONSTANT)
        return tv_graph_value_at(g, value)->tensor;
    for (size_t i = 0; i < g->inputs.count; i++)
        if (g->inputs.data[i] == value)
            return &s->network->inputs[i];
    return s->backend->tensor(s->kept, value);
}

/* Computes a node on the host from the machine's inputs, and compares. */
static tv_status measure_own_noise(const tv_network_session *s, uint32_t node, const tv_tensor *found,
                                   const tv_diag_sink *sink, double *out)
{
    const tv_graph_node *n = tv_graph_node_at(s->graph, node);
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    tv_tensor expected, type = tv_graph_tensor_of(s->graph, n->output);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        inputs[k] = n->inputs[k] == TV_NO_VALUE ? NULL : machine_value(s, n->inputs[k]);
        if (n->inputs[k] != TV_NO_VALUE && !inputs[k])
            return TV_OK;
    }
    TV_TRY(tv_tensor_init(&expected, type.element, type.rank, type.dims, sink));
    tv_status status = tv_node_compute(s->graph, n, inputs, &expected, sink);
    if (status == TV_OK)
        *out = signal_to_noise(&expected, found);
    tv_tensor_fini(&expected);
    return status;
}

static tv_status compare_node(const tv_network_session *s, void *host, uint32_t node, const tv_diag_sink *sink)
{
    uint32_t value = tv_graph_node_at(s->graph, node)->output;
    const tv_tensor *found = s->backend->tensor(s->kept, value), *expected = tv_network_host.tensor(host, value);
    tv_infer_comparison *c = &s->comparisons[node];
    *c = (tv_infer_comparison){NAN, NAN, NAN};
    if (!found || !expected)
        return TV_OK;
    compare(expected, found, c);
    return measure_own_noise(s, node, found, sink, &c->own_noise);
}

/* Runs the network again, and keeps the output of each node. */
static tv_status keep_values(tv_network_session *s, const tv_diag_sink *sink)
{
    tv_machine *machine = s->backend->machine ? s->backend->machine(s->state) : NULL;
    tv_network_options options = {.config = machine ? tv_machine_config(machine) : NULL,
                                  .threads = s->threads,
                                  .mode = TV_MODE_FULL,
                                  .allow_host_ops = s->allow_host_ops,
                                  .keep_values = true,
                                  .weight_bits = s->weight_bits,
                                  .ranges = s->calibration.ranges,
                                  .progress = s->progress};
    if (s->kept)
        s->backend->destroy(s->kept);
    s->kept = NULL;
    tv_bias_list_apply(&s->biases, s->graph, true);
    tv_status status = s->backend->create(s->graph, &options, sink, &s->kept);
    if (status == TV_OK)
        status = s->backend->run(s->kept, s->inputs, sink);
    tv_bias_list_apply(&s->biases, s->graph, false);
    return status;
}

tv_status tv_network_session_verify(tv_network_session *s, const tv_diag_sink *sink)
{
    const tv_graph *g = s->graph;
    void *host = NULL;
    if (s->timing || s->network->manifest || !s->verify)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "create it with `verify`",
                       "the session has no values to compare");
    if (!s->comparisons)
        s->comparisons = calloc(g->nodes.count + 1, sizeof *s->comparisons);
    if (!s->comparisons)
        return tv_fail_memory(sink);
    TV_TRY(keep_values(s, sink));
    tv_status status = tv_network_host.create(
        g, &(tv_network_options){.keep_values = true, .threads = s->threads, .progress = s->progress}, sink, &host);
    if (status == TV_OK)
        status = tv_network_host.run(host, s->inputs, sink);
    for (uint32_t i = 0; i < g->nodes.count && status == TV_OK; i++) {
        tv_progress_report(&s->progress, "comparing", i, g->nodes.count);
        status = compare_node(s, host, i, sink);
    }
    tv_network_host.destroy(host);
    return status;
}
