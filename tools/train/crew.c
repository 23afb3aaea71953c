/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences shared among threads. A run takes a few sequences at a time, so that what a backward pass needs is still in
 * the cache; which ones does not depend on timing, so that a training repeats.
 */
#include "train.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct crew *crew;
    const float *weights;
    const int *token, *target;
    size_t sequences, thread;
    float rate; /* of dropout; below 0: no gradients */
    struct rng rng;
    double loss;
};

static void *work(void *argument)
{
    struct job *j = argument;
    struct run *run = &j->crew->run[j->thread];
    size_t context = run->config->context, micro = j->crew->micro;
    float scale = 1.0f / (float)(j->sequences * context);
    run->dropout = j->rate > 0.0f ? j->rate : 0.0f;
    for (size_t at = j->thread * micro; at < j->sequences; at += j->crew->threads * micro) {
        size_t batch = at + micro <= j->sequences ? micro : j->sequences - at;
        run->rng = rng_stream(j->rng.state, at, 1);
        run_forward(run, j->weights, j->token + at * context, batch, context);
        j->loss += run_loss(run, j->target + at * context, scale);
        if (j->rate >= 0.0f)
            run_backward(run, j->weights, j->crew->grads[j->thread], j->token + at * context);
    }
    return NULL;
}

double crew_work(struct crew *crew, const float *weights, const int *token, const int *target, size_t sequences,
                 float rate, struct rng r)
{
    struct job *job = zalloc(crew->threads, sizeof *job);
    pthread_t *thread = zalloc(crew->threads, sizeof *thread);
    size_t params = crew->run[0].shape.total, count = 0, context = crew->run[0].config->context;
    double loss = 0.0;
    for (size_t i = 0; i < crew->threads; i++) {
        job[i] = (struct job){crew, weights, token, target, sequences, i, rate, r, 0.0};
        if (rate >= 0.0f)
            memset(crew->grads[i], 0, params * sizeof(float));
    }
    for (size_t i = 1; i < crew->threads; i++)
        if (pthread_create(&thread[i], NULL, work, &job[i])) {
            fprintf(stderr, "train: cannot start a thread\n");
            exit(3);
        }
    work(&job[0]);
    for (size_t i = 0; i < crew->threads; i++) {
        if (i)
            pthread_join(thread[i], NULL);
        loss += job[i].loss;
        for (size_t k = 0; i && rate >= 0.0f && k < params; k++)
            crew->grads[0][k] += crew->grads[i][k];
    }
    for (size_t i = 0; i < sequences * context; i++)
        count += target[i] >= 0;
    free(thread);
    free(job);
    return count ? loss / (double)count : 0.0;
}

void crew_init(struct crew *crew, const struct config *c, size_t threads, size_t micro)
{
    struct shape s;
    config_shape(c, &s);
    *crew = (struct crew){threads, micro, zalloc(threads, sizeof *crew->run), zalloc(threads, sizeof *crew->grads)};
    for (size_t i = 0; i < threads; i++) {
        run_init(&crew->run[i], c, micro);
        crew->grads[i] = zalloc(s.total, sizeof(float));
    }
}

void crew_fini(struct crew *crew)
{
    for (size_t i = 0; i < crew->threads; i++) {
        run_fini(&crew->run[i]);
        free(crew->grads[i]);
    }
    free(crew->run);
    free(crew->grads);
}
