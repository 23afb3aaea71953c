/* SPDX-License-Identifier: Apache-2.0 */
/* The CMDQ machine's parameters: their indices and schema, and their values as the machine uses them. */
#ifndef TV_MACHINE_CMDQ_PARAMS_H
#define TV_MACHINE_CMDQ_PARAMS_H

#include "base/schema.h"
#include "isa/cmdq/cmdq.h"
#include "sim/energy.h"

enum { CMDQ_ENGINES_MAX = 26 };

enum {
#define TV_PARAM(id, key, type, unit, default_value, min, max, meaning) CMDQ_PARAM_##id,
#include "machine/cmdq/params.def"
#undef TV_PARAM
    CMDQ_PARAM_COUNT
};

/* The parameters of params.def, read from a configuration. Engines are numbered class by class. */
typedef struct cmdq_params {
    const tv_config *config;   /* borrowed */
    unsigned count[CMDQ_SYNC]; /* engines of each class */
    unsigned first[CMDQ_SYNC]; /* number of the first engine of each class */
    unsigned engines;
    unsigned channels; /* DMA engines without kv_store and kv_load, which follow them */
    unsigned banks;
    uint64_t bank_bytes, dram_bytes;
    uint64_t alignment, bus_width, burst, peak, conflict;
    double reachable;       /* bytes per cycle of all channels together: bursts over the bus, at most `peak` */
    const char *limited_by; /* the parameters that set `reachable` */
    uint64_t weights[CMDQ_ROLES];
    uint64_t te_depth; /* products that are added before a partial sum is stored: the side of a square array */
    uint64_t te_base, te_init, te_finalize, ve_lanes, ve_init, ve_finalize, ve_reduction, ve_sfu;
    tv_rate te_weight4, te_weight2, te_activation4, te_float16, te_float32, ve_ops, ve_activation8, ve_activation4;
    char names[CMDQ_ENGINES_MAX][12]; /* "DMA0" */
    tv_energy_table energy;           /* for events */
} cmdq_params;

void cmdq_params_init(cmdq_params *params, const tv_config *config);

extern const tv_schema cmdq_schema;
extern const struct tv_target tv_target_cmdq;

#endif
