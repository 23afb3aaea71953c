/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of arrays. */
#include "base/vec.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Advises huge pages for `memory`, an allocation of `bytes`, if it has two or more. The whole mapping is advised: the
 * kernel cannot move one that is advised in part, and realloc would copy it. Returns `memory`, which may be NULL. */
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

/* From ALIGNED_BYTES on arrays begin at a cache line: a vector of 64 bytes that crosses lines is two accesses, and
 * while other loads wait for memory that halves the rate of some processors. */
enum { LINE = 64, ALIGNED_BYTES = 1024 };

static void *allocate_bytes(size_t bytes)
{
    return bytes < ALIGNED_BYTES ? malloc(bytes) : aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
}

void *tv_array_alloc(size_t count, size_t size)
{
    return count <= SIZE_MAX / 2 / size ? advise_huge_pages(allocate_bytes(count * size), count * size) : NULL;
}

void *tv_array_calloc(size_t count, size_t size)
{
    return advise_huge_pages(calloc(count, size), count <= SIZE_MAX / size ? count * size : 0);
}

/* Moves `memory`, of `bytes` of which `used` are in use, to a cache line. Without memory it stays. */
static void *align_array(void *memory, size_t used, size_t bytes)
{
    int error = errno;
    void *aligned = bytes >= ALIGNED_BYTES && (uintptr_t)memory % LINE ? allocate_bytes(bytes) : NULL;
    errno = error;
    if (!aligned)
        return memory;
    memcpy(aligned, memory, used);
    free(memory);
    return aligned;
}

void *tv_vec_grow(void *data, size_t size, size_t count, size_t extra, size_t *cap, bool *failed)
{
    enum { MIN_BYTES = 64, MIN_COUNT = 8 };
    size_t limit = SIZE_MAX / 2 / size, want = *cap ? *cap : MIN_BYTES / size;
    if (want < MIN_COUNT)
        want = MIN_COUNT;
    while (want < limit && want - count < extra)
        want *= 2;
    bool fits = want <= limit && want - count >= extra;
    void *grown = !fits ? NULL : data ? realloc(data, want * size) : allocate_bytes(want * size);
    if (!grown) {
        *failed = true;
        return data;
    }
    *cap = want;
    return advise_huge_pages(align_array(grown, count * size, want * size), want * size);
}
