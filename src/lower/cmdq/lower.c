/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to CMDQ: a queue of tiles for each step, or several with work of the host between them. Weights are integers
 * in DRAM with a scale for each group of a row; they pass alternately through two SPM banks, so that one block is
 * loaded while the other is used. Activations stay in SPM. Keys and values go to the KV cache in DRAM and return
 * through KV entries. */
#include <inttypes.h>
#include <stdlib.h>

#include "lower/cmdq/emit.h"
#include "num/float.h"
#include "trivet/file.h"

/* ---- Creating ---- */

static void destroy(void *state)
{
    cmdq_lowering *l = state;
    if (!l)
        return;
    for (unsigned i = 0; i < TV_COUNTOF(l->plans); i++)
        cmdq_lower_plan_fini(&l->plans[i]);
    tv_queue_builder_free(l->builder);
    tv_buf_fini(&l->metadata);
    TV_VEC_FINI(&l->deps);
    TV_VEC_FINI(&l->occupied);
    cmdq_lower_fini_growth(l);
    tv_pool_free(l->pool);
    tv_machine_free(l->machine);
    tv_program_free(l->loaded_program);
    tv_program_free(l->previous_program);
    free(l->ranges);
    free(l->on_host);
    free(l->streamed);
    free(l->routes.chosen);
    free(l->routes.weights);
    free(l->matrices);
    free(l->inputs);
    free(l->k_base);
    free(l->v_base);
    free(l->kv_writer);
    for (uint32_t v = 0; l->values && v < l->graph->values.count; v++)
        free(l->values[v]);
    free(l->values);
    free(l->node_entries_end);
    free(l);
}

static tv_status allocate(cmdq_lowering *l, bool keep_values, const tv_diag_sink *sink)
{
    const tv_graph *g = l->graph;
    if (keep_values) {
        l->values = calloc(g->values.count, sizeof *l->values);
        l->node_entries_end = calloc(g->nodes.count, sizeof *l->node_entries_end);
        if (!l->values || !l->node_entries_end)
            return tv_fail_memory(sink);
    }
    uint32_t experts = 1;
    for (size_t i = 0; i < g->nodes.count; i++)
        experts = (uint32_t)tv_max_u64(experts, g->nodes.data[i].attrs.experts_used);
    l->on_host = calloc(g->nodes.count + 1, sizeof *l->on_host);
    l->streamed = calloc(g->values.count + 1, sizeof *l->streamed);
    l->routes.chosen = calloc((size_t)experts * CMDQ_LOWER_ROWS_MAX, sizeof *l->routes.chosen);
    l->routes.weights = calloc((size_t)experts * CMDQ_LOWER_ROWS_MAX, sizeof *l->routes.weights);
    if (!l->on_host || !l->streamed || !l->routes.chosen || !l->routes.weights)
        return tv_fail_memory(sink);
    l->matrices = calloc(g->nodes.count + 1, sizeof *l->matrices);
    l->inputs = calloc(g->values.count + 1, sizeof *l->inputs);
    l->k_base = calloc(g->caches.count + 1, sizeof *l->k_base);
    l->v_base = calloc(g->caches.count + 1, sizeof *l->v_base);
    l->kv_writer = calloc(g->caches.count + 1, sizeof *l->kv_writer);
    return l->matrices && l->inputs && l->k_base && l->v_base && l->kv_writer ? TV_OK : tv_fail_memory(sink);
}

/* Measures ranges and plans again with the scales that follow from them. It comes after the plan, so that a model that
 * does not fit is rejected at once, and before the upload, since it needs memory too. */
static tv_status calibrate(cmdq_lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    TV_TRY(tv_graph_ranges(l->graph, options, sink, &l->ranges));
    for (unsigned i = 0; i < TV_COUNTOF(l->plans); i++)
        cmdq_lower_plan_fini(&l->plans[i]);
    return cmdq_lower_plan_memory(l, options, sink);
}

static tv_status create(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                        void **state)
{
    cmdq_lowering *l = calloc(1, sizeof *l);
    if (!l)
        return tv_fail_memory(sink);
    l->graph = graph;
    l->emitters = cmdq_lower_emitters;
    l->emit = options->emit;
    l->outputs = options->outputs;
    l->weights = options->weights;
    l->step_progress = options->step_progress;
    l->timing = options->mode == TV_MODE_TIMING;
    l->pool = tv_pool_new(options->threads);
    l->te = (unsigned)tv_backend_parameter(options->config, "npu.te");
    l->ve = (unsigned)tv_backend_parameter(options->config, "npu.ve");
    l->bank_bytes = tv_backend_parameter(options->config, "spm.bank_bytes");
    l->weight_bits = options->weight_bits ? options->weight_bits : 8;
    l->activation_bits = options->activation_bits ? options->activation_bits : 8;
    l->context = options->context;
    l->allow_host_ops = options->allow_host_ops;
    tv_status status = allocate(l, options->keep_values, sink);
    if (status == TV_OK)
        status = cmdq_lower_check(l, sink);
    if (status == TV_OK)
        status = cmdq_lower_plan_memory(l, options, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->machine);
    if (status == TV_OK)
        status = cmdq_lower_allocate(l, sink);
    if (status == TV_OK && !l->timing)
        status = calibrate(l, options, sink);
    if (status == TV_OK) {
        tv_machine_set_threads(l->machine, options->threads);
        status = cmdq_lower_upload(l, &options->progress, sink);
    }
    if (status != TV_OK) {
        destroy(l);
        return status;
    }
    *state = l;
    return TV_OK;
}

/* ---- Inputs: rows of tables; in the metadata of queues that are written, otherwise directly to DRAM, which is faster
 * ---- */

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
    return tv_backend_save_space(l->machine, "dram", 0, l->constants_end, path, l->outputs, sink);
}

/* Writes or prints the rows that a Gather selects for the tokens of the step. */
static tv_status write_rows(cmdq_lowering *l, const tv_graph_node *n, const int32_t *tokens, const tv_diag_sink *sink)
{
    const tv_matrix *table = tv_graph_matrix(l->graph, n->inputs[0]);
    bool by_token = tv_graph_value_at(l->graph, n->inputs[1])->source == TV_VALUE_TOKENS;
    size_t bytes = table->columns * sizeof(float);
    float *row = malloc(bytes);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < l->rows && status == TV_OK; r++) {
        if (tv_matrix_row_f32(table, by_token ? (uint64_t)tokens[r] : l->position + r, row) != TV_OK)
            status = tv_matrix_fail(table, sink);
        if (status == TV_OK)
            status = l->emit ? cmdq_lower_print_hex(&l->metadata, row, table->columns, sink)
                             : tv_machine_write(l->machine, "dram", l->inputs[n->output] + r * bytes, row, bytes, sink);
    }
    free(row);
    return status;
}

static tv_status write_inputs(cmdq_lowering *l, const int32_t *tokens, const tv_diag_sink *sink)
{
    const char *separator = "";
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        if (n->op != TV_OP_GATHER)
            continue;
        if (l->emit)
            tv_buf_printf(&l->metadata, "%s{\"addr\": %" PRIu64 ", \"hex\": \"", separator, l->inputs[n->output]);
        TV_TRY(write_rows(l, n, tokens, sink));
        if (l->emit)
            tv_buf_str(&l->metadata, "\"}");
        separator = ", ";
    }
    return TV_OK;
}

/* ---- Steps ---- */

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

/* True for nodes of the output block in a step without a row that needs logits. */
static bool is_left_out(const cmdq_lowering *l, const tv_graph_node *n)
{
    return n->block == TV_BLOCK_OUTPUT && l->first_logits_row == l->rows;
}

/* The next node from `node` on at which the queue ends; or the number of nodes. */
static uint32_t find_stop(const cmdq_lowering *l, uint32_t node)
{
    while (node < l->graph->nodes.count &&
           (!cmdq_lower_stops(l, node) || is_left_out(l, tv_graph_node_at(l->graph, node))))
        node++;
    return node;
}

/* What the queue stores: for the host, or the logits. */
static void print_outputs(cmdq_lowering *l)
{
    uint32_t stop = find_stop(l, l->first_node + (l->first_node > 0));
    if (stop < l->graph->nodes.count)
        cmdq_lower_describe_stored(l, tv_graph_node_at(l->graph, stop), &l->metadata);
    else if (l->first_logits_row < l->rows)
        tv_buf_printf(&l->metadata,
                      "{\"name\": \"logits\", \"dram_addr\": %" PRIu64 ", \"num_elements\": %" PRIu64
                      ", \"qbits\": 32}",
                      l->logits_addr, (uint64_t)(l->rows - l->first_logits_row) * tv_graph_vocabulary(l->graph));
}

/* Prints the metadata of a queue: the KV cache, the initial contents of DRAM, that is the inputs of the tokens or, for
 * the later queues of a step, `init`; and what it stores. The first queue of a written sequence refers to the weights,
 * so the queues can be run in order by themselves. */
static tv_status print_metadata(cmdq_lowering *l, const int32_t *tokens, const tv_buf *init, const tv_diag_sink *sink)
{
    tv_buf *text = &l->metadata;
    text->len = 0;
    tv_buf_printf(text, "{\"version\": \"1.3\", \"graph_name\": \"step\", %s\"kv_layouts\": [",
                  (l->emit && l->steps) || l->first_node ? "\"continues\": true, " : "");
    for (uint32_t i = 0; i < l->graph->caches.count; i++) {
        const tv_graph_cache *c = &l->graph->caches.data[i];
        tv_buf_printf(text,
                      "%s{\"id\": %" PRIu32 ", \"k_base\": %" PRIu64 ", \"v_base\": %" PRIu64 ", \"t_max\": %" PRIu32
                      ", \"d_head\": %" PRIu32 ", \"heads\": %" PRIu32 "}",
                      i ? ", " : "", i, l->k_base[i], l->v_base[i], l->context, c->key_dim, c->heads);
    }
    tv_buf_str(text, "], \"dram_init\": [");
    l->weights_at = text->len;
    if (refers_to_weights(l))
        tv_buf_str(text, WEIGHTS_INIT);
    if (l->emit && tokens)
        TV_TRY(write_inputs(l, tokens, sink));
    tv_buf_append(text, init->data, init->len);
    tv_buf_str(text, "], \"outputs\": [");
    print_outputs(l);
    tv_buf_str(text, "]}");
    return text->failed ? tv_fail_memory(sink) : TV_OK;
}

/* `tokens` are those of the step for its first queue, NULL for later ones. */
static tv_status begin_queue(cmdq_lowering *l, const int32_t *tokens, const tv_buf *init, const tv_diag_sink *sink)
{
    char path[PATH_LENGTH];
    cmdq_lower_begin_queue(l);
    cmdq_lower_begin_growth(l);
    if (l->emit && l->steps == 0)
        TV_TRY(save_weights(l, sink));
    if (!l->emit && !l->timing && tokens)
        TV_TRY(write_inputs(l, tokens, sink));
    TV_TRY(print_metadata(l, tokens, init, sink));
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

static tv_status keep_value(cmdq_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    const cmdq_lower_format *from = &l->plan->formats[n->output];
    float **value = &l->values[n->output];
    if (from->buffer == CMDQ_LOWER_NONE)
        return TV_OK;
    uint64_t count = tv_graph_elements(l->graph, n->output);
    const cmdq_lower_buffer *buffer = &l->plan->buffers.data[from->buffer];
    uint8_t *bytes = malloc((size_t)count * 4);
    if (!*value)
        *value = malloc((size_t)count * sizeof **value);
    tv_status status = bytes && *value ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK)
        status = tv_machine_read(l->machine, "spm",
                                 buffer->bank * l->bank_bytes + buffer->offset + from->first * from->qbits / 8, bytes,
                                 (size_t)count * from->qbits / 8, sink);
    for (uint64_t i = 0; i < count && status == TV_OK; i++)
        (*value)[i] = (float)tv_dtype_value(from->qbits == 32   ? TV_F32
                                            : from->qbits == 16 ? TV_F16
                                                                : TV_S8,
                                            bytes, i) *
                      from->scale;
    free(bytes);
    return status;
}

/* Runs node by node, so that each output is read before its buffer is reused. */
static tv_status run_nodes(cmdq_lowering *l, const tv_diag_sink *sink)
{
    tv_status status = TV_OK;
    uint32_t done = 0;
    for (uint32_t i = l->first_node; i < l->end_node && status == TV_OK; i++) {
        if (l->node_entries_end[i] > done)
            status = tv_backend_run(l->machine,
                                    &(tv_run_limits){sizeof(tv_run_limits), l->node_entries_end[i], UINT64_MAX}, sink);
        done = l->node_entries_end[i];
        if (status == TV_OK)
            status = keep_value(l, &l->graph->nodes.data[i], sink);
    }
    return status;
}

static tv_status run_queue(cmdq_lowering *l, const tv_diag_sink *sink)
{
    tv_program *program;
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
    if (l->values && l->rows == 1)
        status = run_nodes(l, sink);
    if (status == TV_OK)
        status = tv_backend_run(l->machine, NULL, sink);
    l->previous_program = l->loaded_program;
    l->loaded_program = program;
    l->steps++;
    return status;
}

/* The integers of a value that is stored twice. */
static void emit_copy(cmdq_lowering *l, const tv_graph_node *n)
{
    const cmdq_lower_format *f = &l->plan->copies[n->output];
    cmdq_lower_operand copy = {f->buffer, 0, f->qbits, f->scale};
    if (f->buffer != CMDQ_LOWER_NONE)
        cmdq_lower_elementwise(l, CMDQ_VE_CAST_TILE, cmdq_lower_value(l, n->output, 0), NULL, copy,
                               cmdq_lower_rows(l, n->output) * tv_graph_elements(l->graph, n->output));
}

/* The result, if it is not streamed, of the tokens that need logits. */
static void store_result(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t width = (uint32_t)tv_graph_elements(l->graph, n->output), rows = l->rows - l->first_logits_row,
             first = cmdq_lower_rows(l, n->output) - rows,
             tile = l->rows == 1 ? width : cmdq_lower_tile_of(l, n->output);
    if (n->output != l->graph->logits || l->streamed[n->output] || rows == 0)
        return;
    for (uint32_t at = 0; at < width; at += tile) {
        uint32_t columns = cmdq_lower_min(tile, width - at);
        cmdq_lower_store(l, cmdq_lower_skip(cmdq_lower_value(l, n->output, at), (uint64_t)first * columns),
                         l->logits_addr + (uint64_t)at * 4, rows, columns, (uint64_t)width * 4);
    }
}

static tv_status finish_queue(cmdq_lowering *l, uint32_t end_node, const tv_diag_sink *sink)
{
    l->end_node = end_node;
    tv_queue_builder_opcode(l->builder, CMDQ_END);
    tv_queue_builder_end_entry(l->builder, NULL, NULL, 0);
    return run_queue(l, sink);
}

/* Ends the queue before a node and lets the host do its part; begins the next one. */
static tv_status stop_at(cmdq_lowering *l, const tv_graph_node *n, tv_buf *init, const tv_diag_sink *sink)
{
    uint32_t node = cmdq_lower_node_index(l, n);
    cmdq_lower_store_for_host(l, n);
    TV_TRY(finish_queue(l, node, sink));
    TV_TRY(cmdq_lower_compute_on_host(l, n, init, sink));
    l->first_node = node;
    TV_TRY(begin_queue(l, NULL, init, sink));
    cmdq_lower_load_from_host(l, n);
    return TV_OK;
}

/* Lowers and runs all nodes. Without a row that needs logits the output block is omitted. */
static tv_status lower_nodes(cmdq_lowering *l, tv_buf *init, const tv_diag_sink *sink)
{
    uint64_t count = l->graph->nodes.count;
    for (uint32_t i = 0; i < count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        tv_progress_report(&l->step_progress, "running", l->step_done * count + (uint64_t)l->rows * i,
                           l->step_count * count);
        tv_graph_block_name(n->block, l->block_name);
        if (!is_left_out(l, n)) {
            if (cmdq_lower_stops(l, i))
                TV_TRY(stop_at(l, n, init, sink));
            if (!l->on_host[i])
                l->emitters[n->op](l, n);
            emit_copy(l, n);
            store_result(l, n);
        }
        if (l->node_entries_end)
            l->node_entries_end[i] = tv_queue_builder_count(l->builder);
    }
    return finish_queue(l, (uint32_t)l->graph->nodes.count, sink);
}

static tv_status build_and_run(cmdq_lowering *l, const int32_t *tokens, const tv_diag_sink *sink)
{
    tv_buf init = {0};
    l->first_node = 0;
    tv_status status = begin_queue(l, tokens, &init, sink);
    if (status == TV_OK)
        status = lower_nodes(l, &init, sink);
    tv_buf_fini(&init);
    return status;
}

static tv_status advance_and_run(cmdq_lowering *l, const int32_t *tokens, const tv_diag_sink *sink)
{
    tv_progress_report(&l->step_progress, "running", l->step_done * l->graph->nodes.count,
                       l->step_count * l->graph->nodes.count);
    if (!l->timing)
        TV_TRY(write_inputs(l, tokens, sink));
    TV_TRY(cmdq_lower_advance(l, sink));
    l->steps++;
    return tv_backend_run(l->machine, NULL, sink);
}

static tv_status step_rows(cmdq_lowering *l, const int32_t *tokens, float *out, const tv_diag_sink *sink)
{
    bool advances = cmdq_lower_can_advance(l);
    l->growth.end = 0; /* while the step can fail */
    tv_status status = advances ? advance_and_run(l, tokens, sink) : build_and_run(l, tokens, sink);
    if (status == TV_OK)
        cmdq_lower_end_growth(l);
    size_t count = (size_t)(l->rows - l->first_logits_row) * tv_graph_vocabulary(l->graph);
    return count && status == TV_OK
               ? tv_machine_read(l->machine, "dram", l->logits_addr, out, count * sizeof *out, sink)
               : status;
}

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits_out, const tv_diag_sink *sink)
{
    cmdq_lowering *l = state;
    uint32_t rows_max = l->plans[1].rows ? l->plans[1].rows : 1;
    for (uint32_t done = 0; done < count; done += l->rows) {
        l->rows = count - done < rows_max ? count - done : rows_max;
        l->position = position + done;
        l->step_done = done;
        l->step_count = count;
        l->first_logits_row = !last_only ? 0 : done + l->rows == count ? l->rows - 1 : l->rows;
        l->plan = &l->plans[l->rows > 1]; /* fewer rows use the buffers of the maximum */
        TV_TRY(step_rows(l, tokens + done, logits_out + (last_only ? 0 : done * (size_t)tv_graph_vocabulary(l->graph)),
                         sink));
    }
    return TV_OK;
}

static const float *value(void *state, uint32_t v)
{
    const cmdq_lowering *l = state;
    return l->values ? l->values[v] : NULL;
}

static tv_machine *machine(void *state) { return ((cmdq_lowering *)state)->machine; }

static unsigned host_ops(const void *state, const tv_host_op **list)
{
    const cmdq_lowering *l = state;
    *list = l->host_ops;
    return l->host_op_count;
}

extern const tv_backend tv_backend_cmdq;
const tv_backend tv_backend_cmdq = {.name = "cmdq",
                                    .create = create,
                                    .destroy = destroy,
                                    .step = step,
                                    .value = value,
                                    .machine = machine,
                                    .host_ops = host_ops};
