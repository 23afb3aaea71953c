/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of pccx that the memo of timing repeats give what the full computation gives. A machine whose runs stop once
 * in the middle of each program computes all of them in full. */
#include "digest.h"
#include "machine/instance.h"
#include "machine/pccx/internal.h"
#include "trivet/trivet.h"
#include "unit.h"

enum { SEEDS = 24, PROGRAMS = 4, RUNS = 14, SHIFT = 4096 };

/* Removes the weights at the end that the program does not take: streams of the memo's programs end with them. */
static void remove_rest(const tv_config *config, tv_program *program)
{
    tv_machine *machine;
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    const pccx_machine *m = machine->state;
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        for (uint64_t left = m->control.weights[k].left, last; left; left -= last) {
            tv_descriptor *d = &program->descriptors[k][program->descriptor_count[k] - 1];
            last = left < d->bytes ? left : d->bytes;
            d->bytes -= last;
            program->descriptor_count[k] -= d->bytes == 0;
        }
    tv_machine_free(machine);
}

static tv_program *generate(const tv_config *config, uint64_t seed, uint64_t instructions)
{
    tv_generate_options options = {.size = sizeof options, .seed = seed, .instructions = instructions};
    tv_generated made;
    tv_program *program;
    assert_int_equal(tv_program_generate(config, &options, NULL, &made), TV_OK);
    assert_int_equal(tv_program_assemble("made.s", made.source, strlen(made.source), NULL, NULL, &program), TV_OK);
    free(made.source);
    free(made.counts);
    remove_rest(config, program);
    return program;
}

/* Weights elsewhere: another layer of a model. */
static void move_weights(tv_program *program, uint64_t shift)
{
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        for (uint64_t i = 0; i < program->descriptor_count[k]; i++)
            program->descriptors[k][i].addr += shift;
}

static tv_status run_to(tv_machine *machine, uint64_t until)
{
    return tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), until, UINT64_MAX}, NULL);
}

/* Runs the loaded program; returns whether the memo had it. */
static bool run_whole(tv_machine *machine, tv_status *status)
{
    const pccx_machine *m = machine->state;
    const pccx_timing before = m->timing;
    *status = run_to(machine, UINT64_MAX);
    /* a slot that was issued has the weights of its instruction; the memo has none */
    const pccx_slot *slot = &m->timing.slots[PCCX_ENGINE_GEMV];
    return *status == TV_OK && slot->used && slot->index > before.slots[PCCX_ENGINE_GEMV].index && !slot->op.weights;
}

/* FIFOs are empty, and constants 0; those of one entry 1 if it is not 0. */
static void reset(tv_machine *machine, uint64_t entry)
{
    const uint32_t value = TV_WINDOW_RESET;
    const uint16_t ones[3] = {1, 1, 1};
    assert_int_equal(tv_machine_write(machine, "mmio", TV_WINDOW_CONTROL, &value, sizeof value, NULL), TV_OK);
    if (entry)
        assert_int_equal(tv_machine_write(machine, "const", entry, ones, sizeof ones, NULL), TV_OK);
}

static unsigned compare_runs(uint64_t seed, tv_mode mode)
{
    tv_config *config;
    tv_program *programs[PROGRAMS];
    tv_machine *repeating, *full;
    unsigned hits = 0;
    unit_rng rng = {seed};
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "stat.depth", seed % 2 ? "8" : "128", NULL), TV_OK);
    for (unsigned i = 0; i < PROGRAMS; i++)
        programs[i] = generate(config, seed + (i == 2), 40 + 30 * (seed % 7));
    move_weights(programs[1], SHIFT); /* the others are the first one, another, and one whose weights do not exist */
    move_weights(programs[3], UINT64_C(1) << 40);
    assert_int_equal(tv_machine_new(config, mode, NULL, &repeating), TV_OK);
    assert_int_equal(tv_machine_new(config, mode, NULL, &full), TV_OK);
    for (unsigned run = 0; run < RUNS; run++) {
        const tv_program *program = programs[run < 4 ? run % 2 : unit_below(&rng, PROGRAMS)];
        uint64_t count = tv_program_instruction_count(program);
        tv_status status, expected;
        if (run % 5 == 4) { /* an activation that is not finite may be read */
            const uint16_t word[8] = {0, 0x7FC0};
            uint64_t at = unit_below(&rng, 2048);
            assert_int_equal(tv_machine_write(repeating, "l2", at, word, sizeof word, NULL), TV_OK);
            assert_int_equal(tv_machine_write(full, "l2", at, word, sizeof word, NULL), TV_OK);
        }
        if (run % 6) { /* otherwise FIFOs and constants are what the last program left */
            uint64_t constant = run > 6 ? unit_below(&rng, 128) : 0;
            reset(repeating, constant);
            reset(full, constant);
        }
        assert_int_equal(tv_machine_load(repeating, program, NULL), TV_OK);
        assert_int_equal(tv_machine_load(full, program, NULL), TV_OK);
        tv_snapshot *before;
        assert_int_equal(tv_machine_snapshot(repeating, NULL, UINT64_MAX, &before), TV_OK);
        hits += run_whole(repeating, &status);
        if (run % 3 == 0) { /* once more, now that the memo has it */
            assert_int_equal(tv_machine_restore(repeating, before), TV_OK);
            hits += run_whole(repeating, &status);
        }
        tv_snapshot_free(before);
        expected = run_to(full, 1 + unit_below(&rng, count - 1));
        if (expected == TV_OK)
            expected = run_to(full, UINT64_MAX);
        assert_int_equal(status, expected);
        if (digest_machine(repeating) != digest_machine(full))
            fail_msg("seed %u, run %u: not as in full", (unsigned)seed, run);
    }
    tv_machine_free(repeating);
    tv_machine_free(full);
    for (unsigned i = 0; i < PROGRAMS; i++)
        tv_program_free(programs[i]);
    tv_config_free(config);
    return hits;
}

static unsigned seeds(void) { return SEEDS / (unit_sample() < 4 ? unit_sample() : 4); }

static void repeated_programs_take_the_cycles_of_the_full_computation(void **state)
{
    (void)state;
    unsigned hits = 0;
    for (uint64_t seed = 0; seed < seeds(); seed++)
        hits += compare_runs(seed, TV_MODE_FULL);
    assert_true(hits > 2 * seeds());
}

static void repeated_programs_without_data_take_the_cycles_of_the_full_computation(void **state)
{
    (void)state;
    unsigned hits = 0;
    for (uint64_t seed = 100; seed < 100 + seeds(); seed++)
        hits += compare_runs(seed, TV_MODE_TIMING);
    assert_true(hits > 2 * seeds());
}

/* More programs than the memo has room for, by number and by bytes: each is run twice, the first ones again at the end.
 */
static void programs_that_exceed_the_memo_are_computed_again(void **state)
{
    (void)state;
    enum { MANY = 700, LARGE = 30 };
    tv_config *config;
    tv_machine *machine;
    uint64_t cycles[MANY + LARGE];
    char source[128];
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    for (unsigned run = 0; run < 2 * (MANY + LARGE); run++) {
        unsigned i = run % (MANY + LARGE), count = i < MANY ? 16 + i % 5 : 8000;
        tv_program *program;
        snprintf(source, sizeof source, ".target pccx\n.rept %u\nmemset fmap_shape[1], %u, 1, 1\n.endr\n", count,
                 i + 1);
        assert_int_equal(tv_program_assemble("made.s", source, strlen(source), NULL, NULL, &program), TV_OK);
        for (unsigned twice = 0; twice < 2; twice++) {
            uint16_t entry[3];
            uint64_t before = tv_machine_clock(machine);
            assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
            assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
            uint64_t taken = tv_machine_clock(machine) - before;
            cycles[i] = run < MANY + LARGE && !twice ? taken : cycles[i];
            assert_int_equal(taken, cycles[i]);
            assert_int_equal(tv_machine_read(machine, "const", 1, entry, sizeof entry, NULL), TV_OK);
            assert_int_equal(entry[0], i + 1);
        }
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        tv_machine_run(machine, NULL, NULL);
        if (run + 1 == 2 * (MANY + LARGE)) {
            tv_machine_free(machine);
            machine = NULL;
        } else { /* the machine does not keep the program */
            static const uint32_t value = TV_WINDOW_RESET;
            assert_int_equal(tv_machine_write(machine, "mmio", TV_WINDOW_CONTROL, &value, sizeof value, NULL), TV_OK);
        }
        tv_program_free(program);
    }
    tv_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_programs_take_the_cycles_of_the_full_computation),
        cmocka_unit_test(repeated_programs_without_data_take_the_cycles_of_the_full_computation),
        cmocka_unit_test(programs_that_exceed_the_memo_are_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
