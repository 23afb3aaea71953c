/* SPDX-License-Identifier: Apache-2.0 */
/* info: the state of machine, program and debugger. */
#include <inttypes.h>

#include "debug/console/console.h"

/* ---- Machine ---- */

/* The state values of one group; with a second argument only the value of that name. */
static tv_status write_state(debug_call *call, const char *group)
{
    tv_state_value v;
    const char *name = call->count > 1 ? call->args[1] : NULL;
    unsigned count = 0;
    bool complete = true;
    for (unsigned i = 0; tv_machine_state_at(call->d->machine, i, &v); i++)
        count += strcmp(v.group, group) == 0 && (!name || strcmp(name, v.name) == 0);
    if (!count && name)
        return tv_debug_fail_argument(call, NULL, "there is no '%.40s' among the %s", name, group);
    if (!count)
        tv_buf_printf(call->text, "%s has no %s\n", tv_machine_target(call->d->machine), group);
    tv_json_key(call->json, group);
    tv_json_begin_array(call->json);
    for (unsigned i = 0; tv_machine_state_at(call->d->machine, i, &v); i++) {
        if (strcmp(v.group, group) != 0 || (name && strcmp(name, v.name) != 0))
            continue;
        complete &= v.text != NULL;
        tv_buf_printf(call->text, "%-14s %s\n", v.name, v.text ? v.text : "");
        tv_json_begin_object(call->json);
        tv_json_string_member(call->json, "name", v.name);
        tv_json_string_member(call->json, "text", v.text);
        tv_json_string_member(call->json, "doc", v.doc);
        tv_json_end_object(call->json);
    }
    tv_json_end_array(call->json);
    return complete ? TV_OK : tv_fail_memory(call->sink);
}

static void write_engine(debug_call *call, const tv_stats *s, const tv_engine_stats *engine)
{
    tv_json_writer *json = call->json;
    uint64_t stalled = 0;
    for (unsigned r = 0; r < s->stall_reason_count; r++)
        stalled += engine->stalled[r];
    tv_buf_printf(call->text, "%-8s %12" PRIu64 " %12" PRIu64 " %12" PRIu64, engine->name, engine->busy, stalled,
                  engine->idle);
    tv_json_begin_object(json);
    tv_json_string_member(json, "name", engine->name);
    tv_json_unsigned_member(json, "busy", engine->busy);
    tv_json_unsigned_member(json, "idle", engine->idle);
    tv_json_key(json, "stalled");
    tv_json_begin_object(json);
    for (unsigned r = 0; r < s->stall_reason_count; r++) {
        if (!engine->stalled[r])
            continue;
        tv_buf_printf(call->text, "  %s %" PRIu64, s->stall_reasons[r], engine->stalled[r]);
        tv_json_unsigned_member(json, s->stall_reasons[r], engine->stalled[r]);
    }
    tv_json_end_object(json);
    tv_json_end_object(json);
    tv_buf_str(call->text, "\n");
}

static void write_engines(debug_call *call)
{
    tv_stats s = {.size = sizeof s};
    tv_machine_stats(call->d->machine, &s);
    tv_buf_printf(call->text, "%" PRIu64 " cycles if the run ended here\n%-8s %12s %12s %12s  stall reasons\n",
                  s.cycles, "engine", "busy", "stalled", "idle");
    tv_json_unsigned_member(call->json, "cycles", s.cycles);
    tv_json_key(call->json, "engines");
    tv_json_begin_array(call->json);
    for (unsigned e = 0; e < s.engine_count; e++)
        write_engine(call, &s, &s.engines[e]);
    tv_json_end_array(call->json);
}

static void write_spaces(debug_call *call)
{
    tv_space s;
    tv_json_key(call->json, "spaces");
    tv_json_begin_array(call->json);
    for (unsigned i = 0; tv_machine_space_at(call->d->machine, i, &s); i++) {
        tv_buf_printf(call->text, "%-12s %12" PRIu64 " units of %3" PRIu64 " byte%s  %s\n", s.name, s.size,
                      s.unit_bytes, s.unit_bytes == 1 ? " " : "s", s.doc);
        tv_json_begin_object(call->json);
        tv_json_string_member(call->json, "name", s.name);
        tv_json_unsigned_member(call->json, "size", s.size);
        tv_json_unsigned_member(call->json, "unit_bytes", s.unit_bytes);
        tv_json_unsigned_member(call->json, "bank_size", s.bank_size);
        tv_json_string_member(call->json, "doc", s.doc);
        tv_json_end_object(call->json);
    }
    tv_json_end_array(call->json);
}

static void write_config(debug_call *call)
{
    tv_config_entry e;
    tv_json_key(call->json, "config");
    tv_json_begin_object(call->json);
    for (unsigned i = 0; tv_config_at(tv_machine_config(call->d->machine), i, &e); i++) {
        tv_buf_printf(call->text, "%-28s %s%s%s%s\n", e.key, e.value, *e.unit ? " " : "", e.unit,
                      strcmp(e.origin, "default") == 0 ? "" : " *");
        tv_json_string_member(call->json, e.key, e.value);
    }
    tv_json_end_object(call->json);
}

/* ---- Program ---- */

/* The distinct files of the line table, at most FILES_MAX. */
static void write_files(debug_call *call, const tv_program *program)
{
    enum { FILES_MAX = 64 };
    const char *files[FILES_MAX];
    unsigned count = 0;
    tv_source_line at;
    tv_json_key(call->json, "files");
    tv_json_begin_array(call->json);
    for (uint64_t i = 0, n = tv_program_instruction_count(program); i < n && count < FILES_MAX; i++) {
        if (!tv_program_line(program, i, &at) || (count && at.file == files[count - 1]))
            continue;
        bool known = false;
        for (unsigned k = 0; k < count && !known; k++)
            known = strcmp(files[k], at.file) == 0;
        if (known)
            continue;
        files[count++] = at.file;
        tv_json_write_string(call->json, at.file);
        tv_buf_printf(call->text, "    file %s\n", at.file);
    }
    tv_json_end_array(call->json);
}

static void write_program(debug_call *call, unsigned index)
{
    const tv_debug *d = call->d;
    const tv_program *program = d->programs[index];
    tv_segment segment;
    tv_symbol symbol;
    uint64_t bytes = 0, symbols = 0, instructions = tv_program_instruction_count(program);
    for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++)
        bytes += segment.size;
    while (tv_program_symbol_at(program, symbols, &symbol))
        symbols++;
    tv_buf_printf(
        call->text,
        "%s program %u of %u for %s: %" PRIu64 " instructions, %" PRIu64 " bytes of data, %" PRIu64 " symbols\n",
        index == d->program ? "=>" : "  ", index, d->count, tv_program_target(program), instructions, bytes, symbols);
    tv_json_begin_object(call->json);
    tv_json_string_member(call->json, "target", tv_program_target(program));
    tv_json_unsigned_member(call->json, "instructions", instructions);
    tv_json_unsigned_member(call->json, "data", bytes);
    tv_json_unsigned_member(call->json, "symbols", symbols);
    tv_json_boolean_member(call->json, "loaded", index == d->program);
    write_files(call, program);
    tv_json_end_object(call->json);
}

static void write_programs(debug_call *call)
{
    tv_json_key(call->json, "programs");
    tv_json_begin_array(call->json);
    for (unsigned p = 0; p < call->d->count; p++)
        write_program(call, p);
    tv_json_end_array(call->json);
}

/* ---- Debugger ---- */

static void write_history(debug_call *call)
{
    const tv_debug *d = call->d;
    uint64_t bytes = tv_debug_history_bytes(d);
    tv_buf_printf(call->text, "%u snapshot%s, %" PRIu64 " of at most %" PRIu64 " bytes; %zu write%s\n",
                  d->snapshot_count, d->snapshot_count == 1 ? "" : "s", bytes, d->options.snapshot_memory,
                  d->writes.count, d->writes.count == 1 ? "" : "s");
    tv_json_key(call->json, "snapshots");
    tv_json_begin_array(call->json);
    for (unsigned i = 0; i < d->snapshot_count; i++)
        tv_json_write_unsigned(call->json, d->snapshots[i].position);
    tv_json_end_array(call->json);
    tv_json_unsigned_member(call->json, "bytes", bytes);
}

/* ---- Topics ---- */

const char *const tv_debug_info_topics[] = {"break",   "registers", "engines", "queues", "streams", "hazards",
                                            "pending", "program",   "spaces",  "config", "history", NULL};

/* One writer per topic; NULL: a group of state values with the topic's name. */
static void (*const writers[])(debug_call *) = {tv_debug_write_breakpoints,
                                                NULL,
                                                write_engines,
                                                NULL,
                                                NULL,
                                                NULL,
                                                NULL,
                                                write_programs,
                                                write_spaces,
                                                write_config,
                                                write_history};

static_assert(TV_COUNTOF(writers) + 1 == TV_COUNTOF(tv_debug_info_topics), "one writer per topic");

tv_status tv_debug_verb_info(debug_call *call)
{
    const char *word = call->args[0];
    char hint[160] = "the topics are";
    unsigned found = TV_COUNTOF(writers);
    for (unsigned i = 0; tv_debug_info_topics[i]; i++) { /* the first topic with this prefix, unless one is equal */
        if (strncmp(tv_debug_info_topics[i], word, strlen(word)) == 0 &&
            (found == TV_COUNTOF(writers) || strcmp(tv_debug_info_topics[i], word) == 0))
            found = i;
        size_t n = strlen(hint);
        snprintf(hint + n, sizeof hint - n, " %s", tv_debug_info_topics[i]);
    }
    if (found == TV_COUNTOF(writers))
        return tv_debug_fail_argument(call, hint, "unknown topic '%.40s'", word);
    if (!writers[found])
        return write_state(call, tv_debug_info_topics[found]);
    if (call->count > 1)
        return tv_debug_fail_argument(call, NULL, "too many arguments");
    writers[found](call);
    return TV_OK;
}
