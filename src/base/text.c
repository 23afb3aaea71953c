/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

/* Decodes the UTF-8 sequence at `p`. Returns its length; 0: there is none, or not the shortest one of a character. */
static size_t decode_utf8(const unsigned char *p, size_t size, uint32_t *out)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    if (n == 0 || n > size)
        return 0;
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3F);
    }
    *out = c;
    return c >= smallest[n] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF) ? n : 0;
}

static bool is_unsafe(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x80, 0x9F},     {0x61C, 0x61C},   {0x200E, 0x200F}, {0x2028, 0x202E},
                  {0x2066, 0x2069}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
    for (size_t i = 0; i < TV_COUNTOF(ranges); i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

/* No printf: it is not safe in a signal handler. */
static void write_escape(char kind, uint32_t value, unsigned digits, char out[TV_TEXT_ESCAPE])
{
    *out++ = '\\';
    *out++ = kind;
    while (digits-- > 0)
        *out++ = "0123456789abcdef"[value >> (4 * digits) & 15];
    *out = '\0';
}

size_t tv_text_next(const char *text, size_t size, tv_text_keep keep, char escape[TV_TEXT_ESCAPE])
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t c = 0;
    size_t n = decode_utf8(p, size, &c);
    bool kept = (c == '\t' && keep != TV_TEXT_KEEP_NONE) || (c == '\n' && keep == TV_TEXT_KEEP_LINES);
    escape[0] = '\0';
    if (n == 0 || (n == 1 && (c < 0x20 || c == 0x7F) && !kept))
        write_escape('x', p[0], 2, escape);
    else if (n > 1 && is_unsafe(c))
        write_escape(c > 0xFFFF ? 'U' : 'u', c, c > 0xFFFF ? 8 : 4, escape);
    return n ? n : 1;
}

void tv_buf_text(tv_buf *buf, tv_sv text, tv_text_keep keep)
{
    char escape[TV_TEXT_ESCAPE];
    for (size_t i = 0, n; i < text.len; i += n) {
        n = tv_text_next(text.ptr + i, text.len - i, keep, escape);
        if (escape[0])
            tv_buf_str(buf, escape);
        else
            tv_buf_append(buf, text.ptr + i, n);
    }
}

size_t tv_text_columns(const char *text, size_t size)
{
    char escape[TV_TEXT_ESCAPE];
    size_t columns = 0;
    for (size_t i = 0; i < size; columns += escape[0] ? strlen(escape) : 1)
        i += tv_text_next(text + i, size - i, TV_TEXT_KEEP_TABS, escape);
    return columns;
}

void tv_text_print(FILE *out, const char *text, size_t size, tv_text_keep keep)
{
    char escape[TV_TEXT_ESCAPE];
    size_t run = 0; /* safe bytes before this one that are not printed yet */
    for (size_t i = 0, n; i < size; i += n) {
        n = tv_text_next(text + i, size - i, keep, escape);
        if (!escape[0])
            continue;
        fwrite(text + run, 1, i - run, out);
        fputs(escape, out);
        run = i + n;
    }
    fwrite(text + run, 1, size - run, out);
}

const char *tv_text_escape(const char *text, char *out, size_t capacity)
{
    char escape[TV_TEXT_ESCAPE];
    size_t size = strlen(text), at = 0;
    for (size_t i = 0, n; i < size; i += n) {
        n = tv_text_next(text + i, size - i, TV_TEXT_KEEP_NONE, escape);
        size_t length = escape[0] ? strlen(escape) : n;
        if (length >= capacity - at)
            break;
        memcpy(out + at, escape[0] ? escape : text + i, length);
        at += length;
    }
    out[at] = '\0';
    return out;
}
