/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes of extensions: elementwise ones are entries of a vector engine like VE_SILU_TILE or VE_MUL_TILE with another
 * function; any other has the tiles of SPM that the extension states. */
#include "machine/cmdq/extension.h"

#include <inttypes.h>
#include <stdio.h>

#include "machine/operation.h"

/* ---- Operations ---- */

typedef struct source {
    const cmdq_queue *queue;
    const cmdq_entry *entry;
} source;

static double number_of(const void *user, unsigned parameter)
{
    const source *s = user;
    if (tv_isa_cmdq.parameters[parameter].type == TV_PARAMETER_REAL)
        return cmdq_real(s->queue, s->entry, (cmdq_field)parameter);
    return (double)cmdq_integer(s->queue, s->entry, (cmdq_field)parameter);
}

static tv_operation operation_of(const source *s, const cmdq_params *params, tv_operation_rejection *why)
{
    *why = (tv_operation_rejection){0};
    return (tv_operation){.insn = &tv_isa_cmdq.insns[s->entry->opcode],
                          .isa = &tv_isa_cmdq,
                          .config = params->config,
                          .number = number_of,
                          .entry = s,
                          .why = why};
}

/* ---- Resolving ---- */

static bool set_cost(cmdq_resolver *r)
{
    const source s = {r->queue, r->entry};
    tv_operation_rejection why;
    tv_operation operation = operation_of(&s, r->params, &why);
    tv_operation_cost cost;
    if (!tv_operation_cost_of(&operation, &cost))
        return cmdq_reject(r, CMDQ_CODE_EXTENSION, CMDQ_FIELDS, NULL, "%s", why.message);
    r->op->cycles = cost.latency;
    r->op->macs = cost.macs;
    r->op->femtojoules = tv_operation_femtojoules(&cost);
    return true;
}

static bool resolve_one_input(cmdq_resolver *r) { return cmdq_resolve_vector(r) && set_cost(r); }

static bool resolve_two_inputs(cmdq_resolver *r) { return cmdq_resolve_two_inputs(r) && set_cost(r); }

static bool add_tile(cmdq_resolver *r, const tv_operation_range *range)
{
    uint64_t bank = range->addr / r->params->bank_bytes, offset = range->addr % r->params->bank_bytes;
    if (strcmp(range->space, "spm") != 0)
        return cmdq_reject(r, CMDQ_CODE_EXTENSION, CMDQ_FIELDS, NULL, "it accesses '%.20s', not spm", range->space);
    if (bank >= r->params->banks || range->bytes > r->params->bank_bytes - offset)
        return cmdq_reject(r, CMDQ_CODE_SPM_RANGE, CMDQ_FIELDS, NULL,
                           "%" PRIu64 " bytes at byte 0x%" PRIx64 " of bank %" PRIu64 " run past the bank",
                           range->bytes, offset, bank);
    r->op->tiles[r->op->tile_count++] = (cmdq_tile){.start = offset,
                                                    .bytes = range->bytes,
                                                    .rows = 1,
                                                    .operand = range->write ? CMDQ_OUT : CMDQ_IN,
                                                    .bank = (uint8_t)bank,
                                                    .qbits = 8,
                                                    .reads = !range->write,
                                                    .writes = range->write};
    return true;
}

static bool resolve_ranges(cmdq_resolver *r)
{
    static_assert((int)TV_OPERATION_RANGES <= (int)CMDQ_TILES_MAX, "a tile for each range");
    const source s = {r->queue, r->entry};
    const cmdq_field engine = r->op->handlers->engine_class == CMDQ_TE ? CMDQ_F_te_id : CMDQ_F_ve_id;
    tv_operation_rejection why;
    tv_operation operation = operation_of(&s, r->params, &why);
    if (!cmdq_set_engine(r, engine, cmdq_op_field(r, engine)))
        return false;
    if (!tv_operation_resolve(&operation))
        return cmdq_reject(r, CMDQ_CODE_EXTENSION, CMDQ_FIELDS, NULL, "%s", why.message);
    for (unsigned i = 0; i < operation.range_count; i++)
        if (!add_tile(r, &operation.ranges[i]))
            return false;
    return set_cost(r);
}

/* ---- Executing ---- */

static void compute_elements(const cmdq_exec *x, const cmdq_row *row)
{
    const source s = {x->queue, x->entry};
    tv_operation_rejection why;
    tv_operation operation = operation_of(&s, x->params, &why);
    operation.insn->extension->elements(&operation, row->x, row->second, row->y, row->n);
}

/* Copies range `i` of an operation, which is tile `i`, from or to SPM. */
static void copy_range(void *user, const tv_operation *operation, unsigned i)
{
    cmdq_exec *x = user;
    const tv_operation_range *range = &operation->ranges[i];
    uint8_t *bytes = cmdq_tile_bytes(x, &x->op->tiles[i]);
    if (range->write)
        memcpy(bytes, range->data, range->bytes);
    else
        memcpy(range->data, bytes, range->bytes);
}

/* Whether the ranges are the tiles that the entry was resolved with. */
static bool has_tiles(const cmdq_exec *x, const tv_operation *operation)
{
    const cmdq_op *op = x->op;
    bool same = operation->range_count == op->tile_count;
    for (unsigned i = 0; same && i < op->tile_count; i++) {
        const tv_operation_range *r = &operation->ranges[i];
        const cmdq_tile *t = &op->tiles[i];
        same = r->write == t->writes && r->bytes == t->bytes && r->addr == t->bank * x->params->bank_bytes + t->start;
    }
    return same;
}

static void fault_operation(cmdq_exec *x, const char *reason)
{
    x->outcome = CMDQ_FAULT;
    *x->error = (cmdq_error){.code = CMDQ_CODE_EXTENSION, .field = CMDQ_FIELDS};
    snprintf(x->error->message, sizeof x->error->message, "%s", reason);
}

static void execute_ranges(cmdq_exec *x)
{
    const source s = {x->queue, x->entry};
    tv_operation_rejection why;
    tv_operation operation = operation_of(&s, x->params, &why);
    operation.values = x->memories->values;
    if (!tv_operation_resolve(&operation) || !has_tiles(x, &operation)) {
        fault_operation(x, why.rejected ? why.message : "it states other ranges when it is executed");
        return;
    }
    if (!tv_operation_execute(&operation, copy_range, x, &x->memories->scratch[CMDQ_SCRATCH_OUT]))
        x->outcome = CMDQ_NO_MEMORY;
    else if (why.rejected)
        fault_operation(x, why.message);
}

/* ---- Handlers ---- */

static const cmdq_handlers one_input = {.engine_class = CMDQ_VE,
                                        .is_extension = true,
                                        .resolve = resolve_one_input,
                                        .execute = cmdq_exec_vector,
                                        .compute = compute_elements,
                                        .split = CMDQ_SPLIT_ELEMENTS,
                                        .task_elements = CMDQ_TASK_MANY},
                           two_inputs = {.engine_class = CMDQ_VE,
                                         .is_extension = true,
                                         .resolve = resolve_two_inputs,
                                         .execute = cmdq_exec_vector,
                                         .compute = compute_elements,
                                         .split = CMDQ_SPLIT_ELEMENTS,
                                         .task_elements = CMDQ_TASK_MANY},
                           vector_ranges = {.engine_class = CMDQ_VE,
                                            .is_extension = true,
                                            .resolve = resolve_ranges,
                                            .execute = execute_ranges},
                           tensor_ranges = {.engine_class = CMDQ_TE,
                                            .is_extension = true,
                                            .resolve = resolve_ranges,
                                            .execute = execute_ranges};

const cmdq_handlers *cmdq_extension_handlers(unsigned opcode)
{
    const tv_insn *insn = &tv_isa_cmdq.insns[opcode];
    if (insn->extension->elements)
        return insn->extension->inputs == 2 ? &two_inputs : &one_input;
    return strcmp(insn->unit, "TE") == 0 ? &tensor_ranges : &vector_ranges;
}

static bool requires(const tv_insn *insn, cmdq_field field)
{
    for (unsigned i = 0; i < insn->parameter_count; i++)
        if (insn->parameters[i].parameter == field)
            return insn->parameters[i].presence == TV_REQUIRED;
    return false;
}

/* Lowerings set the fields of VE_CAST_TILE. */
static bool has_fields_of_cast(const tv_insn *insn)
{
    const tv_insn *cast = &tv_isa_cmdq.insns[CMDQ_VE_CAST_TILE];
    unsigned required = 0, found = 0;
    for (unsigned i = 0; i < cast->parameter_count; i++)
        for (unsigned k = 0; k < insn->parameter_count; k++)
            found += insn->parameters[k].parameter == cast->parameters[i].parameter;
    for (unsigned i = 0; i < insn->parameter_count; i++)
        required += insn->parameters[i].presence == TV_REQUIRED;
    for (unsigned i = 0; i < cast->parameter_count; i++)
        required -= cast->parameters[i].presence == TV_REQUIRED;
    return found == cast->parameter_count && required == 0;
}

const char *cmdq_accepts(const tv_insn *insn)
{
    static const uint8_t vector_fields[] = {CMDQ_F_ve_id,      CMDQ_F_in_bank, CMDQ_F_in_offset,       CMDQ_F_out_bank,
                                            CMDQ_F_out_offset, CMDQ_F_length,  CMDQ_F_qbits_activation};
    bool tensor = strcmp(insn->unit, "TE") == 0;
    if (!tensor && strcmp(insn->unit, "VE") != 0)
        return "the unit is neither VE nor TE";
    if (!requires(insn, tensor ? CMDQ_F_te_id : CMDQ_F_ve_id))
        return "the number of the engine, te_id or ve_id, is no required field";
    if (!insn->extension->elements)
        return NULL;
    for (unsigned i = 0; i < TV_COUNTOF(vector_fields); i++)
        if (tensor || !requires(insn, vector_fields[i]))
            return "an elementwise opcode has the unit VE and the fields of VE_SILU_TILE";
    if (insn->extension->operator_name && insn->extension->inputs == 1 && !has_fields_of_cast(insn))
        return "an opcode with operator_name has the fields of VE_CAST_TILE, and requires no others";
    if (insn->extension->inputs == 2 && !(requires(insn, CMDQ_F_in2_bank) && requires(insn, CMDQ_F_in2_offset)))
        return "an elementwise opcode of two inputs has the fields of VE_MUL_TILE";
    return NULL;
}
