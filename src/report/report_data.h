/* SPDX-License-Identifier: Apache-2.0 */
/* What a report keeps of a run: strings once each, tables of events as compressed columns, sums over windows of time,
 * sums by class. All of it is bounded; nothing here fails but by memory, which is remembered in `failed` and told at
 * the end. */
#ifndef TV_REPORT_REPORT_DATA_H
#define TV_REPORT_REPORT_DATA_H

#include "base/buf.h"
#include "trivet/codec.h"
#include "trivet/file.h"
#include "trivet/report.h"

/* ---- Strings: a number for each text; 0 is no text ---- */

typedef struct tv_texts {
    tv_buf bytes;    /* NUL-terminated, one after another; text 0 is empty */
    uint32_t *slots; /* hash table of numbers */
    size_t *starts;  /* by number */
    size_t count, cap;
    bool full, failed; /* full: texts were left out */
} tv_texts;

uint32_t tv_texts_add(tv_texts *texts, const char *text); /* NULL and what has no room: 0 */
const char *tv_texts_at(const tv_texts *texts, uint32_t number);
void tv_texts_fini(tv_texts *texts);

/* ---- Tables: rows of numbers, a column each as LEB128; a delta column keeps the zigzag difference to the row before
 * ---- */

enum { TV_TABLE_COLUMNS = 8 };

typedef enum tv_table_id {
    TV_TABLE_WORK,
    TV_TABLE_STALL,
    TV_TABLE_ISSUE,
    TV_TABLE_STATUS,
    TV_TABLE_MARKER,
    TV_TABLE_TRANSFER,
    TV_TABLE_TOKEN,
    TV_TABLE_ACCESS,
    TV_TABLE_INSN,
    TV_TABLE_GROUP,
    TV_TABLE_WINDOW,
    TV_TABLES
} tv_table_id;

typedef struct tv_table_spec {
    const char *name;
    const char *columns[TV_TABLE_COLUMNS]; /* "+name" is a delta column; NULL after the last */
} tv_table_spec;

extern const tv_table_spec tv_table_specs[TV_TABLES];

typedef struct tv_table {
    uint64_t rows, seen; /* kept, and all that came */
    tv_buf columns[TV_TABLE_COLUMNS];
    uint64_t last[TV_TABLE_COLUMNS];
} tv_table;

void tv_table_put(tv_table *table, tv_table_id id, const uint64_t values[TV_TABLE_COLUMNS]);
void tv_table_fini(tv_table *table);
bool tv_table_failed(const tv_table *table);

/* ---- Windows: amounts over time, in windows that double in width when there are too many ---- */

enum { TV_WINDOWS = 2048, TV_CHANNELS_MAX = 512 };

typedef enum tv_channel_kind {
    TV_CHANNEL_BYTES,
    TV_CHANNEL_BUSY,
    TV_CHANNEL_STALLED,
    TV_CHANNEL_ISSUE
} tv_channel_kind;

typedef struct tv_channel {
    uint32_t kind, name, reason; /* BYTES: of a path; the others: of a lane */
    float amounts[TV_WINDOWS];
} tv_channel;

typedef struct tv_windows {
    uint64_t width;
    tv_channel *channels[TV_CHANNELS_MAX];
    unsigned count;
    bool failed;
} tv_windows;

void tv_windows_add(tv_windows *windows, tv_channel_kind kind, uint32_t name, uint32_t reason, uint64_t start,
                    uint64_t end, double amount);
void tv_windows_fini(tv_windows *windows);

/* ---- Groups: sums by layer, instruction class and lane ---- */

enum { TV_GROUPS_MAX = 32768 };

typedef struct tv_group {
    uint32_t layer, op, lane;
    bool used;
    uint64_t count, busy, stalled, bytes, macs;
} tv_group;

typedef struct tv_groups {
    tv_group *slots;
    size_t count;
    bool full, failed;
} tv_groups;

/* The group, made if need be; that of lane alone when there are too many; NULL: no memory. */
tv_group *tv_groups_at(tv_groups *groups, uint32_t layer, uint32_t op, uint32_t lane);
void tv_groups_fini(tv_groups *groups);

/* ---- The report ---- */

typedef struct tv_report_insn {
    uint32_t op, text, file, line, layer, source;
} tv_report_insn;

struct tv_report_writer {
    tv_output *output;
    char *title;
    const tv_machine *machine;
    const tv_program *program;
    tv_codec *codec; /* NULL: programs are not words */
    bool begun;
    uint64_t first;         /* number of the first program's first instruction; instructions count from there */
    uint64_t program_first; /* … and of the present program's */
    uint64_t event_limit;
    tv_texts texts;
    tv_table tables[TV_TABLES];
    uint64_t events;     /* rows kept, without accesses */
    uint64_t detail_end; /* cycle of the first event that was left out; UINT64_MAX: none */
    uint64_t last_cycle;
    tv_report_insn *insns;
    size_t insn_count, insn_cap;
    bool insns_full, failed;
    tv_access access; /* the last access, until it is known whether the next one joins it */
    uint64_t access_insn, access_extent;
    tv_windows windows;
    tv_groups groups;
};

/* report_source.c: sets `source` of the instructions whose source files can be read. */
void tv_report_read_sources(tv_report_writer *report);

/* report_page.c: writes the whole page to `out`. */
tv_status tv_report_write_page(tv_report_writer *report, const tv_machine *machine, FILE *out,
                               const tv_diag_sink *sink);

/* The page without its data, made from src/report/web at build time. */
extern const unsigned char tv_page_html[], tv_page_css[], tv_page_js[];
extern const size_t tv_page_html_size, tv_page_css_size, tv_page_js_size;

#endif
