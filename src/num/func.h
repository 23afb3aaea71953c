/* SPDX-License-Identifier: Apache-2.0 */
/* Correctly rounded elementary functions: the exact real value rounded once to nearest, ties to even; NaN is canonical.
 * The results do not depend on the host's math library, provided it keeps the error bound in func.c. BF16 results are
 * rounded and flushed as by tv_bf16_flushed_from_f64, FP32 results keep subnormals. */
#ifndef TV_NUM_FUNC_H
#define TV_NUM_FUNC_H

#include "base/base.h"

typedef enum tv_func {
#define TV_FUNC(id, value, wide, known, bound, mpfr) TV_FUNC_##id,
#include "num/func.def"
#undef TV_FUNC
    TV_FUNCS
} tv_func;

/* GELU is x * (1 + erf(x / sqrt 2)) / 2, with the limit -0 at minus infinity; SIN and COS take radians over the whole
 * range; SQRT of a negative number, SIN and COS of infinity are NaN; RECIP of a zero is the infinity of its sign. RSQRT
 * is 1 / sqrt x, SILU x / (1 + exp -x), GELU_TANH x * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2; these two are
 * -0 at minus infinity. SIGMOID is 1 / (1 + exp -x). LOG is the natural logarithm: minus infinity at a zero, NaN below.
 */
uint16_t tv_func_bf16(tv_func func, float x);
float tv_func_f32(tv_func func, float x);

/* SIN or COS of an angle in binary64; a NaN if it is not finite. */
float tv_func_f32_of_angle(tv_func func, double angle);

/* x to the power y. Special operands are those of IEEE 754 pow: 1 if y is a zero or x is 1, even where the other is
 * NaN; NaN if x is below 0 and y is finite and no integer. */
float tv_func_pow_f32(float x, float y);

#endif
