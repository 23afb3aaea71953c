/* SPDX-License-Identifier: Apache-2.0 */
/* Products of two values, matrix by matrix of a batch, and attention: a product, functions of its rows and another
 * product, which pass from one to the next tile by tile. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "lower/cmdq/network.h"

enum { CHAIN_MAX = 6, PIPELINE = 4 };

/* ---- Matrices of a batch ---- */

/* The last two axes of an operand, in its storage: element (i, k) of a matrix is i * row + k * column after its first
 * one. */
typedef struct matrices {
    uint32_t value, rank;
    uint64_t rows, columns, row, column;
    uint64_t batch[TV_GRAPH_RANK_MAX]; /* distances along the axes of the result before the last two; 0: repeated */
} matrices;

static matrices describe(const cmdq_network *net, uint32_t value, uint32_t output)
{
    const tv_graph_shape *s = cmdq_net_dims(net, value), *out = cmdq_net_dims(net, output);
    const cmdq_net_value *v = &net->values[value];
    matrices m = {.value = value, .rank = out->rank};
    m.rows = (uint64_t)s->dims[s->rank - 2];
    m.columns = (uint64_t)s->dims[s->rank - 1];
    m.row = v->strides[s->rank - 2];
    m.column = v->strides[s->rank - 1];
    for (uint32_t i = 0; i + 2 < s->rank; i++)
        m.batch[out->rank - s->rank + i] = s->dims[i] == 1 ? 0 : v->strides[i];
    return m;
}

/* The first element of matrix `index` of the result's batch. */
static uint64_t matrix_at(const cmdq_network *net, const matrices *m, uint32_t output, uint64_t index)
{
    const tv_graph_shape *out = cmdq_net_dims(net, output);
    uint64_t at = net->values[m->value].first;
    for (uint32_t i = m->rank - 2; i-- > 0; index /= (uint64_t)out->dims[i])
        at += index % (uint64_t)out->dims[i] * m->batch[i];
    return at;
}

/* Whether the batch of an operand is that of the result, or is repeated. */
static bool has_batch(const cmdq_network *net, uint32_t value, uint32_t output)
{
    const tv_graph_shape *s = cmdq_net_dims(net, value), *out = cmdq_net_dims(net, output);
    bool same = s->rank >= 2 && s->rank <= out->rank;
    for (uint32_t i = 0; same && i + 2 < s->rank; i++)
        same = s->dims[i] == 1 || s->dims[i] == out->dims[out->rank - s->rank + i];
    return same;
}

const char *cmdq_net_matmul_lacks(const cmdq_network *net, const tv_graph_node *n)
{
    const tv_graph_shape *b = cmdq_net_dims(net, n->inputs[1]);
    bool fits = b->rank >= 2 && (uint64_t)(b->dims[b->rank - 1] * b->dims[b->rank - 2]) <= net->l.bank_bytes;
    for (unsigned k = 0; k < 2; k++)
        fits = fits && has_batch(net, n->inputs[k], n->output) &&
               tv_graph_value_at(net->graph, n->inputs[k])->source != TV_VALUE_CONSTANT;
    return fits ? NULL : "such product of two values";
}

/* ---- Operands ---- */

/* Rows of an operand in SPM. */
typedef struct rows_operand {
    cmdq_lower_operand at;
    uint64_t rows, count, apart; /* apart: bytes from row to row */
} rows_operand;

/* Rows of a value, `stride` elements apart: where they are, or brought into a slot. */
static rows_operand read_rows(cmdq_network *net, uint32_t value, uint64_t first, uint64_t rows, uint64_t count,
                              uint64_t stride, cmdq_net_slots *slots)
{
    rows_operand x = {.rows = rows, .count = count};
    uint64_t extent = (rows - 1) * stride + count;
    if (cmdq_net_storage(net, value)->segment_count &&
        (cmdq_net_is_resident(net, value, first, extent) || stride == count)) {
        bool resident = cmdq_net_is_resident(net, value, first, extent);
        x.at = cmdq_net_read(net, value, first, extent, resident ? TV_NO_VALUE : cmdq_net_next_slot(slots));
        x.apart = cmdq_net_bytes(net, value, stride);
        return x;
    }
    cmdq_net_store(net, value);
    x.at = cmdq_net_read_rows(net, value, first, rows, count, stride, cmdq_net_next_slot(slots));
    x.apart = cmdq_net_bytes(net, value, count);
    return x;
}

static void set_apart(cmdq_network *net, cmdq_field field, const rows_operand *x)
{
    if (x->rows > 1 && x->apart != x->count * x->at.qbits / 8)
        cmdq_lower_set_integer(&net->l, field, x->apart);
}

static void add_read(cmdq_network *net, const rows_operand *x)
{
    cmdq_lower_add_read(&net->l, x->at.buffer);
    cmdq_net_share_rows_of_input(net, x->at, x->rows, x->count, x->apart);
}

/* Begins a product; `by_rows`: the second operand has a row for each column of the result. The caller adds what is
 * written, and ends the entry. */
static void begin_product(cmdq_network *net, const rows_operand *a, const rows_operand *b, const rows_operand *y,
                          bool by_rows, float factor)
{
    cmdq_lowering *l = &net->l;
    tv_queue_builder_opcode(l->builder, by_rows ? CMDQ_TE_QKT_TILE : CMDQ_TE_AV_TILE);
    cmdq_lower_set_integer(l, CMDQ_F_te_id, l->next_te++ % l->te);
    cmdq_lower_set_integer(l, CMDQ_F_m, a->rows);
    cmdq_lower_set_integer(l, CMDQ_F_n, y->count);
    cmdq_lower_set_integer(l, CMDQ_F_k, a->count);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_weight, b->at.qbits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_activation, a->at.qbits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_ofm, y->at.qbits);
    cmdq_lower_set_address(l, CMDQ_F_ifm_bank, a->at.buffer, a->at.offset);
    cmdq_lower_set_address(l, CMDQ_F_wgt_bank, b->at.buffer, b->at.offset);
    cmdq_lower_set_address(l, CMDQ_F_ofm_bank, y->at.buffer, y->at.offset);
    cmdq_lower_set_scale(l, CMDQ_F_scale_ifm, a->at.scale);
    cmdq_lower_set_scale(l, CMDQ_F_scale_wgt, b->at.scale);
    cmdq_lower_set_scale(l, CMDQ_F_scale_ofm, y->at.scale / factor);
    set_apart(net, CMDQ_F_ifm_stride, a);
    set_apart(net, CMDQ_F_wgt_stride, b);
    set_apart(net, CMDQ_F_ofm_stride, y);
    add_read(net, a);
    add_read(net, b);
    cmdq_lower_add_write(l, y->at.buffer);
}

/* The rows of the result for writing: where the result is stored, or a slot. */
static rows_operand write_rows(const cmdq_network *net, const matrices *y, uint64_t first, uint64_t rows,
                               cmdq_net_slots *slots)
{
    rows_operand x = {.rows = rows, .count = y->columns};
    bool resident = cmdq_net_storage(net, y->value)->segment_count > 0;
    x.at = cmdq_net_write(net, y->value, first, (rows - 1) * y->row + y->columns,
                          resident ? TV_NO_VALUE : cmdq_net_next_slot(slots));
    x.apart = cmdq_net_bytes(net, y->value, resident ? y->row : y->columns);
    return x;
}

/* Ends the product that writes `x`. */
static void end_product(cmdq_network *net, const matrices *y, const rows_operand *x, uint64_t first)
{
    bool resident = cmdq_net_storage(net, y->value)->segment_count > 0;
    cmdq_net_share_rows_of_output(net, y->value, x->at, x->rows, x->count, x->apart);
    cmdq_lower_finish_entry(&net->l);
    if (!resident)
        cmdq_net_written_rows(net, y->value, first, x->rows, x->count, y->row, x->at);
    else if (cmdq_net_storage(net, y->value)->is_output)
        cmdq_net_written(net, y->value, first, (x->rows - 1) * y->row + x->count, x->at);
    net->layers[net->node].tiles++;
}

/* Makes the result resident; one that is stored in the order of another value only in one segment, which its rows do
 * not cross. */
static void locate_output(cmdq_network *net, uint32_t value)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    bool apart = net->values[value].is_view;
    if (!apart || (v->elements * v->qbits / 8 <= net->l.bank_bytes && !v->is_output))
        cmdq_net_make_resident(net, value);
}

/* ---- Products ---- */

/* A product of two values, in tiles of rows of the first. */
typedef struct product {
    matrices a, b, y;
    bool by_rows; /* the second operand is stored with its columns as rows */
    uint64_t batches, tile;
} product;

static product describe_product(const cmdq_network *net, uint32_t a, uint32_t b, uint32_t output)
{
    product p = {.a = describe(net, a, output), .b = describe(net, b, output), .y = describe(net, output, output)};
    p.by_rows = p.b.column != 1 && p.b.row == 1;
    p.batches = net->values[output].elements / (p.y.rows * p.y.columns);
    uint64_t row = tv_max_u64(cmdq_net_bytes(net, a, p.a.columns), cmdq_net_bytes(net, output, p.y.columns));
    p.tile = tv_min_u64(p.y.rows, tv_max_u64(1, cmdq_net_tile_bytes(net) / row));
    return p;
}

/* The second operand of matrix `batch`. */
static rows_operand read_second(cmdq_network *net, const product *p, uint64_t batch, cmdq_net_slots *slots)
{
    const matrices *b = &p->b;
    uint64_t at = matrix_at(net, b, p->y.value, batch);
    return p->by_rows ? read_rows(net, b->value, at, b->columns, b->rows, b->column, slots)
                      : read_rows(net, b->value, at, b->rows, b->columns, b->row, slots);
}

static void emit_matmul(cmdq_network *net, const tv_graph_node *n)
{
    product p = describe_product(net, n->inputs[0], n->inputs[1], n->output);
    locate_output(net, n->output);
    cmdq_net_slots left = cmdq_net_slots_for(net, n->inputs[0], p.tile * p.a.columns),
                   right = cmdq_net_slots_for(net, n->inputs[1], p.b.rows * p.b.columns),
                   out = cmdq_net_slots_for(net, n->output, p.tile * p.y.columns);
    cmdq_net_explain(net, "%" PRIu64 " of %" PRIu64 " rows a tile", p.tile, p.y.rows);
    for (uint64_t batch = 0; batch < p.batches && net->status == TV_OK; batch++) {
        rows_operand b = read_second(net, &p, batch, &right);
        for (uint64_t row = 0, rows; row < p.y.rows && net->status == TV_OK; row += rows) {
            uint64_t first = matrix_at(net, &p.y, n->output, batch) + row * p.y.row;
            rows = tv_min_u64(p.tile, p.y.rows - row);
            if (p.y.row == p.y.columns) /* a segment may end between its rows */
                rows = tv_max_u64(1, cmdq_net_run_length(net, n->output, first, rows * p.y.columns) / p.y.columns);
            rows_operand a = read_rows(net, n->inputs[0], matrix_at(net, &p.a, n->output, batch) + row * p.a.row, rows,
                                       p.a.columns, p.a.row, &left),
                         y = write_rows(net, &p.y, first, rows, &out);
            begin_product(net, &a, &b, &y, p.by_rows, 1);
            end_product(net, &p.y, &y, first);
        }
    }
    cmdq_net_release_slots(net, &left);
    cmdq_net_release_slots(net, &right);
    cmdq_net_release_slots(net, &out);
}

/* ---- Attention ---- */

/* From a product to the next: its results times a factor, plus a mask, through Softmax. */
typedef struct attention {
    const tv_graph_node *first, *softmax, *last;
    uint32_t nodes[CHAIN_MAX], count; /* nodes before the last */
    float factor;
    uint32_t mask; /* TV_NO_VALUE: none */
} attention;

static const tv_graph_node *producer_of(const cmdq_network *net, uint32_t value)
{
    const tv_graph_value *v = tv_graph_value_at(net->graph, value);
    return v->source == TV_VALUE_COMPUTED ? tv_graph_node_at(net->graph, v->producer) : NULL;
}

/* A factor that is the same for all elements, of Mul or Div; false: it is none. */
static bool find_factor(const cmdq_network *net, const tv_graph_node *n, float *factor)
{
    const tv_tensor *t =
        n->op == TV_OP_MUL || n->op == TV_OP_DIV ? tv_graph_value_at(net->graph, n->inputs[1])->tensor : NULL;
    if (!t || tv_tensor_count(t) != 1)
        return false;
    float x = t->data ? (float)tv_tensor_real(t, 0) : 1;
    *factor = n->op == TV_OP_MUL ? x : 1 / x;
    return isfinite(*factor) && *factor != 0;
}

/* A mask has a row for all rows of a matrix, or one for each, and all columns. */
static bool is_mask(const cmdq_network *net, uint32_t value, uint32_t output)
{
    const tv_graph_shape *s = cmdq_net_dims(net, value), *out = cmdq_net_dims(net, output);
    return s->rank >= 1 && s->dims[s->rank - 1] == out->dims[out->rank - 1] && s->rank >= 2 &&
           (s->dims[s->rank - 2] == 1 || s->dims[s->rank - 2] == out->dims[out->rank - 2]) &&
           has_batch(net, value, output) && !net->values[value].is_view && !net->channels_last[value];
}

/* The chain that ends with product `n`, followed from there to its beginning. */
static bool find_attention(const cmdq_network *net, const tv_graph_node *n, attention *out)
{
    *out = (attention){.last = n, .factor = 1, .mask = TV_NO_VALUE};
    const tv_graph_node *at = n->op == TV_OP_MATMUL ? producer_of(net, n->inputs[0]) : NULL;
    bool scaled = false;
    for (; at && out->count < CHAIN_MAX; at = producer_of(net, at->inputs[0])) {
        float factor;
        if (tv_graph_uses(net->graph, at->output) != 1 || net->values[at->output].is_view ||
            net->channels_last[at->output])
            return false;
        out->nodes[out->count++] = cmdq_lower_node_index(&net->l, at);
        if (at->op == TV_OP_SOFTMAX && !out->softmax) {
            out->softmax = at;
        } else if (at->op == TV_OP_ADD && out->softmax && out->mask == TV_NO_VALUE && !scaled &&
                   is_mask(net, at->inputs[1], at->output)) {
            out->mask = at->inputs[1];
        } else if (out->softmax && find_factor(net, at, &factor)) {
            out->factor *= factor;
            scaled = true;
        } else {
            out->first = at;
            return at->op == TV_OP_MATMUL && out->softmax && !net->keep_values;
        }
    }
    return false;
}

/* Marks a node as one that `last` executes, and keeps what it reads until then. */
static void mark_node(cmdq_network *net, uint32_t node, uint32_t last)
{
    const tv_graph_node *n = tv_graph_node_at(net->graph, node);
    net->in_attention[node] = last + 1;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (n->inputs[k] != TV_NO_VALUE)
            cmdq_net_storage(net, n->inputs[k])->last_use =
                (uint32_t)tv_max_u64(cmdq_net_storage(net, n->inputs[k])->last_use, last);
}

void cmdq_net_find_attention(cmdq_network *net)
{
    attention a;
    for (uint32_t i = 0; i < net->graph->nodes.count; i++)
        if (find_attention(net, tv_graph_node_at(net->graph, i), &a))
            for (uint32_t k = 0; k < a.count; k++)
                mark_node(net, a.nodes[k], i);
}

/* Buffers of the tiles between the products. */
typedef struct pipeline {
    uint32_t scores[PIPELINE], weights[PIPELINE];
    uint64_t next;
} pipeline;

static void release_pipeline(cmdq_network *net, const pipeline *s)
{
    for (unsigned i = 0; i < PIPELINE; i++) {
        cmdq_net_release(net, s->scores[i]);
        cmdq_net_release(net, s->weights[i]);
    }
}

/* Buffers for tiles of rows; with fewer rows where there is no space. */
static pipeline allocate_pipeline(cmdq_network *net, const attention *a, product *p)
{
    pipeline s;
    for (;; p->tile /= 2, net->status = TV_OK) {
        uint64_t elements = p->tile * p->y.columns;
        for (unsigned i = 0; i < PIPELINE; i++)
            s.scores[i] = s.weights[i] = TV_NO_VALUE;
        for (unsigned i = 0; i < PIPELINE && net->status == TV_OK; i++)
            s.scores[i] = cmdq_net_buffer(net, elements * 2);
        for (unsigned i = 0; i < PIPELINE && net->status == TV_OK; i++)
            s.weights[i] = cmdq_net_buffer(net, cmdq_net_bytes(net, a->softmax->output, elements));
        if (net->status != TV_ERR_INPUT || p->tile < 2)
            break;
        release_pipeline(net, &s);
    }
    s.next = 0;
    return s;
}

/* Adds the rows of the mask that belong to rows [row, row + x->rows) of a matrix. */
static void add_mask(cmdq_network *net, const attention *a, const product *p, cmdq_lower_operand mask,
                     const rows_operand *x, uint64_t batch, uint64_t row)
{
    matrices m = describe(net, a->mask, p->y.value);
    bool repeated = m.rows == 1;
    uint64_t at = matrix_at(net, &m, p->y.value, batch) + (repeated ? 0 : row * m.columns);
    cmdq_lower_operand second = cmdq_lower_skip(mask, at);
    cmdq_lower_begin_vector(&net->l, CMDQ_VE_ADD_TILE, x->at, x->at, repeated ? x->rows : 1,
                            repeated ? x->count : x->rows * x->count);
    cmdq_lower_set_address(&net->l, CMDQ_F_in2_bank, second.buffer, second.offset);
    cmdq_lower_set_scale(&net->l, CMDQ_F_scale_in2, second.scale);
    if (second.qbits != x->at.qbits)
        cmdq_lower_set_integer(&net->l, CMDQ_F_qbits_in2, second.qbits);
    if (repeated)
        tv_queue_builder_text(net->l.builder, CMDQ_F_broadcast, "row");
    cmdq_lower_add_read(&net->l, second.buffer);
    cmdq_lower_finish_entry(&net->l);
}

/* One tile of rows, from the first product to the weights of the second. */
static rows_operand emit_scores(cmdq_network *net, const attention *a, const product *p, pipeline *s,
                                const rows_operand *query, const rows_operand *keys, cmdq_lower_operand mask,
                                uint64_t batch, uint64_t row)
{
    const cmdq_net_value *w = cmdq_net_storage(net, a->softmax->output);
    unsigned slot = (unsigned)(s->next++ % PIPELINE);
    rows_operand x = {{s->scores[slot], 0, 16, 1}, query->rows, p->y.columns, p->y.columns * 2},
                 y = {
                     {s->weights[slot], 0, w->qbits, w->scale}, query->rows, p->y.columns, p->y.columns * w->qbits / 8};
    begin_product(net, query, keys, &x, p->by_rows, a->factor);
    cmdq_lower_finish_entry(&net->l);
    if (a->mask != TV_NO_VALUE)
        add_mask(net, a, p, mask, &x, batch, row);
    cmdq_lower_begin_vector(&net->l, CMDQ_VE_SOFTMAX_TILE, x.at, y.at, x.rows, x.count);
    cmdq_lower_finish_entry(&net->l);
    return y;
}

static bool emit_attention(cmdq_network *net, const tv_graph_node *n)
{
    attention a;
    if (!find_attention(net, n, &a))
        return false;
    const tv_graph_node *f = a.first;
    product p = describe_product(net, f->inputs[0], f->inputs[1], f->output),
            o = describe_product(net, n->inputs[0], n->inputs[1], n->output);
    p.tile = tv_min_u64(p.y.rows, tv_max_u64(1, cmdq_net_tile_bytes(net) / 2 / p.y.columns));
    locate_output(net, n->output);
    cmdq_net_slots mask_slots = cmdq_net_no_slots();
    cmdq_lower_operand mask = {.buffer = TV_NO_VALUE};
    if (a.mask != TV_NO_VALUE)
        mask = cmdq_net_load_operand(net, a.mask, &mask_slots);
    pipeline s = allocate_pipeline(net, &a, &p);
    cmdq_net_slots q = cmdq_net_slots_for(net, f->inputs[0], p.tile * p.a.columns),
                   k = cmdq_net_slots_for(net, f->inputs[1], p.b.rows * p.b.columns),
                   v = cmdq_net_slots_for(net, n->inputs[1], o.b.rows * o.b.columns),
                   out = cmdq_net_slots_for(net, n->output, p.tile * o.y.columns);
    cmdq_net_explain(net,
                     "with the %" PRIu32 " nodes before it, %" PRIu64 " of %" PRIu64
                     " rows of a matrix at once, %d tiles in flight",
                     a.count, p.tile, p.y.rows, PIPELINE);
    for (uint64_t batch = 0; batch < p.batches && net->status == TV_OK; batch++) {
        rows_operand keys = read_second(net, &p, batch, &k), values = read_second(net, &o, batch, &v);
        for (uint64_t row = 0, rows; row < p.y.rows && net->status == TV_OK; row += rows) {
            uint64_t first = matrix_at(net, &o.y, n->output, batch) + row * o.y.row;
            rows = tv_min_u64(p.tile, p.y.rows - row);
            if (o.y.row == o.y.columns)
                rows = tv_max_u64(1, cmdq_net_run_length(net, n->output, first, rows * o.y.columns) / o.y.columns);
            rows_operand query = read_rows(net, f->inputs[0], matrix_at(net, &p.a, f->output, batch) + row * p.a.row,
                                           rows, p.a.columns, p.a.row, &q);
            rows_operand w = emit_scores(net, &a, &p, &s, &query, &keys, mask, batch, row),
                         y = write_rows(net, &o.y, first, rows, &out);
            begin_product(net, &w, &values, &y, o.by_rows, 1);
            end_product(net, &o.y, &y, first);
        }
        cmdq_net_load_ahead(net, net->node + 1, 0);
    }
    release_pipeline(net, &s);
    cmdq_net_slots *const all[] = {&mask_slots, &q, &k, &v, &out};
    for (unsigned i = 0; i < TV_COUNTOF(all); i++)
        cmdq_net_release_slots(net, all[i]);
    return true;
}

void cmdq_net_emit_matmul(cmdq_network *net, const tv_graph_node *n)
{
    if (!emit_attention(net, n))
        emit_matmul(net, n);
}
