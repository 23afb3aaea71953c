/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that are weights, of files that have shapes alone. */
#ifndef TV_IMPORT_ONNX_WEIGHTS_H
#define TV_IMPORT_ONNX_WEIGHTS_H

#include <onnx.pb-c.h>

#include "base/base.h"

/* Whether each input of the graph is used as weights: [n_input], freed by the caller. NULL: out of memory. */
bool *tv_onnx_find_weights(const Onnx__GraphProto *graph);

#endif
