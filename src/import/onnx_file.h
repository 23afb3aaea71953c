/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files: the messages of onnx.proto. A file is hostile: its wire format is checked before protobuf-c decodes it.
 */
#ifndef TV_IMPORT_ONNX_FILE_H
#define TV_IMPORT_ONNX_FILE_H

#include <onnx.pb-c.h>

#include "graph/tensor.h"

typedef struct tv_onnx {
    Onnx__ModelProto *model; /* has a graph */
    char *folder;            /* of external data, with a slash; "" for the current one */
    char *path;              /* for messages */
} tv_onnx;

/* Reads a model. TV_ERR_INPUT (TV-L060): damaged, or no model; (TV-L061): a limit. The caller releases it with
 * tv_onnx_close. */
tv_status tv_onnx_open(const char *path, const tv_diag_sink *sink, tv_onnx *out);
void tv_onnx_close(tv_onnx *onnx);

/* Reads a file that is one serialized tensor, like the inputs and outputs of test cases. On an error *out is zeroed. */
tv_status tv_onnx_open_tensor(const char *path, const tv_diag_sink *sink, tv_tensor *out);

#endif
