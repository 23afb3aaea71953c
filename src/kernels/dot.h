/* SPDX-License-Identifier: Apache-2.0 */
/* Integer dot products on packed weights: the host's inner loops. Scalar references. */
#ifndef TV_KERNELS_DOT_H
#define TV_KERNELS_DOT_H

#include "base/base.h"

/* Sum of w[i] * q[i] over 32 * beats elements, exact. `weights`: signed INT4, 16 bytes a beat, low nibble first;
 * `q`: signed bytes. */
int64_t tv_dot_s4s8(const uint8_t *weights, const int8_t *q, size_t beats);

#endif
