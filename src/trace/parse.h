/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the trace reader, shared by its files: reader.c follows the structure of the document and collects the
 * members of one event at a time in slots; event.c makes a tv_event of them; parse.c reports errors. */
#ifndef TV_TRACE_PARSE_H
#define TV_TRACE_PARSE_H

#include "base/buf.h"
#include "base/diag.h"
#include "base/json_reader.h"
#include "base/vec.h"
#include "trace/handler.h"
#include "trivet/machine.h"

/* CAPTURE_MAX: bytes of text of one section besides the events, or of the unknown members of one event.
 * CAPTURE_TREE_MAX: the same as a tree. LANES_MAX: engine names. */
enum {
    CHUNK = 1 << 18,
    TOKEN_MAX = 4 << 20,
    DEPTH_MAX = 64,
    CAPTURE_MAX = 1 << 20,
    CAPTURE_TREE_MAX = 64 << 20,
    TEXT_MAX = 1 << 16,
    LANES_MAX = 256,
    SAMPLES_MAX = 1 << 16,
    MEMBERS_MAX = 64,
    FIELD_HASH = 256
};

/* One more than the largest cycle or amount, so that the sum of two cannot overflow. */
static const uint64_t INTEGER_LIMIT = UINT64_C(1) << 62;

typedef enum slot {
    S_KIND,
    S_ENGINE,
    S_ENGINE_ID,
    S_INDEX,
    S_LAYER,
    S_ROLE,
    S_OP,
    S_START,
    S_END,
    S_DETAILS,
    S_BYTES,
    S_MACS,
    S_ROUTE_IN,
    S_ROUTE_OUT,
    S_TOKENS,
    S_REASON,
    S_WAITS_FOR,
    S_FILE,
    S_LINE,
    S_PHASE,
    S_CYCLE,
    S_WINDOW,
    S_STALLED,
    S_POSITION,
    S_READ,
    S_WRITE,
    SLOTS
} slot;

_Static_assert(SLOTS <= 32, "trace_reader.given has a bit for each slot");

/* The object that a field is a member of. */
typedef enum level { L_EVENT, L_DETAILS, L_CHROME, L_ARGS } level;

typedef enum field_type { T_TEXT, T_TEXT_OR_NULL, T_INTEGER, T_INTEGER_OR_NULL, T_REAL, T_OBJECT } field_type;

typedef struct field {
    level level;
    tv_sv name;
    field_type type;
    slot slot;
} field;

typedef struct slot_value {
    uint64_t integer;
    double real;
    size_t text; /* offset in trace_reader.texts */
} slot_value;

/* The members of the document. */
typedef enum section {
    SECTION_EVENTS,
    SECTION_CHROME,
    SECTION_SAMPLES,
    SECTION_RUN,
    SECTION_CONFIG,
    SECTION_SUMMARY,
    SECTION_VERSION,
    SECTION_TIME_UNIT, /* of Chrome trace events; ignored */
    SECTION_UNKNOWN,
    SECTIONS
} section;

typedef enum state {
    BEFORE,  /* before the document's object */
    TOP,     /* a key of it */
    LIST,    /* … its value, which is an array */
    EVENTS,  /* an element of an array of events */
    EVENT,   /* a key of an event */
    VALUE,   /* … its value */
    SAMPLES, /* an element of the bandwidth samples */
    CAPTURE, /* inside a value that a builder makes a tree of */
    SKIP,    /* inside a value that is ignored */
    AFTER,   /* after the document's object */
} state;

typedef struct engine_lane {
    char *engine, *name;
    unsigned id;
} engine_lane;

typedef struct trace_reader {
    const char *path;
    const tv_trace_handler *handler;
    const tv_diag_sink *sink;
    tv_json_reader json;
    tv_arena arena;       /* trees of the sections; names of lanes */
    tv_arena event_arena; /* trees of the current event or sample */
    tv_status status;     /* of the first error reported */

    const uint8_t *chunk;
    uint64_t line, line_start, base; /* at the beginning of the chunk; offsets in the document */

    state state, after_value; /* after_value: the state after CAPTURE or SKIP */
    unsigned depth, outer_depth;
    section section;
    const char *section_name;
    uint32_t sections_given;
    bool begun;

    tv_json_builder *builder; /* of CAPTURE: one of these */
    tv_json_builder value, members, details;
    uint64_t capture_offset; /* where CAPTURE began */
    uint64_t captured;       /* bytes of earlier unknown members of the event */

    const tv_json_value *run, *config, *summary;
    const tv_json_value *unknown[MEMBERS_MAX];
    const char *unknown_names[MEMBERS_MAX];
    unsigned unknown_count;
    const char *engines[TV_ENGINES_MAX];
    unsigned engine_count;
    TV_VEC(tv_trace_sample) samples; /* those of Chrome trace events, which may come between events */

    uint8_t field_hash[FIELD_HASH]; /* index in trace_fields + 1 */
    const field *field;
    level level;
    slot_value values[SLOTS];
    uint32_t given; /* bit s: slot s has a value other than null */
    tv_buf texts;
    engine_lane lanes[LANES_MAX];
    unsigned lane_count;
} trace_reader;

/* parse.c. Both report the first error only and return false, so that a handler can return them. */
bool tv_trace_error(trace_reader *r, const tv_code *code, const char *hint, const char *format, ...) TV_PRINTF(4, 5);
bool tv_trace_no_memory(trace_reader *r);

/* A builder of unknown members could not go on. */
bool tv_trace_builder_error(trace_reader *r, const tv_json_builder *builder);

/* event.c: handle the event or sample whose values have been collected. false stops the reader. */
bool tv_trace_end_event(trace_reader *r);
bool tv_trace_end_sample(trace_reader *r, const tv_json_value *object);

#endif
