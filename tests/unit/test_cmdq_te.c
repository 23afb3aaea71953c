/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor engine entries against exact arithmetic: each step that the specification rounds is worked out with GMP's
 * rationals and rounded by hand. Values stay away from infinities; the sign of a zero is not looked at. */
#include "test_cmdq.h"

#include <gmp.h>
#include <math.h>

#include "num/float.h"

enum { ELEMENTS_MAX = 4096, BANK = 256 << 10, GUARD = 0xA5 };

/* ---- Rounding by hand ---- */

static mpq_t exact, other;

/* A binary format: significand bits, exponent of its smallest number. */
typedef struct binary {
    int bits, min_exponent;
} binary;

static const binary BINARY32 = {24, -149}, BINARY16 = {11, -24};

/* |x| >= 2^e */
static bool reaches(const mpq_t x, long e)
{
    mpz_t a, b;
    mpz_init(a);
    mpz_init(b);
    mpz_mul_2exp(a, mpq_numref(x), e < 0 ? (mp_bitcnt_t)-e : 0);
    mpz_mul_2exp(b, mpq_denref(x), e > 0 ? (mp_bitcnt_t)e : 0);
    bool result = mpz_cmpabs(a, b) >= 0;
    mpz_clear(a);
    mpz_clear(b);
    return result;
}

/* |x| / 2^e to the nearest integer, ties to even. */
static double nearest_multiple(const mpq_t x, long e)
{
    mpz_t num, den, quotient, rest;
    mpz_inits(num, den, quotient, rest, NULL);
    mpz_abs(num, mpq_numref(x));
    mpz_mul_2exp(num, num, e < 0 ? (mp_bitcnt_t)-e : 0);
    mpz_mul_2exp(den, mpq_denref(x), e > 0 ? (mp_bitcnt_t)e : 0);
    mpz_fdiv_qr(quotient, rest, num, den);
    mpz_mul_2exp(rest, rest, 1);
    int half = mpz_cmp(rest, den);
    if (half > 0 || (half == 0 && mpz_odd_p(quotient)))
        mpz_add_ui(quotient, quotient, 1);
    double result = mpz_get_d(quotient);
    mpz_clears(num, den, quotient, rest, NULL);
    return result;
}

static double round_by_hand(const mpq_t x, binary format)
{
    if (mpq_sgn(x) == 0)
        return 0;
    long e = (long)mpz_sizeinbase(mpq_numref(x), 2) - (long)mpz_sizeinbase(mpq_denref(x), 2);
    e -= !reaches(x, e);
    long unit = e - (format.bits - 1) > format.min_exponent ? e - (format.bits - 1) : format.min_exponent;
    double y = ldexp(nearest_multiple(x, unit), (int)unit);
    return mpq_sgn(x) < 0 ? -y : y;
}

static double f32(const mpq_t x) { return round_by_hand(x, BINARY32); }

static double add(double a, double b)
{
    mpq_set_d(exact, a);
    mpq_set_d(other, b);
    mpq_add(exact, exact, other);
    return f32(exact);
}

static double multiply(double a, double b)
{
    mpq_set_d(exact, a);
    mpq_set_d(other, b);
    mpq_mul(exact, exact, other);
    return f32(exact);
}

static double divide(double a, double b)
{
    mpq_set_d(exact, a);
    mpq_set_d(other, b);
    mpq_div(exact, exact, other);
    return f32(exact);
}

/* The canonical order of section 6. */
static double sum(const double *x, unsigned n)
{
    double p[8] = {0};
    for (unsigned i = 0; i < n; i++)
        p[i % 8] = add(p[i % 8], x[i]);
    return add(add(add(p[0], p[4]), add(p[2], p[6])), add(add(p[1], p[5]), add(p[3], p[7])));
}

/* ---- Operands ---- */

typedef struct operand {
    unsigned qbits, count;
    double values[ELEMENTS_MAX];
    uint8_t bytes[ELEMENTS_MAX * 4 + 1];
} operand;

static size_t byte_count(const operand *o) { return (o->count * (size_t)o->qbits + 7) / 8; }

/* What a stored pattern stands for. */
static double pattern_value(unsigned qbits, uint32_t pattern)
{
    if (qbits == 32)
        return (double)tv_f32_of_bits(pattern);
    if (qbits == 16) {
        int exponent = pattern >> 10 & 31, fraction = pattern & 1023;
        double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        return pattern >> 15 ? -magnitude : magnitude;
    }
    return (pattern >> (qbits - 1)) & 1 ? (double)pattern - ldexp(1, (int)qbits) : (double)pattern;
}

static uint32_t pattern_at(const operand *o, unsigned i)
{
    uint32_t pattern = 0;
    for (unsigned b = 0; b < o->qbits; b++) {
        size_t at = (size_t)i * o->qbits + b;
        pattern |= (uint32_t)(o->bytes[at / 8] >> (at % 8) & 1) << b;
    }
    return pattern;
}

static void put_pattern(operand *o, unsigned i, uint32_t pattern)
{
    for (unsigned b = 0; b < o->qbits; b++) {
        size_t at = (size_t)i * o->qbits + b;
        o->bytes[at / 8] = (uint8_t)((o->bytes[at / 8] & ~(1u << at % 8)) | (pattern >> b & 1) << at % 8);
    }
    o->values[i] = pattern_value(o->qbits, pattern);
}

/* Random patterns; the bits past the last are random, too. Floating ones are finite and of moderate size. */
static void fill(unit_rng *rng, operand *o, unsigned qbits, unsigned count)
{
    assert_true(count <= ELEMENTS_MAX);
    o->qbits = qbits;
    o->count = count;
    for (size_t i = 0; i <= byte_count(o); i++)
        o->bytes[i] = (uint8_t)unit_next(rng);
    for (unsigned i = 0; i < count; i++) {
        uint32_t pattern = (uint32_t)unit_next(rng);
        if (qbits == 32)
            pattern = (pattern & 0x807FFFFF) | (uint32_t)(120 + unit_below(rng, 14)) << 23;
        else if (qbits == 16)
            pattern = (pattern & 0x83FF) | (uint32_t)unit_below(rng, 20) << 10;
        else
            pattern &= (1u << qbits) - 1;
        put_pattern(o, i, pattern);
    }
}

/* ---- Cases ---- */

enum { SCALE_OF_ALL, SCALE_OF_OUTPUT, SCALE_OF_GROUP, SCALINGS };

typedef struct dims {
    unsigned m, n, k, group; /* group: k without groups */
    unsigned scaling;
    bool accumulate, biased;
    double scale_ifm, scale_wgt, scale_ofm;
} dims;

static operand ifm, wgt, ofm, bias, scales;
static tv_machine *machine;

/* Where the operands are: bank, byte. */
static const unsigned locations[][2] = {{0, 3}, {1, 0}, {2, 5}, {3, 1}, {4, 7}};

static void put_operand(unsigned i, const operand *o)
{
    assert_int_equal(
        tv_machine_write(machine, "spm", locations[i][0] * BANK + locations[i][1], o->bytes, byte_count(o) + 1, NULL),
        TV_OK);
}

/* The output's bytes after the run; its guard is untouched. */
static void get_output(uint8_t *bytes)
{
    assert_int_equal(
        tv_machine_read(machine, "spm", locations[2][0] * BANK + locations[2][1], bytes, byte_count(&ofm) + 1, NULL),
        TV_OK);
    assert_int_equal(bytes[byte_count(&ofm)], ofm.bytes[byte_count(&ofm)]);
}

/* A number of 24 bits, so that JSON carries it exactly. */
static double random_scale(unit_rng *rng)
{
    double x = ldexp((double)(unit_next(rng) >> 40), -24 + (int)unit_below(rng, 5) - 3) + 0.0078125;
    return unit_below(rng, 4) ? (double)(float)x : -(double)(float)x;
}

static void add_entry(queue_text *q, const char *opcode, const char *sizes, const dims *s)
{
    char more[400] = "";
    int n = s->biased ? snprintf(more, sizeof more, ", \"bias_bank\": %u, \"bias_offset\": %u", locations[3][0],
                                 locations[3][1])
                      : 0;
    if (s->scaling != SCALE_OF_ALL)
        n += snprintf(more + n, sizeof more - (size_t)n, ", \"wgt_scale_bank\": %u, \"wgt_scale_offset\": %u",
                      locations[4][0], locations[4][1]);
    if (s->scaling == SCALE_OF_GROUP)
        snprintf(more + n, sizeof more - (size_t)n, ", \"wgt_group\": %u", s->group);
    queue_add(q,
              "\"opcode\": \"%s\", \"te_id\": 0, \"ifm_bank\": %u, \"ifm_offset\": %u, \"wgt_bank\": %u, "
              "\"wgt_offset\": %u, \"ofm_bank\": %u, "
              "\"ofm_offset\": %u, %s, \"qbits_weight\": %u, \"qbits_activation\": %u, \"qbits_ofm\": %u, "
              "\"scale_ifm\": %.17g, "
              "\"scale_wgt\": %.17g, "
              "\"scale_ofm\": %.17g, \"accumulate\": %s%s",
              opcode, locations[0][0], locations[0][1], locations[1][0], locations[1][1], locations[2][0],
              locations[2][1], sizes, wgt.qbits, ifm.qbits, ofm.qbits, s->scale_ifm, s->scale_wgt, s->scale_ofm,
              s->accumulate ? "true" : "false", more);
}

/* Writes the operands to SPM and runs one entry. */
static void run_entry(const char *opcode, const char *sizes, const dims *s, uint8_t *bytes)
{
    queue_text q = {0};
    add_entry(&q, opcode, sizes, s);
    tv_program *program = queue_open(&q);
    put_operand(0, &ifm);
    put_operand(1, &wgt);
    put_operand(2, &ofm);
    put_operand(3, &bias);
    put_operand(4, &scales);
    run_all(machine, program);
    get_output(bytes);
    /* the program is borrowed by the machine until the next load: an empty one replaces it */
    static tv_program *before;
    tv_program_free(before);
    before = program;
}

static void run_matrix(const char *opcode, const dims *s, uint8_t *bytes)
{
    char sizes[80];
    snprintf(sizes, sizeof sizes, "\"m\": %u, \"n\": %u, \"k\": %u", s->m, s->n, s->k);
    run_entry(opcode, sizes, s, bytes);
}

static unsigned outputs_with_scale(const dims *s)
{
    return s->scaling == SCALE_OF_GROUP ? s->n * (s->k / s->group) : s->n;
}

static void random_rest(unit_rng *rng, dims *s, unsigned qbits_ofm)
{
    s->group = s->scaling == SCALE_OF_GROUP ? s->group : s->k;
    s->scale_ifm = random_scale(rng);
    s->scale_wgt = random_scale(rng);
    s->scale_ofm = random_scale(rng) * (qbits_ofm < 16 ? 64 : 1);
    fill(rng, &ofm, qbits_ofm, s->m * s->n);
    fill(rng, &bias, 32, s->n);
    fill(rng, &scales, 32, outputs_with_scale(s));
}

/* ---- The reference ---- */

/* The value of a group: x[i] * w[i], scaled. */
static double group_value(const dims *s, const double *x, const double *w, unsigned output, unsigned g, unsigned groups)
{
    double terms[ELEMENTS_MAX], scale = s->scaling == SCALE_OF_ALL ? s->scale_wgt : scales.values[output * groups + g],
                                total;
    if (ifm.qbits <= 8 && wgt.qbits <= 8) {
        int64_t integers = 0;
        for (unsigned i = 0; i < s->group; i++)
            integers += (int64_t)x[i] * (int64_t)w[i];
        mpq_set_si(exact, integers, 1);
        total = f32(exact);
    } else {
        for (unsigned i = 0; i < s->group; i++)
            terms[i] = multiply(x[i], w[i]);
        total = sum(terms, s->group);
    }
    return multiply(multiply(total, s->scale_ifm), scale);
}

/* An output before it is rounded to its type. */
static double output_value(const dims *s, const double *x, const double *w, unsigned output, double old)
{
    double terms[ELEMENTS_MAX], y;
    unsigned groups = s->k / s->group;
    for (unsigned g = 0; g < groups; g++)
        terms[g] = group_value(s, x + g * s->group, w + g * s->group, output, g, groups);
    y = s->scaling == SCALE_OF_GROUP ? sum(terms, groups) : terms[0];
    if (s->biased)
        y = add(y, bias.values[output]);
    if (s->accumulate)
        y = add(y, multiply(old, s->scale_ofm));
    return divide(y, s->scale_ofm);
}

/* A binary32 value as the output's type holds it. */
static double stored(double y, unsigned qbits)
{
    if (qbits == 32)
        return y;
    mpq_set_d(exact, y);
    if (qbits == 16) {
        double half = round_by_hand(exact, BINARY16);
        return fabs(half) >= 65536 ? copysign((double)INFINITY, half) : half;
    }
    double max = ldexp(1, (int)qbits - 1) - 1, whole = nearest_multiple(exact, 0);
    whole = y < 0 ? -whole : whole;
    return whole > max ? max : whole < -max - 1 ? -max - 1 : whole;
}

static double output_pattern_value(const uint8_t *bytes, unsigned i)
{
    operand view = {.qbits = ofm.qbits};
    memcpy(view.bytes, bytes, byte_count(&ofm));
    uint32_t pattern = pattern_at(&view, i);
    if (ofm.qbits == 16 && (pattern & 0x7FFF) == 0x7C00)
        return pattern >> 15 ? -(double)INFINITY : (double)INFINITY;
    return pattern_value(ofm.qbits, pattern);
}

static void expect(const char *what, const dims *s, const uint8_t *bytes, unsigned i, double y)
{
    double want = stored(y, ofm.qbits), got = output_pattern_value(bytes, i);
    if (want != got)
        fail_msg("%s %ux%ux%u, group %u, %u by %u to %u bits: output %u is %a, expected %a", what, s->m, s->n, s->k,
                 s->group, ifm.qbits, wgt.qbits, ofm.qbits, i, got, want);
}

/* The bits past the last element are 0. */
static void expect_clean_end(const uint8_t *bytes)
{
    unsigned used = ofm.count * ofm.qbits % 8;
    if (used)
        assert_int_equal(bytes[byte_count(&ofm) - 1] >> used, 0);
}

static void compare_matrix(const dims *s)
{
    static uint8_t bytes[ELEMENTS_MAX * 4 + 1];
    run_matrix("TE_GEMM_TILE", s, bytes);
    expect_clean_end(bytes);
    for (unsigned i = 0; i < s->m; i++)
        for (unsigned j = 0; j < s->n; j++)
            expect("GEMM", s, bytes, i * s->n + j,
                   output_value(s, ifm.values + i * s->k, wgt.values + j * s->k, j, ofm.values[i * s->n + j]));
}

/* ---- GEMM ---- */

static const unsigned widths[] = {2, 4, 8, 16, 32};

static void gemm_case(unit_rng *rng, unsigned activation, unsigned weight, unsigned output, unsigned variant)
{
    unsigned groups = 1 + (unsigned)unit_below(rng, 9), group = 1 + (unsigned)unit_below(rng, 9);
    dims s = {.m = 1 + (unsigned)unit_below(rng, 4),
              .n = 1 + (unsigned)unit_below(rng, 5),
              .k = groups * group,
              .group = group,
              .scaling = variant % SCALINGS,
              .accumulate = variant / SCALINGS % 2,
              .biased = variant / SCALINGS / 2 % 2};
    fill(rng, &ifm, activation, s.m * s.k);
    fill(rng, &wgt, weight, s.n * s.k);
    random_rest(rng, &s, output);
    compare_matrix(&s);
}

static void gemm_of_every_width_and_scaling_equals_exact_arithmetic(void **state)
{
    (void)state;
    unit_rng rng = {1};
    for (unsigned a = 0; a < TV_COUNTOF(widths); a++)
        for (unsigned w = 0; w < TV_COUNTOF(widths); w++)
            for (unsigned o = 0; o < TV_COUNTOF(widths); o++)
                for (unsigned variant = 0; variant < 4 * SCALINGS; variant++)
                    gemm_case(&rng, widths[a], widths[w], widths[o], variant);
}

/* Sums past 2^24: their rounding to binary32 shows. */
static void long_integer_sums_are_rounded_once(void **state)
{
    (void)state;
    unit_rng rng = {2};
    for (unsigned round = 0; round < 40; round++) {
        dims s = {.m = 1, .n = 1, .k = 2001 + 2 * round, .group = 2001 + 2 * round, .scaling = SCALE_OF_ALL};
        fill(&rng, &ifm, 8, s.k);
        fill(&rng, &wgt, 8, s.k);
        random_rest(&rng, &s, 32);
        for (unsigned i = 0; i < s.k; i++) {
            put_pattern(&ifm, i, 0x80 | (uint32_t)unit_below(&rng, 8));
            put_pattern(&wgt, i, 0x80 | (uint32_t)unit_below(&rng, 8));
        }
        s.scale_ifm = s.scale_wgt = s.scale_ofm = 1;
        compare_matrix(&s);
    }
}

/* Scale 1, sums of half of the output's step: ties. */
static void ties_go_to_even_and_large_values_clamp(void **state)
{
    (void)state;
    unit_rng rng = {3};
    for (unsigned o = 0; o < 3; o++)
        for (unsigned round = 0; round < 60; round++) {
            dims s = {.m = 4, .n = 4, .k = 3, .group = 3, .scaling = SCALE_OF_ALL};
            fill(&rng, &ifm, 4, 12);
            fill(&rng, &wgt, 4, 12);
            random_rest(&rng, &s, widths[o]);
            s.scale_ifm = s.scale_wgt = 1;
            s.scale_ofm = 2 << round % 4;
            compare_matrix(&s);
        }
}

static void output_over_its_inputs_is_written_last(void **state)
{
    (void)state;
    unit_rng rng = {4};
    static uint8_t apart[64], over[64];
    queue_text q = {0};
    dims s = {.m = 3, .n = 4, .k = 4, .group = 4, .scaling = SCALE_OF_ALL};
    fill(&rng, &ifm, 8, 12);
    fill(&rng, &wgt, 8, 16);
    random_rest(&rng, &s, 8);
    s.scale_ofm = 128;
    run_matrix("TE_GEMM_TILE", &s, apart);
    queue_add(&q,
              "\"opcode\": \"TE_GEMM_TILE\", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 3, \"wgt_bank\": 1, "
              "\"wgt_offset\": 0, "
              "\"ofm_bank\": 0, "
              "\"ofm_offset\": 4, \"m\": 3, \"n\": 4, \"k\": 4, \"qbits_weight\": 8, \"qbits_activation\": 8, "
              "\"qbits_ofm\": 8, "
              "\"scale_ifm\": %.17g, "
              "\"scale_wgt\": %.17g, \"scale_ofm\": 128",
              s.scale_ifm, s.scale_wgt);
    tv_program *program = queue_open(&q);
    tv_machine *own = machine_with(TV_MODE_FULL, NULL);
    assert_int_equal(tv_machine_write(own, "spm", 3, ifm.bytes, 12, NULL), TV_OK);
    assert_int_equal(tv_machine_write(own, "spm", BANK, wgt.bytes, 16, NULL), TV_OK);
    run_all(own, program);
    assert_int_equal(tv_machine_read(own, "spm", 4, over, 12, NULL), TV_OK);
    assert_memory_equal(apart, over, 12);
    tv_machine_free(own);
    tv_program_free(program);
}

/* ---- Attention ---- */

static void qkt_equals_gemm(void **state)
{
    (void)state;
    unit_rng rng = {5};
    static uint8_t gemm[4096], qkt[4096];
    for (unsigned round = 0; round < 100; round++) {
        unsigned group = 1 + (unsigned)unit_below(&rng, 6);
        dims s = {.m = 1 + (unsigned)unit_below(&rng, 6),
                  .n = 1 + (unsigned)unit_below(&rng, 6),
                  .k = group * 5,
                  .group = group,
                  .scaling = round % SCALINGS,
                  .accumulate = round / 3 % 2,
                  .biased = round / 6 % 2};
        fill(&rng, &ifm, widths[unit_below(&rng, 5)], s.m * s.k);
        fill(&rng, &wgt, widths[unit_below(&rng, 5)], s.n * s.k);
        random_rest(&rng, &s, widths[unit_below(&rng, 5)]);
        run_matrix("TE_GEMM_TILE", &s, gemm);
        run_matrix("TE_QKT_TILE", &s, qkt);
        assert_memory_equal(gemm, qkt, byte_count(&ofm));
    }
}

static void av_equals_gemm_of_the_transposed(void **state)
{
    (void)state;
    unit_rng rng = {6};
    static uint8_t gemm[4096], av[4096];
    for (unsigned round = 0; round < 200; round++) {
        unsigned group = 1 + (unsigned)unit_below(&rng, 6);
        dims s = {.m = 1 + (unsigned)unit_below(&rng, 6),
                  .n = 1 + (unsigned)unit_below(&rng, 6),
                  .k = group * 5,
                  .group = group,
                  .scaling = round % SCALINGS,
                  .accumulate = round / 3 % 2,
                  .biased = round / 6 % 2};
        static operand v;
        fill(&rng, &ifm, widths[unit_below(&rng, 5)], s.m * s.k);
        fill(&rng, &wgt, widths[unit_below(&rng, 5)], s.n * s.k);
        random_rest(&rng, &s, widths[unit_below(&rng, 5)]);
        v = wgt;
        run_matrix("TE_GEMM_TILE", &s, gemm);
        for (unsigned j = 0; j < s.n; j++)
            for (unsigned i = 0; i < s.k; i++)
                put_pattern(&wgt, i * s.n + j, pattern_at(&v, j * s.k + i));
        run_matrix("TE_AV_TILE", &s, av);
        assert_memory_equal(gemm, av, byte_count(&ofm));
    }
}

/* ---- Convolution ---- */

typedef struct image {
    unsigned in_h, in_w, in_c, out_c, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w, out_h, out_w;
} image;

/* Output positions by definition: the kernel's last row is inside the padded input. */
static unsigned side(unsigned in, unsigned pad, unsigned dilation, unsigned kernel, unsigned stride)
{
    unsigned count = 0;
    while (count * stride + dilation * (kernel - 1) < in + 2 * pad)
        count++;
    return count;
}

static unsigned from_1(unit_rng *rng, unsigned max) { return 1 + (unsigned)unit_below(rng, max); }

static image random_image(unit_rng *rng)
{
    image c = {.in_h = from_1(rng, 6),
               .in_w = from_1(rng, 6),
               .in_c = from_1(rng, 4),
               .out_c = from_1(rng, 3),
               .kernel_h = from_1(rng, 3),
               .kernel_w = from_1(rng, 3),
               .stride_h = from_1(rng, 3),
               .stride_w = from_1(rng, 3),
               .pad_h = from_1(rng, 4) - 1,
               .pad_w = from_1(rng, 4) - 1,
               .dil_h = from_1(rng, 3),
               .dil_w = from_1(rng, 3)};
    c.out_h = side(c.in_h, c.pad_h, c.dil_h, c.kernel_h, c.stride_h);
    c.out_w = side(c.in_w, c.pad_w, c.dil_w, c.kernel_w, c.stride_w);
    return c;
}

/* The inputs of one output position, padding as 0. */
static void gather(const image *c, unsigned oy, unsigned ox, double *x)
{
    for (unsigned ky = 0; ky < c->kernel_h; ky++)
        for (unsigned kx = 0; kx < c->kernel_w; kx++)
            for (unsigned ch = 0; ch < c->in_c; ch++) {
                int y = (int)(oy * c->stride_h + ky * c->dil_h) - (int)c->pad_h,
                    z = (int)(ox * c->stride_w + kx * c->dil_w) - (int)c->pad_w;
                bool inside = y >= 0 && y < (int)c->in_h && z >= 0 && z < (int)c->in_w;
                *x++ = inside ? ifm.values[((unsigned)y * c->in_w + (unsigned)z) * c->in_c + ch] : 0;
            }
}

static void compare_image(const image *c, const dims *s)
{
    static uint8_t bytes[ELEMENTS_MAX * 4 + 1];
    static double x[ELEMENTS_MAX];
    char sizes[400];
    snprintf(sizes, sizeof sizes,
             "\"in_h\": %u, \"in_w\": %u, \"in_c\": %u, \"out_c\": %u, \"kernel_h\": %u, \"kernel_w\": %u, "
             "\"stride_h\": %u, \"stride_w\": %u, "
             "\"pad_h\": %u, \"pad_w\": %u, \"dil_h\": %u, \"dil_w\": %u",
             c->in_h, c->in_w, c->in_c, c->out_c, c->kernel_h, c->kernel_w, c->stride_h, c->stride_w, c->pad_h,
             c->pad_w, c->dil_h, c->dil_w);
    run_entry("TE_CONV_TILE", sizes, s, bytes);
    expect_clean_end(bytes);
    for (unsigned i = 0; i < s->m; i++) {
        gather(c, i / c->out_w, i % c->out_w, x);
        for (unsigned j = 0; j < s->n; j++)
            expect("convolution", s, bytes, i * s->n + j,
                   output_value(s, x, wgt.values + j * s->k, j, ofm.values[i * s->n + j]));
    }
}

static void convolution_equals_a_direct_loop(void **state)
{
    (void)state;
    unit_rng rng = {7};
    for (unsigned done = 0, round = 0; done < 400; round++) {
        image c = random_image(&rng);
        if (!c.out_h || !c.out_w)
            continue;
        dims s = {.m = c.out_h * c.out_w,
                  .n = c.out_c,
                  .k = c.kernel_h * c.kernel_w * c.in_c,
                  .group = c.in_c,
                  .scaling = round % SCALINGS,
                  .accumulate = round / 3 % 2,
                  .biased = round / 6 % 2};
        fill(&rng, &ifm, widths[unit_below(&rng, 5)], c.in_h * c.in_w * c.in_c);
        fill(&rng, &wgt, widths[unit_below(&rng, 5)], s.n * s.k);
        random_rest(&rng, &s, widths[unit_below(&rng, 5)]);
        compare_image(&c, &s);
        done++;
    }
}

static void a_kernel_larger_than_the_padded_input_is_rejected(void **state)
{
    (void)state;
    unit_log log;
    tv_diag_sink sink = unit_sink(&log);
    unit_rng rng = {8};
    queue_text q = {0};
    dims s = {.m = 1, .n = 1, .k = 6, .group = 6};
    fill(&rng, &ifm, 8, 4);
    fill(&rng, &wgt, 8, 6);
    random_rest(&rng, &s, 8);
    add_entry(&q, "TE_CONV_TILE",
              "\"in_h\": 2, \"in_w\": 2, \"in_c\": 1, \"out_c\": 1, \"kernel_h\": 3, \"kernel_w\": 2, \"pad_w\": 4",
              &s);
    tv_program *program = queue_open(&q);
    assert_int_equal(tv_machine_load(machine, program, &sink), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-Q016");
    tv_program_free(program);
}

/* ---- Sparse ---- */

typedef struct sparse {
    unsigned n, m, bits;
    unsigned index[ELEMENTS_MAX]; /* of each value */
} sparse;

/* Ascending indices without repetition in each group. */
static void random_indices(unit_rng *rng, sparse *p, unsigned groups)
{
    for (p->bits = 0; 1u << p->bits < p->m; p->bits++)
        continue;
    for (unsigned g = 0, v = 0; g < groups; g++) {
        unsigned left = p->n;
        for (unsigned i = 0; i < p->m && left; i++)
            if (unit_below(rng, p->m - i) < left) {
                p->index[v++] = i;
                left--;
            }
    }
}

/* Values, then indices from the next whole byte on; `wgt` is read as bytes then. */
static void append_indices(const sparse *p)
{
    unsigned values = wgt.count;
    size_t at = byte_count(&wgt) * 8;
    for (unsigned v = 0; v < values; v++)
        for (unsigned b = 0; b < p->bits; b++, at++)
            wgt.bytes[at / 8] = (uint8_t)((wgt.bytes[at / 8] & ~(1u << at % 8)) | (p->index[v] >> b & 1) << at % 8);
    wgt.count = (unsigned)((at + wgt.qbits - 1) / wgt.qbits);
}

static void run_sparse(const sparse *p, const dims *s, uint8_t *bytes)
{
    char sizes[120];
    snprintf(sizes, sizeof sizes, "\"m\": %u, \"n\": %u, \"k\": %u, \"sparse_n\": %u, \"sparse_m\": %u", s->m, s->n,
             s->k, p->n, p->m);
    run_entry("TE_SPARSE_GEMM_TILE", sizes, s, bytes);
}

/* Integers, or binary16 values that are small integers: sums are exact in every order. */
static void compare_with_dense(unit_rng *rng, unsigned round)
{
    static uint8_t thin[4096], full[4096];
    static operand dense;
    static sparse p;
    static const unsigned patterns[][2] = {{2, 4}, {1, 4}, {1, 1}, {3, 5}, {4, 8}, {1, 2}, {7, 7}, {5, 64}};
    p.n = patterns[round % 8][0];
    p.m = patterns[round % 8][1];
    unsigned groups = from_1(rng, 4), weight = widths[unit_below(rng, 3)];
    dims s = {.m = from_1(rng, 4),
              .n = from_1(rng, 4),
              .k = groups * p.m,
              .group = p.m,
              .scaling = round / 8 % SCALINGS,
              .accumulate = round / 24 % 2,
              .biased = round / 48 % 2};
    fill(rng, &ifm, widths[unit_below(rng, 3)], s.m * s.k);
    fill(rng, &wgt, weight, s.n * groups * p.n);
    random_rest(rng, &s, widths[unit_below(rng, 5)]);
    random_indices(rng, &p, s.n * groups);
    dense = (operand){.qbits = weight, .count = s.n * s.k};
    for (unsigned v = 0; v < wgt.count; v++)
        put_pattern(&dense, v / p.n * p.m + p.index[v], pattern_at(&wgt, v));
    append_indices(&p);
    run_sparse(&p, &s, thin);
    wgt = dense;
    run_matrix("TE_GEMM_TILE", &s, full);
    if (memcmp(thin, full, byte_count(&ofm)) != 0)
        fail_msg("%u of %u, %ux%ux%u, %u-bit weights: the sparse product is not that of the expanded weights", p.n, p.m,
                 s.m, s.n, s.k, weight);
}

static void sparse_integers_equal_the_expanded_weights(void **state)
{
    (void)state;
    unit_rng rng = {9};
    for (unsigned round = 0; round < 480; round++)
        compare_with_dense(&rng, round);
}

/* Floating sums go over the values in their order, whatever inputs they meet; an index may come twice. */
static void sparse_sums_are_in_the_order_of_the_values(void **state)
{
    (void)state;
    unit_rng rng = {10};
    static uint8_t bytes[4096];
    static double x[ELEMENTS_MAX], values[ELEMENTS_MAX];
    static sparse p;
    for (unsigned round = 0; round < 200; round++) {
        unsigned groups = from_1(&rng, 4);
        p.m = from_1(&rng, 9);
        p.n = from_1(&rng, p.m);
        unsigned kept = groups * p.n;
        dims s = {
            .m = from_1(&rng, 3), .n = from_1(&rng, 3), .k = groups * p.m, .group = p.m, .scaling = round % SCALINGS};
        fill(&rng, &ifm, widths[unit_below(&rng, 5)], s.m * s.k);
        fill(&rng, &wgt, widths[unit_below(&rng, 5)], s.n * kept);
        random_rest(&rng, &s, 32);
        random_indices(&rng, &p, s.n * groups);
        for (unsigned v = 0; v < wgt.count; v++) {
            p.index[v] = (unsigned)unit_below(&rng, p.m);
            values[v] = wgt.values[v];
        }
        append_indices(&p);
        run_sparse(&p, &s, bytes);
        dims thin = s;
        thin.k = kept;
        thin.group = s.scaling == SCALE_OF_GROUP ? p.n : kept;
        for (unsigned i = 0; i < s.m * s.n; i++) {
            for (unsigned v = 0; v < kept; v++)
                x[v] = ifm.values[i / s.n * s.k + v / p.n * p.m + p.index[i % s.n * kept + v]];
            expect("sparse GEMM", &s, bytes, i, output_value(&thin, x, values + i % s.n * kept, i % s.n, 0));
        }
    }
}

static void an_index_past_its_group_faults_and_changes_nothing(void **state)
{
    (void)state;
    unit_rng rng = {11};
    static uint8_t bytes[64];
    static sparse p = {.n = 1, .m = 3, .bits = 2};
    queue_text q = {0};
    tv_stop_reason why;
    dims s = {.m = 1, .n = 2, .k = 6, .group = 6, .scale_ifm = 1, .scale_wgt = 1, .scale_ofm = 1};
    fill(&rng, &ifm, 8, 6);
    fill(&rng, &wgt, 8, 4);
    fill(&rng, &ofm, 8, 2);
    p.index[3] = 3;
    append_indices(&p);
    add_entry(&q, "TE_SPARSE_GEMM_TILE", "\"m\": 1, \"n\": 2, \"k\": 6, \"sparse_n\": 1, \"sparse_m\": 3", &s);
    tv_program *program = queue_open(&q);
    tv_machine *own = machine_with(TV_MODE_FULL, NULL), *kept = machine;
    machine = own;
    put_operand(1, &wgt);
    put_operand(2, &ofm);
    assert_int_equal(tv_machine_load(own, program, NULL), TV_OK);
    assert_int_equal(tv_machine_run(own, NULL, &why), TV_FAULT);
    assert_string_equal(tv_machine_fault(own)->code, "TV-Q034");
    get_output(bytes);
    assert_memory_equal(bytes, ofm.bytes, 2);
    machine = kept;
    tv_machine_free(own);
    tv_program_free(program);
}

static void numbers_are_rounded_by_hand_as_the_host_rounds_them(void **state)
{
    (void)state;
    unit_rng rng = {12};
    for (unsigned i = 0; i < 100000; i++) {
        double x = ldexp((double)(int64_t)unit_next(&rng) * (i % 2 ? 1 : 0x1p-39), (int)unit_below(&rng, 250) - 210);
        if (i % 2 == 0)
            x = ldexp(floor(ldexp(x, 10)), -10);
        mpq_set_d(exact, x);
        if (f32(exact) != (double)(float)x)
            fail_msg("%a rounds to %a here, to %a there", x, f32(exact), (double)(float)x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_rounded_by_hand_as_the_host_rounds_them),
        cmocka_unit_test(gemm_of_every_width_and_scaling_equals_exact_arithmetic),
        cmocka_unit_test(long_integer_sums_are_rounded_once),
        cmocka_unit_test(ties_go_to_even_and_large_values_clamp),
        cmocka_unit_test(output_over_its_inputs_is_written_last),
        cmocka_unit_test(qkt_equals_gemm),
        cmocka_unit_test(av_equals_gemm_of_the_transposed),
        cmocka_unit_test(convolution_equals_a_direct_loop),
        cmocka_unit_test(a_kernel_larger_than_the_padded_input_is_rejected),
        cmocka_unit_test(sparse_integers_equal_the_expanded_weights),
        cmocka_unit_test(sparse_sums_are_in_the_order_of_the_values),
        cmocka_unit_test(an_index_past_its_group_faults_and_changes_nothing),
    };
    mpq_inits(exact, other, NULL);
    machine = machine_with(TV_MODE_FUNCTIONAL, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tv_machine_free(machine);
    mpq_clears(exact, other, NULL);
    return failed;
}
