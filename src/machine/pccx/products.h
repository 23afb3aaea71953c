/* SPDX-License-Identifier: Apache-2.0 */
/* Products from L2 to L2 whose scales and weights are contiguous, of one vector or, where the host has panels, of
 * PCCX_PANEL_ROWS_MIN rows of activations or more, by kernels that multiply, scale and round. Others are in matrix.c.
 */
#ifndef TV_MACHINE_PCCX_PRODUCTS_H
#define TV_MACHINE_PCCX_PRODUCTS_H

#include "machine/pccx/internal.h"

enum {
    PCCX_PANEL_ROWS_MIN = 4,         /* from which on panels are faster */
    PCCX_PARALLEL_MIN_MACS = 1 << 18 /* below, waking another thread takes longer than the work */
};

typedef struct pccx_product {
    tv_gemv_scaled_args gemv;       /* of a vector; of more rows of activations only the weights, scales and results */
    const tv_gemm_panel_set *panel; /* NULL: of a vector, and the following members are not used */
    size_t m, k, step;              /* k in whole beats; elements between rows of results */
    const int8_t *packed;           /* [m][k], as the panel packs them */
    const int32_t *offsets;         /* [m] zero-point corrections, in whole tiles */
    const float *row_scales;        /* [m] */
} pccx_product;

/* False: the operation is no such product, or its inner values are asked for. */
bool pccx_find_product(pccx_machine *m, const pccx_op *op, pccx_product *p);

/* The memory of its packed activations, and of the quantized ones before, both in whole cache lines. */
size_t pccx_packed_memory(const pccx_product *p);
size_t pccx_quantized_memory(const pccx_product *p);

/* Quantizes the activations to `quantized`, which is free afterwards, and packs them to `packed`, which must exist as
 * long as the product. False: one is not finite. */
bool pccx_pack_product(pccx_machine *m, const pccx_op *op, pccx_product *p, uint8_t *quantized, uint8_t *packed);

/* Stores the results of rows of weights [first, end), multiples of 32 or the last row. Threads may call it for
 * different rows. */
void pccx_multiply_product(tv_gemv_scaled_fn *multiply_rows, const pccx_product *p, size_t first, size_t end);

/* Executes such a product, without the change of e_max. False: the operation is none, an activation is not finite, or
 * there is no memory; nothing has changed. */
bool pccx_execute_product(pccx_machine *m, const pccx_op *op);

#endif
