/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a training run, from which it can be resumed, in one file of native byte order. The file is written
 * atomically and validated when read. */
#include "train.h"

#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = "trainer1";

void state_new(struct state *s, const struct config *c)
{
    struct layout layout;
    memset(s, 0, sizeof *s);
    s->config = *c;
    param_layout(c, &layout);
    s->params = layout.total;
    s->best = 1e9;
    s->w = zalloc(s->params, sizeof(float));
    s->m = zalloc(s->params, sizeof(float));
    s->v = zalloc(s->params, sizeof(float));
}

void state_fini(struct state *s)
{
    vocab_fini(&s->vocab);
    free(s->record);
    free(s->w);
    free(s->m);
    free(s->v);
}

void state_record(struct state *s, const struct record *r)
{
    struct record *grown = zalloc(s->records + 1, sizeof *grown);
    if (s->records)
        memcpy(grown, s->record, s->records * sizeof *grown);
    grown[s->records++] = *r;
    free(s->record);
    s->record = grown;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

bool write_file(const char *path, bool (*fill)(FILE *f, const void *what), const void *what)
{
    size_t size = strlen(path) + 5;
    char *temporary = zalloc(size, 1);
    snprintf(temporary, size, "%s.new", path);
    FILE *f = fopen(temporary, "wb");
    bool ok = f && fill(f, what);
    ok = f && fclose(f) == 0 && ok;
    ok = ok && rename(temporary, path) == 0;
    if (!ok)
        fprintf(stderr, "train: cannot write %s\n", path);
    free(temporary);
    return ok;
}

static bool write_items(FILE *f, const void *p, size_t n, size_t size) { return fwrite(p, size, n, f) == n; }

static bool fill_state(FILE *f, const void *what)
{
    const struct state *s = what;
    return write_items(f, MAGIC, 1, sizeof MAGIC) && write_items(f, &s->config, 1, sizeof s->config) &&
           write_items(f, &s->step, 1, sizeof s->step) && write_items(f, &s->records, 1, sizeof s->records) &&
           write_items(f, &s->tokens, 1, sizeof(double)) && write_items(f, &s->minutes, 1, sizeof(double)) &&
           write_items(f, &s->best, 1, sizeof(double)) &&
           write_items(f, s->vocab.piece, s->vocab.size, sizeof(struct piece)) &&
           write_items(f, s->record, s->records, sizeof *s->record) && write_items(f, s->w, s->params, sizeof(float)) &&
           write_items(f, s->m, s->params, sizeof(float)) && write_items(f, s->v, s->params, sizeof(float));
}

bool state_save(const struct state *s, const char *path) { return write_file(path, fill_state, s); }

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool read_items(FILE *f, void *p, size_t n, size_t size) { return fread(p, size, n, f) == n; }

static bool read_state(struct state *s, FILE *f)
{
    char magic[sizeof MAGIC];
    struct config c;
    if (!read_items(f, magic, 1, sizeof magic) || memcmp(magic, MAGIC, sizeof magic) ||
        !read_items(f, &c, 1, sizeof c) || !config_check(&c))
        return false;
    state_new(s, &c);
    s->vocab.size = c.vocab;
    if (!read_items(f, &s->step, 1, sizeof s->step) || !read_items(f, &s->records, 1, sizeof s->records) ||
        s->records > 1000000 || !read_items(f, &s->tokens, 1, sizeof(double)) ||
        !read_items(f, &s->minutes, 1, sizeof(double)) || !read_items(f, &s->best, 1, sizeof(double)) ||
        !read_items(f, s->vocab.piece, s->vocab.size, sizeof(struct piece)))
        return false;
    for (size_t i = TOKEN_PIECES; i < s->vocab.size; i++)
        if (!s->vocab.piece[i].size || s->vocab.piece[i].size > PIECE_MAX)
            return false;
    s->record = zalloc(s->records, sizeof *s->record);
    return read_items(f, s->record, s->records, sizeof *s->record) && read_items(f, s->w, s->params, sizeof(float)) &&
           read_items(f, s->m, s->params, sizeof(float)) && read_items(f, s->v, s->params, sizeof(float));
}

bool state_load(struct state *s, const char *path)
{
    FILE *f = fopen(path, "rb");
    memset(s, 0, sizeof *s);
    bool ok = f && read_state(s, f);
    if (f)
        fclose(f);
    if (ok) {
        vocab_index_merges(&s->vocab);
    } else {
        fprintf(stderr, "train: %s: not a state file of this trainer, or damaged\n", path);
        state_fini(s);
    }
    return ok;
}
