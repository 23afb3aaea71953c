/* SPDX-License-Identifier: Apache-2.0 */
/* Element types of machine memory, as --dump, --load and tv_machine_read name them. */
#ifndef TRIVET_DTYPE_H
#define TRIVET_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "trivet/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tv_dtype {
    TV_I4,
    TV_S8,
    TV_U8,
    TV_S16,
    TV_U16,
    TV_S32,
    TV_U32,
    TV_F32,
    TV_F16,
    TV_BF16,
    TV_HEX8,
    TV_HEX16,
    TV_HEX32,
    TV_HEX64,
    TV_I2,
    TV_DTYPE_COUNT
} tv_dtype;

/* "bf16" and so on; static storage. */
TV_API const char *tv_dtype_name(tv_dtype type);

/* Finds a type by name; TV_ERR_INPUT: there is none. */
TV_API tv_status tv_dtype_find(const char *name, tv_dtype *out);

/* Bits of one element: 2, 4, 8, 16, 32 or 64. */
TV_API unsigned tv_dtype_bits(tv_dtype type);

/* Bytes that `count` packed elements take. */
TV_API uint64_t tv_dtype_bytes(tv_dtype type, uint64_t count);

/* Writes element `i` of little-endian packed `bytes` as text, NUL-terminated: floating values with the fewest digits
 * that read back as the same bits ("nan", "inf", "-inf" where they are not finite), hexN as 0x and N/4 digits. */
enum { TV_DTYPE_TEXT = 40 };
TV_API void tv_dtype_text(tv_dtype type, const void *bytes, uint64_t i, char text[TV_DTYPE_TEXT]);

/* Writes `text` as element `i`; the others stay. An integer is decimal or 0x and digits, of an unsigned or signed type
 * within its range (a 0x number may use all bits of a signed type, too); a floating value is rounded to nearest even.
 * TV_ERR_INPUT: no number of that type; nothing is written. */
TV_API tv_status tv_dtype_store(tv_dtype type, void *bytes, uint64_t i, const char *text);

/* The element as a number; hexN as its unsigned value. */
TV_API double tv_dtype_value(tv_dtype type, const void *bytes, uint64_t i);

#ifdef __cplusplus
}
#endif
#endif
