/* SPDX-License-Identifier: Apache-2.0 */
/* trivet compile: a network to the programs of a machine. */
#include "cli/infer_job.h"

static const cli_option options[] = {
    {"target", 't', "TARGET", "a machine", "TARGET"},
    {"folder", 'o', "DIR", "the folder for programs, weights and manifest.json; it must be empty or new", "FILE"},
    {"input", 0, "NAME=FILE", "an input for calibration, from a .npy file, or FILE:TYPE; may be repeated", "FILE"},
    INFER_PLAN_OPTIONS,
};

static tv_status compile(infer_job *j, const char *target)
{
    tv_status status = infer_run_target(j, target, false);
    return status == TV_OK ? tv_network_session_save_manifest(j->list[0].session, &j->c->sink) : status;
}

static int run_compile(cli *c)
{
    infer_job j = {.c = c};
    tv_output_group *group;
    const char *target = cli_value(c, "target"), *folder = cli_value(c, "folder");
    if (!target || strcmp(target, "host") == 0)
        return cli_error(c, CLI_E_TARGET, "give -t with a machine", "the machine is not known");
    if (!folder)
        return cli_error(c, CLI_E_ARGUMENT, "give -o with a folder", "there is no folder for the programs");
    int result = infer_parse_options(&j);
    if (result != CLI_OK)
        return result;
    tv_status status = cli_outputs(c, &group);
    j.options.emit = folder;
    j.options.outputs = group;
    if (status == TV_OK)
        status = infer_open_network(&j);
    if (status == TV_OK)
        status = compile(&j, target);
    if (status == TV_OK && c->json)
        infer_report_write_json(&j);
    else if (status == TV_OK)
        infer_report_print(&j, false);
    c->faulted = status == TV_FAULT;
    infer_free_job(&j);
    return cli_exit_status(status);
}

const cli_command cli_compile = {
    .name = "compile",
    .usage = "compile MODEL -t TARGET -o DIR",
    .summary = "compile a network (ONNX) to the programs of a machine",
    .about =
        "Writes the programs, the weights and manifest.json (docs/json.md) into DIR, which `trivet run DIR` executes. "
        "The network is\n"
        "executed once, for the ranges of values and the costs of the layers in the manifest.",
    .example = "  trivet compile digits.onnx -t cmdq -o digits\n"
               "  trivet compile digits.onnx -t cmdq -c mobile -o digits-mobile --calibrate samples --ranges mse",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "cDj",
    .files_min = 1,
    .files_max = 1,
    .values = "FILE",
    .run = run_compile,
};
