/* SPDX-License-Identifier: Apache-2.0 */
/* Flows of bytes over one memory, each with its own largest rate, the memory's rate divided max-min fairly.
 *
 * Time moves from event to event (a flow starts, blocks, ends, reaches what somebody waits for), in exact rationals.
 * The cost grows with events, never with cycles. A plain value: copy it to look ahead. */
#ifndef TV_SIM_SHARE_H
#define TV_SIM_SHARE_H

#include "base/schema.h"
#include "sim/ratio.h"

enum { TV_FLOWS_MAX = 8 };

typedef struct tv_flow {
    uint64_t rate;    /* bytes a cycle, times the share's unit */
    uint64_t start;   /* no byte moves before this cycle */
    tv_ratio moved;   /* bytes so far */
    uint64_t limit;   /* it blocks when `moved` is there */
    uint64_t target;  /* somebody waits for this byte count … */
    bool waiting;     /* … and it is not there yet */
    tv_ratio arrived; /* when the target was reached */
} tv_flow;

/* Called for each stretch in which a flow moved bytes: from `t0` to `t1`, `moved` bytes. */
typedef void tv_share_moved(void *user, unsigned flow, tv_ratio t0, tv_ratio t1, tv_ratio moved);

typedef struct tv_share {
    tv_ratio now;
    uint64_t unit;     /* rates are rate / unit bytes a cycle */
    uint64_t capacity; /* of the memory, times unit */
    unsigned flow_count;
    tv_flow flows[TV_FLOWS_MAX];
    tv_share_moved *moved; /* may be NULL */
    void *user;
} tv_share;

/* `rates[0]` is the memory's. False when the rates have no common unit below 2^20. */
bool tv_share_init(tv_share *share, const tv_rate *rates, unsigned flow_count);

/* Moves time to the start of cycle `cycle`, if it is ahead. */
void tv_share_advance(tv_share *share, uint64_t cycle);

/* Moves time until `flow` has reached its target, and no further; returns when that was. The flow must get there. */
tv_ratio tv_share_wait(tv_share *share, unsigned flow);

/* Declares what is waited for; if the bytes are there, the answer is at once. */
void tv_share_target(tv_share *share, unsigned flow, uint64_t target);

#endif
