/* SPDX-License-Identifier: Apache-2.0 */
/* Products from L2 to L2 whose scales and weights are contiguous, of one vector or of PCCX_PANEL_ROWS_MIN rows of
 * activations or more, by kernels that multiply, scale and round. Others are in matrix.c. */
#ifndef TV_MACHINE_PCCX_PRODUCTS_H
#define TV_MACHINE_PCCX_PRODUCTS_H

#include "machine/pccx/internal.h"

enum { PCCX_PANEL_ROWS_MIN = 4 /* from which on panels are faster */ };

typedef struct pccx_product {
    tv_gemv_scaled_args rows;       /* of a vector; of more rows of activations only the weights, scales and results */
    const tv_gemm_panel_set *panel; /* NULL: of a vector */
    size_t m, k, step;              /* k in whole beats; elements between rows of results */
    const int8_t *packed;           /* for the panel … */
    const int32_t *offsets;         /* … with the zero-point corrections … */
    const float *row_scales;        /* … and the scale of each row */
} pccx_product;

/* False: the operation is no such product. */
bool pccx_find_product(pccx_machine *m, const pccx_op *op, pccx_product *p);

/* The memory of its packed activations, in whole cache lines. */
size_t pccx_product_memory(const pccx_product *p);

/* Quantizes and packs the activations to `memory`, which the product then refers to. False: one is not finite. */
bool pccx_pack_product(pccx_machine *m, const pccx_op *op, pccx_product *p, uint8_t *memory);

/* Rows of weights [first, end), multiples of 32 or the last row. */
void pccx_multiply_product(tv_gemv_scaled_fn *multiply_rows, const pccx_product *p, size_t first, size_t end);

/* Executes such a product. False: the operation is none, an activation is not finite, or there is no memory; nothing
 * has changed. */
bool pccx_execute_product(pccx_machine *m, const pccx_op *op);

#endif
