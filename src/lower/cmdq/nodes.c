/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of the graph as entries of a queue. Whoever writes or reads a place in SPM is remembered, and every entry waits
 * for those before it that it must: the queue has no hazard by construction. */
#include <math.h>

#include "lower/cmdq/lower.h"

/* ---- Places and the entries that touch them ---- */

static void reads(lowering *l, unsigned p) { l->reads[l->read_count++] = p; }

static void writes(lowering *l, unsigned p) { l->writes[l->write_count++] = p; }

static void depend(lowering *l, uint32_t entry)
{
    uint32_t *deps = (uint32_t *)(void *)l->deps.data;
    size_t n = l->deps.len / sizeof *deps;
    if (entry == NO_ENTRY)
        return;
    for (size_t i = 0; i < n; i++)
        if (deps[i] == entry)
            return;
    tv_buf_append(&l->deps, &entry, sizeof entry);
}

/* Ends an entry but for its dependencies, which follow from what it reads and writes; returns its id. */
static uint32_t end_entry(lowering *l)
{
    uint32_t id = tv_queue_builder_count(l->entries);
    for (unsigned i = 0; i < l->read_count; i++)
        depend(l, l->places[l->reads[i]].writer);
    for (unsigned i = 0; i < l->write_count; i++) {
        const place *p = &l->places[l->writes[i]];
        depend(l, p->writer);
        for (size_t k = 0; k < p->readers.len / sizeof(uint32_t); k++)
            depend(l, ((const uint32_t *)(const void *)p->readers.data)[k]);
    }
    for (unsigned i = 0; i < l->read_count; i++)
        tv_buf_append(&l->places[l->reads[i]].readers, &id, sizeof id);
    for (unsigned i = 0; i < l->write_count; i++) {
        l->places[l->writes[i]].writer = id;
        l->places[l->writes[i]].readers.len = 0;
    }
    tv_queue_builder_end_entry(l->entries, l->part, (const uint32_t *)(const void *)l->deps.data,
                               (uint32_t)(l->deps.len / sizeof(uint32_t)));
    l->deps.len = 0;
    l->read_count = l->write_count = 0;
    return id;
}

/* ---- Fields ---- */

static void number(lowering *l, cmdq_field field, uint64_t value)
{
    tv_queue_builder_integer(l->entries, field, value);
}

/* A scale that is not 1, which is the default. */
static void scale(lowering *l, cmdq_field field, float value)
{
    if (value != 1)
        tv_queue_builder_real(l->entries, field, (double)value);
}

/* A place in SPM is two fields: the bank, and the offset after it. */
static void spm(lowering *l, cmdq_field bank, unsigned p, uint64_t offset)
{
    number(l, bank, l->places[p].bank);
    number(l, bank + 1, l->places[p].offset + offset);
}

_Static_assert(CMDQ_F_spm_offset == CMDQ_F_spm_bank + 1 && CMDQ_F_ifm_offset == CMDQ_F_ifm_bank + 1 &&
                   CMDQ_F_wgt_offset == CMDQ_F_wgt_bank + 1 && CMDQ_F_ofm_offset == CMDQ_F_ofm_bank + 1 &&
                   CMDQ_F_wgt_scale_offset == CMDQ_F_wgt_scale_bank + 1 && CMDQ_F_in_offset == CMDQ_F_in_bank + 1 &&
                   CMDQ_F_in2_offset == CMDQ_F_in2_bank + 1 && CMDQ_F_out_offset == CMDQ_F_out_bank + 1 &&
                   CMDQ_F_gamma_offset == CMDQ_F_gamma_bank + 1,
               "an offset follows its bank");

static operand values(unsigned to) { return (operand){to, 0, 32, 1}; }

/* An input of products with weights, in whose scales it is what 1 is worth (cmdq_input_range). */
static operand input(const lowering *l, unsigned from) { return (operand){from, 0, l->activation_bits, 1}; }

/* ---- Transfers ---- */

static void transfer(lowering *l, cmdq_opcode opcode, const char *role, unsigned qbits, uint64_t addr, uint64_t rows,
                     uint64_t elements, uint64_t stride)
{
    tv_queue_builder_opcode(l->entries, opcode);
    tv_queue_builder_text(l->entries, CMDQ_F_tensor_role, role);
    number(l, CMDQ_F_qbits, qbits);
    number(l, CMDQ_F_dram_addr, addr);
    number(l, CMDQ_F_num_elements, rows * elements);
    if (rows > 1 && stride != elements * qbits / 8) {
        number(l, CMDQ_F_stride_bytes, stride);
        number(l, CMDQ_F_row_elements, elements);
    }
}

/* Loads `rows` stretches of `elements`, `stride` bytes apart. */
static void load(lowering *l, operand to, const char *role, uint64_t addr, uint64_t rows, uint64_t elements,
                 uint64_t stride)
{
    transfer(l, CMDQ_DMA_LOAD_TILE, role, to.qbits, addr, rows, elements, stride);
    spm(l, CMDQ_F_spm_bank, to.place, to.offset);
    writes(l, to.place);
    end_entry(l);
}

/* ---- Matrix products ---- */

/* A tensor engine's product, all but what only some have. */
static void tensor_entry(lowering *l, cmdq_opcode opcode, operand in, unsigned wgt, operand out, uint64_t m, uint64_t n,
                         uint64_t k, unsigned weight_bits)
{
    tv_queue_builder_opcode(l->entries, opcode);
    number(l, CMDQ_F_te_id, l->te_turn++ % l->te);
    number(l, CMDQ_F_m, m);
    number(l, CMDQ_F_n, n);
    number(l, CMDQ_F_k, k);
    number(l, CMDQ_F_qbits_weight, weight_bits);
    number(l, CMDQ_F_qbits_activation, in.qbits);
    number(l, CMDQ_F_qbits_ofm, out.qbits);
    spm(l, CMDQ_F_ifm_bank, in.place, in.offset);
    spm(l, CMDQ_F_wgt_bank, wgt, 0);
    spm(l, CMDQ_F_ofm_bank, out.place, out.offset);
    scale(l, CMDQ_F_scale_ifm, in.scale);
    scale(l, CMDQ_F_scale_ofm, out.scale);
    reads(l, in.place);
    reads(l, wgt);
    writes(l, out.place);
}

/* What a product is added to: nothing, or what stands there. */
typedef enum sum { ANEW, ADDED } sum;

/* out[m][rows] (+)= in[m][columns] times rows `row` on, columns `column` on, of the weight. */
static void product(lowering *l, const matrix *w, operand in, operand out, sum how, uint32_t row, uint32_t rows,
                    uint32_t column, uint32_t columns, uint32_t m)
{
    unsigned slot = l->slot++ % SLOTS;
    uint64_t scale_row = w->columns / l->group * 4;
    load(l, (operand){WEIGHTS + slot, 0, l->weight_bits, 1}, "weight",
         w->data + row * w->row_bytes + (uint64_t)column * l->weight_bits / 8, rows, columns, w->row_bytes);
    load(l, values(SCALES + slot), "weight", w->scales + row * scale_row + column / l->group * 4, rows,
         columns / l->group, scale_row);
    tensor_entry(l, CMDQ_TE_GEMM_TILE, in, WEIGHTS + slot, out, m, rows, columns, l->weight_bits);
    spm(l, CMDQ_F_wgt_scale_bank, SCALES + slot, 0);
    number(l, CMDQ_F_wgt_group, l->group);
    if (how == ADDED)
        tv_queue_builder_flag(l->entries, CMDQ_F_accumulate, true);
    reads(l, SCALES + slot);
    end_entry(l);
}

/* Whole rows of input. With one token the output's columns follow each other, and blocks are as large as a bank; with
 * more, each `unit` of columns is a place [m][unit] of its own. */
static void product_by_rows(lowering *l, const matrix *w, operand in, operand out, sum how, uint32_t unit)
{
    uint32_t m = l->rows, most = rows_that_fit(l, w->columns), step = m == 1 ? most : unit < most ? unit : most;
    for (uint32_t row = 0; row < w->rows; row += step) {
        operand to = out;
        uint32_t rows = w->rows - row < step ? w->rows - row : step;
        to.offset += (uint64_t)row * m * out.qbits / 8;
        product(l, w, in, to, how, row, rows, 0, w->columns, m);
    }
}

/* Added to the residual: input in places [m][unit]. */
static void product_by_columns(lowering *l, const matrix *w, operand in, uint32_t unit)
{
    const operand out = values(X);
    if (l->rows == 1) {
        product_by_rows(l, w, in, out, ADDED, w->rows);
        return;
    }
    for (uint32_t column = 0; column < w->columns; column += unit) {
        operand from = in;
        uint32_t columns = w->columns - column < unit ? w->columns - column : unit;
        from.offset += (uint64_t)column * l->rows * in.qbits / 8;
        product(l, w, from, out, ADDED, 0, w->rows, column, columns, l->rows);
    }
}

/* ---- Nodes ---- */

static void vector_entry(lowering *l, cmdq_opcode opcode, operand in, operand out, uint64_t rows, uint64_t length)
{
    tv_queue_builder_opcode(l->entries, opcode);
    number(l, CMDQ_F_ve_id, l->ve_turn++ % l->ve);
    number(l, CMDQ_F_rows, rows);
    number(l, CMDQ_F_length, length);
    number(l, CMDQ_F_qbits_activation, in.qbits);
    number(l, CMDQ_F_qbits_out, out.qbits);
    spm(l, CMDQ_F_in_bank, in.place, in.offset);
    spm(l, CMDQ_F_out_bank, out.place, out.offset);
    scale(l, CMDQ_F_scale_out, out.scale);
    reads(l, in.place);
    writes(l, out.place);
}

/* Some tokens of a step, whose scores have room: what they see ends with the last of them. */
typedef struct tokens {
    uint32_t first, count;
} tokens;

static tokens tokens_from(const lowering *l, uint32_t first)
{
    return (tokens){first, l->rows - first < SEEN_ROWS ? l->rows - first : SEEN_ROWS};
}

static uint32_t seen(const lowering *l, tokens r) { return l->position + r.first + r.count; }

static operand mask_of(const lowering *l, tokens r)
{
    return (operand){MASK, (uint64_t)r.first * l->context * 4, 32, 1};
}

/* The tokens, and what hides those behind each. */
static void embed(lowering *l)
{
    load(l, values(X), "embedding", l->x_addr, 1, (uint64_t)l->rows * l->model->dims.dim, 0);
    for (uint32_t first = 0; first < l->rows && l->rows > 1; first += SEEN_ROWS) {
        tokens r = tokens_from(l, first);
        load(l, mask_of(l, r), "activation", l->mask_addr + (uint64_t)(l->context - l->position - first) * 4, r.count,
             seen(l, r), (uint64_t)cmdq_mask_columns(l) * 4);
    }
}

/* The final norm is wanted of the tokens alone whose logits are. */
static void norm(lowering *l, const tv_graph_node *n, uint32_t first)
{
    uint32_t dim = l->model->dims.dim, skipped = n->weight == TV_WEIGHT_NORM_FINAL ? first : 0;
    operand in = values(X);
    in.offset = (uint64_t)skipped * dim * 4;
    load(l, values(GAINS), "weight", matrix_of(l, n->weight, n->layer)->data, 1, dim, 0);
    vector_entry(l, CMDQ_VE_RMSNORM_TILE, in, cmdq_activations(l, XN, cmdq_norm_range(l, n)), l->rows - skipped, dim);
    spm(l, CMDQ_F_gamma_bank, GAINS, 0);
    tv_queue_builder_real(l->entries, CMDQ_F_eps, (double)l->model->dims.eps);
    reads(l, GAINS);
    end_entry(l);
}

/* Turns the heads of `in`, [heads][rows][head_dim]; with one token all heads are one row. */
static void rope(lowering *l, const tv_graph_node *n, unsigned in, operand out)
{
    uint32_t d = l->model->dims.head_dim, calls = l->rows == 1 ? 1 : n->heads;
    for (uint32_t h = 0; h < calls; h++) {
        uint64_t at = (uint64_t)h * l->rows * d;
        operand from = values(in), to = out;
        from.offset = at * 4;
        to.offset = at * out.qbits / 8;
        vector_entry(l, CMDQ_VE_ROPE_TILE, from, to, l->rows, calls == 1 ? (uint64_t)n->heads * d : d);
        number(l, CMDQ_F_head_dim, d);
        number(l, CMDQ_F_position, l->position);
        tv_queue_builder_real(l->entries, CMDQ_F_theta, (double)l->model->dims.theta);
        end_entry(l);
    }
}

static void kv_entry(lowering *l, cmdq_opcode opcode, bool v, uint32_t layer, uint32_t head, unsigned p,
                     uint64_t offset)
{
    tv_queue_builder_opcode(l->entries, opcode);
    number(l, CMDQ_F_head_id, head);
    tv_queue_builder_text(l->entries, CMDQ_F_kv_kind, v ? "v" : "k");
    number(l, CMDQ_F_qbits_kv, 8);
    number(l, CMDQ_F_kv_layout_id, layer);
    spm(l, CMDQ_F_spm_bank, p, offset);
}

static void append(lowering *l, const tv_graph_node *n)
{
    for (uint32_t h = 0; h < n->heads; h++)
        for (unsigned v = 0; v < 2; v++) {
            unsigned from = v ? VALUE8 : KEY8;
            kv_entry(l, CMDQ_KV_STORE_TILE, v, n->layer, h, from, (uint64_t)h * l->rows * l->model->dims.head_dim);
            number(l, CMDQ_F_dram_base_addr, v ? l->v_base[n->layer] : l->k_base[n->layer]);
            number(l, CMDQ_F_t_start, l->position);
            number(l, CMDQ_F_t_len, l->rows);
            reads(l, from);
            if (l->kv_writer[n->layer] != NO_ENTRY)
                depend(l, l->kv_writer[n->layer]); /* one after the other, so that the last says that all are there */
            l->kv_writer[n->layer] = end_entry(l);
        }
}

static void fetch(lowering *l, const tv_graph_node *n, uint32_t head, bool v)
{
    unsigned to = v ? VALUES : KEYS;
    kv_entry(l, CMDQ_KV_LOAD_TILE, v, n->layer, head, to, 0);
    tv_queue_builder_object(l->entries, CMDQ_F_kv_range_desc);
    number(l, CMDQ_F_t_start, 0);
    number(l, CMDQ_F_t_len, l->position + l->rows);
    depend(l, l->kv_writer[n->layer]);
    writes(l, to);
    end_entry(l);
}

/* b: NULL: there is no second input. */
static void elementwise(lowering *l, cmdq_opcode opcode, operand a, const operand *b, operand out, uint64_t length)
{
    vector_entry(l, opcode, a, out, 1, length);
    if (b) {
        spm(l, CMDQ_F_in2_bank, b->place, b->offset);
        reads(l, b->place);
    }
    end_entry(l);
}

/* Scores of one head; of several tokens, without those that come behind each. */
static void score(lowering *l, const tv_graph_node *n, uint32_t head, tokens r, operand out)
{
    const cmdq_ranges *ranges = &l->ranges[n->layer];
    uint32_t d = l->model->dims.head_dim;
    operand in = cmdq_activations(l, TURNED, ranges->q / sqrtf((float)d));
    in.offset = ((uint64_t)head * l->rows + r.first) * d * in.qbits / 8;
    tensor_entry(l, CMDQ_TE_QKT_TILE, in, KEYS, out, r.count, seen(l, r), d, 8);
    scale(l, CMDQ_F_scale_wgt, ranges->k);
    end_entry(l);
    operand mask = mask_of(l, r);
    if (l->rows > 1)
        elementwise(l, CMDQ_VE_ADD_TILE, out, &mask, out, (uint64_t)r.count * seen(l, r));
}

/* Scores, softmax and mix of the heads that share head `kv` of the cache, which is in SPM. */
static void attend(lowering *l, const tv_graph_node *n, uint32_t kv, tokens r)
{
    const tv_model_dims *s = &l->model->dims;
    const cmdq_ranges *ranges = &l->ranges[n->layer];
    uint32_t shared = s->heads / s->kv_heads, t = seen(l, r), d = s->head_dim;
    for (uint32_t h = 0; h < shared; h++)
        score(l, n, kv * shared + h, r, (operand){SCORES, (uint64_t)h * r.count * t * 4, 32, 1});
    vector_entry(l, CMDQ_VE_SOFTMAX_TILE, values(SCORES), (operand){SHARES, 0, 16, 1}, (uint64_t)shared * r.count, t);
    end_entry(l);
    for (uint32_t h = 0; h < shared; h++) {
        operand in = {SHARES, (uint64_t)h * r.count * t * 2, 16, 1}, out = cmdq_activations(l, MIXED, ranges->mixed);
        out.offset = ((uint64_t)(kv * shared + h) * l->rows + r.first) * d * out.qbits / 8;
        tensor_entry(l, CMDQ_TE_AV_TILE, in, VALUES, out, r.count, d, t, 8);
        scale(l, CMDQ_F_scale_wgt, ranges->v);
        end_entry(l);
    }
}

/* Three nodes of the graph at once, since the cache comes to SPM head by head. */
static void attention(lowering *l, const tv_graph_node *n)
{
    for (uint32_t kv = 0; kv < l->model->dims.kv_heads; kv++) {
        fetch(l, n, kv, false);
        fetch(l, n, kv, true);
        for (uint32_t first = 0; first < l->rows; first += SEEN_ROWS)
            attend(l, n, kv, tokens_from(l, first));
    }
}

static operand hidden(const lowering *l, uint32_t layer)
{
    return cmdq_activations(l, HIDDEN, l->ranges[layer].hidden);
}

/* Its SiLU, in place. */
static void silu(lowering *l, unsigned gate, uint64_t count)
{
    elementwise(l, CMDQ_VE_SILU_TILE, values(gate), NULL, values(gate), count);
}

static void multiply(lowering *l, unsigned a, unsigned b, operand out, uint64_t count)
{
    const operand second = values(b);
    elementwise(l, CMDQ_VE_MUL_TILE, values(a), &second, out, count);
}

/* Gate, up and what is made of them, unit after unit of the hidden columns: four nodes of the graph at once, so that
 * only two units need room. */
static void feed_forward(lowering *l, const tv_graph_node *n, operand in)
{
    const matrix *gate = matrix_of(l, TV_WEIGHT_GATE, n->layer), *up = matrix_of(l, TV_WEIGHT_UP, n->layer);
    for (uint32_t column = 0; column < gate->rows; column += l->unit) {
        unsigned slot = column / l->unit % SLOTS;
        uint32_t columns = gate->rows - column < l->unit ? gate->rows - column : l->unit;
        uint64_t count = (uint64_t)l->rows * columns;
        operand out = hidden(l, n->layer);
        out.offset = (uint64_t)column * l->rows * out.qbits / 8;
        product(l, gate, in, values(GATE + slot), ANEW, column, columns, 0, gate->columns, l->rows);
        product(l, up, in, values(UP + slot), ANEW, column, columns, 0, up->columns, l->rows);
        silu(l, GATE + slot, count);
        multiply(l, GATE + slot, UP + slot, out, count);
    }
}

static void logits(lowering *l, const matrix *w, operand in, uint32_t m)
{
    uint32_t fit = (uint32_t)(l->places[LOGITS].bytes / 4 / m), step = rows_that_fit(l, w->columns);
    step = step < fit ? step : fit;
    for (uint32_t row = 0; row < w->rows; row += step) {
        uint32_t rows = w->rows - row < step ? w->rows - row : step;
        product(l, w, in, values(LOGITS), ANEW, row, rows, 0, w->columns, m);
        transfer(l, CMDQ_DMA_STORE_TILE, "activation", 32, l->logits_addr + (uint64_t)row * 4, m, rows,
                 (uint64_t)w->rows * 4);
        spm(l, CMDQ_F_spm_bank, LOGITS, 0);
        reads(l, LOGITS);
        end_entry(l);
    }
}

static void matmul(lowering *l, const tv_graph_node *n, uint32_t first)
{
    const matrix *w = matrix_of(l, n->weight, n->layer);
    const operand in = input(l, n->weight == TV_WEIGHT_O ? MIXED : n->weight == TV_WEIGHT_DOWN ? HIDDEN : XN);
    uint32_t d = l->model->dims.head_dim;
    switch (n->weight) {
    case TV_WEIGHT_Q:
        product_by_rows(l, w, in, values(QUERY), ANEW, d);
        break;
    case TV_WEIGHT_K:
        product_by_rows(l, w, in, values(KEY), ANEW, d);
        break;
    case TV_WEIGHT_V:
        product_by_rows(l, w, in, (operand){VALUE8, 0, 8, l->ranges[n->layer].v}, ANEW, d);
        break;
    case TV_WEIGHT_O:
        product_by_columns(l, w, in, d);
        break;
    case TV_WEIGHT_GATE:
        if (l->rows > 1)
            feed_forward(l, n, in);
        else
            product_by_rows(l, w, in, values(GATE), ANEW, w->rows);
        break;
    case TV_WEIGHT_UP:
        if (l->rows == 1)
            product_by_rows(l, w, in, values(UP), ANEW, w->rows);
        break;
    case TV_WEIGHT_DOWN:
        product_by_columns(l, w, in, l->unit);
        break;
    default:
        logits(l, w, in, l->rows - first);
        break;
    }
}

void cmdq_lower_node(lowering *l, const tv_graph_node *n, uint32_t first)
{
    tv_graph_block_name(l->graph, n, l->part);
    const tv_model_dims *s = &l->model->dims;
    switch (n->op) {
    case TV_OP_EMBED:
        embed(l);
        break;
    case TV_OP_RMSNORM:
        norm(l, n, first);
        break;
    case TV_OP_MATMUL:
        matmul(l, n, first);
        break;
    case TV_OP_ROPE:
        if (made_by(l, n->inputs[0]) == TV_WEIGHT_Q)
            rope(l, n, QUERY, cmdq_activations(l, TURNED, l->ranges[n->layer].q));
        else
            rope(l, n, KEY, (operand){KEY8, 0, 8, l->ranges[n->layer].k});
        break;
    case TV_OP_APPEND:
        append(l, n);
        break;
    case TV_OP_SCORES:
        attention(l, n);
        break;
    case TV_OP_SOFTMAX:
    case TV_OP_WEIGHTED_SUM: /* done with the scores */
    case TV_OP_ADD:
        break;      /* done with the product */
    case TV_OP_MUL: /* of more tokens than one both are done with the gate */
        if (l->rows == 1)
            multiply(l, GATE, UP, hidden(l, n->layer), s->hidden);
        break;
    case TV_OP_SILU:
        if (l->rows == 1)
            silu(l, GATE, s->hidden);
        break;
    case TV_OPS:
        break;
    }
}
