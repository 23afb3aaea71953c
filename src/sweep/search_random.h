/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of points in constant memory: a random permutation of a space, and a low-discrepancy sequence that fills it
 * evenly. */
#ifndef TV_SWEEP_SEARCH_RANDOM_H
#define TV_SWEEP_SEARCH_RANDOM_H

#include "base/base.h"

enum { TV_PERMUTATION_ROUNDS = 8 };

/* A permutation of 0 to total - 1. */
typedef struct tv_permutation {
    uint64_t total, position; /* position: index of the next one */
    unsigned half;            /* bits of each half of the network */
    uint64_t keys[TV_PERMUTATION_ROUNDS];
} tv_permutation;

/* `total` is 1 to 2^62. */
void tv_permutation_init(tv_permutation *permutation, uint64_t total, uint64_t seed);

/* The next element; false: there is none left. */
bool tv_permutation_next(tv_permutation *permutation, uint64_t *id);

/* The R sequence: coordinate k of element i is the fraction of i / phi^(k + 1), where phi^(dims + 1) = phi + 1
 * (M. Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018). */
typedef struct tv_low_discrepancy {
    unsigned dims; /* 1 to 32 */
    uint64_t steps[32];
} tv_low_discrepancy;

void tv_low_discrepancy_init(tv_low_discrepancy *sequence, unsigned dims);

/* Coordinate `k` of element `i`, as a fraction of 2^64. */
static inline uint64_t tv_low_discrepancy_at(const tv_low_discrepancy *sequence, unsigned k, uint64_t i)
{
    return i * sequence->steps[k];
}

#endif
