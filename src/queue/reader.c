/* SPDX-License-Identifier: Apache-2.0 */
/* What the slow path, the fast path and the builder share (reader.h). */
#include "queue/reader.h"

#include <inttypes.h>
#include <stdlib.h>

#include "queue/dependencies.h"

static const uint64_t METADATA_MAX = UINT64_C(16) << 20;

/* ---- Locations and errors ---- */

void cmdq_reader_count_lines(reader *r, uint64_t end)
{
    const uint8_t *p = r->data + r->counted, *limit = r->data + end, *newline;
    while (p < limit && (newline = memchr(p, '\n', (size_t)(limit - p)))) {
        p = newline + 1;
        r->line++;
        r->line_start = (uint64_t)(p - r->data);
    }
    r->counted = tv_max_u64(r->counted, end);
}

tv_source_loc cmdq_reader_count_loc(reader *r, uint64_t offset)
{
    cmdq_reader_count_lines(r, offset);
    return (tv_source_loc){
        .file = r->path, .line = r->line, .column = (unsigned)(offset - r->line_start) + 1, .index = -1};
}

void cmdq_reader_report_top_keys(const reader *r)
{
    static const char *const expected[] = {"$schema", "generator", "debug"};
    for (size_t i = 0; i < r->queue->top_members.count; i++) {
        const cmdq_extra *member = &r->queue->top_members.data[i];
        const char *start = (const char *)r->data + member->offset + 1;
        tv_sv key = {start, strcspn(start, "\"")}; /* one with an escaped quotation mark is cut */
        bool is_expected = key.len >= 9 && memcmp(key.ptr, "reserved_", 9) == 0;
        for (unsigned k = 0; k < TV_COUNTOF(expected); k++)
            is_expected = is_expected || tv_sv_is(key, expected[k]);
        if (is_expected)
            continue;
        tv_nearest nearest = tv_nearest_to(key);
        tv_nearest_offer(&nearest, "metadata");
        tv_nearest_offer(&nearest, "cmdq");
        char hint[80];
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest.best ? nearest.best : "");
        tv_report(r->sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_UNKNOWN_KEY], &r->top_locs[i], nearest.best ? hint : NULL,
                  "the file's key '%.*s' is not interpreted", (int)tv_min_u64(key.len, 60), key.ptr);
    }
}

/* Whether the reader is inside an entry. */
static bool is_in_entry(const reader *r)
{
    switch (r->state) {
    case STATE_FILE:
    case STATE_TOP_KEY:
    case STATE_TOP_VALUE:
    case STATE_END:
        return false;
    case STATE_ENTRIES:
    case STATE_ENTRY_KEY:
    case STATE_ENTRY_VALUE:
    case STATE_IDS:
    case STATE_MEMBER_KEY:
    case STATE_MEMBER_VALUE:
        return true;
    case STATE_SKIP:
        return r->after_skip != STATE_TOP_KEY && r->after_skip != STATE_FILE;
    }
    return false;
}

tv_source_loc cmdq_reader_loc(const reader *r, uint64_t offset)
{
    if (offset < r->entry_offset || (offset < r->counted && !r->has_entries)) /* of the file as a whole */
        return (tv_source_loc){.file = r->path, .line = 1, .column = 1, .index = -1};
    uint64_t line_start = r->line_start;
    unsigned line = r->line;
    if (offset < r->counted) { /* in the current entry: count again from its first byte */
        line = r->entry_line;
        line_start = r->entry_offset - (r->entry_column - 1);
        for (uint64_t i = r->entry_offset; i < offset; i++)
            if (r->data[i] == '\n') {
                line++;
                line_start = i + 1;
            }
    }
    return (tv_source_loc){.file = r->path,
                           .line = line,
                           .column = (unsigned)(offset - line_start) + 1,
                           .index = is_in_entry(r) ? (int64_t)cmdq_entry_count(r->queue) : -1};
}

static bool is_out_of_memory(const reader *r)
{
    const cmdq_queue *q = r->queue;
    return r->out_of_memory || q->entries.failed || q->values.failed || q->lists.failed || q->extras.failed ||
           q->top_members.failed || r->ids.failed || r->program->lines.failed;
}

void cmdq_reader_error(reader *r, cmdq_code code, uint64_t offset, const char *hint, const char *format, ...)
{
    r->entry_failed = true;
    if (is_out_of_memory(r)) { /* then what seems to be an error may be none */
        r->stopped = true;
        return;
    }
    if (r->errors++ >= ERRORS_MAX) {
        r->stopped = true;
        return;
    }
    if (offset > r->counted)
        cmdq_reader_count_lines(r, offset);
    tv_source_loc loc = cmdq_reader_loc(r, offset);
    va_list args;
    va_start(args, format);
    tv_vreport(r->sink, TV_ERROR, &cmdq_codes[code], &loc, hint, format, args);
    va_end(args);
}

/* ---- Strings and names ---- */

/* Doubles the hash table and the array of strings; the table is at most half full. */
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
    for (uint32_t s = 1; s < r->queue->string_count; s++) {
        uint32_t i = (uint32_t)tv_sv_hash(tv_sv_of(strings[s])) & r->string_mask;
        while (table[i])
            i = (i + 1) & r->string_mask;
        table[i] = s;
    }
    return true;
}

uint32_t cmdq_reader_intern(reader *r, tv_sv text)
{
    cmdq_queue *q = r->queue;
    if (text.len == 0)
        return CMDQ_NO_STRING;
    if (q->string_count >= (r->string_mask + 1) / 2 && !grow_string_table(r)) {
        r->out_of_memory = true;
        return CMDQ_NO_STRING;
    }
    uint32_t i = (uint32_t)tv_sv_hash(text) & r->string_mask;
    for (; r->string_slots[i]; i = (i + 1) & r->string_mask)
        if (tv_sv_is(text, q->strings[r->string_slots[i]]))
            return r->string_slots[i];
    char *copy = tv_arena_str(&q->arena, text);
    if (!copy) {
        r->out_of_memory = true;
        return CMDQ_NO_STRING;
    }
    q->strings[q->string_count] = copy;
    r->string_slots[i] = q->string_count;
    return q->string_count++;
}

void cmdq_reader_init_names(reader *r)
{
    for (unsigned f = 0; f < CMDQ_FIELDS; f++) {
        const char *name = tv_isa_cmdq.parameters[f].name;
        unsigned i = (unsigned)tv_sv_hash(tv_sv_of(name)) % NAME_SLOTS;
        if (r->queue->layout.first[f] != f)
            continue;
        while (r->names[i])
            i = (i + 1) % NAME_SLOTS;
        r->names[i] = (uint16_t)(f + 1);
    }
}

int cmdq_reader_field_name(const reader *r, tv_sv text)
{
    for (unsigned i = (unsigned)tv_sv_hash(text) % NAME_SLOTS; r->names[i]; i = (i + 1) % NAME_SLOTS)
        if (tv_sv_is(text, tv_isa_cmdq.parameters[r->names[i] - 1].name))
            return r->names[i] - 1;
    return -1;
}

bool cmdq_find_opcode(tv_sv text, unsigned *opcode)
{
    for (*opcode = 0; *opcode < tv_isa_cmdq.insn_count; ++*opcode)
        if (text.len && text.ptr[0] == tv_isa_cmdq.insns[*opcode].id[0] &&
            tv_sv_is(text, tv_isa_cmdq.insns[*opcode].id))
            return true;
    return false;
}

void cmdq_set_number(field_value *v, tv_sv text)
{
    bool whole =
        !memchr(text.ptr, '.', text.len) && !memchr(text.ptr, 'e', text.len) && !memchr(text.ptr, 'E', text.len);
    v->kind = whole ? VALUE_INTEGER : VALUE_REAL;
    v->overflow = whole && !tv_json_number_integer(text, &v->integer);
    if (whole && !v->overflow)
        v->real = v->integer == 0 && text.ptr[0] == '-' ? -0.0 : (double)v->integer;
    else
        tv_json_number_value(text, &v->real);
}

/* ---- The entry ---- */

void cmdq_reader_begin_entry(reader *r, uint64_t offset)
{
    r->entry_offset = offset;
    cmdq_reader_count_lines(r, offset);
    r->entry_line = r->line;
    r->entry_column = (unsigned)(offset - r->line_start) + 1;
    r->entry_failed = false;
}

/* ---- Start and end ---- */

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
    r->sink = tv_program_source_lines(r->program, sink, &r->lines);
    r->queue->strings[0] = "";
    cmdq_layout_init(&r->queue->layout);
    return TV_OK;
}

void cmdq_reader_fini(reader *r)
{
    tv_json_reader_fini(&r->json);
    free(r->string_slots);
    free(r->templates);
    TV_VEC_FINI(&r->ids);
}

static tv_status finish_queue(reader *r)
{
    cmdq_queue *q = r->queue;
    tv_program *program = r->program;
    if (is_out_of_memory(r))
        return tv_fail_memory(r->sink);
    program->instruction_count = cmdq_entry_count(q);
    if (q->metadata.len > METADATA_MAX)
        cmdq_reader_error(r, CMDQ_CODE_LIMIT, 0, "put large contents into files",
                          "the metadata are larger than %" PRIu64 " MiB", METADATA_MAX >> 20);
    else if (q->metadata.ptr)
        r->errors += cmdq_read_metadata(program, q, r->metadata_line, r->metadata_column, r->sink);
    r->errors += cmdq_resolve_kv_names(program, q, r->errors != 0, r->sink);
    if (q->range_refs.failed || q->derived_layouts.failed)
        return tv_fail_memory(r->sink);
    if (!r->errors)
        r->errors += cmdq_resolve_dependencies(program, q, r->sink);
    if (r->errors > ERRORS_MAX)
        tv_report(r->sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_LIMIT], &(tv_source_loc){.file = r->path, .index = -1}, NULL,
                  "too many errors; the rest is not reported");
    if (q->out_of_memory)
        return TV_ERR_MEMORY;
    if (q->host_failed)
        return TV_ERR_IO;
    return r->errors ? TV_ERR_INPUT : TV_OK;
}

tv_status cmdq_reader_finish(reader *r, tv_program **out)
{
    tv_status status = finish_queue(r);
    if (status != TV_OK)
        tv_program_free(r->program);
    else
        *out = r->program;
    cmdq_reader_fini(r);
    return status;
}
