/* SPDX-License-Identifier: Apache-2.0 */
/* Golden functions of units: what one unit of a machine computes from values, without a machine, with the values inside
 * it that hardware has. The machines compute with the same code.
 *
 * BF16 numbers are carried as bits. The functions have no state; they may be called from any thread, and report no
 * diagnostics. docs/units.md describes the units. */
#ifndef TRIVET_UNIT_H
#define TRIVET_UNIT_H

#include <stddef.h>
#include <stdint.h>

#include "trivet/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pccx: the SFU ---- */

/* Functions of the SFU; the numbers are those of cvo_func. */
typedef enum tv_sfu {
    TV_SFU_EXP,
    TV_SFU_SQRT,
    TV_SFU_GELU,
    TV_SFU_SIN,
    TV_SFU_COS,
    TV_SFU_REDUCE_SUM,
    TV_SFU_SCALE,
    TV_SFU_RECIP,
    TV_SFU_COUNT
} tv_sfu;

/* An operation of the SFU: a function and the flags of CVO. */
typedef struct tv_sfu_op {
    tv_sfu function;
    int sub_emax;    /* the argument is x - e_max, rounded to binary32 */
    uint16_t e_max;  /* BF16 */
    uint16_t scalar; /* SCALE: BF16 */
    int recip_scale; /* SCALE: x / scalar, 0 for a scalar of zero, instead of x * scalar */
    int accm;        /* the result is rounded to binary32, `addend` added, and the sum rounded to BF16 */
} tv_sfu_op;

/* Values inside the SFU. Each array may be NULL: it is not computed. */
typedef struct tv_sfu_steps {
    float *argument; /* [count] after sub_emax */
    float *result;   /* [count] rounded to binary32, before the addend; REDUCE_SUM: the sum up to this element */
} tv_sfu_steps;

/* Computes `op` on `count` BF16 numbers `x`. With accm `addend` has a BF16 number for each result, otherwise it may be
 * NULL. The BF16 results go to `out`, which may be `x`: `count` of them, or 1 of REDUCE_SUM. `steps` may be NULL.
 * TV_ERR_INPUT: there is no such function, `count` is 0, or there is no addend; nothing is computed. */
TV_API tv_status tv_unit_sfu(const tv_sfu_op *op, const uint16_t *x, size_t count, const uint16_t *addend,
                             const tv_sfu_steps *steps, uint16_t *out);

/* Computes `function` of `count` binary32 numbers `x`, correctly rounded to binary32 with subnormals; NaN is
 * canonical. `out` may be `x`. TV_ERR_INPUT: `function` is REDUCE_SUM, SCALE or unknown. */
TV_API tv_status tv_unit_sfu_f32(tv_sfu function, const float *x, size_t count, float *out);

/* ---- pccx: BF16 to INT8 ---- */

#define TV_UNIT_ZERO_LANE 255

/* Values inside the preprocessing of activations. Each array may be NULL: it is not computed. */
typedef struct tv_preprocess_steps {
    /* [count] E - the exponent of x, where E is the largest exponent of the row; TV_UNIT_ZERO_LANE: x counts as zero */
    uint8_t *distance;
    int32_t *aligned; /* [count] x / 2^(E-6) in units of 2^-16: the mantissa shifted right by `distance`, with the sign,
                         and bit 0 of the magnitude sticky */
    float *quotient;  /* [count] x / scale, rounded to binary32 */
} tv_preprocess_steps;

/* Quantizes a row of `count` BF16 activations `x` to INT8, as GEMV does: `q` = clamp(RNE(x / scale), -127, 127). The
 * scale is the BF16 number `act_scale`, or 2^(E-6) if that is 0 (1 for a row of zeros); it goes to `scale`. `steps` may
 * be NULL. TV_ERR_INPUT: an activation is not finite, or `act_scale` is not finite and positive; nothing is computed.
 */
TV_API tv_status tv_unit_preprocess(const uint16_t *x, size_t count, uint16_t act_scale,
                                    const tv_preprocess_steps *steps, float *scale, int8_t *q);

/* ---- pccx: the dual multiplier ---- */

#define TV_UNIT_WORD_BITS 48

/* The factor that holds two INT4 weights: `upper` * 2^`shift` + `lower`, a signed number. `shift` is 12 to 36 in this
 * and the following functions; 24 has room for 4,096 products. */
TV_API int64_t tv_unit_dual_weights(int upper, int lower, unsigned shift);

/* The accumulator, a word of 48 bits, after the product of `weights` with the INT8 number `activation` has been added
 * to `word`, modulo 2^48. */
TV_API uint64_t tv_unit_dual_mac(uint64_t word, int64_t weights, int activation);

/* The two sums in `word`: the low `shift` bits, signed, go to `lower`; the bits above, plus the sign bit of `lower`,
 * which that has taken from them, go to `upper`. */
TV_API void tv_unit_dual_sums(uint64_t word, unsigned shift, int64_t *upper, int64_t *lower);

/* Two dot products of `count` INT4 weights each, `upper` and `lower`, with the INT8 activations `q`, in one word that
 * starts at 0 and has the upper sum from bit `shift` on. `words` [count], which may be NULL, receives the word after
 * each product. Returns the last word. */
TV_API uint64_t tv_unit_dual_dot(const int8_t *upper, const int8_t *lower, const int8_t *q, size_t count,
                                 unsigned shift, uint64_t *words);

/* ---- pccx: results ---- */

/* Values inside the normalization of a result; each is rounded to binary32 once. */
typedef struct tv_normalize_steps {
    float sum;        /* the exact sum */
    float row_scaled; /* times the scale of the activations */
    float scaled;     /* times the scale of the weight row */
    float added;      /* plus the old destination; `scaled` without it */
} tv_normalize_steps;

/* The BF16 result of GEMV or GEMM for the exact sum `sum`, the scale `row_scale` of the activations, the BF16 scale
 * `scale` of the weight row and the old BF16 destination `addend`, which may be NULL. `steps` may be NULL. */
TV_API uint16_t tv_unit_normalize(int32_t sum, float row_scale, uint16_t scale, const uint16_t *addend,
                                  tv_normalize_steps *steps);

/* ---- OpenNPU ---- */

#define TV_UNIT_LANES_MAX 64

/* Computes what the instruction word `word` writes to `lanes` lanes (1 to TV_UNIT_LANES_MAX) of its destination `rd`,
 * from the lanes of its sources `rs1`, `rs2` and `rs3`; sources that it does not read may be NULL. Of narrower lanes
 * the low bits count; results are sign extended. Reductions are over the given lanes. `config` has the number of
 * registers. TV_ERR_INPUT: the configuration is not of OpenNPU, or the word is illegal or no operation on lanes;
 * TV_ERR_MEMORY. */
TV_API tv_status tv_unit_lanes(const tv_config *config, uint32_t word, size_t lanes, const uint32_t *rs1,
                               const uint32_t *rs2, const uint32_t *rs3, uint32_t *rd);

/* ---- CMDQ ---- */

/* Requantizes `count` binary32 results `x`, as the engines of CMDQ store them: divided by `scale` and rounded to
 * binary32, which goes to `quotient` [count] (may be NULL, or `x`), then converted to elements of `qbits` bits: 2, 4, 8
 * signed integers that saturate, 16 binary16, 32 binary32. They go to `packed`, low bits first. TV_ERR_INPUT: another
 * `qbits`, or `scale` is zero or not finite. */
TV_API tv_status tv_unit_requantize(const float *x, size_t count, float scale, unsigned qbits, float *quotient,
                                    uint8_t *packed);

#ifdef __cplusplus
}
#endif
#endif
