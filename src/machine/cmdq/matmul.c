/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices: weight row by weight row, so that each comes from memory once. */
#include "machine/cmdq/matmul.h"

#include "kernels/dot.h"
#include "kernels/elements.h"
#include "kernels/mix.h"

enum {
    LONGEST = 1 << 16,
    GROUPS_AT_ONCE = 64,
    ROWS_AT_ONCE = 32,
    TOGETHER = 16,
    PANEL_WORTH = 4 /* rows of activations */
};

/* ---- Ways ---- */

cmdq_variant cmdq_choose_variant(const cmdq_product *p, bool integer_weights, bool integers)
{
    bool panel = p->whole && p->m >= PANEL_WORTH && tv_panel(p->level) != NULL;
    if (p->transposed && !integers && !p->grouped)
        return CMDQ_VARIANT_WEIGHTED_SUM;
    if (!integer_weights || p->group > LONGEST)
        return CMDQ_VARIANT_SCALAR;
    if (p->grouped && integers && p->whole && p->group == TV_GROUP)
        return panel ? CMDQ_VARIANT_PANEL_GROUPS : CMDQ_VARIANT_VECTORS;
    if (p->grouped)
        return CMDQ_VARIANT_GROUPS;
    if (!integers || !p->whole)
        return CMDQ_VARIANT_ROWS;
    return panel ? CMDQ_VARIANT_PANELS : CMDQ_VARIANT_BYTES;
}

bool cmdq_takes_packed(const cmdq_product *p, cmdq_variant way)
{
    return p->k % 2 == 0 &&
           (way == CMDQ_VARIANT_VECTORS || way == CMDQ_VARIANT_PANELS || way == CMDQ_VARIANT_PANEL_GROUPS);
}

bool cmdq_finishes_output(const cmdq_product *p)
{
    return p->way == CMDQ_VARIANT_PANEL_GROUPS && !p->bias && p->scale_ofm == 1;
}

static uint64_t vector_sums(uint64_t k) { return tv_groups_packed_bytes(k) / TV_GROUP; }

uint64_t cmdq_packed_bytes(const cmdq_product *p)
{
    switch (p->way) {
    case CMDQ_VARIANT_VECTORS:
        return p->m * tv_groups_packed_bytes(p->k);
    case CMDQ_VARIANT_PANELS:
    case CMDQ_VARIANT_PANEL_GROUPS:
        return tv_panel_packed_bytes(p->m, p->k);
    default:
        return 0;
    }
}

uint64_t cmdq_sums(const cmdq_product *p)
{
    switch (p->way) {
    case CMDQ_VARIANT_VECTORS:
        return p->m * vector_sums(p->k);
    case CMDQ_VARIANT_PANEL_GROUPS:
        return tv_panel_offsets_count(p->m, p->k, TV_GROUP);
    case CMDQ_VARIANT_PANELS:
        return tv_panel_offsets_count(p->m, p->k, p->k);
    case CMDQ_VARIANT_BYTES:
        return p->m;
    default:
        return 0;
    }
}

void cmdq_pack_operands(const cmdq_product *p, int8_t *ready, int32_t *sums)
{
    if (p->way == CMDQ_VARIANT_PANELS || p->way == CMDQ_VARIANT_PANEL_GROUPS)
        tv_panel(p->level)->ready(p->a8, p->m, p->k, p->weight_bits, p->way == CMDQ_VARIANT_PANEL_GROUPS, ready, sums);
    for (uint64_t i = 0; i < p->m && p->way == CMDQ_VARIANT_VECTORS; i++)
        tv_groups_pack(p->a8 + i * p->k, p->k, p->weight_bits, ready + i * tv_groups_packed_bytes(p->k),
                       sums + i * vector_sums(p->k));
    for (uint64_t i = 0; i < p->m && p->way == CMDQ_VARIANT_BYTES; i++)
        sums[i] = tv_sum_s8(p->a8 + i * p->k, p->k);
}

/* ---- Results ---- */

/* Sums of row i, from output j on, whose scales are in them. */
static float *sums_at(const cmdq_product *p, uint64_t i, uint64_t j) { return p->out + i * p->n + j; }

/* Exact sums become such. */
static void put_exact(const cmdq_product *p, uint64_t i, uint64_t j, uint64_t count, const int32_t *exact)
{
    tv_elements_scale(exact, count, p->scale_ifm, p->scales ? p->scales + j : NULL, p->scale_wgt, sums_at(p, i, j));
}

static void scale_sums(const cmdq_product *p, uint64_t i, uint64_t j, uint64_t count)
{
    float *y = sums_at(p, i, j);
    for (uint64_t u = 0; u < count; u++)
        y[u] = y[u] * p->scale_ifm * (p->scales ? p->scales[j + u] : p->scale_wgt);
}

/* Section 4: what becomes of them. */
static void finish_rows(void *user, uint64_t from, uint64_t to)
{
    const cmdq_product *p = user;
    for (uint64_t i = from; i < to; i++)
        tv_elements_finish(sums_at(p, i, 0), p->n, p->bias, p->old ? p->old + i * p->n : NULL, p->scale_ofm,
                           sums_at(p, i, 0));
}

/* ---- By panels ---- */

static tv_panel_weights panel_weights(const cmdq_product *p)
{
    return (tv_panel_weights){p->b8, p->weight_bits, p->k, p->stride};
}

/* Pairs of panels `from` to `to`. */
static void multiply_panels(void *user, uint64_t from, uint64_t to)
{
    const cmdq_product *p = user;
    const tv_panel_weights w = panel_weights(p);
    int32_t exact[TV_PANEL_INPUTS * TV_PANEL_PAIR];
    for (uint64_t i = 0; i < p->m; i += TV_PANEL_INPUTS)
        for (uint64_t j = from * TV_PANEL_PAIR; j < tv_min_u64(p->n, to * TV_PANEL_PAIR); j += TV_PANEL_PAIR) {
            uint64_t rows = tv_min_u64(p->m - i, TV_PANEL_INPUTS), count = tv_min_u64(p->n - j, TV_PANEL_PAIR);
            tv_panel(p->level)->exact(&w, j, count, p->ready + tv_panel_packed_bytes(i, p->k), p->sums + i, rows,
                                      exact);
            for (uint64_t r = 0; r < rows; r++)
                put_exact(p, i + r, j, count, exact + r * TV_PANEL_PAIR);
        }
}

/* Likewise. */
static void multiply_panel_groups(void *user, uint64_t from, uint64_t to)
{
    const cmdq_product *p = user;
    const tv_panel_weights w = panel_weights(p);
    for (uint64_t i = 0; i < p->m; i += TV_PANEL_GROUPED)
        for (uint64_t j = from * TV_PANEL_PAIR; j < tv_min_u64(p->n, to * TV_PANEL_PAIR); j += TV_PANEL_PAIR)
            tv_panel(p->level)->groups(
                &w, j, tv_min_u64(p->n - j, TV_PANEL_PAIR), p->ready + tv_panel_packed_bytes(i, p->k),
                p->sums + i * (p->k / TV_GROUP), tv_min_u64(p->m - i, TV_PANEL_GROUPED), p->scales, p->scale_step,
                p->scale_ifm, cmdq_finishes_output(p) && p->old ? p->old + i * p->n + j : NULL, sums_at(p, i, j), p->n);
}

/* ---- By weight rows ---- */

/* Each row of activations by itself, with groups of 32. */
static void multiply_vectors(const cmdq_product *p, uint64_t from, uint64_t to)
{
    enum { AT_ONCE = 64 };
    uint64_t row_bytes = p->k * p->weight_bits / 8;
    for (uint64_t j = from; j < to; j += AT_ONCE)
        for (uint64_t i = 0; i < p->m; i++)
            tv_groups(p->level,
                      p->weight_bits)((const uint8_t *)p->b8 + j * row_bytes, p->k, tv_min_u64(to - j, AT_ONCE),
                                      p->ready + i * tv_groups_packed_bytes(p->k), p->sums + i * vector_sums(p->k),
                                      p->scale_ifm, p->scales + j * (p->k / TV_GROUP), sums_at(p, i, j));
}

/* Integers: as many weight rows and activations as a tile of results has room for. */
static void multiply_bytes(const cmdq_product *p, uint64_t from, uint64_t to)
{
    int32_t exact[TOGETHER * ROWS_AT_ONCE], row[TOGETHER];
    for (uint64_t j = from; j < to; j += TOGETHER)
        for (uint64_t i = 0; i < p->m; i += ROWS_AT_ONCE) {
            uint64_t rows = tv_min_u64(p->m - i, ROWS_AT_ONCE), count = tv_min_u64(to - j, TOGETHER);
            tv_s8s8(p->level)((const int8_t *)p->b8 + j * p->k, p->k, count, p->a8 + i * p->k, p->sums + i, rows,
                              exact);
            for (uint64_t r = 0; r < rows; r++) {
                for (uint64_t u = 0; u < count; u++)
                    row[u] = exact[u * rows + r];
                put_exact(p, i + r, j, count, row);
            }
        }
}

/* Sums over `length` elements of row i of the activations from element `at` on: `count` of them, each `a_step` and
 * `b_step` after the one before. Lengths are within LONGEST. */
static void sums_of(const cmdq_product *p, uint64_t i, uint64_t j, uint64_t at, uint64_t a_step, uint64_t b_step,
                    uint64_t length, uint64_t count, float *out)
{
    int32_t exact[GROUPS_AT_ONCE];
    const int8_t *b = (const int8_t *)p->b8 + j * p->k + at;
    if (!p->a8) {
        tv_dots_f32_s8(p->level)(p->a + i * p->k + at, a_step, b, b_step, length, count, out);
        return;
    }
    tv_dots_s8(p->level)(p->a8 + i * p->k + at, a_step, b, b_step, length, count, exact);
    for (uint64_t u = 0; u < count; u++)
        out[u] = (float)exact[u];
}

static void multiply_rows(const cmdq_product *p, uint64_t from, uint64_t to)
{
    for (uint64_t j = from; j < to; j += TOGETHER) {
        uint64_t count = tv_min_u64(to - j, TOGETHER);
        for (uint64_t i = 0; i < p->m; i++) {
            sums_of(p, i, j, 0, 0, p->k, p->k, count, sums_at(p, i, j));
            scale_sums(p, i, j, count);
        }
    }
}

/* Rows `from` to `to` of activations by weights that lie as k rows of n, widened once for all of them. */
static void multiply_transposed(void *user, uint64_t from, uint64_t to)
{
    const cmdq_product *p = user;
    tv_weighted_sum_f32(p->a + from * p->k, to - from, p->k, p->b, p->n, p->n, sums_at(p, from, 0));
    for (uint64_t i = from; i < to; i++)
        scale_sums(p, i, 0, p->n);
}

static void add_groups(const cmdq_product *p, uint64_t i, uint64_t rows, uint64_t j, tv_sum8 *partial)
{
    uint64_t groups = p->k / p->group;
    float sums[GROUPS_AT_ONCE];
    for (uint64_t g = 0; g < groups; g += GROUPS_AT_ONCE) {
        uint64_t count = tv_min_u64(groups - g, GROUPS_AT_ONCE);
        for (uint64_t r = 0; r < rows; r++) {
            sums_of(p, i + r, j, g * p->group, p->group, p->group, p->group, count, sums);
            tv_add_scaled(partial[r].partial, sums, p->scale_ifm, p->scales + j * groups + g, count);
        }
    }
}

static void multiply_groups(const cmdq_product *p, uint64_t from, uint64_t to)
{
    for (uint64_t i = 0; i < p->m; i += ROWS_AT_ONCE)
        for (uint64_t j = from; j < to; j++) {
            uint64_t rows = tv_min_u64(p->m - i, ROWS_AT_ONCE);
            tv_sum8 partial[ROWS_AT_ONCE] = {{{0}}};
            add_groups(p, i, rows, j, partial);
            for (uint64_t r = 0; r < rows; r++)
                *sums_at(p, i + r, j) = tv_sum8_total(&partial[r]);
        }
}

/* ---- One by one ---- */

static float term(const cmdq_product *p, uint64_t i, uint64_t j, uint64_t g)
{
    uint64_t at = g * p->group, groups = p->k / p->group;
    const int8_t *b8 = p->b8;
    float sum;
    if (p->a8)
        sum = (float)tv_dot_s8(p->a8 + i * p->k + at, b8 + j * p->k + at, p->group);
    else if (p->b8)
        tv_dots_f32_s8(p->level)(p->a + i * p->k + at, 0, b8 + j * p->k + at, 0, p->group, 1, &sum);
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
            *sums_at(p, i, j) = p->grouped ? tv_sum8_total(&sum) : term(p, i, j, 0);
        }
}

static void multiply_part(void *user, uint64_t from, uint64_t to)
{
    const cmdq_product *p = user;
    switch (p->way) {
    case CMDQ_VARIANT_ROWS:
        multiply_rows(p, from, to);
        break;
    case CMDQ_VARIANT_BYTES:
        multiply_bytes(p, from, to);
        break;
    case CMDQ_VARIANT_GROUPS:
        multiply_groups(p, from, to);
        break;
    case CMDQ_VARIANT_VECTORS:
        multiply_vectors(p, from, to);
        break;
    default:
        multiply_singly(p, from, to);
        break;
    }
}

/* Small products are done before other threads have woken up. */
void cmdq_multiply(const cmdq_product *p, tv_pool *pool)
{
    enum { SMALL = 1 << 18 };
    void *user = (void *)(uintptr_t)p;
    if (p->m * p->n * p->k < SMALL)
        pool = NULL;
    if (p->way == CMDQ_VARIANT_PANELS)
        tv_pool_run(pool, tv_ceil_div(p->n, TV_PANEL_PAIR), multiply_panels, user);
    else if (p->way == CMDQ_VARIANT_PANEL_GROUPS)
        tv_pool_run(pool, tv_ceil_div(p->n, TV_PANEL_PAIR), multiply_panel_groups, user);
    else if (p->way == CMDQ_VARIANT_WEIGHTED_SUM)
        tv_pool_run(pool, p->m, multiply_transposed, user);
    else
        tv_pool_run(pool, p->n, multiply_part, user);
    if (!cmdq_finishes_output(p) && (p->bias || p->old || p->scale_ofm != 1))
        tv_pool_run(pool, p->m, finish_rows, user);
}
