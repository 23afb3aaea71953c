/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a special function unit on BF16 vectors: arguments in binary32, the function, an addend, one rounding to
 * BF16. The machine and the golden functions of units both consist of these. */
#ifndef TV_KERNELS_SFU_H
#define TV_KERNELS_SFU_H

#include "num/func.h"

/* x[i] = v[i] with subnormals as zeros, minus *e_max, which is treated alike; the difference is rounded to binary32.
 * `e_max` NULL: nothing is subtracted. */
void tv_sfu_arguments(const uint16_t *v, size_t n, const uint16_t *e_max, float *x);

/* out[i] = func(x[i]), rounded to BF16 once. With `addend`, which may be `out`: func(x[i]) rounded to binary32, plus
 * addend[i], rounded to binary32 and to BF16. */
void tv_sfu_function(tv_func func, const float *x, size_t n, const uint16_t *addend, uint16_t *out);

/* y[i] = start + x[0] + … + x[i], rounded to binary32 after each addition. */
void tv_sfu_sums(const float *x, size_t n, float start, float *y);

/* out[i] = y[i] rounded to BF16, after adding addend[i] as above unless `addend` is NULL; y[i] becomes that sum. */
void tv_sfu_round(float *y, size_t n, const uint16_t *addend, uint16_t *out);

/* A product with the BF16 number `scalar`, or a quotient, which is 0 if `scalar` is a zero. `differences`: the
 * arguments have more significant bits than BF16. */
typedef struct tv_sfu_scaling {
    uint16_t scalar;
    bool divide, differences;
} tv_sfu_scaling;

/* out[i] = x[i] scaled, the exact value rounded to BF16 once; with `addend` as tv_sfu_function. y is scratch
 * memory for n numbers. */
void tv_sfu_scale(const tv_sfu_scaling *scaling, const float *x, size_t n, const uint16_t *addend, float *y,
                  uint16_t *out);

#endif
