/* SPDX-License-Identifier: Apache-2.0 */
/* Products that other operators are composed of. */
#ifndef TV_IMPORT_ONNX_PRODUCTS_H
#define TV_IMPORT_ONNX_PRODUCTS_H

#include "import/onnx_nodes.h"

/* a b, of vectors, too. */
uint32_t tv_onnx_product(tv_onnx_node *n, uint32_t a, uint32_t b);

/* The convolution with the attributes of the node; `bias` may be TV_NO_VALUE. */
uint32_t tv_onnx_convolution(tv_onnx_node *n, uint32_t x, uint32_t weights, uint32_t bias);

#endif
