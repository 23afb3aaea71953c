/* SPDX-License-Identifier: Apache-2.0 */
/* String views: a pointer and a length into bytes owned by another object. Not NUL-terminated. */
#ifndef TV_BASE_SV_H
#define TV_BASE_SV_H

#include "base/base.h"

typedef struct tv_sv {
    const char *ptr;
    size_t len;
} tv_sv;

#define TV_SV_ARG(sv) (int)(sv).len, (sv).ptr /* for "%.*s" */

static inline tv_sv tv_sv_of(const char *text) { return (tv_sv){text, strlen(text)}; }

static inline bool tv_sv_eq(tv_sv a, tv_sv b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool tv_sv_is(tv_sv a, const char *text)
{
    size_t n = strlen(text);
    return a.len == n && memcmp(a.ptr, text, n) == 0;
}

static inline bool tv_sv_starts_with(tv_sv a, const char *start)
{
    size_t n = strlen(start);
    return a.len >= n && memcmp(a.ptr, start, n) == 0;
}

static inline bool tv_sv_ends_with(tv_sv a, const char *end)
{
    size_t n = strlen(end);
    return a.len >= n && memcmp(a.ptr + a.len - n, end, n) == 0;
}

/* `a` without spaces and tabs at its ends. */
static inline tv_sv tv_sv_trim(tv_sv a)
{
    for (; a.len && (a.ptr[0] == ' ' || a.ptr[0] == '\t'); a.len--)
        a.ptr++;
    while (a.len && (a.ptr[a.len - 1] == ' ' || a.ptr[a.len - 1] == '\t'))
        a.len--;
    return a;
}

/* Equality, ignoring ASCII case. */
bool tv_sv_is_nocase(tv_sv a, const char *text);

/* Well-formed UTF-8, checking only lead bytes and second bytes: the JSON parser has checked the others. */
bool tv_sv_is_utf8(tv_sv a);

/* Well-formed UTF-8, down to every continuation byte. */
bool tv_sv_is_whole_utf8(tv_sv text);

/* Compares texts like strcmp, but runs of digits as numbers: "blk.2" comes before "blk.10". */
int tv_compare_numbered(const char *a, const char *b);

/* 64-bit FNV-1a; for hash tables in memory only. */
static inline uint64_t tv_sv_hash(tv_sv a)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < a.len; i++)
        h = (h ^ (uint8_t)a.ptr[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

/* The Damerau-Levenshtein distance (insertions, deletions, substitutions and transpositions of neighbours), ignoring
 * ASCII case; `limit` + 1 when it exceeds `limit` or a view has more than 63 bytes. */
unsigned tv_edit_distance(tv_sv a, tv_sv b, unsigned limit);

/* The nearest candidate so far, for "did you mean" hints; `best` is NULL while none is near enough to suggest. */
typedef struct tv_nearest {
    tv_sv name;
    const char *best;
    unsigned distance;
} tv_nearest;

tv_nearest tv_nearest_to(tv_sv name);
void tv_nearest_offer(tv_nearest *nearest, const char *candidate);

#endif
