/* SPDX-License-Identifier: Apache-2.0 */
/* trivet llm: a language model on the simulated machines. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/llm_report.h"
#include "cli/run_outputs.h"

static const cli_option options[] = {
    {"target", 't', "TARGET", "a machine, host, or all (default host)", "MODEL_TARGET"},
    {"prompt", 'p', "TEXT", "start of the text", NULL},
    {"tokens", 'n', "N", "tokens to generate after the prompt, or to evaluate (default 128)", NULL},
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
    {"host-ops", 0, NULL, "list the operations that run on the host", NULL},
    {"verify", 0, NULL, "compare the output of each layer with the host, for each token of the prompt", NULL},
    RUN_OUTPUTS_OPTIONS,
    {"info", 0, NULL, "describe the model file", NULL},
    {"dump-graph", 0, NULL, "print the graph of the model", NULL},
};

enum { TARGETS_MAX = 8 };

typedef struct job {
    cli *c;
    tv_llm *llm;
    uint32_t tokens, context, prompt_tokens;
    unsigned threads, weight_bits, activation_bits;
    tv_llm_sampling sampling;
    bool streaming;
    bool on_terminal;  /* generated text goes to a terminal */
    char character[4]; /* the beginning of one that is not complete */
    size_t character_bytes;
    FILE *text; /* receives the generated text */
    cli_progress progress;
} job;

static volatile sig_atomic_t interrupted;

/* The first Ctrl-C ends the work after the current step; a second one ends the process. */
static void on_interrupt(int number)
{
    static const char message[] = "\r\033[Kending after this step; Ctrl-C again ends at once\n";
    const cli_progress *progress = cli_progress_current();
    if (interrupted)
        cli_end_by_signal(number);
    interrupted = 1;
    ssize_t n = progress && progress->shown ? write(STDERR_FILENO, message, sizeof message - 1) : 0;
    (void)n;
}

/* From now on Ctrl-C leaves results to print. --verify has no partial results. */
static void catch_interrupts(const job *j)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    if (!cli_has(j->c, "verify"))
        sigaction(SIGINT, &action, NULL);
}

static bool is_all_targets(const job *j)
{
    const char *target = cli_value(j->c, "target");
    return target && strcmp(target, "all") == 0;
}

/* ---- Options ---- */

/* Parses a number from 0 to `max`. */
static bool parse_real(const job *j, const char *name, double default_value, double max, double *out)
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

static bool parse_integer(const job *j, const char *name, integer_range range, uint64_t *out)
{
    const char *text = cli_value(j->c, name);
    *out = range.default_value;
    return !text || (cli_parse_number(text, out) && *out >= range.min && *out <= range.max);
}

/* Parses the numeric options into the job. Returns the name of an invalid one, or NULL. */
static const char *parse_numbers(job *j)
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
        {"host-ops", "verify"},    {"timing-only", "prompt"}, {"eval", "prompt"}};
    for (size_t i = 0; i < CLI_COUNTOF(exclusive); i++)
        if (cli_has(c, exclusive[i][0]) && cli_has(c, exclusive[i][1]))
            return cli_error(c, CLI_E_CONFLICT, "omit one of them", "--%s and --%s are mutually exclusive",
                             exclusive[i][0], exclusive[i][1]);
    if (has_run_outputs(c) && (cli_has(c, "eval") || cli_has(c, "verify")))
        return cli_error(c, CLI_E_CONFLICT, "generate text, or use --timing-only",
                         "--eval and --verify write no trace and no report");
    if (has_run_outputs(c) && (cli_has(c, "info") || cli_has(c, "dump-graph")))
        return cli_error(c, CLI_E_CONFLICT, "omit them to run the model",
                         "--info and --dump-graph do not run the model: there is no trace and no report");
    if (run_outputs_use_stdout(c))
        return cli_error(c, CLI_E_CONFLICT, "write it to a file",
                         "a trace or report cannot go to standard output, which has the generated text");
    return CLI_OK;
}

static int parse_options(job *j)
{
    const char *invalid = parse_numbers(j);
    if (invalid)
        return cli_error(j->c, CLI_E_VALUE,
                         strcmp(invalid, "tokens") == 0 ? "1 to 4294967295" : "`trivet llm --help` lists the options",
                         "--%s cannot be '%s'", invalid, cli_value(j->c, invalid));
    int result = check_options(j->c);
    if (result != CLI_OK)
        return result;
    if (!cli_select_kernels(j->c) || run_outputs_check(j->c) != TV_OK)
        return CLI_INVALID;
    return CLI_OK;
}

/* ---- A session ---- */

/* Nonzero ends the work. */
static int show_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    job *j = user;
    cli_progress_show(&j->progress, what, done, total);
    return interrupted;
}

/* The files that --emit writes stay open until they are put in place. */
static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static tv_status open_session(job *j, const char *target, const char *sample, tv_config **config,
                              tv_llm_session **session)
{
    char emit[4096];
    bool all = is_all_targets(j), host = strcmp(target, "host") == 0;
    const char *directory = cli_value(j->c, "emit");
    if (directory && all) {
        snprintf(emit, sizeof emit, "%s/%s", directory, target);
        directory = emit;
    }
    if (host && (all || cli_has(j->c, "eval"))) /* the host is only the reference, and has no programs */
        directory = NULL;
    tv_output_group *outputs = NULL;
    tv_status status = directory ? cli_outputs(j->c, &outputs) : TV_OK;
    if (status != TV_OK)
        return status;
    allow_many_files();
    tv_llm_options own = {.size = sizeof own,
                          .target = target,
                          .context = j->context,
                          .threads = j->threads,
                          .weight_bits = j->weight_bits,
                          .activation_bits = j->activation_bits,
                          .emit = directory,
                          .timing_only = cli_has(j->c, "timing-only"),
                          .verify = cli_has(j->c, "verify"),
                          .sample = sample,
                          .progress = {show_progress, j},
                          .outputs = outputs};
    *config = NULL;
    *session = NULL;
    if (!host)
        status = cli_make_config(j->c, target, all, config);
    own.config = *config;
    cli_progress_begin(j->c, &j->progress);
    if (status == TV_OK)
        status = tv_llm_session_new(j->llm, &own, &j->c->sink, session);
    cli_progress_end(&j->progress);
    catch_interrupts(j);
    if (j->context > tv_llm_context(j->llm)) /* the session has warned about it */
        j->context = tv_llm_context(j->llm);
    return status;
}

/* Prints what is left of an incomplete character. */
static void flush_character(job *j)
{
    tv_text_print(j->text, j->character, j->character_bytes, TV_TEXT_KEEP_LINES);
    j->character_bytes = 0;
}

/* Prints generated text on a terminal, made safe. A character may come in several pieces. */
static void print_on_terminal(job *j, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if ((c & 0xC0) != 0x80)
            flush_character(j);
        j->character[j->character_bytes++] = bytes[i];
        unsigned char lead = (unsigned char)j->character[0];
        if (j->character_bytes >= (lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4))
            flush_character(j);
    }
}

/* Prints generated text; nonzero ends the generation. */
static int print_text(void *user, const char *bytes, size_t size)
{
    job *j = user;
    cli_progress_note(&j->progress, "generating", j->progress.done + 1, j->tokens);
    if (j->on_terminal)
        print_on_terminal(j, bytes, size);
    else
        fwrite(bytes, 1, size, j->text);
    if (j->streaming)
        fflush(j->text);
    return interrupted;
}

/* Opens the event files of a session. The host has no events: with -t all it has no files, otherwise they are an error.
 */
static tv_status open_outputs(job *j, const char *target, tv_machine *machine, run_outputs *outputs)
{
    const char *model = strrchr(j->c->files[0], '/');
    char title[256];
    if (!machine && (is_all_targets(j) || !has_run_outputs(j->c)))
        return TV_OK;
    if (!machine) {
        cli_error(j->c, CLI_E_CONFLICT, "give -t with a machine", "the host has no cycles to trace or report");
        return TV_ERR_INPUT;
    }
    snprintf(title, sizeof title, "%s on %s", model ? model + 1 : j->c->files[0], target);
    return run_outputs_open(outputs, j->c, title, is_all_targets(j) ? target : NULL, machine);
}

/* The tokens after the prompt of --timing-only. The default is limited by the context; -n is not: it is rejected. */
static uint32_t timed_tokens(const job *j)
{
    uint32_t context = j->context ? j->context : tv_llm_context(j->llm),
             room = context > j->prompt_tokens ? context - j->prompt_tokens : 0;
    return j->tokens > room && !cli_has(j->c, "tokens") ? room : j->tokens;
}

/* Generates text, or computes its timing. */
static tv_status run_session(job *j, tv_llm_session *session, const char *target)
{
    const char *prompt = cli_value(j->c, "prompt");
    run_outputs outputs = {0};
    tv_status status = open_outputs(j, target, tv_llm_session_machine(session), &outputs);
    cli_progress_begin(j->c, &j->progress);
    if (status == TV_OK && cli_has(j->c, "timing-only"))
        status = tv_llm_time(session, j->prompt_tokens, timed_tokens(j), &j->c->sink);
    else if (status == TV_OK)
        status = tv_llm_generate(session, prompt ? prompt : "", j->tokens, &j->sampling, print_text, j, &j->c->sink);
    cli_progress_end(&j->progress);
    flush_character(j);
    tv_output_group *files = NULL;
    if (status == TV_OK)
        status = cli_outputs(j->c, &files);
    if (status == TV_OK)
        status = run_outputs_finish(&outputs, files);
    else
        run_outputs_abandon(&outputs);
    return status;
}

/* Runs a session; with --json its text goes into the result. */
static tv_status run_session_to(job *j, tv_llm_session *session, const char *target, llm_outcome *out)
{
    size_t size;
    j->on_terminal = j->streaming && isatty(STDOUT_FILENO);
    j->text = j->streaming ? stdout : open_memstream(&out->text, &size);
    if (!j->text)
        return TV_ERR_MEMORY;
    tv_status status = run_session(j, session, target);
    if (!j->streaming && fclose(j->text) != 0 && status == TV_OK)
        status = TV_ERR_MEMORY;
    return status;
}

/* Warns about a text that is shorter than -n asks for because the context is full. Returns whether it did. */
static bool warn_full_context(job *j, const tv_llm_summary *s)
{
    uint32_t context = j->context ? j->context : tv_llm_context(j->llm);
    char message[160];
    if (!cli_has(j->c, "tokens") || interrupted || s->prompt_tokens + s->tokens < context || j->tokens <= s->tokens + 1)
        return false;
    snprintf(message, sizeof message, "the context of %u tokens is full: the text ends after %u of %u tokens", context,
             s->tokens + 1, j->tokens);
    cli_warn(j->c, "TV-L042", "the prompt and -n have to fit the context", message);
    return true;
}

static tv_status generate_text(job *j, const char *target, llm_outcome *out)
{
    const char *prompt = cli_value(j->c, "prompt");
    tv_config *config;
    tv_llm_session *session;
    tv_status status = open_session(j, target, prompt, &config, &session);
    *out = (llm_outcome){.target = target, .summary.size = sizeof out->summary, .skipped = interrupted};
    if (status == TV_OK && !out->skipped)
        status = run_session_to(j, session, target, out);
    if (session) {
        tv_stats stats = {.size = sizeof stats};
        tv_llm_session_summary(session, &out->summary);
        if (out->summary.machine)
            tv_machine_stats(out->summary.machine, &stats);
        snprintf(out->bound_by, sizeof out->bound_by, "%s", stats.bound_by);
        while (out->host_op_count < LLM_HOST_OPS_MAX &&
               tv_llm_host_op_at(session, out->host_op_count, &out->host_ops[out->host_op_count]))
            out->host_op_count++;
        out->summary.machine = NULL;
    }
    tv_llm_session_free(session);
    tv_config_free(config);
    return status;
}

/* Computes the negative log-likelihood of a text. */
static tv_status evaluate_text(job *j, const char *target, const tv_input *text, llm_outcome *out)
{
    tv_config *config;
    tv_llm_session *session;
    tv_status status = open_session(j, target, NULL, &config, &session);
    *out = (llm_outcome){.target = target,
                         .summary.size = sizeof out->summary,
                         .likelihood.size = sizeof out->likelihood,
                         .skipped = interrupted};
    cli_progress_begin(j->c, &j->progress);
    if (status == TV_OK && !out->skipped)
        status = tv_llm_eval(session, (const char *)text->data, text->size, j->tokens, &out->likelihood, &j->c->sink);
    cli_progress_end(&j->progress);
    if (session)
        tv_llm_session_summary(session, &out->summary);
    out->summary.machine = NULL;
    tv_llm_session_free(session);
    tv_config_free(config);
    return status;
}

/* Compares each layer with the host. */
static tv_status verify_layers(job *j, const char *target, llm_outcome *out)
{
    const char *prompt = cli_value(j->c, "prompt");
    tv_config *config;
    tv_llm_session *session;
    tv_status status = open_session(j, target, prompt, &config, &session);
    *out = (llm_outcome){.target = target, .summary.size = sizeof out->summary};
    if (status == TV_OK)
        status = tv_llm_verify(session, prompt ? prompt : "To be, or not to be: that is the question.", j->tokens,
                               &out->layers, &out->layer_count, &j->c->sink);
    tv_llm_session_free(session);
    tv_config_free(config);
    return status;
}

/* ---- The command ---- */

/* The requested targets: one, or all. An evaluation starts with the host, the reference. */
static unsigned list_targets(const job *j, const char *targets[TARGETS_MAX])
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

static tv_status make_directory(job *j)
{
    tv_output_group *outputs;
    tv_status status = cli_outputs(j->c, &outputs);
    return status == TV_OK ? tv_output_group_folder(outputs, cli_value(j->c, "emit"), &j->c->sink) : status;
}

static tv_status run_target(job *j, const char *target, const tv_input *text, llm_outcome *out)
{
    if (cli_has(j->c, "verify"))
        return verify_layers(j, target, out);
    return cli_has(j->c, "eval") ? evaluate_text(j, target, text, out) : generate_text(j, target, out);
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
static tv_status check_parameters(job *j, const char *const *targets, unsigned count)
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
        status = cli_make_config(j->c, targets[i], is_all_targets(j), &config);
        tv_config_free(config);
    }
    if (machines || (!cli_has(j->c, "config") && !cli_has(j->c, "set")))
        return status;
    cli_error(j->c, CLI_E_CONFLICT, "give -t with a machine", "%s sets parameters of a machine; the host has none",
              cli_has(j->c, "config") ? "-c" : "-D");
    return TV_ERR_INPUT;
}

/* Runs the targets one after another. *done is the number of complete results, also on errors. */
static tv_status run_targets(job *j, llm_outcome *list, unsigned *done)
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
    for (unsigned i = 0; i < count && status == TV_OK && !interrupted; i++) {
        if (!path && count > 1 && j->streaming && !cli_has(j->c, "timing-only") && !cli_has(j->c, "verify"))
            printf("%s--- %s\n", i ? "\n\n" : "", targets[i]);
        status = run_target(j, targets[i], &text, &list[i]);
        bool complete = status == TV_OK && !list[i].skipped;
        *done += complete;
        if (!complete)
            llm_outcome_fini(&list[i]);
    }
    if (text.data)
        tv_input_close(&text);
    return status;
}

static int run_model(job *j)
{
    llm_outcome list[TARGETS_MAX];
    unsigned count = 0;
    j->streaming = !j->c->json;
    tv_status status = run_targets(j, list, &count);
    if (!j->c->json && count)
        llm_report_print(j->c, list, count);
    else if (j->c->json && (count || status == TV_OK))
        llm_report_write_json(j->c, list, count, interrupted != 0);
    bool warned = cli_has(j->c, "eval") || cli_has(j->c, "verify") || cli_has(j->c, "timing-only");
    for (unsigned i = 0; i < count; i++) {
        warned = warned || warn_full_context(j, &list[i].summary);
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

static int run_llm(cli *c)
{
    job j = {.c = c};
    int result = parse_options(&j);
    if (result != CLI_OK)
        return result;
    tv_status status = tv_llm_open(c->files[0], &c->sink, &j.llm);
    if (status != TV_OK)
        return cli_exit_status(status);
    if (cli_has(c, "info") && c->json)
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
