/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration of activation scales. The fields of a queue contain scales, so they must be known before the first token:
 * the host runs a sample, and the absmax it finds gets a margin. Larger values saturate. */
#include <math.h>
#include <stdlib.h>

#include "lower/cmdq/state.h"
#include "num/int.h"

static float choose_scale(const float *x, uint64_t n)
{
    static const float MARGIN = 1.25f;
    float absmax = 0;
    for (uint64_t i = 0; i < n; i++)
        absmax = fabsf(x[i]) > absmax ? fabsf(x[i]) : absmax;
    float scale = absmax * MARGIN / (float)TV_INT_MAX(8);
    return isnormal(scale) ? scale : 1; /* zeros, subnormals and non-finite values have no scale */
}

/* Sets the scale of a node's output for `rows` tokens; for APPEND, those of its inputs. */
static void set_scale(cmdq_lowering *l, void *host, const tv_graph_node *n, uint32_t rows)
{
    cmdq_lower_act_scales *r = &l->act_scales[n->layer];
    uint32_t of = n->op == TV_OP_APPEND ? n->inputs[0] : n->output;
    uint64_t count = (uint64_t)rows * l->graph->values[of].columns;
    const float *x = tv_backend_host.value(host, of);
    if (n->op == TV_OP_APPEND) {
        r->k = choose_scale(x, count);
        r->v = choose_scale(tv_backend_host.value(host, n->inputs[1]), count);
    } else if (l->activation_bits != 8) {
        return;
    } else if (n->op == TV_OP_RMSNORM) {
        *(n->weight == TV_WEIGHT_NORM_ATTENTION ? &r->attn_in
          : n->weight == TV_WEIGHT_NORM_FFN     ? &r->ffn_in
                                                : &l->act_scales[0].logits_in) = choose_scale(x, count);
    } else if (n->op == TV_OP_ROPE && cmdq_lower_producer(l, n->inputs[0]) == TV_WEIGHT_Q) {
        r->q = choose_scale(x, count);
    } else if (n->op == TV_OP_WEIGHTED_SUM) {
        r->attn_out = choose_scale(x, count);
    } else if (n->op == TV_OP_MUL) {
        r->ffn_hidden = choose_scale(x, count);
    }
}

tv_status cmdq_lower_calibrate(cmdq_lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    void *host;
    uint32_t n = options->sample_count;
    float *unused = malloc(l->model->dims.vocab * sizeof *unused);
    if (!unused)
        return tv_fail_memory(sink);
    tv_status status = tv_backend_host.create(
        l->graph, l->model, &(tv_backend_options){.context = n, .threads = options->threads}, sink, &host);
    if (status == TV_OK) {
        status = tv_backend_host.step(host, options->sample, n, 0, true, unused, sink);
        for (uint32_t i = 0; i < l->graph->node_count && status == TV_OK; i++)
            set_scale(l, host, &l->graph->nodes[i], n);
        tv_backend_host.destroy(host);
    }
    free(unused);
    return status;
}
