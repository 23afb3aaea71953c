/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers the operators of the graph to queue entries: one emitter for each. */
#include <math.h>

#include "lower/cmdq/state.h"

static const cmdq_lower_matrix *matrix_of(const cmdq_lowering *l, const tv_graph_node *n, unsigned which)
{
    return &l->matrices[n - l->graph->nodes.data][which];
}

static bool has_input(const tv_graph_node *n, unsigned input) { return n->inputs[input] != TV_NO_VALUE; }

/* First row of a step that a node computes: nodes of the output block work for tokens that need logits. */
static uint32_t first_row(const cmdq_lowering *l, const tv_graph_node *n)
{
    return n->block == TV_BLOCK_OUTPUT ? l->first_logits_row : 0;
}

static uint32_t row_count(const cmdq_lowering *l, const tv_graph_node *n) { return l->rows - first_row(l, n); }

/* An input of a node of the output block starts at the first row that is needed. */
static cmdq_lower_operand input_operand(const cmdq_lowering *l, const tv_graph_node *n, unsigned input)
{
    cmdq_lower_operand in = cmdq_lower_value(l, n->inputs[input]);
    const tv_graph_value *v = tv_graph_value_at(l->graph, n->inputs[input]);
    if (v->block != TV_BLOCK_OUTPUT)
        in.offset = first_row(l, n) * tv_graph_elements(l->graph, n->inputs[input]) * in.qbits / 8;
    return in;
}

/* Loads a vector of constants to a scratch buffer. */
static void load_vector(cmdq_lowering *l, const tv_graph_node *n, unsigned which, uint32_t to)
{
    const cmdq_lower_matrix *m = matrix_of(l, n, which);
    cmdq_lower_load(l, cmdq_lower_f32(to), "weight", m->data, 1, m->columns, 0);
}

/* ---- Inputs ---- */

/* Tokens of a step whose scores fit the buffer. All use the kv_len of the last. */
typedef struct token_tile {
    uint32_t first, count;
} token_tile;

static token_tile token_tile_at(const cmdq_lowering *l, uint32_t first)
{
    return (token_tile){first, l->rows - first < CMDQ_LOWER_MASK_ROWS ? l->rows - first : CMDQ_LOWER_MASK_ROWS};
}

/* Positions that the tokens of a tile see: from `start`, which is the same for all tiles of a step. */
static uint32_t window_start(const cmdq_lowering *l, uint32_t window)
{
    return window && l->position >= window ? l->position + 1 - window : 0;
}

static uint32_t kv_len(const cmdq_lowering *l, token_tile r, uint32_t window)
{
    return l->position + r.first + r.count - window_start(l, window);
}

static unsigned mask_index(const cmdq_lowering *l, uint32_t window)
{
    unsigned i = 0;
    while (l->windows[i] != window)
        i++;
    return i;
}

static cmdq_lower_operand mask_operand(const cmdq_lowering *l, token_tile r, uint32_t window)
{
    cmdq_lower_operand mask = cmdq_lower_f32(l->plan->masks[mask_index(l, window)]);
    mask.offset = (uint64_t)r.first * l->context * 4;
    return mask;
}

/* The causal mask of each tile of tokens, for each window. */
static void load_masks(cmdq_lowering *l)
{
    for (unsigned i = 0; i < l->window_count && l->rows > 1; i++)
        for (uint32_t first = 0; first < l->rows; first += CMDQ_LOWER_MASK_ROWS) {
            token_tile r = token_tile_at(l, first);
            uint32_t column = l->context - l->position - first + window_start(l, l->windows[i]);
            cmdq_lower_load(l, mask_operand(l, r, l->windows[i]), "activation", l->masks_addr[i] + (uint64_t)column * 4,
                            r.count, kv_len(l, r, l->windows[i]), (uint64_t)cmdq_lower_mask_columns(l) * 4);
        }
}

/* The host writes the rows of the table to DRAM. */
static void emit_gather(cmdq_lowering *l, const tv_graph_node *n)
{
    cmdq_lower_load(l, cmdq_lower_value(l, n->output), "embedding", l->inputs[n->output], 1,
                    l->rows * tv_graph_elements(l->graph, n->output), 0);
    if (n == l->graph->nodes.data)
        load_masks(l);
}

/* ---- Norms ---- */

/* Groups are rows of their own; with several tokens they are tiles. */
static void emit_norm(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t gains = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VECTOR),
             bias = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VECTOR2);
    if (has_input(n, 1))
        load_vector(l, n, 0, gains);
    if (has_input(n, 2))
        load_vector(l, n, 1, bias);
    cmdq_lower_begin_vector(l, n->attrs.subtract_mean ? CMDQ_VE_LAYERNORM_TILE : CMDQ_VE_RMSNORM_TILE,
                            input_operand(l, n, 0), cmdq_lower_value(l, n->output),
                            (uint64_t)row_count(l, n) * n->attrs.groups,
                            tv_graph_elements(l->graph, n->output) / n->attrs.groups);
    if (has_input(n, 1)) {
        cmdq_lower_set_address(l, CMDQ_F_gamma_bank, gains, 0);
        cmdq_lower_add_read(l, gains);
    }
    if (has_input(n, 2)) {
        cmdq_lower_set_address(l, CMDQ_F_beta_bank, bias, 0);
        cmdq_lower_add_read(l, bias);
    }
    tv_queue_builder_real(l->builder, CMDQ_F_eps, (double)n->attrs.epsilon);
    cmdq_lower_finish_entry(l);
}

/* ---- Products ---- */

static uint32_t tile_columns(uint32_t tile, uint32_t column, uint32_t columns)
{
    return columns - column < tile ? columns - column : tile;
}

/* One block of rows of W: the whole input at once, or the sum over its tiles. */
static void emit_block(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_operand in, uint32_t in_tile,
                       cmdq_lower_operand out, cmdq_lower_slice slice, uint32_t m)
{
    for (uint32_t column = 0; column < w->columns; column += in_tile) {
        cmdq_lower_operand from = in;
        from.offset += (uint64_t)column * m * in.qbits / 8;
        slice.column = column;
        slice.columns = tile_columns(in_tile, column, w->columns);
        cmdq_lower_product(l, w, from, out, slice, m);
        slice.accumulate = true;
        slice.bias = CMDQ_LOWER_NONE;
    }
}

/* out (+)= in * W^T + bias. With one token tiles are as large as a bank. */
static void emit_products(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_operand in, uint32_t in_tile,
                          cmdq_lower_operand out, uint32_t out_tile, cmdq_lower_slice slice)
{
    uint32_t fit = cmdq_lower_tile_rows(l, l->plan, l->rows == 1 ? w->columns : in_tile);
    uint32_t step = l->rows == 1 ? fit : out_tile;
    for (uint32_t row = 0; row < w->rows; row += step) {
        cmdq_lower_operand to = out;
        to.offset += (uint64_t)row * l->rows * out.qbits / 8;
        slice.row = row;
        slice.rows = tile_columns(step, row, w->rows);
        emit_block(l, w, in, l->rows == 1 ? w->columns : in_tile, to, slice, l->rows);
    }
}

static void emit_activation(cmdq_lowering *l, tv_activation activation, cmdq_lower_operand in, cmdq_lower_operand out,
                            uint64_t count)
{
    cmdq_lower_begin_vector(l, activation == TV_ACTIVATION_SWISH ? CMDQ_VE_SILU_TILE : CMDQ_VE_GELU_TILE, in, out, 1,
                            count);
    if (activation == TV_ACTIVATION_GELU_TANH)
        tv_queue_builder_text(l->builder, CMDQ_F_approximation, "tanh");
    cmdq_lower_finish_entry(l);
}

/* Products of rows [row, row + slice.rows) of W, then the activation, tile by tile. */
static void emit_activated(cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_slice slice)
{
    const cmdq_lower_matrix *w = matrix_of(l, n, 0);
    cmdq_lower_operand in = input_operand(l, n, 0), out = cmdq_lower_value(l, n->output);
    uint32_t step = l->rows == 1 ? w->rows : l->plan->formats[n->output].tile,
             in_tile = l->plan->formats[n->inputs[0]].tile;
    for (uint32_t row = 0; row < w->rows; row += step) {
        unsigned slot = row / step % CMDQ_LOWER_SLOTS;
        cmdq_lower_operand product = cmdq_lower_f32(cmdq_lower_scratch(l, n, CMDQ_SCRATCH_GATE + slot)), to = out;
        slice.row = row;
        slice.rows = tile_columns(step, row, w->rows);
        to.offset += (uint64_t)row * l->rows * out.qbits / 8;
        if (l->rows == 1)
            emit_products(l, w, in, in_tile, product, step, slice);
        else
            emit_block(l, w, in, in_tile, product, slice, l->rows);
        emit_activation(l, n->attrs.activation, product, to, (uint64_t)l->rows * slice.rows);
    }
}

/* The product for the tokens that need logits, to DRAM tile by tile. */
static void emit_classifier(cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_slice slice)
{
    const cmdq_lower_matrix *w = matrix_of(l, n, 0);
    uint32_t logits = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_LOGITS), m = row_count(l, n),
             fit = (uint32_t)(l->plan->buffers.data[logits].bytes / 4 / m),
             step = cmdq_lower_tile_rows(l, l->plan, w->columns);
    step = step < fit ? step : fit;
    for (uint32_t row = 0; row < w->rows; row += step) {
        slice.row = row;
        slice.rows = tile_columns(step, row, w->rows);
        slice.columns = w->columns;
        cmdq_lower_product(l, w, input_operand(l, n, 0), cmdq_lower_f32(logits), slice, m);
        cmdq_lower_begin_transfer(l, CMDQ_DMA_STORE_TILE, "activation", 32, l->logits_addr + (uint64_t)row * 4, m,
                                  slice.rows, (uint64_t)w->rows * 4);
        cmdq_lower_set_address(l, CMDQ_F_spm_bank, logits, 0);
        cmdq_lower_add_read(l, logits);
        cmdq_lower_finish_entry(l);
    }
}

/* Copies the residual to the output, unless it is there already. */
static void copy_residual(cmdq_lowering *l, const tv_graph_node *n)
{
    cmdq_lower_operand from = cmdq_lower_value(l, n->inputs[3]), to = cmdq_lower_value(l, n->output);
    if (from.buffer != to.buffer)
        cmdq_lower_elementwise(l, CMDQ_VE_CAST_TILE, from, NULL, to, l->rows * tv_graph_elements(l->graph, n->output));
}

static void emit_linear(cmdq_lowering *l, const tv_graph_node *n)
{
    cmdq_lower_slice slice = {.bias = CMDQ_LOWER_NONE, .accumulate = has_input(n, 3)};
    if (has_input(n, 2)) {
        slice.bias = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_BIAS);
        load_vector(l, n, 1, slice.bias);
    }
    if (has_input(n, 3))
        copy_residual(l, n);
    if (cmdq_lower_is_classifier(l, n))
        emit_classifier(l, n, slice);
    else if (n->attrs.activation)
        emit_activated(l, n, slice);
    else
        emit_products(l, matrix_of(l, n, 0), input_operand(l, n, 0), l->plan->formats[n->inputs[0]].tile,
                      cmdq_lower_value(l, n->output), l->plan->formats[n->output].tile, slice);
}

/* One tile of hidden columns after the other, so that only two need space. */
static void emit_glu(cmdq_lowering *l, const tv_graph_node *n)
{
    const cmdq_lower_matrix *gate = matrix_of(l, n, 0), *up = matrix_of(l, n, 1);
    uint32_t tile = l->plan->formats[n->output].tile, in_tile = l->plan->formats[n->inputs[0]].tile;
    cmdq_lower_operand in = input_operand(l, n, 0);
    for (uint32_t column = 0; column < gate->rows; column += tile) {
        unsigned slot = column / tile % CMDQ_LOWER_SLOTS;
        uint32_t columns = tile_columns(tile, column, gate->rows), last = column + columns;
        uint64_t count = (uint64_t)l->rows * columns;
        cmdq_lower_operand g = cmdq_lower_f32(cmdq_lower_scratch(l, n, CMDQ_SCRATCH_GATE + slot)),
                           u = cmdq_lower_f32(cmdq_lower_scratch(l, n, CMDQ_SCRATCH_UP + slot)),
                           out = cmdq_lower_value(l, n->output);
        uint32_t step = cmdq_lower_tile_rows(l, l->plan, l->rows == 1 ? gate->columns : in_tile);
        out.offset = (uint64_t)column * l->rows * out.qbits / 8;
        for (unsigned which = 0; which < 2; which++)
            for (uint32_t row = column; row < last; row += step) {
                cmdq_lower_slice slice = {row, tile_columns(step, row, last), 0, 0, false, CMDQ_LOWER_NONE};
                cmdq_lower_operand to = which ? u : g;
                to.offset = (uint64_t)(row - column) * l->rows * 4;
                emit_block(l, which ? up : gate, in, l->rows == 1 ? gate->columns : in_tile, to, slice, l->rows);
            }
        emit_activation(l, n->attrs.activation, g, g, count);
        cmdq_lower_elementwise(l, CMDQ_VE_MUL_TILE, g, &u, out, count);
    }
}

/* ---- Element by element ---- */

static void emit_unary(cmdq_lowering *l, const tv_graph_node *n)
{
    tv_activation activation = n->op == TV_OP_SWISH   ? TV_ACTIVATION_SWISH
                               : n->attrs.approximate ? TV_ACTIVATION_GELU_TANH
                                                      : TV_ACTIVATION_GELU;
    emit_activation(l, activation, input_operand(l, n, 0), cmdq_lower_value(l, n->output),
                    row_count(l, n) * tv_graph_elements(l->graph, n->output));
}

static void emit_add(cmdq_lowering *l, const tv_graph_node *n)
{
    cmdq_lower_operand second = input_operand(l, n, 1);
    cmdq_lower_elementwise(l, CMDQ_VE_ADD_TILE, input_operand(l, n, 0), &second, cmdq_lower_value(l, n->output),
                           row_count(l, n) * tv_graph_elements(l->graph, n->output));
}

/* ---- Attention ---- */

/* Heads are [heads][rows][head_dim]; with one token all heads are a single row. */
static void emit_rope(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t heads = n->attrs.heads, d = tv_graph_columns(l->graph, n->output) / heads,
             calls = l->rows == 1 ? 1 : heads;
    for (uint32_t h = 0; h < calls; h++) {
        uint64_t at = (uint64_t)h * l->rows * d;
        cmdq_lower_operand from = cmdq_lower_value(l, n->inputs[0]), to = cmdq_lower_value(l, n->output);
        from.offset = at * from.qbits / 8;
        to.offset = at * to.qbits / 8;
        cmdq_lower_begin_vector(l, CMDQ_VE_ROPE_TILE, from, to, l->rows, calls == 1 ? (uint64_t)heads * d : d);
        cmdq_lower_set_integer(l, CMDQ_F_head_dim, d);
        cmdq_lower_set_integer(l, CMDQ_F_position, l->position);
        tv_queue_builder_real(l->builder, CMDQ_F_theta, (double)n->attrs.theta);
        if (!n->attrs.interleaved)
            tv_queue_builder_text(l->builder, CMDQ_F_pairing, "half");
        cmdq_lower_finish_entry(l);
    }
}

static void begin_kv_entry(cmdq_lowering *l, cmdq_opcode opcode, bool v, uint32_t cache, uint32_t head)
{
    tv_queue_builder_opcode(l->builder, opcode);
    cmdq_lower_set_integer(l, CMDQ_F_head_id, head);
    tv_queue_builder_text(l->builder, CMDQ_F_kv_kind, v ? "v" : "k");
    cmdq_lower_set_integer(l, CMDQ_F_qbits_kv, 8);
    cmdq_lower_set_integer(l, CMDQ_F_kv_layout_id, cache);
}

static void append_kv(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t cache = n->attrs.cache;
    const tv_graph_cache *shape = &l->graph->caches.data[cache];
    for (uint32_t h = 0; h < shape->heads; h++)
        for (unsigned v = 0; v < 2; v++) {
            uint32_t from = l->plan->formats[n->inputs[1 + v]].buffer;
            begin_kv_entry(l, CMDQ_KV_STORE_TILE, v, cache, h);
            cmdq_lower_set_address(l, CMDQ_F_spm_bank, from, (uint64_t)h * l->rows * shape->key_dim);
            cmdq_lower_set_integer(l, CMDQ_F_dram_base_addr, v ? l->v_base[cache] : l->k_base[cache]);
            cmdq_lower_set_integer(l, CMDQ_F_t_start, l->position);
            cmdq_lower_set_integer(l, CMDQ_F_t_len, l->rows);
            cmdq_lower_add_read(l, from);
            cmdq_lower_add_dependency(l, l->kv_writer[cache]); /* chained: the last store implies all of them */
            l->kv_writer[cache] = cmdq_lower_finish_entry(l);
        }
}

static void load_kv(cmdq_lowering *l, const tv_graph_node *n, uint32_t head, bool v)
{
    uint32_t to = cmdq_lower_scratch(l, n, v ? CMDQ_SCRATCH_VALUES : CMDQ_SCRATCH_KEYS),
             start = window_start(l, n->attrs.window);
    begin_kv_entry(l, CMDQ_KV_LOAD_TILE, v, n->attrs.cache, head);
    cmdq_lower_set_address(l, CMDQ_F_spm_bank, to, 0);
    tv_queue_builder_object(l->builder, CMDQ_F_kv_range_desc);
    cmdq_lower_set_integer(l, CMDQ_F_t_start, start);
    cmdq_lower_set_integer(l, CMDQ_F_t_len, l->position + l->rows - start);
    cmdq_lower_add_dependency(l, l->kv_writer[n->attrs.cache]);
    cmdq_lower_add_write(l, to);
    cmdq_lower_finish_entry(l);
}

/* The value of integer 1 in a cache, which is that of the keys or values of the node that appends them. */
static float cache_scale(const cmdq_lowering *l, uint32_t cache, unsigned input)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        if (n->op == TV_OP_ATTENTION && n->attrs.cache == cache && has_input(n, 1))
            return l->plan->formats[n->inputs[input]].scale;
    }
    return 1;
}

/* Scores of one head; with several tokens, the causal mask is added. */
static void emit_scores(cmdq_lowering *l, const tv_graph_node *n, uint32_t head, token_tile r, cmdq_lower_operand out)
{
    uint32_t d = l->graph->caches.data[n->attrs.cache].key_dim, t = kv_len(l, r, n->attrs.window);
    cmdq_lower_operand in = cmdq_lower_value(l, n->inputs[0]);
    in.scale *= n->attrs.scale;
    in.offset = ((uint64_t)head * l->rows + r.first) * d * in.qbits / 8;
    cmdq_lower_begin_tensor(l, CMDQ_TE_QKT_TILE, in, cmdq_lower_scratch(l, n, CMDQ_SCRATCH_KEYS), out,
                            (cmdq_lower_gemm){r.count, t, d, 8});
    cmdq_lower_set_scale(l, CMDQ_F_scale_wgt, cache_scale(l, n->attrs.cache, 1));
    cmdq_lower_finish_entry(l);
    if (l->rows > 1) {
        cmdq_lower_operand mask = mask_operand(l, r, n->attrs.window);
        cmdq_lower_elementwise(l, CMDQ_VE_ADD_TILE, out, &mask, out, (uint64_t)r.count * t);
    }
}

/* The query heads that share head `kv` of the KV cache, which is in SPM. */
static void emit_kv_head(cmdq_lowering *l, const tv_graph_node *n, uint32_t kv, token_tile r)
{
    const tv_graph_cache *cache = &l->graph->caches.data[n->attrs.cache];
    uint32_t shared = n->attrs.heads / cache->heads, t = kv_len(l, r, n->attrs.window), d = cache->value_dim,
             scores = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_SCORES),
             probs = cmdq_lower_scratch(l, n, CMDQ_SCRATCH_PROBS);
    for (uint32_t h = 0; h < shared; h++)
        emit_scores(l, n, kv * shared + h, r, (cmdq_lower_operand){scores, (uint64_t)h * r.count * t * 4, 32, 1});
    cmdq_lower_begin_vector(l, CMDQ_VE_SOFTMAX_TILE, cmdq_lower_f32(scores), (cmdq_lower_operand){probs, 0, 16, 1},
                            (uint64_t)shared * r.count, t);
    cmdq_lower_finish_entry(l);
    for (uint32_t h = 0; h < shared; h++) {
        cmdq_lower_operand in = {probs, (uint64_t)h * r.count * t * 2, 16, 1}, out = cmdq_lower_value(l, n->output);
        out.offset = ((uint64_t)(kv * shared + h) * l->rows + r.first) * d * out.qbits / 8;
        cmdq_lower_begin_tensor(l, CMDQ_TE_AV_TILE, in, cmdq_lower_scratch(l, n, CMDQ_SCRATCH_VALUES), out,
                                (cmdq_lower_gemm){r.count, d, t, 8});
        cmdq_lower_set_scale(l, CMDQ_F_scale_wgt, cache_scale(l, n->attrs.cache, 2));
        cmdq_lower_finish_entry(l);
    }
}

/* The KV cache is loaded head by head. */
static void emit_attention(cmdq_lowering *l, const tv_graph_node *n)
{
    if (has_input(n, 1))
        append_kv(l, n);
    for (uint32_t kv = 0; kv < l->graph->caches.data[n->attrs.cache].heads; kv++) {
        load_kv(l, n, kv, false);
        load_kv(l, n, kv, true);
        for (uint32_t first = 0; first < l->rows; first += CMDQ_LOWER_MASK_ROWS)
            emit_kv_head(l, n, kv, token_tile_at(l, first));
    }
}

/* ---- The table ---- */

cmdq_lower_emitter *const cmdq_lower_emitters[TV_OPS] = {
    [TV_OP_GATHER] = emit_gather,
    [TV_OP_NORM] = emit_norm,
    [TV_OP_LINEAR] = emit_linear,
    [TV_OP_GLU] = emit_glu,
    [TV_OP_SWISH] = emit_unary,
    [TV_OP_GELU] = emit_unary,
    [TV_OP_ADD] = emit_add,
    [TV_OP_ROTARY_EMBEDDING] = emit_rope,
    [TV_OP_ATTENTION] = emit_attention,
};
