/* SPDX-License-Identifier: Apache-2.0 */
/* Opens language models, and describes them as text and as JSON. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "llm/state.h"

/* ---- Models ---- */

void tv_llm_free(tv_llm *llm)
{
    if (!llm)
        return;
    tv_tokenizer_free(llm->tokenizer);
    tv_model_free(llm->model);
    free(llm);
}

tv_status tv_llm_open(const char *path, const tv_diag_sink *sink, tv_llm **out)
{
    return tv_llm_open_context(path, 0, sink, out);
}

tv_status tv_llm_open_context(const char *path, uint32_t context, const tv_diag_sink *sink, tv_llm **out)
{
    tv_llm *llm = calloc(1, sizeof *llm);
    if (!llm)
        return tv_fail_memory(sink);
    tv_status status = tv_model_open(path, context, sink, &llm->model);
    if (status == TV_OK && llm->model->gguf)
        status = tv_tokenizer_new(llm->model->gguf, sink, &llm->tokenizer);
    if (status != TV_OK) {
        tv_llm_free(llm);
        return status;
    }
    *out = llm;
    return TV_OK;
}
uint32_t tv_llm_context(const tv_llm *llm) { return llm->model->dims.context; }

/* ---- Descriptions ---- */

/* Prints a name of the file, made safe and padded to `width` columns. */
static void print_name(FILE *out, tv_sv name, size_t width)
{
    size_t columns = tv_text_columns(name.ptr, name.len);
    tv_text_print(out, name.ptr, name.len, TV_TEXT_KEEP_TABS);
    fprintf(out, "%*s", columns < width ? (int)(width - columns) : 0, "");
}

void tv_llm_print_info(const tv_llm *llm, FILE *out)
{
    const tv_gguf *gguf = llm->model->gguf;
    const tv_model_dims *s = &llm->model->dims;
    fprintf(out,
            "%s: %u dimensions, %u hidden, %u layers, %u heads (%u of the cache), vocabulary of %u, context of %u\n",
            llm->model->family, s->dim, s->hidden, s->layers, s->heads, s->kv_heads, s->vocab, s->context);
    if (!gguf) {
        fprintf(out, "%" PRIu64 " parameters\n", llm->model->parameters);
        return;
    }
    const tv_gguf_meta *meta;
    const tv_gguf_tensor *tensor;
    fprintf(out, "%" PRIu64 " parameters in %" PRIu64 " tensors\n\n", llm->model->parameters,
            tv_gguf_tensor_count(gguf));
    for (uint64_t i = 0; (meta = tv_gguf_meta_at(gguf, i)); i++) {
        char storage[TV_GGUF_META_TEXT(80)];
        tv_buf text = TV_BUF_FIXED(storage);
        tv_gguf_meta_print(meta, 80, &text);
        print_name(out, meta->key, 44);
        fputc(' ', out);
        tv_text_print(out, (const char *)text.data, text.len, TV_TEXT_KEEP_NONE);
        fputc('\n', out);
        tv_buf_fini(&text);
    }
    fputc('\n', out);
    for (uint64_t i = 0; (tensor = tv_gguf_tensor_at(gguf, i)); i++) {
        const char *type = tv_gguf_type_name(tensor->type);
        print_name(out, tensor->name, 28);
        fprintf(out, " %-6s", type ? type : "?");
        for (unsigned d = 0; d < tensor->dim_count; d++)
            fprintf(out, "%s%" PRIu64, d ? " x " : " ", tensor->dims[d]);
        fputc('\n', out);
    }
}

static void write_dims(const tv_model_dims *s, tv_json_writer *w)
{
    tv_json_key(w, "dims");
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "dim", s->dim);
    tv_json_unsigned_member(w, "hidden", s->hidden);
    tv_json_unsigned_member(w, "layers", s->layers);
    tv_json_unsigned_member(w, "heads", s->heads);
    tv_json_unsigned_member(w, "kv_heads", s->kv_heads);
    tv_json_unsigned_member(w, "vocab", s->vocab);
    tv_json_unsigned_member(w, "context", s->context);
    tv_json_end_object(w);
}

/* The text of strings is cut as in tv_llm_print_info. */
static void write_metadata(const tv_gguf *gguf, tv_json_writer *w)
{
    const tv_gguf_meta *meta;
    tv_json_key(w, "metadata");
    tv_json_begin_array(w);
    for (uint64_t i = 0; gguf && (meta = tv_gguf_meta_at(gguf, i)); i++) {
        char storage[TV_GGUF_META_TEXT(80)];
        tv_buf text = TV_BUF_FIXED(storage);
        tv_json_begin_object(w);
        tv_json_key(w, "key");
        tv_json_write_text(w, meta->key);
        tv_gguf_meta_print(meta, 80, &text);
        tv_json_string_member(w, "text", tv_buf_cstr(&text));
        tv_json_end_object(w);
        tv_buf_fini(&text);
    }
    tv_json_end_array(w);
}

static void write_tensor(const tv_gguf_tensor *tensor, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_key(w, "name");
    tv_json_write_text(w, tensor->name);
    tv_json_string_member(w, "type", tv_gguf_type_name(tensor->type));
    tv_json_key(w, "dims");
    tv_json_begin_array(w);
    for (unsigned d = 0; d < tensor->dim_count; d++)
        tv_json_write_unsigned(w, tensor->dims[d]);
    tv_json_end_array(w);
    tv_json_end_object(w);
}

void tv_llm_write_info(const tv_llm *llm, tv_json_writer *w)
{
    const tv_gguf *gguf = llm->model->gguf;
    const tv_gguf_tensor *tensor;
    tv_json_begin_object(w);
    tv_json_string_member(w, "architecture", llm->model->family);
    write_dims(&llm->model->dims, w);
    tv_json_unsigned_member(w, "parameters", llm->model->parameters);
    write_metadata(gguf, w);
    tv_json_key(w, "tensors");
    tv_json_begin_array(w);
    for (uint64_t i = 0; gguf && (tensor = tv_gguf_tensor_at(gguf, i)); i++)
        write_tensor(tensor, w);
    tv_json_end_array(w);
    tv_json_end_object(w);
}

tv_status tv_llm_print_graph(const tv_llm *llm, FILE *out, const tv_diag_sink *sink)
{
    tv_buf text = {0};
    tv_graph_print(llm->model->graph, &text);
    bool failed = text.failed;
    tv_text_print(out, (const char *)text.data, text.len, TV_TEXT_KEEP_LINES);
    tv_buf_fini(&text);
    return failed ? tv_fail_memory(sink) : TV_OK;
}
