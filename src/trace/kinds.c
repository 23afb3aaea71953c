/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the kinds of events in trace files. */
#include "trace/kinds.h"

const char *const tv_trace_kind_names[TV_EVENT_ACCESS + 1] = {
    [TV_EVENT_ENGINE] = "ENGINE_EVENT", [TV_EVENT_STALL] = "STALL_EVENT",   [TV_EVENT_COMMAND] = "CMD_EVENT",
    [TV_EVENT_STATUS] = "STAT_OUT",     [TV_EVENT_MARKER] = "MARKER_EVENT", [TV_EVENT_TRANSFER] = "TRANSFER",
    [TV_EVENT_TOKEN] = "TOKEN_EVENT"};
