/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of words from the tables.
 *
 * Decoding looks the word's leading fixed bits up in an index of candidate rows and compares mask and match. Only when
 * no row fits does it ask which field is to blame: the first, from the top of the word, whose value no remaining
 * candidate has. */
#include <stdlib.h>

#include "base/buf.h"
#include "isa/isa.h"

enum { INDEX_BITS_MAX = 10, ROWS_MAX = 256, LIMITED_MAX = 4 };

typedef struct pattern {
    uint64_t mask, match;
} pattern;

struct tv_codec {
    const tv_isa *isa;
    uint64_t index_mask; /* the bits that the index is made of: fixed in every row, and at one place */
    unsigned index_shift;
    uint8_t first[1 << INDEX_BITS_MAX], count[1 << INDEX_BITS_MAX];
    uint8_t order[ROWS_MAX]; /* rows, sorted by index */
    pattern patterns[ROWS_MAX];
    uint16_t limited[ROWS_MAX][LIMITED_MAX]; /* the row's fields with a limit */
    uint8_t limited_count[ROWS_MAX];
};

uint64_t tv_field_get(const tv_isa *isa, const tv_field *field, uint64_t word)
{
    if (field->role == TV_FIELD_JOINED) {
        const tv_field *high = &isa->fields[field->high_part], *low = &isa->fields[field->low_part];
        return tv_field_get(isa, high, word) << tv_field_width(isa, low) | tv_field_get(isa, low, word);
    }
    return word >> field->lo & tv_mask((unsigned)(field->hi - field->lo + 1));
}

uint64_t tv_field_set(const tv_isa *isa, const tv_field *field, uint64_t word, uint64_t value)
{
    if (field->role == TV_FIELD_JOINED) {
        const tv_field *high = &isa->fields[field->high_part], *low = &isa->fields[field->low_part];
        unsigned low_width = tv_field_width(isa, low);
        word = tv_field_set(isa, high, word, value >> low_width);
        return tv_field_set(isa, low, word, value & tv_mask(low_width));
    }
    assert((value & ~tv_mask((unsigned)(field->hi - field->lo + 1))) == 0);
    return (word & ~tv_field_mask(field)) | value << field->lo;
}

unsigned tv_isa_format_fields(const tv_isa *isa, unsigned format, uint16_t fields[TV_FORMAT_FIELDS])
{
    unsigned n = 0;
    for (unsigned i = 0; i < isa->field_count; i++)
        if (isa->fields[i].format == format && isa->fields[i].role != TV_FIELD_JOINED) {
            assert(n < TV_FORMAT_FIELDS);
            fields[n++] = (uint16_t)i;
        }
    return n;
}

static pattern row_pattern(const tv_isa *isa, const tv_insn *insn)
{
    pattern p = {0};
    for (unsigned i = 0; i < insn->fixed_count; i++) {
        const tv_field *field = &isa->fields[insn->fixed[i].field];
        p.mask |= tv_field_mask(field);
        p.match = tv_field_set(isa, field, p.match, insn->fixed[i].value);
    }
    for (unsigned i = 0; i < isa->field_count; i++)
        if (isa->fields[i].format == insn->format && isa->fields[i].role == TV_FIELD_RESERVED)
            p.mask |= tv_field_mask(&isa->fields[i]);
    return p;
}

/* The index uses the one field that all rows fix at the same bits: the opcode. */
static const tv_field *common_field(const tv_isa *isa)
{
    const tv_insn *first = &isa->insns[0];
    const tv_field *field = &isa->fields[first->fixed[0].field];
    for (unsigned r = 1; r < isa->insn_count; r++) {
        const tv_field *other = &isa->fields[isa->insns[r].fixed[0].field];
        assert(other->hi == field->hi && other->lo == field->lo);
        (void)other;
    }
    return field;
}

static void build_index(tv_codec *codec)
{
    const tv_isa *isa = codec->isa;
    const tv_field *field = common_field(isa);
    assert(isa->insn_count <= ROWS_MAX && field->hi - field->lo < INDEX_BITS_MAX);
    codec->index_shift = field->lo;
    codec->index_mask = tv_mask((unsigned)(field->hi - field->lo + 1));
    for (unsigned r = 0; r < isa->insn_count; r++) {
        codec->patterns[r] = row_pattern(isa, &isa->insns[r]);
        for (unsigned i = 0; i < isa->field_count; i++)
            if (isa->fields[i].format == isa->insns[r].format && isa->fields[i].limit) {
                assert(codec->limited_count[r] < LIMITED_MAX);
                codec->limited[r][codec->limited_count[r]++] = (uint16_t)i;
            }
    }
    unsigned n = 0;
    for (unsigned value = 0; value <= codec->index_mask; value++) {
        codec->first[value] = (uint8_t)n;
        for (unsigned r = 0; r < isa->insn_count; r++)
            if ((codec->patterns[r].match >> codec->index_shift & codec->index_mask) == value) {
                codec->order[n++] = (uint8_t)r;
                codec->count[value]++;
            }
    }
}

tv_status tv_codec_make(const tv_isa *isa, const tv_diag_sink *sink, tv_codec **out)
{
    tv_codec *codec = calloc(1, sizeof *codec);
    if (!codec)
        return tv_fail_memory(sink);
    codec->isa = isa;
    build_index(codec);
    *out = codec;
    return TV_OK;
}

void tv_codec_free(tv_codec *codec) { free(codec); }

const tv_isa *tv_codec_isa(const tv_codec *codec) { return codec->isa; }

static bool within_limits(const tv_codec *codec, unsigned row, uint64_t word, tv_illegal *why)
{
    for (unsigned i = 0; i < codec->limited_count[row]; i++) {
        const tv_field *field = &codec->isa->fields[codec->limited[row][i]];
        uint64_t value = tv_field_get(codec->isa, field, word);
        if (value >= field->limit) {
            if (why)
                *why = (tv_illegal){field->illegal, codec->limited[row][i], value};
            return false;
        }
    }
    return true;
}

/* The value that `insn` demands of `field`, if any: its fixed value, or zero where it is reserved. */
static bool demanded(const tv_insn *insn, const tv_field *field, uint16_t index, uint64_t *value)
{
    for (unsigned i = 0; i < insn->fixed_count; i++)
        if (insn->fixed[i].field == index) {
            *value = insn->fixed[i].value;
            return true;
        }
    *value = 0;
    return field->role == TV_FIELD_RESERVED;
}

/* Narrows the candidates field by field from the top of the word; the field that leaves none is to blame. */
static void blame(const tv_codec *codec, uint64_t word, tv_illegal *why)
{
    const tv_isa *isa = codec->isa;
    unsigned index = (unsigned)(word >> codec->index_shift & codec->index_mask);
    uint8_t left[ROWS_MAX];
    unsigned count = codec->count[index];
    memcpy(left, codec->order + codec->first[index], count);
    if (count == 0) {
        *why = (tv_illegal){isa->fields[isa->insns[0].fixed[0].field].illegal, isa->insns[0].fixed[0].field, index};
        return;
    }
    uint16_t fields[TV_FORMAT_FIELDS];
    unsigned field_count = tv_isa_format_fields(isa, isa->insns[left[0]].format, fields);
    for (unsigned f = 0; f < field_count; f++) {
        const tv_field *field = &isa->fields[fields[f]];
        uint64_t value = tv_field_get(isa, field, word), wanted;
        unsigned kept = 0;
        for (unsigned i = 0; i < count; i++)
            if (!demanded(&isa->insns[left[i]], field, fields[f], &wanted) || wanted == value)
                left[kept++] = left[i];
        if (kept == 0) {
            *why = (tv_illegal){field->illegal, fields[f], value};
            return;
        }
        count = kept;
        if (field->limit && value >= field->limit) {
            *why = (tv_illegal){field->illegal, fields[f], value};
            return;
        }
    }
    assert(false && "a word that no row matches has a field to blame");
}

int tv_codec_row(const tv_codec *codec, uint64_t word, tv_illegal *why)
{
    unsigned index = (unsigned)(word >> codec->index_shift & codec->index_mask);
    const uint8_t *rows = codec->order + codec->first[index];
    for (unsigned i = 0, n = codec->count[index]; i < n; i++) {
        unsigned row = rows[i];
        if ((word & codec->patterns[row].mask) != codec->patterns[row].match)
            continue;
        if (codec->limited_count[row] && !within_limits(codec, row, word, why))
            return -1;
        return (int)row;
    }
    if (why)
        blame(codec, word, why);
    return -1;
}
