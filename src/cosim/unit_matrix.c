/* SPDX-License-Identifier: Apache-2.0 */
/* The units of the matrix engines of pccx: quantization of activations, the dual multiplier, results. */
#include "kernels/bf16.h"
#include "kernels/quantize.h"
#include "num/float.h"
#include "trivet/unit.h"

/* ---- BF16 to INT8 ---- */

enum { BLOCK = 256, FRACTION_BITS = 16 };

/* |x| / 2^(E-6) in units of 2^-FRACTION_BITS, the bits shifted out collected in bit 0. The mantissa, 1.7 bits, has 6
 * integer bits more than the value it stands for at distance 0: m * 2^(-7 + 6). */
static int32_t align(uint16_t x, unsigned distance)
{
    uint32_t wide = (0x80u | (x & 0x7F)) << (FRACTION_BITS - 1);
    uint32_t shifted = distance < 32 ? wide >> distance : 0;
    bool sticky = distance < 32 ? (shifted << distance) != wide : true;
    int32_t magnitude = (int32_t)(shifted | sticky);
    return tv_bf16_is_negative(x) ? -magnitude : magnitude;
}

static void align_row(const uint16_t *x, size_t count, unsigned exponent, const tv_preprocess_steps *steps)
{
    for (size_t i = 0; i < count; i++) {
        bool zero = tv_bf16_exponent(x[i]) == 0;
        unsigned distance = exponent - tv_bf16_exponent(x[i]);
        if (steps->distance)
            steps->distance[i] = zero ? TV_UNIT_ZERO_LANE : (uint8_t)distance;
        if (steps->aligned)
            steps->aligned[i] = zero ? 0 : align(x[i], distance);
    }
}

static bool is_scale(uint16_t x) { return tv_bf16_is_finite(x) && !tv_bf16_is_negative(x); }

tv_status tv_unit_preprocess(const uint16_t *x, size_t count, uint16_t act_scale, const tv_preprocess_steps *steps,
                             float *scale, int8_t *q)
{
    float wide[BLOCK];
    uint16_t absmax = tv_bf16_absmax(x, count);
    if (!tv_bf16_is_finite(absmax) || (act_scale && !is_scale(act_scale)))
        return TV_ERR_INPUT;
    float s = *scale = tv_bf16_row_scale(absmax, act_scale);
    for (size_t at = 0, n; at < count; at += n) {
        n = tv_min_u64(count - at, BLOCK);
        tv_bf16_widen(x + at, n, wide);
        tv_quantize_s8(wide, n, s, -127, 127, q + at);
        for (size_t i = 0; steps && steps->quotient && i < n; i++)
            steps->quotient[at + i] = wide[i] / s;
    }
    if (steps)
        align_row(x, count, tv_bf16_exponent(absmax), steps);
    return TV_OK;
}

/* ---- The dual multiplier ---- */

#define WORD_MASK ((UINT64_C(1) << TV_UNIT_WORD_BITS) - 1)

/* The low `bits` bits of x as a signed number. */
static int64_t sign_extend(uint64_t x, unsigned bits) { return (int64_t)(x << (64 - bits)) >> (64 - bits); }

int64_t tv_unit_dual_weights(int upper, int lower, unsigned shift) { return upper * (INT64_C(1) << shift) + lower; }

uint64_t tv_unit_dual_mac(uint64_t word, int64_t weights, int activation)
{
    return (word + (uint64_t)(weights * activation)) & WORD_MASK;
}

void tv_unit_dual_sums(uint64_t word, unsigned shift, int64_t *upper, int64_t *lower)
{
    *lower = sign_extend(word, shift);
    *upper = sign_extend(word >> shift, TV_UNIT_WORD_BITS - shift) + (*lower < 0);
}

uint64_t tv_unit_dual_dot(const int8_t *upper, const int8_t *lower, const int8_t *q, size_t count, unsigned shift,
                          uint64_t *words)
{
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++) {
        word = tv_unit_dual_mac(word, tv_unit_dual_weights(upper[i], lower[i], shift), q[i]);
        if (words)
            words[i] = word;
    }
    return word;
}

/* ---- Results ---- */

/* NaNs of hosts differ. */
static float canonical(float x) { return tv_f32_of_bits(tv_f32_canonical(x)); }

uint16_t tv_unit_normalize(int32_t sum, float row_scale, uint16_t scale, const uint16_t *addend,
                           tv_normalize_steps *steps)
{
    float wide = tv_bf16_to_f32(scale);
    uint16_t out;
    tv_bf16_scale(&sum, 1, row_scale, &wide, addend, 1, &out);
    if (!steps)
        return out;
    steps->sum = (float)sum;
    steps->row_scaled = canonical(steps->sum * row_scale);
    steps->scaled = canonical(steps->row_scaled * wide);
    steps->added = addend ? canonical(steps->scaled + tv_bf16_to_f32(*addend)) : steps->scaled;
    return out;
}
