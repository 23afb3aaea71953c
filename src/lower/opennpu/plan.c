/* SPDX-License-Identifier: Apache-2.0 */
/* Plans a graph for OpenNPU: orders of columns, units, groups of products, and addresses in data memory.
 *
 * The machine multiplies outer products of K lanes, so the weights of a linear are stored in blocks of K rows, column
 * by column: one load gives the K bytes that one MMA takes. A row's scale is applied after the sum. Rows are permuted
 * here, once, where later instructions need another order of lanes, so that programs contain no shuffles. Addresses are
 * decided here and nowhere else. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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

/* ---- Uses and orders ---- */

static bool is_product(const tv_graph_node *n) { return n->op == TV_OP_LINEAR || n->op == TV_OP_GLU; }

static void find_uses(opennpu_lower_model *m)
{
    const tv_graph *g = m->graph;
    for (size_t i = 0; i < g->nodes.count; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
            const tv_graph_node *n = &g->nodes.data[i];
            if (n->inputs[k] == TV_NO_VALUE)
                continue;
            if (is_product(n) && k == 0)
                m->values[n->inputs[k]].packed = true;
            else
                m->values[n->inputs[k]].stored = true;
        }
    for (uint32_t i = 0; i < g->layers; i++)
        m->values[g->layer_outputs[i]].stored = true;
}

static const tv_graph_node *producer_of(const opennpu_lower_model *m, uint32_t value)
{
    const tv_graph_value *v = tv_graph_value_at(m->graph, value);
    return v->source == TV_VALUE_COMPUTED ? tv_graph_node_at(m->graph, v->producer) : NULL;
}

/* Skips the rotation, which happens where queries and keys are used. */
static uint32_t before_rotation(const opennpu_lower_model *m, uint32_t value)
{
    const tv_graph_node *n = producer_of(m, value);
    return n && n->op == TV_OP_ROTARY_EMBEDDING ? n->inputs[0] : value;
}

/* Gives queries or keys, and what they are computed from, the order of pairs. False: they do not come from a product.
 */
static bool set_order(opennpu_lower_model *m, uint32_t value, uint32_t heads)
{
    const tv_graph_node *n = producer_of(m, value);
    opennpu_lower_order order = {heads, m->head_dim, false};
    if (n && n->op == TV_OP_ROTARY_EMBEDDING)
        order = (opennpu_lower_order){heads, n->attrs.rotary_dim, n->attrs.interleaved};
    m->values[value].order = order;
    value = before_rotation(m, value);
    m->values[value].order = order;
    n = producer_of(m, value);
    if (n && n->op == TV_OP_NORM && n->attrs.groups == heads) {
        m->values[n->inputs[0]].order = order;
        n = producer_of(m, n->inputs[0]);
    }
    return n && n->op == TV_OP_LINEAR && n->inputs[3] == TV_NO_VALUE && n->attrs.activation == TV_ACTIVATION_NONE;
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

/* ---- Checks ---- */

static const char *check_attention(opennpu_lower_model *m, const tv_graph_node *n)
{
    const tv_graph_cache *c = &m->graph->caches.data[n->attrs.cache];
    const tv_graph_node *q = producer_of(m, n->inputs[0]);
    opennpu_lower_node *own = opennpu_lower_node_of(m, n);
    if (!m->heads) {
        m->heads = n->attrs.heads;
        m->kv_heads = c->heads;
        m->head_dim = c->key_dim;
    }
    if (n->attrs.heads != m->heads || c->heads != m->kv_heads || c->key_dim != m->head_dim ||
        c->value_dim != m->head_dim || m->head_dim % 2 || m->head_dim > HEAD_MAX)
        return "instructions for odd heads, over 256 elements, or of different sizes";
    if (n->attrs.soft_cap != 0)
        return "soft cap of scores";
    if (n->attrs.window && n->attrs.window < m->context)
        return "window of attention (a --context up to it may help)";
    if (!set_order(m, n->inputs[0], m->heads))
        return "way to reorder queries that are no product";
    own->angles = OPENNPU_LOWER_NONE;
    if (q && q->op == TV_OP_ROTARY_EMBEDDING && (own->angles = find_angles(m, q)) == OPENNPU_LOWER_NONE)
        return "more than four different rotations";
    if (n->inputs[1] == TV_NO_VALUE)
        return NULL;
    const tv_graph_node *k = producer_of(m, n->inputs[1]), *v = producer_of(m, n->inputs[2]);
    bool rotated = k && k->op == TV_OP_ROTARY_EMBEDDING;
    if (!set_order(m, n->inputs[1], m->kv_heads) || !v || v->op != TV_OP_LINEAR || v->attrs.activation)
        return "way to reorder keys or values that are no product";
    if (rotated != (own->angles != OPENNPU_LOWER_NONE) || (rotated && !same_angles(q, k)))
        return "different rotations of queries and keys";
    return NULL;
}

static const char *find_problem(opennpu_lower_model *m, const tv_graph_node *n)
{
    uint32_t columns = opennpu_lower_columns(m, n->output);
    if (n->output != m->graph->logits && columns > COLUMNS_MAX)
        return "32-bit sums of so many columns";
    if (n->op == TV_OP_MUL && tv_graph_value_at(m->graph, n->inputs[1])->source != TV_VALUE_CONSTANT)
        return "product of two computed values";
    if (n->op == TV_OP_ADD && tv_graph_value_at(m->graph, n->inputs[1])->source != TV_VALUE_COMPUTED)
        return "sum with a constant";
    if (n->op == TV_OP_NORM && (n->attrs.subtract_mean || n->inputs[2] != TV_NO_VALUE))
        return "norm that subtracts the mean";
    if (n->op == TV_OP_GLU && n->attrs.activation != TV_ACTIVATION_SWISH)
        return "such activation";
    if (n->op == TV_OP_LINEAR && n->attrs.activation)
        return "such activation";
    return n->op == TV_OP_ATTENTION ? check_attention(m, n) : NULL;
}

static tv_status check_graph(opennpu_lower_model *m, const tv_diag_sink *sink)
{
    for (size_t i = 0; i < m->graph->nodes.count; i++) {
        const char *problem = find_problem(m, &m->graph->nodes.data[i]);
        if (problem)
            return tv_backend_reject(m->graph, &m->graph->nodes.data[i], "opennpu", problem, sink);
    }
    /* 32-bit integer sums: probabilities up to 32000 over the positions, 128 * 127 over the columns, 32512 * 127 over a
     * head */
    if (m->context > CONTEXT_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "a smaller --context may help",
                       "%u positions overflow 32-bit sums", m->context);
    return TV_OK;
}

/* ---- Units ---- */

static float range_of(const opennpu_lower_model *m, uint32_t value)
{
    float range = m->ranges ? m->ranges[value] : 1;
    return range > 0 ? range : 1;
}

static void set_attention_units(opennpu_lower_model *m, const tv_graph_node *n)
{
    opennpu_lower_cache *c = &m->caches[n->attrs.cache];
    uint32_t q = before_rotation(m, n->inputs[0]);
    float absmax = range_of(m, n->inputs[0]);
    if (n->inputs[1] != TV_NO_VALUE) { /* 8 bits: little headroom */
        uint32_t k = before_rotation(m, n->inputs[1]);
        float key = range_of(m, n->inputs[1]);
        absmax = key > absmax ? key : absmax;
        m->values[k].unit = c->k_unit = key * 1.25f / 127;
        m->values[n->inputs[2]].unit = c->v_unit = range_of(m, n->inputs[2]) * 1.25f / 127;
    }
    m->values[q].unit = absmax * 2 / 32512; /* 16 bits have headroom for values not seen in the sample */
    m->values[n->output].unit = m->values[n->output].pack_unit = c->v_unit / 256;
    double exponent_scale = (double)m->values[q].unit * (double)c->k_unit * (double)n->attrs.scale * 1.4426950408889634;
    opennpu_lower_node_of(m, n)->score_scale = tv_f32_bits((float)exponent_scale);
}

void opennpu_lower_set_units(opennpu_lower_model *m)
{
    const tv_graph *g = m->graph;
    for (size_t v = 0; v < g->values.count; v++) {
        m->values[v].unit = 1;
        m->values[v].pack_unit = range_of(m, (uint32_t)v) * 2 / 32512;
    }
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        opennpu_lower_value *v = &m->values[n->output];
        if (n->op == TV_OP_ATTENTION)
            set_attention_units(m, n);
        if (n->op == TV_OP_GLU && !v->stored)
            v->unit = v->pack_unit = range_of(m, n->output) * 4 / 32512;
    }
}

/* ---- Groups of products ---- */

static bool can_join(const opennpu_lower_model *m, const tv_graph_node *n)
{
    return n->op == TV_OP_LINEAR && n->inputs[3] == TV_NO_VALUE && n->output != m->graph->logits;
}

static void add_product(opennpu_lower_linear *l, const tv_graph_node *n, unsigned input, uint32_t bias)
{
    l->matrices[l->weight_count] = n->inputs[input];
    l->outputs[l->weight_count] = n->output;
    l->biases[l->weight_count++] = bias;
}

/* Products of the same input that follow each other are one linear, which needs fewer drains of the array. */
static void group_products(opennpu_lower_model *m)
{
    const tv_graph *g = m->graph;
    opennpu_lower_linear *open = NULL;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(g, i), *before = i ? tv_graph_node_at(g, i - 1) : NULL;
        opennpu_lower_linear *own = &m->nodes[i].linear;
        if (!is_product(n))
            continue;
        if (n->output == g->logits)
            m->classifier = i;
        own->columns = opennpu_lower_columns(m, n->inputs[0]);
        if (open && can_join(m, n) && can_join(m, before) && before->inputs[0] == n->inputs[0] &&
            open->weight_count < OPENNPU_LOWER_LINEAR_WEIGHTS) {
            add_product(open, n, 1, n->inputs[2]);
            continue;
        }
        open = own;
        add_product(own, n, 1, n->op == TV_OP_GLU ? TV_NO_VALUE : n->inputs[2]);
        if (n->op == TV_OP_GLU)
            add_product(own, n, 2, TV_NO_VALUE);
    }
}

/* ---- Constants ---- */

static uint64_t allocate(opennpu_lower_model *m, uint64_t bytes)
{
    uint64_t at = m->end;
    m->end += (bytes + 255) / 256 * 256;
    return at;
}

static uint64_t allocate_vectors(opennpu_lower_model *m, uint32_t columns)
{
    return allocate(m, opennpu_lower_chunks(m, columns) * opennpu_lower_vector_bytes(m));
}

static void allocate_linear(opennpu_lower_model *m, opennpu_lower_linear *l)
{
    bool biased = false;
    if (!l->weight_count)
        return;
    for (unsigned i = 0; i < l->weight_count; i++) {
        l->blocks += opennpu_lower_chunks(m, tv_graph_matrix(m->graph, l->matrices[i])->rows);
        biased = biased || l->biases[i] != TV_NO_VALUE;
    }
    l->stream = allocate(m, (uint64_t)l->blocks * opennpu_lower_chunks(m, l->columns) * m->k * m->k);
    l->scales = allocate(m, l->blocks * opennpu_lower_vector_bytes(m));
    l->bias = biased ? allocate(m, l->blocks * opennpu_lower_vector_bytes(m)) : 0;
}

static void allocate_constants(opennpu_lower_model *m)
{
    const tv_graph *g = m->graph;
    uint64_t vector = opennpu_lower_vector_bytes(m);
    for (unsigned c = 0; c < 3; c++)
        m->e.masks[c] = allocate(m, (uint64_t)(m->k + 2 * m->e.period) << c);
    m->score_limits = allocate(m, 2 * vector);
    m->causal_mask = allocate(m, 2 * vector);
    m->head_masks = allocate(m, m->k * vector);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(g, i);
        opennpu_lower_node *own = &m->nodes[i];
        uint32_t columns = opennpu_lower_columns(m, n->output);
        allocate_linear(m, &own->linear);
        if (n->op == TV_OP_NORM || n->op == TV_OP_MUL)
            own->gains = allocate_vectors(m, columns);
        if (n->op == TV_OP_GATHER)
            own->table = allocate(m, (uint64_t)tv_graph_matrix(g, n->inputs[0])->rows *
                                         opennpu_lower_chunks(m, columns) * vector);
    }
    for (uint32_t i = 0; i < m->angle_count; i++) {
        m->angles[i].pair_cos_sin = allocate(m, (uint64_t)m->head_dim / 2 * 2 * (m->context + m->k) * 4);
        m->angles[i].cos_sin = allocate(m, (uint64_t)m->context * m->rope_period * 2 * vector);
    }
}

/* ---- Activations ---- */

/* Buffers that share memory by their lifetimes, and where their addresses go. */
typedef struct pool {
    tv_buffer_life *buffers;
    uint64_t **targets;
    uint32_t count;
} pool;

static void add_buffer(pool *p, uint64_t bytes, uint32_t first, uint32_t last, uint64_t *target)
{
    p->buffers[p->count] = (tv_buffer_life){.bytes = bytes, .first = first, .last = last};
    p->targets[p->count++] = target;
}

/* An output is written while its inputs are read; the rows of a group are written by its first node. */
static uint32_t first_writer(const opennpu_lower_model *m, uint32_t node)
{
    uint32_t first = node;
    while (first > 0 && tv_graph_node_at(m->graph, node)->op == TV_OP_LINEAR && !m->nodes[first].linear.weight_count)
        first--;
    return first;
}

/* Memory for packs. The zeros between their lanes are never written, so only packs of the same length share it. */
typedef TV_VEC(struct pack_memory {
    opennpu_lower_input packs;
    uint32_t last; /* node that reads them */
}) pack_memory_list;

static void allocate_packs(opennpu_lower_model *m, opennpu_lower_value *v, uint32_t node, uint32_t last,
                           pack_memory_list *packs)
{
    size_t i = 0;
    while (i < packs->count && (packs->data[i].packs.columns != v->packs.columns || packs->data[i].last >= node))
        i++;
    if (i == packs->count) {
        v->packs.at = allocate(m, opennpu_lower_input_bytes(&m->e, v->packs.columns));
        (void)TV_VEC_PUSH(packs, (struct pack_memory){v->packs, last});
        return;
    }
    packs->data[i].last = last;
    v->packs = packs->data[i].packs;
}

static void add_value(opennpu_lower_model *m, uint32_t node, const uint32_t *last_uses, pool *single, pool *batch,
                      pack_memory_list *packs)
{
    const tv_graph_node *n = tv_graph_node_at(m->graph, node);
    opennpu_lower_value *v = &m->values[n->output];
    uint32_t columns = opennpu_lower_columns(m, n->output), first = first_writer(m, node), last = last_uses[n->output];
    uint64_t vector = opennpu_lower_vector_bytes(m), chunks = opennpu_lower_chunks(m, columns);
    bool direct = n->op == TV_OP_NORM && !v->stored; /* goes to packs and planes at once */
    if (n->output == m->graph->logits)
        return;
    if (n->op == TV_OP_ROTARY_EMBEDDING) /* where it is read */
        return;
    if (!direct)
        add_buffer(single, (chunks + 1) * vector, first, last, &v->at);
    if (!direct && n->op != TV_OP_ATTENTION)
        add_buffer(batch, chunks * m->k * vector, first, last, &v->batch);
    if (v->packed) {
        v->packs.columns = columns;
        allocate_packs(m, v, node, last, packs);
        add_buffer(batch, chunks * m->k * 2 * m->k, node, last, &v->planes);
    }
    if (n->op == TV_OP_GLU) {
        add_buffer(single, chunks * vector, node, node, &m->nodes[node].scratch);
        add_buffer(batch, chunks * m->k * vector, node, node, &m->nodes[node].batch_scratch);
    }
}

static bool assign_pool(opennpu_lower_model *m, const pool *p)
{
    uint64_t bytes = tv_buffers_allocate(p->buffers, p->count, 256), base = allocate(m, bytes);
    for (uint32_t i = 0; i < p->count && bytes != UINT64_MAX; i++)
        *p->targets[i] = base + p->buffers[i].offset;
    return bytes != UINT64_MAX;
}

static bool allocate_values(opennpu_lower_model *m)
{
    enum { BUFFERS_PER_NODE = 4 };
    size_t capacity = (m->graph->nodes.count + 1) * BUFFERS_PER_NODE;
    uint32_t *last_uses = tv_graph_last_uses(m->graph, true);
    pool single = {malloc(capacity * sizeof *single.buffers), malloc(capacity * sizeof *single.targets), 0},
         batch = {malloc(capacity * sizeof *batch.buffers), malloc(capacity * sizeof *batch.targets), 0};
    pack_memory_list packs = {0};
    bool ok = last_uses && single.buffers && single.targets && batch.buffers && batch.targets;
    /* rotated values are read where their inputs are */
    for (size_t i = 0; i < m->graph->nodes.count && ok; i++) {
        const tv_graph_node *n = &m->graph->nodes.data[i];
        if (n->op == TV_OP_ROTARY_EMBEDDING && last_uses[n->output] > last_uses[n->inputs[0]])
            last_uses[n->inputs[0]] = last_uses[n->output];
    }
    for (uint32_t i = 0; i < m->graph->nodes.count && ok; i++)
        add_value(m, i, last_uses, &single, &batch, &packs);
    ok = ok && !packs.failed && assign_pool(m, &single) && assign_pool(m, &batch);
    TV_VEC_FINI(&packs);
    free(last_uses);
    free(single.buffers);
    free(single.targets);
    free(batch.buffers);
    free(batch.targets);
    return ok;
}

static void allocate_scratch(opennpu_lower_model *m)
{
    uint64_t vector = opennpu_lower_vector_bytes(m), planes = 2 * (uint64_t)m->k;
    uint32_t q_chunks = opennpu_lower_chunks(m, m->heads * m->head_dim);
    const opennpu_lower_linear *classifier = &m->nodes[m->classifier].linear;
    for (size_t i = 0; i < m->graph->caches.count; i++) {
        m->caches[i].keys = allocate(m, (uint64_t)m->kv_heads * m->position_blocks * m->head_dim * m->k);
        m->caches[i].values = allocate(m, (uint64_t)m->context * m->v_stride + m->k);
    }
    m->e.swap = allocate(m, 3 * vector);
    m->bytes = allocate(m, m->k);
    m->scale = allocate(m, vector);
    m->scores = allocate(m, (uint64_t)m->heads * m->position_blocks * vector);
    m->probs_scale = allocate(m, m->heads * vector);
    m->values[m->graph->logits].at = allocate(m, classifier->blocks * vector);
    m->q_packs = allocate(m, q_chunks * opennpu_lower_pack_bytes(&m->e, OPENNPU_VX));
    m->prob_packs = allocate(m, (uint64_t)m->heads * m->position_blocks * opennpu_lower_pack_bytes(&m->e, OPENNPU_VX));
    m->batch_scores = allocate(m, m->position_blocks * m->k * vector);
    m->batch_sums = allocate(m, m->k * vector);
    m->batch_max = allocate(m, vector);
    m->batch_scale = allocate(m, vector);
    m->batch_logits = allocate(m, m->k * classifier->blocks * vector);
    m->q_planes = allocate(m, q_chunks * m->k * planes);
    m->prob_planes = allocate(m, m->position_blocks * m->k * planes);
}

/* ---- Entry ---- */

tv_status opennpu_lower_plan(opennpu_lower_model *m, const tv_diag_sink *sink)
{
    enum { REACH = 4096 }; /* base registers exceed an address by less than this, and have 32 bits */
    find_uses(m);
    TV_TRY(check_graph(m, sink));
    m->position_blocks = opennpu_lower_chunks(m, m->context);
    m->kv_chunks = opennpu_lower_chunks(m, m->kv_heads * m->head_dim);
    m->v_stride = m->kv_chunks * m->k;
    m->rope_period = m->head_dim ? m->head_dim / 2 / (uint32_t)tv_gcd_u64(m->head_dim / 2, m->k / 2) : 1;
    group_products(m);
    allocate_constants(m);
    m->constants_end = m->end;
    allocate_scratch(m);
    if (!allocate_values(m))
        return tv_fail_memory(sink);
    if (m->end > UINT32_MAX - REACH)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       m->constants_end > UINT32_MAX - REACH
                           ? "the weights alone exceed it; pccx and CMDQ support larger models"
                           : "make the context smaller",
                       "the model needs %" PRIu64 " bytes of data memory; addresses of OpenNPU have 32 bits", m->end);
    if (m->end > m->limit)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make mem.bytes larger with -D, or the context smaller",
                       "the model needs %" PRIu64 " bytes of data memory; mem.bytes = %" PRIu64, m->end, m->limit);
    return TV_OK;
}
