/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenNPU machine from the inside: decode.c turns words into operations, exec.c changes registers and memory and
 * knows no ticks, timing.c knows no data, machine.c drives them. */
#ifndef TV_MACHINE_OPENNPU_MACHINE_H
#define TV_MACHINE_OPENNPU_MACHINE_H

#include "base/buf.h"
#include "isa/opennpu/opennpu.h"
#include "kernels/clones.h"
#include "kernels/lanes.h"
#include "kernels/outer.h"
#include "machine/target.h"
#include "sim/account.h"
#include "sim/events.h"
#include "sim/fault.h"
#include "sim/findings.h"
#include "sim/memory.h"

enum {
    OPENNPU_K_MAX = 64,
    OPENNPU_L_MAX = 32,
    OPENNPU_BANKS = 2,
    OPENNPU_DECODE_CACHE_BITS = 11,
    OPENNPU_DECODE_CACHE = 1 << OPENNPU_DECODE_CACHE_BITS
};

/* Base rows VX of a register: the first and how many; 0 for no register. */
typedef struct opennpu_rows {
    uint8_t first, count;
} opennpu_rows;

/* Sources of an operation, in the order of the fields. */
enum { OPENNPU_RS1, OPENNPU_RS2, OPENNPU_RS3, OPENNPU_RD, OPENNPU_REGISTERS };

/* An instruction with its fields taken apart. */
typedef struct opennpu_op {
    uint32_t word;
    uint8_t insn;   /* opennpu_insn */
    uint8_t class_; /* of its SIZED registers */
    uint8_t round, sat, e5m2;
    uint8_t reads, writes; /* bit per register of the enum above */
    uint8_t engine;        /* opennpu_engine */
    uint16_t latency;
    int16_t imm;
    uint16_t bytes; /* moved by the port */
    opennpu_rows rows[OPENNPU_REGISTERS];
    uint32_t read, written; /* bit per base row */
    /* What does it to 64 lanes; NULL: opennpu_execute. A bit per group: must stand as byte planes, as lanes, will as
     * lanes. */
    uint8_t planes, lanes, widened;
    tv_lanes_fn kernel;
} opennpu_op;

typedef enum opennpu_engine {
    OPENNPU_VALU,
    OPENNPU_MMA_ARRAY,
    OPENNPU_PORT,
    OPENNPU_ISSUE,
    OPENNPU_ENGINES
} opennpu_engine;

/* The order is the order in which a held tick is charged. */
typedef enum opennpu_stall_reason {
    OPENNPU_STALL_RAW,
    OPENNPU_STALL_WAW,
    OPENNPU_STALL_MMA,
    OPENNPU_STALL_PORT,
    OPENNPU_STALL_REASONS
} opennpu_stall_reason;

/* What the parts of the machine must know of a row of the instruction table, worked out once. */
typedef struct opennpu_opcode_info {
    uint8_t engine, port_ticks;
    uint16_t latency;
    uint8_t format;
    uint8_t reads, writes;             /* registers, as in opennpu_op */
    uint8_t class_[OPENNPU_REGISTERS]; /* TV_CLASS_FIELD: what the width field says */
    uint16_t field[OPENNPU_REGISTERS];
    uint8_t lo[OPENNPU_REGISTERS]; /* … and where it stands in the word */
} opennpu_opcode_info;

typedef struct opennpu_timing {
    const opennpu_opcode_info *shapes;
    uint64_t k;
    uint64_t next;                 /* the first tick in which the next instruction may issue */
    uint64_t ready[OPENNPU_L_MAX]; /* by base row; results that take a tick hold nothing and may be left out */
    int64_t writer[OPENNPU_L_MAX]; /* … and whose result it is, for traces */
    uint64_t port_from, port_free; /* what the port works on; accounted for when it is done */
    int64_t port_user;
    uint64_t last_accumulate; /* tick, valid if `accumulated` */
    int64_t accumulator;
    bool accumulated;
    uint64_t column; /* of the next mma.last */
    uint64_t latest; /* last result ready that takes more than a tick */
    uint32_t flying; /* base rows among which are all whose result is not ready in tick `next` */
    tv_account accounts[OPENNPU_ENGINES];
    tv_emitter emitter;
} opennpu_timing;

typedef struct opennpu_machine {
    tv_codec *codec;
    const tv_config *config;
    opennpu_op decode_cache[OPENNPU_DECODE_CACHE]; /* words taken apart lately, by hash: loops are written out, so words
                                                      come back */
    tv_mode mode;
    opennpu_opcode_info shapes[OPENNPU_INSNS];
    uint32_t k, l;
    /* L rows of K bytes, four of them a group. A group stands as byte planes, which VX and VE are made of, or as the K
     * lanes of VR, where bit `group` of `wide` is set; opennpu_row and the accessors of exec.c turn one into the other.
     */
    uint8_t *planes;
    uint8_t wide;
    uint8_t lut[OPENNPU_BANKS][OPENNPU_LUT_ENTRIES];
    int32_t *acc;                  /* K x K, column after column, but for what is pending */
    bool cleared;                  /* … and it is zero, whatever stands there */
    int8_t *pending_a, *pending_b; /* operands of mma not yet added: rows of K */
    unsigned pending;
    tv_outer_s8_fn *outer;
    tv_cpu_level level;
    tv_lanes_fn split, join, unzip, zip, lookup; /* a group's forms, VE from and to memory, tables; NULL: plain loops */
    uint32_t column;
    tv_memory memory;
    opennpu_timing timing;

    const tv_program *program;
    uint64_t next, count, instructions, macs, bytes[2]; /* loaded, stored */
    tv_fault_record fault;
    tv_trace_sink sink;
} opennpu_machine;

/* decode.c */
void opennpu_opcode_info_init(opennpu_opcode_info shapes[OPENNPU_INSNS], const tv_config *config);

/* Why a word is no operation: what the codec says, or that a register of row `row` lies past the last. */
typedef struct opennpu_illegal {
    tv_illegal why;
    int row;         /* -1: the word is no instruction */
    unsigned class_; /* of the missing register */
} opennpu_illegal;

/* The operation of a word. False: it is none of a machine with L = `l`, *illegal says why. */
bool opennpu_decode(const tv_codec *codec, const opennpu_opcode_info shapes[OPENNPU_INSNS], uint32_t word, uint32_t l,
                    opennpu_op *op, opennpu_illegal *illegal);
void opennpu_print_illegal(const opennpu_illegal *illegal, uint32_t l, tv_buf *out);

/* kernels.c: finds the operation's kernel. */
void opennpu_find_kernel(const opennpu_machine *machine, opennpu_op *op);

/* exec.c: brings the groups into the forms that the operation's kernel takes. */
void opennpu_convert_groups(opennpu_machine *machine, const opennpu_op *op);

/* exec.c: false when the instruction faults, with nothing changed; `code` and `message` say why. */
bool opennpu_execute(opennpu_machine *machine, const opennpu_op *op, opennpu_code *code, char message[200]);
void opennpu_mma(opennpu_machine *machine, const opennpu_op *op); /* OPENNPU_MMA: never faults */

/* What an LD or ST moves: `lanes` lanes, `bytes` bytes from mem[addr] on. The address may lie outside memory. */
typedef struct opennpu_transfer {
    bool load;
    uint32_t lanes, addr, bytes;
} opennpu_transfer;
opennpu_transfer opennpu_transfer_of(const opennpu_machine *machine, const opennpu_op *op);

/* decode.c: what an instruction multiplies, and what it moves between registers and memory. */
uint64_t opennpu_macs(unsigned insn, uint64_t k);
uint64_t opennpu_port_bytes(unsigned insn, uint64_t k);

/* VX[index], as bytes. */
uint8_t *opennpu_row(opennpu_machine *machine, unsigned index);

/* Where the segment of a vsetlut begins in its bank; false: past the end. The message takes the segment, that and 256.
 */
bool opennpu_segment_in_bank(const opennpu_op *op, uint32_t k, int64_t *first);
#define OPENNPU_LUT_RANGE_MESSAGE "segment %d begins at entry %" PRId64 " of %d"

/* Adds what is pending to ACC: before anything looks at it. */
void opennpu_flush_accumulators(opennpu_machine *machine);

/* timing.c */
void opennpu_timing_init(opennpu_timing *timing, const opennpu_opcode_info *shapes, const tv_config *config);
void opennpu_timing_begin(opennpu_timing *timing); /* a program begins when all results are ready */
uint64_t opennpu_timing_earliest(const opennpu_timing *timing, const opennpu_op *op);
void opennpu_timing_issue(opennpu_timing *timing, const opennpu_op *op, int64_t index);
/* Where nobody traces: charges the ticks from `next` to the one in which the operation may issue, and returns that. */
uint64_t opennpu_timing_wait(opennpu_timing *timing, const opennpu_op *op);
void opennpu_timing_drain(opennpu_timing *timing);
extern const char *const opennpu_engine_names[OPENNPU_ENGINES];
extern const char *const opennpu_stall_reason_names[OPENNPU_STALL_REASONS];

/* state.c */
void opennpu_visit_state(void *state, tv_state_visitor *parts);
bool opennpu_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out);

/* check.c */
tv_status opennpu_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                        tv_check_counts *counts);

#endif
