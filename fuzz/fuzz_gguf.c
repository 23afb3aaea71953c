/* SPDX-License-Identifier: Apache-2.0 */
/* Reads arbitrary bytes as a GGUF file and as a llama2.c checkpoint. If one opens, reads all of its contents; of a
 * GGUF file also builds the tokenizer. Then imports GGUF files, and JSON objects as a config.json: the graph must be
 * valid. Seeds are the headers of models (run.py): a GGUF file whose tensors are past its end is imported with zeros
 * after it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "import/llama2c.h"
#include "import/model.h"
#include "import/tokenizer.h"
#include "mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROW_MAX = 4096, ROWS = 4, ZEROS = 1 << 21, PRINTED = 8 }; /* one graph of PRINTED is printed */

static double look_at_tensors(const tv_gguf *gguf)
{
    static float row[ROW_MAX];
    double sum = 0;
    for (uint64_t i = 0; i < tv_gguf_tensor_count(gguf); i++) {
        const tv_gguf_tensor *t = tv_gguf_tensor_at(gguf, i);
        if (t->bytes > 0)
            sum += t->data[0] + t->data[t->bytes - 1];
        for (uint64_t r = 0; r < ROWS && t->dims[0] <= ROW_MAX; r++)
            if (tv_gguf_row_f32(t, r == ROWS - 1 ? t->elements / t->dims[0] - 1 : r, row) == TV_OK)
                sum += (double)row[0] + (double)row[t->dims[0] - 1];
    }
    return sum;
}

static double look_at_metadata(const tv_gguf *gguf)
{
    double sum = 0;
    for (uint64_t i = 0; i < tv_gguf_meta_count(gguf); i++) {
        const tv_gguf_meta *meta = tv_gguf_meta_at(gguf, i);
        tv_buf text = {0};
        tv_gguf_meta_print(meta, 80, &text);
        sum += (double)text.len;
        tv_buf_fini(&text);
        for (uint64_t k = 0; meta->kind == TV_GGUF_KIND_ARRAY && k < meta->list.count; k++) {
            sum += (double)tv_gguf_list_i64(&meta->list, k) + (double)tv_gguf_list_f32(&meta->list, k);
            if (meta->list.strings && meta->list.strings[k].len > 0)
                sum += meta->list.strings[k].ptr[meta->list.strings[k].len - 1];
        }
    }
    return sum + (double)tv_gguf_u64(gguf, "a", 0) + (double)tv_gguf_f32(gguf, "b", 0) + tv_gguf_bool(gguf, "c", false);
}

static void look_at_tokenizer(const tv_gguf *gguf)
{
    static const char text[] = "ab a  b\xC3\xA9 'll 12\n";
    tv_tokenizer *t;
    int32_t *ids;
    size_t count;
    if (tv_tokenizer_new(gguf, NULL, &t) != TV_OK)
        return;
    if (tv_tokenizer_encode(t, text, sizeof text - 1, true, &ids, &count) == TV_OK) {
        tv_buf buf = {0};
        for (size_t i = 0; i < count; i++)
            tv_tokenizer_decode(t, i > 0 ? ids[i - 1] : -1, ids[i], &buf);
        tv_buf_fini(&buf);
        free(ids);
    }
    tv_tokenizer_free(t);
}

static void look_at_checkpoint(const tv_llama2c *c)
{
    static float row[ROW_MAX];
    const tv_llama2c_header *s = tv_llama2c_header_of(c);
    for (unsigned tensor = 0; tensor < TV_LLAMA2C_TENSORS; tensor++) {
        uint64_t columns, rows;
        uint32_t layers;
        tv_llama2c_tensor_dims(s, tensor, &columns, &rows, &layers);
        if (layers > 0 && columns <= ROW_MAX)
            tv_llama2c_row(c, tensor, layers - 1, rows - 1, row);
    }
}

static void import_model(const uint8_t *data, size_t size, size_t zeros)
{
    tv_model *model;
    tv_input input = {.data = calloc(1, size + zeros), .size = size + zeros};
    memcpy((uint8_t *)(uintptr_t)input.data, data, size);
    if (tv_model_read("fuzz.gguf", 0, &input, NULL, &model) != TV_OK)
        return;
    if (tv_graph_verify(model->graph, NULL) != TV_OK)
        abort();
    if (tv_sv_hash((tv_sv){(const char *)data, size}) % PRINTED == 0) {
        tv_buf text = {0};
        tv_graph_print(model->graph, &text);
        tv_buf_fini(&text);
    }
    tv_model_free(model);
}

static bool is_gguf(const uint8_t *data, size_t size) { return size > 4 && memcmp(data, "GGUF", 4) == 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tv_gguf *gguf;
    tv_llama2c *checkpoint;
    bool complete = false;
    tv_input input = {.data = malloc(size ? size : 1), .size = size};
    memcpy((uint8_t *)(uintptr_t)input.data, data, size);
    if (tv_gguf_read("fuzz.gguf", &input, NULL, &gguf) == TV_OK) {
        volatile double total = look_at_tensors(gguf) + look_at_metadata(gguf);
        (void)total;
        look_at_tokenizer(gguf);
        tv_gguf_free(gguf);
        complete = true;
    } else if (tv_llama2c_read("fuzz.bin", &input, NULL, &checkpoint) == TV_OK) {
        look_at_checkpoint(checkpoint);
        tv_llama2c_free(checkpoint);
    }
    if (input.data)
        tv_input_close(&input);
    if (is_gguf(data, size))
        import_model(data, size, complete ? 0 : ZEROS);
    else if (size && data[0] == '{')
        import_model(data, size, 0);
    return 0;
}

/* The keys of a config.json. */
static const fuzz_keywords *config_keys(void)
{
    static char names[] =
#define COUNT(member, key, names, fallback, min, max) names "|"
#define REAL(member, key, names, fallback) names "|"
#include "import/params.def"
        ;
    static const char *const others[] = {"model_type",
                                         "hidden_act",
                                         "hidden_activation",
                                         "rope_scaling",
                                         "rope_type",
                                         "factor",
                                         "layer_types",
                                         "sliding_attention",
                                         "full_attention",
                                         "tie_word_embeddings",
                                         "attention_bias",
                                         "text_config",
                                         "llama",
                                         "gemma3_text",
                                         "gemma3n_text",
                                         "qwen3_moe",
                                         "silu",
                                         "gelu_pytorch_tanh"};
    static fuzz_keywords words;
    if (words.count)
        return &words;
    for (char *save = NULL, *word = strtok_r(names, "|", &save); word; word = strtok_r(NULL, "|", &save))
        fuzz_add_keyword(&words, word);
    for (size_t i = 0; i < TV_COUNTOF(others); i++)
        fuzz_add_keyword(&words, others[i]);
    return &words;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = fuzz_random_of(seed);
    if (size && data[0] == '{')
        return fuzz_mutate_json(data, size, max_size, &random, config_keys());
    return fuzz_mutate_gguf(data, size, max_size, &random);
}
