/* SPDX-License-Identifier: Apache-2.0 */
/* The sorter of a waveform's begins and ends, in memory and with runs in a temporary file. */
#include "unit.h"

#include "trace/edges.h"

static int compare(const void *a, const void *b)
{
    const trace_edge *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->index < y->index ? -1 : 1; /* in the order in which they were added */
}

/* Sorts `count` random edges with room for `capacity` of them in memory. */
static void check_sorting(size_t count, size_t capacity, uint64_t times, unit_rng *rng)
{
    edge_sorter sorter;
    trace_edge *expected = calloc(count + 1, sizeof *expected), found;
    assert_non_null(expected);
    tv_edges_init(&sorter, capacity);
    for (size_t i = 0; i < count; i++) {
        expected[i] = (trace_edge){.time = unit_below(rng, times),
                                   .index = (int64_t)i,
                                   .kind = (uint16_t)unit_below(rng, EDGE_STATUS + 1),
                                   .text = (uint32_t)unit_next(rng),
                                   .engine = (uint16_t)unit_next(rng)};
        tv_edges_add(&sorter, expected[i]);
    }
    qsort(expected, count, sizeof *expected, compare);
    assert_int_equal(tv_edges_sort(&sorter), TV_OK);
    for (size_t i = 0; i < count; i++)
        if (!tv_edges_next(&sorter, &found) || found.time != expected[i].time || found.index != expected[i].index ||
            found.kind != expected[i].kind || found.text != expected[i].text || found.engine != expected[i].engine)
            fail_msg("edge %zu of %zu, %zu in memory", i, count, capacity);
    assert_false(tv_edges_next(&sorter, &found));
    assert_false(tv_edges_next(&sorter, &found));
    assert_int_equal(tv_edges_report(&sorter, NULL), TV_OK);
    tv_edges_fini(&sorter);
    free(expected);
}

static void edges_are_sorted_by_time_kind_and_order(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 7, 100, 5000}, capacities[] = {1, 2, 7, 99, 100, 1 << 13};
    unit_rng rng = {7};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (size_t k = 0; k < sizeof capacities / sizeof capacities[0]; k++)
            if (counts[i] / capacities[k] < EDGE_RUNS_MAX)
                check_sorting(counts[i], capacities[k], 1 + counts[i] / 3, &rng);
    check_sorting(9 * EDGES_READ, 3 * EDGES_READ, UINT64_MAX, &rng); /* buffers are filled several times */
}

static void too_many_edges_are_an_error(void **state)
{
    (void)state;
    edge_sorter sorter;
    trace_edge edge = {.time = 1};
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_edges_init(&sorter, 1);
    for (unsigned i = 0; i < EDGE_RUNS_MAX + 2; i++)
        tv_edges_add(&sorter, edge);
    assert_int_equal(tv_edges_sort(&sorter), TV_ERR_INPUT);
    assert_false(tv_edges_next(&sorter, &edge));
    assert_int_equal(tv_edges_report(&sorter, &sink), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-T003");
    tv_edges_fini(&sorter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_sorted_by_time_kind_and_order),
        cmocka_unit_test(too_many_edges_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
