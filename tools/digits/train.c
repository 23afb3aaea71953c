/* SPDX-License-Identifier: Apache-2.0 */
/* digits-train: trains the handwritten-digits network and writes it in the formats of pccx v002, OpenNPU and CMDQ.
 *
 * - digits-train --data digits.csv --out DIR [--epochs N]
 * - digits-train --data digits.csv --fold F  [--epochs N]
 *
 * The first form trains on the first 1,437 images and tests on the last 360, which are used for nothing else. The
 * second form is for choosing the constants below by cross-validation: it holds out fifth F (0 to 4) of the 1,437,
 * tests on it and writes nothing. Exit status: 0, 2 for invalid arguments or input, 3 for I/O errors.
 *
 * Data: "Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak, UCI Machine Learning Repository (1998),
 * CC BY 4.0. */
#include "digits.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FOLDS = 5,
    BATCH = 16,
    EPOCHS = 300,
    REPORTS = 6, /* progress lines per phase */
    SEED = 1
};

/* Chosen with --fold, like the width of the hidden layer and the ranges in augment(). */
static const float RATE = 0.1f, INT4_RATE = 0.01f, MOMENTUM = 0.9f, DECAY = 1e-4f, SMOOTHING = 0.1f;

/* Training images (indices, reshuffled every epoch) and test images of a run. */
struct task {
    const struct image *image;
    int order[TRAIN], count;
    const struct image *test;
    int test_count;
};

struct options {
    const char *data, *out;
    int epochs, fold; /* fold -1: none */
};

/* ---- training ------------------------------------------------------------------------------ */

/* Sets the effective weights: the master weights or, with q, the dequantized INT4 weights. */
static void update_effective(struct net *n, struct qlayer *q)
{
    if (!q) {
        net_use_float(n);
        return;
    }
    for (int k = 0; k < LAYERS; k++) {
        quant_round(&q[k], &n->layer[k], INT4);
        quant_use(&n->layer[k], &q[k]);
    }
}

static float train_epoch(struct net *n, struct qlayer *q, struct task *t, struct rng *r, float rate)
{
    const struct step step = {.rate = rate, .momentum = MOMENTUM, .decay = DECAY};
    float loss = 0.0f;
    for (int i = t->count - 1; i > 0; i--) { /* Fisher-Yates shuffle */
        int j = rng_below(r, i + 1), swap = t->order[i];
        t->order[i] = t->order[j];
        t->order[j] = swap;
    }
    for (int start = 0; start < t->count; start += BATCH) {
        int size = t->count - start < BATCH ? t->count - start : BATCH;
        for (int i = 0; i < size; i++) {
            const struct image *image = &t->image[t->order[start + i]];
            float pixel[PIXELS];
            augment(r, image->pixel, pixel);
            loss += net_backward(n, pixel, image->label, SMOOTHING);
        }
        net_step(n, size, &step);
        update_effective(n, q);
    }
    return loss / (float)t->count;
}

/* One phase with cosine decay of the learning rate from `rate` to 0. With q the forward pass uses INT4 weights while
 * SGD updates the FP32 ones (straight-through estimator); the scales are fitted again in every epoch. */
static void train_phase(struct net *n, struct qlayer *q, struct task *t, struct rng *r, int epochs, float rate)
{
    int every = (epochs + REPORTS - 1) / REPORTS;
    net_clear_momentum(n);
    for (int e = 1; e <= epochs; e++) {
        for (int k = 0; q && k < LAYERS; k++)
            quant_fit(&q[k], &n->layer[k], INT4);
        update_effective(n, q);
        float phase = 3.14159265f * (float)(e - 1) / (float)epochs;
        float loss = train_epoch(n, q, t, r, rate * 0.5f * (1.0f + cosf(phase)));
        if (e % every == 0 || e == epochs)
            printf("%s epoch %4d  loss %.4f\n", q ? "int4" : "fp32", e, (double)loss);
    }
}

/* ---- testing ------------------------------------------------------------------------------- */

static int float_correct(const struct net *n, const struct image *image, int count)
{
    int correct = 0;
    for (int i = 0; i < count; i++) {
        float logits[MAX_DIM];
        net_forward(n, image[i].pixel, logits);
        correct += argmax(logits, CLASSES) == image[i].label;
    }
    return correct;
}

static int machine_correct(const struct qlayer q[LAYERS], const struct image *image, int count)
{
    int correct = 0;
    for (int i = 0; i < count; i++) {
        uint16_t x[PIXELS], y[CLASSES];
        float logits[CLASSES];
        image_to_bf16(&image[i], x);
        pccx_run(q, x, y);
        for (int c = 0; c < CLASSES; c++)
            logits[c] = bf16_to_float(y[c]);
        correct += argmax(logits, CLASSES) == image[i].label;
    }
    return correct;
}

static int opennpu_correct(const struct opennpu_net *q, const struct image *image, int count)
{
    int correct = 0;
    for (int i = 0; i < count; i++) {
        float logits[MAX_DIM];
        opennpu_run(q, &image[i], logits);
        correct += argmax(logits, CLASSES) == image[i].label;
    }
    return correct;
}

static int cmdq_correct(const struct qlayer q[LAYERS], const struct image *image, int count)
{
    int correct = 0;
    for (int i = 0; i < count; i++) {
        float logits[CLASSES];
        cmdq_run(q, &image[i], logits);
        correct += argmax(logits, CLASSES) == image[i].label;
    }
    return correct;
}

static void quantize_net(struct qlayer q[LAYERS], const struct net *n, struct qrange range)
{
    for (int k = 0; k < LAYERS; k++) {
        quant_fit(&q[k], &n->layer[k], range);
        quant_round(&q[k], &n->layer[k], range);
    }
}

static void report(const char *what, int correct, int count)
{
    printf("%-28s %4d of %4d  %.2f %%\n", what, correct, count, 100.0 * correct / count);
}

/* ---- the command --------------------------------------------------------------------------- */

static const char USAGE[] =
    "usage: digits-train --data digits.csv (--out DIR | --fold F) [--epochs N]\n"
    "  --data FILE   1,797 lines of 64 pixels (0..16) and the digit\n"
    "  --out DIR     train on the first 1,437 images and write the model and the program's data there\n"
    "  --fold F      hold out fifth F (0..4) of the 1,437 instead, and only report\n"
    "  --epochs N    epochs in FP32 (default 300); INT4 fine-tuning takes a fifth as many\n";

static int parse_count(const char *option, const char *text, int min, int max)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < min || value > max)
        die(2, "--%s: '%s' is not a number from %d to %d", option, text, min, max);
    return (int)value;
}

static struct options parse_options(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"data", required_argument, NULL, 'd'},   {"out", required_argument, NULL, 'o'},
        {"epochs", required_argument, NULL, 'e'}, {"fold", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    struct options o = {.epochs = EPOCHS, .fold = -1};
    for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        switch (c) {
        case 'd':
            o.data = optarg;
            break;
        case 'o':
            o.out = optarg;
            break;
        case 'e':
            o.epochs = parse_count("epochs", optarg, 1, 100000);
            break;
        case 'f':
            o.fold = parse_count("fold", optarg, 0, FOLDS - 1);
            break;
        case 'h':
            fputs(USAGE, stdout);
            exit(0);
        default:
            fputs(USAGE, stderr);
            exit(2);
        }
    }
    if (optind < argc)
        die(2, "unexpected argument '%s'", argv[optind]);
    if (!o.data || !o.out == (o.fold < 0))
        die(2, "--data and either --out or --fold are required; see --help");
    return o;
}

static void task_init(struct task *t, const struct image *image, int fold)
{
    int first = fold < 0 ? TRAIN : TRAIN * fold / FOLDS;
    int end = fold < 0 ? IMAGES : TRAIN * (fold + 1) / FOLDS;
    t->image = image;
    t->test = image + first;
    t->test_count = end - first;
    t->count = 0;
    for (int i = 0; i < TRAIN; i++)
        if (i < first || i >= end)
            t->order[t->count++] = i;
}

int main(int argc, char **argv)
{
    static struct image image[IMAGES];
    static struct task task;
    static struct net net, tuned;
    static struct qlayer int4[LAYERS], int8[LAYERS];
    static struct opennpu_net opennpu;
    struct options o = parse_options(argc, argv);
    struct rng rng = {SEED};

    load_images(o.data, image);
    if (o.out)
        check_directory(o.out); /* fail before the training, not after it */
    task_init(&task, image, o.fold);
    net_init(&net, &rng);
    train_phase(&net, NULL, &task, &rng, o.epochs, RATE);
    tuned = net;
    train_phase(&tuned, int4, &task, &rng, (o.epochs + 4) / 5, INT4_RATE);
    quantize_net(int8, &net, INT8);

    int train_correct = 0;
    for (int i = 0; i < task.count; i++)
        train_correct += float_correct(&net, &image[task.order[i]], 1);
    report("FP32, training images", train_correct, task.count);
    int fp32 = float_correct(&net, task.test, task.test_count);
    report("FP32, test images", fp32, task.test_count);
    report("INT8 weights, test images", machine_correct(int8, task.test, task.test_count), task.test_count);
    report("INT4 weights, test images", machine_correct(int4, task.test, task.test_count), task.test_count);
    opennpu_fit(&opennpu, &net, image, task.order, task.count);
    report("OpenNPU, test images", opennpu_correct(&opennpu, task.test, task.test_count), task.test_count);
    report("CMDQ, test images", cmdq_correct(int8, task.test, task.test_count), task.test_count);
    if (o.out) {
        write_all(o.out, &net, int4, task.test, task.test_count, fp32);
        opennpu_write(o.out, &opennpu, task.test, task.test_count);
        cmdq_write(o.out, int8, task.test, task.test_count);
    }
    return 0;
}
