/* SPDX-License-Identifier: Apache-2.0 */
/* Generation of text, and its timing without data: a prompt in one step, then one token per step. */
#include <inttypes.h>
#include <stdlib.h>

#include "llm/sample.h"

/* ---- Generation ---- */

typedef struct text_output {
    int (*text)(void *user, const char *bytes, size_t size);
    void *user;
    bool stopped;
} text_output;

static tv_status emit_token(const tv_llm_session *s, text_output *l, int32_t previous, int32_t token,
                            const tv_diag_sink *sink)
{
    tv_buf text = {0};
    tv_tokenizer_decode(s->llm->tokenizer, previous, token, &text);
    bool failed = text.failed;
    l->stopped = l->stopped || (text.len && l->text && l->text(l->user, (const char *)text.data, text.len) != 0);
    tv_buf_fini(&text);
    return failed ? tv_fail_memory(sink) : TV_OK;
}

tv_status tv_llm_generate(tv_llm_session *s, const char *prompt, uint32_t count, const tv_llm_sampling *sampling,
                          int (*text)(void *user, const char *bytes, size_t size), void *user, const tv_diag_sink *sink)
{
    text_output l = {text, user, false};
    int32_t *ids, previous = -1, token;
    size_t n;
    tv_llm_sampling known;
    if (!tv_read_sized(&known, sizeof known, TV_SIZE_UP_TO(tv_llm_sampling, seed), sampling))
        return tv_fail_size(sink, "tv_llm_sampling");
    uint64_t random = known.seed;
    TV_TRY(tv_llm_check_text(s, sink));
    TV_TRY(tv_llm_encode(s->llm, tv_sv_of(prompt), s->position == 0, &ids, &n, sink));
    if (n == 0 || n > s->context - s->position) {
        free(ids);
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), "use a shorter prompt",
                       "the prompt has %zu tokens; the remaining context holds 1 to %u", n, s->context - s->position);
    }
    tv_status status = tv_llm_run_step(s, ids, (uint32_t)n, true, true, sink);
    for (size_t i = 0; i < n && status == TV_OK; i++) {
        status = emit_token(s, &l, previous, ids[i], sink);
        previous = ids[i];
    }
    free(ids);
    for (uint32_t i = 0; i < count && status == TV_OK && !l.stopped; i++) {
        status = tv_sample_token(s->logits, s->llm->model->dims.vocab, &known, &random, &token, sink);
        if (status != TV_OK || tv_tokenizer_ends(s->llm->tokenizer, token))
            break;
        status = emit_token(s, &l, previous, token, sink);
        previous = token;
        if (status == TV_OK && (i + 1 == count || s->position == s->context || l.stopped))
            break;
        if (status == TV_OK)
            status = tv_llm_run_step(s, &token, 1, true, false, sink);
    }
    return status;
}

/* Rejects more tokens than the context has room for. */
static tv_status check_room(const tv_llm_session *s, uint32_t prompt, uint32_t count, const tv_diag_sink *sink)
{
    uint64_t needed = (uint64_t)prompt + count;
    uint32_t room = s->context - s->position, model = s->llm->model->dims.context;
    char hint[160];
    if (needed <= room)
        return TV_OK;
    int n = prompt > room ? snprintf(hint, sizeof hint, "a prompt of at most %u tokens fits", room)
                          : snprintf(hint, sizeof hint, "at most %u tokens after the prompt fit", room - prompt);
    if (s->context < model)
        snprintf(hint + n, sizeof hint - (size_t)n, "; the context can be up to %u, the positions of the model", model);
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), hint,
                   "a prompt of %u tokens and %u tokens after it need %" PRIu64 " positions; the context holds %u",
                   prompt, count, needed, room);
}

tv_status tv_llm_time(tv_llm_session *s, uint32_t prompt, uint32_t count, const tv_diag_sink *sink)
{
    TV_TRY(check_room(s, prompt, count, sink));
    int32_t *tokens = calloc((size_t)prompt + 1, sizeof *tokens);
    if (!tokens)
        return tv_fail_memory(sink);
    uint64_t total = (uint64_t)prompt + count;
    bool stopped = tv_llm_report_progress(s, "timing", 0, total);
    tv_status status = TV_OK;
    if (prompt && !stopped) {
        status = tv_llm_run_step(s, tokens, prompt, true, true, sink);
        stopped = tv_llm_report_progress(s, "timing", prompt, total);
    }
    for (uint32_t i = 0; i < count && status == TV_OK && !stopped; i++) {
        status = tv_llm_run_step(s, tokens, 1, true, false, sink);
        stopped = tv_llm_report_progress(s, "timing", (uint64_t)prompt + i + 1, total);
    }
    free(tokens);
    return status;
}
