/* SPDX-License-Identifier: Apache-2.0 */
/* The storage of fields, and access to them. */
#include "queue/queue.h"

#include <stdlib.h>

static uint8_t value_size(const tv_parameter *p)
{
    if (p->type == TV_PARAMETER_IDS || p->type == TV_PARAMETER_OBJECT)
        return 0;
    return p->type == TV_PARAMETER_REAL || (p->type == TV_PARAMETER_INTEGER && p->max > UINT32_MAX) ? 2 : 1;
}

/* The first field called `name`, which exists. */
static uint8_t first_field(const char *name)
{
    uint8_t f = 0;
    while (tv_isa_cmdq.parameters[f].name[0] != name[0] || strcmp(tv_isa_cmdq.parameters[f].name, name) != 0)
        f++;
    return f;
}

void cmdq_layout_init(cmdq_layout *layout)
{
    const tv_isa *isa = &tv_isa_cmdq;
    memset(layout, 0, sizeof *layout);
    memset(layout->use, CMDQ_NO_USE, sizeof layout->use);
    memset(layout->by_name, CMDQ_NO_USE, sizeof layout->by_name);
    for (unsigned f = 0; f < CMDQ_FIELDS; f++) {
        const tv_parameter *p = &isa->parameters[f];
        if (p->default_value && p->type == TV_PARAMETER_REAL)
            layout->reals[f] =
                strtod(p->default_value, NULL); /* written without a point that a locale could change: 1, 1e-5 */
        for (int64_t w = 0; p->default_value && p->enum_names && p->enum_names[w]; w++)
            if (strcmp(p->enum_names[w], p->default_value) == 0)
                layout->integers[f] = w;
        if (p->default_value && p->type == TV_PARAMETER_INTEGER)
            layout->integers[f] = strtoll(p->default_value, NULL, 10);
        layout->size[f] = value_size(p);
        layout->first[f] = first_field(p->name);
    }
    for (unsigned o = 0; o < tv_isa_cmdq.insn_count; o++) {
        const tv_insn *insn = &isa->insns[o];
        unsigned size = 0;
        assert(insn->parameter_count <= 64);
        for (unsigned u = 0; u < insn->parameter_count; u++) {
            unsigned f = insn->parameters[u].parameter;
            layout->use[o][f] = (uint8_t)u;
            layout->by_name[o][layout->first[f]] = (uint8_t)u;
            layout->offset[o][u] = (uint8_t)size;
            size += layout->size[f];
            if (insn->parameters[u].presence == TV_REQUIRED)
                layout->required[o] |= UINT64_C(1) << u;
            if (insn->parameters[u].presence == TV_MEMBER_REQUIRED)
                layout->required_members[o] |= UINT64_C(1) << u;
        }
    }
}

void cmdq_queue_free(cmdq_queue *queue)
{
    if (!queue)
        return;
    for (size_t i = 0; i < queue->files.count; i++)
        tv_input_close(&queue->files.data[i]);
    TV_VEC_FINI(&queue->entries);
    TV_VEC_FINI(&queue->values);
    TV_VEC_FINI(&queue->lists);
    TV_VEC_FINI(&queue->inits);
    TV_VEC_FINI(&queue->output_locs);
    TV_VEC_FINI(&queue->metadata_additions);
    TV_VEC_FINI(&queue->kv_layouts);
    TV_VEC_FINI(&queue->kv_ranges);
    TV_VEC_FINI(&queue->range_refs);
    TV_VEC_FINI(&queue->derived_layouts);
    TV_VEC_FINI(&queue->extras);
    TV_VEC_FINI(&queue->top_members);
    TV_VEC_FINI(&queue->files);
    tv_arena_fini(&queue->arena);
    free(queue->strings);
    free(queue);
}

/* Units that the fields in bit mask `missing` would take. */
static unsigned absent_size(const cmdq_queue *queue, const cmdq_entry *e, uint64_t missing)
{
    const tv_parameter_use *uses = tv_isa_cmdq.insns[e->opcode].parameters;
    unsigned size = 0;
    for (; missing; missing &= missing - 1)
        size += queue->layout.size[uses[__builtin_ctzll(missing)].parameter];
    return size;
}

/* Units before those of field `use` of the list, which is given. */
static inline unsigned offset_of(const cmdq_queue *queue, const cmdq_entry *e, unsigned use)
{
    uint64_t missing = ((UINT64_C(1) << use) - 1) & ~e->present;
    return queue->layout.offset[e->opcode][use] - (missing ? absent_size(queue, e, missing) : 0);
}

/* The units of that field. */
static inline const uint32_t *find_value(const cmdq_queue *queue, const cmdq_entry *e, unsigned use)
{
    return queue->values.data + e->values + offset_of(queue, e, use);
}

unsigned cmdq_value_offset(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field)
{
    return offset_of(queue, e, queue->layout.use[e->opcode][field]);
}

uint64_t cmdq_integer(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field)
{
    uint8_t use = queue->layout.use[e->opcode][field];
    if (use == CMDQ_NO_USE || !(e->present >> use & 1))
        return (uint64_t)queue->layout.integers[field];
    const uint32_t *w = find_value(queue, e, use);
    return queue->layout.size[field] == 2 ? w[0] | (uint64_t)w[1] << 32 : w[0];
}

double cmdq_real(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field)
{
    uint8_t use = queue->layout.use[e->opcode][field];
    if (use == CMDQ_NO_USE || !(e->present >> use & 1))
        return queue->layout.reals[field];
    double x;
    memcpy(&x, find_value(queue, e, use), sizeof x);
    return x;
}
