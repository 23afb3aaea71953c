/* SPDX-License-Identifier: Apache-2.0 */
/* Random sequences of calls of the driver's hardware functions (examples/driver/hal.c) against the same words in loaded
 * programs: memory, faults and cycles are equal, also after faults, words for a full FIFO, and resets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hal.h"

enum { SEQUENCES = 1000, DEPTH = 128, BATCH_MAX = 160, HOST_BYTES = 1 << 16, L2_BYTES = 16 * 512 };

static uint64_t seed;

static unsigned draw(unsigned n) /* splitmix64 */
{
    uint64_t z = seed += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (unsigned)((z ^ z >> 31) % n);
}

static tv_program *assemble(const char *text)
{
    tv_program *program;
    assert_int_equal(tv_program_assemble("words", text, strlen(text), NULL, NULL, &program), TV_OK);
    return program;
}

/* A random instruction: shapes, copies, functions, some of them asynchronous; one in 32 faults or is illegal. */
static uint64_t draw_word(void)
{
    static const char *const functions[] = {"exp", "sqrt", "gelu", "recip", "reduce_sum", "sin"};
    char line[160];
    const char *suffix = draw(3) ? "" : ", async";
    if (draw(32) == 0)
        return draw(2) ? UINT64_C(0xF) << 60 : UINT64_C(0x3000000000000000) | (uint64_t)draw(1u << 30);
    switch (draw(4)) {
    case 0:
        snprintf(line, sizeof line, "memset fmap_shape[%u], %u, 1, %u", draw(4), 8 * (1 + draw(8)), 1 + draw(4));
        break;
    case 1:
        snprintf(line, sizeof line, "memcpy l2[%u], host[%u], shape=%u%s", draw(256), 16 * draw(1024), draw(4), suffix);
        break;
    case 2:
        snprintf(line, sizeof line, "memcpy host[%u], l2[%u], shape=%u%s", 16 * draw(1024), draw(256), draw(4), suffix);
        break;
    default:
        snprintf(line, sizeof line, "cvo.%s l2[%u], l2[%u], len=%u%s", functions[draw(6)], draw(256), draw(256),
                 draw(64), suffix);
    }
    char text[256];
    snprintf(text, sizeof text, "        .target pccx\n        %s\n", line);
    tv_program *program = assemble(text);
    uint64_t word = tv_program_word(program, 0);
    tv_program_free(program);
    return word;
}

/* ---- The same words as programs ---- */

typedef struct reference {
    tv_machine *machine;
    tv_program *program; /* the loaded one, or NULL */
} reference;

static void load_words(reference *r, const uint64_t *words, unsigned count)
{
    char *text = malloc(64 + (size_t)count * 40), *at = text;
    at += sprintf(at, "        .target pccx\n");
    for (unsigned i = 0; i < count; i++)
        at += sprintf(at, "        .word64 0x%016llx\n", (unsigned long long)words[i]);
    tv_program *program = assemble(text);
    free(text);
    assert_int_equal(tv_machine_load(r->machine, program, NULL), TV_OK);
    tv_program_free(r->program);
    r->program = program;
}

static uint64_t cycles_of(tv_machine *machine)
{
    tv_stats stats = {.size = sizeof stats};
    assert_int_equal(tv_machine_stats(machine, &stats), TV_OK);
    return stats.cycles;
}

static void compare_space(tv_machine *a, tv_machine *b, const char *space, size_t bytes)
{
    uint8_t *x = malloc(bytes), *y = malloc(bytes);
    assert_int_equal(tv_machine_read(a, space, 0, x, bytes, NULL), TV_OK);
    assert_int_equal(tv_machine_read(b, space, 0, y, bytes, NULL), TV_OK);
    assert_memory_equal(x, y, bytes);
    free(x);
    free(y);
}

/* Runs a batch both ways. The driver clears each fault and goes on; the reference loads what is left. */
static void run_batch(reference *r, const uint64_t *words, unsigned count)
{
    unsigned kept = count < DEPTH ? count : DEPTH, done = 0;
    for (unsigned i = 0; i < count; i++)
        uca_hal_issue_instr(words[i]);
    uint32_t dropped = count > DEPTH ? TV_WINDOW_ERROR : 0;
    uint8_t status[4];
    tv_machine_read(hal_machine(), "mmio", TV_WINDOW_STATUS, status, 4, NULL);
    assert_int_equal(status[0] & TV_WINDOW_ERROR, dropped);
    if (dropped)
        uca_hal_write32(TV_WINDOW_CONTROL, TV_WINDOW_CLEAR_ERROR);
    for (;;) {
        assert_int_equal(uca_hal_wait_idle(1000000), 0);
        load_words(r, words + done, kept - done);
        tv_status expected = tv_machine_run(r->machine, NULL, NULL);
        const tv_fault *fault = tv_machine_fault(hal_machine());
        assert_int_equal(fault != NULL, expected == TV_FAULT);
        assert_int_equal(cycles_of(hal_machine()), cycles_of(r->machine));
        if (!fault)
            return;
        const tv_fault *other = tv_machine_fault(r->machine);
        assert_string_equal(fault->code, other->code);
        assert_string_equal(fault->message, other->message);
        tv_machine_read(hal_machine(), "mmio", TV_WINDOW_STATUS, status, 4, NULL);
        assert_int_equal(status[0] & (TV_WINDOW_ERROR | TV_WINDOW_BUSY), TV_WINDOW_ERROR);
        done += (unsigned)other->index + 1;
        uca_hal_write32(TV_WINDOW_CONTROL, TV_WINDOW_CLEAR_ERROR);
        if (done == kept)
            return;
    }
}

static void run_sequence(void)
{
    uint64_t words[BATCH_MAX];
    uint8_t *bytes = malloc(HOST_BYTES);
    tv_config *config;
    reference r = {NULL, NULL};
    assert_int_equal(uca_hal_init(), 0);
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &r.machine), TV_OK);
    tv_config_free(config);
    for (unsigned i = 0; i < HOST_BYTES; i++)
        bytes[i] = (uint8_t)(i % 2 ? 0x3C + draw(8) : draw(256));
    tv_machine_write(hal_machine(), "host", 0, bytes, HOST_BYTES, NULL);
    tv_machine_write(r.machine, "host", 0, bytes, HOST_BYTES, NULL);
    for (unsigned batch = 0, batches = 1 + draw(4); batch < batches; batch++) {
        unsigned count = draw(16) ? 1 + draw(12) : DEPTH - 2 + draw(BATCH_MAX - DEPTH);
        for (unsigned i = 0; i < count; i++)
            words[i] = draw_word();
        run_batch(&r, words, count);
    }
    compare_space(hal_machine(), r.machine, "host", HOST_BYTES);
    compare_space(hal_machine(), r.machine, "l2", L2_BYTES);
    compare_space(hal_machine(), r.machine, "const", 6 * 128);
    uca_hal_deinit();
    tv_machine_free(r.machine);
    tv_program_free(r.program);
    free(bytes);
}

static void random_sequences_of_calls_do_what_the_same_programs_do(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < SEQUENCES; i++) {
        seed = i;
        run_sequence();
    }
}

static void a_driver_that_polls_sees_busy_then_done(void **unused)
{
    (void)unused;
    setenv("TRIVET_POLL_CYCLES", "10", 1);
    assert_int_equal(uca_hal_init(), 0);
    tv_program *program = assemble("        .target pccx\n        memset fmap_shape[0], 64, 1, 1\n"
                                   "        memcpy l2[0], host[0], shape=0\n        memcpy l2[8], host[0], shape=0\n");
    assert_int_equal(uca_hal_read_status(), 0);
    for (uint64_t i = 0; i < 3; i++)
        uca_hal_issue_instr(tv_program_word(program, i));
    unsigned polls = 0;
    while (uca_hal_read_status() & TV_WINDOW_BUSY)
        polls++;
    assert_int_equal(uca_hal_read_status(), TV_WINDOW_DONE);
    assert_in_range(polls, 7, 9); /* the second copy issues at cycle 83, 10 cycles a poll */
    unsetenv("TRIVET_POLL_CYCLES");
    tv_program_free(program);
    uca_hal_deinit();
}

/* What a driver issues after a pause takes its time from then on. */
static void a_driver_that_polls_before_it_works_sees_busy(void **unused)
{
    (void)unused;
    assert_int_equal(uca_hal_init(), 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(uca_hal_read_status(), 0);
    assert_int_equal(tv_machine_clock(hal_machine()), 40000);
    tv_program *program = assemble("        .target pccx\n        memset fmap_shape[0], 4096, 1, 1\n"
                                   "        memcpy l2[0], host[0], shape=0\n        memcpy l2[8], host[0], shape=0\n");
    for (uint64_t i = 0; i < 3; i++)
        uca_hal_issue_instr(tv_program_word(program, i));
    assert_int_equal(uca_hal_read_status(), TV_WINDOW_BUSY);
    assert_int_equal(uca_hal_wait_idle(1000), 0);
    assert_in_range(tv_machine_clock(hal_machine()), 40000 + 2 * 800, 40000 + 2 * 1000);
    tv_program_free(program);
    uca_hal_deinit();
}

static void a_wait_that_is_too_short_is_a_time_out(void **unused)
{
    (void)unused;
    assert_int_equal(uca_hal_init(), 0);
    char text[4096] = "        .target pccx\n        memset fmap_shape[0], 4096, 1, 1\n";
    for (unsigned i = 0; i < 20; i++)
        strcat(text, "        memcpy l2[0], host[0], shape=0\n");
    tv_program *program = assemble(text);
    for (uint64_t i = 0; i < tv_program_instruction_count(program); i++)
        uca_hal_issue_instr(tv_program_word(program, i));
    assert_int_equal(uca_hal_wait_idle(1), -1); /* 20 copies of 884 cycles are 44 microseconds */
    assert_int_equal(uca_hal_wait_idle(100), 0);
    tv_program_free(program);
    uca_hal_deinit();
}

static void functions_without_a_machine_have_no_effect(void **unused)
{
    (void)unused;
    uca_hal_deinit();
    for (unsigned i = 0; i < 2; i++) { /* before, and after */
        uca_hal_issue_instr(0);
        hal_stream(1, 0, 16);
        assert_int_equal(uca_hal_read_status(), 0);
        assert_int_equal(uca_hal_read32(0xFFFFFFFC), 0);
        assert_int_equal(uca_hal_wait_idle(1), -1);
        assert_int_equal(uca_hal_init(), 0);
        uca_hal_issue_instr(0);
        assert_int_equal(uca_hal_init(), 0); /* a new machine */
        assert_int_equal(uca_hal_read_status(), 0);
        uca_hal_deinit();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sequences_of_calls_do_what_the_same_programs_do),
        cmocka_unit_test(a_driver_that_polls_sees_busy_then_done),
        cmocka_unit_test(a_driver_that_polls_before_it_works_sees_busy),
        cmocka_unit_test(a_wait_that_is_too_short_is_a_time_out),
        cmocka_unit_test(functions_without_a_machine_have_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
