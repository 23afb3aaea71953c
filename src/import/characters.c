/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes UTF-8; classifies characters by a table for ASCII and by ranges above it. */
#include "import/characters.h"

typedef struct char_range {
    uint32_t first, last;
    tv_char_kind kind;
} char_range;

static const char_range ranges[] = {
#define TV_CHARS(kind, first, last) {first, last, TV_CHAR_##kind},
#include "import/unicode.def"
#undef TV_CHARS
};

/* A letter for each kind, by code: controls, white space, letters, numbers, punctuation, symbols. */
static const char ascii_kinds[129] = "ooooooooowwwwwoooooooooooooooooo"
                                     "wpppspppppps"
                                     "ppppnnnnnnnnnnppsssp"
                                     "pllllllllllllllllllllllllllpppsp"
                                     "sllllllllllllllllllllllllllpspso";

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

static tv_char_kind ascii_kind(char letter)
{
    switch (letter) {
    case 'l':
        return TV_CHAR_LETTER;
    case 'n':
        return TV_CHAR_NUMBER;
    case 'p':
        return TV_CHAR_PUNCTUATION;
    case 's':
        return TV_CHAR_SYMBOL;
    case 'w':
        return TV_CHAR_SPACE;
    default: /* 'o' */
        return TV_CHAR_OTHER;
    }
}

tv_char_kind tv_char_kind_of(int32_t code)
{
    if (code < 0)
        return TV_CHAR_SYMBOL;
    if (code < 0x80)
        return ascii_kind(ascii_kinds[code]);
    size_t low = 0, high = TV_COUNTOF(ranges); /* the first range that does not end before `code` */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].last < (uint32_t)code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < TV_COUNTOF(ranges) && ranges[low].first <= (uint32_t)code ? ranges[low].kind : TV_CHAR_OTHER;
}
