/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors in L2 words and direct FIFOs. */
#include "machine/pccx/vectors.h"

void pccx_load_lanes(pccx_machine *m, uint64_t word, uint64_t count, uint16_t *out)
{
    const uint8_t *p = pccx_l2_at(m, word);
    for (uint64_t i = 0; i < count; i++)
        out[i] = tv_load_le16(p + 2 * i);
}

void pccx_load_vector(pccx_machine *m, uint32_t src, unsigned fifo, uint64_t count, uint16_t *out)
{
    const pccx_fifo *f = &m->fifos[fifo];
    if (src != PCCX_TAG_FIFO) {
        pccx_load_lanes(m, src, count, out);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = f->ring[(f->head + i) % m->control.fifo_elements];
}

void pccx_store_vector(pccx_machine *m, uint32_t dst, unsigned fifo, const uint16_t *values, uint64_t count)
{
    if (dst == PCCX_TAG_FIFO) {
        pccx_fifo *f = &m->fifos[fifo];
        for (uint64_t i = 0; i < count; i++)
            f->ring[(f->head + f->count + i) % m->control.fifo_elements] = values[i];
        f->count += (uint32_t)count;
        return;
    }
    uint8_t *p = pccx_l2_at(m, dst);
    for (uint64_t i = 0; i < count; i++)
        tv_store_le(p + 2 * i, values[i], 2);
    pccx_clear_padding(p, count);
}

void pccx_pop_fifo(pccx_machine *m, unsigned fifo, uint64_t count)
{
    pccx_fifo *f = &m->fifos[fifo];
    f->head = (uint32_t)((f->head + count) % m->control.fifo_elements);
    f->count -= (uint32_t)count;
}

void pccx_clear_padding(uint8_t *vector, uint64_t count)
{
    memset(vector + 2 * count, 0, (PCCX_LANES - count % PCCX_LANES) % PCCX_LANES * 2);
}

void *pccx_scratch(pccx_machine *m, size_t bytes)
{
    m->scratch.len = 0;
    m->scratch.failed = false; /* an earlier call may have asked for more than there was */
    return tv_buf_extend(&m->scratch, bytes + 64);
}

bool pccx_reject_memory(pccx_rejection *why)
{
    why->out_of_memory = true;
    return false;
}
