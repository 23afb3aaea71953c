/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to CMDQ: one queue of tiles per step. Weights are integers in DRAM with a scale for each group of a row;
 * they pass alternately through two SPM banks, so that one block is loaded while the other is used. Activations stay in
 * SPM. Keys and values go to the KV cache in DRAM and return through KV entries. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "graph/quantize.h"
#include "lower/cmdq/state.h"
#include "num/float.h"
#include "trivet/file.h"

/* ---- SPM and DRAM ---- */

/* Size, phase and preferred bank of each buffer for `m` tokens at a time. */
static void get_buffer_requirements(const cmdq_lowering *l, uint32_t m, cmdq_lower_buffer required[CMDQ_BUFFER_COUNT])
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t dim = (uint64_t)m * s->dim, q_size = (uint64_t)m * s->heads * s->head_dim,
             kv_size = (uint64_t)m * s->kv_heads * s->head_dim;
    uint64_t score_size = (uint64_t)(m < CMDQ_LOWER_MASK_ROWS ? m : CMDQ_LOWER_MASK_ROWS) * l->context,
             scores = score_size * (s->heads / s->kv_heads), cache = (uint64_t)l->context * s->head_dim;
    uint64_t scale_bytes =
        l->bank_bytes * 32 / (32 + l->weight_bits * l->group) / 64 * 64; /* 32 bits per group of weights */
    uint64_t vocab = (uint64_t)s->vocab * 4, hidden = (uint64_t)m * s->hidden,
             tile = m == 1 || s->hidden < l->hidden_tile ? hidden : (uint64_t)m * l->hidden_tile,
             input = l->activation_bits / 8;
    const cmdq_lower_buffer list[CMDQ_BUFFER_COUNT] = {
        [CMDQ_BUFFER_X] = {.bank = CMDQ_LOWER_BANK_X, .bytes = dim * 4},
        [CMDQ_BUFFER_XN] = {.bank = CMDQ_LOWER_BANK_X, .bytes = dim * input},
        [CMDQ_BUFFER_GAINS] = {.bank = CMDQ_LOWER_BANK_QUERY, .bytes = (uint64_t)s->dim * 4},
        [CMDQ_BUFFER_MASK] = {.bank = CMDQ_LOWER_BANK_HIDDEN, .bytes = m == 1 ? 0 : (uint64_t)m * l->context * 4},
        [CMDQ_BUFFER_QUERY] = {.bank = CMDQ_LOWER_BANK_QUERY, .phase = CMDQ_LOWER_ATTENTION, .bytes = q_size * 4},
        [CMDQ_BUFFER_KEY] = {.bank = CMDQ_LOWER_BANK_KEY, .phase = CMDQ_LOWER_ATTENTION, .bytes = kv_size * 4},
        [CMDQ_BUFFER_KEY8] = {.bank = CMDQ_LOWER_BANK_QUERY, .phase = CMDQ_LOWER_ATTENTION, .bytes = kv_size},
        [CMDQ_BUFFER_VALUE8] = {.bank = CMDQ_LOWER_BANK_KEY, .phase = CMDQ_LOWER_ATTENTION, .bytes = kv_size},
        [CMDQ_BUFFER_ROTATED_QUERY] = {.bank = CMDQ_LOWER_BANK_CACHE,
                                       .phase = CMDQ_LOWER_ATTENTION,
                                       .bytes = q_size * input},
        [CMDQ_BUFFER_CACHED_KEYS] = {.bank = CMDQ_LOWER_BANK_CACHE, .phase = CMDQ_LOWER_ATTENTION, .bytes = cache},
        [CMDQ_BUFFER_CACHED_VALUES] = {.bank = CMDQ_LOWER_BANK_HIDDEN, .phase = CMDQ_LOWER_ATTENTION, .bytes = cache},
        [CMDQ_BUFFER_SCORES] = {.bank = CMDQ_LOWER_BANK_SCORES, .phase = CMDQ_LOWER_ATTENTION, .bytes = scores * 4},
        [CMDQ_BUFFER_PROBS] = {.bank = CMDQ_LOWER_BANK_CACHE, .phase = CMDQ_LOWER_ATTENTION, .bytes = scores * 2},
        [CMDQ_BUFFER_ATTN_OUT] = {.bank = CMDQ_LOWER_BANK_HIDDEN,
                                  .phase = CMDQ_LOWER_ATTENTION,
                                  .bytes = q_size * input},
        [CMDQ_BUFFER_GATE] = {.bank = CMDQ_LOWER_BANK_QUERY, .phase = CMDQ_LOWER_FEED_FORWARD, .bytes = tile * 4},
        [CMDQ_BUFFER_UP] = {.bank = CMDQ_LOWER_BANK_KEY, .phase = CMDQ_LOWER_FEED_FORWARD, .bytes = tile * 4},
        [CMDQ_BUFFER_GATE +
            1] = {.bank = CMDQ_LOWER_BANK_QUERY, .phase = CMDQ_LOWER_FEED_FORWARD, .bytes = m == 1 ? 0 : tile * 4},
        [CMDQ_BUFFER_UP +
            1] = {.bank = CMDQ_LOWER_BANK_KEY, .phase = CMDQ_LOWER_FEED_FORWARD, .bytes = m == 1 ? 0 : tile * 4},
        [CMDQ_BUFFER_HIDDEN] = {.bank = CMDQ_LOWER_BANK_HIDDEN,
                                .phase = CMDQ_LOWER_FEED_FORWARD,
                                .bytes = hidden * input},
        [CMDQ_BUFFER_LOGITS] = {.bank = CMDQ_LOWER_BANK_CACHE,
                                .phase = CMDQ_LOWER_FEED_FORWARD,
                                .bytes = tv_min_u64(m * vocab, tv_max_u64(l->bank_bytes / 4,
                                                                          (uint64_t)m * 4))}, /* at least one column */
        [CMDQ_BUFFER_WEIGHTS] = {.bank = CMDQ_LOWER_BANK_WEIGHTS, .bytes = (l->bank_bytes - scale_bytes) / 64 * 64},
        [CMDQ_BUFFER_WEIGHTS + 1] = {.bank = CMDQ_LOWER_BANK_WEIGHTS + 1,
                                     .bytes = (l->bank_bytes - scale_bytes) / 64 * 64},
        [CMDQ_BUFFER_SCALES] = {.bank = CMDQ_LOWER_BANK_WEIGHTS, .bytes = scale_bytes},
        [CMDQ_BUFFER_SCALES + 1] = {.bank = CMDQ_LOWER_BANK_WEIGHTS + 1, .bytes = scale_bytes},
    };
    memcpy(required, list, sizeof list);
}

/* Allocated bytes of each bank in the attention phase and in the feed-forward phase. */
typedef struct bank_usage {
    uint64_t attention[CMDQ_LOWER_BANKS], feed_forward[CMDQ_LOWER_BANKS];
} bank_usage;

static uint64_t first_free(const bank_usage *t, cmdq_lower_phase when, unsigned bank)
{
    uint64_t a = t->attention[bank], f = t->feed_forward[bank];
    return when == CMDQ_LOWER_ATTENTION ? a : when == CMDQ_LOWER_FEED_FORWARD ? f : a > f ? a : f;
}

static void reserve_bank(bank_usage *t, cmdq_lower_phase when, unsigned bank, uint64_t end)
{
    if (when != CMDQ_LOWER_FEED_FORWARD)
        t->attention[bank] = end;
    if (when != CMDQ_LOWER_ATTENTION)
        t->feed_forward[bank] = end;
}

/* Allocates a buffer in its bank or, when that is full, in the next bank with enough space. False: there is none. */
static bool allocate_buffer(const cmdq_lowering *l, cmdq_lower_buffer *p, bank_usage *t)
{
    unsigned tried = 0;
    for (; tried < CMDQ_LOWER_BANKS && first_free(t, p->phase, p->bank) + p->bytes > l->bank_bytes; tried++)
        p->bank = (p->bank + 1) % CMDQ_LOWER_BANKS;
    p->offset = first_free(t, p->phase, p->bank);
    reserve_bank(t, p->phase, p->bank, p->offset + p->bytes);
    return tried < CMDQ_LOWER_BANKS;
}

/* Allocates the buffers for `m` tokens at a time; those used in both phases first. Returns false when they do not fit.
 */
static bool allocate_buffers(cmdq_lowering *l, uint32_t m)
{
    const tv_model_dims *s = &l->model->dims;
    cmdq_lower_buffer required[CMDQ_BUFFER_COUNT];
    bank_usage t = {{0}, {0}};
    get_buffer_requirements(l, m, required);
    for (unsigned slot = 0; slot < CMDQ_LOWER_SLOTS; slot++) /* reserved for weights */
        reserve_bank(&t, CMDQ_LOWER_ALWAYS, CMDQ_LOWER_BANK_WEIGHTS + slot, l->bank_bytes);
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < CMDQ_BUFFER_COUNT; i++) {
            cmdq_lower_buffer *p = &l->buffers[i];
            if ((required[i].phase == CMDQ_LOWER_ALWAYS) != (pass == 0))
                continue;
            p->bank = required[i].bank;
            p->phase = required[i].phase;
            p->bytes = (required[i].bytes + 63) / 64 * 64;
            p->offset = i >= CMDQ_BUFFER_SCALES ? l->bank_bytes - p->bytes : 0;
            if (i < CMDQ_BUFFER_WEIGHTS && !allocate_buffer(l, p, &t))
                return false;
        }
    uint32_t widest = s->dim > s->hidden ? s->dim : s->hidden;
    if (m == 1)
        return cmdq_lower_tile_rows(l, widest) > 0 && cmdq_lower_tile_rows(l, s->heads * s->head_dim) > 0;
    /* whole heads and hidden tiles of the output, and whole columns of the output for each tile of the input */
    return cmdq_lower_tile_rows(l, s->dim) >= (s->head_dim > l->hidden_tile ? s->head_dim : l->hidden_tile) &&
           cmdq_lower_tile_rows(l, l->hidden_tile) >= s->dim && cmdq_lower_tile_rows(l, s->head_dim) >= s->dim;
}

static uint64_t allocate_dram(cmdq_lowering *l, uint64_t bytes)
{
    uint64_t at = l->dram_end;
    l->dram_end += (bytes + 63) / 64 * 64;
    return at;
}

static tv_status check_dram_size(const cmdq_lowering *l, const tv_diag_sink *sink)
{
    uint64_t size = tv_backend_parameter(tv_machine_config(l->machine), "dram.bytes");
    if (l->dram_end <= size)
        return TV_OK;
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                   "make dram.bytes larger with -D, or the context smaller",
                   "the model and its KV cache exceed the %" PRIu64 " bytes of DRAM", size);
}

static tv_status upload_gains(cmdq_lowering *l, const tv_matrix *from, const cmdq_lower_matrix *to,
                              const tv_diag_sink *sink)
{
    float *row = malloc(from->columns * sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && tv_matrix_row_f32(from, 0, row) != TV_OK)
        status = tv_model_fail_matrix(l->model, from, sink);
    if (status == TV_OK)
        status = tv_machine_write(l->machine, "dram", to->data, row, from->columns * sizeof *row, sink);
    free(row);
    return status;
}

static tv_status upload_quantized(cmdq_lowering *l, const tv_matrix *from, const cmdq_lower_matrix *to, float input,
                                  const tv_diag_sink *sink)
{
    enum { ROWS_PER_TASK = 4096 };
    uint32_t n = from->columns, groups = n / l->group,
             rows_max = from->rows < ROWS_PER_TASK ? from->rows : ROWS_PER_TASK;
    float *scales = malloc((size_t)rows_max * groups * sizeof *scales);
    uint8_t *packed = malloc(rows_max * to->row_bytes);
    tv_status status = scales && packed ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0, count; r < from->rows && status == TV_OK; r += count) {
        count = from->rows - r < rows_max ? from->rows - r : rows_max;
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
                                                 : tv_model_fail_matrix(l->model, from, sink);
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

/* Uploads a matrix to DRAM: quantized, or as F32 for the gains of a norm. */
static tv_status upload_matrix(cmdq_lowering *l, tv_weight weight, uint32_t layer, const tv_diag_sink *sink)
{
    const tv_matrix *from = tv_model_matrix(l->model, weight, layer);
    cmdq_lower_matrix *to = cmdq_lower_matrix_of(l, weight, layer);
    if (!from->rows)
        return TV_OK;
    bool gains = tv_weight_is_norm(weight);
    uint32_t n = from->columns;
    *to = (cmdq_lower_matrix){
        .rows = from->rows, .columns = n, .row_bytes = gains ? (uint64_t)n * 4 : (uint64_t)n * l->weight_bits / 8};
    to->data = allocate_dram(l, to->row_bytes * from->rows);
    to->scales = gains ? 0 : allocate_dram(l, (uint64_t)from->rows * (n / l->group) * 4);
    TV_TRY(check_dram_size(l, sink));
    if (l->timing)
        return TV_OK;
    return gains ? upload_gains(l, from, to, sink)
                 : upload_quantized(l, from, to, cmdq_lower_input_scale(l, weight, layer), sink);
}

/* ---- Creating ---- */

static void destroy(void *state)
{
    cmdq_lowering *l = state;
    if (!l)
        return;
    for (unsigned p = 0; p < CMDQ_BUFFER_COUNT; p++)
        TV_VEC_FINI(&l->buffers[p].readers);
    tv_queue_builder_free(l->builder);
    tv_buf_fini(&l->metadata);
    TV_VEC_FINI(&l->deps);
    tv_pool_free(l->pool);
    tv_machine_free(l->machine);
    tv_program_free(l->loaded_program);
    tv_program_free(l->previous_program);
    free(l->matrices);
    free(l->k_base);
    free(l->v_base);
    free(l->act_scales);
    free(l->kv_writer);
    for (uint32_t v = 0; l->values && v < l->graph->value_count; v++)
        free(l->values[v]);
    free(l->values);
    free(l->node_entries_end);
    free(l);
}

/* Maximizes the tokens per step, then the hidden columns per tile. */
static bool choose_tiles(cmdq_lowering *l)
{
    for (l->rows_max = CMDQ_LOWER_ROWS_MAX; l->rows_max > 0; l->rows_max /= 2)
        for (l->hidden_tile = CMDQ_LOWER_TILE_MAX; l->hidden_tile >= CMDQ_LOWER_TILE_MIN; l->hidden_tile /= 2)
            if (allocate_buffers(l, l->rows_max))
                return true;
    return false;
}

static tv_status read_config(cmdq_lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
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
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "the other machines may support it",
                       "groups of weights require even sizes; the embedding has %u, the hidden layer %u, a head %u",
                       s->dim, s->hidden, s->head_dim);
    if (tv_backend_parameter(options->config, "spm.banks") < CMDQ_LOWER_BANKS)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make spm.banks larger with -D",
                       "the lowering requires %d SPM banks", CMDQ_LOWER_BANKS);
    if (!choose_tiles(l) || !allocate_buffers(l, 1)) /* a single token has other buffers */
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION),
                       "make spm.bank_bytes larger with -D, or the context smaller",
                       "the model's activations and cache do not fit the SPM banks");
    return TV_OK;
}

static tv_status allocate(cmdq_lowering *l, bool keep_values, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    if (keep_values) {
        l->values = calloc(l->graph->value_count, sizeof *l->values);
        l->node_entries_end = calloc(l->graph->node_count, sizeof *l->node_entries_end);
        if (!l->values || !l->node_entries_end)
            return tv_fail_memory(sink);
    }
    l->matrices = calloc((size_t)s->layers * TV_WEIGHTS, sizeof *l->matrices);
    l->k_base = calloc(s->layers, sizeof *l->k_base);
    l->v_base = calloc(s->layers, sizeof *l->v_base);
    l->act_scales = malloc(s->layers * sizeof *l->act_scales);
    l->kv_writer = calloc(s->layers, sizeof *l->kv_writer);
    for (uint32_t i = 0; l->act_scales && i < s->layers; i++) /* also for timing, which has no values */
        l->act_scales[i] = (cmdq_lower_act_scales){1, 1, 1, 1, 1, 1, 1, 1};
    return l->matrices && l->k_base && l->v_base && l->act_scales && l->kv_writer ? TV_OK : tv_fail_memory(sink);
}

static tv_status upload_mask(cmdq_lowering *l, const tv_diag_sink *sink)
{
    uint32_t columns = cmdq_lower_mask_columns(l);
    float *row = malloc(columns * sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < CMDQ_LOWER_MASK_ROWS && status == TV_OK; r++) {
        for (uint32_t c = 0; c < columns; c++)
            row[c] = c <= l->context + r ? 0 : -INFINITY;
        status = tv_machine_write(l->machine, "dram", l->mask_addr + (uint64_t)r * columns * sizeof *row, row,
                                  columns * sizeof *row, sink);
    }
    free(row);
    return status;
}

static tv_status upload_model(cmdq_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    uint64_t cache = (uint64_t)s->kv_heads * l->context * s->head_dim;
    for (uint32_t layer = 0; layer < s->layers; layer++)
        for (unsigned w = 0; w < TV_WEIGHTS; w++) {
            tv_progress_report(progress, "uploading weights", layer * TV_WEIGHTS + w, (uint64_t)s->layers * TV_WEIGHTS);
            if (w != TV_WEIGHT_EMBEDDING)
                TV_TRY(upload_matrix(l, (tv_weight)w, layer, sink));
        }
    l->mask_addr = allocate_dram(l, (uint64_t)CMDQ_LOWER_MASK_ROWS * cmdq_lower_mask_columns(l) * 4);
    for (uint32_t layer = 0; layer < s->layers; layer++) {
        l->k_base[layer] = allocate_dram(l, cache);
        l->v_base[layer] = allocate_dram(l, cache);
    }
    l->x_addr = allocate_dram(l, (uint64_t)CMDQ_LOWER_ROWS_MAX * s->dim * 4);
    l->logits_addr = allocate_dram(l, (uint64_t)CMDQ_LOWER_ROWS_MAX * s->vocab * 4);
    TV_TRY(check_dram_size(l, sink));
    return l->timing ? TV_OK : upload_mask(l, sink);
}

static tv_status create(const tv_graph *graph, const tv_model *model, const tv_backend_options *options,
                        const tv_diag_sink *sink, void **state)
{
    cmdq_lowering *l = calloc(1, sizeof *l);
    if (!l)
        return tv_fail_memory(sink);
    l->graph = graph;
    l->model = model;
    l->emit = options->emit;
    l->outputs = options->outputs;
    l->timing = options->mode == TV_MODE_TIMING;
    l->pool = tv_pool_new(options->threads);
    tv_status status = read_config(l, options, sink);
    if (status == TV_OK)
        status = allocate(l, options->keep_values, sink);
    if (status == TV_OK &&
        !l->timing) /* before the weights are uploaded, since it needs about as much memory as they do */
        status = cmdq_lower_calibrate(l, options, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->machine);
    if (status == TV_OK) {
        tv_machine_set_threads(l->machine, options->threads);
        status = upload_model(l, &options->progress, sink);
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

static const char *queue_path(const cmdq_lowering *l, char path[PATH_LENGTH])
{
    if (!l->emit)
        return "step.json";
    snprintf(path, PATH_LENGTH, "%s/step_%06" PRIu32 ".json", l->emit, l->steps);
    return path;
}

static tv_status save_weights(const cmdq_lowering *l, const tv_diag_sink *sink)
{
    char path[PATH_LENGTH];
    snprintf(path, sizeof path, "%s/weights.bin", l->emit);
    return tv_backend_save_space(l->machine, "dram", l->k_base[0], path, l->outputs, sink);
}

/* ---- Embedding of the tokens: in the metadata of queues that are written, otherwise directly to DRAM, which is faster
 * ---- */

static tv_status print_hex(cmdq_lowering *l, const float *row, const tv_diag_sink *sink)
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

static tv_status write_embeddings(cmdq_lowering *l, const int32_t *tokens, const tv_diag_sink *sink)
{
    const tv_matrix *embedding = tv_model_matrix(l->model, TV_WEIGHT_EMBEDDING, 0);
    size_t bytes = l->model->dims.dim * sizeof(float);
    float *row = malloc(bytes);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < l->rows && status == TV_OK; r++) {
        if (tv_matrix_row_f32(embedding, (uint64_t)tokens[r], row) != TV_OK)
            status = tv_model_fail_matrix(l->model, embedding, sink);
        if (status == TV_OK)
            status = l->emit ? print_hex(l, row, sink)
                             : tv_machine_write(l->machine, "dram", l->x_addr + r * bytes, row, bytes, sink);
    }
    free(row);
    return status;
}

static const char WEIGHTS_INIT[] = "{\"addr\": 0, \"file\": \"weights.bin\"}, ";

/* True for the first queue of a written sequence. */
static bool refers_to_weights(const cmdq_lowering *l) { return l->emit && l->steps == 0; }

/* The metadata of the queue that runs here: without the weights, which DRAM has. Their file is not in place yet. */
static tv_status remove_weights(cmdq_lowering *l, tv_buf *out, const tv_diag_sink *sink)
{
    size_t size = refers_to_weights(l) ? sizeof WEIGHTS_INIT - 1 : 0, end = l->weights_at + size;
    tv_buf_append(out, l->metadata.data, l->weights_at);
    tv_buf_append(out, l->metadata.data + end, l->metadata.len - end);
    return out->failed ? tv_fail_memory(sink) : TV_OK;
}

/* Prints the metadata of a step: the KV cache, the initial contents of DRAM, and the logits, which are the output. The
 * first queue of a written sequence refers to the weights, so the queues can be run in order by themselves. */
static tv_status print_metadata(cmdq_lowering *l, const int32_t *tokens, uint32_t first, const tv_diag_sink *sink)
{
    const tv_model_dims *s = &l->model->dims;
    tv_buf *text = &l->metadata;
    text->len = 0;
    tv_buf_printf(text, "{\"version\": \"1.2\", \"graph_name\": \"step\", %s\"kv_layouts\": [",
                  l->emit && l->steps ? "\"continues\": true, " : "");
    for (uint32_t i = 0; i < s->layers; i++)
        tv_buf_printf(text,
                      "%s{\"id\": %" PRIu32 ", \"k_base\": %" PRIu64 ", \"v_base\": %" PRIu64 ", \"t_max\": %" PRIu32
                      ", \"d_head\": %" PRIu32 ", \"heads\": %" PRIu32 "}",
                      i ? ", " : "", i, l->k_base[i], l->v_base[i], l->context, s->head_dim, s->kv_heads);
    tv_buf_str(text, "], \"dram_init\": [");
    l->weights_at = text->len;
    if (refers_to_weights(l))
        tv_buf_str(text, WEIGHTS_INIT);
    if (l->emit) {
        tv_buf_printf(text, "{\"addr\": %" PRIu64 ", \"hex\": \"", l->x_addr);
        TV_TRY(write_embeddings(l, tokens, sink));
        tv_buf_str(text, "\"}");
    }
    tv_buf_str(text, "], \"outputs\": [");
    if (first < l->rows)
        tv_buf_printf(
            text, "{\"name\": \"logits\", \"dram_addr\": %" PRIu64 ", \"num_elements\": %" PRIu64 ", \"qbits\": 32}",
            l->logits_addr, (uint64_t)(l->rows - first) * s->vocab);
    tv_buf_str(text, "]}");
    return text->failed ? tv_fail_memory(sink) : TV_OK;
}

static tv_status begin_queue(cmdq_lowering *l, const int32_t *tokens, uint32_t rows, uint32_t position, uint32_t first,
                             const tv_diag_sink *sink)
{
    char path[PATH_LENGTH];
    l->rows = rows;
    l->position = position;
    l->slot = l->next_te = l->next_ve = 0;
    allocate_buffers(l, rows == 1 ? 1 : l->rows_max); /* fewer rows use the buffers of the maximum */
    for (unsigned p = 0; p < CMDQ_BUFFER_COUNT; p++) {
        l->buffers[p].writer = CMDQ_LOWER_NO_ENTRY;
        l->buffers[p].readers.count = 0;
    }
    for (uint32_t i = 0; i < l->model->dims.layers; i++)
        l->kv_writer[i] = CMDQ_LOWER_NO_ENTRY;
    if (l->emit && l->steps == 0)
        TV_TRY(save_weights(l, sink));
    if (!l->emit && !l->timing)
        TV_TRY(write_embeddings(l, tokens, sink));
    TV_TRY(print_metadata(l, tokens, first, sink));
    tv_queue_builder_free(l->builder); /* left by a step that failed */
    l->builder = NULL;
    tv_program *previous = l->previous_program;
    l->previous_program = NULL;
    tv_buf loaded = {0};
    tv_status status = remove_weights(l, &loaded, sink);
    if (status == TV_OK)
        status = tv_queue_builder_new(queue_path(l, path), (tv_sv){(const char *)loaded.data, loaded.len}, previous,
                                      sink, &l->builder);
    else
        tv_program_free(previous);
    tv_buf_fini(&loaded);
    return status;
}

/* ---- Values for comparison with the host ---- */

/* The operand that contains a node's output after its entries are complete. False: it is not stored as a whole. */
static bool find_output(const cmdq_lowering *l, const tv_graph_node *n, cmdq_lower_operand *out)
{
    const cmdq_lower_act_scales *r = &l->act_scales[n->layer];
    *out = (cmdq_lower_operand){CMDQ_BUFFER_X, 0, 32, 1};
    switch (n->op) {
    case TV_OP_EMBED:
    case TV_OP_ADD:
        return true;
    case TV_OP_RMSNORM:
        *out = cmdq_lower_activations(l, CMDQ_BUFFER_XN, cmdq_lower_norm_scale(l, n));
        return true;
    case TV_OP_WEIGHTED_SUM:
        *out = cmdq_lower_activations(l, CMDQ_BUFFER_ATTN_OUT, r->attn_out);
        return true;
    case TV_OP_SILU:
        out->buffer = CMDQ_BUFFER_GATE;
        return true;
    case TV_OP_MUL:
        *out = cmdq_lower_activations(l, CMDQ_BUFFER_HIDDEN, r->ffn_hidden);
        return true;
    case TV_OP_ROPE:
        *out = cmdq_lower_producer(l, n->inputs[0]) == TV_WEIGHT_Q
                   ? cmdq_lower_activations(l, CMDQ_BUFFER_ROTATED_QUERY, r->q)
                   : (cmdq_lower_operand){CMDQ_BUFFER_KEY8, 0, 8, r->k};
        return true;
    case TV_OP_MATMUL:
        out->buffer = n->weight == TV_WEIGHT_Q      ? CMDQ_BUFFER_QUERY
                      : n->weight == TV_WEIGHT_K    ? CMDQ_BUFFER_KEY
                      : n->weight == TV_WEIGHT_GATE ? CMDQ_BUFFER_GATE
                                                    : CMDQ_BUFFER_UP;
        if (n->weight == TV_WEIGHT_V)
            *out = (cmdq_lower_operand){CMDQ_BUFFER_VALUE8, 0, 8, r->v};
        return n->weight != TV_WEIGHT_CLASSIFIER && n->weight != TV_WEIGHT_O &&
               n->weight != TV_WEIGHT_DOWN; /* added to the residual */
    case TV_OP_APPEND:
    case TV_OP_SCORES:
    case TV_OP_SOFTMAX:
    case TV_OPS:
        break;
    }
    return false;
}

static tv_status keep_value(cmdq_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    cmdq_lower_operand from;
    float **value = n->output == TV_NO_VALUE ? NULL : &l->values[n->output];
    if (!value || !find_output(l, n, &from))
        return TV_OK;
    uint32_t columns = l->graph->values[n->output].columns;
    uint8_t *bytes = malloc((size_t)columns * 4);
    if (!*value)
        *value = malloc(columns * sizeof **value);
    tv_status status = bytes && *value ? TV_OK : tv_fail_memory(sink);
    uint64_t at = l->buffers[from.buffer].bank * l->bank_bytes + l->buffers[from.buffer].offset;
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

/* Runs node by node, so that each output is read before its buffer is reused. */
static tv_status run_nodes(cmdq_lowering *l, const tv_diag_sink *sink)
{
    tv_stop_reason stop;
    tv_status status = TV_OK;
    for (uint32_t i = 0; i < l->graph->node_count && status == TV_OK; i++) {
        status = tv_machine_run(l->machine, &(tv_run_limits){sizeof(tv_run_limits), l->node_entries_end[i], UINT64_MAX},
                                &stop);
        if (status == TV_OK)
            status = keep_value(l, &l->graph->nodes[i], sink);
    }
    return status;
}

static tv_status run_queue(cmdq_lowering *l, const tv_diag_sink *sink)
{
    tv_program *program;
    tv_stop_reason stop;
    char path[PATH_LENGTH];
    tv_queue_builder *entries = l->builder;
    l->builder = NULL;
    TV_TRY(tv_queue_builder_finish(entries, &program));
    tv_status status = l->metadata.failed || l->deps.failed ? tv_fail_memory(sink) : TV_OK;
    if (status == TV_OK && l->emit)
        status = tv_queue_save_with(program, (tv_sv){(const char *)l->metadata.data, l->metadata.len},
                                    queue_path(l, path), l->outputs, sink);
    if (status == TV_OK)
        status = tv_machine_load(l->machine, program, sink);
    if (status != TV_OK) { /* the machine continues to use the previous program */
        tv_program_free(program);
        return status;
    }
    if (status == TV_OK && l->values && l->rows == 1)
        status = run_nodes(l, sink);
    if (status == TV_OK)
        status = tv_machine_run(l->machine, NULL, &stop);
    l->previous_program = l->loaded_program;
    l->loaded_program = program;
    l->steps++;
    return status;
}

/* Lowers all nodes; rows [first, rows) have logits. With first == rows the final norm and the classifier are omitted.
 */
static void lower_nodes(cmdq_lowering *l, uint32_t first)
{
    for (uint32_t i = 0; i < l->graph->node_count; i++) {
        const tv_graph_node *n = &l->graph->nodes[i];
        if (first < l->rows || (n->weight != TV_WEIGHT_NORM_FINAL && n->weight != TV_WEIGHT_CLASSIFIER))
            cmdq_lower_node(l, n, first);
        if (l->node_entries_end)
            l->node_entries_end[i] = tv_queue_builder_count(l->builder);
    }
}

static tv_status step_rows(cmdq_lowering *l, const int32_t *tokens, uint32_t rows, uint32_t position, uint32_t first,
                           float *out, const tv_diag_sink *sink)
{
    TV_TRY(begin_queue(l, tokens, rows, position, first, sink));
    lower_nodes(l, first);
    tv_queue_builder_opcode(l->builder, CMDQ_END);
    tv_queue_builder_end_entry(l->builder, NULL, NULL, 0);
    TV_TRY(run_queue(l, sink));
    return first < rows ? tv_machine_read(l->machine, "dram", l->logits_addr, out,
                                          (size_t)(rows - first) * l->model->dims.vocab * sizeof *out, sink)
                        : TV_OK;
}

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits_out, const tv_diag_sink *sink)
{
    cmdq_lowering *l = state;
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
    const cmdq_lowering *l = state;
    return l->values ? l->values[v] : NULL;
}

static tv_machine *machine(void *state) { return ((cmdq_lowering *)state)->machine; }

extern const tv_backend tv_backend_cmdq;
const tv_backend tv_backend_cmdq = {
    .name = "cmdq", .create = create, .destroy = destroy, .step = step, .value = value, .machine = machine};
