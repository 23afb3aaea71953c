/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files as a stream of events: the JSON trace and Chrome trace events as this library writes them, compressed or
 * not, of any size, in bounded memory. */
#ifndef TV_TRACE_READER_H
#define TV_TRACE_READER_H

#include "base/stream.h"
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

/* Reads `stream`, which stays the caller's, to its end; `name` is the file name in messages. TV_ERR_INPUT: an error was
 * reported with its line and column in the uncompressed text. */
tv_status tv_trace_read(const char *name, tv_stream *stream, const tv_trace_handler *handler, const tv_diag_sink *sink);

/* The parameters of a machine, to find those that a run has changed. NULL: the target is unknown. */
typedef struct tv_config *tv_trace_config_fn(const char *target);

/* tv_trace_convert and tv_trace_summarize (trivet/trace_file.h) on streams. `new_config` may be NULL: then every
 * setting counts as changed. */
tv_status tv_trace_convert_stream(const char *name, tv_stream *stream, FILE *out, tv_trace_format format,
                                  const tv_trace_progress *progress, const tv_diag_sink *sink);
tv_status tv_trace_summarize_stream(const char *name, tv_stream *stream, tv_trace_config_fn *new_config,
                                    const tv_trace_progress *progress, const tv_diag_sink *sink,
                                    tv_trace_summary **out);

#endif
