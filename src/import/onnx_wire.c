/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the wire format of a message whose fields are known from the descriptors that protoc-c generates. The walk
 * keeps a stack of its own and allocates nothing. */
#include "import/onnx_wire.h"

#include "base/wire.h"

/* A message under way. */
typedef struct frame {
    const ProtobufCMessageDescriptor *type;
    tv_wire wire;
} frame;

typedef struct walk {
    frame stack[TV_ONNX_DEPTH_MAX];
    unsigned depth; /* number of frames */
    uint32_t items; /* messages and strings so far */
    const char *problem;
    bool limit;
} walk;

static void fail_limit(walk *w, const char *problem)
{
    w->limit = true;
    w->problem = problem;
}

/* A field with a length: counted, and entered if it is a message. */
static void walk_bytes(walk *w, const ProtobufCFieldDescriptor *field, tv_sv bytes)
{
    if (!field || (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING &&
                   field->type != PROTOBUF_C_TYPE_BYTES))
        return;
    if (++w->items > TV_ONNX_ITEMS_MAX)
        fail_limit(w, "there are more than four million messages and strings");
    else if (field->type == PROTOBUF_C_TYPE_MESSAGE && w->depth == TV_ONNX_DEPTH_MAX)
        fail_limit(w, "messages are nested more than 64 deep");
    else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        w->stack[w->depth++] = (frame){field->descriptor, tv_wire_of(bytes)};
}

static void walk_field(walk *w)
{
    frame *top = &w->stack[w->depth - 1];
    tv_wire_field field;
    if (!tv_wire_next(&top->wire, &field)) {
        w->problem = top->wire.problem;
        w->depth--;
    } else if (field.kind == TV_WIRE_LENGTH) {
        walk_bytes(w, protobuf_c_message_descriptor_get_field(top->type, field.number), field.bytes);
    }
}

bool tv_onnx_check_wire(const ProtobufCMessageDescriptor *type, tv_sv bytes, bool *limit, const char **problem)
{
    walk w = {.stack = {{type, tv_wire_of(bytes)}}, .depth = 1};
    while (w.depth && !w.problem)
        walk_field(&w);
    *limit = w.limit;
    *problem = w.problem;
    return !w.problem;
}
