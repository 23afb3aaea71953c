/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred loads. A load from DRAM is recorded instead of executed; operations read the tile from its source. Weights
 * are mostly read once, by a tensor engine, before the next load overwrites them, and so are never copied.
 *
 * Invariants: recorded loads are disjoint in SPM; the bytes of DRAM that they read have not been written since. A write
 * to SPM drops the loads that it fully overwrites and reduces those that it partly overwrites, or materializes them if
 * their rows are apart or its operation reads them; a write to DRAM materializes the loads that read the written bytes.
 */
#include "kernels/clones.h"
#include "machine/cmdq/exec.h"

/* ---- Copies ---- */

TV_INLINE void copy_rows(uint8_t *to, uint64_t to_stride, const uint8_t *from, uint64_t from_stride, uint64_t rows,
                         size_t bytes)
{
    for (; rows; rows--, to += to_stride, from += from_stride)
        memcpy(to, from, bytes);
}

/* Short rows, of tiles of matrices, are many: those of common sizes are copied without a call. */
void cmdq_copy_rows(uint8_t *to, uint64_t to_stride, const uint8_t *from, uint64_t from_stride, uint64_t rows,
                    uint64_t bytes)
{
    if (bytes == 8)
        copy_rows(to, to_stride, from, from_stride, rows, 8);
    else if (bytes == 16)
        copy_rows(to, to_stride, from, from_stride, rows, 16);
    else if (bytes == 32)
        copy_rows(to, to_stride, from, from_stride, rows, 32);
    else if (bytes == 64)
        copy_rows(to, to_stride, from, from_stride, rows, 64);
    else
        copy_rows(to, to_stride, from, from_stride, rows, bytes);
}

/* ---- Loads ---- */

/* Bytes of DRAM from the first byte of a load to its last. */
static uint64_t dram_extent(const cmdq_deferred_load *load)
{
    return (load->bytes / load->row_bytes - 1) * load->stride + load->row_bytes;
}

static void drop_load(cmdq_memories *m, unsigned i) { m->loads[i] = m->loads[--m->load_count]; }

static void materialize_load(cmdq_memories *m, unsigned i)
{
    const cmdq_deferred_load *load = &m->loads[i];
    cmdq_copy_rows(m->spm.bytes + load->spm, load->row_bytes, m->dram.bytes + load->dram, load->stride,
                   load->bytes / load->row_bytes, load->row_bytes);
    drop_load(m, i);
}

void cmdq_materialize_loads(cmdq_memories *m)
{
    m->packed.bytes = 0; /* the caller may write SPM */
    while (m->load_count)
        materialize_load(m, 0);
}

/* Records a load. When there are too many, executes the smallest of them, which costs least. */
static void add_load(cmdq_memories *m, const cmdq_deferred_load *load)
{
    unsigned smallest = 0;
    if (m->load_count == CMDQ_LOADS_MAX) {
        for (unsigned i = 1; i < m->load_count; i++)
            if (m->loads[i].bytes < m->loads[smallest].bytes)
                smallest = i;
        materialize_load(m, smallest);
    }
    m->loads[m->load_count++] = *load;
}

/* Reduces a load of one contiguous range to what a write of [start, start + bytes) leaves of it, without copying. */
static void trim_load(cmdq_memories *m, unsigned i, uint64_t start, uint64_t bytes)
{
    const cmdq_deferred_load load = m->loads[i];
    uint64_t load_end = load.spm + load.bytes, end = start + bytes;
    drop_load(m, i);
    if (load.spm < start) {
        uint64_t size = start - load.spm;
        add_load(m, &(cmdq_deferred_load){load.spm, load.dram, size, size, size});
    }
    if (end < load_end) {
        uint64_t size = load_end - end;
        add_load(m, &(cmdq_deferred_load){end, load.dram + (end - load.spm), size, size, size});
    }
}

/* Prepares bytes of SPM to be written, by an operation that also reads them if `reads`. */
static uint8_t *spm_to_write(cmdq_memories *m, uint64_t start, uint64_t bytes, bool reads)
{
    if (cmdq_overlap(start, bytes, m->packed.spm, m->packed.bytes))
        m->packed.bytes = 0;
    for (unsigned i = m->load_count; i-- > 0;) {
        const cmdq_deferred_load *load = &m->loads[i];
        if (!reads && start <= load->spm && load->spm + load->bytes <= start + bytes)
            drop_load(m, i);
        else if (!reads && load->row_bytes == load->bytes && cmdq_overlap(start, bytes, load->spm, load->bytes))
            trim_load(m, i, start, bytes);
        else if (cmdq_overlap(start, bytes, load->spm, load->bytes))
            materialize_load(m, i);
    }
    return m->spm.bytes + start;
}

/* Bytes of SPM to be read: in DRAM where one deferred load has them all. */
static const uint8_t *spm_to_read(cmdq_memories *m, uint64_t start, uint64_t bytes)
{
    for (unsigned i = m->load_count; i-- > 0;) {
        const cmdq_deferred_load *load = &m->loads[i];
        if (load->row_bytes == load->bytes && load->spm <= start && start + bytes <= load->spm + load->bytes)
            return m->dram.bytes + load->dram + (start - load->spm);
        if (cmdq_overlap(start, bytes, load->spm, load->bytes))
            materialize_load(m, i);
    }
    return m->spm.bytes + start;
}

void cmdq_prepare_dram_write(cmdq_memories *m, uint64_t start, uint64_t bytes)
{
    for (unsigned i = m->load_count; i-- > 0;)
        if (cmdq_overlap(start, bytes, m->loads[i].dram, dram_extent(&m->loads[i])))
            materialize_load(m, i);
}

/* ---- Tiles ---- */

uint8_t *cmdq_tile_bytes(const cmdq_exec *x, const cmdq_tile *t)
{
    cmdq_memories *m = x->memories;
    uint64_t spm = t->bank * x->params->bank_bytes + t->start;
    if (t->bank == CMDQ_NO_BANK) {
        if (t->writes)
            cmdq_prepare_dram_write(m, t->start, t->rows * t->stride + t->bytes);
        return m->dram.bytes + t->start;
    }
    uint64_t bytes = cmdq_tile_extent(t);
    return t->writes ? spm_to_write(m, spm, bytes, t->reads || t->rows > 1) /* what is between the rows is kept */
                     : (uint8_t *)(uintptr_t)spm_to_read(m, spm, bytes);
}

const uint8_t *cmdq_tile_rows(const cmdq_exec *x, const cmdq_tile *t, uint64_t row_bytes, uint64_t *stride)
{
    const cmdq_memories *m = x->memories;
    uint64_t spm = t->bank * x->params->bank_bytes + t->start;
    if (t->rows > 1) {
        *stride = t->stride;
        return cmdq_tile_bytes(x, t);
    }
    for (unsigned i = 0; i < m->load_count; i++) {
        const cmdq_deferred_load *load = &m->loads[i];
        if (load->spm == spm && load->bytes == t->bytes && load->row_bytes == row_bytes) {
            *stride = load->stride;
            return m->dram.bytes + load->dram;
        }
    }
    *stride = row_bytes;
    return cmdq_tile_bytes(x, t);
}

bool cmdq_defer_load(const cmdq_exec *x, const cmdq_tile *spm, const cmdq_tile *dram)
{
    enum { DEFER_MIN = 64 }; /* fewer bytes are copied in the same time */
    cmdq_memories *m = x->memories;
    bool contiguous = dram->rows == 1 || dram->stride == dram->bytes;
    if (spm->bytes < DEFER_MIN || spm->bytes != dram->rows * dram->bytes)
        return false;
    cmdq_deferred_load load = {spm->bank * x->params->bank_bytes + spm->start, dram->start, spm->bytes,
                               contiguous ? spm->bytes : dram->bytes, contiguous ? spm->bytes : dram->stride};
    spm_to_write(m, load.spm, load.bytes, false);
    add_load(m, &load);
    return true;
}
