/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: one table of verbs, from which reading, help and completion come; and answers as text and JSON. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "debug/debug.h"
#include "machine/target.h"
#include "trivet/file.h"

enum { LINE_MAX_BYTES = 65536, WORDS_MAX = 1024, DEPTH_MAX = 8, SCRIPT_MAX = 1 << 20, ANSWER_MAX = 64 << 20 };

const debug_verb debug_verbs[] = {
    {"break", "b", "WHERE [if CONDITION]",
     "stop before an instruction: its number, LABEL[+N], FILE:LINE, `opcode NAME`, `cycle N` or `fault`", DEBUG_PLACES,
     1, 64, DEBUG_ONCE, debug_verb_break},
    {"tbreak", "tb", "WHERE [if CONDITION]", "the same, once", DEBUG_PLACES, 1, 64, DEBUG_ONCE, debug_verb_tbreak},
    {"watch", "", "SPACE:ADDR[:BYTES] [if CONDITION]", "stop before an instruction that writes there", DEBUG_SPACES, 1,
     64, DEBUG_ONCE, debug_verb_watch},
    {"rwatch", "", "SPACE:ADDR[:BYTES] [if CONDITION]", "stop before an instruction that reads there", DEBUG_SPACES, 1,
     64, DEBUG_ONCE, debug_verb_watch},
    {"awatch", "", "SPACE:ADDR[:BYTES] [if CONDITION]", "stop before an instruction that reads or writes there",
     DEBUG_SPACES, 1, 64, DEBUG_ONCE, debug_verb_watch},
    {"delete", "d", "[NUMBER …]", "forget breakpoints, or all of them", DEBUG_NUMBERS, 0, 64, DEBUG_ONCE,
     debug_verb_delete},
    {"disable", "", "[NUMBER …]", "pass over breakpoints, or all of them", DEBUG_NUMBERS, 0, 64, DEBUG_ONCE,
     debug_verb_enable},
    {"enable", "", "[NUMBER …]", "stop at them again", DEBUG_NUMBERS, 0, 64, DEBUG_ONCE, debug_verb_enable},
    {"ignore", "", "NUMBER COUNT", "pass over the next COUNT hits of a breakpoint", DEBUG_NUMBERS, 2, 2, DEBUG_ONCE,
     debug_verb_ignore},
    {"step", "s si", "[N]", "run one instruction, or N", DEBUG_NOTHING, 0, 1, DEBUG_AGAIN, debug_verb_step},
    {"next", "n ni", "[N]", "the same as step: these machines have no calls to step over", DEBUG_NOTHING, 0, 1,
     DEBUG_AGAIN, debug_verb_step},
    {"continue", "c", "", "run to the next breakpoint, fault or the end", DEBUG_NOTHING, 0, 0, DEBUG_AGAIN,
     debug_verb_continue},
    {"until", "u", "WHERE", "run to an instruction of the loaded program", DEBUG_PLACES, 1, 1, DEBUG_ONCE,
     debug_verb_until},
    {"run", "r", "", "run from the start", DEBUG_NOTHING, 0, 0, DEBUG_ONCE, debug_verb_run},
    {"restart", "", "", "go back to the start", DEBUG_NOTHING, 0, 0, DEBUG_ONCE, debug_verb_restart},
    {"back", "bk", "[N]", "undo one instruction, or N", DEBUG_NOTHING, 0, 1, DEBUG_AGAIN, debug_verb_back},
    {"rcontinue", "rc", "", "go back to the last breakpoint before this place, or to the start", DEBUG_NOTHING, 0, 0,
     DEBUG_AGAIN, debug_verb_rcontinue},
    {"where", "w", "", "show the place again", DEBUG_NOTHING, 0, 0, DEBUG_ONCE, debug_verb_where},
    {"info", "i", "TOPIC",
     "break, registers, engines, queues, streams, hazards, pending, program, spaces, config, history", DEBUG_TOPICS, 1,
     2, DEBUG_ONCE, debug_verb_info},
    {"x", "", "[/COUNT] [TYPE] SPACE:ADDR, or SPACE:ADDR:LEN[:TYPE]", "show memory", DEBUG_SPACES, 1, 3, DEBUG_ONCE,
     debug_verb_x},
    {"set", "", "SPACE:ADDR[:TYPE] = VALUE …", "write memory", DEBUG_SPACES, 1, WORDS_MAX, DEBUG_ONCE, debug_verb_set},
    {"print", "p", "SYMBOL|NUMBER", "show a symbol's value, or a number in other bases", DEBUG_PLACES, 1, 1, DEBUG_ONCE,
     debug_verb_print},
    {"disas", "dis", "[FROM[,TO]]", "disassemble; again: what follows", DEBUG_PLACES, 0, 2, DEBUG_GOES_ON,
     debug_verb_disas},
    {"list", "l", "[LINE|FILE:LINE]", "show the source around a line; again: what follows", DEBUG_PLACES, 0, 1,
     DEBUG_GOES_ON, debug_verb_list},
    {"explain", "e", "[WHERE]", "the next instruction in full: fields, meaning, what it will touch", DEBUG_PLACES, 0, 1,
     DEBUG_ONCE, debug_verb_explain},
    {"why", "", "[next]", "what held the last instruction, or will hold the next", DEBUG_NOTHING, 0, 1, DEBUG_ONCE,
     debug_verb_why},
    {"trace", "", "on FILE [perfetto]|off", "write a trace of what runs from here on", DEBUG_SWITCH, 1, 3, DEBUG_ONCE,
     debug_verb_trace},
    {"source", "", "FILE", "do the commands of a file", DEBUG_FILES, 1, 1, DEBUG_ONCE, debug_verb_source},
    {"help", "h ?", "[COMMAND]", "explain the commands", DEBUG_VERBS, 0, 1, DEBUG_ONCE, debug_verb_help},
    {"quit", "q exit", "", "leave the debugger", DEBUG_NOTHING, 0, 0, DEBUG_ONCE, debug_verb_quit},
    {0},
};

static bool is_alias(const debug_verb *verb, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = verb->aliases; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && strncmp(p, name, n) == 0)
            return true;
    return false;
}

const debug_verb *debug_verb_find(const char *name)
{
    const debug_verb *found = NULL;
    for (const debug_verb *v = debug_verbs; v->name; v++)
        if (strcmp(v->name, name) == 0 || is_alias(v, name))
            return v;
    for (const debug_verb *v = debug_verbs; v->name && strlen(name) >= 2; v++) { /* a beginning that only one has */
        if (strncmp(v->name, name, strlen(name)) != 0)
            continue;
        if (found)
            return NULL;
        found = v;
    }
    return found;
}

tv_status debug_fail_argument(debug_call *call, const char *hint, const char *format, ...)
{
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), hint, "%s: %s", call->name, message);
}

json_t *debug_json_text(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();
    return value ? value : json_string("?");
}

/* ---- Doing a line ---- */

/* Diagnostics go on to the caller, and into the answer. */
typedef struct ear {
    const tv_diag_sink *sink;
    json_t *list;
} ear;

static void hear(void *user, const tv_diag *diag)
{
    ear *e = user;
    char *text = tv_diag_json(diag);
    if (text)
        json_array_append_new(e->list, json_loads(text, 0, NULL));
    free(text);
    if (e->sink && e->sink->emit)
        e->sink->emit(e->sink->user, diag);
}

static tv_status fail_verb(const char *name, const tv_diag_sink *sink)
{
    tv_nearest nearest = tv_nearest_to(tv_sv_of(name));
    char hint[64] = "`help` lists the commands";
    for (const debug_verb *v = debug_verbs; v->name; v++)
        tv_nearest_offer(&nearest, v->name);
    if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest.best);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_VERB), hint, "unknown command '%.40s'", name);
}

static tv_status do_verb(debug_call *call, const debug_verb *verb)
{
    char usage[160];
    snprintf(usage, sizeof usage, "%s%s%s", verb->name, *verb->arguments ? " " : "", verb->arguments);
    call->name = verb->name;
    if (call->count < verb->least)
        return debug_fail_argument(call, usage, "an argument is missing");
    if (call->count > verb->most)
        return debug_fail_argument(call, usage, "too many arguments");
    return verb->run(call);
}

/* Cuts `copy` into words; x/8 is x and /8. */
static unsigned split(char *copy, char **words)
{
    unsigned count = 0;
    for (char *save = NULL, *word = strtok_r(copy, " \t\r\n", &save); word && count < WORDS_MAX;
         word = strtok_r(NULL, " \t\r\n", &save))
        words[count++] = word;
    return count;
}

static tv_status do_line(debug_call *call, const char *line)
{
    char *copy = malloc(strlen(line) + 2), **words = calloc(WORDS_MAX + 1, sizeof *words), name[64];
    tv_status status = TV_OK;
    if (!copy || !words) {
        free(copy);
        free(words);
        return tv_fail_memory(call->sink);
    }
    line += strspn(line, " \t");
    size_t n = strcspn(line, " \t\r\n/");
    snprintf(name, sizeof name, "%.*s", (int)n, line);
    strcpy(copy, line + n);
    call->words = words;
    call->count = split(copy, words);
    call->rest = line + n + strspn(line + n, " \t");
    const debug_verb *verb = n < sizeof name ? debug_verb_find(name) : NULL;
    if (n == 0 || *line == '#')
        status = TV_OK;
    else if (verb) {
        json_object_set_new(call->json, "command", json_string(verb->name));
        status = do_verb(call, verb);
        if (verb->repeat != DEBUG_ONCE)
            call->repeat = strdup(verb->repeat == DEBUG_AGAIN ? line : verb->name);
    } else
        status = fail_verb(name, call->sink);
    free(copy);
    free(words);
    return status;
}

static void finish(debug_call *call, tv_status status, json_t *diagnostics, tv_debug_answer *answer)
{
    json_object_set_new(call->json, "status", json_string(status == TV_OK ? "ok" : "error"));
    if (json_array_size(diagnostics))
        json_object_set(call->json, "diagnostics", diagnostics);
    if (call->text->len)
        json_object_set_new(call->json, "text", debug_json_text(tv_buf_cstr(call->text)));
    answer->json = json_dumps(call->json, JSON_COMPACT | JSON_REAL_PRECISION(9));
    answer->text = tv_buf_take(call->text);
    answer->repeat = call->repeat;
    answer->quit = call->quit;
    answer->stopped = call->stopped;
    json_decref(call->json);
    json_decref(diagnostics);
}

tv_status tv_debug_command(tv_debug *d, const char *line, const tv_diag_sink *sink, tv_debug_answer *answer)
{
    ear e = {sink, json_array()};
    tv_diag_sink own = {hear, &e};
    tv_buf text = {0};
    debug_call call = {.d = d, .sink = &own, .text = &text, .json = json_object()};
    *answer = (tv_debug_answer){0};
    tv_status status = strlen(line) < LINE_MAX_BYTES
                           ? do_line(&call, line)
                           : tv_fail(&own, TV_ERR_INPUT, TV_CODE(DEBUG_VERB), NULL, "the line is too long");
    finish(&call, status, e.list, answer);
    return status;
}

void tv_debug_answer_free(tv_debug_answer *answer)
{
    free(answer->text);
    free(answer->json);
    free(answer->repeat);
    *answer = (tv_debug_answer){0};
}

void tv_debug_describe_stop(tv_debug *d, const tv_debug_stop *stop, tv_debug_answer *answer)
{
    tv_buf text = {0};
    debug_call call = {.d = d, .text = &text, .json = json_object()};
    *answer = (tv_debug_answer){0};
    debug_tell_stop(d, stop, &text, call.json);
    finish(&call, TV_OK, json_array(), answer);
}

/* ---- Verbs about commands ---- */

tv_status debug_verb_help(debug_call *call)
{
    const debug_verb *one = call->count ? debug_verb_find(call->words[0]) : NULL;
    json_t *list = json_array();
    if (call->count && !one) {
        json_decref(list);
        return fail_verb(call->words[0], call->sink);
    }
    for (const debug_verb *v = debug_verbs; v->name; v++) {
        char form[96];
        if (one && v != one)
            continue;
        snprintf(form, sizeof form, "%s%s%s", v->name, *v->arguments ? " " : "", v->arguments);
        tv_buf_printf(call->text, one ? "%s\n  %s\n" : "%-14s %s\n", one ? form : v->name, v->help);
        if (one && *v->aliases)
            tv_buf_printf(call->text, "  short: %s\n", v->aliases);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", v->name, "arguments", v->arguments,
                                              "help", v->help, "aliases", v->aliases));
    }
    if (!one)
        tv_buf_str(call->text, "An empty line repeats step, back, continue, disas and list. `help COMMAND` has the "
                               "arguments; the beginning of a name will do.\n");
    json_object_set_new(call->json, "commands", list);
    return TV_OK;
}

tv_status debug_verb_quit(debug_call *call)
{
    call->quit = true;
    return TV_OK;
}

/* One line of a script: its answer joins the script's. */
static tv_status do_script_line(debug_call *call, const char *line, json_t *list)
{
    tv_debug_answer answer;
    tv_status status = tv_debug_command(call->d, line, call->sink, &answer);
    json_t *value = answer.json ? json_loads(answer.json, 0, NULL) : NULL;
    if (value)
        json_array_append_new(list, value);
    if (answer.text && call->text->len < ANSWER_MAX)
        tv_buf_str(call->text, answer.text);
    call->quit |= answer.quit != 0;
    call->stopped |= answer.stopped != 0;
    tv_debug_answer_free(&answer);
    return status;
}

tv_status debug_verb_source(debug_call *call)
{
    tv_input input;
    tv_buf text = {0};
    if (call->d->depth >= DEPTH_MAX)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_SCRIPT), NULL,
                       "scripts call each other more than %d deep", DEPTH_MAX);
    if (strcmp(call->words[0], "-") == 0) /* commands, or an editor's messages, may come from there */
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_SCRIPT), NULL, "a script is a file, not standard input");
    TV_TRY(tv_input_open(call->words[0], call->sink, &input));
    bool fits = input.size <= SCRIPT_MAX;
    if (fits)
        tv_buf_append(&text, input.data, input.size);
    tv_input_close(&input);
    json_t *list = json_array();
    tv_status status = TV_OK;
    if (!fits)
        status = tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_SCRIPT), NULL, "the script has more than %d bytes",
                         SCRIPT_MAX);
    call->d->depth++;
    tv_buf_cstr(&text);
    for (char *line = (char *)text.data, *end; status == TV_OK && line && *line && !call->quit; line = end) {
        end = line + strcspn(line, "\n");
        end += *end ? (*end = '\0', 1) : 0;
        status = do_script_line(call, line, list);
    }
    call->d->depth--;
    json_object_set_new(call->json, "answers", list);
    tv_buf_fini(&text);
    return status;
}

/* ---- Completion ---- */

static void offer(tv_buf *out, const char *word, size_t n, const char *candidate)
{
    if (strncmp(candidate, word, n) == 0)
        tv_buf_printf(out, "%s\n", candidate);
}

static void offer_places(tv_debug *d, const char *word, size_t n, tv_buf *out)
{
    static const char *const words[] = {"opcode", "cycle", "fault"};
    tv_symbol symbol;
    for (unsigned i = 0; i < TV_COUNTOF(words); i++)
        offer(out, word, n, words[i]);
    for (uint64_t i = 0; tv_program_symbol_at(d->programs[d->program], i, &symbol); i++)
        if (symbol.kind == TV_SYMBOL_TEXT)
            offer(out, word, n, symbol.name);
}

static void offer_opcodes(tv_debug *d, const char *word, size_t n, tv_buf *out)
{
    tv_insn_info info;
    tv_codec *codec;
    if (tv_codec_new_for(tv_machine_get_target(d->machine)->isa, NULL, &codec) != TV_OK)
        return;
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &info); i++)
        offer(out, word, n, info.mnemonic);
    tv_codec_free(codec);
}

static void offer_values(tv_debug *d, const debug_verb *verb, const char *word, size_t n, tv_buf *out)
{
    char text[80];
    tv_space space;
    switch (verb->values) {
    case DEBUG_NOTHING:
    case DEBUG_FILES:
        break;
    case DEBUG_PLACES:
        offer_places(d, word, n, out);
        break;
    case DEBUG_SPACES:
        for (unsigned i = 0; tv_machine_space_at(d->machine, i, &space); i++) {
            snprintf(text, sizeof text, "%s:", space.name);
            offer(out, word, n, text);
        }
        for (unsigned t = 0; strcmp(verb->name, "x") == 0 && t < TV_DTYPE_COUNT; t++)
            offer(out, word, n, tv_dtype_name((tv_dtype)t));
        break;
    case DEBUG_TOPICS:
        for (unsigned i = 0; debug_topics[i]; i++)
            offer(out, word, n, debug_topics[i]);
        break;
    case DEBUG_NUMBERS:
        for (unsigned i = 0; i < d->break_count; i++) {
            snprintf(text, sizeof text, "%u", d->breaks[i].info.number);
            offer(out, word, n, text);
        }
        break;
    case DEBUG_SWITCH:
        offer(out, word, n, "on");
        offer(out, word, n, "off");
        break;
    case DEBUG_VERBS:
        for (const debug_verb *v = debug_verbs; v->name; v++)
            offer(out, word, n, v->name);
    }
}

char *tv_debug_complete(tv_debug *d, const char *line)
{
    tv_buf out = {0};
    char name[64];
    line += strspn(line, " \t");
    size_t first = strcspn(line, " \t/");
    const char *word = line + strlen(line);
    while (word > line && word[-1] != ' ' && word[-1] != '\t')
        word--;
    if (line[first] == '\0') {
        for (const debug_verb *v = debug_verbs; v->name; v++)
            offer(&out, line, first, v->name);
        return tv_buf_take(&out);
    }
    snprintf(name, sizeof name, "%.*s", (int)first, line);
    const debug_verb *verb = debug_verb_find(name);
    if (verb && strstr(line, " opcode ") && verb->values == DEBUG_PLACES)
        offer_opcodes(d, word, strlen(word), &out);
    else if (verb)
        offer_values(d, verb, word, strlen(word), &out);
    return tv_buf_take(&out);
}
