/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that do not depend on the host: SplitMix64. */
#ifndef TV_BASE_RANDOM_H
#define TV_BASE_RANDOM_H

#include "base/base.h"

typedef struct tv_random {
    uint64_t state; /* the seed at first */
} tv_random;

static inline uint64_t tv_random_draw(tv_random *r)
{
    uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* 0 to limit - 1. */
static inline unsigned tv_random_below(tv_random *r, unsigned limit) { return (unsigned)(tv_random_draw(r) % limit); }

static inline bool tv_random_chance(tv_random *r, unsigned per_mille) { return tv_random_below(r, 1000) < per_mille; }

/* 0, 1, max, max - 1 or one bit, of `width` bits. */
static inline uint64_t tv_random_corner(tv_random *r, unsigned width)
{
    uint64_t max = tv_mask(width);
    switch (tv_random_below(r, 5)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return max;
    case 3:
        return max - 1;
    }
    return UINT64_C(1) << tv_random_below(r, width);
}

#endif
