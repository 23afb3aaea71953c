/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of extensions. Like the machine's own they write rd and read rs1, rs2 and rs3, so that the scoreboard
 * knows them; an extension states which of these registers and which data memory it moves. */
#include "machine/opennpu/extension.h"

#include <inttypes.h>
#include <stdio.h>

#include "machine/opennpu/params.h"
#include "machine/opennpu/registers.h"
#include "num/float.h"

static tv_operation operation_of(const tv_config *config, const tv_insn *insn, uint32_t word,
                                 tv_operation_rejection *why)
{
    *why = (tv_operation_rejection){0};
    return (tv_operation){.insn = insn, .isa = &tv_isa_opennpu, .word = word, .config = config, .why = why};
}

static tv_operation operation_at(opennpu_machine *m, const opennpu_op *op, tv_operation_rejection *why)
{
    tv_operation operation = operation_of(m->config, m->opcodes.rows[op->insn].insn, op->word, why);
    operation.target = tv_config_schema(m->config)->machine;
    operation.state = m;
    operation.values = m->values;
    return operation;
}

static bool reject(opennpu_fault *fault, const tv_operation_rejection *why)
{
    fault->code = OPENNPU_CODE_EXTENSION;
    snprintf(fault->message, sizeof fault->message, "%s", why->message);
    return false;
}

/* ---- Rows ---- */

static int find_engine(const char *unit)
{
    for (int e = 0; e < OPENNPU_ENGINE_ISSUE; e++)
        if (strcmp(unit, opennpu_engine_names[e]) == 0)
            return e;
    return -1;
}

static bool has_operand(const tv_insn *insn, const char *name)
{
    for (unsigned i = 0; i < insn->operand_count; i++)
        if (strcmp(tv_isa_opennpu.fields[insn->operands[i].field].name, name) == 0)
            return true;
    return false;
}

const char *opennpu_accepts(const tv_insn *insn)
{
    if (find_engine(insn->unit) < 0)
        return "the unit is none of VALU, MMA and PORT";
    unsigned reals = 0;
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand_kind *kind = tv_operand_kind_of(&tv_isa_opennpu, &insn->operands[i]);
        if (kind->syntax == TV_SYNTAX_REG && kind->reg_class == TV_CLASS_FIELD)
            return "a register has no class, as in rd:vr";
        reals += kind->syntax == TV_SYNTAX_REG && kind->reg_class == OPENNPU_VR;
    }
    const unsigned inputs = insn->extension->inputs;
    if (insn->extension->elements && (reals != inputs + 1 || insn->operand_count != reals || !has_operand(insn, "rd") ||
                                      !has_operand(insn, "rs1") || (inputs == 2 && !has_operand(insn, "rs2"))))
        return "the operands of an elementwise instruction are rd, rs1 and, with two inputs, rs2, in class vr";
    return NULL;
}

tv_status opennpu_extension_row(opennpu_opcode *row, const tv_config *config, const tv_diag_sink *sink)
{
    tv_operation_rejection why;
    tv_operation operation = operation_of(config, row->insn, 0, &why);
    tv_operation_cost cost;
    if (!tv_operation_cost_of(&operation, &cost) || cost.latency > UINT16_MAX || cost.occupancy > UINT8_MAX ||
        cost.bytes > UINT16_MAX || cost.macs > UINT16_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_ROW), NULL, "instruction %s: %s", row->insn->id,
                       why.rejected ? why.message
                                    : "latency, bytes or macs are above 65535, or its occupancy is above 255");
    if (find_engine(row->insn->unit) != OPENNPU_ENGINE_PORT && (cost.occupancy || cost.bytes))
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(EXTENSION_ROW), NULL,
                       "instruction %s: only instructions of PORT have occupancy and bytes", row->insn->id);
    row->execute = row->insn->extension->elements ? opennpu_exec_elements : opennpu_exec_extension;
    row->kernel = TV_LANE_NONE;
    row->engine = (uint8_t)find_engine(row->insn->unit);
    row->latency = (uint16_t)cost.latency;
    row->port_ticks = (uint8_t)tv_max_u64(cost.occupancy, 1);
    row->port_bytes = (uint16_t)cost.bytes;
    row->macs = (uint16_t)cost.macs;
    row->femtojoules = tv_operation_femtojoules(&cost);
    row->effects = OPENNPU_EXTENSION;
    return TV_OK;
}

/* ---- Ranges ---- */

/* The base rows of a range of registers; 0: the space is none of registers. */
static uint32_t rows_of_range(const opennpu_machine *m, const tv_operation_range *r)
{
    static const char *const classes[OPENNPU_CLASSES] = {"vx", "ve", "vr"};
    for (unsigned c = 0; c < OPENNPU_CLASSES; c++) {
        if (strcmp(r->space, classes[c]) != 0 || r->addr >= m->l >> c)
            continue;
        uint64_t first = r->addr << c, rows = tv_ceil_div(r->bytes, m->k);
        return rows <= m->l - first ? (uint32_t)(tv_mask((unsigned)rows) << first) : 0;
    }
    return 0;
}

/* Memory must exist; registers must be operands, as the scoreboard knows no others. */
static bool check_range(const opennpu_machine *m, const opennpu_op *op, const tv_operation_range *r,
                        opennpu_fault *fault)
{
    if (strcmp(r->space, "mem") == 0) {
        if (tv_memory_contains(&m->memory, r->addr, r->bytes))
            return true;
        fault->code = OPENNPU_CODE_MEM_RANGE;
        snprintf(fault->message, sizeof fault->message,
                 "%" PRIu64 " bytes at mem[0x%" PRIx64 "] run past the last byte 0x%" PRIx64, r->bytes, r->addr,
                 m->memory.size - 1);
        return false;
    }
    uint32_t rows = rows_of_range(m, r), operands = r->write ? op->rows_written : op->rows_read;
    if (rows && !(rows & ~operands))
        return true;
    fault->code = OPENNPU_CODE_EXTENSION;
    snprintf(fault->message, sizeof fault->message, "it %s %s[%" PRIu64 "], which is no operand that it %s",
             r->write ? "writes" : "reads", r->space, r->addr, r->write ? "writes" : "reads");
    return false;
}

void opennpu_extension_accesses(opennpu_machine *m, const opennpu_op *op, const tv_access_sink *sink)
{
    tv_operation_rejection why;
    opennpu_fault fault;
    tv_operation operation = operation_at(m, op, &why);
    if (operation.insn->extension->elements || !tv_operation_resolve(&operation))
        return;
    for (unsigned i = 0; i < operation.range_count; i++)
        if (!check_range(m, op, &operation.ranges[i], &fault))
            return;
    for (unsigned i = 0; i < operation.range_count; i++) {
        const tv_operation_range *r = &operation.ranges[i];
        if (strcmp(r->space, "mem") == 0)
            sink->emit(sink->user, &(tv_access){"mem", r->addr, r->bytes, r->write});
    }
}

/* ---- Executing ---- */

bool opennpu_exec_extension(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    enum { BYTES_MAX = 4 * OPENNPU_K_MAX * TV_OPERATION_RANGES, SCRATCH = BYTES_MAX + 4 * OPENNPU_K_MAX * 2 };
    tv_operation_rejection why;
    tv_operation operation = operation_at(m, op, &why);
    if (!tv_operation_resolve(&operation))
        return reject(fault, &why);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < operation.range_count; i++) {
        bytes += operation.ranges[i].bytes;
        if (!check_range(m, op, &operation.ranges[i], fault))
            return false;
    }
    if (bytes > BYTES_MAX) {
        tv_operation_reject(&operation, "it accesses %" PRIu64 " bytes, the limit is %d", bytes, BYTES_MAX);
        return reject(fault, &why);
    }
    char storage[SCRATCH];
    tv_buf scratch = TV_BUF_FIXED(storage);
    bool executed = tv_operation_execute(&operation, tv_operation_copy_space, NULL, &scratch);
    assert(executed && "the copies fit");
    (void)executed;
    tv_buf_fini(&scratch);
    return !why.rejected || reject(fault, &why);
}

/* rd = f(rs1, rs2) on binary32 lanes; results below the smallest normal number become zeros. */
bool opennpu_exec_elements(opennpu_machine *m, const opennpu_op *op, opennpu_fault *fault)
{
    tv_operation_rejection why;
    tv_operation operation = operation_at(m, op, &why);
    float x[OPENNPU_K_MAX], y[OPENNPU_K_MAX], out[OPENNPU_K_MAX];
    memcpy(x, opennpu_vr(m, op->rows[OPENNPU_RS1].first), m->k * sizeof *x);
    if (op->reads >> OPENNPU_RS2 & 1)
        memcpy(y, opennpu_vr(m, op->rows[OPENNPU_RS2].first), m->k * sizeof *y);
    operation.insn->extension->elements(&operation, x, y, out, m->k);
    if (why.rejected)
        return reject(fault, &why);
    for (uint32_t i = 0; i < m->k; i++)
        out[i] = tv_f32_flush(out[i]);
    memcpy(opennpu_vr_overwrite(m, op->rows[OPENNPU_RD].first), out, m->k * sizeof *out);
    return true;
}
