/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions that import operators share: the file under import, the node, its inputs and attributes, and what
 * adds to the graph.
 *
 * Errors are sticky: after the first one, which is reported, functions return TV_NO_VALUE and do nothing. */
#ifndef TV_IMPORT_ONNX_NODES_H
#define TV_IMPORT_ONNX_NODES_H

#include "graph/graph.h"
#include "import/onnx_file.h"
#include "import/onnx_options.h"

enum { TV_ONNX_OPSET_MAX = 21, TV_ONNX_INTEGERS_MAX = 64 };

/* A tensor name of the file. */
typedef struct tv_onnx_name {
    const char *name;
    uint32_t value;                       /* TV_NO_VALUE: not computed yet */
    const Onnx__TensorProto *initializer; /* becomes a constant when it is first read; or NULL */
} tv_onnx_name;

/* Hash table with open addresses. */
typedef struct tv_onnx_names {
    tv_onnx_name *slots;
    size_t mask; /* number of slots - 1 */
} tv_onnx_names;

/* The data of a constant of the graph under construction. */
typedef struct tv_onnx_storage {
    uint32_t value;
    void *data;
} tv_onnx_storage;

typedef struct tv_onnx_context {
    const tv_onnx *file;
    const tv_onnx_options *options;
    const tv_diag_sink *sink;
    tv_status status;
    tv_graph_builder builder; /* of a graph whose constants are in `storage` */
    tv_onnx_names names;
    TV_VEC(tv_onnx_storage) storage; /* by value, ascending */
    TV_VEC(uint32_t) transposed;     /* of each value: its transposed constant, or TV_NO_VALUE */
    uint64_t bytes_left, work_left;  /* of what is computed during the import */
    int64_t opset, opset_microsoft;  /* 0: not stated */
} tv_onnx_context;

struct tv_onnx_op;

typedef struct tv_onnx_node {
    tv_onnx_context *c;
    const Onnx__NodeProto *proto;
    const struct tv_onnx_op *row;
    uint32_t index; /* in the file */
    int64_t opset;  /* of its domain */
    uint32_t first; /* values from this number on are the node's own */
    uint32_t made;  /* number of values */
} tv_onnx_node;

/* ---- Errors, onnx_report.c ---- */

typedef enum tv_onnx_problem { TV_ONNX_INVALID, TV_ONNX_UNSUPPORTED, TV_ONNX_DYNAMIC } tv_onnx_problem;

/* Reports a problem of a node, with path, number, name, operator and opset. Returns TV_NO_VALUE. */
uint32_t tv_onnx_reject(const tv_onnx_node *n, tv_onnx_problem problem, const char *format, ...) TV_PRINTF(3, 4);
uint32_t tv_onnx_fail_memory(tv_onnx_context *c);
bool tv_onnx_ok(const tv_onnx_node *n);

/* ---- Names, onnx_names.c ---- */

/* Room for `count` names. False: out of memory. */
bool tv_onnx_names_init(tv_onnx_names *names, size_t count);
/* The slot of a name; its `name` is NULL when it is new. */
tv_onnx_name *tv_onnx_names_find(const tv_onnx_names *names, const char *name);

/* ---- Attributes, onnx_attributes.c; NULL: the node has none of this name ---- */

typedef struct tv_onnx_list {
    const int64_t *data; /* NULL: not given */
    size_t count;
} tv_onnx_list;

const Onnx__AttributeProto *tv_onnx_attribute(const tv_onnx_node *n, const char *name);
int64_t tv_onnx_int(const tv_onnx_node *n, const char *name, int64_t missing);
float tv_onnx_float(const tv_onnx_node *n, const char *name, float missing);
tv_onnx_list tv_onnx_ints(const tv_onnx_node *n, const char *name);
/* True when the text of the attribute, or of a missing one, is `text`. */
bool tv_onnx_text_is(const tv_onnx_node *n, const char *name, const char *missing, const char *text);

/* ---- Inputs, onnx_inputs.c ---- */

/* Reads the tensor of a name that has an initializer, if it is not read yet. */
void tv_onnx_read_initializer(tv_onnx_context *c, tv_onnx_name *entry);
/* The value of an input; TV_NO_VALUE: left out. */
uint32_t tv_onnx_input(const tv_onnx_node *n, size_t input);
bool tv_onnx_has(const tv_onnx_node *n, size_t input);
bool tv_onnx_has_output(const tv_onnx_node *n, size_t output);
/* Shape and type of a value; of TV_NO_VALUE those of a scalar. */
tv_graph_shape tv_onnx_dims(const tv_onnx_node *n, uint32_t value);
tv_element tv_onnx_element(const tv_onnx_node *n, uint32_t value);
uint64_t tv_onnx_count(const tv_onnx_node *n, uint32_t value);
/* The tensor of a constant that has data; otherwise NULL. */
const tv_tensor *tv_onnx_data(const tv_onnx_node *n, uint32_t value);
bool tv_onnx_is_constant(const tv_onnx_node *n, uint32_t value);
/* Reads the integers of an input whose data the shape of the output depends on; rejects others. Returns their number.
 */
size_t tv_onnx_integers(const tv_onnx_node *n, size_t input, int64_t out[TV_ONNX_INTEGERS_MAX]);
/* The number of such an input. */
int64_t tv_onnx_integer(const tv_onnx_node *n, size_t input, int64_t missing);
/* The same of real numbers. */
double tv_onnx_real(const tv_onnx_node *n, size_t input, double missing);
/* An attribute, or the constant of an input where that is given (`input` 0: none). */
tv_onnx_list tv_onnx_ints_or_input(const tv_onnx_node *n, const char *name, size_t input,
                                   int64_t buffer[TV_ONNX_INTEGERS_MAX]);
/* An axis from -rank to rank - 1, made nonnegative; 0 after an error. */
uint32_t tv_onnx_axis(const tv_onnx_node *n, int64_t axis, uint32_t rank);
/* The set of axes in a list, as bits. */
uint32_t tv_onnx_axes(const tv_onnx_node *n, tv_onnx_list list, uint32_t rank);

/* Gives output `output` of the node its value. */
void tv_onnx_output(tv_onnx_node *n, size_t output, uint32_t value);

/* ---- Constants, onnx_constants.c ---- */

/* Adds a constant and owns the tensor's storage. `name` is copied. */
uint32_t tv_onnx_add_constant(tv_onnx_context *c, const char *name, const tv_tensor *tensor);
/* Extents are at most INT32_MAX, and products of any of them do not overflow. */
bool tv_onnx_dims_fit(tv_element element, uint32_t rank, const int64_t *dims);
/* Takes `bytes` from what the import may compute; false: more than is left. */
bool tv_onnx_take_bytes(tv_onnx_context *c, uint64_t bytes);

/* ---- Building, onnx_emit.c ---- */

/* Adds an operator; computes it when all of its inputs are constants. */
uint32_t tv_onnx_emit(tv_onnx_node *n, tv_graph_op op, const uint32_t *inputs, uint32_t count,
                      const tv_graph_attrs *attrs);
uint32_t tv_onnx_emit1(tv_onnx_node *n, tv_graph_op op, uint32_t x);
uint32_t tv_onnx_emit2(tv_onnx_node *n, tv_graph_op op, uint32_t a, uint32_t b);

/* ---- Common forms, onnx_forms.c ---- */

uint32_t tv_onnx_reshape(tv_onnx_node *n, uint32_t x, const tv_graph_shape *to);
uint32_t tv_onnx_transpose(tv_onnx_node *n, uint32_t x, const uint32_t *perm);
uint32_t tv_onnx_expand(tv_onnx_node *n, uint32_t x, const tv_graph_shape *to);
uint32_t tv_onnx_cast(tv_onnx_node *n, uint32_t x, tv_element to);
/* Exchanges the axes of a matrix; of a constant once for all of its readers. The matrix of a product is binary32. */
uint32_t tv_onnx_matrix_transpose(tv_onnx_node *n, uint32_t x);
/* A constant of one element, of rank 0. */
uint32_t tv_onnx_scalar(tv_onnx_node *n, tv_element element, double value);
uint32_t tv_onnx_integer_scalar(tv_onnx_node *n, tv_element element, int64_t value);
/* A constant with `first`, `first` + `step`, ..., of rank 1. */
uint32_t tv_onnx_iota(tv_onnx_node *n, tv_element element, uint64_t count, double first, double step);
/* A constant tensor of zeros with data to fill; NULL in out->data: no. */
bool tv_onnx_tensor_init(tv_onnx_node *n, tv_element element, const tv_graph_shape *dims, tv_tensor *out);
uint32_t tv_onnx_tensor(tv_onnx_node *n, tv_tensor *tensor);
/* Moves the axes of a set to the end and makes one axis of them: [...][product]; `perm` receives the order. */
uint32_t tv_onnx_axes_last(tv_onnx_node *n, uint32_t x, uint32_t axes, uint32_t perm[TV_GRAPH_RANK_MAX]);
/* The way back, for a value of the same elements; `dims` are those of x. */
uint32_t tv_onnx_axes_back(tv_onnx_node *n, uint32_t y, const tv_graph_shape *dims,
                           const uint32_t perm[TV_GRAPH_RANK_MAX]);
/* Reduces the axes of a set by an operator of the last axis. */
uint32_t tv_onnx_reduce(tv_onnx_node *n, uint32_t x, uint32_t axes, bool keep, tv_graph_op op);
/* Reshapes a vector of channels to [C][1]...[1] with `trailing` ones. */
uint32_t tv_onnx_channels(tv_onnx_node *n, uint32_t x, uint32_t trailing);

#endif
