/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads: each piece of work is cut into more parts than there are threads, and whoever is there takes the
 * next. A thread that comes late takes none, and nobody waits for it: small pieces cost no more than one thread takes
 * for them.
 *
 * A thread looks out for more work for a moment before it sleeps, since pieces mostly follow each other. Whether work
 * is open, who is at it and who sleeps is told by sequentially consistent atomics: of two sides that each write one and
 * then read the other, one sees the other. */
#include "sim/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS_MAX = 256, PARTS_EACH = 4, GRAIN = 16, LOOKOUT_NS = 300000 };

struct tv_pool {
    pthread_mutex_t lock; /* for sleeping and waking */
    pthread_cond_t begun, done;
    pthread_t threads[THREADS_MAX];
    unsigned count; /* threads besides the caller */
    atomic_bool ending;
    _Atomic(uint64_t) open; /* the number of the piece of work that parts can be taken of; 0: none */
    atomic_uint active;     /* threads that may take some; while there are any, the rest stays */
    atomic_uint sleeping;
    atomic_bool waiting;    /* the caller sleeps until none is active */
    _Atomic(uint64_t) next; /* part */
    uint64_t rounds, parts, each, total;
    tv_pool_work *work;
    void *user;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void do_parts(tv_pool *pool)
{
    for (uint64_t part; (part = atomic_fetch_add(&pool->next, 1)) < pool->parts;) {
        uint64_t from = part * pool->each;
        pool->work(pool->user, from, tv_min_u64(from + pool->each, pool->total));
    }
}

/* ---- Threads ---- */

static bool is_new(tv_pool *pool, uint64_t seen)
{
    uint64_t open = pool->open;
    return open != 0 && open != seen;
}

static void sleep_until_new(tv_pool *pool, uint64_t seen)
{
    pthread_mutex_lock(&pool->lock);
    pool->sleeping++;
    while (!is_new(pool, seen) && !pool->ending)
        pthread_cond_wait(&pool->begun, &pool->lock);
    pool->sleeping--;
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_work(tv_pool *pool, uint64_t seen)
{
    uint64_t until = now_ns() + LOOKOUT_NS;
    while (!is_new(pool, seen) && !pool->ending) {
        for (unsigned i = 0; i < 64; i++)
            pause_briefly();
        if (now_ns() > until) {
            sleep_until_new(pool, seen);
            return;
        }
    }
}

static void leave(tv_pool *pool)
{
    if (atomic_fetch_sub(&pool->active, 1) > 1 || !pool->waiting)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

static void *serve(void *user)
{
    tv_pool *pool = user;
    uint64_t seen = 0;
    for (;;) {
        wait_for_work(pool, seen);
        if (pool->ending)
            return NULL;
        pool->active++;
        uint64_t open = pool->open; /* it may have ended meanwhile */
        if (open != 0 && open != seen)
            do_parts(pool);
        if (open != 0)
            seen = open;
        leave(pool);
    }
}

tv_pool *tv_pool_new(unsigned threads)
{
    tv_pool *pool = threads > 1 ? calloc(1, sizeof *pool) : NULL;
    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pthread_cond_init(&pool->done, NULL);
    while (pool->count + 1 < threads && pool->count < THREADS_MAX) {
        if (pthread_create(&pool->threads[pool->count], NULL, serve, pool) != 0)
            break;
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

/* ---- The caller ---- */

static void wait_for_threads(tv_pool *pool)
{
    uint64_t until = now_ns() + LOOKOUT_NS;
    while (pool->active && now_ns() < until)
        pause_briefly();
    if (!pool->active)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->waiting = true;
    while (pool->active)
        pthread_cond_wait(&pool->done, &pool->lock);
    pool->waiting = false;
    pthread_mutex_unlock(&pool->lock);
}

void tv_pool_run(tv_pool *pool, uint64_t count, tv_pool_work *work, void *user)
{
    if (!pool || !pool->count || count < 2) {
        work(user, 0, count);
        return;
    }
    uint64_t parts = (uint64_t)(pool->count + 1) * PARTS_EACH, each = tv_ceil_div(count, parts);
    pool->each =
        count >= PARTS_EACH * GRAIN ? tv_ceil_div(each, GRAIN) * GRAIN : each; /* kernels take some rows together */
    pool->parts = tv_ceil_div(count, pool->each);
    pool->total = count;
    pool->work = work;
    pool->user = user;
    pool->next = 0;
    pool->open = ++pool->rounds;
    if (pool->sleeping) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->begun);
        pthread_mutex_unlock(&pool->lock);
    }
    do_parts(pool);
    pool->open = 0;
    wait_for_threads(pool);
}
