/* SPDX-License-Identifier: Apache-2.0 */
/* Exact non-negative rational numbers for simulated time and amounts: whole + num / den.
 *
 * Denominators grow when many rates follow each other. One that would pass 2^62 is halved, rounding up,
 * until it fits; a time is then late by less than 2^-60 of a cycle, which shows only if the exact value is an
 * integer. */
#ifndef TV_SIM_RATIO_H
#define TV_SIM_RATIO_H

#include "base/base.h"

typedef struct tv_ratio {
    uint64_t whole, num, den; /* num < den */
} tv_ratio;

static inline tv_ratio tv_ratio_of(uint64_t whole) { return (tv_ratio){whole, 0, 1}; }

static inline uint64_t tv_ratio_ceil(tv_ratio a) { return a.whole + (a.num != 0); }

tv_ratio tv_ratio_add(tv_ratio a, tv_ratio b);
tv_ratio tv_ratio_sub(tv_ratio a, tv_ratio b); /* b <= a */
int tv_ratio_cmp(tv_ratio a, tv_ratio b);      /* < 0, 0, > 0 */

/* a * p / q; p and q below 2^40, q > 0; the result below 2^63. */
tv_ratio tv_ratio_scale(tv_ratio a, uint64_t p, uint64_t q);

#endif
