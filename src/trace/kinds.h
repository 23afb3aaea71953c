/* SPDX-License-Identifier: Apache-2.0 */
/* What all forms of trace files have in common: names of the kinds of events, and samples of the bandwidth. */
#ifndef TV_TRACE_KINDS_H
#define TV_TRACE_KINDS_H

#include <stdbool.h>

#include "trivet/trace.h"

typedef struct tv_trace_sample {
    uint64_t cycle, window_cycles;
    double read, written, stalled; /* bytes, bytes, cycles of engines */
} tv_trace_sample;

/* "ENGINE_EVENT" and so on; NULL for kinds that files do not have. */
extern const char *const tv_trace_kind_names[TV_EVENT_ACCESS + 1];

/* Whether `op` of a machine's event is a constant: that of a marker or a token is its user's. */
static inline bool tv_trace_has_constant_op(const tv_event *event)
{
    return event->kind != TV_EVENT_MARKER && event->kind != TV_EVENT_TOKEN;
}

#endif
