/* SPDX-License-Identifier: Apache-2.0 */
/* Files of results: a line for each, which has all columns of the database. */
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/json_value.h"
#include "base/json_writer.h"
#include "sweep/store.h"
#include "trivet/file.h"

enum { LINE_LIMIT = 1 << 24 };

static void write_text(tv_json_writer *w, const char *key, const char *text)
{
    tv_json_key(w, key);
    tv_json_write_string(w, text);
}

static void write_count(tv_json_writer *w, const char *key, uint64_t value)
{
    tv_json_key(w, key);
    tv_json_write_unsigned(w, value);
}

static void write_real(tv_json_writer *w, const char *key, double value)
{
    enum { DIGITS = 17 };
    tv_json_key(w, key);
    tv_json_write_real(w, value, DIGITS);
}

tv_status tv_result_write(FILE *file, const store_row *row, const sweep_result *r)
{
    tv_json_writer *w = tv_json_writer_new(file, TV_JSON_COMPACT);
    if (!w)
        return TV_ERR_MEMORY;
    tv_json_begin_object(w);
    write_text(w, "key", row->key);
    write_text(w, "version", tv_version());
    write_text(w, "target", row->target);
    write_text(w, "workload", row->workload);
    write_text(w, "configuration", row->configuration);
    write_text(w, "outcome", tv_outcome_name(r->outcome));
    write_text(w, "reason", r->reason);
    write_count(w, "cycles", r->cycles);
    write_real(w, "clock_hz", r->clock_hz);
    write_count(w, "bytes", r->bytes);
    write_count(w, "macs", r->macs);
    write_count(w, "instructions", r->instructions);
    write_count(w, "tokens", r->tokens);
    write_count(w, "token_cycles", r->token_cycles);
    write_text(w, "bound_by", r->bound_by);
    write_real(w, "energy_low", r->energy_low);
    write_real(w, "energy", r->energy);
    write_real(w, "energy_high", r->energy_high);
    if (r->stats)
        write_text(w, "stats", r->stats);
    tv_json_end_object(w);
    bool good = tv_json_writer_finish(w);
    tv_json_writer_free(w);
    return good ? TV_OK : TV_ERR_IO;
}

typedef struct line_reader {
    sweep_store *store;
    const char *path;
    unsigned line;
    const tv_diag_sink *sink;
} line_reader;

static tv_status reject_line(const line_reader *r, const char *what)
{
    tv_source_loc loc = {.file = r->path, .line = r->line, .index = -1};
    tv_report(r->sink, TV_ERROR, TV_CODE(SWEEP_STORE), &loc, "write the file again with trivet sweep --slice", "%s",
              what);
    return TV_ERR_INPUT;
}

static uint64_t count_of(const tv_json_value *object, const char *key)
{
    int64_t value = tv_json_integer(tv_json_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

static bool copy_member(const tv_json_value *object, const char *key, char *to, size_t size)
{
    const char *text = tv_json_string(tv_json_get(object, key));
    if (text)
        snprintf(to, size, "%s", text);
    return text != NULL;
}

static bool read_outcome(const tv_json_value *object, sweep_outcome *out)
{
    const char *name = tv_json_string(tv_json_get(object, "outcome"));
    for (unsigned i = 0; name && i < OUTCOMES; i++)
        if (strcmp(name, tv_outcome_name((sweep_outcome)i)) == 0) {
            *out = (sweep_outcome)i;
            return true;
        }
    return false;
}

/* Adds the result of one line. */
static tv_status add_line(line_reader *r, const tv_json_value *object, uint64_t *count)
{
    bool found;
    store_row row = {.target = tv_json_string(tv_json_get(object, "target")),
                     .workload = tv_json_string(tv_json_get(object, "workload")),
                     .configuration = tv_json_string(tv_json_get(object, "configuration"))};
    sweep_result known, result = {.cycles = count_of(object, "cycles"),
                                  .bytes = count_of(object, "bytes"),
                                  .macs = count_of(object, "macs"),
                                  .instructions = count_of(object, "instructions"),
                                  .tokens = count_of(object, "tokens"),
                                  .token_cycles = count_of(object, "token_cycles"),
                                  .clock_hz = tv_json_number(tv_json_get(object, "clock_hz")),
                                  .energy_low = tv_json_number(tv_json_get(object, "energy_low")),
                                  .energy = tv_json_number(tv_json_get(object, "energy")),
                                  .energy_high = tv_json_number(tv_json_get(object, "energy_high"))};
    const char *version = tv_json_string(tv_json_get(object, "version"));
    const char *stats = tv_json_string(tv_json_get(object, "stats"));
    if (!version || !row.target || !row.workload || !row.configuration || !read_outcome(object, &result.outcome) ||
        !copy_member(object, "key", row.key, sizeof row.key) || strlen(row.key) != STORE_KEY - 1 ||
        !copy_member(object, "reason", result.reason, sizeof result.reason) ||
        !copy_member(object, "bound_by", result.bound_by, sizeof result.bound_by))
        return reject_line(r, "the line is not a result");
    if (strcmp(version, tv_version()) != 0)
        return reject_line(r, "the result is of another version");
    TV_TRY(tv_store_find(r->store, row.key, r->sink, &found, &known));
    if (found) {
        free(known.stats);
        return TV_OK;
    }
    result.stats = stats ? strdup(stats) : NULL;
    if (stats && !result.stats)
        return tv_fail_memory(r->sink);
    tv_status status = tv_store_add(r->store, &row, &result, r->sink);
    free(result.stats);
    ++*count;
    return status;
}

tv_status tv_store_collect(sweep_store *store, const char *path, const tv_diag_sink *sink, uint64_t *count)
{
    line_reader r = {.store = store, .path = path, .sink = sink};
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_sv rest = {(const char *)input.data, input.size};
    tv_status status = TV_OK;
    *count = 0;
    while (rest.len && status == TV_OK) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        tv_sv line = {rest.ptr, end ? (size_t)(end - rest.ptr) : rest.len};
        size_t step = line.len + (end != NULL);
        rest = (tv_sv){rest.ptr + step, rest.len - step};
        r.line++;
        tv_arena arena = {0};
        tv_json_error error;
        const tv_json_value *object = tv_json_parse(&arena, line, LINE_LIMIT, &error);
        if (object)
            status = add_line(&r, object, count);
        else
            status = error.kind == TV_JSON_MEMORY ? tv_fail_memory(sink) : reject_line(&r, error.message);
        tv_arena_fini(&arena);
    }
    tv_input_close(&input);
    return status;
}
