/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a machine's state. A machine has one function that shows its parts in turn; the same walk takes a copy and puts it
 * back, so that the two cannot drift apart. */
#ifndef TV_MACHINE_SNAPSHOT_H
#define TV_MACHINE_SNAPSHOT_H

#include "base/buf.h"
#include "program/program.h"
#include "sim/image.h"
#include "trivet/machine.h"

typedef struct tv_parts tv_parts;

/* `size` bytes of plain state. */
void tv_part_bytes(tv_parts *parts, void *bytes, size_t size);

/* A buffer's bytes, whatever their number. */
void tv_part_buf(tv_parts *parts, tv_buf *buf);

/* Simulated memory. */
void tv_part_memory(tv_parts *parts, tv_memory *memory);

/* The state is being put back. */
bool tv_parts_restoring(const tv_parts *parts);

/* What could not be had is told with TV_ERR_MEMORY in the end. */
void tv_parts_fail(tv_parts *parts);

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
typedef void tv_show_parts(void *state, tv_parts *parts);
tv_status tv_snapshot_take(void *state, tv_show_parts *show, const tv_snapshot *near, uint64_t limit, tv_snapshot **out);
tv_status tv_snapshot_restore(void *state, tv_show_parts *show, const tv_snapshot *snapshot);

#endif
