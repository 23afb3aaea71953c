/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the constants of a network to OpenNPU's data memory, and what each operator needs. */
#include <stdlib.h>

#include "lower/opennpu/network_state.h"

/* A constant as words of its type. */
static tv_status upload_value(const opennpu_network *net, uint32_t value)
{
    uint64_t count = tv_graph_elements(net->graph, value);
    float *values;
    if (opennpu_net_is_real(net, value)) {
        TV_TRY(opennpu_net_read_constant(net, value, &values));
        tv_status status = opennpu_net_write_words(net, opennpu_net_at(net, value), values, count);
        free(values);
        return status;
    }
    const tv_tensor *t = tv_graph_value_at(net->graph, value)->tensor;
    uint8_t *bytes = calloc(count + 1, 4);
    if (!bytes)
        return tv_fail_memory(net->sink);
    for (uint64_t i = 0; i < count && t && t->data; i++)
        tv_store_le(bytes + 4 * i, (uint64_t)tv_tensor_integer(t, i), 4);
    tv_status status = opennpu_net_write_bytes(net, opennpu_net_at(net, value), bytes, count * 4);
    free(bytes);
    return status;
}

static tv_status upload_tables(const opennpu_network *net)
{
    uint8_t one_hot[2 * 64] = {0};
    float lanes[2 * 64];
    uint32_t k = net->m.k;
    one_hot[k - 1] = 1;
    for (uint32_t i = 0; i < 2 * k; i++)
        lanes[i] = i < k ? 1 : 0;
    TV_TRY(opennpu_net_write_bytes(net, net->one_hot, one_hot, 2 * k));
    return opennpu_net_write_words(net, net->m.lane_mask, lanes, 2 * k);
}

tv_status opennpu_net_upload(opennpu_network *net, const tv_llm_progress *progress)
{
    size_t count = net->graph->nodes.count;
    if (net->m.timing)
        return TV_OK;
    TV_TRY(upload_tables(net));
    for (uint32_t v = 0; v < net->graph->values.count; v++)
        if (opennpu_net_is_constant(net, v) && net->values[v].used && net->values[v].storage == v)
            TV_TRY(upload_value(net, v));
    for (uint32_t i = 0; i < count; i++) {
        const opennpu_net_operator *o = &opennpu_net_operators[opennpu_net_node_at(net, i)->op];
        tv_progress_report(progress, "uploading weights", i, count);
        if (!net->nodes[i].problem && o->upload)
            TV_TRY(o->upload(net, i));
    }
    return TV_OK;
}
