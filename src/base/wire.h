/* SPDX-License-Identifier: Apache-2.0 */
/* The wire format of Protocol Buffers: a message is a sequence of fields, each a number with a kind, then a number of
 * up to ten bytes, four or eight bytes, or a length and that many bytes. */
#ifndef TV_BASE_WIRE_H
#define TV_BASE_WIRE_H

#include "base/sv.h"

typedef enum tv_wire_kind {
    TV_WIRE_NUMBER = 0,
    TV_WIRE_8_BYTES = 1,
    TV_WIRE_LENGTH = 2,
    TV_WIRE_4_BYTES = 5
} tv_wire_kind;

/* A message that is read from its beginning. It allocates nothing and does not own the bytes. */
typedef struct tv_wire {
    const uint8_t *at, *end;
    const char *problem; /* a static text, once something was wrong */
} tv_wire;

typedef struct tv_wire_field {
    unsigned number;
    tv_wire_kind kind;
    uint64_t value; /* of 4 or 8 bytes: little endian; LENGTH: the length */
    tv_sv bytes;    /* inside of the message; of NUMBER: its `ptr` is NULL */
} tv_wire_field;

static inline tv_wire tv_wire_of(tv_sv message)
{
    const uint8_t *start = (const uint8_t *)message.ptr;
    return (tv_wire){start, start + message.len, NULL};
}

/* Reads a number of seven bits a byte, the lowest first. false: see `problem`. */
bool tv_wire_number(tv_wire *wire, uint64_t *out);

/* Reads the next field. false: the message ends here, or see `problem`. */
bool tv_wire_next(tv_wire *wire, tv_wire_field *out);

#endif
