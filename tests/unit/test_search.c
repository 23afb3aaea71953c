/* SPDX-License-Identifier: Apache-2.0 */
/* Searches: orders worked by hand, no repetition, the same points whatever the batches, and the front that they find of
 * problems with a known one. */
#include "unit.h"

#include <math.h>

#include "sweep/pareto.h"
#include "sweep/search.h"
#include "sweep/search_random.h"

enum { IDS_MAX = 40000 };

static uint64_t taken[IDS_MAX], other[IDS_MAX];

typedef struct problem {
    tv_search_space space;
    unsigned objectives;
    void (*compute)(const uint32_t *values, double *objectives); /* NULL: every point fails */
} problem;

/* Runs a search to its end with batches of up to `batch` points, recorded in reverse order or not. */
static size_t run_search(const problem *p, tv_search_options options, size_t batch, bool reverse, uint64_t *ids)
{
    tv_search *search = NULL;
    size_t count = 0, recorded = 0, more, idle = 0;
    options.objectives = p->objectives;
    assert_int_equal(tv_search_new(&p->space, &options, &search), TV_OK);
    while (!tv_search_is_done(search) && idle < 100) {
        assert_true(count + batch <= IDS_MAX);
        assert_int_equal(tv_search_next(search, ids + count, batch, &more), TV_OK);
        count += more;
        idle = more ? 0 : idle + 1;
        if (more && reverse && count - recorded < 3 * batch)
            continue; /* several batches are open at once */
        for (size_t i = recorded; i < count; i++) {
            uint32_t values[TV_SEARCH_DIMS_MAX];
            double objectives[TV_OBJECTIVES_MAX];
            uint64_t id = ids[reverse ? count - 1 - (i - recorded) : i];
            tv_search_space_decode(&p->space, id, values);
            if (p->compute)
                p->compute(values, objectives);
            assert_int_equal(tv_search_record(search, id, p->compute ? objectives : NULL), TV_OK);
        }
        recorded = count;
    }
    assert_true(idle < 100);
    assert_int_equal(tv_search_proposed(search), count);
    assert_int_equal(tv_search_next(search, other, 1, &more), TV_OK);
    assert_int_equal(more, 0);
    tv_search_free(search);
    return count;
}

static void check_no_repetition(const problem *p, const uint64_t *ids, size_t count)
{
    uint64_t total = tv_search_space_total(&p->space);
    bool *proposed = calloc(total, sizeof *proposed);
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= total || proposed[ids[i]] || !tv_search_space_is_valid(&p->space, ids[i]))
            fail_msg("point %zu: %llu", i, (unsigned long long)ids[i]);
        proposed[ids[i]] = true;
    }
    free(proposed);
}

/* ZDT1 and ZDT3 (Zitzler, Deb, Thiele 2000) on grids. The front of ZDT1 has all but the first value 0. */
static void compute_zdt1(const uint32_t *values, double *objectives)
{
    double g = 1 + 9 * (values[1] + values[2] + values[3] + values[4]) / 24.0, x = values[0] / 6.0;
    objectives[0] = x;
    objectives[1] = g * (1 - sqrt(x / g));
}

static void compute_zdt3(const uint32_t *values, double *objectives)
{
    double g = 1 + 9 * (values[1] + values[2] + values[3] + values[4]) / 16.0, x = values[0] / 49.0;
    objectives[0] = x;
    objectives[1] = g * (1 - sqrt(x / g) - x / g * sin(31.41592653589793 * x));
}

/* A pipeline: time is the greater one of two bounds, its cost grows with what moves them; one value does nothing. */
static void compute_pipeline(const uint32_t *values, double *objectives)
{
    double lanes = exp2(values[0] + values[1]), bandwidth = exp2(values[2]), buffer = exp2(values[3]);
    double bytes = 4096 * (1 + 15 / buffer);
    objectives[0] = log2(fmax(1048576 / lanes, 64 * bytes / bandwidth) + 100);
    objectives[1] = log2(lanes + 40 * bandwidth + 8 * buffer);
}

static bool is_even_sum(void *user, const uint32_t *values)
{
    (void)user;
    return (values[0] + values[1]) % 2 == 0;
}

static bool is_never(void *user, const uint32_t *values)
{
    (void)values;
    ++*(unsigned *)user;
    return false;
}

static const problem zdt1 = {{.dims = 5, .sizes = {7, 7, 7, 7, 7}}, 2, compute_zdt1};
static const problem zdt3 = {{.dims = 5, .sizes = {50, 5, 5, 5, 5}}, 2, compute_zdt3};
static const problem pipeline = {{.dims = 5, .sizes = {8, 8, 8, 8, 5}}, 2, compute_pipeline};
static const problem small = {{.dims = 3, .sizes = {3, 1, 4}, .unordered = 4}, 2, compute_pipeline};
static const problem constrained = {{.dims = 2, .sizes = {3, 4}, .is_valid = is_even_sum}, 2, NULL};

static void identifiers_follow_the_canonical_order(void **state)
{
    (void)state;
    uint32_t values[5];
    tv_search_space_decode(&zdt3.space, 625 + 4 * 25 + 7, values);
    static const uint32_t expected[] = {1, 0, 4, 1, 2};
    assert_memory_equal(values, expected, sizeof expected);
    assert_int_equal(tv_search_space_encode(&zdt3.space, values), 732);
    assert_int_equal(tv_search_space_total(&zdt3.space), 31250);
    tv_search_space wide = {.dims = 2, .sizes = {UINT32_MAX, UINT32_MAX}};
    assert_int_equal(tv_search_space_total(&wide), 0);
    wide.sizes[1] = 1u << 30;
    assert_true(tv_search_space_total(&wide) == (uint64_t)UINT32_MAX << 30);
}

static void exhaustive_searches_are_in_order(void **state)
{
    (void)state;
    static const uint64_t even[] = {0, 2, 5, 7, 8, 10}; /* rows 0 to 3, 4 to 7, 8 to 11 */
    assert_int_equal(run_search(&constrained, (tv_search_options){.kind = TV_SEARCH_EXHAUSTIVE}, 4, false, taken), 6);
    assert_memory_equal(taken, even, sizeof even);
    tv_search_options limited = {.kind = TV_SEARCH_EXHAUSTIVE, .budget = 4};
    assert_int_equal(run_search(&constrained, limited, 3, false, taken), 4);
    assert_memory_equal(taken, even, 4 * sizeof *even);
}

static void permutations_have_every_element_once(void **state)
{
    (void)state;
    for (uint64_t total = 1; total < 300; total++) {
        bool found[300] = {false};
        uint64_t id, count = 0;
        tv_permutation permutation;
        tv_permutation_init(&permutation, total, total);
        for (; tv_permutation_next(&permutation, &id); count++) {
            assert_true(id < total && !found[id]);
            found[id] = true;
        }
        assert_int_equal(count, total);
    }
    tv_permutation permutation;
    uint64_t id, above = 0;
    tv_permutation_init(&permutation, UINT64_C(1) << 62, 1);
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(tv_permutation_next(&permutation, &id) && id < UINT64_C(1) << 62);
        above += id >> 61;
    }
    assert_in_range(above, 400, 600);
}

static void the_sequence_fills_space(void **state)
{
    (void)state;
    /* One dimension: the golden ratio's fraction, 0x9E3779B97F4A7C15 in 64 bits, which a double holds in 53. */
    tv_low_discrepancy sequence;
    tv_low_discrepancy_init(&sequence, 1);
    assert_true(sequence.steps[0] >> 14 == UINT64_C(0x9E3779B97F4A7C15) >> 14);
    tv_low_discrepancy_init(&sequence, 2);
    unsigned cells[8][8] = {{0}};
    for (uint64_t i = 0; i < 640; i++)
        cells[tv_low_discrepancy_at(&sequence, 0, i) >> 61][tv_low_discrepancy_at(&sequence, 1, i) >> 61]++;
    for (unsigned i = 0; i < 64; i++)
        assert_in_range(cells[i / 8][i % 8], 6, 14); /* 10 on average */
}

static void no_search_repeats_a_point(void **state)
{
    (void)state;
    static const problem *const problems[] = {&zdt1, &zdt3, &pipeline, &small, &constrained};
    for (unsigned i = 0; i < 5; i++)
        for (tv_search_kind kind = TV_SEARCH_RANDOM; kind <= TV_SEARCH_NSGA2; kind++)
            for (unsigned seed = 0; seed < 3; seed++) {
                const problem *p = problems[i];
                tv_search_options options = {.kind = kind, .seed = seed, .budget = i < 3 ? 3000 : 0};
                size_t count = run_search(p, options, 16, false, taken);
                check_no_repetition(p, taken, count);
                assert_int_equal(count, i < 3 ? 3000 : i == 3 ? 12 : 6); /* without a budget every valid point */
            }
}

static void a_seed_gives_the_same_points(void **state)
{
    (void)state;
    for (tv_search_kind kind = TV_SEARCH_RANDOM; kind <= TV_SEARCH_NSGA2; kind++) {
        tv_search_options options = {.kind = kind, .seed = 5, .budget = 500};
        assert_int_equal(run_search(&pipeline, options, 1, false, taken), 500);
        uint64_t *again = calloc(IDS_MAX, sizeof *again);
        assert_int_equal(run_search(&pipeline, options, 7, true, again), 500);
        assert_memory_equal(taken, again, 500 * sizeof *taken);
        options.budget = 700; /* a greater budget continues */
        assert_int_equal(run_search(&pipeline, options, 64, false, again), 700);
        assert_memory_equal(taken, again, 500 * sizeof *taken);
        options.seed = 6;
        assert_int_equal(run_search(&pipeline, options, 64, false, again), 700);
        assert_memory_not_equal(taken, again, 500 * sizeof *taken);
        free(again);
    }
}

static void failed_points_are_no_parents(void **state)
{
    (void)state;
    problem failing = pipeline;
    failing.compute = NULL;
    tv_search_options options = {.kind = TV_SEARCH_NSGA2, .seed = 5, .budget = 500};
    check_no_repetition(&failing, taken, run_search(&failing, options, 16, false, taken));
    tv_search *search = NULL;
    uint64_t ids[8];
    size_t count;
    static const double nan_objectives[] = {1, NAN};
    options.objectives = 2;
    options.population = 4;
    assert_int_equal(tv_search_new(&pipeline.space, &options, &search), TV_OK);
    assert_int_equal(tv_search_record(search, 0, nan_objectives), TV_ERR_INPUT);
    assert_int_equal(tv_search_next(search, ids, 8, &count), TV_OK);
    assert_int_equal(count, 4);
    assert_int_equal(tv_search_record(search, ids[0], nan_objectives), TV_OK);
    assert_int_equal(tv_search_record(search, ids[0], nan_objectives), TV_ERR_INPUT);
    assert_int_equal(tv_search_next(search, ids + 4, 4, &count), TV_OK);
    assert_int_equal(count, 0); /* three records are missing */
    assert_false(tv_search_is_done(search));
    tv_search_free(search);
    tv_search_free(NULL);
}

static void constraints_that_nothing_satisfies_end(void **state)
{
    (void)state;
    for (tv_search_kind kind = TV_SEARCH_EXHAUSTIVE; kind <= TV_SEARCH_NSGA2; kind++) {
        unsigned calls = 0;
        problem none = {{.dims = 2, .sizes = {400, 500}, .is_valid = is_never, .user = &calls}, 1, NULL};
        assert_int_equal(run_search(&none, (tv_search_options){.kind = kind}, 16, false, taken), 0);
        assert_in_range(calls, 200000, 210000);
        /* Of 2^60 points a call tests a bounded number. */
        none.space.sizes[0] = none.space.sizes[1] = 1u << 30;
        tv_search *search = NULL;
        size_t count;
        calls = 0;
        tv_search_options options = {.kind = kind, .objectives = 1};
        assert_int_equal(tv_search_new(&none.space, &options, &search), TV_OK);
        assert_int_equal(tv_search_next(search, taken, 16, &count), TV_OK);
        assert_true(count == 0 && !tv_search_is_done(search));
        assert_in_range(calls, 1000, 100000);
        tv_search_free(search);
    }
}

static void arguments_out_of_range_are_rejected(void **state)
{
    (void)state;
    tv_search *search = NULL;
    tv_search_options good = {.kind = TV_SEARCH_RANDOM, .objectives = 1}, options[4] = {good, good, good, good};
    options[0].objectives = 0;
    options[1].objectives = 9;
    options[2].population = 3;
    options[3].population = 1025;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(tv_search_new(&small.space, &options[i], &search), TV_ERR_INPUT);
    tv_search_space spaces[4] = {{.dims = 0}, {.dims = 33}, {.dims = 1}, {.dims = 2, .sizes = {1u << 31, ~0u}}};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(tv_search_new(&spaces[i], &good, &search), TV_ERR_INPUT);
    assert_null(search);
}

/* The hypervolume that a search reaches, as a fraction of that of all points, below the greatest values of the front.
 */
static double quality(const problem *p, tv_search_kind kind, uint64_t seed)
{
    uint64_t total = tv_search_space_total(&p->space);
    double *all = calloc(total * p->objectives, sizeof *all), *got = calloc(total, p->objectives * sizeof *got);
    double reference[TV_OBJECTIVES_MAX] = {-INFINITY, -INFINITY}, best, reached;
    size_t *front = calloc(total, sizeof *front), front_count;
    for (uint64_t id = 0; id < total; id++) {
        uint32_t values[TV_SEARCH_DIMS_MAX];
        tv_search_space_decode(&p->space, id, values);
        p->compute(values, all + id * p->objectives);
    }
    assert_int_equal(tv_pareto_front(all, total, p->objectives, front, &front_count), TV_OK);
    for (size_t i = 0; i < front_count; i++)
        for (unsigned m = 0; m < p->objectives; m++)
            reference[m] = fmax(reference[m], all[front[i] * p->objectives + m] + 1e-6);
    tv_search_options options = {.kind = kind, .seed = seed, .budget = total / 20};
    size_t count = run_search(p, options, 16, false, taken);
    for (size_t i = 0; i < count; i++)
        memcpy(got + i * p->objectives, all + taken[i] * p->objectives, p->objectives * sizeof *got);
    assert_int_equal(tv_pareto_hypervolume(all, total, p->objectives, reference, &best, NULL), TV_OK);
    assert_int_equal(tv_pareto_hypervolume(got, count, p->objectives, reference, &reached, NULL), TV_OK);
    free(front);
    free(got);
    free(all);
    return reached / best;
}

static void evolution_finds_the_front(void **state)
{
    (void)state;
    static const problem *const problems[] = {&zdt1, &zdt3, &pipeline};
    for (unsigned i = 0; i < 3; i++) {
        unsigned reached = 0;
        for (uint64_t seed = 0; seed < 20; seed++) {
            double evolved = quality(problems[i], TV_SEARCH_NSGA2, seed);
            reached += evolved >= 0.98 && evolved > quality(problems[i], TV_SEARCH_RANDOM, seed);
        }
        if (reached < 19)
            fail_msg("problem %u: %u of 20 seeds", i, reached);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identifiers_follow_the_canonical_order),
        cmocka_unit_test(exhaustive_searches_are_in_order),
        cmocka_unit_test(permutations_have_every_element_once),
        cmocka_unit_test(the_sequence_fills_space),
        cmocka_unit_test(no_search_repeats_a_point),
        cmocka_unit_test(a_seed_gives_the_same_points),
        cmocka_unit_test(failed_points_are_no_parents),
        cmocka_unit_test(constraints_that_nothing_satisfies_end),
        cmocka_unit_test(arguments_out_of_range_are_rejected),
        cmocka_unit_test(evolution_finds_the_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
