/* SPDX-License-Identifier: Apache-2.0 */
/* Products with scaled groups and products by packed panels: every variant gives the bits of exact sums, or of the
 * canonical order computed here term by term. */
#include "kernels/gemm_panel.h"
#include "kernels/gemv_grouped.h"
#include "num/float.h"
#include "unit.h"

#include <math.h>
#include <sys/mman.h>

enum { ROWS_MAX = 40, INPUTS_MAX = TV_PANEL_M_MAX, WIDEST = 2400, GROUP = 32, MANY_INPUTS_WIDEST = 300 };

typedef struct product {
    unsigned bits;
    size_t k, rows, m;
    uint8_t weights[ROWS_MAX * WIDEST];
    int8_t inputs[INPUTS_MAX * WIDEST];
    float scales[ROWS_MAX * (WIDEST / GROUP)];
    float factor;
} product;

static int8_t random_byte(unit_rng *rng)
{
    static const int8_t corners[] = {-128, 127, -127, 0, 1, -1};
    return unit_below(rng, 3) ? (int8_t)unit_below(rng, 256) : corners[unit_below(rng, TV_COUNTOF(corners))];
}

static void make(unit_rng *rng, product *p, unsigned bits, size_t k, size_t rows, size_t m)
{
    static const float factors[] = {1, 0.37f, -3e-20f, 1e10f};
    *p = (product){.bits = bits, .k = k, .rows = rows, .m = m, .factor = factors[unit_below(rng, TV_COUNTOF(factors))]};
    bool at_limits = unit_below(rng, 4) == 0; /* all at their limits: the sums of the largest magnitude */
    bool negative = unit_below(rng, 2);
    uint8_t weight = bits == 8 ? (negative ? 0x80 : 0x7F) : negative ? 0x88 : 0x77;
    int8_t input = unit_below(rng, 2) ? 127 : -128;
    for (size_t i = 0; i < rows * k * bits / 8; i++)
        p->weights[i] = at_limits            ? weight
                        : bits == 8          ? (uint8_t)random_byte(rng)
                        : unit_below(rng, 4) ? (uint8_t)unit_below(rng, 256)
                                             : 0x88;
    for (size_t i = 0; i < m * k; i++)
        p->inputs[i] = at_limits ? input : random_byte(rng);
    for (size_t i = 0; i < rows * (k / GROUP); i++)
        p->scales[i] = ((float)unit_below(rng, 2000) - 1000) * 1e-5f;
}

static int weight_at(const product *p, size_t row, size_t i)
{
    size_t at = row * p->k + i;
    int nibble = p->weights[at / 2] >> (at % 2 * 4) & 15;
    return p->bits == 8 ? (int8_t)p->weights[at] : nibble < 8 ? nibble : nibble - 16;
}

static int64_t exact_sum(const product *p, size_t input, size_t row, size_t from, size_t to)
{
    int64_t sum = 0;
    for (size_t i = from; i < to; i++)
        sum += weight_at(p, row, i) * p->inputs[input * p->k + i];
    return sum;
}

static float expected(const product *p, size_t input, size_t row)
{
    float s[8] = {0};
    for (size_t g = 0; g < p->k / GROUP; g++) {
        volatile float scaled = (float)exact_sum(p, input, row, g * GROUP, (g + 1) * GROUP) *
                                p->factor; /* rounded, whatever the compiler may do */
        scaled *= p->scales[row * (p->k / GROUP) + g];
        s[g % 8] += scaled;
    }
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static void assert_same_bits(float got, float want) { assert_memory_equal(&got, &want, sizeof got); }

/* Copies the bytes to the end of mapped memory, so that reading past them faults. */
enum { GUARDED = 4 };

static void *at_the_end(unsigned which, const void *bytes, size_t size)
{
    enum { ROOM = 1 << 20, PAGE = 1 << 16 };
    static uint8_t *room[GUARDED];
    if (!room[which]) {
        room[which] = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(room[which] != MAP_FAILED && mprotect(room[which] + ROOM, PAGE, PROT_NONE) == 0);
    }
    assert_true(size <= ROOM);
    return memcpy(room[which] + ROOM - size, bytes, size);
}

static const void *guarded_weights(const product *p) { return at_the_end(0, p->weights, p->rows * p->k * p->bits / 8); }

static const float *guarded_scales(const product *p)
{
    return at_the_end(1, p->scales, p->rows * (p->k / GROUP) * sizeof *p->scales);
}

/* The same with `gap` bytes of other data between rows. */
static const void *rows_apart(unsigned which, const void *rows, size_t count, size_t bytes, size_t gap)
{
    static uint8_t apart[1 << 20];
    assert_true(count * (bytes + gap) <= sizeof apart);
    memset(apart, 0x5A, sizeof apart);
    for (size_t r = 0; r < count; r++)
        memcpy(apart + r * (bytes + gap), (const uint8_t *)rows + r * bytes, bytes);
    return at_the_end(which, apart, count * (bytes + gap) - gap);
}

static tv_gemm_panel_weights panel_weights(unit_rng *rng, const product *p)
{
    size_t bytes = p->k * p->bits / 8, gap = unit_below(rng, 2) * unit_below(rng, 200);
    return (tv_gemm_panel_weights){rows_apart(0, p->weights, p->rows, bytes, gap), p->bits, p->k, bytes + gap,
                                   (ptrdiff_t)unit_below(rng, 2) * 8192};
}

/* Lengths and row counts that are not multiples of the tiles. */
static size_t random_groups(unit_rng *rng) { return 1 + unit_below(rng, unit_below(rng, 4) ? 20 : WIDEST / GROUP); }

static void groups_of_every_level_have_the_canonical_order(void **state)
{
    (void)state;
    static product p;
    unit_rng rng = {11};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (unsigned round = 0; round < 60; round++) {
            make(&rng, &p, round % 2 ? 4 : 8, random_groups(&rng) * GROUP, 1 + unit_below(&rng, 20), 1);
            int8_t packed[WIDEST + TV_GROUPS_PER_VECTOR * TV_GROUP_SIZE];
            int32_t offsets[WIDEST / GROUP + TV_GROUPS_PER_VECTOR];
            float out[ROWS_MAX];
            tv_gemv_grouped_pack(p.inputs, p.k, p.bits, packed, offsets);
            tv_gemv_grouped((tv_cpu_level)level, p.bits)(guarded_weights(&p), p.k, p.rows, packed, offsets, p.factor,
                                                         guarded_scales(&p), out);
            for (size_t r = 0; r < p.rows; r++)
                assert_same_bits(out[r], expected(&p, 0, r));
        }
}

static void panels_of_groups_have_the_canonical_order(void **state)
{
    (void)state;
    static product p;
    static int8_t packed[(INPUTS_MAX + TV_PANEL_TILE) * WIDEST];
    static int32_t offsets[(INPUTS_MAX + TV_PANEL_TILE) * WIDEST / GROUP];
    unit_rng rng = {12};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (unsigned round = 0; round < 60 && tv_gemm_panel((tv_cpu_level)level); round++) {
            make(&rng, &p, round % 2 ? 4 : 8, random_groups(&rng) * GROUP, 1 + unit_below(&rng, ROWS_MAX),
                 1 + unit_below(&rng, TV_PANEL_GROUPED_M_MAX));
            tv_gemm_panel((tv_cpu_level)level)
                ->pack(at_the_end(2, p.inputs, p.m * p.k), p.m, p.k, p.bits, TV_PANEL_GROUPED, packed, offsets);
            float out[TV_PANEL_GROUPED_M_MAX * ROWS_MAX];
            const tv_gemm_panel_weights w = panel_weights(&rng, &p);
            size_t step = p.k / GROUP + unit_below(&rng, 3);
            const float *scales =
                rows_apart(1, p.scales, p.rows, p.k / GROUP * sizeof *scales, (step - p.k / GROUP) * sizeof *scales);
            float old[TV_PANEL_GROUPED_M_MAX * ROWS_MAX];
            unsigned how = (unsigned)unit_below(&rng, 3); /* no old values; in another array; in the output array */
            for (size_t i = 0; i < p.m * p.rows; i++)
                out[i] = old[i] = unit_below(&rng, 50)  ? ((float)unit_below(&rng, 1 << 20) - (1 << 19)) * 1e-3f
                                  : unit_below(&rng, 2) ? NAN
                                                        : -INFINITY;
            for (size_t from = 0; from < p.rows; from += TV_PANEL_PAIR)
                tv_gemm_panel((tv_cpu_level)level)
                    ->multiply_grouped(&w, from, p.rows - from < TV_PANEL_PAIR ? p.rows - from : TV_PANEL_PAIR, packed,
                                       offsets, p.m, scales, step, p.factor,
                                       how == 0 ? NULL : (how == 1 ? old : out) + from, out + from, p.rows);
            for (size_t i = 0; i < p.m * p.rows; i++) {
                volatile float sum = expected(&p, i / p.rows, i % p.rows);
                float want = how == 0 ? sum : sum + old[i];
                assert_int_equal(tv_f32_bits(out[i]), want != want ? 0x7FC00000 : tv_f32_bits(want));
            }
        }
}

static void panels_equal_sums_in_64_bits(void **state)
{
    (void)state;
    static product p;
    static int8_t packed[(INPUTS_MAX + TV_PANEL_TILE) * WIDEST];
    unit_rng rng = {13};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (unsigned round = 0; round < 60 && tv_gemm_panel((tv_cpu_level)level); round++) {
            unsigned bits = round % 2 ? 4 : 8;
            bool many = unit_below(&rng, 3) == 0;
            make(&rng, &p, bits,
                 (1 + unit_below(&rng, many ? MANY_INPUTS_WIDEST / 2 : WIDEST / 2)) * (bits == 4 ? 2 : 1),
                 1 + unit_below(&rng, ROWS_MAX), 1 + unit_below(&rng, many ? INPUTS_MAX : 20));
            int32_t offsets[INPUTS_MAX + TV_PANEL_TILE];
            const tv_gemm_panel_weights w = panel_weights(&rng, &p);
            tv_gemm_panel((tv_cpu_level)level)
                ->pack(at_the_end(2, p.inputs, p.m * p.k), p.m, p.k, p.bits, TV_PANEL_EXACT, packed, offsets);
            for (size_t from = 0; from < p.rows; from += TV_PANEL_PAIR) {
                int32_t out[INPUTS_MAX * TV_PANEL_PAIR];
                size_t count = p.rows - from < TV_PANEL_PAIR ? p.rows - from : TV_PANEL_PAIR;
                tv_gemm_panel((tv_cpu_level)level)->multiply(&w, from, count, packed, offsets, p.m, out);
                for (size_t i = 0; i < p.m * count; i++)
                    assert_int_equal(out[i / count * TV_PANEL_PAIR + i % count],
                                     exact_sum(&p, i / count, from + i % count, 0, p.k));
            }
        }
}

/* Rounded after each operation, whatever the compiler may do. */
static uint16_t expected_scaled(int64_t sum, float row_scale, float scale, const uint16_t *addend)
{
    volatile float x = (float)sum;
    x *= row_scale;
    x *= scale;
    if (addend)
        x += tv_bf16_to_f32(*addend);
    return tv_bf16_flushed_from_f32(x);
}

/* Numbers whose products and sums are of every class: ordinary, and one of `corner_every` tiny, huge, or not finite. */
static uint16_t random_bf16(unit_rng *rng, unsigned corner_every)
{
    static const uint16_t corners[] = {0, 0x8000, 0x0080, 0x8080, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x0001};
    return unit_below(rng, corner_every) ? (uint16_t)(0x3B00 + unit_below(rng, 0x0A00) + unit_below(rng, 2) * 0x8000)
           : unit_below(rng, 2)          ? corners[unit_below(rng, TV_COUNTOF(corners))]
                                         : (uint16_t)unit_below(rng, 0x10000);
}

/* A length of rows, twice this number: often that of pccx's short rows. */
static size_t random_half_length(unit_rng *rng)
{
    static const unsigned limits[] = {MANY_INPUTS_WIDEST / 2, WIDEST / 2, 64};
    return unit_below(rng, 3) ? 1 + unit_below(rng, limits[unit_below(rng, TV_COUNTOF(limits))]) : 32;
}

static void scaled_panels_equal_exact_sums_rounded_to_bf16(void **state)
{
    (void)state;
    enum { STEP = ROWS_MAX + 7 };
    static product p;
    static int8_t packed[(INPUTS_MAX + TV_PANEL_TILE) * WIDEST];
    unit_rng rng = {17};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (unsigned round = 0; round < 200 && tv_gemm_panel((tv_cpu_level)level); round++) {
            unsigned bits = round % 3 ? 4 : 8;
            bool many = unit_below(&rng, 3) == 0, add = unit_below(&rng, 2);
            size_t k = random_half_length(&rng);
            unsigned corner_every = unit_below(&rng, 2) ? 8 : 2000;
            make(&rng, &p, bits, k * 2, 1 + unit_below(&rng, ROWS_MAX),
                 1 + unit_below(&rng, many && k * 2 <= MANY_INPUTS_WIDEST ? INPUTS_MAX : 20));
            for (size_t i = 0; i < p.m * p.k; i++)
                p.inputs[i] = p.inputs[i] == INT8_MIN ? -INT8_MAX : p.inputs[i];
            int32_t offsets[INPUTS_MAX + TV_PANEL_TILE];
            float row_scales[INPUTS_MAX], scales[ROWS_MAX];
            uint16_t old[INPUTS_MAX * STEP];
            for (size_t i = 0; i < p.m; i++)
                row_scales[i] = tv_bf16_to_f32(random_bf16(&rng, corner_every));
            for (size_t r = 0; r < p.rows; r++)
                scales[r] = tv_bf16_to_f32(random_bf16(&rng, corner_every));
            for (size_t i = 0; i < p.m * STEP; i++)
                old[i] = random_bf16(&rng, corner_every);
            const size_t all = (p.m - 1) * STEP + p.rows;
            uint16_t *y = at_the_end(3, old, all * sizeof *y);
            const tv_gemm_panel_set *panel = tv_gemm_panel((tv_cpu_level)level);
            const tv_gemm_panel_weights w = panel_weights(&rng, &p);
            panel->pack(at_the_end(2, p.inputs, p.m * p.k), p.m, p.k, p.bits, TV_PANEL_SCALED, packed, offsets);
            for (size_t from = 0; from < p.rows; from += TV_PANEL_PAIR) {
                size_t count = p.rows - from < TV_PANEL_PAIR ? p.rows - from : TV_PANEL_PAIR;
                const float *own = at_the_end(1, scales + from, count * sizeof *scales);
                panel->multiply_scaled(&w, from, count, packed, offsets, p.m, row_scales, own, add, y + from, STEP);
            }
            for (size_t at = 0; at < all; at++) {
                size_t i = at / STEP, r = at % STEP;
                assert_int_equal(y[at], r >= p.rows ? old[at]
                                                    : expected_scaled(exact_sum(&p, i, r, 0, p.k), row_scales[i],
                                                                      scales[r], add ? &old[at] : NULL));
            }
        }
}

enum { UNUSUAL_ROWS = 8, UNUSUAL_K_MAX = 96 };

/* Result `at` is x + addend, all others are 1 + x or 2, which are ordinary for an ordinary x. */
static void check_unusual_result(const tv_gemm_panel_set *panel, unsigned bits, size_t k, float x, uint16_t addend,
                                 size_t at)
{
    int8_t inputs[UNUSUAL_ROWS * UNUSUAL_K_MAX] = {0}, packed[UNUSUAL_ROWS * UNUSUAL_K_MAX];
    uint8_t weights[TV_PANEL_PAIR * UNUSUAL_K_MAX] = {0};
    int32_t offsets[UNUSUAL_ROWS];
    float row_scales[UNUSUAL_ROWS], scales[TV_PANEL_PAIR];
    uint16_t y[UNUSUAL_ROWS * TV_PANEL_PAIR];
    const size_t stride = k * bits / 8;
    for (size_t i = 0; i < UNUSUAL_ROWS; i++) {
        inputs[i * k] = 1;
        row_scales[i] = 1;
    }
    for (size_t r = 0; r < TV_PANEL_PAIR; r++) {
        weights[r * stride] = 1;
        scales[r] = r == at % TV_PANEL_PAIR ? x : 1;
    }
    for (size_t i = 0; i < TV_COUNTOF(y); i++)
        y[i] = i == at ? addend : TV_BF16_ONE;
    panel->pack(inputs, UNUSUAL_ROWS, k, bits, TV_PANEL_SCALED, packed, offsets);
    panel->multiply_scaled(&(tv_gemm_panel_weights){.rows = weights, .bits = bits, .k = k, .stride = stride}, 0,
                           TV_PANEL_PAIR, packed, offsets, UNUSUAL_ROWS, row_scales, scales, true, y, TV_PANEL_PAIR);
    for (size_t i = 0; i < TV_COUNTOF(y); i++)
        assert_int_equal(
            y[i], expected_scaled(1, 1, scales[i % TV_PANEL_PAIR], i == at ? &addend : &(uint16_t){TV_BF16_ONE}));
}

static void an_unusual_result_is_rounded_as_by_the_scalar_function(void **state)
{
    (void)state;
    static const uint32_t products[] = {0,
                                        1,
                                        TV_BF16_NORMAL_FROM - 0x4000,
                                        TV_BF16_NORMAL_FROM - 1,
                                        TV_BF16_NORMAL_FROM,
                                        TV_BF16_NORMAL_FROM + 1,
                                        0x3F808000, /* ties */
                                        0x3F818000,
                                        TV_F32_MAX};
    static const uint16_t addends[] = {TV_BF16_MAX, TV_BF16_INF, TV_BF16_INF + 1, TV_BF16_NAN,
                                       0x7FE1,      1,           0x007F,          0x0080};
    static const size_t lengths[] = {32, 64, 96};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (size_t at = 0; at < UNUSUAL_ROWS * TV_PANEL_PAIR; at++) {
            const tv_gemm_panel_set *panel = tv_gemm_panel((tv_cpu_level)level);
            const unsigned bits = at % 3 ? 4 : 8;
            const size_t k = lengths[at / 3 % TV_COUNTOF(lengths)];
            for (size_t i = 0; panel && i < 2 * TV_COUNTOF(products); i++)
                check_unusual_result(panel, bits, k, tv_f32_of_bits(products[i / 2] | (i % 2 ? TV_F32_SIGN : 0)), 0,
                                     at);
            for (size_t i = 0; panel && i < 2 * TV_COUNTOF(addends); i++) {
                const uint16_t addend = (uint16_t)(addends[i / 2] | (i % 2 ? TV_BF16_SIGN : 0));
                check_unusual_result(panel, bits, k, tv_f32_of_bits(1), addend, at);
                check_unusual_result(panel, bits, k, INFINITY, addend, at);
            }
        }
}

/* Rows of the maximum length with weights and inputs at their limits: the sums of INT8 use all 32 bits. */
static void check_longest_sum(const tv_gemm_panel_set *panel, unsigned bits, int weight, int8_t input)
{
    enum { LONGEST = 1 << 16 };
    static uint8_t weights[LONGEST];
    static int8_t inputs[LONGEST], packed[TV_PANEL_TILE * LONGEST];
    int32_t offsets[TV_PANEL_TILE], out[TV_PANEL_PAIR];
    size_t bytes = LONGEST * bits / 8;
    memset(weights, bits == 8 ? weight & 0xFF : (weight & 15) * 0x11, bytes);
    memset(inputs, input, sizeof inputs);
    panel->pack(inputs, 1, LONGEST, bits, TV_PANEL_EXACT, packed, offsets);
    panel->multiply(&(tv_gemm_panel_weights){.rows = weights, .bits = bits, .k = LONGEST, .stride = bytes}, 0, 1,
                    packed, offsets, 1, out);
    assert_int_equal(out[0], LONGEST * weight * input);
}

static void the_longest_sums_fit(void **state)
{
    (void)state;
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++) {
        const tv_gemm_panel_set *panel = tv_gemm_panel((tv_cpu_level)level);
        for (unsigned bits = 4; panel && bits <= 8; bits += 4) {
            int max = bits == 8 ? 127 : 7;
            check_longest_sum(panel, bits, max, 127);
            check_longest_sum(panel, bits, max, -128);
            check_longest_sum(panel, bits, -max - 1, 127);
            check_longest_sum(panel, bits, -max - 1, -128);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_every_level_have_the_canonical_order),
        cmocka_unit_test(panels_of_groups_have_the_canonical_order),
        cmocka_unit_test(panels_equal_sums_in_64_bits),
        cmocka_unit_test(scaled_panels_equal_exact_sums_rounded_to_bf16),
        cmocka_unit_test(an_unusual_result_is_rounded_as_by_the_scalar_function),
        cmocka_unit_test(the_longest_sums_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
