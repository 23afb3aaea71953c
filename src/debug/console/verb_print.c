/* SPDX-License-Identifier: Apache-2.0 */
/* print, display and undisplay: symbols, registers, memory, and expressions over them. */
#include <inttypes.h>
#include <stdlib.h>

#include "debug/console/expression.h"

enum { DISPLAYS_MAX = 64 };

static void print_integer(debug_call *call, const char *name, int64_t value, const char *kind)
{
    tv_buf_printf(call->text, "%s = %" PRId64 " = 0x%" PRIx64 "%s%s%s\n", name, value, (uint64_t)value,
                  *kind ? " (" : "", kind, *kind ? ")" : "");
}

static tv_status print_state(debug_call *call, const tv_state_value *state)
{
    if (!state->text)
        return tv_fail_memory(call->sink);
    tv_buf_printf(call->text, "%-14s %s\n", state->name, state->text);
    tv_json_string_member(call->json, "name", state->name);
    tv_json_string_member(call->json, "state", state->text);
    tv_json_string_member(call->json, "doc", state->doc);
    return TV_OK;
}

/* Elements at an address with a type or a length: as `x` shows them. */
static bool find_range(const tv_debug *d, const char *word, tv_range *r)
{
    const char *rest;
    if (!strchr(word, ':') ||
        tv_machine_parse_address(d->machine, d->programs, d->count, word, NULL, &r->space, &r->addr, &rest) != TV_OK)
        return false;
    if (rest && tv_dtype_find(rest, &r->type) != TV_OK)
        return tv_machine_parse_range(d->machine, d->programs, d->count, word, NULL, r) == TV_OK;
    r->type = rest ? r->type : r->space.type;
    uint64_t left =
        r->addr < r->space.size ? (r->space.size - r->addr) * r->space.unit_bytes * 8 / tv_dtype_bits(r->type) : 0;
    r->count = tv_min_u64(left, 8);
    return left > 0;
}

/* Prints a single name with what belongs to it; false: it is none, so it may be an expression. */
static bool print_name(debug_call *call, const char *word, tv_status *status)
{
    static const char *const kinds[] = {"label", "data", "constant"};
    tv_debug *d = call->d;
    uint64_t value;
    tv_symbol symbol;
    tv_state_value state;
    tv_range r;
    *status = TV_OK;
    if (tv_debug_parse_number(word, &value)) {
        tv_buf_printf(call->text, "%" PRIu64 " = 0x%" PRIx64 " = %" PRId64 "\n", value, value, (int64_t)value);
        tv_json_unsigned_member(call->json, "value", value);
    } else if (tv_debug_find_symbol(d, word, &symbol)) {
        print_integer(call, symbol.name, (int64_t)symbol.value, kinds[symbol.kind]);
        tv_json_unsigned_member(call->json, "value", symbol.value);
    } else if (tv_debug_find_state(d, word, &state)) {
        *status = print_state(call, &state);
    } else if (find_range(d, word, &r) || tv_debug_find_register(d, word, &r)) {
        *status = tv_debug_show_range(call, &r);
    } else {
        return false;
    }
    return true;
}

static tv_status print_expression(debug_call *call, const char *text)
{
    debug_value v;
    tv_status status;
    if (!strpbrk(text, " \t") && print_name(call, text, &status))
        return status;
    TV_TRY(tv_debug_evaluate(call, text, &v));
    tv_json_key(call->json, "value");
    if (v.is_real) {
        tv_buf_printf(call->text, "%s = %.9g\n", text, v.real);
        tv_json_write_real(call->json, v.real, 17);
    } else {
        print_integer(call, text, v.integer, "");
        tv_json_write_integer(call->json, v.integer);
    }
    return TV_OK;
}

/* The text after the verb without white space at the end; the caller frees it. */
static char *copy_rest(const debug_call *call)
{
    size_t n = strlen(call->rest);
    while (n && strchr(" \t\r\n", call->rest[n - 1]))
        n--;
    return strndup(call->rest, n);
}

tv_status tv_debug_verb_print(debug_call *call)
{
    char *text = copy_rest(call);
    tv_status status = text ? print_expression(call, text) : tv_fail_memory(call->sink);
    free(text);
    return status;
}

/* ---- display ---- */

/* Prints display `i` as the members of an object. */
static tv_status print_display(debug_call *call, size_t i)
{
    const debug_display *display = &call->d->displays.data[i];
    tv_json_unsigned_member(call->json, "number", display->number);
    tv_json_string_member(call->json, "expression", display->text);
    tv_buf_printf(call->text, "%u: ", display->number);
    return print_expression(call, display->text);
}

void tv_debug_write_displays(debug_call *call)
{
    const tv_diag_sink *sink = call->sink;
    if (!call->d->displays.count)
        return;
    call->sink = NULL;
    tv_json_key(call->json, "displays");
    tv_json_begin_array(call->json);
    for (size_t i = 0; i < call->d->displays.count; i++) {
        tv_json_begin_object(call->json);
        if (print_display(call, i) != TV_OK)
            tv_buf_printf(call->text, "%s is not available\n", call->d->displays.data[i].text);
        tv_json_end_object(call->json);
    }
    tv_json_end_array(call->json);
    call->sink = sink;
}

tv_status tv_debug_verb_display(debug_call *call)
{
    tv_debug *d = call->d;
    if (call->count == 0) {
        if (!d->displays.count)
            tv_buf_str(call->text, "no displays\n");
        tv_debug_write_displays(call);
        return TV_OK;
    }
    if (d->displays.count >= DISPLAYS_MAX)
        return tv_debug_fail_argument(call, "undisplay removes one", "there are %d displays already", DISPLAYS_MAX);
    char *text = copy_rest(call);
    if (!text || !TV_VEC_PUSH(&d->displays, ((debug_display){d->next_display + 1, text}))) {
        free(text);
        return tv_fail_memory(call->sink);
    }
    d->next_display++;
    tv_status status = print_display(call, d->displays.count - 1);
    if (status == TV_OK)
        return TV_OK;
    call->text->len = 0; /* the number */
    d->displays.count--;
    d->next_display--;
    free(text);
    return status;
}

static void remove_display(tv_debug *d, size_t i)
{
    free(d->displays.data[i].text);
    d->displays.count--;
    memmove(&d->displays.data[i], &d->displays.data[i + 1], (d->displays.count - i) * sizeof d->displays.data[0]);
}

tv_status tv_debug_verb_undisplay(debug_call *call)
{
    tv_debug *d = call->d;
    uint64_t number;
    while (!call->count && d->displays.count)
        remove_display(d, d->displays.count - 1);
    for (unsigned a = 0; a < call->count; a++) {
        size_t i = 0;
        bool valid = tv_debug_parse_number(call->args[a], &number);
        while (valid && i < d->displays.count && d->displays.data[i].number != number)
            i++;
        if (!valid || i == d->displays.count)
            return tv_debug_fail_argument(call, "`display` lists them", "there is no display '%.40s'", call->args[a]);
        remove_display(d, i);
    }
    return TV_OK;
}
