/* SPDX-License-Identifier: Apache-2.0 */
/* The pccx machine from the inside.
 *
 * An instruction goes through three stages. resolve.c reads the Constant Cache and turns the instruction word into an
 * operation (op.h) with its dimensions, ranges and byte counts, or rejects it. The execute functions (matrix.c, cvo.c,
 * copy.c) change data, in program order, and know no cycles; timing.c knows no data. machine.c drives them. */
#ifndef TV_MACHINE_PCCX_INTERNAL_H
#define TV_MACHINE_PCCX_INTERNAL_H

#include "base/buf.h"
#include "isa/pccx/pccx.h"
#include "kernels/gemm.h"
#include "kernels/gemm_panel.h"
#include "kernels/gemv_scaled.h"
#include "kernels/quantize_bf16.h"
#include "machine/pccx/actions.h"
#include "machine/pccx/timing.h"
#include "machine/target.h"
#include "sim/energy.h"
#include "sim/fault.h"
#include "sim/findings.h"
#include "sim/memory.h"
#include "sim/pool.h"
#include "sim/values.h"
#include "trivet/window.h"

enum { PCCX_FIFO_TO_SFU, PCCX_FIFO_TO_GEMV, PCCX_FIFOS };

/* A direct FIFO: a ring of BF16. */
typedef struct pccx_fifo {
    uint16_t *ring;
    uint32_t head, count;
} pccx_fifo;

/* A completion record of STAT_OUT. */
typedef struct pccx_completion {
    uint64_t index, cycle;
} pccx_completion;

typedef struct pccx_stat {
    pccx_completion *ring;
    uint32_t depth, head, count;
} pccx_stat;

/* A weight stream: the descriptors of the loaded program, after those that earlier programs have not taken. */
typedef struct pccx_weights {
    tv_buf list;     /* tv_descriptor */
    size_t next;     /* descriptor of the next byte … */
    uint64_t offset; /* … and its offset there */
    uint64_t left;   /* bytes not taken */
} pccx_weights;

struct pccx_handler;

/* The state that decides dimensions, ranges and counts: all that timing-only runs and the static check need. */
typedef struct pccx_control {
    const tv_config *config; /* borrowed */
    const tv_isa *isa;
    const struct pccx_handler *handlers; /* by row of insns.def */
    uint64_t l2_words, host_bytes;       /* words 0x1FFFF and up are not addressable */
    uint32_t fifo_elements, gemv_cores, gemv_lanes, gemm_k_max, gemm_tile_k, gemm_tile_n;
    bool parallel_lane_counts_lanes; /* of each core; false: cores */
    uint16_t constants[2][PCCX_CACHE_ENTRIES][3];
    bool written[2][PCCX_CACHE_ENTRIES];
    uint32_t fifo_count[PCCX_FIFOS];
    pccx_weights weights[PCCX_STREAMS];
} pccx_control;

/* Why an instruction cannot run. */
typedef struct pccx_rejection {
    bool code_only;     /* set by the caller: the message is not formatted */
    bool out_of_memory; /* the host has no memory; the program is not at fault */
    pccx_code code;
    char message[200];
} pccx_rejection;

void pccx_control_init(pccx_control *control, const tv_config *config);
void pccx_control_fini(pccx_control *control);

/* Appends the program's descriptors to the weight streams. False: no memory, and nothing has changed. */
bool pccx_control_append(pccx_control *control, const tv_program *program);

/* Resolves `word`, row `row` of the instruction table. False: it cannot run, for the reason in *why; the control state
 * is unchanged, and `op` holds what was resolved until then. */
bool pccx_resolve(const pccx_control *control, unsigned row, uint64_t word, pccx_op *op, pccx_rejection *why);

/* Commits the instruction's effect on the control state: constants, FIFO counts, stream positions. */
void pccx_control_commit(pccx_control *control, const pccx_op *op);

typedef struct pccx_times pccx_times;
typedef struct pccx_memo pccx_memo;
typedef struct pccx_memo_entry pccx_memo_entry;

/* What instructions change begins a cache line of its own, because the thread that times a program reads what comes
 * before it. */
typedef struct pccx_machine {
    const tv_config *config;
    tv_codec *codec;
    tv_mode mode;
    uint16_t e_max;
    tv_cpu_level level; /* of the host, for kernels */
    tv_quantize_bf16_fn *quantize;
    tv_gemm_s4s8_fn *multiply;
    tv_gemv_scaled_fn *multiply_rows; /* of one vector */
    tv_pool *pool;                    /* NULL: one thread */
    tv_values *values;                /* inner values of instructions; NULL: not asked for */
    tv_energy_table energy;
    pccx_times *times;         /* of a program that is timed apart; NULL: none was yet */
    pccx_memo *memo;           /* of timing; NULL: there is none, as while the first program is loaded */
    const tv_program *program; /* the caller's; NULL: none */
    uint64_t count;            /* instructions of the program */
    tv_buf commands;           /* instruction words that the host wrote … */
    uint64_t commands_done;    /* … after this number that have run and are not stored any more */

    _Alignas(64) uint64_t next; /* instruction of the program */
    uint64_t instructions;      /* executed, over all programs */
    pccx_control control;
    pccx_timing timing;
    tv_memory l2, host;
    pccx_fifo fifos[PCCX_FIFOS];
    tv_buf scratch; /* an instruction's results before they are written */
    pccx_counters counters;
    uint32_t command_low, command_high;
    uint64_t stream_addr, stream_bytes; /* of the descriptor that the host writes */
    pccx_stat stat;
    uint32_t status; /* TV_WINDOW_ bits without FULL */
    bool ended;      /* everything has drained */
    tv_fault_record fault;
    tv_trace_sink sink;
} pccx_machine;

/* Index past the last instruction: those of the loaded program, then those that the host has written. */
static inline uint64_t pccx_pending_end(const pccx_machine *machine)
{
    return machine->count + machine->commands_done + machine->commands.len / 8;
}

/* The instruction word at `index`: of the program, or, after its end, of the command FIFO. */
static inline uint64_t pccx_word_at(const pccx_machine *m, uint64_t index)
{
    if (index < m->count)
        return tv_program_word(m->program, index);
    return tv_load_le64(m->commands.data + (index - m->count - m->commands_done) * 8);
}

/* state.c */
void pccx_visit_state(void *state, tv_state_visitor *visitor);
bool pccx_state_at(void *state, unsigned i, tv_buf *text, tv_state_value *out);

/* window.c */
void pccx_window_read(const pccx_machine *m, uint64_t byte, uint8_t *out, size_t bytes);
void pccx_window_write(pccx_machine *m, uint64_t byte, const uint8_t *data, size_t bytes);

/* Appends a completion record; `user` is the machine. */
void pccx_window_complete(void *user, int64_t index, uint64_t cycle);

/* Appends a record; false: the oldest one made room. */
bool pccx_stat_add(pccx_stat *stat, pccx_completion completion);

/* Whether cycles can be found apart from the data: without events, a limit, and the functions of an extension. */
static inline bool pccx_can_time_apart(const pccx_machine *m, uint64_t max_cycles)
{
    return max_cycles == UINT64_MAX && !tv_is_traced(&m->timing.emitter) && m->control.isa->insn_count == PCCX_INSNS;
}

/* ---- times.c ---- */

/* Times and counts operation `index`, before it is committed to `control`. `memo` may be NULL. */
void pccx_time_op(pccx_memo *memo, const pccx_control *control, pccx_timing *timing, pccx_counters *counters,
                  const pccx_op *op, uint64_t index);

/* How the instructions of a run are timed. */
typedef enum pccx_times_plan {
    PCCX_TIMES_INLINE, /* by the caller, one after another */
    PCCX_TIMES_THREAD, /* by another thread: the caller executes them without cycles and counters */
    PCCX_TIMES_MEMO    /* from the memo, as their operations */
} pccx_times_plan;

/* Begins instructions [m->next, end). */
pccx_times_plan pccx_times_begin(pccx_machine *m, uint64_t end, uint64_t max_cycles);

/* The program, with PCCX_TIMES_MEMO. */
const pccx_memo_entry *pccx_times_known(const pccx_machine *m);

/* Must follow once the caller has executed up to m->next: then cycles and counters are those of these instructions. */
void pccx_times_end(pccx_machine *m, pccx_times_plan plan);

void pccx_times_free(pccx_times *times);

/* ---- memo.c ---- */

pccx_memo *pccx_memo_new(void); /* NULL: no memory */
void pccx_memo_free(pccx_memo *memo);

/* The entry of a program that will run up to `end`, all of it, as it did before; valid until the next call. NULL:
 * there is none; then it is recorded if it can be. */
const pccx_memo_entry *pccx_memo_find(pccx_machine *m, uint64_t end, uint64_t max_cycles);

/* Notes an instruction of the recorded program, before it is committed to `control`. `memo` may be NULL. */
void pccx_memo_note(pccx_memo *memo, const pccx_control *control, const pccx_op *op);

/* Ends recording: keeps the program if it has ended, and otherwise nothing. */
void pccx_memo_end(pccx_machine *m, bool ended);

/* Operation `i` of the program, without its lists. The control state is still that before the program. */
void pccx_memo_op(const pccx_machine *m, const pccx_memo_entry *e, uint64_t i, pccx_op *op);

/* Changes timing, counters and the control state as the program does; `index` is the number of its first instruction.
 */
void pccx_memo_apply(pccx_machine *m, const pccx_memo_entry *e, uint64_t index);

/* ---- product_runs.c ---- */

/* Executes products that follow each other on several threads: `op`, instruction `first` of the program, and those
 * after it. Returns their number; 0: there are none that gain from it, and nothing was executed. */
uint64_t pccx_execute_products(pccx_machine *m, const pccx_memo_entry *e, uint64_t first, const pccx_op *op);

/* Members of the target: spaces.c, stats.c, check.c. */
int pccx_space_at(const void *state, unsigned i, tv_space *out);
tv_memory *pccx_memory_of(void *state, unsigned space);
void pccx_read_space(void *state, unsigned space, uint64_t byte, void *data, size_t bytes);
void pccx_write_space(void *state, unsigned space, uint64_t byte, const void *data, size_t bytes);
void pccx_stats(const void *state, tv_stats *out);
void pccx_actions(const void *state, tv_action_table *out);
tv_status pccx_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                     tv_check_counts *counts);
tv_status pccx_hazards(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts);

#endif
