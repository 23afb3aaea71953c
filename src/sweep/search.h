/* SPDX-License-Identifier: Apache-2.0 */
/* Searches over a discrete space: which points a sweep evaluates, in which order.
 *
 * A point has one of `sizes[d]` values in each dimension d, and an identifier: its index in the canonical order, in
 * which the last dimension changes fastest. A search proposes points (tv_search_next) and reads their objectives
 * (tv_search_record), all of which are minimized.
 *
 * Every search is a function of its space, its seed and the objectives: the same points in the same order, whatever the
 * capacity of each call, the order of the records and the number of threads. No point is proposed twice. A greater
 * budget extends the sequence of a smaller one. The internals are not thread safe. */
#ifndef TV_SWEEP_SEARCH_H
#define TV_SWEEP_SEARCH_H

#include "sweep/pareto.h"
#include "sweep/search_space.h"

typedef struct tv_search tv_search;

/* A new search in *out, which the caller frees; the space is copied. Needs no objectives before the first record.
 * TV_ERR_INPUT: a member of the space or of the options is out of its range; TV_ERR_MEMORY. */
tv_status tv_search_new(const tv_search_space *space, const tv_search_options *options, tv_search **out);

/* `search` may be NULL. */
void tv_search_free(tv_search *search);

/* Proposes up to `capacity` points: ids[capacity], *count of them. A count of 0 of a search that is not done says that
 * NSGA-II needs the records of all points proposed so far, or, if there is none missing, that the next valid point was
 * not yet found among many invalid ones: call again. TV_ERR_MEMORY. */
tv_status tv_search_next(tv_search *search, uint64_t *ids, size_t capacity, size_t *count);

/* Records objectives[options.objectives] of a proposed point; NULL: its evaluation failed, as a point does of which an
 * objective is not finite. In any order. TV_ERR_INPUT: `id` has no record missing (NSGA-II; other searches ignore
 * records). */
tv_status tv_search_record(tv_search *search, uint64_t id, const double *objectives);

/* Whether the budget is used up or no valid point is left, so that nothing more will be proposed. */
bool tv_search_is_done(const tv_search *search);

/* Points proposed so far. */
uint64_t tv_search_proposed(const tv_search *search);

#endif
