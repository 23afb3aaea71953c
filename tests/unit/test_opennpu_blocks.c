/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of OpenNPU with blocks (machine/opennpu/block.h) leave what their instructions leave one by one. A run with
 * a limit of ticks has no blocks. */
#include "digest.h"
#include "machine/instance.h"
#include "machine/opennpu/blocks.h"
#include "machine/opennpu/decode_cache.h"
#include "program/program.h"

enum { SEEDS = 60, RUNS = 8, AGAIN = 6, MEM_BYTES = 16384, FRAGMENTS = 5, LINES_MAX = 180, SOURCE_BYTES = 1 << 18 };

/* ---- Programs ---- */

typedef struct source {
    char text[SOURCE_BYTES];
    size_t size;
} source;

static void add_line(source *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_line(source *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    s->size += (size_t)vsnprintf(s->text + s->size, SOURCE_BYTES - s->size, format, args);
    va_end(args);
    assert_true(s->size + 2 < SOURCE_BYTES);
    s->text[s->size++] = '\n';
    s->text[s->size] = '\0';
}

/* The rows that a fragment loads, and those that it multiplies. */
typedef struct operands {
    unsigned first, loaded, multiplied;
} operands;

static operands make_operands(unit_rng *rng)
{
    return (operands){(unsigned)unit_below(rng, 3) * 8, 4u << unit_below(rng, 3), 2u << unit_below(rng, 4)};
}

/* A load. Base registers are vr4 and vr5, which is seldom loaded itself if `loads_base`. */
static void add_load(source *s, unit_rng *rng, const operands *o, bool loads_base)
{
    static const char *const names[] = {"vx", "ve", "vr"};
    const unsigned class_ = (unsigned)unit_below(rng, 3), first = o->first >> class_, count = o->loaded >> class_;
    const int imm = (int)unit_below(rng, 4096) - 2048;
    add_line(s, "ld.%s %s%u, %d(vr%u)", names[class_], names[class_], first + (unsigned)unit_below(rng, count),
             class_ == 2 ? imm / 4 * 4 : imm, 4 + (unsigned)unit_below(rng, 2));
    if (loads_base && unit_below(rng, 20) == 0)
        add_line(s, "ld.vr vr5, %d(vr4)", imm / 4 * 4);
}

static void add_mma(source *s, unit_rng *rng, const operands *o)
{
    add_line(s, "mma%s vx%u, vx%u", unit_below(rng, 50) ? ".keep" : "", (unsigned)unit_below(rng, o->multiplied),
             (unsigned)unit_below(rng, o->multiplied));
}

/* The loop of a product of matrices, with pairs or quads of factors. */
static void add_product(source *s, unit_rng *rng, unsigned steps)
{
    const unsigned class_ = 1 + (unsigned)unit_below(rng, 2), rows = 1u << class_;
    for (unsigned i = 0; i < steps; i += rows + 2) {
        const unsigned a = i % (16 / rows), b = (i + 3) % (16 / rows);
        add_line(s, class_ == 1 ? "ld.ve ve%u, %u(vr4)" : "ld.vr vr%u, %u(vr4)", class_ == 1 ? a : a % 4, 4 * i % 2000);
        if (class_ == 1)
            add_line(s, "ld.ve ve%u, %d(vr5)", 12 + b % 4, -(int)i);
        for (unsigned r = 0; r < rows; r++)
            add_line(s, "mma.keep vx%u, vx%u", rows * (class_ == 1 ? a : a % 4) + r, 24 + (2 * b + r) % 8);
    }
}

/* Instructions that blocks consist of, and few others. */
static void add_fragment(source *s, unit_rng *rng, bool loads_base)
{
    const unsigned lines = 8 + (unsigned)unit_below(rng, LINES_MAX), kind = (unsigned)unit_below(rng, 5);
    const operands o = make_operands(rng);
    if (kind == 0) {
        add_product(s, rng, lines);
        return;
    }
    for (unsigned i = 0; i < lines; i++)
        if (kind == 3 && unit_below(rng, 60) == 0)
            add_line(s, "vadd vx%u, vx1, vx2", (unsigned)unit_below(rng, 16));
        else if (kind == 4 || unit_below(rng, 2))
            add_mma(s, rng, &o);
        else
            add_load(s, rng, &o, loads_base);
}

static void add_others(source *s, unit_rng *rng)
{
    switch (unit_below(rng, 8)) {
    case 0:
        add_line(s, "mma.last vr%u", (unsigned)unit_below(rng, 4));
        break;
    case 1:
        add_line(s, "st.vr vr%u, %d(vr4)", (unsigned)unit_below(rng, 4), (int)unit_below(rng, 2048));
        break;
    case 2:
        add_line(s, "vadd vr%u, vr1, vr2", (unsigned)unit_below(rng, 8));
        break;
    case 3:
        add_line(s, "bcast.imm vx17, %u", 10 + (unsigned)unit_below(rng, 30));
        break;
    case 4:
        add_line(s, "vfmul vr%u, vr6, vr7", (unsigned)unit_below(rng, 4) * 2);
        break;
    case 5:
        add_line(s, "mma.reset");
        break;
    case 6:
    case 7: /* nothing between two fragments */
        break;
    }
}

/* Random fragments, each several times. */
static tv_program *make_program(unit_rng *rng, unsigned run)
{
    static source s, fragments[FRAGMENTS];
    tv_program *program;
    s.size = 0;
    add_line(&s, ".target opennpu");
    if (run % 3 == 1) /* it may wait for the last mma of the program before */
        add_line(&s, "mma.last vr0");
    for (unsigned i = 0; i < FRAGMENTS; i++) {
        fragments[i].size = 0;
        add_fragment(&fragments[i], rng, run % 2);
    }
    for (unsigned i = 0; i < 4 * FRAGMENTS; i++) {
        add_line(&s, "%s", fragments[unit_below(rng, FRAGMENTS)].text);
        add_others(&s, rng);
    }
    assert_int_equal(tv_program_assemble("blocks.s", s.text, s.size, NULL, NULL, &program), TV_OK);
    program->continues = run % 3 == 1;
    return program;
}

/* ---- Machines ---- */

enum { SLOW, FAST, STOPPED, RESTORED, THREADS, MACHINES };

/* Lanes of the machine: 64 for most seeds, because only then blocks are executed. */
static unsigned lanes_of(uint64_t seed)
{
    static const unsigned lanes[] = {64, 64, 32, 64, 64, 16, 64, 4};
    return lanes[(seed + seed / 8) % 8];
}

static tv_machine *new_machine(uint64_t seed, tv_mode mode)
{
    static const char *const latencies[] = {"4", "1", "2", "23", "200"};
    tv_config *config;
    tv_machine *machine;
    char bytes[16], lanes[16];
    snprintf(lanes, sizeof lanes, "%u", lanes_of(seed));
    snprintf(bytes, sizeof bytes, "%d", MEM_BYTES);
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "mem.bytes", bytes, NULL), TV_OK);
    assert_int_equal(tv_config_set(config, "vector.k", lanes, NULL), TV_OK);
    assert_int_equal(tv_config_set(config, "vector.l", "32", NULL), TV_OK);
    assert_int_equal(tv_config_set(config, "ld.latency", latencies[seed % 5], NULL), TV_OK);
    assert_int_equal(tv_machine_new(config, mode, NULL, &machine), TV_OK);
    tv_config_free(config);
    return machine;
}

/* Runs to the end, and goes back to where it was. */
static void run_and_return(tv_machine *machine)
{
    tv_snapshot *stopped;
    assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &stopped), TV_OK);
    (void)tv_machine_run(machine, NULL, NULL);
    assert_int_equal(tv_machine_restore(machine, stopped), TV_OK);
    tv_snapshot_free(stopped);
}

static tv_status run_machine(tv_machine *machine, unsigned kind, uint64_t until)
{
    const uint64_t max_cycles = kind == SLOW ? UINT64_MAX - 1 : UINT64_MAX;
    if (kind == STOPPED || kind == RESTORED) {
        tv_status status = tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), until, max_cycles}, NULL);
        if (status != TV_OK)
            return status;
    }
    if (kind == RESTORED)
        run_and_return(machine);
    return tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, max_cycles}, NULL);
}

typedef enum addresses { ANYWHERE, FIRST_BYTES, LAST_BYTES } addresses;

/* Writes addresses to the base registers: those of loads are in memory, or may be outside, before its first byte or
 * past the last. */
static void write_bases(tv_machine *const *machines, unit_rng *rng, uint64_t seed, addresses where)
{
    enum { REACH = 2048, MARGIN = 256 };
    uint8_t base[256] = {0};
    for (unsigned reg = 0; reg < 8; reg++) {
        uint64_t addr = REACH + unit_below(rng, MEM_BYTES - 2 * REACH - MARGIN);
        if (where != ANYWHERE)
            addr = where == FIRST_BYTES ? unit_below(rng, REACH) : MEM_BYTES - unit_below(rng, REACH + MARGIN);
        for (unsigned b = 0; b < 4; b++)
            base[b] = (uint8_t)((addr & ~UINT64_C(3)) >> (8 * b));
        for (unsigned m = 0; m < MACHINES; m++)
            assert_int_equal(tv_machine_write(machines[m], "vr", reg, base, 4 * lanes_of(seed), NULL), TV_OK);
    }
}

/* Writes random bytes to memory, in odd runs words that are addresses, and addresses to the base registers. */
static void write_operands(tv_machine *const *machines, unit_rng *rng, uint64_t seed, unsigned run)
{
    static uint8_t memory[MEM_BYTES];
    for (unsigned i = 0; i < MEM_BYTES; i++)
        memory[i] = (uint8_t)unit_next(rng);
    for (unsigned i = 0; i < MEM_BYTES && run % 2; i += 4) {
        memory[i + 1] = (uint8_t)(8 + unit_below(rng, 38));
        memory[i + 2] = memory[i + 3] = 0;
    }
    for (unsigned m = 0; m < MACHINES; m++)
        assert_int_equal(tv_machine_write(machines[m], "mem", 0, memory, MEM_BYTES, NULL), TV_OK);
    write_bases(machines, rng, seed, ANYWHERE);
}

/* ---- Comparisons ---- */

/* Blocks that runs used. */
typedef struct usage {
    unsigned found, recorded, repeated; /* again after they were translated; with timings; timed from one of those */
} usage;

/* Adds the blocks of the program that the machine's runs found. Here each is found by its hits, which are removed. */
static void add_usage(tv_machine *machine, const tv_program *program, usage *u)
{
    opennpu_machine *m = machine->state;
    unsigned skipped;
    for (uint64_t i = 0; i < program->instruction_count; i++) {
        opennpu_block *block = opennpu_find_block(m, &m->decode_cache, m->blocks, program->text + 4 * i,
                                                  program->instruction_count - i, &skipped);
        if (block && block->hits > 1) {
            u->found++;
            u->recorded += block->recorded > 0;
            u->repeated += block->recorded > 0 && block->hits > block->recorded;
        }
        if (block)
            block->hits = 0;
    }
}

static void digest_event(void *user, const tv_event *event)
{
    const uint64_t numbers[] = {event->kind, (uint64_t)event->index,     event->start,
                                event->end,  (uint64_t)event->waits_for, event->bytes,
                                event->macs};
    digest_bytes(user, numbers, sizeof numbers);
    digest_bytes(user, event->engine ? event->engine : "", event->engine ? strlen(event->engine) : 0);
    digest_bytes(user, event->reason ? event->reason : "", event->reason ? strlen(event->reason) : 0);
}

static void compare_machines(tv_machine *const *machines, const tv_status *statuses, uint64_t seed, unsigned run)
{
    const uint64_t expected = digest_machine(machines[SLOW]);
    for (unsigned m = 1; m < MACHINES; m++) {
        if (statuses[m] != statuses[SLOW] || digest_machine(machines[m]) != expected)
            fail_msg("seed %u, run %u: machine %u differs", (unsigned)seed, run, m);
        if (statuses[SLOW] != TV_OK)
            assert_string_equal(tv_machine_fault(machines[m])->message, tv_machine_fault(machines[SLOW])->message);
    }
}

/* Runs the program on all machines, with a trace if `traced`, and compares them. */
static void run_and_compare(tv_machine *const *machines, const tv_program *program, unit_rng *rng, uint64_t seed,
                            unsigned run, bool traced)
{
    tv_status statuses[MACHINES];
    uint64_t events[MACHINES] = {0};
    const uint64_t until = unit_below(rng, program->instruction_count);
    for (unsigned m = 0; m < MACHINES; m++) {
        const tv_trace_sink sink = {digest_event, &events[m], 1};
        tv_machine_trace(machines[m], traced ? &sink : NULL);
        assert_int_equal(tv_machine_load(machines[m], program, NULL), TV_OK);
        statuses[m] = run_machine(machines[m], traced && m == RESTORED ? FAST : m, until); /* or events come twice */
        if (events[m] != events[SLOW])
            fail_msg("seed %u, run %u: the trace of machine %u differs", (unsigned)seed, run, m);
    }
    compare_machines(machines, statuses, seed, run);
}

/* Runs random programs, each again with addresses at the ends of memory; the last one is traced the first time. Adds
 * the blocks of the fast machine. */
static void compare_runs(uint64_t seed, tv_mode mode, usage *u)
{
    tv_machine *machines[MACHINES];
    tv_program *programs[RUNS];
    unit_rng rng = {seed};
    for (unsigned m = 0; m < MACHINES; m++)
        machines[m] = new_machine(seed, mode);
    tv_machine_set_threads(machines[THREADS], 2);
    for (unsigned run = 0; run < RUNS; run++) {
        programs[run] = make_program(&rng, run);
        write_operands(machines, &rng, seed, run);
        run_and_compare(machines, programs[run], &rng, seed, run, run + 1 == RUNS);
        add_usage(machines[FAST], programs[run], u);
        for (unsigned again = 0; again < AGAIN; again++) {
            write_bases(machines, &rng, seed, again % 2 ? FIRST_BYTES : LAST_BYTES);
            run_and_compare(machines, programs[run], &rng, seed, run, false);
        }
    }
    for (unsigned m = 0; m < MACHINES; m++)
        tv_machine_free(machines[m]);
    for (unsigned run = 0; run < RUNS; run++)
        tv_program_free(programs[run]);
}

static void compare_seeds(uint64_t first, tv_mode mode)
{
    unsigned seeds = 0;
    usage u = {0};
    for (uint64_t seed = first; seed < first + SEEDS; seed += unit_sample(), seeds++)
        compare_runs(seed, mode, &u);
    assert_true(u.found > seeds);
    if (mode != TV_MODE_FUNCTIONAL)
        assert_true(u.recorded > seeds && u.repeated > seeds / 2);
}

static void blocks_leave_what_their_instructions_leave(void **state)
{
    (void)state;
    compare_seeds(0, TV_MODE_FULL);
}

static void blocks_without_ticks_leave_what_their_instructions_leave(void **state)
{
    (void)state;
    compare_seeds(1000, TV_MODE_FUNCTIONAL);
}

static void blocks_without_data_take_the_ticks_of_their_instructions(void **state)
{
    (void)state;
    compare_seeds(2000, TV_MODE_TIMING);
}

/* Distinct blocks, again and again, in a random order. */
static void more_blocks_than_a_table_has_leave_what_their_instructions_leave(void **state)
{
    (void)state;
    enum { BLOCKS = 900, LINES = 17 };
    static source s;
    unit_rng rng = {7};
    tv_machine *machines[MACHINES];
    tv_status statuses[MACHINES];
    tv_program *program;
    s.size = 0;
    add_line(&s, ".target opennpu");
    for (unsigned i = 0; i < 3 * BLOCKS; i++) {
        const unsigned block = i < BLOCKS ? i : (unsigned)unit_below(&rng, BLOCKS);
        add_line(&s, "ld.vx vx%u, %u(vr4)\n.rept %d\nmma.keep vx%u, vx%u\n.endr\nvadd vr6, vr0, vr1", block % 16, block,
                 LINES, block % 15, (block + 1) % 16);
    }
    assert_int_equal(tv_program_assemble("blocks.s", s.text, s.size, NULL, NULL, &program), TV_OK);
    for (unsigned m = 0; m < MACHINES; m++)
        machines[m] = new_machine(0, TV_MODE_FULL);
    write_operands(machines, &rng, 0, 0);
    for (unsigned m = 0; m < MACHINES; m++) {
        assert_int_equal(tv_machine_load(machines[m], program, NULL), TV_OK);
        statuses[m] = run_machine(machines[m], m, program->instruction_count / 2);
    }
    compare_machines(machines, statuses, 0, 0);
    for (unsigned m = 0; m < MACHINES; m++)
        tv_machine_free(machines[m]);
    tv_program_free(program);
}

/* Sums of products in blocks, every third of more than the machine keeps the operands of, of which mostly few columns
 * are drained. */
static tv_program *make_sums(unit_rng *rng)
{
    enum { SUMS = 7, LOOPS = 60, COLUMNS = 66 };
    static source s;
    tv_program *program;
    s.size = 0;
    add_line(&s, ".target opennpu");
    for (unsigned sum = 0; sum < SUMS; sum++) {
        const unsigned loops = sum % 3 == 2 ? LOOPS : 2, products = 17 + (unsigned)unit_below(rng, 48),
                       columns = (unsigned)(unit_below(rng, 4) ? unit_below(rng, 12) : unit_below(rng, COLUMNS));
        add_line(&s, "mma%s vx1, vx2\n.rept %u\nld.ve ve0, %u(vr4)", unit_below(rng, 8) ? "" : ".keep", loops, sum);
        for (unsigned p = 0; p < products; p++)
            add_line(&s, "mma.keep vx%u, vx%u", (unsigned)unit_below(rng, 16), (unsigned)unit_below(rng, 16));
        add_line(&s, "vadd vr6, vr5, vr6\n.endr");
        for (unsigned c = 0; c < columns; c++)
            add_line(&s, unit_below(rng, 4) ? "mma.last vr6" : "mma.last.keep vr6, vx1, vx2");
        add_line(&s, "st.vr vr6, %u(vr5)", sum);
    }
    assert_int_equal(tv_program_assemble("sums.s", s.text, s.size, NULL, NULL, &program), TV_OK);
    return program;
}

/* In how many of some places of the program a machine keeps the operands of more products than a call of the kernel
 * takes, for columns that are not drained. */
static unsigned count_kept(tv_machine *machine, const tv_program *program)
{
    enum { STOPS = 12 };
    const opennpu_machine *m = machine->state;
    unsigned kept = 0;
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    for (unsigned stop = 1; stop <= STOPS; stop++) {
        const tv_run_limits limits = {sizeof limits, program->instruction_count * stop / STOPS, UINT64_MAX};
        assert_int_equal(tv_machine_run(machine, &limits, NULL), TV_OK);
        kept += m->others.first < m->others.end && m->pending - m->others.added > TV_OUTER_COUNT_MAX;
    }
    return kept;
}

static void long_sums_in_blocks_leave_what_their_instructions_leave(void **state)
{
    (void)state;
    enum { PROGRAMS = 24 };
    unit_rng rng = {11};
    unsigned kept = 0, count = 0;
    tv_program *programs[PROGRAMS];
    usage u = {0};
    tv_machine *machines[MACHINES], *counted = new_machine(0, TV_MODE_FULL);
    for (unsigned m = 0; m < MACHINES; m++)
        machines[m] = new_machine(0, TV_MODE_FULL);
    tv_machine_set_threads(machines[THREADS], 2);
    for (unsigned i = 0; i < PROGRAMS; i += unit_sample(), count++) {
        programs[count] = make_sums(&rng);
        write_operands(machines, &rng, 0, 0);
        run_and_compare(machines, programs[count], &rng, 0, i, false);
        add_usage(machines[FAST], programs[count], &u);
        kept += count_kept(counted, programs[count]);
    }
    assert_true(kept > count && u.found > count);
    for (unsigned m = 0; m < MACHINES; m++)
        tv_machine_free(machines[m]);
    tv_machine_free(counted);
    while (count > 0)
        tv_program_free(programs[--count]);
}

/* A load of 64 bytes at `addr` + `imm`, in a block that was executed with another address before. */
static tv_status run_load_at(uint32_t addr, int imm)
{
    static source s;
    tv_machine *machine = new_machine(0, TV_MODE_FULL);
    tv_program *program;
    tv_status status = TV_OK;
    s.size = 0;
    add_line(&s, ".target opennpu\n.rept 4\nld.vx vx1, %d(vr4)\n.rept 16\nmma.keep vx1, vx2\n.endr", imm);
    add_line(&s, "vadd vr6, vr0, vr1\n.endr");
    assert_int_equal(tv_program_assemble("load.s", s.text, s.size, NULL, NULL, &program), TV_OK);
    for (unsigned i = 0; i < 2 && status == TV_OK; i++) {
        const uint32_t base[64] = {i ? addr : MEM_BYTES / 2};
        assert_int_equal(tv_machine_write(machine, "vr", 4, base, sizeof base, NULL), TV_OK);
        assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
        status = tv_machine_run(machine, NULL, NULL);
    }
    usage u = {0};
    add_usage(machine, program, &u);
    assert_true(u.found > 0);
    tv_machine_free(machine);
    tv_program_free(program);
    return status;
}

static void loads_of_a_block_fault_from_the_first_byte_outside_memory_on(void **state)
{
    (void)state;
    assert_int_equal(run_load_at(MEM_BYTES - 64, 0), TV_OK);
    assert_int_equal(run_load_at(MEM_BYTES - 63, 0), TV_FAULT);
    assert_int_equal(run_load_at(MEM_BYTES, -64), TV_OK);
    assert_int_equal(run_load_at(1, -1), TV_OK);
    assert_int_equal(run_load_at(0, -1), TV_FAULT);
    assert_int_equal(run_load_at(UINT32_MAX, 1), TV_OK); /* addresses wrap */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_leave_what_their_instructions_leave),
        cmocka_unit_test(blocks_without_ticks_leave_what_their_instructions_leave),
        cmocka_unit_test(blocks_without_data_take_the_ticks_of_their_instructions),
        cmocka_unit_test(loads_of_a_block_fault_from_the_first_byte_outside_memory_on),
        cmocka_unit_test(more_blocks_than_a_table_has_leave_what_their_instructions_leave),
        cmocka_unit_test(long_sums_in_blocks_leave_what_their_instructions_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
