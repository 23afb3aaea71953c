/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices: weight row by weight row, so that each comes from memory once. */
#include "machine/cmdq/product.h"

#include "kernels/dot.h"

enum { LONGEST = 1 << 16, GROUPS_AT_ONCE = 64, ROWS_AT_ONCE = 32, TOGETHER = 16 };

/* Section 4: what becomes of a sum, whose scales are in it. */
static void finish(const cmdq_product *p, uint64_t i, uint64_t j, float y)
{
    uint64_t at = i * p->n + j;
    if (p->bias)
        y = y + p->bias[j];
    if (p->old)
        y = y + p->old[at] * p->scale_ofm;
    p->out[at] = y / p->scale_ofm;
}

/* Sums over `length` elements of row i of the activations from element `at` on: `count` of them, each `a_step` and `b_step` after the
 * one before. Lengths are within LONGEST. */
static void sums_of(const cmdq_product *p, uint64_t i, uint64_t j, uint64_t at, uint64_t a_step, uint64_t b_step, uint64_t length, uint64_t count, float *out)
{
    int32_t exact[GROUPS_AT_ONCE];
    const int8_t *b = p->b8 + j * p->k + at;
    if (!p->a8) {
        p->dots_f32_s8(p->a + i * p->k + at, a_step, b, b_step, length, count, out);
        return;
    }
    p->dots_s8(p->a8 + i * p->k + at, a_step, b, b_step, length, count, exact);
    for (uint64_t u = 0; u < count; u++)
        out[u] = (float)exact[u];
}

/* ---- Without groups: some weight rows at once ---- */

/* Integers: as many weight rows and activations as a tile of results has room for. */
static void multiply_bytes(const cmdq_product *p, uint64_t from, uint64_t to)
{
    int32_t exact[TOGETHER * ROWS_AT_ONCE];
    for (uint64_t j = from; j < to; j += TOGETHER)
        for (uint64_t i = 0; i < p->m; i += ROWS_AT_ONCE) {
            uint64_t rows = p->m - i < ROWS_AT_ONCE ? p->m - i : ROWS_AT_ONCE, count = to - j < TOGETHER ? to - j : TOGETHER;
            p->s8s8(p->b8 + j * p->k, p->k, count, p->a8 + i * p->k, p->sums + i, rows, exact);
            for (uint64_t u = 0; u < count; u++)
                for (uint64_t r = 0; r < rows; r++)
                    finish(p, i + r, j + u, (float)exact[u * rows + r] * p->scale_ifm * (p->scales ? p->scales[j + u] : p->scale_wgt));
        }
}

static void multiply_rows(const cmdq_product *p, uint64_t from, uint64_t to)
{
    for (uint64_t j = from; j < to; j += TOGETHER) {
        uint64_t count = to - j < TOGETHER ? to - j : TOGETHER;
        for (uint64_t i = 0; i < p->m; i++) {
            float sums[TOGETHER];
            sums_of(p, i, j, 0, 0, p->k, p->k, count, sums);
            for (uint64_t u = 0; u < count; u++)
                finish(p, i, j + u, sums[u] * p->scale_ifm * (p->scales ? p->scales[j + u] : p->scale_wgt));
        }
    }
}

/* ---- With groups ---- */

static void add_groups(const cmdq_product *p, uint64_t i, uint64_t rows, uint64_t j, tv_sum8 *partial)
{
    uint64_t groups = p->k / p->group;
    float sums[GROUPS_AT_ONCE], same[GROUPS_AT_ONCE];
    for (unsigned u = 0; u < GROUPS_AT_ONCE; u++)
        same[u] = p->scale_wgt;
    for (uint64_t g = 0; g < groups; g += GROUPS_AT_ONCE) {
        uint64_t count = groups - g < GROUPS_AT_ONCE ? groups - g : GROUPS_AT_ONCE;
        const float *scales = p->scales ? p->scales + j * groups + g : same;
        for (uint64_t r = 0; r < rows; r++) {
            sums_of(p, i + r, j, g * p->group, p->group, p->group, p->group, count, sums);
            tv_add_scaled(partial[r].partial, sums, p->scale_ifm, scales, count);
        }
    }
}

static void multiply_groups(const cmdq_product *p, uint64_t from, uint64_t to)
{
    for (uint64_t i = 0; i < p->m; i += ROWS_AT_ONCE)
        for (uint64_t j = from; j < to; j++) {
            uint64_t rows = p->m - i < ROWS_AT_ONCE ? p->m - i : ROWS_AT_ONCE;
            tv_sum8 partial[ROWS_AT_ONCE] = {{{0}}};
            add_groups(p, i, rows, j, partial);
            for (uint64_t r = 0; r < rows; r++)
                finish(p, i + r, j, tv_sum8_total(&partial[r]));
        }
}

/* ---- Of binary32, or longer than exact sums in 32 bits: one by one ---- */

static float term(const cmdq_product *p, uint64_t i, uint64_t j, uint64_t g)
{
    uint64_t at = g * p->group, groups = p->k / p->group;
    float sum;
    if (p->a8)
        sum = (float)tv_dot_s8(p->a8 + i * p->k + at, p->b8 + j * p->k + at, p->group);
    else if (p->b8)
        p->dots_f32_s8(p->a + i * p->k + at, 0, p->b8 + j * p->k + at, 0, p->group, 1, &sum);
    else
        sum = tv_dot_f32(p->a + i * p->k + at, p->b + j * p->k + at, p->group);
    return sum * p->scale_ifm * (p->scales ? p->scales[j * groups + g] : p->scale_wgt);
}

static void multiply_singly(const cmdq_product *p, uint64_t from, uint64_t to)
{
    for (uint64_t j = from; j < to; j++)
        for (uint64_t i = 0; i < p->m; i++) {
            tv_sum8 sum = {{0}};
            for (uint64_t g = 0; g < p->k / p->group && p->grouped; g++)
                tv_sum8_add(&sum, g, term(p, i, j, g));
            finish(p, i, j, p->grouped ? tv_sum8_total(&sum) : term(p, i, j, 0));
        }
}

static void multiply_part(void *user, uint64_t from, uint64_t to)
{
    const cmdq_product *p = user;
    if (!p->b8 || p->group > LONGEST)
        multiply_singly(p, from, to);
    else if (p->grouped)
        multiply_groups(p, from, to);
    else if (p->a8 && p->sums)
        multiply_bytes(p, from, to);
    else
        multiply_rows(p, from, to);
}

/* Small products are done before other threads have woken up. */
void cmdq_multiply(const cmdq_product *p, tv_pool *pool)
{
    enum { SMALL = 1 << 18 };
    tv_pool_run(p->m * p->n * p->k < SMALL ? NULL : pool, p->n, multiply_part, (void *)(uintptr_t)p);
}
