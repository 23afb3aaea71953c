/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: their table, and printing and parsing of elements. */
#include "trivet/dtype.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "num/float.h"
#include "num/int.h"

typedef enum kind { SIGNED, UNSIGNED, FLOATING, HEX } kind;

static const struct {
    const char *name;
    unsigned bits;
    kind kind;
} types[TV_DTYPE_COUNT] = {
    [TV_I4] = {"i4", 4, SIGNED},        [TV_S8] = {"s8", 8, SIGNED},      [TV_U8] = {"u8", 8, UNSIGNED},
    [TV_S16] = {"s16", 16, SIGNED},     [TV_U16] = {"u16", 16, UNSIGNED}, [TV_S32] = {"s32", 32, SIGNED},
    [TV_U32] = {"u32", 32, UNSIGNED},   [TV_F32] = {"f32", 32, FLOATING}, [TV_F16] = {"f16", 16, FLOATING},
    [TV_BF16] = {"bf16", 16, FLOATING}, [TV_HEX8] = {"hex8", 8, HEX},     [TV_HEX16] = {"hex16", 16, HEX},
    [TV_HEX32] = {"hex32", 32, HEX},    [TV_HEX64] = {"hex64", 64, HEX},  [TV_I2] = {"i2", 2, SIGNED},
};

const char *tv_dtype_name(tv_dtype type) { return types[type].name; }

unsigned tv_dtype_bits(tv_dtype type) { return types[type].bits; }

uint64_t tv_dtype_bytes(tv_dtype type, uint64_t count)
{
    unsigned bits = types[type].bits;
    return bits < 8 ? tv_ceil_div(count, 8 / bits) : count * (bits / 8);
}

tv_status tv_dtype_find(const char *name, tv_dtype *out)
{
    for (unsigned i = 0; i < TV_DTYPE_COUNT; i++)
        if (strcmp(types[i].name, name) == 0) {
            *out = (tv_dtype)i;
            return TV_OK;
        }
    return TV_ERR_INPUT;
}

/* The bits of element `i`. */
static uint64_t load_bits(tv_dtype type, const void *bytes, uint64_t i)
{
    const uint8_t *p = bytes;
    switch (types[type].bits) {
    case 2:
        return p[i / 4] >> (i % 4 * 2) & 3;
    case 4:
        return p[i / 2] >> (i % 2 * 4) & 15;
    case 8:
        return p[i];
    case 16:
        return tv_load_le16(p + 2 * i);
    case 32:
        return tv_load_le32(p + 4 * i);
    default:
        return tv_load_le64(p + 8 * i);
    }
}

static int64_t sign_extended(uint64_t bits, unsigned width)
{
    uint64_t sign = UINT64_C(1) << (width - 1);
    return (int64_t)((bits ^ sign) - sign);
}

static float real_value(tv_dtype type, uint64_t bits)
{
    if (type == TV_F32)
        return tv_f32_of_bits((uint32_t)bits);
    return type == TV_F16 ? tv_f16_to_f32((uint16_t)bits) : tv_bf16_to_f32((uint16_t)bits);
}

static uint64_t real_bits(tv_dtype type, double x)
{
    if (type == TV_F32)
        return tv_f32_bits((float)x);
    return type == TV_F16 ? tv_f16_from_f64(x) : tv_bf16_from_f64(x);
}

static void real_text(tv_dtype type, uint64_t bits, char text[TV_DTYPE_TEXT])
{
    double x = (double)real_value(type, bits);
    if (x != x || x - x != 0) {
        snprintf(text, TV_DTYPE_TEXT, "%s", x != x ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    tv_c_locale locale = tv_c_locale_begin();
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, TV_DTYPE_TEXT, "%.*g", digits, x);
        if (real_bits(type, strtod(text, NULL)) == bits)
            break;
    }
    if (x == floor(x) && fabs(x) < 1e9) /* 280, not 2.8e+02 */
        snprintf(text, TV_DTYPE_TEXT, "%.0f", x);
    tv_c_locale_end(locale);
}

void tv_dtype_text(tv_dtype type, const void *bytes, uint64_t i, char text[TV_DTYPE_TEXT])
{
    uint64_t bits = load_bits(type, bytes, i);
    unsigned width = types[type].bits;
    switch (types[type].kind) {
    case SIGNED:
        snprintf(text, TV_DTYPE_TEXT, "%" PRId64, sign_extended(bits, width));
        break;
    case UNSIGNED:
        snprintf(text, TV_DTYPE_TEXT, "%" PRIu64, bits);
        break;
    case HEX:
        snprintf(text, TV_DTYPE_TEXT, "0x%0*" PRIx64, (int)(width / 4), bits);
        break;
    case FLOATING:
        real_text(type, bits, text);
        break;
    }
}

double tv_dtype_value(tv_dtype type, const void *bytes, uint64_t i)
{
    uint64_t bits = load_bits(type, bytes, i);
    switch (types[type].kind) {
    case SIGNED:
        return (double)sign_extended(bits, types[type].bits);
    case FLOATING:
        return (double)real_value(type, bits);
    default:
        return (double)bits;
    }
}

static bool parse_real(tv_dtype type, const char *text, uint64_t *bits)
{
    char *end;
    tv_c_locale locale = tv_c_locale_begin();
    *bits = type == TV_F32 ? tv_f32_bits(strtof(text, &end)) : real_bits(type, strtod(text, &end));
    tv_c_locale_end(locale);
    return end != text && *end == '\0';
}

static bool parse_integer(tv_dtype type, const char *text, uint64_t *bits)
{
    unsigned width = types[type].bits;
    bool negative = *text == '-', hex;
    const char *digits = text + (negative || *text == '+');
    char *end;
    hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    if (*digits < '0' || *digits > '9')
        return false;
    errno = 0;
    uint64_t value = strtoull(digits, &end, hex ? 16 : 10), max = tv_mask(width);
    if (types[type].kind == SIGNED && (!hex || negative))
        max = (max >> 1) + negative;
    else if (negative)
        max = 0;
    *bits = negative ? -value : value;
    return errno == 0 && *end == '\0' && value <= max;
}

tv_status tv_dtype_store(tv_dtype type, void *bytes, uint64_t i, const char *text)
{
    uint64_t bits;
    if (!(types[type].kind == FLOATING ? parse_real(type, text, &bits) : parse_integer(type, text, &bits)))
        return TV_ERR_INPUT;
    unsigned width = types[type].bits;
    if (width < 8)
        tv_int_set(bytes, width, i, (int)bits);
    else
        tv_store_le((uint8_t *)bytes + i * (width / 8), bits, width / 8);
    return TV_OK;
}
