/* SPDX-License-Identifier: Apache-2.0 */
/* A command queue in memory: the form of a program whose instructions are the entries of a JSON file.
 *
 * Entries are compact: the values of the fields that are given are stored in one pool of 32-bit units, in the order of
 * the opcode's field list; a bit mask says which are given. Strings are interned and stored as their number. A queue
 * does not depend on a machine. */
#ifndef TV_QUEUE_QUEUE_H
#define TV_QUEUE_QUEUE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "isa/cmdq/cmdq.h"
#include "program/program.h"

enum { CMDQ_NO_STRING = 0, CMDQ_NO_USE = 0xFF };

typedef struct cmdq_entry {
    uint8_t opcode;      /* cmdq_opcode */
    uint32_t layer;      /* string, or CMDQ_NO_STRING */
    uint32_t wait_group; /* number of the SYNC_GROUP entry plus 1, or 0 */
    uint64_t present;    /* bit u: field u of the opcode's list is given */
    uint64_t values;     /* index in the pool of values */
    uint64_t lists;      /* index in the pool of lists: deps_before, deps_after, then wait_for or group */
} cmdq_entry;

/* A list of entries, as their numbers. */
typedef struct cmdq_ids {
    const uint32_t *at;
    uint32_t count;
} cmdq_ids;

typedef struct cmdq_kv_layout {
    uint64_t id, k_base, v_base, t_max, d_head, heads;
} cmdq_kv_layout;

/* A named descriptor of kv_range_desc. d_len 0: to the end of the head. */
typedef struct cmdq_kv_range {
    const char *name;
    uint64_t t_start, t_len, d_start, d_len;
} cmdq_kv_range;

/* An entry whose kv_range_desc is a name: the number of its string; after reading, of its descriptor. */
typedef struct cmdq_range_ref {
    uint32_t entry, target;
} cmdq_range_ref;

/* Of an element of the metadata in the file. */
typedef struct cmdq_location {
    unsigned line, column;
} cmdq_location;

/* A key of the metadata. */
typedef struct cmdq_metadata_key {
    const char *name; /* static */
    cmdq_location loc;
} cmdq_metadata_key;

/* Initial contents of memory. `bytes` NULL: zeros. */
typedef struct cmdq_init {
    cmdq_location loc;
    bool spm;
    uint32_t bank;
    uint64_t addr, size;
    const uint8_t *bytes;
} cmdq_init;

/* A member of an entry that is not interpreted, kept for writing the file again: "key": value. */
typedef struct cmdq_extra {
    uint32_t entry;
    uint64_t offset, length; /* in the file */
} cmdq_extra;

/* Where the fields of each opcode are stored. Field lists are those of the opcode table. */
typedef struct cmdq_layout {
    uint8_t first[CMDQ_FIELDS];                      /* the first field of the same name */
    uint8_t use[CMDQ_OPCODES_ROOM][CMDQ_FIELDS];     /* position of a field in the list; CMDQ_NO_USE: not in the list */
    uint8_t by_name[CMDQ_OPCODES_ROOM][CMDQ_FIELDS]; /* the same, indexed by the first field of that name */
    uint8_t offset[CMDQ_OPCODES_ROOM][64];           /* units before a field if all fields before it are given */
    uint8_t size[CMDQ_FIELDS];                       /* units of a field: 0, 1 or 2 */
    uint64_t required[CMDQ_OPCODES_ROOM];            /* bit mask of required fields */
    uint64_t required_members[CMDQ_OPCODES_ROOM];    /* bit mask of members that are required if the object is given */
    int64_t integers[CMDQ_FIELDS];                   /* default values */
    double reals[CMDQ_FIELDS];
} cmdq_layout;

typedef TV_VEC(cmdq_entry) cmdq_entry_vec;
typedef TV_VEC(uint32_t) cmdq_unit_vec;

typedef struct cmdq_queue {
    cmdq_layout layout;
    cmdq_entry_vec entries;
    cmdq_unit_vec values;     /* pool of values */
    cmdq_unit_vec lists;      /* pool of lists: each its count, then its ids */
    uint32_t fast_path_count; /* entries that the fast path has read */
    uint32_t template_count;  /* … of these with a template */
    tv_arena arena;
    const char **strings; /* by number; strings[0] is "" */
    uint32_t string_count;
    bool has_forward_deps; /* an entry waits for a later one: the order of execution is not that of ids */
    bool json_lines;
    bool out_of_memory; /* while it was read; reported */
    bool host_failed;   /* to read a file that it names; reported */
    bool continues;     /* it runs after another queue: the memories hold data of that */
    unsigned minor;     /* of its version */
    tv_sv metadata;     /* JSON text; empty: none */
    const char *graph_name;
    TV_VEC(cmdq_init) inits;
    TV_VEC(cmdq_location) output_locs;            /* of the program's outputs */
    TV_VEC(cmdq_metadata_key) metadata_additions; /* keys that the published format does not have */
    TV_VEC(cmdq_kv_layout) kv_layouts;
    TV_VEC(cmdq_kv_range) kv_ranges;
    TV_VEC(cmdq_range_ref) range_refs;      /* in the order of entries */
    TV_VEC(cmdq_kv_layout) derived_layouts; /* without kv_layouts: of each dram_base_addr; k_base is the base */
    uint64_t derived_base[2];               /* of keys and of values */
    unsigned derived_bases[2];              /* number of bases: 0, 1, or 2 for more */
    TV_VEC(cmdq_extra) extras;              /* in the order of entries */
    TV_VEC(cmdq_extra) top_members;         /* of the file, besides 'metadata' and 'cmdq' */
    TV_VEC(tv_input) files;                 /* contents that `inits` refer to */
} cmdq_queue;

/* The queue of a program whose form is cmdq_form. */
static inline const cmdq_queue *cmdq_queue_of(const tv_program *program) { return program->form_data; }

void cmdq_layout_init(cmdq_layout *layout);

/* NULL is allowed. */
void cmdq_queue_free(cmdq_queue *queue);

static inline uint32_t cmdq_entry_count(const cmdq_queue *queue) { return (uint32_t)queue->entries.count; }

static inline bool cmdq_has_field(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field)
{
    uint8_t use = queue->layout.use[e->opcode][field];
    return use != CMDQ_NO_USE && (e->present >> use & 1);
}

/* The value of a field that is given, otherwise its default or 0. An ENUM gives the index of its name, a TEXT the
 * number of its string. */
uint64_t cmdq_integer(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field);
double cmdq_real(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field);

/* Units in the pool between the first value of an entry and that of a field that is given. */
unsigned cmdq_value_offset(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field);

/* locate.c: the source location of member `name` of an entry, which is that of its key; the entry's own if `name` is
 * NULL or the key is not found. The cursor is one of cmdq_line_cursor; entries are best located in their order. */
tv_source_loc cmdq_member_loc(const tv_program *program, uint32_t entry, tv_line_cursor *cursor, const char *name);
tv_line_cursor cmdq_line_cursor(const tv_program *program);

/* The location of a finding about an entry. Of an entry of one line it is the entry's own, otherwise that of member
 * `name`, or of its opcode if it has no such member. */
tv_source_loc cmdq_finding_loc(const tv_program *program, uint32_t entry, tv_line_cursor *cursor, const char *name);

/* The descriptor that the kv_range_desc of an entry names, or NULL. */
const cmdq_kv_range *cmdq_named_range(const cmdq_queue *queue, uint32_t entry);

/* kv_layouts.c: replaces names of descriptors by their numbers, and derives the layouts of KV entries in a file without
 * kv_layouts, unless it `has_errors`: then entries are incomplete. Returns the number of errors reported. */
unsigned cmdq_resolve_kv_names(tv_program *program, cmdq_queue *queue, bool has_errors, const tv_diag_sink *sink);

enum { CMDQ_DEPS_BEFORE, CMDQ_DEPS_AFTER, CMDQ_TARGETS /* wait_for or group */, CMDQ_LISTS };

static inline cmdq_ids cmdq_entry_list(const cmdq_queue *queue, const cmdq_entry *e, unsigned which)
{
    const uint32_t *at = queue->lists.data + e->lists;
    for (; which; which--)
        at += 1 + *at;
    return (cmdq_ids){at + 1, *at};
}

static inline const char *cmdq_opcode_name(const cmdq_entry *e) { return tv_isa_cmdq.insns[e->opcode].id; }

/* Opcodes of extensions belong to an engine. */
static inline bool cmdq_is_control(const cmdq_entry *e)
{
    return e->opcode < CMDQ_OPCODES && cmdq_classes[e->opcode] == CMDQ_SYNC;
}

/* Prints an entry in one line: "TE_GEMM_TILE te_id=0 ifm=0:0x0 …". */
void cmdq_print_entry(const cmdq_queue *queue, uint32_t index, tv_buf *out);

/* Whether a file is a queue, by its name or its first bytes. */
bool cmdq_recognise(const char *path, const uint8_t *data, size_t size);

/* Reads a queue. `path` is for messages and for files beside it. Takes over *input, also on failure. The caller frees
 * *out. */
tv_status cmdq_read(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out);

/* The same without the fast path: slower, with the same result. For tests. */
tv_status cmdq_read_slow_path(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out);

/* Interprets the JSON text queue->metadata, whose first byte is at `line` and `column` of the file. Returns the number
 * of errors reported; sets queue->out_of_memory. */
unsigned cmdq_read_metadata(tv_program *program, cmdq_queue *queue, unsigned line, unsigned column,
                            const tv_diag_sink *sink);

tv_status cmdq_save(const tv_program *program, const char *path, tv_program_format format, tv_output_group *group,
                    const tv_diag_sink *sink);

/* additions.c: reports what the queue uses that the published format does not have: each field and key is a warning, or
 * in a file whose version has them all are one note. Returns the number of warnings. */
uint64_t cmdq_report_additions(const tv_program *program, const tv_diag_sink *sink);

extern const tv_program_form cmdq_form;

#endif
