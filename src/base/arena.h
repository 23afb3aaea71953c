/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas: memory that is allocated in many small blocks and freed all at once, for the data of one job. */
#ifndef TV_BASE_ARENA_H
#define TV_BASE_ARENA_H

#include "base/sv.h"

typedef struct tv_arena {
    struct tv_arena_block *blocks;
    size_t used, size; /* of the newest block, the first of the list */
} tv_arena;

/* A zeroed tv_arena is empty and valid. */
void tv_arena_fini(tv_arena *arena);

/* Frees everything allocated from `from` and moves its newest block to `to`, which is empty, so that a job of similar
 * size needs no new block; a block of more than 64 MiB is freed, too. `from` is empty afterwards. */
void tv_arena_reuse(tv_arena *to, tv_arena *from);

/* Allocates `size` zeroed bytes, aligned for any type, valid until tv_arena_fini or tv_arena_reuse. NULL: out of
 * memory. */
void *tv_arena_alloc(tv_arena *arena, size_t size);

/* Copies text and terminates it with NUL. NULL: out of memory. */
char *tv_arena_str(tv_arena *arena, tv_sv text);

#endif
