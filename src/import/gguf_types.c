/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF tensor types: names and sizes of all, conversion of the supported ones. */
#include "import/gguf_types.h"

#include <math.h>

#include "kernels/block_formats.h"
#include "kernels/elements.h"
#include "num/float.h"

const uint8_t tv_gguf_kind_bytes[TV_GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* ---- Encoding ---- */

/* 1 / d, or 0 when d has no finite reciprocal; F16 stores such a scale as zero. */
static float reciprocal(float d)
{
    float id = d != 0 ? 1.0f / d : 0.0f;
    return isfinite(id) ? id : 0.0f;
}

static bool encode_q8_block(const float *x, uint8_t *bytes)
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

static bool encode_q4_block(const float *x, uint8_t *bytes)
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

static bool encode_f32(const float *values, size_t n, uint8_t *bytes)
{
    for (size_t i = 0; i < n; i++)
        tv_store_le(bytes + 4 * i, tv_f32_bits(values[i]), 4);
    return true;
}

/* False when a finite value became an infinity; `infinity` has the exponent bits of the 16-bit format. */
static bool halves_fit(const float *values, size_t n, uint16_t infinity, const uint8_t *bytes)
{
    bool fit = true;
    for (size_t i = 0; i < n; i++)
        fit &= !isfinite(values[i]) || (tv_load_le16(bytes + 2 * i) & infinity) != infinity;
    return fit;
}

static bool encode_f16(const float *values, size_t n, uint8_t *bytes)
{
    tv_elements_to_f16(values, n, bytes);
    return halves_fit(values, n, 0x7C00, bytes);
}

static bool encode_bf16(const float *values, size_t n, uint8_t *bytes)
{
    for (size_t i = 0; i < n; i++)
        tv_store_le(bytes + 2 * i, tv_bf16_from_f32(values[i]), 2);
    return halves_fit(values, n, 0x7F80, bytes);
}

static bool encode_q8_0(const float *values, size_t blocks, uint8_t *bytes)
{
    for (size_t b = 0; b < blocks; b++)
        if (!encode_q8_block(values + b * TV_GGUF_BLOCK, bytes + b * TV_Q8_0_BYTES))
            return false;
    return true;
}

static bool encode_q4_0(const float *values, size_t blocks, uint8_t *bytes)
{
    for (size_t b = 0; b < blocks; b++)
        if (!encode_q4_block(values + b * TV_GGUF_BLOCK, bytes + b * TV_Q4_0_BYTES))
            return false;
    return true;
}

typedef bool encode_fn(const float *values, size_t blocks, uint8_t *bytes);

/* The types that can be written. */
static const struct {
    tv_gguf_type type;
    encode_fn *encode;
} encoders[] = {
    {TV_GGUF_F32, encode_f32},   {TV_GGUF_F16, encode_f16},   {TV_GGUF_BF16, encode_bf16},
    {TV_GGUF_Q8_0, encode_q8_0}, {TV_GGUF_Q4_0, encode_q4_0},
};

/* ---- Decoding of types without blocks ---- */

static void decode_f32(const uint8_t *bytes, size_t n, float *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = tv_f32_of_bits(tv_load_le32(bytes + 4 * i));
}

static void decode_bf16(const uint8_t *bytes, size_t n, float *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = tv_bf16_to_f32(tv_load_le16(bytes + 2 * i));
}

/* ---- The table ---- */

static const tv_gguf_type_row types[] = {
    {0, "F32", 1, 4, decode_f32},
    {1, "F16", 1, 2, tv_elements_from_f16},
    {30, "BF16", 1, 2, decode_bf16},
#define TV_BLOCK_FORMAT(id, name, number, block, bytes) {number, #name, block, bytes, tv_block_decode_##id},
#include "kernels/block_formats.def"
#undef TV_BLOCK_FORMAT
    /* known but not readable */
    {9, "Q8_1", 32, 36, NULL},
    {15, "Q8_K", 256, 292, NULL},
    {16, "IQ2_XXS", 256, 66, NULL},
    {17, "IQ2_XS", 256, 74, NULL},
    {18, "IQ3_XXS", 256, 98, NULL},
    {19, "IQ1_S", 256, 50, NULL},
    {21, "IQ3_S", 256, 110, NULL},
    {22, "IQ2_S", 256, 82, NULL},
    {24, "I8", 1, 1, NULL},
    {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},
    {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, NULL},
    {29, "IQ1_M", 256, 56, NULL},
    {34, "TQ1_0", 256, 54, NULL},
    {35, "TQ2_0", 256, 66, NULL},
    {39, "MXFP4", 32, 17, NULL},
};

const char tv_gguf_readable_types_hint[] = "use a file with F32, F16, BF16"
#define TV_BLOCK_FORMAT(id, name, number, block, bytes) ", " #name
#include "kernels/block_formats.def"
#undef TV_BLOCK_FORMAT
    ;

const tv_gguf_type_row *tv_gguf_type_find(uint32_t type)
{
    for (size_t i = 0; i < TV_COUNTOF(types); i++)
        if (types[i].type == type)
            return &types[i];
    return NULL;
}

bool tv_gguf_type_readable(uint32_t type)
{
    const tv_gguf_type_row *row = tv_gguf_type_find(type);
    return row && row->decode;
}

const char *tv_gguf_type_name(uint32_t type)
{
    const tv_gguf_type_row *row = tv_gguf_type_find(type);
    return row ? row->name : NULL;
}

bool tv_gguf_type_named(tv_sv name, tv_gguf_type *out)
{
    for (size_t i = 0; i < TV_COUNTOF(encoders); i++)
        if (tv_sv_is_nocase(name, tv_gguf_type_name((uint32_t)encoders[i].type))) {
            *out = encoders[i].type;
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

bool tv_gguf_encode(tv_gguf_type type, const float *values, uint64_t n, uint8_t *bytes)
{
    for (size_t i = 0; i < TV_COUNTOF(encoders); i++)
        if (encoders[i].type == type)
            return encoders[i].encode(values, (size_t)(n / tv_gguf_type_block(type)), bytes);
    return false;
}

void tv_gguf_decode(tv_gguf_type type, const uint8_t *bytes, uint64_t n, float *values)
{
    const tv_gguf_type_row *row = tv_gguf_type_find((uint32_t)type);
    row->decode(bytes, (size_t)(n / row->block), values);
}
