/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a report and a JSON trace of a run with what only a library's caller can put in: steps of a model and markers.
 *
 * usage: report_steps PROGRAM OUT.html OUT.json */
#include <stdbool.h>
#include <stdlib.h>

#include "trivet/trivet.h"

enum { STEPS = 5 };

static tv_trace_sink sinks[2];

static void fan_out(void *user, const tv_event *event)
{
    (void)user;
    for (int i = 0; i < 2; i++)
        sinks[i].event(sinks[i].user, event);
}

static void show(void *user, const tv_diag *diag)
{
    (void)user;
    tv_diag_print(stderr, diag, 0);
}

static void run_step(tv_machine *machine, const tv_program *program, int step, const tv_diag_sink *sink)
{
    tv_stats before = {.size = sizeof before};
    tv_machine_stats(machine, &before);
    if (tv_machine_load(machine, program, sink) != TV_OK)
        exit(1);
    if (step == 2)
        tv_machine_trace_marker(machine, "half way <&>");
    if (tv_machine_run(machine, NULL, NULL) != TV_OK)
        exit(1);
    tv_machine_trace_token(machine, step ? "decode" : "prefill", step ? step + 3 : 0, step ? 1 : 4, before.cycles);
}

int main(int argc, char **argv)
{
    const tv_diag_sink sink = {show, NULL};
    tv_program *program;
    tv_config *config;
    tv_machine *machine;
    tv_report_writer *report;
    tv_trace_writer *trace;
    if (argc != 4 || tv_program_open(argv[1], NULL, &sink, &program) != TV_OK ||
        tv_config_new(tv_program_target(program), &sink, &config) != TV_OK ||
        tv_machine_new(config, TV_MODE_FULL, &sink, &machine) != TV_OK ||
        tv_report_open(argv[2], "steps </title><script>alert(1)</script>", machine, &sink, &report) != TV_OK ||
        tv_trace_open(argv[3], TV_TRACE_JSON, machine, &sink, &trace) != TV_OK)
        return 1;
    sinks[0] = tv_report_sink(report);
    sinks[1] = tv_trace_writer_sink(trace);
    tv_machine_trace(machine, &(tv_trace_sink){fan_out, NULL});
    tv_machine_trace_accesses(machine, 1);
    for (int step = 0; step < STEPS; step++)
        run_step(machine, program, step, &sink);
    tv_machine_trace(machine, NULL);
    bool ok = tv_report_finish(report, machine, &sink) == TV_OK;
    ok = tv_trace_finish(trace, machine, &sink) == TV_OK && ok;
    tv_machine_free(machine);
    tv_config_free(config);
    tv_program_free(program);
    return !ok;
}
