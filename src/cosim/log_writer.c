/* SPDX-License-Identifier: Apache-2.0 */
/* Writes commit logs. A record with many bytes becomes several, so that memory of a reader is bounded. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/json_writer.h"
#include "cosim/log.h"

struct tv_commit_log_writer {
    tv_output *output;
    FILE *file;
    tv_commit_log_format format;
    tv_buf record;
    text_table texts;
    tv_json_writer json;
    bool failed; /* out of memory */
};

const char *const tv_log_kinds[4] = {"instruction", "host", "load", "completion"};
const char *const tv_log_origins[3] = {"program", "window", "execute"};

static bool has_ending(tv_sv path, const char *ending)
{
    size_t n = strlen(ending);
    return path.len > n && memcmp(path.ptr + path.len - n, ending, n) == 0;
}

tv_commit_log_format tv_commit_log_format_of(const char *path)
{
    tv_sv name = tv_sv_of(path);
    if (has_ending(name, ".zst"))
        name.len -= 4;
    return has_ending(name, ".bin") ? TV_COMMIT_LOG_BINARY : TV_COMMIT_LOG_JSON;
}

/* ---- Header ---- */

static void write_header(tv_commit_log_writer *w, const tv_config *config)
{
    tv_json_writer *json = &w->json;
    tv_config_entry entry;
    tv_json_begin_object(json);
    tv_json_unsigned_member(json, "commit_log", LOG_VERSION);
    tv_json_string_member(json, "tool", "trivet");
    tv_json_string_member(json, "tool_version", tv_version());
    tv_json_string_member(json, "target", tv_config_target(config));
    tv_json_key(json, "config");
    tv_json_begin_object(json);
    for (unsigned i = 0; tv_config_at(config, i, &entry); i++)
        tv_json_string_member(json, entry.key, entry.value);
    tv_json_end_object(json);
    tv_json_end_object(json);
}

/* Writes the record in the buffer to the file. */
static void flush_record(tv_commit_log_writer *w)
{
    uint8_t size[4];
    if (w->record.failed) {
        w->failed = true;
        return;
    }
    if (w->format == TV_COMMIT_LOG_BINARY) {
        tv_store_le(size, w->record.len, 4);
        fwrite(size, 1, sizeof size, w->file);
    }
    fwrite(w->record.data, 1, w->record.len, w->file);
    w->record.len = 0;
}

tv_status tv_commit_log_open(const char *path, tv_commit_log_format format, const tv_config *config,
                             const tv_diag_sink *sink, tv_commit_log_writer **out)
{
    tv_commit_log_writer *w = calloc(1, sizeof *w);
    if (!w)
        return tv_fail_memory(sink);
    tv_status status = tv_output_open_compressed(path, sink, &w->output);
    if (status != TV_OK) {
        free(w);
        return status;
    }
    w->file = tv_output_stream(w->output);
    w->format = format;
    if (format == TV_COMMIT_LOG_BINARY)
        fputs(TV_COMMIT_LOG_MAGIC, w->file);
    tv_json_writer_init_buf(&w->json, &w->record, TV_JSON_COMPACT);
    write_header(w, config);
    tv_json_writer_finish(&w->json);
    if (format == TV_COMMIT_LOG_JSON)
        tv_buf_str(&w->record, "\n");
    flush_record(w);
    *out = w;
    return TV_OK;
}

/* ---- JSON Lines ---- */

static void write_hex_member(tv_buf *buf, const char *key, const uint8_t *bytes, uint64_t count)
{
    static const char digits[] = "0123456789abcdef";
    tv_buf_printf(buf, ",\"%s\":\"", key);
    char *to = tv_buf_extend(buf, count * 2);
    for (uint64_t i = 0; to && i < count; i++) {
        to[2 * i] = digits[bytes[i] >> 4];
        to[2 * i + 1] = digits[bytes[i] & 15];
    }
    tv_buf_str(buf, "\"");
}

/* A number, as a text in hexadecimal when it does not fit the integers of JSON readers. */
static void write_number_member(tv_buf *buf, const char *key, uint64_t value)
{
    if (value <= INT64_MAX)
        tv_buf_printf(buf, ",\"%s\":%llu", key, (unsigned long long)value);
    else
        tv_buf_printf(buf, ",\"%s\":\"0x%llx\"", key, (unsigned long long)value);
}

/* A number that is left out if it is unknown. */
static void write_known_member(tv_buf *buf, const char *key, uint64_t value)
{
    if (value != UINT64_MAX)
        write_number_member(buf, key, value);
}

static bool needs_no_escape(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            return false;
    return true;
}

static void write_string(tv_commit_log_writer *w, const char *text)
{
    if (needs_no_escape(text)) {
        tv_buf_str(&w->record, "\"");
        tv_buf_str(&w->record, text);
        tv_buf_str(&w->record, "\"");
        return;
    }
    tv_json_writer_init_buf(&w->json, &w->record, TV_JSON_COMPACT);
    tv_json_write_string(&w->json, text);
    tv_json_writer_finish(&w->json);
}

/* Nothing for NULL and "". */
static void write_text_member(tv_commit_log_writer *w, const char *key, const char *text)
{
    if (!text || !text[0])
        return;
    tv_buf_printf(&w->record, ",\"%s\":", key);
    write_string(w, text);
}

static void write_effect_json(tv_commit_log_writer *w, const tv_effect *e, bool is_first)
{
    tv_buf *buf = &w->record;
    tv_buf_str(buf, is_first ? "{\"space\":" : ",{\"space\":");
    write_string(w, e->space);
    write_number_member(buf, "addr", e->addr);
    write_number_member(buf, "unit_bytes", e->unit_bytes);
    write_number_member(buf, "bytes", e->bytes);
    tv_buf_str(buf, e->write ? ",\"write\":true" : ",\"write\":false");
    if (e->queue)
        tv_buf_str(buf, ",\"queue\":true");
    if (e->before)
        write_hex_member(buf, "before", e->before, e->bytes);
    if (e->after)
        write_hex_member(buf, "after", e->after, e->bytes);
    tv_buf_str(buf, "}");
}

static void write_value_json(tv_commit_log_writer *w, const tv_inner_value *v, bool is_first)
{
    tv_buf_str(&w->record, is_first ? "{\"name\":" : ",{\"name\":");
    write_string(w, v->name);
    write_number_member(&w->record, "element", v->element);
    if (v->is_integer) {
        tv_buf_printf(&w->record, ",\"integer\":%lld}", (long long)v->integer);
        return;
    }
    tv_buf_str(&w->record, ",\"real\":");
    if (v->real - v->real != 0) { /* infinite or NaN, which JSON numbers cannot be */
        tv_buf_str(&w->record, v->real > 0 ? "\"inf\"}" : v->real < 0 ? "\"-inf\"}" : "\"nan\"}");
        return;
    }
    tv_json_writer_init_buf(&w->json, &w->record, TV_JSON_COMPACT);
    tv_json_write_real(&w->json, v->real, 0);
    tv_json_writer_finish(&w->json);
    tv_buf_str(&w->record, "}");
}

static void write_instruction_json(tv_commit_log_writer *w, const tv_commit *c)
{
    tv_buf *buf = &w->record;
    tv_buf_printf(buf, ",\"origin\":\"%s\"", tv_log_origins[c->origin]);
    write_known_member(buf, "index", c->index);
    tv_buf_printf(buf, ",\"word\":\"0x%llx\"", (unsigned long long)c->word);
    write_text_member(w, "insn", c->insn);
    if (c->fault) {
        write_text_member(w, "fault", c->fault);
        write_text_member(w, "fault_name", c->fault_name);
        write_text_member(w, "fault_message", c->fault_message);
    }
    if (c->asynchronous)
        tv_buf_str(buf, ",\"asynchronous\":true");
    if (c->file && c->file[0]) {
        write_text_member(w, "file", c->file);
        tv_buf_printf(buf, ",\"line\":%u", c->line);
    }
}

static void write_json(tv_commit_log_writer *w, const tv_commit *c)
{
    tv_buf *buf = &w->record;
    tv_buf_printf(buf, "{\"kind\":\"%s\"", tv_log_kinds[c->kind]);
    write_known_member(buf, "order", c->order);
    if (c->kind == TV_COMMIT_INSTRUCTION)
        write_instruction_json(w, c);
    if (c->kind == TV_COMMIT_INSTRUCTION || c->kind == TV_COMMIT_COMPLETION) {
        write_known_member(buf, "issue", c->issue);
        write_known_member(buf, "start", c->start);
        write_known_member(buf, "end", c->end);
    }
    if (c->effect_count) {
        tv_buf_str(buf, ",\"effects\":[");
        for (unsigned i = 0; i < c->effect_count; i++)
            write_effect_json(w, &c->effects[i], i == 0);
        tv_buf_str(buf, "]");
    }
    if (c->value_count) {
        tv_buf_str(buf, ",\"values\":[");
        for (unsigned i = 0; i < c->value_count; i++)
            write_value_json(w, &c->values[i], i == 0);
        tv_buf_str(buf, "]");
    }
    tv_buf_str(buf, "}\n");
}

/* ---- Binary ---- */

static void write_number(tv_buf *buf, uint64_t value)
{
    while (value >= 128) {
        tv_buf_le(buf, (value & 127) | 128, 1);
        value >>= 7;
    }
    tv_buf_le(buf, value, 1);
}

static void write_text(tv_buf *buf, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    if (n > LOG_TEXT_MAX)
        n = LOG_TEXT_MAX;
    write_number(buf, n);
    tv_buf_append(buf, text, n);
}

static void write_shared_text(tv_commit_log_writer *w, const char *text)
{
    bool is_new = false, full = false;
    size_t n = strlen(text);
    tv_sv view = {text, n < LOG_TEXT_MAX ? n : LOG_TEXT_MAX};
    int64_t index = tv_text_table_find(&w->texts, view, &is_new, &full);
    if (index < 0) {
        w->failed = true;
        return;
    }
    write_number(&w->record, (uint64_t)index);
    if (is_new)
        write_text(&w->record, text);
}

static void write_effect_binary(tv_commit_log_writer *w, const tv_effect *e)
{
    unsigned flags = (e->write ? EFFECT_WRITE : 0u) | (e->queue ? EFFECT_QUEUE : 0u) |
                     (e->before ? EFFECT_BEFORE : 0u) | (e->after ? EFFECT_AFTER : 0u);
    tv_buf_le(&w->record, flags, 1);
    write_shared_text(w, e->space);
    write_number(&w->record, e->addr);
    write_number(&w->record, e->unit_bytes);
    write_number(&w->record, e->bytes);
    if (e->before)
        tv_buf_append(&w->record, e->before, e->bytes);
    if (e->after)
        tv_buf_append(&w->record, e->after, e->bytes);
}

static void write_value_binary(tv_commit_log_writer *w, const tv_inner_value *v)
{
    uint64_t bits = (uint64_t)v->integer;
    if (!v->is_integer)
        memcpy(&bits, &v->real, sizeof bits);
    tv_buf_le(&w->record, v->is_integer ? VALUE_INTEGER : 0, 1);
    write_shared_text(w, v->name);
    write_number(&w->record, v->element);
    tv_buf_le(&w->record, bits, 8);
}

static void write_binary(tv_commit_log_writer *w, const tv_commit *c)
{
    tv_buf *buf = &w->record;
    bool has_cycles = c->issue != TV_CYCLE_UNKNOWN || c->start != TV_CYCLE_UNKNOWN || c->end != TV_CYCLE_UNKNOWN;
    unsigned flags = (c->asynchronous ? RECORD_ASYNCHRONOUS : 0u) | (c->word ? RECORD_WORD : 0u) |
                     (c->insn ? RECORD_INSN : 0u) | (c->fault ? RECORD_FAULT : 0u) | (has_cycles ? RECORD_CYCLES : 0u) |
                     (c->file ? RECORD_FILE : 0u);
    tv_buf_le(buf, (uint64_t)c->kind | (uint64_t)c->origin << 4, 1);
    tv_buf_le(buf, flags, 1);
    write_number(buf, c->order);
    write_number(buf, c->index);
    if (flags & RECORD_WORD)
        tv_buf_le(buf, c->word, 8);
    if (flags & RECORD_INSN)
        write_shared_text(w, c->insn);
    if (flags & RECORD_FAULT) {
        write_shared_text(w, c->fault);
        write_shared_text(w, c->fault_name ? c->fault_name : "");
        write_text(buf, c->fault_message);
    }
    if (flags & RECORD_CYCLES) { /* 0: unknown */
        write_number(buf, c->issue + 1);
        write_number(buf, c->start + 1);
        write_number(buf, c->end + 1);
    }
    if (flags & RECORD_FILE) {
        write_shared_text(w, c->file);
        write_number(buf, c->line);
    }
    write_number(buf, c->effect_count);
    for (unsigned i = 0; i < c->effect_count; i++)
        write_effect_binary(w, &c->effects[i]);
    write_number(buf, c->value_count);
    for (unsigned i = 0; i < c->value_count; i++)
        write_value_binary(w, &c->values[i]);
}

/* ---- The writer ---- */

static void write_record(tv_commit_log_writer *w, const tv_commit *c)
{
    if (w->format == TV_COMMIT_LOG_BINARY)
        write_binary(w, c);
    else
        write_json(w, c);
    flush_record(w);
}

/* Bytes that a record has for an effect: none if it does not say what they are. */
static uint64_t written_bytes(const tv_effect *e) { return e->before || e->after ? e->bytes : 0; }

/* Writes a record with the part of effect `e` from byte `at` on, at most LOG_EFFECT_BYTES in whole units. Returns the
 * number of bytes. */
static uint64_t write_block(tv_commit_log_writer *w, const tv_commit *c, const tv_effect *e, uint64_t at)
{
    uint64_t unit = e->unit_bytes ? e->unit_bytes : 1, limit = LOG_EFFECT_BYTES / unit * unit;
    uint64_t bytes = written_bytes(e) ? tv_min_u64(e->bytes - at, limit ? limit : unit) : e->bytes;
    tv_effect block = *e;
    block.addr += at / unit;
    block.bytes = bytes;
    block.before = e->before ? e->before + at : NULL;
    block.after = e->after ? e->after + at : NULL;
    tv_commit one = *c;
    one.effects = &block;
    one.effect_count = 1;
    one.values = NULL;
    one.value_count = 0;
    write_record(w, &one);
    return bytes;
}

enum { SMALL_EFFECTS = 4096, SMALL_VALUES = 1 << 16 };

/* True if the record can be written as one. */
static bool is_small(const tv_commit *c)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < c->effect_count; i++) {
        if (written_bytes(&c->effects[i]) > LOG_EFFECT_BYTES)
            return false;
        bytes += written_bytes(&c->effects[i]);
    }
    return bytes <= LOG_EFFECT_BYTES && c->effect_count <= SMALL_EFFECTS && c->value_count <= SMALL_VALUES;
}

void tv_commit_log_write(tv_commit_log_writer *w, const tv_commit *c)
{
    if (is_small(c)) {
        write_record(w, c);
        return;
    }
    tv_commit one = *c;
    one.effects = NULL;
    one.effect_count = 0;
    for (unsigned at = 0; at < c->value_count; at += SMALL_VALUES) {
        one.values = c->values + at;
        one.value_count = c->value_count - at < SMALL_VALUES ? c->value_count - at : SMALL_VALUES;
        write_record(w, &one);
    }
    for (unsigned i = 0; i < c->effect_count; i++)
        for (uint64_t at = 0; at < c->effects[i].bytes;)
            at += write_block(w, c, &c->effects[i], at);
}

static void write_commit(void *user, const tv_commit *commit) { tv_commit_log_write(user, commit); }

tv_commit_sink tv_commit_log_sink(tv_commit_log_writer *writer) { return (tv_commit_sink){write_commit, writer}; }

static void free_writer(tv_commit_log_writer *w)
{
    tv_buf_fini(&w->record);
    tv_text_table_fini(&w->texts);
    free(w);
}

tv_status tv_commit_log_finish(tv_commit_log_writer *w, tv_output_group *group, const tv_diag_sink *sink)
{
    tv_status status;
    if (w->failed) {
        tv_output_abandon(w->output);
        status = tv_fail_memory(sink);
    } else {
        status = tv_output_commit_to(w->output, group, sink);
    }
    free_writer(w);
    return status;
}

void tv_commit_log_abandon(tv_commit_log_writer *w)
{
    if (!w)
        return;
    tv_output_abandon(w->output);
    free_writer(w);
}
