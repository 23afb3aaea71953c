/* SPDX-License-Identifier: Apache-2.0 */
/* Why a network's plan is as it is, in words: of each layer its tiles, its blocks of weights, where its values are and
 * how busy the engines are; of the whole plan what the others would have taken. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lower/cmdq/network.h"

struct cmdq_net_text {
    size_t length; /* of what the plan says; what follows is of the last run */
    char text[320];
};

tv_status cmdq_net_keep_texts(cmdq_network *net)
{
    net->texts = calloc(net->graph->nodes.count + 1, sizeof *net->texts);
    return net->texts ? TV_OK : tv_fail_memory(net->sink);
}

static void append(cmdq_net_text *t, const char *format, va_list args) TV_PRINTF(2, 0);

static void append(cmdq_net_text *t, const char *format, va_list args)
{
    size_t length = strlen(t->text);
    vsnprintf(t->text + length, sizeof t->text - length, format, args);
}

static void add_text(cmdq_net_text *t, const char *format, ...) TV_PRINTF(2, 3);

static void add_text(cmdq_net_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    append(t, format, args);
    va_end(args);
}

void cmdq_net_explain(cmdq_network *net, const char *format, ...)
{
    va_list args;
    if (!net->texts)
        return;
    cmdq_net_text *t = &net->texts[net->node];
    if (t->text[0])
        add_text(t, "; ");
    va_start(args, format);
    append(t, format, args);
    va_end(args);
    t->length = strlen(t->text);
}

void cmdq_net_explain_with(cmdq_network *net, uint32_t node)
{
    char name[TV_VALUE_NAME_MAX];
    tv_graph_value_name(net->graph, tv_graph_node_at(net->graph, node)->output, name);
    cmdq_net_explain(net, "tile by tile with %s", name);
}

void cmdq_net_explain_values(cmdq_network *net, const tv_graph_node *n)
{
    if (!net->texts)
        return;
    const cmdq_net_value *in = cmdq_net_storage(net, n->inputs[0]), *out = cmdq_net_storage(net, n->output);
    bool same = !in->segment_count == !out->segment_count;
    if (same)
        cmdq_net_explain(net, "input and output in %s", in->segment_count ? "SPM" : "DRAM");
    else
        cmdq_net_explain(net, "input in %s, output in %s", in->segment_count ? "SPM" : "DRAM",
                         out->segment_count ? "SPM" : "DRAM");
}

void cmdq_net_explain_search(cmdq_network *net, size_t plans, uint64_t best, uint64_t worst)
{
    if (!net->texts)
        return;
    cmdq_net_text *t = &net->texts[0];
    if (t->text[0])
        add_text(t, "; ");
    add_text(t, "of %zu plans for the network this one takes the fewest cycles, %" PRIu64 ", others up to %" PRIu64,
             plans, best, worst);
    t->length = strlen(t->text);
}

void cmdq_net_explain_run(cmdq_network *net, uint32_t node)
{
    static const char *const names[CMDQ_NET_ENGINES] = {"TE", "VE", "DMA"};
    if (!net->texts)
        return;
    cmdq_net_text *t = &net->texts[node];
    t->text[t->length] = 0;
    bool any = t->length > 0;
    for (unsigned e = 0; e < CMDQ_NET_ENGINES; e++) {
        if (!net->busy[node][e])
            continue;
        add_text(t, "%s%s %" PRIu64, any ? e == 0 || t->text[t->length] == 0 ? "; busy: " : ", " : "busy: ", names[e],
                 net->busy[node][e] / net->engines[e]);
        any = true;
    }
    net->layers[node].plan = t->text[0] ? t->text : NULL;
}
