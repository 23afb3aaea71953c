/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of a network in OpenNPU's data memory. */
#include <float.h>
#include <stdlib.h>

#include "lower/opennpu/network_state.h"

uint64_t opennpu_net_reserve(opennpu_network *net, uint64_t bytes)
{
    uint64_t at = net->m.end;
    if (bytes > net->m.limit) /* the sum cannot wrap: it ends with the first part that does not fit */
        bytes = net->m.limit;
    if (net->m.end <= net->m.limit)
        net->m.end +=
            tv_ceil_div(bytes + opennpu_lower_vector_bytes(&net->m), OPENNPU_NET_ALIGNMENT) * OPENNPU_NET_ALIGNMENT;
    return at;
}

/* The machine has no infinities: the largest numbers take their place. */
uint32_t opennpu_net_word_of(double x)
{
    double finite = x > (double)FLT_MAX ? (double)FLT_MAX : x < -(double)FLT_MAX ? -(double)FLT_MAX : x;
    return tv_f32_bits((float)finite);
}

tv_status opennpu_net_write_bytes(const opennpu_network *net, uint64_t at, const void *data, size_t bytes)
{
    return tv_machine_write(net->m.machine, "mem", at, data, bytes, net->sink);
}

tv_status opennpu_net_write_words(const opennpu_network *net, uint64_t at, const float *x, size_t count)
{
    uint8_t *bytes = malloc(count * 4 + 1);
    if (!bytes)
        return tv_fail_memory(net->sink);
    for (size_t i = 0; i < count; i++)
        tv_store_le(bytes + 4 * i, opennpu_net_word_of(x[i]), 4);
    tv_status status = opennpu_net_write_bytes(net, at, bytes, count * 4);
    free(bytes);
    return status;
}

tv_status opennpu_net_read_constant(const opennpu_network *net, uint32_t value, float **out)
{
    const tv_graph_value *v = tv_graph_value_at(net->graph, value);
    const tv_matrix *m = &v->matrix;
    uint64_t count = tv_graph_elements(net->graph, value);
    float *values = calloc(count + 1, sizeof *values);
    if (!values)
        return tv_fail_memory(net->sink);
    for (uint64_t i = 0; i < count && v->tensor && v->tensor->data; i++)
        values[i] = (float)tv_tensor_real(v->tensor, i);
    for (uint64_t r = 0; r < (uint64_t)m->rows * m->count && !v->tensor; r++)
        if (tv_matrix_row_f32(m, r, values + r * m->columns) != TV_OK) {
            free(values);
            return tv_matrix_fail(m, net->sink);
        }
    *out = values;
    return TV_OK;
}

void opennpu_net_interleave(const opennpu_network *net, const int8_t *steps, size_t count, uint8_t *out)
{
    uint32_t k = net->m.k;
    for (size_t i = 0, planes; i < count; i += planes, out += planes * k) {
        planes = count - i >= 4 ? 4 : count - i >= 2 ? 2 : 1;
        for (uint32_t lane = 0; lane < k; lane++)
            for (size_t p = 0; p < planes; p++)
                out[lane * planes + p] = (uint8_t)steps[(i + p) * k + lane];
    }
}
