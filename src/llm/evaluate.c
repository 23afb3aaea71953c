/* SPDX-License-Identifier: Apache-2.0 */
/* The likelihood of a text, and the comparison of a target with the host. */
#include <math.h>
#include <stdlib.h>

#include "llm/sample.h"

/* ---- Evaluation ---- */

/* Negative log-likelihood of `token`: logsumexp(logits) - logits[token]. */
static double token_nll(const float *logits, uint32_t n, int32_t token)
{
    double max = (double)logits[tv_argmax(logits, n)], sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return log(sum) + max - (double)logits[token];
}

/* Sums over the predicted tokens. The variance is that of the differences to the first nll, which keeps digits. */
typedef struct nll_sums {
    uint32_t count;
    double first, sum, squares;
} nll_sums;

static void add_nll(nll_sums *sums, double nll)
{
    sums->first = sums->count++ ? sums->first : nll;
    sums->sum += nll - sums->first;
    sums->squares += (nll - sums->first) * (nll - sums->first);
}

/* Runs one window, which starts with the BOS token if the model expects it, and adds the nll of every following token.
 */
static tv_status eval_window(tv_llm_session *s, const int32_t *ids, uint32_t count, nll_sums *sums,
                             const tv_diag_sink *sink)
{
    int32_t window[TV_EVAL_WINDOW];
    uint32_t vocab = s->llm->model->dims.vocab, offset = tv_tokenizer_adds_bos(s->llm->tokenizer);
    window[0] = tv_tokenizer_bos(s->llm->tokenizer);
    memcpy(window + offset, ids, (count - offset) * sizeof *ids);
    s->position = 0;
    s->pending = -1;
    TV_TRY(tv_llm_run_step(s, window, count, false, true, sink));
    for (uint32_t i = 0; i < count; i++)
        add_nll(sums, token_nll(s->logits + (size_t)i * vocab, vocab, ids[i + 1 - offset]));
    return TV_OK;
}

static tv_llm_likelihood likelihood(const nll_sums *sums)
{
    if (sums->count == 0)
        return (tv_llm_likelihood){.nll = (double)NAN, .nll_error = (double)NAN};
    double n = sums->count, mean = sums->sum / n, variance = (sums->squares - sums->sum * mean) / (n - 1);
    return (tv_llm_likelihood){.tokens = sums->count,
                               .nll = sums->first + mean,
                               .nll_error = sums->count < 2 ? (double)NAN
                                            : variance > 0  ? sqrt(variance / n)
                                                            : 0};
}

tv_status tv_llm_eval(tv_llm_session *s, const char *text, size_t size, uint32_t max_tokens, tv_llm_likelihood *out,
                      const tv_diag_sink *sink)
{
    int32_t *ids;
    size_t n;
    nll_sums sums = {0};
    bool stopped = false;
    if (!tv_write_sized(out, TV_SIZE_UP_TO(tv_llm_likelihood, nll_error), &(tv_llm_likelihood){0}, sizeof *out))
        return tv_fail_size(sink, "tv_llm_likelihood");
    TV_TRY(tv_llm_check_text(s, sink));
    uint32_t window = s->context < TV_EVAL_WINDOW ? s->context : TV_EVAL_WINDOW,
             spare = !tv_tokenizer_adds_bos(s->llm->tokenizer);
    unsigned flags = tv_tokenizer_adds_eos(s->llm->tokenizer) ? TV_ENCODE_EOS : 0;
    TV_TRY(tv_llm_encode(s->llm, (tv_sv){text, size}, flags, &ids, &n, sink));
    uint64_t total = n > spare ? tv_min_u64(max_tokens, n - spare) : 0;
    tv_status status = TV_OK;
    if (total == 0)
        status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "give a longer text",
                         "the text has %zu token%s; an evaluation needs at least %u", n, n == 1 ? "" : "s", spare + 1);
    if (status == TV_OK)
        stopped = tv_llm_report_progress(s, "evaluating", 0, total);
    for (size_t at = 0; sums.count < total && status == TV_OK && !stopped; at += window) {
        status = eval_window(s, ids + at, (uint32_t)tv_min_u64(window, total - sums.count), &sums, sink);
        stopped = tv_llm_report_progress(s, "evaluating", sums.count, total);
    }
    tv_llm_report_progress(s, NULL, 0, 0);
    free(ids);
    if (status != TV_OK)
        return status;
    tv_llm_likelihood result = likelihood(&sums);
    tv_write_sized(out, TV_SIZE_UP_TO(tv_llm_likelihood, nll_error), &result, sizeof result);
    return TV_OK;
}

/* ---- Comparison with the host ---- */

static void update_similarity(const float *a, const float *b, uint32_t n, tv_llm_similarity *out)
{
    double dot = 0, aa = 0, bb = 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i];
        dot += x * y;
        aa += x * x;
        bb += y * y;
        out->error = fabs(x - y) > out->error ? fabs(x - y) : out->error;
    }
    double cosine = aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : aa == bb;
    if (!(cosine >= out->cosine))
        out->cosine = isfinite(cosine) ? cosine : 0;
}

static tv_status verify_token(tv_llm_session *s, void *host, float *host_logits, int32_t token, uint32_t at,
                              tv_llm_similarity *list, const tv_diag_sink *sink)
{
    const tv_model_dims *dims = &s->llm->model->dims;
    TV_TRY(tv_llm_run_step(s, &token, 1, true, false, sink));
    TV_TRY(tv_backend_host.step(host, &token, 1, at, true, host_logits, sink));
    for (uint32_t layer = 0; layer < dims->layers; layer++) {
        uint32_t v = s->llm->model->graph->layer_outputs[layer];
        const float *mine = s->backend->value(s->state, v);
        if (mine)
            update_similarity(tv_backend_host.value(host, v), mine, dims->dim, &list[layer]);
    }
    update_similarity(host_logits, s->logits, dims->vocab, &list[dims->layers]);
    return TV_OK;
}

tv_status tv_llm_verify(tv_llm_session *s, const char *text, uint32_t max_tokens, tv_llm_similarity **list,
                        uint32_t *count, const tv_diag_sink *sink)
{
    const tv_model_dims *dims = &s->llm->model->dims;
    int32_t *ids;
    size_t n;
    void *host = NULL;
    TV_TRY(tv_llm_check_text(s, sink));
    unsigned flags = tv_tokenizer_adds_bos(s->llm->tokenizer) ? TV_ENCODE_BOS : 0;
    TV_TRY(tv_llm_encode(s->llm, tv_sv_of(text), flags, &ids, &n, sink));
    float *host_logits = malloc(dims->vocab * sizeof *host_logits);
    *count = dims->layers + 1;
    *list = calloc(*count, sizeof **list);
    tv_status status =
        host_logits && *list
            ? tv_backend_host.create(s->llm->model->graph, &(tv_backend_options){.context = s->context, .threads = 1},
                                     sink, &host)
            : tv_fail_memory(sink);
    for (uint32_t i = 0; *list && i < *count; i++)
        (*list)[i].cosine = 1;
    for (size_t i = 0; i < n && i < max_tokens && i < s->context && status == TV_OK; i++) {
        tv_llm_report_progress(s, "comparing", i, tv_min_u64(n, tv_min_u64(max_tokens, s->context)));
        status = verify_token(s, host, host_logits, ids[i], (uint32_t)i, *list, sink);
    }
    tv_llm_report_progress(s, NULL, 0, 0);
    if (host)
        tv_backend_host.destroy(host);
    free(host_logits);
    free(ids);
    if (status != TV_OK) {
        free(*list);
        *list = NULL;
    }
    return status;
}
