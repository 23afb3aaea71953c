/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of arrays. */
#include "base/vec.h"

#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

/* Advises huge pages for `memory`, which malloc returned for `bytes`, if it has two or more. The whole mapping is
 * advised: the kernel cannot move one that is advised in part, and realloc would copy it. Returns `memory`, which may
 * be NULL. */
static void *advise_huge_pages(void *memory, size_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    if (!memory || bytes < 2 * huge)
        return memory;
    int error = errno;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)memory / page * page,
              end = ((uintptr_t)memory + malloc_usable_size(memory)) / page * page;
    (void)madvise((void *)first, end - first, MADV_HUGEPAGE); /* a hint: it may fail */
    errno = error;
    return memory;
}

void *tv_array_alloc(size_t count, size_t size)
{
    return count <= SIZE_MAX / 2 / size ? advise_huge_pages(malloc(count * size), count * size) : NULL;
}

void *tv_array_calloc(size_t count, size_t size)
{
    return advise_huge_pages(calloc(count, size), count <= SIZE_MAX / size ? count * size : 0);
}

void *tv_vec_grow(void *data, size_t size, size_t count, size_t extra, size_t *cap, bool *failed)
{
    enum { MIN_BYTES = 64, MIN_COUNT = 8 };
    size_t limit = SIZE_MAX / 2 / size, want = *cap ? *cap : MIN_BYTES / size;
    if (want < MIN_COUNT)
        want = MIN_COUNT;
    while (want < limit && want - count < extra)
        want *= 2;
    void *grown = want <= limit && want - count >= extra ? realloc(data, want * size) : NULL;
    if (!grown) {
        *failed = true;
        return data;
    }
    *cap = want;
    return advise_huge_pages(grown, want * size);
}
