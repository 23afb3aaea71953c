/* SPDX-License-Identifier: Apache-2.0 */
/* A debugger for the programs of every machine: breakpoints, stepping forwards and backwards, and the commands that
 * people type.
 *
 * A debugger owns a machine and runs programs on it one after another. What it stopped for is a tv_debug_stop. Going
 * back restores a snapshot and runs again from there, with the same bits and cycles. It belongs to one thread at a
 * time. */
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
    unsigned threads;           /* 0: one */
    uint64_t snapshot_memory;   /* bytes that snapshots may take; 0: 1 GiB */
    uint64_t snapshot_interval; /* instructions from snapshot to snapshot; 0: as time allows */
    int (*poll)(void *user);    /* asked some times a second during a run: not 0 interrupts it. May be NULL. It may read
                                   the machine and change  breakpoints, but not run anything */
    void *user;
} tv_debug_options;

/* A debugger before the first instruction of the first of `count` programs (at least one), which are borrowed until
 * tv_debug_free. `options` may be NULL. The caller frees it. */
TV_API tv_status tv_debug_new(const tv_config *config, const tv_program *const *programs, unsigned count,
                              const tv_debug_options *options, const tv_diag_sink *sink, tv_debug **out);
TV_API void tv_debug_free(tv_debug *debug);

/* Its machine, to be looked at. Another one may stand there after any call that runs or goes back. */
TV_API tv_machine *tv_debug_machine(const tv_debug *debug);
TV_API const tv_program *tv_debug_program(const tv_debug *debug); /* the loaded one */

/* Writes to a space, and again whenever the run is repeated. Writes after a place are dropped by going back before it.
 */
TV_API tv_status tv_debug_write(tv_debug *debug, const char *space, uint64_t addr, const void *data, size_t bytes,
                                const tv_diag_sink *sink);

/* The same from a file, to a place as tv_machine_parse_address takes it. */
TV_API tv_status tv_debug_load(tv_debug *debug, const char *where, const char *path, const tv_diag_sink *sink);

/* ---- Where it stands ---- */

typedef struct tv_debug_location {
    uint64_t index;    /* of the next instruction in its program */
    uint64_t position; /* instructions executed, over all programs */
    unsigned program;  /* which of them */
    int end;           /* there is no next instruction */
    const char *label; /* or NULL … */
    uint64_t offset;   /* … and how far behind it */
    const char *file;  /* or NULL */
    unsigned line;
    const char *text; /* its assembly; "" at the end; until the next call for this debugger */
} tv_debug_location;
TV_API void tv_debug_current_location(tv_debug *debug, tv_debug_location *out);

/* The same of any instruction of the loaded program; 0: there is none. `text` is as above. */
TV_API int tv_debug_instruction_location(tv_debug *debug, uint64_t index, tv_debug_location *out);

/* ---- Running ---- */

typedef enum tv_debug_reason {
    TV_DEBUG_START,       /* nothing has run */
    TV_DEBUG_STEP,        /* the steps asked for are done */
    TV_DEBUG_BREAKPOINT,  /* `breakpoint` says which */
    TV_DEBUG_WATCH,       /* the next instruction will read or write `access`; `breakpoint` says who asked */
    TV_DEBUG_FAULT,       /* see tv_machine_fault */
    TV_DEBUG_END,         /* the last program has ended */
    TV_DEBUG_BEGINNING,   /* there is nothing further back */
    TV_DEBUG_INTERRUPTED, /* tv_debug_options.poll said so */
} tv_debug_reason;

typedef struct tv_debug_stop {
    tv_debug_reason reason;
    unsigned breakpoint;
    tv_access access;
    uint64_t dropped_writes; /* writes that going back has dropped */
} tv_debug_stop;

/* "breakpoint", "end" and so on; static. */
TV_API const char *tv_debug_reason_name(tv_debug_reason reason);

/* All of them return TV_OK when the debugger has stopped somewhere, a fault included. */
TV_API tv_status tv_debug_step(tv_debug *debug, uint64_t count, const tv_diag_sink *sink, tv_debug_stop *stop);
TV_API tv_status tv_debug_continue(tv_debug *debug, const tv_diag_sink *sink, tv_debug_stop *stop);
TV_API tv_status tv_debug_step_back(tv_debug *debug, uint64_t count, const tv_diag_sink *sink, tv_debug_stop *stop);
TV_API tv_status tv_debug_reverse_continue(tv_debug *debug, const tv_diag_sink *sink,
                                           tv_debug_stop *stop); /* to the breakpoint before */
TV_API tv_status tv_debug_restart(tv_debug *debug, const tv_diag_sink *sink, tv_debug_stop *stop);
TV_API tv_debug_stop tv_debug_last_stop(const tv_debug *debug);

/* ---- Breakpoints ---- */

typedef enum tv_break_kind {
    TV_BREAK_INDEX,  /* `value` is an instruction of program `program` */
    TV_BREAK_LINE,   /* line `value` of `text` */
    TV_BREAK_OPCODE, /* every instruction whose mnemonic is `text` */
    TV_BREAK_CYCLE,  /* before the first instruction that would issue at cycle `value` or later */
    TV_BREAK_FAULT,
    TV_BREAK_WATCH, /* what reads or writes `bytes` bytes of space `text` from unit `value` on */
} tv_break_kind;

typedef struct tv_break {
    unsigned number; /* given by tv_debug_break_add */
    tv_break_kind kind;
    const char *text;
    uint64_t value, bytes;
    unsigned program;
    int reads, writes; /* WATCH */
    int once, disabled;
    const char *where;     /* as it was asked for, or NULL */
    const char *condition; /* "SPACE:ADDR[:TYPE] OP NUMBER", or NULL */
    uint64_t skip;         /* so many hits pass before one stops; going back stops at each */
    uint64_t hits;         /* those that passed, too */
} tv_break;

/* Strings are copied. TV_ERR_INPUT: no such place, or a condition that cannot be read. */
TV_API tv_status tv_debug_break_add(tv_debug *debug, const tv_break *wanted, const tv_diag_sink *sink,
                                    unsigned *number);
TV_API int tv_debug_break_at(const tv_debug *debug, unsigned i,
                             tv_break *out); /* in the order of the numbers; 0 past the last */
TV_API tv_status tv_debug_break_delete(tv_debug *debug, unsigned number, const tv_diag_sink *sink);
TV_API tv_status tv_debug_break_enable(tv_debug *debug, unsigned number, int on, const tv_diag_sink *sink);
TV_API tv_status tv_debug_break_skip(tv_debug *debug, unsigned number, uint64_t skip, const tv_diag_sink *sink);

/* The first instruction at or behind line `line` of `file`, whose ending suffices; *line becomes the instruction's. */
TV_API int tv_debug_find_line(const tv_debug *debug, const char *file, unsigned *line, unsigned *program,
                              uint64_t *index);

/* ---- Commands ---- */

/* What a command has to say: text for a person, and the same as one line of JSON. */
typedef struct tv_debug_answer {
    char *text, *json; /* or NULL: no memory */
    char *repeat;      /* what an empty line does after it, or NULL: nothing */
    int quit;          /* the person wants to leave */
    int stopped;       /* the command has run something or gone back */
} tv_debug_answer;

/* Does what a line of text asks for; `help` lists what that can be. Diagnostics go to `sink`, and into the JSON. An
 * answer is there whatever is returned; the caller frees it with tv_debug_answer_free. */
TV_API tv_status tv_debug_command(tv_debug *debug, const char *line, const tv_diag_sink *sink, tv_debug_answer *answer);
TV_API void tv_debug_answer_free(tv_debug_answer *answer);

/* What the last word of `line` can become, one a line; heap string, the caller frees it; NULL: no memory. */
TV_API char *tv_debug_complete(tv_debug *debug, const char *line);

/* Where it has stopped, as `answer`. */
TV_API void tv_debug_describe_stop(tv_debug *debug, const tv_debug_stop *stop, tv_debug_answer *answer);

/* ---- Debug Adapter Protocol ---- */

#define TV_DAP_CLOSED SIZE_MAX /* nobody hears the answers any more: the conversation and what runs end */

typedef struct tv_dap_io {
    void (*write)(void *user, const void *bytes, size_t size); /* towards the client */
    size_t (*read)(void *user, void *bytes, size_t size,
                   int wait); /* from it; 0: nothing now, or (`wait`) no more; or TV_DAP_CLOSED */
    void *user;
} tv_dap_io;

/* Speaks the protocol until the client ends it. TV_ERR_INPUT: what came is not the protocol; `sink` knows more. */
TV_API tv_status tv_dap_serve(const tv_dap_io *io, const tv_diag_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
