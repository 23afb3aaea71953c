/* SPDX-License-Identifier: Apache-2.0 */
/* Fronts of points with several objectives, all minimized. A point dominates another one if no objective of it is
 * greater and at least one is smaller. Values are finite; they are values[count][objectives], with 1 to
 * TV_OBJECTIVES_MAX objectives. */
#ifndef TV_SWEEP_PARETO_H
#define TV_SWEEP_PARETO_H

#include "base/base.h"

enum { TV_OBJECTIVES_MAX = 8 };

bool tv_pareto_dominates(const double *a, const double *b, unsigned objectives);

/* Indices of the points that no other one dominates, in ascending order: front[count], *front_count of them. Equal
 * points are all in it. Two objectives take the time of sorting, more the number of points times that of the front.
 * TV_ERR_MEMORY. */
tv_status tv_pareto_front(const double *values, size_t count, unsigned objectives, size_t *front, size_t *front_count);

/* The measure of what the points dominate below `reference`[objectives]; points that are not below it in every
 * objective count nothing. Exact up to rounding with 2 and 3 objectives, by a sweep over the sorted points. With more
 * the last objective is cut into slices, each the measure of its points with one objective less: exact, too, in time
 * that grows with the power objectives - 2 of the front. Above about 10^9 such steps it is estimated from 2^18 points
 * of a low-discrepancy sequence (relative error below 1 % if the front dominates a tenth of its bounding box), and
 * *is_exact false. `is_exact` may be NULL. TV_ERR_MEMORY. */
tv_status tv_pareto_hypervolume(const double *values, size_t count, unsigned objectives, const double *reference,
                                double *out, bool *is_exact);

/* Ranks of the non-dominated sort, rank[count], 0 for the front, 1 for the front of the others, and so on, and crowding
 * distances among points of the same rank, crowding[count]: infinite at the ends of an objective; of equal points only
 * the first one counts, the others have distance -1. Time count^2. TV_ERR_MEMORY. */
tv_status tv_pareto_rank(const double *values, size_t count, unsigned objectives, unsigned *rank, double *crowding);

#endif
