/* SPDX-License-Identifier: Apache-2.0 */
/* The CMDQ machine's internals.
 *
 * An entry of a queue is resolved to an operation record (resolve.c, cost.c), which says all that its opcode and fields
 * decide: handlers, engine, tiles, sizes, cycles. The table ops.def names the handlers of each opcode. plan.c resolves
 * a queue when it is loaded. Execution (tensor.c, vector.c, transfer.c) changes SPM and DRAM and knows no cycles;
 * timing.c knows no data. hazard.c finds accesses to the same bytes that no dependency orders; machine.c drives them.
 */
#ifndef TV_MACHINE_CMDQ_INTERNAL_H
#define TV_MACHINE_CMDQ_INTERNAL_H

#include "kernels/gemm.h"
#include "machine/cmdq/params.h"
#include "machine/target.h"
#include "queue/dependencies.h"
#include "sim/account.h"
#include "sim/energy.h"
#include "sim/fault.h"
#include "sim/findings.h"
#include "sim/memory.h"
#include "sim/pool.h"
#include "sim/values.h"

enum {
    CMDQ_BANKS_MAX = 64,
    CMDQ_TILES_MAX = 7,
    CMDQ_BANKS_PER_ENTRY = 8, /* CMDQ_TILES_MAX, rounded up */
    CMDQ_NO_ENGINE = UINT8_MAX,
    CMDQ_NO_BANK = UINT8_MAX
};

/* ---- Operations ---- */

/* The role of a tile in its operation. */
typedef enum cmdq_operand {
    CMDQ_IN,
    CMDQ_IN2,
    CMDQ_WGT,
    CMDQ_BIAS,
    CMDQ_SCALES,
    CMDQ_RESIDUAL,
    CMDQ_GAMMA,
    CMDQ_BETA,
    CMDQ_FACTORS,
    CMDQ_OUT,
    CMDQ_DRAM,
    CMDQ_OPERANDS
} cmdq_operand;

/* Bytes that an operation accesses: `rows` rows of `bytes`, `stride` bytes from row to row. In SPM mostly one row. */
typedef struct cmdq_tile {
    uint64_t start; /* byte of the bank, or of DRAM */
    uint64_t bytes, rows, stride;
    uint8_t operand;
    uint8_t bank;       /* CMDQ_NO_BANK: DRAM */
    uint8_t bank_field; /* cmdq_field that has the bank; the field after it has `start` */
    uint8_t qbits;
    bool reads, writes;
} cmdq_tile;

typedef struct cmdq_handlers cmdq_handlers; /* ops.h */

/* What the opcode and the fields of an entry decide. */
typedef struct cmdq_op {
    const cmdq_handlers *handlers;
    uint8_t engine;                       /* among all engines, or CMDQ_NO_ENGINE */
    uint8_t role;                         /* CMDQ_ROLE_…; DMA: for arbitration, too */
    uint8_t weight_bits, activation_bits; /* TE; VE: activation_bits */
    uint8_t sparse_index_bits;
    bool writes_dram;
    bool uses_sfu;       /* VE: the special function unit, where the function decides it */
    bool writes_indices; /* VE: 32-bit integers instead of real values */
    uint8_t tile_count;
    uint64_t m, n, k;                   /* TE: sizes of the product; VE: m rows of k, with n results each; of an
                                         image m pixels of n results, each of k elements */
    uint64_t input_count, weight_count; /* TE: elements that are stored */
    uint64_t elements;                  /* DMA */
    uint64_t macs;
    uint64_t array_macs;             /* TE: those that take time */
    uint8_t special_functions;       /* TE: of each result */
    uint8_t function;                /* VE: action of each element that the fields select (sim/actions.def), or 0 */
    uint64_t bytes;                  /* over DRAM */
    uint64_t cycles;                 /* without contention */
    uint64_t femtojoules;            /* of an extension */
    cmdq_tile tiles[CMDQ_TILES_MAX]; /* not initialized from tile_count on */
} cmdq_op;

/* Why an entry cannot run on a machine, or faults. */
typedef struct cmdq_error {
    cmdq_code code;
    cmdq_field field; /* CMDQ_FIELDS: not about one */
    char message[240], hint[120];
} cmdq_error;

/* Resolves entry `index`. *next_dma is the round robin counter of DMA entries without dma_id; starts at 0 and is
 * advanced. Returns false with *error set if the entry cannot run on this machine; *op is then not usable. */
bool cmdq_resolve(const cmdq_queue *queue, const cmdq_params *params, uint32_t index, uint64_t *next_dma, cmdq_op *op,
                  cmdq_error *error);

/* Resolves an entry again that has been resolved for the plan, which therefore succeeds. The engine of an entry without
 * dma_id is that of the plan, not of *op. */
static inline void cmdq_resolve_planned(const cmdq_queue *queue, const cmdq_params *params, uint32_t index, cmdq_op *op)
{
    cmdq_error error;
    uint64_t next_dma = 0;
    cmdq_resolve(queue, params, index, &next_dma, op, &error);
}

enum { CMDQ_MEMO_UNITS = 48 };

/* An entry that was resolved, and its operation. */
typedef struct cmdq_memo_row {
    uint64_t present;
    unsigned unit_count;                                    /* of the entry's values; 0: it is not kept */
    uint32_t units[CMDQ_MEMO_UNITS], mask[CMDQ_MEMO_UNITS]; /* mask: 0 for addresses */
    uint8_t start[CMDQ_TILES_MAX], bank[CMDQ_TILES_MAX];    /* units that have them */
    bool is_wide[CMDQ_TILES_MAX];                           /* `start` has two units */
    bool needs_channel;                                     /* of DMA, round robin */
    cmdq_op op;
} cmdq_memo_row;

/* The last entry of each opcode. Rows are not initialized until they are kept. */
typedef struct cmdq_resolve_memo {
    bool is_kept[CMDQ_OPCODES];
    cmdq_memo_row rows[CMDQ_OPCODES];
} cmdq_resolve_memo;

/* cmdq_resolve, in a fraction of its time for entries like earlier ones that `memo` has, which is of one queue and one
 * machine. Begin with an is_kept of zeros. */
bool cmdq_resolve_with(cmdq_resolve_memo *memo, const cmdq_queue *queue, const cmdq_params *params, uint32_t index,
                       uint64_t *next_dma, cmdq_op *op, cmdq_error *error);

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

/* Bytes from the first byte of a tile to its last. */
static inline uint64_t cmdq_tile_extent(const cmdq_tile *t) { return (t->rows - 1) * t->stride + t->bytes; }

/* Whether two tiles of SPM certainly share no byte; b may be NULL. */
static inline bool cmdq_are_disjoint(const cmdq_tile *a, const cmdq_tile *b)
{
    return !b || a->bank != b->bank || !cmdq_overlap(a->start, cmdq_tile_extent(a), b->start, cmdq_tile_extent(b));
}

/* ---- Plans ---- */

/* Counts of actions by engine. Those of fetching and decoding are those of CMDQ_CONTROL. */
enum { CMDQ_CONTROL = CMDQ_ENGINES_MAX };
typedef struct cmdq_actions {
    uint64_t counts[CMDQ_ENGINES_MAX + 1][TV_ACTION_COUNT];
} cmdq_actions;

enum { CMDQ_KEPT_OPS = 16384 };

/* Arrays by entry. */
typedef struct cmdq_plan {
    uint32_t count;
    uint8_t *engine; /* CMDQ_NO_ENGINE: none */
    uint8_t *role;
    uint64_t *cycles;
    uint8_t (*banks)[CMDQ_BANKS_PER_ENTRY]; /* of its tiles, then CMDQ_NO_BANK */
    uint64_t *macs;
    uint64_t *bytes;      /* over DRAM, times 2, plus 1 if they are written */
    cmdq_op *ops;         /* the resolved entries of a queue of at most CMDQ_KEPT_OPS; otherwise NULL */
    cmdq_actions actions; /* of all entries */
    cmdq_graph graph;
    uint32_t *order;                       /* entries in the order of execution; NULL: the order of ids */
    struct cmdq_simulation_arrays *arrays; /* from cmdq_plan_prepare */
} cmdq_plan;

/* The entry that is executed as number `n`. */
static inline uint32_t cmdq_plan_entry(const cmdq_plan *plan, uint32_t n) { return plan->order ? plan->order[n] : n; }

/* Resolves all entries. Adds the number of errors, which are reported to `sink`, to *errors; then returns TV_ERR_INPUT.
 * On failure *plan holds nothing to free. */
tv_status cmdq_plan_init(const tv_program *program, const cmdq_params *params, const tv_diag_sink *sink,
                         uint64_t *errors, cmdq_plan *plan);
void cmdq_plan_fini(cmdq_plan *plan);

/* Resolves the `count` entries `changed` again, whose engines stay the same. False: one of them cannot run on the
 * machine, or the plan has no `ops`; then the plan is not usable. */
bool cmdq_plan_update(const tv_program *program, const cmdq_params *params, const uint32_t *changed, size_t count,
                      cmdq_plan *plan);

/* ---- Execution ---- */

enum { CMDQ_SCRATCHES = 12, CMDQ_LOADS_MAX = 16 };

/* A deferred load (deferred_loads.c): bytes of SPM whose contents are still in DRAM, there in rows of `row_bytes`,
 * `stride` bytes from row to row. */
typedef struct cmdq_deferred_load {
    uint64_t spm, dram, bytes; /* byte offsets, and the size of all rows */
    uint64_t row_bytes, stride;
} cmdq_deferred_load;

enum { CMDQ_ROPE_ENTRIES = 64, CMDQ_ROPE_HEAD_MAX = 256 };

/* Cosines, then sines, of the angles of a position: the same for all layers of a model. */
typedef struct cmdq_rope_entry {
    uint64_t dim, position; /* dim: elements of a head that are rotated; 0: the entry is empty */
    double theta, frequency_scale;
    bool has_factors;
    float factors[CMDQ_ROPE_HEAD_MAX / 2];
    float cos_sin[CMDQ_ROPE_HEAD_MAX];
} cmdq_rope_entry;

/* Where packed activations and their sums begin in their scratch memory, in bytes. */
typedef struct cmdq_packed_offsets {
    size_t rows, sums;
} cmdq_packed_offsets;

/* Activations that are packed for a variant of the product, in scratch. Dropped when their bytes are written. */
typedef struct cmdq_packed_input {
    uint64_t spm, bytes; /* of the activations in SPM; bytes 0: none */
    uint64_t m, k;
    uint8_t variant, weight_bits;
    cmdq_packed_offsets at;
} cmdq_packed_input;

typedef struct cmdq_deferred_products cmdq_deferred_products;

typedef struct cmdq_memories {
    tv_memory spm, dram; /* SPM: bank after bank. Read through cmdq_tile_bytes or after cmdq_materialize_loads */
    cmdq_deferred_load loads[CMDQ_LOADS_MAX]; /* disjoint in SPM */
    unsigned load_count;
    cmdq_deferred_products *products; /* NULL: products are not deferred */
    cmdq_packed_input packed;
    tv_cpu_level level;                            /* of the host's kernels */
    tv_pool *pool;                                 /* NULL: one thread */
    tv_values *values;                             /* inner values of entries; NULL: not asked for */
    tv_buf scratch[CMDQ_SCRATCHES];                /* operands as arrays; reused from entry to entry */
    cmdq_rope_entry rope_cache[CMDQ_ROPE_ENTRIES]; /* indexed by position modulo its size */
} cmdq_memories;

/* Executes all deferred loads. Required before anything but an operation accesses SPM, or may write all of DRAM. */
void cmdq_materialize_loads(cmdq_memories *memories);

/* Executes those that read bytes [start, start + bytes) of DRAM, which are then written. No deferred product
 * reads them, and no deferred store writes them. */
void cmdq_prepare_dram_write(cmdq_memories *memories, uint64_t start, uint64_t bytes);

/* Deferred products and stores of their outputs (deferred_products.c), while there is more than one thread. NULL: out
 * of memory. */
cmdq_deferred_products *cmdq_deferred_products_new(void);
void cmdq_deferred_products_free(cmdq_deferred_products *products); /* which may be NULL */

/* Executes all deferred products. Required before anything but their operations accesses the memories. */
void cmdq_flush_products(cmdq_memories *memories);

/* CMDQ_FAULT: the data of the entry are at fault; nothing has changed, *error is set. */
typedef enum cmdq_outcome { CMDQ_EXECUTED, CMDQ_FAULT, CMDQ_NO_MEMORY } cmdq_outcome;
cmdq_outcome cmdq_execute(const cmdq_queue *queue, const cmdq_params *params, cmdq_memories *memories, uint32_t index,
                          const cmdq_op *op, cmdq_error *error);

/* ---- Timing ---- */

typedef enum cmdq_stall_reason {
    CMDQ_STALL_BARRIER,
    CMDQ_STALL_GROUP,
    CMDQ_STALL_DEPENDENCY,
    CMDQ_STALL_REASONS
} cmdq_stall_reason;
extern const char *const cmdq_stall_reason_names[CMDQ_STALL_REASONS];

typedef struct cmdq_timing {
    uint64_t end;     /* cycle in which the last entry completes */
    uint64_t *starts; /* NULL, or room for the cycle in which each entry starts (control entries: completes) */
    tv_account accounts[CMDQ_ENGINES_MAX];
    uint64_t role_busy[CMDQ_ALL_ROLES], role_stalled[CMDQ_ALL_ROLES]; /* cycles of engines, by role of their entries */
} cmdq_timing;

/* Allocates what cmdq_time needs for `plan`: a simulation must not fail in the middle of a run, whose cycles,
 * statistics and events are taken at any time. False: out of memory. cmdq_plan_fini frees it. */
bool cmdq_plan_prepare(cmdq_plan *plan);
void cmdq_plan_unprepare(cmdq_plan *plan);

/* Simulates the first `count` entries from cycle timing->end on, and adds to the accounts. `sink` gets the events, with
 * `index_base` added to the entries' numbers, or is NULL. The plan is prepared. */
void cmdq_time(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan, uint32_t count,
               uint64_t index_base, const tv_trace_sink *sink, cmdq_timing *timing);

/* ---- The machine ---- */

/* The simulation of the loaded queue's timing by another thread while the queue is executed. */
typedef struct cmdq_timing_job {
    cmdq_timing timing; /* after the queue */
    bool is_begun;
    bool is_measured; /* tv_pool_end must follow, whether or not it is begun */
} cmdq_timing_job;

typedef struct cmdq_machine {
    const tv_config *config;
    tv_mode mode;
    cmdq_params params;
    cmdq_memories memories;
    cmdq_timing timing; /* of all queues that have ended */
    cmdq_timing_job job;
    const tv_program *program;
    cmdq_plan plan;
    uint32_t next;         /* entries executed, in the order of the plan */
    uint64_t limit_cycles; /* max_cycles that `limit` belongs to; UINT64_MAX: none */
    uint32_t limit;
    bool ended;              /* the loaded queue is in `timing` */
    bool dram_is_mapped;     /* its owner may write it between runs */
    uint64_t base;           /* entries of earlier queues */
    uint64_t macs, bytes[2]; /* read from DRAM, written */
    uint64_t role_bytes[CMDQ_ALL_ROLES];
    cmdq_actions actions; /* of earlier queues */
    tv_fault_record fault;
    tv_trace_sink sink;
    bool traced;
} cmdq_machine;

/* actions.c. Adds the actions of the operation, without its fetch and decode, to counts[TV_ACTION_COUNT]. */
void cmdq_count_actions(const cmdq_params *params, const cmdq_op *op, uint64_t *counts);

/* Adds those of fetching and decoding. */
void cmdq_count_issue(uint64_t entries, uint64_t *counts);

/* Adds the actions of the executed entries of the loaded queue. */
void cmdq_add_executed(const cmdq_machine *machine, cmdq_actions *sum);
void cmdq_get_actions(const void *state, tv_action_table *out);
void cmdq_energy_params(const tv_config *config, tv_energy_params *energy);

/* state.c */
void cmdq_visit_state(void *state, tv_state_visitor *visitor);
bool cmdq_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out);

/* check.c */
tv_status cmdq_hazards(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts);
tv_status cmdq_dataflow(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts);
tv_status cmdq_implied(const tv_program *program, const tv_config *config, const tv_diag_sink *sink, uint64_t *count);
tv_status cmdq_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                     tv_check_counts *counts);

#endif
