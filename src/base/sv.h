/* SPDX-License-Identifier: Apache-2.0 */
/* String views: a pointer and a length into bytes that somebody else owns. Never NUL-terminated by contract. */
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

/* Equality without regard to ASCII case. */
bool tv_sv_is_nocase(tv_sv a, const char *text);

/* Well-formed UTF-8, looking at leads and second bytes alone: the JSON parser has checked the rest. */
bool tv_sv_is_utf8(tv_sv a);

/* 64-bit FNV-1a; for hash tables in memory only. */
static inline uint64_t tv_sv_hash(tv_sv a)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < a.len; i++)
        h = (h ^ (uint8_t)a.ptr[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

/* Edit distance (insert, delete, replace, swap of neighbours), cut off at `limit` + 1. Views over 63 bytes are far
 * from everything. */
unsigned tv_edit_distance(tv_sv a, tv_sv b, unsigned limit);

/* Keeps the nearest of the candidates shown to it; `best` is NULL while none is near enough to suggest. */
typedef struct tv_nearest {
    tv_sv wanted;
    const char *best;
    unsigned distance;
} tv_nearest;

tv_nearest tv_nearest_to(tv_sv wanted);
void tv_nearest_offer(tv_nearest *nearest, const char *candidate);

#endif
