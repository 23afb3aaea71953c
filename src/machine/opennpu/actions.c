/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of an instruction (docs/energy.md). They follow from its row, the class of its SIZED registers and its
 * keep attribute, its profile: a run counts how often each profile was executed, and the actions are added up when they
 * are read. Data are never read. */
#include "machine/opennpu/internal.h"
#include "machine/opennpu/params.h"

const char *const opennpu_engine_names[OPENNPU_ENGINES] = {
    [OPENNPU_ENGINE_VALU] = "VALU",
    [OPENNPU_ENGINE_MMA] = "MMA",
    [OPENNPU_ENGINE_PORT] = "PORT",
    [OPENNPU_ENGINE_ISSUE] = "ISSUE",
};

static uint64_t lane_bytes(const opennpu_opcode *row, unsigned r, unsigned class_)
{
    return UINT64_C(1) << (row->class_[r] == TV_CLASS_FIELD ? class_ : row->class_[r]);
}

/* Bytes of a register that an instruction reads or writes. An address is lane 0 of a VR. */
static uint64_t register_bytes(const opennpu_opcode *row, unsigned r, unsigned class_, uint32_t k)
{
    bool address = r == OPENNPU_RS1 && row->effects & (OPENNPU_LOADS | OPENNPU_STORES);
    bool lane0 = address || (r == OPENNPU_RD && row->effects & OPENNPU_LANE0_ONLY);
    return lane_bytes(row, r, class_) * (lane0 ? 1 : k);
}

static void count_lanes(const opennpu_opcode *row, unsigned class_, uint32_t k, uint64_t *counts)
{
    /* Reductions and integers of another class than the row's take the width of their first source. */
    unsigned width = row->class_[OPENNPU_RS1] == TV_CLASS_FIELD ? class_ : row->class_[OPENNPU_RS1];
    switch ((opennpu_work)row->work) {
    case OPENNPU_WORK_NONE:
        return;
    case OPENNPU_WORK_INTEGER:
        counts[TV_ACTION_LANE_INT8 + width] += k;
        return;
    case OPENNPU_WORK_PRODUCT:
        counts[TV_ACTION_LANE_MUL8 + width] += k;
        return;
    case OPENNPU_WORK_FP_ADD:
        counts[TV_ACTION_LANE_FP_ADD] += k;
        return;
    case OPENNPU_WORK_FP_MUL:
        counts[TV_ACTION_LANE_FP_MUL] += k;
        return;
    case OPENNPU_WORK_FP_FMA:
        counts[TV_ACTION_LANE_FP_FMA] += k;
        return;
    case OPENNPU_WORK_CONVERT:
        counts[TV_ACTION_LANE_CONVERT] += k;
        return;
    }
}

static void count_array(const opennpu_opcode *row, bool keep, uint64_t k, uint64_t *counts)
{
    enum { SUM_BYTES = 4 };
    bool reads = row->effects & OPENNPU_READS_ACC || (keep && row->effects & OPENNPU_READS_ACC_IF_KEEP);
    counts[TV_ACTION_MAC_INT8_INT8] += row->effects & OPENNPU_EXTENSION ? 0 : row->macs;
    if (row->effects & OPENNPU_WRITES_ACC)
        counts[TV_ACTION_ACCUMULATOR_WRITE] += SUM_BYTES * k * k;
    if (row->effects & OPENNPU_MULTIPLIES && reads)
        counts[TV_ACTION_ACCUMULATOR_READ] += SUM_BYTES * k * k;
    if (row->effects & OPENNPU_DRAINS)
        counts[TV_ACTION_ACCUMULATOR_READ] += SUM_BYTES * k;
}

void opennpu_count_actions(const opennpu_opcode *row, unsigned class_, bool keep, uint32_t k, uint64_t *counts)
{
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++) {
        if (row->reads >> r & 1)
            counts[TV_ACTION_REGISTER_READ] += register_bytes(row, r, class_, k);
        if (row->writes >> r & 1)
            counts[TV_ACTION_REGISTER_WRITE] += register_bytes(row, r, class_, k);
    }
    count_lanes(row, class_, k, counts);
    count_array(row, keep, k, counts);
    counts[TV_ACTION_EXTENSION] += row->femtojoules;
    if (row->effects & OPENNPU_READS_LUT)
        counts[TV_ACTION_LUT_READ] += k;
    if (row->effects & OPENNPU_WRITES_LUT)
        counts[TV_ACTION_LUT_WRITE] += 4 * (uint64_t)k;
    counts[row->effects & OPENNPU_STORES ? TV_ACTION_MEMORY_WRITE : TV_ACTION_MEMORY_READ] += row->port_bytes;
}

void opennpu_count_issue(uint64_t times, uint64_t *counts)
{
    enum { WORD_BYTES = 4 };
    counts[TV_ACTION_FETCH] += WORD_BYTES * times;
    counts[TV_ACTION_DECODE] += times;
}

void opennpu_actions(const void *state, tv_action_table *out)
{
    const opennpu_machine *m = state;
    out->table = &m->timing.energy;
    out->count = OPENNPU_ENGINES;
    for (unsigned e = 0; e < OPENNPU_ENGINES; e++)
        out->engines[e] = (tv_engine_actions){.name = opennpu_engine_names[e]};
    for (unsigned p = 0; p < m->opcodes.count * OPENNPU_PROFILES; p++) {
        const opennpu_opcode *row = &m->opcodes.rows[p / OPENNPU_PROFILES];
        uint64_t counts[TV_ACTION_COUNT] = {0}, times = m->executed[p];
        if (!times)
            continue;
        opennpu_count_actions(row, p % OPENNPU_PROFILES / 2, p & 1, m->k, counts);
        for (unsigned i = 0; i < TV_ACTION_COUNT; i++)
            out->engines[row->engine].counts[i] += counts[i] * times;
        opennpu_count_issue(times, out->engines[OPENNPU_ENGINE_ISSUE].counts);
    }
}

opennpu_totals opennpu_totals_of(const opennpu_machine *m)
{
    opennpu_totals totals = {0};
    for (unsigned p = 0; p < m->opcodes.count * OPENNPU_PROFILES; p++) {
        const opennpu_opcode *row = &m->opcodes.rows[p / OPENNPU_PROFILES];
        totals.macs += m->executed[p] * row->macs;
        totals.bytes[row->effects & OPENNPU_STORES ? 1 : 0] += m->executed[p] * row->port_bytes;
    }
    return totals;
}

void opennpu_energy_params(const tv_config *config, tv_energy_params *energy)
{
    enum { FETCH_BYTES = 4096 }; /* the instruction memory is not specified */
    const uint64_t k = tv_config_integer(config, OPENNPU_PARAM_K), l = tv_config_integer(config, OPENNPU_PARAM_L);
    tv_energy_params_init(energy, config, OPENNPU_PARAM_ENERGY_PROCESS,
                          tv_config_integer(config, OPENNPU_PARAM_CORE_HZ));
    energy->bytes[TV_COMPONENT_REGISTER] = l * k;
    energy->bytes[TV_COMPONENT_ACCUMULATOR] = 4 * k * k;
    energy->bytes[TV_COMPONENT_LUT] = OPENNPU_LUT_ENTRIES;
    energy->bytes[TV_COMPONENT_FETCH] = FETCH_BYTES;
    energy->bytes[TV_COMPONENT_MEMORY] = tv_config_integer(config, OPENNPU_PARAM_MEM_BYTES);
    energy->arithmetic = TV_HAS_ACTION(MAC_INT8_INT8) | TV_HAS_ACTION(LANE_INT8) | TV_HAS_ACTION(LANE_INT16) |
                         TV_HAS_ACTION(LANE_INT32) | TV_HAS_ACTION(LANE_MUL8) | TV_HAS_ACTION(LANE_MUL16) |
                         TV_HAS_ACTION(LANE_MUL32) | TV_HAS_ACTION(LANE_FP_ADD) | TV_HAS_ACTION(LANE_FP_MUL) |
                         TV_HAS_ACTION(LANE_FP_FMA) | TV_HAS_ACTION(LANE_CONVERT);
    energy->arithmetic |= *tv_isa_opennpu.extensions ? TV_HAS_ACTION(EXTENSION) : 0;
}
