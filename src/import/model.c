/* SPDX-License-Identifier: Apache-2.0 */
/* Opens models of the known families: GGUF files, or a config.json, which has dimensions only. */
#include "import/model.h"

#include <stdlib.h>

#include "base/json_value.h"
#include "graph/codes.h"
#include "graph/passes.h"
#include "import/families.h"
#include "import/features.h"
#include "import/gguf.h"

static tv_status reject_family(tv_sv name, const tv_diag_sink *sink)
{
    tv_buf known = {0};
    tv_family_list(&known);
    char hint[256];
    snprintf(hint, sizeof hint, "known: %s", tv_buf_cstr(&known));
    tv_buf_fini(&known);
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(KEY), hint, "the architecture '%.*s' is not supported",
                   (int)tv_min_u64(name.len, 60), name.ptr);
}

static uint64_t count_parameters(const tv_gguf *gguf)
{
    const tv_gguf_tensor *tensor;
    uint64_t parameters = 0;
    for (uint64_t i = 0; (tensor = tv_gguf_tensor_at(gguf, i)); i++)
        parameters += tensor->elements;
    return parameters;
}

/* Builds the graph, and fuses it. */
static tv_status build_graph(tv_model *model, const tv_family_source *source, const tv_diag_sink *sink)
{
    const tv_model_params *p = source->params;
    model->family = source->family->architecture;
    model->positions = p->positions;
    model->dims = (tv_model_dims){.dim = p->dim,
                                  .hidden = p->experts ? p->expert_hidden : p->hidden,
                                  .layers = p->layers,
                                  .heads = p->heads,
                                  .kv_heads = p->kv_heads,
                                  .head_dim = p->key_length,
                                  .vocab = p->vocab,
                                  .context = p->context,
                                  .experts = p->experts,
                                  .experts_used = p->experts_used};
    TV_TRY(tv_decoder_build(source, sink, &model->graph));
    model->parameters = source->gguf ? count_parameters(source->gguf) : tv_graph_parameters(model->graph);
    return tv_graph_fuse(model->graph, sink);
}

static tv_status read_gguf(tv_model *model, const char *path, tv_model_params *params, const tv_diag_sink *sink)
{
    tv_sv architecture = tv_gguf_string(model->gguf, "general.architecture", tv_sv_of(""));
    const tv_family *family = tv_family_find(architecture);
    if (!family)
        return reject_family(architecture, sink);
    TV_TRY(tv_params_read_gguf(family, model->gguf, path, sink, params));
    bool *used = calloc(tv_gguf_tensor_count(model->gguf) + 1, sizeof *used);
    if (!used)
        return tv_fail_memory(sink);
    tv_status status = build_graph(model, &(tv_family_source){family, params, model->gguf, used}, sink);
    if (status == TV_OK)
        status = tv_features_check_tensors(model->gguf, used, path, sink);
    free(used);
    return status;
}

/* ---- config.json ---- */

/* Files of models that also see or hear have the language model in a member. */
static const tv_json_value *text_config(const tv_json_value *root)
{
    const tv_json_value *text = tv_json_get(root, "text_config");
    return tv_json_is(text, TV_JSON_OBJECT) ? text : root;
}

static tv_status read_config(tv_model *model, const char *path, const tv_json_value *root, tv_model_params *params,
                             const tv_diag_sink *sink)
{
    const tv_json_value *text = text_config(root);
    const char *type = tv_json_string(tv_json_get(text, "model_type"));
    if (!type)
        type = tv_json_string(tv_json_get(root, "model_type"));
    tv_sv name = tv_sv_of(type ? type : "llama");
    const tv_family *family = tv_family_find_type(name);
    if (!family)
        return reject_family(name, sink);
    TV_TRY(tv_params_read_config(family, text, path, sink, params));
    return build_graph(model, &(tv_family_source){family, params, NULL, NULL}, sink);
}

static tv_status read_json(tv_model *model, const char *path, const tv_input *input, tv_model_params *params,
                           const tv_diag_sink *sink)
{
    enum { DIMS_FILE_MAX = 1 << 20 };
    tv_arena arena = {0};
    tv_json_error error;
    const tv_json_value *root =
        tv_json_parse(&arena, (tv_sv){(const char *)input->data, input->size}, DIMS_FILE_MAX, &error);
    tv_status status = TV_OK;
    if (error.kind == TV_JSON_MEMORY)
        status = tv_fail_memory(sink);
    else if (!tv_json_is(root, TV_JSON_OBJECT))
        status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(FORMAT), NULL,
                         "'%s' is not an object with the sizes of a model", path);
    else
        status = read_config(model, path, root, params, sink);
    tv_arena_fini(&arena);
    return status;
}

static tv_status read_input(tv_model *model, const char *path, uint32_t context, tv_input *input,
                            const tv_diag_sink *sink)
{
    tv_model_params *params = calloc(1, sizeof *params);
    tv_status status = params ? TV_OK : tv_fail_memory(sink);
    if (params)
        params->positions = context;
    if (status == TV_OK && input->size && input->data[0] == '{') {
        status = read_json(model, path, input, params, sink);
        tv_input_close(input);
    } else {
        if (status == TV_OK)
            status = tv_gguf_read_split(path, input, sink, &model->gguf);
        if (!model->gguf)
            tv_input_close(input);
        if (status == TV_OK)
            status = read_gguf(model, path, params, sink);
    }
    free(params);
    return status;
}

tv_status tv_model_open(const char *path, uint32_t context, const tv_diag_sink *sink, tv_model **out)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    return tv_model_read(path, context, &input, sink, out);
}

tv_status tv_model_read(const char *path, uint32_t context, tv_input *input, const tv_diag_sink *sink, tv_model **out)
{
    tv_model *model = calloc(1, sizeof *model);
    if (!model) {
        tv_input_close(input);
        return tv_fail_memory(sink);
    }
    model->close = tv_gguf_free;
    tv_status status = read_input(model, path, context, input, sink);
    if (status != TV_OK) {
        tv_model_free(model);
        return status;
    }
    *out = model;
    return TV_OK;
}
