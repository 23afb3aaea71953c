/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how each value is stored.
 *
 * Inputs of products are integers with the scale that the calibration found, keys and values 8-bit integers, everything
 * else is binary32. A value that both kinds of readers use is stored twice. With several tokens a value is a row of
 * matrices [tokens][tile]: heads are tiles, so that attention and rotation find each head in one piece; a product whose
 * input has tiles adds up one part for each. Rows that are normalized or reduced are single tiles. Values that are
 * combined element by element have the same tiles: they form a group. */
#include <math.h>
#include <stdlib.h>

#include "lower/cmdq/layout.h"
#include "num/int.h"

/* ---- Groups of values with the same tiles ---- */

static uint32_t group_of(cmdq_lower_use *uses, uint32_t value)
{
    while (uses[value].group != value)
        value = uses[value].group = uses[uses[value].group].group;
    return value;
}

static void require_tile(cmdq_lower_use *uses, uint32_t value, uint64_t tile)
{
    cmdq_lower_use *group = &uses[group_of(uses, value)];
    group->conflict = group->conflict || (group->exact && group->exact != tile);
    group->exact = (uint32_t)tile;
}

static void require_divisor(cmdq_lower_use *uses, uint32_t value, uint64_t multiple)
{
    cmdq_lower_use *group = &uses[group_of(uses, value)];
    group->divisor = (uint32_t)tv_gcd_u64(group->divisor, multiple);
}

static void join_groups(const cmdq_lowering *l, cmdq_lower_use *uses, uint32_t a, uint32_t b)
{
    if (!cmdq_lower_is_computed(l, a) || l->streamed[a] || l->streamed[b])
        return;
    a = group_of(uses, a);
    b = group_of(uses, b);
    if (a == b)
        return;
    uses[b].group = a;
    if (uses[b].exact)
        require_tile(uses, a, uses[b].exact);
    require_divisor(uses, a, uses[b].divisor);
    uses[a].conflict = uses[a].conflict || uses[b].conflict;
}

/* ---- Readers of a value ---- */

static void note_reader(const cmdq_lowering *l, const tv_graph_node *n, unsigned input, cmdq_lower_use *use)
{
    bool product = input == 0 && (n->op == TV_OP_LINEAR || n->op == TV_OP_GLU || n->op == TV_OP_MOE);
    if (l->on_host[cmdq_lower_node_index(l, n)])
        use->other = true;
    else if (product)
        use->product = true;
    else if (n->op == TV_OP_ATTENTION)
        *(input == 0 ? &use->query : &use->cached) = true;
    else
        use->other = true;
}

static uint64_t width_of(const cmdq_lowering *l, uint32_t value) { return tv_graph_elements(l->graph, value); }

static void require_rows(const cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_use *uses)
{
    uint32_t columns = tv_graph_columns(l->graph, n->inputs[0]);
    switch (n->op) {
    case TV_OP_NORM:
        require_tile(uses, n->output, tv_graph_columns(l->graph, n->output) / n->attrs.groups);
        break;
    case TV_OP_SOFTMAX:
        require_tile(uses, n->output, columns);
        break;
    case TV_OP_ROTARY_EMBEDDING:
        require_tile(uses, n->output, width_of(l, n->output) / n->attrs.heads);
        break;
    case TV_OP_REDUCE_MEAN:
    case TV_OP_REDUCE_SUM:
        require_tile(uses, n->inputs[0], columns);
        require_tile(uses, n->output, 1);
        break;
    case TV_OP_TRANSPOSE:
        require_tile(uses, n->inputs[0], (uint64_t)columns * tv_graph_columns(l->graph, n->output));
        require_tile(uses, n->output, (uint64_t)columns * tv_graph_columns(l->graph, n->output));
        break;
    case TV_OP_SLICE:
        require_divisor(uses, n->inputs[0], columns);
        require_divisor(uses, n->inputs[0], n->attrs.start);
        require_divisor(uses, n->inputs[0], n->attrs.end);
        break;
    case TV_OP_CONCAT:
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (n->inputs[k] != TV_NO_VALUE)
                require_divisor(uses, n->output, tv_graph_columns(l->graph, n->inputs[k]));
        break;
    default: /* any tiles */
        break;
    }
}

static void require_products(const cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_use *uses)
{
    switch (n->op) {
    case TV_OP_LINEAR:
        if (cmdq_lower_vectors(l, n->output) > 1) {
            require_tile(uses, n->inputs[0], tv_graph_columns(l->graph, n->inputs[0]));
            require_tile(uses, n->output, tv_graph_columns(l->graph, n->output));
        }
        break;
    case TV_OP_GLU:
        uses[n->output].conflict = uses[n->output].conflict || cmdq_lower_vectors(l, n->output) > 1;
        break;
    case TV_OP_ATTENTION:
        require_tile(uses, n->inputs[0], width_of(l, n->inputs[0]) / n->attrs.heads);
        require_tile(uses, n->output, width_of(l, n->output) / n->attrs.heads);
        for (unsigned k = 1; k < 3 && n->inputs[k] != TV_NO_VALUE; k++)
            require_tile(uses, n->inputs[k], l->graph->caches.data[n->attrs.cache].key_dim);
        break;
    case TV_OP_MOE:
        require_tile(uses, n->inputs[0], width_of(l, n->inputs[0]));
        require_tile(uses, n->output, width_of(l, n->output));
        break;
    case TV_OP_MATMUL: /* one token at a time */
        uses[n->output].conflict = true;
        break;
    default: /* any tiles */
        break;
    }
}

/* Operands that are repeated along the last axis have one element for each tile of the output. */
static void require_operands(const cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_use *uses)
{
    for (unsigned k = 0; k < 2; k++) {
        uint32_t v = n->inputs[k];
        if (v == TV_NO_VALUE || l->streamed[n->output])
            continue;
        if (cmdq_lower_is_constant(l, v)) {
            if (width_of(l, v) > 1 && width_of(l, v) < width_of(l, n->output))
                require_divisor(uses, n->output, width_of(l, v));
            continue;
        }
        cmdq_lower_repeat repeat = cmdq_lower_repeat_of(l, n, k);
        if (repeat == CMDQ_REPEAT_NONE)
            join_groups(l, uses, v, n->output);
        else if (repeat == CMDQ_REPEAT_COLUMN && width_of(l, v) > 1)
            require_tile(uses, n->output, width_of(l, n->output) / width_of(l, v));
        if (repeat == CMDQ_REPEAT_COLUMN)
            require_tile(uses, v, 1);
        else if (repeat == CMDQ_REPEAT_ROW)
            uses[n->output].conflict = true;
    }
}

static void require_tiles(const cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_use *uses)
{
    switch (n->op) {
    case TV_OP_NORM:
    case TV_OP_SOFTMAX:
    case TV_OP_ROTARY_EMBEDDING:
    case TV_OP_RESHAPE:
    case TV_OP_SLICE:
    case TV_OP_CONCAT:
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && (k == 0 || n->op == TV_OP_CONCAT); k++)
            if (n->inputs[k] != TV_NO_VALUE)
                join_groups(l, uses, n->inputs[k], n->output);
        break;
    case TV_OP_LINEAR:
        if (n->inputs[3] != TV_NO_VALUE)
            join_groups(l, uses, n->inputs[3], n->output);
        break;
    default:
        if (cmdq_lower_is_pointwise(n->op))
            require_operands(l, n, uses);
        break;
    }
    require_rows(l, n, uses);
    require_products(l, n, uses);
}

cmdq_lower_use *cmdq_lower_find_uses(const cmdq_lowering *l)
{
    const tv_graph *g = l->graph;
    cmdq_lower_use *uses = calloc(g->values.count + 1, sizeof *uses);
    for (uint32_t v = 0; v < g->values.count && uses; v++)
        uses[v].group = v;
    for (size_t i = 0; i < g->nodes.count && uses; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
            if (cmdq_lower_is_computed(l, n->inputs[k]))
                note_reader(l, n, k, &uses[n->inputs[k]]);
        if (!l->on_host[i])
            require_tiles(l, n, uses);
    }
    if (uses)
        uses[g->logits].other = true;
    for (uint32_t v = 0; v < g->values.count && uses; v++) {
        uint32_t group = group_of(uses, v);
        uses[v].group = group;
        uses[group].conflict = uses[group].conflict || uses[v].conflict;
        uses[group].narrow = uses[group].narrow || uses[v].product;
    }
    return uses;
}

/* ---- Formats ---- */

/* Larger values than those of the sample get a margin; beyond it they saturate. */
static float choose_scale(const cmdq_lowering *l, uint32_t value)
{
    static const float MARGIN = 1.25f;
    float scale = l->ranges ? l->ranges[value] * MARGIN / (float)TV_INT_MAX(8) : 1;
    return isnormal(scale) ? scale : 1; /* zeros, subnormals and non-finite values have no scale */
}

/* A power of 2 that keeps values in the range of binary16, whose absmax is 65,504. */
static float choose_float_scale(const cmdq_lowering *l, uint32_t value)
{
    static const float LARGE = 16384;
    int exponent = 0;
    if (!l->ranges || !(l->ranges[value] > LARGE) || !isfinite(l->ranges[value]))
        return 1;
    frexpf(l->ranges[value] / LARGE, &exponent);
    return ldexpf(1, exponent);
}

static cmdq_lower_format narrow_format(const cmdq_lowering *l, uint32_t value, const cmdq_lower_use *use)
{
    if (use->cached || l->activation_bits == 8)
        return (cmdq_lower_format){CMDQ_LOWER_NONE, 8, choose_scale(l, value), 0, 0};
    return (cmdq_lower_format){CMDQ_LOWER_NONE, l->activation_bits, choose_float_scale(l, value), 0, 0};
}

static uint32_t choose_tile(const cmdq_lowering *l, const cmdq_lower_plan *plan, const cmdq_lower_use *group,
                            uint32_t value)
{
    uint64_t width = width_of(l, value), tile = group->exact ? group->exact : group->divisor;
    if (!tile)
        tile = group->narrow ? plan->hidden_tile : width;
    return (uint32_t)tv_min_u64(tile, width);
}

/* True when the output of a node is in the buffer of its first input. */
static bool is_view(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    const cmdq_lower_format *in = &plan->formats[n->inputs[0]], *out = &plan->formats[n->output];
    return (n->op == TV_OP_RESHAPE || (n->op == TV_OP_SLICE && cmdq_lower_vectors(l, n->output) == 1)) &&
           !l->on_host[cmdq_lower_node_index(l, n)] && in->buffer != CMDQ_LOWER_NONE && in->qbits == out->qbits &&
           in->scale == out->scale && cmdq_lower_is_output(l, n->inputs[0]) == cmdq_lower_is_output(l, n->output);
}

/* True for outputs that are binary32: what the host writes, and what is a sum in place. */
static bool is_written_wide(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    bool summed = n->op == TV_OP_LINEAR && plan->rows > 1 &&
                  plan->formats[n->inputs[0]].tile < tv_graph_columns(l->graph, n->inputs[0]);
    return n->op == TV_OP_GATHER || n->op == TV_OP_MOE || (n->op == TV_OP_ATTENTION && plan->blocked) ||
           (n->op == TV_OP_LINEAR && !n->attrs.activation && (summed || cmdq_lower_has_input(n, 3)));
}

void cmdq_lower_choose_formats(const cmdq_lowering *l, cmdq_lower_plan *plan, const cmdq_lower_use *uses, uint32_t node)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    const cmdq_lower_use *use = &uses[n->output];
    cmdq_lower_format *f = &plan->formats[n->output], *copy = &plan->copies[n->output];
    bool narrow = use->product || use->query || use->cached,
         wide = use->other || l->on_host[node] || is_written_wide(l, plan, n);
    uint32_t tile = choose_tile(l, plan, &uses[use->group], n->output);
    *f = narrow && !wide ? narrow_format(l, n->output, use) : (cmdq_lower_format){CMDQ_LOWER_NONE, 32, 1, 0, 0};
    *copy = narrow && wide ? narrow_format(l, n->output, use) : (cmdq_lower_format){CMDQ_LOWER_NONE, 0, 1, 0, 0};
    f->tile = copy->tile = tile;
    if (is_view(l, plan, n)) {
        f->buffer = plan->formats[n->inputs[0]].buffer;
        f->first = plan->formats[n->inputs[0]].first + (n->op == TV_OP_SLICE ? n->attrs.start : 0);
    }
}

/* ---- Blocks of weights ---- */

/* A divisor of the columns, and of every head that is multiplied. */
uint32_t cmdq_lower_group(const cmdq_lowering *l, const tv_graph_node *n, unsigned input)
{
    uint32_t columns = tv_graph_matrix(l->graph, n->inputs[input])->columns, group = 32, piece = columns;
    const tv_graph_value *x = tv_graph_value_at(l->graph, n->inputs[0]);
    if (x->source == TV_VALUE_COMPUTED && n->op != TV_OP_MOE) {
        const tv_graph_node *producer = tv_graph_node_at(l->graph, x->producer);
        piece = producer->op == TV_OP_ATTENTION ? columns / producer->attrs.heads : columns;
    }
    while (group > 1 && (columns % group || piece % group))
        group /= 2;
    return group;
}

uint32_t cmdq_lower_tile_rows(const cmdq_lower_plan *plan, uint32_t columns, uint32_t group, unsigned bits)
{
    uint64_t weights = plan->buffers.data[plan->weights[0]].bytes / tv_ceil_div((uint64_t)columns * bits, 8),
             scales = plan->buffers.data[plan->scales[0]].bytes / (tv_ceil_div(columns, group) * 4);
    return (uint32_t)tv_min_u64(weights, scales);
}

unsigned cmdq_lower_weight_bits(const cmdq_lowering *l, const tv_graph_node *n)
{
    enum { NARROW_MAX = 32 };
    const tv_matrix *m = n->op == TV_OP_LINEAR ? tv_graph_matrix(l->graph, n->inputs[1]) : NULL;
    return m && (m->rows <= NARROW_MAX || m->columns <= NARROW_MAX) ? 8 : l->weight_bits;
}

uint32_t cmdq_lower_expert_tile(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    return (uint32_t)tv_min_u64(plan->hidden_tile, tv_graph_matrix(l->graph, n->inputs[2])->rows);
}
