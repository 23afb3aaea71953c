/* SPDX-License-Identifier: Apache-2.0 */
/* Specifications in JSON: an object with the keys of [sweep], and the members "workloads", "targets" and "expressions",
 * objects by name. A target has "profile", "parameters" and "constraints". Values are numbers, texts, or arrays of
 * them. */
#include <stdio.h>

#include "base/json_value.h"
#include "sweep/spec.h"

enum { TREE_LIMIT = 1 << 26 };

typedef struct json_spec {
    sweep_spec *spec;
    tv_sv text;
} json_spec;

static unsigned line_of(const json_spec *p, const tv_json_value *v) { return tv_json_line(p->text, v->end); }

/* The text of a number, a string or a boolean; NULL, with an error, of others. */
static const char *scalar_text(json_spec *p, const tv_json_value *v, unsigned line)
{
    if (v->type == TV_JSON_BOOLEAN)
        return v->boolean ? "1" : "0";
    if (v->type == TV_JSON_STRING || tv_json_is_number(v))
        return v->text;
    tv_spec_reject(p->spec, line, NULL, "expected a number or a text");
    return NULL;
}

static bool expect_object(json_spec *p, const tv_json_value *v)
{
    if (v->type != TV_JSON_OBJECT)
        tv_spec_reject(p->spec, line_of(p, v), NULL, "'%.60s' must be an object", v->key ? v->key : "the sweep");
    return v->type == TV_JSON_OBJECT;
}

static void set_workload(json_spec *p, const tv_json_value *object)
{
    spec_workload *w = tv_spec_add_workload(p->spec, line_of(p, object), object->key);
    if (!w || !expect_object(p, object))
        return;
    for (const tv_json_value *v = tv_json_first(object); v; v = v->next) {
        const char *text = scalar_text(p, v, line_of(p, v));
        if (text)
            tv_spec_set_workload(p->spec, w, line_of(p, v), v->key, text);
    }
}

/* A list in an array is as one with commas: its texts can be ranges. */
static void add_values(json_spec *p, spec_target *t, const tv_json_value *v)
{
    unsigned line = line_of(p, v);
    if (v->type == TV_JSON_ARRAY && v->count == 0)
        tv_spec_reject(p->spec, line, NULL, "%.60s has no values", v->key);
    if (v->type != TV_JSON_ARRAY) {
        const char *text = scalar_text(p, v, line);
        if (text)
            tv_spec_add_values(p->spec, t, line, v->key, text);
        return;
    }
    for (const tv_json_value *e = tv_json_first(v); e && p->spec->status == TV_OK; e = e->next) {
        const char *text = scalar_text(p, e, line);
        if (text)
            tv_spec_add_values(p->spec, t, line, v->key, text);
    }
}

static void add_constraints(json_spec *p, spec_target *t, const tv_json_value *list)
{
    if (list->type != TV_JSON_ARRAY)
        tv_spec_reject(p->spec, line_of(p, list), NULL, "constraints must be an array of texts");
    for (const tv_json_value *e = list->type == TV_JSON_ARRAY ? tv_json_first(list) : NULL; e; e = e->next)
        if (e->type == TV_JSON_STRING)
            tv_spec_add_constraint(p->spec, t, line_of(p, list), e->text);
        else
            tv_spec_reject(p->spec, line_of(p, list), NULL, "a constraint must be a text");
}

static void set_target(json_spec *p, const tv_json_value *object)
{
    spec_target *t = tv_spec_add_target(p->spec, line_of(p, object), object->key);
    const tv_json_value *profile = tv_json_get(object, "profile");
    if (!t || !expect_object(p, object))
        return;
    if (profile && profile->type != TV_JSON_STRING)
        tv_spec_reject(p->spec, line_of(p, profile), NULL, "the profile must be a text");
    else if (profile)
        tv_spec_set_profile(p->spec, t, line_of(p, profile), profile->text);
    for (const tv_json_value *v = tv_json_first(object); v; v = v->next) {
        if (strcmp(v->key, "parameters") == 0 && expect_object(p, v))
            for (const tv_json_value *list = tv_json_first(v); list; list = list->next)
                add_values(p, t, list);
        else if (strcmp(v->key, "constraints") == 0)
            add_constraints(p, t, v);
        else if (strcmp(v->key, "parameters") != 0 && strcmp(v->key, "profile") != 0)
            tv_spec_reject(p->spec, line_of(p, v), "profile, parameters or constraints",
                           "a target has no member '%.40s'", v->key);
    }
}

static void set_member(json_spec *p, const tv_json_value *v)
{
    bool is_workloads = strcmp(v->key, "workloads") == 0;
    if (is_workloads || strcmp(v->key, "targets") == 0) {
        for (const tv_json_value *m = expect_object(p, v) ? tv_json_first(v) : NULL; m; m = m->next)
            (is_workloads ? set_workload : set_target)(p, m);
        return;
    }
    if (strcmp(v->key, "expressions") == 0) {
        for (const tv_json_value *m = expect_object(p, v) ? tv_json_first(v) : NULL; m; m = m->next) {
            const char *text = scalar_text(p, m, line_of(p, m));
            if (text)
                tv_spec_add_expression(p->spec, line_of(p, m), m->key, text);
        }
        return;
    }
    if (strcmp(v->key, "objectives") == 0 && v->type == TV_JSON_ARRAY) {
        tv_buf list = {0};
        for (const tv_json_value *e = tv_json_first(v); e; e = e->next)
            tv_buf_printf(&list, "%s,", e->type == TV_JSON_STRING ? e->text : "?");
        const char *text = tv_buf_cstr_or_null(&list);
        if (text)
            tv_spec_set(p->spec, line_of(p, v), v->key, text);
        else
            p->spec->status = TV_ERR_MEMORY;
        tv_buf_fini(&list);
        return;
    }
    const char *text = scalar_text(p, v, line_of(p, v));
    if (text)
        tv_spec_set(p->spec, line_of(p, v), v->key, text);
}

void tv_spec_parse_json(sweep_spec *spec, tv_sv text)
{
    json_spec p = {spec, text};
    tv_arena arena = {0};
    tv_json_error error;
    const tv_json_value *root = tv_json_parse(&arena, text, TREE_LIMIT, &error);
    if (!root && error.kind == TV_JSON_MEMORY)
        spec->status = TV_ERR_MEMORY;
    else if (!root)
        tv_spec_reject(spec, tv_json_line(text, error.offset), NULL, "not JSON: %s", error.message);
    else if (expect_object(&p, root))
        for (const tv_json_value *v = tv_json_first(root); v && spec->status != TV_ERR_MEMORY; v = v->next)
            set_member(&p, v);
    tv_arena_fini(&arena);
}
