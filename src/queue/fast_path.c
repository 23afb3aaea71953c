/* SPDX-License-Identifier: Apache-2.0 */
/* Reading plain entries without the parser, at several times its speed. A queue of a million entries was written by a
 * program: its entries have the same keys in the same order, and short numbers. Each key is first compared with the one
 * that came after the key before it the last time.
 *
 * Nothing is decided here that the parser might see otherwise: at the first byte that is not plain an entry is left
 * alone, as if it had not been looked at, and the parser gets it from its first byte on. So there are no messages here.
 */
#include "queue/reader.h"

/* Bytes that can be read from wherever a token begins: the longest that is read without a look at the end. */
enum { SLACK = 32, TEXT_MAX = 4096, DIGITS_MAX = 18 };

typedef struct cursor {
    reader *r;
    const uint8_t *at;
    const uint8_t *limit; /* tokens begin before it: SLACK bytes follow */
} cursor;

/* Only the space between tokens that people and programs write. */
static inline bool skip_space(cursor *s)
{
    if (s->at[0] == ' ') /* as most write: one or none */
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

/* What ends a number or a word. */
static inline bool is_delimiter(uint8_t byte)
{
    return byte == ',' || byte == '}' || byte == ']' || byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* ---- Values ---- */

/* A string that begins after its quotation mark: printable ASCII without escapes. */
static bool take_text(cursor *s, tv_sv *text)
{
    const uint8_t *start = s->at;
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    for (; s->at < s->limit && s->at - start <= TEXT_MAX; s->at += 8) {
        uint64_t w = tv_load_le64(s->at), quote = w ^ ones * '"', slash = w ^ ones * '\\';
        uint64_t odd = ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | (w - ones * ' ') |
                       w; /* their top bits; the lowest that is set is right */
        if (!(odd & tops))
            continue;
        s->at += (unsigned)__builtin_ctzll(odd & tops) / 8;
        *text = (tv_sv){(const char *)start, (size_t)(s->at - start)};
        return *s->at++ == '"' && text->len <= TEXT_MAX;
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

/* Digits from `p` on, at least one; their end, or NULL. */
static const uint8_t *digits_end(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *start = p;
    while (p < end && is_digit(*p))
        p++;
    return p > start ? p : NULL;
}

/* Any other number: its form is checked here, its value worked out as the parser's are. */
static bool take_number(cursor *s, field_value *g)
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
    cmdq_parse_number((const char *)s->at, (size_t)(p - s->at), g);
    s->at = p;
    return true;
}

static bool take_literal(cursor *s, field_value *g)
{
    static const struct {
        const char *text;
        uint8_t length, kind, value;
    } size[] = {{"true", 4, VALUE_BOOLEAN, 1}, {"false", 5, VALUE_BOOLEAN, 0}, {"null", 4, VALUE_NULL, 0}};
    for (unsigned i = 0; i < TV_COUNTOF(size); i++)
        if (memcmp(s->at, size[i].text, size[i].length) == 0 && is_delimiter(s->at[size[i].length])) {
            g->kind = size[i].kind;
            g->integer = size[i].value;
            s->at += size[i].length;
            return true;
        }
    return false;
}

static bool take_ids(cursor *s, field_value *g)
{
    reader *r = s->r;
    g->kind = VALUE_IDS;
    g->text = (uint32_t)(r->ids.len / sizeof(uint32_t));
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
        uint32_t id = (uint32_t)value;
        tv_buf_append(&r->ids, &id, sizeof id);
        g->count++;
        if (!skip_space(s))
            return false;
        if (*s->at++ == ']')
            return true;
        if (s->at[-1] != ',')
            return false;
    }
}

static bool take_string(cursor *s, field_value *g)
{
    reader *r = s->r;
    tv_sv text;
    if (!take_text(s, &text))
        return false;
    g->kind = VALUE_TEXT;
    if (g->name == CMDQ_F_opcode && (r->has_opcode = cmdq_find_opcode(text, &r->opcode)))
        return true;
    uint32_t *last = &r->last_string[g->name];
    const char *known = r->queue->strings[*last];
    if (strncmp(known, text.ptr, text.len) != 0 || known[text.len] != '\0')
        *last = cmdq_reader_intern(r, text);
    g->text = *last;
    return true;
}

/* ---- Fields ---- */

void fast_name_init(fast_name *name, const char *text)
{
    uint8_t bytes[2][8] = {{0}}, mask[2][8] = {{0}};
    name->length = (unsigned)strlen(text);
    assert(name->length <= sizeof bytes);
    for (unsigned i = 0; i < name->length; i++) {
        bytes[i / 8][i % 8] = (uint8_t)text[i];
        mask[i / 8][i % 8] = 0xFF;
    }
    for (unsigned i = 0; i < 2; i++) {
        name->text[i] = tv_load_le64(bytes[i]);
        name->mask[i] = tv_load_le64(mask[i]);
    }
}

/* A key of an entry or of its object; -1: it is none, or comes again. */
static int take_key(cursor *s, unsigned before, bool member)
{
    reader *r = s->r;
    uint8_t *next_name = &r->next_name[r->has_opcode && !member ? r->opcode : CMDQ_OPCODES][before];
    tv_sv text;
    int name = *next_name;
    if (*s->at != '"')
        return -1;
    s->at++;
    const fast_name *guess = &r->fast_names[name]; /* of `opcode` where nothing came yet, which serves as well */
    uint64_t differs = ((tv_load_le64(s->at) ^ guess->text[0]) & guess->mask[0]) |
                       ((tv_load_le64(s->at + 8) ^ guess->text[1]) & guess->mask[1]);
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

static bool take_value(cursor *s, field_value *g)
{
    const uint8_t byte = *s->at;
    if (is_digit(byte) && take_digits(s, &g->integer)) {
        g->kind = VALUE_INTEGER;
        g->real = (double)g->integer;
        return true;
    }
    if (is_digit(byte) || byte == '-')
        return take_number(s, g);
    if (byte == 't' || byte == 'f' || byte == 'n')
        return take_literal(s, g);
    s->at++;
    if (byte == '"')
        return !g->member && take_string(s, g);
    if (byte == '[')
        return !g->member && tv_isa_cmdq.parameters[g->name].type == TV_PARAMETER_IDS && take_ids(s, g);
    if (byte != '{' || g->member || g->name != CMDQ_F_kv_range_desc)
        return false;
    g->kind = VALUE_OBJECT;
    return take_fields(s, true);
}

/* From behind an opening brace to behind the closing one. */
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
        if (name < 0 || !take_value(s, cmdq_reader_add(s->r, (unsigned)name, member, at)) || !skip_space(s))
            return false;
        before = (unsigned)name + 1;
        if (*s->at++ == '}')
            return true;
        if (s->at[-1] != ',' || !skip_space(s))
            return false;
    }
}

/* ---- Entries ---- */

/* All of an entry is known: what the parser's events would have made of it. */
static void finish_entry(reader *r, uint64_t at)
{
    state after = r->state;
    cmdq_reader_begin_entry(r, at);
    r->has_entries = true;
    r->state = STATE_ENTRY_KEY;
    cmdq_reader_finish_entry(r);
    r->state = after;
}

uint64_t cmdq_fast_path(reader *r, uint64_t at)
{
    cursor s = {.r = r};
    while (!r->stopped && r->size > SLACK && r->queue->count < UINT32_MAX - 1) {
        s.at = r->data + at;
        s.limit = r->data + r->size - SLACK;
        if (s.at >= s.limit || (!r->queue->json_lines && !take_byte(&s, ',')) || !skip_space(&s) || *s.at != '{')
            break;
        uint64_t start = (uint64_t)(s.at - r->data);
        s.at++;
        cmdq_reader_clear(r);
        if (!take_fields(&s, false))
            break;
        finish_entry(r, start);
        r->queue->fast_path_count++;
        at = (uint64_t)(s.at - r->data);
    }
    return at;
}
