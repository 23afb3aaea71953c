/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions over the parameters of a machine: constraints, "gemv.cores * gemv.lanes <= 256", and objectives of the
 * user's own, "gemv.cores * 32 + cycles / 100". Numbers are binary64: exact for integers below 2^53. */
#ifndef TV_SWEEP_EXPRESSION_H
#define TV_SWEEP_EXPRESSION_H

#include "base/arena.h"
#include "base/schema.h"

typedef struct expression expression;

enum { EXPRESSION_ERROR = 160 };

/* What names stand for: parameters of the schema that are numbers, then `names`. */
typedef struct expression_names {
    const tv_schema *schema;
    const char *const *names; /* NULL-terminated, or NULL: none */
} expression_names;

/* Parses `text`: a value of + - * / %, parentheses, names, and numbers with the suffixes Ki, Mi and Gi; with
 * `is_constraint` comparisons of such values (<, <=, >, >=, ==, !=), several combined with "and". The result is
 * allocated in `arena`. NULL: *column, from 1, and `error` say what is wrong; an empty error: out of memory. */
expression *tv_expression_parse(tv_arena *arena, const expression_names *names, bool is_constraint, const char *text,
                                unsigned *column, char error[EXPRESSION_ERROR]);

/* The value; values[] has those of the parameters of the schema, then those of the names. NaN: a quotient by zero. */
double tv_expression_value(const expression *e, const double *values);

/* Whether a constraint is satisfied. A comparison with a quotient by zero is not. */
bool tv_expression_is_true(const expression *e, const double *values);

#endif
