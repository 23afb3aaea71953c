/* SPDX-License-Identifier: Apache-2.0 */
/* How RESIZE samples its input; attrs.mode holds it packed. Position x of an output axis of `out` elements is at
 * coordinate u of the input axis of `in` elements, where scale is lists->scale. */
#ifndef TV_GRAPH_RESIZE_H
#define TV_GRAPH_RESIZE_H

#include "base/base.h"

typedef enum tv_resize_method {
    TV_RESIZE_NEAREST,
    TV_RESIZE_LINEAR, /* two elements of each axis */
    TV_RESIZE_CUBIC,  /* four, with coefficient attrs.alpha */
    TV_RESIZE_METHODS
} tv_resize_method;

typedef enum tv_resize_coordinates {
    TV_RESIZE_HALF_PIXEL,           /* u = (x + 1/2) / scale - 1/2 */
    TV_RESIZE_HALF_PIXEL_SYMMETRIC, /* the same, with the centers of both axes at the same point */
    TV_RESIZE_PYTORCH_HALF_PIXEL,   /* half pixel; 0 for an axis of one element */
    TV_RESIZE_ALIGN_CORNERS,        /* u = x (in - 1) / (in scale - 1) */
    TV_RESIZE_ASYMMETRIC,           /* u = x / scale */
    TV_RESIZE_CROP,                 /* corners are lists->crop_begin and crop_end of the axis, as fractions of it; what
                                       is outside of the input becomes attrs.beta (tf_crop_and_resize) */
    TV_RESIZE_COORDINATES
} tv_resize_coordinates;

/* The element that NEAREST takes. */
typedef enum tv_resize_rounding {
    TV_RESIZE_PREFER_FLOOR, /* the nearest; of two the first */
    TV_RESIZE_PREFER_CEIL,  /* the nearest; of two the second */
    TV_RESIZE_FLOOR,
    TV_RESIZE_CEIL,
    TV_RESIZE_ROUNDINGS
} tv_resize_rounding;

typedef struct tv_resize {
    tv_resize_method method;
    tv_resize_coordinates coordinates;
    tv_resize_rounding rounding;
    bool exclude_outside; /* weights of elements outside of the input are 0, and the others scaled to a sum of 1;
                             otherwise the elements at the edge are repeated */
    bool antialias;       /* LINEAR and CUBIC: widen the filter by 1 / scale where scale is below 1 */
} tv_resize;

static inline uint32_t tv_resize_pack(tv_resize m)
{
    return (uint32_t)m.method | (uint32_t)m.coordinates << 4 | (uint32_t)m.rounding << 8 |
           (uint32_t)m.exclude_outside << 12 | (uint32_t)m.antialias << 13;
}

static inline tv_resize tv_resize_unpack(uint32_t mode)
{
    return (tv_resize){.method = (tv_resize_method)(mode & 15),
                       .coordinates = (tv_resize_coordinates)(mode >> 4 & 15),
                       .rounding = (tv_resize_rounding)(mode >> 8 & 15),
                       .exclude_outside = mode >> 12 & 1,
                       .antialias = mode >> 13 & 1};
}

#endif
