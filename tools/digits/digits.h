/* SPDX-License-Identifier: Apache-2.0 */
/* The handwritten-digits example: what its source files share.
 *
 *   train.c  options, the training schedule, the report
 *   net.c    the network in FP32: augmentation, forward, backward, one step of gradient descent
 *   quant.c  BF16, the INT4 (and INT8) quantizer, pccx v002's GEMM and GELU bit by bit
 *   opennpu.c  the INT8 network of OpenNPU, number by number
 *   cmdq.c   the INT8 network of CMDQ, number by number
 *   files.c  the data it reads, the files it writes
 *
 * The network is 64 -> HIDDEN -> 10 with the exact (erf) GELU between. Everything here runs on
 * one thread and calls no clock and no rand(): one seed, one result.
 */
#ifndef DIGITS_H
#define DIGITS_H

#include <stddef.h>
#include <stdint.h>

enum {
    IMAGES = 1797,
    TEST = 360, /* the last ones */
    TRAIN = IMAGES - TEST,
    TILE = 40, /* images the program takes at a time; divides TEST */
    PIXELS = 64,
    HIDDEN = 128, /* a multiple of 32, so that no beat of weights is padded */
    CLASSES = 10,
    LAYERS = 2,
    MAX_DIM = HIDDEN > PIXELS ? HIDDEN : PIXELS,
    LANES = 8,   /* BF16 values in a word of L2 */
    NIBBLES = 32 /* INT4 weights in a beat of the stream */
};

/* A small generator of known sequence (splitmix64). */
struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *r);
int rng_below(struct rng *r, int n); /* 0 .. n-1 */
float rng_between(struct rng *r, float lo, float hi);
float rng_normal(struct rng *r); /* mean 0, variance 1, from twelve uniforms */

/* One dense layer. Matrices are [in][stride], stride = out rounded up to 16: the inner loops then
 * run over outputs, have no tail, and vectorise without reordering any sum. Padding stays 0. */
struct layer {
    int in, out, stride;
    float w[MAX_DIM * MAX_DIM], b[MAX_DIM]; /* what descent updates */
    float used[MAX_DIM * MAX_DIM];          /* what forward and backward see: w or its INT4 image */
    float grad_w[MAX_DIM * MAX_DIM], grad_b[MAX_DIM];
    float vel_w[MAX_DIM * MAX_DIM], vel_b[MAX_DIM]; /* momentum */
};

struct net {
    struct layer layer[LAYERS];
};

/* How one step changes the weights. */
struct step {
    float rate, momentum, decay;
};

struct image {
    float pixel[PIXELS]; /* 0 .. 1 in sixteenths: exact in BF16 */
    int label;
};

/* A training image as another hand might have placed it: turned, scaled, slanted, shifted,
 * in another pen, with noise. */
void augment(struct rng *r, const float *in, float *out);

void net_init(struct net *n, struct rng *r);
/* logits: MAX_DIM floats, of which CLASSES are meant. */
void net_forward(const struct net *n, const float *x, float *logits);
/* Adds the gradient of the cross entropy against the smoothed label; returns the loss. */
float net_backward(struct net *n, const float *x, int label, float smoothing);
/* Applies the mean gradient of `count` images and clears it. Does not touch `used`. */
void net_step(struct net *n, int count, const struct step *s);
void net_use_float(struct net *n); /* used = w */
void net_rest(struct net *n);      /* forgets the momentum */
int argmax(const float *v, int n); /* the first of equals */

/* BF16 as its bits, of finite values. Rounding is to nearest even; subnormals become signed zero. */
uint16_t bf16_from_double(double x);
float bf16_to_float(uint16_t bits);

/* A layer as the machine holds it: w[out][in] are the integer weights, one BF16 scale a row. */
struct qlayer {
    int in, out;
    uint16_t scale[MAX_DIM], bias[MAX_DIM];
    int8_t w[MAX_DIM][MAX_DIM];
};

/* The range of the integer weights. */
struct qrange {
    int lo, hi;
};
extern const struct qrange INT4, INT8;

/* Sets scale[] to the clip ratio of each row that has the least squared error. */
void quant_fit(struct qlayer *q, const struct layer *l, struct qrange range);
/* Rounds l's weights with the scales that stand in q, and the bias to BF16. */
void quant_round(struct qlayer *q, const struct layer *l, struct qrange range);
/* The straight-through image: l->used = scale * rounded weight. */
void quant_use(struct layer *l, const struct qlayer *q);

/* One image through the machine: x is PIXELS BF16, y CLASSES BF16. */
void machine_run(const struct qlayer q[LAYERS], const uint16_t *x, uint16_t *y);

/* opennpu.c: the INT8 network. Rows in..in+1 of w are the biases. */
enum { OPENNPU_LANES = 64 };
struct opennpu_layer {
    int in, out;
    int8_t w[MAX_DIM + 2][MAX_DIM]; /* w[in][out] */
};
struct opennpu_net {
    struct opennpu_layer layer[LAYERS];
    double z_unit, h_unit; /* of GELU's argument and value */
    float scale[LAYERS];   /* of the integer sums: to units of z, and to logits */
    int8_t gelu[256];      /* by the argument's byte as an unsigned number */
};
/* Chooses the units from the `count` images that `order` names: those trained on. */
void opennpu_fit(struct opennpu_net *q, const struct net *n, const struct image *image, const int *order, int count);
/* One image: y is MAX_DIM floats, of which CLASSES are meant. */
void opennpu_run(const struct opennpu_net *q, const struct image *image, float *y);
void opennpu_write(const char *dir, const struct opennpu_net *q, const struct image *test, int count);

/* cmdq.c: the INT8 weights with a scale a row. One image: y is CLASSES floats. */
void cmdq_run(const struct qlayer q[LAYERS], const struct image *image, float *y);
void cmdq_write(const char *dir, const struct qlayer q[LAYERS], const struct image *test, int count);

/* files.c. load() fills IMAGES images; write_all() puts every file of the example into `dir`. */
_Noreturn void die(int status, const char *format, ...);
void check_directory(const char *dir); /* dies unless files can be made there */
void load(const char *path, struct image *image);
void write_bytes(const char *dir, const char *name, const void *bytes, size_t size);
void to_bf16(const struct image *image, uint16_t x[PIXELS]);
void write_all(const char *dir, const struct net *n, const struct qlayer q[LAYERS], const struct image *test, int count,
               int fp32_correct);

#endif
