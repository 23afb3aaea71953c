/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse execution is exact: at any position, however it was reached, the state equals that of a new machine that has
 * run to that position. Public headers only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trivet/trivet.h"

static uint64_t seed = 1;

static uint64_t random_below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % n;
}

/* ---- Programs ---- */

/* A machine with memories that can be compared whole. */
typedef struct bench {
    tv_config *config;
    const tv_program *programs[2];
    unsigned count;
    uint64_t total;
} bench;

static tv_program *parse(const char *name, const char *text)
{
    tv_program *program;
    assert_int_equal(tv_program_parse(name, text, strlen(text), NULL, NULL, &program), TV_OK);
    return program;
}

static bench make_bench(const char *target, const char *const settings[][2], const char *name, const char *first,
                        const char *second)
{
    bench b = {.count = second ? 2 : 1};
    assert_int_equal(tv_config_new(target, NULL, &b.config), TV_OK);
    for (unsigned i = 0; settings[i][0]; i++)
        assert_int_equal(tv_config_set(b.config, settings[i][0], settings[i][1], NULL), TV_OK);
    b.programs[0] = parse(name, first);
    b.programs[1] = second ? parse(name, second) : NULL;
    for (unsigned i = 0; i < b.count; i++)
        b.total += tv_program_instruction_count(b.programs[i]);
    return b;
}

static void bench_free(bench *b)
{
    tv_config_free(b->config);
    for (unsigned i = 0; i < b->count; i++)
        tv_program_free((tv_program *)(uintptr_t)b->programs[i]);
}

static const char pccx_text[] =
    "        .target pccx\n        .macro round n\n"
    "        memset  fmap_shape[0], 8, 4, 1\n        memset  weight_shape[0], 1, 16, 32\n"
    "        memcpy  l2[0], host[x], shape=0, async\n        wstream gemv, w, w_end - w\n"
    "        gemv    l2[8 + \\n], l2[0], size=1, shape=0, findemax\n"
    "        cvo.exp l2[16 + \\n], l2[8 + \\n], len=16, sub_emax, async\n"
    "        cvo.gelu l2[24 + \\n], l2[8 + \\n], len=16, async\n        memcpy  host[y], l2[16 + \\n], shape=0\n       "
    " .endm\n"
    "        memset fmap_shape[1], 0, 0, 0\n"
    "        round 0\n        round 1\n        round 2\n        round 0\n        round 3\n        round 1\n        "
    "round 4\n        round 5\n"
    "        .data\nx:      .rept 32\n        .bf16 (. / 2) * 0.25 - 3\n        .endr\n"
    "w:      .rept 256\n        .byte (. * 7) & 255\n        .endr\nw_end:\n        .balign 16\ny:      .zero 64\n";

static bench pccx_bench(void)
{
    static const char *const settings[][2] = {{"host.bytes", "64Ki"}, {"l2.words", "256"}, {NULL, NULL}};
    return make_bench("pccx", settings, "test.s", pccx_text, pccx_text);
}

static const char opennpu_text[] =
    "        .target opennpu\n        .rept 40\n        ld.vr vr0, 0(vr7)\n        ld.vr vr1, 32(vr7)\n"
    "        mma.reset\n        mma vx0, vx4\n        mma vx1, vx5\n        mma.last vr3\n        mma.last vr4\n       "
    " st.vr vr3, 64(vr7)\n"
    "        ld.vr vr2, 64(vr7)\n        .endr\n        .data\n        .rept 256\n        .byte (. * 11) & 127\n       "
    " .endr\n";

static bench opennpu_bench(void)
{
    static const char *const settings[][2] = {{"vector.k", "8"}, {"mem.bytes", "64Ki"}, {NULL, NULL}};
    return make_bench("opennpu", settings, "test.s", opennpu_text, opennpu_text);
}

/* Loads, products and stores over changing banks, some with barriers. */
static char *cmdq_text(void)
{
    enum { ROUNDS = 30, SIZE = 65536 };
    char *text = malloc(SIZE);
    size_t n = 0;
    unsigned id = 0;
    n += (size_t)snprintf(text + n, SIZE - n,
                          "{\"metadata\": {\"version\": \"1.2\", \"dram_init\": [{\"addr\": 0, \"hex\": "
                          "\"0102030405060708090a0b0c0d0e0f10\"}]}, \"cmdq\": [");
    for (unsigned r = 0; r < ROUNDS; r++) {
        n += (size_t)snprintf(text + n, SIZE - n,
                              "{\"opcode\": \"DMA_LOAD_TILE\", \"id\": %u, \"tensor_role\": \"activation\", \"qbits\": "
                              "8, \"dram_addr\": %u, \"spm_bank\": 0, "
                              "\"spm_offset\": 0, \"num_elements\": 64%s},",
                              id, r % 5 * 32, "");
        n += (size_t)snprintf(text + n, SIZE - n,
                              "{\"opcode\": \"TE_GEMM_TILE\", \"id\": %u, \"deps_before\": [%u], \"te_id\": %u, "
                              "\"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 0, "
                              "\"wgt_offset\": 32, \"ofm_bank\": 1, \"ofm_offset\": %u, \"m\": 4, \"n\": 4, \"k\": 8, "
                              "\"qbits_weight\": 8, \"qbits_activation\": 8, "
                              "\"qbits_ofm\": 8, \"scale_ofm\": 16},",
                              id + 1, id, r % 2, r % 4 * 32);
        n += (size_t)snprintf(text + n, SIZE - n,
                              "{\"opcode\": \"DMA_STORE_TILE\", \"id\": %u, \"deps_before\": [%u], \"tensor_role\": "
                              "\"activation\", \"qbits\": 8, \"dram_addr\": %u, "
                              "\"spm_bank\": 1, \"spm_offset\": 0, \"num_elements\": 128},",
                              id + 2, id + 1, r % 3 * 64);
        id += 3;
    }
    snprintf(text + n, SIZE - n, "{\"opcode\": \"END\", \"id\": %u}]}", id);
    return text;
}

static bench cmdq_bench(void)
{
    static const char *const settings[][2] = {
        {"dram.bytes", "64Ki"}, {"spm.banks", "2"}, {"spm.bank_bytes", "2Ki"}, {NULL, NULL}};
    char *text = cmdq_text();
    bench b = make_bench("cmdq", settings, "test.json", text, text);
    free(text);
    return b;
}

/* ---- Comparing ---- */

static void compare_spaces(tv_machine *a, tv_machine *b)
{
    tv_space s;
    for (unsigned i = 0; tv_machine_space_at(a, i, &s); i++) {
        size_t size = (size_t)(s.size * s.unit_bytes);
        uint8_t *x = malloc(size), *y = malloc(size);
        assert_int_equal(tv_machine_read(a, s.name, 0, x, size, NULL), TV_OK);
        assert_int_equal(tv_machine_read(b, s.name, 0, y, size, NULL), TV_OK);
        if (memcmp(x, y, size) != 0)
            fail_msg("space %s differs", s.name);
        free(x);
        free(y);
    }
}

static void compare_states(tv_machine *a, tv_machine *b)
{
    tv_state_value x, y;
    for (unsigned i = 0;; i++) {
        int more = tv_machine_state_at(a, i, &x);
        assert_int_equal(more, tv_machine_state_at(b, i, &y));
        if (!more)
            return;
        assert_string_equal(x.name, y.name);
        assert_string_equal(x.text, y.text);
    }
}

static void compare(tv_machine *a, tv_machine *b)
{
    tv_stats x = {.size = sizeof x};
    tv_stats y = {.size = sizeof y};
    tv_machine_stats(a, &x);
    tv_machine_stats(b, &y);
    assert_int_equal(x.cycles, y.cycles);
    assert_int_equal(x.instructions, y.instructions);
    assert_int_equal(x.macs, y.macs);
    for (unsigned e = 0; e < x.engine_count; e++) {
        assert_int_equal(x.engines[e].busy, y.engines[e].busy);
        assert_int_equal(x.engines[e].idle, y.engines[e].idle);
        assert_memory_equal(x.engines[e].stalled, y.engines[e].stalled, sizeof x.engines[e].stalled);
    }
    for (unsigned p = 0; p < x.path_count; p++)
        assert_int_equal(x.paths[p].bytes, y.paths[p].bytes);
    assert_int_equal(tv_machine_clock(a), tv_machine_clock(b));
    compare_spaces(a, b);
    compare_states(a, b);
}

/* A machine that has run to `position` without a debugger, with a write applied at position `write_at`. */
static tv_machine *run_reference(const bench *b, uint64_t position, uint64_t write_at, uint8_t byte)
{
    tv_machine *machine;
    tv_space space;
    tv_stop_reason why = TV_STOP_END;
    uint64_t done = 0;
    unsigned p = 0;
    assert_int_equal(tv_machine_new(b->config, TV_MODE_FULL, NULL, &machine), TV_OK);
    assert_int_equal(tv_machine_load(machine, b->programs[0], NULL), TV_OK);
    tv_machine_space_at(machine, 0, &space);
    for (;;) {
        if (done == write_at)
            assert_int_equal(tv_machine_write(machine, space.name, 3, &byte, 1, NULL), TV_OK);
        if (done == position)
            return machine;
        assert_int_equal(tv_machine_step(machine, &why), TV_OK);
        done++;
        if (why == TV_STOP_END && p + 1 < b->count)
            assert_int_equal(tv_machine_load(machine, b->programs[++p], NULL), TV_OK);
    }
}

static void expect_reference_state(tv_debug *d, const bench *b, uint64_t position, uint64_t write_at, uint8_t byte)
{
    tv_debug_location location;
    tv_machine *machine = run_reference(b, position, write_at, byte);
    tv_debug_current_location(d, &location);
    assert_int_equal(location.position, position);
    compare(tv_debug_machine(d), machine);
    tv_machine_free(machine);
}

static tv_debug *make_debugger(const bench *b, uint64_t every, uint64_t memory)
{
    tv_debug *d;
    tv_debug_options options = {.size = sizeof options, .snapshot_interval = every, .snapshot_memory = memory};
    assert_int_equal(tv_debug_new(b->config, b->programs, b->count, &options, NULL, &d), TV_OK);
    return d;
}

/* ---- The properties ---- */

/* Random steps in both directions. */
static void check_random_steps(bench b, uint64_t every, uint64_t memory)
{
    enum { MOVES = 40 };
    tv_debug *d = make_debugger(&b, every, memory);
    tv_debug_stop stop;
    uint64_t position = 0;
    for (unsigned i = 0; i < MOVES; i++) {
        if (random_below(2)) {
            uint64_t n = random_below(b.total - position + 1);
            assert_int_equal(tv_debug_step(d, n, NULL, &stop), TV_OK);
            position += n;
        } else {
            uint64_t n = random_below(position + 1);
            assert_int_equal(tv_debug_step_back(d, n, NULL, &stop), TV_OK);
            position -= n;
        }
        expect_reference_state(d, &b, position, UINT64_MAX, 0);
    }
    tv_debug_free(d);
    bench_free(&b);
}

static void pccx_steps_are_exact(void **state)
{
    (void)state;
    check_random_steps(pccx_bench(), 5, 0);
}
static void opennpu_steps_are_exact(void **state)
{
    (void)state;
    check_random_steps(opennpu_bench(), 50, 0);
}
static void cmdq_steps_are_exact(void **state)
{
    (void)state;
    check_random_steps(cmdq_bench(), 9, 0);
}

/* Snapshots that do not fit, and few that do. */
static void pccx_steps_are_exact_without_snapshots(void **state)
{
    (void)state;
    check_random_steps(pccx_bench(), 5, 1);
}
static void opennpu_steps_are_exact_with_few_snapshots(void **state)
{
    (void)state;
    check_random_steps(opennpu_bench(), 10, 300000);
}
static void cmdq_steps_are_exact_without_snapshots(void **state)
{
    (void)state;
    check_random_steps(cmdq_bench(), 9, 1);
}

/* A write is repeated by replay, and dropped by going back to before it. */
static void check_writes(bench b)
{
    tv_space space;
    tv_debug_stop stop;
    const uint8_t byte = 0x35;
    for (unsigned i = 0; i < 12; i++) {
        tv_debug *d = make_debugger(&b, 7, 0);
        uint64_t at = random_below(b.total), after = random_below(b.total - at), less = random_below(after + 1);
        tv_machine_space_at(tv_debug_machine(d), 0, &space);
        assert_int_equal(tv_debug_step(d, at, NULL, &stop), TV_OK);
        assert_int_equal(tv_debug_write(d, space.name, 3, &byte, 1, NULL), TV_OK);
        assert_int_equal(tv_debug_step(d, after, NULL, &stop), TV_OK);
        assert_int_equal(tv_debug_step_back(d, less, NULL, &stop), TV_OK);
        assert_int_equal(stop.dropped_writes, 0);
        expect_reference_state(d, &b, at + after - less, at, byte);
        uint64_t more = random_below(at + 1);
        assert_int_equal(tv_debug_step_back(d, after - less + more, NULL, &stop), TV_OK);
        assert_int_equal(stop.dropped_writes, more != 0);
        expect_reference_state(d, &b, at - more, more ? UINT64_MAX : at, byte);
        assert_int_equal(tv_debug_step(d, more, NULL, &stop), TV_OK);
        expect_reference_state(d, &b, at, more ? UINT64_MAX : at, byte);
        tv_debug_free(d);
    }
    bench_free(&b);
}

static void pccx_replays_writes(void **state)
{
    (void)state;
    check_writes(pccx_bench());
}
static void opennpu_replays_writes(void **state)
{
    (void)state;
    check_writes(opennpu_bench());
}
static void cmdq_replays_writes(void **state)
{
    (void)state;
    check_writes(cmdq_bench());
}

/* Running backwards stops at the same positions as running forwards, in reverse order. */
static void check_reverse_stops(bench b, const char *space, uint64_t addr, const char *opcode)
{
    enum { BYTES_MAX = 2000 };
    static uint64_t forwards[BYTES_MAX];
    tv_debug *d = make_debugger(&b, 11, 0);
    tv_debug_stop stop;
    tv_debug_location location;
    unsigned number, count = 0;
    assert_int_equal(tv_debug_break_add(d,
                                        &(tv_break){.kind = TV_BREAK_WATCH, .text = space, .value = addr, .writes = 1},
                                        NULL, &number),
                     TV_OK);
    assert_int_equal(tv_debug_break_add(d, &(tv_break){.kind = TV_BREAK_OPCODE, .text = opcode}, NULL, &number), TV_OK);
    do {
        assert_int_equal(tv_debug_continue(d, NULL, &stop), TV_OK);
        tv_debug_current_location(d, &location);
        assert_true(count < BYTES_MAX);
        forwards[count++] = location.position;
    } while (stop.reason != TV_DEBUG_END);
    assert_true(count > 10);
    for (unsigned i = count - 1; i-- > 0;) {
        assert_int_equal(tv_debug_reverse_continue(d, NULL, &stop), TV_OK);
        tv_debug_current_location(d, &location);
        assert_int_equal(location.position, forwards[i]);
        if (i % 8 == 0)
            expect_reference_state(d, &b, location.position, UINT64_MAX, 0);
    }
    assert_int_equal(tv_debug_reverse_continue(d, NULL, &stop), TV_OK);
    tv_debug_current_location(d, &location);
    assert_int_equal(location.position, 0); /* the first instruction may have a breakpoint */
    tv_debug_free(d);
    bench_free(&b);
}

static void pccx_reverse_stops_match(void **state)
{
    (void)state;
    check_reverse_stops(pccx_bench(), "l2", 9, "cvo.gelu");
}
static void opennpu_reverse_stops_match(void **state)
{
    (void)state;
    check_reverse_stops(opennpu_bench(), "vx", 13, "mma.reset");
}
static void cmdq_reverse_stops_match(void **state)
{
    (void)state;
    check_reverse_stops(cmdq_bench(), "spm", 2048, "DMA_LOAD_TILE");
}

/* A breakpoint cycle stops before the first instruction that would issue at this cycle or later, where a machine that
 * runs to that cycle without a debugger stops. */
static void check_cycle_stops(bench b)
{
    uint64_t count = tv_program_instruction_count(b.programs[0]);
    for (unsigned i = 0; i < 60; i++) {
        bench one = {.config = b.config, .programs = {b.programs[0]}, .count = 1, .total = count};
        uint64_t position = random_below(count - 1), cycle, limit;
        tv_machine *machine = run_reference(&one, position, UINT64_MAX, 0);
        tv_debug *d = make_debugger(&one, 7, 0);
        tv_debug_stop stop;
        tv_stop_reason why;
        unsigned number;
        cycle = limit = tv_machine_clock(machine) + random_below(6);
        /* the first instruction is executed without a stop, and passes the cycle if it issues then */
        assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), position + 1, cycle}, &why),
                         TV_OK);
        if (why == TV_STOP_CYCLES)
            limit = UINT64_MAX;
        assert_int_equal(tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, limit}, &why),
                         TV_OK);
        assert_int_equal(tv_debug_step(d, position, NULL, &stop), TV_OK);
        assert_int_equal(tv_debug_break_add(d, &(tv_break){.kind = TV_BREAK_CYCLE, .value = cycle}, NULL, &number),
                         TV_OK);
        assert_int_equal(tv_debug_continue(d, NULL, &stop), TV_OK);
        assert_int_equal(stop.reason, why == TV_STOP_CYCLES ? TV_DEBUG_BREAKPOINT : TV_DEBUG_END);
        compare(tv_debug_machine(d), machine);
        tv_debug_free(d);
        tv_machine_free(machine);
    }
    bench_free(&b);
}

static void pccx_stops_at_cycles(void **state)
{
    (void)state;
    check_cycle_stops(pccx_bench());
}
static void opennpu_stops_at_cycles(void **state)
{
    (void)state;
    check_cycle_stops(opennpu_bench());
}
static void cmdq_stops_at_cycles(void **state)
{
    (void)state;
    check_cycle_stops(cmdq_bench());
}

/* ---- Snapshots ---- */

static void snapshots_share_equal_pages(void **state)
{
    (void)state;
    bench b = pccx_bench();
    tv_machine *machine = run_reference(&b, 0, UINT64_MAX, 0);
    tv_snapshot *first, *second, *reference;
    tv_run_limits ten = {sizeof ten, 10, UINT64_MAX};
    static uint8_t data[60000];
    memset(data, 7, sizeof data);
    assert_int_equal(tv_machine_write(machine, "host", 4096, data, sizeof data, NULL), TV_OK);
    assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &first), TV_OK);
    assert_int_equal(tv_machine_run(machine, &ten, NULL), TV_OK);
    assert_int_equal(tv_machine_snapshot(machine, first, UINT64_MAX, &second), TV_OK);
    assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &reference), TV_OK);
    assert_true(tv_snapshot_bytes(second) + 25000 < tv_snapshot_bytes(reference)); /* shared pages count half */
    assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
    tv_snapshot_free(first);
    assert_int_equal(tv_machine_restore(machine, second), TV_OK);
    tv_machine *other = run_reference(&b, 10, UINT64_MAX, 0);
    assert_int_equal(tv_machine_write(other, "host", 4096, data, sizeof data, NULL), TV_OK);
    compare(machine, other);
    tv_snapshot_free(second);
    tv_snapshot_free(reference);
    tv_machine_free(machine);
    tv_machine_free(other);
    bench_free(&b);
}

static void ignore_event(void *user, const tv_event *event) { (void)user, (void)event; }

static void snapshots_are_rejected_while_traced(void **state)
{
    (void)state;
    bench b = opennpu_bench();
    tv_machine *machine = run_reference(&b, 20, UINT64_MAX, 0);
    tv_snapshot *snapshot = NULL;
    assert_int_equal(tv_machine_snapshot(machine, NULL, 100, &snapshot), TV_ERR_MEMORY);
    tv_machine_trace(machine, &(tv_trace_sink){ignore_event, NULL});
    assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot), TV_ERR_INPUT);
    assert_null(snapshot);
    tv_machine_free(machine);
    bench_free(&b);
}

/* ---- Values ---- */

static void expect_element(const char *type, const char *text, uint64_t bits)
{
    tv_dtype t;
    uint8_t bytes[8] = {0};
    uint64_t got = 0;
    assert_int_equal(tv_dtype_find(type, &t), TV_OK);
    assert_int_equal(tv_dtype_store(t, bytes, 0, text), TV_OK);
    for (unsigned i = 8; i-- > 0;)
        got = got << 8 | bytes[i];
    if (got != bits)
        fail_msg("%s %s is %llx", type, text, (unsigned long long)got);
}

static void elements_are_parsed(void **state)
{
    static const char *const rejected[][2] = {{"s8", "128"},     {"s8", "-129"}, {"u8", "-1"}, {"u8", "256"},
                                              {"i4", "8"},       {"bf16", "x"},  {"f32", ""},  {"s32", "1.5"},
                                              {"hex8", "0x100"}, {"u32", "0x"},  {"i2", "2"},  {"s16", "1e2"}};
    (void)state;
    expect_element("s8", "-128", 0x80);
    expect_element("s8", "0xff", 0xff);
    expect_element("u16", "65535", 0xffff);
    expect_element("i4", "-3", 0xd);
    expect_element("i2", "-2", 2);
    expect_element("f32", "0.1", 0x3dcccccd);
    expect_element("bf16", "1.5", 0x3fc0);
    expect_element("f16", "-2", 0xc000);
    expect_element("f16", "nan", 0x7e00);
    expect_element("hex64", "0xffffffffffffffff", UINT64_MAX);
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++) {
        tv_dtype t;
        uint8_t bytes[8] = {0};
        assert_int_equal(tv_dtype_find(rejected[i][0], &t), TV_OK);
        if (tv_dtype_store(t, bytes, 0, rejected[i][1]) != TV_ERR_INPUT)
            fail_msg("%s %s is accepted", rejected[i][0], rejected[i][1]);
    }
}

static void elements_leave_their_neighbours(void **state)
{
    uint8_t bytes[2] = {0xff, 0xff};
    (void)state;
    assert_int_equal(tv_dtype_store(TV_I4, bytes, 1, "0"), TV_OK);
    assert_int_equal(bytes[0], 0x0f);
    assert_int_equal(tv_dtype_store(TV_I2, bytes, 6, "1"), TV_OK);
    assert_int_equal(bytes[1], 0xdf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pccx_steps_are_exact),
        cmocka_unit_test(opennpu_steps_are_exact),
        cmocka_unit_test(cmdq_steps_are_exact),
        cmocka_unit_test(pccx_steps_are_exact_without_snapshots),
        cmocka_unit_test(opennpu_steps_are_exact_with_few_snapshots),
        cmocka_unit_test(cmdq_steps_are_exact_without_snapshots),
        cmocka_unit_test(pccx_replays_writes),
        cmocka_unit_test(opennpu_replays_writes),
        cmocka_unit_test(cmdq_replays_writes),
        cmocka_unit_test(pccx_reverse_stops_match),
        cmocka_unit_test(opennpu_reverse_stops_match),
        cmocka_unit_test(cmdq_reverse_stops_match),
        cmocka_unit_test(pccx_stops_at_cycles),
        cmocka_unit_test(opennpu_stops_at_cycles),
        cmocka_unit_test(cmdq_stops_at_cycles),
        cmocka_unit_test(snapshots_share_equal_pages),
        cmocka_unit_test(snapshots_are_rejected_while_traced),
        cmocka_unit_test(elements_are_parsed),
        cmocka_unit_test(elements_leave_their_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
