/* SPDX-License-Identifier: Apache-2.0 */
/* Inner values of an instruction, for commit records. A machine has a pointer to a list while they are asked for;
 * otherwise it is NULL and costs a test per instruction. Values are appended in a fixed order, by one thread. */
#ifndef TV_SIM_VALUES_H
#define TV_SIM_VALUES_H

#include "base/vec.h"
#include "trivet/commit.h"

typedef struct tv_values {
    TV_VEC(tv_inner_value) list;
} tv_values;

static inline void tv_values_integer(tv_values *values, const char *name, uint64_t element, int64_t x)
{
    (void)TV_VEC_PUSH(&values->list, (tv_inner_value){name, element, 1, x, (double)x});
}

static inline void tv_values_real(tv_values *values, const char *name, uint64_t element, double x)
{
    (void)TV_VEC_PUSH(&values->list, (tv_inner_value){.name = name, .element = element, .real = x});
}

#endif
