/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of outer products of signed bytes. */
#ifndef TV_KERNELS_OUTER_H
#define TV_KERNELS_OUTER_H

#include "kernels/cpu.h"

enum { TV_OUTER_K_MAX = 64, TV_OUTER_COUNT_MAX = 128 };

/* acc[i * k + j] += sum over p of a[p * k + i] * b[p * k + j], wrapping at 32 bit; k is at most 64 and a power of two
 * from 4, count at most 128. */
typedef void tv_outer_s8_fn(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count);

/* The variant for a host of this level. */
tv_outer_s8_fn *tv_outer_s8(tv_cpu_level level);

#endif
