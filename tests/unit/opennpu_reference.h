/* SPDX-License-Identifier: Apache-2.0 */
/* An independent reference model of OpenNPU: an encoder of its formats, exact numbers on GMP integers, and a machine
 * that stores registers as byte planes and computes each result exactly before it truncates, saturates or rounds it. It
 * shares no code and no table with the simulator. */
#ifndef TV_TESTS_OPENNPU_REFERENCE_H
#define TV_TESTS_OPENNPU_REFERENCE_H

#include <stdbool.h>

#include <gmp.h>

#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define SIGN UINT32_C(0x80000000)
#define ONE UINT32_C(0x3F800000)

enum { LANES = 102400, REGISTER_CHOICES = 16, K_MAX = 64, L_MAX = 32, MEM_BYTES = 8192, PROGRAM_MAX = 2048, MODES = 4 };
enum { VX, VE, VR, NONE };
enum { RD, RS1, RS2, RS3, FIELDS };
enum { NOP, LD, ST, MMA, ARITH = 0x10, LOGIC, REDUCE, LUT, CVT, BCAST, FP, FMA, MOV };
enum { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP };
enum { S8, S16, S32, F32, BF16, BF8, FORMATS };

static const char *const space_of[] = {"vx", "ve", "vr"};
static const unsigned char class_of_format[FORMATS] = {VX, VE, VR, VR, VE, VX};
static const struct {
    unsigned char to, from;
} conversions[] = {{S8, S32},   {S32, S8},   {F32, S32}, {S32, F32}, {F32, S8},  {S8, F32},
                   {F32, BF16}, {BF16, F32}, {F32, BF8}, {BF8, F32}, {S16, S32}, {S32, S16}};

/* ---- Instructions in the formats of the specification ---- */

typedef struct insn {
    unsigned family, funct3, width, sat, round, from, e5m2, dtype, reg[FIELDS];
    int imm;
} insn;

static bool has_imm(const insn *i)
{
    return i->family == LD || i->family == ST || (i->family == LUT && i->funct3 >= 4) ||
           ((i->family == BCAST || i->family == MOV) && i->funct3 > 0);
}

static uint32_t encode_insn(const insn *i)
{
    uint32_t word = i->family | i->reg[RD] << 7 | i->funct3 << 12 | i->reg[RS1] << 15;
    if (has_imm(i))
        return word | ((uint32_t)i->imm & 0xFFF) << 20;
    word |= i->reg[RS2] << 20;
    switch (i->family) {
    case FMA:
        return word | i->round << 25 | i->reg[RS3] << 27;
    case CVT:
        return word | i->from << 25 | i->sat << 28 | i->round << 29 | i->e5m2 << 31;
    default:
        return word | i->width << 25 | i->round << 27 | i->sat << 29 | i->dtype << 30;
    }
}

/* The class of each register field; NONE if the instruction ignores it. */
static void operand_classes(const insn *i, unsigned c[FIELDS])
{
    unsigned f = i->funct3, w = i->width;
    c[RD] = c[RS1] = c[RS2] = c[RS3] = NONE;
    switch (i->family) {
    case LD:
    case ST:
        c[RD] = f % 3, c[RS1] = VR;
        break;
    case MMA:
        c[RD] = f == 1 ? VR : NONE;
        c[RS1] = c[RS2] = f == 0 || (f == 1 && i->sat) ? VX : NONE;
        break;
    case ARITH:
        c[RD] = c[RS1] = w, c[RS2] = f == 3 || f == 4 ? NONE : w;
        break;
    case LOGIC:
        c[RD] = c[RS1] = w, c[RS2] = f == 5 ? NONE : w;
        break;
    case REDUCE:
        c[RD] = VR, c[RS1] = w;
        break;
    case LUT:
        c[RD] = f < 4 ? VX : NONE, c[RS1] = f < 4 ? VX : VR;
        break;
    case CVT:
        c[RD] = class_of_format[f], c[RS1] = class_of_format[i->from];
        break;
    case BCAST:
        c[RD] = f ? VX : w, c[RS1] = f ? NONE : w;
        break;
    case FP:
        c[RD] = c[RS1] = VR, c[RS2] = f == 3 || f == 4 ? NONE : VR;
        break;
    case FMA:
        c[RD] = c[RS1] = c[RS2] = c[RS3] = VR;
        break;
    case MOV:
        c[RD] = f == 0 ? w : f == 1 ? VX : VE, c[RS1] = f ? NONE : w;
        break;
    default:
        break;
    }
}

/* ---- Exact numbers: man * 2^exp ---- */

typedef struct exact {
    mpz_t man;
    long exp;
} exact;

static exact na, nb, nc;
static mpz_t za, zb, zr, magnitude, rest, half;

static int setup_numbers(void)
{
    mpz_inits(na.man, nb.man, nc.man, za, zb, zr, magnitude, rest, half, NULL);
    return 0;
}

static int teardown_numbers(void)
{
    mpz_clears(na.man, nb.man, nc.man, za, zb, zr, magnitude, rest, half, NULL);
    return 0;
}

static void set_sign_extended(mpz_t z, uint32_t x, unsigned bits)
{
    mpz_set_ui(z, x);
    if (x >> (bits - 1) & 1)
        mpz_sub_ui(z, z, 1ul << bits);
}

/* zr as a lane: saturated, or its low bits. */
static uint32_t lane_of_zr(unsigned bits, bool saturate)
{
    long high = (1l << (bits - 1)) - 1;
    if (saturate && mpz_cmp_si(zr, high) > 0)
        mpz_set_si(zr, high);
    if (saturate && mpz_cmp_si(zr, -high - 1) < 0)
        mpz_set_si(zr, -high - 1);
    mpz_fdiv_r_2exp(zr, zr, bits);
    return (uint32_t)mpz_get_ui(zr);
}

/* magnitude = magnitude / 2^shift, rounded to an integer; `negative` is the sign of the number. */
static void shift_right_rounded(long shift, bool negative, unsigned mode)
{
    if (shift <= 0) {
        mpz_mul_2exp(magnitude, magnitude, (mp_bitcnt_t)-shift);
        return;
    }
    mpz_fdiv_r_2exp(rest, magnitude, (mp_bitcnt_t)shift);
    mpz_fdiv_q_2exp(magnitude, magnitude, (mp_bitcnt_t)shift);
    mpz_set_ui(half, 1);
    mpz_mul_2exp(half, half, (mp_bitcnt_t)(shift - 1));
    int side = mpz_cmp(rest, half);
    bool up = mode == ROUND_NEAREST
                  ? side > 0 || (side == 0 && mpz_odd_p(magnitude))
                  : mpz_sgn(rest) && ((mode == ROUND_DOWN && negative) || (mode == ROUND_UP && !negative));
    mpz_add_ui(magnitude, magnitude, up);
}

/* Floating-point formats. Codes with exponent 0 and codes above max_code read as zero. */
typedef struct format {
    unsigned man_bits, max_code, sign_at;
    int emin;
} format;

static const format format_f32 = {23, 0x7F7FFFFF, 31, -126}, format_bf16 = {7, 0x7F7F, 15, -126};
static const format format_bf8[2] = {{3, 0x7E, 7, -6}, {2, 0x7B, 7, -14}};

static uint32_t sign_of(const format *f, bool negative) { return (uint32_t)negative << f->sign_at; }

static void read_float(exact *x, uint32_t code, const format *f)
{
    uint32_t unsigned_code = code & (sign_of(f, true) - 1), exponent = unsigned_code >> f->man_bits;
    mpz_set_ui(x->man, 0);
    x->exp = 0;
    if (exponent == 0 || unsigned_code > f->max_code)
        return;
    mpz_set_ui(x->man, 1u << f->man_bits | (unsigned_code & ((1u << f->man_bits) - 1)));
    x->exp = (long)exponent - 1 + f->emin - (long)f->man_bits;
    if (code & sign_of(f, true))
        mpz_neg(x->man, x->man);
}

/* Rounds with unbounded exponent, then flushes numbers below the smallest normal one to zero and clamps overflow to
 * max_code. `zero_negative` is the sign of an exact zero. */
static uint32_t write_float(const exact *x, const format *f, unsigned mode, bool zero_negative)
{
    if (mpz_sgn(x->man) == 0)
        return sign_of(f, zero_negative);
    bool negative = mpz_sgn(x->man) < 0;
    long e = (long)mpz_sizeinbase(x->man, 2) - 1 + x->exp;
    mpz_abs(magnitude, x->man);
    shift_right_rounded(e - (long)f->man_bits - x->exp, negative, mode);
    long rounded_e = e + (long)(mpz_sizeinbase(magnitude, 2) > f->man_bits + 1);
    uint64_t code = rounded_e < f->emin ? 0 : ((uint64_t)(e - f->emin) << f->man_bits) + mpz_get_ui(magnitude);
    return (uint32_t)(code > f->max_code ? f->max_code : code) | sign_of(f, negative);
}

static void multiply(exact *x, const exact *y)
{
    mpz_mul(x->man, x->man, y->man);
    x->exp += y->exp;
}

static void add(exact *x, exact *y)
{
    exact *high = x->exp > y->exp ? x : y, *low = high == x ? y : x;
    mpz_mul_2exp(high->man, high->man, (mp_bitcnt_t)(high->exp - low->exp));
    x->exp = low->exp;
    mpz_add(x->man, x->man, y->man);
}

/* ---- One lane ---- */

static uint32_t arith(const insn *i, uint32_t a, uint32_t b)
{
    unsigned bits = 8u << i->width;
    set_sign_extended(za, a, bits);
    set_sign_extended(zb, b, bits);
    switch (i->funct3) {
    case 0:
        mpz_add(zr, za, zb);
        break;
    case 1:
        mpz_sub(zr, za, zb);
        break;
    case 2:
        mpz_mul(zr, za, zb);
        break;
    case 3:
        mpz_neg(zr, za);
        break;
    case 4:
        mpz_abs(zr, za);
        break;
    case 5:
        mpz_set(zr, mpz_cmp(za, zb) > 0 ? za : zb);
        break;
    case 6:
        mpz_set(zr, mpz_cmp(za, zb) < 0 ? za : zb);
        break;
    default:
        mpz_sub(zr, zb, za);
        break;
    }
    return lane_of_zr(bits, i->sat);
}

static uint32_t logic(const insn *i, uint32_t a, uint32_t b)
{
    unsigned bits = 8u << i->width, amount = b % bits;
    bool sign_counts = i->funct3 == 2;
    mpz_set_ui(za, a);
    mpz_set_ui(zb, b);
    if (sign_counts)
        set_sign_extended(za, a, bits);
    switch (i->funct3) {
    case 0:
        mpz_mul_2exp(zr, za, amount);
        break;
    case 1:
    case 2:
        mpz_fdiv_q_2exp(zr, za, amount);
        break;
    case 3: /* bits shifted out at the top enter at the bottom */
        mpz_mul_2exp(za, za, amount);
        mpz_fdiv_q_2exp(zb, za, bits);
        mpz_add(zr, za, zb);
        break;
    case 4:
        mpz_xor(zr, za, zb);
        break;
    case 5:
        mpz_com(zr, za);
        break;
    case 6:
        mpz_ior(zr, za, zb);
        break;
    default:
        mpz_and(zr, za, zb);
        break;
    }
    return lane_of_zr(bits, false);
}

/* a * b + c. The sum of two zeros of one sign keeps the sign; every other exact zero is +0, or -0 when rounding down.
 */
static uint32_t fused_multiply_add(uint32_t a, uint32_t b, uint32_t c, unsigned mode)
{
    read_float(&na, a, &format_f32);
    read_float(&nb, b, &format_f32);
    read_float(&nc, c, &format_f32);
    multiply(&na, &nb);
    bool minus = (a ^ b) >> 31, both_zero = mpz_sgn(na.man) == 0 && mpz_sgn(nc.man) == 0;
    add(&na, &nc);
    return write_float(&na, &format_f32, mode, both_zero && minus == c >> 31 ? minus : mode == ROUND_DOWN);
}

static uint32_t multiply_floats(uint32_t a, uint32_t b, unsigned mode)
{
    read_float(&na, a, &format_f32);
    read_float(&nb, b, &format_f32);
    multiply(&na, &nb);
    return write_float(&na, &format_f32, mode, (a ^ b) >> 31);
}

static uint32_t max_or_min(uint32_t a, uint32_t b, bool larger)
{
    read_float(&na, a, &format_f32);
    read_float(&nb, b, &format_f32);
    uint32_t flushed_a = write_float(&na, &format_f32, ROUND_NEAREST, a >> 31),
             flushed_b = write_float(&nb, &format_f32, ROUND_NEAREST, b >> 31);
    mpz_neg(nb.man, nb.man);
    add(&na, &nb);
    int order = mpz_sgn(na.man);
    if (order == 0) /* +0 above -0 */
        order = (int)(b >> 31) - (int)(a >> 31);
    return (order > 0) == larger ? flushed_a : flushed_b;
}

static uint32_t fp(const insn *i, uint32_t a, uint32_t b)
{
    switch (i->funct3) {
    case 0:
        return fused_multiply_add(a, ONE, b, i->round);
    case 1:
        return fused_multiply_add(a, ONE, b ^ SIGN, i->round);
    case 2:
        return multiply_floats(a, b, i->round);
    case 3:
        return a ^ SIGN;
    case 4:
        return a & ~SIGN;
    default:
        return max_or_min(a, b, i->funct3 == 5);
    }
}

static uint32_t fma_result(const insn *i, uint32_t a, uint32_t b, uint32_t c)
{
    return fused_multiply_add(i->funct3 & 2 ? a ^ SIGN : a, b, i->funct3 & 1 ? c ^ SIGN : c, i->round);
}

static uint32_t convert(const insn *i, uint32_t x)
{
    const format *formats[FORMATS] = {NULL, NULL, NULL, &format_f32, &format_bf16, &format_bf8[i->e5m2]};
    const format *from = formats[i->from], *to = formats[i->funct3];
    bool minus = from && x >> from->sign_at & 1;
    if (from) {
        read_float(&na, x, from);
    } else {
        set_sign_extended(na.man, x, 8u << i->from);
        na.exp = 0;
    }
    if (to)
        return write_float(&na, to, i->round, minus);
    bool negative = mpz_sgn(na.man) < 0;
    mpz_abs(magnitude, na.man);
    shift_right_rounded(-na.exp, negative, i->round);
    mpz_set(zr, magnitude);
    if (negative)
        mpz_neg(zr, zr);
    return lane_of_zr(8u << i->funct3, i->sat);
}

/* ---- The machine ---- */

typedef struct reference_state {
    unsigned k, l, column;
    uint8_t plane[L_MAX][K_MAX], lut[2][256], mem[MEM_BYTES];
    int32_t acc[K_MAX * K_MAX];
} reference_state;

static uint32_t read_lane(const reference_state *s, unsigned class_, unsigned reg, unsigned j)
{
    uint32_t x = 0;
    for (unsigned b = 0; b < 1u << class_; b++)
        x |= (uint32_t)s->plane[(reg << class_) + b][j] << 8 * b;
    return x;
}

static void write_lane(reference_state *s, unsigned class_, unsigned reg, unsigned j, uint32_t x)
{
    for (unsigned b = 0; b < 1u << class_; b++)
        s->plane[(reg << class_) + b][j] = (uint8_t)(x >> 8 * b);
}

static uint32_t reduce(const insn *i, const uint32_t *a, unsigned k)
{
    set_sign_extended(zr, a[0], 8u << i->width);
    for (unsigned j = 1; j < k; j++) {
        set_sign_extended(za, a[j], 8u << i->width);
        switch (i->funct3) {
        case 0:
            mpz_add(zr, zr, za);
            break;
        case 1:
            mpz_set(zr, mpz_cmp(za, zr) > 0 ? za : zr);
            break;
        case 2:
            mpz_set(zr, mpz_cmp(za, zr) < 0 ? za : zr);
            break;
        case 3:
            mpz_and(zr, zr, za);
            break;
        case 4:
            mpz_ior(zr, zr, za);
            break;
        default:
            mpz_xor(zr, zr, za);
            break;
        }
    }
    return lane_of_zr(32, false);
}

static void accumulate(reference_state *s, bool keep, const uint32_t *a, const uint32_t *b)
{
    for (unsigned r = 0; r < s->k; r++)
        for (unsigned c = 0; c < s->k; c++) {
            int32_t *acc = &s->acc[r * s->k + c];
            set_sign_extended(za, a[r], 8);
            set_sign_extended(zb, b[c], 8);
            mpz_set_si(zr, keep ? *acc : 0);
            mpz_addmul(zr, za, zb);
            *acc = (int32_t)lane_of_zr(32, false);
        }
}

static void mma(reference_state *s, const insn *i, uint32_t *y, const uint32_t *a, const uint32_t *b)
{
    if (i->funct3 == 0 || (i->funct3 == 1 && i->sat))
        accumulate(s, i->sat, a, b);
    if (i->funct3 != 1)
        s->column = 0;
    if (i->funct3 == 2)
        memset(s->acc, 0, sizeof s->acc);
    if (i->funct3 != 1)
        return;
    for (unsigned j = 0; j < s->k; j++)
        y[j] = (uint32_t)s->acc[j * s->k + s->column];
    s->column = (s->column + 1) % s->k;
}

static void transfer_memory(reference_state *s, const insn *i, unsigned class_, uint32_t base)
{
    uint32_t at = base + (uint32_t)i->imm, bytes = 1u << class_;
    for (unsigned j = 0; j < (i->funct3 < 3 ? 1 : s->k); j++)
        for (unsigned b = 0; b < bytes; b++) {
            uint8_t *p = &s->plane[(i->reg[RD] << class_) + b][j], *q = &s->mem[at + j * bytes + b];
            *(i->family == LD ? p : q) = *(i->family == LD ? q : p);
        }
}

static uint32_t lane_result(const reference_state *s, const insn *i, unsigned j, uint32_t v[FIELDS][K_MAX])
{
    uint32_t a = v[RS1][j], b = v[RS2][j], c = v[RS3][j];
    switch (i->family) {
    case ARITH:
        return arith(i, a, b);
    case LOGIC:
        return logic(i, a, b);
    case LUT:
        return s->lut[i->funct3][a];
    case CVT:
        return convert(i, a);
    case BCAST:
        return i->funct3 ? (uint32_t)i->imm : v[RS1][0];
    case FP:
        return fp(i, a, b);
    case FMA:
        return fma_result(i, a, b, c);
    default:
        return a;
    }
}

static void execute(reference_state *s, const insn *i)
{
    uint32_t v[FIELDS][K_MAX] = {{0}};
    unsigned c[FIELDS];
    operand_classes(i, c);
    for (unsigned r = RS1; r < FIELDS; r++)
        for (unsigned j = 0; c[r] != NONE && j < s->k; j++)
            v[r][j] = read_lane(s, c[r], i->reg[r], j);
    if (i->family == LD || i->family == ST) {
        transfer_memory(s, i, c[RD], v[RS1][0]);
    } else if (i->family == LUT && i->funct3 >= 4) {
        for (unsigned n = 0; n < 4 * s->k; n++)
            s->lut[i->funct3 - 4][(unsigned)i->imm * 4 * s->k + n] = (uint8_t)(v[RS1][n / 4] >> n % 4 * 8);
    } else if (i->family == MOV && i->funct3) {
        s->plane[i->funct3 == 1 ? i->reg[RD] : 2 * i->reg[RD] + 1][0] = (uint8_t)i->imm;
    } else {
        if (i->family == MMA)
            mma(s, i, v[RD], v[RS1], v[RS2]);
        uint32_t all = i->family == REDUCE ? reduce(i, v[RS1], s->k) : 0;
        for (unsigned j = 0; c[RD] != NONE && j < s->k; j++)
            write_lane(s, c[RD], i->reg[RD], j,
                       i->family == MMA      ? v[RD][j]
                       : i->family == REDUCE ? all
                                             : lane_result(s, i, j, v));
    }
}

#endif
