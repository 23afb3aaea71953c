/* SPDX-License-Identifier: Apache-2.0 */
/* Every version of a kernel gives the bits of sums worked out here in 64 bits. */
#include "kernels/outer.h"
#include "unit.h"

enum { ROUNDS = 300 };

/* Corners often: the products of the least values are the largest. */
static int8_t random_byte(unit_rng *rng)
{
    static const int8_t corners[] = {-128, 127, -127, 0, 1, -1};
    return unit_below(rng, 3) ? (int8_t)unit_below(rng, 256) : corners[unit_below(rng, TV_COUNTOF(corners))];
}

static void compare_outer(unit_rng *rng, tv_cpu_level level, uint32_t k, unsigned count)
{
    static int8_t a[TV_OUTER_COUNT_MAX * TV_OUTER_K_MAX], b[TV_OUTER_COUNT_MAX * TV_OUTER_K_MAX];
    static int32_t acc[TV_OUTER_K_MAX * TV_OUTER_K_MAX], want[TV_OUTER_K_MAX * TV_OUTER_K_MAX];
    for (uint32_t i = 0; i < k * count; i++) {
        a[i] = random_byte(rng);
        b[i] = random_byte(rng);
    }
    for (uint32_t i = 0; i < k * k; i++) {
        acc[i] = unit_below(rng, 2) ? (int32_t)(uint32_t)unit_next(rng) : INT32_MAX; /* sums wrap */
        int64_t sum = acc[i];
        for (unsigned p = 0; p < count; p++)
            sum += (int64_t)a[p * k + i / k] * b[p * k + i % k];
        want[i] = (int32_t)(uint32_t)(uint64_t)sum;
    }
    tv_outer_s8(level)(acc, k, a, b, count);
    assert_memory_equal(acc, want, k * k * sizeof *acc);
}

static void outer_products_of_every_level_equal_sums_in_64_bits(void **state)
{
    (void)state;
    unit_rng rng = {1};
    for (unsigned level = 0; level <= (unsigned)tv_cpu_host(); level++)
        for (uint32_t k = 4; k <= TV_OUTER_K_MAX; k *= 2)
            for (unsigned round = 0; round < ROUNDS; round++)
                compare_outer(&rng, (tv_cpu_level)level, k, 1 + round % TV_OUTER_COUNT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outer_products_of_every_level_equal_sums_in_64_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
