/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: values over a schema, INI profiles through inih, overrides.
 *
 * Loading a profile changes a copy, which replaces the values only when the whole file is valid. */
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/schema.h"
#include "base/sv.h"
#include "trivet/file.h"

typedef struct value {
    uint64_t integer;
    tv_rate rate;
    char *text;
    char *origin;
} value;

/* The section [validated] of a profile. */
enum { AGAINST_MAX = 96 };
enum { VALID_AGAINST, VALID_CASES, VALID_MEAN, VALID_WORST, VALID_MIN, VALID_MAX, VALID_KEYS };
typedef struct validation {
    unsigned given; /* bit of each key that the profile has; 0: it was not validated */
    char against[AGAINST_MAX];
    uint64_t cases, min_cycles, max_cycles;
    double mean_error, worst_error;
    const char *changed; /* key of the schema, or NULL */
    unsigned line;       /* of the last key */
} validation;

struct tv_config {
    const tv_schema *schema;
    value *values;
    validation validation;
};

enum { PROFILE_LIMIT = 1 << 20 };

static void values_free(value *values, unsigned count)
{
    for (unsigned i = 0; values && i < count; i++) {
        free(values[i].text);
        free(values[i].origin);
    }
    free(values);
}

static value *values_copy(const value *from, unsigned count)
{
    value *copy = calloc(count ? count : 1, sizeof *copy);
    if (!copy)
        return NULL;
    for (unsigned i = 0; i < count; i++) {
        copy[i] = from[i];
        copy[i].text = strdup(from[i].text);
        copy[i].origin = strdup(from[i].origin);
        if (!copy[i].text || !copy[i].origin) {
            values_free(copy, i + 1);
            return NULL;
        }
    }
    return copy;
}

void tv_config_free(tv_config *config)
{
    if (!config)
        return;
    values_free(config->values, config->schema->count);
    free(config);
}

/* Digits with `_` between them; false when malformed or above 64 bits. Advances *text. */
static bool read_digits(const char **text, uint64_t *out)
{
    const char *p = *text;
    unsigned base = 10;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        base = 16;
        p += 2;
    }
    uint64_t v = 0;
    unsigned count = 0;
    for (;; p++) {
        unsigned digit;
        if (*p >= '0' && *p <= '9')
            digit = (unsigned)(*p - '0');
        else if (base == 16 && ((*p >= 'a' && *p <= 'f') || (*p >= 'A' && *p <= 'F')))
            digit = (unsigned)((*p | 0x20) - 'a') + 10;
        else if (*p == '_' && count && p[-1] != '_')
            continue;
        else
            break;
        if (v > (UINT64_MAX - digit) / base)
            return false;
        v = v * base + digit;
        count++;
    }
    *text = p;
    *out = v;
    return count > 0 && p[-1] != '_';
}

static bool parse_integer(const char *text, uint64_t *out)
{
    static const struct {
        const char *suffix;
        unsigned shift;
    } units[] = {{"", 0}, {"Ki", 10}, {"Mi", 20}, {"Gi", 30}};
    uint64_t v;
    if (!read_digits(&text, &v))
        return false;
    for (size_t i = 0; i < TV_COUNTOF(units); i++)
        if (strcmp(text, units[i].suffix) == 0) {
            if (v > UINT64_MAX >> units[i].shift)
                return false;
            *out = v << units[i].shift;
            return true;
        }
    return false;
}

/* "20", "1.6" or "8/5". */
static bool parse_rate(const char *text, tv_rate *out)
{
    uint64_t num, den = 1;
    const char *start = text;
    if (!read_digits(&text, &num))
        return false;
    bool decimal = !(start[0] == '0' && (start[1] | 0x20) == 'x');
    if (*text == '/') {
        text++;
        if (!read_digits(&text, &den) || den == 0)
            return false;
    } else if (*text == '.') {
        text++;
        if (!decimal || *text < '0' || *text > '9')
            return false;
        for (; *text >= '0' && *text <= '9'; text++) {
            if (den >= 1000000 || num > UINT32_MAX)
                return false;
            num = num * 10 + (uint64_t)(*text - '0');
            den *= 10;
        }
    }
    uint64_t g = tv_gcd_u64(num, den);
    num /= g;
    den /= g;
    if (*text != '\0' || num > UINT32_MAX || den > UINT32_MAX)
        return false;
    *out = (tv_rate){(uint32_t)num, (uint32_t)den};
    return true;
}

/* The number of the value `text` of an enumerated parameter, whose values are `a|b|c`. */
static bool parse_enum(const char *values, const char *text, uint64_t *out)
{
    size_t n = strlen(text);
    for (uint64_t i = 0;; i++) {
        size_t length = strcspn(values, "|");
        if (n == length && memcmp(values, text, n) == 0) {
            *out = i;
            return true;
        }
        if (values[length] == '\0')
            return false;
        values += length + 1;
    }
}

static const char *const type_names[] = {
    [TV_PARAM_INTEGER] = "integer", [TV_PARAM_RATE] = "rate", [TV_PARAM_ENUM] = "enum"};

/* Parses `text` as a value of the parameter. false: malformed, with the hint in `hint`. */
static bool parse_value(const tv_param *param, const char *text, uint64_t *number, tv_rate *rate, char hint[128])
{
    switch (param->type) {
    case TV_PARAM_INTEGER:
        snprintf(hint, 128, "write it like 4096, 0x1000 or 4Ki");
        return parse_integer(text, number);
    case TV_PARAM_RATE:
        snprintf(hint, 128, "write it like 20, 1.6 or 8/5");
        return parse_rate(text, rate);
    case TV_PARAM_ENUM:
        snprintf(hint, 128, "write one of %s", param->unit);
        return parse_enum(param->unit, text, number);
    }
    return false;
}

static int find_param(const tv_schema *schema, const char *key)
{
    for (unsigned i = 0; i < schema->count; i++)
        if (strcmp(schema->params[i].key, key) == 0)
            return (int)i;
    return -1;
}

/* Parses `text`, checks it and sets the value of `key` in `values`. Reports errors at `loc`. */
static tv_status assign(const tv_schema *schema, value *values, const char *key, const char *text, const char *origin,
                        const tv_source_loc *loc, const tv_diag_sink *sink)
{
    int i = find_param(schema, key);
    if (i < 0) {
        tv_nearest nearest = tv_nearest_to(tv_sv_of(key));
        for (unsigned k = 0; k < schema->count; k++)
            tv_nearest_offer(&nearest, schema->params[k].key);
        char hint[128];
        snprintf(hint, sizeof hint, nearest.best ? "did you mean '%s'?" : "`trivet config -t %s` lists them all",
                 nearest.best ? nearest.best : schema->target);
        tv_report(sink, TV_ERROR, TV_CODE(CONFIG_KEY), loc, hint, "%s has no parameter '%.100s'", schema->target, key);
        return TV_ERR_INPUT;
    }
    const tv_param *param = &schema->params[i];
    uint64_t integer = 0;
    tv_rate rate = {0, 1};
    bool is_rate = param->type == TV_PARAM_RATE;
    char hint[128];
    if (!parse_value(param, text, &integer, &rate, hint)) {
        tv_report(sink, TV_ERROR, TV_CODE(CONFIG_VALUE), loc, hint, "'%.100s' is not a value for %s (%s %s)", text, key,
                  is_rate ? "a" : "an", type_names[param->type]);
        return TV_ERR_INPUT;
    }
    bool single = param->min == param->max;
    bool low = is_rate ? rate.num < param->min * rate.den || rate.num == 0 : integer < param->min;
    bool high = is_rate ? rate.num > param->max * rate.den : integer > param->max;
    if (low || high) {
        bool open = is_rate && param->min == 0;
        tv_report(sink, TV_ERROR, TV_CODE(CONFIG_RANGE), loc, NULL,
                  single ? "%s = %.100s is invalid: the only value is %llu"
                  : open ? "%s = %.100s is outside (%llu, %llu] %s"
                         : "%s = %.100s is outside %llu to %llu %s",
                  key, text, (unsigned long long)param->min, (unsigned long long)param->max, param->unit);
        return TV_ERR_INPUT;
    }
    char *new_text = strdup(text), *new_origin = strdup(origin);
    if (!new_text || !new_origin) {
        free(new_text);
        free(new_origin);
        return tv_fail_memory(sink);
    }
    free(values[i].text);
    free(values[i].origin);
    values[i] = (value){integer, rate, new_text, new_origin};
    return TV_OK;
}

tv_status tv_config_new_for(const tv_schema *schema, const tv_diag_sink *sink, tv_config **out)
{
    tv_config *config = calloc(1, sizeof *config);
    if (!config)
        return tv_fail_memory(sink);
    config->schema = schema;
    config->values = calloc(schema->count ? schema->count : 1, sizeof *config->values);
    tv_status status = config->values ? TV_OK : tv_fail_memory(sink);
    for (unsigned i = 0; i < schema->count && status == TV_OK; i++)
        status = assign(schema, config->values, schema->params[i].key, schema->params[i].default_value, "default",
                        &TV_NO_SOURCE_LOC, sink);
    if (status != TV_OK) {
        tv_config_free(config);
        return status;
    }
    *out = config;
    return TV_OK;
}

tv_status tv_config_copy(const tv_config *config, const tv_diag_sink *sink, tv_config **out)
{
    tv_config *copy = calloc(1, sizeof *copy);
    if (!copy)
        return tv_fail_memory(sink);
    copy->schema = config->schema;
    copy->validation = config->validation;
    copy->values = values_copy(config->values, config->schema->count);
    if (!copy->values) {
        free(copy);
        return tv_fail_memory(sink);
    }
    *out = copy;
    return TV_OK;
}

static bool values_equal(const value *a, const value *b)
{
    return a->integer == b->integer && a->rate.num == b->rate.num && a->rate.den == b->rate.den;
}

tv_status tv_config_set(tv_config *config, const char *key, const char *text, const tv_diag_sink *sink)
{
    int i = find_param(config->schema, key);
    value before = i >= 0 ? config->values[i] : (value){0}; /* its strings are not used */
    TV_TRY(assign(config->schema, config->values, key, text, "override", &TV_NO_SOURCE_LOC, sink));
    if (config->validation.given && !values_equal(&before, &config->values[i]))
        config->validation.changed = config->schema->params[i].key;
    return TV_OK;
}

/* The state of one parse. inih reads lines through next_line and passes pairs to set_pair. */
typedef struct parse {
    const tv_schema *schema;
    value *values;
    const char *name, *origin; /* origin NULL: "name:line" */
    tv_sv rest;
    unsigned line;
    validation validation;
    tv_status status;
    const tv_diag_sink *sink;
} parse;

/* True when inih accepts the line. inih stops at the first malformed line; checking here reports all of them. */
static bool is_well_formed(tv_sv line)
{
    if (line.len == 0 || line.ptr[0] == ';' || line.ptr[0] == '#')
        return true;
    return memchr(line.ptr, line.ptr[0] == '[' ? ']' : '=', line.len) != NULL;
}

/* Reads the next line, without its indentation: inih takes an indented line for the continuation of a value. */
static char *next_line(char *line, int size, void *user)
{
    parse *job = user;
    if (job->rest.len == 0)
        return NULL;
    const char *end = memchr(job->rest.ptr, '\n', job->rest.len);
    size_t n = end ? (size_t)(end - job->rest.ptr) : job->rest.len;
    job->line++;
    size_t length = n < (size_t)size - 1 ? n : (size_t)size - 1;
    if (length < n || memchr(job->rest.ptr, '\0', n)) {
        tv_source_loc loc = {.file = job->name, .line = job->line, .index = -1};
        tv_report(job->sink, TV_ERROR, TV_CODE(CONFIG_SYNTAX), &loc, NULL,
                  length < n ? "the line is longer than %d bytes"
                             : "the line has a NUL byte (a line has at most %d bytes)",
                  size - 1);
        job->status = TV_ERR_INPUT;
    }
    tv_sv text = {job->rest.ptr, length};
    while (text.len && strchr(" \t\r\v\f", text.ptr[0]) && text.ptr[0])
        text = (tv_sv){text.ptr + 1, text.len - 1};
    if (job->line == 1 && text.len >= 3 && memcmp(text.ptr, "\xEF\xBB\xBF", 3) == 0)
        text = (tv_sv){text.ptr + 3, text.len - 3};
    if (!is_well_formed(text)) {
        tv_source_loc loc = {.file = job->name, .line = job->line, .index = -1};
        tv_report(job->sink, TV_ERROR, TV_CODE(CONFIG_SYNTAX), &loc, "write `[section]`, `key = value` or `; comment`",
                  "expected a section, a pair or a comment");
        job->status = TV_ERR_INPUT;
        text.len = 0;
    }
    if (text.len)
        memcpy(line, text.ptr, text.len);
    line[text.len] = '\0';
    size_t step = end ? n + 1 : n;
    job->rest = (tv_sv){job->rest.ptr + step, job->rest.len - step};
    return line;
}

/* ---- The section [validated] ---- */

static const char *const validation_keys[VALID_KEYS] = {
    [VALID_AGAINST] = "against",   [VALID_CASES] = "cases",    [VALID_MEAN] = "mean_error",
    [VALID_WORST] = "worst_error", [VALID_MIN] = "min_cycles", [VALID_MAX] = "max_cycles"};

/* "-4.25": a rate with an optional sign. */
static bool parse_percent(const char *text, double *out)
{
    bool negative = text[0] == '-';
    tv_rate rate;
    if (!parse_rate(text + negative, &rate))
        return false;
    *out = (negative ? -1 : 1) * (double)rate.num / rate.den;
    return true;
}

static bool parse_validation_value(validation *v, int key, const char *text)
{
    switch (key) {
    case VALID_AGAINST:
        return text[0] != '\0' && snprintf(v->against, sizeof v->against, "%s", text) < AGAINST_MAX;
    case VALID_CASES:
        return parse_integer(text, &v->cases) && v->cases > 0;
    case VALID_MEAN:
        return parse_percent(text, &v->mean_error) && v->mean_error >= 0;
    case VALID_WORST:
        return parse_percent(text, &v->worst_error);
    case VALID_MIN:
        return parse_integer(text, &v->min_cycles);
    case VALID_MAX:
        return parse_integer(text, &v->max_cycles);
    }
    return false;
}

static void set_validation(parse *job, const char *name, const char *text)
{
    tv_source_loc loc = {.file = job->name, .line = job->line, .index = -1};
    int key = 0;
    while (key < VALID_KEYS && strcmp(validation_keys[key], name) != 0)
        key++;
    job->validation.line = job->line;
    if (key < VALID_KEYS && parse_validation_value(&job->validation, key, text)) {
        job->validation.given |= 1u << key;
        return;
    }
    if (key == VALID_KEYS)
        tv_report(job->sink, TV_ERROR, TV_CODE(CONFIG_KEY), &loc,
                  "it has against, cases, mean_error, worst_error, min_cycles and max_cycles",
                  "[validated] has no key '%.100s'", name);
    else
        tv_report(job->sink, TV_ERROR, TV_CODE(CONFIG_VALUE), &loc, "`trivet validate -o` writes the section",
                  "'%.100s' is not a value for validated.%s", text, name);
    job->status = TV_ERR_INPUT;
}

/* The validation of a profile is complete, or the one before stays. */
static void finish_validation(parse *job, const tv_config *config)
{
    validation *v = &job->validation;
    if (v->given && (v->given != (1u << VALID_KEYS) - 1 || v->min_cycles > v->max_cycles)) {
        tv_source_loc loc = {.file = job->name, .line = v->line, .index = -1};
        bool complete = v->given == (1u << VALID_KEYS) - 1;
        tv_report(job->sink, TV_ERROR, TV_CODE(CONFIG_VALUE), &loc, "`trivet validate -o` writes the section",
                  complete ? "validated.min_cycles is above max_cycles" : "a key of [validated] is missing");
        job->status = TV_ERR_INPUT;
    }
    if (v->given)
        return;
    *v = config->validation;
    for (unsigned i = 0; v->given && i < job->schema->count; i++)
        if (!values_equal(&config->values[i], &job->values[i]))
            v->changed = job->schema->params[i].key;
}

static int set_pair(void *user, const char *section, const char *name, const char *text)
{
    parse *job = user;
    tv_source_loc loc = {.file = job->name, .line = job->line, .index = -1};
    if (strcmp(section, "profile") == 0) /* find_file_target has read it */
        return 1;
    if (strcmp(section, "validated") == 0) {
        set_validation(job, name, text);
        return 1;
    }
    char key[256], origin[512];
    snprintf(key, sizeof key, section[0] ? "%s.%s" : "%s%s", section, name);
    snprintf(origin, sizeof origin, "%s:%u", job->name, job->line);
    tv_status status = assign(job->schema, job->values, key, text, job->origin ? job->origin : origin, &loc, job->sink);
    if (status != TV_OK)
        job->status = status;
    return 1;
}

/* The first `target` of [profile]. */
typedef struct file_target {
    parse job; /* the first member: next_line takes it */
    char name[TV_CONFIG_TARGET];
    unsigned line;
} file_target;

static int set_file_target(void *user, const char *section, const char *name, const char *text)
{
    file_target *found = user;
    if (found->line || strcmp(section, "profile") != 0 || strcmp(name, "target") != 0)
        return 1;
    snprintf(found->name, sizeof found->name, "%s", text);
    found->line = found->job.line;
    return 1;
}

/* Finds the machine that a profile names; "" if it names none. Its errors are left to tv_config_parse. */
static void find_file_target(const uint8_t *data, size_t size, file_target *found)
{
    *found = (file_target){.job.rest = {(const char *)data, size}};
    ini_parse_stream(next_line, &found->job, set_file_target, found);
}

tv_status tv_config_parse(tv_config *config, const char *name, const char *origin, const uint8_t *data, size_t size,
                          const tv_diag_sink *sink)
{
    if (size > PROFILE_LIMIT)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), NULL, "profile '%s' has more than 1 MiB", name);
    file_target own;
    find_file_target(data, size, &own);
    if (own.line && strcmp(own.name, config->schema->target) != 0) { /* its parameters would all be unknown */
        tv_source_loc loc = {.file = name, .line = own.line, .index = -1};
        tv_report(sink, TV_ERROR, TV_CODE(CONFIG_TARGET), &loc, "choose a profile of this target, see `trivet config`",
                  "this profile is for '%s', not for '%s'", own.name, config->schema->target);
        return TV_ERR_INPUT;
    }
    parse job = {.schema = config->schema,
                 .values = values_copy(config->values, config->schema->count),
                 .name = name,
                 .origin = origin,
                 .rest = {(const char *)data, size},
                 .sink = sink};
    if (!job.values)
        return tv_fail_memory(sink);
    int bad_line = ini_parse_stream(next_line, &job, set_pair, &job);
    if (bad_line < 0)
        job.status = tv_fail_memory(sink);
    else if (bad_line > 0 && job.status == TV_OK) { /* a form that is_well_formed accepts and inih rejects */
        tv_source_loc loc = {.file = name, .line = (unsigned)bad_line, .index = -1};
        tv_report(sink, TV_ERROR, TV_CODE(CONFIG_SYNTAX), &loc, NULL, "expected a section, a pair or a comment");
        job.status = TV_ERR_INPUT;
    }
    finish_validation(&job, config);
    if (job.status != TV_OK) {
        values_free(job.values, config->schema->count);
        return job.status;
    }
    config->validation = job.validation;
    values_free(config->values, config->schema->count);
    config->values = job.values;
    return TV_OK;
}

/* True when `name` is the name of the profile, with or without its prefix "TARGET-". */
static bool profile_matches(const tv_embedded *profile, const char *target, const char *name)
{
    size_t n = strlen(target);
    if (strcmp(profile->name, name) == 0)
        return true;
    return strncmp(profile->name, target, n) == 0 && profile->name[n] == '-' &&
           strcmp(profile->name + n + 1, name) == 0;
}

/* True when `name` is the name of a file and not of an embedded profile. */
static bool is_path(const char *name) { return strchr(name, '/') || strchr(name, '.'); }

/* Length of the target at the beginning of a profile's name. */
static size_t target_length(const tv_embedded *profile) { return strcspn(profile->name, "-"); }

static tv_status fail_profile(const char *target, const char *name, const tv_diag_sink *sink)
{
    tv_nearest nearest = tv_nearest_to(tv_sv_of(name));
    for (const tv_embedded *p = tv_embedded_profiles; p->name; p++) {
        if (target && (strncmp(p->name, target, strlen(target)) != 0 || target_length(p) != strlen(target)))
            continue;
        tv_nearest_offer(&nearest, p->name);
        tv_nearest_offer(&nearest, p->name + target_length(p) + 1);
    }
    const tv_embedded *other = tv_embedded_profiles;
    while (other->name && strcmp(other->name, name) != 0 && strcmp(other->name + target_length(other) + 1, name) != 0)
        other++;
    char hint[160] = "`trivet config` lists the profiles; the path of a file must have a `.` or a `/`";
    if (target && other->name)
        snprintf(hint, sizeof hint, "'%s' is a profile of %.*s", other->name, (int)target_length(other), other->name);
    else if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest.best);
    return target
               ? tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_PROFILE), hint, "%s has no profile '%.100s'", target, name)
               : tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_PROFILE), hint, "there is no profile '%.100s'", name);
}

tv_status tv_config_profile_target(const char *profile_or_path, const tv_diag_sink *sink, char target[TV_CONFIG_TARGET])
{
    const tv_embedded *found = NULL;
    target[0] = '\0';
    for (const tv_embedded *p = tv_embedded_profiles; p->name; p++) {
        size_t n = target_length(p);
        bool full = strcmp(p->name, profile_or_path) == 0;
        if (!full && strcmp(p->name + n + (p->name[n] == '-'), profile_or_path) != 0)
            continue;
        if (found)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_PROFILE), "give the full name, or -t",
                           "'%s' is a profile of several machines: %s, %s", profile_or_path, found->name, p->name);
        found = p;
    }
    if (found) {
        snprintf(target, TV_CONFIG_TARGET, "%.*s", (int)target_length(found), found->name);
        return TV_OK;
    }
    if (!is_path(profile_or_path))
        return fail_profile(NULL, profile_or_path, sink);
    tv_input input;
    TV_TRY(tv_input_open(profile_or_path, sink, &input));
    file_target own = {.line = 0};
    if (input.size <= PROFILE_LIMIT)
        find_file_target(input.data, input.size, &own);
    tv_input_close(&input);
    memcpy(target, own.name, TV_CONFIG_TARGET);
    return TV_OK;
}

tv_status tv_config_load(tv_config *config, const char *profile_or_path, const tv_diag_sink *sink)
{
    const char *target = config->schema->target;
    for (const tv_embedded *p = tv_embedded_profiles; p->name; p++)
        if (profile_matches(p, target, profile_or_path)) {
            char origin[128];
            snprintf(origin, sizeof origin, "profile %s", p->name);
            return tv_config_parse(config, p->name, origin, p->data, p->size, sink);
        }
    if (!is_path(profile_or_path))
        return fail_profile(target, profile_or_path, sink);
    tv_input input;
    TV_TRY(tv_input_open(profile_or_path, sink, &input));
    tv_status status = tv_config_parse(config, profile_or_path, NULL, input.data, input.size, sink);
    tv_input_close(&input);
    return status;
}

int tv_config_at(const tv_config *config, unsigned i, tv_config_entry *out)
{
    if (i >= config->schema->count)
        return 0;
    const tv_param *param = &config->schema->params[i];
    const value *v = &config->values[i];
    *out = (tv_config_entry){.key = param->key,
                             .type = type_names[param->type],
                             .unit = param->unit,
                             .default_value = param->default_value,
                             .min = param->min,
                             .max = param->max,
                             .meaning = param->meaning,
                             .value = v->text,
                             .number = param->type == TV_PARAM_RATE ? 0 : v->integer,
                             .origin = v->origin};
    return 1;
}

const tv_schema *tv_config_schema(const tv_config *config) { return config->schema; }

const char *tv_config_target(const tv_config *config) { return config->schema->target; }

uint64_t tv_config_integer(const tv_config *config, unsigned index)
{
    assert(index < config->schema->count && config->schema->params[index].type == TV_PARAM_INTEGER);
    return config->values[index].integer;
}

tv_rate tv_config_rate(const tv_config *config, unsigned index)
{
    assert(index < config->schema->count && config->schema->params[index].type == TV_PARAM_RATE);
    return config->values[index].rate;
}

unsigned tv_config_enum(const tv_config *config, unsigned index)
{
    assert(index < config->schema->count && config->schema->params[index].type == TV_PARAM_ENUM);
    return (unsigned)config->values[index].integer;
}

int tv_config_validation_of(const tv_config *config, tv_config_validation *out)
{
    const validation *v = &config->validation;
    if (!v->given)
        return 0;
    *out = (tv_config_validation){.against = v->against,
                                  .cases = v->cases,
                                  .mean_error = v->mean_error,
                                  .worst_error = v->worst_error,
                                  .min_cycles = v->min_cycles,
                                  .max_cycles = v->max_cycles,
                                  .changed = v->changed};
    return 1;
}

int tv_config_profile_at(const char *target, unsigned i, const char **name, const char **description)
{
    for (const tv_embedded *p = tv_embedded_profiles; p->name; p++) {
        size_t n = target ? strlen(target) : 0;
        if (target && (strncmp(p->name, target, n) != 0 || p->name[n] != '-'))
            continue;
        if (i-- > 0)
            continue;
        *name = p->name;
        *description = p->description;
        return 1;
    }
    return 0;
}
