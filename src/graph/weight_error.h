/* SPDX-License-Identifier: Apache-2.0 */
/* The error that the constants of a model get in the formats of a machine, as lowerings report it while they convert
 * them. */
#ifndef TV_GRAPH_WEIGHT_ERROR_H
#define TV_GRAPH_WEIGHT_ERROR_H

#include "graph/matrix.h"

typedef struct tv_weight_error {
    uint64_t count;         /* weights */
    double squares, errors; /* sums of the squares of the weights, and of their errors */
    float max, error_max;   /* largest magnitudes of both */
} tv_weight_error;

/* Receives what a matrix was converted to: `format` is for people. It is called by one thread. */
typedef struct tv_weight_report {
    void (*report)(void *user, const tv_matrix *matrix, const char *format, const tv_weight_error *error); /* or NULL */
    void *user;
} tv_weight_report;

/* Adds n weights with their errors. */
void tv_weight_error_add(tv_weight_error *sum, const float *weights, const float *errors, uint32_t n);

/* Adds the sums of `count` rows, in their order, so that the result does not depend on threads. */
void tv_weight_error_sum(tv_weight_error *sum, const tv_weight_error *rows, size_t count);

/* Rounds a weight to a format of numbers. */
typedef float tv_weight_round_fn(float weight, float unit);

/* Reads a matrix again and reports it as `format`: each weight rounded by `round`, which gets `unit`; NULL: exact. Does
 * nothing without a receiver, or if the matrix has no data. TV_ERR_MEMORY. */
tv_status tv_weight_report_rounded(const tv_weight_report *report, const tv_matrix *matrix, const char *format,
                                   tv_weight_round_fn *round, float unit, const tv_diag_sink *sink);

#endif
