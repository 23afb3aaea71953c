/* SPDX-License-Identifier: Apache-2.0 */
/* What exec.c and vector.c share: an entry under way, and its tiles as arrays of binary32. */
#ifndef TV_MACHINE_CMDQ_EXEC_H
#define TV_MACHINE_CMDQ_EXEC_H

#include "machine/cmdq/machine.h"

typedef struct cmdq_run {
    const cmdq_queue *queue;
    const cmdq_params *shape;
    cmdq_memories *memories;
    const cmdq_entry *entry;
    const cmdq_op *op;
    cmdq_error *wrong;
    bool no_memory;
} cmdq_run;

static inline uint64_t cmdq_get(const cmdq_run *r, cmdq_field field) { return cmdq_integer(r->queue, r->entry, field); }

static inline float cmdq_get_real(const cmdq_run *r, cmdq_field field)
{
    return (float)cmdq_real(r->queue, r->entry, field);
}

/* Room that lives until the same scratch is asked for again; NULL sets no_memory. */
void *cmdq_scratch(cmdq_run *r, unsigned which, uint64_t bytes);

/* Where a tile's bytes are on the host, until bytes of it are written. What the entry writes must be all of a tile. */
uint8_t *cmdq_bytes(const cmdq_run *r, const cmdq_tile *tile);

/* The same of a tile that is read, as rows of `row_bytes`, *stride apart. */
const uint8_t *cmdq_rows(const cmdq_run *r, const cmdq_tile *tile, uint64_t row_bytes, uint64_t *stride);

/* Copies rows of `bytes` that lie so many steps apart. */
void cmdq_copy_rows(uint8_t *to, uint64_t to_step, const uint8_t *from, uint64_t from_step, uint64_t rows,
                    uint64_t bytes);

/* Puts a load off until somebody looks. False: it must be done now. */
bool cmdq_defer_load(const cmdq_run *r, const cmdq_tile *spm, const cmdq_tile *dram);

/* Between packed elements and binary32. Packing rounds to nearest even, clamps integers, and makes NaNs canonical. */
void cmdq_unpack(const uint8_t *packed, unsigned qbits, uint64_t count, float *out);
void cmdq_pack(const float *values, unsigned qbits, uint64_t count, uint8_t *packed);

/* The elements of a tile, times `scale`: in scratch `which`, or where they lie, if they are such numbers already. NULL:
 * `tile` is, or there is no memory. */
const float *cmdq_numbers(cmdq_run *r, const cmdq_tile *tile, uint64_t count, float scale, unsigned which);

/* vector.c */
void cmdq_vector(cmdq_run *r);

#endif
