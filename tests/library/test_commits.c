/* SPDX-License-Identifier: Apache-2.0 */
/* Commit records and single words as an embedder uses them; expected values are worked by hand. Replaying the writes of
 * random programs is oracle/commits.py. Public headers only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "trivet/trivet.h"

static tv_program *program_of(const char *text)
{
    tv_program *program;
    assert_int_equal(tv_program_assemble("test.s", text, strlen(text), NULL, NULL, &program), TV_OK);
    return program;
}

static tv_machine *machine_of(const char *target, tv_mode mode)
{
    tv_config *config;
    tv_machine *machine;
    assert_int_equal(tv_config_new(target, NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, mode, NULL, &machine), TV_OK);
    tv_config_free(config);
    return machine;
}

/* What a sink has received, as counts and the last record of each kind without its pointers. */
typedef struct received {
    unsigned count[TV_COMMIT_COMPLETION + 1];
    tv_commit last[TV_COMMIT_COMPLETION + 1];
    char names[256]; /* of the values of instructions: "sum0=2048 " */
    uint64_t next_order;
    uint64_t end[8]; /* of completions by order */
} received;

static void receive(void *user, const tv_commit *commit)
{
    received *r = user;
    if (commit->kind != TV_COMMIT_COMPLETION)
        assert_int_equal(commit->order, r->next_order++);
    else if (commit->order < 8)
        r->end[commit->order] = commit->end;
    r->count[commit->kind]++;
    r->last[commit->kind] = *commit;
    for (unsigned i = 0; i < commit->value_count; i++) {
        const tv_inner_value *v = &commit->values[i];
        char text[64];
        snprintf(text, sizeof text, "%s%u=%g ", v->name, (unsigned)v->element,
                 v->is_integer ? (double)v->integer : v->real);
        strncat(r->names, text, sizeof r->names - strlen(r->names) - 1);
    }
}

static void attach(tv_machine *machine, unsigned contents, received *r)
{
    assert_int_equal(tv_machine_commits(machine, contents, &(tv_commit_sink){receive, r}), TV_OK);
}

/* memset fmap_shape[3], 5, 6, 7 */
static const uint64_t memset_word =
    UINT64_C(3) << 60 | UINT64_C(3) << 52 | UINT64_C(5) << 36 | UINT64_C(6) << 20 | UINT64_C(7) << 4;

static void test_a_word_executes_without_a_program(void **state)
{
    (void)state;
    tv_machine *machine = machine_of("pccx", TV_MODE_FULL);
    tv_commit commit;
    assert_int_equal(tv_machine_execute(machine, memset_word, TV_COMMIT_ALL, &commit), TV_OK);
    assert_string_equal(commit.insn, "MEMSET");
    assert_null(commit.fault);
    assert_int_equal(commit.origin, TV_ORIGIN_EXECUTE);
    assert_int_equal(commit.word, memset_word);
    assert_int_equal(commit.end, commit.issue + 1);
    assert_int_equal(commit.effect_count, 1);
    const tv_effect *e = commit.effects;
    assert_string_equal(e->space, "const");
    assert_int_equal(e->addr, 3);
    assert_int_equal(e->bytes, 6);
    assert_true(e->write);
    assert_memory_equal(e->before, "\0\0\0\0\0\0", 6);
    assert_memory_equal(e->after, "\5\0\6\0\7\0", 6);
    assert_int_equal(tv_machine_execute(machine, memset_word, TV_COMMIT_WRITES, &commit), TV_OK);
    assert_null(commit.effects[0].before);
    assert_int_equal(commit.issue, TV_CYCLE_UNKNOWN);
    tv_machine_free(machine);
}

static void test_a_fault_is_a_result_and_the_next_word_executes(void **state)
{
    (void)state;
    tv_machine *machine = machine_of("pccx", TV_MODE_FULL);
    tv_commit commit;
    assert_int_equal(tv_machine_execute(machine, UINT64_C(0xF) << 60, TV_COMMIT_ALL, &commit), TV_OK);
    assert_non_null(commit.fault);
    assert_null(commit.insn);
    assert_int_equal(commit.effect_count, 0);
    assert_null(tv_machine_fault(machine));
    assert_int_equal(tv_machine_execute(machine, memset_word, TV_COMMIT_ALL, &commit), TV_OK);
    assert_null(commit.fault);
    assert_int_equal(commit.order, 1);
    tv_machine_free(machine);
}

static void test_a_word_drops_the_rest_of_a_program(void **state)
{
    (void)state;
    tv_machine *machine = machine_of("pccx", TV_MODE_FULL);
    tv_program *program = program_of(" .target pccx\n memset fmap_shape[0], 1, 1, 1\n memset fmap_shape[1], 2, 2, 2\n");
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_step(machine, NULL), TV_OK);
    assert_int_equal(tv_machine_execute(machine, memset_word, 0, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(tv_machine_instruction_base(machine), 2);
    uint16_t shape[12];
    assert_int_equal(tv_machine_read(machine, "const", 0, shape, sizeof shape, NULL), TV_OK);
    assert_int_equal(shape[0], 1);
    assert_int_equal(shape[3], 0);
    assert_int_equal(shape[9], 5);
    tv_machine_free(machine);
    tv_program_free(program);
}

static void test_a_queue_has_no_words(void **state)
{
    (void)state;
    tv_machine *machine = machine_of("cmdq", TV_MODE_FULL);
    assert_int_equal(tv_machine_execute(machine, 0, 0, NULL), TV_ERR_INPUT);
    tv_machine_free(machine);
}

static void test_no_word_overtakes_the_command_fifo(void **state)
{
    (void)state;
    tv_machine *machine = machine_of("pccx", TV_MODE_FULL);
    uint32_t halves[2] = {(uint32_t)memset_word, (uint32_t)(memset_word >> 32)};
    assert_int_equal(tv_machine_write(machine, "mmio", 0, halves, 8, NULL), TV_OK);
    assert_int_equal(tv_machine_execute(machine, memset_word, 0, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(tv_machine_execute(machine, memset_word, 0, NULL), TV_OK);
    tv_machine_free(machine);
}

/* 32 ones become 64 each with the scale 2^-6; the rows of weights are 1 and -8: sums 64 * 32 and -8 * 64 * 32. */
static const char gemv[] = " .target pccx\n"
                           " memset fmap_shape[0], 8, 4, 1\n"
                           " memset weight_shape[0], 1, 2, 32\n"
                           " memcpy l2[0], host[x], shape=0\n"
                           " wstream gemv, w, 32\n"
                           " gemv l2[8], l2[0], size=1, shape=0\n"
                           " .data\n"
                           "x: .rept 32\n .bf16 1\n .endr\n"
                           "w: .rept 16\n .byte 0x11\n .endr\n .rept 16\n .byte 0x88\n .endr\n";

static void test_inner_values_of_a_product_are_its_sums(void **state)
{
    (void)state;
    received r = {.next_order = 0};
    tv_machine *machine = machine_of("pccx", TV_MODE_FUNCTIONAL);
    tv_program *program = program_of(gemv);
    attach(machine, TV_COMMIT_WRITES | TV_COMMIT_VALUES, &r);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_string_equal(r.names, "sum0=2048 scaled0=32 sum1=-16384 scaled1=-256 ");
    assert_int_equal(r.count[TV_COMMIT_LOAD], 1);
    assert_int_equal(r.count[TV_COMMIT_INSTRUCTION], 4);
    assert_int_equal(r.last[TV_COMMIT_INSTRUCTION].line, 6);
    tv_machine_free(machine);
    tv_program_free(program);
}

static void test_an_end_that_depends_on_streams_is_a_completion(void **state)
{
    (void)state;
    received r = {.next_order = 0};
    tv_machine *machine = machine_of("pccx", TV_MODE_FULL);
    tv_program *program = program_of(gemv);
    attach(machine, TV_COMMIT_CYCLES, &r);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(tv_machine_commits(machine, 0, NULL), TV_OK);
    tv_stats stats = {.size = sizeof stats};
    assert_int_equal(tv_machine_stats(machine, &stats), TV_OK);
    uint64_t end = r.end[4] ? r.end[4] : r.last[TV_COMMIT_INSTRUCTION].end;
    assert_true(r.end[3] > 0 && r.end[3] < end); /* the copy shares the bandwidth of host memory */
    assert_int_equal(end, stats.cycles);
    assert_int_equal(r.last[TV_COMMIT_INSTRUCTION].effect_count, 0);
    tv_machine_free(machine);
    tv_program_free(program);
}

static void test_accesses_from_outside_are_records(void **state)
{
    (void)state;
    received r = {.next_order = 0};
    tv_machine *machine = machine_of("pccx", TV_MODE_FULL);
    uint32_t halves[2] = {(uint32_t)memset_word, (uint32_t)(memset_word >> 32)}, status;
    attach(machine, TV_COMMIT_ALL, &r);
    assert_int_equal(tv_machine_write(machine, "host", 64, halves, 8, NULL), TV_OK);
    assert_int_equal(tv_machine_write(machine, "mmio", 0, halves, 8, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(r.last[TV_COMMIT_INSTRUCTION].origin, TV_ORIGIN_WINDOW);
    assert_int_equal(r.count[TV_COMMIT_HOST], 2);
    assert_int_equal(tv_machine_read(machine, "host", 64, halves, 8, NULL), TV_OK);
    assert_int_equal(r.count[TV_COMMIT_HOST], 2);
    assert_int_equal(tv_machine_read(machine, "mmio", 8, &status, 4, NULL), TV_OK);
    assert_int_equal(r.count[TV_COMMIT_HOST], 3); /* a driver reads a register */
    tv_machine_free(machine);
}

static void test_records_and_traces_do_not_disturb_each_other(void **state)
{
    (void)state;
    received r = {.next_order = 0};
    tv_machine *machine = machine_of("pccx", TV_MODE_FULL), *reference = machine_of("pccx", TV_MODE_FULL);
    tv_program *program = program_of(gemv);
    assert_int_equal(tv_machine_load(reference, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(reference, NULL, NULL), TV_OK);
    attach(machine, TV_COMMIT_ALL, &r);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    tv_snapshot *snapshot;
    assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot), TV_ERR_INPUT);
    assert_int_equal(tv_machine_step(machine, NULL), TV_OK);
    assert_int_equal(tv_machine_commits(machine, 0, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(tv_machine_clock(machine), tv_machine_clock(reference));
    assert_int_equal(r.count[TV_COMMIT_INSTRUCTION], 1);
    tv_machine_free(machine);
    tv_machine_free(reference);
    tv_program_free(program);
}

static void test_inner_values_of_lanes_are_exact(void **state)
{
    (void)state;
    tv_machine *machine = machine_of("opennpu", TV_MODE_FUNCTIONAL);
    tv_codec *codec;
    tv_commit commit;
    uint64_t word;
    uint8_t lanes[64] = {100, 0x80};
    assert_int_equal(tv_codec_new("opennpu", NULL, &codec), TV_OK);
    assert_int_equal(tv_machine_write(machine, "vx", 1, lanes, sizeof lanes, NULL), TV_OK);
    const tv_field_value fields[] = {{"rd", 2}, {"rs1", 1}, {"rs2", 1}, {"sat", 1}};
    assert_int_equal(tv_codec_encode(codec, "VMUL", fields, 4, NULL, &word), TV_OK);
    assert_int_equal(tv_machine_execute(machine, word, TV_COMMIT_VALUES | TV_COMMIT_WRITES, &commit), TV_OK);
    assert_int_equal(commit.value_count, 64);
    assert_string_equal(commit.values[0].name, "exact");
    assert_int_equal(commit.values[0].integer, 10000);
    assert_int_equal(commit.values[1].integer, 16384);
    assert_int_equal(commit.effects[0].after[0], 127);
    tv_codec_free(codec);
    tv_machine_free(machine);
}

/* 3 * 5 + 4 * 6 = 39; times 0.5 and 0.1. */
static const char queue[] =
    "{\"metadata\": {\"version\": \"1.1\", \"spm_init\": [{\"bank\": 0, \"offset\": 0, \"hex\": \"03040506\"}]}, "
    "\"cmdq\": ["
    "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 0, \"wgt_offset\": "
    "2, "
    "\"ofm_bank\": 1, \"ofm_offset\": 0, \"m\": 1, \"n\": 1, \"k\": 2, \"qbits_weight\": 8, \"qbits_activation\": 8, "
    "\"scale_ifm\": 0.5, \"scale_wgt\": 0.25, \"qbits_ofm\": 8}, {\"opcode\": \"END\"}]}";

static void test_entries_of_a_queue_are_records(void **state)
{
    (void)state;
    received r = {.next_order = 0};
    tv_machine *machine = machine_of("cmdq", TV_MODE_FULL);
    tv_program *program;
    tv_program_options options = {.size = sizeof options, .target = "cmdq"};
    assert_int_equal(tv_program_parse("queue.json", queue, strlen(queue), &options, NULL, &program), TV_OK);
    attach(machine, TV_COMMIT_ALL, &r);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(r.last[TV_COMMIT_LOAD].effect_count, 1);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_string_equal(r.names, "sum0=39 result0=4.875 ");
    assert_int_equal(r.count[TV_COMMIT_INSTRUCTION], 2);
    assert_int_equal(r.count[TV_COMMIT_COMPLETION], 1);
    assert_int_equal(r.last[TV_COMMIT_COMPLETION].start, 0);
    tv_machine_free(machine);
    tv_program_free(program);
}

/* ---- Mapped memory ---- */

static void test_mapped_memory_is_shared_with_the_caller(void **state)
{
    (void)state;
    enum { SIZE = 65536 };
    static uint16_t host[SIZE / 2];
    tv_config *config;
    tv_machine *machine;
    tv_snapshot *snapshot;
    tv_program *program =
        program_of(" .target pccx\n memset fmap_shape[0], 8, 1, 1\n memcpy l2[0], host[256], shape=0\n"
                   " memcpy host[512], l2[0], shape=0\n");
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "host.bytes", "65536", NULL), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_config_free(config);
    assert_int_equal(tv_machine_map(machine, "host", host, SIZE / 2, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_machine_map(machine, "l2", host, SIZE, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_machine_map(machine, "host", host, SIZE, NULL), TV_OK);
    assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot), TV_ERR_INPUT);
    for (uint16_t i = 0; i < 8; i++)
        host[128 + i] = (uint16_t)(0x3F80 + i);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_memory_equal(host + 256, host + 128, 16);
    tv_machine_free(machine);
    tv_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_word_executes_without_a_program),
        cmocka_unit_test(test_a_fault_is_a_result_and_the_next_word_executes),
        cmocka_unit_test(test_a_word_drops_the_rest_of_a_program),
        cmocka_unit_test(test_a_queue_has_no_words),
        cmocka_unit_test(test_no_word_overtakes_the_command_fifo),
        cmocka_unit_test(test_inner_values_of_a_product_are_its_sums),
        cmocka_unit_test(test_an_end_that_depends_on_streams_is_a_completion),
        cmocka_unit_test(test_accesses_from_outside_are_records),
        cmocka_unit_test(test_records_and_traces_do_not_disturb_each_other),
        cmocka_unit_test(test_inner_values_of_lanes_are_exact),
        cmocka_unit_test(test_entries_of_a_queue_are_records),
        cmocka_unit_test(test_mapped_memory_is_shared_with_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
