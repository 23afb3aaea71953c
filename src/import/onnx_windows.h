/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of convolutions and pools. */
#ifndef TV_IMPORT_ONNX_WINDOWS_H
#define TV_IMPORT_ONNX_WINDOWS_H

#include "import/onnx_nodes.h"

/* Reads kernel_shape, strides, dilations and pads for the spatial axes of x; auto_pad is computed for the extents of x,
 * with partial windows for `partial`. `weights` gives a kernel that is not stated, or is TV_NO_VALUE. False after an
 * error. */
bool tv_onnx_window(const tv_onnx_node *n, uint32_t x, uint32_t weights, tv_graph_lists *out);

#endif
