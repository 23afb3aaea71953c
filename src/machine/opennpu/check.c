/* SPDX-License-Identifier: Apache-2.0 */
/* The static check of an OpenNPU program: decode faults, and who wrote what is read: base rows, LUT banks, ACC. Assumes a
 * machine that has just been reset. Data memory is not followed: addresses are data. */
#include <inttypes.h>
#include <stdlib.h>

#include "machine/opennpu/machine.h"
#include "machine/opennpu/params.h"

/* What can be written and read: the base rows, then the LUT banks, then ACC. */
enum { PLACE_LUT = OPENNPU_L_MAX, PLACE_ACC = PLACE_LUT + OPENNPU_BANKS, PLACES };

typedef struct checker {
    const tv_program *program;
    const tv_diag_sink *sink;
    tv_check_counts *counts;
    uint64_t index;
    int64_t writer[PLACES]; /* the instruction that wrote it last, -1: none */
    bool read[PLACES];      /* … and whether that has been read */
    uint8_t *rows_left;     /* of each instruction's result: rows not overwritten unread; UINT8_MAX: some were read */
    bool said[PLACES];      /* a read of what was never written, once */
    bool stopped, proposed;
} checker;

static void say(checker *c, tv_severity severity, opennpu_code code, uint64_t index, const char *hint, const char *format, ...) TV_PRINTF(6, 7);

static void say(checker *c, tv_severity severity, opennpu_code code, uint64_t index, const char *hint, const char *format, ...)
{
    tv_source_line line;
    tv_place place = {.index = (int64_t)index};
    if (tv_program_line(c->program, index, &line)) {
        place.file = line.file;
        place.line = line.line;
        place.column = line.column;
    }
    va_list args;
    va_start(args, format);
    tv_buf text = {0};
    tv_buf_vprintf(&text, format, args);
    va_end(args);
    tv_report(c->sink, severity, &opennpu_codes[code], &place, hint, "%s", tv_buf_cstr(&text));
    tv_buf_fini(&text);
    *(severity == TV_ERROR ? &c->counts->errors : &c->counts->warnings) += 1;
}

static void stop(checker *c, const tv_illegal *illegal)
{
    tv_buf text = {0};
    tv_isa_print_illegal(&tv_isa_opennpu, illegal, &text);
    say(c, TV_ERROR, (opennpu_code)(illegal->code - opennpu_codes), c->index, c->stopped ? NULL : "the machine stops here", "%s", tv_buf_cstr(&text));
    tv_buf_fini(&text);
    c->stopped = true;
}

static void place_name(unsigned place, char text[32])
{
    if (place == PLACE_ACC)
        snprintf(text, 32, "ACC");
    else if (place >= PLACE_LUT)
        snprintf(text, 32, "LUT bank %c", (int)('A' + (int)(place - PLACE_LUT)));
    else
        snprintf(text, 32, "vx%u", place);
}

/* True when it warned: one warning for a register is enough. */
static bool read_place(checker *c, unsigned place)
{
    char name[32];
    bool never = c->writer[place] < 0 && !c->said[place];
    place_name(place, name);
    if (never)
        say(c, TV_WARNING, OPENNPU_CODE_NEVER_WRITTEN, c->index, "it is zero after reset; --load sets it", "%s is read, but nothing has written it", name);
    c->read[place] = true;
    c->said[place] = c->said[place] || never;
    return never;
}

/* A result is dead when all its rows are overwritten and none has been read. */
static void write_rows(checker *c, opennpu_rows rows)
{
    for (unsigned i = 0; i < rows.count; i++) {
        unsigned place = rows.first + i;
        int64_t old = c->writer[place];
        if (old >= 0 && c->read[place])
            c->rows_left[old] = UINT8_MAX; /* it was of use */
        if (old >= 0 && c->rows_left[old] != UINT8_MAX && --c->rows_left[old] == 0)
            say(c, TV_WARNING, OPENNPU_CODE_DEAD_WRITE, (uint64_t)old, NULL,
                "its result is overwritten by instruction %" PRIu64 " before anything reads it", c->index);
        c->writer[place] = (int64_t)c->index;
        c->read[place] = false;
    }
    c->rows_left[c->index] = rows.count;
}

static void write_place(checker *c, unsigned place)
{
    c->writer[place] = (int64_t)c->index;
    c->read[place] = false;
}

static void check_op(checker *c, const opennpu_op *op)
{
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++)
        for (unsigned i = 0; op->reads >> r & 1 && i < op->rows[r].count; i++)
            if (read_place(c, op->rows[r].first + i))
                break;
    if (op->insn == OPENNPU_VLUT_A || op->insn == OPENNPU_VLUT_B)
        read_place(c, PLACE_LUT + (op->insn == OPENNPU_VLUT_B));
    if (op->insn == OPENNPU_MMA_LAST || op->insn == OPENNPU_MMA_LAST_KEEP)
        read_place(c, PLACE_ACC);
    bool part = (op->insn >= OPENNPU_LD_B && op->insn <= OPENNPU_LD_W) || op->insn == OPENNPU_MOVI || op->insn == OPENNPU_MOVH;
    for (unsigned i = 0; part && i < op->rows[OPENNPU_RD].count; i++)
        c->read[op->rows[OPENNPU_RD].first + i] = true; /* the other lanes stay what they were */
    if (op->writes)
        write_rows(c, op->rows[OPENNPU_RD]);
    if (op->insn == OPENNPU_VSETLUT_A || op->insn == OPENNPU_VSETLUT_B)
        write_place(c, PLACE_LUT + (op->insn == OPENNPU_VSETLUT_B));
    if (op->insn == OPENNPU_MMA || op->insn == OPENNPU_MMA_RESET)
        write_place(c, PLACE_ACC);
}

static void check_word(checker *c, const tv_codec *codec, const opennpu_shape *shapes, uint32_t l)
{
    uint32_t word = (uint32_t)tv_program_word(c->program, c->index);
    tv_illegal illegal;
    opennpu_op op;
    if (!opennpu_decode(codec, shapes, word, l, &op, &illegal)) {
        stop(c, &illegal);
        return;
    }
    if (tv_isa_opennpu.insns[op.insn].proposed && !c->proposed) {
        c->proposed = true;
        say(c, TV_WARNING, OPENNPU_CODE_PROPOSED, c->index, "bcast.imm and ld are on every machine; `.option proposed` says that this is known", "%s",
            opennpu_codes[OPENNPU_CODE_PROPOSED].text);
    }
    check_op(c, &op);
}

tv_status opennpu_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink, tv_check_counts *counts)
{
    checker c = {.program = program, .sink = sink, .counts = counts, .proposed = tv_program_proposed(program)};
    tv_codec *codec;
    c.rows_left = calloc(tv_program_word_count(program) + 1, 1);
    tv_status status = c.rows_left ? tv_codec_make(&tv_isa_opennpu, sink, &codec) : tv_fail_memory(sink);
    if (status != TV_OK) {
        free(c.rows_left);
        return status;
    }
    opennpu_shape shapes[OPENNPU_INSNS];
    opennpu_shapes_init(shapes, config);
    for (unsigned i = 0; i < PLACES; i++)
        c.writer[i] = -1;
    for (c.index = 0; c.index < tv_program_word_count(program); c.index++)
        check_word(&c, codec, shapes, (uint32_t)tv_config_integer(config, OPENNPU_PARAM_L));
    tv_codec_free(codec);
    free(c.rows_left);
    return TV_OK;
}
