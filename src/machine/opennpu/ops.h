/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that ops.def names: handlers, and the lane loops that arith.c generates. */
#ifndef TV_MACHINE_OPENNPU_OPS_H
#define TV_MACHINE_OPENNPU_OPS_H

#include "machine/opennpu/internal.h"

#define TV_SIZED(id, saturation, expression, kernel)                                                                   \
    extern const opennpu_loops opennpu_loops_##id;                                                                     \
    opennpu_exact opennpu_exact_##id;
#define TV_REDUCE(id, identity, expression, kernel) extern const opennpu_loops opennpu_loops_##id;
#define TV_LANES(id, expression, kernel) extern const opennpu_loops opennpu_loops_##id;
#define TV_OP(id, handler, effects) opennpu_handler opennpu_exec_##handler;
#include "machine/opennpu/ops.def"
#undef TV_SIZED
#undef TV_REDUCE
#undef TV_LANES
#undef TV_OP

opennpu_handler opennpu_exec_sized; /* TV_SIZED: byte lanes in their plane, others as 32-bit lanes */
opennpu_handler opennpu_exec_lanes; /* TV_REDUCE, TV_LANES: all operands as 32-bit lanes */

#endif
