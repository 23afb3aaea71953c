/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding: from an instruction word and its row of the opcode table to an operation, with registers as base rows. */
#include "machine/opennpu/internal.h"

static void decode_attributes(opennpu_op *op, enum opennpu_format format, uint32_t word)
{
    switch (format) {
    case OPENNPU_FORMAT_NOP:
        break;
    case OPENNPU_FORMAT_R:
        op->class_ = (uint8_t)opennpu_R_width(word);
        op->round = (uint8_t)opennpu_R_round(word);
        op->sat = (uint8_t)opennpu_R_sat(word);
        break;
    case OPENNPU_FORMAT_S:
        op->round = (uint8_t)opennpu_S_rnd(word);
        break;
    case OPENNPU_FORMAT_I:
        op->imm = (int16_t)((int32_t)(opennpu_I_imm(word) ^ 0x800) - 0x800);
        break;
    case OPENNPU_FORMAT_CVT:
        op->round = (uint8_t)opennpu_CVT_round(word);
        op->sat = (uint8_t)opennpu_CVT_sat(word);
        op->e5m2 = (uint8_t)opennpu_CVT_bf8(word);
        break;
    case OPENNPU_FORMATS:
        break; /* no format */
    }
}

static uint32_t rows_mask(opennpu_rows rows) { return (uint32_t)(tv_mask(rows.count) << rows.first); }

/* Base rows of the registers that the row names. Returns the register operand that lies past L, or -1; of several the
 * topmost in the word, as the codec reports. */
static int decode_registers(opennpu_op *op, const opennpu_opcode *row, uint32_t l, opennpu_illegal *illegal)
{
    int missing = -1;
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++) {
        if (!((op->reads | op->writes) >> r & 1))
            continue;
        unsigned class_ = row->class_[r] == TV_CLASS_FIELD ? op->class_ : row->class_[r],
                 index = op->word >> row->lo[r] & 31;
        op->rows[r] = (opennpu_rows){(uint8_t)(index << class_), (uint8_t)(1u << class_)};
        if (op->reads >> r & 1)
            op->rows_read |= rows_mask(op->rows[r]);
        if ((index + 1) << class_ > l && (missing < 0 || row->lo[r] > row->lo[missing])) {
            missing = (int)r;
            illegal->class_ = class_;
        }
    }
    if (op->writes)
        op->rows_written = rows_mask(op->rows[OPENNPU_RD]);
    return missing;
}

bool opennpu_decode(const tv_codec *codec, const opennpu_opcodes *opcodes, uint32_t word, uint32_t l, opennpu_op *op,
                    opennpu_illegal *illegal)
{
    int insn = illegal->row = tv_codec_row(codec, word, &illegal->why);
    if (insn < 0)
        return false;
    const opennpu_opcode *row = &opcodes->rows[insn];
    *op = (opennpu_op){.word = word,
                       .insn = (uint16_t)insn,
                       .reads = row->reads,
                       .writes = row->writes,
                       .engine = row->engine,
                       .effects = row->effects,
                       .latency = row->latency,
                       .port_bytes = row->port_bytes,
                       .port_ticks = row->port_ticks,
                       .macs = row->macs,
                       .execute = row->execute};
    decode_attributes(op, (enum opennpu_format)row->format, word);
    bool keep = op->effects & OPENNPU_READS_ACC_IF_KEEP && op->sat;
    if (keep)
        op->effects |= OPENNPU_READS_ACC;
    op->profile = (uint16_t)(insn * OPENNPU_PROFILES + 2 * op->class_ + keep);
    int missing = decode_registers(op, row, l, illegal);
    if (missing >= 0)
        illegal->why =
            (tv_illegal){&opennpu_codes[OPENNPU_CODE_REGISTER], row->field[missing], word >> row->lo[missing] & 31};
    return missing < 0;
}

void opennpu_print_illegal(const opennpu_illegal *illegal, uint32_t l, tv_buf *out)
{
    static const char *const names[OPENNPU_CLASSES] = {"vx", "ve", "vr"};
    if (illegal->row < 0)
        tv_isa_print_illegal(&tv_isa_opennpu, &illegal->why, out);
    else
        tv_buf_printf(out, "there is no %s%u: with vector.l = %u the last is %s%u", names[illegal->class_],
                      (unsigned)illegal->why.value, l, names[illegal->class_], (l >> illegal->class_) - 1);
}
