/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of an instruction (docs/energy.md), from its operation: bytes from its ranges, multiply-adds and
 * accesses of the arrays' memories from its dimensions. Data are never read. */
#include "machine/pccx/actions.h"
#include "machine/pccx/params.h"

/* Of each element, by row of the instruction table; 0, which is no action of an SFU, for the others. */
static const uint8_t element_actions[PCCX_INSNS] = {
#define PCCX_CVO(id, key, fill, action) [PCCX_##id] = TV_ACTION_##action,
#include "machine/pccx/cvo.def"
};

/* An array reads its activations again for each group of columns, and a partial sum for each group of rows. */
static void count_matrix(const pccx_op *op, pccx_tally *t)
{
    uint64_t inputs = (uint64_t)op->m * op->k, results = (uint64_t)op->m * op->n;
    t->macs += op->macs;
    t->stream_bytes += op->stream_bytes;
    t->inputs += inputs;
    t->results += results;
    t->array_reads += inputs * op->n_steps;
    t->partial_sums += results * op->k_steps;
    if (pccx_MATRIX_w_scale(op->word))
        t->scaled += results;
    t->sums +=
        (op->act_scale ? 0 : inputs) + (op->accumulate ? results : 0) + (pccx_MATRIX_findemax(op->word) ? results : 0);
}

static void count_function(const pccx_op *op, pccx_tally *t)
{
    t->elements[op->row] += op->length;
    t->function_results += op->results;
    t->sums += (pccx_CVO_sub_emax(op->word) ? op->length : 0) + (op->accumulate ? op->results : 0);
    if (pccx_CVO_recip_scale(op->word) && !(op->ignored >> PCCX_IGNORED_RECIP_SCALE & 1))
        t->quotients++;
}

void pccx_count_actions(const pccx_op *op, pccx_tally *t)
{
    for (unsigned i = 0; i < op->range_count; i++) {
        const pccx_range *r = &op->ranges[i];
        t->units[r->storage][r->write] += r->to - r->from;
    }
    for (unsigned i = 0; i < op->constant_count; i++)
        t->constants[op->constants[i].write]++;
    if (op->row >= PCCX_INSNS) { /* of an extension, which states its energy */
        t->femtojoules += op->femtojoules;
        return;
    }
    if (op->macs)
        count_matrix(op, t);
    if (op->length)
        count_function(op, t);
}

void pccx_count_work(pccx_counters *counters, const pccx_op *op)
{
    if (op->path != PCCX_PATH_NONE)
        counters->bytes[op->path] += op->bytes;
    if (op->macs) /* of an extension without weights: as those of vectors */
        counters->macs[op->flow < PCCX_STREAMS ? op->flow : PCCX_STREAM_GEMV] += op->macs;
    pccx_count_actions(op, &counters->tallies[op->engine]);
}

enum { COUNTERS = sizeof(pccx_counters) / sizeof(uint64_t) };
static_assert(sizeof(pccx_counters) == COUNTERS * sizeof(uint64_t), "counters are numbers of 64 bits");

void pccx_counters_add(pccx_counters *a, const pccx_counters *b)
{
    uint64_t *sum = (uint64_t *)a;
    for (unsigned i = 0; i < COUNTERS; i++)
        sum[i] += ((const uint64_t *)b)[i];
}

void pccx_counters_subtract(pccx_counters *a, const pccx_counters *b)
{
    uint64_t *difference = (uint64_t *)a;
    for (unsigned i = 0; i < COUNTERS; i++)
        difference[i] -= ((const uint64_t *)b)[i];
}

static void add_bytes(const pccx_tally *t, uint64_t *counts)
{
    /* By storage: the bytes of a unit and the action of a read; that of a write follows it. */
    static const struct {
        uint8_t bytes, read;
    } storages[PCCX_STORAGES] = {
        [PCCX_STORAGE_L2] = {PCCX_WORD_BYTES, TV_ACTION_L2_READ},
        [PCCX_STORAGE_HOST] = {1, TV_ACTION_MEMORY_READ},
        [PCCX_STORAGE_EMAX] = {0, TV_ACTION_FIFO_READ}, /* one register of the scheduler: not counted */
        [PCCX_STORAGE_FIFO_TO_SFU] = {2, TV_ACTION_FIFO_READ},
        [PCCX_STORAGE_FIFO_TO_GEMV] = {2, TV_ACTION_FIFO_READ},
    };
    for (unsigned s = 0; s < PCCX_STORAGES; s++)
        for (unsigned write = 0; write < 2; write++)
            counts[storages[s].read + write] += t->units[s][write] * storages[s].bytes;
    counts[TV_ACTION_CONSTANT_READ] += t->constants[0] * PCCX_ENTRY_BYTES;
    counts[TV_ACTION_CONSTANT_WRITE] += t->constants[1] * PCCX_ENTRY_BYTES;
    counts[TV_ACTION_MEMORY_READ] += t->stream_bytes;
    counts[TV_ACTION_STREAM_WRITE] += t->stream_bytes;
    counts[TV_ACTION_STREAM_READ] += t->stream_bytes;
}

void pccx_add_actions(const pccx_tally *t, uint64_t *counts)
{
    enum { SUM_BYTES = 4 };
    add_bytes(t, counts);
    counts[TV_ACTION_MAC_INT4_INT8] += t->macs;
    counts[TV_ACTION_LANE_FP_MUL] += t->inputs + t->results + t->scaled;
    counts[TV_ACTION_LANE_FP_ADD] += t->sums;
    counts[TV_ACTION_LANE_CONVERT] += t->inputs + t->results + t->function_results;
    counts[TV_ACTION_L1_WRITE] += t->inputs;
    counts[TV_ACTION_L1_READ] += t->array_reads;
    counts[TV_ACTION_ACCUMULATOR_READ] += SUM_BYTES * t->partial_sums;
    counts[TV_ACTION_ACCUMULATOR_WRITE] += SUM_BYTES * t->partial_sums;
    counts[TV_ACTION_SFU_RECIP] += t->quotients;
    counts[TV_ACTION_EXTENSION] += t->femtojoules;
    for (unsigned row = 0; row < PCCX_INSNS; row++)
        counts[element_actions[row]] += t->elements[row];
}

void pccx_energy_params(const tv_config *config, tv_energy_params *energy)
{
    enum { L1_BYTES = 65536 }; /* as many as the largest K */
    tv_energy_params_init(energy, config, PCCX_PARAM_ENERGY_PROCESS, tv_config_integer(config, PCCX_PARAM_CORE_HZ));
    energy->bytes[TV_COMPONENT_L1] = L1_BYTES;
    energy->bytes[TV_COMPONENT_L2] = tv_config_integer(config, PCCX_PARAM_L2_WORDS) * PCCX_WORD_BYTES;
    energy->bytes[TV_COMPONENT_ACCUMULATOR] =
        4 * tv_config_integer(config, PCCX_PARAM_GEMM_TILE_N) * tv_config_integer(config, PCCX_PARAM_GEMM_MIN_M);
    energy->bytes[TV_COMPONENT_STREAM] = tv_config_integer(config, PCCX_PARAM_STREAM_FIFO);
    energy->bytes[TV_COMPONENT_FIFO] = 2 * tv_config_integer(config, PCCX_PARAM_FIFO_ELEMENTS);
    energy->bytes[TV_COMPONENT_CONSTANT] = (uint64_t)2 * PCCX_CACHE_ENTRIES * PCCX_ENTRY_BYTES;
    energy->bytes[TV_COMPONENT_FETCH] = PCCX_INSN_BYTES * tv_config_integer(config, PCCX_PARAM_CMD_DEPTH);
    energy->bytes[TV_COMPONENT_MEMORY] = tv_config_integer(config, PCCX_PARAM_HOST_BYTES);
    energy->arithmetic = TV_HAS_ACTION(MAC_INT4_INT8) | TV_HAS_ACTION(LANE_FP_ADD) | TV_HAS_ACTION(LANE_FP_MUL) |
                         TV_HAS_ACTION(LANE_CONVERT);
    for (size_t i = 0; i < TV_COUNTOF(element_actions); i++)
        if (element_actions[i])
            energy->arithmetic |= UINT64_C(1) << element_actions[i];
    energy->arithmetic |= *tv_isa_pccx.extensions ? TV_HAS_ACTION(EXTENSION) : 0;
}
