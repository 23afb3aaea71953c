/* SPDX-License-Identifier: Apache-2.0 */
/* Reads fields of the wire format of Protocol Buffers. */
#include "base/wire.h"

static bool fail(tv_wire *w, const char *problem)
{
    w->problem = problem;
    return false;
}

bool tv_wire_number(tv_wire *w, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end)
            return fail(w, "a number is cut off");
        uint8_t byte = *w->at++;
        *out |= shift < 64 ? (uint64_t)(byte & 0x7F) << shift : 0;
        if (byte < 0x80)
            return true;
    }
    return fail(w, "a number has more than ten bytes");
}

static bool take_bytes(tv_wire *w, uint64_t count, tv_sv *out)
{
    if (count > (uint64_t)(w->end - w->at))
        return fail(w, "a field is longer than its message");
    *out = (tv_sv){(const char *)w->at, (size_t)count};
    w->at += count;
    return true;
}

static bool take_fixed(tv_wire *w, unsigned count, tv_wire_field *out)
{
    if (!take_bytes(w, count, &out->bytes))
        return false;
    out->value = count == 8 ? tv_load_le64(out->bytes.ptr) : tv_load_le32(out->bytes.ptr);
    return true;
}

bool tv_wire_next(tv_wire *w, tv_wire_field *out)
{
    uint64_t tag;
    if (w->problem || w->at == w->end || !tv_wire_number(w, &tag))
        return false;
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
        return fail(w, "a field has no valid number");
    out->number = (unsigned)(tag >> 3);
    out->kind = (tv_wire_kind)(tag & 7);
    out->bytes = (tv_sv){NULL, 0};
    switch (out->kind) {
    case TV_WIRE_NUMBER:
        return tv_wire_number(w, &out->value);
    case TV_WIRE_8_BYTES:
        return take_fixed(w, 8, out);
    case TV_WIRE_LENGTH:
        return tv_wire_number(w, &out->value) && take_bytes(w, out->value, &out->bytes);
    case TV_WIRE_4_BYTES:
        return take_fixed(w, 4, out);
    }
    return fail(w, "a field is of an unknown kind");
}
