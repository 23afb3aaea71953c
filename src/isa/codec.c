/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of words from the tables.
 *
 * Decoding looks up the leading fixed bits of the word in an index of candidate patterns and compares mask and match.
 * Only when no pattern matches does find_illegal_field search for the cause: the first field, from the high bits down,
 * whose value none of the remaining candidates has. */
#include <stdlib.h>

#include "base/buf.h"
#include "isa/isa.h"

enum { INDEX_BITS_MAX = 10, LIMITED_MAX = 2 };

/* The mask and match of a row. A row whose register class is a field has one pattern per class. */
typedef struct pattern {
    uint64_t mask, match;
    uint16_t row;
    uint8_t limited_count;
    struct {
        uint8_t lo;
        uint32_t mask, limit;
    } limited[LIMITED_MAX]; /* fields whose highest values are reserved */
} pattern;

struct tv_codec {
    const tv_isa *isa;
    pattern *patterns, *order; /* in the order of the rows; grouped by key */
    unsigned pattern_count;
    uint16_t first[(1 << INDEX_BITS_MAX) + 1];
    uint16_t (*fields)[TV_FORMAT_FIELDS]; /* of each format */
    uint8_t *field_counts;
};

const uint16_t *tv_codec_format_fields(const tv_codec *codec, unsigned format, unsigned *count)
{
    *count = codec->field_counts[format];
    return codec->fields[format];
}

uint64_t tv_joined_get(const tv_isa *isa, const tv_field *field, uint64_t word)
{
    const tv_field *high = &isa->fields[field->high_field], *low = &isa->fields[field->low_field];
    return tv_field_get(isa, high, word) << tv_field_width(isa, low) | tv_field_get(isa, low, word);
}

uint64_t tv_field_set(const tv_isa *isa, const tv_field *field, uint64_t word, uint64_t value)
{
    if (field->role == TV_FIELD_JOINED) {
        const tv_field *high = &isa->fields[field->high_field], *low = &isa->fields[field->low_field];
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

bool tv_isa_ignores(const tv_isa *isa, const tv_insn *insn, uint16_t field)
{
    if (isa->fields[field].format != insn->format || isa->fields[field].role != TV_FIELD_VALUE)
        return false;
    for (unsigned i = 0; i < insn->fixed_count; i++)
        if (insn->fixed[i].field == field)
            return false;
    for (unsigned i = 0; i < insn->attribute_count; i++)
        if (insn->attributes[i].field == field)
            return false;
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand_kind *kind = tv_operand_kind_of(isa, &insn->operands[i]);
        const tv_field *operand = &isa->fields[insn->operands[i].field];
        if (insn->operands[i].field == field ||
            (operand->role == TV_FIELD_JOINED && (operand->high_field == field || operand->low_field == field)) ||
            (kind->syntax == TV_SYNTAX_REG && kind->reg_class == TV_CLASS_FIELD && kind->class_field == field))
            return false;
    }
    return true;
}

/* ---- Building the index ---- */

static unsigned index_key(const tv_isa *isa, uint64_t word)
{
    uint64_t low = word >> isa->index[0].lo & tv_mask(isa->index[0].width);
    uint64_t high = isa->index[1].width ? word >> isa->index[1].lo & tv_mask(isa->index[1].width) : 0;
    return (unsigned)(low | high << isa->index[0].width);
}

static bool has_classes(const tv_isa *isa, const tv_insn *insn)
{
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand_kind *kind = tv_operand_kind_of(isa, &insn->operands[i]);
        if (kind->syntax == TV_SYNTAX_REG && kind->reg_class == TV_CLASS_FIELD)
            return true;
    }
    return false;
}

/* The register field of an operand, or NULL. */
static const tv_field *register_field(const tv_isa *isa, const tv_operand *operand)
{
    const tv_operand_kind *kind = tv_operand_kind_of(isa, operand);
    const tv_field *field = &isa->fields[operand->field];
    if (kind->syntax == TV_SYNTAX_ADDRESS)
        return &isa->fields[field->low_field];
    return kind->syntax == TV_SYNTAX_REG ? field : NULL;
}

static void add_limits(const tv_isa *isa, const tv_insn *insn, pattern *p)
{
    for (unsigned i = 0; i < isa->field_count; i++) {
        const tv_field *field = &isa->fields[i];
        if (field->format != insn->format || !field->limit || (tv_field_mask(field) & ~p->mask) == 0)
            continue;
        assert(p->limited_count < LIMITED_MAX);
        p->limited[p->limited_count].lo = field->lo;
        p->limited[p->limited_count].mask = (uint32_t)tv_mask((unsigned)(field->hi - field->lo + 1));
        p->limited[p->limited_count++].limit = (uint32_t)field->limit;
    }
}

/* The pattern of row `row`; `class_` is the register class where that is a field. */
static pattern row_pattern(const tv_isa *isa, unsigned row, unsigned class_)
{
    const tv_insn *insn = &isa->insns[row];
    pattern p = {.row = (uint16_t)row};
    for (unsigned i = 0; i < insn->fixed_count; i++) {
        const tv_field *field = &isa->fields[insn->fixed[i].field];
        p.mask |= tv_field_mask(field);
        p.match = tv_field_set(isa, field, p.match, insn->fixed[i].value);
    }
    for (unsigned i = 0; i < isa->field_count; i++)
        if (isa->fields[i].format == insn->format && isa->fields[i].role == TV_FIELD_RESERVED)
            p.mask |= tv_field_mask(&isa->fields[i]);
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand_kind *kind = tv_operand_kind_of(isa, &insn->operands[i]);
        const tv_field *field = register_field(isa, &insn->operands[i]);
        if (!field)
            continue;
        unsigned c = kind->reg_class;
        if (c == TV_CLASS_FIELD) {
            const tv_field *class_field = &isa->fields[kind->class_field];
            p.mask |= tv_field_mask(class_field);
            p.match = tv_field_set(isa, class_field, p.match, class_);
            c = class_;
        }
        p.mask |= tv_field_mask(field) & ~(tv_field_mask(field) >> c); /* higher classes have fewer registers */
    }
    add_limits(isa, insn, &p);
    return p;
}

static bool patterns_overlap(const pattern *a, const pattern *b)
{
    return ((a->match ^ b->match) & a->mask & b->mask) == 0;
}

int tv_isa_overlap(const tv_isa *isa, unsigned row)
{
    for (unsigned other = 0; other < row; other++)
        for (unsigned c = 0; c < (has_classes(isa, &isa->insns[row]) ? TV_CLASSES_MAX : 1u); c++)
            for (unsigned d = 0; d < (has_classes(isa, &isa->insns[other]) ? TV_CLASSES_MAX : 1u); d++) {
                pattern a = row_pattern(isa, row, c), b = row_pattern(isa, other, d);
                if (patterns_overlap(&a, &b))
                    return (int)other;
            }
    return -1;
}

/* The bits of `word` that are the key. */
static unsigned key_of(const tv_isa *isa, uint64_t word)
{
    return (unsigned)(word >> isa->index[0].lo & tv_mask(isa->index[0].width)) |
           (unsigned)(word >> isa->index[1].lo & tv_mask(isa->index[1].width)) << isa->index[0].width;
}

/* Adds the pattern to the list of every key that matches it: several, when it does not fix all key bits. codec->first
 * has the ends of the lists so far; `order` NULL: counts only, in codec->first[key + 1]. */
static void list_pattern(tv_codec *codec, const pattern *p, pattern *order)
{
    const tv_isa *isa = codec->isa;
    unsigned all = (1u << (isa->index[0].width + isa->index[1].width)) - 1;
    unsigned fixed = key_of(isa, p->mask), match = key_of(isa, p->match) & fixed, free_bits = all & ~fixed;
    for (unsigned rest = free_bits;; rest = (rest - 1) & free_bits) {
        if (order)
            order[codec->first[match | rest]++] = *p;
        else
            codec->first[(match | rest) + 1]++;
        if (rest == 0)
            return;
    }
}

static bool build_index(tv_codec *codec)
{
    const tv_isa *isa = codec->isa;
    unsigned bits = (unsigned)isa->index[0].width + isa->index[1].width, keys = 1u << bits;
    assert(bits <= INDEX_BITS_MAX);
    codec->patterns = calloc((size_t)isa->insn_count * TV_CLASSES_MAX, sizeof *codec->patterns);
    if (!codec->patterns)
        return false;
    for (unsigned r = 0; r < isa->insn_count; r++)
        for (unsigned c = 0; c < (has_classes(isa, &isa->insns[r]) ? TV_CLASSES_MAX : 1u); c++)
            codec->patterns[codec->pattern_count++] = row_pattern(isa, r, c);
    for (unsigned i = 0; i < codec->pattern_count; i++)
        list_pattern(codec, &codec->patterns[i], NULL);
    for (unsigned key = 0; key < keys; key++) {
        assert(codec->first[key] + codec->first[key + 1] <= UINT16_MAX);
        codec->first[key + 1] = (uint16_t)(codec->first[key] + codec->first[key + 1]);
    }
    codec->order = calloc(codec->first[keys], sizeof *codec->order);
    if (!codec->order)
        return false;
    for (unsigned i = 0; i < codec->pattern_count; i++)
        list_pattern(codec, &codec->patterns[i], codec->order);
    memmove(codec->first + 1, codec->first, keys * sizeof codec->first[0]); /* the ends are the starts of the next */
    codec->first[0] = 0;
    return true;
}

void tv_codec_free(tv_codec *codec)
{
    if (!codec)
        return;
    free(codec->patterns);
    free(codec->order);
    free(codec->fields);
    free(codec->field_counts);
    free(codec);
}

/* Lists the fields of each format. False: out of memory. */
static bool list_fields(tv_codec *codec)
{
    const tv_isa *isa = codec->isa;
    codec->fields = calloc(isa->format_count + 1, sizeof *codec->fields);
    codec->field_counts = calloc(isa->format_count + 1, sizeof *codec->field_counts);
    if (!codec->fields || !codec->field_counts)
        return false;
    for (unsigned f = 0; f < isa->format_count; f++)
        codec->field_counts[f] = (uint8_t)tv_isa_format_fields(isa, f, codec->fields[f]);
    return true;
}

tv_status tv_codec_new_for(const tv_isa *isa, const tv_diag_sink *sink, tv_codec **out)
{
    tv_codec *codec = calloc(1, sizeof *codec);
    if (codec)
        codec->isa = isa;
    if (!codec || (isa->word_bits && (!build_index(codec) || !list_fields(codec)))) {
        tv_codec_free(codec);
        return tv_fail_memory(sink);
    }
    *out = codec;
    return TV_OK;
}

const tv_isa *tv_codec_isa(const tv_codec *codec) { return codec->isa; }

/* ---- Decoding ---- */

/* True when `insn` requires a value of `field`: its fixed value, or zero for a reserved field. */
static bool required_value(const tv_insn *insn, const tv_field *field, uint16_t index, uint64_t *value)
{
    for (unsigned i = 0; i < insn->fixed_count; i++)
        if (insn->fixed[i].field == index) {
            *value = insn->fixed[i].value;
            return true;
        }
    *value = 0;
    return field->role == TV_FIELD_RESERVED;
}

/* Keeps the rows that allow the value that `field` has in the word. Returns their count. */
static unsigned filter_rows(const tv_isa *isa, uint16_t *rows, unsigned count, const tv_field *field, uint16_t index,
                            uint64_t word)
{
    uint64_t value = tv_field_get(isa, field, word), required;
    unsigned remaining = 0;
    for (unsigned i = 0; i < count; i++)
        if (!required_value(&isa->insns[rows[i]], field, index, &required) || required == value)
            rows[remaining++] = rows[i];
    return remaining;
}

/* Keeps the rows whose `which`-th fixed field has the required value; these fields have the same bits in all formats.
 */
static unsigned filter_rows_by_fixed(const tv_isa *isa, uint16_t *rows, unsigned count, unsigned which, uint64_t word)
{
    unsigned remaining = 0;
    for (unsigned i = 0; i < count; i++) {
        const tv_insn *insn = &isa->insns[rows[i]];
        if (which >= insn->fixed_count ||
            tv_field_get(isa, &isa->fields[insn->fixed[which].field], word) == insn->fixed[which].value)
            rows[remaining++] = rows[i];
    }
    return remaining;
}

/* True when `field` is a register operand with a number that does not exist. */
static bool has_bad_register(const tv_isa *isa, const tv_insn *insn, const tv_field *field, uint64_t word)
{
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand_kind *kind = tv_operand_kind_of(isa, &insn->operands[i]);
        if (register_field(isa, &insn->operands[i]) == field)
            return tv_field_get(isa, field, word) >>
                       (field->hi - field->lo + 1 - (int)tv_operand_class(isa, kind, word)) !=
                   0;
    }
    return false;
}

static tv_illegal illegal_field(const tv_isa *isa, const tv_code *code, uint16_t index, uint64_t word)
{
    return (tv_illegal){code, index, tv_field_get(isa, &isa->fields[index], word)};
}

/* Filters the rows field by field from the high bits down; the field that leaves none is the illegal one. */
static tv_illegal find_illegal_field(const tv_codec *codec, uint64_t word)
{
    const tv_isa *isa = codec->isa;
    uint16_t rows[512], fields[TV_FORMAT_FIELDS];
    unsigned count = 0;
    for (; count < isa->insn_count; count++)
        rows[count] = (uint16_t)count;
    const tv_insn *any = &isa->insns[0];
    count = filter_rows_by_fixed(isa, rows, count, 0, word);
    if (count == 0)
        return illegal_field(isa, isa->fields[any->fixed[0].field].illegal, any->fixed[0].field, word);
    any = &isa->insns[rows[0]];
    bool one_format = true;
    for (unsigned i = 1; i < count; i++)
        one_format = one_format && isa->insns[rows[i]].format == any->format;
    if (!one_format && (count = filter_rows_by_fixed(isa, rows, count, 1, word)) == 0)
        return illegal_field(isa, isa->fields[any->fixed[1].field].illegal, any->fixed[1].field, word);
    unsigned field_count = tv_isa_format_fields(isa, isa->insns[rows[0]].format, fields);
    for (unsigned f = 0; f < field_count; f++) {
        const tv_field *field = &isa->fields[fields[f]];
        count = filter_rows(isa, rows, count, field, fields[f], word);
        if (count == 0 || (field->limit && tv_field_get(isa, field, word) >= field->limit))
            return illegal_field(isa, field->illegal, fields[f], word);
    }
    for (unsigned f = 0; f < field_count; f++) /* only a register is illegal */
        if (has_bad_register(isa, &isa->insns[rows[0]], &isa->fields[fields[f]], word))
            return illegal_field(isa, isa->register_code, fields[f], word);
    assert(false && "a word that matches no row has an illegal field");
    return (tv_illegal){0};
}

int tv_codec_row(const tv_codec *codec, uint64_t word, tv_illegal *why)
{
    if (!codec->isa->word_bits) { /* programs of this machine are queues */
        if (why)
            *why = (tv_illegal){.code = TV_CODE(OBJ_FORMAT)};
        return -1;
    }
    unsigned key = index_key(codec->isa, word);
    for (unsigned i = codec->first[key]; i < codec->first[key + 1]; i++) {
        const pattern *p = &codec->order[i];
        if ((word & p->mask) != p->match)
            continue;
        bool legal = true;
        for (unsigned k = 0; k < p->limited_count; k++)
            legal = legal && (word >> p->limited[k].lo & p->limited[k].mask) < p->limited[k].limit;
        if (legal)
            return p->row;
    }
    if (why) {
        *why = find_illegal_field(codec, word);
        if (codec->isa->refine)
            codec->isa->refine(word, why);
    }
    return -1;
}
