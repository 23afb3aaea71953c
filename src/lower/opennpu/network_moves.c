/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only move elements: Transpose, Slice, Concat and others. The host applies the operator to the numbers
 * of the elements, which gives the source of each word of the output; sources that follow each other are copied in
 * vectors, a repeated one fills vectors, and others are copied word by word. The order is that of the output, because
 * vectors exceed what they copy. */
#include <stdlib.h>

#include "graph/resize.h"
#include "lower/opennpu/network_state.h"

/* ---- Copies ---- */

enum { QUEUE = 4 };

/* Loads are emitted at once, stores when there are QUEUE of them: a load takes four ticks. */
typedef struct copier {
    opennpu_network *net;
    unsigned count;
    uint64_t to[QUEUE];
    bool vector[QUEUE];
} copier;

static void flush(copier *c)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->vector[i])
            opennpu_lower_store(&c->net->m.e, OPENNPU_VR, i, OPENNPU_LOWER_VR_X, c->to[i]);
        else
            opennpu_lower_access_lane0(&c->net->m.e, OPENNPU_ST_W, i, OPENNPU_LOWER_VR_X, c->to[i]);
    c->count = 0;
    opennpu_lower_run_full_segment(&c->net->m.e);
}

static void copy(copier *c, uint64_t from, uint64_t to, bool vector)
{
    if (c->count == QUEUE)
        flush(c);
    if (vector)
        opennpu_lower_load(&c->net->m.e, OPENNPU_VR, c->count, OPENNPU_LOWER_VR_W, from);
    else
        opennpu_lower_access_lane0(&c->net->m.e, OPENNPU_LD_W, c->count, OPENNPU_LOWER_VR_W, from);
    c->to[c->count] = to;
    c->vector[c->count++] = vector;
}

static void copy_run(copier *c, uint64_t from, uint64_t to, uint64_t count)
{
    uint32_t k = c->net->m.k;
    for (uint64_t i = 0; i < count; i += count < 3 ? 1 : k)
        copy(c, from + i * 4, to + i * 4, count >= 3);
}

/* `count` times the word at `from`; 0: zeros. */
static void fill_run(copier *c, uint64_t from, uint64_t to, uint64_t count)
{
    opennpu_lower_emitter *e = &c->net->m.e;
    flush(c);
    if (from) {
        opennpu_lower_access_lane0(e, OPENNPU_LD_W, 6, OPENNPU_LOWER_VR_W, from);
        opennpu_lower_emit_sized(e, OPENNPU_BCAST_REG, OPENNPU_VR, 6, 6, 0);
    } else {
        opennpu_lower_set(e, 6, 0);
    }
    for (uint64_t i = 0; i < count; i += c->net->m.k)
        opennpu_lower_store(e, OPENNPU_VR, 6, OPENNPU_LOWER_VR_X, to + i * 4);
}

/* ---- Numbers ---- */

/* True for an input that selects elements instead of being moved. */
static bool selects(const tv_graph_node *n, unsigned input)
{
    switch (n->op) {
    case TV_OP_WHERE:
        return input == 0;
    case TV_OP_GATHER:
    case TV_OP_SCATTER_ND:
    case TV_OP_SCATTER_ELEMENTS:
    case TV_OP_REVERSE_SEQUENCE:
        return input == 1;
    default:
        return false;
    }
}

/* Numbers that an element type has without gaps. */
static uint64_t exact_numbers(tv_element element)
{
    unsigned bytes = tv_element_infos[element].bytes;
    if (tv_is_real_element(element))
        return element == TV_ELEMENT_F64 ? UINT32_MAX : element == TV_ELEMENT_F32 ? 1U << 24 : 256;
    if (!tv_is_integer_element(element))
        return 1;
    return bytes >= 4 ? INT32_MAX : (UINT64_C(1) << (8 * bytes - 1)) - 1;
}

static bool has_data(const opennpu_network *net, uint32_t value)
{
    const tv_tensor *t = tv_graph_value_at(net->graph, value)->tensor;
    return opennpu_net_is_constant(net, value) && t && t->data;
}

const char *opennpu_net_check_move(const opennpu_network *net, const tv_graph_node *n)
{
    uint64_t numbers = 0;
    tv_element element = tv_graph_value_at(net->graph, n->output)->element;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++) {
        if (n->inputs[k] == TV_NO_VALUE)
            continue;
        if (selects(n, k) && !has_data(net, n->inputs[k]))
            return "selections by values that are computed";
        numbers += selects(n, k) ? 0 : tv_graph_elements(net->graph, n->inputs[k]);
    }
    tv_resize resize = tv_resize_unpack(n->attrs.mode);
    if (n->op == TV_OP_RESIZE && (resize.method != TV_RESIZE_NEAREST || resize.coordinates == TV_RESIZE_CROP))
        return "interpolations";
    if ((n->op == TV_OP_SCATTER_ND || n->op == TV_OP_SCATTER_ELEMENTS) && n->attrs.mode != TV_SCATTER_REPLACE)
        return "arithmetic of scattered elements";
    return numbers > exact_numbers(element) ? "moves of so many elements" : NULL;
}

/* The operands of a move: numbers from 1 on. */
typedef struct numbers {
    tv_tensor in[TV_GRAPH_INPUTS_MAX], out;
    uint64_t first[TV_GRAPH_INPUTS_MAX]; /* number before the first one of each input */
} numbers;

static tv_status number_elements(const opennpu_network *net, const tv_graph_node *n, numbers *m)
{
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX] = {NULL};
    uint64_t number = 0;
    for (unsigned k = 0; k < tv_graph_input_count(n); k++) {
        m->first[k] = number;
        if (n->inputs[k] == TV_NO_VALUE)
            continue;
        if (selects(n, k)) {
            inputs[k] = tv_graph_value_at(net->graph, n->inputs[k])->tensor;
            continue;
        }
        tv_tensor type = tv_graph_tensor_of(net->graph, n->inputs[k]);
        TV_TRY(tv_tensor_init(&m->in[k], type.element, type.rank, type.dims, net->sink));
        for (uint64_t i = 0; i < tv_tensor_count(&m->in[k]); i++)
            tv_tensor_set_real(&m->in[k], i, (double)(++number));
        inputs[k] = &m->in[k];
    }
    tv_tensor type = tv_graph_tensor_of(net->graph, n->output);
    TV_TRY(tv_tensor_init(&m->out, type.element, type.rank, type.dims, net->sink));
    return tv_node_compute(net->graph, n, inputs, &m->out, net->sink);
}

/* Address of the element with a number; 0: a zero. `left` receives how many follow it in the same input. */
static uint64_t address_of(const opennpu_network *net, const tv_graph_node *n, const numbers *m, uint64_t number,
                           uint64_t *left)
{
    unsigned k = tv_graph_input_count(n);
    *left = 0;
    if (number == 0)
        return 0;
    while (n->inputs[--k] == TV_NO_VALUE || !m->in[k].data || number <= m->first[k])
        continue;
    *left = m->first[k] + tv_tensor_count(&m->in[k]) - number;
    return opennpu_net_at(net, n->inputs[k]) + (number - m->first[k] - 1) * 4;
}

static void emit_numbers(opennpu_network *net, const tv_graph_node *n, const numbers *m)
{
    copier c = {.net = net};
    uint64_t count = tv_tensor_count(&m->out), to = opennpu_net_at(net, n->output);
    for (uint64_t i = 0, run; i < count; i += run, to += run * 4) {
        uint64_t number = (uint64_t)tv_tensor_integer(&m->out, i), left, from = address_of(net, n, m, number, &left),
                 same = 1;
        for (run = 1; run <= left && i + run < count && (uint64_t)tv_tensor_integer(&m->out, i + run) == number + run;
             run++)
            continue;
        while (run == 1 && i + same < count && (uint64_t)tv_tensor_integer(&m->out, i + same) == number)
            same++;
        if (same > 2 || from == 0)
            fill_run(&c, from, to, run = same);
        else
            copy_run(&c, from, to, run);
    }
    flush(&c);
}

void opennpu_net_emit_move(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    numbers m = {.first = {0}};
    tv_status status = number_elements(net, n, &m);
    if (status == TV_OK)
        emit_numbers(net, n, &m);
    else
        net->m.e.status = status;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        tv_tensor_fini(&m.in[k]);
    tv_tensor_fini(&m.out);
}

/* ---- Selections by computed indices ---- */

/* VR 0 = the address of the slice that an index selects, in all lanes: negative ones count from the end. */
static void emit_address(opennpu_network *net, uint64_t index, uint64_t base, uint64_t extent, uint64_t bytes)
{
    opennpu_lower_emitter *e = &net->m.e;
    opennpu_lower_access_lane0(e, OPENNPU_LD_W, 0, OPENNPU_LOWER_VR_W, index);
    opennpu_lower_set(e, 1, 31);
    opennpu_lower_set(e, 2, (uint32_t)extent);
    opennpu_lower_set(e, 3, (uint32_t)bytes);
    opennpu_lower_set(e, 6, (uint32_t)base);
    opennpu_lower_emit_vr(e, OPENNPU_VSRA, 7, 0, 1);
    opennpu_lower_emit_vr(e, OPENNPU_VAND, 7, 7, 2);
    opennpu_lower_emit_vr(e, OPENNPU_VADD, 0, 0, 7);
    opennpu_lower_emit_vr(e, OPENNPU_VMUL, 0, 0, 3);
    opennpu_lower_emit_vr(e, OPENNPU_VADD, 0, 0, 6);
}

/* Copies `count` words from the address in VR 0. */
static void emit_slice(opennpu_network *net, uint64_t to, uint64_t count)
{
    opennpu_lower_emitter *e = &net->m.e;
    uint32_t k = net->m.k, bytes = 4 * k, reach = 2048 / bytes * bytes;
    for (uint64_t i = 0; i < count; i += k) {
        uint32_t offset = (uint32_t)(i * 4 % reach);
        if (i && offset == 0) {
            opennpu_lower_set(e, 7, reach);
            opennpu_lower_emit_vr(e, OPENNPU_VADD, 0, 0, 7);
        }
        opennpu_lower_load_indirect(e, OPENNPU_VR, 1, 0, (int32_t)offset);
        opennpu_lower_store(e, OPENNPU_VR, 1, OPENNPU_LOWER_VR_X, to + i * 4);
    }
    opennpu_lower_run_full_segment(e);
}

void opennpu_net_emit_gather(opennpu_network *net, uint32_t node)
{
    const tv_graph_node *n = opennpu_net_node_at(net, node);
    const tv_graph_shape *x = opennpu_net_dims(net, n->inputs[0]);
    uint64_t inner = 1, outer = 1, extent = (uint64_t)x->dims[n->attrs.axis],
             indices = tv_graph_elements(net->graph, n->inputs[1]), to = opennpu_net_at(net, n->output);
    if (has_data(net, n->inputs[1]) && !opennpu_net_check_move(net, n)) {
        opennpu_net_emit_move(net, node);
        return;
    }
    for (uint32_t i = 0; i < x->rank; i++) {
        outer *= i < n->attrs.axis ? (uint64_t)x->dims[i] : 1;
        inner *= i > n->attrs.axis ? (uint64_t)x->dims[i] : 1;
    }
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t i = 0; i < indices; i++, to += inner * 4) {
            emit_address(net, opennpu_net_at(net, n->inputs[1]) + i * 4,
                         opennpu_net_at(net, n->inputs[0]) + o * extent * inner * 4, extent, inner * 4);
            emit_slice(net, to, inner);
        }
}
