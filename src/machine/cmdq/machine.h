/* SPDX-License-Identifier: Apache-2.0 */
/* The CMDQ machine from the inside: resolve.c turns an entry into an operation with its tiles and checks them against
 * the machine; exec.c changes SPM and DRAM and knows no cycles; timing.c knows no data; hazard.c finds what nothing
 * orders; machine.c drives them. */
#ifndef TV_MACHINE_CMDQ_MACHINE_H
#define TV_MACHINE_CMDQ_MACHINE_H

#include "kernels/matrix.h"
#include "machine/cmdq/params.h"
#include "machine/target.h"
#include "queue/dependencies.h"
#include "sim/account.h"
#include "sim/fault.h"
#include "sim/findings.h"
#include "sim/memory.h"
#include "sim/pool.h"

enum {
    CMDQ_ENGINES_MAX = 24,
    CMDQ_BANKS_MAX = 64,
    CMDQ_TILES_MAX = 7,
    CMDQ_NO_ENGINE = UINT8_MAX,
    CMDQ_NO_BANK = UINT8_MAX
};

/* The machine's parameters, out of its configuration. */
typedef struct cmdq_params {
    unsigned count[CMDQ_SYNC]; /* engines of each class */
    unsigned first[CMDQ_SYNC]; /* … and the first of them among all engines */
    unsigned engines;
    unsigned banks;
    uint64_t bank_bytes, dram_bytes;
    uint64_t alignment, bus_width, burst, peak, conflict;
    uint64_t weights[CMDQ_ROLES];
    uint64_t te_base, te_init, te_finalize, ve_lanes, ve_init, ve_finalize, ve_reduction, ve_sfu;
    tv_rate te_weight4, te_weight2, te_activation4, te_float16, te_float32, ve_ops, ve_activation8, ve_activation4;
    char names[CMDQ_ENGINES_MAX][8]; /* "DMA0" */
} cmdq_params;

void cmdq_params_init(cmdq_params *shape, const tv_config *config);

/* What tiles are for. */
typedef enum cmdq_operand {
    CMDQ_IN,
    CMDQ_IN2,
    CMDQ_WGT,
    CMDQ_BIAS,
    CMDQ_SCALES,
    CMDQ_GAMMA,
    CMDQ_BETA,
    CMDQ_OUT,
    CMDQ_DRAM,
    CMDQ_OPERANDS
} cmdq_operand;

/* Bytes that an operand takes: `rows` stretches of `bytes`, `stride` apart in DRAM; in SPM one stretch. */
typedef struct cmdq_tile {
    uint64_t start; /* byte: of the bank, or of DRAM */
    uint64_t bytes, rows, stride;
    uint8_t operand;
    uint8_t bank; /* CMDQ_NO_BANK: DRAM */
    uint8_t qbits;
    bool reads, writes;
} cmdq_tile;

/* An entry made ready: its engine, its tiles, its size. */
typedef struct cmdq_op {
    uint8_t opcode, class_, engine; /* engine: among all, or CMDQ_NO_ENGINE */
    uint8_t role;                   /* DMA: for arbitration */
    uint8_t tile_count;
    uint64_t m, n, k;  /* TE; VE: m rows of k */
    uint64_t elements; /* DMA */
    uint64_t macs;
    uint64_t cycles;                 /* TE, VE: all of it; DMA: alone, without conflicts */
    cmdq_tile tiles[CMDQ_TILES_MAX]; /* behind `tile_count` they are not set */
} cmdq_op;

/* What is wrong with an entry on a machine: the code, the message. */
typedef struct cmdq_error {
    cmdq_code code;
    char message[240], hint[120];
} cmdq_error;

/* `turn` counts the DMA entries without dma_id so far, and is moved on. False: the machine cannot do this; *wrong says
 * why. */
bool cmdq_resolve(const cmdq_queue *queue, const cmdq_params *shape, uint32_t index, uint64_t *turn, cmdq_op *op,
                  cmdq_error *wrong);

static inline const cmdq_tile *cmdq_find_tile(const cmdq_op *op, cmdq_operand operand)
{
    for (unsigned i = 0; i < op->tile_count; i++)
        if (op->tiles[i].operand == operand)
            return &op->tiles[i];
    return NULL;
}

static inline bool cmdq_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* Whether two tiles of SPM share no byte; b may be NULL. */
static inline bool cmdq_are_apart(const cmdq_tile *a, const cmdq_tile *b)
{
    return !b || a->bank != b->bank || !cmdq_overlap(a->start, a->bytes, b->start, b->bytes);
}

/* What timing and checks must know of each entry, worked out when a queue is loaded. */
typedef struct cmdq_plan {
    uint32_t count;
    uint8_t *engine; /* CMDQ_NO_ENGINE: none */
    uint8_t *role;
    uint64_t *cycles;
    uint8_t (*banks)[8]; /* of its tiles, CMDQ_NO_BANK at the end */
    uint64_t *macs;
    uint64_t *bytes; /* over DRAM, shifted up by one; the lowest bit: written */
    cmdq_graph graph;
    uint32_t *order; /* NULL: as they stand */
} cmdq_plan;

/* Resolves all entries; `sink` gets what is wrong, `counts` counts it. TV_ERR_INPUT: something was. */
tv_status cmdq_plan_make(const tv_program *program, const cmdq_params *shape, const tv_diag_sink *sink,
                         uint64_t *errors, cmdq_plan *plan);
void cmdq_plan_free(cmdq_plan *plan);

enum { CMDQ_SCRATCHES = 9, CMDQ_LOADS_MAX = 8 };

/* A load that has been put off: bytes of SPM that stand in DRAM (deferred_loads.c), in rows of so many bytes, `stride`
 * apart there. */
typedef struct cmdq_deferred_load {
    uint64_t spm, dram, bytes; /* offsets */
    uint64_t row_bytes, stride;
} cmdq_deferred_load;

enum { CMDQ_ROPE_ENTRIES = 64, CMDQ_ROPE_HEAD_MAX = 256 };

/* Cosines, then sines, of the angles by which VE_ROPE_TILE turns a position: worked out once for all layers. */
typedef struct cmdq_rope_entry {
    uint64_t head, position; /* head 0: none */
    double theta;
    float of[CMDQ_ROPE_HEAD_MAX];
} cmdq_rope_entry;

typedef struct cmdq_memories {
    tv_memory spm,
        dram; /* SPM: bank after bank; only cmdq_bytes knows what stands there, before cmdq_materialize_loads */
    cmdq_deferred_load loads[CMDQ_LOADS_MAX]; /* no two overlap */
    unsigned load_count;
    struct {
        uint64_t spm,
            bytes; /* whose activations stand ready in scratch, until something is written there; bytes 0: none */
        uint64_t m, k;
        uint8_t way, weight_bits;
    } ready;
    tv_cpu_level level;                       /* of the host, for kernels */
    tv_pool *pool;                            /* NULL: one thread */
    tv_buf scratch[CMDQ_SCRATCHES];           /* operands as arrays; kept from entry to entry */
    cmdq_rope_entry turns[CMDQ_ROPE_ENTRIES]; /* by position */
} cmdq_memories;

/* Does what was put off: before anybody but an entry looks at the memories. */
void cmdq_materialize_loads(cmdq_memories *memories);

/* exec.c. CMDQ_FAULT: the data are to blame, nothing has changed, *wrong says why. */
typedef enum cmdq_outcome { CMDQ_EXECUTED, CMDQ_FAULT, CMDQ_NO_MEMORY } cmdq_outcome;
cmdq_outcome cmdq_execute(const cmdq_queue *queue, const cmdq_params *shape, cmdq_memories *memories, uint32_t index,
                          const cmdq_op *op, cmdq_error *wrong);

/* timing.c: a run of the first `count` entries from cycle `base` on. */
typedef enum cmdq_stall_reason {
    CMDQ_STALL_BARRIER,
    CMDQ_STALL_GROUP,
    CMDQ_STALL_DEPENDENCY,
    CMDQ_STALL_REASONS
} cmdq_stall_reason;
extern const char *const cmdq_stall_reason_names[CMDQ_STALL_REASONS];

typedef struct cmdq_timing {
    uint64_t end;     /* cycle in which the last entry completes */
    uint64_t *starts; /* NULL, or room for when each entry started (control entries: completed) */
    tv_account accounts[CMDQ_ENGINES_MAX];
} cmdq_timing;

/* `sink` gets the events, or is NULL; `index_base` is added to entries' numbers. The accounts go on from `timing`,
 * whose `end` is the cycle to begin at. False: no memory. */
bool cmdq_time(const tv_program *program, const cmdq_params *shape, const cmdq_plan *plan, uint32_t count,
               uint64_t index_base, const tv_trace_sink *sink, cmdq_timing *timing);

/* machine.c */
typedef struct cmdq_machine {
    const tv_config *config;
    tv_mode mode;
    cmdq_params shape;
    cmdq_memories memories;
    cmdq_timing timing; /* of all queues that have ended */
    const tv_program *program;
    cmdq_plan plan;
    uint32_t next;         /* entries executed, in the order of the plan */
    uint64_t limit_cycles; /* what `limit` was worked out for; UINT64_MAX: nothing */
    uint32_t limit;
    bool ended;              /* the loaded queue is in `timing` */
    uint64_t base;           /* entries of queues before the loaded one */
    uint64_t macs, bytes[2]; /* read from DRAM, written */
    tv_fault_record fault;
    tv_trace_sink sink;
    bool traced;
} cmdq_machine;

/* state.c */
void cmdq_visit_state(void *state, tv_state_visitor *parts);
bool cmdq_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out);

/* check.c */
tv_status cmdq_hazards(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts);
tv_status cmdq_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                     tv_check_counts *counts);

#endif
