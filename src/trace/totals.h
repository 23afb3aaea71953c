/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of sums by name, of bounded size: what comes after the last free row, or after too much text of names, is
 * summed up in the last row. Also a bounded memory of instructions, by which stalls learn who waited for whom. */
#ifndef TV_TRACE_TABLES_H
#define TV_TRACE_TABLES_H

#include "base/arena.h"
#include "trivet/trace_file.h"

typedef struct tv_trace_table {
    tv_arena *arena; /* the names; borrowed */
    tv_trace_row *rows;
    uint32_t *slots; /* hash table: number of the row + 1 */
    uint32_t count, room, mask;
    uint32_t last;       /* the row of the name that was asked for last */
    uint64_t text;       /* bytes of names */
    uint32_t limit;      /* rows */
    tv_trace_row others; /* without a name: none */
} tv_trace_table;

/* `table` is zeroed storage but for `arena` and `limit`. The row of `name`; NULL: no memory. */
tv_trace_row *tv_trace_table_row(tv_trace_table *table, const char *name);
void tv_trace_table_sort(
    tv_trace_table *table); /* most cycles first, then by name; no row may be asked for afterwards */
void tv_trace_table_fini(tv_trace_table *table);

/* A stall with its texts at hand: many come and go before the longest are known. */
typedef struct tv_trace_long_stall {
    char engines[128];
    tv_trace_stall stall; /* `engines` is set at the end */
} tv_trace_long_stall;

typedef struct tv_trace_longest {
    tv_trace_long_stall rows[TV_TRACE_STALLS + 1]; /* longest first */
    unsigned count;
    tv_trace_insn *recent; /* the last instructions, by the low bits of their index */
    tv_trace_table texts;  /* their classes, files and causes */
} tv_trace_longest;

/* `longest` is zeroed storage. false: no memory. tv_trace_longest_fini in any case. */
bool tv_trace_longest_init(tv_trace_longest *longest, tv_arena *arena);
bool tv_trace_longest_event(tv_trace_longest *longest, const tv_event *event); /* of every event */
void tv_trace_longest_fini(tv_trace_longest *longest);

#endif
