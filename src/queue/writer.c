/* SPDX-License-Identifier: Apache-2.0 */
/* Writing queues: metadata and notes as they stood in the file, entries field by field in the table's order. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "queue/queue.h"
#include "trivet/file.h"

typedef struct writer {
    const tv_program *program;
    const cmdq_queue *queue;
    FILE *out;
    const cmdq_extra *extra, *extra_end;
} writer;

static void write_string(FILE *out, const char *text)
{
    json_t *string = json_string(text);
    if (string)
        json_dumpf(string, out, JSON_ENCODE_ANY);
    json_decref(string);
}

/* The fewest digits that read back as the same number. */
static void write_real(FILE *out, double x)
{
    char text[40];
    tv_c_locale locale = tv_c_locale_begin();
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    tv_c_locale_end(locale);
    fputs(text, out);
}

static void write_ids(FILE *out, const char *name, cmdq_ids ids, bool always)
{
    if (!ids.count && !always)
        return;
    fprintf(out, ", \"%s\": [", name);
    for (uint32_t i = 0; i < ids.count; i++)
        fprintf(out, i ? ", %" PRIu32 : "%" PRIu32, ids.at[i]);
    fputc(']', out);
}

static void write_field(const writer *w, const cmdq_entry *e, unsigned field, const char *separator)
{
    const tv_parameter *p = &tv_isa_cmdq.parameters[field];
    uint64_t value = p->type == TV_PARAMETER_REAL ? 0 : cmdq_integer(w->queue, e, (cmdq_field)field);
    fprintf(w->out, "%s\"%s\": ", separator, p->name);
    switch (p->type) {
    case TV_PARAMETER_REAL:
        write_real(w->out, cmdq_real(w->queue, e, (cmdq_field)field));
        break;
    case TV_PARAMETER_BOOLEAN:
        fputs(value ? "true" : "false", w->out);
        break;
    case TV_PARAMETER_ENUM:
        write_string(w->out, p->enum_names[value]);
        break;
    case TV_PARAMETER_TEXT:
        write_string(w->out, w->queue->strings[value]);
        break;
    default:
        fprintf(w->out, "%" PRIu64, value);
        break;
    }
}

static void write_fields(const writer *w, const cmdq_entry *e)
{
    const tv_insn *insn = &tv_isa_cmdq.insns[e->opcode];
    for (unsigned u = 0; u < insn->parameter_count; u++) {
        unsigned f = insn->parameters[u].parameter;
        tv_parameter_type type = tv_isa_cmdq.parameters[f].type;
        if (!(e->present >> u & 1) || insn->parameters[u].presence >= TV_MEMBER || type == TV_PARAMETER_IDS)
            continue;
        if (type != TV_PARAMETER_OBJECT) {
            write_field(w, e, f, ", ");
            continue;
        }
        fprintf(w->out, ", \"%s\": {", tv_isa_cmdq.parameters[f].name);
        const char *separator = "";
        for (unsigned k = 0; k < insn->parameter_count; k++)
            if ((e->present >> k & 1) && insn->parameters[k].presence >= TV_MEMBER) {
                write_field(w, e, insn->parameters[k].parameter, separator);
                separator = ", ";
            }
        fputc('}', w->out);
    }
}

static void write_entry(writer *w, uint32_t index)
{
    const cmdq_queue *q = w->queue;
    const cmdq_entry *e = &q->entries[index];
    fprintf(w->out, "{\"opcode\": \"%s\", \"id\": %" PRIu32, cmdq_opcode_name(e), index);
    if (e->layer) {
        fputs(", \"layer_id\": ", w->out);
        write_string(w->out, q->strings[e->layer]);
    }
    write_ids(w->out, "deps_before", cmdq_entry_list(q, e, CMDQ_DEPS_BEFORE), false);
    write_ids(w->out, "deps_after", cmdq_entry_list(q, e, CMDQ_DEPS_AFTER), false);
    if (e->wait_group) {
        fputs(", \"wait_group\": ", w->out);
        write_string(w->out, q->strings[cmdq_integer(q, &q->entries[e->wait_group - 1], CMDQ_F_name)]);
    }
    if (e->opcode == CMDQ_BARRIER || e->opcode == CMDQ_SYNC_GROUP)
        write_ids(w->out, e->opcode == CMDQ_BARRIER ? "wait_for" : "group", cmdq_entry_list(q, e, CMDQ_TARGETS), true);
    write_fields(w, e);
    for (; w->extra < w->extra_end && w->extra->entry == index; w->extra++) {
        fputs(", ", w->out);
        for (const uint8_t *p = w->program->input.data + w->extra->offset, *end = p + w->extra->length; p < end; p++)
            fputc(*p == '\n' || *p == '\r' ? ' ' : *p, w->out); /* JSON Lines are lines */
    }
    fputc('}', w->out);
}

/* JSON Lines are lines: the same value without line breaks. */
static void write_compact(FILE *out, tv_sv text)
{
    json_t *value = json_loadb(text.ptr, text.len, JSON_DECODE_ANY, NULL);
    if (value)
        json_dumpf(value, out, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    json_decref(value);
}

tv_status cmdq_save(const tv_program *program, const char *path, tv_program_format format, const tv_diag_sink *sink)
{
    const cmdq_queue *q = cmdq_queue_of(program);
    bool lines = format == TV_FORMAT_JSON_LINES;
    tv_output *output;
    TV_TRY(tv_output_open(path, sink, &output));
    writer w = {program, q, tv_output_stream(output), (const cmdq_extra *)(const void *)q->extras.data, NULL};
    w.extra_end = w.extra ? w.extra + q->extras.len / sizeof(cmdq_extra) : NULL;
    fputs(lines ? "" : "{\"metadata\": ", w.out);
    if (lines)
        write_compact(w.out, q->metadata);
    else
        fwrite(q->metadata.ptr, 1, q->metadata.len, w.out);
    fputs(lines ? "\n" : ",\n \"cmdq\": [\n", w.out);
    for (uint32_t i = 0; i < q->count; i++) {
        fputs(lines ? "" : "  ", w.out);
        write_entry(&w, i);
        fputs(lines || i + 1 == q->count ? "\n" : ",\n", w.out);
    }
    fputs(lines ? "" : " ]\n}\n", w.out);
    return tv_output_commit(output, sink);
}
