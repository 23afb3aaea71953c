/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of GGUF tensor types and metadata kinds, shared by the reader and the writer. */
#ifndef TV_IMPORT_GGUF_TYPES_H
#define TV_IMPORT_GGUF_TYPES_H

#include "import/gguf.h"

typedef struct tv_gguf_type_row {
    uint32_t type;
    const char *name;
    uint16_t block, bytes; /* elements and bytes per block */
} tv_gguf_type_row;

/* NULL: unknown type. */
const tv_gguf_type_row *tv_gguf_type_find(uint32_t type);

bool tv_gguf_type_readable(uint32_t type);

/* Bytes of a metadata value; 0 for strings and arrays. */
extern const uint8_t tv_gguf_kind_bytes[TV_GGUF_KINDS];

/* "GGUF" */
#define TV_GGUF_MAGIC UINT32_C(0x46554747)
enum { TV_GGUF_VERSION = 3, TV_GGUF_HEADER = 24 };

#endif
