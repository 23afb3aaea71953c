/* SPDX-License-Identifier: Apache-2.0 */
/* A session of `trivet llm` on one target: generated text, timing, evaluation, comparison with the host. */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/llm_job.h"
#include "cli/run_outputs.h"

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
static void catch_interrupts(const llm_job *j)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    if (!cli_has(j->c, "verify"))
        sigaction(SIGINT, &action, NULL);
}

bool llm_is_interrupted(void) { return interrupted; }

/* Nonzero ends the work. */
static int show_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    llm_job *j = user;
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

tv_status llm_open_session(llm_job *j, const char *target, const char *sample, tv_config **config,
                           tv_llm_session **session)
{
    char emit[4096];
    *config = NULL;
    *session = NULL;
    bool all = llm_is_all_targets(j), host = strcmp(target, "host") == 0;
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
                          .measure_weights = cli_has(j->c, "quantization"),
                          .allow_host_ops = cli_has(j->c, "allow-host-ops"),
                          .sample = sample,
                          .progress = {show_progress, j},
                          .outputs = outputs};
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

void llm_flush_text(llm_job *j)
{
    tv_text_print(j->text, j->character, j->character_bytes, TV_TEXT_KEEP_LINES);
    j->character_bytes = 0;
}

/* Prints generated text on a terminal, made safe. A character may come in several pieces. */
static void print_on_terminal(llm_job *j, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if ((c & 0xC0) != 0x80)
            llm_flush_text(j);
        j->character[j->character_bytes++] = bytes[i];
        unsigned char lead = (unsigned char)j->character[0];
        if (j->character_bytes >= (lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4))
            llm_flush_text(j);
    }
}

int llm_print_text(void *user, const char *bytes, size_t size)
{
    llm_job *j = user;
    cli_progress_hide(&j->progress);
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
static tv_status open_outputs(llm_job *j, const char *target, tv_machine *machine, run_outputs *outputs)
{
    const char *model = strrchr(j->c->files[0], '/');
    char title[256];
    if (!machine && (llm_is_all_targets(j) || !has_run_outputs(j->c)))
        return TV_OK;
    if (!machine) {
        cli_error(j->c, CLI_E_CONFLICT, "give -t with a machine", "the host has no cycles to trace or report");
        return TV_ERR_INPUT;
    }
    snprintf(title, sizeof title, "%s on %s", model ? model + 1 : j->c->files[0], target);
    return run_outputs_open(outputs, j->c, title, llm_is_all_targets(j) ? target : NULL, machine);
}

/* The tokens after the prompt of --timing-only. The default is limited by the context; -n is not: it is rejected. */
static uint32_t timed_tokens(const llm_job *j)
{
    uint32_t context = j->context ? j->context : tv_llm_context(j->llm),
             room = context > j->prompt_tokens ? context - j->prompt_tokens : 0;
    return j->tokens > room && !cli_has(j->c, "tokens") ? room : j->tokens;
}

/* Generates text, or computes its timing. */
static tv_status run_session(llm_job *j, tv_llm_session *session, const char *target, llm_outcome *out)
{
    const char *prompt = cli_value(j->c, "prompt");
    run_outputs outputs = {0};
    tv_status status = open_outputs(j, target, tv_llm_session_machine(session), &outputs);
    cli_progress_begin(j->c, &j->progress);
    if (status == TV_OK && cli_has(j->c, "timing-only"))
        status = tv_llm_time(session, j->prompt_tokens, timed_tokens(j), &j->c->sink);
    else if (status == TV_OK && cli_has(j->c, "chat"))
        status = llm_run_conversation(j, session, out);
    else if (status == TV_OK)
        status =
            tv_llm_generate(session, prompt ? prompt : "", j->tokens, &j->sampling, llm_print_text, j, &j->c->sink);
    cli_progress_end(&j->progress);
    llm_flush_text(j);
    tv_output_group *files = NULL;
    if (status == TV_OK)
        status = cli_outputs(j->c, &files);
    if (status == TV_OK)
        status = run_outputs_finish(&outputs, files);
    else
        run_outputs_abandon(&outputs);
    return status;
}

/* Runs a session; with --json its text goes into the result. A conversation has a text for each answer. */
static tv_status run_session_to(llm_job *j, tv_llm_session *session, const char *target, llm_outcome *out)
{
    size_t size;
    bool in_memory = !j->streaming && !cli_has(j->c, "chat");
    j->on_terminal = j->streaming && isatty(STDOUT_FILENO);
    j->text = in_memory ? open_memstream(&out->text, &size) : stdout;
    if (!j->text)
        return TV_ERR_MEMORY;
    tv_status status = run_session(j, session, target, out);
    if (in_memory && fclose(j->text) != 0 && status == TV_OK)
        status = TV_ERR_MEMORY;
    return status;
}

bool llm_warn_full_context(llm_job *j, const tv_llm_summary *s)
{
    uint32_t context = j->context ? j->context : tv_llm_context(j->llm);
    char message[160];
    if (!cli_has(j->c, "tokens") || cli_has(j->c, "chat") || interrupted || s->prompt_tokens + s->tokens < context ||
        j->tokens <= s->tokens + 1)
        return false;
    snprintf(message, sizeof message, "the context of %u tokens is full: the text ends after %u of %u tokens", context,
             s->tokens + 1, j->tokens);
    cli_warn(j->c, "TV-L042", "the prompt and -n have to fit the context", message);
    return true;
}

/* Adds the operations that the host executed to the outcome. */
static tv_status list_host_ops(const tv_llm_session *session, llm_outcome *out)
{
    tv_llm_host_op op;
    for (unsigned i = 0; tv_llm_host_op_at(session, i, &op); i++) {
        if (op.count == 0)
            continue;
        tv_llm_host_op *more = realloc(out->host_ops, (out->host_op_count + 1) * sizeof *more);
        if (!more)
            return TV_ERR_MEMORY;
        out->host_ops = more;
        more[out->host_op_count++] = op;
    }
    return TV_OK;
}

/* Takes the results of a session over into the outcome, and ends it. */
static tv_status close_session(llm_job *j, tv_llm_session *session, tv_config *config, llm_outcome *out)
{
    tv_status status = TV_OK;
    if (session) {
        tv_stats stats = {.size = sizeof stats};
        tv_llm_session_summary(session, &out->summary);
        if (out->summary.machine && !cli_has(j->c, "eval"))
            tv_machine_stats(out->summary.machine, &stats);
        if (config)
            cli_check_validation(j->c, config, stats.cycles);
        snprintf(out->bound_by, sizeof out->bound_by, "%s", stats.bound_by);
        status = list_host_ops(session, out);
        out->summary.machine = NULL;
    }
    tv_llm_session_free(session);
    tv_config_free(config);
    return status;
}

/* Computes the negative log-likelihood of a text. */
static tv_status evaluate_text(llm_job *j, const tv_input *text, tv_llm_session *session, llm_outcome *out)
{
    cli_progress_begin(j->c, &j->progress);
    tv_status status =
        tv_llm_eval(session, (const char *)text->data, text->size, j->tokens, &out->likelihood, &j->c->sink);
    cli_progress_end(&j->progress);
    return status;
}

/* Compares each layer with the host. */
static tv_status verify_layers(llm_job *j, tv_llm_session *session, llm_outcome *out)
{
    const char *prompt = cli_value(j->c, "prompt");
    cli_progress_begin(j->c, &j->progress);
    tv_status status = tv_llm_verify(session, prompt ? prompt : "To be, or not to be: that is the question.", j->tokens,
                                     &out->layers, &out->layer_count, &j->c->sink);
    cli_progress_end(&j->progress);
    return status;
}

tv_status llm_run_target(llm_job *j, const char *target, const tv_input *text, llm_outcome *out)
{
    bool evaluates = cli_has(j->c, "eval"), verifies = cli_has(j->c, "verify");
    tv_config *config;
    tv_llm_session *session;
    tv_status status = llm_open_session(j, target, evaluates ? NULL : cli_value(j->c, "prompt"), &config, &session);
    *out = (llm_outcome){.target = target,
                         .summary.size = sizeof out->summary,
                         .likelihood.size = sizeof out->likelihood,
                         .skipped = interrupted && !verifies};
    if (status == TV_OK && verifies)
        status = verify_layers(j, session, out);
    else if (status == TV_OK && !out->skipped)
        status = evaluates ? evaluate_text(j, text, session, out) : run_session_to(j, session, target, out);
    tv_status closed = close_session(j, session, config, out);
    return status == TV_OK ? closed : status;
}
