/* SPDX-License-Identifier: Apache-2.0 */
/* What the statements leave behind: instruction words, host data, stream descriptors; and the program made of them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "asm/job.h"
#include "num/float.h"
#include "num/int.h"
#include "trivet/dtype.h"

enum { ZERO_RUN = 4096 }; /* zeros from here on take no memory */

static tv_chunk *current_chunk(tv_asm_job *job)
{
    size_t count = job->chunks.len / sizeof(tv_chunk);
    return count ? (tv_chunk *)(void *)job->chunks.data + count - 1 : NULL;
}

static uint64_t chunk_end(const tv_chunk *chunk) { return chunk->addr + chunk->zeros + chunk->bytes.len; }

static tv_chunk *add_chunk(tv_asm_job *job, uint64_t addr)
{
    tv_chunk chunk = {.addr = addr, .loc = tv_asm_loc(job, 0, 0)};
    tv_buf_append(&job->chunks, &chunk, sizeof chunk);
    if (job->chunks.failed)
        job->out_of_memory = true;
    return job->out_of_memory ? NULL : current_chunk(job);
}

uint64_t tv_emit_here(const tv_asm_job *job)
{
    if (!job->in_data)
        return job->text.len;
    size_t count = job->chunks.len / sizeof(tv_chunk);
    return count ? chunk_end((const tv_chunk *)(const void *)job->chunks.data + count - 1) : 0;
}

void tv_emit_word(tv_asm_job *job, uint64_t word, unsigned column)
{
    if (!tv_asm_take(job, job->word_bytes + sizeof(tv_line_entry)))
        return;
    tv_line_entry entry = tv_line_make(job->frame->file, job->frame->line, column);
    tv_buf_le(&job->text, word, job->word_bytes);
    tv_buf_append(&job->lines, &entry, sizeof entry);
    if (job->text.failed || job->lines.failed)
        job->out_of_memory = true;
}

static bool in_address_space(tv_asm_job *job, uint64_t addr, uint64_t n)
{
    if (addr <= TV_ASM_ADDRESS_MAX && n <= TV_ASM_ADDRESS_MAX - addr)
        return true;
    tv_asm_error(job, TV_CODE(ASM_LIMIT), "data lies below 2^48", "the data runs past the end of the address space");
    return false;
}

/* A buffer of real bytes at the end of the data, opening a chunk when there is none or it is a run of zeros. */
static tv_buf *data_bytes(tv_asm_job *job, uint64_t n)
{
    if (!tv_asm_take(job, n) || !in_address_space(job, tv_emit_here(job), n))
        return NULL;
    tv_chunk *chunk = current_chunk(job);
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

void tv_emit_zeros(tv_asm_job *job, uint64_t n)
{
    if (!in_address_space(job, tv_emit_here(job), n))
        return;
    if (n < ZERO_RUN) {
        tv_buf *buf = n ? data_bytes(job, n) : NULL;
        if (buf)
            tv_buf_fill(buf, 0, n);
        return;
    }
    tv_chunk *chunk = tv_asm_take(job, sizeof *chunk) ? add_chunk(job, tv_emit_here(job)) : NULL;
    if (chunk)
        chunk->zeros = n;
}

void tv_emit_org(tv_asm_job *job, uint64_t addr)
{
    if (tv_asm_take(job, sizeof(tv_chunk)) && in_address_space(job, addr, 0) &&
        (!current_chunk(job) || tv_emit_here(job) != addr))
        add_chunk(job, addr);
}

static void add_fixup(tv_asm_job *job, tv_fixup fixup, const tv_expr *value)
{
    if (!tv_asm_take(job, sizeof fixup))
        return;
    fixup.node = value->node;
    fixup.loc = tv_asm_loc(job, value->column, value->length);
    tv_buf_append(&job->fixups, &fixup, sizeof fixup);
    if (job->fixups.failed)
        job->out_of_memory = true;
}

/* ---- Instruction fields ---- */

/* Checks `v` against the field and puts it into *word. */
bool tv_emit_put_field(tv_asm_job *job, const tv_source_loc *loc, uint64_t *word, uint16_t index, tv_value v)
{
    const tv_isa *isa = job->isa;
    const tv_field *field = &isa->fields[index];
    uint64_t scale = field->kind->scale ? field->kind->scale : 1;
    uint64_t most = tv_mask(tv_field_width(isa, field));
    if (field->limit && field->limit - 1 < most)
        most = field->limit - 1;
    if (v.real) {
        tv_asm_error_loc(job, loc, TV_CODE(ASM_EXPR), "int() or round() makes one; bf16() gives a number's BF16 bits",
                         "'%s' takes an integer", field->name);
        return false;
    }
    if (field->kind->syntax == TV_SYNTAX_SINT) {
        int64_t high = (int64_t)(most >> 1), low = -high - 1;
        if (v.i < low || v.i > high) {
            char range[64];
            snprintf(range, sizeof range, "it takes %" PRId64 " to %" PRId64, low, high);
            tv_asm_error_loc(job, loc, TV_CODE(ASM_RANGE), range,
                             "%" PRId64 " does not fit the signed %u-bit field '%s'", v.i, tv_field_width(isa, field),
                             field->name);
            return false;
        }
        *word = tv_field_set(isa, field, *word, (uint64_t)v.i & most);
        return true;
    }
    if (v.i < 0 || (uint64_t)v.i > most * scale) {
        char hint[96];
        snprintf(hint, sizeof hint, "it takes 0 to %" PRIu64 " (0x%" PRIx64 ")", most * scale, most * scale);
        tv_asm_error_loc(job, loc, TV_CODE(ASM_RANGE), hint, "%" PRId64 " does not fit the %u-bit field '%s'", v.i,
                         tv_field_width(isa, field), field->name);
        return false;
    }
    if ((uint64_t)v.i % scale) {
        tv_asm_error_loc(job, loc, TV_CODE(ASM_ALIGN), ".balign puts a label on such an address",
                         "0x%" PRIx64 " is not a multiple of %" PRIu64 ", as '%s' must be", (uint64_t)v.i, scale,
                         field->name);
        return false;
    }
    *word = tv_field_set(isa, field, *word, (uint64_t)v.i / scale);
    return true;
}

void tv_emit_field(tv_asm_job *job, uint64_t *word, uint16_t field, const tv_expr *value)
{
    if (value->known) {
        tv_source_loc loc = tv_asm_loc(job, value->column, value->length);
        tv_emit_put_field(job, &loc, word, field, value->value);
    } else {
        add_fixup(job, (tv_fixup){.kind = TV_FIX_FIELD, .field = field, .offset = job->text.len}, value);
    }
}

/* ---- Data ---- */

bool tv_emit_data_bits(tv_asm_job *job, const tv_source_loc *loc, int type, tv_value v, uint64_t *bits)
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
        tv_asm_error_loc(job, loc, TV_CODE(ASM_EXPR), "int() or round() makes one", "an integer is wanted here");
        return false;
    }
    if (v.i < low || v.i > high) {
        char hint[80];
        snprintf(hint, sizeof hint, "it takes %" PRId64 " to %" PRId64, low, high);
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
    uint32_t chunk = UINT32_MAX;
    uint64_t offset = job->text.len;
    tv_buf *buf = NULL;
    if (job->in_data) {
        buf = data_bytes(job, bytes);
        if (!buf)
            return;
        chunk = (uint32_t)(job->chunks.len / sizeof(tv_chunk) - 1);
        offset = buf->len;
    }
    if (value->known) {
        tv_source_loc loc = tv_asm_loc(job, value->column, value->length);
        tv_emit_data_bits(job, &loc, type, value->value, &bits);
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

/* Two to a byte, low nibble first; an odd last one is followed by a zero. */
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
                                 "an .int4 value must be known here");
            else if (tv_emit_data_bits(job, &loc, TV_I4, value->value, &bits))
                tv_int4_set(&byte, k, (int)(bits ^ 8) - 8);
        }
        tv_emit_bytes(job, &byte, 1);
    }
}

/* ---- Streams ---- */

bool tv_emit_put_stream(tv_asm_job *job, const tv_source_loc *loc, unsigned field, tv_value v, tv_descriptor *d)
{
    const char *what = field ? "size" : "address";
    if (v.real || v.i < 0) {
        tv_asm_error_loc(job, loc, TV_CODE(ASM_RANGE), NULL, "a stream's %s is an integer from 0 up", what);
        return false;
    }
    *(field ? &d->bytes : &d->addr) = (uint64_t)v.i;
    return true;
}

void tv_emit_stream(tv_asm_job *job, unsigned stream, const tv_expr *addr, const tv_expr *bytes)
{
    tv_buf *list = &job->streams[stream];
    tv_descriptor d = {0};
    const tv_expr *values[2] = {addr, bytes};
    for (unsigned i = 0; i < 2; i++) {
        tv_source_loc loc = tv_asm_loc(job, values[i]->column, values[i]->length);
        if (values[i]->known)
            tv_emit_put_stream(job, &loc, i, values[i]->value, &d);
        else
            add_fixup(
                job,
                (tv_fixup){.kind = TV_FIX_STREAM, .type = (uint8_t)stream, .field = (uint16_t)i, .offset = list->len},
                values[i]);
    }
    if (tv_asm_take(job, sizeof d))
        tv_buf_append(list, &d, sizeof d);
    if (list->failed)
        job->out_of_memory = true;
}

/* ---- The finished program ---- */

static int chunk_order(const void *a, const void *b)
{
    const tv_chunk *x = a, *y = b;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static tv_status finish_data(tv_asm_job *job)
{
    tv_program *program = job->program;
    tv_chunk *chunks = (tv_chunk *)(void *)job->chunks.data;
    size_t count = job->chunks.len / sizeof *chunks;
    if (count)
        qsort(chunks, count, sizeof *chunks, chunk_order);
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

static bool exported(const tv_asm_symbol *s)
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
        if (!exported(s))
            continue;
        const char *name = tv_arena_str(&program->arena, s->name);
        if (!name)
            return TV_ERR_MEMORY;
        uint64_t value = (uint64_t)s->value.i;
        if (s->kind == TV_SYMBOL_TEXT)
            value /= job->word_bytes;
        program->symbols[program->symbol_count++] = (tv_symbol){name, value, s->kind};
    }
    program->files = tv_arena_alloc(&program->arena, (job->file_count + 1) * sizeof *program->files);
    if (!program->files)
        return TV_ERR_MEMORY;
    for (unsigned i = 0; i < job->file_count; i++) {
        program->files[i] = tv_arena_str(&program->arena, tv_sv_of(job->files[i].path));
        if (!program->files[i])
            return TV_ERR_MEMORY;
    }
    program->file_count = job->file_count;
    return TV_OK;
}

tv_status tv_emit_finish(tv_asm_job *job)
{
    tv_program *program = job->program;
    TV_TRY(finish_data(job));
    TV_TRY(finish_symbols(job));
    for (unsigned k = 0; k < TV_STREAMS_MAX; k++) {
        if (job->streams[k].len == 0)
            continue;
        program->descriptors[k] = tv_arena_alloc(&program->arena, job->streams[k].len);
        if (!program->descriptors[k])
            return TV_ERR_MEMORY;
        memcpy(program->descriptors[k], job->streams[k].data, job->streams[k].len);
        program->descriptor_count[k] = job->streams[k].len / sizeof(tv_descriptor);
    }
    program->text_buf = job->text;
    program->lines_buf = job->lines;
    job->text = (tv_buf){0};
    job->lines = (tv_buf){0};
    program->text = program->text_buf.data;
    program->instruction_count = program->text_buf.len / job->word_bytes;
    program->lines = (const tv_line_entry *)(const void *)program->lines_buf.data;
    return TV_OK;
}
