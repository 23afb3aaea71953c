/* SPDX-License-Identifier: Apache-2.0 */
/* Each __wrap_NAME replaces NAME for the code in this executable. Calls that the C library makes itself do not fail. */
#include "failures.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/arena.h"

enum { DEPTH = 24, PATHS_MAX = 1 << 14 };

static struct {
    enum { OFF, COUNTING, FAILING } state;
    failure_kind kind;
    unsigned calls;           /* so far */
    unsigned fails_at, count; /* of `paths` */
    int error;
    bool all, failed, paused;
    unsigned paths[PATHS_MAX];
    uint64_t known[2 * PATHS_MAX]; /* hashes of call paths, open addressing; 0: free */
} f;

/* Notes the path to this call, if it is a new one. */
static void note_path(void)
{
    void *frames[DEPTH];
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    int depth = backtrace(frames, DEPTH);
    for (int i = 2; i < depth; i++)
        hash = (hash ^ (uintptr_t)frames[i]) * UINT64_C(0x100000001B3);
    hash |= 1;
    unsigned i = (unsigned)(hash >> 20) % (2 * PATHS_MAX);
    while (f.known[i] && f.known[i] != hash)
        i = (i + 1) % (2 * PATHS_MAX);
    if (!f.known[i] && f.count < PATHS_MAX - 1) {
        f.known[i] = hash;
        f.paths[f.count++] = f.calls;
    }
}

/* Whether the current call of `kind` fails; sets errno. */
static bool fails(failure_kind kind)
{
    if (f.state == OFF || f.paused || kind != f.kind)
        return false;
    if (f.state == COUNTING) {
        note_path();
        f.calls++;
        return false;
    }
    unsigned n = f.calls++;
    if (n < f.fails_at || (n > f.fails_at && !f.all))
        return false;
    f.failed = true;
    errno = f.error;
    return true;
}

void failures_count(failure_kind kind)
{
    void *frame[1];
    backtrace(frame, 1); /* the first call allocates */
    for (unsigned i = 0; i < 2 * PATHS_MAX; i++)
        f.known[i] = 0;
    f.kind = kind;
    f.calls = f.count = 0;
    f.state = COUNTING;
}

const unsigned *failures_paths(unsigned *count)
{
    if (f.calls && (f.count == 0 || f.paths[f.count - 1] != f.calls - 1))
        f.paths[f.count++] = f.calls - 1;
    *count = f.count;
    return f.paths;
}

void failures_begin(failure_kind kind, unsigned n, int error, bool all)
{
    f.kind = kind;
    f.calls = 0;
    f.fails_at = n;
    f.error = error;
    f.all = all;
    f.failed = false;
    f.state = FAILING;
}

void failures_pause(bool on) { f.paused = on; }

bool failures_end(void)
{
    f.state = OFF;
    return f.failed;
}

/* A wrapper of a call that returns `failure` when it fails. */
#define WRAP(kind, type, name, failure, parameters, ...)                                                               \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters { return fails(kind) ? (failure) : __real_##name(__VA_ARGS__); }

/* An arena has a new block for a few of its allocations only, but each of them may be the one that needs it. */
WRAP(FAILURE_MEMORY, void *, tv_arena_alloc, NULL, (struct tv_arena * arena, size_t size), arena, size)
WRAP(FAILURE_MEMORY, char *, tv_arena_str, NULL, (struct tv_arena * arena, tv_sv text), arena, text)

WRAP(FAILURE_MEMORY, void *, malloc, NULL, (size_t size), size)
WRAP(FAILURE_MEMORY, void *, calloc, NULL, (size_t count, size_t size), count, size)
WRAP(FAILURE_MEMORY, void *, realloc, NULL, (void *bytes, size_t size), bytes, size)
WRAP(FAILURE_MEMORY, void *, aligned_alloc, NULL, (size_t alignment, size_t size), alignment, size)
WRAP(FAILURE_MEMORY, char *, strdup, NULL, (const char *text), text)
WRAP(FAILURE_MEMORY, char *, strndup, NULL, (const char *text, size_t size), text, size)
WRAP(FAILURE_MEMORY, char *, realpath, NULL, (const char *path, char *resolved), path, resolved)
WRAP(FAILURE_MEMORY, locale_t, newlocale, (locale_t)0, (int mask, const char *name, locale_t base), mask, name, base)
WRAP(FAILURE_MEMORY, ZSTD_CStream *, ZSTD_createCStream, NULL, (void), )
WRAP(FAILURE_MEMORY, ZSTD_DStream *, ZSTD_createDStream, NULL, (void), )

WRAP(FAILURE_FILE, FILE *, fdopen, NULL, (int fd, const char *mode), fd, mode)
WRAP(FAILURE_FILE, FILE *, fopen64, NULL, (const char *path, const char *mode), path, mode)
WRAP(FAILURE_FILE, int, fstat64, -1, (int fd, struct stat *st), fd, st)
WRAP(FAILURE_FILE, int, stat64, -1, (const char *path, struct stat *st), path, st)
WRAP(FAILURE_FILE, int, fflush, EOF, (FILE * file), file)
WRAP(FAILURE_FILE, int, linkat, -1, (int a, const char *from, int b, const char *to, int flags), a, from, b, to, flags)
WRAP(FAILURE_FILE, int, renameat, -1, (int a, const char *from, int b, const char *to), a, from, b, to)
WRAP(FAILURE_FILE, int, renameat2, -1, (int a, const char *from, int b, const char *to, unsigned flags), a, from, b, to,
     flags)

/* Syncs nothing: the files are of no use after the test. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    return fails(FAILURE_FILE) ? -1 : 0;
}

ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    return fails(FAILURE_FILE) || fails(FAILURE_READ) ? -1 : __real_read(fd, bytes, size);
}

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    return fails(FAILURE_FILE) ? -1 : __real_write(fd, bytes, size);
}

/* A mapping of a file, or memory. */
void *__real_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return fails(fd >= 0 ? FAILURE_FILE : FAILURE_MEMORY) ? MAP_FAILED
                                                          : __real_mmap64(at, size, protection, flags, fd, offset);
}

/* The stream is closed all the same. */
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file)
{
    bool failed = fails(FAILURE_FILE);
    int status = __real_fclose(file);
    if (failed)
        errno = f.error;
    return failed ? EOF : status;
}

/* The mode, which open takes only with O_CREAT or O_TMPFILE. */
static unsigned mode_of(int flags, va_list arguments)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, unsigned) : 0;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = mode_of(flags, arguments);
    va_end(arguments);
    return fails(FAILURE_FILE) ? -1 : __real_open64(path, flags, mode);
}

int __real_openat64(int folder, const char *path, int flags, ...);
int __wrap_openat64(int folder, const char *path, int flags, ...);
int __wrap_openat64(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = mode_of(flags, arguments);
    va_end(arguments);
    return fails(FAILURE_FILE) ? -1 : __real_openat64(folder, path, flags, mode);
}
