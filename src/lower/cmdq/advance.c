/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of the next token from that of the last one. When tokens are generated one by one, their queues differ only
 * in the fields that depend on the position: they are remembered while a queue is built, with what they grow by, and
 * changed in place. All other entries are neither built nor checked again. */
#include "lower/cmdq/emit.h"
#include "machine/target.h"

void cmdq_lower_begin_growth(cmdq_lowering *l)
{
    l->growth.fields.count = l->growth.entries.count = 0;
    l->growth.end = 0;
    l->growth.limit = l->rows == 1 && !l->emit && !l->values ? UINT32_MAX : 0;
}

void cmdq_lower_grow(cmdq_lowering *l, cmdq_field field, int64_t per_position)
{
    uint32_t entry = tv_queue_builder_count(l->builder);
    size_t count = l->growth.entries.count;
    if (!l->growth.limit || !per_position)
        return;
    bool ok = TV_VEC_PUSH(&l->growth.fields, ((cmdq_lower_growing){entry, field, per_position}));
    if (!count || l->growth.entries.data[count - 1] != entry)
        ok = TV_VEC_PUSH(&l->growth.entries, entry) && ok;
    if (!ok) /* then queues are built again */
        l->growth.limit = 0;
}

void cmdq_lower_limit_growth(cmdq_lowering *l, uint32_t position)
{
    l->growth.limit = cmdq_lower_min(l->growth.limit, position);
}

void cmdq_lower_end_growth(cmdq_lowering *l)
{
    l->growth.position = l->position;
    l->growth.first_logits_row = l->first_logits_row;
    l->growth.end = l->first_node ? 0 : l->growth.limit; /* a queue that the host interrupted is a part of the step */
}

bool cmdq_lower_can_advance(const cmdq_lowering *l)
{
    return l->rows == 1 && l->position >= l->growth.position && l->position < l->growth.end &&
           l->first_logits_row == l->growth.first_logits_row && tv_machine_can_reload(l->machine, l->loaded_program);
}

tv_status cmdq_lower_advance(cmdq_lowering *l, const tv_diag_sink *sink)
{
    int64_t positions = (int64_t)l->position - l->growth.position;
    for (size_t i = 0; i < l->growth.fields.count; i++) {
        const cmdq_lower_growing *g = &l->growth.fields.data[i];
        tv_queue_add_integer(l->loaded_program, g->entry, g->field, g->per_position * positions);
    }
    l->growth.position = l->position;
    return tv_machine_reload(l->machine, l->growth.entries.data, l->growth.entries.count, sink);
}

void cmdq_lower_fini_growth(cmdq_lowering *l)
{
    TV_VEC_FINI(&l->growth.fields);
    TV_VEC_FINI(&l->growth.entries);
}
