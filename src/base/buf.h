/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer. A failed allocation is remembered in `failed`; later appends do nothing, so that a writer may
 * check once at its end. */
#ifndef TV_BASE_BUF_H
#define TV_BASE_BUF_H

#include <stdarg.h>

#include "base/sv.h"

typedef struct tv_buf {
    uint8_t *data;
    size_t len, cap;
    bool failed;
} tv_buf;

/* A zeroed tv_buf is empty and ready. */
void tv_buf_fini(tv_buf *buf);

/* Gives the room of `from` to `to`, which has none; both are empty then. */
void tv_buf_reuse(tv_buf *to, tv_buf *from);

/* Room for `n` more bytes, not zeroed, counted as used; NULL when memory is short. */
void *tv_buf_extend(tv_buf *buf, size_t n);

void tv_buf_append(tv_buf *buf, const void *bytes, size_t n);
void tv_buf_fill(tv_buf *buf, uint8_t byte, size_t n);
void tv_buf_le(tv_buf *buf, uint64_t value, unsigned bytes); /* little endian, 1 to 8 bytes */
void tv_buf_str(tv_buf *buf, const char *text);
void tv_buf_printf(tv_buf *buf, const char *format, ...) TV_PRINTF(2, 3);
void tv_buf_vprintf(tv_buf *buf, const char *format, va_list args) TV_PRINTF(2, 0);

/* The text so far, NUL-terminated (the NUL is not counted); "" when memory was short. */
const char *tv_buf_cstr(tv_buf *buf);

/* Gives the bytes, NUL-terminated, to the caller, who frees them; the buffer is empty then. NULL: no memory. */
char *tv_buf_take(tv_buf *buf);

#endif
