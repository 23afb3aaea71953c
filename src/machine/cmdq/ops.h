/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of each opcode (ops.def), as functions and as rows that can be walked at run time. */
#ifndef TV_MACHINE_CMDQ_OPS_H
#define TV_MACHINE_CMDQ_OPS_H

#include "machine/cmdq/exec.h"
#include "machine/cmdq/resolver.h"

typedef enum cmdq_split { CMDQ_SPLIT_ROWS, CMDQ_SPLIT_ELEMENTS } cmdq_split;

/* Elements of an entry from which on it is worth the time in which other threads join. */
enum { CMDQ_TASK_FEW = 1 << 11, CMDQ_TASK_MANY = 1 << 14 };

/* What a vector engine does with each element, for its energy (actions.c). */
typedef enum cmdq_work {
    CMDQ_WORK_NONE, /* moves it */
    CMDQ_WORK_LAYERNORM,
    CMDQ_WORK_RMSNORM,
    CMDQ_WORK_SOFTMAX,
    CMDQ_WORK_ACTIVATION,
    CMDQ_WORK_ROPE,
    CMDQ_WORK_SUM,
    CMDQ_WORK_PRODUCT,
    CMDQ_WORK_MULTIPLY_ADD
} cmdq_work;

struct cmdq_handlers {
    uint8_t opcode;        /* cmdq_opcode */
    uint8_t engine_class;  /* cmdq_class */
    uint8_t work;          /* cmdq_work: of vector engines */
    bool is_extension;     /* which states its energy itself */
    bool flushes_products; /* itself, where it must come after the deferred ones */
    bool (*resolve)(cmdq_resolver *r);
    uint64_t (*cycles)(const cmdq_params *params, const cmdq_op *op); /* NULL: takes no time */
    void (*execute)(cmdq_exec *x);                                    /* NULL: changes no data */
    /* Vector engines, by rows. */
    void (*compute)(const cmdq_exec *x, const cmdq_row *row);
    cmdq_split split;
    uint32_t task_elements;
};

extern const cmdq_handlers cmdq_ops[CMDQ_OPCODES]; /* of the set; extension.h has those of extensions */

#define CMDQ_TRANSFER_OP(id, resolve_) bool cmdq_resolve_##resolve_(cmdq_resolver *r);
#define CMDQ_TENSOR_OP(id, resolve_, execute_)                                                                         \
    bool cmdq_resolve_##resolve_(cmdq_resolver *r);                                                                    \
    void cmdq_exec_##execute_(cmdq_exec *x);
#define CMDQ_VECTOR_OP(id, resolve_, cycles_, work_, compute_, split_, task_)                                          \
    bool cmdq_resolve_##resolve_(cmdq_resolver *r);                                                                    \
    uint64_t cmdq_cycles_##cycles_(const cmdq_params *params, const cmdq_op *op);                                      \
    void cmdq_compute_##compute_(const cmdq_exec *x, const cmdq_row *row);
#define CMDQ_TILE_OP(id, resolve_, cycles_, work_, execute_)                                                           \
    bool cmdq_resolve_##resolve_(cmdq_resolver *r);                                                                    \
    uint64_t cmdq_cycles_##cycles_(const cmdq_params *params, const cmdq_op *op);                                      \
    void cmdq_exec_##execute_(cmdq_exec *x);
#define CMDQ_CONTROL_OP(id)
#include "machine/cmdq/ops.def"
#undef CMDQ_TRANSFER_OP
#undef CMDQ_TENSOR_OP
#undef CMDQ_VECTOR_OP
#undef CMDQ_TILE_OP
#undef CMDQ_CONTROL_OP

/* Handlers that are the same for all opcodes of a class. */
bool cmdq_resolve_control(cmdq_resolver *r);
uint64_t cmdq_cycles_transfer(const cmdq_params *params, const cmdq_op *op);
uint64_t cmdq_cycles_tensor(const cmdq_params *params, const cmdq_op *op);
void cmdq_exec_transfer(cmdq_exec *x);
void cmdq_exec_vector(cmdq_exec *x);

#endif
