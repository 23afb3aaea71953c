/* SPDX-License-Identifier: Apache-2.0 */
/* What the host does between two programs of a step: it computes a node that the machine has no instructions for. It
 * reads the inputs from data memory; the output is a data segment of the next program. */
#include "graph/host_node.h"

#include <stdlib.h>
#include <string.h>

#include "lower/opennpu/nodes.h"

bool opennpu_lower_restart(opennpu_lower_model *m, uint32_t block)
{
    if (m->e.status == TV_OK)
        m->e.status = m->restart(m->user);
    opennpu_lower_label_block(&m->e, block);
    return m->e.status == TV_OK;
}

void opennpu_lower_count_host_op(opennpu_lower_model *m, const char *name, uint64_t elements)
{
    unsigned i = 0;
    while (i < m->host_op_count && strcmp(m->host_ops[i].name, name) != 0)
        i++;
    if (i == m->host_op_count)
        m->host_ops[m->host_op_count++] = (tv_host_op){.name = name};
    m->host_ops[i].count++;
    m->host_ops[i].elements += elements;
}

/* The rows that a node is computed for: one token, or a batch, whose elements are vectors of `lanes` tokens. */
typedef struct host_rows {
    uint32_t rows, lanes, position;
    bool batch;
} host_rows;

static uint64_t addr_of(const opennpu_lower_model *m, const host_rows *rows, uint32_t value)
{
    return rows->batch ? m->values[value].batch : m->values[value].at;
}

/* The elements of a value, [element][lane], and those of one token. */
typedef struct host_value {
    float *elements, *row;
    uint64_t count;
} host_value;

static tv_status allocate_value(const opennpu_lower_model *m, const host_rows *rows, uint32_t value, host_value *out)
{
    out->count = tv_graph_elements(m->graph, value);
    out->elements = calloc((size_t)out->count, rows->lanes * sizeof *out->elements);
    out->row = calloc((size_t)out->count, sizeof *out->row);
    return out->elements && out->row ? TV_OK : tv_fail_memory(m->sink);
}

static tv_status read_inputs(const opennpu_lower_model *m, const tv_graph_node *n, const host_rows *rows,
                             host_value *inputs)
{
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        uint32_t v = n->inputs[k];
        if (v == TV_NO_VALUE || tv_graph_value_at(m->graph, v)->source != TV_VALUE_COMPUTED)
            continue;
        TV_TRY(allocate_value(m, rows, v, &inputs[k]));
        TV_TRY(tv_machine_read(m->machine, "mem", addr_of(m, rows, v), inputs[k].elements,
                               (size_t)inputs[k].count * rows->lanes * sizeof(float), m->sink));
    }
    return TV_OK;
}

static tv_status compute_rows(opennpu_lower_model *m, const tv_graph_node *n, const host_rows *rows, host_value *inputs,
                              host_value *output)
{
    const float *pointers[TV_GRAPH_INPUTS_MAX];
    opennpu_lower_node *own = opennpu_lower_node_of(m, n);
    if (!own->host_node)
        TV_TRY(tv_host_node_new(m->graph, n, m->sink, &own->host_node));
    for (uint32_t r = 0; r < rows->rows; r++) {
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
            pointers[k] = inputs[k].row;
            for (uint64_t i = 0; i < inputs[k].count; i++)
                inputs[k].row[i] = inputs[k].elements[i * rows->lanes + r];
        }
        TV_TRY(tv_host_node_compute(own->host_node, pointers, rows->position + r, output->row, m->sink));
        for (uint64_t i = 0; i < output->count; i++)
            output->elements[i * rows->lanes + r] = output->row[i];
    }
    return TV_OK;
}

static void compute_node(opennpu_lower_model *m, const tv_graph_node *n, const host_rows *rows)
{
    host_value inputs[TV_GRAPH_INPUTS_MAX] = {{0}}, output = {0};
    if (!opennpu_lower_restart(m, n->block))
        return;
    opennpu_lower_count_host_op(m, tv_graph_op_infos[n->op].name, rows->rows * tv_graph_elements(m->graph, n->output));
    if (m->timing)
        return;
    tv_status status = read_inputs(m, n, rows, inputs);
    if (status == TV_OK)
        status = allocate_value(m, rows, n->output, &output);
    if (status == TV_OK)
        status = compute_rows(m, n, rows, inputs, &output);
    if (status == TV_OK)
        tv_builder_data(&m->e.program, addr_of(m, rows, n->output), output.elements,
                        (size_t)output.count * rows->lanes * sizeof(float));
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        free(inputs[k].elements);
        free(inputs[k].row);
    }
    free(output.elements);
    free(output.row);
    m->e.status = status;
}

void opennpu_lower_token_host(opennpu_lower_token *tok, const tv_graph_node *n)
{
    compute_node(tok->m, n, &(host_rows){1, 1, tok->position, false});
    opennpu_lower_token_pack(tok, n->output);
}

void opennpu_lower_batch_host(opennpu_lower_batch *b, const tv_graph_node *n)
{
    compute_node(b->m, n, &(host_rows){b->rows, b->m->k, b->position, true});
    opennpu_lower_batch_planes(b, n->output);
}
