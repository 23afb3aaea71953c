/* SPDX-License-Identifier: Apache-2.0 */
/* What a queue uses of Trivet's additions to the published format: fields, opcodes, a role, and keys of the metadata.
 *
 * A file of a version that has an addition declares it, so that these are listed in one note. In a file of an earlier
 * version each field and key is a warning, at its first use; its opcodes have one in any case (dependencies.c). */
#include <inttypes.h>
#include <stdlib.h>

#include "queue/queue.h"

/* Uses of each addition: the number of entries, and the first one. */
typedef struct addition_uses {
    uint32_t count, first;
} addition_uses;

typedef struct scan {
    addition_uses fields[CMDQ_FIELDS], opcodes[CMDQ_OPCODES_ROOM], embedding;
} scan;

static void count_use(addition_uses *uses, uint32_t entry)
{
    if (!uses->count++)
        uses->first = entry;
}

static void scan_entries(const cmdq_queue *q, scan *s)
{
    for (uint32_t i = 0; i < cmdq_entry_count(q); i++) {
        const cmdq_entry *e = &q->entries.data[i];
        const tv_insn *insn = &tv_isa_cmdq.insns[e->opcode];
        if (tv_insn_addition(&tv_isa_cmdq, insn))
            count_use(&s->opcodes[e->opcode], i);
        if (e->wait_group)
            count_use(&s->fields[CMDQ_F_wait_group], i);
        for (uint64_t left = e->present; left; left &= left - 1) {
            unsigned f = insn->parameters[__builtin_ctzll(left)].parameter, first = q->layout.first[f];
            if (tv_isa_cmdq.parameters[f].addition) /* fields of one name are one addition */
                count_use(&s->fields[tv_isa_cmdq.parameters[first].addition ? first : f], i);
        }
        if ((cmdq_has_field(q, e, CMDQ_F_tensor_role) &&
             cmdq_integer(q, e, CMDQ_F_tensor_role) == CMDQ_ROLE_EMBEDDING) ||
            (cmdq_has_field(q, e, CMDQ_F_compute_role) &&
             cmdq_integer(q, e, CMDQ_F_compute_role) == CMDQ_ROLE_EMBEDDING))
            count_use(&s->embedding, i);
    }
}

/* Whether the file declares an addition of version `since`. */
static bool is_declared(const cmdq_queue *q, const char *since) { return strtoul(since + 2, NULL, 10) <= q->minor; }

static bool declares_field(const cmdq_queue *q, unsigned field)
{
    return is_declared(q, tv_isa_cmdq.parameters[field].addition);
}

/* The version in which roles and keys of the metadata were added. */
static const char FIRST_ADDITIONS[] = "1.2";

/* ---- Additions that the file declares ---- */

enum { NAMES_MAX = 1000, NAME_MAX_BYTES = 100 };

/* At most NAMES_MAX bytes and one more name, which has at most NAME_MAX_BYTES. */
static void append_name(tv_buf *names, const char *name)
{
    if (names->len < NAMES_MAX)
        tv_buf_printf(names, "%s%s", names->len ? ", " : "", name);
    else if (names->len < NAMES_MAX + 5)
        tv_buf_str(names, ", …");
}

static void report_note(const tv_program *program, const cmdq_queue *q, const scan *s, const tv_diag_sink *sink)
{
    char storage[NAMES_MAX + NAME_MAX_BYTES];
    tv_buf names = TV_BUF_FIXED(storage);
    for (unsigned o = 0; o < tv_isa_cmdq.insn_count; o++)
        if (s->opcodes[o].count && is_declared(q, tv_isa_cmdq.insns[o].since))
            append_name(&names, tv_isa_cmdq.insns[o].id);
    for (unsigned f = 0; f < CMDQ_FIELDS; f++)
        if (s->fields[f].count && declares_field(q, f))
            append_name(&names, tv_isa_cmdq.parameters[f].name);
    if (s->embedding.count && is_declared(q, FIRST_ADDITIONS))
        append_name(&names, "tensor_role embedding");
    for (size_t i = 0; i < q->metadata_additions.count && is_declared(q, FIRST_ADDITIONS); i++)
        append_name(&names, q->metadata_additions.data[i].name);
    if (names.len)
        tv_report(sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_ADDITION],
                  &(tv_source_loc){.file = program->files[0], .index = -1}, NULL,
                  "the file uses additions of version %d.%u to the published format: %s", CMDQ_VERSION_MAJOR, q->minor,
                  tv_buf_cstr(&names));
}

/* ---- Those that it does not ---- */

/* An addition of version `since`. */
typedef struct addition {
    const char *name, *value, *since;
} addition;

static void print_hint(char hint[80], const char *since)
{
    snprintf(hint, 80, "declare it with the file's version: \"version\": \"%s\"", since);
}

static void report_use(const tv_program *program, const addition_uses *uses, addition what, tv_line_cursor *cursor,
                       const tv_diag_sink *sink)
{
    char others[40] = "", hint[80];
    tv_source_loc loc = cmdq_member_loc(program, uses->first, cursor, what.name);
    if (uses->count > 1)
        snprintf(others, sizeof others, "; %" PRIu32 " more entr%s it", uses->count - 1,
                 uses->count == 2 ? "y has" : "ies have");
    print_hint(hint, what.since);
    tv_report(sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_ADDITION], &loc, hint,
              "entry %" PRIu32 " has '%s'%s, an addition to the published format%s", uses->first, what.name, what.value,
              others);
}

static uint64_t report_warnings(const tv_program *program, const cmdq_queue *q, const scan *s, const tv_diag_sink *sink)
{
    uint64_t found = 0;
    tv_line_cursor cursor = cmdq_line_cursor(program);
    bool has_first = is_declared(q, FIRST_ADDITIONS);
    for (size_t i = 0; i < q->metadata_additions.count && !has_first; i++, found++) {
        const cmdq_metadata_key *key = &q->metadata_additions.data[i];
        const tv_source_loc loc = {
            .file = program->files[0], .line = key->loc.line, .column = key->loc.column, .index = -1};
        char hint[80];
        print_hint(hint, FIRST_ADDITIONS);
        tv_report(sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_ADDITION], &loc, hint,
                  "metadata: '%s' is an addition to the published format", key->name);
    }
    for (unsigned f = 0; f < CMDQ_FIELDS; f++)
        if (s->fields[f].count && !declares_field(q, f)) {
            const tv_parameter *p = &tv_isa_cmdq.parameters[f];
            report_use(program, &s->fields[f], (addition){p->name, "", p->addition}, &cursor, sink);
            found++;
        }
    if (s->embedding.count && !has_first) {
        report_use(program, &s->embedding, (addition){"tensor_role", " \"embedding\"", FIRST_ADDITIONS}, &cursor, sink);
        found++;
    }
    return found;
}

uint64_t cmdq_report_additions(const tv_program *program, const tv_diag_sink *sink)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    scan s = {0};
    scan_entries(q, &s);
    if (q->minor > CMDQ_PUBLISHED_MINOR)
        report_note(program, q, &s, sink);
    return report_warnings(program, q, &s, sink);
}
