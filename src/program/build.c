/* SPDX-License-Identifier: Apache-2.0 */
/* From a builder's buffers to a program. */
#include "program/build.h"

typedef struct build_segment {
    uint64_t addr, at, size; /* `at`: where in the builder's bytes */
} build_segment;

void tv_builder_fini(tv_builder *b)
{
    tv_buf_fini(&b->words);
    tv_buf_fini(&b->bytes);
    tv_buf_fini(&b->segments);
    tv_buf_fini(&b->labels);
    for (unsigned s = 0; s < TV_STREAMS_MAX; s++)
        tv_buf_fini(&b->streams[s]);
    tv_arena_fini(&b->arena);
}

void tv_builder_clear(tv_builder *b)
{
    b->words.len = b->bytes.len = b->segments.len = b->labels.len = 0;
    for (unsigned s = 0; s < TV_STREAMS_MAX; s++)
        b->streams[s].len = 0;
}

void tv_builder_label(tv_builder *b, const char *name)
{
    tv_build_label label = {.index = tv_builder_count(b)};
    const tv_build_label *labels = (const tv_build_label *)(const void *)b->labels.data;
    size_t count = b->labels.len / sizeof *labels;
    snprintf(label.name, sizeof label.name, "%s", name);
    if (count == 0 || strcmp(labels[count - 1].name, label.name) != 0)
        tv_buf_append(&b->labels, &label, sizeof label);
}

void tv_builder_data(tv_builder *b, uint64_t addr, const void *bytes, size_t size)
{
    build_segment segment = {addr, b->bytes.len, size};
    tv_buf_append(&b->bytes, bytes, size);
    tv_buf_append(&b->segments, &segment, sizeof segment);
}

void tv_builder_stream(tv_builder *b, unsigned stream, uint64_t addr, uint64_t bytes)
{
    tv_descriptor descriptor = {addr, bytes};
    tv_buf_append(&b->streams[stream], &descriptor, sizeof descriptor);
}

/* ---- The program ---- */

static void *copy(tv_program *program, const void *from, size_t bytes)
{
    void *to = tv_arena_alloc(&program->arena, bytes ? bytes : 1);
    if (to && bytes)
        memcpy(to, from, bytes);
    return to;
}

static bool copy_segments(const tv_builder *b, tv_program *program)
{
    const build_segment *from = (const build_segment *)(const void *)b->segments.data;
    uint64_t count = b->segments.len / sizeof *from;
    const uint8_t *bytes = copy(program, b->bytes.data, b->bytes.len);
    program->segments =
        tv_arena_alloc(&program->arena, (count + 1) * sizeof *program->segments); /* room for one more */
    if (!bytes || !program->segments)
        return false;
    for (uint64_t i = 0; i < count; i++)
        program->segments[program->segment_count++] = (tv_segment){from[i].addr, from[i].size, bytes + from[i].at};
    return true;
}

/* A label at the end, behind which no word came, names nothing. */
static bool copy_labels(const tv_builder *b, tv_program *program)
{
    const tv_build_label *from = (const tv_build_label *)(const void *)b->labels.data;
    uint64_t count = b->labels.len / sizeof *from;
    program->symbols = tv_arena_alloc(&program->arena, (count + 1) * sizeof *program->symbols);
    for (uint64_t i = 0; i < count && program->symbols; i++) {
        char *name = tv_arena_str(&program->arena, tv_sv_of(from[i].name));
        if (!name)
            return false;
        if (from[i].index < program->instruction_count)
            program->symbols[program->symbol_count++] = (tv_symbol){name, from[i].index, TV_SYMBOL_TEXT};
    }
    return program->symbols != NULL;
}

static bool copy_streams(const tv_builder *b, tv_program *program)
{
    for (unsigned s = 0; s < tv_isa_stream_count(b->isa); s++) {
        program->descriptors[s] = copy(program, b->streams[s].data, b->streams[s].len);
        program->descriptor_count[s] = b->streams[s].len / sizeof(tv_descriptor);
        if (!program->descriptors[s])
            return false;
    }
    return true;
}

static bool failed(const tv_builder *b)
{
    bool any = b->words.failed || b->bytes.failed || b->segments.failed || b->labels.failed;
    for (unsigned s = 0; s < TV_STREAMS_MAX; s++)
        any = any || b->streams[s].failed;
    return any;
}

tv_status tv_builder_finish(tv_builder *b, const tv_diag_sink *sink, tv_program **out)
{
    tv_program *program;
    if (failed(b))
        return tv_fail_memory(sink);
    TV_TRY(tv_program_new(b->isa, sink, &program));
    program->instruction_count = tv_builder_count(b);
    program->text_buf = b->words; /* moves over */
    program->text = program->text_buf.data;
    b->words = (tv_buf){0};
    program->arena = b->arena;
    b->arena = (tv_arena){0};
    bool well = copy_segments(b, program) && copy_labels(b, program) && copy_streams(b, program);
    tv_status status = well ? tv_program_seal(program, sink) : tv_fail_memory(sink);
    tv_builder_clear(b);
    if (status != TV_OK) {
        tv_program_free(program);
        return status;
    }
    *out = program;
    return TV_OK;
}

void tv_builder_reuse(tv_builder *b, tv_program *program)
{
    if (program && !b->arena.blocks)
        tv_arena_reuse(&b->arena, &program->arena);
    if (program && !b->words.data)
        tv_buf_reuse(&b->words, &program->text_buf);
    tv_program_free(program);
}
