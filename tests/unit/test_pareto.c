/* SPDX-License-Identifier: Apache-2.0 */
/* Fronts and ranks against their definition, point by point; hypervolumes against a count of the cells of the grid that
 * all coordinates span, and against shapes whose measure is known. */
#include "unit.h"

#include <math.h>

#include "sweep/pareto.h"

enum { POINTS = 24 };

/* By the definition; written without the functions under test. */
static bool is_dominated(const double *values, size_t count, unsigned objectives, size_t i)
{
    for (size_t k = 0; k < count; k++) {
        unsigned less = 0, greater = 0;
        for (unsigned m = 0; m < objectives; m++) {
            less += values[k * objectives + m] < values[i * objectives + m];
            greater += values[k * objectives + m] > values[i * objectives + m];
        }
        if (less && !greater)
            return true;
    }
    return false;
}

/* Integer coordinates from 0 to side - 1: counts the unit cells below `reference` that a point dominates. */
static double count_cells(const double *values, size_t count, unsigned objectives, const double *reference)
{
    uint64_t cells = 1, inside = 0;
    for (unsigned m = 0; m < objectives; m++)
        cells *= (uint64_t)reference[m];
    for (uint64_t cell = 0; cell < cells; cell++) {
        bool covered = false;
        for (size_t i = 0; i < count && !covered; i++) {
            uint64_t rest = cell;
            covered = true;
            for (unsigned m = 0; m < objectives && covered; m++) {
                covered = values[i * objectives + m] <= (double)(rest % (uint64_t)reference[m]);
                rest /= (uint64_t)reference[m];
            }
        }
        inside += covered;
    }
    return (double)inside;
}

static void fronts_and_hypervolumes_of_random_points(void **state)
{
    (void)state;
    unit_rng rng = {7};
    for (unsigned round = 0; round < 600; round++) {
        unsigned objectives = 1 + (unsigned)unit_below(&rng, 5), side = objectives > 3 ? 5 : 9;
        size_t count = (size_t)unit_below(&rng, POINTS + 1), front[POINTS], front_count, expected = 0;
        double values[POINTS * 5] = {0}, reference[5], volume;
        bool is_exact = false;
        for (size_t i = 0; i < count * objectives; i++)
            values[i] = (double)unit_below(&rng, side + 1); /* some at the reference */
        for (unsigned m = 0; m < objectives; m++)
            reference[m] = side - (double)unit_below(&rng, 2);
        assert_int_equal(tv_pareto_front(values, count, objectives, front, &front_count), TV_OK);
        for (size_t i = 0; i < count; i++)
            if (!is_dominated(values, count, objectives, i)) {
                if (expected >= front_count || front[expected] != i)
                    fail_msg("round %u: point %zu is not in the front", round, i);
                expected++;
            }
        assert_int_equal(front_count, expected);
        assert_int_equal(tv_pareto_hypervolume(values, count, objectives, reference, &volume, &is_exact), TV_OK);
        double cells = count_cells(values, count, objectives, reference);
        if (volume != cells || !is_exact)
            fail_msg("round %u: %u objectives, %zu points: %g, not %g", round, objectives, count, volume, cells);
    }
}

static void hypervolumes_by_hand(void **state)
{
    (void)state;
    /* (1,3) (2,2) (3,1) below (4,4): three cells of the staircase's rows: 1 + 2 + 3. */
    static const double stairs[] = {1, 3, 2, 2, 3, 1, 3, 3}, end2[] = {4, 4};
    /* Two boxes 2x2x1 and 1x1x2 at the corner of (2,2,2), which share 1x1x1. */
    static const double boxes[] = {0, 0, 1, 1, 1, 0}, end3[] = {2, 2, 2};
    double volume;
    assert_int_equal(tv_pareto_hypervolume(stairs, 4, 2, end2, &volume, NULL), TV_OK);
    assert_true(volume == 6);
    assert_int_equal(tv_pareto_hypervolume(boxes, 2, 3, end3, &volume, NULL), TV_OK);
    assert_true(volume == 5);
    assert_int_equal(tv_pareto_hypervolume(boxes, 0, 3, end3, &volume, NULL), TV_OK);
    assert_true(volume == 0);
    static const double negative[] = {-3, -1, -2.5}, zero[] = {0};
    assert_int_equal(tv_pareto_hypervolume(negative, 3, 1, zero, &volume, NULL), TV_OK);
    assert_true(volume == 3);
}

/* In each pair of eight objectives a staircase of nine points, 0 in the others. A location of the unit cube is
 * dominated if it is in one of the four staircases, which are independent: 1 - (1 - area)^4. */
static void many_objectives_are_estimated(void **state)
{
    (void)state;
    enum { STEPS = 9, PAIRS = 4, OBJECTIVES = 2 * PAIRS };
    double values[STEPS * PAIRS * OBJECTIVES] = {0}, reference[OBJECTIVES], volume, area = 0;
    bool is_exact = true;
    for (unsigned p = 0; p < PAIRS; p++)
        for (unsigned i = 0; i < STEPS; i++) {
            double *point = values + (p * STEPS + i) * OBJECTIVES;
            point[2 * p] = (i + 1) / 10.0;
            point[2 * p + 1] = (STEPS - i) / 10.0;
        }
    for (unsigned i = 1; i <= STEPS; i++)
        area += i / 100.0; /* the row of step i is 0.1 high and i times 0.1 long */
    for (unsigned m = 0; m < OBJECTIVES; m++)
        reference[m] = 1;
    assert_int_equal(tv_pareto_hypervolume(values, STEPS * PAIRS, OBJECTIVES, reference, &volume, &is_exact), TV_OK);
    assert_false(is_exact);
    assert_true(fabs(volume - (1 - pow(1 - area, PAIRS))) < 0.01);
}

static void ranks_and_distances_by_hand(void **state)
{
    (void)state;
    /* The front (0,4) (1,2) (4,0), with (1,2) twice; behind it (2,4) and (4,2); behind them (4,4). */
    static const double values[] = {4, 4, 0, 4, 1, 2, 2, 4, 1, 2, 4, 0, 4, 2};
    static const unsigned ranks[] = {2, 0, 0, 1, 0, 0, 1};
    unsigned rank[7];
    double crowding[7];
    assert_int_equal(tv_pareto_rank(values, 7, 2, rank, crowding), TV_OK);
    assert_memory_equal(rank, ranks, sizeof ranks);
    assert_true(isinf(crowding[0]) && isinf(crowding[1]) && isinf(crowding[3]) && isinf(crowding[5]));
    assert_true(crowding[2] == 4 / 4.0 + 4 / 4.0); /* from 0 to 4 of a range of 4, in both objectives */
    assert_true(crowding[4] == -1);
    assert_int_equal(tv_pareto_rank(values, 0, 2, rank, crowding), TV_OK);
}

static void random_ranks_follow_the_definition(void **state)
{
    (void)state;
    unit_rng rng = {11};
    for (unsigned round = 0; round < 200; round++) {
        unsigned objectives = 1 + (unsigned)unit_below(&rng, 4), rank[POINTS];
        size_t count = 1 + (size_t)unit_below(&rng, POINTS), left = 0;
        double values[POINTS * 4], crowding[POINTS], rest[POINTS * 4];
        for (size_t i = 0; i < count * objectives; i++)
            values[i] = (double)unit_below(&rng, 6);
        assert_int_equal(tv_pareto_rank(values, count, objectives, rank, crowding), TV_OK);
        for (unsigned level = 0;; level++) { /* the front of what is left has exactly the rank `level` */
            size_t index[POINTS];
            left = 0;
            for (size_t i = 0; i < count; i++)
                if (rank[i] >= level) {
                    memcpy(rest + left * objectives, values + i * objectives, objectives * sizeof *rest);
                    index[left++] = i;
                }
            for (size_t i = 0; i < left; i++)
                if (is_dominated(rest, left, objectives, i) == (rank[index[i]] == level))
                    fail_msg("round %u: point %zu has rank %u", round, index[i], rank[index[i]]);
            if (!left)
                break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fronts_and_hypervolumes_of_random_points),
        cmocka_unit_test(hypervolumes_by_hand),
        cmocka_unit_test(many_objectives_are_estimated),
        cmocka_unit_test(ranks_and_distances_by_hand),
        cmocka_unit_test(random_ranks_follow_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
