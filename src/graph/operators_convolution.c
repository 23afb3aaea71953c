/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of x[n][c][spatial axes], with one to three spatial axes.
 *
 * They are dot products of patches with rows of weights: the patches of TILE positions are gathered once for all output
 * channels of a group, and each sum is in the canonical order (kernels/dot.h), zeros of the padding included. Depthwise
 * ones have no patches; the same sums are computed for many positions at once. Work is shared in units of a tile and
 * BLOCK channels, so results do not depend on the number of threads. */
#include <stdatomic.h>
#include <stdlib.h>

#include "graph/window_walk.h"
#include "kernels/dot.h"

enum { SPATIAL = TV_GRAPH_SPATIAL_MAX, TILE = 8, BLOCK = 64 };

/* Stores count sums of output channel `o` of all groups, at positions from `at` of its plane. */
static void store_sums(const tv_operator_row *r, const tv_window *w, int64_t image, int64_t o, int64_t at,
                       const float *sums, int64_t count)
{
    tv_tensor y = tv_output_tensor(r);
    const float *bias = r->inputs[2], *residual = r->node->op == TV_OP_CONV ? r->inputs[3] : NULL;
    int64_t first = (image * y.dims[1] + o) * w->out_elements + at;
    for (int64_t p = 0; p < count; p++) {
        float sum = sums[p];
        if (bias)
            sum += bias[o];
        if (residual)
            sum += residual[first + p];
        tv_output_f32(r)[first + p] = tv_activate(tv_attrs_of(r), sum);
    }
}

/* Integers are computed modulo 2^32: they end in int32. */
static void store_integers(const tv_operator_row *r, const tv_window *w, int64_t image, int64_t o, int64_t at,
                           const uint32_t *sums, int64_t count)
{
    tv_tensor y = tv_output_tensor(r);
    int64_t first = (image * y.dims[1] + o) * w->out_elements + at;
    uint32_t bias = 0;
    if (r->inputs[2]) {
        tv_tensor b = tv_input_tensor(r, 2);
        bias = (uint32_t)tv_tensor_integer(&b, (uint64_t)o);
    }
    for (int64_t p = 0; p < count; p++)
        tv_tensor_set_integer(&y, (uint64_t)(first + p), (int32_t)(sums[p] + bias));
}

/* ---- By patches ---- */

typedef uint32_t word __attribute__((may_alias)); /* an element of binary32, or an integer */

typedef struct conv_task {
    const tv_operator_row *r;
    tv_window w;
    const void *x, *weights; /* words: elements of binary32, or integers modulo 2^32 */
    bool integers;
    int64_t in, out;       /* channels of a group */
    int64_t channels;      /* of all */
    int64_t size;          /* elements of a patch: [in][kernel] */
    int64_t tiles, blocks; /* of positions, of output channels of a group */
    atomic_bool failed;    /* no memory */
} conv_task;

/* The patches of a tile: [TILE][in][kernel], zeros for padding and past the last position. */
static void fill_patches(const conv_task *t, const word *x, int64_t tile, word *patches)
{
    const tv_window *w = &t->w;
    int64_t position[TILE][SPATIAL], count = w->out_elements - tile * TILE;
    for (int64_t p = 0; p < TILE; p++)
        tv_window_split(p < count ? tile * TILE + p : 0, w->out, position[p]);
    for (int64_t k = 0; k < w->kernel_elements; k++) {
        int64_t tap[SPATIAL], at[TILE];
        tv_window_split(k, w->kernel, tap);
        for (int64_t p = 0; p < TILE; p++)
            at[p] = p < count ? tv_window_tap(w, position[p], tap) : -1;
        for (int64_t c = 0; c < t->in; c++)
            for (int64_t p = 0; p < TILE; p++)
                patches[p * t->size + c * w->kernel_elements + k] = at[p] < 0 ? 0 : x[c * w->in_elements + at[p]];
    }
}

/* The sums of channels [first, end) at the positions of a tile. */
static void multiply_patches(const conv_task *t, const void *patches, int64_t image, int64_t tile, int64_t first,
                             int64_t end)
{
    size_t size = (size_t)t->size;
    int64_t count = t->w.out_elements - tile * TILE < TILE ? t->w.out_elements - tile * TILE : TILE;
    for (int64_t o = first; o < end; o++)
        if (t->integers) {
            uint32_t sums[TILE];
            tv_dots_u32(patches, size, (const uint32_t *)t->weights + o * t->size, size, TILE, sums);
            store_integers(t->r, &t->w, image, o, tile * TILE, sums, count);
        } else {
            float sums[TILE];
            tv_dots_f32(patches, size, (const float *)t->weights + o * t->size, size, TILE, sums);
            store_sums(t->r, &t->w, image, o, tile * TILE, sums, count);
        }
}

static void convolve_patches(void *user, uint64_t from, uint64_t to)
{
    conv_task *t = user;
    void *patches = malloc((size_t)(TILE * t->size) * sizeof(word) + 1);
    int64_t groups = t->channels / t->out, filled = -1;
    if (!patches)
        t->failed = true;
    for (int64_t unit = (int64_t)from; unit < (int64_t)to && patches; unit++) {
        int64_t all = unit / t->blocks, tile = all % t->tiles, group = all / t->tiles % groups,
                image = all / t->tiles / groups;
        if (filled != all)
            fill_patches(t, (const word *)t->x + (image * groups + group) * t->in * t->w.in_elements, tile, patches);
        filled = all;
        int64_t first = unit % t->blocks * BLOCK, end = first + BLOCK < t->out ? first + BLOCK : t->out;
        multiply_patches(t, patches, image, tile, group * t->out + first, group * t->out + end);
    }
    free(patches);
}

/* ---- Depthwise ---- */

/* A plane of the input with its padding: the elements that windows cover. */
typedef struct plane_task {
    const tv_operator_row *r;
    tv_window w;
    int64_t dims[SPATIAL], elements; /* of the plane */
    size_t *taps;                    /* [kernel]: distance of each tap from the first one of a window */
    atomic_bool failed;
} plane_task;

static void fill_plane(const plane_task *t, const float *x, float *plane)
{
    const tv_window *w = &t->w;
    memset(plane, 0, (size_t)t->elements * sizeof *plane);
    for (int64_t i = 0; i < t->dims[0]; i++)
        for (int64_t j = 0; j < t->dims[1]; j++) {
            int64_t a = i - w->pad[0], b = j - w->pad[1], end = w->in[2] + w->pad[2];
            if (a < 0 || a >= w->in[0] || b < 0 || b >= w->in[1])
                continue;
            for (int64_t k = w->pad[2]; k < t->dims[2] && k < end; k++)
                plane[(i * t->dims[1] + j) * t->dims[2] + k] = x[(a * w->in[1] + b) * w->in[2] + k - w->pad[2]];
        }
}

static void convolve_planes(void *user, uint64_t from, uint64_t to)
{
    plane_task *t = user;
    const tv_window *w = &t->w;
    int64_t in = tv_input_tensor(t->r, 0).dims[1], out = tv_output_tensor(t->r).dims[1];
    float *plane = malloc((size_t)(t->elements + w->out[2]) * sizeof *plane + 1), *sums = NULL;
    if (plane)
        sums = plane + t->elements;
    else
        t->failed = true;
    for (int64_t unit = (int64_t)from; unit < (int64_t)to && plane; unit++) {
        int64_t image = unit / out, o = unit % out;
        fill_plane(t, tv_input_f32(t->r, 0) + (image * in + o / (out / in)) * w->in_elements, plane);
        for (int64_t row = 0; row < w->out[0] * w->out[1]; row++) {
            int64_t i = row / w->out[1] * w->stride[0], j = row % w->out[1] * w->stride[1];
            tv_window_dots_f32(plane + (i * t->dims[1] + j) * t->dims[2], (size_t)w->stride[2], t->taps,
                               tv_input_f32(t->r, 1) + o * w->kernel_elements, (size_t)w->kernel_elements,
                               (size_t)w->out[2], sums);
            store_sums(t->r, w, image, o, row * w->out[2], sums, w->out[2]);
        }
    }
    free(plane);
}

/* False when a plane with its padding is much larger than what the windows of the padding read. */
static bool plane_fits(const tv_window *w)
{
    double elements = 1;
    for (unsigned i = 0; i < SPATIAL; i++)
        elements *= (double)w->out[i] * (double)w->stride[i] + (double)w->kernel[i] * (double)w->dilation[i];
    return elements <= 64 + 4 * ((double)w->in_elements + (double)w->out_elements * (double)w->kernel_elements);
}

static bool convolve_depthwise(const tv_operator_row *r, const tv_window *w)
{
    tv_tensor y = tv_output_tensor(r);
    plane_task t = {.r = r, .w = *w, .elements = 1};
    for (unsigned i = 0; i < SPATIAL; i++) {
        t.dims[i] = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        t.elements *= t.dims[i];
    }
    t.taps = malloc((size_t)w->kernel_elements * sizeof *t.taps);
    if (!t.taps)
        return false;
    for (int64_t k = 0; k < w->kernel_elements; k++) {
        int64_t tap[SPATIAL], at = 0;
        tv_window_split(k, w->kernel, tap);
        for (unsigned i = 0; i < SPATIAL; i++)
            at = at * t.dims[i] + tap[i] * w->dilation[i];
        t.taps[k] = (size_t)at;
    }
    tv_operator_share(r, (uint64_t)(y.dims[0] * y.dims[1]), convolve_planes, &t);
    free(t.taps);
    return !t.failed;
}

bool tv_compute_CONV(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    int64_t groups = tv_attrs_of(r)->groups;
    conv_task t = {.r = r, .w = tv_window_of(r), .in = x.dims[1] / groups, .out = y.dims[1] / groups};
    t.integers = !tv_output_is_f32(r);
    t.size = t.in * t.w.kernel_elements;
    t.channels = y.dims[1];
    t.tiles = (t.w.out_elements + TILE - 1) / TILE;
    t.blocks = (t.out + BLOCK - 1) / BLOCK;
    if (!t.integers && t.in == 1 && groups > 1 && plane_fits(&t.w))
        return convolve_depthwise(r, &t.w);
    uint32_t *integers[2] = {NULL, NULL};
    for (unsigned k = 0; k < 2 && t.integers; k++) {
        integers[k] = tv_operator_words(r, k);
        t.failed = t.failed || !integers[k];
    }
    t.x = t.integers ? integers[0] : r->inputs[0];
    t.weights = t.integers ? integers[1] : r->inputs[1];
    if (!t.failed)
        tv_operator_share(r, (uint64_t)(x.dims[0] * groups * t.tiles * t.blocks), convolve_patches, &t);
    free(integers[0]);
    free(integers[1]);
    return !t.failed;
}

/* ---- Transposed convolution ---- */

/* Outputs whose position has the same remainder by the strides are sums of the same taps. Such a class is a product of
 * patches [taps][in] of the input with weights that are packed as [out][taps][in]. */
typedef struct class_task {
    const tv_operator_row *r;
    tv_window w;
    int64_t image, group, in, out; /* channels of the group */
    int64_t first[SPATIAL];        /* position of the first output of the class */
    int64_t count[SPATIAL];        /* outputs of the class along each axis */
    int64_t outputs, taps;
    int64_t (*tap)[SPATIAL]; /* [taps]: distance of its input from the one that the class's position / stride is */
    float *weights;          /* [out][taps][in] */
    atomic_bool failed;
} class_task;

/* True when the tap adds to outputs of the class; `distance` is then that of the input. */
static bool find_distance(const tv_window *w, const int64_t first[SPATIAL], int64_t k, int64_t distance[SPATIAL])
{
    int64_t tap[SPATIAL];
    tv_window_split(k, w->kernel, tap);
    for (unsigned i = 0; i < SPATIAL; i++) {
        int64_t from = first[i] + w->pad[i] - tap[i] * w->dilation[i];
        if (from % w->stride[i])
            return false;
        distance[i] = from / w->stride[i];
    }
    return true;
}

/* Lists the taps of the class and packs their weights. */
static void pack_class(class_task *t)
{
    const tv_window *w = &t->w;
    t->taps = 0;
    for (int64_t k = 0; k < w->kernel_elements; k++)
        t->taps += find_distance(w, t->first, k, t->tap[t->taps]);
    int64_t n = 0;
    for (int64_t k = 0; k < w->kernel_elements; k++) {
        int64_t distance[SPATIAL];
        if (!find_distance(w, t->first, k, distance))
            continue;
        for (int64_t o = 0; o < t->out; o++)
            for (int64_t c = 0; c < t->in; c++)
                t->weights[(o * t->taps + n) * t->in + c] =
                    tv_input_f32(t->r, 1)[((t->group * t->in + c) * t->out + o) * w->kernel_elements + k];
        n++;
    }
}

static void fill_class_patches(const class_task *t, int64_t tile, float *patches)
{
    const tv_window *w = &t->w;
    const float *x =
        tv_input_f32(t->r, 0) + (t->image * tv_input_tensor(t->r, 0).dims[1] + t->group * t->in) * w->in_elements;
    for (int64_t p = 0; p < TILE; p++) {
        int64_t index[SPATIAL];
        tv_window_split(tile * TILE + p < t->outputs ? tile * TILE + p : 0, t->count, index);
        for (int64_t n = 0; n < t->taps; n++) {
            int64_t at = 0;
            for (unsigned i = 0; i < SPATIAL; i++) {
                int64_t from = index[i] + t->tap[n][i];
                at = at < 0 || from < 0 || from >= w->in[i] ? -1 : at * w->in[i] + from;
            }
            for (int64_t c = 0; c < t->in; c++)
                patches[(p * t->taps + n) * t->in + c] = at < 0 ? 0 : x[c * w->in_elements + at];
        }
    }
}

/* Stores sums of TILE outputs of the class. */
static void store_class(const class_task *t, int64_t tile, int64_t o, const float *sums)
{
    const tv_window *w = &t->w;
    for (int64_t p = 0; p < TILE && tile * TILE + p < t->outputs; p++) {
        int64_t index[SPATIAL], at = 0;
        tv_window_split(tile * TILE + p, t->count, index);
        for (unsigned i = 0; i < SPATIAL; i++)
            at = at * w->out[i] + t->first[i] + index[i] * w->stride[i];
        store_sums(t->r, w, t->image, t->group * t->out + o, at, sums + p, 1);
    }
}

static void convolve_class(void *user, uint64_t from, uint64_t to)
{
    class_task *t = user;
    int64_t size = t->taps * t->in;
    float *patches = malloc((size_t)(TILE * size) * sizeof *patches + 1), sums[TILE];
    if (!patches)
        t->failed = true;
    for (int64_t tile = (int64_t)from; tile < (int64_t)to && patches; tile++) {
        fill_class_patches(t, tile, patches);
        for (int64_t o = 0; o < t->out; o++) {
            tv_dots_f32(patches, (size_t)size, t->weights + o * size, (size_t)size, TILE, sums);
            store_class(t, tile, o, sums);
        }
    }
    free(patches);
}

static void convolve_classes(class_task *t)
{
    int64_t classes = 1, strides[SPATIAL];
    for (unsigned i = 0; i < SPATIAL; i++) {
        strides[i] = t->w.stride[i] < t->w.out[i] ? t->w.stride[i] : t->w.out[i];
        classes *= strides[i];
    }
    for (int64_t class = 0; class < classes; class ++) {
        tv_window_split(class, strides, t->first);
        t->outputs = 1;
        for (unsigned i = 0; i < SPATIAL; i++) {
            t->count[i] = (t->w.out[i] - t->first[i] + t->w.stride[i] - 1) / t->w.stride[i];
            t->outputs *= t->count[i];
        }
        pack_class(t);
        tv_operator_share(t->r, (uint64_t)((t->outputs + TILE - 1) / TILE), convolve_class, t);
    }
}

bool tv_compute_CONV_TRANSPOSE(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    int64_t groups = tv_attrs_of(r)->groups;
    class_task t = {.r = r, .w = tv_window_of(r), .in = x.dims[1] / groups, .out = y.dims[1] / groups};
    t.tap = malloc((size_t)(t.w.kernel_elements + 1) * sizeof *t.tap);
    t.weights = malloc((size_t)(t.in * t.out * t.w.kernel_elements) * sizeof *t.weights + 1);
    t.failed = !t.tap || !t.weights;
    for (t.image = 0; t.image < x.dims[0] && !t.failed; t.image++)
        for (t.group = 0; t.group < groups && !t.failed; t.group++)
            convolve_classes(&t);
    free(t.tap);
    free(t.weights);
    return !t.failed;
}
