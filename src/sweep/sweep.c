/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps: opening, and what a caller reads of one. */
#include "sweep/sweep.h"

#include <math.h>
#include <stdlib.h>

#include "base/diag.h"

bool tv_sweep_runs_on(const tv_sweep *sweep, size_t w, unsigned t)
{
    const char *target = tv_context_target(sweep->first, w);
    return !target || strcmp(target, sweep->spec.targets.data[t].name) == 0;
}

/* ---- Opening ---- */

static tv_status list_columns(tv_sweep *sweep)
{
    for (unsigned t = 0; t < sweep->spec.targets.count; t++) {
        const spec_target *target = &sweep->spec.targets.data[t];
        for (unsigned d = 0; d < target->parameters.count; d++) {
            const char *key = target->parameters.data[d].key;
            size_t i = 0;
            while (i < sweep->columns.count && strcmp(sweep->columns.data[i].key, key) != 0)
                i++;
            if (i == sweep->columns.count) {
                sweep_column column = {.key = key};
                for (unsigned k = 0; k < SPEC_TARGETS_MAX; k++)
                    column.dims[k] = -1;
                if (!TV_VEC_PUSH(&sweep->columns, column))
                    return TV_ERR_MEMORY;
            }
            sweep->columns.data[i].dims[t] = (int)d;
        }
    }
    return TV_OK;
}

/* Each workload must run somewhere, and each target run something. */
static tv_status check_targets(tv_sweep *sweep, const tv_diag_sink *sink)
{
    sweep_spec *spec = &sweep->spec;
    spec->sink = sink;
    for (size_t w = 0; w < spec->workloads.count; w++) {
        bool runs = false;
        for (unsigned t = 0; t < spec->targets.count; t++)
            runs = runs || tv_sweep_runs_on(sweep, w, t);
        if (!runs)
            tv_spec_reject(spec, spec->workloads.data[w].line, "add a section for that target",
                           "workload '%s' is for %s, which the sweep does not have", spec->workloads.data[w].name,
                           tv_context_target(sweep->first, w));
    }
    for (unsigned t = 0; t < spec->targets.count; t++) {
        bool runs = false;
        for (size_t w = 0; w < spec->workloads.count; w++)
            runs = runs || tv_sweep_runs_on(sweep, w, t);
        if (!runs)
            tv_spec_reject(spec, spec->targets.data[t].line, NULL, "no workload runs on %s",
                           spec->targets.data[t].name);
    }
    bool has_tokens = true;
    for (size_t w = 0; w < spec->workloads.count; w++)
        has_tokens = has_tokens && spec->workloads.data[w].tokens;
    for (unsigned i = 0; i < spec->objective_count; i++)
        if (spec->objectives[i].sum == SUM_TOKENS_PER_SECOND && !has_tokens)
            tv_spec_reject(spec, 1, "tokens = 1 in each workload, or another objective",
                           "a workload generates no tokens, so that there are no tokens/s");
    return spec->status;
}

tv_status tv_sweep_open_with(const char *path, const sweep_services *services, const tv_diag_sink *sink, tv_sweep **out)
{
    tv_sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return tv_fail_memory(sink);
    sweep->services = services;
    sweep->spec.new_config = services->new_config;
    tv_status status = tv_spec_read(&sweep->spec, path, sink);
    if (status == TV_OK)
        status = tv_context_new(&sweep->spec, services, sink, &sweep->first);
    for (size_t i = 0; i < sweep->spec.workloads.count && status == TV_OK; i++)
        status = tv_context_digest(sweep->first, i, sink, sweep->spec.workloads.data[i].digest);
    if (status == TV_OK)
        status = list_columns(sweep);
    if (status == TV_OK)
        status = check_targets(sweep, sink);
    if (status != TV_OK) {
        tv_sweep_free(sweep);
        return status;
    }
    *out = sweep;
    return TV_OK;
}

void tv_sweep_clear_points(tv_sweep *sweep)
{
    for (size_t i = 0; i < sweep->points.count; i++) {
        sweep_point *p = &sweep->points.data[i];
        for (size_t w = 0; p->results && w < sweep->spec.workloads.count; w++)
            free(p->results[w].stats);
        free(p->results);
    }
    sweep->points.count = 0;
}

void tv_sweep_free(tv_sweep *sweep)
{
    if (!sweep)
        return;
    tv_sweep_clear_points(sweep);
    TV_VEC_FINI(&sweep->points);
    TV_VEC_FINI(&sweep->columns);
    tv_context_free(sweep->first);
    tv_spec_fini(&sweep->spec);
    free(sweep);
}

/* ---- Reading ---- */

uint64_t tv_sweep_total(const tv_sweep *sweep)
{
    uint64_t total = 0;
    for (size_t t = 0; t < sweep->spec.targets.count; t++)
        total += tv_search_space_total(&sweep->spec.targets.data[t].space);
    return total;
}

const char *tv_sweep_objective_name(const tv_sweep *sweep, unsigned i)
{
    return i < sweep->spec.objective_count ? sweep->spec.objectives[i].name : NULL;
}

const char *tv_sweep_parameter_name(const tv_sweep *sweep, unsigned i)
{
    return i < sweep->columns.count ? sweep->columns.data[i].key : NULL;
}

const char *tv_sweep_workload_name(const tv_sweep *sweep, unsigned i)
{
    return i < sweep->spec.workloads.count ? sweep->spec.workloads.data[i].name : NULL;
}

/* The first result that is not ok, or the first one at all. */
static const sweep_result *first_failure(const tv_sweep *sweep, const sweep_point *p)
{
    for (size_t w = 0; w < sweep->spec.workloads.count; w++)
        if (tv_sweep_runs_on(sweep, w, p->target) && p->results[w].outcome != OUTCOME_OK)
            return &p->results[w];
    return NULL;
}

int tv_sweep_point_at(const tv_sweep *sweep, uint64_t i, tv_sweep_point *out)
{
    if (i >= sweep->points.count)
        return 0;
    const sweep_point *p = &sweep->points.data[i];
    static const char no_number[] = "an objective is not a finite number";
    const sweep_result *failure = first_failure(sweep, p);
    sweep_outcome outcome = failure ? failure->outcome : p->failed ? OUTCOME_INVALID : OUTCOME_OK;
    *out = (tv_sweep_point){.target = sweep->spec.targets.data[p->target].name,
                            .outcome = tv_outcome_name(outcome),
                            .reason = failure     ? failure->reason
                                      : p->failed ? no_number
                                                  : "",
                            .on_front = p->on_front};
    memcpy(out->objectives, p->objectives, sizeof out->objectives);
    return 1;
}

const char *tv_sweep_value(const tv_sweep *sweep, uint64_t point, unsigned parameter)
{
    uint32_t values[TV_SEARCH_DIMS_MAX];
    if (point >= sweep->points.count || parameter >= sweep->columns.count)
        return NULL;
    const sweep_point *p = &sweep->points.data[point];
    int d = sweep->columns.data[parameter].dims[p->target];
    if (d < 0)
        return NULL;
    const spec_target *target = &sweep->spec.targets.data[p->target];
    tv_search_space_decode(&target->space, p->id, values);
    return target->parameters.data[d].texts.data[values[d]];
}

int tv_sweep_result_at(const tv_sweep *sweep, uint64_t point, unsigned workload, tv_sweep_run_result *out)
{
    if (point >= sweep->points.count || workload >= sweep->spec.workloads.count ||
        !tv_sweep_runs_on(sweep, workload, sweep->points.data[point].target))
        return 0;
    const sweep_result *r = &sweep->points.data[point].results[workload];
    *out = (tv_sweep_run_result){.outcome = tv_outcome_name(r->outcome),
                                 .reason = r->reason,
                                 .cycles = r->cycles,
                                 .bytes = r->bytes,
                                 .macs = r->macs,
                                 .instructions = r->instructions,
                                 .tokens = r->tokens,
                                 .token_cycles = r->token_cycles,
                                 .clock_hz = r->clock_hz,
                                 .bound_by = r->bound_by,
                                 .stats = r->stats,
                                 .energy_low = r->energy_low,
                                 .energy = r->energy,
                                 .energy_high = r->energy_high};
    return 1;
}
