/* SPDX-License-Identifier: Apache-2.0 */
/* Flows of bytes over one memory: each flow has a maximum rate, and the memory's rate is shared max-min fairly.
 *
 * Time moves from event to event (a flow starts, blocks, ends, reaches its target) in exact rationals, so that the cost
 * grows with events, never with cycles. The struct is a plain value: a copy looks ahead without changing the original.
 */
#ifndef TV_SIM_SHARE_H
#define TV_SIM_SHARE_H

#include "base/schema.h"
#include "sim/ratio.h"

enum { TV_FLOWS_MAX = 8 };

typedef struct tv_flow {
    uint64_t rate;    /* bytes a cycle, times the share's unit */
    uint64_t ticks;   /* of a byte at this rate; see tv_share.ticks */
    uint64_t start;   /* no byte moves before this cycle */
    tv_ratio moved;   /* bytes so far; not always in lowest terms */
    uint64_t limit;   /* the flow blocks when it has moved so many bytes */
    uint64_t target;  /* byte count that an operation waits for … */
    bool waiting;     /* … and that is not reached yet */
    tv_ratio arrived; /* when the target was reached */
} tv_flow;

/* Called for each interval in which a flow moved bytes: from `t0` to `t1`, `moved` bytes. */
typedef void tv_share_moved(void *user, unsigned flow, tv_ratio t0, tv_ratio t1, tv_ratio moved);

typedef struct tv_share {
    tv_ratio now;      /* not always in lowest terms */
    uint64_t unit;     /* rates are rate / unit bytes a cycle */
    uint64_t capacity; /* of the memory, times unit */
    uint64_t ticks;    /* of a cycle, so that each flow's bytes take whole numbers of them at its rate; 0: too many */
    unsigned flow_count;
    tv_flow flows[TV_FLOWS_MAX];
    tv_share_moved *moved; /* NULL: not called */
    void *user;
} tv_share;

/* `rates[0]` is the memory's. False when the rates have no common unit below 2^20. */
bool tv_share_init(tv_share *share, const tv_rate *rates, unsigned flow_count);

/* Moves time to the start of cycle `cycle`, if it is ahead. */
void tv_share_advance(tv_share *share, uint64_t cycle);

/* Moves time to the moment at which `flow` reaches its target, and returns it. The flow can reach it. */
tv_ratio tv_share_wait(tv_share *share, unsigned flow);

/* Sets the target of a flow; if the bytes have been moved already, it is reached now. */
void tv_share_target(tv_share *share, unsigned flow, uint64_t target);

#endif
