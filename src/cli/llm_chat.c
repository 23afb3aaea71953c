/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations of `trivet llm --chat`. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "cli/llm_job.h"

enum { LINE_MAX_BYTES = 1 << 20 };

typedef struct conversation {
    llm_job *j;
    tv_llm_session *session;
    llm_outcome *out;
    uint64_t messages;
    bool full; /* the context has no room for another turn */
} conversation;

/* Warns when the context has become full, which ends the answer and the conversation. */
static void check_context(conversation *v)
{
    llm_job *j = v->j;
    tv_llm_summary s = {.size = sizeof s};
    char message[96];
    uint32_t context = j->context ? j->context : tv_llm_context(j->llm);
    tv_llm_session_summary(v->session, &s);
    v->full = s.prompt_tokens + s.tokens >= context;
    if (!v->full || llm_is_interrupted())
        return;
    snprintf(message, sizeof message, "the context of %u tokens is full: the conversation ends", context);
    cli_warn(j->c, "TV-L042", "--context can be up to the positions of the model", message);
}

static tv_status answer_message(conversation *v, const char *message)
{
    llm_job *j = v->j;
    tv_llm_sampling sampling = j->sampling;
    sampling.seed += v->messages++; /* answers do not repeat each other's random numbers */
    tv_llm_message own = {.size = sizeof own,
                          .text = message,
                          .system = cli_value(j->c, "system"),
                          .chat_template = cli_value(j->c, "chat-template"),
                          .count = j->tokens};
    cli_progress_begin(j->c, &j->progress);
    tv_status status = tv_llm_answer(v->session, &own, &sampling, llm_print_text, j, &j->c->sink);
    cli_progress_end(&j->progress);
    llm_flush_text(j);
    if (status == TV_OK)
        check_context(v);
    return status;
}

/* Answers a message and adds both to the outcome, for --json. */
static tv_status record_answer(conversation *v, const char *message)
{
    llm_outcome *out = v->out;
    size_t size;
    llm_exchange *more = realloc(out->exchanges, (out->exchange_count + 1) * sizeof *more);
    if (!more)
        return TV_ERR_MEMORY;
    out->exchanges = more;
    llm_exchange *exchange = &more[out->exchange_count++];
    *exchange = (llm_exchange){.message = strdup(message)};
    v->j->text = open_memstream(&exchange->answer, &size);
    if (!v->j->text)
        return TV_ERR_MEMORY;
    tv_status status = answer_message(v, message);
    if (fclose(v->j->text) != 0 || !exchange->answer || !exchange->message) /* fclose allocates the answer */
        status = TV_ERR_MEMORY;
    return status;
}

static tv_status run_message(conversation *v, const char *message)
{
    return v->j->streaming ? answer_message(v, message) : record_answer(v, message);
}

/* Waits for input, so that Ctrl-C ends a conversation that waits for a line. False: it did. */
static bool wait_for_line(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return !llm_is_interrupted() && poll(&input, 1, -1) > 0 && !llm_is_interrupted();
}

/* Reads a line without its end into `line`, of LINE_MAX_BYTES + 1 bytes. False: there is no further one. */
static bool read_line(llm_job *j, char *line, tv_status *status)
{
    size_t n = 0;
    int c = getc(stdin);
    if (c == EOF)
        return false;
    for (; c != EOF && c != '\n'; c = getc(stdin)) {
        if (n == LINE_MAX_BYTES || c == 0) {
            cli_error(j->c, CLI_E_VALUE, "a message is a line of text of at most 1 MiB", "standard input has %s",
                      c ? "a line that is too long" : "a zero byte");
            *status = TV_ERR_INPUT;
            return false;
        }
        line[n++] = (char)c;
    }
    n -= n > 0 && line[n - 1] == '\r';
    line[n] = '\0';
    return true;
}

static tv_status run_lines(conversation *v)
{
    bool asks = v->j->streaming && isatty(STDIN_FILENO);
    char *line = malloc(LINE_MAX_BYTES + 1);
    tv_status status = line ? TV_OK : TV_ERR_MEMORY;
    while (status == TV_OK && !v->full && !llm_is_interrupted()) {
        if (asks) {
            printf("> ");
            fflush(stdout);
        }
        if ((asks && !wait_for_line()) || !read_line(v->j, line, &status))
            break;
        if (line[strspn(line, " \t")] == '\0')
            continue;
        status = run_message(v, line);
        if (v->j->streaming && status == TV_OK)
            printf("\n%s", asks ? "\n" : "");
    }
    if (status == TV_OK && ferror(stdin)) {
        cli_error(v->j->c, CLI_E_FILE, NULL, "standard input: %s", strerror(errno));
        status = TV_ERR_IO;
    }
    free(line);
    return status;
}

tv_status llm_run_conversation(llm_job *j, tv_llm_session *session, llm_outcome *out)
{
    conversation v = {.j = j, .session = session, .out = out};
    const char *message = cli_value(j->c, "prompt");
    out->conversation = !message;
    return message ? run_message(&v, message) : run_lines(&v);
}
