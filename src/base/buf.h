/* SPDX-License-Identifier: Apache-2.0 */
/* The growable byte buffer, for text and binary output; arrays of other types are TV_VEC (vec.h). A failed allocation
 * sets `failed`, and later appends do nothing, so that a writer may check once at its end. */
#ifndef TV_BASE_BUF_H
#define TV_BASE_BUF_H

#include <stdarg.h>

#include "base/sv.h"

typedef struct tv_buf {
    uint8_t *data;
    size_t len, cap;
    bool failed;
    bool fixed; /* `data` is the caller's array, which does not grow */
} tv_buf;

/* An empty buffer on an array, for texts of bounded length: it never allocates, and fails when the array is full. */
#define TV_BUF_FIXED(array) ((tv_buf){.data = (uint8_t *)(array), .cap = sizeof(array), .fixed = true})

/* A zeroed tv_buf is empty and valid. */
void tv_buf_fini(tv_buf *buf);

/* Moves the allocation of `from` to `to`, which has none. Both are empty afterwards. */
void tv_buf_reuse(tv_buf *to, tv_buf *from);

/* Appends `n` uninitialized bytes and returns the first of them; NULL: out of memory. */
void *tv_buf_extend(tv_buf *buf, size_t n);

/* Space for `n` bytes behind the contents, which do not grow; NULL: out of memory. Valid until the next append. */
static inline void *tv_buf_reserve(tv_buf *buf, size_t n)
{
    if (buf->failed || buf->cap - buf->len < n) {
        if (!tv_buf_extend(buf, n))
            return NULL;
        buf->len -= n;
    }
    return buf->data + buf->len;
}

void tv_buf_append(tv_buf *buf, const void *bytes, size_t n);
void tv_buf_fill(tv_buf *buf, uint8_t byte, size_t n);

/* Appends an integer of 1 to 8 bytes, little endian. */
static inline void tv_buf_le(tv_buf *buf, uint64_t value, unsigned bytes)
{
    void *p;
    if (!buf->failed && buf->cap - buf->len >= bytes) {
        p = buf->data + buf->len;
        buf->len += bytes;
    } else {
        p = tv_buf_extend(buf, bytes);
    }
    if (p)
        tv_store_le(p, value, bytes);
}

void tv_buf_str(tv_buf *buf, const char *text);
void tv_buf_printf(tv_buf *buf, const char *format, ...) TV_PRINTF(2, 3);
void tv_buf_vprintf(tv_buf *buf, const char *format, va_list args) TV_PRINTF(2, 0);

/* The contents, NUL-terminated (`len` does not count the NUL); "" when out of memory. */
const char *tv_buf_cstr(tv_buf *buf);

/* tv_buf_cstr, but NULL when out of memory. */
const char *tv_buf_cstr_or_null(tv_buf *buf);

/* Returns the contents, NUL-terminated, as memory that the caller frees, and leaves the buffer empty. NULL: out of
 * memory. */
char *tv_buf_take(tv_buf *buf);

#endif
