/* SPDX-License-Identifier: Apache-2.0 */
/* String views, and the edit distance for "did you mean" hints. */
#include "base/sv.h"

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

bool tv_sv_is_nocase(tv_sv a, const char *text)
{
    for (size_t i = 0; i < a.len; i++)
        if (text[i] == '\0' || lower(a.ptr[i]) != lower(text[i]))
            return false;
    return text[a.len] == '\0';
}

bool tv_sv_is_utf8(tv_sv a)
{
    const unsigned char *p = (const unsigned char *)a.ptr;
    for (size_t i = 0, continuation; i < a.len; i += 1 + continuation) {
        unsigned lead = p[i], second = i + 1 < a.len ? p[i + 1] : 0;
        continuation = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        if (lead >= 0x80 &&
            (lead < 0xC2 || lead > 0xF4 || (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
             (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)))
            return false;
    }
    return true;
}

bool tv_sv_is_whole_utf8(tv_sv text)
{
    for (size_t i = 0; i < text.len;) {
        unsigned char lead = (unsigned char)text.ptr[i];
        size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (n > text.len - i)
            return false;
        for (size_t k = 1; k < n; k++)
            if (((unsigned char)text.ptr[i + k] & 0xC0) != 0x80)
                return false;
        i += n;
    }
    return tv_sv_is_utf8(text);
}

/* The set of the characters of a text; some characters share a bit. */
static uint64_t character_set(tv_sv text)
{
    uint64_t set = 0;
    for (size_t i = 0; i < text.len; i++)
        set |= UINT64_C(1) << (lower(text.ptr[i]) & 63);
    return set;
}

/* A lower bound of the distance: the difference of the lengths, and the characters that only one text has. */
static size_t distance_bound(tv_sv a, tv_sv b)
{
    uint64_t in_a = character_set(a), in_b = character_set(b);
    size_t lengths = a.len > b.len ? a.len - b.len : b.len - a.len;
    size_t only_a = (size_t)__builtin_popcountll(in_a & ~in_b), only_b = (size_t)__builtin_popcountll(in_b & ~in_a);
    size_t only = only_a > only_b ? only_a : only_b;
    return lengths > only ? lengths : only;
}

unsigned tv_edit_distance(tv_sv a, tv_sv b, unsigned limit)
{
    enum { MAX = 63 };
    if (a.len > MAX || b.len > MAX || distance_bound(a, b) > limit)
        return limit + 1;
    unsigned rows[3][MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];
    for (unsigned j = 0; j <= b.len; j++)
        last[j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        row[0] = i;
        unsigned row_min = i;
        for (unsigned j = 1; j <= b.len; j++) {
            char ca = lower(a.ptr[i - 1]), cb = lower(b.ptr[j - 1]);
            unsigned d = last[j - 1] + (ca != cb);
            if (last[j] + 1 < d)
                d = last[j] + 1;
            if (row[j - 1] + 1 < d)
                d = row[j - 1] + 1;
            if (i > 1 && j > 1 && ca == lower(b.ptr[j - 2]) && cb == lower(a.ptr[i - 2]) && before[j - 2] + 1 < d)
                d = before[j - 2] + 1;
            row[j] = d;
            if (d < row_min)
                row_min = d;
        }
        if (row_min > limit)
            return limit + 1;
        unsigned *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b.len] > limit ? limit + 1 : last[b.len];
}

tv_nearest tv_nearest_to(tv_sv name)
{
    /* Up to a third of the characters may differ: "gmv" suggests "gemv", "x" suggests nothing. */
    return (tv_nearest){.name = name, .distance = (unsigned)(name.len + 1) / 3 + 1};
}

void tv_nearest_offer(tv_nearest *nearest, const char *candidate)
{
    if (nearest->distance <= 1)
        return;
    unsigned d = tv_edit_distance(nearest->name, tv_sv_of(candidate), nearest->distance - 1);
    if (d < nearest->distance) {
        nearest->distance = d;
        nearest->best = candidate;
    }
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

int tv_compare_numbered(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x && *y) {
        if (!is_digit(*x) || !is_digit(*y)) {
            if (*x != *y)
                break;
            x++;
            y++;
            continue;
        }
        size_t n = 0, m = 0;
        x += strspn(x, "0");
        y += strspn(y, "0");
        while (is_digit(x[n]))
            n++;
        while (is_digit(y[m]))
            m++;
        int order = n != m ? (n < m ? -1 : 1) : memcmp(x, y, n);
        if (order)
            return order;
        x += n;
        y += m;
    }
    if (*x == *y) /* the same but for leading zeros */
        return strcmp(a, b);
    return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
}
