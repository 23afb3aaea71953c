/* SPDX-License-Identifier: Apache-2.0 */
/* Reads commit logs as a stream. Memory is bounded: a record has at most LOG_RECORD_MAX bytes, and a log at most
 * LOG_TEXTS_MAX different texts. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/json_value.h"
#include "base/stream.h"
#include "cosim/log.h"

enum { CHUNK = 1 << 16 };

struct tv_commit_log_reader {
    tv_stream *stream;
    char *name;
    bool binary, ended; /* the stream has no more bytes */
    bool failed;
    tv_buf buf;
    size_t at; /* of the next byte of `buf` that has not been read */
    uint64_t line;
    tv_arena header_arena, arena;
    text_table texts;
    const tv_json_value *header;
    tv_commit commit;
};

static tv_status report_damage(tv_commit_log_reader *r, const tv_diag_sink *sink, const char *what)
{
    tv_source_loc loc = {.file = r->name, .line = (unsigned)tv_min_u64(r->line, UINT32_MAX), .index = -1};
    r->failed = true;
    tv_report(sink, TV_ERROR, TV_CODE(LOG_FORM), &loc, NULL, "the commit log is damaged: %s", what);
    return TV_ERR_INPUT;
}

/* ---- Bytes ---- */

/* Reads until `count` bytes are available from `at` on, or the log ends. */
static tv_status fill(tv_commit_log_reader *r, size_t count, const tv_diag_sink *sink)
{
    if (r->at > CHUNK && r->at * 2 > r->buf.len) {
        memmove(r->buf.data, r->buf.data + r->at, r->buf.len - r->at);
        r->buf.len -= r->at;
        r->at = 0;
    }
    while (r->buf.len - r->at < count && !r->ended) {
        size_t got = 0;
        void *to = tv_buf_extend(&r->buf, CHUNK);
        if (!to)
            return tv_fail_memory(sink);
        tv_status status = tv_stream_read(r->stream, to, CHUNK, sink, &got);
        r->buf.len -= CHUNK - got;
        TV_TRY(status);
        r->ended = got == 0;
    }
    return TV_OK;
}

/* The next line without its newline. line->ptr is NULL at the end. */
static tv_status read_line(tv_commit_log_reader *r, const tv_diag_sink *sink, tv_sv *line)
{
    size_t searched = 0;
    *line = (tv_sv){NULL, 0};
    for (;;) {
        TV_TRY(fill(r, searched + 1, sink));
        const char *from = (const char *)r->buf.data + r->at;
        size_t available = r->buf.len - r->at;
        const char *newline = available > searched ? memchr(from + searched, '\n', available - searched) : NULL;
        if (available == 0)
            return TV_OK;
        if (newline || r->ended) {
            *line = (tv_sv){from, newline ? (size_t)(newline - from) : available};
            r->at += line->len + (newline != NULL);
            r->line++;
            return TV_OK;
        }
        searched = available;
        if (searched > LOG_RECORD_MAX) {
            r->line++;
            return report_damage(r, sink, "the line has more than 32 MiB");
        }
    }
}

/* The next `limit` bytes or fewer with their length before them. *data is NULL at the end. */
static tv_status read_block(tv_commit_log_reader *r, uint32_t limit, const tv_diag_sink *sink, const uint8_t **data,
                            size_t *size)
{
    *data = NULL;
    TV_TRY(fill(r, 4, sink));
    size_t available = r->buf.len - r->at;
    if (available == 0)
        return TV_OK;
    r->line++;
    *size = available < 4 ? 0 : tv_load_le32(r->buf.data + r->at);
    if (*size > limit)
        return report_damage(r, sink, "the record is too large");
    TV_TRY(fill(r, *size + 4, sink));
    if (r->buf.len - r->at < *size + 4)
        return report_damage(r, sink, "it ends in a record");
    *data = r->buf.data + r->at + 4;
    r->at += *size + 4;
    return TV_OK;
}

/* ---- Header ---- */

static tv_status parse_header(tv_commit_log_reader *r, tv_sv text, const tv_diag_sink *sink)
{
    tv_json_error error;
    r->header = tv_json_parse(&r->header_arena, text, LOG_HEADER_MAX, &error);
    if (!r->header && error.kind == TV_JSON_MEMORY)
        return tv_fail_memory(sink);
    const tv_json_value *version = tv_json_get(r->header, "commit_log");
    tv_source_loc loc = {.file = r->name, .line = 1, .index = -1};
    if (!tv_json_is(version, TV_JSON_INTEGER) || !tv_json_string(tv_json_get(r->header, "target"))) {
        tv_report(sink, TV_ERROR, TV_CODE(LOG_HEADER), &loc, "begin it with {\"commit_log\":1,\"target\":\"pccx\"}",
                  "the file is not a commit log: it does not begin with a header");
        return TV_ERR_INPUT;
    }
    if (version->integer != LOG_VERSION) {
        tv_report(sink, TV_ERROR, TV_CODE(LOG_HEADER), &loc, NULL,
                  "the commit log has version %lld of the format; this version reads version %d",
                  (long long)version->integer, LOG_VERSION);
        return TV_ERR_INPUT;
    }
    return TV_OK;
}

static tv_status read_header(tv_commit_log_reader *r, const tv_diag_sink *sink)
{
    enum { MAGIC = sizeof TV_COMMIT_LOG_MAGIC - 1 };
    tv_sv line = {NULL, 0};
    TV_TRY(fill(r, MAGIC, sink));
    r->binary = r->buf.len >= MAGIC && memcmp(r->buf.data, TV_COMMIT_LOG_MAGIC, MAGIC) == 0;
    if (r->binary) {
        const uint8_t *data;
        r->at = MAGIC;
        TV_TRY(read_block(r, LOG_HEADER_MAX, sink, &data, &line.len));
        line.ptr = (const char *)data;
        r->line = 0;
    } else {
        TV_TRY(read_line(r, sink, &line));
    }
    return parse_header(r, line.ptr ? line : (tv_sv){"", 0}, sink);
}

static tv_status open_reader(tv_stream *stream, const char *name, const tv_diag_sink *sink, tv_commit_log_reader **out)
{
    tv_commit_log_reader *r = calloc(1, sizeof *r);
    tv_status status = TV_OK;
    if (!r || !(r->name = strdup(strcmp(name, "-") == 0 ? "<stdin>" : name)))
        status = tv_fail_memory(sink);
    if (r)
        r->stream = stream;
    else
        tv_stream_close(stream);
    if (status == TV_OK)
        status = read_header(r, sink);
    if (status != TV_OK) {
        tv_commit_log_close(r);
        return status;
    }
    *out = r;
    return TV_OK;
}

tv_status tv_commit_log_read(const char *path, const tv_diag_sink *sink, tv_commit_log_reader **out)
{
    tv_stream *stream;
    TV_TRY(tv_stream_open(path, sink, &stream));
    return open_reader(stream, path, sink, out);
}

tv_status tv_commit_log_read_bytes(const char *name, const void *data, size_t size, const tv_diag_sink *sink,
                                   tv_commit_log_reader **out)
{
    tv_stream *stream;
    TV_TRY(tv_stream_of(name, data ? data : "", size, sink, &stream));
    return open_reader(stream, name, sink, out);
}

void tv_commit_log_close(tv_commit_log_reader *r)
{
    if (!r)
        return;
    tv_stream_close(r->stream);
    tv_buf_fini(&r->buf);
    tv_arena_fini(&r->header_arena);
    tv_arena_fini(&r->arena);
    tv_text_table_fini(&r->texts);
    free(r->name);
    free(r);
}

const char *tv_commit_log_target(const tv_commit_log_reader *r)
{
    return tv_json_string(tv_json_get(r->header, "target"));
}

const char *tv_log_name(const tv_commit_log_reader *r) { return r->name; }

const tv_json_value *tv_log_settings(const tv_commit_log_reader *r)
{
    const tv_json_value *v = tv_json_get(r->header, "config");
    return tv_json_is(v, TV_JSON_OBJECT) ? v : NULL;
}

/* ---- Records ---- */

static bool is_blank(tv_sv line)
{
    for (size_t i = 0; i < line.len; i++)
        if (!strchr(" \t\r", line.ptr[i]))
            return false;
    return true;
}

/* Reads and parses the next record; *end: there is none. */
static tv_status parse_binary(tv_commit_log_reader *r, const tv_diag_sink *sink, bool *end)
{
    const uint8_t *data;
    size_t size = 0;
    bool memory = false;
    TV_TRY(read_block(r, LOG_RECORD_MAX, sink, &data, &size));
    *end = data == NULL;
    const char *error = data ? tv_log_parse_record(data, size, &r->arena, &r->texts, &r->commit, &memory) : NULL;
    return memory ? tv_fail_memory(sink) : error ? report_damage(r, sink, error) : TV_OK;
}

static tv_status parse_json(tv_commit_log_reader *r, const tv_diag_sink *sink, bool *end)
{
    tv_sv line;
    bool memory = false;
    do
        TV_TRY(read_line(r, sink, &line));
    while (line.ptr && is_blank(line));
    *end = line.ptr == NULL;
    const char *error = line.ptr ? tv_log_parse_line(line, &r->arena, &r->texts, &r->commit, &memory) : NULL;
    return memory ? tv_fail_memory(sink) : error ? report_damage(r, sink, error) : TV_OK;
}

tv_status tv_commit_log_next(tv_commit_log_reader *r, const tv_diag_sink *sink, const tv_commit **out, uint64_t *line)
{
    tv_arena spare;
    bool end = false;
    if (r->failed)
        return TV_ERR_INPUT;
    tv_arena_reuse(&spare, &r->arena);
    tv_arena_reuse(&r->arena, &spare);
    tv_status status = r->binary ? parse_binary(r, sink, &end) : parse_json(r, sink, &end);
    if (status != TV_OK) {
        r->failed = true;
        return status;
    }
    *out = end ? NULL : &r->commit;
    if (line)
        *line = r->line;
    return TV_OK;
}
