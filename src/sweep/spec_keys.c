/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a sweep: what its keys mean, whatever the syntax. */
#include "sweep/spec.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/schema.h"
#include "trivet/file.h"

const char *const tv_point_sums[] = {"cycles", "seconds", "bytes",    "macs", "instructions",
                                     "energy", "edp",     "tokens/s", NULL};

/* Marks that memory ran out unless `block` is some. */
static bool check_memory(sweep_spec *spec, const void *block)
{
    if (!block)
        spec->status = TV_ERR_MEMORY;
    return block != NULL;
}

static const char *copy_text(sweep_spec *spec, const char *text)
{
    const char *copy = tv_arena_str(&spec->arena, tv_sv_of(text));
    check_memory(spec, copy);
    return copy;
}

/* A path of the file is relative to its folder. */
static const char *make_path(sweep_spec *spec, const char *file)
{
    const char *slash = strrchr(spec->path, '/');
    size_t folder = slash && file[0] != '/' ? (size_t)(slash - spec->path) + 1 : 0, size = folder + strlen(file) + 1;
    char *path = tv_arena_alloc(&spec->arena, size);
    if (check_memory(spec, path))
        snprintf(path, size, "%.*s%s", (int)folder, spec->path, file);
    return path;
}

static bool parse_number(sweep_spec *spec, unsigned line, const char *key, const char *text, uint64_t max,
                         uint64_t *out)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    bool good = text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value <= max;
    if (!good)
        tv_spec_reject(spec, line, NULL, "%s must be a number up to %llu, not '%.40s'", key, (unsigned long long)max,
                       text);
    else
        *out = value;
    return good;
}

/* ---- Section sweep ---- */

static void set_search(sweep_spec *spec, unsigned line, const char *value)
{
    static const char *const kinds[] = {
        [TV_SEARCH_EXHAUSTIVE] = "exhaustive", [TV_SEARCH_RANDOM] = "random", [TV_SEARCH_NSGA2] = "nsga2"};
    for (unsigned i = 0; i < TV_COUNTOF(kinds); i++)
        if (strcmp(kinds[i], value) == 0) {
            spec->search.kind = (tv_search_kind)i;
            return;
        }
    tv_spec_reject(spec, line, "exhaustive, random or nsga2", "there is no search '%.40s'", value);
}

/* Adds the objective "NAME" or "max NAME" of the list, once all expressions are known. */
static void add_objective(sweep_spec *spec, tv_sv name)
{
    unsigned line = spec->objective_line;
    spec_objective o = {.sum = POINT_SUMS};
    if (name.len > 4 && memcmp(name.ptr, "max ", 4) == 0) {
        o.maximize = true;
        name = (tv_sv){name.ptr + 4, name.len - 4};
    }
    for (unsigned i = 0; i < POINT_SUMS; i++)
        if (tv_sv_is(name, tv_point_sums[i])) {
            o.sum = (point_sum)i;
            o.name = tv_point_sums[i];
            o.maximize |= i == SUM_TOKENS_PER_SECOND;
        }
    for (size_t i = 0; i < spec->expressions.count && !o.name; i++)
        if (tv_sv_is(name, spec->expressions.data[i].name))
            o.name = spec->expressions.data[i].name;
    for (unsigned k = 0; k < spec->objective_count && o.name; k++)
        if (strcmp(spec->objectives[k].name, o.name) == 0) {
            tv_spec_reject(spec, line, NULL, "the objective '%s' is there twice", o.name);
            return;
        }
    if (!o.name)
        tv_spec_reject(
            spec, line,
            "cycles, seconds, bytes, macs, instructions, energy, edp, tokens/s, or an expression of the file",
            "there is no objective '%.*s'", (int)(name.len < 40 ? name.len : 40), name.ptr);
    else if (spec->objective_count == TV_OBJECTIVES_MAX)
        tv_spec_reject(spec, line, NULL, "there are more than %d objectives", TV_OBJECTIVES_MAX);
    else
        spec->objectives[spec->objective_count++] = o;
}

static void list_objectives(sweep_spec *spec)
{
    const char *list = spec->objective_list ? spec->objective_list : "cycles";
    while (*list) {
        size_t blanks = strspn(list, ", \t"), size = strcspn(list + blanks, ",");
        tv_sv name = {list + blanks, size};
        while (name.len && (name.ptr[name.len - 1] == ' ' || name.ptr[name.len - 1] == '\t'))
            name.len--;
        if (name.len)
            add_objective(spec, name);
        list += blanks + size;
    }
    if (spec->objective_count == 0 && spec->status == TV_OK)
        tv_spec_reject(spec, spec->objective_line, "objectives = cycles, bytes", "the list of objectives is empty");
}

void tv_spec_add_expression(sweep_spec *spec, unsigned line, const char *name, const char *text)
{
    for (unsigned i = 0; i < POINT_SUMS; i++)
        if (strcmp(name, tv_point_sums[i]) == 0)
            tv_spec_reject(spec, line, NULL, "'%s' is computed by the model", name);
    for (size_t i = 0; i < spec->expressions.count; i++)
        if (strcmp(name, spec->expressions.data[i].name) == 0)
            tv_spec_reject(spec, line, NULL, "there are two expressions '%.60s'", name);
    if (!name[0] || name[strcspn(name, " ,\"\n")])
        tv_spec_reject(spec, line, NULL, "'%.60s' cannot be the name of an expression", name);
    spec_expression e = {copy_text(spec, name), copy_text(spec, text), line};
    if (e.name && e.text && !TV_VEC_PUSH(&spec->expressions, e))
        spec->status = TV_ERR_MEMORY;
}

static void set_objectives(sweep_spec *spec, unsigned line, const char *list)
{
    spec->objective_line = line;
    spec->objective_list = copy_text(spec, list);
}

void tv_spec_set(sweep_spec *spec, unsigned line, const char *key, const char *value)
{
    uint64_t number = 0;
    if (strcmp(key, "search") == 0)
        set_search(spec, line, value);
    else if (strcmp(key, "objectives") == 0)
        set_objectives(spec, line, value);
    else if (strcmp(key, "budget") == 0)
        (void)parse_number(spec, line, key, value, UINT64_C(1) << 40, &spec->search.budget);
    else if (strcmp(key, "seed") == 0)
        (void)parse_number(spec, line, key, value, UINT64_MAX, &spec->search.seed);
    else if (strcmp(key, "population") == 0 &&
             parse_number(spec, line, key, value, TV_SEARCH_POPULATION_MAX, &number) && number)
        spec->search.population = (unsigned)number;
    else if (strcmp(key, "population") != 0)
        tv_spec_reject(spec, line, "search, budget, seed, population or objectives", "a sweep has no key '%.40s'", key);
}

/* ---- Workloads ---- */

enum { KEY_PROGRAM, KEY_NETWORK, KEY_MODEL, KEY_TARGET, KEY_NUMBERS };

static const struct {
    const char *key;
    size_t offset;
    uint64_t max;
    unsigned kinds; /* bit of each kind of workload that has it */
} numbers[] = {
    {"prompt", offsetof(spec_workload, prompt), 1 << 24, 1 << WORKLOAD_MODEL},
    {"position", offsetof(spec_workload, position), 1 << 24, 1 << WORKLOAD_MODEL},
    {"tokens", offsetof(spec_workload, tokens), 1 << 24, 1 << WORKLOAD_MODEL},
    {"context", offsetof(spec_workload, context), 1 << 24, 1 << WORKLOAD_MODEL},
    {"weight_bits", offsetof(spec_workload, weight_bits), 8, 1 << WORKLOAD_MODEL | 1 << WORKLOAD_NETWORK},
    {"activation_bits", offsetof(spec_workload, activation_bits), 16, 1 << WORKLOAD_MODEL},
    {"allow_host_ops", offsetof(spec_workload, allow_host_ops), 1, 1 << WORKLOAD_MODEL | 1 << WORKLOAD_NETWORK},
};

spec_workload *tv_spec_add_workload(sweep_spec *spec, unsigned line, const char *name)
{
    for (size_t i = 0; i < spec->workloads.count; i++)
        if (strcmp(spec->workloads.data[i].name, name) == 0) {
            tv_spec_reject(spec, line, NULL, "there are two workloads '%.60s'", name);
            return NULL;
        }
    if (!name[0] || name[strcspn(name, " ,\"\n")])
        tv_spec_reject(spec, line, NULL, "'%.60s' cannot be the name of a workload", name);
    if (spec->workloads.count == SPEC_WORKLOADS_MAX) {
        tv_spec_reject(spec, line, NULL, "there are more than %d workloads", SPEC_WORKLOADS_MAX);
        return NULL;
    }
    const char *copy = copy_text(spec, name);
    if (!copy || !TV_VEC_PUSH(&spec->workloads, (spec_workload){.name = copy, .line = line})) {
        spec->status = TV_ERR_MEMORY;
        return NULL;
    }
    return TV_VEC_LAST(&spec->workloads);
}

static void set_dim(sweep_spec *spec, spec_workload *w, unsigned line, const char *name, const char *value)
{
    uint64_t extent = 0;
    if (!parse_number(spec, line, "a dimension", value, INT64_MAX, &extent))
        return;
    const char *copy = copy_text(spec, name);
    if (copy && !TV_VEC_PUSH(&w->dims, (tv_network_dim){copy, (int64_t)extent}))
        spec->status = TV_ERR_MEMORY;
}

static bool set_file(sweep_spec *spec, spec_workload *w, unsigned line, const char *key, const char *value)
{
    static const char *const kinds[] = {
        [WORKLOAD_PROGRAM] = "program", [WORKLOAD_NETWORK] = "network", [WORKLOAD_MODEL] = "model"};
    for (unsigned i = 0; i < TV_COUNTOF(kinds); i++) {
        if (strcmp(kinds[i], key) != 0)
            continue;
        if (w->path)
            tv_spec_reject(spec, line, NULL, "a workload has one file");
        w->kind = (workload_kind)i;
        w->path = make_path(spec, value);
        return true;
    }
    return false;
}

void tv_spec_set_workload(sweep_spec *spec, spec_workload *w, unsigned line, const char *key, const char *value)
{
    if (set_file(spec, w, line, key, value))
        return;
    if (strcmp(key, "target") == 0) {
        w->target = copy_text(spec, value);
        return;
    }
    if (strncmp(key, "dim.", 4) == 0) {
        w->given |= 1u << TV_COUNTOF(numbers);
        set_dim(spec, w, line, key + 4, value);
        return;
    }
    for (unsigned i = 0; i < TV_COUNTOF(numbers); i++)
        if (strcmp(numbers[i].key, key) == 0) {
            w->given |= 1u << i;
            (void)parse_number(spec, line, key, value, numbers[i].max,
                               (uint64_t *)(void *)((char *)w + numbers[i].offset));
            return;
        }
    tv_spec_reject(spec, line,
                   "program, network or model; target, prompt, position, tokens, context, weight_bits, "
                   "activation_bits, allow_host_ops or dim.NAME",
                   "a workload has no key '%.40s'", key);
}

/* ---- Targets ---- */

static bool make_config(sweep_spec *spec, spec_target *t)
{
    tv_config_entry entry;
    if (spec->new_config(t->name, spec->sink, &t->base) != TV_OK) {
        tv_spec_reject(spec, t->line, NULL, "[target %.40s] names no machine", t->name);
        return false;
    }
    for (unsigned i = 0; tv_config_at(t->base, i, &entry); i++)
        if (!TV_VEC_PUSH(&t->defaults, 0.0))
            spec->status = TV_ERR_MEMORY;
    return spec->status != TV_ERR_MEMORY;
}

spec_target *tv_spec_add_target(sweep_spec *spec, unsigned line, const char *name)
{
    for (size_t i = 0; i < spec->targets.count; i++)
        if (strcmp(spec->targets.data[i].name, name) == 0) {
            tv_spec_reject(spec, line, NULL, "there are two targets '%.60s'", name);
            return NULL;
        }
    if (spec->targets.count == SPEC_TARGETS_MAX) {
        tv_spec_reject(spec, line, NULL, "there are more than %d targets", SPEC_TARGETS_MAX);
        return NULL;
    }
    spec_target target = {.name = copy_text(spec, name), .line = line};
    if (!target.name || !TV_VEC_PUSH(&spec->targets, target)) {
        spec->status = TV_ERR_MEMORY;
        return NULL;
    }
    spec_target *t = TV_VEC_LAST(&spec->targets);
    return make_config(spec, t) ? t : NULL;
}

void tv_spec_set_profile(sweep_spec *spec, spec_target *t, unsigned line, const char *profile)
{
    if (t->parameters.count)
        tv_spec_reject(spec, line, "write it before the parameters", "the profile of a target comes first");
    t->profile = copy_text(spec, profile);
    if (!t->profile)
        return;
    const char *path = strchr(profile, '/') || strstr(profile, ".ini") ? make_path(spec, profile) : profile;
    if (path && tv_config_load(t->base, path, spec->sink) != TV_OK)
        tv_spec_reject(spec, line, NULL, "the profile '%.60s' cannot be used", profile);
}

static void reject_expression(sweep_spec *spec, unsigned line, const char *what, const char *hint, unsigned column,
                              const char *error)
{
    if (error[0])
        tv_spec_reject(spec, line, hint, "%s, character %u: %s", what, column, error);
    else
        spec->status = TV_ERR_MEMORY;
}

void tv_spec_add_constraint(sweep_spec *spec, spec_target *t, unsigned line, const char *text)
{
    char error[EXPRESSION_ERROR];
    unsigned column = 0;
    const expression_names names = {tv_config_schema(t->base), NULL};
    expression *c = tv_expression_parse(&spec->arena, &names, true, text, &column, error);
    if (!c)
        reject_expression(spec, line, "constraint", "write it like gemv.cores * gemv.tile_k <= 128", column, error);
    else if (!TV_VEC_PUSH(&t->constraints, c))
        spec->status = TV_ERR_MEMORY;
}

/* Parses the objectives that are expressions, with the parameters of the target. */
static void parse_objectives(sweep_spec *spec, spec_target *t)
{
    static const char hint[] = "sums and products of numbers, parameters of every target, and cycles, seconds, bytes, "
                               "macs, instructions, energy and edp";
    const expression_names names = {tv_config_schema(t->base), tv_point_sums};
    char error[EXPRESSION_ERROR];
    unsigned column = 0;
    for (unsigned i = 0; i < spec->objective_count; i++) {
        for (size_t k = 0; spec->objectives[i].sum == POINT_SUMS && k < spec->expressions.count; k++) {
            const spec_expression *e = &spec->expressions.data[k];
            if (strcmp(e->name, spec->objectives[i].name) != 0)
                continue;
            t->objectives[i] = tv_expression_parse(&spec->arena, &names, false, e->text, &column, error);
            if (!t->objectives[i])
                reject_expression(spec, e->line, e->name, hint, column, error);
        }
    }
}

static int find_parameter(const spec_target *t, const char *key)
{
    const tv_schema *schema = tv_config_schema(t->base);
    for (unsigned i = 0; i < schema->count; i++)
        if (strcmp(schema->params[i].key, key) == 0)
            return (int)i;
    return -1;
}

static void reject_parameter(sweep_spec *spec, const spec_target *t, unsigned line, const char *key)
{
    const tv_schema *schema = tv_config_schema(t->base);
    tv_nearest nearest = tv_nearest_to(tv_sv_of(key));
    char hint[128];
    for (unsigned i = 0; i < schema->count; i++)
        tv_nearest_offer(&nearest, schema->params[i].key);
    if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean %.80s?", nearest.best);
    else
        snprintf(hint, sizeof hint, "trivet config -t %.40s lists them", t->name);
    tv_spec_reject(spec, line, hint, "%s has no parameter '%.60s'", t->name, key);
}

void tv_spec_add_values(sweep_spec *spec, spec_target *t, unsigned line, const char *key, const char *list)
{
    int index = find_parameter(t, key);
    if (index < 0) {
        reject_parameter(spec, t, line, key);
        return;
    }
    const tv_param *param = &tv_config_schema(t->base)->params[index];
    spec_parameter *p = TV_VEC_LAST(&t->parameters);
    for (size_t i = 0; i < t->parameters.count; i++)
        if (t->parameters.data[i].index == (unsigned)index && (&t->parameters.data[i] != p || p->line != line)) {
            tv_spec_reject(spec, line, NULL, "the values of %s are there twice", key);
            return;
        }
    if (!p || p->index != (unsigned)index) {
        spec_parameter new_parameter = {
            .key = param->key, .index = (unsigned)index, .line = line, .is_enum = param->type == TV_PARAM_ENUM};
        if (t->parameters.count == TV_SEARCH_DIMS_MAX) {
            tv_spec_reject(spec, line, NULL, "a target has more than %d parameters", TV_SEARCH_DIMS_MAX);
            return;
        }
        if (!TV_VEC_PUSH(&t->parameters, new_parameter)) {
            spec->status = TV_ERR_MEMORY;
            return;
        }
        p = TV_VEC_LAST(&t->parameters);
    }
    tv_config *scratch;
    if (tv_config_copy(t->base, NULL, &scratch) != TV_OK) {
        spec->status = TV_ERR_MEMORY;
        return;
    }
    tv_spec_parse_values(spec, scratch, p, list);
    tv_config_free(scratch);
}

/* ---- The whole ---- */

static void check_workload(sweep_spec *spec, spec_workload *w)
{
    if (!w->path) {
        tv_spec_reject(spec, w->line, "program, network or model", "workload '%s' has no file", w->name);
        return;
    }
    for (unsigned i = 0; i < TV_COUNTOF(numbers); i++)
        if (w->given & 1u << i && !(numbers[i].kinds & 1u << w->kind))
            tv_spec_reject(spec, w->line, NULL, "'%s' does not apply to the file of workload '%s'", numbers[i].key,
                           w->name);
    if (w->given & 1u << TV_COUNTOF(numbers) && w->kind != WORKLOAD_NETWORK)
        tv_spec_reject(spec, w->line, NULL, "dimensions are those of networks: workload '%s'", w->name);
    if (w->kind == WORKLOAD_MODEL && w->prompt == 0 && w->tokens == 0)
        tv_spec_reject(spec, w->line, "prompt = 128, or position = 128 and tokens = 1", "workload '%s' has no tokens",
                       w->name);
    bool exists = !w->target;
    for (size_t i = 0; i < spec->targets.count; i++)
        exists = exists || strcmp(spec->targets.data[i].name, w->target) == 0;
    if (!exists)
        tv_spec_reject(spec, w->line, NULL, "workload '%s' is for '%.40s', which the sweep does not have", w->name,
                       w->target);
}

void tv_spec_numbers(const spec_target *t, const uint32_t *values, double *all)
{
    memcpy(all, t->defaults.data, t->defaults.count * sizeof *all);
    for (size_t d = 0; d < t->parameters.count; d++)
        all[t->parameters.data[d].index] = t->parameters.data[d].numbers.data[values[d]];
}

static bool is_valid(void *user, const uint32_t *values)
{
    const spec_target *t = user;
    double all[SPEC_NUMBERS_MAX];
    tv_spec_numbers(t, values, all);
    for (size_t i = 0; i < t->constraints.count; i++)
        if (!tv_expression_is_true(t->constraints.data[i], all))
            return false;
    return true;
}

static double number_of(const tv_config *config, unsigned index)
{
    const tv_param *param = &tv_config_schema(config)->params[index];
    if (param->type == TV_PARAM_ENUM)
        return tv_config_enum(config, index);
    if (param->type == TV_PARAM_INTEGER)
        return (double)tv_config_integer(config, index);
    tv_rate rate = tv_config_rate(config, index);
    return (double)rate.num / rate.den;
}

/* Completes the space of a target once all vectors have their final addresses. */
static void finish_target(sweep_spec *spec, spec_target *t)
{
    tv_search_space *s = &t->space;
    if (!t->base)
        return;
    if (t->defaults.count > SPEC_NUMBERS_MAX - POINT_SUMS) {
        tv_spec_reject(spec, t->line, NULL, "%s has too many parameters", t->name);
        return;
    }
    for (unsigned i = 0; i < t->defaults.count; i++)
        t->defaults.data[i] = number_of(t->base, i);
    s->dims = t->parameters.count ? (unsigned)t->parameters.count : 1;
    s->sizes[0] = 1;
    for (unsigned d = 0; d < t->parameters.count; d++) {
        s->sizes[d] = (uint32_t)t->parameters.data[d].texts.count;
        if (t->parameters.data[d].is_enum)
            s->unordered |= UINT32_C(1) << d;
    }
    if (t->constraints.count) {
        s->is_valid = is_valid;
        s->user = t;
    }
    if (spec->status == TV_OK && tv_search_space_total(s) == 0)
        tv_spec_reject(spec, t->line, "give fewer values", "the space of %s has more than 2^62 points", t->name);
}

void tv_spec_finish(sweep_spec *spec)
{
    if (spec->targets.count == 0)
        tv_spec_reject(spec, 1, "[target pccx] with a profile or parameters", "the sweep has no target");
    if (spec->workloads.count == 0)
        tv_spec_reject(spec, 1, "[workload NAME] with program, network or model", "the sweep has no workload");
    for (size_t i = 0; i < spec->workloads.count; i++)
        check_workload(spec, &spec->workloads.data[i]);
    list_objectives(spec);
    for (size_t i = 0; i < spec->targets.count; i++) {
        finish_target(spec, &spec->targets.data[i]);
        if (spec->targets.data[i].base)
            parse_objectives(spec, &spec->targets.data[i]);
    }
    spec->search.objectives = spec->objective_count;
    if (spec->search.kind != TV_SEARCH_EXHAUSTIVE && spec->search.budget == 0)
        tv_spec_reject(spec, 1, "budget = 500", "a random or evolutionary search needs a budget of points");
    if (spec->search.kind == TV_SEARCH_EXHAUSTIVE && (spec->search.budget || spec->search.seed))
        tv_spec_reject(spec, 1, "search = random, or leave them out", "an exhaustive search has no budget and no seed");
    if (spec->search.population && spec->search.population < TV_SEARCH_POPULATION_MIN)
        tv_spec_reject(spec, 1, NULL, "the population is at least %d", TV_SEARCH_POPULATION_MIN);
}

void tv_spec_fini(sweep_spec *spec)
{
    for (size_t i = 0; i < spec->workloads.count; i++)
        TV_VEC_FINI(&spec->workloads.data[i].dims);
    for (size_t i = 0; i < spec->targets.count; i++) {
        spec_target *t = &spec->targets.data[i];
        for (size_t k = 0; k < t->parameters.count; k++) {
            TV_VEC_FINI(&t->parameters.data[k].texts);
            TV_VEC_FINI(&t->parameters.data[k].numbers);
        }
        TV_VEC_FINI(&t->parameters);
        TV_VEC_FINI(&t->constraints);
        TV_VEC_FINI(&t->defaults);
        tv_config_free(t->base);
    }
    TV_VEC_FINI(&spec->workloads);
    TV_VEC_FINI(&spec->targets);
    TV_VEC_FINI(&spec->expressions);
    tv_arena_fini(&spec->arena);
}
