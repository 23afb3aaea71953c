/* SPDX-License-Identifier: Apache-2.0 */
/* The public machine from the inside: what machine.c, recorder.c and commit.c share. */
#ifndef TV_MACHINE_INSTANCE_H
#define TV_MACHINE_INSTANCE_H

#include "machine/target.h"

typedef struct tv_recorder tv_recorder;

struct tv_machine {
    const tv_target *target;
    tv_config *config;
    tv_mode mode;
    void *state;
    tv_trace_sink sink; /* the caller's */
    bool trace_accesses;
    const tv_program *program; /* borrowed */
    uint64_t instruction_base; /* instructions of programs before the loaded one */
    uint64_t load_count;
    tv_buf text;           /* of the last state value */
    tv_recorder *recorder; /* NULL: no commit records were asked for yet */
    bool mute_trace, mute_recorder;
    bool mapped; /* a space has the caller's bytes */
};

/* Attaches the machine's events to its trace sink and recorder, or detaches them. Events of instructions in flight are
 * emitted as if the run ended at this point when they are detached. */
void tv_machine_attach_events(tv_machine *machine, bool attach);

#endif
