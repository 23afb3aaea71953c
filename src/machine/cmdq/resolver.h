/* SPDX-License-Identifier: Apache-2.0 */
/* An entry that is being resolved: what the handlers of resolve.c work on. Handlers use banks and offsets in SPM, and
 * dram_addr, only as the start of a tile that must be within its memory, and only the cycles of transfers depend on
 * them: resolve_memo.c relies on it. */
#ifndef TV_MACHINE_CMDQ_RESOLVER_H
#define TV_MACHINE_CMDQ_RESOLVER_H

#include "machine/cmdq/internal.h"

typedef struct cmdq_resolver {
    const cmdq_queue *queue;
    const cmdq_params *params;
    const cmdq_entry *entry;
    cmdq_op *op;
    cmdq_error *error;
    uint64_t *next_dma; /* round robin over the channels: entries without dma_id so far */
} cmdq_resolver;

/* Limit on the cycles of one entry, so that sums over a queue do not overflow. */
static const uint64_t CMDQ_CYCLES_MAX = UINT64_C(1) << 40;

static inline uint64_t cmdq_op_field(const cmdq_resolver *r, cmdq_field id)
{
    return cmdq_integer(r->queue, r->entry, id);
}

static inline bool cmdq_op_has(const cmdq_resolver *r, cmdq_field id) { return cmdq_has_field(r->queue, r->entry, id); }

/* The value of a field, or `fallback` where it is not given. */
static inline uint64_t cmdq_op_field_or(const cmdq_resolver *r, cmdq_field id, uint64_t fallback)
{
    return cmdq_op_has(r, id) ? cmdq_op_field(r, id) : fallback;
}

/* The DMA channel of the next entry without dma_id. */
static inline uint64_t cmdq_next_channel(const cmdq_params *params, uint64_t *next_dma)
{
    return (*next_dma)++ % params->channels;
}

/* Sets r->error, about a field or, with CMDQ_FIELDS, about the entry; returns false. */
bool cmdq_reject(cmdq_resolver *r, cmdq_code code, cmdq_field field, const char *hint, const char *format, ...)
    TV_PRINTF(5, 6);

typedef enum cmdq_access { CMDQ_READS = 1, CMDQ_WRITES = 2, CMDQ_READS_AND_WRITES = 3 } cmdq_access;

/* Adds a tile of `elements` of `qbits` in the bank of `bank_field`, at the offset of the field after it. */
bool cmdq_add_spm_tile(cmdq_resolver *r, cmdq_operand operand, cmdq_field bank_field, tv_u128 elements, unsigned qbits,
                       cmdq_access access);

/* Sets the engine: the number in field `id` among the engines of its class. */
bool cmdq_set_engine(cmdq_resolver *r, cmdq_field id, uint64_t number);

/* The positions of the kernel of a convolution or pooling on its padded input; 0: it does not fit. */
void cmdq_set_window_sides(const cmdq_resolver *r, uint64_t *height, uint64_t *width);

/* False, with an error, if the operation takes more than CMDQ_CYCLES_MAX cycles. */
bool cmdq_check_cycles(cmdq_resolver *r);

#endif
