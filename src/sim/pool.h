/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that share the rows of one piece of work. They sleep between pieces; what each row's result is does not
 * depend on how many there are. */
#ifndef TV_SIM_POOL_H
#define TV_SIM_POOL_H

#include "base/base.h"

typedef struct tv_pool tv_pool;

/* `threads` counts the caller. NULL: one thread, or the host gives no more; tv_pool_run takes that. */
tv_pool *tv_pool_new(unsigned threads);
void tv_pool_free(tv_pool *pool);

/* Calls work(user, from, to) for parts that together are 0 to count, at the same time; returns when all are done. */
typedef void tv_pool_work(void *user, uint64_t from, uint64_t to);
void tv_pool_run(tv_pool *pool, uint64_t count, tv_pool_work *work, void *user);

#endif
