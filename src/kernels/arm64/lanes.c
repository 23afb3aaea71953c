/* SPDX-License-Identifier: Apache-2.0 */
/* Lane kernels with NEON, for all operations: scalar loops work on 32-bit lanes, convert between planes and lanes byte
 * by byte, and compute FP32 one number at a time.
 *
 * The host rounds as Tier 2 does; NaN, infinity, subnormals and overflow are replaced before and after, as in
 * lanes_avx512.c. Rounding modes other than to nearest are set in FPCR around the loop over a register, unless the
 * instruction names its own. */
#include "kernels/variants.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include "kernels/clones.h"
#include "kernels/lanes_table.h"
#include "num/float.h"

#define KERNEL(name) static void lanes_##name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int imm)
#define UNUSED(x) (void)(x)
#define UNUSED_EXCEPT_A UNUSED(b), UNUSED(c), UNUSED(imm)

/* Bytes of a row and of a vector; vectors of a register of 8, 16 and 32-bit lanes. */
enum { ROW = 64, WIDTH = 16, VECTORS_8 = 4, VECTORS_16 = 8, VECTORS_32 = 16 };

TV_INLINE int8x16_t load_8(const uint8_t *p) { return vreinterpretq_s8_u8(vld1q_u8(p)); }
TV_INLINE int32x4_t load_32(const uint8_t *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
TV_INLINE void store_8(uint8_t *p, int8x16_t x) { vst1q_u8(p, vreinterpretq_u8_s8(x)); }
TV_INLINE void store_32(uint8_t *p, int32x4_t x) { vst1q_u8(p, vreinterpretq_u8_s32(x)); }

/* Sixteen lanes of 16 bits, in order. */
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

/* ---- Integers, for each lane width: S and U are the suffixes of its signed and unsigned vectors, W the signed suffix
 * of twice the width ---- */

/* Operations that may wrap are unsigned, because some headers implement them with the compiler's own operators. */
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
    TV_INLINE vec shifts_##bits(vec b) { return vandq_##S(b, vdupq_n_##S(bits - 1)); }                                 \
    TV_INLINE vec unsigned_shift_##bits(vec a, vec n)                                                                  \
    {                                                                                                                  \
        return vreinterpretq_##S##_##U(vshlq_##U(vreinterpretq_##U##_##S(a), n));                                      \
    }                                                                                                                  \
    TV_INLINE vec sll_##bits(vec a, vec b) { return vshlq_##S(a, shifts_##bits(b)); }                                  \
    TV_INLINE vec srl_##bits(vec a, vec b) { return unsigned_shift_##bits(a, vnegq_##S(shifts_##bits(b))); }           \
    TV_INLINE vec sra_##bits(vec a, vec b) { return vshlq_##S(a, vnegq_##S(shifts_##bits(b))); }                       \
    TV_INLINE vec rol_##bits(vec a, vec b)                                                                             \
    {                                                                                                                  \
        vec n = shifts_##bits(b);                                                                                      \
        return vorrq_##S(vshlq_##S(a, n), unsigned_shift_##bits(a, vsubq_##S(n, vdupq_n_##S(bits))));                  \
    }
FUNCTIONS(8, int8x16_t, s8, u8, s16)
FUNCTIONS(16, int16x8_t, s16, u16, s32)
FUNCTIONS(32, int32x4_t, s32, u32, s64)

/* Registers are the same or disjoint, so storing a vector before loading the next is safe. */
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
#define KERNELS(f) KERNEL_8(f##_8, f##_8, 1) KERNEL_16(f##_16, f##_16) KERNEL_32(f##_32, f##_32)
#define FOR_EACH_INTEGER(X)                                                                                            \
    X(add)                                                                                                             \
    X(sub)                                                                                                             \
    X(rsub)                                                                                                            \
    X(mul) X(neg) X(abs) X(adds) X(subs) X(rsubs) X(muls) X(negs) X(abss) X(max) X(min) X(sll) X(srl) X(sra) X(rol)
FOR_EACH_INTEGER(KERNELS)

/* Bitwise operations are the same on planes and lanes. */
TV_INLINE int8x16_t bit_xor_bits(int8x16_t a, int8x16_t b) { return veorq_s8(a, b); }
TV_INLINE int8x16_t bit_not_bits(int8x16_t a, int8x16_t b)
{
    UNUSED(b);
    return vmvnq_s8(a);
}
TV_INLINE int8x16_t bit_or_bits(int8x16_t a, int8x16_t b) { return vorrq_s8(a, b); }
TV_INLINE int8x16_t bit_and_bits(int8x16_t a, int8x16_t b) { return vandq_s8(a, b); }
TV_INLINE int8x16_t move_bits(int8x16_t a, int8x16_t b)
{
    UNUSED(b);
    return a;
}
#define KERNELS_BITWISE(f) KERNEL_8(f##_8, f##_bits, 1) KERNEL_8(f##_16, f##_bits, 2) KERNEL_8(f##_32, f##_bits, 4)
#define FOR_EACH_BITWISE(X) X(bit_xor) X(bit_not) X(bit_or) X(bit_and) X(move)
FOR_EACH_BITWISE(KERNELS_BITWISE)

TV_INLINE void store_splat(uint8_t *y, unsigned rows, int8x16_t x)
{
    for (unsigned i = 0; i < rows * ROW; i += WIDTH)
        store_8(y + i, x);
}
TV_INLINE void store_splat_32(uint8_t *y, int32_t x) { store_splat(y, 4, vreinterpretq_s8_s32(vdupq_n_s32(x))); }

KERNEL(first_8)
{
    UNUSED_EXCEPT_A;
    store_splat(y, 1, vdupq_n_s8((int8_t)a[0]));
}
KERNEL(first_16)
{
    UNUSED_EXCEPT_A;
    int8x16_t low = vdupq_n_s8((int8_t)a[0]), high = vdupq_n_s8((int8_t)a[ROW]);
    store_splat(y, 1, low);
    store_splat(y + ROW, 1, high);
}
KERNEL(first_32)
{
    UNUSED_EXCEPT_A;
    store_splat_32(y, (int32_t)tv_load_le32(a));
}
KERNEL(fill_8)
{
    UNUSED(a), UNUSED(b), UNUSED(c);
    store_splat(y, 1, vdupq_n_s8((int8_t)imm));
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
        UNUSED_EXCEPT_A;                                                                                               \
        vec x = first(vector_##bits(a, 0));                                                                            \
        for (unsigned i = 1; i < VECTORS_##bits; i++)                                                                  \
            x = next(x, vector_##bits(a, i));                                                                          \
        store_splat_32(y, across(x));                                                                                  \
    }
#define IDENTITY(x) (x)
REDUCE(sum, 8, int16x8_t, vpaddlq_s8, vpadalq_s8, vaddlvq_s16)
REDUCE(sum, 16, int32x4_t, vpaddlq_s16, vpadalq_s16, vaddvq_s32)
REDUCE(sum, 32, int32x4_t, IDENTITY, add_32, vaddvq_s32)

REDUCE(rmax, 8, int8x16_t, IDENTITY, vmaxq_s8, vmaxvq_s8)
REDUCE(rmax, 16, int16x8_t, IDENTITY, vmaxq_s16, vmaxvq_s16)
REDUCE(rmax, 32, int32x4_t, IDENTITY, vmaxq_s32, vmaxvq_s32)
REDUCE(rmin, 8, int8x16_t, IDENTITY, vminq_s8, vminvq_s8)
REDUCE(rmin, 16, int16x8_t, IDENTITY, vminq_s16, vminvq_s16)
REDUCE(rmin, 32, int32x4_t, IDENTITY, vminq_s32, vminvq_s32)

#define REDUCE_BITS(name, bits, vec, S, combine, op)                                                                   \
    TV_INLINE int32_t name##_across_##bits(vec x)                                                                      \
    {                                                                                                                  \
        uint64_t all = vgetq_lane_u64(vreinterpretq_u64_##S(x), 0) op vgetq_lane_u64(vreinterpretq_u64_##S(x), 1);     \
        for (unsigned n = 32; n >= (bits); n /= 2)                                                                     \
            all = all op(all >> n);                                                                                    \
        return (int##bits##_t)all;                                                                                     \
    }                                                                                                                  \
    REDUCE(name, bits, vec, IDENTITY, combine##_##S, name##_across_##bits)
#define REDUCE_EACH_BITS(name, combine, op)                                                                            \
    REDUCE_BITS(name, 8, int8x16_t, s8, combine, op)                                                                   \
    REDUCE_BITS(name, 16, int16x8_t, s16, combine, op)                                                                 \
    REDUCE_BITS(name, 32, int32x4_t, s32, combine, op)
REDUCE_EACH_BITS(rand, vandq, &)
REDUCE_EACH_BITS(ror, vorrq, |)
REDUCE_EACH_BITS(rxor, veorq, ^)

/* ---- FP32 ---- */

TV_INLINE uint32x4_t splat_u32(uint32_t x) { return vdupq_n_u32(x); }
TV_INLINE uint32x4_t float_bits(float32x4_t x) { return vreinterpretq_u32_f32(x); }
TV_INLINE uint32x4_t load_bits(const uint8_t *p) { return vreinterpretq_u32_u8(vld1q_u8(p)); }
TV_INLINE void store_bits(uint8_t *p, uint32x4_t x) { vst1q_u8(p, vreinterpretq_u8_u32(x)); }

/* The zero of its sign for lanes that are NaN, infinite or subnormal: those whose exponent plus one is 1 or wraps to
 * 0. */
TV_INLINE uint32x4_t flush_bits(uint32x4_t x)
{
    uint32x4_t normal = vtstq_u32(vaddq_u32(x, splat_u32(TV_F32_HIDDEN)), splat_u32(TV_F32_INF ^ TV_F32_HIDDEN));
    return vandq_u32(x, vorrq_u32(normal, splat_u32(TV_F32_SIGN)));
}
TV_INLINE float32x4_t flush_input(uint32x4_t x) { return vreinterpretq_f32_u32(flush_bits(x)); }

TV_INLINE uint32x4_t flush_output(float32x4_t result)
{
    uint32x4_t magnitude = float_bits(vabsq_f32(result)), small = vcltq_u32(magnitude, splat_u32(TV_F32_HIDDEN));
    uint32x4_t finite = vbicq_u32(vminq_u32(magnitude, splat_u32(TV_F32_MAX)), small);
    return vbslq_u32(splat_u32(TV_F32_SIGN), float_bits(result), finite);
}

/* Sets the rounding mode and returns the former control word. The compiler barriers keep the arithmetic between begin
 * and end, because its operands come from memory and its results go there. */
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
        UNUSED_EXCEPT_A;                                                                                               \
        uint64_t before = round ? begin_rounding(round) : 0;                                                           \
        for (unsigned i = 0; i < 4 * ROW; i += WIDTH)                                                                  \
            store_bits(y + i, expression);                                                                             \
        if (round)                                                                                                     \
            end_rounding(before);                                                                                      \
    }
#define IN(p) flush_input(load_bits(p + i))
#define ROUNDED_KERNELS(name, expression)                                                                              \
    FP_LOOP(name##_0, 0, expression)                                                                                   \
    FP_LOOP(name##_1, 1, expression) FP_LOOP(name##_2, 2, expression) FP_LOOP(name##_3, 3, expression)
ROUNDED_KERNELS(fadd, flush_output(vaddq_f32(IN(a), IN(b))))
ROUNDED_KERNELS(fsub, flush_output(vsubq_f32(IN(a), IN(b))))

/* Replaces results that the host rounded up to the smallest normal number on the grid of subnormals by zero, if they
 * round to a smaller number with unbounded exponent: `scaled` is the result times 2^64, where that grid is far away. An
 * addend of 2^-90 or more makes the sum a multiple of that grid, hence exact. */
TV_INLINE uint32x4_t flush_tiny(uint32x4_t result, float32x4_t scaled, float32x4_t addend)
{
    uint32x4_t smallest = vceqq_u32(vbicq_u32(result, splat_u32(TV_F32_SIGN)), splat_u32(TV_F32_HIDDEN));
    uint32x4_t tiny = vandq_u32(vandq_u32(smallest, vcaltq_f32(scaled, vdupq_n_f32(0x1p-62f))),
                                vcaltq_f32(addend, vdupq_n_f32(0x1p-90f)));
    return vbicq_u32(result, vbicq_u32(tiny, splat_u32(TV_F32_SIGN)));
}
TV_INLINE float32x4_t scale_up(float32x4_t x) { return vmulq_f32(x, vdupq_n_f32(0x1p64f)); }
/* sum = addend + a * b, or addend - a * b, by f */
#define FUSED(f, addend, a, b) flush_tiny(flush_output(f(addend, a, b)), f(scale_up(addend), scale_up(a), b), addend)
ROUNDED_KERNELS(fmul,
                flush_tiny(flush_output(vmulq_f32(IN(a), IN(b))), vmulq_f32(scale_up(IN(a)), IN(b)), vdupq_n_f32(0)))
ROUNDED_KERNELS(fma, FUSED(vfmaq_f32, IN(c), IN(a), IN(b)))
ROUNDED_KERNELS(fms, FUSED(vfmaq_f32, vnegq_f32(IN(c)), IN(a), IN(b)))
ROUNDED_KERNELS(nfma, FUSED(vfmsq_f32, IN(c), IN(a), IN(b)))
ROUNDED_KERNELS(nfms, FUSED(vfmsq_f32, vnegq_f32(IN(c)), IN(a), IN(b)))
ROUNDED_KERNELS(f32_s32, float_bits(vcvtq_f32_s32(load_32(a + i))))
FP_LOOP(fneg, 0, veorq_u32(load_bits(a + i), splat_u32(TV_F32_SIGN)))
FP_LOOP(fabs, 0, vbicq_u32(load_bits(a + i), splat_u32(TV_F32_SIGN)))
FP_LOOP(fmax, 0, float_bits(vmaxq_f32(IN(a), IN(b)))) /* these order +0 above -0, too */
FP_LOOP(fmin, 0, float_bits(vminq_f32(IN(a), IN(b))))

/* ---- Conversions: sixteen lanes at a time ---- */

typedef struct quarters_32 {
    int32x4_t at[4];
} quarters_32;

TV_INLINE quarters_32 widen_16(halves x)
{
    return (quarters_32){{vmovl_s16(vget_low_s16(x.low)), vmovl_high_s16(x.low), vmovl_s16(vget_low_s16(x.high)),
                          vmovl_high_s16(x.high)}};
}
TV_INLINE quarters_32 widen_8(int8x16_t x) { return widen_16((halves){vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x)}); }

/* The low bits of each lane; the lane clamped to the narrower width. */
TV_INLINE halves low_halves(quarters_32 w)
{
    return (halves){vuzp1q_s16(vreinterpretq_s16_s32(w.at[0]), vreinterpretq_s16_s32(w.at[1])),
                    vuzp1q_s16(vreinterpretq_s16_s32(w.at[2]), vreinterpretq_s16_s32(w.at[3]))};
}
TV_INLINE halves saturated_halves(quarters_32 w)
{
    return (halves){vqmovn_high_s32(vqmovn_s32(w.at[0]), w.at[1]), vqmovn_high_s32(vqmovn_s32(w.at[2]), w.at[3])};
}
TV_INLINE int8x16_t low_bytes(quarters_32 w)
{
    halves x = low_halves(w);
    return vuzp1q_s8(vreinterpretq_s8_s16(x.low), vreinterpretq_s8_s16(x.high));
}
TV_INLINE int8x16_t saturated_bytes(quarters_32 w)
{
    halves x = saturated_halves(w);
    return vqmovn_high_s16(vqmovn_s16(x.low), x.high);
}

/* The low bits of magnitudes of 2^31 and more are those of the shifted significand; the host's conversion clamps. */
TV_INLINE int32x4_t low_bits_of_large(uint32x4_t x)
{
    int32x4_t shift = vreinterpretq_s32_u32(vshrq_n_u32(vbicq_u32(x, splat_u32(TV_F32_SIGN)), TV_F32_FRACTION_BITS));
    uint32x4_t significand = vorrq_u32(vandq_u32(x, splat_u32(TV_F32_FRACTION)), splat_u32(TV_F32_HIDDEN));
    int32x4_t bits = vreinterpretq_s32_u32(
        vshlq_u32(significand, vsubq_s32(shift, vdupq_n_s32(TV_F32_BIAS + TV_F32_FRACTION_BITS))));
    return vbslq_s32(vcltzq_s32(vreinterpretq_s32_u32(x)), neg_32(bits, bits), bits);
}

#define TO_INTEGER(round, convert)                                                                                     \
    TV_INLINE int32x4_t to_s32_saturated_##round(int32x4_t x)                                                          \
    {                                                                                                                  \
        return convert(flush_input(vreinterpretq_u32_s32(x)));                                                         \
    }                                                                                                                  \
    TV_INLINE int32x4_t to_s32_wrapped_##round(int32x4_t x)                                                            \
    {                                                                                                                  \
        float32x4_t f = flush_input(vreinterpretq_u32_s32(x));                                                         \
        return vbslq_s32(vcageq_f32(f, vdupq_n_f32(0x1p31f)), low_bits_of_large(float_bits(f)), convert(f));           \
    }                                                                                                                  \
    FP_LOOP(s32_f32_##round, 0, vreinterpretq_u32_s32(to_s32_wrapped_##round(load_32(a + i))))                         \
    FP_LOOP(s32_f32_sat_##round, 0, vreinterpretq_u32_s32(to_s32_saturated_##round(load_32(a + i))))
TO_INTEGER(0, vcvtnq_s32_f32)
TO_INTEGER(1, vcvtq_s32_f32)
TO_INTEGER(2, vcvtmq_s32_f32)
TO_INTEGER(3, vcvtpq_s32_f32)

#define NARROW(name, store, pack, f)                                                                                   \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_EXCEPT_A;                                                                                               \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            quarters_32 w;                                                                                             \
            for (unsigned v = 0; v < 4; v++)                                                                           \
                w.at[v] = f(load_32(a + 4 * (size_t)i + v * (size_t)WIDTH));                                           \
            store(y + i, pack(w));                                                                                     \
        }                                                                                                              \
    }
NARROW(s8_s32, store_8, low_bytes, IDENTITY)
NARROW(s8_s32_sat, store_8, saturated_bytes, IDENTITY)
NARROW(s16_s32, store_16, low_halves, IDENTITY)
NARROW(s16_s32_sat, store_16, saturated_halves, IDENTITY)
NARROW(s8_f32_0, store_8, low_bytes, to_s32_wrapped_0)
NARROW(s8_f32_1, store_8, low_bytes, to_s32_wrapped_1)
NARROW(s8_f32_2, store_8, low_bytes, to_s32_wrapped_2)
NARROW(s8_f32_3, store_8, low_bytes, to_s32_wrapped_3)
NARROW(s8_f32_sat_0, store_8, saturated_bytes, to_s32_saturated_0)
NARROW(s8_f32_sat_1, store_8, saturated_bytes, to_s32_saturated_1)
NARROW(s8_f32_sat_2, store_8, saturated_bytes, to_s32_saturated_2)
NARROW(s8_f32_sat_3, store_8, saturated_bytes, to_s32_saturated_3)

/* Rounds by adding to the magnitude before truncating it to 16 bits: half a unit (to even), nothing, or just below one
 * unit for one sign. No carry reaches the sign, because the number is finite. */
TV_INLINE int32x4_t to_bf16(int32x4_t bits, unsigned round)
{
    uint32x4_t x = flush_bits(vreinterpretq_u32_s32(bits)), magnitude = vbicq_u32(x, splat_u32(TV_F32_SIGN)),
               up = splat_u32(0);
    uint32x4_t negative = vcltzq_s32(vreinterpretq_s32_u32(x));
    if (round == 0)
        up = vaddq_u32(splat_u32(TV_BF16_TIE), vandq_u32(vshrq_n_u32(x, 16), splat_u32(1)));
    else if (round == 2)
        up = vandq_u32(negative, splat_u32(0xFFFF));
    else if (round == 3)
        up = vbicq_u32(splat_u32(0xFFFF), negative);
    uint32x4_t rounded = vminq_u32(vshrq_n_u32(vaddq_u32(magnitude, up), 16), splat_u32(TV_BF16_MAX));
    return vreinterpretq_s32_u32(vorrq_u32(rounded, vandq_u32(negative, splat_u32(TV_BF16_SIGN))));
}
#define TO_BF16_0(x) to_bf16(x, 0)
#define TO_BF16_1(x) to_bf16(x, 1)
#define TO_BF16_2(x) to_bf16(x, 2)
#define TO_BF16_3(x) to_bf16(x, 3)
NARROW(bf16_f32_0, store_16, low_halves, TO_BF16_0)
NARROW(bf16_f32_1, store_16, low_halves, TO_BF16_1)
NARROW(bf16_f32_2, store_16, low_halves, TO_BF16_2)
NARROW(bf16_f32_3, store_16, low_halves, TO_BF16_3)

/* All lanes are read before the first is written, because y may contain a. */
#define WIDEN(name, type, load, widen, f)                                                                              \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_EXCEPT_A;                                                                                               \
        const type x[] = {load(a), load(a + WIDTH), load(a + 2 * WIDTH), load(a + 3 * WIDTH)};                         \
        for (unsigned i = 0; i < ROW; i += WIDTH) {                                                                    \
            quarters_32 w = widen(x[i / WIDTH]);                                                                       \
            for (unsigned v = 0; v < 4; v++)                                                                           \
                store_32(y + 4 * (size_t)i + v * (size_t)WIDTH, f(w.at[v]));                                           \
        }                                                                                                              \
    }
TV_INLINE int32x4_t float_of(int32x4_t x) { return vreinterpretq_s32_f32(vcvtq_f32_s32(x)); }
TV_INLINE int32x4_t float_of_bf16(int32x4_t x)
{
    return vreinterpretq_s32_u32(flush_bits(vshlq_n_u32(vreinterpretq_u32_s32(x), 16)));
}
WIDEN(s32_s8, int8x16_t, load_8, widen_8, IDENTITY)
WIDEN(f32_s8, int8x16_t, load_8, widen_8, float_of)
WIDEN(s32_s16, halves, load_16, widen_16, IDENTITY)
WIDEN(f32_bf16, halves, load_16, widen_16, float_of_bf16)

/* ---- Planes and lanes: interleaving loads and stores ---- */

KERNEL(to_planes)
{
    UNUSED_EXCEPT_A;
    uint8x16x4_t lanes[4];
    for (unsigned i = 0; i < 4; i++)
        lanes[i] = vld4q_u8(a + i * (size_t)ROW);
    for (unsigned i = 0; i < 4; i++)
        for (unsigned plane = 0; plane < 4; plane++)
            vst1q_u8(y + plane * (size_t)ROW + i * (size_t)WIDTH, lanes[i].val[plane]);
}

KERNEL(to_lanes)
{
    UNUSED_EXCEPT_A;
    uint8x16x4_t lanes[4];
    for (unsigned i = 0; i < 4; i++)
        for (unsigned plane = 0; plane < 4; plane++)
            lanes[i].val[plane] = vld1q_u8(a + plane * (size_t)ROW + i * (size_t)WIDTH);
    for (unsigned i = 0; i < 4; i++)
        vst4q_u8(y + i * (size_t)ROW, lanes[i]);
}

KERNEL(deinterleave)
{
    UNUSED_EXCEPT_A;
    for (unsigned i = 0; i < ROW; i += WIDTH) {
        uint8x16x2_t x = vld2q_u8(a + 2 * (size_t)i);
        vst1q_u8(y + i, x.val[0]);
        vst1q_u8(y + ROW + i, x.val[1]);
    }
}

KERNEL(interleave)
{
    UNUSED_EXCEPT_A;
    for (unsigned i = 0; i < ROW; i += WIDTH) {
        const uint8x16x2_t x = {{vld1q_u8(a + i), vld1q_u8(a + ROW + i)}};
        vst2q_u8(y + 2 * (size_t)i, x);
    }
}

/* ---- Look-up: 64 entries at a time. An index out of range gives 0 (tbl) or keeps the earlier result (tbx). ---- */

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

const tv_lanes_set tv_lanes_neon = {{
#define TV_LANE(id, selection, avx2, avx512, neon) [TV_LANE_##id] = neon,
#include "kernels/lanes.def"
#undef TV_LANE
}};
#else
typedef int tv_no_arm64; /* ISO C wants a declaration */
#endif
