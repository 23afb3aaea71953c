/* SPDX-License-Identifier: Apache-2.0 */
/* The report's file: the page that the build made, with the data inserted.
 *
 * The data are the length of a JSON head (32 bits, little endian), the head, the strings (each ended by NUL), and the
 * columns of all tables. The head has the length of each. docs/report.md describes it. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/json_writer.h"
#include "machine/target.h"
#include "report/page.h"
#include "report/report_data.h"
#include "trivet/energy.h"

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

static void write_findings(tv_json_writer *w, const tv_report_writer *r)
{
    char location[512];
    tv_json_begin_array(w);
    for (uint64_t i = 0; i < r->finding_count && i < TV_REPORT_FINDINGS_MAX; i++) {
        const tv_report_finding *f = &r->findings[i];
        snprintf(location, sizeof location, "%s:%u", tv_texts_at(&r->texts, f->file), f->line);
        tv_json_begin_object(w);
        tv_json_string_member(w, "code", tv_texts_at(&r->texts, f->code));
        tv_json_string_member(w, "message", tv_texts_at(&r->texts, f->message));
        tv_json_string_member(w, "source", f->line ? location : NULL);
        if (f->index >= 0)
            tv_json_unsigned_member(w, "index", (uint64_t)f->index);
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_energy(tv_json_writer *w, const tv_machine *machine)
{
    tv_energy_stats s = {.size = sizeof s};
    tv_machine_energy(machine, &s);
    tv_json_key(w, "energy");
    tv_json_begin_object(w);
    (void)tv_energy_stats_write_json(w, tv_machine_config(machine), &s);
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
    write_energy(w, machine);
    tv_json_key(w, "config");
    write_config(w, machine);
    tv_json_key(w, "spaces");
    write_spaces(w, machine);
    tv_json_unsigned_member(w, "text_bytes", r->texts.bytes.len);
    tv_json_key(w, "fault");
    write_fault(w, machine);
    tv_json_key(w, "findings");
    write_findings(w, r);
    tv_json_unsigned_member(w, "finding_count", r->finding_count);
    tv_json_key(w, "tables");
    tv_json_begin_array(w);
    for (unsigned t = 0; t < TV_TABLES; t++)
        write_table(w, &tv_table_specs[t], &r->tables[t]);
    tv_json_end_array(w);
    tv_json_end_object(w);
}

typedef struct report_source {
    const tv_report_writer *report;
    const tv_buf *head;
} report_source;

static void write_data(void *user, tv_page_encoder *encoder)
{
    const report_source *source = user;
    const tv_report_writer *r = source->report;
    uint8_t length[4];
    tv_store_le(length, source->head->len, 4);
    tv_page_encode(encoder, length, sizeof length);
    tv_page_encode(encoder, source->head->data, source->head->len);
    tv_page_encode(encoder, r->texts.bytes.data, r->texts.bytes.len);
    for (unsigned t = 0; t < TV_TABLES; t++)
        for (unsigned c = 0; c < TV_TABLE_COLUMNS; c++)
            tv_page_encode(encoder, r->tables[t].columns[c].data, r->tables[t].columns[c].len);
}

tv_status tv_report_write_page(tv_report_writer *r, const tv_machine *machine, FILE *out, const tv_diag_sink *sink)
{
    tv_buf head = {0};
    tv_json_writer w;
    tv_json_writer_init_buf(&w, &head, TV_JSON_COMPACT);
    write_head(&w, r, machine);
    tv_status status = TV_OK;
    if (!tv_json_writer_finish(&w))
        status = tv_fail_memory(sink);
    report_source source = {r, &head};
    const tv_page page = {tv_page_html, tv_page_css, tv_page_js, tv_page_html_size, tv_page_css_size, tv_page_js_size,
                          r->title,     write_data,  &source};
    if (status == TV_OK)
        status = tv_page_write(&page, out, sink);
    tv_buf_fini(&head);
    return status;
}
