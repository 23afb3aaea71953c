/* SPDX-License-Identifier: Apache-2.0 */
/* The ranges of memory that a run prints, writes to files (--dump) and compares with files (--compare). */
#ifndef TV_CLI_RUN_MEMORY_H
#define TV_CLI_RUN_MEMORY_H

#include "cli/memory_dump.h"
#include "cli/run_writers.h"

/* Rows of a command's table of options. */
#define RUN_MEMORY_OPTIONS                                                                                             \
    {"dump", 0, "RANGE[=FILE]", "print a range of memory after the run, or write it to a file; may be repeated",       \
     "RANGE"},                                                                                                         \
    {                                                                                                                  \
        "compare", 0, "RANGE=FILE", "compare a range with a file after the run; exit status 1 if they differ", "RANGE" \
    }

typedef struct memory_comparison {
    tv_range range;
    const char *path;
    uint8_t *expected, *known, *actual; /* owned */
    writer_map writers;
    uint64_t differences;
    uint64_t first; /* element that differs */
} memory_comparison;

typedef struct run_memory {
    cli *c;
    tv_machine *machine;
    const tv_program *const *programs;
    unsigned program_count;
    unsigned program; /* that runs */
    memory_dump *dumps;
    memory_comparison *comparisons;
    unsigned dump_count, comparison_count;
} run_memory;

/* True if --dump prints to standard output. */
bool run_memory_prints(const cli *c);

/* Parses the options and reads the files of --compare, so that an error does not cost the result of the run. The
 * machine has loaded nothing yet. `memory` must not move until run_memory_free, which frees it also after an error. */
tv_status run_memory_open(run_memory *memory, cli *c, tv_machine *machine, const tv_program *const *programs,
                          unsigned count);
void run_memory_free(run_memory *memory);

/* Stores the receiver of the commit records that comparisons need; returns false if they need none. */
bool run_memory_sink(run_memory *memory, tv_commit_sink *out);

/* After the run: reads all ranges; prints dumps and equal ranges unless they go into the JSON result, moves files to
 * `group` and reports differences. */
tv_status run_memory_collect(run_memory *memory, tv_output_group *group);

/* True if a compared range differs from its file. */
bool run_memory_differs(const run_memory *memory);

/* Writes the members "dumps" and, with --compare, "comparisons". */
void run_memory_write_json(const run_memory *memory, tv_json_writer *writer);

#endif
