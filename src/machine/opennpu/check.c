/* SPDX-License-Identifier: Apache-2.0 */
/* The static check of an OpenNPU program: decode faults, LUT segments past the bank, reads of what nothing has written
 * and results that nothing reads. It tracks the last writer of each base row, LUT segment and of ACC from reset on;
 * data memory is not tracked, because addresses are data. */
#include <inttypes.h>
#include <stdlib.h>

#include "machine/opennpu/internal.h"
#include "machine/opennpu/params.h"

/* Tracked resources: the base rows, the segments of the LUT banks, ACC. */
enum {
    SEGMENTS_MAX = OPENNPU_LUT_ENTRIES / (4 * 4),
    RESOURCE_LUT = OPENNPU_L_MAX,
    RESOURCE_ACC = RESOURCE_LUT + OPENNPU_BANKS * SEGMENTS_MAX,
    RESOURCES
};

typedef struct span {
    unsigned first, count;
} span;

enum { USED = UINT8_MAX };

typedef struct checker {
    const tv_program *program;
    tv_findings findings;
    const tv_codec *codec;
    opennpu_opcodes opcodes;
    uint32_t k, l, segments;
    uint64_t index;
    int64_t writer[RESOURCES]; /* index of the last instruction that wrote it; -1: none */
    bool read[RESOURCES];      /* the last write has been read */
    bool reported[RESOURCES];  /* a read before any write is reported once */
    uint8_t *live; /* per instruction: resources of its result not yet overwritten unread; USED: some have been read */
    bool stopped;  /* at a fault: later instructions are only decoded */
    bool proposed; /* the proposed extension is known or has been reported */
} checker;

static void report_stop(checker *c, unsigned code, const char *message)
{
    tv_findings_report(&c->findings, TV_ERROR, code, c->index, c->stopped ? NULL : "the machine stops here", "%s",
                       message);
    c->stopped = true;
}

/* "vr3", "entries 16 to 31 of LUT bank A", "ACC" */
static void print_span(const checker *c, span s, char text[48])
{
    static const char *const classes[] = {[1] = "vx", [2] = "ve", [4] = "vr"};
    if (s.first >= RESOURCE_ACC) {
        snprintf(text, 48, "ACC");
    } else if (s.first >= RESOURCE_LUT) {
        unsigned bank = (s.first - RESOURCE_LUT) / SEGMENTS_MAX, segment = (s.first - RESOURCE_LUT) % SEGMENTS_MAX;
        snprintf(text, 48, "entries %u to %u of LUT bank %c", segment * 4 * c->k, (segment + s.count) * 4 * c->k - 1,
                 'A' + (int)bank);
    } else {
        snprintf(text, 48, "%s%u", classes[s.count], s.first / s.count);
    }
}

/* Reports a register, or a range of segments, that nothing has written in one warning. */
static void read_span(checker *c, span s)
{
    span never = {0};
    for (unsigned i = s.first; i < s.first + s.count; i++) {
        c->read[i] = true;
        if (c->writer[i] >= 0 || c->reported[i])
            continue;
        c->reported[i] = true;
        never = never.count ? (span){never.first, i - never.first + 1} : (span){i, 1};
    }
    if (!never.count)
        return;
    char name[48];
    print_span(c, s.first < RESOURCE_LUT ? s : never, name);
    tv_findings_report(&c->findings, TV_WARNING, OPENNPU_CODE_NEVER_WRITTEN, c->index,
                       "it is zero after reset; --load sets it", "%s is read, but nothing has written it", name);
}

static const char *mnemonic_at(const checker *c, uint64_t index)
{
    int row = tv_codec_row(c->codec, tv_program_word(c->program, index), NULL);
    return row < 0 ? "?" : tv_isa_opennpu.insns[row].mnemonic;
}

/* A result is dead when all its resources are overwritten and none has been read. */
static void write_span(checker *c, span s)
{
    for (unsigned i = s.first; i < s.first + s.count; i++) {
        int64_t old = c->writer[i];
        if (old >= 0 && c->read[i])
            c->live[old] = USED;
        if (old >= 0 && c->live[old] != USED && --c->live[old] == 0) {
            char name[48];
            print_span(c, i < RESOURCE_LUT ? s : (span){i, 1}, name);
            tv_findings_report(
                &c->findings, TV_WARNING, OPENNPU_CODE_DEAD_WRITE, (uint64_t)old, "leave out one of them",
                "the result of %s is overwritten by instruction %" PRIu64 ", which writes %s, before anything reads it",
                mnemonic_at(c, (uint64_t)old), c->index, name);
        }
        c->writer[i] = (int64_t)c->index;
        c->read[i] = false;
    }
    c->live[c->index] = (uint8_t)s.count;
}

static span register_span(const opennpu_op *op, unsigned r) { return (span){op->rows[r].first, op->rows[r].count}; }

static const span acc = {RESOURCE_ACC, 1};

static void check_array(checker *c, const opennpu_op *op)
{
    if (op->effects & OPENNPU_READS_ACC)
        read_span(c, acc);
    if (op->effects & OPENNPU_WRITES_ACC)
        write_span(c, acc);
}

static span bank_segments(const opennpu_op *op, unsigned first, unsigned count)
{
    return (span){RESOURCE_LUT + (op->effects & OPENNPU_BANK_B ? (unsigned)SEGMENTS_MAX : 0) + first, count};
}

static void check_segment(checker *c, const opennpu_op *op)
{
    int64_t first;
    char message[120];
    snprintf(message, sizeof message, OPENNPU_LUT_RANGE_MESSAGE, op->imm, (int64_t)op->imm * 4 * c->k,
             OPENNPU_LUT_ENTRIES);
    if (opennpu_segment_in_bank(op, c->k, &first))
        write_span(c, bank_segments(op, (unsigned)op->imm, 1));
    else
        report_stop(c, OPENNPU_CODE_LUT_RANGE, message);
}

static void mark_read(checker *c, span s)
{
    for (unsigned i = s.first; i < s.first + s.count; i++)
        c->read[i] = true;
}

static void check_result(checker *c, const opennpu_op *op)
{
    span rd = register_span(op, OPENNPU_RD);
    if (op->effects & OPENNPU_LANE0_ONLY)
        mark_read(c, rd); /* its other lanes are still of use */
    write_span(c, rd);
    if (op->effects & OPENNPU_DRAINS)
        mark_read(c, rd); /* it also moves on to the next column, so its result may go unread */
}

static void check_op(checker *c, const opennpu_op *op)
{
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++)
        if (op->reads >> r & 1)
            read_span(c, register_span(op, r));
    if (op->effects & OPENNPU_READS_LUT)
        read_span(c, bank_segments(op, 0, c->segments));
    check_array(c, op);
    if (op->effects & OPENNPU_WRITES_LUT)
        check_segment(c, op);
    if (op->writes)
        check_result(c, op);
}

/* Notes the fields that the machine ignores; multiplicands of mma.last are a warning, because their product is lost. */
static void check_ignored(checker *c, const opennpu_op *op)
{
    const tv_insn *insn = &tv_isa_opennpu.insns[op->insn];
    tv_buf names = {0};
    for (uint16_t i = OPENNPU_FIELDS; i-- > 0;) {
        const tv_field *field = &tv_isa_opennpu.fields[i];
        uint64_t value = field->format == insn->format && field->role == TV_FIELD_VALUE
                             ? tv_field_get(&tv_isa_opennpu, field, op->word)
                             : 0;
        bool multiplicand = op->insn == OPENNPU_MMA_LAST && (i == OPENNPU_F_R_rs1 || i == OPENNPU_F_R_rs2);
        if (value && !multiplicand && tv_isa_ignores(&tv_isa_opennpu, insn, i))
            tv_buf_printf(&names, "%s'%s' = %" PRIu64, names.len ? ", " : "", field->name, value);
    }
    if (names.len || names.failed)
        tv_findings_report(&c->findings, TV_NOTE, OPENNPU_CODE_IGNORED, c->index, NULL, "%s: ignored by the machine",
                           tv_findings_text(&c->findings, &names));
    tv_buf_fini(&names);
    uint32_t a = opennpu_R_rs1(op->word), b = opennpu_R_rs2(op->word);
    if (op->insn == OPENNPU_MMA_LAST && (a || b))
        tv_findings_report(&c->findings, TV_WARNING, OPENNPU_CODE_LOST_PRODUCT, c->index,
                           "mma.last.keep adds their product to ACC before it reads the column",
                           "mma.last ignores its multiplicands vx%u and vx%u: their product is lost", a, b);
}

static void check_word(checker *c)
{
    opennpu_illegal illegal;
    opennpu_op op;
    if (!opennpu_decode(c->codec, &c->opcodes, (uint32_t)tv_program_word(c->program, c->index), c->l, &op, &illegal)) {
        char storage[TV_CODEC_TEXT];
        tv_buf text = TV_BUF_FIXED(storage);
        opennpu_print_illegal(&illegal, c->l, &text);
        report_stop(c, (unsigned)(illegal.why.code - opennpu_codes), tv_findings_text(&c->findings, &text));
        tv_buf_fini(&text);
        return;
    }
    if (c->stopped)
        return; /* the machine does not get here; only illegal words are still reported */
    if (tv_isa_opennpu.insns[op.insn].proposed && !c->proposed) {
        c->proposed = true;
        tv_findings_report(&c->findings, TV_WARNING, OPENNPU_CODE_PROPOSED, c->index,
                           "bcast.imm and ld are on every machine; silence this with `.option proposed`", "%s",
                           opennpu_codes[OPENNPU_CODE_PROPOSED].text);
    }
    check_ignored(c, &op);
    check_op(c, &op);
}

tv_status opennpu_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                        tv_check_counts *counts)
{
    checker c = {.program = program,
                 .findings = {.program = program, .sink = sink, .codes = opennpu_codes, .counts = counts},
                 .k = (uint32_t)tv_config_integer(config, OPENNPU_PARAM_K),
                 .l = (uint32_t)tv_config_integer(config, OPENNPU_PARAM_L),
                 .proposed = program->proposed || program->warned_proposed};
    c.segments = OPENNPU_LUT_ENTRIES / (4 * c.k);
    c.live = calloc(tv_program_instruction_count(program) + 1, 1);
    tv_codec *codec = NULL;
    tv_status status = c.live ? tv_codec_new_for(&tv_isa_opennpu, sink, &codec) : tv_fail_memory(sink);
    if (status == TV_OK)
        status = opennpu_opcodes_init(&c.opcodes, config, sink);
    if (status == TV_OK) {
        c.codec = codec;
        for (unsigned i = 0; i < RESOURCES; i++)
            c.writer[i] = -1;
        for (; c.index < tv_program_instruction_count(program); c.index++)
            check_word(&c);
        status = tv_findings_finish(&c.findings);
    }
    opennpu_opcodes_fini(&c.opcodes);
    tv_codec_free(codec);
    free(c.live);
    return status;
}
