/* SPDX-License-Identifier: Apache-2.0 */
/* The fast path: reads simple entries without the JSON reader, at several times its speed. Large queues are written by
 * programs: their entries have the same keys in the same order, and short numbers. Each key is first compared with the
 * key that came after the previous one the last time.
 *
 * Invariant: the result is that of the slow path. At the first byte that is not simple the entry is abandoned without a
 * trace, and the slow path parses it from its first byte on. So nothing is reported here but by entry.c.
 */
#include "queue/template.h"
#include "queue/tokens.h"

/* ---- Values ---- */

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
    v->kind = VALUE_IDS;
    v->string = (uint32_t)s->r->ids.count;
    return cmdq_take_ids(s, &v->count);
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
    v->string = intern_text(r, v->name, text);
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
        return cmdq_take_number(s, v);
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

/* The entries after which room is made for more, and how many times as many at most: what follows may be of another
 * kind, and memory that is not needed is missed elsewhere. */
enum { KNOWN_ENTRIES = 4096, GROWTH_MAX = 8 };

/* Makes room for the entries of the whole file, supposing that they are like those before byte `at`. */
static void expect_entries(reader *r, uint64_t at)
{
    const double margin = 1.04; /* entries may have fewer bytes, for as many fields */
    cmdq_queue *q = r->queue;
    double share = margin * (double)r->size / (double)at;
    share = share < GROWTH_MAX ? share : GROWTH_MAX;
    r->expected_entries = GROWTH_MAX * (uint64_t)cmdq_entry_count(q);
    TV_VEC_EXPECT(&q->entries, (size_t)(share * (double)q->entries.count));
    TV_VEC_EXPECT(&q->values, (size_t)(share * (double)q->values.count));
    TV_VEC_EXPECT(&q->lists, (size_t)(share * (double)q->lists.count));
    TV_VEC_EXPECT(&r->program->lines, (size_t)(share * (double)r->program->lines.count));
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
        if (!cmdq_template_take(&s)) {
            s.at++;
            cmdq_reader_clear_fields(r);
            if (!take_fields(&s, false))
                break;
            store_entry(r, start);
            cmdq_template_add(r, start, (uint64_t)(s.at - r->data));
        }
        at = (uint64_t)(s.at - r->data);
        r->queue->fast_path_count++;
        if (cmdq_entry_count(r->queue) >= (r->expected_entries ? r->expected_entries : KNOWN_ENTRIES))
            expect_entries(r, at);
    }
    return at;
}
