/* SPDX-License-Identifier: Apache-2.0 */
/* Source locations of the members of entries. They are not stored: an entry's text is scanned again for the few members
 * that have errors. */
#include "queue/queue.h"

/* A scan of an entry's text, from the byte after its brace. */
typedef struct member_scan {
    const uint8_t *data;
    uint64_t size, at;
    unsigned depth; /* of objects and lists inside the entry */
} member_scan;

/* Moves past the string that begins at s->at. */
static void skip_string(member_scan *s)
{
    for (s->at++; s->at < s->size && s->data[s->at] != '"'; s->at++)
        s->at += s->data[s->at] == '\\';
    s->at++;
}

static bool is_name(const member_scan *s, uint64_t from, const char *name)
{
    size_t n = strlen(name);
    return s->at - from == n + 2 && memcmp(s->data + from + 1, name, n) == 0;
}

/* Whether the string before s->at is a key. */
static bool is_key(const member_scan *s)
{
    uint64_t at = s->at;
    while (at < s->size && (s->data[at] == ' ' || s->data[at] == '\t' || s->data[at] == '\r' || s->data[at] == '\n'))
        at++;
    return at < s->size && s->data[at] == ':';
}

/* Finds the key `name` of the entry or of its kv_range_desc. Returns the offset of its quotation mark, or 0. */
static uint64_t find_key(member_scan *s, const char *name)
{
    bool in_range = false;
    while (s->at < s->size) {
        uint64_t from = s->at;
        switch (s->data[s->at]) {
        case '"':
            skip_string(s);
            if (s->at > s->size || s->depth > (in_range ? 1 : 0) || !is_key(s))
                continue;
            if (is_name(s, from, name))
                return from;
            in_range = s->depth > 0 || is_name(s, from, "kv_range_desc");
            continue;
        case '{':
        case '[':
            s->depth++;
            break;
        case '}':
        case ']':
            if (!s->depth--)
                return 0;
            break;
        }
        s->at++;
    }
    return 0;
}

tv_source_loc cmdq_member_loc(const tv_program *program, uint32_t entry, tv_line_cursor *cursor, const char *name)
{
    tv_source_loc loc = tv_program_source_loc(program, entry);
    if (!name || !cursor->data || !loc.line || !loc.column || !tv_line_cursor_seek(cursor, loc.line))
        return loc;
    member_scan s = {cursor->data, cursor->size, cursor->start + loc.column, 0};
    uint64_t found = s.at <= s.size && s.data[s.at - 1] == '{' ? find_key(&s, name) : 0;
    if (!found)
        return loc;
    for (uint64_t i = cursor->start; i < found; i++)
        if (cursor->data[i] == '\n') {
            cursor->start = i + 1;
            cursor->line++;
        }
    loc.line = cursor->line;
    loc.column = (unsigned)(found - cursor->start) + 1;
    return loc;
}

tv_source_loc cmdq_finding_loc(const tv_program *program, uint32_t entry, tv_line_cursor *cursor, const char *name)
{
    tv_source_loc loc = tv_program_source_loc(program, entry), member = cmdq_member_loc(program, entry, cursor, name);
    if (member.line == loc.line)
        member = cmdq_member_loc(program, entry, cursor, "opcode");
    return member.line == loc.line ? loc : member;
}

tv_line_cursor cmdq_line_cursor(const tv_program *program)
{
    return tv_line_cursor_at_start(program->input.data, program->input.size);
}
