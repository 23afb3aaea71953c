/* SPDX-License-Identifier: Apache-2.0 */
/* The pccx machine's address spaces, among them the driver's window (pccx specification, section 6). The registers of
 * the machine are read and written byte by byte, because a caller may ask for any range of a space. */
#include "machine/pccx/internal.h"
#include "machine/pccx/params.h"

typedef enum space_index {
    SPACE_L2,
    SPACE_HOST,
    SPACE_CONST,
    SPACE_EMAX,
    SPACE_MMIO,
    SPACE_FIFO_TO_SFU,
    SPACE_FIFO_TO_GEMV
} space_index;

enum { SPACES = SPACE_FIFO_TO_GEMV + 1 };

int pccx_space_at(const void *state, unsigned i, tv_space *out)
{
    const pccx_machine *m = state;
    const tv_space spaces[SPACES] = {
        {"l2", PCCX_WORD_BYTES, m->l2.size / PCCX_WORD_BYTES, "L2, by 128-bit word of 8 BF16 lanes", 0, TV_BF16, NULL,
         0},
        {"host", 1, m->host.size, "host memory, by byte", 0, TV_HEX8, NULL, 0},
        {"const", 6, 2 * PCCX_CACHE_ENTRIES, "Constant Cache: bank * 64 + entry, three 16-bit values each", 0, TV_U16,
         NULL},
        {"emax", 2, 1, "e_max, one BF16", 0, TV_BF16, NULL, 0},
        {"mmio", 1, 4096, "the driver's register window (trivet/window.h); whole 32-bit registers", 0, TV_HEX32, NULL,
         0},
        {"fifo_to_sfu", 2, m->control.fifo_elements, "direct FIFO from GEMV to the SFU, from its front on", 0, TV_BF16,
         NULL, 1},
        {"fifo_to_gemv", 2, m->control.fifo_elements, "direct FIFO from the SFU to GEMV, from its front on", 0, TV_BF16,
         NULL, 1},
    };
    if (i >= SPACES)
        return 0;
    *out = spaces[i];
    return 1;
}

/* Byte `byte` of the contents of a FIFO, from its front on; NULL after its end. */
static uint8_t *fifo_byte(pccx_machine *m, unsigned fifo, uint64_t byte)
{
    pccx_fifo *f = &m->fifos[fifo];
    if (byte / 2 >= m->control.fifo_count[fifo])
        return NULL;
    return (uint8_t *)&f->ring[(f->head + byte / 2) % m->control.fifo_elements] + byte % 2;
}

static void read_fifo(pccx_machine *m, unsigned fifo, uint64_t byte, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t *at = fifo_byte(m, fifo, byte + i);
        out[i] = at ? *at : 0;
    }
}

/* Changes elements that the FIFO has; only instructions push and pop. */
static void write_fifo(pccx_machine *m, unsigned fifo, uint64_t byte, const uint8_t *in, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t *at = fifo_byte(m, fifo, byte + i);
        if (at)
            *at = in[i];
    }
}

tv_memory *pccx_memory_of(void *state, unsigned space)
{
    pccx_machine *m = state;
    return space == SPACE_HOST ? &m->host : NULL;
}

void pccx_read_space(void *state, unsigned space, uint64_t byte, void *data, size_t bytes)
{
    pccx_machine *m = state;
    uint8_t *out = data;
    switch ((space_index)space) {
    case SPACE_L2:
        memcpy(out, m->l2.bytes + byte, bytes);
        break;
    case SPACE_HOST:
        memcpy(out, m->host.bytes + byte, bytes);
        break;
    case SPACE_CONST:
        for (size_t i = 0; i < bytes; i++) {
            uint64_t value = (byte + i) / 2, entry = value / 3;
            out[i] =
                (uint8_t)(m->control.constants[entry / PCCX_CACHE_ENTRIES][entry % PCCX_CACHE_ENTRIES][value % 3] >>
                          ((byte + i) % 2 * 8));
        }
        break;
    case SPACE_EMAX:
        for (size_t i = 0; i < bytes; i++)
            out[i] = (uint8_t)(m->e_max >> ((byte + i) * 8));
        break;
    case SPACE_MMIO:
        pccx_window_read(m, byte, out, bytes);
        break;
    case SPACE_FIFO_TO_SFU:
        read_fifo(m, PCCX_FIFO_TO_SFU, byte, out, bytes);
        break;
    case SPACE_FIFO_TO_GEMV:
        read_fifo(m, PCCX_FIFO_TO_GEMV, byte, out, bytes);
        break;
    }
}

void pccx_write_space(void *state, unsigned space, uint64_t byte, const void *data, size_t bytes)
{
    pccx_machine *m = state;
    const uint8_t *in = data;
    switch ((space_index)space) {
    case SPACE_L2:
        memcpy(m->l2.bytes + byte, in, bytes);
        break;
    case SPACE_HOST:
        tv_memory_write(&m->host, byte, in, bytes);
        break;
    case SPACE_CONST:
        for (size_t i = 0; i < bytes; i++) {
            uint64_t value = (byte + i) / 2, entry = value / 3;
            uint16_t *v = &m->control.constants[entry / PCCX_CACHE_ENTRIES][entry % PCCX_CACHE_ENTRIES][value % 3];
            *v = (uint16_t)((byte + i) % 2 ? (*v & 0x00FFu) | (unsigned)in[i] << 8 : (*v & 0xFF00u) | in[i]);
            m->control.written[entry / PCCX_CACHE_ENTRIES][entry % PCCX_CACHE_ENTRIES] = true;
        }
        break;
    case SPACE_EMAX:
        for (size_t i = 0; i < bytes; i++)
            m->e_max =
                (uint16_t)(byte + i ? (m->e_max & 0x00FFu) | (unsigned)in[i] << 8 : (m->e_max & 0xFF00u) | in[i]);
        break;
    case SPACE_MMIO:
        pccx_window_write(m, byte, in, bytes);
        break;
    case SPACE_FIFO_TO_SFU:
        write_fifo(m, PCCX_FIFO_TO_SFU, byte, in, bytes);
        break;
    case SPACE_FIFO_TO_GEMV:
        write_fifo(m, PCCX_FIFO_TO_GEMV, byte, in, bytes);
        break;
    }
}
