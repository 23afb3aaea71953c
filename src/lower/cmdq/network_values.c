/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of values of a network, and how tiles reach them. */
#include <math.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "lower/cmdq/network.h"

uint64_t cmdq_net_storage_index(const cmdq_network *net, uint32_t value, uint64_t i)
{
    const tv_graph_shape *s = cmdq_net_dims(net, value);
    if (net->values[value].is_view)
        return cmdq_net_view_index(net, value, i);
    if (!net->channels_last[value] && !net->values[value].crossed)
        return i;
    cmdq_net_image image = cmdq_net_image_of(s);
    uint64_t c = image.channels, pixels = image.h * image.w, first = i / (c * pixels) * (c * pixels);
    return first + i % pixels * c + i / pixels % c;
}

uint64_t cmdq_net_allocate_dram(cmdq_network *net, uint64_t bytes)
{
    uint64_t at = net->dram_end;
    net->dram_end += (bytes + 63) / 64 * 64;
    return at;
}

/* ---- Memory of SPM ---- */

static const cmdq_lower_buffer *buffer_at(const cmdq_network *net, uint32_t buffer)
{
    return &net->plan.buffers.data[buffer];
}

/* The lowest free offset of a bank; UINT64_MAX: there is no space. */
static uint64_t find_offset(const cmdq_network *net, uint32_t bank, uint64_t bytes)
{
    uint64_t at = 0;
    bool moved = true;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < net->live.count; i++) {
            const cmdq_lower_buffer *b = buffer_at(net, net->live.data[i]);
            if (b->bank == bank && b->offset < at + bytes && at < b->offset + b->bytes) {
                at = b->offset + b->bytes;
                moved = true;
            }
        }
    }
    return at + bytes <= net->l.bank_bytes ? at : UINT64_MAX;
}

/* Large buffers are allocated from the first bank on, small ones from the last, so that they do not divide the space of
 * large ones. */
uint32_t cmdq_net_try_buffer(cmdq_network *net, uint64_t bytes)
{
    enum { LARGE_SHARE = 3 };
    uint32_t banks = net->l.context; /* number of banks */
    bool large = bytes > net->l.bank_bytes / LARGE_SHARE;
    bytes = (bytes + 63) / 64 * 64;
    for (uint32_t i = 0; i < banks; i++) {
        uint32_t bank = large ? i : banks - 1 - i;
        uint64_t offset = find_offset(net, bank, bytes);
        if (offset == UINT64_MAX)
            continue;
        uint32_t buffer = cmdq_lower_add_buffer(&net->plan, bank, 0, 0, bytes);
        if (buffer == CMDQ_LOWER_NONE || !TV_VEC_PUSH(&net->live, buffer)) {
            net->status = TV_ERR_MEMORY;
            return TV_NO_VALUE;
        }
        net->plan.buffers.data[buffer].offset = offset;
        return buffer;
    }
    return TV_NO_VALUE;
}

void cmdq_net_release(cmdq_network *net, uint32_t buffer)
{
    for (size_t i = 0; i < net->live.count; i++)
        if (net->live.data[i] == buffer) {
            net->live.data[i] = net->live.data[--net->live.count];
            return;
        }
}

static void release_segments(cmdq_network *net, cmdq_net_value *v)
{
    for (uint32_t i = 0; i < v->segment_count; i++)
        cmdq_net_release(net, v->segments[i].where);
    v->segment_count = 0;
}

static bool uses_storage(const cmdq_network *net, const tv_graph_node *n, uint32_t storage)
{
    bool used = net->values[n->output].storage == storage;
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX; k++)
        used |= n->inputs[k] != TV_NO_VALUE && net->values[n->inputs[k]].storage == storage;
    return used;
}

/* Whether the current node uses a storage, or one that it executes with itself. */
static bool is_in_use(const cmdq_network *net, uint32_t storage)
{
    const tv_graph_node *n = tv_graph_node_at(net->graph, net->node);
    bool used = uses_storage(net, n, storage);
    for (uint32_t i = 0; n->op == TV_OP_MATMUL && i < net->node && !used; i++)
        used = net->in_attention[i] == net->node + 1 && uses_storage(net, tv_graph_node_at(net->graph, i), storage);
    return used;
}

/* Evicts the resident value that is used last, of those that the current node does not use. False: there is none.
 */
static bool evict(cmdq_network *net)
{
    uint32_t best = TV_NO_VALUE;
    for (uint32_t v = 0; v < net->graph->values.count; v++) {
        const cmdq_net_value *value = &net->values[v];
        if (value->segment_count && (best == TV_NO_VALUE || value->last_use > net->values[best].last_use) &&
            !is_in_use(net, v))
            best = v;
    }
    if (best == TV_NO_VALUE)
        return false;
    cmdq_net_store(net, best);
    release_segments(net, &net->values[best]);
    return true;
}

void cmdq_net_drop_output(cmdq_network *net, uint32_t value) { release_segments(net, cmdq_net_storage(net, value)); }

void cmdq_net_evict(cmdq_network *net, uint32_t value)
{
    cmdq_net_store(net, value);
    release_segments(net, cmdq_net_storage(net, value));
}

void cmdq_net_release_block(cmdq_network *net, const cmdq_net_block *b)
{
    cmdq_net_release(net, b->weights);
    cmdq_net_release(net, b->params);
}

bool cmdq_net_drop_ahead(cmdq_network *net)
{
    bool any = net->ahead.count > 0;
    for (size_t i = 0; i < net->ahead.count; i++)
        cmdq_net_release_block(net, &net->ahead.data[i]);
    net->ahead.count = 0;
    return any;
}

/* What is loaded ahead is loaded again when it is needed. */
uint32_t cmdq_net_buffer(cmdq_network *net, uint64_t bytes)
{
    uint32_t buffer = cmdq_net_try_buffer(net, bytes);
    while (buffer == TV_NO_VALUE && net->status == TV_OK && (evict(net) || cmdq_net_drop_ahead(net)))
        buffer = cmdq_net_try_buffer(net, bytes);
    if (buffer == TV_NO_VALUE && net->status == TV_OK)
        net->status = TV_ERR_INPUT;
    return buffer;
}

cmdq_net_slots cmdq_net_no_slots(void) { return (cmdq_net_slots){.buffers = {TV_NO_VALUE, TV_NO_VALUE, TV_NO_VALUE}}; }

cmdq_net_slots cmdq_net_allocate_slots(cmdq_network *net, uint64_t bytes)
{
    cmdq_net_slots slots = cmdq_net_no_slots();
    for (unsigned i = 0; i < CMDQ_NET_SLOTS && net->status == TV_OK; i++)
        slots.buffers[i] = cmdq_net_buffer(net, bytes);
    return slots;
}

void cmdq_net_release_slots(cmdq_network *net, const cmdq_net_slots *slots)
{
    for (unsigned i = 0; i < CMDQ_NET_SLOTS; i++)
        cmdq_net_release(net, slots->buffers[i]);
}

uint32_t cmdq_net_next_slot(cmdq_net_slots *slots) { return slots->buffers[slots->next++ % CMDQ_NET_SLOTS]; }

/* Segments of whole rows; false: there is no space, or a row fits no bank. */
static bool add_segments(cmdq_network *net, cmdq_net_value *v)
{
    uint64_t row_bytes = v->row_elements * v->qbits / 8;
    uint64_t rows_max = row_bytes ? net->l.bank_bytes / row_bytes : 0;
    uint64_t count = rows_max ? tv_ceil_div(v->rows, rows_max) : CMDQ_NET_SEGMENTS_MAX + 1;
    if (count > CMDQ_NET_SEGMENTS_MAX || !v->rows)
        return false;
    uint64_t rows = tv_ceil_div(v->rows, count);
    for (uint64_t row = 0; row < v->rows; row += rows) {
        uint64_t n = tv_min_u64(rows, v->rows - row);
        uint32_t buffer = cmdq_net_try_buffer(net, n * row_bytes);
        if (buffer == TV_NO_VALUE) {
            release_segments(net, v);
            return false;
        }
        v->segments[v->segment_count++] = (cmdq_net_range){row * v->row_elements, n * v->row_elements, buffer};
    }
    return true;
}

void cmdq_net_make_resident(cmdq_network *net, uint32_t value)
{
    cmdq_net_value *v = cmdq_net_storage(net, value);
    if (!v->segment_count && !net->keep_values)
        add_segments(net, v);
}

bool cmdq_net_take_memory(cmdq_network *net, uint32_t output, uint32_t from)
{
    cmdq_net_value *out = cmdq_net_storage(net, output), *old = cmdq_net_storage(net, from);
    if (!old->segment_count || out->segment_count || old->last_use > net->node || old->is_output ||
        old->qbits != out->qbits || old->elements != out->elements || net->keep_values)
        return false;
    for (uint32_t i = 0; i < old->segment_count; i++) {
        const cmdq_lower_buffer *b = buffer_at(net, old->segments[i].where);
        uint32_t bank = b->bank;
        uint64_t offset = b->offset, bytes = b->bytes;
        uint32_t buffer = cmdq_lower_add_buffer(&net->plan, bank, 0, 0, bytes);
        if (buffer == CMDQ_LOWER_NONE || !TV_VEC_PUSH(&net->live, buffer)) {
            net->status = TV_ERR_MEMORY;
            return false;
        }
        net->plan.buffers.data[buffer].offset = offset;
        out->segments[out->segment_count++] = (cmdq_net_range){old->segments[i].first, old->segments[i].count, buffer};
    }
    return true;
}

void cmdq_net_fetch(cmdq_network *net, uint32_t value)
{
    cmdq_net_value *v = cmdq_net_storage(net, value);
    if (v->segment_count || !add_segments(net, v))
        return;
    for (uint32_t i = 0; i < v->segment_count; i++) {
        cmdq_net_range s = v->segments[i];
        for (size_t k = 0; k < v->chunks.count; k++)
            if (v->chunks.data[k].first < s.first + s.count &&
                s.first < v->chunks.data[k].first + v->chunks.data[k].count)
                cmdq_lower_add_dependency(&net->l, v->chunks.data[k].where);
        cmdq_lower_load(&net->l, (cmdq_lower_operand){s.where, 0, v->qbits, v->scale}, "activation",
                        v->dram + s.first * v->qbits / 8, 1, s.count, 0);
    }
}

static void add_chunk(cmdq_network *net, cmdq_net_value *v, uint64_t first, uint64_t count)
{
    uint32_t entry = tv_queue_builder_count(net->l.builder) - 1;
    if (!TV_VEC_PUSH(&v->chunks, ((cmdq_net_range){first, count, entry})))
        net->status = TV_ERR_MEMORY;
}

void cmdq_net_store(cmdq_network *net, uint32_t value)
{
    cmdq_net_value *v = cmdq_net_storage(net, value);
    for (uint32_t i = 0; i < v->segment_count && !v->in_dram; i++) {
        cmdq_net_range s = v->segments[i];
        cmdq_lower_store(&net->l, (cmdq_lower_operand){s.where, 0, v->qbits, v->scale},
                         v->dram + s.first * v->qbits / 8, 1, s.count, 0);
        add_chunk(net, v, s.first, s.count);
    }
    v->in_dram = true;
}

/* ---- Tiles ---- */

static const cmdq_net_range *segment_of(const cmdq_network *net, uint32_t value, uint64_t first)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    for (uint32_t i = 0; i < v->segment_count; i++)
        if (first >= v->segments[i].first && first < v->segments[i].first + v->segments[i].count)
            return &v->segments[i];
    return NULL;
}

uint64_t cmdq_net_run_length(const cmdq_network *net, uint32_t value, uint64_t first, uint64_t count)
{
    const cmdq_net_range *s = segment_of(net, value, first);
    return s ? tv_min_u64(count, s->first + s->count - first) : count;
}

/* The end, in rows, of the segment that has a row; UINT64_MAX: the value is not resident. */
static uint64_t segment_end(const cmdq_network *net, uint32_t value, uint64_t row_elements, uint64_t row)
{
    const cmdq_net_range *s = segment_of(net, value, row * row_elements);
    return s ? (s->first + s->count) / row_elements : UINT64_MAX;
}

uint64_t cmdq_net_windows(const cmdq_network *net, uint32_t value, uint64_t row_elements, int64_t begin, uint64_t span,
                          uint64_t stride, uint64_t count)
{
    uint64_t end = segment_end(net, value, row_elements, begin > 0 ? (uint64_t)begin : 0),
             rows = net->values[value].elements / row_elements;
    if (end == UINT64_MAX || end >= rows)
        return count;
    int64_t rest = (int64_t)end - begin; /* rows of the segment from the first window on */
    if (rest >= (int64_t)span)
        return tv_min_u64(count, ((uint64_t)rest - span) / stride + 1);
    return rest > 0 ? tv_min_u64(count, tv_ceil_div((uint64_t)rest, stride)) : 1; /* a segment may end within a row */
}

uint64_t cmdq_net_crossing_rows(const cmdq_network *net, uint32_t value, uint64_t span, uint64_t stride)
{
    if (cmdq_net_storage(net, value)->segment_count < 2)
        return 0;
    return span > 1 ? (tv_ceil_div(span - 1, stride) - 1) * stride + span : 1;
}

bool cmdq_net_is_resident(const cmdq_network *net, uint32_t value, uint64_t first, uint64_t count)
{
    const cmdq_net_range *s = segment_of(net, value, first);
    return s && first + count <= s->first + s->count;
}

static cmdq_lower_operand segment_operand(const cmdq_network *net, uint32_t value, uint64_t first)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    const cmdq_net_range *s = segment_of(net, value, first);
    return (cmdq_lower_operand){s->where, (first - s->first) * v->qbits / 8, v->qbits, v->scale};
}

static void wait_for_chunks(cmdq_network *net, const cmdq_net_value *v, uint64_t first, uint64_t count)
{
    for (size_t k = 0; k < v->chunks.count; k++) {
        const cmdq_net_range *c = &v->chunks.data[k];
        if (c->first < first + count && first < c->first + c->count)
            cmdq_lower_add_dependency(&net->l, c->where);
    }
}

cmdq_lower_operand cmdq_net_read_rows(cmdq_network *net, uint32_t value, uint64_t first, uint64_t rows, uint64_t count,
                                      uint64_t stride, uint32_t slot)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    cmdq_lower_operand to = {slot, 0, v->qbits, v->scale};
    wait_for_chunks(net, v, first, (rows - 1) * stride + count);
    cmdq_lower_load(&net->l, to, "activation", v->dram + first * v->qbits / 8, rows, count, stride * v->qbits / 8);
    return to;
}

cmdq_lower_operand cmdq_net_read(cmdq_network *net, uint32_t value, uint64_t first, uint64_t count, uint32_t slot)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    if (cmdq_net_is_resident(net, value, first, count))
        return segment_operand(net, value, first);
    if (!v->segment_count)
        return cmdq_net_read_rows(net, value, first, 1, count, 0, slot);
    cmdq_lower_operand to = {slot, 0, v->qbits, v->scale};
    for (uint64_t done = 0, n; done < count; done += n) { /* of several segments: a vector engine copies them */
        n = cmdq_net_run_length(net, value, first + done, count - done);
        cmdq_lower_elementwise(&net->l, CMDQ_VE_CAST_TILE, segment_operand(net, value, first + done), NULL,
                               cmdq_lower_skip(to, done), n);
    }
    return to;
}

cmdq_lower_operand cmdq_net_write(const cmdq_network *net, uint32_t value, uint64_t first, uint64_t count,
                                  uint32_t slot)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    (void)count;
    return v->segment_count ? segment_operand(net, value, first) : (cmdq_lower_operand){slot, 0, v->qbits, v->scale};
}

static cmdq_lower_range range_of(cmdq_lower_operand operand, uint64_t rows, uint64_t count, uint64_t stride)
{
    return (cmdq_lower_range){operand.offset, count * operand.qbits / 8, rows, stride};
}

void cmdq_net_share_rows_of_output(cmdq_network *net, uint32_t value, cmdq_lower_operand operand, uint64_t rows,
                                   uint64_t count, uint64_t stride)
{
    if (cmdq_net_storage(net, value)->segment_count)
        cmdq_lower_write_tile(&net->l, range_of(operand, rows, count, stride));
}

void cmdq_net_share_output(cmdq_network *net, uint32_t value, cmdq_lower_operand operand, uint64_t count)
{
    cmdq_net_share_rows_of_output(net, value, operand, 1, count, 0);
}

void cmdq_net_share_rows_of_input(cmdq_network *net, cmdq_lower_operand operand, uint64_t rows, uint64_t count,
                                  uint64_t stride)
{
    cmdq_lower_limit_read(&net->l, range_of(operand, rows, count, stride));
}

void cmdq_net_share_input(cmdq_network *net, cmdq_lower_operand operand, uint64_t count)
{
    cmdq_net_share_rows_of_input(net, operand, 1, count, 0);
}

void cmdq_net_written_rows(cmdq_network *net, uint32_t value, uint64_t first, uint64_t rows, uint64_t count,
                           uint64_t stride, cmdq_lower_operand from)
{
    cmdq_net_value *v = cmdq_net_storage(net, value);
    cmdq_lower_store(&net->l, from, v->dram + first * v->qbits / 8, rows, count, stride * v->qbits / 8);
    add_chunk(net, v, first, (rows - 1) * stride + count);
    v->in_dram = true;
}

void cmdq_net_written(cmdq_network *net, uint32_t value, uint64_t first, uint64_t count, cmdq_lower_operand from)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    if (!v->segment_count || v->is_output)
        cmdq_net_written_rows(net, value, first, 1, count, 0, from);
}

/* ---- Operands ---- */

cmdq_net_slots cmdq_net_slots_for(cmdq_network *net, uint32_t value, uint64_t elements)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    return v->segment_count == 1 ? cmdq_net_no_slots() : cmdq_net_allocate_slots(net, elements * v->qbits / 8);
}

cmdq_net_slots cmdq_net_slots_of_runs(cmdq_network *net, uint32_t value, uint64_t elements)
{
    const cmdq_net_value *v = cmdq_net_storage(net, value);
    return v->segment_count ? cmdq_net_no_slots() : cmdq_net_allocate_slots(net, elements * v->qbits / 8);
}

/* In the order in which the value is stored. */
static tv_status write_constant(const cmdq_network *net, uint32_t value, const tv_tensor *t)
{
    const float *from = t->data;
    uint64_t count = tv_tensor_count(t);
    float *data = malloc((count + 1) * sizeof *data);
    if (!data)
        return tv_fail_memory(net->sink);
    for (uint64_t i = 0; i < count; i++)
        data[cmdq_net_storage_index(net, value, i)] = from[i];
    tv_status status =
        tv_machine_write(net->l.machine, "dram", net->values[value].dram, data, count * sizeof *data, net->sink);
    free(data);
    return status;
}

void cmdq_net_upload_constant(cmdq_network *net, uint32_t value)
{
    cmdq_net_value *v = &net->values[value];
    const tv_tensor *t = tv_graph_value_at(net->graph, value)->tensor;
    if (v->in_dram)
        return;
    v->dram = cmdq_net_allocate_dram(net, tv_tensor_count(t) * 4);
    v->in_dram = true;
    v->qbits = 32;
    v->scale = 1;
    if (!net->timing && net->status == TV_OK)
        net->status = write_constant(net, value, t);
}

cmdq_lower_operand cmdq_net_load_constant(cmdq_network *net, uint32_t value)
{
    cmdq_net_value *v = &net->values[value];
    uint64_t count = tv_tensor_count(tv_graph_value_at(net->graph, value)->tensor);
    cmdq_net_upload_constant(net, value);
    cmdq_lower_operand to = cmdq_lower_f32(cmdq_net_buffer(net, count * 4));
    if (net->status == TV_OK)
        cmdq_lower_load(&net->l, to, "weight", v->dram, 1, count, 0);
    return to;
}

cmdq_lower_operand cmdq_net_load_operand(cmdq_network *net, uint32_t value, cmdq_net_slots *slots)
{
    if (tv_graph_value_at(net->graph, value)->source == TV_VALUE_CONSTANT) {
        cmdq_lower_operand to = cmdq_net_load_constant(net, value);
        slots->buffers[0] = to.buffer;
        return to;
    }
    *slots = cmdq_net_slots_for(net, value, net->values[value].elements);
    return cmdq_net_read(net, value, 0, net->values[value].elements, cmdq_net_next_slot(slots));
}
