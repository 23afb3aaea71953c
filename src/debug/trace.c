/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files of a debugged run. */
#include <stdlib.h>

#include "debug/debug.h"

tv_status tv_debug_trace_start(tv_debug *d, const char *path, tv_trace_format format, const tv_diag_sink *sink)
{
    if (d->options.mode == TV_MODE_FUNCTIONAL)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), NULL, "a functional run has no cycles to trace");
    if (d->trace)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`trace off` ends it",
                       "a trace is being written to %.200s", d->trace_path ? d->trace_path : "another file");
    TV_TRY(tv_trace_open(path, format, d->machine, sink, &d->trace));
    d->trace_path = strdup(path);
    tv_trace_sink events = tv_trace_writer_sink(d->trace);
    tv_machine_trace(d->machine, &events);
    return TV_OK;
}

static void clear_trace(tv_debug *d)
{
    d->trace = NULL;
    free(d->trace_path);
    d->trace_path = NULL;
}

tv_status tv_debug_finish_trace(tv_debug *d, tv_output_group *group, const tv_diag_sink *sink)
{
    if (!d->trace)
        return TV_OK;
    tv_machine_trace(d->machine, NULL);
    tv_status status = tv_trace_finish_to(d->trace, d->machine, group, sink);
    clear_trace(d);
    return status;
}

void tv_debug_abandon_trace(tv_debug *d)
{
    if (!d->trace)
        return;
    tv_machine_trace(d->machine, NULL);
    tv_trace_abandon(d->trace);
    clear_trace(d);
}
