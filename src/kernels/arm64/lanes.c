/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on registers of 64 lanes with NEON: all of them, since what has no kernel here is done to lanes of 32 bit,
 * or byte by byte where planes and lanes are turned into each other, and FP32 by functions of single numbers.
 *
 * The host rounds as Tier 2 does; what is NaN, infinite, subnormal or too large is mended before and after, as in
 * lanes_avx512.c. Directions other than to nearest are set for the length of a register, unless the instruction names
 * its own. */
#include "kernels/arm64/lanes.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include "kernels/clones.h"
#include "kernels/lanes_table.h"
#include "num/float.h"

#define KERNEL(name) static void name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int imm)
#define UNUSED(x) (void)(x)
#define UNUSED_BUT_A UNUSED(b), UNUSED(c), UNUSED(imm)

/* Bytes of a row and of a vector; vectors of lanes that a register of 8, 16 and 32 bit has. */
enum { ROW = 64, WIDTH = 16, VECTORS_8 = 4, VECTORS_16 = 8, VECTORS_32 = 16 };

TV_INLINE int8x16_t load_8(const uint8_t *p) { return vreinterpretq_s8_u8(vld1q_u8(p)); }
TV_INLINE int32x4_t load_32(const uint8_t *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
TV_INLINE void store_8(uint8_t *p, int8x16_t x) { vst1q_u8(p, vreinterpretq_u8_s8(x)); }
TV_INLINE void store_32(uint8_t *p, int32x4_t x) { vst1q_u8(p, vreinterpretq_u8_s32(x)); }

/* Sixteen lanes of 16 bit, in order. */
typedef struct halves {
    int16x8_t low, high;
} halves;

TV_INLINE halves load_16(const uint8_t *p)
{
    int8x16_t p0 = load_8(p), p1 = load_8(p + ROW);
    return (halves){vreinterpretq_s16_s8(vzip1q_s8(p0, p1)), vreinterpretq_s16_s8(vzip2q_s8(p0, p1))};
}

TV_INLINE void store_16(uint8_t *p, halves x)
{
    int8x16_t low = vreinterpretq_s8_s16(x.low), high = vreinterpretq_s8_s16(x.high);
    store_8(p, vuzp1q_s8(low, high));
    store_8(p + ROW, vuzp2q_s8(low, high));
}

/* ---- Integers: the same for lanes of each width, whose signed and unsigned vectors are S and U, and W the signed of
 * twice the width ---- */

/* What may wrap is unsigned, since some headers write these functions with the compiler's own operators. */
#define WRAPPING(f, S, U, a, b) vreinterpretq_##S##_##U(f##_##U(vreinterpretq_##U##_##S(a), vreinterpretq_##U##_##S(b)))

#define FUNCTIONS(bits, vec, S, U, W)                                                                                  \
    TV_INLINE vec add_##bits(vec a, vec b) { return WRAPPING(vaddq, S, U, a, b); }                                     \
    TV_INLINE vec sub_##bits(vec a, vec b) { return WRAPPING(vsubq, S, U, a, b); }                                     \
    TV_INLINE vec rsub_##bits(vec a, vec b) { return WRAPPING(vsubq, S, U, b, a); }                                    \
    TV_INLINE vec mul_##bits(vec a, vec b) { return WRAPPING(vmulq, S, U, a, b); }                                     \
    TV_INLINE vec neg_##bits(vec a, vec b)                                                                             \
    {                                                                                                                  \
        UNUSED(b);                                                                                                     \
        return WRAPPING(vsubq, S, U, vdupq_n_##S(0), a);                                                               \
    }                                                                                                                  \
    TV_INLINE vec abs_##bits(vec a, vec b)                                                                             \
    {                                                                                                                  \
        UNUSED(b);                                                                                                     \
        return vabsq_##S(a);                                                                                           \
    }                                                                                                                  \
    TV_INLINE vec adds_##bits(vec a, vec b) { return vqaddq_##S(a, b); }                                               \
    TV_INLINE vec subs_##bits(vec a, vec b) { return vqsubq_##S(a, b); }                                               \
    TV_INLINE vec rsubs_##bits(vec a, vec b) { return vqsubq_##S(b, a); }                                              \
    TV_INLINE vec muls_##bits(vec a, vec b)                                                                            \
    {                                                                                                                  \
        return vqmovn_high_##W(vqmovn_##W(vmull_##S(vget_low_##S(a), vget_low_##S(b))), vmull_high_##S(a, b));         \
    }                                                                                                                  \
    TV_INLINE vec negs_##bits(vec a, vec b)                                                                            \
    {                                                                                                                  \
        UNUSED(b);                                                                                                     \
        return vqnegq_##S(a);                                                                                          \
    }                                                                                                                  \
    TV_INLINE vec abss_##bits(vec a, vec b)                                                                            \
    {                                                                                                                  \
        UNUSED(b);                                                                                                     \
        return vqabsq_##S(a);                                                                                          \
    }                                                                                                                  \
    TV_INLINE vec max_##bits(vec a, vec b) { return vmaxq_##S(a, b); }                                                 \
    TV_INLINE vec min_##bits(vec a, vec b) { return vminq_##S(a, b); }                                                 \
    TV_INLINE vec counts_##bits(vec b) { return vandq_##S(b, vdupq_n_##S(bits - 1)); }                                 \
    TV_INLINE vec unsigned_shift_##bits(vec a, vec n)                                                                  \
    {                                                                                                                  \
        return vreinterpretq_##S##_##U(vshlq_##U(vreinterpretq_##U##_##S(a), n));                                      \
    }                                                                                                                  \
    TV_INLINE vec sll_##bits(vec a, vec b) { return vshlq_##S(a, counts_##bits(b)); }                                  \
    TV_INLINE vec srl_##bits(vec a, vec b) { return unsigned_shift_##bits(a, vnegq_##S(counts_##bits(b))); }           \
    TV_INLINE vec sra_##bits(vec a, vec b) { return vshlq_##S(a, vnegq_##S(counts_##bits(b))); }                       \
    TV_INLINE vec rol_##bits(vec a, vec b)                                                                             \
    {                                                                                                                  \
        vec n = counts_##bits(b);                                                                                      \
        return vorrq_##S(vshlq_##S(a, n), unsigned_shift_##bits(a, vsubq_##S(n, vdupq_n_##S(bits))));                  \
    }
FUNCTIONS(8, int8x16_t, s8, u8, s16)
FUNCTIONS(16, int16x8_t, s16, u16, s32)
FUNCTIONS(32, int32x4_t, s32, u32, s64)

/* Registers are the same or apart, so that a vector may be written before the next is read. */
#define KERNEL_8(name, f, rows)                                                                                        \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        for (unsigned i = 0; i < (rows)*ROW; i += WIDTH)                                                               \
            store_8(y + i, f(load_8(a + i), load_8(b + i)));                                                           \
    }
#define KERNEL_16(name, f)                                                                                             \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            halves s = load_16(a + i), t = load_16(b + i);                                                             \
            store_16(y + i, (halves){f(s.low, t.low), f(s.high, t.high)});                                             \
        }                                                                                                              \
    }
#define KERNEL_32(name, f)                                                                                             \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED(c), UNUSED(imm);                                                                                        \
        for (unsigned i = 0; i < 4 * ROW; i += WIDTH)                                                                  \
            store_32(y + i, f(load_32(a + i), load_32(b + i)));                                                        \
    }
#define KERNELS(f) KERNEL_8(k_##f##_8, f##_8, 1) KERNEL_16(k_##f##_16, f##_16) KERNEL_32(k_##f##_32, f##_32)
/* clang-format off */
KERNELS(add)
KERNELS(sub)
KERNELS(rsub)
KERNELS(mul)
KERNELS(neg)
KERNELS(abs)
KERNELS(adds)
KERNELS(subs)
KERNELS(rsubs)
KERNELS(muls)
KERNELS(negs)
KERNELS(abss)
KERNELS(max)
KERNELS(min)
KERNELS(sll)
KERNELS(srl)
KERNELS(sra)
KERNELS(rol)
/* clang-format on */

/* Bits are the same in planes and lanes. */
TV_INLINE int8x16_t xor_bits(int8x16_t a, int8x16_t b) { return veorq_s8(a, b); }
TV_INLINE int8x16_t not_bits(int8x16_t a, int8x16_t b)
{
    UNUSED(b);
    return vmvnq_s8(a);
}
TV_INLINE int8x16_t or_bits(int8x16_t a, int8x16_t b) { return vorrq_s8(a, b); }
TV_INLINE int8x16_t and_bits(int8x16_t a, int8x16_t b) { return vandq_s8(a, b); }
TV_INLINE int8x16_t same_bits(int8x16_t a, int8x16_t b)
{
    UNUSED(b);
    return a;
}
#define KERNELS_BITWISE(f)                                                                                             \
    KERNEL_8(k_##f##_8, f##_bits, 1) KERNEL_8(k_##f##_16, f##_bits, 2) KERNEL_8(k_##f##_32, f##_bits, 4)
/* clang-format off */
KERNELS_BITWISE(xor)
KERNELS_BITWISE(not)
KERNELS_BITWISE(or)
KERNELS_BITWISE(and)
KERNELS_BITWISE(same)
/* clang-format on */

TV_INLINE void fill(uint8_t *y, unsigned rows, int8x16_t x)
{
    for (unsigned i = 0; i < rows * ROW; i += WIDTH)
        store_8(y + i, x);
}
TV_INLINE void fill_32(uint8_t *y, int32_t x) { fill(y, 4, vreinterpretq_s8_s32(vdupq_n_s32(x))); }

KERNEL(first_8)
{
    UNUSED_BUT_A;
    fill(y, 1, vdupq_n_s8((int8_t)a[0]));
}
KERNEL(first_16)
{
    UNUSED_BUT_A;
    int8x16_t low = vdupq_n_s8((int8_t)a[0]), high = vdupq_n_s8((int8_t)a[ROW]);
    fill(y, 1, low);
    fill(y + ROW, 1, high);
}
KERNEL(first_32)
{
    UNUSED_BUT_A;
    fill_32(y, (int32_t)tv_load_le32(a));
}
KERNEL(fill_8)
{
    UNUSED(a), UNUSED(b), UNUSED(c);
    fill(y, 1, vdupq_n_s8((int8_t)imm));
}

/* ---- Reductions: vectors, then the lanes of one ---- */

TV_INLINE int8x16_t vector_8(const uint8_t *p, unsigned i) { return load_8(p + i * (size_t)WIDTH); }
TV_INLINE int32x4_t vector_32(const uint8_t *p, unsigned i) { return load_32(p + i * (size_t)WIDTH); }
TV_INLINE int16x8_t vector_16(const uint8_t *p, unsigned i)
{
    halves x = load_16(p + i / 2 * (size_t)WIDTH);
    return i % 2 ? x.high : x.low;
}

#define REDUCE(name, bits, vec, first, next, across)                                                                   \
    KERNEL(name##_##bits)                                                                                              \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        vec x = first(vector_##bits(a, 0));                                                                            \
        for (unsigned i = 1; i < VECTORS_##bits; i++)                                                                  \
            x = next(x, vector_##bits(a, i));                                                                          \
        fill_32(y, across(x));                                                                                         \
    }
#define SAME(x) (x)
REDUCE(sum, 8, int16x8_t, vpaddlq_s8, vpadalq_s8, vaddlvq_s16)
REDUCE(sum, 16, int32x4_t, vpaddlq_s16, vpadalq_s16, vaddvq_s32)
REDUCE(sum, 32, int32x4_t, SAME, add_32, vaddvq_s32)

REDUCE(rmax, 8, int8x16_t, SAME, vmaxq_s8, vmaxvq_s8)
REDUCE(rmax, 16, int16x8_t, SAME, vmaxq_s16, vmaxvq_s16)
REDUCE(rmax, 32, int32x4_t, SAME, vmaxq_s32, vmaxvq_s32)
REDUCE(rmin, 8, int8x16_t, SAME, vminq_s8, vminvq_s8)
REDUCE(rmin, 16, int16x8_t, SAME, vminq_s16, vminvq_s16)
REDUCE(rmin, 32, int32x4_t, SAME, vminq_s32, vminvq_s32)

#define REDUCE_BITS(name, bits, vec, S, join, op)                                                                      \
    TV_INLINE int32_t name##_across_##bits(vec x)                                                                      \
    {                                                                                                                  \
        uint64_t all = vgetq_lane_u64(vreinterpretq_u64_##S(x), 0) op vgetq_lane_u64(vreinterpretq_u64_##S(x), 1);     \
        for (unsigned n = 32; n >= (bits); n /= 2)                                                                     \
            all = all op(all >> n);                                                                                    \
        return (int##bits##_t)all;                                                                                     \
    }                                                                                                                  \
    REDUCE(name, bits, vec, SAME, join##_##S, name##_across_##bits)
#define REDUCE_EACH_BITS(name, join, op)                                                                               \
    REDUCE_BITS(name, 8, int8x16_t, s8, join, op)                                                                      \
    REDUCE_BITS(name, 16, int16x8_t, s16, join, op)                                                                    \
    REDUCE_BITS(name, 32, int32x4_t, s32, join, op)
REDUCE_EACH_BITS(rand, vandq, &)
REDUCE_EACH_BITS(ror, vorrq, |)
REDUCE_EACH_BITS(rxor, veorq, ^)

/* ---- FP32 ---- */

TV_INLINE uint32x4_t all_32(uint32_t x) { return vdupq_n_u32(x); }
TV_INLINE uint32x4_t bits_of(float32x4_t x) { return vreinterpretq_u32_f32(x); }
TV_INLINE uint32x4_t load_bits(const uint8_t *p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }
TV_INLINE void store_bits(uint8_t *p, uint32x4_t x) { vst1q_u8(p, vreinterpretq_u8_u32(x)); }

/* Zero of their sign for those that are NaN, infinite or subnormal: whose exponent, counted on by one, is one or back
 * at zero. */
TV_INLINE uint32x4_t mended(uint32x4_t x)
{
    uint32x4_t normal = vtstq_u32(vaddq_u32(x, all_32(TV_F32_HIDDEN)), all_32(TV_F32_INF ^ TV_F32_HIDDEN));
    return vandq_u32(x, vorrq_u32(normal, all_32(TV_F32_SIGN)));
}
TV_INLINE float32x4_t input(uint32x4_t x) { return vreinterpretq_f32_u32(mended(x)); }

TV_INLINE uint32x4_t output(float32x4_t result)
{
    uint32x4_t magnitude = bits_of(vabsq_f32(result)), small = vcltq_u32(magnitude, all_32(TV_F32_HIDDEN));
    uint32x4_t finite = vbicq_u32(vminq_u32(magnitude, all_32(TV_F32_LARGEST)), small);
    return vbslq_u32(all_32(TV_F32_SIGN), bits_of(result), finite);
}

/* Sets the direction, and returns what it was. Nothing is calculated before the one, or after the other: all comes from
 * memory, and all goes there. */
TV_INLINE uint64_t begin_rounding(unsigned round)
{
    static const uint64_t directions[] = {0, 3 << 22, 2 << 22, 1 << 22};
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before) : : "memory");
    __asm__ volatile("msr fpcr, %0" : : "r"((before & ~directions[1]) | directions[round]) : "memory");
    return before;
}

TV_INLINE void end_rounding(uint64_t before) { __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory"); }

#define FP_LOOP(name, round, expression)                                                                               \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        uint64_t before = round ? begin_rounding(round) : 0;                                                           \
        for (unsigned i = 0; i < 4 * ROW; i += WIDTH)                                                                  \
            store_bits(y + i, expression);                                                                             \
        if (round)                                                                                                     \
            end_rounding(before);                                                                                      \
    }
#define IN(p) input(load_bits(p + i))
#define ROUNDED_KERNELS(name, expression)                                                                              \
    FP_LOOP(name##_0, 0, expression)                                                                                   \
    FP_LOOP(name##_1, 1, expression) FP_LOOP(name##_2, 2, expression) FP_LOOP(name##_3, 3, expression)
ROUNDED_KERNELS(fadd, output(vaddq_f32(IN(a), IN(b))))
ROUNDED_KERNELS(fsub, output(vsubq_f32(IN(a), IN(b))))
ROUNDED_KERNELS(fmul, output(vmulq_f32(IN(a), IN(b))))
ROUNDED_KERNELS(fma, output(vfmaq_f32(IN(c), IN(a), IN(b))))
ROUNDED_KERNELS(fms, output(vfmaq_f32(vnegq_f32(IN(c)), IN(a), IN(b))))
ROUNDED_KERNELS(nfma, output(vfmsq_f32(IN(c), IN(a), IN(b))))
ROUNDED_KERNELS(nfms, output(vfmsq_f32(vnegq_f32(IN(c)), IN(a), IN(b))))
ROUNDED_KERNELS(f32_s32, bits_of(vcvtq_f32_s32(load_32(a + i))))
FP_LOOP(fneg, 0, veorq_u32(load_bits(a + i), all_32(TV_F32_SIGN)))
FP_LOOP(fabs_, 0, vbicq_u32(load_bits(a + i), all_32(TV_F32_SIGN)))
FP_LOOP(fmax_, 0, bits_of(vmaxq_f32(IN(a), IN(b)))) /* +0 is above -0 here, too */
FP_LOOP(fmin_, 0, bits_of(vminq_f32(IN(a), IN(b))))

/* ---- Conversions: sixteen lanes at a time ---- */

typedef struct words {
    int32x4_t at[4];
} words;

TV_INLINE words words_of(halves x)
{
    return (words){{vmovl_s16(vget_low_s16(x.low)), vmovl_high_s16(x.low), vmovl_s16(vget_low_s16(x.high)),
                    vmovl_high_s16(x.high)}};
}
TV_INLINE words words_of_bytes(int8x16_t x) { return words_of((halves){vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x)}); }

/* The low bits of each lane, or what is left when it is limited. */
TV_INLINE halves low_halves(words w)
{
    return (halves){vuzp1q_s16(vreinterpretq_s16_s32(w.at[0]), vreinterpretq_s16_s32(w.at[1])),
                    vuzp1q_s16(vreinterpretq_s16_s32(w.at[2]), vreinterpretq_s16_s32(w.at[3]))};
}
TV_INLINE halves limited_halves(words w)
{
    return (halves){vqmovn_high_s32(vqmovn_s32(w.at[0]), w.at[1]), vqmovn_high_s32(vqmovn_s32(w.at[2]), w.at[3])};
}
TV_INLINE int8x16_t low_bytes(words w)
{
    halves x = low_halves(w);
    return vuzp1q_s8(vreinterpretq_s8_s16(x.low), vreinterpretq_s8_s16(x.high));
}
TV_INLINE int8x16_t limited_bytes(words w)
{
    halves x = limited_halves(w);
    return vqmovn_high_s16(vqmovn_s16(x.low), x.high);
}

/* Of numbers of 2^31 and more, the low bits are the significand's; a conversion that limits leaves the range's end. */
TV_INLINE int32x4_t far_bits(uint32x4_t x)
{
    int32x4_t shift = vreinterpretq_s32_u32(vshrq_n_u32(vbicq_u32(x, all_32(TV_F32_SIGN)), TV_F32_FRACTION_BITS));
    uint32x4_t significand = vorrq_u32(vandq_u32(x, all_32(TV_F32_FRACTION)), all_32(TV_F32_HIDDEN));
    int32x4_t bits = vreinterpretq_s32_u32(
        vshlq_u32(significand, vsubq_s32(shift, vdupq_n_s32(TV_F32_BIAS + TV_F32_FRACTION_BITS))));
    return vbslq_s32(vcltzq_s32(vreinterpretq_s32_u32(x)), neg_32(bits, bits), bits);
}

#define TO_INTEGER(round, convert)                                                                                     \
    TV_INLINE int32x4_t limited_##round(int32x4_t x) { return convert(input(vreinterpretq_u32_s32(x))); }              \
    TV_INLINE int32x4_t wrapped_##round(int32x4_t x)                                                                   \
    {                                                                                                                  \
        float32x4_t f = input(vreinterpretq_u32_s32(x));                                                               \
        return vbslq_s32(vcageq_f32(f, vdupq_n_f32(0x1p31f)), far_bits(bits_of(f)), convert(f));                       \
    }                                                                                                                  \
    FP_LOOP(s32_f32_##round, 0, vreinterpretq_u32_s32(wrapped_##round(load_32(a + i))))                                \
    FP_LOOP(s32_f32_sat_##round, 0, vreinterpretq_u32_s32(limited_##round(load_32(a + i))))
TO_INTEGER(0, vcvtnq_s32_f32)
TO_INTEGER(1, vcvtq_s32_f32)
TO_INTEGER(2, vcvtmq_s32_f32)
TO_INTEGER(3, vcvtpq_s32_f32)

#define NARROW(name, store, pack, f)                                                                                   \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            words w;                                                                                                   \
            for (unsigned v = 0; v < 4; v++)                                                                           \
                w.at[v] = f(load_32(a + 4 * (size_t)i + v * (size_t)WIDTH));                                           \
            store(y + i, pack(w));                                                                                     \
        }                                                                                                              \
    }
NARROW(s8_s32, store_8, low_bytes, SAME)
NARROW(s8_s32_sat, store_8, limited_bytes, SAME)
NARROW(s16_s32, store_16, low_halves, SAME)
NARROW(s16_s32_sat, store_16, limited_halves, SAME)
NARROW(s8_f32_0, store_8, low_bytes, wrapped_0)
NARROW(s8_f32_1, store_8, low_bytes, wrapped_1)
NARROW(s8_f32_2, store_8, low_bytes, wrapped_2)
NARROW(s8_f32_3, store_8, low_bytes, wrapped_3)
NARROW(s8_f32_sat_0, store_8, limited_bytes, limited_0)
NARROW(s8_f32_sat_1, store_8, limited_bytes, limited_1)
NARROW(s8_f32_sat_2, store_8, limited_bytes, limited_2)
NARROW(s8_f32_sat_3, store_8, limited_bytes, limited_3)

/* Adds what makes cutting off 16 bits round: half a unit less the tie's bit, nothing, or all but a unit for one sign.
 * The sign is never carried into, since the number is finite. */
TV_INLINE int32x4_t to_bf16(int32x4_t bits, unsigned round)
{
    uint32x4_t x = mended(vreinterpretq_u32_s32(bits)), magnitude = vbicq_u32(x, all_32(TV_F32_SIGN)), up = all_32(0);
    uint32x4_t negative = vcltzq_s32(vreinterpretq_s32_u32(x));
    if (round == 0)
        up = vaddq_u32(all_32(TV_BF16_TIE), vandq_u32(vshrq_n_u32(x, 16), all_32(1)));
    else if (round == 2)
        up = vandq_u32(negative, all_32(0xFFFF));
    else if (round == 3)
        up = vbicq_u32(all_32(0xFFFF), negative);
    uint32x4_t rounded = vminq_u32(vshrq_n_u32(vaddq_u32(magnitude, up), 16), all_32(TV_BF16_LARGEST));
    return vreinterpretq_s32_u32(vorrq_u32(rounded, vandq_u32(negative, all_32(TV_BF16_SIGN))));
}
#define TO_BF16_0(x) to_bf16(x, 0)
#define TO_BF16_1(x) to_bf16(x, 1)
#define TO_BF16_2(x) to_bf16(x, 2)
#define TO_BF16_3(x) to_bf16(x, 3)
NARROW(bf16_f32_0, store_16, low_halves, TO_BF16_0)
NARROW(bf16_f32_1, store_16, low_halves, TO_BF16_1)
NARROW(bf16_f32_2, store_16, low_halves, TO_BF16_2)
NARROW(bf16_f32_3, store_16, low_halves, TO_BF16_3)

/* All lanes are read before the first is written: y may be around a. */
#define WIDEN(name, type, load, widen, f)                                                                              \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_BUT_A;                                                                                                  \
        const type x[] = {load(a), load(a + WIDTH), load(a + 2 * WIDTH), load(a + 3 * WIDTH)};                         \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            words w = widen(x[i / WIDTH]);                                                                             \
            for (unsigned v = 0; v < 4; v++)                                                                           \
                store_32(y + 4 * (size_t)i + v * (size_t)WIDTH, f(w.at[v]));                                           \
        }                                                                                                              \
    }
TV_INLINE int32x4_t float_of(int32x4_t x) { return vreinterpretq_s32_f32(vcvtq_f32_s32(x)); }
TV_INLINE int32x4_t float_of_bf16(int32x4_t x)
{
    return vreinterpretq_s32_u32(mended(vshlq_n_u32(vreinterpretq_u32_s32(x), 16)));
}
WIDEN(s32_s8, int8x16_t, load_8, words_of_bytes, SAME)
WIDEN(f32_s8, int8x16_t, load_8, words_of_bytes, float_of)
WIDEN(s32_s16, halves, load_16, words_of, SAME)
WIDEN(f32_bf16, halves, load_16, words_of, float_of_bf16)

/* ---- Planes and lanes: loads and stores that part what stands side by side ---- */

KERNEL(split)
{
    UNUSED_BUT_A;
    uint8x16x4_t lanes[4];
    for (unsigned i = 0; i < 4; i++)
        lanes[i] = vld4q_u8(a + i * (size_t)ROW);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned plane = 0; plane < 4; plane++)
            vst1q_u8(y + plane * (size_t)ROW + i * (size_t)WIDTH, lanes[i].val[plane]);
}

KERNEL(join)
{
    UNUSED_BUT_A;
    uint8x16x4_t lanes[4];
    for (unsigned i = 0; i < 4; i++)
        for (unsigned plane = 0; plane < 4; plane++)
            lanes[i].val[plane] = vld1q_u8(a + plane * (size_t)ROW + i * (size_t)WIDTH);
    for (unsigned i = 0; i < 4; i++)
        vst4q_u8(y + i * (size_t)ROW, lanes[i]);
}

KERNEL(unzip)
{
    UNUSED_BUT_A;
    for (unsigned i = 0; i < ROW; i += WIDTH) {
        uint8x16x2_t x = vld2q_u8(a + 2 * (size_t)i);
        vst1q_u8(y + i, x.val[0]);
        vst1q_u8(y + ROW + i, x.val[1]);
    }
}

KERNEL(zip)
{
    UNUSED_BUT_A;
    for (unsigned i = 0; i < ROW; i += WIDTH) {
        const uint8x16x2_t x = {{vld1q_u8(a + i), vld1q_u8(a + ROW + i)}};
        vst2q_u8(y + 2 * (size_t)i, x);
    }
}

/* ---- Tables: 64 entries at a time. An index out of range looks up zero, or leaves what was found. ---- */

TV_INLINE uint8x16x4_t entries_at(const uint8_t *p)
{
    return (uint8x16x4_t){{vld1q_u8(p), vld1q_u8(p + WIDTH), vld1q_u8(p + 2 * WIDTH), vld1q_u8(p + 3 * WIDTH)}};
}

KERNEL(lookup)
{
    enum { ENTRIES = 64 };
    UNUSED(c), UNUSED(imm);
    const uint8x16x4_t first = entries_at(b), second = entries_at(b + ENTRIES), third = entries_at(b + 2 * ENTRIES),
                       last = entries_at(b + 3 * ENTRIES);
    for (unsigned i = 0; i < ROW; i += WIDTH) {
        uint8x16_t index = vld1q_u8(a + i), found = vqtbl4q_u8(first, index);
        found = vqtbx4q_u8(found, second, vsubq_u8(index, vdupq_n_u8(ENTRIES)));
        found = vqtbx4q_u8(found, third, vsubq_u8(index, vdupq_n_u8(2 * ENTRIES)));
        found = vqtbx4q_u8(found, last, vsubq_u8(index, vdupq_n_u8(3 * ENTRIES)));
        vst1q_u8(y + i, found);
    }
}

const tv_lanes_fn tv_lanes_neon[TV_LANE_OPS][TV_LANE_VARIANTS] = {[TV_LANE_MOVE] = SIZED(same), ALL_BUT_MOVES};
#else
typedef int tv_no_arm64; /* ISO C wants a declaration */
#endif
