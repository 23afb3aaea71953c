/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the trace reader, shared by its files: reader.c follows the structure of a document in JSON, and
 * read_packets.c that of Perfetto's packets. Both collect the members of one event at a time in slots (members.c);
 * event.c makes a tv_event of them; document.c has the sections around the events; parse.c reports errors. */
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
    VALUE_DEPTH_MAX = 60, /* of a captured value, which other forms have at other depths */
    METADATA_MAX = 16 << 20,
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
    S_MODE,
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
    S_NAME,
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
    bool has_packets;                /* packets are read; `base` is where the current one begins */

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

    const tv_json_value *metadata; /* of the current Chrome trace event: its value, or NULL … */
    uint64_t metadata_bytes;       /* … and the bytes of all such */

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

/* document.c. The document has a member `name`: sets r->section and r->section_name. end: with this value, which lives
 * as long as the reader. begin_events: what precedes the events is complete. finish_document: the whole document is.
 * Bools are false after an error, which is reported. */
bool tv_trace_begin_section(trace_reader *r, tv_sv name);
bool tv_trace_end_section(trace_reader *r, const tv_json_value *value);
bool tv_trace_begin_events(trace_reader *r);
tv_status tv_trace_finish_document(trace_reader *r);

/* members.c. An event begins: no slot has a value; the members that come are those of r->level, which is set to that of
 * r->section. */
void tv_trace_begin_event(trace_reader *r);
void tv_trace_reset_event_arena(trace_reader *r);

/* Fills in r->field_hash, once. */
void tv_trace_fill_field_hash(trace_reader *r);

/* The member `name` of r->level; NULL: this version does not know it. */
const field *tv_trace_find_field(const trace_reader *r, tv_sv name);

/* Whether its slot has a value already, which is reported. */
bool tv_trace_is_given(trace_reader *r, const field *f);

/* Give the slot of a member a value. */
bool tv_trace_fill_integer(trace_reader *r, const field *f, uint64_t value); /* below INTEGER_LIMIT */
bool tv_trace_fill_real(trace_reader *r, const field *f, double value);      /* finite */
bool tv_trace_fill_text(trace_reader *r, const field *f, tv_sv text);

/* event.c. Whether the Chrome trace event that comes may be one of metadata. */
bool tv_trace_may_be_metadata(const trace_reader *r);

/* event.c: handle the event or sample whose values have been collected; send_event: it is one of a machine. false stops
 * the reader. */
bool tv_trace_end_event(trace_reader *r);
bool tv_trace_send_event(trace_reader *r);
bool tv_trace_end_sample(trace_reader *r, const tv_json_value *object);
bool tv_trace_add_sample(trace_reader *r, const tv_trace_sample *sample);

#endif
