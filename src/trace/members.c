/* SPDX-License-Identifier: Apache-2.0 */
/* The members of an event that this version knows, and the slots that collect their values. */
#include "trace/parse.h"

static const field trace_fields[] = {
#define FIELD(level, name, type, slot) {L_##level, {name, sizeof(name) - 1}, T_##type, S_##slot},
#include "trace/fields.def"
#undef FIELD
};

_Static_assert(TV_COUNTOF(trace_fields) < UINT8_MAX, "trace_reader.field_hash holds bytes");

static unsigned hash_field(level l, tv_sv name) { return (unsigned)(tv_sv_hash(name) + l * 61) % FIELD_HASH; }

void tv_trace_fill_field_hash(trace_reader *r)
{
    for (unsigned f = 0; f < TV_COUNTOF(trace_fields); f++) {
        unsigned i = hash_field(trace_fields[f].level, trace_fields[f].name);
        while (r->field_hash[i])
            i = (i + 1) % FIELD_HASH;
        r->field_hash[i] = (uint8_t)(f + 1);
    }
}

/* Members mostly come in the order of the table: the one after the previous is tried first. */
const field *tv_trace_find_field(const trace_reader *r, tv_sv name)
{
    const field *next = r->field ? r->field + 1 : trace_fields;
    if (next < trace_fields + TV_COUNTOF(trace_fields) && next->level == r->level && tv_sv_eq(name, next->name))
        return next;
    for (unsigned i = hash_field(r->level, name); r->field_hash[i]; i = (i + 1) % FIELD_HASH) {
        const field *f = &trace_fields[r->field_hash[i] - 1];
        if (f->level == r->level && tv_sv_eq(name, f->name))
            return f;
    }
    return NULL;
}

/* Frees the trees of the event or sample before. */
void tv_trace_reset_event_arena(trace_reader *r)
{
    tv_arena arena = {0};
    if (r->event_arena.used == 0)
        return;
    tv_arena_reuse(&arena, &r->event_arena);
    r->event_arena = arena;
}

void tv_trace_begin_event(trace_reader *r)
{
    tv_trace_reset_event_arena(r);
    tv_json_builder_init(&r->members, &r->event_arena, CAPTURE_TREE_MAX);
    tv_json_builder_init(&r->details, &r->event_arena, CAPTURE_TREE_MAX);
    r->captured = 0;
    r->given = 0;
    r->metadata = NULL;
    r->texts.len = 0;
    r->level = r->section == SECTION_CHROME ? L_CHROME : L_EVENT;
    r->field = NULL;
}

bool tv_trace_is_given(trace_reader *r, const field *f)
{
    if (!(r->given >> f->slot & 1))
        return false;
    tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' is given twice", f->name.ptr);
    return true;
}

bool tv_trace_fill_integer(trace_reader *r, const field *f, uint64_t value)
{
    r->values[f->slot].integer = value;
    r->given |= UINT32_C(1) << f->slot;
    return true;
}

bool tv_trace_fill_real(trace_reader *r, const field *f, double value)
{
    r->values[f->slot].real = value;
    r->given |= UINT32_C(1) << f->slot;
    return true;
}

bool tv_trace_fill_text(trace_reader *r, const field *f, tv_sv text)
{
    if (r->has_packets && !tv_sv_is_whole_utf8(text))
        return tv_trace_error(r, TV_CODE(TRACE_PACKET), NULL, "'%s' is not UTF-8", f->name.ptr);
    if (text.len > TEXT_MAX || memchr(text.ptr, '\0', text.len))
        return tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL,
                              text.len > TEXT_MAX ? "'%s' has more than 64 KiB" : "'%s' contains a NUL", f->name.ptr);
    r->values[f->slot].text = r->texts.len;
    char *copy = tv_buf_extend(&r->texts, text.len + 1);
    if (!copy)
        return tv_trace_no_memory(r);
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    r->given |= UINT32_C(1) << f->slot;
    return true;
}
