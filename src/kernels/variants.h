/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations of all kernel variants, from variants.def. For the files that define variants and for dispatch.c;
 * users of a kernel include its own header and call tv_NAME(level). */
#ifndef TV_KERNELS_VARIANTS_H
#define TV_KERNELS_VARIANTS_H

#include "kernels/gemm.h"
#include "kernels/gemm_panel.h"
#include "kernels/gemv_grouped.h"
#include "kernels/gemv_scaled.h"
#include "kernels/lanes.h"
#include "kernels/outer.h"
#include "kernels/quantize_bf16.h"
#include "kernels/scale_search.h"
#include "kernels/weighted_sum.h"

#define TV_DECLARE_FN_Y(name, level) extern tv_##name##_fn tv_##name##_##level;
#define TV_DECLARE_FN_N(name, level)
#define TV_DECLARE_SET_Y(name, level) extern const tv_##name##_set tv_##name##_##level;
#define TV_DECLARE_SET_N(name, level)

#define TV_DECLARE_SCALAR(name) TV_DECLARE_FN_Y(name, scalar)
#if defined(__x86_64__)
#define TV_DECLARE(what, name, avx2_, avx512_, neon_, dotprod_)                                                        \
    TV_DECLARE_##what##_##avx2_(name, avx2) TV_DECLARE_##what##_##avx512_(name, avx512)
#elif defined(__aarch64__)
#define TV_DECLARE(what, name, avx2_, avx512_, neon_, dotprod_)                                                        \
    TV_DECLARE_##what##_##neon_(name, neon) TV_DECLARE_##what##_##dotprod_(name, dotprod)
#else
#define TV_DECLARE(what, name, avx2_, avx512_, neon_, dotprod_)
#endif

#define TV_KERNEL(name, avx2_, avx512_, neon_, dotprod_)                                                               \
    TV_DECLARE_SCALAR(name) TV_DECLARE(FN, name, avx2_, avx512_, neon_, dotprod_)
#define TV_KERNEL_SET(name, avx2_, avx512_, neon_, dotprod_) TV_DECLARE(SET, name, avx2_, avx512_, neon_, dotprod_)
#include "kernels/variants.def"
#undef TV_KERNEL
#undef TV_KERNEL_SET

#endif
