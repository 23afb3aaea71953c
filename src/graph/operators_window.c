/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of x[n][c][spatial axes], with one to three spatial axes. */
#include <math.h>

#include "graph/window_walk.h"
#include "kernels/dot.h"

enum { SPATIAL = TV_GRAPH_SPATIAL_MAX };

bool tv_compute_MAX_POOL(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    tv_window w = tv_window_of(r);
    for (int64_t i = 0, n = (int64_t)tv_output_elements(r); i < n; i++) {
        int64_t position[SPATIAL], plane = i / w.out_elements * w.in_elements;
        double max = -INFINITY;
        tv_window_split(i % w.out_elements, w.out, position);
        for (int64_t k = 0; k < w.kernel_elements; k++) {
            int64_t at = tv_window_input(&w, position, k);
            double value = at < 0 ? max : tv_tensor_real(&x, (uint64_t)(plane + at));
            max = isnan(value) || value > max ? value : max;
        }
        tv_tensor_set_real(&y, (uint64_t)i, max);
    }
    return true;
}

static double magnitude_power(double x, double p) { return p == 1 ? fabs(x) : p == 2 ? x * x : pow(fabs(x), p); }

bool tv_compute_LP_POOL(const tv_operator_row *r)
{
    tv_tensor x = tv_input_tensor(r, 0), y = tv_output_tensor(r);
    double p = (double)tv_attrs_of(r)->alpha;
    tv_window w = tv_window_of(r);
    for (int64_t i = 0, n = (int64_t)tv_output_elements(r); i < n; i++) {
        int64_t position[SPATIAL], plane = i / w.out_elements * w.in_elements;
        double sum = 0;
        tv_window_split(i % w.out_elements, w.out, position);
        for (int64_t k = 0; k < w.kernel_elements; k++) {
            int64_t at = tv_window_input(&w, position, k);
            sum += at < 0 ? 0 : magnitude_power(tv_tensor_real(&x, (uint64_t)(plane + at)), p);
        }
        tv_tensor_set_real(&y, (uint64_t)i, p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p));
    }
    return true;
}

/* Elements of a window that are inside of the input and its padding. */
static int64_t padded_elements(const tv_window *w, const int64_t out[SPATIAL])
{
    int64_t count = 1;
    for (unsigned i = 0; i < SPATIAL; i++) {
        int64_t inside = 0, begin = out[i] * w->stride[i] - w->pad[i];
        for (int64_t k = 0; k < w->kernel[i]; k++)
            inside += begin + k * w->dilation[i] < w->in[i] + w->pad_end[i];
        count *= inside;
    }
    return count;
}

bool tv_compute_AVERAGE_POOL(const tv_operator_row *r)
{
    tv_window w = tv_window_of(r);
    bool count_padding = tv_attrs_of(r)->mode & 1;
    for (int64_t i = 0, n = (int64_t)tv_output_elements(r); i < n; i++) {
        int64_t position[SPATIAL], plane = i / w.out_elements * w.in_elements;
        uint64_t inside = 0;
        tv_sum8 sum = {{0}};
        tv_window_split(i % w.out_elements, w.out, position);
        for (int64_t k = 0; k < w.kernel_elements; k++) {
            int64_t at = tv_window_input(&w, position, k);
            if (at >= 0)
                tv_sum8_add(&sum, inside++, tv_input_f32(r, 0)[plane + at]);
        }
        int64_t count = count_padding ? padded_elements(&w, position) : (int64_t)inside;
        tv_output_f32(r)[i] = tv_sum8_total(&sum) / (float)count;
    }
    return true;
}
