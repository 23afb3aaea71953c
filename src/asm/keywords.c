/* SPDX-License-Identifier: Apache-2.0 */
/* The keywords of an assembly language, from the tables that the assembler itself uses. Each is reported once. */
#include <stdlib.h>

#include "asm/assemble.h"
#include "asm/job.h"

typedef struct reported_keyword {
    tv_keyword_kind kind;
    const char *keyword;
} reported_keyword;

typedef struct collector {
    const tv_keyword_sink *keywords;
    TV_VEC(reported_keyword) reported;
} collector;

static void report_keyword(collector *c, tv_keyword_kind kind, const char *keyword, unsigned count)
{
    const reported_keyword *reported = c->reported.data;
    for (size_t i = 0; i < c->reported.count; i++)
        if (reported[i].kind == kind && strcmp(reported[i].keyword, keyword) == 0)
            return;
    if (TV_VEC_PUSH(&c->reported, (reported_keyword){kind, keyword}))
        c->keywords->emit(c->keywords->user, kind, keyword, count);
}

/* The number of registers of a class: the field numbers all of them, and each class is half as many as the one below.
 */
static unsigned register_count(const tv_isa *isa, const tv_operand *operand, unsigned class_)
{
    const tv_field *field = &isa->fields[operand->field];
    if (field->role == TV_FIELD_JOINED)
        field = &isa->fields[field->low_field];
    return (unsigned)((tv_mask((unsigned)(field->hi - field->lo + 1)) + 1) >> class_);
}

static void report_operand(collector *c, const tv_isa *isa, const tv_operand *operand)
{
    const tv_operand_kind *kind = tv_operand_kind_of(isa, operand);
    if (operand->form == TV_FLAG_OPTIONAL) {
        report_keyword(c, TV_KEYWORD_FLAG, operand->key, 0);
        return;
    }
    if (operand->key)
        report_keyword(c, TV_KEYWORD_OPERAND_KEY, operand->key, 0);
    if (kind->tag)
        report_keyword(c, TV_KEYWORD_OPERAND, kind->tag, 0);
    if (kind->syntax == TV_SYNTAX_BRACKET)
        report_keyword(c, TV_KEYWORD_BRACKET, kind->name, 0);
    for (unsigned i = 0; i < kind->name_count; i++) {
        if (kind->syntax == TV_SYNTAX_ENTRY)
            report_keyword(c, TV_KEYWORD_BRACKET, kind->names[i], 0);
        if (kind->syntax == TV_SYNTAX_REG)
            report_keyword(c, TV_KEYWORD_REGISTER, kind->names[i], register_count(isa, operand, i));
    }
}

tv_status tv_asm_keywords(const tv_isa *isa, const tv_keyword_sink *keywords, const tv_diag_sink *sink)
{
    const char *name;
    collector c = {.keywords = keywords};
    if (!isa->word_bits)
        return TV_OK;
    for (unsigned i = 0; i < isa->insn_count; i++) {
        const tv_insn *insn = &isa->insns[i];
        report_keyword(&c, TV_KEYWORD_MNEMONIC, insn->mnemonic, 0);
        for (unsigned a = 0; a < insn->attribute_count; a++)
            report_keyword(&c, TV_KEYWORD_SUFFIX, insn->attributes[a].suffix, 0);
        for (unsigned o = 0; o < insn->operand_count; o++)
            report_operand(&c, isa, &insn->operands[o]);
    }
    for (unsigned i = 0; isa->streams && isa->streams[i]; i++)
        report_keyword(&c, TV_KEYWORD_STREAM, isa->streams[i], 0);
    for (unsigned i = 0; (name = tv_directive_name(i)); i++)
        report_keyword(&c, TV_KEYWORD_DIRECTIVE, name, 0);
    for (unsigned i = 0; (name = tv_expr_function(i)); i++)
        report_keyword(&c, TV_KEYWORD_FUNCTION, name, 0);
    tv_status status = c.reported.failed ? tv_fail_memory(sink) : TV_OK;
    TV_VEC_FINI(&c.reported);
    return status;
}
