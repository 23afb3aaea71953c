/* SPDX-License-Identifier: Apache-2.0 */
/* info: what the machine, the program and the debugger hold. */
#include <inttypes.h>

#include "debug/debug.h"

void debug_info_breaks(debug_call *call);

/* ---- The machine ---- */

static tv_status show_state(debug_call *call, const char *group)
{
    tv_state_value v;
    json_t *list = json_array();
    const char *one = call->count > 1 ? call->words[1] : NULL;
    for (unsigned i = 0; tv_machine_state_at(call->d->machine, i, &v); i++) {
        if (strcmp(v.group, group) != 0 || (one && strcmp(one, v.name) != 0))
            continue;
        tv_buf_printf(call->text, "%-14s %s\n", v.name, v.text);
        json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "name", v.name, "text", debug_json_text(v.text), "doc",
                                              debug_json_text(v.doc)));
    }
    if (!json_array_size(list)) {
        json_decref(list);
        if (one)
            return debug_fail_argument(call, NULL, "there is no '%.40s' among the %s", one, group);
        tv_buf_printf(call->text, "%s has no %s\n", tv_machine_target(call->d->machine), group);
        list = json_array();
    }
    json_object_set_new(call->json, group, list);
    return TV_OK;
}

static void show_engines(debug_call *call)
{
    tv_stats s = {.size = sizeof s};
    json_t *list = json_array();
    tv_machine_stats(call->d->machine, &s);
    tv_buf_printf(call->text, "%" PRIu64 " cycles if the run ended here\n%-8s %12s %12s %12s  held by\n", s.cycles,
                  "engine", "busy", "held", "idle");
    for (unsigned e = 0; e < s.engine_count; e++) {
        const tv_engine_stats *g = &s.engines[e];
        uint64_t stalled = 0;
        json_t *stall_reasons = json_object();
        for (unsigned c = 0; c < s.stall_reason_count; c++)
            stalled += g->stalled[c];
        tv_buf_printf(call->text, "%-8s %12" PRIu64 " %12" PRIu64 " %12" PRIu64, g->name, g->busy, stalled, g->idle);
        for (unsigned c = 0; c < s.stall_reason_count; c++) {
            if (!g->stalled[c])
                continue;
            tv_buf_printf(call->text, "  %s %" PRIu64, s.stall_reasons[c], g->stalled[c]);
            json_object_set_new(stall_reasons, s.stall_reasons[c], json_integer((json_int_t)g->stalled[c]));
        }
        tv_buf_str(call->text, "\n");
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:o}", "name", g->name, "busy", (json_int_t)g->busy,
                                              "idle", (json_int_t)g->idle, "held", stall_reasons));
    }
    json_object_set_new(call->json, "cycles", json_integer((json_int_t)s.cycles));
    json_object_set_new(call->json, "engines", list);
}

static void show_spaces(debug_call *call)
{
    tv_space s;
    json_t *list = json_array();
    for (unsigned i = 0; tv_machine_space_at(call->d->machine, i, &s); i++) {
        tv_buf_printf(call->text, "%-8s %12" PRIu64 " units of %3" PRIu64 " byte%s  %s\n", s.name, s.size, s.unit_bytes,
                      s.unit_bytes == 1 ? " " : "s", s.doc);
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:s}", "name", s.name, "size", (json_int_t)s.size,
                                              "unit_bytes", (json_int_t)s.unit_bytes, "bank_size",
                                              (json_int_t)s.bank_size, "doc", s.doc));
    }
    json_object_set_new(call->json, "spaces", list);
}

static void show_config(debug_call *call)
{
    tv_config_entry e;
    json_t *object = json_object();
    for (unsigned i = 0; tv_config_at(tv_machine_config(call->d->machine), i, &e); i++) {
        tv_buf_printf(call->text, "%-28s %s%s%s%s\n", e.key, e.value, *e.unit ? " " : "", e.unit,
                      strcmp(e.origin, "default") == 0 ? "" : " *");
        json_object_set_new(object, e.key, json_string(e.value));
    }
    json_object_set_new(call->json, "config", object);
}

/* ---- The program ---- */

/* Files of the line table, each once: there are few. */
static void show_files(debug_call *call, const tv_program *program, json_t *files)
{
    tv_source_line at;
    const char *last = NULL;
    for (uint64_t i = 0, n = tv_program_instruction_count(program); i < n; i++) {
        if (!tv_program_line(program, i, &at) || at.file == last)
            continue;
        last = at.file;
        bool known = false;
        for (size_t k = 0; k < json_array_size(files) && !known; k++)
            known = strcmp(json_string_value(json_array_get(files, k)), at.file) == 0;
        if (known || json_array_size(files) >= 64)
            continue;
        json_array_append_new(files, debug_json_text(at.file));
        tv_buf_printf(call->text, "    file %s\n", at.file);
    }
}

static void show_program(debug_call *call)
{
    tv_debug *d = call->d;
    json_t *list = json_array();
    for (unsigned p = 0; p < d->count; p++) {
        const tv_program *program = d->programs[p];
        tv_segment segment;
        tv_symbol symbol;
        uint64_t bytes = 0, symbols = 0;
        json_t *files = json_array();
        for (uint64_t i = 0; tv_program_segment_at(program, i, &segment); i++)
            bytes += segment.size;
        while (tv_program_symbol_at(program, symbols, &symbol))
            symbols++;
        tv_buf_printf(call->text,
                      "%s program %u of %u for %s: %" PRIu64 " instructions, %" PRIu64 " bytes of data, %" PRIu64
                      " symbols\n",
                      p == d->program ? "=>" : "  ", p, d->count, tv_program_target(program),
                      tv_program_instruction_count(program), bytes, symbols);
        show_files(call, program, files);
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:I, s:b, s:o}", "target", tv_program_target(program),
                                              "instructions", (json_int_t)tv_program_instruction_count(program), "data",
                                              (json_int_t)bytes, "symbols", (json_int_t)symbols, "loaded",
                                              p == d->program, "files", files));
    }
    json_object_set_new(call->json, "programs", list);
}

static void show_history(debug_call *call)
{
    const tv_debug *d = call->d;
    uint64_t bytes = debug_history_bytes(d);
    tv_buf_printf(call->text, "%u snapshot%s of %" PRIu64 " bytes, of at most %" PRIu64 "; %zu write%s\n",
                  d->snapshot_count, d->snapshot_count == 1 ? "" : "s", bytes, d->options.snapshot_memory,
                  d->write_count, d->write_count == 1 ? "" : "s");
    json_t *list = json_array();
    for (unsigned i = 0; i < d->snapshot_count; i++)
        json_array_append_new(list, json_integer((json_int_t)d->snapshots[i].position));
    json_object_set_new(call->json, "snapshots", list);
    json_object_set_new(call->json, "bytes", json_integer((json_int_t)bytes));
}

/* ---- The topics ---- */

const char *const debug_topics[] = {"break",   "registers", "engines", "queues", "streams", "hazards",
                                    "pending", "program",   "spaces",  "config", "history", NULL};

tv_status debug_verb_info(debug_call *call)
{
    static void (*const shows[])(debug_call *) = {
        debug_info_breaks, NULL,        show_engines, NULL,        NULL, NULL, NULL,
        show_program,      show_spaces, show_config,  show_history};
    const char *word = call->words[0];
    char hint[160] = "the topics are";
    unsigned found = TV_COUNTOF(shows);
    for (unsigned i = 0; debug_topics[i]; i++) {
        if (strncmp(debug_topics[i], word, strlen(word)) == 0 &&
            (found == TV_COUNTOF(shows) || strcmp(debug_topics[i], word) == 0))
            found = i;
        size_t n = strlen(hint);
        snprintf(hint + n, sizeof hint - n, " %s", debug_topics[i]);
    }
    if (found == TV_COUNTOF(shows))
        return debug_fail_argument(call, hint, "there is nothing to tell about '%.40s'", word);
    if (!shows[found])
        return show_state(call, debug_topics[found]);
    if (call->count > 1)
        return debug_fail_argument(call, NULL, "too many arguments");
    shows[found](call);
    return TV_OK;
}
