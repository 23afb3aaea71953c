/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to CMDQ: for each step a queue of tiles. Weights lie in DRAM as integers with a scale for each group of a
 * row and pass through two SPM banks in turn, so that one block is loaded while the other is used; activations stay in
 * SPM; keys and values go to the cache and come back through KV entries. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "graph/quantize.h"
#include "lower/cmdq/lower.h"
#include "num/float.h"
#include "trivet/file.h"

/* ---- SPM and DRAM ---- */

/* What places take for `m` tokens at a time, and in which bank they stand best. */
static void want_places(const lowering *l, uint32_t m, place wanted[PLACES])
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t dim = (uint64_t)m * s->dim, wide = (uint64_t)m * s->heads * s->head_dim,
             narrow = (uint64_t)m * s->kv_heads * s->head_dim;
    uint64_t seen = (uint64_t)(m < SEEN_ROWS ? m : SEEN_ROWS) * l->context, scores = seen * (s->heads / s->kv_heads),
             cache = (uint64_t)l->context * s->head_dim;
    uint64_t scale_bytes =
        l->bank_bytes * 32 / (32 + l->weight_bits * l->group) / 64 * 64; /* 32 bits for each group's bits */
    uint64_t vocab = (uint64_t)s->vocab * 4, hidden = (uint64_t)m * s->hidden,
             unit = m == 1 || s->hidden < l->unit ? hidden : (uint64_t)m * l->unit, input = l->activation_bits / 8;
    const place list[PLACES] = {
        [X] = {.bank = BANK_X, .bytes = dim * 4},
        [XN] = {.bank = BANK_X, .bytes = dim * input},
        [GAINS] = {.bank = BANK_QUERY, .bytes = (uint64_t)s->dim * 4},
        [MASK] = {.bank = BANK_HIDDEN, .bytes = m == 1 ? 0 : (uint64_t)m * l->context * 4},
        [QUERY] = {.bank = BANK_QUERY, .phase = ATTENTION, .bytes = wide * 4},
        [KEY] = {.bank = BANK_KEY, .phase = ATTENTION, .bytes = narrow * 4},
        [KEY8] = {.bank = BANK_QUERY, .phase = ATTENTION, .bytes = narrow},
        [VALUE8] = {.bank = BANK_KEY, .phase = ATTENTION, .bytes = narrow},
        [TURNED] = {.bank = BANK_CACHE, .phase = ATTENTION, .bytes = wide * input},
        [KEYS] = {.bank = BANK_CACHE, .phase = ATTENTION, .bytes = cache},
        [VALUES] = {.bank = BANK_HIDDEN, .phase = ATTENTION, .bytes = cache},
        [SCORES] = {.bank = BANK_SCORES, .phase = ATTENTION, .bytes = scores * 4},
        [SHARES] = {.bank = BANK_CACHE, .phase = ATTENTION, .bytes = scores * 2},
        [MIXED] = {.bank = BANK_HIDDEN, .phase = ATTENTION, .bytes = wide * input},
        [GATE] = {.bank = BANK_QUERY, .phase = FEED_FORWARD, .bytes = unit * 4},
        [UP] = {.bank = BANK_KEY, .phase = FEED_FORWARD, .bytes = unit * 4},
        [GATE + 1] = {.bank = BANK_QUERY, .phase = FEED_FORWARD, .bytes = m == 1 ? 0 : unit * 4},
        [UP + 1] = {.bank = BANK_KEY, .phase = FEED_FORWARD, .bytes = m == 1 ? 0 : unit * 4},
        [HIDDEN] = {.bank = BANK_HIDDEN, .phase = FEED_FORWARD, .bytes = hidden * input},
        [LOGITS] = {.bank = BANK_CACHE,
                    .phase = FEED_FORWARD,
                    .bytes =
                        tv_min_u64(m * vocab, tv_max_u64(l->bank_bytes / 4, (uint64_t)m * 4))}, /* a column at least */
        [WEIGHTS] = {.bank = BANK_WEIGHTS, .bytes = (l->bank_bytes - scale_bytes) / 64 * 64},
        [WEIGHTS + 1] = {.bank = BANK_WEIGHTS + 1, .bytes = (l->bank_bytes - scale_bytes) / 64 * 64},
        [SCALES] = {.bank = BANK_WEIGHTS, .bytes = scale_bytes},
        [SCALES + 1] = {.bank = BANK_WEIGHTS + 1, .bytes = scale_bytes},
    };
    memcpy(wanted, list, sizeof list);
}

/* The bytes of each bank that are taken, when attention is worked on and when the feed-forward layer is. */
typedef struct taken {
    uint64_t attention[BANKS], feed_forward[BANKS];
} taken;

static uint64_t first_free(const taken *t, phase when, unsigned bank)
{
    uint64_t a = t->attention[bank], f = t->feed_forward[bank];
    return when == ATTENTION ? a : when == FEED_FORWARD ? f : a > f ? a : f;
}

static void take_bank(taken *t, phase when, unsigned bank, uint64_t end)
{
    if (when != FEED_FORWARD)
        t->attention[bank] = end;
    if (when != ATTENTION)
        t->feed_forward[bank] = end;
}

/* Gives a place room in its bank, or, where that is full, in the next that has it. */
static bool lay_out_place(const lowering *l, place *p, taken *t)
{
    unsigned turns = 0;
    for (; turns < BANKS && first_free(t, p->phase, p->bank) + p->bytes > l->bank_bytes; turns++)
        p->bank = (p->bank + 1) % BANKS;
    p->offset = first_free(t, p->phase, p->bank);
    take_bank(t, p->phase, p->bank, p->offset + p->bytes);
    return turns < BANKS;
}

/* Puts the places into banks for `m` tokens at a time: those that are always used before others. False: they do not
 * fit. */
static bool lay_out(lowering *l, uint32_t m)
{
    const tv_model_dims *s = &l->model->dims;
    place wanted[PLACES];
    taken t = {{0}, {0}};
    want_places(l, m, wanted);
    for (unsigned slot = 0; slot < SLOTS; slot++) /* banks for nothing else */
        take_bank(&t, ALWAYS, BANK_WEIGHTS + slot, l->bank_bytes);
    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned i = 0; i < PLACES; i++) {
            place *p = &l->places[i];
            if ((wanted[i].phase == ALWAYS) != (turn == 0))
                continue;
            p->bank = wanted[i].bank;
            p->phase = wanted[i].phase;
            p->bytes = (wanted[i].bytes + 63) / 64 * 64;
            p->offset = i >= SCALES ? l->bank_bytes - p->bytes : 0;
            if (i < WEIGHTS && !lay_out_place(l, p, &t))
                return false;
        }
    uint32_t widest = s->dim > s->hidden ? s->dim : s->hidden;
    if (m == 1)
        return rows_that_fit(l, widest) > 0 && rows_that_fit(l, s->heads * s->head_dim) > 0;
    /* blocks of the output for each unit of columns, whole columns of it for each unit of input */
    return rows_that_fit(l, s->dim) >= (s->head_dim > l->unit ? s->head_dim : l->unit) &&
           rows_that_fit(l, l->unit) >= s->dim && rows_that_fit(l, s->head_dim) >= s->dim;
}

static uint64_t take_dram(lowering *l, uint64_t bytes)
{
    uint64_t at = l->dram_end;
    l->dram_end += (bytes + 63) / 64 * 64;
    return at;
}

static tv_status check_room(const lowering *l, const tv_diag_sink *sink)
{
    uint64_t size = tv_backend_parameter(tv_machine_config(l->machine), "dram.bytes");
    if (l->dram_end <= size)
        return TV_OK;
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                   "make dram.bytes larger with -D, or the context smaller",
                   "the model and its cache take more than the %" PRIu64 " bytes of DRAM", size);
}

static tv_status place_gains(lowering *l, const tv_matrix *from, const matrix *to, const tv_diag_sink *sink)
{
    float *row = malloc(from->columns * sizeof *row);
    tv_status status = row ? tv_matrix_row_f32(from, 0, row) : tv_fail_memory(sink);
    if (status == TV_OK)
        status = tv_machine_write(l->machine, "dram", to->data, row, from->columns * sizeof *row, sink);
    free(row);
    return status;
}

static tv_status place_quantized(lowering *l, const tv_matrix *from, const matrix *to, float input,
                                 const tv_diag_sink *sink)
{
    enum { TOGETHER = 4096 };
    uint32_t n = from->columns, groups = n / l->group, most = from->rows < TOGETHER ? from->rows : TOGETHER;
    float *scales = malloc((size_t)most * groups * sizeof *scales);
    uint8_t *packed = malloc(most * to->row_bytes);
    tv_status status = scales && packed ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0, count; r < from->rows && status == TV_OK; r += count) {
        count = from->rows - r < most ? from->rows - r : most;
        tv_quantize_job job = {.matrix = from,
                               .first = r,
                               .count = count,
                               .columns = n,
                               .group = l->group,
                               .bits = l->weight_bits,
                               .packed = packed,
                               .scales = scales};
        status = tv_quantize_rows(&job, l->pool) ? tv_machine_write(l->machine, "dram", to->data + r * to->row_bytes,
                                                                    packed, count * to->row_bytes, sink)
                                                 : tv_fail_memory(sink);
        for (size_t i = 0; i < (size_t)count * groups && status == TV_OK; i++)
            scales[i] *= input;
        if (status == TV_OK)
            status = tv_machine_write(l->machine, "dram", to->scales + (uint64_t)r * groups * 4, scales,
                                      (size_t)count * groups * 4, sink);
    }
    free(scales);
    free(packed);
    return status;
}

/* Quantizes a matrix, or takes a norm's gains as they are, and writes it to DRAM. */
static tv_status place_matrix(lowering *l, tv_weight weight, uint32_t layer, const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_model_matrix(l->model, weight, layer);
    matrix *to = matrix_of(l, weight, layer);
    if (!from->rows)
        return TV_OK;
    bool gains = tv_weight_is_norm(weight);
    uint32_t n = from->columns;
    *to = (matrix){
        .rows = from->rows, .columns = n, .row_bytes = gains ? (uint64_t)n * 4 : (uint64_t)n * l->weight_bits / 8};
    to->data = take_dram(l, to->row_bytes * from->rows);
    to->scales = gains ? 0 : take_dram(l, (uint64_t)from->rows * (n / l->group) * 4);
    TV_TRY(check_room(l, sink));
    if (l->timing)
        return TV_OK;
    return gains ? place_gains(l, from, to, sink)
                 : place_quantized(l, from, to, cmdq_input_range(l, weight, layer), sink);
}

/* ---- Creating ---- */

static void destroy(void *state)
{
    lowering *l = state;
    if (!l)
        return;
    for (unsigned p = 0; p < PLACES; p++)
        tv_buf_fini(&l->places[p].readers);
    tv_queue_builder_free(l->entries);
    tv_buf_fini(&l->metadata);
    tv_buf_fini(&l->deps);
    tv_pool_free(l->pool);
    tv_machine_free(l->machine);
    tv_program_free(l->program);
    tv_program_free(l->before);
    free(l->matrices);
    free(l->k_base);
    free(l->v_base);
    free(l->ranges);
    free(l->kv_writer);
    for (uint32_t v = 0; l->values && v < l->graph->value_count; v++)
        free(l->values[v]);
    free(l->values);
    free(l->node_end);
    free(l);
}

/* As many tokens at a time as there is room for, and of hidden columns then. */
static bool choose_blocks(lowering *l)
{
    for (l->rows_max = ROWS_MAX; l->rows_max > 0; l->rows_max /= 2)
        for (l->unit = UNIT_MAX; l->unit >= UNIT_MIN; l->unit /= 2)
            if (lay_out(l, l->rows_max))
                return true;
    return false;
}

static tv_status read_config(lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    l->te = (unsigned)tv_backend_parameter(options->config, "npu.te");
    l->ve = (unsigned)tv_backend_parameter(options->config, "npu.ve");
    l->bank_bytes = tv_backend_parameter(options->config, "spm.bank_bytes");
    l->weight_bits = options->weight_bits ? options->weight_bits : 8;
    l->activation_bits = options->activation_bits ? options->activation_bits : 8;
    l->context = options->context;
    for (l->group = 32; s->dim % l->group || s->hidden % l->group || s->head_dim % l->group; l->group /= 2)
        continue;
    if (l->group < 2)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "the other machines may take it",
                       "groups of weights need even sizes; the model has %u dimensions, %u hidden, %u of a head",
                       s->dim, s->hidden, s->head_dim);
    if (tv_backend_parameter(options->config, "spm.banks") < BANKS)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make spm.banks larger with -D",
                       "the lowering needs %d SPM banks", BANKS);
    if (!choose_blocks(l) || !lay_out(l, 1)) /* one token has other places than more have */
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make spm.bank_bytes larger with -D, or the context smaller",
                       "the model's activations and cache do not fit the SPM banks");
    return TV_OK;
}

static tv_status allocate(lowering *l, bool keep_values, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    if (keep_values) {
        l->values = calloc(l->graph->value_count, sizeof *l->values);
        l->node_end = calloc(l->graph->node_count, sizeof *l->node_end);
        if (!l->values || !l->node_end)
            return tv_fail_memory(sink);
    }
    l->matrices = calloc((size_t)s->layers * TV_WEIGHTS, sizeof *l->matrices);
    l->k_base = calloc(s->layers, sizeof *l->k_base);
    l->v_base = calloc(s->layers, sizeof *l->v_base);
    l->ranges = malloc(s->layers * sizeof *l->ranges);
    l->kv_writer = calloc(s->layers, sizeof *l->kv_writer);
    for (uint32_t i = 0; l->ranges && i < s->layers; i++) /* also of timing, where no values are */
        l->ranges[i] = (cmdq_ranges){1, 1, 1, 1, 1, 1, 1, 1};
    return l->matrices && l->k_base && l->v_base && l->ranges && l->kv_writer ? TV_OK : tv_fail_memory(sink);
}

static tv_status place_mask(lowering *l, const tv_diag_sink *sink)
{
    uint32_t columns = cmdq_mask_columns(l);
    float *row = malloc(columns * sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < SEEN_ROWS && status == TV_OK; r++) {
        for (uint32_t c = 0; c < columns; c++)
            row[c] = c <= l->context + r ? 0 : -INFINITY;
        status = tv_machine_write(l->machine, "dram", l->mask_addr + (uint64_t)r * columns * sizeof *row, row,
                                  columns * sizeof *row, sink);
    }
    free(row);
    return status;
}

static tv_status place_model(lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t cache = (uint64_t)s->kv_heads * l->context * s->head_dim;
    for (uint32_t layer = 0; layer < s->layers; layer++)
        for (unsigned w = 0; w < TV_WEIGHTS; w++) {
            tv_progress_report(progress, "placing weights", layer * TV_WEIGHTS + w, (uint64_t)s->layers * TV_WEIGHTS);
            if (w != TV_WEIGHT_EMBEDDING)
                TV_TRY(place_matrix(l, (tv_weight)w, layer, sink));
        }
    l->mask_addr = take_dram(l, (uint64_t)SEEN_ROWS * cmdq_mask_columns(l) * 4);
    for (uint32_t layer = 0; layer < s->layers; layer++) {
        l->k_base[layer] = take_dram(l, cache);
        l->v_base[layer] = take_dram(l, cache);
    }
    l->x_addr = take_dram(l, (uint64_t)ROWS_MAX * s->dim * 4);
    l->logits_addr = take_dram(l, (uint64_t)ROWS_MAX * s->vocab * 4);
    TV_TRY(check_room(l, sink));
    return l->timing ? TV_OK : place_mask(l, sink);
}

static tv_status create(const tv_graph *graph, const tv_model *model, const tv_backend_options *options,
                        const tv_diag_sink *sink, void **state)
{
    lowering *l = calloc(1, sizeof *l);
    if (!l)
        return tv_fail_memory(sink);
    l->graph = graph;
    l->model = model;
    l->emit = options->emit;
    l->timing = options->mode == TV_MODE_TIMING;
    l->pool = tv_pool_new(options->threads);
    tv_status status = read_config(l, options, sink);
    if (status == TV_OK)
        status = allocate(l, options->keep_values, sink);
    if (status == TV_OK && !l->timing) /* before the weights are placed: it takes about as much memory as they do */
        status = cmdq_learn_ranges(l, options, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->machine);
    if (status == TV_OK) {
        tv_machine_set_threads(l->machine, options->threads);
        status = place_model(l, &options->progress, sink);
    }
    if (status != TV_OK) {
        destroy(l);
        return status;
    }
    *state = l;
    return TV_OK;
}

/* ---- Steps ---- */

enum { PATH_LENGTH = 4096 };

static const char *queue_path(const lowering *l, char path[PATH_LENGTH])
{
    if (!l->emit)
        return "step.json";
    snprintf(path, PATH_LENGTH, "%s/step_%06" PRIu32 ".json", l->emit, l->steps);
    return path;
}

/* ---- The tokens' rows of the embedding: they come with a queue that is written, else straight to DRAM, which is
 * faster ---- */

static tv_status print_hex(lowering *l, const float *row, const tv_diag_sink *sink)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t dim = l->model->dims.dim;
    char *hex = tv_buf_extend(&l->metadata, (size_t)dim * 8);
    for (uint32_t i = 0; i < 4 * dim && hex; i++) {
        uint32_t byte = tv_f32_bits(row[i / 4]) >> 8 * (i % 4) & 0xFF;
        hex[2 * i] = digits[byte >> 4];
        hex[2 * i + 1] = digits[byte & 15];
    }
    return hex ? TV_OK : tv_fail_memory(sink);
}

static tv_status put_rows(lowering *l, const int32_t *tokens, const tv_diag_sink *sink)
{
    const tv_matrix *embedding = tv_model_matrix(l->model, TV_WEIGHT_EMBEDDING, 0);
    size_t bytes = l->model->dims.dim * sizeof(float);
    float *row = malloc(bytes);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < l->rows && status == TV_OK; r++) {
        status = tv_matrix_row_f32(embedding, (uint64_t)tokens[r], row);
        if (status == TV_OK)
            status = l->emit ? print_hex(l, row, sink)
                             : tv_machine_write(l->machine, "dram", l->x_addr + r * bytes, row, bytes, sink);
    }
    free(row);
    return status;
}

/* What the metadata of a step say: the cache, what DRAM holds before, and the logits, which are what the queue leaves
 * for the host. The first queue that is written names the weights, so that the queues run by themselves. */
static tv_status print_metadata(lowering *l, const int32_t *tokens, uint32_t first, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    tv_buf *text = &l->metadata;
    text->len = 0;
    tv_buf_str(text, "{\"version\": \"1.2\", \"graph_name\": \"step\", \"kv_layouts\": [");
    for (uint32_t i = 0; i < s->layers; i++)
        tv_buf_printf(text,
                      "%s{\"id\": %" PRIu32 ", \"k_base\": %" PRIu64 ", \"v_base\": %" PRIu64 ", \"t_max\": %" PRIu32
                      ", \"d_head\": %" PRIu32 ", \"heads\": %" PRIu32 "}",
                      i ? ", " : "", i, l->k_base[i], l->v_base[i], l->context, s->head_dim, s->kv_heads);
    tv_buf_printf(text, "], \"dram_init\": [%s",
                  l->emit && l->steps == 0 ? "{\"addr\": 0, \"file\": \"weights.bin\"}, " : "");
    if (l->emit) {
        tv_buf_printf(text, "{\"addr\": %" PRIu64 ", \"hex\": \"", l->x_addr);
        TV_TRY(put_rows(l, tokens, sink));
        tv_buf_str(text, "\"}");
    }
    tv_buf_str(text, "], \"outputs\": [");
    if (first < l->rows)
        tv_buf_printf(
            text, "{\"name\": \"logits\", \"dram_addr\": %" PRIu64 ", \"num_elements\": %" PRIu64 ", \"qbits\": 32}",
            l->logits_addr, (uint64_t)(l->rows - first) * s->vocab);
    tv_buf_str(text, "]}");
    return TV_OK;
}

static tv_status begin_queue(lowering *l, const int32_t *tokens, uint32_t rows, uint32_t position, uint32_t first,
                             const tv_diag_sink *sink)
{
    char path[PATH_LENGTH];
    l->rows = rows;
    l->position = position;
    l->slot = l->te_turn = l->ve_turn = 0;
    lay_out(l, rows == 1 ? 1 : l->rows_max); /* fewer rows stand where the most would */
    for (unsigned p = 0; p < PLACES; p++) {
        l->places[p].writer = NO_ENTRY;
        l->places[p].readers.len = 0;
    }
    for (uint32_t i = 0; i < l->model->dims.layers; i++)
        l->kv_writer[i] = NO_ENTRY;
    if (l->emit && l->steps == 0)
        TV_TRY(tv_backend_save_space(l->machine, "dram", l->k_base[0], l->emit, "weights.bin", sink));
    if (!l->emit && !l->timing)
        TV_TRY(put_rows(l, tokens, sink));
    TV_TRY(print_metadata(l, tokens, first, sink));
    tv_queue_builder_free(l->entries); /* of a step that failed */
    l->entries = NULL;
    tv_program *before = l->before;
    l->before = NULL;
    return tv_queue_builder_new(queue_path(l, path), (tv_sv){(const char *)l->metadata.data, l->metadata.len}, before,
                                sink, &l->entries);
}

/* ---- Values for comparing with the host's ---- */

/* Where a node's output stands when its entries have been executed. False: nowhere as a whole. */
static bool output_of(const lowering *l, const tv_graph_node *n, operand *out)
{
    const cmdq_ranges *r = &l->ranges[n->layer];
    *out = (operand){X, 0, 32, 1};
    switch (n->op) {
    case TV_OP_EMBED:
    case TV_OP_ADD:
        return true;
    case TV_OP_RMSNORM:
        *out = cmdq_activations(l, XN, cmdq_norm_range(l, n));
        return true;
    case TV_OP_WEIGHTED_SUM:
        *out = cmdq_activations(l, MIXED, r->mixed);
        return true;
    case TV_OP_SILU:
        out->place = GATE;
        return true;
    case TV_OP_MUL:
        *out = cmdq_activations(l, HIDDEN, r->hidden);
        return true;
    case TV_OP_ROPE:
        *out =
            made_by(l, n->inputs[0]) == TV_WEIGHT_Q ? cmdq_activations(l, TURNED, r->q) : (operand){KEY8, 0, 8, r->k};
        return true;
    case TV_OP_MATMUL:
        out->place = n->weight == TV_WEIGHT_Q      ? QUERY
                     : n->weight == TV_WEIGHT_K    ? KEY
                     : n->weight == TV_WEIGHT_GATE ? GATE
                                                   : UP;
        if (n->weight == TV_WEIGHT_V)
            *out = (operand){VALUE8, 0, 8, r->v};
        return n->weight != TV_WEIGHT_CLASSIFIER && n->weight != TV_WEIGHT_O &&
               n->weight != TV_WEIGHT_DOWN; /* which are added to what stands */
    default:
        return false;
    }
}

static tv_status keep_value(lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    operand from;
    float **value = n->output == TV_NO_VALUE ? NULL : &l->values[n->output];
    if (!value || !output_of(l, n, &from))
        return TV_OK;
    uint32_t columns = l->graph->values[n->output].columns;
    uint8_t *bytes = malloc((size_t)columns * 4);
    if (!*value)
        *value = malloc(columns * sizeof **value);
    tv_status status = bytes && *value ? TV_OK : tv_fail_memory(sink);
    uint64_t at = l->places[from.place].bank * l->bank_bytes + l->places[from.place].offset;
    if (status == TV_OK)
        status = tv_machine_read(l->machine, "spm", at, bytes, (size_t)columns * from.qbits / 8, sink);
    for (uint32_t i = 0; i < columns && status == TV_OK; i++)
        (*value)[i] = (float)tv_dtype_value(from.qbits == 32   ? TV_F32
                                            : from.qbits == 16 ? TV_F16
                                                               : TV_S8,
                                            bytes, i) *
                      from.scale;
    free(bytes);
    return status;
}

/* Runs node by node, so that each output is seen before its place is used again. */
static tv_status run_nodes(lowering *l, const tv_diag_sink *sink)
{
    tv_stop_reason stop;
    tv_status status = TV_OK;
    for (uint32_t i = 0; i < l->graph->node_count && status == TV_OK; i++) {
        status = tv_machine_run(l->machine, &(tv_run_limits){sizeof(tv_run_limits), l->node_end[i], UINT64_MAX}, &stop);
        if (status == TV_OK)
            status = keep_value(l, &l->graph->nodes[i], sink);
    }
    return status;
}

static tv_status run_queue(lowering *l, const tv_diag_sink *sink)
{
    tv_program *program;
    tv_stop_reason stop;
    char path[PATH_LENGTH];
    tv_queue_builder *entries = l->entries;
    l->entries = NULL;
    TV_TRY(tv_queue_builder_finish(entries, &program));
    tv_status status = l->metadata.failed || l->deps.failed ? tv_fail_memory(sink) : TV_OK;
    if (status == TV_OK && l->emit)
        status = tv_program_save(program, queue_path(l, path), TV_FORMAT_JSON, sink);
    if (status == TV_OK)
        status = tv_machine_load(l->machine, program, sink);
    if (status != TV_OK) { /* the machine goes on looking at the one before */
        tv_program_free(program);
        return status;
    }
    if (status == TV_OK && l->values && l->rows == 1)
        status = run_nodes(l, sink);
    if (status == TV_OK)
        status = tv_machine_run(l->machine, NULL, &stop);
    l->before = l->program;
    l->program = program;
    l->steps++;
    return status;
}

/* Rows from `first` on have logits; where none has, the last norm and the classifier are left out. */
static void lower_nodes(lowering *l, uint32_t first)
{
    for (uint32_t i = 0; i < l->graph->node_count; i++) {
        const tv_graph_node *n = &l->graph->nodes[i];
        if (first < l->rows || (n->weight != TV_WEIGHT_NORM_FINAL && n->weight != TV_WEIGHT_CLASSIFIER))
            cmdq_lower_node(l, n, first);
        if (l->node_end)
            l->node_end[i] = tv_queue_builder_count(l->entries);
    }
}

static tv_status step_rows(lowering *l, const int32_t *tokens, uint32_t rows, uint32_t position, uint32_t first,
                           float *out, const tv_diag_sink *sink)
{
    TV_TRY(begin_queue(l, tokens, rows, position, first, sink));
    lower_nodes(l, first);
    tv_queue_builder_opcode(l->entries, CMDQ_END);
    tv_queue_builder_end_entry(l->entries, NULL, NULL, 0);
    TV_TRY(run_queue(l, sink));
    return first < rows ? tv_machine_read(l->machine, "dram", l->logits_addr, out,
                                          (size_t)(rows - first) * l->model->dims.vocab * sizeof *out, sink)
                        : TV_OK;
}

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits_out, const tv_diag_sink *sink)
{
    lowering *l = state;
    for (uint32_t done = 0, rows; done < count; done += rows) {
        rows = count - done < l->rows_max ? count - done : l->rows_max;
        uint32_t first = !last_only ? 0 : done + rows == count ? rows - 1 : rows;
        TV_TRY(step_rows(l, tokens + done, rows, position + done, first,
                         logits_out + (last_only ? 0 : (size_t)done * l->model->dims.vocab), sink));
    }
    return TV_OK;
}

static const float *value(void *state, uint32_t v)
{
    const lowering *l = state;
    return l->values ? l->values[v] : NULL;
}

static tv_machine *machine(void *state) { return ((lowering *)state)->machine; }

extern const tv_backend tv_backend_cmdq;
const tv_backend tv_backend_cmdq = {
    .name = "cmdq", .create = create, .destroy = destroy, .step = step, .value = value, .machine = machine};
