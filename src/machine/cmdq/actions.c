/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of an entry (docs/energy.md), from its operation record: bytes from its tiles, arithmetic from its sizes.
 * They are added up when a queue is resolved. Data are never read. */
#include "machine/cmdq/ops.h"

/* What a vector engine does, in binary32. */
typedef struct work {
    uint8_t sums, products, multiply_adds; /* of each element */
    uint8_t function;                      /* of each element: an action, or 0 */
    uint8_t roots, reciprocals;            /* of each row */
} work;

static const work works[] = {
    [CMDQ_WORK_NONE] = {0},
    [CMDQ_WORK_LAYERNORM] = {.sums = 2, .multiply_adds = 2, .roots = 1, .reciprocals = 1},
    [CMDQ_WORK_RMSNORM] = {.products = 2, .multiply_adds = 1, .roots = 1, .reciprocals = 1},
    [CMDQ_WORK_SOFTMAX] = {.sums = 3, .products = 1, .function = TV_ACTION_SFU_EXP, .reciprocals = 1},
    [CMDQ_WORK_ACTIVATION] = {.function = TV_ACTION_SFU_ACTIVATION},
    [CMDQ_WORK_ROPE] = {.products = 1, .multiply_adds = 1, .function = TV_ACTION_SFU_TRIG},
    [CMDQ_WORK_SUM] = {.sums = 1},
    [CMDQ_WORK_PRODUCT] = {.products = 1},
    [CMDQ_WORK_MULTIPLY_ADD] = {.multiply_adds = 1},
};

/* Elements of the images are those under the kernel. */
static void count_vector(const cmdq_op *op, uint64_t *counts)
{
    const work *w = &works[op->handlers->work];
    bool image = op->input_count != 0;
    uint64_t inputs = image ? op->input_count : op->m * op->k, elements = image ? op->m * op->n * op->k : inputs;
    unsigned function = op->function ? op->function : w->function;
    counts[TV_ACTION_LANE_FP_ADD] += op->function ? 0 : elements * w->sums;
    counts[TV_ACTION_LANE_FP_MUL] += elements * w->products;
    counts[TV_ACTION_LANE_FP_FMA] += elements * w->multiply_adds;
    if (function)
        counts[function] += elements;
    counts[TV_ACTION_SFU_SQRT] += op->m * w->roots;
    counts[TV_ACTION_SFU_RECIP] += op->m * w->reciprocals;
    counts[TV_ACTION_LANE_CONVERT] += inputs + (cmdq_find_tile(op, CMDQ_IN2) ? inputs : 0) + op->m * op->n;
}

/* Each group of k has its own scale of weights. */
static void count_tensor(const cmdq_params *params, const cmdq_op *op, uint64_t *counts)
{
    enum { FLOAT_BYTES = 4 };
    const cmdq_tile *scales = cmdq_find_tile(op, CMDQ_SCALES), *out = cmdq_find_tile(op, CMDQ_OUT);
    uint64_t results = op->m * op->n, groups = scales ? scales->bytes / (FLOAT_BYTES * op->n) : 1;
    uint64_t terms = groups - 1 + (cmdq_find_tile(op, CMDQ_BIAS) != NULL) +
                     (cmdq_find_tile(op, CMDQ_RESIDUAL) != NULL) + (out && out->reads);
    uint64_t sums = FLOAT_BYTES * results * tv_ceil_div(op->k, params->te_depth);
    counts[tv_mac_action(op->weight_bits, op->activation_bits)] += op->macs;
    counts[TV_ACTION_ACCUMULATOR_READ] += sums;
    counts[TV_ACTION_ACCUMULATOR_WRITE] += sums;
    counts[TV_ACTION_LANE_FP_MUL] += results * (2 * groups + 1);
    counts[TV_ACTION_LANE_FP_ADD] += results * terms;
    counts[TV_ACTION_LANE_CONVERT] += results;
    counts[TV_ACTION_SFU_ACTIVATION] += results * op->special_functions;
}

static void count_bytes(const cmdq_op *op, uint64_t *counts)
{
    for (unsigned i = 0; i < op->tile_count; i++) {
        const cmdq_tile *t = &op->tiles[i];
        bool dram = t->bank == CMDQ_NO_BANK;
        if (t->reads)
            counts[dram ? TV_ACTION_MEMORY_READ : TV_ACTION_SPM_READ] += t->bytes * t->rows;
        if (t->writes)
            counts[dram ? TV_ACTION_MEMORY_WRITE : TV_ACTION_SPM_WRITE] += t->bytes * t->rows;
    }
}

void cmdq_count_actions(const cmdq_params *params, const cmdq_op *op, uint64_t *counts)
{
    count_bytes(op, counts);
    counts[TV_ACTION_EXTENSION] += op->femtojoules;
    if (op->handlers->is_extension)
        return;
    if (op->handlers->engine_class == CMDQ_TE)
        count_tensor(params, op, counts);
    else if (op->handlers->engine_class == CMDQ_VE)
        count_vector(op, counts);
}

void cmdq_count_issue(uint64_t entries, uint64_t *counts)
{
    enum { DESCRIPTOR_BYTES = 64 }; /* the binary form of an entry is not published */
    counts[TV_ACTION_FETCH] += DESCRIPTOR_BYTES * entries;
    counts[TV_ACTION_DECODE] += entries;
}

/* ---- Of a machine ---- */

static void add_counts(uint64_t *sum, const uint64_t *counts)
{
    for (unsigned i = 0; i < TV_ACTION_COUNT; i++)
        sum[i] += counts[i];
}

/* Adds the actions of the machine's engines. */
static void add_actions(const cmdq_machine *m, cmdq_actions *sum, const cmdq_actions *from)
{
    for (unsigned e = 0; e < m->params.engines; e++)
        add_counts(sum->counts[e], from->counts[e]);
    add_counts(sum->counts[CMDQ_CONTROL], from->counts[CMDQ_CONTROL]);
}

void cmdq_add_executed(const cmdq_machine *m, cmdq_actions *sum)
{
    if (!m->program)
        return;
    if (m->next == m->plan.count) {
        add_actions(m, sum, &m->plan.actions);
    } else {
        for (uint32_t n = 0; n < m->next; n++) {
            uint32_t entry = cmdq_plan_entry(&m->plan, n);
            cmdq_op op;
            cmdq_resolve_planned(cmdq_queue_of(m->program), &m->params, entry, &op);
            if (m->plan.engine[entry] != CMDQ_NO_ENGINE)
                cmdq_count_actions(&m->params, &op, sum->counts[m->plan.engine[entry]]);
        }
        cmdq_count_issue(m->next, sum->counts[CMDQ_CONTROL]);
    }
}

void cmdq_get_actions(const void *state, tv_action_table *out)
{
    const cmdq_machine *m = state;
    cmdq_actions sum = m->actions;
    cmdq_add_executed(m, &sum);
    out->table = &m->params.energy;
    out->count = m->params.engines + 1;
    for (unsigned e = 0; e < out->count; e++) {
        bool control = e == m->params.engines;
        out->engines[e].name = control ? "control" : m->params.names[e];
        memcpy(out->engines[e].counts, sum.counts[control ? CMDQ_CONTROL : e], sizeof sum.counts[0]);
    }
}

void cmdq_energy_params(const tv_config *config, tv_energy_params *energy)
{
    enum { FETCH_BYTES = 4096 }; /* the memory of the queue is not specified */
    tv_energy_params_init(energy, config, CMDQ_PARAM_ENERGY_PROCESS, tv_config_integer(config, CMDQ_PARAM_CORE_HZ));
    energy->bytes[TV_COMPONENT_SPM] = tv_config_integer(config, CMDQ_PARAM_SPM_BANK_BYTES);
    energy->bytes[TV_COMPONENT_ACCUMULATOR] = 4 * tv_config_integer(config, CMDQ_PARAM_TE_BASE);
    energy->bytes[TV_COMPONENT_FETCH] = FETCH_BYTES;
    energy->bytes[TV_COMPONENT_MEMORY] = tv_config_integer(config, CMDQ_PARAM_DRAM_BYTES);
    for (unsigned i = TV_ACTION_MAC_INT2_INT2; i <= TV_ACTION_MAC_FP32; i++)
        energy->arithmetic |= UINT64_C(1) << i;
    for (unsigned i = TV_ACTION_LANE_FP_ADD; i <= TV_ACTION_SFU_POW; i++)
        energy->arithmetic |= UINT64_C(1) << i;
    energy->arithmetic |= *tv_isa_cmdq.extensions ? TV_HAS_ACTION(EXTENSION) : 0;
}
