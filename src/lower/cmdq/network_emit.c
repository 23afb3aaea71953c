/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the queue of a network with its weights, and describes where the machine has inputs and results. */
#include <stdio.h>

#include "lower/cmdq/network.h"
#include "queue/builder.h"

#define QUEUE_FILE "network.json"
#define WEIGHTS_FILE "weights.bin"

enum { PATH_LENGTH = 4096 };

tv_status cmdq_net_save(const cmdq_network *net, const tv_network_options *options, tv_sv metadata,
                        const tv_diag_sink *sink)
{
    static const char init[] = "{\"dram_init\": [{\"addr\": 0, \"file\": \"" WEIGHTS_FILE "\"}], ";
    char path[PATH_LENGTH];
    tv_buf text = {0};
    snprintf(path, sizeof path, "%s/" WEIGHTS_FILE, options->emit);
    TV_TRY(tv_backend_save_space(net->l.machine, "dram", net->dram_end, path, options->outputs, sink));
    tv_buf_str(&text, init);
    tv_buf_append(&text, metadata.ptr + 1, metadata.len - 1); /* without its first bracket */
    snprintf(path, sizeof path, "%s/" QUEUE_FILE, options->emit);
    tv_status status = text.failed ? tv_fail_memory(sink) : TV_OK;
    if (status == TV_OK)
        status =
            tv_queue_save_with(net->program, (tv_sv){(const char *)text.data, text.len}, path, options->outputs, sink);
    tv_buf_fini(&text);
    return status;
}

unsigned cmdq_net_programs(const void *state, const tv_network_program **list)
{
    cmdq_network *net = (cmdq_network *)(uintptr_t)state;
    net->written = (tv_network_program){QUEUE_FILE, 0, (uint32_t)net->layer_count};
    *list = &net->written;
    return 1;
}

bool cmdq_net_port(const void *state, uint32_t value, tv_network_port *out)
{
    const cmdq_network *net = state;
    const cmdq_net_value *v = &net->values[value], *storage = &net->values[v->storage];
    const tv_graph_shape *s = cmdq_net_dims(net, value);
    static const uint32_t images[] = {1, 3, 2, 0}; /* axes of channels-last storage, the innermost first */
    if (tv_graph_value_at(net->graph, value)->source == TV_VALUE_CONSTANT)
        return false;
    *out = (tv_network_port){.space = "dram",
                             .address = storage->dram,
                             .type = storage->qbits == 32   ? TV_F32
                                     : storage->qbits == 16 ? TV_F16
                                                            : TV_S8,
                             .scale = (double)storage->scale,
                             .term_count = s->rank};
    uint64_t stride = storage->qbits / 8;
    for (uint32_t i = 0; i < s->rank; i++) {
        uint32_t axis = v->channels_last ? images[i] : s->rank - 1 - i;
        uint64_t extent = tv_max_u64(1, (uint64_t)s->dims[axis]);
        out->terms[i] = (tv_network_term){axis, 1, extent, stride};
        stride *= extent;
    }
    return true;
}
