/* SPDX-License-Identifier: Apache-2.0 */
/* Coverage as a file of JSON Lines: a header {"coverage":1,"target":"pccx","instructions":1000}, then an object for
 * each bin. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/json_value.h"
#include "cosim/coverage.h"
#include "trivet/file.h"
#include "trivet/json.h"

enum { VERSION = 1, LINE_MAX_BYTES = 1 << 12, FILE_MAX = 1 << 26, LINE_TREE = 1 << 16 };

/* ---- Writing ---- */

static void write_bin(FILE *file, const tv_cover_bin *bin)
{
    tv_json_writer *w = tv_json_writer_new(file, TV_JSON_COMPACT);
    if (!w)
        return;
    tv_json_begin_object(w);
    tv_json_string_member(w, "group", bin->group);
    tv_json_string_member(w, "bin", bin->name);
    tv_json_unsigned_member(w, "hits", bin->hits);
    tv_json_unsigned_member(w, "goal", bin->goal);
    if (bin->reason)
        tv_json_string_member(w, "reason", bin->reason);
    tv_json_end_object(w);
    tv_json_writer_finish(w);
    tv_json_writer_free(w);
    fputc('\n', file);
}

void tv_cover_write(const tv_cover *c, FILE *file)
{
    tv_json_writer *w = tv_json_writer_new(file, TV_JSON_COMPACT);
    if (!w)
        return;
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "coverage", VERSION);
    tv_json_string_member(w, "target", c->isa->target);
    tv_json_unsigned_member(w, "instructions", c->instructions);
    tv_json_end_object(w);
    tv_json_writer_finish(w);
    tv_json_writer_free(w);
    fputc('\n', file);
    for (size_t i = 0; i < c->shown.count; i++)
        write_bin(file, &c->bins.data[c->shown.data[i]]);
}

/* ---- Reading ---- */

typedef struct reader {
    tv_cover *cover;
    const char *name;
    tv_sv rest;
    unsigned line;
    tv_arena arena;
    uint64_t *hits; /* of each bin, which are added at the end */
    uint64_t instructions;
    size_t at; /* bin after the one of the line before */
    const tv_diag_sink *sink;
} reader;

static tv_status report_line(const reader *r, const tv_code *code, const char *hint, const char *what, const char *text)
{
    tv_source_loc loc = {.file = r->name, .line = r->line, .index = -1};
    tv_report(r->sink, TV_ERROR, code, &loc, hint, "%s%.100s", what, text);
    return TV_ERR_INPUT;
}

/* The next line as a value. TV_OK with NULL: the file ends. */
static tv_status read_line(reader *r, const tv_json_value **out)
{
    tv_json_error error;
    *out = NULL;
    if (r->rest.len == 0)
        return TV_OK;
    const char *end = memchr(r->rest.ptr, '\n', r->rest.len);
    tv_sv line = {r->rest.ptr, end ? (size_t)(end - r->rest.ptr) : r->rest.len};
    r->rest.ptr += line.len + (end != NULL);
    r->rest.len -= line.len + (end != NULL);
    r->line++;
    if (line.len > LINE_MAX_BYTES)
        return report_line(r, TV_CODE(COVER_FORM), NULL, "the line is too long for a bin", "");
    tv_arena_fini(&r->arena);
    *out = tv_json_parse(&r->arena, line, LINE_TREE, &error);
    if (!*out && error.kind == TV_JSON_MEMORY)
        return tv_fail_memory(r->sink);
    if (!tv_json_is(*out, TV_JSON_OBJECT))
        return report_line(r, TV_CODE(COVER_FORM), "each line is an object, as `trivet cover -o` writes it",
                           "the line is no object of JSON", "");
    return TV_OK;
}

static tv_status read_header(reader *r, const char **target)
{
    const tv_json_value *header = NULL;
    *target = NULL;
    TV_TRY(read_line(r, &header));
    *target = tv_json_string(tv_json_get(header, "target"));
    r->instructions = (uint64_t)tv_json_integer(tv_json_get(header, "instructions"));
    if (!*target || tv_json_integer(tv_json_get(header, "coverage")) != VERSION ||
        tv_json_integer(tv_json_get(header, "instructions")) < 0) {
        r->line = 1;
        return report_line(r, TV_CODE(COVER_FORM),
                           "begin it with {\"coverage\":1,\"target\":\"pccx\",\"instructions\":0}",
                           "the file is no coverage of this version", "");
    }
    return TV_OK;
}

/* The bin of that name; files have them in the order of the model. */
static size_t find_bin(const reader *r, const char *group, const char *name)
{
    size_t count = r->cover->bins.count;
    for (size_t i = 0; i < count; i++) {
        size_t at = (r->at + i) % count;
        const tv_cover_bin *bin = &r->cover->bins.data[at];
        if (strcmp(bin->name, name) == 0 && strcmp(bin->group, group) == 0)
            return at;
    }
    return SIZE_MAX;
}

static tv_status read_bin(reader *r, const tv_json_value *value)
{
    const char *group = tv_json_string(tv_json_get(value, "group")), *name = tv_json_string(tv_json_get(value, "bin"));
    const tv_json_value *hits = tv_json_get(value, "hits");
    if (!group || !name || !tv_json_is(hits, TV_JSON_INTEGER) || hits->integer < 0)
        return report_line(r, TV_CODE(COVER_FORM), "write it as {\"group\":\"field\",\"bin\":\"…\",\"hits\":0}",
                           "the line has no group, bin and hits", "");
    size_t at = find_bin(r, group, name);
    if (at == SIZE_MAX)
        return report_line(r, TV_CODE(COVER_FORM), "the file may be of another version of Trivet: make it again",
                           "the model has no bin ", name);
    r->hits[at] += (uint64_t)hits->integer;
    r->at = at + 1;
    return TV_OK;
}

static tv_status read_all(reader *r)
{
    const tv_json_value *value;
    const char *target;
    TV_TRY(read_header(r, &target));
    if (strcmp(target, r->cover->isa->target) != 0)
        return report_line(r, TV_CODE(COVER_USE), NULL, "the coverage is that of ", target);
    for (;;) {
        TV_TRY(read_line(r, &value));
        if (!value)
            return TV_OK;
        TV_TRY(read_bin(r, value));
    }
}

tv_status tv_cover_merge_bytes(tv_cover *c, const char *name, const void *data, size_t size, const tv_diag_sink *sink)
{
    reader r = {.cover = c, .name = name, .rest = {data, size}, .sink = sink};
    r.hits = calloc(c->bins.count + 1, sizeof *r.hits);
    tv_status status = r.hits ? read_all(&r) : tv_fail_memory(sink);
    for (size_t i = 0; i < c->bins.count && status == TV_OK; i++)
        c->bins.data[i].hits += r.hits[i];
    if (status == TV_OK)
        c->instructions += r.instructions;
    tv_arena_fini(&r.arena);
    free(r.hits);
    return status;
}

static tv_status open_coverage(const char *path, const tv_diag_sink *sink, tv_input *out)
{
    TV_TRY(tv_input_open(path, sink, out));
    if (out->size <= FILE_MAX)
        return TV_OK;
    tv_input_close(out);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(COVER_FORM), NULL, "%s is too large for a coverage", path);
}

tv_status tv_cover_merge(tv_cover *c, const char *path, const tv_diag_sink *sink)
{
    tv_input input;
    TV_TRY(open_coverage(path, sink, &input));
    tv_status status = tv_cover_merge_bytes(c, path, input.data, input.size, sink);
    tv_input_close(&input);
    return status;
}

tv_status tv_cover_target_of(const char *path, const tv_diag_sink *sink, char target[16])
{
    tv_input input;
    const char *found;
    TV_TRY(open_coverage(path, sink, &input));
    reader r = {.name = path, .rest = {(const char *)input.data, input.size}, .sink = sink};
    tv_status status = read_header(&r, &found);
    if (status == TV_OK)
        snprintf(target, 16, "%s", found);
    tv_arena_fini(&r.arena);
    tv_input_close(&input);
    return status;
}
