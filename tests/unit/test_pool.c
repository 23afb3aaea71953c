/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of threads calls every iteration of a loop once, and a job as often as it says, however it decides whether
 * to share them. */
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
            for (unsigned i = 0; i < round % 4; i++)
                run_loop(pool, i % 2, 40, 20);
            tv_pool_end(pool);
            assert_int_equal(jobs, begun);
        }
        tv_pool_free(pool);
    }
}

/* Threads sleep between loops, and while a pool that has never worked is freed. */
static void threads_that_sleep_are_woken(void **state)
{
    (void)state;
    tv_pool_free(tv_pool_new(THREADS_MAX));
    tv_pool *pool = tv_pool_new(THREADS_MAX);
    for (unsigned round = 0; round < 20; round++) {
        const struct timespec pause = {.tv_nsec = 2000000};
        nanosleep(&pause, NULL);
        run_loop(pool, round % 2, 200, 100);
    }
    tv_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_of_any_length_call_each_iteration_once),
        cmocka_unit_test(repeated_loops_call_each_iteration_once),
        cmocka_unit_test(a_job_is_called_once_if_it_was_begun),
        cmocka_unit_test(threads_that_sleep_are_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
