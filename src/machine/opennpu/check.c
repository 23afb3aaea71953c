/* SPDX-License-Identifier: Apache-2.0 */
/* The static check of an OpenNPU program: decode faults, segments past a bank, and who wrote what is read: base rows,
 * LUT segments, ACC. Assumes a machine that has just been reset. Data memory is not followed: addresses are data. */
#include <inttypes.h>
#include <stdlib.h>

#include "machine/opennpu/machine.h"
#include "machine/opennpu/params.h"

/* What can be written and read: the base rows, the segments of the LUT banks, ACC. */
enum {
    SEGMENTS_MAX = OPENNPU_LUT_ENTRIES / (4 * 4),
    PLACE_LUT = OPENNPU_L_MAX,
    PLACE_ACC = PLACE_LUT + OPENNPU_BANKS * SEGMENTS_MAX,
    PLACES
};

typedef struct span {
    unsigned first, count;
} span;

typedef struct checker {
    const tv_program *program;
    tv_findings findings;
    const tv_codec *codec;
    opennpu_opcode_info shapes[OPENNPU_INSNS];
    uint32_t k, l, segments;
    uint64_t index;
    int64_t writer[PLACES]; /* the instruction that wrote it last, -1: none */
    bool read[PLACES];      /* … and whether that has been read */
    bool said[PLACES];      /* a read of what was never written, once */
    uint8_t *left; /* of each instruction's result: places not overwritten unread; UINT8_MAX: some were of use */
    bool stopped, proposed;
} checker;

static void stop(checker *c, unsigned code, const char *message)
{
    tv_findings_report(&c->findings, TV_ERROR, code, c->index, c->stopped ? NULL : "the machine stops here", "%s",
                       message);
    c->stopped = true;
}

/* "vr3", "entries 16 to 31 of LUT bank A", "ACC" */
static void name_of(const checker *c, span s, char text[48])
{
    static const char *const classes[] = {[1] = "vx", [2] = "ve", [4] = "vr"};
    if (s.first >= PLACE_ACC) {
        snprintf(text, 48, "ACC");
    } else if (s.first >= PLACE_LUT) {
        unsigned bank = (s.first - PLACE_LUT) / SEGMENTS_MAX, segment = (s.first - PLACE_LUT) % SEGMENTS_MAX;
        snprintf(text, 48, "entries %u to %u of LUT bank %c", segment * 4 * c->k, (segment + s.count) * 4 * c->k - 1,
                 'A' + (int)bank);
    } else {
        snprintf(text, 48, "%s%u", classes[s.count], s.first / s.count);
    }
}

/* One warning for a register, or for a row of segments, that nothing has written. */
static void read_span(checker *c, span s)
{
    span never = {0};
    for (unsigned i = s.first; i < s.first + s.count; i++) {
        c->read[i] = true;
        if (c->writer[i] >= 0 || c->said[i])
            continue;
        c->said[i] = true;
        never = never.count ? (span){never.first, i - never.first + 1} : (span){i, 1};
    }
    if (!never.count)
        return;
    char name[48];
    name_of(c, s.first < PLACE_LUT ? s : never, name);
    tv_findings_report(&c->findings, TV_WARNING, OPENNPU_CODE_NEVER_WRITTEN, c->index,
                       "it is zero after reset; --load sets it", "%s is read, but nothing has written it", name);
}

static const char *mnemonic_at(const checker *c, uint64_t index)
{
    int row = tv_codec_row(c->codec, tv_program_word(c->program, index), NULL);
    return row < 0 ? "?" : tv_isa_opennpu.insns[row].mnemonic;
}

/* A result is dead when all its places are overwritten and none has been read. */
static void write_span(checker *c, span s)
{
    for (unsigned i = s.first; i < s.first + s.count; i++) {
        int64_t old = c->writer[i];
        if (old >= 0 && c->read[i])
            c->left[old] = UINT8_MAX;
        if (old >= 0 && c->left[old] != UINT8_MAX && --c->left[old] == 0) {
            char name[48];
            name_of(c, i < PLACE_LUT ? s : (span){i, 1}, name);
            tv_findings_report(
                &c->findings, TV_WARNING, OPENNPU_CODE_DEAD_WRITE, (uint64_t)old, "leave out one of them",
                "the result of %s is overwritten by instruction %" PRIu64 ", which writes %s, before anything reads it",
                mnemonic_at(c, (uint64_t)old), c->index, name);
        }
        c->writer[i] = (int64_t)c->index;
        c->read[i] = false;
    }
    c->left[c->index] = (uint8_t)s.count;
}

static span rows_of(const opennpu_op *op, unsigned r) { return (span){op->rows[r].first, op->rows[r].count}; }

/* It moves on to the next column, too: never without use. */
static bool is_drain(unsigned insn) { return insn == OPENNPU_MMA_LAST || insn == OPENNPU_MMA_LAST_KEEP; }

static bool writes_a_part(unsigned insn)
{
    return (insn >= OPENNPU_LD_B && insn <= OPENNPU_LD_W) || insn == OPENNPU_MOVI || insn == OPENNPU_MOVH;
}

static const span acc = {PLACE_ACC, 1};

static void check_array(checker *c, const opennpu_op *op)
{
    if (is_drain(op->insn) || (op->insn == OPENNPU_MMA && op->sat))
        read_span(c, acc);
    if (op->insn != OPENNPU_MMA_LAST)
        write_span(c, acc);
}

static void check_segment(checker *c, const opennpu_op *op)
{
    int64_t first;
    char message[120];
    unsigned bank = op->insn == OPENNPU_VSETLUT_B;
    snprintf(message, sizeof message, OPENNPU_LUT_RANGE_MESSAGE, op->imm, (int64_t)op->imm * 4 * c->k,
             OPENNPU_LUT_ENTRIES);
    if (opennpu_segment_in_bank(op, c->k, &first))
        write_span(c, (span){PLACE_LUT + bank * SEGMENTS_MAX + (unsigned)op->imm, 1});
    else
        stop(c, OPENNPU_CODE_LUT_RANGE, message);
}

static void mark_read(checker *c, span s)
{
    for (unsigned i = s.first; i < s.first + s.count; i++)
        c->read[i] = true;
}

static void check_op(checker *c, const opennpu_op *op)
{
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++)
        if (op->reads >> r & 1)
            read_span(c, rows_of(op, r));
    if (op->insn == OPENNPU_VLUT_A || op->insn == OPENNPU_VLUT_B)
        read_span(c, (span){PLACE_LUT + (op->insn == OPENNPU_VLUT_B ? SEGMENTS_MAX : 0), c->segments});
    if (c->shapes[op->insn].engine == OPENNPU_MMA_ARRAY)
        check_array(c, op);
    if (op->insn == OPENNPU_VSETLUT_A || op->insn == OPENNPU_VSETLUT_B)
        check_segment(c, op);
    if (op->writes) {
        if (writes_a_part(op->insn))
            mark_read(c, rows_of(op, OPENNPU_RD)); /* the other lanes stay what they were */
        write_span(c, rows_of(op, OPENNPU_RD));
        if (is_drain(op->insn))
            mark_read(c, rows_of(op, OPENNPU_RD));
    }
}

static void check_word(checker *c)
{
    opennpu_illegal illegal;
    opennpu_op op;
    if (!opennpu_decode(c->codec, c->shapes, (uint32_t)tv_program_word(c->program, c->index), c->l, &op, &illegal)) {
        tv_buf text = {0};
        opennpu_print_illegal(&illegal, c->l, &text);
        stop(c, (unsigned)(illegal.why.code - opennpu_codes), tv_buf_cstr(&text));
        tv_buf_fini(&text);
        return;
    }
    if (c->stopped)
        return; /* nothing is known of what would come after; only words that are no instructions are still told */
    if (tv_isa_opennpu.insns[op.insn].proposed && !c->proposed) {
        c->proposed = true;
        tv_findings_report(&c->findings, TV_WARNING, OPENNPU_CODE_PROPOSED, c->index,
                           "bcast.imm and ld are on every machine; `.option proposed` says that this is known", "%s",
                           opennpu_codes[OPENNPU_CODE_PROPOSED].text);
    }
    check_op(c, &op);
}

tv_status opennpu_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                        tv_check_counts *counts)
{
    checker c = {.program = program,
                 .findings = {.program = program, .sink = sink, .codes = opennpu_codes, .counts = counts},
                 .k = (uint32_t)tv_config_integer(config, OPENNPU_PARAM_K),
                 .l = (uint32_t)tv_config_integer(config, OPENNPU_PARAM_L),
                 .proposed = program->proposed || program->proposed_said};
    c.segments = OPENNPU_LUT_ENTRIES / (4 * c.k);
    c.left = calloc(tv_program_instruction_count(program) + 1, 1);
    tv_codec *codec = NULL;
    tv_status status = c.left ? tv_codec_new_for(&tv_isa_opennpu, sink, &codec) : tv_fail_memory(sink);
    if (status == TV_OK) {
        c.codec = codec;
        opennpu_opcode_info_init(c.shapes, config);
        for (unsigned i = 0; i < PLACES; i++)
            c.writer[i] = -1;
        for (; c.index < tv_program_instruction_count(program); c.index++)
            check_word(&c);
        tv_findings_report_omitted(&c.findings);
    }
    tv_codec_free(codec);
    free(c.left);
    return status;
}
