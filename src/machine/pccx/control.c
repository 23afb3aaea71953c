/* SPDX-License-Identifier: Apache-2.0 */
/* The control state: what instructions are resolved against, and how they change it. */
#include "machine/pccx/handlers.h"
#include "machine/pccx/params.h"

void pccx_control_init(pccx_control *control, const tv_config *config)
{
    *control = (pccx_control){
        .config = config,
        .isa = &tv_isa_pccx,
        .handlers = pccx_handlers,
        .l2_words = tv_min_u64(tv_config_integer(config, PCCX_PARAM_L2_WORDS), PCCX_TAG_FIFO),
        .host_bytes = tv_config_integer(config, PCCX_PARAM_HOST_BYTES),
        .fifo_elements = (uint32_t)tv_config_integer(config, PCCX_PARAM_FIFO_ELEMENTS),
        .gemv_cores = (uint32_t)tv_config_integer(config, PCCX_PARAM_GEMV_CORES),
        .gemv_lanes = (uint32_t)tv_config_integer(config, PCCX_PARAM_GEMV_TILE_K),
        .parallel_lane_counts_lanes = tv_config_enum(config, PCCX_PARAM_GEMV_PARALLEL_LANE) == PCCX_PARALLEL_LANES,
        .gemm_tile_k = (uint32_t)tv_config_integer(config, PCCX_PARAM_GEMM_TILE_K),
        .gemm_tile_n = (uint32_t)tv_config_integer(config, PCCX_PARAM_GEMM_TILE_N),
        .gemm_k_max = (uint32_t)tv_config_integer(config, PCCX_PARAM_GEMM_K_MAX),
    };
}

void pccx_control_fini(pccx_control *control)
{
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        tv_buf_fini(&control->weights[k].list);
}

/* Drops the descriptors whose bytes have all been taken, so that a session of many programs does not keep them. */
static void drop_taken_descriptors(pccx_weights *w)
{
    size_t taken = w->next * sizeof(tv_descriptor);
    if (taken)
        memmove(w->list.data, w->list.data + taken, w->list.len - taken);
    w->list.len -= taken;
    w->next = 0;
}

/* Appends the descriptors that have bytes; returns their sum. */
static uint64_t append_descriptors(tv_buf *list, const tv_descriptor *descriptors, uint64_t count)
{
    uint64_t bytes = 0, empty = 0;
    for (uint64_t i = 0; i < count; i++) {
        bytes += descriptors[i].bytes;
        empty += descriptors[i].bytes == 0;
    }
    if (!empty)
        tv_buf_append(list, descriptors, count * sizeof *descriptors);
    for (uint64_t i = 0; empty && i < count; i++)
        if (descriptors[i].bytes)
            tv_buf_append(list, &descriptors[i], sizeof descriptors[i]);
    return bytes;
}

bool pccx_control_append(pccx_control *control, const tv_program *program)
{
    size_t old_size[PCCX_STREAMS];
    uint64_t left[PCCX_STREAMS];
    bool appended = true;
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        pccx_weights *w = &control->weights[k];
        drop_taken_descriptors(w);
        old_size[k] = w->list.len;
        left[k] = w->left + append_descriptors(&w->list, program->descriptors[k], program->descriptor_count[k]);
        appended = appended && !w->list.failed;
    }
    for (unsigned k = 0; k < PCCX_STREAMS; k++) { /* all streams or none */
        pccx_weights *w = &control->weights[k];
        if (appended)
            w->left = left[k];
        else
            w->list.len = old_size[k];
        w->list.failed = false;
    }
    return appended;
}

static void commit_constants(pccx_control *control, const pccx_op *op)
{
    for (unsigned i = 0; i < op->constant_count; i++) {
        const pccx_constant *c = &op->constants[i];
        if (!c->write)
            continue;
        uint16_t *values = control->constants[c->bank][c->entry];
        values[0] = (uint16_t)pccx_MEMSET_a_value(op->word);
        values[1] = (uint16_t)pccx_MEMSET_b_value(op->word);
        values[2] = (uint16_t)pccx_MEMSET_c_value(op->word);
        control->written[c->bank][c->entry] = true;
    }
}

static void commit_fifos(pccx_control *control, const pccx_op *op)
{
    for (unsigned i = 0; i < op->range_count; i++) {
        const pccx_range *r = &op->ranges[i];
        if (r->storage < PCCX_STORAGE_FIFO_TO_SFU)
            continue;
        uint32_t *count = &control->fifo_count[r->storage - PCCX_STORAGE_FIFO_TO_SFU];
        *count = r->write ? *count + (uint32_t)r->to : *count - (uint32_t)r->to;
    }
}

static void commit_weights(pccx_control *control, const pccx_op *op)
{
    if (op->stream_bytes == 0)
        return;
    pccx_weights *w = &control->weights[op->flow];
    const tv_descriptor *list = (const tv_descriptor *)(const void *)w->list.data;
    w->left -= op->stream_bytes;
    for (uint64_t left = op->stream_bytes; left > 0;) {
        uint64_t chunk = pccx_weights_chunk(&list[w->next], w->offset, left);
        left -= chunk;
        w->offset += chunk;
        if (w->offset == list[w->next].bytes) {
            w->next++;
            w->offset = 0;
        }
    }
}

void pccx_control_commit(pccx_control *control, const pccx_op *op)
{
    commit_constants(control, op);
    commit_fifos(control, op);
    commit_weights(control, op);
}
