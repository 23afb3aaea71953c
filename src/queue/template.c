/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/template.h"

#include <stdlib.h>

enum {
    TEMPLATES_MAX = 32,
    GAPS_MAX = 64,
    TEXT_MAX = 160,       /* 64-bit words of a template's text */
    UNITS_MAX = 64,       /* of an entry's values */
    COMPARED_MAX = 2048,  /* bytes that an entry is compared with templates that turn out to differ */
    MISSES_MAX = 64,      /* more entries without than with a template, after which templates are not used … */
    UNUSED_ENTRIES = 4096 /* … for so many entries, because misses take longer than the fast path */
};

typedef enum gap_kind { GAP_INTEGER, GAP_REAL, GAP_ID, GAP_LAYER, GAP_IDS, GAP_END } gap_kind;

/* A value that may differ, after text that may not. */
typedef struct gap {
    uint8_t kind;                  /* gap_kind; END: the entry ends here */
    uint8_t target;                /* INTEGER, REAL: index in the entry's units; IDS: number of its list */
    bool is_wide;                  /* INTEGER: two units */
    uint8_t first_word, words;     /* of the text before it */
    uint16_t bytes;                /* of that text */
    uint64_t mask;                 /* of its last word */
    const tv_parameter *parameter; /* INTEGER, REAL */
} gap;

typedef struct entry_template {
    uint8_t opcode;
    uint32_t layer, wait_group;
    uint64_t present;
    uint8_t gap_count; /* 0: no entry agrees */
    uint8_t word_count, unit_count;
    uint32_t units[UNITS_MAX];
    gap gaps[GAPS_MAX];
    uint64_t text[TEXT_MAX];
} entry_template;

struct cmdq_templates {
    unsigned count, made;
    unsigned last;               /* the one that was used last */
    uint64_t used, missed;       /* entries with and without a template */
    unsigned unused;             /* entries for which templates have not been used */
    bool is_searched;            /* all templates differ from the entry that was compared last */
    uint8_t next[TEMPLATES_MAX]; /* the one that was used after each of them the last time */
    entry_template list[TEMPLATES_MAX];
};

/* The ids of a list of the entry that is being read. */
typedef struct id_range {
    uint32_t first, count;
} id_range;

/* ---- Reading ---- */

static inline bool take_template_text(cursor *s, const entry_template *t, const gap *g)
{
    const uint64_t *text = t->text + g->first_word;
    const unsigned last = g->words - 1u;
    uint64_t differs = 0;
    if (s->limit + SLACK - s->at < 8 * g->words)
        return false;
    for (unsigned i = 0; i < last; i++)
        differs |= tv_load_le64(s->at + 8 * i) ^ text[i];
    differs |= (tv_load_le64(s->at + 8 * last) ^ text[last]) & g->mask;
    s->at += g->bytes;
    return !differs && s->at < s->limit; /* where the next token may begin */
}

static bool take_integer(cursor *s, const gap *g, uint32_t *units)
{
    int64_t value;
    if (!take_number_digits(s, &value) || (uint64_t)value < g->parameter->min || (uint64_t)value > g->parameter->max)
        return false;
    units[g->target] = (uint32_t)value;
    if (g->is_wide)
        units[g->target + 1] = (uint32_t)((uint64_t)value >> 32);
    return true;
}

static bool take_real(cursor *s, const gap *g, uint32_t *units)
{
    field_value v = {0};
    if (s->at >= s->limit || !(is_digit(*s->at) || *s->at == '-') || !cmdq_take_number(s, &v) ||
        !cmdq_is_legal_real(g->parameter, (float)v.real))
        return false;
    memcpy(units + g->target, &v.real, sizeof v.real);
    return true;
}

/* Appends an entry whose values are after the end of the pool. */
static void store(reader *r, const entry_template *t, uint32_t layer, const id_range lists[CMDQ_LISTS], uint64_t at)
{
    cmdq_queue *q = r->queue;
    cmdq_entry e = {.opcode = t->opcode,
                    .layer = layer,
                    .wait_group = t->wait_group,
                    .present = t->present,
                    .values = q->values.count,
                    .lists = q->lists.count};
    cmdq_reader_begin_entry(r, at);
    q->values.count += t->unit_count;
    uint32_t *out = TV_VEC_EXTEND(&q->lists, CMDQ_LISTS + r->ids.count);
    for (unsigned i = 0; out && i < CMDQ_LISTS; i++) {
        *out++ = lists[i].count;
        for (uint32_t k = 0; k < lists[i].count; k++)
            *out++ = r->ids.data[lists[i].first + k];
    }
    (void)TV_VEC_PUSH(&q->entries, e);
    (void)TV_VEC_PUSH(&r->program->lines, tv_line_entry_of(0, r->entry_line, r->entry_column));
    q->template_count++;
}

/* The rest of an entry whose first text agrees. */
static bool take_rest(cursor *s, const entry_template *t, uint64_t at)
{
    reader *r = s->r;
    cmdq_queue *q = r->queue;
    id_range lists[CMDQ_LISTS] = {0};
    uint32_t layer = t->layer;
    int64_t id;
    tv_sv text;
    if (!TV_VEC_RESERVE(&q->values, (size_t)t->unit_count + 1))
        return false;
    uint32_t *units = q->values.data + q->values.count;
    memcpy(units, t->units, t->unit_count * sizeof *units);
    r->ids.count = 0;
    for (const gap *g = t->gaps;;) {
        switch ((gap_kind)g->kind) {
        case GAP_INTEGER:
            if (!take_integer(s, g, units))
                return false;
            break;
        case GAP_REAL:
            if (!take_real(s, g, units))
                return false;
            break;
        case GAP_ID:
            if (!take_number_digits(s, &id) || id != (int64_t)cmdq_entry_count(q))
                return false;
            break;
        case GAP_LAYER:
            if (!take_text(s, &text))
                return false;
            layer = intern_text(r, CMDQ_F_layer_id, text);
            break;
        case GAP_IDS:
            lists[g->target].first = (uint32_t)r->ids.count;
            if (!cmdq_take_ids(s, &lists[g->target].count) || r->ids.failed)
                return false;
            break;
        case GAP_END:
            store(r, t, layer, lists, at);
            return true;
        }
        if (!take_template_text(s, t, ++g))
            return false;
    }
}

/* Whether templates are used for the next entry. After a time without them the file may have entries of another kind.
 */
static bool is_useful(struct cmdq_templates *known)
{
    if (known->missed <= MISSES_MAX + known->used)
        return true;
    if (++known->unused < UNUSED_ENTRIES)
        return false;
    known->count = known->made = known->last = known->unused = 0;
    known->used = known->missed = 0;
    return true;
}

bool cmdq_template_take(cursor *s)
{
    struct cmdq_templates *known = s->r->templates;
    const uint8_t *start = s->at;
    ptrdiff_t compared = 0;
    if (!known)
        return false;
    known->is_searched = is_useful(known);
    if (!known->is_searched)
        return false;
    unsigned guess = known->next[known->last];
    for (unsigned i = 0, n = guess; i <= known->count; n = i++) { /* the guess, then all */
        const entry_template *t = &known->list[n];
        if (n >= known->count || (i && n == guess) || !t->gap_count)
            continue;
        s->at = start;
        if (take_template_text(s, t, &t->gaps[0]) && take_rest(s, t, (uint64_t)(start - s->r->data))) {
            known->next[known->last] = (uint8_t)n;
            known->last = n;
            known->used++;
            return true;
        }
        compared += s->at - start;
        if (compared > COMPARED_MAX) {
            known->is_searched = false;
            break;
        }
    }
    s->at = start;
    known->missed++;
    return false;
}

/* ---- Making ---- */

/* Appends a gap after the bytes from `from` to `to`. False if there is no room. */
static bool add_gap(entry_template *t, gap g, const uint8_t *from, const uint8_t *to)
{
    size_t bytes = (size_t)(to - from), words = (bytes + 7) / 8;
    if (t->gap_count == GAPS_MAX || words > (size_t)TEXT_MAX - t->word_count)
        return false;
    uint8_t last[8] = {0};
    for (size_t i = 0; i + 1 < words; i++)
        t->text[t->word_count + i] = tv_load_le64(from + 8 * i);
    memcpy(last, from + 8 * (words - 1), bytes - 8 * (words - 1));
    t->text[t->word_count + words - 1] = tv_load_le64(last);
    g.first_word = t->word_count;
    g.words = (uint8_t)words;
    g.bytes = (uint16_t)bytes;
    g.mask = UINT64_MAX >> (8 * (8 * words - bytes));
    t->gaps[t->gap_count++] = g;
    t->word_count = (uint8_t)(t->word_count + words);
    return true;
}

/* The gap that the value of a field is; END if it is part of the text. */
static gap gap_of(const reader *r, const cmdq_entry *e, const field_value *v)
{
    const cmdq_layout *layout = &r->queue->layout;
    gap g = {.kind = GAP_END};
    if (v->name < CMDQ_COMMON_FIELDS && !v->member) {
        g.target = v->name == CMDQ_F_deps_after ? CMDQ_DEPS_AFTER : CMDQ_DEPS_BEFORE;
        if (v->name == CMDQ_F_id)
            g.kind = GAP_ID;
        else if (v->name == CMDQ_F_layer_id && v->kind == VALUE_TEXT)
            g.kind = GAP_LAYER;
        else if (v->name == CMDQ_F_deps_before || v->name == CMDQ_F_deps_after)
            g.kind = GAP_IDS;
        return g;
    }
    uint8_t use = layout->by_name[e->opcode][v->name];
    if (use == CMDQ_NO_USE || v->kind == VALUE_NULL) /* a field that is null is not stored */
        return g;
    cmdq_field field = (cmdq_field)tv_isa_cmdq.insns[e->opcode].parameters[use].parameter;
    const tv_parameter *p = g.parameter = &tv_isa_cmdq.parameters[field];
    if (p->type == TV_PARAMETER_IDS && v->name == cmdq_targets_field(e->opcode)) {
        g.target = CMDQ_TARGETS;
        g.kind = GAP_IDS;
    } else if ((p->type == TV_PARAMETER_INTEGER && !p->allowed) || p->type == TV_PARAMETER_REAL) {
        if (cmdq_reader_checks_value(field))
            return g;
        g.target = (uint8_t)cmdq_value_offset(r->queue, e, field);
        g.is_wide = layout->size[field] == 2;
        g.kind = p->type == TV_PARAMETER_REAL ? GAP_REAL : GAP_INTEGER;
    }
    return g;
}

/* The first byte of a field's value. The fast path has read it, so what is expected is there. */
static const uint8_t *value_start(const reader *r, const field_value *v)
{
    const uint8_t *p = r->data + v->offset + strlen(tv_isa_cmdq.parameters[v->name].name) + 2;
    while (is_space(*p) || *p == ':')
        p++;
    return p;
}

static const uint8_t *value_end(const uint8_t *p, gap_kind kind)
{
    if (kind == GAP_LAYER || kind == GAP_IDS) {
        while (*p != (kind == GAP_LAYER ? '"' : ']'))
            p++;
        return p + 1;
    }
    while (!is_delimiter(*p))
        p++;
    return p;
}

/* False if the entry cannot be a template. */
static bool make_template(const reader *r, const cmdq_entry *e, uint64_t start, uint64_t end, entry_template *t)
{
    const cmdq_queue *q = r->queue;
    const uint8_t *from = r->data + start;
    size_t units = q->values.count - e->values;
    if (units > UNITS_MAX)
        return false;
    t->opcode = e->opcode;
    t->layer = e->layer;
    t->wait_group = e->wait_group;
    t->present = e->present;
    t->gap_count = t->word_count = 0;
    t->unit_count = (uint8_t)units;
    if (units)
        memcpy(t->units, q->values.data + e->values, units * sizeof *t->units);
    for (unsigned i = 0; i < r->field_count; i++) {
        gap g = gap_of(r, e, &r->fields[i]);
        if (g.kind == GAP_END)
            continue;
        const uint8_t *value = value_start(r, &r->fields[i]);
        bool is_quoted = g.kind == GAP_LAYER || g.kind == GAP_IDS; /* by a quotation mark or brackets */
        if (!add_gap(t, g, from, value + is_quoted))
            return false;
        from = value_end(value + is_quoted, (gap_kind)g.kind);
    }
    return add_gap(t, (gap){.kind = GAP_END}, from, r->data + end);
}

/* Whether later checks or messages need the fields of each entry like this one. */
static bool is_reported(const reader *r, const cmdq_entry *e)
{
    const field_value *range = cmdq_reader_find_field(r, CMDQ_F_kv_range_desc, false);
    return r->entry_failed || tv_isa_cmdq.insns[e->opcode].deprecated_since ||
           cmdq_has_field(r->queue, e, CMDQ_F_deprecated_since) || (range && range->kind == VALUE_TEXT);
}

void cmdq_template_add(reader *r, uint64_t start, uint64_t end)
{
    const cmdq_queue *q = r->queue;
    const cmdq_entry *e = TV_VEC_LAST(&q->entries);
    if (!r->has_opcode || !e || q->entries.failed || q->values.failed || is_reported(r, e))
        return;
    if (!r->templates && !(r->templates = calloc(1, sizeof *r->templates)))
        return; /* without memory for them the fast path reads all entries */
    struct cmdq_templates *known = r->templates;
    if (known->count && !known->is_searched)
        return; /* there may be one */
    unsigned n = known->made++ % TEMPLATES_MAX;
    known->count = n >= known->count ? n + 1 : known->count;
    if (!make_template(r, e, start, end, &known->list[n]))
        known->list[n].gap_count = 0;
}
