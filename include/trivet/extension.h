/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions: instructions from outside of Trivet, in C files that are built against this header.
 *
 * An extension is a shared object with one symbol, `trivet_extension`, which TV_EXTENSION defines. Its rows join the
 * table of their instruction set: the assembler, the disassembler, checks, traces, reports, the generator and commit
 * logs know them like the instructions of the set. docs/extensions.md has the rules and examples.
 *
 * The functions of an extension are called from several threads at once, so that they change nothing but what they are
 * passed. They return the same for the same operation. */
#ifndef TRIVET_EXTENSION_H
#define TRIVET_EXTENSION_H

#include <stddef.h>
#include <stdint.h>

#include "trivet/diag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. An extension of another version is rejected. */
enum { TV_EXTENSION_VERSION = 1 };

/* One execution of an instruction of an extension. Valid until the function that receives it returns. */
typedef struct tv_operation tv_operation;

/* What one execution costs; all zero when `cost` is called. */
typedef struct tv_operation_cost {
    uint64_t latency;   /* cycles from issue to the end, while nothing else is in the way; at least 1 */
    uint64_t occupancy; /* OpenNPU: ticks for which an instruction of PORT occupies it; 0: one */
    uint64_t bytes;     /* OpenNPU: moved over the port */
    uint64_t macs;      /* multiply-adds */
    double picojoules;  /* energy on this machine, without the memories that it accesses; taken as uncertain by a factor
                           of two. 0: none */
} tv_operation_cost;

/* A row of an instruction set. Strings are static. */
typedef struct tv_extension_insn {
    size_t size;          /* sizeof(tv_extension_insn) */
    const char *target;   /* "pccx", "opennpu" or "cmdq" */
    const char *id;       /* unique: "CVO_MUL". On CMDQ the opcode */
    const char *mnemonic; /* unique: "cvo.mul"; NULL on CMDQ */
    const char *format;   /* of the instruction word, as `trivet isa` lists it; NULL on CMDQ */
    const char *fixed;    /* "opcode=4, cvo_func=8": the fields that identify it, the opcode first; NULL on CMDQ */
    /* Separated by commas, in the order of the assembly: FIELD is positional, KEY=FIELD a keyword, [KEY=FIELD] an
     * optional one, [FIELD] a flag; FIELD:CLASS a register of class vx, ve or vr. On CMDQ FIELD is required, [FIELD]
     * optional. "as ID" stands for the operands of another instruction. */
    const char *operands;
    const char *unit; /* the engine: SFU, ACP, GEMV, GEMM; VALU, MMA, PORT; VE, TE */
    const char *meaning;
    /* Operator of the graph that it computes, "Mul", for lowerings; NULL: none. Then it has the operands of CVO_EXP, or
     * on CMDQ with one input the fields of VE_CAST_TILE. */
    const char *operator_name;
    /* Computes out[i] from x[i] and, with two inputs, y[i], for i < count; out may be x or y. NULL: see `resolve`. On
     * pccx x is the vector at src_addr, y the old one at dst_addr, in a CVO format; on CMDQ those of in_bank and
     * in2_bank; on OpenNPU the lanes of rs1 and rs2 as binary32. The machine converts inputs and rounds results. */
    void (*elements)(const tv_operation *op, const float *x, const float *y, float *out, uint64_t count);
    unsigned inputs; /* of `elements`: 1 or 2 */
    /* Otherwise: states what the instruction reads and writes (tv_operation_reads, tv_operation_writes), or rejects it.
     * Called more than once for an execution, and states the same each time. May depend on data only on OpenNPU.
     * Returns 1, or 0 if it is rejected (tv_operation_reject). */
    int (*resolve)(tv_operation *op);
    /* Computes the outputs from the inputs, which `resolve` has stated. */
    void (*execute)(tv_operation *op);
    /* Depends on the fields and the machine's parameters; on OpenNPU on the latter alone. */
    void (*cost)(const tv_operation *op, tv_operation_cost *cost);
} tv_extension_insn;

typedef struct tv_extension {
    uint32_t version; /* TV_EXTENSION_VERSION */
    uint32_t insn_count;
    const char *name; /* static; appears as the source of its instructions */
    const tv_extension_insn *insns;
} tv_extension;

/* Defines the symbol of an extension: TV_EXTENSION("squares", rows), where `rows` is an array. */
#define TV_EXTENSION(name_, rows_)                                                                                     \
    extern TV_API const tv_extension trivet_extension;                                                                 \
    const tv_extension trivet_extension = {TV_EXTENSION_VERSION, sizeof(rows_) / sizeof *(rows_), (name_), (rows_)}

/* ---- For the functions of an extension ---- */

/* The value of field `name` of the instruction: its bits, or on CMDQ an integer, the index of a word or 0 or 1, and its
 * default if it is not given. 0: there is no such field, or it is no whole number from 0 on, and the operation is
 * rejected (but on CMDQ in `elements`). On OpenNPU 0 in `cost`. */
TV_API uint64_t tv_operation_field(const tv_operation *op, const char *name);

/* The value of field `name` of an entry of CMDQ, which is a number that need not be whole. */
TV_API double tv_operation_number(const tv_operation *op, const char *name);

/* The value of the machine's parameter `key`, an integer. 0: there is no such parameter. */
TV_API uint64_t tv_operation_parameter(const tv_operation *op, const char *key);

/* Copies `bytes` bytes of the machine's memory to `data`, from unit `addr` of the address space `space` on, for
 * `resolve` on OpenNPU; elsewhere `resolve` and `cost` that call it are rejected. Returns 0, and `data` is zero, if the
 * range is not in the space. */
TV_API int tv_operation_load(const tv_operation *op, const char *space, uint64_t addr, void *data, size_t bytes);

/* States that the operation reads `bytes` bytes from unit `addr` of the address space `space` on: L2 or host memory of
 * pccx, registers that are operands or data memory of OpenNPU, SPM of CMDQ. At most six ranges in all, on OpenNPU of
 * 1,536 bytes together. */
TV_API void tv_operation_reads(tv_operation *op, const char *space, uint64_t addr, uint64_t bytes);

/* States that it writes all of `bytes` bytes from unit `addr` of `space` on, likewise. */
TV_API void tv_operation_writes(tv_operation *op, const char *space, uint64_t addr, uint64_t bytes);

/* Rejects `op` for a reason, `format` as of printf, of which 150 bytes are kept. Returns 0, for `resolve` to return. */
TV_API int tv_operation_reject(tv_operation *op, const char *format, ...);

/* The bytes of range `i` of those that `op` reads, in the order of tv_operation_reads, for `execute`. NULL: there is
 * none. */
TV_API const void *tv_operation_input(const tv_operation *op, unsigned i);

/* The bytes of range `i` of those that `op` writes, in the order of tv_operation_writes, zero at first, for `execute`.
 * NULL: there is none. */
TV_API void *tv_operation_output(tv_operation *op, unsigned i);

/* Reports an inner value of `op`, before it is rounded, for commit logs: `value` of element `element` of the result.
 * `name` is static. Ignored in `elements` on CMDQ, where rows are computed in any order. */
TV_API void tv_operation_value(tv_operation *op, const char *name, uint64_t element, double value);

/* ---- For programs that use the library ---- */

/* Loads the shared object `path`, and adds its instructions to their sets, for all of the process and for good. Call it
 * before anything else of the library: what exists already does not know them, and threads must not run. Code of the
 * file is executed: load only what you trust. TV_ERR_INPUT: no extension, one of another version, or a row that does
 * not fit; then none is added. TV_ERR_MEMORY. */
TV_API tv_status tv_extension_load(const char *path, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
