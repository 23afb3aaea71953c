/* SPDX-License-Identifier: Apache-2.0 */
/* Values of networks: rows in L2 and in host memory, and the tensors of the host. */
#include <stdlib.h>

#include "lower/pccx/network_state.h"
#include "num/float.h"

enum { COPY_MAX = 65535, BUFFERS = 2 };

/* ---- Operands ---- */

pccx_net_operand_kind pccx_net_operand_of(const pccx_network *w, const tv_graph_node *n, unsigned k)
{
    const tv_graph_shape *in = &tv_graph_value_at(w->graph, n->inputs[k])->shape,
                         *out = &tv_graph_value_at(w->graph, n->output)->shape;
    const pccx_net_value *v = &w->values[n->inputs[k]], *to = &w->values[n->output];
    bool constant = pccx_net_is_constant(w, n->inputs[k]), row = true, per_row = true, full = true;
    uint32_t channels = to->spatial ? 1 : out->rank - 1;
    if (!constant && !v->on_machine)
        return PCCX_NET_OTHER;
    for (uint32_t i = 0; i < out->rank; i++) {
        int64_t own = i + in->rank >= out->rank ? in->dims[i + in->rank - out->rank] : 1, all = out->dims[i];
        full = full && own == all;
        row = row && own == (i == channels ? all : 1);
        per_row = per_row && own == (i == channels ? 1 : all);
    }
    if (constant && tv_graph_elements(w->graph, n->inputs[k]) == 1)
        return PCCX_NET_SCALAR;
    if (full && (constant || v->spatial == to->spatial))
        return PCCX_NET_FULL;
    if (row && (constant || v->columns == to->columns))
        return PCCX_NET_ROW;
    if (constant)
        return PCCX_NET_FULL; /* repeated when it is written */
    return per_row && v->columns == 1 && v->rows == to->rows ? PCCX_NET_PER_ROW : PCCX_NET_OTHER;
}

/* ---- Scratch space ---- */

uint32_t pccx_net_scratch_size(const pccx_network *w, uint32_t node, bool tiles)
{
    uint32_t words = w->l2_words - w->resident_ends[node];
    return tiles ? words / BUFFERS : words;
}

void pccx_net_begin_tile(pccx_network *w, uint32_t node, uint32_t tile, uint32_t tiles)
{
    uint32_t size = pccx_net_scratch_size(w, node, tiles > 1);
    w->scratch_first = w->resident_ends[node] + tile % BUFFERS * (tiles > 1 ? size : 0);
    w->scratch_next = w->scratch_first;
    w->scratch_end = w->scratch_first + size;
    w->tiles++;
}

uint32_t pccx_net_scratch(pccx_network *w, uint64_t words)
{
    uint32_t addr = w->scratch_next;
    w->scratch_next += (uint32_t)words;
    return addr;
}

uint32_t pccx_net_temporary(pccx_network *w)
{
    w->temporary_next = (w->temporary_next + 1) % PCCX_NET_TEMPORARIES;
    return w->temporary + w->temporary_next * (PCCX_NET_PIECE / PCCX_LOWER_LANES);
}

/* ---- Copies ---- */

void pccx_net_load(pccx_network *w, uint32_t to, uint64_t from, uint64_t words)
{
    for (uint64_t i = 0; i < words; i += COPY_MAX)
        pccx_lower_load(&w->l, to + (uint32_t)i, from + i * PCCX_LOWER_WORD_BYTES,
                        (uint32_t)(words - i < COPY_MAX ? words - i : COPY_MAX) * PCCX_LOWER_LANES);
}

void pccx_net_move(pccx_network *w, uint32_t to, uint32_t from, uint64_t words)
{
    for (uint64_t i = 0; i < words; i += COPY_MAX)
        pccx_lower_move(&w->l, to + (uint32_t)i, from + (uint32_t)i,
                        (uint32_t)(words - i < COPY_MAX ? words - i : COPY_MAX) * PCCX_LOWER_LANES);
}

static void store_words(pccx_network *w, uint64_t to, uint32_t from, uint64_t words)
{
    for (uint64_t i = 0; i < words; i += COPY_MAX)
        pccx_lower_store(&w->l, to + i * PCCX_LOWER_WORD_BYTES, from + (uint32_t)i,
                         (uint32_t)(words - i < COPY_MAX ? words - i : COPY_MAX) * PCCX_LOWER_LANES);
}

void pccx_net_read_words(pccx_network *w, uint32_t to, uint32_t value, uint64_t word, uint64_t words)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    if (v->l2 != PCCX_LOWER_NO_BUFFER)
        pccx_net_move(w, to, v->l2 + (uint32_t)word, words);
    else
        pccx_net_load(w, to, v->home + word * PCCX_LOWER_WORD_BYTES, words);
}

void pccx_net_write_words(pccx_network *w, uint32_t value, uint64_t word, uint32_t from, uint64_t words)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    w->outgoing = true;
    if (v->l2 != PCCX_LOWER_NO_BUFFER)
        pccx_net_move(w, v->l2 + (uint32_t)word, from, words);
    else
        store_words(w, v->home + word * PCCX_LOWER_WORD_BYTES, from, words);
    w->outgoing = false;
}

uint32_t pccx_net_fetch(pccx_network *w, uint32_t value, uint32_t row, uint32_t rows)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    if (v->l2 != PCCX_LOWER_NO_BUFFER)
        return v->l2 + row * v->words;
    uint32_t addr = pccx_net_scratch(w, (uint64_t)rows * v->words);
    pccx_net_read_words(w, addr, value, (uint64_t)row * v->words, (uint64_t)rows * v->words);
    return addr;
}

uint32_t pccx_net_locate(pccx_network *w, uint32_t value, uint32_t row, uint32_t rows)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    return v->l2 != PCCX_LOWER_NO_BUFFER ? v->l2 + row * v->words : pccx_net_scratch(w, (uint64_t)rows * v->words);
}

void pccx_net_put(pccx_network *w, uint32_t value, uint32_t row, uint32_t rows, uint32_t addr)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    if (v->l2 == PCCX_LOWER_NO_BUFFER)
        pccx_net_write_words(w, value, (uint64_t)row * v->words, addr, (uint64_t)rows * v->words);
}

/* ---- Constant words ---- */

/* A new one is loaded at once, and stays. When there is no more room the first ones are replaced, which the scheduler
 * of the machine orders after their readers. */
uint32_t pccx_net_scalar(pccx_network *w, float value)
{
    uint32_t count = w->scalar_count < PCCX_NET_SCALARS_MAX ? w->scalar_count : PCCX_NET_SCALARS_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(&w->scalars[i], &value, sizeof value) == 0)
            return w->scalars_at + i;
    uint32_t i = w->scalar_count++ % PCCX_NET_SCALARS_MAX;
    uint8_t bytes[PCCX_LOWER_WORD_BYTES] = {0};
    uint64_t home = w->scalars_home + (uint64_t)i * PCCX_LOWER_WORD_BYTES;
    w->scalars[i] = value;
    tv_store_le(bytes, tv_bf16_flushed_from_f32(value), 2);
    pccx_lower_add_data(&w->l, home, bytes, sizeof bytes);
    pccx_net_load(w, w->scalars_at + i, home, 1);
    return w->scalars_at + i;
}

/* ---- Tensors of the host ---- */

uint64_t pccx_net_index(const pccx_network *w, uint32_t value, uint32_t row, uint32_t column)
{
    const pccx_net_value *v = pccx_net_value_at(w, value);
    const tv_graph_shape *s = &tv_graph_value_at(w->graph, value)->shape;
    if (!v->spatial)
        return (uint64_t)row * v->columns + column;
    uint64_t pixels = v->rows / (uint64_t)(s->dims[0] ? s->dims[0] : 1);
    return (row / pixels * v->columns + column) * pixels + row % pixels;
}

const tv_tensor *pccx_net_tensor(const pccx_network *w, uint32_t value)
{
    const tv_graph_value *v = tv_graph_value_at(w->graph, value);
    return v->source == TV_VALUE_CONSTANT ? v->tensor : &w->values[value].tensor;
}

static tv_status need_tensor(const pccx_network *w, uint32_t value, const tv_diag_sink *sink)
{
    pccx_net_value *v = pccx_net_value_at(w, value);
    tv_tensor type = tv_graph_tensor_of(w->graph, value);
    if (v->tensor.data || v->owned)
        return TV_OK;
    TV_TRY(tv_tensor_init(&v->tensor, type.element, type.rank, type.dims, sink));
    v->owned = true;
    return TV_OK;
}

static tv_status unpack(pccx_network *w, uint32_t value, const tv_diag_sink *sink)
{
    pccx_net_value *v = pccx_net_value_at(w, value);
    uint64_t elements = (uint64_t)v->rows * v->words * PCCX_LOWER_LANES;
    TV_TRY(need_tensor(w, value, sink));
    float *row = malloc((elements + 1) * sizeof *row);
    if (!row)
        return tv_fail_memory(sink);
    tv_status status = pccx_lower_read_bf16(&w->l, v->home, elements, row, sink);
    for (uint32_t r = 0; r < v->rows && status == TV_OK; r++)
        for (uint32_t c = 0; c < v->columns; c++)
            tv_tensor_set_real(&v->tensor, pccx_net_index(w, value, r, c),
                               (double)(row[(uint64_t)r * v->words * PCCX_LOWER_LANES + c] / pccx_net_factor(v)));
    free(row);
    return status;
}

tv_status pccx_net_hand_over(pccx_network *w, uint32_t value, const tv_diag_sink *sink)
{
    pccx_net_value *v = pccx_net_value_at(w, value);
    if (v->l2 != PCCX_LOWER_NO_BUFFER && !v->stored)
        store_words(w, v->home, v->l2, pccx_net_words(v));
    v->stored = true;
    return pccx_net_run(w, sink);
}

tv_status pccx_net_to_host(pccx_network *w, uint32_t value, const tv_diag_sink *sink)
{
    pccx_net_value *v = pccx_net_value_at(w, value);
    if (!v->on_machine || v->read)
        return TV_OK;
    TV_TRY(pccx_net_hand_over(w, value, sink));
    v->read = true;
    return w->l.timing ? TV_OK : unpack(w, value, sink);
}

tv_status pccx_net_from_host(pccx_network *w, uint32_t value, const tv_diag_sink *sink)
{
    pccx_net_value *v = pccx_net_value_at(w, value);
    uint64_t bytes = pccx_net_words(v) * PCCX_LOWER_WORD_BYTES;
    v->stored = true;
    if (!w->l.timing) {
        uint8_t *packed = calloc(1, bytes + 1);
        if (!packed)
            return tv_fail_memory(sink);
        for (uint32_t r = 0; r < v->rows; r++)
            for (uint32_t c = 0; c < v->columns; c++)
                tv_store_le(packed + ((uint64_t)r * v->words * PCCX_LOWER_LANES + c) * 2,
                            tv_bf16_flushed_from_f32((float)tv_tensor_real(&v->tensor, pccx_net_index(w, value, r, c))),
                            2);
        pccx_lower_add_data(&w->l, v->home, packed, bytes);
        free(packed);
        v->read = true;
    }
    if (v->l2 != PCCX_LOWER_NO_BUFFER)
        pccx_net_load(w, v->l2, v->home, pccx_net_words(v));
    return TV_OK;
}

/* ---- Work of the host ---- */

unsigned pccx_net_host_op(pccx_network *w, const char *name)
{
    pccx_lowering *l = &w->l;
    for (unsigned i = 0; i < l->host_op_count; i++)
        if (strcmp(l->host_ops[i].name, name) == 0)
            return i;
    l->host_ops[l->host_op_count].name = name;
    return l->host_op_count++;
}

void pccx_net_count_host(pccx_network *w, const char *name, uint64_t elements)
{
    tv_host_op *op = &w->l.host_ops[pccx_net_host_op(w, name)];
    op->count++;
    op->elements += elements;
}
