/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators of several operands, and operators of rows, which are those of one token of a language model.
 */
#include <stdlib.h>

#include "graph/strides.h"
#include "lower/opennpu/network_state.h"

enum { VECTORS_MAX = 1024 }; /* between ends of segments */

/* ---- Two operands ---- */

void opennpu_net_add(opennpu_network *net, uint64_t x, uint64_t y, uint64_t elements)
{
    uint64_t bytes = (uint64_t)VECTORS_MAX * opennpu_lower_vector_bytes(&net->m);
    for (uint32_t left = opennpu_net_blocks(net, elements), n; left; left -= n, x += bytes, y += bytes) {
        n = left < VECTORS_MAX ? left : VECTORS_MAX;
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_binary(&net->m.e, TV_OP_ADD,
                             (opennpu_lower_operand[]){{x, OPENNPU_OPERAND_VECTORS}, {y, OPENNPU_OPERAND_VECTORS}}, x,
                             n);
    }
}

/* Merges axes of a walk along which all operands advance alike, so that the last axis is as long as possible. */
static void merge_axes(tv_walk *w)
{
    for (uint32_t i = w->rank; i-- > 1; w->rank--) {
        bool merges = true, unit = w->dims[i] == 1; /* then the outer axis is the last one */
        for (unsigned k = 0; k < TV_WALK_OPERANDS; k++)
            merges = merges && (w->dims[i - 1] == 1 || w->strides[k][i - 1] == w->strides[k][i] * w->dims[i]);
        if (!merges && !unit)
            break;
        for (unsigned k = 0; k < TV_WALK_OPERANDS; k++)
            w->strides[k][i - 1] = unit ? w->strides[k][i - 1] : w->strides[k][i];
        w->dims[i - 1] *= w->dims[i];
    }
    w->count = w->rank ? w->dims[w->rank - 1] : 1;
    for (unsigned k = 0; k < TV_WALK_OPERANDS; k++)
        w->step[k] = w->rank ? w->strides[k][w->rank - 1] : 0;
}

void opennpu_net_each_run(opennpu_network *net, const tv_graph_node *n, unsigned operands,
                          void (*emit)(opennpu_network *net, const tv_graph_node *n, const opennpu_net_run *run))
{
    tv_tensor out = tv_graph_tensor_of(net->graph, n->output);
    tv_walk w = tv_walk_over(&out);
    opennpu_net_run run = {.out = opennpu_net_at(net, n->output)};
    for (unsigned k = 0; k < operands; k++) {
        tv_tensor t = tv_graph_tensor_of(net->graph, n->inputs[k]);
        tv_walk_repeat(&w, k, &t);
    }
    merge_axes(&w);
    run.count = (uint64_t)w.count;
    do {
        for (unsigned k = 0; k < operands; k++) {
            run.at[k] = opennpu_net_at(net, n->inputs[k]) + (uint64_t)w.at[k] * 4;
            run.repeated[k] = w.step[k] == 0;
        }
        emit(net, n, &run);
        run.out += run.count * 4;
    } while (tv_walk_next(&w));
}

static void emit_run(opennpu_network *net, const tv_graph_node *n, const opennpu_net_run *run)
{
    uint64_t bytes = (uint64_t)VECTORS_MAX * opennpu_lower_vector_bytes(&net->m), done = 0;
    for (uint32_t left = opennpu_net_blocks(net, run->count), count; left; left -= count, done += bytes) {
        opennpu_lower_operand operands[2];
        count = left < VECTORS_MAX ? left : VECTORS_MAX;
        for (unsigned k = 0; k < 2; k++)
            operands[k] = run->repeated[k] ? (opennpu_lower_operand){run->at[k], OPENNPU_OPERAND_LANE}
                                           : (opennpu_lower_operand){run->at[k] + done, OPENNPU_OPERAND_VECTORS};
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_binary(&net->m.e, n->op, operands, run->out + done, count);
    }
}

void opennpu_net_emit_binary(opennpu_network *net, uint32_t node)
{
    opennpu_net_each_run(net, opennpu_net_node_at(net, node), 2, emit_run);
}

/* ---- Rows ---- */

static void emit_maxima(opennpu_network *net, const tv_graph_node *n)
{
    uint32_t columns = tv_graph_columns(net->graph, n->inputs[0]);
    bool negative = n->op == TV_OP_REDUCE_MIN;
    for (uint64_t i = 0; i < tv_graph_elements(net->graph, n->output); i++) {
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_token_max(&net->tok, opennpu_net_at(net, n->inputs[0]) + i * columns * 4, columns, negative);
        if (negative)
            opennpu_lower_emit(&net->m.e, OPENNPU_VFNEG, 0, 0, 0);
        opennpu_lower_access_lane0(&net->m.e, OPENNPU_ST_W, 0, OPENNPU_LOWER_VR_X,
                                   opennpu_net_at(net, n->output) + i * 4);
    }
}

/* out = x - VR 0 for a row. */
static void emit_differences(opennpu_network *net, uint64_t x, uint64_t out, uint32_t columns)
{
    opennpu_lower_emitter *e = &net->m.e;
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 7, 0, 0);
    for (uint32_t c = 0; c < columns; c += net->m.k) {
        opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_W, x + c * UINT64_C(4));
        opennpu_lower_emit(e, OPENNPU_VFSUB, 0, 0, 7);
        opennpu_lower_store(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, out + c * UINT64_C(4));
    }
}

void opennpu_net_plan_log_softmax(opennpu_network *net, uint32_t node)
{
    uint32_t columns = tv_graph_columns(net->graph, opennpu_net_node_at(net, node)->output);
    net->nodes[node].scratch_bytes = 4 * (uint64_t)columns + opennpu_lower_vector_bytes(&net->m);
}

/* x - max - log(sum of exp(x - max)) */
void opennpu_net_emit_log_softmax(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    uint32_t columns = tv_graph_columns(net->graph, n->output);
    uint64_t x = opennpu_net_at(net, n->inputs[0]), out = opennpu_net_at(net, n->output),
             scratch = net->nodes[node].scratch, end = out + tv_graph_elements(net->graph, n->output) * 4;
    for (; out < end; x += columns * UINT64_C(4), out += columns * UINT64_C(4)) {
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_token_max(&net->tok, x, columns, false);
        emit_differences(net, x, out, columns);
        opennpu_lower_apply(
            &net->m.e, OPENNPU_FUNCTION_EXP,
            &(opennpu_lower_apply_job){.x = out, .out = scratch, .vectors = opennpu_net_blocks(net, columns)});
        opennpu_lower_token_sum(&net->tok, scratch, columns);
        opennpu_net_log(&net->m.e);
        emit_differences(net, out, out, columns);
    }
}

/* ---- Indices ---- */

void opennpu_net_plan_index(opennpu_network *net, uint32_t node)
{
    net->nodes[node].vectors = opennpu_net_reserve(net, 2 * opennpu_lower_vector_bytes(&net->m));
}

/* The numbers of lanes. */
tv_status opennpu_net_upload_index(opennpu_network *net, uint32_t node)
{
    uint8_t lanes[4 * 64];
    for (uint32_t i = 0; i < net->m.k; i++)
        tv_store_le(lanes + 4 * (size_t)i, i, 4);
    return opennpu_net_write_bytes(net, net->nodes[node].vectors, lanes, 4 * (size_t)net->m.k);
}

/* VR 1 = the number of each element of a vector that is VR 6, or -1. Without `last` it is counted down
 * from `columns`, so that the largest number is that of the first element. Clobbers VR 0 and 2. */
static void emit_matches(opennpu_network *net, uint64_t x, uint64_t lanes, uint32_t first, uint32_t columns, bool last)
{
    opennpu_lower_emitter *e = &net->m.e;
    opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_X, x);
    opennpu_lower_load(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_W, lanes);
    opennpu_lower_set(e, 2, last ? first : columns - first);
    opennpu_lower_emit_vr(e, last ? OPENNPU_VADD : OPENNPU_VRSUB, 1, 1, 2);
    opennpu_lower_emit(e, OPENNPU_VFSUB, 0, 0, 6);
    opennpu_lower_emit(e, OPENNPU_VFABS, 0, 0, 0);
    opennpu_lower_emit_vr(e, OPENNPU_VNEG, 0, 0, 0);
    opennpu_lower_set(e, 2, 31);
    opennpu_lower_emit_vr(e, OPENNPU_VSRA, 0, 0, 2); /* all bits where it differs */
    opennpu_lower_emit_vr(e, OPENNPU_VOR, 1, 1, 0);
    if (columns - first < net->m.k) { /* lanes past the row */
        opennpu_lower_load(e, OPENNPU_VR, 0, OPENNPU_LOWER_VR_W, net->m.lane_mask + (net->m.k - (columns - first)) * 4);
        opennpu_lower_emit(e, OPENNPU_VCVT_S32_F32, 0, 0, 0);
        opennpu_lower_emit_vr(e, OPENNPU_VNEG, 0, 0, 0);
        opennpu_lower_emit_vr(e, OPENNPU_VNOT, 0, 0, 0);
        opennpu_lower_emit_vr(e, OPENNPU_VOR, 1, 1, 0);
    }
}

void opennpu_net_emit_index(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    opennpu_lower_emitter *e = &net->m.e;
    uint32_t columns = tv_graph_columns(net->graph, n->inputs[0]);
    bool last = n->attrs.mode == 1, negative = n->op == TV_OP_ARG_MIN;
    for (uint64_t i = 0; i < tv_graph_elements(net->graph, n->output); i++) {
        uint64_t x = opennpu_net_at(net, n->inputs[0]) + i * columns * 4;
        opennpu_lower_run_full_segment(e);
        opennpu_lower_token_max(&net->tok, x, columns, negative);
        if (negative)
            opennpu_lower_emit(e, OPENNPU_VFNEG, 0, 0, 0);
        opennpu_lower_emit_vr(e, OPENNPU_VOR, 6, 0, 0);
        opennpu_lower_set(e, 7, UINT32_MAX);
        for (uint32_t c = 0; c < columns; c += net->m.k) {
            emit_matches(net, x + c * UINT64_C(4), net->nodes[node].vectors, c, columns, last);
            opennpu_lower_emit_vr(e, OPENNPU_VMAX, 7, 7, 1);
        }
        opennpu_lower_emit_sized(e, OPENNPU_VRMAX, OPENNPU_VR, 0, 7, 0);
        opennpu_lower_set(e, 1, columns);
        if (!last)
            opennpu_lower_emit_vr(e, OPENNPU_VRSUB, 0, 0, 1);
        opennpu_lower_access_lane0(e, OPENNPU_ST_W, 0, OPENNPU_LOWER_VR_X, opennpu_net_at(net, n->output) + i * 4);
    }
}

void opennpu_net_emit_rows(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    if (n->op == TV_OP_SOFTMAX)
        opennpu_lower_token_softmax(&net->tok, n);
    else if (n->op == TV_OP_REDUCE_MAX || n->op == TV_OP_REDUCE_MIN)
        emit_maxima(net, n);
    else
        opennpu_lower_token_reduce(&net->tok, n);
}

static uint32_t group_of(const opennpu_network *net, const tv_graph_node *n)
{
    return tv_graph_columns(net->graph, n->output) / (n->op == TV_OP_NORM ? n->attrs.groups : 1);
}

static bool has_input(const tv_graph_node *n, unsigned k) { return n->inputs[k] != TV_NO_VALUE; }

void opennpu_net_plan_norm(opennpu_network *net, uint32_t node)
{
    net->nodes[node].vectors =
        opennpu_net_reserve(net, 8 * (uint64_t)group_of(net, opennpu_net_node_at(net, node)) + 4 * net->m.k);
}

/* The gains, or ones; then the bias, if there is one. */
tv_status opennpu_net_upload_norm(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    uint32_t size = group_of(net, n);
    float *values = malloc((size + 1) * sizeof *values);
    tv_status status = values ? TV_OK : tv_fail_memory(net->sink);
    for (unsigned k = 1; k <= 2 && status == TV_OK; k++) {
        float *own = NULL;
        if (has_input(n, k))
            status = opennpu_net_read_constant(net, n->inputs[k], &own);
        for (uint32_t i = 0; i < size; i++)
            values[i] = own ? own[i] : 1;
        free(own);
        if (status == TV_OK && (k == 1 || has_input(n, 2)))
            status = opennpu_net_write_words(
                net, net->nodes[node].vectors + (k - 1) * (4 * (uint64_t)size + 4 * net->m.k), values, size);
    }
    free(values);
    return status;
}

const char *opennpu_net_check_norm(const opennpu_network *net, const tv_graph_node *n)
{
    for (unsigned k = 1; k <= 2; k++)
        if (has_input(n, k) && !opennpu_net_is_constant(net, n->inputs[k]))
            return "norms with gains that are computed";
    return NULL;
}

void opennpu_net_emit_norm(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    uint32_t size = group_of(net, n);
    uint64_t gains = net->nodes[node].vectors, x = opennpu_net_at(net, n->inputs[0]),
             out = opennpu_net_at(net, n->output);
    tv_graph_node norm = *n;
    norm.attrs.subtract_mean = n->op == TV_OP_LAYER_NORMALIZATION || (n->op == TV_OP_NORM && n->attrs.subtract_mean);
    for (uint64_t i = 0; i < tv_graph_elements(net->graph, n->output); i += size) {
        opennpu_lower_run_full_segment(&net->m.e);
        opennpu_lower_token_norm_group(
            &net->tok, &norm,
            (opennpu_lower_norm_job){.x = x + i * 4,
                                     .gains = gains,
                                     .bias = has_input(n, 2) ? gains + 4 * (uint64_t)size + 4 * net->m.k : 0,
                                     .out = out + i * 4,
                                     .elements = size});
    }
}
