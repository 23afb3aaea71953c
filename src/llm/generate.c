/* SPDX-License-Identifier: Apache-2.0 */
/* Generation of text, and its timing without data: a prompt in one step, then one token per step. */
#include "llm/generate.h"

#include <inttypes.h>
#include <stdlib.h>

#include "llm/sample.h"

/* ---- Generation ---- */

/* Passes the text of a token on. Sets *stopped if the generation ends. */
static tv_status emit_token(const tv_llm_session *s, const tv_generation *g, int32_t previous, int32_t token,
                            bool *stopped, const tv_diag_sink *sink)
{
    tv_buf text = {0};
    tv_tokenizer_decode(s->llm->tokenizer, previous, token, &text);
    bool failed = text.failed;
    *stopped = *stopped || (text.len && g->text && g->text(g->user, (const char *)text.data, text.len) != 0);
    tv_buf_fini(&text);
    return failed ? tv_fail_memory(sink) : TV_OK;
}

/* Runs the pending token and the prompt in one step. */
static tv_status run_prompt(tv_llm_session *s, const tv_generation *g, const tv_diag_sink *sink)
{
    size_t pending = s->pending >= 0, n = pending + g->prompt_count;
    if (g->prompt_count == 0 || n > s->context - s->position)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), "use a shorter prompt",
                       "the prompt has %zu tokens; the remaining context holds 1 to %u", n, s->context - s->position);
    int32_t *ids = malloc(n * sizeof *ids);
    if (!ids)
        return tv_fail_memory(sink);
    ids[0] = s->pending;
    memcpy(ids + pending, g->prompt, g->prompt_count * sizeof *ids);
    tv_llm_report_progress(s, "running the prompt", 0, n);
    tv_status status = tv_llm_run_step(s, ids, (uint32_t)n, true, true, sink);
    tv_llm_report_progress(s, NULL, 0, 0);
    free(ids);
    if (status == TV_OK)
        s->pending = -1;
    return status;
}

tv_status tv_llm_run_generation(tv_llm_session *s, const tv_generation *g, const tv_diag_sink *sink)
{
    const tv_tokenizer *tokenizer = s->llm->tokenizer;
    uint64_t random = g->sampling.seed;
    bool stopped = false;
    TV_TRY(run_prompt(s, g, sink));
    int32_t previous = -1, token;
    for (size_t i = 0; i < g->prompt_count; i++) {
        if (g->echo)
            TV_TRY(emit_token(s, g, previous, g->prompt[i], &stopped, sink));
        previous = g->prompt[i];
    }
    for (uint32_t i = 0; i < g->count && !stopped; i++) {
        TV_TRY(tv_sample_token(s->logits, s->llm->model->dims.vocab, &g->sampling, &random, &token, sink));
        if (tv_tokenizer_ends(tokenizer, token) || token == g->end)
            break;
        s->pending = token;
        TV_TRY(emit_token(s, g, previous, token, &stopped, sink));
        previous = token;
        if (i + 1 == g->count || s->position == s->context || stopped)
            break;
        TV_TRY(tv_llm_run_step(s, &token, 1, true, false, sink));
        s->pending = -1;
    }
    return TV_OK;
}

/* Tokens of a prompt. One without any begins with BOS, so that there is something to continue. */
static tv_status encode_prompt(const tv_llm_session *s, const char *prompt, int32_t **ids, size_t *count,
                               const tv_diag_sink *sink)
{
    const tv_tokenizer *tokenizer = s->llm->tokenizer;
    bool starts = s->position == 0 && (prompt[0] == '\0' || tv_tokenizer_adds_bos(tokenizer));
    return tv_llm_encode(s->llm, tv_sv_of(prompt), starts ? TV_ENCODE_BOS : 0, ids, count, sink);
}

tv_status tv_llm_generate(tv_llm_session *s, const char *prompt, uint32_t count, const tv_llm_sampling *sampling,
                          int (*text)(void *user, const char *bytes, size_t size), void *user, const tv_diag_sink *sink)
{
    tv_generation g = {.echo = true, .count = count, .end = -1, .text = text, .user = user};
    int32_t *ids;
    if (!tv_read_sized(&g.sampling, sizeof g.sampling, TV_SIZE_UP_TO(tv_llm_sampling, seed), sampling))
        return tv_fail_size(sink, "tv_llm_sampling");
    TV_TRY(tv_llm_check_text(s, sink));
    TV_TRY(encode_prompt(s, prompt, &ids, &g.prompt_count, sink));
    g.prompt = ids;
    tv_status status = tv_llm_run_generation(s, &g, sink);
    free(ids);
    return status;
}

/* ---- Timing ---- */

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

tv_status tv_llm_skip(tv_llm_session *s, uint32_t count, const tv_diag_sink *sink)
{
    if (!s->timing)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), "create the session with timing_only",
                       "positions can be skipped only without data");
    TV_TRY(check_room(s, count, 0, sink));
    s->position += count;
    return TV_OK;
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
    tv_llm_report_progress(s, NULL, 0, 0);
    free(tokens);
    return status;
}
