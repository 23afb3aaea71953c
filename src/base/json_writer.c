/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer: a state per open object or array decides which separator, line end and indentation come before the
 * next token, so that a caller only states values. Errors (of memory or of the stream) stick; output after the first
 * one is dropped, and the caller asks once at the end. Strings without escapes are copied while they are
 * searched, others escaped byte by byte: control characters as \u00XX, bytes that are not UTF-8 as '?', so that the
 * output is always valid JSON. */
#include "base/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/json_text.h"
#include "base/text.h"

static void init(tv_json_writer *w, tv_buf *buf, FILE *file, tv_json_style style)
{
    memset(w, 0, offsetof(tv_json_writer, stage));
    w->buf = buf;
    w->file = file;
    w->style = style;
    w->is_first = true;
}

void tv_json_writer_init_buf(tv_json_writer *w, tv_buf *buf, tv_json_style style) { init(w, buf, NULL, style); }

void tv_json_writer_init_file(tv_json_writer *w, FILE *file, tv_json_style style) { init(w, NULL, file, style); }

tv_json_writer *tv_json_writer_new(FILE *file, tv_json_style style)
{
    tv_json_writer *w = malloc(sizeof *w);
    if (w)
        tv_json_writer_init_file(w, file, style);
    return w;
}

void tv_json_writer_free(tv_json_writer *w) { free(w); }

/* ---- Bytes ---- */

static void write_to_sink(tv_json_writer *w, const char *bytes, size_t n)
{
    if (n == 0)
        return;
    if (w->buf) {
        tv_buf_append(w->buf, bytes, n);
        w->failed |= w->buf->failed;
    } else if (fwrite(bytes, 1, n, w->file) != n) {
        w->failed = true;
    }
}

void tv_json_writer_flush(tv_json_writer *w)
{
    write_to_sink(w, w->stage, w->staged);
    w->staged = 0;
}

static inline void put_bytes(tv_json_writer *w, const char *bytes, size_t n)
{
    if (n > TV_JSON_STAGE - w->staged) {
        tv_json_writer_flush(w);
        if (n > TV_JSON_STAGE) {
            write_to_sink(w, bytes, n);
            return;
        }
    }
    memcpy(w->stage + w->staged, bytes, n);
    w->staged += n;
}

/* Reserves `n` bytes of the stage, at most TV_JSON_STAGE, which the caller writes. */
static inline char *reserve(tv_json_writer *w, size_t n)
{
    if (n > TV_JSON_STAGE - w->staged)
        tv_json_writer_flush(w);
    w->staged += n;
    return w->stage + w->staged - n;
}

static inline void put_byte(tv_json_writer *w, char byte)
{
    if (w->staged == TV_JSON_STAGE)
        tv_json_writer_flush(w);
    w->stage[w->staged++] = byte;
}

/* ---- Structure ---- */

/* Only asserted: without assertions it is not used. */
static inline bool in_object(const tv_json_writer *w)
{
    unsigned d = w->depth - 1;
    return w->depth > 0 && (w->objects[d / 64] >> (d % 64) & 1);
}

static void break_line(tv_json_writer *w)
{
    put_byte(w, '\n');
    if (w->style == TV_JSON_INDENTED)
        for (unsigned d = 0; d < w->depth; d++)
            put_byte(w, ' ');
    w->newline = false;
}

bool tv_json_writer_finish(tv_json_writer *w)
{
    assert(w->depth == 0 && !w->after_key);
    if (w->newline)
        break_line(w);
    tv_json_writer_flush(w);
    return !w->failed;
}

/* Before a key, an element, or a value at the top. */
static void put_separator(tv_json_writer *w)
{
    bool first = w->is_first;
    if (!first && w->depth > 0)
        put_byte(w, ',');
    if (w->newline || (w->style == TV_JSON_INDENTED && w->depth > 0))
        break_line(w);
    else if (!first && w->style != TV_JSON_COMPACT && w->depth > 0)
        put_byte(w, ' ');
    w->is_first = false;
}

/* Before every value. */
static inline void begin_value(tv_json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    assert(!in_object(w));
    put_separator(w);
}

static void begin_container(tv_json_writer *w, char bracket, bool object)
{
    begin_value(w);
    put_byte(w, bracket);
    assert(w->depth < TV_JSON_WRITE_DEPTH);
    uint64_t bit = UINT64_C(1) << (w->depth % 64);
    w->objects[w->depth / 64] = (w->objects[w->depth / 64] & ~bit) | (object ? bit : 0);
    w->depth++;
    w->is_first = true;
}

static void end_container(tv_json_writer *w, char bracket)
{
    assert(w->depth > 0 && !w->after_key);
    w->depth--;
    if (w->newline || (w->style == TV_JSON_INDENTED && !w->is_first))
        break_line(w);
    put_byte(w, bracket);
    w->is_first = false;
}

void tv_json_begin_object(tv_json_writer *w) { begin_container(w, '{', true); }

void tv_json_begin_array(tv_json_writer *w) { begin_container(w, '[', false); }

void tv_json_end_object(tv_json_writer *w)
{
    assert(in_object(w));
    end_container(w, '}');
}

void tv_json_end_array(tv_json_writer *w)
{
    assert(!in_object(w));
    end_container(w, ']');
}

void tv_json_newline(tv_json_writer *w) { w->newline = true; }

/* ---- Strings ---- */

static void put_escape(tv_json_writer *w, unsigned char c)
{
    static const char letters[32] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char text[8];
    if (c < 32 && !letters[c]) {
        put_bytes(w, text, (size_t)snprintf(text, sizeof text, "\\u%04X", c));
        return;
    }
    put_byte(w, '\\');
    put_byte(w, c < 32 ? letters[c] : (char)c);
}

/* Writes the character at `i` as \u escapes if a terminal would obey it, after the bytes from *run on. Returns its
 * length, or 0 if it is another one. */
static size_t put_unsafe(tv_json_writer *w, tv_sv text, size_t *run, size_t i)
{
    char escape[TV_TEXT_ESCAPE], units[16];
    unsigned char c = (unsigned char)text.ptr[i];
    if (c < 0x7F || (c > 0x7F && c < 0xC0)) /* continuation bytes follow a character that is kept */
        return 0;
    size_t n = tv_text_next(text.ptr + i, text.len - i, TV_TEXT_KEEP_NONE, escape);
    if (!escape[0])
        return 0;
    uint32_t value = (uint32_t)strtoul(escape + 2, NULL, 16);
    int length = value <= 0xFFFF ? snprintf(units, sizeof units, "\\u%04X", value)
                                 : snprintf(units, sizeof units, "\\u%04X\\u%04X", 0xD7C0 + (value >> 10),
                                            0xDC00 + (value & 0x3FF));
    put_bytes(w, text.ptr + *run, i - *run);
    put_bytes(w, units, (size_t)length);
    *run = i + n;
    return n;
}

/* In quotation marks. Of a text with escapes each run without is copied at once. */
static void put_string(tv_json_writer *w, tv_sv text)
{
    if (text.len + 2 <= TV_JSON_STAGE) {
        char *to = reserve(w, text.len + 2);
        to[0] = to[text.len + 1] = '"';
        if (tv_json_copy_unescaped(to + 1, text))
            return;
        w->staged -= text.len + 2;
    }
    size_t run = 0;
    bool has_high = false, utf8;
    for (size_t i = 0; i < text.len; i++)
        has_high |= (unsigned char)text.ptr[i] >= 0x80;
    utf8 = !has_high || tv_sv_is_whole_utf8(text);
    put_byte(w, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool replaced = c >= 0x80 && !utf8;
        size_t escaped = replaced ? 0 : put_unsafe(w, text, &run, i);
        if (escaped) {
            i += escaped - 1;
            continue;
        }
        if (c >= 32 && c != '"' && c != '\\' && !replaced)
            continue;
        put_bytes(w, text.ptr + run, i - run);
        run = i + 1;
        if (replaced)
            put_byte(w, '?');
        else
            put_escape(w, c);
    }
    put_bytes(w, text.ptr + run, text.len - run);
    put_byte(w, '"');
}

void tv_json_key(tv_json_writer *w, const char *key)
{
    assert(in_object(w) && !w->after_key);
    put_separator(w);
    put_string(w, tv_sv_of(key));
    put_byte(w, ':');
    if (w->style != TV_JSON_COMPACT)
        put_byte(w, ' ');
    w->after_key = true;
}

void tv_json_write_text(tv_json_writer *w, tv_sv text)
{
    begin_value(w);
    put_string(w, text);
}

void tv_json_write_string(tv_json_writer *w, const char *text)
{
    if (text)
        tv_json_write_text(w, tv_sv_of(text));
    else
        tv_json_write_null(w);
}

/* ---- Other values ---- */

static void write_word(tv_json_writer *w, const char *word)
{
    begin_value(w);
    put_bytes(w, word, strlen(word));
}

void tv_json_write_null(tv_json_writer *w) { write_word(w, "null"); }

void tv_json_write_boolean(tv_json_writer *w, bool value) { write_word(w, value ? "true" : "false"); }

void tv_json_write_unsigned(tv_json_writer *w, uint64_t value)
{
    char digits[TV_JSON_DIGITS];
    begin_value(w);
    put_bytes(w, digits, (size_t)(tv_json_put_digits(digits, value) - digits));
}

void tv_json_write_integer(tv_json_writer *w, int64_t value)
{
    char digits[24];
    if (value >= 0) {
        tv_json_write_unsigned(w, (uint64_t)value);
        return;
    }
    begin_value(w);
    put_bytes(w, digits, (size_t)snprintf(digits, sizeof digits, "%" PRId64, value));
}

void tv_json_write_raw(tv_json_writer *w, tv_sv text)
{
    begin_value(w);
    put_bytes(w, text.ptr, text.len);
}

/* printf's number with a point in every locale, and an exponent without plus sign and leading zeros. Returns the
 * length. */
static size_t normalize_number(char *text)
{
    char *to = text;
    for (const char *p = text; *p;) {
        if (*p == 'e') {
            *to++ = *p++;
            if (*p == '-')
                *to++ = *p;
            p += *p == '-' || *p == '+';
            p += strspn(p, "0");
        } else if ((*p >= '0' && *p <= '9') || *p == '-') {
            *to++ = *p++;
        } else { /* the locale's decimal point, of one or more bytes */
            *to++ = '.';
            p += strcspn(p, "0123456789e");
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

enum { FEW_DIGITS = 12 };

/* A decimal of `count` digits, whose first one is that of 10^exponent, from 10^-4 on; without zeros at its end. */
static size_t put_decimal(char *text, uint64_t decimal, int count, int exponent)
{
    for (; decimal % 10000 == 0 && count > exponent + 4; decimal /= 10000)
        count -= 4;
    for (; decimal % 10 == 0 && count > exponent + 1; decimal /= 10)
        count--;
    const int before = exponent < 0 ? 1 : exponent + 1; /* the point */
    const int length = exponent < 0 ? count - exponent : count;
    char *at = text + length + (length > before);
    size_t written = (size_t)(at - text);
    for (int i = length; i > 0; i--, decimal /= 10) {
        if (i == before && length > before)
            *--at = '.';
        *--at = (char)('0' + decimal % 10);
    }
    return written;
}

/* Writes `value` as printf's %g, which rounds to nearest, and returns the length. 0: it is below 10^-4, has more than
 * FEW_DIGITS digits or an exponent, or its product with a power of ten is a tie. Powers up to 10^16 and ties below
 * 10^12 are exact and rounding is monotonic, so the rounded product is on the same side of a tie as the exact one, or
 * equal to it. */
static size_t format_few_digits(double value, int digits, char text[TV_JSON_NUMBER])
{
    static const double powers[FEW_DIGITS + 5] = {1e0, 1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7, 1e8,
                                                  1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16};
    int exponent = -4;
    if (digits < 1 || digits > FEW_DIGITS || !(value >= 1e-4 && value < powers[digits]))
        return 0;
    while (exponent < digits - 1 && value * 1e4 >= powers[exponent + 5])
        exponent++;
    double scaled = value * powers[digits - 1 - exponent];
    uint64_t decimal = (uint64_t)scaled;
    double rest = scaled - (double)decimal;
    if (rest == 0.5)
        return 0;
    decimal += rest > 0.5;
    if (decimal >= (uint64_t)powers[digits]) {
        decimal /= 10;
        exponent++;
    }
    return exponent < digits ? put_decimal(text, decimal, digits, exponent) : 0;
}

size_t tv_json_format_double(double value, int digits, bool is_real, char text[TV_JSON_NUMBER])
{
    enum { EXACT_FROM = 15, EXACT_TO = 17, FRACTION = 2 };
    if (!isfinite(value))
        return (size_t)snprintf(text, TV_JSON_NUMBER, "null");
    size_t length = format_few_digits(value, digits, text);
    if (length == 0) {
        int n = digits ? digits : EXACT_FROM;
        snprintf(text, TV_JSON_NUMBER - FRACTION, "%.*g", n, value);
        while (digits == 0 && n < EXACT_TO && strtod(text, NULL) != value)
            snprintf(text, TV_JSON_NUMBER - FRACTION, "%.*g", ++n, value);
        length = normalize_number(text);
    }
    if (is_real && !memchr(text, '.', length) && !memchr(text, 'e', length)) {
        text[length++] = '.';
        text[length++] = '0';
    }
    return length;
}

static void write_double(tv_json_writer *w, double value, int digits, bool is_real)
{
    char text[TV_JSON_NUMBER];
    size_t length = tv_json_format_double(value, digits, is_real, text);
    begin_value(w);
    put_bytes(w, text, length);
}

void tv_json_write_real(tv_json_writer *w, double value, int digits) { write_double(w, value, digits, true); }

void tv_json_write_number(tv_json_writer *w, double value, int digits) { write_double(w, value, digits, false); }

/* ---- Trees ---- */

void tv_json_write_members(tv_json_writer *w, const tv_json_value *object, int digits)
{
    for (const tv_json_value *v = tv_json_first(object); v; v = v->next) {
        tv_json_key(w, v->key);
        tv_json_write_value(w, v, digits);
    }
}

void tv_json_write_value(tv_json_writer *w, const tv_json_value *v, int digits)
{
    switch (v ? v->type : TV_JSON_NULL) {
    case TV_JSON_NULL:
        tv_json_write_null(w);
        break;
    case TV_JSON_BOOLEAN:
        tv_json_write_boolean(w, v->boolean);
        break;
    case TV_JSON_INTEGER:
        if (v->text)
            tv_json_write_raw(w, (tv_sv){v->text, v->length});
        else
            tv_json_write_integer(w, v->integer);
        break;
    case TV_JSON_REAL:
        if (v->text)
            tv_json_write_raw(w, (tv_sv){v->text, v->length});
        else
            tv_json_write_real(w, v->real, digits);
        break;
    case TV_JSON_STRING:
        tv_json_write_text(w, (tv_sv){v->text, v->length});
        break;
    case TV_JSON_ARRAY:
        tv_json_begin_array(w);
        for (const tv_json_value *e = v->first; e; e = e->next)
            tv_json_write_value(w, e, digits);
        tv_json_end_array(w);
        break;
    case TV_JSON_OBJECT:
        tv_json_begin_object(w);
        tv_json_write_members(w, v, digits);
        tv_json_end_object(w);
        break;
    }
}
