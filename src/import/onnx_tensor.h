/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of ONNX files. */
#ifndef TV_IMPORT_ONNX_TENSOR_H
#define TV_IMPORT_ONNX_TENSOR_H

#include <onnx.pb-c.h>

#include "graph/tensor.h"

/* Copies the elements of a tensor; the caller releases it with tv_tensor_fini. Data outside of the file are read from
 * `folder`, which ends in a slash or is empty; they are rejected where it is NULL. TV_ERR_INPUT (TV-L062): an unknown
 * element type, or data that do not match the dimensions; (TV-L063): the file of the data cannot be used. */
tv_status tv_onnx_read_tensor(const Onnx__TensorProto *proto, const char *folder, const tv_diag_sink *sink,
                              tv_tensor *out);

/* The tensor with the elements where the message has them, if they are stored as in memory: it owns nothing, and lives
 * as long as the message. False: they are not, or the message is damaged. */
bool tv_onnx_view_tensor(const Onnx__TensorProto *proto, tv_tensor *out);

/* The type and extents, without data, of a tensor of real numbers whose data are in another file. False: another one.
 */
bool tv_onnx_external_type(const Onnx__TensorProto *proto, tv_tensor *out);

/* Bytes of the elements that the file has for a tensor, or another file should have; 0: damaged. */
uint64_t tv_onnx_tensor_bytes(const Onnx__TensorProto *proto);

#endif
