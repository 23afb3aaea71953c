/* SPDX-License-Identifier: Apache-2.0 */
/* Measured programs on the model. */
#include <math.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/schema.h"
#include "sweep/measurements.h"
#include "sweep/validation.h"
#include "trivet/machine.h"

/* ---- One case ---- */

static tv_source_loc location_of(const tv_validation *v, uint64_t i)
{
    tv_measurement row;
    tv_measurements_at(v->measurements, i, &row);
    return (tv_source_loc){.file = tv_measurements_name(v->measurements), .line = row.line, .index = -1};
}

/* Sums the bytes of the paths `names`, separated by `+`; NULL: of all. Sets *unknown to a name that is no path. */
static double sum_bytes(const tv_stats *stats, const char *names, tv_sv *unknown)
{
    double sum = 0;
    for (unsigned p = 0; !names && p < stats->path_count; p++)
        sum += (double)stats->paths[p].bytes;
    while (names) {
        tv_sv name = {names, strcspn(names, "+")};
        unsigned p = 0;
        while (p < stats->path_count && !tv_sv_is(name, stats->paths[p].name))
            p++;
        if (p == stats->path_count) {
            *unknown = name;
            return NAN;
        }
        sum += (double)stats->paths[p].bytes;
        names = name.ptr[name.len] ? name.ptr + name.len + 1 : NULL;
    }
    return sum;
}

static tv_status reject_path(const tv_validation *v, const tv_stats *stats, tv_sv name, const tv_diag_sink *sink)
{
    char hint[256] = "its paths are";
    tv_source_loc loc = {.file = tv_measurements_name(v->measurements), .line = 0, .index = -1};
    for (unsigned p = 0; p < stats->path_count; p++) {
        size_t n = strlen(hint);
        snprintf(hint + n, sizeof hint - n, "%s %s", p ? "," : "", stats->paths[p].name);
    }
    tv_report(sink, TV_ERROR, TV_CODE(MEASUREMENTS), &loc, hint, "column 'bytes:': the machine has no path '%.*s'",
              (int)(name.len < 60 ? name.len : 60), name.ptr);
    return TV_ERR_INPUT;
}

static double error_percent(double modelled, double measured) { return 100 * (modelled - measured) / measured; }

static tv_status compare_case(const tv_validation *v, uint64_t i, const tv_stats *stats, const tv_diag_sink *sink,
                              tv_validation_case *out)
{
    tv_measurement row;
    tv_sv unknown = {0};
    tv_measurements_at(v->measurements, i, &row);
    double bytes = sum_bytes(stats, tv_measurements_paths(v->measurements), &unknown);
    if (unknown.ptr)
        return reject_path(v, stats, unknown, sink);
    out->measured = isnan(row.cycles) ? row.seconds * stats->clock_hz : row.cycles;
    out->modelled = (double)stats->cycles;
    out->error = error_percent(out->modelled, out->measured);
    out->measured_bytes = row.bytes;
    out->modelled_bytes = bytes;
    out->bytes_error = error_percent(bytes, row.bytes);
    return TV_OK;
}

/* tv_machine_run, which reports no diagnostics. */
static tv_status run_machine(tv_machine *machine, const tv_diag_sink *sink)
{
    tv_status status = tv_machine_run(machine, NULL, NULL);
    return status == TV_ERR_MEMORY ? tv_fail_memory(sink) : status;
}

tv_status tv_validation_run_case(const tv_validation *validation, uint64_t i, const tv_config *config,
                                 const tv_diag_sink *sink, tv_validation_case *out)
{
    tv_machine *machine = NULL;
    tv_stats stats = {.size = sizeof stats};
    tv_status status = tv_machine_new(config, TV_MODE_TIMING, sink, &machine);
    if (status == TV_OK)
        status = tv_machine_load(machine, validation->programs[i], sink);
    if (status == TV_OK)
        status = run_machine(machine, sink);
    if (status == TV_FAULT) {
        tv_source_loc loc = location_of(validation, i);
        const tv_fault *fault = tv_machine_fault(machine);
        tv_report(sink, TV_ERROR, TV_CODE(NOT_MODELLED), &loc, "`trivet run` shows the fault",
                  "the program faults at instruction %llu: %s [%s]", (unsigned long long)fault->index, fault->message,
                  fault->code);
        status = TV_ERR_INPUT;
    }
    if (status == TV_OK)
        status = tv_machine_stats(machine, &stats);
    if (status == TV_OK)
        status = compare_case(validation, i, &stats, sink, out);
    tv_machine_free(machine);
    return status;
}

/* ---- All cases ---- */

static int compare_measured(const void *a, const void *b)
{
    const tv_validation_case *x = *(tv_validation_case *const *)a, *y = *(tv_validation_case *const *)b;
    int order = (x->measured > y->measured) - (x->measured < y->measured);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Sorts the cases by their measured cycles; every second one is fitted, the smallest one first. */
static tv_status assign_halves(tv_validation *v, const tv_diag_sink *sink)
{
    tv_validation_case **order = calloc((size_t)v->count, sizeof(tv_validation_case *));
    if (!order)
        return tv_fail_memory(sink);
    for (uint64_t i = 0; i < v->count; i++)
        order[i] = &v->cases[i];
    qsort(order, (size_t)v->count, sizeof *order, compare_measured);
    for (uint64_t i = 0; i < v->count; i++)
        order[i]->fitted = i % 2 == 0;
    free(order);
    return TV_OK;
}

static tv_status check_target(const tv_validation *v, uint64_t i, const tv_diag_sink *sink)
{
    const char *target = tv_program_target(v->programs[i]), *machine = tv_config_target(v->config);
    if (strcmp(target, machine) == 0)
        return TV_OK;
    tv_source_loc loc = location_of(v, i);
    tv_report(sink, TV_ERROR, TV_CODE(MACHINE_TARGET), &loc, "write one table for each machine",
              "the program is for %s, the configuration for %s", target, machine);
    return TV_ERR_INPUT;
}

static tv_status run_cases(tv_validation *v, const tv_diag_sink *sink)
{
    for (uint64_t i = 0; i < v->count; i++) {
        tv_measurement row;
        tv_measurements_at(v->measurements, i, &row);
        v->cases[i] = (tv_validation_case){.name = row.name, .line = row.line};
        TV_TRY(check_target(v, i, sink));
        TV_TRY(tv_validation_run_case(v, i, v->config, sink, &v->cases[i]));
    }
    return assign_halves(v, sink);
}

tv_status tv_validation_new(const tv_measurements *measurements, const tv_program *const *programs,
                            const tv_config *config, const tv_diag_sink *sink, tv_validation **out)
{
    tv_validation *v = calloc(1, sizeof *v);
    if (!v)
        return tv_fail_memory(sink);
    v->measurements = measurements;
    v->count = tv_measurements_count(measurements);
    v->cases = calloc((size_t)v->count, sizeof *v->cases);
    v->programs = calloc((size_t)v->count, sizeof(const tv_program *));
    tv_status status = v->cases && v->programs ? TV_OK : tv_fail_memory(sink);
    if (status == TV_OK) {
        memcpy(v->programs, programs, (size_t)v->count * sizeof *programs);
        status = tv_config_copy(config, sink, &v->config);
    }
    if (status == TV_OK)
        status = run_cases(v, sink);
    if (status == TV_OK)
        *out = v;
    else
        tv_validation_free(v);
    return status;
}

void tv_validation_free(tv_validation *validation)
{
    if (!validation)
        return;
    tv_config_free(validation->config);
    free(validation->programs);
    free(validation->cases);
    free(validation);
}

/* ---- Results ---- */

int tv_validation_case_at(const tv_validation *validation, uint64_t i, tv_validation_case *out)
{
    if (i >= validation->count)
        return 0;
    *out = validation->cases[i];
    return 1;
}

static bool is_in_set(const tv_validation_case *c, tv_validation_set set)
{
    return set == TV_VALIDATION_ALL || (set == TV_VALIDATION_FITTED) == (c->fitted != 0);
}

static tv_status compute_accuracy(const tv_validation *v, tv_validation_set set, bool bytes, const tv_diag_sink *sink,
                                  tv_accuracy *out)
{
    size_t count = (size_t)v->count, n = 0;
    double *values = calloc(count, 2 * sizeof *values);
    uint64_t *indices = calloc(count, sizeof *indices);
    tv_status status = values && indices ? TV_OK : tv_fail_memory(sink);
    for (size_t i = 0; status == TV_OK && i < count; i++) {
        const tv_validation_case *c = &v->cases[i];
        if (!is_in_set(c, set) || (bytes && isnan(c->measured_bytes)))
            continue;
        values[n] = bytes ? c->measured_bytes : c->measured;
        values[count + n] = bytes ? c->modelled_bytes : c->modelled;
        indices[n++] = i;
    }
    if (status == TV_OK)
        status = tv_accuracy_compute(values, values + count, n, sink, out);
    if (status == TV_OK && n)
        out->worst_index = indices[out->worst_index];
    free(values);
    free(indices);
    return status;
}

tv_status tv_validation_cycles(const tv_validation *validation, tv_validation_set set, const tv_diag_sink *sink,
                               tv_accuracy *out)
{
    return compute_accuracy(validation, set, false, sink, out);
}

tv_status tv_validation_bytes(const tv_validation *validation, tv_validation_set set, const tv_diag_sink *sink,
                              tv_accuracy *out)
{
    return compute_accuracy(validation, set, true, sink, out);
}

int tv_validation_parameter_at(const tv_validation *validation, unsigned i, tv_fitted_parameter *out)
{
    if (i >= validation->parameter_count)
        return 0;
    const fitted_value *p = &validation->parameters[i];
    *out = (tv_fitted_parameter){p->key, p->before, p->after};
    return 1;
}

uint64_t tv_validation_configurations(const tv_validation *validation) { return validation->configurations; }

const tv_config *tv_validation_config(const tv_validation *validation) { return validation->config; }
