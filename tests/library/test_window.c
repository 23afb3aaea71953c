/* SPDX-License-Identifier: Apache-2.0 */
/* The register window of pccx as a driver uses it. Expected values are worked by hand, or those of the same words in a
 * loaded program. Public headers only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "trivet/trivet.h"

static tv_machine *machine_of(const char *key, const char *value)
{
    tv_config *config;
    tv_machine *machine;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    if (key)
        assert_int_equal(tv_config_set(config, key, value, NULL), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_config_free(config);
    return machine;
}

static tv_program *program_of(const char *text)
{
    tv_program *program;
    assert_int_equal(tv_program_assemble("test.s", text, strlen(text), NULL, NULL, &program), TV_OK);
    return program;
}

static void write32(tv_machine *machine, uint64_t offset, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};
    assert_int_equal(tv_machine_write(machine, "mmio", offset, bytes, 4, NULL), TV_OK);
}

static uint32_t read32(tv_machine *machine, uint64_t offset)
{
    uint8_t b[4];
    assert_int_equal(tv_machine_read(machine, "mmio", offset, b, 4, NULL), TV_OK);
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void push(tv_machine *machine, uint64_t word)
{
    write32(machine, TV_WINDOW_INSTR_LO, (uint32_t)word);
    write32(machine, TV_WINDOW_INSTR_HI, (uint32_t)(word >> 32));
}

static void push_all(tv_machine *machine, const char *text)
{
    tv_program *program = program_of(text);
    for (uint64_t i = 0; i < tv_program_instruction_count(program); i++)
        push(machine, tv_program_word(program, i));
    tv_program_free(program);
}

static uint32_t status_of(tv_machine *machine) { return read32(machine, TV_WINDOW_STATUS); }

static uint64_t cycles_of(tv_machine *machine)
{
    tv_stats stats = {.size = sizeof stats};
    assert_int_equal(tv_machine_stats(machine, &stats), TV_OK);
    return stats.cycles;
}

static void expect_fmap_shape(tv_machine *machine, unsigned entry, unsigned a)
{
    uint8_t bytes[6];
    assert_int_equal(tv_machine_read(machine, "const", entry, bytes, 6, NULL), TV_OK);
    assert_int_equal(bytes[0] | bytes[1] << 8, a);
}

#define TARGET "        .target pccx\n"

/* ---- The command FIFO ---- */

static void a_word_for_a_full_fifo_is_dropped_and_sets_error_until_it_is_cleared(void **unused)
{
    (void)unused;
    tv_machine *machine = machine_of("cmd.depth", "2");
    push_all(machine, TARGET "        memset fmap_shape[0], 1, 1, 1\n");
    assert_int_equal(read32(machine, TV_WINDOW_FIFO_LEVEL), 1);
    assert_int_equal(status_of(machine), TV_WINDOW_BUSY);
    push_all(machine, TARGET "        memset fmap_shape[1], 2, 1, 1\n");
    assert_int_equal(status_of(machine), TV_WINDOW_BUSY | TV_WINDOW_FULL);
    push_all(machine, TARGET "        memset fmap_shape[2], 3, 1, 1\n");
    assert_int_equal(status_of(machine), TV_WINDOW_BUSY | TV_WINDOW_FULL | TV_WINDOW_ERROR);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(status_of(machine), TV_WINDOW_DONE | TV_WINDOW_ERROR);
    assert_int_equal(read32(machine, TV_WINDOW_FIFO_LEVEL), 0);
    write32(machine, TV_WINDOW_CONTROL, TV_WINDOW_CLEAR_ERROR);
    assert_int_equal(status_of(machine), TV_WINDOW_DONE);
    expect_fmap_shape(machine, 0, 1);
    expect_fmap_shape(machine, 1, 2);
    expect_fmap_shape(machine, 2, 0);
    tv_machine_free(machine);
}

static void a_driver_clears_a_fault_and_the_next_instructions_run(void **unused)
{
    (void)unused;
    tv_machine *machine = machine_of(NULL, NULL);
    push_all(machine, TARGET "        memset fmap_shape[0], 1, 1, 1\n        cvo.exp l2[0], l2[3], len=0\n"
                             "        memset fmap_shape[1], 2, 1, 1\n");
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_FAULT);
    assert_string_equal(tv_machine_fault(machine)->code, "TV-P019");
    assert_int_equal(status_of(machine), TV_WINDOW_ERROR);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_FAULT); /* it stays so */
    write32(machine, TV_WINDOW_CONTROL, TV_WINDOW_CLEAR_ERROR);
    assert_null(tv_machine_fault(machine));
    assert_int_equal(status_of(machine), TV_WINDOW_BUSY);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(status_of(machine), TV_WINDOW_DONE);
    expect_fmap_shape(machine, 0, 1);
    expect_fmap_shape(machine, 1, 2);
    tv_machine_free(machine);
}

static void the_other_map_takes_a_word_and_a_kick(void **unused)
{
    (void)unused;
    tv_machine *machine = machine_of("window.map", "word");
    uint64_t word = UINT64_C(0x3000001000200030); /* memset fmap_shape[0], 1, 2, 3 */
    write32(machine, 0, (uint32_t)word);
    write32(machine, 4, (uint32_t)(word >> 32));
    assert_int_equal(read32(machine, TV_WINDOW_WORD_STATUS), 0);
    write32(machine, TV_WINDOW_WORD_KICK, 1);
    assert_int_equal(read32(machine, TV_WINDOW_WORD_STATUS), TV_WINDOW_BUSY);
    write32(machine, TV_WINDOW_WORD_KICK, 1); /* the same word again */
    assert_int_equal(read32(machine, TV_WINDOW_FIFO_LEVEL), 2);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(read32(machine, TV_WINDOW_WORD_STATUS), TV_WINDOW_DONE);
    expect_fmap_shape(machine, 0, 1);
    tv_machine_free(machine);
}

/* ---- STAT_OUT ---- */

typedef struct completions {
    unsigned count;
    uint64_t index[4], cycle[4];
} completions;

static void note_completion(void *user, const tv_event *event)
{
    completions *c = user;
    if (event->kind != TV_EVENT_STATUS || c->count == 4)
        return;
    c->index[c->count] = (uint64_t)event->index;
    c->cycle[c->count++] = event->start;
}

#define TWO_ASYNCHRONOUS                                                                                               \
    TARGET "        memset fmap_shape[0], 64, 1, 1\n        memcpy l2[0], host[0], shape=0, async\n"                   \
           "        cvo.exp l2[64], l2[32], len=8, async\n"

static void completions_of_asynchronous_instructions_are_read_in_their_order(void **unused)
{
    (void)unused;
    tv_machine *machine = machine_of(NULL, NULL);
    completions c = {0};
    tv_machine_trace(machine, &(tv_trace_sink){.event = note_completion, .user = &c});
    push_all(machine, TWO_ASYNCHRONOUS);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(c.count, 2);
    assert_int_equal(read32(machine, TV_WINDOW_STAT_LEVEL), 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(read32(machine, TV_WINDOW_STAT_INDEX), c.index[i]);
        assert_int_equal(read32(machine, TV_WINDOW_STAT_CYCLE_LO), c.cycle[i]);
        assert_int_equal(read32(machine, TV_WINDOW_STAT_CYCLE_HI), 0);
        write32(machine, TV_WINDOW_CONTROL, TV_WINDOW_STAT_POP);
    }
    assert_int_equal(c.index[0], 2); /* the function ends before the copy that was issued first */
    assert_int_equal(c.index[1], 1);
    assert_int_equal(read32(machine, TV_WINDOW_STAT_LEVEL), 0);
    assert_int_equal(read32(machine, TV_WINDOW_STAT_INDEX), 0);
    assert_int_equal(read32(machine, TV_WINDOW_CYCLE_LO), cycles_of(machine));
    assert_int_equal(status_of(machine), TV_WINDOW_DONE);
    tv_machine_free(machine);
}

static void the_oldest_completion_is_lost_when_stat_out_is_full(void **unused)
{
    (void)unused;
    tv_machine *machine = machine_of("stat.depth", "1");
    push_all(machine, TWO_ASYNCHRONOUS);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(read32(machine, TV_WINDOW_STAT_LEVEL), 1);
    assert_int_equal(read32(machine, TV_WINDOW_STAT_INDEX), 1);
    assert_int_equal(status_of(machine), TV_WINDOW_DONE | TV_WINDOW_LOST);
    write32(machine, TV_WINDOW_CONTROL, TV_WINDOW_CLEAR_ERROR | TV_WINDOW_STAT_POP);
    assert_int_equal(status_of(machine), TV_WINDOW_DONE);
    assert_int_equal(read32(machine, TV_WINDOW_STAT_LEVEL), 0);
    tv_machine_free(machine);
}

/* ---- Weights ---- */

#define PRODUCT                                                                                                        \
    "        memset weight_shape[0], 1, 64, 32\n        memset fmap_shape[0], 64, 1, 1\n"                              \
    "        memcpy l2[0], host[0], shape=0\n        gemv l2[16], l2[0], size=0, shape=0, lanes=4\n"                   \
    "        memcpy host[4096], l2[16], shape=0\n"

static void fill_host(tv_machine *machine)
{
    uint8_t bytes[2048];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i < 128 ? (i % 2 ? 0x3F : i * 3) : i * 7); /* 64 BF16, then weights */
    assert_int_equal(tv_machine_write(machine, "host", 0, bytes, sizeof bytes, NULL), TV_OK);
}

static void push_descriptor(tv_machine *machine, uint64_t addr, uint64_t bytes, uint32_t stream)
{
    write32(machine, TV_WINDOW_STREAM_ADDR_LO, (uint32_t)addr);
    write32(machine, TV_WINDOW_STREAM_ADDR_HI, (uint32_t)(addr >> 32));
    write32(machine, TV_WINDOW_STREAM_BYTES_LO, (uint32_t)bytes);
    write32(machine, TV_WINDOW_STREAM_BYTES_HI, (uint32_t)(bytes >> 32));
    write32(machine, TV_WINDOW_STREAM_PUSH, stream);
}

static void weights_from_the_window_are_those_of_a_program(void **unused)
{
    (void)unused;
    tv_machine *loaded = machine_of(NULL, NULL), *driven = machine_of(NULL, NULL);
    tv_program *program = program_of(TARGET "        wstream gemv, 128, 1024\n" PRODUCT);
    uint8_t a[64], b[64], zero[64] = {0};
    fill_host(loaded);
    assert_int_equal(tv_machine_load(loaded, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(loaded, NULL, NULL), TV_OK);
    fill_host(driven);
    push_descriptor(driven, 128, 1024, 1);
    push_all(driven, TARGET PRODUCT);
    assert_int_equal(tv_machine_run(driven, NULL, NULL), TV_OK);
    tv_machine_read(loaded, "host", 4096, a, sizeof a, NULL);
    tv_machine_read(driven, "host", 4096, b, sizeof b, NULL);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, zero, sizeof a);
    assert_int_equal(cycles_of(loaded), cycles_of(driven));
    tv_program_free(program);
    tv_machine_free(loaded);
    tv_machine_free(driven);
}

static void an_invalid_descriptor_sets_error(void **unused)
{
    (void)unused;
    tv_machine *machine = machine_of(NULL, NULL);
    push_descriptor(machine, 0, 16, 2);
    assert_int_equal(status_of(machine), TV_WINDOW_ERROR);
    write32(machine, TV_WINDOW_CONTROL, TV_WINDOW_CLEAR_ERROR);
    push_descriptor(machine, 0, UINT64_C(1) << 48, 0);
    assert_int_equal(status_of(machine), TV_WINDOW_ERROR);
    tv_machine_free(machine);
}

static void incomplete_registers_are_rejected(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t addr;
        size_t bytes;
    } ranges[] = {{0, 3}, {2, 4}, {1, 8}, {0, 5}, {TV_WINDOW_STREAM_PUSH + 1, 1}};
    tv_machine *machine = machine_of(NULL, NULL);
    const uint8_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++)
        assert_int_equal(tv_machine_write(machine, "mmio", ranges[i].addr, ones, ranges[i].bytes, NULL), TV_ERR_INPUT);
    assert_int_equal(status_of(machine), 0);
    assert_int_equal(tv_machine_write(machine, "mmio", 0, ones, 0, NULL), TV_OK);
    tv_machine_free(machine);
}

/* ---- Time ---- */

static uint64_t read_cycle(tv_machine *machine)
{
    uint8_t b[8];
    assert_int_equal(tv_machine_read(machine, "mmio", TV_WINDOW_CYCLE_LO, b, 8, NULL), TV_OK);
    uint64_t cycle = 0;
    for (unsigned i = 8; i-- > 0;)
        cycle = cycle << 8 | b[i];
    return cycle;
}

/* A copy takes as long after a pause as before it, and the pause is idle time of each engine. */
static void time_passes_while_a_driver_waits(void **unused)
{
    (void)unused;
    static const char copy[] = ".target pccx\nmemset fmap_shape[0], 8, 1, 1\nmemcpy l2[0], host[0], shape=0\n";
    tv_machine *machine = machine_of(NULL, NULL);
    push_all(machine, copy);
    assert_int_equal(tv_machine_advance(machine, 5000), TV_ERR_INPUT); /* words wait */
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    uint64_t first = cycles_of(machine);
    assert_int_equal(tv_machine_advance(machine, first - 1), TV_OK);
    assert_int_equal(read_cycle(machine), first);
    assert_int_equal(tv_machine_advance(machine, 5000), TV_OK);
    assert_int_equal(read_cycle(machine), 5000);
    push_all(machine, copy);
    assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, 5000}, NULL), TV_OK);
    assert_int_equal(read_cycle(machine), 5000); /* nothing issues before */
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(cycles_of(machine), 5000 + first);
    tv_stats stats = {.size = sizeof stats};
    assert_int_equal(tv_machine_stats(machine, &stats), TV_OK);
    for (unsigned i = 0; i < stats.engine_count; i++)
        if (strcmp(stats.engines[i].name, "GEMM") == 0)
            assert_int_equal(stats.engines[i].idle, 5000 + first);
    push(machine, UINT64_C(0xF) << 60);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_FAULT);
    assert_int_equal(tv_machine_advance(machine, 20000), TV_OK); /* nothing runs until the driver clears it */
    write32(machine, TV_WINDOW_CONTROL, TV_WINDOW_CLEAR_ERROR);
    push_all(machine, copy);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(cycles_of(machine), 20000 + first);
    assert_int_equal(tv_machine_advance(machine, TV_CYCLE_MAX + 1), TV_ERR_INPUT);
    tv_machine_free(machine);
}

/* ---- Reset ---- */

static void a_reset_empties_queues_and_keeps_memory_and_the_clock(void **unused)
{
    (void)unused;
    tv_machine *machine = machine_of(NULL, NULL), *fresh = machine_of(NULL, NULL);
    uint8_t word[16], again[16];
    fill_host(machine);
    fill_host(fresh);
    push_descriptor(machine, 512, 1024, 1); /* weights that nothing takes */
    push_all(machine, TARGET "        memset fmap_shape[0], 64, 1, 1\n        memcpy l2[0], host[0], shape=0, async\n"
                             "        cvo.exp l2[0], l2[3], len=0\n");
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_FAULT);
    uint64_t before = cycles_of(machine);
    push_all(machine, TARGET "        memset fmap_shape[1], 64, 1, 1\n");
    write32(machine, TV_WINDOW_CONTROL, TV_WINDOW_RESET);
    assert_int_equal(status_of(machine), 0);
    assert_null(tv_machine_fault(machine));
    assert_int_equal(read32(machine, TV_WINDOW_FIFO_LEVEL), 0);
    assert_int_equal(read32(machine, TV_WINDOW_STAT_LEVEL), 0);
    expect_fmap_shape(machine, 0, 0);
    tv_machine_read(machine, "l2", 0, word, 16, NULL);
    tv_machine_read(machine, "host", 0, again, 16, NULL);
    assert_memory_equal(word, again, 16);
    assert_int_equal(cycles_of(machine), before);
    /* then it is as a new machine, but for the clock */
    push_descriptor(machine, 128, 1024, 1);
    push_all(machine, TARGET PRODUCT);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    push_descriptor(fresh, 128, 1024, 1);
    push_all(fresh, TARGET PRODUCT);
    assert_int_equal(tv_machine_run(fresh, NULL, NULL), TV_OK);
    tv_machine_read(machine, "host", 4096, word, 16, NULL);
    tv_machine_read(fresh, "host", 4096, again, 16, NULL);
    assert_memory_equal(word, again, 16);
    assert_int_equal(cycles_of(machine) - before, cycles_of(fresh));
    tv_machine_free(machine);
    tv_machine_free(fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_for_a_full_fifo_is_dropped_and_sets_error_until_it_is_cleared),
        cmocka_unit_test(a_driver_clears_a_fault_and_the_next_instructions_run),
        cmocka_unit_test(the_other_map_takes_a_word_and_a_kick),
        cmocka_unit_test(completions_of_asynchronous_instructions_are_read_in_their_order),
        cmocka_unit_test(the_oldest_completion_is_lost_when_stat_out_is_full),
        cmocka_unit_test(weights_from_the_window_are_those_of_a_program),
        cmocka_unit_test(an_invalid_descriptor_sets_error),
        cmocka_unit_test(incomplete_registers_are_rejected),
        cmocka_unit_test(time_passes_while_a_driver_waits),
        cmocka_unit_test(a_reset_empties_queues_and_keeps_memory_and_the_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
