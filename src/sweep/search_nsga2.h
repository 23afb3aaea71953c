/* SPDX-License-Identifier: Apache-2.0 */
/* The evolutionary search, for search.c: the functions of search.h without the budget. */
#ifndef TV_SWEEP_SEARCH_NSGA2_H
#define TV_SWEEP_SEARCH_NSGA2_H

#include "sweep/search_space.h"

typedef struct tv_nsga2 tv_nsga2;

/* `space` outlives the search. NULL: out of memory. */
tv_nsga2 *tv_nsga2_new(const tv_search_space *space, const tv_search_options *options, uint64_t total);

void tv_nsga2_free(tv_nsga2 *search);

/* As tv_search_next. */
tv_status tv_nsga2_next(tv_nsga2 *search, uint64_t *ids, size_t capacity, size_t *count);

/* As tv_search_record. */
tv_status tv_nsga2_record(tv_nsga2 *search, uint64_t id, const double *objectives);

/* Whether every valid point was proposed. */
bool tv_nsga2_is_exhausted(const tv_nsga2 *search);

#endif
