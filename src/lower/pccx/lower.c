/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to pccx. Projections are GEMVs of INT4 rows, one group of columns after the other, or GEMMs with several
 * tokens. The instruction set has no elementwise product, square or rotation. But the row scales of a GEMV are BF16
 * numbers in host memory, so a GEMV of the identity with a vector as its scales is the elementwise product with that
 * vector. Squares, rope and the gate are built from it.
 *
 * A weight stream is prefetched and has no hazard checks: what a program computes can only be streamed by the next
 * program. Where a program ends for that reason the host has no work; the list of host operations counts these
 * handovers. The host computes only the packing of keys and values (kv_cache.c). */
#include <stdlib.h>

#include "lower/pccx/state.h"

/* Rows: a GEMM tile takes as long with fewer. Columns per scale: whole beats. */
enum { ROWS_MAX = 32, GROUP = 64, CHUNK_ROWS = 8 };

/* ---- Nodes ---- */

static uint32_t buffer_addr(const pccx_lowering *l, pccx_lower_buffer p) { return l->buffers[p]; }

/* Ends the program, so that the next one can stream its results or the host can read them. */
static tv_status end_program(pccx_lowering *l, pccx_lower_host_op op, uint64_t elements, const tv_diag_sink *sink)
{
    l->host_ops[op].count++;
    l->host_ops[op].elements += elements;
    return pccx_lower_run(l, sink);
}

/* The first program of a session loads the constants to L2. */
static void emit_embed(pccx_lowering *l, const int32_t *tokens)
{
    uint32_t hidden = l->hidden, dim = l->model->dims.dim;
    if (!l->constants_loaded) {
        pccx_lower_load(l, buffer_addr(l, PCCX_BUFFER_ONES), l->map.constants, hidden);
        pccx_lower_load(l, buffer_addr(l, PCCX_BUFFER_EPSILON), l->map.constants + (uint64_t)hidden * 2, 1);
        l->constants_loaded = true;
    }
    for (uint32_t r = 0; r < l->rows; r++)
        pccx_lower_load(l, buffer_addr(l, PCCX_BUFFER_X) + r * pccx_lower_l2_size(dim),
                        l->map.embedding + (uint64_t)tokens[r] * l->map.embedding_row_bytes, dim);
}

/* ---- Norms ---- */

static void emit_squares(pccx_lowering *l, uint32_t row)
{
    uint32_t dim = l->model->dims.dim, x = buffer_addr(l, PCCX_BUFFER_X) + row * pccx_lower_l2_size(dim);
    pccx_lower_move(l, buffer_addr(l, PCCX_BUFFER_SUM) + row, buffer_addr(l, PCCX_BUFFER_EPSILON), 1);
    pccx_lower_move(l, buffer_addr(l, PCCX_BUFFER_NORM_INPUT) + row * (pccx_lower_l2_size(dim) + 1) + 1, x, dim);
    pccx_lower_multiply(l, buffer_addr(l, PCCX_BUFFER_SQUARES) + row * pccx_lower_l2_size(PCCX_LOWER_BLOCK), x,
                        l->map.vector + (uint64_t)row * dim * 2, l->map.identity, dim, true, false);
}

static void emit_normalize(pccx_lowering *l, uint32_t row)
{
    uint32_t dim = l->model->dims.dim, sum = buffer_addr(l, PCCX_BUFFER_SUM) + row,
             root = buffer_addr(l, PCCX_BUFFER_NORM_INPUT) + row * (pccx_lower_l2_size(dim) + 1);
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, sum,
                   buffer_addr(l, PCCX_BUFFER_SQUARES) + row * pccx_lower_l2_size(PCCX_LOWER_BLOCK),
                   dim < PCCX_LOWER_BLOCK ? dim : PCCX_LOWER_BLOCK, PCCX_LOWER_ACCM);
    pccx_lower_cvo(l, PCCX_CVO_SQRT, root, sum, 1, 0);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, buffer_addr(l, PCCX_BUFFER_XN) + row * pccx_lower_l2_size(dim), root, dim,
                   PCCX_LOWER_RECIP_SCALE);
}

/* Keeps the input of a norm, which was just stored to host memory. */
static tv_status keep_value(pccx_lowering *l, uint32_t value, const tv_diag_sink *sink)
{
    size_t count = (size_t)l->rows * l->model->dims.dim;
    if (!l->kept_values[value] &&
        !(l->kept_values[value] = malloc((size_t)l->rows_max * l->model->dims.dim * sizeof(float))))
        return tv_fail_memory(sink);
    return pccx_lower_read_bf16(l, l->map.vector, count, l->kept_values[value], sink);
}

/* x / sqrt(sum of squares + dim * eps) of rows [first, rows). The gains and sqrt(dim) are folded into the following
 * weights. GEMV is one row ahead of the SFU. */
static tv_status emit_norm(pccx_lowering *l, const tv_graph_node *n, uint32_t first, const tv_diag_sink *sink)
{
    uint32_t dim = l->model->dims.dim;
    pccx_lower_store(l, l->map.vector, buffer_addr(l, PCCX_BUFFER_X), l->rows * dim);
    TV_TRY(end_program(l, PCCX_LOWER_HANDOVER, (uint64_t)l->rows * dim, sink));
    if (l->keep_values)
        TV_TRY(keep_value(l, n->inputs[0], sink));
    for (uint32_t r = first; r <= l->rows; r++) {
        if (r < l->rows)
            emit_squares(l, r);
        if (r > first)
            emit_normalize(l, r - 1);
    }
    return TV_OK;
}

/* ---- Attention ---- */

/* Products written to the residual are added to it. */
static void emit_projection(pccx_lowering *l, const tv_graph_node *n, uint32_t in, pccx_lower_buffer out)
{
    const pccx_lower_matrix *m = pccx_lower_matrix_of(l, n->weight, n->layer);
    pccx_lower_project(l, m, l->rows, in, buffer_addr(l, out), 0, pccx_lower_group_count(l, m), out == PCCX_BUFFER_X);
}

static void emit_rope(pccx_lowering *l, uint32_t heads, pccx_lower_buffer in, pccx_lower_buffer out)
{
    uint32_t d = l->model->dims.head_dim;
    for (uint32_t i = 0; i < l->rows * heads; i++) {
        uint32_t from = buffer_addr(l, in) + i * pccx_lower_l2_size(d),
                 to = buffer_addr(l, out) + i * pccx_lower_l2_size(d);
        uint64_t angles = (l->position + i / heads) * l->map.rope_row_bytes;
        pccx_lower_multiply(l, to, from, l->map.cosines + angles, l->map.identity, d, false, false);
        pccx_lower_multiply(l, to, from, l->map.sines + angles, l->map.rotation, d, false, true);
    }
}

static tv_status emit_append(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t elements = l->rows * n->heads * l->model->dims.head_dim;
    pccx_lower_store(l, l->map.value, buffer_addr(l, PCCX_BUFFER_VALUE), elements);
    pccx_lower_store(l, l->map.key, buffer_addr(l, PCCX_BUFFER_ROTATED_KEY), elements);
    TV_TRY(end_program(l, PCCX_LOWER_PACK_KEYS, elements, sink));
    l->host_ops[PCCX_LOWER_PACK_VALUES].count++;
    l->host_ops[PCCX_LOWER_PACK_VALUES].elements += elements;
    return pccx_lower_append_kv(l, n->layer, sink);
}

/* Buffers of one head of one row. */
typedef struct head_buffers {
    uint32_t query, scores, exps, unnormalized, attn_out; /* `unnormalized` starts with the sum */
    uint32_t kv, count;                                   /* head of the KV cache; kv_len */
} head_buffers;

static head_buffers head_buffers_of(const pccx_lowering *l, uint32_t i)
{
    const tv_model_dims *s = &l->model->dims;
    uint32_t size = pccx_lower_l2_size(s->head_dim), buffer = i % 2 * pccx_lower_l2_size(l->context);
    return (head_buffers){.query = buffer_addr(l, PCCX_BUFFER_ROTATED_QUERY) + i * size,
                          .scores = buffer_addr(l, PCCX_BUFFER_SCORES) + buffer,
                          .exps = buffer_addr(l, PCCX_BUFFER_EXPS) + buffer,
                          .unnormalized = buffer_addr(l, PCCX_BUFFER_UNNORMALIZED) + i * (size + 1),
                          .attn_out = buffer_addr(l, PCCX_BUFFER_ATTN_OUT) + i * size,
                          .kv = i % s->heads / (s->heads / s->kv_heads),
                          .count = l->position + i / s->heads + 1};
}

/* Scores and their exponentials. The scale of the scores is folded into the weights of the query. */
static void emit_scores(pccx_lowering *l, uint32_t layer, uint32_t i)
{
    head_buffers p = head_buffers_of(l, i);
    pccx_lower_scores(l, p.scores, p.query, layer, p.kv, p.count);
    pccx_lower_cvo(l, PCCX_CVO_EXP, p.exps, p.scores, p.count, PCCX_LOWER_SUB_EMAX);
}

static void emit_weighted_sum(pccx_lowering *l, uint32_t layer, uint32_t i)
{
    head_buffers p = head_buffers_of(l, i);
    pccx_lower_cvo(l, PCCX_CVO_REDUCE_SUM, p.unnormalized, p.exps, p.count, 0);
    pccx_lower_weighted_sum(l, p.unnormalized + 1, p.exps, layer, p.kv, p.count);
}

/* The softmax's division follows the weighted sum, which has fewer elements. */
static void emit_divide(pccx_lowering *l, uint32_t i)
{
    head_buffers p = head_buffers_of(l, i);
    pccx_lower_cvo(l, PCCX_CVO_SCALE, p.attn_out, p.unnormalized, l->model->dims.head_dim, PCCX_LOWER_RECIP_SCALE);
}

/* SCORES, SOFTMAX and WEIGHTED_SUM of all heads. While the SFU processes one head, GEMV processes the next. */
static void emit_attention(pccx_lowering *l, const tv_graph_node *n)
{
    uint32_t count = l->rows * n->heads;
    for (uint32_t i = 0; i < count + 2; i++) {
        if (i < count)
            emit_scores(l, n->layer, i);
        if (i > 0 && i <= count)
            emit_weighted_sum(l, n->layer, i - 1);
        if (i > 1)
            emit_divide(l, i - 2);
    }
}

/* ---- Feed forward ---- */

/* silu(g) = g * sigmoid(g), sigmoid(g) = 1 / (1 + exp(-g)). The gate's weights are negated, so the product is -g, and
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

/* A CVO function over consecutive rows, in instructions of limited length. */
static void emit_function(pccx_lowering *l, pccx_insn function, pccx_lower_buffer to, pccx_lower_buffer from, chunk c,
                          unsigned flags)
{
    enum { LENGTH_MAX = 65528 };
    uint32_t end = (c.first + c.rows) * l->hidden;
    for (uint32_t i = c.first * l->hidden; i < end; i += LENGTH_MAX)
        pccx_lower_cvo(l, function, buffer_addr(l, to) + pccx_lower_l2_size(i),
                       buffer_addr(l, from) + pccx_lower_l2_size(i), end - i < LENGTH_MAX ? end - i : LENGTH_MAX,
                       flags);
}

static void emit_exponentials(pccx_lowering *l, chunk c)
{
    for (uint32_t r = c.first; r < c.first + c.rows; r++)
        pccx_lower_move(l, buffer_addr(l, PCCX_BUFFER_SIGMOID) + r * pccx_lower_l2_size(l->hidden),
                        buffer_addr(l, PCCX_BUFFER_ONES), l->hidden);
    emit_function(l, PCCX_CVO_EXP, PCCX_BUFFER_SIGMOID, PCCX_BUFFER_GATE, c, PCCX_LOWER_ACCM);
}

static void emit_reciprocals(pccx_lowering *l, chunk c)
{
    emit_function(l, PCCX_CVO_RECIP, PCCX_BUFFER_SIGMOID, PCCX_BUFFER_SIGMOID, c, 0);
    if (c.rows)
        pccx_lower_store(l, l->map.vector + (uint64_t)c.first * l->hidden * 2,
                         buffer_addr(l, PCCX_BUFFER_SIGMOID) + c.first * pccx_lower_l2_size(l->hidden),
                         c.rows * l->hidden);
}

static void emit_gate(pccx_lowering *l, const tv_graph_node *n)
{
    emit_projection(l, n, l->input, PCCX_BUFFER_GATE);
    emit_exponentials(l, chunk_of(l, 0));
}

/* The reciprocals are issued in the middle of `up`, so that neither waits for the other. */
static void emit_up(pccx_lowering *l, const tv_graph_node *n)
{
    const pccx_lower_matrix *m = pccx_lower_matrix_of(l, n->weight, n->layer);
    uint32_t groups = pccx_lower_group_count(l, m), half = groups / 2;
    pccx_lower_project(l, m, l->rows, l->input, buffer_addr(l, PCCX_BUFFER_UP), 0, half, false);
    emit_reciprocals(l, chunk_of(l, 0));
    pccx_lower_project(l, m, l->rows, l->input, buffer_addr(l, PCCX_BUFFER_UP), half, groups, false);
    pccx_lower_store(l, l->map.vector2, buffer_addr(l, PCCX_BUFFER_UP), l->rows * l->hidden);
}

static void emit_gate_product(pccx_lowering *l, uint32_t from, uint32_t to)
{
    for (uint32_t r = from; r < to; r++) {
        uint64_t offset = (uint64_t)r * l->hidden * 2;
        uint32_t row = r * pccx_lower_l2_size(l->hidden);
        pccx_lower_multiply(l, buffer_addr(l, PCCX_BUFFER_ACT) + row, buffer_addr(l, PCCX_BUFFER_GATE) + row,
                            l->map.vector + offset, l->map.identity, l->hidden, false, false);
        pccx_lower_multiply(l, buffer_addr(l, PCCX_BUFFER_HIDDEN) + row, buffer_addr(l, PCCX_BUFFER_ACT) + row,
                            l->map.vector2 + offset, l->map.identity, l->hidden, false, false);
    }
}

/* The reciprocals of the next chunk are issued when its exponentials are about done. */
static tv_status emit_mul(pccx_lowering *l, const tv_diag_sink *sink)
{
    for (uint32_t i = 0; chunk_of(l, i).rows; i++) {
        chunk c = chunk_of(l, i), next = chunk_of(l, i + 1);
        TV_TRY(end_program(l, PCCX_LOWER_HANDOVER, ((uint64_t)c.rows + (i ? 0 : l->rows)) * l->hidden, sink));
        emit_exponentials(l, next);
        emit_gate_product(l, c.first, c.first + c.rows / 2);
        emit_reciprocals(l, next);
        emit_gate_product(l, c.first + c.rows / 2, c.first + c.rows);
    }
    l->input = pccx_lower_group_rows(l, buffer_addr(l, PCCX_BUFFER_HIDDEN), l->hidden);
    return TV_OK;
}

/* ---- Graph ---- */

/* Row by row, because L2 may not hold all rows. */
static void emit_logits(pccx_lowering *l, const tv_graph_node *n, uint32_t first)
{
    const pccx_lower_matrix *m = pccx_lower_matrix_of(l, n->weight, n->layer);
    const tv_model_dims *s = &l->model->dims;
    for (uint32_t r = first; r < l->rows; r++) {
        pccx_lower_project(l, m, 1, buffer_addr(l, PCCX_BUFFER_XN) + r * pccx_lower_l2_size(s->dim),
                           buffer_addr(l, PCCX_BUFFER_LOGITS), 0, pccx_lower_group_count(l, m), false);
        pccx_lower_store(l,
                         l->map.logits + (uint64_t)(r - first) * pccx_lower_l2_size(s->vocab) * PCCX_LOWER_WORD_BYTES,
                         buffer_addr(l, PCCX_BUFFER_LOGITS), s->vocab);
    }
}

static void emit_matmul(pccx_lowering *l, const tv_graph_node *n, uint32_t first)
{
    switch (n->weight) {
    case TV_WEIGHT_Q:
        emit_projection(l, n, l->input, PCCX_BUFFER_QUERY);
        break;
    case TV_WEIGHT_K:
        emit_projection(l, n, l->input, PCCX_BUFFER_KEY);
        break;
    case TV_WEIGHT_V:
        emit_projection(l, n, l->input, PCCX_BUFFER_VALUE);
        break;
    case TV_WEIGHT_O:
        emit_projection(l, n,
                        pccx_lower_group_rows(l, buffer_addr(l, PCCX_BUFFER_ATTN_OUT),
                                              l->model->dims.heads * l->model->dims.head_dim),
                        PCCX_BUFFER_X);
        break;
    case TV_WEIGHT_GATE:
        emit_gate(l, n);
        break;
    case TV_WEIGHT_UP:
        emit_up(l, n);
        break;
    case TV_WEIGHT_DOWN:
        emit_projection(l, n, l->input, PCCX_BUFFER_X);
        break;
    case TV_WEIGHT_CLASSIFIER:
        emit_logits(l, n, first);
        break;
    case TV_WEIGHT_EMBEDDING: /* inputs of other operations */
    case TV_WEIGHT_NORM_ATTENTION:
    case TV_WEIGHT_NORM_FFN:
    case TV_WEIGHT_NORM_FINAL:
    case TV_WEIGHTS:
        break;
    }
}

static bool is_query(const pccx_lowering *l, uint32_t value)
{
    uint32_t i = 0;
    while (l->graph->nodes[i].output != value)
        i++;
    return l->graph->nodes[i].weight == TV_WEIGHT_Q;
}

/* Lowers one node; rows [first, rows) need logits. */
static tv_status lower_node(pccx_lowering *l, const tv_graph_node *n, const int32_t *tokens, uint32_t first,
                            const tv_diag_sink *sink)
{
    tv_graph_block_name(l->graph, n, l->block_name);
    tv_builder_label(&l->program, l->block_name);
    switch (n->op) {
    case TV_OP_EMBED:
        emit_embed(l, tokens);
        break;
    case TV_OP_RMSNORM: {
        bool final = n->weight == TV_WEIGHT_NORM_FINAL;
        TV_TRY(emit_norm(l, n, final ? first : 0, sink));
        l->input = final ? 0 : pccx_lower_group_rows(l, buffer_addr(l, PCCX_BUFFER_XN), l->model->dims.dim);
        break;
    }
    case TV_OP_MATMUL:
        emit_matmul(l, n, first);
        break;
    case TV_OP_ROPE:
        if (is_query(l, n->inputs[0]))
            emit_rope(l, n->heads, PCCX_BUFFER_QUERY, PCCX_BUFFER_ROTATED_QUERY);
        else
            emit_rope(l, n->heads, PCCX_BUFFER_KEY, PCCX_BUFFER_ROTATED_KEY);
        break;
    case TV_OP_APPEND:
        return emit_append(l, n, sink);
    case TV_OP_SCORES:
        emit_attention(l, n);
        break;
    case TV_OP_MUL:
        return emit_mul(l, sink);
    case TV_OP_SOFTMAX:
    case TV_OP_WEIGHTED_SUM: /* done with SCORES */
    case TV_OP_SILU:         /* done with gate and up */
    case TV_OP_ADD:          /* done with the product before it */
    case TV_OPS:
        break;
    }
    return TV_OK;
}

/* ---- Creating ---- */

static void destroy(void *state)
{
    pccx_lowering *l = state;
    if (!l)
        return;
    tv_builder_fini(&l->program);
    tv_machine_free(l->machine);
    tv_program_free(l->loaded_program);
    tv_pool_free(l->pool);
    for (uint32_t i = 0; l->kept_values && i < l->graph->value_count; i++)
        free(l->kept_values[i]);
    free(l->kept_values);
    free(l->matrices);
    free(l->block);
    free(l->value_rows);
    free(l);
}

/* Allocates the buffers for steps of `rows` tokens; the constants keep their addresses. Returns the L2 words used. */
static uint64_t allocate_buffers(pccx_lowering *l, uint32_t rows)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t head = pccx_lower_l2_size(s->head_dim), dim = (uint64_t)rows * pccx_lower_l2_size(s->dim),
             hidden = (uint64_t)rows * pccx_lower_l2_size(l->hidden);
    uint64_t q_size = rows * s->heads * head, kv_size = rows * s->kv_heads * head,
             scores = 2 * (uint64_t)pccx_lower_l2_size(l->context);
    uint64_t widest = hidden > dim ? hidden : dim;
    const uint64_t sizes[PCCX_BUFFER_COUNT] = {
        [PCCX_BUFFER_ONES] = pccx_lower_l2_size(l->hidden),
        [PCCX_BUFFER_EPSILON] = 1,
        [PCCX_BUFFER_X] = dim,
        [PCCX_BUFFER_NORM_INPUT] = dim + rows,
        [PCCX_BUFFER_XN] = dim,
        [PCCX_BUFFER_GEMM_INPUT] = rows == 1         ? 0
                                   : widest > q_size ? widest
                                                     : q_size,
        [PCCX_BUFFER_SQUARES] = (uint64_t)rows * pccx_lower_l2_size(PCCX_LOWER_BLOCK),
        [PCCX_BUFFER_SUM] = rows,
        [PCCX_BUFFER_QUERY] = q_size,
        [PCCX_BUFFER_KEY] = kv_size,
        [PCCX_BUFFER_VALUE] = kv_size,
        [PCCX_BUFFER_ROTATED_QUERY] = q_size,
        [PCCX_BUFFER_ROTATED_KEY] = kv_size,
        [PCCX_BUFFER_SCORES] = scores,
        [PCCX_BUFFER_EXPS] = scores,
        [PCCX_BUFFER_UNNORMALIZED] = q_size + rows * s->heads,
        [PCCX_BUFFER_ATTN_OUT] = q_size,
        [PCCX_BUFFER_GATE] = hidden,
        [PCCX_BUFFER_SIGMOID] = hidden,
        [PCCX_BUFFER_UP] = hidden,
        [PCCX_BUFFER_ACT] = hidden,
        [PCCX_BUFFER_HIDDEN] = hidden,
        [PCCX_BUFFER_LOGITS] = pccx_lower_l2_size(s->vocab),
    };
    uint64_t end = 0;
    for (unsigned p = 0; p < PCCX_BUFFER_COUNT; p++) {
        l->buffers[p] = (uint32_t)end;
        end += sizes[p];
    }
    return end;
}

static tv_status check_model(pccx_lowering *l, const tv_config *config, const tv_diag_sink *sink)
{
    enum { VALUE_MAX = 65535 };
    const tv_model_dims *s = &l->model->dims;
    uint64_t sizes = allocate_buffers(l, 1), l2_size_max = pccx_lower_space_size(l->machine, "l2");
    if (s->head_dim % PCCX_LOWER_LANES)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "the other machines may support it",
                       "the head size of %u is not a multiple of %d", s->head_dim, PCCX_LOWER_LANES);
    if (s->head_dim > PCCX_LOWER_HEAD_DIM_MAX || s->dim > PCCX_LOWER_BLOCK_ROWS || l->hidden > PCCX_LOWER_BLOCK_ROWS ||
        l->context > VALUE_MAX || s->vocab > VALUE_MAX * PCCX_LOWER_LANES)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "a smaller --context may help",
                       "an embedding of %u, a hidden size of %u, a head size of %u, %u positions or a vocabulary of %u "
                       "exceeds the limits of an instruction",
                       s->dim, s->hidden, s->head_dim, l->context, s->vocab);
    bool gemm = tv_backend_parameter(config, "gemm.k_max") >= GROUP; /* otherwise one row at a time, by GEMV */
    for (l->rows_max = gemm ? ROWS_MAX : 1; l->rows_max > 1 && allocate_buffers(l, l->rows_max) > l2_size_max;
         l->rows_max /= 2)
        continue;
    if (sizes > l2_size_max)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make l2.words larger with -D, or the context smaller",
                       "the model's activations need %llu words of L2, which has %llu", (unsigned long long)sizes,
                       (unsigned long long)l2_size_max);
    return TV_OK;
}

static tv_status allocate(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    l->matrices = calloc((size_t)s->layers * TV_WEIGHTS, sizeof *l->matrices);
    l->block = calloc((size_t)s->layers * s->kv_heads * s->head_dim, PCCX_LOWER_BLOCK * sizeof *l->block);
    l->value_rows = calloc((size_t)s->layers * s->kv_heads * s->head_dim, sizeof *l->value_rows);
    l->kept_values = calloc(l->graph->value_count, sizeof *l->kept_values);
    return l->matrices && l->block && l->value_rows && l->kept_values ? TV_OK : tv_fail_memory(sink);
}

static tv_status create(const tv_graph *graph, const tv_model *model, const tv_backend_options *options,
                        const tv_diag_sink *sink, void **state)
{
    unsigned planes = options->weight_bits == 8 ? 2 : 1; /* the second plane holds the rounding errors of the first */
    pccx_lowering *l = calloc(1, sizeof *l);
    if (!l)
        return tv_fail_memory(sink);
    *l = (pccx_lowering){
        .graph = graph,
        .model = model,
        .context = options->context,
        .group = GROUP,
        .planes = planes,
        .cache_planes = planes,
        .emit = options->emit,
        .outputs = options->outputs,
        .timing = options->mode == TV_MODE_TIMING,
        .keep_values = options->keep_values,
        .hidden = (model->dims.hidden + PCCX_LOWER_LANES - 1) / PCCX_LOWER_LANES * PCCX_LOWER_LANES,
        .pool = tv_pool_new(options->threads),
        .scale_search = tv_scale_search(tv_cpu()),
        .host_ops = {{"pack keys to INT4", 0, 0},
                     {"pack values to INT4", 0, 0},
                     {"hand a vector to the weight stream", 0, 0}},
    };
    tv_status status = allocate(l, sink);
    if (status == TV_OK)
        status = pccx_lower_init_encodings(l, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->machine);
    if (status == TV_OK)
        status = check_model(l, options->config, sink);
    if (status == TV_OK) {
        tv_machine_set_threads(l->machine, options->threads);
        status = pccx_lower_upload_model(l, &options->progress, sink);
    }
    if (status != TV_OK) {
        destroy(l);
        return status;
    }
    *state = l;
    return TV_OK;
}

/* ---- Steps ---- */

static tv_status read_logits(pccx_lowering *l, uint32_t rows, float *out, const tv_diag_sink *sink)
{
    uint32_t n = l->model->dims.vocab;
    for (uint32_t r = 0; r < rows; r++)
        TV_TRY(pccx_lower_read_bf16(l, l->map.logits + (uint64_t)r * pccx_lower_l2_size(n) * PCCX_LOWER_WORD_BYTES, n,
                                    out + (size_t)r * n, sink));
    return TV_OK;
}

/* Runs one step; rows [first, rows) have logits. With first == rows the final norm and the classifier are omitted. */
static tv_status step_rows(pccx_lowering *l, const int32_t *tokens, uint32_t rows, uint32_t position, uint32_t first,
                           float *logits, const tv_diag_sink *sink)
{
    tv_builder_clear(&l->program); /* left by a step that failed */
    l->programs = 0;
    l->rows = rows;
    l->position = position;
    allocate_buffers(l, rows);
    for (uint32_t i = 0; i < l->graph->node_count; i++) {
        const tv_graph_node *n = &l->graph->nodes[i];
        if (first < rows || (n->weight != TV_WEIGHT_NORM_FINAL && n->weight != TV_WEIGHT_CLASSIFIER))
            TV_TRY(lower_node(l, n, tokens, first, sink));
    }
    TV_TRY(pccx_lower_run(l, sink));
    l->steps++;
    return first < rows ? read_logits(l, rows - first, logits, sink) : TV_OK;
}

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    pccx_lowering *l = state;
    for (uint32_t done = 0, rows; done < count; done += rows) {
        rows = count - done < l->rows_max ? count - done : l->rows_max;
        uint32_t first = !last_only ? 0 : done + rows == count ? rows - 1 : rows;
        TV_TRY(step_rows(l, tokens + done, rows, position + done, first,
                         logits + (last_only ? 0 : (size_t)done * l->model->dims.vocab), sink));
    }
    return TV_OK;
}

static const float *value(void *state, uint32_t v) { return ((pccx_lowering *)state)->kept_values[v]; }

static tv_machine *machine(void *state) { return ((pccx_lowering *)state)->machine; }

static unsigned host_ops(const void *state, const tv_host_op **list)
{
    *list = ((const pccx_lowering *)state)->host_ops;
    return PCCX_LOWER_HOST_OPS;
}

extern const tv_backend tv_backend_pccx;
const tv_backend tv_backend_pccx = {.name = "pccx",
                                    .activation_bits_only = 8,
                                    .create = create,
                                    .destroy = destroy,
                                    .step = step,
                                    .value = value,
                                    .machine = machine,
                                    .host_ops = host_ops};
