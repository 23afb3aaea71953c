/* SPDX-License-Identifier: Apache-2.0 */
/* Storage of tensors, and their elements one by one. */
#include "graph/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "num/float.h"

const tv_element_info tv_element_infos[TV_ELEMENTS] = {
#define TV_ELEMENT_ROW(id, name, type, bytes, kind, number) {name, bytes, TV_KIND_##kind, number},
#include "graph/elements.def"
#undef TV_ELEMENT_ROW
};

#define TV_ELEMENT_ROW(id, name, type, bytes, kind, number)                                                            \
    _Static_assert(sizeof(type) == (bytes), name " has the size of its C type");
#include "graph/elements.def"
#undef TV_ELEMENT_ROW

uint64_t tv_tensor_count(const tv_tensor *t)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        count *= (uint64_t)t->dims[i];
    return count;
}

bool tv_tensor_fits(tv_element element, uint32_t rank, const int64_t *dims)
{
    uint64_t bytes = tv_element_infos[element].bytes;
    if (rank > TV_TENSOR_RANK_MAX)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] < 0)
            return false;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return true;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)dims[i], &bytes))
            return false;
    return bytes <= PTRDIFF_MAX;
}

tv_status tv_tensor_init(tv_tensor *out, tv_element element, uint32_t rank, const int64_t *dims,
                         const tv_diag_sink *sink)
{
    *out = (tv_tensor){.element = element, .rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        out->dims[i] = dims[i];
    size_t bytes = tv_tensor_bytes(out);
    out->data = out->storage = calloc(bytes ? bytes : 1, 1);
    if (out->storage)
        return TV_OK;
    *out = (tv_tensor){0};
    return tv_fail_memory(sink);
}

void tv_tensor_fini(tv_tensor *t)
{
    free(t->storage);
    *t = (tv_tensor){0};
}

/* ---- Elements ---- */

double tv_tensor_real(const tv_tensor *t, uint64_t i)
{
    switch (t->element) {
    case TV_ELEMENT_F32:
        return (double)((const float *)t->data)[i];
    case TV_ELEMENT_F64:
        return ((const double *)t->data)[i];
    case TV_ELEMENT_F16:
        return (double)tv_f16_to_f32(((const uint16_t *)t->data)[i]);
    case TV_ELEMENT_BF16:
        return (double)tv_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case TV_ELEMENT_U64:
        return (double)((const uint64_t *)t->data)[i];
    case TV_ELEMENT_U8:
    case TV_ELEMENT_I8:
    case TV_ELEMENT_U16:
    case TV_ELEMENT_I16:
    case TV_ELEMENT_I32:
    case TV_ELEMENT_I64:
    case TV_ELEMENT_BOOL:
    case TV_ELEMENT_U32:
    case TV_ELEMENT_U4:
    case TV_ELEMENT_I4:
    case TV_ELEMENTS:
        break;
    }
    return (double)tv_tensor_integer(t, i);
}

/* Truncates toward zero and saturates; NaN is 0. */
static int64_t integer_of_real(double value)
{
    if (isnan(value))
        return 0;
    if (value >= 0x1p63)
        return INT64_MAX;
    return value < -0x1p63 ? INT64_MIN : (int64_t)value;
}

int64_t tv_tensor_integer(const tv_tensor *t, uint64_t i)
{
    switch (t->element) {
    case TV_ELEMENT_U8:
    case TV_ELEMENT_U4:
    case TV_ELEMENT_BOOL:
        return ((const uint8_t *)t->data)[i];
    case TV_ELEMENT_I8:
    case TV_ELEMENT_I4:
        return ((const int8_t *)t->data)[i];
    case TV_ELEMENT_U16:
        return ((const uint16_t *)t->data)[i];
    case TV_ELEMENT_I16:
        return ((const int16_t *)t->data)[i];
    case TV_ELEMENT_I32:
        return ((const int32_t *)t->data)[i];
    case TV_ELEMENT_U32:
        return ((const uint32_t *)t->data)[i];
    case TV_ELEMENT_I64:
    case TV_ELEMENT_U64:
        return ((const int64_t *)t->data)[i];
    case TV_ELEMENT_F32:
    case TV_ELEMENT_F64:
    case TV_ELEMENT_F16:
    case TV_ELEMENT_BF16:
        return integer_of_real(tv_tensor_real(t, i));
    case TV_ELEMENTS:
        break;
    }
    return 0;
}

void tv_tensor_set_real(tv_tensor *t, uint64_t i, double value)
{
    switch (t->element) {
    case TV_ELEMENT_F32:
        ((float *)t->data)[i] = (float)value;
        return;
    case TV_ELEMENT_F64:
        ((double *)t->data)[i] = value;
        return;
    case TV_ELEMENT_F16:
        ((uint16_t *)t->data)[i] = tv_f16_from_f64(value);
        return;
    case TV_ELEMENT_BF16:
        ((uint16_t *)t->data)[i] = tv_bf16_from_f64(value);
        return;
    case TV_ELEMENT_BOOL:
        ((uint8_t *)t->data)[i] = value != 0;
        return;
    case TV_ELEMENT_U64: /* twice the range of the signed integers below */
        ((uint64_t *)t->data)[i] =
            value >= 0x1p63 ? (value < 0x1p64 ? (uint64_t)value : UINT64_MAX) : (uint64_t)integer_of_real(value);
        return;
    case TV_ELEMENT_U8:
    case TV_ELEMENT_I8:
    case TV_ELEMENT_U16:
    case TV_ELEMENT_I16:
    case TV_ELEMENT_I32:
    case TV_ELEMENT_I64:
    case TV_ELEMENT_U32:
    case TV_ELEMENT_U4:
    case TV_ELEMENT_I4:
    case TV_ELEMENTS:
        break;
    }
    tv_tensor_set_integer(t, i, integer_of_real(value));
}

void tv_tensor_set_integer(tv_tensor *t, uint64_t i, int64_t value)
{
    switch (t->element) {
    case TV_ELEMENT_U8:
    case TV_ELEMENT_I8:
        ((uint8_t *)t->data)[i] = (uint8_t)value;
        return;
    case TV_ELEMENT_U4:
        ((uint8_t *)t->data)[i] = value & 15;
        return;
    case TV_ELEMENT_I4:
        ((int8_t *)t->data)[i] = (int8_t)(((value & 15) ^ 8) - 8);
        return;
    case TV_ELEMENT_BOOL:
        ((uint8_t *)t->data)[i] = value != 0;
        return;
    case TV_ELEMENT_U16:
    case TV_ELEMENT_I16:
        ((uint16_t *)t->data)[i] = (uint16_t)value;
        return;
    case TV_ELEMENT_U32:
    case TV_ELEMENT_I32:
        ((uint32_t *)t->data)[i] = (uint32_t)value;
        return;
    case TV_ELEMENT_U64:
    case TV_ELEMENT_I64:
        ((int64_t *)t->data)[i] = value;
        return;
    case TV_ELEMENT_F32:
        ((float *)t->data)[i] = (float)value;
        return;
    case TV_ELEMENT_F64:
        ((double *)t->data)[i] = (double)value;
        return;
    case TV_ELEMENT_F16:
        ((uint16_t *)t->data)[i] = tv_f16_from_f64(tv_f64_odd_from_i64(value));
        return;
    case TV_ELEMENT_BF16:
        ((uint16_t *)t->data)[i] = tv_bf16_from_f64(tv_f64_odd_from_i64(value));
        return;
    case TV_ELEMENTS:
        break;
    }
}

void tv_tensor_set_saturated(tv_tensor *t, uint64_t i, double value)
{
    const tv_element_info *info = &tv_element_infos[t->element];
    unsigned bits = t->element == TV_ELEMENT_U4 || t->element == TV_ELEMENT_I4 ? 4 : info->bytes * 8u;
    if (tv_is_integer_element(t->element) && bits < 64) { /* wider ones saturate as they are converted */
        bool is_signed = info->kind == TV_KIND_SIGNED;
        double low = is_signed ? -ldexp(1, (int)bits - 1) : 0, high = ldexp(1, (int)bits - is_signed) - 1;
        value = value < low ? low : value > high ? high : value;
    }
    tv_tensor_set_real(t, i, value);
}

bool tv_element_of_onnx(int32_t number, tv_element *out)
{
    for (unsigned i = 0; i < TV_ELEMENTS; i++)
        if (tv_element_infos[i].number == number) {
            *out = (tv_element)i;
            return true;
        }
    return false;
}

void tv_tensor_print_shape(const tv_tensor *t, char text[TV_TENSOR_TEXT_MAX])
{
    int n = snprintf(text, TV_TENSOR_TEXT_MAX, "%s[", tv_element_infos[t->element].name);
    for (uint32_t i = 0; i < t->rank && n < TV_TENSOR_TEXT_MAX; i++)
        n += snprintf(text + n, (size_t)(TV_TENSOR_TEXT_MAX - n), "%s%" PRId64, i ? " x " : "", t->dims[i]);
    if (n < TV_TENSOR_TEXT_MAX)
        snprintf(text + n, (size_t)(TV_TENSOR_TEXT_MAX - n), "]");
}
