/* SPDX-License-Identifier: Apache-2.0 */
/* trivet run DIR: a compiled network. */
#include "cli/infer_job.h"
#include "cli/run_outputs.h"

/* Rejects options of `trivet run` that apply to programs. */
static int check_options(cli *c)
{
    static const char *const of_programs[] = {
        "dump",   "load",   "until", "max-cycles", "functional",      "timing-only", "save-outputs",
        "strict", "config", "set",   "commit-log", "commit-contents", "compare"};
    for (size_t i = 0; i < CLI_COUNTOF(of_programs); i++)
        if (cli_has(c, of_programs[i]))
            return cli_error(c, CLI_E_CONFLICT, "omit it; the manifest has the configuration",
                             "--%s does not apply to the folder of a compiled network", of_programs[i]);
    if (run_outputs_use_stdout(c))
        return cli_error(c, CLI_E_CONFLICT, "write it to a file",
                         "a trace or report cannot go to standard output, which has the table");
    return run_outputs_check(c) == TV_OK ? CLI_OK : CLI_INVALID;
}

int infer_run_folder(cli *c)
{
    infer_job j = {.c = c};
    int result = check_options(c);
    if (result == CLI_OK)
        result = infer_parse_options(&j);
    if (result != CLI_OK)
        return result;
    tv_status status = infer_open_network(&j);
    if (status == TV_OK)
        status = infer_run_target(&j, tv_network_compiled_target(j.network), false);
    if (status == TV_OK)
        status = infer_save_outputs(&j, &j.list[0], false);
    if (status == TV_OK && c->json)
        infer_report_write_json(&j);
    else if (status == TV_OK)
        infer_report_print(&j, false);
    c->faulted = status == TV_FAULT;
    infer_free_job(&j);
    return cli_exit_status(status);
}
