/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files as a stream of events: the JSON trace and Chrome trace events as this library writes them, compressed or
 * not, of any size, in bounded memory. */
#ifndef TV_TRACE_READER_H
#define TV_TRACE_READER_H

#include "base/stream.h"
#include "trace/handler.h"
#include "trivet/config.h"
#include "trivet/trace_file.h"

/* Reads `stream`, which stays the caller's, to its end; `name` is the file name in messages. TV_ERR_INPUT: an error was
 * reported with its line and column in the uncompressed text. */
tv_status tv_trace_read(const char *name, tv_stream *stream, const tv_trace_handler *handler, const tv_diag_sink *sink);

/* Creates the default parameters of a machine, to find those that a run has changed; the caller frees them.
 * TV_ERR_INPUT: there is no such target. */
typedef tv_status tv_trace_config_fn(const char *target, tv_config **out);

/* tv_trace_convert and tv_trace_summarize (trivet/trace_file.h) on streams. `new_config` may be NULL: then every
 * setting counts as changed. */
tv_status tv_trace_convert_stream(const char *name, tv_stream *stream, FILE *out, tv_trace_format format,
                                  const tv_trace_progress *progress, const tv_diag_sink *sink);
tv_status tv_trace_summarize_stream(const char *name, tv_stream *stream, tv_trace_config_fn *new_config,
                                    const tv_trace_progress *progress, const tv_diag_sink *sink,
                                    tv_trace_summary **out);

#endif
