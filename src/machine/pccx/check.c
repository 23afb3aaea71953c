/* SPDX-License-Identifier: Apache-2.0 */
/* The static check of a pccx program: it resolves the instructions in order against a control state, so that
 * dimensions, ranges, stream and FIFO counts are exact, and records for every L2 word the instruction that wrote it
 * last. Assumes a machine after reset and memory loaded by the program alone. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/pccx/internal.h"
#include "machine/pccx/masks.h"
#include "num/float.h"

enum { L2_SIZE = PCCX_TAG_FIFO + 1 };
static const uint32_t NEVER = UINT32_MAX;

typedef struct checker {
    const tv_program *program;
    tv_findings findings;
    tv_codec *codec;
    pccx_control control;
    uint64_t index;
    bool failed;          /* an error has been found */
    uint32_t emax_writer; /* the last findemax, or NEVER */
    bool emax_read;
    uint32_t *writer;      /* of each L2 word: the instruction, or NEVER */
    bool *read;            /* … and whether it has been read since */
    uint32_t *unread;      /* of each instruction: words of its result that were overwritten before any read */
    uint32_t *result_size; /* of each instruction: words written */
} checker;

/* ---- Flags and constants ---- */

static void check_flags(checker *c, const pccx_op *op)
{
    static const struct {
        const char *hint, *message;
    } ignored[PCCX_IGNORED_FLAGS] = {
        [PCCX_IGNORED_RECIP_SCALE] = {"only cvo.scale divides", "recip_scale has no meaning here"},
        [PCCX_IGNORED_ACCM] = {NULL, "accm has no meaning with the FIFO as destination"},
        [PCCX_IGNORED_LANES] = {"lanes= selects cores or lanes of GEMV", "parallel_lane has no meaning for GEMM"},
    };
    for (unsigned i = 0; i < PCCX_IGNORED_FLAGS; i++)
        if (op->ignored >> i & 1)
            tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_VAIN_FLAG, c->index, ignored[i].hint, "%s",
                               ignored[i].message);
    if (tv_bf16_is_subnormal(op->act_scale))
        tv_findings_report(
            &c->findings, TV_WARNING, PCCX_CODE_ODD_SCALE, c->index,
            "size= takes (tile_n, tile_k, scale as BF16 bits); bf16(0.5) gives such bits",
            "the static activation scale 0x%04x is subnormal: is the size entry meant for something else?",
            op->act_scale);
}

/* The entries that the instruction reads, the dimensions before the tile sizes. */
static void check_constants(checker *c, const pccx_op *op)
{
    static const char *const banks[] = {[PCCX_FMAP_SHAPE] = "fmap_shape", [PCCX_WEIGHT_SHAPE] = "weight_shape"};
    for (unsigned i = op->constant_count; i-- > 0;) {
        const pccx_constant *k = &op->constants[i];
        if (!k->write && !k->optional && !c->control.written[k->bank][k->entry])
            tv_findings_report(&c->findings, TV_WARNING, PCCX_CODE_NEVER_SET, c->index, "write it with memset first",
                               "%s[%u] is used but never written", banks[k->bank], k->entry);
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
        if (op->ranges[i].storage == PCCX_STORAGE_L2 && !op->ranges[i].write)
            check_read(c, &op->ranges[i]);
    for (unsigned i = 0; i < op->range_count; i++)
        if (op->ranges[i].storage == PCCX_STORAGE_L2 && op->ranges[i].write)
            check_write(c, &op->ranges[i]);
}

/* ---- e_max and the direct FIFOs ---- */

static void check_emax(checker *c, const pccx_op *op)
{
    for (unsigned i = 0; i < op->range_count; i++) {
        if (op->ranges[i].storage != PCCX_STORAGE_EMAX)
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

/* Reports an error; the check continues as if the program did not contain the instruction. */
static void report_error(checker *c, pccx_code code, const char *message)
{
    tv_findings_report(&c->findings, TV_ERROR, code, c->index, c->failed ? NULL : "the machine stops here", "%s",
                       message);
    c->failed = true;
}

static void check_word(checker *c)
{
    uint64_t word = tv_program_word(c->program, c->index);
    tv_illegal illegal;
    int row = tv_codec_row(c->codec, word, &illegal);
    if (row < 0) {
        char storage[TV_CODEC_TEXT];
        tv_buf text = TV_BUF_FIXED(storage);
        tv_isa_print_illegal(&tv_isa_pccx, &illegal, &text);
        report_error(c, (pccx_code)(illegal.code - pccx_codes), tv_findings_text(&c->findings, &text));
        tv_buf_fini(&text);
        return;
    }
    pccx_op op;
    pccx_rejection why = {.code_only = false};
    bool resolved = pccx_resolve(&c->control, (unsigned)row, word, &op, &why);
    check_constants(c, &op);
    if (!resolved) {
        report_error(c, why.code, why.message);
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
    c.writer = malloc(L2_SIZE * sizeof *c.writer);
    c.read = calloc(L2_SIZE, sizeof *c.read);
    c.unread = calloc(count + 1, sizeof *c.unread);
    c.result_size = calloc(count + 1, sizeof *c.result_size);
    bool allocated = c.writer && c.read && c.unread && c.result_size;
    tv_status status = allocated ? tv_codec_new_for(&tv_isa_pccx, sink, &c.codec) : tv_fail_memory(sink);
    if (status == TV_OK && !pccx_control_append(&c.control, program))
        status = tv_fail_memory(sink);
    if (status == TV_OK) {
        memset(c.writer, 0xFF, L2_SIZE * sizeof *c.writer);
        for (c.index = 0; c.index < count; c.index++)
            check_word(&c);
        check_streams(&c);
        check_fifos(&c);
        status = tv_findings_finish(&c.findings);
    }
    if (status == TV_OK)
        status = pccx_find_masks(program, config, TV_WARNING, sink, counts);
    pccx_control_fini(&c.control);
    tv_codec_free(c.codec);
    free(c.writer);
    free(c.read);
    free(c.unread);
    free(c.result_size);
    return status;
}

tv_status pccx_hazards(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts)
{
    const pccx_machine *m = state;
    return pccx_find_masks(m->program, m->config, severity, sink, counts);
}
