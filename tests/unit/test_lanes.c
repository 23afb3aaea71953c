/* SPDX-License-Identifier: Apache-2.0 */
/* Lane kernels: every variant gives, lane by lane, the result of 64-bit integers or of the scalar Tier 2 functions; it
 * reads its operands before it writes the result, and leaves all other bytes unchanged. */
#include <fenv.h>

#include "kernels/lanes.h"
#include "num/float.h"
#include "num/int.h"
#include "num/tier2.h"
#include "unit.h"

enum { ROUNDS = 400, ROW = TV_LANE_COUNT, REGISTER = 4 * ROW };

/* Classes of lanes: 8 << class bits. */
enum { BYTES, SHORTS, LANES_32, OF_VARIANT };

/* What an operation computes; the kinds from FLOAT on have FP32 operands. */
typedef enum kind { INTEGER, SATURATING, FIRST_LANE, IMMEDIATE, REDUCTION, CONVERSION, FLOAT, FLOAT_CONVERSION } kind;

static const struct operation {
    uint8_t op, kind, from, to;
} operations[] = {
    {TV_LANE_ADD, SATURATING, OF_VARIANT, OF_VARIANT},
    {TV_LANE_SUB, SATURATING, OF_VARIANT, OF_VARIANT},
    {TV_LANE_RSUB, SATURATING, OF_VARIANT, OF_VARIANT},
    {TV_LANE_MUL, SATURATING, OF_VARIANT, OF_VARIANT},
    {TV_LANE_NEG, SATURATING, OF_VARIANT, OF_VARIANT},
    {TV_LANE_ABS, SATURATING, OF_VARIANT, OF_VARIANT},
    {TV_LANE_MAX, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_MIN, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_SLL, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_SRL, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_SRA, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_ROL, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_XOR, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_NOT, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_OR, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_AND, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_MOVE, INTEGER, OF_VARIANT, OF_VARIANT},
    {TV_LANE_FIRST, FIRST_LANE, OF_VARIANT, OF_VARIANT},
    {TV_LANE_SUM, REDUCTION, OF_VARIANT, LANES_32},
    {TV_LANE_RMAX, REDUCTION, OF_VARIANT, LANES_32},
    {TV_LANE_RMIN, REDUCTION, OF_VARIANT, LANES_32},
    {TV_LANE_RAND, REDUCTION, OF_VARIANT, LANES_32},
    {TV_LANE_ROR, REDUCTION, OF_VARIANT, LANES_32},
    {TV_LANE_RXOR, REDUCTION, OF_VARIANT, LANES_32},
    {TV_LANE_FILL, IMMEDIATE, BYTES, BYTES},
    {TV_LANE_FADD, FLOAT, LANES_32, LANES_32},
    {TV_LANE_FSUB, FLOAT, LANES_32, LANES_32},
    {TV_LANE_FMUL, FLOAT, LANES_32, LANES_32},
    {TV_LANE_FMA, FLOAT, LANES_32, LANES_32},
    {TV_LANE_FMS, FLOAT, LANES_32, LANES_32},
    {TV_LANE_NFMA, FLOAT, LANES_32, LANES_32},
    {TV_LANE_NFMS, FLOAT, LANES_32, LANES_32},
    {TV_LANE_FNEG, FLOAT, LANES_32, LANES_32},
    {TV_LANE_FABS, FLOAT, LANES_32, LANES_32},
    {TV_LANE_FMAX, FLOAT, LANES_32, LANES_32},
    {TV_LANE_FMIN, FLOAT, LANES_32, LANES_32},
    {TV_LANE_S8_S32, CONVERSION, LANES_32, BYTES},
    {TV_LANE_S16_S32, CONVERSION, LANES_32, SHORTS},
    {TV_LANE_S32_S8, CONVERSION, BYTES, LANES_32},
    {TV_LANE_S32_S16, CONVERSION, SHORTS, LANES_32},
    {TV_LANE_F32_S32, CONVERSION, LANES_32, LANES_32},
    {TV_LANE_F32_S8, CONVERSION, BYTES, LANES_32},
    {TV_LANE_F32_BF16, CONVERSION, SHORTS, LANES_32},
    {TV_LANE_S32_F32, FLOAT_CONVERSION, LANES_32, LANES_32},
    {TV_LANE_S8_F32, FLOAT_CONVERSION, LANES_32, BYTES},
    {TV_LANE_BF16_F32, FLOAT_CONVERSION, LANES_32, SHORTS},
};

static int32_t get_lane(const uint8_t *p, unsigned class_, unsigned i)
{
    switch (class_) {
    case BYTES:
        return (int8_t)p[i];
    case SHORTS:
        return (int16_t)(p[i] | p[ROW + i] << 8);
    default:
        return (int32_t)tv_load_le32(p + 4 * (size_t)i);
    }
}

static void put_lane(uint8_t *p, unsigned class_, unsigned i, uint32_t x)
{
    if (class_ == LANES_32)
        tv_store_le(p + 4 * (size_t)i, x, 4);
    for (unsigned b = 0; b < 1u << class_ && class_ != LANES_32; b++)
        p[b * ROW + i] = (uint8_t)(x >> 8 * b);
}

/* ---- Expected results ---- */

static int64_t clamped(int64_t x, unsigned bits, bool saturate)
{
    int64_t high = (INT64_C(1) << (bits - 1)) - 1;
    return saturate && x > high ? high : saturate && x < -high - 1 ? -high - 1 : x;
}

static int64_t integer(unsigned op, int64_t a, int64_t b, unsigned bits)
{
    uint64_t low = (uint64_t)a & tv_mask(bits), n = (uint64_t)b & (bits - 1);
    switch (op) {
    case TV_LANE_ADD:
        return a + b;
    case TV_LANE_SUB:
        return a - b;
    case TV_LANE_RSUB:
        return b - a;
    case TV_LANE_MUL:
        return a * b;
    case TV_LANE_NEG:
        return -a;
    case TV_LANE_ABS:
        return a < 0 ? -a : a;
    case TV_LANE_MAX:
        return a > b ? a : b;
    case TV_LANE_MIN:
        return a < b ? a : b;
    case TV_LANE_SLL:
        return (int64_t)(low << n);
    case TV_LANE_SRL:
        return (int64_t)(low >> n);
    case TV_LANE_SRA:
        return a >> n;
    case TV_LANE_ROL:
        return (int64_t)(low << n | low >> (bits - n));
    case TV_LANE_XOR:
        return a ^ b;
    case TV_LANE_NOT:
        return ~a;
    case TV_LANE_OR:
        return a | b;
    case TV_LANE_AND:
        return a & b;
    default:
        return a;
    }
}

static uint32_t reduced(unsigned op, const uint8_t *p, unsigned class_)
{
    int64_t y = get_lane(p, class_, 0);
    for (unsigned i = 1; i < TV_LANE_COUNT; i++) {
        int64_t x = get_lane(p, class_, i);
        switch (op) {
        case TV_LANE_SUM:
            y += x;
            break;
        case TV_LANE_RMAX:
            y = x > y ? x : y;
            break;
        case TV_LANE_RMIN:
            y = x < y ? x : y;
            break;
        case TV_LANE_RAND:
            y &= x;
            break;
        case TV_LANE_ROR:
            y |= x;
            break;
        default:
            y ^= x;
        }
    }
    return (uint32_t)(uint64_t)y;
}

static uint32_t floating(unsigned op, uint32_t a, uint32_t b, uint32_t c, tv_round round)
{
    switch (op) {
    case TV_LANE_FADD:
        return tv_tier2_add(a, b, round);
    case TV_LANE_FSUB:
        return tv_tier2_add(a, tv_f32_negate(b), round);
    case TV_LANE_FMUL:
        return tv_tier2_mul(a, b, round);
    case TV_LANE_FMA:
        return tv_tier2_fma(a, b, c, round);
    case TV_LANE_FMS:
        return tv_tier2_fma(a, b, tv_f32_negate(c), round);
    case TV_LANE_NFMA:
        return tv_tier2_fma(tv_f32_negate(a), b, c, round);
    case TV_LANE_NFMS:
        return tv_tier2_fma(tv_f32_negate(a), b, tv_f32_negate(c), round);
    case TV_LANE_FNEG:
        return tv_f32_negate(a);
    case TV_LANE_FABS:
        return tv_f32_abs(a);
    case TV_LANE_FMAX:
        return tv_tier2_max(a, b);
    default:
        return tv_tier2_min(a, b);
    }
}

static uint32_t converted(unsigned op, int32_t a, unsigned variant)
{
    tv_round round = (tv_round)(variant % 4);
    bool saturate = variant / 4;
    switch (op) {
    case TV_LANE_S8_S32:
        return (uint32_t)clamped(a, 8, saturate);
    case TV_LANE_S16_S32:
        return (uint32_t)clamped(a, 16, saturate);
    case TV_LANE_F32_S32:
        return tv_tier2_from_s32(a, round);
    case TV_LANE_F32_S8:
        return tv_tier2_from_s32(a, TV_ROUND_NEAREST);
    case TV_LANE_F32_BF16:
        return tv_tier2_from_bf16((uint16_t)a);
    case TV_LANE_S32_F32:
        return (uint32_t)tv_tier2_to_int((uint32_t)a, 32, saturate, round);
    case TV_LANE_S8_F32:
        return (uint32_t)tv_tier2_to_int((uint32_t)a, 8, saturate, round);
    case TV_LANE_BF16_F32:
        return tv_tier2_to_bf16((uint32_t)a, round);
    default:
        return (uint32_t)a;
    }
}

/* Lane i of the result, from the operands before the call. */
static uint32_t expected(const struct operation *o, unsigned variant, const uint8_t *a, const uint8_t *b,
                         const uint8_t *c, int imm, unsigned i)
{
    unsigned from = o->from == OF_VARIANT ? variant / 2 : o->from, bits = 8u << from;
    int32_t x = get_lane(a, from, i), y = get_lane(b, from, i), z = get_lane(c, from, i);
    switch ((kind)o->kind) {
    case INTEGER:
        return (uint32_t)(uint64_t)integer(o->op, x, y, bits);
    case SATURATING:
        return (uint32_t)(uint64_t)clamped(integer(o->op, x, y, bits), bits, variant % 2);
    case FIRST_LANE:
        return (uint32_t)get_lane(a, from, 0);
    case IMMEDIATE:
        return (uint32_t)imm;
    case REDUCTION:
        return reduced(o->op, a, from);
    case FLOAT:
        return floating(o->op, (uint32_t)x, (uint32_t)y, (uint32_t)z, (tv_round)variant);
    case CONVERSION:
    case FLOAT_CONVERSION:
        break;
    }
    return converted(o->op, x, variant);
}

/* ---- Operands ---- */

static uint32_t any_integer(unit_rng *rng)
{
    static const int corners[] = {0,  1,  INT8_MAX, INT8_MAX + 1, INT16_MAX, INT16_MAX + 1, INT32_MAX,
                                  11, 12, 181,      182,          46340,     46341};
    uint32_t x =
        unit_below(rng, 3) ? (uint32_t)unit_sized(rng, 32) : (uint32_t)corners[unit_below(rng, TV_COUNTOF(corners))];
    return unit_below(rng, 2) ? x : ~x + (uint32_t)unit_below(rng, 2);
}

/* A number whose biased exponent is near `exponent`, often with few significant bits or just below a power of two. */
static uint32_t float_near(unit_rng *rng, int exponent)
{
    uint32_t fraction = (uint32_t)unit_next(rng) & TV_F32_FRACTION;
    exponent += (int)unit_below(rng, 5) - 2;
    exponent = exponent < 0 ? 0 : exponent > 255 ? 255 : exponent;
    switch (unit_below(rng, 4)) {
    case 0:
        fraction &= UINT32_MAX << unit_below(rng, 24);
        break;
    case 1:
        fraction = TV_F32_FRACTION - (uint32_t)unit_below(rng, 3);
        break;
    default:
        break;
    }
    return (uint32_t)unit_below(rng, 2) << 31 | (uint32_t)exponent << 23 | fraction;
}

static uint32_t any_float(unit_rng *rng)
{
    static const uint32_t corners[] = {0,          1,          0x7FFFFF,   0x800000,   0x800001,
                                       0x7F7FFFFF, 0x7F7FFFFE, 0x7F800000, 0x7F800001, 0x7FC00000,
                                       0x7FFFFFFF, 0x3F800000, 0x3F000000, 0x3EFFFFFF, 0x4AFFFFFF,
                                       0x4B000001, 0x4EFFFFFF, 0x4F000000, 0x4F000001, 0x4F800000};
    switch (unit_below(rng, 6)) {
    case 0:
        return corners[unit_below(rng, TV_COUNTOF(corners))] ^ (uint32_t)unit_below(rng, 2) << 31;
    case 1:
        return (uint32_t)unit_next(rng);
    case 2:
        return tv_f32_bits((float)(int32_t)any_integer(rng) / (float)(1u << unit_below(rng, 24))); /* ties */
    case 3:
        return tv_f32_bits((float)((int)unit_below(rng, 1201) - 600) / 4); /* about the ends of s8 */
    case 4:
        return float_near(rng, 127 + 32);
    default:
        return float_near(rng, (int)unit_below(rng, 256));
    }
}

static int exponent_of(uint32_t x) { return (int)(x >> 23 & 0xFF); }

/* Three floats: sums that cancel, products near the smallest and the largest number, and addends near the rounding
 * error of a product. */
static void three_floats(unit_rng *rng, uint32_t x[3])
{
    for (unsigned i = 0; i < 3; i++)
        x[i] = any_float(rng);
    int e = exponent_of(x[0]);
    switch (unit_below(rng, 6)) {
    case 0:
        x[1] = (x[0] ^ TV_F32_SIGN) + (uint32_t)unit_below(rng, 5) - 2;
        break;
    case 1:
        x[1] = float_near(rng, e - (int)unit_below(rng, 26));
        break;
    case 2:
        x[1] = float_near(rng, 381 - e);
        break;
    case 3:
        x[1] = float_near(rng, 120 - e);
        break;
    default:
        break;
    }
    switch (unit_below(rng, 4)) {
    case 0:
        x[2] = tv_tier2_mul(x[0], x[1], TV_ROUND_NEAREST) ^ (uint32_t)unit_below(rng, 2) << 31;
        break;
    case 1:
        x[2] = float_near(rng, e + exponent_of(x[1]) - 127 + (int)unit_below(rng, 52) - 26);
        break;
    default:
        break;
    }
}

/* ---- Registers: a, b, c and y; y may contain a ---- */

typedef struct registers {
    _Alignas(64) uint8_t bytes[5 * REGISTER];
} registers;

enum { A = 0, B = REGISTER, C = 2 * REGISTER, Y = 3 * REGISTER };

static void fill_registers(unit_rng *rng, registers *r, unsigned class_, bool floats, unsigned a)
{
    for (size_t i = 0; i < sizeof r->bytes; i++)
        r->bytes[i] = (uint8_t)unit_next(rng);
    bool alike = unit_below(rng, 4) == 0; /* lanes that differ in few bits, for reductions */
    for (unsigned i = 0; i < TV_LANE_COUNT; i++) {
        uint32_t x[3] = {any_integer(rng), any_integer(rng), any_integer(rng)};
        if (floats)
            three_floats(rng, x);
        if (alike && !floats)
            x[0] =
                i ? (uint32_t)get_lane(r->bytes + a, class_, 0) ^ (unit_below(rng, 64) ? 0 : 1u << unit_below(rng, 32))
                  : x[0];
        put_lane(r->bytes + a, class_, i, x[0]);
        put_lane(r->bytes + B, class_, i, x[1]);
        put_lane(r->bytes + C, class_, i, x[2]);
    }
}

/* Where y stands: apart or in one of its operands' place_registers; and a, when lanes become wider: apart or inside y.
 */
static void choose_layout(unit_rng *rng, unsigned from, unsigned to, unsigned *a, unsigned *y)
{
    *a = A;
    *y = from == to ? (unsigned)unit_below(rng, 4) * REGISTER : Y;
    if (from < to && unit_below(rng, 2))
        *a = Y + ((unsigned)unit_below(rng, 4) >> from << from) * ROW;
}

static void check_kernel(unit_rng *rng, tv_lanes_fn kernel, const char *level, const struct operation *o,
                         unsigned variant)
{
    static registers before, r;
    unsigned from = o->from == OF_VARIANT ? variant / 2 : o->from, to = o->to == OF_VARIANT ? variant / 2 : o->to, a, y;
    int imm = (int)unit_below(rng, 256) - 128;
    choose_layout(rng, from, to, &a, &y);
    fill_registers(rng, &r, from, o->kind >= FLOAT, a);
    before = r;
    kernel(r.bytes + y, r.bytes + a, r.bytes + B, r.bytes + C, imm);
    for (unsigned i = 0; i < TV_LANE_COUNT; i++) {
        uint32_t want = expected(o, variant, before.bytes + a, before.bytes + B, before.bytes + C, imm, i),
                 got = (uint32_t)get_lane(r.bytes + y, to, i);
        if ((want ^ got) & tv_mask(8u << to))
            fail_msg("%s, operation %u, variant %u: lane %u of %08x, %08x, %08x is %08x, not %08x", level, o->op,
                     variant, i, (unsigned)get_lane(before.bytes + a, from, i),
                     (unsigned)get_lane(before.bytes + B, from, i), (unsigned)get_lane(before.bytes + C, from, i),
                     (unsigned)got, (unsigned)want);
    }
    memcpy(before.bytes + y, r.bytes + y, (size_t)ROW << to);
    assert_memory_equal(r.bytes, before.bytes, sizeof r.bytes);
    assert_int_equal(fegetround(), FE_TONEAREST);
}

static void every_variant_computes_each_lane_as_the_scalar_functions(void **state)
{
    (void)state;
    unit_rng rng = {1};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++) {
        unsigned kernels = 0;
        for (size_t o = 0; o < TV_COUNTOF(operations); o++)
            for (unsigned variant = 0; variant < TV_LANE_VARIANTS; variant++) {
                tv_lanes_fn kernel = tv_lanes_find((tv_cpu_level)level, (tv_lane_op)operations[o].op, variant);
                for (unsigned round = 0; kernel && round < ROUNDS; round++)
                    check_kernel(&rng, kernel, tv_cpu_names[level], &operations[o], variant);
                kernels += kernel != NULL;
            }
        assert_true((kernels > 0) == (level != TV_CPU_SCALAR));
    }
}

/* ---- Forms and tables ---- */

static void groups_convert_between_planes_and_lanes(void **state)
{
    (void)state;
    unit_rng rng = {2};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++) {
        tv_lanes_fn to_planes = tv_lanes_find((tv_cpu_level)level, TV_LANE_TO_PLANES, 0),
                    to_lanes = tv_lanes_find((tv_cpu_level)level, TV_LANE_TO_LANES, 0);
        for (unsigned round = 0; to_planes && round < ROUNDS; round++) {
            static registers lanes, planes, r;
            for (size_t i = 0; i < sizeof r.bytes; i++)
                lanes.bytes[i] = (uint8_t)unit_next(&rng);
            r = planes = lanes;
            for (unsigned i = 0; i < REGISTER; i++)
                planes.bytes[B + i % 4 * ROW + i / 4] = lanes.bytes[B + i];
            to_planes(r.bytes + B, r.bytes + B, r.bytes + B, r.bytes + B, 0);
            assert_memory_equal(r.bytes, planes.bytes, sizeof r.bytes);
            uint8_t memory[REGISTER + ROW];
            const size_t at = round % ROW;
            memcpy(memory + at, lanes.bytes + B, REGISTER);
            memset(r.bytes + B, 0, REGISTER);
            to_planes(r.bytes + B, memory + at, memory + at, memory + at, 0);
            assert_memory_equal(r.bytes, planes.bytes, sizeof r.bytes);
            to_lanes(r.bytes + B, r.bytes + B, r.bytes + B, r.bytes + B, 0);
            assert_memory_equal(r.bytes, lanes.bytes, sizeof r.bytes);
        }
    }
}

static void deinterleave_and_interleave_accept_any_address(void **state)
{
    (void)state;
    unit_rng rng = {3};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++) {
        tv_lanes_fn deinterleave = tv_lanes_find((tv_cpu_level)level, TV_LANE_DEINTERLEAVE, 0),
                    interleave = tv_lanes_find((tv_cpu_level)level, TV_LANE_INTERLEAVE, 0);
        for (unsigned at = 0; deinterleave && at < ROW; at++) {
            static registers before, r;
            for (size_t i = 0; i < sizeof r.bytes; i++)
                r.bytes[i] = (uint8_t)unit_next(&rng);
            before = r;
            uint8_t *row = r.bytes + Y;
            deinterleave(row, r.bytes + at, row, row, 0);
            for (unsigned i = 0; i < 2 * ROW; i++)
                before.bytes[Y + i % 2 * ROW + i / 2] = r.bytes[at + i];
            assert_memory_equal(r.bytes, before.bytes, sizeof r.bytes);
            interleave(r.bytes + B + at, row, row, row, 0);
            memcpy(before.bytes + B + at, r.bytes + at, (size_t)2 * ROW);
            assert_memory_equal(r.bytes, before.bytes, sizeof r.bytes);
        }
    }
}

static void lookup_reads_tables_of_256_bytes(void **state)
{
    (void)state;
    unit_rng rng = {4};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++) {
        tv_lanes_fn lookup = tv_lanes_find((tv_cpu_level)level, TV_LANE_LOOKUP, 0);
        for (unsigned round = 0; lookup && round < ROUNDS; round++) {
            static registers before, r;
            unsigned y = round % 2 ? A : Y;
            for (size_t i = 0; i < sizeof r.bytes; i++)
                r.bytes[i] = (uint8_t)unit_next(&rng);
            for (unsigned i = 0; i < ROW && round < 4; i++) /* each index */
                r.bytes[A + i] = (uint8_t)(round * ROW + i);
            before = r;
            lookup(r.bytes + y, r.bytes + A, r.bytes + B + round % 16, r.bytes + B, 0);
            for (unsigned i = 0; i < ROW; i++) {
                uint8_t index = before.bytes[A + i];
                before.bytes[y + i] = before.bytes[B + round % 16 + index];
            }
            assert_memory_equal(r.bytes, before.bytes, sizeof r.bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_computes_each_lane_as_the_scalar_functions),
        cmocka_unit_test(groups_convert_between_planes_and_lanes),
        cmocka_unit_test(deinterleave_and_interleave_accept_any_address),
        cmocka_unit_test(lookup_reads_tables_of_256_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
