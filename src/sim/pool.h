/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads that share the iterations of a loop. Results must not depend on how the loop is cut into chunks. */
#ifndef TV_SIM_POOL_H
#define TV_SIM_POOL_H

#include "base/base.h"

typedef struct tv_pool tv_pool;

/* `threads` includes the caller. NULL: one thread, or the host has no more; tv_pool_run accepts that. */
tv_pool *tv_pool_new(unsigned threads);
void tv_pool_free(tv_pool *pool);

/* Calls work(user, from, to) for chunks that make up 0 to `count`, concurrently; returns when all are done. */
typedef void tv_pool_work(void *user, uint64_t from, uint64_t to);
void tv_pool_run(tv_pool *pool, uint64_t count, tv_pool_work *work, void *user);

/* The same for few long iterations: a chunk may have one. Calls with the same `kind` take about as long. */
void tv_pool_run_tasks(tv_pool *pool, uint64_t count, uint64_t kind, tv_pool_work *work, void *user);

/* With the caller; 1 without a pool. */
unsigned tv_pool_threads(const tv_pool *pool);

/* A job beside the caller's own work, which may run loops meanwhile: tv_pool_begin has another thread call job(user),
 * unless that took longer the last times, for jobs with this function and `count`; then it returns false, and the job
 * is not called. In both cases tv_pool_end must follow: it waits for the job, or calls it if no thread has. */
typedef void tv_pool_job(void *user);
bool tv_pool_begin(tv_pool *pool, uint64_t count, tv_pool_job *job, void *user);
void tv_pool_end(tv_pool *pool);

#endif
