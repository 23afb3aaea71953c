/* SPDX-License-Identifier: Apache-2.0 */
/* Records of binary commit logs (log.h). */
#include "cosim/log.h"

typedef struct record_parser {
    const uint8_t *at, *end;
    tv_arena *arena;
    text_table *texts;
    const char *error; /* the first one; nothing more is read then */
    bool memory;
} record_parser;

static void fail(record_parser *p, const char *error)
{
    if (!p->error)
        p->error = error;
    p->at = p->end;
}

static const uint8_t *read_bytes(record_parser *p, uint64_t count)
{
    const uint8_t *bytes = p->at;
    if (count > (uint64_t)(p->end - p->at)) {
        fail(p, "the record ends too early");
        return NULL;
    }
    p->at += count;
    return bytes;
}

static unsigned read_byte(record_parser *p)
{
    const uint8_t *b = read_bytes(p, 1);
    return b ? *b : 0;
}

static uint64_t read_number(record_parser *p)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned byte = read_byte(p);
        uint64_t bits = byte & 127;
        if (bits << shift >> shift != bits)
            break;
        value |= bits << shift;
        if (byte < 128)
            return value;
    }
    fail(p, "a number has more than 64 bits");
    return 0;
}

static tv_sv read_own_text(record_parser *p)
{
    uint64_t n = read_number(p);
    const uint8_t *bytes = n <= LOG_TEXT_MAX ? read_bytes(p, n) : NULL;
    if (!bytes)
        fail(p, "a text is too long");
    return bytes ? (tv_sv){(const char *)bytes, n} : (tv_sv){"", 0};
}

static const char *read_text(record_parser *p)
{
    bool is_new, full = false;
    uint64_t number = read_number(p);
    if (number < p->texts->count)
        return p->texts->texts[number];
    if (number > p->texts->count || p->error) {
        fail(p, "a text has an unknown number");
        return "";
    }
    int64_t index = tv_text_table_find(p->texts, read_own_text(p), &is_new, &full);
    if (index >= 0 && is_new)
        return p->texts->texts[index];
    if (index >= 0 || full)
        fail(p, "a text is stored twice, has a NUL, or is one too many");
    else
        p->memory = true;
    return "";
}

static void read_effect(record_parser *p, tv_effect *e)
{
    unsigned flags = read_byte(p);
    e->write = (flags & EFFECT_WRITE) != 0;
    e->queue = (flags & EFFECT_QUEUE) != 0;
    e->space = read_text(p);
    e->addr = read_number(p);
    e->unit_bytes = read_number(p);
    e->bytes = read_number(p);
    e->before = flags & EFFECT_BEFORE ? read_bytes(p, e->bytes) : NULL;
    e->after = flags & EFFECT_AFTER ? read_bytes(p, e->bytes) : NULL;
}

static void read_value(record_parser *p, tv_inner_value *v)
{
    unsigned flags = read_byte(p);
    v->name = read_text(p);
    v->element = read_number(p);
    const uint8_t *bits = read_bytes(p, 8);
    v->is_integer = (flags & VALUE_INTEGER) != 0;
    uint64_t number = bits ? tv_load_le64(bits) : 0;
    if (v->is_integer)
        memcpy(&v->integer, &number, sizeof number);
    else
        memcpy(&v->real, &number, sizeof number);
}

/* An array of as many elements as the record says; each has at least `minimum` bytes there. */
static void *read_count(record_parser *p, size_t size, unsigned minimum, unsigned *count)
{
    uint64_t n = read_number(p);
    if (n > (uint64_t)(p->end - p->at) / minimum) {
        fail(p, "the record ends too early");
        n = 0;
    }
    void *array = tv_arena_alloc(p->arena, (size_t)(n + 1) * size);
    p->memory |= array == NULL;
    *count = array ? (unsigned)n : 0;
    return array;
}

static void read_members(record_parser *p, tv_commit *c)
{
    unsigned flags = read_byte(p);
    c->asynchronous = (flags & RECORD_ASYNCHRONOUS) != 0;
    c->order = read_number(p);
    c->index = read_number(p);
    const uint8_t *word = flags & RECORD_WORD ? read_bytes(p, 8) : NULL;
    c->word = word ? tv_load_le64(word) : 0;
    c->insn = flags & RECORD_INSN ? read_text(p) : NULL;
    if (flags & RECORD_FAULT) {
        c->fault = read_text(p);
        c->fault_name = read_text(p);
        c->fault_message = tv_arena_str(p->arena, read_own_text(p));
        p->memory |= c->fault_message == NULL;
    }
    c->issue = c->start = c->end = TV_CYCLE_UNKNOWN;
    if (flags & RECORD_CYCLES) {
        c->issue = read_number(p) - 1;
        c->start = read_number(p) - 1;
        c->end = read_number(p) - 1;
    }
    if (flags & RECORD_FILE) {
        c->file = read_text(p);
        c->line = (unsigned)tv_min_u64(read_number(p), UINT32_MAX);
    }
}

const char *tv_log_parse_record(const uint8_t *data, size_t size, tv_arena *arena, text_table *texts, tv_commit *out,
                                bool *memory)
{
    record_parser p = {.at = data, .end = data + size, .arena = arena, .texts = texts};
    unsigned head = read_byte(&p);
    *out = (tv_commit){.kind = (tv_commit_kind)(head & 15), .origin = (tv_commit_origin)(head >> 4)};
    if ((head & 15) >= TV_COUNTOF(tv_log_kinds) || head >> 4 >= TV_COUNTOF(tv_log_origins))
        fail(&p, "the kind or the origin of the record is unknown");
    read_members(&p, out);
    tv_effect *effects = read_count(&p, sizeof *effects, 5, &out->effect_count);
    for (unsigned i = 0; i < out->effect_count; i++)
        read_effect(&p, &effects[i]);
    out->effects = effects;
    tv_inner_value *values = read_count(&p, sizeof *values, 11, &out->value_count);
    for (unsigned i = 0; i < out->value_count; i++)
        read_value(&p, &values[i]);
    out->values = values;
    if (!p.error && p.at != p.end)
        fail(&p, "the record has bytes after its end");
    *memory = p.memory;
    return p.error;
}
