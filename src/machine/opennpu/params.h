/* SPDX-License-Identifier: Apache-2.0 */
/* Indices of the OpenNPU machine's parameters, and their schema. */
#ifndef TV_MACHINE_OPENNPU_PARAMS_H
#define TV_MACHINE_OPENNPU_PARAMS_H

#include "base/schema.h"

enum {
#define TV_PARAM(id, key, type, unit, default_value, min, max, meaning) OPENNPU_PARAM_##id,
#include "machine/opennpu/params.def"
#undef TV_PARAM
    OPENNPU_PARAM_COUNT
};

extern const tv_schema opennpu_schema;
extern const struct tv_target tv_target_opennpu;

#endif
