/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of elements that entries name: those of VE_UNARY_TILE, and the activations of the tensor engines. */
#ifndef TV_MACHINE_CMDQ_FUNCTIONS_H
#define TV_MACHINE_CMDQ_FUNCTIONS_H

#include "machine/cmdq/exec.h"

/* The limits of clip, infinite where they are not given. */
typedef struct cmdq_limits {
    float min, max;
} cmdq_limits;

cmdq_limits cmdq_exec_limits(const cmdq_exec *x);

/* y[i] = x[i] cut to the limits, or max(x[i], 0). NaN stays; `y` may be `x`. */
void cmdq_clip(const float *x, uint64_t n, cmdq_limits limits, float *y);
void cmdq_relu(const float *x, uint64_t n, float *y);

/* The larger and the smaller number, as IEEE 754-2019 maximum and minimum: NaN if one is NaN, +0 is above -0. */
float cmdq_maximum(float a, float b);
float cmdq_minimum(float a, float b);

#endif
