/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a model on a backend: creation, steps and their statistics.
 *
 * The backend computes logits; generate.c and evaluate.c decide which tokens it sees. Cycles are read from the
 * backend's machine after each step, and counted as prompt or generation. */
#include "llm/session.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "llm/state.h"
#include "trivet/energy.h"

enum { SAMPLE_TOKENS = 64, EMIT_MAX = 3840 };

/* ---- Sessions ---- */

void tv_llm_session_free(tv_llm_session *session)
{
    if (!session)
        return;
    if (session->state)
        session->backend->destroy(session->state);
    free(session->logits);
    free(session->emit);
    TV_VEC_FINI(&session->weights);
    free(session);
}

tv_status tv_llm_encode(const tv_llm *llm, tv_sv text, unsigned flags, int32_t **ids, size_t *count,
                        const tv_diag_sink *sink)
{
    tv_status status = tv_tokenizer_encode(llm->tokenizer, text.ptr, text.len, flags, ids, count);
    if (status == TV_ERR_INPUT)
        return tv_fail(sink, status, TV_LLM_CODE(LIMIT), "use a shorter text",
                       "the text has %zu bytes; at most %d can be encoded", text.len, TV_TOKENIZER_TEXT_MAX);
    return status == TV_OK ? TV_OK : tv_fail_memory(sink);
}

/* Calibration tokens: the beginning of the sample text, padded with random tokens. */
static tv_status sample_tokens(const tv_llm *llm, const char *text, int32_t tokens[SAMPLE_TOKENS], uint32_t *count,
                               const tv_diag_sink *sink)
{
    uint64_t state = 1;
    size_t n = 0;
    int32_t *ids = NULL;
    unsigned flags = tv_tokenizer_adds_bos(llm->tokenizer) ? TV_ENCODE_BOS : 0;
    TV_TRY(tv_llm_encode(llm, tv_sv_of(text ? text : ""), flags, &ids, &n, sink));
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
    if (options->context > llm->model->positions)
        tv_report(sink, TV_WARNING, TV_LLM_CODE(CONTEXT), &TV_NO_SOURCE_LOC, NULL,
                  "the model has %u positions; the context of %u is reduced to %u", llm->model->positions,
                  options->context, llm->model->positions);
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

/* The progress of a step, as that of the current work. */
static int report_step(void *user, const char *what, uint64_t done, uint64_t total)
{
    tv_llm_session *s = user;
    (void)what;
    if (s->phase && s->progress.report && total)
        s->progress.report(s->progress.user, s->phase,
                           s->phase_done + (uint64_t)((double)s->step_count * (double)done / (double)total),
                           s->phase_total);
    return 0;
}

/* Adds a conversion to those of the same tensor to the same format. */
static void add_weight(void *user, const tv_matrix *matrix, const char *format, const tv_weight_error *error)
{
    tv_llm_session *s = user;
    tv_session_weight own = {.matrix = matrix, .error = *error};
    if (!matrix->tensor) /* a constant of the graph */
        return;
    uint64_t elements = 1;
    for (unsigned d = 0; d < matrix->tensor->dim_count; d++)
        elements *= matrix->tensor->dims[d];
    snprintf(own.format, sizeof own.format, "%s", format);
    for (size_t i = 0; i < s->weights.count; i++) {
        tv_session_weight *known = &s->weights.data[i];
        if (strcmp(known->matrix->name, matrix->name) != 0 || strcmp(known->format, format) != 0)
            continue;
        if (known->error.count < elements) /* another part, or another matrix of a stack */
            tv_weight_error_sum(&known->error, error, 1);
        return;
    }
    (void)TV_VEC_PUSH(&s->weights, own);
}

tv_status tv_llm_session_new_on(tv_llm *llm, const tv_backend *backend, const tv_llm_options *options,
                                const tv_diag_sink *sink, tv_llm_session **out)
{
    int32_t sample[SAMPLE_TOKENS];
    uint32_t sample_count = 0, context = llm->model->positions;
    TV_TRY(check_options(llm, backend, options, sink));
    if (!options->timing_only)
        TV_TRY(sample_tokens(llm, options->sample, sample, &sample_count, sink));
    tv_llm_session *s = calloc(1, sizeof *s);
    if (!s)
        return tv_fail_memory(sink);
    s->llm = llm;
    s->backend = backend;
    s->progress = options->progress;
    s->timing = options->timing_only != 0;
    s->pending = -1;
    s->context = options->context && options->context < context ? options->context : context;
    s->logits = malloc((size_t)TV_EVAL_WINDOW * llm->model->dims.vocab * sizeof *s->logits);
    s->emit = options->emit ? strdup(options->emit) : NULL;
    tv_backend_options own = {.config = options->config,
                              .context = s->context,
                              .threads = options->threads ? options->threads : 1,
                              .mode = options->timing_only ? TV_MODE_TIMING : TV_MODE_FULL,
                              .emit = s->emit,
                              .outputs = options->outputs,
                              .allow_host_ops = options->allow_host_ops != 0,
                              .keep_values = options->verify != 0,
                              .weight_bits = options->weight_bits,
                              .activation_bits = options->activation_bits,
                              .sample = sample,
                              .sample_count = sample_count,
                              .weights = {options->measure_weights ? add_weight : NULL, s},
                              .progress = options->progress,
                              .step_progress = {report_step, s}};
    tv_status status = s->logits && (s->emit || !options->emit)
                           ? backend->create(llm->model->graph, &own, sink, &s->state)
                           : tv_fail_memory(sink);
    if (status == TV_OK && s->weights.failed)
        status = tv_fail_memory(sink);
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

tv_status tv_llm_run_step(tv_llm_session *s, const int32_t *tokens, uint32_t count, bool last_only, bool prompt,
                          const tv_diag_sink *sink)
{
    tv_stats before = {.size = sizeof before};
    tv_stats after = {.size = sizeof after};
    tv_energy energy = {0};
    double start = wall_seconds();
    s->step_count = count;
    if (s->summary.machine) {
        tv_machine_stats(s->summary.machine, &before);
        energy = tv_machine_energy_total(s->summary.machine);
    }
    TV_TRY(s->backend->step(s->state, tokens, count, s->position, last_only, s->logits, sink));
    s->position += count;
    if (s->summary.machine) {
        tv_machine_stats(s->summary.machine, &after);
        energy = tv_energy_since(tv_machine_energy_total(s->summary.machine), energy);
        tv_machine_trace_token(tv_llm_session_machine(s), prompt ? "prefill" : "decode", (int64_t)s->position - count,
                               count, before.cycles);
    }
    *(prompt ? &s->summary.prompt_tokens : &s->summary.tokens) += count;
    *(prompt ? &s->summary.prompt_cycles : &s->summary.cycles) += after.cycles - before.cycles;
    *(prompt ? &s->summary.prompt_host_seconds : &s->summary.host_seconds) += wall_seconds() - start;
    tv_energy *sum = prompt ? &s->summary.prompt_energy : &s->summary.energy;
    *sum = tv_energy_add(*sum, energy);
    s->summary.clock_hz = after.clock_hz;
    if (!prompt)
        count_traffic(&s->summary, &before, &after);
    return TV_OK;
}

tv_status tv_llm_check_text(const tv_llm_session *s, const tv_diag_sink *sink)
{
    if (s->timing)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(FORMAT), "open it without timing_only",
                       "a timing-only session has no data");
    return TV_OK;
}

bool tv_llm_report_progress(tv_llm_session *s, const char *what, uint64_t done, uint64_t total)
{
    s->phase = what;
    s->phase_done = done;
    s->phase_total = total;
    return what && s->progress.report && s->progress.report(s->progress.user, what, done, total) != 0;
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

int tv_llm_weight_at(const tv_llm_session *session, unsigned i, tv_llm_weight *out)
{
    if (i >= session->weights.count)
        return 0;
    const tv_session_weight *w = &session->weights.data[i];
    *out = (tv_llm_weight){.tensor = w->matrix->name,
                           .type = tv_gguf_type_name(w->matrix->tensor->type),
                           .format = w->format,
                           .count = w->error.count,
                           .rms_error = w->error.squares > 0 ? sqrt(w->error.errors / w->error.squares) : 0,
                           .max_error = w->error.max > 0 ? (double)w->error.error_max / (double)w->error.max : 0};
    return 1;
}
