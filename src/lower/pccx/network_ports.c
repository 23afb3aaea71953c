/* SPDX-License-Identifier: Apache-2.0 */
/* Networks that are written: their programs in order, and where host memory has inputs and outputs. */
#include "lower/pccx/network_state.h"

tv_status pccx_net_list_program(pccx_network *w, const tv_diag_sink *sink)
{
    pccx_net_file file = {.layer = (uint32_t)w->layer_count};
    pccx_lower_program_name(&w->l, file.name);
    return TV_VEC_PUSH(&w->files, file) && TV_VEC_PUSH(&w->written, (tv_network_program){0}) ? TV_OK
                                                                                             : tv_fail_memory(sink);
}

/* The stores of an output of the last layer have no layer. */
unsigned pccx_net_programs(const void *state, const tv_network_program **list)
{
    const pccx_network *w = state;
    for (size_t i = 0; i < w->files.count; i++)
        w->written.data[i] = (tv_network_program){w->files.data[i].name, w->files.data[i].layer,
                                                  w->files.data[i].layer < w->layer_count};
    *list = w->written.data;
    return (unsigned)w->written.count;
}

bool pccx_net_port(const void *state, uint32_t value, tv_network_port *out)
{
    const pccx_network *w = state;
    const pccx_net_value *v = pccx_net_value_at(w, value);
    const tv_graph_shape *s = &tv_graph_value_at(w->graph, value)->shape;
    if (pccx_net_is_constant(w, value) || !v->home)
        return false;
    *out = (tv_network_port){.space = "host",
                             .address = v->home,
                             .type = v->on_machine ? TV_BF16 : TV_S32,
                             .scale = 1 / (double)pccx_net_factor(v),
                             .term_count = s->rank};
    uint32_t columns = !v->on_machine ? UINT32_MAX : v->spatial ? 1 : s->rank - 1;
    uint64_t stride = v->on_machine ? (uint64_t)v->words * PCCX_LOWER_WORD_BYTES : sizeof(int32_t);
    for (uint32_t axis = s->rank; axis-- > 0;) {
        uint64_t extent = tv_max_u64(1, (uint64_t)s->dims[axis]);
        out->terms[axis] = (tv_network_term){axis, 1, extent, axis == columns ? 2 : stride};
        stride *= axis == columns ? 1 : extent;
    }
    return true;
}
