/* SPDX-License-Identifier: Apache-2.0 */
/* Images and windows of one or two axes, by height and width. */
#include "lower/cmdq/network.h"

cmdq_net_image cmdq_net_image_of(const tv_graph_shape *s)
{
    return (cmdq_net_image){.images = (uint64_t)s->dims[0],
                            .channels = (uint64_t)s->dims[1],
                            .h = (uint64_t)s->dims[2],
                            .w = s->rank == 4 ? (uint64_t)s->dims[3] : 1};
}

cmdq_net_window cmdq_net_window_of(const tv_graph_lists *l, uint32_t rank)
{
    cmdq_net_window w = {.kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    for (unsigned i = 0; i + 2 < rank && i < 2; i++) {
        w.kernel[i] = (uint64_t)l->kernel[i];
        w.stride[i] = (uint64_t)l->stride[i];
        w.dilation[i] = (uint64_t)l->dilation[i];
        w.pad_begin[i] = (uint64_t)l->pad_begin[i];
        w.pad_end[i] = (uint64_t)l->pad_end[i];
    }
    return w;
}

cmdq_net_phases cmdq_net_phases_of(const tv_graph_lists *l, uint32_t rank)
{
    cmdq_net_window window = cmdq_net_window_of(l, rank);
    cmdq_net_phases p = {.count = {1, 1}, .taps = {1, 1}};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t extent = (window.kernel[i] - 1) * window.dilation[i] + 1,
                 more = i + 2 < rank ? (uint64_t)l->output_padding[i] : 0;
        p.count[i] = window.stride[i];
        p.taps[i] = tv_ceil_div(extent + more, window.stride[i]);
    }
    return p;
}
