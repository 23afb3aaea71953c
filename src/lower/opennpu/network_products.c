/* SPDX-License-Identifier: Apache-2.0 */
/* Products of rows with weights, and of two computed values.
 *
 * The array adds a column of K outputs times a row of K rows of the input, so an input needs vectors whose lanes are
 * rows: the array transposes its 8-bit copy, by adding unit vectors times rows and draining the columns. It stays for
 * all products that read the value. A column of the result has lanes that are outputs of one row. */
#include <stdlib.h>

#include "graph/quantize.h"
#include "lower/opennpu/network_state.h"

/* Rows and columns of a product, as an array of tiles of K x K results. */
typedef struct product {
    uint64_t rows, inner, outputs;
    uint64_t x;             /* planes [block of rows][inner][K], or [inner] of one row */
    uint64_t w;             /* weights */
    uint64_t w_bytes;       /* of a block of outputs */
    bool single;            /* weights are vectors of one column, not interleaved */
    uint64_t scales, bias;  /* vectors; 0: `factor` for all */
    uint32_t factor;        /* FP32 bits */
    uint64_t residual, out; /* residual 0: none */
    uint64_t *tiles;
} product;

size_t opennpu_net_list(opennpu_network *net, uint64_t w, size_t count, bool transposed)
{
    size_t n = 0;
    for (size_t i = 0, planes; i < count; i += planes, n++) {
        planes = count - i >= 4 ? 4 : count - i >= 2 ? 2 : 1;
        net->tok.list[n] = (opennpu_lower_product){.w = w,
                                                   .xs = net->xs + i,
                                                   .class_ = (uint8_t)(planes / 2),
                                                   .planes = (uint8_t)planes,
                                                   .transposed = transposed};
        w += planes * net->m.k;
    }
    return n;
}

void opennpu_net_quantize(opennpu_network *net, uint64_t from, uint64_t to, uint64_t count, float unit)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint32_t vectors = opennpu_net_blocks(net, count), k = net->m.k;
    opennpu_lower_set(e, 7, tv_f32_bits(1 / unit));
    for (uint32_t v = 0; v < vectors; v += 4) {
        unsigned n = vectors - v < 4 ? vectors - v : 4;
        opennpu_lower_run_full_segment(e);
        for (unsigned i = 0; i < n; i++)
            opennpu_lower_load(e, OPENNPU_VR, i, OPENNPU_LOWER_VR_W, from + (uint64_t)(v + i) * k * 4);
        for (unsigned i = 0; i < n; i++)
            opennpu_lower_emit(e, OPENNPU_VFMUL, i, i, 7);
        for (unsigned i = 0; i < n; i++)
            opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, opennpu_lower_reg(i, OPENNPU_VX), i, 0);
        for (unsigned i = 0; i < n; i++)
            opennpu_lower_store(e, OPENNPU_VX, opennpu_lower_reg(i, OPENNPU_VX), OPENNPU_LOWER_VR_X,
                                to + (uint64_t)(v + i) * k);
    }
}

/* ---- Planes of rows ---- */

/* Adds rows [first, first + count) of a block of columns to ACC, each in the row of its number. VR 7 has the factor. */
static void add_rows(opennpu_network *net, uint64_t from, uint64_t stride, uint32_t first, uint32_t count)
{
    opennpu_lower_emitter *e = &net->m.e;
    for (uint32_t i = 0; i < count; i++)
        opennpu_lower_load(e, OPENNPU_VR, i, OPENNPU_LOWER_VR_X, from + (first + i) * stride);
    for (uint32_t i = 0; i < count; i++)
        opennpu_lower_load(e, OPENNPU_VX, opennpu_lower_reg(6, OPENNPU_VX) + i, OPENNPU_LOWER_VR_W,
                           net->one_hot + net->m.k - 1 - (first + i));
    for (uint32_t i = 0; i < count; i++)
        opennpu_lower_emit(e, OPENNPU_VFMUL, i, i, 7);
    for (uint32_t i = 0; i < count; i++)
        opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, opennpu_lower_reg(i, OPENNPU_VX), i, 0);
    for (uint32_t i = 0; i < count; i++)
        opennpu_lower_outer_product(e, opennpu_lower_reg(6, OPENNPU_VX) + i, opennpu_lower_reg(i, OPENNPU_VX),
                                    first + i > 0);
}

/* Drains columns of ACC, whose numbers fit 8 bits. */
static void drain_planes(opennpu_network *net, uint64_t to, uint32_t count)
{
    opennpu_lower_emitter *e = &net->m.e;
    for (uint32_t c = 0; c < count; c += 4) {
        uint32_t n = count - c < 4 ? count - c : 4;
        for (uint32_t i = 0; i < n; i++)
            opennpu_lower_emit(e, OPENNPU_MMA_LAST, i, 0, 0);
        for (uint32_t i = 0; i < n; i++)
            opennpu_lower_store(e, OPENNPU_VX, opennpu_lower_reg(i, OPENNPU_VX), OPENNPU_LOWER_VR_X,
                                to + (uint64_t)(c + i) * net->m.k);
    }
}

/* Planes of a matrix x[rows][columns]. */
static void make_planes(opennpu_network *net, uint64_t x, uint64_t rows, uint64_t columns, float unit, uint64_t to)
{
    uint32_t k = net->m.k;
    if (rows == 1) {
        opennpu_net_quantize(net, x, to, columns, unit);
        return;
    }
    for (uint64_t row = 0; row < rows; row += k) {
        uint32_t count = rows - row < k ? (uint32_t)(rows - row) : k;
        for (uint64_t c = 0; c < columns; c += k) {
            opennpu_lower_run_full_segment(&net->m.e);
            opennpu_lower_set(&net->m.e, 7, tv_f32_bits(1 / unit));
            for (uint32_t r = 0; r < count; r += 4)
                add_rows(net, x + (row * columns + c) * 4, columns * 4, r, count - r < 4 ? count - r : 4);
            drain_planes(net, to + (row * columns + c * k), columns - c < k ? (uint32_t)(columns - c) : k);
        }
    }
}

/* ---- Products ---- */

/* Columns [first, first + count) of ACC: rows of the output. VR 2 has the scales and VR 3 the biases. */
static void drain_rows(opennpu_network *net, const product *p, uint64_t at, uint32_t count)
{
    static const unsigned regs[] = {0, 1, 6, 7};
    opennpu_lower_emitter *e = &net->m.e;
    uint32_t n = p->residual ? 2 : 4;
    for (uint32_t i = 0; i < count && i < n; i++)
        opennpu_lower_emit(e, OPENNPU_MMA_LAST, regs[i], 0, 0);
    for (uint32_t i = 0; i < count && i < n && p->residual; i++)
        opennpu_lower_load(e, OPENNPU_VR, regs[2 + i], OPENNPU_LOWER_VR_W, p->residual + at + i * p->outputs * 4);
    for (uint32_t i = 0; i < count && i < n; i++)
        opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, regs[i], regs[i], 0);
    for (uint32_t i = 0; i < count && i < n; i++)
        if (p->scales)
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, regs[i], regs[i], 2, 3);
        else
            opennpu_lower_emit(e, OPENNPU_VFMUL, regs[i], regs[i], 2);
    for (uint32_t i = 0; i < count && i < n && p->residual; i++)
        opennpu_lower_emit(e, OPENNPU_VFADD, regs[i], regs[i], regs[2 + i]);
    for (uint32_t i = 0; i < count && i < n; i++)
        opennpu_lower_store(e, OPENNPU_VR, regs[i], OPENNPU_LOWER_VR_X, p->out + at + i * p->outputs * 4);
    if (count > n)
        drain_rows(net, p, at + n * p->outputs * 4, count - n);
}

static void emit_tile(opennpu_network *net, const product *p, uint64_t row, uint64_t block)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint32_t k = net->m.k;
    uint64_t w = p->w + block * p->w_bytes;
    for (uint64_t i = 0; i < p->inner; i++)
        net->xs[i] = p->rows == 1 ? p->x + i : p->x + row * p->inner + i * k;
    size_t count = p->inner;
    for (size_t i = 0; i < p->inner && p->single; i++)
        net->tok.list[i] = (opennpu_lower_product){.w = w + i * k, .xs = net->xs + i, .planes = 1};
    if (!p->single)
        count = opennpu_net_list(net, w, p->inner, false);
    opennpu_lower_accumulate(e, net->tok.list, count);
    if (p->scales) {
        opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, p->scales + block * k * 4);
        opennpu_lower_load(e, OPENNPU_VR, 3, OPENNPU_LOWER_VR_W, p->bias + block * k * 4);
    } else {
        opennpu_lower_set(e, 2, p->factor);
    }
    drain_rows(net, p, (row * p->outputs + block * k) * 4, p->rows - row < k ? (uint32_t)(p->rows - row) : k);
    (*p->tiles)++;
}

/* The last block of outputs is the first one, because its rows may exceed it into others. */
static void emit_product(opennpu_network *net, const product *p)
{
    for (uint64_t row = 0; row < p->rows; row += net->m.k)
        for (uint64_t block = opennpu_net_blocks(net, p->outputs); block-- > 0;)
            emit_tile(net, p, row, block);
}

/* ---- Linear ---- */

static uint64_t rows_of(const opennpu_network *net, uint32_t value)
{
    return tv_graph_elements(net->graph, value) / tv_graph_columns(net->graph, value);
}

enum { INNER_MAX = 131072 }; /* 32-bit sums of products of 8 bits */

const char *opennpu_net_check_linear(const opennpu_network *net, const tv_graph_node *n)
{
    if (!opennpu_net_is_constant(net, n->inputs[1]) ||
        (n->inputs[2] != TV_NO_VALUE && !opennpu_net_is_constant(net, n->inputs[2])))
        return "products with weights that are computed";
    return tv_graph_columns(net->graph, n->inputs[0]) > INNER_MAX ? "32-bit sums of so many columns" : NULL;
}

void opennpu_net_plan_linear(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    opennpu_net_node *own = &net->nodes[node];
    uint64_t inner = tv_graph_columns(net->graph, n->inputs[0]), outputs = tv_graph_columns(net->graph, n->output),
             blocks = opennpu_net_blocks(net, outputs);
    own->weights = opennpu_net_reserve(net, blocks * inner * net->m.k);
    own->scales = opennpu_net_reserve(net, 2 * blocks * opennpu_lower_vector_bytes(&net->m));
    net->list_max = inner > net->list_max ? inner : net->list_max;
    snprintf(own->plan, sizeof own->plan, "tiles of %u x %u results, %u steps each; two loads a step bound them",
             net->m.k, net->m.k, (unsigned)inner);
}

/* Block `block` of the rows of W[outputs][inner], with the scales relative to the output. */
static void pack_block(const opennpu_network *net, const float *w, uint64_t inner, uint64_t outputs, uint64_t block,
                       int8_t *steps, int8_t *row, float *scales)
{
    uint32_t k = net->m.k;
    for (uint32_t lane = 0; lane < k; lane++) {
        uint64_t o = block * k + lane;
        scales[o] = 0;
        if (o < outputs)
            tv_quantize_row(w + o * inner, (uint32_t)inner, (uint32_t)inner, 8, (uint8_t *)row, &scales[o]);
        for (uint64_t i = 0; i < inner; i++)
            steps[i * k + lane] = o < outputs ? row[i] : 0;
    }
}

tv_status opennpu_net_upload_linear(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    const opennpu_net_node *own = &net->nodes[node];
    uint64_t inner = tv_graph_columns(net->graph, n->inputs[0]), outputs = tv_graph_columns(net->graph, n->output),
             blocks = opennpu_net_blocks(net, outputs);
    uint32_t k = net->m.k;
    float *w = NULL, *bias = NULL, *scales = calloc(2 * blocks * k, sizeof *scales);
    int8_t *steps = calloc(inner + 1, k), *row = calloc(inner + 1, 1);
    uint8_t *packed = calloc(inner + 1, k);
    tv_status status =
        scales && steps && row && packed ? opennpu_net_read_constant(net, n->inputs[1], &w) : tv_fail_memory(net->sink);
    if (status == TV_OK && n->inputs[2] != TV_NO_VALUE)
        status = opennpu_net_read_constant(net, n->inputs[2], &bias);
    for (uint64_t b = 0; b < blocks && status == TV_OK; b++) {
        pack_block(net, w, inner, outputs, b, steps, row, scales);
        opennpu_net_interleave(net, steps, inner, packed);
        status = opennpu_net_write_bytes(net, own->weights + b * inner * k, packed, inner * k);
    }
    for (uint64_t o = 0; o < outputs && status == TV_OK; o++) {
        scales[o] *= net->units[n->inputs[0]];
        scales[blocks * k + o] = bias ? bias[o] : 0;
    }
    if (status == TV_OK)
        status = opennpu_net_write_words(net, own->scales, scales, 2 * blocks * k);
    free(w);
    free(bias);
    free(scales);
    free(steps);
    free(row);
    free(packed);
    return status;
}

void opennpu_net_emit_linear(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    opennpu_net_node *own = &net->nodes[node];
    opennpu_net_value *x = &net->values[n->inputs[0]];
    uint64_t elements = tv_graph_elements(net->graph, n->output), out = opennpu_net_at(net, n->output);
    bool activates = n->op == TV_OP_LINEAR && n->attrs.activation,
         adds = n->op == TV_OP_LINEAR && n->inputs[3] != TV_NO_VALUE;
    product p = {.rows = rows_of(net, n->inputs[0]),
                 .inner = tv_graph_columns(net->graph, n->inputs[0]),
                 .outputs = tv_graph_columns(net->graph, n->output),
                 .x = x->planes,
                 .w = own->weights,
                 .scales = own->scales,
                 .residual = adds && !activates ? opennpu_net_at(net, n->inputs[3]) : 0,
                 .out = out,
                 .tiles = &own->tiles};
    p.w_bytes = p.inner * net->m.k;
    p.bias = own->scales + (uint64_t)opennpu_net_blocks(net, p.outputs) * opennpu_lower_vector_bytes(&net->m);
    if (!x->planes_made)
        make_planes(net, opennpu_net_at(net, n->inputs[0]), p.rows, p.inner, net->units[n->inputs[0]], x->planes);
    x->planes_made = true;
    emit_product(net, &p);
    if (activates)
        opennpu_net_activate(net, &n->attrs, out, elements);
    if (activates && adds)
        opennpu_net_add(net, out, opennpu_net_at(net, n->inputs[3]), elements);
}

/* ---- Products of two computed values ---- */

const char *opennpu_net_check_matmul(const opennpu_network *net, const tv_graph_node *n)
{
    return tv_graph_columns(net->graph, n->inputs[0]) > INNER_MAX ? "32-bit sums of so many columns" : NULL;
}

/* Matrices of the operands; a vector is a matrix of one row, or of one column. */
typedef struct matmul {
    uint64_t rows, inner, outputs;
} matmul;

static matmul matmul_of(const opennpu_network *net, const tv_graph_node *n)
{
    const tv_graph_shape *a = opennpu_net_dims(net, n->inputs[0]), *b = opennpu_net_dims(net, n->inputs[1]);
    return (matmul){.rows = a->rank > 1 ? (uint64_t)a->dims[a->rank - 2] : 1,
                    .inner = tv_graph_columns(net->graph, n->inputs[0]),
                    .outputs = b->rank > 1 ? (uint64_t)b->dims[b->rank - 1] : 1};
}

void opennpu_net_plan_matmul(opennpu_network *net, uint32_t node)
{
    opennpu_net_node *own = &net->nodes[node];
    matmul m = matmul_of(net, opennpu_net_node_at(net, node));
    uint64_t k = net->m.k, planes = opennpu_net_blocks(net, m.rows) * m.inner * k;
    own->scratch_bytes = planes + opennpu_net_blocks(net, m.outputs) * m.inner * k + 2 * k;
    net->list_max = m.inner > net->list_max ? m.inner : net->list_max;
}

/* Index of the matrix of an operand that matrix `i` of the output uses: leading axes of extent 1 are repeated. */
static uint64_t matrix_index(const opennpu_network *net, const tv_graph_node *n, unsigned input, uint64_t i)
{
    const tv_graph_shape *own = opennpu_net_dims(net, n->inputs[input]),
                         *other = opennpu_net_dims(net, n->inputs[!input]);
    uint32_t axes = own->rank > 2 ? own->rank - 2 : 0, others = other->rank > 2 ? other->rank - 2 : 0,
             all = axes > others ? axes : others;
    uint64_t at = 0, size = 1;
    for (uint32_t axis = all; axis-- > 0;) { /* counted from the first leading axis of the output */
        uint64_t mine = axis + axes >= all ? (uint64_t)own->dims[axis + axes - all] : 1,
                 yours = axis + others >= all ? (uint64_t)other->dims[axis + others - all] : 1,
                 extent = mine > yours ? mine : yours;
        at += mine == 1 ? 0 : i % extent * size;
        size *= mine;
        i /= extent;
    }
    return at;
}

/* 8-bit rows of b[inner][outputs], as [block of outputs][inner][K]. */
static void make_weights(opennpu_network *net, uint64_t b, const matmul *m, float unit, uint64_t to)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint32_t k = net->m.k;
    opennpu_lower_set(e, 7, tv_f32_bits(1 / unit));
    for (uint32_t block = 0; block < opennpu_net_blocks(net, m->outputs); block++)
        for (uint64_t i = 0; i < m->inner; i += 4) {
            unsigned n = m->inner - i < 4 ? (unsigned)(m->inner - i) : 4;
            opennpu_lower_run_full_segment(e);
            for (unsigned j = 0; j < n; j++)
                opennpu_lower_load(e, OPENNPU_VR, j, OPENNPU_LOWER_VR_W, b + ((i + j) * m->outputs + block * k) * 4);
            for (unsigned j = 0; j < n; j++)
                opennpu_lower_emit(e, OPENNPU_VFMUL, j, j, 7);
            for (unsigned j = 0; j < n; j++)
                opennpu_lower_emit(e, OPENNPU_VCVT_S8_F32, opennpu_lower_reg(j, OPENNPU_VX), j, 0);
            for (unsigned j = 0; j < n; j++)
                opennpu_lower_store(e, OPENNPU_VX, opennpu_lower_reg(j, OPENNPU_VX), OPENNPU_LOWER_VR_X,
                                    to + (block * m->inner + i + j) * k);
        }
}

void opennpu_net_emit_matmul(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    opennpu_net_node *own = &net->nodes[node];
    matmul m = matmul_of(net, n);
    float a_unit = net->units[n->inputs[0]], b_unit = net->units[n->inputs[1]];
    uint64_t planes = opennpu_net_blocks(net, m.rows) * m.inner * net->m.k,
             matrices = tv_graph_elements(net->graph, n->output) / (m.rows * m.outputs);
    product p = {.rows = m.rows,
                 .inner = m.inner,
                 .outputs = m.outputs,
                 .x = own->scratch,
                 .w = own->scratch + planes + net->m.k,
                 .w_bytes = m.inner * net->m.k,
                 .single = true,
                 .factor = tv_f32_bits(a_unit * b_unit),
                 .tiles = &own->tiles};
    for (uint64_t i = 0; i < matrices; i++) {
        make_planes(net, opennpu_net_at(net, n->inputs[0]) + matrix_index(net, n, 0, i) * m.rows * m.inner * 4, m.rows,
                    m.inner, a_unit, p.x);
        make_weights(net, opennpu_net_at(net, n->inputs[1]) + matrix_index(net, n, 1, i) * m.inner * m.outputs * 4, &m,
                     b_unit, p.w);
        p.out = opennpu_net_at(net, n->output) + i * m.rows * m.outputs * 4;
        emit_product(net, &p);
    }
}
