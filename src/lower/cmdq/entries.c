/* SPDX-License-Identifier: Apache-2.0 */
/* Queue entries and their dependencies.
 *
 * Each buffer records its last writer and the readers since then. An entry depends on the writers of the buffers it
 * reads, and on the readers of the buffers it writes, or on their writers when nothing has read them. The first entry
 * that writes a buffer in a queue also waits for the entries of the buffers whose memory it takes. So a queue is free
 * of hazards by construction. */
#include "lower/cmdq/emit.h"

/* ---- Buffers and dependencies ---- */

static cmdq_lower_buffer *buffer_at(const cmdq_lowering *l, uint32_t buffer) { return &l->plan->buffers.data[buffer]; }

static cmdq_lower_operand operand_of(const cmdq_lowering *l, uint32_t value, const cmdq_lower_format *f,
                                     uint64_t column)
{
    uint64_t elements = (f->first + column) * cmdq_lower_rows(l, value);
    return (cmdq_lower_operand){f->buffer, elements * f->qbits / 8, f->qbits, f->scale};
}

cmdq_lower_operand cmdq_lower_value(const cmdq_lowering *l, uint32_t value, uint64_t column)
{
    return operand_of(l, value, &l->plan->formats[value], column);
}

/* Elements of an input before the first token that a node computes: those of the output block compute the last ones. */
static uint64_t elements_before(const cmdq_lowering *l, const tv_graph_node *n, uint32_t input)
{
    return n->block == TV_BLOCK_OUTPUT && !cmdq_lower_is_output(l, input)
               ? l->first_logits_row * tv_graph_elements(l->graph, input)
               : 0;
}

cmdq_lower_operand cmdq_lower_input(const cmdq_lowering *l, const tv_graph_node *n, unsigned input, uint64_t column)
{
    uint32_t value = n->inputs[input];
    return cmdq_lower_skip(cmdq_lower_value(l, value, column), elements_before(l, n, value));
}

cmdq_lower_operand cmdq_lower_factor(const cmdq_lowering *l, const tv_graph_node *n, unsigned input, uint64_t column)
{
    uint32_t value = n->inputs[input];
    const cmdq_lower_format *copy = &l->plan->copies[value];
    const cmdq_lower_format *f = copy->buffer == CMDQ_LOWER_NONE ? &l->plan->formats[value] : copy;
    return cmdq_lower_skip(operand_of(l, value, f, column), elements_before(l, n, value));
}

uint32_t cmdq_lower_scratch(const cmdq_lowering *l, const tv_graph_node *n, unsigned which)
{
    return l->plan->scratch[cmdq_lower_node_index(l, n)][which];
}

void cmdq_lower_begin_queue(cmdq_lowering *l)
{
    for (size_t i = 0; i < l->plan->buffers.count; i++) {
        cmdq_lower_buffer *p = buffer_at(l, (uint32_t)i);
        p->writer = CMDQ_LOWER_NONE;
        p->started = false;
        p->readers.count = p->writers.count = p->before.count = 0;
    }
    for (size_t i = 0; i < l->graph->caches.count; i++)
        l->kv_writer[i] = CMDQ_LOWER_NONE;
    l->slot = l->next_te = l->next_ve = 0;
    l->deps.count = l->occupied.count = 0;
    l->read_count = l->write_count = 0;
    l->has_tile = false;
}

void cmdq_lower_add_read(cmdq_lowering *l, uint32_t buffer)
{
    l->reads[l->read_count++] = buffer;
    cmdq_lower_limit_read(l, (cmdq_lower_range){0, buffer_at(l, buffer)->bytes, 1, 0});
}

void cmdq_lower_add_write(cmdq_lowering *l, uint32_t buffer) { l->writes[l->write_count++] = buffer; }

void cmdq_lower_limit_read(cmdq_lowering *l, cmdq_lower_range range) { l->read_ranges[l->read_count - 1] = range; }

void cmdq_lower_write_tile(cmdq_lowering *l, cmdq_lower_range range)
{
    l->has_tile = true;
    l->tile_buffer = l->writes[--l->write_count];
    l->tile = range;
}

void cmdq_lower_add_dependency(cmdq_lowering *l, uint32_t entry)
{
    if (entry == CMDQ_LOWER_NONE)
        return;
    for (size_t i = 0; i < l->deps.count; i++)
        if (l->deps.data[i] == entry)
            return;
    (void)TV_VEC_PUSH(&l->deps, entry);
}

/* Whether [a, a + a_count) and [b, b + b_count) have a number in common. */
static bool meet(uint64_t a, uint64_t a_count, uint64_t b, uint64_t b_count)
{
    return a < b + b_count && b < a + a_count;
}

/* Whether two ranges may share a byte; exact for rows of the same stride, which are columns of one matrix. */
static bool ranges_meet(const cmdq_lower_range *a, const cmdq_lower_range *b)
{
    uint64_t stride = a->stride;
    if (!meet(a->offset, (a->rows - 1) * a->stride + a->bytes, b->offset, (b->rows - 1) * b->stride + b->bytes))
        return false;
    if (a->rows == 1 || b->rows == 1 || b->stride != stride || a->offset % stride + a->bytes > stride ||
        b->offset % stride + b->bytes > stride)
        return true;
    return meet(a->offset % stride, a->bytes, b->offset % stride, b->bytes) &&
           meet(a->offset / stride, a->rows, b->offset / stride, b->rows);
}

/* Waits for the entries that wrote some of these bytes. */
static void wait_for_writers(cmdq_lowering *l, const cmdq_lower_buffer *p, cmdq_lower_range range)
{
    cmdq_lower_add_dependency(l, p->writer);
    for (size_t k = 0; k < p->writers.count; k++)
        if (ranges_meet(&range, &p->writers.data[k].range))
            cmdq_lower_add_dependency(l, p->writers.data[k].entry);
}

/* Waits for the last entries that used a buffer. Its readers have waited for its writer, and for those of the tiles
 * that they read. */
static void wait_for(cmdq_lowering *l, const cmdq_lower_buffer *p)
{
    if (!p->readers.count || p->writers.count)
        wait_for_writers(l, p, (cmdq_lower_range){0, p->bytes, 1, 0});
    for (size_t k = 0; k < p->readers.count; k++)
        cmdq_lower_add_dependency(l, p->readers.data[k]);
}

/* A buffer that an earlier queue wrote: later ones in its memory wait for the entries of this queue that read it. */
static void continue_buffer(cmdq_lowering *l, uint32_t buffer)
{
    if (buffer_at(l, buffer)->started)
        return;
    buffer_at(l, buffer)->started = true;
    l->deps.failed |= !TV_VEC_PUSH(&l->occupied, buffer);
}

/* Waits for the buffers whose memory a buffer takes over. These have ended; they are not used again in this queue.
 * Those that it covers need not be waited for again: the next buffer there waits for this one, which waits for them. */
static void take_over(cmdq_lowering *l, uint32_t buffer)
{
    cmdq_lower_buffer *p = buffer_at(l, buffer);
    size_t kept = 0;
    p->started = true;
    for (size_t i = 0; i < l->occupied.count; i++) {
        cmdq_lower_buffer *old = buffer_at(l, l->occupied.data[i]);
        bool meets = old->bank == p->bank && old->offset < p->offset + p->bytes && p->offset < old->offset + old->bytes;
        if (meets)
            wait_for(l, old);
        if (!meets || old->offset < p->offset || old->offset + old->bytes > p->offset + p->bytes)
            l->occupied.data[kept++] = l->occupied.data[i];
    }
    l->occupied.count = kept;
    l->deps.failed |= !TV_VEC_PUSH(&l->occupied, buffer);
}

/* Waits for what used the memory of a buffer that is written by tiles; the first such entry finds it. */
static void wait_for_memory(cmdq_lowering *l, uint32_t buffer)
{
    cmdq_lower_buffer *p = buffer_at(l, buffer);
    if (!p->started) {
        TV_VEC(uint32_t) others = {0};
        for (size_t i = 0; i < l->deps.count; i++)
            l->deps.failed |= !TV_VEC_PUSH(&others, l->deps.data[i]);
        l->deps.count = 0;
        take_over(l, buffer);
        for (size_t i = 0; i < l->deps.count; i++)
            l->deps.failed |= !TV_VEC_PUSH(&p->before, l->deps.data[i]);
        for (size_t i = 0; i < others.count; i++)
            cmdq_lower_add_dependency(l, others.data[i]);
        TV_VEC_FINI(&others);
        return;
    }
    for (size_t i = 0; i < p->before.count; i++)
        cmdq_lower_add_dependency(l, p->before.data[i]);
}

uint32_t cmdq_lower_finish_entry(cmdq_lowering *l)
{
    uint32_t id = tv_queue_builder_count(l->builder);
    if (l->has_tile)
        wait_for_memory(l, l->tile_buffer);
    for (unsigned i = 0; i < l->read_count; i++) {
        wait_for_writers(l, buffer_at(l, l->reads[i]), l->read_ranges[i]);
        continue_buffer(l, l->reads[i]);
    }
    for (unsigned i = 0; i < l->write_count; i++) {
        cmdq_lower_buffer *p = buffer_at(l, l->writes[i]);
        if (!p->started)
            take_over(l, l->writes[i]);
        wait_for(l, p);
    }
    for (unsigned i = 0; i < l->read_count; i++)
        l->deps.failed |= !TV_VEC_PUSH(&buffer_at(l, l->reads[i])->readers, id);
    for (unsigned i = 0; i < l->write_count; i++) {
        buffer_at(l, l->writes[i])->writer = id;
        buffer_at(l, l->writes[i])->readers.count = buffer_at(l, l->writes[i])->writers.count = 0;
    }
    if (l->has_tile)
        l->deps.failed |= !TV_VEC_PUSH(&buffer_at(l, l->tile_buffer)->writers, ((cmdq_lower_write){id, l->tile}));
    uint32_t count = cmdq_lower_order_end(&l->order, l->deps.data, (uint32_t)l->deps.count);
    l->deps.failed |= cmdq_lower_order_failed(&l->order);
    tv_queue_builder_end_entry(l->builder, l->block_name, l->deps.data, count);
    l->deps.count = 0;
    l->read_count = l->write_count = 0;
    l->has_tile = false;
    return id;
}

/* ---- Fields ---- */

void cmdq_lower_set_integer(cmdq_lowering *l, cmdq_field field, uint64_t value)
{
    tv_queue_builder_integer(l->builder, field, value);
    if (field == CMDQ_F_te_id)
        cmdq_lower_order_tensor(&l->order, value);
    else if (field == CMDQ_F_ve_id)
        cmdq_lower_order_vector(&l->order, value);
}

void cmdq_lower_set_scale(cmdq_lowering *l, cmdq_field field, float value)
{
    if (value != 1)
        tv_queue_builder_real(l->builder, field, (double)value);
}

/* An SPM address is two fields: the bank, followed by the offset. */
void cmdq_lower_set_address(cmdq_lowering *l, cmdq_field bank, uint32_t buffer, uint64_t offset)
{
    cmdq_lower_set_integer(l, bank, buffer_at(l, buffer)->bank);
    cmdq_lower_set_integer(l, bank + 1, buffer_at(l, buffer)->offset + offset);
}

_Static_assert(CMDQ_F_spm_offset == CMDQ_F_spm_bank + 1 && CMDQ_F_ifm_offset == CMDQ_F_ifm_bank + 1 &&
                   CMDQ_F_wgt_offset == CMDQ_F_wgt_bank + 1 && CMDQ_F_ofm_offset == CMDQ_F_ofm_bank + 1 &&
                   CMDQ_F_wgt_scale_offset == CMDQ_F_wgt_scale_bank + 1 && CMDQ_F_in_offset == CMDQ_F_in_bank + 1 &&
                   CMDQ_F_in2_offset == CMDQ_F_in2_bank + 1 && CMDQ_F_out_offset == CMDQ_F_out_bank + 1 &&
                   CMDQ_F_gamma_offset == CMDQ_F_gamma_bank + 1 && CMDQ_F_beta_offset == CMDQ_F_beta_bank + 1 &&
                   CMDQ_F_bias_offset == CMDQ_F_bias_bank + 1,
               "an offset follows its bank");

/* ---- Transfers ---- */

void cmdq_lower_begin_transfer(cmdq_lowering *l, cmdq_opcode opcode, const char *role, unsigned qbits, uint64_t addr,
                               uint64_t rows, uint64_t elements, uint64_t stride)
{
    tv_queue_builder_opcode(l->builder, opcode);
    cmdq_lower_order_transfer(&l->order);
    tv_queue_builder_text(l->builder, CMDQ_F_tensor_role, role);
    cmdq_lower_set_integer(l, CMDQ_F_qbits, qbits);
    cmdq_lower_set_integer(l, CMDQ_F_dram_addr, addr);
    cmdq_lower_set_integer(l, CMDQ_F_num_elements, rows * elements);
    if (rows > 1 && stride != elements * qbits / 8) {
        cmdq_lower_set_integer(l, CMDQ_F_stride_bytes, stride);
        cmdq_lower_set_integer(l, CMDQ_F_row_elements, elements);
    }
}

void cmdq_lower_load(cmdq_lowering *l, cmdq_lower_operand to, const char *role, uint64_t addr, uint64_t rows,
                     uint64_t elements, uint64_t stride)
{
    cmdq_lower_begin_transfer(l, CMDQ_DMA_LOAD_TILE, role, to.qbits, addr, rows, elements, stride);
    cmdq_lower_set_address(l, CMDQ_F_spm_bank, to.buffer, to.offset);
    cmdq_lower_add_write(l, to.buffer);
    cmdq_lower_finish_entry(l);
}

void cmdq_lower_store(cmdq_lowering *l, cmdq_lower_operand from, uint64_t addr, uint64_t rows, uint64_t elements,
                      uint64_t stride)
{
    cmdq_lower_begin_transfer(l, CMDQ_DMA_STORE_TILE, "activation", from.qbits, addr, rows, elements, stride);
    cmdq_lower_set_address(l, CMDQ_F_spm_bank, from.buffer, from.offset);
    cmdq_lower_add_read(l, from.buffer);
    cmdq_lower_finish_entry(l);
}

void cmdq_lower_load_vector(cmdq_lowering *l, const tv_graph_node *n, unsigned input, uint32_t to)
{
    const cmdq_lower_matrix *m = cmdq_lower_matrix_of(l, n, input);
    cmdq_lower_load(l, cmdq_lower_f32(to), "weight", m->data, 1, m->columns, 0);
}

/* ---- Tensor engines ---- */

void cmdq_lower_begin_tensor(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand in, cmdq_lower_operand wgt,
                             cmdq_lower_operand out, cmdq_lower_gemm shape)
{
    tv_queue_builder_opcode(l->builder, opcode);
    cmdq_lower_set_integer(l, CMDQ_F_te_id, l->next_te++ % l->te);
    cmdq_lower_set_integer(l, CMDQ_F_m, shape.m);
    cmdq_lower_set_integer(l, CMDQ_F_n, shape.n);
    cmdq_lower_set_integer(l, CMDQ_F_k, shape.k);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_weight, shape.weight_bits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_activation, in.qbits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_ofm, out.qbits);
    cmdq_lower_set_address(l, CMDQ_F_ifm_bank, in.buffer, in.offset);
    cmdq_lower_set_address(l, CMDQ_F_wgt_bank, wgt.buffer, wgt.offset);
    cmdq_lower_set_address(l, CMDQ_F_ofm_bank, out.buffer, out.offset);
    cmdq_lower_set_scale(l, CMDQ_F_scale_ifm, in.scale);
    cmdq_lower_set_scale(l, CMDQ_F_scale_ofm, out.scale);
    cmdq_lower_add_read(l, in.buffer);
    cmdq_lower_add_read(l, wgt.buffer);
    cmdq_lower_add_write(l, out.buffer);
}

unsigned cmdq_lower_load_weights(cmdq_lowering *l, const cmdq_lower_matrix *w, cmdq_lower_slice slice)
{
    unsigned slot = l->slot++ % CMDQ_LOWER_SLOTS;
    uint64_t scale_row = w->columns / w->group * 4;
    cmdq_lower_load(l, (cmdq_lower_operand){l->plan->weights[slot], 0, w->bits, 1}, "weight",
                    w->data + slice.row * w->row_bytes + (uint64_t)slice.column * w->bits / 8, slice.rows,
                    slice.columns, w->row_bytes);
    cmdq_lower_load(l, cmdq_lower_f32(l->plan->scales[slot]), "weight",
                    w->scales + slice.row * scale_row + slice.column / w->group * 4, slice.rows,
                    slice.columns / w->group, scale_row);
    return slot;
}

void cmdq_lower_multiply(cmdq_lowering *l, const cmdq_lower_matrix *w, unsigned slot, cmdq_lower_operand in,
                         cmdq_lower_operand out, cmdq_lower_slice slice, uint32_t m)
{
    uint32_t scales = l->plan->scales[slot];
    cmdq_lower_begin_tensor(l, CMDQ_TE_GEMM_TILE, in, cmdq_lower_f32(l->plan->weights[slot]), out,
                            (cmdq_lower_gemm){m, slice.rows, slice.columns, w->bits});
    cmdq_lower_set_address(l, CMDQ_F_wgt_scale_bank, scales, 0);
    cmdq_lower_set_integer(l, CMDQ_F_wgt_group, w->group);
    if (slice.accumulate)
        tv_queue_builder_flag(l->builder, CMDQ_F_accumulate, true);
    if (slice.bias != CMDQ_LOWER_NONE) {
        cmdq_lower_set_address(l, CMDQ_F_bias_bank, slice.bias, (uint64_t)slice.row * 4);
        cmdq_lower_add_read(l, slice.bias);
    }
    cmdq_lower_add_read(l, scales);
    cmdq_lower_finish_entry(l);
}

/* ---- Vector engines ---- */

void cmdq_lower_begin_vector(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand in, cmdq_lower_operand out,
                             uint64_t rows, uint64_t length)
{
    tv_queue_builder_opcode(l->builder, opcode);
    cmdq_lower_set_integer(l, CMDQ_F_ve_id, l->next_ve++ % l->ve);
    cmdq_lower_set_integer(l, CMDQ_F_rows, rows);
    cmdq_lower_set_integer(l, CMDQ_F_length, length);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_activation, in.qbits);
    cmdq_lower_set_integer(l, CMDQ_F_qbits_out, out.qbits);
    cmdq_lower_set_address(l, CMDQ_F_in_bank, in.buffer, in.offset);
    cmdq_lower_set_address(l, CMDQ_F_out_bank, out.buffer, out.offset);
    cmdq_lower_set_scale(l, CMDQ_F_scale_in, in.scale);
    cmdq_lower_set_scale(l, CMDQ_F_scale_out, out.scale);
    cmdq_lower_add_read(l, in.buffer);
    cmdq_lower_add_write(l, out.buffer);
}

void cmdq_lower_elementwise(cmdq_lowering *l, cmdq_opcode opcode, cmdq_lower_operand a, const cmdq_lower_operand *b,
                            cmdq_lower_operand out, uint64_t length)
{
    cmdq_lower_begin_vector(l, opcode, a, out, 1, length);
    if (b) {
        cmdq_lower_set_address(l, CMDQ_F_in2_bank, b->buffer, b->offset);
        cmdq_lower_set_scale(l, CMDQ_F_scale_in2, b->scale);
        if (b->qbits != a.qbits)
            cmdq_lower_set_integer(l, CMDQ_F_qbits_in2, b->qbits);
        cmdq_lower_add_read(l, b->buffer);
    }
    cmdq_lower_finish_entry(l);
}
