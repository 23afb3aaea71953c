/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of threads calls every iteration of a loop exactly once, and a job that was begun exactly once, whether or
 * not it shares them; the first loop and the first job of a kind are shared. */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "sim/pool.h"
#include "unit.h"

enum { THREADS_MAX = 5, COUNT_MAX = 300 };

typedef struct loop {
    atomic_uint calls[COUNT_MAX]; /* of each iteration */
    uint64_t count;
    atomic_uint outside; /* chunks that are empty or end after the last iteration */
    unsigned work;       /* additions of each iteration */
    atomic_uint sum;
} loop;

static void count_calls(void *user, uint64_t from, uint64_t to)
{
    loop *l = user;
    if (to > l->count || (from >= to && l->count > 0)) {
        l->outside++;
        return;
    }
    for (uint64_t i = from; i < to; i++) {
        l->calls[i]++;
        unsigned sum = 0;
        for (unsigned n = 0; n < l->work; n++)
            sum += n ^ (unsigned)i;
        l->sum += sum;
    }
}

static void expect_one_call_each(loop *l)
{
    assert_int_equal(l->outside, 0);
    for (uint64_t i = 0; i < COUNT_MAX; i++)
        assert_int_equal(l->calls[i], i < l->count);
}

/* A loop of the pool or, with `tasks`, of tasks. */
static void run_loop(tv_pool *pool, bool tasks, uint64_t count, unsigned work)
{
    static loop l;
    memset(&l, 0, sizeof l);
    l.count = count;
    l.work = work;
    if (tasks)
        tv_pool_run_tasks(pool, count, 1000 + count, count_calls, &l);
    else
        tv_pool_run(pool, count, count_calls, &l);
    expect_one_call_each(&l);
}

static void loops_of_any_length_call_each_iteration_once(void **state)
{
    (void)state;
    unit_rng rng = {81};
    for (unsigned threads = 0; threads <= THREADS_MAX; threads++) {
        tv_pool *pool = tv_pool_new(threads);
        assert_int_equal(tv_pool_threads(pool), threads > 1 ? threads : 1);
        for (uint64_t count = 0; count < COUNT_MAX; count++)
            run_loop(pool, count % 2, count, (unsigned)unit_below(&rng, 50));
        tv_pool_free(pool);
    }
}

/* Long enough that the choice is made and tried again, for loops that are worth sharing and others. */
static void repeated_loops_call_each_iteration_once(void **state)
{
    (void)state;
    for (unsigned threads = 2; threads <= THREADS_MAX; threads += 3) {
        tv_pool *pool = tv_pool_new(threads);
        for (unsigned round = 0; round < 1200; round++) {
            run_loop(pool, true, threads, 3000);
            run_loop(pool, true, 3, 0);
            run_loop(pool, false, 256, 10);
        }
        tv_pool_free(pool);
    }
}

static void count_job(void *user)
{
    atomic_uint *jobs = user;
    (*jobs)++;
}

/* Beside loops, which may be shared meanwhile. */
static void a_job_is_called_once_if_it_was_begun(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= THREADS_MAX; threads++) {
        tv_pool *pool = tv_pool_new(threads);
        for (unsigned round = 0; round < 600; round++) {
            atomic_uint jobs = 0;
            bool begun = tv_pool_begin(pool, round % 3, count_job, &jobs);
            assert_true(threads > 1 || !begun);
            assert_true(threads == 1 || begun || round > 0);
            for (unsigned i = 0; i < round % 4; i++)
                run_loop(pool, i % 2, 40, 20);
            tv_pool_end(pool);
            assert_int_equal(jobs, begun);
        }
        tv_pool_free(pool);
    }
}

enum { NOT_SHARED = 100 };

/* Each of two iterations waits until the other one has begun, for which it needs another thread. */
static void meet(void *user, uint64_t from, uint64_t to)
{
    atomic_uint *begun = user;
    *begun += to - from == 1 ? 1 : NOT_SHARED;
    while (*begun < 2)
        sched_yield();
}

static void pause_until_threads_sleep(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    nanosleep(&pause, NULL);
}

static void the_first_loop_of_a_kind_is_shared(void **state)
{
    (void)state;
    tv_pool *pool = tv_pool_new(2);
    for (uint64_t kind = 0; kind < 10; kind++) {
        atomic_uint begun = 0;
        if (kind % 2)
            pause_until_threads_sleep();
        tv_pool_run_tasks(pool, 2, kind, meet, &begun);
        assert_int_equal(begun, 2);
    }
    tv_pool_free(pool);
}

/* The job is not called by tv_pool_end, which does not follow before it has been. */
static void a_thread_that_sleeps_is_woken_for_a_job(void **state)
{
    (void)state;
    tv_pool_free(tv_pool_new(THREADS_MAX)); /* which has never worked */
    tv_pool *pool = tv_pool_new(2);
    for (uint64_t count = 0; count < 10; count++) {
        atomic_uint jobs = 0;
        pause_until_threads_sleep();
        assert_true(tv_pool_begin(pool, count, count_job, &jobs));
        while (jobs == 0)
            sched_yield();
        tv_pool_end(pool);
        assert_int_equal(jobs, 1);
    }
    tv_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_of_any_length_call_each_iteration_once),
        cmocka_unit_test(repeated_loops_call_each_iteration_once),
        cmocka_unit_test(a_job_is_called_once_if_it_was_begun),
        cmocka_unit_test(the_first_loop_of_a_kind_is_shared),
        cmocka_unit_test(a_thread_that_sleeps_is_woken_for_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
