/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a machine's state. A machine has one function that shows its parts in turn; the same walk takes a copy and
 * puts it back, so that the two cannot drift apart. */
#ifndef TV_MACHINE_SNAPSHOT_H
#define TV_MACHINE_SNAPSHOT_H

#include "base/buf.h"
#include "program/program.h"
#include "sim/image.h"
#include "trivet/machine.h"

typedef struct tv_state_visitor tv_state_visitor;

/* `size` bytes of plain state. */
void tv_visit_bytes(tv_state_visitor *parts, void *bytes, size_t size);

/* A buffer's bytes, whatever their number. */
void tv_visit_buf(tv_state_visitor *parts, tv_buf *buf);

/* Simulated memory. */
void tv_visit_memory(tv_state_visitor *parts, tv_memory *memory);

/* The state is being put back. */
bool tv_visit_is_restoring(const tv_state_visitor *parts);

/* What could not be had is told with TV_ERR_MEMORY in the end. */
void tv_visit_fail(tv_state_visitor *parts);

enum { TV_IMAGES_MAX = 2 };

struct tv_snapshot {
    tv_buf bytes;
    tv_image images[TV_IMAGES_MAX];
    unsigned image_count;
    uint64_t size; /* what it takes by itself */
    const tv_program *program;
    uint64_t before;
};

/* `show` is the machine's function. */
typedef void tv_visit_state(void *state, tv_state_visitor *parts);
tv_status tv_snapshot_take(void *state, tv_visit_state *show, const tv_snapshot *near, uint64_t limit,
                           tv_snapshot **out);
tv_status tv_snapshot_restore(void *state, tv_visit_state *show, const tv_snapshot *snapshot);

#endif
