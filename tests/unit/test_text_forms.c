/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of text that users type: elements, addresses, ranges, requirements; and the texts of statuses. The expected
 * values follow from the contracts in include/trivet. */
#include "unit.h"

#include <unistd.h>

#include "base/diag.h"
#include "program/program.h"
#include "program/requirements.h"
#include "trivet/trivet.h"

static void elements_are_written_and_read_as_text(void **state)
{
    (void)state;
    static const struct {
        const char *type, *text; /* stored */
        const char *shown;       /* NULL: rejected */
    } cases[] = {
        {"s8", "+5", "5"},
        {"s8", "-128", "-128"},
        {"s8", "-129", NULL},
        {"s8", "127", "127"},
        {"s8", "128", NULL},
        {"s8", "0xff", "-1"},
        {"s8", "0XFF", "-1"},
        {"s8", "0x1ff", NULL},
        {"s8", "-0x80", "-128"},
        {"s8", "-0x81", NULL},
        {"s8", "", NULL},
        {"s8", "-", NULL},
        {"s8", "1x", NULL},
        {"u8", "255", "255"},
        {"u8", "256", NULL},
        {"u8", "-1", NULL},
        {"u8", "-0", "0"},
        {"hex16", "0xabc", "0x0abc"},
        {"s32", "99999999999999999999", NULL},
        {"bf16", "1.5", "1.5"},
        {"bf16", "inf", "inf"},
        {"bf16", "-inf", "-inf"},
        {"bf16", "nan", "nan"},
        {"bf16", "1.5x", NULL},
        {"bf16", "", NULL},
        {"f32", "280", "280"},
        {"f32", "0.1", "0.1"},
        {"f32", "1e30", "1e+30"},
        {"f32", "16777217", "16777216"},
        {"f16", "65504", "65504"},
        {"i4", "-8", "-8"},
        {"i4", "8", NULL},
        {"i2", "-2", "-2"},
        {"i2", "2", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_dtype type;
        uint8_t bytes[8] = {0};
        char text[TV_DTYPE_TEXT];
        if (tv_dtype_find(cases[i].type, &type) != TV_OK)
            fail_msg("no type %s", cases[i].type);
        tv_status status = tv_dtype_store(type, bytes, 0, cases[i].text);
        if ((status == TV_OK) != (cases[i].shown != NULL))
            fail_msg("%s '%s': status %d", cases[i].type, cases[i].text, (int)status);
        if (!cases[i].shown)
            continue;
        tv_dtype_text(type, bytes, 0, text);
        assert_string_equal(text, cases[i].shown);
    }
}

static void elements_have_values(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0xFE, 0x80, 0x3F, 0x00};
    tv_dtype s8, u8, hex16, i4, i2;
    assert_int_equal(tv_dtype_find("s8", &s8), TV_OK);
    assert_int_equal(tv_dtype_find("u8", &u8), TV_OK);
    assert_int_equal(tv_dtype_find("hex16", &hex16), TV_OK);
    assert_int_equal(tv_dtype_find("i4", &i4), TV_OK);
    assert_int_equal(tv_dtype_find("i2", &i2), TV_OK);
    assert_true(tv_dtype_value(s8, bytes, 0) == -2);
    assert_true(tv_dtype_value(u8, bytes, 0) == 254);
    assert_true(tv_dtype_value(hex16, bytes, 0) == 0x80FE);
    assert_true(tv_dtype_value(i4, bytes, 0) == -2);
    assert_true(tv_dtype_value(i4, bytes, 1) == -1);
    assert_true(tv_dtype_value(i2, bytes, 0) == -2);
    assert_true(tv_dtype_value(i2, bytes, 1) == -1);
    assert_int_equal(tv_dtype_bytes(i4, 3), 2); /* a last byte that is half used counts */
    assert_int_equal(tv_dtype_bytes(i2, 5), 2);
    assert_int_equal(tv_dtype_bytes(hex16, 3), 6);
}

/* ---- Addresses and ranges ---- */

static tv_machine *machine_of(const char *target)
{
    tv_config *config;
    tv_machine *machine;
    assert_int_equal(tv_config_new(target, NULL, &config), TV_OK);
    assert_int_equal(tv_machine_new(config, TV_MODE_FUNCTIONAL, NULL, &machine), TV_OK);
    tv_config_free(config);
    return machine;
}

static tv_program *program_with_symbols(void)
{
    static const char source[] = "        .target pccx\n        .equ TEN, 10\nstart:  cvo.exp l2[8], l2[0], len=8\n";
    tv_program *program;
    assert_int_equal(tv_program_assemble("a.s", source, strlen(source), NULL, NULL, &program), TV_OK);
    return program;
}

static void addresses_are_numbers_symbols_or_offsets_in_banks(void **state)
{
    (void)state;
    tv_machine *pccx = machine_of("pccx"), *cmdq = machine_of("cmdq");
    tv_program *program = program_with_symbols();
    const tv_program *programs[] = {program};
    tv_space spm = {0}, space;
    for (unsigned i = 0; tv_machine_space_at(cmdq, i, &spm) && strcmp(spm.name, "spm") != 0;)
        i++;
    const uint64_t bank = spm.bank_size;
    assert_true(bank > 16);
    char last[64], past[64], no_bank[64];
    snprintf(last, sizeof last, "spm:1:%llu", (unsigned long long)bank - 1);
    snprintf(past, sizeof past, "spm:0:%llu", (unsigned long long)bank + 1);
    snprintf(no_bank, sizeof no_bank, "spm:%llu:0", (unsigned long long)(spm.size / bank));
    const struct {
        tv_machine *machine;
        const char *text;
        bool ok;
        uint64_t addr;
    } cases[] = {
        {pccx, "l2:0x10", true, 16},
        {pccx, "l2:TEN", true, 10},
        {pccx, "l2:TEN+6", true, 16},
        {pccx, "l2:TEN+", false, 0},
        {pccx, "l2:TEN+x", false, 0},
        {pccx, "l2:NONE+1", false, 0},
        {pccx, "l2:NONE", false, 0},
        {pccx, "l2:", false, 0},
        {pccx, "l2", false, 0},
        {pccx, ":1", false, 0},
        {pccx, "none:1", false, 0},
        {pccx, "l2:1z", false, 0},
        {pccx, "l2:99999999999999999999", false, 0},
        {cmdq, "spm:1:16", true, bank + 16},
        {cmdq, "spm:16", true, 16},
        {cmdq, last, true, 2 * bank - 1},
        {cmdq, past, false, 0},
        {cmdq, no_bank, false, 0},
        {cmdq, "spm:x:0", false, 0},
        {cmdq, "spm:1:", false, 0},
        {cmdq, "spm:1:y", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t addr = 0;
        const char *rest;
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        tv_status status =
            tv_machine_parse_address(cases[i].machine, programs, 1, cases[i].text, &sink, &space, &addr, &rest);
        if (status != (cases[i].ok ? TV_OK : TV_ERR_INPUT) || log.count != !cases[i].ok)
            fail_msg("%s: status %d", cases[i].text, (int)status);
        if (cases[i].ok && addr != cases[i].addr)
            fail_msg("%s: address %llu", cases[i].text, (unsigned long long)addr);
    }
    tv_program_free(program);
    tv_machine_free(cmdq);
    tv_machine_free(pccx);
}

static void ranges_have_a_length_and_fit(void **state)
{
    (void)state;
    tv_machine *machine = machine_of("pccx");
    tv_range range;
    char word[200] = "l2:", long_text[300];
    memset(word + 3, '1', 150);
    word[153] = '\0';
    snprintf(long_text, sizeof long_text, "%s:1", word);
    const char *const rejected[] = {
        "l2",        "l2:0",          "l2:0:",          "l2:0:x", "l2:0:16:none", "l2:0:4294967297",
        "none:0:16", "l2:99999999:1", "l2:0:999999999", long_text};
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++) {
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        if (tv_machine_parse_range(machine, NULL, 0, rejected[i], &sink, &range) != TV_ERR_INPUT || log.count != 1)
            fail_msg("%s is accepted", rejected[i]);
    }
    assert_int_equal(tv_machine_parse_range(machine, NULL, 0, "l2:2:16:bf16", NULL, &range), TV_OK);
    assert_int_equal(range.addr, 2);
    assert_int_equal(range.count, 16);
    assert_int_equal(range.type, TV_BF16);
    assert_int_equal(tv_machine_parse_range(machine, NULL, 0, "l2:0:8", NULL, &range), TV_OK);
    assert_string_equal(tv_dtype_name(range.type), "hex16");
    tv_machine_free(machine);
}

/* ---- Requirements ---- */

static void requirements_know_six_comparisons(void **state)
{
    (void)state;
    static const struct {
        const char *comparison;
        bool below, equal, above; /* whether met by a parameter below, at and above the required value */
    } cases[] = {
        {"==", false, true, false}, {"!=", true, false, true}, {"<", true, false, false},
        {"<=", true, true, false},  {">", false, false, true}, {">=", false, true, true},
    };
    static const char *const values[] = {"4", "8", "16"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char source[200];
        tv_program *program;
        snprintf(source, sizeof source,
                 "        .target opennpu\n        .require vector.k %s 8\n        mma vx0, vx4\n",
                 cases[i].comparison);
        assert_int_equal(tv_program_assemble("a.s", source, strlen(source), NULL, NULL, &program), TV_OK);
        const bool met[] = {cases[i].below, cases[i].equal, cases[i].above};
        for (size_t v = 0; v < 3; v++) {
            tv_config *config;
            unit_log log;
            tv_diag_sink sink = unit_sink(&log);
            assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
            assert_int_equal(tv_config_set(config, "vector.k", values[v], NULL), TV_OK);
            tv_status status = tv_program_check_requirements(program, config, &sink);
            if ((status == TV_OK) != met[v])
                fail_msg("vector.k = %s, required %s 8: status %d", values[v], cases[i].comparison, (int)status);
            assert_int_equal(log.count, !met[v]);
            tv_config_free(config);
        }
        tv_program_free(program);
    }
}

static void malformed_requirements_are_rejected(void **state)
{
    (void)state;
    char long_text[400] = ".require vector.k == ";
    memset(long_text + strlen(long_text), '1', 300);
    static const char *const rejected[] = {"",
                                           ".require",
                                           ".require vector.k",
                                           ".require vector.k ~~ 8",
                                           ".require vector.k == 8 9",
                                           ".profile",
                                           ".profile a b",
                                           "nothing"};
    for (size_t i = 0; i < sizeof rejected / sizeof rejected[0]; i++)
        if (tv_requirement_valid(rejected[i]))
            fail_msg("'%s' is accepted", rejected[i]);
    assert_false(tv_requirement_valid(long_text));
    assert_true(tv_requirement_valid(".require vector.k == 8"));
    assert_true(tv_requirement_valid(".profile test"));
}

/* ---- Instruction sets ---- */

static void queries_past_the_last_row_find_nothing(void **state)
{
    (void)state;
    static const char *const targets[] = {"pccx", "opennpu", "cmdq"};
    for (unsigned t = 0; t < 3; t++) {
        tv_codec *codec;
        tv_insn_info insn;
        tv_field_info field;
        tv_parameter_info parameter;
        tv_uop_info uop;
        char text[TV_CODEC_TEXT];
        unsigned count = 0;
        assert_int_equal(tv_codec_new(targets[t], NULL, &codec), TV_OK);
        while (tv_codec_insn_at(codec, count, &insn))
            count++;
        assert_true(count > 10);
        assert_int_equal(tv_codec_field_at(codec, count, 0, 0, &field), 0);
        assert_int_equal(tv_codec_field_at(codec, 0, 1000, 0, &field), 0);
        assert_int_equal(tv_codec_parameter_at(codec, count, 0, &parameter), 0);
        assert_int_equal(tv_codec_parameter_at(codec, 0, 1000, &parameter), 0);
        assert_int_equal(tv_codec_uop_at(codec, count, 0, 0, &uop), 0);
        assert_int_equal(tv_codec_uop_at(codec, 0, 1000, 0, &uop), 0);
        if (tv_codec_word_bits(codec) == 0) { /* programs are queues: no word means anything */
            tv_decode_fault fault;
            assert_int_equal(tv_codec_decode(codec, 0, &fault), -1);
            assert_int_equal(tv_codec_decode(codec, 0, NULL), -1);
            assert_int_equal(tv_codec_disassemble(codec, 0, text), 0);
            assert_int_equal(tv_codec_field_at(codec, 0, 0, 0, &field), 0);
        }
        tv_codec_free(codec);
    }
}

/* ---- Parameters ---- */

static void rates_compare_as_fractions(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool valid, more_than_a_half;
    } cases[] = {
        {"1/2", true, false},           {"0.5", true, false},
        {"0.500001", true, true},       {"3/4", true, true},
        {"0.25", true, false},          {"0.", false, false},
        {".5", false, false},           {"1/0", false, false},
        {"1/", false, false},           {"0x1.8", false, false},
        {"1.5x", false, false},         {"1.x", false, false},
        {"1/2/3", false, false},        {"0.5000001", false, false},
        {"8589934592/1", false, false}, {"1/8589934592", false, false},
        {"4294967296.5", false, false}, {"0", false, false},
        {"2000", false, false},         {"0x8/0xF", true, true},
        {"0xg", false, false},
    };
    tv_program program = {.requirement_count = 1};
    const char *requirement = ".require te.float16 > 0.5";
    program.requirements = (void *)&requirement;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tv_config *config;
        assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
        tv_status status = tv_config_set(config, "te.float16", cases[i].value, NULL);
        if ((status == TV_OK) != cases[i].valid)
            fail_msg("te.float16 = %s: status %d", cases[i].value, (int)status);
        if (cases[i].valid &&
            (tv_program_check_requirements(&program, config, NULL) == TV_OK) != cases[i].more_than_a_half)
            fail_msg("te.float16 = %s", cases[i].value);
        tv_config_free(config);
    }
}

static void a_profile_may_begin_with_a_byte_order_mark(void **state)
{
    (void)state;
    char path[] = "/tmp/trivet-profile-XXXXXX", target[TV_CONFIG_TARGET];
    static const char text[] = "\xEF\xBB\xBF[profile]\ntarget = cmdq\ndescription = x\n \t\f\n[npu]\nte = 3\n";
    int fd = mkstemp(path);
    tv_config *config;
    tv_config_entry entry;
    assert_true(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1 && close(fd) == 0);
    assert_int_equal(tv_config_profile_target(path, NULL, target), TV_OK);
    assert_string_equal(target, "cmdq");
    assert_int_equal(tv_config_new("cmdq", NULL, &config), TV_OK);
    assert_int_equal(tv_config_load(config, path, NULL), TV_OK);
    bool found = false;
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        found |= strcmp(entry.key, "npu.te") == 0 && strcmp(entry.value, "3") == 0;
    assert_true(found);
    remove(path);
    assert_int_equal(tv_config_profile_target(path, NULL, target), TV_ERR_INPUT);
    tv_config_free(config);
}

/* ---- Messages ---- */

/* The message consists of 'x' and of euro signs, and ends with " ...". */
static void check_utf8_ending(void *user, const tv_diag *diag)
{
    const char *at = diag->message + strspn(diag->message, "x");
    while (strncmp(at, "\u20AC", 3) == 0)
        at += 3;
    assert_string_equal(at, " ...");
    ++*(unsigned *)user;
}

static void a_long_message_ends_between_two_characters(void **state)
{
    (void)state;
    static char text[6000];
    for (unsigned shift = 0; shift < 3; shift++) { /* characters of three bytes at each offset */
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        memset(text, 0, sizeof text);
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\u20AC", 3);
        sink.emit = check_utf8_ending;
        unsigned calls = 0;
        sink.user = &calls;
        tv_fail(&sink, TV_ERR_INPUT, TV_CODE(FILE_OPEN), NULL, "%s", text);
        assert_int_equal(calls, 1);
    }
}

static void every_status_has_a_text_of_its_own(void **state)
{
    (void)state;
    static const tv_status all[] = {TV_OK, TV_FAULT, TV_ERR_INPUT, TV_ERR_IO, TV_ERR_MEMORY};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(tv_status_text(all[i]), tv_status_text(all[k]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_written_and_read_as_text),
        cmocka_unit_test(elements_have_values),
        cmocka_unit_test(addresses_are_numbers_symbols_or_offsets_in_banks),
        cmocka_unit_test(ranges_have_a_length_and_fit),
        cmocka_unit_test(requirements_know_six_comparisons),
        cmocka_unit_test(malformed_requirements_are_rejected),
        cmocka_unit_test(queries_past_the_last_row_find_nothing),
        cmocka_unit_test(rates_compare_as_fractions),
        cmocka_unit_test(a_profile_may_begin_with_a_byte_order_mark),
        cmocka_unit_test(a_long_message_ends_between_two_characters),
        cmocka_unit_test(every_status_has_a_text_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
