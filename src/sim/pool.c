/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads: each loop is cut into more chunks than there are threads. Each thread claims the chunks of its own
 * range first, which are usually the same rows from loop to loop, and then what is left of the others'; each time half
 * of the chunks that are left, so that the last claims are short and no thread waits long for another.
 * The caller does not wait for threads that find none left, so that a short loop costs no more than on one thread.
 *
 * More threads can be slower than one: where one already reads memory at full bandwidth, and where other programs take
 * a thread's processor in the middle of a chunk, for which the caller then waits milliseconds. So loops of a kind (the
 * same function and count) are timed both ways at first, and run on one thread where sharing takes longer; the other
 * way is tried again, each time after twice as many loops, unless the choice changes. Long loops are always shared.
 * What a loop computes does not depend on it. A job that one thread takes beside the loops is measured likewise.
 *
 * A thread spins for a moment before it sleeps, because loops usually follow each other. The state (is a loop open, how
 * many threads work on it, how many sleep) is in sequentially consistent atomics: of two sides that each write one and
 * then read the other, at least one reads the other's write. */
#include "sim/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS_MAX = 256, CHUNKS_PER_THREAD = 16, SPIN_NS = 300000 };
enum { GRAIN = 16, GRAINS_MIN = 4 }; /* kernels process several rows at a time, of loops of some such grains */
enum { KINDS = 64, TRIALS = 8, RETRY_MIN = 64, RETRY_MAX = 8192 }; /* TRIALS and RETRY in loops */
enum { LONG_NS = 100000 };

/* Mean durations of the loops of a kind; recent ones count more. During the trials it is the minimum, because the
 * threads sleep at first. */
typedef struct loop_kind {
    uintptr_t work; /* the address of the function; 0: unused */
    uint64_t kind;  /* the count, or what the caller states */
    double serial_ns, shared_ns;
    uint64_t caller_ns;         /* minimum of what the caller works in a shared loop; UINT64_MAX: not known */
    unsigned loops, next_trial; /* number of loops so far, and at which the slower way is tried again */
    unsigned interval;
} loop_kind;

/* The chunks of a loop that a thread claims first. Those of a few threads share a cache line: each thread reads them
 * all before a loop ends. */
typedef struct chunk_range {
    _Atomic(uint64_t) next;
    uint64_t end;
} chunk_range;

/* A thread besides the caller. */
typedef struct pool_thread {
    pthread_t id;
    tv_pool *pool;
    unsigned range;
} pool_thread;

struct tv_pool {
    pthread_mutex_t lock; /* for sleeping and waking */
    pthread_cond_t begun, done;
    pool_thread threads[THREADS_MAX];
    unsigned count; /* threads besides the caller */
    atomic_bool ending;
    _Atomic(uint64_t) open; /* number of the loop whose chunks can be claimed; 0: none */
    atomic_uint active;     /* threads that may claim chunks; while there are any, no loop begins */
    atomic_uint sleeping;
    atomic_bool waiting; /* the caller sleeps until none is active, or until the job is done */
    uint64_t loops, chunk_size, total;
    tv_pool_work *work;
    void *user;
    chunk_range ranges[THREADS_MAX + 1]; /* of the caller and of each thread */

    _Atomic(tv_pool_job *) job; /* NULL: there is none, or a thread has begun it */
    atomic_bool job_done;
    void *job_user;

    /* of the caller alone */
    tv_pool_job *job_begun; /* by tv_pool_begin; NULL: without sharing */
    uintptr_t job_work;
    uint64_t job_count, job_begin;
    loop_kind kinds[KINDS];
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

/* Works on the chunks of the range, then on those that are left of the ranges after it, wrapping around. A range
 * without chunks is only read: many threads look at it. */
static void run_chunks(tv_pool *pool, unsigned range)
{
    const unsigned ranges = pool->count + 1;
    for (unsigned i = 0; i < ranges; i++) {
        chunk_range *r = &pool->ranges[(range + i) % ranges];
        uint64_t next = r->next;
        while (next < r->end) {
            const uint64_t claimed = tv_max_u64((r->end - next) / 2, 1);
            if (!atomic_compare_exchange_weak(&r->next, &next, next + claimed))
                continue;
            pool->work(pool->user, next * pool->chunk_size,
                       tv_min_u64((next + claimed) * pool->chunk_size, pool->total));
            next = r->next;
        }
    }
}

/* ---- Threads ---- */

/* Whether a loop other than `latest`, the one this thread worked on last, is open. */
static bool is_new(tv_pool *pool, uint64_t latest)
{
    uint64_t open = pool->open;
    return open != 0 && open != latest;
}

/* Whether there is something to do for this thread. */
static bool is_needed(tv_pool *pool, uint64_t latest) { return is_new(pool, latest) || pool->job || pool->ending; }

static void sleep_until_needed(tv_pool *pool, uint64_t latest)
{
    pthread_mutex_lock(&pool->lock);
    pool->sleeping++;
    while (!is_needed(pool, latest))
        pthread_cond_wait(&pool->begun, &pool->lock);
    pool->sleeping--;
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_work(tv_pool *pool, uint64_t latest)
{
    uint64_t until = now_ns() + SPIN_NS;
    for (unsigned i = 1; !is_needed(pool, latest); i++) {
        pause_briefly();
        if (i % 64 == 0 && now_ns() > until) { /* the clock takes as long as a pause */
            sleep_until_needed(pool, latest);
            return;
        }
    }
}

/* Wakes the caller if it sleeps. */
static void wake_caller(tv_pool *pool)
{
    if (!pool->waiting)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

static void finish_chunks(tv_pool *pool)
{
    if (atomic_fetch_sub(&pool->active, 1) == 1)
        wake_caller(pool);
}

static void run_job(tv_pool *pool)
{
    tv_pool_job *job = pool->job ? atomic_exchange(&pool->job, NULL) : NULL;
    if (!job)
        return;
    job(pool->job_user);
    pool->job_done = true;
    wake_caller(pool);
}

static void *run_thread(void *user)
{
    const pool_thread *thread = user;
    tv_pool *pool = thread->pool;
    uint64_t latest = 0;
    for (;;) {
        wait_for_work(pool, latest);
        if (pool->ending)
            return NULL;
        run_job(pool);
        if (!is_new(pool, latest))
            continue;
        pool->active++;
        uint64_t open = pool->open; /* it may have ended meanwhile */
        if (open != 0 && open != latest)
            run_chunks(pool, thread->range);
        if (open != 0)
            latest = open;
        finish_chunks(pool);
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
        pool_thread *thread = &pool->threads[pool->count];
        *thread = (pool_thread){.pool = pool, .range = pool->count + 1};
        if (pthread_create(&thread->id, NULL, run_thread, thread) != 0)
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
        pthread_join(pool->threads[i].id, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->begun);
    pthread_cond_destroy(&pool->done);
    free(pool);
}

/* ---- The caller ---- */

static bool is_inactive(tv_pool *pool) { return pool->active == 0; }

static bool is_job_done(tv_pool *pool) { return pool->job_done; }

static void wait_until(tv_pool *pool, bool (*over)(tv_pool *pool))
{
    uint64_t until = now_ns() + SPIN_NS;
    while (!over(pool) && now_ns() < until)
        pause_briefly();
    if (over(pool))
        return;
    pthread_mutex_lock(&pool->lock);
    pool->waiting = true;
    while (!over(pool))
        pthread_cond_wait(&pool->done, &pool->lock);
    pool->waiting = false;
    pthread_mutex_unlock(&pool->lock);
}

static void wake_threads(tv_pool *pool)
{
    if (!pool->sleeping)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
}

static loop_kind *kind_of(tv_pool *pool, uintptr_t work, uint64_t count)
{
    uint64_t hash = ((uint64_t)work ^ count * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0x9E3779B97F4A7C15);
    loop_kind *kind = &pool->kinds[hash >> 58];
    if (kind->work != work || kind->kind != count)
        *kind = (loop_kind){
            .work = work, .kind = count, .caller_ns = UINT64_MAX, .next_trial = RETRY_MIN, .interval = RETRY_MIN};
    return kind;
}

static bool is_sharing_faster(const loop_kind *kind) { return kind->shared_ns < kind->serial_ns; }

/* Whether the next loop of the kind is shared among threads. */
static bool is_shared(loop_kind *kind)
{
    unsigned loop = kind->loops++;
    bool faster = is_sharing_faster(kind);
    if (loop > 0 && kind->caller_ns > LONG_NS && kind->caller_ns != UINT64_MAX)
        return true;
    if (loop < TRIALS)
        return loop % 4 != 3;
    if (loop < kind->next_trial)
        return faster;
    kind->next_trial = loop + kind->interval;
    kind->interval = (unsigned)tv_min_u64(2 * (uint64_t)kind->interval, RETRY_MAX);
    return !faster;
}

static void record_loop(loop_kind *kind, bool shared, uint64_t ns)
{
    bool was_faster = is_sharing_faster(kind);
    double *mean = shared ? &kind->shared_ns : &kind->serial_ns;
    if (*mean == 0 || (kind->loops <= TRIALS && (double)ns < *mean))
        *mean = (double)ns;
    else if (kind->loops > TRIALS) /* one loop, in which a thread waited for its processor, must not decide */
        *mean += (((double)ns < 2 * *mean ? (double)ns : 2 * *mean) - *mean) / 8;
    if (kind->loops > TRIALS && is_sharing_faster(kind) != was_faster)
        kind->interval = RETRY_MIN;
}

/* Returns how long the caller worked, without waiting. */
static uint64_t run_shared(tv_pool *pool, uint64_t count, unsigned grain, tv_pool_work *work, void *user)
{
    const uint64_t ranges = pool->count + 1;
    uint64_t chunks = ranges * CHUNKS_PER_THREAD, size = tv_ceil_div(count, chunks);
    pool->chunk_size = count >= GRAINS_MIN * (uint64_t)grain ? tv_ceil_div(size, grain) * grain : size;
    chunks = tv_ceil_div(count, pool->chunk_size);
    pool->total = count;
    pool->work = work;
    pool->user = user;
    for (uint64_t i = 0; i < ranges; i++) { /* visible to threads by `open` */
        atomic_store_explicit(&pool->ranges[i].next, tv_ceil_div(i * chunks, ranges), memory_order_relaxed);
        pool->ranges[i].end = tv_ceil_div((i + 1) * chunks, ranges);
    }
    pool->open = ++pool->loops;
    wake_threads(pool);
    uint64_t begin = now_ns();
    run_chunks(pool, 0);
    uint64_t own = now_ns() - begin;
    pool->open = 0;
    wait_until(pool, is_inactive);
    return own;
}

/* While another thread executes a job, a loop is shared as others of its kind were last, and not measured. */
static void run_loop(tv_pool *pool, uint64_t count, uint64_t kind, unsigned grain, tv_pool_work *work, void *user)
{
    if (!pool || !pool->count || count < 2) {
        work(user, 0, count);
        return;
    }
    loop_kind *loops = kind_of(pool, (uintptr_t)work, kind);
    bool measured = !pool->job_begun || pool->job_done, shared = measured ? is_shared(loops) : is_sharing_faster(loops);
    uint64_t begin = now_ns(), own = shared ? run_shared(pool, count, grain, work, user) : 0;
    if (!shared)
        work(user, 0, count);
    if (measured && shared)
        loops->caller_ns = tv_min_u64(loops->caller_ns, own);
    if (measured)
        record_loop(loops, shared, now_ns() - begin);
}

void tv_pool_run(tv_pool *pool, uint64_t count, tv_pool_work *work, void *user)
{
    run_loop(pool, count, count, GRAIN, work, user);
}

void tv_pool_run_tasks(tv_pool *pool, uint64_t count, uint64_t kind, tv_pool_work *work, void *user)
{
    run_loop(pool, count, kind, 1, work, user);
}

unsigned tv_pool_threads(const tv_pool *pool) { return pool ? pool->count + 1 : 1; }

bool tv_pool_begin(tv_pool *pool, uint64_t count, tv_pool_job *job, void *user)
{
    if (!pool || !pool->count)
        return false;
    pool->job_work = (uintptr_t)job;
    pool->job_count = count;
    pool->job_begun = is_shared(kind_of(pool, pool->job_work, count)) ? job : NULL;
    pool->job_begin = now_ns();
    if (!pool->job_begun)
        return false;
    pool->job_user = user;
    pool->job_done = false;
    pool->job = job;
    wake_threads(pool);
    return true;
}

void tv_pool_end(tv_pool *pool)
{
    if (!pool || !pool->count)
        return;
    if (pool->job_begun && atomic_exchange(&pool->job, NULL))
        pool->job_begun(pool->job_user);
    else if (pool->job_begun)
        wait_until(pool, is_job_done);
    record_loop(kind_of(pool, pool->job_work, pool->job_count), pool->job_begun != NULL, now_ns() - pool->job_begin);
    pool->job_begun = NULL;
}
