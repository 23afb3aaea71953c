/* SPDX-License-Identifier: Apache-2.0 */
/* Element types of machine memory, as --dump, --load and tv_machine_parse_range name them.
 *
 * Elements are packed little endian: element i of a type with b bits starts at bit i * b, counted from the lowest bit
 * of the first byte. Functions that take a `type` require a value below TV_DTYPE_COUNT. Safe from any thread. */
#ifndef TRIVET_DTYPE_H
#define TRIVET_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include "trivet/diag.h"

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

/* Name of `type`, for example "bf16". Static string. */
TV_API const char *tv_dtype_name(tv_dtype type);

/* Finds the type called `name`. TV_ERR_INPUT: there is none. */
TV_API tv_status tv_dtype_find(const char *name, tv_dtype *out);

/* Finds the type called `name` as tv_dtype_find does and reports an unknown name. TV_ERR_INPUT: there is none. */
TV_API tv_status tv_dtype_parse(const char *name, const tv_diag_sink *sink, tv_dtype *out);

/* Bits of one element of `type`: 2, 4, 8, 16, 32 or 64. */
TV_API unsigned tv_dtype_bits(tv_dtype type);

/* Bytes that `count` packed elements of `type` occupy, rounded up. */
TV_API uint64_t tv_dtype_bytes(tv_dtype type, uint64_t count);

enum { TV_DTYPE_TEXT = 40 };

/* Formats element `i` of `bytes` into `text`: floating point with the fewest digits that read back as the same bits
 * ("nan", "inf", "-inf" when not finite), hexN of `type` as 0x and N/4 digits, integers in decimal. */
TV_API void tv_dtype_text(tv_dtype type, const void *bytes, uint64_t i, char text[TV_DTYPE_TEXT]);

/* Parses `text` and stores it as element `i` of `bytes`; other elements keep their bits. Integers are decimal or
 * hexadecimal with 0x, in the range of `type`; a hexadecimal number may use all bits of a signed type. Floating point
 * is rounded to nearest even. TV_ERR_INPUT: not a number of that type; nothing is stored. */
TV_API tv_status tv_dtype_store(tv_dtype type, void *bytes, uint64_t i, const char *text);

/* Element `i` of `bytes` as a number; hexN of `type` as its unsigned value, rounded above 2^53. */
TV_API double tv_dtype_value(tv_dtype type, const void *bytes, uint64_t i);

#ifdef __cplusplus
}
#endif
#endif
