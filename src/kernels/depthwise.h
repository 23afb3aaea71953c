/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise products: each channel with a kernel of its own. */
#ifndef TV_KERNELS_DEPTHWISE_H
#define TV_KERNELS_DEPTHWISE_H

#include <stdint.h>

/* out[c] = sum over t of taps[t][c] * weights[t * stride + c], for `channels` channels. A tap that is NULL counts as
 * zeros. At most 65536 taps, so that sums are exact. */
void tv_depthwise_s8(const int8_t *const *taps, const int8_t *weights, uint64_t stride, uint64_t count,
                     uint64_t channels, int32_t *out);

#endif
