/* SPDX-License-Identifier: Apache-2.0 */
/* How the library reports: a code, a source location, a message, perhaps a hint. */
#ifndef TV_BASE_DIAG_H
#define TV_BASE_DIAG_H

#include <stdarg.h>

#include "base/json_writer.h"
#include "trivet/diag.h"

/* A stable code. The tables of codes are constant; each machine has its own (tv_isa). */
typedef tv_code_info tv_code;

typedef enum tv_code_id {
#define TV_CODE_ROW(id, code, name, text) TV_CODE_##id,
#include "base/codes.def"
#undef TV_CODE_ROW
    TV_CODE_COUNT
} tv_code_id;

extern const tv_code tv_codes[TV_CODE_COUNT];

#define TV_CODE(id) (&tv_codes[TV_CODE_##id])

/* The source location of a diagnostic. Zeroed fields mean unknown, but `index` must be -1 for "no instruction". */
typedef struct tv_source_loc {
    const char *file;
    unsigned line, column, length;
    int64_t index;
    const char *source_line; /* NUL-terminated, or NULL */
} tv_source_loc;

#define TV_NO_SOURCE_LOC ((tv_source_loc){.index = -1})

/* Bytes of a message, with its NUL; longer ones end in " ...". */
enum { TV_DIAG_MESSAGE = 4096 };

/* Formats the message and passes the diagnostic to `sink` (which may be NULL). `hint` may be NULL. */
void tv_report(const tv_diag_sink *sink, tv_severity severity, const tv_code *code, const tv_source_loc *loc,
               const char *hint, const char *format, ...) TV_PRINTF(6, 7);

void tv_vreport(const tv_diag_sink *sink, tv_severity severity, const tv_code *code, const tv_source_loc *loc,
                const char *hint, const char *format, va_list args) TV_PRINTF(6, 0);

/* Reports an error without a source location; returns `status`, so that a caller can return it. */
tv_status tv_fail(const tv_diag_sink *sink, tv_status status, const tv_code *code, const char *hint, const char *format,
                  ...) TV_PRINTF(5, 6);

/* Reports that the size member of a caller's `type` is not set; returns TV_ERR_INPUT. */
tv_status tv_fail_size(const tv_diag_sink *sink, const char *type);

/* Reports that the host ran out of memory; returns TV_ERR_MEMORY. */
tv_status tv_fail_memory(const tv_diag_sink *sink);

#endif
