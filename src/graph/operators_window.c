/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of x[n][c][spatial axes], with one to three spatial axes. */
#include <math.h>

#include "graph/window_walk.h"
#include "kernels/dot.h"

enum { SPATIAL = TV_GRAPH_SPATIAL_MAX };

/* Operands of a pool; `window` is one output's. */
typedef struct pool {
    const tv_operator_row *r;
    tv_window w;
    tv_tensor x, y;
    void (*compute)(struct pool *p, int64_t output, const int64_t position[SPATIAL], int64_t plane);
} pool;

static void compute_outputs(void *user, uint64_t from, uint64_t to)
{
    pool p = *(const pool *)user;
    for (int64_t i = (int64_t)from; i < (int64_t)to; i++) {
        int64_t position[SPATIAL];
        tv_window_split(i % p.w.out_elements, p.w.out, position);
        p.compute(&p, i, position, i / p.w.out_elements * p.w.in_elements);
    }
}

static bool compute_pool(const tv_operator_row *r,
                         void (*compute)(pool *p, int64_t output, const int64_t position[SPATIAL], int64_t plane))
{
    pool p = {r, tv_window_of(r), tv_input_tensor(r, 0), tv_output_tensor(r), compute};
    tv_operator_share(r, tv_output_elements(r), compute_outputs, &p);
    return true;
}

static void take_max(pool *p, int64_t output, const int64_t position[SPATIAL], int64_t plane)
{
    double max = -INFINITY;
    for (tv_taps t = tv_taps_of(&p->w, position); tv_taps_next(&t);) {
        double value = tv_tensor_real(&p->x, (uint64_t)(plane + tv_taps_input(&t, &p->w)));
        max = isnan(value) || value > max ? value : max;
    }
    tv_tensor_set_real(&p->y, (uint64_t)output, max);
}

/* The index of element `at` of a plane whose first spatial axis is the innermost one. */
static int64_t index_by_columns(const tv_window *w, int64_t at)
{
    int64_t index[SPATIAL], result = 0;
    tv_window_split(at, w->in, index);
    for (unsigned i = SPATIAL; i-- > 0;)
        result = result * w->in[i] + index[i];
    return result;
}

/* The first maximum; NaN is one. */
static void find_max(pool *p, int64_t output, const int64_t position[SPATIAL], int64_t plane)
{
    int64_t best = -1;
    double max = -INFINITY;
    for (tv_taps t = tv_taps_of(&p->w, position); tv_taps_next(&t);) {
        int64_t at = tv_taps_input(&t, &p->w);
        double value = tv_tensor_real(&p->x, (uint64_t)(plane + at));
        if (best >= 0 && !(value > max) && !(isnan(value) && !isnan(max)))
            continue;
        best = at;
        max = value;
    }
    best = best >= 0 && tv_attrs_of(p->r)->mode & 4 ? index_by_columns(&p->w, best) : best;
    tv_tensor_set_integer(&p->y, (uint64_t)output, best < 0 ? -1 : plane + best);
}

static double magnitude_power(double x, double p) { return p == 1 ? fabs(x) : p == 2 ? x * x : pow(fabs(x), p); }

static void take_norm(pool *p, int64_t output, const int64_t position[SPATIAL], int64_t plane)
{
    double sum = 0, power = (double)tv_attrs_of(p->r)->alpha;
    for (tv_taps t = tv_taps_of(&p->w, position); tv_taps_next(&t);)
        sum += magnitude_power(tv_tensor_real(&p->x, (uint64_t)(plane + tv_taps_input(&t, &p->w))), power);
    tv_tensor_set_real(&p->y, (uint64_t)output, power == 1 ? sum : power == 2 ? sqrt(sum) : pow(sum, 1 / power));
}

/* Elements of a window that are inside of the input and its padding. */
static double padded_elements(const tv_window *w, const int64_t out[SPATIAL])
{
    double count = 1;
    for (unsigned i = 0; i < SPATIAL; i++) {
        int64_t rest = w->in[i] + w->pad_end[i] - (out[i] * w->stride[i] - w->pad[i]);
        int64_t inside = rest > 0 ? (rest - 1) / w->dilation[i] + 1 : 0;
        count *= (double)(inside < w->kernel[i] ? inside : w->kernel[i]);
    }
    return count;
}

static void take_mean(pool *p, int64_t output, const int64_t position[SPATIAL], int64_t plane)
{
    uint64_t inside = 0;
    tv_sum8 sum = {{0}};
    for (tv_taps t = tv_taps_of(&p->w, position); tv_taps_next(&t);)
        tv_sum8_add(&sum, inside++, tv_input_f32(p->r, 0)[plane + tv_taps_input(&t, &p->w)]);
    double count = tv_attrs_of(p->r)->mode & 1 ? padded_elements(&p->w, position) : (double)inside;
    tv_output_f32(p->r)[output] = tv_sum8_total(&sum) / (float)count;
}

bool tv_compute_MAX_POOL(const tv_operator_row *r) { return compute_pool(r, take_max); }
bool tv_compute_MAX_POOL_INDICES(const tv_operator_row *r) { return compute_pool(r, find_max); }
bool tv_compute_LP_POOL(const tv_operator_row *r) { return compute_pool(r, take_norm); }
bool tv_compute_AVERAGE_POOL(const tv_operator_row *r) { return compute_pool(r, take_mean); }
