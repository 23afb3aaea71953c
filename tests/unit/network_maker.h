/* SPDX-License-Identifier: Apache-2.0 */
/* Builds small networks with random constants, and runs them on the host. Failures fail the test. */
#ifndef UNIT_NETWORK_MAKER_H
#define UNIT_NETWORK_MAKER_H

#include <math.h>

#include "graph/network.h"
#include "unit.h"

typedef struct maker {
    tv_graph_builder b;
    unit_rng rng;
    uint32_t x, y; /* inputs; y has the shape of x */
} maker;

/* A graph without nodes; y is an input only if `two_inputs`. */
void begin_graph(maker *m, uint64_t seed, const tv_graph_shape *shape, bool two_inputs);
tv_graph *finish_graph(maker *m);

/* ---- Values ---- */

/* From -1 to 1. */
float next_number(unit_rng *rng);
/* offset + scale * next_number in each element */
uint32_t constant(maker *m, uint32_t rank, const int64_t *dims, float scale, float offset);
uint32_t scalar(maker *m, float value);
uint32_t op1(maker *m, tv_graph_op op, uint32_t x);
uint32_t op2(maker *m, tv_graph_op op, uint32_t a, uint32_t b);

/* Weights [rows][columns] and a bias; residual TV_NO_VALUE: none. Clip is to 0 and 0.5. */
uint32_t linear(maker *m, uint32_t x, int64_t rows, int64_t columns, tv_activation activation, uint32_t residual);

/* Of both axes. */
typedef struct window {
    int64_t kernel, stride, pad, dilation;
} window;

tv_graph_lists lists_of(window g);

typedef struct conv_size {
    int64_t out, in;
    uint32_t groups;
    window g;
} conv_size;

/* Like linear. */
uint32_t conv(maker *m, uint32_t x, conv_size s, uint32_t residual, tv_activation activation);
uint32_t pool(maker *m, tv_graph_op op, uint32_t x, window g);
uint32_t reshape(maker *m, uint32_t x, tv_graph_shape shape);
uint32_t transpose(maker *m, uint32_t x, const uint32_t *perm, uint32_t rank);

/* ---- Networks ---- */

typedef struct network {
    const char *name;
    uint32_t (*make)(maker *m); /* the output */
    tv_graph_shape shape;       /* of the inputs */
    bool two_inputs;
} network;

tv_graph *make_graph(const network *n);

/* ---- Runs ---- */

/* Prints messages. */
extern const tv_diag_sink print_sink;

enum { INPUTS_MAX = 2 };

/* A graph on the host with random inputs from -2 to 2. */
typedef struct reference {
    tv_graph *graph;
    void *host; /* keeps all values */
    tv_tensor x[INPUTS_MAX];
    const tv_tensor *inputs[INPUTS_MAX], *output;
    float *ranges; /* the largest magnitude of each value */
} reference;

/* Takes the graph. */
void run_reference(reference *r, tv_graph *graph);
void free_reference(reference *r);
/* Cosine similarity; 0 if one of them is 0. */
double similarity(const tv_tensor *a, const tv_tensor *b);

#endif
