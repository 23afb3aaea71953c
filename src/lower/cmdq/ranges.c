/* SPDX-License-Identifier: Apache-2.0 */
/* What integers are worth, of activations and of the cache. Queues hold scales as numbers, so they must be known before
 * the first token: the host runs a sample, and what it finds is widened, since a sample is not all there is. What is
 * larger later is cut off. */
#include <math.h>
#include <stdlib.h>

#include "lower/cmdq/lower.h"
#include "num/int.h"

static float scale_of(const float *x, uint64_t n)
{
    static const float MARGIN = 1.25f;
    float most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    float scale = most * MARGIN / (float)TV_INT_MAX(8);
    return isnormal(scale) ? scale : 1; /* what is 0, nearly so, or past all numbers has no range */
}

/* The range of a node's output of `rows` tokens; of an APPEND those of its inputs. */
static void learn_node(lowering *l, void *host, const tv_graph_node *n, uint32_t rows)
{
    cmdq_ranges *r = &l->ranges[n->layer];
    uint32_t of = n->op == TV_OP_APPEND ? n->inputs[0] : n->output;
    uint64_t count = (uint64_t)rows * l->graph->values[of].columns;
    const float *x = tv_backend_host.value(host, of);
    if (n->op == TV_OP_APPEND) {
        r->k = scale_of(x, count);
        r->v = scale_of(tv_backend_host.value(host, n->inputs[1]), count);
    } else if (l->activation_bits != 8) {
        return;
    } else if (n->op == TV_OP_RMSNORM) {
        *(n->weight == TV_WEIGHT_NORM_ATTENTION ? &r->attention
          : n->weight == TV_WEIGHT_NORM_FFN     ? &r->ffn
                                                : &l->ranges[0].final) = scale_of(x, count);
    } else if (n->op == TV_OP_ROPE && made_by(l, n->inputs[0]) == TV_WEIGHT_Q) {
        r->q = scale_of(x, count);
    } else if (n->op == TV_OP_WEIGHTED_SUM) {
        r->mixed = scale_of(x, count);
    } else if (n->op == TV_OP_MUL) {
        r->hidden = scale_of(x, count);
    }
}

tv_status cmdq_learn_ranges(lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
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
            learn_node(l, host, &l->graph->nodes[i], n);
        tv_backend_host.destroy(host);
    }
    free(unused);
    return status;
}
