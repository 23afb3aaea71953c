/* SPDX-License-Identifier: Apache-2.0 */
/* Reading trace files: summaries, comparisons, conversions.
 *
 * An input is the JSON trace of tv_trace_open or its Chrome trace events, compressed with zstd or not, of any size; "-"
 * is standard input. It is read as a stream in bounded memory. A table has at most TV_TRACE_ROWS rows; the rest is
 * added up in one last row called "(others)". Summaries and comparisons are read-only: threads may share them. */
#ifndef TRIVET_TRACE_FILE_H
#define TRIVET_TRACE_FILE_H

#include "trivet/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TV_TRACE_ROWS = 100000, TV_TRACE_STALLS = 10 };

typedef struct tv_trace_setting {
    const char *key, *value;
    const char *default_value; /* the default; NULL: this version has no such parameter */
} tv_trace_setting;

typedef struct tv_trace_stall_reason {
    const char *name;
    uint64_t cycles;
} tv_trace_stall_reason;

typedef struct tv_trace_engine {
    const char *name;
    uint64_t busy, idle;
    const tv_trace_stall_reason *stalled;
    unsigned stalled_count;
} tv_trace_engine;

typedef struct tv_trace_path {
    const char *name;
    uint64_t bytes;
    double peak; /* bytes per cycle; 0: unknown */
} tv_trace_path;

/* Sums over the events of one instruction class or of one layer. */
typedef struct tv_trace_row {
    const char *name;
    uint64_t count;   /* instructions */
    uint64_t cycles;  /* engines busy with them, added up */
    uint64_t stalled; /* engines stalled by them, as far as the stalls name an instruction */
    uint64_t bytes, macs;
    uint64_t first, last; /* first cycle, and the end of the last */
} tv_trace_row;

typedef struct tv_trace_step {
    const char *op; /* "prefill" or "decode" */
    int64_t position;
    uint64_t tokens, start, end;
} tv_trace_step;

/* An instruction; `op` and `file` are NULL when unknown. */
typedef struct tv_trace_insn {
    int64_t index; /* -1: none */
    const char *op, *file;
    unsigned line;
} tv_trace_insn;

typedef struct tv_trace_stall {
    const char *engines; /* stalled at the same time by the same instruction: "DISP GEMV" */
    const char *reason;
    uint64_t start, end;
    tv_trace_insn stalled, waits_for;
} tv_trace_stall;

/* Every string and table belongs to the summary. */
typedef struct tv_trace_summary {
    const char *target, *tool_version;
    double clock_hz, seconds;
    uint64_t cycles, instructions, macs;
    double peak_macs;                  /* per cycle; 0: unknown */
    const char *bound_by, *bottleneck; /* "": unknown */
    uint64_t events;
    const tv_trace_setting *settings; /* those that differ from the defaults */
    const tv_trace_engine *engines;
    const tv_trace_stall_reason *stall_reasons; /* summed over the engines */
    const tv_trace_path *paths;
    const tv_trace_row *ops, *layers; /* most cycles first; layers: those with a name */
    const tv_trace_step *steps;
    const tv_trace_stall *stalls; /* longest first */
    unsigned setting_count, engine_count, stall_reason_count, path_count, op_count, layer_count, step_count,
        stall_count;
    uint64_t steps_left_out; /* beyond TV_TRACE_ROWS */
    tv_energy energy;        /* of the run; 0: unknown */
} tv_trace_summary;

/* Progress callback: `done` of `total` bytes of a file have been read; `total` is 0 when its size is unknown. */
typedef struct tv_trace_progress {
    void (*report)(void *user, uint64_t done, uint64_t total);
    void *user;
} tv_trace_progress;

/* Reads the trace at `path` and summarizes it. `progress` may be NULL. The caller frees the summary with
 * tv_trace_summary_free. TV_ERR_INPUT: not a readable trace; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_trace_summarize(const char *path, const tv_trace_progress *progress, const tv_diag_sink *sink,
                                    tv_trace_summary **out);

/* Frees `summary`, which may be NULL. */
TV_API void tv_trace_summary_free(tv_trace_summary *summary);

/* One figure of two runs. */
typedef struct tv_trace_change {
    const char *name;
    uint64_t before, after;
} tv_trace_change;

typedef struct tv_trace_changes {
    const tv_trace_change *rows; /* those that differ, the largest change first */
    unsigned count;
} tv_trace_changes;

typedef struct tv_trace_setting_change {
    const char *key, *before, *after; /* NULL: that run has no such parameter */
} tv_trace_setting_change;

typedef struct tv_trace_diff {
    uint64_t before, after; /* cycles of the whole runs */
    int equal;              /* no figure differs */
    const tv_trace_setting_change *settings;
    unsigned setting_count;
    tv_trace_changes engines;       /* "TE0 busy", "TE0 stalled", "TE0 idle" */
    tv_trace_changes stall_reasons; /* stall cycles of the engines, by reason */
    tv_trace_changes layers, ops;   /* busy cycles of the engines */
} tv_trace_diff;

/* Compares two runs of one machine. The result keeps pointers into `before` and `after`, which must outlive it. The
 * caller frees it with tv_trace_diff_free. TV_ERR_INPUT: the runs are of different targets; TV_ERR_MEMORY. */
TV_API tv_status tv_trace_compare(const tv_trace_summary *before, const tv_trace_summary *after,
                                  const tv_diag_sink *sink, tv_trace_diff **out);

/* Frees `diff`, which may be NULL. */
TV_API void tv_trace_diff_free(tv_trace_diff *diff);

/* Converts the trace at `in` to a file `out` of `format` ("-": standard output; a name ending in ".zst" is compressed).
 * JSON to JSON keeps everything; Chrome trace events lack CMD_EVENT; CSV has the events alone, VCD what each engine
 * does in each cycle; neither can be read back. `progress` may be NULL. TV_ERR_INPUT: not a readable trace; TV_ERR_IO:
 * `out` could not be written and does not appear; TV_ERR_MEMORY. */
TV_API tv_status tv_trace_convert(const char *in, const char *out, tv_trace_format format,
                                  const tv_trace_progress *progress, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
