/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to pccx: programs for each step, as many as the data flow needs (nodes.c). The host computes only the
 * packing of keys and values (kv_cache.c). */
#include <stdlib.h>

#include "graph/host_node.h"
#include "lower/pccx/state.h"

/* ---- Creating ---- */

static void destroy(void *state)
{
    pccx_lowering *l = state;
    if (!l)
        return;
    tv_builder_fini(&l->program);
    tv_machine_free(l->machine);
    tv_program_free(l->loaded_program);
    for (size_t i = 0; l->kept_values && i < l->graph->values.count; i++)
        free(l->kept_values[i]);
    for (size_t i = 0; l->host_nodes && i < l->graph->nodes.count; i++)
        tv_host_node_free(l->host_nodes[i]);
    for (size_t i = 0; l->value_blocks && i < l->graph->caches.count; i++)
        pccx_lower_free_value_blocks(&l->value_blocks[i]);
    free(l->kept_values);
    free(l->host_nodes);
    free(l->folds);
    free(l->constants);
    pccx_lower_plan_fini(&l->plan);
    free(l->map.keys);
    free(l->map.values);
    free(l->value_blocks);
    tv_buf_fini(&l->kv_rows);
    tv_buf_fini(&l->kv_packed);
    free(l);
}

static tv_status allocate(pccx_lowering *l, const tv_diag_sink *sink)
{
    const tv_graph *g = l->graph;
    l->folds = calloc(g->nodes.count + 1, sizeof *l->folds);
    l->constants = calloc(g->nodes.count + 1, sizeof *l->constants);
    l->kept_values = calloc(g->values.count + 1, sizeof *l->kept_values);
    l->host_nodes = calloc(g->nodes.count + 1, sizeof *l->host_nodes);
    l->map.keys = calloc(g->caches.count + 1, sizeof *l->map.keys);
    l->map.values = calloc(g->caches.count + 1, sizeof *l->map.values);
    l->value_blocks = calloc(g->caches.count + 1, sizeof *l->value_blocks);
    bool ok =
        l->folds && l->host_nodes && l->constants && l->kept_values && l->map.keys && l->map.values && l->value_blocks;
    for (uint32_t i = 0; i < g->caches.count && ok; i++)
        ok = pccx_lower_alloc_value_blocks(l, i);
    return ok ? TV_OK : tv_fail_memory(sink);
}

static tv_status create(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                        void **state)
{
    unsigned planes = options->weight_bits == 8 ? 2 : 1; /* the second plane holds the rounding errors of the first */
    pccx_lowering *l = calloc(1, sizeof *l);
    if (!l)
        return tv_fail_memory(sink);
    *l = (pccx_lowering){
        .graph = graph,
        .context = options->context,
        .planes = planes,
        .cache_planes = planes,
        .emit = options->emit,
        .outputs = options->outputs,
        .weights = options->weights,
        .step_progress = options->step_progress,
        .timing = options->mode == TV_MODE_TIMING,
        .keep_values = options->keep_values,
        .scale_search = tv_scale_search(tv_cpu()),
        .host_ops = {{.name = "pack keys to INT4"},
                     {.name = "pack values to INT4"},
                     {.name = "hand a vector to the weight stream", .written = true}},
        .host_op_count = PCCX_LOWER_HOST_OPS,
        .allow_host_ops = options->allow_host_ops,
    };
    tv_status status = allocate(l, sink);
    if (status == TV_OK)
        status = pccx_lower_init_encodings(l, sink);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->machine);
    if (status == TV_OK)
        status = pccx_lower_plan_graph(l, options->config, sink);
    if (status == TV_OK) {
        pccx_lower_choose_rotations(l, options->config);
        tv_machine_set_threads(l->machine, options->threads);
        status = pccx_lower_upload(l, &options->progress, sink);
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
    uint32_t n = tv_graph_vocabulary(l->graph);
    for (uint32_t r = 0; r < rows; r++)
        TV_TRY(pccx_lower_read_bf16(l, l->map.logits + (uint64_t)r * pccx_lower_l2_size(n) * PCCX_LOWER_WORD_BYTES, n,
                                    out + (size_t)r * n, sink));
    return TV_OK;
}

/* The first program of a session loads the constants to L2. */
static void load_constants(pccx_lowering *l)
{
    if (l->constants_loaded)
        return;
    pccx_lower_load(l, l->plan.ones, l->map.ones, l->widest);
    if (l->constant_count)
        pccx_lower_load(l, l->plan.constants, l->map.words, l->constant_count * PCCX_LOWER_LANES);
    if (l->has_packed_tables)
        pccx_lower_load(l, l->plan.units, l->map.units, PCCX_LOWER_BEAT_WEIGHTS * PCCX_LOWER_BEAT_WEIGHTS);
    if (l->minus_length)
        pccx_lower_load(l, l->plan.minus_ones, l->map.minus_ones, l->minus_length);
    l->constants_loaded = true;
}

static tv_status lower_node(pccx_lowering *l, uint32_t node, uint32_t first, uint32_t end, const tv_diag_sink *sink)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    l->row_first = first;
    l->row_end = end;
    tv_graph_block_name(n->block, l->block_name);
    tv_builder_label(&l->program, l->block_name);
    load_constants(l);
    l->plan.values[n->output].grouped = false;
    return l->folds[node].on_host ? pccx_lower_host_node(l, n, sink) : pccx_lower_emitters[n->op](l, n, sink);
}

/* Without a row that needs logits the output block is omitted. Nodes whose outputs are as wide as the vocabulary are
 * executed row by row. */
static tv_status lower_nodes(pccx_lowering *l, const tv_diag_sink *sink)
{
    uint32_t vocabulary = tv_graph_vocabulary(l->graph), count = (uint32_t)l->graph->nodes.count;
    for (uint32_t i = 0; i < l->tail; i++) {
        uint32_t first = tv_graph_node_at(l->graph, i)->block == TV_BLOCK_OUTPUT ? l->first_logits_row : 0;
        tv_progress_report(&l->step_progress, "running", l->step_done * count + (uint64_t)l->rows * i,
                           l->step_count * count);
        if (first < l->rows)
            TV_TRY(lower_node(l, i, first, l->rows, sink));
    }
    for (uint32_t r = l->first_logits_row; r < l->rows; r++) {
        for (uint32_t i = l->tail; i < count; i++)
            TV_TRY(lower_node(l, i, r, r + 1, sink));
        pccx_lower_store(l,
                         l->map.logits + (uint64_t)(r - l->first_logits_row) * pccx_lower_l2_size(vocabulary) *
                                             PCCX_LOWER_WORD_BYTES,
                         pccx_lower_row_addr(l, l->graph->logits, r), vocabulary);
    }
    return TV_OK;
}

static tv_status step_rows(pccx_lowering *l, const int32_t *tokens, float *logits, const tv_diag_sink *sink)
{
    tv_builder_clear(&l->program); /* left by a step that failed */
    l->programs = 0;
    l->tokens = tokens;
    if (pccx_lower_plan_rows(l, l->rows) != TV_OK)
        return tv_fail_memory(sink);
    TV_TRY(lower_nodes(l, sink));
    TV_TRY(pccx_lower_run(l, sink));
    l->steps++;
    return l->first_logits_row < l->rows ? read_logits(l, l->rows - l->first_logits_row, logits, sink) : TV_OK;
}

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    pccx_lowering *l = state;
    for (uint32_t done = 0; done < count; done += l->rows) {
        l->rows = count - done < l->rows_max ? count - done : l->rows_max;
        l->position = position + done;
        l->step_done = done;
        l->step_count = count;
        l->first_logits_row = !last_only ? 0 : done + l->rows == count ? l->rows - 1 : l->rows;
        TV_TRY(
            step_rows(l, tokens + done, logits + (last_only ? 0 : (size_t)done * tv_graph_vocabulary(l->graph)), sink));
    }
    return TV_OK;
}

static const float *value(void *state, uint32_t v) { return ((pccx_lowering *)state)->kept_values[v]; }

static tv_machine *machine(void *state) { return ((pccx_lowering *)state)->machine; }

static unsigned host_ops(const void *state, const tv_host_op **list)
{
    const pccx_lowering *l = state;
    *list = l->host_ops;
    return l->host_op_count;
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
