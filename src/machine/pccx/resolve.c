/* SPDX-License-Identifier: Apache-2.0 */
/* From an instruction word to an operation: dimensions from the Constant Cache, ranges, byte counts; and all program
 * faults that do not depend on data (pccx specification, sections 2 and 4).
 *
 * An operation is filled in from the top, so that after a rejection it holds what was resolved until then: the static
 * check reports the constants that an instruction reads even where those make it illegal. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "machine/pccx/resolver.h"
#include "num/float.h"

bool pccx_reject(pccx_rejection *why, pccx_code code, const char *format, ...)
{
    va_list args;
    why->code = code;
    if (why->code_only)
        return false;
    va_start(args, format);
    vsnprintf(why->message, sizeof why->message, format, args);
    va_end(args);
    return false;
}

/* ---- Lists of an operation ---- */

void pccx_add_range(pccx_op *op, pccx_storage storage, bool write, uint64_t from, uint64_t to)
{
    assert(op->range_count < PCCX_RANGES_MAX);
    op->ranges[op->range_count++] = (pccx_range){(uint8_t)storage, write, from, to};
}

/* Adds a Constant Cache entry that the instruction reads, and returns its three values. */
static const uint16_t *read_constant(const pccx_control *control, pccx_op *op, unsigned bank, unsigned entry,
                                     bool optional)
{
    assert(op->constant_count < PCCX_CONSTANTS_MAX);
    op->constants[op->constant_count++] = (pccx_constant){(uint8_t)bank, (uint8_t)entry, false, optional};
    return control->constants[bank][entry];
}

static void ignore_flag(pccx_op *op, unsigned flag, bool set)
{
    if (set)
        op->ignored = (uint8_t)(op->ignored | 1u << flag);
}

bool pccx_add_l2_range(const pccx_control *control, pccx_op *op, bool write, uint64_t addr, uint64_t size,
                       pccx_rejection *why)
{
    const char *what = write ? "destination" : "source";
    if (addr == PCCX_TAG_FIFO)
        return pccx_reject(why, PCCX_CODE_L2_RANGE,
                           "%s 0x1ffff names the direct FIFO, which this instruction cannot use", what);
    if (addr > control->l2_words || size > control->l2_words - addr)
        return pccx_reject(why, PCCX_CODE_L2_RANGE,
                           "%s l2[0x%" PRIx64 "] to l2[0x%" PRIx64 "] runs past the last addressable word 0x%" PRIx64,
                           what, addr, addr + size - 1, control->l2_words - 1);
    pccx_add_range(op, PCCX_STORAGE_L2, write, addr, addr + size);
    return true;
}

static bool push_fifo(const pccx_control *control, pccx_op *op, unsigned fifo, uint64_t elements, pccx_rejection *why)
{
    if (elements > control->fifo_elements - control->fifo_count[fifo])
        return pccx_reject(why, PCCX_CODE_FIFO_OVERFLOW,
                           "%" PRIu64 " results do not fit the direct FIFO: %u of its %u elements are in use", elements,
                           control->fifo_count[fifo], control->fifo_elements);
    pccx_add_range(op, PCCX_STORAGE_FIFO_TO_SFU + fifo, true, 0, elements);
    return true;
}

static bool pop_fifo(const pccx_control *control, pccx_op *op, unsigned fifo, uint64_t elements, pccx_rejection *why)
{
    if (elements > control->fifo_count[fifo])
        return pccx_reject(why, PCCX_CODE_FIFO_LENGTH,
                           "%" PRIu64 " elements are needed from the direct FIFO, which has %u", elements,
                           control->fifo_count[fifo]);
    pccx_add_range(op, PCCX_STORAGE_FIFO_TO_SFU + fifo, false, 0, elements);
    return true;
}

/* L2 words that a vector of `elements` takes. */
static uint64_t vector_size(uint64_t elements) { return tv_ceil_div(elements, PCCX_LANES); }

/* ---- GEMV and GEMM ---- */

static void resolve_dimensions(const pccx_control *control, pccx_op *op)
{
    unsigned size_ptr = pccx_MATRIX_size_ptr_addr(op->word);
    /* size entry 0 is the usual "all defaults", and zero is what an unwritten entry has */
    const uint16_t *size = read_constant(control, op, PCCX_FMAP_SHAPE, size_ptr, size_ptr == 0);
    const uint16_t *shape = read_constant(control, op, PCCX_WEIGHT_SHAPE, pccx_MATRIX_shape_ptr_addr(op->word), false);
    op->m = shape[0];
    op->n = shape[1];
    op->k = shape[2];
    op->tile_n = size[0];
    op->tile_k = size[1];
    op->act_scale = size[2];
    op->dst = pccx_MATRIX_dest_reg(op->word);
    op->src = pccx_MATRIX_src_addr(op->word);
}

static bool check_zero_dimension(const pccx_op *op, pccx_rejection *why)
{
    if (op->m && op->n && op->k)
        return true;
    return pccx_reject(why, PCCX_CODE_ZERO_DIMENSION, "weight_shape[%u] is (M %u, N %u, K %u); none may be 0",
                       pccx_MATRIX_shape_ptr_addr(op->word), op->m, op->n, op->k);
}

static bool check_act_scale(const pccx_op *op, pccx_rejection *why)
{
    if (!tv_bf16_is_negative(op->act_scale) && (!op->act_scale || tv_bf16_is_finite(op->act_scale)))
        return true;
    return pccx_reject(why, PCCX_CODE_ACT_SCALE, "the static activation scale 0x%04x is not finite and above zero",
                       op->act_scale);
}

/* The ranges beside source and destination: the old destination and e_max. */
static void add_matrix_ranges(pccx_op *op)
{
    if (op->accumulate)
        pccx_add_range(op, PCCX_STORAGE_L2, false, op->dst, op->dst + op->m * vector_size(op->n));
    if (pccx_MATRIX_findemax(op->word))
        pccx_add_range(op, PCCX_STORAGE_EMAX, true, 0, 1);
}

/* Steps of `unit` that cover `length` when it is first cut into tiles of `tile` (0: not cut). */
static uint32_t count_steps(uint32_t length, uint32_t tile, uint32_t unit)
{
    if (tile == 0 || tile >= length)
        return length / unit + (length % unit != 0);
    return length / tile * (tile / unit + (tile % unit != 0)) + length % tile / unit + (length % tile % unit != 0);
}

/* The bytes that the operation takes from its weight stream, and the host ranges that they come from. */
static bool resolve_weights(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    const pccx_weights *w = &control->weights[op->flow];
    op->macs = (uint64_t)op->m * op->n * op->k;
    op->k_steps = count_steps(op->k, op->tile_k, op->lanes);
    op->n_steps = count_steps(op->n, op->tile_n, op->cores);
    op->stream_bytes = (pccx_MATRIX_w_scale(op->word) ? vector_size(op->n) * PCCX_WORD_BYTES : 0) +
                       (uint64_t)op->n * tv_ceil_div(op->k, 32) * 16;
    op->bytes = op->stream_bytes;
    if (op->stream_bytes > w->left)
        return pccx_reject(why, PCCX_CODE_UNDERRUN, "the %s stream has %" PRIu64 " bytes, %" PRIu64 " are needed",
                           control->isa->streams[op->flow], w->left, op->stream_bytes);
    op->weights = (const tv_descriptor *)(const void *)w->list.data + w->next;
    op->weights_offset = w->offset;
    uint64_t left = op->stream_bytes, offset = op->weights_offset;
    for (const tv_descriptor *d = op->weights; left; d++, offset = 0) {
        uint64_t chunk = pccx_weights_chunk(d, offset, left);
        if (d->addr > control->host_bytes || offset + chunk > control->host_bytes - d->addr)
            return pccx_reject(why, PCCX_CODE_HOST_RANGE,
                               "weights at host[0x%" PRIx64 "] run past the last byte 0x%" PRIx64, d->addr + offset,
                               control->host_bytes - 1);
        left -= chunk;
    }
    return true;
}

/* parallel_lane has two readings, which the configuration chooses from; 0 is all in both. */
static bool resolve_parallel_lane(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    uint32_t count = pccx_MATRIX_parallel_lane(op->word);
    bool lanes = control->parallel_lane_counts_lanes;
    uint32_t max = lanes ? control->gemv_lanes : control->gemv_cores;
    if (count > max)
        return pccx_reject(why, PCCX_CODE_LANES, "parallel_lane %u exceeds the %u %s", count, max,
                           lanes ? "lanes of a GEMV core" : "GEMV cores");
    op->cores = count && !lanes ? count : control->gemv_cores;
    op->lanes = count && lanes ? count : control->gemv_lanes;
    return true;
}

bool pccx_resolve_GEMV(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    op->engine = PCCX_ENGINE_GEMV;
    op->path = PCCX_PATH_GEMV;
    op->flow = PCCX_STREAM_GEMV;
    resolve_dimensions(control, op);
    if (!check_zero_dimension(op, why))
        return false;
    if (op->m != 1)
        return pccx_reject(why, PCCX_CODE_GEMV_ROWS, "GEMV with M = %u; M must be 1", op->m);
    if (!resolve_parallel_lane(control, op, why) || !check_act_scale(op, why))
        return false;
    bool accm = pccx_MATRIX_accm(op->word), to_fifo = op->dst == PCCX_TAG_FIFO;
    op->accumulate = accm && !to_fifo;
    ignore_flag(op, PCCX_IGNORED_ACCM, accm && to_fifo);
    op->preload_bytes = op->src == PCCX_TAG_FIFO ? 0 : 2 * (uint64_t)op->k;
    if (op->src == PCCX_TAG_FIFO ? !pop_fifo(control, op, PCCX_FIFO_TO_GEMV, op->k, why)
                                 : !pccx_add_l2_range(control, op, false, op->src, vector_size(op->k), why))
        return false;
    if (to_fifo ? !push_fifo(control, op, PCCX_FIFO_TO_SFU, op->n, why)
                : !pccx_add_l2_range(control, op, true, op->dst, vector_size(op->n), why))
        return false;
    add_matrix_ranges(op);
    return resolve_weights(control, op, why);
}

bool pccx_resolve_GEMM(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    op->engine = PCCX_ENGINE_GEMM;
    op->path = PCCX_PATH_GEMM;
    op->flow = PCCX_STREAM_GEMM;
    resolve_dimensions(control, op);
    if (!check_zero_dimension(op, why))
        return false;
    if (op->k > control->gemm_k_max)
        return pccx_reject(why, PCCX_CODE_K_MAX, "K = %u exceeds the accumulation bound of %u", op->k,
                           control->gemm_k_max);
    if (!check_act_scale(op, why))
        return false;
    ignore_flag(op, PCCX_IGNORED_LANES, pccx_MATRIX_parallel_lane(op->word) != 0);
    op->accumulate = pccx_MATRIX_accm(op->word);
    op->cores = control->gemm_tile_n;
    op->lanes = control->gemm_tile_k;
    if (!pccx_add_l2_range(control, op, false, op->src, op->m * vector_size(op->k), why) ||
        !pccx_add_l2_range(control, op, true, op->dst, op->m * vector_size(op->n), why))
        return false;
    add_matrix_ranges(op);
    return resolve_weights(control, op, why);
}

/* ---- MEMCPY and MEMSET ---- */

/* The members that the three directions share. */
static bool resolve_copy(const pccx_control *control, pccx_op *op, pccx_path path, pccx_rejection *why)
{
    unsigned shape_ptr = pccx_MEMCPY_shape_ptr_addr(op->word);
    const uint16_t *shape = read_constant(control, op, PCCX_FMAP_SHAPE, shape_ptr, false);
    op->engine = PCCX_ENGINE_ACP;
    op->path = (uint8_t)path;
    op->asynchronous = pccx_MEMCPY_async(op->word);
    op->synchronous = !op->asynchronous;
    op->src = pccx_MEMCPY_src_addr(op->word);
    op->dst = pccx_MEMCPY_dest_addr(op->word);
    op->copy_size = vector_size((uint64_t)shape[0] * shape[1] * shape[2]);
    op->bytes = op->copy_size * PCCX_WORD_BYTES;
    if (op->copy_size == 0)
        return pccx_reject(why, PCCX_CODE_ZERO_DIMENSION, "fmap_shape[%u] is (%u, %u, %u); none may be 0", shape_ptr,
                           shape[0], shape[1], shape[2]);
    return true;
}

/* The host side: its word address is aux_addr above the 17 bits of the address on that side. */
static bool add_host_range(const pccx_control *control, pccx_op *op, bool write, uint64_t low, pccx_rejection *why)
{
    op->flow = PCCX_FLOW_ACP;
    op->host_addr = ((uint64_t)pccx_MEMCPY_aux_addr(op->word) << 17 | low) * PCCX_WORD_BYTES;
    if (op->host_addr > control->host_bytes || op->bytes > control->host_bytes - op->host_addr)
        return pccx_reject(why, PCCX_CODE_HOST_RANGE,
                           "%" PRIu64 " bytes at host[0x%" PRIx64 "] run past the last byte 0x%" PRIx64, op->bytes,
                           op->host_addr, control->host_bytes - 1);
    pccx_add_range(op, PCCX_STORAGE_HOST, write, op->host_addr, op->host_addr + op->bytes);
    return true;
}

bool pccx_resolve_MEMCPY_LOAD(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_copy(control, op, PCCX_PATH_LOAD, why) &&
           pccx_add_l2_range(control, op, true, op->dst, op->copy_size, why) &&
           add_host_range(control, op, false, op->src, why);
}

bool pccx_resolve_MEMCPY_STORE(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_copy(control, op, PCCX_PATH_STORE, why) &&
           pccx_add_l2_range(control, op, false, op->src, op->copy_size, why) &&
           add_host_range(control, op, true, op->dst, why);
}

bool pccx_resolve_MEMCPY_MOVE(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_copy(control, op, PCCX_PATH_MOVE, why) &&
           pccx_add_l2_range(control, op, false, op->src, op->copy_size, why) &&
           pccx_add_l2_range(control, op, true, op->dst, op->copy_size, why);
}

bool pccx_resolve_MEMSET(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    (void)control;
    (void)why;
    op->engine = PCCX_ENGINE_NONE;
    op->constants[op->constant_count++] = (pccx_constant){.bank = (uint8_t)pccx_MEMSET_dest_cache(op->word),
                                                          .entry = (uint8_t)pccx_MEMSET_dest_addr(op->word),
                                                          .write = true};
    return true;
}

/* ---- CVO ---- */

/* A function of `op->length` elements that reads `src_size` L2 words and has `results` elements of result. */
static bool resolve_cvo(const pccx_control *control, pccx_op *op, uint64_t src_size, uint64_t results,
                        pccx_rejection *why)
{
    bool accm = pccx_CVO_accm(op->word), to_fifo = op->dst == PCCX_TAG_FIFO;
    if (op->length == 0)
        return pccx_reject(why, PCCX_CODE_CVO_LENGTH, "length is 0");
    op->results = (uint32_t)results;
    op->accumulate = accm && !to_fifo;
    ignore_flag(op, PCCX_IGNORED_ACCM, accm && to_fifo);
    if (op->src == PCCX_TAG_FIFO ? !pop_fifo(control, op, PCCX_FIFO_TO_SFU, op->length, why)
                                 : !pccx_add_l2_range(control, op, false, op->src, src_size, why))
        return false;
    if (to_fifo ? !push_fifo(control, op, PCCX_FIFO_TO_GEMV, results, why)
                : !pccx_add_l2_range(control, op, true, op->dst, vector_size(results), why))
        return false;
    if (op->accumulate)
        pccx_add_range(op, PCCX_STORAGE_L2, false, op->dst, op->dst + vector_size(results));
    if (pccx_CVO_sub_emax(op->word))
        pccx_add_range(op, PCCX_STORAGE_EMAX, false, 0, 1);
    return true;
}

static void resolve_cvo_fields(pccx_op *op)
{
    op->engine = PCCX_ENGINE_SFU;
    op->asynchronous = pccx_CVO_async(op->word);
    op->synchronous = !op->asynchronous;
    op->src = pccx_CVO_src_addr(op->word);
    op->dst = pccx_CVO_dst_addr(op->word);
    op->length = pccx_CVO_length(op->word);
}

bool pccx_resolve_elementwise(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    resolve_cvo_fields(op);
    ignore_flag(op, PCCX_IGNORED_RECIP_SCALE, pccx_CVO_recip_scale(op->word));
    return resolve_cvo(control, op, vector_size(op->length), op->length, why);
}

#define PCCX_CVO_ELEMENTWISE(id, function, key, fill, action)                                                          \
    bool pccx_resolve_##id(const pccx_control *control, pccx_op *op, pccx_rejection *why)                              \
    {                                                                                                                  \
        return pccx_resolve_elementwise(control, op, why);                                                             \
    }
#include "machine/pccx/cvo.def"

bool pccx_resolve_CVO_REDUCE_SUM(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    resolve_cvo_fields(op);
    ignore_flag(op, PCCX_IGNORED_RECIP_SCALE, pccx_CVO_recip_scale(op->word));
    return resolve_cvo(control, op, vector_size(op->length), 1, why);
}

bool pccx_resolve_CVO_SCALE(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    resolve_cvo_fields(op);
    if (op->src == PCCX_TAG_FIFO)
        return pccx_reject(why, PCCX_CODE_SCALE_FIFO, "CVO_SCALE takes its scalar and its vector from L2");
    return resolve_cvo(control, op, 1 + vector_size(op->length), op->length, why);
}
