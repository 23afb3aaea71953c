/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of OpenBLAS (binary32) and oneDNN (INT8), each optional. */
#include "others.h"

#include <stdlib.h>

#ifdef WITH_OPENBLAS
#include <cblas.h>

extern void openblas_set_num_threads(int threads);

static void openblas(int m, int n, int k, const float *a, const float *b, float *c)
{
    openblas_set_num_threads(1);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, k, b, k, 0, c, n);
}

void (*const bench_openblas)(int, int, int, const float *, const float *, float *) = openblas;
#else
void (*const bench_openblas)(int, int, int, const float *, const float *, float *) = NULL;
#endif

#ifdef WITH_ONEDNN
#include <oneapi/dnnl/dnnl.h>

/* Uses OpenMP threads, whose number is read from OMP_NUM_THREADS when the process starts. */
static void onednn(int m, int n, int k, const int8_t *a, const int8_t *b, int32_t *c)
{
    const int32_t zero = 0;
    if (dnnl_gemm_s8s8s32('N', 'T', 'F', m, n, k, 1, a, k, 0, b, k, 0, 0, c, n, &zero) != dnnl_success)
        exit(3);
}

void (*const bench_onednn)(int, int, int, const int8_t *, const int8_t *, int32_t *) = onednn;
#else
void (*const bench_onednn)(int, int, int, const int8_t *, const int8_t *, int32_t *) = NULL;
#endif
