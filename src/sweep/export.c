/* SPDX-License-Identifier: Apache-2.0 */
/* The points of a sweep as CSV and JSON: in the order of the space, with numbers that read back as they are. */
#include <inttypes.h>
#include <math.h>

#include "base/c_locale.h"
#include "sweep/sweep.h"

enum { DIGITS = 17 };

static void print_cell(FILE *file, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++)
        fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, file);
    fputc('"', file);
}

static void print_head(const tv_sweep *sweep, FILE *file)
{
    const char *name;
    fputs("target", file);
    for (unsigned i = 0; (name = tv_sweep_parameter_name(sweep, i)); i++)
        fprintf(file, ",%s", name);
    fputs(",outcome,reason", file);
    for (unsigned i = 0; (name = tv_sweep_objective_name(sweep, i)); i++)
        fprintf(file, ",%s", name);
    fputs(",front", file);
    for (unsigned i = 0; (name = tv_sweep_workload_name(sweep, i)); i++)
        fprintf(file, ",cycles:%s,energy_low:%s,energy:%s,energy_high:%s", name, name, name, name);
    fputc('\n', file);
}

void tv_sweep_write_csv(const tv_sweep *sweep, FILE *file)
{
    tv_sweep_point p;
    tv_sweep_run_result r;
    tv_c_locale locale = tv_c_locale_begin();
    print_head(sweep, file);
    for (uint64_t n = 0; tv_sweep_point_at(sweep, n, &p); n++) {
        fputs(p.target, file);
        for (unsigned i = 0; tv_sweep_parameter_name(sweep, i); i++) {
            const char *value = tv_sweep_value(sweep, n, i);
            fputc(',', file);
            print_cell(file, value ? value : "");
        }
        fprintf(file, ",%s,", p.outcome);
        print_cell(file, p.reason);
        for (unsigned i = 0; tv_sweep_objective_name(sweep, i); i++) {
            fputc(',', file);
            if (!isnan(p.objectives[i]))
                fprintf(file, "%.*g", DIGITS, p.objectives[i]);
        }
        fprintf(file, ",%d", p.on_front);
        for (unsigned i = 0; tv_sweep_workload_name(sweep, i); i++) {
            if (tv_sweep_result_at(sweep, n, i, &r) && strcmp(r.outcome, "ok") == 0)
                fprintf(file, ",%" PRIu64 ",%.*g,%.*g,%.*g", r.cycles, DIGITS, r.energy_low, DIGITS, r.energy, DIGITS,
                        r.energy_high);
            else
                fputs(",,,,", file);
        }
        fputc('\n', file);
    }
    tv_c_locale_end(locale);
}

/* ---- JSON ---- */

static void write_names(const tv_sweep *sweep, const char *key, const char *(*name_at)(const tv_sweep *, unsigned),
                        tv_json_writer *w)
{
    const char *name;
    tv_json_key(w, key);
    tv_json_begin_array(w);
    for (unsigned i = 0; (name = name_at(sweep, i)); i++)
        tv_json_write_string(w, name);
    tv_json_end_array(w);
}

/* In joules. */
static void write_energy(const tv_sweep_run_result *r, tv_json_writer *w)
{
    tv_json_key(w, "energy");
    tv_json_begin_object(w);
    tv_json_key(w, "low");
    tv_json_write_real(w, r->energy_low, DIGITS);
    tv_json_key(w, "nominal");
    tv_json_write_real(w, r->energy, DIGITS);
    tv_json_key(w, "high");
    tv_json_write_real(w, r->energy_high, DIGITS);
    tv_json_end_object(w);
}

static void write_result(const tv_sweep_run_result *r, tv_json_writer *w)
{
    static const char *const keys[] = {"cycles", "bytes", "macs", "instructions", "tokens", "token_cycles"};
    const uint64_t values[] = {r->cycles, r->bytes, r->macs, r->instructions, r->tokens, r->token_cycles};
    tv_json_begin_object(w);
    tv_json_key(w, "outcome");
    tv_json_write_string(w, r->outcome);
    for (unsigned i = 0; strcmp(r->outcome, "ok") == 0 && i < TV_COUNTOF(keys); i++) {
        tv_json_key(w, keys[i]);
        tv_json_write_unsigned(w, values[i]);
    }
    if (strcmp(r->outcome, "ok") == 0) {
        tv_json_key(w, "clock_hz");
        tv_json_write_real(w, r->clock_hz, DIGITS);
        tv_json_key(w, "bound_by");
        tv_json_write_string(w, r->bound_by);
        write_energy(r, w);
    } else {
        tv_json_key(w, "reason");
        tv_json_write_string(w, r->reason);
    }
    tv_json_end_object(w);
}

static void write_point(const tv_sweep *sweep, uint64_t n, const tv_sweep_point *p, tv_json_writer *w)
{
    const char *name;
    tv_sweep_run_result r;
    tv_json_begin_object(w);
    tv_json_key(w, "target");
    tv_json_write_string(w, p->target);
    tv_json_key(w, "values");
    tv_json_begin_object(w);
    for (unsigned i = 0; (name = tv_sweep_parameter_name(sweep, i)); i++) {
        const char *value = tv_sweep_value(sweep, n, i);
        if (!value)
            continue;
        tv_json_key(w, name);
        tv_json_write_string(w, value);
    }
    tv_json_end_object(w);
    tv_json_key(w, "outcome");
    tv_json_write_string(w, p->outcome);
    tv_json_key(w, "objectives");
    tv_json_begin_array(w);
    for (unsigned i = 0; tv_sweep_objective_name(sweep, i); i++)
        if (isnan(p->objectives[i]))
            tv_json_write_null(w);
        else
            tv_json_write_real(w, p->objectives[i], DIGITS);
    tv_json_end_array(w);
    tv_json_key(w, "front");
    tv_json_write_boolean(w, p->on_front);
    tv_json_key(w, "results");
    tv_json_begin_object(w);
    for (unsigned i = 0; (name = tv_sweep_workload_name(sweep, i)); i++)
        if (tv_sweep_result_at(sweep, n, i, &r)) {
            tv_json_key(w, name);
            write_result(&r, w);
        }
    tv_json_end_object(w);
    tv_json_end_object(w);
}

void tv_sweep_write_json(const tv_sweep *sweep, tv_json_writer *w)
{
    tv_sweep_point p;
    tv_json_begin_object(w);
    write_names(sweep, "objectives", tv_sweep_objective_name, w);
    write_names(sweep, "parameters", tv_sweep_parameter_name, w);
    write_names(sweep, "workloads", tv_sweep_workload_name, w);
    tv_json_key(w, "points");
    tv_json_begin_array(w);
    for (uint64_t n = 0; tv_sweep_point_at(sweep, n, &p); n++)
        write_point(sweep, n, &p, w);
    tv_json_end_array(w);
    tv_json_end_object(w);
}
