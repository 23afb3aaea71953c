/* SPDX-License-Identifier: Apache-2.0 */
/* What functions of operators share: threads, with progress between steps of a node, and conversions. */
#include <stdlib.h>

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

uint32_t *tv_operator_words(const tv_operator_row *r, unsigned input)
{
    tv_tensor t = tv_input_tensor(r, input);
    uint64_t count = tv_tensor_count(&t);
    uint32_t *words = malloc((size_t)count * sizeof *words + 1);
    for (uint64_t i = 0; i < count && words; i++)
        words[i] = (uint32_t)tv_tensor_integer(&t, i);
    return words;
}
