/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators and selections of computed values.
 *
 * A value of one token is an array of words in memory, and one of a batch an array of vectors with a lane for each
 * token; `unit` is the size of an element. Addresses have no alignment, so words are copied in vectors from wherever
 * they begin. The last vector of a copy may exceed it: what follows is written later, and buffers have room for it. */
#include "lower/opennpu/batch.h"
#include "lower/opennpu/functions.h"
#include "lower/opennpu/token.h"

/* A node and where its values are. */
typedef struct arrays {
    const opennpu_lower_model *m;
    opennpu_lower_emitter *e;
    const tv_graph_node *n;
    uint64_t inputs[TV_GRAPH_INPUTS_MAX], out;
    bool batch; /* an element is a vector */
} arrays;

static uint64_t unit_of(const arrays *a) { return a->batch ? opennpu_lower_vector_bytes(a->m) : 4; }

/* Vectors that hold some elements. */
static uint32_t vectors_of(const arrays *a, uint64_t elements)
{
    return a->batch ? (uint32_t)elements : opennpu_lower_chunks(a->m, (uint32_t)elements);
}

static uint64_t input_elements(const arrays *a, unsigned input)
{
    return tv_graph_elements(a->m->graph, a->n->inputs[input]);
}

static arrays token_arrays(const opennpu_lower_token *tok, const tv_graph_node *n)
{
    arrays a = {.m = tok->m, .e = tok->e, .n = n, .out = tok->m->values[n->output].at};
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        a.inputs[k] = tok->m->values[n->inputs[k]].at;
    return a;
}

static arrays batch_arrays(const opennpu_lower_batch *b, const tv_graph_node *n)
{
    arrays a = {.m = b->m, .e = b->e, .n = n, .out = b->m->values[n->output].batch, .batch = true};
    for (unsigned k = 0; k < tv_graph_input_count(n); k++)
        a.inputs[k] = b->m->values[n->inputs[k]].batch;
    return a;
}

/* ---- Element by element ---- */

/* Operand `input` of the `len` elements of the output from `first` on. */
static opennpu_lower_operand operand_of(const arrays *a, unsigned input, uint64_t first, uint64_t len)
{
    uint64_t all = tv_graph_elements(a->m->graph, a->n->output), own = input_elements(a, input);
    opennpu_lower_repetition r = opennpu_lower_repetition_of(a->m->graph, a->n, input);
    uint64_t constant = opennpu_lower_node_of(a->m, a->n)->constants[input];
    if (constant && own == 1)
        return (opennpu_lower_operand){constant, OPENNPU_OPERAND_VECTOR};
    if (constant)
        return (opennpu_lower_operand){constant + first * 4,
                                       a->batch ? OPENNPU_OPERAND_WORDS : OPENNPU_OPERAND_VECTORS};
    if (own == all || (r.divisor == 1 && r.modulus == len && len > 1))
        return (opennpu_lower_operand){a->inputs[input] + first % r.modulus * unit_of(a), OPENNPU_OPERAND_VECTORS};
    return (opennpu_lower_operand){a->inputs[input] + first / r.divisor % r.modulus * unit_of(a),
                                   a->batch ? OPENNPU_OPERAND_VECTOR : OPENNPU_OPERAND_LANE};
}

/* Elements for which each operand is consecutive elements, or one. */
static uint64_t run_length(const arrays *a)
{
    uint64_t all = tv_graph_elements(a->m->graph, a->n->output), len = all;
    for (unsigned k = 0; k < 2; k++) {
        opennpu_lower_repetition r = opennpu_lower_repetition_of(a->m->graph, a->n, k);
        if (opennpu_lower_node_of(a->m, a->n)->constants[k] || r.modulus == 1 || r.modulus == all)
            continue;
        len = r.divisor > 1 ? r.divisor : r.modulus;
    }
    return len;
}

static void emit_binary(const arrays *a)
{
    uint64_t all = tv_graph_elements(a->m->graph, a->n->output), len = run_length(a);
    for (uint64_t first = 0; first < all; first += len) {
        opennpu_lower_operand operands[] = {operand_of(a, 0, first, len), operand_of(a, 1, first, len)};
        opennpu_lower_binary(a->e, a->n->op, operands, a->out + first * unit_of(a), vectors_of(a, len));
    }
}

static void emit_elementwise(const arrays *a)
{
    opennpu_lower_function function = opennpu_lower_function_of_node(a->n);
    if (function)
        opennpu_lower_apply(a->e, function,
                            &(opennpu_lower_apply_job){
                                .x = a->inputs[0], .out = a->out, .vectors = vectors_of(a, input_elements(a, 0))});
    else
        emit_binary(a);
}

void opennpu_lower_token_elementwise(opennpu_lower_token *tok, const tv_graph_node *n)
{
    arrays a = token_arrays(tok, n);
    emit_elementwise(&a);
    opennpu_lower_token_pack(tok, n->output);
}

/* Logits are computed in place, row by row. */
void opennpu_lower_batch_elementwise(opennpu_lower_batch *b, const tv_graph_node *n)
{
    arrays a = batch_arrays(b, n);
    bool rows = b->m->values[n->output].token_major;
    if (!rows)
        emit_elementwise(&a);
    for (uint32_t row = b->first_logits_row; row < b->rows && rows; row++) {
        a.batch = false;
        a.out = a.inputs[0] = a.inputs[1] = opennpu_lower_batch_logits(b, row);
        emit_elementwise(&a);
    }
    opennpu_lower_batch_planes(b, n->output);
}

/* ---- Selections ---- */

static void copy_elements(const arrays *a, uint64_t from, uint64_t to, uint64_t elements)
{
    uint64_t vector = opennpu_lower_vector_bytes(a->m);
    for (uint32_t c = 0; c < vectors_of(a, elements); c++) {
        opennpu_lower_load(a->e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_W, from + c * vector);
        opennpu_lower_store(a->e, OPENNPU_VR, c % 4, OPENNPU_LOWER_VR_X, to + c * vector);
    }
}

static void copy_element(const arrays *a, uint64_t from, uint64_t to, unsigned reg)
{
    if (a->batch) {
        opennpu_lower_load(a->e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_W, from);
        opennpu_lower_store(a->e, OPENNPU_VR, reg, OPENNPU_LOWER_VR_X, to);
        return;
    }
    opennpu_lower_access_lane0(a->e, OPENNPU_LD_W, reg, OPENNPU_LOWER_VR_W, from);
    opennpu_lower_access_lane0(a->e, OPENNPU_ST_W, reg, OPENNPU_LOWER_VR_X, to);
}

static void emit_transpose(const arrays *a)
{
    const tv_graph *g = a->m->graph;
    uint64_t rows = tv_graph_columns(g, a->n->output), columns = tv_graph_columns(g, a->n->inputs[0]),
             all = tv_graph_elements(g, a->n->output);
    for (uint64_t i = 0; i < all; i++) {
        uint64_t matrix = i / (rows * columns) * rows * columns, at = i % (rows * columns);
        copy_element(a, a->inputs[0] + (matrix + at % rows * columns + at / rows) * unit_of(a), a->out + i * unit_of(a),
                     (unsigned)(i % 4));
    }
}

/* Row by row, in the order of addresses. */
static void emit_concat(const arrays *a)
{
    const tv_graph *g = a->m->graph;
    uint64_t to = tv_graph_columns(g, a->n->output), rows = tv_graph_elements(g, a->n->output) / to, at = a->out;
    for (uint64_t row = 0; row < rows; row++)
        for (unsigned k = 0; k < tv_graph_input_count(a->n); k++) {
            uint64_t from = tv_graph_columns(g, a->n->inputs[k]);
            copy_elements(a, a->inputs[k] + row * from * unit_of(a), at, from);
            at += from * unit_of(a);
        }
}

static void emit_slice(const arrays *a)
{
    const tv_graph *g = a->m->graph;
    uint64_t to = tv_graph_columns(g, a->n->output), from = tv_graph_columns(g, a->n->inputs[0]),
             rows = tv_graph_elements(g, a->n->output) / to;
    for (uint64_t row = 0; row < rows; row++)
        copy_elements(a, a->inputs[0] + (row * from + a->n->attrs.start) * unit_of(a), a->out + row * to * unit_of(a),
                      to);
}

static void emit_selection(const arrays *a)
{
    if (a->n->op == TV_OP_SLICE)
        emit_slice(a);
    else if (a->n->op == TV_OP_CONCAT)
        emit_concat(a);
    else if (a->n->op == TV_OP_TRANSPOSE)
        emit_transpose(a);
    else
        copy_elements(a, a->inputs[0], a->out, input_elements(a, 0));
}

void opennpu_lower_token_select(opennpu_lower_token *tok, const tv_graph_node *n)
{
    arrays a = token_arrays(tok, n);
    emit_selection(&a);
    opennpu_lower_token_pack(tok, n->output);
}

void opennpu_lower_batch_select(opennpu_lower_batch *b, const tv_graph_node *n)
{
    arrays a = batch_arrays(b, n);
    emit_selection(&a);
    opennpu_lower_batch_planes(b, n->output);
}
