/* SPDX-License-Identifier: Apache-2.0 */
/* Builds queues from calls: an entry is checked and stored as one that is read from a file. */
#include "queue/builder.h"

#include <stdlib.h>

#include "queue/reader.h"

/* Lines of a saved queue before its first entry. */
enum { HEADER_LINES = 2 };

struct tv_queue_builder {
    reader r;
    bool member; /* the next fields are members of an object */
};

/* Moves the array of `from`, emptied, to `to`, which has none. */
static void move_units(cmdq_unit_vec *to, cmdq_unit_vec *from)
{
    *to = *from;
    to->count = 0;
    *from = (cmdq_unit_vec){0};
}

/* Moves the memory of the old program's queue to `q`. */
static void reuse_memory(cmdq_queue *q, tv_program *old)
{
    cmdq_queue *from = old->form_data;
    q->entries = from->entries;
    q->entries.count = 0;
    from->entries = (cmdq_entry_vec){0};
    move_units(&q->values, &from->values);
    move_units(&q->lists, &from->lists);
    tv_arena_reuse(&q->arena, &from->arena);
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
        reuse_memory(b->r.queue, old);
    tv_program_free(old);
    if (status != TV_OK) {
        free(b);
        return status;
    }
    b->r.queue->metadata = (tv_sv){(const char *)b->r.data, b->r.size};
    b->r.has_metadata = b->r.has_entries = true;
    b->r.metadata_line = b->r.metadata_column = 1;
    b->r.state = STATE_ENTRY_KEY;
    *out = b;
    return TV_OK;
}

static field_value *add_field(tv_queue_builder *b, cmdq_field field, value_kind kind)
{
    unsigned name = b->r.queue->layout.first[field];
    assert(!cmdq_reader_find_field(&b->r, name, b->member));
    field_value *v = cmdq_reader_add_field(&b->r, name, b->member, 0);
    v->kind = (uint8_t)kind;
    return v;
}

void tv_queue_builder_opcode(tv_queue_builder *b, cmdq_opcode opcode)
{
    b->r.entry_failed = b->member = false;
    b->r.line = b->r.entry_line = cmdq_entry_count(b->r.queue) + 1 + HEADER_LINES;
    cmdq_reader_clear_fields(&b->r);
    b->r.has_opcode = true;
    b->r.opcode = opcode;
}

void tv_queue_builder_integer(tv_queue_builder *b, cmdq_field field, uint64_t value)
{
    field_value *v = add_field(b, field, VALUE_INTEGER);
    v->overflow = value > INT64_MAX;
    v->integer = (int64_t)value;
    v->real = (double)value;
}

void tv_queue_builder_real(tv_queue_builder *b, cmdq_field field, double value)
{
    add_field(b, field, VALUE_REAL)->real = value;
}

void tv_queue_builder_flag(tv_queue_builder *b, cmdq_field field, bool value)
{
    add_field(b, field, VALUE_BOOLEAN)->integer = value;
}

void tv_queue_builder_text(tv_queue_builder *b, cmdq_field field, const char *text)
{
    field_value *v = add_field(b, field, VALUE_TEXT);
    v->string = cmdq_reader_intern(&b->r, tv_sv_of(text));
}

void tv_queue_builder_object(tv_queue_builder *b, cmdq_field field)
{
    add_field(b, field, VALUE_OBJECT);
    b->member = true;
}

uint32_t tv_queue_builder_end_entry(tv_queue_builder *b, const char *layer, const uint32_t *deps, uint32_t count)
{
    b->member = false;
    if (layer)
        tv_queue_builder_text(b, CMDQ_F_layer_id, layer);
    if (count) {
        add_field(b, CMDQ_F_deps_before, VALUE_IDS)->count = count;
        uint32_t *ids = TV_VEC_EXTEND(&b->r.ids, count);
        if (ids)
            memcpy(ids, deps, count * sizeof *ids);
    }
    cmdq_reader_store_entry(&b->r);
    return cmdq_entry_count(b->r.queue) - 1;
}

uint32_t tv_queue_builder_count(const tv_queue_builder *b) { return cmdq_entry_count(b->r.queue); }

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

void tv_queue_add_integer(tv_program *program, uint32_t entry, cmdq_field field, int64_t value)
{
    cmdq_queue *queue = program->form_data;
    const cmdq_entry *e = &queue->entries.data[entry];
    uint32_t *units = queue->values.data + e->values + cmdq_value_offset(queue, e, field);
    uint64_t sum = cmdq_integer(queue, e, field) + (uint64_t)value;
    assert(cmdq_has_field(queue, e, field) && tv_isa_cmdq.parameters[field].type == TV_PARAMETER_INTEGER &&
           sum >= tv_isa_cmdq.parameters[field].min && sum <= tv_isa_cmdq.parameters[field].max);
    units[0] = (uint32_t)sum;
    if (queue->layout.size[field] == 2)
        units[1] = (uint32_t)(sum >> 32);
}

tv_status tv_queue_save_with(tv_program *program, tv_sv metadata, const char *path, tv_output_group *group,
                             const tv_diag_sink *sink)
{
    cmdq_queue *queue = program->form_data;
    tv_sv own = queue->metadata;
    queue->metadata = metadata;
    tv_status status = tv_program_save_to(program, path, TV_FORMAT_JSON, group, sink);
    queue->metadata = own;
    return status;
}
