/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and language models on a host whose memory or files fail at one call.
 *
 *     test_model_failures SOURCE_TREE [WORD] */
#include "scenario.h"

#include <unistd.h>

#include "failures.h"
#include "graph/passes.h"
#include "random_model.h"

extern const tv_backend tv_backend_opennpu;

static char model_path[] = "/tmp/trivet-model-XXXXXX";

/* ---- Graphs ---- */

static tv_status build_graph(scene *s, tv_graph **out)
{
    static float numbers[64];
    tv_graph_builder b;
    for (unsigned i = 0; i < 64; i++)
        numbers[i] = (float)(i % 7) / 8;
    tv_graph_begin(&b, 1, 16, &s->sink);
    tv_matrix m = {.values = numbers, .rows = 4, .columns = 4, .count = 1}, v = m;
    v.rows = 1;
    uint32_t w = tv_graph_constant(&b, "w", &m), gains = tv_graph_constant(&b, "gains", &v);
    uint32_t x = tv_graph_add2(&b, TV_OP_GATHER, "x", w, tv_graph_tokens(&b));
    b.block = 0;
    for (unsigned i = 0; i < 20; i++) /* the arrays grow */
        x = tv_graph_add2(&b, TV_OP_ADD, "sum", x, tv_graph_add2(&b, TV_OP_GEMM, "y", x, w));
    tv_graph_add_cache(&b, (tv_graph_cache){.heads = 2, .key_dim = 2, .value_dim = 2});
    uint32_t a = tv_graph_add(&b, TV_OP_ATTENTION, "a", (uint32_t[]){x, x, x}, 3,
                              &(tv_graph_attrs){.heads = 2, .scale = tv_graph_scalar(&b, "one", 1) ? 0.5F : 1});
    uint32_t n = tv_graph_add2(&b, TV_OP_RMS_NORMALIZATION, "n", a, gains);
    tv_graph_end_layer(&b, n);
    b.block = TV_BLOCK_OUTPUT;
    return tv_graph_finish(&b, tv_graph_add2(&b, TV_OP_GEMM, "logits", n, w), out);
}

static tv_status measure_graph(scene *s, const tv_graph *graph)
{
    static const int32_t tokens[] = {0, 1, 2};
    tv_buf text = {0};
    float *ranges;
    uint32_t *last = tv_graph_last_uses(graph, true);
    TRY(report_quiet(s, last ? TV_OK : TV_ERR_MEMORY));
    tv_buffer_life lives[] = {{.bytes = 8, .last = last[1] % 8}, {.bytes = 8, .last = 3}};
    free(last);
    uint64_t bytes = tv_buffers_allocate(lives, 2, 4);
    TRY(report_quiet(s, bytes == UINT64_MAX ? TV_ERR_MEMORY : TV_OK));
    add_number(s, bytes);
    TRY(tv_graph_ranges(graph, &(tv_backend_options){.sample = tokens, .sample_count = 3, .threads = 1}, &s->sink,
                        &ranges));
    for (size_t i = 0; i < graph->values.count; i++)
        add_number(s, (uint64_t)(ranges[i] * 1000));
    free(ranges);
    tv_graph_print(graph, &text);
    const char *printed = tv_buf_cstr_or_null(&text);
    add_text(s, printed);
    tv_status status = report_quiet(s, printed ? TV_OK : TV_ERR_MEMORY);
    tv_buf_fini(&text);
    return status;
}

static tv_status graph(scene *s)
{
    tv_graph *graph;
    TRY(build_graph(s, &graph));
    tv_status status = tv_graph_fuse(graph, &s->sink);
    if (status == TV_OK)
        status = measure_graph(s, graph);
    tv_graph_free(graph);
    return status;
}

/* ---- Lowerings ---- */

static uint32_t slice_of(tv_graph_builder *b, uint32_t x)
{
    return tv_graph_add(b, TV_OP_SLICE, "slice", &x, 1, &(tv_graph_attrs){.start = 2, .end = 6});
}

/* Experts, and a node of the host. */
static tv_status build_experts(scene *s, tv_graph **out)
{
    static float numbers[512];
    tv_graph_builder b;
    for (unsigned i = 0; i < 512; i++)
        numbers[i] = (float)(i % 13) / 8 - 0.5F;
    tv_graph_begin(&b, 1, 16, &s->sink);
    tv_matrix m = {.values = numbers, .rows = 8, .columns = 8, .count = 1}, v = m, stack = m;
    v.rows = 1;
    stack.count = 4;
    uint32_t w = tv_graph_constant(&b, "w", &m), row = tv_graph_constant(&b, "row", &v),
             experts = tv_graph_constant(&b, "experts", &stack);
    uint32_t x = tv_graph_add2(&b, TV_OP_GATHER, "x", w, tv_graph_tokens(&b));
    b.block = 0;
    x = tv_graph_add(&b, TV_OP_LAYER_NORMALIZATION, "n", (uint32_t[]){x, row, row}, 3,
                     &(tv_graph_attrs){.epsilon = 1e-5F});
    x = tv_graph_add(&b, TV_OP_ROTARY_EMBEDDING, "r", (uint32_t[]){x, TV_NO_VALUE}, 2,
                     &(tv_graph_attrs){.heads = 2, .theta = 10, .frequency_scale = 1, .rotary_dim = 4});
    uint32_t inputs[] = {x, slice_of(&b, tv_graph_add2(&b, TV_OP_GEMM, "router", x, w)), experts, experts, experts};
    x = tv_graph_add(&b, TV_OP_MOE, "moe", inputs, 5,
                     &(tv_graph_attrs){.experts_used = 2, .normalize = true, .activation = TV_ACTIVATION_SWISH});
    tv_graph_end_layer(&b, x);
    b.block = TV_BLOCK_OUTPUT;
    return tv_graph_finish(&b, tv_graph_add2(&b, TV_OP_GEMM, "logits", x, w), out);
}

/* A batch of tokens, then a single one. */
static tv_status run_lowering(scene *s, const tv_backend *backend, const tv_graph *graph)
{
    static const int32_t tokens[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3};
    enum { COUNT = TV_COUNTOF(tokens) };
    float logits[COUNT * 8];
    void *state = NULL;
    tv_config *config;
    TRY(tv_config_new(backend->name, &s->sink, &config));
    const tv_backend_options options = {.config = config,
                                        .context = COUNT + 1,
                                        .threads = 1,
                                        .mode = TV_MODE_FULL,
                                        .allow_host_ops = true,
                                        .sample = tokens,
                                        .sample_count = COUNT};
    tv_status status = backend->create(graph, &options, &s->sink, &state);
    if (status == TV_OK)
        status = backend->step(state, tokens, COUNT, 0, false, logits, &s->sink);
    if (status == TV_OK)
        status = backend->step(state, tokens, 1, COUNT, true, logits, &s->sink);
    for (unsigned i = 0; i < 8 && status == TV_OK; i++)
        add_number(s, (uint64_t)(int64_t)(logits[i] * 1000));
    if (state)
        backend->destroy(state);
    tv_config_free(config);
    return status;
}

static tv_status lowering_opennpu(scene *s)
{
    tv_graph *graph;
    TRY(build_experts(s, &graph));
    tv_status status = tv_graph_fuse(graph, &s->sink);
    if (status == TV_OK)
        status = run_lowering(s, &tv_backend_opennpu, graph);
    tv_graph_free(graph);
    return status;
}

/* ---- Language models ---- */

static int collect(void *user, const char *bytes, size_t size)
{
    scene *s = user;
    for (size_t i = 0; i < size; i++)
        add_number(s, (uint8_t)bytes[i]);
    return 0;
}

static tv_status use_session(scene *s, tv_llm_session *session)
{
    tv_llm_sampling sampling = {sizeof sampling, 0.5F, 0.9F, 1};
    tv_llm_similarity *list;
    tv_llm_likelihood likelihood = {.size = sizeof likelihood};
    uint32_t count;
    TRY(tv_llm_generate(session, "ab", 2, &sampling, collect, s, &s->sink));
    TRY(tv_llm_verify(session, "abc", 2, &list, &count, &s->sink));
    for (uint32_t i = 0; i < count; i++)
        add_number(s, (uint64_t)(list[i].cosine * 1e6));
    free(list);
    TRY(tv_llm_eval(session, "abc", 3, 3, &likelihood, &s->sink));
    add_number(s, (uint64_t)(likelihood.nll * 1e6));
    return TV_OK;
}

/* A machine with little memory, which is quick to create. */
static tv_status small_config(scene *s, const char *target, tv_config **out)
{
    bool pccx = strcmp(target, "pccx") == 0;
    TRY(tv_config_new(target, &s->sink, out)); /* NULL on failure */
    return tv_config_load(*out,
                          in_tree(pccx                          ? "configs/pccx-kv260.ini"
                                  : strcmp(target, "cmdq") == 0 ? "configs/cmdq-mobile.ini"
                                                                : "configs/opennpu-top.ini"),
                          &s->sink);
}

static tv_status session(scene *s, const char *target, bool emits)
{
    tv_llm *llm;
    tv_config *config = NULL;
    tv_llm_session *session = NULL;
    TRY(tv_llm_open(model_path, &s->sink, &llm));
    tv_status status = strcmp(target, "host") == 0 ? TV_OK : small_config(s, target, &config);
    if (status == TV_OK)
        status = tv_llm_session_new(llm,
                                    &(tv_llm_options){.size = sizeof(tv_llm_options),
                                                      .target = target,
                                                      .config = config,
                                                      .context = 16,
                                                      .threads = 1,
                                                      .sample = "abcd",
                                                      .emit = emits ? in_folder("") : NULL,
                                                      .verify = 1},
                                    &s->sink, &session);
    if (status == TV_OK)
        status = use_session(s, session);
    tv_llm_session_free(session);
    tv_config_free(config);
    tv_llm_free(llm);
    return status;
}

static tv_status session_host(scene *s) { return session(s, "host", false); }

static tv_status session_pccx(scene *s) { return session(s, "pccx", false); }

static tv_status session_opennpu(scene *s) { return session(s, "opennpu", false); }

static tv_status session_cmdq(scene *s) { return session(s, "cmdq", false); }

static tv_status emit_pccx(scene *s) { return session(s, "pccx", true); }

static tv_status emit_opennpu(scene *s) { return session(s, "opennpu", true); }

static tv_status emit_cmdq(scene *s) { return session(s, "cmdq", true); }

static const scenario scenarios[] = {
    {"graph", graph, TV_OK},
    {"lowering_opennpu", lowering_opennpu, TV_OK},
    {"session_host", session_host, TV_OK},
    {"session_pccx", session_pccx, TV_OK},
    {"session_opennpu", session_opennpu, TV_OK},
    {"session_cmdq", session_cmdq, TV_OK},
    {"emit_pccx", emit_pccx, TV_OK},
    {"emit_opennpu", emit_opennpu, TV_OK},
    {"emit_cmdq", emit_cmdq, TV_OK},
};

int main(int argc, char **argv)
{
    const random_dims dims = {
        .dim = 32, .hidden = 32, .layers = 1, .heads = 2, .kv_heads = 1, .vocab = 272, .context = 32};
    int fd = mkstemp(model_path);
    if (fd < 0 || !random_model_write(&dims, TV_GGUF_F32, model_path))
        return 2;
    close(fd);
    int status = run_scenarios(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
    unlink(model_path);
    return status;
}
