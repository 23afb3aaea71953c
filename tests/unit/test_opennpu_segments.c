/* SPDX-License-Identifier: Apache-2.0 */
/* A program that runs in segments, each of which continues the one before, against the same program in one piece, cut
 * after every few instructions. Arguments: programs for the default profile. */
#include "unit.h"

#include "program/build.h"
#include "program/program.h"
#include "trivet/trivet.h"

static char **paths;
static int path_count;

static tv_machine *new_machine(void)
{
    tv_config *config;
    tv_machine *machine;
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_config_free(config);
    return machine;
}

static void run_loaded(tv_machine *machine)
{
    tv_stop_reason stop;
    assert_int_equal(tv_machine_run(machine, NULL, &stop), TV_OK);
    assert_int_equal(stop, TV_STOP_END);
}

/* The instructions [from, to) of a program, without its data. */
static tv_program *cut_program(const tv_program *whole, uint64_t from, uint64_t to, bool continues)
{
    tv_program *program;
    tv_builder builder = {.isa = whole->isa};
    for (uint64_t i = from; i < to; i++)
        tv_builder_word(&builder, tv_load_le32(whole->text + 4 * i));
    assert_int_equal(tv_builder_finish(&builder, NULL, &program), TV_OK);
    tv_builder_fini(&builder);
    program->continues = continues;
    return program;
}

/* Runs a program in segments of `length` instructions, after its data was loaded. */
static tv_machine *run_segments(const tv_program *whole, uint64_t length, bool continues)
{
    tv_machine *machine = new_machine();
    tv_program *previous = NULL;
    assert_int_equal(tv_machine_load(machine, whole, NULL), TV_OK);
    for (uint64_t from = 0; from < whole->instruction_count; from += length) {
        tv_program *segment =
            cut_program(whole, from, tv_min_u64(from + length, whole->instruction_count), continues && from > 0);
        assert_int_equal(tv_machine_load(machine, segment, NULL), TV_OK);
        tv_program_free(previous);
        previous = segment;
        run_loaded(machine);
    }
    assert_int_equal(tv_machine_instruction_base(machine) + tv_machine_next_index(machine), whole->instruction_count);
    tv_program_free(previous);
    return machine;
}

static tv_stats stats_of(const tv_machine *machine)
{
    tv_stats stats = {.size = sizeof stats};
    assert_int_equal(tv_machine_stats(machine, &stats), TV_OK);
    return stats;
}

static void compare_stats(const tv_stats *a, const tv_stats *b)
{
    assert_int_equal(a->cycles, b->cycles);
    assert_int_equal(a->instructions, b->instructions);
    assert_int_equal(a->macs, b->macs);
    for (unsigned e = 0; e < a->engine_count; e++) {
        assert_int_equal(a->engines[e].busy, b->engines[e].busy);
        assert_int_equal(a->engines[e].idle, b->engines[e].idle);
        assert_memory_equal(a->engines[e].stalled, b->engines[e].stalled, sizeof a->engines[e].stalled);
    }
}

static void compare_memory(tv_machine *a, tv_machine *b)
{
    enum { BYTES = 1 << 16 };
    static uint8_t bytes[2][BYTES];
    assert_int_equal(tv_machine_read(a, "mem", 0, bytes[0], BYTES, NULL), TV_OK);
    assert_int_equal(tv_machine_read(b, "mem", 0, bytes[1], BYTES, NULL), TV_OK);
    assert_memory_equal(bytes[0], bytes[1], BYTES);
}

static void segments_take_the_ticks_of_one_program(void **unused)
{
    (void)unused;
    uint64_t longer = 0;
    for (int i = 0; i < path_count; i++) {
        tv_program *whole;
        const tv_program_options options = {.size = sizeof options, .target = "opennpu"};
        assert_int_equal(tv_program_open(paths[i], &options, NULL, &whole), TV_OK);
        tv_machine *machine = new_machine();
        assert_int_equal(tv_machine_load(machine, whole, NULL), TV_OK);
        run_loaded(machine);
        tv_stats expected = stats_of(machine);
        for (uint64_t length = 1; length <= 16; length += 5) {
            tv_machine *segments = run_segments(whole, length, true), *programs = run_segments(whole, length, false);
            tv_stats continued = stats_of(segments), separate = stats_of(programs);
            compare_stats(&continued, &expected);
            compare_memory(segments, machine);
            longer += separate.cycles > expected.cycles;
            tv_machine_free(segments);
            tv_machine_free(programs);
        }
        tv_machine_free(machine);
        tv_program_free(whole);
    }
    assert_true(longer > 0); /* separate programs wait for their results */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(segments_take_the_ticks_of_one_program)};
    paths = argv + 1;
    path_count = argc - 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
