/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes weights that are stored in blocks of 32 or 256 with scales, as in GGUF files.
 *
 * A block has one or two F16 scales, d and (for formats with an offset) m; blocks of 256 also have a small integer
 * scale for each group of 16 or 32 weights. block_formats.c describes each layout. Every multiplication and addition is
 * rounded to binary32 in the order written there, so that the results are the bits of the GGML reference on every host.
 */
#ifndef TV_KERNELS_BLOCK_FORMATS_H
#define TV_KERNELS_BLOCK_FORMATS_H

#include "base/base.h"

enum {
    TV_BLOCK_SMALL = 32,
    TV_BLOCK_LARGE = 256,
#define TV_BLOCK_FORMAT(id, name, number, block, bytes) TV_##name##_BYTES = bytes,
#include "kernels/block_formats.def"
#undef TV_BLOCK_FORMAT
};

/* out[count * weights per block] = the weights of `count` blocks, which need not be aligned and do not overlap `out`.
 */
#define TV_BLOCK_FORMAT(id, name, number, block, bytes)                                                                \
    void tv_block_decode_##id(const uint8_t *blocks, size_t count, float *restrict out);
#include "kernels/block_formats.def"
#undef TV_BLOCK_FORMAT

#endif
