/* SPDX-License-Identifier: Apache-2.0 */
/* Finds operators in the table. */
#ifndef TV_IMPORT_ONNX_OPERATORS_H
#define TV_IMPORT_ONNX_OPERATORS_H

#include "import/onnx_table.h"

/* The row for a node and its opset; NULL: there is none, and it is reported. */
const tv_onnx_op *tv_onnx_find_operator(const tv_onnx_node *n);

#endif
