/* SPDX-License-Identifier: Apache-2.0 */
/* "Tier 2" FP32 arithmetic and conversions: four rounding modes, no NaN, no infinity, no subnormal.
 *
 * Inputs that are NaN, infinite or subnormal are read as the zero of their sign. A result above the largest finite
 * number saturates to it. A result that is below the smallest normal number after rounding to the format's precision
 * with unbounded exponent becomes the zero of its sign. Values are carried as bits. */
#ifndef TV_NUM_TIER2_H
#define TV_NUM_TIER2_H

#include "base/base.h"

typedef enum tv_round { TV_ROUND_NEAREST, TV_ROUND_ZERO, TV_ROUND_FLOOR, TV_ROUND_CEIL } tv_round;

/* a * b + c with one rounding; an exact zero of unlike signs is +0, under floor -0. */
uint32_t tv_tier2_add(uint32_t a, uint32_t b, tv_round round);
uint32_t tv_tier2_mul(uint32_t a, uint32_t b, tv_round round);
uint32_t tv_tier2_fma(uint32_t a, uint32_t b, uint32_t c, tv_round round);

/* By value, +0 above -0. */
uint32_t tv_tier2_max(uint32_t a, uint32_t b);
uint32_t tv_tier2_min(uint32_t a, uint32_t b);

uint32_t tv_tier2_from_s32(int32_t x, tv_round round);

/* The rounded integer: clamped to `bits` (8 to 32) if `saturate`, otherwise its low bits, sign extended. */
int32_t tv_tier2_to_int(uint32_t a, unsigned bits, bool saturate, tv_round round);

uint32_t tv_tier2_from_bf16(uint16_t x);
uint16_t tv_tier2_to_bf16(uint32_t a, tv_round round);

/* OCP BF8: E4M3 (maximum 448) or E5M2 (maximum 57344). Codes that are NaN or infinite are read as zero. */
uint32_t tv_tier2_from_bf8(uint8_t x, bool e5m2);
uint8_t tv_tier2_to_bf8(uint32_t a, bool e5m2, tv_round round);

#endif
