/* SPDX-License-Identifier: Apache-2.0 */
/* The debugger from the inside: session.c makes it and moves it, history.c keeps snapshots and writes, run.c stops it,
 * breaks.c knows where, places.c names instructions; command.c and the verbs are what people type; dap.c is the
 * protocol of editors. */
#ifndef TV_DEBUG_DEBUG_H
#define TV_DEBUG_DEBUG_H

#include <jansson.h>

#include "base/buf.h"
#include "base/diag.h"
#include "trivet/codec.h"
#include "trivet/debug.h"

enum { DEBUG_BREAKS_MAX = 10000, DEBUG_SNAPSHOTS_MAX = 256, DEBUG_FILE_MAX = 1024 };

/* A write from outside, to be repeated at its position. */
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
    size_t writes; /* that have been done */
    tv_snapshot *state;
} debug_snapshot;

typedef enum debug_operator { DEBUG_EQ, DEBUG_NE, DEBUG_LT, DEBUG_LE, DEBUG_GT, DEBUG_GE } debug_operator;

typedef struct debug_break {
    tv_break info;
    char *text, *where, *condition; /* owned; what `info` points to */
    uint64_t passed;                /* where it was hit last without a stop, in this run: position + 1 */
    const char *space;              /* WATCH: the machine's name for it */
    uint64_t from, to;              /* WATCH: bytes of that space */
    /* condition */
    char cond_space[32];
    uint64_t cond_addr;
    tv_dtype cond_type;
    debug_operator cond_op;
    double cond_value;
} debug_break;

struct tv_debug {
    tv_debug_options options;
    tv_config *config;
    tv_machine *machine;
    tv_codec *codec; /* NULL: programs are not words */
    const tv_program **programs;
    unsigned count, program; /* programs, and the loaded one */
    uint64_t *base;          /* of each program that has been loaded: instructions before it */
    tv_debug_stop last;
    uint64_t goal; /* position before which a run stops in any case */

    debug_break *breaks;
    unsigned break_count, break_cap, next_number;
    uint64_t *marks; /* of the loaded program: bit per instruction that a breakpoint stands on */
    uint64_t mark_words;
    bool marked, ordered; /* `marks` are right; the machine works in the program's order */

    debug_write *writes;
    size_t write_count, write_cap, writes_done;
    debug_snapshot snapshots[DEBUG_SNAPSHOTS_MAX + 1];
    unsigned snapshot_count;
    double snapshot_cost, snapshot_time; /* seconds that the last took; when */

    tv_trace_writer *trace;
    char *trace_path;
    uint64_t clock_at, clock; /* the machine's clock is `clock` at position `clock_at`; UINT64_MAX: not known */
    tv_text_buffer line;      /* an instruction's text */
    char word_text[TV_CODEC_TEXT];
    unsigned depth; /* of scripts */
    struct {
        uint64_t position, next; /* where the machine stood, and what comes next */
        const char *file;
    } listed, disassembled; /* what `list` and `disas` have shown last; `next` 0: nothing */
};

/* session.c */
uint64_t debug_position(const tv_debug *d);
bool debug_at_end(const tv_debug *d);
uint64_t debug_clock(tv_debug *d);

/* Runs until `to`, the end of the loaded program, a fault or a cycle. When a program ends and there is another, that is
 * loaded and *why is TV_STOP_UNTIL. Writes of the history are repeated at their positions. */
tv_status debug_advance(tv_debug *d, uint64_t to, uint64_t max_cycles, const tv_diag_sink *sink, tv_stop_reason *why);

/* Makes the machine anew, before the first instruction. */
tv_status debug_reset(tv_debug *d, const tv_diag_sink *sink);
double debug_now(void);
bool debug_interrupted(tv_debug *d);

/* history.c */
void debug_remember(tv_debug *d); /* takes a snapshot when it is time */
tv_status debug_return(tv_debug *d, uint64_t position,
                       const tv_diag_sink *sink); /* to the last place at or before that is remembered */

/* To `position`, which has been passed; *there is false when it was interrupted on the way. The history stays. */
tv_status debug_travel(tv_debug *d, uint64_t position, const tv_diag_sink *sink, bool *there);
uint64_t debug_forget_future(tv_debug *d); /* drops writes that have not been done; returns how many */
void debug_history_fini(tv_debug *d);
uint64_t debug_history_bytes(const tv_debug *d);

/* breaks.c */
bool debug_mark(tv_debug *d); /* brings `marks` up to date; false: no memory */
uint64_t debug_next_mark(const tv_debug *d, uint64_t from,
                         uint64_t to); /* the first n from `from` on with a mark, or `to` */
bool debug_has_watches(const tv_debug *d);
uint64_t debug_next_cycle(tv_debug *d, uint64_t clock); /* of cycle breakpoints: the least above `clock` */
bool debug_hit_here(tv_debug *d, bool count, tv_debug_stop *stop);
bool debug_hit_cycle(tv_debug *d, uint64_t cycle, bool count, tv_debug_stop *stop);
void debug_hit_fault(tv_debug *d, tv_debug_stop *stop);
void debug_forget_passed(tv_debug *d); /* a run begins */
void debug_breaks_fini(tv_debug *d);

/* places.c */
bool debug_instruction_of(tv_debug *d, unsigned program, uint64_t index, tv_debug_location *out);
tv_status debug_parse_index(tv_debug *d, const char *text, const tv_diag_sink *sink,
                            uint64_t *index); /* number or label of the loaded program */
tv_status debug_parse_break(tv_debug *d, const char *text, char file[DEBUG_FILE_MAX], const tv_diag_sink *sink,
                            tv_break *out);
bool debug_parse_number(const char *text, uint64_t *out);
void debug_print_address(const tv_debug *d, const char *space, uint64_t addr, tv_buf *out); /* "spm:1:0x40" */
void debug_print_place(const tv_debug_location *place, tv_buf *out); /* "softmax+3 (softmax.s:41)" */

/* command.c and the verbs */
typedef struct debug_call {
    tv_debug *d;
    const tv_diag_sink *sink;
    char **words; /* behind the verb's name */
    unsigned count;
    const char *rest; /* all of them as they stand */
    const char *name; /* the verb's own */
    tv_buf *text;
    json_t *json; /* object to add to */
    char *repeat; /* what an empty line does next; owned; NULL: nothing */
    bool quit, stopped;
} debug_call;

typedef enum debug_values {
    DEBUG_NOTHING,
    DEBUG_PLACES,
    DEBUG_SPACES,
    DEBUG_TOPICS,
    DEBUG_NUMBERS,
    DEBUG_FILES,
    DEBUG_SWITCH,
    DEBUG_VERBS
} debug_values;

typedef enum debug_repeat { DEBUG_ONCE, DEBUG_AGAIN, DEBUG_GOES_ON } debug_repeat;

typedef struct debug_verb {
    const char *name, *aliases; /* separated by spaces */
    const char *arguments, *help;
    debug_values values; /* what its arguments are completed with */
    unsigned least, most;
    debug_repeat repeat; /* by an empty line: not, as it stands, or without its arguments */
    tv_status (*run)(debug_call *call);
} debug_verb;

extern const debug_verb debug_verbs[]; /* ends with a name of NULL */
const debug_verb *debug_verb_find(const char *name);
tv_status debug_fail_argument(debug_call *call, const char *hint, const char *format, ...) TV_PRINTF(3, 4);
void debug_tell_stop(tv_debug *d, const tv_debug_stop *stop, tv_buf *text, json_t *json);

tv_status debug_verb_break(debug_call *call), debug_verb_tbreak(debug_call *call), debug_verb_watch(debug_call *call),
    debug_verb_delete(debug_call *call), debug_verb_enable(debug_call *call), debug_verb_ignore(debug_call *call);
tv_status debug_verb_step(debug_call *call), debug_verb_continue(debug_call *call), debug_verb_until(debug_call *call),
    debug_verb_restart(debug_call *call), debug_verb_run(debug_call *call), debug_verb_back(debug_call *call),
    debug_verb_rcontinue(debug_call *call), debug_verb_where(debug_call *call), debug_verb_trace(debug_call *call);
tv_status debug_verb_info(debug_call *call);
tv_status debug_verb_x(debug_call *call), debug_verb_set(debug_call *call), debug_verb_print(debug_call *call);
tv_status debug_verb_disas(debug_call *call), debug_verb_list(debug_call *call), debug_verb_explain(debug_call *call),
    debug_verb_why(debug_call *call);
tv_status debug_verb_help(debug_call *call), debug_verb_source(debug_call *call), debug_verb_quit(debug_call *call);

extern const char *const debug_topics[];   /* of info; ends with NULL */
json_t *debug_json_text(const char *text); /* null for NULL, "?" for what is not UTF-8 */
tv_status debug_trace_end(tv_debug *d, const tv_diag_sink *sink);

/* A file of the program's line table as text; false: it cannot be read, or is no text that fits. */
bool debug_read_source(const char *file, tv_buf *out);
bool debug_is_file(const char *path); /* that can be read to its end: no folder, no device */

#endif
