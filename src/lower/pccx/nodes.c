/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers the operators of the graph to pccx: one emitter for each.
 *
 * Projections are GEMVs of INT4 rows, one group of columns after the other, or GEMMs with several tokens. The
 * instruction set has no elementwise product, square or rotation. But the row scales of a GEMV are BF16 numbers in host
 * memory, so a GEMV of the identity with a vector as its scales is the elementwise product with that vector. Squares,
 * rope and the gate are built from it.
 *
 * A weight stream is prefetched and has no hazard checks: what a program computes can only be streamed by the next
 * program. Where a program ends for that reason the host has no work; the list of host operations counts these
 * handovers. */
#include <stdlib.h>

#include "lower/pccx/state.h"

enum { CHUNK_ROWS = 8, LENGTH_MAX = 65528 };

static bool has_input(const tv_graph_node *n, unsigned input) { return n->inputs[input] != TV_NO_VALUE; }

static uint32_t value_addr(const pccx_lowering *l, uint32_t value) { return l->plan.values[value].addr; }

static uint32_t scratch_addr(const pccx_lowering *l, const tv_graph_node *n, unsigned which)
{
    return l->plan.scratch[n - l->graph->nodes.data][which];
}

static uint32_t columns_of(const pccx_lowering *l, uint32_t value)
{
    return (uint32_t)tv_graph_elements(l->graph, value);
}

/* First row of a step that a node computes: nodes of the output block work for tokens that need logits. */
static uint32_t first_row(const pccx_lowering *l, const tv_graph_node *n)
{
    return n->block == TV_BLOCK_OUTPUT ? l->first_logits_row : 0;
}

/* Ends the program, so that the next one can stream its results or the host can read them. */
static tv_status end_program(pccx_lowering *l, pccx_lower_host_op op, uint64_t elements, const tv_diag_sink *sink)
{
    l->host_ops[op].count++;
    l->host_ops[op].elements += elements;
    return pccx_lower_run(l, sink);
}

/* The first program of a session loads the constants to L2. */
static tv_status emit_gather(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t columns = columns_of(l, n->output);
    bool by_token = tv_graph_value_at(l->graph, n->inputs[1])->source == TV_VALUE_TOKENS;
    if (!l->constants_loaded) {
        pccx_lower_load(l, l->plan.ones, l->map.ones, l->widest);
        pccx_lower_load(l, l->plan.constants, l->map.words, l->constant_count * PCCX_LOWER_LANES);
        l->constants_loaded = true;
    }
    for (uint32_t r = 0; r < l->rows; r++) {
        uint64_t row = by_token ? (uint64_t)l->tokens[r] : l->position + r;
        pccx_lower_load(l, value_addr(l, n->output) + r * pccx_lower_l2_size(columns), c->table + row * c->row_bytes,
                        columns);
    }
    return TV_OK;
}

/* ---- Norms ---- */

/* The rows and groups of a norm are its items. `item` i is at `input` + i words of its size. */
typedef struct norm_items {
    uint32_t size, words, first, count; /* elements; words; items */
    uint32_t input;                     /* address */
} norm_items;

static void emit_squares(pccx_lowering *l, const tv_graph_node *n, const norm_items *t, uint32_t i)
{
    uint32_t x = t->input + i * t->words, constant = l->plan.constants + pccx_lower_constants_of(l, n)->constant;
    pccx_lower_move(l, scratch_addr(l, n, PCCX_SCRATCH_SUM) + i, constant, 1);
    pccx_lower_move(l, scratch_addr(l, n, PCCX_SCRATCH_NORM_INPUT) + i * (t->words + 1) + 1, x, t->size);
    pccx_lower_multiply(l, scratch_addr(l, n, PCCX_SCRATCH_SQUARES) + i * pccx_lower_l2_size(PCCX_LOWER_BLOCK), x,
                        l->map.vector + (uint64_t)i * t->size * 2, l->map.identity, t->size, true, false);
}

/* x / sqrt(sum of squares + size * epsilon), then the gains if they are not part of the next weights. */
static void emit_normalize(pccx_lowering *l, const tv_graph_node *n, const norm_items *t, uint32_t i)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t sum = scratch_addr(l, n, PCCX_SCRATCH_SUM) + i,
             root = scratch_addr(l, n, PCCX_SCRATCH_NORM_INPUT) + i * (t->words + 1),
             out = value_addr(l, n->output) + i * t->words;
    bool gains = !pccx_lower_fold_of(l, n)->gains;
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, sum,
                   scratch_addr(l, n, PCCX_SCRATCH_SQUARES) + i * pccx_lower_l2_size(PCCX_LOWER_BLOCK),
                   t->size < PCCX_LOWER_BLOCK ? t->size : PCCX_LOWER_BLOCK, PCCX_LOWER_ACCM);
    pccx_lower_cvo(l, PCCX_CVO_SQRT, root, sum, 1, 0);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, gains ? root + 1 : out, root, t->size, PCCX_LOWER_RECIP_SCALE);
    if (!gains)
        return;
    if (c->bias)
        pccx_lower_load(l, out, c->bias, t->size);
    pccx_lower_multiply(l, out, root + 1, c->gains, l->map.identity, t->size, false, c->bias != 0);
}

/* Keeps the input of a norm, which was just stored to host memory. */
static tv_status keep_value(pccx_lowering *l, uint32_t value, const tv_diag_sink *sink)
{
    uint32_t columns = columns_of(l, value);
    if (!l->kept_values[value] && !(l->kept_values[value] = malloc((size_t)l->rows_max * columns * sizeof(float))))
        return tv_fail_memory(sink);
    return pccx_lower_read_bf16(l, l->map.vector, (size_t)l->rows * columns, l->kept_values[value], sink);
}

/* centered = x - mean: the mean fills a row, which is subtracted. */
static void emit_center(pccx_lowering *l, const tv_graph_node *n, const norm_items *t, uint32_t i)
{
    uint32_t x = value_addr(l, n->inputs[0]) + i * t->words, sum = scratch_addr(l, n, PCCX_SCRATCH_SUM) + i,
             means = scratch_addr(l, n, PCCX_SCRATCH_NORM_INPUT) + i * (t->words + 1), to = t->input + i * t->words;
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, sum, x, t->size, 0);
    pccx_lower_multiply(l, means, sum, pccx_lower_constants_of(l, n)->inverse, l->map.identity, PCCX_LOWER_LANES, false,
                        false);
    pccx_lower_move(l, means + 1, l->plan.ones, t->size);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, means + 1, means, t->size, 0);
    pccx_lower_move(l, to, x, t->size);
    pccx_lower_multiply(l, to, means + 1, l->map.minus_ones, l->map.identity, t->size, false, true);
}

/* GEMV is one item ahead of the SFU. */
static tv_status emit_norm(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t columns = columns_of(l, n->output), groups = n->attrs.groups;
    norm_items t = {.size = columns / groups,
                    .words = pccx_lower_l2_size(columns / groups),
                    .first = first_row(l, n) * groups,
                    .count = l->rows * groups,
                    .input = value_addr(l, n->inputs[0])};
    if (n->attrs.subtract_mean) {
        t.input = scratch_addr(l, n, PCCX_SCRATCH_CENTERED);
        for (uint32_t i = t.first; i < t.count; i++)
            emit_center(l, n, &t, i);
    }
    pccx_lower_store(l, l->map.vector, t.input, l->rows * pccx_lower_padded(columns));
    TV_TRY(end_program(l, PCCX_LOWER_HANDOVER, (uint64_t)l->rows * columns, sink));
    if (l->keep_values && !n->attrs.subtract_mean && groups == 1)
        TV_TRY(keep_value(l, n->inputs[0], sink));
    for (uint32_t i = t.first; i <= t.count; i++) {
        if (i < t.count)
            emit_squares(l, n, &t, i);
        if (i > t.first)
            emit_normalize(l, n, &t, i - 1);
    }
    return TV_OK;
}

/* ---- Products ---- */

/* The input of products; with several tokens its groups of columns are copied once for all readers. */
static uint32_t product_input(pccx_lowering *l, uint32_t value)
{
    pccx_lower_value *v = &l->plan.values[value];
    if (l->rows == 1)
        return v->addr;
    if (!v->grouped)
        pccx_lower_group_rows(l, v->grouped_addr, v->addr, pccx_lower_padded(columns_of(l, value)));
    v->grouped = true;
    return v->grouped_addr;
}

/* Row by row, because L2 may not hold all rows. */
static void emit_classifier(pccx_lowering *l, const tv_graph_node *n)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t words = pccx_lower_l2_size(columns_of(l, n->inputs[0])), vocabulary = tv_graph_vocabulary(l->graph);
    for (uint32_t r = l->first_logits_row; r < l->rows; r++) {
        if (c->bias)
            pccx_lower_load(l, l->plan.logits, c->bias, vocabulary);
        pccx_lower_project(l, &c->matrices[0], 1, value_addr(l, n->inputs[0]) + r * words, l->plan.logits, 0,
                           pccx_lower_group_count(l, &c->matrices[0]), c->bias != 0);
        pccx_lower_store(l,
                         l->map.logits + (uint64_t)(r - l->first_logits_row) * pccx_lower_l2_size(vocabulary) *
                                             PCCX_LOWER_WORD_BYTES,
                         l->plan.logits, vocabulary);
    }
}

/* Adds the row at host address `row` to all rows at `out`, or starts them with it. */
static void emit_bias(pccx_lowering *l, uint32_t out, uint64_t row, uint32_t columns, bool add)
{
    for (uint32_t r = 0; r < l->rows; r++) {
        uint32_t to = out + r * pccx_lower_l2_size(columns);
        if (add) /* ones times the bias */
            pccx_lower_multiply(l, to, l->plan.ones, row, l->map.identity, columns, false, true);
        else
            pccx_lower_load(l, to, row, columns);
    }
}

/* ---- Activations ---- */

/* silu(g) = g * sigmoid(g), sigmoid(g) = 1 / (1 + exp(-g)). Weights of the gate are negated, so the product is -g, and
 * the SFU accumulates its exponentials to ones; the sign is corrected in the weights of `up`. Rows are processed in
 * chunks: while the SFU has one, GEMV multiplies the previous one, in the next program. */
typedef struct chunk {
    uint32_t first, rows;
} chunk;

static chunk chunk_of(const pccx_lowering *l, uint32_t i)
{
    uint32_t first = i * CHUNK_ROWS;
    return (chunk){first, first >= l->rows ? 0 : l->rows - first < CHUNK_ROWS ? l->rows - first : CHUNK_ROWS};
}

/* The buffers of an activation: rows of `columns` elements. */
typedef struct activation {
    tv_activation kind;
    uint32_t columns, gate, sigmoid; /* elements, whole words; addresses */
} activation;

/* A CVO function over consecutive rows, in instructions of limited length. */
static void emit_function(pccx_lowering *l, const activation *a, pccx_insn function, uint32_t to, uint32_t from,
                          chunk c, unsigned flags)
{
    uint32_t end = (c.first + c.rows) * a->columns;
    for (uint32_t i = c.first * a->columns; i < end; i += LENGTH_MAX)
        pccx_lower_cvo(l, function, to + pccx_lower_l2_size(i), from + pccx_lower_l2_size(i),
                       end - i < LENGTH_MAX ? end - i : LENGTH_MAX, flags);
}

static void store_chunk(pccx_lowering *l, const activation *a, uint64_t to, uint32_t from, chunk c)
{
    if (c.rows)
        pccx_lower_store(l, to + (uint64_t)c.first * a->columns * 2, from + c.first * pccx_lower_l2_size(a->columns),
                         c.rows * a->columns);
}

/* The first part of the SFU's work on a chunk: of Swish, ones plus exponentials. */
static void begin_activation(pccx_lowering *l, const activation *a, chunk c)
{
    if (a->kind != TV_ACTIVATION_SWISH)
        return;
    for (uint32_t r = c.first; r < c.first + c.rows; r++)
        pccx_lower_move(l, a->sigmoid + r * pccx_lower_l2_size(a->columns), l->plan.ones, a->columns);
    emit_function(l, a, PCCX_CVO_EXP, a->sigmoid, a->gate, c, PCCX_LOWER_ACCM);
}

/* The second part; the result goes to host memory, where the next program streams it. */
static void end_activation(pccx_lowering *l, const activation *a, chunk c)
{
    if (a->kind == TV_ACTIVATION_SWISH)
        emit_function(l, a, PCCX_CVO_RECIP, a->sigmoid, a->sigmoid, c, 0);
    else
        emit_function(l, a, PCCX_CVO_GELU, a->sigmoid, a->gate, c, 0);
    store_chunk(l, a, l->map.vector, a->sigmoid, c);
}

/* ---- Linear and gates ---- */

/* activation(x W^T + bias): Swish is multiplied by its argument, in the next program. */
static tv_status emit_activated(pccx_lowering *l, const tv_graph_node *n, uint32_t in, const tv_diag_sink *sink)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t columns = pccx_lower_padded(columns_of(l, n->output)), out = value_addr(l, n->output);
    chunk all = {0, l->rows};
    activation a = {n->attrs.activation, columns, scratch_addr(l, n, PCCX_SCRATCH_GATE),
                    scratch_addr(l, n, PCCX_SCRATCH_SIGMOID)};
    if (c->bias)
        emit_bias(l, a.gate, c->bias, columns, false);
    pccx_lower_project(l, &c->matrices[0], l->rows, in, a.gate, 0, pccx_lower_group_count(l, &c->matrices[0]),
                       c->bias != 0);
    if (a.kind != TV_ACTIVATION_SWISH) {
        emit_function(l, &a, PCCX_CVO_GELU, out, a.gate, all, 0);
        return TV_OK;
    }
    begin_activation(l, &a, all);
    end_activation(l, &a, all);
    TV_TRY(end_program(l, PCCX_LOWER_HANDOVER, (uint64_t)l->rows * columns, sink));
    for (uint32_t r = 0; r < l->rows; r++) { /* the gate is negated */
        uint32_t row = r * pccx_lower_l2_size(columns);
        pccx_lower_multiply(l, a.sigmoid + row, a.gate + row, l->map.vector + (uint64_t)r * columns * 2,
                            l->map.identity, columns, false, false);
        pccx_lower_multiply(l, out + row, a.sigmoid + row, l->map.minus_ones, l->map.identity, columns, false, false);
    }
    return TV_OK;
}

static tv_status emit_linear(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t columns = columns_of(l, n->output), out = value_addr(l, n->output);
    bool residual = has_input(n, 3);
    if (pccx_lower_is_classifier(l, n)) {
        emit_classifier(l, n);
        return TV_OK;
    }
    uint32_t in = product_input(l, n->inputs[0]);
    if (n->attrs.activation)
        return emit_activated(l, n, in, sink);
    if (residual && value_addr(l, n->inputs[3]) != out)
        pccx_lower_move(l, out, value_addr(l, n->inputs[3]), l->rows * pccx_lower_padded(columns));
    if (c->bias)
        emit_bias(l, out, c->bias, pccx_lower_padded(columns), residual);
    pccx_lower_project(l, &c->matrices[0], l->rows, in, out, 0, pccx_lower_group_count(l, &c->matrices[0]),
                       residual || c->bias);
    return TV_OK;
}

/* Products of the gate's function with `up`, and with the gate itself where the function is a factor of it. */
static void emit_gate_product(pccx_lowering *l, const tv_graph_node *n, const activation *a, uint32_t from, uint32_t to)
{
    uint32_t act = scratch_addr(l, n, PCCX_SCRATCH_ACT), out = value_addr(l, n->output),
             up = scratch_addr(l, n, PCCX_SCRATCH_UP);
    for (uint32_t r = from; r < to; r++) {
        uint64_t offset = (uint64_t)r * a->columns * 2;
        uint32_t row = r * pccx_lower_l2_size(a->columns);
        if (a->kind == TV_ACTIVATION_SWISH) {
            pccx_lower_multiply(l, act + row, a->gate + row, l->map.vector + offset, l->map.identity, a->columns, false,
                                false);
            pccx_lower_multiply(l, out + row, act + row, l->map.vector2 + offset, l->map.identity, a->columns, false,
                                false);
        } else {
            pccx_lower_multiply(l, out + row, up + row, l->map.vector + offset, l->map.identity, a->columns, false,
                                false);
        }
    }
}

/* The second part of the activation is issued in the middle of `up`, so that neither waits for the other; that of the
 * next chunk when its first part is about done. */
static tv_status emit_glu(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    const pccx_lower_matrix *gate = &c->matrices[0], *up = &c->matrices[1];
    uint32_t in = product_input(l, n->inputs[0]), groups = pccx_lower_group_count(l, gate),
             up_out = scratch_addr(l, n, PCCX_SCRATCH_UP);
    activation a = {n->attrs.activation, pccx_lower_padded(columns_of(l, n->output)),
                    scratch_addr(l, n, PCCX_SCRATCH_GATE), scratch_addr(l, n, PCCX_SCRATCH_SIGMOID)};
    pccx_lower_project(l, gate, l->rows, in, a.gate, 0, groups, false);
    begin_activation(l, &a, chunk_of(l, 0));
    pccx_lower_project(l, up, l->rows, in, up_out, 0, groups / 2, false);
    end_activation(l, &a, chunk_of(l, 0));
    pccx_lower_project(l, up, l->rows, in, up_out, groups / 2, groups, false);
    if (a.kind == TV_ACTIVATION_SWISH)
        pccx_lower_store(l, l->map.vector2, up_out, l->rows * a.columns);
    for (uint32_t i = 0; chunk_of(l, i).rows; i++) {
        chunk now = chunk_of(l, i), next = chunk_of(l, i + 1);
        TV_TRY(end_program(l, PCCX_LOWER_HANDOVER, ((uint64_t)now.rows + (i ? 0 : l->rows)) * a.columns, sink));
        begin_activation(l, &a, next);
        emit_gate_product(l, n, &a, now.first, now.first + now.rows / 2);
        if (next.rows)
            end_activation(l, &a, next);
        emit_gate_product(l, n, &a, now.first + now.rows / 2, now.first + now.rows);
    }
    return TV_OK;
}

/* ---- Element by element ---- */

static tv_status emit_add(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    uint32_t columns = pccx_lower_padded(columns_of(l, n->output)), out = value_addr(l, n->output),
             a = value_addr(l, n->inputs[0]), b = value_addr(l, n->inputs[1]);
    if (a != out)
        pccx_lower_move(l, out, a, l->rows * columns);
    for (uint32_t r = first_row(l, n); r < l->rows; r++) {
        uint32_t row = r * pccx_lower_l2_size(columns);
        pccx_lower_multiply(l, out + row, b + row, l->map.ones, l->map.identity, columns, false, true);
    }
    return TV_OK;
}

/* By a constant: a vector, or a scalar that fills one. */
static tv_status emit_mul(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    uint32_t columns = pccx_lower_padded(columns_of(l, n->output));
    for (uint32_t r = first_row(l, n); r < l->rows; r++) {
        uint32_t row = r * pccx_lower_l2_size(columns);
        pccx_lower_multiply(l, value_addr(l, n->output) + row, value_addr(l, n->inputs[0]) + row,
                            pccx_lower_constants_of(l, n)->gains, l->map.identity, columns, false, false);
    }
    return TV_OK;
}

/* ---- Attention ---- */

/* One head: neighbours by the rotation matrix, halves by the identity on the other half. The sines of the first half
 * are negated in the second case. */
static void rotate_head(pccx_lowering *l, const tv_graph_node *n, uint32_t to, uint32_t from, uint64_t angles)
{
    const pccx_lower_constants *c = pccx_lower_constants_of(l, n);
    uint32_t d = n->attrs.rotary_dim, half = d / 2, words = half / PCCX_LOWER_LANES;
    pccx_lower_multiply(l, to, from, c->cosines + angles, l->map.identity, d, false, false);
    if (n->attrs.interleaved) {
        pccx_lower_multiply(l, to, from, c->sines + angles, l->map.rotation, d, false, true);
        return;
    }
    pccx_lower_multiply(l, to, from + words, c->sines + angles, l->map.identity, half, false, true);
    pccx_lower_multiply(l, to + words, from, c->sines + angles + 2 * (uint64_t)half, l->map.identity, half, false,
                        true);
}

static tv_status emit_rope(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    (void)sink;
    uint32_t heads = n->attrs.heads, words = pccx_lower_l2_size(columns_of(l, n->output) / heads);
    for (uint32_t i = 0; i < l->rows * heads; i++)
        rotate_head(l, n, value_addr(l, n->output) + i * words, value_addr(l, n->inputs[0]) + i * words,
                    (uint64_t)(l->position + i / heads) * n->attrs.rotary_dim * 2);
    return TV_OK;
}

static tv_status append_kv(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const tv_graph_cache *c = &l->graph->caches.data[n->attrs.cache];
    uint32_t keys = l->rows * c->heads * c->key_dim, values = l->rows * c->heads * c->value_dim;
    pccx_lower_store(l, l->map.value, value_addr(l, n->inputs[2]), values);
    pccx_lower_store(l, l->map.key, value_addr(l, n->inputs[1]), keys);
    TV_TRY(end_program(l, PCCX_LOWER_PACK_KEYS, keys, sink));
    l->host_ops[PCCX_LOWER_PACK_VALUES].count++;
    l->host_ops[PCCX_LOWER_PACK_VALUES].elements += values;
    return pccx_lower_append_kv(l, n->attrs.cache, sink);
}

/* Buffers of one head of one row. */
typedef struct head_buffers {
    uint32_t query, scores, exps, unnormalized, attn_out; /* `unnormalized` starts with the sum */
    uint32_t value_dim, cut;                              /* cut: leading positions of the span that are not seen */
    pccx_lower_span span;
} head_buffers;

static head_buffers head_buffers_of(const pccx_lowering *l, const tv_graph_node *n, uint32_t i)
{
    const tv_graph_cache *c = &l->graph->caches.data[n->attrs.cache];
    uint32_t key_words = pccx_lower_l2_size(c->key_dim), value_words = pccx_lower_l2_size(c->value_dim),
             buffer = i % 2 * pccx_lower_l2_size(l->context), position = l->position + i / n->attrs.heads,
             start = n->attrs.window && position >= n->attrs.window ? position + 1 - n->attrs.window : 0,
             first = start / PCCX_LOWER_BLOCK * PCCX_LOWER_BLOCK;
    return (head_buffers){
        .query = value_addr(l, n->inputs[0]) + i * key_words,
        .scores = scratch_addr(l, n, PCCX_SCRATCH_SCORES) + buffer,
        .exps = scratch_addr(l, n, PCCX_SCRATCH_EXPS) + buffer,
        .unnormalized = scratch_addr(l, n, PCCX_SCRATCH_UNNORMALIZED) + i * (value_words + 1),
        .attn_out = value_addr(l, n->output) + i * value_words,
        .value_dim = c->value_dim,
        .cut = start - first,
        .span = {n->attrs.cache, i % n->attrs.heads / (n->attrs.heads / c->heads), first, position + 1 - first}};
}

/* Scores and their exponentials. The scale of the scores is part of the weights of the query. Positions before the
 * window count as zeros. */
static void emit_scores(pccx_lowering *l, const head_buffers *p)
{
    pccx_lower_scores(l, p->scores, p->query, p->span);
    pccx_lower_cvo(l, PCCX_CVO_EXP, p->exps, p->scores, p->span.count, PCCX_LOWER_SUB_EMAX);
    if (p->cut)
        pccx_lower_multiply(l, p->exps, p->exps, l->map.cuts + (uint64_t)p->cut * PCCX_LOWER_BLOCK * 2, l->map.identity,
                            PCCX_LOWER_BLOCK, false, false);
}

static void emit_weighted_sum(pccx_lowering *l, const head_buffers *p)
{
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, p->unnormalized, p->exps, p->span.count, 0);
    pccx_lower_weighted_sum(l, p->unnormalized + 1, p->exps, p->span);
}

/* While the SFU processes one head, GEMV processes the next. The softmax's division follows the weighted sum, which has
 * fewer elements. */
static tv_status emit_attention(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t count = l->rows * n->attrs.heads;
    if (has_input(n, 1))
        TV_TRY(append_kv(l, n, sink));
    for (uint32_t i = 0; i < count + 2; i++) {
        head_buffers p;
        if (i < count) {
            p = head_buffers_of(l, n, i);
            emit_scores(l, &p);
        }
        if (i > 0 && i <= count) {
            p = head_buffers_of(l, n, i - 1);
            emit_weighted_sum(l, &p);
        }
        if (i > 1) {
            p = head_buffers_of(l, n, i - 2);
            pccx_lower_cvo(l, PCCX_CVO_SCALE, p.attn_out, p.unnormalized, p.value_dim, PCCX_LOWER_RECIP_SCALE);
        }
    }
    return TV_OK;
}

/* ---- The table ---- */

pccx_lower_emitter *const pccx_lower_emitters[TV_OPS] = {
    [TV_OP_GATHER] = emit_gather,
    [TV_OP_NORM] = emit_norm,
    [TV_OP_LINEAR] = emit_linear,
    [TV_OP_GLU] = emit_glu,
    [TV_OP_ADD] = emit_add,
    [TV_OP_MUL] = emit_mul,
    [TV_OP_ROTARY_EMBEDDING] = emit_rope,
    [TV_OP_ATTENTION] = emit_attention,
};
