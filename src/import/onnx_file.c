/* SPDX-License-Identifier: Apache-2.0 */
/* Opens ONNX files. */
#include "import/onnx_file.h"

#include <stdlib.h>

#include "graph/codes.h"
#include "import/onnx_tensor.h"
#include "import/onnx_wire.h"
#include "trivet/file.h"

/* The allocator of protobuf-c, which remembers that it failed. */
static void *allocate(void *failed, size_t size)
{
    void *bytes = malloc(size ? size : 1);
    *(bool *)failed |= !bytes;
    return bytes;
}

static void release(void *failed, void *bytes)
{
    (void)failed;
    free(bytes);
}

static tv_status fail_damaged(const char *path, const char *problem, const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(ONNX_DAMAGED), NULL, "'%s' is not an ONNX file, or damaged: %s",
                   path, problem);
}

/* Decodes a message of the type. */
static tv_status decode(const ProtobufCMessageDescriptor *type, const char *path, tv_sv bytes, const tv_diag_sink *sink,
                        ProtobufCMessage **out)
{
    bool limit, failed = false;
    const char *problem;
    ProtobufCAllocator allocator = {allocate, release, &failed};
    if (!tv_onnx_check_wire(type, bytes, &limit, &problem)) {
        if (!limit)
            return fail_damaged(path, problem, sink);
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(ONNX_LIMIT), NULL, "'%s' exceeds a limit: %s", path, problem);
    }
    *out = protobuf_c_message_unpack(type, &allocator, bytes.len, (const uint8_t *)bytes.ptr);
    if (*out)
        return TV_OK;
    return failed ? tv_fail_memory(sink) : fail_damaged(path, "a field is not of the type in onnx.proto", sink);
}

/* Opens the file and decodes it. */
static tv_status read_message(const ProtobufCMessageDescriptor *type, const char *path, const tv_diag_sink *sink,
                              ProtobufCMessage **out)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = decode(type, path, (tv_sv){(const char *)input.data, input.size}, sink, out);
    tv_input_close(&input);
    return status;
}

static tv_status complete(tv_onnx *onnx, const char *path, const tv_diag_sink *sink)
{
    const char *slash = strrchr(path, '/');
    onnx->folder = strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
    onnx->path = strdup(path);
    if (!onnx->folder || !onnx->path)
        return tv_fail_memory(sink);
    return onnx->model->graph ? TV_OK : fail_damaged(path, "it has no graph", sink);
}

tv_status tv_onnx_open(const char *path, const tv_diag_sink *sink, tv_onnx *out)
{
    ProtobufCMessage *message = NULL;
    *out = (tv_onnx){0};
    TV_TRY(read_message(&onnx__model_proto__descriptor, path, sink, &message));
    out->model = (Onnx__ModelProto *)message;
    tv_status status = complete(out, path, sink);
    if (status != TV_OK)
        tv_onnx_close(out);
    return status;
}

void tv_onnx_close(tv_onnx *onnx)
{
    if (onnx->model)
        protobuf_c_message_free_unpacked(&onnx->model->base, NULL);
    free(onnx->folder);
    free(onnx->path);
    *onnx = (tv_onnx){0};
}

tv_status tv_onnx_open_tensor(const char *path, const tv_diag_sink *sink, tv_tensor *out)
{
    ProtobufCMessage *message = NULL;
    *out = (tv_tensor){0};
    TV_TRY(read_message(&onnx__tensor_proto__descriptor, path, sink, &message));
    tv_status status = tv_onnx_read_tensor((const Onnx__TensorProto *)message, NULL, sink, out);
    protobuf_c_message_free_unpacked(message, NULL);
    return status;
}
