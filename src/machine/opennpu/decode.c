/* SPDX-License-Identifier: Apache-2.0 */
/* From a row of the instruction table and a word to an operation: its registers as base rows, its attributes. */
#include "machine/opennpu/machine.h"
#include "machine/opennpu/params.h"

/* Which of the machine's registers a field names, or -1. */
static int register_of(unsigned field)
{
    switch (field) {
    case OPENNPU_F_R_rs1:
    case OPENNPU_F_I_rs1:
    case OPENNPU_F_I_address:
    case OPENNPU_F_S_rs1:
    case OPENNPU_F_CVT_rs1:
        return OPENNPU_RS1;
    case OPENNPU_F_R_rs2:
    case OPENNPU_F_S_rs2:
        return OPENNPU_RS2;
    case OPENNPU_F_S_rs3:
        return OPENNPU_RS3;
    case OPENNPU_F_R_rd:
    case OPENNPU_F_I_rd:
    case OPENNPU_F_S_rd:
    case OPENNPU_F_CVT_rd:
        return OPENNPU_RD;
    default:
        return -1;
    }
}

uint64_t opennpu_macs(unsigned insn, uint64_t k)
{
    return insn == OPENNPU_MMA || insn == OPENNPU_MMA_LAST_KEEP ? k * k : 0;
}

uint64_t opennpu_port_bytes(unsigned insn, uint64_t k)
{
    unsigned first = insn >= OPENNPU_ST_B ? OPENNPU_ST_B : OPENNPU_LD_B, form = insn - first;
    if (insn < OPENNPU_LD_B || insn > OPENNPU_ST_VR)
        return 0;
    return (UINT64_C(1) << form % 3) * (form < 3 ? 1 : k);
}

static bool is_store(unsigned insn) { return insn >= OPENNPU_ST_B && insn <= OPENNPU_ST_VR; }

static unsigned engine_of(const tv_insn *insn)
{
    unsigned e = 0;
    while (strcmp(opennpu_engine_names[e], insn->unit) != 0)
        e++;
    return e;
}

/* What lacks a row takes one tick. */
static void set_times(opennpu_opcode_info *shape, unsigned insn, uint16_t ld_latency)
{
    shape->latency = shape->port_ticks = 1;
    switch (insn) {
#define LD ld_latency
#define TV_TIME(id, latency_, port_ticks_, source)                                                                     \
    case OPENNPU_##id:                                                                                                 \
        shape->latency = (latency_);                                                                                   \
        shape->port_ticks = (port_ticks_);                                                                             \
        break;
#include "machine/opennpu/times.def"
#undef TV_TIME
#undef LD
    default:
        break;
    }
}

void opennpu_opcode_info_init(opennpu_opcode_info shapes[OPENNPU_INSNS], const tv_config *config)
{
    const tv_isa *isa = &tv_isa_opennpu;
    for (unsigned i = 0; i < OPENNPU_INSNS; i++) {
        const tv_insn *insn = &isa->insns[i];
        shapes[i] = (opennpu_opcode_info){.format = insn->format};
        shapes[i].engine = (uint8_t)engine_of(insn);
        set_times(&shapes[i], i, (uint16_t)tv_config_integer(config, OPENNPU_PARAM_LD_LATENCY));
        for (unsigned k = 0; k < insn->operand_count; k++) {
            int r = register_of(insn->operands[k].field);
            if (r < 0)
                continue;
            const tv_field *field = &isa->fields[insn->operands[k].field];
            shapes[i].field[r] = field->role == TV_FIELD_JOINED ? field->low_part : insn->operands[k].field;
            shapes[i].lo[r] = isa->fields[shapes[i].field[r]].lo;
            shapes[i].class_[r] = tv_operand_kind_of(isa, &insn->operands[k])->reg_class;
            if (r == OPENNPU_RD && !is_store(i))
                shapes[i].writes |= (uint8_t)(1u << r);
            else
                shapes[i].reads |= (uint8_t)(1u << r);
        }
    }
}

static void take_attributes(opennpu_op *op, unsigned format, uint32_t word)
{
    switch (format) {
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
    default:
        break;
    }
}

static uint32_t rows_mask(opennpu_rows rows) { return (uint32_t)(tv_mask(rows.count) << rows.first); }

bool opennpu_decode(const tv_codec *codec, const opennpu_opcode_info shapes[OPENNPU_INSNS], uint32_t word, uint32_t l,
                    opennpu_op *op, opennpu_illegal *illegal)
{
    int insn = illegal->row = tv_codec_row(codec, word, &illegal->why);
    if (insn < 0)
        return false;
    const opennpu_opcode_info *shape = &shapes[insn];
    *op = (opennpu_op){.word = word,
                       .insn = (uint8_t)insn,
                       .reads = shape->reads,
                       .writes = shape->writes,
                       .engine = shape->engine,
                       .latency = shape->latency};
    take_attributes(op, shape->format, word);
    int missing = -1;
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++) {
        if (!((op->reads | op->writes) >> r & 1))
            continue;
        unsigned class_ = shape->class_[r] == TV_CLASS_FIELD ? op->class_ : shape->class_[r],
                 index = word >> shape->lo[r] & 31;
        op->rows[r] = (opennpu_rows){(uint8_t)(index << class_), (uint8_t)(1u << class_)};
        if (op->reads >> r & 1)
            op->read |= rows_mask(op->rows[r]);
        if ((index + 1) << class_ > l && (missing < 0 || shape->lo[r] > shape->lo[missing])) {
            missing = (int)r; /* the topmost of the word is to blame, as for the codec */
            illegal->class_ = class_;
        }
    }
    if (op->writes)
        op->written = rows_mask(op->rows[OPENNPU_RD]);
    if (missing >= 0)
        illegal->why =
            (tv_illegal){&opennpu_codes[OPENNPU_CODE_REGISTER], shape->field[missing], word >> shape->lo[missing] & 31};
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
