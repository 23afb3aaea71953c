/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the queue of a network with its weights, and describes where the machine has inputs and results. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/network_step.h"
#include "lower/cmdq/network.h"
#include "num/float.h"
#include "num/int.h"
#include "queue/builder.h"

#define QUEUE_FILE "network.json"
#define WEIGHTS_FILE "weights.bin"

enum { PATH_LENGTH = 4096 };

tv_status cmdq_net_save(const cmdq_network *net, const tv_network_options *options, tv_sv metadata,
                        const tv_diag_sink *sink)
{
    char path[PATH_LENGTH];
    tv_buf text = {0};
    snprintf(path, sizeof path, "%s/" WEIGHTS_FILE, options->emit);
    TV_TRY(
        tv_backend_save_space(net->l.machine, "dram", net->weights_begin, net->dram_end, path, options->outputs, sink));
    tv_buf_printf(&text, "{\"dram_init\": [{\"addr\": %" PRIu64 ", \"file\": \"" WEIGHTS_FILE "\"}], ",
                  net->weights_begin);
    tv_buf_append(&text, metadata.ptr + 1, metadata.len - 1); /* without its first bracket */
    snprintf(path, sizeof path, "%s/" QUEUE_FILE, options->emit);
    tv_status status = text.failed ? tv_fail_memory(sink) : TV_OK;
    if (status == TV_OK)
        status =
            tv_queue_save_with(net->program, (tv_sv){(const char *)text.data, text.len}, path, options->outputs, sink);
    tv_buf_fini(&text);
    return status;
}

/* ---- Rows of tables that inputs select ---- */

void cmdq_net_store_element(const cmdq_net_value *v, uint8_t *data, uint64_t at, double x)
{
    double q = x / (double)v->scale;
    if (v->qbits == 8)
        ((int8_t *)data)[at] = (int8_t)(isnan(q) ? 0 : tv_int_round_clamp(q, -128, 127));
    else if (v->qbits == 16)
        ((uint16_t *)(void *)data)[at] = tv_f16_from_f32((float)x);
    else
        ((float *)(void *)data)[at] = (float)x;
}

/* Writes a table as its rows are stored, and notes the step that selects them. */
static tv_status write_table(cmdq_network *net, const tv_graph_node *n)
{
    const tv_tensor *t = tv_graph_value_at(net->graph, n->inputs[0])->tensor;
    const cmdq_net_value *v = &net->values[n->output];
    const tv_graph_shape *s = cmdq_net_dims(net, n->inputs[1]);
    uint64_t rows = (uint64_t)t->dims[0], columns = tv_tensor_count(t) / rows, bytes = columns * v->qbits / 8,
             table = cmdq_net_allocate_dram(net, rows * bytes);
    tv_network_step step = {
        .kind = TV_STEP_SELECT, .rank = s->rank, .address = v->dram, .numbers = {table, bytes, rows}};
    memcpy(step.dims, s->dims, sizeof step.dims);
    if (!cmdq_net_port(net, n->inputs[1], &step.source) || !TV_VEC_PUSH(&net->steps, step))
        return tv_fail_memory(net->sink);
    uint8_t *row = calloc(bytes + 1, 1);
    tv_status status = row ? TV_OK : tv_fail_memory(net->sink);
    for (uint64_t r = 0; r < rows && status == TV_OK; r++) {
        for (uint64_t c = 0; c < columns; c++)
            cmdq_net_store_element(v, row, c, tv_tensor_real(t, r * columns + c));
        status = tv_machine_write(net->l.machine, "dram", table + r * bytes, row, bytes, net->sink);
    }
    free(row);
    return status;
}

tv_status cmdq_net_write_tables(cmdq_network *net)
{
    for (size_t i = 0; i < net->graph->nodes.count; i++)
        if (cmdq_net_is_host_gather(net, &net->graph->nodes.data[i]))
            TV_TRY(write_table(net, &net->graph->nodes.data[i]));
    return TV_OK;
}

unsigned cmdq_net_steps(const void *state, const tv_network_step **list)
{
    const cmdq_network *net = state;
    *list = net->steps.data;
    return (unsigned)net->steps.count;
}

tv_status cmdq_net_run_step(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink)
{
    TV_TRY(tv_network_step_check(step, sink));
    return strcmp(step->kind, TV_STEP_SELECT) == 0 ? tv_network_step_select(machine, step, sink)
                                                   : tv_network_step_fail(step, "is not one of cmdq", sink);
}

/* ---- Programs ---- */

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
    if (tv_graph_value_at(net->graph, value)->source == TV_VALUE_CONSTANT)
        return false;
    bool integers = !tv_is_real_element(tv_graph_value_at(net->graph, value)->element);
    *out = (tv_network_port){.space = "dram",
                             .address = storage->dram,
                             .type = integers               ? TV_S32
                                     : storage->qbits == 32 ? TV_F32
                                     : storage->qbits == 16 ? TV_F16
                                                            : TV_S8,
                             .scale = (double)storage->scale,
                             .term_count = s->rank};
    uint64_t stride = storage->qbits / 8;
    for (uint32_t i = 0; i < s->rank; i++) {
        uint32_t axis = cmdq_net_storage_axis(net, value, s->rank - 1 - i); /* the innermost first */
        uint64_t extent = tv_max_u64(1, (uint64_t)s->dims[axis]);
        out->terms[i] = (tv_network_term){axis, 1, extent, stride};
        stride *= extent;
    }
    return true;
}
