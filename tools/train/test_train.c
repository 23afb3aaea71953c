/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the trainer: analytic gradients against finite differences of the loss on a tiny model, with and without
 * dropout; the vocabulary; two threads against one; saving, loading and rejecting state files. */
#include "train.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

static void check(bool ok, const char *what, double figure)
{
    printf("%s: %s (%.3g)\n", ok ? "ok" : "FAILED", what, figure);
    failures += !ok;
}

/* The context is longer than an attention tile. */
static const struct config TINY = {
    .dim = 8, .hidden = 12, .layers = 2, .heads = 4, .kv_heads = 2, .vocab = 262, .context = 72};

enum { SEQUENCES = 2, SEED = 7 };

static double loss_at(struct run *run, const float *w, const int *token, const int *target, float rate, float scale)
{
    run->dropout = rate;
    run->rng = rng_stream(SEED, 3, 3); /* the same masks in every call */
    run_forward(run, w, token, SEQUENCES, TINY.context);
    return run_loss(run, target, scale);
}

/* Maximum deviation over a sample of a tensor's elements, relative to the absmax of its gradient. */
static double worst_gradient(enum tensor t, struct run *run, float *w, const float *g, const int *token,
                             const int *target, float rate, float scale)
{
    struct layout s;
    double worst = 0.0, absmax = 1e-9;
    param_layout(&TINY, &s);
    size_t end = t + 1 < TENSORS ? s.at[t + 1] : s.total, stride = (end - s.at[t]) / 40 + 1;
    for (size_t i = s.at[t]; i < end; i++)
        absmax = fmax(absmax, fabs((double)g[i]));
    for (size_t i = s.at[t]; i < end; i += stride) {
        const float original = w[i], step = 2e-2f;
        double side[4];
        const float at[4] = {-2.0f, -1.0f, 1.0f, 2.0f};
        for (int k = 0; k < 4; k++) {
            w[i] = original + at[k] * step;
            side[k] = loss_at(run, w, token, target, rate, scale) * (double)scale;
        }
        w[i] = original;
        double slope = (side[0] - 8.0 * side[1] + 8.0 * side[2] - side[3]) / (12.0 * (double)step);
        worst = fmax(worst, fabs(slope - (double)g[i]) / absmax);
    }
    return worst;
}

static void test_gradients(float rate)
{
    static const char *const name[TENSORS] = {"embedding", "norm_att", "wq", "wk", "wv",       "wo",
                                              "norm_ffn",  "w1",       "w2", "w3", "norm_last"};
    struct layout s;
    struct run run;
    struct rng r = rng_stream(SEED, 1, 1);
    int token[SEQUENCES * 72], target[SEQUENCES * 72];
    const float scale = 1.0f / (SEQUENCES * 72);
    param_layout(&TINY, &s);
    float *w = zalloc(s.total, sizeof *w), *g = zalloc(s.total, sizeof *g);
    run_init(&run, &TINY, SEQUENCES);
    for (size_t i = 0; i < s.total; i++)
        w[i] = 0.4f * rng_normal(&r);
    for (size_t i = 0; i < SEQUENCES * 72; i++) {
        token[i] = (int)rng_below(&r, 8) + 255;
        target[i] = i % 9 == 0 ? -1 : (int)rng_below(&r, 8) + 250;
        token[i] = token[i] < 262 ? token[i] : 0;
    }
    loss_at(&run, w, token, target, rate, scale);
    run_backward(&run, w, g, token);
    for (int t = 0; t < TENSORS; t++) {
        double worst = worst_gradient((enum tensor)t, &run, w, g, token, target, rate, scale);
        check(worst < 5e-3, name[t], worst);
    }
    run_fini(&run);
    free(w);
    free(g);
}

static const char TEXT[] =
    "the cat sat on the mat.\nThe rat; the hat -- the bat!\n\nthat is that, the cat thatched the shed\n";

static void test_vocabulary(void)
{
    struct vocab *v = zalloc(1, sizeof *v);
    struct rng r = rng_stream(SEED, 2, 2);
    const char *const samples[] = {TEXT, "unseen: \xc3\xa9\x01 QZ  two spaces", "", " x", "\n"};
    vocab_train(v, TEXT, strlen(TEXT), 259 + 36);
    check(v->size == 259 + 36, "size of the vocabulary", (double)v->size);
    for (size_t i = 0; i < 5; i++)
        for (int skip = 0; skip < 2; skip++) {
            int token[256];
            char back[4096], bytes[PIECE_MAX];
            size_t length = 0,
                   n = vocab_encode(v, samples[i], strlen(samples[i]), false, skip ? 0.5f : 0.0f, &r, token, 256);
            for (size_t k = 0; k < n; k++) {
                size_t size = vocab_decode(v, token[k], bytes);
                memcpy(back + length, bytes, size);
                length += size;
            }
            check(length == strlen(samples[i]) && !memcmp(back, samples[i], length), "decoding restores the text",
                  (double)n);
        }
    int the[4];
    size_t n = vocab_encode(v, "the", 3, true, 0.0f, &r, the, 4);
    check(n == 1 && v->piece[the[0]].size == 4 && !memcmp(v->piece[the[0]].bytes, " the", 4), "\"the\" is one token",
          (double)n);
    vocab_fini(v);
    free(v);
}

static void test_threads(void)
{
    struct layout s;
    struct rng r = rng_stream(SEED, 4, 4);
    int token[5 * 72], target[5 * 72];
    double loss[2], difference = 0.0;
    struct workers workers[2];
    param_layout(&TINY, &s);
    float *w = zalloc(s.total, sizeof *w);
    model_init(&TINY, w, SEED);
    for (size_t i = 0; i < 5 * 72; i++) {
        token[i] = (int)rng_below(&r, TINY.vocab);
        target[i] = (int)rng_below(&r, TINY.vocab);
    }
    for (size_t i = 0; i < 2; i++) {
        workers_init(&workers[i], &TINY, i + 1, 2);
        loss[i] = workers_run(&workers[i], w, token, target, 5, 0.1f, rng_stream(SEED, 5, 5));
    }
    for (size_t i = 0; i < s.total; i++)
        difference = fmax(difference, fabs((double)(workers[0].grads[0][i] - workers[1].grads[0][i])));
    check(fabs(loss[0] - loss[1]) < 1e-6 && difference < 1e-6, "two threads match one", difference);
    check(fabs(loss[0] - log(262.0)) < 0.1, "loss of an untrained model", loss[0]);
    workers_fini(&workers[0]);
    workers_fini(&workers[1]);
    free(w);
}

static void test_state(void)
{
    char path[] = "/tmp/test_train.XXXXXX";
    const struct record record = {1, 2, 3, 4, 5, 6, 7};
    struct state *s = zalloc(2, sizeof *s);
    struct config c = TINY;
    int file = mkstemp(path);
    check(file >= 0, "a file for the state", file);
    c.vocab = 280;
    state_new(&s[0], &c);
    vocab_train(&s[0].vocab, TEXT, strlen(TEXT), c.vocab);
    model_init(&c, s[0].w, SEED);
    s[0].step = 11;
    state_record(&s[0], &record);
    bool ok = state_save(&s[0], path) && state_load(&s[1], path);
    check(ok, "a state is saved and loaded", 0);
    if (ok) {
        check(s[1].step == 11 && s[1].records == 1 && !memcmp(s[1].record, &record, sizeof record), "counters",
              (double)s[1].step);
        check(!memcmp(s[0].w, s[1].w, s[0].params * sizeof(float)), "weights", (double)s[1].params);
        check(!memcmp(s[0].vocab.merged, s[1].vocab.merged, c.vocab * c.vocab * sizeof(int16_t)), "vocabulary",
              (double)s[1].vocab.size);
        state_fini(&s[1]);
    }
    check(truncate(path, 4000) == 0 && !state_load(&s[1], path), "a truncated state is rejected", 0);
    unlink(path);
    if (file >= 0)
        close(file);
    state_fini(&s[0]);
    free(s);
}

int main(void)
{
    openblas_set_num_threads(1);
    test_gradients(0.0f);
    test_gradients(0.25f);
    test_vocabulary();
    test_threads();
    test_state();
    return failures ? 1 : 0;
}
