/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that a run takes from host memory without descriptors in a program (--stream). */
#ifndef TV_CLI_RUN_STREAMS_H
#define TV_CLI_RUN_STREAMS_H

#include "cli/cli.h"

/* A row of a command's table of options. */
#define RUN_STREAMS_OPTIONS                                                                                            \
    {                                                                                                                  \
        "stream", 0, "NAME=ADDR:BYTES",                                                                                \
            "append weights in host memory to stream gemm or gemv of pccx, after those of the program; may be "        \
            "repeated",                                                                                                \
            "gemm= gemv="                                                                                              \
    }

/* Appends what the options say through the register window of the machine, after a load. Messages go to c->sink. */
tv_status run_streams_append(cli *c, tv_machine *machine);

#endif
