/* SPDX-License-Identifier: Apache-2.0 */
/* Resize and Upsample. */
#include <inttypes.h>

#include "graph/resize.h"
#include "import/onnx_table.h"

/* Texts of attributes, in the order of the enumerations. */
static const char *const methods[] = {"nearest", "linear", "cubic"};
static const char *const coordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                          "align_corners", "asymmetric",           "tf_crop_and_resize"};
static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

static uint32_t choice(const tv_onnx_node *n, const char *name, const char *const *texts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (tv_onnx_text_is(n, name, texts[0], texts[i]))
            return i;
    tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the attribute '%s' has a value that is not supported", name);
    return 0;
}

static tv_resize read_mode(const tv_onnx_node *n)
{
    tv_resize m = {.method = (tv_resize_method)choice(n, "mode", methods, TV_RESIZE_METHODS)};
    m.coordinates =
        (tv_resize_coordinates)choice(n, "coordinate_transformation_mode", coordinates, TV_RESIZE_COORDINATES);
    m.rounding = (tv_resize_rounding)choice(n, "nearest_mode", roundings, TV_RESIZE_ROUNDINGS);
    m.exclude_outside = tv_onnx_int(n, "exclude_outside", 0) != 0;
    m.antialias = tv_onnx_int(n, "antialias", 0) != 0;
    return m;
}

/* The axes that are resized: all, or those of the attribute. */
typedef struct axes {
    uint32_t list[TV_GRAPH_RANK_MAX], count;
} axes;

static axes read_axes(const tv_onnx_node *n, uint32_t rank)
{
    tv_onnx_list list = tv_onnx_ints(n, "axes");
    axes out = {.count = list.data ? (uint32_t)list.count : rank};
    if (list.data && list.count > rank)
        tv_onnx_reject(n, TV_ONNX_INVALID, "there are more axes than the input has");
    for (uint32_t i = 0; i < out.count && tv_onnx_ok(n); i++)
        out.list[i] = list.data ? tv_onnx_axis(n, list.data[i], rank) : i;
    return out;
}

/* Real numbers of a constant input, one for each axis or `factor` times as many; NULL: none, or an error. */
static const tv_tensor *numbers(const tv_onnx_node *n, size_t input, const axes *a, uint32_t factor)
{
    if (!tv_onnx_has(n, input))
        return NULL;
    const tv_tensor *t = tv_onnx_data(n, tv_onnx_input(n, input));
    if (!t)
        tv_onnx_reject(n, TV_ONNX_DYNAMIC, "the input '%.100s' must be a constant", n->proto->input[input]);
    else if (tv_tensor_count(t) && tv_tensor_count(t) != (uint64_t)a->count * factor)
        tv_onnx_reject(n, TV_ONNX_INVALID, "the input '%.100s' has not a number for each axis", n->proto->input[input]);
    return tv_onnx_ok(n) && tv_tensor_count(t) ? t : NULL;
}

/* Sizes with the aspect ratio of the input: one scale for all axes, the smallest or the largest one. */
static void keep_ratio(tv_graph_attrs *attrs, tv_graph_lists *l, const tv_graph_shape *in, const axes *a, bool larger)
{
    double scale = l->scale[a->list[0]];
    for (uint32_t i = 1; i < a->count; i++)
        if (larger ? l->scale[a->list[i]] > scale : l->scale[a->list[i]] < scale)
            scale = l->scale[a->list[i]];
    for (uint32_t i = 0; i < a->count; i++) {
        l->scale[a->list[i]] = scale;
        attrs->shape.dims[a->list[i]] = (int64_t)(scale * (double)in->dims[a->list[i]] + 0.5);
    }
}

static void read_sizes(const tv_onnx_node *n, tv_graph_attrs *attrs, tv_graph_lists *l, const axes *a,
                       const tv_tensor *sizes)
{
    tv_graph_shape in = attrs->shape;
    for (uint32_t i = 0; i < a->count; i++) {
        int64_t out = tv_tensor_integer(sizes, i), extent = in.dims[a->list[i]];
        if (out < 0 || out >= INT32_MAX)
            tv_onnx_reject(n, TV_ONNX_INVALID, "the extent %" PRId64 " is out of range", out);
        attrs->shape.dims[a->list[i]] = tv_onnx_ok(n) ? out : 0;
        l->scale[a->list[i]] = extent ? (double)out / (double)extent : 1;
    }
    bool larger = tv_onnx_text_is(n, "keep_aspect_ratio_policy", "stretch", "not_smaller"),
         smaller = tv_onnx_text_is(n, "keep_aspect_ratio_policy", "stretch", "not_larger");
    if ((larger || smaller) && a->count && tv_onnx_ok(n))
        keep_ratio(attrs, l, &in, a, larger);
}

/* The extents are products in binary32, as ONNX Runtime computes them, rounded down. */
static void read_scales(const tv_onnx_node *n, tv_graph_attrs *attrs, tv_graph_lists *l, const axes *a,
                        const tv_tensor *scales)
{
    bool crop = tv_resize_unpack(attrs->mode).coordinates == TV_RESIZE_CROP;
    for (uint32_t i = 0; i < a->count && tv_onnx_ok(n); i++) {
        uint32_t axis = a->list[i];
        double scale = tv_tensor_real(scales, i), range = crop ? l->crop_end[axis] - l->crop_begin[axis] : 1;
        float extent = (float)attrs->shape.dims[axis] * (float)range * (float)scale;
        if (!(scale > 0) || !(extent >= 0 && extent < 0x1p31F))
            tv_onnx_reject(n, TV_ONNX_INVALID, "the scale %g is out of range", scale);
        l->scale[axis] = scale;
        attrs->shape.dims[axis] = tv_onnx_ok(n) ? (int64_t)extent : 0;
    }
}

static void read_crops(tv_graph_lists *l, const axes *a, const tv_tensor *corners)
{
    for (uint32_t i = 0; i < a->count && corners; i++) {
        l->crop_begin[a->list[i]] = tv_tensor_real(corners, i);
        l->crop_end[a->list[i]] = tv_tensor_real(corners, a->count + i);
    }
}

/* Starts with the shape of the input, and scales of 1. */
static tv_graph_attrs begin(const tv_onnx_node *n, uint32_t x, tv_resize mode, tv_graph_lists *l)
{
    tv_graph_attrs attrs = {.shape = tv_onnx_dims(n, x), .lists = l, .mode = tv_resize_pack(mode)};
    *l = (tv_graph_lists){0};
    for (uint32_t i = 0; i < attrs.shape.rank; i++)
        l->scale[i] = l->crop_end[i] = 1;
    return attrs;
}

void tv_onnx_import_resize(tv_onnx_node *n)
{
    tv_graph_lists lists;
    uint32_t x = tv_onnx_input(n, 0);
    tv_graph_attrs attrs = begin(n, x, read_mode(n), &lists);
    axes a = read_axes(n, attrs.shape.rank);
    attrs.alpha = tv_onnx_float(n, "cubic_coeff_a", -0.75F);
    attrs.beta = tv_onnx_float(n, "extrapolation_value", 0);
    bool crop = tv_resize_unpack(attrs.mode).coordinates == TV_RESIZE_CROP;
    const tv_tensor *corners = crop ? numbers(n, 1, &a, 2) : NULL, *scales = numbers(n, 2, &a, 1),
                    *sizes = numbers(n, 3, &a, 1);
    if (tv_onnx_ok(n) && (!scales == !sizes || (crop && !corners)))
        tv_onnx_reject(n, TV_ONNX_INVALID, "either scales or sizes are needed, and corners for tf_crop_and_resize");
    if (!tv_onnx_ok(n))
        return;
    read_crops(&lists, &a, corners);
    if (sizes)
        read_sizes(n, &attrs, &lists, &a, sizes);
    else
        read_scales(n, &attrs, &lists, &a, scales);
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_RESIZE, &x, 1, &attrs));
}

/* Resize of opset 10 and Upsample sample x / scale, the nearest element below. */
void tv_onnx_import_upsample(tv_onnx_node *n)
{
    tv_graph_lists lists;
    uint32_t x = tv_onnx_input(n, 0);
    tv_resize mode = {.method = (tv_resize_method)choice(n, "mode", methods, TV_RESIZE_CUBIC),
                      .coordinates = TV_RESIZE_ASYMMETRIC,
                      .rounding = TV_RESIZE_FLOOR};
    tv_graph_attrs attrs = begin(n, x, mode, &lists);
    axes a = read_axes(n, attrs.shape.rank);
    const Onnx__AttributeProto *given = n->opset < 9 ? tv_onnx_attribute(n, "scales") : NULL;
    tv_tensor listed = {.element = TV_ELEMENT_F32, .rank = 1};
    const tv_tensor *scales = n->opset < 9 ? &listed : numbers(n, 1, &a, 1);
    if (given) {
        listed.data = given->floats;
        listed.dims[0] = (int64_t)given->n_floats;
    }
    if (tv_onnx_ok(n) && (!scales || tv_tensor_count(scales) != a.count))
        tv_onnx_reject(n, TV_ONNX_INVALID, "there is not a scale for each axis");
    if (!tv_onnx_ok(n))
        return;
    read_scales(n, &attrs, &lists, &a, scales);
    tv_onnx_output(n, 0, tv_onnx_emit(n, TV_OP_RESIZE, &x, 1, &attrs));
}
