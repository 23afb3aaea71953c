/* SPDX-License-Identifier: Apache-2.0 */
/* Writing queues: the metadata and the fields that are not interpreted as they are in the file, the other fields in the
 * order of the opcode table. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "base/json_writer.h"
#include "queue/queue.h"
#include "trivet/file.h"

typedef struct queue_writer {
    const tv_program *program;
    const cmdq_queue *queue;
    FILE *out;
    tv_json_writer json;
    size_t extra; /* index of the next one */
} queue_writer;

/* The fewest digits that read back as the same number. */
static void write_real(tv_json_writer *json, double x)
{
    char text[40];
    tv_c_locale locale = tv_c_locale_begin();
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    tv_c_locale_end(locale);
    tv_json_write_raw(json, tv_sv_of(text));
}

static void write_ids(tv_json_writer *json, const char *name, cmdq_ids ids)
{
    tv_json_key(json, name);
    tv_json_begin_array(json);
    for (uint32_t i = 0; i < ids.count; i++)
        tv_json_write_unsigned(json, ids.at[i]);
    tv_json_end_array(json);
}

static void write_field(queue_writer *w, const cmdq_entry *e, unsigned field)
{
    const tv_parameter *p = &tv_isa_cmdq.parameters[field];
    uint64_t value = p->type == TV_PARAMETER_REAL ? 0 : cmdq_integer(w->queue, e, (cmdq_field)field);
    tv_json_key(&w->json, p->name);
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
        tv_json_write_unsigned(&w->json, value);
        break;
    case TV_PARAMETER_REAL:
        write_real(&w->json, cmdq_real(w->queue, e, (cmdq_field)field));
        break;
    case TV_PARAMETER_BOOLEAN:
        tv_json_write_boolean(&w->json, value != 0);
        break;
    case TV_PARAMETER_ENUM:
        tv_json_write_string(&w->json, p->enum_names[value]);
        break;
    case TV_PARAMETER_TEXT:
        tv_json_write_string(&w->json, w->queue->strings[value]);
        break;
    case TV_PARAMETER_IDS:    /* write_lists */
    case TV_PARAMETER_OBJECT: /* write_members */
        assert(false);
        break;
    }
}

/* The members of the entry's object. */
static void write_members(queue_writer *w, const cmdq_entry *e)
{
    const tv_insn *insn = &tv_isa_cmdq.insns[e->opcode];
    tv_json_begin_object(&w->json);
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if ((e->present >> u & 1) && insn->parameters[u].presence >= TV_MEMBER)
            write_field(w, e, insn->parameters[u].parameter);
    tv_json_end_object(&w->json);
}

static void write_fields(queue_writer *w, const cmdq_entry *e)
{
    const tv_insn *insn = &tv_isa_cmdq.insns[e->opcode];
    for (unsigned u = 0; u < insn->parameter_count; u++) {
        unsigned field = insn->parameters[u].parameter;
        tv_parameter_type type = tv_isa_cmdq.parameters[field].type;
        if (!(e->present >> u & 1) || insn->parameters[u].presence >= TV_MEMBER || type == TV_PARAMETER_IDS)
            continue;
        if (type != TV_PARAMETER_OBJECT) {
            write_field(w, e, field);
            continue;
        }
        const cmdq_kv_range *range = cmdq_named_range(w->queue, (uint32_t)(e - w->queue->entries.data));
        tv_json_key(&w->json, tv_isa_cmdq.parameters[field].name);
        if (range)
            tv_json_write_string(&w->json, range->name);
        else
            write_members(w, e);
    }
}

static void write_lists(queue_writer *w, const cmdq_entry *e)
{
    const cmdq_queue *q = w->queue;
    cmdq_ids before = cmdq_entry_list(q, e, CMDQ_DEPS_BEFORE), after = cmdq_entry_list(q, e, CMDQ_DEPS_AFTER);
    if (before.count)
        write_ids(&w->json, "deps_before", before);
    if (after.count)
        write_ids(&w->json, "deps_after", after);
    if (e->wait_group) {
        const cmdq_entry *group = &q->entries.data[e->wait_group - 1];
        tv_json_string_member(&w->json, "wait_group", q->strings[cmdq_integer(q, group, CMDQ_F_name)]);
    }
    if (e->opcode == CMDQ_BARRIER)
        write_ids(&w->json, "wait_for", cmdq_entry_list(q, e, CMDQ_TARGETS));
    if (e->opcode == CMDQ_SYNC_GROUP)
        write_ids(&w->json, "group", cmdq_entry_list(q, e, CMDQ_TARGETS));
}

/* Copies the members that are not interpreted, without line breaks: an entry of JSON Lines is one line. */
static void write_extras(queue_writer *w, uint32_t index)
{
    const cmdq_queue *q = w->queue;
    tv_json_writer_flush(&w->json);
    for (; w->extra < q->extras.count && q->extras.data[w->extra].entry == index; w->extra++) {
        const cmdq_extra *extra = &q->extras.data[w->extra];
        fputs(", ", w->out);
        for (const uint8_t *p = w->program->input.data + extra->offset, *end = p + extra->length; p < end; p++)
            fputc(*p == '\n' || *p == '\r' ? ' ' : *p, w->out);
    }
}

static void write_entry(queue_writer *w, uint32_t index)
{
    const cmdq_queue *q = w->queue;
    const cmdq_entry *e = &q->entries.data[index];
    tv_json_writer_init_file(&w->json, w->out, TV_JSON_SPACED);
    tv_json_begin_object(&w->json);
    tv_json_string_member(&w->json, "opcode", cmdq_opcode_name(e));
    tv_json_unsigned_member(&w->json, "id", index);
    if (e->layer)
        tv_json_string_member(&w->json, "layer_id", q->strings[e->layer]);
    write_lists(w, e);
    write_fields(w, e);
    write_extras(w, index);
    tv_json_end_object(&w->json);
    tv_json_writer_finish(&w->json); /* tv_output_commit reports a failure */
}

/* Writes the metadata in one line. */
static tv_status write_metadata_line(queue_writer *w, const tv_diag_sink *sink)
{
    tv_arena arena = {0};
    tv_json_error error;
    tv_sv text = w->queue->metadata;
    const tv_json_value *value = tv_json_parse(&arena, text, SIZE_MAX, &error);
    tv_json_writer_init_file(&w->json, w->out, TV_JSON_SPACED);
    if (value)
        tv_json_write_value(&w->json, value, 17);
    if (value)
        tv_json_writer_finish(&w->json);
    tv_arena_fini(&arena);
    return value ? TV_OK : tv_fail_memory(sink); /* the text was parsed when the queue was read */
}

/* The members of the file before its entries. */
static void write_head(const queue_writer *w)
{
    const cmdq_queue *q = w->queue;
    fputs("{", w->out);
    for (size_t i = 0; i < q->top_members.count; i++) {
        const cmdq_extra *member = &q->top_members.data[i];
        fwrite(w->program->input.data + member->offset, 1, member->length, w->out);
        fputs(",\n ", w->out);
    }
    if (q->metadata.ptr) {
        fputs("\"metadata\": ", w->out);
        fwrite(q->metadata.ptr, 1, q->metadata.len, w->out);
        fputs(",\n ", w->out);
    }
    fputs("\"cmdq\": [\n", w->out);
}

tv_status cmdq_save(const tv_program *program, const char *path, tv_program_format format, tv_output_group *group,
                    const tv_diag_sink *sink)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    bool lines = format == TV_FORMAT_JSON_LINES;
    tv_output *output;
    TV_TRY(tv_output_open(path, sink, &output));
    queue_writer w = {.program = program, .queue = q, .out = tv_output_stream(output)};
    if (lines && q->metadata.ptr) {
        tv_status status = write_metadata_line(&w, sink);
        if (status != TV_OK) {
            tv_output_abandon(output);
            return status;
        }
        fputs("\n", w.out);
    } else if (!lines) {
        write_head(&w);
    }
    uint32_t count = cmdq_entry_count(q);
    for (uint32_t i = 0; i < count; i++) {
        fputs(lines ? "" : "  ", w.out);
        write_entry(&w, i);
        fputs(lines || i + 1 == count ? "\n" : ",\n", w.out);
    }
    fputs(lines ? "" : " ]\n}\n", w.out);
    return tv_output_commit_to(output, group, sink);
}
