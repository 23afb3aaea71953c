/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions and breakpoint conditions of the debugger. Its operators are those of C on 64-bit integers and binary64,
 * so the expected values are what the compiler computes for the same text. */
#include "unit.h"

#include "trivet/debug.h"
#include "trivet/trivet.h"

static const char source[] = "        .target pccx\n"
                             "        memset  fmap_shape[0], 8, 1, 1\n"
                             "        memcpy  l2[0], host[x], shape=0\n"
                             "        cvo.exp l2[1], l2[0], len=8\n"
                             "        cvo.exp l2[2], l2[1], len=8\n"
                             "        .data\n"
                             "x:      .bf16 0, 1, 2, 3, -1, -2, -3, 0.5\n";

typedef struct session {
    tv_program *program;
    tv_config *config;
    tv_debug *debug;
} session;

static void begin(session *s)
{
    assert_int_equal(tv_program_assemble("a.s", source, strlen(source), NULL, NULL, &s->program), TV_OK);
    assert_int_equal(tv_config_new("pccx", NULL, &s->config), TV_OK);
    const tv_program *programs[] = {s->program};
    assert_int_equal(tv_debug_new(s->config, programs, 1, NULL, NULL, &s->debug), TV_OK);
}

static void end(session *s)
{
    tv_debug_free(s->debug);
    tv_config_free(s->config);
    tv_program_free(s->program);
}

/* Executes `verb text` and copies its answer. */
static tv_status command(session *s, const char *verb, const char *text, char answer[1024])
{
    char line[2048];
    tv_debug_answer a;
    snprintf(line, sizeof line, "%s %s", verb, text);
    tv_status status = tv_debug_command(s->debug, line, NULL, &a);
    snprintf(answer, 1024, "%s", a.text);
    tv_debug_answer_free(&a);
    return status;
}

/* The value that `print` shows after the first '='. */
static double printed(session *s, const char *text)
{
    char answer[1024], start[512];
    if (command(s, "print", text, answer) != TV_OK)
        fail_msg("print %s: %s", text, answer);
    int n = snprintf(start, sizeof start, "%s = ", text);
    if (strncmp(answer, start, (size_t)n) != 0)
        fail_msg("print %s: %s", text, answer);
    return strtod(answer + n, NULL);
}

#define BY_COMPILER(expression)                                                                                        \
    {                                                                                                                  \
#expression, (double)(expression)                                                                              \
    }

static void operators_are_those_of_c(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct { const char *text; double value; } cases[] = {
        BY_COMPILER(1 + 2 * 3), BY_COMPILER((1 + 2) * 3), BY_COMPILER(7 - 9), BY_COMPILER(-7 / 2), BY_COMPILER(-7 % 2),
        BY_COMPILER(6 / -1), BY_COMPILER(6 % -1), BY_COMPILER(12 & 10), BY_COMPILER(12 | 3), BY_COMPILER(12 ^ 10),
        BY_COMPILER(3 << 5), BY_COMPILER(96 >> 5), BY_COMPILER(1 == 1), BY_COMPILER(1 == 2), BY_COMPILER(1 != 2),
        BY_COMPILER(1 < 2), BY_COMPILER(2 < 1), BY_COMPILER(2 <= 2), BY_COMPILER(3 <= 2), BY_COMPILER(2 > 1),
        BY_COMPILER(1 > 2), BY_COMPILER(2 >= 2), BY_COMPILER(1 >= 2), BY_COMPILER(0 || 0), BY_COMPILER(0 || 2),
        BY_COMPILER(2 || 0), BY_COMPILER(2 && 3), BY_COMPILER(2 && 0), BY_COMPILER(0 && 2), BY_COMPILER(!5),
        BY_COMPILER(!0), BY_COMPILER(~5), BY_COMPILER(- -5), BY_COMPILER(+5 - 1), BY_COMPILER(-5 + 1),
        BY_COMPILER(1.5 + 2), BY_COMPILER(1.5 - 2), BY_COMPILER(1.5 * 4), BY_COMPILER(1.5 / 0.5), BY_COMPILER(-1.5 + 0),
        BY_COMPILER(1.5 == 1.5), BY_COMPILER(1.5 != 1.5), BY_COMPILER(1.5 < 2), BY_COMPILER(1.5 <= 1),
        BY_COMPILER(1.5 > 1), BY_COMPILER(1.5 >= 2), {"!1.5", 0}, {"!0.0", 1}, {"1.5 && 0.0", 0},
        {"0.0 || 1.5", 1}, BY_COMPILER(1e3 + 1), BY_COMPILER(1e+2 - 1), BY_COMPILER(25e-1 * 2), BY_COMPILER(.5 + .25),
        BY_COMPILER(0x10 + 0x0f), {"1 | 2 ^ 3 & 6", 1}, {"1 + 2 << 3", 24}, {"1 << 2 < 5 == 1", 1},
    };
    /* clang-format on */
    session s;
    begin(&s);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = printed(&s, cases[i].text);
        if (value != cases[i].value)
            fail_msg("%s = %g, in C %g", cases[i].text, value, cases[i].value);
    }
    assert_true(printed(&s, "1 << 64") == 0); /* undefined in C: all bits leave */
    assert_true(printed(&s, "1 >> 64") == 0);
    end(&s);
}

static void operands_are_elements_symbols_and_state(void **state)
{
    (void)state;
    char answer[1024];
    session s;
    begin(&s);
    assert_int_equal(command(&s, "step", "2", answer), TV_OK);
    assert_true(printed(&s, "l2:0:bf16[1] + 0") == 1);
    assert_true(printed(&s, "l2:0:bf16[7] * 4") == 2);
    assert_true(printed(&s, "l2:0:u8[3] * 1") == 0x3F); /* the high byte of BF16 1 */
    assert_true(printed(&s, "l2:0:hex16[1] + 0") == 0x3F80);
    assert_true(printed(&s, "(l2:0:bf16[3] - l2:0:bf16[2]) * 2") == 2);
    end(&s);
}

static void malformed_expressions_are_rejected(void **state)
{
    (void)state;
    static const char *const rejected[] = {
        "1 +",         "(1",
        "1)",          "1 1",
        "* 2",         "1 % 1.5",
        "1.5 << 1",    "1.5 >> 1",
        "1.5 | 1",     "1.5 ^ 1",
        "1.5 & 1",     "~1.5",
        "1 / 0",       "1 % 0",
        "1x",          "0x",
        "1e",          "1.2.3",
        "none",        "none + 1",
        "l2 + 1",      "l2:0[1",
        "l2:0[1.5]",   "l2:0[-1]",
        "l2:0[y]",     "l2:z + 1",
        "l2:0:q8 + 1", "l2:0[99999999]",
        "spm:0 + 1",   "l299999999 + 1",
    };
    char answer[1024], deep[1200];
    session s;
    begin(&s);
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++)
        if (command(&s, "print", rejected[i], answer) != TV_ERR_INPUT)
            fail_msg("print %s: %s", rejected[i], answer);
    memset(deep, '(', 1000);
    memcpy(deep + 1000, "1", 2);
    assert_int_equal(command(&s, "print", deep, answer), TV_ERR_INPUT);
    memset(deep, '-', 1000);
    assert_int_equal(command(&s, "print", deep, answer), TV_ERR_INPUT);
    memset(deep, 'a', 1000);
    assert_int_equal(command(&s, "print", deep, answer), TV_ERR_INPUT);
    end(&s);
}

/* A breakpoint at instruction 3 stops the run when its condition on an element of L2, which is 1, is true. */
static void conditions_compare_in_six_forms(void **state)
{
    (void)state;
    static const struct {
        const char *condition;
        bool stops;
    } cases[] = {
        {"== 1", true}, {"== 2", false}, {"!= 2", true}, {"!= 1", false}, {"< 2", true},  {"< 1", false},
        {"<= 1", true}, {"<= 0", false}, {"> 0", true},  {"> 1", false},  {">= 1", true}, {">= 2", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64], answer[1024];
        session s;
        tv_debug_stop stop;
        begin(&s);
        static const uint8_t one[16] = {0x80, 0x3F}; /* BF16 1, then 0 */
        assert_int_equal(tv_debug_write(s.debug, "l2", 16, one, sizeof one, NULL), TV_OK);
        snprintf(text, sizeof text, "3 if l2:16:bf16 %s", cases[i].condition);
        if (command(&s, "break", text, answer) != TV_OK)
            fail_msg("break %s: %s", text, answer);
        assert_int_equal(tv_debug_continue(s.debug, NULL, &stop), TV_OK);
        if ((stop.reason == TV_DEBUG_BREAKPOINT) != cases[i].stops)
            fail_msg("break %s: reason %s", text, tv_debug_reason_name(stop.reason));
        end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_are_those_of_c),
        cmocka_unit_test(operands_are_elements_symbols_and_state),
        cmocka_unit_test(malformed_expressions_are_rejected),
        cmocka_unit_test(conditions_compare_in_six_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
