/* SPDX-License-Identifier: Apache-2.0 */
/* What a program requires of the configuration that it runs with, as text: the directives of its source without
 * comments, ".require vector.k == 8" or ".profile test", one space between the words. */
#ifndef TV_PROGRAM_REQUIREMENTS_H
#define TV_PROGRAM_REQUIREMENTS_H

#include "program/program.h"
#include "trivet/config.h"

enum { TV_REQUIREMENT_MAX = 200 }; /* bytes of one requirement, with its NUL */

/* Comparison operators, in the order of tv_comparison_names. */
typedef enum tv_comparison {
    TV_COMPARE_EQUAL,
    TV_COMPARE_NOT_EQUAL,
    TV_COMPARE_LESS,
    TV_COMPARE_LESS_EQUAL,
    TV_COMPARE_GREATER,
    TV_COMPARE_GREATER_EQUAL,
    TV_COMPARISONS
} tv_comparison;

extern const char *const tv_comparison_names[TV_COMPARISONS];

/* True when `text` has the form of a requirement; files are checked with it when they are read. */
bool tv_requirement_valid(const char *text);

/* Compares the requirements of `program` with `config`, of the same target. TV_ERR_INPUT: one is not met, each is
 * reported; or it names a parameter or profile that does not exist. TV_ERR_MEMORY, TV_ERR_IO. */
tv_status tv_program_check_requirements(const tv_program *program, const tv_config *config, const tv_diag_sink *sink);

#endif
