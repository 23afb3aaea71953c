/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated memory: reserved whole, backed by pages only where it is touched, zero at first. */
#ifndef TV_SIM_MEMORY_H
#define TV_SIM_MEMORY_H

#include "base/diag.h"

typedef struct tv_memory {
    uint8_t *bytes;
    uint64_t size;
} tv_memory;

tv_status tv_memory_init(tv_memory *memory, uint64_t size, const tv_diag_sink *sink);
void tv_memory_fini(tv_memory *memory);

/* Copies bytes into the memory; a large piece gets large pages where the host gives them, since more is likely to come
 * beside it. */
void tv_memory_write(tv_memory *memory, uint64_t addr, const void *bytes, uint64_t size);

/* Zeroes a range, giving whole pages back. */
void tv_memory_zero(tv_memory *memory, uint64_t addr, uint64_t size);

static inline bool tv_memory_contains(const tv_memory *memory, uint64_t addr, uint64_t size)
{
    return addr <= memory->size && size <= memory->size - addr;
}

#endif
