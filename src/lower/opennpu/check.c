/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine can do with each node of a graph, and the order of the columns of queries and keys. */
#include "lower/opennpu/layout.h"

enum { HEAD_MAX = 256, CONTEXT_MAX = 65536, COLUMNS_MAX = 131072 };

/* ---- Order of columns ---- */

uint32_t opennpu_lower_rope_lane(const opennpu_lower_model *m, uint32_t head, uint32_t i)
{
    uint32_t half = m->head_dim / 2, pair = head * half + i % half, in = m->k / 2;
    return pair / in * m->k + pair % in + (i < half ? 0 : in);
}

/* Element of a head that is the first or second of pair `pair`. Elements that are not rotated are pairs of neighbours
 * after the others. */
static uint32_t element_of_pair(const opennpu_lower_order *order, uint32_t pair, bool second)
{
    uint32_t half = order->rotary_dim / 2;
    if (order->interleaved || pair >= half)
        return 2 * pair + second;
    return pair + (second ? half : 0);
}

int64_t opennpu_lower_source_column(const opennpu_lower_model *m, const opennpu_lower_order *order, uint32_t columns,
                                    uint32_t lane)
{
    uint32_t in = m->k / 2, half = m->head_dim / 2;
    if (!order->heads)
        return lane < columns ? (int64_t)lane : -1;
    uint32_t pair = lane / m->k * in + lane % in;
    if (pair >= columns / 2)
        return -1;
    return (int64_t)(pair / half * m->head_dim) + element_of_pair(order, pair % half, lane % m->k >= in);
}

/* ---- Orders ---- */

const tv_graph_node *opennpu_lower_producer(const tv_graph *graph, uint32_t value)
{
    const tv_graph_value *v = tv_graph_value_at(graph, value);
    return v->source == TV_VALUE_COMPUTED ? tv_graph_node_at(graph, v->producer) : NULL;
}

/* The producer of a value that has one reader, and is neither the end of a layer nor the result; or NULL.
 * Those that the host computes do not count. */
static const tv_graph_node *sole_producer(const opennpu_lower_model *m, uint32_t value)
{
    const tv_graph *g = m->graph;
    bool kept = tv_graph_uses(g, value) != 1;
    for (uint32_t i = 0; i < g->layers; i++)
        kept = kept || g->layer_outputs[i] == value;
    const tv_graph_node *n = kept ? NULL : opennpu_lower_producer(g, value);
    return n && opennpu_lower_node_of(m, n)->on_host ? NULL : n;
}

static bool is_bare_product(const tv_graph_node *n)
{
    return n && n->op == TV_OP_LINEAR && n->inputs[3] == TV_NO_VALUE && n->attrs.activation == TV_ACTIVATION_NONE;
}

/* Heads that are normalized in the order of pairs: whole heads in a chunk, or whole chunks in a head. */
static bool is_head_norm(const opennpu_lower_model *m, const tv_graph_node *n, uint32_t heads)
{
    return n && n->op == TV_OP_NORM && n->attrs.groups == heads && !n->attrs.subtract_mean &&
           n->inputs[2] == TV_NO_VALUE && (m->k % m->head_dim == 0 || m->head_dim % m->k == 0);
}

/* Gives queries or keys, and what they are computed from, the order of pairs. False: they do not come from a product,
 * or something else reads them. */
static bool set_order(opennpu_lower_model *m, uint32_t value, uint32_t heads)
{
    const tv_graph_node *n = sole_producer(m, value);
    opennpu_lower_order order = {heads, m->head_dim, false};
    if (n && n->op == TV_OP_ROTARY_EMBEDDING) {
        order = (opennpu_lower_order){heads, n->attrs.rotary_dim, n->attrs.interleaved};
        m->values[value].order = order;
        value = n->inputs[0];
        n = sole_producer(m, value);
    }
    m->values[value].order = order;
    if (is_head_norm(m, n, heads)) {
        value = n->inputs[0];
        m->values[value].order = order;
        n = sole_producer(m, value);
    }
    return is_bare_product(n);
}

/* Values come from a product or from a norm, which scale them for the cache. */
static bool is_values(const opennpu_lower_model *m, uint32_t value)
{
    const tv_graph_node *n = sole_producer(m, value);
    return is_bare_product(n) || (n && n->op == TV_OP_NORM);
}

static bool same_angles(const tv_graph_node *a, const tv_graph_node *b)
{
    return a->inputs[1] == b->inputs[1] && a->attrs.theta == b->attrs.theta &&
           a->attrs.frequency_scale == b->attrs.frequency_scale && a->attrs.rotary_dim == b->attrs.rotary_dim;
}

/* Index of the tables of a rotation; OPENNPU_LOWER_NONE when there are too many. */
static uint32_t find_angles(opennpu_lower_model *m, const tv_graph_node *rope)
{
    uint32_t i = 0;
    while (i < m->angle_count && !same_angles(tv_graph_node_at(m->graph, m->angles[i].node), rope))
        i++;
    if (i == OPENNPU_LOWER_ANGLES_MAX)
        return OPENNPU_LOWER_NONE;
    if (i == m->angle_count)
        m->angles[m->angle_count++].node = (uint32_t)(rope - m->graph->nodes.data);
    return i;
}

/* ---- Operands ---- */

opennpu_lower_repetition opennpu_lower_repetition_of(const tv_graph *graph, const tv_graph_node *n, unsigned input)
{
    uint64_t all = tv_graph_elements(graph, n->output), own = tv_graph_elements(graph, n->inputs[input]);
    const tv_graph_shape *out = &tv_graph_value_at(graph, n->output)->shape,
                         *in = &tv_graph_value_at(graph, n->inputs[input])->shape;
    if (own < all && own > 1 && in->rank == out->rank && in->dims[in->rank - 1] == 1)
        return (opennpu_lower_repetition){all / own, own};
    return (opennpu_lower_repetition){1, own};
}

/* ---- Checks ---- */

static const char *check_sizes(opennpu_lower_model *m, const tv_graph_node *n)
{
    const tv_graph_cache *c = &m->graph->caches.data[n->attrs.cache];
    if (!m->heads) {
        m->heads = n->attrs.heads;
        m->kv_heads = c->heads;
        m->head_dim = c->key_dim;
    }
    bool same = n->attrs.heads == m->heads && c->heads == m->kv_heads && c->key_dim == m->head_dim &&
                c->value_dim == m->head_dim;
    return same && m->head_dim % 2 == 0 && m->head_dim <= HEAD_MAX
               ? NULL
               : "instructions for odd heads, over 256 elements, or of different sizes";
}

static const char *check_attention(opennpu_lower_model *m, const tv_graph_node *n)
{
    const tv_graph_node *q = opennpu_lower_producer(m->graph, n->inputs[0]), *k;
    opennpu_lower_node *own = opennpu_lower_node_of(m, n);
    const char *problem = check_sizes(m, n);
    if (problem)
        return problem;
    if (!set_order(m, n->inputs[0], m->heads))
        return "way to reorder queries that are no product";
    own->angles = OPENNPU_LOWER_NONE;
    if (q->op == TV_OP_ROTARY_EMBEDDING && (own->angles = find_angles(m, q)) == OPENNPU_LOWER_NONE)
        return "more than four different rotations";
    if (n->inputs[1] == TV_NO_VALUE)
        return NULL;
    if (!set_order(m, n->inputs[1], m->kv_heads) || !is_values(m, n->inputs[2]))
        return "way to reorder keys or values that are no product";
    k = opennpu_lower_producer(m->graph, n->inputs[1]);
    bool rotated = k->op == TV_OP_ROTARY_EMBEDDING;
    if (rotated != (own->angles != OPENNPU_LOWER_NONE) || (rotated && !same_angles(q, k)))
        return "different rotations of queries and keys";
    return NULL;
}

/* A rotation happens where Attention reads queries and keys, and nowhere else. */
static const char *check_rotation(const opennpu_lower_model *m, const tv_graph_node *rope)
{
    for (size_t i = 0; i < m->graph->nodes.count; i++) {
        const tv_graph_node *n = &m->graph->nodes.data[i];
        for (unsigned k = 0; k < tv_graph_input_count(n); k++)
            if (n->inputs[k] == rope->output && (n->op != TV_OP_ATTENTION || k > 1))
                return "rotation outside of attention";
    }
    return NULL;
}

/* The experts' products are sums of 32 bits too. */
static const char *check_experts(const opennpu_lower_model *m, const tv_graph_node *n)
{
    const tv_graph *g = m->graph;
    if (tv_graph_elements(g, n->inputs[0]) != tv_graph_columns(g, n->inputs[0]))
        return "experts of several vectors for each token";
    return tv_graph_matrix(g, n->inputs[4])->columns > COLUMNS_MAX ? "32-bit sums of so many columns" : NULL;
}

/* At most one operand is repeated, and is computed; constants are repeated when they are uploaded. */
static const char *check_operands(const opennpu_lower_model *m, const tv_graph_node *n)
{
    uint64_t all = tv_graph_elements(m->graph, n->output);
    unsigned repeated = 0;
    for (unsigned k = 0; k < 2; k++) {
        uint64_t own = tv_graph_elements(m->graph, n->inputs[k]);
        bool constant = tv_graph_value_at(m->graph, n->inputs[k])->source == TV_VALUE_CONSTANT;
        repeated += !constant && own > 1 && own < all;
        if (!constant && tv_graph_value_at(m->graph, n->inputs[k])->source != TV_VALUE_COMPUTED)
            return "arithmetic of indices";
    }
    return repeated > 1 ? "two repeated operands" : NULL;
}

static const char *find_problem(opennpu_lower_model *m, const tv_graph_node *n)
{
    uint64_t columns = tv_graph_elements(m->graph, n->output);
    if (!m->has_operator(n->op))
        return "such instructions";
    if (!m->values[n->output].token_major && columns > COLUMNS_MAX)
        return "32-bit sums of so many columns";
    if (n->op == TV_OP_ADD || n->op == TV_OP_SUB || n->op == TV_OP_MUL || n->op == TV_OP_DIV)
        return check_operands(m, n);
    if ((n->op == TV_OP_LINEAR || n->op == TV_OP_GLU) &&
        tv_graph_elements(m->graph, n->inputs[0]) != tv_graph_columns(m->graph, n->inputs[0]))
        return "products of several vectors for each token";
    if (n->op == TV_OP_ROTARY_EMBEDDING)
        return check_rotation(m, n);
    if (n->op == TV_OP_MOE)
        return check_experts(m, n);
    return n->op == TV_OP_ATTENTION ? check_attention(m, n) : NULL;
}

/* True when batches can compute the node row by row: elementwise, with one computed operand as wide as the logits. */
static bool is_row_operator(const tv_graph *g, const tv_graph_node *n)
{
    unsigned computed = 0;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        computed += tv_graph_value_at(g, n->inputs[k])->source == TV_VALUE_COMPUTED;
    return n->op >= TV_OP_ADD && n->op <= TV_OP_SQRT && computed == 1;
}

/* Follows the logits back to the product that they come from. */
static tv_status find_classifier(opennpu_lower_model *m, const tv_diag_sink *sink)
{
    const tv_graph *g = m->graph;
    uint32_t value = g->logits;
    const tv_graph_node *n = tv_graph_uses(g, value) == 1 ? opennpu_lower_producer(g, value) : NULL;
    while (n && is_row_operator(g, n)) {
        m->values[value].token_major = true;
        unsigned k = tv_graph_value_at(g, n->inputs[0])->source == TV_VALUE_COMPUTED ? 0 : 1;
        value = n->inputs[k];
        n = tv_graph_uses(g, value) == 1 ? opennpu_lower_producer(g, value) : NULL;
    }
    if (!n || n->op != TV_OP_LINEAR || n->inputs[3] != TV_NO_VALUE ||
        tv_graph_elements(g, value) != tv_graph_vocabulary(g))
        return tv_backend_reject(g, opennpu_lower_producer(g, g->logits), "opennpu",
                                 "way to compute logits that are no product", sink);
    m->values[value].token_major = true;
    m->classifier = (uint32_t)(n - g->nodes.data);
    return TV_OK;
}

tv_status opennpu_lower_check(opennpu_lower_model *m, const tv_diag_sink *sink)
{
    TV_TRY(find_classifier(m, sink));
    for (size_t i = 0; i < m->graph->nodes.count; i++) {
        const tv_graph_node *n = &m->graph->nodes.data[i];
        const char *problem = find_problem(m, n);
        m->nodes[i].on_host =
            problem && m->allow_host_ops && tv_host_node_possible(n) && !m->values[n->output].token_major;
        if (problem && !m->nodes[i].on_host)
            return tv_backend_reject(m->graph, n, "opennpu", problem, sink);
    }
    /* 32-bit integer sums: probabilities up to 32000 over the positions, 128 * 127 over the columns, 32512 * 127 over a
     * head */
    if (m->context > CONTEXT_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "a smaller --context may help",
                       "%u positions overflow 32-bit sums", m->context);
    return TV_OK;
}
