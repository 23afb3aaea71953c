/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the wire format of ONNX files before protobuf-c decodes it. */
#ifndef TV_IMPORT_ONNX_WIRE_H
#define TV_IMPORT_ONNX_WIRE_H

#include <onnx.pb-c.h>

#include "base/sv.h"

enum { TV_ONNX_DEPTH_MAX = 64, TV_ONNX_ITEMS_MAX = 1 << 22 };

/* Walks a serialized message of the type: every length is inside of its message, messages are nested at most
 * TV_ONNX_DEPTH_MAX deep, and there are at most TV_ONNX_ITEMS_MAX messages and strings. So the decoder neither recurses
 * nor allocates without bound. False: *problem is a static text, and *limit says whether it is a limit. */
bool tv_onnx_check_wire(const ProtobufCMessageDescriptor *type, tv_sv bytes, bool *limit, const char **problem);

#endif
