/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table of operators, and the functions that import them. */
#ifndef TV_IMPORT_ONNX_TABLE_H
#define TV_IMPORT_ONNX_TABLE_H

#include "import/onnx_nodes.h"

typedef void tv_onnx_function(tv_onnx_node *n);

typedef enum tv_onnx_domain { TV_ONNX_STANDARD, TV_ONNX_MICROSOFT } tv_onnx_domain;

typedef struct tv_onnx_op {
    tv_onnx_domain domain;
    const char *name;
    int64_t first, last; /* opsets */
    tv_onnx_function *import;
    tv_graph_op op; /* for functions of several operators; otherwise TV_OPS */
} tv_onnx_op;

#define TV_ONNX_ROW(domain, name, first, last, function, op) tv_onnx_function tv_onnx_import_##function;
#include "import/onnx_ops.def"
#undef TV_ONNX_ROW

#endif
