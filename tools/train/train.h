/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer of small language models: what its files share. A model has the llama architecture: RMSNorm, rotary
 * positions over adjacent pairs, SwiGLU, grouped key and value heads, one matrix for embedding and classifier. Matrices
 * are row-major, an output a row; activations have a token a row. Everything is float; sums that decide are double.
 *
 * A tool, not a library: running out of memory ends the program.
 */
#ifndef TRAIN_H
#define TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NORM_EPSILON 1e-5f
#define ROPE_THETA 10000.0

/* ---- random numbers (splitmix64) -------------------------------------------------------------------------------- */

struct rng {
    uint64_t state;
};

/* A stream of its own for every (seed, a, b): what a step draws does not depend on what ran before it. */
struct rng rng_stream(uint64_t seed, uint64_t a, uint64_t b);
uint64_t rng_next(struct rng *r);
size_t rng_below(struct rng *r, size_t n);
float rng_unit(struct rng *r);   /* in [0, 1) */
float rng_normal(struct rng *r); /* mean 0, deviation 1 */

void *zalloc(size_t count, size_t size); /* zeroed; never NULL */

/* ---- bpe.c: the vocabulary -------------------------------------------------------------------------------------- */

enum {
    TOKEN_UNKNOWN = 0,
    TOKEN_BOS = 1,
    TOKEN_EOS = 2,
    TOKEN_BYTES = 3, /* 256 of them */
    TOKEN_PIECES = TOKEN_BYTES + 256,
    PIECE_MAX = 16, /* bytes a piece may have */
    VOCAB_MAX = 4096
};

struct piece {
    uint8_t size;
    char bytes[PIECE_MAX]; /* not ended by 0; a space is a space (SentencePiece would write U+2581) */
};

struct vocab {
    size_t size;
    struct piece piece[VOCAB_MAX]; /* from TOKEN_PIECES on */
    int16_t *join;                 /* [left * size + right]: the piece the two make, or -1 */
};

/* Makes a vocabulary of `size` tokens by merging the most frequent pair again and again. Pieces never span words: a
 * space only begins a piece, a newline is its byte token. Free with vocab_fini. */
void vocab_train(struct vocab *v, const char *text, size_t length, size_t size);
/* Fills in `join` of pieces that were read from a file. */
void vocab_link(struct vocab *v);
void vocab_fini(struct vocab *v);
float vocab_score(size_t token); /* what SentencePiece merges by: higher first */

/* Encodes at most `room` tokens of the text and returns their number: the pair whose piece has the best score is merged
 * first, the leftmost of equals. With `skip` above 0 a merge is passed over with that probability. With `prefix` a
 * space goes before the text, as SentencePiece does it. */
size_t vocab_encode(const struct vocab *v, const char *text, size_t length, bool prefix, float skip, struct rng *r,
                    int *token, size_t room);
/* Bytes of a token, its number of them returned; none for the three control tokens. */
size_t vocab_decode(const struct vocab *v, int token, char bytes[PIECE_MAX]);

/* ---- model.c, backward.c: the network --------------------------------------------------------------------------- */

struct config {
    size_t dim, hidden, layers, heads, kv_heads, vocab, context;
};

/* All parameters are one array, in the order of the llama2.c checkpoint. These are its parts. */
enum tensor { EMBEDDING, NORM_ATT, WQ, WK, WV, WO, NORM_FFN, W1, W2, W3, NORM_LAST, TENSORS };

struct shape {
    size_t at[TENSORS];     /* index of the tensor's first layer in the array */
    size_t stride[TENSORS]; /* elements a layer */
    size_t total;
};

void config_shape(const struct config *c, struct shape *s);
bool config_check(const struct config *c); /* tells stderr what is wrong */
static inline size_t config_head(const struct config *c) { return c->dim / c->heads; }
static inline size_t config_kv(const struct config *c) { return config_head(c) * c->kv_heads; }
void model_init(const struct config *c, float *weights, uint64_t seed);

/* What the forward pass of one layer leaves for the backward pass; N is batch * length. */
struct layer {
    float *x, *norm1, *r1;   /* [N][dim], [N][dim], [N]: input, normalized, 1 / root mean square */
    float *q, *k, *v;        /* [N][dim], [N][kv], [N][kv], rotated */
    float *p;                /* [batch][heads][context][context]: attention */
    float *att;              /* [N][dim] */
    float *mid, *norm2, *r2; /* as x, norm1, r1 for the feed-forward half */
    float *h1, *h3, *act;    /* [N][hidden]: silu(h1) * h3 = act */
    uint8_t *mask1, *mask2;  /* [N][dim]: what dropout kept of the two branches */
};

/* The activations of up to `batch` sequences. Threads train with one each. */
struct run {
    const struct config *config;
    struct shape shape;
    size_t batch, length; /* of the last forward pass */
    float dropout;        /* 0: none */
    struct rng rng;       /* of dropout */
    struct layer *layer;
    float *x, *norm, *r, *logits;                                    /* after the last layer; [N][vocab] */
    uint8_t *mask;                                                   /* of the embedding */
    float *cosine, *sine;                                            /* [context][head / 2] */
    float *dx, *dnorm, *dq, *dk, *dv, *datt, *dp, *dh1, *dh3, *dact; /* gradients on their way */
    float *arena;
};

void run_init(struct run *run, const struct config *c, size_t batch);
void run_fini(struct run *run);
/* Leaves the logits of batch * length tokens in run->logits. length is at most the context. */
void run_forward(struct run *run, const float *weights, const int *token, size_t batch, size_t length);
/* The cross-entropy in nats, summed over targets not below 0; the logits become their gradient times `scale`. */
double run_loss(struct run *run, const int *target, float scale);
/* Adds the gradients to `grads`. After run_forward and run_loss of the same tokens. */
void run_backward(struct run *run, const float *weights, float *grads, const int *token);

/* ---- ops.c: what has no matrix; n rows of `dim` ----------------------------------------------------------------- */

void rmsnorm(float *y, float *r, const float *x, const float *gain, size_t n, size_t dim);
/* dx gets the gradient added, dgain too. */
void rmsnorm_back(float *dx, float *dgain, const float *dy, const float *x, const float *r, const float *gain, size_t n,
                  size_t dim);
/* Rotates each head of [batch][length][width]; `turn` is -1 for the backward pass. */
void rope(float *x, const struct run *run, size_t width, float turn);
void swiglu(float *act, const float *h1, const float *h3, size_t n);
void swiglu_back(float *dh1, float *dh3, const float *dact, const float *h1, const float *h3, size_t n);
/* Softmax of the first `live` of `n`; the others become 0. */
void softmax(float *x, size_t live, size_t n);
/* x *= scale where a random mask keeps it, and 0 elsewhere; the mask is written. */
void dropout(float *x, uint8_t *mask, size_t n, float rate, struct rng *r);
void dropout_back(float *dx, const uint8_t *mask, size_t n, float rate);

/* ---- adamw.c ---------------------------------------------------------------------------------------------------- */

struct adamw {
    float rate, beta1, beta2, decay, clip;
};

/* One step, the `step`-th from 1. Gradients longer than `clip` are shortened to it. Norm gains do not decay. Returns
 * the length the gradients had. */
float adamw_step(const struct adamw *a, const struct config *c, size_t step, float *w, const float *g, float *m,
                 float *v);

/* ---- state.c, export.c: files ----------------------------------------------------------------------------------- */

struct record {
    double step, tokens, minutes, rate, train, held_out, bits; /* losses in nats a token; bits a character */
};

struct state {
    struct config config;
    struct vocab vocab;
    size_t params, step, records;
    double tokens, minutes, best; /* best: bits a character */
    struct record *record;
    float *w, *m, *v; /* the parameters and AdamW's moments */
};

void state_new(struct state *s, const struct config *c);
bool state_load(struct state *s, const char *path); /* false and a message: not such a file, or damaged */
bool state_save(const struct state *s, const char *path);
void state_record(struct state *s, const struct record *r);
void state_fini(struct state *s);

/* Writes a file whole or not at all: `fill` writes to PATH.new, which then gets its name. */
bool write_file(const char *path, bool (*fill)(FILE *f, const void *what), const void *what);
/* DIR/model.bin and DIR/tokenizer.bin (llama2.c, version 0). */
bool export_model(const struct state *s, const char *dir);
bool export_losses(const struct state *s, const char *dir); /* DIR/losses.csv */

/* ---- train.c's helpers ------------------------------------------------------------------------------------------ */

struct text {
    char *bytes;
    size_t size, train; /* the first `train` bytes are trained on */
};

/* Work on sequences of the whole context, shared among threads, each with its run and its gradients. */
struct crew {
    size_t threads, micro; /* sequences a run takes at a time */
    struct run *run;
    float **grads; /* [threads][params]; the sum of a step is in the first */
};

void crew_init(struct crew *crew, const struct config *c, size_t threads, size_t micro);
void crew_fini(struct crew *crew);
/* Mean loss in nats a token over [sequences][context]; with dropout not below 0 the gradients too. */
double crew_work(struct crew *crew, const float *weights, const int *token, const int *target, size_t sequences,
                 float rate, struct rng r);
/* Sequences of a training step: half begin at a line as a prompt does, half at a word. */
void draw_sequences(const struct state *s, const struct text *t, float skip, struct rng r, int *token, int *target,
                    size_t sequences);
/* Nats a token over the text not trained on, in windows of the context, each after a BOS. */
double held_out(struct crew *crew, const struct state *s, const struct text *t, double *bits);
/* Writes a continuation of the prompt. */
void write_sample(const struct state *s, const char *prompt, size_t tokens, float temperature, uint64_t seed, FILE *f);

#endif
