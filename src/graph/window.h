/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of convolutions and pools along one axis. */
#ifndef TV_GRAPH_WINDOW_H
#define TV_GRAPH_WINDOW_H

#include "graph/graph.h"

/* Number of windows along spatial axis `axis` of `extent` elements. With `partial` a last window may extend past the
 * padding, if it begins before its end. Less than 1: not even one. */
static inline int64_t tv_window_extent(const tv_graph_lists *l, uint32_t axis, int64_t extent, bool partial)
{
    int64_t reach = (l->kernel[axis] - 1) * l->dilation[axis] + 1, stride = l->stride[axis],
            padded = extent + l->pad_begin[axis] + l->pad_end[axis];
    if (padded < reach)
        return 0;
    int64_t windows = (padded - reach) / stride + 1;
    if (partial && (padded - reach) % stride && windows * stride < extent + l->pad_begin[axis])
        windows++;
    return windows;
}

#endif
