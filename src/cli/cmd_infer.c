/* SPDX-License-Identifier: Apache-2.0 */
/* trivet infer: a network on the simulated machines. */
#include "cli/infer_job.h"
#include "cli/run_outputs.h"

static const cli_option options[] = {
    {"target", 't', "TARGET", "a machine, host, or all (default host)", "MODEL_TARGET"},
    INFER_DATA_OPTIONS,
    INFER_PLAN_OPTIONS,
    {"verify", 0, NULL, "compare each layer with the host", NULL},
    {"timing-only", 0, NULL, "compute cycles, but no data", NULL},
    {"energy", 0, NULL, "print the energy of the run and of each layer", NULL},
    {"host-ops", 0, NULL, "count the operations that run on the host", NULL},
    RUN_OUTPUTS_OPTIONS,
};

static bool is_known(const char *target)
{
    const char *name;
    for (unsigned i = 0; (name = tv_network_target_at(i)); i++)
        if (strcmp(name, target) == 0)
            return true;
    return false;
}

/* Rejects targets and parameters before anything runs. */
static int check_target(cli *c, const char *target, bool all)
{
    if (!all && !is_known(target))
        return cli_error(c, CLI_E_TARGET, "host, pccx, opennpu, cmdq or all", "networks do not run on '%s'", target);
    if (strcmp(target, "host") != 0)
        return CLI_OK;
    if (cli_has(c, "config") || cli_has(c, "set"))
        return cli_error(c, CLI_E_CONFLICT, "give -t with a machine",
                         "%s sets parameters of a machine; the host has none", cli_has(c, "config") ? "-c" : "-D");
    if (has_run_outputs(c) || cli_has(c, "timing-only"))
        return cli_error(c, CLI_E_CONFLICT, "give -t with a machine",
                         "the host has no cycles: there is no trace, no report and no timing");
    return CLI_OK;
}

static tv_status run_targets(infer_job *j, const char *target, bool all)
{
    const char *name;
    tv_status status = TV_OK;
    for (unsigned i = 0; status == TV_OK && j->count < INFER_TARGETS_MAX && (name = tv_network_target_at(i)); i++) {
        bool host = strcmp(name, "host") == 0;
        if (all ? host && j->options.timing_only : strcmp(name, target) != 0)
            continue;
        status = infer_run_target(j, name, all);
        if (status == TV_OK && j->list[j->count - 1].session)
            status = infer_save_outputs(j, &j->list[j->count - 1], all);
    }
    return status;
}

static int run_infer(cli *c)
{
    infer_job j = {.c = c};
    const char *target = cli_value(c, "target");
    bool all = target && strcmp(target, "all") == 0;
    int result = infer_parse_options(&j);
    if (result == CLI_OK && run_outputs_use_stdout(c))
        result = cli_error(c, CLI_E_CONFLICT, "write it to a file",
                           "a trace or report cannot go to standard output, which has the table");
    if (result == CLI_OK && run_outputs_check(c) != TV_OK)
        result = CLI_INVALID;
    if (result != CLI_OK)
        return result;
    tv_status status = infer_open_network(&j);
    if (status == TV_OK && !target)
        target = tv_network_compiled_target(j.network) ? tv_network_compiled_target(j.network) : "host";
    if (status == TV_OK && check_target(c, target, all) != CLI_OK)
        status = TV_ERR_INPUT;
    if (status == TV_OK)
        status = run_targets(&j, target, all);
    if (status == TV_OK && c->json)
        infer_report_write_json(&j);
    else if (status == TV_OK)
        infer_report_print(&j, all);
    c->faulted = status == TV_FAULT;
    infer_free_job(&j);
    return cli_exit_status(status);
}

const cli_command cli_infer = {
    .name = "infer",
    .usage = "infer MODEL -t TARGET|host|all [--input NAME=FILE.npy] [--output NAME=FILE.npy]",
    .summary = "run a network (ONNX) on the simulated machines",
    .about =
        "MODEL is an ONNX file (docs/networks.md) or the folder of a compiled network. Inputs that are not given are "
        "random, but the same\n"
        "in each run. The table has a row for each layer of the machine; -t all prints the machines side by side, and "
        "why one cannot\n"
        "execute the network.",
    .example = "  trivet infer digits.onnx -t cmdq --input image=three.npy --verify\n"
               "  trivet infer resnet50.onnx -t all --timing-only\n"
               "  trivet infer bert.onnx -t cmdq --dim batch=1 --dim sequence=128 --report bert.html",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "cDj",
    .files_min = 1,
    .files_max = 1,
    .values = "FILE",
    .run = run_infer,
};
