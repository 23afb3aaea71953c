/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of a comparison: which differences are none, and which mismatches are known. */
#ifndef TV_COSIM_RULES_H
#define TV_COSIM_RULES_H

#include "base/base.h"
#include "trivet/cosim.h"

enum { RULE_PATTERN = 64, RULE_REASON = 160 };

/* What a rule says about elements. */
typedef struct tolerance {
    bool ignore; /* volatile state */
    bool has_type;
    tv_dtype type;
    uint64_t steps;
    double relative, absolute;
    bool nan_equal, zero_equal, flush;
    uint64_t mask; /* bits that are compared */
    bool required; /* of inner values: the design must report them */
} tolerance;

/* The tolerance for `space`, or for an inner value of that name, of instruction `insn` (may be NULL): the sum of all
 * rules that apply, where later ones win. `rules` may be NULL. */
tolerance tv_rules_find(const tv_rules *rules, const char *insn, const char *space);

/* True if two elements of `type`, whose bits these are, count as equal. */
bool tv_tolerance_accepts(const tolerance *t, tv_dtype type, uint64_t expected, uint64_t actual);

/* The same for real inner values. */
bool tv_tolerance_accepts_real(const tolerance *t, double expected, double actual);

/* The reason why mismatches of class `name` are waived, or NULL. */
const char *tv_rules_waive(const tv_rules *rules, const char *name);

#endif
