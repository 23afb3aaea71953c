/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `trivet llm`. */
#include <stdio.h>
#include <unistd.h>

#include "cli/llm_job.h"
#include "cli/run_outputs.h"

bool llm_is_all_targets(const llm_job *j)
{
    const char *target = cli_value(j->c, "target");
    return target && strcmp(target, "all") == 0;
}

/* Parses a number from 0 to `max`. */
static bool parse_real(const llm_job *j, const char *name, double default_value, double max, double *out)
{
    const char *text = cli_value(j->c, name);
    char *end = NULL;
    *out = text ? strtod(text, &end) : default_value;
    return !text || (end != text && *end == '\0' && *out >= 0 && *out <= max);
}

/* The range of an integer option, and its default, which may be outside. */
typedef struct integer_range {
    uint64_t default_value, min, max;
} integer_range;

static bool parse_integer(const llm_job *j, const char *name, integer_range range, uint64_t *out)
{
    const char *text = cli_value(j->c, name);
    *out = range.default_value;
    return !text || (cli_parse_number(text, out) && *out >= range.min && *out <= range.max);
}

/* Parses the numeric options into the job. Returns the name of an invalid one, or NULL. */
static const char *parse_numbers(llm_job *j)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t tokens, context, threads, bits, activation_bits, seed, prompt_tokens;
    double temperature, top_p;
    if (!parse_integer(j, "tokens", (integer_range){128, 1, UINT32_MAX}, &tokens))
        return "tokens";
    if (!parse_integer(j, "context", (integer_range){0, 1, UINT32_MAX}, &context))
        return "context";
    if (!parse_integer(j, "prompt-tokens", (integer_range){16, 0, UINT32_MAX}, &prompt_tokens))
        return "prompt-tokens";
    if (!parse_integer(j, "threads", (integer_range){cores > 0 ? (uint64_t)cores : 1, 1, 256}, &threads))
        return "threads";
    if (!parse_integer(j, "weight-bits", (integer_range){0, 4, 8}, &bits) || (bits != 0 && bits != 4 && bits != 8))
        return "weight-bits";
    if (!parse_integer(j, "activation-bits", (integer_range){0, 8, 16}, &activation_bits) ||
        (activation_bits != 0 && activation_bits != 8 && activation_bits != 16))
        return "activation-bits";
    if (!parse_integer(j, "seed", (integer_range){1, 0, UINT64_MAX}, &seed))
        return "seed";
    if (!parse_real(j, "temperature", 0.8, 100, &temperature))
        return "temperature";
    if (!parse_real(j, "top-p", 0.9, 1, &top_p))
        return "top-p";
    j->tokens = (uint32_t)tokens;
    j->context = (uint32_t)context;
    j->prompt_tokens = (uint32_t)prompt_tokens;
    j->threads = (unsigned)threads;
    j->weight_bits = (unsigned)bits;
    j->activation_bits = (unsigned)activation_bits;
    j->sampling = (tv_llm_sampling){sizeof(tv_llm_sampling), (float)temperature, (float)top_p, seed};
    return NULL;
}

/* Rejects options that exclude each other. */
static int check_options(cli *c)
{
    static const char *const exclusive[][2] = {
        {"timing-only", "verify"}, {"timing-only", "eval"},   {"verify", "eval"}, {"host-ops", "eval"},
        {"host-ops", "verify"},    {"timing-only", "prompt"}, {"eval", "prompt"}, {"chat", "timing-only"},
        {"chat", "verify"},        {"chat", "eval"}};
    static const char *const needed[][2] = {
        {"system", "chat"}, {"chat-template", "chat"}, {"prompt-tokens", "timing-only"}, {"quantization", "info"}};
    for (size_t i = 0; i < CLI_COUNTOF(exclusive); i++)
        if (cli_has(c, exclusive[i][0]) && cli_has(c, exclusive[i][1]))
            return cli_error(c, CLI_E_CONFLICT, "omit one of them", "--%s and --%s are mutually exclusive",
                             exclusive[i][0], exclusive[i][1]);
    for (size_t i = 0; i < CLI_COUNTOF(needed); i++)
        if (cli_has(c, needed[i][0]) && !cli_has(c, needed[i][1])) {
            char hint[32];
            snprintf(hint, sizeof hint, "add --%s", needed[i][1]);
            return cli_error(c, CLI_E_CONFLICT, hint, "--%s is an option of --%s", needed[i][0], needed[i][1]);
        }
    if (has_run_outputs(c) && (cli_has(c, "eval") || cli_has(c, "verify")))
        return cli_error(c, CLI_E_CONFLICT, "generate text, or use --timing-only",
                         "--eval and --verify write no trace and no report");
    const char *target = cli_value(c, "target");
    if (cli_has(c, "quantization") && (!target || strcmp(target, "host") == 0))
        return cli_error(c, CLI_E_CONFLICT, "give -t with a machine", "the host computes with the weights of the file");
    if (has_run_outputs(c) && (cli_has(c, "info") || cli_has(c, "dump-graph")))
        return cli_error(c, CLI_E_CONFLICT, "omit them to run the model",
                         "--info and --dump-graph do not run the model: there is no trace and no report");
    if (run_outputs_use_stdout(c))
        return cli_error(c, CLI_E_CONFLICT, "write it to a file",
                         "a trace or report cannot go to standard output, which has the generated text");
    return CLI_OK;
}

int llm_parse_options(llm_job *j)
{
    const char *invalid = parse_numbers(j);
    if (invalid)
        return cli_error(j->c, CLI_E_VALUE,
                         strcmp(invalid, "tokens") == 0 ? "1 to 4294967295" : "`trivet llm --help` lists the options",
                         "--%s cannot be '%s'", invalid, cli_value(j->c, invalid));
    if (cli_has(j->c, "chat") && !cli_has(j->c, "prompt") && llm_is_all_targets(j))
        return cli_error(j->c, CLI_E_CONFLICT, "give -t with one target, or a message with -p",
                         "a conversation from standard input has one target");
    int result = check_options(j->c);
    if (result != CLI_OK)
        return result;
    if (!cli_select_kernels(j->c) || run_outputs_check(j->c) != TV_OK)
        return CLI_INVALID;
    return CLI_OK;
}
