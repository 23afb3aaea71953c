/* SPDX-License-Identifier: Apache-2.0 */
/* Saving the data segments of a program as words for $readmemh, or as bytes. */
#include <inttypes.h>

#include "program/program.h"

enum { DATA_WORD_MAX = 64 };

static const uint64_t DATA_BYTES_MAX = UINT64_C(1) << 30;

/* The words of the data for $readmemh. Segments that share a word are written as one. */
typedef struct word_writer {
    FILE *out;
    unsigned word_bytes;
    bool pending; /* word `index` has the bytes of `word`, and is not written */
    uint64_t index, next;
    uint8_t word[DATA_WORD_MAX];
} word_writer;

static void flush_word(word_writer *w)
{
    if (!w->pending)
        return;
    if (w->index != w->next)
        fprintf(w->out, "@%" PRIx64 "\n", w->index);
    for (unsigned b = w->word_bytes; b-- > 0;)
        fprintf(w->out, "%02x", w->word[b]);
    putc('\n', w->out);
    w->next = w->index + 1;
    w->pending = false;
}

static void write_segment_words(word_writer *w, const tv_segment *s)
{
    for (uint64_t i = 0; i < s->size;) {
        uint64_t addr = s->addr + i, index = addr / w->word_bytes;
        unsigned offset = (unsigned)(addr % w->word_bytes);
        size_t bytes = (size_t)tv_min_u64(w->word_bytes - offset, s->size - i);
        if (w->index != index)
            flush_word(w);
        if (!w->pending)
            memset(w->word, 0, sizeof w->word);
        if (s->bytes)
            memcpy(w->word + offset, s->bytes + i, bytes);
        w->pending = true;
        w->index = index;
        i += bytes;
    }
}

static void write_data_words(const tv_program *program, unsigned word_bytes, FILE *out)
{
    word_writer w = {.out = out, .word_bytes = word_bytes};
    fprintf(out, "// %s, data in words of %u byte%s\n", program->isa->target, word_bytes, word_bytes == 1 ? "" : "s");
    for (uint64_t i = 0; i < program->segment_count; i++)
        write_segment_words(&w, &program->segments[i]);
    flush_word(&w);
}

static void write_zeros(uint64_t count, FILE *out)
{
    static const uint8_t zeros[4096];
    for (uint64_t n; count; count -= n) {
        n = tv_min_u64(count, sizeof zeros);
        fwrite(zeros, 1, (size_t)n, out);
    }
}

static void write_data_bytes(const tv_program *program, FILE *out)
{
    uint64_t at = program->segment_count ? program->segments[0].addr : 0;
    for (uint64_t i = 0; i < program->segment_count; i++) {
        const tv_segment *s = &program->segments[i];
        write_zeros(s->addr - at, out);
        if (s->bytes)
            fwrite(s->bytes, 1, (size_t)s->size, out);
        else
            write_zeros(s->size, out);
        at = s->addr + s->size;
    }
}

/* Bytes of all segments, and of the gaps between them unless the form leaves these out. */
static uint64_t count_data_bytes(const tv_program *program, bool gaps)
{
    uint64_t bytes = 0, n = program->segment_count;
    for (uint64_t i = 0; i < n && !gaps; i++)
        bytes += program->segments[i].size;
    return gaps && n ? program->segments[n - 1].addr + program->segments[n - 1].size - program->segments[0].addr
                     : bytes;
}

tv_status tv_program_save_data(const tv_program *program, const char *path, unsigned word_bytes, tv_output_group *group,
                               const tv_diag_sink *sink)
{
    bool words = tv_sv_ends_with(tv_sv_of(path), ".memh") || tv_sv_ends_with(tv_sv_of(path), ".hex");
    tv_output *output;
    if (program->form)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_FORMAT), "its initial data are files and digits of the queue",
                       "programs of %s have no data segments", program->isa->target);
    if (word_bytes < 1 || word_bytes > DATA_WORD_MAX || (word_bytes & (word_bytes - 1)) || (word_bytes > 1 && !words))
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_FORMAT), "a power of two up to 64; 1 for bytes",
                       "data cannot be written in words of %u bytes", word_bytes);
    if (count_data_bytes(program, !words) > DATA_BYTES_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE),
                       words ? NULL : "a name that ends in .memh leaves out the gaps between segments",
                       "the data have %" PRIu64 " bytes, more than 1 GiB", count_data_bytes(program, !words));
    TV_TRY(tv_output_open(path, sink, &output));
    if (words)
        write_data_words(program, word_bytes, tv_output_stream(output));
    else
        write_data_bytes(program, tv_output_stream(output));
    return tv_output_commit_to(output, group, sink);
}
