/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_memory.h"

#include <inttypes.h>

/* ---- Options ---- */

bool run_memory_prints(const cli *c)
{
    const char *text;
    for (unsigned i = 0; (text = cli_value_at(c, "dump", i)); i++)
        if (!strchr(text, '='))
            return true;
    return false;
}

/* Finds the declared output `name`, in the last program that has it. */
static bool find_output(const run_memory *m, const char *name, tv_range *range)
{
    tv_output_info info;
    for (unsigned p = m->program_count; p-- > 0;)
        for (uint64_t i = 0; tv_program_output_at(m->programs[p], i, &info); i++)
            for (unsigned s = 0; strcmp(info.name, name) == 0 && tv_machine_space_at(m->machine, s, &range->space); s++)
                if (strcmp(range->space.name, info.space) == 0) {
                    *range =
                        (tv_range){.space = range->space, .addr = info.addr, .count = info.count, .type = info.type};
                    return true;
                }
    return false;
}

/* Parses "RANGE" or "RANGE=FILE"; *path is NULL without a file. */
static tv_status parse_option(const run_memory *m, const char *option, const char *text, tv_range *range,
                              const char **path)
{
    char name[RANGE_TEXT];
    tv_status status = memory_split_option(m->c, option, text, name, path);
    if (status != TV_OK)
        return status;
    if (!strchr(name, ':') && find_output(m, name, range))
        return TV_OK;
    return tv_machine_parse_range(m->machine, m->programs, m->program_count, name, &m->c->sink, range);
}

static tv_status open_dumps(run_memory *m)
{
    const char *text;
    for (; (text = cli_value_at(m->c, "dump", m->dump_count)); m->dump_count++) {
        memory_dump *d = &m->dumps[m->dump_count];
        tv_status status = parse_option(m, "dump", text, &d->range, &d->path);
        if (status == TV_OK && d->path)
            status = memory_dump_check_path(m->c, m->dumps, m->dump_count);
        if (status != TV_OK)
            return status;
    }
    return TV_OK;
}

static tv_status open_comparison(run_memory *m, const char *text, memory_comparison *k)
{
    tv_status status = parse_option(m, "compare", text, &k->range, &k->path);
    if (status != TV_OK)
        return status;
    size_t bytes = (size_t)tv_dtype_bytes(k->range.type, k->range.count);
    k->expected = calloc(bytes + 8, 1);
    k->known = calloc(bytes + 8, 1);
    k->actual = calloc(bytes + 8, 1);
    if (!k->expected || !k->known || !k->actual || writers_init(&k->writers, &k->range) != TV_OK)
        return TV_ERR_MEMORY;
    return tv_memory_load(k->path, &k->range, k->expected, k->known, &m->c->sink);
}

tv_status run_memory_open(run_memory *memory, cli *c, tv_machine *machine, const tv_program *const *programs,
                          unsigned count)
{
    const char *text;
    *memory = (run_memory){.c = c, .machine = machine, .programs = programs, .program_count = count};
    if (cli_has(c, "compare") && cli_has(c, "timing-only")) {
        cli_error(c, CLI_E_CONFLICT, "omit --timing-only", "--timing-only computes no data to compare");
        return TV_ERR_INPUT;
    }
    memory->dumps = calloc(c->argument_count + 1, sizeof *memory->dumps);
    memory->comparisons = calloc(c->argument_count + 1, sizeof *memory->comparisons);
    if (!memory->dumps || !memory->comparisons)
        return TV_ERR_MEMORY;
    tv_status status = open_dumps(memory);
    while (status == TV_OK && (text = cli_value_at(c, "compare", memory->comparison_count)))
        status = open_comparison(memory, text, &memory->comparisons[memory->comparison_count++]);
    return status;
}

void run_memory_free(run_memory *memory)
{
    for (unsigned i = 0; i < memory->comparison_count; i++) {
        memory_comparison *k = &memory->comparisons[i];
        free(k->expected);
        free(k->known);
        free(k->actual);
        writers_fini(&k->writers);
    }
    memory_dumps_free(memory->dumps, memory->dump_count);
    free(memory->comparisons);
    *memory = (run_memory){0};
}

static void note_writers(void *user, const tv_commit *commit)
{
    run_memory *m = user;
    for (unsigned i = 0; i < m->comparison_count; i++)
        writers_note(&m->comparisons[i].writers, commit, m->program);
}

bool run_memory_sink(run_memory *memory, tv_commit_sink *out)
{
    *out = (tv_commit_sink){note_writers, memory};
    return memory->comparison_count != 0;
}

/* ---- Comparisons ---- */

/* The bits of an element that differ, where the file defines them. */
static bool element_differs(const memory_comparison *k, uint64_t i)
{
    unsigned bits = tv_dtype_bits(k->range.type);
    if (bits < 8) {
        uint64_t at = i * bits / 8;
        return (k->actual[at] ^ k->expected[at]) & k->known[at] & ((1u << bits) - 1) << i * bits % 8;
    }
    for (uint64_t b = i * bits / 8; b < (i + 1) * bits / 8; b++)
        if ((k->actual[b] ^ k->expected[b]) & k->known[b])
            return true;
    return false;
}

static void find_differences(memory_comparison *k)
{
    for (uint64_t i = k->range.count; i-- > 0;)
        if (element_differs(k, i)) {
            k->differences++;
            k->first = i;
        }
}

/* The type whose text has the bits of an element of `type` as hexadecimal digits. */
static tv_dtype type_of_bits(tv_dtype type)
{
    switch (tv_dtype_bits(type)) {
    case 16:
        return TV_HEX16;
    case 32:
        return TV_HEX32;
    case 64:
        return TV_HEX64;
    default:
        return tv_dtype_bits(type) < 8 ? type : TV_HEX8;
    }
}

static bool is_wholly_known(const memory_comparison *k)
{
    unsigned bits = tv_dtype_bits(k->range.type);
    for (uint64_t b = k->first * bits; b < (k->first + 1) * bits; b++)
        if (!(k->known[b / 8] >> b % 8 & 1))
            return false;
    return true;
}

enum { VALUE_TEXT = 3 * TV_DTYPE_TEXT };

/* A value as text, of floating point with its bits. */
static void format_value(const memory_comparison *k, const uint8_t *bytes, char text[VALUE_TEXT])
{
    tv_dtype type = k->range.type, hex = type_of_bits(type);
    char value[TV_DTYPE_TEXT], digits[TV_DTYPE_TEXT];
    tv_dtype_text(type, bytes, k->first, value);
    tv_dtype_text(hex, bytes, k->first, digits);
    if (type == TV_F32 || type == TV_F16 || type == TV_BF16)
        snprintf(text, VALUE_TEXT, "%s (%s)", value, digits);
    else
        snprintf(text, VALUE_TEXT, "%s", value);
}

static void format_expected(const memory_comparison *k, char text[VALUE_TEXT])
{
    char value[TV_DTYPE_TEXT], mask[TV_DTYPE_TEXT];
    if (is_wholly_known(k)) {
        format_value(k, k->expected, text);
        return;
    }
    tv_dtype_text(type_of_bits(k->range.type), k->expected, k->first, value);
    tv_dtype_text(type_of_bits(k->range.type), k->known, k->first, mask);
    snprintf(text, VALUE_TEXT, "%s in the bits %s", value, mask);
}

/* "4", or "4 [0][4]" for a range with a shape. */
static void format_element(const memory_comparison *k, char text[RANGE_TEXT])
{
    const tv_range *r = &k->range;
    uint64_t stride = r->count;
    int n = snprintf(text, RANGE_TEXT, "%" PRIu64 "%s", k->first, r->rank > 1 ? " " : "");
    for (unsigned d = 0; d < r->rank && r->rank > 1; d++) {
        stride /= r->dims[d];
        n += snprintf(text + n, (size_t)(RANGE_TEXT - n), "[%" PRIu64 "]", k->first / stride % r->dims[d]);
    }
}

/* Describes what wrote the first element that differs; stores the source location of an instruction. */
static void describe_writer(const run_memory *m, const memory_comparison *k, tv_source_line *at, char text[RANGE_TEXT])
{
    last_writer w = writers_at(&k->writers, k->first);
    const char *file = m->c->files[w.program];
    *at = (tv_source_line){0};
    switch (w.kind) {
    case WRITER_NONE:
        snprintf(text, RANGE_TEXT,
                 k->range.space.queue ? "the space is a queue" : "no instruction wrote it: it has its initial value");
        break;
    case WRITER_INSTRUCTION:
        if (!tv_program_line(m->programs[w.program], w.index, at))
            *at = (tv_source_line){0};
        snprintf(text, RANGE_TEXT, "instruction %" PRIu64 " of %s wrote it last", w.index, CLI_SAFE(file));
        break;
    case WRITER_DATA:
        snprintf(text, RANGE_TEXT, "no instruction wrote it: it is data of %s", CLI_SAFE(file));
        break;
    case WRITER_HOST:
        snprintf(text, RANGE_TEXT, "no instruction wrote it: it was loaded with --load");
        break;
    }
}

static void report_difference(const run_memory *m, const memory_comparison *k)
{
    char range[RANGE_TEXT], element[RANGE_TEXT], writer[RANGE_TEXT], message[4 * RANGE_TEXT];
    char actual[VALUE_TEXT], expected[VALUE_TEXT];
    tv_source_line at;
    memory_format_range(&k->range, range);
    format_element(k, element);
    format_value(k, k->actual, actual);
    format_expected(k, expected);
    describe_writer(m, k, &at, writer);
    snprintf(message, sizeof message,
             "%" PRIu64 " of %" PRIu64 " elements of %s differ from %s; the first one is element %s: %s, expected %s",
             k->differences, k->range.count, range, CLI_SAFE(k->path), element, actual, expected);
    cli_error_at(m->c, CLI_E_DIFFERS, &at, writer, message);
}

static tv_status collect_comparison(const run_memory *m, memory_comparison *k)
{
    char range[RANGE_TEXT];
    size_t bytes = (size_t)tv_dtype_bytes(k->range.type, k->range.count);
    tv_status status = tv_machine_read(m->machine, k->range.space.name, k->range.addr, k->actual, bytes, &m->c->sink);
    if (status != TV_OK)
        return status;
    find_differences(k);
    memory_format_range(&k->range, range);
    if (k->differences)
        report_difference(m, k);
    else if (!m->c->json && !m->c->quiet)
        printf("%s: %" PRIu64 " elements equal %s\n", range, k->range.count, CLI_SAFE(k->path));
    return TV_OK;
}

tv_status run_memory_collect(run_memory *memory, tv_output_group *group)
{
    tv_status status = TV_OK;
    for (unsigned i = 0; i < memory->dump_count && status == TV_OK; i++)
        status = memory_dump_collect(memory->c, memory->machine, &memory->dumps[i], group);
    for (unsigned i = 0; i < memory->comparison_count && status == TV_OK; i++)
        status = collect_comparison(memory, &memory->comparisons[i]);
    return status;
}

bool run_memory_differs(const run_memory *memory)
{
    for (unsigned i = 0; i < memory->comparison_count; i++)
        if (memory->comparisons[i].differences)
            return true;
    return false;
}

/* ---- JSON ---- */

static void write_difference(const run_memory *m, const memory_comparison *k, tv_json_writer *w)
{
    char actual[VALUE_TEXT], expected[VALUE_TEXT], writer[RANGE_TEXT];
    last_writer last = writers_at(&k->writers, k->first);
    tv_source_line at;
    format_value(k, k->actual, actual);
    format_expected(k, expected);
    describe_writer(m, k, &at, writer);
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "element", k->first);
    tv_json_string_member(w, "actual", actual);
    tv_json_string_member(w, "expected", expected);
    if (last.kind == WRITER_INSTRUCTION) {
        tv_json_string_member(w, "program", m->c->files[last.program]);
        tv_json_unsigned_member(w, "index", last.index);
    }
    if (at.file) {
        tv_json_string_member(w, "source", at.file);
        tv_json_unsigned_member(w, "line", at.line);
    }
    tv_json_end_object(w);
}

static void write_comparison(const run_memory *m, const memory_comparison *k, tv_json_writer *w)
{
    tv_json_begin_object(w);
    memory_write_range(&k->range, k->path, w);
    tv_json_unsigned_member(w, "elements", k->range.count);
    tv_json_unsigned_member(w, "differences", k->differences);
    if (k->differences) {
        tv_json_key(w, "first");
        write_difference(m, k, w);
    }
    tv_json_end_object(w);
}

void run_memory_write_json(const run_memory *memory, tv_json_writer *writer)
{
    memory_dumps_write_json(memory->dumps, memory->dump_count, writer);
    if (!memory->comparison_count)
        return;
    tv_json_key(writer, "comparisons");
    tv_json_begin_array(writer);
    for (unsigned i = 0; i < memory->comparison_count; i++)
        write_comparison(memory, &memory->comparisons[i], writer);
    tv_json_end_array(writer);
}
