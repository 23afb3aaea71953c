/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles of the pccx machine: the Global Scheduler, the engines, the weight streams and host memory's bandwidth.
 *
 * It works instruction by instruction: the issue cycle follows from the ends of the few instructions in flight (one an
 * engine), and an end that depends on bytes is found by moving the streams forward only as far as it takes. */
#ifndef TV_MACHINE_PCCX_TIMING_H
#define TV_MACHINE_PCCX_TIMING_H

#include "isa/pccx/pccx.h"
#include "sim/account.h"
#include "sim/events.h"
#include "sim/share.h"

typedef enum pccx_engine {
    PCCX_ENGINE_GEMM,
    PCCX_ENGINE_GEMV,
    PCCX_ENGINE_SFU,
    PCCX_ENGINE_ACP,
    PCCX_ENGINE_NONE
} pccx_engine;
enum { PCCX_ENGINE_DISP = PCCX_ENGINE_NONE, PCCX_ACCOUNTS = PCCX_ENGINE_NONE + 1 };

/* The order is the order in which a held cycle is charged. */
typedef enum pccx_stall_reason {
    PCCX_STALL_SYNC,
    PCCX_STALL_RAW,
    PCCX_STALL_WAR,
    PCCX_STALL_WAW,
    PCCX_STALL_FRONTEND,
    PCCX_STALL_RESOURCE,
    PCCX_STALL_STREAM,
    PCCX_STALL_REASONS
} pccx_stall_reason;

extern const char *const pccx_engine_names[PCCX_ACCOUNTS];
extern const char *const pccx_stall_reason_names[PCCX_STALL_REASONS];

/* Where bytes move. */
typedef enum pccx_path {
    PCCX_PATH_GEMM,
    PCCX_PATH_GEMV,
    PCCX_PATH_LOAD,
    PCCX_PATH_STORE,
    PCCX_PATH_MOVE,
    PCCX_PATHS
} pccx_path;
extern const char *const pccx_path_names[PCCX_PATHS];

/* What an instruction reads or writes: L2 words, host bytes, e_max, or a direct FIFO (which counts as one range). */
typedef enum pccx_place {
    PCCX_IN_L2,
    PCCX_IN_HOST,
    PCCX_IN_EMAX,
    PCCX_IN_FIFO_TO_SFU,
    PCCX_IN_FIFO_TO_GEMV
} pccx_place;

typedef struct pccx_range {
    uint8_t place;
    bool write;
    uint64_t from, to; /* exclusive */
} pccx_range;

enum { PCCX_RANGES_MAX = 6 };

/* An instruction with everything looked up. */
typedef struct pccx_op {
    pccx_insn insn;
    pccx_engine engine;
    bool synchronous, asynchronous; /* MEMCPY and CVO: it holds the dispatcher, or reports its completion */
    uint64_t word;
    uint32_t m, n, k;        /* GEMV, GEMM */
    uint32_t tile_n, tile_k; /* 0: the engine's own */
    uint32_t lanes;
    uint16_t act_scale;
    uint32_t length;    /* CVO elements */
    uint64_t words;     /* MEMCPY */
    uint64_t host_addr; /* MEMCPY, bytes */
    uint32_t src, dst;  /* L2 words or PCCX_TAG_FIFO */
    uint8_t stream;
    uint64_t stream_bytes; /* taken from the weight stream */
    uint64_t macs;
    unsigned range_count;
    pccx_range ranges[PCCX_RANGES_MAX];
    const tv_descriptor *weights; /* host ranges of the weights, as far as `stream_bytes` go from … */
    uint64_t weights_offset;      /* … here in the first one */
} pccx_op;

/* The last operation of an engine; it may have ended. */
typedef struct pccx_slot {
    pccx_op op;
    bool used, settled; /* settled: `end` is known, and accounted for */
    bool forwarded, reported;
    int64_t index;
    uint64_t start, formula_end, end;
} pccx_slot;

typedef struct pccx_timing {
    /* parameters */
    uint64_t decode_latency, acp_setup, move_setup, gemv_setup, gemv_tile_k, gemm_setup, gemm_tile_k, gemm_tile_n,
        gemm_min_m;
    uint64_t stream_fifo, cvo_tail, forward_tail;
    uint64_t fill[PCCX_INSNS];

    tv_share share; /* flows: the two streams, then ACP */
    uint64_t stream_total[PCCX_STREAMS], stream_taken[PCCX_STREAMS];
    pccx_slot slots[PCCX_ENGINE_NONE];
    tv_account accounts[PCCX_ACCOUNTS];
    uint64_t base;   /* cycle at which the program began */
    uint64_t issued; /* instructions of it */
    uint64_t head;   /* first cycle in which the next instruction is at the head of the dispatcher */
    uint64_t latest_end;
    int last_synchronous; /* engine of the instruction issued last, if it is synchronous; else -1 */

    tv_emitter emitter;
} pccx_timing;

/* False when the rates have no common unit. */
bool pccx_timing_init(pccx_timing *timing, const tv_config *config);

/* A program begins at the latest end so far. */
void pccx_timing_begin(pccx_timing *timing);

/* More bytes stand in a weight stream. */
void pccx_timing_append(pccx_timing *timing, unsigned stream, uint64_t bytes);

/* Issues the next instruction; `index` is its number over all programs. Returns the issue cycle. */
uint64_t pccx_timing_issue(pccx_timing *timing, const pccx_op *op, int64_t index);

/* The cycle at which it would issue; nothing changes. */
uint64_t pccx_timing_preview(const pccx_timing *timing, const pccx_op *op, int64_t index);

/* No instruction can issue before this cycle, whatever it is. */
uint64_t pccx_timing_earliest(const pccx_timing *timing);

/* Lets everything in flight end; afterwards the accounts add up to latest_end. */
void pccx_timing_drain(pccx_timing *timing);

#endif
