/* SPDX-License-Identifier: Apache-2.0 */
/* NSGA-II on the indices of a discrete space.
 *
 * The first generation fills the space evenly: the two corners of the canonical order, then a low-discrepancy sequence
 * with a random offset. Every further one has children of parents that win binary tournaments by rank, then crowding
 * distance; a child takes each value from one of two parents and changes one or more, by small steps twice as often as
 * to any value. Of the population and the children the best by rank and crowding survive.
 *
 * A point is never proposed twice: instead of a child that was, the search takes a neighbour of the population's front
 * that was not yet evaluated, and if there is none, the next point of a random permutation, which ends when every point
 * of the space was proposed. So a space not greater than the budget is searched completely.
 *
 * Points proposed in one generation do not depend on each other, and a generation is bred when the last one is recorded
 * completely, so neither the order of records nor the number of threads matters. */
#include "sweep/search_nsga2.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/vec.h"
#include "sweep/pareto.h"
#include "sweep/search_random.h"

enum {
    TRIES = 16,                /* variations of two parents before another point is taken */
    CANDIDATES = 1 << 16,      /* points of the permutation that one call tests at most */
    NEIGHBOUR_PER_MILLE = 300, /* children that are neighbours of the front although a variation is new */
    STEP_PER_MILLE = 667,
};

typedef struct member {
    uint64_t id;
    double objectives[TV_OBJECTIVES_MAX];
    double crowding;
    unsigned rank;
    bool recorded, failed;
} member;

typedef struct candidate {
    uint64_t key, id; /* key: random */
} candidate;

struct tv_nsga2 {
    const tv_search_space *space;
    unsigned objectives;
    size_t size;                         /* of the population */
    member *members;                     /* [2 * size]: the survivors, then the generation */
    size_t survivors;                    /* of earlier generations, none failed */
    size_t children, proposed, recorded; /* of the generation */
    bool initial;                        /* the generation is the first one */
    double *values;                      /* [2 * size][objectives] */
    double *crowding;                    /* [2 * size] */
    unsigned *rank;                      /* [2 * size] */
    uint64_t *known;                     /* hash table of the proposed identifiers + 1; 0: free */
    size_t known_cap, known_count;
    TV_VEC(candidate) neighbours; /* of the front, in random order, tested for validity but not whether known */
    size_t neighbour;             /* index of the next one */
    tv_random random;
    tv_permutation permutation;
    tv_low_discrepancy sequence;
    uint64_t offsets[TV_SEARCH_DIMS_MAX];
    bool exhausted;
};

static size_t population_size(unsigned dims) { return (size_t)tv_min_u64(96, tv_max_u64(24, UINT64_C(8) * dims)); }

tv_nsga2 *tv_nsga2_new(const tv_search_space *space, const tv_search_options *options, uint64_t total)
{
    tv_nsga2 *search = calloc(1, sizeof *search);
    if (!search)
        return NULL;
    search->space = space;
    search->objectives = options->objectives;
    search->size = options->population ? options->population : population_size(space->dims);
    search->initial = true;
    search->random.state = options->seed;
    tv_permutation_init(&search->permutation, total, options->seed);
    tv_low_discrepancy_init(&search->sequence, space->dims);
    for (unsigned d = 0; d < space->dims; d++)
        search->offsets[d] = tv_random_draw(&search->random);
    search->members = calloc(2 * search->size, sizeof *search->members);
    search->values = calloc(2 * search->size * search->objectives, sizeof *search->values);
    search->crowding = calloc(2 * search->size, sizeof *search->crowding);
    search->rank = calloc(2 * search->size, sizeof *search->rank);
    if (!search->members || !search->values || !search->crowding || !search->rank) {
        tv_nsga2_free(search);
        return NULL;
    }
    return search;
}

void tv_nsga2_free(tv_nsga2 *search)
{
    if (!search)
        return;
    free(search->members);
    free(search->values);
    free(search->crowding);
    free(search->rank);
    free(search->known);
    TV_VEC_FINI(&search->neighbours);
    free(search);
}

/* The entry of `id`, or the free one where it belongs; the table is not full. */
static uint64_t *find_known(uint64_t *table, size_t cap, uint64_t id)
{
    tv_random hash = {id};
    size_t i = (size_t)tv_random_draw(&hash) & (cap - 1);
    while (table[i] && table[i] != id + 1)
        i = (i + 1) & (cap - 1);
    return &table[i];
}

static bool is_known(const tv_nsga2 *search, uint64_t id)
{
    return search->known_cap && *find_known(search->known, search->known_cap, id);
}

static tv_status add_known(tv_nsga2 *search, uint64_t id)
{
    if (2 * search->known_count >= search->known_cap) {
        size_t cap = search->known_cap ? 2 * search->known_cap : 256;
        uint64_t *table = calloc(cap, sizeof *table);
        if (!table)
            return TV_ERR_MEMORY;
        for (size_t i = 0; i < search->known_cap; i++)
            if (search->known[i])
                *find_known(table, cap, search->known[i] - 1) = search->known[i];
        free(search->known);
        search->known = table;
        search->known_cap = cap;
    }
    *find_known(search->known, search->known_cap, id) = id + 1;
    search->known_count++;
    return TV_OK;
}

static bool is_new(const tv_nsga2 *search, uint64_t id)
{
    return !is_known(search, id) && tv_search_space_is_valid(search->space, id);
}

/* Appends a point to the generation. */
static tv_status add_child(tv_nsga2 *search, uint64_t id)
{
    TV_TRY(add_known(search, id));
    search->members[search->survivors + search->children++] = (member){.id = id};
    return TV_OK;
}

/* --- the first generation --- */

static uint64_t spread_point(const tv_nsga2 *search, uint64_t i, uint64_t total)
{
    uint32_t values[TV_SEARCH_DIMS_MAX];
    const tv_search_space *space = search->space;
    if (i < 2)
        return i ? total - 1 : 0;
    for (unsigned d = 0; d < space->dims; d++) {
        uint64_t fraction = search->offsets[d] + tv_low_discrepancy_at(&search->sequence, d, i);
        values[d] = (uint32_t)((tv_u128)fraction * space->sizes[d] >> 64);
    }
    return tv_search_space_encode(space, values);
}

static tv_status breed_first(tv_nsga2 *search)
{
    for (uint64_t i = 0; i < TRIES * search->size && search->children < search->size; i++) {
        uint64_t id = spread_point(search, i, search->permutation.total);
        if (is_new(search, id))
            TV_TRY(add_child(search, id));
    }
    return TV_OK;
}

/* --- selection --- */

/* By rank, crowding distance (greater first), identifier. */
static int compare_members(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->crowding != y->crowding)
        return x->crowding > y->crowding ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Survivors become the best of the survivors and the generation. */
static tv_status select_survivors(tv_nsga2 *search)
{
    size_t count = 0;
    for (size_t i = 0; i < search->survivors + search->children; i++)
        if (!search->members[i].failed)
            search->members[count++] = search->members[i];
    for (size_t i = 0; i < count; i++)
        memcpy(search->values + i * search->objectives, search->members[i].objectives,
               search->objectives * sizeof *search->values);
    TV_TRY(tv_pareto_rank(search->values, count, search->objectives, search->rank, search->crowding));
    for (size_t i = 0; i < count; i++) {
        search->members[i].rank = search->rank[i];
        search->members[i].crowding = search->crowding[i];
        if (search->crowding[i] < 0) /* equal objectives: after all others */
            search->members[i].rank += UINT32_MAX / 2;
    }
    qsort(search->members, count, sizeof *search->members, compare_members);
    search->survivors = count < search->size ? count : search->size;
    search->children = search->proposed = search->recorded = 0;
    return TV_OK;
}

static const member *pick_parent(tv_nsga2 *search)
{
    const member *a = &search->members[tv_random_below(&search->random, (unsigned)search->survivors)];
    const member *b = &search->members[tv_random_below(&search->random, (unsigned)search->survivors)];
    return a < b ? a : b; /* sorted */
}

/* --- variation --- */

static void mutate_value(tv_nsga2 *search, unsigned d, uint32_t *value)
{
    uint32_t size = search->space->sizes[d];
    if (size == 1)
        return;
    if (search->space->unordered >> d & 1 || !tv_random_chance(&search->random, STEP_PER_MILLE)) {
        *value = (*value + 1 + tv_random_below(&search->random, size - 1)) % size;
        return;
    }
    uint32_t step = 1; /* one step in half of the cases, two in a quarter of them, … */
    while (step < size / 2 && tv_random_chance(&search->random, 500))
        step++;
    bool up = tv_random_chance(&search->random, 500);
    if (up ? *value + (uint64_t)step >= size : *value < step)
        up = !up;
    *value = up ? (uint32_t)tv_min_u64((uint64_t)*value + step, size - 1) : *value > step ? *value - step : 0;
}

static uint64_t vary(tv_nsga2 *search)
{
    uint32_t a[TV_SEARCH_DIMS_MAX], b[TV_SEARCH_DIMS_MAX];
    unsigned dims = search->space->dims;
    tv_search_space_decode(search->space, pick_parent(search)->id, a);
    tv_search_space_decode(search->space, pick_parent(search)->id, b);
    bool cross = tv_random_chance(&search->random, 900);
    for (unsigned d = 0; d < dims; d++)
        if (cross && tv_random_chance(&search->random, 500))
            a[d] = b[d];
    for (unsigned d = 0; d < dims; d++)
        if (tv_random_below(&search->random, dims) == 0)
            mutate_value(search, d, &a[d]);
    return tv_search_space_encode(search->space, a);
}

/* --- neighbours of the front --- */

static int compare_candidates(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void add_neighbour(tv_nsga2 *search, const uint32_t *values)
{
    uint64_t id = tv_search_space_encode(search->space, values);
    if (is_new(search, id))
        (void)TV_VEC_PUSH(&search->neighbours, (candidate){tv_random_draw(&search->random), id});
}

/* The points one step from a survivor of rank 0, of an unordered dimension with another value at random. */
static tv_status find_neighbours(tv_nsga2 *search)
{
    uint32_t values[TV_SEARCH_DIMS_MAX];
    const tv_search_space *space = search->space;
    search->neighbours.count = search->neighbour = 0;
    for (size_t i = 0; i < search->survivors && search->members[i].rank == 0; i++) {
        tv_search_space_decode(space, search->members[i].id, values);
        for (unsigned d = 0; d < space->dims; d++) {
            uint32_t value = values[d], size = space->sizes[d];
            if (size == 1)
                continue;
            if (space->unordered >> d & 1) {
                values[d] = (value + 1 + tv_random_below(&search->random, size - 1)) % size;
                add_neighbour(search, values);
            } else {
                values[d] = value - 1;
                if (value > 0)
                    add_neighbour(search, values);
                values[d] = value + 1;
                if (value + 1 < size)
                    add_neighbour(search, values);
            }
            values[d] = value;
        }
    }
    if (search->neighbours.failed)
        return TV_ERR_MEMORY;
    if (search->neighbours.count)
        qsort(search->neighbours.data, search->neighbours.count, sizeof *search->neighbours.data, compare_candidates);
    return TV_OK;
}

static bool take_neighbour(tv_nsga2 *search, uint64_t *id)
{
    while (search->neighbour < search->neighbours.count) {
        *id = search->neighbours.data[search->neighbour++].id;
        if (!is_known(search, *id))
            return true;
    }
    return false;
}

static bool take_child(tv_nsga2 *search, uint64_t *id)
{
    if (tv_random_chance(&search->random, NEIGHBOUR_PER_MILLE) && take_neighbour(search, id))
        return true;
    for (unsigned i = 0; i < TRIES; i++) {
        *id = vary(search);
        if (is_new(search, *id))
            return true;
    }
    return take_neighbour(search, id);
}

/* --- generations --- */

static tv_status breed(tv_nsga2 *search)
{
    uint64_t id;
    bool first = search->initial && !search->children;
    search->initial = false;
    if (first)
        TV_TRY(breed_first(search));
    TV_TRY(find_neighbours(search));
    while (search->survivors && search->children < search->size && take_child(search, &id))
        TV_TRY(add_child(search, id));
    for (unsigned tested = 0; search->children < search->size && tested < CANDIDATES; tested++) {
        search->exhausted = !tv_permutation_next(&search->permutation, &id);
        if (search->exhausted)
            break;
        if (is_new(search, id))
            TV_TRY(add_child(search, id));
    }
    return TV_OK;
}

tv_status tv_nsga2_next(tv_nsga2 *search, uint64_t *ids, size_t capacity, size_t *count)
{
    *count = 0;
    if (search->recorded == search->children && !search->exhausted) {
        TV_TRY(select_survivors(search));
        TV_TRY(breed(search));
    }
    while (*count < capacity && search->proposed < search->children)
        ids[(*count)++] = search->members[search->survivors + search->proposed++].id;
    return TV_OK;
}

tv_status tv_nsga2_record(tv_nsga2 *search, uint64_t id, const double *objectives)
{
    for (size_t i = 0; i < search->proposed; i++) {
        member *m = &search->members[search->survivors + i];
        if (m->id != id || m->recorded)
            continue;
        m->recorded = true;
        m->failed = !objectives;
        for (unsigned k = 0; k < search->objectives && objectives; k++) {
            m->objectives[k] = objectives[k];
            m->failed |= !isfinite(objectives[k]);
        }
        search->recorded++;
        return TV_OK;
    }
    return TV_ERR_INPUT;
}

bool tv_nsga2_is_exhausted(const tv_nsga2 *search) { return search->exhausted && search->proposed == search->children; }
