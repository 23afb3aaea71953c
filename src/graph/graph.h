/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor graph of a network: operators on named values, in topological order. Importers build it, passes rewrite
 * it, the host executes it and every machine lowers it; nothing else describes a network.
 *
 * Language models are executed token by token: values that are computed for each token have TV_DIM_TOKENS as their
 * first extent, and "elements per token" is the product of the others. Other networks have inputs and outputs, which
 * are tensors, and all extents are numbers: they are executed as one token is, and "elements per token" is all
 * elements. ops.def lists the operators. */
#ifndef TV_GRAPH_GRAPH_H
#define TV_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "graph/matrix.h"
#include "graph/tensor.h"

typedef enum tv_graph_op {
#define TV_GRAPH_OP(id, name, class, inputs, optional, shape, attributes, meaning) TV_OP_##id,
#include "graph/ops.def"
#undef TV_GRAPH_OP
    TV_OPS
} tv_graph_op;

enum { TV_GRAPH_INPUTS_MAX = 8, TV_GRAPH_RANK_MAX = TV_TENSOR_RANK_MAX, TV_GRAPH_SPATIAL_MAX = 3 };

#define TV_NO_VALUE UINT32_MAX /* no value: an input that is left out */

/* Symbolic extents. */
enum { TV_DIM_TOKENS = -1, TV_DIM_BATCH = -2 };

typedef struct tv_graph_shape {
    uint32_t rank;                   /* 0: one element */
    int64_t dims[TV_GRAPH_RANK_MAX]; /* at least 0, or symbolic */
} tv_graph_shape;

/* Where a value comes from. */
typedef enum tv_value_source {
    TV_VALUE_COMPUTED,  /* output of a node */
    TV_VALUE_CONSTANT,  /* a matrix, or a tensor */
    TV_VALUE_TOKENS,    /* token numbers of the step, [tokens] */
    TV_VALUE_POSITIONS, /* their positions, [tokens] */
    TV_VALUE_INPUT      /* a tensor that the caller gives */
} tv_value_source;

typedef struct tv_graph_value {
    const char *name; /* "q"; unique within the block */
    uint32_t block;
    tv_element element;
    tv_value_source source;
    tv_graph_shape shape;
    tv_matrix matrix;        /* of CONSTANT of binary32: [rows][last axis] */
    const tv_tensor *tensor; /* of CONSTANT that was given as one; without data for timing. Otherwise NULL */
    uint32_t producer;       /* node, of COMPUTED */
} tv_graph_value;

typedef enum tv_activation {
    TV_ACTIVATION_NONE,
    TV_ACTIVATION_RELU,
    TV_ACTIVATION_SWISH,
    TV_ACTIVATION_GELU,
    TV_ACTIVATION_GELU_TANH,
    TV_ACTIVATION_SIGMOID,
    TV_ACTIVATION_TANH,
    TV_ACTIVATION_CLIP, /* between attrs.alpha and attrs.beta */
    TV_ACTIVATIONS
} tv_activation;

typedef enum tv_pad_mode { TV_PAD_CONSTANT, TV_PAD_EDGE, TV_PAD_REFLECT, TV_PAD_WRAP, TV_PAD_MODES } tv_pad_mode;

/* How an update is combined with the element that it is written to. */
typedef enum tv_scatter_mode {
    TV_SCATTER_REPLACE,
    TV_SCATTER_ADD,
    TV_SCATTER_MUL,
    TV_SCATTER_MAX,
    TV_SCATTER_MIN,
    TV_SCATTER_MODES
} tv_scatter_mode;

/* Attributes that are lists: by axis, or by spatial axis, which are those after batch and channels. */
typedef struct tv_graph_lists {
    uint32_t perm[TV_GRAPH_RANK_MAX];             /* TRANSPOSE: axis i of the output is axis perm[i] of the input */
    int64_t begin[TV_GRAPH_RANK_MAX];             /* SLICE: first element; PAD: elements added before */
    int64_t end[TV_GRAPH_RANK_MAX];               /* PAD: elements added after; negative ones are removed */
    int64_t step[TV_GRAPH_RANK_MAX];              /* SLICE: not 0, may be negative; attrs.shape is the output's */
    double scale[TV_GRAPH_RANK_MAX];              /* RESIZE: output by input extent, or as the file states */
    double crop_begin[TV_GRAPH_RANK_MAX];         /* RESIZE: corners of what TV_RESIZE_CROP samples; 0 is the first */
    double crop_end[TV_GRAPH_RANK_MAX];           /* element of the axis and 1 the last one */
    int64_t kernel[TV_GRAPH_SPATIAL_MAX];         /* windows; of CONV in the shape of the weights, too */
    int64_t stride[TV_GRAPH_SPATIAL_MAX];         /* at least 1 */
    int64_t dilation[TV_GRAPH_SPATIAL_MAX];       /* at least 1 */
    int64_t pad_begin[TV_GRAPH_SPATIAL_MAX];      /* at least 0 */
    int64_t pad_end[TV_GRAPH_SPATIAL_MAX];        /* at least 0 */
    int64_t output_padding[TV_GRAPH_SPATIAL_MAX]; /* CONV_TRANSPOSE: elements added after */
} tv_graph_lists;

/* Attributes of a node. An operator reads those that its row of ops.def lists; the others are 0. */
typedef struct tv_graph_attrs {
    tv_graph_shape shape;        /* RESHAPE, EXPAND, SLICE with lists, RESIZE: of the output */
    const tv_graph_lists *lists; /* copied by the builder; NULL: as the operator's row says */
    uint32_t axis_from_end;      /* CONCAT: 0 is the last one */
    uint32_t axis;               /* GATHER and quantized values: from the first */
    uint32_t mode;               /* by operator */
    tv_element to;               /* CAST and others: the element type of the output */
    float alpha, beta;           /* by operator; activation CLIP: its bounds */
    uint32_t start, end;         /* SLICE; TOP_K: `end` elements */
    float epsilon;               /* norms */
    uint32_t groups;             /* NORM, CONV: at least 1 */
    bool subtract_mean;          /* NORM */
    bool approximate;            /* GELU: by tanh */
    tv_activation activation;    /* LINEAR, GLU, MOE */
    uint32_t heads;              /* ROTARY_EMBEDDING; ATTENTION: of queries */
    float theta;           /* ROTARY_EMBEDDING: frequency of pair i is frequency_scale * theta^(-2 i / rotary_dim) */
    float frequency_scale; /* usually 1 */
    uint32_t rotary_dim;   /* elements of each head that are rotated: the first ones */
    bool interleaved;      /* pairs are (2 i, 2 i + 1), otherwise (i, i + rotary_dim / 2) */
    float scale;           /* ATTENTION: factor of the scores */
    float soft_cap;        /* ATTENTION: c * tanh(score / c) after scaling; 0: none */
    uint32_t window;       /* ATTENTION: positions that a token sees, its own included; 0: all up to its own */
    uint32_t cache;        /* ATTENTION: index of the KV cache */
    uint32_t experts_used; /* MOE */
    bool normalize;        /* MOE: divide the weights of the chosen experts by their sum */
} tv_graph_attrs;

typedef struct tv_graph_node {
    tv_graph_op op;
    uint32_t block;
    uint32_t inputs[TV_GRAPH_INPUTS_MAX]; /* values, or TV_NO_VALUE; those past the operator's number too */
    uint32_t output;
    tv_graph_attrs attrs;
} tv_graph_node;

/* A KV cache: keys and values of all positions, [heads][position][…_dim]. */
typedef struct tv_graph_cache {
    uint32_t heads, key_dim, value_dim;
    uint32_t window; /* positions that the widest reader sees; 0: all */
} tv_graph_cache;

/* Blocks of the network, for names in traces and messages: layers from 0, and what is outside of layers. */
#define TV_BLOCK_INPUT (UINT32_MAX - 1)  /* "token_embd" */
#define TV_BLOCK_OUTPUT (UINT32_MAX - 2) /* "output" */
#define TV_BLOCK_NONE (UINT32_MAX - 3)   /* of networks that are no language models: names have no prefix */

/* A named result; the value may be an input or a constant. */
typedef struct tv_graph_output {
    const char *name;
    uint32_t value;
} tv_graph_output;

typedef struct tv_graph {
    tv_arena arena; /* names and constants */
    TV_VEC(tv_graph_value) values;
    TV_VEC(tv_graph_node) nodes;
    TV_VEC(tv_graph_cache) caches;
    uint32_t layers;         /* blocks 0 to layers - 1 */
    uint32_t context;        /* positions that the network was made for */
    uint32_t logits;         /* the result: [tokens][vocabulary]; TV_NO_VALUE: `outputs` are the results */
    uint32_t *layer_outputs; /* [layers]: the value that ends each layer, in `arena` */
    TV_VEC(uint32_t) inputs; /* values of source INPUT, in the order of the file */
    TV_VEC(tv_graph_output) outputs;
} tv_graph;

typedef enum tv_graph_class {
    TV_CLASS_MOVE,    /* copies elements of its first input, or of all */
    TV_CLASS_UNARY,   /* one function of each element */
    TV_CLASS_BINARY,  /* one function of each pair of elements, repeated to the shape of the output */
    TV_CLASS_REDUCE,  /* of the last axis, which becomes 1 */
    TV_CLASS_NORM,    /* scales vectors of the last axis by what it computes of them */
    TV_CLASS_PRODUCT, /* matrices, convolutions */
    TV_CLASS_WINDOW,  /* of the spatial axes */
    TV_CLASS_MODEL    /* of language models */
} tv_graph_class;

typedef struct tv_graph_op_info {
    const char *name, *attributes, *meaning;
    uint8_t inputs, optional;
    tv_graph_class class;
} tv_graph_op_info;

extern const tv_graph_op_info tv_graph_op_infos[TV_OPS];
extern const char *const tv_activation_names[TV_ACTIVATIONS];

/* ---- Building ----
 *
 * Errors are sticky: after one, functions return TV_NO_VALUE and do nothing; tv_graph_finish returns the status. A node
 * whose inputs do not fit is reported at once, with its name (TV_ERR_INPUT, TV-L043). */

typedef struct tv_graph_builder {
    tv_graph *graph;
    const tv_diag_sink *sink;
    tv_status status;
    uint32_t block; /* of the following nodes and values */
} tv_graph_builder;

/* Starts an empty graph of `layers` layers. */
void tv_graph_begin(tv_graph_builder *b, uint32_t layers, uint32_t context, const tv_diag_sink *sink);

uint32_t tv_graph_tokens(tv_graph_builder *b);
uint32_t tv_graph_positions(tv_graph_builder *b);

/* A constant with the shape [count][rows][columns], without leading ones: a matrix of one row is a vector. The name of
 * the matrix is copied. */
uint32_t tv_graph_constant(tv_graph_builder *b, const char *name, const tv_matrix *matrix);
uint32_t tv_graph_scalar(tv_graph_builder *b, const char *name, float value);

/* A constant tensor. Its data are copied, or, with `share`, must outlive the graph; without data it serves timing. A
 * tensor of binary32 is a matrix, too: the rows are all axes but the last. */
uint32_t tv_graph_tensor(tv_graph_builder *b, const char *name, const tv_tensor *tensor, bool share);

/* An input of the network, of a shape without symbolic extents. */
uint32_t tv_graph_input(tv_graph_builder *b, const char *name, tv_element element, const tv_graph_shape *shape);

/* Adds a result. Its name is copied. */
void tv_graph_add_output(tv_graph_builder *b, const char *name, uint32_t value);

/* Appends a cache; returns its index. */
uint32_t tv_graph_add_cache(tv_graph_builder *b, tv_graph_cache cache);

/* Appends a node; returns its output. `name` is copied. `inputs` has `count` values, of which optional ones may be
 * TV_NO_VALUE. `attrs` may be NULL. */
uint32_t tv_graph_add(tv_graph_builder *b, tv_graph_op op, const char *name, const uint32_t *inputs, uint32_t count,
                      const tv_graph_attrs *attrs);
uint32_t tv_graph_add1(tv_graph_builder *b, tv_graph_op op, const char *name, uint32_t input);
uint32_t tv_graph_add2(tv_graph_builder *b, tv_graph_op op, const char *name, uint32_t first, uint32_t second);

/* Ends the current layer with a value. */
void tv_graph_end_layer(tv_graph_builder *b, uint32_t output);

/* Ends the graph; verifies it. `logits` is TV_NO_VALUE where the graph has outputs. On failure frees it. The caller
 * frees the result with tv_graph_free. */
tv_status tv_graph_finish(tv_graph_builder *b, uint32_t logits, tv_graph **out);

/* Frees a graph that is not finished, after an error of the caller's. */
void tv_graph_abandon(tv_graph_builder *b);

void tv_graph_free(tv_graph *graph); /* NULL is allowed */

/* ---- Reading ---- */

static inline tv_graph_value *tv_graph_value_at(const tv_graph *graph, uint32_t value)
{
    return &graph->values.data[value];
}

static inline const tv_graph_node *tv_graph_node_at(const tv_graph *graph, uint32_t node)
{
    return &graph->nodes.data[node];
}

/* The matrix of a constant value. */
static inline const tv_matrix *tv_graph_matrix(const tv_graph *graph, uint32_t value)
{
    return &graph->values.data[value].matrix;
}

/* Number of inputs up to the last one that is given. */
uint32_t tv_graph_input_count(const tv_graph_node *node);

/* True for a language model, which is executed token by token. */
static inline bool tv_graph_has_tokens(const tv_graph *graph) { return graph->logits != TV_NO_VALUE; }

/* The tensor type of a value for one token: element type and extents, without data. */
tv_tensor tv_graph_tensor_of(const tv_graph *graph, uint32_t value);

/* Extent of the last axis; 1 for scalars. */
uint32_t tv_graph_columns(const tv_graph *graph, uint32_t value);

/* Elements of a value for one token: the product of the extents that are not symbolic. */
uint64_t tv_graph_elements(const tv_graph *graph, uint32_t value);

/* True when the value is computed for each token. */
bool tv_graph_per_token(const tv_graph *graph, uint32_t value);

/* Number of nodes that read a value; the result of the graph counts as one more. */
uint32_t tv_graph_uses(const tv_graph *graph, uint32_t value);

/* Words of the vocabulary, that is, columns of the result. */
static inline uint32_t tv_graph_vocabulary(const tv_graph *graph) { return tv_graph_columns(graph, graph->logits); }

/* The block that a node belongs to, named as in model files: "token_embd", "blk.3", "output". Lowerings label their
 * instructions with it for traces. */
enum { TV_BLOCK_NAME_MAX = 16 };
void tv_graph_block_name(uint32_t block, char text[TV_BLOCK_NAME_MAX]);

/* "blk.3.q": the full name of a value, for messages. */
enum { TV_VALUE_NAME_MAX = 96 };
void tv_graph_value_name(const tv_graph *graph, uint32_t value, char text[TV_VALUE_NAME_MAX]);

/* Checks that every value is written exactly once and before it is read, that each node has the inputs of its operator
 * and an output of the shape that follows from them, and that the result is computed. TV_ERR_INPUT with TV-L043: a node
 * is invalid. */
tv_status tv_graph_verify(const tv_graph *graph, const tv_diag_sink *sink);

/* Shape and element type of the output of an operator, in out->shape and out->element. False: the inputs do not fit,
 * and `problem` is a static text that says why. */
bool tv_graph_infer(const tv_graph *graph, const tv_graph_node *node, tv_graph_value *out, const char **problem);

/* Appends one line per node: "%3.q = Linear(%3.xn, blk.3.attn_q)  [tokens x 128]". */
void tv_graph_print(const tv_graph *graph, tv_buf *out);

/* Number of elements of the constants that are weights of a model file, or would be in one; a matrix that is embedding
 * and classifier counts once. */
uint64_t tv_graph_parameters(const tv_graph *graph);

/* Work of a node for one token: operations (a multiply-add is two), and bytes of constants that it reads at `bits` bits
 * a weight. Attention counts `positions` positions. */
typedef struct tv_graph_cost {
    uint64_t operations, weight_bytes;
} tv_graph_cost;
tv_graph_cost tv_graph_node_cost(const tv_graph *graph, const tv_graph_node *node, uint32_t positions, unsigned bits);

#endif
