/* SPDX-License-Identifier: Apache-2.0 */
/* The fast path of the queue reader gives the result of the slow path: for queues of every opcode and field with
 * numbers, strings and space of many forms, whole and damaged, and for the queues of the tests' folder.
 *
 *   test_cmdq_fast_path FOLDER */
#include "unit.h"

#include <glob.h>

#include "cmdq_paths.h"
#include "trivet/file.h"

static unit_rng rng = {1};
static const char *folder;

static const char *pick(const char *const *from, unsigned count) { return from[unit_below(&rng, count)]; }

#define PICK(...) pick((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- Queues ---- */

/* White space between tokens: mostly none or one. */
static void put_space(tv_buf *out)
{
    if (unit_below(&rng, 4) == 0)
        tv_buf_str(out, PICK("", " ", "  ", "\n", "\r\n\t", "\n        ", "                                        "));
}

static void put_number(tv_buf *out)
{
    switch (unit_below(&rng, 8)) {
    case 0:
        tv_buf_str(out, PICK("-0", "-1", "0.5", "1e-5", "-0.0", "1E+2", "123456789.123456789", "1e400", "-1e-400",
                             "0.1", "2.5e-324"));
        break;
    case 1:
        tv_buf_str(out, PICK("999999999999999999", "1000000000000000000", "9223372036854775807", "9223372036854775808",
                             "18446744073709551616", "4294967295", "4294967296",
                             "123456789012345678901234567890123456789012345678901234567890"));
        break;
    case 2:
        tv_buf_str(out,
                   PICK("01", "-", "1.", ".5", "1e", "+1", "0x10", "1e+", "--1", "00", "-01", "1.5.5", "1 2", "NaN"));
        break;
    default:
        tv_buf_printf(out, "%" PRIu64, unit_sized(&rng, unit_below(&rng, 2) ? 6 : 60));
        break;
    }
}

/* A string's contents: plain, or with what the parser alone reads. */
static void put_text(tv_buf *out)
{
    uint64_t length = unit_below(&rng, 4) ? unit_below(&rng, 20) : unit_below(&rng, 80);
    for (uint64_t i = 0; i < length; i++)
        tv_buf_printf(out, "%c", (int)(unit_below(&rng, 26) + (uint64_t)(unit_below(&rng, 2) ? 'a' : 'A')));
    if (unit_below(&rng, 12) == 0)
        tv_buf_str(out, PICK("\\n", "\\\"", "\\u0041", "é", "😀", "\xC3", "\x7F", "\x1F", "\\", "\\u0000",
                             "\xED\xA0\x80", "{}", "}", "\n"));
}

static void put_value(tv_buf *out, const tv_parameter *p)
{
    if (unit_below(&rng, 60) == 0) {
        tv_buf_str(out, PICK("null", "true", "false", "nul", "truex", "{}", "[]", "\"\"", "1", "1.5", "[1]",
                             "{\"t_start\": 0, \"t_len\": 1}", "[[", ""));
        return;
    }
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
    case TV_PARAMETER_REAL:
        put_number(out);
        return;
    case TV_PARAMETER_BOOLEAN:
        tv_buf_str(out, PICK("true", "false"));
        return;
    case TV_PARAMETER_ENUM:
        tv_buf_printf(out, "\"%s\"", p->enum_names[0]);
        return;
    case TV_PARAMETER_TEXT:
        tv_buf_str(out, "\"");
        put_text(out);
        tv_buf_str(out, "\"");
        return;
    case TV_PARAMETER_OBJECT:
        tv_buf_str(out, PICK("{\"t_start\": 1, \"t_len\": 2}", "{ \"t_len\":2,\"t_start\" :1 , \"d_len\": 3 }", "{}",
                             "{\"t_len\": 1, \"t_len\": 1}"));
        return;
    case TV_PARAMETER_IDS:
        tv_buf_str(out, "[");
        for (uint64_t n = unit_below(&rng, 4), i = 0; i < n; i++) {
            tv_buf_str(out, i ? "," : "");
            put_space(out);
            put_number(out);
            put_space(out);
        }
        tv_buf_str(out, "]");
        return;
    }
}

static void put_field(tv_buf *out, unsigned field)
{
    const tv_parameter *p = &tv_isa_cmdq.parameters[field];
    tv_buf_str(out, ",");
    put_space(out);
    tv_buf_printf(out, "\"%s\"", p->name);
    put_space(out);
    tv_buf_str(out, ":");
    tv_buf_str(out, unit_below(&rng, 4) ? " " : "");
    put_space(out);
    put_value(out, p);
    put_space(out);
}

/* An entry of any opcode, mostly with an error. */
static void put_entry(tv_buf *out)
{
    const tv_insn *insn = &tv_isa_cmdq.insns[unit_below(&rng, CMDQ_OPCODES)];
    tv_buf_printf(out, "{\"opcode\": \"%s\"", unit_below(&rng, 50) ? insn->id : PICK("NOPE", "", "E\\u004ED", "nop"));
    for (unsigned f = CMDQ_F_id + 1; f < CMDQ_COMMON_FIELDS; f++)
        if (unit_below(&rng, 6) == 0)
            put_field(out, f);
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if (insn->parameters[u].presence == TV_REQUIRED ? unit_below(&rng, 40) : unit_below(&rng, 2))
            put_field(out, insn->parameters[u].parameter);
    if (unit_below(&rng, 20) == 0)
        put_field(out, (unsigned)unit_below(&rng, CMDQ_FIELDS));
    if (unit_below(&rng, 20) == 0)
        tv_buf_str(out, PICK(", \"debug\": {\"a\": [1, {\"}\": 2}]}", ", \"reserved_x\": \"}\"", ", \"x\": 1", ", ",
                             ", \"k\": 1, \"k\": 2"));
    tv_buf_str(out, "}");
}

/* One that is read, so that what was read is compared, too. */
static void put_legal_entry(tv_buf *out, unsigned index)
{
    put_space(out);
    tv_buf_printf(out,
                  "{\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": %" PRIu64 ", \"ifm_offset\": %" PRIu64
                  ", \"wgt_bank\": 1, \"wgt_offset\": 0,",
                  unit_below(&rng, 8), unit_sized(&rng, 32));
    put_space(out);
    tv_buf_printf(out,
                  "\"ofm_bank\": 2, \"ofm_offset\": 0, \"m\": 2, \"n\": %" PRIu64
                  ", \"k\": 2, \"qbits_weight\": 8, \"qbits_activation\": 8",
                  unit_below(&rng, 99) + 1);
    if (unit_below(&rng, 2))
        tv_buf_printf(out, ", \"scale_ifm\": %s1.%" PRIu64 "%s", PICK("", "-", "1"), unit_sized(&rng, 60),
                      PICK("", "e5", "E-12", "e+0"));
    if (unit_below(&rng, 2))
        tv_buf_printf(out, ", \"accumulate\": %s, \"layer_id\": %s", PICK("true", "false"),
                      PICK("\"a\"", "\"layer.1\"", "null", "\"\"", "\"é\"", "\"a\\tb\""));
    if (index && unit_below(&rng, 2))
        tv_buf_printf(out, ",\"deps_before\" :[%" PRIu64 "], \"id\": %u", unit_below(&rng, index), index);
    if (unit_below(&rng, 8) == 0)
        tv_buf_str(out, PICK(", \"debug\": {\"x\": {}}", ", \"reserved_0\": [\"}\"]"));
    tv_buf_str(out, "}");
}

static void put_queue(tv_buf *out, bool legal)
{
    bool lines = unit_below(&rng, 3) == 0;
    unsigned count = (unsigned)unit_below(&rng, 12);
    tv_buf_str(out, lines ? "{\"version\": \"1.2\"}\n" : "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [");
    for (unsigned i = 0; i < count; i++) {
        if (legal)
            put_legal_entry(out, i);
        else
            put_entry(out);
        put_space(out);
        tv_buf_str(out, lines ? "\n" : ",");
        put_space(out);
    }
    tv_buf_str(out, lines ? "{\"opcode\": \"END\"}\n" : "{\"opcode\": \"END\"}]}\n");
    for (uint64_t i = unit_below(&rng, 3) * 20; i; i--)
        tv_buf_str(out, " ");
}

/* Bytes changed, left out, put in, or a stretch of them repeated. */
static void damage(tv_buf *text)
{
    static const char likely[] = "{}}}[],:\"\"\" \\0129.-e\n\ttfn\x80\xC3";
    for (uint64_t n = unit_below(&rng, 3) + 1; n && text->len > 40; n--) {
        size_t at = (size_t)unit_below(&rng, text->len), length = (size_t)unit_below(&rng, 24);
        length = length < text->len - at ? length : text->len - at;
        switch (unit_below(&rng, 4)) {
        case 0:
            text->data[at] = (uint8_t)likely[unit_below(&rng, sizeof likely - 1)];
            break;
        case 1:
            memmove(text->data + at, text->data + at + length, text->len - at - length);
            text->len -= length;
            break;
        case 2:
            text->data[at] ^= (uint8_t)(1U << unit_below(&rng, 8));
            break;
        default: {
            uint8_t copy[24];
            memcpy(copy, text->data + at, length);
            if (!tv_buf_extend(text, length))
                fail_msg("no memory");
            memmove(text->data + at + length, text->data + at, text->len - length - at);
            memcpy(text->data + at, copy, length);
        }
        }
    }
}

/* Entries that differ in what a template leaves open, and a little else. */
static const char *const patterns[] = {
    "{\"opcode\": \"DMA_LOAD_TILE\", \"id\": !, \"layer_id\": \"@\", \"tensor_role\": \"weight\", \"qbits\": $, "
    "\"dram_addr\": #, \"spm_bank\": #, \"spm_offset\": #, \"num_elements\": 8#, \"deps_before\": [~]}",
    "{\"opcode\":\"DMA_STORE_TILE\",\"deps_after\":[^],\"deps_before\":[~],\"tensor_role\":\"activation\",\"qbits\":8,"
    "\"dram_addr\":%,\"spm_bank\":%,\"spm_offset\":%,\"num_elements\":%,\"dma_id\":#,\"layer_id\":\"@\"}",
    "{ \"opcode\" : \"TE_GEMM_TILE\" , \"scale_ifm\" : 0.# , \"te_id\": #, \"ifm_bank\": #, \"ifm_offset\": #,\n"
    "  \"wgt_bank\": #, \"wgt_offset\": #, \"ofm_bank\": #, \"ofm_offset\": #, \"m\": %, \"n\": 1#, \"k\": 1%,\n"
    "  \"qbits_weight\": 8, \"qbits_activation\": 8, \"scale_wgt\": 1%, \"accumulate\": false? }",
    "{\"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": \"weight\", \"qbits\": 8, \"dram_addr\": #, \"spm_bank\": 1, "
    "\"spm_offset\": 0, \"num_elements\": 64, \"row_elements\": 1#, \"stride_bytes\": #}",
    "{\"opcode\": \"KV_LOAD_TILE\", \"kv_kind\": \"k\", \"qbits_kv\": 8, \"kv_layout_id\": #, \"head_id\": #, "
    "\"kv_range_desc\": {\"t_start\": #, \"t_len\": 1#, \"d_start\": %, \"d_len\": 1#}, \"spm_bank\": #, "
    "\"spm_offset\": %}",
    "{\"opcode\": \"KV_LOAD_TILE\", \"kv_kind\": \"v\", \"qbits_kv\": 8, \"kv_layout_id\": 1, \"head_id\": #, "
    "\"kv_range_desc\": &, \"spm_bank\": #, \"spm_offset\": %}",
    "{\"opcode\": \"BARRIER\", \"wait_for\": [~], \"id\": !}",
    "{\"opcode\": \"NOP\", \"layer_id\": \"@\", \"deps_before\": []*}",
    "{\"opcode\": \"VE_UNARY_TILE\", \"ve_id\": 0, \"function\": \"clip\", \"clip_min\": #, \"clip_max\": 9%, "
    "\"in_bank\": #, \"in_offset\": #, \"out_bank\": #, \"out_offset\": #, \"length\": 1#, \"qbits_activation\": 8}"};

/* What the character of a pattern stands for, in an entry that should be legal or need not be. */
static void put_placeholder(tv_buf *out, char c, unsigned index, bool legal)
{
    switch (c) {
    case '#': /* a small number */
        tv_buf_printf(out, "%" PRIu64, unit_sized(&rng, legal ? 3 : 34));
        return;
    case '%': /* a number of any form */
        if (legal || unit_below(&rng, 4))
            tv_buf_printf(out, "%" PRIu64, unit_sized(&rng, 12));
        else
            put_number(out);
        return;
    case '$': /* a width */
        tv_buf_str(out, legal ? PICK("8", "4", "16") : PICK("8", "3"));
        return;
    case '@': /* a layer */
        tv_buf_str(out, PICK("a", "b", "layer.1", ""));
        return;
    case '~': /* earlier entries */
        for (uint64_t n = unit_below(&rng, 3), i = 0; i < n && index; i++)
            tv_buf_printf(out, "%s%" PRIu64, i ? ", " : "", unit_below(&rng, index + (legal ? 0 : 1)));
        return;
    case '^': /* the next entry */
        if (unit_below(&rng, 2))
            tv_buf_printf(out, "%u", index + 1);
        return;
    case '!': /* this entry */
        tv_buf_printf(out, "%u", legal || unit_below(&rng, 4) ? index : index + 1);
        return;
    case '?': /* a field without the one that it needs */
        tv_buf_str(out, legal ? "" : ", \"bias_bank\": 1");
        return;
    case '&': /* a range, or the name of one that does not exist */
        tv_buf_str(out, legal ? "{\"t_start\": 1, \"t_len\": 2}" : "\"a\"");
        return;
    case '*': /* a warning */
        tv_buf_str(out, unit_below(&rng, 3) ? "" : ", \"deprecated_since\": \"1.2\"");
        return;
    default:
        tv_buf_printf(out, "%c", c);
        return;
    }
}

static void put_similar_entries(tv_buf *out)
{
    const char *const kinds[3] = {patterns[unit_below(&rng, TV_COUNTOF(patterns))],
                                  patterns[unit_below(&rng, TV_COUNTOF(patterns))],
                                  patterns[unit_below(&rng, TV_COUNTOF(patterns))]};
    bool lines = unit_below(&rng, 3) == 0;
    tv_buf_str(out, lines ? "{\"version\": \"1.3\"}\n" : "{\"metadata\": {\"version\": \"1.3\"}, \"cmdq\": [");
    bool legal = unit_below(&rng, 2);
    for (unsigned i = 0, count = 4 + (unsigned)unit_below(&rng, 30); i < count; i++) {
        bool legal_entry = legal || unit_below(&rng, 6);
        for (const char *p = kinds[unit_below(&rng, 3)]; *p; p++)
            put_placeholder(out, *p, i, legal_entry);
        tv_buf_str(out, lines ? "\n" : ",\n");
    }
    tv_buf_str(out, lines ? "{\"opcode\": \"END\"}\n" : "{\"opcode\": \"END\"}]}\n");
    for (uint64_t i = unit_below(&rng, 3) * 20; i; i--)
        tv_buf_str(out, " ");
}

static uint32_t expect_same_templates(const tv_buf *text, uint32_t *template_count)
{
    uint32_t fast_path_count;
    const char *difference = compare_paths(text->data, text->len, &fast_path_count, template_count);
    if (difference)
        fail_msg("%s: %.*s", difference, (int)text->len, (const char *)text->data);
    return fast_path_count;
}

static uint32_t expect_same(const tv_buf *text) { return expect_same_templates(text, NULL); }

/* ---- Tests ---- */

static void entries_are_what_the_parser_makes_of_them(void **state)
{
    (void)state;
    uint64_t fast_path_count = 0;
    for (unsigned i = 0; i < 20000 / unit_sample(); i++) {
        tv_buf text = {0};
        put_queue(&text, i % 2);
        if (i % 4 > 1)
            damage(&text);
        fast_path_count += expect_same(&text);
        tv_buf_fini(&text);
    }
    assert_true(fast_path_count > 10000 / unit_sample()); /* of some 25000 entries that are read */
}

static void entries_like_earlier_ones_are_what_the_parser_makes_of_them(void **state)
{
    (void)state;
    uint64_t templates = 0;
    for (unsigned i = 0; i < 12000 / unit_sample(); i++) {
        uint32_t template_count;
        tv_buf text = {0};
        put_similar_entries(&text);
        if (i % 4 == 3)
            damage(&text);
        expect_same_templates(&text, &template_count);
        templates += template_count;
        tv_buf_fini(&text);
    }
    assert_true(templates > 20000 / unit_sample());
}

/* A queue of 12,000 entries, which take turns in `kinds` lengths of a row that templates do not leave open, after 100
 * entries with lengths of their own. Returns how many are read with a template. */
static uint32_t count_templates(unsigned kinds)
{
    tv_buf text = {0};
    uint32_t template_count;
    tv_buf_str(&text, "{\"version\": \"1.3\"}\n");
    for (unsigned i = 0; i < 12000; i++)
        tv_buf_printf(&text,
                      "{\"id\": %u, \"opcode\": \"DMA_LOAD_TILE\", \"tensor_role\": \"weight\", \"qbits\": 8, "
                      "\"dram_addr\": %u, \"spm_bank\": 1, \"spm_offset\": 0, \"num_elements\": 64, "
                      "\"row_elements\": 8, \"stride_bytes\": %u, \"layer_id\": \"%u\"}\n",
                      i, i * 64, i < 100 ? 2000 + i : 1000 + i % kinds, i / 1000);
    tv_buf_str(&text, "{\"opcode\": \"END\"}\n");
    expect_same_templates(&text, &template_count);
    tv_buf_fini(&text);
    return template_count;
}

static void templates_are_used_again_after_entries_without_any(void **state)
{
    (void)state;
    assert_true(count_templates(1) > 7000); /* unused for 4096 entries */
    assert_true(count_templates(10) > 7000);
    count_templates(20); /* more than are compared with an entry */
    count_templates(40); /* more than are kept */
}

/* A file may end at any byte, with nothing readable after it. */
static void files_that_end_within_an_entry_like_an_earlier_one(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8 * TV_COUNTOF(patterns); i++) { /* with texts of any length modulo 8 */
        tv_buf text = {0};
        tv_buf_str(&text, "{\"version\": \"1.3\"}\n");
        for (unsigned k = 0; k < 2; k++) {
            tv_buf_printf(&text, "{%*s", (int)(i % 8), "");
            for (const char *p = patterns[i / 8] + 1; *p; p++)
                put_placeholder(&text, *p, k, true);
            tv_buf_str(&text, "\n");
        }
        for (size_t whole = text.len; text.len > whole / 2; text.len--)
            expect_same(&text);
        tv_buf_fini(&text);
    }
}

/* Strings that contain braces, misplaced or not terminated. */
static void braces_in_strings_end_nothing(void **state)
{
    (void)state;
    static const char *const between[] = {"\"}, \",",
                                          "\"}{\"",
                                          "\"x\\\"}\",",
                                          "\"} ",
                                          "{\"}\": 1},",
                                          "{\"opcode\": \"}\"},",
                                          "{\"opcode\": \"NOP\" \"x}y\": 1},",
                                          "{\"opcode\": \"NOP\", \"debug\": \"}\\\\\"},",
                                          "[\"}\"],",
                                          "[{}],",
                                          "{}, {\"}",
                                          "}",
                                          "]},",
                                          "},{\"}"};
    for (unsigned i = 0; i < 2 * TV_COUNTOF(between); i++) {
        tv_buf text = {0};
        tv_buf_str(&text, i % 2 ? "{\"version\": \"1.2\"}\n" : "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [\n");
        for (unsigned k = 0; k < 6; k++) {
            tv_buf_printf(&text, "{\"opcode\": \"NOP\", \"id\": %u}%s\n", k, i % 2 ? "" : ",");
            if (k == 3)
                tv_buf_str(&text, between[i / 2]);
        }
        tv_buf_str(&text, i % 2 ? "{\"opcode\": \"END\"}\n" : "{\"opcode\": \"END\"}]}\n");
        expect_same(&text);
        tv_buf_fini(&text);
    }
}

static void entries_that_a_program_writes_are_taken_past_the_parser(void **state)
{
    (void)state;
    for (unsigned lines = 0; lines < 2; lines++) {
        tv_buf text = {0};
        tv_buf_str(&text, lines ? "{\"version\": \"1.2\"}\n{\"opcode\": \"NOP\"}\n"
                                : "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [\n{\"opcode\": \"NOP\"},\n");
        for (unsigned i = 0; i < 1000; i++)
            tv_buf_printf(&text,
                          "{\"opcode\": \"DMA_LOAD_TILE\", \"id\": %u, \"layer_id\": \"l%u\", \"tensor_role\": \"kv\", "
                          "\"qbits\": 8, \"dram_addr\": %u, \"spm_bank\": 0, "
                          "\"spm_offset\": 0, \"num_elements\": 8, \"deps_before\": [%u]}%s\n",
                          i + 1, i / 100, i, i, lines ? "" : ",");
        tv_buf_str(&text, lines ? "{\"opcode\": \"END\"}\n" : "{\"opcode\": \"END\"}]}\n");
        assert_true(expect_same(&text) >= 990); /* the parser gets the first and the last */
        tv_buf_fini(&text);
    }
}

static void queues_of_the_folder_are_read_alike(void **state)
{
    (void)state;
    char pattern[512];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.json*", folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        tv_input input;
        assert_int_equal(tv_input_open(found.gl_pathv[i], NULL, &input), TV_OK);
        for (unsigned k = 0; k < 200; k++) {
            tv_buf text = {0};
            tv_buf_append(&text, input.data, input.size);
            if (k)
                damage(&text);
            expect_same(&text);
            tv_buf_fini(&text);
        }
        tv_input_close(&input);
    }
    globfree(&found);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_what_the_parser_makes_of_them),
        cmocka_unit_test(entries_like_earlier_ones_are_what_the_parser_makes_of_them),
        cmocka_unit_test(templates_are_used_again_after_entries_without_any),
        cmocka_unit_test(files_that_end_within_an_entry_like_an_earlier_one),
        cmocka_unit_test(braces_in_strings_end_nothing),
        cmocka_unit_test(entries_that_a_program_writes_are_taken_past_the_parser),
        cmocka_unit_test(queues_of_the_folder_are_read_alike),
    };
    folder = argc > 1 ? argv[1] : "tests/queue";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
