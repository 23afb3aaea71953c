/* SPDX-License-Identifier: Apache-2.0 */
/* The report's file: the page that the build made, and in it the data, deflated and in base64.
 *
 * The data begin with the length of a JSON head (32 bits, little endian), then the head, the texts (each ended by NUL),
 * and the columns of the tables one after another. The head says how long each of them is. docs/report.md describes it.
 */
#include <jansson.h>
#include <zlib.h>

#include "base/diag.h"
#include "machine/target.h"
#include "report/report_data.h"

/* ---- base64 of deflated bytes, as they come ---- */

typedef struct encoder {
    FILE *out;
    z_stream zip;
    uint8_t carry[3]; /* bytes that are no group of three yet */
    unsigned carried;
    bool failed;
} encoder;

static void put_group(encoder *e, unsigned n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t v = (uint32_t)e->carry[0] << 16 | (n > 1 ? (uint32_t)e->carry[1] << 8 : 0) | (n > 2 ? e->carry[2] : 0u);
    char text[4] = {digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                    n > 2 ? digits[v & 63] : '='};
    fwrite(text, 1, 4, e->out);
}

static void put_bytes(encoder *e, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        e->carry[e->carried++] = bytes[i];
        if (e->carried == 3) {
            put_group(e, 3);
            e->carried = 0;
        }
    }
}

static void pump(encoder *e, int flush)
{
    uint8_t block[16384];
    int status;
    do {
        e->zip.next_out = block;
        e->zip.avail_out = sizeof block;
        status = deflate(&e->zip, flush);
        e->failed = e->failed || status == Z_STREAM_ERROR;
        put_bytes(e, block, sizeof block - e->zip.avail_out);
    } while (!e->failed && (e->zip.avail_out == 0 || (flush == Z_FINISH && status != Z_STREAM_END)));
}

static void encode(encoder *e, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    while (size && !e->failed) {
        uInt n = (uInt)tv_min_u64(size, 1 << 20);
        e->zip.next_in = (z_const Bytef *)(uintptr_t)p;
        e->zip.avail_in = n;
        pump(e, Z_NO_FLUSH);
        p += n;
        size -= n;
    }
}

/* ---- The head ---- */

static json_t *text_json(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_string("?");
}

static json_t *config_json(const tv_machine *machine)
{
    json_t *list = json_array();
    tv_config_entry e;
    for (unsigned i = 0; tv_config_at(tv_machine_config(machine), i, &e); i++)
        json_array_append_new(list, json_pack("[o, o, o, o, o]", text_json(e.key), text_json(e.value),
                                              text_json(e.unit), text_json(e.origin), text_json(e.meaning)));
    return list;
}

static json_t *engines_json(const tv_stats *s)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < s->engine_count; i++) {
        const tv_engine_stats *e = &s->engines[i];
        json_t *stalled = json_object();
        for (unsigned c = 0; c < s->stall_reason_count; c++)
            if (e->stalled[c])
                json_object_set_new(stalled, s->stall_reasons[c], json_integer((json_int_t)e->stalled[c]));
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:o}", "name", e->name, "busy", (json_int_t)e->busy,
                                              "idle", (json_int_t)e->idle, "held", stalled));
    }
    return list;
}

static json_t *stats_json(const tv_stats *s)
{
    json_t *stall_reasons = json_array(), *paths = json_array();
    for (unsigned c = 0; c < s->stall_reason_count; c++)
        json_array_append_new(stall_reasons, json_string(s->stall_reasons[c]));
    for (unsigned p = 0; p < s->path_count; p++)
        json_array_append_new(paths, json_pack("{s:s, s:I, s:f}", "name", s->paths[p].name, "bytes",
                                               (json_int_t)s->paths[p].bytes, "peak", s->paths[p].peak));
    return json_pack("{s:I, s:f, s:f, s:I, s:I, s:f, s:s, s:f, s:s, s:o, s:o, s:o}", "cycles", (json_int_t)s->cycles,
                     "clock_hz", s->clock_hz, "seconds", s->seconds, "instructions", (json_int_t)s->instructions,
                     "macs", (json_int_t)s->macs, "peak_macs", s->peak_macs, "bound_by", s->bound_by, "bound_share",
                     s->bound_share, "verdict", s->bottleneck, "engines", engines_json(s), "causes", stall_reasons,
                     "paths", paths);
}

static json_t *spaces_json(const tv_machine *machine)
{
    json_t *list = json_array();
    tv_space s;
    for (unsigned i = 0; tv_machine_space_at(machine, i, &s); i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:s}", "name", s.name, "unit",
                                              (json_int_t)s.unit_bytes, "size", (json_int_t)s.size, "bank",
                                              (json_int_t)s.bank_size, "doc", s.doc ? s.doc : ""));
    return list;
}

static json_t *tables_json(const tv_report_writer *r)
{
    json_t *tables = json_array();
    for (unsigned t = 0; t < TV_TABLES; t++) {
        json_t *columns = json_array();
        for (unsigned c = 0; c < TV_TABLE_COLUMNS && tv_table_specs[t].columns[c]; c++)
            json_array_append_new(
                columns, json_pack("[s, I]", tv_table_specs[t].columns[c], (json_int_t)r->tables[t].columns[c].len));
        json_array_append_new(tables, json_pack("{s:s, s:I, s:I, s:o}", "name", tv_table_specs[t].name, "rows",
                                                (json_int_t)r->tables[t].rows, "seen", (json_int_t)r->tables[t].seen,
                                                "columns", columns));
    }
    return tables;
}

static json_t *fault_json(const tv_machine *machine)
{
    const tv_fault *f = tv_machine_fault(machine);
    return f ? json_pack("{s:s, s:s, s:I, s:o, s:o}", "code", f->code, "name", f->name, "index",
                         (json_int_t)(tv_machine_instruction_base(machine) + f->index), "message",
                         text_json(f->message), "text", text_json(f->disassembly))
             : json_null();
}

static char *head_of(const tv_report_writer *r, const tv_machine *machine)
{
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(machine, &s);
    const char *target = tv_machine_target(machine);
    json_t *head =
        json_pack("{s:i, s:s, s:o, s:s, s:s, s:I, s:I, s:I, s:o, s:b, s:o, s:o, s:o, s:I, s:o, s:o}", "format", 1,
                  "version", tv_version(), "title", text_json(r->title), "target", target, "target_title",
                  tv_machine_get_target(machine)->isa->title, "first", (json_int_t)r->first, "last_cycle",
                  (json_int_t)r->last_cycle, "window", (json_int_t)(r->windows.width ? r->windows.width : 1),
                  "detail_end", r->detail_end == UINT64_MAX ? json_null() : json_integer((json_int_t)r->detail_end),
                  "texts_missing", r->texts.full || r->insns_full, "stats", stats_json(&s), "config",
                  config_json(machine), "spaces", spaces_json(machine), "text_bytes", (json_int_t)r->texts.bytes.len,
                  "fault", fault_json(machine), "tables", tables_json(r));
    char *text = head ? json_dumps(head, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(head);
    return text;
}

static void put_data(encoder *e, const tv_report_writer *r, const char *head)
{
    uint8_t length[4];
    tv_store_le(length, strlen(head), 4);
    encode(e, length, sizeof length);
    encode(e, head, strlen(head));
    encode(e, r->texts.bytes.data, r->texts.bytes.len);
    for (unsigned t = 0; t < TV_TABLES; t++)
        for (unsigned c = 0; c < TV_TABLE_COLUMNS; c++)
            encode(e, r->tables[t].columns[c].data, r->tables[t].columns[c].len);
    pump(e, Z_FINISH);
    if (e->carried)
        put_group(e, e->carried);
}

/* ---- The page ---- */

static void put_title(const char *text, FILE *out)
{
    for (; *text; text++)
        if (strchr("<>&\"'", *text))
            fprintf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= ' ')
            putc(*text, out);
}

/* Where the page has @NAME@. */
static void put_piece(const char *name, size_t n, const tv_report_writer *r, const char *head, encoder *e)
{
    if (n == 5 && memcmp(name, "TITLE", n) == 0)
        put_title(r->title, e->out);
    else if (n == 5 && memcmp(name, "STYLE", n) == 0)
        fwrite(tv_page_css, 1, tv_page_css_size, e->out);
    else if (n == 6 && memcmp(name, "SCRIPT", n) == 0)
        fwrite(tv_page_js, 1, tv_page_js_size, e->out);
    else if (n == 4 && memcmp(name, "DATA", n) == 0)
        put_data(e, r, head);
}

tv_status tv_report_write_page(tv_report_writer *r, const tv_machine *machine, FILE *out, const tv_diag_sink *sink)
{
    encoder e = {.out = out};
    char *head = head_of(r, machine);
    if (!head || deflateInit(&e.zip, 7) != Z_OK) {
        free(head);
        return tv_fail_memory(sink);
    }
    const char *p = (const char *)tv_page_html, *end = p + tv_page_html_size;
    while (p < end) {
        const char *mark = memchr(p, '@', (size_t)(end - p)),
                   *close = mark ? memchr(mark + 1, '@', (size_t)(end - mark - 1)) : NULL;
        fwrite(p, 1, (size_t)((close ? mark : end) - p), out);
        if (!close)
            break;
        put_piece(mark + 1, (size_t)(close - mark - 1), r, head, &e);
        p = close + 1;
    }
    deflateEnd(&e.zip);
    free(head);
    if (e.failed)
        return tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), NULL, "the report's data could not be compressed");
    return TV_OK;
}
