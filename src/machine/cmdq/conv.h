/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the tensor engines that are not of two dense matrices. */
#ifndef TV_MACHINE_CMDQ_CONV_H
#define TV_MACHINE_CMDQ_CONV_H

#include "machine/cmdq/exec.h"
#include "machine/cmdq/matmul.h"

/* Computes p->out. Returns false if nothing may be stored: the operation faults, or memory is exhausted. */
typedef bool cmdq_multiply_fn(cmdq_exec *x, const cmdq_matmul *p);

cmdq_multiply_fn cmdq_multiply_conv;

#endif
