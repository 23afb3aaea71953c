/* SPDX-License-Identifier: Apache-2.0 */
/* The tv_isa value of CMDQ, generated from fields.def, opcodes.def and codes.def. */
#include "isa/cmdq/cmdq.h"

const tv_code cmdq_codes[CMDQ_CODES] = {
#define TV_CODE_ROW(id, code_, name_, text_) {.code = (code_), .name = (name_), .text = (text_)},
#include "isa/cmdq/codes.def"
#undef TV_CODE_ROW
};

static const char *const enum_transfer_roles[] = {"weight", "activation", "kv", "embedding", "aux", NULL};
static const char *const enum_compute_roles[] = {"weight", "activation", "kv", "embedding", "aux", "q", "k", "v", NULL};
static const char *const enum_tensor_modes[] = {"projection", "attention_score", "attention_value", "ffn", NULL};
static const char *const enum_vector_modes[] = {"rotary", "attention_score", "normalization", "activation", NULL};
static const char *const enum_directions[] = {"read", "write", NULL};
static const char *const enum_softmax_forms[] = {"exact", "no_max", NULL};
static const char *const enum_approximations[] = {"erf", "tanh", NULL};
static const char *const enum_pairings[] = {"adjacent", "half", NULL};
static const char *const enum_activations[] = {"none",      "relu",    "clip", "silu", "gelu",
                                               "gelu_tanh", "sigmoid", "tanh", NULL};
static const char *const enum_unary_functions[] = {"relu",    "leaky_relu", "clip",      "abs",         "neg",
                                                   "sigmoid", "tanh",       "exp",       "log",         "sqrt",
                                                   "recip",   "erf",        "hardswish", "hardsigmoid", NULL};
static const char *const enum_binary_functions[] = {"sub", "div", "min", "max", "pow", NULL};
static const char *const enum_broadcasts[] = {"none", "row", "column", "scalar", NULL};
static const char *const enum_reduce_functions[] = {"sum", "mean", "max", "min", "argmax", NULL};
static const char *const enum_pool_functions[] = {"max", "avg", NULL};
static const char *const enum_resize_modes[] = {"nearest", "linear", NULL};
static const char *const enum_coordinate_modes[] = {"half_pixel", "align_corners", "asymmetric", NULL};
static const char *const enum_nearest_modes[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
static const char *const enum_kv_kinds[] = {"k", "v", NULL};

const char *const cmdq_role_names[CMDQ_ALL_ROLES] = {"weight", "activation", "kv", "embedding", "aux",
                                                     "q",      "k",          "v",  "none"};

/* The column `allowed` is a list of names for ENUM, otherwise a set of numbers. */
#define SET_ANY 0
#define SET_QBITS (UINT64_C(1) << 2 | UINT64_C(1) << 4 | UINT64_C(1) << 8 | UINT64_C(1) << 16 | UINT64_C(1) << 32)
#define ALLOWED_INTEGER(set) .allowed = SET_##set
#define ALLOWED_REAL(set) .allowed = TV_##set
#define ALLOWED_BOOLEAN(set) .allowed = 0
#define ALLOWED_TEXT(set) .allowed = 0
#define ALLOWED_IDS(set) .allowed = 0
#define ALLOWED_OBJECT(set) .allowed = 0
#define ALLOWED_ENUM(set) .enum_names = enum_##set

#define MAX_INTEGER INT64_MAX
#define MAX_32 UINT32_MAX
#define MAX_DIM (1 << 24) /* products of three do not overflow if their tiles fit SPM */
#define MAX_ID (UINT32_MAX - 1)

static const tv_parameter parameters[CMDQ_FIELDS] = {
#define TV_FIELD(id, name_, type_, allowed_, min_, max_, fallback_, unit_, doc_, addition_)                            \
    {.name = (name_),                                                                                                  \
     .type = TV_PARAMETER_##type_,                                                                                     \
     ALLOWED_##type_(allowed_),                                                                                        \
     .min = (min_),                                                                                                    \
     .max = (max_),                                                                                                    \
     .default_value = (fallback_),                                                                                     \
     .unit = (unit_),                                                                                                  \
     .doc = (doc_),                                                                                                    \
     .addition = (addition_)},
#include "isa/cmdq/fields.def"
#undef TV_FIELD
};

/* Arrays must not be empty: each has a last row that is not counted. */
#define UNWRAP(...) __VA_ARGS__
#define REQ(field) {CMDQ_F_##field, TV_REQUIRED},
#define OPT(field) {CMDQ_F_##field, TV_OPTIONAL},
#define MEM(field) {CMDQ_F_##field, TV_MEMBER},
#define MEM_REQ(field) {CMDQ_F_##field, TV_MEMBER_REQUIRED},
#define TV_OPCODE(id, since, deprecated, required, optional, class, meaning, source)                                   \
    static const tv_parameter_use uses_##id[] = {UNWRAP required UNWRAP optional{0}};
#include "isa/cmdq/opcodes.def"
#undef TV_OPCODE
#undef REQ
#undef OPT
#undef MEM
#undef MEM_REQ

const uint8_t cmdq_classes[CMDQ_OPCODES] = {
#define TV_OPCODE(id, since, deprecated, required, optional, class, meaning, source) CMDQ_##class,
#include "isa/cmdq/opcodes.def"
#undef TV_OPCODE
};

#define UNIT_DMA "DMA"
#define UNIT_TE "TE"
#define UNIT_VE "VE"
#define UNIT_SYNC "sync"

static tv_insn insns[CMDQ_OPCODES + TV_EXTENSION_ROWS] = {
#define TV_OPCODE(id_, since_, deprecated_, required, optional, class, meaning_, source_)                              \
    {.id = #id_,                                                                                                       \
     .mnemonic = #id_,                                                                                                 \
     .parameter_count = TV_COUNTOF(uses_##id_) - 1,                                                                    \
     .parameters = uses_##id_,                                                                                         \
     .since = (since_),                                                                                                \
     .deprecated_since = (deprecated_),                                                                                \
     .unit = UNIT_##class,                                                                                             \
     .meaning = (meaning_),                                                                                            \
     .source = (source_)},
#include "isa/cmdq/opcodes.def"
#undef TV_OPCODE
};

tv_isa tv_isa_cmdq = {
    .target = "cmdq",
    .title = "CMDQ machine: a JSON command queue over DMA, tensor and vector engines",
    .parameters = parameters,
    .parameter_count = CMDQ_FIELDS,
    .common_count = CMDQ_COMMON_FIELDS,
    .insns = insns,
    .insn_count = CMDQ_OPCODES,
    .insn_room = TV_COUNTOF(insns),
    .published_minor = CMDQ_PUBLISHED_MINOR,
    .codes = cmdq_codes,
    .code_count = CMDQ_CODES,
};
