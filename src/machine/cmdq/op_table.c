/* SPDX-License-Identifier: Apache-2.0 */
/* The table of handlers, and its two uses: an entry becomes an operation record, and an operation is executed. */
#include "machine/cmdq/extension.h"

const cmdq_handlers cmdq_ops[CMDQ_OPCODES] = {
#define CMDQ_TRANSFER_OP(id, resolve_)                                                                                 \
    {.opcode = CMDQ_##id,                                                                                              \
     .engine_class = CMDQ_DMA,                                                                                         \
     .resolve = cmdq_resolve_##resolve_,                                                                               \
     .flushes_products = true,                                                                                         \
     .cycles = cmdq_cycles_transfer,                                                                                   \
     .execute = cmdq_exec_transfer},
#define CMDQ_TENSOR_OP(id, resolve_, execute_)                                                                         \
    {.opcode = CMDQ_##id,                                                                                              \
     .engine_class = CMDQ_TE,                                                                                          \
     .resolve = cmdq_resolve_##resolve_,                                                                               \
     .flushes_products = true,                                                                                         \
     .cycles = cmdq_cycles_tensor,                                                                                     \
     .execute = cmdq_exec_##execute_},
#define CMDQ_VECTOR_OP(id, resolve_, cycles_, work_, compute_, split_, task_)                                          \
    {.opcode = CMDQ_##id,                                                                                              \
     .engine_class = CMDQ_VE,                                                                                          \
     .work = CMDQ_WORK_##work_,                                                                                        \
     .resolve = cmdq_resolve_##resolve_,                                                                               \
     .cycles = cmdq_cycles_##cycles_,                                                                                  \
     .execute = cmdq_exec_vector,                                                                                      \
     .compute = cmdq_compute_##compute_,                                                                               \
     .split = CMDQ_SPLIT_##split_,                                                                                     \
     .task_elements = CMDQ_TASK_##task_},
#define CMDQ_TILE_OP(id, resolve_, cycles_, work_, execute_)                                                           \
    {.opcode = CMDQ_##id,                                                                                              \
     .engine_class = CMDQ_VE,                                                                                          \
     .work = CMDQ_WORK_##work_,                                                                                        \
     .resolve = cmdq_resolve_##resolve_,                                                                               \
     .cycles = cmdq_cycles_##cycles_,                                                                                  \
     .execute = cmdq_exec_##execute_},
#define CMDQ_CONTROL_OP(id) {.opcode = CMDQ_##id, .engine_class = CMDQ_SYNC, .resolve = cmdq_resolve_control},
#include "machine/cmdq/ops.def"
#undef CMDQ_TRANSFER_OP
#undef CMDQ_TENSOR_OP
#undef CMDQ_VECTOR_OP
#undef CMDQ_TILE_OP
#undef CMDQ_CONTROL_OP
};

/* Row i of ops.def has the id and the class of row i of opcodes.def. */
enum {
#define CMDQ_TRANSFER_OP(id, ...) CMDQ_OP_##id, CMDQ_OP_CLASS_##id = CMDQ_DMA, CMDQ_OP_END_##id = CMDQ_OP_##id,
#define CMDQ_TENSOR_OP(id, ...) CMDQ_OP_##id, CMDQ_OP_CLASS_##id = CMDQ_TE, CMDQ_OP_END_##id = CMDQ_OP_##id,
#define CMDQ_VECTOR_OP(id, ...) CMDQ_OP_##id, CMDQ_OP_CLASS_##id = CMDQ_VE, CMDQ_OP_END_##id = CMDQ_OP_##id,
#define CMDQ_TILE_OP(id, ...) CMDQ_OP_##id, CMDQ_OP_CLASS_##id = CMDQ_VE, CMDQ_OP_END_##id = CMDQ_OP_##id,
#define CMDQ_CONTROL_OP(id) CMDQ_OP_##id, CMDQ_OP_CLASS_##id = CMDQ_SYNC, CMDQ_OP_END_##id = CMDQ_OP_##id,
#include "machine/cmdq/ops.def"
#undef CMDQ_TRANSFER_OP
#undef CMDQ_TENSOR_OP
#undef CMDQ_VECTOR_OP
#undef CMDQ_TILE_OP
#undef CMDQ_CONTROL_OP
    CMDQ_OP_ROWS
};
#define TV_OPCODE(id, since, deprecated, required, optional, class, meaning, source)                                   \
    _Static_assert((int)CMDQ_OP_##id == (int)CMDQ_##id && (int)CMDQ_OP_CLASS_##id == (int)CMDQ_##class,                \
                   #id " has another row or class in ops.def");
#include "isa/cmdq/opcodes.def"
#undef TV_OPCODE
_Static_assert((int)CMDQ_OP_ROWS == (int)CMDQ_OPCODES, "ops.def has as many rows as opcodes.def");

bool cmdq_resolve(const cmdq_queue *queue, const cmdq_params *params, uint32_t index, uint64_t *next_dma, cmdq_op *op,
                  cmdq_error *error)
{
    cmdq_resolver r = {queue, params, &queue->entries.data[index], op, error, next_dma};
    memset(op, 0, offsetof(cmdq_op, tiles));
    op->handlers =
        r.entry->opcode < CMDQ_OPCODES ? &cmdq_ops[r.entry->opcode] : cmdq_extension_handlers(r.entry->opcode);
    op->engine = CMDQ_NO_ENGINE;
    op->role = cmdq_has_field(queue, r.entry, CMDQ_F_compute_role)
                   ? (uint8_t)cmdq_integer(queue, r.entry, CMDQ_F_compute_role)
                   : CMDQ_ROLE_NONE;
    if (!op->handlers->resolve(&r))
        return false;
    if (op->handlers->cycles)
        op->cycles = op->handlers->cycles(params, op);
    return cmdq_check_cycles(&r);
}

cmdq_outcome cmdq_execute(const cmdq_queue *queue, const cmdq_params *params, cmdq_memories *memories, uint32_t index,
                          const cmdq_op *op, cmdq_error *error)
{
    cmdq_exec x = {.queue = queue,
                   .params = params,
                   .memories = memories,
                   .entry = &queue->entries.data[index],
                   .op = op,
                   .error = error};
    if (!op->handlers->execute)
        return x.outcome;
    if (!op->handlers->flushes_products)
        cmdq_flush_products(memories);
    op->handlers->execute(&x);
    return x.outcome;
}
