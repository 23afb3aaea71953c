/* SPDX-License-Identifier: Apache-2.0 */
/* trivet debug: reads debugger commands from a terminal, scripts or standard input, and prints their results. */
#include <errno.h>
#include <histedit.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/memory_load.h"

static const cli_option options[] = {
    {"script", 'x', "FILE", "execute the commands of a file first; may be repeated", "FILE"},
    MEMORY_LOAD_OPTION,
    {"dap", 0, NULL, "serve the Debug Adapter Protocol on standard input and output, for editors", NULL},
    {"snapshot-memory", 0, "BYTES", "memory for reverse execution (default 1Gi); suffix Ki, Mi or Gi", NULL},
    {"functional", 0, NULL, "compute data, but no cycles", NULL},
    {"timing-only", 0, NULL, "compute cycles, but no data", NULL},
    {"threads", 0, "N", "host threads (default 1); results are identical", NULL},
};

typedef struct frontend {
    cli *c;
    tv_config *config;
    const tv_program **programs;
    unsigned count;
    tv_debug *debug;
    EditLine *editor;
    char prompt[80];
    char *repeat; /* command that an empty line executes; NULL: none */
    bool failed, quit;
} frontend;

/* Ctrl-C ends a run, not the debugger. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static int poll_interrupt(void *user)
{
    (void)user;
    return interrupted;
}

/* ---- Set-up ---- */

static bool parse_size(const char *text, uint64_t *out)
{
    static const char *const suffixes[] = {"Ki", "Mi", "Gi"};
    char number[32];
    size_t n = strlen(text);
    unsigned shift = 0;
    for (unsigned i = 0; i < CLI_COUNTOF(suffixes) && n > 2; i++)
        if (strcmp(text + n - 2, suffixes[i]) == 0)
            shift = 10 * (i + 1);
    snprintf(number, sizeof number, "%.*s", (int)(shift ? n - 2 : n), text);
    if (!cli_parse_number(number, out) || *out == 0 || *out > UINT64_MAX >> 1 >> shift)
        return false;
    *out <<= shift;
    return true;
}

static tv_status parse_options(frontend *f, tv_debug_options *out)
{
    cli *c = f->c;
    const char *memory = cli_value(c, "snapshot-memory"), *threads = cli_value(c, "threads");
    uint64_t number = 1;
    *out = (tv_debug_options){.size = sizeof(tv_debug_options), .poll = poll_interrupt};
    out->mode = cli_has(c, "functional")    ? TV_MODE_FUNCTIONAL
                : cli_has(c, "timing-only") ? TV_MODE_TIMING
                                            : TV_MODE_FULL;
    if (cli_has(c, "functional") && cli_has(c, "timing-only"))
        cli_error(c, CLI_E_CONFLICT, "omit both for data and cycles",
                  "--functional and --timing-only are mutually exclusive");
    else if (memory && !parse_size(memory, &out->snapshot_memory))
        cli_error(c, CLI_E_VALUE, "for example --snapshot-memory 256Mi", "--snapshot-memory cannot be '%s'", memory);
    else if (threads && (!cli_parse_number(threads, &number) || number < 1 || number > 256))
        cli_error(c, CLI_E_VALUE, "1 to 256", "--threads cannot be '%s'", threads);
    else {
        out->threads = (unsigned)number;
        return TV_OK;
    }
    return TV_ERR_INPUT;
}

static tv_status load_file(frontend *f, const char *text)
{
    char where[RANGE_TEXT];
    const char *path;
    tv_status status = memory_load_split(f->c, tv_debug_machine(f->debug), text, where, &path);
    return status == TV_OK ? tv_debug_load(f->debug, where, path, &f->c->sink) : status;
}

static tv_status open_session(frontend *f)
{
    cli *c = f->c;
    tv_debug_options debug_options;
    const char *text;
    tv_status status = parse_options(f, &debug_options);
    if (status != TV_OK)
        return status;
    f->programs = calloc(c->file_count, sizeof *f->programs);
    if (!f->programs)
        return TV_ERR_MEMORY;
    for (unsigned i = 0; i < c->file_count; i++) {
        tv_program *program;
        status = cli_open_program(c, c->files[i], &program);
        if (status != TV_OK)
            return status;
        f->programs[f->count++] = program;
    }
    status = cli_make_program_config(c, f->programs[0], &f->config);
    if (status == TV_OK)
        status = tv_debug_new(f->config, f->programs, f->count, &debug_options, &c->sink, &f->debug);
    for (unsigned i = 0; status == TV_OK && (text = cli_value_at(c, "load", i)); i++)
        status = load_file(f, text);
    return status;
}

static void close_session(frontend *f)
{
    tv_debug_free(f->debug);
    tv_config_free(f->config);
    for (unsigned i = 0; i < f->count; i++)
        tv_program_free((tv_program *)(uintptr_t)f->programs[i]);
    free(f->programs);
    free(f->repeat);
}

/* ---- Lines ---- */

static void print_answer(frontend *f, tv_debug_answer *answer)
{
    if (!answer->json || !answer->text)
        cli_fail_memory(f->c);
    else if (f->c->json)
        printf("%s\n", answer->json);
    else
        tv_text_print(stdout, answer->text, strlen(answer->text), TV_TEXT_KEEP_LINES);
    fflush(stdout);
    f->quit |= answer->quit != 0;
    free(f->repeat);
    f->repeat = answer->repeat;
    answer->repeat = NULL;
    tv_debug_answer_free(answer);
}

static const char *make_prompt(frontend *f)
{
    tv_debug_location location;
    tv_debug_current_location(f->debug, &location);
    char where[24] = "end", cycle[24] = "";
    if (!location.end)
        snprintf(where, sizeof where, "%" PRIu64, location.index);
    if (!cli_has(f->c, "functional"))
        snprintf(cycle, sizeof cycle, " @%" PRIu64, tv_machine_clock(tv_debug_machine(f->debug)));
    snprintf(f->prompt, sizeof f->prompt, "(trivet %s%s) ", where, cycle);
    return f->prompt;
}

static tv_status run_line(frontend *f, const char *line, bool echo)
{
    tv_debug_answer answer;
    interrupted = 0;
    if (echo && !f->c->json) {
        fputs(make_prompt(f), stdout);
        cli_print_line(stdout, line);
    }
    tv_status status = tv_debug_command(f->debug, line, f->c->json ? NULL : &f->c->sink, &answer);
    print_answer(f, &answer);
    f->failed |= status != TV_OK;
    if (status == TV_ERR_MEMORY)
        cli_fail_memory(f->c);
    return status;
}

static tv_status run_stream(frontend *f, FILE *in, bool stop_on_error)
{
    char *line = NULL;
    size_t size = 0;
    tv_status status = TV_OK;
    errno = 0;
    for (ssize_t n;
         !f->quit && !f->c->no_memory && !(stop_on_error && status != TV_OK) && (n = getline(&line, &size, in)) >= 0;) {
        while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = '\0';
        status = run_line(f, line, f->c->verbose);
        errno = 0;
    }
    if (status == TV_OK && !f->quit && errno == ENOMEM)
        status = TV_ERR_MEMORY;
    free(line);
    return status;
}

static tv_status run_script(frontend *f, const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in && errno == ENOMEM)
        return TV_ERR_MEMORY;
    if (!in) {
        tv_status status = errno == EMFILE || errno == ENFILE || errno == EIO ? TV_ERR_IO : TV_ERR_INPUT;
        cli_error(f->c, CLI_E_FILE, NULL, "cannot open the script '%s': %s", path, strerror(errno));
        return status;
    }
    tv_status status = run_stream(f, in, true);
    if (status == TV_OK && ferror(in)) { /* directories can be opened, but not read */
        status = errno == EISDIR ? TV_ERR_INPUT : TV_ERR_IO;
        cli_error(f->c, CLI_E_FILE, NULL, "cannot read the script '%s': %s", path, strerror(errno));
    }
    fclose(in);
    return status;
}

/* ---- The terminal ---- */

static char *get_prompt(EditLine *editor)
{
    frontend *f;
    el_get(editor, EL_CLIENTDATA, &f);
    return f->prompt;
}

/* Length of the common prefix of the lines in `list`, at most `first`. */
static size_t common_prefix_length(const char *list, size_t first)
{
    size_t n = first;
    for (const char *p = list; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        size_t k = 0;
        while (k < n && p[k] == list[k])
            k++;
        n = k;
    }
    return n;
}

static unsigned char complete_line(EditLine *editor, int key)
{
    frontend *f;
    (void)key;
    el_get(editor, EL_CLIENTDATA, &f);
    const LineInfo *info = el_line(editor);
    char line[512];
    snprintf(line, sizeof line, "%.*s", (int)(info->cursor - info->buffer), info->buffer);
    char *list = tv_debug_complete(f->debug, line);
    if (!list || !*list) {
        free(list);
        return CC_ERROR;
    }
    size_t typed = strlen(line), first = strcspn(list, "\n");
    while (typed && line[typed - 1] != ' ')
        typed--;
    typed = strlen(line) - typed;
    size_t common = common_prefix_length(list, first);
    bool one = list[first] == '\n' && list[first + 1] == '\0', more = common > typed;
    char insert[256];
    snprintf(insert, sizeof insert, "%.*s%s", more ? (int)(common - typed) : 0, list + typed,
             one && list[first - 1] != ':' ? " " : "");
    if (*insert)
        el_insertstr(editor, insert);
    else { /* several candidates without a longer common prefix */
        for (char *p = list; *p; p++)
            *p = *p == '\n' ? ' ' : *p;
        printf("\n%s\n", list);
        fflush(stdout);
    }
    free(list);
    return *insert ? CC_REFRESH : CC_REDISPLAY;
}

static void run_terminal(frontend *f)
{
    History *lines = history_init();
    HistEvent event;
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    setlocale(LC_CTYPE, ""); /* file names need not be ASCII */
    f->editor = el_init("trivet", stdin, stdout, stderr);
    sigaction(SIGINT, &action, &before);
    history(lines, &event, H_SETSIZE, 1000);
    history(lines, &event, H_SETUNIQUE, 1);
    el_set(f->editor, EL_CLIENTDATA, f);
    el_set(f->editor, EL_EDITOR, "emacs");
    el_set(f->editor, EL_PROMPT, get_prompt);
    el_set(f->editor, EL_HIST, history, lines);
    el_set(f->editor, EL_ADDFN, "trivet-complete", "complete a command", complete_line);
    el_set(f->editor, EL_BIND, "^I", "trivet-complete", NULL);
    while (!f->quit) {
        int n;
        make_prompt(f);
        interrupted = 0;
        errno = 0;
        const char *text = el_gets(f->editor, &n);
        if (!text && errno == EINTR) {
            putchar('\n');
            continue;
        }
        if (!text || n <= 0) {
            putchar('\n');
            break;
        }
        size_t length = strcspn(text, "\r\n");
        char *line = length || !f->repeat ? strndup(text, length) : strdup(f->repeat);
        if (!line)
            break;
        if (length)
            history(lines, &event, H_ENTER, line);
        run_line(f, line, false);
        free(line);
    }
    sigaction(SIGINT, &before, NULL);
    history_end(lines);
    el_end(f->editor);
}

/* ---- The end ---- */

/* Ends a trace that no `trace off` has ended. main puts its file in place after everything has been printed; a failed
 * command of a script, whose exit status leaves no files of main, does not lose it. */
static int end_trace(frontend *f, int result)
{
    tv_output_group *group = NULL;
    tv_status status = TV_OK;
    if (result == CLI_FAILED || f->c->no_memory) {
        tv_debug_abandon_trace(f->debug);
        return result;
    }
    if (result != CLI_INVALID)
        status = cli_outputs(f->c, &group);
    if (status == TV_OK)
        status = tv_debug_finish_trace(f->debug, group, &f->c->sink);
    else
        tv_debug_abandon_trace(f->debug);
    return status == TV_OK ? result : CLI_FAILED;
}

/* ---- The protocol ---- */

typedef struct dap_stream {
    bool read_failed;
} dap_stream;

static void dap_write(void *user, const void *bytes, size_t size)
{
    (void)user;
    fwrite(bytes, 1, size, stdout);
    fflush(stdout);
}

static size_t dap_read(void *user, void *bytes, size_t size, int wait)
{
    dap_stream *stream = user;
    struct pollfd ends[] = {{.fd = STDOUT_FILENO}, {.fd = STDIN_FILENO, .events = POLLIN}};
    int available = wait ? 0 : poll(ends, CLI_COUNTOF(ends), 0);
    if (available > 0 && ends[0].revents & (POLLERR | POLLNVAL)) /* the editor has exited */
        return TV_DAP_CLOSED;
    if (!wait && (available <= 0 || !ends[1].revents))
        return 0;
    ssize_t n;
    do
        n = read(STDIN_FILENO, bytes, size);
    while (n < 0 && errno == EINTR);
    stream->read_failed |= n < 0;
    return n > 0 ? (size_t)n : 0;
}

static int run_dap(cli *c)
{
    if (c->file_count)
        return cli_error(c, CLI_E_COUNT, "the editor names the program in its launch request", "--dap takes no files");
    dap_stream stream = {false};
    tv_status status = tv_dap_serve(&(tv_dap_io){dap_write, dap_read, &stream}, &c->sink);
    if (!stream.read_failed || status == TV_ERR_MEMORY)
        return cli_exit_status(status);
    cli_error(c, CLI_E_DIRECTORY, NULL, "cannot read standard input");
    return CLI_FAILED;
}

static int run_debug(cli *c)
{
    frontend f = {.c = c};
    const char *script;
    if (cli_has(c, "dap"))
        return run_dap(c);
    if (!c->file_count)
        return cli_error(c, CLI_E_COUNT, "trivet debug FILE, or trivet debug --dap", "there is no program to debug");
    tv_status status = open_session(&f);
    if (status != TV_OK) {
        close_session(&f);
        return cli_exit_status(status);
    }
    c->raw_output = true; /* with --json each command prints an object of its own */
    if (!c->quiet) {
        tv_debug_answer answer;
        tv_debug_describe_stop(f.debug, &(tv_debug_stop){.reason = TV_DEBUG_START}, &answer);
        print_answer(&f, &answer);
    }
    for (unsigned i = 0; status == TV_OK && !f.quit && (script = cli_value_at(c, "script", i)); i++)
        status = run_script(&f, script);
    bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !c->json;
    if (status == TV_OK && !f.quit && terminal)
        run_terminal(&f);
    else if (status == TV_OK && !f.quit)
        status = run_stream(&f, stdin, false) == TV_ERR_MEMORY ? TV_ERR_MEMORY : TV_OK;
    int result = status != TV_OK                               ? cli_exit_status(status)
                 : terminal                                    ? CLI_OK
                 : f.failed                                    ? CLI_INVALID
                 : tv_machine_fault(tv_debug_machine(f.debug)) ? CLI_FAULT
                                                               : CLI_OK;
    result = end_trace(&f, result);
    close_session(&f);
    return result;
}

const cli_command cli_debug = {
    .name = "debug",
    .usage = "debug FILE … [options] | --dap",
    .summary = "debug programs, with stepping forwards and backwards",
    .about = "Reads commands from the terminal, from scripts (-x) or from standard input; `help` lists them. On a "
             "terminal, Tab completes, the arrow\n"
             "keys recall earlier lines, and Ctrl-C interrupts a run. -v echoes commands from scripts and standard "
             "input. With --json each result is one\n"
             "JSON object on a line of its own. --dap serves editors: docs/debugger.md has a launch.json for VS Code.",
    .example = "  trivet debug softmax.s\n"
               "  printf 'break opcode cvo.exp\\ncontinue\\nwhy\\n' | trivet debug softmax.s   # commands from a pipe\n"
               "  trivet debug ffn.json -c mobile -x commands.txt --json",
    .options = options,
    .option_count = CLI_COUNTOF(options),
    .common = "tcDIdj",
    .files_min = 0,
    .files_max = 4096,
    .values = "FILE",
    .run = run_debug,
};
