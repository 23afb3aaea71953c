/* SPDX-License-Identifier: Apache-2.0 */
#include "llm/sample.h"

#include <math.h>
#include <stdlib.h>

typedef struct candidate {
    float prob; /* relative to the most probable token */
    int32_t token;
} candidate;

/* Most probable first; ties by token. */
static int compare_candidates(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->prob > y->prob)
        return -1;
    if (x->prob < y->prob)
        return 1;
    return (x->token > y->token) - (x->token < y->token);
}

/* SplitMix64, as a number in [0, 1). */
static double random_unit(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

enum { ARGMAX_BLOCK = 32 };

/* Whether one of a block of logits is larger; vectors find out. */
static bool has_larger(const float logits[ARGMAX_BLOCK], float than)
{
    int larger = 0;
    for (unsigned i = 0; i < ARGMAX_BLOCK; i++)
        larger |= logits[i] > than;
    return larger;
}

int32_t tv_argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t from = 0; from < n; from += ARGMAX_BLOCK) {
        const uint32_t count = n - from < ARGMAX_BLOCK ? n - from : ARGMAX_BLOCK;
        if (count == ARGMAX_BLOCK && !has_larger(logits + from, logits[best]))
            continue;
        for (uint32_t i = from; i < from + count; i++)
            if (logits[i] > logits[best])
                best = i;
    }
    return (int32_t)best;
}

tv_status tv_sample_token(const float *logits, uint32_t n, const tv_llm_sampling *sampling, uint64_t *random,
                          int32_t *token, const tv_diag_sink *sink)
{
    uint32_t nucleus = 0;
    *token = tv_argmax(logits, n);
    if (!(sampling->temperature > 0))
        return TV_OK;
    candidate *list = malloc(n * sizeof *list);
    if (!list)
        return tv_fail_memory(sink);
    double sum = 0, mass = 0, max = (double)logits[*token];
    for (uint32_t i = 0; i < n; i++) {
        list[i] = (candidate){(float)exp(((double)logits[i] - max) / (double)sampling->temperature), (int32_t)i};
        sum += (double)list[i].prob;
    }
    qsort(list, n, sizeof *list, compare_candidates);
    while (nucleus < n && (nucleus == 0 || mass < (double)sampling->top_p * sum))
        mass += (double)list[nucleus++].prob;
    double at = random_unit(random) * mass;
    uint32_t i = 0;
    for (; i + 1 < nucleus && at >= (double)list[i].prob; i++)
        at -= (double)list[i].prob;
    *token = list[i].token;
    free(list);
    return TV_OK;
}
