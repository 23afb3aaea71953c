/* SPDX-License-Identifier: Apache-2.0 */
/* A command queue in memory: what the reader makes of a file, and everything else looks at. Entries are compact: their
 * values stand in one pool of 32-bit words, in the order of the opcode's fields, those that are given alone. */
#ifndef TV_QUEUE_QUEUE_H
#define TV_QUEUE_QUEUE_H

#include "base/arena.h"
#include "base/buf.h"
#include "isa/cmdq/cmdq.h"
#include "program/program.h"

enum { CMDQ_NO_STRING = 0, CMDQ_NO_USE = 0xFF };

typedef struct cmdq_entry {
    uint8_t opcode;      /* cmdq_opcode */
    uint32_t layer;      /* text, or CMDQ_NO_STRING */
    uint32_t wait_group; /* entry of the SYNC_GROUP plus 1, or 0 */
    uint64_t present;    /* bit per field of the opcode's list */
    uint64_t values;     /* where in the pool */
    uint64_t lists;      /* where in the lists: deps_before, deps_after, wait_for or group; each its count, then ids */
} cmdq_entry;

/* A list of entries. */
typedef struct cmdq_ids {
    const uint32_t *at;
    uint32_t count;
} cmdq_ids;

typedef struct cmdq_kv_layout {
    uint64_t id, k_base, v_base, t_max, d_head, heads;
} cmdq_kv_layout;

/* What memory holds before the first entry. `bytes` NULL: zeros. */
typedef struct cmdq_init {
    bool spm;
    uint32_t bank;
    uint64_t addr, size;
    const uint8_t *bytes;
} cmdq_init;

/* Text of the file that is kept for writing it again: "key": value. */
typedef struct cmdq_extra {
    uint32_t entry;
    uint64_t offset, length;
} cmdq_extra;

/* Which field of an opcode stands where in its list, worked out once. */
typedef struct cmdq_layout {
    uint8_t use[CMDQ_OPCODES][CMDQ_FIELDS];     /* CMDQ_NO_USE: the opcode has no such field */
    uint8_t by_name[CMDQ_OPCODES][CMDQ_FIELDS]; /* the same by the first field of that name */
    uint8_t offset[CMDQ_OPCODES][64];           /* words before a field when all before it are given */
    uint8_t size[CMDQ_FIELDS];                  /* that a field takes in the pool: 0, 1 or 2 */
    uint64_t required[CMDQ_OPCODES];            /* fields that are … */
    uint64_t required_members[CMDQ_OPCODES];    /* … and members that are where the object is given */
    int64_t integers[CMDQ_FIELDS];              /* defaults */
    double reals[CMDQ_FIELDS];
} cmdq_layout;

typedef struct cmdq_queue {
    cmdq_layout layout;
    cmdq_entry *entries;
    uint32_t count;
    uint32_t fast_path_count;        /* entries that did not come to the JSON parser */
    tv_buf entry_buf, values, lists; /* cmdq_entry, uint32_t, uint32_t */
    tv_arena arena;
    const char **strings; /* by number; texts[0] is "" */
    uint32_t string_count;
    bool has_forward_deps; /* an entry waits for a later one: the order of execution is not the order of ids */
    bool json_lines;
    unsigned minor; /* of its version */
    tv_sv metadata; /* its JSON text */
    const char *graph_name;
    tv_buf inits, layouts, extras; /* cmdq_init, cmdq_kv_layout, cmdq_extra */
    tv_buf files;                  /* tv_input: what inits point into */
} cmdq_queue;

/* The queue of a program of this machine. */
static inline const cmdq_queue *cmdq_queue_of(const tv_program *program) { return program->form_data; }

void cmdq_layout_init(cmdq_layout *layout);
void cmdq_queue_free(cmdq_queue *queue);

static inline bool cmdq_has_field(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field)
{
    uint8_t use = queue->layout.use[e->opcode][field];
    return use != CMDQ_NO_USE && (e->present >> use & 1);
}

/* The value of a field that is given or has a default; a WORD as its index, a TEXT as its number. */
uint64_t cmdq_integer(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field);
double cmdq_real(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field);

enum { CMDQ_DEPS_BEFORE, CMDQ_DEPS_AFTER, CMDQ_TARGETS, CMDQ_LISTS };

static inline cmdq_ids cmdq_entry_list(const cmdq_queue *queue, const cmdq_entry *e, unsigned which)
{
    const uint32_t *at = (const uint32_t *)(const void *)queue->lists.data + e->lists;
    for (; which; which--)
        at += 1 + *at;
    return (cmdq_ids){at + 1, *at};
}

static inline const char *cmdq_opcode_name(const cmdq_entry *e) { return tv_isa_cmdq.insns[e->opcode].id; }

static inline bool cmdq_is_control(const cmdq_entry *e) { return cmdq_classes[e->opcode] == CMDQ_SYNC; }

/* "TE_GEMM_TILE te_id=0 ifm=0:0x0 …": one line that a person reads. */
void cmdq_print_entry(const cmdq_queue *queue, uint32_t index, tv_buf *out);

/* reader.c. `input` becomes the program's. */
bool cmdq_recognise(const char *path, const uint8_t *data, size_t size);
tv_status cmdq_read(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out);

/* The same, only slower: each byte goes through the JSON parser. For tests of the short way. */
tv_status cmdq_read_slow_path(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out);

/* metadata.c: the object in `queue->metadata`, whose first byte is at `line` of the file. Returns the errors found. */
unsigned cmdq_read_metadata(tv_program *program, cmdq_queue *queue, unsigned line, const tv_diag_sink *sink);

/* writer.c */
tv_status cmdq_save(const tv_program *program, const char *path, tv_program_format format, const tv_diag_sink *sink);

extern const tv_program_form cmdq_form;

#endif
