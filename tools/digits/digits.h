/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations of the handwritten-digits trainer.
 *
 * - train.c: options, training schedule, report
 * - net.c: the network in FP32: augmentation, forward and backward pass, SGD step
 * - quant.c: BF16, the INT4 and INT8 quantizer, bit-exact GEMM and GELU of pccx v002
 * - opennpu.c: the INT8 network of OpenNPU, bit-exact
 * - cmdq.c: the INT8 network of CMDQ, bit-exact
 * - files.c: reads the data set and writes the files of the example
 *
 * The network is 64 -> HIDDEN -> 10 with the exact (erf) GELU in between. The program is deterministic: one thread, no
 * clock, no rand(). */
#ifndef DIGITS_H
#define DIGITS_H

#include <stddef.h>
#include <stdint.h>

enum {
    IMAGES = 1797,
    TEST = 360, /* the last images */
    TRAIN = IMAGES - TEST,
    TILE = 40, /* images per iteration of the program; divides TEST */
    PIXELS = 64,
    HIDDEN = 128, /* a multiple of 32: no beat of weights is padded */
    CLASSES = 10,
    LAYERS = 2,
    MAX_DIM = HIDDEN > PIXELS ? HIDDEN : PIXELS,
    LANES = 8,   /* BF16 values per L2 word */
    NIBBLES = 32 /* INT4 weights per beat of the stream */
};

/* SplitMix64. */
struct rng {
    uint64_t state;
};
uint64_t rng_next(struct rng *r);
int rng_below(struct rng *r, int n); /* 0 .. n-1 */
float rng_uniform(struct rng *r, float lo, float hi);
float rng_normal(struct rng *r); /* mean 0, variance 1; the sum of twelve uniforms */

/* A dense layer. Matrices are [in][stride] with stride = out rounded up to 16, so that the inner loops over outputs
 * have no tail and vectorize without reordering sums. Padding stays 0. */
struct layer {
    int in, out, stride;
    float w[MAX_DIM * MAX_DIM], b[MAX_DIM]; /* master weights */
    float effective[MAX_DIM * MAX_DIM];     /* used by the forward and backward pass: w, or dequantized INT4 */
    float grad_w[MAX_DIM * MAX_DIM], grad_b[MAX_DIM];
    float vel_w[MAX_DIM * MAX_DIM], vel_b[MAX_DIM]; /* momentum */
};

struct net {
    struct layer layer[LAYERS];
};

/* Parameters of an SGD step. */
struct step {
    float rate, momentum, decay;
};

struct image {
    float pixel[PIXELS]; /* 0 to 1 in steps of 1/16, exact in BF16 */
    int label;
};

/* Data augmentation: random rotation, scale, slant, shift, contrast and noise. */
void augment(struct rng *r, const float *in, float *out);

void net_init(struct net *n, struct rng *r);
/* logits[MAX_DIM]; the first CLASSES are valid. */
void net_forward(const struct net *n, const float *x, float *logits);
/* Accumulates the gradient of the cross-entropy with label smoothing; returns the loss. */
float net_backward(struct net *n, const float *x, int label, float smoothing);
/* Applies the mean gradient of `count` images and clears it. Does not update `effective`. */
void net_step(struct net *n, int count, const struct step *s);
void net_use_float(struct net *n);      /* effective = w */
void net_clear_momentum(struct net *n); /* velocities = 0 */
int argmax(const float *v, int n);      /* the first maximum */

/* BF16 bits of finite values: round to nearest even; subnormals are flushed to signed zero. */
uint16_t bf16_from_double(double x);
float bf16_to_float(uint16_t bits);

/* A quantized layer: integer weights w[out][in] with a BF16 scale per row. */
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

/* Sets the scale of each row to the clip ratio with the smallest squared error. */
void quant_fit(struct qlayer *q, const struct layer *l, struct qrange range);
/* Quantizes the weights of l with the scales of q, and rounds the bias to BF16. */
void quant_round(struct qlayer *q, const struct layer *l, struct qrange range);
/* Dequantizes for straight-through training: l->effective = scale * q->w. */
void quant_use(struct layer *l, const struct qlayer *q);

/* Classifies one image with the arithmetic of pccx: x is PIXELS BF16, y CLASSES BF16. */
void pccx_run(const struct qlayer q[LAYERS], const uint16_t *x, uint16_t *y);

/* opennpu.c: the INT8 network. Rows in..in+1 of w are the biases. */
enum { OPENNPU_LANES = 64 };
struct opennpu_layer {
    int in, out;
    int8_t w[MAX_DIM + 2][MAX_DIM]; /* w[in][out] */
};
struct opennpu_net {
    struct opennpu_layer layer[LAYERS];
    double z_unit, h_unit; /* units of GELU's argument and value */
    float scale[LAYERS];   /* from integer sums to units of z, and to logits */
    int8_t gelu[256];      /* indexed by the argument as an unsigned byte */
};
/* Calibrates the units on `count` training images, selected by `order`, and quantizes the network. */
void opennpu_fit(struct opennpu_net *q, const struct net *n, const struct image *image, const int *order, int count);
/* Classifies one image: y[MAX_DIM]; the first CLASSES are valid. */
void opennpu_run(const struct opennpu_net *q, const struct image *image, float *y);
void opennpu_write(const char *dir, const struct opennpu_net *q, const struct image *test, int count);

/* cmdq.c: INT8 weights with a scale per row. Classifies one image: y[CLASSES]. */
void cmdq_run(const struct qlayer q[LAYERS], const struct image *image, float *y);
void cmdq_write(const char *dir, const struct qlayer q[LAYERS], const struct image *test, int count);

/* files.c: load_images() reads IMAGES images; write_all() writes the files for pccx to `dir`. */
_Noreturn void die(int status, const char *format, ...);
void check_directory(const char *dir); /* exits if no files can be created there */
void load_images(const char *path, struct image *image);
void write_bytes(const char *dir, const char *name, const void *bytes, size_t size);
void image_to_bf16(const struct image *image, uint16_t x[PIXELS]);
void write_all(const char *dir, const struct net *n, const struct qlayer q[LAYERS], const struct image *test, int count,
               int fp32_correct);

#endif
