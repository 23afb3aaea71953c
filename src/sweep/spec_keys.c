/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a sweep: what its keys mean, whatever the syntax. */
#include "sweep/spec.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/schema.h"
#include "trivet/file.h"

static const char *const objective_names[OBJECTIVES] = {"cycles", "seconds", "bytes", "tokens/s"};

const char *tv_objective_name(objective o) { return objective_names[o]; }

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

static void add_objective(sweep_spec *spec, unsigned line, tv_sv name)
{
    for (unsigned i = 0; i < OBJECTIVES; i++) {
        if (!tv_sv_is(name, objective_names[i]))
            continue;
        for (unsigned k = 0; k < spec->objective_count; k++)
            if (spec->objectives[k] == (objective)i) {
                tv_spec_reject(spec, line, NULL, "the objective '%s' is there twice", objective_names[i]);
                return;
            }
        spec->objectives[spec->objective_count++] = (objective)i;
        return;
    }
    tv_spec_reject(spec, line, "cycles, seconds, bytes or tokens/s", "there is no objective '%.*s'",
                   (int)(name.len < 40 ? name.len : 40), name.ptr);
}

static void set_objectives(sweep_spec *spec, unsigned line, const char *list)
{
    spec->objective_count = 0;
    while (*list) {
        size_t blanks = strspn(list, ", \t"), size = strcspn(list + blanks, ", \t");
        if (size)
            add_objective(spec, line, (tv_sv){list + blanks, size});
        list += blanks + size;
    }
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

void tv_spec_add_constraint(sweep_spec *spec, spec_target *t, unsigned line, const char *text)
{
    char error[CONSTRAINT_ERROR];
    unsigned column = 0;
    constraint *c = tv_constraint_parse(&spec->arena, tv_config_schema(t->base), text, &column, error);
    if (!c && !error[0])
        spec->status = TV_ERR_MEMORY;
    else if (!c)
        tv_spec_reject(spec, line, "write it like gemv.cores * gemv.tile_k <= 128", "constraint, character %u: %s",
                       column, error);
    else if (!TV_VEC_PUSH(&t->constraints, c))
        spec->status = TV_ERR_MEMORY;
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

static bool is_valid(void *user, const uint32_t *values)
{
    const spec_target *t = user;
    double all[256];
    memcpy(all, t->defaults.data, t->defaults.count * sizeof *all);
    for (size_t d = 0; d < t->parameters.count; d++)
        all[t->parameters.data[d].index] = t->parameters.data[d].numbers.data[values[d]];
    for (size_t i = 0; i < t->constraints.count; i++)
        if (!tv_constraint_allows(t->constraints.data[i], all))
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
    if (t->defaults.count > 256) {
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
    for (size_t i = 0; i < spec->targets.count; i++)
        finish_target(spec, &spec->targets.data[i]);
    if (spec->objective_count == 0)
        spec->objectives[spec->objective_count++] = OBJECTIVE_CYCLES;
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
    tv_arena_fini(&spec->arena);
}
