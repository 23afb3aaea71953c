/* SPDX-License-Identifier: Apache-2.0 */
/* A library for LD_PRELOAD that lets the n-th allocation of a process fail.
 *
 * TRIVET_FAIL_ALLOCATION=N    the N-th call (from 1) of malloc, calloc, realloc, reallocarray, aligned_alloc or
 *                             posix_memalign after the program has started returns NULL with ENOMEM; with a '+' after
 *                             the number all later ones fail, too
 * TRIVET_COUNT_ALLOCATIONS=F  the number of calls is written to the file F when the process ends
 *
 * Calls before the constructor below, by the dynamic loader, are not counted. The functions must be visible, so that
 * the commands that run.py starts call them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_aligned_alloc)(size_t, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);

static atomic_ulong count;
static unsigned long fail_at;
static bool sticky, started;

/* dlsym calls calloc before it can be resolved; what it gets is never freed. */
static char early[4096];
static size_t early_used;

static void *early_calloc(size_t bytes)
{
    size_t at = (early_used + 15) & ~(size_t)15;
    if (bytes > sizeof early - at)
        return NULL;
    early_used = at + bytes;
    return early + at;
}

static void resolve(void)
{
    *(void **)&real_malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **)&real_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&real_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&real_aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    *(void **)&real_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
}

static bool fails(void)
{
    if (!started)
        return false;
    unsigned long n = atomic_fetch_add(&count, 1) + 1;
    if (!fail_at || n < fail_at || (n > fail_at && !sticky))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t bytes)
{
    if (!real_malloc)
        resolve();
    return fails() ? NULL : real_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    static bool resolving;
    if (!real_calloc) {
        if (resolving)
            return early_calloc(n * bytes);
        resolving = true;
        resolve();
        resolving = false;
    }
    return fails() ? NULL : real_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    if (!real_realloc)
        resolve();
    return fails() ? NULL : real_realloc(old, bytes);
}

void *reallocarray(void *old, size_t n, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, all);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (!real_aligned_alloc)
        resolve();
    return fails() ? NULL : real_aligned_alloc(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    if (!real_posix_memalign)
        resolve();
    return fails() ? ENOMEM : real_posix_memalign(out, alignment, bytes);
}

__attribute__((constructor)) static void start(void)
{
    const char *text = getenv("TRIVET_FAIL_ALLOCATION");
    if (text) {
        char *end;
        fail_at = strtoul(text, &end, 10);
        sticky = *end == '+';
    }
    if (!real_malloc)
        resolve();
    started = true;
}

__attribute__((destructor)) static void finish(void)
{
    const char *path = getenv("TRIVET_COUNT_ALLOCATIONS");
    started = false;
    int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (file < 0)
        return;
    char text[32];
    int n = snprintf(text, sizeof text, "%lu\n", (unsigned long)count);
    if (write(file, text, (size_t)n) != n)
        abort();
    close(file);
}
