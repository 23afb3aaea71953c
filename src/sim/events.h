/* SPDX-License-Identifier: Apache-2.0 */
/* The trace events of a timing model: an emitter adds the source line of an event's instruction and hands the event to
 * the trace sink. Building an event costs more than accounting for it, so that callers test tv_is_traced first. */
#ifndef TV_SIM_EVENTS_H
#define TV_SIM_EVENTS_H

#include "base/base.h"
#include "program/program.h"
#include "trivet/trace.h"

typedef struct tv_emitter {
    const tv_trace_sink *sink; /* NULL: the run is not traced */
    const tv_program *program; /* the loaded program, or NULL */
    uint64_t index_base;       /* number of its first instruction over all programs of the machine */
} tv_emitter;

static inline bool tv_is_traced(const tv_emitter *emitter) { return emitter->sink != NULL; }

/* Whether the events of a traced run need their energy. */
static inline bool tv_needs_energy(const tv_emitter *emitter) { return !emitter->sink->without_energy; }

/* An event of instruction `index` (-1: none) that waits for no other instruction. */
static inline tv_event tv_event_of(tv_event_kind kind, const char *engine, int64_t index, uint64_t start, uint64_t end)
{
    return (tv_event){.kind = kind, .engine = engine, .index = index, .start = start, .end = end, .waits_for = -1};
}

/* Sets the source line of instruction `index` of `program`, and, where the event has no layer, the instruction's label.
 * `program` may be NULL. */
void tv_event_locate(tv_event *event, const tv_program *program, uint64_t index);

/* Sends `event` to the sink, after tv_event_locate if its instruction belongs to the loaded program: it stays located,
 * and cannot be used for another instruction. The run is traced. */
void tv_emit(const tv_emitter *emitter, tv_event *event);

/* Instruction `index`, row `op` of the instruction set, leaves the scheduler `engine` in `cycle`. The run is traced. */
void tv_emit_issue(const tv_emitter *emitter, const char *engine, int64_t index, const char *op, uint64_t cycle);

#endif
