/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a queue from JSON or JSON Lines. All errors of a file are reported, up to a limit.
 *
 * The slow path is a streaming JSON reader, whose events collect the fields of an entry. Most entries are simple and
 * are read by the fast path instead. To alternate, the file is cut into chunks that end where an entry may end; between
 * two chunks, if the JSON reader is between two entries, the fast path reads as many entries as it can, and the JSON
 * reader goes on after them: what is legal there does not depend on the entries before. */
#include <ctype.h>
#include <inttypes.h>

#include "queue/reader.h"

enum {
    CHUNK_BYTES = 1 << 20,
    TOKEN_MAX = 64 << 20,
    NUMBER_MAX = 400, /* bytes */
};

/* Bytes of the file up to the end of the current token. */
static uint64_t parser_offset(const reader *r) { return tv_min_u64(r->size, tv_json_reader_offset(&r->json)); }

/* ---- States ---- */

static void begin_entry(reader *r)
{
    if (cmdq_entry_count(r->queue) == UINT32_MAX - 1) {
        cmdq_reader_error(r, CMDQ_CODE_LIMIT, parser_offset(r), NULL, "a queue has at most 2^32 - 2 entries");
        r->stopped = true;
    }
    cmdq_reader_begin_entry(r, parser_offset(r) - 1);
    cmdq_reader_clear_fields(r);
    r->state = STATE_ENTRY_KEY;
}

/* Skips the next value, or the one that has just begun; `depth` containers are open around it. */
static void begin_skip(reader *r, parse_state after, uint64_t offset, unsigned depth)
{
    r->after_skip = after;
    r->skip_depth = depth;
    r->skip_offset = offset;
    r->state = STATE_SKIP;
}

/* Keeps the text of the skipped value where it is of use. */
static void end_skip(reader *r)
{
    cmdq_queue *q = r->queue;
    uint64_t length = parser_offset(r) - r->skip_offset;
    if (r->is_metadata)
        q->metadata = (tv_sv){(const char *)r->data + r->skip_offset, length};
    else if (r->after_skip == STATE_ENTRY_KEY)
        (void)TV_VEC_PUSH(&q->extras, (cmdq_extra){cmdq_entry_count(q), r->skip_offset, length});
    else if (r->is_top_member && q->top_members.count < TOP_MEMBERS_MAX)
        (void)TV_VEC_PUSH(&q->top_members, (cmdq_extra){.offset = r->skip_offset, .length = length});
    r->is_metadata = r->is_top_member = false;
    r->state = r->after_skip;
}

/* The metadata are at `offset`. They are interpreted when the whole file has been read. */
static void set_metadata(reader *r, tv_source_loc loc)
{
    r->has_metadata = true;
    r->metadata_line = loc.line;
    r->metadata_column = loc.column;
}

/* Skips the metadata, whose first byte is the last one that was parsed. */
static void begin_metadata(reader *r, uint64_t offset)
{
    if (r->has_metadata)
        cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, offset, NULL, "'metadata' is given twice");
    begin_skip(r, STATE_TOP_KEY, offset, r->depth);
    r->is_metadata = true;
    set_metadata(r, cmdq_reader_count_loc(r, offset));
}

/* The field whose value comes next, or NULL. */
static field_value *current_field(reader *r)
{
    bool expected = r->state == STATE_ENTRY_VALUE || r->state == STATE_MEMBER_VALUE;
    return expected ? &r->fields[r->field_count - 1] : NULL;
}

static void report_misplaced(reader *r, const char *what, uint64_t offset)
{
    static const char *const hints[STATE_END + 1] = {[STATE_FILE] = "a queue is an object",
                                                     [STATE_TOP_VALUE] =
                                                         "'cmdq' is a list of entries, 'metadata' an object",
                                                     [STATE_ENTRIES] = "an entry is an object",
                                                     [STATE_IDS] = "a list of entries holds their ids"};
    cmdq_reader_error(r, r->state == STATE_IDS ? CMDQ_CODE_TYPE : CMDQ_CODE_STRUCTURE, offset, hints[r->state],
                      r->state == STATE_END ? "there is %s after the end of the queue" : "%s does not belong here",
                      what);
    if (r->state == STATE_END || r->state == STATE_FILE)
        r->stopped = true;
}

/* ---- Events. false stops the JSON reader ---- */

static void set_value(field_value *v, const field_value *value)
{
    v->kind = value->kind;
    v->overflow = value->overflow;
    v->integer = value->integer;
    v->real = value->real;
    v->string = value->string;
}

static void add_id(reader *r, const field_value *value)
{
    if (!value->overflow && value->integer >= 0 && value->integer < UINT32_MAX) {
        (void)TV_VEC_PUSH(&r->ids, (uint32_t)value->integer);
        r->fields[r->field_count - 1].count++;
        return;
    }
    cmdq_reader_error(r, CMDQ_CODE_RANGE, parser_offset(r) - 1, NULL, "'%s' takes ids from 0 to %" PRIu32,
                      tv_isa_cmdq.parameters[r->fields[r->field_count - 1].name].name, UINT32_MAX - 1);
}

/* A value that is neither object nor list, `start` bytes into the file. */
static bool take_scalar(reader *r, const field_value *value, const char *what, uint64_t start)
{
    field_value *field = current_field(r);
    if (field) {
        set_value(field, value);
        r->state = r->state == STATE_MEMBER_VALUE ? STATE_MEMBER_KEY : STATE_ENTRY_KEY;
    } else if (r->state == STATE_IDS && value->kind == VALUE_INTEGER) {
        add_id(r, value);
    } else if (r->state == STATE_SKIP) {
        if (r->depth == r->skip_depth)
            end_skip(r);
    } else {
        report_misplaced(r, what, start);
        r->state = r->state == STATE_TOP_VALUE ? STATE_TOP_KEY : r->state;
    }
    return !r->stopped;
}

static bool on_null(void *user)
{
    reader *r = user;
    return take_scalar(r, &(field_value){.kind = VALUE_NULL}, "null", parser_offset(r) - 4);
}

static bool on_boolean(void *user, bool value)
{
    reader *r = user;
    return take_scalar(r, &(field_value){.kind = VALUE_BOOLEAN, .integer = value}, "a boolean",
                       parser_offset(r) - (value ? 4 : 5));
}

static bool on_number(void *user, tv_sv text)
{
    reader *r = user;
    field_value value = {.kind = VALUE_INTEGER};
    if (r->state != STATE_SKIP && text.len >= NUMBER_MAX) {
        cmdq_reader_error(r, CMDQ_CODE_RANGE, parser_offset(r) - text.len, NULL, "the number has more than %d digits",
                          NUMBER_MAX - 1);
        value.overflow = true;
    } else if (r->state != STATE_SKIP) {
        cmdq_set_number(&value, text);
    }
    return take_scalar(r, &value, "a number", parser_offset(r) - text.len);
}

static bool on_string(void *user, tv_sv text)
{
    reader *r = user;
    field_value value = {.kind = VALUE_TEXT};
    const field_value *field = current_field(r);
    if (field && (text.len > STRING_MAX || memchr(text.ptr, '\0', text.len))) {
        cmdq_reader_error(r, CMDQ_CODE_RANGE, field->offset, NULL,
                          text.len > STRING_MAX ? "the string has more than 4096 bytes" : "the string holds a NUL");
    } else if (field) {
        bool is_opcode = field->name == CMDQ_F_opcode && !field->member;
        if (is_opcode)
            r->has_opcode = cmdq_find_opcode(text, &r->opcode);
        if (!is_opcode || !r->has_opcode)
            value.string = cmdq_reader_intern(r, text);
    }
    return take_scalar(r, &value, "a string",
                       field || r->state == STATE_SKIP ? 0 : cmdq_string_start(r, parser_offset(r)));
}

static bool enter_container(reader *r)
{
    r->depth++;
    return !r->stopped;
}

/* Reports a container where none belongs, and skips it. */
static void skip_misplaced(reader *r, const char *what)
{
    report_misplaced(r, what, parser_offset(r) - 1);
    begin_skip(r, r->state == STATE_TOP_VALUE ? STATE_TOP_KEY : r->state, parser_offset(r), r->depth);
}

static bool on_begin_object(void *user)
{
    reader *r = user;
    field_value *field = current_field(r);
    uint64_t offset = parser_offset(r) - 1;
    if (field && field->name == CMDQ_F_kv_range_desc && r->state == STATE_ENTRY_VALUE) {
        field->kind = VALUE_OBJECT;
        r->state = STATE_MEMBER_KEY;
    } else if (field) {
        field->kind = VALUE_OBJECT;
        begin_skip(r, r->state == STATE_MEMBER_VALUE ? STATE_MEMBER_KEY : STATE_ENTRY_KEY, offset, r->depth);
    } else if (r->state == STATE_ENTRIES || (r->state == STATE_FILE && r->queue->json_lines)) {
        r->has_entries = true;
        begin_entry(r);
    } else if (r->state == STATE_FILE) {
        r->state = STATE_TOP_KEY;
        r->top_offset = offset;
        r->top_loc = cmdq_reader_count_loc(r, offset);
    } else if (r->state == STATE_TOP_VALUE && !r->in_entries) {
        begin_metadata(r, offset);
    } else if (r->state != STATE_SKIP) {
        skip_misplaced(r, "an object");
    }
    return enter_container(r);
}

static bool on_begin_array(void *user)
{
    reader *r = user;
    field_value *field = current_field(r);
    if (field && r->state == STATE_ENTRY_VALUE && tv_isa_cmdq.parameters[field->name].type == TV_PARAMETER_IDS) {
        field->kind = VALUE_IDS;
        field->string = (uint32_t)r->ids.count;
        field->count = 0;
        r->state = STATE_IDS;
    } else if (field) {
        field->kind = VALUE_IDS;
        begin_skip(r, r->state == STATE_MEMBER_VALUE ? STATE_MEMBER_KEY : STATE_ENTRY_KEY, parser_offset(r) - 1,
                   r->depth);
    } else if (r->state == STATE_TOP_VALUE && r->in_entries) {
        r->state = STATE_ENTRIES;
    } else if (r->state != STATE_SKIP) {
        skip_misplaced(r, "a list");
    }
    return enter_container(r);
}

/* The first object of the file ends. With a list of entries it is the whole queue, otherwise the metadata of JSON
 * Lines, whose entries follow. */
static void end_top(reader *r)
{
    if (r->has_entries || r->has_metadata) {
        r->state = STATE_END;
        cmdq_reader_report_top_keys(r);
        return;
    }
    r->queue->json_lines = true;
    r->state = STATE_FILE;
    r->queue->top_members.count = 0; /* they are members of the metadata */
    r->queue->metadata = (tv_sv){(const char *)r->data + r->top_offset, parser_offset(r) - r->top_offset};
    set_metadata(r, r->top_loc);
}

static bool on_end_object(void *user)
{
    reader *r = user;
    r->depth--;
    if (r->state == STATE_SKIP && r->depth == r->skip_depth) {
        end_skip(r);
    } else if (r->state == STATE_MEMBER_KEY) {
        r->state = STATE_ENTRY_KEY;
    } else if (r->state == STATE_ENTRY_KEY) {
        cmdq_reader_store_entry(r);
        r->state = r->queue->json_lines ? STATE_FILE : STATE_ENTRIES;
    } else if (r->state == STATE_TOP_KEY) {
        end_top(r);
    }
    return !r->stopped;
}

static bool on_end_array(void *user)
{
    reader *r = user;
    r->depth--;
    if (r->state == STATE_SKIP && r->depth == r->skip_depth)
        end_skip(r);
    else if (r->state == STATE_IDS)
        r->state = STATE_ENTRY_KEY;
    else if (r->state == STATE_ENTRIES)
        r->state = STATE_TOP_KEY;
    return !r->stopped;
}

/* A key of the first object that is neither 'cmdq' nor 'metadata'. */
static void take_other_top_key(reader *r, tv_sv key, uint64_t offset)
{
    bool is_lines = !r->has_metadata && !r->has_entries && !r->queue->top_members.count && tv_sv_is(key, "opcode");
    if (!r->has_entries && (tv_sv_is(key, "timeline_events") || tv_sv_is(key, "traceEvents"))) {
        cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, offset, "`trivet trace FILE` reads it",
                          "this is a trace file, not a queue");
        r->stopped = true;
    } else if (is_lines) { /* an entry of JSON Lines without metadata: read it again as one */
        r->restart = true;
    } else {
        if (r->queue->top_members.count < TOP_MEMBERS_MAX)
            r->top_locs[r->queue->top_members.count] = cmdq_reader_count_loc(r, offset);
        begin_skip(r, STATE_TOP_KEY, offset, r->depth);
        r->is_top_member = true;
    }
}

static void take_top_key(reader *r, tv_sv key)
{
    uint64_t offset = cmdq_string_start(r, parser_offset(r));
    r->in_entries = tv_sv_is(key, "cmdq");
    if (r->in_entries) {
        if (r->has_entries)
            cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, offset, NULL, "'cmdq' is given twice");
        r->has_entries = true;
        r->state = STATE_TOP_VALUE;
    } else if (tv_sv_is(key, "metadata")) {
        r->state = STATE_TOP_VALUE;
    } else {
        take_other_top_key(r, key, offset);
    }
}

static void take_entry_key(reader *r, tv_sv key)
{
    bool member = r->state == STATE_MEMBER_KEY;
    bool is_reserved = key.len >= 9 && memcmp(key.ptr, "reserved_", 9) == 0;
    uint64_t offset = cmdq_string_start(r, parser_offset(r));
    int name = cmdq_reader_field_name(r, key);
    if (!member && (is_reserved || name == CMDQ_F_debug)) {
        begin_skip(r, STATE_ENTRY_KEY, offset, r->depth);
        return;
    }
    if (name < 0) {
        cmdq_reader_report_unknown(r, r->has_opcode ? &tv_isa_cmdq.insns[r->opcode] : NULL,
                                   (tv_sv){key.ptr, tv_min_u64(key.len, 60)}, offset);
        begin_skip(r, r->state, offset, r->depth);
    } else if (cmdq_reader_find_field(r, (unsigned)name, member)) {
        cmdq_reader_error(r, CMDQ_CODE_DUPLICATE, offset, NULL, "'%.*s' is given twice", TV_SV_ARG(key));
        begin_skip(r, r->state, offset, r->depth);
    } else {
        r->state = member ? STATE_MEMBER_VALUE : STATE_ENTRY_VALUE;
        cmdq_reader_add_field(r, (unsigned)name, member, offset);
    }
}

static bool on_key(void *user, tv_sv text)
{
    reader *r = user;
    if (r->state == STATE_TOP_KEY)
        take_top_key(r, text);
    else if (r->state == STATE_ENTRY_KEY || r->state == STATE_MEMBER_KEY)
        take_entry_key(r, text);
    return !r->stopped && !r->restart;
}

/* ---- The file ---- */

/* Lets the fast path read the next entries, where the JSON reader has just seen the end of one. */
static void take_fast_path(reader *r)
{
    bool is_between_entries = r->state == STATE_ENTRIES || (r->state == STATE_FILE && r->queue->json_lines);
    if (!is_between_entries || !r->at_entry_end || r->stopped)
        return;
    uint64_t end = cmdq_fast_path(r, r->chunk_offset);
    if (end == r->chunk_offset)
        return;
    r->slow_path_bytes = 0;
    r->chunk_offset = end;
    tv_json_reader_seek(&r->json, end);
}

/* The size of the next chunk. It ends where an entry may end, so that the fast path can go on there; quotation marks
 * and brackets tell. The more bytes the slow path has parsed in succession, the larger the chunks, so that a file
 * without simple entries is not parsed in small ones. A chunk is at least as large as the incomplete token before it,
 * which is scanned again with it. */
static uint64_t next_chunk_size(reader *r)
{
    uint64_t pending = tv_json_reader_pending(&r->json);
    uint64_t limit = tv_min_u64(tv_min_u64(tv_max_u64(CHUNK_BYTES, pending), TOKEN_MAX + CHUNK_BYTES - pending),
                                r->size - r->chunk_offset);
    const uint8_t *start = r->data + r->chunk_offset, *end = start + limit;
    const uint8_t *earliest = start + tv_min_u64(r->slow_path_bytes, CHUNK_BYTES / 2);
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
            bool closes_entry = depth == 0 || depth == 2; /* of JSON Lines, of the list */
            r->at_entry_end = *p == '}' && p >= earliest && closes_entry;
            if (r->at_entry_end)
                return (uint64_t)(p - start) + 1;
        }
    }
    return limit;
}

static const tv_json_handler handler = {.null = on_null,
                                        .boolean = on_boolean,
                                        .number = on_number,
                                        .string = on_string,
                                        .key = on_key,
                                        .begin_object = on_begin_object,
                                        .end_object = on_end_object,
                                        .begin_array = on_begin_array,
                                        .end_array = on_end_array};

static bool init_json_reader(reader *r)
{
    const tv_json_limits limits = {.depth = DEPTH_MAX, .token = TOKEN_MAX, .multiple = true};
    r->out_of_memory = !tv_json_reader_init(&r->json, &handler, r, limits);
    return !r->out_of_memory;
}

/* Starts again at the first object, which is an entry of JSON Lines. */
static bool restart_as_lines(reader *r)
{
    tv_json_reader_fini(&r->json);
    if (!init_json_reader(r))
        return false;
    tv_json_reader_seek(&r->json, r->top_offset);
    r->chunk_offset = r->top_offset;
    r->restart = r->in_string = r->escaped = false;
    r->depth = 0;
    r->counted = r->line_start = 0;
    r->line = 1;
    r->state = STATE_FILE;
    r->queue->json_lines = true;
    return true;
}

/* The fast path may read all entries, and then yajl, which has seen nothing or white space, would miss a value. */
static bool parse_chunks(reader *r)
{
    bool fed = false;
    while (r->chunk_offset < r->size) {
        take_fast_path(r);
        uint64_t size = next_chunk_size(r);
        for (uint64_t i = 0; i < size && !fed; i++)
            fed = !memchr(" \t\r\n", r->data[r->chunk_offset + i], 4);
        if (size && !tv_json_reader_feed(&r->json, r->data + r->chunk_offset, size))
            return false;
        r->chunk_offset += size;
        r->slow_path_bytes += size;
    }
    return (!fed && r->has_entries) || tv_json_reader_finish(&r->json);
}

static void parse_file(reader *r)
{
    bool complete = init_json_reader(r) && parse_chunks(r);
    if (r->restart)
        complete = restart_as_lines(r) && parse_chunks(r);
    if (!complete && !r->out_of_memory)
        cmdq_reader_report_syntax(r, TOKEN_MAX >> 20);
    else if (complete && !r->has_entries)
        cmdq_reader_error(r, CMDQ_CODE_STRUCTURE, 0, "{\"metadata\": {…}, \"cmdq\": […]}", "the file has no entries");
}

static tv_status read_file(const char *path, tv_input *input, bool slow_path_only, const tv_diag_sink *sink,
                           tv_program **out)
{
    reader r;
    TV_TRY(cmdq_reader_init(&r, path, input, sink));
    r.slow_path_only = slow_path_only;
    cmdq_reader_init_names(&r);
    for (unsigned f = 0; f < CMDQ_FIELDS; f++)
        cmdq_fast_name_init(&r.fast_names[f], tv_isa_cmdq.parameters[f].name);
    parse_file(&r);
    return cmdq_reader_finish(&r, out);
}

tv_status cmdq_read(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out)
{
    return read_file(path, input, false, sink, out);
}

tv_status cmdq_read_slow_path(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out)
{
    return read_file(path, input, true, sink, out);
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
