/* SPDX-License-Identifier: Apache-2.0 */
/* A library for LD_PRELOAD that takes abilities from the file system.
 *
 * TRIVET_NO_UNNAMED_FILES=1  there are no files without a name (O_TMPFILE): EOPNOTSUPP
 * TRIVET_NO_EXCHANGE=1       names cannot be exchanged (renameat2): EINVAL
 * TRIVET_FAIL_NAME=N         the N-th call (from 1) of linkat, renameat and renameat2 fails with ENOSPC; a call that
 *                            fails for another reason counts, too */
#undef _FILE_OFFSET_BITS /* openat and openat64 are two functions here */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#pragma GCC visibility push(default)

static bool is_set(const char *name) { return getenv(name) != NULL; }

static bool fails(void)
{
    static int count;
    const char *text = getenv("TRIVET_FAIL_NAME");
    if (!text || ++count != atoi(text))
        return false;
    errno = ENOSPC;
    return true;
}

static int open_in(const char *name, int folder, const char *path, int flags, mode_t mode)
{
    int (*real)(int, const char *, int, ...);
    *(void **)&real = dlsym(RTLD_NEXT, name);
    if ((flags & O_TMPFILE) == O_TMPFILE && is_set("TRIVET_NO_UNNAMED_FILES")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return real(folder, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_in("openat", folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_in("openat64", folder, path, flags, mode);
}

int linkat(int old_folder, const char *old, int new_folder, const char *new, int flags)
{
    int (*real)(int, const char *, int, const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "linkat");
    return fails() ? -1 : real(old_folder, old, new_folder, new, flags);
}

int renameat(int old_folder, const char *old, int new_folder, const char *new)
{
    int (*real)(int, const char *, int, const char *);
    *(void **)&real = dlsym(RTLD_NEXT, "renameat");
    return fails() ? -1 : real(old_folder, old, new_folder, new);
}

int renameat2(int old_folder, const char *old, int new_folder, const char *new, unsigned flags)
{
    int (*real)(int, const char *, int, const char *, unsigned);
    *(void **)&real = dlsym(RTLD_NEXT, "renameat2");
    if (flags & RENAME_EXCHANGE && is_set("TRIVET_NO_EXCHANGE")) {
        errno = EINVAL;
        return -1;
    }
    return fails() ? -1 : real(old_folder, old, new_folder, new, flags);
}
