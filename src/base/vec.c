/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation of arrays. */
#include "base/vec.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From LINE_BYTES on arrays begin at a cache line: a vector of 64 bytes that crosses lines is two accesses, and while
 * other loads wait for memory that halves the rate of some processors. */
enum { LINE = 64, LINE_BYTES = 1024, HUGE = 2 << 20 };

/* Advises huge pages for a vector's `memory`, an allocation of `bytes`, if it has two or more. The whole mapping is
 * advised: the kernel cannot move one that is advised in part, and realloc would copy it. Returns `memory`, which may
 * be NULL. */
static void *advise_mapping(void *memory, size_t bytes)
{
    if (!memory || bytes < 2 * HUGE)
        return memory;
    int error = errno;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)memory / page * page,
              end = ((uintptr_t)memory + malloc_usable_size(memory)) / page * page;
    (void)madvise((void *)first, end - first, MADV_HUGEPAGE); /* a hint: it may fail */
    errno = error;
    return memory;
}

static void *allocate_bytes(size_t bytes)
{
    return bytes < LINE_BYTES ? malloc(bytes) : aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
}

/* An array of HUGE bytes or more, which begins at a huge page: realloc would move it elsewhere. The rest that does not
 * fill one has small pages, unless a huge one wastes an eighth of the array at most. */
static void *allocate_huge(size_t bytes)
{
    size_t rounded = (bytes + HUGE - 1) / HUGE * HUGE;
    void *memory = aligned_alloc(HUGE, rounded);
    if (!memory) /* aligned, it takes up to two pages more */
        return allocate_bytes(bytes);
    int error = errno;
    size_t advised = rounded - bytes > bytes / 8 ? rounded - HUGE : rounded;
    (void)madvise(memory, advised, MADV_HUGEPAGE); /* a hint: it may fail */
    errno = error;
    return memory;
}

void *tv_array_alloc(size_t count, size_t size)
{
    if (count > SIZE_MAX / 2 / size)
        return NULL;
    return count * size < HUGE ? allocate_bytes(count * size) : allocate_huge(count * size);
}

void *tv_array_calloc(size_t count, size_t size)
{
    if (count > SIZE_MAX / 2 / size || count * size < HUGE)
        return calloc(count, size);
    void *memory = allocate_huge(count * size);
    if (memory)
        memset(memory, 0, count * size);
    return memory;
}

/* Moves `memory`, of `bytes` of which `used` are in use, to a cache line. Without memory it stays. */
static void *align_array(void *memory, size_t used, size_t bytes)
{
    int error = errno;
    void *aligned = bytes >= LINE_BYTES && (uintptr_t)memory % LINE ? allocate_bytes(bytes) : NULL;
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
    return advise_mapping(align_array(grown, count * size, want * size), want * size);
}

void *tv_vec_expect(void *data, size_t size, size_t count, size_t expected, size_t *cap)
{
    if (expected <= *cap)
        return data;
    int error = errno;
    void *moved = tv_array_alloc(expected, size);
    errno = error;
    if (!moved)
        return data;
    if (count)
        memcpy(moved, data, count * size);
    free(data);
    *cap = expected;
    return moved;
}
