/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: texts as the models' publishers show them; the programs that stand for them. */
#include "unit.h"

#include "import/chat.h"

static const struct {
    const char *name, *system, *user, *text;
} conversations[] = {
    {"chatml", "Be brief.", "Hi",
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
    {"chatml", NULL, " Hi ", "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"},
    {"llama2-sys", "Be brief.", "Hi", "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]"},
    {"llama2", NULL, "Hi", "[INST] Hi [/INST]"},
    {"mistral-v1", NULL, "Hi", " [INST] Hi [/INST]"},
    {"mistral-v3-tekken", "Be brief.", "Hi", "[INST]Be brief.\n\nHi[/INST]"},
    {"llama3", NULL, " Hi\n",
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"gemma", " Be brief.\n", "Hi", "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"},
    {"phi3", "Be brief.", "Hi", "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n"},
    {"zephyr", "Be brief.", "Hi", "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\n"},
    {"deepseek3", NULL, "",
     "<\xEF\xBD\x9CUser\xEF\xBD\x9C><\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>"},
};

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(conversations); i++) {
        tv_buf out = {0};
        tv_chat_message message = {.system = conversations[i].system,
                                   .user = conversations[i].user,
                                   .bos = tv_sv_of("<s>"),
                                   .eos = tv_sv_of("</s>")};
        assert_true(tv_chat_format(conversations[i].name, &message, &out));
        assert_string_equal(tv_buf_cstr(&out), conversations[i].text);
        tv_buf_fini(&out);
    }
    tv_buf none = {0};
    assert_false(tv_chat_format("no-such", &(tv_chat_message){.user = "Hi"}, &none));
    assert_int_equal(none.len, 0);
}

static const struct {
    const char *program, *name;
} programs[] = {
    {"{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}",
     "chatml"},
    {"{% for m in messages %}{{'<|im_start|>' + m['role'] + '<|im_sep|>' + m['content'] + '<|im_end|>'}}{% endfor %}",
     "phi4"},
    {"{{ bos_token }}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}", "gemma"},
    {"{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' "
     "}}",
     "llama3"},
    {"{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}", "llama2"},
    {"{{ '<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n' }}", "phi3"},
    {"{{ '<|user|>\\n' + message['content'] + eos_token }}{{ '<|assistant|>' }}", "zephyr"},
    {"{{ '<|user|>\\n' + message['content'] + '\\n' }}{{ '<|assistant|>\\n' + message['content'] + eos_token }}</s>",
     "falcon3"},
    {"{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}", "llama2-sys-strip-bos"},
    {"gemma", "gemma"},
    {"bos_token + message['role'] + <start_of_turn>",
     NULL}, /* an earlier rule, of a template that is not in the table */
    {"{{ message['content'] }}", NULL},
    {"", NULL},
};

static void test_detection(void **state)
{
    (void)state;
    for (size_t i = 0; i < TV_COUNTOF(programs); i++) {
        const char *name = tv_chat_detect(tv_sv_of(programs[i].program));
        if (!programs[i].name)
            assert_null(name);
        else
            assert_string_equal(name, programs[i].name);
    }
    assert_null(tv_chat_detect((tv_sv){NULL, 0}));
}

/* Every template can be named, and every name that a program stands for is a template. */
static void test_names(void **state)
{
    (void)state;
    tv_buf names = {0}, out = {0};
    tv_chat_names(&names);
    tv_buf_cstr(&names);
    unsigned count = 0;
    for (char *name = strtok((char *)names.data, ", "); name; name = strtok(NULL, ", "), count++) {
        assert_string_equal(tv_chat_detect(tv_sv_of(name)), name);
        assert_true(tv_chat_format(name, &(tv_chat_message){.system = "s", .user = "u"}, &out));
    }
    assert_true(count > 20);
    tv_buf_fini(&names);
    tv_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_detection),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
