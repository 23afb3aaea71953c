/* SPDX-License-Identifier: Apache-2.0 */
/* The Debug Adapter Protocol, from the inside: dap.c frames messages and hands them out, dap_launch.c begins and runs,
 * dap_break.c sets breakpoints, dap_data.c shows what the machine holds, dap_source.c its instructions and where they
 * were written. */
#ifndef TV_DEBUG_DAP_DAP_H
#define TV_DEBUG_DAP_DAP_H

#include "debug/debug.h"

enum {
    DAP_HEADER_MAX = 4096,
    DAP_BODY_MAX = 16 << 20,
    DAP_WAITING_MAX = 1000,
    DAP_THREAD = 1,
    DAP_FRAME = 1,
    DAP_REFERENCE_TEXT = 24
};

/* Something that a client may look into, until the next run. */
typedef enum dap_node_kind { DAP_GROUP, DAP_ENGINES, DAP_ENGINE, DAP_SPACE, DAP_UNIT } dap_node_kind;
typedef struct dap_node {
    dap_node_kind kind;
    const char *group; /* GROUP */
    unsigned index;    /* of the space or engine */
    uint64_t unit;     /* UNIT */
} dap_node;

/* Which request a breakpoint came from, so that the next one replaces it. */
typedef enum dap_source { DAP_LINES, DAP_LABELS, DAP_INSTRUCTIONS, DAP_DATA } dap_source;
typedef struct dap_breakpoint {
    dap_source source;
    char *file; /* LINES: as the client calls it; owned */
    unsigned number;
} dap_breakpoint;

typedef struct dap {
    const tv_dap_io *io;
    const tv_diag_sink *sink;
    tv_buf in;          /* bytes that have come … */
    bool broken, ended; /* … but make no message; the client has gone */
    json_t *waiting;    /* requests that came during a run and are not answered in one */
    json_int_t seq;
    unsigned first_line, first_column; /* as the client counts */
    bool takes_invalidated;            /* it wants to know that a command may have changed what it shows */

    tv_config *config;
    tv_program **programs;
    unsigned program_count;
    json_t *paths;   /* of the programs, as they were launched */
    char *folder;    /* that relative paths begin in, or NULL */
    tv_debug *debug; /* NULL: not launched */
    bool configured, begun, no_debug, stop_on_entry, stop_on_end, running, pause, terminated;
    bool evaluating, told_running; /* a command of the console; it takes so long that the client was told */

    dap_node *nodes;
    size_t node_count, node_cap;
    json_int_t node_base; /* references up to this are of earlier stops */
    dap_breakpoint *breakpoints;
    size_t breakpoint_count, breakpoint_cap;

    tv_buf said;              /* errors of the request at hand, the first of them */
    unsigned errors, outputs; /* how many there were; what went to the console */
    bool launching;
} dap;

/* ---- dap.c ---- */

/* A request that was understood: the answer's body (taken; may be NULL). */
void dap_respond(dap *s, const json_t *request, json_t *body);
void dap_refuse(dap *s, const json_t *request, const char *message);
void dap_event(dap *s, const char *event, json_t *body);
tv_diag_sink dap_sink(dap *s); /* into `said` */
const char *dap_said(dap *s);  /* what was told */
int dap_poll(void *user);      /* tv_debug_options.poll */

/* A member of the request's arguments, or what stands for it. */
const char *dap_text(const json_t *request, const char *key);
json_int_t dap_integer(const json_t *request, const char *key, json_int_t otherwise);
bool dap_true(const json_t *request, const char *key, bool otherwise);
json_t *dap_argument(const json_t *request, const char *key);

typedef void dap_handler(dap *s, const json_t *request);

/* ---- dap_launch.c ---- */
dap_handler dap_initialize, dap_launch, dap_exception_info, dap_configuration_done, dap_threads, dap_stack_trace,
    dap_continue, dap_next, dap_step_back, dap_reverse_continue, dap_step_out, dap_pause, dap_restart, dap_evaluate,
    dap_completions, dap_disconnect, dap_terminate;
void dap_stopped(dap *s, const tv_debug_stop *stop);
void dap_close(dap *s);
char *dap_path(const dap *s, const char *path); /* within the launch's folder; heap; NULL: no memory */

/* ---- dap_break.c ---- */
dap_handler dap_set_breakpoints, dap_set_function_breakpoints, dap_set_instruction_breakpoints,
    dap_data_breakpoint_info, dap_set_data_breakpoints, dap_set_exception_breakpoints;
void dap_forget_breakpoints(dap *s);

/* ---- dap_data.c ---- */
dap_handler dap_scopes, dap_variables, dap_set_variable, dap_read_memory, dap_write_memory;
bool dap_node_at(const dap *s, json_int_t reference, dap_node *out);
void dap_forget_nodes(dap *s); /* the machine has moved */

/* ---- dap_source.c ---- */
dap_handler dap_disassemble, dap_source_request;

/* An instruction as clients name it: a number of its program and its index. */
void dap_print_reference(unsigned program, uint64_t index, char text[DAP_REFERENCE_TEXT]);
bool dap_reference(const dap *s, const char *text, json_int_t offset, unsigned *program, int64_t *index);

/* The source of a place and its line as the client counts: the file that it was written in, or, where that cannot be
 * read, the list of the program's instructions. NULL: neither. */
json_t *dap_place_source(const dap *s, const tv_debug_location *place, json_int_t *line);
bool dap_listed_program(const dap *s, const json_t *source, unsigned *program); /* whose instructions `source` lists */

#endif
