/* SPDX-License-Identifier: Apache-2.0 */
/* The words of an assembly language, gathered from the tables that the assembler itself uses. */
#include <stdlib.h>

#include "asm/assemble.h"
#include "asm/job.h"

typedef struct found {
    tv_keyword_kind kind;
    const char *keyword;
} found;

typedef struct gathering {
    const tv_keyword_sink *keywords;
    tv_buf seen; /* of found */
} gathering;

static void tell(gathering *g, tv_keyword_kind kind, const char *keyword, unsigned count)
{
    const found *seen = (const found *)(const void *)g->seen.data;
    for (size_t i = 0; i < g->seen.len / sizeof *seen; i++)
        if (seen[i].kind == kind && strcmp(seen[i].keyword, keyword) == 0)
            return;
    tv_buf_append(&g->seen, &(found){kind, keyword}, sizeof(found));
    if (!g->seen.failed)
        g->keywords->emit(g->keywords->user, kind, keyword, count);
}

/* How many registers of a class there are follows from the field that has them all. */
static unsigned register_count(const tv_isa *isa, const tv_operand *operand, unsigned class_)
{
    const tv_field *field = &isa->fields[operand->field];
    if (field->role == TV_FIELD_JOINED)
        field = &isa->fields[field->low_part];
    return (unsigned)((tv_mask((unsigned)(field->hi - field->lo + 1)) + 1) >> class_);
}

static void tell_operand(gathering *g, const tv_isa *isa, const tv_operand *operand)
{
    const tv_operand_kind *kind = tv_operand_kind_of(isa, operand);
    if (operand->form == TV_FLAG_OPTIONAL) {
        tell(g, TV_KEYWORD_FLAG, operand->key, 0);
        return;
    }
    if (operand->key)
        tell(g, TV_KEYWORD_OPERAND_KEY, operand->key, 0);
    if (kind->tag)
        tell(g, TV_KEYWORD_OPERAND, kind->tag, 0);
    if (kind->syntax == TV_SYNTAX_BRACKET)
        tell(g, TV_KEYWORD_BRACKET, kind->name, 0);
    for (unsigned i = 0; i < kind->name_count; i++) {
        if (kind->syntax == TV_SYNTAX_ENTRY)
            tell(g, TV_KEYWORD_BRACKET, kind->names[i], 0);
        if (kind->syntax == TV_SYNTAX_REG)
            tell(g, TV_KEYWORD_REGISTER, kind->names[i], register_count(isa, operand, i));
    }
}

tv_status tv_asm_keywords(const tv_isa *isa, const tv_keyword_sink *keywords, const tv_diag_sink *sink)
{
    const char *name;
    gathering g = {.keywords = keywords};
    if (!isa->word_bits)
        return TV_OK;
    for (unsigned i = 0; i < isa->insn_count; i++) {
        const tv_insn *insn = &isa->insns[i];
        tell(&g, TV_KEYWORD_MNEMONIC, insn->mnemonic, 0);
        for (unsigned a = 0; a < insn->attribute_count; a++)
            tell(&g, TV_KEYWORD_SUFFIX, insn->attributes[a].suffix, 0);
        for (unsigned o = 0; o < insn->operand_count; o++)
            tell_operand(&g, isa, &insn->operands[o]);
    }
    for (unsigned i = 0; isa->streams && isa->streams[i]; i++)
        tell(&g, TV_KEYWORD_STREAM, isa->streams[i], 0);
    for (unsigned i = 0; (name = tv_directive_name(i)); i++)
        tell(&g, TV_KEYWORD_DIRECTIVE, name, 0);
    for (unsigned i = 0; (name = tv_expr_function(i)); i++)
        tell(&g, TV_KEYWORD_FUNCTION, name, 0);
    tv_status status = g.seen.failed ? tv_fail_memory(sink) : TV_OK;
    tv_buf_fini(&g.seen);
    return status;
}
