/* SPDX-License-Identifier: Apache-2.0 */
/* Plans a network for pccx: layouts of values, what the machine computes, and which values are resident in L2. */
#include <stdlib.h>

#include "graph/passes.h"
#include "lower/pccx/network_state.h"

enum { COLUMNS_MAX = 4096, NORM_MAX = 3584 };

static const tv_graph_shape *dims_of(const pccx_network *w, uint32_t v)
{
    return &tv_graph_value_at(w->graph, v)->shape;
}

static bool same_dims(const tv_graph_shape *a, const tv_graph_shape *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (i >= a->rank || i >= b->rank || a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* ---- Layouts ---- */

static tv_status find_layouts(pccx_network *w, const tv_diag_sink *sink)
{
    bool *spatial = pccx_net_find_layouts(w->graph);
    if (!spatial)
        return tv_fail_memory(sink);
    for (uint32_t v = 0; v < w->graph->values.count; v++)
        w->values[v].spatial = spatial[v];
    free(spatial);
    return TV_OK;
}

static void find_sizes(pccx_network *w)
{
    for (uint32_t i = 0; i < w->graph->values.count; i++) {
        pccx_net_value *v = &w->values[i];
        const tv_graph_value *g = tv_graph_value_at(w->graph, i);
        uint64_t elements = tv_graph_elements(w->graph, i);
        v->columns = v->spatial ? (uint32_t)g->shape.dims[1] : tv_graph_columns(w->graph, i);
        v->rows = v->columns ? (uint32_t)(elements / v->columns) : 0;
        v->words = pccx_lower_l2_size(v->columns);
        v->l2 = PCCX_LOWER_NO_BUFFER;
        v->on_machine = g->source != TV_VALUE_CONSTANT && tv_is_real_element(g->element) && elements > 0;
    }
}

/* ---- Operands ---- */

static const char *find_operand_problem(const pccx_network *w, const tv_graph_node *n)
{
    pccx_net_operand_kind a = pccx_net_operand_of(w, n, 0), b = pccx_net_operand_of(w, n, 1);
    bool full_a = a == PCCX_NET_FULL && !pccx_net_is_constant(w, n->inputs[0]),
         full_b = b == PCCX_NET_FULL && !pccx_net_is_constant(w, n->inputs[1]);
    if (a == PCCX_NET_OTHER || b == PCCX_NET_OTHER || !(full_a || full_b))
        return "instructions for operands that are repeated along inner axes";
    if (n->op == TV_OP_DIV && (!full_a || (b == PCCX_NET_ROW && !pccx_net_is_constant(w, n->inputs[1]))))
        return "such combination of operands";
    if (n->op == TV_OP_MUL && (a == PCCX_NET_FULL) != full_a && b != PCCX_NET_FULL)
        return "such combination of operands";
    return NULL;
}

/* ---- Problems ---- */

/* Channels of a product of a grouped convolution: several groups as one block of a diagonal. */
static uint32_t groups_of_set(uint32_t groups, uint32_t in, uint32_t out)
{
    enum { COLUMNS = 64 };
    for (uint32_t s = COLUMNS / in ? COLUMNS / in : 1; s > 0; s--)
        if (groups % s == 0 && s * in % PCCX_LOWER_LANES == 0 && s * out % PCCX_LOWER_LANES == 0)
            return s;
    return groups;
}

static const char *find_conv_problem(pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    pccx_net_node *own = &w->nodes[node];
    const pccx_net_value *out = &w->values[n->output];
    bool conv = n->op == TV_OP_CONV || n->op == TV_OP_CONV_TRANSPOSE;
    if (!pccx_net_window_of(w, n, &own->window))
        return "windows of three axes";
    uint32_t groups = conv ? n->attrs.groups : own->window.channels, in = own->window.channels / groups,
             outs = out->columns / groups, set_groups = groups > 1 ? groups_of_set(groups, in, outs) : 1;
    own->sets = groups / set_groups;
    own->k = set_groups * in;
    if (conv && !pccx_net_is_constant(w, n->inputs[1]))
        return "convolutions with computed weights";
    uint32_t spread = n->op == TV_OP_CONV_TRANSPOSE ? own->window.stride[1] : 1;
    return own->k > w->k_max || (uint64_t)spread * set_groups * (outs + PCCX_LOWER_LANES) > PCCX_LOWER_BLOCK_ROWS
               ? "convolutions of so many channels"
               : NULL;
}

static const char *find_pool_problem(pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const char *problem = find_conv_problem(w, node);
    const pccx_net_window *g = &w->nodes[node].window;
    if (problem)
        return problem;
    if (n->op == TV_OP_MAX_POOL) {
        w->nodes[node].sets = 1;
        return g->dilation[0] * g->dilation[1] > 1 ? "maxima of dilated windows" : NULL;
    }
    for (unsigned a = 0; a < 2; a++)
        if ((g->pad[a] && (n->attrs.mode & 3) != 1) ||
            (g->out[a] - 1) * g->stride[a] + (g->kernel[a] - 1) * g->dilation[a] + 1 > g->in[a] + 2 * g->pad[a])
            return "means of windows with padding that does not count";
    return NULL;
}

static const char *find_matmul_problem(pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const tv_graph_shape *a = dims_of(w, n->inputs[0]), *b = dims_of(w, n->inputs[1]);
    if (a->rank < 2 || b->rank < 2 || pccx_net_is_constant(w, n->inputs[0]))
        return "such products";
    uint64_t batch = 1;
    for (uint32_t i = 0; i + 2 < b->rank; i++)
        batch *= (uint64_t)b->dims[i];
    bool same = b->rank == a->rank && same_dims(a, b, a->rank - 2);
    if (batch > 1 && !same)
        return "products with repeated matrices";
    w->nodes[node].k = (uint32_t)b->dims[b->rank - 2];
    return b->dims[b->rank - 1] > PCCX_LOWER_BLOCK_ROWS ? "products of so many columns" : NULL;
}

/* Operators along the last axis. */
static const char *find_row_problem(pccx_network *w, const tv_graph_node *n)
{
    const pccx_net_value *in = &w->values[n->inputs[0]];
    if (in->spatial)
        return "instructions along the width of images";
    if (n->op == TV_OP_NORM && n->attrs.groups != 1)
        return "norms of groups";
    if (tv_graph_op_infos[n->op].class == TV_CLASS_NORM && n->op != TV_OP_SOFTMAX && in->columns > NORM_MAX)
        return "norms of more than 3584 elements";
    return n->op != TV_OP_REDUCE_SUM && n->op != TV_OP_REDUCE_MEAN && in->columns > COLUMNS_MAX
               ? "instructions for rows of more than 4096 elements"
               : NULL;
}

static const char *find_problem(pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    tv_graph_class class = tv_graph_op_infos[n->op].class;
    bool machine = w->values[n->output].on_machine;
    if (!pccx_net_keeps_layouts(w, n))
        return "such order of the axes";
    if (!machine || (!w->values[n->inputs[0]].on_machine && n->op != TV_OP_GATHER && class != TV_CLASS_BINARY &&
                     class != TV_CLASS_MOVE))
        return "instructions for integers";
    if ((class == TV_CLASS_MOVE || n->op == TV_OP_RESIZE) &&
        !(n->op == TV_OP_GATHER && pccx_net_is_constant(w, n->inputs[0])))
        return pccx_net_plan_moves(w, node);
    if (!pccx_net_emitters[n->op])
        return "such instructions";
    switch (n->op) {
    case TV_OP_GATHER:
        return dims_of(w, n->inputs[0])->rank == 2 && n->attrs.axis == 0 ? NULL : "tables of other axes";
    case TV_OP_CONV:
    case TV_OP_CONV_TRANSPOSE:
        return find_conv_problem(w, node);
    case TV_OP_MAX_POOL:
    case TV_OP_AVERAGE_POOL:
        return find_pool_problem(w, node);
    case TV_OP_MATMUL:
        return find_matmul_problem(w, node);
    case TV_OP_HARD_SIGMOID:
        return n->attrs.alpha > 0 ? NULL : "HardSigmoid with a slope that is not above 0";
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
        w->nodes[node].k = tv_graph_columns(w->graph, n->inputs[1]);
        return !pccx_net_is_constant(w, n->inputs[1]) || w->values[n->inputs[0]].spatial ? "such products" : NULL;
    case TV_OP_SOFTMAX:
    case TV_OP_NORM:
    case TV_OP_RMS_NORMALIZATION:
    case TV_OP_LAYER_NORMALIZATION:
    case TV_OP_REDUCE_MEAN:
    case TV_OP_REDUCE_SUM:
        return find_row_problem(w, n);
    default:
        return class == TV_CLASS_BINARY ? find_operand_problem(w, n) : NULL;
    }
}

/* Values that only the host reads: second operands of products, which it packs. */
static bool only_packed(const pccx_network *w, uint32_t value)
{
    uint32_t readers = 0;
    for (size_t i = 0; i < w->graph->nodes.count; i++) {
        const tv_graph_node *n = &w->graph->nodes.data[i];
        for (unsigned k = 0; k < tv_graph_input_count(n); k++)
            if (n->inputs[k] == value) {
                if (n->op != TV_OP_MATMUL || k != 1)
                    return false;
                readers++;
            }
    }
    for (size_t i = 0; i < w->graph->outputs.count; i++)
        if (w->graph->outputs.data[i].value == value)
            return false;
    return readers > 0;
}

/* ---- Concatenated channels ---- */

/* Whether a node reads a concatenation as the input of a convolution that can read its inputs in turn. */
static bool reads_slices(const pccx_network *w, uint32_t node, uint32_t value)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_node *own = &w->nodes[node];
    for (unsigned k = 1; k < tv_graph_input_count(n); k++)
        if (n->inputs[k] == value)
            return false;
    return n->inputs[0] != value || (n->op == TV_OP_CONV && !own->problem && n->attrs.groups == 1 &&
                                     own->window.stride[1] == 1 && !pccx_net_is_pointwise(w, node));
}

static bool can_be_virtual(const pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *v = &w->values[n->output], *first = &w->values[n->inputs[0]];
    if (n->op != TV_OP_CONCAT || !w->nodes[node].is_move || !v->spatial || w->l.keep_values ||
        dims_of(w, n->output)->rank - 1 - n->attrs.axis_from_end != 1 || first->columns % PCCX_LOWER_LANES)
        return false;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++) {
        uint32_t in = n->inputs[k];
        if (in == TV_NO_VALUE || pccx_net_is_constant(w, in) || !w->values[in].spatial ||
            w->values[in].columns != first->columns)
            return false;
    }
    for (size_t i = 0; i < w->graph->outputs.count; i++)
        if (w->graph->outputs.data[i].value == n->output)
            return false;
    for (uint32_t i = 0; i < w->graph->nodes.count; i++)
        if (!reads_slices(w, i, n->output))
            return false;
    return true;
}

/* Channels that are only concatenated for convolutions stay where they are: the products of each value accumulate. */
static void find_slices(pccx_network *w)
{
    for (uint32_t node = 0; node < w->graph->nodes.count; node++) {
        const tv_graph_node *n = pccx_net_graph_node(w, node);
        uint32_t count = tv_graph_input_count(n);
        if (!can_be_virtual(w, node))
            continue;
        w->nodes[node].is_virtual = true;
        for (unsigned k = 0; k < count; k++)
            if (w->last_uses[n->inputs[k]] < w->last_uses[n->output])
                w->last_uses[n->inputs[k]] = w->last_uses[n->output];
        for (uint32_t i = 0; i < w->graph->nodes.count; i++)
            if (pccx_net_graph_node(w, i)->inputs[0] == n->output) {
                w->nodes[i].slices = count;
                w->nodes[i].concat = node;
                w->nodes[i].k = w->nodes[i].window.channels / count;
            }
    }
}

/* ---- Scaled values ---- */

static bool is_product(const tv_graph_node *n)
{
    return n->op == TV_OP_GEMM || n->op == TV_OP_LINEAR || n->op == TV_OP_CONV || n->op == TV_OP_CONV_TRANSPOSE;
}
static bool has_activation(const tv_graph_node *n) { return n->op == TV_OP_LINEAR || n->op == TV_OP_CONV; }

/* Nodes that scale their output as they like, and those whose output is scaled if all their inputs are. */
static bool is_scaling(const pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    tv_activation a = n->attrs.activation;
    if (w->values[n->output].clip.scale)
        return false;
    return !w->nodes[node].problem && is_product(n) &&
           (!has_activation(n) || a == TV_ACTIVATION_NONE || a == TV_ACTIVATION_RELU || a == TV_ACTIVATION_CLIP);
}
static bool is_passing(const pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    return !w->nodes[node].problem && !w->values[n->output].clip.scale &&
           (w->nodes[node].is_move || n->op == TV_OP_MAX_POOL || n->op == TV_OP_AVERAGE_POOL);
}

/* Takes the mark of an input or of the output of a node where they do not agree; true: something changed. */
static bool agree(pccx_network *w, uint32_t node, unsigned k)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    pccx_net_value *in = &w->values[n->inputs[k]], *out = &w->values[n->output];
    bool product = is_product(n);
    if (w->nodes[node].problem || (product && k < 3) || (!in->scaled && !out->scaled))
        return false; /* the host and products read both kinds */
    bool equal = is_passing(w, node) || (product && k == 3);
    if (equal && in->scaled == out->scaled)
        return false;
    bool changed = in->scaled || (equal && out->scaled);
    in->scaled = false;
    out->scaled = out->scaled && !equal;
    return changed;
}

static void find_scaled(pccx_network *w)
{
    for (uint32_t i = 0; i < w->graph->nodes.count; i++) {
        pccx_net_value *v = &w->values[pccx_net_graph_node(w, i)->output];
        v->scaled = v->on_machine && (is_scaling(w, i) || is_passing(w, i));
    }
    for (size_t i = 0; i < w->graph->outputs.count; i++)
        w->values[w->graph->outputs.data[i].value].scaled = false;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < w->graph->nodes.count; i++)
            for (unsigned k = 0; k < tv_graph_input_count(pccx_net_graph_node(w, i)); k++)
                if (pccx_net_graph_node(w, i)->inputs[k] != TV_NO_VALUE)
                    changed = agree(w, i, k) || changed;
    }
}

tv_status pccx_net_plan(pccx_network *w, const tv_diag_sink *sink)
{
    TV_TRY(find_layouts(w, sink));
    find_sizes(w);
    for (uint32_t i = 0; i < w->graph->nodes.count; i++) {
        const tv_graph_node *n = pccx_net_graph_node(w, i);
        bool packed = tv_graph_op_infos[n->op].class == TV_CLASS_MOVE && w->values[n->output].on_machine &&
                      only_packed(w, n->output);
        const char *problem = packed ? "need of it: the host packs its result" : find_problem(w, i);
        w->nodes[i].problem = problem;
        if (packed) {
            w->values[n->output].on_machine = false;
            w->values[n->output].on_host = true;
        } else if (problem && !w->l.allow_host_ops) {
            return tv_backend_reject(w->graph, n, "pccx", problem, sink);
        }
    }
    find_slices(w);
    pccx_net_find_clips(w);
    find_scaled(w);
    return TV_OK;
}

/* ---- Residency ---- */

typedef struct lives {
    tv_buffer_life *buffers;
    uint32_t *values, count;
} lives;

static bool wants_residency(const pccx_network *w, uint32_t value)
{
    const pccx_net_value *v = &w->values[value];
    return v->on_machine && pccx_net_words(v) <= w->l2_words / 2;
}

/* L2 words that tiles of one output row take, with both halves of the scratch space. */
static uint64_t min_scratch(const pccx_network *w, uint32_t node)
{
    enum { TILES = 2, ROWS = 32 }; /* areas that compute and load; rows of a tile of operators other than windows */
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_node *own = &w->nodes[node];
    const pccx_net_window *g = &own->window;
    uint64_t in = w->values[n->inputs[0]].words, out = w->values[n->output].words;
    if (g->images == 0)
        return (in > out ? in : out) * ROWS;
    uint64_t row = (g->in[1] + 2 * (uint64_t)g->pad[1]) * in, rows = (g->kernel[0] - 1) * g->dilation[0] + g->stride[0];
    return 2 * TILES * (rows * row * (own->slices ? own->slices : 1) + g->out[1] * out * g->stride[0]);
}

/* L2 words that resident values may have while a node is executed: all but what its tiles need to load, compute and
 * store at the same time. */
static uint32_t max_resident(const pccx_network *w, uint32_t node)
{
    uint32_t words = w->l2_words - w->base;
    return min_scratch(w, node) <= words / 4 ? words / 4 * 3 : words / 2;
}

static void free_lives(lives *t)
{
    free(t->buffers);
    free(t->values);
}

/* Ends of what is resident while each node is executed. */
static void find_ends(pccx_network *w, const lives *t)
{
    for (uint32_t i = 0; i < w->graph->nodes.count; i++)
        w->resident_ends[i] = w->base;
    for (uint32_t b = 0; b < t->count; b++)
        for (uint32_t i = t->buffers[b].first; i <= t->buffers[b].last && i < w->graph->nodes.count; i++) {
            uint32_t end = w->base + (uint32_t)(t->buffers[b].offset + t->buffers[b].bytes);
            w->resident_ends[i] = end > w->resident_ends[i] ? end : w->resident_ends[i];
        }
}

/* The node whose resident values exceed what they may have by the largest number of words; UINT32_MAX: none. */
static uint32_t find_fullest(const pccx_network *w)
{
    uint32_t fullest = UINT32_MAX, excess = 0;
    for (uint32_t i = 0; i < w->graph->nodes.count; i++) {
        uint32_t resident = w->resident_ends[i] - w->base, max = max_resident(w, i);
        if (resident > max && resident - max > excess) {
            fullest = i;
            excess = resident - max;
        }
    }
    return fullest;
}

/* Packs the values of the list. While the fullest node has too little scratch space, its largest value is dropped. */
static tv_status fit_values(pccx_network *w, lives *t, const tv_diag_sink *sink)
{
    for (;;) {
        if (tv_buffers_allocate(t->buffers, t->count, 1) == UINT64_MAX)
            return tv_fail_memory(sink);
        find_ends(w, t);
        uint32_t fullest = find_fullest(w), max = t->count;
        if (fullest == UINT32_MAX)
            return TV_OK;
        for (uint32_t b = 0; b < t->count; b++)
            if (t->buffers[b].first <= fullest && t->buffers[b].last >= fullest &&
                (max == t->count || t->buffers[b].bytes > t->buffers[max].bytes))
                max = b;
        t->count--; /* the order stays: buffers are packed in the order of their first nodes */
        memmove(&t->buffers[max], &t->buffers[max + 1], (t->count - max) * sizeof *t->buffers);
        memmove(&t->values[max], &t->values[max + 1], (t->count - max) * sizeof *t->values);
    }
}

tv_status pccx_net_allocate(pccx_network *w, const tv_diag_sink *sink)
{
    size_t count = w->graph->values.count + 1;
    lives t = {.buffers = malloc(count * sizeof *t.buffers), .values = malloc(count * sizeof *t.values)};
    if (!t.buffers || !t.values) {
        free_lives(&t);
        return tv_fail_memory(sink);
    }
    for (uint32_t i = 0; i < w->graph->nodes.count; i++) { /* in the order of their lives */
        uint32_t value = pccx_net_graph_node(w, i)->output;
        if (w->nodes[i].is_virtual || !wants_residency(w, value))
            continue;
        t.values[t.count] = value;
        t.buffers[t.count++] =
            (tv_buffer_life){.bytes = pccx_net_words(&w->values[value]), .first = i, .last = w->last_uses[value]};
    }
    tv_status status = fit_values(w, &t, sink);
    for (uint32_t b = 0; b < t.count && status == TV_OK; b++)
        w->values[t.values[b]].l2 = w->base + (uint32_t)t.buffers[b].offset;
    free_lives(&t);
    return status;
}
