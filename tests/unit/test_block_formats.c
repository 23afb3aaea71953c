/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of weights, decoded by hand from the layouts: a few bytes of a block are set, the others are zero. Scales are
 * powers of two, so that every product is exact. tests/peers compares whole blocks with another implementation. */
#include <math.h>

#include "kernels/block_formats.h"
#include "num/float.h"
#include "unit.h"

enum { HALF = 0x38, ONE = 0x3C, TWO = 0x40, QUARTER = 0x34, MINUS_ONE = 0xBC }; /* high bytes of F16 numbers */

typedef struct poke {
    uint16_t at;
    uint8_t byte;
} poke;

typedef struct expectation {
    uint16_t at;
    float value;
} expectation;

typedef struct block_case {
    const char *name;
    void (*decode)(const uint8_t *blocks, size_t count, float *out);
    unsigned weights, bytes;
    unsigned poke_count, expectation_count;
    poke pokes[12];
    expectation expectations[8];
} block_case;

static const block_case cases[] = {
    /* d = 1/2; q0 = 3, q16 = 15, q15 = 8 */
    {"Q4_0",
     tv_block_decode_q4_0,
     32,
     18,
     3,
     5,
     {{1, HALF}, {2, 0xF3}, {17, 0x08}},
     {{0, -2.5f}, {16, 3.5f}, {15, 0}, {31, -4}, {1, -4}}},
    /* d = 1/2, m = 2; q0 = 15, q16 = 1 */
    {"Q4_1", tv_block_decode_q4_1, 32, 20, 3, 3, {{1, HALF}, {3, TWO}, {4, 0x1F}}, {{0, 9.5f}, {16, 2.5f}, {31, 2}}},
    /* d = 2; high bits of 0 and 31; q0 = 17, q16 = 2, q15 = 15, q31 = 16 */
    {"Q5_0",
     tv_block_decode_q5_0,
     32,
     22,
     5,
     5,
     {{1, TWO}, {2, 0x01}, {5, 0x80}, {6, 0x21}, {21, 0x0F}},
     {{0, 2}, {16, -28}, {15, -2}, {31, 0}, {1, -32}}},
    /* d = 1/4, m = -1; high bit of 15; q15 = 31, q31 = 4 */
    {"Q5_1",
     tv_block_decode_q5_1,
     32,
     24,
     4,
     3,
     {{1, QUARTER}, {3, MINUS_ONE}, {5, 0x80}, {23, 0x4F}},
     {{15, 6.75f}, {31, 0}, {0, -1}}},
    /* d = -1; q0 = -128, q31 = 127 */
    {"Q8_0",
     tv_block_decode_q8_0,
     32,
     34,
     3,
     3,
     {{1, MINUS_ONE}, {2, 0x80}, {33, 0x7F}},
     {{0, 128}, {31, -127}, {1, 0}}},
    /* d = 1/2, m = 2; groups 0: s = 1, o = 3; 2: s = 2; 6: s = 15, o = 1; 15: s = 15; byte 16 has q 0, 1, 2, 3 of the
     * weights 0, 32, 64, 96; the last byte has q255 = 1 */
    {"Q2_K",
     tv_block_decode_q2_k,
     256,
     84,
     8,
     7,
     {{81, HALF}, {83, TWO}, {0, 0x31}, {2, 0x02}, {6, 0x1F}, {15, 0x0F}, {16, 0xE4}, {79, 0x40}},
     {{0, -6}, {15, -6}, {32, 1}, {64, 0}, {96, 20.5f}, {97, -2}, {255, 7.5f}}},
    /* d = 1; s0 = 33, s4 = 16, s8 = 15, others 0; high bits of 0 and 128; low bits: q0 = 3, q32 = 2, q128 = 1 */
    {"Q3_K",
     tv_block_decode_q3_k,
     256,
     110,
     6,
     6,
     {{109, ONE}, {96, 0xF1}, {104, 0x06}, {0, 0x11}, {32, 0x0B}, {64, 0x01}},
     {{0, 3}, {1, -4}, {32, 64}, {64, 64}, {128, -17}, {255, 128}}},
    /* d = 1/2, m = 1/4; run 0: s = 5, o = 3; 1: s = 1; 4: s = 10 + 48, o = 7 + 32; q0 = 15, q32 = 9, q128 = 2 */
    {"Q4_K",
     tv_block_decode_q4_k,
     256,
     144,
     8,
     5,
     {{1, HALF}, {3, QUARTER}, {4, 0xC5}, {5, 0x01}, {8, 0x83}, {12, 0x7A}, {16, 0x9F}, {80, 0x02}},
     {{0, 36.75f}, {1, -0.75f}, {32, 4.5f}, {33, 0}, {128, 48.25f}}},
    /* d = 1, m = 1; run 0: s = 2, o = 1; 1: s = 1; 7: s = 1, o = 2; q0 = 1 + 16, q32 = 3, q224 = 5 + 16 */
    {"Q5_K",
     tv_block_decode_q5_k,
     256,
     176,
     9,
     5,
     {{1, ONE}, {3, ONE}, {4, 2}, {8, 1}, {5, 1}, {15, 0x21}, {16, 0x81}, {48, 0x31}, {144, 0x50}},
     {{0, 33}, {1, -1}, {32, 3}, {224, 19}, {225, -2}}},
    /* d = 1/2; s0 = -1, s15 = 127; q0 = 15 + 48, q255 = 2 + 16 */
    {"Q6_K",
     tv_block_decode_q6_k,
     256,
     210,
     7,
     4,
     {{209, HALF}, {192, 0xFF}, {207, 0x7F}, {0, 0x0F}, {128, 0x03}, {127, 0x20}, {191, 0x40}},
     {{0, -15.5f}, {1, 16}, {255, -889}, {16, 0}}},
    /* d = 2; q0 = 15, q16 = 8 */
    {"IQ4_NL", tv_block_decode_iq4_nl, 32, 18, 2, 4, {{1, TWO}, {2, 0x8F}}, {{0, 226}, {16, 2}, {1, -254}, {31, -254}}},
    /* d = 1/2; s0 = 33, s1 = 2, s7 = 63; q0 = 0, q16 = 7, q32 = 8, q48 = 0, q255 = 15 */
    {"IQ4_XS",
     tv_block_decode_iq4_xs,
     256,
     136,
     8,
     6,
     {{1, HALF}, {2, 0x02}, {3, 0xC0}, {4, 0x21}, {7, 0xF0}, {8, 0x70}, {24, 0x08}, {135, 0xF0}},
     {{0, -63.5f}, {16, -5}, {32, -15}, {48, 1905}, {239, -1968.5f}, {255, 1751.5f}}},
};

static void test_blocks_worked_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(cases); i++) {
        const block_case *c = &cases[i];
        uint8_t bytes[TV_BLOCK_LARGE] = {0};
        float out[TV_BLOCK_LARGE + 1];
        out[c->weights] = 77;
        for (unsigned k = 0; k < c->poke_count; k++)
            bytes[c->pokes[k].at] = c->pokes[k].byte;
        c->decode(bytes, 1, out);
        for (unsigned k = 0; k < c->expectation_count; k++)
            if (out[c->expectations[k].at] != c->expectations[k].value)
                fail_msg("%s: weight %u is %g, %g expected", c->name, c->expectations[k].at,
                         (double)out[c->expectations[k].at], (double)c->expectations[k].value);
        assert_true(out[c->weights] == 77);
    }
}

/* A run of unaligned blocks is the blocks one by one. */
static void test_runs_of_blocks(void **state)
{
    (void)state;
    enum { COUNT = 5 };
    unit_rng rng = {8};
    static uint8_t bytes[1 + COUNT * TV_BLOCK_LARGE], one[TV_BLOCK_LARGE];
    static float all[COUNT * TV_BLOCK_LARGE], single[TV_BLOCK_LARGE];
    for (size_t i = 0; i < TV_COUNTOF(cases); i++) {
        const block_case *c = &cases[i];
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)unit_next(&rng);
        c->decode(bytes + 1, COUNT, all);
        for (unsigned b = 0; b < COUNT; b++) {
            memcpy(one, bytes + 1 + b * c->bytes, c->bytes);
            c->decode(one, 1, single);
            for (unsigned k = 0; k < c->weights; k++) {
                float x = all[b * c->weights + k];
                assert_true(isnan(x) ? isnan(single[k]) : tv_f32_bits(x) == tv_f32_bits(single[k]));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_worked_by_hand),
        cmocka_unit_test(test_runs_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
