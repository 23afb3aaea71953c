/* SPDX-License-Identifier: Apache-2.0 */
/* Operators along the rows of computed values: sums, means, softmax, and products of two computed values. A row of a
 * token is consecutive words; a row of a batch is consecutive vectors, whose lanes are tokens, so its sums are sums of
 * vectors. The last vector of a token's row may exceed it: the next row is written later. */
#include "lower/opennpu/batch.h"
#include "lower/opennpu/functions.h"
#include "lower/opennpu/token.h"

/* Far below all values, but for their sum to stay finite. */
#define LOWEST (-1e37F)

/* ---- Sums ---- */

/* VR 0 = the sum of the vectors at `at`. */
static void emit_vector_sum(opennpu_lower_batch *b, uint64_t at, uint32_t vectors)
{
    for (uint32_t c = 0; c < vectors; c++) {
        unsigned reg = c ? 1 + c % 3 : 0;
        opennpu_lower_load(b->e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_W, at + c * b->vector);
        if (c)
            opennpu_lower_emit(b->e, OPENNPU_VFADD, 0, 0, reg);
    }
}

/* VR 0 = the mean, if the node wants it, from the sum. */
static void emit_mean(opennpu_lower_emitter *e, const tv_graph_node *n, uint32_t columns)
{
    if (n->op == TV_OP_REDUCE_SUM)
        return;
    opennpu_lower_set(e, 1, tv_f32_bits(1 / (float)columns));
    opennpu_lower_emit(e, OPENNPU_VFMUL, 0, 0, 1);
}

void opennpu_lower_token_reduce(opennpu_lower_token *tok, const tv_graph_node *n)
{
    uint32_t columns = tv_graph_columns(tok->m->graph, n->inputs[0]);
    uint64_t x = opennpu_lower_token_value(tok, n->inputs[0])->at, out = opennpu_lower_token_value(tok, n->output)->at;
    for (uint64_t i = 0; i < tv_graph_elements(tok->m->graph, n->output); i++) {
        opennpu_lower_token_sum(tok, x + i * columns * 4, columns);
        emit_mean(tok->e, n, columns);
        opennpu_lower_access_lane0(tok->e, OPENNPU_ST_W, 0, OPENNPU_LOWER_VR_X, out + i * 4);
    }
    opennpu_lower_token_pack(tok, n->output);
}

void opennpu_lower_batch_reduce(opennpu_lower_batch *b, const tv_graph_node *n)
{
    uint32_t columns = tv_graph_columns(b->m->graph, n->inputs[0]);
    uint64_t x = opennpu_lower_batch_value(b, n->inputs[0])->batch,
             out = opennpu_lower_batch_value(b, n->output)->batch;
    for (uint64_t i = 0; i < tv_graph_elements(b->m->graph, n->output); i++) {
        emit_vector_sum(b, x + i * columns * b->vector, columns);
        emit_mean(b->e, n, columns);
        opennpu_lower_store(b->e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, out + i * b->vector);
    }
    opennpu_lower_batch_planes(b, n->output);
}

/* ---- Softmax ---- */

/* Exchanges FP32 numbers in VR 0 and integers that compare alike. Clobbers VR 1 and 2. */
static void emit_comparable(opennpu_lower_emitter *e)
{
    opennpu_lower_set(e, 2, 31);
    opennpu_lower_emit_vr(e, OPENNPU_VSRA, 1, 0, 2);
    opennpu_lower_set(e, 2, 0x7FFFFFFF);
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 1, 1, 2);
    opennpu_lower_emit_vr(e, OPENNPU_VXOR, 0, 0, 1);
}

void opennpu_lower_token_max(opennpu_lower_token *tok, uint64_t at, uint32_t elements, bool negative)
{
    opennpu_lower_emitter *e = tok->e;
    uint32_t chunks = opennpu_lower_chunks(tok->m, elements), tail = elements % e->k;
    for (uint32_t c = 0; c < chunks; c++) {
        unsigned reg = c ? 1 : 0;
        opennpu_lower_load(e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, at + c * opennpu_lower_vector_bytes(tok->m));
        if (negative)
            opennpu_lower_emit(e, OPENNPU_VFNEG, reg, reg, 0);
        if (tail && c + 1 == chunks) { /* other lanes become LOWEST */
            opennpu_lower_load(e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_W, tok->m->lane_mask + (uint64_t)(e->k - tail) * 4);
            opennpu_lower_set(e, 3, tv_f32_bits(LOWEST));
            opennpu_lower_emit(e, OPENNPU_VFMUL, reg, reg, 2);
            opennpu_lower_emit_fma(e, OPENNPU_VNFMA, 2, 2, 3, 3);
            opennpu_lower_emit(e, OPENNPU_VFADD, reg, reg, 2);
        }
        if (c)
            opennpu_lower_emit(e, OPENNPU_VFMAX, 0, 0, 1);
    }
    emit_comparable(e);
    opennpu_lower_emit_sized(e, OPENNPU_VRMAX, OPENNPU_VR, 0, 0, 0);
    emit_comparable(e);
}

static void emit_vector_max(opennpu_lower_batch *b, uint64_t at, uint32_t vectors)
{
    for (uint32_t c = 0; c < vectors; c++) {
        opennpu_lower_load(b->e, OPENNPU_VR, c ? 1 + c % 3 : 0, OPENNPU_LOWER_VR_W, at + c * b->vector);
        if (c)
            opennpu_lower_emit(b->e, OPENNPU_VFMAX, 0, 0, 1 + c % 3);
    }
}

/* out = x op VR 7 for each of the vectors. */
static void emit_with_vr7(opennpu_lower_emitter *e, opennpu_insn op, uint64_t x, uint64_t out, uint32_t vectors)
{
    for (uint32_t c = 0; c < vectors; c++) {
        opennpu_lower_load(e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_W, x + (uint64_t)c * 4 * e->k);
        opennpu_lower_emit(e, op, c % 4, c % 4, 7);
        opennpu_lower_store(e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_X, out + (uint64_t)c * 4 * e->k);
    }
}

/* out = exp(x - VR 0) */
static void emit_exponentials(opennpu_lower_emitter *e, uint64_t x, uint64_t out, uint32_t vectors)
{
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 7, 0, 0);
    emit_with_vr7(e, OPENNPU_VFSUB, x, out, vectors);
    opennpu_lower_apply(e, OPENNPU_FUNCTION_EXP, &(opennpu_lower_apply_job){.x = out, .out = out, .vectors = vectors});
}

/* out = out / VR 0 */
static void emit_quotients(opennpu_lower_emitter *e, uint64_t out, uint32_t vectors)
{
    opennpu_lower_reciprocal(e, 1);
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 7, 1, 1);
    emit_with_vr7(e, OPENNPU_VFMUL, out, out, vectors);
}

void opennpu_lower_token_softmax(opennpu_lower_token *tok, const tv_graph_node *n)
{
    uint32_t columns = tv_graph_columns(tok->m->graph, n->output), vectors = opennpu_lower_chunks(tok->m, columns);
    uint64_t x = opennpu_lower_token_value(tok, n->inputs[0])->at, out = opennpu_lower_token_value(tok, n->output)->at;
    for (uint64_t i = 0; i < opennpu_lower_columns(tok->m, n->output); i += columns) {
        opennpu_lower_token_max(tok, x + i * 4, columns, false);
        emit_exponentials(tok->e, x + i * 4, out + i * 4, vectors);
        opennpu_lower_token_sum(tok, out + i * 4, columns);
        emit_quotients(tok->e, out + i * 4, vectors);
    }
    opennpu_lower_token_pack(tok, n->output);
}

void opennpu_lower_batch_softmax(opennpu_lower_batch *b, const tv_graph_node *n)
{
    uint32_t columns = tv_graph_columns(b->m->graph, n->output);
    uint64_t x = opennpu_lower_batch_value(b, n->inputs[0])->batch,
             out = opennpu_lower_batch_value(b, n->output)->batch;
    for (uint32_t i = 0; i < opennpu_lower_batch_columns(b, n->output); i += columns) {
        emit_vector_max(b, x + i * b->vector, columns);
        emit_exponentials(b->e, x + i * b->vector, out + i * b->vector, columns);
        emit_vector_sum(b, out + i * b->vector, columns);
        emit_quotients(b->e, out + i * b->vector, columns);
    }
    opennpu_lower_batch_planes(b, n->output);
}

/* ---- Products of computed values ---- */

/* out[row][n] = a[row][k] * b[k][n], by FP32 multiply-adds: the array takes only bytes. */
typedef struct product {
    opennpu_lower_emitter *e;
    uint64_t a, b, out;
    uint32_t rows, k, n;
    uint64_t unit; /* bytes of an element: a word, or a vector */
    uint32_t step; /* elements of a row that are computed at once */
} product;

/* VR 0 = elements [column, column + step) of a row. */
static void emit_dot(const product *p, uint32_t row, uint32_t column)
{
    bool words = p->step > 1;
    for (uint32_t i = 0; i < p->k; i++) {
        uint64_t a = p->a + ((uint64_t)row * p->k + i) * p->unit, b = p->b + ((uint64_t)i * p->n + column) * p->unit;
        if (words) {
            opennpu_lower_access_lane0(p->e, OPENNPU_LD_W, 1, OPENNPU_LOWER_VR_W, a);
            opennpu_lower_emit_sized(p->e, OPENNPU_BCAST_REG, OPENNPU_VR, 1, 1, 0);
        } else {
            opennpu_lower_load(p->e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, a);
        }
        opennpu_lower_load(p->e, OPENNPU_VR, 2, OPENNPU_LOWER_VR_X, b);
        if (i)
            opennpu_lower_emit_fma(p->e, OPENNPU_VFMA, 0, 1, 2, 0);
        else
            opennpu_lower_emit(p->e, OPENNPU_VFMUL, 0, 1, 2);
    }
}

static void emit_product(const product *p)
{
    for (uint32_t row = 0; row < p->rows; row++)
        for (uint32_t column = 0; column < p->n; column += p->step) {
            emit_dot(p, row, column);
            opennpu_lower_store(p->e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X,
                                p->out + ((uint64_t)row * p->n + column) * p->unit);
        }
}

/* The matrices of a node, one after the other. */
static void emit_products(const opennpu_lower_model *m, const tv_graph_node *n, product p)
{
    const tv_graph *g = m->graph;
    p.k = tv_graph_columns(g, n->inputs[0]);
    p.n = tv_graph_columns(g, n->output);
    uint64_t matrices = tv_graph_elements(g, n->inputs[1]) / ((uint64_t)p.k * p.n),
             rows = tv_graph_elements(g, n->output) / p.n;
    p.rows = (uint32_t)(rows / matrices);
    for (uint64_t i = 0; i < matrices; i++) {
        emit_product(&p);
        p.a += (uint64_t)p.rows * p.k * p.unit;
        p.b += (uint64_t)p.k * p.n * p.unit;
        p.out += (uint64_t)p.rows * p.n * p.unit;
    }
}

void opennpu_lower_token_matmul(opennpu_lower_token *tok, const tv_graph_node *n)
{
    emit_products(tok->m, n,
                  (product){.e = tok->e,
                            .a = opennpu_lower_token_value(tok, n->inputs[0])->at,
                            .b = opennpu_lower_token_value(tok, n->inputs[1])->at,
                            .out = opennpu_lower_token_value(tok, n->output)->at,
                            .unit = 4,
                            .step = tok->m->k});
    opennpu_lower_token_pack(tok, n->output);
}

void opennpu_lower_batch_matmul(opennpu_lower_batch *b, const tv_graph_node *n)
{
    emit_products(b->m, n,
                  (product){.e = b->e,
                            .a = opennpu_lower_batch_value(b, n->inputs[0])->batch,
                            .b = opennpu_lower_batch_value(b, n->inputs[1])->batch,
                            .out = opennpu_lower_batch_value(b, n->output)->batch,
                            .unit = b->vector,
                            .step = 1});
    opennpu_lower_batch_planes(b, n->output);
}
