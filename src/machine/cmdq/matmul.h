/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices as tensor engines make them (CMDQ specification, section 4). */
#ifndef TV_MACHINE_CMDQ_MATMUL_H
#define TV_MACHINE_CMDQ_MATMUL_H

#include "kernels/groups.h"
#include "kernels/matrix.h"
#include "kernels/panel.h"
#include "sim/pool.h"

/* How a product is made; the results are the same. */
typedef enum cmdq_variant {
    CMDQ_VARIANT_SCALAR,       /* one by one: of binary32, or longer than exact sums in 32 bits */
    CMDQ_VARIANT_ROWS,         /* some weight rows at once */
    CMDQ_VARIANT_BYTES,        /* a tile of INT8 by INT8, without groups */
    CMDQ_VARIANT_GROUPS,       /* some groups at once */
    CMDQ_VARIANT_VECTORS,      /* groups of 32: each row of activations by itself */
    CMDQ_VARIANT_PANELS,       /* INT4 or INT8 weights, without groups: many rows of activations */
    CMDQ_VARIANT_PANEL_GROUPS, /* the same with groups of 32 */
    CMDQ_VARIANT_WEIGHTED_SUM, /* binary32 by weights that lie transposed, whatever their type, as binary32 */
} cmdq_variant;

/* Rows of activations and rows of weights, both k long: both integers, activations of binary32 and integers, or both
 * binary32. */
typedef struct cmdq_product {
    uint64_t m, n, k, group; /* group: k without groups */
    bool grouped;
    bool whole;              /* rows lie as they are multiplied: no convolution, no sparse weights */
    bool transposed;         /* the weights are given as k rows of n */
    unsigned weight_bits;    /* of integers: 8, or, where the way takes them as they are, 4 */
    const int8_t *a8;        /* NULL: not integers */
    const void *b8;          /* likewise: INT8, or packed INT4 */
    uint64_t stride;         /* bytes between rows of b8; see cmdq_takes_rows */
    const float *a, *b;      /* instead */
    const float *scales;     /* of weights: n, or n by k / group; NULL: scale_wgt */
    uint64_t scale_step;     /* between those of rows of groups; likewise */
    const float *bias, *old; /* or NULL */
    float scale_ifm, scale_wgt, scale_ofm;
    float *out; /* m by n */
    tv_cpu_level level;
    cmdq_variant way;
    const int8_t *ready; /* what the way wants of a8, of cmdq_packed_bytes and cmdq_sums */
    const int32_t *sums;
} cmdq_product;

/* The way for a product whose sizes, widths and `whole` are known; `integers`: of which weights and activations are at
 * most 8 bits wide. */
cmdq_variant cmdq_choose_variant(const cmdq_product *product, bool integer_weights, bool integers);

/* Whether a way takes weights of `transposed` as they lie; others want rows of k. */
static inline bool cmdq_takes_transposed(cmdq_variant way) { return way == CMDQ_VARIANT_WEIGHTED_SUM; }

/* Whether a way takes packed INT4 weights as they lie. */
bool cmdq_takes_packed(const cmdq_product *product, cmdq_variant way);

/* Whether a way takes rows of INT8 or packed INT4, and groups' scales, with gaps between them. */
static inline bool cmdq_takes_rows(cmdq_variant way)
{
    return way == CMDQ_VARIANT_PANELS || way == CMDQ_VARIANT_PANEL_GROUPS;
}

/* Whether a product adds what stands by itself, and its results are all that there is to be done: `out` may be `old`,
 * NaN is canonical. */
bool cmdq_finishes_output(const cmdq_product *product);

/* Room for `ready` and `sums` (elements), and filling it; 0: the way wants none. */
uint64_t cmdq_packed_bytes(const cmdq_product *product);
uint64_t cmdq_sums(const cmdq_product *product);
void cmdq_pack_operands(const cmdq_product *product, int8_t *ready, int32_t *sums);

/* `pool` may be NULL. The results do not depend on it. */
void cmdq_multiply(const cmdq_product *product, tv_pool *pool);

#endif
