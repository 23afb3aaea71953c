/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the bins of a coverage model from its rules and the tables of the instruction set. */
#include "cosim/coverage.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/diag.h"

enum { WORD_MAX = 64 };

/* ---- Lists of words ---- */

/* The next word of a list, which it is removed from; len 0: there is none. */
static tv_sv next_word(const char **list)
{
    const char *at = *list + strspn(*list, " ");
    tv_sv word = {at, strcspn(at, " ")};
    *list = at + word.len;
    return word;
}

static void copy_word(tv_sv word, char text[WORD_MAX]) { snprintf(text, WORD_MAX, "%.*s", (int)word.len, word.ptr); }

bool tv_cover_matches(const char *patterns, const char *name)
{
    char pattern[WORD_MAX];
    for (tv_sv word; (word = next_word(&patterns)).len > 0;) {
        copy_word(word, pattern);
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

/* Position of the engine `name` in a list; COVER_NONE: it is not in it. */
static uint32_t find_engine(const char *list, const char *name)
{
    uint32_t at = 0;
    for (tv_sv word; (word = next_word(&list)).len > 0; at++) {
        const char *alias = memchr(word.ptr, '=', word.len);
        word.len = alias ? (size_t)(alias - word.ptr) : word.len;
        if (tv_sv_is(word, name))
            return at;
    }
    return COVER_NONE;
}

/* The name that bins have for word `i` of a list of engines: what follows "=". */
static tv_sv name_at(const char *list, uint32_t i)
{
    tv_sv word = {NULL, 0};
    do
        word = next_word(&list);
    while (i--);
    const char *alias = memchr(word.ptr, '=', word.len);
    return alias ? (tv_sv){alias + 1, word.len - (size_t)(alias + 1 - word.ptr)} : word;
}

static uint32_t count_words(const char *list)
{
    uint32_t count = 0;
    while (next_word(&list).len > 0)
        count++;
    return count;
}

/* ---- Bins ---- */

static void add_bin(tv_cover *c, const cover_rule *rule, tv_buf *name)
{
    tv_sv text = {tv_buf_cstr(name), name->len};
    char *kept = tv_arena_str(&c->arena, text);
    if (kept)
        TV_VEC_PUSH(&c->bins, (tv_cover_bin){.group = rule->group, .name = kept, .goal = 1});
    else
        c->bins.failed = true;
    name->len = 0;
}

static cover_block begin_block(const tv_cover *c, const cover_rule *rule, uint32_t insn)
{
    return (cover_block){.rule = rule, .insn = insn, .first = (uint32_t)c->bins.count, .axes = (uint32_t)c->axes.count};
}

static void end_block(tv_cover *c, cover_block *block)
{
    block->count = (uint32_t)c->bins.count - block->first;
    block->axis_count = (uint32_t)c->axes.count - block->axes;
    if (block->count)
        TV_VEC_PUSH(&c->blocks, *block);
}

/* ---- Fields ---- */

static bool find_fixed(const tv_insn *insn, uint16_t field)
{
    for (unsigned i = 0; i < insn->fixed_count; i++)
        if (insn->fixed[i].field == field)
            return true;
    return false;
}

/* The fields of an instruction that have a meaning: of words without those that identify it. */
static unsigned list_fields(const tv_cover *c, const tv_insn *insn, uint16_t fields[WORD_MAX])
{
    unsigned count = 0;
    if (c->isa->word_bits == 0) {
        for (unsigned i = 0; i < insn->parameter_count && count < WORD_MAX; i++)
            if (insn->parameters[i].parameter >= c->isa->common_count)
                fields[count++] = insn->parameters[i].parameter;
        return count;
    }
    uint16_t all[TV_FORMAT_FIELDS];
    unsigned total = tv_isa_format_fields(c->isa, insn->format, all);
    for (unsigned i = 0; i < total; i++)
        if (c->isa->fields[all[i]].role == TV_FIELD_VALUE && !find_fixed(insn, all[i]) &&
            !tv_isa_ignores(c->isa, insn, all[i]))
            fields[count++] = all[i];
    return count;
}

static const char *field_name(const tv_isa *isa, uint16_t field)
{
    return isa->word_bits ? isa->fields[field].name : isa->parameters[field].name;
}

/* Whether entries of an opcode must have a field. */
static bool is_required(const tv_cover *c, const tv_insn *insn, uint16_t field)
{
    for (unsigned i = 0; c->isa->word_bits == 0 && i < insn->parameter_count; i++)
        if (insn->parameters[i].parameter == field)
            return insn->parameters[i].presence == TV_REQUIRED;
    return false;
}

static void add_fields(tv_cover *c, const cover_rule *rule, uint32_t row, tv_buf *name)
{
    uint16_t fields[WORD_MAX];
    char corner[32];
    const tv_insn *insn = &c->isa->insns[row];
    unsigned count = list_fields(c, insn, fields);
    cover_block block = begin_block(c, rule, row);
    for (unsigned i = 0; i < count; i++) {
        uint32_t corners = tv_cover_corners(c->isa, fields[i]);
        TV_VEC_PUSH(&c->axes, (cover_axis){.field = fields[i], .values = corners});
        for (uint32_t k = 0; k < corners; k++) {
            tv_cover_corner_name(c->isa, fields[i], k, corner);
            tv_buf_printf(name, "%s %s=%s", insn->id, field_name(c->isa, fields[i]), corner);
            add_bin(c, rule, name);
            if (strcmp(corner, "absent") == 0 && is_required(c, insn, fields[i]) && !c->bins.failed)
                c->bins.data[c->bins.count - 1].goal = 0; /* left out */
        }
    }
    end_block(c, &block);
}

/* The axis that a word of a CROSS describes. False: the instruction has no such field. */
static bool find_axis(const tv_cover *c, const tv_insn *insn, tv_sv word, cover_axis *out)
{
    uint16_t fields[WORD_MAX];
    char text[WORD_MAX];
    copy_word(word, text);
    char *form = strchr(text, ':');
    if (form)
        *form++ = '\0';
    *out = (cover_axis){.form = !form ? AXIS_VALUE : strcmp(form, "fifo") == 0 ? AXIS_FIFO : AXIS_GIVEN};
    unsigned count = list_fields(c, insn, fields);
    for (unsigned i = 0; i < count; i++)
        if (strcmp(field_name(c->isa, fields[i]), text) == 0) {
            out->field = fields[i];
            out->values = tv_cover_axis_values(c->isa, out);
            return true;
        }
    return false;
}

static void add_cross(tv_cover *c, const cover_rule *rule, uint32_t row, tv_buf *name)
{
    cover_axis axes[COVER_FIELDS_MAX];
    const char *list = rule->what;
    uint32_t count = 0, combinations = 1;
    char value[48];
    cover_block block = begin_block(c, rule, row);
    for (tv_sv word; (word = next_word(&list)).len > 0 && count < COVER_FIELDS_MAX;)
        if (find_axis(c, &c->isa->insns[row], word, &axes[count]))
            combinations *= axes[count++].values;
    for (uint32_t k = 0; k < count; k++)
        TV_VEC_PUSH(&c->axes, axes[k]);
    for (uint32_t i = 0; count && i < combinations; i++) {
        tv_buf_str(name, c->isa->insns[row].id);
        for (uint32_t k = 0, rest = i; k < count; rest /= axes[k++].values) {
            tv_cover_axis_name(c->isa, &axes[k], rest % axes[k].values, value);
            tv_buf_printf(name, " %s", value);
        }
        add_bin(c, rule, name);
    }
    end_block(c, &block);
}

/* ---- Other blocks of an instruction ---- */

static void add_named(tv_cover *c, const cover_rule *rule, uint32_t row, const char *const *names, uint32_t count,
                      tv_buf *name)
{
    for (uint32_t i = 0; i < count; i++) {
        tv_buf_printf(name, "%s %s%s %s", c->isa->insns[row].id, rule->write ? "writes " : "reads ", rule->space,
                      names[i]);
        add_bin(c, rule, name);
    }
}

static void add_numbers(tv_cover *c, const cover_rule *rule, uint32_t row, uint32_t count, tv_buf *name)
{
    for (uint32_t i = 0; i < count; i++) {
        tv_buf_printf(name, "%s %s%s %" PRIu32, c->isa->insns[row].id, rule->write ? "writes " : "reads ", rule->space,
                      i);
        add_bin(c, rule, name);
    }
}

/* Of the numbers of a constant: their sizes, or what they leave of L2 words. */
static void add_sizes(tv_cover *c, const cover_rule *rule, uint32_t row, tv_buf *name)
{
    bool tails = rule->kind == COVER_TAILS;
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; rule->size >> k & 1 && i < (tails ? COVER_TAIL : COVER_SIZE_CLASSES); i++) {
            tv_buf_printf(name, "%s %s number %" PRIu32, c->isa->insns[row].id, rule->what, k + 1);
            if (tails)
                tv_buf_printf(name, " remainder %" PRIu32, i);
            else
                tv_buf_printf(name, ": %s", tv_cover_size_classes[i]);
            add_bin(c, rule, name);
        }
}

static void add_remainders(tv_cover *c, const cover_rule *rule, uint32_t row, tv_buf *name)
{
    cover_axis axis;
    if (!find_axis(c, &c->isa->insns[row], tv_sv_of(rule->what), &axis))
        return;
    TV_VEC_PUSH(&c->axes, axis);
    for (uint32_t i = 0; i < rule->size; i++) {
        tv_buf_printf(name, "%s %s remainder %" PRIu32, c->isa->insns[row].id, rule->what, i);
        add_bin(c, rule, name);
    }
}

static void add_routes(tv_cover *c, const cover_rule *rule, uint32_t row, tv_buf *name)
{
    const tv_insn *insn = &c->isa->insns[row];
    for (unsigned i = 0; i < insn->uop_count; i++)
        if (insn->uops[i].route) {
            tv_buf_printf(name, "%s %s", insn->id, insn->uops[i].route_name);
            add_bin(c, rule, name);
        }
}

static void add_insn(tv_cover *c, const cover_rule *rule, uint32_t row, tv_buf *name)
{
    if (rule->kind == COVER_FIELDS) {
        add_fields(c, rule, row, name);
        return;
    }
    if (rule->kind == COVER_CROSS) {
        add_cross(c, rule, row, name);
        return;
    }
    cover_block block = begin_block(c, rule, row);
    switch (rule->kind) {
    case COVER_INSTRUCTIONS:
        tv_buf_str(name, c->isa->insns[row].id);
        add_bin(c, rule, name);
        break;
    case COVER_ROUTES:
        add_routes(c, rule, row, name);
        break;
    case COVER_REMAINDERS:
        add_remainders(c, rule, row, name);
        break;
    case COVER_SIZES:
    case COVER_TAILS:
        add_sizes(c, rule, row, name);
        break;
    default: /* COVER_VALUES */
        if (rule->type == COVER_INT4)
            add_numbers(c, rule, row, 16, name);
        else if (rule->type < COVER_BF16)
            add_named(c, rule, row, tv_cover_int_classes, COVER_INT_CLASSES, name);
        else
            add_named(c, rule, row, tv_cover_real_classes, COVER_REAL_CLASSES, name);
    }
    end_block(c, &block);
}

/* ---- Parts without an instruction ---- */

static void add_dependences(tv_cover *c, const cover_rule *rule, tv_buf *name)
{
    static const char *const kinds[] = {"RAW", "WAR", "WAW"};
    uint32_t count = c->engine_count = count_words(rule->what);
    for (unsigned kind = 0; kind < 3; kind++)
        for (uint32_t i = 0; i < count * count; i++) {
            tv_sv from = name_at(rule->what, i / count), to = name_at(rule->what, i % count);
            tv_buf_printf(name, "%s %.*s to %.*s", kinds[kind], (int)from.len, from.ptr, (int)to.len, to.ptr);
            add_bin(c, rule, name);
        }
    for (uint32_t row = 0; row < c->isa->insn_count; row++)
        c->engines[row] = find_engine(rule->what, c->isa->insns[row].unit);
}

static void add_list(tv_cover *c, const cover_rule *rule, tv_buf *name)
{
    const char *engines = rule->kind == COVER_FAULTS ? "-" : rule->insns;
    for (tv_sv engine; (engine = next_word(&engines)).len > 0;) {
        const char *list = rule->what;
        for (tv_sv word; (word = next_word(&list)).len > 0;) {
            if (rule->kind == COVER_STALLS)
                tv_buf_printf(name, "%.*s ", (int)engine.len, engine.ptr);
            tv_buf_append(name, word.ptr, word.len);
            add_bin(c, rule, name);
        }
    }
}

static void add_reason(tv_cover *c, const cover_rule *rule)
{
    for (size_t i = 0; i < c->bins.count; i++)
        if (fnmatch(rule->group, c->bins.data[i].group, 0) == 0 && fnmatch(rule->insns, c->bins.data[i].name, 0) == 0) {
            c->bins.data[i].reason = rule->what;
            c->bins.data[i].goal = rule->kind != COVER_NEVER;
        }
}

/* ---- The model ---- */

static bool is_of_insns(const cover_rule *rule) { return rule->kind < COVER_DEPENDENCES; }

tv_status tv_cover_build(tv_cover *c, const tv_diag_sink *sink)
{
    unsigned count;
    const cover_rule *rules = tv_cover_rules(c->isa->target, &count);
    tv_buf name = {0};
    c->engines = malloc((c->isa->insn_count + 1) * sizeof *c->engines);
    if (!c->engines)
        return tv_fail_memory(sink);
    for (uint32_t row = 0; row < c->isa->insn_count; row++) {
        uint32_t first = (uint32_t)c->blocks.count;
        c->engines[row] = COVER_NONE;
        for (unsigned i = 0; i < count && !c->isa->insns[row].proposed; i++)
            if (is_of_insns(&rules[i]) && tv_cover_matches(rules[i].insns, c->isa->insns[row].id))
                add_insn(c, &rules[i], row, &name);
        TV_VEC_PUSH(&c->lists, (cover_list){first, (uint32_t)c->blocks.count - first});
    }
    c->others.first = (uint32_t)c->blocks.count;
    for (unsigned i = 0; i < count; i++) {
        cover_block block = begin_block(c, &rules[i], COVER_NONE);
        if (rules[i].kind == COVER_DEPENDENCES)
            add_dependences(c, &rules[i], &name);
        else if (!is_of_insns(&rules[i]) && rules[i].kind < COVER_REASON)
            add_list(c, &rules[i], &name);
        end_block(c, &block);
    }
    c->others.count = (uint32_t)c->blocks.count - c->others.first;
    for (unsigned i = 0; i < count; i++)
        if (rules[i].kind >= COVER_REASON)
            add_reason(c, &rules[i]);
    for (uint32_t i = 0; i < c->bins.count; i++)
        if (c->bins.data[i].goal)
            TV_VEC_PUSH(&c->shown, i);
    bool failed =
        name.failed || c->bins.failed || c->shown.failed || c->blocks.failed || c->axes.failed || c->lists.failed;
    tv_buf_fini(&name);
    return failed ? tv_fail_memory(sink) : TV_OK;
}
