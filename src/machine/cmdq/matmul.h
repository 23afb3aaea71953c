/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of the tensor engines (CMDQ specification, section 4):
 * out[m][n] = (a[m][k] * b[n][k]^T * scales + bias + addend[m][n]) / scale_ofm. */
#ifndef TV_MACHINE_CMDQ_MATMUL_H
#define TV_MACHINE_CMDQ_MATMUL_H

#include "kernels/gemm.h"
#include "kernels/gemm_panel.h"
#include "kernels/gemv_grouped.h"
#include "sim/pool.h"
#include "sim/values.h"

enum { CMDQ_EXACT_LENGTH_MAX = 1 << 16 }; /* products of INT8 whose sum is exact in 32 bits */
enum { CMDQ_WIDENED_MAX = 1024 };         /* elements of a row of binary16 that is widened when it is multiplied */

/* How a product is computed. All variants give the same bits. */
typedef enum cmdq_variant {
    CMDQ_VARIANT_SCALAR,       /* output by output: binary32 operands, or k too long for exact sums in 32 bits */
    CMDQ_VARIANT_ROWS,         /* blocks of weight rows */
    CMDQ_VARIANT_BYTES,        /* INT8 by INT8 in tiles, without groups */
    CMDQ_VARIANT_GROUPS,       /* blocks of scale groups */
    CMDQ_VARIANT_VECTORS,      /* groups of 32, row by row of the activations */
    CMDQ_VARIANT_PANELS,       /* INT4 or INT8 weights without groups, many rows of activations */
    CMDQ_VARIANT_PANEL_GROUPS, /* the same with groups of 32 */
    CMDQ_VARIANT_WEIGHTED_SUM, /* binary32 or binary16 by transposed weights; both are widened to binary32 */
    CMDQ_VARIANTS
} cmdq_variant;

/* Activations are integers (a8), binary32 (a) or binary16 (a16), weights integers (b8) or binary32 (b); integer
 * activations need integer weights. */
typedef struct cmdq_matmul {
    uint64_t m, n, k, group; /* group: elements of k that share a scale; k without groups */
    bool grouped;
    bool dense;           /* operands are stored as they are multiplied: no convolution, no sparse weights */
    bool transposed;      /* weights are given as k rows of n */
    unsigned weight_bits; /* of integers: 8, or 4 where the variant takes packed INT4 */
    const int8_t *a8;     /* NULL: activations are `a` */
    const void *b8;       /* INT8 or packed INT4; NULL: weights are `b` */
    uint64_t stride;      /* bytes from row to row of b8; see cmdq_takes_strided_rows */
    const float *a, *b;
    const uint8_t *a16;    /* of CMDQ_VARIANT_WEIGHTED_SUM with k up to CMDQ_WIDENED_MAX */
    const float *scales;   /* of weights: n, or n rows of k / group; NULL: scale_wgt */
    uint64_t scale_stride; /* floats from row to row of `scales`; see cmdq_takes_strided_rows */
    const float *bias;     /* n, or NULL */
    const float *addend;   /* m by n, or NULL */
    float scale_ifm, scale_wgt, scale_ofm;
    float *out;            /* m by n */
    uint8_t *elements;     /* instead of `out`, of a variant that packs outputs: m by n elements */
    unsigned element_bits; /* 8, 16, or 32: then they are aligned, and `addend` is NULL or `elements` */
    tv_cpu_level level;
    cmdq_variant variant;
    tv_values *values;     /* the exact sums are appended; NULL: not asked for */
    uint64_t values_first; /* element of out[0] */
    const int8_t *packed;  /* activations packed for the variant */
    const int32_t *packed_sums;
} cmdq_matmul;

/* The variant for a product whose sizes, group, `dense` and `transposed` are set. `exact`: weights and activations are
 * integers of at most 8 bits. */
cmdq_variant cmdq_choose_variant(const cmdq_matmul *p, bool integer_weights, bool exact);

/* Whether the variant takes transposed weights; the others want n rows of k. */
bool cmdq_takes_transposed(cmdq_variant variant);

/* Whether the variant takes packed INT4 weights; the others want them as INT8. */
bool cmdq_takes_packed_s4(const cmdq_matmul *p, cmdq_variant variant);

/* Whether the variant takes rows of b8 and of `scales` with gaps between them. */
bool cmdq_takes_strided_rows(cmdq_variant variant);

/* Whether the variant can write `elements`, as tv_elements_pack does. */
bool cmdq_packs_outputs(cmdq_variant variant);

/* Bytes of `packed` and elements of `packed_sums`; 0 if the variant uses none. */
uint64_t cmdq_packed_bytes(const cmdq_matmul *p);
uint64_t cmdq_packed_sums_count(const cmdq_matmul *p);

/* Inner values: `count` exact sums of outputs from `first` on. */
void cmdq_append_sums(const cmdq_matmul *p, uint64_t first, uint64_t count, const int32_t *sums);

/* Packs a8 into buffers of those sizes. */
void cmdq_pack_activations(const cmdq_matmul *p, int8_t *packed, int32_t *sums);

/* A product with its work, in multiply-adds times bits of a weight, is a number of tasks: columns of the outputs, or
 * rows of them for CMDQ_VARIANT_WEIGHTED_SUM. */
uint64_t cmdq_product_tasks(const cmdq_matmul *p);
static inline uint64_t cmdq_product_work(const cmdq_matmul *p) { return p->m * p->n * p->k * p->weight_bits; }

/* Computes tasks from `from` up to `to`: of variants that pack outputs, all of the outputs; of others, sums to which
 * cmdq_multiply applies bias, addend and output scale. */
void cmdq_multiply_tasks(const cmdq_matmul *p, uint64_t from, uint64_t to);

/* The first column of a task, or n after the last one, of a variant that packs outputs. */
uint64_t cmdq_task_column(const cmdq_matmul *p, uint64_t task);

/* `pool` may be NULL. The result does not depend on it. */
void cmdq_multiply(const cmdq_matmul *p, tv_pool *pool);

#endif
