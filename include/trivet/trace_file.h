/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files read again: summaries, comparisons, conversions.
 *
 * A file is the JSON trace of tv_trace_open or its Chrome trace events, compressed with zstd or not, of any size; "-"
 * is standard input. It is read as a stream in bounded memory. A table has at most TV_TRACE_ROWS rows; what is beyond
 * is in one last row called "(others)". */
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
    double peak; /* bytes a cycle; 0: unknown */
} tv_trace_path;

/* What the events of one instruction class, or of one layer, come to. */
typedef struct tv_trace_row {
    const char *name;
    uint64_t count;   /* instructions */
    uint64_t cycles;  /* that engines worked on them */
    uint64_t stalled; /* that engines were held by them, as far as the stalls say what for */
    uint64_t bytes, macs;
    uint64_t first, last; /* first cycle, and the end of the last */
} tv_trace_row;

typedef struct tv_trace_step {
    const char *op; /* "prefill" or "decode" */
    int64_t position;
    uint64_t tokens, start, end;
} tv_trace_step;

/* An instruction as a person finds it: its class and place may be unknown (NULL). */
typedef struct tv_trace_insn {
    int64_t index; /* -1: none */
    const char *op, *file;
    unsigned line;
} tv_trace_insn;

typedef struct tv_trace_stall {
    const char *engines; /* held at the same time, by the same: "DISP GEMV" */
    const char *reason;
    uint64_t start, end;
    tv_trace_insn stalled, waits_for;
} tv_trace_stall;

/* Every string and table belongs to the summary. */
typedef struct tv_trace_summary {
    const char *target, *tool_version;
    double clock_hz, seconds;
    uint64_t cycles, instructions, macs;
    double peak_macs;                  /* a cycle; 0: unknown */
    const char *bound_by, *bottleneck; /* "" where the file does not say */
    uint64_t events;
    const tv_trace_setting *settings; /* that differ from the defaults */
    const tv_trace_engine *engines;
    const tv_trace_stall_reason *stall_reasons; /* summed over the engines */
    const tv_trace_path *paths;
    const tv_trace_row *ops, *layers; /* most cycles first; layers: those with a name */
    const tv_trace_step *steps;
    const tv_trace_stall *stalls; /* longest first */
    unsigned setting_count, engine_count, stall_reason_count, path_count, op_count, layer_count, step_count,
        stall_count;
    uint64_t steps_left_out; /* beyond TV_TRACE_ROWS */
} tv_trace_summary;

/* Told now and then how far a long file has been read; `total` is 0 where its size is not known. May be NULL
 * everywhere. */
typedef struct tv_trace_progress {
    void (*report)(void *user, uint64_t done, uint64_t total);
    void *user;
} tv_trace_progress;

/* The caller frees it with tv_trace_summary_free. TV_ERR_INPUT: no readable trace. */
TV_API tv_status tv_trace_summarize(const char *path, const tv_trace_progress *progress, const tv_diag_sink *sink,
                                    tv_trace_summary **out);
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
    const char *key, *before, *after; /* NULL: it has none */
} tv_trace_setting_change;

typedef struct tv_trace_diff {
    uint64_t before, after; /* cycles in all */
    int equal;              /* no figure differs */
    const tv_trace_setting_change *settings;
    unsigned setting_count;
    tv_trace_changes engines;       /* "TE0 busy", "TE0 held", "TE0 idle" */
    tv_trace_changes stall_reasons; /* cycles that engines were held, by cause */
    tv_trace_changes layers, ops;   /* cycles that engines worked */
} tv_trace_diff;

/* Both summaries must outlive the result. TV_ERR_INPUT: they are of different machines. */
TV_API tv_status tv_trace_compare(const tv_trace_summary *before, const tv_trace_summary *after,
                                  const tv_diag_sink *sink, tv_trace_diff **out);
TV_API void tv_trace_diff_free(tv_trace_diff *diff);

/* Writes the trace at `in` to `out` ("-": standard output; ".zst" at its end compresses) in a format. The JSON trace to
 * itself keeps everything; Chrome trace events do not have CMD_EVENT, CSV has the events alone, and none is read from
 * CSV. */
TV_API tv_status tv_trace_convert(const char *in, const char *out, tv_trace_format format,
                                  const tv_trace_progress *progress, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
