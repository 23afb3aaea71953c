/* SPDX-License-Identifier: Apache-2.0 */
/* Work of the host between the programs of a network that is written: it packs the second operands of products, and
 * selects rows of tables. A step names a tensor in host memory, so that it needs nothing but the machine. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/network_step.h"
#include "lower/pccx/network_state.h"
#include "num/float.h"

/* Numbers of a step "pack": rows of a matrix, planes, columns of a group. */
enum { FIRST, SECOND, THIRD, GROUP_MAX = 1 << 16 };
static const char pack_kind[] = "pack";

/* ---- Noting ---- */

static bool is_noted(const pccx_network *w) { return w->l.emit && w->l.steps == 0; }

static tv_status note(pccx_network *w, uint32_t value, const tv_network_step *step, const tv_diag_sink *sink)
{
    tv_network_step s = *step;
    const tv_graph_shape *shape = &tv_graph_value_at(w->graph, value)->shape;
    s.program = (uint32_t)w->files.count;
    s.rank = shape->rank;
    memcpy(s.dims, shape->dims, sizeof s.dims);
    return TV_VEC_PUSH(&w->steps, s) ? TV_OK : tv_fail_memory(sink);
}

/* Byte of the base value that element `i` is, where `numbers` counts the elements of the base from 1 on. */
static int64_t byte_of(const pccx_network *w, uint32_t base, const tv_tensor *numbers, uint64_t i)
{
    uint32_t lane, word = pccx_net_word_of(w, base, (uint64_t)tv_tensor_real(numbers, i) - 1, &lane);
    return (int64_t)word * PCCX_LOWER_WORD_BYTES + 2 * lane;
}

/* Finds a stride for each axis; false: there is none. */
static bool find_strides(const pccx_network *w, uint32_t base, const tv_tensor *numbers, tv_network_port *out)
{
    uint64_t count = tv_tensor_count(numbers), size = 1;
    for (uint64_t i = 0; i < count; i++)
        if (!(tv_tensor_real(numbers, i) >= 1))
            return false;
    int64_t first = byte_of(w, base, numbers, 0);
    out->address += (uint64_t)first;
    out->term_count = numbers->rank;
    for (uint32_t d = numbers->rank; d-- > 0; size *= (uint64_t)numbers->dims[d]) {
        int64_t stride = numbers->dims[d] > 1 ? byte_of(w, base, numbers, size) - first : 0;
        if (stride < 0)
            return false;
        out->terms[d] = (tv_network_term){d, 1, (uint64_t)numbers->dims[d], (uint64_t)stride};
    }
    for (uint64_t i = 0; i < count; i++)
        if (tv_network_port_address(out, numbers->rank, numbers->dims, i) !=
            out->address - (uint64_t)first + (uint64_t)byte_of(w, base, numbers, i))
            return false;
    return true;
}

/* Where host memory has an operand, which may be a move of a value. */
static bool find_operand(const pccx_network *w, uint32_t value, tv_network_port *out)
{
    const tv_graph_value *v = tv_graph_value_at(w->graph, value);
    if (w->values[value].on_machine)
        return pccx_net_port(w, value, out);
    if (v->source != TV_VALUE_COMPUTED)
        return false;
    const tv_graph_node *n = tv_graph_node_at(w->graph, v->producer);
    uint32_t base = n->inputs[0];
    if (tv_graph_op_infos[n->op].class != TV_CLASS_MOVE || !w->values[base].on_machine || !pccx_net_port(w, base, out))
        return false;
    for (unsigned k = 1; k < tv_graph_input_count(n); k++)
        if (n->inputs[k] != TV_NO_VALUE && tv_is_real_element(tv_graph_value_at(w->graph, n->inputs[k])->element))
            return false;
    tv_tensor in[TV_GRAPH_INPUTS_MAX] = {{0}}, numbers = {0};
    bool ok = pccx_net_number_elements(w, n, in, &numbers) && tv_tensor_count(&numbers) > 0 &&
              find_strides(w, base, &numbers, out);
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        tv_tensor_fini(&in[k]);
    tv_tensor_fini(&numbers);
    return ok;
}

tv_status pccx_net_note_pack(pccx_network *w, uint32_t node, const tv_diag_sink *sink)
{
    const pccx_lower_matrix *m = &w->nodes[node].matrix;
    uint32_t value = pccx_net_graph_node(w, node)->inputs[1];
    tv_network_step step = {.kind = pack_kind, .address = m->addr, .numbers = {m->rows, m->planes, w->l.group}};
    if (!is_noted(w))
        return TV_OK;
    bool found = find_operand(w, value, &step.source);
    w->lacks_steps = w->lacks_steps || !found;
    w->l.host_ops[PCCX_LOWER_PACK_KEYS].written = w->l.host_ops[PCCX_LOWER_PACK_VALUES].written = !w->lacks_steps;
    return found ? note(w, value, &step, sink) : TV_OK;
}

tv_status pccx_net_note_selection(pccx_network *w, uint32_t node, uint64_t table, const tv_diag_sink *sink)
{
    const tv_graph_node *n = pccx_net_graph_node(w, node);
    const pccx_net_value *rows = pccx_net_value_at(w, n->inputs[0]);
    tv_network_step step = {.kind = TV_STEP_SELECT,
                            .address = pccx_net_value_at(w, n->output)->home,
                            .numbers = {table, (uint64_t)rows->words * PCCX_LOWER_WORD_BYTES, rows->rows}};
    if (!is_noted(w) || pccx_net_is_constant(w, n->inputs[1]) || !pccx_net_port(w, n->inputs[1], &step.source))
        return TV_OK;
    return note(w, n->inputs[1], &step, sink);
}

unsigned pccx_net_steps(const void *state, const tv_network_step **list)
{
    const pccx_network *w = state;
    *list = w->steps.data;
    return (unsigned)w->steps.count;
}

/* ---- Execution ---- */

tv_status pccx_net_pack_tensor(pccx_lowering *l, const tv_tensor *b, const pccx_lower_matrix *to,
                               const tv_diag_sink *sink)
{
    uint64_t k = (uint64_t)b->dims[b->rank - 2], columns = (uint64_t)b->dims[b->rank - 1], size = k * columns,
             count = tv_tensor_count(b) / size;
    float *values = malloc(count * size * sizeof *values + 1);
    if (!values)
        return tv_fail_memory(sink);
    for (uint64_t i = 0; i < count * size; i++) {
        uint64_t at = i % size;
        uint16_t stored = tv_bf16_flushed_from_f32((float)tv_tensor_real(b, i)); /* as in the machine's memory */
        values[i / size * size + at % columns * k + at / columns] = tv_bf16_to_f32(stored);
    }
    tv_matrix from = {.name = "operand",
                      .values = values,
                      .rows = (uint32_t)columns,
                      .columns = (uint32_t)k,
                      .count = (uint32_t)count};
    tv_status status = pccx_lower_pack(l, &from, 1, to, sink);
    free(values);
    return status;
}

static tv_status run_pack(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink)
{
    uint64_t columns = (uint64_t)step->dims[step->rank - 1], rows = step->numbers[FIRST];
    tv_tensor b = {0};
    if (rows < columns || rows > columns + PCCX_LOWER_LANES || step->numbers[SECOND] < 1 || step->numbers[SECOND] > 2 ||
        step->numbers[THIRD] < PCCX_LOWER_BEAT_WEIGHTS || step->numbers[THIRD] > GROUP_MAX ||
        step->numbers[THIRD] % PCCX_LOWER_LANES || step->address % PCCX_LOWER_WORD_BYTES)
        return tv_network_step_fail(step, "has numbers that fit no matrix", sink);
    pccx_lowering l = {.machine = machine,
                       .group = (uint32_t)step->numbers[THIRD],
                       .scale_search = tv_scale_search(tv_cpu()),
                       .map = {.end = step->address}};
    tv_matrix from = {.rows = (uint32_t)columns, .columns = (uint32_t)step->dims[step->rank - 2], .count = 1};
    pccx_lower_matrix to;
    pccx_lower_reserve_matrix(&l, &from, (uint32_t)rows, (unsigned)step->numbers[SECOND], &to);
    to.addr = step->address;
    tv_status status = tv_network_step_source(machine, step, TV_ELEMENT_F32, &b, sink);
    if (status == TV_OK)
        status = pccx_net_pack_tensor(&l, &b, &to, sink);
    tv_tensor_fini(&b);
    return status;
}

tv_status pccx_net_run_step(tv_machine *machine, const tv_network_step *step, const tv_diag_sink *sink)
{
    TV_TRY(tv_network_step_check(step, sink));
    if (strcmp(step->kind, TV_STEP_SELECT) == 0)
        return tv_network_step_select(machine, step, sink);
    if (strcmp(step->kind, pack_kind) != 0)
        return tv_network_step_fail(step, "is not one of pccx", sink);
    if (step->rank < 2)
        return tv_network_step_fail(step, "has no such tensor", sink);
    return run_pack(machine, step, sink);
}
