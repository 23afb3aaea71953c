/* SPDX-License-Identifier: Apache-2.0 */
/* x and set: memory. */
#include <inttypes.h>
#include <stdlib.h>

#include "debug/console/console.h"

enum { SHOWN_MAX = 1 << 20, DEFAULT_COUNT = 8 };

/* ---- x ---- */

static void write_element(tv_json_writer *json, tv_dtype type, const uint8_t *bytes, uint64_t i)
{
    char text[TV_DTYPE_TEXT];
    tv_dtype_text(type, bytes, i, text);
    if (strncmp(text, "0x", 2) == 0 || strpbrk(text, "nN"))
        tv_json_write_string(json, text);
    else if (type == TV_F32 || type == TV_F16 || type == TV_BF16)
        tv_json_write_real(json, tv_dtype_value(type, bytes, i), 0); /* exact */
    else
        tv_json_write_integer(json, strtoll(text, NULL, 10));
}

/* The address of byte `byte` of the range: its unit, and in spaces without banks the byte within the unit. */
static void print_row_address(const tv_range *r, uint64_t byte, tv_buf *out)
{
    uint64_t unit = r->addr + byte / r->space.unit_bytes, rest = byte % r->space.unit_bytes;
    if (r->space.bank_size)
        tv_buf_printf(out, "%s:%" PRIu64 ":0x%-6" PRIx64, r->space.name, unit / r->space.bank_size,
                      unit % r->space.bank_size);
    else if (rest)
        tv_buf_printf(out, "%s:0x%" PRIx64 "+%-4" PRIu64, r->space.name, unit, rest);
    else
        tv_buf_printf(out, "%s:0x%-6" PRIx64, r->space.name, unit);
}

static void write_elements(debug_call *call, const tv_range *r, const uint8_t *bytes)
{
    unsigned per_line = tv_dtype_bits(r->type) >= 32 ? 4 : 8;
    tv_json_key(call->json, "memory");
    tv_json_begin_object(call->json);
    tv_json_string_member(call->json, "space", r->space.name);
    tv_json_unsigned_member(call->json, "addr", r->addr);
    tv_json_string_member(call->json, "type", tv_dtype_name(r->type));
    tv_json_key(call->json, "values");
    tv_json_begin_array(call->json);
    for (uint64_t i = 0; i < r->count; i++) {
        char text[TV_DTYPE_TEXT];
        tv_dtype_text(r->type, bytes, i, text);
        if (i % per_line == 0)
            print_row_address(r, tv_dtype_bytes(r->type, i), call->text);
        tv_buf_printf(call->text, " %11s%s", text, i % per_line == per_line - 1 || i + 1 == r->count ? "\n" : "");
        write_element(call->json, r->type, bytes, i);
    }
    tv_json_end_array(call->json);
    tv_json_end_object(call->json);
}

tv_status tv_debug_show_range(debug_call *call, const tv_range *r)
{
    size_t size = (size_t)tv_dtype_bytes(r->type, r->count);
    if (r->count > SHOWN_MAX)
        return tv_debug_fail_argument(call, NULL, "%" PRIu64 " elements are too many to show; the limit is %d",
                                      r->count, SHOWN_MAX);
    uint8_t *bytes = calloc(size + 8, 1);
    if (!bytes)
        return tv_fail_memory(call->sink);
    tv_status status = tv_machine_read(call->d->machine, r->space.name, r->addr, bytes, size, call->sink);
    if (status == TV_OK)
        write_elements(call, r, bytes);
    free(bytes);
    return status;
}

/* Elements from the range's address to the end of its space. */
static uint64_t elements_left(const tv_range *r)
{
    return r->addr < r->space.size ? (r->space.size - r->addr) * r->space.unit_bytes * 8 / tv_dtype_bits(r->type) : 0;
}

tv_status tv_debug_verb_x(debug_call *call)
{
    tv_debug *d = call->d;
    tv_range r = {.count = DEFAULT_COUNT};
    const char *rest;
    unsigned at = 0;
    bool has_count = call->args[0][0] == '/';
    if (has_count && !tv_debug_parse_number(call->args[at++] + 1, &r.count))
        return tv_debug_fail_argument(call, "for example: x/16 bf16 l2:0", "'%.40s' is not a count", call->args[0] + 1);
    bool has_type = at + 1 < call->count;
    if (has_type)
        TV_TRY(tv_dtype_parse(call->args[at++], call->sink, &r.type));
    if (at + 1 != call->count)
        return tv_debug_fail_argument(call, "x[/COUNT] [TYPE] SPACE:ADDR", "the address is missing");
    TV_TRY(tv_machine_parse_address(d->machine, d->programs, d->count, call->args[at], call->sink, &r.space, &r.addr,
                                    &rest));
    if (!has_type)
        r.type = r.space.type;
    if (rest) {
        TV_TRY(tv_machine_parse_range(d->machine, d->programs, d->count, call->args[at], call->sink, &r));
    } else if (!has_count) { /* the default count ends with the space */
        uint64_t left = elements_left(&r);
        r.count = left ? tv_min_u64(left, r.count) : r.count;
    }
    return tv_debug_show_range(call, &r);
}

/* ---- set ---- */

/* The values of `set`: an optional word that follows '=' without a space, then args[first] and following. */
typedef struct set_values {
    char *inner; /* or NULL */
    unsigned first, count;
} set_values;

/* Splits at '=', which is a word of its own or the start or end of one. Returns false if there is none. */
static bool split_assignment(debug_call *call, set_values *v)
{
    char *equals = strchr(call->args[0], '=');
    *v = (set_values){.first = 1};
    if (equals) {
        *equals = '\0';
        v->inner = equals[1] ? equals + 1 : NULL;
    } else if (call->count > 1 && call->args[1][0] == '=') {
        v->inner = call->args[1][1] ? call->args[1] + 1 : NULL;
        v->first = 2;
    } else {
        return false;
    }
    v->count = call->count - v->first + (v->inner != NULL);
    return true;
}

/* Stores value `i` into element `i` of `bytes`; a trailing comma is ignored. */
static tv_status store_value(debug_call *call, const set_values *v, unsigned i, tv_dtype type, uint8_t *bytes)
{
    char *word = v->inner ? (i ? call->args[v->first + i - 1] : v->inner) : call->args[v->first + i];
    size_t n = strlen(word);
    if (n > 1 && word[n - 1] == ',')
        word[n - 1] = '\0';
    if (tv_dtype_store(type, bytes, i, word) == TV_OK)
        return TV_OK;
    return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), NULL, "'%.40s' is not a value of type %s", word,
                   tv_dtype_name(type));
}

tv_status tv_debug_verb_set(debug_call *call)
{
    tv_debug *d = call->d;
    tv_space space;
    tv_dtype type;
    uint64_t addr;
    const char *rest;
    set_values values;
    if (!split_assignment(call, &values))
        return tv_debug_fail_argument(call, "for example: set l2:0:bf16 = 1 0.5", "'=' is missing");
    if (values.count == 0)
        return tv_debug_fail_argument(call, "for example: set l2:0:bf16 = 1 0.5", "the value is missing");
    TV_TRY(
        tv_machine_parse_address(d->machine, d->programs, d->count, call->args[0], call->sink, &space, &addr, &rest));
    TV_TRY(tv_dtype_parse(rest ? rest : tv_dtype_name(space.type), call->sink, &type));
    size_t size = (size_t)tv_dtype_bytes(type, values.count);
    uint8_t *bytes = calloc(size + 8, 1);
    if (!bytes)
        return tv_fail_memory(call->sink);
    tv_status status = tv_machine_read(d->machine, space.name, addr, bytes, size, call->sink);
    for (unsigned i = 0; status == TV_OK && i < values.count; i++)
        status = store_value(call, &values, i, type, bytes);
    if (status == TV_OK)
        status = tv_debug_write(d, space.name, addr, bytes, size, call->sink);
    free(bytes);
    return status;
}
