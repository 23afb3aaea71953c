/* SPDX-License-Identifier: Apache-2.0 */
/* Fits parameters to measurements by a pattern search (Hooke and Jeeves) on the logarithms of their values.
 *
 * Each round tries to multiply and divide each parameter by `step`, keeps what lowers the cost, and after a success
 * repeats the whole change once more. A round without a success takes the square root of the step. The cost is the mean
 * square of the relative errors of the fitted half, which is infinite where a program does not run. Nothing is random,
 * so the same table gives the same values. */
#include <math.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "base/diag.h"
#include "base/schema.h"
#include "sweep/validation.h"

#define STEP_FIRST 4.0
#define STEP_LAST 1.004
#define RATE_MIN 0.001 /* rates have three decimals, so that machines find a common unit */

typedef struct parameter {
    const tv_param *row;
    unsigned index; /* in the schema */
} parameter;

typedef struct point {
    double values[TV_FIT_PARAMETERS_MAX]; /* of an enum the number of the value */
    double cost;
} point;

typedef struct search {
    tv_validation *v;
    const tv_fit_options *options;
    const tv_diag_sink *sink;
    parameter parameters[TV_FIT_PARAMETERS_MAX];
    unsigned count;
    uint64_t tried, limit;
    tv_status status; /* only TV_ERR_MEMORY is an error: other configurations count as infinitely bad */
} search;

/* ---- Values ---- */

static double read_value(const tv_config *config, const parameter *p)
{
    tv_rate rate;
    switch (p->row->type) {
    case TV_PARAM_INTEGER:
        return (double)tv_config_integer(config, p->index);
    case TV_PARAM_RATE:
        rate = tv_config_rate(config, p->index);
        return (double)rate.num / rate.den;
    case TV_PARAM_ENUM:
        return tv_config_enum(config, p->index);
    }
    return 0;
}

/* The nearest value that the parameter can have. */
static double round_value(const tv_param *row, double value)
{
    bool is_rate = row->type == TV_PARAM_RATE;
    double low = (double)row->min, high = (double)row->max;
    value = is_rate ? round(value / RATE_MIN) * RATE_MIN : round(value);
    if (is_rate && low < RATE_MIN)
        low = RATE_MIN;
    if (high > 9e15)
        high = 9e15;
    return value < low ? low : value > high ? high : value;
}

static void format_value(const tv_param *row, double value, char text[64])
{
    const char *names = row->unit;
    switch (row->type) {
    case TV_PARAM_INTEGER:
        snprintf(text, 64, "%.0f", value);
        break;
    case TV_PARAM_RATE:
        snprintf(text, 64, "%.3f", value);
        while (text[strlen(text) - 1] == '0')
            text[strlen(text) - 1] = '\0';
        if (text[strlen(text) - 1] == '.')
            text[strlen(text) - 1] = '\0';
        break;
    case TV_PARAM_ENUM:
        for (unsigned i = 0; i < (unsigned)value; i++)
            names += strcspn(names, "|") + 1;
        snprintf(text, 64, "%.*s", (int)strcspn(names, "|"), names);
        break;
    }
}

/* A copy of the configuration with the values of `point`. */
static tv_status make_config(const search *s, const point *at, const tv_diag_sink *sink, tv_config **out)
{
    tv_config *config;
    TV_TRY(tv_config_copy(s->v->config, sink, &config));
    for (unsigned i = 0; i < s->count; i++) {
        char text[64];
        if (at->values[i] == read_value(s->v->config, &s->parameters[i])) /* as it is written */
            continue;
        format_value(s->parameters[i].row, at->values[i], text);
        tv_status status = tv_config_set(config, s->parameters[i].row->key, text, sink);
        if (status != TV_OK) {
            tv_config_free(config);
            return status;
        }
    }
    *out = config;
    return TV_OK;
}

/* ---- The search ---- */

static bool is_exhausted(const search *s) { return s->status != TV_OK || s->tried >= s->limit; }

/* Sets at->cost. */
static void compute_cost(search *s, point *at)
{
    tv_config *config = NULL;
    tv_status status = make_config(s, at, NULL, &config);
    double sum = 0;
    uint64_t cases = 0;
    for (uint64_t i = 0; status == TV_OK && i < s->v->count; i++) {
        tv_validation_case c = s->v->cases[i];
        if (!c.fitted)
            continue;
        status = tv_validation_run_case(s->v, i, config, NULL, &c);
        sum += c.error * c.error;
        cases++;
    }
    tv_config_free(config);
    if (status == TV_ERR_MEMORY)
        s->status = tv_fail_memory(s->sink);
    at->cost = status == TV_OK ? sum / (double)cases : (double)INFINITY;
    s->tried++;
    if (s->options->progress)
        s->options->progress(s->options->user, s->tried, s->limit);
}

/* Replaces *best by it with parameter `i` at `value`, if that lowers the cost. */
static void try_value(search *s, point *best, unsigned i, double value)
{
    point at = *best;
    at.values[i] = round_value(s->parameters[i].row, value);
    if (at.values[i] == best->values[i] || is_exhausted(s))
        return;
    compute_cost(s, &at);
    if (at.cost < best->cost)
        *best = at;
}

/* Tries the neighbours of parameter `i`. */
static void explore_parameter(search *s, point *best, unsigned i, double step)
{
    double value = best->values[i];
    const tv_param *row = s->parameters[i].row;
    if (row->type == TV_PARAM_ENUM) {
        for (uint64_t k = 0; k <= row->max; k++)
            try_value(s, best, i, (double)k);
        return;
    }
    double unit = row->type == TV_PARAM_RATE ? RATE_MIN : 1, cost = best->cost;
    try_value(s, best, i, fmax(value * step, value + unit));
    if (!(best->cost < cost))
        try_value(s, best, i, fmin(value / step, value - unit));
}

/* The point as far beyond `to` as `to` is beyond `from`, in logarithms. */
static point extrapolate(const search *s, const point *from, const point *to)
{
    point at = *to;
    for (unsigned i = 0; i < s->count; i++)
        if (s->parameters[i].row->type != TV_PARAM_ENUM && from->values[i] > 0)
            at.values[i] = round_value(s->parameters[i].row, to->values[i] * (to->values[i] / from->values[i]));
    return at;
}

static void run_search(search *s, point *best)
{
    for (double step = STEP_FIRST; step > STEP_LAST && !is_exhausted(s);) {
        point start = *best;
        for (unsigned i = 0; i < s->count; i++)
            explore_parameter(s, best, i, step);
        if (!(best->cost < start.cost)) {
            step = sqrt(step);
            continue;
        }
        point further = extrapolate(s, &start, best);
        if (is_exhausted(s) || memcmp(further.values, best->values, s->count * sizeof(double)) == 0)
            continue;
        compute_cost(s, &further);
        if (further.cost < best->cost)
            *best = further;
    }
}

/* ---- Parameters ---- */

TV_PRINTF(3, 4)
static tv_status reject(const search *s, const char *hint, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tv_vreport(s->sink, TV_ERROR, TV_CODE(FIT), &TV_NO_SOURCE_LOC, hint, format, args);
    va_end(args);
    return TV_ERR_INPUT;
}

static tv_status find_parameter(search *s, const char *key)
{
    const tv_schema *schema = tv_config_schema(s->v->config);
    tv_nearest nearest = tv_nearest_to(tv_sv_of(key));
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->parameters[i].row->key, key) == 0)
            return reject(s, NULL, "parameter '%.100s' is given twice", key);
    for (unsigned i = 0; i < schema->count; i++) {
        tv_nearest_offer(&nearest, schema->params[i].key);
        if (strcmp(schema->params[i].key, key) != 0)
            continue;
        s->parameters[s->count++] = (parameter){&schema->params[i], i};
        return TV_OK;
    }
    char hint[128];
    snprintf(hint, sizeof hint, nearest.best ? "did you mean '%s'?" : "`trivet config -t %s` lists them all",
             nearest.best ? nearest.best : schema->target);
    return reject(s, hint, "%s has no parameter '%.100s'", schema->target, key);
}

static tv_status find_parameters(search *s)
{
    uint64_t cases = (s->v->count + 1) / 2, keys = s->options->key_count;
    if (keys == 0 || keys > TV_FIT_PARAMETERS_MAX)
        return reject(s, NULL, "%llu parameters cannot be fitted (1 to %d)", (unsigned long long)keys,
                      TV_FIT_PARAMETERS_MAX);
    if (s->v->count < 2 || keys > cases)
        return reject(s, "half of the cases are fitted, the others are reported",
                      "a fit of %llu parameter%s needs at least %llu cases; the table has %llu",
                      (unsigned long long)keys, keys == 1 ? "" : "s", (unsigned long long)tv_max_u64(2, 2 * keys - 1),
                      (unsigned long long)s->v->count);
    for (uint64_t i = 0; i < keys; i++)
        TV_TRY(find_parameter(s, s->options->keys[i]));
    return TV_OK;
}

/* ---- The result ---- */

static void copy_text(const tv_config *config, unsigned index, char text[64])
{
    tv_config_entry entry;
    tv_config_at(config, index, &entry);
    snprintf(text, 64, "%s", entry.value);
}

/* Runs all cases with the values of `best`, then replaces the configuration and the cases. */
static tv_status take_point(search *s, const point *best)
{
    tv_validation *v = s->v;
    tv_config *config = NULL;
    tv_validation_case *cases = calloc((size_t)v->count, sizeof *cases);
    tv_status status = cases ? make_config(s, best, s->sink, &config) : tv_fail_memory(s->sink);
    for (uint64_t i = 0; status == TV_OK && i < v->count; i++) {
        cases[i] = v->cases[i];
        status = tv_validation_run_case(v, i, config, s->sink, &cases[i]);
    }
    if (status != TV_OK) {
        tv_config_free(config);
        free(cases);
        return status;
    }
    for (unsigned i = 0; i < s->count; i++) {
        v->parameters[i].key = s->parameters[i].row->key;
        copy_text(v->config, s->parameters[i].index, v->parameters[i].before);
        copy_text(config, s->parameters[i].index, v->parameters[i].after);
    }
    v->parameter_count = s->count;
    v->configurations = s->tried;
    tv_config_free(v->config);
    free(v->cases);
    v->config = config;
    v->cases = cases;
    return TV_OK;
}

tv_status tv_validation_fit(tv_validation *validation, const tv_fit_options *options, const tv_diag_sink *sink)
{
    enum { CONFIGURATIONS = 1000 };
    tv_fit_options own;
    if (!tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_fit_options, user), options))
        return tv_fail_size(sink, "tv_fit_options");
    search *s = calloc(1, sizeof *s);
    if (!s)
        return tv_fail_memory(sink);
    *s = (search){.v = validation,
                  .options = &own,
                  .sink = sink,
                  .limit = own.configurations ? own.configurations : CONFIGURATIONS,
                  .status = TV_OK};
    tv_status status = find_parameters(s);
    if (status == TV_OK) {
        tv_c_locale locale = tv_c_locale_begin();
        point best = {.cost = 0};
        for (unsigned i = 0; i < s->count; i++)
            best.values[i] = read_value(validation->config, &s->parameters[i]);
        compute_cost(s, &best);
        run_search(s, &best);
        status = s->status == TV_OK ? take_point(s, &best) : s->status;
        tv_c_locale_end(locale);
    }
    free(s);
    return status;
}
