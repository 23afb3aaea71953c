/* SPDX-License-Identifier: Apache-2.0 */
/* Lane kernels for hosts with AVX2 and FMA: only the operations whose scalar loops are many times slower, FP32, 16-bit
 * lanes, layouts and filling. FP32 is as in lanes_avx512.c; rounding modes other than to nearest are set in MXCSR
 * around the loop over a register. */
#include "kernels/variants.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/lanes_table.h"
#include "num/float.h"

#define TARGET __attribute__((target("avx2,fma")))
#define TARGET_INLINE static inline __attribute__((always_inline)) TARGET
#define KERNEL(name)                                                                                                   \
    TARGET static void lanes_##name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int imm)
#define UNUSED(x) (void)(x)
#define UNUSED_EXCEPT_A UNUSED(b), UNUSED(c), UNUSED(imm)

typedef __m256i vec;

enum { ROW = 64, WIDTH = 32, WORDS = 8 };

TARGET_INLINE vec load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
TARGET_INLINE void store(uint8_t *p, vec x) { _mm256_storeu_si256((__m256i *)(void *)p, x); }
TARGET_INLINE vec splat_16(int x) { return _mm256_set1_epi16((short)x); }
TARGET_INLINE vec splat_32(int x) { return _mm256_set1_epi32(x); }

/* ---- 16-bit lanes ---- */

TARGET_INLINE vec add_16(vec a, vec b) { return _mm256_add_epi16(a, b); }
TARGET_INLINE vec sub_16(vec a, vec b) { return _mm256_sub_epi16(a, b); }
TARGET_INLINE vec rsub_16(vec a, vec b) { return _mm256_sub_epi16(b, a); }
TARGET_INLINE vec mul_16(vec a, vec b) { return _mm256_mullo_epi16(a, b); }
TARGET_INLINE vec max_16(vec a, vec b) { return _mm256_max_epi16(a, b); }
TARGET_INLINE vec min_16(vec a, vec b) { return _mm256_min_epi16(a, b); }
TARGET_INLINE vec adds_16(vec a, vec b) { return _mm256_adds_epi16(a, b); }
TARGET_INLINE vec subs_16(vec a, vec b) { return _mm256_subs_epi16(a, b); }
TARGET_INLINE vec rsubs_16(vec a, vec b) { return _mm256_subs_epi16(b, a); }
TARGET_INLINE vec muls_16(vec a, vec b)
{
    vec low = _mm256_mullo_epi16(a, b), high = _mm256_mulhi_epi16(a, b);
    return _mm256_packs_epi32(_mm256_unpacklo_epi16(low, high), _mm256_unpackhi_epi16(low, high));
}
TARGET_INLINE vec bit_xor_16(vec a, vec b) { return _mm256_xor_si256(a, b); }
TARGET_INLINE vec bit_or_16(vec a, vec b) { return _mm256_or_si256(a, b); }
TARGET_INLINE vec bit_and_16(vec a, vec b) { return _mm256_and_si256(a, b); }

typedef struct halves {
    vec low, high;
} halves;

TARGET_INLINE halves load_16(const uint8_t *p)
{
    vec p0 = load(p), p1 = load(p + ROW);
    return (halves){_mm256_unpacklo_epi8(p0, p1), _mm256_unpackhi_epi8(p0, p1)};
}

TARGET_INLINE void store_16(uint8_t *p, halves x)
{
    store(p, _mm256_packus_epi16(_mm256_and_si256(x.low, splat_16(0xFF)), _mm256_and_si256(x.high, splat_16(0xFF))));
    store(p + ROW, _mm256_packus_epi16(_mm256_srli_epi16(x.low, 8), _mm256_srli_epi16(x.high, 8)));
}

/* Registers are the same or disjoint, so storing a vector before loading the next is safe. */
#define KERNEL_16(f)                                                                                                   \
    KERNEL(f##_16)                                                                                                     \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            halves s = load_16(a + i), t = load_16(b + i);                                                             \
            store_16(y + i, (halves){f##_16(s.low, t.low), f##_16(s.high, t.high)});                                   \
        }                                                                                                              \
    }
#define FOR_EACH_16(X)                                                                                                 \
    X(add) X(sub) X(rsub) X(mul) X(max) X(min) X(adds) X(subs) X(rsubs) X(muls) X(bit_xor) X(bit_or) X(bit_and)
FOR_EACH_16(KERNEL_16)

/* ---- FP32 ---- */

/* The zero of its sign for lanes that are NaN, infinite or subnormal. */
TARGET_INLINE __m256 flush_input(vec x)
{
    vec exponent = _mm256_and_si256(x, splat_32(TV_F32_INF));
    vec special = _mm256_or_si256(_mm256_cmpeq_epi32(exponent, _mm256_setzero_si256()),
                                  _mm256_cmpeq_epi32(exponent, splat_32(TV_F32_INF)));
    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_srli_epi32(special, 1), x));
}

TARGET_INLINE vec flush_output(__m256 result)
{
    vec x = _mm256_castps_si256(result), magnitude = _mm256_and_si256(x, splat_32(INT32_MAX));
    vec finite = _mm256_min_epi32(magnitude, splat_32(0x7F7FFFFF)),
        small = _mm256_cmpgt_epi32(splat_32(0x00800000), magnitude);
    return _mm256_or_si256(_mm256_andnot_si256(small, finite), _mm256_and_si256(x, splat_32(INT32_MIN)));
}

/* Sets the rounding mode and returns the former control word. The compiler barriers keep the arithmetic between begin
 * and end, because its operands come from memory and its results go there. */
TARGET_INLINE unsigned begin_rounding(unsigned round)
{
    static const unsigned directions[] = {0x0000, 0x6000, 0x2000, 0x4000};
    unsigned before = _mm_getcsr();
    _mm_setcsr((before & ~0x6000u) | directions[round]);
    __asm__ volatile("" ::: "memory");
    return before;
}

TARGET_INLINE void end_rounding(unsigned before)
{
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(before);
}

#define FP_LOOP(name, round, expression)                                                                               \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_EXCEPT_A;                                                                                               \
        unsigned before = round ? begin_rounding(round) : 0;                                                           \
        for (unsigned i = 0; i < 4 * ROW; i += WIDTH)                                                                  \
            store(y + i, expression);                                                                                  \
        if (round)                                                                                                     \
            end_rounding(before);                                                                                      \
    }
#define IN(p) flush_input(load(p + i))
#define ROUNDED_KERNELS(name, expression)                                                                              \
    FP_LOOP(name##_0, 0, expression)                                                                                   \
    FP_LOOP(name##_1, 1, expression) FP_LOOP(name##_2, 2, expression) FP_LOOP(name##_3, 3, expression)
ROUNDED_KERNELS(fadd, flush_output(_mm256_add_ps(IN(a), IN(b))))
ROUNDED_KERNELS(fsub, flush_output(_mm256_sub_ps(IN(a), IN(b))))

/* The lanes that hold the smallest normal number, of either sign; few results are. */
TARGET_INLINE vec find_smallest(vec x)
{
    return _mm256_cmpeq_epi32(_mm256_and_si256(x, splat_32(INT32_MAX)), splat_32(TV_F32_HIDDEN));
}

TARGET_INLINE bool has_smallest(vec x) { return _mm256_movemask_epi8(find_smallest(x)) != 0; }

/* Replaces results that the host rounded up to the smallest normal number on the grid of subnormals by zero, if they
 * round to a smaller number with unbounded exponent: `scaled` is the result times 2^64, where that grid is far away. An
 * addend of 2^-90 or more makes the sum a multiple of that grid, hence exact. */
TARGET_INLINE vec flush_tiny(vec result, __m256 scaled, __m256 addend)
{
    vec magnitude = splat_32(INT32_MAX);
    vec tiny =
        _mm256_and_si256(_mm256_and_si256(find_smallest(result),
                                          _mm256_cmpgt_epi32(splat_32((int)tv_f32_bits(0x1p-62f)),
                                                             _mm256_and_si256(_mm256_castps_si256(scaled), magnitude))),
                         _mm256_cmpgt_epi32(splat_32((int)tv_f32_bits(0x1p-90f)),
                                            _mm256_and_si256(_mm256_castps_si256(addend), magnitude)));
    return _mm256_andnot_si256(_mm256_and_si256(tiny, magnitude), result);
}
#define FLUSH_TINY(result, scaled, addend) (has_smallest(result) ? flush_tiny(result, scaled, addend) : (result))
#define PRODUCT(f, a, b) FLUSH_TINY(flush_output(f(a, b)), f(scale_up(a), b), _mm256_setzero_ps())
#define FUSED(f, a, b, c) FLUSH_TINY(flush_output(f(a, b, c)), f(scale_up(a), b, scale_up(c)), c)
TARGET_INLINE __m256 scale_up(__m256 x) { return _mm256_mul_ps(x, _mm256_set1_ps(0x1p64f)); }
ROUNDED_KERNELS(fmul, PRODUCT(_mm256_mul_ps, IN(a), IN(b)))
ROUNDED_KERNELS(fma, FUSED(_mm256_fmadd_ps, IN(a), IN(b), IN(c)))
ROUNDED_KERNELS(fms, FUSED(_mm256_fmsub_ps, IN(a), IN(b), IN(c)))
ROUNDED_KERNELS(nfma, FUSED(_mm256_fnmadd_ps, IN(a), IN(b), IN(c)))
ROUNDED_KERNELS(nfms, FUSED(_mm256_fnmsub_ps, IN(a), IN(b), IN(c)))
ROUNDED_KERNELS(f32_s32, _mm256_castps_si256(_mm256_cvtepi32_ps(load(a + i))))
FP_LOOP(fneg, 0, _mm256_xor_si256(load(a + i), splat_32(INT32_MIN)))
FP_LOOP(fabs, 0, _mm256_and_si256(load(a + i), splat_32(INT32_MAX)))
TARGET_INLINE vec to_ordered(vec x) { return _mm256_xor_si256(x, _mm256_srli_epi32(_mm256_srai_epi32(x, 31), 1)); }
TARGET_INLINE vec to_ordered_input(const uint8_t *p) { return to_ordered(_mm256_castps_si256(flush_input(load(p)))); }
FP_LOOP(fmax, 0, to_ordered(_mm256_max_epi32(to_ordered_input(a + i), to_ordered_input(b + i))))
FP_LOOP(fmin, 0, to_ordered(_mm256_min_epi32(to_ordered_input(a + i), to_ordered_input(b + i))))

/* ---- Conversions to integers: magnitudes of 2^31 and more give the low bits of the shifted significand, or the end of
 * the range ---- */

TARGET_INLINE vec exceeds_s32(vec x)
{
    return _mm256_cmpgt_epi32(_mm256_and_si256(x, splat_32(INT32_MAX)), splat_32(0x4EFFFFFF));
}

TARGET_INLINE vec low_bits_of_large(vec x)
{
    vec exponent = _mm256_and_si256(_mm256_srli_epi32(x, TV_F32_FRACTION_BITS), splat_32(0xFF)),
        sign = _mm256_srai_epi32(x, 31);
    vec significand = _mm256_or_si256(_mm256_and_si256(x, splat_32(TV_F32_FRACTION)), splat_32(TV_F32_HIDDEN));
    vec bits = _mm256_sllv_epi32(significand, _mm256_sub_epi32(exponent, splat_32(TV_F32_BIAS + TV_F32_FRACTION_BITS)));
    return _mm256_sub_epi32(_mm256_xor_si256(bits, sign), sign);
}

TARGET_INLINE vec to_s32_wrapped(vec bits)
{
    vec x = _mm256_castps_si256(flush_input(bits));
    return _mm256_blendv_epi8(_mm256_cvtps_epi32(_mm256_castsi256_ps(x)), low_bits_of_large(x), exceeds_s32(x));
}

TARGET_INLINE vec to_s32_saturated(vec bits)
{
    vec x = _mm256_castps_si256(flush_input(bits)),
        limit = _mm256_xor_si256(_mm256_srai_epi32(x, 31), splat_32(INT32_MAX));
    return _mm256_blendv_epi8(_mm256_cvtps_epi32(_mm256_castsi256_ps(x)), limit, exceeds_s32(x));
}
ROUNDED_KERNELS(s32_f32, to_s32_wrapped(load(a + i)))
ROUNDED_KERNELS(s32_f32_sat, to_s32_saturated(load(a + i)))

typedef struct quarters_32 {
    vec at[4];
} quarters_32; /* 32 lanes */

TARGET_INLINE vec restore_order(vec x)
{
    return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The low bytes of 32 lanes; the lanes clamped to bytes. */
TARGET_INLINE vec low_bytes(quarters_32 w)
{
    for (unsigned i = 0; i < 4; i++)
        w.at[i] = _mm256_and_si256(w.at[i], splat_32(0xFF));
    return restore_order(
        _mm256_packus_epi16(_mm256_packus_epi32(w.at[0], w.at[1]), _mm256_packus_epi32(w.at[2], w.at[3])));
}
TARGET_INLINE vec saturated_bytes(quarters_32 w)
{
    return restore_order(
        _mm256_packs_epi16(_mm256_packs_epi32(w.at[0], w.at[1]), _mm256_packs_epi32(w.at[2], w.at[3])));
}

#define NARROW(name, round, pack, f)                                                                                   \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_EXCEPT_A;                                                                                               \
        unsigned before = round ? begin_rounding(round) : 0;                                                           \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            quarters_32 w;                                                                                             \
            for (unsigned v = 0; v < 4; v++)                                                                           \
                w.at[v] = f(load(a + 4 * (size_t)i + v * (size_t)WIDTH));                                              \
            store(y + i, pack(w));                                                                                     \
        }                                                                                                              \
        if (round)                                                                                                     \
            end_rounding(before);                                                                                      \
    }
#define IDENTITY(x) (x)
NARROW(s8_s32, 0, low_bytes, IDENTITY)
NARROW(s8_s32_sat, 0, saturated_bytes, IDENTITY)
NARROW(s8_f32_0, 0, low_bytes, to_s32_wrapped)
NARROW(s8_f32_1, 1, low_bytes, to_s32_wrapped)
NARROW(s8_f32_2, 2, low_bytes, to_s32_wrapped)
NARROW(s8_f32_3, 3, low_bytes, to_s32_wrapped)
NARROW(s8_f32_sat_0, 0, saturated_bytes, to_s32_saturated)
NARROW(s8_f32_sat_1, 1, saturated_bytes, to_s32_saturated)
NARROW(s8_f32_sat_2, 2, saturated_bytes, to_s32_saturated)
NARROW(s8_f32_sat_3, 3, saturated_bytes, to_s32_saturated)

/* Eight lanes at a time from bytes, all of which are read before the first is written, because y may contain a. */
#define WIDEN(name, expression)                                                                                        \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_EXCEPT_A;                                                                                               \
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

/* ---- Lanes and byte planes, 32 lanes at a time: a transposition of 4 x 4 bytes, and one of 4 x 4 words ---- */

enum { PLANES = 4, HALVES = ROW / WIDTH };

KERNEL(to_planes)
{
    UNUSED_EXCEPT_A;
    const vec bytes = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    vec q[HALVES * PLANES];
    for (unsigned i = 0; i < HALVES * PLANES; i++)
        q[i] = _mm256_shuffle_epi8(load(a + (size_t)WIDTH * i), bytes);
    for (unsigned i = 0; i < HALVES; i++) {
        const vec *h = q + (size_t)PLANES * i;
        vec low01 = _mm256_unpacklo_epi32(h[0], h[1]), low23 = _mm256_unpacklo_epi32(h[2], h[3]);
        vec high01 = _mm256_unpackhi_epi32(h[0], h[1]), high23 = _mm256_unpackhi_epi32(h[2], h[3]);
        uint8_t *p = y + (size_t)WIDTH * i;
        store(p, restore_order(_mm256_unpacklo_epi64(low01, low23)));
        store(p + ROW, restore_order(_mm256_unpackhi_epi64(low01, low23)));
        store(p + 2 * ROW, restore_order(_mm256_unpacklo_epi64(high01, high23)));
        store(p + 3 * ROW, restore_order(_mm256_unpackhi_epi64(high01, high23)));
    }
}

KERNEL(to_lanes)
{
    UNUSED_EXCEPT_A;
    const vec even_first = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    vec q[HALVES][PLANES];
    for (unsigned i = 0; i < HALVES; i++)
        for (unsigned plane = 0; plane < PLANES; plane++)
            q[i][plane] = _mm256_permutevar8x32_epi32(load(a + (size_t)ROW * plane + (size_t)WIDTH * i), even_first);
    for (unsigned i = 0; i < HALVES; i++) {
        vec low01 = _mm256_unpacklo_epi8(q[i][0], q[i][1]), low23 = _mm256_unpacklo_epi8(q[i][2], q[i][3]);
        vec high01 = _mm256_unpackhi_epi8(q[i][0], q[i][1]), high23 = _mm256_unpackhi_epi8(q[i][2], q[i][3]);
        uint8_t *p = y + (size_t)PLANES * WIDTH * i;
        store(p, _mm256_unpacklo_epi16(low01, low23));
        store(p + WIDTH, _mm256_unpackhi_epi16(low01, low23));
        store(p + 2 * WIDTH, _mm256_unpacklo_epi16(high01, high23));
        store(p + 3 * WIDTH, _mm256_unpackhi_epi16(high01, high23));
    }
}

/* The lanes of two vectors, at most 255, as bytes in order. */
TARGET_INLINE vec join_bytes(vec first, vec second)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), _MM_SHUFFLE(3, 1, 2, 0));
}
TARGET_INLINE vec low_plane(halves x)
{
    return join_bytes(_mm256_and_si256(x.low, splat_16(0xFF)), _mm256_and_si256(x.high, splat_16(0xFF)));
}
TARGET_INLINE vec high_plane(halves x) { return join_bytes(_mm256_srli_epi16(x.low, 8), _mm256_srli_epi16(x.high, 8)); }

KERNEL(deinterleave)
{
    UNUSED_EXCEPT_A;
    const halves first = {load(a), load(a + WIDTH)}, second = {load(a + ROW), load(a + ROW + WIDTH)};
    store(y, low_plane(first));
    store(y + WIDTH, low_plane(second));
    store(y + ROW, high_plane(first));
    store(y + ROW + WIDTH, high_plane(second));
}

TARGET_INLINE void store_interleaved(uint8_t *p, halves x)
{
    store(p, _mm256_permute2x128_si256(x.low, x.high, 0x20));
    store(p + WIDTH, _mm256_permute2x128_si256(x.low, x.high, 0x31));
}

KERNEL(interleave)
{
    UNUSED_EXCEPT_A;
    const halves first = load_16(a), second = load_16(a + WIDTH);
    store_interleaved(y, first);
    store_interleaved(y + ROW, second);
}

KERNEL(fill_8)
{
    UNUSED(a), UNUSED(b), UNUSED(c);
    vec x = _mm256_set1_epi8((char)imm);
    store(y, x);
    store(y + WIDTH, x);
}

/* ---- Look-up: sixteen entries at a time; a lane whose index has another upper nibble gets 0 ---- */

KERNEL(lookup)
{
    UNUSED(c), UNUSED(imm);
    for (unsigned i = 0; i < ROW; i += WIDTH) {
        vec index = load(a + i), result = _mm256_setzero_si256();
        for (unsigned n = 0; n < 16; n++) {
            vec entries =
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(b + 16 * (size_t)n)));
            vec shuffle =
                _mm256_adds_epu8(_mm256_xor_si256(index, _mm256_set1_epi8((char)(16 * n))), _mm256_set1_epi8(0x70));
            result = _mm256_or_si256(result, _mm256_shuffle_epi8(entries, shuffle));
        }
        store(y + i, result);
    }
}

const tv_lanes_set tv_lanes_avx2 = {{
#define TV_LANE(id, selection, avx2, avx512, neon) [TV_LANE_##id] = avx2,
#include "kernels/lanes.def"
#undef TV_LANE
}};
#endif
