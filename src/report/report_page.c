/* SPDX-License-Identifier: Apache-2.0 */
/* The report's file: the page that the build made, with the data inserted, deflated and in base64.
 *
 * The data are the length of a JSON head (32 bits, little endian), the head, the strings (each ended by NUL), and the
 * columns of all tables. The head has the length of each. docs/report.md describes it. */
#include <stdlib.h>
#include <zlib.h>

#include "base/diag.h"
#include "base/json_writer.h"
#include "machine/target.h"
#include "report/report_data.h"

/* ---- Deflated bytes in base64 ---- */

typedef struct encoder {
    FILE *out;
    z_stream zip;
    uint8_t carry[3]; /* bytes that do not fill a group of three yet */
    unsigned carried;
    bool failed;
} encoder;

static void write_group(encoder *e, unsigned n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t v = (uint32_t)e->carry[0] << 16 | (n > 1 ? (uint32_t)e->carry[1] << 8 : 0) | (n > 2 ? e->carry[2] : 0u);
    char text[4] = {digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                    n > 2 ? digits[v & 63] : '='};
    fwrite(text, 1, 4, e->out);
}

static void write_bytes(encoder *e, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        e->carry[e->carried++] = bytes[i];
        if (e->carried == 3) {
            write_group(e, 3);
            e->carried = 0;
        }
    }
}

static void run_deflate(encoder *e, int flush)
{
    uint8_t block[16384];
    int status;
    do {
        e->zip.next_out = block;
        e->zip.avail_out = sizeof block;
        status = deflate(&e->zip, flush);
        e->failed = e->failed || status == Z_STREAM_ERROR;
        write_bytes(e, block, sizeof block - e->zip.avail_out);
    } while (!e->failed && (e->zip.avail_out == 0 || (flush == Z_FINISH && status != Z_STREAM_END)));
}

static void encode_bytes(encoder *e, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    while (size && !e->failed) {
        uInt n = (uInt)tv_min_u64(size, 1 << 20);
        e->zip.next_in = (z_const Bytef *)(uintptr_t)p;
        e->zip.avail_in = n;
        run_deflate(e, Z_NO_FLUSH);
        p += n;
        size -= n;
    }
}

/* ---- The head ---- */

enum { FORMAT = 3 };

/* A string, or "?" where there is none. */
static void write_text(tv_json_writer *w, const char *text) { tv_json_write_string(w, text ? text : "?"); }

static void write_config(tv_json_writer *w, const tv_machine *machine)
{
    tv_config_entry e;
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_config_at(tv_machine_config(machine), i, &e); i++) {
        tv_json_begin_array(w);
        write_text(w, e.key);
        write_text(w, e.value);
        write_text(w, e.unit);
        write_text(w, e.origin);
        write_text(w, e.meaning);
        tv_json_end_array(w);
    }
    tv_json_end_array(w);
}

static void write_spaces(tv_json_writer *w, const tv_machine *machine)
{
    tv_space s;
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_machine_space_at(machine, i, &s); i++) {
        tv_json_begin_object(w);
        tv_json_string_member(w, "name", s.name);
        tv_json_unsigned_member(w, "unit", s.unit_bytes);
        tv_json_unsigned_member(w, "size", s.size);
        tv_json_unsigned_member(w, "bank", s.bank_size);
        tv_json_string_member(w, "doc", s.doc ? s.doc : "");
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_table(tv_json_writer *w, const tv_table_spec *spec, const tv_table *table)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", spec->name);
    tv_json_unsigned_member(w, "rows", table->rows);
    tv_json_unsigned_member(w, "total", table->total);
    tv_json_key(w, "columns");
    tv_json_begin_array(w);
    for (unsigned c = 0; c < TV_TABLE_COLUMNS && spec->columns[c]; c++) {
        tv_json_begin_array(w);
        tv_json_write_string(w, spec->columns[c]);
        tv_json_write_unsigned(w, table->columns[c].len);
        tv_json_end_array(w);
    }
    tv_json_end_array(w);
    tv_json_end_object(w);
}

static void write_fault(tv_json_writer *w, const tv_machine *machine)
{
    const tv_fault *f = tv_machine_fault(machine);
    if (!f) {
        tv_json_write_null(w);
        return;
    }
    tv_json_begin_object(w);
    tv_json_string_member(w, "code", f->code);
    tv_json_string_member(w, "name", f->name);
    tv_json_unsigned_member(w, "index", tv_machine_instruction_base(machine) + f->index);
    tv_json_key(w, "message");
    write_text(w, f->message);
    tv_json_key(w, "text");
    write_text(w, f->disassembly);
    tv_json_end_object(w);
}

static void write_head(tv_json_writer *w, const tv_report_writer *r, const tv_machine *machine)
{
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(machine, &s);
    tv_json_begin_object(w);
    tv_json_integer_member(w, "format", FORMAT);
    tv_json_string_member(w, "version", tv_version());
    tv_json_string_member(w, "title", r->title);
    tv_json_string_member(w, "target", tv_machine_target(machine));
    tv_json_string_member(w, "target_title", tv_machine_get_target(machine)->isa->title);
    tv_json_unsigned_member(w, "first", r->first);
    tv_json_unsigned_member(w, "last_cycle", r->last_cycle);
    tv_json_unsigned_member(w, "window", r->windows.width ? r->windows.width : 1);
    if (r->detail_end == UINT64_MAX)
        tv_json_null_member(w, "detail_end");
    else
        tv_json_unsigned_member(w, "detail_end", r->detail_end);
    tv_json_boolean_member(w, "texts_missing", r->texts.full || r->insns_full);
    tv_json_key(w, "stats");
    tv_json_begin_object(w);
    tv_stats_write_json(w, &s);
    tv_json_end_object(w);
    tv_json_key(w, "config");
    write_config(w, machine);
    tv_json_key(w, "spaces");
    write_spaces(w, machine);
    tv_json_unsigned_member(w, "text_bytes", r->texts.bytes.len);
    tv_json_key(w, "fault");
    write_fault(w, machine);
    tv_json_key(w, "tables");
    tv_json_begin_array(w);
    for (unsigned t = 0; t < TV_TABLES; t++)
        write_table(w, &tv_table_specs[t], &r->tables[t]);
    tv_json_end_array(w);
    tv_json_end_object(w);
}

static void write_data(encoder *e, const tv_report_writer *r, const tv_buf *head)
{
    uint8_t length[4];
    tv_store_le(length, head->len, 4);
    encode_bytes(e, length, sizeof length);
    encode_bytes(e, head->data, head->len);
    encode_bytes(e, r->texts.bytes.data, r->texts.bytes.len);
    for (unsigned t = 0; t < TV_TABLES; t++)
        for (unsigned c = 0; c < TV_TABLE_COLUMNS; c++)
            encode_bytes(e, r->tables[t].columns[c].data, r->tables[t].columns[c].len);
    run_deflate(e, Z_FINISH);
    if (e->carried)
        write_group(e, e->carried);
}

/* ---- The page ---- */

static void write_title(const char *text, FILE *out)
{
    for (; *text; text++)
        if (strchr("<>&\"'", *text))
            fprintf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= ' ')
            putc(*text, out);
}

/* Replaces @NAME@ in the page. */
static void write_placeholder(const char *name, size_t n, const tv_report_writer *r, const tv_buf *head, encoder *e)
{
    if (n == 5 && memcmp(name, "TITLE", n) == 0)
        write_title(r->title, e->out);
    else if (n == 5 && memcmp(name, "STYLE", n) == 0)
        fwrite(tv_page_css, 1, tv_page_css_size, e->out);
    else if (n == 6 && memcmp(name, "SCRIPT", n) == 0)
        fwrite(tv_page_js, 1, tv_page_js_size, e->out);
    else if (n == 4 && memcmp(name, "DATA", n) == 0)
        write_data(e, r, head);
}

tv_status tv_report_write_page(tv_report_writer *r, const tv_machine *machine, FILE *out, const tv_diag_sink *sink)
{
    encoder e = {.out = out};
    tv_buf head = {0};
    tv_json_writer w;
    tv_json_writer_init_buf(&w, &head, TV_JSON_COMPACT);
    write_head(&w, r, machine);
    if (!tv_json_writer_finish(&w) || deflateInit(&e.zip, 7) != Z_OK) {
        tv_buf_fini(&head);
        return tv_fail_memory(sink);
    }
    const char *p = (const char *)tv_page_html, *end = p + tv_page_html_size;
    while (p < end) {
        const char *mark = memchr(p, '@', (size_t)(end - p)),
                   *close = mark ? memchr(mark + 1, '@', (size_t)(end - mark - 1)) : NULL;
        fwrite(p, 1, (size_t)((close ? mark : end) - p), out);
        if (!close)
            break;
        write_placeholder(mark + 1, (size_t)(close - mark - 1), r, &head, &e);
        p = close + 1;
    }
    deflateEnd(&e.zip);
    tv_buf_fini(&head);
    if (e.failed)
        return tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), NULL, "the report's data could not be compressed");
    return TV_OK;
}
