/* SPDX-License-Identifier: Apache-2.0 */
/* Lets one call of the host fail: an allocation, or a call of the file system.
 *
 * The linker sends these calls through failures.c (-Wl,--wrap=NAME, `failing_calls` in meson.build). A pass counts the
 * calls and notes which ones are reached on a call path of their own; only these need to fail, one run each. */
#ifndef TV_TESTS_FAILURES_H
#define TV_TESTS_FAILURES_H

#include <stdbool.h>

typedef enum failure_kind {
    FAILURE_MEMORY, /* malloc and so on, mmap, and library calls that allocate */
    FAILURE_FILE,   /* open, read, write, rename and so on */
    FAILURE_READ,   /* read and write: interrupted */
    FAILURE_KINDS
} failure_kind;

/* Counts the calls of `kind` until failures_end, and notes the paths. */
void failures_count(failure_kind kind);

/* Calls of `kind` on paths that no call before had, as numbers from 0; the last call is in it, too. `*count` receives
 * how many. Valid until the next failures_count. */
const unsigned *failures_paths(unsigned *count);

/* Call `n` of `kind`, from 0, fails with `error`; if `all`, every one after it, too. */
void failures_begin(failure_kind kind, unsigned n, int error, bool all);

/* While `on`, calls are not counted and succeed. */
void failures_pause(bool on);

/* Calls succeed again. Whether one has failed. */
bool failures_end(void);

#endif
