/* SPDX-License-Identifier: Apache-2.0 */
/* From a word to an operation: shapes from the Constant Cache, ranges, byte counts; all program faults that do not
 * depend on data (pccx specification, sections 2 and 4). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "machine/pccx/machine.h"
#include "machine/pccx/params.h"
#include "num/float.h"

void pccx_control_init(pccx_control *control, const tv_config *config)
{
    *control = (pccx_control){
        .l2_words = tv_min_u64(tv_config_integer(config, PCCX_PARAM_L2_WORDS), PCCX_TAG_FIFO),
        .host_bytes = tv_config_integer(config, PCCX_PARAM_HOST_BYTES),
        .fifo_elements = (uint32_t)tv_config_integer(config, PCCX_PARAM_FIFO_ELEMENTS),
        .gemv_cores = (uint32_t)tv_config_integer(config, PCCX_PARAM_GEMV_CORES),
        .gemm_k_max = (uint32_t)tv_config_integer(config, PCCX_PARAM_GEMM_K_MAX),
    };
}

void pccx_control_fini(pccx_control *control)
{
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        tv_buf_fini(&control->weights[k].list);
}

/* Else a session of many programs would keep all that it ever streamed. */
static void forget_taken(pccx_weights *w)
{
    size_t taken = w->next * sizeof(tv_descriptor);
    if (taken)
        memmove(w->list.data, w->list.data + taken, w->list.len - taken);
    w->list.len -= taken;
    w->next = 0;
}

bool pccx_control_append(pccx_control *control, const tv_program *program)
{
    tv_descriptor d;
    size_t before[PCCX_STREAMS];
    uint64_t left[PCCX_STREAMS];
    bool good = true;
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        pccx_weights *w = &control->weights[k];
        forget_taken(w);
        before[k] = w->list.len;
        left[k] = w->left;
        for (uint64_t i = 0; tv_program_descriptor_at(program, k, i, &d); i++)
            if (d.bytes) {
                tv_buf_append(&w->list, &d, sizeof d);
                left[k] += d.bytes;
            }
        good = good && !w->list.failed;
    }
    for (unsigned k = 0; k < PCCX_STREAMS; k++) { /* all or nothing */
        pccx_weights *w = &control->weights[k];
        if (good)
            w->left = left[k];
        else
            w->list.len = before[k];
        w->list.failed = false;
    }
    return good;
}

static bool refuse(pccx_rejection *why, pccx_code code, const char *format, ...) TV_PRINTF(3, 4);

static bool refuse(pccx_rejection *why, pccx_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    why->code = code;
    vsnprintf(why->message, sizeof why->message, format, args);
    va_end(args);
    return false;
}

static void add_range(pccx_op *op, pccx_place place, bool write, uint64_t from, uint64_t to)
{
    assert(op->range_count < PCCX_RANGES_MAX);
    op->ranges[op->range_count++] = (pccx_range){(uint8_t)place, write, from, to};
}

static bool l2_range(const pccx_control *control, pccx_op *op, bool write, uint64_t addr, uint64_t words,
                     const char *what, pccx_rejection *why)
{
    if (addr == PCCX_TAG_FIFO)
        return refuse(why, PCCX_CODE_L2_RANGE, "%s 0x1ffff names the direct FIFO, which this instruction cannot use",
                      what);
    if (addr > control->l2_words || words > control->l2_words - addr)
        return refuse(why, PCCX_CODE_L2_RANGE,
                      "%s l2[0x%" PRIx64 "] to l2[0x%" PRIx64 "] runs past the last addressable word 0x%" PRIx64, what,
                      addr, addr + words - 1, control->l2_words - 1);
    add_range(op, PCCX_IN_L2, write, addr, addr + words);
    return true;
}

static bool fifo_push(const pccx_control *control, pccx_op *op, unsigned fifo, uint64_t elements, pccx_rejection *why)
{
    if (elements > control->fifo_elements - control->fifo_count[fifo])
        return refuse(why, PCCX_CODE_FIFO_OVERFLOW,
                      "%" PRIu64 " results do not fit the direct FIFO: %u of its %u places are taken", elements,
                      control->fifo_count[fifo], control->fifo_elements);
    add_range(op, fifo == PCCX_FIFO_TO_SFU ? PCCX_IN_FIFO_TO_SFU : PCCX_IN_FIFO_TO_GEMV, true, 0, 1);
    return true;
}

static bool fifo_pop(const pccx_control *control, pccx_op *op, unsigned fifo, uint64_t elements, pccx_rejection *why)
{
    if (elements > control->fifo_count[fifo])
        return refuse(why, PCCX_CODE_FIFO_LENGTH,
                      "%" PRIu64 " elements are wanted from the direct FIFO, which holds %u", elements,
                      control->fifo_count[fifo]);
    add_range(op, fifo == PCCX_FIFO_TO_SFU ? PCCX_IN_FIFO_TO_SFU : PCCX_IN_FIFO_TO_GEMV, false, 0, 1);
    return true;
}

static uint64_t row_words(uint64_t elements) { return tv_ceil_div(elements, PCCX_LANES); }

/* ---- One function an instruction ---- */

/* GEMV and GEMM share their layout; `gemv` tells what differs. */
static bool resolve_matrix(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    uint64_t word = op->word;
    bool gemv = op->insn == PCCX_GEMV;
    const uint16_t *shape = control->constants[PCCX_WEIGHT_SHAPE][pccx_MATRIX_shape_ptr_addr(word)];
    const uint16_t *size = control->constants[PCCX_FMAP_SHAPE][pccx_MATRIX_size_ptr_addr(word)];
    op->engine = gemv ? PCCX_ENGINE_GEMV : PCCX_ENGINE_GEMM;
    op->stream = gemv ? PCCX_STREAM_GEMV : PCCX_STREAM_GEMM;
    op->m = shape[0];
    op->n = shape[1];
    op->k = shape[2];
    op->tile_n = size[0];
    op->tile_k = size[1];
    op->act_scale = size[2];
    op->dst = pccx_MATRIX_dest_reg(word);
    op->src = pccx_MATRIX_src_addr(word);
    op->lanes = pccx_MATRIX_parallel_lane(word);
    if (op->m == 0 || op->n == 0 || op->k == 0)
        return refuse(why, PCCX_CODE_ZERO_DIMENSION, "weight_shape[%u] is (M %u, N %u, K %u); none may be 0",
                      pccx_MATRIX_shape_ptr_addr(word), op->m, op->n, op->k);
    if (gemv && op->m != 1)
        return refuse(why, PCCX_CODE_GEMV_ROWS, "GEMV with M = %u; M must be 1", op->m);
    if (gemv && op->lanes > control->gemv_cores)
        return refuse(why, PCCX_CODE_LANES, "parallel_lane %u exceeds the %u GEMV cores", op->lanes,
                      control->gemv_cores);
    if (!gemv && op->k > control->gemm_k_max)
        return refuse(why, PCCX_CODE_K_MAX, "K = %u exceeds the accumulation bound of %u", op->k, control->gemm_k_max);
    if (tv_bf16_is_negative(op->act_scale) || (op->act_scale && !tv_bf16_is_finite(op->act_scale)))
        return refuse(why, PCCX_CODE_ACT_SCALE, "the static activation scale 0x%04x is not finite and above zero",
                      op->act_scale);
    op->lanes = op->lanes ? op->lanes : control->gemv_cores;

    /* The FIFOs are GEMV's alone; for GEMM the tag is a word that is not there. */
    bool from_fifo = gemv && op->src == PCCX_TAG_FIFO, to_fifo = gemv && op->dst == PCCX_TAG_FIFO;
    bool accm = pccx_MATRIX_accm(word) && !to_fifo;
    uint64_t src_words = op->m * row_words(op->k), dst_words = op->m * row_words(op->n);
    if (from_fifo ? !fifo_pop(control, op, PCCX_FIFO_TO_GEMV, op->k, why)
                  : !l2_range(control, op, false, op->src, src_words, "source", why))
        return false;
    if (to_fifo ? !fifo_push(control, op, PCCX_FIFO_TO_SFU, op->n, why)
                : !l2_range(control, op, true, op->dst, dst_words, "destination", why))
        return false;
    if (accm)
        add_range(op, PCCX_IN_L2, false, op->dst, op->dst + dst_words);
    if (pccx_MATRIX_findemax(word))
        add_range(op, PCCX_IN_EMAX, true, 0, 1);

    const pccx_weights *w = &control->weights[op->stream];
    op->stream_bytes = (pccx_MATRIX_w_scale(word) ? row_words(op->n) * PCCX_WORD_BYTES : 0) +
                       (uint64_t)op->n * tv_ceil_div(op->k, 32) * 16;
    op->macs = (uint64_t)op->m * op->n * op->k;
    if (op->stream_bytes > w->left)
        return refuse(why, PCCX_CODE_UNDERRUN, "the %s stream holds %" PRIu64 " bytes, %" PRIu64 " are wanted",
                      tv_isa_pccx.streams[op->stream], w->left, op->stream_bytes);
    op->weights = (const tv_descriptor *)(const void *)w->list.data + w->next;
    op->weights_offset = w->offset;
    uint64_t taken = 0, offset = op->weights_offset;
    for (const tv_descriptor *d = op->weights; taken < op->stream_bytes; d++, offset = 0) {
        uint64_t part = tv_min_u64(d->bytes - offset, op->stream_bytes - taken);
        if (d->addr > control->host_bytes || offset + part > control->host_bytes - d->addr)
            return refuse(why, PCCX_CODE_HOST_RANGE, "weights at host[0x%" PRIx64 "] run past the last byte 0x%" PRIx64,
                          d->addr + offset, control->host_bytes - 1);
        taken += part;
    }
    return true;
}

static bool resolve_GEMV(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_matrix(control, op, why);
}

static bool resolve_GEMM(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_matrix(control, op, why);
}

static bool resolve_memcpy(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    uint64_t word = op->word;
    const uint16_t *shape = control->constants[PCCX_FMAP_SHAPE][pccx_MEMCPY_shape_ptr_addr(word)];
    op->engine = PCCX_ENGINE_ACP;
    op->asynchronous = pccx_MEMCPY_async(word);
    op->synchronous = !op->asynchronous;
    op->src = pccx_MEMCPY_src_addr(word);
    op->dst = pccx_MEMCPY_dest_addr(word);
    op->words = row_words((uint64_t)shape[0] * shape[1] * shape[2]);
    if (op->words == 0)
        return refuse(why, PCCX_CODE_ZERO_DIMENSION, "fmap_shape[%u] is (%u, %u, %u); none may be 0",
                      pccx_MEMCPY_shape_ptr_addr(word), shape[0], shape[1], shape[2]);
    return (op->insn == PCCX_MEMCPY_LOAD || l2_range(control, op, false, op->src, op->words, "source", why)) &&
           (op->insn == PCCX_MEMCPY_STORE || l2_range(control, op, true, op->dst, op->words, "destination", why));
}

/* The host side: its word address is aux_addr above the 17 bits of the address on that side. */
static bool resolve_host(const pccx_control *control, pccx_op *op, bool write, uint64_t low, pccx_rejection *why)
{
    op->host_addr = ((uint64_t)pccx_MEMCPY_aux_addr(op->word) << 17 | low) * PCCX_WORD_BYTES;
    uint64_t bytes = op->words * PCCX_WORD_BYTES;
    if (op->host_addr > control->host_bytes || bytes > control->host_bytes - op->host_addr)
        return refuse(why, PCCX_CODE_HOST_RANGE,
                      "%" PRIu64 " bytes at host[0x%" PRIx64 "] run past the last byte 0x%" PRIx64, bytes,
                      op->host_addr, control->host_bytes - 1);
    add_range(op, PCCX_IN_HOST, write, op->host_addr, op->host_addr + bytes);
    return true;
}

static bool resolve_MEMCPY_LOAD(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_memcpy(control, op, why) && resolve_host(control, op, false, op->src, why);
}

static bool resolve_MEMCPY_STORE(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_memcpy(control, op, why) && resolve_host(control, op, true, op->dst, why);
}

static bool resolve_MEMCPY_MOVE(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_memcpy(control, op, why);
}

static bool resolve_MEMSET(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    (void)control;
    (void)why;
    op->engine = PCCX_ENGINE_NONE;
    return true;
}

static bool resolve_cvo(const pccx_control *control, pccx_op *op, uint64_t src_words, uint64_t results,
                        pccx_rejection *why)
{
    uint64_t word = op->word;
    op->engine = PCCX_ENGINE_SFU;
    op->asynchronous = pccx_CVO_async(word);
    op->synchronous = !op->asynchronous;
    op->src = pccx_CVO_src_addr(word);
    op->dst = pccx_CVO_dst_addr(word);
    op->length = pccx_CVO_length(word);
    if (op->length == 0)
        return refuse(why, PCCX_CODE_CVO_LENGTH, "length is 0");
    bool to_fifo = op->dst == PCCX_TAG_FIFO;
    if (op->src == PCCX_TAG_FIFO ? !fifo_pop(control, op, PCCX_FIFO_TO_SFU, op->length, why)
                                 : !l2_range(control, op, false, op->src, src_words, "source", why))
        return false;
    if (to_fifo ? !fifo_push(control, op, PCCX_FIFO_TO_GEMV, results, why)
                : !l2_range(control, op, true, op->dst, row_words(results), "destination", why))
        return false;
    if (pccx_CVO_accm(word) && !to_fifo)
        add_range(op, PCCX_IN_L2, false, op->dst, op->dst + row_words(results));
    if (pccx_CVO_sub_emax(word))
        add_range(op, PCCX_IN_EMAX, false, 0, 1);
    return true;
}

static bool resolve_elementwise(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    uint64_t length = pccx_CVO_length(op->word);
    return resolve_cvo(control, op, row_words(length), length, why);
}

#define ELEMENTWISE(name)                                                                                              \
    static bool resolve_##name(const pccx_control *control, pccx_op *op, pccx_rejection *why)                          \
    {                                                                                                                  \
        return resolve_elementwise(control, op, why);                                                                  \
    }
ELEMENTWISE(CVO_EXP)
ELEMENTWISE(CVO_SQRT)
ELEMENTWISE(CVO_GELU)
ELEMENTWISE(CVO_SIN)
ELEMENTWISE(CVO_COS)
ELEMENTWISE(CVO_RECIP)
#undef ELEMENTWISE

static bool resolve_CVO_REDUCE_SUM(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    return resolve_cvo(control, op, row_words(pccx_CVO_length(op->word)), 1, why);
}

static bool resolve_CVO_SCALE(const pccx_control *control, pccx_op *op, pccx_rejection *why)
{
    uint64_t length = pccx_CVO_length(op->word);
    if (pccx_CVO_src_addr(op->word) == PCCX_TAG_FIFO)
        return refuse(why, PCCX_CODE_SCALE_FIFO, "CVO_SCALE takes its scalar and its vector from L2");
    return resolve_cvo(control, op, 1 + row_words(length), length, why);
}

bool pccx_resolve(const pccx_control *control, pccx_insn insn, uint64_t word, pccx_op *op, pccx_rejection *why)
{
    typedef bool resolver(const pccx_control *, pccx_op *, pccx_rejection *);
    static resolver *const resolvers[PCCX_INSNS] = {
#define TV_INSN(id, mnemonic, format, fixed, operands, unit, uops, meaning, source) [PCCX_##id] = resolve_##id,
#include "isa/pccx/insns.def"
#undef TV_INSN
    };
    *op = (pccx_op){.insn = insn, .word = word};
    return resolvers[insn](control, op, why);
}

void pccx_control_commit(pccx_control *control, const pccx_op *op)
{
    if (op->insn == PCCX_MEMSET) {
        unsigned bank = pccx_MEMSET_dest_cache(op->word), entry = pccx_MEMSET_dest_addr(op->word);
        uint16_t *values = control->constants[bank][entry];
        values[0] = (uint16_t)pccx_MEMSET_a_value(op->word);
        values[1] = (uint16_t)pccx_MEMSET_b_value(op->word);
        values[2] = (uint16_t)pccx_MEMSET_c_value(op->word);
        control->written[bank][entry] = true;
        return;
    }
    for (unsigned i = 0; i < op->range_count; i++) {
        const pccx_range *r = &op->ranges[i];
        if (r->place != PCCX_IN_FIFO_TO_SFU && r->place != PCCX_IN_FIFO_TO_GEMV)
            continue;
        uint32_t *count = &control->fifo_count[r->place == PCCX_IN_FIFO_TO_SFU ? PCCX_FIFO_TO_SFU : PCCX_FIFO_TO_GEMV];
        uint32_t pushed = op->engine == PCCX_ENGINE_GEMV ? op->n : op->insn == PCCX_CVO_REDUCE_SUM ? 1 : op->length;
        uint32_t popped = op->engine == PCCX_ENGINE_GEMV ? op->k : op->length;
        *count = r->write ? *count + pushed : *count - popped;
    }
    if (op->stream_bytes == 0)
        return;
    pccx_weights *w = &control->weights[op->stream];
    w->left -= op->stream_bytes;
    const tv_descriptor *list = (const tv_descriptor *)(const void *)w->list.data;
    for (uint64_t rest = op->stream_bytes; rest > 0;) {
        uint64_t part = tv_min_u64(list[w->next].bytes - w->offset, rest);
        rest -= part;
        w->offset += part;
        if (w->offset == list[w->next].bytes) {
            w->next++;
            w->offset = 0;
        }
    }
}
