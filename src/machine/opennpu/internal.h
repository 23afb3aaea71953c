/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenNPU machine from the inside. opcodes.c joins the tables into one row per instruction; decode.c turns
 * instruction words into operations, which carry everything that their row and fields decide and which decode_cache.c
 * keeps; blocks.c executes the loops of matrix products at once; exec.c, inline.h and arith.c change registers and
 * memory and know no ticks; timing.c knows no data; machine.c drives them, if it can with times.c, which has another
 * thread find the ticks.
 *
 * No stage asks which instruction an operation is: it follows the operation's handler, loop and effects. */
#ifndef TV_MACHINE_OPENNPU_INTERNAL_H
#define TV_MACHINE_OPENNPU_INTERNAL_H

#include "base/buf.h"
#include "isa/opennpu/opennpu.h"
#include "kernels/clones.h"
#include "kernels/lanes.h"
#include "kernels/outer.h"
#include "machine/target.h"
#include "sim/account.h"
#include "sim/energy.h"
#include "sim/events.h"
#include "sim/fault.h"
#include "sim/findings.h"
#include "sim/memory.h"
#include "sim/pool.h"
#include "sim/values.h"

enum {
    OPENNPU_K_MAX = 64,
    OPENNPU_L_MAX = 32,
    OPENNPU_BANKS = 2,
    OPENNPU_DECODE_CACHE_BITS = 13, /* most of the 1,700 words of a small model are found at their first hash */
    OPENNPU_DECODE_CACHE = 1 << OPENNPU_DECODE_CACHE_BITS
};

/* Base rows (VX) of a register: the first and their number; 0 for no register. */
typedef struct opennpu_rows {
    uint8_t first, count;
} opennpu_rows;

/* The register operands of an operation. */
enum { OPENNPU_RS1, OPENNPU_RS2, OPENNPU_RS3, OPENNPU_RD, OPENNPU_REGISTERS };

typedef enum opennpu_engine {
    OPENNPU_ENGINE_VALU,
    OPENNPU_ENGINE_MMA,
    OPENNPU_ENGINE_PORT,
    OPENNPU_ENGINE_ISSUE,
    OPENNPU_ENGINES
} opennpu_engine;

/* A stalled tick is attributed to the first of these that applies. */
typedef enum opennpu_stall_reason {
    OPENNPU_STALL_RAW,
    OPENNPU_STALL_WAW,
    OPENNPU_STALL_MMA,
    OPENNPU_STALL_PORT,
    OPENNPU_STALL_REASONS
} opennpu_stall_reason;

/* Effects of an instruction beyond its register operands. */
enum {
    OPENNPU_LOADS = 1 << 0,             /* moves rd from memory */
    OPENNPU_STORES = 1 << 1,            /* moves rd to memory */
    OPENNPU_LANE0_ONLY = 1 << 2,        /* uses lane 0 of rd; a destination keeps its other lanes */
    OPENNPU_MULTIPLIES = 1 << 3,        /* computes K x K products into ACC */
    OPENNPU_READS_ACC = 1 << 4,         /* the result depends on ACC */
    OPENNPU_READS_ACC_IF_KEEP = 1 << 5, /* … with the keep attribute; decoding turns it into OPENNPU_READS_ACC */
    OPENNPU_WRITES_ACC = 1 << 6,
    OPENNPU_DRAINS = 1 << 7,     /* takes a column of ACC and moves on to the next */
    OPENNPU_READS_LUT = 1 << 8,  /* all of a bank */
    OPENNPU_WRITES_LUT = 1 << 9, /* the segment that the immediate names */
    OPENNPU_BANK_B = 1 << 10,    /* of the LUT; otherwise bank A */
    OPENNPU_EXTENSION = 1 << 11  /* an extension says what it moves */
};

/* What each lane of an instruction takes: sums, comparisons, shifts and logic, or products, of integers; binary32. */
typedef enum opennpu_work {
    OPENNPU_WORK_NONE,
    OPENNPU_WORK_INTEGER,
    OPENNPU_WORK_PRODUCT,
    OPENNPU_WORK_FP_ADD,
    OPENNPU_WORK_FP_MUL,
    OPENNPU_WORK_FP_FMA,
    OPENNPU_WORK_CONVERT
} opennpu_work;

/* Profiles of a row: by class, and with keep or without it. */
enum { OPENNPU_PROFILES = 2 * OPENNPU_CLASSES };

typedef struct opennpu_machine opennpu_machine;
typedef struct opennpu_op opennpu_op;

/* Why an operation faults when it executes. */
typedef struct opennpu_fault {
    opennpu_code code;
    char message[200];
} opennpu_fault;

/* Executes an operation at any K. Returns false when it faults, with the machine unchanged and *fault set. */
typedef bool opennpu_handler(opennpu_machine *machine, const opennpu_op *op, opennpu_fault *fault);

/* Operands of a lane loop: k lanes each. `y` may be one of the sources; it overlaps none of them in part. */
typedef struct opennpu_lanes {
    void *y;
    const void *a, *b, *c;
    uint32_t k;
} opennpu_lanes;

typedef void opennpu_lane_loop(const opennpu_op *op, const opennpu_lanes *lanes);

/* The lane loops of an instruction by the class of its SIZED registers and by saturation. */
typedef opennpu_lane_loop *const opennpu_loops[OPENNPU_CLASSES][2];

/* The exact result of a lane of `bits` bits, before it is cut or saturated. */
typedef int64_t opennpu_exact(int32_t a, int32_t b, unsigned bits);

/* What the stages must know of an instruction: its row of insns.def, ops.def and times.def together. */
typedef struct opennpu_opcode {
    const tv_insn *insn;
    opennpu_handler *execute;
    const opennpu_loops *loops; /* NULL: the handler needs none */
    opennpu_exact *exact;       /* NULL: no integer lanes */
    tv_lane_op kernel;          /* TV_LANE_NONE: no SIMD variants */
    uint8_t engine;             /* opennpu_engine */
    uint8_t port_ticks;
    uint8_t work; /* opennpu_work */
    uint16_t latency;
    uint16_t effects;
    uint16_t macs, port_bytes;         /* per execution; 0: none */
    uint64_t femtojoules;              /* of an extension, per execution */
    uint8_t format;                    /* OPENNPU_FORMAT_… */
    uint8_t reads, writes;             /* bit per register operand */
    uint8_t class_[OPENNPU_REGISTERS]; /* TV_CLASS_FIELD: the width field decides */
    uint16_t field[OPENNPU_REGISTERS];
    uint8_t lo[OPENNPU_REGISTERS]; /* lowest bit of the field */
} opennpu_opcode;

/* One row for each row of the instruction set; an operation's `insn` is an index of it. */
typedef struct opennpu_opcodes {
    opennpu_opcode *rows;
    unsigned count;
} opennpu_opcodes;

/* A decoded instruction: one cache line. */
struct opennpu_op {
    uint32_t word;
    uint16_t insn;      /* row of opennpu_opcodes */
    uint8_t class_;     /* of its SIZED registers */
    uint8_t round;      /* tv_round */
    uint8_t sat;        /* also `keep` of the MMA family */
    uint8_t e5m2;       /* BF8 variant */
    uint8_t reads;      /* bit per register operand */
    uint8_t writes;     /* … */
    uint8_t engine;     /* opennpu_engine */
    bool is_inline : 1; /* run_fast inlines its handler, one of inline.h */
    bool in_block : 1;  /* mma or a load of a whole register: blocks may have it */
    int16_t imm;        /* signed immediate */
    uint16_t effects;
    uint16_t latency;
    uint16_t port_bytes; /* moved by the port */
    uint16_t macs;
    opennpu_rows rows[OPENNPU_REGISTERS];
    uint32_t rows_read, rows_written; /* bit per base row */
    /* For `kernel`, a bit per register group: whose form matters, because the kernel reads it or keeps some of its
     * bytes; those of them as lanes, the others as byte planes; overwritten as lanes. */
    uint8_t form_groups, lane_groups, result_groups;
    uint8_t port_ticks;
    uint16_t profile; /* insn * OPENNPU_PROFILES + 2 * class_ + keep */
    opennpu_handler *execute;
    tv_lanes_fn kernel; /* computes 64 lanes instead of `execute`; NULL: none */
};
static_assert(sizeof(void *) != 8 || sizeof(opennpu_op) <= 64, "an entry of the decode cache fits a cache line");

/* By hash of the word; decode_cache.h. A word may be in either of two entries, which avoids most conflicts of programs
 * with about 1,700 distinct words. An empty entry holds the NOP word, so that a lookup needs no valid bit. */
typedef struct opennpu_decode_cache {
    _Alignas(64) opennpu_op ops[OPENNPU_DECODE_CACHE];
} opennpu_decode_cache;

typedef struct opennpu_times opennpu_times;
typedef struct opennpu_blocks opennpu_blocks;

typedef struct opennpu_timing {
    const opennpu_opcodes *opcodes;
    uint64_t k;
    uint64_t next_tick;                /* first tick in which the next instruction may issue */
    uint64_t completes[OPENNPU_L_MAX]; /* tick by base row; results of one tick stall nothing and may be left out */
    int64_t writer[OPENNPU_L_MAX];     /* index of the instruction that writes the row, for traces */
    uint64_t port_start, port_free;    /* occupation of the port by its last transfer, which is not accounted for yet */
    int64_t port_owner;
    uint64_t accumulate_tick; /* tick, valid if `accumulated` */
    int64_t accumulator;
    bool accumulated;
    uint64_t column;          /* of the next mma.last */
    uint64_t last_completion; /* of results that take more than one tick */
    uint32_t in_flight;       /* superset of the base rows whose result is not complete in tick `next_tick` */
    tv_account accounts[OPENNPU_ENGINES];
    tv_emitter emitter;
    tv_energy_table energy; /* for events */
} opennpu_timing;

/* SIMD kernels that no instruction names; NULL: plain loops. */
typedef struct opennpu_simd {
    tv_lanes_fn to_planes, to_lanes;      /* a register group between its forms, in place, or memory to planes */
    tv_lanes_fn deinterleave, interleave; /* VE from and to memory */
    tv_lanes_fn lookup;
    tv_outer_s8_fn *outer; /* never NULL */
} opennpu_simd;

/* Columns of ACC, and what they lack of its value. */
typedef struct opennpu_columns {
    uint32_t first, end;
    unsigned added; /* of the pending products, from the first on */
    bool cleared;   /* zero before the pending products, whatever `acc` holds */
} opennpu_columns;

enum { OPENNPU_PENDING_MAX = 8 * TV_OUTER_COUNT_MAX }; /* as many as most sums have; in a second-level cache */

/* The thread that times a program reads what comes before the decode cache. What instructions change is in other cache
 * lines. */
struct opennpu_machine {
    const tv_config *config;
    tv_codec *codec;
    opennpu_opcodes opcodes;
    uint32_t k, l;
    tv_mode mode;
    tv_cpu_level level;
    opennpu_simd simd;
    const tv_program *program;
    tv_values *values;      /* inner values of instructions; NULL: not asked for */
    tv_pool *pool;          /* NULL: one thread */
    opennpu_times *times;   /* of a program that is timed apart; NULL: none was yet */
    opennpu_blocks *blocks; /* NULL: none; blocks.h */
    opennpu_decode_cache decode_cache;

    _Alignas(64) uint8_t *registers; /* L rows of K bytes; registers.h */
    int32_t *acc;                    /* K x K, column after column */
    int8_t *pending_a, *pending_b;   /* operands of mma, not yet added to all columns: rows of K */
    unsigned pending;
    /* Columns from 0 on that drains have read lately, at least one, and the others, perhaps none. Products are added to
     * `drained` when TV_OUTER_COUNT_MAX of them were not, to `others` when something reads one of these or when there
     * are OPENNPU_PENDING_MAX; mostly ACC is cleared first. */
    opennpu_columns drained, others;
    uint32_t drain_ends[2]; /* the columns drained since ACC was cleared end there, and those before */
    uint32_t column;        /* of ACC, for the next mma.last */
    bool mostly_blocks;     /* most instructions of the last run were in blocks, which are timed quickly */
    uint8_t lane_form;      /* bit per group of four rows: stored as lanes, not as byte planes */
    uint8_t lut[OPENNPU_BANKS][OPENNPU_LUT_ENTRIES];
    tv_memory memory;
    opennpu_timing timing;
    uint64_t next, count, instructions;
    uint64_t *executed; /* by profile: how often */
    tv_fault_record fault;
    tv_trace_sink sink;
};

/* opcodes.c. Row i describes row i of the instruction set. TV_ERR_MEMORY leaves *opcodes empty. */
tv_status opennpu_opcodes_init(opennpu_opcodes *opcodes, const tv_config *config, const tv_diag_sink *sink);
void opennpu_opcodes_fini(opennpu_opcodes *opcodes);

/* Decides whether blocks may have the operation. On a machine with K = 64, chooses its SIMD kernel, or none, and
 * decides whether its handler is one of inline.h. */
void opennpu_select_kernel(const opennpu_machine *machine, opennpu_op *op);

/* decode.c. Why a word is no operation: what the codec says, or that a register lies past the last. */
typedef struct opennpu_illegal {
    tv_illegal why;
    int row;         /* of the instruction set; -1: the word is no instruction */
    unsigned class_; /* of the missing register */
} opennpu_illegal;

/* Decodes `word` for a machine with L = `l`. False: the word is illegal there, and *illegal says why. */
bool opennpu_decode(const tv_codec *codec, const opennpu_opcodes *opcodes, uint32_t word, uint32_t l, opennpu_op *op,
                    opennpu_illegal *illegal);
void opennpu_print_illegal(const opennpu_illegal *illegal, uint32_t l, tv_buf *out);

/* exec.c. What a load or store moves: `lanes` lanes, `bytes` bytes from mem[addr] on, which may lie outside memory. */
typedef struct opennpu_transfer {
    uint32_t lanes, addr, bytes;
} opennpu_transfer;
opennpu_transfer opennpu_transfer_of(const opennpu_machine *machine, const opennpu_op *op);

/* First entry of the segment of a vsetlut in its bank. False: past the end. The message takes the segment, the entry
 * and the number of entries. */
bool opennpu_segment_in_bank(const opennpu_op *op, uint32_t k, int64_t *first);
#define OPENNPU_LUT_RANGE_MESSAGE "segment %d begins at entry %" PRId64 " of %d"

/* Adds the pending products to columns; needed before anything reads these of `acc`. */
void opennpu_add_products(opennpu_machine *machine, opennpu_columns *columns);
/* The same for the drained columns; if they are all, no products are pending then. */
void opennpu_add_drained(opennpu_machine *machine);
/* The same for all columns, after which no products are pending. */
void opennpu_flush_accumulators(opennpu_machine *machine);
/* ACC is zero, and no products are pending. */
void opennpu_clear_accumulators(opennpu_machine *machine);

/* timing.c */
void opennpu_timing_init(opennpu_timing *timing, const opennpu_opcodes *opcodes, const tv_config *config);
void opennpu_timing_begin(opennpu_timing *timing); /* a program begins when all results are complete */
uint64_t opennpu_timing_earliest(const opennpu_timing *timing, const opennpu_op *op);
void opennpu_timing_issue(opennpu_timing *timing, const opennpu_op *op, int64_t index);
/* Without a trace: attributes the ticks from `next_tick` to the first in which the operation may issue; returns that.
 */
uint64_t opennpu_timing_stall(opennpu_timing *timing, const opennpu_op *op);
/* How long the operation occupies its engine. */
uint64_t opennpu_engine_ticks(const opennpu_op *op);
void opennpu_timing_drain(opennpu_timing *timing);
extern const char *const opennpu_engine_names[OPENNPU_ENGINES];
extern const char *const opennpu_stall_reason_names[OPENNPU_STALL_REASONS];

/* lane_unit.c. tv_target.compute_lanes: what `word` writes to at most OPENNPU_K_MAX lanes. TV_ERR_MEMORY. */
tv_status opennpu_compute_lanes(const tv_config *config, uint64_t word, size_t lanes, const uint32_t *const sources[3],
                                uint32_t *out);

/* actions.c. Adds the actions of one execution, without its fetch and decode, to counts[TV_ACTION_COUNT]. */
void opennpu_count_actions(const opennpu_opcode *row, unsigned class_, bool keep, uint32_t k, uint64_t *counts);

/* Adds those of fetching and decoding `times` instructions. */
void opennpu_count_issue(uint64_t times, uint64_t *counts);

typedef struct opennpu_totals {
    uint64_t macs, bytes[2]; /* loaded, stored */
} opennpu_totals;
opennpu_totals opennpu_totals_of(const opennpu_machine *machine);
void opennpu_actions(const void *state, tv_action_table *out);
void opennpu_energy_params(const tv_config *config, tv_energy_params *energy);

/* state.c */
void opennpu_visit_state(void *state, tv_state_visitor *visitor);
bool opennpu_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out);

/* check.c */
tv_status opennpu_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                        tv_check_counts *counts);

#endif
