/* SPDX-License-Identifier: Apache-2.0 */
/* The builder of programs of instruction words. */
#include "program/build.h"

void tv_builder_fini(tv_builder *b)
{
    tv_buf_fini(&b->words);
    tv_buf_fini(&b->bytes);
    TV_VEC_FINI(&b->segments);
    TV_VEC_FINI(&b->labels);
    for (unsigned s = 0; s < TV_STREAMS_MAX; s++)
        TV_VEC_FINI(&b->streams[s]);
    tv_arena_fini(&b->arena);
}

void tv_builder_clear(tv_builder *b)
{
    b->words.len = b->bytes.len = 0;
    b->segments.count = b->labels.count = 0;
    for (unsigned s = 0; s < TV_STREAMS_MAX; s++)
        b->streams[s].count = 0;
}

void tv_builder_label(tv_builder *b, const char *name)
{
    tv_build_label label = {.index = tv_builder_count(b)};
    const tv_build_label *last = TV_VEC_LAST(&b->labels);
    snprintf(label.name, sizeof label.name, "%s", name);
    if (!last || strcmp(last->name, label.name) != 0)
        (void)TV_VEC_PUSH(&b->labels, label);
}

void tv_builder_data(tv_builder *b, uint64_t addr, const void *bytes, size_t size)
{
    (void)TV_VEC_PUSH(&b->segments, (tv_build_segment){addr, b->bytes.len, size});
    tv_buf_append(&b->bytes, bytes, size);
}

void tv_builder_stream(tv_builder *b, unsigned stream, uint64_t addr, uint64_t bytes)
{
    (void)TV_VEC_PUSH(&b->streams[stream], (tv_descriptor){addr, bytes});
}

/* ---- The program ---- */

static void *copy_bytes(tv_program *program, const void *from, size_t bytes)
{
    void *to = tv_arena_alloc(&program->arena, bytes ? bytes : 1);
    if (to && bytes)
        memcpy(to, from, bytes);
    return to;
}

static bool copy_segments(const tv_builder *b, tv_program *program)
{
    const tv_build_segment *from = b->segments.data;
    uint64_t count = b->segments.count;
    const uint8_t *bytes = copy_bytes(program, b->bytes.data, b->bytes.len);
    program->segments =
        tv_arena_alloc(&program->arena, (count + 1) * sizeof *program->segments); /* room for one more */
    if (!bytes || !program->segments)
        return false;
    for (uint64_t i = 0; i < count; i++)
        program->segments[program->segment_count++] = (tv_segment){from[i].addr, from[i].size, bytes + from[i].at};
    return true;
}

/* Labels after the last word are dropped. */
static bool copy_labels(const tv_builder *b, tv_program *program)
{
    const tv_build_label *from = b->labels.data;
    uint64_t count = b->labels.count;
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
        program->descriptors[s] = copy_bytes(program, b->streams[s].data, b->streams[s].count * sizeof(tv_descriptor));
        program->descriptor_count[s] = b->streams[s].count;
        if (!program->descriptors[s])
            return false;
    }
    return true;
}

static bool has_failed(const tv_builder *b)
{
    bool any = b->words.failed || b->bytes.failed || b->segments.failed || b->labels.failed;
    for (unsigned s = 0; s < TV_STREAMS_MAX; s++)
        any = any || b->streams[s].failed;
    return any;
}

tv_status tv_builder_finish(tv_builder *b, const tv_diag_sink *sink, tv_program **out)
{
    tv_program *program;
    if (has_failed(b))
        return tv_fail_memory(sink);
    TV_TRY(tv_program_new(b->isa, sink, &program));
    program->instruction_count = tv_builder_count(b);
    program->text_buf = b->words;
    program->text = program->text_buf.data;
    b->words = (tv_buf){0};
    program->arena = b->arena;
    b->arena = (tv_arena){0};
    bool ok = copy_segments(b, program) && copy_labels(b, program) && copy_streams(b, program);
    tv_status status = ok ? tv_program_seal(program, sink) : tv_fail_memory(sink);
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
