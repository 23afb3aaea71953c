/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the wire format of Protocol Buffers: a message is a sequence of fields, each a number with a kind, then a
 * number of up to ten bytes, four or eight bytes, or a length and that many bytes. What a field holds is known from the
 * descriptors that protoc-c generates. The walk keeps a stack of its own and allocates nothing. */
#include "import/onnx_wire.h"

typedef enum wire_kind { WIRE_NUMBER = 0, WIRE_8_BYTES = 1, WIRE_LENGTH = 2, WIRE_4_BYTES = 5 } wire_kind;

/* A message under way. */
typedef struct frame {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *end;
} frame;

typedef struct walk {
    const uint8_t *at;
    frame stack[TV_ONNX_DEPTH_MAX];
    unsigned depth; /* number of frames */
    uint32_t items; /* messages and strings so far */
    const char *problem;
    bool limit;
} walk;

static bool fail(walk *w, const char *problem)
{
    w->problem = problem;
    return false;
}

static bool fail_limit(walk *w, const char *problem)
{
    w->limit = true;
    return fail(w, problem);
}

/* Reads a number of seven bits a byte, the lowest first. */
static bool read_number(walk *w, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (w->at == w->stack[w->depth - 1].end)
            return fail(w, "a number is cut off");
        uint8_t byte = *w->at++;
        *out |= shift < 64 ? (uint64_t)(byte & 0x7F) << shift : 0;
        if (byte < 0x80)
            return true;
    }
    return fail(w, "a number has more than ten bytes");
}

static bool skip(walk *w, uint64_t bytes)
{
    if (bytes > (uint64_t)(w->stack[w->depth - 1].end - w->at))
        return fail(w, "a field is longer than its message");
    w->at += bytes;
    return true;
}

static bool count_item(walk *w)
{
    return ++w->items <= TV_ONNX_ITEMS_MAX || fail_limit(w, "there are more than four million messages and strings");
}

/* A field with a length: a message is entered, other bytes are skipped. */
static bool walk_bytes(walk *w, const ProtobufCFieldDescriptor *field)
{
    uint64_t length;
    if (!read_number(w, &length))
        return false;
    const uint8_t *start = w->at;
    if (!skip(w, length))
        return false;
    if (!field || (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING &&
                   field->type != PROTOBUF_C_TYPE_BYTES))
        return true;
    if (!count_item(w) || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return w->problem == NULL;
    if (w->depth == TV_ONNX_DEPTH_MAX)
        return fail_limit(w, "messages are nested more than 64 deep");
    w->stack[w->depth++] = (frame){field->descriptor, start + length};
    w->at = start;
    return true;
}

static bool walk_field(walk *w)
{
    uint64_t tag, number;
    const ProtobufCMessageDescriptor *type = w->stack[w->depth - 1].type;
    if (!read_number(w, &tag))
        return false;
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
        return fail(w, "a field has no valid number");
    switch ((wire_kind)(tag & 7)) {
    case WIRE_NUMBER:
        return read_number(w, &number);
    case WIRE_8_BYTES:
        return skip(w, 8);
    case WIRE_LENGTH:
        return walk_bytes(w, protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3)));
    case WIRE_4_BYTES:
        return skip(w, 4);
    }
    return fail(w, "a field is of an unknown kind");
}

bool tv_onnx_check_wire(const ProtobufCMessageDescriptor *type, tv_sv bytes, bool *limit, const char **problem)
{
    const uint8_t *start = (const uint8_t *)bytes.ptr;
    walk w = {.at = start, .stack = {{type, start + bytes.len}}, .depth = 1};
    while (w.depth && !w.problem)
        if (w.at == w.stack[w.depth - 1].end)
            w.depth--;
        else
            walk_field(&w);
    *limit = w.limit;
    *problem = w.problem;
    return !w.problem;
}
