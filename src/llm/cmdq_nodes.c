/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of the graph as entries of a queue. Whoever writes or reads a place in SPM is remembered, and every entry waits for
 * those before it that it must: the queue has no hazard by construction. */
#include <inttypes.h>
#include <math.h>

#include "llm/cmdq_lowering.h"

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

/* Ends the entry that has been printed but for its dependencies; returns its id. */
static uint32_t end_entry(lowering *l)
{
    uint32_t id = l->count++;
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
    const uint32_t *deps = (const uint32_t *)(const void *)l->deps.data;
    tv_buf_printf(&l->text, ", \"layer_id\": \"%s\", \"deps_before\": [", l->part);
    for (size_t i = 0; i < l->deps.len / sizeof *deps; i++)
        tv_buf_printf(&l->text, i ? ", %" PRIu32 : "%" PRIu32, deps[i]);
    tv_buf_str(&l->text, "]},\n");
    l->deps.len = 0;
    l->read_count = l->write_count = 0;
    return id;
}

static void spm(lowering *l, const char *prefix, unsigned p, uint64_t offset)
{
    tv_buf_printf(&l->text, ", \"%s_bank\": %u, \"%s_offset\": %" PRIu64, prefix, l->places[p].bank, prefix, l->places[p].offset + offset);
}

/* Loads `rows` stretches of `elements`, `stride` bytes apart (0: one stretch). */
static void load(lowering *l, unsigned p, const char *role, unsigned qbits, uint64_t addr, uint64_t rows, uint64_t elements, uint64_t stride)
{
    tv_buf_printf(&l->text, "{\"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": \"%s\", \"qbits\": %u, \"dram_addr\": %" PRIu64 ", \"num_elements\": %" PRIu64, role,
                  qbits, addr, rows * elements);
    if (rows > 1 && stride != elements * qbits / 8)
        tv_buf_printf(&l->text, ", \"stride_bytes\": %" PRIu64 ", \"row_elements\": %" PRIu64, stride, elements);
    spm(l, "spm", p, 0);
    writes(l, p);
    end_entry(l);
}

/* ---- Matrix products ---- */

/* out[m][rows] (+)= in[m][columns] times rows `row` on, columns `column` on, of the weight. */
static void product(lowering *l, const tv_graph_node *n, operand in, operand out, uint32_t row, uint32_t rows, uint32_t column, uint32_t columns, uint32_t m)
{
    const matrix *w = matrix_of(l, n->weight, n->layer);
    unsigned slot = l->slot++ % SLOTS;
    load(l, WEIGHTS + slot, "weight", l->weight_bits, w->data + row * w->row_bytes + (uint64_t)column * l->weight_bits / 8, rows, columns, w->row_bytes);
    uint64_t scale_row = w->columns / l->group * 4;
    load(l, SCALES + slot, "weight", 32, w->scales + row * scale_row + column / l->group * 4, rows, columns / l->group, scale_row);
    tv_buf_printf(&l->text, "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": %u, \"m\": %u, \"n\": %u, \"k\": %u, \"qbits_weight\": %u, \"qbits_activation\": %u, \"qbits_ofm\": %u",
                  l->te_turn++ % l->te, m, rows, columns, l->weight_bits, in.qbits, out.qbits);
    spm(l, "ifm", in.place, in.offset);
    spm(l, "wgt", WEIGHTS + slot, 0);
    spm(l, "wgt_scale", SCALES + slot, 0);
    spm(l, "ofm", out.place, out.offset);
    tv_buf_printf(&l->text, ", \"wgt_group\": %u%s", l->group, column ? ", \"accumulate\": true" : "");
    if (out.scale != 1)
        tv_buf_printf(&l->text, ", \"scale_ofm\": %.9g", (double)out.scale);
    reads(l, in.place);
    reads(l, WEIGHTS + slot);
    reads(l, SCALES + slot);
    writes(l, out.place);
    end_entry(l);
}

/* Whole rows of input. With one token the output's columns follow each other, and blocks are as large as a bank; with more,
 * each `unit` of columns is a place [m][unit] of its own. */
static void product_by_rows(lowering *l, const tv_graph_node *n, operand in, operand out, uint32_t unit)
{
    const matrix *w = matrix_of(l, n->weight, n->layer);
    uint32_t m = l->rows, most = rows_that_fit(l, w->columns), step = m == 1 ? most : unit < most ? unit : most;
    for (uint32_t row = 0; row < w->rows; row += step) {
        operand to = out;
        uint32_t rows = w->rows - row < step ? w->rows - row : step;
        to.offset += (uint64_t)row * m * out.qbits / 8;
        product(l, n, in, to, row, rows, 0, w->columns, m);
    }
}

/* Input in places [m][unit]: their products are summed in the output. */
static void product_by_columns(lowering *l, const tv_graph_node *n, operand in, operand out, uint32_t unit)
{
    const matrix *w = matrix_of(l, n->weight, n->layer);
    if (l->rows == 1) {
        product_by_rows(l, n, in, out, w->rows);
        return;
    }
    for (uint32_t column = 0; column < w->columns; column += unit) {
        operand from = in;
        uint32_t columns = w->columns - column < unit ? w->columns - column : unit;
        from.offset += (uint64_t)column * l->rows * in.qbits / 8;
        product(l, n, from, out, 0, w->rows, column, columns, l->rows);
    }
}

/* ---- Nodes ---- */

static void vector_entry(lowering *l, const char *opcode, unsigned in, uint64_t in_offset, unsigned in_bits, unsigned out, uint64_t out_offset, unsigned out_bits,
                         uint64_t rows, uint64_t length)
{
    tv_buf_printf(&l->text, "{\"opcode\": \"%s\", \"ve_id\": %u, \"rows\": %" PRIu64 ", \"length\": %" PRIu64 ", \"qbits_activation\": %u, \"qbits_out\": %u", opcode,
                  l->ve_turn++ % l->ve, rows, length, in_bits, out_bits);
    spm(l, "in", in, in_offset);
    spm(l, "out", out, out_offset);
    reads(l, in);
    writes(l, out);
}

static void embed(lowering *l) { load(l, X, "embedding", 32, l->x_addr, 1, (uint64_t)l->rows * l->model->shape.dim, 0); }

/* The final norm is wanted of the last token alone, where the logits are. */
static void norm(lowering *l, const tv_graph_node *n, unsigned in, bool last_only)
{
    uint32_t dim = l->model->shape.dim, skipped = last_only ? l->rows - 1 : 0;
    load(l, GAINS, "weight", 32, matrix_of(l, n->weight, n->layer)->data, 1, dim, 0);
    vector_entry(l, "VE_RMSNORM_TILE", in, (uint64_t)skipped * dim * 4, 32, XN, 0, 16, l->rows - skipped, dim);
    spm(l, "gamma", GAINS, 0);
    tv_buf_printf(&l->text, ", \"eps\": %.9g", (double)l->model->shape.eps);
    reads(l, GAINS);
    end_entry(l);
}

/* Turns the heads of `in`, [heads][rows][head_dim]; with one token all heads are one row. */
static void rope(lowering *l, const tv_graph_node *n, unsigned in, unsigned out, unsigned out_bits, float scale)
{
    uint32_t d = l->model->shape.head_dim, calls = l->rows == 1 ? 1 : n->heads;
    for (uint32_t h = 0; h < calls; h++) {
        uint64_t at = (uint64_t)h * l->rows * d;
        vector_entry(l, "VE_ROPE_TILE", in, at * 4, 32, out, at * out_bits / 8, out_bits, l->rows, calls == 1 ? (uint64_t)n->heads * d : d);
        tv_buf_printf(&l->text, ", \"head_dim\": %" PRIu32 ", \"position\": %" PRIu32 ", \"theta\": %.9g, \"scale_out\": %.9g", d, l->position,
                      (double)l->model->shape.theta, (double)scale);
        end_entry(l);
    }
}

static void kv_entry(lowering *l, const char *opcode, char kind, uint32_t layer, uint32_t head, unsigned p, uint64_t offset)
{
    tv_buf_printf(&l->text, "{\"opcode\": \"%s\", \"head_id\": %" PRIu32 ", \"kv_kind\": \"%c\", \"qbits_kv\": 8, \"kv_layout_id\": %" PRIu32, opcode, head, kind, layer);
    spm(l, "spm", p, offset);
}

static void append(lowering *l, const tv_graph_node *n)
{
    for (uint32_t h = 0; h < n->heads; h++)
        for (unsigned v = 0; v < 2; v++) {
            kv_entry(l, "KV_STORE_TILE", v ? 'v' : 'k', n->layer, h, v ? VALUE8 : KEY8, (uint64_t)h * l->rows * l->model->shape.head_dim);
            tv_buf_printf(&l->text, ", \"dram_base_addr\": %" PRIu64 ", \"t_start\": %" PRIu32 ", \"t_len\": %" PRIu32, v ? l->v_base[n->layer] : l->k_base[n->layer],
                          l->position, l->rows);
            reads(l, v ? VALUE8 : KEY8);
            if (l->kv_writer[n->layer] != NO_ENTRY)
                depend(l, l->kv_writer[n->layer]); /* one after the other, so that the last says that all are there */
            l->kv_writer[n->layer] = end_entry(l);
        }
}

static void fetch(lowering *l, const tv_graph_node *n, uint32_t head, unsigned v)
{
    kv_entry(l, "KV_LOAD_TILE", v ? 'v' : 'k', n->layer, head, v ? VALUES : KEYS, 0);
    tv_buf_printf(&l->text, ", \"kv_range_desc\": {\"t_start\": 0, \"t_len\": %" PRIu32 "}", l->position + l->rows);
    depend(l, l->kv_writer[n->layer]);
    writes(l, v ? VALUES : KEYS);
    end_entry(l);
}

/* A product of attention: scores of one head, or its mix. */
static void attend(lowering *l, const char *opcode, operand in, unsigned wgt, operand out, uint32_t n, uint32_t k, float scale_ifm, float scale_wgt)
{
    tv_buf_printf(&l->text, "{\"opcode\": \"%s\", \"te_id\": %u, \"m\": %" PRIu32 ", \"n\": %" PRIu32 ", \"k\": %" PRIu32
                            ", \"qbits_weight\": 8, \"qbits_activation\": %u, \"qbits_ofm\": %u, \"scale_ifm\": %.9g, \"scale_wgt\": %.9g",
                  opcode, l->te_turn++ % l->te, l->rows, n, k, in.qbits, out.qbits, (double)scale_ifm, (double)scale_wgt);
    spm(l, "ifm", in.place, in.offset);
    spm(l, "wgt", wgt, 0);
    spm(l, "ofm", out.place, out.offset);
    reads(l, in.place);
    reads(l, wgt);
    writes(l, out.place);
    end_entry(l);
}

/* Scores, softmax and mix of the heads that share one head of the cache: three nodes of the graph at once, since the cache
 * comes to SPM head by head. */
static void attention(lowering *l, const tv_graph_node *n)
{
    const tv_model_shape *s = &l->model->shape;
    uint32_t shared = s->heads / s->kv_heads, t = l->position + l->rows, d = s->head_dim;
    for (uint32_t kv = 0; kv < s->kv_heads; kv++) {
        fetch(l, n, kv, 0);
        fetch(l, n, kv, 1);
        for (uint32_t h = kv * shared; h < (kv + 1) * shared; h++) {
            uint64_t in = (uint64_t)h * l->rows * d * 2, at = (uint64_t)(h % shared) * l->rows * t;
            attend(l, "TE_QKT_TILE", (operand){TURNED, in, 16, 1}, KEYS, (operand){SCORES, at * 4, 32, 1}, t, d, 1 / sqrtf((float)d), l->k_scale[n->layer]);
        }
        for (uint32_t r = 0; r < (l->rows == 1 ? 1 : shared * l->rows); r++) {
            vector_entry(l, "VE_SOFTMAX_TILE", SCORES, (uint64_t)r * t * 4, 32, SHARES, (uint64_t)r * t * 2, 16, l->rows == 1 ? shared : 1, t);
            tv_buf_printf(&l->text, ", \"valid_length\": %" PRIu32, l->position + r % l->rows + 1);
            end_entry(l);
        }
        for (uint32_t h = kv * shared; h < (kv + 1) * shared; h++) {
            uint64_t out = (uint64_t)h * l->rows * d * 2, at = (uint64_t)(h % shared) * l->rows * t;
            attend(l, "TE_AV_TILE", (operand){SHARES, at * 2, 16, 1}, VALUES, (operand){MIXED, out, 16, 1}, d, t, 1, l->v_scale[n->layer]);
        }
    }
}

static void elementwise(lowering *l, const char *opcode, unsigned a, unsigned b, unsigned out, unsigned out_bits, uint64_t length)
{
    vector_entry(l, opcode, a, 0, 32, out, 0, out_bits, 1, length);
    if (b != PLACES) {
        spm(l, "in2", b, 0);
        reads(l, b);
    }
    end_entry(l);
}

static void logits(lowering *l, const tv_graph_node *n, bool last_only)
{
    const matrix *w = matrix_of(l, n->weight, n->layer);
    uint32_t m = last_only ? 1 : l->rows, fit = (uint32_t)(l->places[LOGITS].bytes / 4 / m), step = rows_that_fit(l, w->columns);
    step = step < fit ? step : fit;
    for (uint32_t row = 0; row < w->rows; row += step) {
        uint32_t rows = w->rows - row < step ? w->rows - row : step;
        product(l, n, (operand){XN, 0, 16, 1}, (operand){LOGITS, 0, 32, 1}, row, rows, 0, w->columns, m);
        tv_buf_printf(&l->text, "{\"opcode\": \"DMA_STORE_TILE\", \"tensor_role\": \"activation\", \"qbits\": 32, \"dram_addr\": %" PRIu64 ", \"num_elements\": %" PRIu64,
                      l->logits_addr + (uint64_t)row * 4, (uint64_t)m * rows);
        if (m > 1)
            tv_buf_printf(&l->text, ", \"stride_bytes\": %" PRIu64 ", \"row_elements\": %" PRIu32, (uint64_t)w->rows * 4, rows);
        spm(l, "spm", LOGITS, 0);
        reads(l, LOGITS);
        end_entry(l);
    }
}

static void matmul(lowering *l, const tv_graph_node *n, bool last_only)
{
    const operand xn = {XN, 0, 16, 1};
    uint32_t d = l->model->shape.head_dim;
    switch (n->weight) {
    case TV_WEIGHT_Q: product_by_rows(l, n, xn, (operand){QUERY, 0, 32, 1}, d); break;
    case TV_WEIGHT_K: product_by_rows(l, n, xn, (operand){KEY, 0, 32, 1}, d); break;
    case TV_WEIGHT_V: product_by_rows(l, n, xn, (operand){VALUE8, 0, 8, l->v_scale[n->layer]}, d); break;
    case TV_WEIGHT_O: product_by_columns(l, n, (operand){MIXED, 0, 16, 1}, (operand){OUTPUT, 0, 32, 1}, d); break;
    case TV_WEIGHT_GATE: product_by_rows(l, n, xn, (operand){GATE, 0, 32, 1}, HIDDEN_UNIT); break;
    case TV_WEIGHT_UP: product_by_rows(l, n, xn, (operand){UP, 0, 32, 1}, HIDDEN_UNIT); break;
    case TV_WEIGHT_DOWN: product_by_columns(l, n, (operand){HIDDEN, 0, 16, 1}, (operand){OUTPUT, 0, 32, 1}, HIDDEN_UNIT); break;
    default: logits(l, n, last_only); break;
    }
}

void cmdq_lower_node(lowering *l, const tv_graph_node *n, bool last_only)
{
    tv_graph_part(l->graph, n, l->part);
    const tv_model_shape *s = &l->model->shape;
    switch (n->op) {
    case TV_OP_EMBED: embed(l); break;
    case TV_OP_RMSNORM: norm(l, n, n->weight == TV_WEIGHT_NORM_FFN ? XA : X, last_only && n->weight == TV_WEIGHT_NORM_FINAL); break;
    case TV_OP_MATMUL: matmul(l, n, last_only); break;
    case TV_OP_ROPE:
        if (made_by(l, n->inputs[0]) == TV_WEIGHT_Q)
            rope(l, n, QUERY, TURNED, 16, 1);
        else
            rope(l, n, KEY, KEY8, 8, l->k_scale[n->layer]);
        break;
    case TV_OP_APPEND: append(l, n); break;
    case TV_OP_SCORES: attention(l, n); break;
    case TV_OP_SOFTMAX:
    case TV_OP_MIX: break; /* done with the scores */
    case TV_OP_ADD: {
        bool first = made_by(l, n->inputs[1]) == TV_WEIGHT_O;
        elementwise(l, "VE_ADD_TILE", first ? X : XA, OUTPUT, first ? XA : X, 32, (uint64_t)l->rows * s->dim);
        break;
    }
    case TV_OP_MUL: elementwise(l, "VE_MUL_TILE", GATE, UP, HIDDEN, 16, (uint64_t)l->rows * s->hidden); break;
    case TV_OP_SILU: elementwise(l, "VE_SILU_TILE", GATE, PLACES, GATE, 32, (uint64_t)l->rows * s->hidden); break;
    case TV_OPS: break;
    }
}
