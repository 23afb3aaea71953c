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

#define LOG2E 1.4426950408889634

/* ---- Uses ---- */

bool opennpu_lower_is_product(const opennpu_lower_model *m, const tv_graph_node *n)
{
    return (n->op == TV_OP_LINEAR || n->op == TV_OP_GLU) && !opennpu_lower_node_of(m, n)->on_host;
}

static void find_uses(opennpu_lower_model *m)
{
    const tv_graph *g = m->graph;
    for (size_t i = 0; i < g->nodes.count; i++)
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
            const tv_graph_node *n = &g->nodes.data[i];
            if (n->inputs[k] == TV_NO_VALUE)
                continue;
            if (k == 0 && (opennpu_lower_is_product(m, n) || n->op == TV_OP_MOE))
                m->values[n->inputs[k]].packed = true;
            else
                m->values[n->inputs[k]].stored = true;
        }
    for (size_t i = 0; i < g->nodes.count; i++) { /* only a simple norm is packed while it is computed */
        const tv_graph_node *n = &g->nodes.data[i];
        if (n->op == TV_OP_NORM && (n->attrs.subtract_mean || n->inputs[2] != TV_NO_VALUE || n->attrs.groups > 1 ||
                                    tv_graph_elements(g, n->output) != tv_graph_columns(g, n->output)))
            m->values[n->output].stored = true;
        if (m->nodes[i].on_host)
            m->values[n->output].stored = true;
    }
    for (uint32_t i = 0; i < g->layers; i++)
        m->values[g->layer_outputs[i]].stored = true;
}

/* ---- Units ---- */

static float range_of(const opennpu_lower_model *m, uint32_t value)
{
    float range = m->ranges ? m->ranges[value] : 1;
    return range > 0 ? range : 1;
}

/* The value that a rotation reads, which happens where queries and keys are used. */
static uint32_t before_rotation(const opennpu_lower_model *m, uint32_t value)
{
    const tv_graph_node *n = opennpu_lower_producer(m->graph, value);
    return n->op == TV_OP_ROTARY_EMBEDDING ? n->inputs[0] : value;
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
    opennpu_lower_value *out = &m->values[n->output];
    opennpu_lower_node *own = opennpu_lower_node_of(m, n);
    out->pack_unit = c->v_unit / 256;
    out->unit = out->stored ? 1 : out->pack_unit;
    own->out_scale = tv_f32_bits(c->v_unit / out->unit);
    double scale = (double)m->values[q].unit * (double)c->k_unit * (double)n->attrs.scale;
    if (n->attrs.soft_cap > 0) {
        own->cap_scale = tv_f32_bits((float)(scale / (double)n->attrs.soft_cap));
        scale = (double)n->attrs.soft_cap / OPENNPU_LOWER_CAPPED_ONE;
    }
    own->score_scale = tv_f32_bits((float)(scale * LOG2E));
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
    return n->op == TV_OP_LINEAR && opennpu_lower_is_product(m, n) && n->inputs[3] == TV_NO_VALUE &&
           !m->values[n->output].token_major;
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
        if (!opennpu_lower_is_product(m, n))
            continue;
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

/* The products of each expert. False: no memory. */
static bool group_experts(opennpu_lower_model *m, const tv_graph_node *n)
{
    uint32_t count = tv_graph_matrix(m->graph, n->inputs[2])->count;
    opennpu_lower_node *own = opennpu_lower_node_of(m, n);
    own->experts = calloc(count, sizeof *own->experts);
    for (uint32_t x = 0; x < count && own->experts; x++) {
        opennpu_lower_linear *in = &own->experts[x].in, *down = &own->experts[x].down;
        in->expert = down->expert = x;
        in->columns = opennpu_lower_columns(m, n->inputs[0]);
        down->columns = tv_graph_matrix(m->graph, n->inputs[2])->rows;
        add_product(in, n, 2, TV_NO_VALUE);
        add_product(in, n, 3, TV_NO_VALUE);
        add_product(down, n, 4, TV_NO_VALUE);
    }
    return own->experts != NULL;
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

/* True when a norm or a sum ends within a vector. */
static bool has_partial_vectors(const opennpu_lower_model *m)
{
    for (size_t i = 0; i < m->graph->nodes.count; i++) {
        const tv_graph_node *n = &m->graph->nodes.data[i];
        uint32_t columns = tv_graph_columns(m->graph, n->inputs[0]);
        if ((n->op == TV_OP_NORM && columns / n->attrs.groups % m->k) ||
            (n->op >= TV_OP_REDUCE_MEAN && n->op <= TV_OP_SOFTMAX && columns % m->k))
            return true;
    }
    return false;
}

static void allocate_constants(opennpu_lower_model *m)
{
    const tv_graph *g = m->graph;
    uint64_t vector = opennpu_lower_vector_bytes(m);
    for (unsigned c = 0; c < 3; c++)
        m->e.masks[c] = allocate(m, (uint64_t)(m->k + 2 * m->e.period) << c);
    if (has_partial_vectors(m))
        m->lane_mask = allocate(m, 2 * vector);
    m->score_limits = allocate(m, 2 * vector);
    m->causal_mask = allocate(m, 2 * vector);
    m->head_masks = allocate(m, m->k * vector);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(g, i);
        opennpu_lower_node *own = &m->nodes[i];
        uint32_t columns = opennpu_lower_columns(m, n->output);
        if (own->on_host)
            continue;
        allocate_linear(m, &own->linear);
        if (n->op == TV_OP_MOE)
            for (uint32_t x = 0; x < tv_graph_matrix(g, n->inputs[2])->count; x++) {
                allocate_linear(m, &own->experts[x].in);
                allocate_linear(m, &own->experts[x].down);
            }
        if (n->op == TV_OP_NORM)
            own->gains = allocate_vectors(m, columns);
        if (n->op == TV_OP_NORM && n->inputs[2] != TV_NO_VALUE)
            own->bias = allocate_vectors(m, columns);
        for (unsigned k = 0; k < 2 && n->op >= TV_OP_ADD && n->op <= TV_OP_DIV; k++)
            if (tv_graph_value_at(g, n->inputs[k])->source == TV_VALUE_CONSTANT)
                own->constants[k] = allocate_vectors(m, tv_graph_elements(g, n->inputs[k]) == 1 ? 1 : columns);
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

static void allocate_packs(opennpu_lower_model *m, opennpu_lower_input *input, uint32_t node, uint32_t last,
                           pack_memory_list *packs)
{
    size_t i = 0;
    while (i < packs->count && (packs->data[i].packs.columns != input->columns || packs->data[i].last >= node))
        i++;
    if (i == packs->count) {
        input->at = allocate(m, opennpu_lower_input_bytes(&m->e, input->columns));
        (void)TV_VEC_PUSH(packs, (struct pack_memory){*input, last});
        return;
    }
    packs->data[i].last = last;
    *input = packs->data[i].packs;
}

/* What the experts of a node share. */
static void add_experts(opennpu_lower_model *m, uint32_t node, pool *single, pool *batch, pack_memory_list *packs)
{
    opennpu_lower_node *own = &m->nodes[node];
    const opennpu_lower_expert *x = &own->experts[0];
    uint64_t vector = opennpu_lower_vector_bytes(m), hidden = (uint64_t)x->in.blocks / 2 * vector,
             product = x->down.blocks * vector;
    opennpu_lower_moe *moe[] = {&own->moe, &own->batch_moe};
    for (unsigned i = 0; i < 2; i++) {
        pool *p = i ? batch : single;
        add_buffer(p, hidden * (i ? m->k : 1), node, node, &moe[i]->gate);
        add_buffer(p, hidden * (i ? m->k : 1), node, node, &moe[i]->up);
        add_buffer(p, product * (i ? m->k : 1), node, node, &moe[i]->product);
        add_buffer(p, vector, node, node, &moe[i]->unit);
    }
    own->hidden_packs.columns = x->down.columns;
    allocate_packs(m, &own->hidden_packs, node, node, packs);
    add_buffer(batch, hidden / vector * m->k * 2 * m->k, node, node, &own->hidden_planes);
    add_buffer(batch, tv_graph_matrix(m->graph, tv_graph_node_at(m->graph, node)->inputs[2])->count * vector, node,
               node, &own->factors);
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
    if (n->op == TV_OP_ROTARY_EMBEDDING && !m->nodes[node].on_host) /* where it is read */
        return;
    if (!direct)
        add_buffer(single, (chunks + 1) * vector, first, last, &v->at);
    if (!direct && !v->token_major && (n->op != TV_OP_ATTENTION || v->stored))
        add_buffer(batch, chunks * m->k * vector, first, last, &v->batch);
    if (v->packed) {
        v->packs.columns = columns;
        allocate_packs(m, &v->packs, node, last, packs);
        add_buffer(batch, chunks * m->k * 2 * m->k, node, last, &v->planes);
    }
    if (n->op == TV_OP_MOE)
        add_experts(m, node, single, batch, packs);
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
    enum { BUFFERS_PER_NODE = 8 };
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
    m->position_blocks = opennpu_lower_chunks(m, m->context);
    m->kv_chunks = opennpu_lower_chunks(m, m->kv_heads * m->head_dim);
    m->v_stride = m->kv_chunks * m->k;
    m->rope_period = m->head_dim ? m->head_dim / 2 / (uint32_t)tv_gcd_u64(m->head_dim / 2, m->k / 2) : 1;
    group_products(m);
    for (size_t i = 0; i < m->graph->nodes.count; i++)
        if (m->graph->nodes.data[i].op == TV_OP_MOE && !group_experts(m, &m->graph->nodes.data[i]))
            return tv_fail_memory(sink);
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
