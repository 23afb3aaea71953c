/* SPDX-License-Identifier: Apache-2.0 */
/* The non-dominated sort and the crowding distance of NSGA-II (Deb, Pratap, Agarwal, Meyarivan, "A fast and elitist
 * multiobjective genetic algorithm: NSGA-II", IEEE Transactions on Evolutionary Computation 6 (2), 2002). */
#include <math.h>
#include <stdlib.h>

#include "sweep/pareto.h"

typedef struct entry {
    double value;
    size_t index;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Peels the fronts: dominated_by[i] counts the points without a rank that dominate i. */
static void peel_fronts(const double *values, size_t count, unsigned objectives, unsigned *rank, size_t *dominated_by)
{
    for (size_t i = 0; i < count; i++) {
        dominated_by[i] = 0;
        for (size_t k = 0; k < count; k++)
            dominated_by[i] += tv_pareto_dominates(values + k * objectives, values + i * objectives, objectives);
        rank[i] = UINT32_MAX;
    }
    size_t ranked = 0;
    for (unsigned level = 0; ranked < count; level++) {
        for (size_t i = 0; i < count; i++)
            if (rank[i] == UINT32_MAX && dominated_by[i] == 0) {
                rank[i] = level;
                ranked++;
            }
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; rank[i] == level && k < count; k++)
                dominated_by[k] -= tv_pareto_dominates(values + i * objectives, values + k * objectives, objectives);
    }
}

/* True if a point before `i` with the same rank has equal objectives. */
static bool is_duplicate(const double *values, unsigned objectives, const unsigned *rank, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        bool equal = rank[k] == rank[i];
        for (unsigned m = 0; m < objectives && equal; m++)
            equal = values[k * objectives + m] == values[i * objectives + m];
        if (equal)
            return true;
    }
    return false;
}

static void add_distances(const entry *sorted, size_t count, double *crowding)
{
    double range = sorted[count - 1].value - sorted[0].value;
    crowding[sorted[0].index] = crowding[sorted[count - 1].index] = INFINITY;
    for (size_t i = 1; i + 1 < count && range > 0; i++)
        crowding[sorted[i].index] += (sorted[i + 1].value - sorted[i - 1].value) / range;
}

tv_status tv_pareto_rank(const double *values, size_t count, unsigned objectives, unsigned *rank, double *crowding)
{
    size_t *dominated_by = malloc((count + 1) * sizeof *dominated_by);
    entry *sorted = malloc((count + 1) * sizeof *sorted);
    tv_status status = dominated_by && sorted ? TV_OK : TV_ERR_MEMORY;
    if (status == TV_OK) {
        size_t ranked = 0;
        peel_fronts(values, count, objectives, rank, dominated_by);
        for (size_t i = 0; i < count; i++)
            crowding[i] = is_duplicate(values, objectives, rank, i) ? -1 : 0;
        for (unsigned level = 0; ranked < count; level++)
            for (unsigned m = 0; m < objectives; m++) {
                size_t members = 0;
                for (size_t i = 0; i < count; i++) {
                    ranked += m == 0 && rank[i] == level;
                    if (rank[i] == level && crowding[i] >= 0)
                        sorted[members++] = (entry){values[i * objectives + m], i};
                }
                qsort(sorted, members, sizeof *sorted, compare_entries);
                add_distances(sorted, members, crowding);
            }
    }
    free(sorted);
    free(dominated_by);
    return status;
}
