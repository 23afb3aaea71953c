/* SPDX-License-Identifier: Apache-2.0 */
/* Structured diagnostics: what the library has to say to a person.
 *
 * The library never prints. It hands each diagnostic to the caller's sink, in the order of discovery. A sink of NULL,
 * or one whose `emit` is NULL, drops them. Every string of a tv_diag belongs to the library and lives until `emit`
 * returns. A sink is called on the thread that called the library. */
#ifndef TRIVET_DIAG_H
#define TRIVET_DIAG_H

#include <stdint.h>
#include <stdio.h>

#include "trivet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tv_severity { TV_NOTE, TV_WARNING, TV_ERROR } tv_severity;

typedef struct tv_diag {
    tv_severity severity;
    const char *code;        /* stable, append-only: "TV-P002" */
    const char *name;        /* the code's short name: "reserved-bit" */
    const char *file;        /* NULL when the diagnostic is not about a file */
    unsigned line;           /* 1-based; 0: unknown */
    unsigned column;         /* 1-based, in bytes; 0: unknown */
    unsigned length;         /* bytes to underline from `column` on; 0: one */
    int64_t index;           /* instruction index, -1: not about an instruction */
    const char *message;     /* what was found, what was expected */
    const char *hint;        /* the way out, or NULL */
    const char *source_line; /* text of the line, without its newline, or NULL */
} tv_diag;

typedef struct tv_diag_sink {
    void (*emit)(void *user, const tv_diag *diag);
    void *user;
} tv_diag_sink;

/* Prints `diag` as a person reads it: place, severity, message, code, then the source line with a caret and the
 * hint. `color` non-zero adds terminal colours. */
TV_API void tv_diag_print(FILE *out, const tv_diag *diag, int color);

/* The same as one JSON object, on one line, without a newline. Heap string, the caller frees it; NULL: no memory. */
TV_API char *tv_diag_json(const tv_diag *diag);

/* A stable code, its short name and its general meaning. The strings are static. */
typedef struct tv_code_info {
    const char *code;
    const char *name;
    const char *text;
} tv_code_info;

/* Entry `i` of the list of all codes; returns 0 past its end. */
TV_API int tv_code_at(unsigned i, tv_code_info *out);

#ifdef __cplusplus
}
#endif
#endif
