/* SPDX-License-Identifier: Apache-2.0 */
/* The fast path: reads simple entries without the JSON reader, at several times its speed. Large queues are written by
 * programs: their entries have the same keys in the same order, and short numbers. Each key is first compared with the
 * key that came after the previous one the last time.
 *
 * Invariant: the result is that of the slow path. At the first byte that is not simple the entry is abandoned without a
 * trace, and the slow path parses it from its first byte on. So nothing is reported here but by entry.c.
 */
#include "queue/reader.h"

/* SLACK: bytes that may be read from the start of a token without a check for the end of the file. */
enum { SLACK = 32, DIGITS_MAX = 18 };

typedef struct cursor {
    reader *r;
    const uint8_t *at;
    const uint8_t *limit; /* SLACK bytes before the end of the file: tokens begin before it */
} cursor;

/* White space between tokens. */
static inline bool skip_space(cursor *s)
{
    if (s->at[0] == ' ') /* mostly there is one space, or none */
        s->at++;
    if (s->at[0] > ' ')
        return s->at < s->limit;
    while (s->at < s->limit && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
    return s->at < s->limit;
}

/* The byte, with space before and after it. */
static inline bool take_byte(cursor *s, uint8_t byte)
{
    if (*s->at != byte && (!skip_space(s) || *s->at != byte))
        return false;
    s->at++;
    return skip_space(s);
}

static inline bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

/* A byte that ends a number or a literal. */
static inline bool is_delimiter(uint8_t byte)
{
    return byte == ',' || byte == '}' || byte == ']' || byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* ---- Values ---- */

/* A string of printable ASCII without escapes, after its opening quotation mark. Eight bytes at a time: the lowest top
 * bit that is set in `special` belongs to a byte that ends the run; higher ones may be carries. */
static bool take_text(cursor *s, tv_sv *text)
{
    const uint8_t *start = s->at;
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    for (; s->at < s->limit && s->at - start <= STRING_MAX; s->at += 8) {
        uint64_t w = tv_load_le64(s->at), quote = w ^ ones * '"', slash = w ^ ones * '\\';
        uint64_t special = ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | (w - ones * ' ') | w;
        if (!(special & tops))
            continue;
        s->at += (unsigned)__builtin_ctzll(special & tops) / 8;
        *text = (tv_sv){(const char *)start, (size_t)(s->at - start)};
        return *s->at++ == '"' && text->len <= STRING_MAX;
    }
    return false;
}

/* A number of up to 18 digits without sign. */
static inline bool take_digits(cursor *s, int64_t *value)
{
    const uint8_t *p = s->at;
    uint64_t x = 0;
    if (p >= s->limit)
        return false;
    while (is_digit(*p) && p - s->at <= DIGITS_MAX)
        x = x * 10 + (*p++ - (unsigned)'0');
    ptrdiff_t n = p - s->at;
    if (n == 0 || n > DIGITS_MAX || (n > 1 && *s->at == '0') || !is_delimiter(*p))
        return false;
    s->at = p;
    *value = (int64_t)x;
    return true;
}

/* The end of one or more digits from `p` on; NULL if there is none. */
static const uint8_t *digits_end(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *start = p;
    while (p < end && is_digit(*p))
        p++;
    return p > start ? p : NULL;
}

/* Any other number: checks its form, converts it as the slow path does. */
static bool take_number(cursor *s, field_value *v)
{
    const uint8_t *p = s->at, *end = s->at + SLACK, *whole;
    p += *p == '-';
    whole = p;
    p = digits_end(p, end);
    if (!p || (*whole == '0' && p > whole + 1))
        return false;
    if (p < end && *p == '.' && !(p = digits_end(p + 1, end)))
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        p = digits_end(p, end);
    }
    if (!p || p >= end || !is_delimiter(*p))
        return false;
    cmdq_set_number(v, (tv_sv){(const char *)s->at, (size_t)(p - s->at)});
    s->at = p;
    return true;
}

static bool take_literal(cursor *s, field_value *v)
{
    static const struct {
        const char *text;
        uint8_t length, kind, value;
    } size[] = {{"true", 4, VALUE_BOOLEAN, 1}, {"false", 5, VALUE_BOOLEAN, 0}, {"null", 4, VALUE_NULL, 0}};
    for (unsigned i = 0; i < TV_COUNTOF(size); i++)
        if (memcmp(s->at, size[i].text, size[i].length) == 0 && is_delimiter(s->at[size[i].length])) {
            v->kind = size[i].kind;
            v->integer = size[i].value;
            s->at += size[i].length;
            return true;
        }
    return false;
}

static bool take_ids(cursor *s, field_value *v)
{
    reader *r = s->r;
    v->kind = VALUE_IDS;
    v->string = (uint32_t)r->ids.count;
    if (!skip_space(s))
        return false;
    if (*s->at == ']') {
        s->at++;
        return true;
    }
    for (;;) {
        int64_t value;
        if (!skip_space(s) || !take_digits(s, &value) || value >= UINT32_MAX)
            return false;
        (void)TV_VEC_PUSH(&r->ids, (uint32_t)value);
        v->count++;
        if (!skip_space(s))
            return false;
        if (*s->at++ == ']')
            return true;
        if (s->at[-1] != ',')
            return false;
    }
}

static bool take_string(cursor *s, field_value *v)
{
    reader *r = s->r;
    tv_sv text;
    if (!take_text(s, &text))
        return false;
    v->kind = VALUE_TEXT;
    if (v->name == CMDQ_F_opcode && (r->has_opcode = cmdq_find_opcode(text, &r->opcode)))
        return true;
    uint32_t *last = &r->last_string[v->name];
    const char *known = r->queue->strings[*last];
    if (strncmp(known, text.ptr, text.len) != 0 || known[text.len] != '\0')
        *last = cmdq_reader_intern(r, text);
    v->string = *last;
    return true;
}

/* ---- Fields ---- */

void cmdq_fast_name_init(fast_name *name, const char *text)
{
    uint8_t bytes[NAME_WORDS][8] = {{0}}, mask[NAME_WORDS][8] = {{0}};
    name->length = (unsigned)strlen(text);
    assert(name->length <= sizeof bytes);
    for (unsigned i = 0; i < name->length; i++) {
        bytes[i / 8][i % 8] = (uint8_t)text[i];
        mask[i / 8][i % 8] = 0xFF;
    }
    for (unsigned i = 0; i < NAME_WORDS; i++) {
        name->text[i] = tv_load_le64(bytes[i]);
        name->mask[i] = tv_load_le64(mask[i]);
    }
}

/* A key of an entry or of its object. `before`: the previous name plus 1, or 0. Returns its first field; -1 if it is
 * not simple: unknown, a duplicate, or of a field that is skipped. */
static int take_key(cursor *s, unsigned before, bool member)
{
    reader *r = s->r;
    uint8_t *next_name = &r->next_name[r->has_opcode && !member ? r->opcode : CMDQ_OPCODES_ROOM][before];
    tv_sv text;
    int name = *next_name;
    if (*s->at != '"')
        return -1;
    s->at++;
    const fast_name *guess = &r->fast_names[name]; /* 0, the name `opcode`, if nothing came after it yet */
    uint64_t differs = ((tv_load_le64(s->at) ^ guess->text[0]) & guess->mask[0]) |
                       ((tv_load_le64(s->at + 8) ^ guess->text[1]) & guess->mask[1]) |
                       ((tv_load_le64(s->at + 16) ^ guess->text[2]) & guess->mask[2]);
    if (!differs && s->at[guess->length] == '"') {
        s->at += guess->length + 1;
    } else {
        if (!take_text(s, &text) || (name = cmdq_reader_field_name(r, text)) < 0)
            return -1;
        *next_name = (uint8_t)name;
    }
    if (name == CMDQ_F_debug || r->slot_of[member][name] || !take_byte(s, ':'))
        return -1;
    return name;
}

static bool take_fields(cursor *s, bool member);

static bool take_value(cursor *s, field_value *v)
{
    const uint8_t byte = *s->at;
    if (is_digit(byte) && take_digits(s, &v->integer)) {
        v->kind = VALUE_INTEGER;
        v->real = (double)v->integer;
        return true;
    }
    if (is_digit(byte) || byte == '-')
        return take_number(s, v);
    if (byte == 't' || byte == 'f' || byte == 'n')
        return take_literal(s, v);
    s->at++;
    if (byte == '"')
        return !v->member && take_string(s, v);
    if (byte == '[')
        return !v->member && tv_isa_cmdq.parameters[v->name].type == TV_PARAMETER_IDS && take_ids(s, v);
    if (byte != '{' || v->member || v->name != CMDQ_F_kv_range_desc)
        return false;
    v->kind = VALUE_OBJECT;
    return take_fields(s, true);
}

/* The fields of an object, after its opening brace, and the closing one. */
static bool take_fields(cursor *s, bool member)
{
    unsigned before = member ? CMDQ_F_kv_range_desc + 1 : 0;
    if (!skip_space(s))
        return false;
    if (*s->at == '}') {
        s->at++;
        return true;
    }
    for (;;) {
        uint64_t at = (uint64_t)(s->at - s->r->data);
        int name = take_key(s, before, member);
        if (name < 0 || !take_value(s, cmdq_reader_add_field(s->r, (unsigned)name, member, at)) || !skip_space(s))
            return false;
        before = (unsigned)name + 1;
        if (*s->at++ == '}')
            return true;
        if (s->at[-1] != ',' || !skip_space(s))
            return false;
    }
}

/* ---- Entries ---- */

/* Stores the entry with the state that the slow path would have. */
static void store_entry(reader *r, uint64_t at)
{
    parse_state after = r->state;
    cmdq_reader_begin_entry(r, at);
    r->has_entries = true;
    r->state = STATE_ENTRY_KEY;
    cmdq_reader_store_entry(r);
    r->state = after;
}

uint64_t cmdq_fast_path(reader *r, uint64_t at)
{
    cursor s = {.r = r};
    while (!r->stopped && r->size > SLACK && cmdq_entry_count(r->queue) < UINT32_MAX - 1) {
        s.at = r->data + at;
        s.limit = r->data + r->size - SLACK;
        if (s.at >= s.limit || (!r->queue->json_lines && !take_byte(&s, ',')) || !skip_space(&s) || *s.at != '{')
            break;
        uint64_t start = (uint64_t)(s.at - r->data);
        s.at++;
        cmdq_reader_clear_fields(r);
        if (!take_fields(&s, false))
            break;
        store_entry(r, start);
        r->queue->fast_path_count++;
        at = (uint64_t)(s.at - r->data);
    }
    return at;
}
