/* SPDX-License-Identifier: Apache-2.0 */
/* Queues without text: fields come one by one, entries are checked and stored as those of a file. */
#include "queue/builder.h"

#include <stdlib.h>

#include "queue/reader.h"

/* What is printed before the first entry, when the queue is saved. */
enum { LINES_BEFORE = 2 };

struct tv_queue_builder {
    reader r;
    uint8_t first[CMDQ_FIELDS]; /* of the fields of the same name */
    bool member;                /* fields are members of an object */
};

static void find_first_fields(tv_queue_builder *b)
{
    const tv_parameter *parameters = tv_isa_cmdq.parameters;
    for (unsigned f = 0; f < CMDQ_FIELDS; f++)
        while (strcmp(parameters[b->first[f]].name, parameters[f].name) != 0)
            b->first[f]++;
}

/* Entries of a new queue stand where those of an old one stood. */
static void reuse(cmdq_queue *q, tv_program *old)
{
    cmdq_queue *had = old->form_data;
    tv_buf_reuse(&q->entry_buf, &had->entry_buf);
    tv_buf_reuse(&q->values, &had->values);
    tv_buf_reuse(&q->lists, &had->lists);
    tv_arena_reuse(&q->arena, &had->arena);
}

tv_status tv_queue_builder_new(const char *name, tv_sv metadata, tv_program *old, const tv_diag_sink *sink,
                               tv_queue_builder **out)
{
    tv_queue_builder *b = calloc(1, sizeof *b);
    tv_input input = {.data = malloc(metadata.len + 1), .size = metadata.len};
    if (!b || !input.data) {
        free(b);
        free((void *)(uintptr_t)input.data);
        tv_program_free(old);
        return tv_fail_memory(sink);
    }
    memcpy((void *)(uintptr_t)input.data, metadata.ptr, metadata.len);
    tv_status status = cmdq_reader_init(&b->r, name, &input, sink);
    if (status == TV_OK && old)
        reuse(b->r.queue, old);
    tv_program_free(old);
    if (status != TV_OK) {
        free(b);
        return status;
    }
    b->r.queue->metadata = (tv_sv){(const char *)b->r.data, b->r.size};
    b->r.has_metadata = b->r.has_entries = true;
    b->r.metadata_line = 1;
    b->r.state = STATE_ENTRY_KEY;
    find_first_fields(b);
    *out = b;
    return TV_OK;
}

static field_value *add(tv_queue_builder *b, cmdq_field field, value_kind kind)
{
    unsigned name = b->first[field];
    assert(!cmdq_reader_find(&b->r, name, b->member));
    field_value *g = cmdq_reader_add(&b->r, name, b->member, 0);
    g->kind = (uint8_t)kind;
    return g;
}

void tv_queue_builder_opcode(tv_queue_builder *b, cmdq_opcode opcode)
{
    b->r.entry_failed = b->member = false;
    b->r.line = b->r.entry_line = b->r.queue->count + 1 + LINES_BEFORE;
    cmdq_reader_clear(&b->r);
    b->r.has_opcode = true;
    b->r.opcode = opcode;
}

void tv_queue_builder_integer(tv_queue_builder *b, cmdq_field field, uint64_t value)
{
    field_value *g = add(b, field, VALUE_INTEGER);
    g->huge = value > INT64_MAX;
    g->integer = (int64_t)value;
    g->real = (double)value;
}

void tv_queue_builder_real(tv_queue_builder *b, cmdq_field field, double value)
{
    add(b, field, VALUE_REAL)->real = value;
}

void tv_queue_builder_flag(tv_queue_builder *b, cmdq_field field, bool value)
{
    add(b, field, VALUE_BOOLEAN)->integer = value;
}

void tv_queue_builder_text(tv_queue_builder *b, cmdq_field field, const char *text)
{
    field_value *g = add(b, field, VALUE_TEXT);
    g->text = cmdq_reader_intern(&b->r, tv_sv_of(text));
}

void tv_queue_builder_object(tv_queue_builder *b, cmdq_field field)
{
    add(b, field, VALUE_OBJECT);
    b->member = true;
}

uint32_t tv_queue_builder_end_entry(tv_queue_builder *b, const char *layer, const uint32_t *deps, uint32_t count)
{
    b->member = false;
    if (layer)
        tv_queue_builder_text(b, CMDQ_F_layer_id, layer);
    if (count) {
        add(b, CMDQ_F_deps_before, VALUE_IDS)->count = count;
        tv_buf_append(&b->r.ids, deps, count * sizeof *deps);
    }
    cmdq_reader_finish_entry(&b->r);
    return b->r.queue->count - 1;
}

uint32_t tv_queue_builder_count(const tv_queue_builder *b) { return b->r.queue->count; }

tv_status tv_queue_builder_finish(tv_queue_builder *b, tv_program **out)
{
    tv_status status = cmdq_reader_finish(&b->r, out);
    free(b);
    return status;
}

void tv_queue_builder_free(tv_queue_builder *b)
{
    if (!b)
        return;
    tv_program_free(b->r.program);
    cmdq_reader_fini(&b->r);
    free(b);
}
