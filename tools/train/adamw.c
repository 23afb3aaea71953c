/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW (Loshchilov and Hutter, 2019): Adam with decoupled weight decay. */
#include "train.h"

#include <math.h>

static float l2_norm(const float *g, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    return (float)sqrt(sum);
}

float adamw_step(const struct adamw *a, const struct config *c, size_t step, float *w, const float *g, float *m,
                 float *v)
{
    struct layout s;
    param_layout(c, &s);
    float norm = l2_norm(g, s.total), clip_scale = a->clip > 0.0f && norm > a->clip ? a->clip / norm : 1.0f;
    float correction1 = 1.0f / (1.0f - powf(a->beta1, (float)step)),
          correction2 = 1.0f / (1.0f - powf(a->beta2, (float)step));
    for (int t = 0; t < TENSORS; t++) {
        size_t end = t + 1 < TENSORS ? s.at[t + 1] : s.total;
        float decay = t == NORM_ATT || t == NORM_FFN || t == NORM_LAST ? 1.0f : 1.0f - a->rate * a->decay;
        for (size_t i = s.at[t]; i < end; i++) {
            float d = g[i] * clip_scale;
            m[i] = a->beta1 * m[i] + (1.0f - a->beta1) * d;
            v[i] = a->beta2 * v[i] + (1.0f - a->beta2) * d * d;
            w[i] = w[i] * decay - a->rate * m[i] * correction1 / (sqrtf(v[i] * correction2) + 1e-8f);
        }
    }
    return norm;
}
