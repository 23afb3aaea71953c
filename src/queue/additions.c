/* SPDX-License-Identifier: Apache-2.0 */
/* What a queue uses of Trivet's additions to the published format: fields, opcodes, a role, and keys of the metadata.
 *
 * A file of the version that has the additions declares them, so that they are listed in one note. In a file of an
 * earlier version each field and key is a warning, at its first use; its opcodes have one in any case
 * (dependencies.c). */
#include <inttypes.h>

#include "queue/queue.h"

/* Uses of each addition: the number of entries, and the first one. */
typedef struct addition_uses {
    uint32_t count, first;
} addition_uses;

typedef struct scan {
    addition_uses fields[CMDQ_FIELDS], opcodes[CMDQ_OPCODES], embedding;
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
            unsigned f = insn->parameters[__builtin_ctzll(left)].parameter;
            if (tv_isa_cmdq.parameters[f].addition)
                count_use(&s->fields[f], i);
        }
        if ((cmdq_has_field(q, e, CMDQ_F_tensor_role) &&
             cmdq_integer(q, e, CMDQ_F_tensor_role) == CMDQ_ROLE_EMBEDDING) ||
            (cmdq_has_field(q, e, CMDQ_F_compute_role) &&
             cmdq_integer(q, e, CMDQ_F_compute_role) == CMDQ_ROLE_EMBEDDING))
            count_use(&s->embedding, i);
    }
}

/* ---- Files that declare the additions ---- */

static void append_name(tv_buf *names, const char *name)
{
    enum { NAMES_MAX = 1000 };
    if (names->len < NAMES_MAX)
        tv_buf_printf(names, "%s%s", names->len ? ", " : "", name);
    else if (names->len < NAMES_MAX + 5)
        tv_buf_str(names, ", …");
}

static void report_note(const tv_program *program, const cmdq_queue *q, const scan *s, const tv_diag_sink *sink)
{
    tv_buf names = {0};
    for (unsigned o = 0; o < CMDQ_OPCODES; o++)
        if (s->opcodes[o].count)
            append_name(&names, tv_isa_cmdq.insns[o].id);
    for (unsigned f = 0; f < CMDQ_FIELDS; f++)
        if (s->fields[f].count)
            append_name(&names, tv_isa_cmdq.parameters[f].name);
    if (s->embedding.count)
        append_name(&names, "tensor_role embedding");
    for (size_t i = 0; i < q->metadata_additions.count; i++)
        append_name(&names, q->metadata_additions.data[i].name);
    if (names.len)
        tv_report(sink, TV_NOTE, &cmdq_codes[CMDQ_CODE_ADDITION],
                  &(tv_source_loc){.file = program->files[0], .index = -1}, NULL,
                  "the file uses additions of version %d.%u to the published format: %s", CMDQ_VERSION_MAJOR, q->minor,
                  tv_buf_cstr(&names));
    tv_buf_fini(&names);
}

/* ---- Files of the published version ---- */

static void report_use(const tv_program *program, const addition_uses *uses, const char *name, const char *value,
                       tv_line_cursor *cursor, const tv_diag_sink *sink)
{
    char others[40] = "";
    tv_source_loc loc = cmdq_member_loc(program, uses->first, cursor, name);
    if (uses->count > 1)
        snprintf(others, sizeof others, "; %" PRIu32 " more entr%s it", uses->count - 1,
                 uses->count == 2 ? "y has" : "ies have");
    tv_report(sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_ADDITION], &loc,
              "declare it with the file's version: \"version\": \"1.2\"",
              "entry %" PRIu32 " has '%s'%s, an addition to the published format%s", uses->first, name, value, others);
}

static uint64_t report_warnings(const tv_program *program, const cmdq_queue *q, const scan *s, const tv_diag_sink *sink)
{
    uint64_t found = 0;
    tv_line_cursor cursor = cmdq_line_cursor(program);
    for (size_t i = 0; i < q->metadata_additions.count; i++, found++) {
        const cmdq_metadata_key *key = &q->metadata_additions.data[i];
        const tv_source_loc loc = {
            .file = program->files[0], .line = key->loc.line, .column = key->loc.column, .index = -1};
        tv_report(sink, TV_WARNING, &cmdq_codes[CMDQ_CODE_ADDITION], &loc,
                  "declare it with the file's version: \"version\": \"1.2\"",
                  "metadata: '%s' is an addition to the published format", key->name);
    }
    for (unsigned f = 0; f < CMDQ_FIELDS; f++)
        if (s->fields[f].count) {
            report_use(program, &s->fields[f], tv_isa_cmdq.parameters[f].name, "", &cursor, sink);
            found++;
        }
    if (s->embedding.count) {
        report_use(program, &s->embedding, "tensor_role", " \"embedding\"", &cursor, sink);
        found++;
    }
    return found;
}

uint64_t cmdq_report_additions(const tv_program *program, const tv_diag_sink *sink)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    scan s = {0};
    scan_entries(q, &s);
    if (q->minor <= CMDQ_PUBLISHED_MINOR)
        return report_warnings(program, q, &s, sink);
    report_note(program, q, &s, sink);
    return 0;
}
