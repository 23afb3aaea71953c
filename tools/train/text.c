/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling of training sequences, evaluation on the held-out text, and text generation. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Start of a sequence: at a line of text (`line`), or at any word. */
static size_t draw_start(const struct text *t, bool line, struct rng *r)
{
    size_t at = rng_below(r, t->train);
    if (line) {
        while (at && t->bytes[at - 1] != '\n')
            at--;
        while (at < t->train && t->bytes[at] == '\n')
            at++;
    } else {
        while (at && t->bytes[at] != ' ' && t->bytes[at] != '\n')
            at--;
    }
    return at < t->train ? at : 0;
}

void draw_sequences(const struct state *s, const struct text *t, float skip, struct rng r, int *token, int *target,
                    size_t sequences)
{
    size_t context = s->config.context;
    for (size_t i = 0; i < sequences; i++) {
        int *to = target + i * context, *from = token + i * context;
        bool line = i % 2 == 0;
        size_t at = draw_start(t, line, &r),
               n = vocab_encode(&s->vocab, t->bytes + at, t->train - at, line, skip, &r, to, context);
        for (size_t k = n; k < context; k++) /* end of the text */
            to[k] = -1;
        from[0] = TOKEN_BOS;
        for (size_t k = 1; k < context; k++)
            from[k] = to[k - 1] < 0 ? TOKEN_EOS : to[k - 1];
    }
}

double val_loss(struct workers *workers, const struct state *s, const struct text *t, double *bits)
{
    size_t context = s->config.context, size = t->size - t->train, characters = 0;
    struct rng r = {0};
    int *target = zalloc(size + context + 1, sizeof *target), *token = zalloc(size + context + 1, sizeof *token);
    size_t n = vocab_encode(&s->vocab, t->bytes + t->train, size, true, 0.0f, &r, target, size + 1);
    size_t sequences = (n + context - 1) / context;
    for (size_t i = n; i < sequences * context; i++)
        target[i] = -1;
    for (size_t i = 0; i < sequences * context; i++)
        token[i] = i % context == 0 ? TOKEN_BOS : target[i - 1] < 0 ? TOKEN_EOS : target[i - 1];
    double loss = workers_run(workers, s->w, token, target, sequences, -1.0f, r);
    for (size_t i = t->train; i < t->size; i++)
        characters += ((unsigned char)t->bytes[i] & 0xc0) != 0x80;
    *bits = loss * (double)n / log(2.0) / (double)characters;
    free(target);
    free(token);
    return loss;
}

static int draw_token(float *logits, size_t n, float temperature, struct rng *r)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    if (temperature <= 0.0f)
        return (int)best;
    for (size_t i = 0; i < n; i++)
        logits[i] /= temperature;
    softmax(logits, n, n);
    float remaining = rng_unit(r);
    for (size_t i = 0; i < n; i++)
        if ((remaining -= logits[i]) < 0.0f)
            return (int)i;
    return (int)best;
}

/* Runs a full forward pass per token, which is slow but simple. When the context is full, the window slides. */
void write_sample(const struct state *s, const char *prompt, size_t tokens, float temperature, uint64_t seed, FILE *f)
{
    size_t context = s->config.context, vocab = s->config.vocab, capacity = strlen(prompt) + tokens + 2;
    struct run run;
    struct rng r = rng_stream(seed, 1, 0);
    int *token = zalloc(capacity, sizeof *token);
    run_init(&run, &s->config, 1);
    token[0] = TOKEN_BOS;
    size_t n = 1 + vocab_encode(&s->vocab, prompt, strlen(prompt), true, 0.0f, &r, token + 1, capacity - tokens - 1);
    fputs(prompt, f);
    for (size_t i = 0; i < tokens; i++) {
        char bytes[PIECE_MAX];
        size_t from = n > context ? n - context : 0;
        run_forward(&run, s->w, token + from, 1, n - from);
        token[n] = draw_token(run.logits + (n - from - 1) * vocab, vocab, temperature, &r);
        fwrite(bytes, 1, vocab_decode(&s->vocab, token[n], bytes), f);
        n++;
    }
    fputc('\n', f);
    run_fini(&run);
    free(token);
}
