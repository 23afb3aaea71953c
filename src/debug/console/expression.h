/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions over symbols, registers and memory. */
#ifndef TV_DEBUG_CONSOLE_EXPRESSION_H
#define TV_DEBUG_CONSOLE_EXPRESSION_H

#include "debug/console/console.h"

/* An integer of 64 bits, or a real number when an operand is one. */
typedef struct debug_value {
    bool is_real;
    int64_t integer;
    double real; /* also of an integer */
} debug_value;

/* Evaluates C's operators, except assignment, on numbers, symbols, elements of memory `SPACE:ADDR[:TYPE]`, registers
 * such as `vx1`, and state values such as `e_max`; `[I]` selects element I of an address or register. Integers wrap.
 * TV_ERR_INPUT and a message: malformed, an unknown name, a division by zero. */
tv_status tv_debug_evaluate(debug_call *call, const char *text, debug_value *out);

/* The register `name`, a space followed by the number of a unit: "vx1" is all elements of unit 1 of `vx`. */
bool tv_debug_find_register(const tv_debug *d, const char *name, tv_range *out);

/* The symbol `name` of the loaded program, or of another one. */
bool tv_debug_find_symbol(const tv_debug *d, const char *name, tv_symbol *out);

/* The state value `name` of any group, valid until the next state value is read. */
bool tv_debug_find_state(const tv_debug *d, const char *name, tv_state_value *out);

/* Reports that there is no such name, with the nearest one as a hint. */
tv_status tv_debug_fail_name(debug_call *call, const char *name);

#endif
