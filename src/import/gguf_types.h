/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF tensor types and metadata kinds: names, sizes, conversion of elements. */
#ifndef TV_IMPORT_GGUF_TYPES_H
#define TV_IMPORT_GGUF_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sv.h"

enum { TV_GGUF_BLOCK = 32 }; /* elements of a Q8_0 or Q4_0 block */

/* Tensor types that can be decoded, numbered as in the file. Files may contain others. */
typedef enum tv_gguf_type {
    TV_GGUF_F32 = 0,
    TV_GGUF_F16 = 1,
    TV_GGUF_BF16 = 30,
#define TV_BLOCK_FORMAT(id, name, number, block, bytes) TV_GGUF_##name = number,
#include "kernels/block_formats.def"
#undef TV_BLOCK_FORMAT
} tv_gguf_type;

/* Type of a metadata value or array element, numbered as in the file. */
typedef enum tv_gguf_kind {
    TV_GGUF_KIND_U8,
    TV_GGUF_KIND_I8,
    TV_GGUF_KIND_U16,
    TV_GGUF_KIND_I16,
    TV_GGUF_KIND_U32,
    TV_GGUF_KIND_I32,
    TV_GGUF_KIND_F32,
    TV_GGUF_KIND_BOOL,
    TV_GGUF_KIND_STRING,
    TV_GGUF_KIND_ARRAY,
    TV_GGUF_KIND_U64,
    TV_GGUF_KIND_I64,
    TV_GGUF_KIND_F64,
    TV_GGUF_KINDS,
} tv_gguf_kind;

typedef struct tv_gguf_type_row {
    uint32_t type;
    const char *name;
    uint16_t block, bytes;                                              /* elements and bytes per block */
    void (*decode)(const uint8_t *blocks, size_t count, float *values); /* NULL: not readable */
} tv_gguf_type_row;

/* NULL: unknown type. */
const tv_gguf_type_row *tv_gguf_type_find(uint32_t type);

bool tv_gguf_type_readable(uint32_t type);

/* A hint for files with other types: names the readable ones. */
extern const char tv_gguf_readable_types_hint[];

/* Bytes of a metadata value; 0 for strings and arrays. */
extern const uint8_t tv_gguf_kind_bytes[TV_GGUF_KINDS];

/* "GGUF" */
#define TV_GGUF_MAGIC UINT32_C(0x46554747)
enum { TV_GGUF_VERSION = 3, TV_GGUF_HEADER = 24 };

/* Name of a tensor type, such as "Q4_K", or NULL. tv_gguf_type_named is the reverse for types that can be written,
 * ignoring case; false when there is none. */
const char *tv_gguf_type_name(uint32_t type);
bool tv_gguf_type_named(tv_sv name, tv_gguf_type *out);

/* Bytes of `elements` elements (whole blocks) of a supported type. */
uint64_t tv_gguf_type_bytes(tv_gguf_type type, uint64_t elements);

/* Elements per block. Rows are whole blocks. */
unsigned tv_gguf_type_block(tv_gguf_type type);

/* Encodes n elements (whole blocks) of F32, F16, BF16, Q8_0 or Q4_0. The stored values are those of the GGML reference:
 * F16 and BF16 to nearest, ties to even; Q8_0 with d = absmax / 127 and q = x * (1/d) rounded half away from zero; Q4_0
 * with d = signed absmax / -8 and q = min(15, floor(x * (1/d) + 8.5)); all in F32. Blocks too small for a scale encode
 * as zeros. Returns false, with `bytes` undefined, when a block has a non-finite element, d or a finite value overflows
 * its type, or the type cannot be written. */
bool tv_gguf_encode(tv_gguf_type type, const float *values, uint64_t n, uint8_t *bytes);

/* Decodes n elements (whole blocks) of a readable type to the bits of the GGML reference (kernels/block_formats.h). */
void tv_gguf_decode(tv_gguf_type type, const uint8_t *bytes, uint64_t n, float *values);

#endif
