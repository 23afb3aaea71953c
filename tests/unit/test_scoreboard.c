/* SPDX-License-Identifier: Apache-2.0 */
/* The scoreboard with a pccx machine and a design that this file plays. Two instructions, worked by hand: CVO_EXP of
 * eight zeros writes eight ones in BF16 (0x3F80) to one L2 word; a MEMSET writes an entry of three 16-bit numbers. */
#include "unit.h"

#include <unistd.h>

#include "trivet/trivet.h"

#define EXP UINT64_C(0x4000000004000200)    /* cvo.exp l2[0x10], l2[0], len=8 */
#define MEMSET UINT64_C(0x3000008000100010) /* memset fmap_shape[0], 8, 1, 1 */
#define LOAD UINT64_C(0x2800000000000000)   /* memcpy l2[0], host[0], shape=0; | 1: async */
#define ILLEGAL UINT64_C(0xF000000000000000)

static tv_machine *machine;
static tv_scoreboard *board;
static tv_mismatch found[16];
static unsigned found_count;
static uint8_t ones[16];
static const uint8_t entry[6] = {8, 0, 1, 0, 1, 0};

static void keep_mismatch(void *user, const tv_mismatch *m)
{
    (void)user;
    if (found_count < 16)
        found[found_count] = *m;
    found_count++;
}

static void open_board(const char *rules_text, uint64_t slack, uint64_t plant)
{
    static tv_rules *rules;
    tv_config *config;
    tv_rules_free(rules);
    rules = NULL;
    tv_scoreboard_free(board);
    tv_machine_free(machine);
    if (rules_text)
        assert_int_equal(tv_rules_parse("rules", rules_text, strlen(rules_text), NULL, &rules), TV_OK);
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "l2.words", "1024", NULL), TV_OK);
    assert_int_equal(tv_config_set(config, "host.bytes", "65536", NULL), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    tv_config_free(config);
    tv_scoreboard_options options = {.size = sizeof options,
                                     .rules = rules,
                                     .mismatch = keep_mismatch,
                                     .values = 1,
                                     .cycle_slack = slack,
                                     .plant = plant};
    assert_int_equal(tv_scoreboard_new(machine, &options, &board), TV_OK);
    found_count = 0;
    for (unsigned i = 0; i < 16; i++)
        ones[i] = i % 2 ? 0x3F : 0x80;
}

static int close_boards(void **state)
{
    (void)state;
    tv_scoreboard_free(board);
    tv_machine_free(machine);
    return 0;
}

#define OK(call) assert_int_equal(call, TV_OK)

static void write_ones(uint64_t tag) { OK(tv_scoreboard_write(board, tag, "l2", 0x10, ones, 16, NULL)); }

static void expect_one(const char *name)
{
    tv_scoreboard_counts counts;
    OK(tv_scoreboard_finish(board, &counts));
    if (found_count != 1 || strcmp(found[0].name, name) != 0)
        fail_msg("%u mismatches, the first %s (%s), expected %s", found_count, found[0].name, found[0].message, name);
}

static void expect_none(void)
{
    tv_scoreboard_counts counts;
    OK(tv_scoreboard_finish(board, &counts));
    if (found_count)
        fail_msg("%s: %s", found[0].name, found[0].message);
}

static void a_design_that_does_the_same_has_no_mismatch(void **state)
{
    (void)state;
    tv_scoreboard_counts counts;
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_issue(board, 7, MEMSET));
    OK(tv_scoreboard_issue(board, 8, EXP));
    OK(tv_scoreboard_issue(board, 9, ILLEGAL));
    write_ones(8);
    OK(tv_scoreboard_trap(board, 9, "TV-P001"));
    OK(tv_scoreboard_retire(board, 9, TV_CYCLE_UNKNOWN));
    OK(tv_scoreboard_retire(board, 8, TV_CYCLE_UNKNOWN));
    OK(tv_scoreboard_write(board, 7, "const", 0, entry, 6, NULL));
    OK(tv_scoreboard_retire(board, 7, TV_CYCLE_UNKNOWN));
    OK(tv_scoreboard_issue(board, 8, EXP)); /* the tag is free again */
    write_ones(8);
    OK(tv_scoreboard_retire(board, 8, TV_CYCLE_UNKNOWN));
    OK(tv_scoreboard_finish(board, &counts));
    assert_int_equal(found_count, 0);
    assert_int_equal(counts.instructions, 4);
    assert_int_equal(counts.faults, 1);
    assert_int_equal(counts.bytes, 16 + 6 + 16);
    assert_int_equal(counts.mismatches, 0);
}

static void events_may_come_before_the_issue(void **state)
{
    (void)state;
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    write_ones(1);
    OK(tv_scoreboard_retire(board, 1, TV_CYCLE_UNKNOWN));
    OK(tv_scoreboard_issue(board, 1, EXP));
    expect_none();
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    write_ones(1);
    OK(tv_scoreboard_retire(board, 1, TV_CYCLE_UNKNOWN));
    expect_one("no-issue");
}

static void writes_may_be_split_and_repeated(void **state)
{
    (void)state;
    static const uint8_t low = 0x0F;
    uint8_t garbage[16] = {0};
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_issue(board, 1, EXP));
    OK(tv_scoreboard_write(board, 1, "l2", 0x10, garbage, 16, NULL));
    OK(tv_scoreboard_write(board, 1, "l2", 0x10, ones, 4, &low));
    OK(tv_scoreboard_write(board, 1, "l2", 0x10, ones, 16, (const uint8_t[]){0xF0, 0xFF}));
    OK(tv_scoreboard_retire(board, 1, TV_CYCLE_UNKNOWN));
    expect_none();
}

static void a_data_mismatch_names_element_and_lane(void **state)
{
    (void)state;
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_issue(board, 5, EXP));
    ones[6] = 0x81;
    ones[9] = 0xBF;
    write_ones(5);
    OK(tv_scoreboard_retire(board, 5, TV_CYCLE_UNKNOWN));
    expect_one("wrong-data/CVO_EXP/l2");
    const tv_mismatch *m = &found[0];
    assert_int_equal(m->kind, TV_MISMATCH_DATA);
    assert_int_equal(m->tag, 5);
    assert_int_equal(m->number, 0);
    assert_true(m->word == EXP);
    assert_string_equal(m->space, "l2");
    assert_int_equal(m->addr, 0x10);
    assert_int_equal(m->byte, 6);
    assert_int_equal(m->element, 3);
    assert_int_equal(m->lane, 3);
    assert_int_equal(m->bits, 16);
    assert_int_equal(m->expected, 0x3F80);
    assert_int_equal(m->actual, 0x3F81);
    assert_int_equal(m->count, 2);
    assert_null(m->waived);
}

/* Plays EXP with one deviation. */
static void play(uint64_t addr, size_t bytes, const char *trap)
{
    OK(tv_scoreboard_issue(board, 1, EXP));
    if (bytes)
        OK(tv_scoreboard_write(board, 1, "l2", addr, ones, bytes, NULL));
    if (trap)
        OK(tv_scoreboard_trap(board, 1, trap));
    OK(tv_scoreboard_retire(board, 1, TV_CYCLE_UNKNOWN));
}

static void each_kind_of_mismatch_has_its_class(void **state)
{
    (void)state;
    static const uint8_t other[2] = {1, 2};
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    play(0x10, 14, NULL);
    expect_one("missing-write/CVO_EXP/l2");
    assert_int_equal(found[0].byte, 14);
    assert_int_equal(found[0].count, 2);
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    play(0x11, 16, NULL);
    expect_one("misplaced-write/CVO_EXP/l2");
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_write(board, 1, "host", 3, other, 2, NULL));
    play(0x10, 16, NULL);
    expect_one("extra-write/CVO_EXP/host");
    assert_int_equal(found[0].addr, 3);
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    play(0x10, 16, "TV-P010");
    expect_one("extra-trap/CVO_EXP");
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_issue(board, 1, ILLEGAL));
    OK(tv_scoreboard_retire(board, 1, TV_CYCLE_UNKNOWN));
    expect_one("missing-trap");
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_issue(board, 1, ILLEGAL));
    OK(tv_scoreboard_trap(board, 1, "TV-P002"));
    OK(tv_scoreboard_retire(board, 1, TV_CYCLE_UNKNOWN));
    expect_one("wrong-trap");
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    play(0x10, 16, NULL);
    OK(tv_scoreboard_write(board, 1, "l2", 0x10, ones, 16, NULL));
    expect_one("late-write/CVO_EXP/l2");
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_issue(board, 1, EXP));
    OK(tv_scoreboard_hang(board, 1, 100));
    expect_one("hang/CVO_EXP");
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_issue(board, 1, EXP));
    expect_one("hang/CVO_EXP");
}

static void cycles_are_compared_within_a_slack(void **state)
{
    (void)state;
    tv_commit commit;
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_machine_execute(machine, EXP, TV_COMMIT_CYCLES, &commit));
    uint64_t end = commit.end;
    for (uint64_t slack = 0; slack < 3; slack++)
        for (uint64_t cycle = end - 4; cycle <= end + 4; cycle++) {
            open_board(NULL, slack, 0);
            OK(tv_scoreboard_issue(board, 1, EXP));
            write_ones(1);
            OK(tv_scoreboard_retire(board, 1, cycle));
            if (cycle + slack >= end && cycle <= end + slack)
                expect_none();
            else
                expect_one("wrong-cycle/CVO_EXP");
        }
}

static void keep_end(void *user, const tv_commit *commit)
{
    uint64_t *ends = user;
    if (commit->end != TV_CYCLE_UNKNOWN)
        ends[commit->order] = commit->end;
}

/* The model knows the end of a copy when the next instruction has issued, that of the last one at the end. */
static void cycles_known_after_retirement_are_compared(void **state)
{
    (void)state;
    enum { COUNT = 4 };
    static const uint64_t words[COUNT] = {MEMSET, LOAD, LOAD | 1, LOAD | 1};
    static const uint8_t zeros[16];
    uint64_t ends[COUNT];
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_machine_commits(machine, TV_COMMIT_CYCLES, &(tv_commit_sink){keep_end, ends}));
    for (unsigned i = 0; i < COUNT; i++)
        OK(tv_machine_execute(machine, words[i], TV_COMMIT_CYCLES, NULL));
    OK(tv_machine_commits(machine, 0, NULL));
    for (unsigned late = 0; late <= COUNT; late++) { /* COUNT: none is */
        open_board(NULL, 2, 0);
        tv_scoreboard *second;
        tv_scoreboard_options options = {.size = sizeof options, .cycle_slack = 0};
        tv_snapshot *snapshot;
        assert_int_equal(tv_scoreboard_new(machine, &options, &second), TV_ERR_INPUT);
        assert_int_equal(tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot), TV_ERR_INPUT);
        for (unsigned i = 0; i < COUNT; i++) {
            unsigned tag = COUNT - 1 - i; /* another number than the order of its record */
            if (tag)
                OK(tv_scoreboard_write(board, tag - 1, "l2", 0, zeros, 16, NULL));
            OK(tv_scoreboard_issue(board, tag, words[i]));
            if (i == 0)
                OK(tv_scoreboard_write(board, tag, "const", 0, entry, 6, NULL));
            OK(tv_scoreboard_retire(board, tag, ends[i] + (i == late ? 3 : 2)));
        }
        if (late == COUNT)
            expect_none();
        else
            expect_one(late ? "wrong-cycle/MEMCPY_LOAD" : "wrong-cycle/MEMSET");
        assert_true(late == COUNT || found[0].number == late);
    }
    open_board(NULL, 2, 0);
    OK(tv_scoreboard_issue(board, 0, MEMSET));
    tv_scoreboard_free(board); /* the machine is as before */
    board = NULL;
    tv_snapshot *snapshot;
    OK(tv_machine_snapshot(machine, NULL, UINT64_MAX, &snapshot));
    tv_snapshot_free(snapshot);
}

/* Whether the rules accept `bits` in place of 1.0 in element 0. */
static bool accepts(const char *rules, unsigned bits)
{
    tv_scoreboard_counts counts;
    open_board(rules, TV_CYCLE_UNKNOWN, 0);
    ones[0] = (uint8_t)bits;
    ones[1] = (uint8_t)(bits >> 8);
    play(0x10, 16, NULL);
    OK(tv_scoreboard_finish(board, &counts));
    assert_int_equal(counts.mismatches, found_count);
    return found_count == 0;
}

static void rules_accept_differences(void **state)
{
    (void)state;
    assert_false(accepts("[rule CVO_SIN l2]\nsteps = 1\n", 0x3F81));
    assert_false(accepts("[rule CVO_* host]\nsteps = 1\n", 0x3F81));
    assert_true(accepts("; comment\n[rule CVO_* l?]\n steps = 1\n", 0x3F81));
    assert_true(accepts("[rule * *]\nsteps = 1\n", 0x3F7F));
    assert_false(accepts("[rule * *]\nsteps = 1\n", 0x3F82));
    assert_false(accepts("[rule * *]\nsteps = 100\n[rule CVO_EXP l2]\nsteps=0\n", 0x3F81)); /* the later one */
    assert_true(accepts("[rule * *]\nrelative = 0.01\n", 0x3F81));                          /* 1.0078125 */
    assert_false(accepts("[rule * *]\nrelative = 0.007\n", 0x3F81));
    assert_true(accepts("[rule * *]\nabsolute = 0.0078125\n", 0x3F81));
    assert_false(accepts("[rule * *]\nabsolute = 0.0078124\n", 0x3F81));
    assert_true(accepts("[rule * *]\nmask = 0xFFFE\n", 0x3F81));
    assert_false(accepts("[rule * *]\nmask = 0xFFFE\n", 0x3F82));
    assert_true(accepts("[rule * *]\nignore = yes\n", 0x1234));
    assert_true(accepts("[rule * l2]\ntype = u8\nsteps = 1\n", 0x3F81)); /* bytes */
    assert_false(accepts("[rule * l2]\nnan = equal\nsteps = 65535\n", 0x7FC0));
}

static void zeros_and_nans_have_rules(void **state)
{
    (void)state;
    /* cvo.reduce_sum of nothing but zeros gives +0 */
    static const struct {
        const char *rules;
        unsigned expected, actual;
        bool accepted;
    } cases[] = {
        {"[rule * *]\nzero = exact\n", 0x0000, 0x8000, false},
        {"[rule * *]\nzero = equal\n", 0x0000, 0x8000, true},
        {"[rule * *]\nflush = yes\n", 0x0000, 0x0001, true},
        {"[rule * *]\nflush = yes\n", 0x0000, 0x8001, false},
        {"[rule * *]\nflush = yes\nzero = equal\n", 0x0000, 0x8001, true},
        {"[rule * *]\nflush = yes\n", 0x0000, 0x0080, false},
        {"[rule * *]\nnan = equal\n", 0x7FC0, 0xFFFF, true},
        {"[rule * *]\nnan = equal\n", 0x7FC0, 0x7F80, false},
        {"[rule * *]\nnan = exact\n", 0x7FC0, 0x7FC1, false},
        {"[rule * *]\nsteps = 1\n", 0x0001, 0x8000, true}, /* both zeros are one step from the smallest number */
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t expected[2] = {(uint8_t)cases[i].expected, (uint8_t)(cases[i].expected >> 8)};
        uint8_t actual[2] = {(uint8_t)cases[i].actual, (uint8_t)(cases[i].actual >> 8)};
        open_board(cases[i].rules, TV_CYCLE_UNKNOWN, 0);
        OK(tv_machine_write(machine, "l2", 5, expected, 2, NULL));
        OK(tv_scoreboard_state(board, "l2", 5, actual, 2));
        if ((found_count == 0) != cases[i].accepted)
            fail_msg("case %u: %u mismatches", i, found_count);
    }
}

static void known_mismatches_are_waived_with_a_reason(void **state)
{
    (void)state;
    tv_scoreboard_counts counts;
    open_board("[waive wrong-data/CVO_*/l2]\nreason = the table is coarse\n", TV_CYCLE_UNKNOWN, 0);
    ones[0] = 0x81;
    play(0x10, 16, NULL);
    OK(tv_scoreboard_finish(board, &counts));
    assert_int_equal(counts.mismatches, 0);
    assert_int_equal(counts.waived, 1);
    assert_int_equal(found_count, 1);
    assert_string_equal(found[0].waived, "the table is coarse");
}

/* Plays EXP, whose first arguments are reported as `first` and the next ones as 0. */
static void play_values(const char *rules, unsigned count, double first)
{
    open_board(rules, TV_CYCLE_UNKNOWN, 0);
    OK(tv_scoreboard_issue(board, 1, EXP));
    write_ones(1);
    for (unsigned i = 0; i < count; i++)
        OK(tv_scoreboard_value(board, 1, &(tv_inner_value){"argument", i, 0, 0, i ? 0 : first}));
    OK(tv_scoreboard_retire(board, 1, TV_CYCLE_UNKNOWN));
}

static void inner_values_are_compared(void **state)
{
    (void)state;
    static const char required[] = "[rule CVO_* argument]\nrequired = yes\n";
    play_values(NULL, 3, 0);
    expect_none();
    play_values(NULL, 8, 0.5);
    expect_one("wrong-value/CVO_EXP/argument");
    play_values("[rule * argument]\nabsolute = 0.5\n", 8, 0.5);
    expect_none();
    play_values(required, 8, 0);
    expect_none();
    play_values(required, 6, 0);
    expect_one("missing-value/CVO_EXP/argument");
    assert_int_equal(found[0].element, 6);
    assert_int_equal(found[0].count, 2);
}

static void rules_with_errors_are_rejected(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "[rule *]\nsteps = 1\n",
        "[rule * * *]\nsteps = 1\n",
        "[rule * *]\nstep = 1\n",
        "[rule * *]\nsteps = -1\n",
        "[rule * *]\nsteps = x\n",
        "[rule * *]\ntype = bf17\n",
        "[rule * *]\nrelative = a\n",
        "[rule * *]\nnan = same\n",
        "[rule * *]\nignore = maybe\n",
        "[waive]\nreason = x\n",
        "[waive a]\nreason =\n",
        "[waive a]\nwhy = x\n",
        "[other]\nx = 1\n",
        "steps = 1\n",
        "[rule * *]\nsteps\n",
        "[waive a]\n",
        "[waive a]\n[rule * *]\nsteps = 1\n",
        "[rule * *]\nsteps = 1\n[waive a]\n; reason = later",
        "[waive a]\nreason = x\n[other]\n",
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        tv_rules *rules = NULL;
        if (tv_rules_parse("rules", cases[i], strlen(cases[i]), NULL, &rules) != TV_ERR_INPUT)
            fail_msg("case %u is accepted", i);
    }
}

static void the_planted_bug_is_reported(void **state)
{
    (void)state;
    open_board(NULL, TV_CYCLE_UNKNOWN, 2);
    for (uint64_t i = 0; i < 5; i++) {
        OK(tv_scoreboard_issue(board, i, i == 1 ? ILLEGAL : EXP));
        if (i == 1)
            OK(tv_scoreboard_trap(board, i, "TV-P001"));
        else
            write_ones(i);
        OK(tv_scoreboard_retire(board, i, TV_CYCLE_UNKNOWN));
    }
    tv_scoreboard_counts counts;
    tv_scoreboard_count(board, &counts);
    assert_true(counts.planted && counts.planted_found);
    expect_one("wrong-data/CVO_EXP/l2");
    assert_int_equal(found[0].number, 2);
    open_board("[rule * *]\nignore = yes\n", TV_CYCLE_UNKNOWN, 1);
    play(0x10, 16, NULL);
    tv_scoreboard_count(board, &counts);
    assert_true(counts.planted && !counts.planted_found);
}

typedef struct seeds {
    unsigned count;
    char space[16];
    uint64_t addr;
    uint8_t first[6];
} seeds;

static void keep_seed(void *user, const char *space, uint64_t addr, const void *data, size_t bytes)
{
    seeds *s = user;
    s->count++;
    snprintf(s->space, sizeof s->space, "%s", space);
    s->addr = addr;
    memcpy(s->first, data, bytes < 6 ? bytes : 6);
}

static void the_state_is_compared_and_seeds_a_design(void **state)
{
    (void)state;
    uint8_t shape[12] = {8, 0, 1, 0, 1, 0};
    seeds s = {0};
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_machine_execute(machine, MEMSET, 0, NULL));
    OK(tv_scoreboard_seed(board, &(tv_seed_sink){keep_seed, &s}));
    assert_int_equal(s.count, 1);
    assert_string_equal(s.space, "const");
    assert_int_equal(s.addr, 0);
    assert_memory_equal(s.first, entry, 6);
    OK(tv_scoreboard_state(board, "const", 0, shape, 12));
    assert_int_equal(found_count, 0);
    shape[11] = 1;
    OK(tv_scoreboard_state(board, "const", 0, shape, 12));
    assert_int_equal(found_count, 1);
    assert_string_equal(found[0].name, "wrong-state/const");
    assert_int_equal(found[0].addr, 1);
    assert_int_equal(tv_scoreboard_state(board, "const", 0, shape, 1 << 20), TV_ERR_INPUT);
    assert_int_equal(tv_scoreboard_state(board, "l9", 0, shape, 1), TV_ERR_INPUT);
}

#define HEAD "{\"commit_log\":1,\"target\":\"pccx\"}\n"
#define MODEL                                                                                                          \
    HEAD "{\"kind\":\"load\",\"order\":0}\n"                                                                           \
         "{\"order\":1,\"word\":\"0x5\",\"insn\":\"A\",\"file\":\"a.s\",\"line\":3,\"end\":10,"                        \
         "\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0102\"}]}\n"                                           \
         "{\"order\":2,\"insn\":\"B\",\"fault\":\"TV-P010\"}\n"                                                        \
         "{\"order\":3,\"insn\":\"C\",\"effects\":[{\"space\":\"l2\",\"addr\":2,\"after\":\"03\"}]}\n"                 \
         "{\"kind\":\"completion\",\"order\":3,\"end\":50}\n"

static tv_scoreboard_counts compare_with(const char *text, const char *design)
{
    tv_commit_log_reader *model, *reader;
    tv_scoreboard_counts counts;
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    tv_scoreboard_options options = {.size = sizeof options, .mismatch = keep_mismatch, .cycle_slack = 5};
    OK(tv_commit_log_read_bytes("model", text, strlen(text), NULL, &model));
    OK(tv_commit_log_read_bytes("design", design, strlen(design), NULL, &reader));
    OK(tv_commit_log_compare(machine, model, reader, &options, NULL, &counts));
    tv_commit_log_close(model);
    tv_commit_log_close(reader);
    return counts;
}

static tv_scoreboard_counts compare_logs(const char *design) { return compare_with(MODEL, design); }

/* Bytes 2 and 3 of host are in both of the first two effects. */
static void several_ranges_of_an_instruction_are_compared(void **state)
{
    (void)state;
    static const char before[] = HEAD "{\"order\":1,\"insn\":\"A\",\"effects\":["
                                      "{\"space\":\"l2\",\"addr\":1,\"after\":\"0102\"},"
                                      "{\"space\":\"host\",\"addr\":2,\"after\":\"22334455\"},"
                                      "{\"space\":\"host\",\"addr\":0,\"after\":\"00112233\"},"
                                      "{\"space\":\"host\",\"addr\":9,\"after\":\"";
    static const char *const last[] = {"99\"}]}\n", "98\"}]}\n"};
    char model[1024], design[1024];
    for (unsigned i = 0; i < 2; i++) {
        snprintf(model, sizeof model, "%s%s", before, last[0]);
        snprintf(design, sizeof design, "%s%s", before, last[i]);
        tv_scoreboard_counts counts = compare_with(model, design);
        assert_int_equal(counts.bytes, 2 + 6 + 1);
        assert_int_equal(counts.mismatches, i);
        if (i) {
            assert_string_equal(found[0].name, "wrong-data/A/host");
            assert_int_equal(found[0].addr, 9);
        }
    }
}

/* The records of a design like MODEL, with orders. */
#define A "\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0102\"}]"
#define B "{\"order\":2,\"fault\":\"TV-P010\"}\n"
#define C(cycles) "{\"order\":3," cycles "\"effects\":[{\"space\":\"l2\",\"addr\":2,\"after\":\"03\"}]}\n"

static void logs_are_compared(void **state)
{
    (void)state;
    static const struct {
        const char *design, *name;
    } cases[] = {
        {MODEL, NULL},
        /* by sequence, words and cycles left out, a write in two parts */
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0100\"},{\"space\":\"l2\",\"addr\":1,\"after\":"
              "\"0102\"}]}\n{\"fault\":\"TV-P010\"}\n{\"effects\":[{\"space\":\"l2\",\"addr\":2,\"after\":\"03\"}]}\n",
         NULL},
        /* by order, another sequence */
        {HEAD "{\"order\":3,\"end\":52,\"effects\":[{\"space\":\"l2\",\"addr\":2,\"after\":\"03\"}]}\n"
              "{\"order\":1,\"end\":15,\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0102\"}]}\n"
              "{\"order\":2,\"fault\":\"TV-P010\"}\n",
         NULL},
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0103\"}]}\n{\"fault\":\"TV-P010\"}\n"
              "{\"effects\":[{\"space\":\"l2\",\"addr\":2,\"after\":\"03\"}]}\n",
         "wrong-data/A/l2"},
        {HEAD "{\"word\":\"0x4\",\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0102\"}]}\n"
              "{\"fault\":\"TV-P010\"}\n{\"effects\":[{\"space\":\"l2\",\"addr\":2,\"after\":\"03\"}]}\n",
         "wrong-word/A"},
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0102\"}]}\n{\"fault\":\"TV-P010\"}\n", "hang/C"},
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0102\"}]}\n{\"fault\":\"TV-P010\"}\n"
              "{\"end\":44,\"effects\":[{\"space\":\"l2\",\"addr\":2,\"after\":\"03\"}]}\n",
         "wrong-cycle/C"},
        {HEAD "{\"effects\":[{\"space\":\"l2\",\"addr\":1,\"after\":\"0102\"}]}\n{\"fault\":\"TV-P010\"}\n"
              "{\"effects\":[{\"space\":\"l2\",\"addr\":2,\"after\":\"03\"}]}\n{\"fault\":\"TV-P010\"}\n",
         "no-issue"},
        /* ends in records of their own: before the next instruction, after it, and at the end */
        {HEAD "{\"order\":1,\"start\":2," A "}\n{\"kind\":\"completion\",\"order\":1,\"end\":16}\n" B C("\"end\":50,"),
         "wrong-cycle/A"},
        {HEAD "{\"order\":1,\"start\":2," A "}\n" B
              "{\"kind\":\"completion\",\"order\":1,\"end\":16}\n" C("\"end\":50,"),
         "wrong-cycle/A"},
        {HEAD "{\"order\":1,\"start\":2," A
              "}\n" B C("\"start\":2,") "{\"kind\":\"completion\",\"order\":3,\"end\":44}\n",
         "wrong-cycle/C"},
        {HEAD "{\"order\":1,\"start\":2," A
              "}\n" B C("\"start\":2,") "{\"kind\":\"completion\",\"order\":1,\"end\":15}\n"
                                        "{\"kind\":\"completion\",\"order\":3,\"end\":45}\n",
         NULL},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        tv_scoreboard_counts counts = compare_logs(cases[i].design);
        if (counts.mismatches != (cases[i].name != NULL) ||
            (cases[i].name && strcmp(found[0].name, cases[i].name) != 0))
            fail_msg("case %u: %u mismatches, the first %s: %s", i, (unsigned)counts.mismatches, found[0].name,
                     found[0].message);
        if (i == 3) {
            assert_int_equal(found[0].line, 3);
            assert_int_equal(found[0].byte, 0);
            assert_int_equal(found[0].actual, 0x0301);
        }
    }
}

static const char *waived_and_other(const char *rules_text, const char *model_text, const char *design_text)
{
    static char names[200];
    tv_commit_log_reader *model, *design;
    tv_scoreboard_counts counts;
    tv_rules *rules;
    open_board(NULL, TV_CYCLE_UNKNOWN, 0);
    OK(tv_rules_parse("rules", rules_text, strlen(rules_text), NULL, &rules));
    tv_scoreboard_options options = {
        .size = sizeof options, .rules = rules, .mismatch = keep_mismatch, .cycle_slack = TV_CYCLE_UNKNOWN};
    OK(tv_commit_log_read_bytes("model", model_text, strlen(model_text), NULL, &model));
    OK(tv_commit_log_read_bytes("design", design_text, strlen(design_text), NULL, &design));
    OK(tv_commit_log_compare(machine, model, design, &options, NULL, &counts));
    tv_commit_log_close(model);
    tv_commit_log_close(design);
    names[0] = '\0';
    for (unsigned i = 0; i < found_count && i < 16; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s%s*%u", i ? " " : "",
                 found[i].waived ? "-" : "", found[i].name, (unsigned)found[i].count);
    tv_rules_free(rules);
    return names;
}

/* A waived mismatch hides no other one of the same instruction. */
static void each_class_of_an_instruction_is_reported(void **state)
{
    (void)state;
#define VALUES(a, b) HEAD "{\"insn\":\"A\",\"values\":[" a ",{\"name\":\"sum\",\"element\":1,\"real\":2}," b "]}\n"
#define EFFECTS(list) HEAD "{\"insn\":\"A\",\"effects\":[" list "]}\n"
    static const char waiver[] = "[waive *-value/A/sum]\nreason = x\n[waive *-write/A/const]\nreason = x\n"
                                 "[rule A *]\nrequired = yes\n";
    assert_string_equal(
        waived_and_other(
            waiver, VALUES("{\"name\":\"sum\",\"real\":1}", "{\"name\":\"argument\",\"integer\":9007199254740993}"),
            VALUES("{\"name\":\"sum\",\"real\":3}", "{\"name\":\"argument\",\"integer\":9007199254740992}")),
        "-wrong-value/A/sum*1 wrong-value/A/argument*1");
    assert_int_equal(found[1].expected, 9007199254740993);
    assert_int_equal(found[1].actual, 9007199254740992);
    assert_non_null(strstr(found[1].message, "9007199254740992 in the design, 9007199254740993 in the model"));
    assert_string_equal(waived_and_other(waiver,
                                         VALUES("{\"name\":\"sum\",\"real\":1}", "{\"name\":\"argument\",\"real\":1}"),
                                         EFFECTS("")),
                        "-missing-value/A/sum*2 missing-value/A/argument*1");
    assert_string_equal(waived_and_other(waiver, EFFECTS(""),
                                         EFFECTS("{\"space\":\"const\",\"addr\":0,\"after\":\"010203\"},"
                                                 "{\"space\":\"l2\",\"addr\":0,\"after\":\"0102\"}")),
                        "-extra-write/A/const*3 extra-write/A/l2*2");
    assert_string_equal(waived_and_other(waiver,
                                         EFFECTS("{\"space\":\"const\",\"addr\":0,\"after\":\"010203\"},"
                                                 "{\"space\":\"l2\",\"addr\":0,\"after\":\"0102\"}"),
                                         EFFECTS("{\"space\":\"l2\",\"addr\":5,\"after\":\"0102\"}")),
                        "misplaced-write/A/l2*2 -missing-write/A/const*3");
}

static void keep_location(void *user, const tv_diag *diag) { snprintf(user, 64, "%s:%u", diag->file, diag->line); }

static void damaged_logs_are_located(void **state)
{
    (void)state;
#define WRITES(effect) HEAD "{\"order\":1," A "}\n{\"order\":2,\"effects\":[{" effect "}]}\n"
    static const char good[] = HEAD "{\"order\":1," A "}\n",
                      *const cases[] = {
                          WRITES("\"space\":\"l2\",\"addr\":1,\"bytes\":99999999999999"),
                          WRITES("\"space\":\"l2\",\"addr\":1023,\"after\":\"0000000000000000000000000000000000\""),
                          WRITES("\"space\":\"l2\",\"addr\":\"0x7fffffffffffffff\",\"after\":\"00\""),
                          WRITES("\"space\":\"l9\",\"addr\":1,\"after\":\"00\""),
                          HEAD "{\"order\":1," A "}\n{\"order\":1," A "}\n{\"order\":0," A "}\n",
                      };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned is_design = 0; is_design < 2; is_design++) {
            char location[64] = "";
            tv_diag_sink sink = {keep_location, location};
            tv_commit_log_reader *logs[2];
            tv_scoreboard_counts counts;
            if (is_design && i != 0 && i != 3)
                continue; /* what a design writes outside of a space is a mismatch */
            open_board(NULL, TV_CYCLE_UNKNOWN, 0);
            for (unsigned k = 0; k < 2; k++) {
                const char *text = k == is_design ? cases[i] : good;
                OK(tv_commit_log_read_bytes(k ? "design" : "model", text, strlen(text), NULL, &logs[k]));
            }
            assert_int_equal(tv_commit_log_compare(machine, logs[0], logs[1], NULL, &sink, &counts), TV_ERR_INPUT);
            assert_string_equal(location, is_design ? "design:3" : i == 4 ? "model:4" : "model:3");
            tv_commit_log_close(logs[0]);
            tv_commit_log_close(logs[1]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_design_that_does_the_same_has_no_mismatch),
        cmocka_unit_test(events_may_come_before_the_issue),
        cmocka_unit_test(writes_may_be_split_and_repeated),
        cmocka_unit_test(a_data_mismatch_names_element_and_lane),
        cmocka_unit_test(each_kind_of_mismatch_has_its_class),
        cmocka_unit_test(cycles_are_compared_within_a_slack),
        cmocka_unit_test(cycles_known_after_retirement_are_compared),
        cmocka_unit_test(rules_accept_differences),
        cmocka_unit_test(zeros_and_nans_have_rules),
        cmocka_unit_test(known_mismatches_are_waived_with_a_reason),
        cmocka_unit_test(inner_values_are_compared),
        cmocka_unit_test(rules_with_errors_are_rejected),
        cmocka_unit_test(the_planted_bug_is_reported),
        cmocka_unit_test(the_state_is_compared_and_seeds_a_design),
        cmocka_unit_test(several_ranges_of_an_instruction_are_compared),
        cmocka_unit_test(logs_are_compared),
        cmocka_unit_test(damaged_logs_are_located),
        cmocka_unit_test(each_class_of_an_instruction_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, close_boards);
}
