/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of a trace that is read. */
#ifndef TV_TRACE_HANDLER_H
#define TV_TRACE_HANDLER_H

#include "trace/encode.h"
#include "trivet/trace_file.h"

/* What precedes the events. */
typedef struct tv_trace_head {
    const char *target;
    double clock_hz;
    const tv_json_value *run_metadata; /* an object */
    const tv_json_value *config;       /* an object, or NULL */
    const char *const *engines;        /* as the statistics name them */
    unsigned engine_count;
} tv_trace_head;

/* What follows the events. */
typedef struct tv_trace_tail {
    const tv_json_value *summary; /* an object */
    const char *const *names;     /* members of the document that this version does not know … */
    const tv_json_value *const *values;
    unsigned count;
} tv_trace_tail;

/* Called in this order: begin, every event, every sample, end. Strings and trees of an event live until the call
 * returns, those of the head until tv_trace_read does. A call that returns false ends the reading with TV_ERR_MEMORY.
 * Members may be NULL. */
typedef struct tv_trace_handler {
    bool (*begin)(void *user, const tv_trace_head *head);
    bool (*event)(void *user, const tv_event *event, const tv_trace_extras *extras);
    bool (*sample)(void *user, const tv_trace_sample *sample);
    bool (*end)(void *user, const tv_trace_tail *tail);
    void *user;
    const tv_trace_progress *progress; /* or NULL */
} tv_trace_handler;

#endif
