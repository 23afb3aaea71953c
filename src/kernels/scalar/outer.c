/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar variant of outer products. */
#include "kernels/variants.h"

void tv_outer_s8_scalar(int32_t *acc, uint32_t k, const int8_t *a, const int8_t *b, unsigned count, uint32_t first,
                        uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        for (unsigned p = 0; p < count; p++) {
            int x = a[p * k + i];
            for (uint32_t j = 0; j < k; j++)
                acc[i * k + j] = (int32_t)((uint32_t)acc[i * k + j] + (uint32_t)(x * b[p * k + j]));
        }
}
