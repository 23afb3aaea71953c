/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the import of ONNX files. */
#ifndef TV_IMPORT_ONNX_OPTIONS_H
#define TV_IMPORT_ONNX_OPTIONS_H

#include "graph/graph.h"

/* Numbers for symbolic extents: of the dimension with this name (rank 1), or all of the input with this name. */
typedef struct tv_onnx_extents {
    const char *name;
    uint32_t rank;
    int64_t dims[TV_GRAPH_RANK_MAX];
} tv_onnx_extents;

/* An input that becomes a constant. The tensor outlives the import. */
typedef struct tv_onnx_constant {
    const char *name;
    tv_tensor tensor;
} tv_onnx_constant;

typedef struct tv_onnx_options {
    const tv_onnx_extents *extents;
    size_t extent_count;
    const tv_onnx_constant *constants;
    size_t constant_count;
    uint64_t fold_bytes; /* of what is computed from constants, beside what weights take; 0: 1 GiB */
    bool timing; /* inputs that are used as weights, and weights in other files, become constants without data */
} tv_onnx_options;

#endif
