/* SPDX-License-Identifier: Apache-2.0 */
/* The listing: address, bytes and source of every line, then the symbols. It is printed at the end, when what waited
 * for symbols has been filled in. */
#include <inttypes.h>

#include "asm/job.h"

static tv_chunk *last_chunk(tv_asm_job *job)
{
    size_t count = job->chunks.len / sizeof(tv_chunk);
    return count ? (tv_chunk *)(void *)job->chunks.data + count - 1 : NULL;
}

tv_listed tv_listing_begin(tv_asm_job *job, tv_sv line)
{
    tv_listed l = {0};
    if (!job->listing)
        return l;
    const tv_chunk *chunk = last_chunk(job);
    l.text_at = job->listed_text.len;
    l.text_length = line.len;
    tv_buf_append(&job->listed_text, line.ptr, line.len); /* a macro's text is gone by the end */
    l.words_from = job->text.len;
    l.in_data = job->in_data;
    l.addr = job->in_data ? tv_emit_here(job) : 0;
    l.chunk = chunk ? job->chunks.len / sizeof *chunk - 1 : 0;
    l.chunk_offset = chunk ? chunk->bytes.len : 0;
    l.line = job->frame->line;
    l.expanded = job->frame->kind == TV_FRAME_MACRO;
    return l;
}

void tv_listing_end(tv_asm_job *job, tv_listed *l)
{
    if (!job->listing || !tv_asm_take(job, sizeof *l))
        return;
    l->words_to = job->text.len;
    if (l->in_data && job->in_data && tv_emit_here(job) > l->addr)
        l->data_size = tv_emit_here(job) - l->addr;
    if (l->data_size && l->chunk != job->chunks.len / sizeof(tv_chunk) - 1) { /* the line began a chunk */
        l->chunk = job->chunks.len / sizeof(tv_chunk) - 1;
        l->chunk_offset = 0;
        if (last_chunk(job)->addr != l->addr) /* .org: the line has no bytes of its own */
            l->data_size = 0;
    }
    tv_buf_append(&job->listed, l, sizeof *l);
    if (job->listed.failed || job->listed_text.failed)
        job->out_of_memory = true;
}

/* The first bytes of a line's data; zeros where a run of them takes no memory. */
static void print_data(tv_asm_job *job, const tv_listed *l)
{
    enum { SHOWN = 8 };
    const tv_chunk *chunk = (const tv_chunk *)(const void *)job->chunks.data + l->chunk;
    fprintf(job->listing, "%08" PRIx64 "  ", l->addr);
    for (uint64_t i = 0; i < SHOWN; i++) {
        if (i < l->data_size)
            fprintf(job->listing, "%02x",
                    chunk->zeros || l->chunk_offset + i >= chunk->bytes.len ? 0
                                                                            : chunk->bytes.data[l->chunk_offset + i]);
        else
            fputs("  ", job->listing);
    }
    fputs(l->data_size > SHOWN ? "+ " : "  ", job->listing);
}

static void print_line(tv_asm_job *job, const tv_listed *l)
{
    FILE *out = job->listing;
    if (l->words_to > l->words_from) {
        fprintf(out, "%08" PRIx64 "  ", l->words_from / job->word_bytes);
        for (unsigned i = job->word_bytes; i-- > 0;)
            fprintf(out, "%02x", job->text.data[l->words_from + i]);
        fprintf(out, "%*s", 18 - 2 * (int)job->word_bytes, l->words_to - l->words_from > job->word_bytes ? "+ " : "  ");
    } else if (l->data_size) {
        print_data(job, l);
    } else {
        fprintf(out, "%28s", "");
    }
    fprintf(out, "%5u", l->line);
    if (l->text_length || l->expanded)
        fprintf(out, "%c %.*s", l->expanded ? '+' : ' ', (int)l->text_length,
                (const char *)job->listed_text.data + l->text_at);
    fputc('\n', out);
}

void tv_listing_write(tv_asm_job *job)
{
    if (!job->listing)
        return;
    const tv_listed *lines = (const tv_listed *)(const void *)job->listed.data;
    for (size_t i = 0; i < job->listed.len / sizeof *lines; i++)
        print_line(job, &lines[i]);
    fprintf(job->listing, "\nsymbols\n");
    for (const tv_asm_symbol *s = job->first_symbol; s; s = s->next)
        if (s->state != TV_SYM_UNDEFINED && !s->value.real)
            fprintf(job->listing, "%016" PRIx64 "  %-8s %.*s\n", (uint64_t)s->value.i,
                    s->kind == TV_SYMBOL_TEXT   ? "text"
                    : s->kind == TV_SYMBOL_DATA ? "data"
                                                : "constant",
                    TV_SV_ARG(s->name));
}
