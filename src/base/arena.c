/* SPDX-License-Identifier: Apache-2.0 */
/* Block sizes double from 4 KiB to 1 MiB, so that small jobs use little memory and large jobs call malloc rarely. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>

struct tv_arena_block {
    struct tv_arena_block *next;
    alignas(max_align_t) unsigned char bytes[];
};

enum { FIRST_BLOCK = 4096, MAX_BLOCK = 1 << 20, MAX_KEPT = 1 << 26 };

static void free_blocks(struct tv_arena_block *block)
{
    while (block) {
        struct tv_arena_block *next = block->next;
        free(block);
        block = next;
    }
}

void tv_arena_fini(tv_arena *arena)
{
    free_blocks(arena->blocks);
    *arena = (tv_arena){0};
}

void tv_arena_reuse(tv_arena *to, tv_arena *from)
{
    if (from->size > MAX_KEPT)
        tv_arena_fini(from);
    if (from->blocks) {
        free_blocks(from->blocks->next);
        from->blocks->next = NULL;
    }
    *to = (tv_arena){.blocks = from->blocks, .size = from->size};
    *from = (tv_arena){0};
}

void *tv_arena_alloc(tv_arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + align - 1) / align * align;
    if (!arena->blocks || arena->size - arena->used < size) {
        size_t want = arena->size ? arena->size * 2 : FIRST_BLOCK;
        if (want > MAX_BLOCK)
            want = MAX_BLOCK;
        if (want < size)
            want = size;
        struct tv_arena_block *block = malloc(sizeof *block + want);
        if (!block)
            return NULL;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->size = want;
        arena->used = 0;
    }
    void *p = arena->blocks->bytes + arena->used;
    arena->used += size;
    return memset(p, 0, size);
}

char *tv_arena_str(tv_arena *arena, tv_sv text)
{
    char *copy = tv_arena_alloc(arena, text.len + 1);
    if (copy && text.len)
        memcpy(copy, text.ptr, text.len);
    return copy;
}
