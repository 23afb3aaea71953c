/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the constants to DRAM: matrices of products as integers with a scale for each group of a row, vectors as
 * binary32. The scale of a product's input is part of the scales of its weights. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "graph/quantize.h"
#include "lower/cmdq/emit.h"

static uint64_t allocate_dram(cmdq_lowering *l, uint64_t bytes)
{
    uint64_t at = l->dram_end;
    l->dram_end += (bytes + 63) / 64 * 64;
    return at;
}

static tv_status check_dram_size(const cmdq_lowering *l, const tv_diag_sink *sink)
{
    uint64_t size = 0;
    tv_space space;
    for (unsigned i = 0; tv_machine_space_at(l->machine, i, &space); i++)
        if (strcmp(space.name, "dram") == 0)
            size = space.size;
    if (l->dram_end <= size)
        return TV_OK;
    return tv_fail(
        sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make dram.bytes larger with -D, or the context smaller",
        "the model and its KV cache need %" PRIu64 " bytes of DRAM; dram.bytes = %" PRIu64, l->dram_end, size);
}

static tv_status upload_vector(cmdq_lowering *l, const tv_matrix *from, cmdq_lower_matrix *to, const tv_diag_sink *sink)
{
    *to = (cmdq_lower_matrix){.rows = 1, .columns = from->columns, .row_bytes = (uint64_t)from->columns * 4};
    to->data = allocate_dram(l, to->row_bytes);
    TV_TRY(check_dram_size(l, sink));
    if (l->timing)
        return TV_OK;
    float *row = malloc(from->columns * sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK && tv_matrix_row_f32(from, 0, row) != TV_OK)
        status = tv_matrix_fail(from, sink);
    if (status == TV_OK)
        status = tv_machine_write(l->machine, "dram", to->data, row, from->columns * sizeof *row, sink);
    free(row);
    return status == TV_OK ? tv_weight_report_rounded(&l->weights, from, "FP32", NULL, 1, sink) : status;
}

static void report_quantized(const cmdq_lowering *l, const tv_matrix *from, const cmdq_lower_matrix *to,
                             const tv_weight_error *error)
{
    char format[48];
    snprintf(format, sizeof format, "INT%u, scales of %u", to->bits, to->group);
    l->weights.report(l->weights.user, from, format, error);
}

static tv_status write_quantized(cmdq_lowering *l, const tv_matrix *from, const cmdq_lower_matrix *to, float input,
                                 const tv_diag_sink *sink)
{
    enum { ROWS_PER_TASK = 1024 };
    uint32_t n = from->columns, groups = n / to->group, rows_max = to->rows < ROWS_PER_TASK ? to->rows : ROWS_PER_TASK;
    float *scales = malloc((size_t)rows_max * groups * sizeof *scales);
    uint8_t *packed = malloc(rows_max * to->row_bytes);
    tv_weight_error *errors = l->weights.report ? malloc(rows_max * sizeof *errors) : NULL, sum = {0};
    tv_status status = scales && packed && (errors || !l->weights.report) ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0, count; r < to->rows && status == TV_OK; r += count) {
        count = to->rows - r < rows_max ? to->rows - r : rows_max;
        if (errors)
            memset(errors, 0, count * sizeof *errors);
        tv_quantize_job job = {.matrix = from,
                               .first = r,
                               .count = count,
                               .columns = n,
                               .group = to->group,
                               .bits = to->bits,
                               .packed = packed,
                               .scales = scales,
                               .errors = errors};
        status = tv_quantize_rows(&job, l->pool) ? tv_machine_write(l->machine, "dram", to->data + r * to->row_bytes,
                                                                    packed, count * to->row_bytes, sink)
                                                 : tv_matrix_fail(from, sink);
        for (size_t i = 0; i < (size_t)count * groups && status == TV_OK; i++)
            scales[i] *= input;
        if (status == TV_OK)
            status = tv_machine_write(l->machine, "dram", to->scales + (uint64_t)r * groups * 4, scales,
                                      (size_t)count * groups * 4, sink);
        tv_weight_error_sum(&sum, errors, errors ? count : 0);
    }
    if (errors && status == TV_OK)
        report_quantized(l, from, to, &sum);
    free(errors);
    free(scales);
    free(packed);
    tv_matrix_drop(from);
    return status;
}

/* `input` is the scale of the input. */
static tv_status upload_matrix(cmdq_lowering *l, const tv_matrix *from, cmdq_lower_matrix *to, float input,
                               const tv_diag_sink *sink)
{
    *to = (cmdq_lower_matrix){.rows = from->rows * from->count,
                              .columns = from->columns,
                              .group = to->group,
                              .bits = to->bits,
                              .row_bytes = tv_ceil_div((uint64_t)from->columns * to->bits, 8)};
    to->data = allocate_dram(l, to->row_bytes * to->rows);
    to->scales = allocate_dram(l, (uint64_t)to->rows * (to->columns / to->group) * 4);
    TV_TRY(check_dram_size(l, sink));
    return l->timing ? TV_OK : write_quantized(l, from, to, input, sink);
}

/* True for a matrix whose rows are multiplied. */
static bool is_multiplied(const tv_graph_node *n, unsigned input)
{
    return (n->op == TV_OP_LINEAR && input == 1) || (n->op == TV_OP_GLU && (input == 1 || input == 2)) ||
           (n->op == TV_OP_MOE && input >= 2);
}

/* The value of 1 in the input of a product. Of experts, what `down` multiplies is binary16. */
static float input_scale(const cmdq_lowering *l, const tv_graph_node *n, unsigned input)
{
    const cmdq_lower_plan *plan = &l->plans[0];
    uint32_t x = n->inputs[0];
    if (n->op == TV_OP_MOE && input == 4)
        return 1;
    return plan->copies[x].buffer != CMDQ_LOWER_NONE ? plan->copies[x].scale : plan->formats[x].scale;
}

/* The constants that a node reads, but for the table of Gather, whose rows the host writes, and for factors, which are
 * scales of entries. */
static tv_status upload_node(cmdq_lowering *l, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = tv_graph_node_at(l->graph, node);
    if (n->op == TV_OP_GATHER && !l->timing)
        return tv_weight_report_rounded(&l->weights, tv_graph_matrix(l->graph, n->inputs[0]), "FP32", NULL, 1, sink);
    for (unsigned k = 0; k < CMDQ_LOWER_MATRICES_MAX && n->op != TV_OP_GATHER && !l->on_host[node]; k++) {
        if (n->inputs[k] == TV_NO_VALUE || !cmdq_lower_is_constant(l, n->inputs[k]))
            continue;
        const tv_matrix *from = tv_graph_matrix(l->graph, n->inputs[k]);
        cmdq_lower_matrix *to = &l->matrices[node][k];
        if (is_multiplied(n, k)) {
            to->group = cmdq_lower_group(l, n, k);
            to->bits = cmdq_lower_weight_bits(l, n);
            TV_TRY(upload_matrix(l, from, to, input_scale(l, n, k), sink));
        } else if (!cmdq_lower_is_factor(l, n, k)) {
            TV_TRY(upload_vector(l, from, to, sink));
        }
    }
    return TV_OK;
}

static tv_status upload_mask(cmdq_lowering *l, unsigned which, const tv_diag_sink *sink)
{
    uint32_t columns = cmdq_lower_mask_columns(l), window = l->windows[which];
    float *row = malloc(columns * sizeof *row);
    tv_status status = row ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < CMDQ_LOWER_MASK_ROWS && status == TV_OK; r++) {
        for (uint32_t c = 0; c < columns; c++)
            row[c] = c <= l->context + r && (!window || c + window > l->context + r) ? 0 : -INFINITY;
        status = tv_machine_write(l->machine, "dram", l->masks_addr[which] + (uint64_t)r * columns * sizeof *row, row,
                                  columns * sizeof *row, sink);
    }
    free(row);
    return status;
}

/* Allocates and, unless for timing, writes everything in DRAM. */
static tv_status upload_graph(cmdq_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    const tv_graph *g = l->graph;
    uint64_t rows = l->plans[1].rows ? l->plans[1].rows : 1;
    l->dram_end = 0;
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        tv_progress_report(progress, "uploading weights", i, g->nodes.count);
        TV_TRY(upload_node(l, i, sink));
    }
    for (unsigned i = 0; i < l->window_count; i++)
        l->masks_addr[i] = allocate_dram(l, (uint64_t)CMDQ_LOWER_MASK_ROWS * cmdq_lower_mask_columns(l) * 4);
    l->constants_end = l->dram_end;
    for (size_t i = 0; i < g->caches.count; i++) {
        const tv_graph_cache *c = &g->caches.data[i];
        l->k_base[i] = allocate_dram(l, (uint64_t)c->heads * l->context * c->key_dim);
        l->v_base[i] = allocate_dram(l, (uint64_t)c->heads * l->context * c->value_dim);
    }
    l->caches_end = l->dram_end;
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i].op == TV_OP_GATHER)
            l->inputs[g->nodes.data[i].output] =
                allocate_dram(l, rows * tv_graph_elements(g, g->nodes.data[i].output) * 4);
    l->logits_addr = allocate_dram(l, rows * tv_graph_vocabulary(g) * 4);
    l->to_host_addr = allocate_dram(l, rows * cmdq_lower_host_elements(l, false) * 4);
    l->from_host_addr = allocate_dram(l, rows * cmdq_lower_host_elements(l, true) * 4);
    TV_TRY(check_dram_size(l, sink));
    for (unsigned i = 0; i < l->window_count && !l->timing; i++)
        TV_TRY(upload_mask(l, i, sink));
    return TV_OK;
}

tv_status cmdq_lower_allocate(cmdq_lowering *l, const tv_diag_sink *sink)
{
    const bool timing = l->timing;
    l->timing = true;
    tv_status status = upload_graph(l, &(tv_llm_progress){0}, sink);
    l->timing = timing;
    return status;
}

tv_status cmdq_lower_upload(cmdq_lowering *l, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    if (l->timing)
        return TV_OK;
    TV_TRY(upload_graph(l, progress, sink));
    return tv_backend_touch_space(l->machine, "dram", l->constants_end, l->caches_end, sink);
}
