/* SPDX-License-Identifier: Apache-2.0 */
/* KV caches of a queue: descriptors that entries name, and the layouts of files that give none.
 *
 * Without metadata.kv_layouts the cache at a base address is [head][token][element] without gaps; its sizes are the
 * largest ones that the queue's entries of that base need. A load without a base belongs to the one base of the entries
 * of its kind. */
#include "queue/queue.h"

enum { DERIVED_MAX = 4096 };

const cmdq_kv_range *cmdq_named_range(const cmdq_queue *queue, uint32_t entry)
{
    size_t low = 0, high = queue->range_refs.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (queue->range_refs.data[middle].entry < entry)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < queue->range_refs.count && queue->range_refs.data[low].entry == entry;
    return found ? &queue->kv_ranges.data[queue->range_refs.data[low].target] : NULL;
}

static unsigned resolve_names(tv_program *program, cmdq_queue *q, const tv_diag_sink *sink)
{
    enum { ERRORS_MAX = 100 };
    unsigned errors = 0;
    tv_line_cursor cursor = cmdq_line_cursor(program);
    for (size_t i = 0; i < q->range_refs.count; i++) {
        cmdq_range_ref *ref = &q->range_refs.data[i];
        const char *name = q->strings[ref->target];
        tv_nearest nearest = tv_nearest_to(tv_sv_of(name));
        uint32_t k = 0;
        for (; k < q->kv_ranges.count && strcmp(q->kv_ranges.data[k].name, name) != 0; k++)
            tv_nearest_offer(&nearest, q->kv_ranges.data[k].name);
        ref->target = k;
        if (k < q->kv_ranges.count || errors++ >= ERRORS_MAX)
            continue;
        char hint[120];
        tv_source_loc loc = cmdq_member_loc(program, ref->entry, &cursor, "kv_range_desc");
        snprintf(hint, sizeof hint, nearest.best ? "did you mean '%.60s'?" : "list it in metadata.kv_ranges%s",
                 nearest.best ? nearest.best : "");
        tv_report(sink, TV_ERROR, &cmdq_codes[CMDQ_CODE_RANGE], &loc, hint, "there is no KV range '%.60s'", name);
    }
    return errors;
}

static cmdq_kv_layout *derived_layout(cmdq_queue *q, uint64_t base)
{
    for (size_t i = 0; i < q->derived_layouts.count; i++)
        if (q->derived_layouts.data[i].k_base == base)
            return &q->derived_layouts.data[i];
    if (q->derived_layouts.count >= DERIVED_MAX ||
        !TV_VEC_PUSH(&q->derived_layouts, (cmdq_kv_layout){.k_base = base, .v_base = base}))
        return NULL;
    return &q->derived_layouts.data[q->derived_layouts.count - 1];
}

/* Extends the layout at `base` by the range of an entry. */
static void extend_layout(cmdq_queue *q, uint32_t i, uint64_t base)
{
    const cmdq_entry *e = &q->entries.data[i];
    const cmdq_kv_range *named = cmdq_named_range(q, i);
    cmdq_kv_range range = {.t_start = cmdq_integer(q, e, CMDQ_F_t_start),
                           .t_len = cmdq_integer(q, e, CMDQ_F_t_len),
                           .d_start = cmdq_integer(q, e, CMDQ_F_d_start),
                           .d_len = cmdq_has_field(q, e, CMDQ_F_d_len) ? cmdq_integer(q, e, CMDQ_F_d_len) : 0};
    cmdq_kv_layout *layout = derived_layout(q, base);
    if (!layout)
        return;
    if (named)
        range = *named;
    layout->heads = tv_max_u64(layout->heads, cmdq_integer(q, e, CMDQ_F_head_id) + 1);
    layout->t_max = tv_max_u64(layout->t_max, range.t_start + range.t_len);
    if (range.d_len)
        layout->d_head = tv_max_u64(layout->d_head, range.d_start + range.d_len);
}

static void derive_layouts(cmdq_queue *q)
{
    for (unsigned pass = 0; pass < 2; pass++) /* entries with a base, then those without */
        for (uint32_t i = 0; i < cmdq_entry_count(q); i++) {
            const cmdq_entry *e = &q->entries.data[i];
            if ((e->opcode != CMDQ_KV_STORE_TILE && e->opcode != CMDQ_KV_LOAD_TILE) ||
                cmdq_has_field(q, e, CMDQ_F_kv_layout_id) || cmdq_has_field(q, e, CMDQ_F_dram_base_addr) != (pass == 0))
                continue;
            unsigned kind = (unsigned)cmdq_integer(q, e, CMDQ_F_kv_kind);
            uint64_t base = pass ? q->derived_base[kind] : cmdq_integer(q, e, CMDQ_F_dram_base_addr);
            if (pass == 0 && (q->derived_bases[kind] == 0 || q->derived_base[kind] != base)) {
                q->derived_bases[kind] += q->derived_bases[kind] < 2;
                q->derived_base[kind] = base;
            }
            if (pass == 0 || q->derived_bases[kind] == 1)
                extend_layout(q, i, base);
        }
}

unsigned cmdq_resolve_kv_names(tv_program *program, cmdq_queue *q, bool has_errors, const tv_diag_sink *sink)
{
    unsigned errors = resolve_names(program, q, sink);
    if (!errors && !has_errors && !q->kv_layouts.count)
        derive_layouts(q);
    return errors;
}
