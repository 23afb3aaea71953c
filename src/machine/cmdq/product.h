/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices as tensor engines make them (CMDQ specification, section 4). */
#ifndef TV_MACHINE_CMDQ_PRODUCT_H
#define TV_MACHINE_CMDQ_PRODUCT_H

#include "kernels/matrix.h"
#include "sim/pool.h"

/* Rows of activations and rows of weights, both k long: both integers, activations of binary32 and integers, or both binary32. */
typedef struct cmdq_product {
    uint64_t m, n, k, group; /* group: k without groups */
    bool grouped;
    const int8_t *a8, *b8; /* NULL: not integers */
    const float *a, *b;    /* instead */
    const float *scales;     /* of weights: n, or n by k / group; NULL: scale_wgt */
    const float *bias, *old; /* or NULL */
    float scale_ifm, scale_wgt, scale_ofm;
    float *out;              /* m by n */
    const int32_t *sums; /* of each row of a8; where there are no groups */
    tv_s8s8_fn s8s8;
    tv_dots_s8_fn dots_s8;
    tv_dots_f32_s8_fn dots_f32_s8;
} cmdq_product;

/* `pool` may be NULL. The results do not depend on it. */
void cmdq_multiply(const cmdq_product *product, tv_pool *pool);

#endif
