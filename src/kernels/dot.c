/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar dot products. A beat's sum of 32 products of 4 and 8 bits fits 32 bits with room for many beats; it is
 * widened beat by beat all the same, to keep the reference plain. */
#include "kernels/dot.h"

int64_t tv_dot_s4s8(const uint8_t *weights, const int8_t *q, size_t beats)
{
    int64_t total = 0;
    for (size_t b = 0; b < beats; b++) {
        int32_t sum = 0;
        for (size_t i = 0; i < 16; i++) {
            uint8_t byte = weights[16 * b + i];
            int low = (int)((byte & 15u) ^ 8u) - 8, high = (int)((unsigned)(byte >> 4) ^ 8u) - 8;
            sum += low * q[32 * b + 2 * i] + high * q[32 * b + 2 * i + 1];
        }
        total += sum;
    }
    return total;
}
