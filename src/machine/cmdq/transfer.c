/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers between SPM and DRAM. */
#include "machine/cmdq/deferred_products.h"
#include "machine/cmdq/ops.h"

/* Clears the bits of the last byte past its `used` bits. */
static void clear_padding(uint8_t *last, unsigned used) { *last &= (uint8_t)((1u << used) - 1); }

/* SPM holds the rows packed, DRAM `stride` bytes apart. */
void cmdq_exec_transfer(cmdq_exec *x)
{
    const cmdq_tile *spm = cmdq_find_tile(x->op, CMDQ_IN), *dram = cmdq_find_tile(x->op, CMDQ_DRAM);
    unsigned used = (unsigned)(x->op->elements * spm->qbits % 8);
    if (!used && dram->writes && cmdq_defer_store(x, spm, dram))
        return;
    if (dram->writes || cmdq_depends_on_products(x))
        cmdq_flush_products(x->memories);
    if (!used && !dram->writes && cmdq_defer_load(x, spm, dram))
        return;
    uint8_t *in_dram = cmdq_tile_bytes(x, dram); /* first: a write to DRAM materializes the loads that read it, … */
    uint8_t *in_spm = cmdq_tile_bytes(x, spm);   /* … so that this does not point into the bytes being written */
    if (dram->writes)
        cmdq_copy_rows(in_dram, dram->stride, in_spm, dram->bytes, dram->rows, dram->bytes);
    else
        cmdq_copy_rows(in_spm, dram->bytes, in_dram, dram->stride, dram->rows, dram->bytes);
    if (used)
        clear_padding(dram->writes ? in_dram + dram->bytes - 1 : in_spm + spm->bytes - 1, used);
}
