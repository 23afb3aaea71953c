/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations: turns in the chat template of the model.
 *
 * The answers of earlier turns stay in the KV cache: a turn runs what ends the previous answer, the message, and what
 * begins the next answer. */
#include <stdlib.h>

#include "base/text.h"
#include "import/chat.h"
#include "llm/generate.h"

/* Reports an unusable template, with the known ones as the hint. */
static tv_status reject_template(const char *problem, const char *text, const tv_diag_sink *sink)
{
    tv_buf hint = {0};
    tv_buf_str(&hint, "known templates are ");
    tv_chat_names(&hint);
    const char *names = tv_buf_cstr_or_null(&hint);
    tv_status status = names ? tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(TOKENIZER_CHAT), names, "%s%s", problem, text)
                             : tv_fail_memory(sink);
    tv_buf_fini(&hint);
    return status;
}

tv_status tv_llm_chat_template(const tv_llm *llm, const char *requested, const char **name, const tv_diag_sink *sink)
{
    static const char key[] = "tokenizer.chat_template";
    const tv_gguf *gguf = llm->model->gguf;
    const tv_gguf_meta *meta = gguf ? tv_gguf_meta_find(gguf, key) : NULL;
    tv_sv program = gguf ? tv_gguf_string(gguf, key, tv_sv_of("")) : tv_sv_of("");
    char storage[TV_GGUF_META_TEXT(60)];
    if (requested) {
        *name = tv_chat_detect(tv_sv_of(requested));
        return *name && strcmp(*name, requested) == 0
                   ? TV_OK
                   : reject_template("an unknown chat template: ", tv_text_escape(requested, storage, 60), sink);
    }
    if (program.len == 0)
        return reject_template("the model has no chat template", "", sink);
    *name = tv_chat_detect(program);
    if (*name)
        return TV_OK;
    tv_buf text = TV_BUF_FIXED(storage);
    tv_gguf_meta_print(meta, 60, &text);
    tv_status status = reject_template("the chat template of the model is not known: ", tv_buf_cstr(&text), sink);
    tv_buf_fini(&text);
    return status;
}

static tv_status encode_message(const tv_llm *llm, const char *name, const tv_chat_message *message, int32_t **ids,
                                size_t *count, const tv_diag_sink *sink)
{
    const tv_tokenizer *tokenizer = llm->tokenizer;
    tv_buf text = {0};
    tv_chat_format(name, message, &text);
    bool has_bos =
        message->bos.len && text.len >= message->bos.len && memcmp(text.data, message->bos.ptr, message->bos.len) == 0;
    unsigned bos = !message->continues && tv_tokenizer_adds_bos(tokenizer) && !has_bos ? TV_ENCODE_BOS : 0;
    tv_status status = text.failed ? tv_fail_memory(sink)
                                   : tv_llm_encode(llm, (tv_sv){(const char *)text.data, text.len},
                                                   bos | TV_ENCODE_SPECIAL, ids, count, sink);
    tv_buf_fini(&text);
    return status;
}

/* The special token that follows an answer in the template; -1: it has none, and the tokenizer's are enough. */
static tv_status find_end(const tv_llm *llm, const char *name, tv_chat_message message, int32_t *end,
                          const tv_diag_sink *sink)
{
    int32_t *ids;
    size_t n;
    message.continues = true;
    message.user = "";
    TV_TRY(encode_message(llm, name, &message, &ids, &n, sink));
    tv_token_type type = n ? tv_tokenizer_type(llm->tokenizer, ids[0]) : TV_TOKEN_NORMAL;
    *end = type == TV_TOKEN_CONTROL || type == TV_TOKEN_USER_DEFINED ? ids[0] : -1;
    free(ids);
    return TV_OK;
}

tv_status tv_llm_answer(tv_llm_session *s, const tv_llm_message *message, const tv_llm_sampling *sampling,
                        int (*text)(void *user, const char *bytes, size_t size), void *user, const tv_diag_sink *sink)
{
    const tv_tokenizer *tokenizer = s->llm->tokenizer;
    tv_generation g = {.text = text, .user = user};
    tv_llm_message known;
    const char *name;
    int32_t *ids;
    if (!tv_read_sized(&known, sizeof known, TV_SIZE_UP_TO(tv_llm_message, count), message))
        return tv_fail_size(sink, "tv_llm_message");
    if (!tv_read_sized(&g.sampling, sizeof g.sampling, TV_SIZE_UP_TO(tv_llm_sampling, seed), sampling))
        return tv_fail_size(sink, "tv_llm_sampling");
    TV_TRY(tv_llm_check_text(s, sink));
    TV_TRY(tv_llm_chat_template(s->llm, known.chat_template, &name, sink));
    tv_chat_message own = {.continues = s->position > 0,
                           .system = known.system,
                           .user = known.text,
                           .bos = tv_tokenizer_piece(tokenizer, tv_tokenizer_bos(tokenizer)),
                           .eos = tv_tokenizer_piece(tokenizer, tv_tokenizer_eos(tokenizer))};
    g.count = known.count;
    TV_TRY(find_end(s->llm, name, own, &g.end, sink));
    TV_TRY(encode_message(s->llm, name, &own, &ids, &g.prompt_count, sink));
    g.prompt = ids;
    tv_status status = tv_llm_run_generation(s, &g, sink);
    free(ids);
    return status;
}
