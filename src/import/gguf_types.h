/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of the types of GGUF tensors, for the reader and the writer. */
#ifndef TV_IMPORT_GGUF_TYPES_H
#define TV_IMPORT_GGUF_TYPES_H

#include "import/gguf.h"

typedef struct tv_gguf_type_row {
    uint32_t type;
    const char *name;
    uint16_t block, bytes; /* elements and bytes of a block */
} tv_gguf_type_row;

/* NULL: nobody knows this number. */
const tv_gguf_type_row *tv_gguf_type_find(uint32_t type);

bool tv_gguf_type_readable(uint32_t type);

/* Bytes of a value of metadata; 0 for strings and arrays. */
extern const uint8_t tv_gguf_kind_bytes[TV_GGUF_KINDS];

/* "GGUF" */
#define TV_GGUF_MAGIC UINT32_C(0x46554747)
enum { TV_GGUF_VERSION = 3, TV_GGUF_HEADER = 24 };

#endif
