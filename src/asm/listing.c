/* SPDX-License-Identifier: Apache-2.0 */
/* The listing: address, bytes and source of every line, then the symbols. Lines are recorded during the pass and
 * printed at the end, after the fixups. */
#include <inttypes.h>

#include "asm/job.h"
#include "base/text.h"

tv_listing_line tv_listing_begin(tv_asm_job *job, tv_sv line)
{
    tv_listing_line l = {0};
    if (!job->listing)
        return l;
    const tv_chunk *chunk = TV_VEC_LAST(&job->chunks);
    l.text_at = job->listing_text.len;
    l.text_length = line.len;
    tv_buf_append(&job->listing_text, line.ptr,
                  line.len); /* a macro expansion is freed before the listing is printed */
    l.text_begin = job->text.len;
    l.in_data = job->in_data;
    l.addr = job->in_data ? tv_emit_location(job) : 0;
    l.chunk = chunk ? job->chunks.count - 1 : 0;
    l.chunk_offset = chunk ? chunk->bytes.len : 0;
    l.line = job->frame->line;
    l.expanded = job->frame->kind == TV_FRAME_MACRO;
    return l;
}

void tv_listing_end(tv_asm_job *job, tv_listing_line *l)
{
    if (!job->listing || !tv_asm_reserve_output(job, sizeof *l))
        return;
    l->text_end = job->text.len;
    if (l->in_data && job->in_data && tv_emit_location(job) > l->addr)
        l->data_size = tv_emit_location(job) - l->addr;
    if (l->data_size && l->chunk != job->chunks.count - 1) { /* the line began a chunk */
        l->chunk = job->chunks.count - 1;
        l->chunk_offset = 0;
        if (TV_VEC_LAST(&job->chunks)->addr != l->addr) /* .org emits no bytes */
            l->data_size = 0;
    }
    if (!TV_VEC_PUSH(&job->listing_lines, *l) || job->listing_text.failed)
        job->out_of_memory = true;
}

/* The first bytes of a line's data. A chunk of zeros has no bytes. */
static void print_data(tv_asm_job *job, const tv_listing_line *l)
{
    enum { SHOWN = 8 };
    const tv_chunk *chunk = &job->chunks.data[l->chunk];
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

static void print_line(tv_asm_job *job, const tv_listing_line *l)
{
    FILE *out = job->listing;
    if (l->text_end > l->text_begin) {
        fprintf(out, "%08" PRIx64 "  ", l->text_begin / job->word_bytes);
        for (unsigned i = job->word_bytes; i-- > 0;)
            fprintf(out, "%02x", job->text.data[l->text_begin + i]);
        fprintf(out, "%*s", 18 - 2 * (int)job->word_bytes, l->text_end - l->text_begin > job->word_bytes ? "+ " : "  ");
    } else if (l->data_size) {
        print_data(job, l);
    } else {
        fprintf(out, "%28s", "");
    }
    fprintf(out, "%5u", l->line);
    if (l->text_length || l->expanded) {
        fputs(l->expanded ? "+ " : "  ", out);
        tv_text_print(out, (const char *)job->listing_text.data + l->text_at, l->text_length, TV_TEXT_KEEP_TABS);
    }
    fputc('\n', out);
}

void tv_listing_write(tv_asm_job *job)
{
    if (!job->listing)
        return;
    for (size_t i = 0; i < job->listing_lines.count; i++)
        print_line(job, &job->listing_lines.data[i]);
    fprintf(job->listing, "\nsymbols\n");
    for (const tv_asm_symbol *s = job->first_symbol; s; s = s->next)
        if (s->state != TV_SYM_UNDEFINED && !s->value.real)
            fprintf(job->listing, "%016" PRIx64 "  %-8s %.*s\n", (uint64_t)s->value.i,
                    s->kind == TV_SYMBOL_TEXT   ? "text"
                    : s->kind == TV_SYMBOL_DATA ? "data"
                                                : "constant",
                    TV_SV_ARG(s->name));
}
