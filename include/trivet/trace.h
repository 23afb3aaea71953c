/* SPDX-License-Identifier: Apache-2.0 */
/* Trace events of a simulated machine, and the writers that turn them into files.
 *
 * A machine hands each event to its sink as soon as the event is settled: an instruction's events when its end is
 * known, so that they come in no strict order of time. Strings of an event live until the sink returns. */
#ifndef TRIVET_TRACE_H
#define TRIVET_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tv_program;

typedef enum tv_event_kind {
    TV_EVENT_ENGINE,   /* an engine worked on an instruction from start to end */
    TV_EVENT_STALL,    /* an engine was held from start to end by `cause` */
    TV_EVENT_COMMAND,  /* instruction `index` was issued at start */
    TV_EVENT_STATUS,   /* an asynchronous instruction completed at start (STAT_OUT) */
    TV_EVENT_MARKER,   /* the caller's mark, see tv_machine_trace_marker */
    TV_EVENT_TRANSFER, /* `bytes` moved over `path` between start and end */
    TV_EVENT_TOKEN,    /* a model's step over tokens, see tv_machine_trace_token */
    TV_EVENT_LOAD,     /* `program` was loaded: its first instruction is `index`. Lives until the next load */
    TV_EVENT_ACCESS, /* instruction `index` reads or writes `bytes` bytes of `space` from unit `addr` on; without times,
                        which its ENGINE event has. Only after tv_machine_trace_accesses */
} tv_event_kind;

typedef struct tv_event {
    tv_event_kind kind;
    const char *engine;  /* "GEMV"; NULL for MARKER, TRANSFER, TOKEN, LOAD and ACCESS */
    int64_t index;       /* instruction, counted over all programs of the machine; -1: none. Of a TOKEN: its position */
    const char *op;      /* the instruction's id, or the marker's text; of a TOKEN "prefill" or "decode" */
    uint64_t start, end; /* cycles; end is exclusive */
    const char *reason;  /* STALL */
    int scheduler;       /* STALL: of the scheduler, which waits for the engines; not of a working engine */
    unsigned engine_id;  /* which of several engines of that name */
    const char *lane;    /* the engine's name among the statistics' where it is not `engine`: "TE1" */
    const char *layer;   /* layer of a model, or the label that the instruction stands behind; NULL: none */
    int64_t waits_for;   /* STALL: the instruction waited for, -1: none */
    uint32_t routes[2];  /* ENGINE: route codes in and out; 0: none */
    uint64_t bytes;      /* ENGINE, TRANSFER, ACCESS */
    uint64_t macs;       /* ENGINE */
    const char *path;    /* TRANSFER */
    int write;           /* TRANSFER: towards host memory; ACCESS: written, not read */
    int kv;              /* TRANSFER: of the KV cache */
    uint64_t tokens;     /* TOKEN: how many */
    const struct tv_program *program; /* LOAD */
    const char *space;                /* ACCESS */
    uint64_t addr;                    /* ACCESS, in units of the space */
    const char *file;                 /* the instruction's source, or NULL */
    unsigned line;
} tv_event;

typedef struct tv_trace_sink {
    void (*event)(void *user, const tv_event *event);
    void *user;
} tv_trace_sink;

/* A writer of trace files. Make one, give its sink to a machine (tv_machine_trace), then finish it with the machine's
 * statistics. The file appears whole on tv_trace_finish, or not at all. */
typedef struct tv_trace_writer tv_trace_writer;
typedef enum tv_trace_format {
    TV_TRACE_JSON,
    TV_TRACE_PERFETTO,
    TV_TRACE_CSV /* of tv_trace_convert alone */
} tv_trace_format;

struct tv_machine;

/* Begins a file at `path` ("-": standard output; one that ends in ".zst" is compressed) for a run of `machine`, whose
 * configuration goes into its head. */
TV_API tv_status tv_trace_open(const char *path, tv_trace_format format, const struct tv_machine *machine,
                               const tv_diag_sink *sink, tv_trace_writer **out);
TV_API tv_trace_sink tv_trace_writer_sink(tv_trace_writer *writer);

/* Writes the summary, closes the file, frees the writer. */
TV_API tv_status tv_trace_finish(tv_trace_writer *writer, const struct tv_machine *machine, const tv_diag_sink *sink);
TV_API void tv_trace_abandon(tv_trace_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
