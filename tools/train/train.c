/* SPDX-License-Identifier: Apache-2.0 */
/* train: trains a small language model of the llama architecture on one text.
 *
 * - train TEXT STATE [options]: trains; resumes from STATE if it exists
 * - train TEXT STATE --sample PROMPT [options]: generates a continuation of the prompt
 *
 * The first nine tenths of the text are used for training, the rest for evaluation. README.md describes the options and
 * files. Exit status: 0, 2 for invalid arguments or input, 3 for out of memory or I/O errors. */
#include "train.h"

#include <cblas.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    struct config config;
    struct adamw adamw;
    const char *text, *state, *out, *sample;
    double minutes, temperature;
    size_t steps, warmup, batch, micro, threads, every, seed, tokens;
    float final_rate, dropout, skip;
};

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

enum kind { COUNT, REAL, REAL4, TEXT };

/* An option, and the offset of its value in struct options. */
static const struct option_row {
    const char *name, *help;
    enum kind kind;
    size_t at;
} ROWS[] = {
    {"out", "directory for model.bin, tokenizer.bin and losses.csv", TEXT, offsetof(struct options, out)},
    {"minutes", "stop after N minutes (default: no limit)", REAL, offsetof(struct options, minutes)},
    {"steps", "steps of the whole training", COUNT, offsetof(struct options, steps)},
    {"threads", "threads", COUNT, offsetof(struct options, threads)},
    {"batch", "sequences per step", COUNT, offsetof(struct options, batch)},
    {"micro", "sequences per forward and backward pass", COUNT, offsetof(struct options, micro)},
    {"rate", "peak learning rate", REAL4, offsetof(struct options, adamw.rate)},
    {"floor", "final learning rate relative to the peak", REAL4, offsetof(struct options, final_rate)},
    {"warmup", "warmup steps", COUNT, offsetof(struct options, warmup)},
    {"decay", "weight decay", REAL4, offsetof(struct options, adamw.decay)},
    {"clip", "maximum norm of the gradient", REAL4, offsetof(struct options, adamw.clip)},
    {"dropout", "dropout rate of each branch", REAL4, offsetof(struct options, dropout)},
    {"skip", "BPE dropout: probability of skipping a merge", REAL4, offsetof(struct options, skip)},
    {"every", "steps between evaluations", COUNT, offsetof(struct options, every)},
    {"dim", "width of the model", COUNT, offsetof(struct options, config.dim)},
    {"hidden", "width of the feed-forward half", COUNT, offsetof(struct options, config.hidden)},
    {"layers", "layers", COUNT, offsetof(struct options, config.layers)},
    {"heads", "heads", COUNT, offsetof(struct options, config.heads)},
    {"kv-heads", "heads of keys and values", COUNT, offsetof(struct options, config.kv_heads)},
    {"vocab", "tokens of the vocabulary", COUNT, offsetof(struct options, config.vocab)},
    {"context", "tokens per sequence", COUNT, offsetof(struct options, config.context)},
    {"seed", "random seed", COUNT, offsetof(struct options, seed)},
    {"sample", "generate a continuation of this text instead of training", TEXT, offsetof(struct options, sample)},
    {"tokens", "tokens of a sample", COUNT, offsetof(struct options, tokens)},
    {"temperature", "of a sample; 0: greedy", REAL, offsetof(struct options, temperature)},
};

enum { OPTIONS = sizeof ROWS / sizeof *ROWS };

static const struct options DEFAULTS = {
    .config = {.dim = 128, .hidden = 352, .layers = 6, .heads = 4, .kv_heads = 2, .vocab = 512, .context = 256},
    .adamw = {.rate = 3e-3f, .beta1 = 0.9f, .beta2 = 0.99f, .decay = 0.1f, .clip = 1.0f},
    .final_rate = 0.02f,
    .warmup = 100,
    .steps = 4500,
    .batch = 16,
    .micro = 1,
    .threads = 1,
    .dropout = 0.1f,
    .skip = 0.1f,
    .every = 250,
    .seed = 1,
    .tokens = 200,
    .temperature = 0.8,
};

static bool set_option(struct options *o, const struct option_row *row, const char *text)
{
    void *value = (char *)o + row->at;
    char *end = NULL;
    double x = row->kind == TEXT ? 0.0 : strtod(text, &end);
    if (row->kind != TEXT && (end == text || *end || !(x >= 0.0 && x < 1e9) || (row->kind == COUNT && x != floor(x)))) {
        fprintf(stderr, "train: --%s: \"%s\" is not a valid number\n", row->name, text);
        return false;
    }
    switch (row->kind) {
    case COUNT:
        *(size_t *)value = (size_t)x;
        break;
    case REAL:
        *(double *)value = x;
        break;
    case REAL4:
        *(float *)value = (float)x;
        break;
    case TEXT:
        *(const char **)value = text;
        break;
    }
    return true;
}

static bool usage(void)
{
    fprintf(stderr, "usage: train TEXT STATE [options]\n");
    for (size_t i = 0; i < OPTIONS; i++)
        fprintf(stderr, "  --%-12s %s\n", ROWS[i].name, ROWS[i].help);
    return false;
}

static bool parse(int argc, char **argv, struct options *o)
{
    struct option names[OPTIONS + 1] = {0};
    int which;
    for (size_t i = 0; i < OPTIONS; i++)
        names[i] = (struct option){ROWS[i].name, required_argument, NULL, (int)i};
    while ((which = getopt_long(argc, argv, "", names, NULL)) != -1)
        if (which == '?')
            return usage();
        else if (!set_option(o, &ROWS[which], optarg))
            return false;
    if (argc - optind != 2)
        return usage();
    if (!o->threads || !o->micro || !o->batch || !o->every || !o->steps || o->batch > 65536 || o->threads > 256) {
        fprintf(stderr, "train: threads (to 256), batch (to 65536), micro, every and steps must be above 0\n");
        return false;
    }
    if (o->dropout > 0.9f || o->skip > 0.9f || o->final_rate > 1.0f) {
        fprintf(stderr, "train: dropout and skip are at most 0.9, floor is at most 1\n");
        return false;
    }
    o->text = argv[optind];
    o->state = argv[optind + 1];
    o->micro = o->micro < o->batch ? o->micro : o->batch;
    return config_check(&o->config);
}

static bool read_text(struct text *t, const char *path)
{
    FILE *f = fopen(path, "rb");
    long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    bool ok = size > 4096 && size < 1l << 30;
    if (ok) {
        t->size = (size_t)size;
        t->bytes = zalloc(t->size, 1);
        rewind(f);
        ok = fread(t->bytes, 1, t->size, f) == t->size;
    }
    if (f)
        fclose(f);
    if (!ok)
        fprintf(stderr, "train: %s: cannot be read, or is not a text of 4 KiB to 1 GiB\n", path);
    t->train = t->size - t->size / 10;
    while (ok && t->train < t->size && t->bytes[t->train - 1] != '\n')
        t->train++;
    return ok;
}

/* ---- training --------------------------------------------------------------------------------------------------- */

static double minutes_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return ((double)t.tv_sec + (double)t.tv_nsec * 1e-9) / 60.0;
}

/* Linear warmup, then cosine decay. */
static float learning_rate(const struct options *o, size_t step)
{
    if (step <= o->warmup)
        return o->adamw.rate * (float)step / (float)o->warmup;
    float progress = (float)(step - o->warmup) / (float)(o->steps - o->warmup);
    progress = progress < 1.0f ? progress : 1.0f;
    return o->adamw.rate * (o->final_rate + (1.0f - o->final_rate) * 0.5f * (1.0f + cosf(3.14159265f * progress)));
}

/* Evaluates, records and saves; exports the best model so far. */
static bool evaluate(struct workers *workers, struct state *s, const struct text *t, const struct options *o,
                     double train)
{
    struct record r = {(double)s->step, s->tokens, s->minutes, (double)learning_rate(o, s->step), train, 0.0, 0.0};
    r.val_loss = val_loss(workers, s, t, &r.bits);
    state_record(s, &r);
    bool best = r.bits < s->best;
    s->best = best ? r.bits : s->best;
    printf("step %6zu  %5.1f min  train %.4f  held out %.4f nats per token, %.4f bits per character%s\n", s->step,
           s->minutes, train, r.val_loss, r.bits, best ? " *" : "");
    fflush(stdout);
    return state_save(s, o->state) && (!o->out || (export_losses(s, o->out) && (!best || export_model(s, o->out))));
}

static void train_step(struct workers *workers, struct state *s, const struct text *t, const struct options *o,
                       double *loss)
{
    size_t n = o->batch * s->config.context;
    int *token = zalloc(n, sizeof *token), *target = zalloc(n, sizeof *target);
    struct adamw a = o->adamw;
    s->step++;
    /* BPE dropout decreases to 0, so that training ends with the encoding used for inference. */
    float remaining = s->step < o->steps ? 1.0f - (float)s->step / (float)o->steps : 0.0f;
    a.rate = learning_rate(o, s->step);
    draw_sequences(s, t, o->skip * remaining, rng_stream(o->seed, s->step, 1), token, target, o->batch);
    *loss = workers_run(workers, s->w, token, target, o->batch, o->dropout, rng_stream(o->seed, s->step, 2));
    adamw_step(&a, &s->config, s->step, s->w, workers->grads[0], s->m, s->v);
    s->tokens += (double)n;
    free(token);
    free(target);
}

static bool train(struct state *s, const struct text *t, const struct options *o)
{
    struct workers workers;
    double start = minutes_now(), last = start, sum = 0.0;
    size_t count = 0;
    bool ok = true;
    workers_init(&workers, &s->config, o->threads, o->micro);
    printf("%zu parameters, %zu threads, %zu sequences of %zu tokens per step\n", s->params, o->threads, o->batch,
           s->config.context);
    while (ok && !stopped && s->step < o->steps && (o->minutes <= 0.0 || last - start < o->minutes)) {
        double loss, now;
        train_step(&workers, s, t, o, &loss);
        now = minutes_now();
        s->minutes += now - last;
        sum += loss;
        count++;
        if (count % 25 == 0) {
            printf("step %6zu  loss %.4f  %.0f tokens/s\n", s->step, loss,
                   (double)(o->batch * s->config.context) / (now - last) / 60.0);
            fflush(stdout);
        }
        if (s->step % o->every == 0 || s->step == o->steps) {
            ok = evaluate(&workers, s, t, o, sum / (double)count);
            sum = 0.0;
            count = 0;
        }
        last = minutes_now();
    }
    if (count)
        ok = ok && evaluate(&workers, s, t, o, sum / (double)count);
    workers_fini(&workers);
    return ok;
}

/* Loads the state file, or creates a state with a vocabulary learned from the text. */
static bool open_state(struct state *s, const struct text *t, const struct options *o)
{
    FILE *f = fopen(o->state, "rb");
    if (f) {
        fclose(f);
        return state_load(s, o->state);
    }
    state_new(s, &o->config);
    vocab_train(&s->vocab, t->bytes, t->train, o->config.vocab);
    if (s->vocab.size != o->config.vocab) {
        fprintf(stderr, "train: the text yields only %zu tokens\n", s->vocab.size);
        state_fini(s);
        return false;
    }
    model_init(&s->config, s->w, o->seed);
    return true;
}

int main(int argc, char **argv)
{
    struct options o = DEFAULTS;
    struct text text = {0};
    struct state *state = zalloc(1, sizeof *state);
    int status = 2;
    openblas_set_num_threads(1); /* the trainer has its own threads */
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    if (parse(argc, argv, &o) && read_text(&text, o.text) && open_state(state, &text, &o)) {
        if (o.sample)
            write_sample(state, o.sample, o.tokens, (float)o.temperature, o.seed, stdout);
        status = o.sample || train(state, &text, &o) ? 0 : 3;
        state_fini(state);
    }
    free(text.bytes);
    free(state);
    return status;
}
