/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a training: what is needed to go on, in one file of this machine's byte order. It is written whole or
 * not at all, and read only by the trainer that wrote it; what is read is still checked.
 */
#include "train.h"

#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = "trainer1";

void state_new(struct state *s, const struct config *c)
{
    struct shape shape;
    memset(s, 0, sizeof *s);
    s->config = *c;
    config_shape(c, &shape);
    s->params = shape.total;
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
    char *fresh = zalloc(size, 1);
    snprintf(fresh, size, "%s.new", path);
    FILE *f = fopen(fresh, "wb");
    bool good = f && fill(f, what);
    good = f && fclose(f) == 0 && good;
    good = good && rename(fresh, path) == 0;
    if (!good)
        fprintf(stderr, "train: cannot write %s\n", path);
    free(fresh);
    return good;
}

static bool put(FILE *f, const void *p, size_t n, size_t size) { return fwrite(p, size, n, f) == n; }

static bool fill_state(FILE *f, const void *what)
{
    const struct state *s = what;
    return put(f, MAGIC, 1, sizeof MAGIC) && put(f, &s->config, 1, sizeof s->config) &&
           put(f, &s->step, 1, sizeof s->step) && put(f, &s->records, 1, sizeof s->records) &&
           put(f, &s->tokens, 1, sizeof(double)) && put(f, &s->minutes, 1, sizeof(double)) &&
           put(f, &s->best, 1, sizeof(double)) && put(f, s->vocab.piece, s->vocab.size, sizeof(struct piece)) &&
           put(f, s->record, s->records, sizeof *s->record) && put(f, s->w, s->params, sizeof(float)) &&
           put(f, s->m, s->params, sizeof(float)) && put(f, s->v, s->params, sizeof(float));
}

bool state_save(const struct state *s, const char *path) { return write_file(path, fill_state, s); }

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool get(FILE *f, void *p, size_t n, size_t size) { return fread(p, size, n, f) == n; }

static bool read_state(struct state *s, FILE *f)
{
    char magic[sizeof MAGIC];
    struct config c;
    if (!get(f, magic, 1, sizeof magic) || memcmp(magic, MAGIC, sizeof magic) || !get(f, &c, 1, sizeof c) ||
        !config_check(&c))
        return false;
    state_new(s, &c);
    s->vocab.size = c.vocab;
    if (!get(f, &s->step, 1, sizeof s->step) || !get(f, &s->records, 1, sizeof s->records) || s->records > 1000000 ||
        !get(f, &s->tokens, 1, sizeof(double)) || !get(f, &s->minutes, 1, sizeof(double)) ||
        !get(f, &s->best, 1, sizeof(double)) || !get(f, s->vocab.piece, s->vocab.size, sizeof(struct piece)))
        return false;
    for (size_t i = TOKEN_PIECES; i < s->vocab.size; i++)
        if (!s->vocab.piece[i].size || s->vocab.piece[i].size > PIECE_MAX)
            return false;
    s->record = zalloc(s->records, sizeof *s->record);
    return get(f, s->record, s->records, sizeof *s->record) && get(f, s->w, s->params, sizeof(float)) &&
           get(f, s->m, s->params, sizeof(float)) && get(f, s->v, s->params, sizeof(float));
}

bool state_load(struct state *s, const char *path)
{
    FILE *f = fopen(path, "rb");
    memset(s, 0, sizeof *s);
    bool good = f && read_state(s, f);
    if (f)
        fclose(f);
    if (good) {
        vocab_link(&s->vocab);
    } else {
        fprintf(stderr, "train: %s: no state of this trainer, or a damaged one\n", path);
        state_fini(s);
    }
    return good;
}
