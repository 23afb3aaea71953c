/* SPDX-License-Identifier: Apache-2.0 */
/* disas, list, explain, why: the program, and what its instructions do and wait for. */
#include <inttypes.h>
#include <stdlib.h>

#include "debug/debug.h"
#include "machine/target.h"

/* ---- disas ---- */

static tv_status range_of(debug_call *call, uint64_t *from, uint64_t *to)
{
    tv_debug *d = call->d;
    uint64_t next = tv_machine_next_index(d->machine), count = tv_program_instruction_count(d->programs[d->program]);
    char first[256], *comma;
    if (call->count == 0 && d->disassembled.next && d->disassembled.next < count &&
        d->disassembled.position == debug_position(d)) {
        *from = d->disassembled.next;
        *to = tv_min_u64(*from + 12, count);
        return TV_OK;
    }
    if (call->count == 0) {
        *from = next > 4 ? next - 4 : 0;
        *to = tv_min_u64(next + 8, count);
        return TV_OK;
    }
    snprintf(first, sizeof first, "%s", call->words[0]);
    comma = strchr(first, ',');
    const char *second = comma && comma[1] ? comma + 1 : call->count > 1 ? call->words[1] : NULL;
    if (comma)
        *comma = '\0';
    TV_TRY(debug_parse_index(call->d, first, call->sink, from));
    *to = tv_min_u64(*from + 12, count);
    if (second) {
        TV_TRY(debug_parse_index(call->d, second, call->sink, to));
        ++*to;
    }
    if (*to <= *from || *to - *from > 100000)
        return debug_fail_argument(call, "disas FROM,TO", "that is no range of instructions");
    return TV_OK;
}

tv_status debug_verb_disas(debug_call *call)
{
    tv_debug *d = call->d;
    tv_debug_location place, here;
    uint64_t from, to;
    TV_TRY(range_of(call, &from, &to));
    tv_debug_current_location(d, &here);
    json_t *list = json_array();
    for (uint64_t i = from; i < to && tv_debug_instruction_location(d, i, &place); i++) {
        if (place.label && place.offset == 0)
            tv_buf_printf(call->text, "%s:\n", place.label);
        tv_buf_printf(call->text, "%s %5" PRIu64 "  %s\n", i == here.index && !here.end ? "=>" : "  ", i, place.text);
        json_array_append_new(list, json_pack("{s:I, s:o, s:o, s:I}", "index", (json_int_t)i, "instruction",
                                              debug_json_text(place.text), "file", debug_json_text(place.file), "line",
                                              (json_int_t)place.line));
    }
    d->disassembled.position = debug_position(d);
    d->disassembled.next = to;
    json_object_set_new(call->json, "instructions", list);
    return TV_OK;
}

/* ---- list ---- */

/* Line `line` of `text`, or NULL; *length is without its newline. */
static const char *line_at(const char *text, uint64_t line, size_t *length)
{
    while (--line && text) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    *length = text ? strcspn(text, "\n") : 0;
    return text && *text ? text : NULL;
}

static tv_status lines_of(debug_call *call, const char *file, uint64_t from, uint64_t current)
{
    tv_buf text = {0};
    enum { SHOWN = 11 };
    if (!debug_read_source(file, &text)) {
        tv_buf_fini(&text);
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_PLACE),
                       "start the debugger in the folder of the sources; `disas` shows the instructions",
                       "cannot read the source file '%.200s'", file);
    }
    json_t *list = json_array();
    size_t length;
    const char *line;
    for (uint64_t i = from; i < from + SHOWN && (line = line_at(tv_buf_cstr(&text), i, &length)); i++) {
        char copy[512];
        snprintf(copy, sizeof copy, "%.*s", length < 500 ? (int)length : 500, line);
        for (char *p = copy; *p; p++) /* nothing that speaks to the terminal */
            *p = (unsigned char)*p < 32 && *p != '\t' ? ' ' : *p;
        tv_buf_printf(call->text, "%s %5" PRIu64 "  %s\n", i == current ? "=>" : "  ", i, copy);
        json_array_append_new(list, debug_json_text(copy));
    }
    tv_buf_fini(&text);
    call->d->listed.position = debug_position(call->d);
    call->d->listed.next = json_array_size(list) ? from + json_array_size(list) : 0;
    call->d->listed.file = file;
    json_object_set_new(call->json, "file", debug_json_text(file));
    json_object_set_new(call->json, "first", json_integer((json_int_t)from));
    json_object_set_new(call->json, "lines", list);
    return TV_OK;
}

tv_status debug_verb_list(debug_call *call)
{
    tv_debug *d = call->d;
    tv_debug_location place;
    uint64_t line, next = tv_machine_next_index(d->machine),
                   count = tv_program_instruction_count(d->programs[d->program]);
    if (!tv_debug_instruction_location(d, next < count ? tv_machine_nth_index(d->machine, next) : count - (count > 0),
                                       &place) ||
        !place.file)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_PLACE), "`disas` shows its instructions",
                       "the program does not know its source lines");
    uint64_t current = place.line;
    const char *file = place.file, *colon = call->count ? strrchr(call->words[0], ':') : NULL;
    char other[512];
    if (!call->count && d->listed.next && d->listed.position == debug_position(d))
        return lines_of(call, d->listed.file, d->listed.next,
                        next < count && strcmp(file, d->listed.file) == 0 ? current : 0);
    if (!call->count)
        return lines_of(call, file, current > 5 ? current - 5 : 1, next < count ? current : 0);
    if (!debug_parse_number(colon ? colon + 1 : call->words[0], &line) || line == 0 || line > UINT32_MAX)
        return debug_fail_argument(call, "list LINE, or list FILE:LINE", "'%.40s' is no line", call->words[0]);
    if (colon && colon != call->words[0]) { /* only files that the program was made from */
        unsigned found = 1, program;
        uint64_t index;
        tv_source_line at;
        snprintf(other, sizeof other, "%.*s", (int)(colon - call->words[0]), call->words[0]);
        if (!tv_debug_find_line(d, other, &found, &program, &index) ||
            !tv_program_line(d->programs[program], index, &at))
            return debug_fail_argument(call, "`info program` lists the files", "the program has no source file '%.80s'",
                                       other);
        current = strcmp(file, at.file) == 0 ? current : 0;
        file = at.file;
    }
    return lines_of(call, file, line > 5 ? line - 5 : 1, next < count ? current : 0);
}

/* ---- explain ---- */

static void explain_fields(debug_call *call, uint64_t word)
{
    const tv_codec *codec = call->d->codec;
    tv_decode_fault fault;
    tv_field_info f;
    tv_insn_info info;
    int insn = tv_codec_decode(codec, word, &fault), row = insn >= 0 ? insn : tv_codec_nearest(codec, word);
    json_t *list = json_array();
    tv_buf_printf(call->text, "  word 0x%0*" PRIx64 "\n", (int)tv_codec_word_bits(codec) / 4, word);
    if (insn < 0)
        tv_buf_printf(call->text, "  %s %s: %s\n", fault.code, fault.name, fault.message);
    else if (tv_codec_insn_at(codec, (unsigned)insn, &info))
        tv_buf_printf(call->text, "  %s (%s)\n", info.meaning, info.source);
    for (unsigned i = 0; row >= 0 && tv_codec_field_at(codec, (unsigned)row, i, word, &f); i++) {
        char bits[16];
        snprintf(bits, sizeof bits, f.hi == f.lo ? "[%u]" : "[%u:%u]", f.hi, f.lo);
        tv_buf_printf(call->text, "  %-8s %-16s = 0x%-6" PRIx64 " %8" PRIu64 "  %s\n", bits, f.name, f.value, f.value,
                      f.ignored ? "not looked at" : f.doc);
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:I, s:s}", "name", f.name, "hi", (int)f.hi, "lo",
                                              (int)f.lo, "value", (json_int_t)f.value, "doc", f.doc));
    }
    json_object_set_new(call->json, "fields", list);
}

static bool same_name(const char *parameter, const char *word, size_t n)
{
    size_t m = strlen(parameter);
    return (m == n && strncmp(parameter, word, n) == 0) ||
           (m == n + 5 && strncmp(parameter, word, n) == 0 && strcmp(parameter + n, "_bank") == 0);
}

/* "NAME key=value key=value": each with what it means. */
static void explain_parameters(debug_call *call, const char *text)
{
    tv_codec *codec;
    tv_insn_info info;
    tv_parameter_info p;
    unsigned insn = 0;
    if (tv_codec_new_for(tv_machine_get_target(call->d->machine)->isa, NULL, &codec) != TV_OK)
        return;
    size_t n = strcspn(text, " ");
    json_t *list = json_array();
    while (tv_codec_insn_at(codec, insn, &info) && !(strlen(info.id) == n && strncmp(info.id, text, n) == 0))
        insn++;
    if (tv_codec_insn_at(codec, insn, &info))
        tv_buf_printf(call->text, "  %s (%s)\n", info.meaning, info.source);
    for (const char *at = text + n; *at; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        size_t key = strcspn(at, "= "), end = strcspn(at, " ");
        bool found = false;
        for (unsigned i = 0; at[key] == '=' && !found && tv_codec_parameter_at(codec, insn, i, &p); i++)
            found = same_name(p.name, at, key);
        if (!found)
            continue;
        tv_buf_printf(call->text, "  %-16.*s = %-14.*s %s%s%s\n", (int)key, at, (int)(end - key - 1), at + key + 1,
                      p.doc, p.unit && *p.unit ? ", in " : "", p.unit ? p.unit : "");
        char name[64], value[256];
        snprintf(name, sizeof name, "%.*s", (int)key, at);
        snprintf(value, sizeof value, "%.*s", (int)(end - key - 1), at + key + 1);
        json_array_append_new(list, json_pack("{s:o, s:o, s:s}", "name", debug_json_text(name), "value",
                                              debug_json_text(value), "doc", p.doc));
    }
    json_object_set_new(call->json, "parameters", list);
    tv_codec_free(codec);
}

typedef struct touches {
    debug_call *call;
    json_t *list;
    uint64_t count;
} touches;

static void take_touch(void *user, const tv_access *a)
{
    enum { SHOWN = 24, BYTES = 16 };
    touches *t = user;
    uint8_t bytes[BYTES + 8];
    size_t size = a->bytes < BYTES ? (size_t)a->bytes : BYTES;
    tv_buf *text = t->call->text;
    if (t->count++ >= SHOWN)
        return;
    tv_buf_printf(text, "  %s %" PRIu64 " byte%s at ", a->write ? "writes" : "reads", a->bytes,
                  a->bytes == 1 ? "" : "s");
    debug_print_address(t->call->d, a->space, a->addr, text);
    if (tv_machine_read(t->call->d->machine, a->space, a->addr, bytes, size, NULL) == TV_OK) {
        tv_buf_str(text, a->write ? ", now" : ":");
        for (size_t i = 0; i < size; i++)
            tv_buf_printf(text, " %02x", bytes[i]);
        tv_buf_str(text, size < a->bytes ? " …" : "");
    }
    tv_buf_str(text, "\n");
    json_array_append_new(t->list, json_pack("{s:s, s:I, s:I, s:b}", "space", a->space, "addr", (json_int_t)a->addr,
                                             "bytes", (json_int_t)a->bytes, "write", a->write));
}

tv_status debug_verb_explain(debug_call *call)
{
    tv_debug *d = call->d;
    tv_debug_location here, place;
    tv_debug_current_location(d, &here);
    uint64_t index = here.index;
    if (call->count)
        TV_TRY(debug_parse_index(d, call->words[0], call->sink, &index));
    if (!tv_debug_instruction_location(d, index, &place))
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`explain WHERE` takes an instruction",
                       "there is no next instruction");
    tv_buf_printf(call->text, "%" PRIu64 "  %s\n", index, place.text);
    json_object_set_new(call->json, "index", json_integer((json_int_t)index));
    json_object_set_new(call->json, "instruction", debug_json_text(place.text));
    if (d->codec)
        explain_fields(call, tv_program_word(d->programs[d->program], index));
    else
        explain_parameters(call, place.text);
    if (index != here.index || here.end)
        return TV_OK;
    touches t = {call, json_array(), 0};
    tv_machine_accesses(d->machine, &(tv_access_sink){take_touch, &t});
    if (t.count > json_array_size(t.list))
        tv_buf_printf(call->text, "  and %" PRIu64 " more ranges\n", t.count - json_array_size(t.list));
    json_object_set_new(call->json, "accesses", t.list);
    return TV_OK;
}

/* ---- why ---- */

enum { STALLS_MAX = 64 };

/* What was told of one instruction. */
typedef struct told {
    unsigned program;
    int64_t index, first; /* over all programs: the instruction, and the program's first */
    unsigned count;
    bool issued, faults;
    char fault[200]; /* what it faults with */
    uint64_t start, end;
    struct {
        const char *reason, *engine;
        uint64_t from, to;
        int64_t waits_for;
        bool scheduler;
    } stalls[STALLS_MAX];
} told;

static void take_event(void *user, const tv_event *e)
{
    told *t = user;
    if (e->index != t->index)
        return;
    if (e->kind == TV_EVENT_COMMAND || e->kind == TV_EVENT_ENGINE) {
        t->start = e->start;
        t->end = t->issued ? tv_max_u64(t->end, e->end) : e->end;
        t->issued = true;
    }
    for (unsigned i = 0; e->kind == TV_EVENT_STALL && i < t->count; i++) /* the engine waits as long as the scheduler */
        if (strcmp(t->stalls[i].reason, e->reason) == 0 && t->stalls[i].to == e->end &&
            t->stalls[i].scheduler != (e->scheduler != 0))
            return;
    if (e->kind != TV_EVENT_STALL || t->count == STALLS_MAX)
        return;
    t->stalls[t->count].reason = e->reason;
    t->stalls[t->count].engine = e->lane ? e->lane : e->engine;
    t->stalls[t->count].from = e->start;
    t->stalls[t->count].to = e->end;
    t->stalls[t->count].waits_for = e->waits_for;
    t->stalls[t->count++].scheduler = e->scheduler != 0;
}

static void print_told(debug_call *call, const told *t, bool next)
{
    tv_debug *d = call->d;
    tv_debug_location place = {.text = ""};
    json_t *list = json_array();
    debug_instruction_of(d, t->program, (uint64_t)(t->index - t->first), &place);
    tv_buf_printf(call->text, "%" PRIu64 "  %s\n", place.index, place.text);
    if (t->issued)
        tv_buf_printf(call->text,
                      next ? "  will begin at cycle %" PRIu64 " and end at %" PRIu64 "\n"
                           : "  began at cycle %" PRIu64 ", ends at %" PRIu64 "\n",
                      t->start, t->end);
    if (t->faults)
        tv_buf_printf(call->text, "  %s: %s\n", next ? "will fault" : "faulted", t->fault);
    for (unsigned i = 0; i < t->count; i++) {
        tv_buf_printf(call->text, "  held for %" PRIu64 " cycle%s (%" PRIu64 " to %" PRIu64 ") by %s in %s",
                      t->stalls[i].to - t->stalls[i].from, t->stalls[i].to - t->stalls[i].from == 1 ? "" : "s",
                      t->stalls[i].from, t->stalls[i].to, t->stalls[i].reason, t->stalls[i].engine);
        bool known = t->stalls[i].waits_for >= t->first &&
                     debug_instruction_of(d, t->program, (uint64_t)(t->stalls[i].waits_for - t->first), &place);
        if (known)
            tv_buf_printf(call->text, "\n    waiting for %" PRIu64 "  %s", place.index, place.text);
        tv_buf_str(call->text, "\n");
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I}", "cause", t->stalls[i].reason, "engine",
                                              t->stalls[i].engine, "from", (json_int_t)t->stalls[i].from, "to",
                                              (json_int_t)t->stalls[i].to, "waits_for",
                                              (json_int_t)(known ? t->stalls[i].waits_for - t->first : -1)));
    }
    if (!t->count && !t->faults)
        tv_buf_printf(call->text, "  nothing %s it\n", next ? "holds" : "held");
    json_object_set_new(call->json, "index", json_integer((json_int_t)(t->index - t->first)));
    json_object_set_new(call->json, "stalls", list);
    if (t->faults)
        json_object_set_new(call->json, "faults", debug_json_text(t->fault));
}

/* Runs one instruction with an ear for what is told of it. */
static tv_status listen(tv_debug *d, told *t, const tv_diag_sink *sink)
{
    tv_stop_reason why;
    t->program = d->program;
    t->first = (int64_t)d->base[d->program];
    t->index = t->first + (int64_t)tv_machine_nth_index(d->machine, tv_machine_next_index(d->machine));
    tv_machine_trace(d->machine, &(tv_trace_sink){take_event, t});
    tv_status status = debug_advance(d, debug_position(d) + 1, UINT64_MAX, sink, &why);
    tv_machine_trace(d->machine, NULL);
    t->faults = status == TV_FAULT;
    if (t->faults)
        snprintf(t->fault, sizeof t->fault, "%s", tv_machine_fault(d->machine)->message);
    return t->faults ? TV_OK : status;
}

/* The same of the instruction at `at`; the machine then stands as before, at a fault, too, unless the way was
 * interrupted. */
static tv_status listen_at(tv_debug *d, uint64_t at, told *t, const tv_diag_sink *sink, bool *there)
{
    uint64_t position = debug_position(d);
    bool faulted = tv_machine_fault(d->machine) != NULL;
    tv_stop_reason why;
    *there = true;
    if (at != position || faulted)
        TV_TRY(debug_travel(d, at, sink, there));
    if (*there)
        TV_TRY(listen(d, t, sink));
    if (*there && (debug_position(d) != position || t->faults))
        TV_TRY(debug_travel(d, position, sink, there));
    if (!*there || !faulted)
        return TV_OK;
    tv_status status = debug_advance(d, position + 1, UINT64_MAX, sink, &why);
    return status == TV_FAULT ? TV_OK : status;
}

tv_status debug_verb_why(debug_call *call)
{
    tv_debug *d = call->d;
    uint64_t position = debug_position(d);
    bool next = call->count && strcmp(call->words[0], "next") == 0, there = true;
    told *t = calloc(1, sizeof *t);
    if (!t)
        return tv_fail_memory(call->sink);
    tv_status status = TV_OK;
    if (call->count && !next)
        status = debug_fail_argument(call, "why, or why next", "'%.40s' is neither", call->words[0]);
    else if (d->options.mode == TV_MODE_FUNCTIONAL)
        status = tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), NULL, "a functional run has no cycles");
    else if (d->trace)
        status = tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), "`trace off` ends the trace",
                         "that takes a step back, which a run that is being traced cannot do");
    else if (next ? debug_at_end(d) : position == 0)
        status = tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), NULL,
                         next ? "there is no next instruction"
                              : "nothing has run; `why next` asks about the next instruction");
    if (status == TV_OK)
        status = listen_at(d, next ? position : position - 1, t, call->sink, &there);
    if (status == TV_OK && !there) { /* on the way back */
        d->last = (tv_debug_stop){.reason = TV_DEBUG_INTERRUPTED, .dropped_writes = debug_forget_future(d)};
        call->stopped = true;
        debug_tell_stop(d, &d->last, call->text, call->json);
    } else if (status == TV_OK)
        print_told(call, t, next);
    free(t);
    return status;
}
