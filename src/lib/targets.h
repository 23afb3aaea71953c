/* SPDX-License-Identifier: Apache-2.0 */
/* The composition root's lists: every instruction set and every machine, from the build's list of targets. */
#ifndef TV_LIB_TARGETS_H
#define TV_LIB_TARGETS_H

#include "isa/isa.h"
#include "machine/target.h"

extern const tv_isa_list tv_isas;

enum { TV_TARGETS_MAX = 8 };

/* The instruction set of the target called `name`, for extensions, or NULL. */
tv_isa *tv_isa_to_extend(const char *name);

/* Target `i`, or NULL past the last one; the target called `name`, or NULL. */
const tv_target *tv_target_get(unsigned i);
const tv_target *tv_target_find(const char *name);

#endif
