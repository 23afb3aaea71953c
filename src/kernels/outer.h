/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of outer products of signed bytes. */
#ifndef TV_KERNELS_OUTER_H
#define TV_KERNELS_OUTER_H

#include "kernels/cpu.h"

enum { TV_OUTER_K_MAX = 64, TV_OUTER_COUNT_MAX = 128, TV_OUTER_ROWS = 4 };

/* acc[i][j] += sum over p < count of a[p][i] * b[p][j], wrapping at 32 bits, for first <= i < end, of row-major
 * acc[k][k], a[count][k] and b[count][k]. k is a power of two from 4 to TV_OUTER_K_MAX, count at most
 * TV_OUTER_COUNT_MAX, `first` and `end` are multiples of TV_OUTER_ROWS with first < end <= k. */
typedef void tv_outer_s8_fn(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count, uint32_t first,
                            uint32_t end);

/* The variant for a host of this level. */
tv_outer_s8_fn *tv_outer_s8(tv_cpu_level level);

#endif
