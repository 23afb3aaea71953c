/* SPDX-License-Identifier: Apache-2.0 */
/* The static check of a pccx program: it walks the words with the control state alone, so that shapes, ranges, stream
 * and FIFO counts are exact, and keeps for every L2 word who wrote it last. Assumes a machine that has just been reset
 * and memory loaded by the program alone. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/pccx/machine.h"
#include "num/float.h"

enum { WORDS = PCCX_TAG_FIFO + 1 };
static const uint32_t NEVER = UINT32_MAX;

typedef struct checker {
    const tv_program *program;
    tv_findings findings;
    tv_codec *codec;
    pccx_control control;
    uint64_t index;
    bool stopped;         /* an error has been found */
    uint32_t emax_writer; /* the last findemax, or NEVER */
    bool emax_read;
    uint32_t *writer;      /* of each L2 word: the instruction, or NEVER */
    bool *read;            /* … and whether its value has been read */
    uint32_t *unread;      /* of each instruction: words of its result that were overwritten before any read */
    uint32_t *result_size; /* of each instruction: words written */
} checker;

/* ---- Flags and pointers without meaning ---- */

static void check_flags(checker *c, const pccx_op *op)
{
    uint64_t w = op->word;
    if (op->engine == PCCX_ENGINE_SFU && pccx_CVO_recip_scale(w) && op->insn != PCCX_CVO_SCALE)
        tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_VAIN_FLAG, c->index, "only cvo.scale divides",
                           "recip_scale has no meaning here");
    if (op->engine == PCCX_ENGINE_SFU && pccx_CVO_accm(w) && op->dst == PCCX_TAG_FIFO)
        tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_VAIN_FLAG, c->index, NULL,
                           "accm has no meaning with the FIFO as destination");
    if (op->insn == PCCX_GEMV && pccx_MATRIX_accm(w) && op->dst == PCCX_TAG_FIFO)
        tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_VAIN_FLAG, c->index, NULL,
                           "accm has no meaning with the FIFO as destination");
    if (op->insn == PCCX_GEMM && pccx_MATRIX_parallel_lane(w))
        tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_VAIN_FLAG, c->index, "lanes= selects GEMV cores",
                           "parallel_lane has no meaning for GEMM");
    if (op->macs && tv_bf16_is_subnormal(op->act_scale))
        tv_findings_report(
            &c->findings, TV_WARNING, PCCX_CODE_ODD_SCALE, c->index,
            "size= takes (tile_n, tile_k, scale as BF16 bits); bf16(0.5) gives such bits",
            "the static activation scale 0x%04x is subnormal: is the size entry meant for something else?",
            op->act_scale);
}

static void check_entry(checker *c, unsigned bank, unsigned entry)
{
    static const char *const names[] = {"fmap_shape", "weight_shape"};
    if (!c->control.written[bank][entry])
        tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_NEVER_SET, c->index, "write it with memset first",
                           "%s[%u] is used but never written", names[bank], entry);
}

static void check_pointers(checker *c, int row, uint64_t w)
{
    if (row == PCCX_GEMV || row == PCCX_GEMM) {
        check_entry(c, PCCX_WEIGHT_SHAPE, pccx_MATRIX_shape_ptr_addr(w));
        /* size entry 0 is the usual "all defaults", and zero is what an unwritten entry holds */
        if (pccx_MATRIX_size_ptr_addr(w) != 0)
            check_entry(c, PCCX_FMAP_SHAPE, pccx_MATRIX_size_ptr_addr(w));
    } else if (row == PCCX_MEMCPY_LOAD || row == PCCX_MEMCPY_STORE || row == PCCX_MEMCPY_MOVE) {
        check_entry(c, PCCX_FMAP_SHAPE, pccx_MEMCPY_shape_ptr_addr(w));
    }
}

/* ---- L2 ---- */

static void check_read(checker *c, const pccx_range *r)
{
    bool warned = false;
    for (uint64_t w = r->from; w < r->to; w++) {
        if (c->writer[w] == NEVER && !warned) {
            tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_NEVER_WRITTEN, c->index,
                               "L2 is zero after reset; --load l2:… sets it",
                               "l2[0x%" PRIx64 "] is read, but nothing has written it", w);
            warned = true;
        }
        c->read[w] = true;
    }
}

static void check_write(checker *c, const pccx_range *r)
{
    c->result_size[c->index] += (uint32_t)(r->to - r->from);
    for (uint64_t w = r->from; w < r->to; w++) {
        uint32_t old = c->writer[w];
        if (old != NEVER && !c->read[w] && ++c->unread[old] == c->result_size[old])
            tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_DEAD_WRITE, old, NULL,
                               "its result is overwritten by instruction %" PRIu64 " before anything reads it",
                               c->index);
        c->writer[w] = (uint32_t)c->index;
        c->read[w] = false;
    }
}

static void check_l2(checker *c, const pccx_op *op)
{
    for (unsigned i = 0; i < op->range_count; i++)
        if (op->ranges[i].place == PCCX_IN_L2 && !op->ranges[i].write)
            check_read(c, &op->ranges[i]);
    for (unsigned i = 0; i < op->range_count; i++)
        if (op->ranges[i].place == PCCX_IN_L2 && op->ranges[i].write)
            check_write(c, &op->ranges[i]);
}

/* ---- e_max and the direct FIFOs ---- */

static void check_emax(checker *c, const pccx_op *op)
{
    for (unsigned i = 0; i < op->range_count; i++) {
        if (op->ranges[i].place != PCCX_IN_EMAX)
            continue;
        if (!op->ranges[i].write && c->emax_writer == NEVER)
            tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_NEVER_WRITTEN, c->index,
                               "findemax sets it; it is 0 after reset", "e_max is read, but nothing has set it");
        if (op->ranges[i].write && c->emax_writer != NEVER && !c->emax_read)
            tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_DEAD_WRITE, c->emax_writer, NULL,
                               "its e_max is overwritten by instruction %" PRIu64 " before anything reads it",
                               c->index);
        c->emax_read = !op->ranges[i].write;
        if (op->ranges[i].write)
            c->emax_writer = (uint32_t)c->index;
    }
}

static void check_fifos(checker *c)
{
    static const char *const names[PCCX_FIFOS] = {
        [PCCX_FIFO_TO_SFU] = "GEMV to SFU", [PCCX_FIFO_TO_GEMV] = "SFU to GEMV"};
    uint64_t count = tv_program_instruction_count(c->program);
    for (unsigned f = 0; f < PCCX_FIFOS; f++)
        if (c->control.fifo_count[f])
            tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_FIFO_LEFT, count - 1,
                               "a later program of the same machine could take them",
                               "%u elements in the direct FIFO from %s are taken by no instruction",
                               c->control.fifo_count[f], names[f]);
}

/* ---- The walk ---- */

/* An error; the check goes on, as if the instruction were not there. */
static void stop(checker *c, pccx_code code, const char *message)
{
    tv_findings_report(&c->findings, TV_ERROR, code, c->index, c->stopped ? NULL : "the machine stops here", "%s",
                       message);
    c->stopped = true;
}

static void check_word(checker *c)
{
    uint64_t word = tv_program_word(c->program, c->index);
    tv_illegal illegal;
    int row = tv_codec_row(c->codec, word, &illegal);
    if (row < 0) {
        tv_buf text = {0};
        tv_isa_print_illegal(&tv_isa_pccx, &illegal, &text);
        stop(c, (pccx_code)(illegal.code - pccx_codes), tv_buf_cstr(&text));
        tv_buf_fini(&text);
        return;
    }
    pccx_op op;
    pccx_rejection why;
    check_pointers(c, row, word);
    if (!pccx_resolve(&c->control, (pccx_insn)row, word, &op, &why)) {
        stop(c, why.code, why.message);
        return;
    }
    check_flags(c, &op);
    check_l2(c, &op);
    check_emax(c, &op);
    pccx_control_commit(&c->control, &op);
}

static void check_streams(checker *c)
{
    uint64_t count = tv_program_instruction_count(c->program);
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        if (c->control.weights[k].left)
            tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_UNUSED_STREAM, count ? count - 1 : 0,
                               "a later program of the same machine could take them",
                               "%" PRIu64 " bytes of the %s stream are taken by no instruction",
                               c->control.weights[k].left, tv_program_stream_name(c->program, k));
}

tv_status pccx_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                     tv_check_counts *counts)
{
    uint64_t count = tv_program_instruction_count(program);
    checker c = {.program = program,
                 .findings = {.program = program, .sink = sink, .codes = pccx_codes, .counts = counts},
                 .emax_writer = NEVER};
    if (count >= NEVER)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), NULL, "the program has more than 2^32 - 2 instructions");
    pccx_control_init(&c.control, config);
    c.writer = malloc(WORDS * sizeof *c.writer);
    c.read = calloc(WORDS, sizeof *c.read);
    c.unread = calloc(count + 1, sizeof *c.unread);
    c.result_size = calloc(count + 1, sizeof *c.result_size);
    tv_status status = c.writer && c.read && c.unread && c.result_size ? tv_codec_new_for(&tv_isa_pccx, sink, &c.codec)
                                                                       : tv_fail_memory(sink);
    if (status == TV_OK && !pccx_control_append(&c.control, program))
        status = tv_fail_memory(sink);
    if (status == TV_OK) {
        memset(c.writer, 0xFF, WORDS * sizeof *c.writer);
        for (c.index = 0; c.index < count; c.index++)
            check_word(&c);
        check_streams(&c);
        check_fifos(&c);
        tv_findings_report_omitted(&c.findings);
    }
    pccx_control_fini(&c.control);
    tv_codec_free(c.codec);
    free(c.writer);
    free(c.read);
    free(c.unread);
    free(c.result_size);
    return status;
}
