/* SPDX-License-Identifier: Apache-2.0 */
/* From a vector of BF16 to the INT8 activations of a product with INT4 weights, without arrays between. */
#ifndef TV_KERNELS_QUANTIZE_BF16_H
#define TV_KERNELS_QUANTIZE_BF16_H

#include "kernels/gemm.h"

typedef struct tv_quantized_row {
    uint16_t absmax; /* as tv_bf16_absmax; not finite: the other results, also q, are unspecified */
    float scale;     /* tv_bf16_row_scale of it */
    int32_t sum;     /* of the quantized elements */
} tv_quantized_row;

/* *row, and q[i] = x[i] / scale, subnormals as zero, rounded to nearest even and clamped to [-127, 127], for n BF16
 * numbers at x, little endian. `act_scale` is BF16 that is positive and finite, or 0. At most 2^19 elements. With
 * `pack` q is as by tv_gemm_s4s8_pack, with zeros up to the end of its last block; otherwise in order, with zeros up to
 * a whole beat. */
typedef void tv_quantize_bf16_fn(const uint8_t *x, size_t n, uint16_t act_scale, bool pack, int8_t *q,
                                 tv_quantized_row *row);
tv_quantize_bf16_fn *tv_quantize_bf16(tv_cpu_level level);

#endif
