/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver's masks hid. A driver that masks its arguments to the width of a field issues a legal word for a value
 * that does not fit: 70,000 elements become 4,464. The word alone does not show it; other instructions of the program
 * may. Evidence is
 *
 * - a vector that is read from its beginning, but shorter than it was written, by what a mask removes from one of the
 *   values that decide its length, while no instruction reads from the end of the part on, as the next one of a split
 *   vector does;
 * - a vector that is read longer than it was written, by such an amount, where nothing has written the rest;
 * - addresses at equal distances that go on modulo the width of the field;
 * - MEMSETs to one entry after another that go on modulo 64, and overwrite a value that nothing has used;
 * - a weight stream from which as many bytes are left as rows that a mask removed from N would have taken.
 *
 * A lower number must not be reported only because it could come from a mask: each of these is wrong, or most unusual,
 * in a program that means what it says. */
#include "machine/pccx/masks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"

enum { L2_SIZE = PCCX_TAG_FIFO + 1, VALUES = 1 << 16, VALUES_SIZE = VALUES / PCCX_LANES };
enum { FACTORS = 3, ENTRIES = PCCX_CACHE_ENTRIES };
static const uint32_t NONE = UINT32_MAX;

/* The values of 16 bits that decide how long the vectors of an instruction are. */
typedef enum masks_form { FORM_NONE, FORM_LENGTH, FORM_COPY, FORM_MATRIX } masks_form;

typedef struct extent {
    uint32_t from, size; /* L2 words of the result */
    uint16_t factors[FACTORS];
    uint8_t form, pointer; /* entry of the factors */
    uint8_t stream;        /* of its weights */
    bool one_result;       /* the size of the result does not depend on the factors */
} extent;

/* A value that may have been masked. */
typedef struct masked {
    unsigned factor;
    uint64_t value, intended;
} masked;

/* A vector that is read shorter than it was written, until something reads its rest. */
typedef struct short_read {
    uint32_t reader, writer, next; /* next: index + 1 of the next one of the same split, 0 at the end */
    uint32_t words, from;
    masked mask;
    extent form; /* of the reader */
    bool split;
} short_read;

typedef struct sequence {
    uint64_t key, first, last, stride;
    uint32_t equal; /* strides in a row */
    bool rejected;  /* one of the ranges runs past the last word */
} sequence;

enum { SEQUENCES = 64 };
typedef enum operand { OPERAND_DST, OPERAND_SRC, OPERAND_HOST, OPERANDS } operand;

typedef struct masks {
    const tv_program *program;
    tv_findings findings;
    tv_severity severity;
    tv_codec *codec;
    pccx_control control;
    uint32_t index;
    extent *extents;     /* of each instruction */
    uint32_t *row_bytes; /* of each instruction: weights of a row, 0: it takes none; of eight rows with `w_scale` */
    uint32_t *writer;    /* of each L2 word: index + 1 of the instruction, or 0 */
    bool *begun;         /* a vector that begins there has been read since */
    uint32_t *split;     /* the short reads that end there: index + 1 of the first one, or 0 */
    TV_VEC(short_read) reads;
    sequence sequences[SEQUENCES];
    uint32_t setter[2][ENTRIES]; /* MEMSET of an entry that nothing has used, or NONE */
    uint32_t entry[2];           /* of the last MEMSET of a bank, counted on past 63 */
    uint32_t first_entry[2];     /* of those in a row */
} masks;

/* ---- The values that decide a length ---- */

/* By pointer: the copy of a structure that is returned waits for the stores of its members. */
static void set_factors(const masks *m, const pccx_op *op, extent *e)
{
    const pccx_constant *c = op->constant_count ? &op->constants[op->constant_count - 1] : NULL;
    if (op->engine == PCCX_ENGINE_SFU) {
        e->form = FORM_LENGTH;
        e->factors[0] = (uint16_t)op->length;
        e->one_result = op->row == PCCX_CVO_REDUCE_SUM;
    } else if (c && !c->write) {
        e->form = op->engine == PCCX_ENGINE_ACP ? FORM_COPY : FORM_MATRIX;
        e->pointer = c->entry;
        e->stream = op->flow;
        memcpy(e->factors, m->control.constants[c->bank][c->entry], sizeof e->factors);
    }
}

/* L2 words that 2^16 more of factor `i` add to the source or the result of an instruction; 0: none. */
static uint64_t size_of_mask(const extent *e, unsigned i, bool result)
{
    const uint16_t *f = e->factors;
    switch ((masks_form)e->form) {
    case FORM_NONE:
        return 0;
    case FORM_LENGTH:
        return i == 0 && !(result && e->one_result) ? VALUES_SIZE : 0;
    case FORM_COPY: /* a factor of 1 is no count */
        return f[i] < 2 ? 0 : (uint64_t)VALUES_SIZE * f[(i + 1) % FACTORS] * f[(i + 2) % FACTORS];
    case FORM_MATRIX:
        if (i == 0)
            return VALUES * tv_ceil_div(f[result ? 1 : 2], PCCX_LANES);
        return i == (result ? 1 : 2) ? (uint64_t)VALUES_SIZE * f[0] : 0;
    }
    return 0;
}

/* Whether a vector that is `missing` words too short is so because of a mask. */
static bool find_mask(const extent *e, uint64_t missing, bool result, masked *out)
{
    for (unsigned i = 0; i < FACTORS; i++) {
        uint64_t step = size_of_mask(e, i, result);
        if (!step || missing % step)
            continue;
        *out = (masked){i, e->factors[i], e->factors[i] + missing / step * VALUES};
        return true;
    }
    return false;
}

/* "length", or "K of weight_shape[3]". */
static void print_factor(const extent *e, const masked *mask, char text[40])
{
    static const char *const names[] = {[FORM_COPY] = "abc", [FORM_MATRIX] = "MNK"};
    static const char *const banks[] = {[FORM_COPY] = "fmap_shape", [FORM_MATRIX] = "weight_shape"};
    if (e->form == FORM_LENGTH || e->form == FORM_NONE)
        snprintf(text, 40, "length");
    else
        snprintf(text, 40, "%c of %s[%u]", names[e->form][mask->factor], banks[e->form], e->pointer);
}

static void report_value(masks *m, uint32_t index, const extent *e, const masked *mask, const char *why)
{
    char name[40];
    bool is_length = e->form == FORM_LENGTH;
    print_factor(e, mask, name);
    tv_findings_report(&m->findings, m->severity, is_length ? PCCX_CODE_MASKED_LENGTH : PCCX_CODE_MASKED_VALUE, index,
                       is_length ? "split the vector into instructions of at most 65535 elements"
                                 : "values of a shape are at most 65535",
                       "%s is %" PRIu64 ", which is %" PRIu64 " modulo 2^16: %s", name, mask->value, mask->intended,
                       why);
}

/* ---- Vectors in L2 ---- */

/* A vector of `words` at `from` is read by an instruction with the factors `e`. */
static void check_short_read(masks *m, const extent *e, uint32_t from, uint64_t words)
{
    masked mask;
    uint32_t by = m->writer[from], end = from + (uint32_t)words;
    if (by == 0 || m->extents[by - 1].from != from || m->extents[by - 1].size <= words)
        return;
    uint32_t size = m->extents[by - 1].size;
    if (m->writer[from + size - 1] != by || m->writer[end] != by || (m->begun[end] && words) ||
        !find_mask(e, size - words, false, &mask))
        return;
    uint32_t number = (uint32_t)m->reads.count;
    short_read r = {m->index, by - 1, m->split[end], (uint32_t)words, from, mask, *e, false};
    if (number < NONE && TV_VEC_PUSH(&m->reads, r) && words)
        m->split[end] = number + 1;
}

static void check_long_read(masks *m, uint32_t from, uint64_t words)
{
    char why[100];
    masked mask;
    uint32_t by = m->writer[from];
    if (by == 0 || m->extents[by - 1].from != from || m->extents[by - 1].size >= words)
        return;
    const extent *e = &m->extents[by - 1];
    for (uint64_t w = from + e->size; w < from + words; w++)
        if (m->writer[w])
            return;
    if (!find_mask(e, words - e->size, true, &mask))
        return;
    snprintf(why, sizeof why,
             "instruction %" PRIu32 " reads %" PRIu64 " words from l2[0x%" PRIx32 "], %" PRIu32 " are written",
             m->index, words, from, e->size);
    report_value(m, by - 1, e, &mask, why);
}

/* A vector begins at `from`: if it is the rest of others, they are parts on purpose. */
static void note_beginning(masks *m, uint32_t from)
{
    m->begun[from] = true;
    for (uint32_t i = m->split[from]; i; i = m->reads.data[i - 1].next) {
        short_read *r = &m->reads.data[i - 1];
        if (r->reader != m->index && m->writer[from] == r->writer + 1)
            r->split = true;
    }
}

static void note_result(masks *m, uint64_t from, uint32_t size)
{
    uint32_t *writer = m->writer + from, number = m->index + 1;
    for (uint32_t i = 0; i < size; i++)
        writer[i] = number;
    memset(m->begun + from, 0, size * sizeof *m->begun);
    if (m->reads.count)
        memset(m->split + from, 0, size * sizeof *m->split);
}

static void check_vectors(masks *m, const pccx_op *op)
{
    extent *e = &m->extents[m->index]; /* zeroed by allocate_masks */
    set_factors(m, op, e);
    for (unsigned i = 0; i < op->range_count; i++) {
        const pccx_range *r = &op->ranges[i];
        if (r->storage != PCCX_STORAGE_L2 || r->write)
            continue;
        /* CVO_SCALE reads its scalar from the word before its vector. */
        uint32_t from = (uint32_t)r->from + (op->row == PCCX_CVO_SCALE && i == 0);
        if (i == 0) { /* the others are old destinations */
            check_short_read(m, e, from, r->to - from);
            check_long_read(m, from, r->to - from);
        }
        note_beginning(m, from);
    }
    for (unsigned i = 0; i < op->range_count; i++) {
        const pccx_range *r = &op->ranges[i];
        if (r->storage != PCCX_STORAGE_L2 || !r->write)
            continue;
        e->from = (uint32_t)r->from;
        e->size = (uint32_t)(r->to - r->from);
        note_result(m, r->from, e->size);
    }
}

static void report_short_reads(masks *m)
{
    for (size_t i = 0; i < m->reads.count; i++) {
        char why[100];
        const short_read *r = &m->reads.data[i];
        if (r->split)
            continue;
        snprintf(why, sizeof why, "instruction %" PRIu32 " wrote %" PRIu32 " words to l2[0x%" PRIx32 "]", r->writer,
                 m->extents[r->writer].size, r->from);
        report_value(m, r->reader, &r->form, &r->mask, why);
    }
}

/* ---- Addresses at equal distances ---- */

/* Whether `addr` is where the sequence goes on without the bits above the field. */
static bool is_wrapped(const sequence *s, operand what, uint64_t addr, uint64_t *intended)
{
    uint64_t width = what == OPERAND_HOST ? (uint64_t)L2_SIZE * PCCX_WORD_BYTES : L2_SIZE;
    *intended = s->last + s->stride;
    return s->equal >= 2 && s->stride < width && *intended / width != s->last / width && addr == *intended - width &&
           (addr != s->first || s->rejected);
}

static void check_address(masks *m, const pccx_op *op, operand what, uint64_t addr, bool rejected)
{
    static const char *const spaces[OPERANDS] = {"l2", "l2", "host"};
    uint64_t key = (op->copy_size + op->length + ((uint64_t)op->m * op->n + op->k) * 3) * 64 + op->row * 3 + what + 1;
    sequence *s = &m->sequences[key * 0x9E3779B97F4A7C15u >> 58];
    uint64_t intended;
    if (s->key != key) {
        *s = (sequence){.key = key, .first = addr, .last = addr, .rejected = rejected};
        return;
    }
    if (is_wrapped(s, what, addr, &intended)) {
        bool host = what == OPERAND_HOST;
        tv_findings_report(&m->findings, m->severity, PCCX_CODE_MASKED_ADDRESS, m->index,
                           host ? "aux_addr has the bits above the low 17 of the word address"
                                : "L2 ends at the last addressable word: split the data",
                           "%s[0x%" PRIx64 "] is %s[0x%" PRIx64
                           "] modulo 2^%u: addresses before it have a distance of 0x%" PRIx64,
                           spaces[what], addr, spaces[what], intended, host ? 21u : 17u, s->stride);
        *s = (sequence){.key = key, .first = addr, .last = addr};
        return;
    }
    bool equal = addr > s->last && addr - s->last == s->stride;
    if (!equal)
        s->first = s->last;
    s->stride = addr > s->last ? addr - s->last : 0;
    s->equal = !s->stride ? 0 : equal ? s->equal + 1 : 1;
    s->rejected = (equal && s->rejected) || rejected;
    s->last = addr;
}

static void check_addresses(masks *m, const pccx_op *op, bool rejected)
{
    if (op->engine == PCCX_ENGINE_NONE)
        return;
    bool load = op->path == PCCX_PATH_LOAD, store = op->path == PCCX_PATH_STORE;
    if (!store && op->dst != PCCX_TAG_FIFO)
        check_address(m, op, OPERAND_DST, op->dst, rejected);
    if (!load && op->src != PCCX_TAG_FIFO)
        check_address(m, op, OPERAND_SRC, op->src, rejected);
    if ((load || store) && !rejected)
        check_address(m, op, OPERAND_HOST, op->host_addr, false);
}

/* ---- Entries of the Constant Cache ---- */

static void check_memset(masks *m, const pccx_op *op)
{
    unsigned bank = op->constants[0].bank, entry = op->constants[0].entry;
    uint32_t next = m->entry[bank] + 1, *setter = &m->setter[bank][entry];
    const uint16_t *old = m->control.constants[bank][entry];
    bool differs = old[0] != pccx_MEMSET_a_value(op->word) || old[1] != pccx_MEMSET_b_value(op->word) ||
                   old[2] != pccx_MEMSET_c_value(op->word);
    if (next % ENTRIES != entry)
        next = m->first_entry[bank] = entry;
    if (next - m->first_entry[bank] >= ENTRIES && *setter != NONE && differs)
        tv_findings_report(&m->findings, m->severity, PCCX_CODE_MASKED_POINTER, m->index, "a bank has 64 entries",
                           "the entry is %u, which is %" PRIu32
                           " modulo 2^6: nothing has used what instruction %" PRIu32 " wrote there",
                           entry, next, *setter);
    m->entry[bank] = next;
    *setter = m->index;
}

static void check_constants(masks *m, const pccx_op *op)
{
    if (op->engine == PCCX_ENGINE_NONE && op->constant_count) {
        check_memset(m, op);
        return;
    }
    for (unsigned i = 0; i < op->constant_count; i++)
        m->setter[op->constants[i].bank][op->constants[i].entry] = NONE;
}

/* ---- Weights ---- */

/* Bytes that 2^16 more rows take, in units of 2^16. */
static uint32_t bytes_of_row(const pccx_op *op)
{
    return (uint32_t)(tv_ceil_div(op->k, 32) * 16 + (pccx_MATRIX_w_scale(op->word) ? 2 : 0));
}

static void check_weights(masks *m)
{
    uint64_t count = tv_program_instruction_count(m->program);
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        uint64_t left = m->control.weights[k].left;
        for (uint64_t i = 0; left && left % VALUES == 0 && i < count; i++) {
            char why[100];
            if (!m->row_bytes[i] || m->extents[i].stream != k || left / VALUES % m->row_bytes[i])
                continue;
            const extent *e = &m->extents[i];
            masked mask = {1, e->factors[1], e->factors[1] + left / m->row_bytes[i]};
            snprintf(why, sizeof why, "the %s stream has %" PRIu64 " bytes that no instruction takes",
                     tv_program_stream_name(m->program, k), left);
            report_value(m, (uint32_t)i, e, &mask, why);
            break;
        }
    }
}

/* ---- The walk ---- */

/* A length of 0 that a mask made is a fault of its own. */
static void check_empty_length(masks *m, const pccx_op *op)
{
    extent e = {.form = FORM_LENGTH};
    bool scale = op->row == PCCX_CVO_SCALE;
    if (op->src + scale < L2_SIZE - 1)
        check_short_read(m, &e, op->src + scale, 0);
}

static void check_word(masks *m)
{
    uint64_t word = tv_program_word(m->program, m->index);
    tv_illegal illegal;
    pccx_op op;
    pccx_rejection why = {.code_only = true};
    int row = tv_codec_row(m->codec, word, &illegal);
    if (row < 0)
        return;
    bool resolved = pccx_resolve(&m->control, (unsigned)row, word, &op, &why);
    /* Words of a driver have no descriptors: without weights an instruction is as good. */
    bool underrun = !resolved && why.code == PCCX_CODE_UNDERRUN;
    check_constants(m, &op);
    if (resolved || why.code == PCCX_CODE_L2_RANGE || underrun)
        check_addresses(m, &op, !resolved && !underrun);
    if (!resolved && why.code == PCCX_CODE_CVO_LENGTH)
        check_empty_length(m, &op);
    if (!resolved && !underrun)
        return;
    check_vectors(m, &op);
    if (underrun)
        op.stream_bytes = 0;
    if (op.stream_bytes)
        m->row_bytes[m->index] = bytes_of_row(&op);
    pccx_control_commit(&m->control, &op);
}

/* The arrays of L2 words are zeroed by calloc, so that short programs touch few of their pages. */
static bool allocate_masks(masks *m, uint64_t count)
{
    m->extents = calloc(count + 1, sizeof *m->extents);
    m->row_bytes = calloc(count + 1, sizeof *m->row_bytes);
    m->writer = calloc(L2_SIZE, sizeof *m->writer);
    m->split = calloc(L2_SIZE, sizeof *m->split);
    m->begun = calloc(L2_SIZE, sizeof *m->begun);
    if (!m->extents || !m->row_bytes || !m->writer || !m->split || !m->begun)
        return false;
    memset(m->setter, 0xFF, sizeof m->setter);
    return true;
}

tv_status pccx_find_masks(const tv_program *program, const tv_config *config, tv_severity severity,
                          const tv_diag_sink *sink, tv_check_counts *counts)
{
    uint64_t count = tv_program_instruction_count(program);
    masks m = {.program = program,
               .severity = severity,
               .findings = {.program = program, .sink = sink, .codes = pccx_codes, .counts = counts}};
    if (count >= NONE)
        return TV_OK; /* the check itself rejects it */
    pccx_control_init(&m.control, config);
    tv_status status =
        allocate_masks(&m, count) ? tv_codec_new_for(&tv_isa_pccx, sink, &m.codec) : tv_fail_memory(sink);
    if (status == TV_OK && !pccx_control_append(&m.control, program))
        status = tv_fail_memory(sink);
    for (; status == TV_OK && m.index < count; m.index++)
        check_word(&m);
    if (status == TV_OK && m.reads.failed)
        status = tv_fail_memory(sink);
    if (status == TV_OK) {
        report_short_reads(&m);
        check_weights(&m);
        status = tv_findings_finish(&m.findings);
    }
    pccx_control_fini(&m.control);
    tv_codec_free(m.codec);
    TV_VEC_FINI(&m.reads);
    free(m.extents);
    free(m.row_bytes);
    free(m.writer);
    free(m.split);
    free(m.begun);
    return status;
}
