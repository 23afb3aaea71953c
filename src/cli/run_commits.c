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

tv_status run_commits_open(run_commits *log, cli *c, tv_machine *machine)
{
    const char *path = cli_value(c, "commit-log"), *list = cli_value(c, "commit-contents");
    unsigned contents = TV_COMMIT_WRITES;
    *log = (run_commits){.machine = machine};
    if (list && !path) {
        cli_error(c, CLI_E_CONFLICT, "give --commit-log FILE, too", "--commit-contents applies to --commit-log");
        return TV_ERR_INPUT;
    }
    if (!path)
        return TV_OK;
    if (list && !parse_contents(list, &contents)) {
        cli_error(c, CLI_E_VALUE, "for example reads,values", "--commit-contents cannot be '%s'", list);
        return TV_ERR_INPUT;
    }
    if (!cli_has(c, "functional"))
        contents |= TV_COMMIT_CYCLES;
    tv_status status = check_path(c, path);
    if (status == TV_OK)
        status =
            tv_commit_log_open(path, tv_commit_log_format_of(path), tv_machine_config(machine), &c->sink, &log->writer);
    if (status != TV_OK)
        return status;
    tv_commit_sink sink = tv_commit_log_sink(log->writer);
    status = tv_machine_commits(machine, contents, &sink);
    if (status != TV_OK)
        run_commits_abandon(log);
    return status;
}

tv_status run_commits_finish(run_commits *log, tv_output_group *group, const tv_diag_sink *sink)
{
    if (!log->writer)
        return TV_OK;
    tv_commit_log_writer *writer = log->writer;
    tv_status status = tv_machine_commits(log->machine, 0, NULL);
    log->writer = NULL;
    if (status == TV_OK)
        return tv_commit_log_finish(writer, group, sink);
    tv_commit_log_abandon(writer);
    return status;
}

void run_commits_abandon(run_commits *log)
{
    if (log->writer)
        tv_machine_commits(log->machine, 0, NULL);
    tv_commit_log_abandon(log->writer);
    log->writer = NULL;
}
