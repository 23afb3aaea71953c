/* SPDX-License-Identifier: Apache-2.0 */
/* The output of the statements: instruction words, data chunks and stream descriptors, and the program made of them.
 *
 * A value is checked when it is known and otherwise replaced by a fixup; the checks are the same for both, in the
 * encode functions. Long runs of zeros are chunks without bytes, so that .zero and .balign cost no memory. Large files
 * are copied at the end, so that a source that exceeds a limit ends before their bytes are touched. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "asm/job.h"
#include "num/float.h"
#include "num/int.h"
#include "trivet/dtype.h"

enum {
    ZERO_RUN = 4096,    /* a run of this many zeros becomes a chunk of its own */
    FILE_COPY = 1 << 20 /* so many bytes of a file are copied at the end */
};

static uint64_t chunk_end(const tv_chunk *chunk) { return chunk->addr + chunk->zeros + chunk->bytes.len; }

static tv_chunk *add_chunk(tv_asm_job *job, uint64_t addr)
{
    if (!TV_VEC_PUSH(&job->chunks, (tv_chunk){.addr = addr, .loc = tv_asm_loc(job, 0, 0)}))
        job->out_of_memory = true;
    return job->out_of_memory ? NULL : TV_VEC_LAST(&job->chunks);
}

uint64_t tv_emit_location(const tv_asm_job *job)
{
    if (!job->in_data)
        return job->text.len;
    return job->chunks.count ? chunk_end(TV_VEC_LAST(&job->chunks)) : 0;
}

void tv_emit_word(tv_asm_job *job, uint64_t word, unsigned column)
{
    if (!tv_asm_reserve_output(job, job->word_bytes + sizeof(tv_line_entry)))
        return;
    tv_buf_le(&job->text, word, job->word_bytes);
    if (!TV_VEC_PUSH(&job->lines, tv_line_entry_of(job->frame->file, job->frame->line, column)) || job->text.failed)
        job->out_of_memory = true;
}

static bool in_address_space(tv_asm_job *job, uint64_t addr, uint64_t n)
{
    if (addr <= TV_ASM_ADDRESS_MAX && n <= TV_ASM_ADDRESS_MAX - addr)
        return true;
    tv_asm_error(job, TV_CODE(ASM_LIMIT), "data addresses are below 2^48",
                 "the data runs past the end of the address space");
    return false;
}

/* The buffer for `n` more bytes at the end of the data. Begins a chunk when there is none or the last one is zeros.
 * NULL: a limit is exceeded (reported) or there is no memory. */
static tv_buf *data_bytes(tv_asm_job *job, uint64_t n)
{
    if (!tv_asm_reserve_output(job, n) || !in_address_space(job, tv_emit_location(job), n))
        return NULL;
    tv_chunk *chunk = TV_VEC_LAST(&job->chunks);
    if (!chunk || chunk->zeros)
        chunk = add_chunk(job, chunk ? chunk_end(chunk) : 0);
    return chunk ? &chunk->bytes : NULL;
}

void tv_emit_bytes(tv_asm_job *job, const void *bytes, size_t n)
{
    tv_buf *buf = n ? data_bytes(job, n) : NULL;
    if (!buf)
        return;
    tv_buf_append(buf, bytes, n);
    if (buf->failed)
        job->out_of_memory = true;
}

void tv_emit_file(tv_asm_job *job, tv_input *input, uint64_t skip, uint64_t size)
{
    if (size < FILE_COPY) {
        tv_emit_bytes(job, input->data + skip, size);
        tv_input_close(input);
        return;
    }
    tv_buf *buf = data_bytes(job, size);
    tv_file_copy copy = {*input, skip, size, job->chunks.count - 1, buf ? buf->len : 0};
    bool added = buf && tv_buf_extend(buf, size) && TV_VEC_PUSH(&job->file_copies, copy);
    if (buf && !added)
        job->out_of_memory = true;
    if (!added)
        tv_input_close(input);
}

void tv_emit_copy_files(tv_asm_job *job)
{
    for (size_t i = 0; i < job->file_copies.count; i++) {
        const tv_file_copy *copy = &job->file_copies.data[i];
        memcpy(job->chunks.data[copy->chunk].bytes.data + copy->offset, copy->input.data + copy->skip, copy->size);
    }
}

void tv_emit_zeros(tv_asm_job *job, uint64_t n)
{
    if (!in_address_space(job, tv_emit_location(job), n))
        return;
    if (n < ZERO_RUN) {
        tv_buf *buf = n ? data_bytes(job, n) : NULL;
        if (buf)
            tv_buf_fill(buf, 0, n);
        job->out_of_memory |= buf && buf->failed;
        return;
    }
    tv_chunk *chunk = tv_asm_reserve_output(job, sizeof *chunk) ? add_chunk(job, tv_emit_location(job)) : NULL;
    if (chunk)
        chunk->zeros = n;
}

void tv_emit_org(tv_asm_job *job, uint64_t addr)
{
    if (tv_asm_reserve_output(job, sizeof(tv_chunk)) && in_address_space(job, addr, 0) &&
        (!job->chunks.count || tv_emit_location(job) != addr))
        add_chunk(job, addr);
}

static void add_fixup(tv_asm_job *job, tv_fixup fixup, const tv_expr *value)
{
    if (!tv_asm_reserve_output(job, sizeof fixup))
        return;
    fixup.node = value->node;
    fixup.loc = tv_asm_loc(job, value->column, value->length);
    if (!TV_VEC_PUSH(&job->fixups, fixup))
        job->out_of_memory = true;
}

/* ---- Instruction fields ---- */

/* Puts `v` into field `index` of *word. False: it does not fit (reported at `loc`); *word is unchanged. */
bool tv_emit_encode_field(tv_asm_job *job, const tv_source_loc *loc, uint64_t *word, uint16_t index, tv_value v)
{
    const tv_isa *isa = job->isa;
    const tv_field *field = &isa->fields[index];
    uint64_t scale = field->kind->scale ? field->kind->scale : 1;
    uint64_t max = tv_mask(tv_field_width(isa, field));
    if (field->limit && field->limit - 1 < max)
        max = field->limit - 1;
    if (v.real) {
        tv_asm_error_loc(job, loc, TV_CODE(ASM_EXPR),
                         "convert it with int() or round(); bf16() gives the bits of a BF16 number",
                         "'%s' takes an integer", field->name);
        return false;
    }
    if (field->kind->syntax == TV_SYNTAX_SINT) {
        int64_t high = (int64_t)(max >> 1), low = -high - 1;
        if (v.i < low || v.i > high) {
            char range[64];
            snprintf(range, sizeof range, "the range is %" PRId64 " to %" PRId64, low, high);
            tv_asm_error_loc(job, loc, TV_CODE(ASM_RANGE), range,
                             "%" PRId64 " does not fit the signed %u-bit field '%s'", v.i, tv_field_width(isa, field),
                             field->name);
            return false;
        }
        *word = tv_field_set(isa, field, *word, (uint64_t)v.i & max);
        return true;
    }
    if (v.i < 0 || (uint64_t)v.i > max * scale) {
        char hint[96];
        snprintf(hint, sizeof hint, "the range is 0 to %" PRIu64 " (0x%" PRIx64 ")", max * scale, max * scale);
        tv_asm_error_loc(job, loc, TV_CODE(ASM_RANGE), hint, "%" PRId64 " does not fit the %u-bit field '%s'", v.i,
                         tv_field_width(isa, field), field->name);
        return false;
    }
    if ((uint64_t)v.i % scale) {
        tv_asm_error_loc(job, loc, TV_CODE(ASM_ALIGN), "align the label with .balign",
                         "0x%" PRIx64 " is not a multiple of %" PRIu64 ", which field '%s' requires", (uint64_t)v.i,
                         scale, field->name);
        return false;
    }
    *word = tv_field_set(isa, field, *word, (uint64_t)v.i / scale);
    return true;
}

void tv_emit_field(tv_asm_job *job, uint64_t *word, uint16_t field, const tv_expr *value)
{
    if (value->known) {
        tv_source_loc loc = tv_asm_loc(job, value->column, value->length);
        tv_emit_encode_field(job, &loc, word, field, value->value);
    } else {
        add_fixup(job, (tv_fixup){.kind = TV_FIX_FIELD, .field = field, .offset = job->text.len}, value);
    }
}

/* ---- Data ---- */

bool tv_emit_encode_data(tv_asm_job *job, const tv_source_loc *loc, int type, tv_value v, uint64_t *bits)
{
    double f = v.real ? v.f : tv_f64_odd_from_i64(v.i);
    switch ((tv_dtype)type) {
    case TV_BF16:
        *bits = tv_bf16_from_f64(f);
        return true;
    case TV_F16:
        *bits = tv_f16_from_f64(f);
        return true;
    case TV_F32:
        *bits = tv_f32_bits((float)f);
        return true;
    default:
        break;
    }
    unsigned width = tv_dtype_bits((tv_dtype)type);
    int64_t low = width == 64 ? INT64_MIN : -(INT64_C(1) << (width - 1));
    int64_t high = width == 64 ? INT64_MAX : type == TV_I4 || type == TV_S8 ? -low - 1 : (int64_t)tv_mask(width);
    if (v.real) {
        tv_asm_error_loc(job, loc, TV_CODE(ASM_EXPR), "convert it with int() or round()", "expected an integer");
        return false;
    }
    if (v.i < low || v.i > high) {
        char hint[80];
        snprintf(hint, sizeof hint, "the range is %" PRId64 " to %" PRId64, low, high);
        tv_asm_error_loc(job, loc, TV_CODE(ASM_RANGE), hint, "%" PRId64 " does not fit %u bits", v.i, width);
        return false;
    }
    *bits = (uint64_t)v.i & tv_mask(width);
    return true;
}

void tv_emit_data(tv_asm_job *job, int type, const tv_expr *value)
{
    unsigned bytes = tv_dtype_bits((tv_dtype)type) / 8;
    uint64_t bits = 0;
    uint32_t chunk = TV_FIX_IN_TEXT;
    uint64_t offset = job->text.len;
    tv_buf *buf = NULL;
    if (job->in_data) {
        buf = data_bytes(job, bytes);
        if (!buf)
            return;
        chunk = (uint32_t)(job->chunks.count - 1);
        offset = buf->len;
    }
    if (value->known) {
        tv_source_loc loc = tv_asm_loc(job, value->column, value->length);
        tv_emit_encode_data(job, &loc, type, value->value, &bits);
    } else {
        add_fixup(job, (tv_fixup){.kind = TV_FIX_DATA, .type = (uint8_t)type, .chunk = chunk, .offset = offset}, value);
    }
    if (!buf) {
        tv_emit_word(job, bits, value->column);
        return;
    }
    tv_buf_le(buf, bits, bytes);
    if (buf->failed)
        job->out_of_memory = true;
}

/* Packs two values per byte, low nibble first; an odd count is padded with a zero. */
void tv_emit_int4(tv_asm_job *job, const tv_expr *values, unsigned count)
{
    for (unsigned i = 0; i < count; i += 2) {
        uint8_t byte = 0;
        for (unsigned k = 0; k < 2 && i + k < count; k++) {
            const tv_expr *value = &values[i + k];
            tv_source_loc loc = tv_asm_loc(job, value->column, value->length);
            uint64_t bits = 0;
            if (!value->known)
                tv_asm_error_loc(job, &loc, TV_CODE(ASM_NOT_CONSTANT), "define the symbols it uses above this line",
                                 "the value of an .int4 must be known here");
            else if (tv_emit_encode_data(job, &loc, TV_I4, value->value, &bits))
                tv_int4_set(&byte, k, (int)(bits ^ 8) - 8);
        }
        tv_emit_bytes(job, &byte, 1);
    }
}

/* ---- Streams ---- */

bool tv_emit_encode_stream(tv_asm_job *job, const tv_source_loc *loc, unsigned field, tv_value v, tv_descriptor *d)
{
    const char *what = field ? "size" : "address";
    if (v.real || v.i < 0) {
        tv_asm_error_loc(job, loc, TV_CODE(ASM_RANGE), NULL,
                         "the %s of a stream must be an integer that is not negative", what);
        return false;
    }
    *(field ? &d->bytes : &d->addr) = (uint64_t)v.i;
    return true;
}

void tv_emit_stream(tv_asm_job *job, unsigned stream, const tv_expr *addr, const tv_expr *bytes)
{
    tv_descriptor d = {0};
    const tv_expr *values[2] = {addr, bytes};
    for (unsigned i = 0; i < 2; i++) {
        tv_source_loc loc = tv_asm_loc(job, values[i]->column, values[i]->length);
        if (values[i]->known)
            tv_emit_encode_stream(job, &loc, i, values[i]->value, &d);
        else
            add_fixup(job,
                      (tv_fixup){.kind = TV_FIX_STREAM,
                                 .type = (uint8_t)stream,
                                 .field = (uint16_t)i,
                                 .offset = job->streams[stream].count},
                      values[i]);
    }
    if (tv_asm_reserve_output(job, sizeof d) && !TV_VEC_PUSH(&job->streams[stream], d))
        job->out_of_memory = true;
}

/* ---- The finished program ---- */

static int compare_chunks(const void *a, const void *b)
{
    const tv_chunk *x = a, *y = b;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static tv_status finish_data(tv_asm_job *job)
{
    tv_program *program = job->program;
    tv_chunk *chunks = job->chunks.data;
    size_t count = job->chunks.count;
    if (count)
        qsort(chunks, count, sizeof *chunks, compare_chunks);
    program->segments = tv_arena_alloc(&program->arena, (count + 1) * sizeof *program->segments);
    if (!program->segments)
        return TV_ERR_MEMORY;
    uint64_t end = 0;
    size_t last = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t size = chunks[i].zeros + chunks[i].bytes.len;
        if (size == 0)
            continue;
        if (program->segment_count && chunks[i].addr < end) {
            char hint[160];
            snprintf(hint, sizeof hint, "the other begins at %.100s:%u; move one with .org", chunks[last].loc.file,
                     chunks[last].loc.line);
            tv_asm_error_loc(job, &chunks[i].loc, TV_CODE(ASM_OVERLAP), hint,
                             "data at 0x%" PRIx64 " overlaps data that ends at 0x%" PRIx64, chunks[i].addr, end);
        }
        last = i;
        end = chunks[i].addr + size;
        uint8_t *bytes = NULL;
        if (!chunks[i].zeros) {
            bytes = tv_arena_alloc(&program->arena, size);
            if (!bytes)
                return TV_ERR_MEMORY;
            memcpy(bytes, chunks[i].bytes.data, size);
        }
        program->segments[program->segment_count++] = (tv_segment){chunks[i].addr, size, bytes};
    }
    return TV_OK;
}

/* Constants that .set may change and labels that begin with .L stay in the source. */
static bool is_exported(const tv_asm_symbol *s)
{
    return s->state != TV_SYM_UNDEFINED && s->state != TV_SYM_SET && !s->value.real &&
           strncmp(s->name.ptr, ".L", 2) != 0;
}

static tv_status finish_symbols(tv_asm_job *job)
{
    tv_program *program = job->program;
    program->symbols = tv_arena_alloc(&program->arena, (job->symbol_count + 1) * sizeof *program->symbols);
    if (!program->symbols)
        return TV_ERR_MEMORY;
    for (tv_asm_symbol *s = job->first_symbol; s; s = s->next) {
        if (!is_exported(s))
            continue;
        const char *name = tv_arena_str(&program->arena, s->name);
        if (!name)
            return TV_ERR_MEMORY;
        uint64_t value = (uint64_t)s->value.i;
        if (s->kind == TV_SYMBOL_TEXT)
            value /= job->word_bytes;
        program->symbols[program->symbol_count++] = (tv_symbol){name, value, s->kind};
    }
    program->files = tv_arena_alloc(&program->arena, (job->files.count + 1) * sizeof *program->files);
    if (!program->files)
        return TV_ERR_MEMORY;
    for (unsigned i = 0; i < job->files.count; i++) {
        program->files[i] = tv_arena_str(&program->arena, tv_sv_of(job->files.data[i].path));
        if (!program->files[i])
            return TV_ERR_MEMORY;
    }
    program->file_count = job->files.count;
    return TV_OK;
}

tv_status tv_emit_finish(tv_asm_job *job)
{
    tv_program *program = job->program;
    TV_TRY(finish_data(job));
    TV_TRY(finish_symbols(job));
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++) {
        size_t count = job->streams[k].count, bytes = count * sizeof(tv_descriptor);
        if (count == 0)
            continue;
        program->descriptors[k] = tv_arena_alloc(&program->arena, bytes);
        if (!program->descriptors[k])
            return TV_ERR_MEMORY;
        memcpy(program->descriptors[k], job->streams[k].data, bytes);
        program->descriptor_count[k] = count;
    }
    program->text_buf = job->text;
    program->lines = job->lines;
    job->text = (tv_buf){0};
    job->lines = (tv_line_vec){0};
    program->text = program->text_buf.data;
    program->instruction_count = program->text_buf.len / job->word_bytes;
    return TV_OK;
}
