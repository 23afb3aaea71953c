/* SPDX-License-Identifier: Apache-2.0 */
/* The debugger core, without any user interface (see console/console.h and dap/dap.h).
 *
 * Time is the position: the number of instructions executed since the start, over all programs. The machine is
 * deterministic, so a position and the recorded writes before it determine the whole state. Going back therefore
 * restores an earlier state and replays to the target position. Snapshots affect only how long that takes.
 *
 * Files, lowest first: locations.c and print.c describe instructions; advance.c runs the machine to a position;
 * history.c keeps snapshots and recorded writes; trace.c writes trace files; breakpoints.c keeps the list of
 * breakpoints and hits.c matches them; run.c runs to a stop; stalls.c observes one instruction; session.c creates and
 * frees a debugger. */
#ifndef TV_DEBUG_DEBUG_H
#define TV_DEBUG_DEBUG_H

#include "base/buf.h"
#include "base/diag.h"
#include "base/vec.h"
#include "trivet/codec.h"
#include "trivet/debug.h"

enum { DEBUG_BREAKS_MAX = 10000, DEBUG_SNAPSHOTS_MAX = 256, DEBUG_FILE_MAX = 1024 };

/* A write made through the debugger; replayed at its position. */
typedef struct debug_write {
    uint64_t position;
    char space[32];
    uint64_t addr;
    size_t bytes;
    uint8_t *data;
} debug_write;

typedef struct debug_snapshot {
    uint64_t position;
    unsigned program;
    size_t writes; /* recorded writes already applied */
    tv_snapshot *state;
} debug_snapshot;

typedef enum debug_operator { DEBUG_EQ, DEBUG_NE, DEBUG_LT, DEBUG_LE, DEBUG_GT, DEBUG_GE } debug_operator;

/* "SPACE:ADDR[:TYPE] OP NUMBER" */
typedef struct debug_condition {
    char space[32];
    uint64_t addr;
    tv_dtype type;
    debug_operator op;
    double value;
} debug_condition;

typedef struct debug_break {
    tv_break info;
    char *text, *where, *condition_text; /* owned; `info` points to them */
    uint64_t skipped_at;                 /* position + 1 of the last hit skipped in this run; 0: none */
    bool hit;                            /* matched at the current stop, not yet counted */
    const char *space;                   /* TV_BREAK_WATCH: canonical name of the space */
    uint64_t from, to;                   /* TV_BREAK_WATCH: byte range [from, to) of that space */
    debug_condition condition;           /* valid if `condition_text` is set */
} debug_break;

/* An expression that is printed at every stop. */
typedef struct debug_display {
    unsigned number;
    char *text; /* owned */
} debug_display;

/* What `list` or `disas` has shown last, so that a repetition continues there. */
typedef struct debug_cursor {
    uint64_t position; /* of the machine at that time */
    uint64_t next;     /* next line or instruction to show; 0: nothing shown yet */
    const char *file;  /* `list` only */
} debug_cursor;

struct tv_debug {
    tv_debug_options options;
    tv_config *config;
    tv_machine *machine;
    tv_codec *codec; /* NULL: programs are queues, not instruction words */
    const tv_program **programs;
    unsigned count;             /* number of programs */
    unsigned program;           /* index of the loaded one */
    uint64_t *instruction_base; /* per loaded program: instructions in the programs before it */
    tv_debug_stop last;
    uint64_t run_limit; /* a run stops before this position in any case */

    TV_VEC(debug_break) breaks;
    unsigned next_number;
    TV_VEC(uint64_t) break_map; /* one bit per instruction of the loaded program: some breakpoint matches it */
    bool break_map_valid;
    bool in_program_order; /* the machine executes instructions in the order of their indices */

    TV_VEC(debug_write) writes;
    size_t writes_applied;
    debug_snapshot snapshots[DEBUG_SNAPSHOTS_MAX + 1];
    unsigned snapshot_count;
    double snapshot_cost; /* seconds that the last snapshot took */
    double snapshot_time; /* when it was taken */

    tv_trace_writer *trace; /* NULL: off */
    char *trace_path;
    uint64_t clock, clock_at;      /* cached machine clock, and its position; UINT64_MAX: not valid */
    tv_text_buffer line;           /* text of the last location, for queues */
    bool out_of_memory;            /* an instruction could not be printed; of the current command */
    char word_text[TV_CODEC_TEXT]; /* the same for instruction words */

    TV_VEC(debug_display) displays;
    unsigned next_display; /* number of the last one added */
    unsigned script_depth; /* console: nesting of `source` */
    debug_cursor listed, disassembled;
};

/* ---- locations.c ---- */

bool tv_debug_parse_number(const char *text, uint64_t *out);
bool tv_debug_find_space(const tv_debug *d, const char *name, tv_space *space);

/* Position of the next instruction. */
uint64_t tv_debug_position(const tv_debug *d);

/* Instruction `index` of program `program`; returns false if there is none. */
bool tv_debug_get_location(tv_debug *d, unsigned program, uint64_t index, tv_debug_location *out);

/* Parses NUMBER, LABEL[+N] or FILE:LINE into an instruction index of the loaded program. */
tv_status tv_debug_parse_index(tv_debug *d, const char *text, const tv_diag_sink *sink, uint64_t *index);

/* Parses the location of `break`. `file` is storage for out->text, which otherwise points into `text`. */
tv_status tv_debug_parse_break(tv_debug *d, const char *text, char file[DEBUG_FILE_MAX], const tv_diag_sink *sink,
                               tv_break *out);

/* True if `path` ends with the path components of `file`. */
bool tv_debug_path_has_suffix(const char *path, const char *file);

/* A regular file that can be read: no directory, no device. */
bool tv_debug_is_readable_file(const char *path);

/* Appends the contents of a source file. TV_ERR_INPUT or TV_ERR_IO: it cannot be read or is too large; TV_ERR_MEMORY.
 * Reports nothing. */
tv_status tv_debug_read_source(const char *file, tv_buf *out);

/* ---- print.c ---- */

void tv_debug_print_address(const tv_debug *d, const char *space, uint64_t addr, tv_buf *out); /* "spm:1:0x40" */
void tv_debug_print_location(const tv_debug_location *location, tv_buf *out); /* "softmax+3 (softmax.s:41)" */

/* The reason of a stop and the next instruction, in one to three lines. */
void tv_debug_print_stop(tv_debug *d, const tv_debug_stop *stop, tv_buf *out);

/* ---- advance.c ---- */

bool tv_debug_at_end(const tv_debug *d);
uint64_t tv_debug_clock(tv_debug *d);

/* Monotonic time in seconds. */
double tv_debug_now(void);

/* Calls tv_debug_options.poll; true: the user interrupts the run. */
bool tv_debug_poll_interrupt(tv_debug *d);

/* Runs to position `to`, the end of the loaded program, a fault or cycle `max_cycles`. When a program ends and is not
 * the last one, loads the next and sets *why to TV_STOP_UNTIL. Applies recorded writes at their positions. */
tv_status tv_debug_advance(tv_debug *d, uint64_t to, uint64_t max_cycles, const tv_diag_sink *sink,
                           tv_stop_reason *why);

/* Replaces the machine by a new one before the first instruction. */
tv_status tv_debug_reset(tv_debug *d, const tv_diag_sink *sink);

/* ---- history.c ---- */

/* Takes a snapshot if enough time or instructions have passed since the last one. */
void tv_debug_snapshot_if_due(tv_debug *d);

/* Restores the last snapshot at or before `position`, or the start. */
tv_status tv_debug_restore_before(tv_debug *d, uint64_t position, const tv_diag_sink *sink);

/* Restores and replays to `position`, which has been executed before. *arrived is false if the user interrupted the
 * replay. Recorded writes and snapshots are kept. */
tv_status tv_debug_go_to(tv_debug *d, uint64_t position, const tv_diag_sink *sink, bool *arrived);

/* Drops the recorded writes that have not been applied; returns their number. */
uint64_t tv_debug_drop_future_writes(tv_debug *d);
void tv_debug_history_fini(tv_debug *d);
uint64_t tv_debug_history_bytes(const tv_debug *d);

/* ---- trace.c ---- */

/* Traces everything that runs from here on into file `path`. While a trace is open, the run cannot be reversed. */
tv_status tv_debug_trace_start(tv_debug *d, const char *path, tv_trace_format format, const tv_diag_sink *sink);

/* ---- breakpoints.c ---- */

void tv_debug_delete_break_at(tv_debug *d, unsigned i);
void tv_debug_breaks_fini(tv_debug *d);

/* ---- hits.c ---- */

/* Brings `break_map` up to date; false: out of memory. */
bool tv_debug_update_break_map(tv_debug *d);

/* The first instruction number in [from, to) that a breakpoint matches, or `to`. Needs a valid map. */
uint64_t tv_debug_next_in_break_map(const tv_debug *d, uint64_t from, uint64_t to);
bool tv_debug_has_watches(const tv_debug *d);

/* The lowest cycle of a cycle breakpoint from `from` on; UINT64_MAX: none. */
uint64_t tv_debug_next_break_cycle(const tv_debug *d, uint64_t from);

/* These return true and set *stop if a breakpoint stops the run here. `count`: update hit counts, honour `skip`. */
bool tv_debug_hit_here(tv_debug *d, bool count, tv_debug_stop *stop);
bool tv_debug_hit_cycle(tv_debug *d, uint64_t cycle, bool count, tv_debug_stop *stop);

/* Attributes a fault to the first enabled fault breakpoint, if any. */
void tv_debug_hit_fault(tv_debug *d, tv_debug_stop *stop);

/* Starts a new run as far as skipped hits are concerned. */
void tv_debug_reset_skipped(tv_debug *d);

/* ---- stalls.c ---- */

enum { DEBUG_STALLS_MAX = 64 };

typedef struct debug_stall {
    const char *reason, *engine;
    uint64_t from, to; /* cycles */
    int64_t waits_for; /* instruction number over all programs; negative: none */
    bool scheduler;    /* the scheduler stalled, not the engine */
} debug_stall;

/* Timing of one instruction. */
typedef struct debug_observation {
    unsigned program;
    int64_t index; /* instruction number over all programs */
    int64_t first; /* that of the program's first instruction */
    bool issued, faulted;
    char fault[200];     /* fault message */
    uint64_t start, end; /* cycles; valid if `issued` */
    debug_stall stalls[DEBUG_STALLS_MAX];
    unsigned count;
} debug_observation;

/* Executes the instruction at `position` while recording its stalls, then returns to the current position, including a
 * fault raised there. *arrived is false if the user interrupted the replay. No trace may be open. */
tv_status tv_debug_observe(tv_debug *d, uint64_t position, debug_observation *out, const tv_diag_sink *sink,
                           bool *arrived);

#endif
