/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the constants of a network to pccx's host memory, and reserves room for its values there. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "lower/pccx/network_state.h"

/* The elements of a constant as binary32, or NULL without data. The caller frees them. */
static tv_status read_constant(const pccx_network *w, uint32_t value, float **out, const tv_diag_sink *sink)
{
    const tv_graph_value *v = tv_graph_value_at(w->graph, value);
    uint64_t count = tv_graph_elements(w->graph, value);
    const tv_matrix *m = &v->matrix;
    *out = NULL;
    if (w->l.timing)
        return TV_OK;
    float *values = malloc((count + 1) * sizeof *values);
    if (!values)
        return tv_fail_memory(sink);
    for (uint64_t i = 0; i < count && v->tensor; i++)
        values[i] = v->tensor->data ? (float)tv_tensor_real(v->tensor, i) : 0;
    for (uint64_t r = 0; r < (uint64_t)m->rows * m->count && !v->tensor; r++)
        if (tv_matrix_row_f32(m, r, values + r * m->columns) != TV_OK) {
            free(values);
            return tv_matrix_fail(m, sink);
        }
    *out = values;
    return TV_OK;
}

/* ---- Rows ---- */

/* Element of a constant that is repeated to the shape of the output, for element `index` of that. */
static uint64_t repeated_index(const tv_graph_shape *own, const tv_graph_shape *out, uint64_t index)
{
    uint64_t at = 0, size = 1;
    for (uint32_t i = out->rank; i-- > 0;) {
        uint64_t all = (uint64_t)out->dims[i], position = index % all;
        index /= all;
        if (i + own->rank < out->rank)
            continue;
        uint64_t extent = (uint64_t)own->dims[i + own->rank - out->rank];
        at += (extent == 1 ? 0 : position) * size;
        size *= extent;
    }
    return at;
}

/* rows[count][padded columns] of a constant, repeated to the shape and layout of `value`, times `factor`; its
 * reciprocals with factor 0. Without a constant, the factor. */
static tv_status upload_rows(pccx_network *w, uint32_t constant, uint32_t value, uint32_t count, float factor,
                             uint64_t *addr, const tv_diag_sink *sink)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    uint64_t padded = (uint64_t)v->words * PCCX_LOWER_LANES;
    float *values = NULL;
    if (constant != TV_NO_VALUE)
        TV_TRY(read_constant(w, constant, &values, sink));
    float *rows = w->l.timing ? NULL : calloc(count * padded + 1, sizeof *rows);
    tv_status status = rows || w->l.timing ? TV_OK : tv_fail_memory(sink);
    for (uint32_t r = 0; r < count && rows; r++)
        for (uint32_t c = 0; c < v->columns; c++) {
            uint64_t at = pccx_net_index(w, value, r, c);
            float x = factor;
            if (values) {
                x = values[repeated_index(&tv_graph_value_at(w->graph, constant)->shape,
                                          &tv_graph_value_at(w->graph, value)->shape, at)];
                x = factor == 0 ? 1 / x : x * factor;
            }
            rows[r * padded + c] = x;
        }
    if (status == TV_OK)
        status = pccx_lower_upload_bf16(&w->l, rows, count * padded, addr, sink);
    free(rows);
    free(values);
    return status;
}

static tv_status upload_filled(pccx_network *w, float value, uint32_t count, uint64_t *addr, const tv_diag_sink *sink)
{
    float *row = malloc(count * sizeof *row);
    if (!row)
        return tv_fail_memory(sink);
    for (uint32_t i = 0; i < count; i++)
        row[i] = value;
    tv_status status = pccx_lower_upload_bf16(&w->l, row, count, addr, sink);
    free(row);
    return status;
}

static tv_status upload_operand(pccx_network *w, uint32_t node, unsigned k, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    if (!pccx_net_is_constant(w, n->inputs[k]))
        return TV_OK;
    pccx_net_operand_kind kind = pccx_net_operand_of(w, n, k);
    if (kind == PCCX_NET_SCALAR && n->op == TV_OP_MUL)
        return upload_filled(w, pccx_net_scalar_of(w, n, k), PCCX_NET_CLIP_COLUMNS, &w->nodes[node].operands[k], sink);
    if (kind != PCCX_NET_ROW && kind != PCCX_NET_FULL)
        return TV_OK;
    return upload_rows(w, n->inputs[k], n->output, kind == PCCX_NET_ROW ? 1 : pccx_net_value_at(w, n->output)->rows,
                       n->op == TV_OP_DIV && k == 1 ? 0 : 1, &w->nodes[node].operands[k], sink);
}

/* What the bias of a product adds besides it: the middle of an interval that clips its result. */
static float shift_of(const pccx_network *w, const tv_graph_node *n)
{
    return -pccx_net_value_at(w, n->output)->clip.middle;
}

/* A vector along the columns of the output of a node, times `factor`, plus `shift`. */
static tv_status upload_vector(pccx_network *w, uint32_t node, uint32_t vector, float factor, float shift,
                               uint64_t *addr, const tv_diag_sink *sink)
{
    const pccx_net_value *v = pccx_net_value_at(w, pccx_net_graph_node(w, node)->output);
    float *values = NULL, *row;
    if (vector != TV_NO_VALUE)
        TV_TRY(read_constant(w, vector, &values, sink));
    row = calloc((uint64_t)v->words * PCCX_LOWER_LANES + PCCX_LOWER_LANES, sizeof *row);
    for (uint32_t c = 0; c < v->words * PCCX_LOWER_LANES && row; c++)
        row[c] = shift + (c >= v->columns ? 0 : values ? values[c] * factor : factor);
    tv_status status = row ? pccx_lower_upload_bf16(&w->l, row, (uint64_t)v->words * PCCX_LOWER_LANES, addr, sink)
                           : tv_fail_memory(sink);
    free(row);
    free(values);
    return status;
}

/* ---- Matrices ---- */

static tv_status pack(pccx_network *w, uint32_t node, const tv_matrix *from, const tv_diag_sink *sink)
{
    pccx_net_node *own = &w->nodes[node];
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    float factor =
        pccx_net_factor(pccx_net_value_at(w, n->output)) / pccx_net_factor(pccx_net_value_at(w, n->inputs[0]));
    pccx_lower_reserve_matrix(&w->l, from, pccx_lower_padded(from->rows), w->l.planes, &own->matrix);
    return w->l.timing ? TV_OK : pccx_lower_pack(&w->l, from, factor, &own->matrix, sink);
}

static tv_status upload_linear(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    bool has_bias = n->inputs[2] != TV_NO_VALUE;
    if (has_bias || shift_of(w, n) != 0)
        TV_TRY(upload_vector(w, node, n->inputs[2], has_bias ? pccx_net_factor(pccx_net_value_at(w, n->output)) : 0,
                             shift_of(w, n), &w->nodes[node].bias, sink));
    return pack(w, node, tv_graph_matrix(w->graph, n->inputs[1]), sink);
}

/* The matrices of a convolution: for each set of channels, row of the kernel, and tap of its form. */
typedef struct kernel {
    const pccx_net_node *own;
    const tv_graph_node *n;
    const float *weights;             /* [o][c / groups][taps]; transposed [c][o / groups][taps]; NULL: means */
    uint32_t groups, inputs, outputs; /* of a group */
    uint32_t rows, columns;           /* of a matrix, for one pixel of its group */
    uint32_t taps, count;             /* of the kernel; matrices */
    uint32_t slices;                  /* of the inputs of the only group */
} kernel;

static kernel kernel_of(const pccx_network *w, uint32_t node)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_node *own = &w->nodes[node];
    bool pool = n->op == TV_OP_AVERAGE_POOL;
    uint32_t groups = pool ? own->window.channels : n->attrs.groups, outputs = pccx_net_value_at(w, n->output)->columns,
             rows = outputs / own->sets;
    return (kernel){
        .own = own,
        .n = n,
        .groups = groups,
        .inputs = own->window.channels / groups,
        .outputs = outputs / groups,
        .rows = own->form.spread > 1 ? pccx_lower_padded(rows) : rows,
        .columns = own->form.group > 1 ? pccx_lower_padded(own->k) : own->k,
        .taps = own->window.kernel[0] * own->window.kernel[1],
        .slices = own->slices ? own->slices : 1,
        .count = pool ? 1 : (own->slices ? own->slices : own->sets) * own->window.kernel[0] * own->form.g.kernel[1]};
}

/* Writes the weights of tap `tap`, of a set or slice, between an input and an output pixel of the rows of a matrix: the
 * groups of a set are blocks of its diagonal. */
static void arrange_tap(const kernel *k, uint32_t set, uint32_t tap, float *to, uint32_t stride)
{
    uint32_t set_groups = k->groups / k->own->sets, inputs = k->inputs / k->slices,
             first = k->slices > 1 ? set * inputs : 0;
    for (uint32_t g = 0; g < set_groups; g++)
        for (uint32_t o = 0; o < k->outputs; o++)
            for (uint32_t i = 0; i < inputs; i++) {
                uint32_t group = (k->slices > 1 ? 0 : set) * set_groups + g;
                uint64_t at = (uint64_t)(group * k->outputs + o) * k->inputs + first + i;
                if (k->n->op == TV_OP_CONV_TRANSPOSE)
                    at = (uint64_t)(group * k->inputs + i) * k->outputs + o;
                to[(uint64_t)(g * k->outputs + o) * stride + g * k->inputs + i] =
                    k->weights ? k->weights[at * k->taps + tap] : 1 / (float)k->taps;
            }
}

static void arrange_weights(const kernel *k, float *to)
{
    const pccx_net_form *form = &k->own->form;
    uint32_t stride = form->group * k->columns, width = k->own->window.kernel[1];
    for (uint32_t m = 0; m < k->count; m++, to += (uint64_t)form->spread * k->rows * stride)
        for (uint32_t out = 0; out < form->spread; out++)
            for (uint32_t in = 0; in < form->group; in++) {
                uint32_t row = m / form->g.kernel[1], t = m % form->g.kernel[1],
                         x = pccx_net_tap_between(k->own, k->n->op == TV_OP_CONV_TRANSPOSE, t, in, out);
                if (x != UINT32_MAX)
                    arrange_tap(k, row / k->own->window.kernel[0], row % k->own->window.kernel[0] * width + x,
                                to + (uint64_t)out * k->rows * stride + in * k->columns, stride);
            }
}

/* The bias of each output pixel of a row, for each set. */
static tv_status upload_conv_bias(pccx_network *w, uint32_t node, const kernel *k, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    float factor = pccx_net_factor(pccx_net_value_at(w, n->output)), *values = NULL;
    uint32_t sets = k->own->sets, spread = k->own->form.spread, own = k->groups / sets * k->outputs,
             padded = pccx_lower_padded(own);
    if (n->inputs[2] != TV_NO_VALUE)
        TV_TRY(read_constant(w, n->inputs[2], &values, sink));
    float *row = calloc((size_t)sets * spread * padded, sizeof *row);
    for (uint32_t i = 0; i < sets * spread && row; i++)
        for (uint32_t o = 0; o < padded; o++)
            row[i * padded + o] = shift_of(w, n) + (values && o < own ? values[i / spread * own + o] * factor : 0);
    tv_status status =
        row ? pccx_lower_upload_bf16(&w->l, row, (uint64_t)sets * spread * padded, &w->nodes[node].bias, sink)
            : tv_fail_memory(sink);
    free(row);
    free(values);
    return status;
}

static tv_status upload_conv(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    bool pool = n->op == TV_OP_AVERAGE_POOL;
    float *weights = NULL, *values = NULL;
    pccx_net_choose_form(w, node);
    kernel k = kernel_of(w, node);
    if (!pool)
        TV_TRY(read_constant(w, n->inputs[1], &weights, sink));
    tv_matrix from = {.name = pool ? "mean" : tv_graph_matrix(w->graph, n->inputs[1])->name,
                      .rows = k.own->form.spread * k.rows,
                      .columns = k.own->form.group * k.columns,
                      .count = k.count};
    if (!w->l.timing)
        values = calloc((uint64_t)k.count * from.rows * from.columns + 1, sizeof *values);
    tv_status status = values || w->l.timing ? TV_OK : tv_fail_memory(sink);
    k.weights = weights;
    if (values)
        arrange_weights(&k, values);
    from.values = values;
    if (status == TV_OK)
        status = pack(w, node, &from, sink);
    free(values);
    free(weights);
    if (status == TV_OK && !pool && (n->inputs[2] != TV_NO_VALUE || shift_of(w, n) != 0))
        status = upload_conv_bias(w, node, &k, sink);
    return status;
}

static tv_status upload_norm(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    float root = sqrtf((float)pccx_net_value_at(w, n->output)->columns), *gains = NULL;
    if (n->inputs[2] != TV_NO_VALUE)
        TV_TRY(upload_vector(w, node, n->inputs[2], 1, 0, &w->nodes[node].bias, sink));
    if (n->inputs[1] != TV_NO_VALUE)
        TV_TRY(read_constant(w, n->inputs[1], &gains, sink));
    tv_status status = pccx_net_upload_norm(w, node, gains, sink);
    free(gains);
    return status == TV_OK ? upload_vector(w, node, n->inputs[1], root, 0, &w->nodes[node].operands[1], sink) : status;
}

/* ---- The network ---- */

static tv_status upload_inputs_of_move(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    for (unsigned k = 0; k < 3 && k < tv_graph_input_count(n); k++)
        if (n->inputs[k] != TV_NO_VALUE && pccx_net_is_constant(w, n->inputs[k]) &&
            tv_is_real_element(tv_graph_value_at(w->graph, n->inputs[k])->element))
            TV_TRY(upload_rows(w, n->inputs[k], n->inputs[k], pccx_net_value_at(w, n->inputs[k])->rows, 1,
                               &w->nodes[node].operands[k], sink));
    return TV_OK;
}

static tv_status upload_node(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    if (w->nodes[node].problem)
        return TV_OK;
    if (pccx_net_value_at(w, n->output)->clip.scale)
        TV_TRY(pccx_net_upload_clip(w, n->output, sink));
    if (w->nodes[node].is_move) {
        TV_TRY(pccx_net_upload_patterns(w, node, sink));
        return upload_inputs_of_move(w, node, sink);
    }
    switch (n->op) {
    case TV_OP_GATHER:
        return upload_rows(w, n->inputs[0], n->inputs[0], pccx_net_value_at(w, n->inputs[0])->rows, 1,
                           &w->nodes[node].operands[0], sink);
    case TV_OP_GEMM:
    case TV_OP_LINEAR:
        return upload_linear(w, node, sink);
    case TV_OP_CONV:
    case TV_OP_CONV_TRANSPOSE:
    case TV_OP_AVERAGE_POOL:
        return upload_conv(w, node, sink);
    case TV_OP_SOFTMAX:
        return pccx_net_upload_softmax(w, node, sink);
    case TV_OP_NORM:
    case TV_OP_RMS_NORMALIZATION:
    case TV_OP_LAYER_NORMALIZATION:
        return upload_norm(w, node, sink);
    case TV_OP_MATMUL: {
        const tv_graph_shape *b = &tv_graph_value_at(w->graph, n->inputs[1])->shape;
        uint32_t k = w->nodes[node].k, columns = (uint32_t)b->dims[b->rank - 1];
        tv_matrix from = {.rows = columns,
                          .columns = k,
                          .count = (uint32_t)(tv_graph_elements(w->graph, n->inputs[1]) / ((uint64_t)k * columns))};
        pccx_lower_reserve_matrix(&w->l, &from, pccx_lower_padded(columns), w->l.planes, &w->nodes[node].matrix);
        return TV_OK;
    }
    default:
        if (tv_graph_op_infos[n->op].class == TV_CLASS_BINARY) {
            TV_TRY(upload_operand(w, node, 0, sink));
            return upload_operand(w, node, 1, sink);
        }
        return TV_OK;
    }
}

/* Rows of one beat whose first weight is 1 or -1, as many as the widest product has columns. */
static tv_status upload_units(pccx_network *w, const tv_diag_sink *sink)
{
    uint32_t widest = PCCX_NET_CLIP_COLUMNS;
    for (uint32_t i = 0; i < w->graph->values.count; i++)
        if (w->values[i].on_machine && w->values[i].words * PCCX_LOWER_LANES > widest)
            widest = w->values[i].words * PCCX_LOWER_LANES;
    for (uint32_t i = 0; i < w->graph->nodes.count; i++)
        widest = w->nodes[i].matrix.rows > widest ? w->nodes[i].matrix.rows : widest;
    for (unsigned i = 0; i < 2; i++) {
        w->units[i] = pccx_lower_reserve(&w->l, (uint64_t)widest * PCCX_LOWER_BEAT_BYTES);
        uint8_t *rows = w->l.timing ? NULL : calloc(widest, PCCX_LOWER_BEAT_BYTES);
        if (w->l.timing)
            continue;
        if (!rows)
            return tv_fail_memory(sink);
        for (uint32_t r = 0; r < widest; r++)
            rows[(size_t)r * PCCX_LOWER_BEAT_BYTES] = i ? 15 : 1;
        tv_status status =
            tv_machine_write(w->l.machine, "host", w->units[i], rows, (size_t)widest * PCCX_LOWER_BEAT_BYTES, sink);
        free(rows);
        TV_TRY(status);
    }
    return TV_OK;
}

static tv_status upload_common(pccx_network *w, const tv_diag_sink *sink)
{
    float words[PCCX_COMMONS * PCCX_LOWER_LANES] = {0};
    for (unsigned i = 0; i < PCCX_COMMONS; i++)
        words[i * PCCX_LOWER_LANES] = pccx_lower_common_value((pccx_lower_common)i);
    TV_TRY(pccx_lower_upload_identity(&w->l, sink));
    TV_TRY(upload_filled(w, 1, PCCX_NET_ONES, &w->l.map.ones, sink));
    TV_TRY(upload_filled(w, -1, PCCX_NET_PIECE, &w->l.map.minus_ones, sink));
    TV_TRY(pccx_lower_upload_bf16(&w->l, words, TV_COUNTOF(words), &w->l.map.words, sink));
    w->l.map.cuts = pccx_lower_reserve(&w->l, PCCX_NET_ZEROS * 2); /* zeros, as memory is */
    return pccx_net_upload_identity(w, sink);
}

static tv_status upload_all(pccx_network *w, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    w->l.map.end = 0;
    TV_TRY(upload_common(w, sink));
    for (uint32_t i = 0; i < w->graph->nodes.count; i++) {
        tv_progress_report(progress, "uploading weights", i, w->graph->nodes.count);
        TV_TRY(upload_node(w, i, sink));
    }
    TV_TRY(upload_units(w, sink));
    w->l.map.model_end = w->l.map.end;
    w->scalars_home = pccx_lower_reserve(&w->l, PCCX_NET_SCALARS_MAX * PCCX_LOWER_WORD_BYTES);
    for (uint32_t i = 0; i < w->graph->values.count; i++) {
        const tv_graph_value *v = tv_graph_value_at(w->graph, i);
        if (w->values[i].on_machine)
            w->values[i].home = pccx_lower_reserve(&w->l, pccx_net_words(&w->values[i]) * PCCX_LOWER_WORD_BYTES);
        else if (v->source == TV_VALUE_INPUT && !tv_is_real_element(v->element)) /* of steps of written programs */
            w->values[i].home = pccx_lower_reserve(&w->l, tv_graph_elements(w->graph, i) * sizeof(int32_t));
    }
    return TV_OK;
}

tv_status pccx_net_upload(pccx_network *w, const tv_llm_progress *progress, const tv_diag_sink *sink)
{
    const bool timing = w->l.timing;
    uint64_t size = pccx_lower_space_size(w->l.machine, "host");
    w->l.timing = true;
    tv_status status = upload_all(w, &(tv_llm_progress){0}, sink);
    w->l.timing = timing;
    if (status == TV_OK && w->l.map.end > size)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make host.bytes larger with -D",
                       "the network needs %" PRIu64 " bytes of host memory; host.bytes = %" PRIu64, w->l.map.end, size);
    return status == TV_OK && !timing ? upload_all(w, progress, sink) : status;
}
