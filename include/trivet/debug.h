/* SPDX-License-Identifier: Apache-2.0 */
/* A debugger for the programs of every machine: breakpoints, execution forwards and backwards, and a command language.
 *
 * A debugger owns a machine and runs programs on it one after another. Each run ends with a tv_debug_stop. Going back
 * restores a snapshot and executes again from there, with the same bits and cycles. A debugger belongs to one thread at
 * a time. */
#ifndef TRIVET_DEBUG_H
#define TRIVET_DEBUG_H

#include "trivet/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_debug tv_debug;

typedef struct tv_debug_options {
    size_t size; /* sizeof(tv_debug_options) */
    tv_mode mode;
    unsigned threads;           /* host threads; 0: 1 */
    uint64_t snapshot_memory;   /* bytes that snapshots may use; 0: 1 GiB */
    uint64_t snapshot_interval; /* instructions between snapshots; 0: chosen by elapsed time */
    int (*poll)(void *user);    /* called several times a second during a run; non-zero interrupts it. May be NULL. It
                                   may read the machine and change breakpoints, but not run anything */
    void *user;
} tv_debug_options;

/* Creates a debugger with its own machine of `config`, stopped before the first instruction of the first of the `count`
 * `programs` (at least one), which run one after another and are borrowed until tv_debug_free. `options` may be NULL.
 * The caller frees it with tv_debug_free. TV_ERR_INPUT: no program, one for another target, or a program that cannot be
 * loaded; TV_ERR_MEMORY. */
TV_API tv_status tv_debug_new(const tv_config *config, const tv_program *const *programs, unsigned count,
                              const tv_debug_options *options, const tv_diag_sink *sink, tv_debug **out);

/* Completes the file of the trace that a command has started, if it is still open. It is put in place with
 * `group`, which may be NULL: at once. TV_ERR_IO: the file could not be written and does not appear; TV_ERR_MEMORY. */
TV_API tv_status tv_debug_finish_trace(tv_debug *debug, tv_output_group *group, const tv_diag_sink *sink);

/* Ends such a trace; no file appears. */
TV_API void tv_debug_abandon_trace(tv_debug *debug);

/* Completes an open trace without a report of its failure, and frees `debug`, which may be NULL. */
TV_API void tv_debug_free(tv_debug *debug);

/* The debugger's machine, for inspection only. Any call that runs forwards or backwards may replace it. */
TV_API tv_machine *tv_debug_machine(const tv_debug *debug);

/* The loaded program. Valid as long as the caller keeps it. */
TV_API const tv_program *tv_debug_program(const tv_debug *debug);

/* Writes the `bytes` bytes of `data` to `space`, from unit `addr` on. `data` may be NULL when `bytes` is 0. The write
 * is part of the history: it is repeated when the run is repeated, and dropped by going back to before it.
 * TV_ERR_INPUT: unknown space, outside of it, or interrupted; TV_ERR_MEMORY; then nothing is written. */
TV_API tv_status tv_debug_write(tv_debug *debug, const char *space, uint64_t addr, const void *data, size_t bytes,
                                const tv_diag_sink *sink);

/* Fills memory from the file at `path` as tv_memory_fill does, with the programs of `debug`; `where` as there. The
 * write is one of tv_debug_write. TV_ERR_INPUT: as of these two; TV_ERR_IO; TV_ERR_MEMORY; then nothing is written. */
TV_API tv_status tv_debug_load(tv_debug *debug, const char *where, const char *path, const tv_diag_sink *sink);

/* ---- Locations ---- */

typedef struct tv_debug_location {
    uint64_t index;    /* of the next instruction in its program */
    uint64_t position; /* instructions executed, over all programs */
    unsigned program;  /* number of the program, from 0 on */
    int end;           /* there is no next instruction */
    const char *label; /* last label at or before it, or NULL … */
    uint64_t offset;   /* … and instructions from there */
    const char *file;  /* or NULL */
    unsigned line;
    const char *text; /* assembly; "" at the end */
} tv_debug_location;

/* Writes the current location to `out`. Its strings are valid until the next call for this debugger. */
TV_API void tv_debug_current_location(tv_debug *debug, tv_debug_location *out);

/* Location of instruction `index` of the loaded program. Returns 0 when there is none. Strings as above. */
TV_API int tv_debug_instruction_location(tv_debug *debug, uint64_t index, tv_debug_location *out);

/* ---- Running ---- */

typedef enum tv_debug_reason {
    TV_DEBUG_START,       /* nothing has run */
    TV_DEBUG_STEP,        /* the requested steps are done */
    TV_DEBUG_BREAKPOINT,  /* number `breakpoint` */
    TV_DEBUG_WATCH,       /* the next instruction will make the access `access`; number `breakpoint` */
    TV_DEBUG_FAULT,       /* see tv_machine_fault */
    TV_DEBUG_END,         /* the last program has ended */
    TV_DEBUG_BEGINNING,   /* backwards: reached the start of the history */
    TV_DEBUG_INTERRUPTED, /* by tv_debug_options.poll */
} tv_debug_reason;

enum { TV_DEBUG_HITS_MAX = 16 };

/* `breakpoint` is hits[0], or 0 when the run stopped for another reason. */
typedef struct tv_debug_stop {
    tv_debug_reason reason;
    unsigned breakpoint;
    tv_access access;                 /* valid if `watchpoint` is not 0 */
    uint64_t dropped_writes;          /* of tv_debug_write, by going back to before them */
    unsigned watchpoint;              /* the number of the first watchpoint hit; 0: none */
    unsigned hit_count;               /* breakpoints and watchpoints hit here, at most TV_DEBUG_HITS_MAX in `hits` */
    unsigned hits[TV_DEBUG_HITS_MAX]; /* their numbers, breakpoints first */
} tv_debug_stop;

/* Name of `reason`: "breakpoint", "end" and so on. Static string. */
TV_API const char *tv_debug_reason_name(tv_debug_reason reason);

/* Runs `count` instructions, or fewer up to a breakpoint, a fault or the end. `stop` receives why it stopped; a fault
 * is TV_OK, too. TV_ERR_INPUT: a program cannot be loaded; TV_ERR_MEMORY. On error `stop` is unspecified. */
TV_API tv_status tv_debug_step(tv_debug *debug, uint64_t count, const tv_diag_sink *sink, tv_debug_stop *stop);

/* Runs up to a breakpoint, a fault or the end; `stop` and errors as for tv_debug_step: TV_ERR_INPUT, TV_ERR_MEMORY. */
TV_API tv_status tv_debug_continue(tv_debug *debug, const tv_diag_sink *sink, tv_debug_stop *stop);

/* Goes back `count` instructions, or to the beginning. `stop` receives why it stopped. TV_ERR_INPUT: a trace is being
 * written; TV_ERR_MEMORY. On error `stop` is unspecified. */
TV_API tv_status tv_debug_step_back(tv_debug *debug, uint64_t count, const tv_diag_sink *sink, tv_debug_stop *stop);

/* Goes back to the previous breakpoint, or to the beginning. `stop` and errors as for tv_debug_step_back: TV_ERR_INPUT,
 * TV_ERR_MEMORY. */
TV_API tv_status tv_debug_reverse_continue(tv_debug *debug, const tv_diag_sink *sink, tv_debug_stop *stop);

/* Goes back to the beginning. `stop` and errors as for tv_debug_step_back: TV_ERR_INPUT, TV_ERR_MEMORY. */
TV_API tv_status tv_debug_restart(tv_debug *debug, const tv_diag_sink *sink, tv_debug_stop *stop);

/* Why the debugger last stopped. */
TV_API tv_debug_stop tv_debug_last_stop(const tv_debug *debug);

/* ---- Breakpoints ---- */

typedef enum tv_break_kind {
    TV_BREAK_INDEX,  /* instruction `value` of program `program` */
    TV_BREAK_LINE,   /* line `value` of file `text` */
    TV_BREAK_OPCODE, /* every instruction whose mnemonic is `text` */
    TV_BREAK_CYCLE,  /* the first instruction that would issue at cycle `value` or later */
    TV_BREAK_FAULT,
    TV_BREAK_WATCH, /* accesses to `bytes` bytes of space `text`, from unit `value` on */
} tv_break_kind;

typedef struct tv_break {
    unsigned number; /* assigned by tv_debug_break_add */
    tv_break_kind kind;
    const char *text;
    uint64_t value, bytes;
    unsigned program;
    int reads, writes; /* WATCH */
    int once, disabled;
    const char *where;     /* text of the request, for messages, or NULL */
    const char *condition; /* "SPACE:ADDR[:TYPE] OP NUMBER", or NULL */
    uint64_t skip;         /* hits that pass before one stops; going back stops at each hit */
    uint64_t hits;         /* including those that passed */
} tv_break;

/* Adds a copy of `breakpoint` and its strings; `number` receives its number. TV_ERR_INPUT: no such location, a
 * malformed condition, or too many breakpoints; TV_ERR_MEMORY. */
TV_API tv_status tv_debug_break_add(tv_debug *debug, const tv_break *breakpoint, const tv_diag_sink *sink,
                                    unsigned *number);

/* Breakpoint `i` in the order of their numbers. Its strings are valid until it is deleted. Returns 0 past the last. */
TV_API int tv_debug_break_at(const tv_debug *debug, unsigned i, tv_break *out);

/* Deletes breakpoint `number`. TV_ERR_INPUT: there is none. */
TV_API tv_status tv_debug_break_delete(tv_debug *debug, unsigned number, const tv_diag_sink *sink);

/* Enables breakpoint `number` when `on` is non-zero, otherwise disables it. TV_ERR_INPUT: there is none. */
TV_API tv_status tv_debug_break_enable(tv_debug *debug, unsigned number, int on, const tv_diag_sink *sink);

/* Lets the next `skip` hits of breakpoint `number` pass. TV_ERR_INPUT: there is none. */
TV_API tv_status tv_debug_break_skip(tv_debug *debug, unsigned number, uint64_t skip, const tv_diag_sink *sink);

/* Finds the first instruction at or after line `line` of the source file whose path ends with `file`. `line` becomes
 * that of the instruction, `program` the number of its program and `index` its index there. Returns 0 when there is
 * none; then they are unchanged. */
TV_API int tv_debug_find_line(const tv_debug *debug, const char *file, unsigned *line, unsigned *program,
                              uint64_t *index);

/* ---- Commands ---- */

/* The answer to a command, as text and as one line of JSON. */
typedef struct tv_debug_answer {
    char *text, *json; /* NULL: out of memory */
    char *repeat;      /* command that an empty line executes next, or NULL */
    int quit;          /* the user asked to leave */
    int stopped;       /* the command ran forwards or backwards */
} tv_debug_answer;

/* Executes the debugger command `line`; the command "help" lists all. Diagnostics go to `sink` and into the JSON.
 * `answer` is written whatever the status; the caller frees it with tv_debug_answer_free. TV_ERR_INPUT: unknown command
 * or invalid arguments; TV_ERR_IO: a file; TV_ERR_MEMORY. */
TV_API tv_status tv_debug_command(tv_debug *debug, const char *line, const tv_diag_sink *sink, tv_debug_answer *answer);

/* Frees the strings of `answer` and zeroes it; a zeroed one is fine. */
TV_API void tv_debug_answer_free(tv_debug_answer *answer);

/* Completions of the last word of `line`, one a line. Returns a heap string that the caller frees with free(), or NULL
 * when out of memory. */
TV_API char *tv_debug_complete(tv_debug *debug, const char *line);

/* Describes `stop` and the current location in `answer`, which the caller frees with tv_debug_answer_free. */
TV_API void tv_debug_describe_stop(tv_debug *debug, const tv_debug_stop *stop, tv_debug_answer *answer);

/* ---- Debug Adapter Protocol ---- */

#define TV_DAP_CLOSED SIZE_MAX /* the client has closed its end: the session ends */

/* Connection to a client. `write` sends `size` bytes. `read` receives up to `size` bytes and returns their number; 0
 * when there are none now or, if `wait` is non-zero, no more; or TV_DAP_CLOSED. */
typedef struct tv_dap_io {
    void (*write)(void *user, const void *bytes, size_t size);
    size_t (*read)(void *user, void *bytes, size_t size, int wait);
    void *user;
} tv_dap_io;

/* Serves one client over `io` until it ends the session. TV_ERR_INPUT: the input is not the protocol; TV_ERR_MEMORY. */
TV_API tv_status tv_dap_serve(const tv_dap_io *io, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
