/* SPDX-License-Identifier: Apache-2.0 */
/* A word is drawn field by field from the tables; the machine that executes the program while it is made rejects what
 * faults. Operands repeat values of earlier instructions, so that ranges overlap and registers depend on each other.
 * Nothing here depends on the host. */
#include "cosim/generator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/random.h"
#include "machine/instance.h"
#include "program/build.h"

enum {
    DATA_BYTES = 4096,
    LINE_BYTES = 16,
    SIZE_BITS = 8,
    SMALL_SIZE_BITS = 5,
    DESCRIPTORS_MAX = 1 << 16,
    EARLIER = 8,
    UNITS_MAX = 8
};

typedef enum field_use { FIELD_OTHER, FIELD_READ, FIELD_WRITTEN, FIELD_USES } field_use;

typedef struct latest {
    bool valid;
    uint64_t value;
} latest;

struct tv_generator {
    const tv_isa *isa;
    tv_codec *codec;
    tv_machine *machine;
    tv_builder builder;
    tv_program *prelude; /* data and streams, without instructions */
    tv_buf text;
    tv_random random;
    tv_generator_hazards hazards;
    uint64_t size;    /* words of the program */
    uint64_t *counts; /* of each row */
    uint8_t *units;   /* number of each row's engine */
    uint8_t *uses;    /* field_use of each field */
    unsigned unit_count;
    uint64_t earlier[65][EARLIER];            /* values of fields of each width, in earlier instructions */
    latest latest[UNITS_MAX][FIELD_USES][65]; /* operands of each engine, by width */
};

/* ---- Tables ---- */

/* What an instruction does with an address, entry or register that the field names. */
static field_use use_of(const tv_field *field)
{
    static const char *const written[] = {"dest_reg", "dest_addr", "dst_addr", "rd"};
    static const char *const read[] = {"src_addr", "rs1", "rs2", "rs3", "size_ptr_addr", "shape_ptr_addr"};
    for (unsigned i = 0; i < sizeof written / sizeof *written; i++)
        if (strcmp(field->name, written[i]) == 0)
            return FIELD_WRITTEN;
    for (unsigned i = 0; i < sizeof read / sizeof *read; i++)
        if (strcmp(field->name, read[i]) == 0)
            return FIELD_READ;
    return FIELD_OTHER;
}

static void number_units(tv_generator *g)
{
    for (unsigned row = 0; row < g->isa->insn_count; row++) {
        unsigned same = 0;
        while (same < row && strcmp(g->isa->insns[same].unit, g->isa->insns[row].unit) != 0)
            same++;
        bool is_new = same == row && g->unit_count < UNITS_MAX;
        g->units[row] = (uint8_t)(is_new ? g->unit_count++ : same < row ? g->units[same] : 0);
    }
}

static bool allocate_tables(tv_generator *g)
{
    g->counts = calloc(g->isa->insn_count, sizeof *g->counts);
    g->units = calloc(g->isa->insn_count, sizeof *g->units);
    g->uses = calloc(g->isa->field_count, sizeof *g->uses);
    if (!g->counts || !g->units || !g->uses)
        return false;
    for (unsigned i = 0; i < g->isa->field_count; i++)
        g->uses[i] = (uint8_t)use_of(&g->isa->fields[i]);
    number_units(g);
    return true;
}

/* ---- Values ---- */

uint64_t tv_generator_draw(tv_generator *g) { return tv_random_draw(&g->random); }
unsigned tv_generator_draw_below(tv_generator *g, unsigned limit) { return tv_random_below(&g->random, limit); }

/* A quarter are corners, a quarter are at a small distance from a value of an earlier instruction, so that ranges
 * overlap and registers depend on each other; of the others each magnitude is as likely. */
static uint64_t draw_value(tv_generator *g, unsigned width)
{
    uint64_t kind = tv_random_draw(&g->random), value = tv_random_draw(&g->random);
    if (kind % 4 == 0)
        return tv_random_corner(&g->random, width);
    if (kind % 4 == 1)
        return (g->earlier[width][value % EARLIER] + (value >> 8) % 5 - 2 * ((value >> 16) & 1)) & tv_mask(width);
    return value & tv_mask(width > SIZE_BITS ? 1 + tv_random_below(&g->random, width) : width);
}

/* Long instructions take the time of many short ones: one size in 64 has all of its bits, six of eight have 5. */
uint64_t tv_generator_field(tv_generator *g, const tv_field *field)
{
    unsigned width = tv_field_width(g->isa, field);
    bool is_size = width > SIZE_BITS && field->kind && field->kind->syntax == TV_SYNTAX_UINT;
    unsigned kind = is_size ? tv_random_below(&g->random, 64) : 0;
    uint64_t value = draw_value(g, kind == 0 ? width : kind < 16 ? SIZE_BITS : SMALL_SIZE_BITS);
    return field->limit ? value % field->limit : value;
}

/* Replaces the value of an operand by the latest one that an engine read or wrote, as often as the options say. */
static uint64_t draw_hazard(tv_generator *g, unsigned index, uint64_t value)
{
    const tv_generator_hazards *h = &g->hazards;
    unsigned width = tv_field_width(g->isa, &g->isa->fields[index]);
    field_use use = g->uses[index], other = FIELD_WRITTEN;
    if (use == FIELD_OTHER || !(h->raw | h->war | h->waw))
        return value;
    unsigned at = tv_random_below(&g->random, 1000), unit = tv_random_below(&g->random, g->unit_count);
    if (use == FIELD_READ ? at >= h->raw : at >= h->war + h->waw)
        return value;
    if (use == FIELD_WRITTEN && at < h->war)
        other = FIELD_READ;
    for (unsigned i = 0; i < g->unit_count; i++) {
        const latest *last = &g->latest[(unit + i) % g->unit_count][other][width];
        if (last->valid)
            return last->value;
    }
    return value;
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

/* ---- Words ---- */

uint64_t tv_generator_word(tv_generator *g, unsigned row)
{
    unsigned count;
    const tv_insn *insn = &g->isa->insns[row];
    const uint16_t *fields = tv_codec_format_fields(g->codec, insn->format, &count);
    uint64_t word = 0;
    for (unsigned i = 0; i < count; i++) {
        const tv_field *field = &g->isa->fields[fields[i]];
        uint64_t value = 0;
        if (!find_fixed(insn, fields[i], &value) && field->role != TV_FIELD_RESERVED &&
            !tv_isa_ignores(g->isa, insn, fields[i]))
            value = extend_number(g, insn, fields[i], draw_hazard(g, fields[i], tv_generator_field(g, field)));
        word = tv_field_set(g->isa, field, word, value);
    }
    return word;
}

static void remember_values(tv_generator *g, unsigned row, uint64_t word)
{
    unsigned count;
    const uint16_t *fields = tv_codec_format_fields(g->codec, g->isa->insns[row].format, &count);
    for (unsigned i = 0; i < count; i++) {
        const tv_field *field = &g->isa->fields[fields[i]];
        unsigned width = tv_field_width(g->isa, field);
        uint64_t value = tv_field_get(g->isa, field, word);
        g->earlier[width][tv_random_below(&g->random, EARLIER)] = value;
        if (g->uses[fields[i]])
            g->latest[g->units[row]][g->uses[fields[i]]][width] = (latest){true, value};
    }
}

void tv_generator_append(tv_generator *g, uint64_t word)
{
    int row = tv_codec_row(g->codec, word, NULL);
    if (row < 0) {
        tv_generator_append_number(g, word);
        return;
    }
    g->size++;
    tv_buf_str(&g->text, "        ");
    tv_isa_print(g->isa, &g->isa->insns[row], word, &g->text);
    tv_buf_str(&g->text, "\n");
}

void tv_generator_append_number(tv_generator *g, uint64_t word)
{
    g->size++;
    tv_buf_printf(&g->text, "        %s 0x%0*" PRIx64 "\n", g->isa->word_bits == 64 ? ".word64" : ".word",
                  (int)g->isa->word_bits / 4, word);
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
    if (row >= 0) {
        g->counts[row]++;
        remember_values(g, (unsigned)row, word);
    }
    tv_generator_append(g, word);
    return g->text.failed ? TV_ERR_MEMORY : TV_OK;
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
        return tv_random_corner(&g->random, 16);
    }
    return value & 0x7F0;
}

/* Four bytes, after `separator`. */
static void append_bytes(tv_generator *g, const char *separator, const uint8_t *bytes)
{
    static const char digits[] = "0123456789abcdef";
    char text[] = "0x..,0x..,0x..,0x..";
    for (unsigned i = 0; i < 4; i++) {
        text[5 * i + 2] = digits[bytes[i] >> 4];
        text[5 * i + 3] = digits[bytes[i] & 15];
    }
    tv_buf_str(&g->text, separator);
    tv_buf_str(&g->text, text);
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
        append_bytes(g, at % LINE_BYTES ? "," : "\n        .byte ", &data[at]);
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
    uint64_t seed = g->random.state;
    TV_TRY(tv_machine_new(config, mode, sink, &g->machine));
    g->isa = g->builder.isa = g->machine->target->isa;
    if (!g->isa->word_bits)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL, "%s has no instruction words to generate",
                       g->isa->target);
    TV_TRY(tv_codec_new_for(g->isa, sink, &g->codec));
    if (!allocate_tables(g))
        return tv_fail_memory(sink);
    return load_prelude(g, seed, instructions, sink);
}

tv_status tv_generator_new(const tv_config *config, tv_mode mode, uint64_t seed, uint64_t instructions,
                           const tv_diag_sink *sink, tv_generator **out)
{
    tv_generator *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return tv_fail_memory(sink);
    g->random.state = seed;
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
    free(g->counts);
    free(g->units);
    free(g->uses);
    free(g);
}

tv_machine *tv_generator_machine(const tv_generator *g) { return g->machine; }
const tv_isa *tv_generator_isa(const tv_generator *g) { return g->isa; }
const tv_codec *tv_generator_codec(const tv_generator *g) { return g->codec; }
char *tv_generator_take(tv_generator *g) { return tv_buf_take(&g->text); }
uint64_t tv_generator_count(const tv_generator *g, unsigned row) { return g->counts[row]; }
uint64_t tv_generator_size(const tv_generator *g) { return g->size; }
void tv_generator_set_hazards(tv_generator *g, const tv_generator_hazards *hazards) { g->hazards = *hazards; }
