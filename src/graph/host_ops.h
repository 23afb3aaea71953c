/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine's instructions leave to its host, counted. */
#ifndef TV_GRAPH_HOST_OPS_H
#define TV_GRAPH_HOST_OPS_H

#include <stdint.h>

typedef struct tv_host_op {
    const char *name;
    uint64_t count;    /* times that it was done */
    uint64_t elements; /* BF16 values that it looked at, all times together: two bytes each */
} tv_host_op;

#endif
