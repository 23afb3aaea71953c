/* SPDX-License-Identifier: Apache-2.0 */
/* Filling memory from files (--load). */
#ifndef TV_CLI_MEMORY_LOAD_H
#define TV_CLI_MEMORY_LOAD_H

#include "cli/memory_dump.h"

/* Row of a command's table of options. */
#define MEMORY_LOAD_OPTION                                                                                             \
    {                                                                                                                  \
        "load", 0, "SPACE:ADDR=FILE", "fill memory from a file (or RANGE=FILE) before the run; may be repeated",       \
            "FILL"                                                                                                     \
    }

/* Splits the value `text` of the option, "SPACE:ADDR=FILE" or "RANGE=FILE", for tv_memory_fill and tv_debug_load.
 * `machine` has the example of the message if it is neither. */
tv_status memory_load_split(cli *c, const tv_machine *machine, const char *text, char where[RANGE_TEXT],
                            const char **path);

#endif
