/* SPDX-License-Identifier: Apache-2.0 */
/* The assembler's entry points. */
#ifndef TV_ASM_ASSEMBLE_H
#define TV_ASM_ASSEMBLE_H

#include "program/program.h"
#include "trivet/codec.h"

/* Assembles source text, which is called `name` in messages; the names of `.target` are looked up in `isas`. Otherwise
 * as tv_program_assemble. */
tv_status tv_asm_text(const char *name, tv_sv text, const tv_isa_list *isas, const tv_program_options *options,
                      const tv_diag_sink *sink, tv_program **out);

/* The same for an open input, which this function closes. */
tv_status tv_asm_input(const char *name, tv_input *input, const tv_isa_list *isas, const tv_program_options *options,
                       const tv_diag_sink *sink, tv_program **out);

/* Reports every keyword of the assembly language of `isa`, as tv_assembly_keywords. */
tv_status tv_asm_keywords(const tv_isa *isa, const tv_keyword_sink *keywords, const tv_diag_sink *sink);

#endif
