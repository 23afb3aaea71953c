/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of workloads. Programs and models are opened once for each thread: some cache what they derive. */
#include "sweep/evaluate.h"

#include <inttypes.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "trivet/energy.h"
#include "trivet/file.h"

typedef struct opened {
    tv_program *program;
    tv_network *network;
    tv_llm *model;
} opened;

struct sweep_context {
    const sweep_spec *spec;
    const sweep_services *services;
    opened *workloads;
};

const char *tv_outcome_name(sweep_outcome outcome)
{
    static const char *const names[OUTCOMES] = {
        [OUTCOME_OK] = "ok", [OUTCOME_INVALID] = "invalid", [OUTCOME_FAULT] = "fault"};
    return names[outcome];
}

/* ---- Opening ---- */

static tv_status open_workload(sweep_context *c, const spec_workload *w, const tv_diag_sink *sink, opened *out)
{
    if (w->kind == WORKLOAD_PROGRAM) {
        tv_program_options options = {.size = sizeof options, .target = w->target};
        return c->services->open_program(w->path, &options, sink, &out->program);
    }
    if (w->kind == WORKLOAD_NETWORK) {
        tv_network_open_options options = {
            .size = sizeof options, .dims = w->dims.data, .dim_count = (uint32_t)w->dims.count, .timing_only = 1};
        return tv_network_open(w->path, &options, sink, &out->network);
    }
    return tv_llm_open_context(w->path, (uint32_t)w->context, sink, &out->model);
}

tv_status tv_context_new(const sweep_spec *spec, const sweep_services *services, const tv_diag_sink *sink,
                         sweep_context **out)
{
    sweep_context *c = calloc(1, sizeof *c);
    tv_status status = TV_OK;
    if (!c)
        return TV_ERR_MEMORY;
    *c =
        (sweep_context){.spec = spec, .services = services, .workloads = calloc(spec->workloads.count, sizeof(opened))};
    if (!c->workloads)
        status = TV_ERR_MEMORY;
    for (size_t i = 0; i < spec->workloads.count && status == TV_OK; i++)
        status = open_workload(c, &spec->workloads.data[i], sink, &c->workloads[i]);
    if (status != TV_OK) {
        tv_context_free(c);
        return status;
    }
    *out = c;
    return TV_OK;
}

void tv_context_free(sweep_context *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->workloads && i < c->spec->workloads.count; i++) {
        tv_program_free(c->workloads[i].program);
        tv_network_free(c->workloads[i].network);
        tv_llm_free(c->workloads[i].model);
    }
    free(c->workloads);
    free(c);
}

const char *tv_context_target(const sweep_context *c, size_t i)
{
    const opened *w = &c->workloads[i];
    return w->program ? tv_program_target(w->program) : c->spec->workloads.data[i].target;
}

/* ---- Digests ---- */

static tv_status add_file(SHA2_CTX *hash, const char *path, const tv_diag_sink *sink)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    uint8_t size[8];
    tv_store_le(size, input.size, 8);
    SHA256Update(hash, size, sizeof size);
    SHA256Update(hash, input.data, input.size);
    tv_input_close(&input);
    return TV_OK;
}

static void add_keys(SHA2_CTX *hash, const spec_workload *w)
{
    char text[256];
    int n =
        snprintf(text, sizeof text,
                 "%d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, (int)w->kind,
                 w->prompt, w->position, w->tokens, w->context, w->weight_bits, w->activation_bits, w->allow_host_ops);
    SHA256Update(hash, (const uint8_t *)text, (size_t)n);
    for (size_t i = 0; i < w->dims.count; i++) {
        n = snprintf(text, sizeof text, " %" PRId64 " ", w->dims.data[i].extent);
        SHA256Update(hash, (const uint8_t *)text, (size_t)n);
        SHA256Update(hash, (const uint8_t *)w->dims.data[i].name, strlen(w->dims.data[i].name) + 1);
    }
}

tv_status tv_context_digest(const sweep_context *c, size_t i, const tv_diag_sink *sink, char *digest)
{
    const spec_workload *w = &c->spec->workloads.data[i];
    const char *path;
    SHA2_CTX hash;
    SHA256Init(&hash);
    add_keys(&hash, w);
    TV_TRY(add_file(&hash, w->path, sink));
    for (uint64_t k = 0; c->workloads[i].program && tv_program_input_at(c->workloads[i].program, k, &path); k++)
        if (strcmp(path, w->path) != 0)
            TV_TRY(add_file(&hash, path, sink));
    SHA256End(&hash, digest);
    return TV_OK;
}

/* ---- Runs ---- */

/* Keeps the first error. */
static void keep_reason(void *user, const tv_diag *diag)
{
    sweep_result *r = user;
    if (diag->severity == TV_ERROR && !r->reason[0])
        snprintf(r->reason, sizeof r->reason, "%s [%s]", diag->message, diag->code);
}

static tv_status write_stats(const tv_stats *stats, char **out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    tv_json_writer *writer = file ? tv_json_writer_new(file, TV_JSON_COMPACT) : NULL;
    if (writer) {
        tv_json_begin_object(writer);
        (void)tv_stats_write_json(writer, stats);
        tv_json_end_object(writer);
    }
    bool good = writer && tv_json_writer_finish(writer);
    tv_json_writer_free(writer);
    good = file && fclose(file) == 0 && good;
    if (!good) {
        free(text);
        return TV_ERR_MEMORY;
    }
    while (size && text[size - 1] == '\n')
        text[--size] = '\0';
    *out = text;
    return TV_OK;
}

static tv_status read_stats(const tv_machine *machine, sweep_result *out)
{
    tv_stats *stats = calloc(1, sizeof *stats);
    if (!stats)
        return TV_ERR_MEMORY;
    stats->size = sizeof *stats;
    tv_status status = tv_machine_stats(machine, stats);
    out->cycles = stats->cycles;
    out->clock_hz = stats->clock_hz;
    out->macs = stats->macs;
    out->instructions = stats->instructions;
    const tv_energy total = tv_machine_energy_total(machine);
    out->energy_low = tv_joules_value(total.low);
    out->energy = tv_joules_value(total.nominal);
    out->energy_high = tv_joules_value(total.high);
    for (unsigned i = 0; i < stats->path_count; i++)
        out->bytes += stats->paths[i].bytes;
    snprintf(out->bound_by, sizeof out->bound_by, "%s", stats->bound_by);
    if (status == TV_OK)
        status = write_stats(stats, &out->stats);
    free(stats);
    return status;
}

static tv_status run_program(const opened *w, const tv_config *config, const tv_diag_sink *sink, sweep_result *out)
{
    tv_machine *machine;
    TV_TRY(tv_machine_new(config, TV_MODE_TIMING, sink, &machine));
    tv_status status = tv_machine_load(machine, w->program, sink);
    if (status == TV_OK)
        status = tv_machine_run(machine, NULL, NULL);
    if (status == TV_FAULT)
        snprintf(out->reason, sizeof out->reason, "%s [%s]", tv_machine_fault(machine)->message,
                 tv_machine_fault(machine)->code);
    if (status == TV_OK)
        status = read_stats(machine, out);
    tv_machine_free(machine);
    return status;
}

static tv_status run_network(const sweep_context *c, const spec_workload *w, const opened *o, const tv_config *config,
                             const tv_diag_sink *sink, sweep_result *out)
{
    tv_network_session *session;
    tv_network_session_options options = {.size = sizeof options,
                                          .target = tv_config_target(config),
                                          .config = config,
                                          .weight_bits = (unsigned)w->weight_bits,
                                          .timing_only = 1,
                                          .allow_host_ops = (int)w->allow_host_ops};
    TV_TRY(c->services->new_network_session(o->network, &options, sink, &session));
    tv_status status = tv_network_session_run(session, sink);
    if (status == TV_OK)
        status = read_stats(tv_network_session_machine(session), out);
    tv_network_session_free(session);
    return status;
}

static tv_status run_model(const sweep_context *c, const spec_workload *w, const opened *o, const tv_config *config,
                           const tv_diag_sink *sink, sweep_result *out)
{
    tv_llm_session *session;
    uint64_t positions = w->prompt + w->position + w->tokens;
    tv_llm_options options = {.size = sizeof options,
                              .target = tv_config_target(config),
                              .config = config,
                              .context = (uint32_t)(w->context ? w->context : positions),
                              .weight_bits = (unsigned)w->weight_bits,
                              .activation_bits = (unsigned)w->activation_bits,
                              .timing_only = 1,
                              .allow_host_ops = (int)w->allow_host_ops};
    TV_TRY(c->services->new_model_session(o->model, &options, sink, &session));
    tv_llm_summary summary = {.size = sizeof summary};
    tv_status status = tv_llm_skip(session, (uint32_t)w->position, sink);
    if (status == TV_OK)
        status = tv_llm_time(session, (uint32_t)w->prompt, (uint32_t)w->tokens, sink);
    if (status == TV_OK)
        status = tv_llm_session_summary(session, &summary);
    if (status == TV_OK)
        status = read_stats(summary.machine, out);
    out->tokens = summary.tokens;
    out->token_cycles = summary.cycles;
    tv_llm_session_free(session);
    return status;
}

tv_status tv_context_run(sweep_context *c, size_t i, const tv_config *config, sweep_result *out)
{
    const spec_workload *w = &c->spec->workloads.data[i];
    const opened *o = &c->workloads[i];
    *out = (sweep_result){.outcome = OUTCOME_OK};
    tv_diag_sink sink = {keep_reason, out};
    tv_status status = tv_config_check(config, &sink);
    if (status == TV_OK)
        status = w->kind == WORKLOAD_PROGRAM   ? run_program(o, config, &sink, out)
                 : w->kind == WORKLOAD_NETWORK ? run_network(c, w, o, config, &sink, out)
                                               : run_model(c, w, o, config, &sink, out);
    if (status == TV_ERR_INPUT || status == TV_FAULT) {
        free(out->stats);
        sweep_result failed = {.outcome = status == TV_FAULT ? OUTCOME_FAULT : OUTCOME_INVALID};
        memcpy(failed.reason, out->reason, sizeof failed.reason);
        *out = failed;
        return TV_OK;
    }
    if (status != TV_OK) {
        free(out->stats);
        out->stats = NULL;
    }
    return status;
}
