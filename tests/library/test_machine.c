/* SPDX-License-Identifier: Apache-2.0 */
/* The library as an embedder uses it: machines, programs, modes, steps, traces, the host's window. Public headers only.
 */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trivet/trivet.h"

static const char pipeline[] = "        .target pccx\n"
                               "        memset  fmap_shape[0], 8, 4, 1\n"
                               "        memset  weight_shape[0], 1, 16, 32\n"
                               "        memcpy  l2[0], host[x], shape=0, async\n"
                               "        wstream gemv, w, w_end - w\n"
                               "        gemv    l2[8], l2[0], size=1, shape=0, findemax\n"
                               "        cvo.exp l2[16], l2[8], len=16, sub_emax, async\n"
                               "        cvo.gelu l2[24], l2[8], len=16, async\n"
                               "        memcpy  host[y], l2[16], shape=0\n"
                               "        .data\n"
                               "x:      .rept 32\n        .bf16 (. / 2) * 0.25 - 3\n        .endr\n"
                               "w:      .rept 256\n        .byte (. * 7) & 255\n        .endr\nw_end:\n"
                               "        .balign 16\ny:      .zero 64\n";

static tv_program *program_of(const char *text)
{
    tv_program *program;
    assert_int_equal(tv_program_assemble("test.s", text, strlen(text), NULL, NULL, &program), TV_OK);
    return program;
}

static tv_machine *machine_of(tv_mode mode)
{
    tv_config *config;
    tv_machine *machine;
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, mode, NULL, &machine), TV_OK);
    tv_config_free(config); /* the machine has its own copy */
    return machine;
}

static uint64_t cycles_of(const tv_machine *machine)
{
    tv_stats stats = {.size = sizeof stats};
    tv_machine_stats(machine, &stats);
    for (unsigned e = 0; e < stats.engine_count; e++) {
        uint64_t sum = stats.engines[e].busy + stats.engines[e].idle;
        for (unsigned c = 0; c < stats.stall_reason_count; c++)
            sum += stats.engines[e].stalled[c];
        assert_int_equal(sum, stats.cycles);
    }
    return stats.cycles;
}

static void read_l2(tv_machine *machine, uint8_t bytes[512])
{
    assert_int_equal(tv_machine_read(machine, "l2", 0, bytes, 512, NULL), TV_OK);
}

static void stepping_gives_the_same_cycles_and_bits_as_running(void **state)
{
    (void)state;
    tv_program *program = program_of(pipeline);
    tv_machine *whole = machine_of(TV_MODE_FULL), *stepped = machine_of(TV_MODE_FULL);
    uint8_t a[512], b[512];
    tv_stop_reason why = TV_STOP_UNTIL;
    tv_machine_load(whole, program, NULL);
    tv_machine_load(stepped, program, NULL);
    assert_int_equal(tv_machine_run(whole, NULL, NULL), TV_OK);
    for (uint64_t i = 0; why == TV_STOP_UNTIL; i++) {
        assert_int_equal(tv_machine_next_index(stepped), i);
        assert_int_equal(tv_machine_step(stepped, &why), TV_OK);
        cycles_of(stepped); /* looking at it in between changes nothing */
    }
    assert_int_equal(why, TV_STOP_END);
    assert_int_equal(cycles_of(whole), cycles_of(stepped));
    read_l2(whole, a);
    read_l2(stepped, b);
    assert_memory_equal(a, b, sizeof a);
    tv_machine_free(whole);
    tv_machine_free(stepped);
    tv_program_free(program);
}

static void interleaved_machines_do_not_touch_each_other(void **state)
{
    (void)state;
    tv_program *program = program_of(pipeline);
    tv_machine *machines[2] = {machine_of(TV_MODE_FULL), machine_of(TV_MODE_FULL)},
               *reference = machine_of(TV_MODE_FULL);
    uint8_t a[512], b[512];
    tv_machine_load(reference, program, NULL);
    tv_machine_run(reference, NULL, NULL);
    tv_machine_load(machines[0], program, NULL);
    tv_machine_load(machines[1], program, NULL);
    for (tv_stop_reason why[2] = {TV_STOP_UNTIL, TV_STOP_UNTIL}; why[0] == TV_STOP_UNTIL || why[1] == TV_STOP_UNTIL;)
        for (int i = 0; i < 2; i++)
            tv_machine_step(machines[i], &why[i]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cycles_of(machines[i]), cycles_of(reference));
        read_l2(reference, a);
        read_l2(machines[i], b);
        assert_memory_equal(a, b, sizeof a);
        tv_machine_free(machines[i]);
    }
    tv_machine_free(reference);
    tv_program_free(program);
}

static void programs_in_a_row_keep_state_and_clock(void **state)
{
    (void)state;
    tv_program *first = program_of(
        "        .target pccx\n        memset fmap_shape[0], 8, 1, 1\n        memcpy l2[0], host[x], shape=0\n"
        "        .data\nx: .bf16 1, 2, 3, 4, 5, 6, 7, 8\n");
    tv_program *second = program_of(
        "        .target pccx\n        cvo.recip l2[1], l2[0], len=8\n        memcpy l2[2], l2[1], shape=0\n");
    tv_machine *machine = machine_of(TV_MODE_FULL);
    uint8_t word[16];
    tv_machine_load(machine, first, NULL);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    /* memset issues at 3, memcpy at 4; 4 + 64 + ceil(1 * 1.6) */
    assert_int_equal(cycles_of(machine), 70);
    tv_machine_load(machine, second, NULL);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    /* decoded 3 after 70: recip 73 to 73 + 4 + 8 + 6 = 91, then the copy: 91 + 8 + 1 */
    assert_int_equal(cycles_of(machine), 100);
    tv_machine_read(machine, "l2", 2, word, sizeof word, NULL);
    assert_true(tv_dtype_value(TV_BF16, word, 0) == 1.0 && tv_dtype_value(TV_BF16, word, 3) == 0.25);
    tv_machine_free(machine);
    tv_program_free(first);
    tv_program_free(second);
}

/* Three GEMVs from one stream, whose descriptors end within beats: in one program, and in three, of which the second
 * brings the last descriptor. */
static void what_is_left_of_a_stream_is_for_the_next_program(void **state)
{
    (void)state;
    static const char start[] =
        "        .target pccx\n        memset  fmap_shape[0], 8, 4, 1\n        memset  weight_shape[0], 1, 8, 32\n"
        "        memcpy  l2[0], host[x], shape=0\n        wstream gemv, 4096, 100\n        wstream gemv, 4196, 130\n   "
        "     gemv    l2[8], l2[0], size=1, shape=0\n";
    static const char data[] =
        "        .data\nx:      .rept 32\n        .bf16 (. / 2) * 0.25 - 3\n        .endr\n"
        "        .org 4096\n        .rept 384\n        .byte (. * 7 + . / 13) & 255\n        .endr\n";
    static const char second[] = "        wstream gemv, 4326, 154\n        gemv    l2[16], l2[0], size=1, shape=0\n",
                      third[] = "        gemv    l2[24], l2[0], size=1, shape=0\n";
    char text[3][2000];
    uint8_t one[512], three[512];
    tv_stop_reason why;
    snprintf(text[0], sizeof text[0], "%s%s%s%s", start, second, third, data);
    tv_machine *machine = machine_of(TV_MODE_FULL);
    tv_program *programs[3] = {program_of(text[0])};
    assert_int_equal(tv_machine_load(machine, programs[0], NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, &why), TV_OK);
    read_l2(machine, one);
    tv_machine_free(machine);
    tv_program_free(programs[0]);
    machine = machine_of(TV_MODE_FULL);
    snprintf(text[0], sizeof text[0], "%s%s", start, data);
    snprintf(text[1], sizeof text[1], "        .target pccx\n%s", second);
    snprintf(text[2], sizeof text[2], "        .target pccx\n%s", third);
    for (unsigned i = 0; i < 3; i++) {
        programs[i] = program_of(text[i]);
        assert_int_equal(tv_machine_load(machine, programs[i], NULL), TV_OK);
        assert_int_equal(tv_machine_run(machine, NULL, &why), TV_OK);
    }
    read_l2(machine, three);
    assert_memory_equal(one, three, sizeof one);
    tv_machine_free(machine);
    for (unsigned i = 0; i < 3; i++)
        tv_program_free(programs[i]);
}

static void modes_agree_on_what_they_share(void **state)
{
    (void)state;
    tv_program *program = program_of(pipeline);
    tv_machine *full = machine_of(TV_MODE_FULL), *data = machine_of(TV_MODE_FUNCTIONAL),
               *time = machine_of(TV_MODE_TIMING);
    tv_machine *all[] = {full, data, time};
    uint8_t a[512], b[512], zero[512] = {0};
    for (int i = 0; i < 3; i++) {
        tv_machine_load(all[i], program, NULL);
        assert_int_equal(tv_machine_run(all[i], NULL, NULL), TV_OK);
    }
    read_l2(full, a);
    read_l2(data, b);
    assert_memory_equal(a, b, sizeof a);
    read_l2(time, b);
    assert_memory_equal(zero, b, sizeof b);
    assert_int_equal(cycles_of(full), cycles_of(time));
    assert_int_equal(cycles_of(data), 0);
    for (int i = 0; i < 3; i++)
        tv_machine_free(all[i]);
    tv_program_free(program);
}

/* ---- Limits ---- */

static void limits_stop_before_an_instruction_and_the_run_goes_on(void **state)
{
    (void)state;
    tv_program *program = program_of(pipeline);
    tv_machine *machine = machine_of(TV_MODE_FULL), *whole = machine_of(TV_MODE_FULL);
    tv_stop_reason why;
    tv_machine_load(whole, program, NULL);
    tv_machine_run(whole, NULL, NULL);
    tv_machine_load(machine, program, NULL);
    assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), 3, UINT64_MAX}, &why), TV_OK);
    assert_int_equal(why, TV_STOP_UNTIL);
    assert_int_equal(tv_machine_next_index(machine), 3);
    /* gemv waits for the copy: 5 + 64 + ceil(4 * 1.6) = 76 */
    assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, 76}, &why), TV_OK);
    assert_int_equal(why, TV_STOP_CYCLES);
    assert_int_equal(tv_machine_next_index(machine), 3);
    assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, 77}, &why), TV_OK);
    assert_int_equal(why, TV_STOP_CYCLES);
    assert_int_equal(tv_machine_next_index(machine), 4);
    assert_int_equal(tv_machine_run(machine, NULL, &why), TV_OK);
    assert_int_equal(cycles_of(machine), cycles_of(whole));
    tv_machine_free(machine);
    tv_machine_free(whole);
    tv_program_free(program);
}

/* ---- Faults ---- */

static void a_fault_changes_nothing_and_names_its_source_location(void **state)
{
    (void)state;
    tv_program *program = program_of(
        "        .target pccx\n        memset fmap_shape[0], 8, 1, 1\n        memcpy l2[3], host[16], shape=0\n"
        "        cvo.exp l2[0], l2[3], len=0\n        memset fmap_shape[0], 1, 1, 1\n");
    tv_machine *machine = machine_of(TV_MODE_FULL);
    uint8_t entry[6], status[4];
    tv_stop_reason why;
    tv_machine_load(machine, program, NULL);
    assert_int_equal(tv_machine_run(machine, NULL, &why), TV_FAULT);
    assert_int_equal(why, TV_STOP_FAULT);
    const tv_fault *fault = tv_machine_fault(machine);
    assert_string_equal(fault->code, "TV-P019");
    assert_int_equal(fault->index, 2);
    assert_int_equal(fault->address, 16);
    assert_int_equal(fault->line, 4);
    assert_string_equal(fault->file, "test.s");
    assert_string_equal(fault->disassembly, "cvo.exp l2[0x0], l2[0x3], len=0");
    assert_int_equal(cycles_of(machine), 70); /* of what came before */
    tv_machine_read(machine, "const", 0, entry, sizeof entry, NULL);
    assert_int_equal(entry[0], 8);
    tv_machine_read(machine, "mmio", 8, status, sizeof status, NULL);
    assert_int_equal(status[0] & 4, 4);                              /* ERROR */
    assert_int_equal(tv_machine_run(machine, NULL, &why), TV_FAULT); /* it stays so … */
    tv_machine_load(machine, program, NULL);
    assert_null(tv_machine_fault(machine)); /* … until the next load */
    tv_machine_free(machine);
    tv_program_free(program);
}

/* ---- The driver's window ---- */

static void push(tv_machine *machine, uint64_t word)
{
    uint8_t low[4], high[4];
    for (unsigned i = 0; i < 4; i++) {
        low[i] = (uint8_t)(word >> (8 * i));
        high[i] = (uint8_t)(word >> (8 * i + 32));
    }
    assert_int_equal(tv_machine_write(machine, "mmio", 0, low, 4, NULL), TV_OK);
    assert_int_equal(tv_machine_write(machine, "mmio", 4, high, 4, NULL), TV_OK);
}

static uint32_t status_of(tv_machine *machine)
{
    uint8_t b[4];
    tv_machine_read(machine, "mmio", 8, b, 4, NULL);
    return b[0];
}

enum { BUSY = 1, DONE = 2, ERROR = 4, FULL = 8 };

static void the_host_drives_the_machine_through_its_window(void **state)
{
    (void)state;
    tv_machine *machine = machine_of(TV_MODE_FULL);
    uint8_t entry[6];
    assert_int_equal(status_of(machine), 0);
    push(machine, UINT64_C(0x3000001000200030)); /* memset fmap_shape[0], 1, 2, 3 */
    assert_int_equal(status_of(machine), BUSY);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(status_of(machine), DONE);
    tv_machine_read(machine, "const", 0, entry, sizeof entry, NULL);
    assert_memory_equal(entry, ((uint8_t[]){1, 0, 2, 0, 3, 0}), 6);
    assert_int_equal(cycles_of(machine), 4);
    push(machine, UINT64_C(0x3000001000200030));
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    assert_int_equal(cycles_of(machine), 8);
    tv_machine_free(machine);
}

static void a_full_command_fifo_sets_error_and_loses_nothing(void **state)
{
    (void)state;
    tv_machine *machine = machine_of(TV_MODE_FULL);
    tv_stats stats = {.size = sizeof stats};
    for (unsigned i = 0; i < 128; i++)
        push(machine, UINT64_C(0x3000000000000010) | (uint64_t)(i % 64) << 52);
    assert_int_equal(status_of(machine), BUSY | FULL);
    push(machine, UINT64_C(0x5000000000000000)); /* would be a decode fault */
    assert_int_equal(status_of(machine), BUSY | FULL | ERROR);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    tv_machine_stats(machine, &stats);
    assert_int_equal(stats.instructions, 128);
    tv_machine_free(machine);
}

/* ---- Traces ---- */

typedef struct event_counts {
    unsigned engine, stall, command, status, marker;
    uint64_t last_completion, bytes;
    int64_t completed[4];
} event_counts;

static void count_event(void *user, const tv_event *e)
{
    event_counts *s = user;
    switch (e->kind) {
    case TV_EVENT_ENGINE:
        s->engine++;
        break;
    case TV_EVENT_STALL:
        assert_non_null(e->reason);
        s->stall++;
        break;
    case TV_EVENT_COMMAND:
        s->command++;
        break;
    case TV_EVENT_STATUS:
        assert_true(e->start >= s->last_completion);
        s->last_completion = e->start;
        if (s->status < 4)
            s->completed[s->status] = e->index;
        s->status++;
        break;
    case TV_EVENT_MARKER:
        s->marker++;
        break;
    case TV_EVENT_TRANSFER:
        s->bytes += e->bytes;
        break;
    case TV_EVENT_TOKEN:
    case TV_EVENT_ACCESS:
    case TV_EVENT_LOAD:
    case TV_EVENT_CONTROL:
        break;
    }
}

static void a_trace_reports_everything_once_and_completions_in_order(void **state)
{
    (void)state;
    tv_program *program = program_of(pipeline);
    tv_machine *machine = machine_of(TV_MODE_FULL), *untraced = machine_of(TV_MODE_FULL);
    event_counts s = {0};
    tv_machine_trace(machine, &(tv_trace_sink){count_event, &s});
    tv_machine_trace_marker(machine, "begin");
    tv_machine_load(machine, program, NULL);
    tv_machine_run(machine, NULL, NULL);
    tv_machine_load(untraced, program, NULL);
    tv_machine_run(untraced, NULL, NULL);
    assert_int_equal(s.engine, 5);
    assert_int_equal(s.command, 7);
    assert_int_equal(s.marker, 1);
    assert_int_equal(s.status, 3);
    assert_int_equal(s.completed[0], 2);
    assert_int_equal(s.completed[1], 4);
    assert_int_equal(s.completed[2], 5);
    assert_int_equal(s.bytes, 64 + 256 + 64);
    assert_int_equal(cycles_of(machine), cycles_of(untraced));
    tv_machine_free(machine);
    tv_machine_free(untraced);
    tv_program_free(program);
}

static void a_trace_that_ends_early_reports_what_is_in_flight(void **state)
{
    (void)state;
    tv_program *program = program_of(pipeline);
    tv_machine *machine = machine_of(TV_MODE_FULL), *whole = machine_of(TV_MODE_FULL);
    event_counts s = {0};
    tv_machine_load(whole, program, NULL);
    tv_machine_run(whole, NULL, NULL);
    tv_machine_trace(machine, &(tv_trace_sink){count_event, &s});
    tv_machine_load(machine, program, NULL);
    tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), 4, UINT64_MAX}, NULL);
    tv_machine_trace(machine, NULL);
    assert_int_equal(s.command, 4);
    assert_int_equal(s.engine, 2); /* the copy and the gemv that it has just issued */
    assert_int_equal(s.bytes, 64 + 256);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK); /* and the run goes on as if nothing had been */
    assert_int_equal(cycles_of(machine), cycles_of(whole));
    tv_machine_free(machine);
    tv_machine_free(whole);
    tv_program_free(program);
}

/* ---- What an instruction touches, and what an event says of where it stands ---- */

typedef struct touched {
    char text[512]; /* "l2:16+64w host:0+64 " */
} touched;

static void take_touched(void *user, const tv_access *a)
{
    touched *t = user;
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof t->text - n, "%s:%llu+%llu%s ", a->space, (unsigned long long)a->addr,
             (unsigned long long)a->bytes, a->write ? "w" : "");
}

static void expect_accesses(const char *target, const char *source, const char *const expected[])
{
    tv_config *config;
    tv_program *program;
    tv_machine *machine;
    assert_int_equal(tv_config_new(target, NULL, &config), TV_OK);
    if (strcmp(target, "opennpu") == 0)
        assert_int_equal(tv_config_set(config, "vector.k", "16", NULL), TV_OK);
    assert_int_equal(
        tv_program_parse(source[0] == '{' ? "a.json" : "a.s", source, strlen(source), NULL, NULL, &program), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    for (uint64_t i = 0; expected[i]; i++) {
        touched t = {""};
        assert_int_equal(tv_machine_accesses(machine, &(tv_access_sink){take_touched, &t}), i);
        assert_string_equal(t.text, expected[i]);
        assert_int_equal(tv_machine_step(machine, NULL), TV_OK);
    }
    touched none = {""};
    tv_machine_accesses(machine, &(tv_access_sink){take_touched, &none});
    assert_string_equal(none.text, "");
    tv_machine_free(machine);
    tv_program_free(program);
    tv_config_free(config);
}

static void the_next_instruction_reports_what_it_will_access(void **state)
{
    (void)state;
    expect_accesses(
        "pccx",
        "        .target pccx\n        memset fmap_shape[3], 8, 2, 1\n        memcpy l2[5], host[0x40], shape=3\n",
        (const char *const[]){"const:3+6w ", "l2:5+32w host:64+32 const:3+6 ", NULL});
    expect_accesses("opennpu",
                    "        .target opennpu\n        bcast.imm vx0, 64\n        ld.vx vx8, 8(vr0)\n        mma vx8, "
                    "vx9\n        vsetlut.b vr1, 1\n        vlut.b vx1, vx2\n",
                    (const char *const[]){"vx:0+16w ", "mem:72+16 vr:0+64 vx:8+16w ", "vx:8+16 vx:9+16 acc:0+1024w ",
                                          "vr:1+64 lut_b:64+64w ", "vx:2+16 vx:1+16w lut_b:0+256 ", NULL});
    expect_accesses(
        "cmdq",
        "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [{\"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": "
        "\"weight\", \"qbits\": 8, \"dram_addr\": 4096, \"num_elements\": 128, "
        "\"row_elements\": 64, \"stride_bytes\": 256, \"spm_bank\": 1, \"spm_offset\": 64}, {\"opcode\": \"END\"}]}",
        (const char *const[]){"spm:262208+128w dram:4096+64 dram:4352+64 ", "", NULL});
}

typedef struct reported {
    unsigned loads, tokens, accesses;
    int64_t second_load, position;
    uint64_t count, start, end;
    char layers[256];
} reported;

static void count_reported(void *user, const tv_event *e)
{
    reported *t = user;
    size_t n = strlen(t->layers);
    if (e->kind == TV_EVENT_LOAD && t->loads++ == 1)
        t->second_load = e->index;
    t->accesses += e->kind == TV_EVENT_ACCESS;
    if (e->kind == TV_EVENT_COMMAND)
        snprintf(t->layers + n, sizeof t->layers - n, "%s ", e->layer ? e->layer : "-");
    if (e->kind != TV_EVENT_TOKEN)
        return;
    t->tokens++;
    t->position = e->index;
    t->count = e->tokens;
    t->start = e->start;
    t->end = e->end;
}

static void a_trace_reports_loads_steps_and_labels(void **state)
{
    (void)state;
    tv_program *program = program_of(
        "        .target pccx\n        memset fmap_shape[0], 8, 1, 1\nfirst:  memcpy l2[0], host[0], shape=0\n"
        "        memcpy l2[1], host[0], shape=0\nlast:   memcpy l2[2], host[0], shape=0\n");
    tv_machine *machine = machine_of(TV_MODE_FULL);
    reported t = {0};
    tv_symbol label;
    assert_int_equal(tv_program_label(program, 0, &label), 0);
    assert_int_equal(tv_program_label(program, 2, &label), 1);
    assert_string_equal(label.name, "first");
    assert_int_equal(tv_program_label(program, 4, &label), 0); /* past the end */
    tv_machine_trace(machine, &(tv_trace_sink){count_reported, &t});
    tv_machine_trace_accesses(machine, 1);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t before = cycles_of(machine);
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
        tv_machine_trace_token(machine, i ? "decode" : "prefill", 7, 3, before);
        assert_int_equal(t.start, before);
    }
    assert_int_equal(t.loads, 2);
    assert_int_equal(t.second_load, 4);
    assert_int_equal(t.accesses, 2 * (1 + 3 * 3));
    assert_int_equal(t.tokens, 2);
    assert_int_equal(t.position, 7);
    assert_int_equal(t.count, 3);
    assert_int_equal(t.end, cycles_of(machine));
    assert_string_equal(t.layers, "- first first last - first first last ");
    tv_machine_free(machine);
    tv_program_free(program);
}

static void take_marker(void *user, const tv_event *e)
{
    if (e->kind == TV_EVENT_MARKER)
        *(uint64_t *)user = e->start;
}

/* Forwards events with other texts, which are in the same arrays for each. */
typedef struct renamer {
    tv_trace_sink sinks[3];
    char texts[3][40];
} renamer;

static const char *rename_text(char renamed[40], const char *text)
{
    snprintf(renamed, 40, "my %s", text ? text : "");
    return text ? renamed : NULL;
}

static void send_renamed(void *user, const tv_event *e)
{
    renamer *r = user;
    tv_event renamed = *e;
    renamed.op = rename_text(r->texts[0], e->op);
    renamed.engine = rename_text(r->texts[1], e->engine);
    renamed.reason = rename_text(r->texts[2], e->reason);
    for (int i = 0; i < 3; i++)
        r->sinks[i].event(r->sinks[i].user, &renamed);
}

/* Returns the bytes of the file, followed by a zero, and removes it. */
static char *read_file(const char *path, size_t *size)
{
    enum { SIZE = 1 << 16 };
    char *bytes = calloc(1, SIZE);
    FILE *file = fopen(path, "rb");
    assert_true(bytes && file);
    *size = fread(bytes, 1, SIZE, file);
    assert_true(*size > 0 && *size < SIZE);
    fclose(file);
    remove(path);
    return bytes;
}

static void make_file(char *path)
{
    int fd = mkstemps(path, (int)strlen(strchr(path, '.')));
    assert_true(fd >= 0 && close(fd) == 0);
}

/* The JSON trace has texts only, so that what is converted from it knows nothing of addresses. */
static void forwarded_events_keep_their_texts_in_each_format(void **state)
{
    enum { FORMATS = 3 };
    static const tv_trace_format formats[FORMATS] = {TV_TRACE_JSON, TV_TRACE_PFTRACE, TV_TRACE_PERFETTO};
    char paths[FORMATS][40] = {"/tmp/trivet-XXXXXX.json", "/tmp/trivet-XXXXXX.pftrace", "/tmp/trivet-XXXXXX.json"};
    char converted[FORMATS][40] = {"", "/tmp/trivet-XXXXXX.pftrace", "/tmp/trivet-XXXXXX.json"};
    tv_trace_writer *writers[FORMATS];
    renamer r;
    tv_program *program = program_of(pipeline);
    tv_machine *machine = machine_of(TV_MODE_FULL);
    (void)state;
    for (int i = 0; i < FORMATS; i++) {
        make_file(paths[i]);
        assert_int_equal(tv_trace_open(paths[i], formats[i], machine, NULL, &writers[i]), TV_OK);
        r.sinks[i] = tv_trace_writer_sink(writers[i]);
    }
    tv_machine_trace(machine, &(tv_trace_sink){.event = send_renamed, .user = &r});
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    tv_machine_trace(machine, NULL);
    for (int i = 0; i < FORMATS; i++)
        assert_int_equal(tv_trace_finish(writers[i], machine, NULL), TV_OK);
    for (int i = 1; i < FORMATS; i++) {
        size_t sizes[2];
        make_file(converted[i]);
        assert_int_equal(tv_trace_convert(paths[0], converted[i], formats[i], NULL, NULL), TV_OK);
        char *live = read_file(paths[i], &sizes[0]), *other = read_file(converted[i], &sizes[1]);
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(live, other, sizes[0]);
        free(live);
        free(other);
    }
    static const char *const texts[] = {"my MEMSET", "my GEMV", "my CVO_GELU", "my frontend", "my SFU"};
    size_t size;
    char *json = read_file(paths[0], &size);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_non_null(strstr(json, texts[i]));
    free(json);
    tv_machine_free(machine);
    tv_program_free(program);
}

static void a_mark_after_the_end_stands_at_the_end(void **state)
{
    (void)state;
    tv_program *program = program_of(pipeline);
    tv_machine *machine = machine_of(TV_MODE_FULL);
    uint64_t at = 0;
    tv_machine_trace(machine, &(tv_trace_sink){take_marker, &at});
    tv_machine_load(machine, program, NULL);
    tv_machine_run(machine, NULL, NULL);
    tv_machine_trace_marker(machine, "done");
    assert_int_equal(at, cycles_of(machine));
    tv_machine_free(machine);
    tv_program_free(program);
}

static void a_limit_of_cycles_comes_before_a_fault_behind_it(void **state)
{
    (void)state;
    tv_program *program =
        program_of("        .target pccx\n        memset fmap_shape[0], 8, 1, 1\n        memcpy l2[0], l2[8], shape=0\n"
                   "        .word64 0xF000000000000000\n");
    tv_machine *machine = machine_of(TV_MODE_FULL);
    tv_stop_reason why;
    tv_machine_load(machine, program, NULL);
    /* the copy issues at 4 and ends at 4 + 8 + 1; being synchronous, it holds what follows */
    assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, 13}, &why), TV_OK);
    assert_int_equal(why, TV_STOP_CYCLES);
    assert_int_equal(tv_machine_next_index(machine), 2);
    assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, 14}, &why), TV_FAULT);
    tv_machine_free(machine);
    tv_program_free(program);
}

static void a_load_leaves_no_status_behind(void **state)
{
    (void)state;
    tv_program *program = program_of(pipeline);
    tv_machine *machine = machine_of(TV_MODE_FULL);
    tv_stop_reason why;
    tv_machine_load(machine, program, NULL);
    tv_machine_step(machine, &why);
    assert_int_equal(status_of(machine), BUSY);
    tv_machine_load(machine, program, NULL);
    assert_int_equal(status_of(machine), 0);
    tv_machine_free(machine);
    tv_program_free(program);
}

/* Shapes (1, 64, 64) on GEMV and (1, 1, 32) on GEMM: what counts is the engine that did the work. */
static void the_peak_is_of_the_engine_with_the_highest_mac_count(void **state)
{
    (void)state;
    tv_program *program = program_of(
        "        .target pccx\n        memset weight_shape[0], 1, 64, 64\n        memset weight_shape[1], 1, 1, 32\n"
        "        wstream gemv, 0, 64 * 2 * 16\n        wstream gemm, 0, 16\n"
        "        gemv l2[64], l2[0], size=0, shape=0\n        gemm l2[96], l2[0], size=0, shape=1\n");
    tv_machine *machine = machine_of(TV_MODE_FULL);
    tv_stats stats = {.size = sizeof stats};
    tv_machine_load(machine, program, NULL);
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    tv_machine_stats(machine, &stats);
    assert_int_equal(stats.macs, 64 * 64 + 32);
    assert_true(stats.peak_macs == 4 * 32);
    tv_machine_free(machine);
    tv_program_free(program);
}

/* ---- Text ---- */

static void numbers_have_a_point_in_every_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "de_DE.utf8"))
        skip();
    char text[TV_DTYPE_TEXT];
    tv_program *program = program_of("        .target pccx\n        .data\n        .bf16 1.5\n");
    tv_segment segment;
    assert_int_equal(tv_program_segment_at(program, 0, &segment), 1);
    tv_dtype_text(TV_BF16, segment.bytes, 0, text);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "1.5");
    tv_program_free(program);
}

static void a_long_chain_of_constants_is_rejected(void **state)
{
    (void)state;
    enum { LINKS = 100000 };
    char *text = malloc(LINKS * 40), *p = text;
    tv_program *program;
    assert_non_null(text);
    p += sprintf(p, ".target pccx\n");
    for (int i = 0; i < LINKS; i++)
        p += sprintf(p, ".equ s%d, s%d\n", i, i + 1);
    p += sprintf(p, ".equ s%d, 1\n", LINKS);
    assert_int_equal(tv_program_assemble("chain.s", text, (size_t)(p - text), NULL, NULL, &program), TV_ERR_INPUT);
    free(text);
}

static void unknown_spaces_and_ranges_are_rejected(void **state)
{
    (void)state;
    tv_machine *machine = machine_of(TV_MODE_FULL);
    uint8_t b[32] = {0};
    tv_space space;
    assert_int_equal(tv_machine_read(machine, "l3", 0, b, 1, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_machine_read(machine, "emax", 0, b, 2, NULL), TV_OK);
    assert_int_equal(tv_machine_read(machine, "emax", 0, b, 3, NULL), TV_ERR_INPUT);
    assert_int_equal(tv_machine_read(machine, "emax", 2, b, 0, NULL), TV_ERR_INPUT);
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++) {
        assert_int_equal(tv_machine_read(machine, space.name, space.size - 1, b, (size_t)space.unit_bytes, NULL),
                         TV_OK);
        assert_int_equal(tv_machine_read(machine, space.name, space.size - 1, b, (size_t)space.unit_bytes + 1, NULL),
                         TV_ERR_INPUT);
        assert_int_equal(tv_machine_write(machine, space.name, UINT64_MAX, b, 1, NULL), TV_ERR_INPUT);
    }
    tv_machine_free(machine);
}

static void the_library_is_the_version_of_its_headers(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", TV_VERSION_MAJOR, TV_VERSION_MINOR, TV_VERSION_PATCH);
    assert_string_equal(tv_version(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stepping_gives_the_same_cycles_and_bits_as_running),
        cmocka_unit_test(interleaved_machines_do_not_touch_each_other),
        cmocka_unit_test(programs_in_a_row_keep_state_and_clock),
        cmocka_unit_test(what_is_left_of_a_stream_is_for_the_next_program),
        cmocka_unit_test(modes_agree_on_what_they_share),
        cmocka_unit_test(limits_stop_before_an_instruction_and_the_run_goes_on),
        cmocka_unit_test(a_fault_changes_nothing_and_names_its_source_location),
        cmocka_unit_test(the_host_drives_the_machine_through_its_window),
        cmocka_unit_test(a_full_command_fifo_sets_error_and_loses_nothing),
        cmocka_unit_test(a_trace_reports_everything_once_and_completions_in_order),
        cmocka_unit_test(a_trace_that_ends_early_reports_what_is_in_flight),
        cmocka_unit_test(the_next_instruction_reports_what_it_will_access),
        cmocka_unit_test(a_trace_reports_loads_steps_and_labels),
        cmocka_unit_test(forwarded_events_keep_their_texts_in_each_format),
        cmocka_unit_test(a_mark_after_the_end_stands_at_the_end),
        cmocka_unit_test(a_limit_of_cycles_comes_before_a_fault_behind_it),
        cmocka_unit_test(a_load_leaves_no_status_behind),
        cmocka_unit_test(the_peak_is_of_the_engine_with_the_highest_mac_count),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(a_long_chain_of_constants_is_rejected),
        cmocka_unit_test(unknown_spaces_and_ranges_are_rejected),
        cmocka_unit_test(the_library_is_the_version_of_its_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
