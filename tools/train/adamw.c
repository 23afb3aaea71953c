/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW (Loshchilov and Hutter, 2019): Adam with decay apart from the gradient. */
#include "train.h"

#include <math.h>

static float length_of(const float *g, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    return (float)sqrt(sum);
}

float adamw_step(const struct adamw *a, const struct config *c, size_t step, float *w, const float *g, float *m,
                 float *v)
{
    struct shape s;
    config_shape(c, &s);
    float length = length_of(g, s.total), shorten = a->clip > 0.0f && length > a->clip ? a->clip / length : 1.0f;
    float fix1 = 1.0f / (1.0f - powf(a->beta1, (float)step)), fix2 = 1.0f / (1.0f - powf(a->beta2, (float)step));
    for (int t = 0; t < TENSORS; t++) {
        size_t end = t + 1 < TENSORS ? s.at[t + 1] : s.total;
        float keep = t == NORM_ATT || t == NORM_FFN || t == NORM_LAST ? 1.0f : 1.0f - a->rate * a->decay;
        for (size_t i = s.at[t]; i < end; i++) {
            float d = g[i] * shorten;
            m[i] = a->beta1 * m[i] + (1.0f - a->beta1) * d;
            v[i] = a->beta2 * v[i] + (1.0f - a->beta2) * d * d;
            w[i] = w[i] * keep - a->rate * m[i] * fix1 / (sqrtf(v[i] * fix2) + 1e-8f);
        }
    }
    return length;
}
