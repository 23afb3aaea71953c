/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of measurements from CSV files.
 *
 * A record is split into cells, which are unquoted into one buffer; the first record selects the columns, all others
 * are rows. Errors are reported until ERRORS_MAX of them. A quoted cell may have line breaks, so that a record has a
 * first line, which messages name. */
#include "sweep/measurements.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/c_locale.h"
#include "base/diag.h"
#include "base/vec.h"
#include "trivet/file.h"

enum { FILE_LIMIT = 1 << 24, CELLS_MAX = 256, ERRORS_MAX = 20, NUMBER_MAX = 64 };

struct tv_measurements {
    tv_arena arena;
    TV_VEC(tv_measurement) rows;
    const char *name, *paths;
};

typedef enum column { PROGRAM, NAME, CYCLES, TIME, BYTES, COLUMNS } column;

typedef struct reader {
    tv_measurements *table;
    const tv_diag_sink *sink;
    tv_sv rest;
    unsigned line, next_line; /* of the record; after it */
    tv_buf text;              /* the cells of the record, each followed by a NUL */
    size_t cells[CELLS_MAX];  /* their offsets in `text` */
    unsigned count;
    int columns[COLUMNS]; /* index of the cell; -1: the file has no such column */
    double time_unit;     /* in seconds */
    unsigned errors;
    bool failed; /* out of memory */
} reader;

TV_PRINTF(3, 4)
static void reject(reader *r, const char *hint, const char *format, ...)
{
    tv_source_loc loc = {.file = r->table->name, .line = r->line, .index = -1};
    va_list args;
    if (r->errors++ >= ERRORS_MAX)
        return;
    va_start(args, format);
    tv_vreport(r->sink, TV_ERROR, TV_CODE(MEASUREMENTS), &loc, hint, format, args);
    va_end(args);
}

/* ---- Records ---- */

/* Appends the next byte of the input to the cell. */
static void take_byte(reader *r)
{
    r->next_line += r->rest.ptr[0] == '\n';
    tv_buf_append(&r->text, r->rest.ptr, 1);
    r->rest = (tv_sv){r->rest.ptr + 1, r->rest.len - 1};
}

static void skip_byte(reader *r) { r->rest = (tv_sv){r->rest.ptr + 1, r->rest.len - 1}; }

static bool is_at(const reader *r, char c) { return r->rest.len && r->rest.ptr[0] == c; }

/* A cell in quotation marks, of which two stand for one. */
static void read_quoted(reader *r)
{
    skip_byte(r);
    while (r->rest.len) {
        if (!is_at(r, '"')) {
            take_byte(r);
            continue;
        }
        skip_byte(r);
        if (!is_at(r, '"'))
            return;
        take_byte(r);
    }
    reject(r, "end the cell with \"", "a cell in quotation marks does not end");
}

static bool is_end_of_cell(const reader *r)
{
    return r->rest.len == 0 || is_at(r, ',') || is_at(r, '\n') ||
           (is_at(r, '\r') && (r->rest.len == 1 || r->rest.ptr[1] == '\n'));
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static void read_cell(reader *r)
{
    size_t begin = r->text.len;
    while (r->rest.len && is_blank(r->rest.ptr[0]))
        skip_byte(r);
    bool quoted = is_at(r, '"');
    if (quoted)
        read_quoted(r);
    size_t quoted_end = r->text.len;
    while (!is_end_of_cell(r))
        take_byte(r);
    while (!r->text.failed && r->text.len > quoted_end && is_blank((char)r->text.data[r->text.len - 1]))
        r->text.len--;
    if (quoted && r->text.len > quoted_end)
        reject(r, "write \"\" for a quotation mark in a cell", "there is text after a cell in quotation marks");
    if (!r->text.failed && r->text.len > begin && memchr(r->text.data + begin, '\0', r->text.len - begin))
        reject(r, NULL, "a cell has a NUL byte");
    if (r->count < CELLS_MAX)
        r->cells[r->count] = begin;
    r->count++;
    tv_buf_append(&r->text, "", 1);
}

/* Reads the next record that is not empty. False at the end of the file. */
static bool read_record(reader *r)
{
    for (;;) {
        r->line = r->next_line;
        r->text.len = 0;
        r->count = 0;
        if (r->rest.len == 0)
            return false;
        bool comment = is_at(r, '#');
        while (comment && r->rest.len && !is_at(r, '\n'))
            skip_byte(r);
        for (;;) {
            read_cell(r);
            if (!is_at(r, ','))
                break;
            skip_byte(r);
        }
        if (is_at(r, '\r'))
            skip_byte(r);
        if (is_at(r, '\n')) {
            r->next_line++;
            skip_byte(r);
        }
        r->failed = r->text.failed;
        if (r->failed || r->count > 1 || r->text.len > 1)
            return !r->failed;
    }
}

/* Cell of column `c`; "": none. */
static const char *cell_at(const reader *r, column c)
{
    int i = r->columns[c];
    return i >= 0 && (unsigned)i < r->count ? (const char *)r->text.data + r->cells[i] : "";
}

/* ---- Columns ---- */

static const struct {
    const char *name;
    column column;
    double unit;
} headings[] = {{"program", PROGRAM, 0}, {"name", NAME, 0},       {"cycles", CYCLES, 0},   {"time", TIME, 1},
                {"time_ms", TIME, 1e-3}, {"time_us", TIME, 1e-6}, {"time_ns", TIME, 1e-9}, {"bytes", BYTES, 0}};

static void set_column(reader *r, column c, unsigned cell, const char *heading)
{
    if (r->columns[c] >= 0)
        reject(r, "remove one of the columns", "column '%.60s' is given twice", heading);
    r->columns[c] = (int)cell;
}

static void read_heading(reader *r, unsigned cell)
{
    const char *text = (const char *)r->text.data + r->cells[cell];
    if (strncmp(text, "bytes:", 6) == 0) {
        set_column(r, BYTES, cell, text);
        r->table->paths = tv_arena_str(&r->table->arena, tv_sv_of(text + 6));
        r->failed |= !r->table->paths;
        return;
    }
    for (size_t i = 0; i < TV_COUNTOF(headings); i++)
        if (tv_sv_is_nocase(tv_sv_of(text), headings[i].name)) {
            set_column(r, headings[i].column, cell, text);
            if (headings[i].column == TIME)
                r->time_unit = headings[i].unit;
        }
}

static void read_headings(reader *r)
{
    for (unsigned c = 0; c < COLUMNS; c++)
        r->columns[c] = -1;
    if (r->count > CELLS_MAX) {
        reject(r, NULL, "the table has %u columns (limit %d)", r->count, CELLS_MAX);
        return;
    }
    for (unsigned i = 0; i < r->count; i++)
        read_heading(r, i);
    const char *hint = r->count == 1 && strchr((const char *)r->text.data, ';')
                           ? "separate the columns by commas"
                           : "the first row names the columns, for example program,cycles,bytes";
    if (r->columns[PROGRAM] < 0)
        reject(r, hint, "there is no column 'program'");
    else if (r->columns[CYCLES] < 0 && r->columns[TIME] < 0)
        reject(r, hint, "there is neither a column 'cycles' nor a column 'time'");
}

/* ---- Rows ---- */

static bool parse_number(const char *text, double *out)
{
    char *end;
    size_t n = strlen(text);
    if (n >= NUMBER_MAX || strspn(text, "0123456789.eE+-") != n)
        return false;
    *out = strtod(text, &end);
    return n > 0 && *end == '\0' && isfinite(*out);
}

/* The positive number of column `c` times `unit`; NaN if the cell is empty. */
static double read_number(reader *r, column c, double unit)
{
    static const char *const names[COLUMNS] = {[CYCLES] = "cycles", [TIME] = "time", [BYTES] = "bytes"};
    const char *text = cell_at(r, c);
    double value;
    if (!*text)
        return NAN;
    if (!parse_number(text, &value)) {
        reject(r, "write it like 1500, 0.25 or 1.2e6", "%s: '%.60s' is not a number", names[c], text);
        return NAN;
    }
    if (!(value * unit > 0)) {
        reject(r, "leave the cell empty if it was not measured", "%s: %.60s is not above 0", names[c], text);
        return NAN;
    }
    return value * unit;
}

static void read_row(reader *r)
{
    const char *program = cell_at(r, PROGRAM), *name = cell_at(r, NAME);
    unsigned errors = r->errors;
    tv_arena *arena = &r->table->arena;
    tv_measurement row = {.cycles = read_number(r, CYCLES, 1),
                          .seconds = read_number(r, TIME, r->time_unit),
                          .bytes = read_number(r, BYTES, 1),
                          .line = r->line};
    if (r->count > CELLS_MAX)
        reject(r, NULL, "the row has %u cells (limit %d)", r->count, CELLS_MAX);
    if (!*program)
        reject(r, NULL, "the row names no program");
    if (errors == r->errors && isnan(row.cycles) && isnan(row.seconds))
        reject(r, NULL, "the row has neither cycles nor a time");
    if (r->table->rows.count >= TV_MEASUREMENTS_MAX && r->errors < ERRORS_MAX) {
        reject(r, NULL, "the table has more than %d rows", TV_MEASUREMENTS_MAX);
        r->errors = ERRORS_MAX;
    }
    if (r->errors)
        return;
    if (!isnan(row.cycles))
        row.seconds = NAN;
    row.program = tv_arena_str(arena, tv_sv_of(program));
    row.name = *name ? tv_arena_str(arena, tv_sv_of(name)) : row.program;
    r->failed = !row.program || !row.name || !TV_VEC_PUSH(&r->table->rows, row);
}

static tv_status read_table(reader *r)
{
    if (r->rest.len >= 3 && memcmp(r->rest.ptr, "\xEF\xBB\xBF", 3) == 0)
        r->rest = (tv_sv){r->rest.ptr + 3, r->rest.len - 3};
    if (!r->failed && read_record(r))
        read_headings(r);
    else if (!r->failed)
        reject(r, "the first row names the columns, for example program,cycles,bytes", "the table is empty");
    bool usable = r->errors == 0;
    while (usable && !r->failed && r->errors < ERRORS_MAX && read_record(r))
        read_row(r);
    if (!r->failed && r->errors == 0 && r->table->rows.count == 0)
        reject(r, NULL, "the table has no rows");
    if (r->failed)
        return tv_fail_memory(r->sink);
    return r->errors ? TV_ERR_INPUT : TV_OK;
}

tv_status tv_measurements_parse(const char *name, const void *bytes, size_t size, const tv_diag_sink *sink,
                                tv_measurements **out)
{
    tv_measurements *table = calloc(1, sizeof *table);
    reader *r = calloc(1, sizeof *r);
    if (!table || !r) {
        free(table);
        free(r);
        return tv_fail_memory(sink);
    }
    *r = (reader){.table = table, .sink = sink, .rest = {bytes, size}, .line = 1, .next_line = 1};
    table->name = tv_arena_str(&table->arena, tv_sv_of(name));
    r->failed = !table->name;
    tv_c_locale locale = tv_c_locale_begin();
    tv_status status = size > FILE_LIMIT
                           ? tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), NULL, "'%s' has more than 16 MiB", name)
                           : read_table(r);
    tv_c_locale_end(locale);
    tv_buf_fini(&r->text);
    free(r);
    if (status == TV_OK)
        *out = table;
    else
        tv_measurements_free(table);
    return status;
}

tv_status tv_measurements_open(const char *path, const tv_diag_sink *sink, tv_measurements **out)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_measurements_parse(path, input.data, input.size, sink, out);
    tv_input_close(&input);
    return status;
}

/* ---- Access ---- */

void tv_measurements_free(tv_measurements *measurements)
{
    if (!measurements)
        return;
    TV_VEC_FINI(&measurements->rows);
    tv_arena_fini(&measurements->arena);
    free(measurements);
}

int tv_measurements_at(const tv_measurements *measurements, uint64_t i, tv_measurement *out)
{
    if (i >= measurements->rows.count)
        return 0;
    *out = measurements->rows.data[i];
    return 1;
}

const char *tv_measurements_name(const tv_measurements *measurements) { return measurements->name; }

const char *tv_measurements_paths(const tv_measurements *measurements) { return measurements->paths; }

uint64_t tv_measurements_count(const tv_measurements *measurements) { return measurements->rows.count; }
