/* SPDX-License-Identifier: Apache-2.0 */
#include "network_maker.h"

void begin_graph(maker *m, uint64_t seed, const tv_graph_shape *shape, bool two_inputs)
{
    *m = (maker){.rng = {seed}};
    tv_graph_begin(&m->b, 0, 0, &print_sink);
    m->b.block = TV_BLOCK_NONE;
    m->x = tv_graph_input(&m->b, "x", TV_ELEMENT_F32, shape);
    if (two_inputs)
        m->y = tv_graph_input(&m->b, "y", TV_ELEMENT_F32, shape);
}

tv_graph *finish_graph(maker *m)
{
    tv_graph *graph;
    assert_int_equal(tv_graph_finish(&m->b, TV_NO_VALUE, &graph), TV_OK);
    return graph;
}

float next_number(unit_rng *rng) { return (float)unit_below(rng, 2001) / 1000 - 1; }

uint32_t constant(maker *m, uint32_t rank, const int64_t *dims, float scale, float offset)
{
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_F32, rank, dims, NULL), TV_OK);
    for (uint64_t i = 0; i < tv_tensor_count(&t); i++)
        ((float *)t.data)[i] = offset + scale * next_number(&m->rng);
    uint32_t value = tv_graph_tensor(&m->b, "c", &t, false);
    tv_tensor_fini(&t);
    return value;
}

uint32_t scalar(maker *m, float value)
{
    tv_tensor t = {.element = TV_ELEMENT_F32, .data = &value};
    return tv_graph_tensor(&m->b, "s", &t, false);
}

uint32_t op1(maker *m, tv_graph_op op, uint32_t x) { return tv_graph_add1(&m->b, op, "v", x); }
uint32_t op2(maker *m, tv_graph_op op, uint32_t a, uint32_t b) { return tv_graph_add2(&m->b, op, "v", a, b); }

uint32_t linear(maker *m, uint32_t x, int64_t rows, int64_t columns, tv_activation activation, uint32_t residual)
{
    uint32_t w = constant(m, 2, (int64_t[]){rows, columns}, 1 / sqrtf((float)columns), 0);
    uint32_t bias = constant(m, 1, &rows, 0.2F, 0);
    return tv_graph_add(&m->b, TV_OP_LINEAR, "v", (uint32_t[]){x, w, bias, residual}, residual == TV_NO_VALUE ? 3 : 4,
                        &(tv_graph_attrs){.activation = activation, .alpha = 0, .beta = 0.5F});
}

tv_graph_lists lists_of(window g)
{
    return (tv_graph_lists){.kernel = {g.kernel, g.kernel},
                            .stride = {g.stride, g.stride},
                            .dilation = {g.dilation, g.dilation},
                            .pad_begin = {g.pad, g.pad},
                            .pad_end = {g.pad, g.pad}};
}

uint32_t conv(maker *m, uint32_t x, conv_size s, uint32_t residual, tv_activation activation)
{
    tv_graph_lists lists = lists_of(s.g);
    int64_t per_group = s.in / s.groups;
    float scale = 1.7F / sqrtf((float)(per_group * s.g.kernel * s.g.kernel));
    uint32_t w = constant(m, 4, (int64_t[]){s.out, per_group, s.g.kernel, s.g.kernel}, scale, 0);
    uint32_t bias = constant(m, 1, &s.out, 0.2F, 0);
    return tv_graph_add(
        &m->b, TV_OP_CONV, "v", (uint32_t[]){x, w, bias, residual}, residual == TV_NO_VALUE ? 3 : 4,
        &(tv_graph_attrs){.lists = &lists, .groups = s.groups, .activation = activation, .alpha = 0, .beta = 0.5F});
}

uint32_t pool(maker *m, tv_graph_op op, uint32_t x, window g)
{
    tv_graph_lists lists = lists_of(g);
    return tv_graph_add(&m->b, op, "v", &x, 1, &(tv_graph_attrs){.lists = &lists});
}

uint32_t reshape(maker *m, uint32_t x, tv_graph_shape shape)
{
    return tv_graph_add(&m->b, TV_OP_RESHAPE, "v", &x, 1, &(tv_graph_attrs){.shape = shape});
}

uint32_t transpose(maker *m, uint32_t x, const uint32_t *perm, uint32_t rank)
{
    tv_graph_lists lists = {.perm = {0}};
    memcpy(lists.perm, perm, rank * sizeof *perm);
    return tv_graph_add(&m->b, TV_OP_TRANSPOSE, "v", &x, 1, &(tv_graph_attrs){.lists = &lists});
}

tv_graph *make_graph(const network *n)
{
    maker m;
    begin_graph(&m, 7, &n->shape, n->two_inputs);
    tv_graph_add_output(&m.b, "out", n->make(&m));
    return finish_graph(&m);
}

static void print_diagnostic(void *user, const tv_diag *d)
{
    (void)user;
    print_message("%s\n", d->message);
}

const tv_diag_sink print_sink = {print_diagnostic, NULL};

static float absmax(const tv_tensor *t)
{
    double max = 0;
    for (uint64_t i = 0; t && i < tv_tensor_count(t); i++)
        max = fmax(max, fabs(tv_tensor_real(t, i)));
    return (float)max;
}

void run_reference(reference *r, tv_graph *graph)
{
    unit_rng rng = {3};
    *r = (reference){.graph = graph};
    assert_true(graph->inputs.count <= INPUTS_MAX);
    for (size_t k = 0; k < graph->inputs.count; k++) {
        tv_tensor type = tv_graph_tensor_of(graph, graph->inputs.data[k]);
        assert_int_equal(tv_tensor_init(&r->x[k], type.element, type.rank, type.dims, NULL), TV_OK);
        for (uint64_t i = 0; i < tv_tensor_count(&r->x[k]); i++)
            ((float *)r->x[k].data)[i] = 2 * next_number(&rng);
        r->inputs[k] = &r->x[k];
    }
    assert_int_equal(tv_network_host.create(graph, &(tv_network_options){.keep_values = true}, NULL, &r->host), TV_OK);
    assert_int_equal(tv_network_host.run(r->host, r->inputs, NULL), TV_OK);
    r->ranges = calloc(graph->values.count, sizeof *r->ranges);
    assert_non_null(r->ranges);
    for (uint32_t v = 0; v < graph->values.count; v++)
        r->ranges[v] = absmax(tv_network_host.tensor(r->host, v));
    r->output = tv_network_host.tensor(r->host, graph->outputs.data[0].value);
    assert_non_null(r->output);
}

void free_reference(reference *r)
{
    for (size_t k = 0; k < INPUTS_MAX; k++)
        tv_tensor_fini(&r->x[k]);
    tv_network_host.destroy(r->host);
    tv_graph_free(r->graph);
    free(r->ranges);
}

double similarity(const tv_tensor *a, const tv_tensor *b)
{
    double ab = 0, aa = 0, bb = 0;
    assert_non_null(b);
    assert_true(tv_tensor_count(a) == tv_tensor_count(b));
    for (uint64_t i = 0; i < tv_tensor_count(a); i++) {
        ab += tv_tensor_real(a, i) * tv_tensor_real(b, i);
        aa += tv_tensor_real(a, i) * tv_tensor_real(a, i);
        bb += tv_tensor_real(b, i) * tv_tensor_real(b, i);
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}
