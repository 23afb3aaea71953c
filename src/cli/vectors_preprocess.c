/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures of the preprocessing of activations on pccx: BF16 to INT8. */
#include "cli/vectors.h"

enum { LANES = 32 };

static uint16_t bf16(unsigned sign, unsigned exponent, unsigned mantissa)
{
    return (uint16_t)(sign << 15 | exponent << 7 | mantissa);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- Decoding ---- */

enum { CLASS_ZERO, CLASS_SUBNORMAL, CLASS_NORMAL, CLASS_INFINITE, CLASS_NAN };

static unsigned class_of(unsigned exponent, unsigned mantissa)
{
    if (exponent == 0)
        return mantissa ? CLASS_SUBNORMAL : CLASS_ZERO;
    if (exponent == 255)
        return mantissa ? CLASS_NAN : CLASS_INFINITE;
    return CLASS_NORMAL;
}

void vectors_bf16_decode(vectors_writer *w, const char *argument)
{
    static const unsigned exponents[] = {0, 1, 2, 126, 127, 128, 253, 254, 255};
    static const unsigned mantissas[] = {0, 1, 0x2A, 0x3F, 0x40, 0x55, 0x7E, 0x7F};
    uint64_t count = 2 * CLI_COUNTOF(exponents) * CLI_COUNTOF(mantissas);
    (void)argument;
    vectors_begin(w, "edges", "both signs, the ends and the middle of the exponent, and of the mantissa",
                  "a word a number");
    uint64_t *x = vectors_add(w, VECTORS_INPUT, "x", "bf16", 16, 0, count, "sign 15, exponent 14:7, mantissa 6:0"),
             *sign = vectors_add(w, VECTORS_STEP, "sign", "uint1", 1, 0, count, "bit 15"),
             *exponent = vectors_add(w, VECTORS_STEP, "exponent", "uint8", 8, 0, count, "biased by 127"),
             *mantissa = vectors_add(w, VECTORS_STEP, "mantissa", "uint7", 7, 0, count, "without the hidden bit"),
             *significand = vectors_add(w, VECTORS_STEP, "significand", "uint8", 8, 0, count,
                                        "with the hidden bit; 0 of subnormal numbers, which count as zero"),
             *class = vectors_add(w, VECTORS_OUTPUT, "class", "uint3", 3, 0, count,
                                  "0 zero, 1 subnormal, 2 normal, 3 infinite, 4 NaN");
    for (uint64_t i = 0; class && i < count; i++) {
        unsigned s = (unsigned)(i & 1), e = exponents[i / 2 / CLI_COUNTOF(mantissas)],
                 m = mantissas[i / 2 % CLI_COUNTOF(mantissas)];
        x[i] = bf16(s, e, m);
        sign[i] = s;
        exponent[i] = e;
        mantissa[i] = m;
        class[i] = class_of(e, m);
        significand[i] = e == 0 ? 0 : 0x80 | m;
    }
    vectors_end(w);
}

/* ---- Rows ---- */

typedef void draw_fn(vectors_writer *w, uint16_t x[LANES]);

/* A number with any sign and mantissa. Each draw is a statement of its own: arguments have no order. */
static uint16_t draw_number(vectors_writer *w, unsigned exponent)
{
    unsigned sign = (unsigned)vectors_random(w, 2);
    return bf16(sign, exponent, (unsigned)vectors_random(w, 128));
}

static void draw_ties(vectors_writer *w, uint16_t x[LANES]) /* several lanes have the largest exponent */
{
    unsigned e = 100 + (unsigned)vectors_random(w, 50);
    for (unsigned i = 0; i < LANES; i++) {
        unsigned less = i % 4 ? (unsigned)vectors_random(w, 3) : 0;
        x[i] = draw_number(w, e - less);
    }
}

static void draw_negative(vectors_writer *w, uint16_t x[LANES]) /* the largest magnitude is negative */
{
    for (unsigned i = 0; i < LANES; i++) {
        unsigned e = 120 + (unsigned)vectors_random(w, 8);
        x[i] = draw_number(w, e) | 0x8000;
    }
}

static void draw_zeros(vectors_writer *w, uint16_t x[LANES]) /* zeros of both signs and subnormal numbers between */
{
    for (unsigned i = 0; i < LANES; i++) {
        uint16_t number = draw_number(w, i % 3 ? 127 : 0);
        x[i] = i % 3 == 0 && i % 2 == 0 ? number & 0x8000 : number;
    }
}

static void draw_far(vectors_writer *w, uint16_t x[LANES]) /* every distance up to 31 from the largest exponent */
{
    for (unsigned i = 0; i < LANES; i++)
        x[i] = draw_number(w, 200 - i);
}

static void draw_edges(vectors_writer *w, uint16_t x[LANES]) /* the ends of the range */
{
    for (unsigned i = 0; i < LANES; i++)
        x[i] = bf16((unsigned)vectors_random(w, 2), i % 2 ? 254 : 1, i % 4 < 2 ? 0x7F : 0);
}

static void draw_any(vectors_writer *w, uint16_t x[LANES])
{
    for (unsigned i = 0; i < LANES; i++) {
        unsigned e = 118 + (unsigned)vectors_random(w, 16);
        x[i] = draw_number(w, e);
    }
}

static void draw_nothing(vectors_writer *w, uint16_t x[LANES])
{
    (void)w;
    memset(x, 0, LANES * sizeof *x);
}

static const struct {
    const char *name, *meaning;
    draw_fn *draw;
} kinds[] = {
    {"ties", "several lanes have the largest exponent", draw_ties},
    {"negative", "all lanes are negative", draw_negative},
    {"zeros", "zeros of both signs and subnormal numbers among the lanes", draw_zeros},
    {"far", "every distance from the largest exponent, 0 to 31", draw_far},
    {"edges", "the smallest and the largest normal numbers", draw_edges},
    {"any", "exponents of activations", draw_any},
    {"nothing", "all lanes are zero", draw_nothing},
};

enum { ROWS = 8 };

void vectors_emax_align(vectors_writer *w, const char *argument)
{
    (void)argument;
    for (size_t k = 0; k < CLI_COUNTOF(kinds); k++) {
        vectors_begin(w, kinds[k].name, kinds[k].meaning, "32 lanes a row, lane 0 first");
        uint64_t *x = vectors_add(w, VECTORS_INPUT, "x", "bf16", 16, ROWS, LANES, "activations"),
                 *emax =
                     vectors_add(w, VECTORS_STEP, "emax", "uint8", 8, 0, ROWS, "largest biased exponent of the row"),
                 *distance = vectors_add(w, VECTORS_STEP, "distance", "uint8", 8, ROWS, LANES,
                                         "emax less the exponent; 255: the lane counts as zero"),
                 *aligned = vectors_add(w, VECTORS_OUTPUT, "aligned", "int32", 32, ROWS, LANES,
                                        "x / 2^(emax - 127 - 6) in units of 2^-16; bit 0 of the magnitude is sticky");
        for (unsigned row = 0; aligned && row < ROWS; row++) {
            uint16_t lanes[LANES];
            uint8_t distances[LANES];
            int32_t mantissas[LANES];
            int8_t q[LANES];
            float scale;
            kinds[k].draw(w, lanes);
            tv_unit_preprocess(lanes, LANES, 0, &(tv_preprocess_steps){distances, mantissas, NULL}, &scale, q);
            for (unsigned i = 0; i < LANES; i++) {
                uint64_t e = lanes[i] >> 7 & 255;
                x[row * LANES + i] = lanes[i];
                emax[row] = e > emax[row] ? e : emax[row];
                distance[row * LANES + i] = distances[i];
                aligned[row * LANES + i] = (uint64_t)(int64_t)mantissas[i];
            }
        }
        vectors_end(w);
    }
}

/* Scales that the instruction gives: 0 lets the unit choose; smaller ones than the row needs saturate. */
static uint16_t scale_of(vectors_writer *w, const uint16_t lanes[LANES], unsigned row)
{
    unsigned e = 0;
    for (unsigned i = 0; i < LANES; i++)
        e = (lanes[i] >> 7 & 255u) > e ? lanes[i] >> 7 & 255u : e;
    if (row % 2 == 0 || e < 16)
        return 0;
    unsigned less = 5 + (unsigned)vectors_random(w, 6);
    return draw_number(w, e - less) & 0x7FFF;
}

void vectors_bf16_to_int8(vectors_writer *w, const char *argument)
{
    (void)argument;
    for (size_t k = 0; k < CLI_COUNTOF(kinds); k++) {
        vectors_begin(w, kinds[k].name, kinds[k].meaning, "32 lanes a row, lane 0 first");
        uint64_t *x = vectors_add(w, VECTORS_INPUT, "x", "bf16", 16, ROWS, LANES, "activations"),
                 *given = vectors_add(w, VECTORS_INPUT, "act_scale", "bf16", 16, 0, ROWS, "0: 2^(emax - 127 - 6)"),
                 *scales = vectors_add(w, VECTORS_STEP, "scale", "f32", 32, 0, ROWS, "scale of the row"),
                 *quotients =
                     vectors_add(w, VECTORS_STEP, "quotient", "f32", 32, ROWS, LANES, "x / scale, rounded to binary32"),
                 *q = vectors_add(w, VECTORS_OUTPUT, "q", "int8", 8, ROWS, LANES,
                                  "rounded to nearest, ties to even, from -127 to 127");
        for (unsigned row = 0; q && row < ROWS; row++) {
            uint16_t lanes[LANES];
            float quotient[LANES], scale;
            int8_t out[LANES];
            kinds[k].draw(w, lanes);
            given[row] = scale_of(w, lanes, row);
            tv_unit_preprocess(lanes, LANES, (uint16_t)given[row], &(tv_preprocess_steps){NULL, NULL, quotient}, &scale,
                               out);
            scales[row] = bits_of(scale);
            for (unsigned i = 0; i < LANES; i++) {
                x[row * LANES + i] = lanes[i];
                quotients[row * LANES + i] = bits_of(quotient[i]);
                q[row * LANES + i] = (uint64_t)(int64_t)out[i];
            }
        }
        vectors_end(w);
    }
}
