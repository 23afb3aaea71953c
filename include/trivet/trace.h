/* SPDX-License-Identifier: Apache-2.0 */
/* Trace events of a simulated machine, and writers of trace files.
 *
 * A machine emits the events of an instruction when its end is known, so events are not strictly ordered by time. The
 * strings of an event are valid until the sink returns; those of the library and the machine are constants, which stay
 * where they are while the machine exists: engine, lane, reason, role, mode, and op but that of MARKER and TOKEN. Those
 * of the program, file and layer, stay there until another one is loaded or restored. */
#ifndef TRIVET_TRACE_H
#define TRIVET_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "trivet/diag.h"
#include "trivet/file.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tv_program;

/* An energy: joules + attojoules * 10^-18; attojoules is below 10^18. */
typedef struct tv_joules {
    uint64_t joules, attojoules;
} tv_joules;

/* An interval: what the uncertainty of the tables allows (trivet/energy.h). */
typedef struct tv_energy {
    tv_joules low, nominal, high;
} tv_energy;

typedef enum tv_event_kind {
    TV_EVENT_ENGINE,   /* an engine is busy with an instruction from start to end */
    TV_EVENT_STALL,    /* an engine is stalled from start to end for `reason` */
    TV_EVENT_COMMAND,  /* instruction `index` issues at start */
    TV_EVENT_STATUS,   /* an asynchronous instruction completes at start (STAT_OUT) */
    TV_EVENT_MARKER,   /* see tv_machine_trace_marker */
    TV_EVENT_TRANSFER, /* `bytes` bytes move over `path` between start and end */
    TV_EVENT_TOKEN,    /* a model's step, see tv_machine_trace_token */
    TV_EVENT_LOAD,     /* `program` is loaded; its first instruction is `index`. Valid until the next load */
    TV_EVENT_ACCESS,   /* instruction `index` reads or writes `bytes` bytes of `space`, from unit `addr` on. Without
                          times,   which its ENGINE event has. Only with tv_machine_trace_accesses */
    TV_EVENT_CONTROL,  /* instruction `index`, which no engine executes, completes at start: CMDQ. Not in files */
} tv_event_kind;

typedef struct tv_event {
    tv_event_kind kind;
    const char *engine;  /* "GEMV"; NULL for MARKER, TRANSFER, TOKEN, LOAD and ACCESS */
    int64_t index;       /* instruction, counted over all programs of the machine; -1: none. TOKEN: position */
    const char *op;      /* instruction id; MARKER: its text; TOKEN: "prefill" or "decode" */
    uint64_t start, end; /* cycles; end is exclusive */
    const char *reason;  /* STALL */
    int scheduler;       /* STALL: of the scheduler, which waits for the engines, not of an engine */
    unsigned engine_id;  /* which of several engines of that name */
    const char *lane;    /* name of the engine in tv_stats where it differs from `engine`: "TE1" */
    const char *layer;   /* layer of a model, or the last label at or before the instruction; NULL: none */
    int64_t waits_for;   /* STALL: the instruction waited for; -1: none */
    uint32_t routes[2];  /* ENGINE: route codes in and out; 0: none */
    uint64_t bytes;      /* ENGINE, TRANSFER, ACCESS */
    uint64_t macs;       /* ENGINE */
    const char *path;    /* TRANSFER */
    int write;           /* TRANSFER: to host memory; ACCESS: a write */
    int kv;              /* TRANSFER: of the KV cache */
    uint64_t tokens;     /* TOKEN: number of tokens */
    const struct tv_program *program; /* LOAD */
    const char *space;                /* ACCESS */
    uint64_t addr;                    /* ACCESS: in units of the space */
    const char *file;                 /* source location of the instruction, or NULL */
    unsigned line;
    const char *role; /* role of the instruction's tensor, or NULL */
    const char *mode; /* step of a model that the instruction belongs to, or NULL */
    tv_energy energy; /* of the instruction: in one of its events, ENGINE if it has one, otherwise COMMAND or CONTROL.
                         Zero for sinks without it */
} tv_event;

/* Receiver of events. `event` must not be NULL. */
typedef struct tv_trace_sink {
    void (*event)(void *user, const tv_event *event);
    void *user;
    int without_energy; /* `energy` of events is not read, so that the machine need not compute it */
} tv_trace_sink;

/* A writer of a trace file. Open one, attach its sink to a machine with tv_machine_trace, run, detach it, then finish
 * the file. The file appears complete on tv_trace_finish, or not at all. */
typedef struct tv_trace_writer tv_trace_writer;

typedef enum tv_trace_format {
    TV_TRACE_JSON,
    TV_TRACE_PERFETTO, /* Chrome trace events */
    TV_TRACE_CSV,      /* of tv_trace_convert only */
    TV_TRACE_VCD,      /* likewise: a waveform */
    TV_TRACE_PFTRACE   /* Perfetto's own packets */
} tv_trace_format;

struct tv_machine;

/* Starts a trace file of `format` at `path` ("-": standard output; a name ending in ".zst" is compressed, one ending in
 * ".pftrace" before that selects Perfetto's packets) for a run of `machine`, whose configuration is written to the
 * header; it must exist until the last event is sent to the writer. The caller ends it with tv_trace_finish or
 * tv_trace_abandon. TV_ERR_INPUT: the format is CSV or VCD; TV_ERR_IO: the file cannot be written; TV_ERR_MEMORY. */
TV_API tv_status tv_trace_open(const char *path, tv_trace_format format, const struct tv_machine *machine,
                               const tv_diag_sink *sink, tv_trace_writer **out);

/* The sink to attach to the machine, which then is the only one that sends events to it. Another sink may be attached
 * instead, and forward events to it, also with strings of its own. Valid until `writer` is freed. */
TV_API tv_trace_sink tv_trace_writer_sink(tv_trace_writer *writer);

/* Writes the summary of `machine`, completes the file and frees `writer`, also on failure. TV_ERR_IO: the file could
 * not be written and does not appear. */
TV_API tv_status tv_trace_finish(tv_trace_writer *writer, const struct tv_machine *machine, const tv_diag_sink *sink);

/* Finishes `writer` with `machine` as tv_trace_finish does; the file is put in place with `group`, which may be NULL.
 * TV_ERR_IO as there; TV_ERR_MEMORY. */
TV_API tv_status tv_trace_finish_to(tv_trace_writer *writer, const struct tv_machine *machine, tv_output_group *group,
                                    const tv_diag_sink *sink);

/* Frees `writer`, which may be NULL; no file appears. */
TV_API void tv_trace_abandon(tv_trace_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
