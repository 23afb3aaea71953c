/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of operations that the host executes for a machine. */
#ifndef TV_GRAPH_HOST_OPS_H
#define TV_GRAPH_HOST_OPS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tv_host_op {
    const char *name;
    uint64_t count;    /* number of times */
    uint64_t elements; /* BF16 values processed in total, two bytes each */
    bool written;      /* programs that are written need no host for it but their order and steps (network.h) */
} tv_host_op;

#endif
