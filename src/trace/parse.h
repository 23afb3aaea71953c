/* SPDX-License-Identifier: Apache-2.0 */
/* The reader from the inside: trace_reader.c hears the parser, keeps what stands around the events, and gathers an
 * event's values; trace_event.c makes events of them. */
#ifndef TV_TRACE_PARSE_H
#define TV_TRACE_PARSE_H

#include <yajl/yajl_parse.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "trace/reader.h"
#include "trivet/machine.h"

/* CAPTURE_MAX: of one part around the events, or of what an event has that is not known. LANES_MAX: names of engines.
 */
enum {
    CHUNK = 1 << 18,
    SILENT_MAX = 4 << 20,
    DEPTH_MAX = 64,
    CAPTURE_MAX = 1 << 20,
    TEXT_MAX = 1 << 16,
    LANES_MAX = 256,
    SAMPLES_MAX = 1 << 16,
    MEMBERS_MAX = 64
};

/* One past the largest cycle or amount, so that sums of two cannot overflow. */
static const uint64_t WHOLE_LIMIT = UINT64_C(1) << 62;

typedef enum slot {
    S_KIND,
    S_ENGINE,
    S_ENGINE_ID,
    S_INDEX,
    S_LAYER,
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

typedef enum level { L_EVENT, L_DETAILS, L_CHROME, L_ARGS } level;

typedef enum field_type { T_TEXT, T_TEXT_OR_NULL, T_WHOLE, T_WHOLE_OR_NULL, T_REAL, T_OBJECT } field_type;

typedef struct field {
    level level;
    const char *name;
    field_type type;
    slot slot;
} field;

/* A value that was given. A null is not. */
typedef struct slot_value {
    uint64_t whole;
    double real;
    size_t text; /* where it begins in `texts` */
} slot_value;

typedef enum part { P_EVENTS, P_CHROME, P_SAMPLES, P_RUN, P_CONFIG, P_SUMMARY, P_VERSION, P_OTHER, PARTS } part;

typedef enum state {
    BEFORE,  /* the object that is the file */
    TOP,     /* a name in it */
    LIST,    /* … its value, which is a list */
    EVENTS,  /* an element of a list of events */
    EVENT,   /* a name in an event */
    VALUE,   /* … its value */
    SAMPLES, /* an element of the bandwidth samples */
    CAPTURE, /* inside a value that is kept as text */
    AFTER,
} state;

typedef struct engine_lane {
    char *engine, *name;
    unsigned id;
} engine_lane;

typedef struct trace_reader {
    const char *path;
    const tv_trace_calls *calls;
    const tv_diag_sink *sink;
    yajl_handle parser;
    yajl_gen gen;     /* writes again what is captured */
    tv_arena arena;   /* of the file: the parts */
    tv_status status; /* of what has been reported */

    const uint8_t *chunk;
    bool heard;                      /* the parser has called in this chunk */
    uint64_t line, line_start, base; /* at the beginning of the chunk; offsets in the file */

    state state, after_capture;
    unsigned depth, capture_depth;
    part part;
    tv_buf *capture_to; /* extras of an event; NULL: a part */
    const char *part_name;
    uint32_t parts_given;
    bool begun;

    json_t *run, *config, *summary;
    const char *config_text, *run_text, *summary_text;
    const char *members[2 * MEMBERS_MAX];
    unsigned member_count;
    const char *engines[TV_ENGINES_MAX];
    unsigned engine_count;
    tv_trace_sample *samples; /* of Chrome trace events, where they may stand anywhere */
    unsigned sample_count, sample_room;

    uint8_t names[256]; /* hash table: number of the field + 1 */
    const field *field;
    level level;
    slot_value values[SLOTS];
    uint32_t given;
    tv_buf texts, more, more_details;
    engine_lane lanes[LANES_MAX];
    unsigned lane_count;
} trace_reader;

extern const field trace_fields[];

/* Reports at the place that the parser has reached; the first one only. Returns 0, so that a callback can return it. */
int trace_wrong(trace_reader *r, const tv_code *code, const char *hint, const char *format, ...) TV_PRINTF(4, 5);
int trace_no_memory(trace_reader *r);

/* trace_event.c: an event whose values have all been gathered; 0 stops the parser. */
int trace_event_end(trace_reader *r);
int trace_sample_end(trace_reader *r, const json_t *object);

#endif
