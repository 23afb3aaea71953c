/* SPDX-License-Identifier: Apache-2.0 */
/* Energy as an embedder reads it: the energies of instructions add up to those of the run exactly, and the counts do
 * not depend on how it is run. Values worked by hand are in energy/run.py. Public headers only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/unit.h"
#include "trivet/trivet.h"

static const char *const targets[] = {"pccx", "opennpu", "cmdq"};
enum { TARGETS = 3, PROGRAMS = 12, INSTRUCTIONS = 400 };

static unsigned programs_to_run(void) { return unit_sample() < 6 ? PROGRAMS / unit_sample() : 2; }

static tv_config *config_of(const char *target)
{
    tv_config *config;
    assert_int_equal(tv_config_new(target, NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "energy.static_uw", "1234", NULL), TV_OK);
    assert_int_equal(tv_config_set(config, "energy.process_nm", "16", NULL), TV_OK);
    return config;
}

static tv_program *program_of(const tv_config *config, uint64_t seed)
{
    tv_generate_options options = {.size = sizeof options, .seed = seed, .instructions = INSTRUCTIONS};
    tv_generated made;
    tv_program *program;
    assert_int_equal(tv_program_generate(config, &options, NULL, &made), TV_OK);
    bool queue = strcmp(tv_config_target(config), "cmdq") == 0;
    tv_program_options own = {.size = sizeof own, .target = tv_config_target(config)};
    if (queue) {
        FILE *file = fopen("test_energy_queue.json", "w");
        assert_non_null(file);
        assert_true(fputs(made.source, file) >= 0 && fclose(file) == 0);
        assert_int_equal(tv_program_open("test_energy_queue.json", &own, NULL, &program), TV_OK);
        remove("test_energy_queue.json");
    } else {
        assert_int_equal(tv_program_assemble("made.s", made.source, strlen(made.source), NULL, NULL, &program), TV_OK);
    }
    free(made.source);
    free(made.counts);
    return program;
}

static tv_machine *machine_of(const tv_config *config, tv_mode mode)
{
    tv_machine *machine;
    assert_int_equal(tv_machine_new(config, mode, NULL, &machine), TV_OK);
    return machine;
}

static tv_energy_stats *read_energy(const tv_machine *machine)
{
    tv_energy_stats *stats = calloc(1, sizeof *stats);
    assert_non_null(stats);
    stats->size = sizeof *stats;
    assert_int_equal(tv_machine_energy(machine, stats), TV_OK);
    return stats;
}

static void check_equal(tv_joules a, tv_joules b)
{
    assert_int_equal(a.joules, b.joules);
    assert_int_equal(a.attojoules, b.attojoules);
}

static void check_equal_intervals(tv_energy a, tv_energy b)
{
    check_equal(a.low, b.low);
    check_equal(a.nominal, b.nominal);
    check_equal(a.high, b.high);
}

typedef struct sums {
    tv_energy energy;
    uint64_t events; /* with energy */
} sums;

static void add_event(void *user, const tv_event *event)
{
    sums *s = user;
    s->events += event->energy.nominal.joules || event->energy.nominal.attojoules;
    s->energy = tv_energy_add(s->energy, event->energy);
}

static void test_a_receiver_can_do_without_energy(void **state)
{
    (void)state;
    for (unsigned t = 0; t < TARGETS; t++) {
        tv_config *config = config_of(targets[t]);
        tv_machine *machine = machine_of(config, TV_MODE_TIMING);
        tv_program *program = program_of(config, 1);
        sums s = {0};
        tv_machine_trace(machine, &(tv_trace_sink){.event = add_event, .user = &s, .without_energy = 1});
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        tv_status status = tv_machine_run(machine, NULL, NULL);
        assert_true(status == TV_OK || status == TV_FAULT);
        tv_machine_trace(machine, NULL);
        assert_int_equal(s.events, 0);
        check_equal_intervals(s.energy, (tv_energy){0});
        tv_machine_trace(machine, &(tv_trace_sink){.event = add_event, .user = &s}); /* the next receiver has them */
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        (void)tv_machine_run(machine, NULL, NULL);
        tv_machine_trace(machine, NULL);
        assert_true(s.events > 0);
        tv_machine_free(machine);
        tv_program_free(program);
        tv_config_free(config);
    }
}

/* The parts of the statistics add up, and with the sum of the events to the total. */
static void check_sums(const tv_machine *machine, const sums *s)
{
    tv_energy_stats *stats = read_energy(machine);
    tv_energy engines = {0}, actions = {0};
    for (unsigned e = 0; e < stats->engine_count; e++)
        engines = tv_energy_add(engines, stats->engines[e].energy);
    for (unsigned i = 0; i < stats->action_count; i++)
        actions = tv_energy_add(actions, stats->actions[i]);
    check_equal_intervals(engines, s->energy);
    check_equal_intervals(tv_energy_add(engines, stats->static_energy), stats->total);
    check_equal_intervals(actions, stats->total);
    free(stats);
}

static void test_instructions_add_up_to_the_run(void **state)
{
    (void)state;
    for (unsigned t = 0; t < TARGETS; t++) {
        tv_config *config = config_of(targets[t]);
        tv_machine *machine = machine_of(config, TV_MODE_TIMING);
        sums s = {0};
        tv_stats stats = {.size = sizeof stats};
        tv_program *programs[PROGRAMS];
        tv_machine_trace(machine, &(tv_trace_sink){add_event, &s});
        /* one after another, some with faults: the statistics go on */
        for (unsigned p = 0; p < programs_to_run(); p++) {
            programs[p] = program_of(config, p + 1);
            assert_int_equal(tv_machine_load(machine, programs[p], NULL), TV_OK);
            tv_status status = tv_machine_run(machine, NULL, NULL);
            assert_true(status == TV_OK || status == TV_FAULT);
        }
        tv_machine_trace(machine, NULL);
        check_sums(machine, &s);
        assert_int_equal(tv_machine_stats(machine, &stats), TV_OK);
        assert_true(stats.instructions > INSTRUCTIONS);
        assert_int_equal(s.events, stats.instructions); /* each has its energy once */
        tv_machine_free(machine);
        for (unsigned p = 0; p < programs_to_run(); p++)
            tv_program_free(programs[p]);
        tv_config_free(config);
    }
}

/* A run that stops, goes on, and has its statistics read in between. */
static void test_a_stopped_run_adds_up(void **state)
{
    (void)state;
    for (unsigned t = 0; t < TARGETS; t++) {
        tv_config *config = config_of(targets[t]);
        tv_program *program = program_of(config, 77);
        tv_machine *machine = machine_of(config, TV_MODE_FULL);
        tv_machine *whole = machine_of(config, TV_MODE_FULL);
        assert_int_equal(tv_machine_load(whole, program, NULL), TV_OK);
        assert_int_equal(tv_machine_run(whole, NULL, NULL), TV_OK);
        tv_energy_stats *expected = read_energy(whole);
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        for (uint64_t n = 1; n < INSTRUCTIONS; n += 37) {
            sums s = {0};
            assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), n, UINT64_MAX}, NULL),
                             TV_OK);
            tv_machine *again = machine_of(config, TV_MODE_FULL); /* traced up to the same instruction */
            tv_machine_trace(again, &(tv_trace_sink){add_event, &s});
            assert_int_equal(tv_machine_load(again, program, NULL), TV_OK);
            assert_int_equal(tv_machine_run(again, &(tv_run_limits){sizeof(tv_run_limits), n, UINT64_MAX}, NULL),
                             TV_OK);
            tv_machine_trace(again, NULL);
            check_sums(machine, &s);
            tv_machine_free(again);
        }
        assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
        tv_energy_stats *found = read_energy(machine);
        assert_memory_equal(found->counts, expected->counts, sizeof found->counts);
        check_equal_intervals(found->total, expected->total);
        free(found);
        free(expected);
        tv_machine_free(machine);
        tv_machine_free(whole);
        tv_program_free(program);
        tv_config_free(config);
    }
}

/* Index of an action. */
static unsigned find_action(const tv_config *config, const char *name)
{
    tv_energy_row row;
    for (unsigned i = 0; tv_energy_row_at(config, i, &row); i++)
        if (strcmp(row.name, name) == 0)
            return i;
    fail_msg("no action %s", name);
    return 0;
}

static void test_counts_do_not_depend_on_the_mode(void **state)
{
    (void)state;
    static const tv_mode modes[] = {TV_MODE_FULL, TV_MODE_TIMING, TV_MODE_FULL, TV_MODE_FUNCTIONAL};
    for (unsigned t = 0; t < TARGETS; t++) {
        tv_config *config = config_of(targets[t]);
        for (unsigned p = 0; p < programs_to_run(); p++) {
            tv_program *program = program_of(config, 100 + p);
            tv_energy_stats *first = NULL;
            for (unsigned m = 0; m < 4; m++) {
                tv_machine *machine = machine_of(config, modes[m]);
                tv_machine_set_threads(machine, m == 2 ? 3 : 1);
                assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
                assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
                tv_energy_stats *stats = read_energy(machine);
                if (first && modes[m] == TV_MODE_FUNCTIONAL) { /* has no time */
                    unsigned cycle = find_action(config, "cycle"), idle = find_action(config, "idle");
                    assert_int_equal(stats->counts[cycle], 0);
                    first->counts[cycle] = first->counts[idle] = stats->counts[idle] = 0;
                }
                if (first)
                    assert_memory_equal(stats->counts, first->counts, sizeof stats->counts);
                else
                    first = stats;
                if (stats != first)
                    free(stats);
                tv_machine_free(machine);
            }
            free(first);
            tv_program_free(program);
        }
        tv_config_free(config);
    }
}

static void test_snapshots_have_the_counts(void **state)
{
    (void)state;
    for (unsigned t = 0; t < TARGETS; t++) {
        tv_config *config = config_of(targets[t]);
        tv_program *program = program_of(config, 5);
        tv_machine *machine = machine_of(config, TV_MODE_FULL);
        tv_snapshot *snapshot;
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), 100, UINT64_MAX}, NULL),
                         TV_OK);
        tv_energy_stats *before = read_energy(machine);
        assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot), TV_OK);
        assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
        tv_energy_stats *end = read_energy(machine);
        assert_memory_not_equal(end->counts, before->counts, sizeof end->counts);
        assert_int_equal(tv_machine_restore(machine, snapshot), TV_OK);
        tv_energy_stats *after = read_energy(machine);
        assert_memory_equal(after->counts, before->counts, sizeof after->counts);
        free(before);
        free(end);
        free(after);
        tv_snapshot_free(snapshot);
        tv_machine_free(machine);
        tv_program_free(program);
        tv_config_free(config);
    }
}

static void test_intervals_contain_their_nominal_value(void **state)
{
    (void)state;
    static const char *const settings[][2] = {{"energy.process_nm", "7"}, {"energy.process_nm", "45"},
                                              {"energy.fabric", "fpga"},  {"energy.memory", "hbm2"},
                                              {"energy.memory", "sram"},  {"energy.supply_percent", "50"}};
    for (unsigned t = 0; t < TARGETS; t++)
        for (unsigned k = 0; k < sizeof settings / sizeof settings[0]; k++) {
            tv_config *config = config_of(targets[t]);
            tv_energy_row row;
            unsigned used = 0;
            assert_int_equal(tv_config_set(config, settings[k][0], settings[k][1], NULL), TV_OK);
            for (unsigned i = 0; tv_energy_row_at(config, i, &row); i++) {
                assert_true(row.low <= row.nominal && row.nominal <= row.high);
                bool exact = strcmp(row.component, "chip") == 0;
                if (row.used && !exact)
                    assert_true(row.low > 0 && row.low < row.high && row.source[0]);
                if (!row.used)
                    assert_int_equal(row.high, 0);
                used += row.used != 0;
            }
            assert_true(used > 10);
            tv_config_free(config);
        }
}

static void test_sums_carry_over(void **state)
{
    (void)state;
    const tv_joules big = {2, UINT64_C(999999999999999999)}, one = {0, 1};
    tv_energy a = {big, big, big}, b = {one, one, one}, sum = tv_energy_add(a, b);
    assert_int_equal(sum.low.joules, 3);
    assert_int_equal(sum.low.attojoules, 0);
    check_equal_intervals(tv_energy_since(sum, b), a);
    assert_true(tv_joules_value(sum.high) == 3.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_receiver_can_do_without_energy),
        cmocka_unit_test(test_instructions_add_up_to_the_run),
        cmocka_unit_test(test_a_stopped_run_adds_up),
        cmocka_unit_test(test_counts_do_not_depend_on_the_mode),
        cmocka_unit_test(test_snapshots_have_the_counts),
        cmocka_unit_test(test_intervals_contain_their_nominal_value),
        cmocka_unit_test(test_sums_carry_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
