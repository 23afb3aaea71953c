/* SPDX-License-Identifier: Apache-2.0 */
/* The opcode set of CMDQ: enumerations generated from its tables. CMDQ_TE_GEMM_TILE is a row of opcodes.def,
 * CMDQ_F_spm_bank one of fields.def. */
#ifndef TV_ISA_CMDQ_CMDQ_H
#define TV_ISA_CMDQ_CMDQ_H

#include "isa/isa.h"

/* The version of the set. Files of another major version are rejected. */
enum { CMDQ_VERSION_MAJOR = 1, CMDQ_VERSION_MINOR = 3, CMDQ_PUBLISHED_MINOR = 1 };

typedef enum cmdq_class { CMDQ_DMA, CMDQ_TE, CMDQ_VE, CMDQ_SYNC } cmdq_class;

typedef enum cmdq_field {
#define TV_FIELD(id, name, type, allowed, min, max, default_value, unit, doc, addition) CMDQ_F_##id,
#include "isa/cmdq/fields.def"
#undef TV_FIELD
    CMDQ_FIELDS
} cmdq_field;

enum { CMDQ_COMMON_FIELDS = CMDQ_F_debug + 1 };

typedef enum cmdq_opcode {
#define TV_OPCODE(id, since, deprecated, required, optional, class, meaning, source) CMDQ_##id,
#include "isa/cmdq/opcodes.def"
#undef TV_OPCODE
    CMDQ_OPCODES
} cmdq_opcode;

typedef enum cmdq_code {
#define TV_CODE_ROW(id, code, name, text) CMDQ_CODE_##id,
#include "isa/cmdq/codes.def"
#undef TV_CODE_ROW
    CMDQ_CODES
} cmdq_code;

/* Values of ENUM fields. */
enum {
    CMDQ_ROLE_WEIGHT,
    CMDQ_ROLE_ACTIVATION,
    CMDQ_ROLE_KV,
    CMDQ_ROLE_EMBEDDING,
    CMDQ_ROLE_AUX,
    CMDQ_ROLES, /* of transfers */
    CMDQ_ROLE_Q = CMDQ_ROLES,
    CMDQ_ROLE_K,
    CMDQ_ROLE_V,
    CMDQ_ROLE_NONE, /* of entries without a role */
    CMDQ_ALL_ROLES
};
enum { CMDQ_DIRECTION_READ, CMDQ_DIRECTION_WRITE };
enum { CMDQ_SOFTMAX_EXACT, CMDQ_SOFTMAX_NO_MAX };
enum { CMDQ_GELU_ERF, CMDQ_GELU_TANH };
enum { CMDQ_PAIRING_ADJACENT, CMDQ_PAIRING_HALF };
enum {
    CMDQ_ACTIVATION_NONE,
    CMDQ_ACTIVATION_RELU,
    CMDQ_ACTIVATION_CLIP,
    CMDQ_ACTIVATION_SILU, /* from here on: special functions */
    CMDQ_ACTIVATION_GELU,
    CMDQ_ACTIVATION_GELU_TANH,
    CMDQ_ACTIVATION_SIGMOID,
    CMDQ_ACTIVATION_TANH
};
enum {
    CMDQ_UNARY_RELU,
    CMDQ_UNARY_LEAKY_RELU,
    CMDQ_UNARY_CLIP,
    CMDQ_UNARY_ABS,
    CMDQ_UNARY_NEG,
    CMDQ_UNARY_SIGMOID, /* from here to ERF: special functions */
    CMDQ_UNARY_TANH,
    CMDQ_UNARY_EXP,
    CMDQ_UNARY_LOG,
    CMDQ_UNARY_SQRT,
    CMDQ_UNARY_RECIP,
    CMDQ_UNARY_ERF,
    CMDQ_UNARY_HARDSWISH,
    CMDQ_UNARY_HARDSIGMOID
};
enum { CMDQ_BINARY_SUB, CMDQ_BINARY_DIV, CMDQ_BINARY_MIN, CMDQ_BINARY_MAX, CMDQ_BINARY_POW };
enum { CMDQ_BROADCAST_NONE, CMDQ_BROADCAST_ROW, CMDQ_BROADCAST_COLUMN, CMDQ_BROADCAST_SCALAR };
enum { CMDQ_REDUCE_SUM, CMDQ_REDUCE_MEAN, CMDQ_REDUCE_MAX, CMDQ_REDUCE_MIN, CMDQ_REDUCE_ARGMAX };
enum { CMDQ_POOL_MAX, CMDQ_POOL_AVG };
enum { CMDQ_RESIZE_NEAREST, CMDQ_RESIZE_LINEAR };
enum { CMDQ_COORDINATE_HALF_PIXEL, CMDQ_COORDINATE_ALIGN_CORNERS, CMDQ_COORDINATE_ASYMMETRIC };
enum { CMDQ_NEAREST_PREFER_LOW, CMDQ_NEAREST_PREFER_HIGH, CMDQ_NEAREST_LOW, CMDQ_NEAREST_HIGH };
enum { CMDQ_KIND_K, CMDQ_KIND_V };

enum { CMDQ_OPCODES_ROOM = CMDQ_OPCODES + TV_EXTENSION_ROWS }; /* with those of extensions */

extern const uint8_t cmdq_classes[CMDQ_OPCODES]; /* cmdq_class */
extern const char *const cmdq_role_names[CMDQ_ALL_ROLES];
extern const tv_code cmdq_codes[CMDQ_CODES];
extern tv_isa tv_isa_cmdq; /* constant but for extensions */

#endif
