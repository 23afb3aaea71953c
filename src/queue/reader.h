/* SPDX-License-Identifier: Apache-2.0 */
/* The reader from the inside: reader.c hears the parser's events and gathers an entry's fields; fast_path.c gathers
 * those of plain entries without it; entry.c checks them against the opcode table and stores them. */
#ifndef TV_QUEUE_READER_H
#define TV_QUEUE_READER_H

#include <yajl/yajl_parse.h>

#include "queue/queue.h"

enum {
    ERRORS_MAX = 100,
    DEPTH_MAX = 64,
    FIELD_VALUES_MAX = 2 * CMDQ_FIELDS /* as field and as member */,
    CHUNK = 1 << 20,
    TOKEN_MAX = 64 << 20,
    NAME_SLOTS = 256
};

_Static_assert(FIELD_VALUES_MAX <= UINT8_MAX, "`where` and `follows` hold bytes");

/* What the next event belongs to. */
typedef enum state {
    STATE_FILE, /* a value of the file: the object with everything, or the metadata of JSON Lines, or an entry of them
                 */
    STATE_TOP_KEY,     /* a key of the object with everything */
    STATE_TOP_VALUE,   /* … and its value */
    STATE_ENTRIES,     /* an entry of the list */
    STATE_ENTRY_KEY,   /* a key of an entry */
    STATE_ENTRY_VALUE, /* … and its value */
    STATE_IDS,         /* an element of a list of ids */
    STATE_MEMBER_KEY,  /* a key of kv_range_desc */
    STATE_MEMBER_VALUE,
    STATE_SKIP, /* inside a value that is not looked at */
    STATE_END,
} state;

typedef enum value_kind {
    VALUE_NULL,
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_IDS,
    VALUE_OBJECT
} value_kind;

/* A field of the entry that is being gathered. */
typedef struct field_value {
    uint16_t name; /* first field of that name */
    uint8_t kind;  /* value_kind */
    bool member;
    bool huge; /* INTEGER: past 63 bits */
    int64_t integer;
    double real;
    uint32_t text;  /* number of the text; IDS: where they begin in `ids` */
    uint32_t count; /* IDS */
    uint64_t at;    /* where in the file */
} field_value;

/* A field's name as words, to compare it at one stroke. */
typedef struct fast_name {
    uint64_t text[2], mask[2];
    unsigned length;
} fast_name;

typedef struct reader {
    const char *path;
    const uint8_t *data;
    uint64_t size;
    const tv_diag_sink *sink;
    tv_program *program;
    cmdq_queue *queue;
    yajl_handle parser;
    unsigned errors;
    bool stopped;
    uint64_t chunk_at;        /* of the chunk that the parser has */
    uint64_t slow_path_bytes; /* bytes that the parser got since something was scanned */
    bool had_event;           /* the parser has called in this chunk */
    bool slow_path_only;      /* the parser gets everything */
    bool in_string, escaped;  /* byte `base` is inside a string; it follows a backslash there */
    bool at_entry_end;        /* a brace before byte `base` closes what may be an entry */
    state state, after_skip;
    unsigned depth, skip_depth;
    bool is_metadata; /* what is skipped are the metadata */
    bool has_metadata, has_entries, in_cmdq;
    uint64_t skip_from; /* of the value that is skipped, or its key */
    unsigned metadata_line;
    uint64_t lines_counted_to; /* lines are counted to here */
    unsigned line;             /* … and this is its number, from 1 */
    uint64_t line_start;

    uint32_t *string_slots; /* hash table of the texts */
    uint32_t string_mask;
    uint16_t names[NAME_SLOTS]; /* hash table of the fields' names: number plus 1 */

    bool entry_failed, has_opcode; /* of the entry */
    unsigned opcode;
    unsigned entry_line, entry_column;
    uint64_t entry_at;
    field_value fields[FIELD_VALUES_MAX];
    unsigned field_count;
    uint8_t slot_of[2][CMDQ_FIELDS]; /* of each name, as field and as member: its place in `fields` plus 1, or 0 */
    tv_buf ids;

    fast_name fast_names[CMDQ_FIELDS];
    uint8_t next_name[CMDQ_OPCODES + 1]
                     [CMDQ_FIELDS + 1]; /* fast_path.c: the name that came after another (plus 1), or first,
                                           with each opcode; before it is known, and of members */
    uint32_t last_string[CMDQ_FIELDS];  /* … and the last text of each field */
} reader;

void cmdq_reader_error(reader *r, cmdq_code code, uint64_t at, const char *hint, const char *format, ...)
    TV_PRINTF(5, 6);

/* Where byte `at` of the file is: of the entry being read, or after all that was asked for before. */
tv_source_loc cmdq_reader_loc(const reader *r, uint64_t at);

/* Counts lines to byte `to`. */
void cmdq_reader_count_lines(reader *r, uint64_t to);

/* An empty queue. Takes over `input`, also when it fails; `path` is copied. */
tv_status cmdq_reader_init(reader *r, const char *path, tv_input *input, const tv_diag_sink *sink);

/* All entries are there: checks what they say of each other; in any case ends with cmdq_reader_fini. */
tv_status cmdq_reader_finish(reader *r, tv_program **out);

/* Frees all but the program. */
void cmdq_reader_fini(reader *r);

/* At byte `at` an entry begins. */
void cmdq_reader_begin_entry(reader *r, uint64_t at);

/* The number of a text, the same for equal ones; 0 when memory is short. NULs inside end it. */
uint32_t cmdq_reader_intern(reader *r, tv_sv text);

bool cmdq_find_opcode(tv_sv text, unsigned *opcode);

/* The value of a JSON number of fewer than 400 bytes. */
void cmdq_parse_number(const char *text, size_t length, field_value *g);

/* The number of a field's name: of the first field that has it; -1: there is none. */
int cmdq_reader_field_name(const reader *r, tv_sv text);

/* A new entry, without fields. */
static inline void cmdq_reader_clear(reader *r)
{
    r->has_opcode = false;
    r->field_count = 0;
    r->ids.len = 0;
    memset(r->slot_of, 0, sizeof r->slot_of);
}

/* A field more: it has not been given before. */
static inline field_value *cmdq_reader_add(reader *r, unsigned name, bool member, uint64_t at)
{
    field_value *g = &r->fields[r->field_count++];
    *g = (field_value){.name = (uint16_t)name, .member = member, .at = at};
    r->slot_of[member][name] = (uint8_t)r->field_count;
    return g;
}

static inline const field_value *cmdq_reader_find(const reader *r, unsigned name, bool member)
{
    return r->slot_of[member][name] ? &r->fields[r->slot_of[member][name] - 1] : NULL;
}

/* fast_path.c: reads plain entries from byte `at` on, which follows an entry; returns where what is not plain begins.
 * An entry is plain that has nothing to complain of but its values, no escapes, nothing past ASCII, and no field that
 * is passed over. What it reads it reads as the parser would. */
uint64_t cmdq_fast_path(reader *r, uint64_t at);
void fast_name_init(fast_name *name, const char *text);

/* entry.c */
void cmdq_reader_report_unknown(reader *r, const tv_insn *insn, tv_sv name, uint64_t at);

/* The entry's fields are all there: checks and stores it. */
void cmdq_reader_finish_entry(reader *r);

#endif
