/* SPDX-License-Identifier: Apache-2.0 */
/* Rationals on 128-bit intermediates. */
#include "sim/ratio.h"

/* In lowest terms, with a denominator below 2^62. */
static tv_ratio normalize(tv_u128 whole, tv_u128 num, tv_u128 den)
{
    whole += num / den;
    num %= den;
    tv_u128 g = tv_gcd_u128(num, den);
    num /= g;
    den /= g;
    while (den >> 62) { /* rounds up: the fraction never shrinks */
        num = (num >> 1) + (num & 1);
        den >>= 1;
    }
    if (num >= den) {
        whole += 1;
        num = 0;
    }
    assert(whole >> 63 == 0);
    return (tv_ratio){(uint64_t)whole, (uint64_t)num, num ? (uint64_t)den : 1};
}

/* ---- Small denominators, the common case: the same in 64 bits ---- */

static bool is_small(uint64_t den) { return den >> 30 == 0; }

/* den below 2^62, num below 2^64. */
static tv_ratio normalize_small(uint64_t whole, uint64_t num, uint64_t den)
{
    if (num >= den) {
        whole += num / den;
        num %= den;
    }
    assert(whole >> 63 == 0);
    if (num == 0)
        return tv_ratio_of(whole);
    uint64_t g = tv_gcd_u64(num, den);
    return g == 1 ? (tv_ratio){whole, num, den} : (tv_ratio){whole, num / g, den / g};
}

/* ---- Operations ---- */

tv_ratio tv_ratio_add_fractions(tv_ratio a, tv_ratio b)
{
    if (is_small(a.den) && is_small(b.den))
        return a.den == b.den ? normalize_small(a.whole + b.whole, a.num + b.num, a.den)
                              : normalize_small(a.whole + b.whole, a.num * b.den + b.num * a.den, a.den * b.den);
    if (a.den == b.den) /* one clock domain */
        return normalize((tv_u128)a.whole + b.whole, (tv_u128)a.num + b.num, a.den);
    return normalize((tv_u128)a.whole + b.whole, (tv_u128)a.num * b.den + (tv_u128)b.num * a.den,
                     (tv_u128)a.den * b.den);
}

tv_ratio tv_ratio_sub_fraction(tv_ratio a, tv_ratio b)
{
    if (a.num == 0) /* 1 - num / den is in lowest terms when num / den is */
        return (tv_ratio){a.whole - b.whole - 1, b.den - b.num, b.den};
    if (is_small(a.den) && is_small(b.den)) {
        bool same = a.den == b.den;
        uint64_t common = same ? a.den : a.den * b.den, from = same ? a.num : a.num * b.den,
                 less = same ? b.num : b.num * a.den;
        bool carry = from < less;
        return normalize_small(a.whole - b.whole - carry, from + (carry ? common : 0) - less, common);
    }
    tv_u128 den = (tv_u128)a.den * b.den, x = (tv_u128)a.num * b.den, y = (tv_u128)b.num * a.den;
    tv_u128 whole = (tv_u128)a.whole - b.whole;
    if (x < y) {
        whole -= 1;
        x += den;
    }
    return normalize(whole, x - y, den);
}

int tv_ratio_cmp_fractions(tv_ratio a, tv_ratio b)
{
    tv_u128 x = (tv_u128)a.num * b.den, y = (tv_u128)b.num * a.den;
    return x < y ? -1 : x > y;
}

/* a * p; `whole` is a.whole * p, and a.den is below 2^20. As num and den have no common factor, only one of p and den
 * is left to remove. */
static tv_ratio scale_up(uint64_t whole, tv_ratio a, uint64_t p)
{
    if (a.num) {
        uint64_t g = tv_gcd_u64(a.den, p), num = a.num * (p / g), den = a.den / g;
        whole += num / den;
        a.num = num % den;
        a.den = a.num ? den : 1;
    }
    assert(whole >> 63 == 0);
    return (tv_ratio){whole, a.num, a.den};
}

/* a / q; a.den is below 2^20. A common factor of the quotient's numerator and denominator is one of q. */
static tv_ratio scale_down(tv_ratio a, uint64_t q)
{
    uint64_t num = a.whole % q * a.den + a.num;
    if (num == 0)
        return tv_ratio_of(a.whole / q);
    uint64_t g = tv_gcd_u64(num, q);
    return (tv_ratio){a.whole / q, num / g, a.den * (q / g)};
}

tv_ratio tv_ratio_scale(tv_ratio a, uint64_t p, uint64_t q)
{
    assert(p >> 40 == 0 && q >> 40 == 0 && q > 0);
    uint64_t product;
    if (a.den >> 20 == 0 && !__builtin_mul_overflow(a.whole, p, &product)) {
        if (q == 1)
            return scale_up(product, a, p);
        if (p == 1)
            return scale_down(a, q);
        return normalize_small(product / q, product % q * a.den + a.num * p, a.den * q);
    }
    tv_u128 scaled = (tv_u128)a.whole * p;
    tv_u128 whole = scaled / q, rest = scaled % q; /* rest / q + num * p / (den * q) remain */
    return normalize(whole, rest * a.den + (tv_u128)a.num * p, (tv_u128)a.den * q);
}
