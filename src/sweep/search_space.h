/* SPDX-License-Identifier: Apache-2.0 */
/* The space of a search, and its options. See search.h. */
#ifndef TV_SWEEP_SEARCH_SPACE_H
#define TV_SWEEP_SEARCH_SPACE_H

#include "base/base.h"

enum {
    TV_SEARCH_DIMS_MAX = 32,
    TV_SEARCH_POPULATION_MIN = 4,
    TV_SEARCH_POPULATION_MAX = 1024,
};

typedef struct tv_search_space {
    unsigned dims;                      /* 1 to TV_SEARCH_DIMS_MAX */
    uint32_t sizes[TV_SEARCH_DIMS_MAX]; /* values of each dimension, at least 1 */
    uint32_t unordered;                 /* bit d: the values of dimension d have no order, any two are neighbours */
    /* Whether a point satisfies the constraints: values[dims]. NULL: every point does. Always the same answer. */
    bool (*is_valid)(void *user, const uint32_t *values);
    void *user; /* of is_valid */
} tv_search_space;

/* Points of the space, valid or not; 0: above 2^62. */
uint64_t tv_search_space_total(const tv_search_space *space);

/* Values of point `id`, which is below the total: values[dims]. */
void tv_search_space_decode(const tv_search_space *space, uint64_t id, uint32_t *values);

/* Identifier of the point with values[dims]. */
uint64_t tv_search_space_encode(const tv_search_space *space, const uint32_t *values);

/* Whether point `id` satisfies the constraints. */
bool tv_search_space_is_valid(const tv_search_space *space, uint64_t id);

typedef enum tv_search_kind {
    TV_SEARCH_EXHAUSTIVE, /* every valid point in canonical order; no seed */
    TV_SEARCH_RANDOM,     /* valid points in a random order, all of them if the budget allows */
    TV_SEARCH_NSGA2,      /* evolutionary, see search_nsga2.c */
} tv_search_kind;

typedef struct tv_search_options {
    tv_search_kind kind;
    unsigned objectives; /* 1 to TV_OBJECTIVES_MAX */
    unsigned population; /* of NSGA-II, TV_SEARCH_POPULATION_MIN to _MAX; 0: 8 for each dimension, 24 to 96 */
    uint64_t budget;     /* points that are proposed at most; 0: no limit */
    uint64_t seed;
} tv_search_options;

#endif
