/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: one table of verbs, from which parsing, help and completion are derived. This is the console's top
 * file: it knows all verbs, and they do not know it. */
#include <stdlib.h>

#include "base/vec.h"
#include "debug/console/console.h"
#include "machine/target.h"
#include "trivet/file.h"

enum { LINE_MAX_BYTES = 65536, ARGS_MAX = 1024, DEPTH_MAX = 8, SCRIPT_MAX = 1 << 20, TEXT_MAX = 64 << 20 };

static debug_verb_function run_help, run_source, run_quit;

/* What the arguments of a verb are completed with. */
typedef enum completion_kind {
    COMPLETE_NOTHING,
    COMPLETE_LOCATIONS,
    COMPLETE_SPACES,
    COMPLETE_TOPICS,
    COMPLETE_BREAKPOINTS,
    COMPLETE_FILES, /* left to the caller */
    COMPLETE_ON_OFF,
    COMPLETE_VERBS
} completion_kind;

/* What an empty line does after a verb: nothing, the whole line again, or the verb without its arguments. */
typedef enum repeat_kind { REPEAT_NOTHING, REPEAT_LINE, REPEAT_VERB } repeat_kind;

typedef struct debug_verb {
    const char *name, *aliases; /* aliases are separated by spaces */
    const char *arguments, *help;
    completion_kind completion;
    unsigned args_min, args_max;
    repeat_kind repeat;
    debug_verb_function *run;
} debug_verb;

static const debug_verb verbs[] = {
    {"break", "b", "WHERE [if CONDITION]",
     "stop before an instruction: its index, LABEL[+N], FILE:LINE, `opcode NAME`, `cycle N` or `fault`",
     COMPLETE_LOCATIONS, 1, 64, REPEAT_NOTHING, tv_debug_verb_break},
    {"tbreak", "tb", "WHERE [if CONDITION]", "set a breakpoint that is deleted at its first hit", COMPLETE_LOCATIONS, 1,
     64, REPEAT_NOTHING, tv_debug_verb_tbreak},
    {"watch", "", "SPACE:ADDR[:BYTES] [if CONDITION]", "stop before an instruction that writes there", COMPLETE_SPACES,
     1, 64, REPEAT_NOTHING, tv_debug_verb_watch},
    {"rwatch", "", "SPACE:ADDR[:BYTES] [if CONDITION]", "stop before an instruction that reads there", COMPLETE_SPACES,
     1, 64, REPEAT_NOTHING, tv_debug_verb_rwatch},
    {"awatch", "", "SPACE:ADDR[:BYTES] [if CONDITION]", "stop before an instruction that reads or writes there",
     COMPLETE_SPACES, 1, 64, REPEAT_NOTHING, tv_debug_verb_awatch},
    {"delete", "d", "[NUMBER …]", "delete breakpoints, or all of them", COMPLETE_BREAKPOINTS, 0, 64, REPEAT_NOTHING,
     tv_debug_verb_delete},
    {"disable", "", "[NUMBER …]", "disable breakpoints, or all of them", COMPLETE_BREAKPOINTS, 0, 64, REPEAT_NOTHING,
     tv_debug_verb_disable},
    {"enable", "", "[NUMBER …]", "enable breakpoints, or all of them", COMPLETE_BREAKPOINTS, 0, 64, REPEAT_NOTHING,
     tv_debug_verb_enable},
    {"ignore", "", "NUMBER COUNT", "skip the next COUNT hits of a breakpoint", COMPLETE_BREAKPOINTS, 2, 2,
     REPEAT_NOTHING, tv_debug_verb_ignore},
    {"step", "s si", "[N]", "execute one instruction, or N", COMPLETE_NOTHING, 0, 1, REPEAT_LINE, tv_debug_verb_step},
    {"next", "n ni", "[N]", "the same as step: these machines have no calls to step over", COMPLETE_NOTHING, 0, 1,
     REPEAT_LINE, tv_debug_verb_step},
    {"continue", "c", "", "run to the next breakpoint, fault or the end", COMPLETE_NOTHING, 0, 0, REPEAT_LINE,
     tv_debug_verb_continue},
    {"until", "u", "WHERE", "run to an instruction of the loaded program", COMPLETE_LOCATIONS, 1, 1, REPEAT_NOTHING,
     tv_debug_verb_until},
    {"run", "r", "", "run from the start", COMPLETE_NOTHING, 0, 0, REPEAT_NOTHING, tv_debug_verb_run},
    {"restart", "", "", "go back to the start", COMPLETE_NOTHING, 0, 0, REPEAT_NOTHING, tv_debug_verb_restart},
    {"back", "bk", "[N]", "undo one instruction, or N", COMPLETE_NOTHING, 0, 1, REPEAT_LINE, tv_debug_verb_back},
    {"rcontinue", "rc", "", "run backwards to the previous breakpoint, or to the start", COMPLETE_NOTHING, 0, 0,
     REPEAT_LINE, tv_debug_verb_rcontinue},
    {"where", "w", "", "show the current location", COMPLETE_NOTHING, 0, 0, REPEAT_NOTHING, tv_debug_verb_where},
    {"info", "i", "TOPIC",
     "break, registers, engines, queues, streams, hazards, pending, program, spaces, config, history", COMPLETE_TOPICS,
     1, 2, REPEAT_NOTHING, tv_debug_verb_info},
    {"x", "", "[/COUNT] [TYPE] SPACE:ADDR, or SPACE:ADDR:LEN[:TYPE]", "show memory", COMPLETE_SPACES, 1, 3,
     REPEAT_NOTHING, tv_debug_verb_x},
    {"set", "", "SPACE:ADDR[:TYPE] = VALUE …", "write memory", COMPLETE_SPACES, 1, ARGS_MAX, REPEAT_NOTHING,
     tv_debug_verb_set},
    {"print", "p", "EXPRESSION",
     "show a symbol, register, state value or memory; a number in other bases; or compute with them: vx1[3] + 2 * l2:4",
     COMPLETE_LOCATIONS, 1, ARGS_MAX, REPEAT_NOTHING, tv_debug_verb_print},
    {"display", "", "[EXPRESSION]", "print an expression now and at every stop, or all of them", COMPLETE_LOCATIONS, 0,
     ARGS_MAX, REPEAT_NOTHING, tv_debug_verb_display},
    {"undisplay", "", "[NUMBER …]", "remove displays, or all of them", COMPLETE_NOTHING, 0, 64, REPEAT_NOTHING,
     tv_debug_verb_undisplay},
    {"disas", "dis", "[FROM[,TO]]", "disassemble; repeated: continue", COMPLETE_LOCATIONS, 0, 2, REPEAT_VERB,
     tv_debug_verb_disas},
    {"list", "l", "[LINE|FILE:LINE]", "show the source around a line; repeated: continue", COMPLETE_LOCATIONS, 0, 1,
     REPEAT_VERB, tv_debug_verb_list},
    {"explain", "e", "[WHERE]", "explain an instruction: fields, meaning, memory accesses", COMPLETE_LOCATIONS, 0, 1,
     REPEAT_NOTHING, tv_debug_verb_explain},
    {"why", "", "[next]", "show what stalled the last instruction, or will stall the next", COMPLETE_NOTHING, 0, 1,
     REPEAT_NOTHING, tv_debug_verb_why},
    {"trace", "", "on FILE [perfetto]|off", "write a trace from here on", COMPLETE_ON_OFF, 1, 3, REPEAT_NOTHING,
     tv_debug_verb_trace},
    {"source", "", "FILE", "execute the commands of a file", COMPLETE_FILES, 1, 1, REPEAT_NOTHING, run_source},
    {"help", "h ?", "[COMMAND]", "list the commands, or explain one", COMPLETE_VERBS, 0, 1, REPEAT_NOTHING, run_help},
    {"quit", "q exit", "", "leave the debugger", COMPLETE_NOTHING, 0, 0, REPEAT_NOTHING, run_quit},
};

/* ---- Lookup ---- */

static bool has_alias(const debug_verb *verb, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = verb->aliases; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && strncmp(p, name, n) == 0)
            return true;
    return false;
}

/* Finds a verb by its name, an alias or a unique prefix of at least two characters. */
static const debug_verb *find_verb(const char *name)
{
    const debug_verb *found = NULL;
    for (size_t i = 0; i < TV_COUNTOF(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0 || has_alias(&verbs[i], name))
            return &verbs[i];
    for (size_t i = 0; i < TV_COUNTOF(verbs) && strlen(name) >= 2; i++) {
        if (strncmp(verbs[i].name, name, strlen(name)) != 0)
            continue;
        if (found)
            return NULL;
        found = &verbs[i];
    }
    return found;
}

static tv_status fail_verb(const char *name, const tv_diag_sink *sink)
{
    tv_nearest nearest = tv_nearest_to(tv_sv_of(name));
    char hint[64] = "`help` lists the commands";
    for (size_t i = 0; i < TV_COUNTOF(verbs); i++)
        tv_nearest_offer(&nearest, verbs[i].name);
    if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%s'?", nearest.best);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_VERB), hint, "unknown command '%.40s'", name);
}

static void print_usage(const debug_verb *verb, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s", verb->name, *verb->arguments ? " " : "", verb->arguments);
}

/* ---- Execution ---- */

static tv_status run_verb(debug_call *call, const debug_verb *verb)
{
    char usage[160];
    print_usage(verb, usage, sizeof usage);
    call->name = verb->name;
    if (call->count < verb->args_min)
        return tv_debug_fail_argument(call, usage, "an argument is missing");
    if (call->count > verb->args_max)
        return tv_debug_fail_argument(call, usage, "too many arguments");
    TV_TRY(verb->run(call));
    if (call->stopped && verb->run != run_source)
        tv_debug_write_displays(call);
    return TV_OK;
}

/* Splits `text` in place at white space. */
static unsigned split_args(char *text, char **args)
{
    unsigned count = 0;
    char *save = NULL;
    for (char *word = strtok_r(text, " \t\r\n", &save); word && count < ARGS_MAX;
         word = strtok_r(NULL, " \t\r\n", &save))
        args[count++] = word;
    return count;
}

/* Executes a line. The verb ends at white space or '/', so that "x/8" is "x" and "/8". */
static tv_status run_line(debug_call *call, const char *line)
{
    char *copy = malloc(strlen(line) + 2), **args = calloc(ARGS_MAX + 1, sizeof *args), name[64];
    tv_status status = TV_OK;
    if (!copy || !args) {
        free(copy);
        free(args);
        return tv_fail_memory(call->sink);
    }
    line += strspn(line, " \t");
    size_t n = strcspn(line, " \t\r\n/");
    snprintf(name, sizeof name, "%.*s", (int)n, line);
    strcpy(copy, line + n);
    call->args = args;
    call->count = split_args(copy, args);
    call->rest = line + n + strspn(line + n, " \t");
    const debug_verb *verb = n < sizeof name ? find_verb(name) : NULL;
    if (n == 0 || *line == '#') {
        status = TV_OK;
    } else if (verb) {
        tv_json_string_member(call->json, "command", verb->name);
        status = run_verb(call, verb);
        if (verb->repeat != REPEAT_NOTHING)
            call->repeat = strdup(verb->repeat == REPEAT_LINE ? line : verb->name);
    } else {
        status = fail_verb(name, call->sink);
    }
    free(copy);
    free(args);
    return status;
}

/* Diagnostics of a command: passed on to the caller, and copied for the JSON result. */
typedef struct diag_tee {
    const tv_diag_sink *sink;
    tv_arena arena;
    TV_VEC(tv_diag) diags;
    bool failed; /* out of memory for a copy */
} diag_tee;

static const char *copy_string(tv_arena *arena, const char *text)
{
    return text ? tv_arena_str(arena, tv_sv_of(text)) : NULL;
}

static void tee_diag(void *user, const tv_diag *diag)
{
    diag_tee *tee = user;
    tv_diag copy = *diag;
    copy.file = copy_string(&tee->arena, diag->file);
    copy.message = copy_string(&tee->arena, diag->message);
    copy.hint = copy_string(&tee->arena, diag->hint);
    copy.source_line = NULL;
    tee->failed |= (diag->file && !copy.file) || !copy.message || (diag->hint && !copy.hint);
    tee->failed |= !TV_VEC_PUSH(&tee->diags, copy);
    if (tee->sink && tee->sink->emit)
        tee->sink->emit(tee->sink->user, diag);
}

static void write_diags(tv_json_writer *json, const diag_tee *tee)
{
    tv_json_key(json, "diagnostics");
    tv_json_begin_array(json);
    for (size_t i = 0; i < tee->diags.count; i++)
        tv_diag_write_json(json, &tee->diags.data[i]);
    tv_json_end_array(json);
}

/* Executes a line and writes the result as one object into `call`, whose d, sink, text and json are set. */
static tv_status run_command(debug_call *call, const char *line)
{
    diag_tee tee = {.sink = call->sink};
    tv_diag_sink sink = {tee_diag, &tee};
    call->sink = &sink;
    tv_json_begin_object(call->json);
    tv_status status = strlen(line) < LINE_MAX_BYTES
                           ? run_line(call, line)
                           : tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_VERB), NULL, "the line is too long");
    tv_json_string_member(call->json, "status", status == TV_OK ? "ok" : "invalid");
    if (tee.diags.count)
        write_diags(call->json, &tee);
    if (call->text->len)
        tv_json_string_member(call->json, "text", tv_buf_cstr(call->text));
    tv_json_end_object(call->json);
    call->text->failed |= tee.failed;
    TV_VEC_FINI(&tee.diags);
    tv_arena_fini(&tee.arena);
    return status;
}

/* Moves the output of `call`, whose JSON goes to `json`, into *answer. False: out of memory. */
static bool take_answer(debug_call *call, tv_buf *json, tv_debug_answer *answer)
{
    bool complete = tv_json_writer_finish(call->json) && !call->text->failed && !call->d->out_of_memory;
    call->d->out_of_memory = false;
    *answer = (tv_debug_answer){.text = tv_buf_take(call->text),
                                .json = tv_buf_take(json),
                                .repeat = call->repeat,
                                .quit = call->quit,
                                .stopped = call->stopped};
    if (complete && answer->text && answer->json)
        return true;
    free(answer->text); /* nothing instead of a part */
    free(answer->json);
    answer->text = answer->json = NULL;
    return false;
}

tv_status tv_debug_command(tv_debug *d, const char *line, const tv_diag_sink *sink, tv_debug_answer *answer)
{
    tv_buf text = {0}, json = {0};
    tv_json_writer writer;
    debug_call call = {.d = d, .sink = sink, .text = &text, .json = &writer};
    tv_json_writer_init_buf(&writer, &json, TV_JSON_COMPACT);
    tv_status status = run_command(&call, line);
    return take_answer(&call, &json, answer) ? status : tv_fail_memory(sink);
}

void tv_debug_describe_stop(tv_debug *d, const tv_debug_stop *stop, tv_debug_answer *answer)
{
    tv_buf text = {0}, json = {0};
    tv_json_writer writer;
    debug_call call = {.d = d, .text = &text, .json = &writer};
    tv_json_writer_init_buf(&writer, &json, TV_JSON_COMPACT);
    tv_json_begin_object(&writer);
    tv_debug_write_stop(&call, stop);
    tv_debug_write_displays(&call);
    tv_json_string_member(&writer, "status", "ok");
    tv_json_string_member(&writer, "text", tv_buf_cstr(&text));
    tv_json_end_object(&writer);
    take_answer(&call, &json, answer);
}

/* ---- help, quit, source ---- */

static void write_verb(tv_json_writer *json, const debug_verb *verb)
{
    tv_json_begin_object(json);
    tv_json_string_member(json, "name", verb->name);
    tv_json_string_member(json, "arguments", verb->arguments);
    tv_json_string_member(json, "help", verb->help);
    tv_json_string_member(json, "aliases", verb->aliases);
    tv_json_end_object(json);
}

static tv_status run_help(debug_call *call)
{
    const debug_verb *one = call->count ? find_verb(call->args[0]) : NULL;
    char usage[160];
    if (call->count && !one)
        return fail_verb(call->args[0], call->sink);
    tv_json_key(call->json, "commands");
    tv_json_begin_array(call->json);
    if (one) {
        print_usage(one, usage, sizeof usage);
        tv_buf_printf(call->text, "%s\n  %s\n", usage, one->help);
        if (*one->aliases)
            tv_buf_printf(call->text, "  aliases: %s\n", one->aliases);
        write_verb(call->json, one);
    } else {
        for (size_t i = 0; i < TV_COUNTOF(verbs); i++) {
            tv_buf_printf(call->text, "%-14s %s\n", verbs[i].name, verbs[i].help);
            write_verb(call->json, &verbs[i]);
        }
        tv_buf_str(call->text, "An empty line repeats step, next, continue, back, rcontinue, disas and list. `help "
                               "COMMAND` shows the arguments.\nA unique prefix of a name is enough.\n");
    }
    tv_json_end_array(call->json);
    return TV_OK;
}

static tv_status run_quit(debug_call *call)
{
    call->quit = true;
    return TV_OK;
}

/* Executes one line of a script and appends its result to the script's. */
static tv_status run_script_line(debug_call *call, const char *line)
{
    tv_buf text = {0};
    debug_call inner = {.d = call->d, .sink = call->sink, .text = &text, .json = call->json};
    tv_status status = run_command(&inner, line);
    if (call->text->len < TEXT_MAX)
        tv_buf_append(call->text, text.data, text.len);
    call->quit |= inner.quit;
    call->stopped |= inner.stopped;
    free(inner.repeat);
    tv_buf_fini(&text);
    return status;
}

static tv_status read_script(debug_call *call, tv_buf *text)
{
    tv_input input;
    if (call->d->script_depth >= DEPTH_MAX)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_SCRIPT), NULL, "scripts are nested deeper than %d",
                       DEPTH_MAX);
    if (strcmp(call->args[0], "-") == 0) /* standard input may carry commands or protocol messages */
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_SCRIPT), NULL,
                       "a script must be a file, not standard input");
    TV_TRY(tv_input_open(call->args[0], call->sink, &input));
    bool fits = input.size <= SCRIPT_MAX;
    if (fits)
        tv_buf_append(text, input.data, input.size);
    tv_input_close(&input);
    if (!fits)
        return tv_fail(call->sink, TV_ERR_INPUT, TV_CODE(DEBUG_SCRIPT), NULL, "the script has more than %d bytes",
                       SCRIPT_MAX);
    tv_buf_cstr(text);
    return text->failed ? tv_fail_memory(call->sink) : TV_OK;
}

/* Stops at the first command that fails. */
static tv_status run_source(debug_call *call)
{
    tv_buf text = {0};
    tv_status status = read_script(call, &text);
    tv_json_key(call->json, "answers");
    tv_json_begin_array(call->json);
    call->d->script_depth++;
    char *line = status == TV_OK ? (char *)text.data : NULL;
    while (status == TV_OK && line && *line && !call->quit) {
        char *end = line + strcspn(line, "\n");
        bool last = *end == '\0';
        *end = '\0';
        status = run_script_line(call, line);
        line = last ? end : end + 1;
    }
    call->d->script_depth--;
    tv_json_end_array(call->json);
    tv_buf_fini(&text);
    return status;
}

/* ---- Completion ---- */

/* A word to complete, and the candidates that match it. */
typedef struct completer {
    const char *word;
    tv_buf *out;
} completer;

static void add_candidate(const completer *c, const char *candidate)
{
    if (strncmp(candidate, c->word, strlen(c->word)) == 0)
        tv_buf_printf(c->out, "%s\n", candidate);
}

static void complete_locations(tv_debug *d, const completer *c)
{
    static const char *const keywords[] = {"opcode", "cycle", "fault"};
    tv_symbol symbol;
    for (unsigned i = 0; i < TV_COUNTOF(keywords); i++)
        add_candidate(c, keywords[i]);
    for (uint64_t i = 0; tv_program_symbol_at(d->programs[d->program], i, &symbol); i++)
        if (symbol.kind == TV_SYMBOL_TEXT)
            add_candidate(c, symbol.name);
}

static void complete_opcodes(tv_debug *d, const completer *c)
{
    tv_insn_info info;
    tv_codec *codec;
    if (tv_codec_new_for(tv_machine_get_target(d->machine)->isa, NULL, &codec) != TV_OK)
        return;
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &info); i++)
        add_candidate(c, info.mnemonic);
    tv_codec_free(codec);
}

static void complete_verbs(const completer *c)
{
    for (size_t i = 0; i < TV_COUNTOF(verbs); i++)
        add_candidate(c, verbs[i].name);
}

static void complete_argument(tv_debug *d, const debug_verb *verb, const completer *c)
{
    char text[80];
    tv_space space;
    switch (verb->completion) {
    case COMPLETE_NOTHING:
    case COMPLETE_FILES:
        break;
    case COMPLETE_LOCATIONS:
        complete_locations(d, c);
        break;
    case COMPLETE_SPACES:
        for (unsigned i = 0; tv_machine_space_at(d->machine, i, &space); i++) {
            snprintf(text, sizeof text, "%s:", space.name);
            add_candidate(c, text);
        }
        for (unsigned t = 0; verb->run == tv_debug_verb_x && t < TV_DTYPE_COUNT; t++)
            add_candidate(c, tv_dtype_name((tv_dtype)t));
        break;
    case COMPLETE_TOPICS:
        for (unsigned i = 0; tv_debug_info_topics[i]; i++)
            add_candidate(c, tv_debug_info_topics[i]);
        break;
    case COMPLETE_BREAKPOINTS:
        for (unsigned i = 0; i < d->breaks.count; i++) {
            snprintf(text, sizeof text, "%u", d->breaks.data[i].info.number);
            add_candidate(c, text);
        }
        break;
    case COMPLETE_ON_OFF:
        add_candidate(c, "on");
        add_candidate(c, "off");
        break;
    case COMPLETE_VERBS:
        complete_verbs(c);
        break;
    }
}

char *tv_debug_complete(tv_debug *d, const char *line)
{
    tv_buf out = {0};
    char name[64];
    line += strspn(line, " \t");
    size_t first = strcspn(line, " \t/");
    completer c = {.word = line + strlen(line), .out = &out};
    while (c.word > line && c.word[-1] != ' ' && c.word[-1] != '\t')
        c.word--;
    if (line[first] == '\0') {
        complete_verbs(&c);
        return tv_buf_take(&out);
    }
    snprintf(name, sizeof name, "%.*s", (int)first, line);
    const debug_verb *verb = find_verb(name);
    if (verb && strstr(line, " opcode ") && verb->completion == COMPLETE_LOCATIONS)
        complete_opcodes(d, &c);
    else if (verb)
        complete_argument(d, verb, &c);
    return tv_buf_take(&out);
}
