/* SPDX-License-Identifier: Apache-2.0 */
#include "operator_case.h"

#include <math.h>

static tv_tensor tensor_of(const operand *o)
{
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, o->element, o->rank, o->dims, NULL), TV_OK);
    assert_true(!o->values || tv_tensor_count(&t) == o->count);
    for (size_t i = 0; i < o->count; i++)
        tv_tensor_set_real(&t, i, o->values[i]);
    return t;
}

/* Adds the operands and the node; `tensors` receives those that are inputs of the network. */
static uint32_t build(tv_graph_builder *b, tv_graph_op op, const operand *inputs, size_t count,
                      const tv_graph_attrs *attrs, tv_tensor *tensors)
{
    uint32_t values[TV_GRAPH_INPUTS_MAX];
    size_t given = 0;
    b->block = TV_BLOCK_NONE;
    for (size_t i = 0; i < count; i++) {
        values[i] = TV_NO_VALUE;
        if (inputs[i].left_out)
            continue;
        tv_tensor t = tensor_of(&inputs[i]);
        tv_graph_shape dims = {.rank = t.rank};
        memcpy(dims.dims, t.dims, sizeof dims.dims);
        if (inputs[i].constant) {
            values[i] = tv_graph_tensor(b, "constant", &t, false);
            tv_tensor_fini(&t);
        } else {
            values[i] = tv_graph_input(b, "input", t.element, &dims);
            tensors[given++] = t;
        }
    }
    return tv_graph_add(b, op, "node", values, (uint32_t)count, attrs);
}

void operator_graph_init(operator_graph *g, tv_graph_op op, const operand *inputs, size_t count,
                         const tv_graph_attrs *attrs)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_graph_builder b;
    *g = (operator_graph){0};
    tv_graph_begin(&b, 0, 0, &sink);
    g->output = build(&b, op, inputs, count, attrs, g->given);
    tv_graph_add_output(&b, "y", g->output);
    if (tv_graph_finish(&b, TV_NO_VALUE, &g->graph) != TV_OK)
        fail_msg("%s is rejected: %s", tv_graph_op_infos[op].name, log.at[0].message);
    for (unsigned i = 0; i < TV_GRAPH_INPUTS_MAX; i++)
        g->inputs[i] = &g->given[i];
}

void operator_graph_fini(operator_graph *g)
{
    tv_graph_free(g->graph);
    for (unsigned i = 0; i < TV_GRAPH_INPUTS_MAX; i++)
        tv_tensor_fini(&g->given[i]);
}

tv_tensor compute_operator(tv_graph_op op, const operand *inputs, size_t count, const tv_graph_attrs *attrs,
                           unsigned threads)
{
    operator_graph g;
    tv_tensor result;
    void *state = NULL;
    operator_graph_init(&g, op, inputs, count, attrs);
    assert_int_equal(tv_network_host.create(g.graph, &(tv_network_options){.threads = threads}, NULL, &state), TV_OK);
    assert_int_equal(tv_network_host.run(state, g.inputs, NULL), TV_OK);
    const tv_tensor *y = tv_network_host.tensor(state, g.output);
    assert_int_equal(tv_tensor_init(&result, y->element, y->rank, y->dims, NULL), TV_OK);
    memcpy(result.data, y->data, tv_tensor_bytes(y));
    tv_network_host.destroy(state);
    operator_graph_fini(&g);
    return result;
}

static bool is_close(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
        return (isnan(a) && isnan(b)) || (isinf(a) && isinf(b) && (a > 0) == (b > 0));
    return fabs(a - b) <= tolerance * fmax(1, fmax(fabs(a), fabs(b)));
}

void expect(tv_graph_op op, const operand *inputs, size_t count, const tv_graph_attrs *attrs, operand result,
            double tolerance)
{
    const char *name = tv_graph_op_infos[op].name;
    tv_tensor y = compute_operator(op, inputs, count, attrs, 1), expected = tensor_of(&result);
    if (y.element != expected.element || y.rank != expected.rank ||
        memcmp(y.dims, expected.dims, y.rank * sizeof *y.dims) != 0) {
        char text[2][TV_TENSOR_TEXT_MAX];
        tv_tensor_print_shape(&y, text[0]);
        tv_tensor_print_shape(&expected, text[1]);
        fail_msg("%s gives %s, expected %s", name, text[0], text[1]);
    }
    for (uint64_t i = 0; i < tv_tensor_count(&y); i++) {
        double a = tv_tensor_real(&y, i), b = tv_tensor_real(&expected, i);
        if (!is_close(a, b, tolerance))
            fail_msg("%s: element %d is %.9g, expected %.9g", name, (int)i, a, b);
    }
    tv_tensor_fini(&y);
    tv_tensor_fini(&expected);
}

void expect_rejection(tv_graph_op op, const operand *inputs, size_t count, const tv_graph_attrs *attrs,
                      const char *problem)
{
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_graph_builder b;
    tv_tensor given[TV_GRAPH_INPUTS_MAX] = {{0}};
    char expected[240];
    tv_graph_begin(&b, 0, 0, &sink);
    if (build(&b, op, inputs, count, attrs, given) != TV_NO_VALUE)
        fail_msg("%s is accepted, expected: %s", tv_graph_op_infos[op].name, problem);
    snprintf(expected, sizeof expected, "node node (%s): %s", tv_graph_op_infos[op].name, problem);
    assert_string_equal(log.at[0].message, expected);
    tv_graph_abandon(&b);
    for (unsigned i = 0; i < TV_GRAPH_INPUTS_MAX; i++)
        tv_tensor_fini(&given[i]);
}
