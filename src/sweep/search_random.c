/* SPDX-License-Identifier: Apache-2.0 */
/* A permutation of 0 to total - 1 as a Feistel network on the smallest even number of bits that holds total - 1: each
 * round is invertible whatever its function, so no value comes twice. A value that is out of range is permuted again
 * until it is in range ("cycle walking"), which keeps the permutation and takes less than four steps on average. */
#include "sweep/search_random.h"

#include "base/random.h"

void tv_permutation_init(tv_permutation *permutation, uint64_t total, uint64_t seed)
{
    tv_random random = {seed};
    *permutation = (tv_permutation){.total = total, .half = 1};
    while (permutation->half < 31 && total - 1 > tv_mask(2 * permutation->half))
        permutation->half++;
    for (unsigned i = 0; i < TV_PERMUTATION_ROUNDS; i++)
        permutation->keys[i] = tv_random_draw(&random);
}

static uint64_t permute(const tv_permutation *permutation, uint64_t value)
{
    uint64_t mask = tv_mask(permutation->half), left = value >> permutation->half, right = value & mask;
    for (unsigned i = 0; i < TV_PERMUTATION_ROUNDS; i++) {
        tv_random hash = {permutation->keys[i] ^ right};
        uint64_t next = left ^ (tv_random_draw(&hash) & mask);
        left = right;
        right = next;
    }
    return left << permutation->half | right;
}

bool tv_permutation_next(tv_permutation *permutation, uint64_t *id)
{
    if (permutation->position == permutation->total)
        return false;
    uint64_t value = permutation->position++;
    do
        value = permute(permutation, value);
    while (value >= permutation->total);
    *id = value;
    return true;
}

/* Basic operations of IEEE doubles only, so that every host computes the same steps. */
void tv_low_discrepancy_init(tv_low_discrepancy *sequence, unsigned dims)
{
    double phi = 1.5, power;
    for (unsigned i = 0; i < 64; i++) { /* Newton's iteration on phi^(dims + 1) - phi - 1 */
        power = 1;
        for (unsigned d = 0; d < dims; d++)
            power *= phi;
        phi -= (power * phi - phi - 1) / ((dims + 1) * power - 1);
    }
    sequence->dims = dims;
    power = 1;
    for (unsigned k = 0; k < dims; k++) {
        power /= phi;
        sequence->steps[k] = (uint64_t)(power * 0x1p64);
    }
}
