/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, weight row by weight row, so that each row is read from memory once.
 *
 * A table gives for each variant how it packs activations, how it multiplies, and how its work is cut into tasks. Sums
 * of products of integers are exact in 32 bits; sums of binary32 are in the canonical order of kernels/dot.h. So the
 * variants differ in speed alone. */
#include "machine/cmdq/matmul.h"

#include "kernels/dot.h"
#include "kernels/elements.h"
#include "kernels/weighted_sum.h"

enum {
    GROUP_BLOCK = 64,
    ROW_BLOCK = 32,
    OUTPUT_BLOCK = 16,
    WEIGHTED_ROWS = 8, /* which share values in the kernel */
    VECTOR_TASK = 16,  /* outputs of a cache line */
    PANEL_ROWS_MIN = 4 /* rows of activations from which on panels are faster */
};

cmdq_variant cmdq_choose_variant(const cmdq_matmul *p, bool integer_weights, bool exact)
{
    bool panel = p->dense && p->m >= PANEL_ROWS_MIN && tv_gemm_panel(p->level) != NULL;
    if (p->transposed && !exact && !p->grouped)
        return CMDQ_VARIANT_WEIGHTED_SUM;
    if (!integer_weights || p->group > CMDQ_EXACT_LENGTH_MAX)
        return CMDQ_VARIANT_SCALAR;
    if (p->grouped && exact && p->dense && p->group == TV_GROUP_SIZE)
        return panel ? CMDQ_VARIANT_PANEL_GROUPS : CMDQ_VARIANT_VECTORS;
    if (p->grouped)
        return CMDQ_VARIANT_GROUPS;
    if (!exact || !p->dense)
        return CMDQ_VARIANT_ROWS;
    return panel ? CMDQ_VARIANT_PANELS : CMDQ_VARIANT_BYTES;
}

/* ---- Packed activations ---- */

/* Sums of one row that is packed for CMDQ_VARIANT_VECTORS. */
static uint64_t vector_sums(uint64_t k) { return tv_gemv_grouped_packed_bytes(k) / TV_GROUP_SIZE; }

static uint64_t vectors_packed_bytes(const cmdq_matmul *p) { return p->m * tv_gemv_grouped_packed_bytes(p->k); }

static uint64_t vectors_sums_count(const cmdq_matmul *p) { return p->m * vector_sums(p->k); }

static void pack_vectors(const cmdq_matmul *p, int8_t *packed, int32_t *sums)
{
    for (uint64_t i = 0; i < p->m; i++)
        tv_gemv_grouped_pack(p->a8 + i * p->k, p->k, p->weight_bits, packed + i * tv_gemv_grouped_packed_bytes(p->k),
                             sums + i * vector_sums(p->k));
}

static uint64_t panels_packed_bytes(const cmdq_matmul *p) { return tv_gemm_panel_packed_bytes(p->m, p->k); }

static uint64_t panels_sums_count(const cmdq_matmul *p) { return tv_gemm_panel_offset_count(p->m, p->k, p->k); }

static uint64_t panel_groups_sums_count(const cmdq_matmul *p)
{
    return tv_gemm_panel_offset_count(p->m, p->k, TV_GROUP_SIZE);
}

static void pack_panels(const cmdq_matmul *p, int8_t *packed, int32_t *sums)
{
    tv_gemm_panel(p->level)->pack(p->a8, p->m, p->k, p->weight_bits, TV_PANEL_EXACT, packed, sums);
}

static void pack_panel_groups(const cmdq_matmul *p, int8_t *packed, int32_t *sums)
{
    tv_gemm_panel(p->level)->pack(p->a8, p->m, p->k, p->weight_bits, TV_PANEL_GROUPED, packed, sums);
}

static uint64_t bytes_sums_count(const cmdq_matmul *p) { return p->m; }

static void sum_bytes(const cmdq_matmul *p, int8_t *packed, int32_t *sums)
{
    (void)packed; /* a8 is multiplied in place */
    for (uint64_t i = 0; i < p->m; i++)
        sums[i] = tv_sum_s8(p->a8 + i * p->k, p->k);
}

/* ---- Outputs ---- */

void cmdq_append_sums(const cmdq_matmul *p, uint64_t first, uint64_t count, const int32_t *sums)
{
    for (uint64_t i = 0; p->values && i < count; i++)
        tv_values_integer(p->values, "sum", p->values_first + first + i, sums[i]);
}

/* Outputs j and following of row i; scaled sums until finish_rows. */
static float *output_at(const cmdq_matmul *p, uint64_t i, uint64_t j) { return p->out + i * p->n + j; }

/* Scales `count` exact sums of row i from output j on. */
static void scale_exact(const cmdq_matmul *p, uint64_t i, uint64_t j, uint64_t count, const int32_t *exact)
{
    cmdq_append_sums(p, i * p->n + j, count, exact);
    tv_elements_dequantize(exact, count, p->scale_ifm, p->scales ? p->scales + j : NULL, p->scale_wgt,
                           output_at(p, i, j));
}

static void scale_sums(const cmdq_matmul *p, uint64_t i, uint64_t j, uint64_t count)
{
    float *y = output_at(p, i, j);
    for (uint64_t u = 0; u < count; u++)
        y[u] = y[u] * p->scale_ifm * (p->scales ? p->scales[j + u] : p->scale_wgt);
}

static bool needs_finish(const cmdq_matmul *p) { return p->bias || p->addend || p->scale_ofm != 1; }

/* `count` scaled sums of row i, from output j on, become outputs: bias, addend, output scale. */
static void finish_outputs(const cmdq_matmul *p, uint64_t i, uint64_t j, uint64_t count, float *sums)
{
    if (needs_finish(p))
        tv_elements_epilogue(sums, count, p->bias ? p->bias + j : NULL, p->addend ? p->addend + i * p->n + j : NULL,
                             p->scale_ofm, sums);
}

/* Of whole rows. */
static void finish_rows(void *product, uint64_t from, uint64_t to)
{
    const cmdq_matmul *p = product;
    for (uint64_t i = from; i < to; i++)
        finish_outputs(p, i, 0, p->n, output_at(p, i, 0));
}

/* The same sums become `elements`. */
static void pack_outputs(const cmdq_matmul *p, uint64_t i, uint64_t j, uint64_t count, float *sums)
{
    finish_outputs(p, i, j, count, sums);
    tv_elements_pack(sums, count, p->element_bits, p->elements + (i * p->n + j) * p->element_bits / 8);
}

/* ---- Panels ---- */

static tv_gemm_panel_weights panel_weights(const cmdq_matmul *p)
{
    return (tv_gemm_panel_weights){.rows = p->b8, .bits = p->weight_bits, .k = p->k, .stride = p->stride};
}

static void multiply_panels(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    const tv_gemm_panel_weights w = panel_weights(p);
    int32_t exact[TV_PANEL_M_MAX * TV_PANEL_PAIR];
    for (uint64_t i = 0; i < p->m; i += TV_PANEL_M_MAX)
        for (uint64_t j = from; j < to; j += TV_PANEL_PAIR) {
            uint64_t rows = tv_min_u64(p->m - i, TV_PANEL_M_MAX), count = tv_min_u64(p->n - j, TV_PANEL_PAIR);
            tv_gemm_panel(p->level)->multiply(&w, j, count, p->packed + tv_gemm_panel_packed_bytes(i, p->k),
                                              p->packed_sums + i, rows, exact);
            for (uint64_t r = 0; r < rows; r++)
                scale_exact(p, i + r, j, count, exact + r * TV_PANEL_PAIR);
        }
}

/* Outputs of one call of the kernel, which adds to `old`, or not if it is NULL. */
static void multiply_panel_pair(const cmdq_matmul *p, uint64_t i, uint64_t j, const float *old, float *out,
                                uint64_t step)
{
    const tv_gemm_panel_weights w = panel_weights(p);
    tv_gemm_panel(p->level)->multiply_grouped(
        &w, j, tv_min_u64(p->n - j, TV_PANEL_PAIR), p->packed + tv_gemm_panel_packed_bytes(i, p->k),
        p->packed_sums + i * (p->k / TV_GROUP_SIZE), tv_min_u64(p->m - i, TV_PANEL_GROUPED_M_MAX), p->scales,
        p->scale_stride, p->scale_ifm, old, out, step);
}

static void multiply_and_pack_panel_pair(const cmdq_matmul *p, uint64_t i, uint64_t j)
{
    float sums[TV_PANEL_GROUPED_M_MAX * TV_PANEL_PAIR];
    if (p->element_bits == 32 && !p->bias && p->scale_ofm == 1) {
        float *out = (float *)(void *)p->elements + i * p->n + j;
        multiply_panel_pair(p, i, j, p->addend ? p->addend + i * p->n + j : NULL, out, p->n);
        return;
    }
    multiply_panel_pair(p, i, j, NULL, sums, TV_PANEL_PAIR);
    for (uint64_t r = 0; r < tv_min_u64(p->m - i, TV_PANEL_GROUPED_M_MAX); r++)
        pack_outputs(p, i + r, j, tv_min_u64(p->n - j, TV_PANEL_PAIR), sums + r * TV_PANEL_PAIR);
}

static void multiply_panel_groups(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    for (uint64_t i = 0; i < p->m; i += TV_PANEL_GROUPED_M_MAX)
        for (uint64_t j = from; j < to; j += TV_PANEL_PAIR)
            if (p->elements)
                multiply_and_pack_panel_pair(p, i, j);
            else
                multiply_panel_pair(p, i, j, NULL, output_at(p, i, j), p->n);
}

/* ---- Weight rows ---- */

/* Groups of 32, one row of activations at a time. */
static void multiply_vectors(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    enum { ROWS_MAX = 64 };
    const uint64_t row_bytes = p->k * p->weight_bits / 8;
    float sums[ROWS_MAX];
    for (uint64_t j = from; j < to; j += ROWS_MAX) {
        const uint64_t rows = tv_min_u64(to - j, ROWS_MAX);
        for (uint64_t i = 0; i < p->m; i++) {
            tv_gemv_grouped(p->level, p->weight_bits)(
                (const uint8_t *)p->b8 + j * row_bytes, p->k, rows, p->packed + i * tv_gemv_grouped_packed_bytes(p->k),
                p->packed_sums + i * vector_sums(p->k), p->scale_ifm, p->scales + j * (p->k / TV_GROUP_SIZE),
                p->elements ? sums : output_at(p, i, j));
            if (p->elements)
                pack_outputs(p, i, j, rows, sums);
        }
    }
}

/* INT8 by INT8 in tiles of OUTPUT_BLOCK weight rows by ROW_BLOCK activation rows. */
static void multiply_bytes(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    int32_t exact[OUTPUT_BLOCK * ROW_BLOCK], row[OUTPUT_BLOCK];
    for (uint64_t j = from; j < to; j += OUTPUT_BLOCK)
        for (uint64_t i = 0; i < p->m; i += ROW_BLOCK) {
            uint64_t rows = tv_min_u64(p->m - i, ROW_BLOCK), count = tv_min_u64(to - j, OUTPUT_BLOCK);
            tv_gemm_s8s8(p->level)((const int8_t *)p->b8 + j * p->k, p->k, count, p->a8 + i * p->k, p->packed_sums + i,
                                   rows, exact);
            for (uint64_t r = 0; r < rows; r++) {
                for (uint64_t u = 0; u < count; u++)
                    row[u] = exact[u * rows + r];
                scale_exact(p, i + r, j, count, row);
            }
        }
}

/* `count` dot products of `length` elements, from element `first` of activation row i and weight row j on; each starts
 * a_step and b_step elements after the one before. length <= CMDQ_EXACT_LENGTH_MAX, count <= GROUP_BLOCK. */
static void dot_products(const cmdq_matmul *p, uint64_t i, uint64_t j, uint64_t first, uint64_t a_step, uint64_t b_step,
                         uint64_t length, uint64_t count, float *out)
{
    int32_t exact[GROUP_BLOCK];
    const int8_t *b = (const int8_t *)p->b8 + j * p->k + first;
    if (!p->a8) {
        tv_dots_f32_s8(p->level)(p->a + i * p->k + first, a_step, b, b_step, length, count, out);
        return;
    }
    tv_dots_s8(p->level)(p->a8 + i * p->k + first, a_step, b, b_step, length, count, exact);
    for (uint64_t u = 0; u < count; u++)
        out[u] = (float)exact[u];
}

static void multiply_rows(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    for (uint64_t j = from; j < to; j += OUTPUT_BLOCK) {
        uint64_t count = tv_min_u64(to - j, OUTPUT_BLOCK);
        for (uint64_t i = 0; i < p->m; i++) {
            dot_products(p, i, j, 0, 0, p->k, p->k, count, output_at(p, i, j));
            scale_sums(p, i, j, count);
        }
    }
}

/* Rows of activations, WEIGHTED_ROWS at a time. */
static void multiply_transposed(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    float widened[WEIGHTED_ROWS * CMDQ_WIDENED_MAX];
    for (uint64_t i = from; i < to; i += WEIGHTED_ROWS) {
        const uint64_t rows = tv_min_u64(to - i, WEIGHTED_ROWS);
        const float *a = p->a16 ? widened : p->a + i * p->k;
        if (p->a16)
            tv_elements_from_f16(p->a16 + i * p->k * 2, rows * p->k, widened);
        if (p->b8)
            tv_weighted_sum_s8(p->level)(a, rows, p->k, p->b8, p->n, p->n, output_at(p, i, 0));
        else
            tv_weighted_sum_f32(p->level)(a, rows, p->k, p->b, p->n, p->n, output_at(p, i, 0));
        for (uint64_t r = i; r < i + rows; r++)
            scale_sums(p, r, 0, p->n);
    }
}

static void add_groups(const cmdq_matmul *p, uint64_t i, uint64_t rows, uint64_t j, tv_sum8 *partial)
{
    uint64_t groups = p->k / p->group;
    float sums[GROUP_BLOCK];
    for (uint64_t g = 0; g < groups; g += GROUP_BLOCK) {
        uint64_t count = tv_min_u64(groups - g, GROUP_BLOCK);
        for (uint64_t r = 0; r < rows; r++) {
            dot_products(p, i + r, j, g * p->group, p->group, p->group, p->group, count, sums);
            tv_add_scaled(partial[r].partial, sums, p->scale_ifm, p->scales + j * groups + g, count);
        }
    }
}

static void multiply_groups(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    for (uint64_t i = 0; i < p->m; i += ROW_BLOCK)
        for (uint64_t j = from; j < to; j++) {
            uint64_t rows = tv_min_u64(p->m - i, ROW_BLOCK);
            tv_sum8 partial[ROW_BLOCK] = {{{0}}};
            add_groups(p, i, rows, j, partial);
            for (uint64_t r = 0; r < rows; r++)
                *output_at(p, i + r, j) = tv_sum8_total(&partial[r]);
        }
}

/* ---- Scalar ---- */

static float scalar_dot(const cmdq_matmul *p, uint64_t i, uint64_t j, uint64_t g)
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

static void multiply_scalar(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    for (uint64_t j = from; j < to; j++)
        for (uint64_t i = 0; i < p->m; i++) {
            tv_sum8 sum = {{0}};
            for (uint64_t g = 0; g < p->k / p->group && p->grouped; g++)
                tv_sum8_add(&sum, g, scalar_dot(p, i, j, g));
            *output_at(p, i, j) = p->grouped ? tv_sum8_total(&sum) : scalar_dot(p, i, j, 0);
        }
}

/* ---- Variants ---- */

typedef struct variant_info {
    /* Computes columns of outputs, or rows of them if `by_rows`, from number `from` up to `to`. */
    void (*multiply)(const cmdq_matmul *p, uint64_t from, uint64_t to);
    bool by_rows;
    uint8_t task;                                   /* how many of them a task has */
    uint64_t (*packed_bytes)(const cmdq_matmul *p); /* NULL: none */
    uint64_t (*sums_count)(const cmdq_matmul *p);   /* NULL: none */
    void (*pack)(const cmdq_matmul *p, int8_t *packed, int32_t *sums);
    bool takes_packed_s4, takes_strided_rows, takes_transposed, packs_outputs;
} variant_info;

static const variant_info variants[] = {
    [CMDQ_VARIANT_SCALAR] = {.multiply = multiply_scalar, .task = OUTPUT_BLOCK},
    [CMDQ_VARIANT_ROWS] = {.multiply = multiply_rows, .task = OUTPUT_BLOCK},
    [CMDQ_VARIANT_BYTES] = {.multiply = multiply_bytes,
                            .task = OUTPUT_BLOCK,
                            .sums_count = bytes_sums_count,
                            .pack = sum_bytes},
    [CMDQ_VARIANT_GROUPS] = {.multiply = multiply_groups, .task = OUTPUT_BLOCK},
    [CMDQ_VARIANT_VECTORS] = {.multiply = multiply_vectors,
                              .task = VECTOR_TASK,
                              .packed_bytes = vectors_packed_bytes,
                              .sums_count = vectors_sums_count,
                              .pack = pack_vectors,
                              .takes_packed_s4 = true,
                              .packs_outputs = true},
    [CMDQ_VARIANT_PANELS] = {.multiply = multiply_panels,
                             .task = TV_PANEL_PAIR,
                             .packed_bytes = panels_packed_bytes,
                             .sums_count = panels_sums_count,
                             .pack = pack_panels,
                             .takes_packed_s4 = true,
                             .takes_strided_rows = true},
    [CMDQ_VARIANT_PANEL_GROUPS] = {.multiply = multiply_panel_groups,
                                   .task = TV_PANEL_PAIR,
                                   .packed_bytes = panels_packed_bytes,
                                   .sums_count = panel_groups_sums_count,
                                   .pack = pack_panel_groups,
                                   .takes_packed_s4 = true,
                                   .takes_strided_rows = true,
                                   .packs_outputs = true},
    [CMDQ_VARIANT_WEIGHTED_SUM] = {.multiply = multiply_transposed,
                                   .by_rows = true,
                                   .task = WEIGHTED_ROWS / 2,
                                   .takes_transposed = true},
};
_Static_assert(TV_COUNTOF(variants) == CMDQ_VARIANTS, "a row for each variant");

bool cmdq_takes_transposed(cmdq_variant variant) { return variants[variant].takes_transposed; }

bool cmdq_takes_packed_s4(const cmdq_matmul *p, cmdq_variant variant)
{
    return p->k % 2 == 0 && variants[variant].takes_packed_s4;
}

bool cmdq_takes_strided_rows(cmdq_variant variant) { return variants[variant].takes_strided_rows; }

bool cmdq_packs_outputs(cmdq_variant variant) { return variants[variant].packs_outputs; }

uint64_t cmdq_packed_bytes(const cmdq_matmul *p)
{
    const variant_info *v = &variants[p->variant];
    return v->packed_bytes ? v->packed_bytes(p) : 0;
}

uint64_t cmdq_packed_sums_count(const cmdq_matmul *p)
{
    const variant_info *v = &variants[p->variant];
    return v->sums_count ? v->sums_count(p) : 0;
}

void cmdq_pack_activations(const cmdq_matmul *p, int8_t *packed, int32_t *sums)
{
    variants[p->variant].pack(p, packed, sums);
}

/* Columns or rows of the outputs. */
static uint64_t extent(const cmdq_matmul *p) { return variants[p->variant].by_rows ? p->m : p->n; }

uint64_t cmdq_product_tasks(const cmdq_matmul *p) { return tv_ceil_div(extent(p), variants[p->variant].task); }

uint64_t cmdq_task_column(const cmdq_matmul *p, uint64_t task)
{
    return tv_min_u64(task * variants[p->variant].task, p->n);
}

void cmdq_multiply_tasks(const cmdq_matmul *p, uint64_t from, uint64_t to)
{
    const variant_info *v = &variants[p->variant];
    v->multiply(p, from * v->task, tv_min_u64(to * v->task, extent(p)));
}

static void multiply_tasks(void *product, uint64_t from, uint64_t to) { cmdq_multiply_tasks(product, from, to); }

void cmdq_multiply(const cmdq_matmul *p, tv_pool *pool)
{
    enum { PARALLEL_MACS_MIN = 1 << 18 }; /* smaller products are done before other threads have joined */
    void *product = (void *)(uintptr_t)p;
    if (p->values || p->m * p->n * p->k < PARALLEL_MACS_MIN)
        pool = NULL;
    tv_pool_run_tasks(pool, cmdq_product_tasks(p), cmdq_product_work(p), multiply_tasks, product);
    if (!p->elements && needs_finish(p))
        tv_pool_run(pool, p->m, finish_rows, product);
}
