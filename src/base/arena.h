/* SPDX-License-Identifier: Apache-2.0 */
/* A job's memory: allocated piece by piece, freed at once. */
#ifndef TV_BASE_ARENA_H
#define TV_BASE_ARENA_H

#include "base/sv.h"

typedef struct tv_arena {
    struct tv_arena_block *blocks;
    size_t used, size; /* of the newest block */
} tv_arena;

/* A zeroed tv_arena is empty and ready. */
void tv_arena_fini(tv_arena *arena);

/* Frees what was allocated from `from`, and gives its newest block to `to`, which has none, for what will be: a job
 * like the last one finds its memory there. `from` is empty then. */
void tv_arena_reuse(tv_arena *to, tv_arena *from);

/* `size` bytes, zeroed, aligned for any type; NULL: no memory. Lives until tv_arena_fini or tv_arena_reuse. */
void *tv_arena_alloc(tv_arena *arena, size_t size);

/* A NUL-terminated copy; NULL: no memory. */
char *tv_arena_str(tv_arena *arena, tv_sv text);

#endif
