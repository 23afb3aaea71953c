/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF tensor types: names and sizes of all, conversion of the supported ones. */
#include "import/gguf_types.h"

#include <math.h>

#include "num/float.h"

const uint8_t tv_gguf_kind_bytes[TV_GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static const tv_gguf_type_row types[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
};

static const tv_gguf_type supported[] = {TV_GGUF_F32, TV_GGUF_F16, TV_GGUF_BF16, TV_GGUF_Q8_0, TV_GGUF_Q4_0};

enum { Q8_BYTES = 2 + TV_GGUF_BLOCK, Q4_BYTES = 2 + TV_GGUF_BLOCK / 2 };

const tv_gguf_type_row *tv_gguf_type_find(uint32_t type)
{
    for (size_t i = 0; i < TV_COUNTOF(types); i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

bool tv_gguf_type_readable(uint32_t type)
{
    for (size_t i = 0; i < TV_COUNTOF(supported); i++)
        if ((uint32_t)supported[i] == type)
            return true;
    return false;
}

const char *tv_gguf_type_name(uint32_t type)
{
    const tv_gguf_type_row *row = tv_gguf_type_find(type);
    return row ? row->name : NULL;
}

bool tv_gguf_type_named(tv_sv name, tv_gguf_type *out)
{
    for (size_t i = 0; i < TV_COUNTOF(supported); i++)
        if (tv_sv_is_nocase(name, tv_gguf_type_name((uint32_t)supported[i]))) {
            *out = supported[i];
            return true;
        }
    return false;
}

uint64_t tv_gguf_type_bytes(tv_gguf_type type, uint64_t elements)
{
    const tv_gguf_type_row *row = tv_gguf_type_find((uint32_t)type);
    return elements / row->block * row->bytes;
}

unsigned tv_gguf_type_block(tv_gguf_type type) { return tv_gguf_type_find((uint32_t)type)->block; }

/* 1 / d, or 0 when d has no finite reciprocal; F16 stores such a scale as zero. */
static float reciprocal(float d)
{
    float id = d != 0 ? 1.0f / d : 0.0f;
    return isfinite(id) ? id : 0.0f;
}

static bool encode_q8(const float *x, uint8_t *bytes)
{
    float absmax = 0;
    bool finite = true;
    for (unsigned j = 0; j < TV_GGUF_BLOCK; j++) {
        finite &= isfinite(x[j]) != 0;
        absmax = fmaxf(absmax, fabsf(x[j]));
    }
    float d = absmax / 127.0f, id = reciprocal(d);
    uint16_t scale = tv_f16_from_f32(d);
    if (!finite || !tv_f16_is_finite(scale))
        return false;
    tv_store_le(bytes, scale, 2);
    for (unsigned j = 0; j < TV_GGUF_BLOCK; j++) {
        /* |x * id| < 127.5 for a normal d, but a subnormal d may be off by half: clamp. */
        float q = fminf(fmaxf(roundf(x[j] * id), -127.0f), 127.0f);
        bytes[2 + j] = (uint8_t)(int8_t)q;
    }
    return true;
}

static bool encode_q4(const float *x, uint8_t *bytes)
{
    float absmax = 0, signed_absmax = 0;
    bool finite = true;
    for (unsigned j = 0; j < TV_GGUF_BLOCK; j++) {
        finite &= isfinite(x[j]) != 0;
        if (absmax < fabsf(x[j])) {
            absmax = fabsf(x[j]);
            signed_absmax = x[j];
        }
    }
    float d = signed_absmax / -8.0f, id = reciprocal(d);
    uint16_t scale = tv_f16_from_f32(d);
    if (!finite || !tv_f16_is_finite(scale))
        return false;
    tv_store_le(bytes, scale, 2);
    uint8_t q[TV_GGUF_BLOCK];
    for (unsigned j = 0; j < TV_GGUF_BLOCK; j++)
        q[j] = (uint8_t)fminf(fmaxf(x[j] * id + 8.5f, 0.0f), 15.0f);
    for (unsigned j = 0; j < TV_GGUF_BLOCK / 2; j++)
        bytes[2 + j] = (uint8_t)(q[j] | q[j + TV_GGUF_BLOCK / 2] << 4);
    return true;
}

bool tv_gguf_encode(tv_gguf_type type, const float *values, uint64_t n, uint8_t *bytes)
{
    switch (type) {
    case TV_GGUF_F32:
        for (uint64_t i = 0; i < n; i++)
            tv_store_le(bytes + 4 * i, tv_f32_bits(values[i]), 4);
        return true;
    case TV_GGUF_F16:
        for (uint64_t i = 0; i < n; i++)
            tv_store_le(bytes + 2 * i, tv_f16_from_f32(values[i]), 2);
        return true;
    case TV_GGUF_BF16:
        for (uint64_t i = 0; i < n; i++)
            tv_store_le(bytes + 2 * i, tv_bf16_from_f32(values[i]), 2);
        return true;
    case TV_GGUF_Q8_0:
        for (uint64_t b = 0; b < n / TV_GGUF_BLOCK; b++)
            if (!encode_q8(values + b * TV_GGUF_BLOCK, bytes + b * Q8_BYTES))
                return false;
        return true;
    case TV_GGUF_Q4_0:
        for (uint64_t b = 0; b < n / TV_GGUF_BLOCK; b++)
            if (!encode_q4(values + b * TV_GGUF_BLOCK, bytes + b * Q4_BYTES))
                return false;
        return true;
    }
    return false;
}

static void decode_q8(const uint8_t *bytes, float *x)
{
    float d = tv_f16_to_f32(tv_load_le16(bytes));
    for (unsigned j = 0; j < TV_GGUF_BLOCK; j++)
        x[j] = (float)(int8_t)bytes[2 + j] * d;
}

static void decode_q4(const uint8_t *bytes, float *x)
{
    float d = tv_f16_to_f32(tv_load_le16(bytes));
    for (unsigned j = 0; j < TV_GGUF_BLOCK / 2; j++) {
        x[j] = (float)((bytes[2 + j] & 15) - 8) * d;
        x[j + TV_GGUF_BLOCK / 2] = (float)((bytes[2 + j] >> 4) - 8) * d;
    }
}

void tv_gguf_decode(tv_gguf_type type, const uint8_t *bytes, uint64_t n, float *values)
{
    switch (type) {
    case TV_GGUF_F32:
        for (uint64_t i = 0; i < n; i++)
            values[i] = tv_f32_of_bits(tv_load_le32(bytes + 4 * i));
        break;
    case TV_GGUF_F16:
        for (uint64_t i = 0; i < n; i++)
            values[i] = tv_f16_to_f32(tv_load_le16(bytes + 2 * i));
        break;
    case TV_GGUF_BF16:
        for (uint64_t i = 0; i < n; i++)
            values[i] = tv_bf16_to_f32(tv_load_le16(bytes + 2 * i));
        break;
    case TV_GGUF_Q8_0:
        for (uint64_t b = 0; b < n / TV_GGUF_BLOCK; b++)
            decode_q8(bytes + b * Q8_BYTES, values + b * TV_GGUF_BLOCK);
        break;
    case TV_GGUF_Q4_0:
        for (uint64_t b = 0; b < n / TV_GGUF_BLOCK; b++)
            decode_q4(bytes + b * Q4_BYTES, values + b * TV_GGUF_BLOCK);
        break;
    }
}
