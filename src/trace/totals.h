/* SPDX-License-Identifier: Apache-2.0 */
/* Totals by name and the longest stalls of a trace, in bounded memory: a table adds up names beyond its limits in one
 * last row; the list of stalls remembers a limited number of instructions. */
#ifndef TV_TRACE_TOTALS_H
#define TV_TRACE_TOTALS_H

#include "base/arena.h"
#include "base/vec.h"
#include "trivet/trace_file.h"

typedef struct tv_trace_table {
    tv_arena *arena; /* for names; the caller's */
    TV_VEC(tv_trace_row) rows;
    uint32_t *slots; /* hash table: index of the row + 1 */
    uint32_t slot_count;
    uint32_t last;       /* index of the row that was found last */
    uint64_t text;       /* bytes of names */
    uint32_t limit;      /* rows */
    tv_trace_row others; /* totals of names beyond the limits; `name` is NULL while there are none */
} tv_trace_table;

/* Finds or adds the row of `name`. `table` is zeroed storage, except `arena` and `limit`. The row moves when another is
 * added. NULL: out of memory. */
tv_trace_row *tv_trace_table_row(tv_trace_table *table, const char *name);

/* Sorts the rows by cycles, descending, then by name; or by name alone. Numbers in names compare as numbers. No row may
 * be looked up afterwards. */
void tv_trace_table_sort(tv_trace_table *table, bool by_name);
void tv_trace_table_fini(tv_trace_table *table);

/* A stall with storage for its engines: most stalls are replaced by longer ones. */
typedef struct tv_trace_long_stall {
    char engines[128];
    tv_trace_stall stall; /* its `engines` are set at the end */
} tv_trace_long_stall;

typedef struct tv_trace_longest {
    tv_trace_long_stall rows[TV_TRACE_STALLS + 1]; /* longest first */
    unsigned count;
    tv_trace_insn *insns; /* cache of instructions, by the low bits of their index; NULL: none yet */
    tv_trace_table texts; /* strings of instructions and stalls */
} tv_trace_longest;

/* `longest` is zeroed storage; `arena` stays the caller's. */
void tv_trace_longest_init(tv_trace_longest *longest, tv_arena *arena);

/* To be called for every event. false: out of memory. */
bool tv_trace_longest_event(tv_trace_longest *longest, const tv_event *event);
void tv_trace_longest_fini(tv_trace_longest *longest);

#endif
