/* SPDX-License-Identifier: Apache-2.0 */
/* The pccx codec against a second reading of the encoding, typed here from section 2 of the specification: the fields'
 * bits, what is legal, which code names which fault. Then every way round: decode, disassemble, assemble, encode. */
#include "unit.h"

#include "isa/isa.h"
#include "trivet/program.h"

enum { OPCODES = 5, BATCH = 5000, BATCHES = 200 };

/* ---- The encoding, from the specification ---- */

typedef struct spec_field {
    unsigned opcode, hi, lo;
    const char *name; /* NULL: must be zero */
} spec_field;

static const spec_field spec[] = {
#define MATRIX(op)                                                                                                     \
    {op, 59, 43, "dest_reg"}, {op, 42, 26, "src_addr"}, {op, 25, 25, "findemax"}, {op, 24, 24, "accm"},                \
        {op, 23, 23, "w_scale"}, {op, 22, 20, NULL}, {op, 19, 14, "size_ptr_addr"}, {op, 13, 8, "shape_ptr_addr"},     \
        {op, 7, 3, "parallel_lane"},                                                                                   \
    {                                                                                                                  \
        op, 2, 0, NULL                                                                                                 \
    }
    MATRIX(0),
    MATRIX(1),
    {2, 59, 59, "from_device"},
    {2, 58, 58, "to_device"},
    {2, 57, 41, "dest_addr"},
    {2, 40, 24, "src_addr"},
    {2, 23, 7, "aux_addr"},
    {2, 6, 1, "shape_ptr_addr"},
    {2, 0, 0, "async"},
    {3, 59, 58, "dest_cache"},
    {3, 57, 52, "dest_addr"},
    {3, 51, 36, "a_value"},
    {3, 35, 20, "b_value"},
    {3, 19, 4, "c_value"},
    {3, 3, 0, NULL},
    {4, 59, 56, "cvo_func"},
    {4, 55, 39, "src_addr"},
    {4, 38, 22, "dst_addr"},
    {4, 21, 6, "length"},
    {4, 5, 5, "sub_emax"},
    {4, 4, 4, "recip_scale"},
    {4, 3, 3, "accm"},
    {4, 2, 1, NULL},
    {4, 0, 0, "async"},
};

/* By cvo_func; values past the last are reserved. */
static const char *const cvo_functions[] = {
    "CVO_EXP", "CVO_SQRT", "CVO_GELU", "CVO_SIN", "CVO_COS", "CVO_REDUCE_SUM", "CVO_SCALE", "CVO_RECIP",
};
enum { CVO_FUNCTIONS = TV_COUNTOF(cvo_functions) };

static uint64_t bits(uint64_t word, unsigned hi, unsigned lo) { return word << (63 - hi) >> (63 - hi + lo); }

static uint64_t with(uint64_t word, unsigned hi, unsigned lo, uint64_t value)
{
    uint64_t mask = ~UINT64_C(0) << (63 - hi) >> (63 - hi + lo) << lo;
    return (word & ~mask) | (value << lo & mask);
}

enum { OPCODE = 1, RESERVED = 2, CACHE = 4, FUNC = 8, DIRECTION = 16, AUX = 32 };
static const char *const fault_codes[] = {"TV-P001", "TV-P002", "TV-P003", "TV-P004", "TV-P005", "TV-P006"};

/* Every rule that `word` breaks. */
static unsigned spec_faults(uint64_t word)
{
    unsigned op = (unsigned)bits(word, 63, 60);
    switch (op) {
    case 0:
    case 1:
        return bits(word, 22, 20) || bits(word, 2, 0) ? RESERVED : 0;
    case 2: {
        uint64_t from = bits(word, 59, 59), to = bits(word, 58, 58);
        return from && to ? DIRECTION : !from && !to && bits(word, 23, 7) ? AUX : 0;
    }
    case 3:
        return (bits(word, 59, 58) >= 2 ? CACHE : 0) | (bits(word, 3, 0) ? RESERVED : 0);
    case 4:
        return (bits(word, 59, 56) >= CVO_FUNCTIONS ? FUNC : 0) | (bits(word, 2, 1) ? RESERVED : 0);
    default:
        return OPCODE;
    }
}

static const char *spec_id(uint64_t word)
{
    static const char *const matrix[] = {"GEMV", "GEMM"}, *const copy[] = {"MEMCPY_MOVE", "MEMCPY_STORE",
                                                                           "MEMCPY_LOAD"};
    uint64_t op = bits(word, 63, 60);
    return op < 2    ? matrix[op]
           : op == 2 ? copy[bits(word, 59, 58)]
           : op == 3 ? "MEMSET"
                     : cvo_functions[bits(word, 59, 56)];
}

/* A legal word of `opcode`; some fields have their smallest or largest value. */
static uint64_t legal_word(unit_rng *rng, unsigned opcode)
{
    uint64_t word = with(unit_next(rng), 63, 60, opcode);
    for (size_t i = 0; i < TV_COUNTOF(spec); i++)
        if (spec[i].opcode == opcode && (!spec[i].name || unit_below(rng, 8) == 0))
            word = with(word, spec[i].hi, spec[i].lo, !spec[i].name || unit_below(rng, 2) ? 0 : UINT64_MAX);
    if (opcode == 2 && bits(word, 59, 58) == 3)
        word = with(word, 59, 58, 1 + unit_below(rng, 2));
    if (opcode == 2 && bits(word, 59, 58) == 0)
        word = with(word, 23, 7, 0);
    if (opcode == 3)
        word = with(word, 59, 59, 0);
    if (opcode == 4)
        word = with(word, 59, 56, bits(word, 59, 56) % CVO_FUNCTIONS);
    return word;
}

/* ---- The table ---- */

static tv_codec *codec;

static int make_codec(void **state)
{
    (void)state;
    return tv_codec_new("pccx", NULL, &codec) != TV_OK;
}

static int free_codec(void **state)
{
    (void)state;
    tv_codec_free(codec);
    return 0;
}

static void row_pattern(const tv_isa *isa, const tv_insn *insn, uint64_t *mask, uint64_t *match)
{
    *mask = *match = 0;
    for (unsigned i = 0; i < insn->fixed_count; i++) {
        const tv_field *f = &isa->fields[insn->fixed[i].field];
        *mask = with(*mask, f->hi, f->lo, UINT64_MAX);
        *match = with(*match, f->hi, f->lo, insn->fixed[i].value);
    }
}

static void no_two_rows_match_the_same_word(void **state)
{
    (void)state;
    const tv_isa *isa = tv_codec_isa(codec);
    for (unsigned a = 0; a < isa->insn_count; a++)
        for (unsigned b = a + 1; b < isa->insn_count; b++) {
            uint64_t mask_a, match_a, mask_b, match_b;
            row_pattern(isa, &isa->insns[a], &mask_a, &match_a);
            row_pattern(isa, &isa->insns[b], &mask_b, &match_b);
            if (((match_a ^ match_b) & mask_a & mask_b) == 0)
                fail_msg("%s and %s overlap", isa->insns[a].id, isa->insns[b].id);
        }
}

static void every_bit_of_a_row_is_fixed_reserved_or_an_operand_once(void **state)
{
    (void)state;
    const tv_isa *isa = tv_codec_isa(codec);
    for (unsigned r = 0; r < isa->insn_count; r++) {
        const tv_insn *insn = &isa->insns[r];
        unsigned uses[64] = {0};
        uint64_t mask, match;
        row_pattern(isa, insn, &mask, &match);
        for (unsigned i = 0; i < isa->field_count; i++) {
            const tv_field *f = &isa->fields[i];
            if (f->format == insn->format && f->role == TV_FIELD_RESERVED)
                mask = with(mask, f->hi, f->lo, UINT64_MAX);
        }
        for (unsigned i = 0; i < insn->operand_count; i++) {
            const tv_field *f = &isa->fields[insn->operands[i].field];
            const tv_field *halves[2] = {f, NULL};
            if (f->role == TV_FIELD_JOINED) {
                halves[0] = &isa->fields[f->high_field];
                halves[1] = &isa->fields[f->low_field];
            }
            for (unsigned k = 0; k < 2 && halves[k]; k++)
                for (unsigned bit = halves[k]->lo; bit <= halves[k]->hi; bit++)
                    uses[bit]++;
        }
        for (unsigned bit = 0; bit < 64; bit++)
            if (uses[bit] + (unsigned)(mask >> bit & 1) != 1)
                fail_msg("%s: bit %u has %u operands", insn->id, bit, uses[bit]);
    }
}

static void forms_are_unambiguous_and_texts_are_not_empty(void **state)
{
    (void)state;
    tv_insn_info a, b;
    unsigned count = 0;
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &a); i++, count++) {
        assert_true(a.id[0] && a.mnemonic[0] && a.format[0] && a.unit[0] && a.meaning[0] && a.source[0] && a.form[0]);
        for (unsigned k = i + 1; tv_codec_insn_at(codec, k, &b); k++) {
            assert_string_not_equal(a.id, b.id);
            assert_string_not_equal(a.form, b.form);
        }
    }
    assert_int_equal(count, 2 + 3 + 1 + CVO_FUNCTIONS);
}

static void fields_are_those_of_the_specification(void **state)
{
    (void)state;
    tv_insn_info insn;
    unit_rng rng = {3};
    for (unsigned r = 0; tv_codec_insn_at(codec, r, &insn); r++) {
        uint64_t word = legal_word(&rng, (unsigned)unit_below(&rng, OPCODES));
        for (unsigned tries = 0; strcmp(spec_id(word), insn.id) != 0; tries++) {
            if (tries == 100000)
                fail_msg("%s is not in the list of instructions above", insn.id);
            word = legal_word(&rng, (unsigned)unit_below(&rng, OPCODES));
        }
        unsigned opcode = (unsigned)bits(word, 63, 60), i = 0;
        tv_field_info f;
        assert_true(tv_codec_field_at(codec, r, i++, word, &f));
        assert_true(f.hi == 63 && f.lo == 60 && f.fixed && f.fixed_value == opcode && f.value == opcode);
        for (size_t k = 0; k < TV_COUNTOF(spec); k++) {
            if (spec[k].opcode != opcode)
                continue;
            assert_true(tv_codec_field_at(codec, r, i++, word, &f));
            assert_true(f.hi == spec[k].hi && f.lo == spec[k].lo && f.reserved == !spec[k].name);
            assert_int_equal(f.value, bits(word, spec[k].hi, spec[k].lo));
            if (spec[k].name)
                assert_string_equal(f.name, spec[k].name);
        }
        assert_false(tv_codec_field_at(codec, r, i, word, &f));
    }
}

/* ---- Round trips ---- */

static void check_batch(const uint64_t *expected, unsigned count, const char *text, size_t size)
{
    tv_program_options options = {.size = sizeof options, .target = "pccx"};
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    tv_program *program = NULL;
    if (tv_program_assemble("batch", text, size, &options, &sink, &program) != TV_OK)
        fail_msg("line %u: %s", log.at[0].line, log.at[0].message);
    assert_int_equal(tv_program_instruction_count(program), count);
    for (unsigned i = 0; i < count; i++)
        if (tv_program_word(program, i) != expected[i])
            fail_msg("%016llx assembles to %016llx", (unsigned long long)expected[i],
                     (unsigned long long)tv_program_word(program, i));
    tv_program_free(program);
}

static void round_trip(unsigned batches, uint64_t seed, bool legal)
{
    static uint64_t batch[BATCH];
    static char text[BATCH * (TV_CODEC_TEXT + 1)];
    unit_rng rng = {seed};
    for (unsigned n = 0; n < batches; n++) {
        size_t size = 0;
        for (unsigned i = 0; i < BATCH; i++) {
            do
                batch[i] = legal ? legal_word(&rng, i % OPCODES) : with(unit_next(&rng), 63, 60, unit_below(&rng, 8));
            while ((spec_faults(batch[i]) == 0) != legal);
            char line[TV_CODEC_TEXT];
            if (tv_codec_disassemble(codec, batch[i], line) != legal)
                fail_msg("%016llx disassembles to %s", (unsigned long long)batch[i], line);
            size_t length = strlen(line);
            memcpy(text + size, line, length);
            text[size + length] = '\n';
            size += length + 1;
        }
        check_batch(batch, BATCH, text, size);
    }
}

static void a_million_legal_instructions_disassemble_and_assemble_back(void **state)
{
    (void)state;
    round_trip(BATCHES / unit_sample(), 4, true);
}

static void illegal_instructions_disassemble_to_data_that_assembles_back(void **state)
{
    (void)state;
    round_trip(20, 5, false);
}

static void disassembly_is_the_text_of_the_specification(void **state)
{
    (void)state;
    const uint64_t memset_ = with(with(with(with(UINT64_C(3) << 60, 59, 58, 1), 51, 36, 1), 35, 20, 4096), 19, 4, 4096);
    const uint64_t gemv = with(with(with(with(with(0, 59, 43, 0x200), 42, 26, 0x10), 25, 25, 1), 23, 23, 1), 7, 3, 4);
    const uint64_t fifo = with(with(0, 59, 43, 0x1FFFF), 19, 14, 63);
    const uint64_t load = with(with(with(with(UINT64_C(2) << 60, 59, 59, 1), 40, 24, 0x12), 23, 7, 1), 0, 0, 1);
    const uint64_t store = with(with(with(UINT64_C(2) << 60, 58, 58, 1), 57, 41, 3), 6, 1, 5);
    const uint64_t exp_ =
        with(with(with(with(with(UINT64_C(4) << 60, 38, 22, 0x401), 55, 39, 0x200), 21, 6, 4096), 5, 5, 1), 0, 0, 1);
    const struct {
        uint64_t word;
        const char *text;
    } rows[] = {
        {memset_, "memset weight_shape[0], 1, 4096, 4096"},
        {gemv, "gemv l2[0x200], l2[0x10], size=0, shape=0, lanes=4, w_scale, findemax"},
        {fifo, "gemv fifo, l2[0x0], size=63, shape=0"},
        {load, "memcpy l2[0x0], host[0x200120], shape=0, async"}, /* (1 * 2^17 + 0x12) * 16 */
        {store, "memcpy host[0x30], l2[0x0], shape=5"},
        {exp_, "cvo.exp l2[0x401], l2[0x200], len=4096, sub_emax, async"},
    };
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        char text[TV_CODEC_TEXT];
        assert_true(tv_codec_disassemble(codec, rows[i].word, text));
        assert_string_equal(text, rows[i].text);
    }
}

static void instructions_encode_from_their_fields(void **state)
{
    (void)state;
    unit_rng rng = {6};
    for (unsigned n = 0; n < 200000; n++) {
        unsigned opcode = n % OPCODES, count = 0;
        uint64_t word = legal_word(&rng, opcode), made = 0;
        tv_field_value fields[16];
        for (size_t i = 0; i < TV_COUNTOF(spec); i++)
            if (spec[i].opcode == opcode && spec[i].name)
                fields[count++] = (tv_field_value){spec[i].name, bits(word, spec[i].hi, spec[i].lo)};
        if (tv_codec_encode(codec, spec_id(word), fields, count, NULL, &made) != TV_OK || made != word)
            fail_msg("%s: %016llx encodes to %016llx", spec_id(word), (unsigned long long)word,
                     (unsigned long long)made);
    }
}

static void encode_rejects_values_that_do_not_fit_and_keeps_the_result(void **state)
{
    (void)state;
    const struct {
        const char *id;
        tv_field_value field;
        const char *code;
    } rows[] = {
        {"GEMV", {"parallel_lane", 32}, "TV-A005"}, {"GEMV", {"dest_reg", 0x20000}, "TV-A005"},
        {"CVO_EXP", {"length", 65536}, "TV-A005"},  {"GEMV", {"no_such_field", 0}, "TV-A003"},
        {"NO_SUCH", {"length", 0}, "TV-A002"},      {"MEMSET", {"dest_cache", 2}, "TV-P003"},
        {"MEMSET", {"reserved", 1}, "TV-P002"},     {"MEMSET", {"a_value", UINT64_MAX}, "TV-A005"},
    };
    for (size_t i = 0; i < TV_COUNTOF(rows); i++) {
        unit_log log;
        tv_diag_sink sink = unit_sink(&log);
        uint64_t word = 77;
        assert_int_equal(tv_codec_encode(codec, rows[i].id, &rows[i].field, 1, &sink, &word), TV_ERR_INPUT);
        assert_int_equal(word, 77);
        assert_int_equal(log.count, 1);
        assert_string_equal(log.at[0].code, rows[i].code);
    }
}

/* ---- Fields as numbers ---- */

/* cvo.exp l2[0x20], l2[0x10], len=5, async: the fields of the word from the top down (specification, section 3). */
static void fields_are_numbers_in_the_order_of_the_word(void **state)
{
    (void)state;
    const uint64_t word = UINT64_C(4) << 60 | UINT64_C(0x10) << 39 | UINT64_C(0x20) << 22 | 5 << 6 | 1;
    const int insn = tv_codec_decode(codec, word, NULL);
    uint64_t values[16];
    unsigned n = tv_codec_values(codec, (unsigned)insn, word, values, 16);
    assert_int_equal(n, 10);
    const uint64_t expected[] = {4, 0, 0x10, 0x20, 5, 0, 0, 0, 0, 1};
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(values[i], expected[i]);
    values[1] = 77;
    assert_int_equal(tv_codec_values(codec, (unsigned)insn, word, values, 1), n);
    assert_int_equal(values[1], 77);
    assert_int_equal(tv_codec_values(codec, 9999, word, values, 16), 0);
}

/* ---- Faults ---- */

static void check_uop(uint64_t word, unsigned i, const char *type, unsigned width, uint64_t packed)
{
    tv_uop_info uop;
    int insn = tv_codec_decode(codec, word, NULL);
    assert_true(insn >= 0);
    assert_true(tv_codec_uop_at(codec, (unsigned)insn, i, word, &uop));
    assert_string_equal(uop.type, type);
    assert_int_equal(uop.width, width);
    tv_uop_values values;
    assert_true(tv_codec_uop_values_at(codec, (unsigned)insn, i, word, &values));
    assert_string_equal(values.type, type);
    assert_int_equal(values.width, width);
    assert_true(values.packed == packed);
    char text[TV_CODEC_TEXT] = "";
    for (unsigned f = 0; f < values.field_count; f++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=0x%llx", f ? " " : "", values.fields[f].name,
                 (unsigned long long)values.fields[f].value);
    assert_string_equal(text, uop.fields);
    if (uop.packed != packed)
        fail_msg("uop %u of %016llx: expected %llx, got %llx", i, (unsigned long long)word, (unsigned long long)packed,
                 (unsigned long long)uop.packed);
}

/* Instruction encoding, section 4: a memory uop is route, destination, source, shape pointer and async in 49 bits; the
 * others have the fields of their instruction side by side. */
static void uops_are_packed_in_the_order_of_the_specification(void **state)
{
    (void)state;
    unit_rng rng = {44};
    for (unsigned round = 0; round < 10000; round++) {
        uint64_t r = unit_next(&rng), address = 0x1FFFF;
        uint64_t matrix = (r & 0x0FFFFFFFFF8FFFF8) | (uint64_t)(round & 1) << 60, shape = matrix >> 8 & 63;
        const char *control = round & 1 ? "gemm_control_uop_t" : "GEMV_control_uop_t";
        uint64_t in = round & 1 ? 0x12 : 0x13, out = round & 1 ? 0x21 : 0x31;
        check_uop(matrix, 0, "memory_control_uop_t", 49, in << 41 | (matrix >> 26 & address) << 7 | shape << 1);
        check_uop(matrix, 1, control, 17, (matrix >> 20 & 63) << 11 | (matrix >> 14 & 63) << 5 | (matrix >> 3 & 31));
        check_uop(matrix, 2, "memory_control_uop_t", 49, out << 41 | (matrix >> 43 & address) << 24 | shape << 1);
        static const uint64_t directions[] = {UINT64_C(0x28) << 56, UINT64_C(0x24) << 56, UINT64_C(0x20) << 56},
                              routes[] = {0x01, 0x10, 0x11};
        uint64_t copy = directions[round % 3] | (r & (round % 3 == 2 ? 0x03FFFFFFFF00007F : 0x03FFFFFFFFFFFFFF));
        check_uop(copy, 0, "memory_control_uop_t", 49,
                  routes[round % 3] << 41 | (copy >> 41 & address) << 24 | (copy >> 24 & address) << 7 | (copy & 0x7F));
        uint64_t set = UINT64_C(3) << 60 | (r & 0x07FFFFFFFFFFFFF0); /* bits 59 to 4 */
        check_uop(set, 0, "memory_set_uop_t", 56, set << 4 >> 8);
        uint64_t cvo = UINT64_C(4) << 60 | (r & 0x07FFFFFFFFFFFFF9); /* bits 59 to 0 */
        check_uop(cvo, 0, "memory_control_uop_t", 49, UINT64_C(0x14) << 41 | (cvo >> 39 & address) << 7 | (cvo & 1));
        check_uop(cvo, 1, "cvo_control_uop_t", 60, cvo << 4 >> 4);
        check_uop(cvo, 2, "memory_control_uop_t", 49, UINT64_C(0x41) << 41 | (cvo >> 22 & address) << 24 | (cvo & 1));
    }
}

static void check_fault(uint64_t word, const char *code, unsigned hi, unsigned lo)
{
    tv_decode_fault why = {0};
    if (tv_codec_decode(codec, word, &why) >= 0)
        fail_msg("%016llx is accepted, but breaks %s", (unsigned long long)word, code);
    if (strcmp(why.code, code) != 0 || why.hi > hi || why.lo < lo || why.hi < why.lo)
        fail_msg("%016llx: expected %s in bits %u:%u, got %s in %u:%u", (unsigned long long)word, code, hi, lo,
                 why.code, why.hi, why.lo);
    char where[32];
    snprintf(where, sizeof where, why.hi == why.lo ? "bit %u" : "bits %u:%u", why.hi, why.lo);
    assert_non_null(strstr(why.message, where));
}

static void each_illegal_class_of_section_2_has_its_own_code(void **state)
{
    (void)state;
    unit_rng rng = {7};
    for (unsigned n = 0; n < 500; n++) {
        for (unsigned op = 5; op < 16; op++)
            check_fault(with(unit_next(&rng), 63, 60, op), "TV-P001", 63, 60);
        for (size_t i = 0; i < TV_COUNTOF(spec); i++)
            for (uint64_t v = 1; !spec[i].name && bits(v, 63, spec[i].hi - spec[i].lo + 1) == 0; v++)
                check_fault(with(legal_word(&rng, spec[i].opcode), spec[i].hi, spec[i].lo, v), "TV-P002", spec[i].hi,
                            spec[i].lo);
        check_fault(with(legal_word(&rng, 3), 59, 58, 2), "TV-P003", 59, 58);
        check_fault(with(legal_word(&rng, 3), 59, 58, 3), "TV-P003", 59, 58);
        for (uint64_t func = CVO_FUNCTIONS; func < 16; func++)
            check_fault(with(legal_word(&rng, 4), 59, 56, func), "TV-P004", 59, 56);
        check_fault(with(legal_word(&rng, 2), 59, 58, 3), "TV-P005", 59, 58);
        uint64_t move = with(legal_word(&rng, 2), 59, 58, 0);
        check_fault(with(move, 23, 7, 1 + unit_below(&rng, 0x1FFFF)), "TV-P006", 23, 7);
        check_fault(with(move, 23, 7, UINT64_C(1) << n % 17), "TV-P006", 23, 7);
    }
}

/* Random words, most of whose reserved bits are cleared, so that about half are legal. */
static uint64_t any_word(unit_rng *rng)
{
    uint64_t word = unit_next(rng), dice = unit_next(rng);
    if (dice % 16 == 0)
        return word;
    unsigned opcode = (unsigned)(dice >> 8 & 15) % 6;
    word = with(word, 63, 60, opcode);
    for (size_t i = 0; i < TV_COUNTOF(spec); i++)
        if (!spec[i].name && spec[i].opcode == opcode && dice >> 16 & 7)
            word = with(word, spec[i].hi, spec[i].lo, 0);
    return opcode == 2 && dice >> 24 & 1 ? with(word, 23, 7, 0) : word;
}

static void ten_million_instructions_decode_as_by_the_second_decoder(void **state)
{
    (void)state;
    unit_rng rng = {8};
    const tv_isa *isa = tv_codec_isa(codec);
    unsigned legal = 0;
    for (unsigned n = 0; n < 10000000; n++) {
        uint64_t word = any_word(&rng);
        unsigned faults = spec_faults(word), named = 0;
        tv_illegal why;
        int row = tv_codec_decode(codec, word, NULL);
        if ((row >= 0) != (faults == 0) || tv_codec_row(codec, word, &why) != row)
            fail_msg("%016llx: decoded as %d, faults %02x", (unsigned long long)word, row, faults);
        if (row >= 0) {
            legal++;
            if (strcmp(isa->insns[row].id, spec_id(word)) != 0)
                fail_msg("%016llx is %s", (unsigned long long)word, isa->insns[row].id);
            continue;
        }
        while (named < TV_COUNTOF(fault_codes) && strcmp(fault_codes[named], why.code->code) != 0)
            named++;
        if (!(faults >> named & 1))
            fail_msg("%016llx: %s, faults %02x", (unsigned long long)word, why.code->code, faults);
    }
    assert_in_range(legal, 3000000, 7000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_rows_match_the_same_word),
        cmocka_unit_test(every_bit_of_a_row_is_fixed_reserved_or_an_operand_once),
        cmocka_unit_test(forms_are_unambiguous_and_texts_are_not_empty),
        cmocka_unit_test(fields_are_those_of_the_specification),
        cmocka_unit_test(disassembly_is_the_text_of_the_specification),
        cmocka_unit_test(a_million_legal_instructions_disassemble_and_assemble_back),
        cmocka_unit_test(illegal_instructions_disassemble_to_data_that_assembles_back),
        cmocka_unit_test(instructions_encode_from_their_fields),
        cmocka_unit_test(encode_rejects_values_that_do_not_fit_and_keeps_the_result),
        cmocka_unit_test(fields_are_numbers_in_the_order_of_the_word),
        cmocka_unit_test(uops_are_packed_in_the_order_of_the_specification),
        cmocka_unit_test(each_illegal_class_of_section_2_has_its_own_code),
        cmocka_unit_test(ten_million_instructions_decode_as_by_the_second_decoder),
    };
    return cmocka_run_group_tests(tests, make_codec, free_codec);
}
