/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar variant of scaled matrix-vector products. */
#include "kernels/variants.h"

void tv_gemv_scaled_scalar(const tv_gemv_scaled_args *r) { tv_gemv_scaled_with(tv_gemm_s4s8_scalar, r); }
