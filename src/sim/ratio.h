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
    uint64_t whole, num, den; /* num < den, in lowest terms: 0 is 0 / 1 */
} tv_ratio;

static inline tv_ratio tv_ratio_of(uint64_t whole) { return (tv_ratio){whole, 0, 1}; }

static inline uint64_t tv_ratio_ceil(tv_ratio a) { return a.whole + (a.num != 0); }

/* The same for operands that both have a fraction. */
tv_ratio tv_ratio_add_fractions(tv_ratio a, tv_ratio b);
tv_ratio tv_ratio_sub_fraction(tv_ratio a, tv_ratio b);
int tv_ratio_cmp_fractions(tv_ratio a, tv_ratio b);

static inline tv_ratio tv_ratio_add(tv_ratio a, tv_ratio b)
{
    if (a.num && b.num)
        return tv_ratio_add_fractions(a, b);
    assert((a.whole + b.whole) >> 63 == 0);
    return (tv_ratio){a.whole + b.whole, a.num | b.num, b.num ? b.den : a.den};
}

/* < 0, 0, > 0 */
static inline int tv_ratio_cmp(tv_ratio a, tv_ratio b)
{
    if (a.whole != b.whole)
        return a.whole < b.whole ? -1 : 1;
    if (a.den != b.den)
        return tv_ratio_cmp_fractions(a, b);
    return a.num < b.num ? -1 : a.num > b.num;
}

/* b <= a */
static inline tv_ratio tv_ratio_sub(tv_ratio a, tv_ratio b)
{
    assert(tv_ratio_cmp(a, b) >= 0);
    return b.num ? tv_ratio_sub_fraction(a, b) : (tv_ratio){a.whole - b.whole, a.num, a.den};
}

/* a * p / q; p and q below 2^40, q > 0; the result below 2^63. */
tv_ratio tv_ratio_scale(tv_ratio a, uint64_t p, uint64_t q);

#endif
