/* SPDX-License-Identifier: Apache-2.0 */
/* trivet llm: a language model on the simulated machines. */
#include "cli/llm_job.h"
#include "cli/run_outputs.h"

static const cli_option options[] = {
    {"target", 't', "TARGET", "a machine, host, or all (default host)", "MODEL_TARGET"},
    {"prompt", 'p', "TEXT", "start of the text", NULL},
    {"chat", 0, NULL,
     "a conversation in the chat template of the model: -p is a message; without -p each line of standard input is one",
     NULL},
    {"system", 0, "TEXT", "system message of --chat", NULL},
    {"chat-template", 0, "NAME", "template of --chat, instead of that of the file",
     "chatml phi4 llama2 llama2-sys llama2-sys-bos llama2-sys-strip llama2-sys-strip-bos mistral-v1 mistral-v3 "
     "mistral-v3-tekken mistral-v7 phi3 falcon3 zephyr gemma llama3 llama4 chatglm4 glmedge command-r openchat vicuna "
     "vicuna-orca deepseek deepseek2 deepseek3 exaone3 granite"},
    {"tokens", 'n', "N", "tokens to generate after the prompt or message, or to evaluate (default 128)", NULL},
    {"temperature", 0, "X", "sampling temperature; 0 takes the most probable token (default 0.8)", NULL},
    {"top-p", 0, "X",
     "nucleus sampling: choose among the most probable tokens with this total probability (default 0.9)", NULL},
    {"seed", 0, "N", "seed of the sampling (default 1)", NULL},
    {"context", 0, "N", "context length in tokens (default: that of the model)", NULL},
    {"weight-bits", 0, "4|8", "width of the weights, if the machine supports both", "4 8"},
    {"activation-bits", 0, "8|16", "width of the activations, if the machine supports both", "8 16"},
    {"kernels", 0, "NAME",
     "host kernels: scalar, avx2, avx512, neon or dotprod, if the host has them; results are identical",
     "scalar avx2 avx512 neon dotprod"},
    {"threads", 0, "N", "host threads (default: one per core)", NULL},
    {"emit", 0, "DIR", "write the programs of the machine to DIR; with -t all, to one subdirectory per machine",
     "FILE"},
    {"eval", 0, "TEXT", "cross-entropy of a text file, compared with the host", "FILE"},
    {"timing-only", 0, NULL,
     "compute cycles, but no data, for -n tokens after a prompt of --prompt-tokens; MODEL needs no weights", NULL},
    {"prompt-tokens", 0, "N", "length of the prompt for --timing-only (default 16)", NULL},
    {"allow-host-ops", 0, NULL, "let the host compute the operators that the machine lacks, instead of an error", NULL},
    {"energy", 0, NULL, "print the energy of a token", NULL},
    {"host-ops", 0, NULL, "list the operations that run on the host", NULL},
    {"verify", 0, NULL, "compare the output of each layer with the host, for each token of the prompt", NULL},
    RUN_OUTPUTS_OPTIONS,
    {"info", 0, NULL, "describe the model file", NULL},
    {"quantization", 0, NULL, "with --info: what -t makes of each tensor, and the error of the conversion", NULL},
    {"dump-graph", 0, NULL, "print the graph of the model", NULL},
};

enum { TARGETS_MAX = 8 };

/* The requested targets: one, or all. An evaluation starts with the host, the reference. */
static unsigned list_targets(const llm_job *j, const char *targets[TARGETS_MAX])
{
    const char *target = cli_value(j->c, "target"), *name;
    bool all = target && strcmp(target, "all") == 0;
    unsigned count = 0;
    if (cli_has(j->c, "eval"))
        targets[count++] = "host";
    if (target && !all) {
        if (!count || strcmp(target, "host") != 0)
            targets[count++] = target;
        return count;
    }
    for (unsigned i = 0; (name = tv_llm_target_at(i)) && count < TARGETS_MAX; i++) {
        bool is_host = strcmp(name, "host") == 0;
        if (is_host ? !count && !(all && cli_has(j->c, "timing-only")) /* the host has no timing */ : all)
            targets[count++] = name;
    }
    return count;
}

static tv_status make_directory(llm_job *j)
{
    tv_output_group *outputs;
    tv_status status = cli_outputs(j->c, &outputs);
    return status == TV_OK ? tv_output_group_folder(outputs, cli_value(j->c, "emit"), &j->c->sink) : status;
}

static bool is_model_target(const char *target)
{
    const char *name;
    for (unsigned i = 0; (name = tv_llm_target_at(i)); i++)
        if (strcmp(name, target) == 0)
            return true;
    return false;
}

/* Rejects parameters before anything runs: those that a machine does not have, and any for the host alone. */
static tv_status check_parameters(llm_job *j, const char *const *targets, unsigned count)
{
    tv_status status = TV_OK;
    unsigned machines = 0;
    for (unsigned i = 0; i < count && status == TV_OK; i++) {
        tv_config *config = NULL;
        if (strcmp(targets[i], "host") == 0)
            continue;
        machines++;
        if (!is_model_target(targets[i])) {
            cli_error(j->c, CLI_E_TARGET, "host, pccx, opennpu, cmdq or all", "models do not run on '%s'", targets[i]);
            return TV_ERR_INPUT;
        }
        status = cli_make_config(j->c, targets[i], llm_is_all_targets(j), &config);
        tv_config_free(config);
    }
    if (machines || (!cli_has(j->c, "config") && !cli_has(j->c, "set")))
        return status;
    cli_error(j->c, CLI_E_CONFLICT, "give -t with a machine", "%s sets parameters of a machine; the host has none",
              cli_has(j->c, "config") ? "-c" : "-D");
    return TV_ERR_INPUT;
}

/* Runs the targets one after another. *done is the number of complete results, also on errors. */
static tv_status run_targets(llm_job *j, llm_outcome *list, unsigned *done)
{
    const char *targets[TARGETS_MAX], *path = cli_value(j->c, "eval");
    unsigned count = list_targets(j, targets);
    tv_input text = {0};
    tv_status status = check_parameters(j, targets, count);
    if (status == TV_OK && path)
        status = tv_input_open(path, &j->c->sink, &text);
    if (status == TV_OK && path && text.size == 0) {
        cli_error(j->c, CLI_E_VALUE, "give a file with a text", "--eval: '%s' is empty", path);
        status = TV_ERR_INPUT;
    }
    if (status == TV_OK && cli_has(j->c, "emit") && count > 1)
        status = make_directory(j);
    for (unsigned i = 0; i < count && status == TV_OK && !llm_is_interrupted(); i++) {
        if (!path && count > 1 && j->streaming && !cli_has(j->c, "timing-only") && !cli_has(j->c, "verify"))
            printf("%s--- %s\n", i ? "\n\n" : "", targets[i]);
        status = llm_run_target(j, targets[i], &text, &list[i]);
        bool complete = status == TV_OK && !list[i].skipped;
        *done += complete;
        if (!complete)
            llm_outcome_fini(&list[i]);
    }
    if (text.data)
        tv_input_close(&text);
    return status;
}

static int run_model(llm_job *j)
{
    llm_outcome list[TARGETS_MAX];
    unsigned count = 0;
    const char *name;
    j->streaming = !j->c->json;
    if (cli_has(j->c, "chat") &&
        tv_llm_chat_template(j->llm, cli_value(j->c, "chat-template"), &name, &j->c->sink) != TV_OK)
        return CLI_INVALID;
    tv_status status = run_targets(j, list, &count);
    if (!j->c->json && count)
        llm_report_print(j->c, list, count);
    else if (j->c->json && (count || status == TV_OK))
        llm_report_write_json(j->c, list, count, llm_is_interrupted());
    bool warned = cli_has(j->c, "eval") || cli_has(j->c, "verify") || cli_has(j->c, "timing-only");
    for (unsigned i = 0; i < count; i++) {
        warned = warned || llm_warn_full_context(j, &list[i].summary);
        llm_outcome_fini(&list[i]);
    }
    j->c->faulted = status == TV_FAULT;
    return cli_exit_status(status);
}

/* The graph as an array of its lines. */
static tv_status write_graph_json(cli *c, const tv_llm *llm)
{
    char *text = NULL, *rest = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return TV_ERR_MEMORY;
    tv_status status = tv_llm_print_graph(llm, out, &c->sink);
    if (fclose(out) != 0 && status == TV_OK)
        status = TV_ERR_MEMORY;
    if (status == TV_OK) {
        tv_json_writer *w = cli_begin_result(c);
        tv_json_begin_object(w);
        tv_json_key(w, "graph");
        tv_json_begin_array(w);
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            tv_json_write_string(w, line);
        tv_json_end_array(w);
        tv_json_end_object(w);
    }
    free(text);
    return status;
}

/* --info --quantization: what each machine makes of the tensors. */
static int describe_quantization(llm_job *j)
{
    const char *targets[TARGETS_MAX];
    unsigned count = list_targets(j, targets), described = 0;
    tv_json_writer *w = NULL;
    tv_status status = check_parameters(j, targets, count);
    if (status == TV_OK && j->c->json) {
        w = cli_begin_result(j->c);
        tv_json_begin_object(w);
        tv_json_key(w, "quantization");
        tv_json_begin_array(w);
    }
    for (unsigned i = 0; i < count && status == TV_OK; i++)
        if (strcmp(targets[i], "host") != 0) {
            printf("%s", described++ && !w ? "\n" : "");
            status = llm_describe_weights(j, targets[i], w);
        }
    if (w) {
        tv_json_end_array(w);
        tv_json_end_object(w);
    }
    return cli_exit_status(status);
}

static int run_llm(cli *c)
{
    llm_job j = {.c = c};
    int result = llm_parse_options(&j);
    if (result != CLI_OK)
        return result;
    tv_status status = tv_llm_open_context(c->files[0], j.context, &c->sink, &j.llm);
    if (status != TV_OK)
        return cli_exit_status(status);
    if (cli_has(c, "quantization"))
        result = describe_quantization(&j);
    else if (cli_has(c, "info") && c->json)
        tv_llm_write_info(j.llm, cli_begin_result(c));
    else if (cli_has(c, "info"))
        tv_llm_print_info(j.llm, stdout);
    else if (cli_has(c, "dump-graph") && c->json)
        result = cli_exit_status(write_graph_json(c, j.llm));
    else if (cli_has(c, "dump-graph"))
        result = cli_exit_status(tv_llm_print_graph(j.llm, stdout, &c->sink));
    else
        result = run_model(&j);
    tv_llm_free(j.llm);
    return result;
}

const cli_command cli_llm = {
    .name = "llm",
    .usage = "llm MODEL -t TARGET|all [-p PROMPT] [-n N]",
    .summary = "run a language model on the simulated machines",
    .about = "MODEL is a GGUF file of a known family (llama, qwen2, gemma3, …; docs/llm.md). The text is computed by "
             "the instructions of the machine, or "
             "by the host\n"
             "without -t; a summary of the cost follows. Ctrl-C ends the text early.",
    .example = "  trivet llm models/shakespeare.gguf -t cmdq -p \"ROMEO:\" -n 200\n"
               "  trivet llm models/shakespeare.gguf -t all --eval text.txt -n 2000",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "cDj",
    .files_min = 1,
    .files_max = 1,
    .values = "FILE",
    .run = run_llm,
};
