/* SPDX-License-Identifier: Apache-2.0 */
/* Records of commit logs in JSON Lines. Members that are not known are ignored, so that the log of a design may have
 * more; each known member has its type. */
#include "base/json_value.h"
#include "cosim/log.h"

typedef struct line_parser {
    tv_arena *arena;
    text_table *texts;
    const char *error; /* the first one */
    bool memory;
} line_parser;

static void fail(line_parser *p, const char *error)
{
    if (!p->error)
        p->error = error;
}

/* A number that is not negative, also as a text in hexadecimal, "0x1f". */
static uint64_t read_number(line_parser *p, const tv_json_value *object, const char *key, uint64_t absent)
{
    const tv_json_value *v = tv_json_get(object, key);
    const char *text = tv_json_string(v);
    if (!v)
        return absent;
    if (tv_json_is(v, TV_JSON_INTEGER) && v->integer >= 0)
        return (uint64_t)v->integer;
    uint64_t number = 0;
    size_t digits = text && text[0] == '0' && text[1] == 'x' ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
    if (digits == 0 || digits > 16 || text[2 + digits]) {
        fail(p, "a number is neither from 0 up nor a text such as \"0x1f\"");
        return absent;
    }
    for (size_t i = 0; i < digits; i++) {
        char c = text[2 + i];
        number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return number;
}

static int read_flag(line_parser *p, const tv_json_value *object, const char *key)
{
    const tv_json_value *v = tv_json_get(object, key);
    if (v && v->type != TV_JSON_BOOLEAN)
        fail(p, "a flag is neither true nor false");
    return tv_json_is_true(v);
}

/* The text of a member that repeats; NULL: absent. */
static const char *read_text(line_parser *p, const tv_json_value *object, const char *key)
{
    const tv_json_value *v = tv_json_get(object, key);
    bool is_new, full = false;
    if (!v || v->type == TV_JSON_NULL)
        return NULL;
    if (v->type != TV_JSON_STRING) {
        fail(p, "a text is expected");
        return NULL;
    }
    int64_t index = tv_text_table_find(p->texts, (tv_sv){v->text, v->length}, &is_new, &full);
    if (index >= 0)
        return p->texts->texts[index];
    if (full)
        fail(p, "a text is too long, or there are too many different ones");
    else
        p->memory = true;
    return NULL;
}

static int read_name(line_parser *p, const tv_json_value *object, const char *key, const char *const *names,
                     unsigned count)
{
    const tv_json_value *v = tv_json_get(object, key);
    const char *text = tv_json_string(v);
    if (!v)
        return 0;
    for (unsigned i = 0; text && i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return (int)i;
    fail(p, "'kind' or 'origin' has an unknown value");
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes of a hexadecimal member; NULL: absent. Sets or checks *count. */
static const uint8_t *read_bytes(line_parser *p, const tv_json_value *object, const char *key, uint64_t *count)
{
    const tv_json_value *v = tv_json_get(object, key);
    if (!v)
        return NULL;
    if (v->type != TV_JSON_STRING || v->length % 2 || (*count != UINT64_MAX && v->length / 2 != *count)) {
        fail(p, "bytes are not two hexadecimal digits each, or not as many as 'bytes' says");
        return NULL;
    }
    *count = v->length / 2;
    uint8_t *bytes = tv_arena_alloc(p->arena, v->length / 2 + 1);
    p->memory |= bytes == NULL;
    for (size_t i = 0; bytes && i < v->length / 2; i++) {
        int high = hex_digit(v->text[2 * i]), low = hex_digit(v->text[2 * i + 1]);
        if (high < 0 || low < 0) {
            fail(p, "bytes are not hexadecimal digits");
            return NULL;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return bytes;
}

static void read_effect(line_parser *p, const tv_json_value *v, tv_effect *e)
{
    e->space = read_text(p, v, "space");
    e->addr = read_number(p, v, "addr", UINT64_MAX);
    e->unit_bytes = read_number(p, v, "unit_bytes", 0);
    e->bytes = read_number(p, v, "bytes", UINT64_MAX);
    e->write = tv_json_get(v, "write") ? read_flag(p, v, "write") : 1;
    e->queue = read_flag(p, v, "queue");
    e->before = read_bytes(p, v, "before", &e->bytes);
    e->after = read_bytes(p, v, "after", &e->bytes);
    if (!e->space || e->addr == UINT64_MAX || e->bytes == UINT64_MAX)
        fail(p, "an effect needs 'space', 'addr', and 'after' or 'bytes'");
}

static void read_value(line_parser *p, const tv_json_value *v, tv_inner_value *out)
{
    const tv_json_value *real = tv_json_get(v, "real"), *integer = tv_json_get(v, "integer");
    const char *special = tv_json_string(real);
    out->name = read_text(p, v, "name");
    out->element = read_number(p, v, "element", 0);
    out->is_integer = integer != NULL;
    out->integer = tv_json_integer(integer);
    out->real = tv_json_number(real);
    if (special)
        out->real = strcmp(special, "inf") == 0 ? 1e308 * 10 : strcmp(special, "-inf") == 0 ? -1e308 * 10 : 0;
    if (special && strcmp(special, "nan") == 0)
        out->real = out->real / out->real;
    if (!out->name || (!integer && !special && !tv_json_is_number(real)) ||
        (integer && !tv_json_is(integer, TV_JSON_INTEGER)))
        fail(p, "a value needs 'name', and 'integer' or 'real'");
}

/* The elements of an array member; 0 and NULL: absent. */
static unsigned count_elements(line_parser *p, const tv_json_value *object, const char *key, size_t size, void **out)
{
    const tv_json_value *v = tv_json_get(object, key);
    *out = NULL;
    if (!v)
        return 0;
    if (v->type != TV_JSON_ARRAY) {
        fail(p, "'effects' or 'values' is not a list");
        return 0;
    }
    *out = tv_arena_alloc(p->arena, (v->count + (size_t)1) * size);
    p->memory |= *out == NULL;
    return *out ? v->count : 0;
}

static void read_lists(line_parser *p, const tv_json_value *v, tv_commit *c)
{
    void *array;
    unsigned i = 0;
    c->effect_count = count_elements(p, v, "effects", sizeof(tv_effect), &array);
    tv_effect *effects = array;
    for (const tv_json_value *e = tv_json_first(tv_json_get(v, "effects")); e && i < c->effect_count; e = e->next)
        read_effect(p, e, &effects[i++]);
    c->effects = effects;
    c->value_count = count_elements(p, v, "values", sizeof(tv_inner_value), &array);
    tv_inner_value *values = array;
    i = 0;
    for (const tv_json_value *e = tv_json_first(tv_json_get(v, "values")); e && i < c->value_count; e = e->next)
        read_value(p, e, &values[i++]);
    c->values = values;
}

static void read_record(line_parser *p, const tv_json_value *v, tv_commit *c)
{
    c->kind = (tv_commit_kind)read_name(p, v, "kind", tv_log_kinds, TV_COUNTOF(tv_log_kinds));
    c->origin = (tv_commit_origin)read_name(p, v, "origin", tv_log_origins, TV_COUNTOF(tv_log_origins));
    c->order = read_number(p, v, "order", UINT64_MAX);
    c->index = read_number(p, v, "index", UINT64_MAX);
    c->word = read_number(p, v, "word", 0);
    c->insn = read_text(p, v, "insn");
    c->fault = read_text(p, v, "fault");
    c->fault_name = read_text(p, v, "fault_name");
    c->fault_message = tv_json_string(tv_json_get(v, "fault_message"));
    if (c->fault_message && strlen(c->fault_message) > LOG_TEXT_MAX)
        fail(p, "a text is too long");
    c->issue = read_number(p, v, "issue", TV_CYCLE_UNKNOWN);
    c->start = read_number(p, v, "start", TV_CYCLE_UNKNOWN);
    c->end = read_number(p, v, "end", TV_CYCLE_UNKNOWN);
    c->asynchronous = read_flag(p, v, "asynchronous");
    c->file = read_text(p, v, "file");
    c->line = (unsigned)tv_min_u64(read_number(p, v, "line", 0), UINT32_MAX);
    read_lists(p, v, c);
}

const char *tv_log_parse_line(tv_sv line, tv_arena *arena, text_table *texts, tv_commit *out, bool *memory)
{
    tv_json_error error;
    line_parser p = {.arena = arena, .texts = texts};
    /* A tree needs more memory than its text: 16 times of many short members. */
    const tv_json_value *v = tv_json_parse(arena, line, LOG_RECORD_MAX * (size_t)16, &error);
    *memory = !v && error.kind == TV_JSON_MEMORY;
    if (!v) {
        char *copy = tv_arena_str(arena, tv_sv_of(error.message[0] ? error.message : "the line is not JSON"));
        *memory |= copy == NULL;
        return copy ? copy : "";
    }
    if (v->type != TV_JSON_OBJECT)
        return "the line is not an object";
    *out = (tv_commit){.kind = TV_COMMIT_INSTRUCTION};
    read_record(&p, v, out);
    *memory = p.memory;
    return p.error;
}
