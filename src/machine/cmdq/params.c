/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's parameters as numbers, and the numbering of its engines: DMA channels, tensor, vector engines. */
#include "machine/cmdq/params.h"

#include <stdio.h>

void cmdq_params_init(cmdq_params *params, const tv_config *config)
{
    static const char *const names[CMDQ_SYNC] = {"DMA", "TE", "VE"};
    static const unsigned counts[CMDQ_SYNC] = {CMDQ_PARAM_DMA_COUNT, CMDQ_PARAM_TE, CMDQ_PARAM_VE};
    *params = (cmdq_params){
        .config = config,
        .banks = (unsigned)tv_config_integer(config, CMDQ_PARAM_SPM_BANKS),
        .bank_bytes = tv_config_integer(config, CMDQ_PARAM_SPM_BANK_BYTES),
        .dram_bytes = tv_config_integer(config, CMDQ_PARAM_DRAM_BYTES),
        .alignment = tv_config_integer(config, CMDQ_PARAM_DMA_ALIGNMENT),
        .bus_width = tv_config_integer(config, CMDQ_PARAM_DMA_BUS_WIDTH),
        .burst = tv_config_integer(config, CMDQ_PARAM_DMA_BURST),
        .peak = tv_config_integer(config, CMDQ_PARAM_DMA_PEAK),
        .conflict = tv_config_integer(config, CMDQ_PARAM_DMA_CONFLICT),
        .te_base = tv_config_integer(config, CMDQ_PARAM_TE_BASE),
        .te_init = tv_config_integer(config, CMDQ_PARAM_TE_INIT),
        .te_finalize = tv_config_integer(config, CMDQ_PARAM_TE_FINALIZE),
        .ve_lanes = tv_config_integer(config, CMDQ_PARAM_VE_LANES),
        .ve_init = tv_config_integer(config, CMDQ_PARAM_VE_INIT),
        .ve_finalize = tv_config_integer(config, CMDQ_PARAM_VE_FINALIZE),
        .ve_reduction = tv_config_integer(config, CMDQ_PARAM_VE_REDUCTION),
        .ve_sfu = tv_config_integer(config, CMDQ_PARAM_VE_SFU),
        .te_weight4 = tv_config_rate(config, CMDQ_PARAM_TE_WEIGHT4),
        .te_weight2 = tv_config_rate(config, CMDQ_PARAM_TE_WEIGHT2),
        .te_activation4 = tv_config_rate(config, CMDQ_PARAM_TE_ACTIVATION4),
        .te_float16 = tv_config_rate(config, CMDQ_PARAM_TE_FLOAT16),
        .te_float32 = tv_config_rate(config, CMDQ_PARAM_TE_FLOAT32),
        .ve_ops = tv_config_rate(config, CMDQ_PARAM_VE_OPS),
        .ve_activation8 = tv_config_rate(config, CMDQ_PARAM_VE_ACTIVATION8),
        .ve_activation4 = tv_config_rate(config, CMDQ_PARAM_VE_ACTIVATION4),
        .weights = {tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_WEIGHT),
                    tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_ACTIVATION),
                    tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_KV),
                    tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_EMBEDDING),
                    tv_config_integer(config, CMDQ_PARAM_DMA_WEIGHT_AUX)},
    };
    while ((params->te_depth + 1) * (params->te_depth + 1) <= params->te_base)
        params->te_depth++;
    double bus = (double)params->bus_width / (double)params->burst;
    bool is_bus = bus <= (double)params->peak;
    params->reachable = is_bus ? bus : (double)params->peak;
    params->limited_by = !is_bus              ? "dma.peak_bw"
                         : params->burst == 1 ? "dma.bus_width_bytes"
                                              : "dma.bus_width_bytes / dma.dram_burst_cycles";
    for (unsigned c = 0; c < CMDQ_SYNC; c++) {
        params->first[c] = params->engines;
        params->count[c] = (unsigned)tv_config_integer(config, counts[c]);
        for (unsigned i = 0; i < params->count[c]; i++)
            snprintf(params->names[params->engines++], sizeof params->names[0], "%s%u", names[c], i & 31);
        if (c != CMDQ_DMA)
            continue;
        params->channels = params->count[c];
        if (tv_config_integer(config, CMDQ_PARAM_DMA_KV)) {
            static const char *const kv_names[] = {"kv_store", "kv_load"};
            for (unsigned i = 0; i < TV_COUNTOF(kv_names); i++, params->count[c]++)
                snprintf(params->names[params->engines++], sizeof params->names[0], "%s", kv_names[i]);
        }
    }
}
