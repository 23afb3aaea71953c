/* SPDX-License-Identifier: Apache-2.0 */
/* The Debug Adapter Protocol, a session with one client.
 *
 * Files, lowest first: message.c writes responses and events and reads arguments; source.c has instructions and
 * sources; variables.c and memory.c show and change the machine's state; breakpoints.c sets breakpoints; run.c runs;
 * evaluate.c executes console commands; launch.c opens programs; dispatch.c has the table of requests and reads
 * messages. The session sees the console and the composition root only through dap_services. */
#ifndef TV_DEBUG_DAP_DAP_H
#define TV_DEBUG_DAP_DAP_H

#include "base/json_value.h"
#include "base/json_writer.h"
#include "base/vec.h"
#include "debug/dap/serve.h"
#include "debug/debug.h"

enum { DAP_THREAD = 1, DAP_FRAME = 1, DAP_REFERENCE_TEXT = 24 };

typedef tv_json_value dap_request;

/* An object that a client may expand until the next run; its reference is its index plus a base. */
typedef enum dap_node_kind { DAP_GROUP, DAP_ENGINES, DAP_ENGINE, DAP_SPACE, DAP_UNIT } dap_node_kind;
typedef struct dap_node {
    dap_node_kind kind;
    const char *group; /* DAP_GROUP */
    unsigned index;    /* of the space or engine */
    uint64_t unit;     /* DAP_UNIT */
} dap_node;

/* The request that set a breakpoint: the next request of its kind replaces it. */
typedef enum dap_origin { DAP_LINES, DAP_LABELS, DAP_INSTRUCTIONS, DAP_DATA } dap_origin;
typedef struct dap_breakpoint {
    dap_origin origin;
    char *file; /* DAP_LINES: the client's name for the file; owned */
    unsigned number;
} dap_breakpoint;

/* A received message. */
typedef struct dap_message {
    tv_arena arena; /* owns the tree */
    const dap_request *request;
} dap_message;

typedef struct dap {
    const tv_dap_io *io;
    const dap_services *services;
    const tv_diag_sink *sink;
    int (*poll)(void *user);     /* tv_debug_options.poll */
    tv_buf in;                   /* received bytes not yet parsed */
    bool broken;                 /* `in` does not follow the framing */
    bool ended;                  /* the client has disconnected */
    tv_status failed;            /* TV_ERR_MEMORY or TV_ERR_IO: the host failed, which ends the session */
    TV_VEC(dap_message) waiting; /* requests received during a run, to be handled after it */
    int64_t seq;
    unsigned first_line, first_column; /* 0 or 1, as the client counts */
    bool client_invalidates;           /* the client supports the event `invalidated` */

    tv_config *config;
    tv_program **programs;
    char **paths; /* of the programs, as in the launch request */
    unsigned program_count;
    char *directory; /* base of relative paths; NULL: the working directory */
    tv_debug *debug; /* NULL: not launched */
    bool configured, started, no_debug, stop_on_entry, stop_on_end, running, terminated;
    bool pause;        /* interrupt the run */
    bool evaluating;   /* the run is a console command */
    bool sent_running; /* … which takes long, so that the client was sent `continued` */

    TV_VEC(dap_node) nodes;
    int64_t node_base; /* lower references belong to earlier stops */
    TV_VEC(dap_breakpoint) breakpoints;

    tv_buf errors;         /* text of the first errors of the current request */
    unsigned error_count;  /* all of its errors */
    unsigned output_count; /* diagnostics sent to the client's console */
    bool launching;
} dap;

/* ---- message.c ---- */

/* A message being written; tv_dap_send ends it. Several may be open at a time. */
typedef struct dap_output {
    tv_buf text;
    tv_json_writer json;
} dap_output;

/* Start a message and its "body" object. */
tv_json_writer *tv_dap_begin_response(dap_output *out, const dap_request *request);
tv_json_writer *tv_dap_begin_event(dap_output *out, const char *event);

/* Ends body and message and sends it. */
void tv_dap_send(dap *s, dap_output *out);

/* Sends a response or an event without body. */
void tv_dap_respond(dap *s, const dap_request *request);
void tv_dap_send_event(dap *s, const char *event);

/* Sends an error response. */
void tv_dap_reject(dap *s, const dap_request *request, const char *message);

/* Sends text to the client's console. */
void tv_dap_send_output(dap *s, const char *category, const char *text);

/* A sink for the current request: errors go to `errors`, the rest to the client's console. */
tv_diag_sink tv_dap_sink(dap *s);

/* The collected errors as text, never empty. */
const char *tv_dap_error_text(dap *s);

/* Members of the request's "arguments"; NULL or the default if missing or of another type. */
const tv_json_value *tv_dap_argument(const dap_request *request, const char *key);
const char *tv_dap_string(const dap_request *request, const char *key);
int64_t tv_dap_integer(const dap_request *request, const char *key, int64_t default_value);
bool tv_dap_boolean(const dap_request *request, const char *key, bool default_value);

/* A string member of `object`; NULL if missing or empty. */
const char *tv_dap_nonempty(const tv_json_value *object, const char *key);

/* `path` relative to the launch's directory. The caller frees it. NULL: out of memory. */
char *tv_dap_resolve_path(const dap *s, const char *path);

/* The text of `buf`, for a message. Without memory for it the session ends, and the message is not sent. */
const char *tv_dap_text(dap *s, tv_buf *buf);

/* Ends the session if `error` says that the host failed. */
void tv_dap_check_host(dap *s, int error);

typedef void dap_handler(dap *s, const dap_request *request);

/* ---- source.c ---- */
dap_handler tv_dap_disassemble, tv_dap_source;

/* An instruction reference names a program and an index. */
void tv_dap_print_reference(unsigned program, uint64_t index, char text[DAP_REFERENCE_TEXT]);
bool tv_dap_parse_reference(const dap *s, const char *text, int64_t offset, unsigned *program, int64_t *index);

/* Writes the members "source" and "line" of a location if it has a source: its file, or if that is not readable the
 * generated listing of the program. Returns whether there is one. */
bool tv_dap_write_source(dap *s, const tv_debug_location *location, tv_json_writer *w);

/* True if `source` is the generated listing of a program. */
bool tv_dap_parse_listing(const dap *s, const tv_json_value *source, unsigned *program);

/* ---- variables.c ---- */
dap_handler tv_dap_scopes, tv_dap_variables, tv_dap_set_variable;
bool tv_dap_find_node(const dap *s, int64_t reference, dap_node *out);

/* Invalidates all references, because the machine has changed. They are not reused, so that a late request gets an
 * error and not another object. */
void tv_dap_drop_nodes(dap *s);

/* ---- memory.c ---- */
dap_handler tv_dap_read_memory, tv_dap_write_memory;

/* ---- breakpoints.c ---- */
dap_handler tv_dap_set_breakpoints, tv_dap_set_function_breakpoints, tv_dap_set_instruction_breakpoints,
    tv_dap_data_breakpoint_info, tv_dap_set_data_breakpoints, tv_dap_set_exception_breakpoints;
void tv_dap_breakpoints_fini(dap *s);

/* ---- run.c ---- */
dap_handler tv_dap_threads, tv_dap_stack_trace, tv_dap_exception_info, tv_dap_continue, tv_dap_next, tv_dap_step_back,
    tv_dap_reverse_continue, tv_dap_step_out, tv_dap_pause, tv_dap_restart;

/* Runs to the next stop without a request. */
void tv_dap_run(dap *s);
void tv_dap_send_stopped(dap *s, const tv_debug_stop *stop);
void tv_dap_send_terminated(dap *s);

/* ---- evaluate.c ---- */
dap_handler tv_dap_evaluate, tv_dap_completions;

/* ---- launch.c ---- */
dap_handler tv_dap_initialize, tv_dap_launch, tv_dap_configuration_done, tv_dap_disconnect, tv_dap_terminate;
void tv_dap_close_program(dap *s);

#endif
