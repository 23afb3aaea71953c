/* SPDX-License-Identifier: Apache-2.0 */
/* Rationals on 128-bit intermediates. */
#include "sim/ratio.h"

static tv_u128 gcd(tv_u128 a, tv_u128 b)
{
    while (b) {
        tv_u128 r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static tv_ratio normal(tv_u128 whole, tv_u128 num, tv_u128 den)
{
    whole += num / den;
    num %= den;
    tv_u128 g = gcd(num, den);
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

tv_ratio tv_ratio_add(tv_ratio a, tv_ratio b)
{
    if (a.den == b.den) /* the common case: integers, or one clock */
        return a.den == 1 ? tv_ratio_of(a.whole + b.whole) : normal((tv_u128)a.whole + b.whole, (tv_u128)a.num + b.num, a.den);
    return normal((tv_u128)a.whole + b.whole, (tv_u128)a.num * b.den + (tv_u128)b.num * a.den, (tv_u128)a.den * b.den);
}

tv_ratio tv_ratio_sub(tv_ratio a, tv_ratio b)
{
    assert(tv_ratio_cmp(a, b) >= 0);
    if (a.den == 1 && b.den == 1)
        return tv_ratio_of(a.whole - b.whole);
    tv_u128 den = (tv_u128)a.den * b.den, x = (tv_u128)a.num * b.den, y = (tv_u128)b.num * a.den;
    tv_u128 whole = (tv_u128)a.whole - b.whole;
    if (x < y) {
        whole -= 1;
        x += den;
    }
    return normal(whole, x - y, den);
}

int tv_ratio_cmp(tv_ratio a, tv_ratio b)
{
    if (a.whole != b.whole)
        return a.whole < b.whole ? -1 : 1;
    tv_u128 x = (tv_u128)a.num * b.den, y = (tv_u128)b.num * a.den;
    return x < y ? -1 : x > y;
}

tv_ratio tv_ratio_scale(tv_ratio a, uint64_t p, uint64_t q)
{
    assert(p >> 40 == 0 && q >> 40 == 0 && q > 0);
    tv_u128 scaled = (tv_u128)a.whole * p;
    tv_u128 whole = scaled / q, rest = scaled % q; /* rest / q + num * p / (den * q) remain */
    return normal(whole, rest * a.den + (tv_u128)a.num * p, (tv_u128)a.den * q);
}
