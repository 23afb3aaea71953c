/* SPDX-License-Identifier: Apache-2.0 */
/* The list of breakpoints: adding, validating, changing and deleting. hits.c decides which of them stop a run. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "debug/debug.h"
#include "machine/target.h"

/* ---- The list ---- */

static void free_break_text(debug_break *b)
{
    free(b->text);
    free(b->where);
    free(b->condition_text);
}

static debug_break *find_break(tv_debug *d, unsigned number)
{
    for (unsigned i = 0; i < d->breaks.count; i++)
        if (d->breaks.data[i].info.number == number)
            return &d->breaks.data[i];
    return NULL;
}

static tv_status fail_number(unsigned number, const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_BREAKPOINT), "`info break` lists them",
                   "there is no breakpoint %u", number);
}

void tv_debug_delete_break_at(tv_debug *d, unsigned i)
{
    free_break_text(&d->breaks.data[i]);
    d->breaks.count--;
    memmove(&d->breaks.data[i], &d->breaks.data[i + 1], (d->breaks.count - i) * sizeof *d->breaks.data);
    d->break_map_valid = false;
}

tv_status tv_debug_break_delete(tv_debug *d, unsigned number, const tv_diag_sink *sink)
{
    debug_break *b = find_break(d, number);
    if (!b)
        return fail_number(number, sink);
    tv_debug_delete_break_at(d, (unsigned)(b - d->breaks.data));
    return TV_OK;
}

tv_status tv_debug_break_enable(tv_debug *d, unsigned number, int enable, const tv_diag_sink *sink)
{
    debug_break *b = find_break(d, number);
    if (!b)
        return fail_number(number, sink);
    b->info.disabled = !enable;
    d->break_map_valid = false;
    return TV_OK;
}

tv_status tv_debug_break_skip(tv_debug *d, unsigned number, uint64_t skip, const tv_diag_sink *sink)
{
    debug_break *b = find_break(d, number);
    if (!b)
        return fail_number(number, sink);
    b->info.skip = skip;
    return TV_OK;
}

int tv_debug_break_at(const tv_debug *d, unsigned i, tv_break *out)
{
    if (i >= d->breaks.count)
        return 0;
    *out = d->breaks.data[i].info;
    return 1;
}

void tv_debug_breaks_fini(tv_debug *d)
{
    for (unsigned i = 0; i < d->breaks.count; i++)
        free_break_text(&d->breaks.data[i]);
    TV_VEC_FINI(&d->breaks);
    TV_VEC_FINI(&d->break_map);
}

/* ---- Validation ---- */

static tv_status parse_condition(tv_debug *d, const char *text, const tv_diag_sink *sink, debug_condition *out)
{
    static const char *const operators[] = {"==", "!=", "<", "<=", ">", ">="};
    char left[160], op[4], right[64], extra;
    const char *rest;
    tv_space space;
    if (sscanf(text, " %159s %3s %63s %c", left, op, right, &extra) != 3)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "for example: if l2:8:bf16 > 1.5",
                       "a condition is SPACE:ADDR[:TYPE] OP NUMBER, not '%.80s'", text);
    TV_TRY(tv_machine_parse_address(d->machine, d->programs, d->count, left, sink, &space, &out->addr, &rest));
    TV_TRY(tv_dtype_parse(rest ? rest : tv_dtype_name(space.type), sink, &out->type));
    unsigned i = 0;
    while (i < TV_COUNTOF(operators) && strcmp(operators[i], op) != 0)
        i++;
    char *end;
    tv_c_locale locale = tv_c_locale_begin();
    out->value = strncmp(right, "0x", 2) == 0 ? (double)strtoull(right, &end, 16) : strtod(right, &end);
    tv_c_locale_end(locale);
    if (i == TV_COUNTOF(operators) || *end || end == right)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT),
                       "OP is one of == != < <= > >=", "'%.20s %.20s' is not a comparison with a number", op, right);
    uint8_t bytes[16];
    TV_TRY(tv_machine_read(d->machine, space.name, out->addr, bytes, (size_t)tv_dtype_bytes(out->type, 1), sink));
    snprintf(out->space, sizeof out->space, "%s", space.name);
    out->op = (debug_operator)i;
    return TV_OK;
}

static tv_status resolve_watch(tv_debug *d, const tv_break *requested, const tv_diag_sink *sink, debug_break *b)
{
    tv_space space;
    uint64_t bytes = requested->bytes;
    if (!tv_debug_find_space(d, requested->text, &space) || requested->value >= space.size ||
        bytes > (space.size - requested->value) * space.unit_bytes) {
        uint8_t byte; /* the machine reports the best diagnostic */
        return tv_machine_read(d->machine, requested->text, requested->value, &byte, bytes ? (size_t)bytes : 1, sink);
    }
    b->space = space.alias_of ? space.alias_of : space.name;
    b->from = requested->value * space.unit_bytes;
    b->to = b->from + (bytes ? bytes : space.unit_bytes);
    b->info.bytes = b->to - b->from;
    return TV_OK;
}

static bool has_opcode(const tv_debug *d, const char *name)
{
    tv_insn_info info;
    tv_codec *codec = d->codec, *own = NULL;
    bool found = false;
    if (!codec && tv_codec_new_for(tv_machine_get_target(d->machine)->isa, NULL, &own) == TV_OK)
        codec = own;
    for (unsigned i = 0; !found && codec && tv_codec_insn_at(codec, i, &info); i++)
        found = tv_sv_is_nocase(tv_sv_of(info.mnemonic), name) || tv_sv_is_nocase(tv_sv_of(info.id), name);
    tv_codec_free(own);
    return found;
}

/* Checks that the location exists, and fills in what depends on it. */
static tv_status resolve_location(tv_debug *d, const tv_break *requested, const tv_diag_sink *sink, debug_break *b)
{
    unsigned line = (unsigned)requested->value;
    uint64_t index, count;
    switch (requested->kind) {
    case TV_BREAK_INDEX:
        count = requested->program < d->count ? tv_program_instruction_count(d->programs[requested->program]) : 0;
        if (requested->value < count)
            return TV_OK;
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_LOCATION), NULL,
                       "there is no instruction %" PRIu64 ": the program has %" PRIu64, requested->value, count);
    case TV_BREAK_LINE:
        if (tv_debug_find_line(d, requested->text, &line, &b->info.program, &index)) {
            b->info.value = line;
            return TV_OK;
        }
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_LOCATION), "`info program` lists the files",
                       "there is no instruction at or after %.80s:%u", requested->text, line);
    case TV_BREAK_OPCODE:
        if (has_opcode(d, requested->text))
            return TV_OK;
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_LOCATION), "`trivet isa` lists them",
                       "%s has no instruction '%.40s'", tv_machine_target(d->machine), requested->text);
    case TV_BREAK_CYCLE:
        if (d->options.mode != TV_MODE_FUNCTIONAL)
            return TV_OK;
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), NULL, "a functional run has no cycles");
    case TV_BREAK_FAULT:
        return TV_OK;
    case TV_BREAK_WATCH:
        return resolve_watch(d, requested, sink, b);
    }
    return TV_ERR_INPUT;
}

/* ---- Adding ---- */

static bool copy_text(const char *from, char **to)
{
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

tv_status tv_debug_break_add(tv_debug *d, const tv_break *requested, const tv_diag_sink *sink, unsigned *number)
{
    debug_break b = {.info = *requested};
    if (d->breaks.count >= DEBUG_BREAKS_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_BREAKPOINT), "delete some", "there are already %d breakpoints",
                       DEBUG_BREAKS_MAX);
    if (!TV_VEC_RESERVE(&d->breaks, 1))
        return tv_fail_memory(sink);
    tv_status status = resolve_location(d, requested, sink, &b);
    if (status == TV_OK && requested->condition)
        status = parse_condition(d, requested->condition, sink, &b.condition);
    if (status == TV_OK && !(copy_text(requested->text, &b.text) && copy_text(requested->where, &b.where) &&
                             copy_text(requested->condition, &b.condition_text)))
        status = tv_fail_memory(sink);
    if (status != TV_OK) {
        free_break_text(&b);
        return status;
    }
    b.info.text = b.text;
    b.info.where = b.where;
    b.info.condition = b.condition_text;
    b.info.hits = 0;
    b.info.number = *number = d->next_number++;
    d->breaks.data[d->breaks.count++] = b;
    d->break_map_valid = false;
    return TV_OK;
}
