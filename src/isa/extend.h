/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of extensions (trivet/extension.h) in the tables of an instruction set.
 *
 * The tables belong to the process. They change only here, before anything reads them in another thread, which is the
 * contract of tv_extension_load. */
#ifndef TV_ISA_EXTEND_H
#define TV_ISA_EXTEND_H

#include "isa/isa.h"
#include "trivet/extension.h"

/* Appends `row`, which is kept, as an instruction of `isa`; `source` is the extension's name. TV_ERR_INPUT: texts that
 * name nothing of the set, a name that exists, or words of another instruction; TV_ERR_MEMORY. Nothing is appended
 * then. */
tv_status tv_isa_extend(tv_isa *isa, const tv_extension_insn *row, const char *source, const tv_diag_sink *sink);

/* Removes the rows from `count` on. */
void tv_isa_truncate(tv_isa *isa, unsigned count);

/* The instruction of an extension that computes the operator `name` of `inputs` inputs element by element; -1: there is
 * none. */
int tv_isa_find_operator(const tv_isa *isa, const char *name, unsigned inputs);

#endif
