/* SPDX-License-Identifier: Apache-2.0 */
/* x, set and print: memory and symbols. */
#include <inttypes.h>
#include <stdlib.h>

#include "debug/debug.h"

enum { SHOWN_MAX = 1 << 20, DEFAULT_COUNT = 8 };

/* ---- x ---- */

static json_t *element_json(tv_dtype type, const uint8_t *bytes, uint64_t i)
{
    char text[TV_DTYPE_TEXT];
    tv_dtype_text(type, bytes, i, text);
    if (strncmp(text, "0x", 2) == 0 || strpbrk(text, "nN"))
        return json_string(text);
    return type == TV_F32 || type == TV_F16 || type == TV_BF16 ? json_real(tv_dtype_value(type, bytes, i))
                                                               : json_integer(strtoll(text, NULL, 10));
}

/* Lines begin with the unit that their first element stands in; of one that begins within a unit also the byte of it.
 */
static void print_address(const tv_range *r, uint64_t byte, tv_buf *out)
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

static tv_status show_range(debug_call *call, const tv_range *r)
{
    size_t size = (size_t)tv_dtype_bytes(r->type, r->count);
    if (r->count > SHOWN_MAX)
        return debug_fail_argument(call, NULL, "%" PRIu64 " elements are too many to show", r->count);
    uint8_t *bytes = calloc(size + 8, 1);
    if (!bytes)
        return tv_fail_memory(call->sink);
    tv_status status = tv_machine_read(call->d->machine, r->space.name, r->addr, bytes, size, call->sink);
    unsigned per_line = tv_dtype_bits(r->type) >= 32 ? 4 : 8;
    json_t *values = json_array();
    for (uint64_t i = 0; status == TV_OK && i < r->count; i++) {
        char text[TV_DTYPE_TEXT];
        tv_dtype_text(r->type, bytes, i, text);
        if (i % per_line == 0)
            print_address(r, tv_dtype_bytes(r->type, i), call->text);
        tv_buf_printf(call->text, " %11s%s", text, i % per_line == per_line - 1 || i + 1 == r->count ? "\n" : "");
        json_array_append_new(values, element_json(r->type, bytes, i));
    }
    free(bytes);
    json_object_set_new(call->json, "memory",
                        json_pack("{s:s, s:I, s:s, s:o}", "space", r->space.name, "addr", (json_int_t)r->addr, "type",
                                  tv_dtype_name(r->type), "values", values));
    return status;
}

tv_status debug_verb_x(debug_call *call)
{
    tv_debug *d = call->d;
    tv_range r = {.count = DEFAULT_COUNT};
    bool typed;
    const char *rest;
    unsigned at = 0;
    if (call->words[at][0] == '/') {
        if (!debug_parse_number(call->words[at] + 1, &r.count))
            return debug_fail_argument(call, "for example: x/16 bf16 l2:0", "'%.40s' is no count", call->words[at] + 1);
        at++;
    }
    typed = at + 1 < call->count;
    if (typed)
        TV_TRY(tv_dtype_parse(call->words[at++], call->sink, &r.type));
    if (at + 1 != call->count)
        return debug_fail_argument(call, "x[/COUNT] [TYPE] SPACE:ADDR", "there is no address");
    TV_TRY(tv_machine_parse_address(d->machine, d->programs, d->count, call->words[at], call->sink, &r.space, &r.addr,
                                    &rest));
    if (!typed)
        r.type = r.space.type;
    if (rest)
        TV_TRY(tv_machine_parse_range(d->machine, d->programs, d->count, call->words[at], call->sink, &r));
    else if (at == 0 || (at == 1 && call->words[0][0] != '/')) { /* not more than there is */
        uint64_t left =
            r.addr < r.space.size ? (r.space.size - r.addr) * r.space.unit_bytes * 8 / tv_dtype_bits(r.type) : 0;
        r.count = left ? tv_min_u64(left, r.count) : r.count;
    }
    return show_range(call, &r);
}

/* ---- set ---- */

/* "SPACE:ADDR[:TYPE]" and values from all words; '=' stands by itself or at a word's end or start. */
tv_status debug_verb_set(debug_call *call)
{
    tv_debug *d = call->d;
    tv_space space;
    tv_dtype type;
    uint64_t addr;
    const char *rest;
    char *left = call->words[0], *equals = strchr(left, '=');
    unsigned first = 1;
    char *inner = NULL;
    if (equals) {
        *equals = '\0';
        inner = equals[1] ? equals + 1 : NULL;
    } else if (call->count > 1 && call->words[1][0] == '=') {
        inner = call->words[1][1] ? call->words[1] + 1 : NULL;
        first = 2;
    } else
        return debug_fail_argument(call, "for example: set l2:0:bf16 = 1 0.5", "there is no '='");
    unsigned count = call->count - first + (inner != NULL);
    if (count == 0)
        return debug_fail_argument(call, "for example: set l2:0:bf16 = 1 0.5", "there is no value");
    TV_TRY(tv_machine_parse_address(d->machine, d->programs, d->count, left, call->sink, &space, &addr, &rest));
    TV_TRY(tv_dtype_parse(rest ? rest : tv_dtype_name(space.type), call->sink, &type));
    size_t size = (size_t)tv_dtype_bytes(type, count);
    uint8_t *bytes = calloc(size + 8, 1);
    if (!bytes)
        return tv_fail_memory(call->sink);
    tv_status status = tv_machine_read(d->machine, space.name, addr, bytes, size, call->sink);
    for (unsigned i = 0; status == TV_OK && i < count; i++) {
        char *word = inner ? (i ? call->words[first + i - 1] : inner) : call->words[first + i];
        size_t n = strlen(word);
        if (n > 1 && word[n - 1] == ',')
            word[n - 1] = '\0';
        if (tv_dtype_store(type, bytes, i, word) != TV_OK)
            status = tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), NULL, "'%.40s' is no %s", word,
                             tv_dtype_name(type));
    }
    if (status == TV_OK)
        status = tv_debug_write(d, space.name, addr, bytes, size, call->sink);
    free(bytes);
    return status;
}

/* ---- print ---- */

tv_status debug_verb_print(debug_call *call)
{
    static const char *const kinds[] = {"label", "data", "constant"};
    const char *word = call->words[0];
    uint64_t value;
    tv_symbol symbol;
    if (debug_parse_number(word, &value)) {
        tv_buf_printf(call->text, "%" PRIu64 " = 0x%" PRIx64 " = %" PRId64 "\n", value, value, (int64_t)value);
        json_object_set_new(call->json, "value", json_integer((json_int_t)value));
        return TV_OK;
    }
    for (unsigned i = 0; i < call->d->count; i++)
        if (tv_program_symbol(call->d->programs[(call->d->program + i) % call->d->count], word, &symbol)) {
            tv_buf_printf(call->text, "%s = %" PRId64 " = 0x%" PRIx64 " (%s)\n", symbol.name, (int64_t)symbol.value,
                          symbol.value, kinds[symbol.kind]);
            json_object_set_new(call->json, "value", json_integer((json_int_t)symbol.value));
            return TV_OK;
        }
    tv_nearest nearest = tv_nearest_to(tv_sv_of(word));
    char hint[128];
    for (uint64_t i = 0; tv_program_symbol_at(call->d->programs[call->d->program], i, &symbol); i++)
        tv_nearest_offer(&nearest, symbol.name);
    snprintf(hint, sizeof hint, "did you mean '%.80s'?", nearest.best ? nearest.best : "");
    return debug_fail_argument(call, nearest.best ? hint : NULL, "there is no symbol '%.60s'", word);
}
