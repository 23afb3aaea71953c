/* SPDX-License-Identifier: Apache-2.0 */
/* Shares the work of a node among threads, in steps between which progress is reported. */
#include "graph/operator_table.h"

/* A step of the units of a node. */
typedef struct work_step {
    tv_pool_work *work;
    void *user;
    uint64_t first;
} work_step;

static void work_on_step(void *user, uint64_t from, uint64_t to)
{
    work_step *s = user;
    s->work(s->user, s->first + from, s->first + to);
}

void tv_operator_share(const tv_operator_row *r, uint64_t units, tv_pool_work *work, void *user)
{
    uint64_t steps = r->progress && r->progress->steps < units ? r->progress->steps : 1;
    for (uint64_t i = 0, first = 0; i < steps && units; i++) {
        uint64_t end = i + 1 < steps ? units / steps * (i + 1) : units;
        tv_pool_run(r->pool, end - first, work_on_step, &(work_step){work, user, first});
        if (r->progress)
            r->progress->report(r->progress->user, end, units);
        first = end;
    }
}
