/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_commits.h"

/* Parses "reads,values". Returns false if a word is unknown. */
static bool parse_contents(const char *text, unsigned *contents)
{
    static const struct {
        const char *name;
        unsigned bits;
    } known[] = {{"before", TV_COMMIT_BEFORE},
                 {"reads", TV_COMMIT_READS},
                 {"values", TV_COMMIT_VALUES},
                 {"all", TV_COMMIT_BEFORE | TV_COMMIT_READS | TV_COMMIT_VALUES}};
    for (;;) {
        size_t n = strcspn(text, ","), i = 0;
        while (i < CLI_COUNTOF(known) && (strlen(known[i].name) != n || memcmp(known[i].name, text, n) != 0))
            i++;
        if (i == CLI_COUNTOF(known))
            return false;
        *contents |= known[i].bits;
        if (text[n] == '\0')
            return true;
        text += n + 1;
    }
}

static tv_status check_path(cli *c, const char *path)
{
    static const char *const others[] = {"trace", "perfetto", "report"};
    if (strcmp(path, "-") == 0) {
        cli_error(c, CLI_E_VALUE, "name a file; the other files can be standard output",
                  "the commit log cannot go to standard output");
        return TV_ERR_INPUT;
    }
    if (cli_overwrites_input(c, "commit log", path))
        return TV_ERR_INPUT;
    for (unsigned i = 0; i < CLI_COUNTOF(others); i++) {
        const char *other = cli_value(c, others[i]);
        if (other && (strcmp(other, path) == 0 || cli_same_file(other, path))) {
            cli_error(c, CLI_E_SAME_FILE, "choose another name for one of them",
                      "--commit-log and --%s cannot both go to '%s'", others[i], path);
            return TV_ERR_INPUT;
        }
    }
    return TV_OK;
}

/* Opens the log that the options ask for; adds its contents to *contents. */
static tv_status open_log(run_commits *log, cli *c, unsigned *contents)
{
    const char *path = cli_value(c, "commit-log"), *list = cli_value(c, "commit-contents");
    if (list && !path) {
        cli_error(c, CLI_E_CONFLICT, "give --commit-log FILE, too", "--commit-contents applies to --commit-log");
        return TV_ERR_INPUT;
    }
    if (!path)
        return TV_OK;
    if (list && !parse_contents(list, contents)) {
        cli_error(c, CLI_E_VALUE, "for example reads,values", "--commit-contents cannot be '%s'", list);
        return TV_ERR_INPUT;
    }
    if (!cli_has(c, "functional"))
        *contents |= TV_COMMIT_CYCLES;
    tv_status status = check_path(c, path);
    return status == TV_OK ? tv_commit_log_open(path, tv_commit_log_format_of(path), tv_machine_config(log->machine),
                                                &c->sink, &log->writer)
                           : status;
}

static bool is_open(const run_commits *log) { return log->writer || log->other.commit; }

static void send_to_all(void *user, const tv_commit *commit)
{
    const run_commits *log = user;
    if (log->writer)
        tv_commit_log_write(log->writer, commit);
    if (log->other.commit)
        log->other.commit(log->other.user, commit);
}

tv_status run_commits_open(run_commits *log, cli *c, tv_machine *machine, const tv_commit_sink *other)
{
    unsigned contents = TV_COMMIT_WRITES;
    *log = (run_commits){.machine = machine, .other = other ? *other : (tv_commit_sink){0}};
    tv_status status = open_log(log, c, &contents);
    if (status == TV_OK && is_open(log))
        status = tv_machine_commits(machine, contents, &(tv_commit_sink){send_to_all, log});
    if (status != TV_OK)
        run_commits_abandon(log);
    return status;
}

tv_status run_commits_finish(run_commits *log, tv_output_group *group, const tv_diag_sink *sink)
{
    tv_commit_log_writer *writer = log->writer;
    if (!is_open(log))
        return TV_OK;
    tv_status status = tv_machine_commits(log->machine, 0, NULL);
    *log = (run_commits){0};
    if (status == TV_OK && writer)
        return tv_commit_log_finish(writer, group, sink);
    tv_commit_log_abandon(writer);
    return status;
}

void run_commits_abandon(run_commits *log)
{
    if (is_open(log))
        tv_machine_commits(log->machine, 0, NULL);
    tv_commit_log_abandon(log->writer);
    *log = (run_commits){0};
}
