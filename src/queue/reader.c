/* SPDX-License-Identifier: Apache-2.0 */
/* Reading queues: a streaming parser hands over keys and values; an entry is gathered, checked against the opcode
 * table, and stored compactly. All errors of a file are told, up to a limit. Entries that are plain, which most are, do
 * not come to the parser at all: fast_path.c takes them from between two that do. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "queue/dependencies.h"
#include "queue/reader.h"

static const uint64_t METADATA_MAX = UINT64_C(16) << 20;

/* ---- Places and errors ---- */

static uint64_t parser_offset(const reader *r)
{
    return tv_min_u64(r->size, r->chunk_at + yajl_get_bytes_consumed(r->parser));
}

/* Lines are counted once: places come in ascending order but for those of one entry. */
void cmdq_reader_count_lines(reader *r, uint64_t to)
{
    const uint8_t *p = r->data + r->lines_counted_to, *end = r->data + to, *newline;
    while (p < end && (newline = memchr(p, '\n', (size_t)(end - p)))) {
        p = newline + 1;
        r->line++;
        r->line_start = (uint64_t)(p - r->data);
    }
    r->lines_counted_to = tv_max_u64(r->lines_counted_to, to);
}

tv_source_loc cmdq_reader_loc(const reader *r, uint64_t at)
{
    if (at < r->entry_at || (at < r->lines_counted_to && !r->has_entries)) /* what concerns the file as a whole */
        return (tv_source_loc){.file = r->path, .line = 1, .column = 1, .index = -1};
    /* within an entry places go back: count from its first byte */
    uint64_t line_start = r->line_start;
    unsigned line = r->line;
    if (at < r->lines_counted_to) {
        line = r->entry_line;
        line_start = r->entry_at - (r->entry_column - 1);
        for (uint64_t i = r->entry_at; i < at; i++)
            if (r->data[i] == '\n') {
                line++;
                line_start = i + 1;
            }
    }
    bool entry = r->state != STATE_END && r->state != STATE_FILE && r->state != STATE_TOP_KEY &&
                 r->state != STATE_TOP_VALUE && !r->is_metadata && r->has_entries;
    return (tv_source_loc){.file = r->path,
                           .line = line,
                           .column = (unsigned)(at - line_start) + 1,
                           .index = entry ? (int64_t)r->queue->count : -1};
}

void cmdq_reader_error(reader *r, cmdq_code code, uint64_t at, const char *hint, const char *format, ...)
{
    r->entry_failed = true;
    if (r->errors++ >= ERRORS_MAX) {
        r->stopped = true;
        return;
    }
    if (at > r->lines_counted_to)
        cmdq_reader_count_lines(r, at);
    tv_source_loc loc = cmdq_reader_loc(r, at);
    tv_buf text = {0};
    va_list args;
    va_start(args, format);
    tv_buf_vprintf(&text, format, args);
    va_end(args);
    tv_report(r->sink, TV_ERROR, &cmdq_codes[code], &loc, hint, "%s", tv_buf_cstr(&text));
    tv_buf_fini(&text);
}

/* ---- Texts and names ---- */

static bool grow_string_table(reader *r)
{
    uint32_t slots = r->string_mask ? 2 * (r->string_mask + 1) : 256;
    uint32_t *table = calloc(slots, sizeof *table);
    const char **strings = realloc(r->queue->strings, slots / 2 * sizeof *strings);
    if (strings)
        r->queue->strings = strings;
    if (!table || !strings) {
        free(table);
        return false;
    }
    free(r->string_slots);
    r->string_slots = table;
    r->string_mask = slots - 1;
    for (uint32_t t = 1; t < r->queue->string_count; t++) {
        uint32_t i = (uint32_t)tv_sv_hash(tv_sv_of(strings[t])) & r->string_mask;
        while (table[i])
            i = (i + 1) & r->string_mask;
        table[i] = t;
    }
    return true;
}

uint32_t cmdq_reader_intern(reader *r, tv_sv text)
{
    cmdq_queue *q = r->queue;
    if (text.len == 0)
        return CMDQ_NO_STRING;
    if (q->string_count >= (r->string_mask + 1) / 2 && !grow_string_table(r))
        return CMDQ_NO_STRING;
    uint32_t i = (uint32_t)tv_sv_hash(text) & r->string_mask;
    for (; r->string_slots[i]; i = (i + 1) & r->string_mask)
        if (tv_sv_is(text, q->strings[r->string_slots[i]]))
            return r->string_slots[i];
    char *copy = tv_arena_str(&q->arena, text);
    if (!copy)
        return CMDQ_NO_STRING;
    q->strings[q->string_count] = copy;
    r->string_slots[i] = q->string_count;
    return q->string_count++;
}

static void init_field_names(reader *r)
{
    for (unsigned f = 0; f < CMDQ_FIELDS; f++) {
        unsigned first = 0, i;
        while (strcmp(tv_isa_cmdq.parameters[first].name, tv_isa_cmdq.parameters[f].name) != 0)
            first++;
        if (first != f)
            continue;
        for (i = (unsigned)tv_sv_hash(tv_sv_of(tv_isa_cmdq.parameters[f].name)) % NAME_SLOTS; r->names[i];
             i = (i + 1) % NAME_SLOTS)
            continue;
        r->names[i] = (uint16_t)(f + 1);
        fast_name_init(&r->fast_names[f], tv_isa_cmdq.parameters[f].name);
    }
}

int cmdq_reader_field_name(const reader *r, tv_sv text)
{
    for (unsigned i = (unsigned)tv_sv_hash(text) % NAME_SLOTS; r->names[i]; i = (i + 1) % NAME_SLOTS)
        if (tv_sv_is(text, tv_isa_cmdq.parameters[r->names[i] - 1].name))
            return r->names[i] - 1;
    return -1;
}

/* ---- Events of the parser. 0 stops it. ---- */

static int continue_parsing(reader *r)
{
    r->had_event = true;
    return !r->stopped;
}

void cmdq_reader_begin_entry(reader *r, uint64_t at)
{
    r->entry_at = at;
    cmdq_reader_count_lines(r, at);
    r->entry_line = r->line;
    r->entry_column = (unsigned)(at - r->line_start) + 1;
    r->entry_failed = false;
}

static void begin_entry(reader *r)
{
    if (r->queue->count == UINT32_MAX - 1) {
        cmdq_reader_error(r, CMDQ_CODE_LIMIT, parser_offset(r), NULL, "a queue has at most 2^32 - 2 entries");
        r->stopped = true;
    }
    cmdq_reader_begin_entry(r, parser_offset(r) - 1);
    cmdq_reader_clear(r);
    r->state = STATE_ENTRY_KEY;
}

/* The value that comes, or has just begun to, is passed over; `depth` counts the containers around it. */
static void begin_skip(reader *r, state after, uint64_t from, unsigned depth)
{
    r->after_skip = after;
    r->skip_depth = depth;
    r->skip_from = from;
    r->state = STATE_SKIP;
}

static void end_skip(reader *r)
{
    cmdq_queue *q = r->queue;
    uint64_t length = parser_offset(r) - r->skip_from;
    if (r->is_metadata)
        q->metadata = (tv_sv){(const char *)r->data + r->skip_from, length};
    else if (r->after_skip == STATE_ENTRY_KEY)
        tv_buf_append(&q->extras, &(cmdq_extra){q->count, r->skip_from, length}, sizeof(cmdq_extra));
    r->is_metadata = false;
    r->state = r->after_skip;
}

static void begin_metadata(reader *r, state after, uint64_t from, unsigned depth)
{
    if (r->has_metadata)
        cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, from, NULL, "'metadata' is given twice");
    r->has_metadata = r->is_metadata = true;
    begin_skip(r, after, from, depth);
    cmdq_reader_count_lines(r, from);
    r->metadata_line = r->line;
}

/* The field whose value comes, or NULL. */
static field_value *value_slot(reader *r)
{
    return r->state == STATE_ENTRY_VALUE || r->state == STATE_MEMBER_VALUE ? &r->fields[r->field_count - 1] : NULL;
}

static void report_misplaced(reader *r, const char *what, uint64_t at)
{
    static const char *const hints[] = {[STATE_FILE] = "a queue is an object",
                                        [STATE_TOP_VALUE] = "'cmdq' is a list of entries, 'metadata' an object",
                                        [STATE_ENTRIES] = "an entry is an object",
                                        [STATE_IDS] = "a list of entries holds their ids"};
    cmdq_reader_error(r, r->state == STATE_IDS ? CMDQ_CODE_TYPE : CMDQ_CODE_STRUCTURE, at,
                      r->state < TV_COUNTOF(hints) ? hints[r->state] : NULL,
                      r->state == STATE_END ? "there is %s after the end of the queue" : "%s does not belong here",
                      what);
    if (r->state == STATE_END || r->state == STATE_FILE)
        r->stopped = true;
}

/* Where the string or key begins that has just been read: escapes make it longer than its text. */
static uint64_t last_string_start(const reader *r)
{
    uint64_t at = parser_offset(r) - 1, slashes;
    do {
        for (at--; at && r->data[at] != '"'; at--)
            continue;
        for (slashes = 0; slashes < at && r->data[at - 1 - slashes] == '\\'; slashes++)
            continue;
    } while (slashes % 2);
    return at;
}

/* A value that is neither object nor list. `length` 0: a string. */
static int handle_scalar(reader *r, const field_value *value, const char *what, uint64_t length)
{
    field_value *slot = value_slot(r);
    if (slot) {
        slot->kind = value->kind;
        slot->huge = value->huge;
        slot->integer = value->integer;
        slot->real = value->real;
        slot->text = value->text;
        r->state = r->state == STATE_MEMBER_VALUE ? STATE_MEMBER_KEY : STATE_ENTRY_KEY;
    } else if (r->state == STATE_IDS && value->kind == VALUE_INTEGER && !value->huge && value->integer >= 0 &&
               value->integer < UINT32_MAX) {
        uint32_t id = (uint32_t)value->integer;
        tv_buf_append(&r->ids, &id, sizeof id);
        r->fields[r->field_count - 1].count++;
    } else if (r->state == STATE_IDS && value->kind == VALUE_INTEGER) {
        cmdq_reader_error(r, CMDQ_CODE_RANGE, parser_offset(r) - 1, NULL, "'%s' takes ids from 0 to %" PRIu32,
                          tv_isa_cmdq.parameters[r->fields[r->field_count - 1].name].name, UINT32_MAX - 1);
    } else if (r->state == STATE_SKIP) {
        if (r->depth == r->skip_depth)
            end_skip(r);
    } else {
        report_misplaced(r, what, length ? parser_offset(r) - length : last_string_start(r));
        r->state = r->state == STATE_TOP_VALUE ? STATE_TOP_KEY : r->state;
    }
    return continue_parsing(r);
}

static int on_null(void *user) { return handle_scalar(user, &(field_value){.kind = VALUE_NULL}, "null", 4); }

static int on_boolean(void *user, int value)
{
    return handle_scalar(user, &(field_value){.kind = VALUE_BOOLEAN, .integer = value}, "a boolean", value ? 4 : 5);
}

/* Short enough for a copy. */
enum { NUMBER_MAX = 400 };

void cmdq_parse_number(const char *text, size_t length, field_value *g)
{
    char copy[NUMBER_MAX];
    memcpy(copy, text, length);
    copy[length] = '\0';
    bool whole = strpbrk(copy, ".eE") == NULL;
    g->kind = whole ? VALUE_INTEGER : VALUE_REAL;
    errno = 0;
    g->integer = whole ? strtoll(copy, NULL, 10) : 0;
    g->huge = errno == ERANGE;
    g->real = g->integer == 0 && copy[0] == '-' ? -0.0 : (double)g->integer;
    if (!whole || g->huge) {
        tv_c_locale locale = tv_c_locale_begin();
        g->real = strtod(copy, NULL);
        tv_c_locale_end(locale);
    }
}

static int on_number(void *user, const char *text, size_t length)
{
    reader *r = user;
    field_value g = {.kind = VALUE_INTEGER};
    if (r->state == STATE_SKIP)
        return handle_scalar(r, &g, "", length);
    if (length >= NUMBER_MAX)
        cmdq_reader_error(r, CMDQ_CODE_RANGE, parser_offset(r) - length, NULL, "the number has more than %d digits",
                          NUMBER_MAX - 1);
    cmdq_parse_number(text, tv_min_u64(length, NUMBER_MAX - 1), &g);
    return handle_scalar(r, &g, "a number", length);
}

bool cmdq_find_opcode(tv_sv text, unsigned *opcode)
{
    for (*opcode = 0; *opcode < CMDQ_OPCODES; ++*opcode)
        if (text.len && text.ptr[0] == tv_isa_cmdq.insns[*opcode].id[0] &&
            tv_sv_is(text, tv_isa_cmdq.insns[*opcode].id))
            return true;
    return false;
}

/* The parser lets through overlong forms, surrogates and what is past U+10FFFF, as bytes and as escapes. */
static void check_utf8(reader *r, const unsigned char *text, size_t length)
{
    if (!tv_sv_is_utf8((tv_sv){(const char *)text, length}))
        cmdq_reader_error(r, CMDQ_CODE_JSON, last_string_start(r), NULL, "the string is not UTF-8");
}

static int on_string(void *user, const unsigned char *text, size_t length)
{
    reader *r = user;
    check_utf8(r, text, length);
    field_value g = {.kind = VALUE_TEXT};
    tv_sv sv = {(const char *)text, length};
    const field_value *slot = value_slot(r);
    if (slot && (length > 4096 || memchr(text, '\0', length))) {
        cmdq_reader_error(r, CMDQ_CODE_RANGE, slot->at, NULL,
                          length > 4096 ? "the string has more than 4096 bytes" : "the string holds a NUL");
    } else if (slot) {
        if (slot->name == CMDQ_F_opcode && !slot->member)
            r->has_opcode = cmdq_find_opcode(sv, &r->opcode);
        if (slot->name != CMDQ_F_opcode || !r->has_opcode)
            g.text = cmdq_reader_intern(r, sv);
    }
    return handle_scalar(r, &g, "a string", 0);
}

/* One container more. */
static int enter_container(reader *r)
{
    if (++r->depth > DEPTH_MAX) {
        cmdq_reader_error(r, CMDQ_CODE_LIMIT, parser_offset(r) - 1, NULL, "nested deeper than %d levels", DEPTH_MAX);
        r->stopped = true;
    }
    return continue_parsing(r);
}

/* A container where none belongs: told, and passed over. */
static void skip_misplaced(reader *r, const char *what)
{
    report_misplaced(r, what, parser_offset(r) - 1);
    begin_skip(r, r->state == STATE_TOP_VALUE ? STATE_TOP_KEY : r->state, parser_offset(r), r->depth);
}

static int on_start_map(void *user)
{
    reader *r = user;
    field_value *slot = value_slot(r);
    uint64_t at = parser_offset(r) - 1;
    if (slot && slot->name == CMDQ_F_kv_range_desc && r->state == STATE_ENTRY_VALUE) {
        slot->kind = VALUE_OBJECT;
        r->state = STATE_MEMBER_KEY;
    } else if (slot) {
        slot->kind = VALUE_OBJECT;
        begin_skip(r, r->state == STATE_MEMBER_VALUE ? STATE_MEMBER_KEY : STATE_ENTRY_KEY, at, r->depth);
    } else if (r->state == STATE_ENTRIES || (r->state == STATE_FILE && r->queue->json_lines)) {
        r->has_entries = true;
        begin_entry(r);
    } else if (r->state == STATE_FILE) {
        r->state = STATE_TOP_KEY;
        r->skip_from = at;
    } else if (r->state == STATE_TOP_VALUE && !r->in_cmdq) {
        begin_metadata(r, STATE_TOP_KEY, at, r->depth);
    } else if (r->state != STATE_SKIP) {
        skip_misplaced(r, "an object");
    }
    return enter_container(r);
}

static int on_start_array(void *user)
{
    reader *r = user;
    field_value *slot = value_slot(r);
    if (slot && r->state == STATE_ENTRY_VALUE && tv_isa_cmdq.parameters[slot->name].type == TV_PARAMETER_IDS) {
        slot->kind = VALUE_IDS;
        slot->text = (uint32_t)(r->ids.len / sizeof(uint32_t));
        slot->count = 0;
        r->state = STATE_IDS;
    } else if (slot) {
        slot->kind = VALUE_IDS;
        begin_skip(r, r->state == STATE_MEMBER_VALUE ? STATE_MEMBER_KEY : STATE_ENTRY_KEY, parser_offset(r) - 1,
                   r->depth);
    } else if (r->state == STATE_TOP_VALUE && r->in_cmdq) {
        r->state = STATE_ENTRIES;
    } else if (r->state != STATE_SKIP) {
        skip_misplaced(r, "a list");
    }
    return enter_container(r);
}

static int on_end_map(void *user)
{
    reader *r = user;
    r->depth--;
    if (r->state == STATE_SKIP && r->depth == r->skip_depth) {
        end_skip(r);
    } else if (r->state == STATE_MEMBER_KEY) {
        r->state = STATE_ENTRY_KEY;
    } else if (r->state == STATE_ENTRY_KEY) {
        cmdq_reader_finish_entry(r);
        r->state = r->queue->json_lines ? STATE_FILE : STATE_ENTRIES;
    } else if (r->state == STATE_TOP_KEY) {
        bool empty = !r->has_metadata && !r->has_entries; /* {}: the metadata of JSON Lines */
        r->queue->json_lines = empty;
        r->state = empty ? STATE_FILE : STATE_END;
        if (empty) {
            begin_metadata(r, STATE_FILE, r->skip_from, 0);
            end_skip(r);
        }
    }
    return continue_parsing(r);
}

static int on_end_array(void *user)
{
    reader *r = user;
    r->depth--;
    if (r->state == STATE_SKIP && r->depth == r->skip_depth)
        end_skip(r);
    else if (r->state == STATE_IDS)
        r->state = STATE_ENTRY_KEY;
    else if (r->state == STATE_ENTRIES)
        r->state = STATE_TOP_KEY;
    return continue_parsing(r);
}

static void top_key(reader *r, tv_sv key)
{
    uint64_t at = last_string_start(r);
    bool first = !r->has_metadata && !r->has_entries;
    r->in_cmdq = tv_sv_is(key, "cmdq");
    if (r->in_cmdq) {
        if (r->has_entries)
            cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, at, NULL, "'cmdq' is given twice");
        r->has_entries = true;
        r->state = STATE_TOP_VALUE;
    } else if (tv_sv_is(key, "metadata")) {
        if (r->has_entries && !r->has_metadata)
            cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, at, NULL, "'metadata' comes before 'cmdq'");
        r->state = STATE_TOP_VALUE;
    } else if (first) { /* the object is the first line of JSON Lines */
        r->queue->json_lines = true;
        begin_metadata(r, STATE_FILE, r->skip_from, 0);
    } else {
        cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, at, "a queue has 'metadata' and 'cmdq'", "the file has a key '%.*s'",
                          (int)tv_min_u64(key.len, 60), key.ptr);
        begin_skip(r, STATE_TOP_KEY, parser_offset(r), r->depth);
    }
}

static void entry_key(reader *r, tv_sv key)
{
    bool member = r->state == STATE_MEMBER_KEY, reserved = key.len >= 9 && memcmp(key.ptr, "reserved_", 9) == 0;
    uint64_t at = last_string_start(r);
    int name = cmdq_reader_field_name(r, key);
    if (!member && (reserved || name == CMDQ_F_debug)) {
        begin_skip(r, STATE_ENTRY_KEY, at, r->depth);
        return;
    }
    if (name < 0 || (name >= 0 && cmdq_reader_find(r, (unsigned)name, member))) {
        if (name < 0)
            cmdq_reader_report_unknown(r, r->has_opcode ? &tv_isa_cmdq.insns[r->opcode] : NULL,
                                       (tv_sv){key.ptr, tv_min_u64(key.len, 60)}, at);
        else
            cmdq_reader_error(r, CMDQ_CODE_DUPLICATE, at, NULL, "'%.*s' is given twice", TV_SV_ARG(key));
        begin_skip(r, r->state, at, r->depth);
        return;
    }
    r->state = member ? STATE_MEMBER_VALUE : STATE_ENTRY_VALUE;
    cmdq_reader_add(r, (unsigned)name, member, at);
}

static int on_key(void *user, const unsigned char *text, size_t length)
{
    reader *r = user;
    tv_sv key = {(const char *)text, length};
    check_utf8(r, text, length);
    if (r->state == STATE_TOP_KEY)
        top_key(r, key);
    else if (r->state == STATE_ENTRY_KEY || r->state == STATE_MEMBER_KEY)
        entry_key(r, key);
    return continue_parsing(r);
}

/* ---- The file ---- */

static void syntax_error(reader *r)
{
    unsigned char *text = yajl_get_error(r->parser, 0, NULL, 0);
    tv_sv message = text ? tv_sv_of((const char *)text) : tv_sv_of("it cannot be parsed");
    const char *colon = memchr(message.ptr, ':', message.len);
    if (colon && (size_t)(colon - message.ptr) + 2 < message.len) /* "lexical error: …" */
        message = (tv_sv){colon + 2, message.len - (size_t)(colon + 2 - message.ptr)};
    while (message.len && isspace((unsigned char)message.ptr[message.len - 1]))
        message.len--;
    cmdq_reader_error(r, CMDQ_CODE_JSON, tv_min_u64(parser_offset(r), r->size), NULL, "the file is not JSON here: %.*s",
                      TV_SV_ARG(message));
    yajl_free_error(r->parser, text);
}

/* Passes over plain entries where the parser has just seen the end of one: after it the same is legal as before. */
static void take_fast_path(reader *r)
{
    bool between = r->state == STATE_ENTRIES || (r->state == STATE_FILE && r->queue->json_lines);
    if (!between || !r->at_entry_end || r->stopped)
        return;
    uint64_t end = cmdq_fast_path(r, r->chunk_at);
    if (end != r->chunk_at)
        r->slow_path_bytes = 0;
    r->chunk_at = end;
}

/* Bytes for the parser. Of a long string it gets as much again as it had, for it looks at an open one from its start.
 *
 * Where an entry seems to end they end, too, so that scanning may go on there; quotation marks and braces tell, as they
 * tell the parser. The more it has parsed since something was scanned the more it gets, lest a file that is not plain
 * comes in crumbs. */
static uint64_t next_chunk_size(reader *r, uint64_t silent)
{
    uint64_t most =
        tv_min_u64(tv_min_u64(tv_max_u64(CHUNK, silent), TOKEN_MAX + CHUNK - silent), r->size - r->chunk_at);
    const uint8_t *start = r->data + r->chunk_at, *end = start + most,
                  *from = start + tv_min_u64(r->slow_path_bytes, CHUNK / 2);
    unsigned depth = r->depth;
    r->at_entry_end = false;
    for (const uint8_t *p = start; p < end && !r->slow_path_only; p++) {
        if (r->escaped) {
            r->escaped = false;
        } else if (r->in_string) {
            r->escaped = *p == '\\';
            r->in_string = *p != '"';
        } else if (*p == '"') {
            r->in_string = true;
        } else if (*p == '{' || *p == '[') {
            depth++;
        } else if (*p == '}' || *p == ']') {
            depth--;
            r->at_entry_end = *p == '}' && p >= from && (depth == 0 || depth == 2); /* of JSON Lines, of the list */
            if (r->at_entry_end)
                return (uint64_t)(p - start) + 1;
        }
    }
    return most;
}

static void parse_file(reader *r)
{
    uint64_t silent = 0, chunk; /* silent: bytes since the parser called */
    yajl_config(r->parser, yajl_allow_multiple_values, 1);
    yajl_status status = yajl_status_ok;
    for (; r->chunk_at < r->size && status == yajl_status_ok; r->chunk_at += chunk) {
        take_fast_path(r);
        chunk = next_chunk_size(r, silent);
        r->had_event = false;
        status = yajl_parse(r->parser, r->data + r->chunk_at, (size_t)chunk);
        r->slow_path_bytes += chunk;
        silent = r->had_event ? 0 : silent + chunk;
        if (status != yajl_status_ok)
            break;
        if (silent > TOKEN_MAX) {
            cmdq_reader_error(r, CMDQ_CODE_LIMIT, r->chunk_at, NULL, "a string or number is longer than %d MiB",
                              TOKEN_MAX >> 20);
            return;
        }
    }
    if (status == yajl_status_ok) {
        r->chunk_at = r->size;
        status = yajl_complete_parse(r->parser);
    }
    if (status == yajl_status_error)
        syntax_error(r);
    else if (status == yajl_status_ok && !r->has_metadata)
        cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, 0, "{\"metadata\": {\"version\": \"1.2\", …}, \"cmdq\": […]}",
                          "the file has no metadata");
    else if (status == yajl_status_ok && !r->has_entries)
        cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, 0, "{\"metadata\": {…}, \"cmdq\": […]}", "the file has no entries");
}

static bool is_out_of_memory(const reader *r)
{
    const cmdq_queue *q = r->queue;
    return q->entry_buf.failed || q->values.failed || q->lists.failed || q->extras.failed || r->ids.failed ||
           r->program->lines.failed;
}

static tv_status check_queue(reader *r)
{
    cmdq_queue *q = r->queue;
    tv_program *program = r->program;
    if (is_out_of_memory(r))
        return tv_fail_memory(r->sink);
    q->entries = (cmdq_entry *)(void *)q->entry_buf.data;
    program->instruction_count = q->count;
    if (r->has_metadata && q->metadata.len > METADATA_MAX)
        cmdq_reader_error(r, CMDQ_CODE_LIMIT, 0, "put large contents into files",
                          "the metadata are larger than %" PRIu64 " MiB", METADATA_MAX >> 20);
    else if (q->metadata.ptr)
        r->errors += cmdq_read_metadata(program, q, r->metadata_line, r->sink);
    if (!r->errors)
        r->errors += cmdq_resolve_dependencies(program, q, r->sink);
    if (r->errors > ERRORS_MAX)
        tv_report(r->sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_LIMIT], &(tv_source_loc){.file = r->path, .index = -1}, NULL,
                  "too many errors; the rest is not told");
    return r->errors ? TV_ERR_INPUT : TV_OK;
}

/* The file's name, kept by the program. */
static bool set_file_name(reader *r)
{
    tv_program *program = r->program;
    program->files = tv_arena_alloc(&program->arena, sizeof *program->files);
    if (!program->files)
        return false;
    program->files[0] = tv_arena_str(&program->arena, tv_sv_of(r->path));
    program->file_count = 1;
    return program->files[0] != NULL;
}

tv_status cmdq_reader_init(reader *r, const char *path, tv_input *input, const tv_diag_sink *sink)
{
    *r = (reader){.path = path,
                  .data = input->data,
                  .size = input->size,
                  .sink = sink,
                  .line = 1,
                  .entry_line = 1,
                  .entry_column = 1};
    tv_status status = tv_program_new(&tv_isa_cmdq, sink, &r->program);
    if (status != TV_OK) {
        tv_input_close(input);
        return status;
    }
    r->program->input = *input;
    *input = (tv_input){0};
    r->program->form = &cmdq_form;
    r->program->form_data = r->queue = calloc(1, sizeof *r->queue);
    if (r->queue)
        r->queue->string_count = 1;
    if (!r->queue || !set_file_name(r) || !grow_string_table(r)) {
        tv_program_free(r->program);
        cmdq_reader_fini(r);
        return tv_fail_memory(sink);
    }
    r->path = r->program->files[0];
    r->queue->strings[0] = "";
    cmdq_layout_init(&r->queue->layout);
    return TV_OK;
}

void cmdq_reader_fini(reader *r)
{
    if (r->parser)
        yajl_free(r->parser);
    free(r->string_slots);
    tv_buf_fini(&r->ids);
}

tv_status cmdq_reader_finish(reader *r, tv_program **out)
{
    tv_status status = check_queue(r);
    if (status != TV_OK)
        tv_program_free(r->program);
    else
        *out = r->program;
    cmdq_reader_fini(r);
    return status;
}

static tv_status read_queue(const char *path, tv_input *input, bool slow_path_only, const tv_diag_sink *sink,
                            tv_program **out)
{
    static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                             .yajl_boolean = on_boolean,
                                             .yajl_number = on_number,
                                             .yajl_string = on_string,
                                             .yajl_start_map = on_start_map,
                                             .yajl_map_key = on_key,
                                             .yajl_end_map = on_end_map,
                                             .yajl_start_array = on_start_array,
                                             .yajl_end_array = on_end_array};
    reader r;
    TV_TRY(cmdq_reader_init(&r, path, input, sink));
    r.slow_path_only = slow_path_only;
    r.parser = yajl_alloc(&callbacks, NULL, &r);
    if (!r.parser) {
        tv_program_free(r.program);
        cmdq_reader_fini(&r);
        return tv_fail_memory(sink);
    }
    init_field_names(&r);
    parse_file(&r);
    return cmdq_reader_finish(&r, out);
}

tv_status cmdq_read(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out)
{
    return read_queue(path, input, false, sink, out);
}

tv_status cmdq_read_slow_path(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out)
{
    return read_queue(path, input, true, sink, out);
}

bool cmdq_recognise(const char *path, const uint8_t *data, size_t size)
{
    size_t n = strlen(path), i = 0;
    if ((n > 5 && strcmp(path + n - 5, ".json") == 0) || (n > 6 && strcmp(path + n - 6, ".jsonl") == 0))
        return true;
    while (i < size && i < 4096 && isspace(data[i]))
        i++;
    return i < size && data[i] == '{';
}
