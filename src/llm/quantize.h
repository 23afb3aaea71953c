/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as integers with a scale for each group of a row. */
#ifndef TV_LLM_QUANTIZE_H
#define TV_LLM_QUANTIZE_H

#include "base/base.h"

/* Quantizes a row of `n` weights in groups of `group`, which divides n, to signed `bits` (4 or 8): q * scale is near the
 * weight. The scale of 8 bits maps the largest magnitude to 127; that of 4 bits is the one, of some between 0.6 and 1 of the
 * largest magnitude over 7, whose squared error is least. `packed` gets n * bits / 8 bytes, the first element in the lowest
 * bits; `scales` n / group values. A group of zeros, or with a value that is not finite, has scale 1 and zeros. */
void tv_quantize_row(const float *weights, uint32_t n, uint32_t group, unsigned bits, uint8_t *packed, float *scales);

#endif
