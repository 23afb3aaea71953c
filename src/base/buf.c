/* SPDX-License-Identifier: Apache-2.0 */
/* The growable byte buffer. */
#include "base/buf.h"

#include <stdio.h>

#include "base/vec.h"

void tv_buf_fini(tv_buf *buf)
{
    if (!buf->fixed)
        free(buf->data);
    *buf = (tv_buf){0};
}

void tv_buf_reuse(tv_buf *to, tv_buf *from)
{
    *to = (tv_buf){.data = from->data, .cap = from->cap};
    *from = (tv_buf){0};
}

static bool reserve(tv_buf *buf, size_t n)
{
    if (buf->fixed)
        buf->failed |= buf->cap - buf->len < n;
    else if (!buf->failed && buf->cap - buf->len < n)
        buf->data = tv_vec_grow(buf->data, 1, buf->len, n, &buf->cap, &buf->failed);
    return !buf->failed;
}

void *tv_buf_extend(tv_buf *buf, size_t n)
{
    if (!reserve(buf, n))
        return NULL;
    void *p = buf->data + buf->len;
    buf->len += n;
    return p;
}

void tv_buf_append(tv_buf *buf, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    void *p = tv_buf_extend(buf, n);
    if (p)
        memcpy(p, bytes, n);
}

void tv_buf_fill(tv_buf *buf, uint8_t byte, size_t n)
{
    if (n == 0)
        return;
    void *p = tv_buf_extend(buf, n);
    if (p)
        memset(p, byte, n);
}

void tv_buf_str(tv_buf *buf, const char *text) { tv_buf_append(buf, text, strlen(text)); }

void tv_buf_vprintf(tv_buf *buf, const char *format, va_list args)
{
    va_list copy;
    va_copy(copy, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n > 0 && reserve(buf, (size_t)n + 1)) {
        vsnprintf((char *)buf->data + buf->len, (size_t)n + 1, format, copy);
        buf->len += (size_t)n;
    }
    va_end(copy);
}

void tv_buf_printf(tv_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tv_buf_vprintf(buf, format, args);
    va_end(args);
}

const char *tv_buf_cstr(tv_buf *buf)
{
    if (!reserve(buf, 1))
        return "";
    buf->data[buf->len] = '\0';
    return (const char *)buf->data;
}

const char *tv_buf_cstr_or_null(tv_buf *buf)
{
    const char *text = tv_buf_cstr(buf);
    return buf->failed ? NULL : text;
}

char *tv_buf_take(tv_buf *buf)
{
    if (!reserve(buf, 1)) {
        tv_buf_fini(buf);
        return NULL;
    }
    buf->data[buf->len] = '\0';
    char *text = (char *)buf->data;
    *buf = (tv_buf){0};
    return text;
}
