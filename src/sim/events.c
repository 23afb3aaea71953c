/* SPDX-License-Identifier: Apache-2.0 */
/* Emitting trace events. */
#include "sim/events.h"

void tv_event_locate(tv_event *event, const tv_program *program, uint64_t index)
{
    tv_source_line line;
    if (!program)
        return;
    if (tv_program_line(program, index, &line)) {
        event->file = line.file;
        event->line = line.line;
    }
    tv_symbol label;
    if (!event->layer && tv_program_label(program, index, &label))
        event->layer = label.name;
}

void tv_emit(const tv_emitter *emitter, tv_event *event)
{
    if (event->index >= 0 && (uint64_t)event->index >= emitter->index_base)
        tv_event_locate(event, emitter->program, (uint64_t)event->index - emitter->index_base);
    emitter->sink->event(emitter->sink->user, event);
}

void tv_emit_issue(const tv_emitter *emitter, const char *engine, int64_t index, const char *op, uint64_t cycle)
{
    tv_event event = tv_event_of(TV_EVENT_COMMAND, engine, index, cycle, cycle + 1);
    event.op = op;
    tv_emit(emitter, &event);
}
