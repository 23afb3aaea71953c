/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of ONNX files: their bytes, or lists of numbers, or bytes of another file.
 *
 * In raw bytes elements are little endian, as on the hosts that Trivet runs on, and two elements of four bits share a
 * byte, the first in the low half. In lists, narrow types have an int32 each, float16 and bfloat16 as their bits. */
#include "import/onnx_tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "trivet/file.h"

enum { NAME_SHOWN = 120 };

static const char *name_of(const Onnx__TensorProto *p) { return p->name && *p->name ? p->name : "without a name"; }

static tv_status reject(const Onnx__TensorProto *p, const char *problem, const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(ONNX_TENSOR), NULL, "the tensor %.*s: %s", NAME_SHOWN, name_of(p),
                   problem);
}

static bool is_narrow(tv_element element) { return element == TV_ELEMENT_U4 || element == TV_ELEMENT_I4; }

/* Bytes of `count` elements in files. */
static uint64_t raw_bytes(tv_element element, uint64_t count)
{
    return is_narrow(element) ? count / 2 + count % 2 : count * tv_element_infos[element].bytes;
}

/* Copies elements from bytes. */
static void copy_raw(tv_tensor *t, const uint8_t *raw)
{
    uint64_t count = tv_tensor_count(t);
    if (!is_narrow(t->element) && t->element != TV_ELEMENT_BOOL) {
        memcpy(t->data, raw, count * tv_element_infos[t->element].bytes);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        tv_tensor_set_integer(t, i, is_narrow(t->element) ? raw[i / 2] >> (i % 2 * 4) & 15 : raw[i]);
}

/* ---- Lists of numbers ---- */

/* Number of elements in the list that the element type uses; float_data and so on. */
static size_t list_length(const Onnx__TensorProto *p, tv_element element)
{
    switch (element) {
    case TV_ELEMENT_F32:
        return p->n_float_data;
    case TV_ELEMENT_F64:
        return p->n_double_data;
    case TV_ELEMENT_I64:
        return p->n_int64_data;
    case TV_ELEMENT_U32:
    case TV_ELEMENT_U64:
        return p->n_uint64_data;
    case TV_ELEMENT_U8:
    case TV_ELEMENT_I8:
    case TV_ELEMENT_U16:
    case TV_ELEMENT_I16:
    case TV_ELEMENT_I32:
    case TV_ELEMENT_BOOL:
    case TV_ELEMENT_F16:
    case TV_ELEMENT_BF16:
    case TV_ELEMENT_U4:
    case TV_ELEMENT_I4:
    case TV_ELEMENTS:
        break;
    }
    return p->n_int32_data;
}

static void copy_list(const Onnx__TensorProto *p, tv_tensor *t)
{
    uint64_t count = tv_tensor_count(t);
    for (uint64_t i = 0; i < count; i++)
        switch (t->element) {
        case TV_ELEMENT_F32:
            ((float *)t->data)[i] = p->float_data[i];
            break;
        case TV_ELEMENT_F64:
            ((double *)t->data)[i] = p->double_data[i];
            break;
        case TV_ELEMENT_I64:
            ((int64_t *)t->data)[i] = p->int64_data[i];
            break;
        case TV_ELEMENT_U32:
            ((uint32_t *)t->data)[i] = (uint32_t)p->uint64_data[i];
            break;
        case TV_ELEMENT_U64:
            ((uint64_t *)t->data)[i] = p->uint64_data[i];
            break;
        case TV_ELEMENT_F16:
        case TV_ELEMENT_BF16:
            ((uint16_t *)t->data)[i] = (uint16_t)p->int32_data[i];
            break;
        case TV_ELEMENT_U4:
        case TV_ELEMENT_I4:
            tv_tensor_set_integer(t, i, p->int32_data[i / 2] >> (i % 2 * 4) & 15);
            break;
        case TV_ELEMENT_U8:
        case TV_ELEMENT_I8:
        case TV_ELEMENT_U16:
        case TV_ELEMENT_I16:
        case TV_ELEMENT_I32:
        case TV_ELEMENT_BOOL:
        case TV_ELEMENTS:
            tv_tensor_set_integer(t, i, p->int32_data[i]);
            break;
        }
}

/* ---- External data ---- */

typedef struct external_range {
    const char *location;
    uint64_t offset, length; /* length UINT64_MAX: to the end of the file */
} external_range;

/* A decimal number without anything after it. */
static bool read_decimal(const char *text, uint64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &end, 10);
    return !*end;
}

static bool find_range(const Onnx__TensorProto *p, external_range *out)
{
    *out = (external_range){.length = UINT64_MAX};
    for (size_t i = 0; i < p->n_external_data; i++) {
        const char *key = p->external_data[i]->key, *value = p->external_data[i]->value;
        if (!key || !value)
            continue;
        if (strcmp(key, "location") == 0)
            out->location = value;
        else if ((strcmp(key, "offset") == 0 && !read_decimal(value, &out->offset)) ||
                 (strcmp(key, "length") == 0 && !read_decimal(value, &out->length)))
            return false;
    }
    return out->location != NULL;
}

/* A file in the model's folder or below: a model does not read other files of the host. */
static bool is_inside(const char *location)
{
    if (*location == '/' || !*location)
        return false;
    for (const char *at = location; *at; at += strcspn(at, "/"), at += *at == '/')
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
            return false;
    return true;
}

static tv_status reject_external(const Onnx__TensorProto *p, const char *problem, const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(ONNX_EXTERNAL), "the file is looked for in the model's folder",
                   "the tensor %.*s: %s", NAME_SHOWN, name_of(p), problem);
}

/* Where the elements are: raw bytes, or the list that the element type uses. */
typedef struct element_source {
    const uint8_t *raw; /* NULL: the list */
    tv_input input;     /* the file of the bytes, or zeroed */
} element_source;

static tv_status open_external(const Onnx__TensorProto *p, const char *folder, uint64_t bytes, const tv_diag_sink *sink,
                               element_source *out)
{
    external_range range;
    char *path;
    if (!folder)
        return reject_external(p, "its data are in another file", sink);
    if (!find_range(p, &range))
        return reject_external(p, "the location, offset or length of its data is missing or invalid", sink);
    if (!is_inside(range.location))
        return reject_external(p, "its data are outside of the model's folder", sink);
    if (range.length != UINT64_MAX && range.length != bytes)
        return reject(p, "the length of its data does not match its dimensions", sink);
    if (asprintf(&path, "%s%s", folder, range.location) < 0)
        return tv_fail_memory(sink);
    tv_status status = tv_input_open(path, sink, &out->input);
    free(path);
    TV_TRY(status);
    if (range.offset > out->input.size || out->input.size - range.offset < bytes)
        return reject_external(p, "the file of its data is too short", sink);
    out->raw = out->input.data + range.offset;
    return TV_OK;
}

static bool is_external(const Onnx__TensorProto *p)
{
    return p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* Finds `count` elements. The caller closes out->input in any case. */
static tv_status find_elements(const Onnx__TensorProto *p, const char *folder, tv_element element, uint64_t count,
                               const tv_diag_sink *sink, element_source *out)
{
    uint64_t bytes = raw_bytes(element, count), listed = is_narrow(element) ? bytes : count;
    if (is_external(p))
        return open_external(p, folder, bytes, sink, out);
    if (p->has_raw_data ? p->raw_data.len != bytes : list_length(p, element) != listed)
        return reject(p, "its data do not match its dimensions", sink);
    out->raw = p->has_raw_data ? p->raw_data.data : NULL;
    return TV_OK;
}

/* ---- Reading ---- */

/* The element type and dimensions, without data. */
static tv_status read_dims(const Onnx__TensorProto *p, const tv_diag_sink *sink, tv_tensor *out)
{
    char problem[96];
    *out = (tv_tensor){0};
    if (!tv_element_of_onnx(p->data_type, &out->element)) {
        snprintf(problem, sizeof problem, "the element type %" PRId32 " of ONNX is not supported", p->data_type);
        return reject(p, problem, sink);
    }
    if (p->segment)
        return reject(p, "it is stored in segments, which is not supported", sink);
    if (p->n_dims > TV_TENSOR_RANK_MAX || !tv_tensor_fits(out->element, (uint32_t)p->n_dims, p->dims))
        return reject(p, "it has more than 8 axes, a negative extent, or more elements than fit into memory", sink);
    out->rank = (uint32_t)p->n_dims;
    for (size_t i = 0; i < p->n_dims; i++)
        out->dims[i] = p->dims[i];
    return TV_OK;
}

tv_status tv_onnx_read_tensor(const Onnx__TensorProto *proto, const char *folder, const tv_diag_sink *sink,
                              tv_tensor *out)
{
    tv_tensor dims;
    element_source source = {0};
    *out = (tv_tensor){0};
    TV_TRY(read_dims(proto, sink, &dims));
    tv_status status = find_elements(proto, folder, dims.element, tv_tensor_count(&dims), sink, &source);
    if (status == TV_OK)
        status = tv_tensor_init(out, dims.element, dims.rank, dims.dims, sink);
    if (status == TV_OK && source.raw)
        copy_raw(out, source.raw);
    else if (status == TV_OK)
        copy_list(proto, out);
    tv_input_close(&source.input);
    return status;
}

bool tv_onnx_external_type(const Onnx__TensorProto *proto, tv_tensor *out)
{
    return is_external(proto) && read_dims(proto, NULL, out) == TV_OK && tv_is_real_element(out->element);
}

bool tv_onnx_view_tensor(const Onnx__TensorProto *proto, tv_tensor *out)
{
    if (!proto->has_raw_data || is_external(proto) || read_dims(proto, NULL, out) != TV_OK || is_narrow(out->element) ||
        out->element == TV_ELEMENT_BOOL || proto->raw_data.len != tv_tensor_bytes(out))
        return false;
    out->data = proto->raw_data.data;
    return true;
}

uint64_t tv_onnx_tensor_bytes(const Onnx__TensorProto *proto)
{
    tv_tensor dims;
    return read_dims(proto, NULL, &dims) == TV_OK ? tv_tensor_bytes(&dims) : 0;
}
