/* SPDX-License-Identifier: Apache-2.0 */
/* Macros and small functions for every file. */
#ifndef TV_BASE_BASE_H
#define TV_BASE_BASE_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trivet/status.h"

__extension__ typedef unsigned __int128 tv_u128; /* products of 64-bit numbers */

#define TV_COUNTOF(array) (sizeof(array) / sizeof((array)[0]))

/* Returns from the calling function when `expr` is not TV_OK. Only where nothing is left to clean up. */
#define TV_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        tv_status tv_try_status = (expr);                                                                              \
        if (tv_try_status != TV_OK)                                                                                    \
            return tv_try_status;                                                                                      \
    } while (0)

/* a / b rounded up; b is not zero. */
static inline uint64_t tv_ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

static inline uint64_t tv_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static inline uint64_t tv_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The greatest common divisor; gcd(a, 0) = a. */
static inline uint64_t tv_gcd_u64(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static inline tv_u128 tv_gcd_u128(tv_u128 a, tv_u128 b)
{
    while (b) {
        tv_u128 r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* True for an error number that says that the host failed, false for one about a path. */
static inline bool tv_is_host_failure(int error)
{
    return error == EIO || error == ENOMEM || error == EMFILE || error == ENFILE || error == ENOBUFS;
}

/* The low `width` bits set; width 0 to 64. */
static inline uint64_t tv_mask(unsigned width) { return width >= 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1; }

/* Bytes of a struct up to and including `member`: the size of the first version of a struct that has grown since. */
#define TV_SIZE_UP_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/* Reads `from`, a caller's struct that begins with its size (see trivet.h), into `to` of `known` bytes, the version of
 * this library. Members that the caller's version lacks become zero; members that this library does not know are
 * ignored. Returns false, with `to` unspecified, when the caller's size is below `minimum`. */
static inline bool tv_read_sized(void *to, size_t known, size_t minimum, const void *from)
{
    size_t size;
    memcpy(&size, from, sizeof size);
    if (size < minimum)
        return false;
    memset(to, 0, known);
    memcpy(to, from, size < known ? size : known);
    memcpy(to, &known, sizeof known);
    return true;
}

/* Writes `from` of `known` bytes to `to`, a caller's struct that begins with its size, as far as it has room; the size
 * stays. Returns false and leaves `to` untouched when the caller's size is below `minimum`. */
static inline bool tv_write_sized(void *to, size_t minimum, const void *from, size_t known)
{
    size_t size;
    memcpy(&size, to, sizeof size);
    if (size < minimum)
        return false;
    memcpy(to, from, size < known ? size : known);
    memcpy(to, &size, sizeof size);
    return true;
}

/* Unaligned little-endian access on hosts of either byte order. */
static inline uint16_t tv_load_le16(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | (unsigned)b[1] << 8);
}

static inline uint32_t tv_load_le32(const void *p)
{
    const uint8_t *b = p;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t tv_load_le64(const void *p)
{
    const uint8_t *b = p;
    return tv_load_le32(b) | (uint64_t)tv_load_le32(b + 4) << 32;
}

static inline void tv_store_le(void *p, uint64_t value, unsigned bytes)
{
    uint8_t *b = p;
    for (unsigned i = 0; i < bytes; i++)
        b[i] = (uint8_t)(value >> (8 * i));
}

#endif
