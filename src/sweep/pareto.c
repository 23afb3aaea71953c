/* SPDX-License-Identifier: Apache-2.0 */
/* Non-dominated points, and the hypervolume that they dominate.
 *
 * Both sort the points lexicographically, after which a point is never dominated by a later one. The hypervolume of
 * three objectives moves a plane along the last one and keeps the staircase that the points before it have in the first
 * two: ascending in the first, descending in the second. */
#include "sweep/pareto.h"

#include <math.h>
#include <stdlib.h>

#include "sweep/search_random.h"

enum { SAMPLES = 1 << 18 };

static const double steps_max = 1e9; /* of exact slicing */

typedef struct item {
    double at[TV_OBJECTIVES_MAX]; /* unused ones are 0 */
    size_t index;
} item;

bool tv_pareto_dominates(const double *a, const double *b, unsigned objectives)
{
    bool smaller = false;
    for (unsigned m = 0; m < objectives; m++) {
        if (a[m] > b[m])
            return false;
        smaller |= a[m] < b[m];
    }
    return smaller;
}

static int compare_numbers(double a, double b) { return (a > b) - (a < b); }

static int compare_items(const void *a, const void *b)
{
    const item *x = a, *y = b;
    for (unsigned m = 0; m < TV_OBJECTIVES_MAX; m++)
        if (x->at[m] != y->at[m])
            return compare_numbers(x->at[m], y->at[m]);
    return (x->index > y->index) - (x->index < y->index);
}

static int compare_indices(const void *a, const void *b)
{
    const size_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The points as items, with the objectives in reverse order: the last one first. */
static item *copy_items(const double *values, size_t count, unsigned objectives)
{
    item *items = calloc(count ? count : 1, sizeof *items);
    for (size_t i = 0; items && i < count; i++) {
        items[i].index = i;
        for (unsigned m = 0; m < objectives; m++)
            items[i].at[m] = values[i * objectives + objectives - 1 - m];
    }
    return items;
}

/* Moves the non-dominated ones of sorted items to the front of the array and returns their count. */
static size_t keep_front(item *items, size_t count, unsigned objectives)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool dominated = false;
        if (objectives <= 2) /* the last one kept has the smallest second objective so far */
            dominated = kept && tv_pareto_dominates(items[kept - 1].at, items[i].at, objectives);
        else
            for (size_t k = kept; k-- > 0 && !dominated;)
                dominated = tv_pareto_dominates(items[k].at, items[i].at, objectives);
        if (!dominated)
            items[kept++] = items[i];
    }
    return kept;
}

tv_status tv_pareto_front(const double *values, size_t count, unsigned objectives, size_t *front, size_t *front_count)
{
    item *items = copy_items(values, count, objectives);
    if (!items)
        return TV_ERR_MEMORY;
    qsort(items, count, sizeof *items, compare_items);
    *front_count = keep_front(items, count, objectives);
    for (size_t i = 0; i < *front_count; i++)
        front[i] = items[i].index;
    qsort(front, *front_count, sizeof *front, compare_indices);
    free(items);
    return TV_OK;
}

/* Of sorted non-dominated points with one or two objectives. */
static double measure_2(const item *items, size_t count, unsigned objectives, const double *reference)
{
    double sum = 0, below = objectives == 1 ? 0 : reference[1];
    if (objectives == 1)
        return count ? reference[0] - items[0].at[0] : 0;
    for (size_t i = 0; i < count; i++) {
        sum += (reference[0] - items[i].at[0]) * (below - items[i].at[1]);
        below = items[i].at[1];
    }
    return sum;
}

typedef struct corner {
    double x, y;
} corner;

/* Adds (x, y) to a staircase of *count corners below `reference` and returns by how much its area grows. */
static double add_corner(corner *stairs, size_t *count, double x, double y, const double *reference)
{
    size_t low = 0, high = *count;
    while (low < high) { /* the first corner with x' >= x */
        size_t middle = low + (high - low) / 2;
        if (stairs[middle].x < x)
            low = middle + 1;
        else
            high = middle;
    }
    double top = low ? stairs[low - 1].y : reference[1], left = x, grown = 0;
    if (top <= y)
        return 0;
    size_t end = low;
    while (end < *count && stairs[end].y >= y) { /* dominated by the new corner */
        grown += (stairs[end].x - left) * (top - y);
        left = stairs[end].x;
        top = stairs[end++].y;
    }
    double right = end < *count ? stairs[end].x : reference[0];
    grown += (right - left) * (top - y);
    if (end < *count && stairs[end].x == x)
        return 0;
    memmove(stairs + low + 1, stairs + end, (*count - end) * sizeof *stairs);
    stairs[low] = (corner){x, y};
    *count = *count - (end - low) + 1;
    return grown;
}

/* Of points sorted by their first objective; stairs[count]. */
static double measure_3(const item *items, size_t count, const double *reference, corner *stairs)
{
    double sum = 0, area = 0;
    size_t corners = 0;
    for (size_t i = 0; i < count; i++) {
        double end = i + 1 < count ? items[i + 1].at[0] : reference[0];
        area += add_corner(stairs, &corners, items[i].at[1], items[i].at[2], reference + 1);
        sum += area * (end - items[i].at[0]);
    }
    return sum;
}

/* Of items sorted by their first objective. `scratch` has `count` items for each objective above three. */
static double measure_slices(const item *items, size_t count, unsigned objectives, const double *reference,
                             item *scratch, size_t level_items, corner *stairs)
{
    if (objectives <= 2)
        return measure_2(items, count, objectives, reference);
    if (objectives == 3)
        return measure_3(items, count, reference, stairs);
    double sum = 0;
    size_t slice = 0;
    for (size_t i = 0; i < count; i++) {
        /* Insert item i without its first objective, in order, without the ones that it dominates. */
        item one = {.index = items[i].index};
        memcpy(one.at, items[i].at + 1, (TV_OBJECTIVES_MAX - 1) * sizeof one.at[0]);
        size_t kept = 0, position = 0;
        bool covered = false;
        for (size_t k = 0; k < slice && !covered; k++)
            covered = !tv_pareto_dominates(one.at, scratch[k].at, objectives - 1) &&
                      (tv_pareto_dominates(scratch[k].at, one.at, objectives - 1) ||
                       !memcmp(scratch[k].at, one.at, sizeof one.at));
        if (!covered) {
            for (size_t k = 0; k < slice; k++)
                if (!tv_pareto_dominates(one.at, scratch[k].at, objectives - 1))
                    scratch[kept++] = scratch[k];
            while (position < kept && compare_items(&scratch[position], &one) < 0)
                position++;
            memmove(scratch + position + 1, scratch + position, (kept - position) * sizeof *scratch);
            scratch[position] = one;
            slice = kept + 1;
        }
        double end = i + 1 < count ? items[i + 1].at[0] : reference[0];
        if (end > items[i].at[0])
            sum += (end - items[i].at[0]) * measure_slices(scratch, slice, objectives - 1, reference + 1,
                                                           scratch + level_items, level_items, stairs);
    }
    return sum;
}

/* The fraction of samples of the box between the minima and the reference that a point dominates. */
static double estimate(const item *items, size_t count, unsigned objectives, const double *reference)
{
    double low[TV_OBJECTIVES_MAX], sample[TV_OBJECTIVES_MAX], box = 1;
    tv_low_discrepancy sequence;
    tv_low_discrepancy_init(&sequence, objectives);
    for (unsigned m = 0; m < objectives; m++) {
        low[m] = reference[m];
        for (size_t i = 0; i < count; i++)
            low[m] = fmin(low[m], items[i].at[m]);
        box *= reference[m] - low[m];
    }
    unsigned inside = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        for (unsigned m = 0; m < objectives; m++)
            sample[m] =
                low[m] + (reference[m] - low[m]) * ((double)tv_low_discrepancy_at(&sequence, m, i + 1) * 0x1p-64);
        for (size_t k = 0; k < count; k++)
            if (tv_pareto_dominates(items[k].at, sample, objectives)) {
                inside++;
                break;
            }
    }
    return box * inside / SAMPLES;
}

tv_status tv_pareto_hypervolume(const double *values, size_t count, unsigned objectives, const double *reference,
                                double *out, bool *is_exact)
{
    double last[TV_OBJECTIVES_MAX] = {0}; /* the reference, last objective first as in the items */
    item *items = copy_items(values, count, objectives), *scratch = NULL;
    corner *stairs = NULL;
    size_t inside = 0;
    tv_status status = TV_ERR_MEMORY;
    if (!items)
        goto end;
    for (unsigned m = 0; m < objectives; m++)
        last[m] = reference[objectives - 1 - m];
    for (size_t i = 0; i < count; i++) {
        bool below = true;
        for (unsigned m = 0; m < objectives; m++)
            below &= items[i].at[m] < last[m];
        if (below)
            items[inside++] = items[i];
    }
    qsort(items, inside, sizeof *items, compare_items);
    inside = keep_front(items, inside, objectives);
    unsigned levels = objectives > 3 ? objectives - 3 : 0;
    bool exact = objectives <= 3 || pow((double)inside, objectives - 2) <= steps_max;
    if (exact) {
        stairs = malloc((inside + 1) * sizeof *stairs);
        scratch = malloc((levels * inside + 1) * sizeof *scratch);
        if (!stairs || !scratch)
            goto end;
        *out = measure_slices(items, inside, objectives, last, scratch, inside, stairs);
    } else {
        *out = estimate(items, inside, objectives, last);
    }
    if (is_exact)
        *is_exact = exact;
    status = TV_OK;
end:
    free(scratch);
    free(stairs);
    free(items);
    return status;
}
