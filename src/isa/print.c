/* SPDX-License-Identifier: Apache-2.0 */
/* Words as assembly text, from the same operand lists that the assembler reads. */
#include <inttypes.h>

#include "base/buf.h"
#include "isa/isa.h"

static void print_value(const tv_operand_kind *kind, uint64_t value, tv_buf *out)
{
    if (kind->tag && value == kind->tag_value) {
        tv_buf_str(out, kind->tag);
        return;
    }
    switch (kind->syntax) {
    case TV_SYNTAX_BRACKET:
        tv_buf_printf(out, "%s[0x%" PRIx64 "]", kind->name, value * kind->scale);
        break;
    case TV_SYNTAX_ENTRY:
        tv_buf_printf(out, "%s[%" PRIu64 "]", kind->names[value >> kind->index_bits], value & tv_mask(kind->index_bits));
        break;
    default: tv_buf_printf(out, "%" PRIu64, value * (kind->scale ? kind->scale : 1)); break;
    }
}

void tv_isa_print(const tv_isa *isa, const tv_insn *insn, uint64_t word, tv_buf *out)
{
    tv_buf_str(out, insn->mnemonic);
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
            print_value(tv_operand_kind_of(isa, operand), value, out);
    }
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
        else
            tv_buf_str(out, field->name);
        if (kind->tag)
            tv_buf_printf(out, "|%s", kind->tag);
    }
    if (optional)
        tv_buf_str(out, "]");
}
