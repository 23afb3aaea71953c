/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions over the instruction tables (trivet/codec.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "isa/isa.h"

/* Terminates a text in a buffer on `array`; the last character goes if the array is full. */
#define END_TEXT(array, buf) ((array)[(buf).len < sizeof(array) ? (buf).len : sizeof(array) - 1] = '\0')

const tv_isa *tv_isa_find(const tv_isa_list *list, tv_sv name)
{
    for (unsigned i = 0; i < list->count; i++)
        if (tv_sv_is(name, list->isas[i]->target))
            return list->isas[i];
    return NULL;
}

void tv_isa_suggest(const tv_isa_list *list, tv_sv name, char hint[80])
{
    tv_nearest nearest = tv_nearest_to(name);
    for (unsigned i = 0; i < list->count; i++)
        tv_nearest_offer(&nearest, list->isas[i]->target);
    if (nearest.best)
        snprintf(hint, 80, "did you mean '%s'?", nearest.best);
    else
        snprintf(hint, 80, "`trivet targets` lists the machines");
}

const char *tv_codec_target(const tv_codec *codec) { return tv_codec_isa(codec)->target; }

unsigned tv_codec_word_bits(const tv_codec *codec) { return tv_codec_isa(codec)->word_bits; }

int tv_codec_decode(const tv_codec *codec, uint64_t word, tv_decode_fault *why)
{
    tv_illegal illegal;
    int row = tv_codec_row(codec, word, why ? &illegal : NULL);
    if (row >= 0 || !why)
        return row;
    const tv_isa *isa = tv_codec_isa(codec);
    if (!isa->word_bits) {
        *why = (tv_decode_fault){.code = illegal.code->code, .name = illegal.code->name};
        snprintf(why->message, sizeof why->message, "programs of %s are command queues, not words", isa->target);
        return row;
    }
    const tv_field *field = &isa->fields[illegal.field];
    *why = (tv_decode_fault){.code = illegal.code->code, .name = illegal.code->name, .hi = field->hi, .lo = field->lo};
    tv_buf text = TV_BUF_FIXED(why->message);
    tv_isa_print_illegal(isa, &illegal, &text);
    END_TEXT(why->message, text);
    return row;
}

int tv_codec_disassemble(const tv_codec *codec, uint64_t word, char text[TV_CODEC_TEXT])
{
    const tv_isa *isa = tv_codec_isa(codec);
    tv_illegal illegal;
    char storage[TV_CODEC_TEXT];
    tv_buf line = TV_BUF_FIXED(storage);
    int row = tv_codec_row(codec, word, &illegal);
    text[0] = '\0';
    if (!isa->word_bits)
        return 0;
    if (row >= 0) {
        tv_isa_print(isa, &isa->insns[row], word, &line);
    } else {
        tv_buf_printf(&line, "%s 0x%0*" PRIx64 " ; %s ", isa->word_bits == 64 ? ".word64" : ".word",
                      (int)isa->word_bits / 4, word, illegal.code->code);
        tv_isa_print_illegal(isa, &illegal, &line);
    }
    END_TEXT(storage, line);
    memcpy(text, storage, line.len + 1);
    return row >= 0;
}

const char *tv_insn_addition(const tv_isa *isa, const tv_insn *insn)
{
    const char *minor = insn->since ? strchr(insn->since, '.') : NULL;
    return isa->published_minor && minor && strtoul(minor + 1, NULL, 10) > isa->published_minor ? insn->since : NULL;
}

int tv_codec_insn_at(const tv_codec *codec, unsigned i, tv_insn_info *out)
{
    const tv_isa *isa = tv_codec_isa(codec);
    if (i >= isa->insn_count)
        return 0;
    const tv_insn *insn = &isa->insns[i];
    *out = (tv_insn_info){.id = insn->id,
                          .mnemonic = insn->mnemonic,
                          .format = isa->word_bits ? isa->formats[insn->format] : NULL,
                          .unit = insn->unit,
                          .meaning = insn->meaning,
                          .source = insn->source,
                          .proposed = insn->proposed,
                          .since = insn->since,
                          .deprecated_since = insn->deprecated_since,
                          .addition = tv_insn_addition(isa, insn)};
    tv_buf form = TV_BUF_FIXED(out->form);
    tv_buf_str(&form, insn->mnemonic);
    for (unsigned k = 0; k < insn->parameter_count; k++)
        if (insn->parameters[k].presence == TV_REQUIRED)
            tv_buf_printf(&form, " %s", isa->parameters[insn->parameters[k].parameter].name);
    for (unsigned k = 0; k < insn->attribute_count; k++)
        tv_isa_print_suffix(insn, k, &form);
    for (unsigned k = 0; k < insn->operand_count; k++) {
        tv_buf_str(&form, k ? ", " : " ");
        tv_isa_print_form(isa, &insn->operands[k], &form);
    }
    END_TEXT(out->form, form);
    return 1;
}

int tv_codec_field_at(const tv_codec *codec, unsigned insn, unsigned i, uint64_t word, tv_field_info *out)
{
    const tv_isa *isa = tv_codec_isa(codec);
    uint16_t fields[TV_FORMAT_FIELDS];
    if (insn >= isa->insn_count || !isa->word_bits || i >= tv_isa_format_fields(isa, isa->insns[insn].format, fields))
        return 0;
    const tv_field *field = &isa->fields[fields[i]];
    *out = (tv_field_info){.name = field->name,
                           .doc = field->doc,
                           .hi = field->hi,
                           .lo = field->lo,
                           .reserved = field->role == TV_FIELD_RESERVED,
                           .ignored = tv_isa_ignores(isa, &isa->insns[insn], fields[i]),
                           .value = tv_field_get(isa, field, word)};
    for (unsigned k = 0; k < isa->insns[insn].fixed_count; k++)
        if (isa->insns[insn].fixed[k].field == fields[i]) {
            out->fixed = 1;
            out->fixed_value = isa->insns[insn].fixed[k].value;
        }
    return 1;
}

int tv_codec_parameter_at(const tv_codec *codec, unsigned insn, unsigned i, tv_parameter_info *out)
{
    static const char *const types[] = {"integer", "number", "boolean", "word", "text", "ids", "object"};
    const tv_isa *isa = tv_codec_isa(codec);
    bool common = i < isa->common_count;
    if (insn >= isa->insn_count || i >= isa->common_count + isa->insns[insn].parameter_count)
        return 0;
    const tv_parameter_use *use = common ? NULL : &isa->insns[insn].parameters[i - isa->common_count];
    const tv_parameter *p = &isa->parameters[common ? i : use->parameter];
    *out = (tv_parameter_info){.name = p->name,
                               .unit = p->unit,
                               .addition = p->addition,
                               .doc = p->doc,
                               .type = types[p->type],
                               .default_value = p->default_value,
                               .required = common ? i == 0
                                                  : use->presence == TV_REQUIRED || use->presence == TV_MEMBER_REQUIRED,
                               .common = common,
                               .member = use && use->presence >= TV_MEMBER,
                               .min = p->min,
                               .max = p->max,
                               .allowed = p->type == TV_PARAMETER_INTEGER ? p->allowed : 0,
                               .enum_names = p->enum_names};
    return 1;
}

int tv_codec_nearest(const tv_codec *codec, uint64_t word)
{
    const tv_isa *isa = tv_codec_isa(codec);
    int best = -1;
    unsigned max = 0;
    for (unsigned i = 0; i < isa->insn_count; i++) {
        const tv_insn *insn = &isa->insns[i];
        unsigned n = 0;
        while (n < insn->fixed_count &&
               tv_field_get(isa, &isa->fields[insn->fixed[n].field], word) == insn->fixed[n].value)
            n++;
        if (n > max) {
            max = n;
            best = (int)i;
        }
    }
    return best;
}

_Static_assert(TV_UOP_FIELDS == TV_COUNTOF(((tv_uop *)0)->fields) - 1,
               "the list of a uop's fields ends with TV_NO_FIELD");

/* The uop of `word` as one value of *width bits. */
static uint64_t pack_uop(const tv_isa *isa, const tv_uop *uop, uint64_t word, unsigned *width)
{
    uint64_t value = 0;
    *width = 0;
    for (const tv_uop_slice *p = uop->slices; p->bits; p++) {
        uint64_t bits = p->field == TV_SLICE_ROUTE  ? uop->route
                        : p->field == TV_SLICE_ZERO ? 0
                                                    : tv_field_get(isa, &isa->fields[p->field], word);
        assert(bits <= tv_mask(p->bits));
        value = value << p->bits | bits;
        *width += p->bits;
    }
    return value;
}

unsigned tv_codec_values(const tv_codec *codec, unsigned insn, uint64_t word, uint64_t *values, unsigned capacity)
{
    const tv_isa *isa = tv_codec_isa(codec);
    unsigned n = 0;
    if (insn >= isa->insn_count || !isa->word_bits)
        return 0;
    const uint16_t *fields = tv_codec_format_fields(codec, isa->insns[insn].format, &n);
    for (unsigned i = 0; i < n && i < capacity; i++)
        values[i] = tv_field_get(isa, &isa->fields[fields[i]], word);
    return n;
}

int tv_codec_uop_values_at(const tv_codec *codec, unsigned insn, unsigned i, uint64_t word, tv_uop_values *out)
{
    const tv_isa *isa = tv_codec_isa(codec);
    if (insn >= isa->insn_count || i >= isa->insns[insn].uop_count)
        return 0;
    const tv_uop *uop = &isa->insns[insn].uops[i];
    out->type = uop->type;
    out->route = uop->route;
    out->skipped = tv_uop_skipped(isa, uop, word);
    out->packed = pack_uop(isa, uop, word, &out->width);
    out->field_count = 0;
    for (const uint16_t *f = uop->fields; *f != TV_NO_FIELD; f++)
        out->fields[out->field_count++] =
            (tv_field_value){isa->fields[*f].name, tv_field_get(isa, &isa->fields[*f], word)};
    return 1;
}

int tv_codec_uop_at(const tv_codec *codec, unsigned insn, unsigned i, uint64_t word, tv_uop_info *out)
{
    const tv_isa *isa = tv_codec_isa(codec);
    if (insn >= isa->insn_count || i >= isa->insns[insn].uop_count)
        return 0;
    const tv_uop *uop = &isa->insns[insn].uops[i];
    *out = (tv_uop_info){.type = uop->type,
                         .route_name = uop->route_name,
                         .route = uop->route,
                         .skipped = tv_uop_skipped(isa, uop, word)};
    out->packed = pack_uop(isa, uop, word, &out->width);
    tv_buf text = TV_BUF_FIXED(out->fields);
    for (const uint16_t *f = uop->fields; *f != TV_NO_FIELD; f++)
        tv_buf_printf(&text, "%s%s=0x%" PRIx64, f == uop->fields ? "" : " ", isa->fields[*f].name,
                      tv_field_get(isa, &isa->fields[*f], word));
    END_TEXT(out->fields, text);
    return 1;
}

/* The field of the row's format with this name, including JOINED fields; NULL: there is none. */
static const tv_field *find_field(const tv_isa *isa, const tv_insn *insn, const char *name)
{
    for (unsigned i = 0; i < isa->field_count; i++)
        if (isa->fields[i].format == insn->format && strcmp(isa->fields[i].name, name) == 0)
            return &isa->fields[i];
    return NULL;
}

tv_status tv_codec_encode(const tv_codec *codec, const char *id, const tv_field_value *values, unsigned count,
                          const tv_diag_sink *sink, uint64_t *word)
{
    const tv_isa *isa = tv_codec_isa(codec);
    const tv_insn *insn = NULL;
    for (unsigned i = 0; i < isa->insn_count && !insn; i++)
        if (strcmp(isa->insns[i].id, id) == 0)
            insn = &isa->insns[i];
    if (!insn)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(ASM_MNEMONIC), NULL, "%s has no instruction '%.60s'", isa->target,
                       id);
    uint64_t w = 0;
    for (unsigned i = 0; i < count; i++) {
        const tv_field *field = find_field(isa, insn, values[i].name);
        if (!field)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(ASM_OPERAND), NULL, "%s has no field '%.60s'", id,
                           values[i].name);
        if (values[i].value & ~tv_mask(tv_field_width(isa, field)))
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(ASM_RANGE), NULL, "%" PRIu64 " does not fit the %u bits of '%s'",
                           values[i].value, tv_field_width(isa, field), field->name);
        w = tv_field_set(isa, field, w, values[i].value);
    }
    for (unsigned i = 0; i < insn->fixed_count; i++)
        w = tv_field_set(isa, &isa->fields[insn->fixed[i].field], w, insn->fixed[i].value);
    tv_illegal why;
    if (tv_codec_row(codec, w, &why) < 0)
        return tv_fail(sink, TV_ERR_INPUT, why.code, NULL, "%s: %s", id, why.code->text);
    *word = w;
    return TV_OK;
}
