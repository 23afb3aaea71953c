/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the lowering of networks that are no language models. It uses the emitter, the functions and the
 * operators of one token of the language models, whose model it has.
 *
 * A value is an array of words in the order of the graph: FP32 for real numbers, 32-bit integers for others. Buffers
 * have room for one more vector: the last vector of a row may exceed it, and what follows is written later. Products
 * round their operands to 8 bits: activations with the range of the calibration, weights with a scale for each output
 * channel. The 8-bit copies ("planes") are buffers of their own, in the order in which the array needs them. */
#ifndef TV_LOWER_OPENNPU_NETWORK_STATE_H
#define TV_LOWER_OPENNPU_NETWORK_STATE_H

#include "graph/network.h"
#include "lower/opennpu/functions.h"
#include "lower/opennpu/token.h"

enum { OPENNPU_NET_PLAN_MAX = 120, OPENNPU_NET_FILE_MAX = 24, OPENNPU_NET_ALIGNMENT = 64 };

typedef struct opennpu_net_value {
    uint32_t storage; /* value whose memory it shares; itself otherwise */
    bool used;        /* in data memory */
    bool by_rows;     /* read by products as rows: needs planes */
    bool planes_made; /* in this run */
    uint64_t planes;  /* 8-bit copy: [block of K rows][column][K]; of one row [column] */
    tv_tensor tensor; /* of the host */
    bool owned;       /* `tensor` is released with the state */
    bool read;        /* `tensor` has the value of this run */
} opennpu_net_value;

/* Taps along an axis: tap t of output o reads element o * stride + first + t * step, or 0 outside of the input. */
typedef struct opennpu_net_axis {
    uint32_t in, out, stride, taps;
    int32_t first, step;
} opennpu_net_axis;

/* 8-bit planes of an image x[channel][h][w] for a convolution: [channel][tap along w][row modulo the stride][row]
 * [column of the output], so that the pixels of one tap are consecutive. If pixels are those of the output,
 * [block of K pixels][channel][K]. */
typedef struct opennpu_net_planes {
    opennpu_net_axis h, w;
    uint32_t channels;
    bool pointwise;
    uint32_t phases, rows; /* rows modulo the stride; rows of each */
    uint64_t bytes;        /* of a plane */
    uint32_t margin;       /* before the 8-bit copy of one channel, which follows the planes */
    uint64_t at, masks;    /* addresses; masks: [tap along w][columns of the output, and K more] */
} opennpu_net_planes;

typedef struct opennpu_net_node {
    const char *problem;               /* what the machine lacks: the host computes it */
    bool alias;                        /* the output shares the memory of the input */
    uint64_t weights, scales, vectors; /* constants; `vectors`: bounds of Clip, gains and bias, masks */
    uint64_t scratch, scratch_bytes;
    uint64_t tiles; /* of the array */
    char plan[OPENNPU_NET_PLAN_MAX];
} opennpu_net_node;

typedef struct opennpu_net_file {
    char name[OPENNPU_NET_FILE_MAX];
    uint32_t layer;
} opennpu_net_file;

typedef struct opennpu_network {
    opennpu_lower_model m;
    opennpu_lower_token tok;
    const tv_graph *graph;
    const tv_diag_sink *sink; /* of the call */
    opennpu_net_value *values;
    opennpu_net_node *nodes;
    uint64_t *xs;    /* scratch of products: addresses of activations */
    size_t list_max; /* elements of `xs` and of tok.list */
    tv_program *program;
    bool keep_values, explain, continues;
    const char *emit;
    tv_output_group *outputs;
    const float *ranges; /* while the state is created */
    float *units;        /* of the 8-bit copy of each value */
    tv_llm_progress progress;
    uint64_t one_hot; /* 2 K - 1 bytes, of which one is 1 */
    tv_layer *layers;
    size_t layer_count;
    tv_stats before; /* of the machine, at the end of the previous layer */
    tv_energy energy_before;
    uint32_t programs;
    TV_VEC(opennpu_net_file) files;
    TV_VEC(tv_network_program) written;
} opennpu_network;

/* What the machine has for an operator. `check` returns what is missing, `plan` reserves constants and scratch space,
 * `upload` writes the constants; they may be NULL. */
typedef struct opennpu_net_operator {
    void (*emit)(opennpu_network *net, uint32_t node);
    const char *(*check)(const opennpu_network *net, const tv_graph_node *n);
    void (*plan)(opennpu_network *net, uint32_t node);
    tv_status (*upload)(opennpu_network *net, uint32_t node);
    bool any_type; /* `check` decides about operands that are no real numbers */
} opennpu_net_operator;

extern const opennpu_net_operator opennpu_net_operators[TV_OPS];

static inline const tv_graph_node *opennpu_net_node_at(const opennpu_network *net, uint32_t node)
{
    return tv_graph_node_at(net->graph, node);
}
static inline const tv_graph_shape *opennpu_net_dims(const opennpu_network *net, uint32_t value)
{
    return &tv_graph_value_at(net->graph, value)->shape;
}
static inline bool opennpu_net_is_constant(const opennpu_network *net, uint32_t value)
{
    return tv_graph_value_at(net->graph, value)->source == TV_VALUE_CONSTANT;
}
static inline bool opennpu_net_is_real(const opennpu_network *net, uint32_t value)
{
    return tv_is_real_element(tv_graph_value_at(net->graph, value)->element);
}
static inline uint64_t opennpu_net_at(const opennpu_network *net, uint32_t value) { return net->m.values[value].at; }
static inline uint32_t opennpu_net_blocks(const opennpu_network *net, uint64_t n)
{
    return (uint32_t)((n + net->m.k - 1) / net->m.k);
}

/* ---- network_plan.c ---- */

/* Checks the nodes and allocates data memory. */
tv_status opennpu_net_plan(opennpu_network *net);

/* ---- network_upload.c ---- */

tv_status opennpu_net_upload(opennpu_network *net, const tv_llm_progress *progress);

/* ---- network_memory.c ---- */

/* Address of `bytes` bytes that programs only read, with room for another vector. */
uint64_t opennpu_net_reserve(opennpu_network *net, uint64_t bytes);

uint32_t opennpu_net_word_of(double x);

/* All elements of a constant as binary32; zeros without data. The caller frees them. */
tv_status opennpu_net_read_constant(const opennpu_network *net, uint32_t value, float **out);
tv_status opennpu_net_write_words(const opennpu_network *net, uint64_t at, const float *x, size_t count);
tv_status opennpu_net_write_bytes(const opennpu_network *net, uint64_t at, const void *data, size_t bytes);

/* Stores steps[count][K] of weights in the order of opennpu_net_list. */
void opennpu_net_interleave(const opennpu_network *net, const int8_t *steps, size_t count, uint8_t *out);

/* ---- network_products.c ---- */

/* Lists products of `count` columns of weights at `w` with the vectors at net->xs; returns their number. */
size_t opennpu_net_list(opennpu_network *net, uint64_t w, size_t count, bool transposed);

/* to[count] = from[count] / unit, rounded to 8 bits. Clobbers VR 0 to 3 and 7. */
void opennpu_net_quantize(opennpu_network *net, uint64_t from, uint64_t to, uint64_t count, float unit);

/* ---- Operators ---- */

void opennpu_net_emit_linear(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_linear(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_plan_linear(opennpu_network *net, uint32_t node);
tv_status opennpu_net_upload_linear(opennpu_network *net, uint32_t node);
void opennpu_net_emit_matmul(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_matmul(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_plan_matmul(opennpu_network *net, uint32_t node);

void opennpu_net_emit_conv(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_conv(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_plan_conv(opennpu_network *net, uint32_t node);
tv_status opennpu_net_upload_conv(opennpu_network *net, uint32_t node);

void opennpu_net_emit_pool(opennpu_network *net, uint32_t node);
void opennpu_net_plan_pool(opennpu_network *net, uint32_t node);
tv_status opennpu_net_upload_pool(opennpu_network *net, uint32_t node);

/* Consecutive elements of the output; operands are consecutive elements, too, or one for all. */
typedef struct opennpu_net_run {
    uint64_t at[3], out, count;
    bool repeated[3];
} opennpu_net_run;

/* Calls `emit` for the runs of the output of an elementwise node, in order. */
void opennpu_net_each_run(opennpu_network *net, const tv_graph_node *n, unsigned operands,
                          void (*emit)(opennpu_network *net, const tv_graph_node *n, const opennpu_net_run *run));

void opennpu_net_emit_words(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_words(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_emit_arithmetic(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_arithmetic(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_emit_where(opennpu_network *net, uint32_t node);
void opennpu_net_emit_cast(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_cast(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_emit_power(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_power(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_emit_log_softmax(opennpu_network *net, uint32_t node);
void opennpu_net_plan_log_softmax(opennpu_network *net, uint32_t node);
void opennpu_net_emit_index(opennpu_network *net, uint32_t node);
void opennpu_net_plan_index(opennpu_network *net, uint32_t node);
tv_status opennpu_net_upload_index(opennpu_network *net, uint32_t node);

/* VR 0 = the natural logarithm of VR 0. Clobbers VR 1 to 3 and 7. */
void opennpu_net_log(opennpu_lower_emitter *e);

void opennpu_net_emit_binary(opennpu_network *net, uint32_t node);
void opennpu_net_emit_unary(opennpu_network *net, uint32_t node);
void opennpu_net_emit_rows(opennpu_network *net, uint32_t node);
void opennpu_net_emit_norm(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_norm(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_plan_norm(opennpu_network *net, uint32_t node);
tv_status opennpu_net_upload_norm(opennpu_network *net, uint32_t node);

void opennpu_net_emit_move(opennpu_network *net, uint32_t node);
const char *opennpu_net_check_move(const opennpu_network *net, const tv_graph_node *n);
void opennpu_net_emit_gather(opennpu_network *net, uint32_t node);

/* x[elements] = activation(x) */
void opennpu_net_activate(opennpu_network *net, const tv_graph_attrs *attrs, uint64_t x, uint64_t elements);

/* x[elements] += y[elements] */
void opennpu_net_add(opennpu_network *net, uint64_t x, uint64_t y, uint64_t elements);

/* ---- network_planes.c ---- */

/* Taps of a window along the axes of an image: one spatial axis is the second one. False: there are more than two. */
bool opennpu_net_axes(const opennpu_network *net, const tv_graph_node *n, opennpu_net_axis axes[2]);

/* What the machine lacks for the window of a node, or NULL: axes, and sizes that only hostile networks have. */
const char *opennpu_net_check_window(const opennpu_network *net, const tv_graph_node *n);

/* The sizes of planes; returns the bytes of scratch space that they take. */
uint64_t opennpu_net_size_planes(const opennpu_network *net, opennpu_net_planes *p);
uint64_t opennpu_net_mask_bytes(const opennpu_network *net, const opennpu_net_planes *p);
tv_status opennpu_net_upload_masks(const opennpu_network *net, const opennpu_net_planes *p);

/* Makes the planes of an image at `x`, whose 8-bit numbers are multiples of `unit`. */
void opennpu_net_make_planes(opennpu_network *net, const opennpu_net_planes *p, uint64_t x, float unit);

/* Address of the first pixel of a block in the plane of a channel and two taps. */
uint64_t opennpu_net_plane_at(const opennpu_network *net, const opennpu_net_planes *p, uint32_t channel, uint32_t tap_h,
                              uint32_t tap_w, uint64_t pixel);

#endif
