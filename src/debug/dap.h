/* SPDX-License-Identifier: Apache-2.0 */
/* The Debug Adapter Protocol, from the inside: dap.c frames messages and hands them out, dap_launch.c begins and runs, dap_break.c sets
 * breakpoints, dap_data.c shows what the machine holds. */
#ifndef TV_DEBUG_DAP_H
#define TV_DEBUG_DAP_H

#include "debug/debug.h"

enum { DAP_HEADER_MAX = 4096, DAP_BODY_MAX = 16 << 20, DAP_WAITING_MAX = 1000, DAP_THREAD = 1, DAP_FRAME = 1 };

/* Something that a client may look into, until the next run. */
typedef enum dap_node_kind { DAP_GROUP, DAP_ENGINES, DAP_ENGINE, DAP_SPACE, DAP_UNIT } dap_node_kind;
typedef struct dap_node {
    dap_node_kind kind;
    const char *group;   /* GROUP */
    unsigned index;      /* of the space or engine */
    uint64_t unit;       /* UNIT */
} dap_node;

/* Which request a breakpoint came from, so that the next one replaces it. */
typedef enum dap_source { DAP_LINES, DAP_LABELS, DAP_INSTRUCTIONS, DAP_DATA } dap_source;
typedef struct dap_breakpoint {
    dap_source source;
    char *file; /* LINES; owned */
    unsigned number;
} dap_breakpoint;

typedef struct dap {
    const tv_dap_io *io;
    const tv_diag_sink *sink;
    tv_buf in;          /* bytes that have come … */
    bool broken, ended; /* … but make no message; the client has said goodbye */
    json_t *waiting;    /* requests that came during a run and are not answered in one */
    json_int_t seq;

    tv_config *config;
    tv_program **programs;
    unsigned program_count;
    tv_debug *debug;    /* NULL: not launched */
    bool configured, begun, stop_on_entry, stop_on_end, running, pause, terminated;

    dap_node *nodes;
    size_t node_count, node_cap;
    dap_breakpoint *breakpoints;
    size_t breakpoint_count, breakpoint_cap;

    tv_buf said;        /* diagnostics of the request at hand */
} dap;

/* ---- dap.c ---- */

/* A request that was understood: the answer's body (taken; may be NULL). */
void dap_respond(dap *s, const json_t *request, json_t *body);
void dap_refuse(dap *s, const json_t *request, const char *message);
void dap_event(dap *s, const char *event, json_t *body);
tv_diag_sink dap_sink(dap *s);       /* into `said` */
const char *dap_said(dap *s);        /* what was told, and forgets it */
int dap_poll(void *user);            /* tv_debug_options.poll */

/* A member of the request's arguments, or what stands for it. */
const char *dap_text(const json_t *request, const char *key);
json_int_t dap_integer(const json_t *request, const char *key, json_int_t otherwise);
bool dap_true(const json_t *request, const char *key, bool otherwise);
json_t *dap_argument(const json_t *request, const char *key);

/* "0x1f" with an offset; false: no number. */
bool dap_reference(const char *text, json_int_t offset, int64_t *index);

typedef void dap_handler(dap *s, const json_t *request);

/* ---- dap_launch.c ---- */
dap_handler dap_initialize, dap_launch, dap_configuration_done, dap_threads, dap_stack_trace, dap_continue, dap_next, dap_step_back, dap_reverse_continue,
    dap_step_out, dap_pause, dap_restart, dap_evaluate, dap_completions, dap_disconnect, dap_terminate;
void dap_stopped(dap *s, const tv_debug_stop *stop);
void dap_close(dap *s);

/* ---- dap_break.c ---- */
dap_handler dap_set_breakpoints, dap_set_function_breakpoints, dap_set_instruction_breakpoints, dap_data_breakpoint_info, dap_set_data_breakpoints,
    dap_set_exception_breakpoints;
void dap_forget_breakpoints(dap *s);

/* ---- dap_data.c ---- */
dap_handler dap_scopes, dap_variables, dap_read_memory, dap_write_memory, dap_disassemble, dap_source_request;
bool dap_node_at(const dap *s, json_int_t reference, dap_node *out);
json_t *dap_source_json(const char *file);

#endif
