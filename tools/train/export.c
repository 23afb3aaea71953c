/* SPDX-License-Identifier: Apache-2.0 */
/* Exports the llama2.c checkpoint (version 0) and tokenizer, little-endian, and the table of losses. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool write_int(FILE *f, int32_t x) { return fwrite(&x, sizeof x, 1, f) == 1; }

static bool write_floats(FILE *f, const float *x, size_t n) { return fwrite(x, sizeof *x, n, f) == n; }

/* Seven header values, the parameters in the same order as in memory, then cosines and sines, which readers skip. */
static bool fill_model(FILE *f, const void *what)
{
    const struct state *s = what;
    const struct config *c = &s->config;
    const size_t header[7] = {c->dim, c->hidden, c->layers, c->heads, c->kv_heads, c->vocab, c->context};
    size_t half = config_head(c) / 2;
    bool ok = true;
    for (int i = 0; i < 7; i++)
        ok = ok && write_int(f, (int32_t)header[i]);
    ok = ok && write_floats(f, s->w, s->params);
    for (int table = 0; table < 2; table++)
        for (size_t t = 0; t < c->context; t++)
            for (size_t i = 0; i < half; i++) {
                double angle = (double)t * pow(ROPE_THETA, -(double)i / (double)half);
                float x = (float)(table ? sin(angle) : cos(angle));
                ok = ok && write_floats(f, &x, 1);
            }
    return ok;
}

/* Text of a token in tokenizer.bin: byte tokens as <0xNN>, control tokens by name. */
static size_t token_text(const struct vocab *v, size_t token, char text[PIECE_MAX])
{
    static const char *const control[] = {"<unk>", "\n<s>\n", "\n</s>\n"};
    if (token < TOKEN_BYTES)
        return (size_t)snprintf(text, PIECE_MAX, "%s", control[token]);
    if (token < TOKEN_PIECES)
        return (size_t)snprintf(text, PIECE_MAX, "<0x%02X>", (unsigned)(token - TOKEN_BYTES));
    return vocab_decode(v, (int)token, text);
}

static bool fill_tokenizer(FILE *f, const void *what)
{
    const struct vocab *v = what;
    char text[PIECE_MAX];
    size_t longest = 0;
    for (size_t i = 0; i < v->size; i++) {
        size_t n = token_text(v, i, text);
        longest = n > longest ? n : longest;
    }
    bool ok = write_int(f, (int32_t)longest);
    for (size_t i = 0; i < v->size; i++) {
        float score = vocab_score(i);
        size_t n = token_text(v, i, text);
        ok = ok && write_floats(f, &score, 1) && write_int(f, (int32_t)n) && fwrite(text, 1, n, f) == n;
    }
    return ok;
}

static bool fill_losses(FILE *f, const void *what)
{
    const struct state *s = what;
    fprintf(f, "step,tokens,minutes,rate,train_loss,held_out_loss,held_out_bits_per_character\n");
    for (size_t i = 0; i < s->records; i++) {
        const struct record *r = &s->record[i];
        fprintf(f, "%.0f,%.0f,%.2f,%.3g,%.4f,%.4f,%.4f\n", r->step, r->tokens, r->minutes, r->rate, r->train,
                r->val_loss, r->bits);
    }
    return !ferror(f);
}

static bool export_file(const char *dir, const char *name, bool (*fill)(FILE *f, const void *what), const void *what)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = zalloc(size, 1);
    snprintf(path, size, "%s/%s", dir, name);
    bool ok = write_file(path, fill, what);
    free(path);
    return ok;
}

bool export_model(const struct state *s, const char *dir)
{
    return export_file(dir, "model.bin", fill_model, s) && export_file(dir, "tokenizer.bin", fill_tokenizer, &s->vocab);
}

bool export_losses(const struct state *s, const char *dir) { return export_file(dir, "losses.csv", fill_losses, s); }
