/* SPDX-License-Identifier: Apache-2.0 */
/* An entry that is being resolved: what the handlers of resolve.c work on. */
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

/* False, with an error, if the operation takes more than CMDQ_CYCLES_MAX cycles. */
bool cmdq_check_cycles(cmdq_resolver *r);

#endif
