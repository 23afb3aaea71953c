/* SPDX-License-Identifier: Apache-2.0 */
/* The tv_isa value of pccx v002, expanded from fields.def, insns.def and codes.def, and the compile-time checks that
 * every format names every bit of the word exactly once and that fixed values fit their fields. */
#include "isa/pccx/pccx.h"

/* ---- Checks ---- */

#define TV_LAYOUT "isa/pccx/fields.def"
#define TV_LAYOUT_ID(format) PCCX_FORMAT_##format
#define TV_LAYOUT_BITS 64
#define TV_LAYOUT_FORMAT MATRIX
#include "isa/layout_check.h"
#define TV_LAYOUT_FORMAT MEMCPY
#include "isa/layout_check.h"
#define TV_LAYOUT_FORMAT MEMSET
#include "isa/layout_check.h"
#define TV_LAYOUT_FORMAT CVO
#include "isa/layout_check.h"

/* ---- Operand kinds --------------------------------------------------------------------------------------------- */

static const char *const bank_names[] = {"fmap_shape", "weight_shape"};

static const tv_operand_kind kind_NONE = {.name = "none", .syntax = TV_SYNTAX_NONE, .doc = "not an operand"};
static const tv_operand_kind kind_UINT = {
    .name = "number", .syntax = TV_SYNTAX_UINT, .scale = 1, .doc = "unsigned number"};
static const tv_operand_kind kind_FLAG = {.name = "flag", .syntax = TV_SYNTAX_FLAG, .doc = "present or absent"};
static const tv_operand_kind kind_L2 = {
    .name = "l2", .syntax = TV_SYNTAX_BRACKET, .scale = 1, .doc = "L2 word address (16 bytes, 8 BF16 lanes)"};
static const tv_operand_kind kind_L2_OR_FIFO = {.name = "l2",
                                                .syntax = TV_SYNTAX_BRACKET,
                                                .scale = 1,
                                                .tag = "fifo",
                                                .tag_value = PCCX_TAG_FIFO,
                                                .doc = "L2 word address, or the direct FIFO"};
static const tv_operand_kind kind_HOST = {
    .name = "host", .syntax = TV_SYNTAX_BRACKET, .scale = 16, .doc = "host byte address, a multiple of 16"};
static const tv_operand_kind kind_ENTRY = {.name = "entry",
                                           .syntax = TV_SYNTAX_ENTRY,
                                           .names = bank_names,
                                           .name_count = TV_COUNTOF(bank_names),
                                           .index_bits = 6,
                                           .doc = "Constant Cache bank and entry"};

/* ---- Tables ---------------------------------------------------------------------------------------------------- */

const tv_code pccx_codes[PCCX_CODES] = {
#define TV_CODE_ROW(id, code_, name_, text_) {.code = (code_), .name = (name_), .text = (text_)},
#include "isa/pccx/codes.def"
#undef TV_CODE_ROW
};

static const char *const formats[] = {
#define TV_FORMAT(id) #id,
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc)
#define TV_RESERVED(format, name, hi, lo)
#define TV_JOINED(format, name, high, low, kind, doc)
#include "isa/pccx/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_RESERVED
#undef TV_JOINED
};

static const tv_field fields[PCCX_FIELDS] = {
#define TV_FORMAT(id)
#define TV_FIELD(format_, name_, hi_, lo_, k_, limit_, illegal_, doc_)                                                 \
    {.name = #name_,                                                                                                   \
     .format = PCCX_FORMAT_##format_,                                                                                  \
     .role = TV_FIELD_VALUE,                                                                                           \
     .hi = (hi_),                                                                                                      \
     .lo = (lo_),                                                                                                      \
     .kind = &kind_##k_,                                                                                               \
     .limit = (limit_),                                                                                                \
     .illegal = &pccx_codes[PCCX_CODE_##illegal_],                                                                     \
     .doc = (doc_)},
#define TV_RESERVED(format_, name_, hi_, lo_)                                                                          \
    {.name = #name_,                                                                                                   \
     .format = PCCX_FORMAT_##format_,                                                                                  \
     .role = TV_FIELD_RESERVED,                                                                                        \
     .hi = (hi_),                                                                                                      \
     .lo = (lo_),                                                                                                      \
     .kind = &kind_NONE,                                                                                               \
     .illegal = &pccx_codes[PCCX_CODE_RESERVED],                                                                       \
     .doc = "must be zero"},
#define TV_JOINED(format_, name_, high_, low_, k_, doc_)                                                               \
    {.name = #name_,                                                                                                   \
     .format = PCCX_FORMAT_##format_,                                                                                  \
     .role = TV_FIELD_JOINED,                                                                                          \
     .high_field = PCCX_F_##format_##_##high_,                                                                         \
     .low_field = PCCX_F_##format_##_##low_,                                                                           \
     .kind = &kind_##k_,                                                                                               \
     .illegal = &pccx_codes[PCCX_CODE_OPCODE],                                                                         \
     .doc = (doc_)},
#include "isa/pccx/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_RESERVED
#undef TV_JOINED
};

#define UNWRAP(...) __VA_ARGS__

/* A value too wide for its field makes the array's size negative. */
#define FITS(name, value) (uint64_t)(value) + 0 * sizeof(char[(value) <= (name##_max) ? 1 : -1])

enum {
#define TV_FORMAT(id)
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc)                                                      \
    format##_##name##_max = (hi) - (lo) >= 30 ? INT32_MAX : (1 << (((hi) - (lo) + 1) & 31)) - 1,
#define TV_RESERVED(format, name, hi, lo)
#define TV_JOINED(format, name, high, low, kind, doc)
#include "isa/pccx/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_RESERVED
#undef TV_JOINED
};

#define FIX(format, field, value) {PCCX_F_##format##_##field, FITS(format##_##field, value)},
#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source)                                    \
    static const tv_fixed fixed_##id[] = {UNWRAP fixed};
#include "isa/pccx/insns.def"
#undef TV_INSN
#undef FIX

#define POS(format, field) {TV_POSITIONAL, NULL, PCCX_F_##format##_##field, NULL},
#define AS(kind, format, field) {TV_POSITIONAL, NULL, PCCX_F_##format##_##field, &kind_##kind},
#define KEY(word, format, field) {TV_KEYWORD, word, PCCX_F_##format##_##field, NULL},
#define OPT(word, format, field) {TV_KEYWORD_OPTIONAL, word, PCCX_F_##format##_##field, NULL},
#define FLAG(format, field) {TV_FLAG_OPTIONAL, #field, PCCX_F_##format##_##field, NULL},
#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source)                                    \
    static const tv_operand operands_##id[] = {UNWRAP operands};
#include "isa/pccx/insns.def"
#undef TV_INSN
#undef POS
#undef AS
#undef KEY
#undef OPT
#undef FLAG

/* ---- uops and routes (instruction encoding, sections 4 and 5) --------------------------------------------------- */

#define F(format, field) PCCX_F_##format##_##field

/* The packed uops, in the order in which the documents list their fields. The address of the side that is no L2 word is
 * zero, and so are the reserved flags. */
#define MEMORY_SLICES(dest, src, shape, async)                                                                         \
    {                                                                                                                  \
        {8, TV_SLICE_ROUTE}, {17, dest}, {17, src}, {6, shape}, {1, async}, { 0, 0 }                                   \
    }
#define MATRIX_SLICES                                                                                                  \
    {                                                                                                                  \
        {1, F(MATRIX, findemax)}, {1, F(MATRIX, accm)}, {1, F(MATRIX, w_scale)}, {3, TV_SLICE_ZERO},                   \
            {6, F(MATRIX, size_ptr_addr)}, {5, F(MATRIX, parallel_lane)},                                              \
        {                                                                                                              \
            0, 0                                                                                                       \
        }                                                                                                              \
    }
#define MATRIX_CONTROL                                                                                                 \
    {                                                                                                                  \
        F(MATRIX, findemax), F(MATRIX, accm), F(MATRIX, w_scale), F(MATRIX, size_ptr_addr), F(MATRIX, parallel_lane),  \
            TV_NO_FIELD                                                                                                \
    }
#define MATRIX_READ(route_, name_, skipped)                                                                            \
    {                                                                                                                  \
        "memory_control_uop_t", route_, name_, {F(MATRIX, src_addr), F(MATRIX, shape_ptr_addr), TV_NO_FIELD}, skipped, \
            MEMORY_SLICES(TV_SLICE_ZERO, F(MATRIX, src_addr), F(MATRIX, shape_ptr_addr), TV_SLICE_ZERO)                \
    }
#define MATRIX_WRITE(route_, name_, skipped)                                                                           \
    {                                                                                                                  \
        "memory_control_uop_t", route_, name_, {F(MATRIX, dest_reg), F(MATRIX, shape_ptr_addr), TV_NO_FIELD}, skipped, \
            MEMORY_SLICES(F(MATRIX, dest_reg), TV_SLICE_ZERO, F(MATRIX, shape_ptr_addr), TV_SLICE_ZERO)                \
    }
#define MEMCPY_UOP(route_, name_)                                                                                      \
    {                                                                                                                  \
        "memory_control_uop_t", route_, name_, {F(MEMCPY, dest_addr),      F(MEMCPY, src_addr), F(MEMCPY, aux_addr),   \
                                                F(MEMCPY, shape_ptr_addr), F(MEMCPY, async),    TV_NO_FIELD},          \
            TV_NO_FIELD,                                                                                               \
            MEMORY_SLICES(F(MEMCPY, dest_addr), F(MEMCPY, src_addr), F(MEMCPY, shape_ptr_addr), F(MEMCPY, async))      \
    }

static const tv_uop gemv_uops[] = {
    MATRIX_READ(0x13, "from_L2_to_L1_GEMV", F(MATRIX, src_addr)),
    {"GEMV_control_uop_t", 0, NULL, MATRIX_CONTROL, TV_NO_FIELD, MATRIX_SLICES},
    MATRIX_WRITE(0x31, "from_GEMV_res_to_L2", F(MATRIX, dest_reg)),
};
static const tv_uop gemm_uops[] = {
    MATRIX_READ(0x12, "from_L2_to_L1_GEMM", TV_NO_FIELD),
    {"gemm_control_uop_t", 0, NULL, MATRIX_CONTROL, TV_NO_FIELD, MATRIX_SLICES},
    MATRIX_WRITE(0x21, "from_GEMM_res_to_L2", TV_NO_FIELD),
};
static const tv_uop load_uops[] = {MEMCPY_UOP(0x01, "from_host_to_L2")};
static const tv_uop store_uops[] = {MEMCPY_UOP(0x10, "from_L2_to_host")};
static const tv_uop move_uops[] = {MEMCPY_UOP(0x11, "from_L2_to_L2")}; /* the documents name no code for this route */
static const tv_uop memset_uops[] = {
    {"memory_set_uop_t",
     0,
     NULL,
     {F(MEMSET, dest_cache), F(MEMSET, dest_addr), F(MEMSET, a_value), F(MEMSET, b_value), F(MEMSET, c_value),
      TV_NO_FIELD},
     TV_NO_FIELD,
     {{2, F(MEMSET, dest_cache)},
      {6, F(MEMSET, dest_addr)},
      {16, F(MEMSET, a_value)},
      {16, F(MEMSET, b_value)},
      {16, F(MEMSET, c_value)},
      {0, 0}}},
};
static const tv_uop cvo_uops[] = {
    {"memory_control_uop_t",
     0x14,
     "from_L2_to_CVO",
     {F(CVO, src_addr), F(CVO, async), TV_NO_FIELD},
     F(CVO, src_addr),
     MEMORY_SLICES(TV_SLICE_ZERO, F(CVO, src_addr), TV_SLICE_ZERO, F(CVO, async))},
    {"cvo_control_uop_t",
     0,
     NULL,
     {F(CVO, cvo_func), F(CVO, src_addr), F(CVO, dst_addr), F(CVO, length), F(CVO, sub_emax), F(CVO, recip_scale),
      F(CVO, accm), F(CVO, async), TV_NO_FIELD},
     TV_NO_FIELD,
     {{4, F(CVO, cvo_func)},
      {17, F(CVO, src_addr)},
      {17, F(CVO, dst_addr)},
      {16, F(CVO, length)},
      {1, F(CVO, sub_emax)},
      {1, F(CVO, recip_scale)},
      {1, F(CVO, accm)},
      {2, TV_SLICE_ZERO},
      {1, F(CVO, async)},
      {0, 0}}},
    {"memory_control_uop_t",
     0x41,
     "from_CVO_res_to_L2",
     {F(CVO, dst_addr), F(CVO, async), TV_NO_FIELD},
     F(CVO, dst_addr),
     MEMORY_SLICES(F(CVO, dst_addr), TV_SLICE_ZERO, TV_SLICE_ZERO, F(CVO, async))},
};

static tv_insn insns[PCCX_INSNS + TV_EXTENSION_ROWS] = {
#define TV_INSN(id_, mnemonic_, format_, fix_, ops_, unit_, uops_, meaning_, source_)                                  \
    {.id = #id_,                                                                                                       \
     .mnemonic = (mnemonic_),                                                                                          \
     .format = PCCX_FORMAT_##format_,                                                                                  \
     .fixed_count = TV_COUNTOF(fixed_##id_),                                                                           \
     .operand_count = TV_COUNTOF(operands_##id_),                                                                      \
     .uop_count = TV_COUNTOF(uops_),                                                                                   \
     .fixed = fixed_##id_,                                                                                             \
     .operands = operands_##id_,                                                                                       \
     .uops = (uops_),                                                                                                  \
     .unit = (unit_),                                                                                                  \
     .meaning = (meaning_),                                                                                            \
     .source = (source_)},
#include "isa/pccx/insns.def"
#undef TV_INSN
};

static const char *const streams[] = {[PCCX_STREAM_GEMM] = "gemm", [PCCX_STREAM_GEMV] = "gemv", [PCCX_STREAMS] = NULL};

tv_isa tv_isa_pccx = {
    .target = "pccx",
    .title = "pccx v002 accelerator: 64-bit instructions, W4A8, systolic array, vector cores, special function unit",
    .word_bits = 64,
    .formats = formats,
    .format_count = PCCX_FORMATS,
    .fields = fields,
    .field_count = PCCX_FIELDS,
    .insns = insns,
    .insn_count = PCCX_INSNS,
    .insn_room = TV_COUNTOF(insns),
    .codes = pccx_codes,
    .code_count = PCCX_CODES,
    .index = {{60, 4}, {56, 4}}, /* the opcode, and the function of CVO */
    .fifo_tag = PCCX_TAG_FIFO,
    .streams = streams,
};
