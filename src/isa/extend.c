/* SPDX-License-Identifier: Apache-2.0 */
/* From the texts of an extension's row to lists of fixed fields, operands and parameters. */
#include "isa/extend.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/sv.h"

enum { FIXED_MAX = 8, OPERANDS_MAX = 16, PARAMETERS_MAX = 64, KEY_MAX = 32 };

/* The lists of a row, which live as long as the process. */
typedef struct lists {
    tv_fixed fixed[FIXED_MAX];
    tv_operand operands[OPERANDS_MAX];
    char keys[OPERANDS_MAX][KEY_MAX];
    tv_parameter_use parameters[PARAMETERS_MAX];
    char source[80];
} lists;

typedef struct job {
    const tv_isa *isa;
    const tv_extension_insn *row;
    const tv_diag_sink *sink;
    tv_insn *insn;
    lists *lists;
} job;

static tv_status reject(const job *j, const char *hint, const char *format, ...) TV_PRINTF(3, 4);

static tv_status reject(const job *j, const char *hint, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return tv_fail(j->sink, TV_ERR_INPUT, TV_CODE(EXTENSION_ROW), hint, "instruction %.40s: %s", j->row->id, text);
}

/* ---- Texts ---- */

/* The next item of a list that is separated by commas, without the spaces around it. False: there is none. */
static bool next_item(tv_sv *list, tv_sv *item)
{
    if (list->len == 0)
        return false;
    const char *comma = memchr(list->ptr, ',', list->len);
    size_t length = comma ? (size_t)(comma - list->ptr) : list->len;
    *item = tv_sv_trim((tv_sv){list->ptr, length});
    list->ptr += length + (comma != NULL);
    list->len -= length + (comma != NULL);
    return true;
}

/* Cuts `text` at the first `separator`: *head is what is before it. False: there is none, and nothing changes. */
static bool split(tv_sv *text, char separator, tv_sv *head)
{
    const char *at = memchr(text->ptr, separator, text->len);
    if (!at)
        return false;
    *head = tv_sv_trim((tv_sv){text->ptr, (size_t)(at - text->ptr)});
    *text = tv_sv_trim((tv_sv){at + 1, text->len - (size_t)(at + 1 - text->ptr)});
    return true;
}

/* A decimal number. */
static bool read_number(tv_sv text, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || *out > (UINT64_MAX - 9) / 10)
            return false;
        *out = *out * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    return text.len > 0;
}

/* ---- Names ---- */

#define NAME_HINT "names have letters, digits and _, mnemonics also dots, and at most 31 characters"

/* A letter or _, then letters, digits, _ and the characters of `more`. */
static bool is_name(tv_sv name, const char *more)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i], lower = (char)(c | 0x20);
        bool letter = (lower >= 'a' && lower <= 'z') || c == '_';
        if (!letter && (i == 0 || !((c >= '0' && c <= '9') || strchr(more, c))))
            return false;
    }
    return name.len > 0 && name.len < KEY_MAX;
}

static int find_field(const job *j, tv_sv name)
{
    for (unsigned i = 0; i < j->isa->field_count; i++)
        if (j->isa->fields[i].format == j->insn->format && tv_sv_is(name, j->isa->fields[i].name) &&
            j->isa->fields[i].role != TV_FIELD_RESERVED)
            return (int)i;
    return -1;
}

static int find_id(const job *j, tv_sv id)
{
    for (unsigned i = 0; i < j->isa->insn_count; i++)
        if (tv_sv_is(id, j->isa->insns[i].id))
            return (int)i;
    return -1;
}

/* The kind of register operands of class `name`, which other instructions have. */
static const tv_operand_kind *find_class(const job *j, tv_sv name)
{
    for (unsigned i = 0; i < j->isa->insn_count; i++)
        for (unsigned k = 0; k < j->isa->insns[i].operand_count; k++) {
            const tv_operand_kind *kind = tv_operand_kind_of(j->isa, &j->isa->insns[i].operands[k]);
            if (kind->syntax == TV_SYNTAX_REG && kind->reg_class < kind->name_count &&
                tv_sv_is(name, kind->names[kind->reg_class]))
                return kind;
        }
    return NULL;
}

/* The parameter `name`. Several may have the name: that which entries of the same engine use comes first. */
static int find_parameter(const job *j, tv_sv name)
{
    int found = -1;
    for (unsigned i = 0; i < j->isa->insn_count; i++)
        for (unsigned u = 0; u < j->isa->insns[i].parameter_count; u++) {
            unsigned p = j->isa->insns[i].parameters[u].parameter;
            if (!tv_sv_is(name, j->isa->parameters[p].name))
                continue;
            if (strcmp(j->isa->insns[i].unit, j->row->unit) == 0)
                return (int)p;
            found = (int)p;
        }
    return found;
}

/* ---- Lists ---- */

static tv_status read_fixed(job *j)
{
    tv_sv list = tv_sv_of(j->row->fixed), item, name;
    while (next_item(&list, &item)) {
        uint64_t value;
        if (!split(&item, '=', &name) || !read_number(item, &value))
            return reject(j, "write FIELD=NUMBER", "'%.60s' is no list of fixed fields", j->row->fixed);
        int field = find_field(j, name);
        if (field < 0 || j->isa->fields[field].role != TV_FIELD_VALUE)
            return reject(j, "`trivet isa TARGET MNEMONIC` lists the fields of a format",
                          "format %s has no field '%.*s'", j->row->format, (int)name.len, name.ptr);
        if (value & ~tv_mask(tv_field_width(j->isa, &j->isa->fields[field])))
            return reject(j, NULL, "%" PRIu64 " does not fit the field '%.*s'", value, (int)name.len, name.ptr);
        if (j->insn->fixed_count == FIXED_MAX)
            return reject(j, NULL, "more than %d fixed fields", FIXED_MAX);
        for (unsigned i = 0; i < j->insn->fixed_count; i++)
            if (j->lists->fixed[i].field == field)
                return reject(j, NULL, "the field '%.*s' has two fixed values", (int)name.len, name.ptr);
        j->lists->fixed[j->insn->fixed_count++] = (tv_fixed){(uint16_t)field, value};
    }
    const tv_insn *first = &j->isa->insns[0];
    const tv_field *opcode = &j->isa->fields[first->fixed[0].field];
    if (!j->insn->fixed_count || strcmp(j->isa->fields[j->lists->fixed[0].field].name, opcode->name) != 0)
        return reject(j, NULL, "its first fixed field must be '%s'", opcode->name);
    return TV_OK;
}

/* The bits of a field, which may be two joined ones. */
static uint64_t field_bits(const tv_isa *isa, unsigned field)
{
    const tv_field *f = &isa->fields[field];
    return f->role == TV_FIELD_JOINED ? field_bits(isa, f->high_field) | field_bits(isa, f->low_field)
                                      : tv_field_mask(f);
}

static tv_status add_operand(job *j, tv_operand operand)
{
    const uint64_t bits = field_bits(j->isa, operand.field);
    if (j->insn->operand_count == OPERANDS_MAX)
        return reject(j, NULL, "more than %d operands", OPERANDS_MAX);
    for (unsigned i = 0; i < j->insn->operand_count; i++) {
        const tv_operand *other = &j->lists->operands[i];
        if (field_bits(j->isa, other->field) & bits)
            return reject(j, NULL, "the field '%s' is in two operands", j->isa->fields[operand.field].name);
        if (operand.key && other->key && strcmp(operand.key, other->key) == 0)
            return reject(j, NULL, "two operands have the key '%s'", operand.key);
    }
    for (unsigned i = 0; i < j->insn->fixed_count; i++)
        if (field_bits(j->isa, j->lists->fixed[i].field) & bits)
            return reject(j, NULL, "the operand '%s' has a fixed value", j->isa->fields[operand.field].name);
    j->lists->operands[j->insn->operand_count++] = operand;
    return TV_OK;
}

/* FIELD, KEY=FIELD, FIELD:CLASS, and in brackets. */
static tv_status read_operand(job *j, tv_sv item)
{
    bool optional = item.len > 1 && item.ptr[0] == '[' && item.ptr[item.len - 1] == ']';
    tv_sv text = optional ? tv_sv_trim((tv_sv){item.ptr + 1, item.len - 2}) : item, key, name;
    bool has_key = split(&text, '=', &key), has_class = split(&text, ':', &name);
    if (!has_class)
        name = text;
    int field = find_field(j, name);
    const tv_operand_kind *kind = has_class ? find_class(j, text) : NULL;
    bool is_register = field >= 0 && j->isa->fields[field].kind->syntax == TV_SYNTAX_REG;
    if (field < 0 || (has_class && !(kind && is_register)))
        return reject(j, "`trivet isa TARGET MNEMONIC` lists the fields of a format",
                      "format %s has no field for the operand '%.*s'", j->row->format, (int)item.len, item.ptr);
    tv_syntax syntax = kind ? kind->syntax : j->isa->fields[field].kind->syntax;
    bool flag = syntax == TV_SYNTAX_FLAG;
    if (syntax == TV_SYNTAX_NONE || (flag && (has_key || !optional)) || (!flag && optional && !has_key))
        return reject(j, "a flag is written [FIELD], an optional operand [KEY=FIELD]",
                      "the field '%.*s' cannot be the operand '%.*s'", (int)name.len, name.ptr, (int)item.len,
                      item.ptr);
    tv_operand operand = {.form = flag ? TV_FLAG_OPTIONAL : TV_POSITIONAL, .field = (uint16_t)field, .kind = kind};
    if (flag)
        operand.key = j->isa->fields[field].name;
    if (has_key) {
        char *copy = j->lists->keys[j->insn->operand_count % OPERANDS_MAX];
        if (!is_name(key, ""))
            return reject(j, NAME_HINT, "'%.*s' is no key", (int)key.len, key.ptr);
        snprintf(copy, KEY_MAX, "%.*s", (int)key.len, key.ptr);
        operand.form = optional ? TV_KEYWORD_OPTIONAL : TV_KEYWORD;
        operand.key = copy;
    }
    return add_operand(j, operand);
}

static tv_status add_parameter(job *j, tv_parameter_use use)
{
    if (j->insn->parameter_count == PARAMETERS_MAX)
        return reject(j, NULL, "more than %d fields", PARAMETERS_MAX);
    for (unsigned i = 0; i < j->insn->parameter_count; i++)
        if (j->lists->parameters[i].parameter == use.parameter)
            return reject(j, NULL, "the field '%s' is there twice", j->isa->parameters[use.parameter].name);
    j->lists->parameters[j->insn->parameter_count++] = use;
    return TV_OK;
}

/* FIELD or [FIELD] of an entry. */
static tv_status read_parameter(job *j, tv_sv item)
{
    bool optional = item.len > 1 && item.ptr[0] == '[' && item.ptr[item.len - 1] == ']';
    tv_sv name = optional ? tv_sv_trim((tv_sv){item.ptr + 1, item.len - 2}) : item;
    int p = find_parameter(j, name);
    if (p < 0 || (unsigned)p < j->isa->common_count)
        return reject(j, "`trivet isa cmdq OPCODE` lists fields", "no opcode has a field '%.*s'", (int)item.len,
                      item.ptr);
    return add_parameter(j, (tv_parameter_use){(uint16_t)p, optional ? TV_OPTIONAL : TV_REQUIRED});
}

/* The operands of the instruction `id`. */
static tv_status copy_operands(job *j, tv_sv id)
{
    int row = find_id(j, id);
    if (row < 0)
        return reject(j, "`trivet isa TARGET` lists them", "there is no instruction '%.*s'", (int)id.len, id.ptr);
    const tv_insn *other = &j->isa->insns[row];
    if (j->isa->word_bits && other->format != j->insn->format)
        return reject(j, NULL, "%s has another format", other->id);
    for (unsigned i = 0; i < other->operand_count; i++)
        TV_TRY(add_operand(j, other->operands[i]));
    j->insn->uops = other->uops; /* the same fields take the same ways */
    j->insn->uop_count = other->uop_count;
    for (unsigned i = 0; i < other->parameter_count; i++)
        TV_TRY(add_parameter(j, other->parameters[i]));
    return TV_OK;
}

/* Required parameters come first, as in the tables. */
static void sort_parameters(job *j)
{
    tv_parameter_use sorted[PARAMETERS_MAX];
    unsigned n = 0;
    for (int presence = TV_REQUIRED; presence <= TV_MEMBER_REQUIRED; presence++)
        for (unsigned i = 0; i < j->insn->parameter_count; i++)
            if (j->lists->parameters[i].presence == presence)
                sorted[n++] = j->lists->parameters[i];
    memcpy(j->lists->parameters, sorted, n * sizeof *sorted);
}

static tv_status read_operands(job *j)
{
    tv_sv list = tv_sv_of(j->row->operands ? j->row->operands : ""), item;
    while (next_item(&list, &item)) {
        if (item.len > 3 && memcmp(item.ptr, "as ", 3) == 0)
            TV_TRY(copy_operands(j, tv_sv_trim((tv_sv){item.ptr + 3, item.len - 3})));
        else
            TV_TRY(j->isa->word_bits ? read_operand(j, item) : read_parameter(j, item));
    }
    sort_parameters(j);
    return TV_OK;
}

/* ---- Rows ---- */

static tv_status check_texts(const job *j)
{
    const tv_extension_insn *row = j->row;
    if (!row->unit || !row->meaning || (j->isa->word_bits && (!row->mnemonic || !row->format || !row->fixed)))
        return reject(j, "trivet/extension.h describes a row", "a text is missing: unit, meaning%s",
                      j->isa->word_bits ? ", mnemonic, format or fixed" : "");
    if (!is_name(tv_sv_of(row->id), "") || (row->mnemonic && !is_name(tv_sv_of(row->mnemonic), ".")))
        return reject(j, NAME_HINT, "its id or mnemonic is no name");
    if (!row->cost || (row->elements ? row->inputs < 1 || row->inputs > 2 : !row->resolve || !row->execute))
        return reject(j, "trivet/extension.h describes a row",
                      "it lacks cost, or elements with inputs of 1 or 2, or "
                      "resolve and execute");
    for (unsigned i = 0; i < j->isa->insn_count; i++) {
        const tv_insn *other = &j->isa->insns[i];
        if (strcmp(row->id, other->id) == 0 || (row->mnemonic && strcmp(row->mnemonic, other->mnemonic) == 0))
            return reject(j, NULL, "%s is an instruction of %s already",
                          strcmp(row->id, other->id) ? row->mnemonic : row->id, j->isa->target);
    }
    return TV_OK;
}

static tv_status find_format(job *j)
{
    for (unsigned f = 0; f < j->isa->format_count; f++)
        if (strcmp(j->isa->formats[f], j->row->format) == 0) {
            j->insn->format = (uint8_t)f;
            return TV_OK;
        }
    return reject(j, NULL, "%s has no format '%.40s'", j->isa->target, j->row->format);
}

/* The newest version of the set that an instruction names. */
static const char *newest_version(const tv_isa *isa)
{
    const char *newest = "";
    for (unsigned i = 0; i < isa->insn_count; i++)
        if (tv_compare_numbered(isa->insns[i].since, newest) > 0)
            newest = isa->insns[i].since;
    return newest;
}

static tv_status read_row(job *j, const char *source)
{
    tv_insn *insn = j->insn;
    TV_TRY(check_texts(j));
    if (j->isa->word_bits) {
        TV_TRY(find_format(j));
        TV_TRY(read_fixed(j));
    }
    TV_TRY(read_operands(j));
    snprintf(j->lists->source, sizeof j->lists->source, "extension %s", source);
    insn->id = j->row->id;
    insn->mnemonic = j->row->mnemonic ? j->row->mnemonic : j->row->id;
    insn->fixed = j->lists->fixed;
    insn->operands = j->lists->operands;
    insn->parameters = j->lists->parameters;
    insn->unit = j->row->unit;
    insn->meaning = j->row->meaning;
    insn->source = j->lists->source;
    insn->extension = j->row;
    if (!j->isa->word_bits) /* no published version has it */
        insn->since = newest_version(j->isa);
    return TV_OK;
}

tv_status tv_isa_extend(tv_isa *isa, const tv_extension_insn *row, const char *source, const tv_diag_sink *sink)
{
    job j = {.isa = isa, .row = row, .sink = sink};
    if (isa->insn_count == isa->insn_room)
        return reject(&j, NULL, "%s has room for %d instructions of extensions", isa->target, TV_EXTENSION_ROWS);
    j.lists = calloc(1, sizeof *j.lists);
    if (!j.lists)
        return tv_fail_memory(sink);
    j.insn = &isa->insns[isa->insn_count];
    *j.insn = (tv_insn){0};
    tv_status status = read_row(&j, source);
    int other = status == TV_OK && isa->word_bits ? tv_isa_overlap(isa, isa->insn_count) : -1;
    if (other >= 0)
        status = reject(&j, "choose other values of the fixed fields; `trivet isa TARGET` lists the instructions",
                        "words that it encodes are those of %s", isa->insns[other].id);
    if (status != TV_OK) {
        free(j.lists);
        *j.insn = (tv_insn){0};
        return status;
    }
    isa->insn_count++;
    return TV_OK;
}

void tv_isa_truncate(tv_isa *isa, unsigned count)
{
    while (isa->insn_count > count) {
        tv_insn *insn = &isa->insns[--isa->insn_count];
        free((void *)(uintptr_t)insn->fixed); /* the first member of its lists */
        *insn = (tv_insn){0};
    }
}

int tv_isa_find_operator(const tv_isa *isa, const char *name, unsigned inputs)
{
    for (unsigned i = 0; i < isa->insn_count; i++) {
        const tv_extension_insn *e = isa->insns[i].extension;
        if (e && e->elements && e->inputs == inputs && e->operator_name && strcmp(e->operator_name, name) == 0)
            return (int)i;
    }
    return -1;
}
