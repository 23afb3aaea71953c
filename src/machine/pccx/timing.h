/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles of the pccx machine: the Global Scheduler, the engines, the weight streams and host memory's bandwidth.
 *
 * The model works instruction by instruction: the issue cycle follows from the ends of the few instructions in flight
 * (one per engine), and an end that depends on bytes is found by moving the flows forward only as far as necessary.
 * The cost grows with instructions and with changes of bandwidth, never with cycles. */
#ifndef TV_MACHINE_PCCX_TIMING_H
#define TV_MACHINE_PCCX_TIMING_H

#include "machine/pccx/op.h"
#include "sim/account.h"
#include "sim/energy.h"
#include "sim/events.h"
#include "sim/share.h"

/* In the order in which a stall cycle is attributed. */
typedef enum pccx_stall_reason {
    PCCX_STALL_SYNC,
    PCCX_STALL_RAW,
    PCCX_STALL_WAR,
    PCCX_STALL_WAW,
    PCCX_STALL_FRONTEND,
    PCCX_STALL_RESOURCE,
    PCCX_STALL_STREAM,
    PCCX_STALL_REASONS
} pccx_stall_reason;

extern const char *const pccx_engine_names[PCCX_ACCOUNTS];
extern const char *const pccx_stall_reason_names[PCCX_STALL_REASONS];
extern const char *const pccx_path_names[PCCX_PATHS];

/* The latest operation of an engine; it may have ended. Its `weights` are NULL if it was not issued here. */
typedef struct pccx_slot {
    pccx_op op;
    bool used, end_known; /* end_known: `end` is valid, and the accounts contain the operation */
    bool forwarded, reported;
    int64_t index;
    uint64_t start, latency_end, end;
} pccx_slot;

typedef struct pccx_timing {
    /* parameters */
    uint64_t decode_latency, acp_setup, move_setup, gemv_setup, gemv_preload_rate, gemm_setup, gemm_tile_k, gemm_tile_n,
        gemm_min_m;
    uint64_t stream_fifo, cvo_tail, forward_tail;
    uint64_t fill[PCCX_INSNS];                /* of CVO functions */
    uint64_t drain_latency[PCCX_ENGINE_NONE]; /* from the last byte of an operation's flow to its end */

    tv_share share; /* by flow */
    uint64_t stream_total[PCCX_STREAMS], stream_taken[PCCX_STREAMS];
    pccx_slot slots[PCCX_ENGINE_NONE];
    tv_account accounts[PCCX_ACCOUNTS];
    uint64_t base;   /* cycle at which the program began */
    uint64_t issued; /* instructions of it */
    uint64_t head;   /* first cycle in which the next instruction is at the head of the dispatcher */
    uint64_t latest_end;
    int last_synchronous; /* engine of the instruction issued last, if it is synchronous; else -1 */
    tv_emitter emitter;
    const tv_energy_table *energy;                                /* for events */
    void (*completed)(void *user, int64_t index, uint64_t cycle); /* asynchronous operations; NULL: not called */
    void *completed_user;
} pccx_timing;

/* False when the rates have no common unit. */
bool pccx_timing_init(pccx_timing *timing, const tv_config *config);

/* A program begins at the latest end so far. */
void pccx_timing_begin(pccx_timing *timing);

/* Completes what is in flight, and lets the engines idle until `cycle`. */
void pccx_timing_advance(pccx_timing *timing, uint64_t cycle);

/* Appends bytes to a weight stream at a cycle. */
void pccx_timing_append(pccx_timing *timing, unsigned stream, uint64_t bytes, uint64_t cycle);

/* Drops the bytes of a weight stream that no instruction has taken. */
void pccx_timing_discard(pccx_timing *timing, unsigned stream);

/* Issues the next instruction; `index` is its number over all programs. Returns the issue cycle. */
uint64_t pccx_timing_issue(pccx_timing *timing, const pccx_op *op, int64_t index);

/* The cycle at which it would issue; nothing changes. */
uint64_t pccx_timing_preview(const pccx_timing *timing, const pccx_op *op, int64_t index);

/* A lower bound of the issue cycle of any next instruction. */
uint64_t pccx_timing_earliest(const pccx_timing *timing);

/* Runs everything in flight to its end; then the accounts add up to latest_end. */
void pccx_timing_drain(pccx_timing *timing);

/* ---- Repeated programs ---- */

/* What a program changes in the timing model. Cycles are relative to its begin, indices to its first instruction. */
typedef struct pccx_timing_change {
    uint64_t cycles, head, issued;
    int last_synchronous;
    uint64_t moved[PCCX_FLOWS];        /* bytes */
    pccx_slot slots[PCCX_ENGINE_NONE]; /* of the engines that had an instruction: `used` */
    tv_account accounts[PCCX_ACCOUNTS];
} pccx_timing_change;

/* Moves the flows to the latest end. Returns whether nothing is in flight then: all engines and flows wait for
 * instructions, and the cycles of a program that begins now depend on what ran before by a constant only. */
bool pccx_timing_reach_rest(pccx_timing *timing);

/* What the program did that began at `before` and whose end is `after`, with nothing in flight at both; `index` is the
 * number of its first instruction. */
void pccx_timing_find_change(const pccx_timing *before, const pccx_timing *after, int64_t index,
                             pccx_timing_change *out);

/* Does the same once more: nothing is in flight, and a program has begun whose first instruction has number `index`. */
void pccx_timing_apply_change(pccx_timing *timing, const pccx_timing_change *change, int64_t index);

/* Cycles from the issue of a GEMV to its first step: fill and drain, and the preload of its activations. */
static inline uint64_t pccx_gemv_setup(const pccx_timing *timing, const pccx_op *op)
{
    uint64_t rate = timing->gemv_preload_rate;
    return timing->gemv_setup + (rate ? tv_ceil_div(op->preload_bytes, rate) : 0);
}

/* Cycles from the issue of a GEMV to its first result, which a forwarded CVO may take. */
static inline uint64_t pccx_first_result_latency(const pccx_timing *timing, const pccx_op *op)
{
    return pccx_gemv_setup(timing, op) + tv_ceil_div(op->k, op->lanes);
}

/* Whether the slot's operation is in flight at the head. */
static inline bool pccx_slot_in_flight(const pccx_slot *slot, uint64_t head)
{
    return slot->used && !(slot->end_known && slot->end <= head);
}

#endif
