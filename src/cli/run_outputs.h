/* SPDX-License-Identifier: Apache-2.0 */
/* The files that tell of a run event by event: JSON trace, Perfetto trace, report. For every command that runs a
 * machine: check the options first, open when the machine is there and has no program yet, then finish or abandon. */
#ifndef TV_CLI_RUN_OUTPUTS_H
#define TV_CLI_RUN_OUTPUTS_H

#include "cli/cli.h"

/* Rows of a command's table of options. */
#define RUN_OUTPUTS_OPTIONS                                                                                            \
    {"trace", 0, "OUT.json", "write the JSON trace; .zst at its end compresses", "FILE"},                              \
        {"perfetto", 0, "OUT.json", "write Chrome trace events, which ui.perfetto.dev opens; .zst likewise", "FILE"},  \
    {                                                                                                                  \
        "report", 0, "OUT.html", "write a page that shows where the time went, for any browser", "FILE"                \
    }

typedef struct run_outputs {
    cli *c;
    tv_machine *machine;
    tv_trace_writer *writers[2];
    unsigned writer_count;
    tv_report_writer *report;
} run_outputs;

/* Whether there are any. */
bool run_outputs_wanted(const cli *c);

/* Whether one of them goes to standard output, where nothing else is written then. */
bool run_outputs_on_stdout(const cli *c);

/* The options, before anything is run: they go to files of their own, which are none of `inputs`, and standard output
 * holds one result. */
tv_status run_outputs_check(cli *c, const char *const *inputs, unsigned count);

/* Begins the files that the options name and sends the machine's events to them. `title` heads the report. Of several
 * machines each has files of its own: `part` stands in their names before the ending ("out.pccx.html"); NULL: one
 * machine. On an error everything is as before. `outputs` must stay where it is until its end. */
tv_status run_outputs_open(run_outputs *outputs, cli *c, const char *title, const char *part, tv_machine *machine);

/* Ends the trace and writes the files, or leaves no file behind. A zeroed run_outputs has nothing to do. */
tv_status run_outputs_finish(run_outputs *outputs);
void run_outputs_abandon(run_outputs *outputs);

#endif
