/* SPDX-License-Identifier: Apache-2.0 */
/* The command interpreter of the debugger.
 *
 * verbs.c has the table of verbs and executes command lines, scripts and completion on top of it. The verb_*.c files
 * implement the verbs, and do not know the table. call.c has what they share. Each verb writes the same result twice:
 * as text for people into call->text, and as members of the JSON object call->json. */
#ifndef TV_DEBUG_CONSOLE_CONSOLE_H
#define TV_DEBUG_CONSOLE_CONSOLE_H

#include "base/json_writer.h"
#include "debug/debug.h"

/* One execution of a command. */
typedef struct debug_call {
    tv_debug *d;
    const tv_diag_sink *sink;
    const char *name; /* full name of the verb */
    char **args;      /* the words after the verb */
    unsigned count;
    const char *rest; /* the unsplit text after the verb */
    tv_buf *text;
    tv_json_writer *json;
    char *repeat;       /* command that an empty line executes next; owned; NULL: none */
    bool quit, stopped; /* see tv_debug_answer */
} debug_call;

typedef tv_status debug_verb_function(debug_call *call);

/* Reports "NAME: message" as an invalid argument; `hint` may be NULL. Returns TV_ERR_INPUT. */
tv_status tv_debug_fail_argument(debug_call *call, const char *hint, const char *format, ...) TV_PRINTF(3, 4);

/* Writes the current location and the reason of `stop` to text and JSON. */
void tv_debug_write_stop(debug_call *call, const tv_debug_stop *stop);

/* ---- verb_break.c ---- */
debug_verb_function tv_debug_verb_break, tv_debug_verb_tbreak, tv_debug_verb_watch, tv_debug_verb_rwatch,
    tv_debug_verb_awatch, tv_debug_verb_delete, tv_debug_verb_disable, tv_debug_verb_enable, tv_debug_verb_ignore;

/* Lists all breakpoints, for `info break`. */
void tv_debug_write_breakpoints(debug_call *call);

/* ---- verb_run.c ---- */
debug_verb_function tv_debug_verb_step, tv_debug_verb_continue, tv_debug_verb_until, tv_debug_verb_restart,
    tv_debug_verb_run, tv_debug_verb_back, tv_debug_verb_rcontinue, tv_debug_verb_where, tv_debug_verb_trace;

/* ---- verb_info.c ---- */
debug_verb_function tv_debug_verb_info;
extern const char *const tv_debug_info_topics[]; /* terminated by NULL */

/* ---- verb_memory.c ---- */
debug_verb_function tv_debug_verb_x, tv_debug_verb_set;

/* Writes the elements of a range with their addresses. */
tv_status tv_debug_show_range(debug_call *call, const tv_range *r);

/* ---- verb_print.c ---- */
debug_verb_function tv_debug_verb_print, tv_debug_verb_display, tv_debug_verb_undisplay;

/* Writes the displays, if there are any, after a stop. */
void tv_debug_write_displays(debug_call *call);

/* ---- verb_list.c ---- */
debug_verb_function tv_debug_verb_disas, tv_debug_verb_list;

/* ---- verb_explain.c ---- */
debug_verb_function tv_debug_verb_explain, tv_debug_verb_why;

#endif
