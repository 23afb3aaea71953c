/* SPDX-License-Identifier: Apache-2.0 */
/* Filling memory from files (--load). */
#ifndef TV_CLI_MEMORY_LOAD_H
#define TV_CLI_MEMORY_LOAD_H

#include "cli/cli.h"

/* Row of a command's table of options. */
#define MEMORY_LOAD_OPTION                                                                                             \
    {                                                                                                                  \
        "load", 0, "SPACE:ADDR=FILE", "fill memory from a file (or RANGE=FILE) before the run; may be repeated",       \
            "FILL"                                                                                                     \
    }

/* Fills the memory that the value `text` of the option names, "SPACE:ADDR=FILE" or "RANGE=FILE", where symbols are
 * those of the `count` programs of `programs`. Elements and bits that the file does not define keep their values. */
tv_status memory_load(cli *c, tv_machine *machine, const tv_program *const *programs, unsigned count, const char *text);

#endif
