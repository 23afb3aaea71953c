/* SPDX-License-Identifier: Apache-2.0 */
/* Words as assembly text, from the operand lists that the assembler uses. */
#include <inttypes.h>

#include "base/buf.h"
#include "isa/isa.h"

static int64_t sign_extended(uint64_t value, unsigned width)
{
    uint64_t sign = UINT64_C(1) << (width - 1);
    return (int64_t)((value ^ sign) - sign);
}

static void print_value(const tv_isa *isa, const tv_operand *operand, uint64_t word, tv_buf *out)
{
    const tv_operand_kind *kind = tv_operand_kind_of(isa, operand);
    const tv_field *field = &isa->fields[operand->field];
    uint64_t value = tv_field_get(isa, field, word);
    if (kind->tag && value == kind->tag_value) {
        tv_buf_str(out, kind->tag);
        return;
    }
    switch (kind->syntax) {
    case TV_SYNTAX_BRACKET:
        tv_buf_printf(out, "%s[0x%" PRIx64 "]", kind->name, value * kind->scale);
        break;
    case TV_SYNTAX_ENTRY:
        tv_buf_printf(out, "%s[%" PRIu64 "]", kind->names[value >> kind->index_bits],
                      value & tv_mask(kind->index_bits));
        break;
    case TV_SYNTAX_SINT:
        tv_buf_printf(out, "%" PRId64, sign_extended(value, tv_field_width(isa, field)));
        break;
    case TV_SYNTAX_REG:
        tv_buf_printf(out, "%s%" PRIu64, kind->names[tv_operand_class(isa, kind, word)], value);
        break;
    case TV_SYNTAX_ADDRESS: {
        const tv_field *high = &isa->fields[field->high_field], *low = &isa->fields[field->low_field];
        tv_buf_printf(out, "%" PRId64 "(%s%" PRIu64 ")",
                      sign_extended(tv_field_get(isa, high, word), tv_field_width(isa, high)),
                      kind->names[kind->reg_class], tv_field_get(isa, low, word));
        break;
    }
    default:
        tv_buf_printf(out, "%" PRIu64, value * (kind->scale ? kind->scale : 1));
        break;
    }
}

/* Appends ", rd=2" for each field that the instruction ignores and that is not zero, from the low bits up. */
static void print_ignored(const tv_isa *isa, const tv_insn *insn, uint64_t word, const char *separator, tv_buf *out)
{
    for (unsigned i = isa->field_count; i-- > 0;) {
        const tv_field *field = &isa->fields[i];
        if (field->format != insn->format || field->role != TV_FIELD_VALUE)
            continue;
        uint64_t value = tv_field_get(isa, field, word);
        if (value == 0 || !tv_isa_ignores(isa, insn, (uint16_t)i))
            continue;
        if (field->kind->syntax == TV_SYNTAX_SINT)
            tv_buf_printf(out, "%s%s=%" PRId64, separator, field->name,
                          sign_extended(value, tv_field_width(isa, field)));
        else
            tv_buf_printf(out, "%s%s=%" PRIu64, separator, field->name,
                          value * (field->kind->scale ? field->kind->scale : 1));
        separator = ", ";
    }
}

void tv_isa_print(const tv_isa *isa, const tv_insn *insn, uint64_t word, tv_buf *out)
{
    tv_buf_str(out, insn->mnemonic);
    for (unsigned i = 0; i < insn->attribute_count; i++) {
        const tv_attribute *a = &insn->attributes[i];
        if (tv_field_get(isa, &isa->fields[a->field], word) == a->value)
            tv_buf_printf(out, ".%s", a->suffix);
    }
    const char *separator = " ";
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand *operand = &insn->operands[i];
        const tv_field *field = &isa->fields[operand->field];
        uint64_t value = tv_field_get(isa, field, word);
        bool optional = operand->form == TV_KEYWORD_OPTIONAL || operand->form == TV_FLAG_OPTIONAL;
        if (optional && value == 0)
            continue;
        tv_buf_str(out, separator);
        separator = ", ";
        if (operand->key)
            tv_buf_printf(out, operand->form == TV_FLAG_OPTIONAL ? "%s" : "%s=", operand->key);
        if (operand->form != TV_FLAG_OPTIONAL)
            print_value(isa, operand, word, out);
    }
    print_ignored(isa, insn, word, separator, out);
}

void tv_isa_print_illegal(const tv_isa *isa, const tv_illegal *why, tv_buf *out)
{
    const tv_field *field = &isa->fields[why->field];
    tv_buf_printf(out, "%s: ", why->code->text);
    if (field->hi == field->lo)
        tv_buf_printf(out, "bit %u", field->hi);
    else
        tv_buf_printf(out, "bits %u:%u", field->hi, field->lo);
    tv_buf_printf(out, " '%s' = %" PRIu64, field->name, why->value);
    if (why->value > 9)
        tv_buf_printf(out, " (0x%" PRIx64 ")", why->value);
}

void tv_isa_print_suffix(const tv_insn *insn, unsigned attribute, tv_buf *out)
{
    const tv_attribute *list = insn->attributes;
    if (attribute && list[attribute - 1].field == list[attribute].field)
        return;
    for (unsigned i = attribute; i < insn->attribute_count && list[i].field == list[attribute].field; i++)
        tv_buf_printf(out, i == attribute ? "[.%s" : "|.%s", list[i].suffix);
    tv_buf_str(out, "]");
}

void tv_isa_print_form(const tv_isa *isa, const tv_operand *operand, tv_buf *out)
{
    const tv_field *field = &isa->fields[operand->field];
    const tv_operand_kind *kind = tv_operand_kind_of(isa, operand);
    bool optional = operand->form == TV_KEYWORD_OPTIONAL || operand->form == TV_FLAG_OPTIONAL;
    if (optional)
        tv_buf_str(out, "[");
    if (operand->key)
        tv_buf_printf(out, operand->form == TV_FLAG_OPTIONAL ? "%s" : "%s=", operand->key);
    if (operand->form != TV_FLAG_OPTIONAL) {
        if (kind->syntax == TV_SYNTAX_BRACKET)
            tv_buf_printf(out, "%s[%s]", kind->name, field->name);
        else if (kind->syntax == TV_SYNTAX_ENTRY)
            for (unsigned i = 0; i < kind->name_count; i++)
                tv_buf_printf(out, "%s%s[index]", i ? "|" : "", kind->names[i]);
        else if (kind->syntax == TV_SYNTAX_ADDRESS)
            tv_buf_printf(out, "%s(%sN)", isa->fields[field->high_field].name, kind->names[kind->reg_class]);
        else if (kind->syntax == TV_SYNTAX_REG && kind->reg_class != TV_CLASS_FIELD)
            tv_buf_printf(out, "%sN", kind->names[kind->reg_class]);
        else if (kind->syntax == TV_SYNTAX_REG)
            for (unsigned i = 0; i < kind->name_count; i++)
                tv_buf_printf(out, "%s%sN", i ? "|" : "", kind->names[i]);
        else
            tv_buf_str(out, field->name);
        if (kind->tag)
            tv_buf_printf(out, "|%s", kind->tag);
    }
    if (optional)
        tv_buf_str(out, "]");
}
