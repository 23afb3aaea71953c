/* SPDX-License-Identifier: Apache-2.0 */
/* The opcode table: insns.def says which instructions there are, ops.def what they compute, times.def how long they
 * take. Each list is indexed by the identifiers of insns.def, and a row that one of the others lacks is an undeclared
 * name here. The result is plain rows with a count, so that stages need neither the enumeration nor its order. */
#include <stdlib.h>

#include "machine/opennpu/extension.h"
#include "machine/opennpu/ops.h"
#include "machine/opennpu/params.h"

/* ---- The tables ---- */

/* The columns of ops.def. */
typedef struct behavior {
    opennpu_handler *execute;
    const opennpu_loops *loops;
    tv_lane_op kernel;
    uint16_t effects;
    opennpu_exact *exact;
} behavior;

/* A row for which insns.def has no instruction does not compile. */
#define BEHAVIOR(id, ...)                                                                                              \
    static_assert(OPENNPU_##id < OPENNPU_INSNS, #id);                                                                  \
    static const behavior behavior_##id = {__VA_ARGS__};

#define TV_SIZED(id, saturation, expression, kernel)                                                                   \
    BEHAVIOR(id, opennpu_exec_sized, &opennpu_loops_##id, TV_LANE_##kernel, 0, opennpu_exact_##id)
#define TV_REDUCE(id, identity, expression, kernel)                                                                    \
    BEHAVIOR(id, opennpu_exec_lanes, &opennpu_loops_##id, TV_LANE_##kernel, 0, NULL)
#define TV_LANES(id, expression, kernel)                                                                               \
    BEHAVIOR(id, opennpu_exec_lanes, &opennpu_loops_##id, TV_LANE_##kernel, 0, NULL)
#define TV_OP(id, handler, effects) BEHAVIOR(id, opennpu_exec_##handler, NULL, TV_LANE_NONE, effects, NULL)
#include "machine/opennpu/ops.def"
#undef TV_SIZED
#undef TV_REDUCE
#undef TV_LANES
#undef TV_OP

/* The columns of times.def; a latency of LD stands for the parameter ld.latency. */
typedef struct duration {
    uint16_t latency;
    uint8_t port_ticks, work;
} duration;

enum { LD = 0 };

#define TV_TIME(id, latency, port_ticks, work, source)                                                                 \
    static_assert(OPENNPU_##id < OPENNPU_INSNS, #id);                                                                  \
    static const duration duration_##id = {latency, port_ticks, OPENNPU_WORK_##work};
#include "machine/opennpu/times.def"
#undef TV_TIME

static const struct instruction {
    const behavior *behavior;
    const duration *duration;
    opennpu_engine engine;
} instructions[] = {
#define TV_INSN(id, mnemonic, format, fixed, operands, attributes, unit, meaning, source)                              \
    [OPENNPU_##id] = {&behavior_##id, &duration_##id, OPENNPU_ENGINE_##unit},
#include "isa/opennpu/insns.def"
#undef TV_INSN
};
static_assert(TV_COUNTOF(instructions) == OPENNPU_INSNS, "one row per instruction");

/* The register operand that a field of this name is, or NO_REGISTER. A new field name must be added here. */
enum {
    NO_REGISTER = OPENNPU_REGISTERS,
    REGISTER_rs1 = OPENNPU_RS1,
    REGISTER_address = OPENNPU_RS1,
    REGISTER_rs2 = OPENNPU_RS2,
    REGISTER_rs3 = OPENNPU_RS3,
    REGISTER_rd = OPENNPU_RD,
    REGISTER_ignored = NO_REGISTER,
    REGISTER_dtype = NO_REGISTER,
    REGISTER_sat = NO_REGISTER,
    REGISTER_round = NO_REGISTER,
    REGISTER_rnd = NO_REGISTER,
    REGISTER_width = NO_REGISTER,
    REGISTER_imm = NO_REGISTER,
    REGISTER_bf8 = NO_REGISTER,
    REGISTER_src_fmt = NO_REGISTER,
    REGISTER_funct3 = NO_REGISTER,
    REGISTER_opcode = NO_REGISTER
};

static const uint8_t register_of_field[OPENNPU_FIELDS] = {
#define TV_FORMAT(id)
#define TV_FIELD(format, name, hi, lo, kind, limit, illegal, doc) [OPENNPU_F_##format##_##name] = REGISTER_##name,
#define TV_JOINED(format, name, high, low, kind, doc) [OPENNPU_F_##format##_##name] = REGISTER_##name,
#include "isa/opennpu/fields.def"
#undef TV_FORMAT
#undef TV_FIELD
#undef TV_JOINED
};

/* ---- Rows ---- */

static void set_operands(opennpu_opcode *row, const tv_isa *isa)
{
    for (unsigned n = 0; n < row->insn->operand_count; n++) {
        const tv_operand *operand = &row->insn->operands[n];
        const tv_field *field = &isa->fields[operand->field];
        unsigned r = register_of_field[operand->field];
        if (r == NO_REGISTER)
            continue;
        row->field[r] = field->role == TV_FIELD_JOINED ? field->low_field : operand->field;
        row->lo[r] = isa->fields[row->field[r]].lo;
        row->class_[r] = tv_operand_kind_of(isa, operand)->reg_class;
        if (r == OPENNPU_RD && !(row->effects & OPENNPU_STORES))
            row->writes |= (uint8_t)(1u << r);
        else
            row->reads |= (uint8_t)(1u << r);
    }
}

static void init_row(opennpu_opcode *row, const tv_isa *isa, const struct instruction *source, const tv_config *config)
{
    uint32_t k = (uint32_t)tv_config_integer(config, OPENNPU_PARAM_K);
    uint32_t lanes = source->behavior->effects & OPENNPU_LANE0_ONLY ? 1 : k;
    row->execute = source->behavior->execute;
    row->loops = source->behavior->loops;
    row->exact = source->behavior->exact;
    row->kernel = source->behavior->kernel;
    row->effects = source->behavior->effects;
    row->engine = (uint8_t)source->engine;
    row->latency = source->duration->latency == LD ? (uint16_t)tv_config_integer(config, OPENNPU_PARAM_LD_LATENCY)
                                                   : source->duration->latency;
    row->port_ticks = source->duration->port_ticks;
    row->work = source->duration->work;
    set_operands(row, isa);
    if (row->effects & (OPENNPU_LOADS | OPENNPU_STORES))
        row->port_bytes = (uint16_t)(lanes << row->class_[OPENNPU_RD]);
    if (row->effects & OPENNPU_MULTIPLIES)
        row->macs = (uint16_t)(k * k);
}

tv_status opennpu_opcodes_init(opennpu_opcodes *opcodes, const tv_config *config, const tv_diag_sink *sink)
{
    const tv_isa *isa = &tv_isa_opennpu;
    *opcodes = (opennpu_opcodes){.rows = calloc(isa->insn_count, sizeof *opcodes->rows)};
    if (!opcodes->rows)
        return tv_fail_memory(sink);
    opcodes->count = isa->insn_count;
    tv_status status = TV_OK;
    for (unsigned i = 0; i < opcodes->count && status == TV_OK; i++) {
        opennpu_opcode *row = &opcodes->rows[i];
        row->insn = &isa->insns[i];
        row->format = row->insn->format;
        if (i < OPENNPU_INSNS) {
            init_row(row, isa, &instructions[i], config);
        } else {
            status = opennpu_extension_row(row, config, sink);
            set_operands(row, isa);
            row->effects |= row->port_bytes && !row->writes ? OPENNPU_STORES : 0;
        }
    }
    if (status != TV_OK)
        opennpu_opcodes_fini(opcodes);
    return status;
}

void opennpu_opcodes_fini(opennpu_opcodes *opcodes)
{
    free(opcodes->rows);
    *opcodes = (opennpu_opcodes){0};
}

/* ---- SIMD kernels and inline handlers ---- */

/* Loads of whole registers, and mma. */
static bool is_block_op(const opennpu_op *op)
{
    if (op->effects & (OPENNPU_EXTENSION | OPENNPU_LANE0_ONLY | OPENNPU_DRAINS))
        return false;
    return op->effects & (OPENNPU_LOADS | OPENNPU_MULTIPLIES);
}

/* A kernel reads and writes registers in place, each in the form of its class: it cannot serve an operation that takes
 * one group of rows both as planes and as lanes. */
void opennpu_select_kernel(const opennpu_machine *m, opennpu_op *op)
{
    const tv_lane_op kernel = m->opcodes.rows[op->insn].kernel;
    op->in_block = is_block_op(op);
    op->is_inline = op->in_block && m->k == OPENNPU_K_MAX;
    if (m->k != TV_LANE_COUNT || kernel == TV_LANE_NONE)
        return;
    uint8_t plane_groups = 0;
    for (unsigned r = 0; r < OPENNPU_REGISTERS; r++) {
        uint8_t group = (uint8_t)(1u << op->rows[r].first / 4);
        if (!((op->reads | op->writes) >> r & 1))
            continue;
        if (op->rows[r].count < 4)
            plane_groups |= group;
        else if (op->reads >> r & 1)
            op->lane_groups |= group;
        else
            op->result_groups |= group;
    }
    op->form_groups = plane_groups | op->lane_groups;
    if (!(plane_groups & op->lane_groups))
        op->kernel = tv_lanes_find(m->level, kernel, tv_lane_variant(kernel, op->class_, op->sat, op->round));
}
