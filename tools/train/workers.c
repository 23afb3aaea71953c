/* SPDX-License-Identifier: Apache-2.0 */
/* Data-parallel training. Each worker processes a few sequences at a time, so that the activations are still cached in
 * the backward pass. The assignment of sequences to workers is fixed, so training is reproducible. */
#include "train.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct workers *workers;
    const float *weights;
    const int *token, *target;
    size_t sequences, thread;
    float rate; /* dropout rate; below 0: no gradients */
    struct rng rng;
    double loss;
};

static void *run_worker(void *argument)
{
    struct job *j = argument;
    struct run *run = &j->workers->run[j->thread];
    size_t context = run->config->context, micro = j->workers->micro;
    float scale = 1.0f / (float)(j->sequences * context);
    run->dropout = j->rate > 0.0f ? j->rate : 0.0f;
    for (size_t at = j->thread * micro; at < j->sequences; at += j->workers->threads * micro) {
        size_t batch = at + micro <= j->sequences ? micro : j->sequences - at;
        run->rng = rng_stream(j->rng.state, at, 1);
        run_forward(run, j->weights, j->token + at * context, batch, context);
        j->loss += run_loss(run, j->target + at * context, scale);
        if (j->rate >= 0.0f)
            run_backward(run, j->weights, j->workers->grads[j->thread], j->token + at * context);
    }
    return NULL;
}

double workers_run(struct workers *workers, const float *weights, const int *token, const int *target, size_t sequences,
                   float rate, struct rng r)
{
    struct job *job = zalloc(workers->threads, sizeof *job);
    pthread_t *thread = zalloc(workers->threads, sizeof *thread);
    size_t params = workers->run[0].layout.total, count = 0, context = workers->run[0].config->context;
    double loss = 0.0;
    for (size_t i = 0; i < workers->threads; i++) {
        job[i] = (struct job){workers, weights, token, target, sequences, i, rate, r, 0.0};
        if (rate >= 0.0f)
            memset(workers->grads[i], 0, params * sizeof(float));
    }
    for (size_t i = 1; i < workers->threads; i++)
        if (pthread_create(&thread[i], NULL, run_worker, &job[i])) {
            fprintf(stderr, "train: cannot start a thread\n");
            exit(3);
        }
    run_worker(&job[0]);
    for (size_t i = 0; i < workers->threads; i++) {
        if (i)
            pthread_join(thread[i], NULL);
        loss += job[i].loss;
        for (size_t k = 0; i && rate >= 0.0f && k < params; k++)
            workers->grads[0][k] += workers->grads[i][k];
    }
    for (size_t i = 0; i < sequences * context; i++)
        count += target[i] >= 0;
    free(thread);
    free(job);
    return count ? loss / (double)count : 0.0;
}

void workers_init(struct workers *workers, const struct config *c, size_t threads, size_t micro)
{
    struct layout s;
    param_layout(c, &s);
    *workers = (struct workers){threads, micro, zalloc(threads, sizeof *workers->run),
                                zalloc(threads, sizeof *workers->grads)};
    for (size_t i = 0; i < threads; i++) {
        run_init(&workers->run[i], c, micro);
        workers->grads[i] = zalloc(s.total, sizeof(float));
    }
}

void workers_fini(struct workers *workers)
{
    for (size_t i = 0; i < workers->threads; i++) {
        run_fini(&workers->run[i]);
        free(workers->grads[i]);
    }
    free(workers->run);
    free(workers->grads);
}
