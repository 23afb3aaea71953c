/* SPDX-License-Identifier: Apache-2.0 */
/* Lowers nodes of the graph to queue entries.
 *
 * Each buffer records its last writer and the readers since then. An entry depends on the writers of the buffers it
 * reads, and on the writers and readers of the buffers it writes, so a queue is free of hazards by construction. */
#include <math.h>

#include "lower/cmdq/state.h"

/* ---- Buffers and dependencies ---- */

static void add_read(cmdq_lowering *l, unsigned p) { l->reads[l->read_count++] = p; }

static void add_write(cmdq_lowering *l, unsigned p) { l->writes[l->write_count++] = p; }

static void add_dependency(cmdq_lowering *l, uint32_t entry)
{
    if (entry == CMDQ_LOWER_NO_ENTRY)
        return;
    for (size_t i = 0; i < l->deps.count; i++)
        if (l->deps.data[i] == entry)
            return;
    (void)TV_VEC_PUSH(&l->deps, entry);
}

/* Completes an entry with the dependencies that follow from its reads and writes; returns its id. */
static uint32_t finish_entry(cmdq_lowering *l)
{
    uint32_t id = tv_queue_builder_count(l->builder);
    for (unsigned i = 0; i < l->read_count; i++)
        add_dependency(l, l->buffers[l->reads[i]].writer);
    for (unsigned i = 0; i < l->write_count; i++) {
        const cmdq_lower_buffer *p = &l->buffers[l->writes[i]];
        add_dependency(l, p->writer);
        for (size_t k = 0; k < p->readers.count; k++)
            add_dependency(l, p->readers.data[k]);
    }
    for (unsigned i = 0; i < l->read_count; i++)
        l->deps.failed |= !TV_VEC_PUSH(&l->buffers[l->reads[i]].readers, id);
    for (unsigned i = 0; i < l->write_count; i++) {
        l->buffers[l->writes[i]].writer = id;
        l->buffers[l->writes[i]].readers.count = 0;
    }
    tv_queue_builder_end_entry(l->builder, l->block_name, l->deps.data, (uint32_t)l->deps.count);
    l->deps.count = 0;
    l->read_count = l->write_count = 0;
    return id;
}

/* ---- Fields ---- */

static void set_integer(cmdq_lowering *l, cmdq_field field, uint64_t value)
{
    tv_queue_builder_integer(l->builder, field, value);
}

/* Scales of 1 are the default and are omitted. */
static void set_scale(cmdq_lowering *l, cmdq_field field, float value)
{
    if (value != 1)
        tv_queue_builder_real(l->builder, field, (double)value);
}

/* An SPM address is two fields: the bank, followed by the offset. */
static void set_spm_address(cmdq_lowering *l, cmdq_field bank, unsigned p, uint64_t offset)
{
    set_integer(l, bank, l->buffers[p].bank);
    set_integer(l, bank + 1, l->buffers[p].offset + offset);
}

_Static_assert(CMDQ_F_spm_offset == CMDQ_F_spm_bank + 1 && CMDQ_F_ifm_offset == CMDQ_F_ifm_bank + 1 &&
                   CMDQ_F_wgt_offset == CMDQ_F_wgt_bank + 1 && CMDQ_F_ofm_offset == CMDQ_F_ofm_bank + 1 &&
                   CMDQ_F_wgt_scale_offset == CMDQ_F_wgt_scale_bank + 1 && CMDQ_F_in_offset == CMDQ_F_in_bank + 1 &&
                   CMDQ_F_in2_offset == CMDQ_F_in2_bank + 1 && CMDQ_F_out_offset == CMDQ_F_out_bank + 1 &&
                   CMDQ_F_gamma_offset == CMDQ_F_gamma_bank + 1,
               "an offset follows its bank");

static cmdq_lower_operand f32_operand(unsigned to) { return (cmdq_lower_operand){to, 0, 32, 1}; }

/* An input of products with weights, whose scales include that of the input (cmdq_lower_input_scale). */
static cmdq_lower_operand input_operand(const cmdq_lowering *l, unsigned from)
{
    return (cmdq_lower_operand){from, 0, l->activation_bits, 1};
}

/* ---- Transfers ---- */

static void begin_transfer(cmdq_lowering *l, cmdq_opcode opcode, const char *role, unsigned qbits, uint64_t addr,
                           uint64_t rows, uint64_t elements, uint64_t stride)
{
    tv_queue_builder_opcode(l->builder, opcode);
    tv_queue_builder_text(l->builder, CMDQ_F_tensor_role, role);
    set_integer(l, CMDQ_F_qbits, qbits);
    set_integer(l, CMDQ_F_dram_addr, addr);
    set_integer(l, CMDQ_F_num_elements, rows * elements);
    if (rows > 1 && stride != elements * qbits / 8) {
        set_integer(l, CMDQ_F_stride_bytes, stride);
        set_integer(l, CMDQ_F_row_elements, elements);
    }
}

/* Loads `rows` rows of `elements`, `stride` bytes apart. */
static void emit_load(cmdq_lowering *l, cmdq_lower_operand to, const char *role, uint64_t addr, uint64_t rows,
                      uint64_t elements, uint64_t stride)
{
    begin_transfer(l, CMDQ_DMA_LOAD_TILE, role, to.qbits, addr, rows, elements, stride);
    set_spm_address(l, CMDQ_F_spm_bank, to.buffer, to.offset);
    add_write(l, to.buffer);
    finish_entry(l);
}

/* ---- Matrix products ---- */

/* The fields common to all tensor entries. */
static void begin_tensor_entry(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand in, unsigned wgt,
                               cmdq_lower_operand out, uint64_t m, uint64_t n, uint64_t k, unsigned weight_bits)
{
    tv_queue_builder_opcode(l->builder, opcode);
    set_integer(l, CMDQ_F_te_id, l->next_te++ % l->te);
    set_integer(l, CMDQ_F_m, m);
    set_integer(l, CMDQ_F_n, n);
    set_integer(l, CMDQ_F_k, k);
    set_integer(l, CMDQ_F_qbits_weight, weight_bits);
    set_integer(l, CMDQ_F_qbits_activation, in.qbits);
    set_integer(l, CMDQ_F_qbits_ofm, out.qbits);
    set_spm_address(l, CMDQ_F_ifm_bank, in.buffer, in.offset);
    set_spm_address(l, CMDQ_F_wgt_bank, wgt, 0);
    set_spm_address(l, CMDQ_F_ofm_bank, out.buffer, out.offset);
    set_scale(l, CMDQ_F_scale_ifm, in.scale);
    set_scale(l, CMDQ_F_scale_ofm, out.scale);
    add_read(l, in.buffer);
    add_read(l, wgt);
    add_write(l, out.buffer);
}

/* Whether a product overwrites its output or is added to it. */
typedef enum accumulation { OVERWRITE, ACCUMULATE } accumulation;

/* out[m][rows] (+)= in[m][columns] * W[row, row + rows)[column, column + columns)^T */
static void emit_product(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_operand in, cmdq_lower_operand out,
                         accumulation how, uint32_t row, uint32_t rows, uint32_t column, uint32_t columns, uint32_t m)
{
    unsigned slot = l->slot++ % CMDQ_LOWER_SLOTS;
    uint64_t scale_row = w->columns / l->group * 4;
    emit_load(l, (cmdq_lower_operand){CMDQ_BUFFER_WEIGHTS + slot, 0, l->weight_bits, 1}, "weight",
              w->data + row * w->row_bytes + (uint64_t)column * l->weight_bits / 8, rows, columns, w->row_bytes);
    emit_load(l, f32_operand(CMDQ_BUFFER_SCALES + slot), "weight", w->scales + row * scale_row + column / l->group * 4,
              rows, columns / l->group, scale_row);
    begin_tensor_entry(l, CMDQ_TE_GEMM_TILE, in, CMDQ_BUFFER_WEIGHTS + slot, out, m, rows, columns, l->weight_bits);
    set_spm_address(l, CMDQ_F_wgt_scale_bank, CMDQ_BUFFER_SCALES + slot, 0);
    set_integer(l, CMDQ_F_wgt_group, l->group);
    if (how == ACCUMULATE)
        tv_queue_builder_flag(l->builder, CMDQ_F_accumulate, true);
    add_read(l, CMDQ_BUFFER_SCALES + slot);
    finish_entry(l);
}

/* Products with whole rows of W. With one token the output columns are consecutive and tiles are as large as a bank;
 * with several, each tile of `tile` columns is a matrix [m][tile] of its own. */
static void emit_row_products(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_operand in,
                              cmdq_lower_operand out, accumulation how, uint32_t tile)
{
    uint32_t m = l->rows, fit = cmdq_lower_tile_rows(l, w->columns), step = m == 1 ? fit : tile < fit ? tile : fit;
    for (uint32_t row = 0; row < w->rows; row += step) {
        cmdq_lower_operand to = out;
        uint32_t rows = w->rows - row < step ? w->rows - row : step;
        to.offset += (uint64_t)row * m * out.qbits / 8;
        emit_product(l, w, in, to, how, row, rows, 0, w->columns, m);
    }
}

/* Adds to the residual a product whose input consists of matrices [m][tile]. */
static void emit_column_products(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_operand in, uint32_t tile)
{
    const cmdq_lower_operand out = f32_operand(CMDQ_BUFFER_X);
    if (l->rows == 1) {
        emit_row_products(l, w, in, out, ACCUMULATE, w->rows);
        return;
    }
    for (uint32_t column = 0; column < w->columns; column += tile) {
        cmdq_lower_operand from = in;
        uint32_t columns = w->columns - column < tile ? w->columns - column : tile;
        from.offset += (uint64_t)column * l->rows * in.qbits / 8;
        emit_product(l, w, from, out, ACCUMULATE, 0, w->rows, column, columns, l->rows);
    }
}

/* ---- Nodes ---- */

static void begin_vector_entry(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand in, cmdq_lower_operand out,
                               uint64_t rows, uint64_t length)
{
    tv_queue_builder_opcode(l->builder, opcode);
    set_integer(l, CMDQ_F_ve_id, l->next_ve++ % l->ve);
    set_integer(l, CMDQ_F_rows, rows);
    set_integer(l, CMDQ_F_length, length);
    set_integer(l, CMDQ_F_qbits_activation, in.qbits);
    set_integer(l, CMDQ_F_qbits_out, out.qbits);
    set_spm_address(l, CMDQ_F_in_bank, in.buffer, in.offset);
    set_spm_address(l, CMDQ_F_out_bank, out.buffer, out.offset);
    set_scale(l, CMDQ_F_scale_out, out.scale);
    add_read(l, in.buffer);
    add_write(l, out.buffer);
}

/* Tokens of a step whose scores fit the buffer. All use the kv_len of the last. */
typedef struct token_tile {
    uint32_t first, count;
} token_tile;

static token_tile token_tile_at(const cmdq_lowering *l, uint32_t first)
{
    return (token_tile){first, l->rows - first < CMDQ_LOWER_MASK_ROWS ? l->rows - first : CMDQ_LOWER_MASK_ROWS};
}

static uint32_t kv_len(const cmdq_lowering *l, token_tile r) { return l->position + r.first + r.count; }

static cmdq_lower_operand mask_operand(const cmdq_lowering *l, token_tile r)
{
    return (cmdq_lower_operand){CMDQ_BUFFER_MASK, (uint64_t)r.first * l->context * 4, 32, 1};
}

/* Loads the tokens, and the causal mask of each tile of tokens. */
static void emit_embed(cmdq_lowering *l)
{
    emit_load(l, f32_operand(CMDQ_BUFFER_X), "embedding", l->x_addr, 1, (uint64_t)l->rows * l->model->dims.dim, 0);
    for (uint32_t first = 0; first < l->rows && l->rows > 1; first += CMDQ_LOWER_MASK_ROWS) {
        token_tile r = token_tile_at(l, first);
        emit_load(l, mask_operand(l, r), "activation", l->mask_addr + (uint64_t)(l->context - l->position - first) * 4,
                  r.count, kv_len(l, r), (uint64_t)cmdq_lower_mask_columns(l) * 4);
    }
}

/* The final norm is computed only for tokens that need logits. */
static void emit_norm(cmdq_lowering *l, const tv_graph_node *n, uint32_t first)
{
    uint32_t dim = l->model->dims.dim, skipped = n->weight == TV_WEIGHT_NORM_FINAL ? first : 0;
    cmdq_lower_operand in = f32_operand(CMDQ_BUFFER_X);
    in.offset = (uint64_t)skipped * dim * 4;
    emit_load(l, f32_operand(CMDQ_BUFFER_GAINS), "weight", cmdq_lower_matrix_of(l, n->weight, n->layer)->data, 1, dim,
              0);
    begin_vector_entry(l, CMDQ_VE_RMSNORM_TILE, in,
                       cmdq_lower_activations(l, CMDQ_BUFFER_XN, cmdq_lower_norm_scale(l, n)), l->rows - skipped, dim);
    set_spm_address(l, CMDQ_F_gamma_bank, CMDQ_BUFFER_GAINS, 0);
    tv_queue_builder_real(l->builder, CMDQ_F_eps, (double)l->model->dims.eps);
    add_read(l, CMDQ_BUFFER_GAINS);
    finish_entry(l);
}

/* Rotates the heads of `in`, [heads][rows][head_dim]; with one token all heads are a single row. */
static void emit_rope(cmdq_lowering *l, const tv_graph_node *n, unsigned in, cmdq_lower_operand out)
{
    uint32_t d = l->model->dims.head_dim, calls = l->rows == 1 ? 1 : n->heads;
    for (uint32_t h = 0; h < calls; h++) {
        uint64_t at = (uint64_t)h * l->rows * d;
        cmdq_lower_operand from = f32_operand(in), to = out;
        from.offset = at * 4;
        to.offset = at * out.qbits / 8;
        begin_vector_entry(l, CMDQ_VE_ROPE_TILE, from, to, l->rows, calls == 1 ? (uint64_t)n->heads * d : d);
        set_integer(l, CMDQ_F_head_dim, d);
        set_integer(l, CMDQ_F_position, l->position);
        tv_queue_builder_real(l->builder, CMDQ_F_theta, (double)l->model->dims.theta);
        finish_entry(l);
    }
}

static void begin_kv_entry(cmdq_lowering *l, cmdq_opcode opcode, bool v, uint32_t layer, uint32_t head, unsigned p,
                           uint64_t offset)
{
    tv_queue_builder_opcode(l->builder, opcode);
    set_integer(l, CMDQ_F_head_id, head);
    tv_queue_builder_text(l->builder, CMDQ_F_kv_kind, v ? "v" : "k");
    set_integer(l, CMDQ_F_qbits_kv, 8);
    set_integer(l, CMDQ_F_kv_layout_id, layer);
    set_spm_address(l, CMDQ_F_spm_bank, p, offset);
}

static void emit_append(cmdq_lowering *l, const tv_graph_node *n)
{
    for (uint32_t h = 0; h < n->heads; h++)
        for (unsigned v = 0; v < 2; v++) {
            unsigned from = v ? CMDQ_BUFFER_VALUE8 : CMDQ_BUFFER_KEY8;
            begin_kv_entry(l, CMDQ_KV_STORE_TILE, v, n->layer, h, from,
                           (uint64_t)h * l->rows * l->model->dims.head_dim);
            set_integer(l, CMDQ_F_dram_base_addr, v ? l->v_base[n->layer] : l->k_base[n->layer]);
            set_integer(l, CMDQ_F_t_start, l->position);
            set_integer(l, CMDQ_F_t_len, l->rows);
            add_read(l, from);
            if (l->kv_writer[n->layer] != CMDQ_LOWER_NO_ENTRY)
                add_dependency(l, l->kv_writer[n->layer]); /* chained, so that the last store implies all of them */
            l->kv_writer[n->layer] = finish_entry(l);
        }
}

static void emit_kv_load(cmdq_lowering *l, const tv_graph_node *n, uint32_t head, bool v)
{
    unsigned to = v ? CMDQ_BUFFER_CACHED_VALUES : CMDQ_BUFFER_CACHED_KEYS;
    begin_kv_entry(l, CMDQ_KV_LOAD_TILE, v, n->layer, head, to, 0);
    tv_queue_builder_object(l->builder, CMDQ_F_kv_range_desc);
    set_integer(l, CMDQ_F_t_start, 0);
    set_integer(l, CMDQ_F_t_len, l->position + l->rows);
    add_dependency(l, l->kv_writer[n->layer]);
    add_write(l, to);
    finish_entry(l);
}

/* Elementwise operation; `b` is NULL for unary ones. */
static void emit_elementwise(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand a, const cmdq_lower_operand *b,
                             cmdq_lower_operand out, uint64_t length)
{
    begin_vector_entry(l, opcode, a, out, 1, length);
    if (b) {
        set_spm_address(l, CMDQ_F_in2_bank, b->buffer, b->offset);
        add_read(l, b->buffer);
    }
    finish_entry(l);
}

/* Scores of one head; with several tokens, the causal mask is added. */
static void emit_scores(cmdq_lowering *l, const tv_graph_node *n, uint32_t head, token_tile r, cmdq_lower_operand out)
{
    const cmdq_lower_act_scales *act_scales = &l->act_scales[n->layer];
    uint32_t d = l->model->dims.head_dim;
    cmdq_lower_operand in = cmdq_lower_activations(l, CMDQ_BUFFER_ROTATED_QUERY, act_scales->q / sqrtf((float)d));
    in.offset = ((uint64_t)head * l->rows + r.first) * d * in.qbits / 8;
    begin_tensor_entry(l, CMDQ_TE_QKT_TILE, in, CMDQ_BUFFER_CACHED_KEYS, out, r.count, kv_len(l, r), d, 8);
    set_scale(l, CMDQ_F_scale_wgt, act_scales->k);
    finish_entry(l);
    cmdq_lower_operand mask = mask_operand(l, r);
    if (l->rows > 1)
        emit_elementwise(l, CMDQ_VE_ADD_TILE, out, &mask, out, (uint64_t)r.count * kv_len(l, r));
}

/* SCORES, SOFTMAX and WEIGHTED_SUM of the heads that share head `kv` of the KV cache, which is in SPM. */
static void emit_kv_head(cmdq_lowering *l, const tv_graph_node *n, uint32_t kv, token_tile r)
{
    const tv_model_dims *s = &l->model->dims;
    const cmdq_lower_act_scales *act_scales = &l->act_scales[n->layer];
    uint32_t shared = s->heads / s->kv_heads, t = kv_len(l, r), d = s->head_dim;
    for (uint32_t h = 0; h < shared; h++)
        emit_scores(l, n, kv * shared + h, r,
                    (cmdq_lower_operand){CMDQ_BUFFER_SCORES, (uint64_t)h * r.count * t * 4, 32, 1});
    begin_vector_entry(l, CMDQ_VE_SOFTMAX_TILE, f32_operand(CMDQ_BUFFER_SCORES),
                       (cmdq_lower_operand){CMDQ_BUFFER_PROBS, 0, 16, 1}, (uint64_t)shared * r.count, t);
    finish_entry(l);
    for (uint32_t h = 0; h < shared; h++) {
        cmdq_lower_operand in = {CMDQ_BUFFER_PROBS, (uint64_t)h * r.count * t * 2, 16, 1},
                           out = cmdq_lower_activations(l, CMDQ_BUFFER_ATTN_OUT, act_scales->attn_out);
        out.offset = ((uint64_t)(kv * shared + h) * l->rows + r.first) * d * out.qbits / 8;
        begin_tensor_entry(l, CMDQ_TE_AV_TILE, in, CMDQ_BUFFER_CACHED_VALUES, out, r.count, d, t, 8);
        set_scale(l, CMDQ_F_scale_wgt, act_scales->v);
        finish_entry(l);
    }
}

/* Three nodes of the graph at once, since the KV cache is loaded head by head. */
static void emit_attention(cmdq_lowering *l, const tv_graph_node *n)
{
    for (uint32_t kv = 0; kv < l->model->dims.kv_heads; kv++) {
        emit_kv_load(l, n, kv, false);
        emit_kv_load(l, n, kv, true);
        for (uint32_t first = 0; first < l->rows; first += CMDQ_LOWER_MASK_ROWS)
            emit_kv_head(l, n, kv, token_tile_at(l, first));
    }
}

static cmdq_lower_operand hidden_operand(const cmdq_lowering *l, uint32_t layer)
{
    return cmdq_lower_activations(l, CMDQ_BUFFER_HIDDEN, l->act_scales[layer].ffn_hidden);
}

/* In place. */
static void emit_silu(cmdq_lowering *l, unsigned gate, uint64_t count)
{
    emit_elementwise(l, CMDQ_VE_SILU_TILE, f32_operand(gate), NULL, f32_operand(gate), count);
}

static void emit_mul(cmdq_lowering *l, unsigned a, unsigned b, cmdq_lower_operand out, uint64_t count)
{
    const cmdq_lower_operand second = f32_operand(b);
    emit_elementwise(l, CMDQ_VE_MUL_TILE, f32_operand(a), &second, out, count);
}

/* GATE, UP, SILU and MUL, one tile of hidden columns after the other: four nodes of the graph at once, so that only two
 * tiles need space. */
static void emit_feed_forward(cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_operand in)
{
    const cmdq_lower_matrix *gate = cmdq_lower_matrix_of(l, TV_WEIGHT_GATE, n->layer),
                            *up = cmdq_lower_matrix_of(l, TV_WEIGHT_UP, n->layer);
    for (uint32_t column = 0; column < gate->rows; column += l->hidden_tile) {
        unsigned slot = column / l->hidden_tile % CMDQ_LOWER_SLOTS;
        uint32_t columns = gate->rows - column < l->hidden_tile ? gate->rows - column : l->hidden_tile;
        uint64_t count = (uint64_t)l->rows * columns;
        cmdq_lower_operand out = hidden_operand(l, n->layer);
        out.offset = (uint64_t)column * l->rows * out.qbits / 8;
        emit_product(l, gate, in, f32_operand(CMDQ_BUFFER_GATE + slot), OVERWRITE, column, columns, 0, gate->columns,
                     l->rows);
        emit_product(l, up, in, f32_operand(CMDQ_BUFFER_UP + slot), OVERWRITE, column, columns, 0, up->columns,
                     l->rows);
        emit_silu(l, CMDQ_BUFFER_GATE + slot, count);
        emit_mul(l, CMDQ_BUFFER_GATE + slot, CMDQ_BUFFER_UP + slot, out, count);
    }
}

static void emit_logits(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_operand in, uint32_t m)
{
    uint32_t fit = (uint32_t)(l->buffers[CMDQ_BUFFER_LOGITS].bytes / 4 / m), step = cmdq_lower_tile_rows(l, w->columns);
    step = step < fit ? step : fit;
    for (uint32_t row = 0; row < w->rows; row += step) {
        uint32_t rows = w->rows - row < step ? w->rows - row : step;
        emit_product(l, w, in, f32_operand(CMDQ_BUFFER_LOGITS), OVERWRITE, row, rows, 0, w->columns, m);
        begin_transfer(l, CMDQ_DMA_STORE_TILE, "activation", 32, l->logits_addr + (uint64_t)row * 4, m, rows,
                       (uint64_t)w->rows * 4);
        set_spm_address(l, CMDQ_F_spm_bank, CMDQ_BUFFER_LOGITS, 0);
        add_read(l, CMDQ_BUFFER_LOGITS);
        finish_entry(l);
    }
}

static void emit_matmul(cmdq_lowering *l, const tv_graph_node *n, uint32_t first)
{
    const cmdq_lower_matrix *w = cmdq_lower_matrix_of(l, n->weight, n->layer);
    const cmdq_lower_operand in = input_operand(l, n->weight == TV_WEIGHT_O      ? CMDQ_BUFFER_ATTN_OUT
                                                   : n->weight == TV_WEIGHT_DOWN ? CMDQ_BUFFER_HIDDEN
                                                                                 : CMDQ_BUFFER_XN);
    uint32_t d = l->model->dims.head_dim;
    switch (n->weight) {
    case TV_WEIGHT_Q:
        emit_row_products(l, w, in, f32_operand(CMDQ_BUFFER_QUERY), OVERWRITE, d);
        break;
    case TV_WEIGHT_K:
        emit_row_products(l, w, in, f32_operand(CMDQ_BUFFER_KEY), OVERWRITE, d);
        break;
    case TV_WEIGHT_V:
        emit_row_products(l, w, in, (cmdq_lower_operand){CMDQ_BUFFER_VALUE8, 0, 8, l->act_scales[n->layer].v},
                          OVERWRITE, d);
        break;
    case TV_WEIGHT_O:
        emit_column_products(l, w, in, d);
        break;
    case TV_WEIGHT_GATE:
        if (l->rows > 1)
            emit_feed_forward(l, n, in);
        else
            emit_row_products(l, w, in, f32_operand(CMDQ_BUFFER_GATE), OVERWRITE, w->rows);
        break;
    case TV_WEIGHT_UP:
        if (l->rows == 1)
            emit_row_products(l, w, in, f32_operand(CMDQ_BUFFER_UP), OVERWRITE, w->rows);
        break;
    case TV_WEIGHT_DOWN:
        emit_column_products(l, w, in, l->hidden_tile);
        break;
    case TV_WEIGHT_CLASSIFIER:
        emit_logits(l, w, in, l->rows - first);
        break;
    case TV_WEIGHT_EMBEDDING: /* inputs of other operations */
    case TV_WEIGHT_NORM_ATTENTION:
    case TV_WEIGHT_NORM_FFN:
    case TV_WEIGHT_NORM_FINAL:
    case TV_WEIGHTS:
        break;
    }
}

void cmdq_lower_node(cmdq_lowering *l, const tv_graph_node *n, uint32_t first)
{
    tv_graph_block_name(l->graph, n, l->block_name);
    const tv_model_dims *s = &l->model->dims;
    switch (n->op) {
    case TV_OP_EMBED:
        emit_embed(l);
        break;
    case TV_OP_RMSNORM:
        emit_norm(l, n, first);
        break;
    case TV_OP_MATMUL:
        emit_matmul(l, n, first);
        break;
    case TV_OP_ROPE:
        if (cmdq_lower_producer(l, n->inputs[0]) == TV_WEIGHT_Q)
            emit_rope(l, n, CMDQ_BUFFER_QUERY,
                      cmdq_lower_activations(l, CMDQ_BUFFER_ROTATED_QUERY, l->act_scales[n->layer].q));
        else
            emit_rope(l, n, CMDQ_BUFFER_KEY, (cmdq_lower_operand){CMDQ_BUFFER_KEY8, 0, 8, l->act_scales[n->layer].k});
        break;
    case TV_OP_APPEND:
        emit_append(l, n);
        break;
    case TV_OP_SCORES:
        emit_attention(l, n);
        break;
    case TV_OP_SOFTMAX:
    case TV_OP_WEIGHTED_SUM: /* done with SCORES */
    case TV_OP_ADD:
        break;      /* done with the product */
    case TV_OP_MUL: /* with several tokens both are done with GATE */
        if (l->rows == 1)
            emit_mul(l, CMDQ_BUFFER_GATE, CMDQ_BUFFER_UP, hidden_operand(l, n->layer), s->hidden);
        break;
    case TV_OP_SILU:
        if (l->rows == 1)
            emit_silu(l, CMDQ_BUFFER_GATE, s->hidden);
        break;
    case TV_OPS:
        break;
    }
}
