/* SPDX-License-Identifier: Apache-2.0 */
/* An operation that is being executed, and its tiles on the host: in place, as rows, or unpacked to arrays in scratch
 * memory. */
#ifndef TV_MACHINE_CMDQ_EXEC_H
#define TV_MACHINE_CMDQ_EXEC_H

#include "machine/cmdq/internal.h"

typedef struct cmdq_exec {
    const cmdq_queue *queue;
    const cmdq_params *params;
    cmdq_memories *memories;
    const cmdq_entry *entry;
    const cmdq_op *op;
    cmdq_error *error;
    cmdq_outcome outcome;
} cmdq_exec;

/* A row of a vector operation: n values of x become n values of y, or one of a reduction. */
typedef struct cmdq_row {
    const float *x;
    float *y;
    const float *second, *gamma, *beta; /* or NULL */
    const float *cos_sin;               /* ROPE: cosines, then sines, of this row's position */
    uint64_t n;
    uint64_t index; /* its number, if rows are not cut */
} cmdq_row;

static inline uint64_t cmdq_exec_integer(const cmdq_exec *x, cmdq_field field)
{
    return cmdq_integer(x->queue, x->entry, field);
}

static inline float cmdq_exec_real(const cmdq_exec *x, cmdq_field field)
{
    return (float)cmdq_real(x->queue, x->entry, field);
}

/* Inner values: `count` results from element `first` on, before they are rounded to the output's type. */
static inline void cmdq_append_results(const cmdq_exec *x, const float *values, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; x->memories->values && i < count; i++)
        tv_values_real(x->memories->values, "result", first + i, (double)values[i]);
}

static inline bool cmdq_is_out_of_memory(const cmdq_exec *x) { return x->outcome == CMDQ_NO_MEMORY; }

/* Scratch buffers by use. Those of activations keep their contents from entry to entry (cmdq_packed_input). */
typedef enum cmdq_scratch_use {
    CMDQ_SCRATCH_A,      /* first operand */
    CMDQ_SCRATCH_B,      /* second operand */
    CMDQ_SCRATCH_ADDEND, /* TE: outputs that are accumulated to; VE: gamma, or factors of angles */
    CMDQ_SCRATCH_OUT,
    CMDQ_SCRATCH_ROW, /* TE: reordered operands; VE: beta */
    CMDQ_SCRATCH_PACKED,
    CMDQ_SCRATCH_PACKED_SUMS,
    CMDQ_SCRATCH_BIAS,   /* TE: bias; VE: cosines and sines */
    CMDQ_SCRATCH_SCALES, /* TE: of weights; VE: a second input before it is repeated */
    /* TE: operands whose rows are apart in SPM, side by side */
    CMDQ_SCRATCH_PACKED_A,
    CMDQ_SCRATCH_PACKED_B,
    CMDQ_SCRATCH_PACKED_OUT,
} cmdq_scratch_use;
_Static_assert(CMDQ_SCRATCH_PACKED_OUT + 1 == CMDQ_SCRATCHES, "a buffer for each use");

/* `bytes` of scratch memory, valid until the next call for the same use; that of packed activations only while no
 * product is deferred. NULL, with the outcome CMDQ_NO_MEMORY, when out of memory. */
void *cmdq_scratch(cmdq_exec *x, cmdq_scratch_use use, uint64_t bytes);

/* Appends `bytes` to the buffer, which may move: earlier pointers into it are invalid. NULL when out of memory. */
void *cmdq_extend_scratch(cmdq_exec *x, cmdq_scratch_use use, uint64_t bytes);

/* deferred_loads.c */

/* The bytes of a tile on the host, valid until some of them are written; those that deferred products and stores write
 * are not current. A tile that is written must be written in full, all of its rows. */
uint8_t *cmdq_tile_bytes(const cmdq_exec *x, const cmdq_tile *tile);

/* A tile that is read, as rows of `row_bytes`, *stride bytes from row to row. */
const uint8_t *cmdq_tile_rows(const cmdq_exec *x, const cmdq_tile *tile, uint64_t row_bytes, uint64_t *stride);

/* Copies `rows` rows of `bytes`; strides are in bytes. */
void cmdq_copy_rows(uint8_t *to, uint64_t to_stride, const uint8_t *from, uint64_t from_stride, uint64_t rows,
                    uint64_t bytes);

/* Defers a load from tile `dram` to tile `spm`. Returns false if it must be executed now. */
bool cmdq_defer_load(const cmdq_exec *x, const cmdq_tile *spm, const cmdq_tile *dram);

/* rope.c */

/* [rows][rotary_dim]: cosines, then sines, of the angles of each row's position, in scratch memory. NULL when out of
 * memory. */
const float *cmdq_load_cos_sin(cmdq_exec *x);

static inline uint64_t cmdq_rotary_dim(const cmdq_exec *x)
{
    bool is_given = cmdq_has_field(x->queue, x->entry, CMDQ_F_rotary_dim);
    return cmdq_exec_integer(x, is_given ? CMDQ_F_rotary_dim : CMDQ_F_head_dim);
}

/* tiles.c */

/* From packed elements to arrays. */
void cmdq_unpack_f32(const uint8_t *packed, unsigned qbits, uint64_t count, float *out);
void cmdq_unpack_s8(const uint8_t *packed, unsigned qbits, uint64_t count, int8_t *out);

/* A tile that is read, with its rows side by side: in place, or in scratch memory if they are apart. NULL when out of
 * memory. */
const uint8_t *cmdq_tile_packed(cmdq_exec *x, const cmdq_tile *tile, cmdq_scratch_use use);

/* The elements of a tile times `scale`, as binary32: in scratch memory, or in place where they are such numbers. NULL
 * if `tile` is NULL or memory is exhausted. */
const float *cmdq_tile_f32(cmdq_exec *x, const cmdq_tile *tile, uint64_t count, float scale, cmdq_scratch_use use);

#endif
