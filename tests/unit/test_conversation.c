/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations: the tokens that a model runs, turn by turn, spell what the published templates render.
 *
 * A backend records the tokens of its steps, and its logits choose the tokens of a script. Each file has the program of
 * a template, its special tokens, and a token for each byte; so recorded tokens can be spelled. */
#include "llm/session.h"
#include "model_files.h"
#include "random_model.h"

enum { SPECIALS_MAX = 8, BYTES = 3 + SPECIALS_MAX, VOCABULARY = BYTES + 256, RECORD_MAX = 1024 };

typedef struct conversation {
    const char *bos, *eos, *specials[SPECIALS_MAX]; /* of the vocabulary */
    const char *program;
    const char *system, *answer; /* the scripted first answer */
    const char *end;             /* the token after it */
    const char *text;            /* of the system message, "Hello", the answer and "Who?" */
} conversation;

#define THINK "<\xEF\xBD\x9C" /* a fullwidth bar in DeepSeek's tokens */
#define BAR "\xEF\xBD\x9C"

static const conversation conversations[] = {
    {"<s>",
     "<|endoftext|>",
     {"<|im_start|>", "<|im_end|>"},
     "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
     "Be brief.",
     "Hi",
     "<|im_end|>",
     "<s><|im_start|>system\nBe "
     "brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi<|im_end|>"
     "\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"},
    {"<|begin_of_text|>",
     "<|end_of_text|>",
     {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
     "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}",
     "Be brief.",
     "Hi",
     "<|eot_id|>",
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user"
     "<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHi<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"<bos>",
     "<eos>",
     {"<start_of_turn>", "<end_of_turn>"},
     "{{ bos_token }}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}",
     "Be brief.",
     "Hi",
     "<end_of_turn>",
     "<bos><start_of_turn>user\nBe brief.\n\nHello<end_of_turn>\n<start_of_turn>model\nHi<end_of_turn>\n"
     "<start_of_turn>user\nWho?<end_of_turn>\n<start_of_turn>model\n"},
    {"<s>",
     "<|endoftext|>",
     {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"},
     "{{ bos_token }}{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}",
     NULL,
     "Hi",
     "<|end|>",
     "<s><|user|>\nHello<|end|>\n<|assistant|>\nHi<|end|>\n<|user|>\nWho?<|end|>\n<|assistant|>\n"},
    {"<s>",
     "</s>",
     {NULL},
     "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{{ bos_token + "
     "'[INST] "
     "' + content.strip() + ' [/INST]' }}{{ ' ' + content.strip() + ' ' + eos_token }}",
     "Be brief.",
     " Hi ",
     "</s>",
     "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHello [/INST] Hi </s><s>[INST] Who? [/INST]"},
    {"<s>",
     "</s>",
     {NULL},
     "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token}}",
     NULL,
     "Hi",
     "</s>",
     "<s>[INST] Hello [/INST]Hi</s>[INST] Who? [/INST]"},
    {"<s>",
     "</s>",
     {"[INST]", "[/INST]", "[AVAILABLE_TOOLS]"},
     "{{ bos_token }}{{ \"[AVAILABLE_TOOLS][\" }}{{ \"[INST]\" + message[\"content\"] + \"[/INST]\" }}",
     "Be brief.",
     "Hi",
     "</s>",
     "<s>[INST]Be brief.\n\nHello[/INST]Hi</s>[INST]Who?[/INST]"},
    {"<s>",
     "</s>",
     {NULL},
     "{{ '<|user|>\\n' + message['content'] + eos_token }}{{ '<|system|>\\n' + message['content'] + eos_token }}"
     "{{ '<|assistant|>\\n'  + message['content'] + eos_token }}{{ '<|assistant|>' }}",
     "Be brief.",
     "Hi",
     "</s>",
     "<s><|system|>\nBe brief.</s>\n<|user|>\nHello</s>\n<|assistant|>\nHi</s>\n<|user|>\nWho?</s>\n<|assistant|>\n"},
    {"<s>",
     "<|endoftext|>",
     {"[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"},
     "[gMASK]<sop>{{ '<|' + item['role'] + '|>' }}",
     "Be brief.",
     "Hi",
     "<|user|>",
     "<s>[gMASK]<sop><|system|>\nBe brief.<|user|>\nHello<|assistant|>\nHi<|user|>\nWho?<|assistant|>\n"},
    {"<s>",
     "<|END_OF_TURN_TOKEN|>",
     {"<|START_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"},
     "{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}",
     "Be brief.",
     "Hi",
     "<|END_OF_TURN_TOKEN|>",
     "<s><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>"
     "Hello<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hi<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Who?<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
    {"<s>",
     "</s>",
     {"<|end_of_turn|>"},
     "{{ 'GPT4 Correct ' + message['role'].title() + ': ' + message['content'] + '<|end_of_turn|>'}}",
     NULL,
     " Hi",
     "<|end_of_turn|>",
     "<s>GPT4 Correct User: Hello<|end_of_turn|>GPT4 Correct Assistant: Hi<|end_of_turn|>GPT4 Correct User: "
     "Who?<|end_of_turn|>GPT4 Correct Assistant:"},
    {THINK "begin>",
     THINK "end\xE2\x96\x81of\xE2\x96\x81sentence" BAR ">",
     {THINK "User" BAR ">", THINK "Assistant" BAR ">"},
     "{{'" THINK "User" BAR ">' + message['content']}}{{'" THINK "Assistant" BAR ">' + content + '" THINK
     "end\xE2\x96\x81of\xE2\x96\x81sentence" BAR ">'}}",
     NULL,
     "Hi",
     THINK "end\xE2\x96\x81of\xE2\x96\x81sentence" BAR ">",
     THINK "begin>" THINK "User" BAR ">Hello" THINK "Assistant" BAR ">Hi" THINK
           "end\xE2\x96\x81of\xE2\x96\x81sentence" BAR ">" THINK "User" BAR ">Who?" THINK "Assistant" BAR ">"},
};

/* ---- Files ---- */

/* The pieces: unknown, BOS, EOS, specials, bytes. */
static void list_pieces(const conversation *v, char texts[VOCABULARY][64], int32_t types[VOCABULARY])
{
    for (uint32_t i = 0; i < VOCABULARY; i++) {
        const char *special = i >= 3 && i < BYTES ? v->specials[i - 3] : NULL;
        types[i] = i == 0 ? TV_TOKEN_UNKNOWN : i < 3 || special ? TV_TOKEN_CONTROL : TV_TOKEN_UNUSED;
        snprintf(texts[i], 64, "unused%u", i);
        if (i < 3 || special)
            snprintf(texts[i], 64, "%s", i == 0 ? "<unk>" : i == 1 ? v->bos : i == 2 ? v->eos : special);
        if (i >= BYTES) {
            snprintf(texts[i], 64, "<0x%02X>", i - BYTES);
            types[i] = TV_TOKEN_BYTE;
        }
    }
}

static void write_vocabulary(tv_gguf_writer *w, const conversation *v)
{
    static char texts[VOCABULARY][64];
    int32_t types[VOCABULARY];
    tv_sv pieces[VOCABULARY];
    float scores[VOCABULARY] = {0};
    list_pieces(v, texts, types);
    for (uint32_t i = 0; i < VOCABULARY; i++)
        pieces[i] = tv_sv_of(texts[i]);
    tv_gguf_writer_string(w, "tokenizer.ggml.model", tv_sv_of("llama"));
    tv_gguf_writer_strings(w, "tokenizer.ggml.tokens", pieces, VOCABULARY);
    tv_gguf_writer_f32s(w, "tokenizer.ggml.scores", scores, VOCABULARY);
    tv_gguf_writer_i32s(w, "tokenizer.ggml.token_type", types, VOCABULARY);
    tv_gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
    tv_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
    tv_gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", false);
}

typedef struct file_options {
    bool no_bos, adds_eos;
    uint32_t context;
} file_options;

static tv_llm *open_model(const conversation *v, file_options options)
{
    static const char *const matrices[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                           "ffn_gate", "ffn_up", "ffn_down"};
    tv_gguf_writer *w = tv_gguf_writer_new();
    uint64_t state = 1;
    tv_llm *llm = NULL;
    tv_gguf_writer_string(w, "general.architecture", tv_sv_of("llama"));
    tv_gguf_writer_u32(w, "llama.embedding_length", 8);
    tv_gguf_writer_u32(w, "llama.feed_forward_length", 8);
    tv_gguf_writer_u32(w, "llama.block_count", 1);
    tv_gguf_writer_u32(w, "llama.attention.head_count", 1);
    tv_gguf_writer_u32(w, "llama.context_length", options.context ? options.context : RECORD_MAX);
    write_vocabulary(w, v);
    if (options.no_bos)
        tv_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", false);
    if (options.adds_eos)
        tv_gguf_writer_bool(w, "tokenizer.ggml.add_eos_token", true);
    if (v->program)
        tv_gguf_writer_string(w, "tokenizer.chat_template", tv_sv_of(v->program));
    add_random_tensor(w, "token_embd", UINT32_MAX, TV_GGUF_F32, VOCABULARY, 8, &state);
    add_random_tensor(w, "output_norm", UINT32_MAX, TV_GGUF_F32, 1, 8, &state);
    add_random_tensor(w, "attn_norm", 0, TV_GGUF_F32, 1, 8, &state);
    add_random_tensor(w, "ffn_norm", 0, TV_GGUF_F32, 1, 8, &state);
    for (size_t i = 0; i < TV_COUNTOF(matrices); i++)
        add_random_tensor(w, matrices[i], 0, TV_GGUF_F32, 8, 8, &state);
    assert_int_equal(tv_gguf_writer_save(w, "a.gguf", NULL), TV_OK);
    tv_gguf_writer_free(w);
    assert_int_equal(tv_llm_open("a.gguf", NULL, &llm), TV_OK);
    return llm;
}

/* ---- A backend that records ---- */

static struct {
    const conversation *v;
    int32_t tokens[RECORD_MAX];
    uint32_t count;
    int32_t script[64]; /* the token that follows each step */
    uint32_t scripted, next;
    bool allow_host_ops;
    tv_llm_progress progress;
} record;

static tv_status create(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                        void **state)
{
    (void)graph;
    (void)sink;
    record.allow_host_ops = options->allow_host_ops;
    record.progress = options->step_progress;
    *state = &record;
    return TV_OK;
}

static void destroy(void *state) { (void)state; }

static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    (void)state;
    (void)last_only;
    (void)sink;
    assert_int_equal(position, record.count);
    assert_true(record.count + count <= RECORD_MAX);
    memcpy(record.tokens + record.count, tokens, count * sizeof *tokens);
    record.count += count;
    assert_true(record.next < record.scripted);
    record.progress.report(record.progress.user, "half of a step", 1, 2);
    memset(logits, 0, VOCABULARY * sizeof *logits);
    logits[record.script[record.next++]] = 1;
    return TV_OK;
}

static const tv_backend backend = {.name = "record", .create = create, .destroy = destroy, .step = step};

static tv_llm_session *open_session(tv_llm *llm, const conversation *v)
{
    tv_llm_session *session = NULL;
    memset(&record, 0, sizeof record);
    record.v = v;
    assert_int_equal(
        tv_llm_session_new_on(llm, &backend, &(tv_llm_options){.size = sizeof(tv_llm_options)}, NULL, &session), TV_OK);
    return session;
}

static int32_t special_token(const conversation *v, const char *text)
{
    for (int32_t i = 0; i < SPECIALS_MAX; i++)
        if (v->specials[i] && strcmp(v->specials[i], text) == 0)
            return 3 + i;
    return strcmp(text, v->eos) == 0 ? 2 : 1;
}

static void script_text(const char *text)
{
    for (; *text; text++)
        record.script[record.scripted++] = BYTES + (uint8_t)*text;
}

static const char *spell_record(char out[4096])
{
    static char texts[VOCABULARY][64];
    int32_t types[VOCABULARY];
    char *at = out;
    list_pieces(record.v, texts, types);
    for (uint32_t i = 0; i < record.count; i++)
        if (record.tokens[i] >= BYTES) {
            *at++ = (char)(record.tokens[i] - BYTES);
            if (at - out >= 3 && memcmp(at - 3, "\xE2\x96\x81", 3) == 0) { /* a space of the tokenizer */
                at -= 2;
                at[-1] = ' ';
            }
        } else
            at += sprintf(at, "%s", texts[record.tokens[i]]);
    *at = '\0';
    return out;
}

static int collect(void *user, const char *bytes, size_t size)
{
    strncat(user, bytes, size);
    return 0;
}

static tv_status answer(tv_llm_session *session, const tv_llm_message *message, char text[256],
                        const tv_diag_sink *sink)
{
    tv_llm_message known = *message;
    known.size = sizeof known;
    text[0] = '\0';
    return tv_llm_answer(session, &known, &(tv_llm_sampling){sizeof(tv_llm_sampling), 0, 1, 1}, collect, text, sink);
}

/* ---- Tests ---- */

static void conversations_run_the_text_of_their_template(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(conversations); i++) {
        const conversation *v = &conversations[i];
        char spelled[4096], text[256];
        tv_llm *llm = open_model(v, (file_options){0});
        tv_llm_session *session = open_session(llm, v);
        script_text(v->answer);
        record.script[record.scripted++] = special_token(v, v->end);
        record.script[record.scripted++] = 2;
        assert_int_equal(
            answer(session, &(tv_llm_message){.text = "Hello", .system = v->system, .count = 20}, text, NULL), TV_OK);
        assert_string_equal(text, v->answer);
        assert_int_equal(
            answer(session, &(tv_llm_message){.text = "Who?", .system = v->system, .count = 20}, text, NULL), TV_OK);
        assert_string_equal(text, "");
        assert_string_equal(spell_record(spelled), v->text);
        tv_llm_session_free(session);
        tv_llm_free(llm);
    }
}

/* The last token of an answer that ends at its count has not been run; the next turn begins with it. */
static void an_answer_that_is_cut_is_run_whole(void **state)
{
    (void)state;
    const conversation *v = &conversations[0];
    char spelled[4096], text[256];
    tv_llm *llm = open_model(v, (file_options){.no_bos = true});
    tv_llm_session *session = open_session(llm, v);
    script_text("Hi!");
    record.script[record.scripted++] = 2;
    assert_int_equal(answer(session, &(tv_llm_message){.text = "Hello", .count = 3}, text, NULL), TV_OK);
    assert_string_equal(text, "Hi!");
    assert_int_equal(answer(session, &(tv_llm_message){.text = "Who?", .count = 3}, text, NULL), TV_OK);
    assert_string_equal(
        spell_record(spelled),
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi!<|im_end|>\n<|im_start|>user\nWho?"
        "<|im_end|>\n<|im_start|>assistant\n");
    tv_llm_session_free(session);
    tv_llm_free(llm);
}

static void a_second_prompt_continues_after_the_last_token(void **state)
{
    (void)state;
    const conversation *v = &conversations[0];
    char spelled[4096], text[256] = "";
    tv_llm_sampling sampling = {sizeof sampling, 0, 1, 1};
    tv_llm *llm = open_model(v, (file_options){.adds_eos = true});
    tv_llm_session *session = open_session(llm, v);
    script_text("bcef");
    assert_int_equal(tv_llm_generate(session, "a", 2, &sampling, collect, text, NULL), TV_OK);
    assert_int_equal(tv_llm_generate(session, "d", 2, &sampling, collect, text, NULL), TV_OK);
    assert_string_equal(text, "abcdef");
    assert_string_equal(spell_record(spelled), "<s>abcde"); /* no end token after a prompt */
    tv_llm_session_free(session);
    tv_llm_free(llm);
}

static void a_file_without_bos_has_none(void **state)
{
    (void)state;
    const conversation *v = &conversations[0];
    char spelled[4096];
    tv_llm_sampling sampling = {sizeof sampling, 0, 1, 1};
    tv_llm *llm = open_model(v, (file_options){.no_bos = true});
    for (unsigned i = 0; i < 2; i++) {
        tv_llm_session *session = open_session(llm, v);
        script_text("b");
        assert_int_equal(tv_llm_generate(session, i ? "" : "a", 1, &sampling, NULL, NULL, NULL), TV_OK);
        assert_string_equal(spell_record(spelled), i ? "<s>" : "a"); /* an empty prompt needs a first token */
        tv_llm_session_free(session);
    }
    tv_llm_free(llm);
}

static void templates_are_named_or_rejected(void **state)
{
    (void)state;
    const conversation *v = &conversations[0];
    unit_log log = {0};
    const tv_diag_sink sink = {.emit = unit_log_emit, .user = &log};
    conversation other = *v;
    const char *name = NULL;
    char text[256], spelled[4096];
    tv_llm *llm = open_model(v, (file_options){0});
    assert_int_equal(tv_llm_chat_template(llm, NULL, &name, &sink), TV_OK);
    assert_string_equal(name, "chatml");
    tv_llm_session *session = open_session(llm, v);
    script_text("b");
    assert_int_equal(
        answer(session, &(tv_llm_message){.text = "a", .chat_template = "no-such", .count = 1}, text, &sink),
        TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-L025");
    assert_non_null(strstr(log.at[0].hint, "chatml, "));
    assert_int_equal(answer(session, &(tv_llm_message){.text = "a", .chat_template = "llama2", .count = 1}, text, NULL),
                     TV_OK);
    assert_string_equal(spell_record(spelled), "<s>[INST] a [/INST]");
    tv_llm_session_free(session);
    tv_llm_free(llm);
    static const char *const programs[] = {NULL, "{{ message['content'] }}"};
    for (size_t i = 0; i < TV_COUNTOF(programs); i++) {
        other.program = programs[i];
        log.count = 0;
        llm = open_model(&other, (file_options){0});
        assert_int_equal(tv_llm_chat_template(llm, NULL, &name, &sink), TV_ERR_INPUT);
        assert_string_equal(log.at[0].code, "TV-L025");
        tv_llm_free(llm);
    }
}

static void a_message_beyond_the_context_is_rejected(void **state)
{
    (void)state;
    const conversation *v = &conversations[0];
    unit_log log = {0};
    const tv_diag_sink sink = {.emit = unit_log_emit, .user = &log};
    char text[256];
    tv_llm *llm = open_model(v, (file_options){.context = 48});
    tv_llm_session *session = open_session(llm, v);
    script_text("Hi");
    assert_int_equal(answer(session, &(tv_llm_message){.text = "Hello", .count = 2}, text, &sink), TV_OK);
    assert_int_equal(answer(session, &(tv_llm_message){.text = "Who are you?", .count = 2}, text, &sink), TV_ERR_INPUT);
    assert_string_equal(log.at[0].code, "TV-L004");
    tv_llm_session_free(session);
    tv_llm_free(llm);
}

static int note_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    char *at = (char *)user + strlen(user);
    sprintf(at, "%s %u/%u; ", what, (unsigned)done, (unsigned)total);
    return 0;
}

/* A generated token has no line: the text itself shows the progress. */
static void prompts_report_the_progress_of_their_step(void **state)
{
    (void)state;
    char lines[256] = "";
    tv_llm *llm = open_model(&conversations[0], (file_options){.no_bos = true});
    tv_llm_session *session = NULL;
    memset(&record, 0, sizeof record);
    tv_llm_options options = {.size = sizeof options, .progress = {note_progress, lines}};
    assert_int_equal(tv_llm_session_new_on(llm, &backend, &options, NULL, &session), TV_OK);
    script_text("xyz");
    assert_int_equal(
        tv_llm_generate(session, "abcd", 3, &(tv_llm_sampling){sizeof(tv_llm_sampling), 0, 1, 1}, NULL, NULL, NULL),
        TV_OK);
    assert_string_equal(lines, "running the prompt 0/4; running the prompt 2/4; ");
    tv_llm_session_free(session);
    tv_llm_free(llm);
}

static void host_operations_are_allowed_by_an_option(void **state)
{
    (void)state;
    tv_llm *llm = open_model(&conversations[0], (file_options){0});
    for (int allowed = 0; allowed < 2; allowed++) {
        tv_llm_session *session = NULL;
        tv_llm_options options = {.size = sizeof options, .allow_host_ops = allowed};
        assert_int_equal(tv_llm_session_new_on(llm, &backend, &options, NULL, &session), TV_OK);
        assert_int_equal(record.allow_host_ops, allowed);
        tv_llm_session_free(session);
    }
    tv_llm_free(llm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_run_the_text_of_their_template),
        cmocka_unit_test(an_answer_that_is_cut_is_run_whole),
        cmocka_unit_test(a_second_prompt_continues_after_the_last_token),
        cmocka_unit_test(a_file_without_bos_has_none),
        cmocka_unit_test(templates_are_named_or_rejected),
        cmocka_unit_test(a_message_beyond_the_context_is_rejected),
        cmocka_unit_test(prompts_report_the_progress_of_their_step),
        cmocka_unit_test(host_operations_are_allowed_by_an_option),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
