/* SPDX-License-Identifier: Apache-2.0 */
/* Indices of the CMDQ machine's parameters, and their schema. */
#ifndef TV_MACHINE_CMDQ_PARAMS_H
#define TV_MACHINE_CMDQ_PARAMS_H

#include "base/schema.h"

enum {
#define TV_PARAM(id, key, type, unit, default_value, min, max, meaning) CMDQ_PARAM_##id,
#include "machine/cmdq/params.def"
#undef TV_PARAM
    CMDQ_PARAM_COUNT
};

extern const tv_schema cmdq_schema;
extern const struct tv_target tv_target_cmdq;

#endif
