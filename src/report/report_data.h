/* SPDX-License-Identifier: Apache-2.0 */
/* The data that a report collects of a run: each string once, tables of events as compressed columns, totals over
 * windows of time and by class. All of it is bounded. The only failure is a lack of memory; it sticks in `failed`,
 * which is checked at the end. */
#ifndef TV_REPORT_REPORT_DATA_H
#define TV_REPORT_REPORT_DATA_H

#include "base/buf.h"
#include "base/vec.h"
#include "trivet/codec.h"
#include "trivet/file.h"
#include "trivet/report.h"

/* ---- Strings: an index for each; 0 is the empty string ---- */

typedef struct tv_texts {
    tv_buf bytes;    /* NUL-terminated, one after another; text 0 is empty */
    uint32_t *slots; /* hash table of numbers */
    size_t slot_count;
    TV_VEC(size_t) starts; /* offset in `bytes`, by number */
    bool full, failed;     /* full: strings were omitted */
} tv_texts;

uint32_t tv_texts_add(tv_texts *texts, const char *text); /* 0 for NULL, and when full */
const char *tv_texts_at(const tv_texts *texts, uint32_t number);
void tv_texts_fini(tv_texts *texts);

/* ---- Tables: rows of numbers. A column is a sequence of LEB128 numbers; a delta column has zigzag differences ---- */

enum { TV_TABLE_COLUMNS = 12 };

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
    uint64_t rows, total; /* rows: kept; total: with those beyond the limit */
    tv_buf columns[TV_TABLE_COLUMNS];
    uint64_t last[TV_TABLE_COLUMNS];
} tv_table;

void tv_table_put(tv_table *table, tv_table_id id, const uint64_t values[TV_TABLE_COLUMNS]);
void tv_table_fini(tv_table *table);
bool tv_table_failed(const tv_table *table);

/* ---- Windows: amounts over time; the width of a window doubles when there would be too many ---- */

enum { TV_WINDOWS = 2048, TV_CHANNELS_MAX = 512 };

typedef enum tv_channel_kind {
    TV_CHANNEL_BYTES,
    TV_CHANNEL_BUSY,
    TV_CHANNEL_STALLED,
    TV_CHANNEL_ISSUE,
    TV_CHANNEL_ENERGY
} tv_channel_kind;

typedef struct tv_channel {
    uint32_t kind, name, reason; /* BYTES: of a path; ENERGY: femtojoules, the end of the interval is `reason`; others:
                                    of a lane */
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

/* ---- Groups: totals by layer, instruction class and lane ---- */

enum { TV_GROUPS_MAX = 32768 };

typedef struct tv_group {
    uint32_t layer, op, lane;
    uint64_t count, busy, stalled, bytes, macs;
    double energy[3]; /* femtojoules: low, nominal, high */
} tv_group;

typedef struct tv_groups {
    TV_VEC(tv_group) list; /* in the order in which they were added */
    uint32_t *slots;       /* hash table of 2 * TV_GROUPS_MAX indexes in `list`, plus one; 0: unused */
    bool full, failed;
} tv_groups;

/* The group, added if there is none; when there are too many, the group of all others of the lane. It is valid until
 * the next call. NULL: out of memory, or no room. */
tv_group *tv_groups_find(tv_groups *groups, uint32_t layer, uint32_t op, uint32_t lane);
void tv_groups_fini(tv_groups *groups);

/* ---- The report ---- */

typedef struct tv_report_insn {
    uint32_t op, text, file, line, layer, source;
} tv_report_insn;

/* Texts are indices of `texts`; line 0: no source location, index -1: no instruction. */
typedef struct tv_report_finding {
    uint32_t code, message, file;
    unsigned line;
    int64_t index;
} tv_report_finding;

struct tv_report_writer {
    tv_output *output;
    char *title;
    const tv_machine *machine;
    const tv_program *program;
    tv_codec *codec; /* NULL: programs are queues, without instruction words */
    bool begun;
    uint64_t first;         /* index of the first program's first instruction: row 0 of table insn */
    uint64_t program_first; /* … of the current program's */
    uint64_t event_limit;
    tv_texts texts;
    tv_table tables[TV_TABLES];
    uint64_t events;     /* rows kept, except accesses */
    uint64_t detail_end; /* cycle of the first event that was omitted; UINT64_MAX: none */
    uint64_t last_cycle;
    TV_VEC(tv_report_insn) insns;
    tv_report_finding findings[TV_REPORT_FINDINGS_MAX];
    uint64_t finding_count; /* with those that are not kept */
    int source_error;       /* errno of a source file that the host failed to read; 0: none */
    bool insns_full, failed;
    tv_access access; /* the last access, which the next one may extend */
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
