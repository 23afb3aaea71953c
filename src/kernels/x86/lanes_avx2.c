/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on registers of 64 lanes for hosts with AVX2 and FMA: those that plain loops do many times slower, FP32
 * and lanes of 16 bit. FP32 is as in lanes_avx512.c; directions other than to nearest are set for the length of a
 * register. */
#include "kernels/x86/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "num/float.h"

#define TARGET __attribute__((target("avx2,fma")))
#define INNER static inline __attribute__((always_inline)) TARGET
#define KERNEL(name) TARGET static void name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int imm)
#define UNUSED(x) (void)(x)
#define UNUSED_BUT_A UNUSED(b), UNUSED(c), UNUSED(imm)

typedef __m256i vec;

enum { ROW = 64, WIDTH = 32, WORDS = 8 };

INNER vec load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
INNER void store(uint8_t *p, vec x) { _mm256_storeu_si256((__m256i *)(void *)p, x); }
INNER vec all16(int x) { return _mm256_set1_epi16((short)x); }
INNER vec all32(int x) { return _mm256_set1_epi32(x); }

/* ---- 16 bit ---- */

INNER vec add_16(vec a, vec b) { return _mm256_add_epi16(a, b); }
INNER vec sub_16(vec a, vec b) { return _mm256_sub_epi16(a, b); }
INNER vec rsub_16(vec a, vec b) { return _mm256_sub_epi16(b, a); }
INNER vec mul_16(vec a, vec b) { return _mm256_mullo_epi16(a, b); }
INNER vec max_16(vec a, vec b) { return _mm256_max_epi16(a, b); }
INNER vec min_16(vec a, vec b) { return _mm256_min_epi16(a, b); }
INNER vec adds_16(vec a, vec b) { return _mm256_adds_epi16(a, b); }
INNER vec subs_16(vec a, vec b) { return _mm256_subs_epi16(a, b); }
INNER vec rsubs_16(vec a, vec b) { return _mm256_subs_epi16(b, a); }
INNER vec muls_16(vec a, vec b)
{
    vec low = _mm256_mullo_epi16(a, b), high = _mm256_mulhi_epi16(a, b);
    return _mm256_packs_epi32(_mm256_unpacklo_epi16(low, high), _mm256_unpackhi_epi16(low, high));
}
INNER vec xor_16(vec a, vec b) { return _mm256_xor_si256(a, b); }
INNER vec or_16(vec a, vec b) { return _mm256_or_si256(a, b); }
INNER vec and_16(vec a, vec b) { return _mm256_and_si256(a, b); }

typedef struct halves {
    vec low, high;
} halves;

INNER halves load_16(const uint8_t *p)
{
    vec p0 = load(p), p1 = load(p + ROW);
    return (halves){_mm256_unpacklo_epi8(p0, p1), _mm256_unpackhi_epi8(p0, p1)};
}

INNER void store_16(uint8_t *p, halves x)
{
    store(p, _mm256_packus_epi16(_mm256_and_si256(x.low, all16(0xFF)), _mm256_and_si256(x.high, all16(0xFF))));
    store(p + ROW, _mm256_packus_epi16(_mm256_srli_epi16(x.low, 8), _mm256_srli_epi16(x.high, 8)));
}

/* Registers are the same or apart. */
#define KERNEL_16(f)                                                                                                   \
    KERNEL(k_##f##_16)                                                                                                 \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            halves s = load_16(a + i), t = load_16(b + i);                                                             \
            store_16(y + i, (halves){f##_16(s.low, t.low), f##_16(s.high, t.high)});                                   \
        }                                                                                                              \
    }
/* clang-format off */
KERNEL_16(add)
KERNEL_16(sub)
KERNEL_16(rsub)
KERNEL_16(mul)
KERNEL_16(max)
KERNEL_16(min)
KERNEL_16(adds)
KERNEL_16(subs)
KERNEL_16(rsubs)
KERNEL_16(muls)
KERNEL_16(xor)
KERNEL_16(or)
KERNEL_16(and)
/* clang-format on */

/* ---- FP32 ---- */

/* Zero of their sign for those that are NaN, infinite or subnormal. */
INNER __m256 input(vec x)
{
    vec exponent = _mm256_and_si256(x, all32(TV_F32_INF));
    vec odd = _mm256_or_si256(_mm256_cmpeq_epi32(exponent, _mm256_setzero_si256()),
                              _mm256_cmpeq_epi32(exponent, all32(TV_F32_INF)));
    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_srli_epi32(odd, 1), x));
}

INNER vec output(__m256 result)
{
    vec x = _mm256_castps_si256(result), magnitude = _mm256_and_si256(x, all32(INT32_MAX));
    vec finite = _mm256_min_epi32(magnitude, all32(0x7F7FFFFF)),
        small = _mm256_cmpgt_epi32(all32(0x00800000), magnitude);
    return _mm256_or_si256(_mm256_andnot_si256(small, finite), _mm256_and_si256(x, all32(INT32_MIN)));
}

/* Sets the direction, and returns what it was. Nothing is calculated before the one, or after the other: all comes from
 * memory, and all goes there. */
INNER unsigned begin_rounding(unsigned round)
{
    static const unsigned directions[] = {0x0000, 0x6000, 0x2000, 0x4000};
    unsigned before = _mm_getcsr();
    _mm_setcsr((before & ~0x6000u) | directions[round]);
    __asm__ volatile("" ::: "memory");
    return before;
}

INNER void end_rounding(unsigned before)
{
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(before);
}

#define FP_LOOP(name, round, expression)                                                                               \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        unsigned before = round ? begin_rounding(round) : 0;                                                           \
        for (unsigned i = 0; i < 4 * ROW; i += WIDTH)                                                                  \
            store(y + i, expression);                                                                                  \
        if (round)                                                                                                     \
            end_rounding(before);                                                                                      \
    }
#define IN(p) input(load(p + i))
#define ROUNDED_KERNELS(name, expression)                                                                              \
    FP_LOOP(name##_0, 0, expression)                                                                                   \
    FP_LOOP(name##_1, 1, expression) FP_LOOP(name##_2, 2, expression) FP_LOOP(name##_3, 3, expression)
ROUNDED_KERNELS(fadd, output(_mm256_add_ps(IN(a), IN(b))))
ROUNDED_KERNELS(fsub, output(_mm256_sub_ps(IN(a), IN(b))))
ROUNDED_KERNELS(fmul, output(_mm256_mul_ps(IN(a), IN(b))))
ROUNDED_KERNELS(fma, output(_mm256_fmadd_ps(IN(a), IN(b), IN(c))))
ROUNDED_KERNELS(fms, output(_mm256_fmsub_ps(IN(a), IN(b), IN(c))))
ROUNDED_KERNELS(nfma, output(_mm256_fnmadd_ps(IN(a), IN(b), IN(c))))
ROUNDED_KERNELS(nfms, output(_mm256_fnmsub_ps(IN(a), IN(b), IN(c))))
ROUNDED_KERNELS(f32_s32, _mm256_castps_si256(_mm256_cvtepi32_ps(load(a + i))))
FP_LOOP(fneg, 0, _mm256_xor_si256(load(a + i), all32(INT32_MIN)))
FP_LOOP(fabs_, 0, _mm256_and_si256(load(a + i), all32(INT32_MAX)))
INNER vec ordered(vec x) { return _mm256_xor_si256(x, _mm256_srli_epi32(_mm256_srai_epi32(x, 31), 1)); }
INNER vec ordered_input(const uint8_t *p) { return ordered(_mm256_castps_si256(input(load(p)))); }
FP_LOOP(fmax_, 0, ordered(_mm256_max_epi32(ordered_input(a + i), ordered_input(b + i))))
FP_LOOP(fmin_, 0, ordered(_mm256_min_epi32(ordered_input(a + i), ordered_input(b + i))))

/* ---- Conversions to integers: of 2^31 and more, the low bits are the significand's, or the range's end ---- */

INNER vec is_far(vec x) { return _mm256_cmpgt_epi32(_mm256_and_si256(x, all32(INT32_MAX)), all32(0x4EFFFFFF)); }

INNER vec far_bits(vec x)
{
    vec exponent = _mm256_and_si256(_mm256_srli_epi32(x, TV_F32_FRACTION_BITS), all32(0xFF)),
        sign = _mm256_srai_epi32(x, 31);
    vec significand = _mm256_or_si256(_mm256_and_si256(x, all32(TV_F32_FRACTION)), all32(TV_F32_HIDDEN));
    vec bits = _mm256_sllv_epi32(significand, _mm256_sub_epi32(exponent, all32(TV_F32_BIAS + TV_F32_FRACTION_BITS)));
    return _mm256_sub_epi32(_mm256_xor_si256(bits, sign), sign);
}

INNER vec wrapped(vec bits)
{
    vec x = _mm256_castps_si256(input(bits));
    return _mm256_blendv_epi8(_mm256_cvtps_epi32(_mm256_castsi256_ps(x)), far_bits(x), is_far(x));
}

INNER vec limited(vec bits)
{
    vec x = _mm256_castps_si256(input(bits)), limit = _mm256_xor_si256(_mm256_srai_epi32(x, 31), all32(INT32_MAX));
    return _mm256_blendv_epi8(_mm256_cvtps_epi32(_mm256_castsi256_ps(x)), limit, is_far(x));
}
ROUNDED_KERNELS(s32_f32, wrapped(load(a + i)))
ROUNDED_KERNELS(s32_f32_sat, limited(load(a + i)))

typedef struct words {
    vec at[4];
} words; /* 32 lanes */

/* The low bytes of 32 lanes, and what is left when they are limited. */
INNER vec in_order(vec x) { return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)); }
INNER vec low_bytes(words w)
{
    for (unsigned i = 0; i < 4; i++)
        w.at[i] = _mm256_and_si256(w.at[i], all32(0xFF));
    return in_order(_mm256_packus_epi16(_mm256_packus_epi32(w.at[0], w.at[1]), _mm256_packus_epi32(w.at[2], w.at[3])));
}
INNER vec limited_bytes(words w)
{
    return in_order(_mm256_packs_epi16(_mm256_packs_epi32(w.at[0], w.at[1]), _mm256_packs_epi32(w.at[2], w.at[3])));
}

#define NARROW(name, round, pack, f)                                                                                   \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        unsigned before = round ? begin_rounding(round) : 0;                                                           \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            words w;                                                                                                   \
            for (unsigned v = 0; v < 4; v++)                                                                           \
                w.at[v] = f(load(a + 4 * (size_t)i + v * (size_t)WIDTH));                                              \
            store(y + i, pack(w));                                                                                     \
        }                                                                                                              \
        if (round)                                                                                                     \
            end_rounding(before);                                                                                      \
    }
#define SAME(x) (x)
NARROW(s8_s32, 0, low_bytes, SAME)
NARROW(s8_s32_sat, 0, limited_bytes, SAME)
NARROW(s8_f32_0, 0, low_bytes, wrapped)
NARROW(s8_f32_1, 1, low_bytes, wrapped)
NARROW(s8_f32_2, 2, low_bytes, wrapped)
NARROW(s8_f32_3, 3, low_bytes, wrapped)
NARROW(s8_f32_sat_0, 0, limited_bytes, limited)
NARROW(s8_f32_sat_1, 1, limited_bytes, limited)
NARROW(s8_f32_sat_2, 2, limited_bytes, limited)
NARROW(s8_f32_sat_3, 3, limited_bytes, limited)

/* Eight lanes at a time from bytes, all of which are read before the first is written: y may be around a. */
#define WIDEN(name, expression)                                                                                        \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        uint8_t bytes[ROW];                                                                                            \
        store(bytes, load(a));                                                                                         \
        store(bytes + WIDTH, load(a + WIDTH));                                                                         \
        for (unsigned i = 0; i < ROW; i += WORDS) {                                                                    \
            vec x = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(bytes + i)));                 \
            store(y + 4 * (size_t)i, expression);                                                                      \
        }                                                                                                              \
    }
WIDEN(s32_s8, x)
WIDEN(f32_s8, _mm256_castps_si256(_mm256_cvtepi32_ps(x)))

/* ---- Tables: sixteen entries at a time, none for a lane whose index has another upper half ---- */

KERNEL(lookup)
{
    UNUSED(c), UNUSED(imm);
    for (unsigned i = 0; i < ROW; i += WIDTH) {
        vec index = load(a + i), found = _mm256_setzero_si256();
        for (unsigned n = 0; n < 16; n++) {
            vec entries =
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(b + 16 * (size_t)n)));
            vec place =
                _mm256_adds_epu8(_mm256_xor_si256(index, _mm256_set1_epi8((char)(16 * n))), _mm256_set1_epi8(0x70));
            found = _mm256_or_si256(found, _mm256_shuffle_epi8(entries, place));
        }
        store(y + i, found);
    }
}

/* ---- The table ---- */

#define SIZED(f)                                                                                                       \
    {                                                                                                                  \
        [2] = k_##f##_16, k_##f##_16                                                                                   \
    }
#define SIZED_SAT(f)                                                                                                   \
    {                                                                                                                  \
        [2] = k_##f##_16, k_##f##s_16                                                                                  \
    }
#define ROUNDED(f)                                                                                                     \
    {                                                                                                                  \
        f##_0, f##_1, f##_2, f##_3                                                                                     \
    }
#define SAT_ROUNDED(f)                                                                                                 \
    {                                                                                                                  \
        f##_0, f##_1, f##_2, f##_3, f##_sat_0, f##_sat_1, f##_sat_2, f##_sat_3                                         \
    }

const tv_lanes_fn tv_lanes_avx2[TV_LANE_OPS][TV_LANE_VARIANTS] = {
    [TV_LANE_ADD] = SIZED_SAT(add),
    [TV_LANE_SUB] = SIZED_SAT(sub),
    [TV_LANE_RSUB] = SIZED_SAT(rsub),
    [TV_LANE_MUL] = SIZED_SAT(mul),
    [TV_LANE_MAX] = SIZED(max),
    [TV_LANE_MIN] = SIZED(min),
    [TV_LANE_XOR] = SIZED(xor),
    [TV_LANE_OR] = SIZED(or),
    [TV_LANE_AND] = SIZED(and),
    [TV_LANE_FADD] = ROUNDED(fadd),
    [TV_LANE_FSUB] = ROUNDED(fsub),
    [TV_LANE_FMUL] = ROUNDED(fmul),
    [TV_LANE_FMA] = ROUNDED(fma),
    [TV_LANE_FMS] = ROUNDED(fms),
    [TV_LANE_NFMA] = ROUNDED(nfma),
    [TV_LANE_NFMS] = ROUNDED(nfms),
    [TV_LANE_FNEG] = {fneg},
    [TV_LANE_FABS] = {fabs_},
    [TV_LANE_FMAX] = {fmax_},
    [TV_LANE_FMIN] = {fmin_},
    [TV_LANE_F32_S32] = ROUNDED(f32_s32),
    [TV_LANE_S32_F32] = SAT_ROUNDED(s32_f32),
    [TV_LANE_S8_F32] = SAT_ROUNDED(s8_f32),
    [TV_LANE_S8_S32] = {s8_s32, [4] = s8_s32_sat},
    [TV_LANE_S32_S8] = {s32_s8},
    [TV_LANE_F32_S8] = {f32_s8},
    [TV_LANE_LOOKUP] = {lookup},
};
#endif
