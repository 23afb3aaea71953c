/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of trace files: the reader knows no machines; their parameters come from here. */
#include "trace/reader.h"
#include "trivet/config.h"

static tv_status new_config(const char *target, tv_config **out) { return tv_config_new(target, NULL, out); }

tv_status tv_trace_summarize(const char *path, const tv_trace_progress *progress, const tv_diag_sink *sink,
                             tv_trace_summary **out)
{
    tv_stream *stream;
    tv_status status = tv_stream_open(path, sink, &stream);
    if (status != TV_OK)
        return status;
    status = tv_trace_summarize_stream(path, stream, new_config, progress, sink, out);
    tv_stream_close(stream);
    return status;
}
