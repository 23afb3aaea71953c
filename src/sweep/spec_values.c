/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a parameter: "1, 2, 5", "64..512 step 64", "1Ki..64Ki * 2", "cores, lanes". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/schema.h"
#include "sweep/spec.h"

enum { ITEM_MAX = 96 };

typedef struct list_parser {
    sweep_spec *spec;
    tv_config *config; /* scratch: the parser of values */
    spec_parameter *parameter;
    unsigned line;
} list_parser;

static void reject_value(list_parser *p, const char *text)
{
    tv_config_entry e;
    char hint[160];
    tv_config_at(p->config, p->parameter->index, &e);
    if (p->parameter->is_enum)
        snprintf(hint, sizeof hint, "%.120s", e.unit);
    else
        snprintf(hint, sizeof hint, "%" PRIu64 " to %" PRIu64 "; ranges are written 64..512 step 64, or 1Ki..64Ki * 2",
                 e.min, e.max);
    tv_spec_reject(p->spec, p->line, hint, "%s cannot be '%.60s'", p->parameter->key, text);
}

static double number_of(const tv_config *config, unsigned index)
{
    const tv_param *param = &tv_config_schema(config)->params[index];
    if (param->type == TV_PARAM_RATE) {
        tv_rate rate = tv_config_rate(config, index);
        return (double)rate.num / rate.den;
    }
    return param->type == TV_PARAM_ENUM ? (double)tv_config_enum(config, index)
                                        : (double)tv_config_integer(config, index);
}

/* Adds the value `text`, in its canonical form. */
static bool add_value(list_parser *p, const char *text)
{
    spec_parameter *parameter = p->parameter;
    tv_config_entry e;
    tv_status status = tv_config_set(p->config, parameter->key, text, NULL);
    if (status == TV_ERR_MEMORY)
        p->spec->status = status;
    else if (status != TV_OK)
        reject_value(p, text);
    if (status != TV_OK)
        return false;
    tv_config_at(p->config, parameter->index, &e);
    double number = number_of(p->config, parameter->index);
    for (size_t i = 0; i < parameter->numbers.count && parameter->numbers.count <= 1024; i++)
        if (!(parameter->numbers.data[i] < number || parameter->numbers.data[i] > number)) {
            tv_spec_reject(p->spec, p->line, NULL, "%s has the value %.40s twice", parameter->key, e.value);
            return false;
        }
    if (parameter->texts.count == SPEC_VALUES_MAX) {
        tv_spec_reject(p->spec, p->line, "take larger steps", "%s has more than %d values", parameter->key,
                       SPEC_VALUES_MAX);
        return false;
    }
    /* The configuration keeps the text as it was written: numbers get one form, so that results are found again. */
    char canonical[32];
    bool is_integer = tv_config_schema(p->config)->params[parameter->index].type == TV_PARAM_INTEGER;
    snprintf(canonical, sizeof canonical, "%" PRIu64, e.number);
    const char *copy = tv_arena_str(&p->spec->arena, tv_sv_of(is_integer ? canonical : e.value));
    if (!copy || !TV_VEC_PUSH(&parameter->texts, copy) || !TV_VEC_PUSH(&parameter->numbers, number)) {
        p->spec->status = TV_ERR_MEMORY;
        return false;
    }
    return true;
}

/* Parses a number of the parameter, without adding it. */
static bool parse_bound(list_parser *p, const char *text, uint64_t *out)
{
    tv_config_entry e;
    if (tv_config_set(p->config, p->parameter->key, text, NULL) != TV_OK) {
        reject_value(p, text);
        return false;
    }
    tv_config_at(p->config, p->parameter->index, &e);
    *out = e.number;
    return true;
}

static void trim(char *text)
{
    size_t blanks = strspn(text, " \t"), size = strlen(text + blanks);
    memmove(text, text + blanks, size + 1);
    while (size && (text[size - 1] == ' ' || text[size - 1] == '\t'))
        text[--size] = '\0';
}

/* "FIRST..LAST", "FIRST..LAST step N" or "FIRST..LAST * N"; `dots` is where the dots of `item` are. */
static void add_range(list_parser *p, char *item, char *dots)
{
    uint64_t first, last, step = 1;
    char *rest = dots + 2, *factor = strchr(rest, '*'), *word = strstr(rest, "step");
    char *number = factor ? factor + 1 : word ? word + 4 : NULL, *end = NULL;
    tv_config_entry e;
    tv_config_at(p->config, p->parameter->index, &e);
    if (strcmp(e.type, "integer") != 0) {
        tv_spec_reject(p->spec, p->line, "list the values", "%s is no integer, so that it has no ranges",
                       p->parameter->key);
        return;
    }
    if (number) {
        trim(number);
        errno = 0;
        step = strtoull(number, &end, 10);
        if (number[0] < '0' || number[0] > '9' || *end || errno || step < (factor ? 2u : 1u)) {
            tv_spec_reject(p->spec, p->line, "64..512 step 64, or 1Ki..64Ki * 2", "not a step: '%.40s'", number);
            return;
        }
        *(factor ? factor : word) = '\0';
    }
    *dots = '\0';
    trim(item);
    trim(rest);
    if (!parse_bound(p, item, &first) || !parse_bound(p, rest, &last))
        return;
    if (first > last || (factor && first == 0)) {
        tv_spec_reject(p->spec, p->line, NULL, "the range %s..%s of %s is empty or does not grow", item, rest,
                       p->parameter->key);
        return;
    }
    for (uint64_t v = first; v <= last;) {
        char text[32];
        snprintf(text, sizeof text, "%" PRIu64, v);
        if (!add_value(p, text))
            return;
        if (factor ? v > last / step : v > last - tv_min_u64(step, last))
            break;
        v = factor ? v * step : v + step;
    }
}

void tv_spec_parse_values(sweep_spec *spec, tv_config *config, spec_parameter *parameter, const char *list)
{
    list_parser p = {.spec = spec, .config = config, .parameter = parameter, .line = parameter->line};
    while (spec->status == TV_OK) {
        size_t size = strcspn(list, ",");
        char item[ITEM_MAX], *dots;
        if (size >= sizeof item) {
            tv_spec_reject(spec, p.line, NULL, "a value of %s is too long", parameter->key);
            return;
        }
        memcpy(item, list, size);
        item[size] = '\0';
        trim(item);
        dots = strstr(item, "..");
        if (dots)
            add_range(&p, item, dots);
        else
            (void)add_value(&p, item);
        if (!list[size])
            return;
        list += size + 1;
    }
}
