/* SPDX-License-Identifier: Apache-2.0 */
/* Assembling an open input; takes ownership of it. Else as tv_program_assemble. */
#ifndef TV_ASM_ASSEMBLE_H
#define TV_ASM_ASSEMBLE_H

#include "object/program.h"

tv_status tv_asm_input(const char *name, tv_input *input, const tv_program_options *options, const tv_diag_sink *sink,
                       tv_program **out);

#endif
