/* SPDX-License-Identifier: Apache-2.0 */
/* How far results of a machine may be from those of the host, from the machine's number formats.
 *
 * The bound of each element is propagated through the network: the error of a node's output is what the errors of its
 * inputs can change, plus the rounding of the machine's arithmetic, plus the rounding to the format that stores the
 * output. Nothing of it is measured on the machine:
 * - a stored value: half a step of its format, r / 254 for INT8 of range r, and half a unit in the last place for
 *   binary16, BF16 and binary32;
 * - products, with e the errors of x and d those of the weights w, half a step of the scale of their channel: the
 *   product of e and |w|, plus that of |x| + e and d;
 * - elementwise functions: the largest difference at points between x - e and x + e;
 * - sums: the sum of the errors; maxima: the largest one; moves: the error of the element that is moved;
 * - Softmax: y (exp(e + max e) - 1); norms: from the error of x - mean and of the root of the squares' mean. */
#ifndef TESTS_NETWORKS_TOLERANCE_H
#define TESTS_NETWORKS_TOLERANCE_H

#include "graph/graph.h"

typedef struct tolerance_machine tolerance_machine;

/* The formats of a machine; NULL: it is not known. */
const tolerance_machine *tolerance_find_machine(const char *name);

typedef struct tolerance {
    const tv_graph *graph;
    const tolerance_machine *machine;
    const float *ranges;      /* [value_count], of the calibration */
    void *host;               /* state of tv_network_host */
    const tv_tensor **values; /* [value_count]: of the host; NULL: none */
    float **errors;           /* [value_count]: bounds of the elements; NULL: 0 */
    uint32_t *groups;         /* [value_count]: a value that shares the format */
    bool *integers;           /* [value_count]: of a group: INT8 */
    float *group_ranges;      /* [value_count]: of a group */
    char problem[128];        /* why there is no bound */
} tolerance;

struct tolerance_machine {
    const char *name;
    bool integers;        /* values that products, convolutions and pools read are INT8 with one scale */
    double unit, tiny;    /* half a unit in the last place of other values, relative; and of the smallest ones */
    double result;        /* of values that are results, relative */
    bool rounds_operands; /* products round values to INT8, which are stored as they are */
    double weight_steps;  /* the range of the weights of an output channel in half steps; 0: two planes of INT4 */
    bool finite;          /* it has no infinity and no NaN: the largest number, or any */

    /* Adds what the instructions of a node round between its inputs and its output; NULL: what tolerance_rules.c does.
     */
    void (*add)(const tolerance *t, const tv_graph_node *node, float *errors);
    /* Likewise of the activation y that is fused with a product x. */
    double (*activation)(const tolerance *t, const tv_graph_node *node, double x, double y);
};

/* Executes the network on the host and computes the bounds. False: there is none, for the reason in `problem`. The
 * caller releases *t with tolerance_fini in any case. */
bool tolerance_init(tolerance *t, const tv_graph *graph, const tolerance_machine *machine, const float *ranges,
                    const tv_tensor *const *inputs);
void tolerance_fini(tolerance *t);

/* ---- tolerance_rules.c ---- */

/* Sets the errors of the output of a node, before it is stored: [elements], zeros. False: there is no rule. */
bool tolerance_bound_node(tolerance *t, const tv_graph_node *node, float *errors);

/* Computes a node of other inputs than its own: those that are not NULL in `others`, of binary32. Adds the results to
 * `out`. */
void tolerance_evaluate(const tolerance *t, const tv_graph_node *node, const tv_tensor *const *others, float *out);

double tolerance_value(const tolerance *t, uint32_t value, uint64_t i);
double tolerance_error(const tolerance *t, uint32_t value, uint64_t i);

/* [count] zeros. */
float *tolerance_new_floats(uint64_t count);

/* Sets t->problem; returns false. */
bool tolerance_fail(tolerance *t, const char *problem, const char *name);

static inline uint64_t tolerance_count(const tolerance *t, uint32_t value)
{
    return tv_graph_elements(t->graph, value);
}

/* ---- tolerance_pccx.c, tolerance_opennpu.c ---- */

void tolerance_add_pccx(const tolerance *t, const tv_graph_node *node, float *errors);
double tolerance_pccx_activation(const tolerance *t, const tv_graph_node *node, double x, double y);
void tolerance_add_opennpu(const tolerance *t, const tv_graph_node *node, float *errors);
double tolerance_opennpu_activation(const tolerance *t, const tv_graph_node *node, double x, double y);

/* Of a product of pccx: half a step of its activations, which are INT8 with a scale for each row; the error of a weight
 * of row w[count], in two planes of INT4; and the units in the last place that its sums lose. */
double tolerance_pccx_activation_step(const tolerance *t, uint32_t value);
double tolerance_pccx_weight_error(const float *w, uint64_t count);
double tolerance_pccx_sum_units(const tolerance *t, const tv_graph_node *node);

#endif
