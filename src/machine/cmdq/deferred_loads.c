/* SPDX-License-Identifier: Apache-2.0 */
/* Where tiles are on the host. A large load from DRAM is put off: until somebody looks, the tile is read where it came
 * from. Mostly it is weights, which a tensor engine reads once before the next load takes their place. */
#include "machine/cmdq/exec.h"

/* Bytes of DRAM from the first of a load to the last. */
static uint64_t extent(const cmdq_deferred_load *load)
{
    return (load->bytes / load->row_bytes - 1) * load->stride + load->row_bytes;
}

static void settle(cmdq_memories *m, unsigned i)
{
    const cmdq_deferred_load *load = &m->loads[i];
    cmdq_copy_rows(m->spm.bytes + load->spm, load->row_bytes, m->dram.bytes + load->dram, load->stride,
                   load->bytes / load->row_bytes, load->row_bytes);
    m->loads[i] = m->loads[--m->load_count];
}

void cmdq_materialize_loads(cmdq_memories *m)
{
    m->ready.bytes = 0; /* whoever asks may write */
    while (m->load_count)
        settle(m, 0);
}

/* Loads whose place is written over, and not read before, have never been; of others that overlap it what stays must be
 * there. */
static uint8_t *place_to_write(cmdq_memories *m, uint64_t start, uint64_t bytes, bool reads)
{
    if (cmdq_overlap(start, bytes, m->ready.spm, m->ready.bytes))
        m->ready.bytes = 0;
    for (unsigned i = m->load_count; i-- > 0;) {
        const cmdq_deferred_load *load = &m->loads[i];
        if (!reads && start <= load->spm && load->spm + load->bytes <= start + bytes)
            m->loads[i] = m->loads[--m->load_count];
        else if (cmdq_overlap(start, bytes, load->spm, load->bytes))
            settle(m, i);
    }
    return m->spm.bytes + start;
}

static uint8_t *place_to_read(cmdq_memories *m, uint64_t start, uint64_t bytes)
{
    for (unsigned i = m->load_count; i-- > 0;) {
        const cmdq_deferred_load *load = &m->loads[i];
        if (load->row_bytes == load->bytes && load->spm <= start && start + bytes <= load->spm + load->bytes)
            return m->dram.bytes + load->dram + (start - load->spm);
        if (cmdq_overlap(start, bytes, load->spm, load->bytes))
            settle(m, i);
    }
    return m->spm.bytes + start;
}

uint8_t *cmdq_bytes(const cmdq_run *r, const cmdq_tile *t)
{
    cmdq_memories *m = r->memories;
    uint64_t spm = t->bank * r->shape->bank_bytes + t->start;
    if (t->bank != CMDQ_NO_BANK)
        return t->writes ? place_to_write(m, spm, t->bytes, t->reads) : place_to_read(m, spm, t->bytes);
    for (unsigned i = m->load_count; i-- > 0 && t->writes;)
        if (cmdq_overlap(t->start, t->rows * t->stride + t->bytes, m->loads[i].dram, extent(&m->loads[i])))
            settle(m, i);
    return m->dram.bytes + t->start;
}

const uint8_t *cmdq_rows(const cmdq_run *r, const cmdq_tile *t, uint64_t row_bytes, uint64_t *stride)
{
    const cmdq_memories *m = r->memories;
    uint64_t spm = t->bank * r->shape->bank_bytes + t->start;
    for (unsigned i = 0; i < m->load_count; i++) {
        const cmdq_deferred_load *load = &m->loads[i];
        if (load->spm == spm && load->bytes == t->bytes && load->row_bytes == row_bytes) {
            *stride = load->stride;
            return m->dram.bytes + load->dram;
        }
    }
    *stride = row_bytes;
    return cmdq_bytes(r, t);
}

bool cmdq_defer_load(const cmdq_run *r, const cmdq_tile *spm, const cmdq_tile *dram)
{
    enum { LARGE = 64 }; /* less is copied as fast */
    cmdq_memories *m = r->memories;
    bool together = dram->rows == 1 || dram->stride == dram->bytes;
    if (dram->writes || spm->bytes < LARGE || spm->bytes != dram->rows * dram->bytes)
        return false;
    cmdq_deferred_load load = {spm->bank * r->shape->bank_bytes + spm->start, dram->start, spm->bytes,
                               together ? spm->bytes : dram->bytes, together ? spm->bytes : dram->stride};
    place_to_write(m, load.spm, load.bytes, false);
    if (m->load_count == CMDQ_LOADS_MAX)
        settle(m, 0);
    m->loads[m->load_count++] = load;
    return true;
}
