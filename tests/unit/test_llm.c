/* SPDX-License-Identifier: Apache-2.0 */
/* The host reference and the lowerings against an independent implementation in double precision: one token at a time,
 * no graph. */
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include "graph/graph.h"
#include "import/model.h"
#include "import/tokenizer.h"
#include "llm/sample.h"
#include "llm/state.h"
#include "lower/pccx/quantize.h"
#include "lower/pccx/state.h"
#include "num/int.h"
#include "random_model.h"
#include "trivet/llm.h"
#include "unit.h"

enum { POSITIONS = 96, GENERATED = 64, TEXT = 4096 };

/* ---- Independent reference implementation ---- */

typedef struct reference {
    const tv_model *model;
    double *keys, *values; /* [layer][position][kv_heads * head_dim] */
} reference;

static double *new_row(uint32_t n)
{
    double *row = calloc(n, sizeof *row);
    assert_non_null(row);
    return row;
}

/* A tensor of a layer, or, without a format, of the model. */
static const tv_gguf_tensor *tensor_of(const reference *p, const char *format, uint32_t layer)
{
    char name[64];
    snprintf(name, sizeof name, format, layer);
    const tv_gguf_tensor *tensor = tv_gguf_tensor_find(p->model->gguf, name);
    assert_non_null(tensor);
    return tensor;
}

static void read_row(const tv_gguf_tensor *tensor, uint32_t row, double *out)
{
    static float values[1 << 16];
    assert_true(tensor->dims[0] <= 1 << 16);
    assert_int_equal(tv_gguf_row_f32(tensor, row, values), TV_OK);
    for (uint64_t i = 0; i < tensor->dims[0]; i++)
        out[i] = (double)values[i];
}

static void multiply(const tv_gguf_tensor *tensor, const double *x, double *y)
{
    double *row = new_row((uint32_t)tensor->dims[0]);
    for (uint32_t r = 0; r < tensor->dims[1]; r++) {
        read_row(tensor, r, row);
        y[r] = 0;
        for (uint64_t i = 0; i < tensor->dims[0]; i++)
            y[r] += row[i] * x[i];
    }
    free(row);
}

static void norm(const reference *p, const tv_gguf_tensor *gains, const double *x, double *y)
{
    double square = 0, epsilon = (double)tv_gguf_f32(p->model->gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    uint64_t n = gains->dims[0];
    read_row(gains, 0, y);
    for (uint64_t i = 0; i < n; i++)
        square += x[i] * x[i];
    for (uint64_t i = 0; i < n; i++)
        y[i] *= x[i] / sqrt(square / (double)n + epsilon);
}

static void rotate(const reference *p, double *x, uint32_t heads, uint32_t position)
{
    uint32_t d = p->model->dims.head_dim;
    double theta = (double)tv_gguf_f32(p->model->gguf, "llama.rope.freq_base", 10000);
    for (uint32_t i = 0; i < heads * d; i += 2) {
        double angle = position / pow(theta, (double)(i % d) / d), a = x[i], b = x[i + 1];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + 1] = a * sin(angle) + b * cos(angle);
    }
}

static void attend(const reference *p, uint32_t layer, const double *q, uint32_t position, double *out)
{
    const tv_model_dims *s = &p->model->dims;
    uint32_t d = s->head_dim, kv_columns = s->kv_heads * d;
    double prob[POSITIONS];
    for (uint32_t h = 0; h < s->heads; h++) {
        size_t base = (size_t)layer * POSITIONS * kv_columns + h / (s->heads / s->kv_heads) * d;
        double sum = 0;
        for (uint32_t t = 0; t <= position; t++) {
            prob[t] = 0;
            for (uint32_t i = 0; i < d; i++)
                prob[t] += q[h * d + i] * p->keys[base + t * kv_columns + i];
            prob[t] = exp(prob[t] / sqrt(d));
            sum += prob[t];
        }
        for (uint32_t i = 0; i < d; i++) {
            out[h * d + i] = 0;
            for (uint32_t t = 0; t <= position; t++)
                out[h * d + i] += prob[t] / sum * p->values[base + t * kv_columns + i];
        }
    }
}

static void run_layer(const reference *p, uint32_t layer, uint32_t position, double *x)
{
    const tv_model_dims *s = &p->model->dims;
    uint32_t kv_columns = s->kv_heads * s->head_dim, columns_max = s->dim > s->hidden ? s->dim : s->hidden;
    double *xn = new_row(columns_max), *a = new_row(columns_max), *b = new_row(columns_max), *c = new_row(columns_max);
    size_t at = ((size_t)layer * POSITIONS + position) * kv_columns;
    norm(p, tensor_of(p, "blk.%u.attn_norm.weight", layer), x, xn);
    multiply(tensor_of(p, "blk.%u.attn_q.weight", layer), xn, a);
    multiply(tensor_of(p, "blk.%u.attn_k.weight", layer), xn, p->keys + at);
    multiply(tensor_of(p, "blk.%u.attn_v.weight", layer), xn, p->values + at);
    rotate(p, a, s->heads, position);
    rotate(p, p->keys + at, s->kv_heads, position);
    attend(p, layer, a, position, b);
    multiply(tensor_of(p, "blk.%u.attn_output.weight", layer), b, c);
    for (uint32_t i = 0; i < s->dim; i++)
        x[i] += c[i];
    norm(p, tensor_of(p, "blk.%u.ffn_norm.weight", layer), x, xn);
    multiply(tensor_of(p, "blk.%u.ffn_gate.weight", layer), xn, a);
    multiply(tensor_of(p, "blk.%u.ffn_up.weight", layer), xn, b);
    for (uint32_t i = 0; i < s->hidden; i++)
        a[i] = a[i] / (1 + exp(-a[i])) * b[i];
    multiply(tensor_of(p, "blk.%u.ffn_down.weight", layer), a, c);
    for (uint32_t i = 0; i < s->dim; i++)
        x[i] += c[i];
    free(xn);
    free(a);
    free(b);
    free(c);
}

/* The most probable token after `token`. */
static int32_t next_token(const reference *p, int32_t token, uint32_t position)
{
    const tv_model_dims *s = &p->model->dims;
    double *x = new_row(s->dim), *xn = new_row(s->dim), *logits = new_row(s->vocab);
    int32_t best = 0;
    read_row(tensor_of(p, "token_embd.weight", 0), (uint32_t)token, x);
    for (uint32_t layer = 0; layer < s->layers; layer++)
        run_layer(p, layer, position, x);
    norm(p, tensor_of(p, "output_norm.weight", 0), x, xn);
    multiply(
        tensor_of(p, tv_gguf_tensor_find(p->model->gguf, "output.weight") ? "output.weight" : "token_embd.weight", 0),
        xn, logits);
    for (uint32_t i = 1; i < s->vocab; i++)
        best = logits[i] > logits[best] ? (int32_t)i : best;
    free(x);
    free(xn);
    free(logits);
    return best;
}

static void reference_text(const char *path, const char *prompt, char text[TEXT])
{
    tv_model *model;
    tv_tokenizer *tokenizer;
    int32_t *ids, token = 0, previous = -1;
    size_t n;
    tv_buf out = {0};
    assert_int_equal(tv_model_open(path, 0, NULL, &model), TV_OK);
    assert_int_equal(tv_tokenizer_new(model->gguf, NULL, &tokenizer), TV_OK);
    assert_int_equal(tv_tokenizer_encode(tokenizer, prompt, strlen(prompt), tv_tokenizer_adds_bos(tokenizer), &ids, &n),
                     TV_OK);
    size_t cache = (size_t)model->dims.layers * POSITIONS * model->dims.kv_heads * model->dims.head_dim;
    reference p = {model, calloc(cache, sizeof(double)), calloc(cache, sizeof(double))};
    assert_non_null(p.keys);
    assert_non_null(p.values);
    for (uint32_t i = 0; i < n + GENERATED; i++) {
        token = i < n ? ids[i] : token;
        tv_tokenizer_decode(tokenizer, previous, token, &out);
        previous = token;
        if (i + 1 < n + GENERATED)
            token = next_token(&p, token, i);
    }
    snprintf(text, TEXT, "%s", tv_buf_cstr(&out));
    tv_buf_fini(&out);
    free(p.keys);
    free(p.values);
    free(ids);
    tv_tokenizer_free(tokenizer);
    tv_model_free(model);
}

/* ---- The library ---- */

typedef struct collected {
    char text[TEXT];
    size_t size;
} collected;

static int collect(void *user, const char *bytes, size_t size)
{
    collected *c = user;
    if (c->size + size < TEXT) {
        memcpy(c->text + c->size, bytes, size);
        c->size += size;
    }
    return 0;
}

static const char *shipped(void) { return getenv("TRIVET_TEST_MODEL"); }

/* `context` 0: the model's. */
static void host_text(const char *path, const char *prompt, unsigned threads, uint32_t context, uint32_t count,
                      collected *out)
{
    tv_llm *llm;
    tv_llm_session *session;
    memset(out, 0, sizeof *out);
    assert_int_equal(tv_llm_open(path, NULL, &llm), TV_OK);
    assert_int_equal(
        tv_llm_session_new(
            llm,
            &(tv_llm_options){.size = sizeof(tv_llm_options), .target = "host", .threads = threads, .context = context},
            NULL, &session),
        TV_OK);
    assert_int_equal(tv_llm_generate(session, prompt, count, &(tv_llm_sampling){sizeof(tv_llm_sampling), 0, 1, 1},
                                     collect, out, NULL),
                     TV_OK);
    tv_llm_session_free(session);
    tv_llm_free(llm);
}

static void the_host_generates_the_text_of_the_reference(void **state)
{
    (void)state;
    static const char *const prompts[] = {"ROMEO:", "The king", "To be, or not"};
    static collected host;
    static char expected[TEXT];
    for (unsigned i = 0; i < 3; i++) {
        host_text(shipped(), prompts[i], 1, 0, GENERATED, &host);
        reference_text(shipped(), prompts[i], expected);
        assert_string_equal(host.text, expected);
    }
}

static void threads_do_not_change_the_text(void **state)
{
    (void)state;
    static collected one, many;
    host_text(shipped(), "JULIET:", 1, 0, GENERATED, &one);
    host_text(shipped(), "JULIET:", 3, 0, GENERATED, &many);
    assert_string_equal(one.text, many.text);
}

/* A short session converts weights while it uses them, until the first single-token step; a long one when it is
 * created. */
static void a_short_session_generates_the_text_of_a_long_one(void **state)
{
    (void)state;
    static collected brief, whole;
    for (unsigned threads = 1; threads <= 2; threads++) {
        host_text(shipped(), "JULIET:\nO Romeo, Romeo", threads, 48, 20, &brief);
        host_text(shipped(), "JULIET:\nO Romeo, Romeo", threads, 0, 20, &whole);
        assert_true(strlen(brief.text) > 22);
        assert_string_equal(brief.text, whole.text);
    }
}

/* Minimum cosine similarity over all layer outputs and the logits. */
static double min_cosine(const char *path, const char *target)
{
    tv_llm *llm;
    tv_config *config;
    tv_llm_session *session;
    tv_llm_similarity *list;
    uint32_t count;
    double min = 1;
    assert_int_equal(tv_llm_open(path, NULL, &llm), TV_OK);
    assert_int_equal(tv_config_new(target, NULL, &config), TV_OK);
    assert_int_equal(
        tv_llm_session_new(
            llm,
            &(tv_llm_options){
                .size = sizeof(tv_llm_options), .target = target, .config = config, .threads = 1, .verify = 1},
            NULL, &session),
        TV_OK);
    assert_int_equal(tv_llm_verify(session, "What say you, my lord?", 24, &list, &count, NULL), TV_OK);
    for (uint32_t i = 0; i < count; i++)
        min = list[i].cosine < min ? list[i].cosine : min;
    free(list);
    tv_llm_session_free(session);
    tv_config_free(config);
    tv_llm_free(llm);
    return min;
}

static void cmdq_is_close_to_the_host_in_every_layer(void **state)
{
    (void)state;
    assert_true(min_cosine(shipped(), "cmdq") > 0.99);
}

static void opennpu_is_close_to_the_host_in_every_layer(void **state)
{
    (void)state;
    assert_true(min_cosine(shipped(), "opennpu") > 0.99);
}

static void pccx_is_close_to_the_host_in_every_layer(void **state)
{
    (void)state;
    assert_true(min_cosine(shipped(), "pccx") > 0.97);
}

/* ---- The graph ---- */

static void verification_rejects_invalid_graphs(void **state)
{
    (void)state;
    tv_model *model;
    assert_int_equal(tv_model_open(shipped(), 0, NULL, &model), TV_OK);
    tv_graph *graph = model->graph;
    assert_int_equal(tv_graph_verify(graph, NULL), TV_OK);
    tv_graph_node *last = TV_VEC_LAST(&graph->nodes), valid = *last;
    tv_graph_node invalid[7];
    for (unsigned i = 0; i < 7; i++)
        invalid[i] = valid;
    invalid[0].op = TV_OPS;
    invalid[1].inputs[0] = TV_NO_VALUE;
    invalid[2].inputs[0] = valid.output;                   /* read before it is written */
    invalid[3].output = graph->nodes.data[0].output;       /* written twice */
    invalid[4].block = model->dims.layers;                 /* no such layer */
    invalid[5].inputs[1] = graph->nodes.data[1].inputs[1]; /* gains, other dimensions */
    invalid[6].output = TV_NO_VALUE;
    for (unsigned i = 0; i < 7; i++) {
        *last = invalid[i];
        assert_int_equal(tv_graph_verify(graph, NULL), TV_ERR_INPUT);
    }
    *last = valid;
    graph->logits = TV_NO_VALUE;
    assert_int_equal(tv_graph_verify(graph, NULL), TV_ERR_INPUT);
    tv_model_free(model);
}

/* ---- Written programs ---- */

static tv_machine *new_machine(const tv_config *config)
{
    tv_machine *machine;
    assert_int_equal(tv_machine_new(config, TV_MODE_FULL, NULL, &machine), TV_OK);
    return machine;
}

/* Compares every space, of large ones the first bytes, which contain the model, the cache and the activations. */
static void check_same_memories(tv_machine *a, tv_machine *b)
{
    enum { BYTES_MAX = 64 << 20 };
    uint8_t *x = malloc(BYTES_MAX), *y = malloc(BYTES_MAX);
    tv_space space;
    assert_true(x && y);
    for (unsigned i = 0; tv_machine_space_at(a, i, &space); i++) {
        size_t bytes = space.size * space.unit_bytes < BYTES_MAX ? (size_t)(space.size * space.unit_bytes) : BYTES_MAX;
        assert_int_equal(tv_machine_read(a, space.name, 0, x, bytes, NULL), TV_OK);
        assert_int_equal(tv_machine_read(b, space.name, 0, y, bytes, NULL), TV_OK);
        assert_memory_equal(x, y, bytes);
    }
    free(x);
    free(y);
}

/* Loads and runs a directory's programs in the order of their names, then deletes them. Returns the last one, which the
 * machine uses. */
static tv_program *run_folder(const char *folder, tv_machine *machine)
{
    struct dirent **names;
    char path[512];
    tv_program *last = NULL, *program;
    int count = scandir(folder, &names, NULL, alphasort);
    assert_true(count >= 2 + 5);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (strncmp(names[i]->d_name, "step_", 5) == 0) {
            assert_int_equal(tv_program_open(path, NULL, NULL, &program), TV_OK);
            assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
            assert_int_equal(tv_machine_run(machine, NULL, NULL), TV_OK);
            tv_program_free(last);
            last = program;
        }
    }
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        remove(path); /* fails for `.` and `..` */
        free(names[i]);
    }
    free(names);
    return last;
}

static void written_programs_reproduce_every_bit_and_cycle(void **state)
{
    (void)state;
    static const char *const targets[] = {"pccx", "opennpu", "cmdq"};
    for (unsigned t = 0; t < 3; t++) {
        char path[] = "/tmp/trivet-steps-XXXXXX";
        tv_llm *llm;
        tv_config *config;
        tv_llm_session *session;
        tv_llm_summary summary = {.size = sizeof summary};
        tv_stats ours = {.size = sizeof ours};
        tv_stats theirs = {.size = sizeof theirs};
        assert_non_null(mkdtemp(path));
        assert_int_equal(tv_llm_open(shipped(), NULL, &llm), TV_OK);
        assert_int_equal(tv_config_new(targets[t], NULL, &config), TV_OK);
        assert_int_equal(
            tv_llm_session_new(
                llm,
                &(tv_llm_options){.size = sizeof(tv_llm_options), .target = targets[t], .config = config, .emit = path},
                NULL, &session),
            TV_OK);
        assert_int_equal(tv_llm_generate(session, "First Citizen:\nBefore we proceed any further", 5,
                                         &(tv_llm_sampling){sizeof(tv_llm_sampling), 0, 1, 1}, NULL, NULL, NULL),
                         TV_OK);
        tv_llm_session_summary(session, &summary);
        tv_machine *machine = new_machine(config);
        tv_program *last = run_folder(path, machine);
        check_same_memories((tv_machine *)(uintptr_t)summary.machine, machine);
        tv_machine_stats(summary.machine, &ours);
        tv_machine_stats(machine, &theirs);
        assert_int_equal(ours.cycles, theirs.cycles);
        tv_machine_free(machine);
        tv_program_free(last);
        tv_llm_session_free(session);
        tv_config_free(config);
        tv_llm_free(llm);
        rmdir(path);
    }
}

/* Appending values to a packed beat gives the same bits as packing all of them at once. */
static void appended_values_are_rounded_like_values_packed_at_once(void **state)
{
    (void)state;
    unit_rng rng = {9};
    for (unsigned round = 0; round < 500; round++) {
        float values[PCCX_LOWER_BEAT_WEIGHTS] = {0},
              scale = round % 9 ? ((float)unit_below(&rng, 2000) - 1000) * 1e-3f : 0;
        uint32_t n = 1 + (uint32_t)unit_below(&rng, PCCX_LOWER_BEAT_WEIGHTS), from = 1 + (uint32_t)unit_below(&rng, n);
        uint8_t at_once[PCCX_LOWER_BEAT_BYTES], appended[PCCX_LOWER_BEAT_BYTES];
        for (uint32_t i = 0; i < n; i++)
            values[i] = ((float)unit_below(&rng, 40001) - 20000) * 3e-4f;
        pccx_lower_round(values, n, scale, at_once, NULL);
        float few[PCCX_LOWER_BEAT_WEIGHTS] = {0};
        memcpy(few, values, from * sizeof *few);
        pccx_lower_round(few, from, scale, appended, NULL);
        for (uint32_t i = from; i < n; i++)
            pccx_lower_round_next(&values[i], &scale, 1, i, appended);
        assert_memory_equal(at_once, appended, sizeof at_once);
    }
}

/* Each row gets its own value with its own scale, and its other values stay. */
static void values_are_appended_to_each_row(void **state)
{
    (void)state;
    enum { ROWS = 150 };
    unit_rng rng = {10};
    static uint8_t beats[ROWS * PCCX_LOWER_BEAT_BYTES], old[sizeof beats], expected[PCCX_LOWER_BEAT_BYTES];
    for (unsigned round = 0; round < 100; round++) {
        float values[ROWS], scales[ROWS];
        uint32_t rows = 1 + (uint32_t)unit_below(&rng, ROWS), at = (uint32_t)unit_below(&rng, PCCX_LOWER_BEAT_WEIGHTS);
        for (uint32_t i = 0; i < ROWS; i++) {
            values[i] = unit_below(&rng, 50) ? ((float)unit_below(&rng, 40001) - 20000) * 3e-4f : NAN;
            scales[i] = unit_below(&rng, 9) ? ((float)unit_below(&rng, 2000) - 1000) * 1e-3f : 0;
        }
        for (size_t i = 0; i < sizeof beats; i++)
            old[i] = beats[i] = (uint8_t)unit_next(&rng);
        pccx_lower_round_next(values, scales, rows, at, beats);
        for (uint32_t i = 0; i < ROWS; i++) {
            memcpy(expected, old + i * sizeof expected, sizeof expected);
            if (i < rows) {
                int q = scales[i] == 0 || isnan(values[i]) ? 0 : (int)rint(fmax(-8, fmin(7, values[i] / scales[i])));
                expected[at / 2] = (uint8_t)(at % 2 ? (expected[at / 2] & 0x0F) | (q & 15) << 4
                                                    : (expected[at / 2] & 0xF0) | (q & 15));
            }
            assert_memory_equal(beats + i * sizeof expected, expected, sizeof expected);
        }
    }
}

/* The cached keys and values of the first layer, on pccx, after `CACHED` tokens in steps of `step`. */
enum { CACHED = 70 };

static uint8_t *cache_after(tv_llm_session *session, uint32_t step, size_t *bytes)
{
    int32_t ids[CACHED];
    const pccx_lowering *l = session->state;
    uint32_t blocks = (pccx_lower_cache_positions(l, 0) + PCCX_LOWER_BLOCK - 1) / PCCX_LOWER_BLOCK;
    uint64_t heads = (uint64_t)l->graph->caches.data[0].heads * l->cache_planes,
             keys = heads * pccx_lower_key_bytes(l, 0), values = heads * blocks * pccx_lower_value_bytes(l, 0);
    uint8_t *cache = malloc(keys + values);
    assert_non_null(cache);
    for (int32_t i = 0; i < CACHED; i++)
        ids[i] = i * 7 % 300;
    session->position = 0;
    for (uint32_t at = 0, count; at < CACHED; at += count) {
        count = CACHED - at < step ? CACHED - at : step;
        assert_int_equal(tv_llm_run_step(session, ids + at, count, true, true, NULL), TV_OK);
    }
    assert_int_equal(tv_machine_read(l->machine, "host", l->map.keys[0], cache, keys, NULL), TV_OK);
    assert_int_equal(tv_machine_read(l->machine, "host", l->map.values[0], cache + keys, values, NULL), TV_OK);
    *bytes = keys + values;
    return cache;
}

/* The first layer's keys and values depend on one token each; their scales and rounding depend on the positions, not on
 * how many tokens a step has, nor on what the cache had before. */
static void steps_of_any_size_fill_the_cache_of_pccx_alike(void **state)
{
    (void)state;
    static const uint32_t steps[] = {5, 33, CACHED, 1, 32};
    const random_dims dims = {64, 172, 2, 8, 4, 300, 128, true, false};
    char path[] = "/tmp/trivet-model-XXXXXX";
    int fd = mkstemp(path);
    tv_llm *llm;
    assert_true(fd >= 0 && close(fd) == 0 && random_model_write(&dims, TV_GGUF_F32, path));
    assert_int_equal(tv_llm_open(path, NULL, &llm), TV_OK);
    for (unsigned bits = 4; bits <= 8; bits += 4) {
        tv_config *config;
        tv_llm_session *session;
        size_t bytes, again;
        assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
        const tv_llm_options options = {
            .size = sizeof options, .target = "pccx", .config = config, .weight_bits = bits};
        assert_int_equal(tv_llm_session_new(llm, &options, NULL, &session), TV_OK);
        uint8_t *want = cache_after(session, 1, &bytes);
        for (unsigned i = 0; i < TV_COUNTOF(steps); i++) {
            uint8_t *found = cache_after(session, steps[i], &again);
            assert_int_equal(again, bytes);
            assert_memory_equal(found, want, bytes);
            free(found);
        }
        free(want);
        tv_llm_session_free(session);
        tv_config_free(config);
    }
    tv_llm_free(llm);
    remove(path);
}

/* The keys of the first layer, with GEMM or GEMV for rotations, by the machine's parameter. */
static uint8_t *keys_after(const char *path, const char *gemm_setup, pccx_lowering *lowering, size_t *bytes)
{
    tv_llm *llm;
    tv_config *config;
    tv_llm_session *session;
    assert_int_equal(tv_llm_open(path, NULL, &llm), TV_OK);
    assert_int_equal(tv_config_new("pccx", NULL, &config), TV_OK);
    assert_int_equal(tv_config_set(config, "gemm.setup", gemm_setup, NULL), TV_OK);
    const tv_llm_options options = {.size = sizeof options, .target = "pccx", .config = config, .weight_bits = 8};
    assert_int_equal(tv_llm_session_new(llm, &options, NULL, &session), TV_OK);
    uint8_t *cache = cache_after(session, 7, bytes);
    const pccx_lowering *l = session->state;
    bool at_once = false;
    for (size_t i = 0; i < l->graph->nodes.count; i++)
        at_once = at_once || l->folds[i].heads_at_once;
    assert_int_equal(at_once, strlen(gemm_setup) < 4);
    lowering->cache_planes = l->cache_planes;
    *bytes = pccx_lower_key_bytes(l, 0);
    tv_llm_session_free(session);
    tv_config_free(config);
    tv_llm_free(llm);
    return cache;
}

/* Of blocks of 32 elements, which GEMV rotates one by one, a head has one or two; with two their activations have
 * scales of their own, and the keys, of which the first plane has 4 bits, differ by a step at most. */
static void heads_are_rotated_at_once_as_one_by_one(void **state)
{
    (void)state;
    static const random_dims list[] = {{320, 64, 1, 10, 10, 300, 128, true, false},
                                       {640, 64, 1, 10, 10, 300, 128, true, false},
                                       {640, 64, 1, 10, 10, 300, 128, true, true}};
    for (unsigned i = 0; i < TV_COUNTOF(list); i++) {
        const random_dims *s = &list[i];
        char path[] = "/tmp/trivet-model-XXXXXX";
        int fd = mkstemp(path);
        pccx_lowering l;
        size_t bytes, again;
        uint32_t d = s->dim / s->heads, same_scales = 0;
        assert_true(fd >= 0 && close(fd) == 0 && random_model_write(s, TV_GGUF_F32, path));
        uint8_t *one_by_one = keys_after(path, "4096", &l, &bytes), *at_once = keys_after(path, "64", &l, &again);
        assert_int_equal(bytes, again);
        if (d == PCCX_LOWER_BLOCK)
            assert_memory_equal(one_by_one, at_once, bytes * l.cache_planes * s->heads);
        for (uint32_t k = 0; k < s->heads * CACHED; k++) { /* first planes */
            size_t head = k / CACHED * l.cache_planes * bytes, scale = head + 2 * (k % CACHED),
                   row = head + (size_t)s->context * 2 + k % CACHED * d / 2;
            if (tv_load_le16(one_by_one + scale) != tv_load_le16(at_once + scale))
                continue;
            same_scales++;
            for (uint32_t j = 0; j < d; j++)
                assert_in_range(1 + tv_int4_get(one_by_one + row, j) - tv_int4_get(at_once + row, j), 0, 2);
        }
        assert_true(same_scales > s->heads * CACHED / 2);
        free(one_by_one);
        free(at_once);
        remove(path);
    }
}

/* ---- Models of other dimensions, with random weights ---- */

/* Grouped-query attention, an untied classifier, dimensions that are not powers of two. */
static void models_of_odd_dimensions_run_everywhere(void **state)
{
    (void)state;
    static const random_dims list[] = {{64, 172, 3, 8, 4, 300, 128, true, false},
                                       {96, 100, 2, 2, 1, 300, 128, false, false},
                                       {144, 200, 2, 3, 3, 300, 128, false, false}};
    static collected host;
    static char expected[TEXT];
    for (unsigned i = 0; i < 3; i++) {
        char path[] = "/tmp/trivet-model-XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0 && close(fd) == 0);
        assert_true(random_model_write(&list[i], TV_GGUF_F32, path));
        host_text(path, "ab", 2, 0, GENERATED, &host);
        reference_text(path, "ab", expected);
        assert_memory_equal(host.text, expected, strlen(expected));
        assert_true(min_cosine(path, "cmdq") > 0.98);
        assert_true(min_cosine(path, "opennpu") > 0.98);
        assert_true(min_cosine(path, "pccx") > 0.9);
        remove(path);
    }
}

/* For each count and each position of the maximum, with one as high or NaN after it. */
static void the_first_maximum_of_logits_is_chosen(void **state)
{
    (void)state;
    enum { COUNT_MAX = 100 };
    unit_rng rng = {31};
    for (uint32_t n = 1; n <= COUNT_MAX; n++)
        for (uint32_t at = 0; at < n; at++) {
            float logits[COUNT_MAX];
            for (uint32_t i = 0; i < n; i++)
                logits[i] = (float)unit_below(&rng, 1000) * (i < at ? -1.0f : 1.0f);
            logits[at] = 1000;
            if (at + 1 < n)
                logits[at + 1 + unit_below(&rng, n - at - 1)] = n % 2 ? 1000 : NAN;
            assert_int_equal(tv_argmax(logits, n), at);
        }
}

int main(void)
{
    if (!shipped()) {
        fputs("test_llm: TRIVET_TEST_MODEL must name models/shakespeare.gguf\n", stderr);
        return EXIT_FAILURE;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_generates_the_text_of_the_reference),
        cmocka_unit_test(threads_do_not_change_the_text),
        cmocka_unit_test(a_short_session_generates_the_text_of_a_long_one),
        cmocka_unit_test(verification_rejects_invalid_graphs),
        cmocka_unit_test(cmdq_is_close_to_the_host_in_every_layer),
        cmocka_unit_test(opennpu_is_close_to_the_host_in_every_layer),
        cmocka_unit_test(pccx_is_close_to_the_host_in_every_layer),
        cmocka_unit_test(written_programs_reproduce_every_bit_and_cycle),
        cmocka_unit_test(appended_values_are_rounded_like_values_packed_at_once),
        cmocka_unit_test(values_are_appended_to_each_row),
        cmocka_unit_test(steps_of_any_size_fill_the_cache_of_pccx_alike),
        cmocka_unit_test(heads_are_rotated_at_once_as_one_by_one),
        cmocka_unit_test(models_of_odd_dimensions_run_everywhere),
        cmocka_unit_test(the_first_maximum_of_logits_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
