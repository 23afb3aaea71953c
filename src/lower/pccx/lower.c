/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to pccx. Projections are GEMVs of INT4 rows, group of columns after group; GEMMs with several tokens. The
 * set has no elementwise product, square or rotation; but a GEMV's row scales are BF16 numbers from host memory, so the
 * GEMV of an identity with one vector as its scales is the elementwise product with that vector. Squares, rotation and
 * the gate are made of that.
 *
 * A weight stream runs ahead of the program and looks at no hazard. What a program computes can thus be a stream's
 * bytes only in the next program: where one ends for that, the host has nothing to do but go on, and the list of host
 * operations says so. What the host does compute is the packing of keys and values (pccx_cache.c). */
#include <stdlib.h>

#include "lower/pccx/lower.h"

/* Rows: a GEMM tile takes as long with fewer. Columns that share a scale: whole beats. */
enum { ROWS_MAX = 32, GROUP = 64, CHUNK_ROWS = 8 };

/* ---- Nodes ---- */

static uint32_t at(const pccx_lowering *l, pccx_place p) { return l->places[p]; }

/* Ends the program: the next one may stream what this one has stored, or the host looks at it. */
static tv_status hand_over(pccx_lowering *l, pccx_host_op op, uint64_t elements, const tv_diag_sink *sink)
{
    l->host_ops[op].count++;
    l->host_ops[op].elements += elements;
    return pccx_run(l, sink);
}

/* In the first program of all, L2 gets its constants. */
static void embed(pccx_lowering *l, const int32_t *tokens)
{
    uint32_t hidden = l->hidden, dim = l->model->dims.dim;
    if (!l->prepared) {
        pccx_load(l, at(l, PCCX_ONES), l->map.constants, hidden);
        pccx_load(l, at(l, PCCX_EPSILON), l->map.constants + (uint64_t)hidden * 2, 1);
        l->prepared = true;
    }
    for (uint32_t r = 0; r < l->rows; r++)
        pccx_load(l, at(l, PCCX_X) + r * pccx_words(dim), l->map.embedding + (uint64_t)tokens[r] * l->map.embedding_row,
                  dim);
}

/* ---- Norms ---- */

static void square(pccx_lowering *l, uint32_t row)
{
    uint32_t dim = l->model->dims.dim, x = at(l, PCCX_X) + row * pccx_words(dim);
    pccx_move(l, at(l, PCCX_SUM) + row, at(l, PCCX_EPSILON), 1);
    pccx_move(l, at(l, PCCX_ROOT) + row * (pccx_words(dim) + 1) + 1, x, dim);
    pccx_product(l, at(l, PCCX_SQUARES) + row * pccx_words(PCCX_BLOCK), x, l->map.vector + (uint64_t)row * dim * 2,
                 l->map.identity, dim, true, false);
}

static void shorten(pccx_lowering *l, uint32_t row)
{
    uint32_t dim = l->model->dims.dim, sum = at(l, PCCX_SUM) + row,
             root = at(l, PCCX_ROOT) + row * (pccx_words(dim) + 1);
    pccx_cvo(l, PCCX_CVO_REDUCE_SUM, sum, at(l, PCCX_SQUARES) + row * pccx_words(PCCX_BLOCK),
             dim < PCCX_BLOCK ? dim : PCCX_BLOCK, PCCX_ACCM);
    pccx_cvo(l, PCCX_CVO_SQRT, root, sum, 1, 0);
    pccx_cvo(l, PCCX_CVO_SCALE, at(l, PCCX_XN) + row * pccx_words(dim), root, dim, PCCX_RECIP_SCALE);
}

/* The input of a norm, which has just come to host memory. */
static tv_status keep(pccx_lowering *l, uint32_t value, const tv_diag_sink *sink)
{
    size_t count = (size_t)l->rows * l->model->dims.dim;
    if (!l->kept[value] && !(l->kept[value] = malloc((size_t)l->rows_max * l->model->dims.dim * sizeof(float))))
        return tv_fail_memory(sink);
    return pccx_read_bf16(l, l->map.vector, count, l->kept[value], sink);
}

/* x / sqrt(sum of squares + dim * eps) of rows from `first` on; the gains and sqrt(dim) are in the weights that follow.
 * GEMV is a row ahead of the SFU. */
static tv_status norm(pccx_lowering *l, const tv_graph_node *n, uint32_t first, const tv_diag_sink *sink)
{
    uint32_t dim = l->model->dims.dim;
    pccx_store(l, l->map.vector, at(l, PCCX_X), l->rows * dim);
    TV_TRY(hand_over(l, PCCX_HOST_SCALES, (uint64_t)l->rows * dim, sink));
    if (l->keep_values)
        TV_TRY(keep(l, n->inputs[0], sink));
    for (uint32_t r = first; r <= l->rows; r++) {
        if (r < l->rows)
            square(l, r);
        if (r > first)
            shorten(l, r - 1);
    }
    return TV_OK;
}

/* ---- Attention ---- */

/* What goes to the residual is added to it. */
static void project(pccx_lowering *l, const tv_graph_node *n, uint32_t in, pccx_place out)
{
    const pccx_matrix *m = pccx_matrix_of(l, n->weight, n->layer);
    pccx_project(l, m, l->rows, in, at(l, out), 0, pccx_group_count(l, m), out == PCCX_X);
}

static void rope(pccx_lowering *l, uint32_t heads, pccx_place in, pccx_place out)
{
    uint32_t d = l->model->dims.head_dim;
    for (uint32_t i = 0; i < l->rows * heads; i++) {
        uint32_t from = at(l, in) + i * pccx_words(d), to = at(l, out) + i * pccx_words(d);
        uint64_t angles = (l->position + i / heads) * l->map.rope_row;
        pccx_product(l, to, from, l->map.cosines + angles, l->map.identity, d, false, false);
        pccx_product(l, to, from, l->map.sines + angles, l->map.turn, d, false, true);
    }
}

static tv_status append(pccx_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t elements = l->rows * n->heads * l->model->dims.head_dim;
    pccx_store(l, l->map.value, at(l, PCCX_VALUE), elements);
    pccx_store(l, l->map.key, at(l, PCCX_TURNED_KEY), elements);
    TV_TRY(hand_over(l, PCCX_HOST_KEYS, elements, sink));
    l->host_ops[PCCX_HOST_VALUES].count++;
    l->host_ops[PCCX_HOST_VALUES].elements += elements;
    return pccx_append(l, n->layer, sink);
}

/* One head of one row. */
typedef struct head_places {
    uint32_t query, scores, powers, raw, mixed; /* `raw` begins with the sum */
    uint32_t kv, count;                         /* its head of the cache; positions that it sees */
} head_places;

static head_places places_of(const pccx_lowering *l, uint32_t i)
{
    const tv_model_dims *s = &l->model->dims;
    uint32_t words = pccx_words(s->head_dim), buffer = i % 2 * pccx_words(l->context);
    return (head_places){.query = at(l, PCCX_TURNED) + i * words,
                         .scores = at(l, PCCX_SCORES) + buffer,
                         .powers = at(l, PCCX_POWERS) + buffer,
                         .raw = at(l, PCCX_RAW) + i * (words + 1),
                         .mixed = at(l, PCCX_MIXED) + i * words,
                         .kv = i % s->heads / (s->heads / s->kv_heads),
                         .count = l->position + i / s->heads + 1};
}

/* Scores and their powers: the scale of scores is in the query's weights. */
static void weigh(pccx_lowering *l, uint32_t layer, uint32_t i)
{
    head_places p = places_of(l, i);
    pccx_scores(l, p.scores, p.query, layer, p.kv, p.count);
    pccx_cvo(l, PCCX_CVO_EXP, p.powers, p.scores, p.count, PCCX_SUB_EMAX);
}

static void mix(pccx_lowering *l, uint32_t layer, uint32_t i)
{
    head_places p = places_of(l, i);
    pccx_cvo(l, PCCX_CVO_REDUCE_SUM, p.raw, p.powers, p.count, 0);
    pccx_mix(l, p.raw + 1, p.powers, layer, p.kv, p.count);
}

/* The softmax's division comes after the mix, which has fewer elements. */
static void divide(pccx_lowering *l, uint32_t i)
{
    head_places p = places_of(l, i);
    pccx_cvo(l, PCCX_CVO_SCALE, p.mixed, p.raw, l->model->dims.head_dim, PCCX_RECIP_SCALE);
}

/* Scores, softmax and mix of all heads: three nodes of the graph. While the SFU works on a head, GEMV has the next. */
static void attention(pccx_lowering *l, const tv_graph_node *n)
{
    uint32_t count = l->rows * n->heads;
    for (uint32_t i = 0; i < count + 2; i++) {
        if (i < count)
            weigh(l, n->layer, i);
        if (i > 0 && i <= count)
            mix(l, n->layer, i - 1);
        if (i > 1)
            divide(l, i - 2);
    }
}

/* ---- Feed forward ---- */

/* SiLU is g * sigmoid(g), sigmoid(g) 1 / (1 + exp -g). The gate's weights have the other sign and give -g, of which the
 * SFU takes the powers, adding them to ones; the sign is made good by that of `up`. Rows go in chunks: while the SFU
 * has one, GEMV makes the products of the one before, which are of the next program. */
typedef struct chunk {
    uint32_t first, rows;
} chunk;

static chunk chunk_at(const pccx_lowering *l, uint32_t i)
{
    uint32_t first = i * CHUNK_ROWS;
    return (chunk){first, first >= l->rows ? 0 : l->rows - first < CHUNK_ROWS ? l->rows - first : CHUNK_ROWS};
}

/* A function over rows, which follow each other; an instruction takes so many elements. */
static void over_rows(pccx_lowering *l, pccx_insn function, pccx_place to, pccx_place from, chunk c, unsigned flags)
{
    enum { LENGTH_MAX = 65528 };
    uint32_t end = (c.first + c.rows) * l->hidden;
    for (uint32_t i = c.first * l->hidden; i < end; i += LENGTH_MAX)
        pccx_cvo(l, function, at(l, to) + pccx_words(i), at(l, from) + pccx_words(i),
                 end - i < LENGTH_MAX ? end - i : LENGTH_MAX, flags);
}

static void raise_powers(pccx_lowering *l, chunk c)
{
    for (uint32_t r = c.first; r < c.first + c.rows; r++)
        pccx_move(l, at(l, PCCX_SIGMOID) + r * pccx_words(l->hidden), at(l, PCCX_ONES), l->hidden);
    over_rows(l, PCCX_CVO_EXP, PCCX_SIGMOID, PCCX_GATE, c, PCCX_ACCM);
}

static void end_sigmoid(pccx_lowering *l, chunk c)
{
    over_rows(l, PCCX_CVO_RECIP, PCCX_SIGMOID, PCCX_SIGMOID, c, 0);
    if (c.rows)
        pccx_store(l, l->map.vector + (uint64_t)c.first * l->hidden * 2,
                   at(l, PCCX_SIGMOID) + c.first * pccx_words(l->hidden), c.rows * l->hidden);
}

static void gate(pccx_lowering *l, const tv_graph_node *n)
{
    project(l, n, l->input, PCCX_GATE);
    raise_powers(l, chunk_at(l, 0));
}

/* The reciprocals are issued in the middle of `up`, so that neither waits for the other. */
static void up(pccx_lowering *l, const tv_graph_node *n)
{
    const pccx_matrix *m = pccx_matrix_of(l, n->weight, n->layer);
    uint32_t groups = pccx_group_count(l, m), half = groups / 2;
    pccx_project(l, m, l->rows, l->input, at(l, PCCX_UP), 0, half, false);
    end_sigmoid(l, chunk_at(l, 0));
    pccx_project(l, m, l->rows, l->input, at(l, PCCX_UP), half, groups, false);
    pccx_store(l, l->map.vector2, at(l, PCCX_UP), l->rows * l->hidden);
}

static void multiply_rows(pccx_lowering *l, uint32_t from, uint32_t to)
{
    for (uint32_t r = from; r < to; r++) {
        uint64_t offset = (uint64_t)r * l->hidden * 2;
        uint32_t row = r * pccx_words(l->hidden);
        pccx_product(l, at(l, PCCX_ACT) + row, at(l, PCCX_GATE) + row, l->map.vector + offset, l->map.identity,
                     l->hidden, false, false);
        pccx_product(l, at(l, PCCX_HIDDEN) + row, at(l, PCCX_ACT) + row, l->map.vector2 + offset, l->map.identity,
                     l->hidden, false, false);
    }
}

/* The reciprocals of the next chunk come when its powers are about done. */
static tv_status multiply(pccx_lowering *l, const tv_diag_sink *sink)
{
    for (uint32_t i = 0; chunk_at(l, i).rows; i++) {
        chunk c = chunk_at(l, i), next = chunk_at(l, i + 1);
        TV_TRY(hand_over(l, PCCX_HOST_SCALES, ((uint64_t)c.rows + (i ? 0 : l->rows)) * l->hidden, sink));
        raise_powers(l, next);
        multiply_rows(l, c.first, c.first + c.rows / 2);
        end_sigmoid(l, next);
        multiply_rows(l, c.first + c.rows / 2, c.first + c.rows);
    }
    l->input = pccx_group_rows(l, at(l, PCCX_HIDDEN), l->hidden);
    return TV_OK;
}

/* ---- The graph ---- */

/* Row by row: L2 need not have room for all. */
static void classify(pccx_lowering *l, const tv_graph_node *n, uint32_t first)
{
    const pccx_matrix *m = pccx_matrix_of(l, n->weight, n->layer);
    const tv_model_dims *s = &l->model->dims;
    for (uint32_t r = first; r < l->rows; r++) {
        pccx_project(l, m, 1, at(l, PCCX_XN) + r * pccx_words(s->dim), at(l, PCCX_LOGITS), 0, pccx_group_count(l, m),
                     false);
        pccx_store(l, l->map.logits + (uint64_t)(r - first) * pccx_words(s->vocab) * PCCX_WORD, at(l, PCCX_LOGITS),
                   s->vocab);
    }
}

static void matmul(pccx_lowering *l, const tv_graph_node *n, uint32_t first)
{
    switch (n->weight) {
    case TV_WEIGHT_Q:
        project(l, n, l->input, PCCX_QUERY);
        break;
    case TV_WEIGHT_K:
        project(l, n, l->input, PCCX_KEY);
        break;
    case TV_WEIGHT_V:
        project(l, n, l->input, PCCX_VALUE);
        break;
    case TV_WEIGHT_O:
        project(l, n, pccx_group_rows(l, at(l, PCCX_MIXED), l->model->dims.heads * l->model->dims.head_dim), PCCX_X);
        break;
    case TV_WEIGHT_GATE:
        gate(l, n);
        break;
    case TV_WEIGHT_UP:
        up(l, n);
        break;
    case TV_WEIGHT_DOWN:
        project(l, n, l->input, PCCX_X);
        break;
    default:
        classify(l, n, first);
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

/* Rows from `first` on have logits. */
static tv_status lower_node(pccx_lowering *l, const tv_graph_node *n, const int32_t *tokens, uint32_t first,
                            const tv_diag_sink *sink)
{
    tv_graph_block_name(l->graph, n, l->part);
    tv_builder_label(&l->program, l->part);
    switch (n->op) {
    case TV_OP_EMBED:
        embed(l, tokens);
        break;
    case TV_OP_RMSNORM: {
        bool final = n->weight == TV_WEIGHT_NORM_FINAL;
        TV_TRY(norm(l, n, final ? first : 0, sink));
        l->input = final ? 0 : pccx_group_rows(l, at(l, PCCX_XN), l->model->dims.dim);
        break;
    }
    case TV_OP_MATMUL:
        matmul(l, n, first);
        break;
    case TV_OP_ROPE:
        if (is_query(l, n->inputs[0]))
            rope(l, n->heads, PCCX_QUERY, PCCX_TURNED);
        else
            rope(l, n->heads, PCCX_KEY, PCCX_TURNED_KEY);
        break;
    case TV_OP_APPEND:
        return append(l, n, sink);
    case TV_OP_SCORES:
        attention(l, n);
        break;
    case TV_OP_MUL:
        return multiply(l, sink);
    case TV_OP_SOFTMAX:
    case TV_OP_WEIGHTED_SUM: /* done with the scores */
    case TV_OP_SILU:         /* done with gate and up */
    case TV_OP_ADD:          /* done with the product */
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
    tv_program_free(l->loaded);
    tv_pool_free(l->pool);
    for (uint32_t i = 0; l->kept && i < l->graph->value_count; i++)
        free(l->kept[i]);
    free(l->kept);
    free(l->matrices);
    free(l->block);
    free(l->value_rows);
    free(l);
}

/* Gives each place its words for steps of `rows` tokens; constants stay where they are. Returns the words in all. */
static uint64_t lay_out(pccx_lowering *l, uint32_t rows)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t head = pccx_words(s->head_dim), dim = (uint64_t)rows * pccx_words(s->dim),
             hidden = (uint64_t)rows * pccx_words(l->hidden);
    uint64_t wide = rows * s->heads * head, narrow = rows * s->kv_heads * head,
             scores = 2 * (uint64_t)pccx_words(l->context);
    uint64_t widest = hidden > dim ? hidden : dim;
    const uint64_t words[PCCX_PLACES] = {
        [PCCX_ONES] = pccx_words(l->hidden),
        [PCCX_EPSILON] = 1,
        [PCCX_X] = dim,
        [PCCX_ROOT] = dim + rows,
        [PCCX_XN] = dim,
        [PCCX_GROUPED] = rows == 1       ? 0
                         : widest > wide ? widest
                                         : wide,
        [PCCX_SQUARES] = (uint64_t)rows * pccx_words(PCCX_BLOCK),
        [PCCX_SUM] = rows,
        [PCCX_QUERY] = wide,
        [PCCX_KEY] = narrow,
        [PCCX_VALUE] = narrow,
        [PCCX_TURNED] = wide,
        [PCCX_TURNED_KEY] = narrow,
        [PCCX_SCORES] = scores,
        [PCCX_POWERS] = scores,
        [PCCX_RAW] = wide + rows * s->heads,
        [PCCX_MIXED] = wide,
        [PCCX_GATE] = hidden,
        [PCCX_SIGMOID] = hidden,
        [PCCX_UP] = hidden,
        [PCCX_ACT] = hidden,
        [PCCX_HIDDEN] = hidden,
        [PCCX_LOGITS] = pccx_words(s->vocab),
    };
    uint64_t end = 0;
    for (unsigned p = 0; p < PCCX_PLACES; p++) {
        l->places[p] = (uint32_t)end;
        end += words[p];
    }
    return end;
}

static tv_status check_model(pccx_lowering *l, const tv_config *config, const tv_diag_sink *sink)
{
    enum { VALUE_MAX = 65535 };
    const tv_model_dims *s = &l->model->dims;
    uint64_t words = lay_out(l, 1), most = pccx_space_size(l->machine, "l2");
    if (s->head_dim % PCCX_LANES)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "the other machines may take it",
                       "%u dimensions of a head do not fill whole words of %d", s->head_dim, PCCX_LANES);
    if (s->head_dim > PCCX_HEAD_MAX || s->dim > PCCX_ROWS || l->hidden > PCCX_ROWS || l->context > VALUE_MAX ||
        s->vocab > VALUE_MAX * PCCX_LANES)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "a smaller --context may help",
                       "%u dimensions, %u of the hidden layer, %u of a head, %u positions or a vocabulary of %u are "
                       "too many for an instruction",
                       s->dim, s->hidden, s->head_dim, l->context, s->vocab);
    bool gemm = tv_backend_parameter(config, "gemm.k_max") >= GROUP; /* else one row at a time, by GEMV */
    for (l->rows_max = gemm ? ROWS_MAX : 1; l->rows_max > 1 && lay_out(l, l->rows_max) > most; l->rows_max /= 2)
        continue;
    if (words > most)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make l2.words larger with -D, or the context smaller",
                       "the model's activations take %llu words of L2, which has %llu", (unsigned long long)words,
                       (unsigned long long)most);
    return TV_OK;
}

static tv_status allocate(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    l->matrices = calloc((size_t)s->layers * TV_WEIGHTS, sizeof *l->matrices);
    l->block = calloc((size_t)s->layers * s->kv_heads * s->head_dim, PCCX_BLOCK * sizeof *l->block);
    l->value_rows = calloc((size_t)s->layers * s->kv_heads * s->head_dim, sizeof *l->value_rows);
    l->kept = calloc(l->graph->value_count, sizeof *l->kept);
    return l->matrices && l->block && l->value_rows && l->kept ? TV_OK : tv_fail_memory(sink);
}

static tv_status create(const tv_graph *graph, const tv_model *model, const tv_backend_options *options,
                        const tv_diag_sink *sink, void **state)
{
    unsigned planes = options->weight_bits == 8 ? 2 : 1; /* the second has what rounding left of the first */
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
        .timing = options->mode == TV_MODE_TIMING,
        .keep_values = options->keep_values,
        .hidden = (model->dims.hidden + PCCX_LANES - 1) / PCCX_LANES * PCCX_LANES,
        .pool = tv_pool_new(options->threads),
        .scale_search = tv_scale_search(tv_cpu()),
        .host_ops = {{"pack keys to INT4", 0, 0},
                     {"pack values to INT4", 0, 0},
                     {"hand a vector to the weight stream", 0, 0}},
    };
    tv_status status = allocate(l, sink);
    if (status == TV_OK)
        status = pccx_begin_words(l, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->machine);
    if (status == TV_OK)
        status = check_model(l, options->config, sink);
    if (status == TV_OK) {
        tv_machine_set_threads(l->machine, options->threads);
        status = pccx_place_model(l, &options->progress, sink);
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
        TV_TRY(
            pccx_read_bf16(l, l->map.logits + (uint64_t)r * pccx_words(n) * PCCX_WORD, n, out + (size_t)r * n, sink));
    return TV_OK;
}

/* Rows from `first` on have logits; where none has, the last norm and the classifier are left out. */
static tv_status step_rows(pccx_lowering *l, const int32_t *tokens, uint32_t rows, uint32_t position, uint32_t first,
                           float *logits, const tv_diag_sink *sink)
{
    tv_builder_clear(&l->program); /* of a step that failed */
    l->programs = 0;
    l->rows = rows;
    l->position = position;
    lay_out(l, rows);
    for (uint32_t i = 0; i < l->graph->node_count; i++) {
        const tv_graph_node *n = &l->graph->nodes[i];
        if (first < rows || (n->weight != TV_WEIGHT_NORM_FINAL && n->weight != TV_WEIGHT_CLASSIFIER))
            TV_TRY(lower_node(l, n, tokens, first, sink));
    }
    TV_TRY(pccx_run(l, sink));
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

static const float *value(void *state, uint32_t v) { return ((pccx_lowering *)state)->kept[v]; }

static tv_machine *machine(void *state) { return ((pccx_lowering *)state)->machine; }

static unsigned host_ops(const void *state, const tv_host_op **list)
{
    *list = ((const pccx_lowering *)state)->host_ops;
    return PCCX_HOST_OPS;
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
