/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of an instruction, for its energy. Each instruction adds a few numbers to a tally; the actions follow
 * from it when they are read. */
#ifndef TV_MACHINE_PCCX_ACTIONS_H
#define TV_MACHINE_PCCX_ACTIONS_H

#include "machine/pccx/op.h"
#include "sim/energy.h"

typedef struct pccx_tally {
    uint64_t units[PCCX_STORAGES][2]; /* of ranges: read, written */
    uint64_t constants[2];            /* entries read, written */
    uint64_t macs, stream_bytes;
    uint64_t inputs, results;      /* of GEMV and GEMM: activations, outputs */
    uint64_t scaled;               /* results that are scaled a second time */
    uint64_t sums;                 /* binary32 sums and comparisons */
    uint64_t array_reads;          /* activations that the arrays read */
    uint64_t partial_sums;         /* that the arrays read and write */
    uint64_t elements[PCCX_INSNS]; /* of CVO, by row */
    uint64_t function_results;     /* of CVO */
    uint64_t quotients;            /* of a scalar */
    uint64_t femtojoules;          /* of extensions */
} pccx_tally;

void pccx_count_actions(const pccx_op *op, pccx_tally *tally);

/* Adds the actions of a tally, without fetching and decoding, to counts[TV_ACTION_COUNT]. */
void pccx_add_actions(const pccx_tally *tally, uint64_t *counts);

/* Adds fetching and decoding `times` instructions. */
static inline void pccx_count_issue(uint64_t times, uint64_t *counts)
{
    counts[TV_ACTION_FETCH] += PCCX_INSN_BYTES * times;
    counts[TV_ACTION_DECODE] += times;
}

/* The work of instructions. */
typedef struct pccx_counters {
    uint64_t macs[PCCX_STREAMS];
    uint64_t bytes[PCCX_PATHS];
    pccx_tally tallies[PCCX_ACCOUNTS]; /* by engine */
} pccx_counters;

void pccx_count_work(pccx_counters *counters, const pccx_op *op);

/* a += b, and a -= b. */
void pccx_counters_add(pccx_counters *a, const pccx_counters *b);
void pccx_counters_subtract(pccx_counters *a, const pccx_counters *b);

void pccx_energy_params(const tv_config *config, tv_energy_params *energy);

#endif
