/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on lanes without a machine: the loops of arith.c on values of the caller. */
#include "machine/opennpu/ops.h"
#include "machine/opennpu/params.h"

typedef struct operand_lanes {
    int32_t at[OPENNPU_K_MAX];
    int8_t bytes[OPENNPU_K_MAX];
} operand_lanes;

/* The low `bits` bits of x, sign extended. */
static int32_t sign_extend(uint32_t x, unsigned bits) { return (int32_t)(x << (32 - bits)) >> (32 - bits); }

static unsigned register_bits(const opennpu_op *op, unsigned r) { return 8u * op->rows[r].count; }

static void load_operands(const opennpu_op *op, size_t count, const uint32_t *const sources[3], operand_lanes lanes[])
{
    for (unsigned r = OPENNPU_RS1; r < OPENNPU_RD; r++)
        for (size_t i = 0; i < count && op->reads >> r & 1; i++) {
            lanes[r].at[i] = sign_extend(sources[r][i], register_bits(op, r));
            lanes[r].bytes[i] = (int8_t)lanes[r].at[i];
        }
}

/* The loop of the operation on lanes of 32 bits, or of 8 bits where it has such lanes. */
static void compute(const opennpu_opcode *row, const opennpu_op *op, size_t count, operand_lanes lanes[])
{
    bool has_bytes = row->execute == opennpu_exec_sized && op->class_ == OPENNPU_VX;
    operand_lanes *y = &lanes[OPENNPU_RD];
    opennpu_lanes l = {.k = (uint32_t)count};
    l.y = has_bytes ? (void *)y->bytes : y->at;
    l.a = has_bytes ? (void *)lanes[OPENNPU_RS1].bytes : lanes[OPENNPU_RS1].at;
    l.b = has_bytes ? (void *)lanes[OPENNPU_RS2].bytes : lanes[OPENNPU_RS2].at;
    l.c = lanes[OPENNPU_RS3].at;
    (*row->loops)[op->class_][op->sat](op, &l);
    for (size_t i = 0; i < count; i++)
        y->at[i] = has_bytes ? y->bytes[i] : sign_extend((uint32_t)y->at[i], register_bits(op, OPENNPU_RD));
}

tv_status opennpu_compute_lanes(const tv_config *config, uint64_t word, size_t lanes, const uint32_t *const sources[3],
                                uint32_t *out)
{
    tv_codec *codec;
    opennpu_opcodes opcodes = {0};
    opennpu_op op;
    opennpu_illegal illegal;
    uint32_t l = (uint32_t)tv_config_integer(config, OPENNPU_PARAM_L);
    TV_TRY(tv_codec_new_for(&tv_isa_opennpu, NULL, &codec));
    tv_status status = opennpu_opcodes_init(&opcodes, config, NULL);
    if (status == TV_OK &&
        (word > UINT32_MAX || lanes == 0 || lanes > OPENNPU_K_MAX ||
         !opennpu_decode(codec, &opcodes, (uint32_t)word, l, &op, &illegal) || !opcodes.rows[op.insn].loops))
        status = TV_ERR_INPUT;
    if (status == TV_OK) {
        operand_lanes operands[OPENNPU_REGISTERS] = {0};
        load_operands(&op, lanes, sources, operands);
        compute(&opcodes.rows[op.insn], &op, lanes, operands);
        memcpy(out, operands[OPENNPU_RD].at, lanes * sizeof *out);
    }
    opennpu_opcodes_fini(&opcodes);
    tv_codec_free(codec);
    return status;
}
