/* SPDX-License-Identifier: Apache-2.0 */
/* The event files of a run: JSON trace, Perfetto trace and HTML report. A command that runs a machine checks the
 * options first, opens the files when the machine exists and before it loads a program, and finally finishes or
 * abandons them.
 */
#ifndef TV_CLI_RUN_OUTPUTS_H
#define TV_CLI_RUN_OUTPUTS_H

#include "cli/cli.h"

/* Rows of a command's table of options. */
#define RUN_OUTPUTS_OPTIONS                                                                                            \
    {"trace", 0, "OUT", "write a trace: JSON, or Perfetto's packets to a .pftrace; .zst is compressed", "FILE"},       \
        {"perfetto", 0, "OUT.json", "write Chrome trace events for ui.perfetto.dev; .zst likewise", "FILE"},           \
    {                                                                                                                  \
        "report", 0, "OUT.html", "write an HTML report of where the time went", "FILE"                                 \
    }

typedef struct run_outputs {
    cli *c;
    tv_machine *machine;
    tv_trace_writer *writers[2];
    unsigned writer_count;
    tv_report_writer *report;
    tv_trace_sink sinks[3]; /* of the writers and the report */
    unsigned sink_count;
} run_outputs;

/* True if any of the options is given. */
bool has_run_outputs(const cli *c);

/* True if one of the files is standard output, which is then used for nothing else. */
bool run_outputs_use_stdout(const cli *c);

/* Checks the options before the run: the files differ from each other and from the command's inputs, and standard
 * output has one use. */
tv_status run_outputs_check(cli *c);

/* Opens the files and attaches them to the machine's events. `title` is the heading of the report. `suffix` is inserted
 * before the extension of each file ("out.pccx.html"), for commands that run several machines; NULL: none. On an error
 * nothing is left open. `outputs` must not move until it is finished or abandoned. */
tv_status run_outputs_open(run_outputs *outputs, cli *c, const char *title, const char *suffix, tv_machine *machine);

/* Completes the files for `group`, which puts them in place, or removes them. A zeroed run_outputs has none. */
tv_status run_outputs_finish(run_outputs *outputs, tv_output_group *group);
void run_outputs_abandon(run_outputs *outputs);

#endif
