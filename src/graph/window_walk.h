/* SPDX-License-Identifier: Apache-2.0 */
/* Positions of windows: what the convolutions and pools of the host share. */
#ifndef TV_GRAPH_WINDOW_WALK_H
#define TV_GRAPH_WINDOW_WALK_H

#include "graph/operator_table.h"

/* Extents as three spatial axes: missing ones are the first, with an extent and a window of 1. */
typedef struct tv_window {
    int64_t in[TV_GRAPH_SPATIAL_MAX], out[TV_GRAPH_SPATIAL_MAX], kernel[TV_GRAPH_SPATIAL_MAX],
        stride[TV_GRAPH_SPATIAL_MAX], dilation[TV_GRAPH_SPATIAL_MAX], pad[TV_GRAPH_SPATIAL_MAX],
        pad_end[TV_GRAPH_SPATIAL_MAX];
    int64_t in_elements, out_elements, kernel_elements;
} tv_window;

static inline tv_window tv_window_of(const tv_operator_row *r)
{
    const tv_graph_lists *l = tv_attrs_of(r)->lists;
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    tv_window w = {.in_elements = 1, .out_elements = 1, .kernel_elements = 1};
    uint32_t missing = TV_GRAPH_SPATIAL_MAX + 2 - x.rank;
    for (uint32_t i = 0; i < TV_GRAPH_SPATIAL_MAX; i++) {
        bool given = i >= missing;
        uint32_t axis = given ? i - missing : 0;
        w.in[i] = given ? x.dims[2 + axis] : 1;
        w.out[i] = given ? y.dims[2 + axis] : 1;
        w.kernel[i] = given ? l->kernel[axis] : 1;
        w.stride[i] = given ? l->stride[axis] : 1;
        w.dilation[i] = given ? l->dilation[axis] : 1;
        w.pad[i] = given ? l->pad_begin[axis] : 0;
        w.pad_end[i] = given ? l->pad_end[axis] : 0;
        w.in_elements *= w.in[i];
        w.out_elements *= w.out[i];
        w.kernel_elements *= w.kernel[i];
    }
    return w;
}

/* Splits the index of an element into those of three axes. */
static inline void tv_window_split(int64_t at, const int64_t dims[TV_GRAPH_SPATIAL_MAX],
                                   int64_t index[TV_GRAPH_SPATIAL_MAX])
{
    for (unsigned i = TV_GRAPH_SPATIAL_MAX; i-- > 0; at /= dims[i])
        index[i] = at % dims[i];
}

/* The element of the input at the index of a tap in the window of output `out`; -1: padding. */
static inline int64_t tv_window_tap(const tv_window *w, const int64_t out[TV_GRAPH_SPATIAL_MAX],
                                    const int64_t tap[TV_GRAPH_SPATIAL_MAX])
{
    int64_t at = 0;
    for (unsigned i = 0; i < TV_GRAPH_SPATIAL_MAX; i++) {
        int64_t x = out[i] * w->stride[i] - w->pad[i] + tap[i] * w->dilation[i];
        if (x < 0 || x >= w->in[i])
            return -1;
        at = at * w->in[i] + x;
    }
    return at;
}

/* The taps of a window that are inside of the input, in order. */
typedef struct tv_taps {
    int64_t begin[TV_GRAPH_SPATIAL_MAX];                            /* input of tap 0 of each axis */
    int64_t first[TV_GRAPH_SPATIAL_MAX], end[TV_GRAPH_SPATIAL_MAX]; /* taps inside */
    int64_t tap[TV_GRAPH_SPATIAL_MAX];
    bool begun;
} tv_taps;

static inline tv_taps tv_taps_of(const tv_window *w, const int64_t out[TV_GRAPH_SPATIAL_MAX])
{
    tv_taps t = {.begun = false};
    for (unsigned i = 0; i < TV_GRAPH_SPATIAL_MAX; i++) {
        int64_t begin = out[i] * w->stride[i] - w->pad[i], step = w->dilation[i], last = w->in[i] - 1 - begin;
        t.begin[i] = begin;
        t.first[i] = t.tap[i] = begin < 0 ? (step - 1 - begin) / step : 0;
        t.end[i] = last < 0 ? 0 : last / step < w->kernel[i] ? last / step + 1 : w->kernel[i];
    }
    return t;
}

/* Advances to the first or next tap; false at the end. */
static inline bool tv_taps_next(tv_taps *t)
{
    if (!t->begun) {
        t->begun = true;
        return t->first[0] < t->end[0] && t->first[1] < t->end[1] && t->first[2] < t->end[2];
    }
    for (unsigned i = TV_GRAPH_SPATIAL_MAX; i-- > 0; t->tap[i] = t->first[i])
        if (++t->tap[i] < t->end[i])
            return true;
    return false;
}

/* The element of the input at the current tap. */
static inline int64_t tv_taps_input(const tv_taps *t, const tv_window *w)
{
    int64_t at = 0;
    for (unsigned i = 0; i < TV_GRAPH_SPATIAL_MAX; i++)
        at = at * w->in[i] + t->begin[i] + t->tap[i] * w->dilation[i];
    return at;
}

#endif
