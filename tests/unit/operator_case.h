/* SPDX-License-Identifier: Apache-2.0 */
/* One operator on the host: its operands and what it must compute, written as numbers. */
#ifndef OPERATOR_CASE_H
#define OPERATOR_CASE_H

#include "graph/network.h"
#include "unit.h"

/* A tensor as numbers. Without values it has zeros; `left_out` is an input that is not given. */
typedef struct operand {
    tv_element element;
    uint32_t rank;
    int64_t dims[TV_GRAPH_RANK_MAX];
    const double *values;
    size_t count;
    bool constant, left_out;
} operand;

#define DIMS(...)                                                                                                      \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ }
#define SCALAR                                                                                                         \
    0, { 0 }
#define NUMBERS(...) (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double)
#define TENSOR(type, dims, ...) ((operand){TV_ELEMENT_##type, dims, NUMBERS(__VA_ARGS__), false, false})
#define CONSTANT(type, dims, ...) ((operand){TV_ELEMENT_##type, dims, NUMBERS(__VA_ARGS__), true, false})
#define ZEROS(type, dims) ((operand){TV_ELEMENT_##type, dims, NULL, 0, false, false})
#define LEFT_OUT ((operand){.left_out = true})
#define INPUTS(...) (const operand[]){__VA_ARGS__}, sizeof((operand[]){__VA_ARGS__}) / sizeof(operand)

/* Computes the operator through tv_network_host and requires element type, shape and elements of the result: NaN equals
 * NaN, other numbers may differ by `tolerance` times the larger of 1 and their magnitude. */
void expect(tv_graph_op op, const operand *inputs, size_t count, const tv_graph_attrs *attrs, operand result,
            double tolerance);

/* Requires that the operator is rejected with this text. */
void expect_rejection(tv_graph_op op, const operand *inputs, size_t count, const tv_graph_attrs *attrs,
                      const char *problem);

/* A graph of one operator, and the operands that are its inputs. */
typedef struct operator_graph {
    tv_graph *graph;
    uint32_t output;
    tv_tensor given[TV_GRAPH_INPUTS_MAX];
    const tv_tensor *inputs[TV_GRAPH_INPUTS_MAX];
} operator_graph;

/* Builds a graph that must be accepted. The caller releases it with operator_graph_fini. */
void operator_graph_init(operator_graph *g, tv_graph_op op, const operand *inputs, size_t count,
                         const tv_graph_attrs *attrs);
void operator_graph_fini(operator_graph *g);

/* The result of an operator that must be accepted. The caller releases it with tv_tensor_fini. */
tv_tensor compute_operator(tv_graph_op op, const operand *inputs, size_t count, const tv_graph_attrs *attrs,
                           unsigned threads);

#endif
