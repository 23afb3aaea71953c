/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs, from the tables of an instruction set. A word is drawn field by field; words that are no instruction
 * are dropped, and so are those that fault on the machine that executes the program while it is made. Nothing here
 * depends on the host: the generator of random numbers is SplitMix64. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/diag.h"
#include "isa/isa.h"
#include "machine/instance.h"
#include "program/build.h"
#include "trivet/commit.h"
#include "trivet/gen.h"

enum { DATA_BYTES = 4096, LINE_BYTES = 16, EARLIER = 8, TRIES = 32, SIZE_BITS = 8, DESCRIPTORS_MAX = 4096 };

typedef struct generator {
    const tv_isa *isa;
    tv_codec *codec;
    tv_machine *machine;
    tv_builder builder;
    tv_program *prelude; /* data and streams, without instructions */
    tv_buf text;
    uint64_t random;               /* state */
    uint64_t earlier[65][EARLIER]; /* values of fields of each width, in earlier instructions */
    uint64_t rejected;
} generator;

/* ---- Values ---- */

static uint64_t draw(generator *g)
{
    uint64_t z = g->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static unsigned draw_below(generator *g, unsigned limit) { return (unsigned)(draw(g) % limit); }

/* 0, 1, max, max - 1 or one bit. */
static uint64_t draw_corner(generator *g, unsigned width)
{
    uint64_t max = tv_mask(width);
    switch (draw_below(g, 5)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return max;
    case 3:
        return max - 1;
    }
    return UINT64_C(1) << draw_below(g, width);
}

/* A quarter are corners, a quarter are at a small distance from a value of an earlier instruction, so that ranges
 * overlap and registers depend on each other; of the others each magnitude is as likely. */
static uint64_t draw_value(generator *g, unsigned width)
{
    uint64_t kind = draw(g), value = draw(g);
    if (kind % 4 == 0)
        return draw_corner(g, width);
    if (kind % 4 == 1)
        return (g->earlier[width][value % EARLIER] + (value >> 8) % 5 - 2 * ((value >> 16) & 1)) & tv_mask(width);
    return value & tv_mask(width > SIZE_BITS ? 1 + draw_below(g, width) : width);
}

/* Long instructions take the time of many short ones: one size in 64 has all of its bits. */
static uint64_t draw_field(generator *g, const tv_field *field)
{
    unsigned width = tv_field_width(g->isa, field);
    bool is_size = width > SIZE_BITS && field->kind && field->kind->syntax == TV_SYNTAX_UINT;
    uint64_t value = draw_value(g, is_size && draw_below(g, 64) ? SIZE_BITS : width);
    return field->limit ? value % field->limit : value;
}

static bool find_fixed(const tv_insn *insn, uint16_t field, uint64_t *value)
{
    for (unsigned i = 0; i < insn->fixed_count; i++)
        if (insn->fixed[i].field == field) {
            *value = insn->fixed[i].value;
            return true;
        }
    return false;
}

/* A number of which the instruction uses only the low bits is the sign extension of these. */
static uint64_t extend_number(const generator *g, const tv_insn *insn, uint16_t field, uint64_t value)
{
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand_kind *kind = tv_operand_kind_of(g->isa, &insn->operands[i]);
        if (insn->operands[i].field != field || !kind || !kind->kept_bits)
            continue;
        uint64_t sign = UINT64_C(1) << (kind->kept_bits - 1), low = value & tv_mask(kind->kept_bits);
        return ((low ^ sign) - sign) & tv_mask(tv_field_width(g->isa, &g->isa->fields[field]));
    }
    return value;
}

/* ---- Instructions ---- */

static uint64_t draw_word(generator *g, const tv_insn *insn)
{
    unsigned count;
    const uint16_t *fields = tv_codec_format_fields(g->codec, insn->format, &count);
    uint64_t word = 0;
    for (unsigned i = 0; i < count; i++) {
        const tv_field *field = &g->isa->fields[fields[i]];
        uint64_t value = 0;
        if (!find_fixed(insn, fields[i], &value) && field->role != TV_FIELD_RESERVED &&
            !tv_isa_ignores(g->isa, insn, fields[i]))
            value = extend_number(g, insn, fields[i], draw_field(g, field));
        word = tv_field_set(g->isa, field, word, value);
    }
    return word;
}

static void remember_values(generator *g, const tv_insn *insn, uint64_t word)
{
    unsigned count;
    const uint16_t *fields = tv_codec_format_fields(g->codec, insn->format, &count);
    for (unsigned i = 0; i < count; i++) {
        const tv_field *field = &g->isa->fields[fields[i]];
        g->earlier[tv_field_width(g->isa, field)][draw_below(g, EARLIER)] = tv_field_get(g->isa, field, word);
    }
}

/* Appends an instruction that the machine executes. All instructions of the set are as likely; one that faults in
 * TRIES forms gives way to another. */
static tv_status append_instruction(generator *g)
{
    char text[TV_CODEC_TEXT];
    for (;;) {
        unsigned row = draw_below(g, g->isa->insn_count);
        const tv_insn *insn = &g->isa->insns[row];
        for (unsigned i = 0; i < TRIES && !insn->proposed; i++, g->rejected++) {
            tv_commit commit;
            uint64_t word = draw_word(g, insn);
            if (tv_codec_row(g->codec, word, NULL) != (int)row)
                continue;
            TV_TRY(tv_machine_execute(g->machine, word, 0, &commit));
            if (commit.fault)
                continue;
            remember_values(g, insn, word);
            tv_codec_disassemble(g->codec, word, text);
            tv_buf_printf(&g->text, "        %s\n", text);
            return g->text.failed ? TV_ERR_MEMORY : TV_OK;
        }
    }
}

/* ---- Data ---- */

/* A 16-bit value: any, one of a BF16 number near 1, or a small multiple of 16, which serves as an address. */
static uint64_t draw_datum(generator *g, unsigned kind)
{
    uint64_t value = draw(g);
    switch (kind % 4) {
    case 0:
        return value & 0xFFFF;
    case 1:
        return (value & 0x8000) | (0x3C00 + (value & 0x7FF));
    case 2:
        return draw_corner(g, 16);
    }
    return value & 0x7F0;
}

/* Data are pairs of values of one kind, or an address with a zero above it. */
static void append_data(generator *g)
{
    uint8_t data[DATA_BYTES];
    tv_buf_str(&g->text, "        .data 0x0");
    for (unsigned at = 0; at < DATA_BYTES; at += 4) {
        unsigned kind = draw_below(g, 4);
        uint64_t low = draw_datum(g, kind), high = kind == 3 ? 0 : draw_datum(g, kind);
        for (unsigned i = 0; i < 4; i++)
            data[at + i] = (uint8_t)((i < 2 ? low : high) >> i % 2 * 8);
        tv_buf_printf(&g->text,
                      at % LINE_BYTES ? ",0x%02x,0x%02x,0x%02x,0x%02x" : "\n        .byte 0x%02x,0x%02x,0x%02x,0x%02x",
                      data[at], data[at + 1], data[at + 2], data[at + 3]);
    }
    tv_buf_str(&g->text, "\n        .text\n");
    tv_builder_data(&g->builder, 0, data, sizeof data);
}

/* Streams in descriptors of many sizes, over the same data. */
static void append_streams(generator *g, uint64_t instructions)
{
    uint64_t count = tv_min_u64(16 + instructions / 4, DESCRIPTORS_MAX);
    for (unsigned k = 0; g->isa->streams && g->isa->streams[k]; k++)
        for (uint64_t i = 0; i < count; i++) {
            unsigned addr = draw_below(g, DATA_BYTES / 16) * 16;
            unsigned bytes = 16 * (1 + draw_below(g, (DATA_BYTES - addr) / 16));
            tv_buf_printf(&g->text, "        wstream %s, 0x%x, 0x%x\n", g->isa->streams[k], addr, bytes);
            tv_builder_stream(&g->builder, k, addr, bytes);
        }
}

static tv_status load_prelude(generator *g, const tv_generate_options *options, const tv_diag_sink *sink)
{
    tv_buf_printf(&g->text, "; seed %" PRIu64 ", %" PRIu64 " instructions\n        .target %s\n", options->seed,
                  options->instructions, g->isa->target);
    append_streams(g, options->instructions);
    append_data(g);
    TV_TRY(tv_builder_finish(&g->builder, sink, &g->prelude));
    return tv_machine_load(g->machine, g->prelude, sink);
}

/* ---- The interface ---- */

static tv_status generate(generator *g, const tv_config *config, const tv_generate_options *options,
                          const tv_diag_sink *sink)
{
    TV_TRY(tv_machine_new(config, TV_MODE_FUNCTIONAL, sink, &g->machine));
    g->isa = g->builder.isa = g->machine->target->isa;
    if (!g->isa->word_bits)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL, "%s has no instruction words to generate",
                       g->isa->target);
    if (!options->instructions || options->instructions > TV_GENERATE_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL,
                       "a generated program has 1 to %" PRIu64 " instructions, not %" PRIu64, TV_GENERATE_MAX,
                       options->instructions);
    TV_TRY(tv_codec_new_for(g->isa, sink, &g->codec));
    TV_TRY(load_prelude(g, options, sink));
    for (uint64_t i = 0; i < options->instructions; i++)
        if (append_instruction(g) != TV_OK)
            return tv_fail_memory(sink);
    return TV_OK;
}

tv_status tv_program_generate(const tv_config *config, const tv_generate_options *options, const tv_diag_sink *sink,
                              tv_generated *out)
{
    tv_generate_options own = {.size = sizeof own};
    if (!tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_generate_options, instructions), options))
        return tv_fail_size(sink, "tv_generate_options");
    *out = (tv_generated){0};
    generator *g = calloc(1, sizeof *g);
    if (!g)
        return tv_fail_memory(sink);
    g->random = own.seed;
    tv_status status = generate(g, config, &own, sink);
    if (status == TV_OK) {
        *out = (tv_generated){tv_buf_take(&g->text), own.instructions, g->rejected};
        status = out->source ? TV_OK : tv_fail_memory(sink);
    }
    tv_machine_free(g->machine);
    tv_program_free(g->prelude);
    tv_builder_fini(&g->builder);
    tv_codec_free(g->codec);
    tv_buf_fini(&g->text);
    free(g);
    return status;
}
