/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that are like the last one of their opcode but for addresses: most of a large queue. Their operation record
 * is that of the last one with other addresses, which are all that has to be checked. */
#include "machine/cmdq/resolver.h"

#include "machine/cmdq/ops.h"

/* The index of the first unit of a field that is given; *mask is 0 where addresses are. */
static uint8_t take_address(const cmdq_queue *queue, const cmdq_entry *e, cmdq_field field, cmdq_memo_row *row)
{
    unsigned unit = cmdq_value_offset(queue, e, field);
    for (unsigned i = 0; i < queue->layout.size[field]; i++)
        row->mask[unit + i] = 0;
    return (uint8_t)unit;
}

/* Keeps an entry and its operation, if it is one whose addresses are fields, and has not too many. */
static void keep_entry(const cmdq_queue *queue, const cmdq_entry *e, const cmdq_op *op, cmdq_memo_row *row)
{
    const cmdq_layout *layout = &queue->layout;
    unsigned last = e->present ? 63 - (unsigned)__builtin_clzll(e->present) : 0;
    cmdq_field last_field = (cmdq_field)tv_isa_cmdq.insns[e->opcode].parameters[last].parameter;
    unsigned count = e->present ? cmdq_value_offset(queue, e, last_field) + layout->size[last_field] : 0;
    row->unit_count = 0;
    if (count > CMDQ_MEMO_UNITS)
        return;
    for (unsigned t = 0; t < op->tile_count; t++) { /* a KV cache computes its addresses */
        const cmdq_tile *tile = &op->tiles[t];
        cmdq_field start = tile->bank == CMDQ_NO_BANK ? CMDQ_F_dram_addr : (cmdq_field)(tile->bank_field + 1);
        if (!cmdq_has_field(queue, e, start) ||
            (tile->bank != CMDQ_NO_BANK && !cmdq_has_field(queue, e, (cmdq_field)tile->bank_field)))
            return;
    }
    for (unsigned i = 0; i < count; i++) {
        row->units[i] = queue->values.data[e->values + i];
        row->mask[i] = UINT32_MAX;
    }
    for (unsigned t = 0; t < op->tile_count; t++) {
        bool is_dram = op->tiles[t].bank == CMDQ_NO_BANK;
        cmdq_field bank = (cmdq_field)op->tiles[t].bank_field,
                   start = is_dram ? CMDQ_F_dram_addr : (cmdq_field)(bank + 1);
        row->start[t] = take_address(queue, e, start, row);
        row->is_wide[t] = layout->size[start] == 2;
        row->bank[t] = is_dram ? 0 : take_address(queue, e, bank, row);
    }
    row->needs_channel = op->handlers->engine_class == CMDQ_DMA && !cmdq_has_field(queue, e, CMDQ_F_dma_id);
    row->present = e->present;
    row->unit_count = count;
    memcpy(&row->op, op, offsetof(cmdq_op, tiles) + op->tile_count * sizeof op->tiles[0]);
}

/* The operation of an entry like the one that is kept. False if it differs in more than addresses, or may not run. */
static bool recall_entry(const cmdq_queue *queue, const cmdq_params *params, const cmdq_memo_row *row,
                         const cmdq_entry *e, uint64_t *next_dma, cmdq_op *op)
{
    const uint32_t *units = queue->values.data + e->values;
    uint32_t differs = 0;
    if (!row->unit_count || row->present != e->present)
        return false;
    for (unsigned i = 0; i < row->unit_count; i++)
        differs |= (units[i] ^ row->units[i]) & row->mask[i];
    if (differs)
        return false;
    memcpy(op, &row->op, offsetof(cmdq_op, tiles) + row->op.tile_count * sizeof op->tiles[0]);
    for (unsigned t = 0; t < op->tile_count; t++) {
        cmdq_tile *tile = &op->tiles[t];
        uint64_t extent = cmdq_tile_extent(tile), limit = params->dram_bytes;
        tile->start = units[row->start[t]] | (row->is_wide[t] ? (uint64_t)units[row->start[t] + 1] << 32 : 0);
        if (tile->bank != CMDQ_NO_BANK) {
            uint32_t bank = units[row->bank[t]];
            if (bank >= params->banks)
                return false;
            tile->bank = (uint8_t)bank;
            limit = params->bank_bytes;
        }
        if (tile->start > limit || extent > limit - tile->start)
            return false;
    }
    if (op->handlers->engine_class == CMDQ_DMA) { /* the address decides how many bytes are transferred */
        op->cycles = op->handlers->cycles(params, op);
        if (op->cycles > CMDQ_CYCLES_MAX)
            return false;
    }
    if (row->needs_channel)
        op->engine = (uint8_t)(params->first[CMDQ_DMA] + cmdq_next_channel(params, next_dma));
    return true;
}

bool cmdq_resolve_with(cmdq_resolve_memo *memo, const cmdq_queue *queue, const cmdq_params *params, uint32_t index,
                       uint64_t *next_dma, cmdq_op *op, cmdq_error *error)
{
    const cmdq_entry *e = &queue->entries.data[index];
    if (e->opcode >= CMDQ_OPCODES) /* of an extension, whose cycles may depend on anything */
        return cmdq_resolve(queue, params, index, next_dma, op, error);
    cmdq_memo_row *row = &memo->rows[e->opcode];
    if (memo->is_kept[e->opcode] && recall_entry(queue, params, row, e, next_dma, op))
        return true;
    bool resolved = cmdq_resolve(queue, params, index, next_dma, op, error);
    memo->is_kept[e->opcode] = resolved;
    if (resolved)
        keep_entry(queue, e, op, row);
    return resolved;
}
