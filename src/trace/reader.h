/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files as a stream of events: the JSON trace and Chrome trace events as this library writes them, compressed or
 * not, of any size, in bounded memory.
 *
 * The calls come in this order: begin, every event, every sample, end. Texts live until a call returns, those of the
 * head until tv_trace_read does. A call that returns false ends the reading with TV_ERR_MEMORY. Calls that are NULL are
 * left out. */
#ifndef TV_TRACE_READER_H
#define TV_TRACE_READER_H

#include <jansson.h>

#include "base/stream.h"
#include "trace/put.h"
#include "trivet/trace_file.h"

/* What stands behind the events. The texts are JSON. */
typedef struct tv_trace_tail {
    const json_t *summary; /* an object */
    const char *summary_text;
    const char *const *members; /* pairs of name and text: what this version does not know */
    unsigned member_count;
} tv_trace_tail;

typedef struct tv_trace_calls {
    bool (*begin)(void *user, const tv_trace_head *head, const json_t *run_metadata, const json_t *config);
    bool (*event)(void *user, const tv_event *event, const char *more,
                  const char *more_details); /* see tv_trace_put_event */
    bool (*sample)(void *user, const tv_trace_sample *sample);
    bool (*end)(void *user, const tv_trace_tail *tail);
    void *user;
    const tv_trace_progress *progress; /* or NULL */
} tv_trace_calls;

/* Reads `stream`, which stays the caller's, to its end; `name` stands in messages. TV_ERR_INPUT: what is wrong has been
 * reported, with its line and column in the unpacked text. */
tv_status tv_trace_read(const char *name, tv_stream *stream, const tv_trace_calls *calls, const tv_diag_sink *sink);

/* What tv_trace_convert and tv_trace_summarize (trivet/trace_file.h) do, between streams. */
tv_status tv_trace_convert_stream(const char *name, tv_stream *stream, FILE *out, tv_trace_format format,
                                  const tv_trace_progress *progress, const tv_diag_sink *sink);
tv_status tv_trace_summarise_stream(const char *name, tv_stream *stream, const tv_trace_progress *progress,
                                    const tv_diag_sink *sink, tv_trace_summary **out);

#endif
