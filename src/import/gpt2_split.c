/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-tokenizer of GPT-2, written without a regular expression engine. */
#include "import/gpt2_split.h"

typedef struct code_range {
    uint32_t first, last;
} code_range;

static const code_range letters[] = {
#define TV_LETTERS(first, last) {first, last},
#define TV_NUMBERS(first, last)
#include "import/unicode.def"
#undef TV_LETTERS
#undef TV_NUMBERS
};

static const code_range numbers[] = {
#define TV_LETTERS(first, last)
#define TV_NUMBERS(first, last) {first, last},
#include "import/unicode.def"
#undef TV_LETTERS
#undef TV_NUMBERS
};

static const code_range spaces[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

typedef enum char_class { LETTER, NUMBER, SPACE, OTHER } char_class;

size_t tv_utf8_decode(tv_sv text, int32_t *code)
{
    static const uint32_t min_code[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *p = (const uint8_t *)text.ptr;
    *code = p[0];
    if (p[0] < 0x80)
        return 1;
    unsigned n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    *code = -1;
    if (p[0] < 0xC2 || p[0] > 0xF4 || text.len < n)
        return 1;
    uint32_t value = p[0] & (0x7Fu >> n);
    for (unsigned i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 1;
        value = value << 6 | (p[i] & 0x3F);
    }
    if (value < min_code[n] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return 1;
    *code = (int32_t)value;
    return n;
}

static bool in_ranges(const code_range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count; /* the first range that does not end before `code` */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low].first <= code;
}

static char_class class_of(int32_t code)
{
    if (code < 0)
        return OTHER;
    uint32_t c = (uint32_t)code;
    if (in_ranges(letters, TV_COUNTOF(letters), c))
        return LETTER;
    if (in_ranges(spaces, TV_COUNTOF(spaces), c))
        return SPACE;
    return in_ranges(numbers, TV_COUNTOF(numbers), c) ? NUMBER : OTHER;
}

static tv_sv suffix(tv_sv text, size_t at) { return (tv_sv){text.ptr + at, text.len - at}; }

/* Bytes of the characters of class `kind` from `at` on. */
static size_t class_span(tv_sv text, size_t at, char_class kind)
{
    size_t start = at;
    while (at < text.len) {
        int32_t code;
        size_t n = tv_utf8_decode(suffix(text, at), &code);
        if (class_of(code) != kind)
            break;
        at += n;
    }
    return at - start;
}

static size_t contraction_bytes(tv_sv text)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < TV_COUNTOF(endings); i++) {
        size_t n = strlen(endings[i]);
        if (text.len >= n && memcmp(text.ptr, endings[i], n) == 0)
            return n;
    }
    return 0;
}

/* Trailing white space is one word; before a non-space, all of it except its last character, unless that is all. */
static size_t whitespace_bytes(tv_sv text)
{
    size_t at = 0, last = 0;
    while (at < text.len) {
        int32_t code;
        size_t n = tv_utf8_decode(suffix(text, at), &code);
        if (class_of(code) != SPACE)
            return last > 0 ? last : at;
        last = at;
        at += n;
    }
    return at;
}

size_t tv_gpt2_word(tv_sv text)
{
    if (text.len == 0)
        return 0;
    size_t n = contraction_bytes(text);
    if (n > 0)
        return n;
    size_t space = text.ptr[0] == ' ' && text.len > 1;
    int32_t code;
    tv_utf8_decode(suffix(text, space), &code);
    char_class first = class_of(code);
    if (first != SPACE)
        return space + class_span(text, space, first);
    return whitespace_bytes(text);
}
