/* SPDX-License-Identifier: Apache-2.0 */
/* An operation: an instruction with everything that its row, its operands and the control state decide.
 *
 * resolve.c fills it in. The later stages (execution, timing, static check, access trace) loop over its lists and read
 * its members, and call `handler` for what differs per instruction; they do not test which instruction it is. */
#ifndef TV_MACHINE_PCCX_OP_H
#define TV_MACHINE_PCCX_OP_H

#include "isa/pccx/pccx.h"
#include "trivet/program.h"

struct pccx_handler;

enum {
    PCCX_INSN_BYTES = 8,  /* an instruction word */
    PCCX_WORD_BYTES = 16, /* an L2 word … */
    PCCX_LANES = 8,       /* … of 8 BF16 lanes */
    PCCX_ENTRY_BYTES = 6  /* a constant: three values of 16 bits */
};

typedef enum pccx_engine {
    PCCX_ENGINE_GEMM,
    PCCX_ENGINE_GEMV,
    PCCX_ENGINE_SFU,
    PCCX_ENGINE_ACP,
    PCCX_ENGINE_NONE /* the instruction completes in the dispatcher */
} pccx_engine;

/* The engines have accounts, and the dispatcher after them. */
enum { PCCX_ENGINE_DISP = PCCX_ENGINE_NONE, PCCX_ACCOUNTS = PCCX_ENGINE_NONE + 1 };

/* Bytes move over paths, which the trace and the statistics name. */
typedef enum pccx_path {
    PCCX_PATH_GEMM,
    PCCX_PATH_GEMV,
    PCCX_PATH_LOAD,
    PCCX_PATH_STORE,
    PCCX_PATH_MOVE,
    PCCX_PATHS,
    PCCX_PATH_NONE = PCCX_PATHS
} pccx_path;

/* Flows share the bandwidth of host memory: the weight streams, by pccx_stream, then host copies. */
enum { PCCX_FLOW_ACP = PCCX_STREAMS, PCCX_FLOWS, PCCX_FLOW_NONE = PCCX_FLOWS };

/* The storage that instructions read and write, and its unit of addresses. */
typedef enum pccx_storage {
    PCCX_STORAGE_L2,          /* L2 words */
    PCCX_STORAGE_HOST,        /* bytes */
    PCCX_STORAGE_EMAX,        /* one register */
    PCCX_STORAGE_FIFO_TO_SFU, /* elements: a range is 0 to the number pushed or popped */
    PCCX_STORAGE_FIFO_TO_GEMV,
    PCCX_STORAGES
} pccx_storage;

typedef struct pccx_range {
    uint8_t storage;
    bool write;
    uint64_t from, to; /* exclusive */
} pccx_range;

/* An entry of the Constant Cache. */
typedef struct pccx_constant {
    uint8_t bank, entry;
    bool write;
    bool optional; /* the entry has a meaning although nothing has written it */
} pccx_constant;

/* Flags that an instruction has in its word but does not use. */
enum { PCCX_IGNORED_RECIP_SCALE, PCCX_IGNORED_ACCM, PCCX_IGNORED_LANES, PCCX_IGNORED_FLAGS };

enum { PCCX_RANGES_MAX = 8, PCCX_CONSTANTS_MAX = 2 };

typedef struct pccx_op {
    const tv_insn *insn;
    const struct pccx_handler *handler;
    uint64_t word;
    uint16_t row; /* of the instruction table */
    uint8_t engine;
    uint8_t path;                   /* of `bytes` */
    uint8_t flow;                   /* decides when the operation ends; PCCX_FLOW_NONE: its latency does */
    bool synchronous, asynchronous; /* it stalls the dispatcher until its end; or it reports its completion */
    uint8_t ignored;                /* bit per ignored flag */
    bool accumulate;                /* add to the destination */
    uint16_t act_scale;             /* static activation scale; 0: none */
    uint32_t m, n, k;               /* GEMV, GEMM */
    uint32_t tile_n, tile_k;        /* 0: the engine's own */
    uint32_t cores, lanes;          /* GEMV: cores that work, weights of a row that each takes in a cycle; GEMM: columns
                                       and rows of the array */
    uint64_t preload_bytes;         /* GEMV: from L2 to L1 before the first step */
    uint32_t k_steps, n_steps;      /* GEMV, GEMM: of the array along K and N */
    uint32_t length, results;       /* CVO: elements, of the source and of the result */
    uint32_t src, dst;              /* L2 words or PCCX_TAG_FIFO */
    uint64_t host_addr;             /* MEMCPY, bytes */
    uint64_t copy_size;             /* MEMCPY, L2 words */
    uint64_t bytes;                 /* moved over `path` */
    uint64_t stream_bytes;          /* taken from the weight stream `flow` */
    uint64_t macs;
    uint64_t latency, femtojoules; /* of instructions of extensions */
    const tv_descriptor *weights;  /* host ranges of the weights, up to `stream_bytes` from … */
    uint64_t weights_offset;       /* … this offset in the first one */
    unsigned range_count, constant_count;
    /* Uninitialized from the counts on; the last members, so that the others are cleared and copied at once. */
    pccx_range ranges[PCCX_RANGES_MAX];
    pccx_constant constants[PCCX_CONSTANTS_MAX];
} pccx_op;
static_assert(offsetof(pccx_op, constants) == offsetof(pccx_op, ranges) + PCCX_RANGES_MAX * sizeof(pccx_range) &&
                  sizeof(pccx_op) - offsetof(pccx_op, constants) <
                      PCCX_CONSTANTS_MAX * sizeof(pccx_constant) + _Alignof(pccx_op),
              "ranges and constants are the last members");

/* *to = *from, without the unused ranges and constants, which are most of its bytes. */
static inline void pccx_copy_op(pccx_op *to, const pccx_op *from)
{
    memcpy(to, from, offsetof(pccx_op, ranges));
    for (unsigned i = 0; i < from->range_count; i++)
        to->ranges[i] = from->ranges[i];
    for (unsigned i = 0; i < from->constant_count; i++)
        to->constants[i] = from->constants[i];
}

/* The part of weight descriptor `*d`, from `*offset` on, that an operation with `left` stream bytes to go takes. */
static inline uint64_t pccx_weights_chunk(const tv_descriptor *d, uint64_t offset, uint64_t left)
{
    return d->bytes - offset < left ? d->bytes - offset : left;
}

/* Whether the operation reads (or writes) `storage`. */
static inline bool pccx_op_uses(const pccx_op *op, pccx_storage storage, bool write)
{
    for (unsigned i = 0; i < op->range_count; i++)
        if (op->ranges[i].storage == storage && op->ranges[i].write == write)
            return true;
    return false;
}

struct pccx_control;
struct pccx_machine;
struct pccx_rejection;
struct pccx_timing;

/* Fills in `op`, of which the row and the word are set. False: a program fault, which *why describes; the operation
 * holds what was resolved until then. */
typedef bool pccx_resolve_fn(const struct pccx_control *control, pccx_op *op, struct pccx_rejection *why);

/* Changes the data. False: a data-dependent fault, or no host memory; nothing has changed. */
typedef bool pccx_execute_fn(struct pccx_machine *m, const pccx_op *op, struct pccx_rejection *why);

/* Cycles from issue to end while no bytes are missing. */
typedef uint64_t pccx_latency_fn(const struct pccx_timing *timing, const pccx_op *op);

typedef struct pccx_handler {
    pccx_resolve_fn *resolve;
    pccx_execute_fn *execute;
    pccx_latency_fn *latency;
} pccx_handler;

#endif
