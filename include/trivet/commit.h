/* SPDX-License-Identifier: Apache-2.0 */
/* Commit records: what each instruction changed, and each access from outside; and execution of single words.
 *
 * The records of a machine are in program order, also where instructions complete out of order. The writes of all
 * records over the initial contents of the address spaces give their contents at the end, bit for bit. All pointers of
 * a record are valid until the sink returns, or until the next call for the machine. */
#ifndef TRIVET_COMMIT_H
#define TRIVET_COMMIT_H

#include <stddef.h>
#include <stdint.h>

#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tv_commit_kind {
    TV_COMMIT_INSTRUCTION, /* an instruction executed or faulted */
    TV_COMMIT_HOST,        /* tv_machine_write: one effect */
    TV_COMMIT_LOAD,        /* tv_machine_load: an effect for each data segment */
    TV_COMMIT_COMPLETION,  /* the cycles of an instruction whose record came before they were known */
} tv_commit_kind;

/* Where an instruction comes from. */
typedef enum tv_commit_origin {
    TV_ORIGIN_PROGRAM, /* the loaded program */
    TV_ORIGIN_WINDOW,  /* the command FIFO of the register window */
    TV_ORIGIN_EXECUTE, /* tv_machine_execute */
} tv_commit_origin;

/* The contents of records. What is not asked for is not computed. */
enum {
    TV_COMMIT_WRITES = 1 << 0, /* effects that write, with the bytes afterwards */
    TV_COMMIT_BEFORE = 1 << 1, /* also the bytes before */
    TV_COMMIT_READS = 1 << 2,  /* effects that read, with the bytes */
    TV_COMMIT_CYCLES = 1 << 3, /* issue, start, end */
    TV_COMMIT_VALUES = 1 << 4, /* inner values */
    TV_COMMIT_ALL = (1 << 5) - 1
};

/* `bytes` bytes of `space`, from unit `addr` on. All their bits are defined: the specifications and the decisions of
 * the manual leave none open. Bits that a design leaves open are masked by a rule (cosim.h). */
typedef struct tv_effect {
    const char *space; /* static; never an alias: registers are those of the space that has the bytes */
    uint64_t addr;
    uint64_t unit_bytes;
    uint64_t bytes;
    int write;
    int queue;             /* the space is a queue: a write appends, and a read removes from its front */
    const uint8_t *before; /* of a write with TV_COMMIT_BEFORE; otherwise NULL */
    const uint8_t *after;  /* of a read: the bytes read; NULL: zeros, which a load writes */
} tv_effect;

/* A value inside an instruction before it is rounded: an accumulator, a scaled sum, the argument of a function. */
typedef struct tv_inner_value {
    const char *name; /* "sum", "scaled", "argument"; static */
    uint64_t element; /* of the result that it belongs to */
    int is_integer;
    int64_t integer;
    double real;
} tv_inner_value;

#define TV_CYCLE_UNKNOWN UINT64_MAX

typedef struct tv_commit {
    tv_commit_kind kind;
    tv_commit_origin origin;
    uint64_t order;             /* counts INSTRUCTION, HOST and LOAD records; COMPLETION: that of its instruction */
    uint64_t index;             /* INSTRUCTION: index in its program, or number of the word of its origin */
    uint64_t word;              /* INSTRUCTION of a word-encoded target */
    const char *insn;           /* INSTRUCTION: id, "CVO_EXP"; NULL: the word is none */
    const char *fault;          /* code "TV-P016", or NULL */
    const char *fault_name;     /* "stream-underrun" */
    const char *fault_message;  /* … */
    uint64_t issue, start, end; /* TV_CYCLE_UNKNOWN: not asked for, or not known yet */
    int asynchronous;           /* it reports its completion (STAT_OUT) */
    unsigned effect_count, value_count;
    const tv_effect *effects;
    const tv_inner_value *values;
    const char *file; /* source location of the instruction, or NULL */
    unsigned line;
} tv_commit;

/* Receiver of records. `commit` must not be NULL. */
typedef struct tv_commit_sink {
    void (*commit)(void *user, const tv_commit *commit);
    void *user;
} tv_commit_sink;

/* Sends the records of everything that happens from now on to `sink`, which is copied, with `contents`, a sum of
 * TV_COMMIT_…. `sink` may be NULL: ends it, after COMPLETION records of instructions in flight as if the run ended at
 * this point. Neither bits nor cycles change. A machine with TV_MODE_TIMING has no effects and no inner values.
 * TV_ERR_MEMORY: no records are sent. */
TV_API tv_status tv_machine_commits(tv_machine *machine, unsigned contents, const tv_commit_sink *sink);

/* Executes `word`, which is in no program. `out`, which may be NULL, receives its record with `contents`. A fault is a
 * result: the status is TV_OK, the machine is unchanged, and the next call executes. Instructions of a loaded program
 * that have not executed are dropped, as by a load. TV_ERR_INPUT: the target is not word encoded, or words wait in the
 * command FIFO; TV_ERR_MEMORY: it has not executed. */
TV_API tv_status tv_machine_execute(tv_machine *machine, uint64_t word, unsigned contents, tv_commit *out);

#ifdef __cplusplus
}
#endif
#endif
