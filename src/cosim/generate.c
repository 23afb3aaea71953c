/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs, from the tables of an instruction set. A word is drawn field by field; words that are no instruction
 * are dropped, and so are those that fault on the machine that executes the program while it is made. Nothing here
 * depends on the host: the generator of random numbers is SplitMix64. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/diag.h"
#include "cosim/generator.h"
#include "machine/instance.h"
#include "program/build.h"
#include "trivet/gen.h"

enum { DATA_BYTES = 4096, LINE_BYTES = 16, EARLIER = 8, TRIES = 32, SIZE_BITS = 8, DESCRIPTORS_MAX = 4096 };

struct tv_generator {
    const tv_isa *isa;
    tv_codec *codec;
    tv_machine *machine;
    tv_builder builder;
    tv_program *prelude; /* data and streams, without instructions */
    tv_buf text;
    uint64_t random;               /* state */
    uint64_t earlier[65][EARLIER]; /* values of fields of each width, in earlier instructions */
};

/* ---- Values ---- */

uint64_t tv_generator_draw(tv_generator *g)
{
    uint64_t z = g->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

unsigned tv_generator_draw_below(tv_generator *g, unsigned limit) { return (unsigned)(tv_generator_draw(g) % limit); }

/* 0, 1, max, max - 1 or one bit. */
static uint64_t draw_corner(tv_generator *g, unsigned width)
{
    uint64_t max = tv_mask(width);
    switch (tv_generator_draw_below(g, 5)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return max;
    case 3:
        return max - 1;
    }
    return UINT64_C(1) << tv_generator_draw_below(g, width);
}

/* A quarter are corners, a quarter are at a small distance from a value of an earlier instruction, so that ranges
 * overlap and registers depend on each other; of the others each magnitude is as likely. */
static uint64_t draw_value(tv_generator *g, unsigned width)
{
    uint64_t kind = tv_generator_draw(g), value = tv_generator_draw(g);
    if (kind % 4 == 0)
        return draw_corner(g, width);
    if (kind % 4 == 1)
        return (g->earlier[width][value % EARLIER] + (value >> 8) % 5 - 2 * ((value >> 16) & 1)) & tv_mask(width);
    return value & tv_mask(width > SIZE_BITS ? 1 + tv_generator_draw_below(g, width) : width);
}

/* Long instructions take the time of many short ones: one size in 64 has all of its bits. */
uint64_t tv_generator_field(tv_generator *g, const tv_field *field)
{
    unsigned width = tv_field_width(g->isa, field);
    bool is_size = width > SIZE_BITS && field->kind && field->kind->syntax == TV_SYNTAX_UINT;
    uint64_t value = draw_value(g, is_size && tv_generator_draw_below(g, 64) ? SIZE_BITS : width);
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
static uint64_t extend_number(const tv_generator *g, const tv_insn *insn, uint16_t field, uint64_t value)
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

uint64_t tv_generator_word(tv_generator *g, unsigned row)
{
    const tv_insn *insn = &g->isa->insns[row];
    unsigned count;
    const uint16_t *fields = tv_codec_format_fields(g->codec, insn->format, &count);
    uint64_t word = 0;
    for (unsigned i = 0; i < count; i++) {
        const tv_field *field = &g->isa->fields[fields[i]];
        uint64_t value = 0;
        if (!find_fixed(insn, fields[i], &value) && field->role != TV_FIELD_RESERVED &&
            !tv_isa_ignores(g->isa, insn, fields[i]))
            value = extend_number(g, insn, fields[i], tv_generator_field(g, field));
        word = tv_field_set(g->isa, field, word, value);
    }
    return word;
}

static void remember_values(tv_generator *g, const tv_insn *insn, uint64_t word)
{
    unsigned count;
    const uint16_t *fields = tv_codec_format_fields(g->codec, insn->format, &count);
    for (unsigned i = 0; i < count; i++) {
        const tv_field *field = &g->isa->fields[fields[i]];
        g->earlier[tv_field_width(g->isa, field)][tv_generator_draw_below(g, EARLIER)] =
            tv_field_get(g->isa, field, word);
    }
}

void tv_generator_append(tv_generator *g, uint64_t word)
{
    char text[TV_CODEC_TEXT];
    tv_codec_disassemble(g->codec, word, text);
    tv_buf_printf(&g->text, "        %s\n", text);
}

tv_status tv_generator_execute(tv_generator *g, uint64_t word, const char **fault)
{
    tv_commit commit;
    TV_TRY(tv_machine_execute(g->machine, word, 0, &commit));
    if (fault)
        *fault = commit.fault ? commit.fault_name : NULL;
    if (commit.fault)
        return TV_OK;
    int row = tv_codec_row(g->codec, word, NULL);
    if (row >= 0)
        remember_values(g, &g->isa->insns[row], word);
    tv_generator_append(g, word);
    return g->text.failed ? TV_ERR_MEMORY : TV_OK;
}

/* Appends an instruction that the machine executes. All instructions of the set are as likely; one that faults in
 * TRIES forms gives way to another. */
static tv_status append_instruction(tv_generator *g, uint64_t *rejected)
{
    for (;;) {
        unsigned row = tv_generator_draw_below(g, g->isa->insn_count);
        for (unsigned i = 0; i < TRIES && !g->isa->insns[row].proposed; i++, ++*rejected) {
            const char *fault = NULL;
            uint64_t word = tv_generator_word(g, row);
            if (tv_codec_row(g->codec, word, NULL) != (int)row)
                continue;
            TV_TRY(tv_generator_execute(g, word, &fault));
            if (!fault)
                return TV_OK;
        }
    }
}

/* ---- Data ---- */

/* Special numbers in turn: of BF16, of binary32 with zeros below them, and integers. */
static uint32_t special_datum(unsigned i)
{
    static const uint16_t reals[] = {0,      0x8000, 0x7F80, 0xFF80, 0x7FC0, 0x0001,
                                     0x807F, 0x7F7F, 0xFF7F, 0x3F80, 0xBF80, 0x42B1};
    static const uint32_t integers[] = {1, UINT32_MAX, INT32_MAX, UINT32_C(1) << 31, UINT32_MAX - 1, 64};
    enum { REALS = sizeof reals / sizeof *reals, INTEGERS = sizeof integers / sizeof *integers };
    uint32_t real = reals[i / 3 % REALS];
    return i % 3 == 0 ? real << 16 : i % 3 == 1 ? real << 16 | reals[(i / 3 + 1) % REALS] : integers[i / 3 % INTEGERS];
}

/* A 16-bit value: any, one of a BF16 number near 1, or a small multiple of 16, which serves as an address. */
static uint64_t draw_datum(tv_generator *g, unsigned kind)
{
    uint64_t value = tv_generator_draw(g);
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

/* Data are pairs of values of one kind, or an address with a zero above it. The second quarter has special numbers,
 * which are faults as activations. */
static void append_data(tv_generator *g)
{
    uint8_t data[DATA_BYTES];
    tv_buf_str(&g->text, "        .data 0x0");
    for (unsigned at = 0; at < DATA_BYTES; at += 4) {
        unsigned kind = tv_generator_draw_below(g, 4);
        uint64_t low = draw_datum(g, kind), high = kind == 3 ? 0 : draw_datum(g, kind);
        if (at / (DATA_BYTES / 4) == 1) {
            low = special_datum(at / 4);
            high = low >> 16;
        }
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
static void append_streams(tv_generator *g, uint64_t instructions)
{
    uint64_t count = tv_min_u64(16 + instructions / 4, DESCRIPTORS_MAX);
    for (unsigned k = 0; g->isa->streams && g->isa->streams[k]; k++)
        for (uint64_t i = 0; i < count; i++) {
            unsigned addr = tv_generator_draw_below(g, DATA_BYTES / 16) * 16;
            unsigned bytes = 16 * (1 + tv_generator_draw_below(g, (DATA_BYTES - addr) / 16));
            tv_buf_printf(&g->text, "        wstream %s, 0x%x, 0x%x\n", g->isa->streams[k], addr, bytes);
            tv_builder_stream(&g->builder, k, addr, bytes);
        }
}

static tv_status load_prelude(tv_generator *g, uint64_t seed, uint64_t instructions, const tv_diag_sink *sink)
{
    tv_buf_printf(&g->text, "; seed %" PRIu64 ", %" PRIu64 " instructions\n        .target %s\n", seed, instructions,
                  g->isa->target);
    append_streams(g, instructions);
    append_data(g);
    TV_TRY(tv_builder_finish(&g->builder, sink, &g->prelude));
    return tv_machine_load(g->machine, g->prelude, sink);
}

/* ---- A generator ---- */

static tv_status begin(tv_generator *g, const tv_config *config, tv_mode mode, uint64_t instructions,
                       const tv_diag_sink *sink)
{
    uint64_t seed = g->random;
    TV_TRY(tv_machine_new(config, mode, sink, &g->machine));
    g->isa = g->builder.isa = g->machine->target->isa;
    if (!g->isa->word_bits)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL, "%s has no instruction words to generate",
                       g->isa->target);
    TV_TRY(tv_codec_new_for(g->isa, sink, &g->codec));
    return load_prelude(g, seed, instructions, sink);
}

tv_status tv_generator_new(const tv_config *config, tv_mode mode, uint64_t seed, uint64_t instructions,
                           const tv_diag_sink *sink, tv_generator **out)
{
    tv_generator *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return tv_fail_memory(sink);
    g->random = seed;
    tv_status status = begin(g, config, mode, instructions, sink);
    if (status == TV_OK)
        *out = g;
    else
        tv_generator_free(g);
    return status;
}

void tv_generator_free(tv_generator *g)
{
    if (!g)
        return;
    tv_machine_free(g->machine);
    tv_program_free(g->prelude);
    tv_builder_fini(&g->builder);
    tv_codec_free(g->codec);
    tv_buf_fini(&g->text);
    free(g);
}

tv_machine *tv_generator_machine(const tv_generator *g) { return g->machine; }
const tv_isa *tv_generator_isa(const tv_generator *g) { return g->isa; }
const tv_codec *tv_generator_codec(const tv_generator *g) { return g->codec; }
char *tv_generator_take(tv_generator *g) { return tv_buf_take(&g->text); }

/* ---- The interface ---- */

tv_status tv_program_generate(const tv_config *config, const tv_generate_options *options, const tv_diag_sink *sink,
                              tv_generated *out)
{
    tv_generate_options own = {.size = sizeof own};
    if (!tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_generate_options, instructions), options))
        return tv_fail_size(sink, "tv_generate_options");
    *out = (tv_generated){0};
    if (!own.instructions || own.instructions > TV_GENERATE_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL,
                       "a generated program has 1 to %" PRIu64 " instructions, not %" PRIu64, TV_GENERATE_MAX,
                       own.instructions);
    tv_generator *g;
    uint64_t rejected = 0;
    tv_status status = tv_generator_new(config, TV_MODE_FUNCTIONAL, own.seed, own.instructions, sink, &g);
    for (uint64_t i = 0; i < own.instructions && status == TV_OK; i++)
        if (append_instruction(g, &rejected) != TV_OK)
            status = tv_fail_memory(sink);
    if (status == TV_OK) {
        *out = (tv_generated){tv_generator_take(g), own.instructions, rejected};
        status = out->source ? TV_OK : tv_fail_memory(sink);
    }
    tv_generator_free(g);
    return status;
}
