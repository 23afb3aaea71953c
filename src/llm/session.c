/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: prompts, sampling, evaluation and verification on top of a backend.
 *
 * The backend computes logits; this file decides which tokens it sees: a prompt in one step, then one token per step.
 * Sampling runs on the host in binary64 with a generator of its own, so that a seed gives the same
 * text on every host and with any number of threads. Cycles are read from the backend's machine after each step, and
 * counted as prompt or generation. */
#include "trivet/llm.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/text.h"
#include "import/model.h"
#include "import/tokenizer.h"
#include "llm/session.h"

enum { SAMPLE_TOKENS = 64, EVAL_WINDOW = 256, EMIT_MAX = 3840 };

struct tv_llm {
    tv_model *model;
    tv_tokenizer *tokenizer;
};

struct tv_llm_session {
    tv_llm *llm;
    const tv_backend *backend;
    void *state;
    uint32_t context, position;
    float *logits; /* [vocab], or [EVAL_WINDOW][vocab] during evaluation */
    tv_llm_summary summary;
    tv_llm_progress progress;
    bool timing; /* timing only, no data */
    char *emit;  /* or NULL */
};

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
    tv_llm *llm = calloc(1, sizeof *llm);
    if (!llm)
        return tv_fail_memory(sink);
    tv_status status = tv_model_open(path, sink, &llm->model);
    if (status == TV_OK && llm->model->gguf)
        status = tv_tokenizer_new(llm->model->gguf, sink, &llm->tokenizer);
    if (status != TV_OK) {
        tv_llm_free(llm);
        return status;
    }
    *out = llm;
    return TV_OK;
}

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

uint32_t tv_llm_context(const tv_llm *llm) { return llm->model->dims.context; }

/* ---- Sessions ---- */

void tv_llm_session_free(tv_llm_session *session)
{
    if (!session)
        return;
    if (session->state)
        session->backend->destroy(session->state);
    free(session->logits);
    free(session->emit);
    free(session);
}

/* Calibration tokens: the beginning of the sample text, padded with random tokens. */
static tv_status sample_tokens(const tv_llm *llm, const char *text, int32_t tokens[SAMPLE_TOKENS], uint32_t *count)
{
    uint64_t state = 1;
    size_t n = 0;
    int32_t *ids = NULL;
    TV_TRY(tv_tokenizer_encode(llm->tokenizer, text ? text : "", text ? strlen(text) : 0,
                               tv_tokenizer_adds_bos(llm->tokenizer), &ids, &n));
    *count = n > SAMPLE_TOKENS ? SAMPLE_TOKENS : (uint32_t)n;
    if (n)
        memcpy(tokens, ids, *count * sizeof *tokens);
    free(ids);
    for (; *count < SAMPLE_TOKENS; ++*count) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        tokens[*count] = (int32_t)((state >> 33) % llm->model->dims.vocab);
    }
    if (*count > llm->model->dims.context)
        *count = llm->model->dims.context;
    return TV_OK;
}

/* Programs of an earlier session in the same directory would be run together with this one's. */
static bool has_steps(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    bool found = false;
    while (dir && !found && (entry = readdir(dir)))
        found = strncmp(entry->d_name, "step_", 5) == 0;
    if (dir)
        closedir(dir);
    return found;
}

static tv_status check_emit(const tv_llm_options *options, const tv_backend *backend, const tv_diag_sink *sink)
{
    const char *folder = options->emit;
    if (!folder)
        return TV_OK;
    if (options->timing_only)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "omit --timing-only",
                       "a timing-only session has no data, so it cannot write programs");
    if (!backend->machine)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "select a machine with -t",
                       "the host runs no programs that could be written");
    if (strlen(folder) > EMIT_MAX || strpbrk(folder, "\"\\\n\r"))
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_WRITE), "choose a shorter or simpler name",
                       "the name of the output directory is limited to %d bytes, without quotes, backslashes and line "
                       "breaks",
                       EMIT_MAX);
    if (has_steps(folder))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "remove them, or choose another directory",
                       "'%.200s' has programs of another session", folder);
    return tv_output_group_folder(options->outputs, folder, sink);
}

/* Rejects options that the backend cannot satisfy; warns about those that it ignores. */
static tv_status check_options(const tv_llm *llm, const tv_backend *backend, const tv_llm_options *options,
                               const tv_diag_sink *sink)
{
    if (!llm->model->gguf && !options->timing_only)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(FORMAT), "--timing-only needs none", "the model has no weights");
    if (options->timing_only && !backend->machine)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(TARGET_UNKNOWN), "select a machine with -t",
                       "the host has no cycles");
    if (options->context > llm->model->dims.context)
        tv_report(sink, TV_WARNING, TV_LLM_CODE(CONTEXT), &TV_NO_SOURCE_LOC, NULL,
                  "the model has %u positions; the context of %u is reduced to %u", llm->model->dims.context,
                  options->context, llm->model->dims.context);
    TV_TRY(check_emit(options, backend, sink));
    if (options->weight_bits && backend->weight_bits_only && options->weight_bits != backend->weight_bits_only)
        tv_report(sink, TV_WARNING, TV_LLM_CODE(WEIGHT_WIDTH), &TV_NO_SOURCE_LOC, NULL,
                  "%s supports weights of %u bits only; %u is ignored", backend->name, backend->weight_bits_only,
                  options->weight_bits);
    if (options->activation_bits && backend->activation_bits_only &&
        options->activation_bits != backend->activation_bits_only)
        tv_report(sink, TV_WARNING, TV_LLM_CODE(WEIGHT_WIDTH), &TV_NO_SOURCE_LOC, NULL,
                  "%s supports activations of %u bits only; %u is ignored", backend->name,
                  backend->activation_bits_only, options->activation_bits);
    return TV_OK;
}

tv_status tv_llm_session_new_on(tv_llm *llm, const tv_backend *backend, const tv_llm_options *options,
                                const tv_diag_sink *sink, tv_llm_session **out)
{
    int32_t sample[SAMPLE_TOKENS];
    uint32_t sample_count = 0, context = llm->model->dims.context;
    TV_TRY(check_options(llm, backend, options, sink));
    if (!options->timing_only)
        TV_TRY(sample_tokens(llm, options->sample, sample, &sample_count));
    tv_llm_session *s = calloc(1, sizeof *s);
    if (!s)
        return tv_fail_memory(sink);
    s->llm = llm;
    s->backend = backend;
    s->progress = options->progress;
    s->timing = options->timing_only != 0;
    s->context = options->context && options->context < context ? options->context : context;
    s->logits = malloc((size_t)EVAL_WINDOW * llm->model->dims.vocab * sizeof *s->logits);
    s->emit = options->emit ? strdup(options->emit) : NULL;
    tv_backend_options own = {.config = options->config,
                              .context = s->context,
                              .threads = options->threads ? options->threads : 1,
                              .mode = options->timing_only ? TV_MODE_TIMING : TV_MODE_FULL,
                              .emit = s->emit,
                              .outputs = options->outputs,
                              .keep_values = options->verify != 0,
                              .weight_bits = options->weight_bits,
                              .activation_bits = options->activation_bits,
                              .sample = sample,
                              .sample_count = sample_count,
                              .progress = options->progress};
    tv_status status = s->logits && (s->emit || !options->emit)
                           ? backend->create(llm->model->graph, &own, sink, &s->state)
                           : tv_fail_memory(sink);
    if (status != TV_OK) {
        tv_llm_session_free(s);
        return status;
    }
    s->summary.machine = backend->machine ? backend->machine(s->state) : NULL;
    *out = s;
    return TV_OK;
}

tv_machine *tv_llm_session_machine(tv_llm_session *session)
{
    return session->backend->machine ? session->backend->machine(session->state) : NULL;
}

/* ---- Steps and their statistics ---- */

static double wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Path names state their direction. */
static bool is_write(const char *path)
{
    return strstr(path, "write") || strstr(path, "store") || strcmp(path, "l2_to_host") == 0;
}

/* Adds the memory traffic between two states of the statistics; l2_to_l2 stays on chip. */
static void count_traffic(tv_llm_summary *summary, const tv_stats *before, const tv_stats *after)
{
    for (unsigned p = 0; p < after->path_count; p++) {
        const char *name = after->paths[p].name;
        uint64_t bytes = after->paths[p].bytes - before->paths[p].bytes;
        if (strcmp(name, "l2_to_l2") != 0)
            *(is_write(name) ? &summary->written_bytes : &summary->read_bytes) += bytes;
    }
}

/* Runs the backend on `count` tokens and accounts for them as prompt (prefill) or generated tokens (decode). */
static tv_status run_step(tv_llm_session *s, const int32_t *tokens, uint32_t count, bool last_only, bool prompt,
                          const tv_diag_sink *sink)
{
    tv_stats before = {.size = sizeof before};
    tv_stats after = {.size = sizeof after};
    double start = wall_seconds();
    if (s->summary.machine)
        tv_machine_stats(s->summary.machine, &before);
    TV_TRY(s->backend->step(s->state, tokens, count, s->position, last_only, s->logits, sink));
    s->position += count;
    if (s->summary.machine) {
        tv_machine_stats(s->summary.machine, &after);
        tv_machine_trace_token(tv_llm_session_machine(s), prompt ? "prefill" : "decode", (int64_t)s->position - count,
                               count, before.cycles);
    }
    *(prompt ? &s->summary.prompt_tokens : &s->summary.tokens) += count;
    *(prompt ? &s->summary.prompt_cycles : &s->summary.cycles) += after.cycles - before.cycles;
    *(prompt ? &s->summary.prompt_host_seconds : &s->summary.host_seconds) += wall_seconds() - start;
    s->summary.clock_hz = after.clock_hz;
    if (!prompt)
        count_traffic(&s->summary, &before, &after);
    return TV_OK;
}

/* ---- Sampling ---- */

typedef struct candidate {
    float prob; /* relative to the most probable token */
    int32_t token;
} candidate;

/* Most probable first; ties by token. */
static int compare_candidates(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->prob > y->prob)
        return -1;
    if (x->prob < y->prob)
        return 1;
    return (x->token > y->token) - (x->token < y->token);
}

/* SplitMix64, as a number in [0, 1). */
static double random_unit(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int32_t argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Greedy at temperature 0, otherwise nucleus (top-p) sampling. */
static tv_status sample_token(const tv_llm_session *s, const tv_llm_sampling *sampling, uint64_t *random,
                              int32_t *token, const tv_diag_sink *sink)
{
    uint32_t n = s->llm->model->dims.vocab, nucleus = 0;
    *token = argmax(s->logits, n);
    if (!(sampling->temperature > 0))
        return TV_OK;
    candidate *list = malloc(n * sizeof *list);
    if (!list)
        return tv_fail_memory(sink);
    double sum = 0, mass = 0, max = (double)s->logits[*token];
    for (uint32_t i = 0; i < n; i++) {
        list[i] = (candidate){(float)exp(((double)s->logits[i] - max) / (double)sampling->temperature), (int32_t)i};
        sum += (double)list[i].prob;
    }
    qsort(list, n, sizeof *list, compare_candidates);
    while (nucleus < n && (nucleus == 0 || mass < (double)sampling->top_p * sum))
        mass += (double)list[nucleus++].prob;
    double at = random_unit(random) * mass;
    uint32_t i = 0;
    for (; i + 1 < nucleus && at >= (double)list[i].prob; i++)
        at -= (double)list[i].prob;
    *token = list[i].token;
    free(list);
    return TV_OK;
}

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

/* Rejects timing-only sessions, which have no data to make text from. */
static tv_status check_text(const tv_llm_session *s, const tv_diag_sink *sink)
{
    if (s->timing)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(FORMAT), "open it without timing_only",
                       "a timing-only session has no data");
    return TV_OK;
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
    TV_TRY(check_text(s, sink));
    TV_TRY(tv_tokenizer_encode(s->llm->tokenizer, prompt, strlen(prompt), s->position == 0, &ids, &n));
    if (n == 0 || n > s->context - s->position) {
        free(ids);
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), "use a shorter prompt",
                       "the prompt has %zu tokens; the remaining context holds 1 to %u", n, s->context - s->position);
    }
    tv_status status = run_step(s, ids, (uint32_t)n, true, true, sink);
    for (size_t i = 0; i < n && status == TV_OK; i++) {
        status = emit_token(s, &l, previous, ids[i], sink);
        previous = ids[i];
    }
    free(ids);
    for (uint32_t i = 0; i < count && status == TV_OK && !l.stopped; i++) {
        status = sample_token(s, &known, &random, &token, sink);
        if (status != TV_OK || tv_tokenizer_ends(s->llm->tokenizer, token))
            break;
        status = emit_token(s, &l, previous, token, sink);
        previous = token;
        if (status == TV_OK && (i + 1 == count || s->position == s->context || l.stopped))
            break;
        if (status == TV_OK)
            status = run_step(s, &token, 1, true, false, sink);
    }
    return status;
}

/* Reports progress. Returns true if the callback ends the work. */
static bool report_progress(const tv_llm_session *s, const char *what, uint64_t done, uint64_t total)
{
    return s->progress.report && s->progress.report(s->progress.user, what, done, total) != 0;
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
    bool stopped = report_progress(s, "timing", 0, total);
    tv_status status = TV_OK;
    if (prompt && !stopped) {
        status = run_step(s, tokens, prompt, true, true, sink);
        stopped = report_progress(s, "timing", prompt, total);
    }
    for (uint32_t i = 0; i < count && status == TV_OK && !stopped; i++) {
        status = run_step(s, tokens, 1, true, false, sink);
        stopped = report_progress(s, "timing", (uint64_t)prompt + i + 1, total);
    }
    free(tokens);
    return status;
}

/* ---- Evaluation ---- */

/* Negative log-likelihood of `token`: logsumexp(logits) - logits[token]. */
static double token_nll(const float *logits, uint32_t n, int32_t token)
{
    double max = (double)logits[argmax(logits, n)], sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    return log(sum) + max - (double)logits[token];
}

/* Sums over the predicted tokens. The variance is that of the differences to the first nll, which keeps digits. */
typedef struct nll_sums {
    uint32_t count;
    double first, sum, squares;
} nll_sums;

static void add_nll(nll_sums *sums, double nll)
{
    sums->first = sums->count++ ? sums->first : nll;
    sums->sum += nll - sums->first;
    sums->squares += (nll - sums->first) * (nll - sums->first);
}

/* Runs one window, which starts with the BOS token if there is one, and adds the nll of every following token. */
static tv_status eval_window(tv_llm_session *s, const int32_t *ids, uint32_t count, nll_sums *sums,
                             const tv_diag_sink *sink)
{
    int32_t window[EVAL_WINDOW], bos = tv_tokenizer_bos(s->llm->tokenizer);
    uint32_t vocab = s->llm->model->dims.vocab, offset = bos >= 0;
    window[0] = bos;
    memcpy(window + offset, ids, (count - offset) * sizeof *ids);
    s->position = 0;
    TV_TRY(run_step(s, window, count, false, true, sink));
    for (uint32_t i = 0; i < count; i++)
        add_nll(sums, token_nll(s->logits + (size_t)i * vocab, vocab, ids[i + 1 - offset]));
    return TV_OK;
}

static tv_llm_likelihood likelihood(const nll_sums *sums)
{
    double n = sums->count, mean = sums->sum / n, variance = (sums->squares - sums->sum * mean) / (n - 1);
    return (tv_llm_likelihood){.tokens = sums->count,
                               .nll = sums->first + mean,
                               .nll_error = sums->count < 2 ? (double)NAN
                                            : variance > 0  ? sqrt(variance / n)
                                                            : 0};
}

tv_status tv_llm_eval(tv_llm_session *s, const char *text, size_t size, uint32_t max_tokens, tv_llm_likelihood *out,
                      const tv_diag_sink *sink)
{
    int32_t *ids;
    size_t n;
    nll_sums sums = {0};
    bool stopped = false;
    if (!tv_write_sized(out, TV_SIZE_UP_TO(tv_llm_likelihood, nll_error), &(tv_llm_likelihood){0}, sizeof *out))
        return tv_fail_size(sink, "tv_llm_likelihood");
    TV_TRY(check_text(s, sink));
    uint32_t window = s->context < EVAL_WINDOW ? s->context : EVAL_WINDOW,
             spare = tv_tokenizer_bos(s->llm->tokenizer) < 0;
    TV_TRY(tv_tokenizer_encode(s->llm->tokenizer, text, size, false, &ids, &n));
    uint64_t total = n > spare ? tv_min_u64(max_tokens, n - spare) : 0;
    tv_status status = TV_OK;
    if (total == 0)
        status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(SESSION), "give a longer text",
                         "the text has %zu token%s; an evaluation needs at least %u", n, n == 1 ? "" : "s", spare + 1);
    for (size_t at = 0; sums.count < total && status == TV_OK && !stopped; at += window) {
        status = eval_window(s, ids + at, (uint32_t)tv_min_u64(window, total - sums.count), &sums, sink);
        stopped = report_progress(s, "evaluating", sums.count, total);
    }
    free(ids);
    if (status != TV_OK)
        return status;
    tv_llm_likelihood result = likelihood(&sums);
    tv_write_sized(out, TV_SIZE_UP_TO(tv_llm_likelihood, nll_error), &result, sizeof result);
    return TV_OK;
}

/* ---- Comparison with the host ---- */

static void update_similarity(const float *a, const float *b, uint32_t n, tv_llm_similarity *out)
{
    double dot = 0, aa = 0, bb = 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = (double)a[i], y = (double)b[i];
        dot += x * y;
        aa += x * x;
        bb += y * y;
        out->error = fabs(x - y) > out->error ? fabs(x - y) : out->error;
    }
    double cosine = aa > 0 && bb > 0 ? dot / sqrt(aa * bb) : aa == bb;
    if (!(cosine >= out->cosine))
        out->cosine = isfinite(cosine) ? cosine : 0;
}

static tv_status verify_token(tv_llm_session *s, void *host, float *host_logits, int32_t token, uint32_t at,
                              tv_llm_similarity *list, const tv_diag_sink *sink)
{
    const tv_model_dims *dims = &s->llm->model->dims;
    TV_TRY(run_step(s, &token, 1, true, false, sink));
    TV_TRY(tv_backend_host.step(host, &token, 1, at, true, host_logits, sink));
    for (uint32_t layer = 0; layer < dims->layers; layer++) {
        uint32_t v = s->llm->model->graph->layer_outputs[layer];
        const float *mine = s->backend->value(s->state, v);
        if (mine)
            update_similarity(tv_backend_host.value(host, v), mine, dims->dim, &list[layer]);
    }
    update_similarity(host_logits, s->logits, dims->vocab, &list[dims->layers]);
    return TV_OK;
}

tv_status tv_llm_verify(tv_llm_session *s, const char *text, uint32_t max_tokens, tv_llm_similarity **list,
                        uint32_t *count, const tv_diag_sink *sink)
{
    const tv_model_dims *dims = &s->llm->model->dims;
    int32_t *ids;
    size_t n;
    void *host = NULL;
    TV_TRY(check_text(s, sink));
    TV_TRY(tv_tokenizer_encode(s->llm->tokenizer, text, strlen(text), true, &ids, &n));
    float *host_logits = malloc(dims->vocab * sizeof *host_logits);
    *count = dims->layers + 1;
    *list = calloc(*count, sizeof **list);
    tv_status status =
        host_logits && *list
            ? tv_backend_host.create(s->llm->model->graph, &(tv_backend_options){.context = s->context, .threads = 1},
                                     sink, &host)
            : tv_fail_memory(sink);
    for (uint32_t i = 0; *list && i < *count; i++)
        (*list)[i].cosine = 1;
    for (size_t i = 0; i < n && i < max_tokens && i < s->context && status == TV_OK; i++)
        status = verify_token(s, host, host_logits, ids[i], (uint32_t)i, *list, sink);
    if (host)
        tv_backend_host.destroy(host);
    free(host_logits);
    free(ids);
    if (status != TV_OK) {
        free(*list);
        *list = NULL;
    }
    return status;
}

tv_status tv_llm_session_summary(const tv_llm_session *session, tv_llm_summary *out)
{
    const tv_llm_summary *summary = &session->summary;
    bool written = tv_write_sized(out, TV_SIZE_UP_TO(tv_llm_summary, machine), summary, sizeof *summary);
    return written ? TV_OK : TV_ERR_INPUT;
}

int tv_llm_host_op_at(const tv_llm_session *session, unsigned i, tv_llm_host_op *out)
{
    const tv_host_op *list;
    unsigned count = session->backend->host_ops ? session->backend->host_ops(session->state, &list) : 0;
    if (i >= count)
        return 0;
    *out = (tv_llm_host_op){list[i].name, list[i].count, list[i].elements};
    return 1;
}
