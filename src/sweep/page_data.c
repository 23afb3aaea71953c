/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a sweep's page (page.h). The target is a parameter if there are several, and a parameter that a target
 * does not vary has the value "-" there. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/json_writer.h"
#include "sweep/page.h"
#include "sweep/sweep.h"

enum { DIGITS = 12, REPORTS_MAX = 2000 }; /* points with statistics: the page stays of a size that a browser opens */

typedef struct page_values {
    TV_VEC(const char *) texts;
} page_values;

typedef struct page_data {
    const tv_sweep *sweep;
    page_values *columns; /* of each parameter */
    unsigned column_count;
    bool has_targets; /* several: the first parameter */
} page_data;

static unsigned find_value(const page_values *v, const char *text)
{
    unsigned i = 0;
    while (i < v->texts.count && strcmp(v->texts.data[i], text) != 0)
        i++;
    return i;
}

static bool add_value(page_values *v, const char *text)
{
    return find_value(v, text) < v->texts.count || TV_VEC_PUSH(&v->texts, text);
}

static bool list_values(page_data *p)
{
    const sweep_spec *spec = &p->sweep->spec;
    for (unsigned c = 0; c < p->column_count; c++)
        for (unsigned t = 0; t < spec->targets.count; t++) {
            int d = p->sweep->columns.data[c].dims[t];
            if (d < 0 && !add_value(&p->columns[c], "-"))
                return false;
            const spec_parameter *parameter = d < 0 ? NULL : &spec->targets.data[t].parameters.data[d];
            for (size_t i = 0; parameter && i < parameter->texts.count; i++)
                if (!add_value(&p->columns[c], parameter->texts.data[i]))
                    return false;
        }
    return true;
}

static void write_parameter(tv_json_writer *w, const char *name, const page_values *values)
{
    tv_json_begin_object(w);
    tv_json_key(w, "name");
    tv_json_write_string(w, name);
    tv_json_key(w, "values");
    tv_json_begin_array(w);
    for (size_t i = 0; i < values->texts.count; i++)
        tv_json_write_string(w, values->texts.data[i]);
    tv_json_end_array(w);
    tv_json_end_object(w);
}

static bool write_parameters(page_data *p, tv_json_writer *w)
{
    page_values targets = {.texts = {0}};
    bool good = true;
    for (unsigned t = 0; t < p->sweep->spec.targets.count; t++)
        good = good && add_value(&targets, p->sweep->spec.targets.data[t].name);
    tv_json_key(w, "parameters");
    tv_json_begin_array(w);
    if (p->has_targets)
        write_parameter(w, "target", &targets);
    for (unsigned c = 0; c < p->column_count; c++)
        write_parameter(w, p->sweep->columns.data[c].key, &p->columns[c]);
    tv_json_end_array(w);
    TV_VEC_FINI(&targets.texts);
    return good;
}

static void write_objectives(const page_data *p, tv_json_writer *w)
{
    static const char *const units[POINT_SUMS + 1] = {"cycles", "s",   "bytes",    "MACs", "instructions",
                                                      "J",      "J s", "tokens/s", ""};
    tv_json_key(w, "objectives");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < p->sweep->spec.objective_count; i++) {
        const spec_objective *o = &p->sweep->spec.objectives[i];
        tv_json_begin_object(w);
        tv_json_key(w, "name");
        tv_json_write_string(w, o->name);
        tv_json_key(w, "unit");
        tv_json_write_string(w, units[o->sum]);
        tv_json_key(w, "goal");
        tv_json_write_string(w, o->maximize ? "max" : "min");
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_reports(const page_data *p, uint64_t n, tv_json_writer *w)
{
    const char *name;
    tv_sweep_run_result r;
    tv_json_key(w, "reports");
    tv_json_begin_array(w);
    for (unsigned i = 0; (name = tv_sweep_workload_name(p->sweep, i)); i++) {
        if (!tv_sweep_result_at(p->sweep, n, i, &r) || !r.stats)
            continue;
        tv_json_begin_object(w);
        tv_json_key(w, "workload");
        tv_json_write_string(w, name);
        tv_json_key(w, "stats");
        tv_json_write_raw(w, tv_sv_of(r.stats));
        tv_json_end_object(w);
    }
    tv_json_end_array(w);
}

static void write_point(const page_data *p, uint64_t n, const tv_sweep_point *point, bool with_reports,
                        tv_json_writer *w)
{
    const sweep_point *own = &p->sweep->points.data[n];
    bool failed = own->failed;
    tv_json_begin_object(w);
    tv_json_key(w, "id");
    tv_json_write_unsigned(w, n);
    tv_json_key(w, "values");
    tv_json_begin_array(w);
    if (p->has_targets)
        tv_json_write_unsigned(w, own->target);
    for (unsigned c = 0; c < p->column_count; c++) {
        const char *value = tv_sweep_value(p->sweep, n, c);
        tv_json_write_unsigned(w, find_value(&p->columns[c], value ? value : "-"));
    }
    tv_json_end_array(w);
    tv_json_key(w, "objectives");
    if (failed) {
        tv_json_write_null(w);
    } else {
        tv_json_begin_array(w);
        for (unsigned i = 0; i < p->sweep->spec.objective_count; i++)
            tv_json_write_real(w, point->objectives[i], DIGITS);
        tv_json_end_array(w);
    }
    tv_json_key(w, "failure");
    if (failed)
        tv_json_write_string(w, point->reason);
    else
        tv_json_write_null(w);
    if (with_reports)
        write_reports(p, n, w);
    tv_json_end_object(w);
}

static void write_points(const page_data *p, tv_json_writer *w)
{
    tv_sweep_point point;
    bool is_small = p->sweep->points.count <= REPORTS_MAX;
    tv_json_key(w, "points");
    tv_json_begin_array(w);
    for (uint64_t n = 0; tv_sweep_point_at(p->sweep, n, &point); n++)
        write_point(p, n, &point, is_small || point.on_front, w);
    tv_json_end_array(w);
}

static bool write_page_data(page_data *p, const char *title, FILE *file)
{
    static const char *const kinds[] = {
        [TV_SEARCH_EXHAUSTIVE] = "exhaustive", [TV_SEARCH_RANDOM] = "random", [TV_SEARCH_NSGA2] = "nsga2"};
    char search[64];
    tv_json_writer *w = tv_json_writer_new(file, TV_JSON_COMPACT);
    if (!w)
        return false;
    snprintf(search, sizeof search, "%s, %zu points", kinds[p->sweep->spec.search.kind], p->sweep->points.count);
    tv_json_begin_object(w);
    tv_json_key(w, "format");
    tv_json_write_unsigned(w, 1);
    tv_json_key(w, "version");
    tv_json_write_string(w, tv_version());
    tv_json_key(w, "title");
    tv_json_write_string(w, title);
    tv_json_key(w, "search");
    tv_json_write_string(w, search);
    tv_json_key(w, "total");
    tv_json_write_unsigned(w, tv_sweep_total(p->sweep));
    bool good = write_parameters(p, w);
    write_objectives(p, w);
    write_points(p, w);
    tv_json_end_object(w);
    good = tv_json_writer_finish(w) && good;
    tv_json_writer_free(w);
    return good;
}

tv_status tv_sweep_write_page(const tv_sweep *sweep, const char *title, FILE *file, const tv_diag_sink *sink)
{
    page_data p = {
        .sweep = sweep, .column_count = (unsigned)sweep->columns.count, .has_targets = sweep->spec.targets.count > 1};
    char *json = NULL;
    size_t length = 0;
    p.columns = calloc(p.column_count ? p.column_count : 1, sizeof *p.columns);
    FILE *memory = open_memstream(&json, &length);
    bool good = p.columns && memory && list_values(&p) && write_page_data(&p, title, memory);
    good = memory && fclose(memory) == 0 && good;
    tv_status status = good ? tv_sweep_page_write(json, length, title, file, sink) : tv_fail_memory(sink);
    for (unsigned c = 0; p.columns && c < p.column_count; c++)
        TV_VEC_FINI(&p.columns[c].texts);
    free(p.columns);
    free(json);
    return status;
}
