/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenNPU codec against the independent decoder of spec_opennpu.h: which words are legal, the faults of those that
 * are not, the instruction, and round trips through disassembler and assembler: every legal word is printed as its
 * instruction, with the fields that the machine ignores by name. */
#include "unit.h"

#include "base/base.h"
#include "spec_opennpu.h"
#include "trivet/codec.h"
#include "trivet/program.h"

enum { BATCH = 5000, BATCHES = 200 };

static tv_codec *codec;

static int setup_codec(void **state)
{
    (void)state;
    return tv_codec_new("opennpu", NULL, &codec) != TV_OK;
}

static int teardown_codec(void **state)
{
    (void)state;
    tv_codec_free(codec);
    return 0;
}

static const uint32_t opcodes[] = {0x00, 0x01, 0x02, 0x03, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};

/* A random word of a family, mostly with small register numbers. */
static uint32_t family_word(unit_rng *rng, uint32_t opcode)
{
    uint64_t r = unit_next(rng);
    uint32_t word = ((uint32_t)r & ~UINT32_C(0x7F)) | opcode;
    if (r >> 32 & 1)
        word &= ~(UINT32_C(0x18) << 7 | UINT32_C(0x18) << 15 | UINT32_C(0x18) << 20);
    if (opcode == 0x17 && r >> 33 & 1)
        word &= ~(UINT32_C(0x18) << 27);
    return word;
}

static uint32_t legal_word(unit_rng *rng, unsigned n)
{
    for (;;) {
        uint32_t word = family_word(rng, opcodes[n % TV_COUNTOF(opcodes)]);
        if (spec_decode(word).faults == 0)
            return word;
    }
}

/* ---- Decoding ---- */

static const char *id_of(int row)
{
    static char ids[128][24];
    if (!ids[row][0]) {
        tv_insn_info info;
        assert_true(tv_codec_insn_at(codec, (unsigned)row, &info));
        snprintf(ids[row], sizeof ids[row], "%s", info.id);
    }
    return ids[row];
}

static unsigned check_word(uint32_t word, bool with_reason)
{
    spec_insn want = spec_decode(word);
    tv_decode_fault why = {0};
    int row = tv_codec_decode(codec, word, with_reason ? &why : NULL);
    if ((row >= 0) != (want.faults == 0))
        fail_msg("%08x: decoded as %d (%s), faults %02x", word, row, why.code ? why.code : "-", want.faults);
    if (row >= 0) {
        if (strcmp(id_of(row), want.id) != 0)
            fail_msg("%08x is %s, not %s", word, want.id, id_of(row));
        return 1;
    }
    if (with_reason) {
        unsigned n = strncmp(why.code, "TV-N00", 6) == 0 && why.code[7] == 0 ? (unsigned)(why.code[6] - '1') : 31;
        if (n >= 8 || !(want.faults >> n & 1))
            fail_msg("%08x: %s (%s), faults %02x", word, why.code, why.message, want.faults);
    }
    return 0;
}

static void random_instructions_decode_as_by_the_independent_decoder(void **state)
{
    (void)state;
    unit_rng rng = {201};
    unsigned legal = 0;
    unsigned words = 10000000 / unit_sample();
    for (unsigned n = 0; n < words; n++) {
        uint64_t dice = unit_next(&rng);
        uint32_t word =
            dice % 8 == 0 ? (uint32_t)(dice >> 32) : family_word(&rng, opcodes[(dice >> 8) % TV_COUNTOF(opcodes)]);
        legal += check_word(word, (dice >> 3 & 3) == 0);
    }
    assert_in_range(legal, words / 10, words / 10 * 9);
}

/* All families and operations, all of width, dtype and formats, on register fields of zero and of all ones. */
static void each_family_is_decoded_with_every_attribute(void **state)
{
    (void)state;
    for (uint32_t opcode = 0; opcode < 128; opcode++)
        for (uint32_t f3 = 0; f3 < 8; f3++)
            for (uint32_t f7 = 0; f7 < 128; f7++)
                for (uint32_t fields = 0; fields < 8; fields++)
                    check_word(f7 << 25 | (fields & 1 ? U_RS2 : 0u) | (fields & 2 ? U_RS1 : 0u) | f3 << 12 |
                                   (fields & 4 ? U_RD : 0u) | opcode,
                               true);
}

static void check_fault(uint32_t word, const char *code)
{
    tv_decode_fault why = {0};
    if (tv_codec_decode(codec, word, &why) >= 0)
        fail_msg("%08x is accepted, but violates %s", word, code);
    if (strcmp(why.code, code) != 0)
        fail_msg("%08x: expected %s, got %s (%s)", word, code, why.code, why.message);
    assert_true(why.hi < 32 && why.lo <= why.hi);
}

static void a_single_fault_has_its_own_code(void **state)
{
    (void)state;
    for (uint32_t op = 0; op < 128; op++)
        if (spec_decode(op).faults & N_OPCODE)
            check_fault(op, "TV-N001");
    static const struct {
        uint32_t opcode, from, to;
    } reserved[] = {{1, 6, 7},    {2, 6, 7},    {3, 3, 7},    {0x12, 6, 7}, {0x13, 2, 3},
                    {0x13, 6, 7}, {0x15, 2, 7}, {0x16, 7, 7}, {0x17, 4, 7}, {0x18, 3, 7}};
    for (size_t i = 0; i < TV_COUNTOF(reserved); i++)
        for (uint32_t f3 = reserved[i].from; f3 <= reserved[i].to; f3++)
            check_fault(f3 << 12 | reserved[i].opcode, "TV-N002");
    static const uint32_t r_type[] = {0x03, 0x1003, 0x2003, 0x10, 0x3010, 0x11, 0x12, 0x13, 0x1013, 0x15, 0x16, 0x18};
    for (size_t i = 0; i < TV_COUNTOF(r_type); i++) {
        check_fault(r_type[i] | UINT32_C(3) << 25, "TV-N003");
        check_fault(r_type[i] | UINT32_C(3) << 30, "TV-N004");
    }
    for (uint32_t f = 0; f < 6; f++) {
        check_fault(f << 25 | f << 12 | 0x14, "TV-N005");
        check_fault(UINT32_C(6) << 25 | f << 12 | 0x14, "TV-N006");
        check_fault(UINT32_C(7) << 25 | f << 12 | 0x14, "TV-N006");
    }
    check_fault(UINT32_C(0) << 25 | 1 << 12 | 0x14, "TV-N007"); /* s16 from s8 */
    check_fault(UINT32_C(3) << 25 | 1 << 12 | 0x14, "TV-N007"); /* s16 from f32 */
    check_fault(UINT32_C(4) << 25 | 5 << 12 | 0x14, "TV-N007"); /* bf8 from bf16 */
}

/* ---- Registers ---- */

static void thirty_two_vx_are_sixteen_ve_and_eight_vr(void **state)
{
    (void)state;
    static const struct {
        uint32_t word;
        unsigned rd, rs1, rs2; /* number of registers */
    } rows[] = {
        {0x10, 32, 32, 32},
        {UINT32_C(1) << 25 | 0x10, 16, 16, 16},
        {UINT32_C(2) << 25 | 0x10, 8, 8, 8},
        {UINT32_C(2) << 25 | 5 << 12 | 0x11, 8, 8, 32}, /* vnot ignores rs2 */
        {0x12, 8, 32, 32},
        {UINT32_C(1) << 25 | 0x12, 8, 16, 32},
        {UINT32_C(2) << 25 | 0x12, 8, 8, 32},
        {0x01, 32, 8, 32},
        {1 << 12 | 0x02, 16, 8, 32},
        {5 << 12 | 0x01, 8, 8, 32},
        {0x03, 32, 32, 32},
        {1 << 12 | 0x03, 8, 32, 32},
        {2 << 12 | 0x03, 32, 32, 32},
        {0x13, 32, 32, 32},
        {4 << 12 | 0x13, 32, 8, 32},
        {0x16, 8, 8, 8},
        {3 << 12 | 0x16, 8, 8, 32},
        {0x17, 8, 8, 8},
        {1 << 12 | 0x18, 32, 32, 32},
        {2 << 12 | 0x18, 16, 32, 32},
        {UINT32_C(2) << 25 | 0x15, 8, 8, 32},
        {1 << 12 | 0x15, 32, 32, 32},
        {UINT32_C(3) << 25 | 0x14, 32, 8, 32},
        {UINT32_C(3) << 25 | 4 << 12 | 0x14, 16, 8, 32},
        {UINT32_C(5) << 25 | 3 << 12 | 0x14, 8, 32, 32},
    };
    for (size_t i = 0; i < TV_COUNTOF(rows); i++)
        for (uint32_t n = 0; n < 32; n++) {
            const unsigned lows[] = {7, 15, 20}, limits[] = {rows[i].rd, rows[i].rs1, rows[i].rs2};
            for (unsigned k = 0; k < 3; k++) {
                uint32_t word = rows[i].word | n << lows[k];
                if (n < limits[k])
                    assert_true(tv_codec_decode(codec, word, NULL) >= 0);
                else
                    check_fault(word, "TV-N008");
            }
            if ((rows[i].word & 0x7F) == 0x17 && n >= 8)
                check_fault(rows[i].word | n << 27, "TV-N008");
        }
}

static tv_status assemble(const char *text, size_t size, unit_log *log, tv_program **program)
{
    tv_program_options options = {.size = sizeof options, .target = "opennpu"};
    tv_diag_sink sink = unit_sink(log);
    *program = NULL;
    return tv_program_assemble("batch", text, size, &options, &sink, program);
}

static void the_assembler_accepts_the_same_registers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"vadd vx31, vx31, vx31\n", true},    {"vadd vx32, vx0, vx0\n", false}, {"vadd vx0, vx32, vx0\n", false},
        {"vadd ve15, ve15, ve15\n", true},    {"vadd ve16, ve0, ve0\n", false}, {"vadd ve0, ve0, ve16\n", false},
        {"vadd vr7, vr7, vr7\n", true},       {"vadd vr8, vr0, vr0\n", false},  {"vfma vr7, vr7, vr7, vr7\n", true},
        {"vfma vr0, vr0, vr0, vr8\n", false}, {"vadd vx0, ve0, vx0\n", false},  {"vfadd vx0, vr0, vr0\n", false},
        {"ld.vx vx31, 2047(vr7)\n", true},    {"ld.vx vx31, 0(vr8)\n", false},  {"ld.ve vx0, 0(vr0)\n", false},
    };
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        unit_log log;
        tv_program *program;
        tv_status status = assemble(rows[i].text, strlen(rows[i].text), &log, &program);
        if ((status == TV_OK) != rows[i].good)
            fail_msg("%s: status %d, %s", rows[i].text, (int)status, log.at[0].message);
        tv_program_free(program);
    }
}

/* ---- Round trips ---- */

enum word_kind { CANONICAL, WITH_IGNORED_BITS, ILLEGAL };

static uint32_t random_word(unit_rng *rng, enum word_kind kind, unsigned n)
{
    for (;;) {
        uint32_t word = kind == ILLEGAL ? (uint32_t)unit_next(rng) : legal_word(rng, n);
        spec_insn insn = spec_decode(word);
        if (kind == ILLEGAL && insn.faults)
            return word;
        if (kind == CANONICAL)
            return word & insn.used;
        if (kind == WITH_IGNORED_BITS && word & ~insn.used)
            return word;
        n++;
    }
}

static void round_trip(unsigned batches, uint64_t seed, enum word_kind kind)
{
    static uint32_t words[BATCH];
    static char text[BATCH * (TV_CODEC_TEXT + 1) + 32];
    unit_rng rng = {seed};
    for (unsigned b = 0; b < batches; b++) {
        static const char option[] = ".option proposed\n";
        size_t size = sizeof option - 1;
        memcpy(text, option, size);
        for (unsigned i = 0; i < BATCH; i++) {
            words[i] = random_word(&rng, kind, i);
            char line[TV_CODEC_TEXT], data[24];
            bool legal = tv_codec_disassemble(codec, words[i], line);
            snprintf(data, sizeof data, ".word 0x%08x", words[i]);
            bool is_data = strncmp(line, data, strlen(data)) == 0;
            if (legal != (kind != ILLEGAL) || is_data != (kind == ILLEGAL))
                fail_msg("%08x disassembles to %s", words[i], line);
            size_t length = strlen(line);
            memcpy(text + size, line, length);
            text[size + length] = '\n';
            size += length + 1;
        }
        unit_log log;
        tv_program *program;
        if (assemble(text, size, &log, &program) != TV_OK)
            fail_msg("line %u: %s", log.at[0].line, log.at[0].message);
        for (unsigned i = 0; i < log.count && i < UNIT_DIAGS; i++)
            assert_non_null(
                strstr(log.at[i].message, "is truncated to 8 bits")); /* bcast.imm and VALU_MOV with more bits */
        assert_int_equal(tv_program_instruction_count(program), BATCH);
        for (unsigned i = 0; i < BATCH; i++)
            if (tv_program_word(program, i) != words[i])
                fail_msg("%08x assembles to %08x", words[i], (unsigned)tv_program_word(program, i));
        tv_program_free(program);
    }
}

static void legal_instructions_disassemble_and_assemble_back(void **state)
{
    (void)state;
    round_trip(BATCHES / unit_sample(), 202, CANONICAL);
}

static void ignored_fields_are_printed_and_assembled_by_name(void **state)
{
    (void)state;
    round_trip(BATCHES / unit_sample(), 203, WITH_IGNORED_BITS);
}

static void illegal_instructions_disassemble_to_data_that_assembles_back(void **state)
{
    (void)state;
    round_trip(20, 204, ILLEGAL);
}

static uint32_t assembled_word(const char *text)
{
    unit_log log;
    tv_program *program;
    if (assemble(text, strlen(text), &log, &program) != TV_OK)
        fail_msg("%s: %s", text, log.at[0].message);
    uint32_t word = (uint32_t)tv_program_word(program, 0);
    tv_program_free(program);
    return word;
}

/* mma(rd=2, rs1=0, rs2=8, keep=true) and mmaLast(rd=2, rs1=0, rs2=8) of the published description. */
static void operands_of_the_published_assembler_are_accepted(void **state)
{
    (void)state;
    assert_int_equal(assembled_word("mma.keep vr2, vx0, vx8\n"), 0x20800103);
    assert_int_equal(assembled_word("mma vr2, vx0, vx8\n"), 0x00800103);
    assert_int_equal(assembled_word("mma.last vr2, vx0, vx8\n"), 0x00801103);
    unit_log log;
    tv_program *program;
    assert_int_equal(assemble("vfadd vr1, vr2, vr3, dtype=3\n", 29, &log, &program), TV_ERR_INPUT);
    assert_int_equal(assemble("nop ignored=1, ignored=1\n", 25, &log, &program), TV_ERR_INPUT);
    assert_int_equal(assemble("mma.last vr2, vx0\n", 18, &log, &program), TV_ERR_INPUT);
}

/* Section 5's lines, encoded by hand from section 2. */
static void the_lines_of_the_specification_have_their_encodings(void **state)
{
    (void)state;
#define R(f7, rs2, rs1, f3, rd, op)                                                                                    \
    (UINT32_C(f7) << 25 | UINT32_C(rs2) << 20 | UINT32_C(rs1) << 15 | UINT32_C(f3) << 12 | UINT32_C(rd) << 7 |         \
     UINT32_C(op))
    static const struct {
        const char *text;
        uint32_t word;
    } rows[] = {
        {"vadd.sat ve4, ve5, ve6", R(0x11, 6, 5, 0, 4, 0x10)},
        {"vfma.rtz vr2, vr2, vr0, vr1", R(0x05, 0, 2, 0, 2, 0x17)},
        {"vcvt_s8_f32.sat vx31, vr2", R(0x0B, 0, 2, 0, 31, 0x14)},
        {"vlut.b vx2, vx1", R(0, 0, 1, 1, 2, 0x13)},
        {"vsetlut.a vr4, 0", R(0, 0, 4, 4, 0, 0x13)},
        {"bcast.reg vr0, vr0", R(2, 0, 0, 0, 0, 0x15)},
        {"bcast.imm vx3, -7", R(0x7F, 0x19, 0, 1, 3, 0x15)},
        {"vsum vr4, vx2", R(0, 0, 2, 0, 4, 0x12)},
        {"mma.keep vx0, vx8", R(0x10, 8, 0, 0, 0, 0x03)},
        {"mma.last vr2", R(0, 0, 0, 1, 2, 0x03)},
        {"mma.last.keep vr2, vx0, vx8", R(0x10, 8, 0, 1, 2, 0x03)},
        {"ld.vx vx3, 16(vr1)", UINT32_C(16) << 20 | R(0, 0, 1, 3, 3, 0x01)},
        {"st.b vx3, -1(vr1)", UINT32_C(0xFFF) << 20 | R(0, 0, 1, 0, 3, 0x02)},
        {"vfadd.floor vr1, vr2, vr3", R(0x08, 3, 2, 0, 1, 0x16)},
        {"vcvt_bf8_f32.ceil.e5m2 vx1, vr2", R(0x73, 0, 2, 5, 1, 0x14)},
        {"vcvt_f32_bf8 vr1, vx2", R(0x05, 0, 2, 3, 1, 0x14)},
        {"nop", 0},
        {"mma.reset", R(0, 0, 0, 2, 0, 0x03)},
        /* Fields that the machine ignores. */
        {"mma.keep vx0, vx8, rd=2", R(0x10, 8, 0, 0, 2, 0x03)},
        {"mma.last vr2, rs2=8", R(0, 8, 0, 1, 2, 0x03)},
        {"mma.last.keep vr2, vx0, vx8, width=2, round=3, dtype=1", R(0x3E, 8, 0, 1, 2, 0x03)},
        {"mma.reset rd=1, rs1=2, rs2=3, sat=1", R(0x10, 3, 2, 2, 1, 0x03)},
        {"vfadd vr1, vr2, vr3, width=2, dtype=1", R(0x22, 3, 2, 0, 1, 0x16)},
        {"vadd vx1, vx2, vx3, round=2", R(0x08, 3, 2, 0, 1, 0x10)},
        {"vneg vx1, vx2, rs2=31", R(0, 31, 2, 3, 1, 0x10)},
        {"vsetlut.b vr4, -1, rd=9", R(0x7F, 0x1F, 4, 5, 9, 0x13)},
        {"vcvt_f32_s8 vr0, vx0, rs2=31, sat=1, round=3, bf8=1", R(0x78, 31, 0, 3, 0, 0x14)},
        {"nop ignored=33554431", UINT32_C(0xFFFFFF80)},
    };
#undef R
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        unit_log log;
        tv_program *program;
        char line[TV_CODEC_TEXT];
        snprintf(line, sizeof line, "%s\n", rows[i].text);
        if (assemble(line, strlen(line), &log, &program) != TV_OK)
            fail_msg("%s: %s", rows[i].text, log.at[0].message);
        assert_int_equal(tv_program_instruction_count(program), 1);
        if (tv_program_word(program, 0) != rows[i].word)
            fail_msg("%s is %08x, not %08x", rows[i].text, rows[i].word, (unsigned)tv_program_word(program, 0));
        tv_program_free(program);
        assert_true(tv_codec_disassemble(codec, rows[i].word, line));
        assert_string_equal(line, rows[i].text);
    }
}

static void a_proposed_extension_is_reported_once_per_file(void **state)
{
    (void)state;
    static const char text[] = "mov vx0, vx1\nmovi vx2, 3\nmovh ve1, 4\n";
    unit_log log;
    tv_program *program;
    assert_int_equal(assemble(text, sizeof text - 1, &log, &program), TV_OK);
    assert_int_equal(log.count, 1);
    assert_string_equal(log.at[0].code, "TV-N032");
    tv_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_is_decoded_with_every_attribute),
        cmocka_unit_test(a_single_fault_has_its_own_code),
        cmocka_unit_test(thirty_two_vx_are_sixteen_ve_and_eight_vr),
        cmocka_unit_test(the_assembler_accepts_the_same_registers),
        cmocka_unit_test(the_lines_of_the_specification_have_their_encodings),
        cmocka_unit_test(a_proposed_extension_is_reported_once_per_file),
        cmocka_unit_test(random_instructions_decode_as_by_the_independent_decoder),
        cmocka_unit_test(legal_instructions_disassemble_and_assemble_back),
        cmocka_unit_test(ignored_fields_are_printed_and_assembled_by_name),
        cmocka_unit_test(operands_of_the_published_assembler_are_accepted),
        cmocka_unit_test(illegal_instructions_disassemble_to_data_that_assembles_back),
    };
    return cmocka_run_group_tests(tests, setup_codec, teardown_codec);
}
