/* SPDX-License-Identifier: Apache-2.0 */
/* The same products by OpenBLAS and oneDNN, if they were installed when the benchmarks were built. */
#ifndef TV_BENCH_OTHERS_H
#define TV_BENCH_OTHERS_H

#include <stdint.h>

/* c[m][n] = a[m][k] * b[n][k]^T on one thread. NULL: built without the library. */
extern void (*const bench_openblas)(int m, int n, int k, const float *a, const float *b, float *c);
extern void (*const bench_onednn)(int m, int n, int k, const int8_t *a, const int8_t *b, int32_t *c);

#endif
