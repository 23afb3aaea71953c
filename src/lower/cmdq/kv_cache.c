/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of earlier positions, in DRAM with 8 bits. */
#include "lower/cmdq/emit.h"

static void begin_kv_entry(cmdq_lowering *l, cmdq_opcode opcode, bool v, uint32_t cache, uint32_t head)
{
    tv_queue_builder_opcode(l->builder, opcode);
    cmdq_lower_set_integer(l, CMDQ_F_head_id, head);
    tv_queue_builder_text(l->builder, CMDQ_F_kv_kind, v ? "v" : "k");
    cmdq_lower_set_integer(l, CMDQ_F_qbits_kv, 8);
    cmdq_lower_set_integer(l, CMDQ_F_kv_layout_id, cache);
}

void cmdq_lower_append_cache(cmdq_lowering *l, const tv_graph_node *n)
{
    uint32_t cache = n->attrs.cache;
    const tv_graph_cache *shape = &l->graph->caches.data[cache];
    for (uint32_t h = 0; h < shape->heads; h++)
        for (unsigned v = 0; v < 2; v++) {
            cmdq_lower_operand from = cmdq_lower_factor(l, n, 1 + v, (uint64_t)h * shape->key_dim);
            begin_kv_entry(l, CMDQ_KV_STORE_TILE, v, cache, h);
            cmdq_lower_set_address(l, CMDQ_F_spm_bank, from.buffer, from.offset);
            cmdq_lower_set_integer(l, CMDQ_F_dram_base_addr, v ? l->v_base[cache] : l->k_base[cache]);
            cmdq_lower_set_integer(l, CMDQ_F_t_start, l->position);
            cmdq_lower_set_integer(l, CMDQ_F_t_len, l->rows);
            cmdq_lower_grow(l, CMDQ_F_t_start, 1);
            cmdq_lower_add_read(l, from.buffer);
            cmdq_lower_add_dependency(l, l->kv_writer[cache]); /* chained: the last store implies all of them */
            l->kv_writer[cache] = cmdq_lower_finish_entry(l);
        }
}

void cmdq_lower_load_cache(cmdq_lowering *l, const tv_graph_node *n, uint32_t head, bool v, uint32_t to,
                           cmdq_lower_span span)
{
    begin_kv_entry(l, CMDQ_KV_LOAD_TILE, v, n->attrs.cache, head);
    cmdq_lower_set_address(l, CMDQ_F_spm_bank, to, 0);
    tv_queue_builder_object(l->builder, CMDQ_F_kv_range_desc);
    cmdq_lower_set_integer(l, CMDQ_F_t_start, span.start);
    cmdq_lower_set_integer(l, CMDQ_F_t_len, span.count);
    cmdq_lower_grow(l, CMDQ_F_t_start, span.start_growth);
    cmdq_lower_grow(l, CMDQ_F_t_len, span.count_growth);
    cmdq_lower_add_dependency(l, l->kv_writer[n->attrs.cache]);
    cmdq_lower_add_write(l, to);
    cmdq_lower_finish_entry(l);
}

/* That of the keys or values of the node that appends them. */
float cmdq_lower_cache_scale(const cmdq_lowering *l, uint32_t cache, unsigned input)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        if (n->op == TV_OP_ATTENTION && n->attrs.cache == cache && cmdq_lower_has_input(n, 1))
            return cmdq_lower_factor(l, n, input, 0).scale;
    }
    return 1;
}
