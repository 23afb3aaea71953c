/* SPDX-License-Identifier: Apache-2.0 */
/* A sweep and its points, for the files that run and export it. */
#ifndef TV_SWEEP_SWEEP_H
#define TV_SWEEP_SWEEP_H

#include "sweep/evaluate.h"
#include "sweep/store.h"
#include "trivet/sweep.h"

typedef struct sweep_point {
    unsigned target;       /* index in the specification */
    uint64_t id;           /* in the space of the target */
    sweep_result *results; /* of each workload; those that do not run on the target have no outcome */
    double objectives[TV_SWEEP_OBJECTIVES_MAX];
    bool failed, on_front;
} sweep_point;

/* A parameter that any target varies. */
typedef struct sweep_column {
    const char *key;
    int dims[SPEC_TARGETS_MAX]; /* dimension in the space of each target, or -1 */
} sweep_column;

struct tv_sweep {
    sweep_spec spec;
    const sweep_services *services;
    sweep_context *first; /* of the thread that opened the sweep */
    TV_VEC(sweep_point) points;
    TV_VEC(sweep_column) columns;
};

/* Whether workload `w` runs on target `t`. */
bool tv_sweep_runs_on(const tv_sweep *sweep, size_t w, unsigned t);

/* tv_sweep_open with the services of the layer above. */
tv_status tv_sweep_open_with(const char *path, const sweep_services *services, const tv_diag_sink *sink,
                             tv_sweep **out);

void tv_sweep_clear_points(tv_sweep *sweep);

#endif
