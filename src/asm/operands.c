/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction statements.
 *
 * Several rows of the ISA table may share a mnemonic, and a row may have alternate operand lists. Operands are
 * therefore parsed by syntax only (parsed_operand) and then matched against each of these forms; the one with the most
 * matching operands is encoded. If it does not match completely, the encoder reports the first operand that differs.
 * Fields that the form ignores can be given by name (rd=2). Fields, ranges and syntax come from the table; nothing here
 * knows an instruction. */
#include <stdlib.h>

#include <inttypes.h>

#include "asm/job.h"

/* ---- Mnemonics ---- */

typedef struct mnemonic_entry {
    const char *mnemonic;
    uint64_t hash;
    uint16_t first, count; /* rows; those of a mnemonic are adjacent in the table */
} mnemonic_entry;

struct tv_mnemonics {
    mnemonic_entry *slots;
    size_t mask;
};

static bool build_index(tv_asm_job *job)
{
    const tv_isa *isa = job->isa;
    size_t size = 64;
    while (size < isa->insn_count * 2u)
        size *= 2;
    struct tv_mnemonics *m = calloc(1, sizeof *m);
    if (m)
        m->slots = calloc(size, sizeof *m->slots);
    if (!m || !m->slots) {
        free(m);
        job->out_of_memory = true;
        return false;
    }
    m->mask = size - 1;
    for (unsigned r = 0; r < isa->insn_count; r++) {
        tv_sv name = tv_sv_of(isa->insns[r].mnemonic);
        size_t i = tv_sv_hash(name) & m->mask;
        while (m->slots[i].mnemonic && !tv_sv_is(name, m->slots[i].mnemonic))
            i = (i + 1) & m->mask;
        if (!m->slots[i].mnemonic)
            m->slots[i] = (mnemonic_entry){isa->insns[r].mnemonic, tv_sv_hash(name), (uint16_t)r, 0};
        assert(m->slots[i].first + m->slots[i].count == (int)r); /* rows of a mnemonic are adjacent */
        m->slots[i].count++;
    }
    job->mnemonics = m;
    return true;
}

bool tv_operands_set_target(tv_asm_job *job, tv_sv name, unsigned column)
{
    const tv_isa *isa = tv_isa_find(job->isas, name);
    if (isa && !isa->word_bits) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_TARGET), "its programs are command queues in JSON",
                        "%s has no assembly language", isa->target);
        return false;
    }
    if (!isa) {
        char hint[80];
        tv_isa_suggest(job->isas, name, hint);
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_TARGET), hint, "unknown target '%.*s'",
                        TV_SV_ARG(name));
        job->stop = true; /* every instruction would be an error */
        return false;
    }
    if (job->isa && job->isa != isa) {
        tv_asm_error_at(job, column, (unsigned)name.len, TV_CODE(ASM_TARGET),
                        "a program has one target; omit -t if the source names it", "the target is already %s",
                        job->isa->target);
        job->stop = true; /* every instruction would be an error */
        return false;
    }
    if (job->isa)
        return true;
    job->isa = isa;
    job->word_bytes = isa->word_bits / 8;
    return build_index(job);
}

void tv_operands_fini(tv_asm_job *job)
{
    if (job->mnemonics)
        free(job->mnemonics->slots);
    free(job->mnemonics);
    job->mnemonics = NULL;
}

static const mnemonic_entry *find_mnemonic(const tv_asm_job *job, tv_sv name)
{
    const struct tv_mnemonics *m = job->mnemonics;
    if (!m)
        return NULL;
    uint64_t hash = tv_sv_hash(name);
    for (size_t i = hash & m->mask; m->slots[i].mnemonic; i = (i + 1) & m->mask)
        if (m->slots[i].hash == hash && tv_sv_is(name, m->slots[i].mnemonic))
            return &m->slots[i];
    return NULL;
}

/* Splits a name into the longest mnemonic that it begins with and the suffixes, which start with their dot. */
static const mnemonic_entry *find_with_suffixes(const tv_asm_job *job, tv_sv name, tv_sv *suffixes)
{
    enum { MNEMONIC_MAX = 64 }; /* no mnemonic is as long: a name of any length costs a bounded number of look-ups */
    tv_sv head = name;
    if (head.len > MNEMONIC_MAX)
        for (head.len = MNEMONIC_MAX; head.len && head.ptr[head.len] != '.';)
            head.len--;
    for (;;) {
        const mnemonic_entry *e = find_mnemonic(job, head);
        *suffixes = (tv_sv){head.ptr + head.len, name.len - head.len};
        if (e)
            return e;
        do {
            if (head.len == 0)
                return NULL;
            head.len--;
        } while (head.ptr[head.len] != '.');
    }
}

bool tv_operands_is_mnemonic(tv_asm_job *job, tv_sv name)
{
    tv_sv suffixes;
    return find_with_suffixes(job, name, &suffixes) != NULL;
}

void tv_operands_suggest(tv_asm_job *job, tv_nearest *nearest)
{
    for (unsigned r = 0; job->isa && r < job->isa->insn_count; r++)
        tv_nearest_offer(nearest, job->isa->insns[r].mnemonic);
}

/* ---- Parsing operands ---- */

typedef struct parsed_operand {
    enum { OPERAND_EXPR, OPERAND_BRACKET, OPERAND_KEY, OPERAND_NAME, OPERAND_ADDRESS } kind;
    tv_sv name; /* BRACKET: before it; KEY: before `=`; NAME: itself; ADDRESS: between the parentheses */
    tv_expr value;
    unsigned column, length;
    bool used;
} parsed_operand;

/* The (register) after an offset, if there is one. */
static bool parse_base_register(tv_asm_job *job, parsed_operand *out)
{
    if (!tv_lex_accept(job, '('))
        return true;
    out->kind = OPERAND_ADDRESS;
    out->name = job->lexer.token.text;
    if (job->lexer.token.kind != TV_TOK_NAME) {
        tv_asm_error(job, TV_CODE(ASM_SYNTAX), "write it like 16(vr1)", "expected a register after '('");
        return false;
    }
    tv_lex_next(job);
    if (!tv_lex_accept(job, ')')) {
        tv_asm_error(job, TV_CODE(ASM_SYNTAX), NULL, "expected ')'");
        return false;
    }
    return true;
}

static bool parse_operand_body(tv_asm_job *job, parsed_operand *out)
{
    tv_token token = job->lexer.token;
    *out = (parsed_operand){.kind = OPERAND_EXPR, .column = tv_lex_column(job), .length = (unsigned)token.text.len};
    if (token.kind == TV_TOK_NAME) {
        tv_token next = tv_lex_peek(job);
        bool punct = next.kind == TV_TOK_PUNCT;
        if (punct && next.op == '[') {
            out->kind = OPERAND_BRACKET;
            out->name = token.text;
            tv_lex_next(job);
            tv_lex_next(job);
            if (!tv_expr_parse(job, &out->value))
                return false;
            if (!tv_lex_accept(job, ']')) {
                tv_asm_error(job, TV_CODE(ASM_SYNTAX), NULL, "expected ']'");
                return false;
            }
            return true;
        }
        if (punct && next.op == '=') {
            out->kind = OPERAND_KEY;
            out->name = token.text;
            tv_lex_next(job);
            tv_lex_next(job);
            return tv_expr_parse(job, &out->value);
        }
        /* A single name may be a flag, a tag or a symbol, depending on the row. A name after it means a missing comma.
         */
        if (next.kind == TV_TOK_END || next.kind == TV_TOK_NAME || (punct && next.op == ',')) {
            out->kind = OPERAND_NAME;
            out->name = token.text;
            tv_lex_next(job);
            return true;
        }
    }
    return tv_expr_parse(job, &out->value) && parse_base_register(job, out);
}

static bool parse_operand(tv_asm_job *job, parsed_operand *out)
{
    bool ok = parse_operand_body(job, out);
    if (ok && job->lexer.prev_end + 1 > out->column)
        out->length = (unsigned)job->lexer.prev_end + 1 - out->column;
    return ok;
}

/* Parses the operands up to the end of the statement. */
static bool parse_operands(tv_asm_job *job, parsed_operand *list, unsigned *count)
{
    *count = 0;
    if (job->lexer.token.kind == TV_TOK_END)
        return true;
    for (;;) {
        if (*count == TV_ASM_ARGS_MAX) {
            tv_asm_error(job, TV_CODE(ASM_OPERAND_COUNT), NULL, "no instruction has so many operands");
            return false;
        }
        if (!parse_operand(job, &list[(*count)++]))
            return false;
        if (tv_lex_accept(job, ','))
            continue;
        if (job->lexer.token.kind == TV_TOK_END)
            return true;
        if (job->lexer.token.kind == TV_TOK_BAD)
            return false;
        tv_asm_error(job, TV_CODE(ASM_COMMA), "operands are separated by commas", "missing comma before '%.*s'",
                     TV_SV_ARG(job->lexer.token.text));
        return false;
    }
}

/* ---- Matching operands to a row ---- */

/* Splits "vr12" into its class, an index of the kind's names, and its number. */
static bool parse_register(const tv_operand_kind *kind, tv_sv word, unsigned *class_, uint64_t *number)
{
    for (unsigned c = 0; c < kind->name_count; c++) {
        size_t n = strlen(kind->names[c]);
        if (word.len <= n || word.len > n + 3 || memcmp(word.ptr, kind->names[c], n) != 0)
            continue;
        uint64_t value = 0;
        for (size_t i = n; i < word.len; i++) {
            if (word.ptr[i] < '0' || word.ptr[i] > '9')
                return false;
            value = value * 10 + (uint64_t)(word.ptr[i] - '0');
        }
        *class_ = c;
        *number = value;
        return true;
    }
    return false;
}

static bool operand_matches(const tv_operand_kind *kind, const parsed_operand *o)
{
    unsigned class_;
    uint64_t number;
    if (kind->tag && o->kind == OPERAND_NAME && tv_sv_is(o->name, kind->tag))
        return true;
    switch (kind->syntax) {
    case TV_SYNTAX_UINT:
    case TV_SYNTAX_SINT:
        return o->kind == OPERAND_EXPR || o->kind == OPERAND_NAME;
    case TV_SYNTAX_REG:
        return o->kind == OPERAND_NAME && parse_register(kind, o->name, &class_, &number) &&
               (kind->reg_class == TV_CLASS_FIELD || kind->reg_class == class_);
    case TV_SYNTAX_ADDRESS:
        return o->kind == OPERAND_ADDRESS && parse_register(kind, o->name, &class_, &number) &&
               kind->reg_class == class_;
    case TV_SYNTAX_BRACKET:
        return o->kind == OPERAND_BRACKET && tv_sv_is(o->name, kind->name);
    case TV_SYNTAX_ENTRY:
        for (unsigned i = 0; o->kind == OPERAND_BRACKET && i < kind->name_count; i++)
            if (tv_sv_is(o->name, kind->names[i]))
                return true;
        return false;
    default:
        return false;
    }
}

static unsigned positional_count(const tv_insn *insn)
{
    unsigned n = 0;
    while (n < insn->operand_count && insn->operands[n].form == TV_POSITIONAL)
        n++;
    return n;
}

static const tv_operand_kind *kind_at(const tv_asm_job *job, const tv_insn *insn, unsigned i)
{
    return tv_operand_kind_of(job->isa, &insn->operands[i]);
}

/* The number of leading positional operands that match. */
static unsigned count_matching(const tv_asm_job *job, const tv_insn *insn, const parsed_operand *list, unsigned count)
{
    unsigned positional = positional_count(insn), n = 0;
    while (n < positional && n < count && operand_matches(kind_at(job, insn, n), &list[n]))
        n++;
    return n;
}

static bool is_alternate_of(const mnemonic_entry *e, const tv_alternate *alternate)
{
    return alternate->insn >= e->first && alternate->insn < e->first + e->count;
}

/* The number of operand lists of a mnemonic: one of each row, then the alternates of the rows. */
static unsigned form_count(const tv_asm_job *job, const mnemonic_entry *e)
{
    unsigned n = e->count;
    for (unsigned i = 0; i < job->isa->alternate_count; i++)
        n += is_alternate_of(e, &job->isa->alternates[i]);
    return n;
}

/* The row of form `f`, with the operand list of the form. */
static tv_insn form_at(const tv_asm_job *job, const mnemonic_entry *e, unsigned f)
{
    if (f < e->count)
        return job->isa->insns[e->first + f];
    const tv_alternate *alternate = job->isa->alternates;
    for (f -= e->count; f > 0 || !is_alternate_of(e, alternate); alternate++)
        f -= is_alternate_of(e, alternate);
    tv_insn form = job->isa->insns[alternate->insn];
    form.operands = alternate->operands;
    form.operand_count = alternate->operand_count;
    return form;
}

/* The syntax of all forms of the mnemonic, for hints. */
static void print_forms(tv_asm_job *job, const tv_insn *insn, tv_buf *out)
{
    const mnemonic_entry *e = find_mnemonic(job, tv_sv_of(insn->mnemonic));
    tv_buf_str(out, form_count(job, e) > 1 ? "the forms are: " : "the form is: ");
    for (unsigned f = 0; f < form_count(job, e); f++) {
        tv_insn form = form_at(job, e, f);
        tv_buf_printf(out, f ? "; %s" : "%s", form.mnemonic);
        for (unsigned i = 0; i < form.operand_count; i++) {
            tv_buf_str(out, i ? ", " : " ");
            tv_isa_print_form(job->isa, &form.operands[i], out);
        }
    }
}

/* An operand that is not what the row has in its position. `operand` NULL: the row has none there. */
static void report_form(tv_asm_job *job, const tv_insn *insn, const tv_operand *operand, const parsed_operand *o)
{
    tv_buf expected = {0}, all = {0};
    print_forms(job, insn, &all);
    if (operand) {
        tv_isa_print_form(job->isa, operand, &expected);
        tv_asm_error_at(job, o->column, o->length, TV_CODE(ASM_OPERAND), tv_asm_cstr(job, &all), "'%s' expects %s here",
                        insn->mnemonic, tv_asm_cstr(job, &expected));
    } else {
        tv_asm_error_at(job, o->column, o->length, TV_CODE(ASM_OPERAND_COUNT), tv_asm_cstr(job, &all),
                        "'%s' has too many operands", insn->mnemonic);
    }
    tv_buf_fini(&expected);
    tv_buf_fini(&all);
}

/* `before`: the operand in the position of the missing one; NULL: it is missing at the end. */
static void report_missing(tv_asm_job *job, const tv_insn *insn, const tv_operand *operand,
                           const parsed_operand *before)
{
    tv_buf form = {0}, all = {0};
    tv_isa_print_form(job->isa, operand, &form);
    print_forms(job, insn, &all);
    tv_asm_error_at(job, before ? before->column : (unsigned)job->lexer.prev_end + 1, before ? before->length : 1,
                    TV_CODE(ASM_OPERAND_COUNT), tv_asm_cstr(job, &all), "'%s' is missing its operand %s",
                    insn->mnemonic, tv_asm_cstr(job, &form));
    tv_buf_fini(&form);
    tv_buf_fini(&all);
}

/* Parses a name again as an expression. */
static bool parse_name_as_expr(tv_asm_job *job, const parsed_operand *o, tv_expr *out)
{
    tv_lexer saved = job->lexer;
    job->lexer.pos = o->column - 1;
    tv_lex_next(job);
    bool ok = tv_expr_parse(job, out);
    out->column = o->column;
    out->length = o->length;
    job->lexer = saved;
    return ok;
}

/* Encodes the number of a register, and its class where that is a field. All registers of an instruction with a class
 * field have the same class; *reg_class is -1 before the first. */
static bool encode_register(tv_asm_job *job, const tv_operand_kind *kind, const tv_field *field,
                            const parsed_operand *o, uint64_t *word, int *reg_class)
{
    unsigned class_ = 0;
    uint64_t number = 0;
    parse_register(kind, o->name, &class_, &number);
    uint64_t count = tv_mask((unsigned)(field->hi - field->lo + 1)) + 1;
    if (number >= count >> class_) {
        char hint[64];
        snprintf(hint, sizeof hint, "the last is %s%llu", kind->names[class_],
                 (unsigned long long)(count >> class_) - 1);
        tv_asm_error_at(job, o->column, o->length, TV_CODE(ASM_RANGE), hint, "unknown register '%.*s'",
                        TV_SV_ARG(o->name));
        return false;
    }
    *word = tv_field_set(job->isa, field, *word, number);
    if (kind->reg_class != TV_CLASS_FIELD)
        return true;
    if (*reg_class >= 0 && *reg_class != (int)class_) {
        tv_asm_error_at(job, o->column, o->length, TV_CODE(ASM_OPERAND), "use only vx, only ve or only vr registers",
                        "'%.*s' has a different element width than the registers before it", TV_SV_ARG(o->name));
        return false;
    }
    *reg_class = (int)class_;
    *word = tv_field_set(job->isa, &job->isa->fields[kind->class_field], *word, class_);
    return true;
}

/* Warns of a value with more bits than the machine uses of the field. */
static void warn_truncated(tv_asm_job *job, unsigned bits, const tv_expr *value)
{
    int64_t x = value->value.i, min = -(INT64_C(1) << (bits - 1)), max = (int64_t)tv_mask(bits);
    if (x < min || x > max)
        tv_asm_warning(job, value->column, value->length, TV_CODE(ASM_RANGE), "the machine uses only the low bits",
                       "%" PRId64 " is truncated to %u bits: %" PRId64, x, bits, x & max);
}

static bool encode_positional(tv_asm_job *job, const tv_operand *operand, const parsed_operand *o, uint64_t *word,
                              int *reg_class)
{
    const tv_field *field = &job->isa->fields[operand->field];
    const tv_operand_kind *kind = tv_operand_kind_of(job->isa, operand);
    tv_expr value = o->value;
    value.column = o->value.column ? o->value.column : o->column;
    if (kind->tag && o->kind == OPERAND_NAME && tv_sv_is(o->name, kind->tag)) {
        *word = tv_field_set(job->isa, field, *word, kind->tag_value);
        return true;
    }
    if (kind->syntax == TV_SYNTAX_REG)
        return encode_register(job, kind, field, o, word, reg_class);
    if (kind->syntax == TV_SYNTAX_ADDRESS) {
        if (!encode_register(job, kind, &job->isa->fields[field->low_field], o, word, reg_class))
            return false;
        tv_emit_field(job, word, field->high_field, &value);
        return true;
    }
    if (kind->syntax == TV_SYNTAX_ENTRY) {
        uint64_t bank = 0;
        while (!tv_sv_is(o->name, kind->names[bank]))
            bank++;
        if (!value.known || value.value.real || value.value.i < 0 ||
            (uint64_t)value.value.i > tv_mask(kind->index_bits)) {
            char hint[64];
            snprintf(hint, sizeof hint, "the range is 0 to %llu", (unsigned long long)tv_mask(kind->index_bits));
            if (value.known && !value.value.real)
                tv_asm_error_at(job, value.column, value.length, TV_CODE(ASM_RANGE), hint, "%s has no entry %lld",
                                kind->names[bank], (long long)value.value.i);
            else
                tv_asm_error_at(job, value.column, value.length, TV_CODE(ASM_NOT_CONSTANT), hint,
                                "the index of %s must be an integer that is known here", kind->names[bank]);
            return false;
        }
        *word = tv_field_set(job->isa, field, *word, bank << kind->index_bits | (uint64_t)value.value.i);
        return true;
    }
    if (o->kind == OPERAND_NAME && !parse_name_as_expr(job, o, &value))
        return false;
    tv_emit_field(job, word, operand->field, &value);
    if (kind->kept_bits && value.known && !value.value.real)
        warn_truncated(job, kind->kept_bits, &value);
    return true;
}

/* The field that `o` names among those that the form ignores; TV_NO_FIELD: there is none. */
static uint16_t find_ignored(const tv_asm_job *job, const tv_insn *insn, const parsed_operand *o)
{
    for (unsigned i = 0; o->kind == OPERAND_KEY && i < job->isa->field_count; i++)
        if (tv_sv_is(o->name, job->isa->fields[i].name) && tv_isa_ignores(job->isa, insn, (uint16_t)i))
            return (uint16_t)i;
    return TV_NO_FIELD;
}

/* Encodes a field that the machine ignores, so that every legal word can be written. `given` has a bit for each field
 * of the format that was named before. */
static bool encode_ignored(tv_asm_job *job, const parsed_operand *o, uint16_t index, uint64_t *word, uint64_t *given)
{
    const tv_field *field = &job->isa->fields[index];
    uint64_t bit = UINT64_C(1) << field->lo;
    if (*given & bit) {
        tv_asm_error_at(job, o->column, o->length, TV_CODE(ASM_DUPLICATE), NULL, "'%s' is given twice", field->name);
        return false;
    }
    *given |= bit;
    tv_emit_field(job, word, index, &o->value);
    return true;
}

/* The keyword operand or flag that `o` names; NULL: there is none. */
static const tv_operand *find_named(const tv_insn *insn, const parsed_operand *o)
{
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand *operand = &insn->operands[i];
        if (!operand->key || !tv_sv_is(o->name, operand->key))
            continue;
        if ((operand->form == TV_FLAG_OPTIONAL) == (o->kind == OPERAND_NAME))
            return operand;
    }
    return NULL;
}

static void report_unknown(tv_asm_job *job, const tv_insn *insn, const parsed_operand *o)
{
    if (o->kind != OPERAND_KEY && o->kind != OPERAND_NAME) {
        report_form(job, insn, NULL, o);
        return;
    }
    for (unsigned i = 0; i < insn->operand_count; i++)
        if (insn->operands[i].key && tv_sv_is(o->name, insn->operands[i].key)) {
            bool flag = insn->operands[i].form == TV_FLAG_OPTIONAL;
            tv_asm_error_at(job, o->column, o->length, TV_CODE(ASM_OPERAND),
                            flag ? "write only its name" : "write it like size=0",
                            flag ? "'%s' is a flag and has no value" : "'%s' requires a value", insn->operands[i].key);
            return;
        }
    tv_nearest nearest = tv_nearest_to(o->name);
    tv_buf hint = {0};
    for (unsigned i = 0; i < insn->operand_count; i++)
        if (insn->operands[i].key)
            tv_nearest_offer(&nearest, insn->operands[i].key);
    if (nearest.best)
        tv_buf_printf(&hint, "did you mean '%s'?", nearest.best);
    else
        print_forms(job, insn, &hint);
    tv_asm_error_at(job, o->column, (unsigned)o->name.len, TV_CODE(ASM_OPERAND), tv_asm_cstr(job, &hint),
                    "'%s' has no operand '%.*s'", insn->mnemonic, TV_SV_ARG(o->name));
    tv_buf_fini(&hint);
}

static bool encode_named(tv_asm_job *job, const tv_insn *insn, parsed_operand *list, unsigned first, unsigned count,
                         uint64_t *word, uint64_t *given)
{
    bool ok = true;
    uint64_t ignored_given = 0;
    for (unsigned i = first; i < count; i++) {
        const tv_operand *operand = find_named(insn, &list[i]);
        uint16_t ignored = operand ? TV_NO_FIELD : find_ignored(job, insn, &list[i]);
        if (ignored != TV_NO_FIELD) {
            ok = encode_ignored(job, &list[i], ignored, word, &ignored_given) && ok;
            continue;
        }
        if (!operand) {
            report_unknown(job, insn, &list[i]);
            ok = false;
            continue;
        }
        uint64_t bit = UINT64_C(1) << (operand - insn->operands);
        if (*given & bit) {
            tv_asm_error_at(job, list[i].column, list[i].length, TV_CODE(ASM_DUPLICATE), NULL, "'%s' is given twice",
                            operand->key);
            ok = false;
            continue;
        }
        *given |= bit;
        if (operand->form == TV_FLAG_OPTIONAL)
            *word = tv_field_set(job->isa, &job->isa->fields[operand->field], *word, 1);
        else
            tv_emit_field(job, word, operand->field, &list[i].value);
    }
    return ok;
}

static void report_suffix(tv_asm_job *job, const tv_insn *insn, tv_sv whole, tv_sv one)
{
    unsigned column = (unsigned)(one.ptr - job->lexer.line.ptr) + 1;
    tv_buf hint = {0};
    tv_nearest nearest = tv_nearest_to(whole);
    tv_operands_suggest(job, &nearest);
    if (nearest.best && strcmp(nearest.best, insn->mnemonic) != 0)
        tv_buf_printf(&hint, "did you mean '%s'?", nearest.best);
    else
        tv_buf_str(&hint, insn->attribute_count ? "it has" : "it has no suffixes");
    for (unsigned i = 0; i < insn->attribute_count && !(nearest.best && strcmp(nearest.best, insn->mnemonic) != 0); i++)
        tv_buf_printf(&hint, " .%s", insn->attributes[i].suffix);
    if (one.len)
        tv_asm_error_at(job, column, (unsigned)one.len, TV_CODE(ASM_OPERAND), tv_asm_cstr(job, &hint),
                        "'%s' has no suffix '.%.*s'", insn->mnemonic, TV_SV_ARG(one));
    else
        tv_asm_error_at(job, column - 1, 1, TV_CODE(ASM_OPERAND), tv_asm_cstr(job, &hint), "missing suffix after '.'");
    tv_buf_fini(&hint);
}

/* Encodes suffixes such as ".sat.rtz". Each is one of the row's attributes; each field is set once. */
static bool encode_attributes(tv_asm_job *job, const tv_insn *insn, tv_sv suffixes, uint64_t *word)
{
    tv_sv whole = {suffixes.ptr - strlen(insn->mnemonic), strlen(insn->mnemonic) + suffixes.len};
    while (suffixes.len) {
        size_t n = 1;
        while (n < suffixes.len && suffixes.ptr[n] != '.')
            n++;
        tv_sv one = {suffixes.ptr + 1, n - 1};
        unsigned column = (unsigned)(one.ptr - job->lexer.line.ptr) + 1, i = 0;
        while (i < insn->attribute_count && !tv_sv_is(one, insn->attributes[i].suffix))
            i++;
        if (i == insn->attribute_count) {
            report_suffix(job, insn, whole, one);
            return false;
        }
        const tv_attribute *a = &insn->attributes[i], *other = insn->attributes;
        const tv_field *field = &job->isa->fields[a->field];
        uint64_t before = tv_field_get(job->isa, field, *word);
        if (before != 0) {
            while (other->field != a->field || other->value != before)
                other++;
            tv_asm_error_at(job, column, (unsigned)one.len, TV_CODE(ASM_DUPLICATE), NULL,
                            other == a ? "'.%s' is given twice" : "'.%s' contradicts '.%s'", a->suffix, other->suffix);
            return false;
        }
        *word = tv_field_set(job->isa, field, *word, a->value);
        suffixes = (tv_sv){suffixes.ptr + n, suffixes.len - n};
    }
    return true;
}

static void warn_proposed(tv_asm_job *job, const tv_insn *insn, unsigned column)
{
    if (!insn->proposed || job->allows_proposed || job->warned_proposed)
        return;
    job->warned_proposed = true; /* warn once per program */
    tv_asm_warning(job, column, (unsigned)strlen(insn->mnemonic), job->isa->proposed_code,
                   "silence this with `.option proposed`", "%s", job->isa->proposed_code->text);
}

static void encode_instruction(tv_asm_job *job, const tv_insn *insn, tv_sv suffixes, parsed_operand *list,
                               unsigned count, unsigned column)
{
    const tv_isa *isa = job->isa;
    unsigned positional = positional_count(insn);
    uint64_t word = 0, given = 0;
    int reg_class = -1;
    if (!encode_attributes(job, insn, suffixes, &word))
        return;
    for (unsigned i = 0; i < insn->fixed_count; i++)
        word = tv_field_set(isa, &isa->fields[insn->fixed[i].field], word, insn->fixed[i].value);
    for (unsigned i = 0; i < positional; i++) {
        if (i >= count || list[i].kind == OPERAND_KEY || (list[i].kind == OPERAND_NAME && find_named(insn, &list[i]))) {
            report_missing(job, insn, &insn->operands[i], i < count ? &list[i] : NULL);
            return;
        }
        if (!operand_matches(kind_at(job, insn, i), &list[i])) {
            report_form(job, insn, &insn->operands[i], &list[i]);
            return;
        }
        if (!encode_positional(job, &insn->operands[i], &list[i], &word, &reg_class))
            return;
    }
    if (!encode_named(job, insn, list, positional, count, &word, &given))
        return;
    for (unsigned i = positional; i < insn->operand_count; i++)
        if (insn->operands[i].form == TV_KEYWORD && !(given >> i & 1)) {
            report_missing(job, insn, &insn->operands[i], NULL);
            return;
        }
    warn_proposed(job, insn, column);
    tv_emit_word(job, word, column);
}

void tv_operands_assemble(tv_asm_job *job, tv_sv mnemonic, unsigned column)
{
    tv_sv suffixes;
    const mnemonic_entry *e = find_with_suffixes(job, mnemonic, &suffixes);
    parsed_operand list[TV_ASM_ARGS_MAX];
    unsigned count, best = 0, best_fit = 0;
    size_t fixups = job->fixups.count;
    unsigned errors = job->errors + job->repeated_errors;
    if (!e || !parse_operands(job, list, &count))
        return;
    for (unsigned i = 0; i < form_count(job, e); i++) {
        tv_insn form = form_at(job, e, i);
        unsigned n = count_matching(job, &form, list, count) + 1;
        if (n > best_fit) {
            best_fit = n;
            best = i;
        }
    }
    tv_insn form = form_at(job, e, best);
    encode_instruction(job, &form, suffixes, list, count, column);
    if (job->errors + job->repeated_errors != errors)
        job->fixups.count = fixups; /* drop the fixups of a word that was not emitted */
}
