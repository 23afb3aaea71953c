/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of words from open inputs. */
#ifndef TV_ASM_ASSEMBLE_H
#define TV_ASM_ASSEMBLE_H

#include "program/program.h"

/* Assembles an open input; takes ownership of it. Else as tv_program_assemble. */
tv_status tv_asm_input(const char *name, tv_input *input, const tv_program_options *options, const tv_diag_sink *sink,
                       tv_program **out);

/* tv_program_open for an input that is words in any form; takes ownership of it. */
tv_status tv_words_open(const char *path, tv_input *input, const tv_program_options *options, const tv_diag_sink *sink,
                        tv_program **out);

#endif
