/* SPDX-License-Identifier: Apache-2.0 */
/* Constraints between the parameters of a machine: comparisons of sums and products, "gemv.cores * gemv.lanes <= 256".
 * Numbers are binary64: exact for integers below 2^53. */
#ifndef TV_SWEEP_CONSTRAINT_H
#define TV_SWEEP_CONSTRAINT_H

#include "base/arena.h"
#include "base/schema.h"

typedef struct constraint constraint;

enum { CONSTRAINT_ERROR = 160 };

/* Parses `text`: comparisons (<, <=, >, >=, ==, !=) of expressions with + - * / %, parentheses, numbers with the
 * suffixes Ki, Mi and Gi, and parameters of `schema` that are numbers; several are combined with "and". The result is
 * allocated in `arena`. NULL: *column, from 1, and `error` say what is wrong; an empty error: out of memory. */
constraint *tv_constraint_parse(tv_arena *arena, const tv_schema *schema, const char *text, unsigned *column,
                                char error[CONSTRAINT_ERROR]);

/* Whether values[schema->count] satisfy the constraint. A comparison with a quotient by zero is false. */
bool tv_constraint_allows(const constraint *c, const double *values);

#endif
