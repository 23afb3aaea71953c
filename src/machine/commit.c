/* SPDX-License-Identifier: Apache-2.0 */
/* Commit records and single words: the public interface of the recorder. */
#include "machine/recorder.h"

/* Ends the events of the target, which emits those of instructions in flight: not to the trace, and to the recorder
 * unless that is muted. */
static void detach_events(tv_machine *machine, bool mute_recorder)
{
    machine->mute_trace = true;
    machine->mute_recorder = mute_recorder;
    tv_machine_attach_events(machine, false);
    machine->mute_trace = machine->mute_recorder = false;
}

static void attach_events(tv_machine *machine)
{
    tv_machine_attach_events(machine, machine->sink.event || tv_recorder_needs_events(machine->recorder));
}

tv_status tv_machine_commits(tv_machine *machine, unsigned contents, const tv_commit_sink *sink)
{
    tv_recorder *r = tv_recorder_of(machine);
    if (!r)
        return TV_ERR_MEMORY;
    detach_events(machine, false);
    r->pending.count = r->first_pending = 0;
    r->sink = sink ? *sink : (tv_commit_sink){0};
    r->contents = contents;
    attach_events(machine);
    return TV_OK;
}

tv_status tv_machine_completions(tv_machine *machine, const tv_commit_sink *sink)
{
    tv_recorder *r = tv_recorder_of(machine);
    if (!r)
        return TV_ERR_MEMORY;
    detach_events(machine, true);
    r->completions = sink ? *sink : (tv_commit_sink){0};
    attach_events(machine);
    return TV_OK;
}

void tv_machine_flush_completions(tv_machine *machine)
{
    detach_events(machine, false);
    attach_events(machine);
}

tv_status tv_machine_execute(tv_machine *machine, uint64_t word, unsigned contents, tv_commit *out)
{
    const tv_target *target = machine->target;
    tv_recorder *r = tv_recorder_of(machine);
    tv_commit ignored, *commit = out ? out : &ignored;
    if (!target->execute)
        return TV_ERR_INPUT;
    if (!r)
        return TV_ERR_MEMORY;
    if (tv_recorder_is_active(r))
        contents |= r->contents;
    if (!tv_recorder_begin(r, contents, &word, commit))
        return TV_ERR_MEMORY;
    uint64_t dropped = target->next(machine->state);
    tv_status status = target->execute(machine->state, word);
    target->collect(machine->state, NULL);
    if (status != TV_OK && status != TV_FAULT)
        return status;
    machine->program = NULL;
    machine->instruction_base += dropped;
    commit->index = r->executed++;
    uint64_t index = machine->instruction_base;
    machine->instruction_base += status == TV_OK;
    bool recorded =
        tv_recorder_finish(r, contents, index, status == TV_OK ? NULL : target->fault(machine->state), commit);
    if (status == TV_FAULT)
        target->clear_fault(machine->state);
    return recorded ? TV_OK : TV_ERR_MEMORY;
}
