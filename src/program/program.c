/* SPDX-License-Identifier: Apache-2.0 */
/* Creating, completing and querying programs. */
#include "program/program.h"

#include <inttypes.h>
#include <stdlib.h>

tv_status tv_program_new(const tv_isa *isa, const tv_diag_sink *sink, tv_program **out)
{
    tv_program *program = calloc(1, sizeof *program);
    if (!program)
        return tv_fail_memory(sink);
    program->isa = isa;
    program->word_bytes = isa->word_bits / 8;
    *out = program;
    return TV_OK;
}

void tv_program_free(tv_program *program)
{
    if (!program)
        return;
    if (program->form)
        program->form->free(program->form_data);
    tv_buf_fini(&program->text_buf);
    TV_VEC_FINI(&program->lines);
    TV_VEC_FINI(&program->inputs);
    if (program->input.data)
        tv_input_close(&program->input);
    tv_arena_fini(&program->arena);
    free(program);
}

bool tv_program_note_input(tv_program *program, const char *path)
{
    const char *copy = tv_arena_str(&program->arena, tv_sv_of(path));
    return copy && TV_VEC_PUSH(&program->inputs, copy);
}

int tv_program_input_at(const tv_program *program, uint64_t i, const char **path)
{
    if (i >= program->inputs.count)
        return 0;
    *path = program->inputs.data[i];
    return 1;
}

unsigned tv_isa_stream_count(const tv_isa *isa)
{
    unsigned n = 0;
    while (isa->streams && isa->streams[n])
        n++;
    return n;
}

static int compare_addresses(const void *a, const void *b)
{
    const tv_segment *x = a, *y = b;
    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static int compare_indices(const void *a, const void *b)
{
    const tv_symbol *x = *(const tv_symbol *const *)a, *y = *(const tv_symbol *const *)b;
    return x->value < y->value ? -1 : x->value > y->value ? 1 : x < y ? -1 : x > y;
}

static tv_status sort_labels(tv_program *program, const tv_diag_sink *sink)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < program->symbol_count; i++)
        count += program->symbols[i].kind == TV_SYMBOL_TEXT;
    program->label_count = 0;
    if (count == 0)
        return TV_OK;
    program->labels = tv_arena_alloc(&program->arena, count * sizeof *program->labels);
    if (!program->labels)
        return tv_fail_memory(sink);
    for (uint64_t i = 0; i < program->symbol_count; i++)
        if (program->symbols[i].kind == TV_SYMBOL_TEXT)
            program->labels[program->label_count++] = &program->symbols[i];
    qsort(program->labels, count, sizeof *program->labels, compare_indices);
    return TV_OK;
}

tv_status tv_program_seal(tv_program *program, const tv_diag_sink *sink)
{
    if (program->segment_count)
        qsort(program->segments, program->segment_count, sizeof *program->segments, compare_addresses);
    for (uint64_t i = 0; i < program->segment_count; i++) {
        const tv_segment *s = &program->segments[i], *next = s + 1;
        if (s->addr + s->size < s->addr)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_DAMAGED), NULL,
                           "a data segment runs past the end of memory");
        if (i + 1 < program->segment_count && next->addr < s->addr + s->size)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_OVERLAP), "move one of them with .org",
                           "data at 0x%" PRIx64 " overlaps data from 0x%" PRIx64 " to 0x%" PRIx64, next->addr, s->addr,
                           s->addr + s->size - 1);
    }
    return sort_labels(program, sink);
}

const char *tv_program_target(const tv_program *program) { return program->isa->target; }

int tv_program_uses_proposed(const tv_program *program) { return program->proposed; }

const char *tv_program_requirement_at(const tv_program *program, uint64_t i)
{
    return i < program->requirement_count ? program->requirements[i] : NULL;
}

const char *tv_program_profile(const tv_program *program)
{
    static const char directive[] = ".profile ";
    for (uint64_t i = 0; i < program->requirement_count; i++)
        if (strncmp(program->requirements[i], directive, sizeof directive - 1) == 0)
            return program->requirements[i] + sizeof directive - 1;
    return NULL;
}

uint64_t tv_program_instruction_count(const tv_program *program) { return program->instruction_count; }

uint64_t tv_program_word(const tv_program *program, uint64_t index)
{
    if (!program->word_bytes)
        return 0;
    const uint8_t *p = program->text + index * program->word_bytes;
    return program->word_bytes == 8 ? tv_load_le64(p) : tv_load_le32(p);
}

const tv_diag_sink *tv_program_source_lines(const tv_program *program, const tv_diag_sink *sink, tv_source_lines *lines)
{
    if (!program->form || !program->input.size || !program->file_count)
        return sink;
    tv_source_lines_init(lines, program->files[0], program->input.data, program->input.size, sink);
    return &lines->sink;
}

uint64_t tv_program_additions(const tv_program *program, const tv_diag_sink *sink)
{
    tv_source_lines lines;
    return program->form ? program->form->additions(program, tv_program_source_lines(program, sink, &lines)) : 0;
}

int tv_program_line(const tv_program *program, uint64_t index, tv_source_line *out)
{
    if (!program->lines.data || index >= program->instruction_count)
        return 0;
    tv_line_entry e = program->lines.data[index];
    uint32_t file = e.file_column & (TV_LINE_FILES_MAX - 1);
    if (file >= program->file_count || e.line == 0)
        return 0;
    *out = (tv_source_line){program->files[file], e.line, e.file_column >> TV_LINE_FILE_BITS};
    return 1;
}

int tv_program_symbol_at(const tv_program *program, uint64_t i, tv_symbol *out)
{
    if (i >= program->symbol_count)
        return 0;
    *out = program->symbols[i];
    return 1;
}

int tv_program_symbol(const tv_program *program, const char *name, tv_symbol *out)
{
    for (uint64_t i = 0; i < program->symbol_count; i++)
        if (strcmp(program->symbols[i].name, name) == 0) {
            *out = program->symbols[i];
            return 1;
        }
    return 0;
}

int tv_program_label(const tv_program *program, uint64_t index, tv_symbol *out)
{
    uint64_t low = 0, high = program->label_count; /* labels before `low` are at or before the instruction */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (program->labels[middle]->value <= index)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || index >= program->instruction_count)
        return 0;
    *out = *program->labels[low - 1];
    return 1;
}

int tv_program_segment_at(const tv_program *program, uint64_t i, tv_segment *out)
{
    if (i >= program->segment_count)
        return 0;
    *out = program->segments[i];
    return 1;
}

const char *tv_program_stream_name(const tv_program *program, unsigned stream)
{
    return stream < tv_isa_stream_count(program->isa) ? program->isa->streams[stream] : NULL;
}

int tv_program_descriptor_at(const tv_program *program, unsigned stream, uint64_t i, tv_descriptor *out)
{
    if (stream >= TV_STREAMS_MAX || i >= program->descriptor_count[stream])
        return 0;
    *out = program->descriptors[stream][i];
    return 1;
}

int tv_program_print(const tv_program *program, uint64_t index, tv_text_buffer *text)
{
    if (!program->form || index >= program->instruction_count)
        return 0;
    tv_buf line = {0};
    program->form->print(program, index, &line);
    free(text->text);
    text->text = tv_buf_take(&line);
    return text->text != NULL;
}

int tv_program_output_at(const tv_program *program, uint64_t i, tv_output_info *out)
{
    if (i >= program->output_count)
        return 0;
    *out = program->outputs[i];
    return 1;
}

tv_source_loc tv_program_source_loc(const tv_program *program, uint64_t index)
{
    tv_source_line line;
    tv_source_loc loc = {.index = (int64_t)index};
    if (program && tv_program_line(program, index, &line)) {
        loc.file = line.file;
        loc.line = line.line;
        loc.column = line.column;
    }
    return loc;
}
