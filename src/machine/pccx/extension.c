/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of extensions: an elementwise one is a CVO with another function; any other has the ranges of L2 and
 * host memory that the extension states. */
#include <inttypes.h>

#include "machine/operation.h"
#include "machine/pccx/resolver.h"
#include "machine/pccx/vectors.h"

static const struct {
    const char *unit;
    pccx_engine engine;
} engines[] = {
    {"GEMM", PCCX_ENGINE_GEMM}, {"GEMV", PCCX_ENGINE_GEMV}, {"SFU", PCCX_ENGINE_SFU}, {"ACP", PCCX_ENGINE_ACP}};

/* The index of the engine called `unit` in `engines`; -1: there is none. */
static int find_engine(const char *unit)
{
    for (unsigned i = 0; i < TV_COUNTOF(engines); i++)
        if (strcmp(unit, engines[i].unit) == 0)
            return (int)i;
    return -1;
}

static bool has_operand(const tv_insn *insn, unsigned field)
{
    for (unsigned i = 0; i < insn->operand_count; i++)
        if (insn->operands[i].field == field)
            return true;
    return false;
}

/* Lowerings set the operands of a CVO, and nothing else. */
static bool can_be_lowered(const tv_insn *insn)
{
    for (unsigned i = 0; i < insn->fixed_count; i++)
        if (insn->fixed[i].field != PCCX_F_CVO_opcode && insn->fixed[i].field != PCCX_F_CVO_cvo_func)
            return false;
    return insn->extension->elements && has_operand(insn, PCCX_F_CVO_dst_addr) &&
           has_operand(insn, PCCX_F_CVO_src_addr) && has_operand(insn, PCCX_F_CVO_length) &&
           has_operand(insn, PCCX_F_CVO_async);
}

const char *pccx_accepts(const tv_insn *insn)
{
    int engine = find_engine(insn->unit);
    if (engine < 0)
        return "the unit is none of GEMM, GEMV, SFU and ACP";
    if (insn->extension->elements && (insn->format != PCCX_FORMAT_CVO || engines[engine].engine != PCCX_ENGINE_SFU))
        return "elementwise instructions have the format CVO and the unit SFU";
    if (insn->extension->elements && !has_operand(insn, PCCX_F_CVO_length))
        return "an elementwise instruction has the operand length";
    if (insn->extension->operator_name && !can_be_lowered(insn))
        return "an instruction with operator_name has the operands of CVO_EXP, and no fixed fields but its function";
    return NULL;
}

static tv_operation operation_of(const pccx_control *control, const pccx_op *op, tv_operation_rejection *why)
{
    *why = (tv_operation_rejection){0};
    return (tv_operation){
        .insn = op->insn, .isa = control->isa, .word = op->word, .config = control->config, .why = why};
}

static bool reject_operation(pccx_rejection *why, const tv_operation_rejection *reason)
{
    return pccx_reject(why, PCCX_CODE_EXTENSION, "%s", reason->message);
}

/* ---- Resolving ---- */

/* The old destination is the second input. */
static bool resolve_elements(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    if (!pccx_resolve_elementwise(control, op, why))
        return false;
    if (op->insn->extension->inputs == 2 && op->dst == PCCX_TAG_FIFO)
        return pccx_reject(why, PCCX_CODE_EXTENSION, "%s reads its destination, which cannot be the direct FIFO",
                           op->insn->mnemonic);
    if (op->insn->extension->inputs == 2 && !op->accumulate)
        pccx_add_range(op, PCCX_STORAGE_L2, false, op->dst, op->dst + tv_ceil_div(op->length, PCCX_LANES));
    return true;
}

static bool add_host_range(const pccx_control *control, pccx_op *op, const tv_operation_range *r, pccx_rejection *why)
{
    if (op->engine != PCCX_ENGINE_ACP)
        return pccx_reject(why, PCCX_CODE_EXTENSION, "only instructions of ACP access host memory");
    if (r->addr > control->host_bytes || r->bytes > control->host_bytes - r->addr)
        return pccx_reject(why, PCCX_CODE_HOST_RANGE,
                           "%" PRIu64 " bytes at host[0x%" PRIx64 "] run past the last byte 0x%" PRIx64, r->bytes,
                           r->addr, control->host_bytes - 1);
    pccx_add_range(op, PCCX_STORAGE_HOST, r->write, r->addr, r->addr + r->bytes);
    op->flow = PCCX_FLOW_ACP;
    op->path = r->write ? PCCX_PATH_STORE : op->path == PCCX_PATH_NONE ? PCCX_PATH_LOAD : op->path;
    op->bytes += r->bytes;
    return true;
}

static bool add_range(const pccx_control *control, pccx_op *op, const tv_operation_range *r, pccx_rejection *why)
{
    if (strcmp(r->space, "host") == 0)
        return add_host_range(control, op, r, why);
    if (strcmp(r->space, "l2") != 0)
        return pccx_reject(why, PCCX_CODE_EXTENSION, "%s accesses '%.20s', which is neither l2 nor host",
                           op->insn->mnemonic, r->space);
    return pccx_add_l2_range(control, op, r->write, r->addr, tv_ceil_div(r->bytes, PCCX_WORD_BYTES), why);
}

/* Whether the instruction has the flag `async`, which only some formats do. */
static bool is_asynchronous(const pccx_op *op)
{
    return (op->insn->format == PCCX_FORMAT_CVO && pccx_CVO_async(op->word)) ||
           (op->insn->format == PCCX_FORMAT_MEMCPY && pccx_MEMCPY_async(op->word));
}

/* Sets the ranges of `op` and those of `operation`, which has no data. */
static bool state_ranges(const pccx_control *control, pccx_op *op, tv_operation *operation, pccx_rejection *why)
{
    op->engine = (uint8_t)engines[find_engine(op->insn->unit)].engine;
    bool reports = op->engine == PCCX_ENGINE_SFU || op->engine == PCCX_ENGINE_ACP;
    op->asynchronous = reports && is_asynchronous(op);
    op->synchronous = reports && !op->asynchronous;
    if (!tv_operation_resolve(operation))
        return reject_operation(why, operation->why);
    for (unsigned i = 0; i < operation->range_count; i++)
        if (!add_range(control, op, &operation->ranges[i], why))
            return false;
    return true;
}

static bool resolve_ranges(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    tv_operation_rejection reason;
    tv_operation operation = operation_of(control, op, &reason);
    return state_ranges(control, op, &operation, why);
}

static bool resolve(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    if (!(op->insn->extension->elements ? resolve_elements : resolve_ranges)(control, op, why))
        return false;
    tv_operation_rejection reason;
    tv_operation operation = operation_of(control, op, &reason);
    tv_operation_cost cost;
    if (!tv_operation_cost_of(&operation, &cost))
        return reject_operation(why, &reason);
    op->latency = cost.latency;
    op->femtojoules = tv_operation_femtojoules(&cost);
    op->macs = cost.macs;
    return true;
}

/* ---- Executing ---- */

/* The ranges must be those that the instruction was issued with. */
static bool state_again(const pccx_machine *m, const pccx_op *op, tv_operation *operation, pccx_rejection *why)
{
    pccx_op again = {.insn = op->insn, .word = op->word, .path = PCCX_PATH_NONE, .flow = PCCX_FLOW_NONE};
    if (!state_ranges(&m->control, &again, operation, why))
        return false;
    bool same = again.range_count == op->range_count;
    for (unsigned i = 0; same && i < op->range_count; i++) {
        const pccx_range *a = &op->ranges[i], *b = &again.ranges[i];
        same = a->storage == b->storage && a->write == b->write && a->from == b->from && a->to == b->to;
    }
    return same || pccx_reject(why, PCCX_CODE_EXTENSION, "%s states other ranges when it is executed", op->insn->id);
}

static bool execute(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    tv_operation_rejection reason;
    tv_operation operation = operation_of(&m->control, op, &reason);
    bool elements = op->insn->extension->elements != NULL;
    operation.values = m->values;
    if (!elements && !state_again(m, op, &operation, why))
        return false;
    operation.target = tv_config_schema(m->config)->machine;
    operation.state = m;
    bool executed = elements ? pccx_execute_elements(m, op, &operation, why)
                             : tv_operation_execute(&operation, tv_operation_copy_space, NULL, &m->scratch) ||
                                   pccx_reject_memory(why);
    return executed && (!reason.rejected || reject_operation(why, &reason));
}

static uint64_t latency(const pccx_timing *t, const pccx_op *op)
{
    (void)t;
    return op->latency;
}

const pccx_handler pccx_extension_handler = {resolve, execute, latency};
