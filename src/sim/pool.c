/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads: each piece of work is cut into as many equal parts as there are threads. */
#include "sim/pool.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MAX = 256 };

struct tv_pool {
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    pthread_t threads[THREADS_MAX];
    unsigned count;      /* threads besides the caller */
    uint64_t round;      /* pieces of work so far: a thread that has seen fewer has one to do */
    unsigned left;       /* threads that are not done with it */
    bool ending;
    uint64_t total;
    tv_pool_work *work;
    void *user;
};

typedef struct place {
    tv_pool *pool;
    unsigned index;
} place;

static void do_part(const tv_pool *pool, unsigned index)
{
    uint64_t parts = pool->count + 1, each = pool->total / parts, more = pool->total % parts;
    uint64_t from = index * each + tv_min_u64(index, more), to = from + each + (index < more);
    if (from < to)
        pool->work(pool->user, from, to);
}

static void *serve(void *user)
{
    place at = *(place *)user;
    tv_pool *pool = at.pool;
    uint64_t seen = 0;
    free(user);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->ending)
            pthread_cond_wait(&pool->begun, &pool->lock);
        if (pool->ending)
            break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->lock);
        do_part(pool, at.index);
        pthread_mutex_lock(&pool->lock);
        if (--pool->left == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

tv_pool *tv_pool_make(unsigned threads)
{
    tv_pool *pool = threads > 1 ? calloc(1, sizeof *pool) : NULL;
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pthread_cond_init(&pool->done, NULL);
    while (pool->count + 1 < threads && pool->count < THREADS_MAX) {
        place *at = malloc(sizeof *at);
        if (!at)
            break;
        *at = (place){pool, pool->count + 1};
        if (pthread_create(&pool->threads[pool->count], NULL, serve, at) != 0) {
            free(at);
            break;
        }
        pool->count++;
    }
    return pool;
}

void tv_pool_free(tv_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->count; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->begun);
    pthread_cond_destroy(&pool->done);
    free(pool);
}

void tv_pool_run(tv_pool *pool, uint64_t count, tv_pool_work *work, void *user)
{
    if (!pool || !pool->count || count < 2) {
        work(user, 0, count);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->total = count;
    pool->work = work;
    pool->user = user;
    pool->left = pool->count;
    pool->round++;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
    do_part(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->left)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
