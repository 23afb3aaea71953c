/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of nodes, with their defaults. */
#include "import/onnx_nodes.h"

const Onnx__AttributeProto *tv_onnx_attribute(const tv_onnx_node *n, const char *name)
{
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        if (n->proto->attribute[i]->name && strcmp(n->proto->attribute[i]->name, name) == 0)
            return n->proto->attribute[i];
    return NULL;
}

/* The attribute of a type. NULL: missing, or of another type, which is an error. */
static const Onnx__AttributeProto *find_typed(const tv_onnx_node *n, const char *name,
                                              Onnx__AttributeProto__AttributeType type, const char *expected)
{
    const Onnx__AttributeProto *a = tv_onnx_attribute(n, name);
    if (!a || !tv_onnx_ok(n))
        return NULL;
    if (a->ref_attr_name && *a->ref_attr_name)
        return tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the attribute '%s' refers to one of a function", name), NULL;
    if (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED && a->type != type)
        return tv_onnx_reject(n, TV_ONNX_INVALID, "the attribute '%s' is not %s", name, expected), NULL;
    return a;
}

int64_t tv_onnx_int(const tv_onnx_node *n, const char *name, int64_t missing)
{
    const Onnx__AttributeProto *a = find_typed(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, "an integer");
    return a ? (a->has_i ? a->i : 0) : missing;
}

float tv_onnx_float(const tv_onnx_node *n, const char *name, float missing)
{
    const Onnx__AttributeProto *a = find_typed(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, "a number");
    return a ? (a->has_f ? a->f : 0) : missing;
}

tv_onnx_list tv_onnx_ints(const tv_onnx_node *n, const char *name)
{
    static const int64_t none[1];
    const Onnx__AttributeProto *a =
        find_typed(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, "a list of integers");
    return a ? (tv_onnx_list){a->n_ints ? a->ints : none, a->n_ints} : (tv_onnx_list){0};
}

bool tv_onnx_text_is(const tv_onnx_node *n, const char *name, const char *missing, const char *text)
{
    const Onnx__AttributeProto *a = find_typed(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, "a text");
    tv_sv given = a ? (tv_sv){(const char *)a->s.data, a->s.len} : tv_sv_of(missing);
    return tv_sv_is(given, text);
}
