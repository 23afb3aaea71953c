/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's internals, which the builder shares.
 *
 * The fields of an entry are collected in `fields`: by parse.c from the events of the JSON reader (the slow path), by
 * fast_path.c from the bytes of the file, by builder.c from calls. Then entry.c checks them against the opcode table
 * and stores the entry. template.c stores entries like one that was stored so. reader.c has what they share: locations
 * and errors, interned strings, names of fields. */
#ifndef TV_QUEUE_READER_H
#define TV_QUEUE_READER_H

#include "base/json_reader.h"
#include "queue/queue.h"

enum {
    ERRORS_MAX = 100,
    DEPTH_MAX = 64,
    FIELDS_MAX = 2 * CMDQ_FIELDS, /* of an entry: each as field and as member */
    STRING_MAX = 4096,            /* bytes */
    TOP_MEMBERS_MAX = 64,         /* of the file, besides 'metadata' and 'cmdq', that are kept */
    NAME_SLOTS = 256
};

_Static_assert(CMDQ_FIELDS <= UINT8_MAX, "next_name holds bytes");

/* What the next event of the JSON reader belongs to. */
typedef enum parse_state {
    STATE_FILE,      /* a value at the top: the whole queue, the metadata of JSON Lines, or one of their entries */
    STATE_TOP_KEY,   /* a key of the object that is the whole queue */
    STATE_TOP_VALUE, /* … and its value */
    STATE_ENTRIES,   /* an element of the list of entries */
    STATE_ENTRY_KEY, /* a key of an entry */
    STATE_ENTRY_VALUE,
    STATE_IDS,        /* an element of a list of ids */
    STATE_MEMBER_KEY, /* a key of kv_range_desc */
    STATE_MEMBER_VALUE,
    STATE_SKIP, /* inside a value that is not interpreted here */
    STATE_END,
} parse_state;

typedef enum value_kind {
    VALUE_NULL,
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_IDS,
    VALUE_OBJECT
} value_kind;

/* A field of the entry that is being collected. */
typedef struct field_value {
    uint16_t name; /* first field of that name */
    uint8_t kind;  /* value_kind */
    bool member;   /* of kv_range_desc */
    bool overflow; /* INTEGER: past 63 bits */
    int64_t integer;
    double real;
    uint32_t string; /* number of the string; IDS: index of the first one in `ids` */
    uint32_t count;  /* IDS */
    uint64_t offset; /* in the file */
} field_value;

enum { NAME_WORDS = 3 };

/* A field's name as 64-bit integers, for a comparison without a loop. */
typedef struct fast_name {
    uint64_t text[NAME_WORDS], mask[NAME_WORDS];
    unsigned length;
} fast_name;

typedef struct reader {
    /* The file and the queue. */
    const char *path;
    const uint8_t *data;
    uint64_t size;
    const tv_diag_sink *sink; /* that of `lines` if there is a file */
    tv_source_lines lines;
    tv_program *program;
    cmdq_queue *queue;
    unsigned errors;
    bool stopped;
    bool out_of_memory; /* for a string */

    /* Position: lines are counted incrementally. */
    uint64_t counted; /* bytes whose lines have been counted */
    unsigned line;    /* number of the line at `counted`, from 1 */
    uint64_t line_start;

    /* Interned strings and field names: hash tables with linear probing. */
    uint32_t *string_slots; /* numbers of strings; 0: free */
    uint32_t string_mask;
    uint16_t names[NAME_SLOTS]; /* fields plus 1; 0: free */

    /* The entry. */
    bool entry_failed, has_opcode;
    unsigned opcode;
    unsigned entry_line, entry_column;
    uint64_t entry_offset;
    field_value fields[FIELDS_MAX];
    unsigned field_count;
    uint16_t slot_of[2][CMDQ_FIELDS]; /* by name, as field and as member: index in `fields` plus 1, or 0 */
    cmdq_unit_vec ids;

    /* The slow path. */
    parse_state state, after_skip;
    tv_json_reader json;
    unsigned depth, skip_depth;
    bool is_metadata, is_top_member; /* the skipped value is; at most one of them */
    bool has_metadata, has_entries, in_entries;
    bool restart;         /* the first object is an entry of JSON Lines without metadata */
    uint64_t skip_offset; /* of the skipped value, or of its key */
    uint64_t top_offset;  /* of the first object */
    tv_source_loc top_loc;
    tv_source_loc top_locs[TOP_MEMBERS_MAX]; /* of queue->top_members */
    unsigned metadata_line, metadata_column;
    uint64_t chunk_offset;    /* of the chunk that is being parsed */
    bool in_string, escaped;  /* at chunk_offset: inside a string; after a backslash */
    bool at_entry_end;        /* the byte before chunk_offset may close an entry */
    uint64_t slow_path_bytes; /* parsed since the fast path last read an entry */

    /* The fast path. */
    bool slow_path_only;
    fast_name fast_names[CMDQ_FIELDS];
    uint8_t next_name[CMDQ_OPCODES_ROOM + 1]
                     [CMDQ_FIELDS + 1]; /* [opcode][name plus 1, or 0]: the name that came after it
                                      the last time; the last row: opcode unknown, or a member */
    uint32_t last_string[CMDQ_FIELDS];
    struct cmdq_templates *templates; /* template.c; NULL: none yet */
    uint64_t expected_entries;        /* after which room is made again; 0: none yet */
} reader;

/* ---- Start and end ---- */

/* An empty queue. Takes over `input`, also on failure; `path` is copied. After a failure there is nothing to free. */
tv_status cmdq_reader_init(reader *r, const char *path, tv_input *input, const tv_diag_sink *sink);

/* Frees everything but the program. */
void cmdq_reader_fini(reader *r);

/* All entries are stored: interprets the metadata, checks dependencies. Calls cmdq_reader_fini, and on failure frees
 * the program. */
tv_status cmdq_reader_finish(reader *r, tv_program **out);

/* ---- Errors ---- */

/* Reports an error at byte `offset`; stops the reader after ERRORS_MAX. */
void cmdq_reader_error(reader *r, cmdq_code code, uint64_t offset, const char *hint, const char *format, ...)
    TV_PRINTF(5, 6);

/* The location of byte `offset`: in the current entry, or after all bytes whose lines have been counted. */
tv_source_loc cmdq_reader_loc(const reader *r, uint64_t offset);

/* syntax.c: reports the error that ended the JSON reader. `token_max`: limit of a string or number, in MiB. */
void cmdq_reader_report_syntax(reader *r, unsigned token_max);

/* syntax.c: the offset of the string or key that ends at `end`; with escapes it is longer than its text. */
uint64_t cmdq_string_start(const reader *r, uint64_t end);

void cmdq_reader_count_lines(reader *r, uint64_t end);

/* Counts the lines up to byte `offset`, and returns its location as one of the file. `offset` must not be before bytes
 * that have been counted. */
tv_source_loc cmdq_reader_count_loc(reader *r, uint64_t offset);

/* Reports a note for each key of the file that is not interpreted. */
void cmdq_reader_report_top_keys(const reader *r);

/* ---- Strings and names ---- */

/* The number of a string, the same for equal ones. A NUL ends it. CMDQ_NO_STRING for "", or when out of memory. */
uint32_t cmdq_reader_intern(reader *r, tv_sv text);

/* Prepares cmdq_reader_field_name. */
void cmdq_reader_init_names(reader *r);

/* The first field of that name, or -1. */
int cmdq_reader_field_name(const reader *r, tv_sv text);

bool cmdq_find_opcode(tv_sv text, unsigned *opcode);

/* Sets *v to the value of a JSON number. */
void cmdq_set_number(field_value *v, tv_sv text);

/* ---- The entry ---- */

/* An entry begins at byte `offset`. */
void cmdq_reader_begin_entry(reader *r, uint64_t offset);

/* Starts collecting fields. */
static inline void cmdq_reader_clear_fields(reader *r)
{
    r->has_opcode = false;
    r->field_count = 0;
    r->ids.count = 0;
    memset(r->slot_of, 0, sizeof r->slot_of);
}

/* Adds a field that the entry does not have. */
static inline field_value *cmdq_reader_add_field(reader *r, unsigned name, bool member, uint64_t offset)
{
    field_value *v = &r->fields[r->field_count++];
    *v = (field_value){.name = (uint16_t)name, .member = member, .offset = offset};
    r->slot_of[member][name] = (uint16_t)r->field_count;
    return v;
}

/* The field, or NULL if the entry does not have it. */
static inline const field_value *cmdq_reader_find_field(const reader *r, unsigned name, bool member)
{
    return r->slot_of[member][name] ? &r->fields[r->slot_of[member][name] - 1] : NULL;
}

/* entry.c: checks the fields and stores the entry. With errors an entry is stored, too, so that numbers stay right. */
void cmdq_reader_store_entry(reader *r);

/* combinations.c: checks the fields of an entry against each other, and warns if it is deprecated. */
void cmdq_reader_check_combinations(reader *r, const cmdq_entry *e, const tv_insn *insn);

/* combinations.c: whether these checks read the value of an INTEGER or REAL field. */
bool cmdq_reader_checks_value(cmdq_field field);

/* entry.c: whether a REAL field takes `x`, its value rounded to binary32. */
bool cmdq_is_legal_real(const tv_parameter *p, float x);

/* The field whose ids are list CMDQ_TARGETS of an entry. */
static inline cmdq_field cmdq_targets_field(unsigned opcode)
{
    return opcode == CMDQ_BARRIER ? CMDQ_F_wait_for : CMDQ_F_group;
}

/* entry.c: reports that an entry of `insn` (NULL: of unknown opcode) has no field `name`. */
void cmdq_reader_report_unknown(reader *r, const tv_insn *insn, tv_sv name, uint64_t offset);

/* fast_path.c: reads entries from byte `offset` on, which is where an entry has ended, and returns where it stops:
 * before the first entry that is not simple. A simple entry has no escapes, only ASCII, no fields that are skipped, and
 * no errors but those of values. The result is that of the slow path. */
uint64_t cmdq_fast_path(reader *r, uint64_t offset);
void cmdq_fast_name_init(fast_name *name, const char *text);

#endif
