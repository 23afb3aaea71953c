/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of rows.h for hosts with AVX2 and with AVX-512. */
#ifndef TV_KERNELS_X86_ROWS_H
#define TV_KERNELS_X86_ROWS_H

#include "kernels/matrix.h"
#include "kernels/rows.h"

#if defined(__x86_64__)
void tv_scaled_rows_avx2(const tv_rows *r);
void tv_scaled_rows_avx512(const tv_rows *r);
#endif

#endif
