/* SPDX-License-Identifier: Apache-2.0 */
/* explain and why: what an instruction means and accesses, and what stalls it. */
#include <inttypes.h>
#include <stdlib.h>

#include "debug/console/console.h"
#include "machine/target.h"

/* ---- explain: instruction words ---- */

static void write_field(debug_call *call, const tv_field_info *f)
{
    char bits[16];
    snprintf(bits, sizeof bits, f->hi == f->lo ? "[%u]" : "[%u:%u]", f->hi, f->lo);
    tv_buf_printf(call->text, "  %-8s %-16s = 0x%-6" PRIx64 " %8" PRIu64 "  %s\n", bits, f->name, f->value, f->value,
                  f->ignored ? "ignored" : f->doc);
    tv_json_begin_object(call->json);
    tv_json_string_member(call->json, "name", f->name);
    tv_json_unsigned_member(call->json, "hi", f->hi);
    tv_json_unsigned_member(call->json, "lo", f->lo);
    tv_json_unsigned_member(call->json, "value", f->value);
    tv_json_string_member(call->json, "doc", f->doc);
    tv_json_end_object(call->json);
}

static void explain_word(debug_call *call, uint64_t word)
{
    const tv_codec *codec = call->d->codec;
    tv_decode_fault fault;
    tv_field_info f;
    tv_insn_info info;
    int insn = tv_codec_decode(codec, word, &fault), row = insn >= 0 ? insn : tv_codec_nearest(codec, word);
    tv_buf_printf(call->text, "  word 0x%0*" PRIx64 "\n", (int)tv_codec_word_bits(codec) / 4, word);
    if (insn < 0)
        tv_buf_printf(call->text, "  %s %s: %s\n", fault.code, fault.name, fault.message);
    else if (tv_codec_insn_at(codec, (unsigned)insn, &info))
        tv_buf_printf(call->text, "  %s (%s)\n", info.meaning, info.source);
    tv_json_key(call->json, "fields");
    tv_json_begin_array(call->json);
    for (unsigned i = 0; row >= 0 && tv_codec_field_at(codec, (unsigned)row, i, word, &f); i++)
        write_field(call, &f);
    tv_json_end_array(call->json);
}

/* ---- explain: queue entries ---- */

/* True if `word` of length `n` is the parameter's name, with or without the suffix "_bank". */
static bool is_parameter(const char *parameter, const char *word, size_t n)
{
    return strncmp(parameter, word, n) == 0 && (parameter[n] == '\0' || strcmp(parameter + n, "_bank") == 0);
}

static bool find_parameter(const tv_codec *codec, unsigned insn, tv_sv name, tv_parameter_info *out)
{
    for (unsigned i = 0; tv_codec_parameter_at(codec, insn, i, out); i++)
        if (is_parameter(out->name, name.ptr, name.len))
            return true;
    return false;
}

static void write_parameter(debug_call *call, tv_sv key, tv_sv value, const tv_parameter_info *p)
{
    char name_text[64], value_text[256];
    tv_buf_printf(call->text, "  %-16.*s = %-14.*s %s%s%s\n", TV_SV_ARG(key), TV_SV_ARG(value), p->doc,
                  p->unit && *p->unit ? ", in " : "", p->unit ? p->unit : "");
    snprintf(name_text, sizeof name_text, "%.*s", TV_SV_ARG(key));
    snprintf(value_text, sizeof value_text, "%.*s", TV_SV_ARG(value));
    tv_json_begin_object(call->json);
    tv_json_string_member(call->json, "name", name_text);
    tv_json_string_member(call->json, "value", value_text);
    tv_json_string_member(call->json, "doc", p->doc);
    tv_json_end_object(call->json);
}

/* Explains "NAME key=value key=value". */
static tv_status explain_entry(debug_call *call, const char *text)
{
    tv_codec *codec;
    tv_insn_info info;
    tv_parameter_info p;
    unsigned insn = 0;
    TV_TRY(tv_codec_new_for(tv_machine_get_target(call->d->machine)->isa, call->sink, &codec));
    size_t n = strcspn(text, " ");
    while (tv_codec_insn_at(codec, insn, &info) && !tv_sv_is((tv_sv){text, n}, info.id))
        insn++;
    if (tv_codec_insn_at(codec, insn, &info))
        tv_buf_printf(call->text, "  %s (%s)\n", info.meaning, info.source);
    tv_json_key(call->json, "parameters");
    tv_json_begin_array(call->json);
    for (const char *at = text + n; *at; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        tv_sv key = {at, strcspn(at, "= ")};
        if (at[key.len] != '=' || !find_parameter(codec, insn, key, &p))
            continue;
        tv_sv value = {at + key.len + 1, strcspn(at, " ") - key.len - 1};
        write_parameter(call, key, value, &p);
    }
    tv_json_end_array(call->json);
    tv_codec_free(codec);
    return TV_OK;
}

/* ---- explain: accesses ---- */

enum { ACCESSES_SHOWN = 24, BYTES_SHOWN = 16 };

typedef struct access_list {
    debug_call *call;
    uint64_t count;
} access_list;

static void write_access(void *user, const tv_access *a)
{
    access_list *list = user;
    uint8_t bytes[BYTES_SHOWN + 8];
    size_t size = a->bytes < BYTES_SHOWN ? (size_t)a->bytes : BYTES_SHOWN;
    tv_buf *text = list->call->text;
    tv_json_writer *json = list->call->json;
    if (list->count++ >= ACCESSES_SHOWN)
        return;
    tv_buf_printf(text, "  %s %" PRIu64 " byte%s at ", a->write ? "writes" : "reads", a->bytes,
                  a->bytes == 1 ? "" : "s");
    tv_debug_print_address(list->call->d, a->space, a->addr, text);
    if (tv_machine_read(list->call->d->machine, a->space, a->addr, bytes, size, NULL) == TV_OK) {
        tv_buf_str(text, a->write ? ", now" : ":");
        for (size_t i = 0; i < size; i++)
            tv_buf_printf(text, " %02x", bytes[i]);
        tv_buf_str(text, size < a->bytes ? " …" : "");
    }
    tv_buf_str(text, "\n");
    tv_json_begin_object(json);
    tv_json_string_member(json, "space", a->space);
    tv_json_unsigned_member(json, "addr", a->addr);
    tv_json_unsigned_member(json, "bytes", a->bytes);
    tv_json_boolean_member(json, "write", a->write);
    tv_json_end_object(json);
}

tv_status tv_debug_verb_explain(debug_call *call)
{
    tv_debug *d = call->d;
    tv_debug_location here, location;
    tv_debug_current_location(d, &here);
    uint64_t index = here.index;
    if (call->count)
        TV_TRY(tv_debug_parse_index(d, call->args[0], call->sink, &index));
    if (!tv_debug_instruction_location(d, index, &location))
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`explain WHERE` explains any instruction",
                       "there is no next instruction");
    tv_buf_printf(call->text, "%" PRIu64 "  %s\n", index, location.text);
    tv_json_unsigned_member(call->json, "index", index);
    tv_json_string_member(call->json, "instruction", location.text);
    if (d->codec)
        explain_word(call, tv_program_word(d->programs[d->program], index));
    else
        TV_TRY(explain_entry(call, location.text));
    if (index != here.index || here.end)
        return TV_OK;
    access_list list = {call, 0};
    tv_json_key(call->json, "accesses");
    tv_json_begin_array(call->json);
    tv_machine_accesses(d->machine, &(tv_access_sink){write_access, &list});
    tv_json_end_array(call->json);
    if (list.count > ACCESSES_SHOWN)
        tv_buf_printf(call->text, "  and %" PRIu64 " more ranges\n", list.count - ACCESSES_SHOWN);
    return TV_OK;
}

/* ---- why ---- */

static void write_stall(debug_call *call, const debug_observation *o, const debug_stall *s)
{
    tv_debug_location location = {.text = ""};
    uint64_t cycles = s->to - s->from;
    tv_buf_printf(call->text, "  stalled for %" PRIu64 " cycle%s (%" PRIu64 " to %" PRIu64 "): %s in %s", cycles,
                  cycles == 1 ? "" : "s", s->from, s->to, s->reason, s->engine);
    bool known = s->waits_for >= o->first &&
                 tv_debug_get_location(call->d, o->program, (uint64_t)(s->waits_for - o->first), &location);
    if (known)
        tv_buf_printf(call->text, "\n    waits for %" PRIu64 "  %s", location.index, location.text);
    tv_buf_str(call->text, "\n");
    tv_json_begin_object(call->json);
    tv_json_string_member(call->json, "reason", s->reason);
    tv_json_string_member(call->json, "engine", s->engine);
    tv_json_unsigned_member(call->json, "from", s->from);
    tv_json_unsigned_member(call->json, "to", s->to);
    tv_json_integer_member(call->json, "waits_for", known ? s->waits_for - o->first : -1);
    tv_json_end_object(call->json);
}

/* `next`: the instruction has not been executed yet. */
static void write_observation(debug_call *call, const debug_observation *o, bool next)
{
    tv_debug_location location = {.text = ""};
    tv_debug_get_location(call->d, o->program, (uint64_t)(o->index - o->first), &location);
    tv_buf_printf(call->text, "%" PRIu64 "  %s\n", location.index, location.text);
    if (o->issued)
        tv_buf_printf(call->text,
                      next ? "  will start at cycle %" PRIu64 " and complete at %" PRIu64 "\n"
                           : "  started at cycle %" PRIu64 ", completes at %" PRIu64 "\n",
                      o->start, o->end);
    if (o->faulted)
        tv_buf_printf(call->text, "  %s: %s\n", next ? "will fault" : "faulted", o->fault);
    tv_json_integer_member(call->json, "index", o->index - o->first);
    tv_json_key(call->json, "stalls");
    tv_json_begin_array(call->json);
    for (unsigned i = 0; i < o->count; i++)
        write_stall(call, o, &o->stalls[i]);
    tv_json_end_array(call->json);
    if (!o->count && !o->faulted)
        tv_buf_printf(call->text, "  %s\n", next ? "will not stall" : "did not stall");
    if (o->faulted)
        tv_json_string_member(call->json, "faults", o->fault);
}

/* Checks that the timing of the last or the next instruction can be observed now. */
static tv_status check_observable(debug_call *call, bool next)
{
    const tv_debug *d = call->d;
    const char *hint = NULL, *message = NULL;
    if (d->options.mode == TV_MODE_FUNCTIONAL) {
        message = "a functional run has no cycles";
    } else if (d->trace) {
        hint = "`trace off` ends the trace";
        message = "this needs a step back, and a run that is being traced cannot be reversed";
    } else if (next && tv_debug_at_end(d)) {
        message = "there is no next instruction";
    } else if (!next && tv_debug_position(d) == 0) {
        message = "nothing has been executed; `why next` explains the next instruction";
    }
    return message ? tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), hint, "%s", message) : TV_OK;
}

tv_status tv_debug_verb_why(debug_call *call)
{
    tv_debug *d = call->d;
    bool next = call->count && strcmp(call->args[0], "next") == 0, arrived = true;
    if (call->count && !next)
        return tv_debug_fail_argument(call, "why, or why next", "unexpected '%.40s'", call->args[0]);
    TV_TRY(check_observable(call, next));
    debug_observation *o = malloc(sizeof *o);
    if (!o)
        return tv_fail_memory(call->sink);
    tv_status status = tv_debug_observe(d, tv_debug_position(d) - !next, o, call->sink, &arrived);
    if (status == TV_OK && arrived) {
        write_observation(call, o, next);
    } else if (status == TV_OK) { /* interrupted on the way: stay there */
        d->last = (tv_debug_stop){.reason = TV_DEBUG_INTERRUPTED, .dropped_writes = tv_debug_drop_future_writes(d)};
        call->stopped = true;
        tv_debug_write_stop(call, &d->last);
    }
    free(o);
    return status;
}
