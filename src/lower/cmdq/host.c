/* SPDX-License-Identifier: Apache-2.0 */
/* What the host does between two queues of a step: it computes a node that the machine cannot, or chooses the experts
 * of a mixture. The machine stores what the host reads to DRAM at the end of a queue; the host writes its result to
 * DRAM, and the next queue loads it. So the transfers are part of the time. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/operators.h"
#include "lower/cmdq/emit.h"
#include "num/float.h"

bool cmdq_lower_stops(const cmdq_lowering *l, uint32_t node)
{
    return l->on_host[node] || tv_graph_node_at(l->graph, node)->op == TV_OP_MOE;
}

/* True for an input that the machine stores for the host: of a mixture, the logits of the router. */
static bool is_stored(const cmdq_lowering *l, const tv_graph_node *n, unsigned input)
{
    return cmdq_lower_is_computed(l, n->inputs[input]) && !l->streamed[n->inputs[input]] &&
           (n->op != TV_OP_MOE || input == 1);
}

uint64_t cmdq_lower_host_elements(const cmdq_lowering *l, bool output)
{
    uint64_t max = 0;
    for (uint32_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = tv_graph_node_at(l->graph, i);
        uint64_t elements = output && l->on_host[i] ? tv_graph_elements(l->graph, n->output) : 0;
        for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && !output && cmdq_lower_stops(l, i); k++)
            if (is_stored(l, n, k))
                elements += tv_graph_elements(l->graph, n->inputs[k]);
        max = tv_max_u64(max, elements);
    }
    return max;
}

/* ---- Operands in DRAM ---- */

/* A value in DRAM, in the tiles that it has in SPM; streamed values are rows. */
typedef struct host_operand {
    uint64_t addr, width;
    uint32_t rows, tile;
    float *data; /* [rows * width] */
} host_operand;

static host_operand describe(const cmdq_lowering *l, uint32_t value, uint64_t addr)
{
    bool streamed = l->streamed[value];
    uint64_t width = tv_graph_elements(l->graph, value);
    return (host_operand){streamed ? l->logits_addr : addr, width, cmdq_lower_rows(l, value),
                          streamed ? (uint32_t)width : cmdq_lower_tile_of(l, value), NULL};
}

/* The input of a node, whose stored inputs follow each other. */
static host_operand describe_input(const cmdq_lowering *l, const tv_graph_node *n, unsigned input)
{
    uint64_t addr = l->to_host_addr;
    for (unsigned k = 0; k < input; k++)
        if (is_stored(l, n, k))
            addr += cmdq_lower_rows(l, n->inputs[k]) * tv_graph_elements(l->graph, n->inputs[k]) * 4;
    return describe(l, n->inputs[input], addr);
}

/* Where element `e` of a token is in `data`. */
static uint64_t index_of(const host_operand *o, uint32_t row, uint64_t e)
{
    uint64_t start = e / o->tile * o->tile, columns = tv_min_u64(o->tile, o->width - start);
    return start * o->rows + row * columns + (e - start);
}

static tv_status read_operand(cmdq_lowering *l, host_operand *o, const tv_diag_sink *sink)
{
    size_t bytes = (size_t)(o->rows * o->width) * sizeof *o->data;
    o->data = malloc(bytes);
    return o->data ? tv_machine_read(l->machine, "dram", o->addr, o->data, bytes, sink) : tv_fail_memory(sink);
}

/* ---- Entries ---- */

void cmdq_lower_store_for_host(cmdq_lowering *l, const tv_graph_node *n)
{
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        if (is_stored(l, n, k)) {
            host_operand o = describe_input(l, n, k);
            cmdq_lower_store(l, cmdq_lower_value(l, n->inputs[k], 0), o.addr, 1, o.rows * o.width, 0);
        }
}

void cmdq_lower_load_from_host(cmdq_lowering *l, const tv_graph_node *n)
{
    uint64_t elements = cmdq_lower_rows(l, n->output) * tv_graph_elements(l->graph, n->output);
    if (n->op != TV_OP_MOE && !l->streamed[n->output])
        cmdq_lower_load(l, cmdq_lower_value(l, n->output, 0), "activation", l->from_host_addr, 1, elements, 0);
}

void cmdq_lower_describe_stored(const cmdq_lowering *l, const tv_graph_node *n, tv_buf *out)
{
    const char *separator = "";
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        char name[TV_VALUE_NAME_MAX];
        if (!is_stored(l, n, k))
            continue;
        host_operand o = describe_input(l, n, k);
        tv_graph_value_name(l->graph, n->inputs[k], name);
        for (char *c = name; *c; c++)
            if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
                *c = '_';
        tv_buf_printf(out,
                      "%s{\"name\": \"%s\", \"dram_addr\": %" PRIu64 ", \"num_elements\": %" PRIu64 ", \"qbits\": 32}",
                      separator, name, o.addr, o.rows * o.width);
        separator = ", ";
    }
}

tv_status cmdq_lower_print_hex(tv_buf *out, const float *values, size_t count, const tv_diag_sink *sink)
{
    static const char digits[] = "0123456789abcdef";
    char *hex = tv_buf_extend(out, count * 8);
    for (size_t i = 0; i < 4 * count && hex; i++) {
        uint32_t byte = tv_f32_bits(values[i / 4]) >> 8 * (i % 4) & 0xFF;
        hex[2 * i] = digits[byte >> 4];
        hex[2 * i + 1] = digits[byte & 15];
    }
    return hex ? TV_OK : tv_fail_memory(sink);
}

/* Writes the result to DRAM, or prints it as a member of dram_init. */
static tv_status write_result(cmdq_lowering *l, const host_operand *o, tv_buf *init, const tv_diag_sink *sink)
{
    size_t count = (size_t)(o->rows * o->width);
    if (!l->emit)
        return tv_machine_write(l->machine, "dram", o->addr, o->data, count * sizeof *o->data, sink);
    tv_buf_printf(init, "{\"addr\": %" PRIu64 ", \"hex\": \"", o->addr);
    TV_TRY(cmdq_lower_print_hex(init, o->data, count, sink));
    tv_buf_str(init, "\"}");
    return TV_OK;
}

/* ---- Computing ---- */

/* A node on the host: its operands, and their rows for one token. */
typedef struct host_node {
    host_operand operands[TV_GRAPH_INPUTS_MAX], result;
    float *rows[TV_GRAPH_INPUTS_MAX], *output; /* of one token; constants whole */
} host_node;

static void release_node(host_node *h)
{
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        free(h->operands[k].data);
        free(h->rows[k]);
    }
    free(h->result.data);
    free(h->output);
}

/* Matrices of products are decoded row by row. */
static tv_status read_constant(const tv_graph_node *n, const tv_matrix *m, float **out, const tv_diag_sink *sink)
{
    uint64_t rows = (uint64_t)m->rows * m->count;
    if ((n->op == TV_OP_LINEAR || n->op == TV_OP_GLU) && rows > 1)
        return TV_OK;
    *out = malloc((size_t)rows * m->columns * sizeof **out);
    if (!*out)
        return tv_fail_memory(sink);
    for (uint64_t r = 0; r < rows; r++)
        if (tv_matrix_row_f32(m, r, *out + r * m->columns) != TV_OK)
            return tv_matrix_fail(m, sink);
    return TV_OK;
}

static tv_status read_inputs(cmdq_lowering *l, const tv_graph_node *n, host_node *h, const tv_diag_sink *sink)
{
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        uint32_t v = n->inputs[k];
        if (v == TV_NO_VALUE)
            continue;
        if (cmdq_lower_is_constant(l, v)) {
            TV_TRY(read_constant(n, tv_graph_matrix(l->graph, v), &h->rows[k], sink));
            continue;
        }
        h->operands[k] = describe_input(l, n, k);
        TV_TRY(read_operand(l, &h->operands[k], sink));
        h->rows[k] = malloc((size_t)h->operands[k].width * sizeof *h->rows[k]);
        if (!h->rows[k])
            return tv_fail_memory(sink);
    }
    h->result = describe(l, n->output, l->from_host_addr);
    h->result.data = malloc((size_t)(h->result.rows * h->result.width) * sizeof *h->result.data);
    h->output = malloc((size_t)h->result.width * sizeof *h->output);
    return h->result.data && h->output ? TV_OK : tv_fail_memory(sink);
}

static bool compute_row(const cmdq_lowering *l, const tv_graph_node *n, host_node *h, uint32_t row)
{
    tv_operator_row r = {
        .graph = l->graph, .node = n, .output = h->output, .position = l->position + l->rows - h->result.rows + row};
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++) {
        const host_operand *in = &h->operands[k];
        r.inputs[k] = h->rows[k];
        for (uint64_t e = 0; e < in->width; e++)
            h->rows[k][e] = in->data[index_of(in, in->rows - h->result.rows + row, e)];
    }
    if (!tv_operator_compute(&r))
        return false;
    for (uint64_t e = 0; e < h->result.width; e++)
        h->result.data[index_of(&h->result, row, e)] = h->output[e];
    return true;
}

static tv_status compute_node(cmdq_lowering *l, const tv_graph_node *n, tv_buf *init, const tv_diag_sink *sink)
{
    host_node h = {0};
    tv_status status = read_inputs(l, n, &h, sink);
    for (uint32_t row = 0; row < h.result.rows && status == TV_OK; row++)
        if (!compute_row(l, n, &h, row))
            status = tv_fail_memory(sink);
    if (status == TV_OK)
        status = write_result(l, &h.result, init, sink);
    release_node(&h);
    return status;
}

/* ---- Experts ---- */

/* Without data, every token takes the first experts. */
static tv_status route(cmdq_lowering *l, const tv_graph_node *n, const tv_diag_sink *sink)
{
    uint32_t used = n->attrs.experts_used, experts = tv_graph_matrix(l->graph, n->inputs[2])->count;
    host_operand logits = describe_input(l, n, 1);
    tv_status status = l->timing ? TV_OK : read_operand(l, &logits, sink);
    for (uint32_t row = 0; row < logits.rows && status == TV_OK; row++) {
        uint32_t *chosen = l->routes.chosen + (size_t)row * used;
        float *weights = l->routes.weights + (size_t)row * used;
        if (!l->timing)
            tv_operator_route(logits.data + (size_t)row * experts, experts, used, n->attrs.normalize, chosen, weights);
        for (uint32_t i = 0; i < used && l->timing; i++) {
            chosen[i] = i;
            weights[i] = 1 / (float)used;
        }
    }
    free(logits.data);
    return status;
}

static void count_host_op(cmdq_lowering *l, const tv_graph_node *n)
{
    bool experts = n->op == TV_OP_MOE;
    const char *name = experts ? "route to experts" : tv_graph_op_infos[n->op].name;
    unsigned i = 0;
    while (i < l->host_op_count && strcmp(l->host_ops[i].name, name) != 0)
        i++;
    if (i == l->host_op_count)
        l->host_ops[l->host_op_count++] = (tv_host_op){.name = name};
    l->host_ops[i].count++;
    l->host_ops[i].elements +=
        cmdq_lower_rows(l, n->output) * tv_graph_elements(l->graph, experts ? n->inputs[1] : n->output);
}

tv_status cmdq_lower_compute_on_host(cmdq_lowering *l, const tv_graph_node *n, tv_buf *init, const tv_diag_sink *sink)
{
    count_host_op(l, n);
    init->len = 0;
    if (n->op == TV_OP_MOE)
        return route(l, n, sink);
    return l->timing ? TV_OK : compute_node(l, n, init, sink);
}
