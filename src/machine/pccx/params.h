/* SPDX-License-Identifier: Apache-2.0 */
/* Indices of the pccx machine's parameters, and their schema. */
#ifndef TV_MACHINE_PCCX_PARAMS_H
#define TV_MACHINE_PCCX_PARAMS_H

#include "base/schema.h"

enum {
#define TV_PARAM(id, key, type, unit, default_value, min, max, meaning) PCCX_PARAM_##id,
#include "machine/pccx/params.def"
#undef TV_PARAM
    PCCX_PARAM_COUNT
};

/* window.map */
enum { PCCX_WINDOW_HALVES, PCCX_WINDOW_WORD };

/* gemv.parallel_lane */
enum { PCCX_PARALLEL_CORES, PCCX_PARALLEL_LANES };

extern const tv_schema pccx_schema;
extern const struct tv_target tv_target_pccx;

#endif
