/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a machine's state. A machine has one function that visits its state, member by member; the same function
 * saves and restores, so that the two cannot differ. */
#ifndef TV_MACHINE_SNAPSHOT_H
#define TV_MACHINE_SNAPSHOT_H

#include "base/buf.h"
#include "program/program.h"
#include "sim/image.h"
#include "trivet/machine.h"

typedef struct tv_state_visitor tv_state_visitor;

/* Visits `size` bytes of plain state. */
void tv_visit_bytes(tv_state_visitor *visitor, void *bytes, size_t size);

/* Visits the contents of a buffer of any length. */
void tv_visit_buf(tv_state_visitor *visitor, tv_buf *buf);

/* Visits simulated memory. */
void tv_visit_memory(tv_state_visitor *visitor, tv_memory *memory);

/* Whether the visit restores the state. */
bool tv_visit_is_restoring(const tv_state_visitor *visitor);

/* Records that the host has no memory: the snapshot or the restoring fails with TV_ERR_MEMORY. */
void tv_visit_fail(tv_state_visitor *visitor);

enum { TV_IMAGES_MAX = 2 };

struct tv_snapshot {
    tv_buf bytes;
    tv_image images[TV_IMAGES_MAX];
    unsigned image_count;
    uint64_t size; /* bytes that it does not share */
    const tv_program *program;
    uint64_t instruction_base;
};

typedef void tv_visit_state(void *state, tv_state_visitor *visitor);

/* See tv_machine_snapshot and tv_machine_restore. */
tv_status tv_snapshot_take(void *state, tv_visit_state *visit, const tv_snapshot *near, uint64_t limit,
                           tv_snapshot **out);
tv_status tv_snapshot_restore(void *state, tv_visit_state *visit, const tv_snapshot *snapshot);

#endif
