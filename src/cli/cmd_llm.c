/* SPDX-License-Identifier: Apache-2.0 */
/* trivet llm: a language model on the simulated machines. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run_outputs.h"
#include "trivet/llm.h"

static const cli_option options[] = {
    {"target", 't', "TARGET", "a machine, host, or all of them (default host)", "TARGET"},
    {"prompt", 'p', "TEXT", "what the text begins with", NULL},
    {"tokens", 'n', "N", "tokens to generate after it, or to evaluate (default 128)", NULL},
    {"temperature", 0, "X", "0 for the likeliest token (default 0.8)", NULL},
    {"top-p", 0, "X", "choose among the likeliest tokens that have this share together (default 0.9)", NULL},
    {"seed", 0, "N", "of the choice (default 1)", NULL},
    {"context", 0, "N", "positions to make room for (default: the model's)", NULL},
    {"weight-bits", 0, "4|8", "width of the weights where the machine takes both", "4 8"},
    {"activation-bits", 0, "8|16", "width of what is multiplied with them where the machine takes both", "8 16"},
    {"kernels", 0, "NAME",
     "host kernels: scalar, avx2, avx512, neon or dotprod, of those that the host has; results are the same",
     "scalar avx2 avx512 neon dotprod"},
    {"threads", 0, "N", "host threads (default: as many as there are cores)", NULL},
    {"emit", 0, "FOLDER", "write the machine's programs there, of -t all in a folder for each machine", "FILE"},
    {"eval", 0, "TEXT", "cross-entropy of a text file, beside that of the host", "FILE"},
    {"timing-only", 0, NULL,
     "cycles without data: of -n tokens after a prompt of --prompt-tokens; MODEL may be sizes alone", NULL},
    {"prompt-tokens", 0, "N", "length of the prompt that --timing-only times (default 16)", NULL},
    {"host-ops", 0, NULL, "what the machine's instructions leave to the host", NULL},
    {"verify", 0, NULL, "compare each layer's output with the host's, token by token of the prompt", NULL},
    RUN_OUTPUTS_OPTIONS,
    {"info", 0, NULL, "what is in the model file", NULL},
    {"dump-graph", 0, NULL, "the operations that the model is made of", NULL},
};

enum { TARGETS_MAX = 8, HOST_OPS_MAX = 16 };

typedef struct job {
    cli *c;
    tv_llm *llm;
    uint32_t tokens, context, prompt_tokens;
    unsigned threads, weight_bits, activation_bits;
    tv_llm_sampling sampling;
    bool streaming;
    cli_progress progress;
} job;

/* What one target has done. */
typedef struct outcome {
    const char *target;
    tv_llm_summary summary;
    char bound_by[48];
    double nats;
    uint32_t evaluated;
    tv_llm_host_op host_ops[HOST_OPS_MAX]; /* their names are static */
    unsigned host_op_count;
} outcome;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static bool all_targets(const job *j)
{
    const char *wanted = cli_value(j->c, "target");
    return wanted && strcmp(wanted, "all") == 0;
}

/* ---- Options ---- */

static bool real_option(const job *j, const char *name, double fallback, double most, double *out)
{
    const char *text = cli_value(j->c, name);
    char *end = NULL;
    *out = text ? strtod(text, &end) : fallback;
    return !text || (end != text && *end == '\0' && *out >= 0 && *out <= most);
}

static bool integer_option(const job *j, const char *name, uint64_t fallback, uint64_t least, uint64_t most,
                           uint64_t *out)
{
    const char *text = cli_value(j->c, name);
    *out = fallback;
    return !text || (cli_parse_number(text, out) && *out >= least && *out <= most);
}

static int read_options(job *j)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t tokens, context, threads, bits, activation_bits, seed, prompt_tokens;
    double temperature, top_p;
    const char *wrong = NULL;
    if (!integer_option(j, "tokens", 128, 1, UINT32_MAX, &tokens))
        wrong = "tokens";
    else if (!integer_option(j, "context", 0, 1, UINT32_MAX, &context))
        wrong = "context";
    else if (!integer_option(j, "prompt-tokens", 16, 0, UINT32_MAX, &prompt_tokens))
        wrong = "prompt-tokens";
    else if (!integer_option(j, "threads", cores > 0 ? (uint64_t)cores : 1, 1, 256, &threads))
        wrong = "threads";
    else if (!integer_option(j, "weight-bits", 0, 4, 8, &bits) || (bits != 0 && bits != 4 && bits != 8))
        wrong = "weight-bits";
    else if (!integer_option(j, "activation-bits", 0, 8, 16, &activation_bits) ||
             (activation_bits != 0 && activation_bits != 8 && activation_bits != 16))
        wrong = "activation-bits";
    else if (!integer_option(j, "seed", 1, 0, UINT64_MAX, &seed))
        wrong = "seed";
    else if (!real_option(j, "temperature", 0.8, 100, &temperature))
        wrong = "temperature";
    else if (!real_option(j, "top-p", 0.9, 1, &top_p))
        wrong = "top-p";
    if (wrong)
        return cli_wrong(j->c, "`trivet llm --help` says what it takes", "--%s cannot be '%s'", wrong,
                         cli_value(j->c, wrong));
    static const char *const exclusive[][2] = {
        {"timing-only", "verify"}, {"timing-only", "eval"},   {"verify", "eval"}, {"host-ops", "eval"},
        {"host-ops", "verify"},    {"timing-only", "prompt"}, {"eval", "prompt"}};
    for (size_t i = 0; i < CLI_COUNTOF(exclusive); i++)
        if (cli_has(j->c, exclusive[i][0]) && cli_has(j->c, exclusive[i][1]))
            return cli_wrong(j->c, "leave one of them away", "--%s and --%s exclude each other", exclusive[i][0],
                             exclusive[i][1]);
    if (!cli_use_kernels(j->c))
        return cli_exit_status(TV_ERR_INPUT);
    if (run_outputs_wanted(j->c) && (cli_has(j->c, "eval") || cli_has(j->c, "verify")))
        return cli_wrong(j->c, "they go with a text, or with --timing-only",
                         "--eval and --verify write no trace and no report");
    if (run_outputs_wanted(j->c) && (cli_has(j->c, "info") || cli_has(j->c, "dump-graph")))
        return cli_wrong(j->c, "leave them away to run the model",
                         "--info and --dump-graph run nothing that a trace or report could tell of");
    if (run_outputs_on_stdout(j->c))
        return cli_wrong(j->c, "write it to a file",
                         "standard output has the text; no trace and no report can go there");
    if (run_outputs_check(j->c, j->c->files, j->c->file_count) != TV_OK)
        return cli_exit_status(TV_ERR_INPUT);
    j->tokens = (uint32_t)tokens;
    j->context = (uint32_t)context;
    j->prompt_tokens = (uint32_t)prompt_tokens;
    j->threads = (unsigned)threads;
    j->weight_bits = (unsigned)bits;
    j->activation_bits = (unsigned)activation_bits;
    j->sampling = (tv_llm_sampling){sizeof(tv_llm_sampling), (float)temperature, (float)top_p, seed};
    return CLI_DONE;
}

/* ---- A session ---- */

static void show_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    job *j = user;
    cli_progress_show(&j->progress, what, done, total);
}

static tv_status open_session(job *j, const char *target, const char *sample, tv_config **config,
                              tv_llm_session **session)
{
    char emit[4096];
    bool all = all_targets(j), host = strcmp(target, "host") == 0;
    const char *folder = cli_value(j->c, "emit");
    if (folder && all) { /* each machine its own */
        snprintf(emit, sizeof emit, "%s/%s", folder, target);
        folder = emit;
    }
    if (host && (all || cli_has(j->c, "eval"))) /* it comes along and has no programs */
        folder = NULL;
    tv_llm_options own = {.size = sizeof own,
                          .target = target,
                          .context = j->context,
                          .threads = j->threads,
                          .weight_bits = j->weight_bits,
                          .activation_bits = j->activation_bits,
                          .emit = folder,
                          .timing_only = cli_has(j->c, "timing-only"),
                          .verify = cli_has(j->c, "verify"),
                          .sample = sample,
                          .progress = {show_progress, j}};
    *config = NULL;
    *session = NULL;
    tv_status status = host ? TV_OK : cli_make_config(j->c, target, all, config);
    own.config = *config;
    cli_progress_begin(j->c, &j->progress);
    if (status == TV_OK)
        status = tv_llm_session_new(j->llm, &own, &j->c->sink, session);
    cli_progress_end(&j->progress);
    if (j->context > tv_llm_context(j->llm)) /* which has been said */
        j->context = tv_llm_context(j->llm);
    return status;
}

static int stream(void *user, const char *bytes, size_t size)
{
    const job *j = user;
    if (j->streaming) {
        fwrite(bytes, 1, size, stdout);
        fflush(stdout);
    }
    return interrupted;
}

/* Of a session on a machine; the host has nothing to tell, and of -t all it is left out. */
static tv_status open_outputs(job *j, const char *target, tv_machine *machine, run_outputs *outputs)
{
    const char *model = strrchr(j->c->files[0], '/');
    char title[256];
    if (!machine && (all_targets(j) || !run_outputs_wanted(j->c)))
        return TV_OK;
    if (!machine) {
        cli_wrong(j->c, "give -t with a machine", "the host has no cycles to trace or report");
        return TV_ERR_INPUT;
    }
    snprintf(title, sizeof title, "%s on %s", model ? model + 1 : j->c->files[0], target);
    return run_outputs_open(outputs, j->c, title, all_targets(j) ? target : NULL, machine);
}

static tv_status run_session(job *j, tv_llm_session *session, const char *target)
{
    const char *prompt = cli_value(j->c, "prompt");
    run_outputs outputs = {0};
    tv_status status = open_outputs(j, target, tv_llm_session_machine(session), &outputs);
    if (status == TV_OK && cli_has(j->c, "timing-only"))
        status = tv_llm_time(session, j->prompt_tokens, j->tokens, &j->c->sink);
    else if (status == TV_OK)
        status = tv_llm_generate(session, prompt ? prompt : "", j->tokens, &j->sampling, stream, j, &j->c->sink);
    if (status == TV_OK)
        return run_outputs_finish(&outputs);
    run_outputs_abandon(&outputs);
    return status;
}

static tv_status generate(job *j, const char *target, outcome *out)
{
    const char *prompt = cli_value(j->c, "prompt");
    tv_config *config;
    tv_llm_session *session;
    tv_status status = open_session(j, target, prompt, &config, &session);
    *out = (outcome){.target = target, .summary.size = sizeof out->summary};
    if (status == TV_OK)
        status = run_session(j, session, target);
    if (session) {
        tv_stats stats = {.size = sizeof stats};
        tv_llm_session_summary(session, &out->summary);
        if (out->summary.machine)
            tv_machine_stats(out->summary.machine, &stats);
        snprintf(out->bound_by, sizeof out->bound_by, "%s", stats.bound_by);
        while (out->host_op_count < HOST_OPS_MAX &&
               tv_llm_host_op_at(session, out->host_op_count, &out->host_ops[out->host_op_count]))
            out->host_op_count++;
        out->summary.machine = NULL;
    }
    tv_llm_session_free(session);
    tv_config_free(config);
    return status;
}

static tv_status evaluate(job *j, const char *target, const tv_input *text, outcome *out)
{
    tv_config *config;
    tv_llm_session *session;
    tv_status status = open_session(j, target, NULL, &config, &session);
    *out = (outcome){.target = target, .summary.size = sizeof out->summary};
    cli_progress_begin(j->c, &j->progress);
    if (status == TV_OK)
        status = tv_llm_eval(session, (const char *)text->data, text->size, j->tokens, &out->nats, &out->evaluated,
                             &j->c->sink);
    cli_progress_end(&j->progress);
    if (session)
        tv_llm_session_summary(session, &out->summary);
    out->summary.machine = NULL;
    tv_llm_session_free(session);
    tv_config_free(config);
    return status;
}

static void print_likeness(const char *target, const tv_llm_similarity *list, uint32_t count)
{
    printf("%s against the host:\n  %-8s %12s %16s\n", target, "layer", "cosine", "largest error");
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, i + 1 == count ? "logits" : "%u", i);
        printf("  %-8s %12.6f %16.6g\n", name, list[i].cosine, list[i].error);
    }
}

/* JSON has no infinities. */
static json_t *json_figure(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *likeness_json(const char *target, const tv_llm_similarity *list, uint32_t count)
{
    json_t *layers = json_array();
    for (uint32_t i = 0; i + 1 < count; i++)
        json_array_append_new(layers,
                              json_pack("{s:i, s:o, s:o}", "layer", (int)i, "cosine", json_figure(list[i].cosine),
                                        "largest_error", json_figure(list[i].error)));
    json_t *o = json_pack("{s:s, s:o}", "target", target, "layers", layers);
    if (count)
        json_object_set_new(o, "logits",
                            json_pack("{s:o, s:o}", "cosine", json_figure(list[count - 1].cosine), "largest_error",
                                      json_figure(list[count - 1].error)));
    return o;
}

/* Each layer beside the host's; printed, or appended to `array`. */
static tv_status verify(job *j, const char *target, json_t *array)
{
    const char *prompt = cli_value(j->c, "prompt");
    tv_config *config;
    tv_llm_session *session;
    tv_llm_similarity *list = NULL;
    uint32_t count = 0;
    tv_status status = open_session(j, target, prompt, &config, &session);
    if (status == TV_OK)
        status = tv_llm_verify(session, prompt ? prompt : "To be, or not to be: that is the question.", j->tokens,
                               &list, &count, &j->c->sink);
    if (status == TV_OK && j->c->json)
        json_array_append_new(array, likeness_json(target, list, count));
    else if (status == TV_OK)
        print_likeness(target, list, count);
    free(list);
    tv_llm_session_free(session);
    tv_config_free(config);
    return status;
}

/* ---- Reports ---- */

static double per(double amount, double of) { return of > 0 ? amount / of : 0; }

static void print_generated(const outcome *list, unsigned count)
{
    printf("\n  %-8s %7s %16s %16s %14s %14s  %s\n", "target", "tokens", "cycles/token", "prompt, c/token", "tokens/s",
           "bytes/token", "bound by");
    for (unsigned i = 0; i < count; i++) {
        const tv_llm_summary *s = &list[i].summary;
        double cycles = per((double)s->cycles, s->tokens);
        bool host = s->clock_hz <= 0;
        printf("  %-8s %7u ", list[i].target, s->prompt_tokens + s->tokens);
        if (host)
            printf("%16s %16s %14.1f %14s  %s\n", "", "", per(s->tokens, s->seconds), "", "this computer");
        else
            printf("%16.0f %16.0f %14.1f %14.0f  %s; simulated at %.1f tokens/s\n", cycles,
                   per((double)s->prompt_cycles, s->prompt_tokens), per(s->clock_hz, cycles),
                   per((double)(s->read_bytes + s->written_bytes), s->tokens), list[i].bound_by,
                   per(s->tokens, s->seconds));
    }
}

static void print_host_ops(const outcome *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const tv_llm_summary *s = &list[i].summary;
        double tokens = s->prompt_tokens + s->tokens;
        if (list[i].host_op_count == 0) {
            printf("\n  %s leaves nothing to the host\n", list[i].target);
            continue;
        }
        printf("\n  %-8s %-44s %12s %16s\n", list[i].target, "left to the host", "times/token", "values/token");
        for (unsigned k = 0; k < list[i].host_op_count; k++)
            printf("  %-8s %-44s %12.1f %16.1f\n", "", list[i].host_ops[k].name,
                   per((double)list[i].host_ops[k].count, tokens), per((double)list[i].host_ops[k].elements, tokens));
    }
}

static void print_evaluated(const outcome *list, unsigned count)
{
    printf("  %-8s %7s %14s %12s\n", "target", "tokens", "nats/token", "against host");
    for (unsigned i = 0; i < count; i++)
        printf("  %-8s %7u %14.4f %11.2f %%\n", list[i].target, list[i].evaluated, list[i].nats,
               100 * (list[i].nats / list[0].nats - 1));
}

static json_t *outcomes_json(const outcome *list, unsigned count)
{
    json_t *array = json_array();
    for (unsigned i = 0; i < count; i++) {
        const tv_llm_summary *s = &list[i].summary;
        json_t *o =
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:s}", "target", list[i].target, "prompt_tokens",
                      (json_int_t)s->prompt_tokens, "tokens", (json_int_t)s->tokens, "prompt_cycles",
                      (json_int_t)s->prompt_cycles, "cycles", (json_int_t)s->cycles, "prompt_wall", s->prompt_seconds,
                      "wall", s->seconds, "read_bytes", (json_int_t)s->read_bytes, "written_bytes",
                      (json_int_t)s->written_bytes, "bound_by", list[i].bound_by);
        if (list[i].evaluated)
            json_object_update_new(o, json_pack("{s:o, s:I}", "nats", json_figure(list[i].nats), "evaluated",
                                                (json_int_t)list[i].evaluated));
        json_t *host_ops = json_array();
        for (unsigned k = 0; k < list[i].host_op_count; k++)
            json_array_append_new(host_ops, json_pack("{s:s, s:I, s:I}", "name", list[i].host_ops[k].name, "count",
                                                      (json_int_t)list[i].host_ops[k].count, "values",
                                                      (json_int_t)list[i].host_ops[k].elements));
        json_object_set_new(o, "host_ops", host_ops);
        json_array_append_new(array, o);
    }
    return array;
}

/* ---- The command ---- */

/* The targets asked for: one, or all; an evaluation has the host first. */
static unsigned list_targets(const job *j, const char *targets[TARGETS_MAX])
{
    const char *wanted = cli_value(j->c, "target"), *name;
    unsigned count = 0;
    if (cli_has(j->c, "eval"))
        targets[count++] = "host";
    if (wanted && strcmp(wanted, "all") != 0) {
        if (!count || strcmp(wanted, "host") != 0)
            targets[count++] = wanted;
        return count;
    }
    for (unsigned i = 0; (name = tv_llm_target_at(i)) && count < TARGETS_MAX; i++)
        if (strcmp(name, "host") != 0 ? wanted != NULL
                                      : !count && !(wanted && cli_has(j->c, "timing-only"))) /* which the host cannot */
            targets[count++] = name;
    return count;
}

static tv_status make_folder(job *j)
{
    const char *folder = cli_value(j->c, "emit");
    if (mkdir(folder, 0777) == 0 || errno == EEXIST)
        return TV_OK;
    cli_wrong(j->c, "the folder above it must be there", "cannot make the folder '%.200s': %s", folder,
              strerror(errno));
    return TV_ERR_IO;
}

static tv_status run_targets(job *j, outcome *list, unsigned *done, json_t *likenesses)
{
    const char *targets[TARGETS_MAX], *path = cli_value(j->c, "eval");
    unsigned count = list_targets(j, targets);
    tv_input text = {0};
    tv_status status = path ? tv_input_open(path, &j->c->sink, &text) : TV_OK;
    if (status == TV_OK && cli_has(j->c, "emit") && count > 1)
        status = make_folder(j);
    for (unsigned i = 0; i < count && status == TV_OK && !interrupted; i++) {
        if (!path && count > 1 && j->streaming)
            printf("%s--- %s\n", i ? "\n\n" : "", targets[i]);
        if (cli_has(j->c, "verify")) {
            status = verify(j, targets[i], likenesses);
            continue;
        }
        status = path ? evaluate(j, targets[i], &text, &list[i]) : generate(j, targets[i], &list[i]);
        *done += status == TV_OK;
    }
    if (text.data)
        tv_input_close(&text);
    return status;
}

static void print_outcomes(const job *j, const outcome *list, unsigned count)
{
    if (cli_has(j->c, "eval"))
        print_evaluated(list, count);
    else if (!j->c->quiet && count) {
        putchar('\n');
        print_generated(list, count);
        if (cli_has(j->c, "host-ops"))
            print_host_ops(list, count);
    }
}

static int run_model(job *j)
{
    outcome list[TARGETS_MAX];
    unsigned count = 0;
    struct sigaction action = {.sa_handler = on_interrupt,
                               .sa_flags = (int)SA_RESETHAND}; /* a second Ctrl-C ends everything */
    if (!cli_has(j->c, "eval") && !cli_has(j->c, "verify") && !cli_has(j->c, "timing-only"))
        sigaction(SIGINT, &action,
                  NULL); /* a text has a summary also where it is cut; of the others a part says nothing */
    j->streaming = !j->c->json;
    json_t *likenesses = json_array();
    tv_status status = run_targets(j, list, &count, likenesses);
    if (status != TV_OK) { /* what others have done is worth seeing */
        json_decref(likenesses);
        if (count && !j->c->json)
            print_outcomes(j, list, count);
        return cli_exit_status(status);
    }
    if (j->c->json && cli_has(j->c, "verify"))
        cli_print_json(j->c, json_pack("{s:s, s:O}", "status", "ok", "targets", likenesses));
    else if (j->c->json)
        cli_print_json(j->c, json_pack("{s:s, s:o}", "status", "ok", "targets", outcomes_json(list, count)));
    json_decref(likenesses);
    if (j->c->json)
        return CLI_DONE;
    print_outcomes(j, list, count);
    return CLI_DONE;
}

static int run(cli *c)
{
    job j = {.c = c};
    int result = read_options(&j);
    if (result != CLI_DONE)
        return result;
    tv_status status = tv_llm_open(c->files[0], &c->sink, &j.llm);
    if (status != TV_OK)
        return cli_exit_status(status);
    if (cli_has(c, "info"))
        tv_llm_print_info(j.llm, stdout);
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
    .about = "MODEL is a GGUF file of the llama architecture. The machine's own instructions compute the text; what "
             "they cost is said at the end.\n"
             "Without -t the host computes it. Ctrl-C ends the text, and the summary comes all the same.",
    .example = "  trivet llm models/shakespeare.gguf -t cmdq -p \"ROMEO:\" -n 200\n"
               "  trivet llm models/shakespeare.gguf -t all --eval text.txt -n 2000",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "cDj",
    .least = 1,
    .most = 1,
    .values = "FILE",
    .run = run,
};
