/* SPDX-License-Identifier: Apache-2.0 */
/* Prints graphs. */
#include <inttypes.h>

#include "graph/graph.h"

static void print_value(const tv_graph *g, uint32_t value, tv_buf *out)
{
    char name[TV_VALUE_NAME_MAX];
    tv_graph_value_name(g, value, name);
    tv_buf_printf(out, "%s%s", tv_graph_value_at(g, value)->source == TV_VALUE_COMPUTED ? "%" : "", name);
}

static void print_shape(const tv_graph_shape *s, tv_buf *out)
{
    tv_buf_str(out, "[");
    for (uint32_t i = 0; i < s->rank; i++) {
        tv_buf_str(out, i ? " x " : "");
        if (s->dims[i] == TV_DIM_TOKENS)
            tv_buf_str(out, "tokens");
        else if (s->dims[i] == TV_DIM_BATCH)
            tv_buf_str(out, "batch");
        else
            tv_buf_printf(out, "%" PRId64, s->dims[i]);
    }
    tv_buf_str(out, "]");
}

/* The attributes that are not at their usual value. */
static void print_attrs(const tv_graph_attrs *a, tv_buf *out)
{
    if (a->activation)
        tv_buf_printf(out, ", activation=%s", tv_activation_names[a->activation]);
    if (a->groups > 1)
        tv_buf_printf(out, ", groups=%" PRIu32, a->groups);
    if (a->subtract_mean)
        tv_buf_str(out, ", subtract_mean");
    if (a->epsilon != 0)
        tv_buf_printf(out, ", epsilon=%g", (double)a->epsilon);
    if (a->heads)
        tv_buf_printf(out, ", heads=%" PRIu32, a->heads);
    if (a->rotary_dim)
        tv_buf_printf(out, ", rotary_dim=%" PRIu32 ", theta=%g%s", a->rotary_dim, (double)a->theta,
                      a->interleaved ? ", interleaved" : "");
    if (a->frequency_scale != 0 && a->frequency_scale != 1)
        tv_buf_printf(out, ", frequency_scale=%g", (double)a->frequency_scale);
    if (a->scale != 0)
        tv_buf_printf(out, ", scale=%g, cache=%" PRIu32, (double)a->scale, a->cache);
    if (a->soft_cap != 0)
        tv_buf_printf(out, ", soft_cap=%g", (double)a->soft_cap);
    if (a->window)
        tv_buf_printf(out, ", window=%" PRIu32, a->window);
    if (a->end)
        tv_buf_printf(out, ", start=%" PRIu32 ", end=%" PRIu32, a->start, a->end);
    if (a->experts_used)
        tv_buf_printf(out, ", experts_used=%" PRIu32 "%s", a->experts_used, a->normalize ? ", normalize" : "");
    if (a->approximate)
        tv_buf_str(out, ", approximate=tanh");
}

void tv_graph_print(const tv_graph *graph, tv_buf *out)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const tv_graph_node *n = &graph->nodes.data[i];
        print_value(graph, n->output, out);
        tv_buf_printf(out, " = %s(", tv_graph_op_infos[n->op].name);
        for (uint32_t k = 0; k < tv_graph_input_count(n); k++) {
            tv_buf_str(out, k ? ", " : "");
            if (n->inputs[k] == TV_NO_VALUE)
                tv_buf_str(out, "-");
            else
                print_value(graph, n->inputs[k], out);
        }
        print_attrs(&n->attrs, out);
        tv_buf_str(out, ")  ");
        print_shape(&tv_graph_value_at(graph, n->output)->shape, out);
        tv_buf_str(out, "\n");
    }
}
