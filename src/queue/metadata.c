/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata of a queue: version, initial contents of memories, KV layouts, outputs. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json_value.h"
#include "queue/queue.h"
#include "trivet/file.h"

enum {
    LIST_MAX = 4096,   /* KV layouts, outputs */
    TREE_MAX = 1 << 30 /* bytes of the parsed metadata, whose text is bounded by the reader */
};

typedef struct metadata {
    tv_program *program;
    cmdq_queue *queue;
    const tv_diag_sink *sink;
    unsigned line, column; /* of the first byte */
    unsigned errors;
    uint64_t counted, line_start; /* the last location: its byte, and the first one of its line */
    unsigned counted_lines;       /* before it */
} metadata;

/* The location of the token that ends at byte `end` of the metadata: a string, a bracket or another scalar. */
static tv_source_loc locate_token(metadata *m, uint64_t end)
{
    const char *text = m->queue->metadata.ptr;
    uint64_t at = end ? end - 1 : 0, slashes;
    if (text[at] == '"') {
        do {
            for (at--; at && text[at] != '"'; at--)
                continue;
            for (slashes = 0; slashes < at && text[at - 1 - slashes] == '\\'; slashes++)
                continue;
        } while (slashes % 2);
    } else if (text[at] != '{' && text[at] != '[') {
        while (at && (isalnum((unsigned char)text[at - 1]) || strchr("+-.", text[at - 1])))
            at--;
    }
    if (at < m->counted) /* elements are mostly located in order */
        m->counted = m->line_start = m->counted_lines = 0;
    for (const char *p = text + m->counted; (p = memchr(p, '\n', (size_t)(text + at - p))); m->counted_lines++)
        m->line_start = (uint64_t)(++p - text);
    m->counted = at;
    return (tv_source_loc){.file = m->program->files[0],
                           .line = m->line + m->counted_lines,
                           .column = (unsigned)(at - m->line_start) + (m->counted_lines ? 1 : m->column),
                           .index = -1};
}

/* Reports an error at `at`, or where the metadata begin if it is NULL. */
static void report_error(metadata *m, const tv_json_value *at, cmdq_code code, const char *hint, const char *format,
                         ...) TV_PRINTF(5, 6);

static void report_error(metadata *m, const tv_json_value *at, cmdq_code code, const char *hint, const char *format,
                         ...)
{
    enum { ERRORS_MAX = 100 };
    if (m->errors++ >= ERRORS_MAX)
        return; /* the reader reports that there are more */
    tv_source_loc loc = locate_token(m, at ? at->end : 1);
    char text[TV_DIAG_MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tv_report(m->sink, TV_ERROR, &cmdq_codes[code], &loc, hint, "metadata: %s", text);
}

static void report_no_memory(metadata *m)
{
    m->errors++;
    if (!m->queue->out_of_memory)
        tv_fail_memory(m->sink);
    m->queue->out_of_memory = true;
}

/* Reports keys of `object` that are not among `known`, which ends with NULL. Returns false if it is no object. */
static bool check_keys(metadata *m, const tv_json_value *object, const char *what, const char *const *known)
{
    if (!tv_json_is(object, TV_JSON_OBJECT)) {
        report_error(m, object, CMDQ_CODE_METADATA, NULL, "%s is an object", what);
        return false;
    }
    for (const tv_json_value *member = tv_json_first(object); member; member = member->next) {
        const char *key = member->key;
        unsigned i = 0;
        tv_nearest nearest = tv_nearest_to(tv_sv_of(key));
        for (; known[i] && strcmp(known[i], key) != 0; i++)
            tv_nearest_offer(&nearest, known[i]);
        if (known[i] || strcmp(key, "debug") == 0 || strncmp(key, "reserved_", 9) == 0)
            continue;
        char hint[80];
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest.best ? nearest.best : "");
        report_error(m, member, CMDQ_CODE_METADATA, nearest.best ? hint : "put notes into 'debug'",
                     "%s has no field '%.60s'", what, key);
    }
    return true;
}

/* A required integer of `object` from 0 to `max`; 0 after an error. */
static uint64_t read_integer(metadata *m, const tv_json_value *object, const char *what, const char *key, uint64_t max)
{
    const tv_json_value *value = tv_json_get(object, key);
    int64_t n = tv_json_integer(value);
    if (!tv_json_is(value, TV_JSON_INTEGER) || n < 0 || (uint64_t)n > max) {
        report_error(m, value ? value : object, CMDQ_CODE_METADATA, NULL, "%s takes an integer '%s' from 0 to %" PRIu64,
                     what, key, max);
        return 0;
    }
    return (uint64_t)n;
}

/* ---- Version ---- */

static void read_version(metadata *m, const tv_json_value *root)
{
    const tv_json_value *version = tv_json_get(root, "version");
    const char *text = tv_json_string(version);
    size_t digits = text ? strspn(text, "0123456789") : 0; /* sscanf takes signs and spaces, too */
    unsigned major, minor = 0;
    char rest;
    if (!version) {
        report_error(m, NULL, CMDQ_CODE_VERSION, "\"version\": \"1.3\"", "the version is missing");
    } else if (!text) {
        char hint[80] = "\"version\": \"1.3\"";
        if (tv_json_is_number(version))
            snprintf(hint, sizeof hint, "put it into quotation marks: \"version\": \"%.20s\"", version->text);
        report_error(m, version, CMDQ_CODE_VERSION, hint, "the version is a string, not %s",
                     tv_json_is_number(version) ? "a number" : "another value");
    } else if (!digits || text[digits] != '.' || !strspn(text + digits + 1, "0123456789") ||
               sscanf(text, "%3u.%3u%c", &major, &minor, &rest) != 2) {
        report_error(m, version, CMDQ_CODE_VERSION, "\"version\": \"1.3\"", "'%.40s' is not a version", text);
    } else if (major != CMDQ_VERSION_MAJOR) {
        report_error(m, version, CMDQ_CODE_VERSION, NULL, "version %u.%u is not understood; this is version %d.%d",
                     major, minor, CMDQ_VERSION_MAJOR, CMDQ_VERSION_MINOR);
    } else if (minor > CMDQ_VERSION_MINOR) {
        tv_source_loc loc = locate_token(m, version->end);
        tv_report(m->sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_NEWER], &loc, NULL,
                  "the file is of version %u.%u, this is version %d.%d", major, minor, CMDQ_VERSION_MAJOR,
                  CMDQ_VERSION_MINOR);
    }
    m->queue->minor = minor;
}

/* ---- Initial contents ---- */

static int hex_digit_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool read_init_hex(metadata *m, const char *what, const tv_json_value *value, cmdq_init *init)
{
    const char *text = value->text;
    size_t n = strlen(text);
    uint8_t *bytes = tv_arena_alloc(&m->queue->arena, n / 2 + 1);
    if (!bytes) {
        report_no_memory(m);
        return false;
    }
    for (size_t i = 0; i + 1 < n || n % 2; i += 2) {
        int high = hex_digit_value(text[i]), low = i + 1 < n ? hex_digit_value(text[i + 1]) : -1;
        if (high < 0 || low < 0) {
            report_error(m, value, CMDQ_CODE_METADATA, "two hexadecimal digits for each byte",
                         "%s: 'hex' is wrong at digit %zu", what, i);
            return false;
        }
        bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    init->bytes = bytes;
    init->size = n / 2;
    return true;
}

/* The real path of a file, which must be in the queue's folder or below. Returns NULL after an error. The caller frees
 * it. */
static char *path_inside(metadata *m, const char *what, const tv_json_value *value)
{
    const char *name = value->text;
    const char *queue_path = m->program->files[0], *slash = strrchr(queue_path, '/');
    tv_buf path = {0};
    char *folder = NULL, *real = NULL;
    if (name[0] != '/') {
        tv_buf_printf(&path, "%.*s", slash ? (int)(slash - queue_path) : 1, slash ? queue_path : ".");
        if (slash == queue_path)
            tv_buf_str(&path, "/");
        folder = realpath(tv_buf_cstr(&path), NULL);
        bool no_memory = !folder && errno == ENOMEM;
        tv_buf_printf(&path, "/%s", name);
        real = realpath(tv_buf_cstr(&path), NULL);
        if (no_memory || path.failed || (!real && errno == ENOMEM)) {
            report_no_memory(m);
            tv_buf_fini(&path);
            free(folder);
            free(real);
            return NULL;
        }
    }
    tv_buf_fini(&path);
    size_t n = folder ? strlen(folder) : 0;
    n -= n == 1; /* the root */
    bool inside = folder && real && strncmp(real, folder, n) == 0 && real[n] == '/';
    if (name[0] != '/' && !real && errno == ENOENT)
        report_error(m, value, CMDQ_CODE_METADATA, "paths are relative to the queue's folder",
                     "%s: there is no file '%.200s'", what, name);
    else if (!inside)
        report_error(m, value, CMDQ_CODE_PATH, "copy the file beside the queue",
                     "%s: '%.200s' is not in the queue's folder", what, name);
    struct stat st = {0};
    if (inside && stat(real, &st) != 0) { /* although it has just been found */
        m->queue->host_failed = errno != ENOENT && errno != EACCES;
        tv_report(m->sink, TV_ERROR, TV_CODE(FILE_OPEN), &TV_NO_SOURCE_LOC, NULL, "cannot read '%s': %s", real,
                  strerror(errno));
        m->errors++;
        inside = false;
    } else if (inside && !S_ISREG(st.st_mode)) {
        report_error(m, value, CMDQ_CODE_PATH, NULL, "%s: '%.200s' is not a regular file", what, name);
        inside = false;
    }
    free(folder);
    if (!inside) {
        free(real);
        return NULL;
    }
    return real;
}

static bool read_init_file(metadata *m, const char *what, const tv_json_value *value, cmdq_init *init)
{
    char *path = path_inside(m, what, value);
    tv_input input;
    if (!path)
        return false;
    tv_status status = tv_input_open(path, m->sink, &input);
    if (status != TV_OK) {
        free(path);
        m->queue->out_of_memory |= status == TV_ERR_MEMORY;
        m->queue->host_failed |= status == TV_ERR_IO;
        m->errors++;
        return false;
    }
    m->queue->files.failed |= !tv_program_note_input(m->program, path);
    free(path);
    if (!TV_VEC_PUSH(&m->queue->files, input)) {
        tv_input_close(&input);
        return false; /* cmdq_read_metadata reports it */
    }
    init->bytes = input.data;
    init->size = input.size;
    return true;
}

static cmdq_location location_of(metadata *m, const tv_json_value *value)
{
    tv_source_loc loc = locate_token(m, value->end);
    return (cmdq_location){loc.line, loc.column};
}

static void read_init(metadata *m, const tv_json_value *object, bool spm)
{
    static const char *const spm_keys[] = {"bank", "offset", "file", "hex", "zero", "bytes", NULL};
    static const char *const dram_keys[] = {"addr", "file", "hex", "zero", "bytes", NULL};
    const char *what = spm ? "spm_init" : "dram_init";
    if (!check_keys(m, object, what, spm ? spm_keys : dram_keys))
        return;
    const tv_json_value *file = tv_json_get(object, "file"), *hex = tv_json_get(object, "hex"),
                        *zero = tv_json_get(object, "zero");
    const tv_json_value *bytes = tv_json_get(object, "bytes");
    cmdq_init init = {.spm = spm, .loc = location_of(m, object)};
    init.bank = spm ? (uint32_t)read_integer(m, object, what, "bank", UINT32_MAX) : 0;
    init.addr = read_integer(m, object, what, spm ? "offset" : "addr", INT64_MAX);
    uint64_t limit = bytes ? read_integer(m, object, what, "bytes", INT64_MAX) : 0;
    if (!!file + !!hex + !!zero != 1 || (file && !tv_json_is(file, TV_JSON_STRING)) ||
        (hex && !tv_json_is(hex, TV_JSON_STRING)) || (zero && !tv_json_is_true(zero)))
        report_error(m, object, CMDQ_CODE_METADATA, "\"file\": \"weights.bin\", \"hex\": \"00ff\" or \"zero\": true",
                     "%s takes one of 'file', 'hex' and 'zero'", what);
    else if (zero && !bytes)
        report_error(m, zero, CMDQ_CODE_METADATA, NULL, "%s: 'zero' needs 'bytes'", what);
    else if (zero)
        init.size = limit;
    else if (!(file ? read_init_file(m, what, file, &init) : read_init_hex(m, what, hex, &init)))
        return;
    if (!zero && bytes && limit > init.size)
        report_error(m, bytes, CMDQ_CODE_METADATA, NULL, "%s: 'bytes' is %" PRIu64 ", but there are %" PRIu64, what,
                     limit, init.size);
    if (bytes && limit < init.size)
        init.size = limit;
    if (init.size)
        (void)TV_VEC_PUSH(&m->queue->inits, init);
}

/* ---- KV layouts and outputs ---- */

static void read_layout(metadata *m, const tv_json_value *object)
{
    static const char *const keys[] = {"id", "k_base", "v_base", "t_max", "d_head", "heads", NULL};
    if (!check_keys(m, object, "a kv_layout", keys))
        return;
    cmdq_kv_layout layout = {read_integer(m, object, "a kv_layout", "id", UINT32_MAX),
                             read_integer(m, object, "a kv_layout", "k_base", INT64_MAX),
                             read_integer(m, object, "a kv_layout", "v_base", INT64_MAX),
                             read_integer(m, object, "a kv_layout", "t_max", 1 << 24),
                             read_integer(m, object, "a kv_layout", "d_head", 1 << 24),
                             read_integer(m, object, "a kv_layout", "heads", 1 << 24)};
    if (m->queue->kv_layouts.count >= LIST_MAX) {
        report_error(m, object, CMDQ_CODE_LIMIT, NULL, "there are more than %d KV layouts", LIST_MAX);
        return;
    }
    for (size_t i = 0; i < m->queue->kv_layouts.count; i++)
        if (m->queue->kv_layouts.data[i].id == layout.id)
            report_error(m, object, CMDQ_CODE_METADATA, NULL, "two kv_layouts have the id %" PRIu64, layout.id);
    (void)TV_VEC_PUSH(&m->queue->kv_layouts, layout);
}

static void add_output(metadata *m, const tv_output_info *output, const tv_json_value *object)
{
    m->program->outputs[m->program->output_count++] = *output;
    (void)TV_VEC_PUSH(&m->queue->output_locs, location_of(m, object));
}

/* A named descriptor of kv_range_desc. */
static void read_range(metadata *m, const tv_json_value *object)
{
    static const char *const keys[] = {"name", "t_start", "t_len", "d_start", "d_len", NULL};
    if (!check_keys(m, object, "a kv_range", keys))
        return;
    const char *name = tv_json_string(tv_json_get(object, "name"));
    cmdq_kv_range range = {.name = name && *name ? tv_arena_str(&m->queue->arena, tv_sv_of(name)) : "",
                           .t_start = read_integer(m, object, "a kv_range", "t_start", 1 << 24),
                           .t_len = read_integer(m, object, "a kv_range", "t_len", 1 << 24)};
    if (tv_json_get(object, "d_start"))
        range.d_start = read_integer(m, object, "a kv_range", "d_start", 1 << 24);
    if (tv_json_get(object, "d_len"))
        range.d_len = read_integer(m, object, "a kv_range", "d_len", 1 << 24);
    if (!range.name)
        report_no_memory(m);
    else if (!*range.name)
        report_error(m, object, CMDQ_CODE_METADATA, "kv_range_desc refers to it", "a kv_range takes a 'name'");
    else if (!range.t_len || (tv_json_get(object, "d_len") && !range.d_len))
        report_error(m, object, CMDQ_CODE_METADATA, NULL, "kv_range '%.60s' is empty", name);
    for (size_t i = 0; range.name && i < m->queue->kv_ranges.count; i++)
        if (strcmp(m->queue->kv_ranges.data[i].name, range.name) == 0)
            report_error(m, object, CMDQ_CODE_METADATA, NULL, "two kv_ranges are called '%.60s'", range.name);
    if (m->queue->kv_ranges.count >= LIST_MAX)
        report_error(m, object, CMDQ_CODE_LIMIT, NULL, "there are more than %d KV ranges", LIST_MAX);
    else if (range.name)
        (void)TV_VEC_PUSH(&m->queue->kv_ranges, range);
}

static void read_output(metadata *m, const tv_json_value *object)
{
    static const char *const keys[] = {"name", "dram_addr", "num_elements", "qbits", NULL};
    if (!check_keys(m, object, "an output", keys))
        return;
    const char *name = tv_json_string(tv_json_get(object, "name"));
    uint64_t qbits = read_integer(m, object, "an output", "qbits", 32);
    tv_output_info out = {.space = "dram",
                          .addr = read_integer(m, object, "an output", "dram_addr", INT64_MAX),
                          .count = read_integer(m, object, "an output", "num_elements", UINT32_MAX),
                          .type = qbits == 2    ? TV_I2
                                  : qbits == 4  ? TV_I4
                                  : qbits == 8  ? TV_S8
                                  : qbits == 16 ? TV_F16
                                                : TV_F32};
    if (qbits != 2 && qbits != 4 && qbits != 8 && qbits != 16 && qbits != 32)
        report_error(m, tv_json_get(object, "qbits"), CMDQ_CODE_METADATA, "2, 4, 8, 16 or 32",
                     "an output cannot have qbits %" PRIu64, qbits);
    if (!name || !*name || strchr(name, '/'))
        report_error(m, object, CMDQ_CODE_METADATA, "it may become a file's name",
                     "an output takes a 'name' without '/'");
    else if (!(out.name = tv_arena_str(&m->program->arena, tv_sv_of(name))))
        report_no_memory(m);
    for (uint64_t i = 0; name && i < m->program->output_count; i++)
        if (m->program->outputs[i].name && strcmp(m->program->outputs[i].name, name) == 0)
            report_error(m, object, CMDQ_CODE_METADATA, NULL, "two outputs are called '%.60s'", name);
    if (m->program->output_count >= LIST_MAX)
        report_error(m, object, CMDQ_CODE_LIMIT, NULL, "there are more than %d outputs", LIST_MAX);
    else
        add_output(m, &out, object);
}

/* Calls `read` for each element of the list `key`. */
static void read_list(metadata *m, const tv_json_value *root, const char *key,
                      void (*read)(metadata *m, const tv_json_value *object))
{
    const tv_json_value *list = tv_json_get(root, key);
    if (list && !tv_json_is(list, TV_JSON_ARRAY))
        report_error(m, list, CMDQ_CODE_METADATA, NULL, "'%s' is a list", key);
    for (const tv_json_value *element = tv_json_first(list); element; element = element->next)
        read(m, element);
}

static void read_spm(metadata *m, const tv_json_value *object) { read_init(m, object, true); }

static void read_dram(metadata *m, const tv_json_value *object) { read_init(m, object, false); }

/* Collects the keys that the published format does not have. */
static void list_additions(metadata *m, const tv_json_value *root)
{
    static const char *const additions[] = {"continues", "spm_init", "dram_init", "kv_layouts", "kv_ranges", "outputs"};
    for (const tv_json_value *member = tv_json_first(root); member; member = member->next)
        for (unsigned i = 0; i < TV_COUNTOF(additions); i++)
            if (strcmp(member->key, additions[i]) == 0)
                (void)TV_VEC_PUSH(&m->queue->metadata_additions,
                                  (cmdq_metadata_key){additions[i], location_of(m, member)});
}

unsigned cmdq_read_metadata(tv_program *program, cmdq_queue *queue, unsigned line, unsigned column,
                            const tv_diag_sink *sink)
{
    static const char *const keys[] = {"version",   "graph_name", "generated_by", "created_at", "continues", "spm_init",
                                       "dram_init", "kv_layouts", "kv_ranges",    "outputs",    NULL};
    metadata m = {.program = program, .queue = queue, .sink = sink, .line = line, .column = column};
    tv_json_error error;
    tv_arena arena = {0};
    const tv_json_value *root = tv_json_parse(&arena, queue->metadata, TREE_MAX, &error);
    if (!root) {
        tv_json_value at = {.end = tv_min_u64(error.offset, queue->metadata.len)};
        if (error.kind == TV_JSON_MEMORY)
            report_no_memory(&m);
        else
            report_error(&m, &at, CMDQ_CODE_METADATA, NULL, "%s", error.message);
        tv_arena_fini(&arena);
        return m.errors;
    }
    size_t outputs = tv_json_count(tv_json_get(root, "outputs"));
    program->outputs = tv_arena_alloc(&program->arena, (outputs + 1) * sizeof *program->outputs);
    if (!program->outputs) {
        report_no_memory(&m);
    } else if (check_keys(&m, root, "the file", keys)) {
        static const char *const texts[] = {"graph_name", "generated_by", "created_at"};
        for (unsigned i = 0; i < TV_COUNTOF(texts); i++) {
            const tv_json_value *text = tv_json_get(root, texts[i]);
            if (text && !tv_json_string(text) && !tv_json_is(text, TV_JSON_NULL))
                report_error(&m, text, CMDQ_CODE_METADATA, NULL, "'%s' is a string", texts[i]);
        }
        const char *name = tv_json_string(tv_json_get(root, "graph_name"));
        queue->graph_name = name ? tv_arena_str(&program->arena, tv_sv_of(name)) : NULL;
        if (name && !queue->graph_name)
            report_no_memory(&m);
        const tv_json_value *continues = tv_json_get(root, "continues");
        if (continues && !tv_json_is(continues, TV_JSON_BOOLEAN))
            report_error(&m, continues, CMDQ_CODE_METADATA, NULL, "'continues' is true or false");
        queue->continues = tv_json_is_true(continues);
        read_version(&m, root);
        list_additions(&m, root);
        read_list(&m, root, "spm_init", read_spm);
        read_list(&m, root, "dram_init", read_dram);
        read_list(&m, root, "kv_layouts", read_layout);
        read_list(&m, root, "kv_ranges", read_range);
        read_list(&m, root, "outputs", read_output);
    }
    tv_arena_fini(&arena);
    if (queue->inits.failed || queue->kv_ranges.failed || queue->output_locs.failed ||
        queue->metadata_additions.failed || queue->kv_layouts.failed || queue->files.failed)
        report_no_memory(&m);
    return m.errors;
}
