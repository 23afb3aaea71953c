/* SPDX-License-Identifier: Apache-2.0 */
/* Checking the requirements of a program. A required value is parsed by setting it in a copy of the configuration,
 * which also finds unknown parameters and values out of range; a required profile is loaded into default values. */
#include "program/requirements.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/schema.h"

#define REQUIRE ".require "
#define PROFILE ".profile "

const char *const tv_comparison_names[TV_COMPARISONS] = {"==", "!=", "<", "<=", ">", ">="};

/* The parts of a requirement; of a profile only `subject`. */
typedef struct requirement {
    bool profile;
    char subject[TV_REQUIREMENT_MAX], value[TV_REQUIREMENT_MAX]; /* a parameter or the name of a profile */
    tv_comparison comparison;
} requirement;

static bool parse_requirement(const char *text, requirement *out)
{
    char comparison[3], rest;
    *out = (requirement){.profile = strncmp(text, PROFILE, strlen(PROFILE)) == 0};
    if (strlen(text) >= TV_REQUIREMENT_MAX)
        return false;
    if (out->profile)
        return sscanf(text, PROFILE "%199s %c", out->subject, &rest) == 1;
    if (sscanf(text, REQUIRE "%199s %2s %199s %c", out->subject, comparison, out->value, &rest) != 3)
        return false;
    for (unsigned i = 0; i < TV_COMPARISONS; i++)
        if (strcmp(comparison, tv_comparison_names[i]) == 0) {
            out->comparison = (tv_comparison)i;
            return true;
        }
    return false;
}

bool tv_requirement_valid(const char *text)
{
    requirement r;
    return parse_requirement(text, &r);
}

/* The sign of a - b, for parameter `index` of two configurations. */
static int compare_values(const tv_config *a, const tv_config *b, unsigned index)
{
    uint64_t x = 0, y = 0;
    tv_rate p, q;
    switch (tv_config_schema(a)->params[index].type) {
    case TV_PARAM_INTEGER:
        x = tv_config_integer(a, index);
        y = tv_config_integer(b, index);
        break;
    case TV_PARAM_ENUM:
        x = tv_config_enum(a, index);
        y = tv_config_enum(b, index);
        break;
    case TV_PARAM_RATE:
        p = tv_config_rate(a, index);
        q = tv_config_rate(b, index);
        x = (uint64_t)p.num * q.den;
        y = (uint64_t)q.num * p.den;
        break;
    }
    return (x > y) - (x < y);
}

static bool is_satisfied(tv_comparison comparison, int sign)
{
    switch (comparison) {
    case TV_COMPARE_EQUAL:
        return sign == 0;
    case TV_COMPARE_NOT_EQUAL:
        return sign != 0;
    case TV_COMPARE_LESS:
        return sign < 0;
    case TV_COMPARE_LESS_EQUAL:
        return sign <= 0;
    case TV_COMPARE_GREATER:
        return sign > 0;
    case TV_COMPARE_GREATER_EQUAL:
        return sign >= 0;
    case TV_COMPARISONS:
        break;
    }
    return false;
}

static tv_status check_parameter(const requirement *r, const tv_config *config, const tv_diag_sink *sink)
{
    tv_config *required;
    TV_TRY(tv_config_copy(config, sink, &required));
    tv_status status = tv_config_set(required, r->subject, r->value, sink);
    tv_config_entry actual = {0};
    unsigned i = 0;
    while (status == TV_OK && tv_config_at(config, i, &actual) && strcmp(actual.key, r->subject) != 0)
        i++;
    if (status == TV_OK && !is_satisfied(r->comparison, compare_values(config, required, i))) {
        char hint[TV_REQUIREMENT_MAX + 64];
        snprintf(hint, sizeof hint, "choose another profile, or give -D %.90s=%.90s", r->subject, r->value);
        status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_REQUIRED), r->comparison == TV_COMPARE_EQUAL ? hint : NULL,
                         "the program requires %s %s %s; this run has %s = %s (%s)", r->subject,
                         tv_comparison_names[r->comparison], r->value, actual.key, actual.value, actual.origin);
    }
    tv_config_free(required);
    return status;
}

static tv_status check_profile(const requirement *r, const tv_config *config, const tv_diag_sink *sink)
{
    tv_config *required;
    TV_TRY(tv_config_new_for(tv_config_schema(config), sink, &required));
    tv_status status = tv_config_load(required, r->subject, sink);
    tv_config_entry actual, expected;
    for (unsigned i = 0; status == TV_OK && tv_config_at(config, i, &actual); i++) {
        if (compare_values(config, required, i) == 0)
            continue;
        char hint[TV_REQUIREMENT_MAX + 64];
        tv_config_at(required, i, &expected);
        snprintf(hint, sizeof hint, "run it with -c %.90s", r->subject);
        status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_REQUIRED), hint,
                         "the program requires the profile %s, where %s = %s; this run has %s = %s (%s)", r->subject,
                         expected.key, expected.value, actual.key, actual.value, actual.origin);
    }
    tv_config_free(required);
    return status;
}

tv_status tv_program_check_requirements(const tv_program *program, const tv_config *config, const tv_diag_sink *sink)
{
    tv_status result = TV_OK;
    for (uint64_t i = 0; i < program->requirement_count; i++) {
        requirement r;
        if (!parse_requirement(program->requirements[i], &r))
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_DAMAGED), NULL, "'%.100s' is not a requirement",
                           program->requirements[i]);
        tv_status status = r.profile ? check_profile(&r, config, sink) : check_parameter(&r, config, sink);
        result = status == TV_OK ? result : status;
        if (status == TV_ERR_MEMORY)
            return status;
    }
    return result;
}
