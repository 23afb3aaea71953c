/* SPDX-License-Identifier: Apache-2.0 */
/* Structured diagnostics.
 *
 * The library never prints. It passes each diagnostic to the caller's sink in the order of discovery, on the thread
 * that called the library. */
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
    const char *name;        /* short name of the code: "reserved-bit" */
    const char *file;        /* NULL: the diagnostic is not about a file */
    unsigned line;           /* 1-based; 0: unknown */
    unsigned column;         /* 1-based, in bytes; 0: unknown */
    unsigned length;         /* bytes to underline from `column` on; 0: one */
    int64_t index;           /* instruction index; -1: not about an instruction */
    const char *message;     /* what was found and what was expected */
    const char *hint;        /* how to fix it, or NULL */
    const char *source_line; /* text of the line without its newline, or NULL */
    unsigned source_offset;  /* bytes of the line before those of source_line: of a long line a part is shown */
} tv_diag;

/* Receiver of diagnostics. `emit` may be NULL: diagnostics are dropped. The strings of a tv_diag are valid until `emit`
 * returns. */
typedef struct tv_diag_sink {
    void (*emit)(void *user, const tv_diag *diag);
    void *user;
} tv_diag_sink;

/* Prints `diag` to `out` as text: source location, severity, message, code, then the source line with a caret and the
 * hint. A non-zero `color` adds terminal colors. Write errors are left to ferror(out). */
TV_API void tv_diag_print(FILE *out, const tv_diag *diag, int color);

/* Formats `diag` as one JSON object on one line, without a newline. Returns a heap string that the caller frees with
 * free(), or NULL when out of memory. */
TV_API char *tv_diag_json(const tv_diag *diag);

/* A stable code, its short name and its general meaning. Static strings. */
typedef struct tv_code_info {
    const char *code;
    const char *name;
    const char *text;
} tv_code_info;

/* A code with its usual cause and what to do. Static strings. */
typedef struct tv_code_explanation {
    tv_code_info info;
    const char *cause;   /* how it usually comes about */
    const char *fix;     /* what to do */
    const char *example; /* lines `$ COMMAND` with what they print; `$ cat FILE` shows an input. Lines `# ` describe
                            what a command line cannot show */
} tv_code_explanation;

/* Finds the explanation of `code`, or of the code of that name, in upper or lower case. Returns 0 if there is none. */
TV_API int tv_code_explain(const char *code, tv_code_explanation *out);

/* Entry `i` of the list of all codes. Returns 0 past the end. */
TV_API int tv_code_at(unsigned i, tv_code_info *out);

#ifdef __cplusplus
}
#endif
#endif
