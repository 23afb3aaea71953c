/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated memory: address space is reserved for all of it, host pages, which may be huge ones, only for what is
 * touched. Zero at first. */
#ifndef TV_SIM_MEMORY_H
#define TV_SIM_MEMORY_H

#include "base/diag.h"

typedef struct tv_memory {
    uint8_t *bytes;
    uint64_t size;
    bool external; /* the bytes belong to a caller */
} tv_memory;

tv_status tv_memory_init(tv_memory *memory, uint64_t size, const tv_diag_sink *sink);
void tv_memory_fini(tv_memory *memory);

/* Replaces the bytes by `bytes`, as many, which stay the caller's. */
void tv_memory_map(tv_memory *memory, void *bytes);

/* Copies `size` bytes to `addr`. A large copy requests huge pages, because more is likely to follow next to it. */
void tv_memory_write(tv_memory *memory, uint64_t addr, const void *bytes, uint64_t size);

/* Zeroes a range; whole pages of a large memory go back to the host. */
void tv_memory_zero(tv_memory *memory, uint64_t addr, uint64_t size);

static inline bool tv_memory_contains(const tv_memory *memory, uint64_t addr, uint64_t size)
{
    return addr <= memory->size && size <= memory->size - addr;
}

#endif
