/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder of commit records (recorder.c), which machine.c calls when something happens, and commit.c asks. */
#ifndef TV_MACHINE_RECORDER_H
#define TV_MACHINE_RECORDER_H

#include "base/vec.h"
#include "machine/instance.h"

enum { TV_RECORDED_SPACES = 16 };

/* A range that the next instruction accesses. `before` and `after` are offsets in the recorder's bytes. */
typedef struct tv_recorded_range {
    unsigned space;
    uint64_t byte;
    size_t before, after;
    tv_effect effect;
} tv_recorded_range;

/* An instruction whose record has been sent without its end. */
typedef struct tv_pending_record {
    uint64_t index; /* over all programs */
    uint64_t order, issue;
    bool complete;
} tv_pending_record;

typedef struct tv_recorded_space {
    tv_space info;
    unsigned base;  /* the space that has the bytes */
    uint64_t scale; /* units of that per unit */
} tv_recorded_space;

struct tv_recorder {
    tv_machine *machine;
    tv_commit_sink sink;        /* without a function: none */
    tv_commit_sink completions; /* of COMPLETION records, whatever `sink` receives; the same */
    unsigned contents;
    uint64_t order, executed;
    tv_recorded_space spaces[TV_RECORDED_SPACES];
    unsigned space_count;
    TV_VEC(tv_access) accesses;
    TV_VEC(tv_recorded_range) ranges;
    TV_VEC(tv_effect) effects;
    tv_values values;
    TV_VEC(tv_pending_record) pending;
    size_t first_pending; /* those before it are complete */
    bool pending_unsorted;
    tv_buf bytes;
};

/* The machine's recorder, created when there is none. NULL: out of memory. */
tv_recorder *tv_recorder_of(tv_machine *machine);
void tv_recorder_free(tv_recorder *recorder);

/* Sends the COMPLETION records of instructions whose records have TV_COMMIT_CYCLES to `sink`, beside those of
 * tv_machine_commits; NULL ends it. */
tv_status tv_machine_completions(tv_machine *machine, const tv_commit_sink *sink);

/* Emits the completions of instructions in flight as if the run ended at this point. */
void tv_machine_flush_completions(tv_machine *machine);

/* Whether commit records are sent, and whether they need the machine's events. `recorder` may be NULL. */
bool tv_recorder_is_active(const tv_recorder *recorder);
bool tv_recorder_needs_events(const tv_recorder *recorder);

/* Describes the next instruction, or `*word`, in *commit, and copies what it reads and overwrites. False: out of
 * memory. */
bool tv_recorder_begin(tv_recorder *recorder, unsigned contents, const uint64_t *word, tv_commit *commit);

/* Completes and sends the record of an instruction that has executed, or faulted with `fault`. `index` is its number
 * over all programs. False: out of memory. */
bool tv_recorder_finish(tv_recorder *recorder, unsigned contents, uint64_t index, const tv_fault *fault,
                        tv_commit *commit);

/* Whether runs must be observed, one instruction at a time, and such a run: as tv_machine_run. */
bool tv_machine_is_observed(const tv_machine *machine);
tv_status tv_machine_run_observed(tv_machine *machine, const tv_run_limits *limits, tv_stop_reason *why);

/* Receives an event of the machine. */
void tv_recorder_event(tv_recorder *recorder, const tv_event *event);

/* Records that `bytes` bytes of `data` were written from outside to `space`, from unit `addr` on, or read. */
void tv_recorder_host_access(tv_machine *machine, const tv_space *space, uint64_t addr, const void *data, size_t bytes,
                             bool write);

/* Records that the data segments of the loaded program were written. */
void tv_recorder_load(tv_machine *machine);

#endif
