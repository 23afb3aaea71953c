/* SPDX-License-Identifier: Apache-2.0 */
#include "tolerance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/network.h"
#include "graph/operators.h"

static const tolerance_machine machines[] = {
    {.name = "cmdq", .integers = true, .unit = 0x1p-11, .tiny = 0x1p-25, .result = 0x1p-24, .weight_steps = 254},
    {.name = "pccx",
     .unit = 0x1p-8,
     .tiny = 0x1p-126,
     .result = 0x1p-8,
     .add = tolerance_add_pccx,
     .activation = tolerance_pccx_activation},
    {.name = "opennpu",
     .unit = 0x1p-24,
     .tiny = 0x1p-126,
     .result = 0x1p-24,
     .rounds_operands = true,
     .weight_steps = 254,
     .finite = true,
     .add = tolerance_add_opennpu,
     .activation = tolerance_opennpu_activation},
};

const tolerance_machine *tolerance_find_machine(const char *name)
{
    for (size_t i = 0; i < TV_COUNTOF(machines); i++)
        if (strcmp(machines[i].name, name) == 0)
            return &machines[i];
    return NULL;
}

/* ---- Formats ---- */

static bool reads_integers(const tv_graph_node *n)
{
    tv_graph_class class = tv_graph_op_infos[n->op].class;
    return class == TV_CLASS_PRODUCT || class == TV_CLASS_WINDOW;
}

static uint32_t group_of(const tolerance *t, uint32_t value)
{
    while (t->groups[value] != value)
        value = t->groups[value];
    return value;
}

/* Values that are moved to each other have one format; it is INT8 if a product or pool reads one of them. */
static void choose_formats(tolerance *t)
{
    const tv_graph *g = t->graph;
    for (uint32_t v = 0; v < g->values.count; v++)
        t->groups[v] = v;
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && tv_graph_op_infos[n->op].class == TV_CLASS_MOVE; k++)
            if (n->inputs[k] != TV_NO_VALUE && tv_is_real_element(tv_graph_value_at(g, n->inputs[k])->element) &&
                tv_graph_value_at(g, n->inputs[k])->source != TV_VALUE_CONSTANT)
                t->groups[group_of(t, n->inputs[k])] = group_of(t, n->output);
    }
    for (size_t i = 0; i < g->nodes.count; i++) {
        const tv_graph_node *n = &g->nodes.data[i];
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && reads_integers(n); k++)
            if (n->inputs[k] != TV_NO_VALUE && (k < 2 || n->op != TV_OP_LINEAR))
                t->integers[group_of(t, n->inputs[k])] = true;
    }
    for (uint32_t v = 0; v < g->values.count && t->ranges; v++) {
        float *range = &t->group_ranges[group_of(t, v)];
        *range = fmaxf(*range, t->ranges[v]);
    }
}

static bool is_result(const tv_graph *g, uint32_t value)
{
    for (size_t i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].value == value)
            return tv_graph_uses(g, value) <= 1;
    return false;
}

/* Moves of values that have the format of the output; constants are rounded to it. */
static bool moves_stored_values(const tolerance *t, const tv_graph_node *n)
{
    bool stored = tv_graph_op_infos[n->op].class == TV_CLASS_MOVE;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && n->op == TV_OP_CONCAT; k++)
        stored = stored && (n->inputs[k] == TV_NO_VALUE ||
                            tv_graph_value_at(t->graph, n->inputs[k])->source != TV_VALUE_CONSTANT);
    return stored;
}

/* Adds the rounding to the format that stores a value. */
static void round_value(const tolerance *t, uint32_t value, bool is_moved, float *e)
{
    const tolerance_machine *m = t->machine;
    uint32_t group = group_of(t, value);
    const tv_graph_value *v = tv_graph_value_at(t->graph, value);
    bool is_binary32 = m->unit <= 0x1p-24 && v->source != TV_VALUE_COMPUTED && v->element == TV_ELEMENT_F32;
    if (!tv_is_real_element(v->element))
        return;
    for (uint64_t i = 0, n = tolerance_count(t, value); i < n; i++) {
        double x = fabs(tv_tensor_real(t->values[value], i)), own = (double)e[i];
        if (!isfinite(x) || (is_binary32 && (x == 0 || x >= m->tiny))) /* stored as they are */
            continue;
        if (m->integers && t->integers[group]) {
            double half = (double)t->group_ranges[group] / 254 * (1 + 0x1p-21);
            e[i] = (float)(is_moved ? fmax(own, half) : own + half);
        } else if (!is_moved) {
            double unit = is_result(t->graph, value) ? m->result : m->unit;
            e[i] = (float)(own + (x + own) * unit + m->tiny);
        }
    }
}

/* ---- The network ---- */

static bool has_errors(const tolerance *t, const float *e, uint32_t value)
{
    for (uint64_t i = 0; i < tolerance_count(t, value); i++)
        if (e[i] > 0)
            return true;
    return false;
}

static void keep_errors(tolerance *t, uint32_t value, float *e)
{
    for (uint64_t i = 0; i < tolerance_count(t, value); i++) /* the sums above are rounded themselves */
        e[i] *= 1 + 0x1p-20f;
    t->errors[value] = has_errors(t, e, value) ? e : NULL;
    if (!t->errors[value])
        free(e);
}

static bool run_host(tolerance *t, const tv_tensor *const *inputs)
{
    const tv_graph *g = t->graph;
    if (tv_network_host.create(g, &(tv_network_options){.threads = 1, .keep_values = true}, NULL, &t->host) != TV_OK ||
        tv_network_host.run(t->host, inputs, NULL) != TV_OK)
        return tolerance_fail(t, "the host", "fails");
    for (uint32_t v = 0; v < g->values.count; v++)
        t->values[v] = tv_graph_value_at(g, v)->source == TV_VALUE_CONSTANT ? tv_graph_value_at(g, v)->tensor
                                                                            : tv_network_host.tensor(t->host, v);
    for (size_t i = 0; i < g->inputs.count; i++)
        t->values[g->inputs.data[i]] = inputs[i];
    return true;
}

bool tolerance_init(tolerance *t, const tv_graph *graph, const tolerance_machine *machine, const float *ranges,
                    const tv_tensor *const *inputs)
{
    size_t count = graph->values.count + 1;
    *t = (tolerance){.graph = graph, .machine = machine, .ranges = ranges};
    t->values = calloc(count, sizeof *t->values);
    t->errors = calloc(count, sizeof *t->errors);
    t->groups = calloc(count, sizeof *t->groups);
    t->integers = calloc(count, sizeof *t->integers);
    t->group_ranges = calloc(count, sizeof *t->group_ranges);
    if (!t->values || !t->errors || !t->groups || !t->integers || !t->group_ranges)
        abort();
    if (!run_host(t, inputs))
        return false;
    choose_formats(t);
    for (size_t i = 0; i < graph->inputs.count; i++) {
        float *e = tolerance_new_floats(tolerance_count(t, graph->inputs.data[i]));
        round_value(t, graph->inputs.data[i], false, e);
        keep_errors(t, graph->inputs.data[i], e);
    }
    for (uint32_t v = 0; v < graph->values.count && machine->weight_steps == 0; v++)
        if (tv_graph_value_at(graph, v)->source == TV_VALUE_CONSTANT && t->values[v]) { /* stored, too */
            float *e = tolerance_new_floats(tolerance_count(t, v));
            round_value(t, v, false, e);
            keep_errors(t, v, e);
        }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const tv_graph_node *n = &graph->nodes.data[i];
        float *e = tolerance_new_floats(tolerance_count(t, n->output));
        bool ok = tolerance_bound_node(t, n, e);
        if (ok)
            round_value(t, n->output, moves_stored_values(t, n), e);
        keep_errors(t, n->output, e);
        if (!ok)
            return false;
    }
    return true;
}

void tolerance_fini(tolerance *t)
{
    for (size_t v = 0; t->errors && v < t->graph->values.count; v++)
        free(t->errors[v]);
    tv_network_host.destroy(t->host);
    free(t->values);
    free(t->errors);
    free(t->groups);
    free(t->integers);
    free(t->group_ranges);
}
