/* SPDX-License-Identifier: Apache-2.0 */
/* Builds small networks with random constants. */
#ifndef UNIT_OPENNPU_NETWORKS_H
#define UNIT_OPENNPU_NETWORKS_H

#include <math.h>

#include "graph/network.h"
#include "unit.h"

typedef struct maker {
    tv_graph_builder b;
    unit_rng rng;
    uint32_t x, y; /* inputs; y has the shape of x */
} maker;

static float next_number(unit_rng *rng) { return (float)unit_below(rng, 2001) / 1000 - 1; }

static uint32_t constant(maker *m, uint32_t rank, const int64_t *dims, float scale, float offset)
{
    tv_tensor t;
    assert_int_equal(tv_tensor_init(&t, TV_ELEMENT_F32, rank, dims, NULL), TV_OK);
    for (uint64_t i = 0; i < tv_tensor_count(&t); i++)
        ((float *)t.data)[i] = offset + scale * next_number(&m->rng);
    uint32_t value = tv_graph_tensor(&m->b, "c", &t, false);
    tv_tensor_fini(&t);
    return value;
}

static uint32_t scalar(maker *m, float value)
{
    tv_tensor t = {.element = TV_ELEMENT_F32, .data = &value};
    return tv_graph_tensor(&m->b, "s", &t, false);
}

static uint32_t op1(maker *m, tv_graph_op op, uint32_t x) { return tv_graph_add1(&m->b, op, "v", x); }
static uint32_t op2(maker *m, tv_graph_op op, uint32_t a, uint32_t b) { return tv_graph_add2(&m->b, op, "v", a, b); }

static uint32_t linear(maker *m, uint32_t x, int64_t rows, int64_t columns, tv_activation activation, uint32_t residual)
{
    uint32_t w = constant(m, 2, (int64_t[]){rows, columns}, 1 / sqrtf((float)columns), 0);
    uint32_t bias = constant(m, 1, &rows, 0.2F, 0);
    return tv_graph_add(&m->b, TV_OP_LINEAR, "v", (uint32_t[]){x, w, bias, residual}, residual == TV_NO_VALUE ? 3 : 4,
                        &(tv_graph_attrs){.activation = activation, .alpha = 0, .beta = 0.5F});
}

/* {kernel, stride, pad, dilation} of both axes */
typedef struct window {
    int64_t kernel, stride, pad, dilation;
} window;

static tv_graph_lists lists_of(window g)
{
    return (tv_graph_lists){.kernel = {g.kernel, g.kernel},
                            .stride = {g.stride, g.stride},
                            .dilation = {g.dilation, g.dilation},
                            .pad_begin = {g.pad, g.pad},
                            .pad_end = {g.pad, g.pad}};
}

static uint32_t conv(maker *m, uint32_t x, int64_t out, int64_t in, uint32_t groups, window g, uint32_t residual,
                     tv_activation activation)
{
    tv_graph_lists lists = lists_of(g);
    int64_t per_group = in / groups;
    float scale = 1.7F / sqrtf((float)(per_group * g.kernel * g.kernel));
    uint32_t w = constant(m, 4, (int64_t[]){out, per_group, g.kernel, g.kernel}, scale, 0);
    uint32_t bias = constant(m, 1, &out, 0.2F, 0);
    return tv_graph_add(
        &m->b, TV_OP_CONV, "v", (uint32_t[]){x, w, bias, residual}, residual == TV_NO_VALUE ? 3 : 4,
        &(tv_graph_attrs){.lists = &lists, .groups = groups, .activation = activation, .alpha = 0, .beta = 0.5F});
}

static uint32_t pool(maker *m, tv_graph_op op, uint32_t x, window g)
{
    tv_graph_lists lists = lists_of(g);
    return tv_graph_add(&m->b, op, "v", &x, 1, &(tv_graph_attrs){.lists = &lists});
}

static uint32_t reshape(maker *m, uint32_t x, tv_graph_shape shape)
{
    return tv_graph_add(&m->b, TV_OP_RESHAPE, "v", &x, 1, &(tv_graph_attrs){.shape = shape});
}

static uint32_t transpose(maker *m, uint32_t x, const uint32_t *perm, uint32_t rank)
{
    tv_graph_lists lists = {.perm = {0}};
    memcpy(lists.perm, perm, rank * sizeof *perm);
    return tv_graph_add(&m->b, TV_OP_TRANSPOSE, "v", &x, 1, &(tv_graph_attrs){.lists = &lists});
}

#endif
