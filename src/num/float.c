/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding of binary64 to any narrower IEEE-like format, to nearest, ties to even. */
#include "num/float.h"

/* Rounds the magnitude of finite x to a format with `man` fraction bits and exponent bias `bias`. On overflow the
 * result has the exponent field and fraction of infinity. */
static uint64_t round_magnitude(double x, unsigned man, int bias, unsigned max_exponent)
{
    uint64_t bits = tv_f64_bits(x) & INT64_MAX;
    int exponent = (int)(bits >> 52);
    uint64_t fraction = bits & tv_mask(52);
    if (exponent == 0)
        return 0; /* below half of the smallest subnormal of every narrower format */
    fraction |= UINT64_C(1) << 52;
    int e = exponent - 1023 + bias; /* the exponent field in the narrow format, if it is normal there */
    unsigned drop = 52 - man;
    uint64_t base = 0;
    if (e <= 0) {
        drop += (unsigned)(1 - e);
        if (drop > 54)
            return 0;
    } else if ((unsigned)e >= max_exponent) {
        return (uint64_t)max_exponent << man;
    } else {
        base = (uint64_t)(e - 1) << man; /* the implicit bit of the fraction adds 1 to the exponent */
    }
    uint64_t kept = drop > 53 ? 0 : fraction >> drop;
    uint64_t rest = fraction & tv_mask(drop), half = UINT64_C(1) << (drop - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    return base + kept;
}

static uint16_t narrow(double x, unsigned man, int bias, unsigned max_exponent)
{
    uint16_t sign = (uint16_t)(tv_f64_bits(x) >> 48 & 0x8000);
    if (x != x)
        return (uint16_t)((max_exponent << man) | 1u << (man - 1));
    if (x - x != 0)
        return (uint16_t)(sign | max_exponent << man);
    return (uint16_t)(sign | round_magnitude(x, man, bias, max_exponent));
}

uint16_t tv_bf16_from_f64(double x) { return narrow(x, 7, 127, 255); }

uint16_t tv_bf16_flushed_from_f64(double x)
{
    const double normal_from = (double)tv_f32_of_bits(TV_BF16_NORMAL_FROM);
    return fabs(x) < normal_from ? (uint16_t)(tv_f64_bits(x) >> 48 & TV_BF16_SIGN) : tv_bf16_from_f64(x);
}

uint16_t tv_f16_from_f64(double x) { return narrow(x, 10, 15, 31); }

double tv_f64_odd_from_i64(int64_t x)
{
    uint64_t magnitude = x < 0 ? 0 - (uint64_t)x : (uint64_t)x, dropped = 0;
    while (magnitude >> 53) {
        dropped |= magnitude & 1;
        magnitude >>= 1;
        magnitude |= dropped; /* sticky */
    }
    double scale = 1;
    for (uint64_t rest = x < 0 ? 0 - (uint64_t)x : (uint64_t)x; rest >> 53; rest >>= 1)
        scale *= 2;
    double y = (double)magnitude * scale;
    return x < 0 ? -y : y;
}
