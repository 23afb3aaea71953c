/* SPDX-License-Identifier: Apache-2.0 */
/* The searches behind one interface, with the exhaustive and the random one, which need no objectives. */
#include "sweep/search.h"

#include <stdlib.h>

#include "sweep/search_nsga2.h"
#include "sweep/search_random.h"

enum { CANDIDATES = 1 << 16 }; /* points of which one call tests the constraints at most before it returns */

struct tv_search {
    tv_search_space space;
    tv_search_options options;
    uint64_t total, proposed;
    uint64_t position;          /* exhaustive: the next identifier */
    tv_permutation permutation; /* random */
    bool exhausted;             /* no point left */
    tv_nsga2 *nsga2;
};

static bool check_space(const tv_search_space *space)
{
    if (space->dims < 1 || space->dims > TV_SEARCH_DIMS_MAX)
        return false;
    for (unsigned d = 0; d < space->dims; d++)
        if (space->sizes[d] < 1)
            return false;
    return tv_search_space_total(space) > 0;
}

static bool check_options(const tv_search_options *options)
{
    return options->objectives >= 1 && options->objectives <= TV_OBJECTIVES_MAX &&
           (options->population == 0 ||
            (options->population >= TV_SEARCH_POPULATION_MIN && options->population <= TV_SEARCH_POPULATION_MAX)) &&
           options->kind <= TV_SEARCH_NSGA2;
}

tv_status tv_search_new(const tv_search_space *space, const tv_search_options *options, tv_search **out)
{
    if (!check_space(space) || !check_options(options))
        return TV_ERR_INPUT;
    tv_search *search = calloc(1, sizeof *search);
    if (!search)
        return TV_ERR_MEMORY;
    search->space = *space;
    search->options = *options;
    search->total = tv_search_space_total(space);
    tv_permutation_init(&search->permutation, search->total, options->seed);
    if (options->kind == TV_SEARCH_NSGA2) {
        search->nsga2 = tv_nsga2_new(&search->space, options, search->total);
        if (!search->nsga2) {
            free(search);
            return TV_ERR_MEMORY;
        }
    }
    *out = search;
    return TV_OK;
}

void tv_search_free(tv_search *search)
{
    if (!search)
        return;
    tv_nsga2_free(search->nsga2);
    free(search);
}

static bool next_candidate(tv_search *search, uint64_t *id)
{
    if (search->options.kind == TV_SEARCH_RANDOM)
        return tv_permutation_next(&search->permutation, id);
    *id = search->position;
    return search->position < search->total && ++search->position;
}

tv_status tv_search_next(tv_search *search, uint64_t *ids, size_t capacity, size_t *count)
{
    uint64_t left = search->options.budget ? search->options.budget - search->proposed : UINT64_MAX;
    tv_status status = TV_OK;
    *count = 0;
    capacity = (size_t)tv_min_u64(capacity, left);
    if (search->nsga2)
        status = tv_nsga2_next(search->nsga2, ids, capacity, count);
    for (unsigned tested = 0; !search->nsga2 && *count < capacity && tested < CANDIDATES; tested++) {
        uint64_t id;
        search->exhausted = !next_candidate(search, &id);
        if (search->exhausted)
            break;
        if (tv_search_space_is_valid(&search->space, id))
            ids[(*count)++] = id;
    }
    search->proposed += *count;
    return status;
}

tv_status tv_search_record(tv_search *search, uint64_t id, const double *objectives)
{
    return search->nsga2 ? tv_nsga2_record(search->nsga2, id, objectives) : TV_OK;
}

bool tv_search_is_done(const tv_search *search)
{
    if (search->options.budget && search->proposed == search->options.budget)
        return true;
    return search->nsga2 ? tv_nsga2_is_exhausted(search->nsga2) : search->exhausted;
}

uint64_t tv_search_proposed(const tv_search *search) { return search->proposed; }
