/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_outputs.h"

#include "cli/run_memory.h"

#include <limits.h>

static const char *const names[] = {"trace", "perfetto", "report"};

bool has_run_outputs(const cli *c)
{
    for (unsigned i = 0; i < CLI_COUNTOF(names); i++)
        if (cli_has(c, names[i]))
            return true;
    return false;
}

bool run_outputs_use_stdout(const cli *c)
{
    for (unsigned i = 0; i < CLI_COUNTOF(names); i++) {
        const char *path = cli_value(c, names[i]);
        if (path && strcmp(path, "-") == 0)
            return true;
    }
    return false;
}

static tv_status check_pair(cli *c, const char *a, const char *b)
{
    const char *first = cli_value(c, a), *second = cli_value(c, b);
    if (!first || !second || (!cli_same_file(first, second) && strcmp(first, second) != 0))
        return TV_OK;
    cli_error(c, CLI_E_SAME_FILE, "choose another name for one of them", "--%s and --%s cannot both go to '%s'", a, b,
              first);
    return TV_ERR_INPUT;
}

static tv_status check_inputs(cli *c, const char *name, const char *path)
{
    bool overwrites = path && cli_overwrites_input(c, strcmp(name, "report") == 0 ? "report" : "trace", path);
    return overwrites ? TV_ERR_INPUT : TV_OK;
}

tv_status run_outputs_check(cli *c)
{
    for (unsigned i = 0; i < CLI_COUNTOF(names); i++) {
        if (cli_has(c, names[i]) && cli_has(c, "functional")) {
            cli_error(c, CLI_E_CONFLICT, "omit --functional", "--%s needs cycles, which --functional does not compute",
                      names[i]);
            return TV_ERR_INPUT;
        }
        tv_status status = check_inputs(c, names[i], cli_value(c, names[i]));
        for (unsigned k = i + 1; k < CLI_COUNTOF(names) && status == TV_OK; k++)
            status = check_pair(c, names[i], names[k]);
        if (status != TV_OK)
            return status;
    }
    if (run_outputs_use_stdout(c) && (c->json || run_memory_prints(c))) {
        cli_error(c, CLI_E_CONFLICT, "write the trace or the report to a file",
                  "--%s and a trace or report cannot both go to standard output", c->json ? "json" : "dump");
        return TV_ERR_INPUT;
    }
    return TV_OK;
}

/* Sends each event to all open files. */
static void emit_to_all(void *user, const tv_event *event)
{
    const run_outputs *o = user;
    for (unsigned i = 0; i < o->sink_count; i++)
        o->sinks[i].event(o->sinks[i].user, event);
}

/* Inserts `suffix` (may be NULL) before the extension of `path`, and before .zst. Returns false if it is too long. */
static bool make_file_name(const char *path, const char *suffix, char name[PATH_MAX])
{
    const char *base = strrchr(path, '/'), *end = path + strlen(path), *dot;
    base = base ? base + 1 : path;
    if (!suffix || strcmp(path, "-") == 0)
        return snprintf(name, PATH_MAX, "%s", path) < PATH_MAX;
    if (end - base > 4 && strcmp(end - 4, ".zst") == 0)
        end -= 4;
    for (dot = end; dot > base && *--dot != '.';)
        continue;
    if (dot <= base)
        dot = end;
    return snprintf(name, PATH_MAX, "%.*s.%s%s", (int)(dot - path), path, suffix, dot) < PATH_MAX;
}

static tv_status open_output(run_outputs *o, const char *title, const char *suffix, unsigned i)
{
    static const tv_trace_format formats[] = {TV_TRACE_JSON, TV_TRACE_PERFETTO};
    char name[PATH_MAX];
    const char *path = cli_value(o->c, names[i]);
    if (!path)
        return TV_OK;
    if (!make_file_name(path, suffix, name)) {
        cli_error(o->c, CLI_E_VALUE, "choose a shorter one", "the name of the %s is too long", names[i]);
        return TV_ERR_INPUT;
    }
    if (suffix && check_inputs(o->c, names[i], name) != TV_OK)
        return TV_ERR_INPUT;
    if (i == CLI_COUNTOF(formats))
        return tv_report_open(name, title, o->machine, &o->c->sink, &o->report);
    tv_status status = tv_trace_open(name, formats[i], o->machine, &o->c->sink, &o->writers[o->writer_count]);
    o->writer_count += status == TV_OK;
    return status;
}

tv_status run_outputs_open(run_outputs *o, cli *c, const char *title, const char *suffix, tv_machine *machine)
{
    tv_status status = TV_OK;
    *o = (run_outputs){.c = c, .machine = machine};
    for (unsigned i = 0; i < CLI_COUNTOF(names) && status == TV_OK; i++)
        status = open_output(o, title, suffix, i);
    if (status != TV_OK) {
        run_outputs_abandon(o);
        return status;
    }
    for (unsigned i = 0; i < o->writer_count; i++)
        o->sinks[o->sink_count++] = tv_trace_writer_sink(o->writers[i]);
    if (o->report)
        o->sinks[o->sink_count++] = tv_report_sink(o->report);
    if (o->sink_count == 1)
        tv_machine_trace(machine, &o->sinks[0]);
    else if (o->sink_count)
        tv_machine_trace(machine,
                         &(tv_trace_sink){.event = emit_to_all, .user = o, .without_energy = o->report == NULL});
    if (o->report)
        tv_machine_trace_accesses(machine, 1);
    return TV_OK;
}

static void stop_tracing(run_outputs *o)
{
    if (!o->machine)
        return;
    tv_machine_trace(o->machine, NULL);
    tv_machine_trace_accesses(o->machine, 0);
}

tv_status run_outputs_finish(run_outputs *o, tv_output_group *group)
{
    tv_status status = TV_OK;
    if (!o->writer_count && !o->report)
        return TV_OK;
    stop_tracing(o);
    for (unsigned i = 0; i < o->writer_count; i++) {
        if (status == TV_OK)
            status = tv_trace_finish_to(o->writers[i], o->machine, group, &o->c->sink);
        else
            tv_trace_abandon(o->writers[i]);
    }
    if (o->report && status == TV_OK)
        status = tv_report_finish_to(o->report, o->machine, group, &o->c->sink);
    else
        tv_report_abandon(o->report);
    *o = (run_outputs){0};
    return status;
}

void run_outputs_abandon(run_outputs *o)
{
    if (o->writer_count || o->report)
        stop_tracing(o);
    for (unsigned i = 0; i < o->writer_count; i++)
        tv_trace_abandon(o->writers[i]);
    tv_report_abandon(o->report);
    *o = (run_outputs){0};
}
