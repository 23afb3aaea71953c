/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures of the products of pccx: weights of INT4, the dual multiplier, results. */
#include "cli/vectors.h"

enum { SHIFT = 24 }; /* bits of the lower sum */

static uint64_t word_of(int64_t x) { return (uint64_t)x; }

void vectors_int4_packing(vectors_writer *w, const char *argument)
{
    (void)argument;
    vectors_begin(w, "all", "every pair of weights", "two weights a byte, the lower one in bits 3:0");
    uint64_t *bytes = vectors_add(w, VECTORS_INPUT, "byte", "uint8", 8, 0, 256, "as it is streamed"),
             *lower = vectors_add(w, VECTORS_STEP, "lower", "int8", 8, 0, 256, "bits 3:0, sign extended"),
             *upper = vectors_add(w, VECTORS_STEP, "upper", "int8", 8, 0, 256, "bits 7:4, sign extended"),
             *factor = vectors_add(w, VECTORS_OUTPUT, "factor", "int48", 48, 0, 256, "upper * 2^24 + lower");
    for (unsigned i = 0; factor && i < 256; i++) {
        int low = (int)(i & 15), high = (int)(i >> 4);
        low -= low > 7 ? 16 : 0;
        high -= high > 7 ? 16 : 0;
        bytes[i] = i;
        lower[i] = word_of(low);
        upper[i] = word_of(high);
        factor[i] = word_of(tv_unit_dual_weights(high, low, SHIFT));
    }
    vectors_end(w);
}

/* ---- The dual multiplier ---- */

/* The columns of a fixture of products. */
typedef struct products {
    uint64_t *upper, *lower, *q, *words;
} products;

static products add_products(vectors_writer *w, uint64_t rows, uint64_t count)
{
    products p;
    p.upper = vectors_add(w, VECTORS_INPUT, "upper", "int4", 8, rows, count, "weights, sign extended");
    p.lower = vectors_add(w, VECTORS_INPUT, "lower", "int4", 8, rows, count, "weights, sign extended");
    p.q = vectors_add(w, VECTORS_INPUT, "q", "int8", 8, rows, count, "activations");
    p.words = vectors_add(w, VECTORS_STEP, "word", "uint48", 48, rows, count, "the accumulator after each product");
    return p;
}

/* A number of a sign: a quarter are the largest ones, an eighth zero. */
static int draw(vectors_writer *w, bool negative, int limit)
{
    uint64_t kind = vectors_random(w, 8);
    int x = kind < 2 ? limit : kind == 2 ? 0 : (int)vectors_random(w, (uint64_t)limit + 1);
    return negative ? -x : x;
}

static uint64_t accumulate(const products *p, uint64_t at, uint64_t word)
{
    int64_t weights = tv_unit_dual_weights((int)(int64_t)p->upper[at], (int)(int64_t)p->lower[at], SHIFT);
    return p->words[at] = tv_unit_dual_mac(word, weights, (int)(int64_t)p->q[at]);
}

/* Signs: bit 0 of the upper weights, 1 of the lower ones, 2 of even and 3 of odd activations. */
static void write_products(vectors_writer *w, unsigned length, unsigned signs)
{
    char name[64];
    int64_t high, low;
    uint64_t word = 0;
    snprintf(name, sizeof name, "length-%u-signs-%u%u%u%u", length, signs & 1, signs >> 1 & 1, signs >> 2 & 1,
             signs >> 3 & 1);
    vectors_begin(
        w, name,
        "two dot products in one word of 48 bits; signs of the upper weights, the lower weights, the even and "
        "the odd activations",
        "a product a word, in the order of the sum");
    products p = add_products(w, 0, length);
    uint64_t *upper_sum = vectors_add(w, VECTORS_OUTPUT, "upper_sum", "int32", 32, 0, 1, "bits 47:24 and the borrow"),
             *lower_sum = vectors_add(w, VECTORS_OUTPUT, "lower_sum", "int32", 32, 0, 1, "bits 23:0, signed");
    for (unsigned i = 0; lower_sum && i < length; i++) {
        p.upper[i] = word_of(draw(w, signs & 1, signs & 1 ? 8 : 7));
        p.lower[i] = word_of(draw(w, signs & 2, signs & 2 ? 8 : 7));
        p.q[i] = word_of(draw(w, signs >> (2 + i % 2) & 1, 127));
        word = accumulate(&p, i, word);
    }
    if (lower_sum) {
        tv_unit_dual_sums(word, SHIFT, &high, &low);
        *upper_sum = word_of(high);
        *lower_sum = word_of(low);
    }
    vectors_end(w);
}

void vectors_dual_mac(vectors_writer *w, const char *argument)
{
    static const unsigned lengths[] = {1, 2, 15, 127, 1024, 4096};
    (void)argument;
    for (size_t i = 0; i < CLI_COUNTOF(lengths); i++)
        for (unsigned signs = 0; signs < 16 && w->status == TV_OK; signs++)
            write_products(w, lengths[i], signs);
}

void vectors_drain(vectors_writer *w, const char *argument)
{
    enum { WINDOWS = 4 };
    static const unsigned lengths[] = {1, 2, 7, 64, 1000, 1024};
    (void)argument;
    for (size_t k = 0; k < CLI_COUNTOF(lengths); k++) {
        char name[64];
        unsigned length = lengths[k];
        snprintf(name, sizeof name, "window-%u", length);
        vectors_begin(w, name, "the accumulator is read and starts at 0 again after each window",
                      "a row a window, its products in the order of the sum");
        products p = add_products(w, WINDOWS, length);
        uint64_t *upper_sum = vectors_add(w, VECTORS_OUTPUT, "upper_sum", "int32", 32, 0, WINDOWS, "of each window"),
                 *lower_sum = vectors_add(w, VECTORS_OUTPUT, "lower_sum", "int32", 32, 0, WINDOWS, "of each window");
        for (unsigned row = 0; lower_sum && row < WINDOWS; row++) {
            uint64_t word = 0;
            int64_t high, low;
            for (unsigned i = 0; i < length; i++) {
                uint64_t at = row * length + i;
                p.upper[at] = word_of((int64_t)vectors_random(w, 16) - 8);
                p.lower[at] = word_of((int64_t)vectors_random(w, 16) - 8);
                p.q[at] = word_of((int64_t)vectors_random(w, 255) - 127);
                word = accumulate(&p, at, word);
            }
            tv_unit_dual_sums(word, SHIFT, &high, &low);
            upper_sum[row] = word_of(high);
            lower_sum[row] = word_of(low);
        }
        vectors_end(w);
    }
}

/* ---- Results ---- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void vectors_normalize(vectors_writer *w, const char *argument)
{
    static const int32_t sums[] = {0,
                                   1,
                                   -1,
                                   2,
                                   127,
                                   -127,
                                   128,
                                   -128,
                                   255,
                                   -256,
                                   32767,
                                   -32768,
                                   65535,
                                   8388607,
                                   8388608,
                                   -8388608,
                                   8388609,
                                   16777215,
                                   16777216,
                                   16777217,
                                   -16777217,
                                   16777219,
                                   33554433,
                                   67108863,
                                   1 << 30,
                                   -(1 << 30),
                                   INT32_MAX,
                                   INT32_MIN,
                                   INT32_MAX - 64,
                                   INT32_MIN + 64,
                                   4161536,
                                   -4161536};
    enum { RANDOM = 480 };
    uint64_t count = CLI_COUNTOF(sums) * 2 + RANDOM;
    (void)argument;
    vectors_begin(w, "sums", "large sums of both signs and sums near zero, with and without an old destination",
                  "a result a word");
    uint64_t *sum = vectors_add(w, VECTORS_INPUT, "sum", "int32", 32, 0, count, "the exact sum"),
             *row_scale = vectors_add(w, VECTORS_INPUT, "row_scale", "f32", 32, 0, count, "scale of the activations"),
             *scale = vectors_add(w, VECTORS_INPUT, "scale", "bf16", 16, 0, count, "scale of the weight row"),
             *accm = vectors_add(w, VECTORS_INPUT, "accm", "uint1", 1, 0, count, "the old destination is added"),
             *addend = vectors_add(w, VECTORS_INPUT, "addend", "bf16", 16, 0, count, "the old destination"),
             *row_scaled = vectors_add(w, VECTORS_STEP, "row_scaled", "f32", 32, 0, count, "sum * row_scale"),
             *scaled = vectors_add(w, VECTORS_STEP, "scaled", "f32", 32, 0, count, "row_scaled * scale"),
             *added = vectors_add(w, VECTORS_STEP, "added", "f32", 32, 0, count, "scaled + addend; scaled without it"),
             *result = vectors_add(w, VECTORS_OUTPUT, "result", "bf16", 16, 0, count, "added, rounded to BF16");
    for (uint64_t i = 0; result && i < count; i++) {
        tv_normalize_steps steps;
        bool corner = i < CLI_COUNTOF(sums) * 2;
        uint32_t any = (uint32_t)vectors_random(w, UINT64_C(1) << 32), shift = (uint32_t)vectors_random(w, 24),
                 exponent = (uint32_t)vectors_random(w, 20), sign = (uint32_t)vectors_random(w, 2);
        int32_t s = corner ? sums[i / 2] : (int32_t)any >> shift;
        uint32_t power = (corner ? 121 : 110 + exponent) << 23;
        uint16_t b = (uint16_t)(corner && i % 2 == 0 ? 0x3F80 : vectors_random(w, 0x200) + 0x3E00),
                 c = (uint16_t)(sign << 15 | (uint32_t)(vectors_random(w, 0x1000) + 0x3C00));
        sum[i] = word_of(s);
        row_scale[i] = power;
        scale[i] = b;
        accm[i] = i % 2;
        addend[i] = accm[i] ? c : 0;
        result[i] = tv_unit_normalize(s, float_of(power), b, accm[i] ? &c : NULL, &steps);
        row_scaled[i] = bits_of(steps.row_scaled);
        scaled[i] = bits_of(steps.scaled);
        added[i] = bits_of(steps.added);
    }
    vectors_end(w);
}
