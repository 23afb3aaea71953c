/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations of the trainer of small language models. The models have the llama architecture: RMSNorm, rope over
 * adjacent pairs, SwiGLU, grouped-query attention, tied embedding and classifier. Matrices are row-major [out][in];
 * activations are [token][..]. Values are float; reductions that affect decisions are double.
 *
 * The trainer is a tool, not a library: it exits when out of memory. */
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

/* An independent stream for each (seed, a, b), so that the numbers of a step do not depend on earlier steps. */
struct rng rng_stream(uint64_t seed, uint64_t a, uint64_t b);
uint64_t rng_next(struct rng *r);
size_t rng_below(struct rng *r, size_t n);
float rng_unit(struct rng *r);   /* in [0, 1) */
float rng_normal(struct rng *r); /* mean 0, standard deviation 1 */

void *zalloc(size_t count, size_t size); /* zeroed; never NULL */

/* ---- bpe.c: the vocabulary -------------------------------------------------------------------------------------- */

enum {
    TOKEN_UNKNOWN = 0,
    TOKEN_BOS = 1,
    TOKEN_EOS = 2,
    TOKEN_BYTES = 3, /* 256 of them */
    TOKEN_PIECES = TOKEN_BYTES + 256,
    PIECE_MAX = 16, /* maximum bytes of a piece */
    VOCAB_MAX = 4096
};

struct piece {
    uint8_t size;
    char bytes[PIECE_MAX]; /* not 0-terminated; spaces are not replaced by U+2581 */
};

struct vocab {
    size_t size;
    struct piece piece[VOCAB_MAX]; /* from index TOKEN_PIECES on */
    int16_t *merged;               /* [left * size + right]: the merged piece, or -1 */
};

/* Learns a vocabulary of `size` tokens by merging the most frequent pair repeatedly. Pieces do not span words: a space
 * only starts a piece, and newlines are byte tokens. Free with vocab_fini. */
void vocab_train(struct vocab *v, const char *text, size_t length, size_t size);
/* Computes `merged` for pieces read from a file. */
void vocab_index_merges(struct vocab *v);
void vocab_fini(struct vocab *v);
float vocab_score(size_t token); /* merge priority, highest first */

/* Encodes the text to at most `capacity` tokens and returns their number. The merge with the best score is applied
 * first, leftmost on ties. Each merge is skipped with probability `skip` (BPE dropout). `prefix` prepends a space, as
 * SentencePiece does. */
size_t vocab_encode(const struct vocab *v, const char *text, size_t length, bool prefix, float skip, struct rng *r,
                    int *token, size_t capacity);
/* Writes the bytes of a token and returns their number; 0 for the three control tokens. */
size_t vocab_decode(const struct vocab *v, int token, char bytes[PIECE_MAX]);

/* ---- model.c, backward.c: the network --------------------------------------------------------------------------- */

struct config {
    size_t dim, hidden, layers, heads, kv_heads, vocab, context;
};

/* The parameters are one array, in the order of the llama2.c checkpoint. Its tensors: */
enum tensor { EMBEDDING, NORM_ATT, WQ, WK, WV, WO, NORM_FFN, W1, W2, W3, NORM_LAST, TENSORS };

struct layout {
    size_t at[TENSORS];     /* index of the tensor of the first layer */
    size_t stride[TENSORS]; /* elements per layer */
    size_t total;
};

void param_layout(const struct config *c, struct layout *s);
bool config_check(const struct config *c); /* reports an invalid configuration on stderr */
static inline size_t config_head(const struct config *c) { return c->dim / c->heads; }
static inline size_t config_kv(const struct config *c) { return config_head(c) * c->kv_heads; }
void model_init(const struct config *c, float *weights, uint64_t seed);

/* Activations of one layer that the backward pass needs; N is batch * length. */
struct layer {
    float *x, *norm1, *r1;   /* [N][dim], [N][dim], [N]: input, normalized input, 1 / RMS */
    float *q, *k, *v;        /* [N][dim], [N][kv], [N][kv], rotated */
    float *p;                /* [batch][heads][context][context]: attention probabilities */
    float *att;              /* [N][dim] */
    float *mid, *norm2, *r2; /* like x, norm1, r1, for feed-forward */
    float *h1, *h3, *act;    /* [N][hidden]: silu(h1) * h3 = act */
    uint8_t *mask1, *mask2;  /* [N][dim]: dropout masks of the two branches */
};

/* Activations and gradients for up to `batch` sequences. Each worker has one. */
struct run {
    const struct config *config;
    struct layout layout;
    size_t batch, length; /* of the last forward pass */
    float dropout;        /* 0: none */
    struct rng rng;       /* for dropout */
    struct layer *layer;
    float *x, *norm, *r, *logits;                                    /* after the last layer; [N][vocab] */
    uint8_t *mask;                                                   /* of the embedding */
    float *cosine, *sine;                                            /* [context][head / 2] */
    float *dx, *dnorm, *dq, *dk, *dv, *datt, *dp, *dh1, *dh3, *dact; /* gradients of activations */
    float *arena;
};

void run_init(struct run *run, const struct config *c, size_t batch);
void run_fini(struct run *run);
/* Computes run->logits of batch * length tokens, length <= context. */
void run_forward(struct run *run, const float *weights, const int *token, size_t batch, size_t length);
/* Sum of the cross-entropy in nats over targets >= 0. Replaces the logits by their gradient times `scale`. */
double run_loss(struct run *run, const int *target, float scale);
/* Adds the gradients of the parameters to `grads`. Requires run_forward and run_loss of the same tokens. */
void run_backward(struct run *run, const float *weights, float *grads, const int *token);

/* ---- ops.c: row and elementwise operations on n rows of `dim` --------------------------------------------------- */

void rmsnorm(float *y, float *r, const float *x, const float *gain, size_t n, size_t dim);
/* Adds to dx and dgain. */
void rmsnorm_back(float *dx, float *dgain, const float *dy, const float *x, const float *r, const float *gain, size_t n,
                  size_t dim);
/* Rotates each head of [batch][length][width]; direction is 1, or -1 in the backward pass. */
void rope(float *x, const struct run *run, size_t width, float direction);
void swiglu(float *act, const float *h1, const float *h3, size_t n);
void swiglu_back(float *dh1, float *dh3, const float *dact, const float *h1, const float *h3, size_t n);
/* Softmax of the first `live` of n elements; the others become 0. */
void softmax(float *x, size_t live, size_t n);
/* x *= mask * scale with a random mask, which is stored. */
void dropout(float *x, uint8_t *mask, size_t n, float rate, struct rng *r);
void dropout_back(float *dx, const uint8_t *mask, size_t n, float rate);

/* ---- adamw.c ---------------------------------------------------------------------------------------------------- */

struct adamw {
    float rate, beta1, beta2, decay, clip;
};

/* Applies step number `step` (from 1). Gradients with an L2 norm above `clip` are scaled down to it. Norm gains have no
 * weight decay. Returns the L2 norm of the gradients. */
float adamw_step(const struct adamw *a, const struct config *c, size_t step, float *w, const float *g, float *m,
                 float *v);

/* ---- state.c, export.c: files ----------------------------------------------------------------------------------- */

struct record {
    double step, tokens, minutes, rate, train, val_loss, bits; /* losses in nats per token; bits per character */
};

struct state {
    struct config config;
    struct vocab vocab;
    size_t params, step, records;
    double tokens, minutes, best; /* best: bits per character */
    struct record *record;
    float *w, *m, *v; /* parameters and AdamW's moments */
};

void state_new(struct state *s, const struct config *c);
bool state_load(struct state *s, const char *path); /* false, with a message: not a state file, or damaged */
bool state_save(const struct state *s, const char *path);
void state_record(struct state *s, const struct record *r);
void state_fini(struct state *s);

/* Writes a file atomically: `fill` writes to PATH.new, which is then renamed. */
bool write_file(const char *path, bool (*fill)(FILE *f, const void *what), const void *what);
/* DIR/model.bin and DIR/tokenizer.bin (llama2.c, version 0). */
bool export_model(const struct state *s, const char *dir);
bool export_losses(const struct state *s, const char *dir); /* DIR/losses.csv */

/* ---- train.c's helpers ------------------------------------------------------------------------------------------ */

struct text {
    char *bytes;
    size_t size, train; /* the first `train` bytes are the training text */
};

/* Data-parallel workers, each with its activations and gradients. */
struct workers {
    size_t threads, micro; /* sequences per forward and backward pass */
    struct run *run;
    float **grads; /* [threads][params]; the sum over all workers is in the first */
};

void workers_init(struct workers *workers, const struct config *c, size_t threads, size_t micro);
void workers_fini(struct workers *workers);
/* Mean loss in nats per token over [sequences][context]; also the gradients, unless `rate` (dropout) is negative. */
double workers_run(struct workers *workers, const float *weights, const int *token, const int *target, size_t sequences,
                   float rate, struct rng r);
/* Samples the sequences of a training step: half start at a line like a prompt, half at a word. */
void draw_sequences(const struct state *s, const struct text *t, float skip, struct rng r, int *token, int *target,
                    size_t sequences);
/* Loss in nats per token on the held-out text, in windows of the context that start with BOS; *bits is per character.
 */
double val_loss(struct workers *workers, const struct state *s, const struct text *t, double *bits);
/* Generates a continuation of the prompt. */
void write_sample(const struct state *s, const char *prompt, size_t tokens, float temperature, uint64_t seed, FILE *f);

#endif
