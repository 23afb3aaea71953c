/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a commit log that repeat. */
#include <stdlib.h>

#include "cosim/log.h"

void tv_text_table_fini(text_table *t)
{
    tv_arena_fini(&t->arena);
    free(t->texts);
    free(t->slots);
    *t = (text_table){.texts = NULL};
}

static void insert(text_table *t, uint32_t index)
{
    uint64_t at = tv_sv_hash(tv_sv_of(t->texts[index])) & (t->slot_count - 1);
    while (t->slots[at])
        at = (at + 1) & (t->slot_count - 1);
    t->slots[at] = index + 1;
}

/* Doubles the table when it is half full. */
static bool grow(text_table *t)
{
    if (t->count < t->capacity)
        return true;
    unsigned capacity = t->capacity ? t->capacity * 2 : 64;
    const char **texts = realloc(t->texts, capacity * sizeof *texts);
    if (!texts)
        return false;
    t->texts = texts;
    uint32_t *slots = calloc(capacity * 2, sizeof *slots);
    if (!slots)
        return false;
    free(t->slots);
    t->slots = slots;
    t->slot_count = capacity * 2;
    t->capacity = capacity;
    for (unsigned i = 0; i < t->count; i++)
        insert(t, i);
    return true;
}

int64_t tv_text_table_find(text_table *t, tv_sv text, bool *is_new, bool *full)
{
    *is_new = false;
    uint64_t hash = tv_sv_hash(text);
    for (uint64_t at = hash; t->slot_count; at++) {
        uint32_t slot = t->slots[at & (t->slot_count - 1)];
        if (slot == 0)
            break;
        if (tv_sv_is(text, t->texts[slot - 1]))
            return slot - 1;
    }
    if (t->count == LOG_TEXTS_MAX || text.len > LOG_TEXT_MAX || memchr(text.ptr, '\0', text.len)) {
        *full = true;
        return -1;
    }
    char *copy = grow(t) ? tv_arena_str(&t->arena, text) : NULL;
    if (!copy)
        return -1;
    *is_new = true;
    t->texts[t->count] = copy;
    insert(t, t->count);
    return t->count++;
}
