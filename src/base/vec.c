/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of arrays. */
#include "base/vec.h"

#include <errno.h>
#include <sys/mman.h>

/* Huge pages for memory of `bytes`, if they are many. */
static void *advise_huge_pages(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t at = (uintptr_t)memory, first = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    int error = errno;
    if (memory && bytes >= 2 * page && first < end)
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
