/* SPDX-License-Identifier: Apache-2.0 */
/* Imports ONNX networks: the operators of a file become operators of the graph (src/graph/ops.def), in canonical forms:
 * reductions, Softmax and norms along the last axis, products with constants as Gemm, pools of whole planes, one output
 * per node, all extents known. What depends on constants alone is computed here. onnx_ops.def lists the operators. */
#ifndef TV_IMPORT_ONNX_IMPORT_H
#define TV_IMPORT_ONNX_IMPORT_H

#include "graph/graph.h"
#include "import/onnx_file.h"
#include "import/onnx_options.h"

/* Reads a network. `options` may be NULL. The caller frees *out with tv_graph_free. TV_ERR_INPUT: the file is damaged
 * (TV-L060 to TV-L063), names or dimensions of the graph are invalid (TV-L064), a node is invalid (TV-L065), its
 * operator is not supported (TV-L066), or a shape is not known before the network runs (TV-L067). */
tv_status tv_onnx_import(const char *path, const tv_onnx_options *options, const tv_diag_sink *sink, tv_graph **out);

/* The same of a file that is open. */
tv_status tv_onnx_import_file(const tv_onnx *file, const tv_onnx_options *options, const tv_diag_sink *sink,
                              tv_graph **out);

#endif
